//! The hub: opens trees and hands out handles to the session that is spoken to.
//!
//! Opening takes the tree's ownership first, folds the log, ends what a lost owner left running, and only then goes on.
//! Letters from other processes come in here and are brought to whom they are addressed.

use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use posse_session::{
    Birth, By, Command, Entry, Event, Hold, LeaseError, Letter, LetterId, Limit, Limits, Posted, ReadError, Segment, Session, SessionId,
    Text, Turn,
};
use tokio::{
    sync::{oneshot, watch},
    task::{JoinHandle, JoinSet},
};

use crate::{
    past::{self, Past},
    run::{Mail, RunError, Seen},
    tree::{Found, Route, RunHandle, Tree, Visit, wish},
    world::{Outfits, World},
};

/// How long closing waits until nothing of the tree is left.
const CLOSE_MAX: Duration = Duration::from_secs(6);

/// How often closing looks whether anything is left.
const CLOSE_LOOK: Duration = Duration::from_millis(2);

/// How soon a letter is tried again whose session is just being opened.
const LETTER_AGAIN: Duration = Duration::from_millis(20);

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
    /// Its agent cannot be made ready; in words.
    Outfit(String),
    Unavailable(String),
}

impl fmt::Display for OpenError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { by: Some(pid) } => write!(out, "process {pid} runs this session"),
            Self::Held { by: None } => out.write_str("another process runs this session"),
            Self::Missing => out.write_str("there is no such session"),
            Self::Foreign => out.write_str("this session was written by a later version of posse"),
            Self::Outfit(why) | Self::Unavailable(why) => out.write_str(why),
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
        outfits: Arc<dyn Outfits>,
        limits: Limits,
    ) -> Result<Handle, OpenError> {
        let owner = self.world.lease.take(&session).await?;
        let tree = Tree::new(self.world.clone(), outfits, owner, limits).await?;
        let birth = Birth::of(&created).ok_or(OpenError::Missing)?;
        let outfit = tree.outfits.outfit(&session, &birth).map_err(OpenError::Outfit)?;
        let opening = vec![wish(Command::Create(Box::new(created))), wish(Command::Say(first))];
        let Found::Free(seat) = tree.seat(&session) else { return Err(OpenError::Held { by: None }) };
        let run = tree.start(seat, Past::none(session), outfit, Turn::default(), opening).await?;
        Ok(Handle::new(run, HashSet::new()))
    }

    /// A new session that begins with stretches of others.
    pub async fn fork(
        &self,
        session: SessionId,
        created: Event,
        segments: Vec<Segment>,
        first: Option<Entry>,
        outfits: Arc<dyn Outfits>,
        limits: Limits,
    ) -> Result<Handle, OpenError> {
        let owner = self.world.lease.take(&session).await?;
        let tree = Tree::new(self.world.clone(), outfits, owner, limits).await?;
        let birth = Birth::of(&created).ok_or(OpenError::Missing)?;
        let outfit = tree.outfits.outfit(&session, &birth).map_err(OpenError::Outfit)?;
        let mut opening = vec![wish(Command::Create(Box::new(created))), wish(Command::Fork { segments: segments.clone() })];
        opening.extend(first.map(|first| wish(Command::Say(first))));
        let Found::Free(seat) = tree.seat(&session) else { return Err(OpenError::Held { by: None }) };
        let past = Past { foreign: segments, ..Past::none(session) };
        let run = tree.start(seat, past, outfit, Turn::default(), opening).await?;
        Ok(Handle::new(run, HashSet::new()))
    }

    /// Takes a session over, whatever state its last owner left it in, and does `then`.
    pub async fn open(
        &self,
        session: &SessionId,
        root: &SessionId,
        outfits: Arc<dyn Outfits>,
        limits: Limits,
        then: Vec<Command>,
    ) -> Result<Handle, OpenError> {
        let owner = self.world.lease.take(root).await?;
        let read = self.read(session).await?;
        let waiting = self.world.inbox.waiting(root).await?;
        let tree = Tree::new(self.world.clone(), outfits, owner, limits).await?;
        let Found::Free(seat) = tree.seat(session) else { return Err(OpenError::Held { by: None }) };
        let letters: Vec<_> =
            waiting.iter().filter(|posted| posted.to == *session).map(|posted| (posted.letter.command(), posted.id.clone())).collect();
        let taken = letters.iter().map(|(_, id)| id.clone()).collect();
        let run = tree.open(seat, read, letters, then, Vec::new()).await?;
        Ok(Handle::new(run, taken))
    }

    /// Keeps a fold of the session, so that it opens quickly however long its log is.
    pub async fn save_fold(&self, session: &SessionId) -> Result<(), OpenError> {
        past::save(&*self.world.log, session).await.map(|_| ())
    }

    /// A session and the records its transcript is made of, with their texts.
    pub async fn read(&self, session: &SessionId) -> Result<Past, OpenError> {
        past::read(&*self.world.log, session).await
    }
}

/// Brings letters from other processes to whom they are for, oldest first, each once.
async fn take_letters(tree: Weak<Tree>, mut taken: HashSet<LetterId>, mut first: Option<Visit>) {
    loop {
        // It must not keep the tree while it waits.
        let Some(held) = tree.upgrade() else { return };
        let (world, mut again) = (held.world.clone(), false);
        if let Ok(mut waiting) = world.inbox.waiting(&held.owner.root).await {
            taken.retain(|id| waiting.iter().any(|posted| posted.id == *id));
            waiting.retain(|posted| !taken.contains(&posted.id));
            for posted in waiting {
                match held.route(&posted.to) {
                    // What is said to it now would go down with it.
                    Some(_) if matches!(posted.letter, Letter::Say { .. }) && held.is_being_stopped(&posted.to) => {
                        again |= !take_in(&held, &mut taken, posted);
                    }
                    Some(route) => match hand_over(&route, &posted).await {
                        Some(Ok(())) => {}
                        Some(Err(RunError::AtRest)) => again |= !take_in(&held, &mut taken, posted),
                        Some(Err(_)) | None => again = true,
                    },
                    // Whoever watches it opens it in a moment.
                    None if held.expects(&posted.to) => again = true,
                    None => again |= !take_in(&held, &mut taken, posted),
                }
            }
        }
        if !again {
            // What had come before this tree was opened is on its way.
            drop(first.take());
        }
        drop(held);
        tokio::select! {
            () = world.inbox.rung() => {}
            () = tokio::time::sleep(LETTER_AGAIN), if again => {}
        }
    }
}

/// A letter to a session that nobody runs. Words for a task go through its parent; anything else opens it.
fn take_in(tree: &Arc<Tree>, taken: &mut HashSet<LetterId>, posted: Posted) -> bool {
    // A tree that is about to be left takes nobody in.
    let Some(visit) = tree.visit_unless_shut() else { return true };
    if let Letter::Say { entry } = posted.letter.clone()
        && posted.to != tree.owner.root
    {
        taken.insert(posted.id.clone());
        let tree = tree.clone();
        tree.clone().host(async move {
            let summaries = tree.world.log.summaries(Some(&tree.owner.root)).await.unwrap_or_default();
            if let Some(task) = summaries.iter().find(|summary| summary.session == posted.to) {
                // Words of a user are never refused; a tree that closes leaves the letter where it is.
                let _ = tree.bring(task, entry, Some(posted.id)).await;
            }
            drop(visit);
        });
        return true;
    }
    match tree.seat(&posted.to) {
        Found::Free(seat) => {
            taken.insert(posted.id.clone());
            let letters = vec![(posted.letter.command(), posted.id.clone())];
            tree.host(tree.clone().receive(visit, seat, posted.to, letters, None));
            true
        }
        Found::Open(_) | Found::Opening => false,
    }
}

/// Ready when the run has taken the letter in, or will not, or is gone.
async fn hand_over(route: &Route, posted: &Posted) -> Option<Result<(), RunError>> {
    let (done, taken) = oneshot::channel();
    let wish = Mail::Wish { command: posted.letter.command(), letter: Some(posted.id.clone()), done: Some(done) };
    route.mail.send(wish).await.ok()?;
    taken.await.ok()
}

/// The way to a session and its tree. When it is gone, every run of the tree ends and the tree is free.
pub struct Handle {
    run: RunHandle,
    letters: Option<Postman>,
}

/// Brings letters as long as it lives.
struct Postman(JoinHandle<()>, Weak<Tree>);

impl Drop for Postman {
    fn drop(&mut self) {
        self.0.abort();
        if let Some(tree) = self.1.upgrade() {
            tree.send_guests_home();
        }
    }
}

impl Handle {
    fn new(run: RunHandle, taken: HashSet<LetterId>) -> Self {
        let first = run.tree().upgrade().map(|tree| tree.visit());
        let letters = Postman(tokio::spawn(take_letters(run.tree().clone(), taken, first)), run.tree().clone());
        Self { run, letters: Some(letters) }
    }

    pub fn id(&self) -> &SessionId {
        self.run.id()
    }

    /// Returns when what the command led to is durable.
    pub async fn command(&self, command: Command) -> Result<(), RunError> {
        tell(&self.run.route(), command).await
    }

    /// As [`Handle::command`], to any session of the tree that is run right now.
    pub async fn command_to(&self, session: &SessionId, command: Command) -> Result<(), RunError> {
        match self.run.tree().upgrade().and_then(|tree| tree.route(session)) {
            Some(route) => tell(&route, command).await,
            None => Err(RunError::Moved),
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
        self.command(Command::Limit { limit, words, partial: Text::default(), own: false }).await
    }

    /// The session as of the last append; nothing before the run has had its first turn.
    pub fn session(&self) -> Result<Option<Arc<Session>>, RunError> {
        self.run.route().seen.borrow().clone()
    }

    /// Every session of the tree that is run right now.
    pub fn sessions(&self) -> Vec<Arc<Session>> {
        self.run.tree().upgrade().map(|tree| tree.sessions()).unwrap_or_default()
    }

    /// Ready when something was appended in any session of the tree.
    pub async fn changed(&self) {
        let changes = self.run.tree().upgrade().map(|tree| tree.changes());
        let Some(mut changes) = changes else { return std::future::pending().await };
        if changes.changed().await.is_err() {
            std::future::pending().await
        }
    }

    /// Ready when nothing is open and nothing is due, here and in sessions that were spoken to directly.
    pub async fn settled(&self) -> Result<Arc<Session>, RunError> {
        let mut seen = self.run.route().seen;
        let gone = |seen: &watch::Receiver<Seen>| seen.borrow().clone().err().unwrap_or(RunError::Moved);
        let Some(mut visits) = self.run.tree().upgrade().map(|tree| tree.visits()) else { return Err(gone(&seen)) };
        loop {
            let now = seen.borrow_and_update().clone()?;
            if let Some(session) = now.filter(|session| session.is_settled()) {
                if let Some(tree) = self.run.tree().upgrade() {
                    tree.take_up_leftovers().await;
                }
                if *visits.borrow_and_update() == 0 {
                    return Ok(session);
                }
            }
            let changed = tokio::select! {
                changed = seen.changed() => changed,
                changed = visits.changed() => changed,
            };
            if changed.is_err() {
                return Err(gone(&seen));
            }
        }
    }

    /// Ready when the session spoken to has nothing to do but to wait for what runs in the background.
    pub async fn only_waits(&self) -> Result<(), RunError> {
        let mut seen = self.run.route().seen;
        loop {
            if seen.borrow_and_update().clone()?.is_some_and(|session| session.only_waits()) {
                return Ok(());
            }
            if seen.changed().await.is_err() {
                return Err(RunError::Moved);
            }
        }
    }

    /// Lets everybody below put down what they have in hand: tools end with what they have, and no step begins. What is
    /// open stays open in the logs, for whoever goes on.
    pub async fn pause(&self, most: Duration) {
        let Some(tree) = self.run.tree().upgrade() else { return };
        let mut pauses = JoinSet::new();
        for route in tree.routes_but(self.run.id()) {
            let (done, paused) = oneshot::channel();
            pauses.spawn(async move {
                if route.mail.send(Mail::Pause { done }).await.is_ok() {
                    let _ = paused.await;
                }
            });
        }
        drop(tree);
        let _ = tokio::time::timeout(most, pauses.join_all()).await;
    }

    /// Ends the run if nothing is left to do. `false`: something came in meanwhile, and it goes on.
    pub async fn finish(&self) -> bool {
        let Some(tree) = self.run.tree().upgrade() else { return true };
        // From here on letters stay where they are; whoever posted one becomes the owner.
        if !tree.shut() {
            return false;
        }
        let ended = self.run.finish().await;
        if !ended {
            tree.reopen();
        }
        ended
    }

    /// Ends every run of the tree at once, whatever it does, and waits until they have let go of it.
    pub async fn close(self) {
        let tree = self.run.tree().clone();
        let Self { run, letters } = self;
        drop(letters);
        run.close().await;
        let gone = async {
            while 0 < tree.strong_count() {
                tokio::time::sleep(CLOSE_LOOK).await;
            }
        };
        let _ = tokio::time::timeout(CLOSE_MAX, gone).await;
    }
}

pub(crate) async fn tell(route: &Route, command: Command) -> Result<(), RunError> {
    let (done, taken) = oneshot::channel();
    let sent = route.mail.send(Mail::Wish { command, letter: None, done: Some(done) }).await;
    match taken.await {
        Ok(taken) if sent.is_ok() => taken,
        _ => Err(route.seen.borrow().clone().err().unwrap_or(RunError::Moved)),
    }
}
