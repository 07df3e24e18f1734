//! Worktrees: a folder of its own for a task, made, looked at, brought home and removed with git.
//!
//! Everything here blocks; callers have threads for that. What is in a worktree was made by an agent and is never trusted:
//! no `.git` in it is read, no link followed, no program started that it names. `worktree/` has a file per verb; the
//! record that the log keeps is `posse_session::Worktree`.

mod apply;
mod conflicts;
mod diff;
mod git;
mod index;
mod leftovers;
mod locks;
mod looking;
mod making;
mod merge;
mod opened;
mod place;
mod presence;
mod provenance;
mod refs;
mod removing;
mod snapshot;
mod status;
mod submodules;
mod workshop;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicU64},
};

pub use conflicts::{Conflict, ConflictKind, Hunk};
pub use diff::{Diff, DiffFile, FileStatus};
pub use leftovers::{Leftover, LeftoverKind};
pub use making::Making;
pub use merge::{After, MergeError, Merged, MergedFile, Onto};
use opened::Opened;
use posse_session::{Left, Worktree};
pub use presence::Presence;
pub use provenance::{Provenance, Written};
use removing::Branch;
use workshop::Workshop;

/// The contents of a file; nothing where there is none.
type BeforeAndAfter = (Option<Vec<u8>>, Option<Vec<u8>>);

/// All worktrees of this posse, in one folder.
#[derive(Debug, Clone)]
pub struct Worktrees {
    folder: PathBuf,
    fuse: Option<Arc<AtomicU64>>,
}

impl Worktrees {
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, fuse: None }
    }

    /// For the tests of crashes: the process kills itself at the n-th moment between two effects.
    #[doc(hidden)]
    pub fn killed_at(mut self, moment: u64) -> Self {
        self.fuse = Some(Arc::new(AtomicU64::new(moment)));
        self
    }

    fn workshop(&self) -> Result<Workshop, String> {
        let workshop = Workshop::open(&self.folder)?;
        Ok(Workshop { fuse: self.fuse.clone(), ..workshop })
    }

    /// From the caller's `HEAD`, with its uncommitted changes if they are wanted; the caller's index and files are only
    /// read. Returns the record and the folder to work in. Done again for the same slug it returns the same, and what a
    /// killed attempt left is made anew.
    pub fn make(&self, making: &Making<'_>) -> Result<(Worktree, PathBuf), String> {
        making::make(&self.workshop()?, making)
    }

    /// A recorded worktree is there: made again from its branch, or from what it began with, if it was removed.
    pub fn ensure(&self, tree: &Worktree) -> Result<(), String> {
        making::ensure(&self.workshop()?, tree)
    }

    /// A task is at work in it: nobody brings it home or removes it until this is dropped.
    pub fn enter(&self, tree: &Worktree) -> Result<Presence, String> {
        let workshop = self.workshop()?;
        presence::enter(&workshop.presence_path(&workshop.slug_of(tree)?))
    }

    /// Nobody works in it until this is dropped; an error in words when somebody does.
    pub fn alone(&self, tree: &Worktree) -> Result<Presence, String> {
        let workshop = self.workshop()?;
        let slug = workshop.slug_of(tree)?;
        let alone = presence::alone(&workshop.presence_path(&slug))?;
        alone.ok_or_else(|| format!("its task is at work in {}; wait for its end, or stop it", tree.path))
    }

    /// What the worktree of a task is called.
    pub fn slug(task: &str) -> String {
        task.to_ascii_lowercase()
    }

    /// The worktree of the task with this id, if it has one.
    pub fn find(&self, task: &str) -> Result<Option<Worktree>, String> {
        let slug = Self::slug(task);
        if !workshop::is_slug(&slug) {
            return Ok(None);
        }
        Ok(self.workshop()?.record(&slug)?.map(|record| record.tree))
    }

    /// What a worktree lacks, in words for whoever works in it: submodules that could not be filled.
    pub fn notes(&self, tree: &Worktree) -> Vec<String> {
        let record = self.workshop().and_then(|workshop| workshop.record(&workshop.slug_of(tree)?));
        record.ok().flatten().map(|record| record.notes).unwrap_or_default()
    }

    /// What differs from how it began, or from what was brought home last. What cannot be told is not clean.
    pub fn look(&self, tree: &Worktree) -> Left {
        let looked = self.workshop().and_then(|workshop| Ok(looking::look(&workshop, &Opened::find(&workshop, tree)?)));
        match looked {
            Ok(left) => left,
            Err(unknown) => Left { path: tree.path.clone(), branch: tree.branch.clone(), unknown, ..Left::default() },
        }
    }

    /// Removes folder and branch if nothing was changed; `true` when they are gone. Only after its task has ended.
    pub fn release(&self, tree: &Worktree) -> Result<bool, String> {
        if tree.is_foreign() {
            return Ok(false);
        }
        let workshop = self.workshop()?;
        let lock = workshop.lock(&workshop.slug_of(tree)?)?;
        let opened = Opened::find(&workshop, tree)?;
        if !looking::look(&workshop, &opened).clean {
            return Ok(false);
        }
        // Commits that were brought home are kept by that merge.
        let branch = if opened.is_merged() { Branch::Whatever } else { Branch::At(tree.base.clone()) };
        removing::remove(&workshop, &opened, branch)?;
        lock.forget();
        Ok(true)
    }

    /// Removes it with everything in it, and says what that was. Refuses what is not ours.
    pub fn discard(&self, tree: &Worktree) -> Result<Left, String> {
        let workshop = self.workshop()?;
        if tree.is_foreign() {
            return Err(format!("{} was made by a command of the user's: remove it the same way", tree.path));
        }
        let lock = workshop.lock(&workshop.slug_of(tree)?)?;
        let opened = Opened::find(&workshop, tree)?;
        if let (None, Err(words)) = (&opened.record, &opened.place)
            && Path::new(&tree.path).symlink_metadata().is_ok()
        {
            return Err(format!("{words}, so it is not removed"));
        }
        looking::has_no_tenants(&workshop, &opened).map_err(|why| format!("{why}: that one first"))?;
        let mut left = looking::look(&workshop, &opened);
        if let Some(stays) = merge::abandon(&workshop, &opened)? {
            left.unknown = stays;
        }
        removing::remove(&workshop, &opened, Branch::Whatever)?;
        lock.forget();
        Ok(left)
    }

    /// From what it began with, or from what was brought home last, to what is there now, untracked files too.
    pub fn diff(&self, tree: &Worktree) -> Result<Diff, String> {
        let workshop = self.workshop()?;
        let opened = Opened::find(&workshop, tree)?;
        let state = merge::state_of(&workshop, &opened)?;
        let diff = diff::whole(&git::Git::in_repository(&opened.common), opened.from(), &state.commit)?;
        Ok(Diff { left_out: state.left_out, ..diff })
    }

    /// Brings what is in the worktree home, whole or not at all. Several are merged one after the other, in the order in
    /// which they are called. With `judged` it changes no other paths than these.
    pub fn merge(
        &self,
        tree: &Worktree,
        onto: &Onto,
        provenance: &Provenance,
        after: After,
        judged: Option<&BTreeSet<String>>,
    ) -> Result<Merged, MergeError> {
        merge::merge(&self.workshop()?, tree, onto, provenance, after, judged)
    }

    /// Everything of ours in this repository and in our folder, also what is in use: whose task goes on is for the caller
    /// to know. Changes nothing.
    pub fn leftovers(&self, home: &Path) -> Result<Vec<Leftover>, String> {
        let workshop = self.workshop()?;
        leftovers::list(&workshop, &at(&workshop, home)?)
    }

    /// Removes or finishes one of them, if that loses nothing. Returns what a person should know of it.
    pub fn clean(&self, home: &Path, leftover: &Leftover) -> Result<Vec<String>, String> {
        let workshop = self.workshop()?;
        leftovers::clean(&workshop, &at(&workshop, home)?, leftover)
    }

    /// What a file was at home before a merge and what it is after it; nothing where there was or is no file.
    pub fn contents(&self, tree: &Worktree, merged: &Merged, path: &str) -> Result<BeforeAndAfter, String> {
        let workshop = self.workshop()?;
        let home = place::place_of(&workshop, Path::new(&tree.home))?;
        let git = home.repository();
        let blob = |revision: &str| git.ask(["cat-file", "--filters", &format!("{revision}:{path}")]).ok();
        Ok((blob(&format!("{}^1", merged.commit)), blob(&merged.commit)))
    }

    /// Which task wrote which lines, as of its merge; the newest first.
    pub fn provenance(&self, home: &Path, path: Option<&str>) -> Result<Vec<Written>, String> {
        let workshop = self.workshop()?;
        provenance::read(&at(&workshop, home)?, path)
    }
}

fn at(workshop: &Workshop, folder: &Path) -> Result<place::Place, String> {
    let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    place::place_of(workshop, &folder)
}
