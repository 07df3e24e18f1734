//! Folding a stream into a reply: what the protocols have in common.
//!
//! A fold is a pure value: events go in, progress comes out, and at any moment it can be asked for the reply. There is
//! no IO here, so every cut of a stream can be tried. Which events mean what is in the `fold.rs` of each protocol; who
//! feeds them is in `http.rs`.

use posse_session::{ModelError, ModelFailure, Progress, Reply, Usage};
use serde_json::{Map, Value};

use crate::{failure::shorten, sse::Event};

/// How much more a stream may bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    /// The server said why it ends; only counts may follow. Nobody waits long for those.
    Ending,
    /// The last event was seen, or an error. Whatever the socket does now changes nothing.
    Over,
}

impl Phase {
    pub(crate) fn of(is_over: bool, is_ending: bool) -> Self {
        match (is_over, is_ending) {
            (true, _) => Self::Over,
            (false, true) => Self::Ending,
            (false, false) => Self::Open,
        }
    }
}

pub(crate) trait Fold: Clone + Send {
    /// Takes one event and shows what it brought.
    fn push(&mut self, event: &Event, show: &mut dyn FnMut(Progress));

    fn phase(&self) -> Phase;

    /// The reply if the stream was complete, else why not, with the text so far.
    fn finish(self) -> Result<Reply, ModelError>;

    /// The text so far and the tokens counted, for a failure that the fold cannot see.
    fn partial(&self) -> (String, Usage);

    /// The tokens counted so far.
    fn counted(&self) -> Usage;
}

/// A failure with what had already come.
pub(crate) fn with_partial(fold: &impl Fold, failure: ModelError) -> ModelError {
    let (partial, usage) = fold.partial();
    ModelError { partial, usage, ..failure }
}

/// The same for one that has no words yet.
pub(crate) fn broken(fold: &impl Fold, failure: ModelFailure, words: impl Into<String>) -> ModelError {
    with_partial(fold, ModelError::new(failure, words))
}

/// Many times the longest answer that any model gives; more is a server gone wrong, and it must not fill the memory.
pub(crate) const REPLY_BYTES_MAX: usize = 32 * 1024 * 1024;

/// What a block or a call costs beside its text, so that endless empty ones end too.
pub(crate) const PART_BYTES: usize = 1024;

/// What a JSON value takes up before anything is in it.
pub(crate) const VALUE_BYTES: usize = size_of::<Value>();

/// What it takes to keep a JSON value: its texts, the names in it, and a place for each value.
pub(crate) fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| VALUE_BYTES + weight(item)).sum(),
        Value::Object(fields) => weight_of_fields(fields),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

pub(crate) fn weight_of_fields(fields: &Map<String, Value>) -> usize {
    fields.iter().map(|(name, value)| name.len() + VALUE_BYTES + weight(value)).sum()
}

/// A reply that never ends.
pub(crate) fn too_large() -> ModelError {
    let words = format!("the answer is larger than {} MiB", REPLY_BYTES_MAX / 1024 / 1024);
    ModelError::new(ModelFailure::Malformed, words)
}

/// How a stream that simply stops is told.
pub(crate) const CUT_WORDS: &str = "the answer was cut off: the stream ended before its end";

/// The JSON of an event. What came instead is told in full: only `http.rs` knows which of it is a secret, and cuts it then.
pub(crate) fn value_of(event: &Event) -> Result<Value, ModelError> {
    let data = event.data.trim();
    serde_json::from_str(data)
        .map_err(|error| ModelError::new(ModelFailure::Malformed, format!("the server sent an event that is no JSON ({error}): {data}")))
}

/// The provider, or the model, declined and gave no answer. The same words would be declined again.
pub(crate) fn declined(fold: &impl Fold, why: &str) -> ModelError {
    let why = why.trim().trim_end_matches('.');
    let words = format!("the provider declined to answer: {}; say it another way, or use another model", shorten(why));
    broken(fold, ModelFailure::BadRequest, words)
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
    serde_json::from_str::<Map<String, Value>>(input).is_ok()
}

/// What there is of the input of a call that was cut. Never a whole value, so that nobody runs half a call.
pub(crate) fn unfinished(input: &str) -> String {
    let mut input = input.trim().to_owned();
    if serde_json::from_str::<Value>(&input).is_ok() {
        input.pop();
    }
    if input.is_empty() { "{".to_owned() } else { input }
}

/// A call's input as it goes back on the wire: what the model wrote if it is an object, else wrapped in one.
pub(crate) fn as_object(input: &str) -> std::borrow::Cow<'_, str> {
    match input.trim() {
        "" => "{}".into(),
        object if is_object(object) => object.into(),
        other => serde_json::json!({ "invalid_json": other }).to_string().into(),
    }
}
