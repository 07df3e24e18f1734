//! Entries: what waits to be said to a session. The queue that holds them is in `queue.rs`.

use serde::{Deserialize, Serialize};

use crate::{
    grant::Grant,
    ids::{AskId, CallId, EntryId, SessionId},
    part::Part,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The sender's; a known id is dropped.
    pub id: EntryId,
    pub source: Source,
    #[serde(default)]
    pub delivery: Delivery,
    #[serde(default)]
    pub priority: Priority,
    pub parts: Vec<Part>,
    /// As typed: commands and mentions in it are to be found before it is due.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub typed: bool,
    /// Whose words they are: what they name may be taken for the user's leave, or not.
    #[serde(default, skip_serializing_if = "Voice::is_users")]
    pub voice: Voice,
    /// What is allowed for the turn it begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<Grant>,
}

impl Entry {
    /// What a user typed: due at the next step boundary, ahead of notices.
    pub fn user(id: EntryId, text: impl Into<crate::text::Text>) -> Self {
        Self {
            id,
            source: Source::User,
            delivery: Delivery::NextStep,
            priority: Priority::Next,
            parts: vec![Part::text(text)],
            typed: false,
            voice: Voice::User,
            allowed: Vec::new(),
        }
    }

    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(Part::bytes).sum()
    }
}

/// Whose words an entry holds, whoever sent it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Voice {
    /// The user typed them: what they name, the user named.
    #[default]
    User,
    /// All of it was piped in: others' words may be in it.
    Piped,
    /// Another agent's. Of the files that they name the user named these.
    Agent {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        named: Vec<String>,
    },
}

impl Voice {
    fn is_users(&self) -> bool {
        *self == Self::User
    }
}

/// Who speaks. Only the user carries the user's authority.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum Source {
    User,
    /// The call of another session that started this one, or goes on with it.
    Prompt {
        session: SessionId,
    },
    /// A task of this session that ended.
    Task {
        task: SessionId,
    },
    /// Another agent's message.
    Agent {
        session: SessionId,
        name: String,
    },
    Timer,
    Hook {
        name: String,
    },
    Plugin {
        name: String,
    },
    /// What a call of this session had left running is over.
    Shell {
        call: CallId,
    },
    /// A person's answer that came when nobody waited for it any more.
    Answer {
        ask: AskId,
    },
}

impl Source {
    /// Notices wait together and are delivered together; users and agents are answered one by one.
    pub fn is_notice(&self) -> bool {
        !matches!(self, Self::User | Self::Prompt { .. } | Self::Agent { .. })
    }
}

/// When an entry may enter the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// At the next step boundary: it steers a running turn.
    #[default]
    NextStep,
    /// When the turn has ended.
    WhenIdle,
}

/// Orders what is due. `Now` also cancels the model stream in flight, never a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    Now,
    Next,
    #[default]
    Later,
}
