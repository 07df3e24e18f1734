//! Rules as the command line writes them: `edit`, `bash(git diff*)`, and Claude's `Bash(npm run:*)`.

use std::path::Path;

use posse_session::{Rule, Verdict};
use thiserror::Error;

use crate::{
    claude_path::Anchors,
    path_pattern::Roots,
    permission,
    rule_key::{KeyError, RuleKey, is_name},
};

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RuleFlagError {
    #[error("`{0}` is not a rule; expected something like `edit` or `bash(git diff*)`")]
    Unreadable(String),
    #[error("`{rule}`: {words}")]
    Pattern { rule: String, words: &'static str },
    /// A deny or an ask that would protect nothing, or a word on what no rule changes.
    #[error("`{name}`: {words}")]
    Key { name: String, words: String },
}

/// One rule of `--allow`, `--ask` or `--deny`. A path of Claude's may be several of ours.
pub fn parse_rule_flag(text: &str, action: Verdict, home: &Path, project: &Path) -> Result<Vec<Rule>, RuleFlagError> {
    let unreadable = || RuleFlagError::Unreadable(text.to_owned());
    let (name, pattern) = split(text).ok_or_else(unreadable)?;
    let key = match RuleKey::of(name) {
        // To allow what is not there widens nothing.
        Err(KeyError::Unknown { .. }) if action == Verdict::Allow => RuleKey::literal(name),
        found => found.map_err(|error| RuleFlagError::Key { name: name.to_owned(), words: error.words() })?,
    };
    let patterns = key
        .patterns(pattern, action, &Anchors::of_project(Roots { home, project }))
        .map_err(|error| RuleFlagError::Pattern { rule: text.to_owned(), words: error.words() })?;
    let origin = match action {
        Verdict::Allow => "--allow",
        Verdict::Ask => "--ask",
        Verdict::Deny => "--deny",
    };
    Ok(patterns.iter().map(|pattern| permission::make(&key.key, pattern, action, home, origin)).collect())
}

/// `name(pattern)`, or a name that means everything. `None`: not a rule.
pub(crate) fn split(text: &str) -> Option<(&str, &str)> {
    let (name, pattern) = match text.trim().split_once('(') {
        Some((name, rest)) => (name.trim(), rest.strip_suffix(')')?),
        None => (text.trim(), "*"),
    };
    (is_name(name) && !pattern.trim().is_empty()).then_some((name, pattern))
}

/// Several rules in one text, as `--allowedTools` takes them: commas or spaces between, none inside parentheses.
pub fn parse_rule_list(text: &str, action: Verdict, home: &Path, project: &Path) -> Result<Vec<Rule>, RuleFlagError> {
    let mut depth = 0_u32;
    let outside = |letter: char| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (letter == ',' || letter.is_whitespace())
    };
    let rules: Result<Vec<Vec<Rule>>, RuleFlagError> =
        text.split(outside).filter(|rule| !rule.is_empty()).map(|rule| parse_rule_flag(rule, action, home, project)).collect();
    Ok(rules?.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Result<Vec<(String, String)>, RuleFlagError> {
        let rules = parse_rule_flag(text, Verdict::Allow, Path::new("/home/me"), Path::new("/p"))?;
        Ok(rules.into_iter().map(|rule| (rule.key, rule.pattern)).collect())
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
            ("Edit(./src/**)", "edit", "src/*"),
            ("edit(./src/*)", "edit", "src/*"),
            ("edit(/p/src/)", "edit", "src/*"),
            ("Edit(//p/src/a)", "edit", "src/a"),
            ("edit(/q/src/a)", "edit", "/q/src/a"),
            ("bash(./run.sh *)", "bash", "./run.sh *"),
            ("Edit(src/**)", "edit", "src/*"),
            ("Read(./.env)", "read", ".env"),
            ("Read(*.env)", "read", "*.env"),
            ("WebFetch(domain:x.org)", "webfetch", "domain:x.org"),
            ("webfetch(domain:x.org)", "webfetch", "domain:x.org"),
            ("KillShell", "kill_shell", "*"),
            ("private_address(10.*)", "private_address", "10.*"),
            ("Read(//etc/hosts)", "read", "/etc/hosts"),
            ("BASH(ls)", "bash", "ls"),
            ("websearch", "webfetch", "*"),
            ("database", "database", "*"),
            ("mcp__github__search", "mcp__github__search", "*"),
        ];
        for (text, key, pattern) in table {
            assert_eq!(rule(text), Ok(vec![(key.to_owned(), pattern.to_owned())]), "{text}");
        }
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for text in ["", "(x)", "bash(", "bash(x", "bash()", "bash(x)y", "a b", "bash rm"] {
            assert_eq!(rule(text), Err(RuleFlagError::Unreadable(text.to_owned())), "{text}");
        }
        assert_eq!(
            rule("WebFetch(domain:)").unwrap_err().to_string(),
            "`WebFetch(domain:)`: expected a host alone, as in `domain:example.com` or `domain:*.example.com`"
        );
        assert!(matches!(rule("Edit(!src)"), Err(RuleFlagError::Pattern { .. })));
        for action in [Verdict::Allow, Verdict::Ask, Verdict::Deny] {
            let words = parse_rule_flag("protected(x)", action, Path::new("/"), Path::new("/p")).unwrap_err().to_string();
            assert_eq!(words, "`protected`: protected files are always asked about; no rule changes that");
        }
    }

    #[test]
    fn a_deny_or_an_ask_of_nothing_is_refused() {
        for action in [Verdict::Deny, Verdict::Ask] {
            let words = |text| parse_rule_flag(text, action, Path::new("/"), Path::new("/p")).unwrap_err().to_string();
            assert_eq!(words("bsah(rm*)"), "`bsah`: no tool has this name, so the rule would do nothing; did you mean `bash`?");
            assert_eq!(words("database"), "`database`: no tool has this name, so the rule would do nothing");
        }
    }

    #[test]
    fn a_rule_names_its_flag() {
        let flags = [(Verdict::Allow, "--allow"), (Verdict::Ask, "--ask"), (Verdict::Deny, "--deny")];
        for (action, origin) in flags {
            let rules = parse_rule_flag("edit", action, Path::new("/"), Path::new("/p")).unwrap();
            assert_eq!((rules[0].action, rules[0].origin.as_str()), (action, origin));
        }
    }

    #[test]
    fn a_list_is_split_outside_parentheses() {
        let rules = parse_rule_list("Bash(git log:*, x) Edit,Read(./a b),,", Verdict::Allow, Path::new("/"), Path::new("/p")).unwrap();
        let words: Vec<String> = rules.iter().map(|rule| format!("{}({})", rule.key, rule.pattern)).collect();
        assert_eq!(words, ["bash(git log:*, x)", "edit(*)", "read(a b)"]);
    }
}
