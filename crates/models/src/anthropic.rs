//! The Anthropic Messages client.
//!
//! Bytes are made in `encode.rs`, streams are read in `fold.rs`; this file only sends, and remembers which cache markers
//! the endpoint accepts. Whether a failure is tried again is not decided here.

mod encode;
mod fold;

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use encode::Caching;
pub(crate) use fold::State;
use posse_session::{BoxFuture, Head, Live, Message, Model, ModelError, ModelFacts, ModelFailure, Reply, Request};

use crate::{http::Endpoint, unseen::visible_to};

/// Whose blocks the opaque ones are, whatever the user calls the provider.
pub(crate) const PROVIDER: &str = "anthropic";

pub(crate) struct Anthropic {
    facts: ModelFacts,
    /// The model's name on the wire.
    model: String,
    endpoint: Endpoint,
    /// A `Caching` as a number; only grows.
    caching: AtomicU8,
}

impl Anthropic {
    pub(crate) fn new(facts: ModelFacts, model: &str, endpoint: Endpoint) -> Self {
        Self { facts, model: model.to_owned(), endpoint, caching: AtomicU8::new(Caching::Automatic as u8) }
    }

    fn caching(&self) -> Caching {
        match self.caching.load(Ordering::Relaxed) {
            0 => Caching::Automatic,
            1 => Caching::Spliced,
            _ => Caching::Off,
        }
    }

    async fn send(&self, request: Request, live: &dyn Live) -> Result<Reply, ModelError> {
        loop {
            let caching = self.caching();
            let answer = self.endpoint.exchange(encode::body(&request, caching), request.idle_max, State::default(), live).await;
            match answer {
                // Ends, because every refusal takes a step towards `Off`.
                Err(error) if caching < Caching::Off && refuses_markers(&error) => {
                    tracing::debug!(provider = self.facts.provider, ?caching, "the endpoint refuses these cache markers");
                    self.caching.fetch_max(caching as u8 + 1, Ordering::Relaxed);
                }
                answer => return crate::provider::priced(answer, &self.facts),
            }
        }
    }
}

fn refuses_markers(error: &ModelError) -> bool {
    error.failure == ModelFailure::BadRequest && error.words.contains("cache_control")
}

impl Model for Anthropic {
    fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    fn encode_head(&self, head: &Head) -> Arc<[u8]> {
        encode::head(&self.model, head).into()
    }

    fn encode(&self, message: &Message) -> Arc<[u8]> {
        encode::message(&visible_to(&self.facts, message)).into()
    }

    fn reply<'a>(&'a self, request: Request, live: &'a dyn Live) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(self.send(request, live))
    }
}

#[cfg(test)]
mod tests;
