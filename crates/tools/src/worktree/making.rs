//! Making a worktree, and making one again that was removed.
//!
//! The record comes first and says that nobody has worked there yet; until it says otherwise, everything that is found is
//! thrown away and made anew. Only the registration is done under the repository's lock: twenty checkouts run at once.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use posse_session::Worktree;

use super::{
    began,
    git::Git,
    index::Hidden,
    locks::Lock,
    looking::{self, branch_tip},
    opened::Opened,
    place::{self, Caller, Place, as_text},
    refs, removing,
    snapshot::{self, Untracked},
    submodules,
    workshop::{Record, State, Workshop, branch_of, is_slug},
};

/// What is to be made.
#[derive(Debug, Clone, Copy)]
pub struct Making<'a> {
    /// Where the caller works.
    pub from: &'a Path,
    /// Of the task's id.
    pub slug: &'a str,
    /// With the caller's uncommitted changes.
    pub changes: bool,
    /// What the task is about, for whoever finds it.
    pub title: &'a str,
}

pub(super) fn make(workshop: &Workshop, making: &Making<'_>) -> Result<(Worktree, PathBuf), String> {
    let slug = making.slug;
    if !is_slug(slug) {
        return Err(format!("{slug:?} cannot name a worktree: it takes a-z, 0-9, _ and -"));
    }
    super::git::check_version()?;
    let lock = workshop.lock(slug)?;
    let made = make_locked(workshop, making, &lock);
    if made.is_err() && workshop.record(slug).is_ok_and(|record| record.is_none()) {
        lock.forget();
    }
    made
}

fn make_locked(workshop: &Workshop, making: &Making<'_>, lock: &Lock) -> Result<(Worktree, PathBuf), String> {
    let slug = making.slug;
    let caller = place::caller(workshop, making.from)?;
    if let Some(record) = workshop.record(slug)? {
        if Path::new(&record.common) != caller.place.common {
            return Err(format!("there is already a worktree {slug}, of another repository: {}", record.tree.home));
        }
        let tip = branch_tip(&caller.place.repository(), slug)?;
        // One with commits on its branch was being made again; it is not thrown away.
        if record.state == State::Made || tip.is_some_and(|tip| tip != record.tree.base) {
            ensure_locked(workshop, &record.tree, lock)?;
            let folder = folder_for(&record.tree, &caller.below);
            return Ok((record.tree, folder));
        }
        let opened = Opened::find(workshop, &record.tree)?;
        removing::remove(workshop, &opened, removing::Branch::At(record.tree.base.clone()))?;
    }
    let tree = Worktree {
        home: as_text(&caller.place.top)?,
        path: as_text(&workshop.folder.join(slug))?,
        branch: branch_of(slug),
        base: base_for(workshop, &caller, making)?,
    };
    let mut record = Record {
        tree: tree.clone(),
        common: as_text(&caller.place.common)?,
        state: State::Making,
        merged: None,
        settings: Vec::new(),
        submodules: Vec::new(),
        notes: Vec::new(),
        title: making.title.to_owned(),
        above: workshop.above(&tree.home),
        removal: None,
    };
    workshop.remember(slug, &record)?;
    workshop.step();
    let start = Start { caller: &caller.place, commit: &tree.base, branch: None };
    if let Err(words) = build(workshop, slug, &mut record, &start, lock) {
        // Nobody has worked there. What cannot be removed now is listed as left over.
        let opened = Opened::find(workshop, &record.tree);
        let _ = opened.and_then(|opened| removing::remove(workshop, &opened, removing::Branch::At(tree.base.clone())));
        return Err(words);
    }
    let folder = folder_for(&tree, &caller.below);
    Ok((tree, folder))
}

/// The same folder below the worktree's top as the caller's is below its own. One that git does not know of is made, empty;
/// where a file or a link is in the way, it is the top.
pub(super) fn folder_for(tree: &Worktree, below: &Path) -> PathBuf {
    let (top, folder) = (PathBuf::from(&tree.path), Path::new(&tree.path).join(below));
    let nearest = folder.ancestors().find(|above| above.symlink_metadata().is_ok());
    let is_ours = nearest.is_some_and(|nearest| nearest.starts_with(&top) && nearest.canonicalize().is_ok_and(|real| real == nearest));
    if is_ours && std::fs::create_dir_all(&folder).is_ok() { folder } else { top }
}

fn base_for(workshop: &Workshop, caller: &Caller, making: &Making<'_>) -> Result<String, String> {
    if !making.changes {
        return Ok(caller.head.clone());
    }
    let message = began::changes_message(making.slug, making.title);
    Ok(snapshot::take(workshop, &caller.place, Untracked::All, Hidden::Kept, &message)?.commit)
}

pub(super) fn ensure(workshop: &Workshop, tree: &Worktree) -> Result<(), String> {
    if tree.is_foreign() {
        let there = Path::new(&tree.path).is_dir();
        return if there { Ok(()) } else { Err(format!("{} is gone, and only the command that made it can make it again", tree.path)) };
    }
    super::git::check_version()?;
    let slug = workshop.slug_of(tree)?;
    let lock = workshop.lock(&slug)?;
    ensure_locked(workshop, tree, &lock)
}

fn ensure_locked(workshop: &Workshop, tree: &Worktree, lock: &Lock) -> Result<(), String> {
    let opened = Opened::find(workshop, tree)?;
    if !opened.common.is_dir() {
        return Err(format!("the worktree {} cannot be used: its repository {} is gone", tree.path, opened.common.display()));
    }
    let opened = opened.with_merged_of_refs()?;
    let is_made = opened.record.as_ref().is_none_or(|record| record.state == State::Made);
    match &opened.place {
        Ok(_) if is_made => return Ok(()),
        // Something that is not ours stands there: it is not removed to make room.
        Err(words) if is_made && Path::new(&tree.path).symlink_metadata().is_ok() => return Err(words.clone()),
        _ => {}
    }
    removing::remove_folders(workshop, &opened)?;
    let (home, _) = place::nearest_home(workshop, tree, opened.record.as_ref())?;
    if home.common != opened.common {
        return Err(format!("{} belongs to another repository than when the task began", tree.home));
    }
    let commit = format!("{}^{{commit}}", opened.from());
    if refs::value(&opened.common, &commit)?.is_none() {
        return Err(format!(
            "the worktree {} cannot be made again: its commit {} is no longer in the repository",
            tree.path,
            opened.from()
        ));
    }
    let newest = looking::newest(&opened)?;
    let start = Start { caller: &home, commit: &newest, branch: branch_tip(&Git::in_repository(&opened.common), &opened.slug)? };
    let mut record = Record {
        tree: tree.clone(),
        common: as_text(&opened.common)?,
        state: State::Making,
        merged: opened.is_merged().then(|| opened.from().to_owned()),
        settings: Vec::new(),
        submodules: Vec::new(),
        notes: Vec::new(),
        title: opened.record.as_ref().map(|record| record.title.clone()).unwrap_or_default(),
        above: opened.record.as_ref().map_or_else(|| workshop.above(&tree.home), |record| record.above.clone()),
        removal: None,
    };
    // With commits on its branch it must not be thrown away should we be killed: the branch stays in any case.
    workshop.remember(&opened.slug, &record)?;
    build(workshop, &opened.slug, &mut record, &start, lock)
}

struct Start<'a> {
    caller: &'a Place,
    commit: &'a str,
    /// Where its branch is, if there is one.
    branch: Option<String>,
}

/// Registers the worktree, fills it, and says in the record that it is made.
fn build(workshop: &Workshop, slug: &str, record: &mut Record, start: &Start<'_>, lock: &Lock) -> Result<(), String> {
    let common = PathBuf::from(&record.common);
    {
        let repository_lock = start.caller.lock()?;
        let mut lines = vec![format!("update {} {}", refs::base(slug), record.tree.base)];
        match &start.branch {
            None => lines.push(format!("create {} {}", refs::branch(slug), start.commit)),
            Some(tip) if tip == start.commit => {}
            Some(tip) => lines.push(format!("update {} {} {tip}", refs::branch(slug), start.commit)),
        }
        refs::change(&common, &lines, &repository_lock).map_err(|words| match words.contains("already exists") {
            true => format!("the branch {} is already there and not from this task: look at it, and remove it", record.tree.branch),
            false => words,
        })?;
        workshop.step();
        let git = start.caller.git();
        let arguments = ["worktree", "add", "--quiet", "--no-checkout", "--", &record.tree.path, &record.tree.branch];
        git.holding(&repository_lock).ask(arguments.map(OsStr::new))?;
    }
    // What git copied from the caller's own settings is the caller's.
    if let Some(admin) = place::admin_of(&common, Path::new(&record.tree.path), slug) {
        record.settings = place::settings_of(&admin)?;
    }
    let place = place::place_of_record(record, slug)?;
    workshop.step();
    place.git().holding(lock).ask(["reset", "--quiet", "--hard"])?;
    workshop.step();
    let filled = submodules::fill(start.caller, &place)?;
    (record.submodules, record.notes) = (filled.submodules, filled.notes);
    record.state = State::Made;
    workshop.remember(slug, record)
}
