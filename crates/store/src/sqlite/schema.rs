//! The file, its tables and its settings: made once, checked at every open.
//!
//! Opening is on the way to the first prompt, so an existing file costs a handful of pragmas and no scan. Anything
//! but this file asks SQLite for rows, never for settings.

use std::{
    fs,
    io::ErrorKind,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::lock;
use crate::error::OpenError;

/// The tables below. A later one is refused; an earlier one would be migrated here.
const FORMAT: i64 = 1;

/// "POSS", so that `file` and we can tell whose database this is.
const APPLICATION_ID: i64 = 0x504f_5353;

/// Before this version a WAL reset could race with a writer and corrupt the file.
const SQLITE_VERSION_MIN: i32 = 3_051_003;

/// Longer than any commit of another process; a disk that stalls for more is reported.
const BUSY_WAIT: Duration = Duration::from_secs(10);

/// Changing to WAL does not wait for other openers by itself: 200 tries, 10 ms apart, are two seconds.
const BUSY_TRIES: u32 = 200;
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// What a burst may leave of the WAL file on disk.
const WAL_BYTES_KEPT: u32 = 64 * 1024 * 1024;

/// Every statement of the writer, with room.
const STATEMENTS_MAX: usize = 64;

/// An event's place is its session's key and its seq in one integer (see `rows::place`): the rows of a session lie
/// side by side without a second index, and a row of up to 4 KB needs no page of its own, as it would in a table
/// WITHOUT ROWID. Keys of sessions are never used again (AUTOINCREMENT). Rows of `trees` outlive their sessions,
/// because epochs must never repeat.
const TABLES: &str = "
    CREATE TABLE trees (root TEXT PRIMARY KEY, epoch INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE sessions (key INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, root TEXT NOT NULL);
    CREATE INDEX sessions_of_tree ON sessions (root);
    CREATE TABLE events (place INTEGER PRIMARY KEY, at INTEGER NOT NULL, batch TEXT NOT NULL, body TEXT NOT NULL);
    CREATE TABLE blobs (key INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE, body BLOB NOT NULL);
    CREATE TABLE blob_refs (
        session INTEGER NOT NULL REFERENCES sessions (key), blob INTEGER NOT NULL REFERENCES blobs (key), PRIMARY KEY (session, blob)
    ) WITHOUT ROWID;
    CREATE INDEX refs_of_blob ON blob_refs (blob);
    CREATE TABLE letters (
        number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, root TEXT NOT NULL, recipient TEXT NOT NULL, body TEXT NOT NULL
    );
    CREATE INDEX letters_of_tree ON letters (root);
    CREATE TABLE summaries (session INTEGER PRIMARY KEY REFERENCES sessions (key), version INTEGER NOT NULL, body TEXT NOT NULL);
    CREATE INDEX summaries_of_version ON summaries (version);
    CREATE INDEX summaries_with_asks ON summaries (session) WHERE instr(body, '\"asks\":[') + instr(body, '\"granted\":[');
";

/// The writer's connection, and the file it writes.
pub(super) fn open(folder: &Path) -> Result<(PathBuf, Connection), OpenError> {
    let found = rusqlite::version_number();
    if found < SQLITE_VERSION_MIN {
        return Err(OpenError::TooOldSqlite { found, needed: SQLITE_VERSION_MIN });
    }
    make_files(folder)?;
    let path = folder.join("posse.db");
    let connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(|source| OpenError::of(&path, source))?;
    prepare(&connection, &path)?;
    Ok((path, connection))
}

/// A connection that cannot write.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
}

fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_WAIT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(connection)
}

/// Made here rather than by SQLite, for their modes: what agents read and say is nobody else's business.
fn make_files(folder: &Path) -> Result<(), OpenError> {
    let locks = lock::folder(folder);
    let failed = |path: &Path, source| OpenError::Io { path: path.to_owned(), source };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&locks).map_err(|source| failed(&locks, source))?;
    let path = folder.join("posse.db");
    match fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(failed(&path, error)),
    }
}

fn prepare(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::of(path, source);
    let owner: i64 = number(connection, "application_id").map_err(failed)?;
    if owner != 0 && owner != APPLICATION_ID {
        return Err(OpenError::Foreign { path: path.to_owned() });
    }
    let mut found = number(connection, "user_version").map_err(failed)?;
    if found == 0 {
        patiently(|| create(connection)).map_err(failed)?;
        found = number(connection, "user_version").map_err(failed)?;
    }
    if FORMAT < found {
        return Err(OpenError::Newer { path: path.to_owned(), found, known: FORMAT });
    }
    // Settings of this connection only: none of them touches the disk.
    let settings = format!(
        "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON; PRAGMA journal_size_limit = {WAL_BYTES_KEPT};"
    );
    connection.execute_batch(&settings).map_err(failed)
}

fn number(connection: &Connection, pragma: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, pragma, |row| row.get(0))
}

fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA journal_mode = WAL; BEGIN IMMEDIATE;")?;
    let made = match number(connection, "user_version") {
        // Another process made them between our look and our turn.
        Ok(format) if format != 0 => Ok(()),
        Ok(_) => connection.execute_batch(&format!("{TABLES} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT};")),
        Err(error) => Err(error),
    };
    match made.and_then(|()| connection.execute_batch("COMMIT")) {
        Ok(()) => Ok(()),
        Err(error) => {
            if !connection.is_autocommit() {
                connection.execute_batch("ROLLBACK")?;
            }
            Err(error)
        }
    }
}

/// Tries again while other processes are in the way.
pub(super) fn patiently<T>(mut attempt: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    for _ in 1..BUSY_TRIES {
        match attempt() {
            Err(error) if is_busy(&error) => thread::sleep(BUSY_PAUSE),
            other => return other,
        }
    }
    attempt()
}

pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}
