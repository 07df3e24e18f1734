//! One SQLite file per project, for any number of processes on one machine.
//!
//! The folder holds `posse.db` and `locks/`. Each process has one writer thread (`writer.rs`) that commits what waits
//! in groups, a few connections that only read (`readers.rs`), and a watcher (`bell.rs`) that notices what other
//! processes wrote. What a transaction does is in `append.rs`, `remove.rs` and `views.rs`; the tables in `schema.rs`. A
//! file that is damaged is mended when it is opened (`salvage.rs`); one that cannot be written is read (`unwritable.rs`).

mod append;
mod bell;
mod damage;
mod folds;
mod lock;
mod migrate;
mod pages;
mod presence;
mod readers;
mod remove;
mod rows;
mod salvage;
mod schema;
mod space;
mod unwritable;
mod views;
mod wal;
mod writer;

pub(crate) use self::{damage::is_damage, schema::beside};
pub use self::{
    salvage::{Damaged, Salvaged},
    space::{Backup, BackupError},
};

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use posse_session::{
    Append, AppendError, BoxFuture, Hash, Inbox, Lease, LeaseError, LetterId, Log, Ownership, Posted, ReadError, Record, SavedFold, Seq,
    SessionId, Summary,
};

use self::{
    bell::Bell,
    lock::Lock,
    presence::Presence,
    readers::Readers,
    schema::FILE_NAME,
    unwritable::Way,
    writer::{Wish, Writer},
};
use rusqlite::Connection;

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
    salvaged: Option<Salvaged>,
    /// Where the file is read from in fact, if it had to be copied; gone with the handle.
    _copy: Option<unwritable::Copy>,
    /// Last, so that nobody takes the file for free while something here still has it open.
    _presence: Arc<Presence>,
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
    /// Whether there is a store in this folder. Who only wants to read makes none.
    pub fn is_in(folder: impl AsRef<Path>) -> bool {
        let path = folder.as_ref().join(FILE_NAME);
        path.exists() || salvage::is_ready(&path)
    }

    /// Opens the store in this folder and makes what is not there yet. Reads no session and checks no page: a damaged
    /// file is found when its header, its tables or its log cannot be read. Then what can be read is saved into a new one, and
    /// [`Sqlite::salvaged`] tells what became of it.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, OpenError> {
        let folder = folder.as_ref();
        let path = folder.join(FILE_NAME);
        schema::check_version()?;
        schema::make_folder(folder)?;
        let presence = Presence::share(folder)?;
        let first = if salvage::is_due(&path) { Err(OpenError::NotADatabase { path: path.clone() }) } else { make_and_open(&path) };
        let (connection, salvaged) = match first {
            Ok(connection) => (connection, None),
            Err(OpenError::NotADatabase { path }) => mend(folder, &path, &presence)?,
            Err(error) => return Err(error),
        };
        let (presence, bell) = (Arc::new(presence), Arc::new(Bell::new(path.clone(), schema::open_reader)));
        let writer = Writer::start(connection, path.clone(), Arc::clone(&bell), Arc::clone(&presence))
            .map_err(|source| OpenError::Io { path: path.clone(), source })?;
        Ok(Self::of(folder, writer, Readers::new(path, schema::open_reader), bell, salvaged, None, presence))
    }

    /// The same for who only reads: a full or read-only disk is no obstacle. Then every write is refused with the reason.
    /// Should the file have to be copied to be read, the copy is in `scratch` while the handle lives.
    pub fn open_to_read(folder: impl AsRef<Path>, scratch: &Path) -> Result<Self, OpenError> {
        let folder = folder.as_ref();
        match Self::open(folder) {
            Err(error) if error.may_be_read() && folder.join(FILE_NAME).exists() => {
                let presence = Presence::share(folder)?;
                // If it cannot be read either, why it cannot be written says more.
                let Some(Way { path, connect, copy }) = unwritable::find(&folder.join(FILE_NAME), scratch)? else { return Err(error) };
                let bell = Arc::new(Bell::new(path.clone(), connect));
                Ok(Self::of(folder, Writer::Nobody(error.to_string()), Readers::new(path, connect), bell, None, copy, Arc::new(presence)))
            }
            other => other,
        }
    }

    fn of(
        folder: &Path,
        writer: Writer,
        readers: Readers,
        bell: Arc<Bell>,
        salvaged: Option<Salvaged>,
        copy: Option<unwritable::Copy>,
        presence: Arc<Presence>,
    ) -> Self {
        let (folder, readers, views_fresh) = (folder.to_owned(), Arc::new(readers), AtomicBool::new(false));
        let shared = Shared { folder, writer, readers, bell, views_fresh, salvaged, _copy: copy, _presence: presence };
        Self { shared: Arc::new(shared), heard: AtomicU64::new(0) }
    }

    /// What was saved out of a damaged file when this handle opened it.
    pub fn salvaged(&self) -> Option<&Salvaged> {
        self.shared.salvaged.as_ref()
    }

    /// Why nothing can be written here, if that is so.
    pub fn unwritable(&self) -> Option<&str> {
        if let Writer::Nobody(why) = &self.shared.writer { Some(why) } else { None }
    }

    /// Copies everything, as it is at one moment, into a file; others may go on writing. The copy is checked before it
    /// gets its name, and a file that is there is only replaced when that is wanted.
    pub async fn backup(&self, target: impl Into<PathBuf>, replace: bool) -> Result<Backup, BackupError> {
        let (target, database) = (target.into(), self.shared.folder.join(FILE_NAME));
        let copied = self.shared.readers.query(move |connection| Ok(space::backup(connection, &database, &target, replace))).await;
        copied.unwrap_or_else(|error| Err(BackupError::Failed(error.to_string())))
    }

    /// Hands space of removed sessions back to the disk where that is worth it. Answers with how many bytes that were,
    /// and how many are still free inside the file for what comes.
    pub async fn give_back(&self) -> Result<(u64, u64), AppendError> {
        let given = self.shared.writer.grant(Wish::GiveBack).await?;
        let left = self.shared.readers.query(space::sizes).await.map(|(_, free)| free);
        Ok((given, left.unwrap_or(0)))
    }

    /// How many bytes the file has, and whether all of it fits together: `ok`, or what does not. Reads everything.
    pub async fn check(&self) -> Result<String, ReadError> {
        let path = self.shared.folder.join(FILE_NAME);
        let said = self.shared.readers.query(space::check).await?;
        if said != "ok" {
            damage::note(&path);
        }
        Ok(said)
    }

    /// Sessions of other trees that show records of this one, which therefore cannot be removed.
    pub async fn forks_of(&self, root: &SessionId) -> Result<Vec<SessionId>, ReadError> {
        let root = root.clone();
        self.shared.readers.query(move |connection| remove::forks_of(connection, &root)).await
    }

    pub fn folder(&self) -> &Path {
        &self.shared.folder
    }

    /// Throws all views away and makes them again from the events; answers with how many there are.
    pub async fn rebuild_views(&self) -> Result<u64, AppendError> {
        self.shared.writer.grant(Wish::Rebuild).await
    }
}

fn make_and_open(path: &Path) -> Result<Connection, OpenError> {
    schema::make_file(path)?;
    schema::open(path)
}

/// Saves what can be read of a damaged file, as the only process that has it open.
fn mend(folder: &Path, path: &Path, presence: &Presence) -> Result<(Connection, Option<Salvaged>), OpenError> {
    if !presence.is_alone(folder)? {
        // What was noted in one place of the file need not keep anybody from the rest of it.
        return if salvage::is_half_done(path) {
            Err(OpenError::NotADatabase { path: path.to_owned() })
        } else {
            Ok((make_and_open(path)?, None))
        };
    }
    // Somebody else may have done it before it was our turn.
    let is_due = salvage::is_due(path) || matches!(make_and_open(path), Err(OpenError::NotADatabase { .. }));
    let salvaged = if is_due { Some(salvage::salvage(folder)) } else { None };
    presence.share_again(folder)?;
    let salvaged = salvaged.transpose()?;
    Ok((make_and_open(path)?, salvaged))
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
        Box::pin(async move {
            let found = self.shared.readers.query(move |connection| Ok((rows::blob(connection, &hash)?, hash))).await?;
            match found {
                (Some(body), hash) if rows::fits(hash.as_str(), &body) => Ok(body),
                // Wrong words must reach nobody; without them the session still opens.
                (Some(_), _) => {
                    damage::note(&self.shared.folder.join(FILE_NAME));
                    Err(ReadError::Missing)
                }
                (None, _) => Err(ReadError::Missing),
            }
        })
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
                let is_stale = self.shared.readers.query(views::are_stale).await?;
                if is_stale && self.unwritable().is_some() {
                    let all = self.summaries(None).await?;
                    return Ok(all.into_iter().filter(|summary| !summary.asks.is_empty() || !summary.granted.is_empty()).collect());
                }
                if is_stale {
                    self.shared.writer.grant(Wish::Mend).await.map_err(|error| ReadError::Unavailable(error.to_string()))?;
                }
                self.shared.views_fresh.store(true, Ordering::Relaxed);
            }
            self.shared.readers.query(views::with_asks).await
        })
    }

    fn save_fold(&self, fold: SavedFold) -> BoxFuture<'_, Result<(), AppendError>> {
        Box::pin(async move { self.shared.writer.grant(Wish::SaveFold(fold)).await.map(drop) })
    }

    fn saved_fold<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Option<SavedFold>, ReadError>> {
        let session = session.clone();
        Box::pin(self.shared.readers.query(move |connection| folds::load(connection, &session)))
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
            if let Some(why) = self.unwritable() {
                return Err(LeaseError::Unavailable(why.to_owned()));
            }
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
