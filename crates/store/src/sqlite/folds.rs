//! Saved folds: a session's state at one place of its log, opaque here. A cache; deleting every row loses nothing.

use std::sync::Arc;

use posse_session::{AppendError, SavedFold, SessionId};
use rusqlite::{Connection, OptionalExtension, params};

use super::rows;

/// Keeps it in place of the earlier one. A session that is not there (any more) keeps none.
pub(super) fn save(connection: &Connection, fold: &SavedFold) -> rusqlite::Result<Result<u64, AppendError>> {
    let Some(key) = rows::key_of(connection, &fold.session)? else { return Ok(Ok(0)) };
    connection
        .prepare_cached(
            "INSERT INTO folds (session, seq, version, body) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (session) DO UPDATE SET seq = excluded.seq, version = excluded.version, body = excluded.body",
        )?
        .execute(params![key, rows::signed(fold.seq), fold.version, &fold.body[..]])?;
    Ok(Ok(1))
}

pub(super) fn load(connection: &Connection, session: &SessionId) -> rusqlite::Result<Option<SavedFold>> {
    let query = "SELECT folds.seq, version, body FROM sessions JOIN folds ON session = key WHERE id = ?1";
    let mut statement = match connection.prepare_cached(query) {
        Ok(statement) => statement,
        // An older file on a disk that cannot be written was not brought up to date.
        Err(_) if !connection.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'folds'")?.exists([])? => return Ok(None),
        Err(error) => return Err(error),
    };
    statement
        .query_row([session.as_str()], |row| {
            let seq: i64 = row.get(0)?;
            let body: Arc<[u8]> = Arc::from(row.get_ref(2)?.as_blob()?);
            Ok(SavedFold { session: session.clone(), seq: seq.unsigned_abs(), version: row.get(1)?, body })
        })
        .optional()
}
