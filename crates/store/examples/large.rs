//! Makes a store that is as large as years of work leave it, for measuring what opening and listing cost.
//!
//! `large FOLDER DIRECTORY long EVENTS BYTES` writes one session of that many events and about that many bytes, summed up
//! as often as a model of 200,000 tokens needs it; `large FOLDER DIRECTORY many COUNT` writes that many finished sessions.
//! FOLDER is a project's data folder (`posse config path`), DIRECTORY the folder the sessions worked in. See `bench/scale.sh`.

use std::{sync::Arc, time::Instant};

use posse_session::{
    Append, BatchId, CallId, Decision, Entry, EntryId, Event, Finish, Hash, How, Kind, Lease, Log, Outcome, Ownership, Part, Recipe, Seq,
    SessionId, Text, Timestamp, Usage,
};
use posse_store::Sqlite;

/// What a step brings: a start, a reply, a call, its start and its end.
const STEP_EVENTS: u64 = 5;

/// A summary for so many bytes of outputs: what fits into a large model.
const SUMMARY_BYTES: u64 = 600_000;

type Failed = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let args: Vec<String> = std::env::args().collect();
    let words: Vec<&str> = args.iter().skip(1).map(String::as_str).collect();
    let begun = Instant::now();
    match words[..] {
        [folder, directory, "long", events, bytes] => long(&Sqlite::open(folder)?, directory, events.parse()?, bytes.parse()?).await?,
        [folder, directory, "many", count] => many(&Sqlite::open(folder)?, directory, count.parse()?).await?,
        _ => return Err("usage: large FOLDER DIRECTORY long EVENTS BYTES | many COUNT".into()),
    }
    println!("written in {:.1?}", begun.elapsed());
    Ok(())
}

struct Writer<'a> {
    store: &'a Sqlite,
    owner: Ownership,
    head: Seq,
    batch: u64,
}

impl<'a> Writer<'a> {
    async fn new(store: &'a Sqlite, session: &SessionId) -> Result<Self, Failed> {
        Ok(Self { store, owner: store.take(session).await?, head: 0, batch: 0 })
    }

    async fn append(&mut self, at: u64, events: Vec<Event>, blobs: Vec<(Hash, Arc<[u8]>)>) -> Result<(), Failed> {
        self.batch += 1;
        let root = self.owner.root.clone();
        let batch = BatchId::new(format!("evt_{}_{}", root, self.batch));
        let (session, epoch, after, letters) = (root.clone(), self.owner.epoch, self.head, Vec::new());
        self.head = self.store.append(Append { session, root, epoch, batch, after, at: Timestamp(at), events, blobs, letters }).await?;
        Ok(())
    }
}

fn created(session: &SessionId, directory: &str, title: String) -> Event {
    Event::Created {
        kind: Kind::Root,
        root: session.clone(),
        parent: None,
        directory: directory.to_owned(),
        title,
        recipe: Recipe { agent: "build".into(), model: "mock/mock".into(), ..Recipe::default() },
        ceiling: Vec::new(),
        above: Text::default(),
        depth: 0,
        strict_shell: false,
        worktree: None,
        within: None,
    }
}

fn step_started(step: u64, took: Vec<EntryId>) -> Event {
    Event::StepStarted { step, took, reserved: Default::default(), closing: false, notes: Vec::new() }
}

fn replied(step: u64, text: String, calls: u64) -> Event {
    let usage = Usage { input: 1_000, output: 50, ..Usage::default() };
    let finish = if calls == 0 { Finish::Stop } else { Finish::Calls };
    Event::Replied { step, parts: vec![Part::text(text)], calls, usage, finish, author: None }
}

/// An id that sorts by time, as ours do.
fn session_id(number: u64) -> SessionId {
    SessionId::new(format!("ses_01M7{number:022}"))
}

async fn long(store: &Sqlite, directory: &str, events: u64, bytes: u64) -> Result<(), Failed> {
    let session = session_id(1);
    let mut writer = Writer::new(store, &session).await?;
    let (entry, steps) = (EntryId::new("msg_1"), events / STEP_EVENTS);
    let output = usize::try_from(bytes / steps)?;
    let prompt = Event::Queued { entry: Entry::user(entry.clone(), "a very long piece of work") };
    writer
        .append(1, vec![created(&session, directory, "a very long piece of work".into()), prompt, step_started(0, vec![entry])], Vec::new())
        .await?;
    let mut since = 0;
    for step in 0..steps {
        let call = CallId::new(format!("call_{step:026}"));
        let body: Arc<[u8]> = format!("{step:>16}{}", "what the call printed, line by line\n".repeat(output / 36)).into_bytes().into();
        let hash = Hash::new(blake3::hash(&body).to_hex().as_str());
        let text = Text::Stored { blob: hash.clone(), bytes: body.len() as u64 };
        let called = Event::Called {
            call: call.clone(),
            tool: "bash".into(),
            input: format!(r#"{{"command": "step {step}"}}"#).into(),
            wire_id: format!("toolu_{step}"),
            touches: Vec::new(),
            repeatable: true,
            title: format!("step {step}"),
            decision: Some(Decision::allow()),
            consented: false,
        };
        let outcome = Outcome::Done { output: text, title: String::new(), metadata: None, attachments: Vec::new() };
        let mut facts = vec![replied(step, format!("step {step}"), 1), called, Event::CallStarted { call: call.clone(), attempt: 1 }];
        facts.push(Event::CallFinished { call, outcome });
        since += body.len() as u64;
        if SUMMARY_BYTES < since {
            since = 0;
            let tail_from = writer.head + facts.len() as Seq;
            facts.push(Event::Compacted { summary: format!("everything up to step {step}").into(), tail_from, verbatim: Text::default() });
        }
        facts.push(step_started(step + 1, Vec::new()));
        writer.append(step + 2, facts, vec![(hash, body)]).await?;
    }
    let reply = writer.head + 1;
    let ended = Event::Ended { round: 1, how: How::Completed, reply: Some(reply), error: String::new(), usage: Usage::default() };
    writer.append(steps + 2, vec![replied(steps, "done at last".into(), 0), ended], Vec::new()).await?;
    println!("{session}: {} events", writer.head);
    Ok(())
}

async fn many(store: &Sqlite, directory: &str, count: u64) -> Result<(), Failed> {
    for number in 0..count {
        let session = session_id(1_000 + number);
        let mut writer = Writer::new(store, &session).await?;
        let entry = EntryId::new(format!("msg_{number}"));
        let title = format!("piece of work number {number}");
        let facts = vec![
            created(&session, directory, title.clone()),
            Event::Queued { entry: Entry::user(entry.clone(), title) },
            step_started(0, vec![entry]),
            replied(0, format!("answer {number}"), 0),
            Event::Ended { round: 1, how: How::Completed, reply: Some(4), error: String::new(), usage: Usage::default() },
        ];
        writer.append(number + 1, facts, Vec::new()).await?;
    }
    Ok(())
}
