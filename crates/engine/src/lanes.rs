//! Lanes: the queue in front of each provider, shared by all sessions of a process.
//!
//! A slot is held only while a model call runs, so a waiting parent holds none. Which sessions wait is a view, not a fact.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use posse_session::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Requests at once to one provider when nothing is configured.
const DEFAULT_SLOTS: usize = 16;

pub struct Lanes {
    limits: HashMap<String, usize>,
    lanes: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// Leave to call one provider; given back when dropped, to whoever has waited longest.
pub(crate) struct Slot {
    _permit: Option<OwnedSemaphorePermit>,
}

/// A place in a lane's queue. The lock is never contended: it makes the future shareable.
pub(crate) struct Place(Mutex<BoxFuture<'static, Slot>>);

impl Place {
    /// Ready when it is this one's turn.
    pub(crate) async fn first(&mut self) -> Slot {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner).await
    }
}

impl Lanes {
    /// `limits` by `provider`, `provider/model` or `default`.
    pub fn new(limits: HashMap<String, usize>) -> Self {
        Self { limits, lanes: Mutex::default() }
    }

    /// A slot now, or none: then wait for one by [`Lanes::enter`].
    pub(crate) fn try_enter(&self, provider: &str, model: &str) -> Option<Slot> {
        let permit = self.lane(provider, model).try_acquire_owned().ok()?;
        Some(Slot { _permit: Some(permit) })
    }

    pub(crate) fn enter(&self, provider: &str, model: &str) -> Place {
        let lane = self.lane(provider, model);
        // A lane is never closed.
        Place(Mutex::new(Box::pin(async move { Slot { _permit: lane.acquire_owned().await.ok() } })))
    }

    fn lane(&self, provider: &str, model: &str) -> Arc<Semaphore> {
        let name = if self.limits.contains_key(model) { model } else { provider };
        let limit = self.limits.get(name).or_else(|| self.limits.get("default")).copied().unwrap_or(DEFAULT_SLOTS);
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.entry(name.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(limit.max(1)))).clone()
    }
}
