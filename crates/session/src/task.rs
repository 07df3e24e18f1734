//! Tasks: the parent's side of a child session. A task's id is the child's id.
//!
//! The protocol needs no transaction over two logs: the parent records the promise first, the child's `Ended` is the
//! truth, and the parent records it once, keyed by (task, round). See `ARCHITECTURE.md`.

use serde::{Deserialize, Serialize};

use crate::{
    entry::Source,
    event::{Event, Segment},
    grant::Grant,
    ids::{CallId, EntryId, Hash, Seq},
    text::Text,
};

/// Everything needed to make the child and say its first words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spawn {
    pub agent: String,
    pub description: String,
    pub prompt: Text,
    /// The key of the prompt in the child's queue.
    pub entry: EntryId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Ends without a word to the model.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub internal: bool,
    /// The tool whose words the result is told in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// What the result says besides: that the session to go on with was not found.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// What the child may do for its first turn without asking.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<Grant>,
    /// Files in the prompt that the user named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<String>,
    /// What internal work is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purpose: Option<Purpose>,
    /// What the child begins with: a conversation, and the head it was sent with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<Box<Fork>>,
    /// Whose words the prompt is, if not the call's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Source>,
    /// It works in a folder of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// The folder it works in, if not its caller's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
}

/// Whom lists, asks and calls name where a session is forked. An agent of the user's that is called so takes its place in calls.
pub const FORK: &str = "fork";

/// When a session may be forked by its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Forks {
    #[default]
    Off,
    /// When the call says so.
    Explicit,
    /// Whenever the call names nobody; then nothing is waited for.
    Implicit,
}

/// A folder of its own for a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// A worktree from the caller's last commit.
    Worktree,
    /// The same with what the caller has not committed yet.
    WorktreeWithChanges,
}

impl Spawn {
    /// Nothing but who does it.
    pub fn bare(agent: String) -> Self {
        Self {
            agent,
            description: String::new(),
            prompt: Text::default(),
            entry: EntryId::new(""),
            name: None,
            model: None,
            internal: false,
            tool: String::new(),
            note: String::new(),
            allowed: Vec::new(),
            named: Vec::new(),
            purpose: None,
            fork: None,
            by: None,
            isolation: None,
            directory: None,
        }
    }
}

/// What internal work is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "purpose", rename_all = "snake_case")]
pub enum Purpose {
    /// A summary of the conversation up to this place.
    Compact { tail_from: Seq },
    /// What is worth knowing in later sessions is written down.
    Remember,
    /// What was written down is put in order.
    Consolidate,
    /// What the user may want to say next.
    Suggest,
    /// What the answer to that would be.
    Speculate,
    /// A question beside the conversation.
    Side,
    /// What the session is doing right now, in a few words.
    Summarise,
}

impl Purpose {
    /// Whom lists show as the one who does it.
    pub fn agent(&self) -> &'static str {
        match self {
            Self::Compact { .. } => "compaction",
            Self::Remember => "memory",
            Self::Consolidate => "consolidation",
            Self::Suggest => "suggestion",
            Self::Speculate => "speculation",
            Self::Side => "side",
            Self::Summarise => "summary",
        }
    }

    /// It writes its notes with the tools; all others only answer.
    pub fn takes_notes(&self) -> bool {
        matches!(self, Self::Remember | Self::Consolidate)
    }

    /// The conversation goes on without it.
    pub(crate) fn is_beside(&self) -> bool {
        !matches!(self, Self::Compact { .. })
    }

    /// Nobody waits for it: when everything else is over, so is this.
    pub fn yields(&self) -> bool {
        matches!(self, Self::Summarise)
    }

    /// Somebody waits for what comes of it; all else gives way to those who are waited for.
    pub fn is_waited_for(&self) -> bool {
        matches!(self, Self::Compact { .. } | Self::Side)
    }

    /// It is about what the user may say next: once that is said, it is over.
    pub fn foresees(&self) -> bool {
        matches!(self, Self::Suggest | Self::Speculate)
    }

    /// What it says is a fact of the session it is about.
    fn advises(&self) -> bool {
        matches!(self, Self::Suggest | Self::Speculate | Self::Summarise)
    }

    pub(crate) fn advice(&self, said: &Text) -> Option<Event> {
        self.advises().then(|| Event::Advised { advice: self.clone(), text: said.clone() })
    }
}

/// A conversation to begin with. The same stretches and the same head are the same bytes for the provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fork {
    pub segments: Vec<Segment>,
    pub head: Hash,
    /// `provider/model`.
    pub model: String,
}

/// What a round took, besides tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Effort {
    /// Calls of tools.
    #[serde(default)]
    pub calls: u64,
    /// From its first step to its last word.
    #[serde(default)]
    pub millis: u64,
}

impl Effort {
    pub(crate) fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// Where a task's end went; follows from the parent's own state when it is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "to", rename_all = "snake_case")]
pub enum To {
    /// The call that waited for it.
    Call { call: CallId },
    /// A notice in the queue.
    Queue {
        entry: EntryId,
        /// The result is the whole notice; older logs have only what the task said.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        worded: bool,
    },
    /// Nobody: internal work.
    Internal,
}
