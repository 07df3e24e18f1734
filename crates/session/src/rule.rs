//! Rules: what is allowed, as data judged by pure functions.
//!
//! The wildcard and the order are OpenCode's: the last rule whose key and pattern match wins, no match asks.
//! Knows nothing of files, shells or people; what a call touches comes from the tool's look.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::text::clip;

/// What an event keeps of one touch; a shell command may be as long as a file.
const TOUCH_BYTES_MAX: usize = 512;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    // In order of strictness: the strictest of several is their maximum.
    Allow,
    Ask,
    Deny,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// What kind of touch: `edit`, `bash`, `*`. A glob.
    pub key: String,
    pub pattern: String,
    pub action: Verdict,
    /// Where it was written: `built-in`, `posse.json:4`, `--deny`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub origin: String,
}

/// One thing a call would reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touch {
    pub key: String,
    pub pattern: String,
}

impl Touch {
    pub fn new(key: impl Into<String>, pattern: impl Into<String>) -> Self {
        Self { key: key.into(), pattern: pattern.into() }
    }

    /// As it is recorded. The verdict was on the whole of it, and the call's input has it whole.
    pub(crate) fn clipped(self) -> Self {
        Self { pattern: clip(self.pattern, TOUCH_BYTES_MAX), ..self }
    }
}

/// A verdict and the rule that gave it; recorded, so that `why` can tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    pub verdict: Verdict,
    /// What it was about; absent when a call touches nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub touch: Option<Touch>,
    /// `key(pattern)` of the winning rule; absent when none matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub origin: String,
}

impl Decision {
    pub fn allow() -> Self {
        Self { verdict: Verdict::Allow, touch: None, rule: None, origin: String::new() }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rules(pub Vec<Rule>);

impl Rules {
    /// The rules of a `permission` value: a string means every key, a map keeps its order.
    pub fn from_config(value: &Value, home: &str, origin: &str) -> Result<Self, String> {
        let mut rules = Vec::new();
        let mut add = |key: &str, pattern: &str, action: &Value| -> Result<(), String> {
            let action = match action.as_str() {
                Some("allow") => Verdict::Allow,
                Some("ask") => Verdict::Ask,
                Some("deny") => Verdict::Deny,
                _ => return Err(format!("permission.{key}: expected \"allow\", \"ask\" or \"deny\", found {action}")),
            };
            rules.push(Rule { key: key.to_owned(), pattern: at_home(pattern, home), action, origin: origin.to_owned() });
            Ok(())
        };
        match value {
            Value::String(_) => add("*", "*", value)?,
            Value::Object(keys) => {
                for (key, value) in keys {
                    match value {
                        Value::Object(patterns) => patterns.iter().try_for_each(|(pattern, action)| add(key, pattern, action))?,
                        action => add(key, "*", action)?,
                    }
                }
            }
            other => return Err(format!("permission: expected a string or an object, found {other}")),
        }
        Ok(Self(rules))
    }

    /// The last rule that matches.
    pub fn matching(&self, touch: &Touch) -> Option<&Rule> {
        self.0.iter().rev().find(|rule| wildcard(&touch.key, &rule.key) && wildcard(&touch.pattern, &rule.pattern))
    }

    pub fn judge(&self, touch: &Touch) -> Decision {
        match self.matching(touch) {
            Some(rule) => Decision {
                verdict: rule.action,
                touch: Some(touch.clone()),
                rule: Some(format!("{}({})", rule.key, rule.pattern)),
                origin: rule.origin.clone(),
            },
            None => Decision { verdict: Verdict::Ask, touch: Some(touch.clone()), rule: None, origin: String::new() },
        }
    }

    /// Whether the tool of this key is taken out of the request: the last rule whose key matches denies everything.
    pub fn disables(&self, key: &str) -> bool {
        let last = self.0.iter().rev().find(|rule| wildcard(key, &rule.key));
        last.is_some_and(|rule| rule.pattern == "*" && rule.action == Verdict::Deny)
    }

    pub fn then(mut self, later: Self) -> Self {
        self.0.extend(later.0);
        self
    }
}

/// The rule key a tool is judged and removed by.
pub fn key_of(tool: &str) -> &str {
    match tool {
        "edit" | "write" | "multi_edit" | "apply_patch" => "edit",
        "webfetch" | "websearch" => "webfetch",
        other => other,
    }
}

/// The strictest decision over everything a call touches: today's rules and every ceiling, each judged whole.
/// A ceiling's allow lifts nothing. A call that touches nothing is judged by its tool's name, so that the set
/// of things to check is never empty.
pub fn judge(tool: &str, touches: &[Touch], rules: &Rules, ceiling: &[&Rules]) -> Decision {
    let bare = [Touch::new(key_of(tool), "*")];
    let touches = if touches.is_empty() { &bare[..] } else { touches };
    let mut strictest = Decision::allow();
    for touch in touches {
        for list in std::iter::once(&rules).chain(ceiling) {
            let decision = list.judge(touch);
            if strictest.verdict < decision.verdict || strictest.touch.is_none() {
                strictest = decision;
            }
        }
    }
    strictest
}

/// OpenCode's wildcard: `*` is any run of characters, `?` exactly one, the rest is literal, the whole input must match;
/// backslashes count as slashes; a trailing ` *` also matches nothing, so `ls *` matches `ls`.
pub fn wildcard(input: &str, pattern: &str) -> bool {
    let input: Vec<char> = input.chars().map(slash).collect();
    let pattern: Vec<char> = pattern.chars().map(slash).collect();
    let optional_tail = pattern.strip_suffix(&[' ', '*']);
    optional_tail.is_some_and(|bare| glob(&input, bare)) || glob(&input, &pattern)
}

fn slash(letter: char) -> char {
    if letter == '\\' { '/' } else { letter }
}

/// Two pointers and one place to go back to: linear in practice, never exponential.
fn glob(input: &[char], pattern: &[char]) -> bool {
    let (mut at, mut want) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while at < input.len() {
        if want < pattern.len() && pattern[want] == '*' {
            star = Some((want, at));
            want += 1;
        } else if want < pattern.len() && (pattern[want] == '?' || pattern[want] == input[at]) {
            at += 1;
            want += 1;
        } else if let Some((star_at, from)) = star {
            star = Some((star_at, from + 1));
            at = from + 1;
            want = star_at + 1;
        } else {
            return false;
        }
    }
    pattern[want..].iter().all(|letter| *letter == '*')
}

/// `~`, `~/x`, `$HOME` and `$HOME/x` at the start of a pattern mean the home folder.
fn at_home(pattern: &str, home: &str) -> String {
    for prefix in ["~", "$HOME"] {
        if let Some(rest) = pattern.strip_prefix(prefix)
            && (rest.is_empty() || rest.starts_with('/'))
        {
            return format!("{home}{rest}");
        }
    }
    pattern.to_owned()
}
