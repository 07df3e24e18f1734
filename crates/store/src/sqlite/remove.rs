//! Removing a tree: its sessions, events, views and letters, and the blobs that nobody else names.
//!
//! What a session of another tree still shows stays: a fork's transcript is a list of stretches of other logs.
//! The tree's epoch stays, so that a former owner can never mistake a new tree of the same name for its own.

use posse_session::{AppendError, Epoch, SessionId};
use rusqlite::{Connection, params};

use super::{append::epoch_of, rows};
use crate::ready::still_needed;

pub(super) fn remove(connection: &Connection, root: &SessionId, epoch: Epoch) -> rusqlite::Result<Result<u64, AppendError>> {
    if epoch_of(connection, root)? != epoch {
        return Ok(Err(AppendError::Moved { head: 0 }));
    }
    let forks = forks_of(connection, root)?;
    if !forks.is_empty() {
        return Ok(Err(still_needed(root, &forks)));
    }
    let mut statement = connection.prepare("SELECT key FROM sessions WHERE root = ?1")?;
    let keys: Vec<i64> = statement.query_map([root.as_str()], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    for key in &keys {
        remove_session(connection, *key)?;
    }
    connection.execute("DELETE FROM letters WHERE root = ?1", [root.as_str()])?;
    Ok(Ok(keys.len() as u64))
}

/// Sessions of other trees that show records of this one.
pub(super) fn forks_of(connection: &Connection, root: &SessionId) -> rusqlite::Result<Vec<SessionId>> {
    let query =
        "SELECT DISTINCT fork.id FROM sessions AS shown JOIN segment_refs ON target = shown.id JOIN sessions AS fork ON fork.key = session
        WHERE shown.root = ?1 AND fork.root <> ?1 ORDER BY fork.id";
    let mut statement = connection.prepare(query)?;
    statement.query_map([root.as_str()], |row| Ok(SessionId(row.get(0)?)))?.collect()
}

fn remove_session(connection: &Connection, key: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM events WHERE place BETWEEN ?1 AND ?2")?
        .execute(params![rows::place(key, 0), rows::place(key, rows::SEQ_MAX)])?;
    connection.prepare_cached("DELETE FROM summaries WHERE session = ?1")?.execute([key])?;
    connection.prepare_cached("DELETE FROM folds WHERE session = ?1")?.execute([key])?;
    connection.prepare_cached("DELETE FROM segment_refs WHERE session = ?1")?.execute([key])?;
    let mut statement = connection.prepare_cached("DELETE FROM blob_refs WHERE session = ?1 RETURNING blob")?;
    let blobs: Vec<i64> = statement.query_map([key], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    for blob in blobs {
        connection
            .prepare_cached("DELETE FROM blobs WHERE key = ?1 AND NOT EXISTS (SELECT 1 FROM blob_refs WHERE blob = ?1)")?
            .execute([blob])?;
    }
    connection.prepare_cached("DELETE FROM sessions WHERE key = ?1")?.execute([key])?;
    Ok(())
}
