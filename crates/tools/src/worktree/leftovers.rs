//! What is left over: of killed commands, of tasks that nobody went on with, of people who removed a folder by hand.
//!
//! Everything of ours in a repository or in our folder is listed with what it is and whether it may go. Looking changes
//! nothing. Each cleaning looks again, under the locks, and removes nothing in which there is work.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use posse_session::{Left, Worktree};
use rustix::process::{Pid, test_kill_process};

use super::{
    git::Git,
    locks::Lock,
    looking, merge,
    opened::Opened,
    orders,
    place::{self, Place, top_of_admin},
    provenance::Kept,
    refs,
    removing::{self, Branch, remove_tree},
    workshop::{State, Workshop, branch_of, is_slug, names_in},
};
use crate::text::count;

/// Longer than any git command of ours may take: who made the lock is gone.
const GIT_LOCK_AGE_MIN: Duration = Duration::from_secs(900);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftoverKind {
    /// A merge that was killed between two files. Cleaning finishes it.
    Merge,
    /// A worktree. Whether its task is still wanted is for the caller to know.
    Worktree,
    /// Nobody has worked in it.
    HalfMade,
    HalfRemoved,
    /// A task's branch whose worktree is gone.
    Branch,
    /// A name of ours for a commit that nothing needs.
    Ref,
    /// A folder among the worktrees that is none.
    Folder,
    /// What is noted of a folder that a command of the user's was to make.
    Order,
    /// A lock whose holder is gone.
    Lock,
    /// A file or folder that was only needed for a moment.
    Scratch,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    pub kind: LeftoverKind,
    /// Of which task; empty where it is nobody's.
    pub slug: String,
    /// The folder, the file or the name in the repository.
    pub place: String,
    pub cleanable: bool,
    /// Why it is there, or why it stays, in words.
    pub why: String,
    /// Of a worktree: what is in it.
    pub left: Option<Left>,
}

impl Leftover {
    fn new(kind: LeftoverKind, slug: &str, place: impl Into<String>, cleanable: bool, why: impl Into<String>) -> Self {
        Self { kind, slug: slug.to_owned(), place: place.into(), cleanable, why: why.into(), left: None }
    }
}

/// What the repository has under our names.
struct Names {
    branches: BTreeMap<String, String>,
    bases: BTreeMap<String, String>,
}

impl Names {
    fn of(common: &Path) -> Result<Self, String> {
        let said = Git::in_repository(common).ask_line([
            "for-each-ref",
            "--format=%(refname) %(objectname)",
            "refs/heads/posse",
            "refs/posse/base",
        ])?;
        let below = |start: &str| {
            let entry = |line: &str| {
                let (name, commit) = line.split_once(' ')?;
                let slug = name.strip_prefix(start).filter(|slug| is_slug(slug))?;
                Some((slug.to_owned(), commit.to_owned()))
            };
            said.lines().filter_map(entry).collect()
        };
        Ok(Self { branches: below("refs/heads/posse/"), bases: below("refs/posse/base/") })
    }
}

pub(super) fn list(workshop: &Workshop, home: &Place) -> Result<Vec<Leftover>, String> {
    let names = Names::of(&home.common)?;
    let mut found = merges(home)?;
    let mut slugs: BTreeSet<String> = names.branches.keys().chain(names.bases.keys()).cloned().collect();
    slugs.extend(registered(workshop, &home.common));
    let mut unreadable = BTreeSet::new();
    for slug in workshop.recorded() {
        match workshop.record(&slug) {
            Ok(Some(record)) if Path::new(&record.common) == home.common => drop(slugs.insert(slug)),
            Ok(Some(record)) if !Path::new(&record.common).exists() => {
                let why = format!("its repository {} is gone, so what is in it cannot be judged: remove it by hand", record.common);
                found.push(Leftover::new(LeftoverKind::Worktree, &slug, record.tree.path, false, why));
            }
            Ok(_) => {}
            Err(words) => {
                found.push(unknown(workshop, &slug, &words));
                unreadable.insert(slug);
            }
        }
    }
    for slug in slugs.difference(&unreadable) {
        // One of which nothing can be told does not hide the others.
        found.extend(of_task(workshop, home, &names, slug).unwrap_or_else(|words| vec![unknown(workshop, slug, &words)]));
        found.extend(dead_git_locks(&home.common, slug));
    }
    found.extend(strays(workshop, &slugs));
    found.sort_by(|a, b| (a.kind, &a.place).cmp(&(b.kind, &b.place)));
    Ok(found)
}

fn unknown(workshop: &Workshop, slug: &str, words: &str) -> Leftover {
    let (path, why) = (workshop.folder.join(slug), format!("what is in it is not known: {words}"));
    Leftover::new(LeftoverKind::Worktree, slug, path.to_string_lossy(), false, why)
}

pub(super) fn merges(home: &Place) -> Result<Vec<Leftover>, String> {
    let describe = |kept: Kept| {
        let (cleanable, why) = match merge::Whose::of(&kept, home) {
            merge::Whose::Here => (true, "a merge was interrupted between two files; it can be finished"),
            merge::Whose::Nobodys => (true, "a merge was interrupted, and the working tree into which it was written is gone"),
            merge::Whose::Elsewhere => (false, "a merge into another working tree of this repository was interrupted: look there"),
        };
        Leftover::new(LeftoverKind::Merge, kept.slug(), kept.name.clone(), cleanable, why)
    };
    Ok(Kept::all(&home.repository(), "refs/posse/merging")?.into_iter().map(describe).collect())
}

/// Slugs of the worktrees that the repository knows in our folder.
fn registered(workshop: &Workshop, common: &Path) -> Vec<String> {
    let all = common.join("worktrees");
    let slug = |name: String| {
        let top = top_of_admin(&all.join(name))?;
        workshop.slug_at(&top).filter(|slug| workshop.folder.join(slug) == top)
    };
    names_in(&all).into_iter().filter_map(slug).collect()
}

fn of_task(workshop: &Workshop, home: &Place, names: &Names, slug: &str) -> Result<Vec<Leftover>, String> {
    let path = workshop.folder.join(slug);
    let record = workshop.record(slug)?;
    let is_there = path.symlink_metadata().is_ok() || place::admin_of(&home.common, &path, slug).is_some();
    let shown = path.to_string_lossy().into_owned();
    if let Some(record) = record.as_ref().filter(|record| record.state != State::Made) {
        // Somebody is at it right now.
        if Lock::try_take(&workshop.lock_path(slug))?.is_none() {
            return Ok(Vec::new());
        }
        let (kind, why) = match record.state {
            State::Making => (LeftoverKind::HalfMade, "it was interrupted while it was made; nobody has worked in it"),
            _ => (LeftoverKind::HalfRemoved, "it was interrupted while it was removed"),
        };
        return Ok(vec![Leftover::new(kind, slug, shown, true, why)]);
    }
    if is_there || record.is_some() {
        let tree = record.map_or_else(|| unrecorded(home, names, slug, &shown), |record| record.tree);
        let looked = Opened::find(workshop, &tree).map(|opened| looking::look(workshop, &opened));
        let left = looked.unwrap_or_else(|unknown| Left { path: shown.clone(), branch: branch_of(slug), unknown, ..Left::default() });
        let worktree = Leftover::new(LeftoverKind::Worktree, slug, shown, left.clean, words(&left));
        return Ok(vec![Leftover { left: Some(left), ..worktree }]);
    }
    Ok(match (names.branches.get(slug), names.bases.get(slug)) {
        (Some(tip), base) => vec![of_branch(&home.common, slug, tip, base)?],
        (None, Some(_)) => vec![Leftover::new(LeftoverKind::Ref, slug, refs::base(slug), true, "its worktree and its branch are gone")],
        (None, None) => Vec::new(),
    })
}

/// What its record would say; without a beginning nothing can be told of it.
fn unrecorded(home: &Place, names: &Names, slug: &str, path: &str) -> Worktree {
    Worktree {
        home: home.top.to_string_lossy().into_owned(),
        path: path.to_owned(),
        branch: branch_of(slug),
        base: names.bases.get(slug).cloned().unwrap_or_default(),
    }
}

fn words(left: &Left) -> String {
    match (left.clean, left.unknown.as_str()) {
        (true, _) => "nothing was changed in it, or everything in it is home".into(),
        (false, "") => format!("it holds work: {}, {}", count(left.commits, "commit"), count(left.files, "changed file")),
        (false, unknown) if (left.commits, left.files) == (0, 0) => format!("it may hold work: {unknown}"),
        (false, unknown) => {
            format!("it holds work: {}, {}; and {unknown}", count(left.commits, "commit"), count(left.files, "changed file"))
        }
    }
}

fn of_branch(common: &Path, slug: &str, tip: &str, base: Option<&String>) -> Result<Leftover, String> {
    let git = Git::in_repository(common);
    let name = refs::branch(slug);
    let kept = |cleanable: bool, why: String| Ok(Leftover::new(LeftoverKind::Branch, slug, name.clone(), cleanable, why));
    let admin = names_in(&common.join("worktrees")).into_iter().map(|name| common.join("worktrees").join(name));
    let head = format!("ref: {name}\n");
    if let Some(admin) =
        admin.chain([common.to_owned()]).find(|admin| fs::read_to_string(admin.join("HEAD")).is_ok_and(|text| text == head))
    {
        let top = top_of_admin(&admin).unwrap_or(admin);
        return kept(false, format!("it is checked out in {}", top.display()));
    }
    // Kept by a merge, by where it began, or by somebody's branch.
    let others = git.ask_line(["for-each-ref", "--format=%(refname)", "--contains", tip])?;
    let other =
        others.lines().find(|other| *other != name && (!other.starts_with("refs/posse/base/") || base.map(String::as_str) == Some(tip)));
    match other {
        Some(other) => kept(true, format!("everything on it is also in {other}")),
        None => kept(false, format!("its commits are nowhere else: `git log {}`", branch_of(slug))),
    }
}

fn dead_git_locks(common: &Path, slug: &str) -> Vec<Leftover> {
    let admin = common.join("worktrees").join(slug);
    let mut locks: Vec<PathBuf> =
        names_in(&admin).into_iter().filter(|name| name.ends_with(".lock")).map(|name| admin.join(name)).collect();
    locks.extend(
        [refs::branch(slug), refs::base(slug), refs::merging(slug), refs::merged_name(slug)].map(|name| common.join(name + ".lock")),
    );
    let dead = locks.into_iter().filter(|lock| is_old(lock));
    dead.map(|lock| Leftover::new(LeftoverKind::Lock, slug, lock.to_string_lossy(), true, "a git that was killed has left its lock"))
        .collect()
}

fn is_old(path: &Path) -> bool {
    let written = path.symlink_metadata().and_then(|metadata| metadata.modified());
    written.is_ok_and(|written| SystemTime::now().duration_since(written).is_ok_and(|age| GIT_LOCK_AGE_MIN <= age))
}

/// What lies in our folder and belongs to nothing.
fn strays(workshop: &Workshop, known: &BTreeSet<String>) -> Vec<Leftover> {
    let mut found = Vec::new();
    let recorded: BTreeSet<String> = workshop.recorded().into_iter().collect();
    for name in names_in(&workshop.folder).into_iter().filter(|name| name != ".posse" && !known.contains(name) && !recorded.contains(name))
    {
        let path = workshop.folder.join(&name);
        let is_empty = fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_none());
        let why =
            if is_empty { "an empty folder" } else { "it is not a worktree that this posse knows: remove it by hand if it is not needed" };
        found.push(Leftover::new(LeftoverKind::Folder, "", path.to_string_lossy(), is_empty, why));
    }
    for path in removing::half_gone(workshop) {
        let why = "it was interrupted while it was removed";
        if is_of_the_dead(&path) {
            found.push(Leftover::new(LeftoverKind::HalfRemoved, "", path.to_string_lossy(), true, why));
        }
    }
    for name in names_in(&workshop.scratch_folder()) {
        let path = workshop.scratch_folder().join(name);
        if is_of_the_dead(&path) {
            found.push(Leftover::new(LeftoverKind::Scratch, "", path.to_string_lossy(), true, "a killed command has left it"));
        }
    }
    for name in names_in(&workshop.locks_folder()) {
        let slug = name.trim_end_matches(".lock");
        let path = workshop.locks_folder().join(&name);
        // Whoever works in a worktree has a lock beside the one under which it is made.
        let owner = slug.strip_suffix("-task").unwrap_or(slug);
        let is_needed = [slug, owner].iter().any(|slug| recorded.contains(*slug) || workshop.folder.join(slug).exists());
        if !is_needed && matches!(Lock::try_take(&path), Ok(Some(_))) {
            found.push(Leftover::new(LeftoverKind::Lock, slug, path.to_string_lossy(), true, "nothing is left that it could lock"));
        }
    }
    found
}

/// Its name ends with the process that made it and a random number.
fn is_of_the_dead(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let maker = name.rsplit('-').nth(1).and_then(|process| process.parse().ok()).and_then(Pid::from_raw);
    maker.is_none_or(|maker| test_kill_process(maker).is_err())
}

/// Returns what a person should know of it.
pub(super) fn clean(workshop: &Workshop, home: &Place, leftover: &Leftover) -> Result<Vec<String>, String> {
    // Looked at again: it may be somebody's by now.
    let now = list(workshop, home)?;
    let Some(leftover) = now.into_iter().find(|now| (now.kind, &now.place) == (leftover.kind, &leftover.place)) else {
        return Ok(Vec::new());
    };
    if !leftover.cleanable {
        return Err(format!("{} stays: {}", leftover.place, leftover.why));
    }
    let failed = |error: std::io::Error| format!("{} cannot be removed: {error}", leftover.place);
    let path = Path::new(&leftover.place);
    let slug = leftover.slug.as_str();
    match leftover.kind {
        LeftoverKind::Merge => {
            let lock = home.lock()?;
            return merge::finish_that(workshop, home, &lock, slug);
        }
        LeftoverKind::Worktree | LeftoverKind::HalfMade => clean_worktree(workshop, home, &leftover)?,
        LeftoverKind::HalfRemoved if !slug.is_empty() => clean_worktree(workshop, home, &leftover)?,
        LeftoverKind::HalfRemoved | LeftoverKind::Scratch => remove_tree(path).map_err(failed)?,
        LeftoverKind::Folder => fs::remove_dir(path).map_err(failed)?,
        LeftoverKind::Branch | LeftoverKind::Ref => clean_refs(home, slug)?,
        LeftoverKind::Lock if path.starts_with(workshop.locks_folder()) => {
            if let Some(lock) = Lock::try_take(path)? {
                lock.forget();
            }
        }
        LeftoverKind::Lock => fs::remove_file(path).map_err(failed)?,
        LeftoverKind::Order => orders::forget(workshop, slug)?,
    }
    Ok(Vec::new())
}

fn clean_worktree(workshop: &Workshop, home: &Place, leftover: &Leftover) -> Result<(), String> {
    let slug = leftover.slug.as_str();
    let lock = workshop.lock(slug)?;
    let record = workshop.record(slug)?;
    let tree = match &record {
        Some(record) => record.tree.clone(),
        None => unrecorded(home, &Names::of(&home.common)?, slug, &leftover.place),
    };
    let opened = Opened::find(workshop, &tree)?.with_merged_of_refs()?;
    let is_made = record.as_ref().is_none_or(|record| record.state == State::Made);
    if is_made && leftover.kind != LeftoverKind::Worktree {
        // Its task went on meanwhile.
        return Ok(());
    }
    if is_made && !looking::look(workshop, &opened).clean {
        return Err(format!("{} stays: somebody has worked in it meanwhile", tree.path));
    }
    let begun = record.filter(|record| record.state == State::Removing).and_then(|record| record.removal);
    let branch = match begun {
        Some(commit) => Branch::At(commit),
        None if opened.is_merged() && is_made => Branch::Whatever,
        None if is_made => looking::harmless_branch(&opened)?,
        None => Branch::At(tree.base.clone()),
    };
    removing::remove(workshop, &opened, branch)?;
    lock.forget();
    Ok(())
}

/// Only as it was when it was looked at.
fn clean_refs(home: &Place, slug: &str) -> Result<(), String> {
    let lock = home.lock()?;
    let names = Names::of(&home.common)?;
    let mut lines = Vec::new();
    if let Some(tip) = names.branches.get(slug) {
        let again = of_branch(&home.common, slug, tip, names.bases.get(slug))?;
        if !again.cleanable {
            return Err(format!("{} stays: {}", again.place, again.why));
        }
        lines.push(format!("delete {} {tip}", refs::branch(slug)));
    }
    lines.extend(names.bases.get(slug).map(|base| format!("delete {} {base}", refs::base(slug))));
    refs::change(&home.common, &lines, &lock)
}
