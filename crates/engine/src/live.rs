//! Live progress: shown and forgotten. Whoever does not keep up misses some of it; facts are read from the log.

use std::sync::{Arc, Mutex, PoisonError};

use posse_session::{Progress, SessionId};
use tokio::sync::broadcast;

/// Pieces kept for a slow screen before it misses some.
pub const LIVE_MAX: usize = 1024;

/// One piece of progress and whose it is.
#[derive(Debug, Clone)]
pub struct Shown {
    pub session: SessionId,
    pub progress: Progress,
}

/// The channel every screen of this process listens to.
#[derive(Clone)]
pub struct Live(broadcast::Sender<Shown>);

impl Default for Live {
    fn default() -> Self {
        Self(broadcast::channel(LIVE_MAX).0)
    }
}

impl Live {
    pub fn listen(&self) -> broadcast::Receiver<Shown> {
        self.0.subscribe()
    }

    pub(crate) fn of(&self, session: &SessionId) -> Arc<SessionLive> {
        Arc::new(SessionLive { live: self.clone(), session: session.clone(), said: Mutex::default() })
    }
}

/// One session's end of the channel. Keeps the text of the answer that is being written, in case it is cut off.
pub(crate) struct SessionLive {
    live: Live,
    session: SessionId,
    said: Mutex<String>,
}

impl SessionLive {
    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl posse_session::Live for SessionLive {
    fn show(&self, progress: Progress) {
        if let Progress::Text(text) = &progress {
            self.said.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
        }
        // Nobody listening is fine.
        let _ = self.live.0.send(Shown { session: self.session.clone(), progress });
    }
}
