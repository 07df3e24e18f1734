//! Agents and commands that a folder nobody trusts defines in its configuration, without what would run or widen.
//!
//! Prompts, descriptions and stricter rules stay. The texts of agents and commands in files of their own are
//! `scan.rs`; what a definition means is decided where definitions are read.

use crate::{
    origin::Findings,
    read::join,
    schema::snake_case,
    substitute::refers,
    template,
    tree::{Entry, Held, Node},
};

/// Keys that run something, lead somewhere else or widen rights, in the spelling of `snake_case`.
pub(crate) const POWERS: [&str; 13] = [
    "hooks",
    "mcp",
    "mcp_servers",
    "permission_mode",
    "allowed_tools",
    "sandbox",
    "limits",
    "concurrency",
    "env",
    "provider",
    "base_url",
    "api_key",
    "plugins",
];

/// Keys of an agent that say who it is and what it is told, or take something away from it, in the spelling of
/// `snake_case`. Of rules only the stricter count.
pub(crate) const WORDS: [&str; 22] = [
    "name",
    "description",
    "when_to_use",
    "mode",
    "hidden",
    "color",
    "prompt",
    "system_prompt",
    "prompt_append",
    "append_prompt",
    "append_system_prompt",
    "initial_prompt",
    "aliases",
    "permission",
    "permissions",
    "tools",
    "disallowed_tools",
    "version",
    "author",
    "license",
    "tags",
    "category",
];

/// How a command's wish for another agent is named.
pub(crate) const INLINE_AGENT: &str = "agent (where it is no subagent)";

/// Whether a command or skill names an agent and may be meant to run inline, where a folder that is not trusted chooses
/// nobody: as a task it has no more rights than its caller.
pub(crate) fn chooses_agent(fields: &Node) -> bool {
    let find = |name: &str| fields.entries().iter().find(|entry| snake_case(&entry.name) == name).map(|entry| &entry.node);
    let is_task = find("subtask").is_some_and(|node| node.flag() == Some(true) || node.text() == Some("true"));
    let is_fork = find("context").and_then(Node::text).is_some_and(|context| context.eq_ignore_ascii_case("fork"));
    let named = find("agent").and_then(Node::text).map(|name| name.trim().to_lowercase());
    named.is_some_and(|name| !matches!(name.as_str(), "" | "explore" | "general" | "general-purpose")) && !is_task && !is_fork
}

/// Keys of a command or a skill that choose who receives the code, at what price, and which shell runs it.
pub(crate) const CHOICES: [&str; 4] = ["model", "variant", "effort", "shell"];

/// The definition with what does not count left out; what is left out is named.
pub(crate) fn harmless(entry: &Entry, file: &str, findings: &mut Findings) -> Entry {
    let is_agents = matches!(entry.name.as_str(), "agent" | "mode");
    let mut sieve = Sieve { file, findings };
    let held = match &entry.node.held {
        Held::Map(entries) if is_agents => Held::Map(entries.iter().map(|agent| sieve.agent(agent, &entry.name)).collect()),
        _ => sieve.node(&entry.node, &entry.name).held,
    };
    Entry { node: Node { origin: entry.node.origin.clone(), held }, ..entry.clone() }
}

/// The keys of one agent, without what does not count. `path` is empty for a file of its own, which `scan.rs` has named.
pub(crate) fn harmless_agent(fields: &Node, file: &str, path: &str, findings: &mut Findings) -> Node {
    Sieve { file, findings }.agent_fields(fields, path)
}

struct Sieve<'a> {
    file: &'a str,
    findings: &'a mut Findings,
}

impl Sieve<'_> {
    fn agent(&mut self, entry: &Entry, path: &str) -> Entry {
        Entry { node: self.agent_fields(&entry.node, &join(path, &entry.name)), ..entry.clone() }
    }

    fn agent_fields(&mut self, fields: &Node, path: &str) -> Node {
        let Held::Map(entries) = &fields.held else { return fields.clone() };
        let kept = |entry: &Entry| {
            let path = join(path, &entry.name);
            let key = snake_case(&entry.name);
            if !WORDS.contains(&key.as_str()) {
                self.findings.ignore(self.file, &path, &entry.node);
                return None;
            }
            let node = match key.as_str() {
                "permission" | "permissions" | "tools" => self.rules(&entry.node, &path)?,
                _ => self.node(&entry.node, &path),
            };
            Some(Entry { node, ..entry.clone() })
        };
        Node { origin: fields.origin.clone(), held: Held::Map(entries.iter().filter_map(kept).collect()) }
    }

    fn node(&mut self, node: &Node, path: &str) -> Node {
        let held = match &node.held {
            Held::Map(entries) => Held::Map(entries.iter().filter_map(|entry| self.entry(entry, path)).collect()),
            Held::List(items) => Held::List(items.iter().enumerate().map(|(at, item)| self.node(item, &format!("{path}[{at}]"))).collect()),
            Held::Text(text) => {
                self.text(text, node, path);
                node.held.clone()
            }
            other => other.clone(),
        };
        Node { origin: node.origin.clone(), held }
    }

    fn entry(&mut self, entry: &Entry, path: &str) -> Option<Entry> {
        // `agent.NAME.hooks` and not an agent that is called `hooks`.
        let is_name = !path.contains('.');
        let is_command = path == "command";
        let path = join(path, &entry.name);
        let key = snake_case(&entry.name);
        if is_command && chooses_agent(&entry.node) {
            self.findings.ignore(self.file, &format!("{path}.{INLINE_AGENT}"), &entry.node);
        }
        let chooses = path.starts_with("command.") && CHOICES.contains(&key.as_str());
        if !is_name && (chooses || POWERS.contains(&key.as_str())) {
            self.findings.ignore(self.file, &path, &entry.node);
            return None;
        }
        let node = match key.as_str() {
            "permission" | "permissions" | "tools" if !is_name => self.rules(&entry.node, &path)?,
            _ => self.node(&entry.node, &path),
        };
        Some(Entry { node, ..entry.clone() })
    }

    fn rules(&mut self, node: &Node, path: &str) -> Option<Node> {
        let said_before = self.findings.said.len();
        let kept = self.without_allows(node, path);
        if said_before < self.findings.said.len() {
            // A deny that is taken away widens an allow that stays.
            self.findings.say(path, node);
        }
        kept
    }

    /// Rules without those that allow.
    fn without_allows(&mut self, node: &Node, path: &str) -> Option<Node> {
        let says_yes = |word: &str| matches!(word.trim().to_lowercase().as_str(), "allow" | "true" | "yes" | "on");
        let allows = node.text().is_some_and(says_yes) || node.flag() == Some(true);
        if allows {
            self.findings.ignore(self.file, &format!("{path} (allow)"), node);
            return None;
        }
        let Held::Map(entries) = &node.held else { return Some(node.clone()) };
        let kept = |entry: &Entry| Some(Entry { node: self.without_allows(&entry.node, &join(path, &entry.name))?, ..entry.clone() });
        Some(Node { origin: node.origin.clone(), held: Held::Map(entries.iter().filter_map(kept).collect()) })
    }

    /// A text stays as it is: whoever expands it knows whether the folder is trusted.
    fn text(&mut self, text: &str, node: &Node, path: &str) {
        if !commands_in(text).is_empty() {
            self.findings.ignore(self.file, &format!("{path} ({SHELL})"), node);
        } else if refers(text) {
            self.findings.ignore(self.file, path, node);
        }
    }
}

/// How a command that a text would run is named.
pub(crate) const SHELL: &str = "!`cmd`";

/// The commands that a template would run: `` !`cmd` ``, and blocks that begin with `` ```! ``.
pub(crate) fn commands_in(text: &str) -> Vec<&str> {
    template::shells(text).into_iter().map(|shell| &text[shell.line]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_wherever_they_stand() {
        let table: [(&str, &[&str]); 7] = [
            ("nothing `here`! no", &[]),
            ("!`id`", &["id"]),
            ("a !`git log` b !`rm x`", &["git log", "rm x"]),
            ("open !`never closed", &["never closed"]),
            ("```!\nid\n``` and !`x`", &["id", "x"]),
            ("```bash\nid\n```", &[]),
            ("!``", &[""]),
        ];
        for (text, commands) in table {
            assert_eq!(commands_in(text), commands, "{text}");
        }
    }
}
