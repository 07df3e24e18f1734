//! Live progress: shown and forgotten. Whoever does not keep up misses some of it; facts are read from the log.

use std::sync::{Arc, Mutex, PoisonError};

use posse_session::{Progress, SessionId};
use tokio::{sync::broadcast, time::Instant};

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

    pub(crate) fn of(&self, session: &SessionId, pulse: &Pulse) -> Arc<SessionLive> {
        Arc::new(SessionLive { live: self.clone(), session: session.clone(), said: Mutex::default(), pulse: pulse.clone() })
    }
}

/// When something last happened in a session, to the eye.
#[derive(Clone)]
pub(crate) struct Pulse(Arc<Mutex<Instant>>);

impl Default for Pulse {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl Pulse {
    pub(crate) fn beat(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    pub(crate) fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One session's end of the channel. Keeps the text of the answer that is being written, in case it is cut off.
pub(crate) struct SessionLive {
    live: Live,
    session: SessionId,
    said: Mutex<String>,
    pulse: Pulse,
}

impl SessionLive {
    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl posse_session::Live for SessionLive {
    fn show(&self, progress: Progress) {
        // Who waits in a queue does nothing.
        if !matches!(progress, Progress::Waiting { .. }) {
            self.pulse.beat();
        }
        if let Progress::Text(text) = &progress {
            self.said.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
        }
        // Nobody listening is fine.
        let _ = self.live.0.send(Shown { session: self.session.clone(), progress });
    }
}
