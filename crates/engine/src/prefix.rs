//! The conversation a session begins with that is another's: woven and encoded once, shared by all who begin with it.
//!
//! A fork costs what it adds, not what it has read: siblings and the one they were split off from hold the same bytes.
//! Nothing here is the truth. Without a prefix in memory one is woven from the log, and comes out the same.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use posse_context::{Thread, is_directive};
use posse_session::{Log, Message, ReadError, Record, Segment};
use tokio::sync::OnceCell;

use crate::{compacting::Weight, past::stretches, world::Outfit};

/// What a conversation has become: the bytes of its messages, and how it goes on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Prefix {
    pub(crate) thread: Thread,
    pub(crate) messages: Vec<Arc<[u8]>>,
    pub(crate) message_bytes: u64,
    pub(crate) weight: Weight,
    /// The messages themselves; kept only for hooks that want to see them.
    pub(crate) woven: Vec<Arc<Message>>,
    /// A fork's directive is among them.
    pub(crate) is_forks: bool,
}

impl Prefix {
    /// Takes the next record in.
    pub(crate) fn push(&mut self, record: &Record, outfit: &Outfit) {
        for message in self.thread.push(record) {
            let bytes = outfit.model.encode(&message);
            self.message_bytes += bytes.len() as u64;
            self.weight.add(&message, bytes.len());
            self.is_forks |= is_directive(&message);
            self.messages.push(bytes);
            if !outfit.hooks.is_empty() {
                self.woven.push(Arc::new(message));
            }
        }
        self.weight.note(record);
    }

    /// Where whoever begins with it goes on.
    pub(crate) fn continued(&self) -> Self {
        Self {
            thread: self.thread.clone(),
            messages: Vec::new(),
            message_bytes: self.message_bytes,
            weight: self.weight,
            woven: self.woven.clone(),
            is_forks: self.is_forks,
        }
    }

    /// As others begin with it. `open`: before any call of the last reply has a result.
    pub(crate) fn branch(self, open: bool) -> Self {
        Self { thread: self.thread.branch(open), ..self }
    }
}

/// A prefix that somebody has woven, or is just weaving.
pub(crate) type Shared = Arc<OnceCell<Arc<Prefix>>>;

/// What prefixes are known by: the stretches, the model they are encoded for, and what else they hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    segments: Vec<Segment>,
    model: String,
    open: bool,
    hooked: bool,
}

/// The prefixes that somebody in the tree still begins with.
#[derive(Default)]
pub(crate) struct Prefixes(Mutex<HashMap<Key, Weak<OnceCell<Arc<Prefix>>>>>);

impl Prefixes {
    fn cell(&self, segments: &[Segment], outfit: &Outfit, open: bool) -> Shared {
        let key = Key { segments: segments.to_vec(), model: outfit.model.facts().name.clone(), open, hooked: !outfit.hooks.is_empty() };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cell) = known.get(&key).and_then(Weak::upgrade) {
            return cell;
        }
        known.retain(|_, cell| 0 < cell.strong_count());
        let cell = Shared::default();
        known.insert(key, Arc::downgrade(&cell));
        cell
    }

    /// The prefix of these stretches; woven from the log if nobody has it.
    pub(crate) async fn of(&self, log: &dyn Log, segments: &[Segment], outfit: &Outfit, open: bool) -> Result<Shared, ReadError> {
        let cell = self.cell(segments, outfit, open);
        cell.get_or_try_init(|| async {
            let mut prefix = Prefix::default();
            for record in stretches(log, segments).await? {
                prefix.push(&record, outfit);
            }
            Ok::<_, ReadError>(Arc::new(prefix.branch(open)))
        })
        .await?;
        Ok(cell)
    }

    /// What these stretches come to, as the one who has said them knows.
    pub(crate) fn lend(&self, segments: &[Segment], outfit: &Outfit, prefix: Prefix) -> Shared {
        let cell = self.cell(segments, outfit, true);
        // Woven from the log by somebody else: the same.
        let _ = cell.set(Arc::new(prefix.branch(true)));
        cell
    }
}
