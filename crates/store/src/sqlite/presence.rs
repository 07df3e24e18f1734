//! Who has the file open: a shared lock per handle, and a lock of one alone for who puts another file in its place.
//!
//! A process that still had the old file open would write facts where nobody reads them again. So nobody replaces the
//! file while anybody else is there, and who comes meanwhile waits. The kernel frees the locks of the dead.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rustix::fs::{FlockOperation, flock};

use super::schema::{self, FILE_NAME};
use crate::error::OpenError;

/// Longer than a gigabyte takes to be saved; whoever holds it longer hangs.
const WAIT_MAX: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(10);

/// How long others may take to go away: a handle that was just dropped has threads that end by themselves.
const ALONE_MAX: Duration = Duration::from_millis(500);

pub(super) struct Presence {
    /// None where no lock file can be made: nothing can be replaced there either.
    file: Option<File>,
}

impl Presence {
    pub(super) fn share(folder: &Path) -> Result<Self, OpenError> {
        let path = schema::beside(&folder.join(FILE_NAME), ".lock");
        let options = |write: bool| fs::OpenOptions::new().read(true).write(write).create(write).truncate(false).mode(0o600).open(&path);
        let presence = Self { file: options(true).or_else(|_| options(false)).ok() };
        presence.share_again(folder)?;
        Ok(presence)
    }

    /// Waits while somebody replaces the file.
    pub(super) fn share_again(&self, folder: &Path) -> Result<(), OpenError> {
        let locked = self.within(WAIT_MAX, FlockOperation::NonBlockingLockShared);
        let words = "another posse process has been mending the database for minutes; end it, and try again";
        if locked { Ok(()) } else { Err(OpenError::Io { path: folder.to_owned(), source: io::Error::new(ErrorKind::TimedOut, words) }) }
    }

    /// Whether nobody else is there now, nor can come until `share_again`.
    pub(super) fn is_alone(&self, folder: &Path) -> Result<bool, OpenError> {
        if self.file.is_some() && self.within(ALONE_MAX, FlockOperation::NonBlockingLockExclusive) {
            return Ok(true);
        }
        // A try that fails may have given the shared lock away.
        self.share_again(folder)?;
        Ok(false)
    }

    fn within(&self, time: Duration, lock: FlockOperation) -> bool {
        let Some(file) = &self.file else { return true };
        let begun = Instant::now();
        loop {
            match flock(file, lock).map_err(io::Error::from) {
                Ok(()) => return true,
                // Where locks do not exist nobody can be kept out; then nothing is replaced.
                Err(error) if error.kind() != ErrorKind::WouldBlock => return lock == FlockOperation::NonBlockingLockShared,
                Err(_) if time <= begun.elapsed() => return false,
                Err(_) => thread::sleep(LOOK),
            }
        }
    }
}
