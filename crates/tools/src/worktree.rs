//! Worktrees: a folder of its own for a task, made, looked at, brought home and removed with git.
//!
//! Everything here blocks; callers have threads for that. What is in a worktree was made by an agent and is never trusted:
//! no `.git` in it is read, no link followed, no program started that it names. `worktree/` has a file per verb; the
//! record that the log keeps is `posse_session::Worktree`.

mod apply;
mod began;
mod conflicts;
mod diff;
mod git;
mod index;
mod leftovers;
mod lines;
mod locks;
mod looking;
mod making;
mod merge;
mod opened;
mod orders;
mod place;
mod presence;
mod provenance;
mod pruning;
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
pub use orders::Order;
use posse_session::{Left, Worktree};
use presence::Holder;
pub use presence::Presence;
pub use provenance::{Provenance, Written};
use removing::Branch;
use workshop::Workshop;

use crate::keeper::Keeper;

/// The contents of a file; nothing where there is none.
type BeforeAndAfter = (Option<Vec<u8>>, Option<Vec<u8>>);

/// Takes a task's slug and the paths that changed.
type Tell = dyn Fn(&str, Vec<String>) + Send + Sync;

/// Who is told what of a task came home.
#[derive(Clone)]
struct Teller(Arc<Tell>);

impl std::fmt::Debug for Teller {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Teller")
    }
}

/// All worktrees of this posse, in one folder.
#[derive(Debug, Clone)]
pub struct Worktrees {
    folder: PathBuf,
    fuse: Option<Arc<AtomicU64>>,
    teller: Option<Teller>,
}

impl Worktrees {
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, fuse: None, teller: None }
    }

    /// Somebody hears of every merge into files before it is over. One that is killed before that is told by whoever finishes
    /// it, so it is told at least once.
    pub fn telling(mut self, tell: impl Fn(&str, Vec<String>) + Send + Sync + 'static) -> Self {
        self.teller = Some(Teller(Arc::new(tell)));
        self
    }

    /// For the tests of crashes: the process kills itself at the n-th moment between two effects.
    #[doc(hidden)]
    pub fn killed_at(mut self, moment: u64) -> Self {
        self.fuse = Some(Arc::new(AtomicU64::new(moment)));
        self
    }

    fn workshop(&self) -> Result<Workshop, String> {
        let workshop = Workshop::open(&self.folder)?;
        Ok(Workshop { fuse: self.fuse.clone(), teller: self.teller.clone(), ..workshop })
    }

    /// From the caller's `HEAD`, with its uncommitted changes if they are wanted; the caller's index and files are only
    /// read. Returns the record and the folder to work in. Done again for the same slug it returns the same, and what a
    /// killed attempt left is made anew.
    pub fn make(&self, making: &Making<'_>) -> Result<(Worktree, PathBuf), String> {
        making::make(&self.workshop()?, making)
    }

    /// A folder that a command of the user's makes. Ordered again for the same task it is the one that was made before,
    /// where that can be known: else the command runs once more.
    pub async fn order(&self, keeper: &Keeper, order: &Order<'_>) -> Result<(Worktree, String), String> {
        orders::carry_out(self.workshop()?, keeper, order).await
    }

    /// What is noted of such folders, also of those whose tasks have begun. Needs no repository, and changes nothing.
    pub fn orders(&self) -> Result<Vec<Leftover>, String> {
        Ok(orders::list(&self.workshop()?))
    }

    /// The task has begun, or never will: nothing of the order needs to be known any more. The folder stays.
    pub fn forget_order(&self, slug: &str) -> Result<(), String> {
        orders::forget(&self.workshop()?, slug)
    }

    /// The same for whatever order made this folder.
    pub fn forget_orders_of(&self, folder: &Path) -> Result<(), String> {
        let mut noted = self.orders()?.into_iter().filter(|order| Path::new(&order.place) == folder);
        noted.try_for_each(|order| self.forget_order(&order.slug))
    }

    /// A recorded worktree is there: made again from its branch, or from what it began with, if it was removed.
    pub fn ensure(&self, tree: &Worktree) -> Result<(), String> {
        making::ensure(&self.workshop()?, tree)
    }

    /// The folder of a worktree in which its task works, made again if git does not know of it.
    pub fn folder_in(&self, tree: &Worktree, folder: &Path) -> PathBuf {
        match folder.strip_prefix(&tree.path) {
            Ok(below) if !tree.is_foreign() && Path::new(&tree.path).is_dir() => making::folder_for(tree, below),
            _ => folder.to_owned(),
        }
    }

    /// A task is at work in it: nobody brings it home or removes it until this is dropped.
    pub fn enter(&self, tree: &Worktree) -> Result<Presence, String> {
        let workshop = self.workshop()?;
        presence::enter(&workshop.presence_path(&workshop.slug_of(tree)?))
    }

    /// Nobody works in it until this is dropped; an error in words when somebody does. Whoever brings it home or removes it is
    /// waited for: that is short.
    pub fn alone(&self, tree: &Worktree) -> Result<Presence, String> {
        let workshop = self.workshop()?;
        let slug = workshop.slug_of(tree)?;
        presence::alone(&workshop.presence_path(&slug), presence::ALONE_WAIT_MAX)?.map_err(|holder| match holder {
            Holder::Task => format!("its task is at work in {}; wait for its end, or stop it", tree.path),
            Holder::Other => format!("{} is being brought home or removed by somebody else; try again when that is over", tree.path),
        })
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
        let record = self.workshop()?.record(&slug)?;
        // One that is being removed is as good as gone: whoever removes it, or `doctor`, sees to the rest.
        Ok(record.filter(|record| record.state != workshop::State::Removing).map(|record| record.tree))
    }

    /// Whether the repository that a worktree belongs to is still there: without it nothing can be brought home.
    pub fn has_repository(&self, tree: &Worktree) -> bool {
        let record = self.workshop().and_then(|workshop| workshop.record(&workshop.slug_of(tree)?));
        record.is_ok_and(|record| record.is_some_and(|record| Path::new(&record.common).is_dir()))
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
        // One that was moved leads to nothing new either, or it would not be clean.
        let branch = if opened.is_merged() { Branch::Whatever } else { looking::harmless_branch(&opened)? };
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
        let diff = diff::whole(&git::Git::in_repository(&opened.common), &began::base(&opened, &state.commit)?, &state.commit)?;
        let submodules = match &opened.place {
            Ok(place) => looking::in_submodules(&workshop, opened.record.as_ref(), place)?,
            Err(_) => Vec::new(),
        };
        Ok(Diff { left_out: state.left_out, submodules, ..diff })
    }

    /// The paths that [`Worktrees::merge`] would change where it brings the work, as things stand.
    pub fn foreseen(&self, tree: &Worktree, onto: &Onto) -> Result<Vec<String>, MergeError> {
        merge::foreseen(&self.workshop()?, tree, onto)
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

    /// Of these only merges that were killed. Costs nothing where nobody has a worktree.
    pub fn unfinished(&self, home: &Path) -> Result<Vec<Leftover>, String> {
        let workshop = self.workshop()?;
        if workshop.recorded().is_empty() { Ok(Vec::new()) } else { leftovers::merges(&at(&workshop, home)?) }
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

    /// Tasks of which only who wrote what is kept here, by what their worktrees were called. Changes nothing.
    pub fn only_merged(&self, home: &Path) -> Result<BTreeSet<String>, String> {
        let workshop = self.workshop()?;
        pruning::only_merged(&workshop, &at(&workshop, home)?)
    }

    /// Forgets who wrote what of tasks whose sessions are gone, unless there is work of theirs. Returns of how many.
    pub fn forget_merges(&self, home: &Path, slugs: &[String]) -> Result<usize, String> {
        let workshop = self.workshop()?;
        pruning::forget(&workshop, &at(&workshop, home)?, slugs)
    }

    /// Which task wrote which lines, as they are now; the newest first. Of a folder: what is below it.
    pub fn provenance(&self, home: &Path, path: Option<&str>) -> Result<Vec<Written>, String> {
        let workshop = self.workshop()?;
        provenance::read(&at(&workshop, home)?, path)
    }
}

fn at(workshop: &Workshop, folder: &Path) -> Result<place::Place, String> {
    let folder = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    place::place_of(workshop, &folder)
}
