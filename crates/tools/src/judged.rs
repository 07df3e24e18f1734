//! What calls were judged by, kept from the look to the run.
//!
//! Between the two another call of the same reply may have put a link where a folder was, and the verdict would be on one
//! file and the deed on another. So a run looks again, and everything it is about to touch must be among what the look
//! of the same input found. After a restart no look is known; then only a path without any link in it is taken, because
//! such a path is the one that was spelled, and what was spelled was judged too.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use posse_session::Touch;
use serde_json::Value;

use crate::paths::Place;

/// Calls that wait for their verdict at one time; beyond, all are forgotten and treated as after a restart.
const LOOKS_MAX: usize = 4_096;

/// The looks of one tool, by the input.
#[derive(Default)]
pub(crate) struct Judged(Mutex<HashMap<[u8; 32], Found>>);

#[derive(PartialEq)]
enum Found {
    Touches(Vec<Touch>),
    /// The same input was looked at twice with different results; which of them was allowed cannot be told.
    Several,
}

impl Judged {
    pub(crate) fn note(&self, input: &Value, touches: &[Touch]) {
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if LOOKS_MAX <= looks.len() {
            looks.clear();
        }
        let found = Found::Touches(touches.to_vec());
        let known = looks.entry(key(input)).or_insert_with(|| Found::Touches(touches.to_vec()));
        if *known != found {
            *known = Found::Several;
        }
    }

    /// Whether a call may touch this now. Every look counts for one run.
    pub(crate) fn check(&self, input: &Value, touches: &[Touch], place: &Place) -> Result<(), String> {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key(input));
        let same = match found {
            Some(Found::Touches(judged)) => touches.iter().all(|touch| judged.contains(touch)),
            Some(Found::Several) => false,
            None => !place.linked,
        };
        same.then_some(()).ok_or_else(|| {
            format!("{}: the path changed since it was judged, so nothing was done. Make the call again if it is still wanted.", place.name)
        })
    }
}

fn key(input: &Value) -> [u8; 32] {
    blake3::hash(input.to_string().as_bytes()).into()
}
