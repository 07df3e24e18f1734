//! Bringing work home: a three-way merge of what a task began with, what is at home now, and what the task has.
//!
//! The merge happens on snapshots. Only when it is known to be free of conflicts is anything written, and before the first
//! file is, the repository keeps what is meant (`provenance.rs`); a killed merge is finished by the next command.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use posse_session::Worktree;
use thiserror::Error;

use super::{
    apply::{self, ApplyError, Writing},
    began,
    conflicts::{Conflict, ConflictKind, Told},
    diff::{self, Changed, FileStatus},
    index::Hidden,
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

/// Files that a note names; the list of a merge itself is whole.
const TOLD_MAX: usize = 20;

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
    #[error("in conflict with what is at home in {}; nothing was changed", if .0.len() == 1 { "1 file".to_owned() } else { format!("{} files", .0.len()) })]
    Conflicts(Vec<Conflict>),
    /// Somebody changed these meanwhile, or something is in the way. Nothing was changed; try again.
    #[error("these changed while the merge was made, or are in its way, so nothing was written: {}", .0.join(", "))]
    Stale(Vec<String>),
    /// These would change too, and nobody was asked about them. Nothing was changed.
    #[error(
        "it would also change {}, which this was not judged by, so nothing was changed: something was renamed since. Try again, or the user can bring the work home with `posse tasks merge`",
        .0.join(", ")
    )]
    Unjudged(Vec<String>),
    /// Interrupted merges were finished first, which changed files; and then this.
    #[error("{}. Then: {error}", .notes.join(". "))]
    Noted { notes: Vec<String>, error: Box<MergeError> },
    #[error("{0}")]
    Failed(String),
}

impl MergeError {
    pub fn is_nothing_new(&self) -> bool {
        match self {
            Self::NothingNew => true,
            Self::Noted { error, .. } => error.is_nothing_new(),
            _ => false,
        }
    }
}

impl From<String> for MergeError {
    fn from(words: String) -> Self {
        Self::Failed(words)
    }
}

/// What came home.
struct Brought {
    files: Vec<MergedFile>,
    commit: String,
    /// What did not, in words: the work is still where it was.
    left: Vec<String>,
}

pub(super) fn merge(
    workshop: &Workshop,
    tree: &Worktree,
    onto: &Onto,
    provenance: &Provenance,
    after: After,
    judged: Option<&BTreeSet<String>>,
) -> Result<Merged, MergeError> {
    super::git::check_version()?;
    let slug = workshop.slug_of(tree)?;
    let slug_lock = workshop.lock(&slug)?;
    let record = workshop.record(&slug)?;
    let (home, elsewhere) = match (place::nearest_home(workshop, tree, record.as_ref()), onto, &record) {
        // A branch needs nobody's files.
        (Err(_), Onto::Branch(_), Some(record)) => (Place::without_files(Path::new(&record.common)), None),
        (found, _, _) => found?,
    };
    let (notes, brought) = {
        let lock = home.lock()?;
        let finished = if home.has_files() { finish_all(workshop, &home, &lock, &slug)? } else { Finished::default() };
        match (finished.own, onto) {
            (Some(own), Onto::Home) => (finished.notes, Ok(own)),
            (own, _) => {
                let own = own.map(|own| told(&slug, &own));
                let notes = finished.notes.into_iter().chain(own.into_iter().flatten()).collect();
                (notes, bring(workshop, tree, &Target { home: &home, lock: &lock, onto, judged }, provenance))
            }
        }
    };
    let is_whole = match &brought {
        Ok(brought) => brought.left.is_empty(),
        Err(error) => *error == MergeError::NothingNew,
    };
    let released = if is_whole && after == After::Release { release(workshop, tree, onto) } else { Err(String::new()) };
    let left_behind = || Opened::find(workshop, tree).and_then(|opened| looking::left_behind(workshop, &opened));
    // What was brought is brought: what cannot be told is only said.
    let behind = if released.is_err() { left_behind().unwrap_or_else(|words| vec![words]) } else { Vec::new() };
    if released.is_ok() {
        slug_lock.forget();
    }
    let brought = match brought {
        Err(MergeError::NothingNew) if !behind.is_empty() => {
            let (path, behind) = (&tree.path, behind.join("; "));
            Err(MergeError::Failed(format!(
                "there is nothing in it that a merge can bring home, so it is kept: {behind}. Take that over from {path} yourself"
            )))
        }
        brought => brought,
    };
    let brought = match brought {
        Ok(brought) => brought,
        Err(error) if notes.is_empty() => return Err(error),
        Err(error) => return Err(MergeError::Noted { notes, error: Box::new(error) }),
    };
    let is_released = released.is_ok();
    let why_kept = released.err().filter(|why| !why.is_empty());
    let elsewhere = elsewhere.filter(|_| *onto == Onto::Home);
    let notes = notes.into_iter().chain(elsewhere).chain(brought.left).chain(why_kept.map_or(behind, |why| vec![why])).collect();
    Ok(Merged { files: brought.files, commit: brought.commit, released: is_released, notes })
}

/// Where something is brought, while its repository is locked.
struct Target<'a> {
    home: &'a Place,
    lock: &'a Lock,
    onto: &'a Onto,
    /// Paths that may change; none says any.
    judged: Option<&'a BTreeSet<String>>,
}

/// What a merge would come to: three states and what changes where it is brought.
struct Planned {
    ours: String,
    theirs: Snapshot,
    result: String,
    changed: Vec<Changed>,
}

fn planned(workshop: &Workshop, tree: &Worktree, opened: &Opened, home: &Place, onto: &Onto) -> Result<Planned, MergeError> {
    if home.common != opened.common {
        return Err(format!("{} belongs to another repository than when the task began", tree.home).into());
    }
    if let Ok(place) = &opened.place {
        looking::is_at_rest(place).map_err(|why| format!("{why}: finish or abort it first"))?;
    }
    let theirs = state_of(workshop, opened)?;
    let git = home.git();
    let base = began::base(opened, &theirs.commit)?;
    let before = git.ask(["rev-parse", "--verify", &format!("{base}^{{tree}}")]).and_then(text)?;
    if theirs.tree == before {
        return Err(MergeError::NothingNew);
    }
    let ours = match onto {
        Onto::Home => home_now(workshop, home, &diff::changed(&git, &base, &theirs.commit)?)?,
        Onto::Branch(name) => tip_of(home, name)?,
    };
    let result = three_way(home, &base, &ours, &theirs.commit)?;
    let changed = diff::changed(&git, &ours, &result)?;
    refuse_submodules(&changed)?;
    Ok(Planned { ours, theirs, result, changed })
}

/// The paths that a merge would change where it is brought, if it was made now. They are not those of the task where files were
/// renamed there since. Nothing is written but objects that no name leads to, and nobody is waited for.
pub(super) fn foreseen(workshop: &Workshop, tree: &Worktree, onto: &Onto) -> Result<Vec<String>, MergeError> {
    super::git::check_version()?;
    let record = workshop.record(&workshop.slug_of(tree)?)?;
    let (home, _) = place::nearest_home(workshop, tree, record.as_ref())?;
    let opened = Opened::find(workshop, tree)?.for_target(onto)?;
    Ok(planned(workshop, tree, &opened, &home, onto)?.changed.iter().map(Changed::shown).collect())
}

fn bring(workshop: &Workshop, tree: &Worktree, target: &Target<'_>, provenance: &Provenance) -> Result<Brought, MergeError> {
    let Target { home, lock, onto, judged } = *target;
    let opened = Opened::find(workshop, tree)?.for_target(onto)?;
    let Planned { ours, theirs, result, changed } = planned(workshop, tree, &opened, home, onto)?;
    let unjudged = changed.iter().map(Changed::shown).filter(|path| judged.is_some_and(|judged| !judged.contains(path)));
    let unjudged: Vec<String> = unjudged.collect();
    if !unjudged.is_empty() {
        return Err(MergeError::Unjudged(unjudged));
    }
    let steps = apply::plan(&changed)?;
    let files = merged_files(&diff::hunks(&home.git(), &ours, &result, &changed)?, &changed);
    let intent = Intent { opened: &opened, home, lock, ours: &ours, theirs: &theirs, result: &result, provenance };
    let commit = match onto {
        Onto::Home => intent.write_home(workshop, steps, &files)?,
        Onto::Branch(name) => intent.write_branch(name)?,
    };
    if *onto == Onto::Home {
        remember_merged(workshop, &opened.slug, &theirs.commit)?;
    }
    Ok(Brought { files, commit, left: Vec::new() })
}

/// What the task has now: its folder, or its branch if the folder is gone.
pub(super) fn state_of(workshop: &Workshop, opened: &Opened) -> Result<Snapshot, String> {
    let repository = super::git::Git::in_repository(&opened.common);
    match &opened.place {
        Ok(place) => snapshot::of_worktree(workshop, place),
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
    Ok(snapshot::take(workshop, home, untracked, Hidden::ShownAt(&touched), "The working tree before a merge")?.commit)
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
    lock: &'a Lock,
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

    fn write_home(&self, workshop: &Workshop, steps: Vec<apply::Step>, files: &[MergedFile]) -> Result<String, MergeError> {
        let slug = &self.opened.slug;
        let mut writing = Writing::prepare(workshop, self.home, steps)?;
        writing.check().map_err(|error| self.stopped(error))?;
        let (commit, name) = (self.commit()?, self.name()?);
        workshop.step();
        refs::change(
            &self.home.common,
            &[format!("create {name} {commit}"), format!("create {} {commit}", refs::merging(slug))],
            self.lock,
        )?;
        if let Err(error) = writing.write() {
            if !matches!(error, ApplyError::Half(_)) {
                let lines = [format!("delete {name}"), format!("delete {}", refs::merging(slug))];
                refs::change(&self.home.common, &lines, self.lock)?;
            }
            return Err(self.stopped(error));
        }
        tell(workshop, slug, files);
        conclude(self.home, self.lock, slug, Some(&self.theirs.commit))?;
        workshop.step();
        Ok(commit)
    }

    fn stopped(&self, error: ApplyError) -> MergeError {
        match error {
            ApplyError::Stale(paths) => self.left_out_at_home(&paths).unwrap_or(MergeError::Stale(paths)),
            ApplyError::Failed(words) => MergeError::Failed(words),
            ApplyError::Half(words) => {
                MergeError::Failed(format!("{words}. The merge is half written; the next merge or `posse doctor --clean` goes on with it"))
            }
        }
    }

    /// Trying again does not help with a file that home's sparse checkout leaves out.
    fn left_out_at_home(&self, paths: &[String]) -> Option<MergeError> {
        let literal = paths.iter().map(|path| format!(":(literal,top){path}"));
        let arguments = ["ls-files", "-t", "-z", "--"].map(str::to_owned).into_iter().chain(literal);
        let listed = self.home.git().ask(arguments).ok()?;
        let left_out: Vec<String> = super::git::parts(&listed)
            .filter_map(|entry| entry.strip_prefix(b"S "))
            .map(|path| String::from_utf8_lossy(path).into_owned())
            .collect();
        (!left_out.is_empty()).then(|| {
            MergeError::Failed(format!(
                "the sparse checkout of {} leaves out {}, so the merge cannot write there; nothing was changed. `git sparse-checkout add` their folders, or bring the work onto a branch",
                self.home.top.display(),
                left_out.join(", ")
            ))
        })
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
        let message = format!("What was brought onto {name}");
        let arguments = ["commit-tree", self.result, "-p", &on_branch, "-p", &self.theirs.commit, "-m", &message];
        let brought = self.home.repository().as_posse().ask(arguments).and_then(text)?;
        let lines = [
            format!("update refs/heads/{name} {on_branch} {}", self.ours),
            format!("create {kept} {commit}"),
            format!("update {} {brought}", refs::onto(slug, name)),
        ];
        refs::change(common, &lines, self.lock)?;
        Ok(on_branch)
    }
}

/// Before the last word of a merge, so that a merge which nobody was told of is still under way.
fn tell(workshop: &Workshop, slug: &str, files: &[MergedFile]) {
    if let Some(teller) = workshop.teller.as_ref().filter(|_| !files.is_empty()) {
        (teller.0)(slug, files.iter().map(|file| file.path.clone()).collect());
    }
}

/// The last word of a merge: it is not under way any more, and what it brought is known, if that is all of it.
fn conclude(home: &Place, lock: &Lock, slug: &str, theirs: Option<&str>) -> Result<(), String> {
    let merged = theirs.map(|theirs| format!("update {} {theirs}", refs::merged_name(slug)));
    let lines: Vec<String> = merged.into_iter().chain([format!("delete {}", refs::merging(slug))]).collect();
    refs::change(&home.common, &lines, lock)
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

/// Into which working tree an interrupted merge was written, as seen from one.
pub(super) enum Whose {
    Here,
    Elsewhere,
    /// It is gone.
    Nobodys,
}

impl Whose {
    pub(super) fn of(kept: &Kept, home: &Place) -> Self {
        let Some(name) = kept.says("Posse-Home") else { return Self::Elsewhere };
        if name == home.name() {
            return Self::Here;
        }
        let is_there = name == "main" || place::top_of_admin(&home.common.join(name)).is_some_and(|top| top.exists());
        if is_there { Self::Elsewhere } else { Self::Nobodys }
    }
}

/// What became of merges that were killed.
#[derive(Default)]
struct Finished {
    /// The one of the task that is being merged.
    own: Option<Brought>,
    /// Of the others, in words.
    notes: Vec<String>,
}

/// Goes on with merges into this working tree that were killed. One that cannot be finished stops only its own task.
fn finish_all(workshop: &Workshop, home: &Place, lock: &Lock, held: &str) -> Result<Finished, String> {
    let mut finished = Finished::default();
    for kept in Kept::all(&home.repository(), "refs/posse/merging")? {
        let (slug, is_held) = (kept.slug(), kept.slug() == held);
        match (Whose::of(&kept, home), is_held) {
            (Whose::Elsewhere, _) => {}
            (Whose::Nobodys, _) => conclude(home, lock, slug, None)?,
            (Whose::Here, true) => {
                let stuck = |words: String| {
                    format!(
                        "the interrupted merge of task {slug} cannot be finished: {words}. See to that, or give it up with `posse tasks discard`"
                    )
                };
                finished.own = Some(finish_one(workshop, home, lock, &kept, is_held).map_err(stuck)?);
            }
            (Whose::Here, false) => match finish_one(workshop, home, lock, &kept, is_held) {
                Ok(brought) => finished.notes.extend(told(slug, &brought)),
                Err(words) => finished.notes.push(format!("the interrupted merge of task {slug} cannot be finished: {words}")),
            },
        }
    }
    Ok(finished)
}

/// Finishes the interrupted merge of one task. Returns what a person should know of it.
pub(super) fn finish_that(workshop: &Workshop, home: &Place, lock: &Lock, slug: &str) -> Result<Vec<String>, String> {
    let Some(kept) = Kept::all(&home.repository(), &refs::merging(slug))?.into_iter().next() else { return Ok(Vec::new()) };
    match Whose::of(&kept, home) {
        Whose::Here => match finish_one(workshop, home, lock, &kept, false) {
            Ok(brought) => Ok(told(slug, &brought)),
            Err(words) => Err(format!(
                "the merge cannot be finished: {words}. See to that, or leave the files as they are and forget it: `git update-ref -d {}`",
                kept.name
            )),
        },
        Whose::Nobodys => conclude(home, lock, slug, None).map(|()| Vec::new()),
        Whose::Elsewhere => Ok(Vec::new()),
    }
}

fn told(slug: &str, brought: &Brought) -> Vec<String> {
    let files: Vec<&str> = brought.files.iter().take(TOLD_MAX).map(|file| file.path.as_str()).collect();
    let more = brought.files.len().checked_sub(TOLD_MAX).filter(|more| *more != 0).map(|more| format!(" and {more} more"));
    let note = format!("the interrupted merge of task {slug} was finished: {}{}", files.join(", "), more.unwrap_or_default());
    std::iter::once(note).chain(brought.left.iter().cloned()).collect()
}

fn finish_one(workshop: &Workshop, home: &Place, lock: &Lock, kept: &Kept, is_held: bool) -> Result<Brought, String> {
    let (git, slug) = (home.repository(), kept.slug());
    let ours = format!("{}^1", kept.commit);
    let changed = diff::changed(&git, &ours, &kept.commit)?;
    let mut files = merged_files(&diff::hunks(&git, &ours, &kept.commit, &changed)?, &changed);
    let theirs = git.ask(["rev-parse", "--verify", &format!("{}^2", kept.commit)]).and_then(text)?;
    let left = Writing::prepare(workshop, home, apply::plan(&changed)?)?.go_on()?;
    // What was left is new work still: the next merge brings it, three ways like everything.
    let theirs = left.is_empty().then_some(theirs);
    files.retain(|file| !left.iter().any(|(path, _)| path.to_string_lossy() == file.path));
    tell(workshop, slug, &files);
    conclude(home, lock, slug, theirs.as_deref())?;
    // Somebody who removes it meanwhile must not find its record again; the repository knows in any case.
    let slug_lock = if is_held { None } else { Lock::try_take(&workshop.lock_path(slug))? };
    if let Some(theirs) = theirs.filter(|_| is_held || slug_lock.is_some()) {
        remember_merged(workshop, slug, &theirs)?;
    }
    let words = |(path, why): &(PathBuf, String)| {
        let path = path.display();
        format!(
            "{path} was left as it is when the interrupted merge of task {slug} was finished: {why}; what the merge meant is `git show {}:{path}`, and the next merge of that task brings it",
            kept.commit
        )
    };
    Ok(Brought { files, commit: kept.commit.clone(), left: left.iter().map(words).collect() })
}

/// Takes back what a killed merge of a task has written, as far as nobody changed it since, and forgets the merge. Returns
/// what stays at home, in words.
pub(super) fn abandon(workshop: &Workshop, opened: &Opened) -> Result<Option<String>, String> {
    let git = super::git::Git::in_repository(&opened.common);
    let Some(kept) = Kept::all(&git, &refs::merging(&opened.slug))?.into_iter().next() else { return Ok(None) };
    let lock = place::lock_of(&opened.common)?;
    let take_back = || -> Result<Vec<String>, String> {
        let (home, _) = place::nearest_home(workshop, &opened.tree, opened.record.as_ref())?;
        if !matches!(Whose::of(&kept, &home), Whose::Here) {
            return Ok(Vec::new());
        }
        let steps = apply::plan(&diff::changed(&git, &format!("{}^1", kept.commit), &kept.commit)?)?;
        let left = Writing::prepare(workshop, &home, apply::backwards(&steps))?.go_on()?;
        Ok(left.into_iter().map(|(path, _)| path.to_string_lossy().into_owned()).collect())
    };
    // One that cannot even be read can still be thrown away.
    let stays = match take_back() {
        Ok(left) if left.is_empty() => None,
        Ok(left) => Some(format!("an interrupted merge of it was taken back, but for {}: somebody changed that since", left.join(", "))),
        Err(words) => Some(format!("an interrupted merge of it could not be taken back: {words}")),
    };
    let points_at = format!("--points-at={}", kept.commit);
    let merges = git.ask_line(["for-each-ref", "--format=%(refname)", &points_at, &refs::merges(&opened.slug)])?;
    let lines: Vec<String> = merges.lines().chain([kept.name.as_str()]).map(|name| format!("delete {name}")).collect();
    refs::change(&opened.common, &lines, &lock)?;
    Ok(stays)
}

/// Removes a worktree of which everything was brought home; else says why not.
fn release(workshop: &Workshop, tree: &Worktree, onto: &Onto) -> Result<(), String> {
    let opened = Opened::find(workshop, tree)?.for_target(onto)?;
    if !opened.is_merged() {
        return Err(String::new());
    }
    if Path::new(&tree.path).symlink_metadata().is_ok() {
        let place = opened.place()?;
        let state = snapshot::of_worktree(workshop, place)?;
        let merged = place.git().ask(["rev-parse", "--verify", &format!("{}^{{tree}}", opened.from())]).and_then(text)?;
        let behind = looking::left_behind(workshop, &opened)?;
        if !behind.is_empty() {
            return Err(format!("the worktree is kept: {}", behind.join("; ")));
        }
        if state.tree != merged {
            return Err("the worktree is kept: it was changed after what was brought home".into());
        }
        looking::is_free(workshop, &opened, place).map_err(|why| format!("the worktree is kept: {why}"))?;
    }
    removing::remove(workshop, &opened, Branch::Whatever)
}
