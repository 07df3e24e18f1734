//! An append made ready: its events as JSON, its hashes found, its right to be written judged.
//!
//! Shared by all stores so that they agree on what is refused. Made by the caller's task, not by the writer thread:
//! turning events into JSON is most of the work of an append and needs no lock.

use posse_session::{Append, AppendError, BatchId, EVENT_BYTES_MAX, Epoch, Event, Seq, SessionId};

/// The hex digits of a BLAKE3 hash, which is what blobs are named by.
pub(crate) const HASH_CHARS: usize = 64;

pub(crate) struct Ready {
    pub(crate) append: Append,
    /// One JSON text per event.
    pub(crate) bodies: Vec<String>,
    /// What in the events looks like the hash of a blob, whoever stored that blob.
    pub(crate) named: Vec<String>,
}

impl Ready {
    pub(crate) fn new(append: Append) -> Result<Self, AppendError> {
        let mut bodies = Vec::with_capacity(append.events.len());
        let mut named = Vec::new();
        for (number, event) in append.events.iter().enumerate() {
            let name = || format!("event {} ({}) of {}", append.after + 1 + number as u64, event.name(), append.session);
            let body =
                serde_json::to_string(event).map_err(|error| AppendError::Unavailable(format!("{} has no JSON form: {error}", name())))?;
            if EVENT_BYTES_MAX < body.len() {
                let size = body.len();
                return Err(AppendError::Unavailable(format!(
                    "{} has {size} bytes, at most {EVENT_BYTES_MAX} fit: its texts belong into blobs",
                    name()
                )));
            }
            named.extend(hashes_in(&body).map(str::to_owned));
            bodies.push(body);
        }
        named.sort_unstable();
        named.dedup();
        Ok(Self { append, bodies, named })
    }
}

/// Every quoted string that could be a blob's hash. Looking at the JSON rather than at known fields keeps the blobs of
/// events that a later version wrote; a string that only looks like a hash finds no blob and costs nothing.
pub(crate) fn hashes_in(body: &str) -> impl Iterator<Item = &str> {
    body.split('"').filter(|piece| piece.len() == HASH_CHARS && piece.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
}

/// The sessions whose records are shown as part of the one this event is in: they must outlive it.
pub(crate) fn leans_on(event: &Event) -> impl Iterator<Item = &SessionId> {
    let segments = if let Event::Forked { segments } = event { &segments[..] } else { &[] };
    segments.iter().map(|segment| &segment.session)
}

/// Why a tree is not removed; `forks` are those that show its records.
pub(crate) fn still_needed(root: &SessionId, forks: &[SessionId]) -> AppendError {
    let names: Vec<&str> = forks.iter().map(SessionId::as_str).collect();
    let (forks, need, them) = if names.len() == 1 { ("a fork", "needs", "it") } else { ("forks", "need", "them") };
    AppendError::Unavailable(format!("{forks} of {root} still {need} its records: remove {them} first ({})", names.join(", ")))
}

/// Where a session's log and its tree stand when an append arrives.
pub(crate) struct Standing<'a> {
    /// Zero when nobody ever took the tree.
    pub(crate) epoch: Epoch,
    /// The tree the session was created in, if it exists.
    pub(crate) root: Option<&'a SessionId>,
    pub(crate) head: Seq,
    pub(crate) batch: Option<&'a BatchId>,
}

pub(crate) enum Verdict {
    Write,
    /// The writer lost the answer, not the facts.
    AlreadyThere,
    Refuse(AppendError),
}

pub(crate) fn judge(append: &Append, standing: &Standing<'_>) -> Verdict {
    // The own batch at the tail is a fact whoever owns the tree by now; the next append will learn of the move.
    if standing.batch == Some(&append.batch) {
        return Verdict::AlreadyThere;
    }
    if let Some(root) = standing.root
        && *root != append.root
    {
        let words = format!("{} belongs to the tree {root}, not to {}", append.session, append.root);
        return Verdict::Refuse(AppendError::Unavailable(words));
    }
    let owned = append.epoch != 0 && append.epoch == standing.epoch;
    if owned && append.after == standing.head { Verdict::Write } else { Verdict::Refuse(AppendError::Moved { head: standing.head }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_found_wherever_they_stand() {
        let hash = "0123456789abcdef".repeat(4);
        let body = format!(r#"{{"a":{{"blob":"{hash}","bytes":9}},"b":"{hash}0","c":["x","{}"]}}"#, hash.to_uppercase());
        assert_eq!(hashes_in(&body).collect::<Vec<_>>(), [hash.as_str()]);
    }
}
