//! What a screen, a script or a server may do with sessions. In-process it is `server::Local`; over HTTP it comes later.

use posse_session::{AskId, BoxFuture, CallId, Letter, Record, Seq, SessionId, Summary, Timestamp};

use crate::Ask;

/// Why a client's wish came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("there is no session {0}; `posse sessions list` shows the sessions of this directory")]
    Missing(String),
    #[error("{0} was not found: no session of this project has such an ask; `posse asks list` shows those that are open")]
    NoAsk(String),
    #[error("{0} was not found: no session of this project has such a call; `posse sessions show ID --format json` lists the calls of one")]
    NoCall(String),
    #[error("{prefix} could be any of these: {}", .matches.join(", "))]
    Ambiguous { prefix: String, matches: Vec<String> },
    #[error("{0}")]
    Unavailable(String),
}

/// Where a call stands.
#[derive(Debug, Clone)]
pub struct Place {
    pub summary: Summary,
    pub call: CallId,
}

/// What became of a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivered {
    /// The process that runs the session has taken it in.
    ToOwner,
    /// Nobody runs the session: what it led to is in the log, and counts when the session goes on.
    Recorded,
}

pub trait Client: Send + Sync {
    /// The views of all sessions of this project, newest first.
    fn sessions(&self) -> BoxFuture<'_, Result<Vec<Summary>, ClientError>>;

    /// The session an id or an unambiguous prefix of one means.
    fn find<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Summary, ClientError>>;

    /// The call an id means, or an unambiguous prefix of one.
    fn find_call<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Place, ClientError>>;

    /// The call that the ask of this id was about, open or not.
    fn find_ask<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Place, ClientError>>;

    /// Facts after `after`, with their texts.
    fn facts<'a>(&'a self, session: &'a SessionId, after: Seq) -> BoxFuture<'a, Result<Vec<Record>, ClientError>>;

    /// At most `limit` of them: a long session is read in pages.
    fn page<'a>(&'a self, session: &'a SessionId, after: Seq, limit: usize) -> BoxFuture<'a, Result<Vec<Record>, ClientError>>;

    /// The facts about these calls, with their texts, and what was taken back in their session.
    fn facts_of<'a>(&'a self, session: &'a SessionId, calls: &'a [CallId]) -> BoxFuture<'a, Result<Vec<Record>, ClientError>>;

    /// When the asks of a session were answered.
    fn answered<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<(AskId, Timestamp)>, ClientError>>;

    /// The open asks of all sessions of this project, oldest first.
    fn asks(&self) -> BoxFuture<'_, Result<Vec<Ask>, ClientError>>;

    /// The views of the sessions in which an answer allows something for longer.
    fn granting(&self) -> BoxFuture<'_, Result<Vec<Summary>, ClientError>>;

    /// Whether a living process runs this tree.
    fn is_run<'a>(&'a self, root: &'a SessionId) -> BoxFuture<'a, Result<bool, ClientError>>;

    /// Posts a letter to a session that another process may own; `true` once its owner has taken it in,
    /// `false` when nobody owns the session: then the letter is taken back and the caller may act itself.
    fn post<'a>(&'a self, session: &'a SessionId, letter: Letter) -> BoxFuture<'a, Result<bool, ClientError>>;

    /// Brings an answer, takes one back, or stops a session, whether or not a process runs it. Nothing is started by it.
    fn deliver<'a>(&'a self, session: &'a SessionId, letter: Letter) -> BoxFuture<'a, Result<Delivered, ClientError>>;
}
