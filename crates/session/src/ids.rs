//! Names of things: sessions, calls, entries, asks, batches, blobs.
//!
//! Ids are opaque strings with a prefix that says what they name; they sort by time. Nothing here makes
//! one up: chance and the clock belong to the caller, who hands them in as [`Ids`].

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            pub const PREFIX: &'static str = $prefix;

            pub fn new(id: impl Into<String>) -> Self {
                Self(id.into())
            }

            pub fn fresh(ids: &dyn Ids) -> Self {
                Self(ids.fresh(Self::PREFIX))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }
    };
}

id!(/// One conversation of one agent, and its log. A task's id is its session's id.
    SessionId, "ses_");
id!(/// One tool use. Ours, never the provider's: those repeat between servers and sessions.
    CallId, "call_");
id!(/// One entry of a queue. Chosen by the sender, so that a message sent twice is said once.
    EntryId, "msg_");
id!(/// One open question to a person.
    AskId, "ask_");
id!(/// One append. After an unclear failure the writer looks for its own id at the tail.
    BatchId, "evt_");
id!(/// One letter in an inbox.
    LetterId, "msg_");
id!(/// The content hash of a blob, in lower-case hex.
    Hash, "");

/// Where fresh ids come from: a prefix in, a new id that sorts after all earlier ones out.
pub trait Ids: Send + Sync {
    fn fresh(&self, prefix: &str) -> String;
}

/// The number of an event in its session's log: dense, from 1. Zero is "before the first".
pub type Seq = u64;

/// Which owner of a tree may append; grows by one with every change of owner.
pub type Epoch = u64;

/// Milliseconds since the Unix epoch, as the owner's clock said. For people and deadlines; order comes from [`Seq`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    pub fn plus(self, wait: std::time::Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)))
    }

    /// How long from `earlier` to here; zero when the clock went back.
    pub fn since(self, earlier: Self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}
