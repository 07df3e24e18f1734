//! Messages as themselves, for models that need no protocol: the offline one, a script, a recording.

use std::sync::Arc;

use posse_session::{ModelError, ModelFailure};
use serde::{Serialize, de::DeserializeOwned};

pub(crate) fn bytes<T: Serialize>(value: &T) -> Arc<[u8]> {
    // Plain structs with string keys always serialize; an empty body would be refused by `parsed` in words.
    serde_json::to_vec(value).unwrap_or_default().into()
}

/// What `bytes` was given, read back by the model of this name.
pub(crate) fn parsed<T: DeserializeOwned>(bytes: &[u8], model: &str) -> Result<T, ModelError> {
    let refused = |error| ModelError::new(ModelFailure::BadRequest, format!("{model} was given bytes it did not encode: {error}"));
    serde_json::from_slice(bytes).map_err(refused)
}
