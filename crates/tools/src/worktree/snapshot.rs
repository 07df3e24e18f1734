//! Snapshots: everything in a working tree as a commit, made with an index of its own.
//!
//! The index and the files of whoever works there are only read. What is ignored is not in it; neither are repositories
//! inside of the tree, and the caller is told which.

use std::{collections::BTreeSet, ffi::OsString, os::unix::ffi::OsStringExt};

use super::{
    index::{Hidden, Index},
    place::{Place, text},
    status::Status,
    workshop::{Scratch, Workshop},
};

/// Each is an argument of one command.
const REPOSITORIES_MAX: usize = 1000;

pub(super) struct Snapshot {
    pub(super) commit: String,
    pub(super) tree: String,
    /// Repositories inside of the working tree, which no snapshot can hold.
    pub(super) left_out: Vec<String>,
    /// The commit is the task's or the user's own, because nothing differed from it.
    pub(super) is_head: bool,
}

/// Which untracked files belong to it.
#[derive(Clone, Copy)]
pub(super) enum Untracked<'a> {
    All,
    /// Those at these paths, above and below them. What else a person keeps in a working tree can be large, and a merge has
    /// nothing to do with it.
    Near(&'a BTreeSet<Vec<u8>>),
}

impl Untracked<'_> {
    fn has(self, path: &[u8]) -> bool {
        let is_below = |inner: &[u8], outer: &[u8]| inner.strip_prefix(outer).is_some_and(|rest| rest.first() == Some(&b'/'));
        match self {
            Self::All => true,
            Self::Near(paths) => paths.contains(path) || paths.iter().any(|near| is_below(near, path) || is_below(path, near)),
        }
    }
}

/// Everything that a task has left in its worktree.
pub(super) fn of_worktree(workshop: &Workshop, place: &Place) -> Result<Snapshot, String> {
    take(workshop, place, Untracked::All, Hidden::Shown, "What a task has left in its worktree")
}

/// `message` is for whoever finds the commit.
pub(super) fn take(
    workshop: &Workshop,
    place: &Place,
    untracked: Untracked<'_>,
    hidden: Hidden<'_>,
    message: &str,
) -> Result<Snapshot, String> {
    let git = place.git();
    let index = Index::of(workshop, place, hidden)?;
    let mut status = Status::of(&index.git(place))?;
    status.untracked.retain(|path| untracked.has(path));
    let head = status.head.clone().ok_or_else(|| format!("{} has no commit yet", place.top.display()))?;
    let left_out = status.repositories.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect();
    if status.changed.is_empty() && status.untracked.is_empty() {
        let tree = git.ask(["rev-parse", "--verify", &format!("{head}^{{tree}}")]).and_then(text)?;
        return Ok(Snapshot { commit: head, tree, left_out, is_head: true });
    }
    let index = index.into_copy(workshop, place)?;
    let tree = match untracked {
        Untracked::All => tree_of_all(&index, place, &status)?,
        Untracked::Near(_) => tree_of_some(&index, place, &status)?,
    };
    let commit = git.as_posse().ask(["commit-tree", &tree, "-p", &head, "-m", message]).and_then(text)?;
    Ok(Snapshot { commit, tree, left_out, is_head: false })
}

/// The tree that a commit of what is tracked and of these untracked files would have.
fn tree_of_some(index: &Scratch, place: &Place, status: &Status) -> Result<String, String> {
    let git = place.git().with_index(&index.path);
    git.ask(["add", "--update", "--sparse", "--", "."])?;
    if !status.untracked.is_empty() {
        let mut paths = Vec::new();
        for path in &status.untracked {
            paths.extend(b":(literal,top)");
            paths.extend(path);
            paths.push(0);
        }
        git.tell(["add", "--sparse", "--pathspec-from-file=-", "--pathspec-file-nul"], &paths)?.success()?;
    }
    git.ask(["write-tree"]).and_then(text)
}

/// The tree that a commit of everything would have.
fn tree_of_all(index: &Scratch, place: &Place, status: &Status) -> Result<String, String> {
    if REPOSITORIES_MAX < status.repositories.len() {
        return Err(format!("{} has more than {REPOSITORIES_MAX} repositories in it", place.top.display()));
    }
    let git = place.git().with_index(&index.path);
    let mut arguments: Vec<OsString> = ["add", "--all", "--sparse", "--", "."].map(OsString::from).to_vec();
    for path in &status.repositories {
        let mut without = b":(exclude,literal,top)".to_vec();
        without.extend(path);
        arguments.push(OsString::from_vec(without));
    }
    git.ask(arguments)?;
    git.ask(["write-tree"]).and_then(text)
}
