//! Long texts leave their events for blobs before an append, and come back when records are read.

use std::{collections::HashMap, sync::Arc};

use posse_session::{Event, Hash, INLINE_BYTES_MAX, Log, ReadError, Record, Text};

/// What an append carries instead of long texts.
pub(crate) type Blobs = Vec<(Hash, Arc<[u8]>)>;

pub fn content_hash(bytes: &[u8]) -> Hash {
    Hash::new(blake3::hash(bytes).to_hex().as_str())
}

/// An event whose texts are all short, and the blobs that hold the long ones.
///
/// An event may hold many texts that are each short enough, so the bound shrinks until all of them fit together.
pub(crate) fn spill(event: &Event) -> (Event, Blobs) {
    let (mut event, mut blobs) = (event.clone(), Vec::new());
    let count = event.texts_mut().len().max(1);
    let bound = (2 * INLINE_BYTES_MAX / count).clamp(64, INLINE_BYTES_MAX);
    for text in event.texts_mut() {
        if let Text::Inline(words) = &*text
            && bound < words.len()
        {
            let bytes: Arc<[u8]> = words.as_bytes().into();
            let stored = Text::Stored { blob: content_hash(&bytes), bytes: bytes.len() as u64 };
            if let Text::Stored { blob, .. } = &stored {
                blobs.push((blob.clone(), bytes));
            }
            *text = stored;
        }
    }
    (event, blobs)
}

/// Puts the words back into records read from a log. A blob that is missing stays a reference; `context` says so.
pub async fn restore(log: &dyn Log, records: &mut [Record]) -> Result<(), ReadError> {
    let mut known: HashMap<Hash, String> = HashMap::new();
    for record in records {
        for text in record.event.texts_mut() {
            let Text::Stored { blob, .. } = &*text else { continue };
            if !known.contains_key(blob) {
                match log.blob(blob).await {
                    Ok(bytes) => known.insert(blob.clone(), String::from_utf8_lossy(&bytes).into_owned()),
                    Err(ReadError::Missing) => continue,
                    Err(error) => return Err(error),
                };
            }
            if let Some(words) = known.get(blob) {
                *text = Text::Inline(words.clone());
            }
        }
    }
    Ok(())
}
