//! The tool seam: what a tool is, what it may know, and where its processes run.
//!
//! A tool never asks for permission and never calls the loop: before its verdict it says what it would touch,
//! and when it runs it is allowed to.

use std::{
    fmt,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{BoxFuture, Live};
use crate::{
    grant::Grant,
    ids::{CallId, SessionId},
    outcome::{By, How, Outcome},
    rule::{Reader, Touch},
    summary::Status,
    task::{Effort, Isolation},
    usage::Usage,
    worktree::Left,
};

/// What the model is told about a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// JSON schema of the input, an object.
    pub schema: Value,
}

/// What a call would reach, found out before its verdict.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Look {
    pub touches: Vec<Touch>,
    /// Only reads: after a crash it may simply run again.
    pub repeatable: bool,
    /// A few words for a list: `src/main.rs`, `cargo test`.
    pub title: String,
    /// What comes back changes by itself, so the same call again is no loop: a poll.
    pub polls: bool,
    /// For touches that a wildcard cannot judge: the commands of a shell line.
    pub reader: Option<Reader>,
}

/// A call as its tool sees it: the input is a valid JSON object.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    pub id: CallId,
    pub input: Value,
    /// What a person said, where the call was a question.
    pub answer: Option<String>,
}

/// Work for another agent, as a delegation tool understood it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Errand {
    pub agent: String,
    /// A few words for lists.
    pub description: String,
    pub prompt: String,
    pub name: Option<String>,
    pub model: Option<String>,
    /// The id of an earlier task to go on with.
    pub resume: Option<String>,
    /// An id that leads nowhere starts a new task, and the result says so.
    pub or_new: bool,
    /// The tool that words the result.
    pub tool: String,
    /// What it may do for its first turn without asking.
    pub allowed: Vec<Grant>,
    /// The call does not wait for it: its end comes as a notice.
    pub background: bool,
    /// It begins with everything the caller has seen.
    pub fork: bool,
    /// Where it works, if the call says: `Some(None)` is in its caller's folder, whatever its definition says.
    pub isolation: Option<Option<Isolation>>,
    /// The folder it works in, if not its caller's.
    pub directory: Option<String>,
}

/// A task that goes on while its caller does other things, for the tool that words it.
#[derive(Debug, Clone, PartialEq)]
pub struct Launch {
    pub task: SessionId,
    pub name: Option<String>,
    pub agent: String,
    pub description: String,
    pub prompt: String,
    /// The file in which everything it does can be read while it works and after.
    pub output: PathBuf,
    /// The call had waited for it until now.
    pub detached: bool,
}

/// How a task ended, for the tool that words its result.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskEnd {
    pub task: SessionId,
    pub name: Option<String>,
    pub agent: String,
    pub description: String,
    pub how: How,
    /// Who stopped it, where it was stopped.
    pub by: Option<By>,
    /// The texts of its last message, in order. Where it did not end by itself: what it had said.
    pub texts: Vec<String>,
    pub reasoning: Vec<String>,
    /// Why it ended, where it did not end by itself.
    pub error: String,
    pub note: String,
    /// The provider's id of the call that started it.
    pub wire_id: String,
    pub usage: Usage,
    pub effort: Effort,
    /// The file in which everything it did can be read.
    pub output: PathBuf,
    /// What it has left in its worktree, if it has one.
    pub left: Option<Left>,
}

/// Words to another agent of the tree.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Dispatch {
    /// A task's id or its name.
    pub to: String,
    pub text: String,
    /// A few words for lists, if the sender gave any.
    pub summary: Option<String>,
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    pub task: SessionId,
    pub name: Option<String>,
    pub agent: String,
    /// It had ended or was stopped, and works again: whoever started it hears when it is done.
    pub resumed: bool,
    /// The sender started it.
    pub own: bool,
    pub output: PathBuf,
}

/// A wish to know what a task has come to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Inquiry {
    /// A task's id or its name.
    pub task: String,
    /// How long to wait for its end; not at all without.
    pub wait: Option<Duration>,
    /// Only what came after this place; see [`TaskView::next`].
    pub since: u64,
}

/// A task as its caller sees it at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskView {
    pub task: SessionId,
    pub name: Option<String>,
    pub agent: String,
    pub description: String,
    pub status: Status,
    /// How its last round ended, where it has.
    pub end: Option<TaskEnd>,
    /// What it has done since the place that was asked for, one line or block each.
    pub text: String,
    /// The place to ask from the next time.
    pub next: u64,
    pub steps: u64,
    pub usage: Usage,
    pub effort: Effort,
    pub output: PathBuf,
    /// What it waits for, in words: a person, a free lane.
    pub waits: Option<String>,
    /// What it did last, in a few words.
    pub last_action: String,
}

/// Who starts children and speaks to them. A delegation tool only says what it wants. An `Err` is in words for the model.
pub trait Delegate: Send + Sync {
    /// Starts or resumes a task on behalf of a running call. From then on the call waits for the task and this future is
    /// dropped: it is ready only if the task cannot be started, with the reason in words for the model.
    fn spawn<'a>(&'a self, call: &'a CallId, errand: Errand) -> BoxFuture<'a, String>;

    /// Brings words to a task of the tree; one that has ended works again. The same call says it once, however often it runs.
    fn send<'a>(&'a self, call: &'a CallId, dispatch: Dispatch) -> BoxFuture<'a, Result<Sent, String>>;

    /// What a task below this session has come to. A call that waits for a task of its own is answered with its end by
    /// [`Tool::ended`], or by [`Tool::lapsed`] when the time is over; this future is dropped then.
    fn read<'a>(&'a self, call: &'a CallId, inquiry: Inquiry) -> BoxFuture<'a, Result<TaskView, String>>;

    /// Stops a task below this session and everything below it. Its end comes as a notice.
    fn stop<'a>(&'a self, call: &'a CallId, task: &'a str) -> BoxFuture<'a, Result<TaskView, String>>;

    /// The tasks of this session and all below, in the order in which they were started. Without texts.
    fn list<'a>(&'a self) -> BoxFuture<'a, Result<Vec<TaskView>, String>>;

    /// Something of this call goes on after the call has ended: a shell. The session is not settled before it is over, and
    /// what `over` says is a notice; with nothing to say there is none. Ready when that is recorded.
    fn keep<'a>(&'a self, call: &'a CallId, title: String, over: BoxFuture<'static, Option<String>>) -> BoxFuture<'a, ()>;
}

/// What a running call has around it.
pub struct ToolContext {
    pub session: SessionId,
    pub workspace: Arc<dyn Workspace>,
    pub live: Arc<dyn Live>,
    pub stop: Arc<dyn Stop>,
    pub delegate: Arc<dyn Delegate>,
    /// A private folder for the full text of long outputs; the model may read files in it.
    pub spool: PathBuf,
    /// Scratch values kept per session, shared by all its tools, while the session is open (which files were read, the shell's folder).
    pub memory: Arc<std::sync::Mutex<serde_json::Map<String, Value>>>,
}

/// Tells a running call to end: soon, and with what it has.
pub trait Stop: Send + Sync {
    fn is_stopped(&self) -> bool;
    /// Ready when the call should stop.
    fn stopped(&self) -> BoxFuture<'_, ()>;
}

pub trait Tool: Send + Sync {
    fn spec(&self) -> &ToolSpec;

    /// What this input would touch. An `Err` is told to the model and the call does not run.
    /// May resolve paths; must not change anything.
    fn look(&self, input: &Value, workspace: &dyn Workspace) -> Result<Look, String>;

    /// Whether a look takes long enough to be in the way of others: git is asked, say.
    fn looks_slowly(&self) -> bool {
        false
    }

    /// The task that must be known before a look, as the model wrote it: an id, the start of one, or a name. Only for tools
    /// that look slowly.
    fn task_meant(&self, _input: &Value) -> Option<String> {
        None
    }

    /// The look where that task is known.
    fn look_at_task(&self, input: &Value, _task: &SessionId, workspace: &dyn Workspace) -> Result<Look, String> {
        self.look(input, workspace)
    }

    /// Runs to an outcome. When told to stop, ends within three seconds as `Cancelled` with what there is.
    fn run<'a>(&'a self, call: &'a ToolCall, context: &'a ToolContext) -> BoxFuture<'a, Outcome>;

    /// What the model reads of a task that a call of this tool waited for.
    fn ended(&self, end: &TaskEnd) -> String {
        let mut words = end.texts.clone();
        words.extend(Some(end.error.clone()).filter(|error| !error.is_empty()));
        words.push(format!("task_id: {}", end.task));
        words.join("\n\n")
    }

    /// The outcome of a call whose task goes on in the background.
    fn launched(&self, launch: &Launch) -> Outcome {
        let output = launch.output.display();
        Outcome::done(format!(
            "The task runs in the background. Its result will come as a notice.\ntask_id: {}\noutput: {output}",
            launch.task
        ))
    }

    /// The notice of the end of a task that this tool started and no call waited for.
    fn noticed(&self, end: &TaskEnd) -> String {
        let name = end.name.clone().unwrap_or_else(|| end.task.to_string());
        format!("[task {name} {}] {}\n\n{}", end.how.word(), end.description, self.ended(end))
    }

    /// The outcome of a call of this tool that has waited long enough for a task that goes on.
    fn lapsed(&self, view: &TaskView) -> Outcome {
        Outcome::done(format!("The task {} is not done yet.", view.task))
    }
}

/// A command to start. The environment is complete: nothing is inherited.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommandLine {
    pub argv: Vec<String>,
    pub cwd: PathBuf,
    pub env: Vec<(String, String)>,
    /// Where stdout and stderr go, together, appended. There is no pipe that a grandchild could hold.
    pub output: PathBuf,
    /// Whose process this is; in its environment as `POSSE_CALL`.
    pub call: CallId,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    Code(i32),
    Signal(i32),
    /// The keeper is gone; whether the process did its work is unknown.
    Unknown,
}

/// A started process and everything below it.
pub trait Process: Send + Sync {
    fn pid(&self) -> u32;
    /// Ready when the main process has ended. What it left behind may still run: see `end`.
    fn wait(&self) -> BoxFuture<'_, Ended>;
    /// Ends the process and all its descendants: TERM, `grace`, KILL. Ready when none is left.
    fn end(&self, grace: Duration) -> BoxFuture<'_, ()>;
    /// How many processes outlived the main one and had to be ended; known once `end` is ready.
    fn stragglers(&self) -> u32 {
        0
    }
}

#[derive(Debug)]
pub struct SpawnError {
    pub words: String,
}

impl fmt::Display for SpawnError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.words)
    }
}

impl std::error::Error for SpawnError {}

/// Where a session's tools act.
pub trait Workspace: Send + Sync {
    /// The canonical root; relative paths of tools start at `cwd`, which is it or below it.
    fn root(&self) -> &Path;
    fn cwd(&self) -> &Path;
    /// Folders outside the root that tools may read without asking: the spool, skills. Canonical.
    fn readable_roots(&self) -> &[PathBuf] {
        &[]
    }
    /// Folders that are the agent's own, wherever they are: its memory. Nobody is asked about them. Canonical.
    fn own_roots(&self) -> &[PathBuf] {
        &[]
    }
    /// Folders that no tool may open inside this process, except the readable roots in them: posse's own data. Canonical.
    fn private_roots(&self) -> &[PathBuf] {
        &[]
    }
    /// Folders whose files speak for the user, protected as a whole: posse's own configuration and data. Canonical.
    fn guarded_roots(&self) -> &[PathBuf] {
        &[]
    }

    /// Whether only a person lets an agent write to this path.
    fn is_guarded(&self, path: &Path) -> bool {
        self.guarded_roots().iter().any(|root| path.starts_with(root))
    }
    /// The root as it was opened when the workspace began: what is below it is opened from here, whatever its path leads to by then.
    fn root_handle(&self) -> Option<Arc<OwnedFd>> {
        None
    }
    fn spawn<'a>(&'a self, line: CommandLine) -> BoxFuture<'a, Result<Arc<dyn Process>, SpawnError>>;
    /// Ends every process that an earlier owner started for these calls.
    fn sweep<'a>(&'a self, calls: &'a [CallId]) -> BoxFuture<'a, ()>;
}
