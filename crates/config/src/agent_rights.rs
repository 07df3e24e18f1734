//! What limits an agent, as people write it: verdicts, names of tools, modes.
//!
//! Words only, and nothing of where they were written; what becomes of one that nobody can read is `agent_fields.rs`.

use crate::{
    rule_key::{KeyError, RuleKey},
    tree::Held,
};

/// A verdict as people write it.
pub(crate) fn verdict_of(held: &Held) -> Option<&'static str> {
    let word = match held {
        Held::Flag(true) => return Some("allow"),
        Held::Flag(false) => return Some("deny"),
        Held::Text(word) => word.trim().to_lowercase(),
        _ => return None,
    };
    match word.as_str() {
        "allow" | "true" => Some("allow"),
        "ask" => Some("ask"),
        "deny" | "false" => Some("deny"),
        _ => None,
    }
}

/// Keys that take something away from the agent: a slip in one of them must not give it back.
pub(crate) const LIMITING: [&str; 5] = ["permission", "permissions", "tools", "disallowed_tools", "permission_mode"];

/// Ours and Claude's.
const PERMISSION_MODES: [&str; 9] =
    ["default", "plan", "acceptEdits", "accept-edits", "bypassPermissions", "bypass", "auto", "dontAsk", "manual"];

/// The mode that a word means, in any case.
pub(crate) fn permission_mode(written: &str) -> Option<&'static str> {
    let squashed = |word: &str| word.trim().replace(['-', '_'], "").to_lowercase();
    PERMISSION_MODES.into_iter().find(|mode| squashed(mode) == squashed(written))
}

/// Whether a list of tools means every one of them.
pub(crate) fn means_all(text: &str) -> bool {
    matches!(text.trim().trim_matches(['"', '\'', '[', ']']).to_lowercase().as_str(), "*" | "all" | "all tools" | "any")
}

/// Tools of other programs that people list; to lack them surprises nobody.
const FOREIGN_TOOLS: [&str; 16] = [
    "exitplanmode",
    "enterplanmode",
    "slashcommand",
    "listmcpresources",
    "listmcpresourcestool",
    "readmcpresource",
    "readmcpresourcetool",
    "taskcreate",
    "taskupdate",
    "taskget",
    "taskoutput",
    "taskstop",
    "tasklist",
    "sendmessage",
    "toolsearch",
    "monitor",
];

/// Whether no tool has the name, and which may be meant.
pub(crate) fn unknown_tool(written: &str) -> Option<Option<&'static str>> {
    let name = written.split('(').next().unwrap_or(written).trim();
    let squashed = posse_session::Agent::key(name);
    let is_known =
        FOREIGN_TOOLS.contains(&squashed.as_str()) || matches!(squashed.as_str(), "view" | "ls" | "killbash" | "askuserquestion");
    match RuleKey::of(name) {
        Err(KeyError::Unknown { near }) if !is_known && !name.starts_with("mcp__") => Some(near),
        _ => None,
    }
}
