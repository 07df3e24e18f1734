//! Reading a file that cannot be written: a full disk, a read-only one, a folder of somebody else.
//!
//! SQLite wants to make two files beside a database in WAL mode, even to read it. Where it cannot there are three ways,
//! and the first that works is taken: the files may be there already; nothing may be in the log, so that the file alone
//! is all there is; else both are copied to where files can be made.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use super::{
    readers::Connect,
    schema::{self, FILE_NAME, wal_of},
};
use crate::error::OpenError;

pub(super) struct Way {
    pub(super) path: PathBuf,
    pub(super) connect: Connect,
    pub(super) copy: Option<Copy>,
}

/// A folder with a copy in it that goes away with this value.
pub(super) struct Copy {
    folder: PathBuf,
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Nothing, where it cannot be read at all. In `scratch` files can be made. A file of a later version is refused like anywhere.
pub(super) fn find(path: &Path, scratch: &Path) -> Result<Option<Way>, OpenError> {
    let works = |path: &Path, connect: Connect| match connect(path) {
        Ok(connection) => match schema::look(&connection, path) {
            Ok(format) => Ok(0 < format && super::rows::touch(&connection).is_ok()),
            Err(error @ (OpenError::Newer { .. } | OpenError::Foreign { .. })) => Err(error),
            Err(_) => Ok(false),
        },
        Err(_) => Ok(false),
    };
    if works(path, schema::open_reader)? {
        return Ok(Some(Way { path: path.to_owned(), connect: schema::open_reader, copy: None }));
    }
    let is_log_empty = fs::metadata(wal_of(path)).map_or(true, |log| log.len() == 0);
    if is_log_empty && works(path, schema::open_unchanging)? {
        return Ok(Some(Way { path: path.to_owned(), connect: schema::open_unchanging, copy: None }));
    }
    let Ok(copy) = Copy::of(path, scratch) else { return Ok(None) };
    let copied = copy.folder.join(FILE_NAME);
    Ok(works(&copied, schema::open_reader)?.then_some(Way { path: copied, connect: schema::open_reader, copy: Some(copy) }))
}

impl Copy {
    /// Nobody writes the file meanwhile: who could write it would not need the copy.
    fn of(path: &Path, scratch: &Path) -> io::Result<Self> {
        static COPIES: AtomicU64 = AtomicU64::new(0);
        let name = format!("posse-read-{}-{}", std::process::id(), COPIES.fetch_add(1, Ordering::Relaxed));
        let folder = scratch.join(name);
        fs::DirBuilder::new().mode(0o700).create(&folder)?;
        let copy = Self { folder };
        for (from, to) in [(path.to_owned(), copy.folder.join(FILE_NAME)), (wal_of(path), wal_of(&copy.folder.join(FILE_NAME)))] {
            let mut target = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
            io::copy(&mut fs::File::open(from)?, &mut target)?;
        }
        Ok(copy)
    }
}
