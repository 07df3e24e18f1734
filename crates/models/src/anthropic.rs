//! The Anthropic Messages client.
//!
//! Bytes are made in `encode.rs`, streams are read in `fold.rs`; this file only sends, and remembers which cache markers
//! the endpoint accepts and whether it takes a schema for the answer. Sealed thinking that the endpoint cannot read any
//! more is left out. Whether a failure is tried again is not decided here.

mod encode;
mod fold;

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU8, Ordering},
};

use encode::{Caching, Manner, Replay, has_answer_format};
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
    /// The model or the endpoint knows no schema for an answer. The answer is checked anyway.
    refuses_answer_format: AtomicBool,
}

impl Anthropic {
    pub(crate) fn new(facts: ModelFacts, model: &str, endpoint: Endpoint) -> Self {
        let caching = AtomicU8::new(Caching::Automatic as u8);
        Self { facts, model: model.to_owned(), endpoint, caching, refuses_answer_format: AtomicBool::new(false) }
    }

    fn caching(&self) -> Caching {
        match self.caching.load(Ordering::Relaxed) {
            0 => Caching::Automatic,
            1 => Caching::Spliced,
            _ => Caching::Off,
        }
    }

    async fn send(&self, request: Request, live: &dyn Live) -> Result<Reply, ModelError> {
        let has_format = has_answer_format(&request.head);
        let mut drops_format = has_format && self.refuses_answer_format.load(Ordering::Relaxed);
        let mut replay = Replay::Sealed;
        loop {
            let caching = self.caching();
            let body = encode::body(&request, Manner { caching, drops_format, replay });
            let answer = self.endpoint.exchange(body, request.idle_max, State::default(), live).await;
            match answer {
                // Ends, because each of these is given up at most once.
                Err(error) if replay == Replay::Sealed && refuses_replay(&error) => {
                    tracing::debug!(provider = self.facts.provider, "the thinking of before cannot be read any more; sent without it");
                    replay = Replay::Open;
                }
                Err(error) if replay == Replay::Open && misses_thinking(&error) => {
                    tracing::debug!(provider = self.facts.provider, "a turn that thinks must have begun so; asked without thinking");
                    replay = Replay::Unthinking;
                }
                Err(error) if has_format && !drops_format && refuses_format(&error) => {
                    tracing::debug!(provider = self.facts.provider, "the endpoint takes no schema for an answer; going on without");
                    drops_format = true;
                }
                // Ends, because every refusal takes a step towards `Off`.
                Err(error) if caching < Caching::Off && refuses_markers(&error) => {
                    tracing::debug!(provider = self.facts.provider, ?caching, "the endpoint refuses these cache markers");
                    self.caching.fetch_max(caching as u8 + 1, Ordering::Relaxed);
                }
                answer => {
                    // Believed only once it was the cure: a tool has a schema too.
                    self.refuses_answer_format.fetch_or(drops_format && answer.is_ok(), Ordering::Relaxed);
                    return crate::provider::priced(answer, &self.facts);
                }
            }
        }
    }
}

/// The provider cannot read what it signed: the session was with another account, or somebody signed it who is not the
/// provider. It would fail for ever, so it goes on without that thinking. Not remembered: what comes from now on can be read.
fn refuses_replay(error: &ModelError) -> bool {
    let words = error.words.to_ascii_lowercase();
    let is_about_seal = words.contains("signature") || (words.contains("redacted_thinking") && words.contains("invalid"));
    error.failure == ModelFailure::BadRequest && words.contains("thinking") && is_about_seal
}

/// "Expected `thinking` or `redacted_thinking`, but found `tool_use`": said to a turn that goes on after its calls.
fn misses_thinking(error: &ModelError) -> bool {
    let words = error.words.to_ascii_lowercase();
    error.failure == ModelFailure::BadRequest && words.contains("expected `thinking`")
}

fn refuses_markers(error: &ModelError) -> bool {
    error.failure == ModelFailure::BadRequest && error.words.contains("cache_control")
}

fn refuses_format(error: &ModelError) -> bool {
    let words = error.words.to_ascii_lowercase();
    let named = ["output_config", "output_format", "output format", "structured output", "json_schema", "schema"];
    error.failure == ModelFailure::BadRequest && named.iter().any(|name| words.contains(name))
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
