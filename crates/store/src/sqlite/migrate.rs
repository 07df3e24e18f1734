//! Bringing a file of an earlier format up to date, in one transaction.
//!
//! Killed in the middle, the file is of the old format and whole; two processes that come at once take turns, and the
//! second finds nothing to do. Events are never rewritten: a migration adds tables and fills them from what is there.

use posse_session::Event;
use rusqlite::{Connection, params};

use super::{rows, schema};
use crate::ready::leans_on;

pub(super) fn migrate(connection: &Connection) -> rusqlite::Result<()> {
    schema::at_once(connection, || {
        // Another process may have done it between our look and our turn.
        if schema::number(connection, "user_version")? < 2 {
            connection.execute_batch(schema::TABLES_2)?;
            fill_segment_refs(connection)?;
            connection.execute_batch("PRAGMA user_version = 2")?;
        }
        Ok(())
    })
}

/// Reads every event once: some seconds for a gigabyte, never again.
fn fill_segment_refs(connection: &Connection) -> rusqlite::Result<()> {
    let mut forked = connection.prepare("SELECT place, body FROM events WHERE instr(body, '\"type\":\"forked\"')")?;
    let mut found = forked.query([])?;
    while let Some(row) = found.next()? {
        // What cannot be read is reported by who reads its session.
        let Ok(event) = serde_json::from_str::<Event>(row.get_ref(1)?.as_str()?) else { continue };
        refer(connection, rows::key_at(row.get(0)?), &event)?;
    }
    Ok(())
}

/// Remembers which sessions this event of the session `key` shows records of.
pub(super) fn refer(connection: &Connection, key: i64, event: &Event) -> rusqlite::Result<()> {
    for target in leans_on(event) {
        connection
            .prepare_cached("INSERT OR IGNORE INTO segment_refs (session, target) VALUES (?1, ?2)")?
            .execute(params![key, target.as_str()])?;
    }
    Ok(())
}
