//! The seams of storage: an append-only log per session, ownership per tree, letters from everyone else.
//!
//! One append is one atomic record of 1..n events. Only the owner of a tree appends; the epoch is checked inside
//! every append. See `store` for the contract suite every implementation passes.

use std::{fmt, path::PathBuf, sync::Arc};

use serde::{Deserialize, Serialize};

use super::BoxFuture;
use crate::{
    command::Command,
    entry::Entry,
    event::{Event, Hold, Record},
    ids::{AskId, BatchId, Epoch, Hash, LetterId, Seq, SessionId, Timestamp},
    outcome::{Answer, By, Outcome},
    summary::Summary,
    text::Text,
};

/// Facts to be made durable together, with the blobs they name and the letters they answer.
#[derive(Debug, Clone)]
pub struct Append {
    pub session: SessionId,
    /// The tree's root: ownership is per tree.
    pub root: SessionId,
    pub epoch: Epoch,
    pub batch: BatchId,
    /// The head the writer saw; 0 creates the session.
    pub after: Seq,
    pub at: Timestamp,
    pub events: Vec<Event>,
    pub blobs: Vec<(Hash, Arc<[u8]>)>,
    /// Letters whose facts these are: gone in the same transaction.
    pub letters: Vec<LetterId>,
}

#[derive(Debug)]
pub enum AppendError {
    /// Someone else owns this tree now, or the log moved on. Stop the run; the log is theirs.
    Moved { head: Seq },
    /// The disk or the network. Most likely nothing was appended; if it was, the same batch id at the tail tells.
    /// Stop the run; the log is whole.
    Unavailable(String),
}

impl fmt::Display for AppendError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Moved { head } => write!(out, "another process owns this session now (its log is at {head})"),
            Self::Unavailable(why) => write!(out, "the log could not be written: {why}"),
        }
    }
}

impl std::error::Error for AppendError {}

#[derive(Debug)]
pub enum ReadError {
    /// No such session, blob or letter.
    Missing,
    Unavailable(String),
}

impl fmt::Display for ReadError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => out.write_str("not found"),
            Self::Unavailable(why) => write!(out, "the log could not be read: {why}"),
        }
    }
}

impl std::error::Error for ReadError {}

/// A session as it was at one place of its log: made by the engine, opaque to the store, disposable. Without it the
/// whole log is folded.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedFold {
    pub session: SessionId,
    /// The record it includes last.
    pub seq: Seq,
    /// What it was made by; another version's is no use.
    pub version: u32,
    pub body: Arc<[u8]>,
}

pub trait Log: Send + Sync {
    /// Appends all or nothing and answers with the new head. An append whose `batch` is already at the tail
    /// succeeds without writing: the writer lost the answer, not the facts.
    fn append(&self, append: Append) -> BoxFuture<'_, Result<Seq, AppendError>>;
    /// Records after `after`, in order, at most `limit`. An unknown session has none.
    fn read<'a>(&'a self, session: &'a SessionId, after: Seq, limit: usize) -> BoxFuture<'a, Result<Vec<Record>, ReadError>>;
    fn blob<'a>(&'a self, hash: &'a Hash) -> BoxFuture<'a, Result<Arc<[u8]>, ReadError>>;
    /// Ready when the session's head is beyond `after` (also by another process's append).
    fn changed<'a>(&'a self, session: &'a SessionId, after: Seq) -> BoxFuture<'a, ()>;
    /// The views of all sessions, newest first; `root` restricts to one tree.
    fn summaries<'a>(&'a self, root: Option<&'a SessionId>) -> BoxFuture<'a, Result<Vec<Summary>, ReadError>>;
    /// The views of those sessions where an ask is open or an answer allows something for longer, newest first. Quick
    /// however many sessions there are.
    fn with_asks(&self) -> BoxFuture<'_, Result<Vec<Summary>, ReadError>>;
    /// Keeps a fold in place of the session's earlier one. A log need not keep any.
    fn save_fold(&self, fold: SavedFold) -> BoxFuture<'_, Result<(), AppendError>> {
        drop(fold);
        Box::pin(async { Ok(()) })
    }
    /// The fold that was kept last, if there is one.
    fn saved_fold<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Option<SavedFold>, ReadError>> {
        let _ = session;
        Box::pin(async { Ok(None) })
    }
    /// Removes whole sessions and what only they used. Needs the tree's ownership.
    fn remove<'a>(&'a self, owner: &'a Ownership) -> BoxFuture<'a, Result<u64, AppendError>>;
}

/// Held as long as this value lives; the operating system frees it when the process dies.
pub struct Ownership {
    pub root: SessionId,
    pub epoch: Epoch,
    /// Keeps the lock; dropping it frees the tree.
    pub guard: Box<dyn Send + Sync>,
}

#[derive(Debug)]
pub enum LeaseError {
    /// A living process owns the tree: post a letter.
    Held {
        by: Option<u32>,
    },
    Unavailable(String),
}

impl fmt::Display for LeaseError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { by: Some(pid) } => write!(out, "process {pid} runs this session"),
            Self::Held { by: None } => out.write_str("another process runs this session"),
            Self::Unavailable(why) => write!(out, "the session could not be locked: {why}"),
        }
    }
}

impl std::error::Error for LeaseError {}

pub trait Lease: Send + Sync {
    /// Becomes the owner, with an epoch above every earlier one. Never waits.
    fn take<'a>(&'a self, root: &'a SessionId) -> BoxFuture<'a, Result<Ownership, LeaseError>>;
    /// Whether a living process owns the tree right now; changes nothing.
    fn is_held<'a>(&'a self, root: &'a SessionId) -> BoxFuture<'a, Result<bool, LeaseError>>;
}

/// What a non-owner wants of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Letter {
    Say {
        entry: Entry,
    },
    Answer {
        ask: AskId,
        answer: Answer,
    },
    /// Ends the turn, or with `tree` everything below too, until the user speaks again.
    Stop {
        tree: bool,
    },
    Resume,
    /// What this answer allowed for longer counts no more.
    Revoke {
        ask: AskId,
    },
    Detach {
        task: SessionId,
    },
    /// The user brought home what a task had changed, or threw it away.
    BroughtHome {
        task: SessionId,
        paths: Vec<String>,
        onto: String,
        discarded: bool,
    },
    /// The session is called so from now on.
    Title {
        title: String,
    },
    /// A question beside the conversation; whoever asks follows the log of `task`.
    Side {
        task: SessionId,
        question: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
}

impl Letter {
    /// What it wishes for. How a task that goes on in the background is told of, only a run knows.
    pub fn command(&self) -> Command {
        match self.clone() {
            Self::Say { entry } => Command::Say(entry),
            Self::Answer { ask, answer } => Command::Answer { ask, answer, by: By::User },
            Self::Stop { .. } => Command::Interrupt { by: By::User, hold: Hold::StoppedByUser, partial: Text::default() },
            Self::Resume => Command::Resume { by: By::User },
            Self::Revoke { ask } => Command::Revoke { ask, by: By::User },
            Self::BroughtHome { task, paths, onto, discarded } => Command::BringHome { task, paths, onto, discarded },
            Self::Title { title } => Command::Retitle { title },
            Self::Side { task, question, model } => Command::Side { task, question, model },
            Self::Detach { task } => Command::Detach { task, launched: Outcome::done("") },
        }
    }
}

/// A letter as it lies in the inbox.
#[derive(Debug, Clone, PartialEq)]
pub struct Posted {
    pub id: LetterId,
    pub root: SessionId,
    pub to: SessionId,
    pub letter: Letter,
}

/// Where the story of a task can be read while it works and after: a view, and never in anybody's way.
pub trait Outputs: Send + Sync {
    fn path(&self, session: &SessionId) -> PathBuf;
    /// The story so far, whatever was there before.
    fn begin(&self, session: &SessionId, story: &str);
    fn append(&self, session: &SessionId, text: &str);
}

pub trait Inbox: Send + Sync {
    /// Durable when it returns. Posting a known id again changes nothing.
    fn post(&self, posted: Posted) -> BoxFuture<'_, Result<(), ReadError>>;
    /// Letters waiting for a tree, oldest first.
    fn waiting<'a>(&'a self, root: &'a SessionId) -> BoxFuture<'a, Result<Vec<Posted>, ReadError>>;
    /// Whether a letter still waits; false means an append took it in.
    fn waits<'a>(&'a self, id: &'a LetterId) -> BoxFuture<'a, Result<bool, ReadError>>;
    /// Takes a letter back; `false` means that it was not there any more: an append has taken it in.
    fn withdraw<'a>(&'a self, id: &'a LetterId) -> BoxFuture<'a, Result<bool, ReadError>>;
    /// Ready when the inbox may have changed since the last call (also by another process).
    fn rung(&self) -> BoxFuture<'_, ()>;
}
