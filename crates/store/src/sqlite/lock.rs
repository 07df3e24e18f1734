//! Who owns a tree: an OS lock on a file per root, freed by the kernel when its holder dies.
//!
//! The file holds the owner's process id for people to read; the lock, not the text, is what counts, and the epoch
//! in the database guards against a holder that does not know it lost. Files are made close-on-exec, so tools never
//! inherit a lock.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use posse_session::{LeaseError, SessionId};
use rustix::fs::{FlockOperation, flock};

use crate::error::io_words;

/// The file may be unlinked by a removal between our open and our lock; more often than this is not bad luck.
const TRIES: u32 = 8;

/// How often, and how long, a lock that may only be looked at is waited for.
const LOOKS: u32 = 3;
const LOOK: std::time::Duration = std::time::Duration::from_millis(1);

/// How the name of such a file ends, after the root's id.
const END: &str = ".lock";

/// Enough for the digits of any process id.
const PID_BYTES_MAX: u64 = 20;

/// Frees the tree when it is dropped: closing the file is unlocking it.
pub(super) struct Lock {
    _file: File,
}

pub(super) fn folder(store: &Path) -> PathBuf {
    store.join("locks")
}

impl Lock {
    pub(super) fn take(store: &Path, root: &SessionId) -> Result<Self, LeaseError> {
        let path = path_of(store, root);
        let failed = |error: io::Error| LeaseError::Unavailable(io_words(&path, &error));
        let mut looks = 0;
        for _ in 0..TRIES {
            let mut file =
                fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path).map_err(failed)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(io::Error::from) {
                Ok(()) if is_at(&file, &path) => {
                    // Only words for others: a full disk must not keep anyone from working.
                    let _ = file.set_len(0).and_then(|()| file.write_all(std::process::id().to_string().as_bytes()));
                    return Ok(Self { _file: file });
                }
                Ok(()) => {}
                // Someone who only looks holds it for a moment.
                Err(error) if error.kind() == ErrorKind::WouldBlock && looks < LOOKS => {
                    looks += 1;
                    std::thread::sleep(LOOK);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(LeaseError::Held { by: holder(&mut file) }),
                Err(error) => return Err(failed(error)),
            }
        }
        Err(LeaseError::Unavailable(format!("{} is made and removed by others all the time", path.display())))
    }
}

impl Lock {
    /// Whether someone holds the lock. A shared lock is tried for a moment: it harms no owner and writes nothing.
    pub(super) fn is_held(store: &Path, root: &SessionId) -> Result<bool, LeaseError> {
        let path = path_of(store, root);
        let failed = |error: io::Error| LeaseError::Unavailable(io_words(&path, &error));
        let file = match fs::OpenOptions::new().read(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed(error)),
        };
        match flock(&file, FlockOperation::NonBlockingLockShared).map_err(io::Error::from) {
            Ok(()) => Ok(false),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
            Err(error) => Err(failed(error)),
        }
    }
}

/// Removes the file of a tree that is no more. Its owner calls this while it holds the lock.
pub(super) fn forget(store: &Path, root: &SessionId) {
    // A file that stays is a few bytes, nothing else.
    let _ = fs::remove_file(path_of(store, root));
}

/// The roots that have a file, which is every one that was ever run and not removed.
pub(super) fn roots(store: &Path) -> Vec<String> {
    let files = fs::read_dir(folder(store)).into_iter().flatten().flatten();
    let names = files.filter_map(|file| file.file_name().into_string().ok());
    let mut roots: Vec<String> =
        names.filter_map(|name| Some(name.strip_suffix(END)?.to_owned())).filter(|root| root.starts_with(SessionId::PREFIX)).collect();
    roots.sort_unstable();
    roots
}

/// A lock on a file that was unlinked meanwhile protects nothing.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(ours), Ok(theirs)) => (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino()),
        _ => false,
    }
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(PID_BYTES_MAX).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// Ids are ours and tame, but a name that came from outside must not leave the folder.
fn path_of(store: &Path, root: &SessionId) -> PathBuf {
    let mut name = String::new();
    for byte in root.as_str().bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => name.push(char::from(byte)),
            _ => name.push_str(&format!("%{byte:02x}")),
        }
    }
    folder(store).join(name + END)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strange_id_stays_in_the_folder() {
        assert_eq!(path_of(Path::new("/data"), &SessionId::new("../ses_1")), Path::new("/data/locks/%2e%2e%2fses_1.lock"));
    }
}
