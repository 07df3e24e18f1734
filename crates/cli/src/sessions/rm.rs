//! `posse sessions rm`: sessions by their ids, or all that have rested for long; and `retention`, which does the latter
//! once a day when a run has ended.
//!
//! By age only what nobody misses goes: whole trees at rest, without an owner, an open question, an open task or a message
//! that nobody has read. What a fork still shows is never removed, and neither is a session whose tasks have work in worktrees:
//! without it nobody could bring that home.

use std::{collections::HashSet, fs, path::PathBuf, sync::Arc, time::Duration};

use posse_api::{Client as _, words};
use posse_config::{Config, Places, parse_duration};
use posse_engine::{OpenError, World};
use posse_server::Local;
use posse_session::{Clock as _, LeaseError, Left, Log as _, SessionId, Summary, Timestamp, format_duration};
use posse_store::Sqlite;

use crate::{
    args::How,
    build,
    exit::{Exit, Failure},
    print::{safe, to_stderr, to_stdout},
    run::{client_failure, open_failure},
    worktrees::worktrees,
};

/// `retention` looks at most so often; a session that is a day too old harms nobody.
const LOOK_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// The time of this file says when `retention` last looked.
const STAMP: &str = "retention.stamp";

/// Less is not worth a word.
const SPACE_SHOWN_MIN: u64 = 1024 * 1024;

/// Tasks that a refusal names with their folders.
const UNMERGED_SHOWN_MAX: usize = 20;

/// Everything that a removal needs.
struct Shelf {
    places: Places,
    store: Arc<Sqlite>,
    world: Arc<World>,
    client: Local,
}

impl Shelf {
    fn open(places: Places, config: &Config) -> Result<Self, Failure> {
        let store = build::open_store(&places)?;
        let world = build::world(store.clone(), &places, config);
        Ok(Self { client: Local::new(world.clone()), places, store, world })
    }
}

pub(crate) async fn remove(ids: &[String]) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let config = build::configuration(&places, &How::default())?;
    let shelf = Shelf::open(places, &config)?;
    // All of them are known before the first one goes.
    let mut roots: Vec<SessionId> = Vec::new();
    for id in ids {
        let root = shelf.client.find(id).await.map_err(client_failure)?.root;
        if !roots.contains(&root) {
            roots.push(root);
        }
    }
    // A tree that somebody runs is refused anyway, and its work is not done.
    for root in &roots {
        if !shelf.client.is_run(root).await.map_err(client_failure)? {
            shelf.has_no_work(root).await?;
        }
    }
    // A fork that goes too is no reason to keep what it shows: it only has to go first.
    while !roots.is_empty() {
        let mut kept = None;
        let before = roots.len();
        let mut left = Vec::new();
        for root in roots {
            let forks = shelf.forks_of(&root).await?;
            if forks.is_empty() {
                to_stdout(&shelf.remove(&root).await?);
            } else {
                kept = Some((root.clone(), forks));
                left.push(root);
            }
        }
        if let Some((root, forks)) = kept.filter(|_| left.len() == before) {
            shelf.give_back().await;
            return Err(Failure::failed(format!(
                "{root} is kept: forks of it still show what was said there ({}); remove them first, or name them too",
                names(&forks)
            )));
        }
        roots = left;
    }
    shelf.give_back().await;
    Ok(Exit::Done)
}

/// `30 days`, as ages are written; what is no whole day is told exactly.
fn in_days(age: Duration) -> String {
    const DAY: u64 = 24 * 60 * 60;
    match age.as_secs() {
        seconds if seconds != 0 && seconds.is_multiple_of(DAY) => words::count(seconds / DAY, "day"),
        _ => format_duration(age),
    }
}

pub(crate) async fn remove_older(age: Duration, dry_run: bool) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    if !posse_store::Sqlite::is_in(places.project_data_dir()) {
        to_stderr("posse: there are no sessions here yet");
        return Ok(Exit::Done);
    }
    let config = build::configuration(&places, &How::default())?;
    let shelf = Shelf::open(places, &config)?;
    let mut gone = 0;
    for root in shelf.rested(age).await? {
        let forks = shelf.forks_of(&root.session).await?;
        if !forks.is_empty() {
            to_stderr(&format!("posse: {} is kept: a fork still shows what was said there ({})", root.session, names(&forks)));
            continue;
        }
        let unmerged = shelf.unmerged(&shelf.tree(&root.session).await?).await?;
        if !unmerged.is_empty() {
            to_stderr(&safe(&format!("posse: {}", kept_for(&root.session, &unmerged))));
            continue;
        }
        let resting = words::age(build::SystemClock.now().since(root.updated));
        if dry_run {
            to_stdout(&format!("would remove {}  {resting} ago  {}", root.session, safe(&root.title)));
        } else if let Some(said) = shelf.remove_if_rested(&root.session, age).await? {
            to_stdout(&said);
        } else {
            continue;
        }
        gone += 1;
    }
    if !dry_run {
        shelf.give_back().await;
    }
    if gone == 0 {
        to_stderr(&format!("posse: no session here has rested for {}", in_days(age)));
    }
    Ok(Exit::Done)
}

impl Shelf {
    async fn forks_of(&self, root: &SessionId) -> Result<Vec<SessionId>, Failure> {
        self.store.forks_of(root).await.map_err(|error| Failure::failed(words::storage(&error.to_string())))
    }

    /// Removes a tree, whatever state it is in, and says so.
    async fn remove(&self, root: &SessionId) -> Result<String, Failure> {
        let owner = self.world.lease.take(root).await.map_err(|error| open_failure(OpenError::from(error)))?;
        // A task may have worked since all of them were looked at.
        self.has_no_work(root).await?;
        self.remove_owned(&owner).await
    }

    /// Removes a tree if it is still at rest once it is ours; somebody may have woken it meanwhile.
    async fn remove_if_rested(&self, root: &SessionId, age: Duration) -> Result<Option<String>, Failure> {
        let owner = match self.world.lease.take(root).await {
            Ok(owner) => owner,
            Err(LeaseError::Held { .. }) => return Ok(None),
            Err(error) => return Err(open_failure(OpenError::from(error))),
        };
        let tree = self.tree(root).await?;
        let has_mail = !self.world.inbox.waiting(root).await.map_err(|error| open_failure(OpenError::from(error)))?.is_empty();
        if has_mail || !has_rested(&tree, build::SystemClock.now(), age) || !self.unmerged(&tree).await?.is_empty() {
            return Ok(None);
        }
        self.remove_owned(&owner).await.map(Some)
    }

    /// What the tasks of a tree have in worktrees and nobody has brought home.
    async fn unmerged(&self, tree: &[Summary]) -> Result<Vec<Unmerged>, Failure> {
        if !self.places.worktrees_dir().exists() {
            return Ok(Vec::new());
        }
        let (yard, tasks) = (worktrees(&self.places), tree.iter().map(|task| task.session.clone()).collect::<Vec<_>>());
        let look = move || {
            let mut found = Vec::new();
            for task in tasks {
                // Of one whose record cannot be read nobody can bring anything home, so it keeps nothing.
                let Ok(Some(worktree)) = yard.find(task.as_str()) else { continue };
                let left = yard.look(&worktree);
                let is_lost = !yard.has_repository(&worktree);
                if !left.clean && !is_lost {
                    found.push(Unmerged { task, left });
                }
            }
            found
        };
        tokio::task::spawn_blocking(look).await.map_err(|error| Failure::failed(error.to_string()))
    }

    async fn has_no_work(&self, root: &SessionId) -> Result<(), Failure> {
        let unmerged = self.unmerged(&self.tree(root).await?).await?;
        if unmerged.is_empty() { Ok(()) } else { Err(Failure::failed(kept_for(root, &unmerged))) }
    }

    async fn remove_owned(&self, owner: &posse_session::Ownership) -> Result<String, Failure> {
        let lasting = self.lasting_answers(&owner.root).await?;
        let tree = self.tree(&owner.root).await?;
        let removed = self.store.remove(owner).await.map_err(|error| Failure::failed(words::storage(&error.to_string())))?;
        // What its calls had printed goes with it; a folder that is not there is fine.
        for gone in &tree {
            let _ = fs::remove_dir_all(build::spool(&self.places, &gone.session));
        }
        self.forget_merges(&tree).await;
        let gone = match lasting {
            0 => String::new(),
            1 => "; 1 lasting answer of this session no longer counts".to_owned(),
            several => format!("; {several} lasting answers of this session no longer count"),
        };
        Ok(format!("removed {} ({}){gone}", owner.root, words::count(removed, "session")))
    }

    /// Which of these tasks wrote what is nobody's to ask any more. What cannot be forgotten now, `posse doctor --clean` forgets.
    async fn forget_merges(&self, tree: &[Summary]) {
        if !self.places.worktrees_dir().exists() || !self.places.project.join(".git").exists() {
            return;
        }
        let slugs: Vec<String> =
            tree.iter().filter(|gone| gone.is_task()).map(|gone| posse_tools::Worktrees::slug(gone.session.as_str())).collect();
        let (yard, home) = (worktrees(&self.places), self.places.project.clone());
        if !slugs.is_empty() {
            let _ = tokio::task::spawn_blocking(move || yard.forget_merges(&home, &slugs)).await;
        }
    }

    async fn tree(&self, root: &SessionId) -> Result<Vec<Summary>, Failure> {
        self.world.log.summaries(Some(root)).await.map_err(|error| Failure::failed(words::storage(&error.to_string())))
    }

    /// The answers given in a tree that reach beyond one call.
    async fn lasting_answers(&self, root: &SessionId) -> Result<usize, Failure> {
        let granting = self.client.granting().await.map_err(client_failure)?;
        let granted = granting.iter().filter(|known| known.root == *root).flat_map(|known| &known.granted);
        Ok(granted.map(|granted| &granted.ask).collect::<HashSet<_>>().len())
    }

    /// The roots of trees that have rested for so long, oldest first.
    async fn rested(&self, age: Duration) -> Result<Vec<Summary>, Failure> {
        let mut all = self.client.sessions().await.map_err(client_failure)?;
        all.sort_by(|one, other| (&one.root, &one.session).cmp(&(&other.root, &other.session)));
        let now = build::SystemClock.now();
        let mut found = Vec::new();
        for tree in all.chunk_by(|one, other| one.root == other.root).filter(|tree| has_rested(tree, now, age)) {
            let Some(root) = tree.iter().find(|summary| summary.session == summary.root) else { continue };
            let is_held = self.client.is_run(&root.session).await.map_err(client_failure)?;
            let mail = self.world.inbox.waiting(&root.session).await.map_err(|error| open_failure(OpenError::from(error)))?;
            if !is_held && mail.is_empty() {
                found.push(root.clone());
            }
        }
        found.sort_by_key(|root| root.updated);
        Ok(found)
    }

    /// Says how much room there is now, where it is worth a word. That there is less than could be is no failure.
    async fn give_back(&self) {
        match self.store.give_back().await {
            Ok((given, _)) if SPACE_SHOWN_MIN <= given => to_stderr(&format!("posse: {} MB were given back to the disk", given >> 20)),
            Ok((_, free)) if SPACE_SHOWN_MIN <= free => {
                to_stderr(&format!("posse: {} MB inside the database are free for sessions to come", free >> 20));
            }
            Ok(_) => {}
            Err(error) => to_stderr(&format!("posse: the space could not be given back to the disk: {error}")),
        }
    }
}

/// Nothing goes on in the tree, nobody is asked anything, and the last word is old enough.
fn has_rested(tree: &[Summary], now: Timestamp, age: Duration) -> bool {
    let is_quiet = |summary: &Summary| {
        summary.is_over() && summary.asks.is_empty() && summary.open_tasks == 0 && summary.open_calls == 0 && summary.kept.is_empty()
    };
    !tree.is_empty() && tree.iter().all(|summary| is_quiet(summary) && age <= now.since(summary.updated))
}

/// A task whose work is not home.
struct Unmerged {
    task: SessionId,
    left: Left,
}

/// Why a session stays, by task: where its work is, and what to do about it.
fn kept_for(root: &SessionId, unmerged: &[Unmerged]) -> String {
    let mut text = format!("{root} is kept: work of its tasks is in worktrees, and without it nobody could bring that home.");
    for Unmerged { task, left } in unmerged.iter().take(UNMERGED_SHOWN_MAX) {
        let counts = match (left.files, left.commits) {
            (0, 0) => String::new(),
            (files, commits) => format!("{}, {}", words::count(files, "changed file"), words::count(commits, "commit")),
        };
        let parts = [counts.as_str(), left.unknown.as_str()].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ");
        text.push_str(&format!("\n  {task}  {}  {parts}", left.path));
    }
    if let Some(more) = unmerged.len().checked_sub(UNMERGED_SHOWN_MAX).filter(|more| 0 < *more) {
        text.push_str(&format!("\n  and {more} more: `posse doctor` lists them"));
    }
    let tasks = unmerged.iter().take(UNMERGED_SHOWN_MAX).map(|unmerged| unmerged.task.as_str()).collect::<Vec<_>>().join(" ");
    text.push_str(&format!(
        "\nBring it home with `posse tasks merge {tasks}`, or throw it away with `posse tasks discard {tasks}`; then remove it again"
    ));
    text
}

fn names(forks: &[SessionId]) -> String {
    forks.iter().map(SessionId::as_str).collect::<Vec<_>>().join(", ")
}

/// What the configuration says about how long sessions are kept. Nothing goes unless the user wants it.
pub(crate) struct Retention(Option<(Places, Config, Duration)>);

impl Retention {
    pub(crate) fn of(places: &Places, config: &Config) -> Result<Self, Failure> {
        let Some(later) = config.later.iter().rev().find(|later| later.key == "retention" && later.trusted) else { return Ok(Self(None)) };
        let age = later.value.as_str().or_else(|| later.value["age"].as_str()).unwrap_or_default();
        if matches!(age, "off" | "never") {
            return Ok(Self(None));
        }
        let words = |error| Failure::usage(format!("{}: retention: {error}; write for example {{\"age\": \"90d\"}}", later.origin));
        Ok(Self(Some((places.clone(), config.clone(), parse_duration(age).map_err(words)?))))
    }

    /// Removes what is too old, if it was not looked for today. A failure of this must not be one of the run.
    pub(crate) async fn apply(self, quiet: bool) {
        let Some((places, config, age)) = self.0 else { return };
        let stamp = places.project_data_dir().join(STAMP);
        if !is_due(&stamp) {
            return;
        }
        match old_ones_gone(places, &config, age).await {
            Ok((gone, kept)) if !quiet => {
                if 0 < gone {
                    let sessions = words::count(gone, "session");
                    to_stderr(&format!("posse: removed {sessions} that had rested for {} (`retention`)", in_days(age)));
                }
                if 0 < kept {
                    let (sessions, are) = (words::count(kept, "session"), if kept == 1 { "is" } else { "are" });
                    to_stderr(&format!(
                        "posse: {sessions} {are} kept though older than {} (`retention`): work of tasks is not home yet; `posse doctor` lists it",
                        in_days(age)
                    ));
                }
            }
            Ok(_) => {}
            Err(failure) => to_stderr(&format!("posse: old sessions could not be removed: {}", failure.into_words())),
        }
    }
}

/// Notes that it was looked for before it is, so that several runs that end together do it once.
fn is_due(stamp: &PathBuf) -> bool {
    let last = fs::metadata(stamp).and_then(|file| file.modified()).ok();
    let is_fresh = last.is_some_and(|last| last.elapsed().is_ok_and(|since| since < LOOK_EVERY));
    !is_fresh && fs::write(stamp, "").is_ok()
}

/// How many went, and how many are kept for work that is not home.
async fn old_ones_gone(places: Places, config: &Config, age: Duration) -> Result<(u64, u64), Failure> {
    let shelf = Shelf::open(places, config)?;
    let (mut gone, mut kept) = (0, 0);
    for root in shelf.rested(age).await? {
        if !shelf.unmerged(&shelf.tree(&root.session).await?).await?.is_empty() {
            kept += 1;
        } else if shelf.forks_of(&root.session).await?.is_empty() && shelf.remove_if_rested(&root.session, age).await?.is_some() {
            gone += 1;
        }
    }
    if 0 < gone {
        // In silence: this is not what the user came for.
        let _ = shelf.store.give_back().await;
    }
    Ok((gone, kept))
}

#[cfg(test)]
mod tests {
    use posse_session::Status;

    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn at_rest(session: &str, updated: u64) -> Summary {
        Summary { status: Status::Completed, updated: Timestamp(updated), ..Summary::new(SessionId::new(session)) }
    }

    #[test]
    fn only_a_whole_tree_at_rest_has_rested() {
        let now = Timestamp(2 * 86_400_000);
        let old = at_rest("ses_a", 1);
        assert!(has_rested(std::slice::from_ref(&old), now, DAY));
        assert!(!has_rested(std::slice::from_ref(&old), now, 3 * DAY));
        assert!(!has_rested(&[], now, DAY));
        let recent = at_rest("ses_b", 2 * 86_400_000 - 5);
        assert!(!has_rested(&[old.clone(), recent], now, DAY), "a task of it was at work");
        for status in [Status::Queued, Status::Running, Status::Waiting] {
            assert!(!has_rested(&[Summary { status, ..old.clone() }], now, DAY), "{status:?}");
        }
        assert!(!has_rested(&[Summary { open_tasks: 1, ..old.clone() }], now, DAY));
        assert!(!has_rested(&[Summary { open_calls: 1, ..old.clone() }], now, DAY));
        for status in [Status::Failed, Status::Stopped, Status::Limit] {
            assert!(has_rested(&[Summary { status, ..old.clone() }], now, DAY), "{status:?}");
        }
    }
}
