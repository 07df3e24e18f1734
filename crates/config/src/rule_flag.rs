//! Rules as the command line writes them: `edit`, `bash(git diff*)`, and Claude's `Bash(npm run:*)`.

use std::path::Path;

use posse_session::{Rule, Verdict};
use thiserror::Error;

use crate::{
    permission,
    rule_key::{RuleKey, UnknownKey, is_name},
};

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RuleFlagError {
    #[error("`{0}` is not a rule; expected something like `edit` or `bash(git diff*)`")]
    Unreadable(String),
    #[error("`{0}`: a domain is not a pattern; write the address, as in `webfetch(https://example.com/*)`")]
    Domain(String),
    /// A deny or an ask that would protect nothing.
    #[error("`{name}`: {words}")]
    Unknown { name: String, words: String },
}

/// One rule of `--allow`, `--ask` or `--deny`.
pub fn parse_rule_flag(text: &str, action: Verdict, home: &Path) -> Result<Rule, RuleFlagError> {
    let unreadable = || RuleFlagError::Unreadable(text.to_owned());
    let (name, pattern) = match text.trim().split_once('(') {
        Some((name, rest)) => (name.trim(), rest.strip_suffix(')').ok_or_else(unreadable)?),
        None => (text.trim(), "*"),
    };
    if !is_name(name) || pattern.trim().is_empty() {
        return Err(unreadable());
    }
    let unknown = |unknown: UnknownKey| RuleFlagError::Unknown { name: name.to_owned(), words: unknown.words() };
    let key = match RuleKey::of(name) {
        // To allow what is not there widens nothing.
        Err(_) if action == Verdict::Allow => RuleKey::literal(name),
        found => found.map_err(unknown)?,
    };
    let pattern = key.pattern(pattern).map_err(|_| RuleFlagError::Domain(text.to_owned()))?;
    let (word, origin) = match action {
        Verdict::Allow => ("allow", "--allow"),
        Verdict::Ask => ("ask", "--ask"),
        Verdict::Deny => ("deny", "--deny"),
    };
    permission::make(&key.key, &pattern, word, home, origin).ok_or_else(unreadable)
}

/// Several rules in one text, as `--allowedTools` takes them: commas or spaces between, none inside parentheses.
pub fn parse_rule_list(text: &str, action: Verdict, home: &Path) -> Result<Vec<Rule>, RuleFlagError> {
    let mut depth = 0_u32;
    let outside = |letter: char| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (letter == ',' || letter.is_whitespace())
    };
    text.split(outside).filter(|rule| !rule.is_empty()).map(|rule| parse_rule_flag(rule, action, home)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Result<(String, String), RuleFlagError> {
        parse_rule_flag(text, Verdict::Allow, Path::new("/home/me")).map(|rule| (rule.key, rule.pattern))
    }

    #[test]
    fn rules_are_read_in_our_words_and_in_claudes() {
        let table = [
            ("edit", "edit", "*"),
            ("edit(*.lock)", "edit", "*.lock"),
            ("bash(git diff*)", "bash", "git diff*"),
            ("bash(echo (a))", "bash", "echo (a)"),
            ("bash(npm run test:*)", "bash", "npm run test:*"),
            ("*", "*", "*"),
            ("mcp_*", "mcp_*", "*"),
            ("write", "edit", "*"),
            ("read(~/notes/*)", "read", "/home/me/notes/*"),
            ("Bash(npm run:*)", "bash", "npm run *"),
            ("Bash(ls)", "bash", "ls"),
            ("Bash", "bash", "*"),
            ("Write", "edit", "*"),
            ("Edit(./src/**)", "edit", "src/**"),
            ("Read(//etc/hosts)", "read", "/etc/hosts"),
            ("BASH(ls)", "bash", "ls"),
            ("websearch", "webfetch", "*"),
            ("database", "database", "*"),
            ("mcp__github__search", "mcp__github__search", "*"),
        ];
        for (text, key, pattern) in table {
            assert_eq!(rule(text), Ok((key.to_owned(), pattern.to_owned())), "{text}");
        }
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for text in ["", "(x)", "bash(", "bash(x", "bash()", "bash(x)y", "a b", "bash rm"] {
            assert_eq!(rule(text), Err(RuleFlagError::Unreadable(text.to_owned())), "{text}");
        }
        assert!(matches!(rule("WebFetch(domain:x.org)"), Err(RuleFlagError::Domain(_))));
    }

    #[test]
    fn a_deny_or_an_ask_of_nothing_is_refused() {
        for action in [Verdict::Deny, Verdict::Ask] {
            let words = |text| parse_rule_flag(text, action, Path::new("/")).unwrap_err().to_string();
            assert_eq!(words("bsah(rm*)"), "`bsah`: no tool has this name, so the rule would do nothing; did you mean `bash`?");
            assert_eq!(words("database"), "`database`: no tool has this name, so the rule would do nothing");
        }
    }

    #[test]
    fn a_rule_names_its_flag() {
        let flags = [(Verdict::Allow, "--allow"), (Verdict::Ask, "--ask"), (Verdict::Deny, "--deny")];
        for (action, origin) in flags {
            let rule = parse_rule_flag("edit", action, Path::new("/")).unwrap();
            assert_eq!((rule.action, rule.origin.as_str()), (action, origin));
        }
    }

    #[test]
    fn a_list_is_split_outside_parentheses() {
        let rules = parse_rule_list("Bash(git log:*, x) Edit,Read(a b),,", Verdict::Allow, Path::new("/")).unwrap();
        let words: Vec<String> = rules.iter().map(|rule| format!("{}({})", rule.key, rule.pattern)).collect();
        assert_eq!(words, ["bash(git log:*, x)", "edit(*)", "read(a b)"]);
    }
}
