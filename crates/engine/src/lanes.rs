//! Lanes: the queue in front of each provider, shared by all sessions of a process.
//!
//! A slot is held only while a model call runs, so a waiting parent holds none. Which sessions wait is a view, not a fact.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Requests at once to one provider when nothing is configured.
const DEFAULT_SLOTS: usize = 16;

pub struct Lanes {
    limits: HashMap<String, usize>,
    lanes: Mutex<HashMap<String, Arc<Semaphore>>>,
    freed: Arc<Notify>,
}

/// Leave to call one provider; given back when dropped, which wakes those who wait.
pub(crate) struct Slot {
    permit: Option<OwnedSemaphorePermit>,
    freed: Arc<Notify>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.permit = None;
        self.freed.notify_waiters();
    }
}

impl Lanes {
    /// `limits` by `provider`, `provider/model` or `default`.
    pub fn new(limits: HashMap<String, usize>) -> Self {
        Self { limits, lanes: Mutex::default(), freed: Arc::default() }
    }

    /// A slot now, or none: then wait for [`Lanes::freed`] and ask again.
    pub(crate) fn try_enter(&self, provider: &str, model: &str) -> Option<Slot> {
        let name = if self.limits.contains_key(model) { model } else { provider };
        let limit = self.limits.get(name).or_else(|| self.limits.get("default")).copied().unwrap_or(DEFAULT_SLOTS);
        let lane = {
            let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
            lanes.entry(name.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(limit.max(1)))).clone()
        };
        let permit = lane.try_acquire_owned().ok()?;
        Some(Slot { permit: Some(permit), freed: self.freed.clone() })
    }

    pub(crate) fn freed(&self) -> &Notify {
        &self.freed
    }
}
