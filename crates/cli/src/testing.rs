//! For unit tests of commands: a project in memory whose log counts how often it is read, so that a test can tell work
//! that grows with what there is from work that grows with its square. Knows nothing of files or configuration.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use posse_engine::{Lanes, Ulids, World};
use posse_server::Local;
use posse_session::{
    Append, AppendError, AskId, BatchId, BoxFuture, CallId, Clock as _, Decision, Event, Grant, Hash, Kind, Lease as _, Log, Ownership,
    ReadError, Recipe, Record, Seq, SessionId, Summary, Text, Touch, Verdict,
};
use posse_store::Memory;

use crate::build::SystemClock;

#[derive(Default)]
pub(crate) struct CountingLog {
    log: Memory,
    pub(crate) reads: AtomicUsize,
    /// Times that all asks of the project were listed.
    pub(crate) lists: AtomicUsize,
}

impl Log for CountingLog {
    fn append(&self, append: Append) -> BoxFuture<'_, Result<Seq, AppendError>> {
        self.log.append(append)
    }

    fn read<'a>(&'a self, session: &'a SessionId, after: Seq, limit: usize) -> BoxFuture<'a, Result<Vec<Record>, ReadError>> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.log.read(session, after, limit)
    }

    fn blob<'a>(&'a self, hash: &'a Hash) -> BoxFuture<'a, Result<Arc<[u8]>, ReadError>> {
        self.log.blob(hash)
    }

    fn changed<'a>(&'a self, session: &'a SessionId, after: Seq) -> BoxFuture<'a, ()> {
        self.log.changed(session, after)
    }

    fn with_asks(&self) -> BoxFuture<'_, Result<Vec<Summary>, ReadError>> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        self.log.with_asks()
    }

    fn summaries<'a>(&'a self, root: Option<&'a SessionId>) -> BoxFuture<'a, Result<Vec<Summary>, ReadError>> {
        self.log.summaries(root)
    }

    fn remove<'a>(&'a self, owner: &'a Ownership) -> BoxFuture<'a, Result<u64, AppendError>> {
        self.log.remove(owner)
    }
}

pub(crate) struct Project {
    pub(crate) log: Arc<CountingLog>,
    pub(crate) client: Local,
}

/// One session, `ses_01`, with so many open asks that nobody waits for: `bash(tool0 x)`, `bash(tool1 x)`, and so on.
pub(crate) async fn with_open_asks(count: usize) -> Project {
    let log = Arc::new(CountingLog::default());
    let world = World {
        log: log.clone(),
        lease: Arc::new(log.log.clone()),
        inbox: Arc::new(log.log.clone()),
        clock: Arc::new(SystemClock),
        ids: Arc::new(Ulids::new(Arc::new(SystemClock))),
        lanes: Arc::new(Lanes::new(Default::default())),
        live: Default::default(),
        outputs: Arc::new(posse_store::Outputs::new(Default::default())),
    };
    let root = SessionId::new("ses_01");
    let recipe = Recipe { agent: "build".into(), model: "m".into(), ..Recipe::default() };
    let mut events = vec![Event::Created {
        kind: Kind::Root,
        root: root.clone(),
        parent: None,
        directory: "/project".into(),
        title: String::new(),
        recipe,
        ceiling: Vec::new(),
        above: Default::default(),
        depth: 0,
        strict_shell: false,
        worktree: None,
        within: None,
    }];
    for number in 0..count {
        let call = CallId::new(format!("call_{number:04}"));
        let touch = Touch::new("bash", format!("tool{number} x"));
        let offer = Grant { key: "bash".into(), pattern: format!("tool{number} *"), exact: false };
        let decision = Decision { offers: vec![offer], ..Decision::of(Verdict::Ask, Some(touch.clone())) };
        events.push(Event::Called {
            call: call.clone(),
            tool: "bash".into(),
            input: Text::default(),
            wire_id: String::new(),
            touches: vec![touch],
            repeatable: false,
            title: String::new(),
            decision: Some(decision.clone()),
            consented: false,
        });
        events.push(Event::Asked { ask: AskId::new(format!("ask_{number:04}")), call, decision });
    }
    let owner = log.log.take(&root).await.unwrap();
    let append = Append {
        session: root.clone(),
        root,
        epoch: owner.epoch,
        batch: BatchId::new("batch_1"),
        after: 0,
        at: SystemClock.now(),
        events,
        blobs: Vec::new(),
        letters: Vec::new(),
    };
    log.append(append).await.unwrap();
    Project { client: Local::new(Arc::new(world)), log }
}
