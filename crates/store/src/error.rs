//! What can be wrong with the file: typed for who opens it, in words for who appends or reads.

use std::{
    io,
    path::{Path, PathBuf},
};

use rusqlite::ErrorCode;

/// Why a project's store could not be opened. Each variant names the file and what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A later posse wrote this file. Nothing was changed in it.
    #[error("{} was written by a newer posse (format {found}, this one knows {known}): update posse, or choose another data folder", path.display())]
    Newer { path: PathBuf, found: i64, known: i64 },
    /// Older versions can corrupt a WAL file; only a build that does not use the bundled SQLite gets here.
    #[error("SQLite {found} is too old and can damage the log: {needed} or newer is needed, build posse with the bundled one")]
    TooOldSqlite { found: i32, needed: i32 },
    /// Not SQLite at all, or damaged beyond opening. The file was left as it is.
    #[error("{} is damaged or not a database: move it away to start anew, and keep it for repair", path.display())]
    NotADatabase { path: PathBuf },
    /// A database of another program.
    #[error("{} belongs to another program: choose another data folder", path.display())]
    Foreign { path: PathBuf },
    /// The folder or the file cannot be made or opened.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// Anything else SQLite says: disk full, locked too long, read-only.
    #[error("{}", words(path, source))]
    Unavailable { path: PathBuf, source: rusqlite::Error },
}

impl OpenError {
    pub(crate) fn of(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Self::NotADatabase { path },
            _ => Self::Unavailable { path, source },
        }
    }
}

/// What happened to the file and what the reader of these words can do about it.
pub(crate) fn words(path: &Path, error: &rusqlite::Error) -> String {
    let path = path.display();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => format!("{path}: the disk is full; free some space and go on"),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            format!("{path} is read-only; change its permissions or choose another data folder")
        }
        Some(ErrorCode::CannotOpen) => format!("{path} cannot be opened; see whether the folder exists and may be written"),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => format!("{path}: another process kept it locked too long; try again"),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            format!("{path} is damaged ({error}); keep a copy of it before anything else")
        }
        _ => format!("{path}: {error}"),
    }
}
