//! Bringing work home: a three-way merge of what a task began with, what is at home now, and what the task has.
//!
//! The merge happens on snapshots. Only when it is known to be free of conflicts is anything written, and before the first
//! file is, the repository keeps what is meant (`provenance.rs`); a killed merge is finished by the next command.

use std::{collections::BTreeSet, ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

use posse_session::Worktree;
use thiserror::Error;

use super::{
    apply::{self, ApplyError, Writing},
    conflicts::{Conflict, ConflictKind, Told},
    diff::{self, Changed, FileStatus},
    locks::Lock,
    looking,
    opened::Opened,
    place::{self, Place, text},
    provenance::{self, Kept, Provenance},
    refs,
    removing::{self, Branch},
    snapshot::{self, Snapshot, Untracked},
    workshop::Workshop,
};

/// Where work is brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Onto {
    /// The caller's files, as if a person had edited them; its index stays as it is.
    Home,
    /// A commit on a branch that is checked out nowhere.
    Branch(String),
}

/// What happens with the worktree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// It is removed, unless there is more in it than was brought home. A task that goes on gets it again.
    Release,
    Keep,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedFile {
    pub path: String,
    pub status: FileStatus,
    /// First line and number of lines, in the file as it is now.
    pub hunks: Vec<(u64, u64)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    pub files: Vec<MergedFile>,
    /// On the branch, or the one that keeps who wrote what.
    pub commit: String,
    /// The worktree is gone.
    pub released: bool,
    /// What the caller should know, in words: what could not come along, why the worktree was kept.
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MergeError {
    /// Everything in it was brought home before, or nothing was changed.
    #[error("there is nothing new in it")]
    NothingNew,
    /// Nothing was changed anywhere.
    #[error("{} files are in conflict with what is at home; nothing was changed", .0.len())]
    Conflicts(Vec<Conflict>),
    /// Somebody changed these meanwhile, or something is in the way. Nothing was changed; try again.
    #[error("these changed while the merge was made, or are in its way, so nothing was written: {}", .0.join(", "))]
    Stale(Vec<String>),
    #[error("{0}")]
    Failed(String),
}

impl From<String> for MergeError {
    fn from(words: String) -> Self {
        Self::Failed(words)
    }
}

pub(super) fn merge(
    workshop: &Workshop,
    tree: &Worktree,
    onto: &Onto,
    provenance: &Provenance,
    after: After,
) -> Result<Merged, MergeError> {
    super::git::check_version()?;
    let slug = workshop.slug_of(tree)?;
    let slug_lock = workshop.lock(&slug)?;
    let home = place::home_of(workshop, &tree.home)?;
    let (mut notes, brought) = {
        let _lock = home.lock()?;
        let notes = finish_all(workshop, &home, Some(&slug))?;
        (notes, bring(workshop, tree, &home, onto, provenance))
    };
    let released = match (&brought, after) {
        (Ok(_) | Err(MergeError::NothingNew), After::Release) => release(workshop, tree),
        _ => Err(String::new()),
    };
    if released.is_ok() {
        slug_lock.forget();
    }
    let (files, commit) = brought?;
    let is_released = released.is_ok();
    notes.extend(released.err().filter(|why| !why.is_empty()));
    Ok(Merged { files, commit, released: is_released, notes })
}

fn bring(
    workshop: &Workshop,
    tree: &Worktree,
    home: &Place,
    onto: &Onto,
    provenance: &Provenance,
) -> Result<(Vec<MergedFile>, String), MergeError> {
    let opened = Opened::find(workshop, tree)?.with_merged_of_refs()?;
    if home.common != opened.common {
        return Err(format!("{} belongs to another repository than when the task began", tree.home).into());
    }
    if let Ok(place) = &opened.place {
        looking::is_at_rest(place).map_err(|why| format!("{why}: finish or abort it first"))?;
    }
    let theirs = state_of(workshop, &opened)?;
    let git = home.git();
    let before = git.ask(["rev-parse", "--verify", &format!("{}^{{tree}}", opened.from())]).and_then(text)?;
    if theirs.tree == before {
        return Err(MergeError::NothingNew);
    }
    let ours = match onto {
        Onto::Home => home_now(workshop, home, &diff::changed(&git, opened.from(), &theirs.commit)?)?,
        Onto::Branch(name) => tip_of(home, name)?,
    };
    let result = three_way(home, opened.from(), &ours, &theirs.commit)?;
    let changed = diff::changed(&git, &ours, &result)?;
    refuse_submodules(&changed)?;
    let steps = apply::plan(&changed)?;
    let files = merged_files(&diff::hunks(&git, &ours, &result, &changed)?, &changed);
    let intent = Intent { opened: &opened, home, ours: &ours, theirs: &theirs, result: &result, provenance };
    let commit = match onto {
        Onto::Home => intent.write_home(workshop, steps)?,
        Onto::Branch(name) => intent.write_branch(name)?,
    };
    remember_merged(workshop, &opened.slug, &theirs.commit)?;
    Ok((files, commit))
}

/// What the task has now: its folder, or its branch if the folder is gone.
pub(super) fn state_of(workshop: &Workshop, opened: &Opened) -> Result<Snapshot, String> {
    let repository = super::git::Git::in_repository(&opened.common);
    match &opened.place {
        Ok(place) => snapshot::take(workshop, place, Untracked::All, "What a task has left in its worktree"),
        Err(_) if !Path::new(&opened.tree.path).exists() => {
            let tip = looking::newest(opened)?;
            let tree = repository.ask(["rev-parse", "--verify", &format!("{tip}^{{tree}}")]).and_then(text)?;
            Ok(Snapshot { commit: tip, tree, left_out: Vec::new(), is_head: true })
        }
        Err(words) => Err(words.clone()),
    }
}

/// A commit of the working tree at home, as far as it has to do with these changes.
fn home_now(workshop: &Workshop, home: &Place, changed: &[Changed]) -> Result<String, String> {
    let touched: BTreeSet<Vec<u8>> = changed.iter().map(|changed| changed.path.clone()).collect();
    let is_gone = |changed: &Changed| changed.old.is_some() && home.top.join(OsStr::from_bytes(&changed.path)).symlink_metadata().is_err();
    // A file that is gone may be an untracked one under another name by now, and what the task did to it belongs there.
    let untracked = if changed.iter().any(is_gone) { Untracked::All } else { Untracked::Near(&touched) };
    Ok(snapshot::take(workshop, home, untracked, "The working tree before a merge")?.commit)
}

fn tip_of(home: &Place, name: &str) -> Result<String, String> {
    let full = format!("refs/heads/{name}");
    let checked_out = home.repository().ask(["worktree", "list", "--porcelain", "-z"])?;
    if super::git::parts(&checked_out).any(|line| line == format!("branch {full}").as_bytes()) {
        return Err(format!("the branch {name} is checked out in a working tree: bring it to that folder, or to another branch"));
    }
    refs::value(&home.common, &format!("{full}^{{commit}}"))?.ok_or_else(|| format!("there is no branch {name}"))
}

/// The merged tree, or the conflicts.
fn three_way(home: &Place, base: &str, ours: &str, theirs: &str) -> Result<String, MergeError> {
    let git = home.git().with_setting("merge.conflictStyle=merge".to_owned());
    let said = git.run(["merge-tree", "--write-tree", "-z", "--messages", &format!("--merge-base={base}"), ours, theirs])?;
    let told = Told::read(&said.output);
    match (said.code, told) {
        (0, Some(told)) => Ok(told.tree),
        (1, Some(told)) => Err(MergeError::Conflicts(told.conflicts(&home.git(), ours, theirs))),
        _ => Err(MergeError::Failed(said.words())),
    }
}

/// The commits of a submodule lie in the worktree's own copy of it, which goes with the worktree.
fn refuse_submodules(changed: &[Changed]) -> Result<(), MergeError> {
    let moved = changed.iter().filter(|changed| [&changed.old, &changed.new].into_iter().flatten().any(diff::Entry::is_submodule));
    let conflicts: Vec<Conflict> = moved
        .map(|changed| Conflict {
            path: changed.shown(),
            kind: ConflictKind::Submodule,
            hunks: Vec::new(),
            words: "the task changed which commit of this submodule, or of a repository inside of its worktree, is meant; bring those commits home by hand, and set the submodule back in the worktree".into(),
        })
        .collect();
    if conflicts.is_empty() { Ok(()) } else { Err(MergeError::Conflicts(conflicts)) }
}

fn merged_files(hunks: &[Vec<(u64, u64)>], changed: &[Changed]) -> Vec<MergedFile> {
    let file =
        |(changed, hunks): (&Changed, &Vec<(u64, u64)>)| MergedFile { path: changed.shown(), status: changed.status, hunks: hunks.clone() };
    changed.iter().zip(hunks).map(file).collect()
}

/// Everything that is known before something is written.
struct Intent<'a> {
    opened: &'a Opened,
    home: &'a Place,
    ours: &'a str,
    theirs: &'a Snapshot,
    result: &'a str,
    provenance: &'a Provenance,
}

impl Intent<'_> {
    fn commit(&self) -> Result<String, String> {
        let message = provenance::message(self.provenance, &self.home.name());
        let git = self.home.repository().as_posse();
        git.ask(["commit-tree", self.result, "-p", self.ours, "-p", &self.theirs.commit, "-m", &message]).and_then(text)
    }

    fn name(&self) -> Result<String, String> {
        let slug = &self.opened.slug;
        Ok(format!("{}/{}", refs::merges(slug), provenance::next(&self.home.repository(), slug)?))
    }

    fn write_home(&self, workshop: &Workshop, steps: Vec<apply::Step>) -> Result<String, MergeError> {
        let slug = &self.opened.slug;
        let stopped = |error: ApplyError| match error {
            ApplyError::Stale(paths) => MergeError::Stale(paths),
            ApplyError::Failed(words) => MergeError::Failed(words),
        };
        let mut writing = Writing::prepare(workshop, self.home, steps)?;
        writing.check().map_err(stopped)?;
        let (commit, name) = (self.commit()?, self.name()?);
        workshop.step();
        refs::change(&self.home.common, &[format!("create {name} {commit}"), format!("create {} {commit}", refs::merging(slug))])?;
        match writing.write() {
            Ok(()) => {}
            Err(ApplyError::Stale(paths)) => {
                refs::change(&self.home.common, &[format!("delete {name}"), format!("delete {}", refs::merging(slug))])?;
                return Err(MergeError::Stale(paths));
            }
            Err(ApplyError::Failed(words)) => {
                return Err(MergeError::Failed(format!(
                    "{words}. The merge is half written; the next merge or `posse doctor` goes on with it"
                )));
            }
        }
        conclude(self.home, slug, &self.theirs.commit)?;
        workshop.step();
        Ok(commit)
    }

    /// One step for the repository: the branch has it, or nothing happened.
    fn write_branch(&self, name: &str) -> Result<String, MergeError> {
        let (common, slug) = (&self.home.common, &self.opened.slug);
        let git = self.home.git();
        let message = provenance::message(self.provenance, "");
        // The task's own commits become part of the history only where that leads to nobody's uncommitted changes.
        let is_below = |above: &str, below: &str| git.run(["merge-base", "--is-ancestor", above, below]).map(|said| said.code == 0);
        let is_history = self.theirs.is_head && is_below(&self.opened.tree.base, self.ours)?;
        let mut arguments = vec!["commit-tree", self.result, "-p", self.ours, "-m", &message];
        if is_history {
            arguments.extend(["-p", &self.theirs.commit]);
        }
        let known = git.with_setting("user.useConfigOnly=true".to_owned()).run(["var", "GIT_COMMITTER_IDENT"])?.code == 0;
        let author = if known { git.clone() } else { git.as_posse() };
        let on_branch = author.ask(arguments).and_then(text)?;
        let (commit, kept) = (self.commit()?, self.name()?);
        let lines = [
            format!("update refs/heads/{name} {on_branch} {}", self.ours),
            format!("create {kept} {commit}"),
            format!("update {} {}", refs::merged_name(slug), self.theirs.commit),
        ];
        refs::change(common, &lines)?;
        Ok(on_branch)
    }
}

/// The last word of a merge: it is not under way any more, and what it brought is known.
fn conclude(home: &Place, slug: &str, theirs: &str) -> Result<(), String> {
    refs::change(&home.common, &[format!("update {} {theirs}", refs::merged_name(slug)), format!("delete {}", refs::merging(slug))])
}

fn remember_merged(workshop: &Workshop, slug: &str, theirs: &str) -> Result<(), String> {
    match workshop.record(slug)? {
        Some(mut record) => {
            record.merged = Some(theirs.to_owned());
            workshop.remember(slug, &record)
        }
        None => Ok(()),
    }
}

/// Goes on with merges into this working tree that were killed. Returns what a person should know of them. The caller has
/// the repository's lock, and that of the task `held`.
pub(super) fn finish_all(workshop: &Workshop, home: &Place, held: Option<&str>) -> Result<Vec<String>, String> {
    let git = home.repository();
    let mut notes = Vec::new();
    for kept in Kept::all(&git, "refs/posse/merging")? {
        if kept.says("Posse-Home") != Some(&home.name()) {
            continue;
        }
        let (ours, theirs) = (format!("{}^1", kept.commit), format!("{}^2", kept.commit));
        let steps = apply::plan(&diff::changed(&git, &ours, &kept.commit)?)?;
        let left = Writing::prepare(workshop, home, steps)?.go_on()?;
        notes.extend(left.iter().map(|(path, why)| {
            let (path, slug) = (path.display(), kept.slug());
            format!("{path} was left as it is when the interrupted merge of task {slug} was finished: {why}; what the merge meant is `git show {}:{path}`", kept.commit)
        }));
        let theirs = git.ask(["rev-parse", "--verify", &theirs]).and_then(text)?;
        conclude(home, kept.slug(), &theirs)?;
        // Somebody who removes it meanwhile must not find its record again; the repository knows in any case.
        let lock = if held == Some(kept.slug()) { None } else { Lock::try_take(&workshop.lock_path(kept.slug()))? };
        if lock.is_some() || held == Some(kept.slug()) {
            remember_merged(workshop, kept.slug(), &theirs)?;
        }
    }
    Ok(notes)
}

/// Removes a worktree of which everything was brought home; else says why not.
fn release(workshop: &Workshop, tree: &Worktree) -> Result<(), String> {
    let opened = Opened::find(workshop, tree)?.with_merged_of_refs()?;
    if !opened.is_merged() {
        return Err(String::new());
    }
    if Path::new(&tree.path).symlink_metadata().is_ok() {
        let place = opened.place()?;
        let state = snapshot::take(workshop, place, Untracked::All, "What a task has left in its worktree")?;
        let merged = place.git().ask(["rev-parse", "--verify", &format!("{}^{{tree}}", opened.from())]).and_then(text)?;
        if let Some(path) = state.left_out.first() {
            return Err(format!("the worktree is kept: {path} in it is a repository of its own, which a merge cannot bring home"));
        }
        if state.tree != merged {
            return Err("the worktree is kept: it was changed after what was brought home".into());
        }
        looking::is_free(&opened, place).map_err(|why| format!("the worktree is kept: {why}"))?;
    }
    removing::remove(workshop, &opened, Branch::Whatever)
}
