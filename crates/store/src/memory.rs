//! A store that lives and dies with its process: for tests, and for sessions nobody wants to keep.
//!
//! It remembers every act in the order it happened, so a test can ask for the store as a crash would have left it
//! after any number of events ([`Memory::copy_up_to`]), and it can be told to fail ([`Fault`]). The rules are those
//! of the SQLite store; `tests/contract.rs` runs on both.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use posse_session::{
    Append, AppendError, BatchId, BoxFuture, Epoch, Hash, Inbox, Lease, LeaseError, LetterId, Log, Ownership, Posted, ReadError, Record,
    SavedFold, Seq, SessionId, Summary,
};
use tokio::sync::watch;

use crate::ready::{Ready, Standing, Verdict, judge, leans_on, still_needed};

/// How appends go wrong, from the `after + 1`st on, until the fault is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fault {
    #[default]
    None,
    /// Nothing is written and the writer is told so.
    Unavailable { after: u64 },
    /// Nothing is written and the writer is told that the tree has a new owner.
    Moved { after: u64 },
    /// The facts are written, the answer is lost: the writer sees `Unavailable`.
    LostAnswer { after: u64 },
}

/// A handle; clones share the contents. Each clone has its own memory of when its inbox last rang.
pub struct Memory {
    shared: Arc<Shared>,
    /// The ring this handle has already answered.
    heard: AtomicU64,
}

struct Shared {
    state: Mutex<State>,
    /// Counts appends; followers look again at each.
    appended: watch::Sender<u64>,
    /// Counts changes of the inbox.
    rings: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    contents: Contents,
    acts: Vec<Act>,
    held: BTreeSet<SessionId>,
    fault: Fault,
    appends: u64,
}

#[derive(Clone)]
enum Act {
    Take(SessionId),
    Post(Posted),
    Withdraw(LetterId),
    Append(Arc<Ready>),
    Remove(SessionId),
}

impl Act {
    fn events(&self) -> usize {
        if let Self::Append(ready) = self { ready.append.events.len() } else { 0 }
    }
}

#[derive(Default)]
struct Contents {
    epochs: BTreeMap<SessionId, Epoch>,
    sessions: BTreeMap<SessionId, Kept>,
    blobs: BTreeMap<Hash, Arc<[u8]>>,
    letters: Vec<Posted>,
}

struct Kept {
    root: SessionId,
    records: Vec<Record>,
    summary: Summary,
    blobs: BTreeSet<Hash>,
    fold: Option<SavedFold>,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Clone for Memory {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), heard: AtomicU64::new(self.heard.load(Ordering::Relaxed)) }
    }
}

impl Memory {
    pub fn new() -> Self {
        Self::of(State::default())
    }

    /// A store whose first `appends` appends succeed and whose others are `Unavailable`.
    pub fn failing_after(appends: u64) -> Self {
        Self::of(State { fault: Fault::Unavailable { after: appends }, ..State::default() })
    }

    /// From now on; `after` counts all appends that succeeded since the store was made.
    pub fn set_fault(&self, fault: Fault) {
        self.state().fault = fault;
    }

    /// How many appends succeeded since the store was made.
    pub fn appends(&self) -> u64 {
        self.state().appends
    }

    /// How many events all appends so far have brought, over all sessions: the crash points of [`Memory::copy_up_to`].
    pub fn events(&self) -> usize {
        self.state().acts.iter().map(Act::events).sum()
    }

    /// The contents as the next process would find them: nobody owns a tree, nothing fails.
    pub fn copy(&self) -> Self {
        self.copy_up_to(usize::MAX)
    }

    /// As [`Memory::copy`], after a crash behind the first `events` events, in the order they were appended over all
    /// sessions. A cut inside an append keeps the events before the cut and the letters the append would have taken.
    pub fn copy_up_to(&self, events: usize) -> Self {
        let mut state = State::default();
        let mut left = events;
        for act in self.state().acts.clone() {
            let brings = act.events();
            if brings <= left {
                left -= brings;
                state.perform(act);
                continue;
            }
            if let Act::Append(ready) = act
                && 0 < left
            {
                let cut = Append { events: ready.append.events[..left].to_vec(), letters: Vec::new(), ..ready.append.clone() };
                state.perform(Act::Append(Arc::new(Ready::new(cut).expect("what was appended once can be appended again"))));
            }
            break;
        }
        Self::of(state)
    }

    fn of(state: State) -> Self {
        // Letters that lie there already have rung before anyone could listen.
        let rings = u64::from(!state.contents.letters.is_empty());
        let shared = Shared { state: Mutex::new(state), appended: watch::Sender::new(0), rings: watch::Sender::new(rings) };
        Self { shared: Arc::new(shared), heard: AtomicU64::new(0) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }

    fn try_append(&self, append: Append) -> Result<Seq, AppendError> {
        let ready = Ready::new(append)?;
        let takes_letters = !ready.append.letters.is_empty();
        let head = self.state().append(ready)?;
        self.shared.appended.send_modify(|count| *count += 1);
        if takes_letters {
            self.shared.rings.send_modify(|count| *count += 1);
        }
        Ok(head)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves whole values behind: every change below is made after all checks.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn append(&mut self, ready: Ready) -> Result<Seq, AppendError> {
        let append = &ready.append;
        let kept = self.contents.sessions.get(&append.session);
        let head = kept.map_or(0, Kept::head);
        match self.fault {
            Fault::Unavailable { after } if after <= self.appends => return Err(AppendError::Unavailable("the test said so".to_owned())),
            Fault::Moved { after } if after <= self.appends => return Err(AppendError::Moved { head }),
            _ => {}
        }
        let epoch = self.contents.epochs.get(&append.root).copied().unwrap_or(0);
        match judge(append, &Standing { epoch, root: kept.map(|kept| &kept.root), head, batch: kept.and_then(Kept::batch) }) {
            Verdict::AlreadyThere => return Ok(head),
            Verdict::Refuse(error) => return Err(error),
            Verdict::Write => {}
        }
        let lost = matches!(self.fault, Fault::LostAnswer { after } if after <= self.appends);
        let head = head + append.events.len() as u64;
        self.appends += 1;
        self.perform(Act::Append(Arc::new(ready)));
        if lost { Err(AppendError::Unavailable("the test lost the answer".to_owned())) } else { Ok(head) }
    }

    fn perform(&mut self, act: Act) {
        match &act {
            Act::Take(root) => *self.contents.epochs.entry(root.clone()).or_default() += 1,
            Act::Post(posted) => self.contents.letters.push(posted.clone()),
            Act::Withdraw(id) => self.contents.letters.retain(|letter| letter.id != *id),
            Act::Append(ready) => self.contents.append(ready),
            Act::Remove(root) => self.contents.remove(root),
        }
        self.acts.push(act);
    }
}

impl Contents {
    fn append(&mut self, ready: &Ready) {
        let append = &ready.append;
        self.blobs.extend(append.blobs.iter().cloned());
        self.letters.retain(|letter| !append.letters.contains(&letter.id));
        if append.events.is_empty() {
            return;
        }
        let kept = self.sessions.entry(append.session.clone()).or_insert_with(|| Kept::new(append));
        for event in &append.events {
            let record = Record { seq: kept.head() + 1, at: append.at, batch: append.batch.clone(), event: event.clone() };
            kept.summary.apply(&record);
            kept.records.push(record);
        }
        let known = ready.named.iter().cloned().map(Hash).filter(|hash| self.blobs.contains_key(hash));
        kept.blobs.extend(append.blobs.iter().map(|(hash, _)| hash.clone()).chain(known));
    }

    /// Sessions of other trees that show records of this one.
    fn forks_of(&self, root: &SessionId) -> Vec<SessionId> {
        let is_shown = |session: &SessionId| self.sessions.get(session).is_some_and(|kept| kept.root == *root);
        let shows = |kept: &Kept| kept.records.iter().flat_map(|record| leans_on(&record.event)).any(is_shown);
        let others = self.sessions.iter().filter(|(_, kept)| kept.root != *root && shows(kept));
        others.map(|(session, _)| session.clone()).collect()
    }

    fn remove(&mut self, root: &SessionId) {
        let gone: Vec<Kept> = self.sessions.extract_if(.., |_, kept| kept.root == *root).map(|(_, kept)| kept).collect();
        for hash in gone.iter().flat_map(|kept| &kept.blobs) {
            if !self.sessions.values().any(|kept| kept.blobs.contains(hash)) {
                self.blobs.remove(hash);
            }
        }
        self.letters.retain(|letter| letter.root != *root);
    }
}

impl Kept {
    fn new(append: &Append) -> Self {
        Self {
            root: append.root.clone(),
            records: Vec::new(),
            summary: Summary::new(append.session.clone()),
            blobs: BTreeSet::new(),
            fold: None,
        }
    }

    fn head(&self) -> Seq {
        self.records.len() as u64
    }

    fn batch(&self) -> Option<&BatchId> {
        self.records.last().map(|record| &record.batch)
    }
}

impl Log for Memory {
    fn append(&self, append: Append) -> BoxFuture<'_, Result<Seq, AppendError>> {
        Box::pin(async move { self.try_append(append) })
    }

    fn read<'a>(&'a self, session: &'a SessionId, after: Seq, limit: usize) -> BoxFuture<'a, Result<Vec<Record>, ReadError>> {
        Box::pin(async move {
            let state = self.state();
            let records = state.contents.sessions.get(session).map_or(&[][..], |kept| &kept.records);
            Ok(records.iter().filter(|record| after < record.seq).take(limit).cloned().collect())
        })
    }

    fn blob<'a>(&'a self, hash: &'a Hash) -> BoxFuture<'a, Result<Arc<[u8]>, ReadError>> {
        Box::pin(async move { self.state().contents.blobs.get(hash).cloned().ok_or(ReadError::Missing) })
    }

    fn changed<'a>(&'a self, session: &'a SessionId, after: Seq) -> BoxFuture<'a, ()> {
        let mut appended = self.shared.appended.subscribe();
        Box::pin(async move {
            let is_beyond = |_: &u64| after < self.state().contents.sessions.get(session).map_or(0, Kept::head);
            // The sender lives in `self`, so waiting cannot fail.
            let _ = appended.wait_for(is_beyond).await;
        })
    }

    fn summaries<'a>(&'a self, root: Option<&'a SessionId>) -> BoxFuture<'a, Result<Vec<Summary>, ReadError>> {
        Box::pin(async move {
            let state = self.state();
            let wanted = state.contents.sessions.values().filter(|kept| root.is_none_or(|root| kept.root == *root));
            let mut summaries: Vec<Summary> = wanted.map(|kept| kept.summary.clone()).collect();
            summaries.sort_by(|one, other| (other.updated, &other.session).cmp(&(one.updated, &one.session)));
            Ok(summaries)
        })
    }

    fn with_asks(&self) -> BoxFuture<'_, Result<Vec<Summary>, ReadError>> {
        Box::pin(async move {
            let all = self.summaries(None).await?;
            Ok(all.into_iter().filter(|summary| !summary.asks.is_empty() || !summary.granted.is_empty()).collect())
        })
    }

    fn save_fold(&self, fold: SavedFold) -> BoxFuture<'_, Result<(), AppendError>> {
        Box::pin(async move {
            // A cache is not an act: a copy after a crash has none, and must do without.
            if let Some(kept) = self.state().contents.sessions.get_mut(&fold.session) {
                kept.fold = Some(fold);
            }
            Ok(())
        })
    }

    fn saved_fold<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Option<SavedFold>, ReadError>> {
        Box::pin(async move { Ok(self.state().contents.sessions.get(session).and_then(|kept| kept.fold.clone())) })
    }

    fn remove<'a>(&'a self, owner: &'a Ownership) -> BoxFuture<'a, Result<u64, AppendError>> {
        Box::pin(async move {
            let mut state = self.state();
            if state.contents.epochs.get(&owner.root) != Some(&owner.epoch) {
                return Err(AppendError::Moved { head: 0 });
            }
            let forks = state.contents.forks_of(&owner.root);
            if !forks.is_empty() {
                return Err(still_needed(&owner.root, &forks));
            }
            let before = state.contents.sessions.len();
            state.perform(Act::Remove(owner.root.clone()));
            Ok((before - state.contents.sessions.len()) as u64)
        })
    }
}

/// Frees the tree when it is dropped.
struct Held {
    shared: Arc<Shared>,
    root: SessionId,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared.state().held.remove(&self.root);
    }
}

impl Lease for Memory {
    fn take<'a>(&'a self, root: &'a SessionId) -> BoxFuture<'a, Result<Ownership, LeaseError>> {
        Box::pin(async move {
            let mut state = self.state();
            if !state.held.insert(root.clone()) {
                return Err(LeaseError::Held { by: Some(std::process::id()) });
            }
            state.perform(Act::Take(root.clone()));
            let guard = Box::new(Held { shared: Arc::clone(&self.shared), root: root.clone() });
            Ok(Ownership { root: root.clone(), epoch: state.contents.epochs[root], guard })
        })
    }

    fn is_held<'a>(&'a self, root: &'a SessionId) -> BoxFuture<'a, Result<bool, LeaseError>> {
        Box::pin(async move { Ok(self.state().held.contains(root)) })
    }
}

impl Inbox for Memory {
    fn post(&self, posted: Posted) -> BoxFuture<'_, Result<(), ReadError>> {
        Box::pin(async move {
            let mut state = self.state();
            if !state.contents.letters.iter().any(|letter| letter.id == posted.id) {
                state.perform(Act::Post(posted));
                self.shared.rings.send_modify(|count| *count += 1);
            }
            Ok(())
        })
    }

    fn waiting<'a>(&'a self, root: &'a SessionId) -> BoxFuture<'a, Result<Vec<Posted>, ReadError>> {
        Box::pin(async move { Ok(self.state().contents.letters.iter().filter(|letter| letter.root == *root).cloned().collect()) })
    }

    fn waits<'a>(&'a self, id: &'a LetterId) -> BoxFuture<'a, Result<bool, ReadError>> {
        Box::pin(async move { Ok(self.state().contents.letters.iter().any(|letter| letter.id == *id)) })
    }

    fn withdraw<'a>(&'a self, id: &'a LetterId) -> BoxFuture<'a, Result<bool, ReadError>> {
        Box::pin(async move {
            let mut state = self.state();
            let waits = state.contents.letters.iter().any(|letter| letter.id == *id);
            state.perform(Act::Withdraw(id.clone()));
            Ok(waits)
        })
    }

    fn rung(&self) -> BoxFuture<'_, ()> {
        let mut rings = self.shared.rings.subscribe();
        Box::pin(async move {
            if let Ok(count) = rings.wait_for(|count| self.heard.load(Ordering::Relaxed) < *count).await {
                self.heard.fetch_max(*count, Ordering::Relaxed);
            }
        })
    }
}
