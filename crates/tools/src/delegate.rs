//! Delegation: the tools by which a model gives work to other agents and keeps in touch with them, per dialect, all thin.
//!
//! A tool here says what it wants (an `Errand`, a `Dispatch`, an `Inquiry`) and words what came of it. It knows neither the
//! loop nor how a child is made, and it starts nothing itself: see `Delegate`. One file per tool (`spawn.rs`, `send.rs`,
//! `output.rs`, `stop.rs`, `list.rs`) and one per dialect's words (`posse.rs`, `claude.rs`, `opencode.rs`).

mod claude;
mod list;
mod merge;
mod opencode;
mod output;
mod posse;
mod roster;
mod send;
mod spawn;
mod stop;
mod words;

use std::sync::Arc;

use posse_session::{Forks, Tool};
pub use spawn::Delegation;

use crate::{arguments::Parameter, shells::Shells, worktree::Worktrees};

/// A task by its id or its name, as models of several products call it.
const TASK: Parameter = Parameter::new("task_id", &["agent_id", "id", "task", "name", "session_id"]);

/// Which names and words the model is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    #[default]
    Posse,
    OpenCode,
    Claude,
}

/// What there is besides giving work and waiting for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Switches {
    /// Tasks may go on while their caller does other things.
    pub background: bool,
    /// A worker may begin with everything its caller knows.
    pub forks: Forks,
    /// A task may work in a git worktree of its own.
    pub worktrees: bool,
}

impl Switches {
    /// Nothing is waited for, so the model has nothing to choose.
    fn always_in_background(self) -> bool {
        self.forks == Forks::Implicit && self.background
    }
}

/// What a fork is for, in the list of agents.
pub const FORK_DESCRIPTION: &str = "A worker that knows everything you know: it begins with this whole conversation, your tools and your model, and only `prompt` is new to it. \
For several independent pieces of work that all need what was said and read here. Not for work that needs little of it: others are cheaper there. A fork cannot fork.";

/// An agent as a caller may see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callable {
    pub name: String,
    pub description: Option<String>,
    /// Other names it answers to.
    pub aliases: Vec<String>,
    pub standing: Standing,
    /// It is no agent but the caller once more.
    pub forks: bool,
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
            Self::Claude => "Agent",
        }
    }

    /// All tools of the dialect, the one that starts a task first.
    pub fn tools(self) -> &'static [&'static str] {
        match self {
            Self::Posse => &["agent", "send_message", "task_list", "task_merge", "task_output", "task_stop"],
            Self::OpenCode => &["task"],
            Self::Claude => &["Agent", "SendMessage", "TaskMerge", "TaskOutput", "TaskStop"],
        }
    }

    /// How deep agents may be nested when nothing else is said.
    pub fn depth(self) -> u64 {
        match self {
            Self::Posse | Self::Claude => 3,
            Self::OpenCode => 1,
        }
    }
}

/// The tool that brings home what tasks have changed in their worktrees.
pub fn merger(dialect: Dialect, worktrees: &Arc<Worktrees>) -> Option<Arc<dyn Tool>> {
    (dialect != Dialect::OpenCode).then(|| Arc::new(merge::TaskMerge::new(dialect, worktrees)) as Arc<dyn Tool>)
}

/// The tools that speak to tasks, look at them and stop them, sorted by name.
pub fn messengers(dialect: Dialect, shells: &Arc<Shells>) -> Vec<Arc<dyn Tool>> {
    match dialect {
        Dialect::Posse => vec![
            Arc::new(send::SendMessage::new(dialect)),
            Arc::new(list::TaskList::new()),
            Arc::new(output::TaskOutput::new(dialect, shells)),
            Arc::new(stop::TaskStop::new(dialect, shells)),
        ],
        Dialect::OpenCode => Vec::new(),
        Dialect::Claude => vec![
            Arc::new(send::SendMessage::new(dialect)),
            Arc::new(output::TaskOutput::new(dialect, shells)),
            Arc::new(stop::TaskStop::new(dialect, shells)),
        ],
    }
}
