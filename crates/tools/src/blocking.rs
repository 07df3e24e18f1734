//! Work that blocks (files, searches) on a thread of its own, so that one slow disk does not hold up every session.
//!
//! Such a thread cannot be ended from outside. It is told to halt when the call is stopped, and also when nobody waits
//! for it any more: then its outcome is already on record, and it must not change a file afterwards.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use posse_session::{Outcome, ToolContext};

/// Runs `work` and waits for it. `work` asks its argument whether to halt.
pub(crate) async fn blocking<W>(tool: &'static str, context: &ToolContext, work: W) -> Outcome
where
    W: FnOnce(&dyn Fn() -> bool) -> Result<Outcome, String> + Send + 'static,
{
    let (stop, left) = (Arc::clone(&context.stop), Left::default());
    let is_left = Arc::clone(&left.0);
    let done = tokio::task::spawn_blocking(move || work(&|| stop.is_stopped() || is_left.load(Ordering::Relaxed))).await;
    done.unwrap_or_else(|error| Err(format!("{tool}: {error}"))).unwrap_or_else(Outcome::failed)
}

/// Says that the one who waited is gone.
#[derive(Default)]
struct Left(Arc<AtomicBool>);

impl Drop for Left {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
