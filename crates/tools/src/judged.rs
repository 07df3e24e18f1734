//! What calls were judged by, kept from the look to the run.
//!
//! Between the two another call of the same reply may have put a link where a folder was, and the verdict would be on one
//! file and the deed on another. So a run looks again, and everything it is about to touch must be among what the look
//! of the same input found. A tool that changes a file is also bound to the file itself: one that somebody else put in its
//! place was not the one that was judged. After a restart no look is known; then only a path without any link in it is
//! taken, because such a path is the one that was spelled, and what was spelled was judged too.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use posse_session::Touch;
use serde_json::Value;

use crate::{files::ours, paths::Place, root::Identity};

/// Calls that wait for their verdict at one time; beyond, all are forgotten and treated as after a restart.
const LOOKS_MAX: usize = 4_096;

/// A call is looked at again by each hook; the file it is about may be another one every time.
const FILES_MAX: usize = 16;

/// The looks of one tool, by the input.
#[derive(Default)]
pub(crate) struct Judged(Mutex<HashMap<[u8; 32], Found>>);

enum Found {
    Look {
        touches: Vec<Touch>,
        bound: Option<Bound>,
    },
    /// The same input was looked at twice with different results; which of them was allowed cannot be told.
    Several,
}

/// The file a call was judged for.
struct Bound {
    real: PathBuf,
    /// What stood there at each look; `None` is nothing.
    files: Vec<Option<Identity>>,
}

impl Judged {
    pub(crate) fn note(&self, input: &Value, touches: &[Touch]) {
        self.keep(input, touches, None);
    }

    /// For a tool that changes one file: the verdict is on what stands there now.
    pub(crate) fn note_file(&self, input: &Value, touches: &[Touch], place: &Place) {
        self.keep(input, touches, Some(Bound { real: place.real.clone(), files: vec![place.identity()] }));
    }

    fn keep(&self, input: &Value, touches: &[Touch], bound: Option<Bound>) {
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if LOOKS_MAX <= looks.len() {
            looks.clear();
        }
        let found = match (looks.remove(&key(input)), bound) {
            (None, bound) => Found::Look { touches: touches.to_vec(), bound },
            (Some(Found::Look { touches: known, bound: before }), bound) if known == touches => match (before, bound) {
                (Some(before), Some(bound)) if before.real == bound.real => {
                    Found::Look { touches: known, bound: Some(Bound { files: before.and(bound.files), real: bound.real }) }
                }
                (None, None) => Found::Look { touches: known, bound: None },
                _ => Found::Several,
            },
            _ => Found::Several,
        };
        looks.insert(key(input), found);
    }

    /// Whether a call may touch this now. Every look counts for one run.
    pub(crate) fn check(&self, input: &Value, touches: &[Touch], place: &Place) -> Result<(), String> {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key(input));
        let what = match found {
            Some(Found::Look { touches: judged, bound }) if touches.iter().all(|touch| judged.contains(touch)) => match bound {
                Some(bound) if bound.real != place.real => "path",
                Some(bound) if !bound.covers(place) => "file",
                _ => return Ok(()),
            },
            None if !place.linked => return Ok(()),
            _ => "path",
        };
        let name = &place.name;
        Err(format!("{name}: the {what} changed since it was judged, so nothing was done. Make the call again if it is still wanted."))
    }
}

impl Bound {
    fn and(mut self, files: Vec<Option<Identity>>) -> Vec<Option<Identity>> {
        self.files.extend(files);
        let older = self.files.len().saturating_sub(FILES_MAX);
        self.files.split_off(older)
    }

    /// Whether what stands there now was judged, or was put there by one of our own calls. Nothing is always fine: what
    /// is made anew replaces nobody's work.
    fn covers(&self, place: &Place) -> bool {
        // Locked before it is looked at, so that no call of ours replaces it meanwhile.
        let ours = ours();
        let now = place.identity();
        self.files.contains(&now) || now.is_none_or(|now| ours.wrote(&place.real, now))
    }
}

pub(crate) fn key(input: &Value) -> [u8; 32] {
    blake3::hash(input.to_string().as_bytes()).into()
}
