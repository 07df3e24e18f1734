//! Looking: what a task has left in its worktree, compared with what it began with.
//!
//! Whatever cannot be told is said, and then the worktree is not clean: nothing of a task's is ever removed by mistake.

use std::{collections::BTreeSet, fs, path::Path};

use posse_session::Left;

use super::{
    git::{Git, parts},
    index::{Hidden, Index},
    merge,
    opened::Opened,
    place::{Place, check_submodule, text},
    provenance,
    removing::Branch,
    snapshot,
    status::Status,
    submodules::FIRST,
    workshop::{Record, State, Submodule, Workshop, branch_of, names_in},
};
use crate::text::count as counted;

/// What git leaves in its folder while it waits for somebody to go on.
const UNDER_WAY: &[(&str, &str)] = &[
    ("MERGE_HEAD", "a merge"),
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("BISECT_LOG", "a bisection"),
    ("sequencer", "a series of picks"),
];

/// Files of a submodule that are named; the rest is counted.
const NAMED_MAX: usize = 5;

/// Commits that were checked out once; more are not asked about one by one.
const REFLOG_COMMITS_MAX: usize = 500;

pub(super) fn look(workshop: &Workshop, opened: &Opened) -> Left {
    let mut left = Left { path: opened.tree.path.clone(), branch: opened.tree.branch.clone(), ..Left::default() };
    let looked = match &opened.place {
        Ok(place) => look_at_folder(workshop, opened, place, &mut left),
        Err(_) if !Path::new(&opened.tree.path).exists() => look_at_branch(opened, &mut left),
        Err(words) => Err(words.clone()),
    };
    if let Err(words) = looked {
        left.unknown = words;
    }
    left.clean = left.unknown.is_empty() && left.commits == 0 && left.files == 0;
    left
}

fn look_at_folder(workshop: &Workshop, opened: &Opened, place: &Place, left: &mut Left) -> Result<(), String> {
    let (index, from) = (Index::of(workshop, place, Hidden::Shown)?, opened.from());
    let git = index.git(place);
    let status = Status::of(&git)?;
    let mut files: BTreeSet<Vec<u8>> = status.changed.iter().chain(&status.untracked).cloned().collect();
    if opened.is_merged() {
        // Files that are untracked here may be home already.
        let state = snapshot::of_worktree(workshop, place)?;
        let differing = git.ask(["diff-tree", "-r", "--name-only", "-z", "--no-renames", from, &state.commit])?;
        files = parts(&differing).map(<[u8]>::to_vec).collect();
    } else if status.head.as_deref() != Some(from) {
        let differing = git.ask(["diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--ignore-submodules=dirty", from])?;
        files = parts(&differing).map(<[u8]>::to_vec).chain(status.untracked).collect();
    }
    left.files = files.len() as u64;
    left.commits = commits(opened, place, status.head.as_deref(), status.branch.as_deref())?;
    if status.head.is_none() {
        return Err("a branch without commits is checked out in it".into());
    }
    is_at_rest(place)?;
    has_no_tenants(workshop, opened)?;
    let own = status.repositories.iter().map(|path| of_its_own(&String::from_utf8_lossy(path)));
    nothing_of(own.chain(in_submodules(workshop, opened.record.as_ref(), place)?).collect())
}

/// What no merge brings, in words: repositories that were made in it, and work in submodules. Empty when its folder is gone.
pub(super) fn left_behind(workshop: &Workshop, opened: &Opened) -> Result<Vec<String>, String> {
    let Ok(place) = &opened.place else { return Ok(Vec::new()) };
    let status = Status::of(&place.git())?;
    let own = status.repositories.iter().map(|path| of_its_own(&String::from_utf8_lossy(path)));
    Ok(own.chain(in_submodules(workshop, opened.record.as_ref(), place)?).collect())
}

fn of_its_own(path: &str) -> String {
    format!("{path} is a repository of its own inside of the worktree, which a merge does not bring home")
}

fn nothing_of(words: Vec<String>) -> Result<(), String> {
    if words.is_empty() { Ok(()) } else { Err(words.join("; ")) }
}

/// The folder is gone, so only commits can be left of the work.
fn look_at_branch(opened: &Opened, left: &mut Left) -> Result<(), String> {
    let git = Git::in_repository(&opened.common);
    if let Some(tip) = branch_tip(&git, &opened.slug)? {
        left.commits = count(&git, &[tip], opened.from())?;
    }
    Ok(())
}

/// Commits since the beginning. Those that no branch has any more count only where there are no others.
fn commits(opened: &Opened, place: &Place, head: Option<&str>, branch: Option<&str>) -> Result<u64, String> {
    let (git, from) = (place.git(), opened.from());
    let tips = tips(opened, place, head, branch)?;
    let current = count(&git, &tips, from)?;
    if current != 0 {
        return Ok(current);
    }
    let mut once = checked_out_once(&git, place)?;
    once.retain(|tip| tip != from && !tips.contains(tip));
    if REFLOG_COMMITS_MAX < once.len() {
        return Err("more commits were checked out in it than can be looked at".into());
    }
    count(&git, &once.into_iter().collect::<Vec<_>>(), from)
}

/// What is checked out, and the task's own branch, where they are not what it began with.
fn tips(opened: &Opened, place: &Place, head: Option<&str>, branch: Option<&str>) -> Result<Vec<String>, String> {
    let mut tips: Vec<String> = head.map(str::to_owned).into_iter().collect();
    if branch != Some(&branch_of(&opened.slug)) {
        tips.extend(branch_tip(&place.git(), &opened.slug)?);
    }
    tips.retain(|tip| tip != opened.from());
    Ok(tips)
}

/// Why something that is not in the files alone would be lost with a worktree whose files were brought home.
pub(super) fn is_free(workshop: &Workshop, opened: &Opened, place: &Place) -> Result<(), String> {
    let git = place.git();
    let status = Status::of(&git)?;
    let tips = tips(opened, place, status.head.as_deref(), status.branch.as_deref())?;
    if count(&git, &tips, opened.from())? != 0 {
        return Err("it has commits that were not brought home".into());
    }
    is_at_rest(place)?;
    has_no_tenants(workshop, opened)?;
    nothing_of(in_submodules(workshop, opened.record.as_ref(), place)?)
}

pub(super) fn is_at_rest(place: &Place) -> Result<(), String> {
    match UNDER_WAY.iter().find(|(name, _)| place.git_dir.join(name).exists()) {
        Some((_, what)) => Err(format!("{what} is under way in it")),
        None => Ok(()),
    }
}

fn count(git: &Git<'_>, tips: &[String], from: &str) -> Result<u64, String> {
    if tips.is_empty() {
        return Ok(0);
    }
    let arguments = ["rev-list", "--count"].into_iter().chain(tips.iter().map(String::as_str)).chain(["--not", from]);
    git.ask_line(arguments)?.trim().parse().map_err(|_| "git counts commits in a way that is not understood".to_owned())
}

/// The newest commit of a task whose folder is gone. What was brought home or onto a branch may be newer than its own
/// branch: it had the uncommitted files, too.
pub(super) fn newest(opened: &Opened) -> Result<String, String> {
    let git = Git::in_repository(&opened.common);
    let brought = provenance::last(&git, &opened.slug)?.unwrap_or_else(|| opened.from().to_owned());
    match branch_tip(&git, &opened.slug)? {
        Some(tip) if count(&git, std::slice::from_ref(&tip), &brought)? != 0 => Ok(tip),
        _ => Ok(brought),
    }
}

/// The branch of a worktree without work: where it began, or where it was moved to without anything new.
pub(super) fn harmless_branch(opened: &Opened) -> Result<Branch, String> {
    let (git, base) = (Git::in_repository(&opened.common), &opened.tree.base);
    match branch_tip(&git, &opened.slug)? {
        Some(tip) if tip != *base && count(&git, std::slice::from_ref(&tip), base)? == 0 => Ok(Branch::At(tip)),
        _ => Ok(Branch::At(base.clone())),
    }
}

pub(super) fn branch_tip(git: &Git<'_>, slug: &str) -> Result<Option<String>, String> {
    let tip = git.ask_line(["for-each-ref", "--format=%(objectname)", &format!("refs/heads/{}", branch_of(slug))])?;
    Ok((!tip.is_empty()).then_some(tip))
}

/// Every commit that was ever checked out here: one without a branch would be lost with the worktree.
fn checked_out_once(git: &Git<'_>, place: &Place) -> Result<BTreeSet<String>, String> {
    if let Ok(log) = fs::read(place.git_dir.join("logs/HEAD")) {
        let new = |line: &[u8]| line.split(|byte| *byte == b' ').nth(1).map(|oid| String::from_utf8_lossy(oid).into_owned());
        let is_commit = |oid: &String| oid.bytes().all(|byte| byte.is_ascii_hexdigit()) && !oid.bytes().all(|byte| byte == b'0');
        return Ok(log.split(|byte| *byte == b'\n').filter_map(new).filter(is_commit).collect());
    }
    if place.git_dir.join("reftable").exists() {
        return Ok(git.ask_line(["log", "--walk-reflogs", "--format=%H", "HEAD"])?.lines().map(str::to_owned).collect());
    }
    Ok(BTreeSet::new())
}

/// A task that works in a submodule of this worktree has its repository in here, and one that was started from here brings
/// its work home to here.
pub(super) fn has_no_tenants(workshop: &Workshop, opened: &Opened) -> Result<(), String> {
    let submodules = opened.record.as_ref().map(|record| record.submodules.as_slice()).unwrap_or_default();
    if let Some(submodule) = submodules.iter().find(|submodule| !names_in(&Path::new(&submodule.git_dir).join("worktrees")).is_empty()) {
        return Err(format!("another task has a worktree of its submodule {}", submodule.path));
    }
    let comes_home = |slug: &String| {
        let Ok(Some(record)) = workshop.record(slug) else { return false };
        let is_guest = *slug != opened.slug && record.state != State::Removing && record.tree.home == opened.tree.path;
        is_guest && !is_home(workshop, &record).unwrap_or(false)
    };
    match workshop.recorded().iter().find(|slug| comes_home(slug)) {
        Some(slug) => Err(format!("the work of task {slug} comes home to it, and has not yet")),
        None => Ok(()),
    }
}

/// Whether something of it was brought home, and nothing was done since.
fn is_home(workshop: &Workshop, record: &Record) -> Result<bool, String> {
    let opened = Opened::find(workshop, &record.tree)?;
    if !opened.is_merged() {
        return Ok(false);
    }
    let merged =
        Git::in_repository(&opened.common).ask(["rev-parse", "--verify", &format!("{}^{{tree}}", opened.from())]).and_then(text)?;
    Ok(merge::state_of(workshop, &opened)?.tree == merged)
}

/// Work in submodules, in words. It would be lost with the worktree, whether or not its commit is recorded above.
pub(super) fn in_submodules(workshop: &Workshop, record: Option<&Record>, place: &Place) -> Result<Vec<String>, String> {
    let known = record.map(|record| record.submodules.as_slice()).unwrap_or_default();
    let mut paths: BTreeSet<String> = known.iter().map(|submodule| submodule.path.clone()).collect();
    if place.top.join(".gitmodules").symlink_metadata().is_ok_and(|metadata| metadata.is_file()) {
        let listed = place.git().ask(["ls-files", "--stage", "-z"])?;
        let links = parts(&listed).filter(|entry| entry.starts_with(b"160000 "));
        let path = |entry: &[u8]| entry.splitn(2, |byte| *byte == b'\t').nth(1).map(|path| String::from_utf8_lossy(path).into_owned());
        paths.extend(links.filter_map(path));
    }
    let mut found = Vec::new();
    for path in paths {
        if place.top.join(&path).join(".git").symlink_metadata().is_err() {
            continue;
        }
        match known.iter().find(|submodule| submodule.path == path) {
            Some(submodule) => found.extend(in_submodule(workshop, submodule, place)?),
            None => found.push(format!("the submodule {path} was filled in it, and what is there is not known")),
        }
    }
    Ok(found)
}

fn in_submodule(workshop: &Workshop, submodule: &Submodule, place: &Place) -> Result<Option<String>, String> {
    let (git_dir, path) = (check_submodule(submodule)?, &submodule.path);
    let inner = Place { common: git_dir.clone(), git_dir, top: place.top.join(path) };
    let status = Status::of(&Index::of(workshop, &inner, Hidden::Shown)?.git(&inner))?;
    // Commits that were made there have no other home.
    let made = inner.git().ask_line(["rev-list", "--count", "--branches", "HEAD", "--not", "--remotes", "--tags", FIRST])?;
    let made: u64 = made.trim().parse().map_err(|_| "git counts commits in a way that is not understood".to_owned())?;
    let all: Vec<String> = [&status.changed, &status.untracked, &status.repositories]
        .into_iter()
        .flatten()
        .map(|path| String::from_utf8_lossy(path).into_owned())
        .collect();
    let more = if NAMED_MAX < all.len() { ", …" } else { "" };
    let named = || format!("{} ({}{more})", counted(all.len() as u64, "changed file"), all[..all.len().min(NAMED_MAX)].join(", "));
    let work = match (all.is_empty(), made) {
        (true, 0) => return Ok(None),
        (true, made) => format!("{} of its own", counted(made, "commit")),
        (false, 0) => named(),
        (false, made) => format!("{} and {} of its own", named(), counted(made, "commit")),
    };
    Ok(Some(format!("the submodule {path} has {work}, which a merge does not bring home")))
}
