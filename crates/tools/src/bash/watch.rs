//! A started command, watched until it is over, and the end of everything it had started.
//!
//! The same for a command that is waited for and for one in the background; whoever calls says what stops it. Decides
//! when and how gently a tree ends; who belongs to the tree is the keeper's knowledge, and words are the callers'.

use std::time::Duration;

use posse_session::{BoxFuture, Ended, Process};
use tokio::time::{Instant, sleep_until, timeout};

use super::output::Output;
use crate::process_table;

/// What a spool file may hold; a command that prints more is ended.
const SPOOL_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// So much of the machine's memory, in percent, may one command take; the rest is for whoever must end it.
pub(super) const MEMORY_PERCENT_MAX: u64 = 75;
/// A build of a large project starts hundreds of processes; thousands are a runaway.
pub(super) const PROCESSES_MAX: usize = 4_000;
/// How often a running command's output is looked at; much more often while it floods.
pub(crate) const TICK: Duration = Duration::from_millis(100);
const TICK_FLOOD: Duration = Duration::from_millis(10);
/// So much in one tick is a flood.
const FLOOD_BYTES: u64 = 16 * 1024 * 1024;
/// How often it is looked at how much a command and all it started take.
const WEIGH: Duration = Duration::from_millis(500);
/// From TERM to KILL. A stopped call must be over within three seconds, all told.
const GRACE_TIMEOUT: Duration = Duration::from_secs(3);
const GRACE_STOP: Duration = Duration::from_secs(1);
/// For what was left in the background: it was not promised anything, and the call must be over within half a second
/// after its main process, whoever still holds the output.
const GRACE_LEFT: Duration = Duration::from_millis(250);
/// After KILL a process can only be held by the kernel, or the keeper by a busy machine; then the call ends without them.
const KILL_WAIT: Duration = Duration::from_millis(1_000);

/// What one command, with all it starts, may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) spool_bytes: u64,
    pub(crate) memory_bytes: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        let memory_bytes = process_table::memory_of_the_machine().map_or(u64::MAX, |bytes| bytes / 100 * MEMORY_PERCENT_MAX);
        Self { spool_bytes: SPOOL_BYTES_MAX, memory_bytes }
    }
}

/// Why a command is no longer waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    Ended(Ended),
    TimedOut,
    Stopped,
    Flooded,
    /// It and all it started took too much memory, or were too many.
    Hogged,
}

/// What became of the tree of a command that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rest {
    /// Not, when some are held by the kernel or by rights above ours.
    pub(crate) all_gone: bool,
    /// So many outlived the main process and were ended.
    pub(crate) stragglers: u32,
}

/// Waits until the command is over for one reason or another. `look` is called now and then, for whoever shows output.
pub(crate) async fn until_over(
    process: &dyn Process,
    time: Option<Duration>,
    bounds: Bounds,
    output: &mut Output,
    mut stopped: BoxFuture<'_, ()>,
    mut look: impl FnMut(&mut Output),
) -> Over {
    let deadline = time.map(|time| Instant::now() + time);
    let mut ended = process.wait();
    let (mut tick, mut bytes) = (Instant::now() + TICK, 0);
    let mut weigh = Instant::now() + WEIGH;
    loop {
        let out_of_time = async {
            match deadline {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            ended = &mut ended => return Over::Ended(ended),
            () = &mut stopped => return Over::Stopped,
            () = out_of_time => return Over::TimedOut,
            () = sleep_until(tick) => {}
        }
        let now = output.bytes();
        if bounds.spool_bytes < now {
            return Over::Flooded;
        }
        if weigh <= Instant::now() {
            if is_too_heavy(process.pid(), bounds).await {
                return Over::Hogged;
            }
            weigh = Instant::now() + WEIGH;
        }
        look(output);
        tick = Instant::now() + if FLOOD_BYTES < now - now.min(bytes) { TICK_FLOOD } else { TICK };
        bytes = now;
    }
}

/// Ends whatever is left of a command that is over.
pub(crate) async fn end(process: &dyn Process, over: Over) -> Rest {
    let grace = match over {
        Over::Ended(_) => GRACE_LEFT,
        Over::Stopped => GRACE_STOP,
        Over::TimedOut => GRACE_TIMEOUT,
        Over::Flooded | Over::Hogged => Duration::ZERO,
    };
    let all_gone = timeout(grace + KILL_WAIT, process.end(grace)).await.is_ok();
    Rest { all_gone, stragglers: process.stragglers() }
}

async fn is_too_heavy(pid: u32, bounds: Bounds) -> bool {
    let pid = i32::try_from(pid).unwrap_or(i32::MAX);
    let (processes, bytes) = tokio::task::spawn_blocking(move || process_table::weight(pid)).await.unwrap_or_default();
    PROCESSES_MAX < processes || bounds.memory_bytes < bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that nobody can end: held by the kernel, or by rights above ours.
    struct Stuck;

    impl Process for Stuck {
        fn pid(&self) -> u32 {
            1
        }

        fn wait(&self) -> BoxFuture<'_, Ended> {
            Box::pin(std::future::pending())
        }

        fn end(&self, _grace: Duration) -> BoxFuture<'_, ()> {
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test]
    async fn what_cannot_be_ended_does_not_hold_the_call() {
        assert!(GRACE_LEFT < Duration::from_millis(500), "half a second after the main process");
        assert!(GRACE_STOP + KILL_WAIT < Duration::from_secs(3), "three seconds after a stop");
        for over in [Over::Ended(Ended::Code(0)), Over::Flooded, Over::Stopped] {
            let ended = tokio::time::timeout(Duration::from_secs(20), end(&Stuck, over)).await;
            assert_eq!(ended, Ok(Rest { all_gone: false, stragglers: 0 }), "{over:?}");
        }
    }
}
