//! The parts of what is said: by a user, a task or a model. Readable as OpenCode's `{info, parts}`.
//!
//! Tool parts are not here: a call is its own fact (`Called`, `CallFinished`), and a [`Part::Call`] only marks
//! where in the reply it stood.

use serde::{Deserialize, Serialize};

use crate::{grant::Grant, ids::CallId, text::Text};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    Text {
        text: Text,
        /// Not typed by the speaker: a reminder, a hint, a notice's frame.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        synthetic: bool,
    },
    /// Thinking, with what the provider needs to accept it back unchanged.
    Reasoning {
        text: Text,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<Text>,
    },
    /// A file or an image. `data` is base64 when the content itself travels.
    File {
        mime: String,
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<Text>,
    },
    /// The user named an agent.
    Agent { name: String },
    /// The user ran an agent directly.
    Subtask {
        agent: String,
        description: String,
        prompt: Text,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// Its answer is the answer: no model is asked after it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        direct: bool,
        /// What it may do for its first turn without asking.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        allowed: Vec<Grant>,
        /// Files in the prompt that the user named.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        named: Vec<String>,
    },
    /// Where in a reply a call stood.
    Call { call: CallId },
    /// A file that a call changed: which, and the hashes of its whole content before and after; empty where there was none.
    Patch {
        path: String,
        before: String,
        after: String,
        /// Lines that came and went.
        #[serde(default, skip_serializing_if = "is_zero")]
        added: u64,
        #[serde(default, skip_serializing_if = "is_zero")]
        removed: u64,
        /// JSON text from which the content before can be made of the one after. Empty when nothing was recorded.
        #[serde(default, skip_serializing_if = "Text::is_blank")]
        change: Text,
        /// The mode of a file that is gone now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<u32>,
    },
    /// The conversation is to be summed up; `words` say what matters.
    Compact {
        #[serde(default, skip_serializing_if = "Text::is_blank")]
        words: Text,
    },
    /// The conversation before this point was summed up.
    Compaction { summary: Text },
    /// The step before this one failed and was tried again.
    Retry { attempt: u32, error: String },
    /// A block only its provider understands; kept to be sent back as it came.
    Opaque {
        provider: String,
        /// JSON text.
        raw: Text,
    },
}

impl Part {
    pub fn text(text: impl Into<Text>) -> Self {
        Self::Text { text: text.into(), synthetic: false }
    }

    pub fn reminder(text: impl Into<Text>) -> Self {
        Self::Text { text: text.into(), synthetic: true }
    }

    /// Every text in this part that may be long enough to leave the event.
    pub fn texts_mut(&mut self) -> Vec<&mut Text> {
        match self {
            Self::Text { text, .. }
            | Self::Compaction { summary: text }
            | Self::Compact { words: text }
            | Self::Subtask { prompt: text, .. } => vec![text],
            Self::Reasoning { text, signature } => std::iter::once(text).chain(signature).collect(),
            Self::File { data, .. } => data.iter_mut().collect(),
            Self::Opaque { raw: text, .. } | Self::Patch { change: text, .. } => vec![text],
            Self::Agent { .. } | Self::Call { .. } | Self::Retry { .. } => Vec::new(),
        }
    }

    pub fn bytes(&self) -> u64 {
        match self {
            Self::Text { text, .. }
            | Self::Compaction { summary: text }
            | Self::Compact { words: text }
            | Self::Subtask { prompt: text, .. } => text.bytes(),
            Self::Reasoning { text, signature } => text.bytes() + signature.as_ref().map_or(0, Text::bytes),
            Self::File { data, .. } => data.as_ref().map_or(0, Text::bytes),
            Self::Opaque { raw: text, .. } | Self::Patch { change: text, .. } => text.bytes(),
            Self::Agent { .. } | Self::Call { .. } | Self::Retry { .. } => 0,
        }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
