//! Connections that only read, used from threads that may block. Readers never wait for a writer, here or elsewhere:
//! that is what the WAL is for.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use posse_session::ReadError;
use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::damage;
use crate::error::words;

/// Reads take microseconds to milliseconds; a few at once keep two cores busy and the number of open files small.
const READERS_MAX: usize = 4;

/// How a connection is made: the file may be on a disk where the usual way is closed.
pub(super) type Connect = fn(&Path) -> rusqlite::Result<Connection>;

pub(super) struct Readers {
    path: PathBuf,
    connect: Connect,
    /// Opened when first needed: many commands never read twice at once.
    idle: Mutex<Vec<Connection>>,
    permits: Semaphore,
}

impl Readers {
    pub(super) fn new(path: PathBuf, connect: Connect) -> Self {
        Self { path, connect, idle: Mutex::new(Vec::new()), permits: Semaphore::new(READERS_MAX) }
    }

    pub(super) async fn query<T, Q>(self: &Arc<Self>, query: Q) -> Result<T, ReadError>
    where
        T: Send + 'static,
        Q: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let _permit = self.permits.acquire().await.map_err(|_| ReadError::Unavailable("the store was closed".to_owned()))?;
        let readers = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || readers.run(query)).await;
        match read {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(error)) => Err(ReadError::Unavailable(words(&self.path, &error))),
            Err(stopped) => Err(ReadError::Unavailable(format!("{}: the read was stopped: {stopped}", self.path.display()))),
        }
    }

    fn run<T>(&self, query: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => (self.connect)(&self.path)?,
        };
        // After an error the connection is closed: the next read starts from a clean one.
        let found = query(&connection).inspect_err(|error| damage::note_if_damaged(&self.path, error))?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // A caller that went away gave its permit back before its read was done, so there may be one too many.
        if idle.len() < READERS_MAX {
            idle.push(connection);
        }
        Ok(found)
    }
}
