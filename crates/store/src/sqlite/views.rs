//! The view of every session, for lists: a cache in the same file, written with the facts it follows from.
//!
//! A row that is missing or of another version is made again from the events, by whoever needs it; before the writer
//! goes on from a row it also checks that it is not behind its log. Deleting all rows loses nothing.

use posse_session::{SUMMARY_VERSION, Seq, SessionId, Summary};
use rusqlite::{Connection, OptionalExtension, params};

use super::rows;

pub(super) struct Listed {
    /// Newest first.
    pub(super) summaries: Vec<Summary>,
    /// How many of them had to be folded from their events.
    pub(super) stale: usize,
}

pub(super) enum Which {
    All,
    Stale,
}

pub(super) fn store(connection: &Connection, key: i64, summary: &Summary) -> rusqlite::Result<()> {
    let body = serde_json::to_string(summary).map_err(|error| rows::damaged(2, error.to_string()))?;
    connection
        .prepare_cached(
            "INSERT INTO summaries (session, version, body) VALUES (?1, ?2, ?3)
             ON CONFLICT (session) DO UPDATE SET version = excluded.version, body = excluded.body",
        )?
        .execute(params![key, SUMMARY_VERSION, body])?;
    Ok(())
}

pub(super) fn load(connection: &Connection, key: i64, session: &SessionId, head: Seq) -> rusqlite::Result<Summary> {
    let row: Option<(u32, String)> = connection
        .prepare_cached("SELECT version, body FROM summaries WHERE session = ?1")?
        .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match row.and_then(|(version, body)| read(version, &body)) {
        Some(summary) if summary.head == head => Ok(summary),
        _ => fold(connection, key, session),
    }
}

pub(super) fn list(connection: &Connection, root: Option<&SessionId>) -> rusqlite::Result<Listed> {
    let query = match root {
        Some(_) => "SELECT key, id, version, body FROM sessions LEFT JOIN summaries ON session = key WHERE root = ?1",
        None => "SELECT key, id, version, body FROM sessions LEFT JOIN summaries ON session = key WHERE ?1 IS NULL",
    };
    let mut statement = connection.prepare_cached(query)?;
    collect(connection, statement.query([root.map(SessionId::as_str)])?)
}

/// Whether some session has no view of this version. Counts two indexes and reads no view.
pub(super) fn are_stale(connection: &Connection) -> rusqlite::Result<bool> {
    let count = "SELECT (SELECT count(*) FROM sessions) <> (SELECT count(*) FROM summaries WHERE version = ?1)";
    connection.prepare_cached(count)?.query_row([SUMMARY_VERSION], |row| row.get(0))
}

/// Those with an open ask or a lasting answer, found by an index of their own; a row that is stale is not among them.
pub(super) const WITH_ASKS: &str = "SELECT key, id, version, body FROM summaries JOIN sessions ON session = key
    WHERE instr(body, '\"asks\":[') + instr(body, '\"granted\":[')";

pub(super) fn with_asks(connection: &Connection) -> rusqlite::Result<Vec<Summary>> {
    let mut statement = connection.prepare_cached(WITH_ASKS)?;
    let mut listed = collect(connection, statement.query([])?)?.summaries;
    // A title may read like it.
    listed.retain(|summary| !summary.asks.is_empty() || !summary.granted.is_empty());
    Ok(listed)
}

fn collect(connection: &Connection, mut found: rusqlite::Rows<'_>) -> rusqlite::Result<Listed> {
    let (mut summaries, mut stale) = (Vec::new(), 0);
    while let Some(row) = found.next()? {
        let version: Option<u32> = row.get(2)?;
        let made = match version {
            Some(version) => read(version, row.get_ref(3)?.as_str()?),
            None => None,
        };
        if made.is_none() {
            stale += 1;
        }
        summaries.push(match made {
            Some(summary) => summary,
            None => fold(connection, row.get(0)?, &SessionId(row.get(1)?))?,
        });
    }
    // Ten thousand are sorted in a millisecond; an index would have to be written with every append.
    summaries.sort_by(|one, other| (other.updated, &other.session).cmp(&(one.updated, &one.session)));
    Ok(Listed { summaries, stale })
}

pub(super) fn rebuild(connection: &Connection, which: Which) -> rusqlite::Result<u64> {
    if let Which::All = which {
        connection.execute("DELETE FROM summaries", [])?;
    }
    let mut statement = connection.prepare("SELECT key, id FROM sessions LEFT JOIN summaries ON session = key WHERE version IS NOT ?1")?;
    let stale: Vec<(i64, String)> =
        statement.query_map([SUMMARY_VERSION], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<rusqlite::Result<_>>()?;
    for (key, session) in &stale {
        store(connection, *key, &fold(connection, *key, &SessionId(session.clone()))?)?;
    }
    Ok(stale.len() as u64)
}

fn read(version: u32, body: &str) -> Option<Summary> {
    if version == SUMMARY_VERSION { serde_json::from_str(body).ok() } else { None }
}

fn fold(connection: &Connection, key: i64, session: &SessionId) -> rusqlite::Result<Summary> {
    let mut summary = Summary::new(session.clone());
    rows::each_record(connection, key, 0, usize::MAX, |record| summary.apply(&record))?;
    Ok(summary)
}
