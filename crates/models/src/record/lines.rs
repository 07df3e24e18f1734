//! The lines of a recording, as they stand in its file: one JSON object each, told apart by `type`.
//!
//! An opening begins the part that one process wrote. Messages and heads are said once and named by number; an exchange
//! names only the messages that are new since the one it follows. A line of a type that this version does not know is
//! passed over; a change that old readers would get wrong raises [`FORMAT`].

use std::time::Duration;

use posse_session::{Finish, Head, Message, ModelError, ModelFacts, ModelFailure, Progress, Reply, ReplyPart, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Raised when an older reader would misread the lines.
pub(crate) const FORMAT: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Line {
    /// The first line, and the first of every later process that went on with the file.
    PosseRecording(Opening),
    /// A model that could be asked, asked or not. The first of a part is what its root ran on.
    Model {
        facts: ModelFacts,
    },
    /// What a name that somebody wrote stood for.
    Named {
        name: String,
        model: String,
    },
    Head {
        id: u64,
        head: Head,
    },
    Message {
        id: u64,
        message: Message,
    },
    Exchange(Box<Exchange>),
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Opening {
    pub(crate) format: u32,
    pub(crate) posse: String,
    #[serde(default)]
    pub(crate) places: Vec<(String, String)>,
}

/// When something happened: its number among all beginnings and ends of the part, and the milliseconds since its opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Moment {
    pub(crate) place: u64,
    pub(crate) ms: u64,
}

/// One request and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Exchange {
    pub(crate) number: u64,
    pub(crate) model: String,
    pub(crate) session: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) head: Option<u64>,
    /// The exchange whose messages come first in this one, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) follows: Option<u64>,
    pub(crate) messages: Vec<u64>,
    /// The model had to answer without tools.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) closing: bool,
    pub(crate) output_max: u64,
    pub(crate) began: Moment,
    pub(crate) ended: Moment,
    /// What was shown while it came, piece by piece.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) live: Vec<Piece>,
    #[serde(flatten)]
    pub(crate) came: Came,
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Came {
    Reply(Said),
    Error(Failed),
    /// Nobody waited for it any more: stopped, or too late.
    Dropped(Nothing),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Nothing {}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Piece {
    Text(String),
    Reasoning(String),
    Call(String),
}

impl Piece {
    /// Nothing for what says no more than that the stream is alive.
    pub(crate) fn of(progress: &Progress) -> Option<Self> {
        match progress {
            Progress::Text(text) => Some(Self::Text(text.clone())),
            Progress::Reasoning(text) => Some(Self::Reasoning(text.clone())),
            Progress::CallNamed { tool } => Some(Self::Call(tool.clone())),
            _ => None,
        }
    }

    pub(crate) fn progress(self) -> Progress {
        match self {
            Self::Text(text) => Progress::Text(text),
            Self::Reasoning(text) => Progress::Reasoning(text),
            Self::Call(tool) => Progress::CallNamed { tool },
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Said {
    pub(crate) parts: Vec<SaidPart>,
    pub(crate) usage: Usage,
    pub(crate) finish: Finish,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum SaidPart {
    Text {
        text: String,
    },
    Reasoning {
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    Call {
        id: String,
        tool: String,
        input: String,
    },
    Opaque {
        provider: String,
        raw: Value,
    },
}

impl From<&Reply> for Said {
    fn from(reply: &Reply) -> Self {
        let part = |part: &ReplyPart| match part.clone() {
            ReplyPart::Text(text) => SaidPart::Text { text },
            ReplyPart::Reasoning { text, signature } => SaidPart::Reasoning { text, signature },
            ReplyPart::Call { id, tool, input } => SaidPart::Call { id, tool, input },
            ReplyPart::Opaque { provider, raw } => SaidPart::Opaque { provider, raw },
        };
        Self { parts: reply.parts.iter().map(part).collect(), usage: reply.usage, finish: reply.finish }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Failed {
    pub(crate) failure: ModelFailure,
    pub(crate) words: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) partial: String,
    #[serde(default)]
    pub(crate) usage: Usage,
}

impl From<&ModelError> for Failed {
    fn from(error: &ModelError) -> Self {
        Self {
            failure: error.failure,
            words: error.words.clone(),
            retry_after_ms: error.retry_after.map(millis),
            partial: error.partial.clone(),
            usage: error.usage,
        }
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A file that is no recording, by its first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resembles {
    Recording,
    /// What `posse sessions export --format jsonl` writes.
    Export,
    /// What OpenCode exports.
    OpenCode,
    Nothing,
}

/// A first line longer than this is not read to its end: no opening is.
pub(crate) const OPENING_BYTES_MAX: usize = 64 * 1024;

pub(crate) fn resembles(bytes: &[u8]) -> Resembles {
    let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    match serde_json::from_slice::<Value>(first) {
        Ok(line) if line["type"] == "posse_recording" => Resembles::Recording,
        Ok(line) if line.get("blob").is_some() || (line.get("session").is_some() && line.get("event").is_some()) => Resembles::Export,
        Ok(line) if line.get("info").is_some() => Resembles::OpenCode,
        // An object over several lines begins with a brace alone.
        Err(_) if is_object_with_info(bytes) => Resembles::OpenCode,
        // A long first record was cut off.
        Err(_) if first.starts_with(b"{\"session\":\"ses_") => Resembles::Export,
        _ => Resembles::Nothing,
    }
}

fn is_object_with_info(bytes: &[u8]) -> bool {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(OPENING_BYTES_MAX)]).into_owned();
    start.trim_start().strip_prefix('{').is_some_and(|rest| rest.trim_start().starts_with("\"info\""))
}
