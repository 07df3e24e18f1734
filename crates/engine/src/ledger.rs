//! The ledger: what one tree has spent and set aside, asked before every model call.

use std::sync::{Mutex, PoisonError};

use posse_session::{Admission, Limits, Reserved, Standing, Usage, Wish};

pub struct Ledger {
    standing: Mutex<Standing>,
    /// Tasks of the tree so far.
    tasks: Mutex<u64>,
}

impl Ledger {
    /// `spent`, `steps` and `tasks` are the tree's so far, from its logs.
    pub fn new(limits: Limits, spent: Usage, steps: u64, tasks: u64) -> Self {
        Self {
            standing: Mutex::new(Standing { limits, steps, spent, reserved: Reserved::default(), in_flight: 0 }),
            tasks: Mutex::new(tasks),
        }
    }

    /// One task more, if the tree may have it; `Err` is how many it may have.
    pub(crate) fn admit_task(&self) -> Result<(), u64> {
        let limit = self.lock().limits.tasks.unwrap_or(u64::MAX);
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if limit <= *tasks {
            return Err(limit);
        }
        *tasks += 1;
        Ok(())
    }

    pub fn standing(&self) -> Standing {
        *self.lock()
    }

    /// Admits a step and sets its cost aside, in one breath.
    pub(crate) fn reserve(&self, wish: Wish) -> Admission {
        let mut standing = self.lock();
        let admission = standing.admit(wish);
        if let Admission::Go { reserved, .. } | Admission::Closing { reserved, .. } = admission {
            standing.reserved.tokens += reserved.tokens;
            standing.reserved.cost_usd += reserved.cost_usd;
            standing.in_flight += 1;
        }
        admission
    }

    /// A step is over: what was set aside is free again, what was used is spent.
    pub(crate) fn settle(&self, reserved: Reserved, used: Usage, replied: bool) {
        let mut standing = self.lock();
        standing.reserved.tokens = standing.reserved.tokens.saturating_sub(reserved.tokens);
        standing.reserved.cost_usd = (standing.reserved.cost_usd - reserved.cost_usd).max(0.0);
        standing.in_flight = standing.in_flight.saturating_sub(1);
        standing.spent += used;
        standing.steps += u64::from(replied);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
