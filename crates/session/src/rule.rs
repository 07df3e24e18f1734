//! Rules: what is allowed, as data judged by pure functions.
//!
//! The wildcard and the order are OpenCode's: the last rule whose key and pattern match wins, no match asks.
//! Knows nothing of files, shells or people; what a call touches comes from the tool's look.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    agent::Agent,
    grant::{AskedFor, Grant},
    text::one_line,
};

/// What an event keeps of one touch; a shell command may be as long as a file.
const TOUCH_BYTES_MAX: usize = 256;

/// Keys that only a person can allow: no rule and no mode does, a rule may only deny.
const PERSONS: [&str; 3] = ["protected", "question", "unreadable"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    // In order of strictness: the strictest of several is their maximum.
    Allow,
    Ask,
    Deny,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rule {
    /// What kind of touch: `edit`, `bash`, `*`. A glob.
    pub key: String,
    pub pattern: String,
    pub action: Verdict,
    /// Where it was written: `built-in`, `posse.json:4`, `--deny`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub origin: String,
}

impl Rules {
    /// For rules that should be there and cannot be read, or for a turn of which nothing may run.
    pub fn denying_all() -> Self {
        Self(vec![Rule::denying_all()])
    }
}

impl Rule {
    /// For rules that should be there and cannot be read.
    pub(crate) fn denying_all() -> Self {
        Self { key: "*".into(), pattern: "*".into(), action: Verdict::Deny, origin: "rules that could not be read".into() }
    }
}

pub(crate) fn needs_a_person(key: &str) -> bool {
    PERSONS.contains(&key)
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

    /// Whether no rule and no mode may allow this: a file that would raise the agent's own rights, a question to the user,
    /// a line that nobody can read for sure and that may hold the first.
    pub fn needs_a_person(&self) -> bool {
        needs_a_person(&self.key)
    }

    /// As it is recorded. The verdict was on the whole of it, and the call's input has it whole.
    pub(crate) fn clipped(self) -> Self {
        Self { pattern: one_line(self.pattern, TOUCH_BYTES_MAX), ..self }
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
    /// Why, where a rule alone does not say it: which command of a line, and what is odd about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// For an ask: what a wider "yes" would allow from then on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offers: Vec<Grant>,
    /// There is more to be allowed than the offers say.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub more: bool,
}

impl Decision {
    pub fn allow() -> Self {
        Self::of(Verdict::Allow, None)
    }

    pub fn of(verdict: Verdict, touch: Option<Touch>) -> Self {
        Self { verdict, touch, rule: None, origin: String::new(), why: String::new(), offers: Vec::new(), more: false }
    }
}

/// A decision and everything a person would have to allow for it to become an allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    pub decision: Decision,
    /// Not empty for an ask.
    pub asked: Vec<AskedFor>,
}

/// Reads a list of rules about one key where a wildcard is not enough: a shell line is every command it can run.
pub trait Reading: Send + Sync + fmt::Debug {
    /// Touches of this key are judged here and nowhere else.
    fn key(&self) -> &str;
    /// The strictest verdict of one list. Pure.
    fn judge(&self, rules: &Rules) -> Judgement;
}

/// A reading that can be handed around with a look.
#[derive(Debug, Clone)]
pub struct Reader(pub Arc<dyn Reading>);

impl PartialEq for Reader {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
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
        self.0.iter().rev().find(|rule| wildcard(&touch.key, &rule.key) && matches_pattern(touch, &rule.pattern))
    }

    pub fn judge(&self, touch: &Touch) -> Decision {
        match self.matching(touch) {
            // Whoever may write these files, or speak for the user, could allow itself anything.
            Some(rule) if rule.action == Verdict::Allow && touch.needs_a_person() => Decision::of(Verdict::Ask, Some(touch.clone())),
            Some(rule) => Decision {
                rule: Some(format!("{}({})", rule.key, rule.pattern)),
                origin: rule.origin.clone(),
                ..Decision::of(rule.action, Some(touch.clone()))
            },
            None => Decision::of(Verdict::Ask, Some(touch.clone())),
        }
    }

    /// Whether the tool of this key is taken out of the request: the last rule whose key matches denies everything.
    pub fn disables(&self, key: &str) -> bool {
        self.disabling(key).is_some()
    }

    /// The rule that takes it out.
    pub fn disabling(&self, key: &str) -> Option<&Rule> {
        let last = self.0.iter().rev().find(|rule| wildcard(key, &rule.key));
        // Of commands and skills some may be left: then the model should know the tool, whatever order they stand in.
        let some_left = |rule: &&Rule| rule.key == key && rule.pattern != "*" && rule.action != Verdict::Deny;
        let may_be_left = matches!(key, "bash" | "skill") && self.0.iter().any(|rule| some_left(&rule));
        last.filter(|rule| rule.pattern == "*" && rule.action == Verdict::Deny && !may_be_left)
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
        "agent" | "task" | "Agent" => "task",
        "SendMessage" => "send_message",
        "TaskOutput" => "task_output",
        "TaskStop" => "task_stop",
        "TaskMerge" => "task_merge",
        other => other,
    }
}

/// The strictest decision over everything a call touches: today's rules and every ceiling, each judged whole.
/// A ceiling's allow lifts nothing. A call that touches nothing is judged by its tool's name, so that the set
/// of things to check is never empty.
pub fn judge(tool: &str, touches: &[Touch], reader: Option<&Reader>, rules: &Rules, ceiling: &[&Rules]) -> Judgement {
    let bare = [Touch::new(key_of(tool), "*")];
    let touches = if touches.is_empty() && reader.is_none() { &bare[..] } else { touches };
    let mut found: Option<Judgement> = None;
    for list in std::iter::once(&rules).chain(ceiling) {
        for touch in touches.iter().filter(|touch| reader.is_none_or(|reader| touch.key != reader.0.key())) {
            found = Some(list.judgement(touch).stricter(found));
        }
        if let Some(reader) = reader {
            found = Some(reader.0.judge(list).with_reasons().stricter(found));
        }
    }
    // Nothing was checked, which is no reason to allow it.
    found.unwrap_or_else(|| Judgement { decision: Decision::of(Verdict::Ask, None), asked: Vec::new() })
}

impl Rules {
    fn judgement(&self, touch: &Touch) -> Judgement {
        let decision = self.judge(touch);
        let asked = if decision.verdict == Verdict::Ask {
            // Where a rule names some files, a yes to one of them is no yes to all.
            let general = self.matching(touch).is_none_or(|rule| rule.pattern == "*");
            let exact = !general || touch.needs_a_person();
            vec![AskedFor { rule: decision.rule.clone(), origin: decision.origin.clone(), ..AskedFor::new(touch.clone(), exact) }]
        } else {
            Vec::new()
        };
        Judgement { decision, asked }
    }
}

impl Judgement {
    /// What it was decided by is also the reason of the ask it is about.
    fn with_reasons(mut self) -> Self {
        let Decision { touch, rule, origin, why, .. } = &self.decision;
        for asked in self.asked.iter_mut().filter(|asked| touch.as_ref() == Some(&asked.touch)) {
            (asked.rule, asked.origin, asked.why) = (rule.clone(), origin.clone(), why.clone());
        }
        self
    }

    /// Both, with the stricter decision; of equals the earlier one.
    fn stricter(self, earlier: Option<Self>) -> Self {
        let Some(mut earlier) = earlier else { return self };
        for asked in self.asked {
            match earlier.asked.iter_mut().find(|known| known.touch == asked.touch) {
                Some(known) => known.exact |= asked.exact,
                None => earlier.asked.push(asked),
            }
        }
        let decision = if earlier.decision.verdict < self.decision.verdict { self.decision } else { earlier.decision };
        Self { decision, asked: earlier.asked }
    }
}

/// Whether a rule's or a grant's pattern is about this. `domain:HOST` is about the host of an address, and no wildcard
/// over its text: `https://evil.example/?https://good.example/` is not at `good.example`.
pub(crate) fn matches_pattern(touch: &Touch, pattern: &str) -> bool {
    match pattern.strip_prefix("domain:") {
        Some(domain) if touch.key == "webfetch" => {
            host_of(&touch.pattern).is_some_and(|host| wildcard(&host, &domain.to_ascii_lowercase()))
        }
        // Names of agents and skills are matched however they are spelled, so that no spelling gets around a deny.
        _ if matches!(touch.key.as_str(), "task" | "skill") => wildcard(&folded(&touch.pattern), &folded(pattern)),
        _ => wildcard(&touch.pattern, pattern),
    }
}

/// A name as agents are told apart; another name of one of ours is ours.
fn folded(name: &str) -> String {
    let key = Agent::key(name);
    if key == "generalpurpose" { "general".to_owned() } else { key }
}

/// The host of an address, in lower case and without user, port and brackets.
pub(crate) fn host_of(address: &str) -> Option<String> {
    let (_, rest) = address.split_once("://")?;
    let authority = rest.split(['/', '?', '#', '\\']).next()?;
    let host = authority.rsplit('@').next()?;
    let host = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next()?,
        None => host.split(':').next()?,
    };
    (!host.is_empty()).then(|| host.trim_end_matches('.').to_ascii_lowercase())
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
