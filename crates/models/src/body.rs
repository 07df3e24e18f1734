//! What the bodies of all protocols have in common: head | messages | tail, as bytes.
//!
//! A head is bytes that were made once, so what is in it is found by looking for its key. Which key and which tail, the
//! `encode.rs` of each protocol knows.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// Servers refuse an empty message, and a transcript must keep its turns.
pub(crate) const NO_TEXT: &str = "(no text)";

/// What a tool without output said; some servers refuse an empty result.
pub(crate) const NO_OUTPUT: &str = "(no output)";

/// Whether a head has a field that begins so. Inside a JSON string the quotes would be escaped, so a text never looks
/// like this; a field of the same name further inside does.
pub(crate) fn head_has(head: &[u8], key: &[u8]) -> bool {
    head.windows(key.len()).any(|window| window == key)
}

/// Whether a head offers tools.
pub(crate) fn has_tools(head: &[u8]) -> bool {
    head_has(head, br#","tools":["#)
}

/// Smaller pieces are copied: sharing them would cost more than it saves.
const SHARED_BYTES_MIN: usize = 1024;

/// A whole body as it is sent: the pieces of the conversation are those that its sessions hold, and are not copied. A
/// hundred forks that are sent at once take no more than one.
#[derive(Debug, Default)]
pub(crate) struct Body {
    pieces: VecDeque<Bytes>,
    /// Copied, and not a piece yet.
    copied: Vec<u8>,
    bytes: u64,
}

impl Body {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.copied.extend_from_slice(bytes);
    }

    pub(crate) fn share(&mut self, bytes: &Arc<[u8]>) {
        if bytes.len() < SHARED_BYTES_MIN {
            return self.push(bytes);
        }
        self.seal();
        self.bytes += bytes.len() as u64;
        self.pieces.push_back(Bytes::from_owner(bytes.clone()));
    }

    /// The messages, with commas between them. `changed` gives what is sent in place of one.
    pub(crate) fn share_joined<'a>(&mut self, messages: &'a [Arc<[u8]>], changed: impl Fn(usize, &'a Arc<[u8]>) -> Option<Vec<u8>>) {
        for (nth, message) in messages.iter().enumerate() {
            if 0 < nth {
                self.push(b",");
            }
            match changed(nth, message) {
                Some(changed) => self.push(&changed),
                None => self.share(message),
            }
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.bytes
    }

    fn seal(&mut self) {
        if !self.copied.is_empty() {
            self.pieces.push_back(std::mem::take(&mut self.copied).into());
        }
    }

    #[cfg(test)]
    pub(crate) fn concat(mut self) -> Vec<u8> {
        self.seal();
        self.pieces.iter().flat_map(|piece| piece.iter().copied()).collect()
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.seal();
        let piece = self.pieces.pop_front();
        self.bytes -= piece.as_ref().map_or(0, |piece| piece.len() as u64);
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes)
    }
}
