//! A new file beside the one it will replace: invisible while it is written, and gone again unless it took its place.
//!
//! Where the file system can (`O_TMPFILE`) it has no name until it is complete, so a killed process leaves nothing. Where
//! it has one, it is locked as long as its writer lives; what a dead writer left is removed by the next one.

use std::{
    fs::{self, File},
    hash::{BuildHasher, Hasher, RandomState},
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::{MetadataExt, PermissionsExt, fchown},
    },
};

use rustix::{
    fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock, linkat, openat, renameat, unlinkat},
    io::Errno,
};

/// What temporary names look like: hidden, and nobody else's.
const PREFIX: &str = ".posse-";
const SUFFIX: &str = ".tmp";

/// Names looked through for what the dead left; a write into a larger folder is not held up by more.
const NAMES_MAX: usize = 5_000;

/// Attempts to make a name: the one before was taken away by somebody who thought its writer dead.
const ATTEMPTS_MAX: usize = 8;

pub(crate) struct Temporary<'a> {
    folder: &'a OwnedFd,
    pub(crate) file: File,
    /// Absent while the file has no name.
    name: Option<String>,
}

impl<'a> Temporary<'a> {
    /// `old` is what it will replace.
    pub(crate) fn create(folder: &'a OwnedFd, old: Option<&fs::Metadata>) -> io::Result<Self> {
        // The text of a private file is private from its first byte on; a new file is what the umask makes of it.
        let mode = Mode::from_raw_mode(if old.is_some() { 0o600 } else { 0o666 });
        match openat(folder, ".", OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC, mode) {
            Ok(file) => Ok(Self { folder, file: File::from(file), name: None }),
            // The file system, or the kernel, knows no files without a name.
            Err(Errno::NOTSUP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => Self::named(folder, mode),
            Err(error) => Err(error.into()),
        }
    }

    fn named(folder: &'a OwnedFd, mode: Mode) -> io::Result<Self> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for _ in 0..ATTEMPTS_MAX {
            let name = fresh_name();
            let temporary = Self { folder, file: File::from(openat(folder, &name, flags, mode)?), name: Some(name) };
            lock(&temporary.file);
            // Before it was locked, somebody may have taken it for a dead writer's.
            if temporary.file.metadata()?.nlink() != 0 {
                return Ok(temporary);
            }
        }
        Err(io::Error::other("no temporary file could be made beside it"))
    }

    /// Mode and owner of the file that will be replaced.
    pub(crate) fn take_after(&self, old: &fs::Metadata) -> io::Result<()> {
        let now = self.file.metadata()?;
        let same_owner = (old.uid(), old.gid()) == (now.uid(), now.gid())
            || fchown(&self.file, Some(old.uid()), Some(old.gid())).is_ok()
            // Only root gives files away; a group one belongs to can be kept.
            || (fchown(&self.file, None, Some(old.gid())).is_ok() && old.uid() == now.uid());
        // Another owner must not inherit setuid.
        let kept = if same_owner { 0o7777 } else { 0o777 };
        self.file.set_permissions(fs::Permissions::from_mode(old.mode() & kept))
    }

    /// Puts the file at its place, which is replaced in one step.
    pub(crate) fn into_place(mut self, name: &std::ffi::OsStr) -> io::Result<()> {
        remove_left_behind(self.folder);
        let own = match self.name.take() {
            Some(own) => own,
            None => self.give_a_name()?,
        };
        self.name = Some(own.clone());
        renameat(self.folder, &own, self.folder, name)?;
        self.name = None;
        Ok(())
    }

    /// Locked before it can be seen, so nobody takes it away.
    fn give_a_name(&self) -> io::Result<String> {
        lock(&self.file);
        let (own, handle) = (fresh_name(), format!("/proc/self/fd/{}", self.file.as_raw_fd()));
        linkat(CWD, &handle, self.folder, &own, AtFlags::SYMLINK_FOLLOW)?;
        Ok(own)
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // What is left of the attempt is ours alone; the error itself is the news.
            let _ = unlinkat(self.folder, name, AtFlags::empty());
        }
    }
}

/// Held until the file is closed, by its writer or by the kernel. A file system without locks only means that nobody
/// else can tell whether the writer lives, so `remove_left_behind` cannot lock it either and leaves it.
fn lock(file: &File) {
    let _ = flock(file, FlockOperation::NonBlockingLockExclusive);
}

fn fresh_name() -> String {
    format!("{PREFIX}{:016x}{SUFFIX}", RandomState::new().build_hasher().finish())
}

/// Removes the temporary files of writers that died. Nothing here is worth failing a write for.
fn remove_left_behind(folder: &OwnedFd) {
    let Ok(entries) = fs::read_dir(format!("/proc/self/fd/{}", folder.as_raw_fd())) else { return };
    for entry in entries.flatten().take(NAMES_MAX) {
        let name = entry.file_name();
        if !name.to_str().is_some_and(is_temporary) {
            continue;
        }
        // A handle that cannot read: closing it drops no lock, should this be a link to a database of ours.
        let Ok(handle) = openat(folder, &name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).map(File::from) else {
            continue;
        };
        // A second name means that it is also somebody's file.
        if !handle.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.nlink() == 1) {
            continue;
        }
        let Ok(file) = File::open(format!("/proc/self/fd/{}", handle.as_raw_fd())) else { continue };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = unlinkat(folder, &name, AtFlags::empty());
        }
    }
}

fn is_temporary(name: &str) -> bool {
    let middle = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX));
    middle.is_some_and(|middle| middle.len() == 16 && middle.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, io::Write as _};

    use super::*;

    fn folder() -> (tempfile::TempDir, OwnedFd) {
        let folder = tempfile::tempdir().unwrap();
        let handle = openat(CWD, folder.path(), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        (folder, handle)
    }

    fn names(folder: &tempfile::TempDir) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_private_text_is_private_from_its_first_byte_on() {
        let (folder, handle) = folder();
        fs::write(folder.path().join("key"), "secret").unwrap();
        let old = fs::metadata(folder.path().join("key")).unwrap();
        for temporary in [Temporary::create(&handle, Some(&old)).unwrap(), Temporary::named(&handle, Mode::from_raw_mode(0o600)).unwrap()] {
            assert_eq!(temporary.file.metadata().unwrap().mode() & 0o7777, 0o600);
        }
        assert_eq!(names(&folder), ["key"], "what did not take its place is removed");
    }

    #[test]
    fn it_takes_its_place_with_or_without_a_name_of_its_own() {
        let (folder, handle) = folder();
        for text in ["first", "second", "third"] {
            let named = || Temporary::named(&handle, Mode::from_raw_mode(0o600));
            let mut temporary = if text == "third" { named() } else { Temporary::create(&handle, None) }.unwrap();
            temporary.file.write_all(text.as_bytes()).unwrap();
            temporary.into_place(OsStr::new("a")).unwrap();
            assert_eq!((fs::read_to_string(folder.path().join("a")).unwrap(), names(&folder)), (text.to_owned(), vec!["a".to_owned()]));
        }
    }

    #[test]
    fn only_what_the_dead_left_is_removed() {
        let (folder, handle) = folder();
        for name in [".posse-0123456789abcdef.tmp", ".posse-theirs.tmp", "x.posse-0123456789abcdef.tmp"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        // Also a file of somebody's: a link to one of our databases would look like this.
        let linked = ".posse-fedcba9876543210.tmp";
        fs::hard_link(folder.path().join(".posse-theirs.tmp"), folder.path().join(linked)).unwrap();
        let living = Temporary::named(&handle, Mode::from_raw_mode(0o600)).unwrap();
        Temporary::create(&handle, None).unwrap().into_place(OsStr::new("a")).unwrap();
        let mut expected = vec![
            linked.to_owned(),
            ".posse-theirs.tmp".into(),
            "a".into(),
            "x.posse-0123456789abcdef.tmp".into(),
            living.name.clone().unwrap(),
        ];
        expected.sort();
        assert_eq!(names(&folder), expected);
        // Its writer can still use it.
        living.into_place(OsStr::new("b")).unwrap();
        assert!(folder.path().join("b").exists());
    }
}
