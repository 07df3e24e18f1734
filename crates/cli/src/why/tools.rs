//! Tools that an agent is not offered, and why: a rule, its definition, or where it works.
//!
//! Asked of the rules of today; what the model of a session was really shown is recorded, and the caller knows it.

use posse_config::{Config, Places, Rulebook};
use posse_session::{Agent, Rule, Rules, key_of};
use posse_tools::Dialect;
use serde::Serialize;

use crate::{
    args::{How, Listing},
    build,
    exit::{Exit, Failure},
    print::{safe, to_stdout},
};

#[derive(Serialize)]
pub(super) struct MissingTool {
    pub(super) tool: String,
    /// The rule of today that removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    origin: String,
    pub(super) why: String,
}

/// Where an agent works: what it is offered depends on it.
pub(super) struct Post<'a> {
    pub(super) agent: Agent,
    /// Another agent called it.
    pub(super) is_task: bool,
    /// The rules of those above it.
    pub(super) above: &'a [Rules],
}

/// The rules of today, asked about tools.
pub(super) struct Book {
    config: Config,
    /// Those that can be offered at all here.
    pub(super) names: Vec<String>,
    dialect: Dialect,
}

/// Why a tool is not offered.
enum Absent<'a> {
    Rule(&'a Rule),
    Words(String),
}

impl Book {
    pub(super) fn of(places: &Places) -> Result<Self, Failure> {
        let config = build::configuration(places, &How::default())?;
        let dialect = build::dialect(&config, None)?;
        let mut names: Vec<String> = posse_tools::builtin().iter().map(|tool| tool.spec().name.clone()).collect();
        names.extend(dialect.tools().iter().map(|name| (*name).to_owned()));
        Ok(Self { config, names, dialect })
    }

    fn rules(&self, post: &Post) -> Rulebook {
        let mut book = self.config.rulebook_for(&post.agent, self.config.permission_mode);
        book.ceiling.extend(post.above.iter().cloned());
        book
    }

    /// `None`: nothing of today takes it away.
    fn absent<'b>(&self, tool: &str, post: &Post, book: &'b Rulebook) -> Option<Absent<'b>> {
        if let Some(rule) = build::removed_by(book, tool) {
            return Some(Absent::Rule(rule));
        }
        let (agent, origin) = (&post.agent.name, &post.agent.origin);
        if !post.agent.offers(tool) {
            return Some(Absent::Words(format!(
                "the definition of {agent} ({origin}) leaves it out: see its `tools` and `disallowedTools`"
            )));
        }
        let unsaid = |key: &&str| post.is_task && !post.agent.speaks_of(key);
        build::needed_key(tool, self.dialect).filter(unsaid).map(|key| {
            let words = format!("a task has it only if its definition has a rule for `{key}`, and that of {agent} ({origin}) has none");
            Absent::Words(words)
        })
    }

    pub(super) fn lacks(&self, tool: &str, post: &Post) -> bool {
        let book = self.rules(post);
        self.absent(tool, post, &book).is_some()
    }

    /// Why a tool that is known to be absent is.
    pub(super) fn explained(&self, tool: String, post: &Post) -> MissingTool {
        let book = self.rules(post);
        match self.absent(&tool, post, &book) {
            Some(Absent::Rule(rule)) => {
                let name = format!("{}({})", rule.key, rule.pattern);
                let why = format!("removed by {name} from {}", rule.origin);
                MissingTool { tool, rule: Some(name), origin: rule.origin.clone(), why }
            }
            Some(Absent::Words(why)) => MissingTool { tool, rule: None, origin: post.agent.origin.clone(), why },
            None => {
                let why = match build::needed_key(&tool, self.dialect) {
                    Some("question") => "offered only where somebody can answer: on a terminal, or with --on-ask wait",
                    Some("task") => {
                        "offered where there is an agent to call and depth is left (`limits.depth`); a flag of that run may have removed it too"
                    }
                    _ => "no rule of today removes it: a flag of that run did, or the rules have changed, or posse has",
                };
                MissingTool { tool, rule: None, origin: String::new(), why: why.to_owned() }
            }
        }
    }
}

/// Whether a tool is offered in this folder: to whom the user talks to, or to an agent when it is called. `None`: there is
/// no such tool.
pub(super) fn tool(name: &str, agent: Option<&str>, places: &Places, format: Listing) -> Result<Option<Exit>, Failure> {
    let book = Book::of(places)?;
    let Some(known) = book.names.iter().find(|known| known.eq_ignore_ascii_case(name)).cloned() else { return Ok(None) };
    let (who, post) = match agent {
        None => (String::new(), Post { agent: Agent::default(), is_task: false, above: &[] }),
        Some(named) => {
            let agents = posse_config::agents(places, &book.config, None).map_err(|error| Failure::usage(error.to_string()))?;
            let missing = || Failure::usage(format!("there is no agent {named}; `posse agents list` shows who there is"));
            let agent = agents.get(named).ok_or_else(missing)?.clone();
            (format!(" to {}", agent.name), Post { is_task: agent.mode.is_subagent(), agent, above: &[] })
        }
    };
    let lacks = book.lacks(&known, &post);
    let found = book.explained(known.clone(), &post);
    let why = match () {
        () if lacks || key_of(&known) == "question" => found.why.clone(),
        () => format!("offered{who}: no rule removes it"),
    };
    if format == Listing::Json {
        let fields = serde_json::json!({
            "tool": known, "agent": agent, "offered": !lacks, "rule": found.rule, "origin": found.origin, "why": why
        });
        to_stdout(&fields.to_string());
    } else {
        to_stdout(&safe(&format!("{known}  {why}")));
    }
    Ok(Some(Exit::Done))
}
