//! Reading rows: records, heads, blobs, letters. Plain queries on whatever connection the caller has.
//!
//! An event that cannot be understood is an error that names it, never a silent gap.

use std::sync::Arc;

use posse_session::{BatchId, Event, Hash, Letter, LetterId, Posted, Record, Seq, SessionId, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, types::Type};

use crate::ready::HASH_CHARS;

/// Bits of a place that hold the seq. Four billion events in a session, two billion sessions in a project.
const SEQ_BITS: u32 = 32;

/// The last seq a session can have.
pub(super) const SEQ_MAX: Seq = (1 << SEQ_BITS) - 1;

/// Where the event `seq` of the session with this key lies.
pub(super) fn place(key: i64, seq: Seq) -> i64 {
    (key << SEQ_BITS) | seq.min(SEQ_MAX) as i64
}

pub(super) fn seq_at(place: i64) -> Seq {
    place as u64 & SEQ_MAX
}

/// The key of the session whose event lies there.
pub(super) fn key_at(place: i64) -> i64 {
    place >> SEQ_BITS
}

/// Reads the ends of the tables that matter: what is hurt at the top of them is found when the file is opened.
pub(super) fn touch(connection: &Connection) -> rusqlite::Result<()> {
    let ends = "SELECT (SELECT max(place) FROM events), (SELECT max(key) FROM sessions), (SELECT max(key) FROM blobs),
        (SELECT max(root) FROM trees), (SELECT max(number) FROM letters), (SELECT max(session) FROM summaries)";
    connection.query_row(ends, [], |_| Ok(()))
}

/// SQLite counts in signed numbers; ours never come near their end.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn key_of(connection: &Connection, session: &SessionId) -> rusqlite::Result<Option<i64>> {
    connection.prepare_cached("SELECT key FROM sessions WHERE id = ?1")?.query_row([session.as_str()], |row| row.get(0)).optional()
}

/// The last event of a session: its seq and the batch it came in.
pub(super) fn tail(connection: &Connection, key: i64) -> rusqlite::Result<Option<(Seq, BatchId)>> {
    connection
        .prepare_cached("SELECT place, batch FROM events WHERE place BETWEEN ?1 AND ?2 ORDER BY place DESC LIMIT 1")?
        .query_row([place(key, 0), place(key, SEQ_MAX)], |row| Ok((seq_at(row.get(0)?), BatchId(row.get(1)?))))
        .optional()
}

pub(super) fn head(connection: &Connection, session: &SessionId) -> rusqlite::Result<Seq> {
    match key_of(connection, session)? {
        Some(key) => Ok(tail(connection, key)?.map_or(0, |(seq, _)| seq)),
        None => Ok(0),
    }
}

pub(super) fn records(connection: &Connection, session: &SessionId, after: Seq, limit: usize) -> rusqlite::Result<Vec<Record>> {
    let mut records = Vec::new();
    if let Some(key) = key_of(connection, session)? {
        each_record(connection, key, after, limit, |record| records.push(record))?;
    }
    Ok(records)
}

/// Hands over the records of a session in order, one at a time: a fold holds none of them.
pub(super) fn each_record(
    connection: &Connection,
    key: i64,
    after: Seq,
    limit: usize,
    mut see: impl FnMut(Record),
) -> rusqlite::Result<()> {
    let mut statement =
        connection.prepare_cached("SELECT place, at, batch, body FROM events WHERE place > ?1 AND place <= ?2 ORDER BY place LIMIT ?3")?;
    let mut rows = statement.query([place(key, after), place(key, SEQ_MAX), signed(limit as u64)])?;
    let mut last = after;
    while let Some(row) = rows.next()? {
        let record = record(row)?;
        // Seqs are dense: a hole is damage that SQLite did not notice.
        if record.seq != last + 1 {
            return Err(damaged(0, format!("event {} is missing", last + 1)));
        }
        last = record.seq;
        see(record);
    }
    Ok(())
}

fn record(row: &Row<'_>) -> rusqlite::Result<Record> {
    let seq = seq_at(row.get(0)?);
    let at: i64 = row.get(1)?;
    let event: Event =
        serde_json::from_str(row.get_ref(3)?.as_str()?).map_err(|error| damaged(3, format!("event {seq} cannot be read: {error}")))?;
    Ok(Record { seq, at: Timestamp(at.unsigned_abs()), batch: BatchId(row.get(2)?), event })
}

pub(super) fn damaged(column: usize, words: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, words.into())
}

/// As it lies there; see `fits`.
pub(super) fn blob(connection: &Connection, hash: &Hash) -> rusqlite::Result<Option<Arc<[u8]>>> {
    connection
        .prepare_cached("SELECT body FROM blobs WHERE hash = ?1")?
        .query_row([hash.as_str()], |row| Ok(Arc::from(row.get_ref(0)?.as_blob()?)))
        .optional()
}

/// Whether these bytes are what the hash names. A name of another kind is not ours to judge.
pub(super) fn fits(hash: &str, body: &[u8]) -> bool {
    hash.len() != HASH_CHARS || blake3::hash(body).to_hex().as_str() == hash
}

/// A letter this version cannot read stays for one that can; it must not keep the others from being read.
pub(super) fn letters(connection: &Connection, root: &SessionId) -> rusqlite::Result<Vec<Posted>> {
    let mut statement = connection.prepare_cached("SELECT id, recipient, body FROM letters WHERE root = ?1 ORDER BY number")?;
    let mut rows = statement.query([root.as_str()])?;
    let mut posted = Vec::new();
    while let Some(row) = rows.next()? {
        let id = LetterId(row.get(0)?);
        match serde_json::from_str::<Letter>(row.get_ref(2)?.as_str()?) {
            Ok(letter) => posted.push(Posted { id, root: root.clone(), to: SessionId(row.get(1)?), letter }),
            Err(error) => tracing::warn!(letter = %id, %error, "a letter cannot be read and is left where it is"),
        }
    }
    Ok(posted)
}

pub(super) fn letter_waits(connection: &Connection, id: &LetterId) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT 1 FROM letters WHERE id = ?1")?.exists([id.as_str()])
}

/// Grows with every letter ever posted and falls when one is taken in: equal values mean an unchanged inbox.
pub(super) fn inbox_state(connection: &Connection) -> rusqlite::Result<(i64, i64)> {
    connection
        .prepare_cached("SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'letters'), 0), (SELECT count(*) FROM letters)")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
}
