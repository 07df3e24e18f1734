//! A text in a fact: inline while it is short, the hash of a blob when it is long.
//!
//! Facts stay small so that a log can be folded without its texts. Who turns an inline text into a blob
//! is the writer of the append (`engine`), which also puts the words back before `context` reads a record.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ids::Hash;

/// The size above which a text leaves its event. An event holds a few of them and must stay under [`EVENT_BYTES_MAX`].
pub const INLINE_BYTES_MAX: usize = 4 * 1024;

/// No event in a log is larger than this.
pub const EVENT_BYTES_MAX: usize = 16 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Text {
    Inline(String),
    Stored { blob: Hash, bytes: u64 },
}

impl Text {
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Inline(text) => text.len() as u64,
            Self::Stored { bytes, .. } => *bytes,
        }
    }

    /// The words themselves, if they are here; a stored text must be read from its blob first.
    pub fn inline(&self) -> Option<&str> {
        match self {
            Self::Inline(text) => Some(text),
            Self::Stored { .. } => None,
        }
    }

    pub fn is_blank(&self) -> bool {
        matches!(self, Self::Inline(text) if text.trim().is_empty())
    }
}

/// For lists and records: clipped, and without control characters, which take six bytes each in JSON.
pub(crate) fn one_line(text: String, bytes_max: usize) -> String {
    let text = if text.contains(char::is_control) { text.replace(char::is_control, "\u{FFFD}") } else { text };
    clip(text, bytes_max)
}

/// A text that stays in its event and is only shown: cut at a letter's edge, with a sign that it was.
pub fn clip(mut text: String, bytes_max: usize) -> String {
    if bytes_max < text.len() {
        text.truncate((0..=bytes_max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0));
        text.push('…');
    }
    text
}

impl Default for Text {
    fn default() -> Self {
        Self::Inline(String::new())
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self::Inline(text.to_owned())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::Inline(text)
    }
}

/// Largest first; days are read but not written: `36h` is clearer than `1d12h`.
const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// The shortest way to write a duration that a configuration reads back; what is below a millisecond is left off.
pub fn format_duration(duration: Duration) -> String {
    let mut left = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut words = String::new();
    for (unit, factor) in UNITS {
        if factor <= left {
            words.push_str(&format!("{}{unit}", left / factor));
            left %= factor;
        }
    }
    if words.is_empty() { "0s".to_owned() } else { words }
}
