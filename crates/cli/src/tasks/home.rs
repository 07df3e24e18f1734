//! `posse tasks diff|merge|discard|wrote`: what tasks have changed in their worktrees, and bringing it home.
//!
//! Git is asked by `tools`; what became of it is told to the session that started the task, so that its model knows. A
//! task that is at work is left alone.

use std::{
    path::{Component, PathBuf},
    sync::Arc,
};

use posse_api::Client as _;
use posse_config::Places;
use posse_server::Local;
use posse_session::{Letter, SessionId, Summary, Worktree};
use posse_tools::{After, Conflict, DiffFile, Leftover, MergeError, Merged, Onto, Provenance, Worktrees, Written};
use serde_json::{Value, json};

use crate::{
    args::{How, Listing},
    build,
    exit::{Exit, Failure},
    print::{safe, to_stderr, to_stdout},
    worktrees::worktrees,
};

/// A task and the folder of its own in which it works.
struct Found {
    client: Arc<Local>,
    task: Summary,
    worktrees: Worktrees,
    worktree: Worktree,
}

impl Found {
    async fn of(id: &str) -> Result<Self, Failure> {
        let (client, task) = super::task(id, &How::default(), "posse sessions show").await?;
        let (client, places) = (Arc::new(client), build::places(None)?);
        let worktrees = telling(worktrees(&places), &client);
        let worktree = worktrees.find(task.session.as_str()).map_err(Failure::failed)?;
        let Some(worktree) = worktree else { return Err(Failure::usage(without(&client, &places, &task).await)) };
        Ok(Self { client, task, worktrees, worktree })
    }

    /// All of them, or why one cannot be brought home or thrown away: nothing is done then.
    async fn all_at_rest(ids: &[String]) -> Result<Vec<Self>, Failure> {
        let mut all = Vec::new();
        for id in ids {
            let found = Self::of(id).await?;
            found.at_rest()?;
            all.push(found);
        }
        Ok(all)
    }

    /// Whoever is at work changes what is looked at.
    fn at_rest(&self) -> Result<(), Failure> {
        if self.task.is_over() {
            return Ok(());
        }
        let id = &self.task.session;
        Err(Failure::failed(format!("{id} is still at work; wait for its end, or `posse tasks stop {id}` first")))
    }

    fn provenance(&self) -> Provenance {
        let Summary { session, agent, .. } = &self.task;
        Provenance { task: session.to_string(), agent: agent.clone(), description: self.about() }
    }

    /// What it was started for.
    fn about(&self) -> String {
        posse_api::description(&self.task).to_owned()
    }

    async fn tell(&self, paths: Vec<String>, onto: String, discarded: bool) {
        tell(&self.client, &self.task, paths, onto, discarded).await;
    }
}

/// The session that started a task is told with its next step.
async fn tell(client: &Local, task: &Summary, paths: Vec<String>, onto: String, discarded: bool) {
    let Some(parent) = &task.parent else { return };
    let letter = Letter::BroughtHome { task: task.session.clone(), paths, onto, discarded };
    if let Err(error) = client.deliver(parent, letter).await {
        to_stderr(&format!("posse: {parent} could not be told of it: {error}; say it yourself when you go on with it"));
    }
}

/// What comes into files is told before the merge is over: whoever finishes a killed one tells of it in its place.
pub(crate) fn telling(worktrees: Worktrees, client: &Arc<Local>) -> Worktrees {
    let (client, runtime) = (client.clone(), tokio::runtime::Handle::current());
    // Merges are made on threads that may wait.
    worktrees.telling(move |slug, paths| {
        runtime.block_on(async {
            let all = client.sessions().await.unwrap_or_default();
            if let Some(task) = all.iter().find(|task| Worktrees::slug(task.session.as_str()) == slug) {
                tell(&client, task, paths, String::new(), false).await;
            }
        });
    })
}

/// Finishes merges of a tree's tasks that were killed, so that whoever goes on with it finds whole files and knows of them.
/// Answers with what a person should know.
pub(crate) async fn finish_killed(places: &Places, client: Local, root: &SessionId) -> Vec<String> {
    if !places.worktrees_dir().exists() || !places.project.join(".git").exists() {
        return Vec::new();
    }
    let (yard, home) = (worktrees(places), places.project.clone());
    let unfinished = at_work(move || yard.unfinished(&home)).await.ok().and_then(Result::ok).unwrap_or_default();
    if unfinished.is_empty() {
        return Vec::new();
    }
    let all = client.sessions().await.unwrap_or_default();
    let is_below = |slug: &str| all.iter().any(|task| task.root == *root && Worktrees::slug(task.session.as_str()) == slug);
    let (yard, home) = (telling(worktrees(places), &Arc::new(client)), places.project.clone());
    let own: Vec<_> = unfinished.into_iter().filter(|merge| merge.cleanable && is_below(&merge.slug)).collect();
    let finished = at_work(move || {
        let finish = |merge: &Leftover| {
            // Whoever is at work in it may be the one who merges.
            let _alone = yard.find(&merge.slug)?.map(|worktree| yard.alone(&worktree)).transpose()?;
            yard.clean(&home, merge)
        };
        own.iter().flat_map(|merge| finish(merge).unwrap_or_else(|words| vec![words])).collect::<Vec<String>>()
    });
    finished.await.unwrap_or_default()
}

/// Why a task has no worktree, and what to do.
async fn without(client: &Local, places: &Places, task: &Summary) -> String {
    let id = &task.session;
    let born = client.facts(id, 0).await.ok().and_then(|facts| facts.first().and_then(|record| posse_session::Birth::of(&record.event)));
    match born.and_then(|birth| birth.worktree) {
        Some(worktree) if worktree.is_foreign() => {
            format!("{id} works in {}, which your `worktree.create` command made: look at it there", worktree.path)
        }
        Some(_) => format!(
            "{id} has no worktree any more: it changed nothing, or its work was brought home or thrown away; `posse tasks wrote` tells"
        ),
        None => format!(
            "{id} has no worktree: it worked in {}; `posse sessions show --edits {id}` shows what it changed",
            folder_of(task, places)
        ),
    }
}

/// Where a task worked, for whoever stands there too.
fn folder_of(task: &Summary, places: &Places) -> String {
    match (task.directory.as_str(), places.shown(&PathBuf::from(&task.directory))) {
        ("", _) => "a folder that its record does not name".to_owned(),
        (here, shown) if shown.is_empty() => safe(here),
        (_, shown) => shown,
    }
}

async fn at_work<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Failure::failed(error.to_string()))
}

pub(super) async fn diff(id: &str, stat: bool, format: Listing) -> Result<Exit, Failure> {
    let found = Found::of(id).await?;
    let (worktrees, worktree) = (found.worktrees.clone(), found.worktree.clone());
    let diff = at_work(move || worktrees.diff(&worktree)).await?.map_err(Failure::failed)?;
    if format == Listing::Json {
        let files: Vec<Value> = diff.files.iter().map(file).collect();
        let text = String::from_utf8_lossy(&diff.text);
        let shown = json!({
            "task": found.task.session, "worktree": found.worktree.path, "branch": found.worktree.branch, "base": found.worktree.base,
            "files": files, "diff": text, "cut": diff.cut, "left_out": diff.left_out, "submodules": diff.submodules,
        });
        to_stdout(&shown.to_string());
        return Ok(Exit::Done);
    }
    if diff.files.is_empty() && diff.left_out.is_empty() && diff.submodules.is_empty() {
        to_stderr(&format!("posse: {} has changed nothing in {}", found.task.session, found.worktree.path));
    }
    if stat {
        diff.files.iter().for_each(|file| to_stdout(&safe(&stat_line(file))));
    } else {
        // An agent wrote it: on a terminal none of it is a command to the terminal.
        let text = String::from_utf8_lossy(&diff.text);
        let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
        for line in text.lines() {
            if is_terminal { to_stdout(&safe(line)) } else { to_stdout(line) }
        }
    }
    if diff.cut {
        to_stderr(&format!("posse: the rest is too long to show; look at it in {}", found.worktree.path));
    }
    for words in &diff.submodules {
        to_stderr(&safe(&format!("posse: {words}; look in {}", found.worktree.path)));
    }
    for folder in &diff.left_out {
        to_stderr(&safe(&format!("posse: {folder} is a repository of its own: what is in it is not shown and does not come home")));
    }
    Ok(Exit::Done)
}

fn file(file: &DiffFile) -> Value {
    json!({"path": file.path, "from": file.from, "status": file.status.word(), "added": file.added, "removed": file.removed})
}

fn stat_line(file: &DiffFile) -> String {
    let lines = match (file.added, file.removed) {
        (Some(added), Some(removed)) => format!("+{added} -{removed}"),
        _ => "binary".to_owned(),
    };
    let from = file.from.as_ref().map_or(String::new(), |from| format!(" (was {from})"));
    format!("{:<8} {}{from}  {lines}", file.status.word(), file.path)
}

/// Several are merged in the order in which they are named; one that is in conflict leaves the others to be merged.
pub(super) async fn merge(ids: &[String], onto: Option<&str>, keep: bool, format: Listing) -> Result<Exit, Failure> {
    let all = Found::all_at_rest(ids).await?;
    let (mut rows, mut exit) = (Vec::new(), Exit::Done);
    for found in &all {
        let onto = onto.map_or(Onto::Home, |branch| Onto::Branch(branch.to_owned()));
        let after = if keep { After::Keep } else { After::Release };
        let (worktrees, worktree, provenance) = (found.worktrees.clone(), found.worktree.clone(), found.provenance());
        let branch = if let Onto::Branch(branch) = &onto { branch.clone() } else { String::new() };
        let merged: Result<Merged, MergeError> = at_work(move || {
            let alone = worktrees.alone(&worktree)?;
            let merged = worktrees.merge(&worktree, &onto, &provenance, after, None);
            // Somebody else may have brought it home while it was waited for.
            if worktrees.find(&provenance.task).is_ok_and(|found| found.is_none()) {
                alone.retire();
            }
            merged
        })
        .await?;
        let row = match &merged {
            Ok(merged) => {
                // What came into files was told before the merge was over.
                if !branch.is_empty() {
                    found.tell(merged.files.iter().map(|file| file.path.clone()).collect(), branch.clone(), false).await;
                }
                told_merged(found, merged, &branch, format)
            }
            Err(error) => {
                if !error.is_nothing_new() {
                    exit = Exit::Failed;
                }
                told_refused(found, error, format)
            }
        };
        rows.push(row);
    }
    if format == Listing::Json {
        to_stdout(&Value::from(rows).to_string());
    }
    Ok(exit)
}

fn told_merged(found: &Found, merged: &Merged, branch: &str, format: Listing) -> Value {
    let (task, place) = (&found.task.session, if branch.is_empty() { found.worktree.home.as_str() } else { branch });
    if format == Listing::Text {
        let count = merged.files.len();
        to_stdout(&safe(&format!("{task}  {}  {count} {} into {place}", found.about(), if count == 1 { "file" } else { "files" })));
        for file in &merged.files {
            let places: Vec<String> = file.hunks.iter().map(|(start, lines)| format!("{start}+{lines}")).collect();
            to_stdout(&safe(&format!("  {:<8} {}  {}", file.status.word(), file.path, places.join(" "))));
        }
        merged.notes.iter().for_each(|note| to_stderr(&safe(&format!("posse: {note}"))));
    }
    let files: Vec<Value> =
        merged.files.iter().map(|file| json!({"path": file.path, "status": file.status.word(), "hunks": file.hunks})).collect();
    json!({"task": task, "status": "merged", "onto": place, "files": files, "commit": merged.commit, "removed": merged.released, "notes": merged.notes})
}

fn told_refused(found: &Found, error: &MergeError, format: Listing) -> Value {
    let task = &found.task.session;
    let (status, conflicts): (&str, &[Conflict]) = match error {
        MergeError::NothingNew => ("nothing new", &[]),
        MergeError::Conflicts(conflicts) => ("conflict", conflicts),
        MergeError::Noted { .. } if error.is_nothing_new() => ("nothing new", &[]),
        MergeError::Stale(_) | MergeError::Failed(_) | MergeError::Unjudged(_) | MergeError::Noted { .. } => ("failed", &[]),
    };
    if format == Listing::Text {
        to_stderr(&safe(&format!("posse: {task}  {}: {error}", found.about())));
        for conflict in conflicts {
            to_stdout(&safe(&format!("conflict {}  {}", conflict.path, conflict.words)));
            for hunk in &conflict.hunks {
                to_stdout(&safe(&format!("  line {}:", hunk.ours_line)));
                hunk.text.lines().for_each(|line| to_stdout(&safe(&format!("  {line}"))));
            }
        }
        if !conflicts.is_empty() {
            to_stderr(&format!(
                "posse: {} is untouched. `posse tasks send {task} TEXT` lets the task change its work; then merge it again",
                found.worktree.home
            ));
        }
    }
    let shown: Vec<Value> = conflicts
        .iter()
        .map(|conflict| {
            let hunks: Vec<Value> = conflict.hunks.iter().map(|hunk| json!({"line": hunk.ours_line, "text": hunk.text})).collect();
            json!({"path": conflict.path, "kind": format!("{:?}", conflict.kind).to_lowercase(), "words": conflict.words, "hunks": hunks})
        })
        .collect();
    json!({"task": task, "status": status, "words": error.to_string(), "conflicts": shown})
}

pub(super) async fn discard(ids: &[String], format: Listing) -> Result<Exit, Failure> {
    let all = Found::all_at_rest(ids).await?;
    let (mut rows, mut exit) = (Vec::new(), Exit::Done);
    for found in &all {
        let (worktrees, worktree) = (found.worktrees.clone(), found.worktree.clone());
        let gone = at_work(move || {
            let alone = worktrees.alone(&worktree)?;
            let left = worktrees.discard(&worktree)?;
            alone.retire();
            Ok::<_, String>(left)
        })
        .await?;
        let left = match gone {
            Ok(left) => left,
            Err(words) => {
                to_stderr(&safe(&format!("posse: {}  {}: {words}", found.task.session, found.about())));
                rows.push(json!({"task": found.task.session, "status": "failed", "words": words}));
                exit = Exit::Failed;
                continue;
            }
        };
        found.tell(Vec::new(), String::new(), true).await;
        if format == Listing::Text {
            let count = |number: u64, one: &str| format!("{number} {one}{}", if number == 1 { "" } else { "s" });
            let (files, commits) = (count(left.files, "changed file"), count(left.commits, "commit"));
            to_stdout(&safe(&format!("{}  {}: thrown away, {files} and {commits} of {}", found.task.session, found.about(), left.branch)));
            if !left.unknown.is_empty() {
                to_stderr(&safe(&format!("posse: {}", left.unknown)));
            }
        }
        rows.push(json!({"task": found.task.session, "status": "discarded", "files": left.files, "commits": left.commits}));
    }
    if format == Listing::Json {
        to_stdout(&Value::from(rows).to_string());
    }
    Ok(exit)
}

/// As seen from the project's top, however it is written; nothing for the top itself.
fn from_the_top(places: &Places, path: &str) -> Result<Option<String>, Failure> {
    let mut full = PathBuf::new();
    // What is meant may be gone, so nothing is looked up.
    for part in places.cwd.join(path).components() {
        match part {
            Component::ParentDir => drop(full.pop()),
            Component::CurDir => {}
            part => full.push(part),
        }
    }
    match full.strip_prefix(&places.project) {
        Ok(below) if below.as_os_str().is_empty() => Ok(None),
        Ok(below) => Ok(Some(below.to_string_lossy().into_owned())),
        Err(_) => Err(Failure::usage(format!("{path} is not in {}, so no task brought anything home there", places.project.display()))),
    }
}

/// Where lines are, and how many are not.
fn shown_lines(written: &Written) -> String {
    let mut shown: Vec<String> = written.hunks.iter().map(|(start, lines)| format!("{start}+{lines}")).collect();
    match written.gone {
        0 => {}
        1 => shown.push("(1 line is not here now)".to_owned()),
        gone => shown.push(format!("({gone} lines are not here now)")),
    }
    shown.join(" ")
}

/// Which task wrote which lines, as they are now.
pub(super) async fn wrote(path: Option<&str>, format: Listing) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let (worktrees, home) = (worktrees(&places), places.project.clone());
    let below = path.map(|path| from_the_top(&places, path)).transpose()?.flatten();
    let wanted = below.clone();
    let written = at_work(move || worktrees.provenance(&home, wanted.as_deref())).await?.map_err(Failure::failed)?;
    if format == Listing::Json {
        let rows: Vec<Value> = written
            .iter()
            .map(|one| json!({"task": one.task, "agent": one.agent, "description": one.description, "at": one.at, "path": one.path, "hunks": one.hunks, "gone": one.gone}))
            .collect();
        to_stdout(&Value::from(rows).to_string());
        return Ok(Exit::Done);
    }
    match below.filter(|_| written.is_empty()) {
        Some(path) => to_stderr(&safe(&format!("posse: nothing of a task was brought home into {path}"))),
        None if written.is_empty() => to_stderr("posse: nothing of a task was brought home here yet"),
        None => {}
    }
    for one in &written {
        to_stdout(&safe(&format!("{}  {}  {}  {}  {}", one.path, shown_lines(one), one.task, one.agent, one.description)));
    }
    Ok(Exit::Done)
}
