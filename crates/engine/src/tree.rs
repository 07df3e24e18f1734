//! A tree: what the runs of one root and its tasks share, and how one run finds or opens another.
//!
//! The parent's watch owns the child's run, so runs end with whoever started them; the table here only knows the way to
//! each. A child's log is the truth about it: whoever opens it goes on from there. Nothing here writes to a log.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use posse_context::moved_notice;
use posse_session::{
    Birth, By, CallState, Command, Effort, Entry, Event, Finish, Hash, Head, Hold, How, Kind, LetterId, Limits, Ownership, Part, Purpose,
    ReadError, Rules, Segment, Session, SessionId, Source, Spawn, Text, Turn, Usage, Voice,
};
use tokio::{
    sync::{oneshot, watch},
    task::{JoinHandle, JoinSet},
};

use crate::{
    batch::Batches,
    compacting::fork_wishes,
    head::{after_the_opening, recorded_head},
    hub::OpenError,
    ledger::Ledger,
    live::Pulse,
    past::{Past, read},
    prefix::{Prefix, Prefixes, Shared},
    run::{Mail, Mailbox, Run, RunError, Seen},
    spill::{content_hash, read_all, restore},
    subtask::spoken_by,
    work::TaskBirth,
    world::{Outfit, Outfits, World},
};

/// How often somebody looks again for a run that is just being opened.
const LOOK: Duration = Duration::from_millis(10);

/// Encoded heads kept for sessions that begin alike; a tree has a few agents, not hundreds.
const HEADS_MAX: usize = 64;

pub(crate) struct Tree {
    pub(crate) world: Arc<World>,
    pub(crate) outfits: Arc<dyn Outfits>,
    pub(crate) owner: Ownership,
    pub(crate) ledger: Ledger,
    seats: Mutex<HashMap<SessionId, Seat>>,
    heads: Mutex<HashMap<Hash, Arc<[u8]>>>,
    pub(crate) prefixes: Prefixes,
    pub(crate) batches: Batches,
    changed: watch::Sender<()>,
    /// Letters that are on their way in, and sessions that are open for one.
    visits: watch::Sender<usize>,
    guests: Mutex<JoinSet<()>>,
    /// The owner is about to leave.
    shut: Mutex<bool>,
    /// The last task that was given each name.
    names: Mutex<HashMap<String, SessionId>>,
    /// Somebody else may have left work behind that no watch will find.
    inherited: AtomicBool,
}

/// Something of the tree that goes on beside the root: it is not at rest before this is dropped.
pub(crate) struct Visit(Arc<Tree>);

impl Drop for Visit {
    fn drop(&mut self) {
        self.0.visits.send_modify(|visits| *visits = visits.saturating_sub(1));
    }
}

/// A session's place in the table.
enum Seat {
    /// Somebody opens it right now.
    Opening,
    Open(Route),
}

/// The way to a run.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) mail: Mailbox,
    pub(crate) seen: watch::Receiver<Seen>,
}

/// Whose it is to open a session.
pub(crate) enum Found {
    Open(Route),
    Opening,
    /// Nobody has it; it is the caller's now.
    Free(Reserved),
}

/// A seat that is kept until the run is there; given up when dropped.
pub(crate) struct Reserved {
    tree: Arc<Tree>,
    id: SessionId,
    kept: bool,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if !self.kept {
            self.tree.seats().remove(&self.id);
        }
    }
}

/// A task that was to be opened.
enum Opened {
    Run(RunHandle),
    /// Its end is in its log.
    Over(Box<Session>),
}

/// What a child came to.
pub(crate) struct Attended {
    pub(crate) how: How,
    /// The texts and the thoughts of its last words.
    pub(crate) texts: Vec<String>,
    pub(crate) reasoning: Vec<String>,
    pub(crate) error: String,
    pub(crate) usage: Usage,
    pub(crate) effort: Effort,
    /// Who stopped it.
    pub(crate) by: Option<By>,
    /// Its last words are not whole: the output limit cut them.
    pub(crate) is_cut: bool,
}

impl Tree {
    pub(crate) async fn new(
        world: Arc<World>,
        outfits: Arc<dyn Outfits>,
        owner: Ownership,
        limits: Limits,
    ) -> Result<Arc<Self>, ReadError> {
        let so_far = world.log.summaries(Some(&owner.root)).await?;
        let ledger = Ledger::new(owner.root.clone(), limits, &so_far);
        Ok(Arc::new(Self {
            world,
            outfits,
            owner,
            ledger,
            seats: Mutex::default(),
            heads: Mutex::default(),
            prefixes: Prefixes::default(),
            batches: Batches::default(),
            changed: watch::Sender::new(()),
            visits: watch::Sender::new(0),
            guests: Mutex::default(),
            shut: Mutex::default(),
            names: Mutex::new(so_far.iter().flat_map(|summary| summary.named.iter().cloned()).collect()),
            inherited: AtomicBool::new(!so_far.is_empty()),
        }))
    }

    /// Takes nobody in any more; `false`: somebody is there.
    pub(crate) fn shut(&self) -> bool {
        let mut shut = self.shut.lock().unwrap_or_else(PoisonError::into_inner);
        *shut = *self.visits.borrow() == 0;
        *shut
    }

    pub(crate) fn reopen(&self) {
        *self.shut.lock().unwrap_or_else(PoisonError::into_inner) = false;
    }

    pub(crate) fn visit_unless_shut(self: &Arc<Self>) -> Option<Visit> {
        let shut = self.shut.lock().unwrap_or_else(PoisonError::into_inner);
        (!*shut).then(|| self.visit())
    }

    pub(crate) fn visit(self: &Arc<Self>) -> Visit {
        self.visits.send_modify(|visits| *visits += 1);
        Visit(self.clone())
    }

    /// Keeps something going beside the watches, until the tree is closed.
    pub(crate) fn host(&self, guest: impl Future<Output = ()> + Send + 'static) {
        let mut guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        while guests.try_join_next().is_some() {}
        guests.spawn(guest);
    }

    pub(crate) fn send_guests_home(&self) {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }

    /// Whether somebody else worked on this tree before; asked once.
    pub(crate) fn is_inherited(&self) -> bool {
        self.inherited.swap(false, Ordering::SeqCst)
    }

    pub(crate) fn visits(&self) -> watch::Receiver<usize> {
        self.visits.subscribe()
    }

    pub(crate) fn note_name(&self, name: &str, task: &SessionId) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), task.clone());
    }

    /// The task of this name, if it is run right now.
    pub(crate) fn named_and_open(&self, name: &str) -> Option<SessionId> {
        let task = self.names.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()?;
        self.seats().contains_key(&task).then_some(task)
    }

    /// Whether nobody waits for a session, or for one above it.
    pub(crate) fn is_background(&self, session: &Session) -> bool {
        let mut below = session.id().clone();
        let mut next = session.birth().and_then(|birth| birth.parent.clone());
        while let Some(parent) = next.take().and_then(|parent| self.seen(&parent)) {
            if parent
                .tasks()
                .get(&below)
                .is_some_and(|open| open.waiting.is_empty() && !open.purpose.as_ref().is_some_and(Purpose::is_waited_for))
            {
                return true;
            }
            (below, next) = (parent.id().clone(), parent.birth().and_then(|birth| birth.parent.clone()));
        }
        false
    }

    fn seats(&self) -> MutexGuard<'_, HashMap<SessionId, Seat>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The way to a session's run, if there is one.
    pub(crate) fn route(&self, session: &SessionId) -> Option<Route> {
        match self.seats().get(session) {
            Some(Seat::Open(route)) => Some(route.clone()),
            _ => None,
        }
    }

    /// Every session that is run right now, as of its last append.
    pub(crate) fn sessions(&self) -> Vec<Arc<Session>> {
        let routes: Vec<Route> =
            self.seats().values().filter_map(|seat| if let Seat::Open(route) = seat { Some(route.clone()) } else { None }).collect();
        routes.iter().filter_map(|route| route.seen.borrow().clone().ok().flatten()).collect()
    }

    pub(crate) fn routes_but(&self, session: &SessionId) -> Vec<Route> {
        let seats = self.seats();
        let others = seats.iter().filter(|(id, _)| *id != session);
        others.filter_map(|(_, seat)| if let Seat::Open(route) = seat { Some(route.clone()) } else { None }).collect()
    }

    /// Says something to every other run, without waiting for it to be heard.
    pub(crate) fn tell_others(&self, session: &SessionId, command: &Command) {
        for route in self.routes_but(session) {
            let (mail, command) = (route.mail, command.clone());
            tokio::spawn(async move { mail.send(wish(command)).await });
        }
    }

    /// Somebody's watch has it, or will in a moment.
    pub(crate) fn expects(&self, session: &SessionId) -> bool {
        self.seats().contains_key(session) || self.sessions().iter().any(|open| open.tasks().contains_key(session))
    }

    pub(crate) fn seat(self: &Arc<Self>, session: &SessionId) -> Found {
        let mut seats = self.seats();
        match seats.get(session) {
            Some(Seat::Open(route)) => Found::Open(route.clone()),
            Some(Seat::Opening) => Found::Opening,
            None => {
                seats.insert(session.clone(), Seat::Opening);
                Found::Free(Reserved { tree: self.clone(), id: session.clone(), kept: false })
            }
        }
    }

    /// Something was appended in some run.
    pub(crate) fn note_change(&self) {
        self.changed.send_replace(());
    }

    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// The bytes a head becomes, shared by all who begin alike.
    fn encoded(&self, outfit: &Outfit, head: &Head, hash: Option<Hash>) -> Arc<[u8]> {
        let Some(hash) = hash else { return outfit.model.encode_head(head) };
        // The model's name is part of what is encoded, and so is the shape of the answer.
        let hash = Hash::new(format!("{} {hash} {}", outfit.model.facts().name, head.answer.is_some()));
        let mut heads = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = heads.get(&hash) {
            return known.clone();
        }
        let encoded = outfit.model.encode_head(head);
        if heads.len() < HEADS_MAX {
            heads.insert(hash, encoded.clone());
        }
        encoded
    }

    /// What a session begins with that others have said, and where its own words go on from there.
    pub(crate) async fn begin_with(
        &self,
        foreign: &[Segment],
        kind: Option<Kind>,
        outfit: &Outfit,
    ) -> Result<(Option<Shared>, Prefix), ReadError> {
        if foreign.is_empty() {
            return Ok((None, Prefix::default()));
        }
        let shared = self.prefixes.of(&*self.world.log, foreign, outfit, kind.is_some_and(Kind::is_fork)).await?;
        let said = shared.get().map(|before| before.continued()).unwrap_or_default();
        Ok((Some(shared), said))
    }

    /// A run of a session that was folded from `records`, beginning with `opening`.
    pub(crate) async fn start(
        self: &Arc<Self>,
        mut seat: Reserved,
        past: Past,
        mut outfit: Outfit,
        speaker: Turn,
        mut opening: Vec<Mail>,
    ) -> Result<RunHandle, OpenError> {
        outfit.add_hooks_tools();
        let Past { session, records, foreign, beside, saved } = past;
        let kind = session.birth().map(|birth| birth.kind).or_else(|| birth_in(&opening).map(|birth| birth.kind));
        let (before, said) = self.begin_with(&foreign, kind, &outfit).await?;
        let begins = session.steps() == 0;
        let given = given_head(&opening);
        let keeps_head = !foreign.is_empty() && kind != Some(Kind::Root);
        let (recorded, mut notes) = recorded_head(&*self.world.log, &session, &records, &outfit, given.clone()).await?;
        if begins
            && foreign.is_empty()
            && let Some(words) = outfit.initial.take()
        {
            notes.push(Part::reminder(words));
        }
        // Who has read of another folder is told where it is now.
        let worktree = session.birth().cloned().or_else(|| birth_in(&opening)).and_then(|birth| birth.worktree);
        if let Some(worktree) = worktree.filter(|_| begins && !foreign.is_empty()) {
            let lacks = outfit.lacks.as_ref().map(|words| format!(" {words}")).unwrap_or_default();
            notes.push(Part::reminder(moved_notice(&worktree.home, &worktree.path) + &lacks));
        }
        let (mut blobs, mut new_head) = (Vec::new(), None);
        // Somebody else than the turn's speaker: the turn's head is not for it.
        let stands_in = speaker != Turn { allowed: Vec::new(), ..session.next_turn() };
        let head = match recorded {
            Some(_) if stands_in => {
                new_head = Some(stored(&outfit.head)?);
                self.encoded(&outfit, &outfit.head, None)
            }
            Some(head) => {
                let encoded = self.encoded(&outfit, &head, session.configured().map(|configured| configured.head.clone()).or(given));
                if keeps_head {
                    // What it may call is what its head says.
                    outfit.head = Arc::new(head);
                }
                encoded
            }
            None => {
                let (hash, bytes) = stored(&outfit.head)?;
                let encoded = self.encoded(&outfit, &outfit.head, Some(hash.clone()));
                blobs.push((hash.clone(), bytes));
                // After the first fact or the take-over, before anything that could open a turn.
                let configure = Command::Configure { head: hash, model: outfit.model.facts().name.clone() };
                opening.insert(after_the_opening(&opening), wish(configure));
                encoded
            }
        };
        let (mail, inbox) = Mailbox::new();
        let (seen, watcher) = watch::channel(Ok(None));
        let mut run = Run {
            world: self.world.clone(),
            tree: self.clone(),
            outfit: Arc::new(outfit),
            session,
            head,
            before,
            said,
            reply: (0, 0),
            lent: None,
            beside: Default::default(),
            gate: None,
            opener: None,
            learned: Default::default(),
            saved,
            again: false,
            inputs: HashMap::new(),
            errands: HashMap::new(),
            reads: HashMap::new(),
            kept: HashMap::new(),
            pulse: Pulse::default(),
            stopwatch: Default::default(),
            pauses: None,
            typing: Default::default(),
            speaker,
            new_head,
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
            place: None,
            granted: None,
            wake_soon: false,
            waits: None,
        };
        // What was started before the transcript begins may still be open.
        beside.iter().for_each(|record| run.learn(record));
        records.iter().for_each(|record| run.weave(record));
        run.tell_so_far(&records).await?;
        drop(records);
        let parent = run.session.birth().and_then(|birth| birth.parent.clone()).or_else(|| born_of(&opening));
        self.ledger.open(run.session.id(), parent.as_ref(), run.outfit.own_limits);
        let looks = run.look_again();
        if !looks.is_empty() {
            opening.insert(after_the_opening(&opening) - 1, wish(Command::Rejudge { looks }));
        }
        let id = run.session.id().clone();
        let task = tokio::spawn(run.go(opening));
        self.seats().insert(id.clone(), Seat::Open(Route { mail: mail.clone(), seen: watcher.clone() }));
        seat.kept = true;
        Ok(RunHandle { tree: Arc::downgrade(self), id, mail, seen: watcher, task: Some(task) })
    }

    /// Opens a session that exists, whatever state its last owner left it in. `letters` and `then` are what is wanted of it.
    pub(crate) async fn open(
        self: &Arc<Self>,
        seat: Reserved,
        past: Past,
        letters: Vec<(Command, LetterId)>,
        then: Vec<Command>,
        above: Vec<Rules>,
    ) -> Result<RunHandle, OpenError> {
        let folded = &past.session;
        if folded.is_foreign() {
            return Err(OpenError::Foreign);
        }
        let birth = folded.birth().ok_or(OpenError::Missing)?;
        // Who only hears of a title, or of an answer taken back, needs no folder.
        let works = !folded.is_settled() || then.iter().chain(letters.iter().map(|(command, _)| command)).any(begins_work);
        let ensured = match birth.worktree.as_ref().filter(|_| works) {
            Some(worktree) => self.outfits.ensure_worktree(worktree).await.map(Some),
            None => Ok(None),
        };
        // Who was in the middle of a turn goes on with it. Where it cannot be made ready any more nothing of the turn may
        // run, and the next step says so.
        let speaker = Turn { allowed: Vec::new(), ..folded.next_turn() };
        let spoken = spoken_by(&*self.outfits, birth, &speaker)
            .and_then(|(birth, _)| self.outfits.outfit(folded.id(), &birth).map_err(OpenError::Outfit));
        let (mut outfit, speaker) = match spoken {
            Ok(outfit) => (outfit, speaker),
            Err(error) if speaker == Turn::default() => return Err(error),
            Err(_) => {
                let mut own = self.outfits.outfit(folded.id(), birth).map_err(OpenError::Outfit)?;
                own.ceiling.push(Rules::denying_all());
                (own, Turn::default())
            }
        };
        // Those above it may have become stricter since it was made, and whoever goes on with it may be another.
        outfit.ceiling.extend(above.into_iter().filter(|rules| !birth.ceiling.contains(rules)));
        let begun = folded.calls().iter().filter(|call| matches!(call.state, CallState::Running | CallState::Stopping));
        let begun: Vec<_> = begun.map(|call| call.call.clone()).collect();
        // What a lost owner's calls left running ends before they are said to be lost.
        outfit.workspace.sweep(&begun).await;
        // Letters that nobody took in come first: they were posted before whatever is wanted now. Answers come even before
        // the take-over, which refuses what nobody has answered.
        let (answers, others): (Vec<_>, Vec<_>) = letters.into_iter().partition(|(command, _)| matches!(command, Command::Answer { .. }));
        let by_letter = |(command, letter)| Mail::Wish { command, letter: Some(letter), done: None };
        let mut opening: Vec<Mail> = answers.into_iter().map(by_letter).collect();
        opening.push(wish(Command::TakeOver));
        opening.extend(others.into_iter().map(by_letter));
        opening.extend(then.into_iter().map(wish));
        match ensured {
            Ok(presence) => outfit.presence = presence.map(Arc::from),
            // What it was in the middle of ends in its own log, which is the truth about it.
            Err(words) => outfit.make_unready(&words),
        }
        self.start(seat, past, outfit, speaker, opening).await
    }

    /// Sees that a task exists, has heard its prompt and runs, until its round is over.
    pub(crate) async fn attend(
        self: &Arc<Self>,
        task: &SessionId,
        spawn: &Spawn,
        parent: &SessionId,
        birth: &TaskBirth,
    ) -> Result<Attended, RunError> {
        let source = spawn.by.clone().unwrap_or_else(|| Source::Prompt { session: parent.clone() });
        let voice = if source == Source::User { Voice::User } else { Voice::Agent { named: spawn.named.clone() } };
        let entry = Entry {
            // Files that the prompt names are looked up in the child, under its rights.
            typed: !spawn.internal
                && matches!(source, Source::Prompt { .. })
                && spawn.prompt.inline().is_some_and(|prompt| prompt.contains('@')),
            source,
            voice,
            allowed: spawn.allowed.clone(),
            ..Entry::user(spawn.entry.clone(), spawn.prompt.clone())
        };
        loop {
            let (route, mine) = match self.seat(task) {
                Found::Opening => {
                    tokio::time::sleep(LOOK).await;
                    continue;
                }
                Found::Open(route) => (route, None),
                // Boxed: what opening needs is not kept while the task works.
                Found::Free(seat) => match Box::pin(self.open_task(seat, task, &entry, birth)).await {
                    Ok(Opened::Run(handle)) => (handle.route(), Some(handle)),
                    Ok(Opened::Over(session)) => {
                        return Box::pin(self.result(&session)).await.map_err(|error| RunError::Unavailable(error.to_string()));
                    }
                    Err(OpenError::Unavailable(why)) => return Err(RunError::Unavailable(why)),
                    Err(OpenError::Held { .. } | OpenError::Missing) => return Err(RunError::Moved),
                    Err(OpenError::Foreign) => return Err(RunError::Foreign),
                    Err(OpenError::Outfit(words)) => return Ok(Attended::never_ran(words)),
                },
            };
            let session = loop {
                let Some(session) = follow(route.clone(), &entry).await? else { break None };
                match &mine {
                    // Words may have come in meanwhile: then it goes on, and so does the watch.
                    Some(handle) if !handle.finish().await => tokio::task::yield_now().await,
                    _ => break Some(session),
                }
            };
            let Some(session) = session else { continue };
            if let Some(handle) = mine {
                handle.close().await;
            }
            return Box::pin(self.result(&session)).await.map_err(|error| RunError::Unavailable(error.to_string()));
        }
    }

    async fn open_task(self: &Arc<Self>, seat: Reserved, task: &SessionId, entry: &Entry, birth: &TaskBirth) -> Result<Opened, OpenError> {
        match read(&*self.world.log, task).await {
            // It has ended, and only its parent does not know: nobody needs to be made ready for that.
            Ok(past) if past.session.is_settled() && has_heard(&past.session, entry) => Ok(Opened::Over(Box::new(past.session))),
            Ok(mut past) => {
                let unheard = !has_heard(&past.session, entry);
                let mut then = Vec::new();
                // The append that made it was torn: it is still to be told what it begins with.
                if let Some(fork) = birth.spawn.fork.as_ref().filter(|_| unheard && !past.session.begins_elsewhere()) {
                    past.foreign.clone_from(&fork.segments);
                    then.extend(fork_wishes(fork));
                }
                then.extend(unheard.then(|| Command::Say(entry.clone())));
                // Whoever was told to stop while nobody ran it begins nothing more, not even for a moment.
                let told = self.seen(&birth.parent_id).and_then(|parent| parent.tasks().get(task)?.stopped).filter(|_| !unheard);
                then.extend(told.map(|(by, hold)| Command::Interrupt { by, hold, partial: Text::default() }));
                self.open(seat, past, Vec::new(), then, birth.ceiling.clone()).await.map(Opened::Run)
            }
            Err(OpenError::Missing) => {
                let fork = birth.spawn.fork.clone();
                let birth = birth.make(&*self.outfits, task).await.map_err(OpenError::Outfit)?;
                let presence = match &birth.worktree {
                    Some(worktree) => Some(self.outfits.ensure_worktree(worktree).await.map_err(OpenError::Outfit)?),
                    None => None,
                };
                let mut outfit = self.outfits.outfit(task, &birth).map_err(OpenError::Outfit)?;
                outfit.presence = presence.map(Arc::from);
                let mut opening = vec![wish(Command::Create(Box::new(birth.into_created())))];
                let mut past = Past::none(task.clone());
                if let Some(fork) = fork {
                    past.foreign.clone_from(&fork.segments);
                    opening.extend(fork_wishes(&fork).map(wish));
                }
                opening.push(wish(Command::Say(entry.clone())));
                self.start(seat, past, outfit, Turn::default(), opening).await.map(Opened::Run)
            }
            Err(error) => Err(error),
        }
    }

    /// What a settled session's last round came to.
    pub(crate) async fn result(&self, session: &Session) -> Result<Attended, ReadError> {
        let (log, round) = (&*self.world.log, session.round());
        let mut attended = Attended {
            how: round.how,
            texts: Vec::new(),
            reasoning: Vec::new(),
            error: if round.how == How::Completed { String::new() } else { round.error.clone() },
            usage: round.usage,
            effort: Effort { calls: round.calls, millis: 0 },
            is_cut: false,
            by: match session.hold() {
                Some(Hold::StoppedByUser) => Some(By::User),
                Some(Hold::StoppedByModel) => Some(By::Model),
                Some(Hold::Esc) => Some(By::Kernel),
                _ => None,
            },
        };
        let said = match (round.how, round.reply) {
            (How::Completed, Some(reply)) => log.read(session.id(), reply - 1, 1).await?,
            // It did not get to its last words: what it had said is better than nothing.
            _ => read_all(log, session.id(), 0).await?,
        };
        if let (Some(began), Some(last)) = (round.began, said.last()) {
            attended.effort.millis = u64::try_from(last.at.since(began).as_millis()).unwrap_or(u64::MAX);
        }
        let since = said.iter().rposition(|record| matches!(record.event, Event::Ended { round: ended, .. } if ended < round.number));
        for record in said[since.map_or(0, |at| at + 1)..].iter().rev() {
            // Only what is looked at comes back from its blobs: a log may be larger than memory.
            let mut record = record.clone();
            if !matches!(record.event, Event::Replied { author: None, .. } | Event::StepFailed { retry_at: None, .. }) {
                continue;
            }
            restore(log, std::slice::from_mut(&mut record)).await?;
            let parts = match record.event {
                Event::Replied { parts, calls, finish, .. } => {
                    attended.is_cut = calls == 0 && finish == Finish::Length;
                    parts
                }
                Event::StepFailed { partial, .. } => vec![Part::text(partial)],
                _ => continue,
            };
            attended.take(&parts);
            if !attended.texts.is_empty() {
                break;
            }
        }
        // A limit that left nothing to build on is no success.
        if attended.how == How::Limit && attended.texts.is_empty() {
            attended.how = How::Failed;
        }
        Ok(attended)
    }
}

impl Attended {
    fn never_ran(words: String) -> Self {
        let (usage, effort) = (Usage::default(), Effort::default());
        Self { how: How::Failed, texts: Vec::new(), reasoning: Vec::new(), error: words, usage, effort, by: None, is_cut: false }
    }

    fn take(&mut self, parts: &[Part]) {
        let words = |text: &Text| text.inline().unwrap_or_default().to_owned();
        (self.texts, self.reasoning) = (Vec::new(), Vec::new());
        for part in parts {
            match part {
                Part::Text { text, .. } if !text.is_blank() => self.texts.push(words(text)),
                Part::Reasoning { text, .. } if !text.is_blank() => self.reasoning.push(words(text)),
                _ => {}
            }
        }
    }
}

/// Whether words have reached a session. Where there were none, there is nothing to hear.
fn has_heard(session: &Session, entry: &Entry) -> bool {
    entry.id.as_str().is_empty() || session.queue().knows(&entry.id)
}

/// The head that a session begins with, if it is not its agent's own.
fn given_head(opening: &[Mail]) -> Option<Hash> {
    opening.iter().find_map(|mail| match mail {
        Mail::Wish { command: Command::Configure { head, .. }, .. } => Some(head.clone()),
        _ => None,
    })
}

/// Who a session that begins is a task of.
fn born_of(opening: &[Mail]) -> Option<SessionId> {
    birth_in(opening)?.parent
}

/// What a session that begins is born with.
fn birth_in(opening: &[Mail]) -> Option<Birth> {
    opening.iter().find_map(|mail| match mail {
        Mail::Wish { command: Command::Create(created), .. } => Birth::of(created),
        _ => None,
    })
}

/// Waits until a run has heard an entry and settled; `None` when the run is gone and the session must be opened anew.
async fn follow(route: Route, entry: &Entry) -> Result<Option<Arc<Session>>, RunError> {
    let mut seen = route.seen;
    let mut told = false;
    loop {
        let now = seen.borrow_and_update().clone()?;
        if let Some(session) = now {
            let heard = has_heard(&session, entry);
            if heard && session.is_settled() {
                return Ok(Some(session));
            }
            if !heard && !told {
                told = true;
                if route.mail.send(wish(Command::Say(entry.clone()))).await.is_err() {
                    return Ok(None);
                }
            }
        }
        if seen.changed().await.is_err() {
            return Ok(None);
        }
    }
}

/// Whether somebody is to do something because of it.
fn begins_work(command: &Command) -> bool {
    matches!(command, Command::Say(_) | Command::Resume { .. })
}

/// A head as its blob.
pub(crate) fn stored(head: &Head) -> Result<(Hash, Arc<[u8]>), OpenError> {
    let bytes = serde_json::to_vec(head).map_err(|error| OpenError::Unavailable(error.to_string()))?;
    Ok((content_hash(&bytes), bytes.into()))
}

pub(crate) fn wish(command: Command) -> Mail {
    Mail::Wish { command, letter: None, done: None }
}

/// The owner of a run: when it is dropped, the run ends.
pub(crate) struct RunHandle {
    /// The tree lives as long as its runs: when the last is gone, it is free for others.
    tree: Weak<Tree>,
    id: SessionId,
    mail: Mailbox,
    seen: watch::Receiver<Seen>,
    task: Option<JoinHandle<()>>,
}

impl Drop for RunHandle {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
        if let Some(tree) = self.tree.upgrade() {
            tree.seats().remove(&self.id);
        }
    }
}

/// How long closing waits for a run to end what it has under way.
const CLOSE_MAX: Duration = Duration::from_secs(6);

impl RunHandle {
    pub(crate) fn id(&self) -> &SessionId {
        &self.id
    }

    pub(crate) fn tree(&self) -> &Weak<Tree> {
        &self.tree
    }

    pub(crate) fn route(&self) -> Route {
        Route { mail: self.mail.clone(), seen: self.seen.clone() }
    }

    /// Ends the run if nothing is left to do. `false`: something came in meanwhile, and it goes on.
    pub(crate) async fn finish(&self) -> bool {
        let (done, ended) = oneshot::channel();
        let sent = self.mail.send(Mail::Finish { done }).await;
        sent.is_err() || ended.await.unwrap_or(true)
    }

    /// Ends the run at once, whatever it does, and waits until it has let go.
    pub(crate) async fn close(mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            let _ = tokio::time::timeout(CLOSE_MAX, task).await;
        }
    }
}
