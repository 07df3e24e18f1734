//! Who is in a worktree: a task that works there, or somebody who brings it home or removes it, and never both.
//!
//! A file that the kernel locks, beside the one under which the folder is made. Freed when its holder is gone, however
//! that came about.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

/// A merge may be under way; it is short.
const WAIT_MAX: Duration = Duration::from_secs(120);
const NAP: Duration = Duration::from_millis(10);

/// How long one who wants to be alone waits for another: a person is told after so long.
pub(super) const ALONE_WAIT_MAX: Duration = Duration::from_secs(30);

/// A task is there if it could be shared so often, one after the other.
const SHARED_MIN: u32 = 3;

/// Who is in a worktree that somebody wants to be alone in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    /// A task that works there.
    Task,
    /// Somebody who brings it home or removes it.
    Other,
}

/// Held as long as it lives.
#[derive(Debug)]
pub struct Presence {
    file: File,
    path: PathBuf,
}

impl Presence {
    /// The worktree is gone, and nobody needs the file any more.
    pub fn retire(self) {
        // Whoever has it open and waits finds out that it is gone, and opens it anew.
        let _ = fs::remove_file(&self.path);
        drop(self.file);
    }
}

/// A task is at work: nobody removes the folder below it.
pub(super) fn enter(path: &Path) -> Result<Presence, String> {
    let until = Instant::now() + WAIT_MAX;
    loop {
        if let Some(presence) = locked(path, FlockOperation::NonBlockingLockShared)? {
            return Ok(presence);
        }
        if until <= Instant::now() {
            return Err("its worktree is being brought home or removed, and that takes too long; try again later".to_owned());
        }
        std::thread::sleep(NAP);
    }
}

/// Nobody is at work, and nobody begins to be; who is there when somebody is. Only one who is alone there is waited for.
pub(super) fn alone(path: &Path, wait: Duration) -> Result<Result<Presence, Holder>, String> {
    let until = Instant::now() + wait;
    let mut shared = 0;
    loop {
        if let Some(presence) = locked(path, FlockOperation::NonBlockingLockExclusive)? {
            return Ok(Ok(presence));
        }
        // Tasks share it with whoever asks; somebody else who asks has it only for a moment.
        shared = if locked(path, FlockOperation::NonBlockingLockShared)?.is_some() { shared + 1 } else { 0 };
        if SHARED_MIN <= shared {
            return Ok(Err(Holder::Task));
        }
        if until <= Instant::now() {
            return Ok(Err(Holder::Other));
        }
        std::thread::sleep(NAP);
    }
}

/// The lock, if it is to be had right now.
fn locked(path: &Path, how: FlockOperation) -> Result<Option<Presence>, String> {
    let failed = |error: io::Error| format!("{} cannot be locked: {error}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    loop {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path).map_err(failed)?;
        match flock(&file, how) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(failed(error.into())),
        }
        // Somebody may have removed it since it was opened: then it holds nobody back.
        let opened = file.metadata().map_err(failed)?;
        if fs::metadata(path).is_ok_and(|named| (named.dev(), named.ino()) == (opened.dev(), opened.ino())) {
            return Ok(Some(Presence { file, path: path.to_owned() }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_told_from_somebody_who_is_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x-task.lock");
        let wait = Duration::from_millis(50);
        let task = enter(&path).unwrap();
        assert_eq!(alone(&path, wait).unwrap().unwrap_err(), Holder::Task);
        drop(task);
        let merge = alone(&path, wait).unwrap().unwrap();
        assert_eq!(alone(&path, wait).unwrap().unwrap_err(), Holder::Other);
        merge.retire();
        alone(&path, wait).unwrap().unwrap();
    }
}
