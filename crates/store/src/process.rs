//! What this process has done with its stores so far, for who ends it: whether their writers are at rest, whether anything
//! was written, and whether damage was met.
//!
//! Handles are dropped in many places and their threads end by themselves; only the process as a whole can wait for all.

use std::{
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

static WRITERS: Mutex<usize> = Mutex::new(0);
static FEWER_WRITERS: Condvar = Condvar::new();
static WROTE: AtomicBool = AtomicBool::new(false);
static MET_DAMAGE: AtomicBool = AtomicBool::new(false);

/// Waits until the writer of every handle that was dropped has closed its file; it moves its log into the database before
/// that. False where one was not done in time: ending the process then is like a kill, which loses nothing.
pub fn settle(at_most: Duration) -> bool {
    let writers = WRITERS.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = FEWER_WRITERS.wait_timeout_while(writers, at_most, |writers| 0 < *writers);
    !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
}

/// Whether this process has made a fact durable, or removed one: then it is not begun again.
pub fn has_written() -> bool {
    WROTE.load(Ordering::Relaxed)
}

/// Whether this process has read something that makes no sense. The next opening mends it.
pub fn met_damage() -> bool {
    MET_DAMAGE.load(Ordering::Relaxed)
}

pub(crate) fn note_written() {
    WROTE.store(true, Ordering::Relaxed);
}

pub(crate) fn note_damage() {
    MET_DAMAGE.store(true, Ordering::Relaxed);
}

/// A writer that has its file open.
pub(crate) struct AtWork(());

impl AtWork {
    pub(crate) fn begin() -> Self {
        *WRITERS.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self(())
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        *WRITERS.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        FEWER_WRITERS.notify_all();
    }
}
