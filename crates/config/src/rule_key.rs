//! What a rule is about, as files and flags name it: our names in any spelling, Claude's, and those of foreign tools.
//!
//! A deny under a name that nobody has protects nothing, so such a name is never taken in silence; what becomes of it
//! is up to `permission.rs` and `rule_flag.rs`.

use posse_session::{Verdict, key_of};

use crate::{
    claude_path::{self, Anchors, PathPatternError},
    near::nearest,
    path_pattern::{self, Roots},
};

/// The key of a rule, and how its patterns are to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RuleKey {
    pub(crate) key: String,
    patterns: Patterns,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patterns {
    Ours,
    /// `x:*` is a prefix, and paths are those of `claude_path.rs`.
    Claudes,
}

/// Why a name is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyError {
    /// No tool has this name. Holds the one that was probably meant.
    Unknown { near: Option<&'static str> },
    /// Files that would raise the agent's own rights: no rule speaks of them.
    Protected,
}

/// A pattern that would match nothing, or something else than was meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatternError {
    /// `domain:` without a host, or with more than one.
    Domain,
    Path(PathPatternError),
}

impl PatternError {
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Domain => "expected a host alone, as in `domain:example.com` or `domain:*.example.com`",
            Self::Path(error) => error.words(),
        }
    }
}

impl RuleKey {
    pub(crate) fn of(name: &str) -> Result<Self, KeyError> {
        let name = name.trim();
        let ours = |key: &str| Ok(Self { key: key.to_owned(), patterns: Patterns::Ours });
        if let Some(key) = claude_key(name) {
            return Ok(Self { key: key.to_owned(), patterns: Patterns::Claudes });
        }
        if let Some(known) = NAMES.iter().find(|known| squashed(known) == squashed(name)) {
            return ours(match *known {
                // As OpenCode calls them elsewhere and in other versions.
                "patch" => "edit",
                "shell" => "bash",
                other => key_of(other),
            });
        }
        if squashed(name) == "protected" {
            return Err(KeyError::Protected);
        }
        if !is_name(name) {
            return Err(KeyError::Unknown { near: None });
        }
        if name.contains(['*', '?']) {
            return ours(name);
        }
        // A server's tool is named `server_tool`; it is a slip only when it is near a name that is built like that too.
        let is_foreign = name.contains('_');
        match nearest(name, NAMES.iter().copied().filter(|known| !is_foreign || known.contains('_'))) {
            None if is_foreign => ours(name),
            near => Err(KeyError::Unknown { near }),
        }
    }

    /// A key that is taken as it stands.
    pub(crate) fn literal(name: &str) -> Self {
        Self { key: name.to_owned(), patterns: Patterns::Ours }
    }

    /// What a written pattern means; Claude's may mean several of ours.
    pub(crate) fn patterns(&self, written: &str, action: Verdict, anchors: &Anchors<'_>) -> Result<Vec<String>, PatternError> {
        if self.key == "webfetch"
            && let Some(host) = written.trim().strip_prefix("domain:")
        {
            let is_host = !host.is_empty() && !host.contains(['/', ':', '@', '?', '#']) && !host.contains(char::is_whitespace);
            return if is_host { Ok(vec![format!("domain:{host}")]) } else { Err(PatternError::Domain) };
        }
        match (self.patterns, self.key.as_str()) {
            (Patterns::Ours, key) => {
                Ok(path_pattern::patterns(key, written, action, Roots { home: anchors.home, project: anchors.project }))
            }
            (Patterns::Claudes, "bash") => Ok(vec![claude_command(written)]),
            (Patterns::Claudes, "read" | "edit" | "list") => claude_path::patterns(written, action, anchors).map_err(PatternError::Path),
            (Patterns::Claudes, _) => Ok(vec![written.to_owned()]),
        }
    }
}

impl KeyError {
    pub(crate) fn words(self) -> String {
        match self {
            Self::Unknown { near } => {
                let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                format!("no tool has this name, so the rule would do nothing{hint}")
            }
            Self::Protected => "protected files are always asked about; no rule changes that".to_owned(),
        }
    }
}

/// The letters a name may have, with those of a glob.
pub(crate) fn is_name(name: &str) -> bool {
    let fits = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '*' | '?' | '.' | ':');
    !name.is_empty() && name.chars().all(fits)
}

/// Our tools and OpenCode's, and what is judged without being a tool.
const NAMES: [&str; 32] = [
    "send_message",
    "task_output",
    "task_stop",
    "task_list",
    "read",
    "edit",
    "write",
    "multi_edit",
    "apply_patch",
    "patch",
    "glob",
    "grep",
    "list",
    "bash",
    "shell",
    "bash_output",
    "kill_shell",
    "todowrite",
    "todoread",
    "webfetch",
    "websearch",
    "codesearch",
    "task",
    "agent",
    "skill",
    "question",
    "external_directory",
    "private_address",
    "doom_loop",
    "lsp",
    "plan_enter",
    "plan_exit",
];

/// `externalDirectory`, `todo-write` and `BASH` without what tells spellings apart.
fn squashed(name: &str) -> String {
    name.chars().filter(|letter| !matches!(letter, '_' | '-')).flat_map(char::to_lowercase).collect()
}

/// Claude's tools begin with a capital; their patterns have rules of their own.
fn claude_key(name: &str) -> Option<&'static str> {
    Some(match name {
        "Bash" => "bash",
        "BashOutput" => "bash_output",
        "KillShell" | "KillBash" => "kill_shell",
        "Read" | "NotebookRead" => "read",
        "Edit" | "Write" | "MultiEdit" | "NotebookEdit" => "edit",
        "Glob" => "glob",
        "Grep" => "grep",
        "LS" => "list",
        "Task" | "Agent" => "task",
        "Skill" => "skill",
        "TodoWrite" => "todowrite",
        "TodoRead" => "todoread",
        "AskUserQuestion" => "question",
        "WebFetch" | "WebSearch" => "webfetch",
        "SendMessage" => "send_message",
        "TaskOutput" => "task_output",
        "TaskStop" => "task_stop",
        _ => return None,
    })
}

/// `x:*` at the end is `x` with anything after it, or nothing.
fn claude_command(pattern: &str) -> String {
    pattern.strip_suffix(":*").map_or_else(|| pattern.to_owned(), |prefix| format!("{prefix} *"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_finds_its_key() {
        let table = [
            ("bash", "bash"),
            ("BASH", "bash"),
            (" bash ", "bash"),
            ("Bash", "bash"),
            ("write", "edit"),
            ("patch", "edit"),
            ("shell", "bash"),
            ("multiedit", "edit"),
            ("applyPatch", "edit"),
            ("todo_write", "todowrite"),
            ("Web-Search", "webfetch"),
            ("externalDirectory", "external_directory"),
            ("LS", "list"),
            ("BashOutput", "bash_output"),
            ("bash_output", "bash_output"),
            ("KillShell", "kill_shell"),
            ("kill-shell", "kill_shell"),
            ("MultiEdit", "edit"),
            ("TodoRead", "todoread"),
            ("AskUserQuestion", "question"),
            ("privateAddress", "private_address"),
            ("*", "*"),
            ("context7*", "context7*"),
            ("github_create_issue", "github_create_issue"),
            ("mcp__github__search", "mcp__github__search"),
            ("list_issues", "list_issues"),
        ];
        for (name, key) in table {
            assert_eq!(RuleKey::of(name).map(|found| found.key), Ok(key.to_owned()), "{name}");
        }
    }

    #[test]
    fn a_name_that_no_tool_has_is_unknown() {
        let table = [
            ("bsah", Some("bash")),
            ("Edti", Some("edit")),
            ("webfetsh", Some("webfetch")),
            ("extrenal_directory", Some("external_directory")),
            ("doom_lop", Some("doom_loop")),
            ("database", None),
            ("", None),
            ("Bash(rm:*)", None),
            ("bash rm*", None),
        ];
        for (name, near) in table {
            assert_eq!(RuleKey::of(name), Err(KeyError::Unknown { near }), "{name}");
        }
        for name in ["protected", "Protected", "PROTECTED"] {
            assert_eq!(RuleKey::of(name), Err(KeyError::Protected), "{name}");
        }
    }

    #[test]
    fn a_domain_is_a_host_alone() {
        let home = std::path::Path::new("/home/me");
        for name in ["webfetch", "WebFetch"] {
            let key = RuleKey::of(name).unwrap();
            let read =
                |written| key.patterns(written, Verdict::Deny, &Anchors::of_project(Roots { home, project: std::path::Path::new("") }));
            for host in ["domain:example.com", "domain:*.example.com", "domain:[::1]"] {
                let expected = if host.contains("::") { Err(PatternError::Domain) } else { Ok(vec![host.to_owned()]) };
                assert_eq!(read(host), expected);
            }
            for wrong in ["domain:", "domain: x", "domain:https://x.org", "domain:x.org/a", "domain:x.org:80"] {
                assert_eq!(read(wrong), Err(PatternError::Domain), "{wrong}");
            }
            assert_eq!(read("https://example.com/*"), Ok(vec!["https://example.com/*".to_owned()]));
        }
        let bash = RuleKey::of("bash").unwrap();
        assert_eq!(
            bash.patterns("domain:", Verdict::Deny, &Anchors::of_project(Roots { home, project: std::path::Path::new("") })),
            Ok(vec!["domain:".to_owned()])
        );
    }
}
