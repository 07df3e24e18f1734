//! What the tests of the store share: a tree with an owner who appends, and a few facts to append.

#![allow(dead_code, unreachable_pub)]

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use posse_session::{
    Append, AppendError, BatchId, CallId, Entry, EntryId, Epoch, Event, Finish, Hash, Inbox, Kind, Lease, Letter, LetterId, Log, Outcome,
    Ownership, Part, Posted, Recipe, Record, Reserved, Seq, SessionId, Text, Timestamp, Usage,
};

pub trait Store: Log + Lease + Inbox {}

impl<T: Log + Lease + Inbox> Store for T {}

static BATCHES: AtomicU64 = AtomicU64::new(1);

/// The owner of a tree, and one session of it.
pub struct Owner<'a> {
    pub store: &'a dyn Store,
    pub owned: Ownership,
    pub session: SessionId,
    pub head: Seq,
}

impl<'a> Owner<'a> {
    /// Takes the tree `root` to append to its root session, from what is there on.
    pub async fn of(store: &'a dyn Store, root: &str) -> Self {
        let owned = store.take(&id(root)).await.expect("the tree is free");
        let head = read_all(store, root).await.len() as u64;
        Self { store, session: owned.root.clone(), owned, head }
    }

    /// What an append of these events would be.
    pub fn draft(&self, events: Vec<Event>) -> Append {
        draft(&self.session, &self.owned.root, self.owned.epoch, self.head, events)
    }

    pub async fn append(&mut self, events: Vec<Event>) -> Seq {
        let append = self.draft(events);
        self.send(append).await.expect("the owner may append")
    }

    pub async fn send(&mut self, append: Append) -> Result<Seq, AppendError> {
        let head = self.store.append(append).await?;
        self.head = head;
        Ok(head)
    }

    /// Goes on in another session of the same tree.
    pub async fn switch_to(&mut self, session: &str) {
        self.session = id(session);
        self.head = read_all(self.store, session).await.len() as u64;
    }
}

pub fn draft(session: &SessionId, root: &SessionId, epoch: Epoch, after: Seq, events: Vec<Event>) -> Append {
    let number = BATCHES.fetch_add(1, Ordering::Relaxed);
    Append {
        session: session.clone(),
        root: root.clone(),
        epoch,
        batch: BatchId::new(format!("evt_{}_{number:020}", std::process::id())),
        after,
        at: Timestamp(1_700_000_000_000 + number),
        events,
        blobs: Vec::new(),
        letters: Vec::new(),
    }
}

pub fn id(session: &str) -> SessionId {
    SessionId::new(session)
}

pub fn created(root: &str) -> Event {
    Event::Created {
        kind: Kind::Root,
        root: id(root),
        parent: None,
        directory: "/work".to_owned(),
        title: format!("about {root}"),
        recipe: Recipe { agent: "build".to_owned(), model: "test/one".to_owned(), ..Recipe::default() },
        ceiling: Vec::new(),
        above: Default::default(),
        depth: 0,
        strict_shell: false,
        worktree: None,
        within: None,
    }
}

pub fn queued(text: impl Into<Text>) -> Event {
    Event::Queued { entry: Entry::user(EntryId::new("msg_1"), text) }
}

/// A stored text and the blob it names.
pub fn blob(bytes: &[u8]) -> (Text, (Hash, Arc<[u8]>)) {
    let hash = Hash::new(blake3::hash(bytes).to_hex().as_str());
    (Text::Stored { blob: hash.clone(), bytes: bytes.len() as u64 }, (hash, Arc::from(bytes)))
}

pub fn letter(number: u64, root: &str) -> Posted {
    let entry = Entry::user(EntryId::new(format!("msg_{number}")), format!("letter {number}"));
    Posted { id: LetterId::new(format!("msg_{number}")), root: id(root), to: id(root), letter: Letter::Say { entry } }
}

/// One step with one call, as two appends would bring it; `output` is what the tool printed.
pub fn step(number: u64, output: &str) -> [Vec<Event>; 2] {
    let call = CallId::new(format!("call_{number:016}"));
    let usage = Usage { input: 1_000, output: 200, cache_read: 9_000, cache_write: 300, cost_usd: 0.01, unpriced: 0 };
    let asked = vec![queued(format!("please do number {number}")), step_started(number)];
    let done = vec![
        Event::Replied {
            step: number,
            parts: vec![Part::text(format!("I will run number {number}."))],
            calls: 1,
            usage,
            finish: Finish::Calls,
            author: None,
        },
        Event::Called {
            call: call.clone(),
            tool: "bash".to_owned(),
            input: format!(r#"{{"command":"make number-{number}"}}"#).into(),
            wire_id: format!("toolu_{number:020}"),
            touches: Vec::new(),
            repeatable: false,
            title: String::new(),
            decision: None,
            consented: false,
        },
        Event::CallStarted { call: call.clone(), attempt: 1 },
        Event::CallFinished { call, outcome: Outcome::done(output) },
    ];
    [asked, done]
}

pub fn step_started(step: u64) -> Event {
    Event::StepStarted { step, took: vec![EntryId::new("msg_1")], reserved: Reserved::default(), closing: false, notes: Vec::new() }
}

pub async fn read_all(store: &dyn Store, session: &str) -> Vec<Record> {
    store.read(&id(session), 0, usize::MAX).await.expect("the log can be read")
}

pub async fn events_of(store: &dyn Store, session: &str) -> Vec<Event> {
    read_all(store, session).await.into_iter().map(|record| record.event).collect()
}
