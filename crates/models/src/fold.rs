//! Folding a stream into a reply: what the protocols have in common.
//!
//! A fold is a pure value: events go in, progress comes out, and at any moment it can be asked for the reply. There is
//! no IO here, so every cut of a stream can be tried. Which events mean what is in the `fold.rs` of each protocol; who
//! feeds them is in `http.rs`.

use posse_session::{ModelError, ModelFailure, Progress, Reply, Usage};
use serde_json::Value;

use crate::sse::Event;

/// How much more a stream may bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    /// The server said why it ends; only counts may follow. Nobody waits long for those.
    Ending,
    /// The last event was seen, or an error. Whatever the socket does now changes nothing.
    Over,
}

pub(crate) trait Fold: Clone + Send {
    /// Takes one event and shows what it brought.
    fn push(&mut self, event: &Event, show: &mut dyn FnMut(Progress));

    fn phase(&self) -> Phase;

    /// The reply if the stream was complete, else why not, with the text so far.
    fn finish(self) -> Result<Reply, ModelError>;

    /// The text so far and the tokens counted, for a failure that the fold cannot see.
    fn partial(&self) -> (String, Usage);
}

/// A failure with what had already come.
pub(crate) fn broken(fold: &impl Fold, failure: ModelFailure, words: impl Into<String>) -> ModelError {
    let (partial, usage) = fold.partial();
    ModelError { partial, usage, ..ModelError::new(failure, words) }
}

/// Many times the longest answer that any model gives; more is a server gone wrong, and it must not fill the memory.
pub(crate) const REPLY_BYTES_MAX: usize = 32 * 1024 * 1024;

/// What a block or a call costs beside its text, so that endless empty ones end too.
pub(crate) const PART_BYTES: usize = 1024;

/// A reply that never ends.
pub(crate) fn too_large() -> ModelError {
    let words = format!("the answer is larger than {} MiB", REPLY_BYTES_MAX / 1024 / 1024);
    ModelError::new(ModelFailure::Malformed, words)
}

/// How a stream that simply stops is told.
pub(crate) const CUT_WORDS: &str = "the answer was cut off: the stream ended before its end";

/// An event that is no JSON.
pub(crate) fn malformed(event: &Event, error: &serde_json::Error) -> ModelError {
    /// Enough to recognise what came instead.
    const SAMPLE_CHARS_MAX: usize = 80;
    let sample: String = event.data.chars().take(SAMPLE_CHARS_MAX).collect();
    ModelError::new(ModelFailure::Malformed, format!("the server sent an event that is no JSON ({error}): {sample}"))
}

/// A count, whatever number type the server wrote.
pub(crate) fn count(value: &Value, key: &str) -> Option<u64> {
    let number = value.get(key)?;
    number.as_u64().or_else(|| number.as_f64().map(|count| count.max(0.0) as u64))
}

/// A non-empty string field.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Whether this is the text of a whole JSON object, as a call's input must be.
pub(crate) fn is_object(input: &str) -> bool {
    serde_json::from_str::<serde_json::Map<String, Value>>(input).is_ok()
}

/// A call's input as it goes back on the wire: what the model wrote if it is an object, else wrapped in one.
pub(crate) fn as_object(input: &str) -> std::borrow::Cow<'_, str> {
    match input.trim() {
        "" => "{}".into(),
        object if is_object(object) => object.into(),
        other => serde_json::json!({ "invalid_json": other }).to_string().into(),
    }
}
