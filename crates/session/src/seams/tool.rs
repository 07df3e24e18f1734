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
    outcome::{How, Outcome},
    rule::{Reader, Touch},
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
}

/// How a task ended, for the tool that words its result.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskEnd {
    pub task: SessionId,
    pub agent: String,
    pub description: String,
    pub how: How,
    /// The texts of its last message, in order. Where it did not end by itself: what it had said.
    pub texts: Vec<String>,
    pub reasoning: Vec<String>,
    /// Why it ended, where it did not end by itself.
    pub error: String,
    pub note: String,
}

/// Who starts children. A delegation tool only says what it wants.
pub trait Delegate: Send + Sync {
    /// Starts or resumes a task on behalf of a running call. From then on the call waits for the task and this future is
    /// dropped: it is ready only if the task cannot be started, with the reason in words for the model.
    fn spawn<'a>(&'a self, call: &'a CallId, errand: Errand) -> BoxFuture<'a, String>;
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

    /// Runs to an outcome. When told to stop, ends within three seconds as `Cancelled` with what there is.
    fn run<'a>(&'a self, call: &'a ToolCall, context: &'a ToolContext) -> BoxFuture<'a, Outcome>;

    /// What the model reads of a task that this tool started.
    fn ended(&self, end: &TaskEnd) -> String {
        let mut words = end.texts.clone();
        words.extend(Some(end.error.clone()).filter(|error| !error.is_empty()));
        words.push(format!("task_id: {}", end.task));
        words.join("\n\n")
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
    /// The root as it was opened when the workspace began: what is below it is opened from here, whatever its path leads to by then.
    fn root_handle(&self) -> Option<Arc<OwnedFd>> {
        None
    }
    fn spawn<'a>(&'a self, line: CommandLine) -> BoxFuture<'a, Result<Arc<dyn Process>, SpawnError>>;
    /// Ends every process that an earlier owner started for these calls.
    fn sweep<'a>(&'a self, calls: &'a [CallId]) -> BoxFuture<'a, ()>;
}
