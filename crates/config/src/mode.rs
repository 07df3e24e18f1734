//! Permission modes: how much is asked about, as one word, and the rules that the word `plan` stands for, as a mode and as
//! an agent.
//!
//! `accept-edits` and `bypass` are no rules: they answer asks, which is the kernel's business. Here they are only named.

use std::{fmt, str::FromStr};

use posse_session::{Rule, Rules, Verdict};
use thiserror::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PermissionMode {
    /// What the rules say.
    #[default]
    Default,
    /// Looks and plans, changes nothing.
    Plan,
    /// Asks about edits are answered yes.
    AcceptEdits,
    /// Every ask is answered yes; a deny holds.
    Bypass,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("expected \"default\", \"plan\", \"accept-edits\" or \"bypass\"")]
pub struct PermissionModeError;

impl FromStr for PermissionMode {
    type Err = PermissionModeError;

    fn from_str(word: &str) -> Result<Self, PermissionModeError> {
        Ok(match word {
            "default" => Self::Default,
            "plan" => Self::Plan,
            "accept-edits" | "accept_edits" | "acceptEdits" => Self::AcceptEdits,
            "bypass" | "bypassPermissions" => Self::Bypass,
            _ => return Err(PermissionModeError),
        })
    }
}

impl fmt::Display for PermissionMode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Default => "default",
            Self::Plan => "plan",
            Self::AcceptEdits => "accept-edits",
            Self::Bypass => "bypass",
        })
    }
}

/// What only looks. `find` can also delete and run, which is asked about.
const PLAN_ALLOWED: [&str; 19] = [
    "cut*",
    "diff*",
    "du*",
    "file *",
    "find *",
    "git diff*",
    "git log*",
    "git show*",
    "git status*",
    "git branch",
    "grep*",
    "ls*",
    "pwd*",
    "rg*",
    "sort*",
    "stat*",
    "tail*",
    "tree*",
    "wc*",
];

const PLAN_ASKED: [&str; 2] = ["find * -delete*", "find * -exec*"];

/// What a mode adds to the rules, in the order in which the last match wins.
pub(crate) fn rules_of(mode: PermissionMode) -> Vec<Rule> {
    if mode == PermissionMode::Plan { plan_rules("mode plan") } else { Vec::new() }
}

/// Looking is free, commands that may do more are asked about, editing is denied. For the mode and for the agent.
pub(crate) fn plan_rules(origin: &str) -> Vec<Rule> {
    let mut rules = vec![rule("edit", "*", Verdict::Deny, origin), rule("webfetch", "*", Verdict::Allow, origin)];
    rules.extend(looking_shell(Verdict::Ask, origin));
    rules
}

/// Commands that only look are allowed; `rest` is the verdict on every other.
pub(crate) fn looking_shell(rest: Verdict, origin: &str) -> Vec<Rule> {
    let bash = |pattern: &str, action| rule("bash", pattern, action, origin);
    let allowed = PLAN_ALLOWED.map(|pattern| bash(pattern, Verdict::Allow));
    let asked = PLAN_ASKED.map(|pattern| bash(pattern, rest));
    std::iter::once(bash("*", rest)).chain(allowed).chain(asked).collect()
}

/// The same as a list that is judged by itself: what the mode does not speak of is not its business.
pub(crate) fn ceiling_of(mode: PermissionMode) -> Option<Rules> {
    let rules = rules_of(mode);
    (!rules.is_empty()).then(|| Rules(std::iter::once(rule("*", "*", Verdict::Allow, "mode plan")).chain(rules).collect()))
}

fn rule(key: &str, pattern: &str, action: Verdict, origin: &str) -> Rule {
    Rule { key: key.to_owned(), pattern: pattern.to_owned(), action, origin: origin.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_read_in_our_words_and_in_claudes() {
        let table = [
            ("default", Ok(PermissionMode::Default)),
            ("plan", Ok(PermissionMode::Plan)),
            ("accept-edits", Ok(PermissionMode::AcceptEdits)),
            ("acceptEdits", Ok(PermissionMode::AcceptEdits)),
            ("bypass", Ok(PermissionMode::Bypass)),
            ("bypassPermissions", Ok(PermissionMode::Bypass)),
            ("dontAsk", Err(PermissionModeError)),
            ("Bypass", Err(PermissionModeError)),
            ("", Err(PermissionModeError)),
        ];
        for (word, mode) in table {
            assert_eq!(word.parse(), mode, "{word}");
        }
        for mode in [PermissionMode::Default, PermissionMode::Plan, PermissionMode::AcceptEdits, PermissionMode::Bypass] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
    }
}
