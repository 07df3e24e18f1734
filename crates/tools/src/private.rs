//! What no tool may open inside this process: posse's own data, above all its databases.
//!
//! SQLite guards a database with POSIX locks, and the kernel drops all of a process's locks on a file as soon as the
//! process closes *any* descriptor of it. One `grep` over `posse.db` would therefore let another posse checkpoint under
//! us and lose what was acknowledged. Other processes (bash) may open what they like: their locks are not ours.
//!
//! Whoever opens a file needs this and the project's root (`root.rs`) together, so the one carries the other.

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use posse_session::Workspace;

use crate::root::{self, Found, Identity, Root, identity};

/// A data folder has `projects/NAME/posse.db`; deeper are only spools and locks.
const DATABASE_DEPTH_MAX: usize = 3;
/// Thousands of projects. A larger data folder is still closed by its path, only links into it are not all known.
const ENTRIES_MAX: usize = 50_000;

/// How SQLite names what it locks.
const DATABASE_ENDINGS: [&str; 4] = [".db", ".db-wal", ".db-shm", ".db-journal"];

/// The closed folders of a workspace, as one call sees them.
#[derive(Debug, Default)]
pub(crate) struct Private {
    roots: Vec<PathBuf>,
    /// Folders inside of a closed one that are open all the same.
    open: Vec<PathBuf>,
    databases: OnceLock<HashSet<Identity>>,
    /// The project's; without one everything is opened from `/`.
    root: Option<Root>,
}

impl Private {
    pub(crate) fn of(workspace: &dyn Workspace) -> Self {
        let roots = workspace.private_roots().to_vec();
        // A project inside of the data folder stays usable; the databases in it are known by identity.
        let open = workspace.readable_roots().iter().map(PathBuf::as_path).chain([workspace.root()]);
        let open = open.filter(|open| roots.iter().any(|root| open.starts_with(root))).map(Path::to_owned).collect();
        Self { roots, open, databases: OnceLock::new(), root: Root::of(workspace).ok() }
    }

    /// An error when this path is below a root that is another folder by now.
    pub(crate) fn root_is_there_for(&self, path: &Path) -> io::Result<()> {
        self.root.as_ref().filter(|root| path.starts_with(root.path())).map_or(Ok(()), Root::still_there)
    }

    /// What stands at a resolved path, found without a link on the way; not opened.
    pub(crate) fn find(&self, path: &Path) -> io::Result<Found> {
        root::find(self.root.as_ref(), path)
    }

    /// Whether this path, which must be free of links, lies in a closed folder.
    pub(crate) fn covers(&self, path: &Path) -> bool {
        let below = |folders: &[PathBuf]| folders.iter().any(|folder| path.starts_with(folder));
        below(&self.roots) && !below(&self.open)
    }

    /// Whether this is one of the databases by another name: a hard link, a bind mount.
    pub(crate) fn is_database(&self, metadata: &fs::Metadata) -> bool {
        if self.roots.is_empty() {
            return false;
        }
        self.databases.get_or_init(|| self.roots.iter().flat_map(|root| databases(root)).collect()).contains(&identity(metadata))
    }
}

fn databases(root: &Path) -> Vec<Identity> {
    let mut found = Vec::new();
    let mut waiting = vec![(root.to_owned(), 1)];
    let mut left = ENTRIES_MAX;
    while let Some((folder, depth)) = waiting.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if left == 0 {
                return found;
            }
            left -= 1;
            let name = entry.file_name();
            if DATABASE_ENDINGS.iter().any(|ending| name.to_string_lossy().ends_with(ending)) {
                found.extend(fs::metadata(entry.path()).ok().as_ref().map(identity));
            } else if depth < DATABASE_DEPTH_MAX && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push((entry.path(), depth + 1));
            }
        }
    }
    found
}
