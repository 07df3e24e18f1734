//! The lines of a recording, as they stand in its file: one JSON object each, told apart by `type`.
//!
//! An opening begins the part that one process wrote. Messages and heads are said once and named by number; an exchange
//! names only the messages that are new since the one it follows. A line of a type that this version does not know is
//! passed over; a change that old readers would get wrong raises [`FORMAT`].

use std::time::Duration;

use posse_session::{Head, Message, ModelError, ModelFacts, ModelFailure, Progress, Reply, Usage};
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
    Reply(Reply),
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

    pub(crate) fn said(&mut self) -> Option<&mut String> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(crate) fn thought(&mut self) -> Option<&mut String> {
        if let Self::Reasoning(text) = self { Some(text) } else { None }
    }

    /// What it takes to keep it.
    pub(crate) fn bytes(&self) -> usize {
        let (Self::Text(text) | Self::Reasoning(text) | Self::Call(text)) = self;
        size_of::<Self>() + text.len()
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

/// Every text in a value, rewritten; the names of its fields stay.
pub(crate) fn rewrite_texts(value: &mut Value, rewrite: &mut dyn FnMut(&str) -> String) {
    match value {
        Value::String(text) => *text = rewrite(text),
        Value::Array(items) => items.iter_mut().for_each(|item| rewrite_texts(item, rewrite)),
        Value::Object(fields) => fields.values_mut().for_each(|item| rewrite_texts(item, rewrite)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use posse_session::{Finish, ReplyPart};

    use super::*;

    /// As the first version wrote it. A line that reads otherwise is another format.
    const REPLIED: &str = concat!(
        r#"{"type":"exchange","number":9,"model":"p/m","session":"ses_1","messages":[1],"output_max":5,"#,
        r#""began":{"place":1,"ms":2},"ended":{"place":3,"ms":4},"live":[{"text":"a"},{"reasoning":"b"},{"call":"ls"}],"#,
        r#""reply":{"parts":[{"type":"text","text":"a"},{"type":"reasoning","text":"b"},"#,
        r#"{"type":"reasoning","text":"","signature":"s"},{"type":"call","id":"c","tool":"ls","input":"{}"},"#,
        r#"{"type":"opaque","provider":"p","raw":{"type":"x"}}],"#,
        r#""usage":{"input":1,"output":2,"cache_read":0,"cache_write":0,"cost_usd":0.5},"finish":"calls"}}"#
    );

    #[test]
    fn a_reply_reads_and_is_written_as_in_the_first_version() {
        let line: Line = serde_json::from_str(REPLIED).unwrap();
        let Line::Exchange(exchange) = &line else { panic!("{line:?}") };
        let Came::Reply(reply) = &exchange.came else { panic!("{exchange:?}") };
        let thought =
            |text: &str, signature: Option<&str>| ReplyPart::Reasoning { text: text.into(), signature: signature.map(str::to_owned) };
        let expected = [
            ReplyPart::Text("a".into()),
            thought("b", None),
            thought("", Some("s")),
            ReplyPart::Call { id: "c".into(), tool: "ls".into(), input: "{}".into() },
            ReplyPart::Opaque { provider: "p".into(), raw: serde_json::json!({"type": "x"}) },
        ];
        assert_eq!((&reply.parts[..], reply.finish), (&expected[..], Finish::Calls));
        assert_eq!(serde_json::to_string(&line).unwrap(), REPLIED);
    }
}
