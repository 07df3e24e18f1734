//! `posse sessions import`: reads what `export --format jsonl` wrote back into this project's store.
//!
//! Everything is checked before anything is written (`import/file.rs`). What a fork begins with is written before the fork, and
//! left alone where it is here already. A tree is written session by session, its root last, each log from its beginning: if the process dies in between, what is there is the start of what is in the file, and the
//! same command goes on from there. A file may come from anybody, so what it was in the middle of is ended and what somebody had
//! allowed for longer counts no more; `--as-is` is for one's own files and changes nothing.

mod file;

use std::{collections::HashSet, future::poll_fn, path::Path, sync::Arc, task::Poll};

use posse_engine::{World, content_hash, read_all};
use posse_session::{
    Append, AppendError, BatchId, BoxFuture, By, Command, EVENT_BYTES_MAX, Event, Given, Hash, Hold, INLINE_BYTES_MAX, LeaseError, Record,
    Report, Rules, Seq, Session, SessionId, Summary, TaskReport, Text,
};

use self::file::{Imported, Tree};
use crate::{
    args::How,
    build,
    exit::{Exit, Failure},
    print::{flat, to_stderr, to_stdout},
};

/// Appends under way at once: the writer makes one transaction of those that wait for it.
const APPENDS_MAX: usize = 256;

/// A reference to a blob takes about so much itself: a shorter text gains nothing by leaving its event.
const STORED_BYTES: usize = 128;

/// Room for what the store writes around an event.
const EVENT_BYTES: usize = EVENT_BYTES_MAX - 512;

/// What becomes of a session that was somebody else's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Args)]
pub(crate) struct ImportOptions {
    /// Give everything a new id, so that a session that is here already can be here twice
    #[arg(long)]
    pub(crate) new_ids: bool,
    /// Change nothing: it stays in its folder, goes on where it stood, and keeps lasting answers. Only for your own files
    #[arg(long)]
    pub(crate) as_is: bool,
}

pub(crate) async fn import(path: &Path, options: ImportOptions) -> Result<Exit, Failure> {
    let bytes = std::fs::read(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    let refused = |words: String| Failure::usage(format!("{}: {words}", flat(&path.display().to_string())));
    let places = build::places(None)?;
    let config = build::configuration(&places, &How::default())?;
    let hub_world = || Ok::<_, Failure>(build::world(build::open_store(&places)?, &places, &config));
    let text = std::str::from_utf8(&bytes).map_err(|error| refused(format!("it is no text: {error}")))?;
    let mut imported = file::read(text).map_err(refused)?;
    if options.new_ids {
        let ids = posse_engine::Ulids::new(Arc::new(build::SystemClock));
        imported = file::read(&file::with_new_ids(text, &ids)).map_err(refused)?;
    }
    if !options.as_is {
        imported.move_to(&places.cwd.display().to_string());
    }
    let world = hub_world()?;
    let importer = Importer { world: &world, imported: &imported, as_is: options.as_is };
    let mut missing: Vec<&Tree> = Vec::new();
    for tree in &imported.trees {
        if !importer.is_here(tree).await? {
            missing.push(tree);
        }
    }
    let goes_on = |tree: &&Tree| tree.shown_by.is_none();
    if let Some(tree) = imported.trees.iter().filter(goes_on).find(|tree| !missing.iter().any(|one| one.root == tree.root)) {
        return Err(Failure::failed(format!("{} is already here; `--new-ids` imports a copy", tree.root)));
    }
    let mut written = Vec::new();
    for tree in &missing {
        written.push(importer.write(tree).await?);
    }
    for (tree, changed) in missing.iter().zip(&written) {
        let (sessions, records) = (tree.sessions.len(), tree.sessions.iter().map(|log| log.records.len()).sum::<usize>());
        let shown = tree.shown_by.as_ref().map_or_else(String::new, |fork| format!(", which {fork} begins with"));
        to_stdout(&format!("imported {} ({}, {}){shown}", tree.root, counted(sessions, "session"), counted(records, "record")));
        changed.say(tree);
    }
    if 0 < imported.missing {
        let texts = counted(imported.missing, "long text");
        to_stderr(&format!("posse: {texts} of these sessions are not in the file; they are shown as missing"));
    }
    Ok(Exit::Done)
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// What was not taken over as it was.
#[derive(Debug, Default)]
struct Changed {
    ended: usize,
    revoked: usize,
}

impl Changed {
    fn say(&self, tree: &Tree) {
        let root = &tree.root;
        // What is here because another shows it was cut where the other begins: that is no news.
        if 0 < self.ended && tree.shown_by.is_none() {
            let sessions = if self.ended == 1 { "1 session was".to_owned() } else { format!("{} sessions were", self.ended) };
            to_stderr(&format!("posse: {sessions} in the middle of something, which was ended; `posse run -s {root} \"...\"` goes on"));
        }
        if 0 < self.revoked {
            let answers =
                if self.revoked == 1 { "1 lasting answer counts".to_owned() } else { format!("{} lasting answers count", self.revoked) };
            to_stderr(&format!("posse: {answers} no more: what was allowed elsewhere is asked about here"));
        }
    }
}

struct Importer<'a> {
    world: &'a World,
    imported: &'a Imported,
    as_is: bool,
}

impl Importer<'_> {
    /// Whether a tree is here already; refuses one that is here as something else.
    async fn is_here(&self, tree: &Tree) -> Result<bool, Failure> {
        let mut whole = true;
        for log in &tree.sessions {
            let here = self.stored(&log.session).await?;
            let is_whole = log.records.len() <= here.len();
            // What is only shown may have become a tree of its own in the file; where all of it is here that is no matter.
            let belongs =
                is_whole && tree.shown_by.is_some() || here.iter().zip(&log.records).take(1).all(|(here, there)| is_kin(here, there));
            let same = belongs && here.iter().zip(&log.records).all(|(here, there)| is_same(here, there));
            if !same {
                let words = format!("{} is already here, and is not what is in the file; `--new-ids` imports a copy", log.session);
                return Err(Failure::failed(words));
            }
            // What goes on here and is shown elsewhere goes on: an import ends only what it has brought.
            let is_done = self.as_is || tree.shown_by.is_some() || self.is_harmless(&log.session, &here);
            whole &= is_whole && is_done;
        }
        Ok(whole)
    }

    async fn stored(&self, session: &SessionId) -> Result<Vec<Record>, Failure> {
        read_all(&*self.world.log, session, 0).await.map_err(|error| storage(&error.to_string()))
    }

    /// Nothing goes on by itself in it, and nothing in it allows anything.
    fn is_harmless(&self, session: &SessionId, records: &[Record]) -> bool {
        Session::fold(session.clone(), records).is_settled() && granted(session, records).is_empty()
    }

    /// Writes what is not there yet, as the owner of the tree.
    async fn write(&self, tree: &Tree) -> Result<Changed, Failure> {
        let owner = self.world.lease.take(&tree.root).await.map_err(|error| match error {
            LeaseError::Held { .. } => Failure::failed(format!("{}: {error}; stop it first", tree.root)),
            LeaseError::Unavailable(why) => storage(&why),
        })?;
        let mut changed = Changed::default();
        // Who is listed comes last: a tree of which only a part is here is not offered.
        let (root, below): (Vec<_>, Vec<_>) = tree.sessions.iter().partition(|log| log.session == tree.root);
        for log in below.into_iter().chain(root) {
            let here = self.stored(&log.session).await?.len();
            let mut after = here as Seq;
            let mut appends: Vec<Append> = Vec::new();
            let missing = log.records.get(here..).unwrap_or_default();
            for batch in missing.chunk_by(|one, other| one.batch == other.batch) {
                appends.push(self.append(tree, &log.session, owner.epoch, after, batch));
                after += batch.len() as Seq;
            }
            // A log that is longer has gone on already.
            if !self.as_is && here <= log.records.len() {
                let settled = self.settled(&log.session, &log.records, &mut changed);
                match appends.last_mut() {
                    // In the append of the last of its records: what was brought is at rest at every moment.
                    Some(last) if !settled.is_empty() => last.events.extend(settled.into_iter().map(|record| record.event)),
                    None if !settled.is_empty() => appends.push(self.append(tree, &log.session, owner.epoch, after, &settled)),
                    _ => {}
                }
            }
            while !appends.is_empty() {
                let some: Vec<Append> = appends.drain(..appends.len().min(APPENDS_MAX)).collect();
                let under_way = some.into_iter().map(|append| self.world.log.append(append)).collect();
                all(under_way).await.map_err(|error| storage(&error.to_string()))?;
            }
        }
        Ok(changed)
    }

    fn append(&self, tree: &Tree, session: &SessionId, epoch: u64, after: Seq, records: &[Record]) -> Append {
        let mut blobs: Vec<(Hash, Arc<[u8]>)> = Vec::new();
        let events: Vec<Event> = records.iter().map(|record| spilled(record.event.clone(), &mut blobs)).collect();
        for event in &events {
            if let Event::Configured { head, .. } = event
                && let Some(text) = self.imported.blobs.get(head)
            {
                blobs.push((head.clone(), text.as_bytes().into()));
            }
        }
        let (batch, at) =
            records.first().map(|record| (record.batch.clone(), record.at)).unwrap_or_else(|| (BatchId::new(""), Default::default()));
        Append { session: session.clone(), root: tree.root.clone(), epoch, batch, after, at, events, blobs, letters: Vec::new() }
    }

    /// The facts after which nothing of a session goes on by itself, and nothing in it allows anything for longer.
    fn settled(&self, id: &SessionId, records: &[Record], changed: &mut Changed) -> Vec<Record> {
        let session = Session::fold(id.clone(), records);
        let now = self.world.clock.now();
        let rules = Rules::default();
        let given = Given::apart(now, &*self.world.ids, &rules);
        let mut draft = session.draft(BatchId::fresh(&*self.world.ids), now);
        if !session.is_settled() {
            changed.ended += 1;
            draft.decide(Command::Interrupt { by: By::User, hold: Hold::StoppedByUser, partial: Text::default() }, &given);
        }
        // A task whose log is not in the file would be begun anew by whoever goes on.
        let is_missing = |task: &SessionId| !self.imported.trees.iter().flat_map(|tree| &tree.sessions).any(|log| log.session == *task);
        let open: Vec<(SessionId, u64)> = draft.session().tasks().iter().map(|(task, open)| (task.clone(), open.round)).collect();
        for (task, round) in open.into_iter().filter(|(task, _)| is_missing(task)) {
            let words = || Text::from(format!("{task} was stopped: it was not imported"));
            let end = TaskReport {
                round,
                how: posse_session::How::Stopped,
                result: words(),
                notice: words(),
                said: Text::default(),
                awaited: Vec::new(),
                verbatim: Text::default(),
                too_long: false,
                usage: Default::default(),
                effort: Default::default(),
                left: None,
                task: task.clone(),
            };
            draft.decide(Command::Report(Report::TaskEnded(Box::new(end))), &given);
        }
        for task in session.releases() {
            let words = "it was not imported".to_owned();
            draft.decide(Command::Report(Report::Released { task: task.clone(), removed: false, words }), &given);
        }
        for ask in granted(id, records) {
            changed.revoked += 1;
            draft.decide(Command::Revoke { ask, by: By::User }, &given);
        }
        draft.into_parts().1
    }
}

/// The asks whose answers allow something for longer than one call.
fn granted(session: &SessionId, records: &[Record]) -> HashSet<posse_session::AskId> {
    let mut summary = Summary::new(session.clone());
    records.iter().for_each(|record| summary.apply(record));
    summary.granted.into_iter().map(|granted| granted.ask).collect()
}

/// Whether both are the birth of a session in the same tree.
fn is_kin(one: &Record, other: &Record) -> bool {
    let root = |record: &Record| if let Event::Created { root, .. } = &record.event { Some(root.clone()) } else { None };
    root(one) == root(other)
}

fn is_same(one: &Record, other: &Record) -> bool {
    (one.seq, &one.batch, one.at) == (other.seq, &other.batch, other.at)
}

fn storage(why: &str) -> Failure {
    Failure::failed(posse_api::words::storage(why))
}

/// An event that fits into a log; its long texts are blobs again.
fn spilled(mut event: Event, blobs: &mut Vec<(Hash, Arc<[u8]>)>) -> Event {
    for text in event.texts_mut().into_iter().filter(|text| INLINE_BYTES_MAX < json_bytes(text)) {
        store(text, blobs);
    }
    while EVENT_BYTES < serde_json::to_string(&event).map_or(0, |json| json.len()) {
        let longest = event
            .texts_mut()
            .into_iter()
            .filter(|text| text.inline().is_some_and(|words| STORED_BYTES < words.len()))
            .max_by_key(|text| json_bytes(text));
        let Some(text) = longest else { break };
        store(text, blobs);
    }
    event
}

fn json_bytes(text: &Text) -> usize {
    serde_json::to_string(text).map_or(0, |json| json.len())
}

fn store(text: &mut Text, blobs: &mut Vec<(Hash, Arc<[u8]>)>) {
    let Some(words) = text.inline() else { return };
    let bytes: Arc<[u8]> = words.as_bytes().into();
    let blob = content_hash(&bytes);
    *text = Text::Stored { blob: blob.clone(), bytes: bytes.len() as u64 };
    blobs.push((blob, bytes));
}

/// Has all of them under way at once, begun in this order; the first failure counts.
async fn all(appends: Vec<BoxFuture<'_, Result<Seq, AppendError>>>) -> Result<(), AppendError> {
    let mut open: Vec<Option<BoxFuture<'_, _>>> = appends.into_iter().map(Some).collect();
    let mut first: Option<(usize, AppendError)> = None;
    poll_fn(|context| {
        for (place, slot) in open.iter_mut().enumerate() {
            let Some(append) = slot else { continue };
            let Poll::Ready(answer) = append.as_mut().poll(context) else { continue };
            *slot = None;
            if let Err(error) = answer
                && first.as_ref().is_none_or(|(known, _)| place < *known)
            {
                first = Some((place, error));
            }
        }
        if open.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    first.map_or(Ok(()), |(_, error)| Err(error))
}
