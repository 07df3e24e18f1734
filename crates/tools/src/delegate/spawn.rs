//! `agent`, `task` or `Agent`: gives work to another agent.
//!
//! All dialects have one kind of input; what a dialect does not show is understood all the same, and what nobody can do
//! yet is refused in words rather than left out in silence.

use posse_session::{
    Agent, BoxFuture, Errand, FORK, Forks, Isolation, Launch, Look, Outcome, TaskEnd, TaskView, Tool, ToolCall, ToolContext, ToolSpec,
    Touch, Workspace, key_of,
};
use serde_json::Value;

use super::{
    Callable, Dialect, Standing, Switches, claude, opencode, posse,
    roster::{GENERAL, Roster},
    words,
};
use crate::arguments::{Arguments, Parameter};

const DESCRIPTION: Parameter = Parameter::new("description", &["title"]);
const PROMPT: Parameter = Parameter::new("prompt", &["task", "instructions"]);
const AGENT: Parameter = Parameter::new("subagent_type", &["agent", "agentType", "subagent", "type"]);
const RESUME: Parameter = Parameter::new("task_id", &["session_id", "resume"]);
const MODEL: Parameter = Parameter::new("model", &[]);
const NAME: Parameter = Parameter::new("name", &[]);
const BACKGROUND: Parameter = Parameter::new("run_in_background", &["background"]);
const ISOLATION: Parameter = Parameter::new("isolation", &[]);
const DIRECTORY: Parameter = Parameter::new("cwd", &[]);
const TEAM: Parameter = Parameter::new("team_name", &[]);

/// A description is a few words of a list.
const DESCRIPTION_CHARS_MAX: usize = 120;

/// A name is typed in place of an id.
const NAME_CHARS_MAX: usize = 64;

/// What ids of tasks begin with: a name that does could be taken for one.
const ID_PREFIX: &str = "ses_";

pub struct Delegation {
    spec: ToolSpec,
    dialect: Dialect,
    switches: Switches,
    roster: Roster,
}

impl Delegation {
    /// The tool as a caller who knows these agents sees it.
    pub fn new(dialect: Dialect, agents: impl IntoIterator<Item = Callable>, switches: Switches) -> Self {
        let roster = Roster::new(dialect, agents);
        let (description, schema) = match dialect {
            Dialect::Posse => (posse::description(&roster, switches), posse::schema(switches)),
            Dialect::OpenCode => (opencode::description(&roster, switches), opencode::schema(switches)),
            Dialect::Claude => (claude::description(&roster, switches), claude::schema(switches)),
        };
        let spec = ToolSpec { name: dialect.tool().into(), description, schema };
        Self { spec, dialect, switches, roster }
    }

    /// Whether there is anybody to delegate to.
    pub fn has_agents(&self) -> bool {
        self.roster.listed().next().is_some()
    }

    fn errand(&self, input: &Value, workspace: &dyn Workspace) -> Result<Errand, String> {
        let arguments = Arguments::new(self.dialect.tool(), input)?;
        let text = |parameter| text(&arguments, parameter);
        let prompt = arguments.filled_text(PROMPT)?.to_owned();
        let described = match self.dialect {
            Dialect::Claude => arguments.filled_text(DESCRIPTION)?.trim().to_owned(),
            // The dialects in which nothing else depends on it forgive that it is missing.
            Dialect::Posse | Dialect::OpenCode => {
                text(DESCRIPTION)?.unwrap_or_else(|| prompt.lines().next().unwrap_or_default().to_owned())
            }
        };
        let agent = self.agent(&arguments)?;
        let (name, background) = match self.dialect {
            Dialect::OpenCode => (None, self.switches.always_in_background()),
            Dialect::Posse | Dialect::Claude => (self.name(&arguments)?, self.background(&arguments)?),
        };
        let (isolation, directory) = match self.dialect {
            Dialect::OpenCode => (None, None),
            Dialect::Posse | Dialect::Claude => self.place(&arguments, workspace)?,
        };
        let resume = text(RESUME)?;
        let fork = agent == FORK && self.forks() != Forks::Off && self.roster.find(FORK).is_some_and(|agent| agent.forks);
        Ok(Errand {
            agent,
            description: described
                .chars()
                .take(DESCRIPTION_CHARS_MAX)
                .map(|letter| if letter.is_control() { ' ' } else { letter })
                .collect(),
            prompt,
            name,
            model: text(MODEL)?,
            resume,
            or_new: self.dialect == Dialect::OpenCode,
            tool: self.spec.name.clone(),
            allowed: Vec::new(),
            background,
            fork,
            isolation,
            directory,
        })
    }

    fn forks(&self) -> Forks {
        self.switches.forks
    }

    /// Who is meant, by its own name if it is known.
    fn agent(&self, arguments: &Arguments<'_>) -> Result<String, String> {
        let named = match (self.dialect, text(arguments, AGENT)?) {
            (_, None) if self.forks() == Forks::Implicit => FORK.to_owned(),
            (Dialect::Claude, None) if self.roster.find(GENERAL).is_none() => return Err(self.roster.nobody()),
            (Dialect::Claude, None) => GENERAL.to_owned(),
            (_, None) => arguments.filled_text(AGENT)?.to_owned(),
            (_, Some(name)) => name,
        };
        Ok(self.roster.find(&named).map_or(named, |agent| agent.name.clone()))
    }

    fn name(&self, arguments: &Arguments<'_>) -> Result<Option<String>, String> {
        let tool = self.dialect.tool();
        let Some(name) = text(arguments, NAME)? else { return Ok(None) };
        if self.dialect == Dialect::Claude && text(arguments, TEAM)?.is_some() {
            return Err(format!(
                "{tool}: `team_name` with `name` would start a teammate, and there are no teams here. Call {tool} again without `team_name`: the agent can be reached with SendMessage by its `name`."
            ));
        }
        let fits = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.' | ' ');
        if NAME_CHARS_MAX < name.chars().count() || !name.chars().all(fits) || name.starts_with(ID_PREFIX) {
            return Err(format!(
                "{tool}: `name` must be at most {NAME_CHARS_MAX} letters, digits, `-`, `_` or `.`, and must not begin with `{ID_PREFIX}`. Call {tool} again with another name."
            ));
        }
        Ok(Some(name))
    }

    fn background(&self, arguments: &Arguments<'_>) -> Result<bool, String> {
        let tool = self.dialect.tool();
        if self.switches.always_in_background() {
            return Ok(true);
        }
        let background = arguments.flag(BACKGROUND)?;
        if background && !self.switches.background {
            return Err(format!(
                "{tool}: background work is switched off here, so `run_in_background` cannot be used. Call {tool} again without it: the call waits for the result."
            ));
        }
        Ok(background)
    }
}

/// Where the work is done, if the call says.
type Where = (Option<Option<Isolation>>, Option<String>);

impl Delegation {
    /// What cannot be is refused: left out in silence, changes would land where nobody wants them.
    fn place(&self, arguments: &Arguments<'_>, workspace: &dyn Workspace) -> Result<Where, String> {
        let (tool, isolation, directory) = (self.dialect.tool(), text(arguments, ISOLATION)?, text(arguments, DIRECTORY)?);
        let wrong = |words: &str| Err(format!("{tool}: {words}"));
        if isolation.is_some() && directory.is_some() {
            return wrong("`cwd` and `isolation` exclude each other: a worktree is a folder of its own. Leave one of them out.");
        }
        let isolation = match isolation.as_deref() {
            None => None,
            Some("none") => Some(None),
            Some("worktree" | "worktree+changes") if !self.switches.worktrees => {
                return wrong(
                    "`isolation: \"worktree\"` needs a git repository, and this project is not in one. Leave out `isolation`: the agent works in the folder of its caller.",
                );
            }
            Some("worktree") => Some(Some(Isolation::Worktree)),
            Some("worktree+changes") => Some(Some(Isolation::WorktreeWithChanges)),
            Some("remote") => {
                return wrong(
                    "`isolation: \"remote\"` needs a remote runner, and there is none: agents run in this process. Leave out `isolation`.",
                );
            }
            Some(_) => return wrong("there is no such `isolation`: there are \"worktree\", \"worktree+changes\" and \"none\"."),
        };
        let directory = directory.map(|directory| below(workspace, &directory).map_err(|words| format!("{tool}: {words}"))).transpose()?;
        Ok((isolation, directory))
    }
}

/// A folder of the workspace, in full.
fn below(workspace: &dyn Workspace, directory: &str) -> Result<String, String> {
    let path = workspace.cwd().join(directory);
    let found = path.canonicalize().ok().filter(|path| path.is_dir());
    match found {
        Some(found) if found.starts_with(workspace.root()) => Ok(found.display().to_string()),
        Some(_) => Err(format!("`cwd` must be a folder of this project ({}), and {directory} is not.", workspace.root().display())),
        None => Err(format!("`cwd`: there is no folder {directory}.")),
    }
}

/// A text that says something.
fn text(arguments: &Arguments<'_>, parameter: Parameter) -> Result<Option<String>, String> {
    Ok(arguments.maybe_text(parameter)?.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned))
}

impl Tool for Delegation {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn look(&self, input: &Value, workspace: &dyn Workspace) -> Result<Look, String> {
        let errand = self.errand(input, workspace)?;
        match self.roster.find(&errand.agent) {
            None if self.forks() == Forks::Off && Agent::key(&errand.agent) == FORK => return Err(self.roster.no_forks()),
            None => return Err(self.roster.unknown(&errand.agent)),
            Some(agent) if agent.standing == Standing::Primary => return Err(self.roster.primary(agent)),
            // One that a rule denies meets the rule: nobody else takes the work instead.
            Some(_) => {}
        }
        Ok(Look {
            // A task that goes on keeps its agent, whatever is said here.
            touches: vec![Touch::new(key_of(&self.spec.name), &errand.agent)],
            // Until the task is recorded nothing has happened.
            repeatable: true,
            title: format!("{}: {}", errand.agent, errand.description),
            ..Look::default()
        })
    }

    fn run<'a>(&'a self, call: &'a ToolCall, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            match self.errand(&call.input, &*context.workspace) {
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
        match self.dialect {
            Dialect::Posse => posse::ended(end),
            Dialect::OpenCode => opencode::ended(end),
            Dialect::Claude => claude::ended(end),
        }
    }

    fn launched(&self, launch: &Launch) -> Outcome {
        match self.dialect {
            Dialect::Posse => posse::launched(launch),
            Dialect::OpenCode => opencode::launched(launch),
            Dialect::Claude => claude::launched(launch),
        }
    }

    fn noticed(&self, end: &TaskEnd) -> String {
        words::noticed(self.dialect, end)
    }

    fn lapsed(&self, view: &TaskView) -> Outcome {
        Outcome::done(words::read(self.dialect, view, true))
    }
}
