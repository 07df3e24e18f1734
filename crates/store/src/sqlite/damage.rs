//! Damage that is found while the file is in use: it is noted beside the file, and mended at the next opening.
//!
//! Mending replaces the file, which must not happen under a process that works on it (`presence.rs`), this one
//! included. So whoever reads nonsense leaves a note and says so; the next start saves what can be read (`salvage.rs`).

use std::{fs, os::unix::fs::OpenOptionsExt, path::Path};

use rusqlite::{Error, ErrorCode};

use super::schema;
use crate::process;

/// A file of this name beside the database says that something in it could not be read.
pub(super) const NOTE: &str = ".damaged";

/// Whether it says that the contents are wrong, and not that something is in the way.
pub(crate) fn is_damage(error: &Error) -> bool {
    match error.sqlite_error_code() {
        Some(code) => matches!(code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase),
        None => matches!(
            error,
            Error::FromSqlConversionFailure(..) | Error::IntegralValueOutOfRange(..) | Error::InvalidColumnType(..) | Error::Utf8Error(..)
        ),
    }
}

pub(super) fn note_if_damaged(path: &Path, error: &Error) {
    if is_damage(error) {
        note(path);
    }
}

pub(super) fn note(path: &Path) {
    process::note_damage();
    let note = schema::beside(path, NOTE);
    // Without the note the next reader of the same place finds it again.
    if let Err(error) = fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&note) {
        tracing::warn!(%error, note = %note.display(), "damage could not be noted");
    }
}
