//! `posse tasks diff|merge|discard|wrote`: what tasks have changed in their worktrees, and bringing it home.
//!
//! Git is asked by `tools`; what became of it is told to the session that started the task, so that its model knows. A
//! task that is at work is left alone.

use std::path::PathBuf;

use posse_api::Client as _;
use posse_config::Places;
use posse_server::Local;
use posse_session::{Letter, Summary, Worktree};
use posse_tools::{After, Conflict, DiffFile, MergeError, Merged, Onto, Provenance, Worktrees};
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
    client: Local,
    task: Summary,
    worktrees: Worktrees,
    worktree: Worktree,
}

impl Found {
    async fn of(id: &str) -> Result<Self, Failure> {
        let (client, task) = super::task(id, &How::default(), "posse sessions show").await?;
        let places = build::places(None)?;
        let worktrees = worktrees(&places);
        let worktree = worktrees.find(task.session.as_str()).map_err(Failure::failed)?;
        let Some(worktree) = worktree else { return Err(Failure::usage(without(&client, &places, &task).await)) };
        Ok(Self { client, task, worktrees, worktree })
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

    /// The session that started it is told with its next step.
    async fn tell(&self, paths: Vec<String>, onto: String, discarded: bool) {
        let Some(parent) = &self.task.parent else { return };
        let letter = Letter::BroughtHome { task: self.task.session.clone(), paths, onto, discarded };
        if let Err(error) = self.client.deliver(parent, letter).await {
            to_stderr(&format!("posse: {parent} could not be told of it: {error}; say it yourself when you go on with it"));
        }
    }
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
            places.shown(&PathBuf::from(&task.directory))
        ),
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
            "files": files, "diff": text, "cut": diff.cut, "left_out": diff.left_out,
        });
        to_stdout(&shown.to_string());
        return Ok(Exit::Done);
    }
    if diff.files.is_empty() {
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
    let mut all = Vec::new();
    for id in ids {
        let found = Found::of(id).await?;
        found.at_rest()?;
        all.push(found);
    }
    let (mut rows, mut exit) = (Vec::new(), Exit::Done);
    for found in &all {
        let onto = onto.map_or(Onto::Home, |branch| Onto::Branch(branch.to_owned()));
        let after = if keep { After::Keep } else { After::Release };
        let (worktrees, worktree, provenance) = (found.worktrees.clone(), found.worktree.clone(), found.provenance());
        let branch = if let Onto::Branch(branch) = &onto { branch.clone() } else { String::new() };
        let merged: Result<Merged, MergeError> = at_work(move || {
            let alone = worktrees.alone(&worktree)?;
            let merged = worktrees.merge(&worktree, &onto, &provenance, after, None)?;
            if merged.released {
                alone.retire();
            }
            Ok(merged)
        })
        .await?;
        let row = match &merged {
            Ok(merged) => {
                found.tell(merged.files.iter().map(|file| file.path.clone()).collect(), branch.clone(), false).await;
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
    let mut all = Vec::new();
    for id in ids {
        let found = Found::of(id).await?;
        found.at_rest()?;
        all.push(found);
    }
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

/// Which task wrote which lines, as of when they were brought home.
pub(super) async fn wrote(path: Option<&str>, format: Listing) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let (worktrees, home) = (worktrees(&places), places.project.clone());
    // As seen from here, as the user names it.
    let below = path.map(|path| {
        let full = places.cwd.join(path);
        full.strip_prefix(&places.project).unwrap_or(&full).to_string_lossy().into_owned()
    });
    let written = at_work(move || worktrees.provenance(&home, below.as_deref())).await?.map_err(Failure::failed)?;
    if format == Listing::Json {
        let rows: Vec<Value> = written
            .iter()
            .map(|one| json!({"task": one.task, "agent": one.agent, "description": one.description, "at": one.at, "path": one.path, "hunks": one.hunks}))
            .collect();
        to_stdout(&Value::from(rows).to_string());
        return Ok(Exit::Done);
    }
    if written.is_empty() {
        to_stderr("posse: nothing of a task was brought home here yet");
    }
    for one in &written {
        let places: Vec<String> = one.hunks.iter().map(|(start, lines)| format!("{start}+{lines}")).collect();
        to_stdout(&safe(&format!("{}  {}  {}  {}  {}", one.path, places.join(" "), one.task, one.agent, one.description)));
    }
    Ok(Exit::Done)
}
