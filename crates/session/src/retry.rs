//! Which failures of a model are tried again, how often, and after how long.
//!
//! A pure table. The clock and the dice are arguments; the waiting is done by the run, which is owed the step "not before".

use std::time::Duration;

use crate::seams::ModelFailure;

/// No server is waited for longer than this, whatever it says.
pub const WAIT_MAX: Duration = Duration::from_secs(600);

/// Without a word from the server, the longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// How long to wait before trying again after the `failed`-th failure in a row (from 1); `None` gives up.
pub fn retry_after(failure: ModelFailure, failed: u32, asked: Option<Duration>, chance: f64) -> Option<Duration> {
    let (tries, first) = match failure {
        ModelFailure::Cut | ModelFailure::Idle => (5, Duration::from_millis(200)),
        ModelFailure::Malformed => (1, Duration::from_millis(200)),
        // About five minutes in all: a restart of a server, a lost network.
        ModelFailure::RateLimited | ModelFailure::Overloaded | ModelFailure::Server | ModelFailure::Network => (9, Duration::from_secs(1)),
        ModelFailure::Deadline | ModelFailure::TooLong | ModelFailure::BadRequest | ModelFailure::Auth | ModelFailure::NeedsModel => {
            return None;
        }
    };
    if tries < failed {
        return None;
    }
    let doubled = first.saturating_mul(1 << failed.saturating_sub(1).min(16)).min(PAUSE_MAX);
    // Up to a quarter more, so that many agents that failed together do not come back together.
    let pause = doubled.mul_f64(1.0 + chance.clamp(0.0, 1.0) / 4.0);
    Some(asked.map_or(pause, |asked| asked.max(pause.min(Duration::from_secs(1))).min(WAIT_MAX)))
}
