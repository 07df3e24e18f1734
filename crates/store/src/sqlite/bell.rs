//! The bell: wakes who waits for a session's next event or for a letter.
//!
//! The writer rings it for its own commits. What other processes write is noticed by one thread that asks SQLite for
//! its `data_version`, and only while somebody waits. The bell carries no truth: who is woken reads the database.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use posse_session::{Seq, SessionId};
use rusqlite::Connection;
use tokio::sync::{Notify, watch};

use super::{readers::Connect, rows};

/// How late another process's write may be seen. Asking costs some microseconds.
const POLL_EVERY: Duration = Duration::from_millis(50);

pub(super) struct Bell {
    path: PathBuf,
    connect: Connect,
    waiting: Mutex<Waiting>,
    /// Wakes the watcher when the first one waits, and when the store is closed.
    changed: Condvar,
    /// Counts changes of the inbox.
    letters: watch::Sender<u64>,
}

#[derive(Default)]
struct Waiting {
    listeners: HashMap<SessionId, Vec<Arc<Wait>>>,
    for_letters: usize,
    watched: bool,
    closed: bool,
}

struct Wait {
    after: Seq,
    ring: Notify,
}

/// Waits for a session to grow; dropping it ends the waiting.
pub(super) struct Listener<'a> {
    bell: &'a Bell,
    session: &'a SessionId,
    wait: Arc<Wait>,
}

impl Bell {
    pub(super) fn new(path: PathBuf, connect: Connect) -> Self {
        Self { path, connect, waiting: Mutex::default(), changed: Condvar::new(), letters: watch::Sender::new(0) }
    }

    pub(super) fn listen<'a>(bell: &'a Arc<Self>, session: &'a SessionId, after: Seq) -> Listener<'a> {
        let wait = Arc::new(Wait { after, ring: Notify::new() });
        bell.waiting().listeners.entry(session.clone()).or_default().push(Arc::clone(&wait));
        Self::watch(bell);
        Listener { bell, session, wait }
    }

    /// Ready when the inbox changed more often than `heard` times; answers with how often it did.
    pub(super) async fn letters_after(self: &Arc<Self>, heard: u64) -> u64 {
        let mut letters = self.letters.subscribe();
        self.waiting().for_letters += 1;
        let _waiting = WaitingForLetters(self);
        Self::watch(self);
        // The sender lives in `self`, so waiting cannot fail.
        letters.wait_for(|count| heard < *count).await.map_or(heard, |count| *count)
    }

    /// The session's log now ends at `head`.
    pub(super) fn ring(&self, session: &SessionId, head: Seq) {
        if let Some(waits) = self.waiting().listeners.get(session) {
            waits.iter().filter(|wait| wait.after < head).for_each(|wait| wait.ring.notify_one());
        }
    }

    pub(super) fn ring_letters(&self) {
        self.letters.send_modify(|count| *count += 1);
    }

    pub(super) fn close(&self) {
        self.waiting().closed = true;
        self.changed.notify_all();
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sees to it that the watcher looks from now on.
    fn watch(bell: &Arc<Self>) {
        let is_new = !std::mem::replace(&mut bell.waiting().watched, true);
        bell.changed.notify_all();
        if is_new {
            let watched = Arc::clone(bell);
            if let Err(error) = thread::Builder::new().name("posse-watch".to_owned()).spawn(move || Watcher::default().run(&watched)) {
                tracing::warn!(%error, "writes of other processes will be seen late");
                bell.waiting().watched = false;
            }
        }
    }

    /// Blocks while nobody waits; false when the store is closed.
    fn is_needed(&self) -> bool {
        let idle = |waiting: &mut Waiting| !waiting.closed && waiting.listeners.is_empty() && waiting.for_letters == 0;
        let waiting = self.changed.wait_while(self.waiting(), idle).unwrap_or_else(PoisonError::into_inner);
        !waiting.closed
    }

    fn pause(&self) {
        let open = |waiting: &mut Waiting| !waiting.closed;
        drop(self.changed.wait_timeout_while(self.waiting(), POLL_EVERY, open));
    }
}

impl Listener<'_> {
    pub(super) async fn rung(&self) {
        self.wait.ring.notified().await;
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        let mut waiting = self.bell.waiting();
        if let Some(waits) = waiting.listeners.get_mut(self.session) {
            waits.retain(|wait| !Arc::ptr_eq(wait, &self.wait));
            if waits.is_empty() {
                waiting.listeners.remove(self.session);
            }
        }
    }
}

struct WaitingForLetters<'a>(&'a Bell);

impl Drop for WaitingForLetters<'_> {
    fn drop(&mut self) {
        self.0.waiting().for_letters -= 1;
    }
}

#[derive(Default)]
struct Watcher {
    connection: Option<Connection>,
    version: Option<i64>,
    inbox: Option<(i64, i64)>,
}

impl Watcher {
    fn run(mut self, bell: &Bell) {
        while bell.is_needed() {
            if let Err(error) = self.look(bell) {
                tracing::debug!(%error, path = %bell.path.display(), "looking for writes of other processes failed");
                self.connection = None;
                self.version = None;
            }
            bell.pause();
        }
    }

    /// The first look rings too: what came between a listener's own look and ours is not in any version we know.
    fn look(&mut self, bell: &Bell) -> rusqlite::Result<()> {
        let connection = match self.connection.take() {
            Some(connection) => self.connection.insert(connection),
            None => self.connection.insert((bell.connect)(&bell.path)?),
        };
        let version: i64 = connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if self.version == Some(version) {
            return Ok(());
        }
        let sessions: Vec<SessionId> = bell.waiting().listeners.keys().cloned().collect();
        for session in sessions {
            bell.ring(&session, rows::head(connection, &session)?);
        }
        let inbox = rows::inbox_state(connection)?;
        if self.inbox.map_or(0 < inbox.1, |before| before != inbox) {
            bell.ring_letters();
        }
        self.inbox = Some(inbox);
        // Last, so that a failure on the way is looked at again.
        self.version = Some(version);
        Ok(())
    }
}
