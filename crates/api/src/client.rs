//! What a screen, a script or a server may do with sessions. In-process it is `server::Local`; over HTTP it comes later.

use posse_session::{BoxFuture, Letter, Record, Seq, SessionId, Summary};

/// Why a client's wish came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("there is no session {0}; `posse sessions list` shows the sessions of this directory")]
    Missing(String),
    #[error("{prefix} could be any of these sessions: {}", .matches.join(", "))]
    Ambiguous { prefix: String, matches: Vec<String> },
    #[error("{0}")]
    Unavailable(String),
}

pub trait Client: Send + Sync {
    /// The views of all sessions of this project, newest first.
    fn sessions(&self) -> BoxFuture<'_, Result<Vec<Summary>, ClientError>>;

    /// The session an id or an unambiguous prefix of one means.
    fn find<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Summary, ClientError>>;

    /// Facts after `after`, with their texts.
    fn facts<'a>(&'a self, session: &'a SessionId, after: Seq) -> BoxFuture<'a, Result<Vec<Record>, ClientError>>;

    /// Posts a letter to a session that another process may own; `true` once its owner has taken it in,
    /// `false` when nobody owns the session: then the letter is taken back and the caller may act itself.
    fn post<'a>(&'a self, session: &'a SessionId, letter: Letter) -> BoxFuture<'a, Result<bool, ClientError>>;
}
