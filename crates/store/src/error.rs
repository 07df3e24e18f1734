//! What can be wrong with the file: typed for who opens it, in words for who appends or reads.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use rusqlite::ErrorCode;
use rustix::io::Errno;

use crate::sqlite::{beside, is_damage};

/// Why a project's store could not be opened. Each variant names the file and what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A later posse wrote this file. Nothing was changed in it.
    #[error("{} was written by a newer posse (format {found}, this one knows {known}): update posse, or choose another data folder", path.display())]
    Newer { path: PathBuf, found: i64, known: i64 },
    /// Older versions can corrupt a WAL file; only a build that does not use the bundled SQLite gets here.
    #[error("SQLite {found} is too old and can damage the log: {needed} or newer is needed, build posse with the bundled one")]
    TooOldSqlite { found: i32, needed: i32 },
    /// Damaged, and another process has it open: nothing may be put in its place. The file was left as it is.
    #[error("{} is damaged, and another posse process is using it: end that one, then start again to save what can be read", path.display())]
    NotADatabase { path: PathBuf },
    /// A database of another program.
    #[error("{} belongs to another program: choose another data folder", path.display())]
    Foreign { path: PathBuf },
    /// The folder or the file cannot be made or opened.
    #[error("{}", io_words(path, source))]
    Io { path: PathBuf, source: io::Error },
    /// Anything else SQLite says: disk full, locked too long, read-only.
    #[error("{}", words(path, source))]
    Unavailable { path: PathBuf, source: rusqlite::Error },
}

impl OpenError {
    /// Whether the file may be fine and only cannot be written: then it can perhaps be read.
    pub(crate) fn may_be_read(&self) -> bool {
        matches!(self, Self::Io { .. } | Self::Unavailable { .. })
    }

    pub(crate) fn of(path: &Path, source: rusqlite::Error) -> Self {
        let path = path.to_owned();
        if is_damage(&source) { Self::NotADatabase { path } } else { Self::Unavailable { path, source } }
    }
}

/// What happened, and where. What to do about it is worded by who knows the commands.
pub(crate) fn words(path: &Path, error: &rusqlite::Error) -> String {
    let folder = path.parent().unwrap_or(path).display();
    let path_shown = path.display();
    if is_damage(error) {
        return format!("{path_shown} is damaged ({error}): start posse again, and what can be read is saved into a new file");
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => full(path),
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => format!("{path_shown} is read-only"),
        Some(ErrorCode::CannotOpen) => match trouble(path) {
            Some(words) => words,
            None => format!("{path_shown} cannot be opened; see whether {folder} exists and may be written"),
        },
        Some(ErrorCode::SystemIoFailure) => {
            trouble(path).unwrap_or_else(|| format!("the disk that holds {folder} reported an error ({error})"))
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            format!("{path_shown}: another process kept it locked too long; try again")
        }
        _ => format!("{path_shown}: {error}"),
    }
}

/// The same for what the operating system says.
pub(crate) fn io_words(path: &Path, error: &io::Error) -> String {
    let folder = path.parent().unwrap_or(path).display();
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOSPC) => full(path),
        Some(Errno::DQUOT) => format!("the quota for {folder} is used up: the disk is full for this user"),
        Some(Errno::ROFS) => format!("the disk that holds {folder} is read-only"),
        Some(Errno::IO) => {
            format!("the disk that holds {folder} reported an input/output error: check it, and make a backup while it can be read")
        }
        _ => format!("{}: {error}", path.display()),
    }
}

fn full(path: &Path) -> String {
    format!("the disk that holds {} is full", path.parent().unwrap_or(path).display())
}

/// A page, and one more than may be left in a block that is there already.
const TRIAL_BYTES: usize = 64 * 1024;

/// SQLite says that a write failed and not why: a quota looks like a broken disk. So the same is tried with a file of our
/// own, and what the operating system says to that is the reason.
fn trouble(path: &Path) -> Option<String> {
    let trial = beside(path, &format!(".trial-{}", std::process::id()));
    let tried = fs::File::create(&trial).and_then(|mut file| {
        file.write_all(&[0x55; TRIAL_BYTES])?;
        file.sync_all()
    });
    let _ = fs::remove_file(&trial);
    tried.err().map(|error| io_words(path, &error))
}
