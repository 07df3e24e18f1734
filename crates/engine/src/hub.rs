//! The hub: opens sessions as runs and hands out handles to them.
//!
//! Opening takes the tree's ownership first, folds the log, ends what a lost owner left running, and only then goes on.
//! Letters from other processes come in here.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use posse_context::{Thread, changes, is_change};
use posse_session::{
    By, CallState, Command, Entry, Event, Head, Hold, LeaseError, Letter, LetterId, Limit, Limits, Ownership, Part, Posted, ReadError,
    Record, Session, SessionId, Text,
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
};

use crate::{
    ledger::Ledger,
    run::{MAIL_MAX, Mail, Run, RunError, Seen},
    spill::{content_hash, read_all, restore},
    world::{Outfit, World},
};

/// How long closing waits for a run to end what it has under way.
const CLOSE_MAX: Duration = Duration::from_secs(6);

pub struct Hub {
    world: Arc<World>,
}

/// Why a session could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// A living process owns the tree: post a letter.
    Held {
        by: Option<u32>,
    },
    /// There is no such session.
    Missing,
    /// Its log holds facts of a later version; it can only be read.
    Foreign,
    Unavailable(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { by: Some(pid) } => write!(out, "process {pid} runs this session"),
            Self::Held { by: None } => out.write_str("another process runs this session"),
            Self::Missing => out.write_str("there is no such session"),
            Self::Foreign => out.write_str("this session was written by a later version of posse"),
            Self::Unavailable(why) => out.write_str(why),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<LeaseError> for OpenError {
    fn from(error: LeaseError) -> Self {
        match error {
            LeaseError::Held { by } => Self::Held { by },
            LeaseError::Unavailable(why) => Self::Unavailable(why),
        }
    }
}

impl From<ReadError> for OpenError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Missing => Self::Missing,
            ReadError::Unavailable(why) => Self::Unavailable(why),
        }
    }
}

impl Hub {
    pub fn new(world: Arc<World>) -> Self {
        Self { world }
    }

    pub fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// Begins a session: its first facts are one append together with the first step.
    pub async fn create(
        &self,
        session: SessionId,
        created: Event,
        first: Entry,
        outfit: Outfit,
        limits: Limits,
    ) -> Result<Handle, OpenError> {
        let owner = self.world.lease.take(&session).await?;
        let opening = vec![wish(Command::Create(Box::new(created))), wish(Command::Say(first))];
        self.start(Session::new(session), Vec::new(), owner, outfit, limits, opening).await
    }

    /// Takes a session over, whatever state its last owner left it in, and does `then`.
    pub async fn open(
        &self,
        session: &SessionId,
        root: &SessionId,
        outfit: Outfit,
        limits: Limits,
        then: Vec<Command>,
    ) -> Result<Handle, OpenError> {
        let owner = self.world.lease.take(root).await?;
        let (folded, records) = self.read(session).await?;
        let waiting = self.world.inbox.waiting(root).await?;
        if folded.is_foreign() {
            return Err(OpenError::Foreign);
        }
        let begun = folded.calls().iter().filter(|call| matches!(call.state, CallState::Running | CallState::Stopping));
        let begun: Vec<_> = begun.map(|call| call.call.clone()).collect();
        // What a lost owner's calls left running ends before they are said to be lost.
        outfit.workspace.sweep(&begun).await;
        // Letters that nobody took in come first: they were posted before whatever is wanted now. Answers come even before
        // the take-over, which refuses what nobody has answered.
        let by_letter = |posted: &Posted| Mail::Wish { command: command(posted), letter: Some(posted.id.clone()), done: None };
        let (answers, others): (Vec<_>, Vec<_>) = waiting.iter().partition(|posted| matches!(posted.letter, Letter::Answer { .. }));
        let mut opening: Vec<Mail> = answers.into_iter().map(by_letter).collect();
        opening.push(wish(Command::TakeOver));
        opening.extend(others.into_iter().map(by_letter));
        opening.extend(then.into_iter().map(wish));
        self.start(folded, records, owner, outfit, limits, opening).await
    }

    /// A session and the records its transcript is made of, with their texts.
    pub async fn read(&self, session: &SessionId) -> Result<(Session, Vec<Record>), OpenError> {
        let log = &self.world.log;
        let mut records = read_all(&**log, session, 0).await?;
        if records.is_empty() {
            return Err(OpenError::Missing);
        }
        let folded = Session::fold(session.clone(), &records);
        let segments = folded.segments();
        // Most sessions see their whole log; then nothing needs to be copied.
        let whole = matches!(&segments[..], [only] if only.session == *session && only.from == 0);
        let mut transcript = if whole { std::mem::take(&mut records) } else { Vec::new() };
        for segment in segments.iter().filter(|_| !whole) {
            if segment.session == *session {
                transcript.extend(records.iter().filter(|record| segment.from < record.seq && record.seq <= segment.to).cloned());
            } else {
                let wanted = usize::try_from(segment.to - segment.from).unwrap_or(usize::MAX);
                transcript.extend(log.read(&segment.session, segment.from, wanted).await?);
            }
        }
        restore(&**log, &mut transcript).await?;
        Ok((folded, transcript))
    }

    async fn start(
        &self,
        session: Session,
        records: Vec<Record>,
        owner: Ownership,
        mut outfit: Outfit,
        limits: Limits,
        mut opening: Vec<Mail>,
    ) -> Result<Handle, OpenError> {
        outfit.add_hooks_tools();
        let mut spent = (posse_session::Usage::default(), 0);
        if 0 < session.head() {
            for summary in self.world.log.summaries(Some(&owner.root)).await? {
                spent.0 += summary.usage;
                spent.1 += summary.steps;
            }
        }
        let (recorded, notes) = self.recorded_head(&session, &records, &outfit).await?;
        let mut blobs = Vec::new();
        let head = match recorded {
            Some(head) => head,
            None => {
                let bytes = serde_json::to_vec(&outfit.head).map_err(|error| OpenError::Unavailable(error.to_string()))?;
                let hash = content_hash(&bytes);
                blobs.push((hash.clone(), bytes.into()));
                // After the first fact or the take-over, before anything that could open a turn.
                opening
                    .insert(after_the_opening(&opening), wish(Command::Configure { head: hash, model: outfit.model.facts().name.clone() }));
                outfit.head.clone()
            }
        };
        let head = outfit.model.encode_head(&head);
        let (mail, inbox) = mpsc::channel(MAIL_MAX);
        let (seen, watcher) = watch::channel(Ok(None));
        let owner = Arc::new(owner);
        let mut run = Run {
            world: self.world.clone(),
            outfit: Arc::new(outfit),
            owner: owner.clone(),
            ledger: Arc::new(Ledger::new(limits, spent.0, spent.1)),
            session,
            thread: Thread::default(),
            body_bytes: head.len() as u64,
            head,
            messages: Vec::new(),
            woven: Vec::new(),
            inputs: HashMap::new(),
            inbox,
            mail: mail.clone(),
            seen,
            under_way: Default::default(),
            slot: None,
            reserved: Default::default(),
            output_max: 0,
            blobs,
            notes,
            memory: Arc::new(Mutex::default()),
            grants: Vec::new(),
            wake_at: None,
            lane_full: false,
            waits: None,
        };
        records.iter().for_each(|record| run.weave(record));
        let looks = run.look_again();
        if !looks.is_empty() {
            opening.insert(after_the_opening(&opening) - 1, wish(Command::Rejudge { looks }));
        }
        let id = run.session.id().clone();
        let taken = opening.iter().filter_map(|mail| if let Mail::Wish { letter, .. } = mail { letter.clone() } else { None }).collect();
        let task = tokio::spawn(run.go(opening));
        let letters = tokio::spawn(take_letters(self.world.clone(), owner.root.clone(), mail.clone(), taken));
        Ok(Handle { id, mail, seen: watcher, task: Some(task), letters })
    }

    /// The head this session has recorded, if it is for the same agent, model and tools; and what has changed around it.
    async fn recorded_head(&self, session: &Session, records: &[Record], outfit: &Outfit) -> Result<(Option<Head>, Vec<Part>), OpenError> {
        let Some(configured) = session.configured() else { return Ok((None, Vec::new())) };
        // A head that cannot be read back is made anew.
        let bytes = match self.world.log.blob(&configured.head).await {
            Err(ReadError::Missing) => return Ok((None, Vec::new())),
            read => read?,
        };
        let Ok(recorded) = serde_json::from_slice::<Head>(&bytes) else { return Ok((None, Vec::new())) };
        let same = configured.model == outfit.model.facts().name
            && recorded.tools == outfit.head.tools
            && recorded.params == outfit.head.params
            && recorded.system.first() == outfit.head.system.first();
        // Inside a turn the recorded head stays, whatever is configured now.
        if !same && session.is_between_turns() {
            return Ok((None, Vec::new()));
        }
        let told = last_told(records);
        let changed = changes(&recorded.system, &outfit.head.system).map(Part::reminder);
        Ok((Some(recorded), changed.filter(|note| Some(note) != told).into_iter().collect()))
    }
}

/// The last word on what had changed around the session: the same is not said twice.
fn last_told(records: &[Record]) -> Option<&Part> {
    let told = |note: &&Part| matches!(note, Part::Text { text, synthetic: true } if text.inline().is_some_and(is_change));
    records.iter().rev().find_map(|record| match &record.event {
        Event::StepStarted { notes, .. } => notes.iter().find(told),
        _ => None,
    })
}

/// The place right after the first fact or the take-over.
fn after_the_opening(opening: &[Mail]) -> usize {
    let opens = |mail: &Mail| matches!(mail, Mail::Wish { command: Command::Create(_) | Command::TakeOver, .. });
    opening.iter().position(opens).map_or(0, |at| at + 1)
}

fn wish(command: Command) -> Mail {
    Mail::Wish { command, letter: None, done: None }
}

/// Brings letters from other processes to the run, oldest first, each once.
async fn take_letters(world: Arc<World>, root: SessionId, mail: mpsc::Sender<Mail>, mut taken: HashSet<LetterId>) {
    loop {
        if let Ok(mut waiting) = world.inbox.waiting(&root).await {
            taken.retain(|id| waiting.iter().any(|posted| posted.id == *id));
            waiting.retain(|posted| !taken.contains(&posted.id));
            for posted in waiting {
                let (done, taken) = oneshot::channel();
                let wish = Mail::Wish { command: command(&posted), letter: Some(posted.id), done: Some(done) };
                if mail.send(wish).await.is_err() || taken.await.is_err() {
                    return;
                }
            }
        }
        world.inbox.rung().await;
    }
}

fn command(posted: &Posted) -> Command {
    match posted.letter.clone() {
        Letter::Say { entry } => Command::Say(entry),
        Letter::Answer { ask, answer } => Command::Answer { ask, answer, by: By::User },
        Letter::Stop { .. } => Command::Interrupt { by: By::User, hold: Hold::StoppedByUser, partial: Text::default() },
        Letter::Resume => Command::Resume { by: By::User },
        Letter::Revoke { ask } => Command::Revoke { ask, by: By::User },
        Letter::Detach { task } => Command::Detach { task },
    }
}

/// The way to a run. When the last one is gone, the run ends and the tree is free.
pub struct Handle {
    id: SessionId,
    mail: mpsc::Sender<Mail>,
    seen: watch::Receiver<Seen>,
    task: Option<JoinHandle<()>>,
    letters: JoinHandle<()>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.letters.abort();
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Handle {
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Returns when what the command led to is durable.
    pub async fn command(&self, command: Command) -> Result<(), RunError> {
        let (done, taken) = oneshot::channel();
        let sent = self.mail.send(Mail::Wish { command, letter: None, done: Some(done) }).await;
        match taken.await {
            Ok(taken) if sent.is_ok() => taken,
            _ => Err(self.seen.borrow().clone().err().unwrap_or(RunError::Moved)),
        }
    }

    pub async fn say(&self, entry: Entry) -> Result<(), RunError> {
        self.command(Command::Say(entry)).await
    }

    pub async fn interrupt(&self) -> Result<(), RunError> {
        self.command(Command::Interrupt { by: By::User, hold: Hold::Esc, partial: Text::default() }).await
    }

    /// Ends the turn because a limit outside the session is used up.
    pub async fn limit(&self, limit: Limit, words: String) -> Result<(), RunError> {
        self.command(Command::Limit { limit, words, partial: Text::default() }).await
    }

    /// The session as of the last append; nothing before the run has had its first turn.
    pub fn session(&self) -> Result<Option<Arc<Session>>, RunError> {
        self.seen.borrow().clone()
    }

    /// Ready when something was appended; never, once the run has ended.
    pub async fn changed(&self) {
        let mut seen = self.seen.clone();
        seen.mark_unchanged();
        if seen.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Ready when nothing is open and nothing is due.
    pub async fn settled(&self) -> Result<Arc<Session>, RunError> {
        let mut seen = self.seen.clone();
        loop {
            match &*seen.borrow_and_update() {
                Ok(Some(session)) if session.is_settled() => return Ok(session.clone()),
                Ok(_) => {}
                Err(error) => return Err(error.clone()),
            }
            if seen.changed().await.is_err() {
                return Err(RunError::Moved);
            }
        }
    }

    /// Ends the run if nothing is left to do. `false`: something came in meanwhile, and it goes on.
    pub async fn finish(&self) -> bool {
        let (done, ended) = oneshot::channel();
        let sent = self.mail.send(Mail::Finish { done }).await;
        sent.is_err() || ended.await.unwrap_or(true)
    }

    /// Ends the run at once, whatever it does, and waits until it has let go of the tree.
    pub async fn close(mut self) {
        self.letters.abort();
        if let Some(task) = self.task.take() {
            task.abort();
            let _ = tokio::time::timeout(CLOSE_MAX, task).await;
        }
    }
}
