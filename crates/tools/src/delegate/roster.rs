//! Who there is to call: the list in a tool's description, within bounds, and the answer to a name that nobody has.
//!
//! Byte-stable for the same agents: the list is at the head of every request.

use std::collections::BTreeMap;

use posse_session::Agent;

use super::{Callable, Dialect, Standing};

/// What the `claude` dialect calls the agent that can do anything, and calls when nobody is named.
pub(super) const GENERAL: &str = "general-purpose";

/// A wrong name is answered with so many near ones.
const NEAR_MAX: usize = 3;

/// The list is in every request, so it may cost a few thousand tokens and no more.
const LIST_BYTES_MAX: usize = 16 * 1024;

/// Letters of a description in the list; shorter ones are tried until all agents fit.
const DESCRIPTION_CHARS: [usize; 5] = [600, 300, 160, 80, 0];

/// A wrong name is not answered with hundreds.
const NAMED_MAX: usize = 30;

/// The agents a caller knows, by the key of their names.
pub(super) struct Roster {
    dialect: Dialect,
    agents: BTreeMap<String, Callable>,
}

impl Roster {
    pub(super) fn new(dialect: Dialect, agents: impl IntoIterator<Item = Callable>) -> Self {
        Self { dialect, agents: agents.into_iter().map(|agent| (Agent::key(&agent.name), agent)).collect() }
    }

    /// Those the model is told of, in the order of their names.
    pub(super) fn listed(&self) -> impl Iterator<Item = &Callable> {
        self.agents.values().filter(|agent| agent.standing == Standing::Listed)
    }

    pub(super) fn find(&self, name: &str) -> Option<&Callable> {
        let key = Agent::key(name);
        self.agents.get(&key).or_else(|| self.agents.values().find(|agent| is_alias(agent, &key)))
    }

    /// The name under which the model knows an agent. Logs and rules have its own.
    fn shown<'a>(&'a self, agent: &'a Callable) -> &'a str {
        let is_general = self.dialect == Dialect::Claude && is_alias(agent, &Agent::key(GENERAL));
        if is_general && !self.agents.contains_key(&Agent::key(GENERAL)) { GENERAL } else { &agent.name }
    }

    /// A line for each agent, within bounds: descriptions are shortened before anybody is left out.
    pub(super) fn list(&self) -> String {
        for most in DESCRIPTION_CHARS {
            let text: String = self.listed().map(|agent| self.line(agent, most)).collect();
            if text.len() <= LIST_BYTES_MAX {
                return text;
            }
        }
        let mut text = String::new();
        let mut left_out = 0;
        for agent in self.listed() {
            let line = self.line(agent, 0);
            if text.len() + line.len() <= LIST_BYTES_MAX { text.push_str(&line) } else { left_out += 1 }
        }
        format!("{text}({left_out} more are not listed here; each can be called by its name)\n")
    }

    fn line(&self, agent: &Callable, most: usize) -> String {
        let name = self.shown(agent);
        if most == 0 {
            return format!("- {name}\n");
        }
        let described = agent.description.as_deref().map(str::trim).filter(|text| !text.is_empty()).unwrap_or("Manual only");
        let one_line = described.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut cut: String = one_line.chars().take(most).collect();
        if cut.len() < one_line.len() {
            cut = format!("{}…", cut.trim_end());
        }
        format!("- {name}: {cut}\n")
    }

    pub(super) fn unknown(&self, name: &str) -> String {
        let lower = name.to_lowercase();
        let is_near = |known: &&str| {
            let known = known.to_lowercase();
            known.contains(&lower) || lower.contains(&known) || common_start(&known, &lower) >= 3
        };
        let near: Vec<String> =
            self.listed().map(|agent| self.shown(agent)).filter(is_near).take(NEAR_MAX).map(|near| format!("`{near}`")).collect();
        let hint = if near.is_empty() { String::new() } else { format!(" Did you mean {}?", near.join(" or ")) };
        format!("There is no agent named `{name}`.{hint} {}", self.available())
    }

    /// The name is known, and only a person can give it a meaning.
    pub(super) fn no_forks(&self) -> String {
        format!(
            "Forks are switched off here, so `fork` cannot be called. Only the user can switch them on: `--fork explicit` for one run, or `\"fork\": \"explicit\"` in posse.json. {}",
            self.available()
        )
    }

    pub(super) fn primary(&self, agent: &Callable) -> String {
        format!("`{}` is a primary agent: only a person can start it. {}", self.shown(agent), self.available())
    }

    /// Nobody was named, and there is nobody to take it by default.
    pub(super) fn nobody(&self) -> String {
        format!("There is no `{GENERAL}` agent here, so `subagent_type` must name one. {}", self.available())
    }

    fn available(&self) -> String {
        let names: Vec<&str> = self.listed().map(|agent| self.shown(agent)).collect();
        let shown = names.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
        match names.len().saturating_sub(NAMED_MAX) {
            _ if names.is_empty() => "No agent can be called here.".into(),
            0 => format!("Agents you can call: {shown}."),
            more => format!("Agents you can call: {shown}, and {more} more."),
        }
    }
}

fn is_alias(agent: &Callable, key: &str) -> bool {
    agent.aliases.iter().any(|alias| Agent::key(alias) == key)
}

fn common_start(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count()
}
