//! The project's root as a handle: opened once, and everything below it is opened from there by the kernel.
//!
//! Paths must be resolved before (`paths.rs`). They are never trusted as text: `openat2` walks them again, beneath the root
//! and through no link, so whatever was swapped since they were judged is an error and not another file. What lies outside
//! is opened the same way from `/`. Knows nothing of tools or of what may be opened.

use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use posse_session::Workspace;
use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2, stat},
    io::Errno,
};

/// Device and inode: what a name stands for, however it is called.
pub(crate) type Identity = (u64, u64);

pub(crate) fn identity(metadata: &fs::Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

/// A handle that cannot be read or written: it blocks on nothing, and closing it drops no lock.
const ONLY_A_NAME: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

#[derive(Debug, Clone)]
pub(crate) struct Root {
    path: PathBuf,
    handle: Arc<OwnedFd>,
}

impl Root {
    /// The workspace's own handle; one that has none (it is not on this disk, or a test) is opened now.
    pub(crate) fn of(workspace: &dyn Workspace) -> io::Result<Self> {
        match workspace.root_handle() {
            Some(handle) => Ok(Self { path: workspace.root().to_owned(), handle }),
            None => Self::open(workspace.root()),
        }
    }

    /// `path` must be canonical.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let found = find(None, path)?;
        if !found.metadata.is_dir() {
            return Err(Errno::NOTDIR.into());
        }
        Ok(Self { path: path.to_owned(), handle: Arc::new(found.handle) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn handle(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.handle)
    }

    /// An error when the path leads to another folder by now: what was judged by its name is not what is there.
    pub(crate) fn still_there(&self) -> io::Result<()> {
        let (opened, named) = (rustix::fs::fstat(&*self.handle)?, stat(&self.path));
        match named {
            Ok(named) if (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino) => Ok(()),
            _ => Err(io::Error::other(
                "the project's folder is no longer the one in which this session began, so nothing in it is touched; start posse again in the new one",
            )),
        }
    }
}

/// What stands at a resolved path: found without a link on the way, known by its handle, not opened yet.
#[derive(Debug)]
pub(crate) struct Found {
    handle: OwnedFd,
    pub(crate) metadata: fs::Metadata,
}

impl Found {
    fn new(handle: OwnedFd) -> io::Result<Self> {
        let handle = File::from(handle);
        let metadata = handle.metadata()?;
        Ok(Self { handle: handle.into(), metadata })
    }

    /// What stands at a name in a folder; a link is found as a link.
    pub(crate) fn in_folder(folder: &OwnedFd, name: &OsStr) -> io::Result<Self> {
        Self::new(openat(folder, name, ONLY_A_NAME, Mode::empty())?)
    }

    pub(crate) fn into_handle(self) -> OwnedFd {
        self.handle
    }

    /// Opens the file behind the handle, whatever its name leads to by now.
    pub(crate) fn open(&self, options: &mut OpenOptions) -> io::Result<File> {
        options.custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(self.again())
    }

    pub(crate) fn entries(&self) -> io::Result<fs::ReadDir> {
        match self.metadata.file_type() {
            kind if kind.is_symlink() => Err(changed()),
            kind if kind.is_dir() => fs::read_dir(self.again()),
            _ => Err(Errno::NOTDIR.into()),
        }
    }

    fn again(&self) -> String {
        format!("/proc/self/fd/{}", self.handle.as_raw_fd())
    }
}

/// What stands at a resolved path: from the root when it is below, else from `/`. A link at its end is found as a link;
/// one before the end was not there when the path was judged, and is an error.
pub(crate) fn find(root: Option<&Root>, path: &Path) -> io::Result<Found> {
    let below = root.and_then(|root| path.strip_prefix(&root.path).ok().map(|below| (root, below)));
    let (start, path, beneath) = match below {
        Some((root, below)) => (root.handle.as_fd(), below, ResolveFlags::BENEATH),
        None => (CWD, path, ResolveFlags::empty()),
    };
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let resolve = beneath | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(start, path, ONLY_A_NAME, Mode::empty(), resolve) {
        // Kernels before 5.6, and sandboxes that do not know the call.
        Err(Errno::NOSYS | Errno::PERM) => find_step_by_step(start, path),
        Err(Errno::LOOP | Errno::XDEV) => Err(changed()),
        found => Found::new(found?),
    }
}

/// The same without `openat2`: one name after the other, each from the handle of the one before.
fn find_step_by_step(start: BorrowedFd<'_>, path: &Path) -> io::Result<Found> {
    let first = if path.is_absolute() { Path::new("/") } else { Path::new(".") };
    let mut found = Found::new(openat(start, first, ONLY_A_NAME, Mode::empty())?)?;
    for part in path.components() {
        match part {
            Component::RootDir | Component::CurDir => {}
            _ if found.metadata.is_symlink() => return Err(changed()),
            Component::Normal(name) => found = Found::in_folder(&found.handle, name)?,
            // A resolved path has no such part.
            Component::ParentDir | Component::Prefix(_) => return Err(changed()),
        }
    }
    Ok(found)
}

pub(crate) fn changed() -> io::Error {
    io::Error::other("the path changed since it was judged: a link is in it now, so nothing was done")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Both ways to walk, so that an old kernel is as safe as a new one.
    fn both(root: &Root, path: &Path) -> [Result<String, String>; 2] {
        let below = path.strip_prefix(root.path()).unwrap();
        [find(Some(root), path), find_step_by_step(root.handle.as_fd(), below)].map(|found| {
            let read = |found: Found| {
                if found.metadata.is_symlink() {
                    return Err(changed());
                }
                io::read_to_string(found.open(OpenOptions::new().read(true))?)
            };
            found.and_then(read).map_err(|error| error.to_string())
        })
    }

    #[test]
    fn what_is_below_is_found_from_the_handle_and_through_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let (path, outside) = (base.join("project"), base.join("outside"));
        fs::create_dir_all(path.join("sub")).unwrap();
        fs::create_dir_all(&outside).unwrap();
        fs::write(path.join("sub/a"), "ours").unwrap();
        fs::write(outside.join("a"), "theirs").unwrap();
        let root = Root::open(&path).unwrap();
        assert_eq!(both(&root, &path.join("sub/a")), [Ok("ours".into()), Ok("ours".into())]);

        // A folder that became a link, a file that became one, and one that leads to where it was.
        fs::rename(path.join("sub"), path.join("moved")).unwrap();
        symlink(&outside, path.join("sub")).unwrap();
        symlink(outside.join("a"), path.join("file")).unwrap();
        symlink("moved", path.join("home")).unwrap();
        for name in ["sub/a", "file", "home/a"] {
            for found in both(&root, &path.join(name)) {
                assert!(found.as_ref().is_err_and(|words| words.contains("changed since it was judged")), "{name}: {found:?}");
            }
        }
        assert!(find(Some(&root), &path.join("sub")).unwrap().entries().unwrap_err().to_string().contains("changed"));
        assert!(find(Some(&root), &path.join("../outside/a")).is_err());

        // The whole root is another one by now: the handle still has the first.
        fs::rename(&path, base.join("elsewhere")).unwrap();
        symlink(&outside, &path).unwrap();
        assert_eq!(both(&root, &path.join("moved/a")), [Ok("ours".into()), Ok("ours".into())]);
        assert!(both(&root, &path.join("a")).iter().all(Result::is_err));
        assert!(root.still_there().unwrap_err().to_string().contains("no longer the one in which this session began"));
        assert!(Root::open(&path).is_err(), "a link is no root");
    }
}
