//! Forks of one reply, where the provider keeps what it has read: the first goes first, and the others follow at the
//! first byte of its answer, when what they share is in the provider's cache.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use posse_session::{Live, ModelFacts, Progress, Segment, SessionId};
use tokio::{sync::watch, time::Instant};

/// Nobody waits longer for the first: a slow answer costs more than a cold cache.
const WAIT_MAX: Duration = Duration::from_secs(3);

/// Batches that are remembered; they matter for a few seconds.
const BATCHES_MAX: usize = 64;

/// Whether a provider charges less for what it has read before: then it keeps it.
pub(crate) fn caches_prefixes(facts: &ModelFacts) -> bool {
    0.0 < facts.prices.cache_read && facts.prices.cache_read < facts.prices.input
}

struct Batch {
    first: SessionId,
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

/// Shows what comes, and tells at the first byte that it came.
pub(crate) struct FirstByte<'a> {
    pub(crate) live: &'a dyn Live,
    pub(crate) opener: &'a Option<Opener>,
}

impl Live for FirstByte<'_> {
    fn show(&self, progress: Progress) {
        if let Some(opener) = self.opener {
            opener.open();
        }
        self.live.show(progress);
    }
}

#[derive(Default)]
pub(crate) struct Batches(Mutex<HashMap<(Segment, String), Batch>>);

impl Batches {
    /// Where a fork stands that was split off at the end of this stretch.
    pub(crate) fn turn(&self, split: &Segment, facts: &ModelFacts, fork: &SessionId) -> Turn {
        let mut batches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if BATCHES_MAX <= batches.len() {
            batches.retain(|_, batch| now < batch.since + WAIT_MAX);
        }
        let key = (split.clone(), facts.name.clone());
        let Some(batch) = batches.get(&key) else {
            let batch = Batch { first: fork.clone(), since: now, opened: watch::Sender::new(false) };
            let opener = Opener(Arc::new(batch.opened.clone()));
            batches.insert(key, batch);
            return Turn::First(opener);
        };
        let until = batch.since + WAIT_MAX;
        if *batch.opened.borrow() || until <= now {
            return Turn::Follows;
        }
        if batch.first == *fork {
            return Turn::First(Opener(Arc::new(batch.opened.clone())));
        }
        Turn::Waits(Gate { opened: batch.opened.subscribe(), until })
    }
}
