//! Delegation: the tools by which a model gives work to another agent, one per dialect, all thin.
//!
//! A tool here says what it wants (an [`Errand`]) and words what came of it. It knows neither the loop nor how a child is
//! made, and it starts nothing itself: see `Delegate`. The words of each dialect are in `delegate/words.rs`.

mod words;

use std::collections::BTreeMap;

use posse_session::{
    Agent, BoxFuture, Errand, How, Look, Outcome, TaskEnd, Tool, ToolCall, ToolContext, ToolSpec, Touch, Workspace, key_of,
};
use serde_json::{Value, json};

use crate::arguments::{Arguments, Parameter};

const DESCRIPTION: Parameter = Parameter::new("description", &["title"]);
const PROMPT: Parameter = Parameter::new("prompt", &["task", "instructions"]);
const AGENT: Parameter = Parameter::new("subagent_type", &["agent", "agentType", "subagent", "type"]);
const RESUME: Parameter = Parameter::new("task_id", &["session_id", "resume"]);
const MODEL: Parameter = Parameter::new("model", &[]);

/// A description is a few words of a list.
const DESCRIPTION_CHARS_MAX: usize = 120;

/// Which names and words the model is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    #[default]
    Posse,
    OpenCode,
}

/// An agent as a caller may see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callable {
    pub name: String,
    pub description: Option<String>,
    /// Other names it answers to.
    pub aliases: Vec<String>,
    pub standing: Standing,
}

/// Whether a caller may call an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Listed,
    /// A rule denies it: it is not listed, and calling it meets the rule.
    Denied,
    /// Only a person can begin with it.
    Primary,
}

impl Dialect {
    /// The tool that starts a task.
    pub fn tool(self) -> &'static str {
        match self {
            Self::Posse => "agent",
            Self::OpenCode => "task",
        }
    }

    /// How deep agents may be nested when nothing else is said.
    pub fn depth(self) -> u64 {
        match self {
            Self::Posse => 3,
            Self::OpenCode => 1,
        }
    }
}

/// `agent` or `task`.
pub struct Delegation {
    spec: ToolSpec,
    dialect: Dialect,
    /// By the key of its name.
    agents: BTreeMap<String, Callable>,
}

impl Delegation {
    /// The tool as a caller who knows these agents sees it.
    pub fn new(dialect: Dialect, agents: impl IntoIterator<Item = Callable>) -> Self {
        let agents: BTreeMap<String, Callable> = agents.into_iter().map(|agent| (Agent::key(&agent.name), agent)).collect();
        let spec =
            ToolSpec { name: dialect.tool().into(), description: words::description(dialect, listed(&agents)), schema: schema(dialect) };
        Self { spec, dialect, agents }
    }

    /// Whether there is anybody to delegate to.
    pub fn has_agents(&self) -> bool {
        listed(&self.agents).next().is_some()
    }

    fn errand(&self, input: &Value) -> Result<Errand, String> {
        let arguments = Arguments::new(self.dialect.tool(), input)?;
        let text =
            |parameter| Ok::<_, String>(arguments.maybe_text(parameter)?.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned));
        let prompt = arguments.filled_text(PROMPT)?.to_owned();
        let described = text(DESCRIPTION)?.unwrap_or_else(|| prompt.lines().next().unwrap_or_default().to_owned());
        Ok(Errand {
            agent: arguments.filled_text(AGENT)?.trim().to_owned(),
            description: described
                .chars()
                .take(DESCRIPTION_CHARS_MAX)
                .map(|letter| if letter.is_control() { ' ' } else { letter })
                .collect(),
            prompt,
            name: None,
            model: text(MODEL)?,
            resume: text(RESUME)?,
            or_new: self.dialect == Dialect::OpenCode,
            tool: self.spec.name.clone(),
            allowed: Vec::new(),
        })
    }

    fn find(&self, name: &str) -> Option<&Callable> {
        let key = Agent::key(name);
        self.agents.get(&key).or_else(|| self.agents.values().find(|agent| agent.aliases.iter().any(|alias| Agent::key(alias) == key)))
    }
}

/// Those the model is told of, in the order of their names.
fn listed(agents: &BTreeMap<String, Callable>) -> impl Iterator<Item = &Callable> {
    agents.values().filter(|agent| agent.standing == Standing::Listed)
}

fn schema(dialect: Dialect) -> Value {
    let mut properties = json!({
        "description": {"type": "string", "description": "What the task is about, in 3 to 5 words."},
        "prompt": {"type": "string", "description": "The whole task for the agent: it sees nothing else of this conversation."},
        "subagent_type": {"type": "string", "description": "Which agent does it."},
    });
    let resumes = "The id of an earlier task of yours, to go on with it: its agent remembers what it did.";
    match dialect {
        Dialect::Posse => {
            properties["task_id"] = json!({"type": "string", "description": resumes});
            properties["model"] = json!({"type": "string", "description": "Another model for this task: `small`, `default`, `strong` or a configured one. Leave it out unless there is a reason."});
        }
        Dialect::OpenCode => {
            properties["session_id"] = json!({"type": "string", "description": resumes});
            properties["command"] = json!({"type": "string", "description": "The command that led to this task, if one did."});
        }
    }
    json!({"type": "object", "properties": properties, "required": ["description", "prompt", "subagent_type"]})
}

impl Tool for Delegation {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn look(&self, input: &Value, _workspace: &dyn Workspace) -> Result<Look, String> {
        let errand = self.errand(input)?;
        // A task that goes on keeps its agent, whatever is said here.
        let agent = match self.find(&errand.agent) {
            Some(agent) if agent.standing == Standing::Primary => return Err(words::primary(&agent.name, listed(&self.agents))),
            Some(agent) => agent.name.clone(),
            None => return Err(words::unknown(&errand.agent, listed(&self.agents))),
        };
        Ok(Look {
            touches: vec![Touch::new(key_of(&self.spec.name), &agent)],
            // Until the task is recorded nothing has happened.
            repeatable: true,
            title: format!("{agent}: {}", errand.description),
            ..Look::default()
        })
    }

    fn run<'a>(&'a self, call: &'a ToolCall, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            match self.errand(&call.input) {
                Ok(errand) => tokio::select! {
                    words = context.delegate.spawn(&call.id, errand) => Outcome::failed(words),
                    // Told to stop before the task was recorded: there is none.
                    () = context.stop.stopped() => Outcome::cancelled(""),
                },
                Err(words) => Outcome::failed(words),
            }
        })
    }

    fn ended(&self, end: &TaskEnd) -> String {
        words::ended(self.dialect, end)
    }
}

/// Whether an end is one the caller can build on.
fn succeeded(how: How) -> bool {
    matches!(how, How::Completed | How::Limit)
}
