//! The client for Google's own protocol, `streamGenerateContent`.
//!
//! Bytes are made in `encode.rs`, streams are read in `fold.rs`, calls that come in pieces are put together in
//! `pieces.rs`; this file only sends. The model's name is in the address and the key in a header, never in the address.

mod encode;
mod fold;
mod pieces;

use std::sync::Arc;

pub(crate) use fold::State;
use posse_session::{BoxFuture, Head, Live, Message, Model, ModelError, ModelFacts, Reply, Request};

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
            let fold = State::of(&self.voice.owner);
            let answer = self.endpoint.exchange(encode::body(&request), request.idle_max, fold, live).await;
            crate::provider::priced(answer, &self.facts)
        })
    }
}

#[cfg(test)]
mod tests;
