//! What a rule is about, as files and flags name it: our names in any spelling, Claude's, and those of foreign tools.
//!
//! A deny under a name that nobody has protects nothing, so such a name is never taken in silence; what becomes of it
//! is up to `permission.rs` and `rule_flag.rs`.

use posse_session::key_of;

use crate::near::nearest;

/// The key of a rule, and how its patterns are to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RuleKey {
    pub(crate) key: String,
    patterns: Patterns,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patterns {
    Ours,
    /// `x:*` is a prefix, `//` the root.
    Claudes,
}

/// No tool has this name. Holds the one that was probably meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnknownKey {
    pub(crate) near: Option<&'static str>,
}

/// A pattern of Claude's that names a domain, which is no pattern of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DomainPattern;

impl RuleKey {
    pub(crate) fn of(name: &str) -> Result<Self, UnknownKey> {
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
        if !is_name(name) {
            return Err(UnknownKey { near: None });
        }
        if name.contains(['*', '?']) {
            return ours(name);
        }
        // A server's tool is named `server_tool`; it is a slip only when it is near a name that is built like that too.
        let is_foreign = name.contains('_');
        match nearest(name, NAMES.iter().copied().filter(|known| !is_foreign || known.contains('_'))) {
            None if is_foreign => ours(name),
            near => Err(UnknownKey { near }),
        }
    }

    /// A key that is taken as it stands.
    pub(crate) fn literal(name: &str) -> Self {
        Self { key: name.to_owned(), patterns: Patterns::Ours }
    }

    pub(crate) fn pattern(&self, written: &str) -> Result<String, DomainPattern> {
        match self.patterns {
            Patterns::Ours => Ok(written.to_owned()),
            Patterns::Claudes if written.starts_with("domain:") => Err(DomainPattern),
            Patterns::Claudes => Ok(claude_pattern(&self.key, written)),
        }
    }
}

impl UnknownKey {
    pub(crate) fn words(self) -> String {
        let hint = self.near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        format!("no tool has this name, so the rule would do nothing{hint}")
    }
}

/// The letters a name may have, with those of a glob.
pub(crate) fn is_name(name: &str) -> bool {
    let fits = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '*' | '?' | '.' | ':');
    !name.is_empty() && name.chars().all(fits)
}

/// Our tools and OpenCode's, and what is judged without being a tool.
const NAMES: [&str; 25] = [
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
        "Bash" | "BashOutput" | "KillShell" => "bash",
        "Read" | "NotebookRead" => "read",
        "Edit" | "Write" | "MultiEdit" | "NotebookEdit" => "edit",
        "Glob" => "glob",
        "Grep" => "grep",
        "LS" => "list",
        "Task" | "Agent" => "task",
        "Skill" => "skill",
        "TodoWrite" => "todowrite",
        "WebFetch" | "WebSearch" => "webfetch",
        _ => return None,
    })
}

/// `x:*` is a prefix of a command, `//` the root of the disk, `./` the working directory.
fn claude_pattern(key: &str, pattern: &str) -> String {
    match (key, pattern.strip_suffix(":*")) {
        ("bash", Some(prefix)) => return format!("{prefix} *"),
        ("bash", None) => return pattern.to_owned(),
        _ => {}
    }
    if let Some(rest) = pattern.strip_prefix("//") {
        return format!("/{rest}");
    }
    pattern.strip_prefix("./").unwrap_or(pattern).to_owned()
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
            assert_eq!(RuleKey::of(name), Err(UnknownKey { near }), "{name}");
        }
    }
}
