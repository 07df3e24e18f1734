//! Space in the file and copies of it: handing back what removed sessions used, and backups of a file in use.
//!
//! Nothing here is on the way of an append.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rusqlite::Connection;
use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};

use super::schema;
use crate::error::{io_words, words};

/// Less is not worth writing the file anew.
const FREE_BYTES_MIN: u64 = 1024 * 1024;

/// Free space is handed back when it is at least one part in so many of the file.
const FREE_SHARE: u64 = 4;

/// Writing the file anew keeps other processes from appending meanwhile: a second or two at this size. In a larger file
/// the space is used again by what comes.
const KEPT_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Makes the file smaller if there is much free in it. Answers with how many bytes were handed back.
pub(super) fn give_back(connection: &Connection) -> rusqlite::Result<u64> {
    let (size, free) = sizes(connection)?;
    if free < FREE_BYTES_MIN || free * FREE_SHARE < size || KEPT_BYTES_MAX < size - free {
        return Ok(0);
    }
    connection.execute_batch("VACUUM")?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(size.saturating_sub(sizes(connection)?.0))
}

/// How long the file is, and how much of it is free.
pub(super) fn sizes(connection: &Connection) -> rusqlite::Result<(u64, u64)> {
    let number = |pragma: &str| schema::number(connection, pragma).map(i64::unsigned_abs);
    let page = number("page_size")?;
    Ok((number("page_count")? * page, number("freelist_count")? * page))
}

/// What is in a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    pub sessions: u64,
    pub events: u64,
    pub blobs: u64,
    pub bytes: u64,
}

/// Why there is no backup. Nothing was left behind, and what was there before is untouched.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("{} exists already", .0.display())]
    Exists(PathBuf),
    /// The target is the database itself, or one of the files beside it.
    #[error("{} is the database itself: name another file", .0.display())]
    Itself(PathBuf),
    #[error("{0}")]
    Failed(String),
}

/// Copies the database as it is at one moment, while others go on writing. `VACUUM INTO` reads one snapshot; the backup
/// interface of SQLite would begin again whenever another process commits. The copy is checked before it gets its name.
pub(super) fn backup(source: &Connection, database: &Path, target: &Path, replace: bool) -> Result<Backup, BackupError> {
    let failed = |error: io::Error| BackupError::Failed(io_words(target, &error));
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let name = target.file_name().ok_or_else(|| BackupError::Failed(format!("{} is not the name of a file", target.display())))?;
    if is_part_of(database, folder, name) {
        return Err(BackupError::Itself(target.to_owned()));
    }
    // A link may be a file elsewhere, and a folder is no file: only what is plainly a file is replaced.
    match fs::symlink_metadata(target) {
        Ok(_) if !replace => return Err(BackupError::Exists(target.to_owned())),
        Ok(there) if !there.is_file() => {
            return Err(BackupError::Failed(format!("{} is not a file that can be replaced", target.display())));
        }
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let copy = Unfinished::beside(folder, name).map_err(failed)?;
    let inside = write_copy(source, &copy.path)?;
    File::open(&copy.path).and_then(|file| file.sync_all()).map_err(failed)?;
    let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    match renameat_with(CWD, &copy.path, CWD, target, flags) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Err(BackupError::Exists(target.to_owned())),
        // A disk that cannot promise not to replace; it was looked at before.
        Err(Errno::INVAL | Errno::NOSYS) => fs::rename(&copy.path, target).map_err(failed)?,
        Err(error) => return Err(failed(error.into())),
    }
    // Some disks cannot flush a folder; the copy itself is flushed.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(inside)
}

/// The database or something of the same beginning beside it.
fn is_part_of(database: &Path, folder: &Path, name: &std::ffi::OsStr) -> bool {
    let identity = |path: &Path| fs::metadata(path).map(|found| (found.dev(), found.ino())).ok();
    let same_folder = database.parent().and_then(identity).is_some_and(|ours| identity(folder) == Some(ours));
    let own = database.file_name().unwrap_or_default().as_encoded_bytes();
    same_folder && name.as_encoded_bytes().starts_with(own)
}

/// A file that goes away unless it got its name.
struct Unfinished {
    path: PathBuf,
}

impl Unfinished {
    fn beside(folder: &Path, name: &std::ffi::OsStr) -> io::Result<Self> {
        let mut own = OsString::from(".");
        own.push(name);
        own.push(format!(".{}.unfinished", std::process::id()));
        let path = folder.join(own);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self { path })
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        for end in ["", "-journal", "-wal", "-shm"] {
            let _ = fs::remove_file(schema::beside(&self.path, end));
        }
    }
}

fn write_copy(source: &Connection, copy: &Path) -> Result<Backup, BackupError> {
    let failed = |error: rusqlite::Error| BackupError::Failed(words(copy, &error));
    let name = copy.to_str().ok_or_else(|| BackupError::Failed(format!("{} is not Unicode text", copy.display())))?;
    let before = events(source).map_err(failed)?;
    source.execute("VACUUM INTO ?1", [name]).map_err(failed)?;
    let after = events(source).map_err(failed)?;
    let connection = schema::open_unchanging(copy).map_err(failed)?;
    let check: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(failed)?;
    let inside = contents(&connection).map_err(failed)?;
    // Others may have appended or removed meanwhile; a copy holds what there was at one moment between.
    if check != "ok" || inside.events < before.min(after) || before.max(after) < inside.events {
        return Err(BackupError::Failed(format!("the copy does not hold what the database does ({check}); try again")));
    }
    let bytes = fs::metadata(copy).map_or(0, |file| file.len());
    Ok(Backup { bytes, ..inside })
}

fn events(connection: &Connection) -> rusqlite::Result<u64> {
    connection.query_row("SELECT count(*) FROM events", [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs)
}

fn contents(connection: &Connection) -> rusqlite::Result<Backup> {
    let count = |table: &str| connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get::<_, i64>(0));
    let count = |table: &str| count(table).map(i64::unsigned_abs);
    Ok(Backup { sessions: count("sessions")?, events: events(connection)?, blobs: count("blobs")?, bytes: 0 })
}

/// Whether every page fits together, for who wants to know; reads the whole file.
pub(super) fn check(connection: &Connection) -> rusqlite::Result<String> {
    connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
}
