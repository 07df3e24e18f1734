//! The file, its tables and its settings: made once, brought up to date once, checked at every open.
//!
//! Opening is on the way to the first prompt, so an existing file costs a handful of pragmas and no scan. There is no
//! `quick_check` after an unclean stop either: it reads every page, which a budget of 21 ms does not allow, and a kill
//! leaves a WAL database whole. Damage is found where it is read (`damage.rs`), and `posse doctor` looks for it. Anything
//! but this file asks SQLite for rows, never for settings.

use std::{
    fs,
    io::ErrorKind,
    os::unix::{
        ffi::OsStrExt,
        fs::{DirBuilderExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags, config::DbConfig, ffi};

use super::{lock, migrate, rows};
use crate::error::OpenError;

/// The tables below. A later one is refused; an earlier one is brought up to date (`migrate.rs`).
pub(super) const FORMAT: i64 = 2;

/// The file in the folder of a project.
pub(super) const FILE_NAME: &str = "posse.db";

/// The write-ahead log beside a database file, by the name SQLite gives it.
pub(super) fn wal_of(path: &Path) -> PathBuf {
    beside(path, "-wal")
}

/// A file whose name is that of another and something behind it.
pub(crate) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

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
pub(super) const TABLES: &str = "
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

/// What format 2 added. A fold is a cache of its session's state. A session that shows records of another (a fork) is in
/// `segment_refs`, so that nobody removes what it points at; by id, for the other may be in any tree.
pub(super) const TABLES_2: &str = "
    CREATE TABLE folds (
        session INTEGER PRIMARY KEY REFERENCES sessions (key), seq INTEGER NOT NULL, version INTEGER NOT NULL, body BLOB NOT NULL
    );
    CREATE TABLE segment_refs (
        session INTEGER NOT NULL REFERENCES sessions (key), target TEXT NOT NULL, PRIMARY KEY (session, target)
    ) WITHOUT ROWID;
    CREATE INDEX refs_of_segment ON segment_refs (target);
";

pub(super) fn check_version() -> Result<(), OpenError> {
    let found = rusqlite::version_number();
    if found < SQLITE_VERSION_MIN {
        return Err(OpenError::TooOldSqlite { found, needed: SQLITE_VERSION_MIN });
    }
    Ok(())
}

/// The writer's connection. The file is there already.
pub(super) fn open(path: &Path) -> Result<Connection, OpenError> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(|source| OpenError::of(path, source))?;
    // Where it may not write SQLite opens it to read and says nothing.
    if connection.is_readonly(MAIN_DB).map_err(|source| OpenError::of(path, source))? {
        let source = rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_READONLY), None);
        return Err(OpenError::Unavailable { path: path.to_owned(), source });
    }
    // Until it is known to be whole, closing it leaves the file as it was found.
    let checkpoint_at_close = |wanted: bool| connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !wanted);
    checkpoint_at_close(false).map_err(|source| OpenError::of(path, source))?;
    prepare(&connection, path)?;
    checkpoint_at_close(true).map_err(|source| OpenError::of(path, source))?;
    Ok(connection)
}

/// A connection that cannot write.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
}

/// The same for a file that nobody can be writing, with nothing in its WAL: no lock is taken and no file made.
pub(super) fn open_unchanging(path: &Path) -> rusqlite::Result<Connection> {
    let mut name = String::from("file:");
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => name.push(char::from(*byte)),
            other => name.push_str(&format!("%{other:02X}")),
        }
    }
    name.push_str("?immutable=1");
    connect(Path::new(&name), OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI)
}

fn connect(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_WAIT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(connection)
}

/// Made here rather than by SQLite, for its mode: what agents read and say is nobody else's business.
pub(super) fn make_folder(folder: &Path) -> Result<(), OpenError> {
    let locks = lock::folder(folder);
    if locks.is_dir() {
        return Ok(());
    }
    let is_new: Vec<&Path> = locks.ancestors().take_while(|folder| !folder.exists()).collect();
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&locks).map_err(|source| OpenError::Io { path: locks.clone(), source })?;
    // A folder outlives a power cut when its name does, which is kept one above. Some disks cannot be told; they need not.
    for parent in is_new.iter().rev().filter_map(|folder| folder.parent()) {
        let _ = fs::File::open(parent).and_then(|parent| parent.sync_all());
    }
    Ok(())
}

/// The same for the file, where there is none.
pub(super) fn make_file(path: &Path) -> Result<(), OpenError> {
    match fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(source) => Err(OpenError::Io { path: path.to_owned(), source }),
    }
}

fn prepare(connection: &Connection, path: &Path) -> Result<(), OpenError> {
    let failed = |source| OpenError::of(path, source);
    let mut found = look(connection, path)?;
    if found == 0 {
        patiently(|| create(connection)).map_err(failed)?;
        found = look(connection, path)?;
    }
    // A file that was copied out of a backup is in another mode.
    let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).map_err(failed)?;
    if mode != "wal" {
        patiently(|| connection.execute_batch("PRAGMA journal_mode = WAL")).map_err(failed)?;
    }
    // Settings of this connection only: none of them touches the disk.
    let settings = format!(
        "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON; PRAGMA journal_size_limit = {WAL_BYTES_KEPT};"
    );
    connection.execute_batch(&settings).map_err(failed)?;
    if found < FORMAT {
        patiently(|| migrate::migrate(connection)).map_err(failed)?;
    }
    rows::touch(connection).map_err(failed)
}

/// Whose file it is and of which format; a later one is refused.
pub(super) fn look(connection: &Connection, path: &Path) -> Result<i64, OpenError> {
    let failed = |source| OpenError::of(path, source);
    let owner: i64 = number(connection, "application_id").map_err(failed)?;
    if owner != 0 && owner != APPLICATION_ID {
        return Err(OpenError::Foreign { path: path.to_owned() });
    }
    let format = || -> Result<i64, OpenError> {
        let found = number(connection, "user_version").map_err(failed)?;
        if FORMAT < found { Err(OpenError::Newer { path: path.to_owned(), found, known: FORMAT }) } else { Ok(found) }
    };
    // Asked for first, and without reading the tables: those of a later version may be beyond us.
    let found = format()?;
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    match (found, tables) {
        // Another process may be making them just now; if not, the header was hurt.
        (0, 1..) => format().and_then(|found| if found == 0 { Err(OpenError::NotADatabase { path: path.to_owned() }) } else { Ok(found) }),
        (..0, _) | (1.., 0) => Err(OpenError::NotADatabase { path: path.to_owned() }),
        _ => Ok(found),
    }
}

pub(super) fn number(connection: &Connection, pragma: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, pragma, |row| row.get(0))
}

fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA journal_mode = WAL;")?;
    at_once(connection, || match number(connection, "user_version")? {
        0 => make_tables(connection),
        // Another process made them between our look and our turn.
        _ => Ok(()),
    })
}

pub(super) fn make_tables(connection: &Connection) -> rusqlite::Result<()> {
    let marks = format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT};");
    connection.execute_batch(&format!("{TABLES} {TABLES_2} {marks}"))
}

/// All of it or nothing, while no other process can write.
pub(super) fn at_once(connection: &Connection, change: impl FnOnce() -> rusqlite::Result<()>) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    match change().and_then(|()| connection.execute_batch("COMMIT")) {
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
