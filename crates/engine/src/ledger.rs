//! The ledger: what one tree has spent and set aside, asked before every model call.

use std::sync::{Mutex, PoisonError};

use posse_session::{Admission, Limits, Reserved, Standing, Usage, Wish};

pub struct Ledger {
    standing: Mutex<Standing>,
}

impl Ledger {
    /// `spent` and `steps` are the tree's so far, from its logs.
    pub fn new(limits: Limits, spent: Usage, steps: u64) -> Self {
        Self { standing: Mutex::new(Standing { limits, steps, spent, reserved: Reserved::default() }) }
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
        }
        admission
    }

    /// A step is over: what was set aside is free again, what was used is spent.
    pub(crate) fn settle(&self, reserved: Reserved, used: Usage, replied: bool) {
        let mut standing = self.lock();
        standing.reserved.tokens = standing.reserved.tokens.saturating_sub(reserved.tokens);
        standing.reserved.cost_usd = (standing.reserved.cost_usd - reserved.cost_usd).max(0.0);
        standing.spent += used;
        standing.steps += u64::from(replied);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
