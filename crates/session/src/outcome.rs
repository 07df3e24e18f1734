//! How things end: calls, asks, rounds. Words in an outcome are for the model.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{part::Part, text::Text};

/// How a call ended, recorded once, as the model will see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum Outcome {
    Done {
        output: Text,
        /// A few words for a list.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        title: String,
        /// For screens and exports, never for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<Value>,
        /// Images and other files that go to the model with the text, and patches that go to the log only.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Part>,
    },
    Failed {
        error: Text,
    },
    Denied {
        why: Text,
    },
    /// Never started, or stopped in time.
    Cancelled {
        partial: Text,
    },
    /// Started, and nobody knows how it ended. Never run again by us.
    Lost {
        partial: Text,
    },
}

impl Outcome {
    pub fn done(output: impl Into<Text>) -> Self {
        Self::Done { output: output.into(), title: String::new(), metadata: None, attachments: Vec::new() }
    }

    pub fn failed(error: impl Into<Text>) -> Self {
        Self::Failed { error: error.into() }
    }

    pub fn denied(why: impl Into<Text>) -> Self {
        Self::Denied { why: why.into() }
    }

    pub fn cancelled(partial: impl Into<Text>) -> Self {
        Self::Cancelled { partial: partial.into() }
    }

    pub fn is_error(&self) -> bool {
        !matches!(self, Self::Done { .. })
    }

    /// One word for lists and streams.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Done { .. } => "done",
            Self::Failed { .. } => "failed",
            Self::Denied { .. } => "denied",
            Self::Cancelled { .. } => "cancelled",
            Self::Lost { .. } => "lost",
        }
    }

    pub fn texts_mut(&mut self) -> Vec<&mut Text> {
        match self {
            Self::Done { output, attachments, .. } => {
                std::iter::once(output).chain(attachments.iter_mut().flat_map(Part::texts_mut)).collect()
            }
            Self::Failed { error: text }
            | Self::Denied { why: text }
            | Self::Cancelled { partial: text }
            | Self::Lost { partial: text } => vec![text],
        }
    }
}

/// How far a "yes" reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    Once,
    Session,
    Tree,
    Project,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    Yes {
        scope: Scope,
    },
    /// Words for the model, if the person gave any.
    No {
        #[serde(default, skip_serializing_if = "String::is_empty")]
        say: String,
    },
    /// What the person says to a question.
    Words {
        say: String,
    },
}

/// Who answered an ask, stopped or resumed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    User,
    Model,
    /// Nobody could be asked, or a mode answers for the user.
    Policy,
    Kernel,
}

/// How a round ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    Completed,
    Failed,
    Stopped,
    /// A limit ended it; what there is, is its result.
    Limit,
}

impl How {
    /// One word for notices: a limit leaves something to build on.
    pub fn word(self) -> &'static str {
        match self {
            Self::Completed | Self::Limit => "completed",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}
