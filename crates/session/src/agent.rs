//! An agent: who answers, with which words, tools and rights. One type for every family of definitions.
//!
//! Only data and questions about it. Where definitions are found and how they are merged is `posse_config`; what a
//! session does with one is recorded in its log, so nothing here is asked again when a session goes on.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::rule::{Rule, wildcard};

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Agent {
    pub name: String,
    /// Other names that mean this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// What it is for, told to whoever may call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub mode: AgentMode,
    /// One of ours.
    pub native: bool,
    /// Not in lists for people. A model that may call it is told of it all the same.
    pub hidden: bool,
    /// Who answers when nobody is named.
    pub default: bool,
    /// As written: `provider/model`, an alias, or `inherit`. Absent: the caller's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// A level or a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    #[serde(skip_serializing_if = "AgentTools::is_all")]
    pub tools: AgentTools,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disallowed_tools: Vec<String>,
    /// For the provider: `options` and every key that nobody knows.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub options: Map<String, Value>,
    /// Model calls of one round; at least one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// A native agent's own rules, below `permission`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub own_rules: Vec<Rule>,
    /// What definitions say, all of them merged, in the order in which the last match wins.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permission: Vec<Rule>,
    /// Denies and asks of folders that are not trusted: judged by themselves, so that they lift nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ceiling: Vec<Rule>,
    /// As written, `acceptEdits`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<String>,
    /// Always runs in the background.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// `worktree`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<String>,
    /// Preloaded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<String>,
    /// As written: names, or servers by name.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub mcp_servers: Value,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required_mcp_servers: Vec<String>,
    /// As written.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub hooks: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryScope>,
    /// Put after the user's first words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_prompt: Option<String>,
    #[serde(skip_serializing_if = "AgentBudget::is_none")]
    pub budget: AgentBudget,
    /// The longest that one round of it may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    #[serde(skip_serializing_if = "AgentLimits::is_none")]
    pub limits: AgentLimits,
    /// Who answers when its model is overloaded, in this order, as written. Absent: whoever is configured for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Vec<String>>,
    /// Everything that defines it is the user's, or of a folder that the user trusts.
    pub trusted: bool,
    /// Where it was last defined: `built-in`, `.posse/agents/a.md:1`.
    pub origin: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentMode {
    /// A user talks to it; a model cannot call it.
    Primary,
    /// A model calls it; a user cannot start with it.
    Subagent,
    #[default]
    All,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentTools {
    #[default]
    All,
    /// These and no others.
    Listed(Vec<String>),
    /// In written order; `*` is every tool that is not named.
    Map(Vec<(String, bool)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryScope {
    User,
    Project,
    Local,
}

/// What one round of it may spend.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentBudget {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
}

impl AgentBudget {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Limits of its own beside its steps, its budget and its timeout. They tighten the configured ones and never widen them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentLimits {
    /// Without a sign of life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<Duration>,
    /// Without a byte of one model stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream_idle: Option<Duration>,
    /// For one model call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<Duration>,
    /// How deep agents may be nested below the root for it to start one more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u64>,
    /// Tasks that it may ever start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub children: Option<u64>,
}

impl AgentLimits {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl AgentTools {
    fn is_all(&self) -> bool {
        *self == Self::All
    }
}

impl AgentMode {
    /// Whether a user may start with it.
    pub fn is_primary(self) -> bool {
        self != Self::Subagent
    }

    /// Whether a model may call it.
    pub fn is_subagent(self) -> bool {
        self != Self::Primary
    }
}

impl Agent {
    /// A name without what tells its spellings apart: two that mean the same agent have the same key.
    pub fn key(name: &str) -> String {
        squashed(name)
    }

    /// Whether a name means this agent: case and separators do not count, and `plugin:` may be left out. Who has several
    /// agents must see to it that only one of them is meant.
    pub fn matches(&self, name: &str) -> bool {
        let wanted = squashed(name);
        let suits = |own: &String| squashed(own) == wanted || own.rsplit_once(':').is_some_and(|(_, own)| squashed(own) == wanted);
        !wanted.is_empty() && (suits(&self.name) || self.aliases.iter().any(suits))
    }

    /// The same without leaving out `plugin:`.
    pub fn is_named(&self, name: &str) -> bool {
        let wanted = squashed(name);
        !wanted.is_empty() && std::iter::once(&self.name).chain(&self.aliases).any(|own| squashed(own) == wanted)
    }

    /// Whether its lists leave it this tool. Its rules are another matter.
    pub fn offers(&self, tool: &str) -> bool {
        let means = |written: &String| names_tool(written, tool);
        let listed = match &self.tools {
            AgentTools::All => true,
            AgentTools::Listed(names) => names.iter().any(means),
            AgentTools::Map(flags) => {
                let exact = flags.iter().rev().find(|(name, _)| name.trim() != "*" && names_tool(name, tool));
                let rest = || flags.iter().rev().find(|(name, _)| name.trim() == "*");
                exact.or_else(rest).is_none_or(|(_, offered)| *offered)
            }
        };
        listed && !self.disallowed_tools.iter().any(means)
    }

    /// Whether its own rules have a key of exactly this name: what a child has by default only if somebody wrote it.
    pub fn speaks_of(&self, key: &str) -> bool {
        self.own_rules.iter().chain(&self.permission).any(|rule| rule.key == key)
    }
}

/// A name without what tells its spellings apart.
fn squashed(name: &str) -> String {
    name.trim().chars().filter(|letter| !matches!(letter, '-' | '_' | ' ')).flat_map(char::to_lowercase).collect()
}

/// Whether a name in a list means a tool of ours: any case, Claude's names, names of other days, `Bash(git *)`, globs.
fn names_tool(written: &str, tool: &str) -> bool {
    if is_of_server(written, tool) {
        return true;
    }
    let (name, tool) = (squashed(written.split('(').next().unwrap_or(written)), squashed(tool));
    let tools: &[&str] = match name.as_str() {
        // Other ways to do the same.
        "edit" => &["multiedit", "applypatch"],
        "patch" => &["applypatch"],
        "view" => &["read"],
        "ls" => &["list"],
        // Nobody can use the first without the others.
        "bash" | "shell" => &["bash", "bashoutput", "killshell"],
        "killbash" => &["killshell"],
        // Whoever may start somebody is told to go on with it by a message.
        "task" | "agent" => &["task", "agent", "sendmessage", "taskoutput", "taskstop", "tasklist"],
        "askuserquestion" => &["question"],
        _ => &[],
    };
    name == tool || tools.contains(&tool.as_str()) || name.contains('*') && wildcard(&tool, &name)
}

/// `mcp__github` is every tool of that server.
fn is_of_server(written: &str, tool: &str) -> bool {
    let server = written.trim().to_lowercase();
    server.starts_with("mcp__") && tool.to_lowercase().starts_with(&format!("{server}__"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(name: &str) -> Agent {
        Agent { name: name.into(), ..Agent::default() }
    }

    #[test]
    fn names_are_matched_without_case_and_separators() {
        let table = [
            ("code-reviewer", "Code Reviewer", true),
            ("code-reviewer", "code_reviewer", true),
            ("code-reviewer", "CODEREVIEWER", true),
            ("code-reviewer", "code-review", false),
            ("acme:reviewer", "reviewer", true),
            ("acme:reviewer", "Acme:Reviewer", true),
            ("acme:team:reviewer", "reviewer", true),
            ("reviewer", "acme:reviewer", false),
            ("team/reviewer", "reviewer", false),
            ("a", "", false),
            ("-", "-", false),
        ];
        for (own, name, expected) in table {
            assert_eq!(agent(own).matches(name), expected, "{own} as {name}");
        }
        let general = Agent { aliases: vec!["general-purpose".into()], ..agent("general") };
        assert!(general.matches("General Purpose") && general.is_named("generalPurpose"));
        assert!(!agent("acme:reviewer").is_named("reviewer"));
    }

    /// CC-056, CC-057: lists in any spelling, `*`, and what is taken away again.
    #[test]
    fn lists_and_maps_say_what_is_offered() {
        let list = |names: &[&str]| AgentTools::Listed(names.iter().map(|name| (*name).to_owned()).collect());
        let map = |flags: &[(&str, bool)]| AgentTools::Map(flags.iter().map(|(name, flag)| ((*name).to_owned(), *flag)).collect());
        let table: Vec<(AgentTools, &[&str], &str, bool)> = vec![
            (AgentTools::All, &[], "bash", true),
            (AgentTools::All, &["Bash"], "bash", false),
            (AgentTools::All, &["Bash"], "bash_output", false),
            (AgentTools::All, &["Write"], "edit", true),
            (list(&[]), &[], "read", false),
            (list(&["*"]), &[], "anything", true),
            (list(&["*"]), &["Edit"], "multi_edit", false),
            (list(&["*"]), &["MultiEdit"], "edit", true),
            (list(&["*"]), &["NotebookEdit"], "edit", true),
            (list(&["Edit"]), &[], "apply_patch", true),
            (list(&["Read", "Grep"]), &[], "read", true),
            (list(&["Read", "Grep"]), &[], "GREP", true),
            (list(&["Read", "Grep"]), &[], "bash", false),
            (list(&["Bash(git *)"]), &[], "bash", true),
            (list(&["MultiEdit"]), &[], "multi_edit", true),
            (list(&["MultiEdit"]), &[], "write", false),
            (list(&["Task"]), &[], "agent", true),
            (list(&["Agent(explore)"]), &[], "task", true),
            (list(&["Agent"]), &[], "SendMessage", true),
            (list(&["*"]), &["Agent"], "send_message", false),
            (list(&["TodoWrite"]), &[], "todowrite", true),
            (list(&["LS"]), &[], "list", true),
            (list(&["WebFetch"]), &[], "webfetch", true),
            (list(&["mcp__github__*"]), &[], "mcp__github__search", true),
            (list(&["mcp__github"]), &[], "mcp__github__search", true),
            (list(&["mcp__git"]), &[], "mcp__github__search", false),
            (list(&["AskUserQuestion"]), &[], "question", true),
            (map(&[]), &[], "read", true),
            (map(&[("bash", false)]), &[], "bash", false),
            (map(&[("bash", false)]), &[], "read", true),
            (map(&[("*", false)]), &[], "read", false),
            (map(&[("*", false), ("read", true)]), &[], "read", true),
            (map(&[("read", true), ("*", false)]), &[], "read", true),
            (map(&[("read", true)]), &[], "bash", true),
            (map(&[("github_*", false)]), &[], "github_search", false),
        ];
        for (tools, disallowed, tool, expected) in table {
            let words = format!("{tools:?} without {disallowed:?}: {tool}");
            let disallowed_tools = disallowed.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(Agent { tools, disallowed_tools, ..agent("a") }.offers(tool), expected, "{words}");
        }
    }

    #[test]
    fn an_agent_survives_its_own_words_and_needs_none_but_its_name() {
        let full = Agent {
            tools: AgentTools::Map(vec![("*".into(), false)]),
            memory: Some(MemoryScope::Project),
            timeout: Some(Duration::from_secs(60)),
            budget: AgentBudget { cost_usd: Some(0.5), tokens: None },
            limits: AgentLimits { step: Some(Duration::from_millis(1_500)), depth: Some(1), ..AgentLimits::default() },
            fallback: Some(vec!["small".into()]),
            ..agent("a")
        };
        assert_eq!(serde_json::from_str::<Agent>(&serde_json::to_string(&full).unwrap()).unwrap(), full);
        assert_eq!(serde_json::from_str::<Agent>(r#"{"name": "a"}"#).unwrap(), agent("a"));
    }
}
