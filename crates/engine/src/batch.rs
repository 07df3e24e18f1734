//! Forks of one reply, where the provider keeps what it has read: the first call's goes first, and the others follow at the
//! first byte of its answer, when what they share is in the provider's cache.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use posse_session::{CallId, Live, ModelFacts, Progress, Segment, SessionId};
use tokio::{sync::watch, time::Instant};

/// Nobody waits longer for the first: a slow answer costs more than a cold cache.
const WAIT_MAX: Duration = Duration::from_secs(3);

/// Batches that are remembered; they matter for a few seconds.
const BATCHES_MAX: usize = 64;

/// Whether a provider charges less for what it has read before: then it keeps it.
pub(crate) fn caches_prefixes(facts: &ModelFacts) -> bool {
    0.0 < facts.prices.cache_read && facts.prices.cache_read < facts.prices.input
}

/// Whoever everybody waits for.
#[derive(PartialEq, Eq)]
enum First {
    /// The fork that this call will be.
    Call(CallId),
    Fork(SessionId),
    /// The call came to nothing, and nobody waits for it: whoever comes next is the first.
    Nobody,
}

struct Batch {
    first: First,
    since: Instant,
    opened: watch::Sender<bool>,
}

/// Where a fork stands in its batch.
pub(crate) enum Turn {
    /// The first: everybody waits for its first byte.
    First(Opener),
    /// The way is free.
    Follows,
    Waits(Gate),
}

/// What a fork waits for before its first step.
pub(crate) struct Gate {
    opened: watch::Receiver<bool>,
    until: Instant,
}

impl Gate {
    pub(crate) async fn open(&mut self) {
        // A batch that is forgotten holds nobody up.
        let _ = tokio::time::timeout_at(self.until, self.opened.wait_for(|opened| *opened)).await;
    }
}

impl Batch {
    fn new(first: First, now: Instant) -> Self {
        Self { first, since: now, opened: watch::Sender::new(false) }
    }

    fn opener(&self) -> Opener {
        Opener(Arc::new(self.opened.clone()))
    }
}

/// Opens the way for the others: at the first byte, or when it is dropped.
#[derive(Clone)]
pub(crate) struct Opener(Arc<watch::Sender<bool>>);

impl Opener {
    fn open(&self) {
        self.0.send_if_modified(|opened| !std::mem::replace(opened, true));
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        self.open();
    }
}

/// Shows what comes, and tells at the first byte of an answer that it came.
pub(crate) struct FirstByte<'a> {
    pub(crate) live: &'a dyn Live,
    pub(crate) opener: &'a Option<Opener>,
}

impl Live for FirstByte<'_> {
    fn show(&self, progress: Progress) {
        // Signs of life are no answer.
        let is_answer = !matches!(progress, Progress::Alive | Progress::Waiting { .. });
        if let Some(opener) = self.opener.as_ref().filter(|_| is_answer) {
            opener.open();
        }
        // Whoever looks on sees only that it goes on.
        self.live.show(if progress == Progress::Begun { Progress::Alive } else { progress });
    }
}

#[derive(Default)]
pub(crate) struct Batches(Mutex<HashMap<(Segment, String), Batch>>);

impl Batches {
    fn held(&self, now: Instant) -> MutexGuard<'_, HashMap<(Segment, String), Batch>> {
        let mut batches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if BATCHES_MAX <= batches.len() {
            batches.retain(|_, batch| now < batch.since + WAIT_MAX);
        }
        batches
    }

    /// A fork is about to be split off at the end of this stretch by this call, and the first call of that reply goes first.
    /// Calls are run side by side, so any of them may come before it.
    pub(crate) fn line_up(&self, split: &Segment, facts: &ModelFacts, call: &CallId, first: impl FnOnce() -> Option<CallId>) {
        let now = Instant::now();
        match self.held(now).entry((split.clone(), facts.name.clone())) {
            Entry::Vacant(place) => {
                place.insert(Batch::new(First::Call(first().unwrap_or_else(|| call.clone())), now));
            }
            Entry::Occupied(mut place) if place.get().first == First::Nobody => place.get_mut().first = First::Call(call.clone()),
            Entry::Occupied(_) => {}
        }
    }

    /// What a call has become: this fork, or none.
    pub(crate) fn became(&self, call: &CallId, fork: Option<&SessionId>) {
        for batch in self.held(Instant::now()).values_mut().filter(|batch| matches!(&batch.first, First::Call(first) if first == call)) {
            match fork {
                Some(fork) => batch.first = First::Fork(fork.clone()),
                None if batch.opened.receiver_count() == 0 => batch.first = First::Nobody,
                None => batch.opener().open(),
            }
        }
    }

    /// Where a fork stands that was split off at the end of this stretch.
    pub(crate) fn turn(&self, split: &Segment, facts: &ModelFacts, fork: &SessionId) -> Turn {
        let now = Instant::now();
        let mut batches = self.held(now);
        let key = (split.clone(), facts.name.clone());
        let Some(batch) = batches.get(&key).filter(|batch| batch.first != First::Nobody) else {
            let batch = Batch::new(First::Fork(fork.clone()), now);
            let opener = batch.opener();
            batches.insert(key, batch);
            return Turn::First(opener);
        };
        let until = batch.since + WAIT_MAX;
        if *batch.opened.borrow() || until <= now {
            return Turn::Follows;
        }
        if batch.first == First::Fork(fork.clone()) {
            return Turn::First(batch.opener());
        }
        Turn::Waits(Gate { opened: batch.opened.subscribe(), until })
    }
}

#[cfg(test)]
mod tests {
    use posse_session::Prices;

    use super::*;

    fn facts() -> ModelFacts {
        ModelFacts { name: "a/b".into(), provider: "a".into(), context: 1, output: 1, prices: Prices::default(), images: false }
    }

    fn split() -> Segment {
        Segment { session: SessionId::new("ses_0"), from: 1, to: 9, pruned: false }
    }

    /// Whether this fork is the first, or may go; nothing while it waits.
    fn stands(batches: &Batches, fork: &str) -> Option<bool> {
        match batches.turn(&split(), &facts(), &SessionId::new(fork)) {
            Turn::First(opener) => {
                // Kept open-ended: dropping it would open the way.
                std::mem::forget(opener);
                Some(true)
            }
            Turn::Follows => Some(false),
            Turn::Waits(_) => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_comes_before_the_first_waits_for_it() {
        let (batches, call) = (Batches::default(), CallId::new("call_1"));
        let other = CallId::new("call_2");
        batches.line_up(&split(), &facts(), &other, || Some(call.clone()));
        batches.line_up(&split(), &facts(), &call, || Some(other.clone()));
        batches.became(&other, Some(&SessionId::new("ses_2")));
        assert_eq!(stands(&batches, "ses_2"), None);
        batches.became(&call, Some(&SessionId::new("ses_1")));
        assert_eq!((stands(&batches, "ses_2"), stands(&batches, "ses_1")), (None, Some(true)));
        tokio::time::advance(WAIT_MAX).await;
        assert_eq!(stands(&batches, "ses_2"), Some(false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_becomes_no_fork_opens_the_way() {
        let (batches, call, other) = (Batches::default(), CallId::new("call_1"), CallId::new("call_2"));
        batches.line_up(&split(), &facts(), &call, || Some(call.clone()));
        let Turn::Waits(mut gate) = batches.turn(&split(), &facts(), &SessionId::new("ses_2")) else { panic!("it goes first") };
        batches.became(&call, None);
        let began = Instant::now();
        gate.open().await;
        assert_eq!((began.elapsed(), stands(&batches, "ses_2")), (Duration::ZERO, Some(false)));
        // Where nobody waits for it yet, the next one is the first.
        let batches = Batches::default();
        batches.line_up(&split(), &facts(), &call, || Some(call.clone()));
        batches.became(&call, None);
        batches.line_up(&split(), &facts(), &other, || Some(call.clone()));
        batches.became(&other, Some(&SessionId::new("ses_2")));
        assert_eq!((stands(&batches, "ses_3"), stands(&batches, "ses_2")), (None, Some(true)));
        // Where nobody was lined up, whoever comes first is.
        let batches = Batches::default();
        assert_eq!((stands(&batches, "ses_2"), stands(&batches, "ses_1")), (Some(true), None));
    }

    #[derive(Default)]
    struct Shown(Mutex<Vec<Progress>>);

    impl Live for Shown {
        fn show(&self, progress: Progress) {
            self.0.lock().unwrap().push(progress);
        }
    }

    #[test]
    fn the_first_byte_of_an_answer_opens_the_way_and_signs_of_life_do_not() {
        let (opened, shown) = (watch::Sender::new(false), Shown::default());
        let opener = Some(Opener(Arc::new(opened.clone())));
        let live = FirstByte { live: &shown, opener: &opener };
        let waiting = Progress::Waiting { why: "a lane".into(), until: None };
        for (progress, is_open) in [(Progress::Alive, false), (waiting.clone(), false), (Progress::Begun, true)] {
            live.show(progress);
            assert_eq!(*opened.borrow(), is_open);
        }
        assert_eq!(shown.0.into_inner().unwrap(), [Progress::Alive, waiting, Progress::Alive], "whoever looks on sees that it goes on");
    }
}
