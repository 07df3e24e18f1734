//! Long texts leave their events for blobs before an append, and come back when records are read.
//!
//! What counts is the event as the log holds it: JSON makes six bytes of a control character.

use std::{collections::HashMap, sync::Arc};

use posse_session::{EVENT_BYTES_MAX, Event, Hash, INLINE_BYTES_MAX, Log, Outcome, ReadError, Record, Seq, SessionId, Text};

/// What an append carries instead of long texts.
pub(crate) type Blobs = Vec<(Hash, Arc<[u8]>)>;

/// Room for what the store writes around an event.
const EVENT_BYTES: usize = EVENT_BYTES_MAX - 512;

pub fn content_hash(bytes: &[u8]) -> Hash {
    Hash::new(blake3::hash(bytes).to_hex().as_str())
}

/// An event that fits into a log, and the blobs that hold its long texts. Texts leave from the longest on until the
/// event fits; what is only for screens is left out when even that is not enough.
pub(crate) fn spill(event: &Event) -> (Event, Blobs) {
    let (mut event, mut blobs) = (event.clone(), Vec::new());
    for text in event.texts_mut().into_iter().filter(|text| INLINE_BYTES_MAX < json_bytes(text)) {
        store(text, &mut blobs);
    }
    while EVENT_BYTES < event_bytes(&event) {
        let longest = event
            .texts_mut()
            .into_iter()
            .filter(|text| text.inline().is_some_and(|words| STORED_BYTES < words.len()))
            .max_by_key(|text| json_bytes(text));
        if let Some(text) = longest {
            store(text, &mut blobs);
        } else if !leave_out(&mut event) {
            break;
        }
    }
    (event, blobs)
}

/// A reference takes about so much itself: a shorter text gains nothing by leaving.
const STORED_BYTES: usize = 128;

fn store(text: &mut Text, blobs: &mut Blobs) {
    let Some(words) = text.inline() else { return };
    let bytes: Arc<[u8]> = words.as_bytes().into();
    let blob = content_hash(&bytes);
    *text = Text::Stored { blob: blob.clone(), bytes: bytes.len() as u64 };
    blobs.push((blob, bytes));
}

/// What is only for screens first: a patch that is lost is a change that cannot be undone. `false` when nothing is left.
fn leave_out(event: &mut Event) -> bool {
    let Event::CallFinished { outcome: Outcome::Done { metadata, attachments, .. }, .. } = event else { return false };
    if metadata.take().is_some() {
        return true;
    }
    let many = ATTACHMENTS_MAX < attachments.len();
    attachments.truncate(ATTACHMENTS_MAX);
    many
}

/// Files and patches of one call that always fit.
const ATTACHMENTS_MAX: usize = 16;

fn json_bytes(text: &Text) -> usize {
    let plain = text.inline().map_or(0, str::len);
    // Nothing shorter can pass the bound, however it is escaped.
    if 6 * plain <= INLINE_BYTES_MAX { plain } else { serde_json::to_string(text).map_or(plain, |json| json.len()) }
}

fn event_bytes(event: &Event) -> usize {
    serde_json::to_string(event).map_or(usize::MAX, |json| json.len())
}

/// Records read at once.
pub(crate) const PAGE: usize = 2_000;

/// Every record after `after`, as the log holds it: long texts are still in their blobs.
pub async fn read_all(log: &dyn Log, session: &SessionId, after: Seq) -> Result<Vec<Record>, ReadError> {
    let mut records: Vec<Record> = Vec::new();
    loop {
        let page = log.read(session, records.last().map_or(after, |last| last.seq), PAGE).await?;
        let last = page.len() < PAGE;
        records.extend(page);
        if last {
            return Ok(records);
        }
    }
}

/// Puts the words back into records read from a log. A blob that is missing stays a reference; `context` says so.
pub async fn restore(log: &dyn Log, records: &mut [Record]) -> Result<(), ReadError> {
    // How often each is still wanted: megabytes are held twice only while somebody needs them again.
    let mut wanted: HashMap<Hash, usize> = HashMap::new();
    for text in records.iter_mut().flat_map(|record| record.event.texts_mut()) {
        if let Text::Stored { blob, .. } = text {
            *wanted.entry(blob.clone()).or_default() += 1;
        }
    }
    let mut known: HashMap<Hash, Arc<[u8]>> = HashMap::new();
    for record in records {
        for text in record.event.texts_mut() {
            let Text::Stored { blob, .. } = &*text else { continue };
            let bytes = match known.remove(blob) {
                Some(bytes) => bytes,
                None => match log.blob(blob).await {
                    Ok(bytes) => bytes,
                    Err(ReadError::Missing) => continue,
                    Err(error) => return Err(error),
                },
            };
            let words = String::from_utf8_lossy(&bytes).into_owned();
            if let Some(left) = wanted.get_mut(blob) {
                *left -= 1;
                if 0 < *left {
                    known.insert(blob.clone(), bytes);
                }
            }
            *text = Text::Inline(words);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use posse_session::{CallId, Entry, EntryId, Finish, Part};
    use serde_json::json;

    use super::*;

    fn done(output: &str, metadata: Option<serde_json::Value>, attachments: Vec<Part>) -> Event {
        let outcome = Outcome::Done { output: output.into(), title: String::new(), metadata, attachments };
        Event::CallFinished { call: CallId::new("call_x"), outcome }
    }

    #[test]
    fn no_event_is_larger_than_a_log_takes() {
        let entry = |parts| Event::Queued { entry: Entry { parts, ..Entry::user(EntryId::new("msg_x"), "") } };
        let nasty = ["\0".repeat(4_000), "\\\"".repeat(3_000), "x".repeat(100_000), "\u{1b}".repeat(650), "é".repeat(4_096)];
        let patch = |nth: usize| Part::Patch {
            path: format!("{}/{nth}", "p".repeat(200)),
            before: "b".repeat(64),
            after: "a".repeat(64),
            added: 1,
            removed: 0,
            change: "c".repeat(nth).into(),
            mode: None,
        };
        let mut events = vec![
            entry(nasty.iter().map(|text| Part::text(text.as_str())).collect()),
            entry((0..60).map(|_| Part::text("y".repeat(600))).collect()),
            done("ok", Some(json!({"diff": "\u{7}".repeat(4_000)})), Vec::new()),
            done(&nasty[0], None, (0..200).map(patch).collect()),
            Event::Replied {
                step: 0,
                parts: vec![Part::Opaque { provider: "p".into(), raw: format!("\"{}\"", "z".repeat(50_000)).into() }],
                calls: 0,
                usage: Default::default(),
                finish: Finish::Stop,
                author: None,
            },
        ];
        events.extend(nasty.iter().map(|text| done(text, None, Vec::new())));
        for event in events {
            let (spilled, blobs) = spill(&event);
            assert!(event_bytes(&spilled) <= EVENT_BYTES, "{} has {} bytes", spilled.name(), event_bytes(&spilled));
            for (hash, bytes) in blobs {
                assert_eq!(content_hash(&bytes), hash);
            }
        }
    }

    #[test]
    fn every_patch_of_a_large_change_is_kept() {
        let patch = |nth: usize| Part::Patch {
            path: format!("{}{nth}", "p".repeat(190)),
            before: "b".repeat(32),
            after: "a".repeat(32),
            added: 100,
            removed: 100,
            change: "c".repeat(10_000).into(),
            mode: None,
        };
        // As many files, and as long names, as one call may change.
        let (spilled, blobs) = spill(&done(&"o".repeat(9_000), Some(json!({"diff": "d".repeat(2_000)})), (0..32).map(patch).collect()));
        assert!(event_bytes(&spilled) <= EVENT_BYTES);
        let Event::CallFinished { outcome: Outcome::Done { attachments, metadata, .. }, .. } = spilled else { panic!() };
        assert_eq!((attachments.len(), metadata, blobs.len()), (32, None, 33));
    }

    #[test]
    fn short_texts_stay_where_they_are() {
        let event = done("short", Some(json!({"exit": 0})), Vec::new());
        assert_eq!(spill(&event), (event, Vec::new()));
    }
}
