//! One SQLite file per project, for any number of processes on one machine.
//!
//! The folder holds `posse.db` and `locks/`. Each process has one writer thread (`writer.rs`) that commits what waits
//! in groups, a few connections that only read (`readers.rs`), and a watcher (`bell.rs`) that notices what other
//! processes wrote. What a transaction does is in `append.rs`, `remove.rs` and `views.rs`; the tables in `schema.rs`.

mod append;
mod bell;
mod lock;
mod readers;
mod remove;
mod rows;
mod schema;
mod views;
mod writer;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use posse_session::{
    Append, AppendError, BoxFuture, Hash, Inbox, Lease, LeaseError, LetterId, Log, Ownership, Posted, ReadError, Record, Seq, SessionId,
    Summary,
};

use self::{
    bell::Bell,
    lock::Lock,
    readers::Readers,
    writer::{Wish, Writer},
};
use crate::{error::OpenError, ready::Ready};

/// No letter is larger: room for a prompt with a few images in it, far below what SQLite takes.
const LETTER_BYTES_MAX: usize = 32 * 1024 * 1024;

/// A handle; clones share connections and threads, which end with the last of them. Each clone has its own memory
/// of when its inbox last rang.
pub struct Sqlite {
    shared: Arc<Shared>,
    /// The ring this handle has already answered.
    heard: AtomicU64,
}

struct Shared {
    folder: PathBuf,
    writer: Writer,
    readers: Arc<Readers>,
    bell: Arc<Bell>,
    /// No view was missing or old when this process last looked; its own appends keep it so.
    views_fresh: AtomicBool,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.bell.close();
    }
}

impl Clone for Sqlite {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), heard: AtomicU64::new(self.heard.load(Ordering::Relaxed)) }
    }
}

impl Sqlite {
    /// Opens the store in this folder and makes what is not there yet. Reads no session and checks no page: a damaged
    /// file is found when its header or tables cannot be read.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, OpenError> {
        let folder = folder.as_ref().to_owned();
        let (path, connection) = schema::open(&folder)?;
        let bell = Arc::new(Bell::new(path.clone()));
        let writer =
            Writer::start(connection, path.clone(), Arc::clone(&bell)).map_err(|source| OpenError::Io { path: path.clone(), source })?;
        let shared = Shared { folder, writer, readers: Arc::new(Readers::new(path)), bell, views_fresh: AtomicBool::new(false) };
        Ok(Self { shared: Arc::new(shared), heard: AtomicU64::new(0) })
    }

    pub fn folder(&self) -> &Path {
        &self.shared.folder
    }

    /// Throws all views away and makes them again from the events; answers with how many there are.
    pub async fn rebuild_views(&self) -> Result<u64, AppendError> {
        self.shared.writer.grant(Wish::Rebuild).await
    }
}

impl Log for Sqlite {
    fn append(&self, append: Append) -> BoxFuture<'_, Result<Seq, AppendError>> {
        Box::pin(async move { self.shared.writer.grant(Wish::Append(Box::new(Ready::new(append)?))).await })
    }

    fn read<'a>(&'a self, session: &'a SessionId, after: Seq, limit: usize) -> BoxFuture<'a, Result<Vec<Record>, ReadError>> {
        let session = session.clone();
        Box::pin(self.shared.readers.query(move |connection| rows::records(connection, &session, after, limit)))
    }

    fn blob<'a>(&'a self, hash: &'a Hash) -> BoxFuture<'a, Result<Arc<[u8]>, ReadError>> {
        let hash = hash.clone();
        Box::pin(async move { self.shared.readers.query(move |connection| rows::blob(connection, &hash)).await?.ok_or(ReadError::Missing) })
    }

    fn changed<'a>(&'a self, session: &'a SessionId, after: Seq) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            // Listening begins before looking, so nothing falls between the two.
            let listener = Bell::listen(&self.shared.bell, session, after);
            let asked = session.clone();
            match self.shared.readers.query(move |connection| rows::head(connection, &asked)).await {
                Ok(head) if after < head => {}
                _ => listener.rung().await,
            }
        })
    }

    fn summaries<'a>(&'a self, root: Option<&'a SessionId>) -> BoxFuture<'a, Result<Vec<Summary>, ReadError>> {
        let root = root.cloned();
        Box::pin(async move {
            let listed = self.shared.readers.query(move |connection| views::list(connection, root.as_ref())).await?;
            if 0 < listed.stale {
                // They were folded for this answer; the next one should find them made. Nobody waits for it.
                self.shared.writer.suggest(Wish::Mend);
            }
            Ok(listed.summaries)
        })
    }

    fn with_asks(&self) -> BoxFuture<'_, Result<Vec<Summary>, ReadError>> {
        Box::pin(async move {
            // A view that was deleted, or made by another version, is in no index.
            if !self.shared.views_fresh.load(Ordering::Relaxed) {
                if self.shared.readers.query(views::are_stale).await? {
                    self.shared.writer.grant(Wish::Mend).await.map_err(|error| ReadError::Unavailable(error.to_string()))?;
                }
                self.shared.views_fresh.store(true, Ordering::Relaxed);
            }
            self.shared.readers.query(views::with_asks).await
        })
    }

    fn remove<'a>(&'a self, owner: &'a Ownership) -> BoxFuture<'a, Result<u64, AppendError>> {
        Box::pin(async move {
            let removed = self.shared.writer.grant(Wish::Remove { root: owner.root.clone(), epoch: owner.epoch }).await?;
            lock::forget(&self.shared.folder, &owner.root);
            Ok(removed)
        })
    }
}

impl Lease for Sqlite {
    fn take<'a>(&'a self, root: &'a SessionId) -> BoxFuture<'a, Result<Ownership, LeaseError>> {
        Box::pin(async move {
            let lock = Lock::take(&self.shared.folder, root)?;
            // Should this fail the lock is dropped and the tree is as free as before.
            match self.shared.writer.grant(Wish::Take(root.clone())).await {
                Ok(epoch) => Ok(Ownership { root: root.clone(), epoch, guard: Box::new(lock) }),
                Err(error) => Err(LeaseError::Unavailable(error.to_string())),
            }
        })
    }

    fn is_held<'a>(&'a self, root: &'a SessionId) -> BoxFuture<'a, Result<bool, LeaseError>> {
        Box::pin(async move { Lock::is_held(&self.shared.folder, root) })
    }
}

impl Inbox for Sqlite {
    fn post(&self, posted: Posted) -> BoxFuture<'_, Result<(), ReadError>> {
        Box::pin(async move {
            let body = serde_json::to_string(&posted.letter).map_err(|error| ReadError::Unavailable(error.to_string()))?;
            if LETTER_BYTES_MAX < body.len() {
                return Err(ReadError::Unavailable(format!("the letter has {} bytes, at most {LETTER_BYTES_MAX} fit", body.len())));
            }
            match self.shared.writer.grant(Wish::Post { posted: Box::new(posted), body }).await {
                Ok(_) => Ok(()),
                Err(error) => Err(ReadError::Unavailable(error.to_string())),
            }
        })
    }

    fn waiting<'a>(&'a self, root: &'a SessionId) -> BoxFuture<'a, Result<Vec<Posted>, ReadError>> {
        let root = root.clone();
        Box::pin(self.shared.readers.query(move |connection| rows::letters(connection, &root)))
    }

    fn waits<'a>(&'a self, id: &'a LetterId) -> BoxFuture<'a, Result<bool, ReadError>> {
        let id = id.clone();
        Box::pin(self.shared.readers.query(move |connection| rows::letter_waits(connection, &id)))
    }

    fn withdraw<'a>(&'a self, id: &'a LetterId) -> BoxFuture<'a, Result<bool, ReadError>> {
        Box::pin(async move {
            let withdrawn = self.shared.writer.grant(Wish::Withdraw(id.clone())).await;
            withdrawn.map(|count| 0 < count).map_err(|error| ReadError::Unavailable(error.to_string()))
        })
    }

    fn rung(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let heard = self.shared.bell.letters_after(self.heard.load(Ordering::Relaxed)).await;
            self.heard.fetch_max(heard, Ordering::Relaxed);
        })
    }
}
