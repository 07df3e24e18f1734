//! `posse sessions show --edits` and `posse sessions undo`: which agent changed which file, and taking it back.
//!
//! What is undone and whether that is right is decided in `api::edits`; files are read and written by `tools`. Undoing
//! holds the tree's lease from the first look to the recorded fact, writes files first and the fact last: cut short in
//! between, the next undo finds the files as they were before and only has to record it.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use posse_api::{Client as _, Edit, FileUndo, Needed, Start, edits, undo_plan, words};
use posse_engine::{Hub, OpenError};
use posse_server::Local;
use posse_session::{Append, BatchId, CallId, Event, LeaseError, Ownership, Record, Seq, Session, SessionId, Summary, Timestamp, clip};
use posse_tools::{LocalWorkspace, RecordedFile, content_hash, reversed};
use serde::Serialize;

use crate::{
    args::{How, Listing},
    build,
    exit::{Exit, Failure},
    print::{safe, to_stderr, to_stdout},
    run,
};

/// Calls and bytes of paths in one fact; more go to further facts of the same append.
const CALLS_MAX: usize = 128;
const PATHS_BYTES_MAX: usize = 4 * 1024;

/// Digits of a hash that people compare.
const HASH_SHOWN: usize = 8;

pub(crate) async fn show_edits(id: &str, format: Listing) -> Result<Exit, Failure> {
    let desk = Desk::open()?;
    let summary = desk.client.find(id).await.map_err(run::client_failure)?;
    let edits = edits(&desk.tree(&summary.root).await?, &summary.session);
    if format == Listing::Json {
        to_stdout(&serde_json::json!({"session": summary.session, "edits": edits}).to_string());
        return Ok(Exit::Done);
    }
    if edits.is_empty() {
        to_stderr(&format!("posse: {} changed no file with edit tools; what its commands changed is not listed", summary.session));
    }
    for edit in &edits {
        to_stdout(&safe(&line(edit)));
    }
    Ok(Exit::Done)
}

fn line(edit: &Edit) -> String {
    let hash = |hash: &str| if hash.is_empty() { "-".to_owned() } else { hash.chars().take(HASH_SHOWN).collect() };
    let undone = if edit.undone { "  (undone)" } else { "" };
    format!(
        "{}  {}  {}  {}  {}  {}  +{} -{}  {}..{}{undone}",
        time(edit.at),
        edit.session,
        edit.agent,
        edit.call,
        edit.tool,
        edit.path,
        edit.added,
        edit.removed,
        hash(&edit.before),
        hash(&edit.after)
    )
}

fn time(at: Timestamp) -> String {
    let time = i64::try_from(at.0).ok().and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
    time.map_or_else(|| at.0.to_string(), |time| time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// What became of one file.
#[derive(Serialize)]
struct Restored {
    path: String,
    action: Action,
    edits: usize,
}

#[derive(Serialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Action {
    Restored,
    /// It was not there before.
    Removed,
    /// It was as before already.
    Unchanged,
}

pub(crate) async fn undo(id: &str, agent: Option<&str>, call: Option<&str>, format: Listing) -> Result<Exit, Failure> {
    let desk = Desk::open()?;
    let summary = desk.client.find(id).await.map_err(run::client_failure)?;
    let owner = desk.own(&summary).await?;
    let tree = desk.tree(&summary.root).await?;
    let root = tree.iter().find(|(known, _)| known.session == summary.root).map(|(_, facts)| facts.as_slice()).unwrap_or_default();
    if Session::fold(summary.root.clone(), root).is_foreign() {
        return Err(run::open_failure(OpenError::Foreign));
    }
    let edits = still_there(edits(&tree, &summary.session));
    let wanted = wanted(&edits, agent, call)?;
    let roots = Roots::of(&edits)?;
    let plan = undo_plan(&edits, wanted, |edit| roots.file(edit));
    if plan.is_empty() {
        return nothing(&summary, &edits, format);
    }
    let restored = restore(&plan, &roots)?;
    let calls = calls(&plan);
    desk.record(&owner, root.last().map_or(0, |record| record.seq), undone(&calls, &restored)).await?;
    drop(owner);
    if format == Listing::Json {
        to_stdout(&serde_json::json!({"session": summary.session, "calls": calls, "files": restored}).to_string());
        return Ok(Exit::Done);
    }
    for file in &restored {
        let what = match file.action {
            Action::Restored => "restored",
            Action::Removed => "removed",
            Action::Unchanged => "already as it was",
        };
        to_stdout(&safe(&format!("{what}  {}  ({})", file.path, words::count(file.edits as u64, "edit"))));
    }
    Ok(Exit::Done)
}

fn nothing(summary: &Summary, edits: &[Edit], format: Listing) -> Result<Exit, Failure> {
    if format == Listing::Json {
        to_stdout(&serde_json::json!({"session": summary.session, "calls": [], "files": []}).to_string());
    } else if edits.iter().any(|edit| edit.undone) {
        to_stdout(&format!("nothing is left to undo in {}", summary.session));
    } else {
        to_stdout(&format!("{} changed no file with edit tools, so there is nothing to undo", summary.session));
    }
    Ok(Exit::Done)
}

/// Without what was changed in worktrees that are gone. It is thrown away, or home: brought by the model it is an edit like any
/// other, brought by the user it is the user's to take back.
fn still_there(mut edits: Vec<Edit>) -> Vec<Edit> {
    let yard = build::places(None).map(|places| places.worktrees_dir());
    let yard = yard.ok().map(|yard| yard.canonicalize().unwrap_or(yard));
    let is_gone = |edit: &Edit| {
        let folder = Path::new(&edit.directory);
        yard.as_ref().is_some_and(|yard| folder.starts_with(yard)) && !folder.is_dir()
    };
    let before = edits.len();
    edits.retain(|edit| !is_gone(edit));
    if edits.len() < before {
        let count = before - edits.len();
        let were = if count == 1 { "1 edit was".to_owned() } else { format!("{count} edits were") };
        to_stderr(&format!("posse: {were} made in worktrees that are gone, and nothing there can be undone"));
        to_stderr(
            "posse: what the model brought home of them is undone with its call. What you brought home with `posse tasks merge` stays: `posse tasks wrote` names the files, `git diff` shows it, `git restore -p FILE` takes it back piece by piece",
        );
    }
    edits
}

/// Which edits are meant. A name that fits none is a mistake of the caller's.
fn wanted<'a>(edits: &[Edit], agent: Option<&'a str>, call: Option<&str>) -> Result<impl Fn(&Edit) -> bool + use<'a>, Failure> {
    if let Some(agent) = agent.filter(|agent| !edits.iter().any(|edit| edit.agent == **agent)) {
        let mut agents: Vec<&str> = edits.iter().map(|edit| edit.agent.as_str()).collect();
        agents.sort_unstable();
        agents.dedup();
        let who = if agents.is_empty() { "none did".to_owned() } else { format!("these did: {}", agents.join(", ")) };
        return Err(Failure::usage(format!("no agent named {agent} changed a file here; {who}")));
    }
    let call = call
        .map(|call| {
            let found = Start::new(call, CallId::PREFIX).only(edits.iter().map(|edit| &edit.call), |known| known.as_str());
            let missing = format!("no call {call} changed a file here; `posse sessions show ID --edits` lists those that did");
            found.map_err(run::client_failure)?.cloned().ok_or_else(|| Failure::usage(missing))
        })
        .transpose()?;
    Ok(move |edit: &Edit| agent.is_none_or(|agent| edit.agent == agent) && call.as_ref().is_none_or(|call| edit.call == *call))
}

/// One workspace for every folder that sessions of a tree worked in.
struct Roots {
    workspaces: HashMap<String, LocalWorkspace>,
}

impl Roots {
    fn of(edits: &[Edit]) -> Result<Self, Failure> {
        let mut workspaces = HashMap::new();
        for Edit { directory, session, .. } in edits.iter().filter(|edit| !edit.undone) {
            if !workspaces.contains_key(directory) {
                let gone = |failure: Failure| failure.with(&format!("{session} worked in {directory}"));
                let places = build::places(Some(Path::new(directory))).map_err(gone)?;
                workspaces.insert(directory.clone(), build::workspace(&places)?);
            }
        }
        Ok(Self { workspaces })
    }

    fn at(&self, edit: &Edit) -> &LocalWorkspace {
        // Every edit that is not undone has one.
        &self.workspaces[&edit.directory]
    }

    fn file(&self, edit: &Edit) -> PathBuf {
        posse_session::Workspace::root(self.at(edit)).join(&edit.path)
    }
}

/// A file that can be put back: what it is, and what it was.
struct Ready<'a> {
    file: RecordedFile<'a>,
    name: &'a str,
    now: Option<Vec<u8>>,
    before: Option<Vec<u8>>,
    mode_now: Option<u32>,
    mode_before: Option<u32>,
    needed: Needed,
    edits: usize,
}

impl Ready<'_> {
    fn put_back(&self) -> Result<(), String> {
        self.file.restore(&content_hash(self.now.as_deref()), self.before.as_deref(), self.mode_before)
    }

    fn put_forth(&self) -> Result<(), String> {
        self.file.restore(&content_hash(self.before.as_deref()), self.now.as_deref(), self.mode_now)
    }
}

/// Every file as it was before, or words about all that stand in the way and no file changed.
fn restore(plan: &[FileUndo<'_>], roots: &Roots) -> Result<Vec<Restored>, Failure> {
    let (mut all, mut refused) = (Vec::new(), Vec::new());
    for file in plan {
        match ready(file, roots) {
            Ok(ready) => all.push(ready),
            Err(words) => refused.push(format!("\n  {}", safe(&words))),
        }
    }
    if !refused.is_empty() {
        return Err(Failure::failed(format!(
            "nothing was undone, because these files are not as the session left them:{}",
            refused.concat()
        )));
    }
    let needed: Vec<&Ready> = all.iter().filter(|ready| ready.needed == Needed::Restore).collect();
    for (count, ready) in needed.iter().enumerate() {
        let Err(words) = ready.put_back() else { continue };
        let stuck: Vec<&str> = needed[..count].iter().rev().filter(|ready| ready.put_forth().is_err()).map(|ready| ready.name).collect();
        let end = if stuck.is_empty() {
            "nothing was undone".into()
        } else {
            format!("these files were put back and stay so: {}", stuck.join(", "))
        };
        return Err(Failure::failed(safe(&format!("{words}; {end}"))));
    }
    let restored = |ready: &Ready| Restored {
        path: ready.name.to_owned(),
        action: match ready.needed {
            Needed::Nothing => Action::Unchanged,
            Needed::Restore if ready.before.is_none() => Action::Removed,
            Needed::Restore => Action::Restored,
        },
        edits: ready.edits,
    };
    Ok(all.iter().map(restored).collect())
}

fn ready<'a>(undo: &FileUndo<'a>, roots: &'a Roots) -> Result<Ready<'a>, String> {
    let newest = undo.edits[0];
    let (name, edits) = (newest.path.as_str(), undo.edits.len());
    let file = RecordedFile::new(roots.at(newest), name);
    let now = file.content()?;
    let needed = undo.check(&content_hash(now.as_deref()))?;
    let mut before = now.clone();
    for edit in undo.edits.iter().filter(|_| needed == Needed::Restore) {
        let change = edit.change.as_deref().unwrap_or_default();
        let made = reversed(before.as_deref().unwrap_or_default(), change).filter(|_| !edit.before.is_empty());
        if content_hash(made.as_deref()) != edit.before {
            return Err(format!("{name}: the record of {} does not lead to what the file was before it", edit.call));
        }
        before = made;
    }
    let (mode_now, mode_before) = (file.mode(), undo.edits.iter().rev().find_map(|edit| edit.mode));
    Ok(Ready { file, name, now, before, mode_now, mode_before, needed, edits })
}

fn calls(plan: &[FileUndo<'_>]) -> Vec<CallId> {
    let mut calls: Vec<CallId> = plan.iter().flat_map(|file| &file.edits).map(|edit| edit.call.clone()).collect();
    calls.sort();
    calls.dedup();
    calls
}

/// The world this command looks at.
struct Desk {
    hub: Hub,
    client: Local,
}

impl Desk {
    fn open() -> Result<Self, Failure> {
        let places = build::places(None)?;
        let hub = build::hub(&places, &build::configuration(&places, &How::default())?)?;
        let client = Local::new(hub.world().clone());
        Ok(Self { hub, client })
    }

    /// Nobody may run the session while its files go back.
    async fn own(&self, summary: &Summary) -> Result<Ownership, Failure> {
        self.hub.world().lease.take(&summary.root).await.map_err(|error| match error {
            LeaseError::Held { .. } => Failure::failed(format!(
                "{error}, so nothing was undone; wait until it is done, or stop it with `posse sessions stop {}`",
                summary.root
            )),
            LeaseError::Unavailable(_) => run::open_failure(OpenError::from(error)),
        })
    }

    /// Every session of a tree, with its facts and their texts.
    async fn tree(&self, root: &SessionId) -> Result<Vec<(Summary, Vec<Record>)>, Failure> {
        let summaries = self.hub.world().log.summaries(Some(root)).await;
        let mut tree = Vec::new();
        for summary in summaries.map_err(|error| Failure::failed(words::storage(&error.to_string())))? {
            let facts = self.client.facts(&summary.session, 0).await.map_err(run::client_failure)?;
            tree.push((summary, facts));
        }
        Ok(tree)
    }

    /// The fact goes to the root's log: one append, whoever made the calls.
    async fn record(&self, owner: &Ownership, after: Seq, events: Vec<Event>) -> Result<(), Failure> {
        let world = self.hub.world();
        let append = Append {
            session: owner.root.clone(),
            root: owner.root.clone(),
            epoch: owner.epoch,
            batch: BatchId::fresh(&*world.ids),
            after,
            at: world.clock.now(),
            events,
            blobs: Vec::new(),
            letters: Vec::new(),
        };
        let told = "the files are as they were before; run the same command again to record that";
        world.log.append(append).await.map(drop).map_err(|error| Failure::failed(words::storage(&error.to_string())).with(told))
    }
}

/// Facts that each fit into a log.
fn undone(calls: &[CallId], restored: &[Restored]) -> Vec<Event> {
    let mut events: Vec<Event> = calls.chunks(CALLS_MAX).map(|calls| Event::Undone { calls: calls.to_vec(), paths: Vec::new() }).collect();
    let (mut room, mut at) = (PATHS_BYTES_MAX, 0);
    for file in restored {
        let path = clip(file.path.clone(), PATHS_BYTES_MAX / 2);
        if room < path.len() {
            (room, at) = (PATHS_BYTES_MAX, at + 1);
        }
        room -= path.len();
        if at == events.len() {
            events.push(Event::Undone { calls: Vec::new(), paths: Vec::new() });
        }
        if let Some(Event::Undone { paths, .. }) = events.get_mut(at) {
            paths.push(path);
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_much_was_undone_every_fact_fits_into_a_log() {
        let calls: Vec<CallId> = (0..1_000).map(|n| CallId::new(format!("call_01JD000000000000000000{n:04}"))).collect();
        for bytes in [3, 200, 4_000] {
            let restored: Vec<Restored> =
                (0..300).map(|n| Restored { path: format!("{n:0bytes$}"), action: Action::Restored, edits: 1 }).collect();
            let facts = undone(&calls, &restored);
            let (mut found, mut paths_found) = (Vec::new(), 0);
            for fact in &facts {
                assert!(serde_json::to_string(fact).unwrap().len() < posse_session::EVENT_BYTES_MAX - 512);
                let Event::Undone { calls, paths } = fact else { panic!("{fact:?}") };
                found.extend(calls.clone());
                paths_found += paths.len();
            }
            assert_eq!((found, paths_found), (calls.clone(), 300));
        }
    }
}
