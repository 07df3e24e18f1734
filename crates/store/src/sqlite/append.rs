//! One append inside the writer's transaction, and what the writer remembers so that it need not ask.
//!
//! The cache holds what the database says about sessions this process writes. It is true only while no other
//! connection has committed, which SQLite's `data_version` tells at the start of every transaction.

use std::collections::HashMap;

use posse_session::{AppendError, BatchId, Epoch, Record, Seq, SessionId, Summary};
use rusqlite::{Connection, OptionalExtension, params};

use super::{migrate, rows, views};
use crate::ready::{Ready, Standing, Verdict, judge};

/// A few hundred bytes each. When there are more the cache starts anew: reading them again is cheap.
const KNOWN_MAX: usize = 4096;

#[derive(Default)]
pub(super) struct Cache {
    version: Option<i64>,
    epochs: HashMap<SessionId, Epoch>,
    known: HashMap<SessionId, Known>,
}

/// A session as its rows say.
struct Known {
    key: i64,
    root: SessionId,
    batch: BatchId,
    summary: Summary,
}

impl Cache {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Called inside the transaction, where nobody else can commit any more.
    pub(super) fn refresh(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let version: i64 = connection.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if self.version != Some(version) || KNOWN_MAX < self.known.len() || KNOWN_MAX < self.epochs.len() {
            self.clear();
        }
        self.version = Some(version);
        Ok(())
    }

    pub(super) fn take(&mut self, connection: &Connection, root: &SessionId) -> rusqlite::Result<Result<u64, AppendError>> {
        // Forgotten first: should the savepoint be rolled back, the old epoch is read again.
        self.epochs.remove(root);
        let epoch: i64 = connection
            .prepare_cached(
                "INSERT INTO trees (root, epoch) VALUES (?1, 1) ON CONFLICT (root) DO UPDATE SET epoch = epoch + 1 RETURNING epoch",
            )?
            .query_row([root.as_str()], |row| row.get(0))?;
        Ok(Ok(epoch.unsigned_abs()))
    }

    pub(super) fn append(&mut self, connection: &Connection, ready: &Ready) -> rusqlite::Result<Result<Seq, AppendError>> {
        let append = &ready.append;
        let epoch = match self.epochs.get(&append.root) {
            Some(epoch) => *epoch,
            None => epoch_of(connection, &append.root)?,
        };
        self.epochs.insert(append.root.clone(), epoch);
        // Taken out of the cache and put back when all is written, so that a failure leaves nothing half true in it.
        let known = match self.known.remove(&append.session) {
            Some(known) => Some(known),
            None => load(connection, &append.session)?,
        };
        let head = known.as_ref().map_or(0, |known| known.summary.head);
        let standing =
            Standing { epoch, root: known.as_ref().map(|known| &known.root), head, batch: known.as_ref().map(|known| &known.batch) };
        let answer = match judge(append, &standing) {
            Verdict::AlreadyThere => Ok(head),
            Verdict::Refuse(error) => Err(error),
            Verdict::Write if rows::SEQ_MAX - head < append.events.len() as u64 => {
                Err(AppendError::Unavailable(format!("{} is full: it has {head} events", append.session)))
            }
            Verdict::Write => {
                take_letters(connection, ready)?;
                if append.events.is_empty() {
                    Ok(head)
                } else {
                    let known = write(connection, ready, known)?;
                    let head = known.summary.head;
                    self.known.insert(append.session.clone(), known);
                    return Ok(Ok(head));
                }
            }
        };
        if let Some(known) = known {
            self.known.insert(append.session.clone(), known);
        }
        Ok(answer)
    }
}

pub(super) fn epoch_of(connection: &Connection, root: &SessionId) -> rusqlite::Result<Epoch> {
    let epoch: Option<i64> =
        connection.prepare_cached("SELECT epoch FROM trees WHERE root = ?1")?.query_row([root.as_str()], |row| row.get(0)).optional()?;
    Ok(epoch.unwrap_or(0).unsigned_abs())
}

fn load(connection: &Connection, session: &SessionId) -> rusqlite::Result<Option<Known>> {
    let row: Option<(i64, String)> = connection
        .prepare_cached("SELECT key, root FROM sessions WHERE id = ?1")?
        .query_row([session.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((key, root)) = row else { return Ok(None) };
    let Some((head, batch)) = rows::tail(connection, key)? else { return Ok(None) };
    let summary = views::load(connection, key, session, head)?;
    Ok(Some(Known { key, root: SessionId(root), batch, summary }))
}

fn take_letters(connection: &Connection, ready: &Ready) -> rusqlite::Result<()> {
    for letter in &ready.append.letters {
        connection.prepare_cached("DELETE FROM letters WHERE id = ?1")?.execute([letter.as_str()])?;
    }
    Ok(())
}

/// Blobs before the events that name them, the view after the events it follows from.
fn write(connection: &Connection, ready: &Ready, known: Option<Known>) -> rusqlite::Result<Known> {
    let append = &ready.append;
    let mut known = match known {
        Some(known) => Known { batch: append.batch.clone(), ..known },
        None => create(connection, ready)?,
    };
    for (hash, body) in &append.blobs {
        connection
            .prepare_cached("INSERT OR IGNORE INTO blobs (hash, body) VALUES (?1, ?2)")?
            .execute(params![hash.as_str(), &body[..]])?;
    }
    let mut insert = connection.prepare_cached("INSERT INTO events (place, at, batch, body) VALUES (?1, ?2, ?3, ?4)")?;
    for (event, body) in append.events.iter().zip(&ready.bodies) {
        let record = Record { seq: known.summary.head + 1, at: append.at, batch: append.batch.clone(), event: event.clone() };
        insert.execute(params![rows::place(known.key, record.seq), rows::signed(append.at.0), append.batch.as_str(), body])?;
        migrate::refer(connection, known.key, event)?;
        known.summary.apply(&record);
    }
    let mut refer =
        connection.prepare_cached("INSERT OR IGNORE INTO blob_refs (session, blob) SELECT ?1, key FROM blobs WHERE hash = ?2")?;
    for hash in append.blobs.iter().map(|(hash, _)| hash.as_str()).chain(ready.named.iter().map(String::as_str)) {
        refer.execute(params![known.key, hash])?;
    }
    views::store(connection, known.key, &known.summary)?;
    Ok(known)
}

fn create(connection: &Connection, ready: &Ready) -> rusqlite::Result<Known> {
    let append = &ready.append;
    connection
        .prepare_cached("INSERT INTO sessions (id, root) VALUES (?1, ?2)")?
        .execute([append.session.as_str(), append.root.as_str()])?;
    let summary = Summary::new(append.session.clone());
    Ok(Known { key: connection.last_insert_rowid(), root: append.root.clone(), batch: append.batch.clone(), summary })
}
