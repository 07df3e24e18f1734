//! Locks between threads and processes: one per task while its worktree is made or removed, one per repository.
//!
//! The kernel frees a lock when the last handle of it is closed. A git command that changes refs or folders gets a handle,
//! so a killed posse leaves none behind that somebody else could run into. Knows nothing of what is locked.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::fs::{FlockOperation, flock};

/// Twenty checkouts of a large repository may be ahead of us.
const WAIT_MAX: Duration = Duration::from_secs(900);
/// How long the first and the longest nap between two tries are.
const NAP_MIN: Duration = Duration::from_millis(1);
const NAP_MAX: Duration = Duration::from_millis(20);

/// Held until it is dropped and no command has it any more.
pub(super) struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Waits until it is free.
    pub(super) fn take(path: &Path) -> Result<Self, String> {
        let until = Instant::now() + WAIT_MAX;
        let mut nap = NAP_MIN;
        loop {
            if let Some(lock) = Self::try_take(path)? {
                return Ok(lock);
            }
            if until <= Instant::now() {
                return Err(format!(
                    "{} is held by another posse, or by a git that it started, for more than {} minutes: look with `fuser -v {}`",
                    path.display(),
                    WAIT_MAX.as_secs() / 60,
                    path.display()
                ));
            }
            std::thread::sleep(nap);
            nap = NAP_MAX.min(nap * 2);
        }
    }

    /// `None` when somebody has it.
    pub(super) fn try_take(path: &Path) -> Result<Option<Self>, String> {
        let failed = |error: io::Error| format!("{} cannot be locked: {error}", path.display());
        // Empty: it is the input of the commands that hold it, or the output of those that say nothing.
        let file = fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(io::Error::from) {
            Ok(()) if is_at(&file, path) => Ok(Some(Self { file, path: path.to_owned() })),
            Ok(()) => Ok(None),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    pub(super) fn another_handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Removes the file of what is no more, while it is held; who waits for it makes a new one.
    pub(super) fn forget(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// A lock on a file that was unlinked meanwhile protects nothing.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(ours), Ok(theirs)) => (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_was_given_the_lock_holds_it_after_its_giver_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let lock = Lock::take(&path).unwrap();
        assert!(Lock::try_take(&path).unwrap().is_none());
        let handle = lock.another_handle().unwrap();
        drop(lock);
        assert!(Lock::try_take(&path).unwrap().is_none());
        drop(handle);
        Lock::try_take(&path).unwrap().unwrap().forget();
        assert!(!path.exists());
    }
}
