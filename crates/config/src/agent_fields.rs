//! What one definition says of an agent: keys in any family's spelling, values in any form people write them.
//!
//! A value that cannot be meant is left out and named; who reads a file decides whether that stops the start. Where
//! definitions come from and how they are put over one another is `agents.rs`; limits, budgets and fallbacks are `bounds.rs`.

mod bounds;

use std::time::Duration;

use posse_session::{AgentBudget, AgentLimits, AgentMode, AgentTools, MemoryScope, Rule, Verdict};
use serde_json::{Map, Value};

use crate::{
    agent_rights::{LIMITING, means_all, permission_mode, unknown_tool, verdict_of},
    layer::{Family, Source},
    near::nearest,
    origin::{Findings, Origin, Problem, plain},
    path_pattern::Roots,
    permission,
    read::join,
    round::is_model_name,
    rule_key::RuleKey,
    schema::snake_case,
    tree::{Entry, Held, Node},
};

/// The keys that have a meaning, in the spelling of `snake_case`; a head that is not YAML is split at them.
pub(crate) const KEYS: [&str; 51] = [
    "name",
    "description",
    "when_to_use",
    "aliases",
    "mode",
    "hidden",
    "default",
    "disable",
    "disabled",
    "model",
    "variant",
    "effort",
    "temperature",
    "top_p",
    "color",
    "prompt",
    "system_prompt",
    "prompt_append",
    "append_prompt",
    "append_system_prompt",
    "tools",
    "allowed_tools",
    "disallowed_tools",
    "options",
    "steps",
    "max_steps",
    "max_turns",
    "permission",
    "permissions",
    "permission_mode",
    "background",
    "isolation",
    "skills",
    "mcp_servers",
    "required_mcp_servers",
    "hooks",
    "memory",
    "initial_prompt",
    "budget",
    "max_cost",
    "timeout",
    "limits",
    "fallback",
    "fallback_model",
    "fallback_models",
    "version",
    "author",
    "license",
    "tags",
    "category",
    "metadata",
];

/// One definition. What is absent says nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Draft {
    pub(crate) name: Option<String>,
    pub(crate) aliases: Option<Vec<String>>,
    pub(crate) description: Option<String>,
    pub(crate) mode: Option<AgentMode>,
    pub(crate) hidden: Option<bool>,
    pub(crate) disable: Option<bool>,
    pub(crate) model: Option<String>,
    pub(crate) variant: Option<String>,
    pub(crate) effort: Option<String>,
    pub(crate) temperature: Option<f64>,
    pub(crate) top_p: Option<f64>,
    pub(crate) color: Option<String>,
    pub(crate) prompt: Option<String>,
    /// Put after the prompt that is there.
    pub(crate) append: Option<String>,
    pub(crate) tools: Option<AgentTools>,
    pub(crate) disallowed_tools: Option<Vec<String>>,
    pub(crate) options: Map<String, Value>,
    pub(crate) steps: Option<u64>,
    pub(crate) permission: Vec<Rule>,
    pub(crate) permission_mode: Option<String>,
    pub(crate) background: Option<bool>,
    pub(crate) isolation: Option<String>,
    pub(crate) skills: Option<Vec<String>>,
    pub(crate) mcp_servers: Value,
    pub(crate) required_mcp_servers: Option<Vec<String>>,
    pub(crate) hooks: Value,
    pub(crate) memory: Option<MemoryScope>,
    pub(crate) initial_prompt: Option<String>,
    pub(crate) budget: AgentBudget,
    pub(crate) timeout: Option<Duration>,
    pub(crate) limits: AgentLimits,
    pub(crate) fallback: Option<Vec<String>>,
    /// What should limit it and could not be read, and what was denied instead. For whoever starts.
    pub(crate) announced: Vec<Problem>,
}

/// Who wrote it, and how its rules are to be read.
pub(crate) struct Writer<'a> {
    pub(crate) source: &'a Source,
    pub(crate) roots: Roots<'a>,
    /// `permission_order` of its file.
    pub(crate) first_wins: bool,
    /// `agent.NAME`; empty for a file of its own.
    pub(crate) path: &'a str,
}

pub(crate) fn draft(fields: &Node, writer: &Writer<'_>, findings: &mut Findings) -> Draft {
    let mut reader =
        Reader { writer, findings, draft: Draft::default(), max_turns: None, steps_max: None, closed: Vec::new(), listing: Vec::new() };
    for entry in fields.entries() {
        reader.entry(entry);
    }
    reader.draft.steps = reader.draft.steps.or(reader.max_turns);
    bounds::tighten(&mut reader.draft.steps, reader.steps_max);
    reader.tool_names();
    reader.rules(fields);
    reader.draft
}

struct Reader<'a> {
    writer: &'a Writer<'a>,
    findings: &'a mut Findings,
    draft: Draft,
    /// The other names of `steps`, which counts before them.
    max_turns: Option<u64>,
    /// The same as one of its limits: the smaller counts.
    steps_max: Option<u64>,
    /// Where something that should limit it cannot be read.
    closed: Vec<Origin>,
    /// The entries that list tools.
    listing: Vec<Entry>,
}

impl Reader<'_> {
    fn entry(&mut self, entry: &Entry) {
        let (node, key) = (&entry.node, snake_case(&entry.name));
        if node.held == Held::Null {
            return;
        }
        if self.identity(entry, &key) || self.running(entry, &key) {
            return;
        }
        match key.as_str() {
            "permission" | "permissions" => {}
            "tools" => self.draft.tools = self.tools(entry),
            // In an agent's file it is a list of what it has, and grants nothing.
            "allowed_tools" => self.draft.tools = self.draft.tools.take().or(self.tools(entry)),
            "disallowed_tools" => self.draft.disallowed_tools = self.withheld(entry),
            "skills" => self.draft.skills = self.names(entry),
            "required_mcp_servers" => self.draft.required_mcp_servers = self.names(entry),
            "mcp_servers" => self.draft.mcp_servers = node.to_json(),
            "hooks" => self.draft.hooks = node.to_json(),
            "options" => match node.to_json() {
                Value::Object(options) => self.draft.options.extend(options),
                _ => self.wrong(entry, "an object"),
            },
            "version" | "author" | "license" | "tags" | "category" | "metadata" => {}
            _ => self.unknown(entry, &key),
        }
    }

    /// A slip is told; whatever else nobody knows is for the provider where OpenCode's way is meant, and nobody's in a file
    /// of Claude's, where other programs have keys of their own.
    fn unknown(&mut self, entry: &Entry, key: &str) {
        let near = nearest(key, KEYS).filter(|_| !PROVIDERS.contains(&key));
        match near {
            Some(near) if LIMITING.contains(&near) => {
                self.unreadable(entry, &format!("nobody knows this key; did you mean `{near}`?"));
                self.closed.push(entry.origin.clone());
            }
            Some(near) => self.note(entry, format!("nobody knows this key, so it is left out; did you mean `{near}`?")),
            None if self.writer.source.family == Family::Claude => self.note(entry, "nobody here knows this key; left out"),
            None => {
                self.draft.options.insert(entry.name.clone(), entry.node.to_json());
            }
        }
    }

    /// Who it is and what it is told. Whether the key was one of these.
    fn identity(&mut self, entry: &Entry, key: &str) -> bool {
        match key {
            "name" => self.draft.name = self.line(entry),
            "description" => self.draft.description = self.words(entry),
            "when_to_use" => self.draft.description = self.draft.description.take().or(self.words(entry)),
            "aliases" => self.draft.aliases = self.names(entry),
            "mode" => self.draft.mode = self.choice(entry, &MODES),
            "hidden" => self.draft.hidden = self.flag(entry),
            "disable" | "disabled" => self.draft.disable = self.flag(entry),
            // Who starts is said by `default_agent`.
            "default" => {}
            "color" => self.draft.color = self.line(entry),
            "prompt" | "system_prompt" => match entry.node.get("append") {
                Some(append) => self.draft.append = append.text().map(str::to_owned),
                None => self.draft.prompt = self.words(entry),
            },
            "prompt_append" | "append_prompt" | "append_system_prompt" => self.draft.append = self.words(entry),
            "initial_prompt" => self.draft.initial_prompt = self.words(entry),
            _ => return false,
        }
        true
    }

    /// How it runs. Whether the key was one of these.
    fn running(&mut self, entry: &Entry, key: &str) -> bool {
        match key {
            "model" => self.draft.model = self.model(entry),
            "variant" => self.draft.variant = self.line(entry),
            "effort" => self.draft.effort = self.line(entry),
            "temperature" => self.draft.temperature = self.number(entry),
            "top_p" => self.draft.top_p = self.number(entry),
            "steps" => self.draft.steps = self.count(entry),
            "max_steps" | "max_turns" => self.max_turns = self.max_turns.or(self.count(entry)),
            "permission_mode" => self.draft.permission_mode = self.permission_mode(entry),
            "background" => self.draft.background = self.flag(entry),
            "isolation" => self.draft.isolation = self.line(entry).filter(|word| word != "none"),
            "memory" => self.draft.memory = self.choice(entry, &SCOPES),
            "budget" => self.budget(entry),
            "max_cost" => self.bound(entry, "cost"),
            "timeout" => self.bound(entry, "wall"),
            "limits" => self.limits(entry),
            "fallback" | "fallback_model" | "fallback_models" => self.draft.fallback = self.fallback(entry),
            _ => return false,
        }
        true
    }

    fn wrong(&mut self, entry: &Entry, expected: &str) {
        let words = format!("expected {expected}, found {}", entry.node.kind());
        self.misfit(entry, words);
    }

    fn misfit(&mut self, entry: &Entry, words: impl Into<String>) {
        self.findings.error(&entry.node.origin, &join(self.writer.path, &entry.name), words);
    }

    /// Something odd that stops no start, not even in a configuration file.
    fn note(&mut self, entry: &Entry, words: impl Into<String>) {
        self.findings.warn(&entry.node.origin, &join(self.writer.path, &entry.name), words);
    }

    /// What should limit the agent and cannot be read. In a configuration file it stops the start; in a file of its own the
    /// agent is denied what it may be about, and whoever starts is told.
    fn unreadable(&mut self, entry: &Entry, words: &str) {
        let words = if self.is_file() { format!("{words}; denied") } else { words.to_owned() };
        self.misfit(entry, words.clone());
        if self.is_file() {
            let (origin, key) = (entry.node.origin.clone(), plain(&entry.name));
            self.draft.announced.push(Problem { origin, key, words });
        }
    }

    fn is_file(&self) -> bool {
        self.writer.path.is_empty()
    }

    /// A text; a number or a list of texts is one too.
    fn words(&mut self, entry: &Entry) -> Option<String> {
        let words = one_text(&entry.node);
        if words.is_none() {
            self.wrong(entry, "a string");
        }
        words.map(|words| words.trim().to_owned()).filter(|words| !words.is_empty())
    }

    /// A text of one line, safe to print.
    fn line(&mut self, entry: &Entry) -> Option<String> {
        let words = self.words(entry)?;
        Some(plain(words.lines().next().unwrap_or_default().trim())).filter(|line| !line.is_empty())
    }

    fn flag(&mut self, entry: &Entry) -> Option<bool> {
        let said = one_text(&entry.node).map(|word| word.to_lowercase());
        match said.as_deref() {
            Some("true" | "yes" | "on" | "1") => Some(true),
            Some("false" | "no" | "off" | "0") => Some(false),
            _ => {
                self.wrong(entry, "true or false");
                None
            }
        }
    }

    fn number(&mut self, entry: &Entry) -> Option<f64> {
        let number = one_text(&entry.node).and_then(|word| word.trim().trim_start_matches('$').parse::<f64>().ok());
        let number = number.filter(|number| number.is_finite() && 0.0 <= *number);
        if number.is_none() {
            self.wrong(entry, "a number that is not negative");
        }
        number
    }

    fn count(&mut self, entry: &Entry) -> Option<u64> {
        self.whole_number(entry, 1)
    }

    fn whole_number(&mut self, entry: &Entry, least: u64) -> Option<u64> {
        let count = entry.node.count().or_else(|| entry.node.text()?.trim().parse().ok()).filter(|count| least <= *count);
        if count.is_none() {
            self.wrong(entry, &format!("a whole number, {least} or more"));
        }
        count
    }

    fn choice<T: Copy>(&mut self, entry: &Entry, choices: &[(&str, T)]) -> Option<T> {
        let word = one_text(&entry.node).unwrap_or_default().trim().to_lowercase();
        let chosen = choices.iter().find(|(name, _)| *name == word).map(|(_, choice)| *choice);
        if chosen.is_none() {
            let names: Vec<String> = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
            self.misfit(entry, format!("expected one of {}", names.join(", ")));
        }
        chosen
    }

    /// Kept as written: which models there are is not known here.
    fn model(&mut self, entry: &Entry) -> Option<String> {
        let model = model_in(&entry.node).filter(|model| is_model_name(model));
        if model.is_none() {
            self.misfit(entry, if self.is_file() { "not the name of a model; the caller's is used" } else { "not the name of a model" });
        }
        model.map(|model| plain(&model))
    }

    fn permission_mode(&mut self, entry: &Entry) -> Option<String> {
        let known = permission_mode(&one_text(&entry.node).unwrap_or_default());
        if known.is_none() {
            self.unreadable(entry, "not a permission mode that an agent can have");
            self.closed.push(entry.origin.clone());
        }
        known.map(str::to_owned)
    }

    fn names(&mut self, entry: &Entry) -> Option<Vec<String>> {
        let names = names_in(&entry.node);
        if names.is_none() {
            self.wrong(entry, "names, as a list or with commas");
        }
        names
    }

    fn tools(&mut self, entry: &Entry) -> Option<AgentTools> {
        self.listing.push(entry.clone());
        match &entry.node.held {
            Held::Flag(true) => Some(AgentTools::All),
            Held::Flag(false) => Some(AgentTools::Listed(Vec::new())),
            Held::Text(text) if means_all(text) => Some(AgentTools::Listed(vec!["*".to_owned()])),
            Held::Map(flags) => Some(AgentTools::Map(flags.iter().map(|flag| (flag.name.clone(), self.offered(flag))).collect())),
            _ => self.listed(entry).map(AgentTools::Listed),
        }
    }

    /// Whether a map of tools turns one on. What turns a tool on must be a word, to be found by who reads no YAML.
    fn offered(&mut self, flag: &Entry) -> bool {
        let word = one_text(&flag.node).unwrap_or_default().trim().to_lowercase();
        match word.as_str() {
            "true" | "yes" | "on" | "allow" if flag.node.number().is_none() => true,
            "false" | "no" | "off" | "deny" | "0" => false,
            _ => {
                self.unreadable(flag, &format!("expected true or false, found {}", flag.node.kind()));
                false
            }
        }
    }

    /// Names of tools, each of them or all.
    fn listed(&mut self, entry: &Entry) -> Option<Vec<String>> {
        let read = names_in(&entry.node);
        let Some(names) = read else {
            self.unreadable(entry, &format!("expected names of tools, found {}", entry.node.kind()));
            self.closed.push(entry.origin.clone());
            return None;
        };
        Some(names.into_iter().map(|name| if means_all(&name) { "*".to_owned() } else { name }).collect())
    }

    /// The tools that it does not have; of a map its keys, whatever they say.
    fn withheld(&mut self, entry: &Entry) -> Option<Vec<String>> {
        self.listing.push(entry.clone());
        let Held::Map(flags) = &entry.node.held else { return self.listed(entry) };
        self.note(entry, "expected names as a list or with commas; all of these are taken away");
        Some(flags.iter().map(|flag| plain(flag.name.trim())).collect())
    }

    /// Names in lists of tools that no tool has, and an agent that they leave without any.
    fn tool_names(&mut self) {
        for entry in std::mem::take(&mut self.listing) {
            let withholds = snake_case(&entry.name) == "disallowed_tools";
            let names: Vec<String> = match (&entry.node.held, &self.draft.tools, &self.draft.disallowed_tools) {
                (Held::Map(flags), _, _) => flags.iter().map(|flag| flag.name.clone()).collect(),
                (_, _, Some(names)) if withholds => names.clone(),
                (_, Some(AgentTools::Listed(names)), _) if !withholds => names.clone(),
                _ => continue,
            };
            let unknown: Vec<(&String, Option<&str>)> = names.iter().filter_map(|name| Some((name, unknown_tool(name)?))).collect();
            for (name, near) in &unknown {
                let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                let words = format!("no tool is called `{}`{hint}", plain(name));
                if withholds && near.is_some() { self.alarm(&entry, words) } else { self.note(&entry, words) }
            }
            let lists = !withholds && !matches!(entry.node.held, Held::Map(_));
            if lists && !names.is_empty() && unknown.len() == names.len() {
                self.alarm(&entry, "none of these is a tool, so the agent has none".to_owned());
            }
        }
    }

    /// Told in the list of what is odd and to whoever starts.
    fn alarm(&mut self, entry: &Entry, words: String) {
        let key = join(self.writer.path, &entry.name);
        self.draft.announced.push(Problem { origin: entry.node.origin.clone(), key: plain(&key), words: words.clone() });
        self.note(entry, words);
    }

    /// What a map of tools turns off is denied too, below the explicit rules.
    fn rules(&mut self, fields: &Node) {
        let mut rules = Vec::new();
        if let Some(AgentTools::Map(flags)) = &self.draft.tools {
            // A rule that denies everything would need others that allow, and those would lift what the user asks about.
            let names_some = flags.iter().any(|(_, offered)| *offered);
            for (name, _) in flags.iter().filter(|(name, offered)| !offered && (name != "*" || !names_some)) {
                let origin = fields.entries().iter().find(|entry| entry.name == "tools").map_or(&fields.origin, |entry| &entry.origin);
                let key = RuleKey::of(name).unwrap_or_else(|_| RuleKey::literal(name));
                rules.push(Rule { key: key.key, pattern: "*".into(), action: Verdict::Deny, origin: origin.to_string() });
            }
        }
        let written: Vec<Entry> = fields.entries().iter().filter(|entry| is_permission(entry)).cloned().collect();
        let written: Vec<Entry> = written.into_iter().filter_map(|entry| self.readable(&entry)).collect();
        let mut found = Findings::default();
        let explicit = permission::rules_of(&written, self.writer.first_wins, self.writer.source, self.writer.roots, &mut found);
        for problem in found.errors {
            self.findings.error(&problem.origin, &join(self.writer.path, &problem.key), problem.words);
        }
        for problem in found.warnings {
            self.findings.warn(&problem.origin, &join(self.writer.path, &problem.key), problem.words);
        }
        self.draft.permission = permission::merged(&rules, &explicit);
        for origin in std::mem::take(&mut self.closed) {
            let deny = |key: &str| Rule { key: key.into(), pattern: "*".into(), action: Verdict::Deny, origin: origin.to_string() };
            self.draft.permission.extend(["edit", "bash"].map(deny));
        }
    }

    /// Rules with their verdicts in one spelling. What is no verdict denies, and what is no rules denies edits and the shell;
    /// in a configuration file both are left as they are, and stop the start.
    fn readable(&mut self, entry: &Entry) -> Option<Entry> {
        let named = |node: Node| Entry { name: "permission".into(), origin: entry.origin.clone(), node };
        let held = match &entry.node.held {
            Held::Map(keys) => Held::Map(keys.iter().map(|key| self.verdicts(key)).collect()),
            other if verdict_of(other).is_none() && self.is_file() => {
                let words = match other {
                    Held::Text(_) => "expected \"allow\", \"ask\", \"deny\" or rules by name, found another text".to_owned(),
                    _ => format!("expected \"allow\", \"ask\", \"deny\" or rules by name, found {}", entry.node.kind()),
                };
                self.unreadable(entry, &words);
                self.closed.push(entry.origin.clone());
                return None;
            }
            other => verdict_of(other).map_or_else(|| other.clone(), |word| Held::Text(word.to_owned())),
        };
        Some(named(Node { origin: entry.node.origin.clone(), held }))
    }

    /// One key's rules: a verdict, or verdicts by pattern.
    fn verdicts(&mut self, entry: &Entry) -> Entry {
        let path = format!("permission.{}", entry.name);
        let held = match &entry.node.held {
            Held::Map(patterns) => Held::Map(patterns.iter().map(|pattern| self.verdict(pattern, &join(&path, &pattern.name))).collect()),
            _ => return self.verdict(entry, &path),
        };
        Entry { node: Node { origin: entry.node.origin.clone(), held }, ..entry.clone() }
    }

    fn verdict(&mut self, entry: &Entry, path: &str) -> Entry {
        let held = match verdict_of(&entry.node.held) {
            Some(word) => Held::Text(word.to_owned()),
            None if self.is_file() => {
                let found = if entry.node.text().is_some() { "another word" } else { entry.node.kind() };
                let named = Entry { name: path.to_owned(), ..entry.clone() };
                self.unreadable(&named, &format!("expected \"allow\", \"ask\" or \"deny\", found {found}"));
                Held::Text("deny".to_owned())
            }
            None => entry.node.held.clone(),
        };
        Entry { node: Node { origin: entry.node.origin.clone(), held }, ..entry.clone() }
    }
}

/// Keys of providers that are near one of ours and no slip.
const PROVIDERS: [&str; 2] = ["top_k", "top_a"];

fn is_permission(entry: &Entry) -> bool {
    matches!(snake_case(&entry.name).as_str(), "permission" | "permissions") && entry.node.held != Held::Null
}

const MODES: [(&str, AgentMode); 3] = [("primary", AgentMode::Primary), ("subagent", AgentMode::Subagent), ("all", AgentMode::All)];

const SCOPES: [(&str, MemoryScope); 3] = [("user", MemoryScope::User), ("project", MemoryScope::Project), ("local", MemoryScope::Local)];

/// A model as it is named: a text, or `{providerID, modelID}`.
fn model_in(node: &Node) -> Option<String> {
    let part = |name: &str| node.entries().iter().find(|part| snake_case(&part.name) == name).and_then(|part| part.node.text());
    match (part("provider_id"), part("model_id")) {
        (Some(provider), Some(model)) => Some(format!("{provider}/{model}")),
        _ => one_text(node).map(|text| text.trim().to_owned()),
    }
}

fn one_text(node: &Node) -> Option<String> {
    match &node.held {
        Held::Text(text) => Some(text.clone()),
        Held::Number(number) => Some(number.to_string()),
        Held::Flag(flag) => Some(flag.to_string()),
        Held::List(items) => {
            items.iter().map(|item| item.text().map(str::to_owned)).collect::<Option<Vec<_>>>().map(|items| items.join(" "))
        }
        _ => None,
    }
}

/// Names in a list or in a text.
fn names_in(node: &Node) -> Option<Vec<String>> {
    let names = match &node.held {
        Held::List(items) => items.iter().map(one_text).collect::<Option<Vec<String>>>(),
        _ => one_text(node).map(|text| separate(&text)),
    }?;
    Some(names.iter().map(|name| plain(name.trim())).filter(|name| !name.is_empty()).collect())
}

/// `Read, Bash(git log, git diff), Grep` and `Read Grep` as their names.
fn separate(text: &str) -> Vec<String> {
    let text = text.trim().trim_start_matches('[').trim_end_matches(']');
    let has_comma = text.contains(',');
    let mut depth = 0_usize;
    let mut names = vec![String::new()];
    for letter in text.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let splits = if has_comma { matches!(letter, ',' | '\n') } else { letter.is_whitespace() };
        match names.last_mut() {
            Some(last) if depth != 0 || !splits => last.push(letter),
            _ => names.push(String::new()),
        }
    }
    names.iter().map(|name| name.trim().trim_start_matches("- ").trim_matches(['"', '\'']).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_separated_as_people_write_them() {
        let table: [(&str, &[&str]); 8] = [
            ("Read", &["Read"]),
            ("Read, Grep,Bash", &["Read", "Grep", "Bash"]),
            ("Read Grep", &["Read", "Grep"]),
            ("Bash(git log, git diff), Read", &["Bash(git log, git diff)", "Read"]),
            ("Bash(git log *)", &["Bash(git log *)"]),
            ("[Read, \"Grep\"]", &["Read", "Grep"]),
            ("*", &["*"]),
            ("Bash(never closed, Read", &["Bash(never closed, Read"]),
        ];
        for (text, names) in table {
            assert_eq!(separate(text), names, "{text}");
        }
    }
}
