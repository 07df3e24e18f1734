//! What runs are built from: the world all sessions share, and the outfit of one agent.

use std::{path::PathBuf, sync::Arc, time::Duration};

use posse_session::{
    Asking, Birth, BoxFuture, Clock, Expander, Head, Hook, Ids, Inbox, Isolation, Lease, Left, Limits, Log, Mode, Model, Outputs, Recipe,
    Rules, SessionId, Tool, Workspace, Worktree,
};

use crate::{Lanes, live::Live};

/// Shared by every session of a process.
pub struct World {
    pub log: Arc<dyn Log>,
    pub lease: Arc<dyn Lease>,
    pub inbox: Arc<dyn Inbox>,
    pub clock: Arc<dyn Clock>,
    pub ids: Arc<dyn Ids>,
    pub lanes: Arc<Lanes>,
    pub live: Live,
    pub outputs: Arc<dyn Outputs>,
}

/// Makes agents ready: built by `cli` from configuration, again after a restart.
pub trait Outfits: Send + Sync {
    /// The recipe of a child of a session with the recipe `parent`: its agent and model by the names they were asked for.
    /// `Err` says in words for the model why there is none.
    fn recipe(&self, parent: &Recipe, agent: &str, model: Option<&str>) -> Result<Recipe, String>;

    /// What a session needs. `Err` says in words what is missing.
    fn outfit(&self, session: &SessionId, birth: &Birth) -> Result<Outfit, String>;

    /// A model whose price nobody knows is about to be used under a budget in money, which cannot count it. Said once to
    /// whoever set the budget; the run goes on.
    fn price_is_unknown(&self, model: &str) {
        let _ = model;
    }

    /// A folder of its own for a task whose caller works in `directory`: what is recorded of it, and the folder in it that the
    /// task works in. Asked again after a crash, it is the same one.
    fn make_worktree<'a>(
        &'a self,
        task: &'a SessionId,
        directory: &'a str,
        isolation: Isolation,
        title: &'a str,
    ) -> BoxFuture<'a, Result<(Worktree, String), String>> {
        let _ = (task, directory, isolation, title);
        Box::pin(async { Err("Worktrees cannot be made here.".to_owned()) })
    }

    /// A recorded worktree is there, made again if it was removed. Nobody takes it away as long as what comes back lives.
    fn ensure_worktree<'a>(&'a self, worktree: &'a Worktree) -> BoxFuture<'a, Result<Box<dyn Send + Sync>, String>> {
        let _ = worktree;
        Box::pin(async { Ok(Box::new(()) as Box<dyn Send + Sync>) })
    }

    /// What a task has changed in its worktree.
    fn look_at_worktree<'a>(&'a self, worktree: &'a Worktree) -> BoxFuture<'a, Left> {
        let (path, branch) = (worktree.path.clone(), worktree.branch.clone());
        Box::pin(async { Left { path, branch, unknown: "nobody could look".into(), ..Left::default() } })
    }

    /// Removes a worktree if nothing was changed in it; whether it is gone.
    fn release_worktree<'a>(&'a self, worktree: &'a Worktree) -> BoxFuture<'a, Result<bool, String>> {
        let _ = worktree;
        Box::pin(async { Ok(false) })
    }
}

/// When a long conversation is made shorter by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compacting {
    /// Before a request would not fit, and after a provider has said so.
    pub auto: bool,
    /// What calls printed long ago is left out, where that is enough.
    pub prune: bool,
    /// How a summary is written.
    pub prompt: Arc<str>,
    /// Who writes it, if not the session's own model.
    pub model: Option<String>,
}

impl Default for Compacting {
    fn default() -> Self {
        Self { auto: true, prune: true, prompt: "".into(), model: None }
    }
}

/// What is done beside a conversation. Each of it costs model calls, so each is off until somebody switches it on.
#[derive(Clone, Default)]
pub struct Advising {
    /// What the user may want to say next.
    pub suggest: bool,
    /// What the answer to that would be.
    pub speculate: bool,
    /// How what is worth knowing later is noted.
    pub remember: Option<Arc<str>>,
    pub consolidate: Option<Consolidation>,
    /// How often it is said what a task in the background is doing.
    pub summaries: Option<Duration>,
    /// Who does all this, if not the session's own model.
    pub model: Option<String>,
}

/// Putting notes in order.
#[derive(Clone)]
pub struct Consolidation {
    pub directive: Arc<str>,
    pub upkeep: Arc<dyn Upkeep>,
}

/// Who puts the notes of a project in order: one session of all processes at a time, and nobody who is dead.
pub trait Upkeep: Send + Sync {
    /// Whether it is time, and this session's to do. Whoever hears yes does it: nobody else hears yes until it is done, or
    /// until the process is gone.
    fn claim(&self, session: &SessionId) -> bool;

    /// A process that is gone had begun it for this session. Whether it is still this session's to do.
    fn claim_again(&self, session: &SessionId) -> bool;

    /// It has come to its end, well or not.
    fn done(&self, session: &SessionId);
}

/// What is wrong with an answer, in words for the model; nothing if it fits.
pub type Shape = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// An agent's recipe made real: built by `cli` from configuration, again after a restart.
#[derive(Clone)]
pub struct Outfit {
    pub model: Arc<dyn Model>,
    pub tools: Vec<Arc<dyn Tool>>,
    pub hooks: Vec<Arc<dyn Hook>>,
    pub workspace: Arc<dyn Workspace>,
    pub rules: Rules,
    /// Lists that are judged whole beside the rules: the strictest counts.
    pub ceiling: Vec<Rules>,
    pub asking: Asking,
    /// Which asks are answered for the user.
    pub mode: Mode,
    /// What its shell would ask about is denied.
    pub strict_shell: bool,
    /// What a request begins with, if this session has not recorded one for the same agent, model and tools.
    pub head: Arc<Head>,
    /// Where long outputs of this session's calls go.
    pub spool: PathBuf,
    /// A stream that brings no byte for so long is dead.
    pub stream_idle: Duration,
    /// One model call takes at most so long.
    pub step_max: Duration,
    /// One round of a task takes at most so long, and one turn of a root.
    pub wall: Duration,
    /// A model or a tool that works shows nothing for at most so long.
    pub idle: Duration,
    /// A task that has run for so long goes on in the background.
    pub detach_after: Option<Duration>,
    /// Tasks may run in the background.
    pub background: bool,
    /// What this session and everything below it may use up.
    pub own_limits: Limits,
    /// When a long conversation is made shorter.
    pub compaction: Compacting,
    /// What is done beside the conversation.
    pub advice: Advising,
    /// What is wrong with the shape of an answer, where one was asked for.
    pub shape: Option<Shape>,
    /// Models that answer, in this order, when its own is overloaded.
    pub fallbacks: Vec<String>,
    /// So many calls of a reply run at once.
    pub calls_max: usize,
    /// Tasks of this session have at most so many ancestors.
    pub depth_max: u64,
    /// So many tasks it may ever start.
    pub children_max: u64,
    /// The tool that calls an agent which the user ran directly.
    pub delegation: String,
    /// What typed words come to.
    pub expander: Option<Arc<dyn Expander>>,
    /// What a new session hears besides its first words.
    pub initial: Option<String>,
    /// Keeps the folder of its own where it is, as long as it works there.
    pub presence: Option<Arc<dyn Send + Sync>>,
    /// What the folder of its own lacks, in words for whoever works there.
    pub lacks: Option<String>,
    /// Why nothing can be done with it: the folder of its own cannot be made again.
    pub unready: Option<Arc<str>>,
}

impl Outfit {
    /// Tools that hooks bring are offered like any other; a name that is taken stays with its first owner.
    pub(crate) fn add_hooks_tools(&mut self) {
        for tool in self.hooks.iter().flat_map(|hook| hook.tools()).collect::<Vec<_>>() {
            if !self.tools.iter().any(|known| known.spec().name == tool.spec().name) {
                Arc::make_mut(&mut self.head).tools.push(tool.spec().clone());
                self.tools.push(tool);
            }
        }
    }

    /// A tool of the kernel's own calls, offered to the model or not.
    pub(crate) fn any_tool(&self, name: &str) -> Result<&Arc<dyn Tool>, String> {
        let found = self.tools.iter().find(|tool| tool.spec().name.eq_ignore_ascii_case(name));
        found.ok_or_else(|| format!("There is no tool named `{name}`."))
    }

    /// The tool a call names, ignoring case; `Err` lists near names for the model.
    pub(crate) fn tool(&self, name: &str) -> Result<&Arc<dyn Tool>, String> {
        let offered = || self.tools.iter().filter(|tool| self.head.tools.iter().any(|spec| spec.name == tool.spec().name));
        if let Some(tool) = offered().find(|tool| tool.spec().name.eq_ignore_ascii_case(name)) {
            return Ok(tool);
        }
        let names: Vec<&str> = offered().map(|tool| tool.spec().name.as_str()).collect();
        let lower = name.to_lowercase();
        let near = names.iter().find(|offered| lower.contains(*offered) || offered.contains(lower.as_str()));
        let hint = near.map_or(String::new(), |near| format!(" Did you mean `{near}`?"));
        let known = if names.is_empty() { "No tool is offered here.".to_owned() } else { format!("The tools are: {}.", names.join(", ")) };
        Err(format!("There is no tool named `{name}`.{hint} {known}"))
    }
}
