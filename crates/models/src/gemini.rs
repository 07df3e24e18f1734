//! The client for Google's own protocol, `streamGenerateContent`.
//!
//! Bytes are made in `encode.rs`, streams are read in `fold.rs`, calls that come in pieces are put together in
//! `pieces.rs`; this file only sends, and leaves signatures out that the server cannot read any more. The model's name is in the address and the key in a header, never in the address.

mod encode;
mod fold;
mod pieces;

use std::sync::Arc;

pub(crate) use fold::State;
use posse_session::{BoxFuture, Head, Live, Message, Model, ModelError, ModelFacts, ModelFailure, Reply, Request};

use crate::{http::Endpoint, unseen::visible_to};

pub(crate) struct Gemini {
    facts: ModelFacts,
    endpoint: Endpoint,
    /// How messages are put for this model.
    voice: encode::Voice,
}

impl Gemini {
    pub(crate) fn new(facts: ModelFacts, model: &str, endpoint: Endpoint) -> Self {
        let voice = encode::Voice::new(&facts.provider, model);
        Self { facts, endpoint, voice }
    }
}

/// "Thought signature is not valid": another project's key is in use now, or another model answers under the name. The
/// session would fail for ever, so it goes on without. Not remembered: what comes from now on can be read.
fn refuses_signatures(error: &ModelError) -> bool {
    let words = error.words.to_ascii_lowercase().replace(['_', ' ', '-'], "");
    error.failure == ModelFailure::BadRequest && words.contains("thoughtsignature") && !words.contains("missing")
}

impl Model for Gemini {
    fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    fn encode_head(&self, head: &Head) -> Arc<[u8]> {
        encode::head(head).into()
    }

    fn encode(&self, message: &Message) -> Arc<[u8]> {
        self.voice.message(&visible_to(&self.facts, message)).into()
    }

    fn reply<'a>(&'a self, request: Request, live: &'a dyn Live) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            let exchange = |body| self.endpoint.exchange(body, request.idle_max, State::of(&self.voice.owner), live);
            let mut answer = exchange(encode::body(&request)).await;
            if answer.as_ref().is_err_and(refuses_signatures) {
                tracing::debug!(provider = self.facts.provider, "the signatures of before cannot be read any more; sent without them");
                answer = exchange(self.voice.body_unsigned(&request)).await;
            }
            crate::provider::priced(answer, &self.facts)
        })
    }
}

#[cfg(test)]
mod tests;
