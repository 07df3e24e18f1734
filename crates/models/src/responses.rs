//! The client for OpenAI's Responses and the servers that speak like it.
//!
//! Bytes are made in `encode.rs`, streams are read in `fold.rs`; this file only sends. Nothing is kept at the provider:
//! every request holds the whole conversation, and the model's thinking goes back encrypted, as it came. What a server
//! does not want of that is left out once it has said so.

mod encode;
mod fold;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use encode::Manner;
pub(crate) use fold::State;
use posse_session::{BoxFuture, Head, Live, Message, Model, ModelError, ModelFacts, ModelFailure, Reply, Request};

use crate::{http::Endpoint, unseen::visible_to};

pub(crate) struct Responses {
    facts: ModelFacts,
    /// The model's name on the wire.
    model: String,
    endpoint: Endpoint,
    /// Whose items the opaque ones are.
    owner: String,
    /// Set when this model refuses to be asked for encrypted thinking: it does none.
    thinks_openly: AtomicBool,
}

impl Responses {
    pub(crate) fn new(facts: ModelFacts, model: &str, endpoint: Endpoint) -> Self {
        let owner = encode::owner(&facts.provider);
        Self { facts, model: model.to_owned(), endpoint, owner, thinks_openly: AtomicBool::new(false) }
    }

    async fn send(&self, request: Request, live: &dyn Live) -> Result<Reply, ModelError> {
        let mut asks_for_thinking = !self.thinks_openly.load(Ordering::Relaxed);
        let mut replays_thinking = true;
        loop {
            let manner = Manner {
                asks_for_thinking,
                replays_thinking,
                // Others may refuse a field they do not know.
                names_cache: self.endpoint.host() == Some("api.openai.com"),
            };
            let fold = State::of(&self.owner);
            let answer = self.endpoint.exchange(encode::body(&request, manner), request.idle_max, fold, live).await;
            match answer {
                // Both end, because a manner is given up at most once.
                Err(error) if manner.replays_thinking && refuses_replay(&error) => {
                    tracing::debug!(provider = self.facts.provider, "the thinking of before is of another key; sent without it");
                    replays_thinking = false;
                }
                Err(error) if manner.asks_for_thinking && refuses_include(&error) => {
                    tracing::debug!(provider = self.facts.provider, "this model has no encrypted thinking");
                    asks_for_thinking = false;
                }
                answer => {
                    // Believed only once it was the cure.
                    self.thinks_openly.fetch_or(answer.is_ok() && !asks_for_thinking, Ordering::Relaxed);
                    return crate::provider::priced(answer, &self.facts);
                }
            }
        }
    }
}

/// The provider cannot read what it encrypted: another account's key is in use now, or another region answers. The
/// session would fail for ever, so it goes on without that thinking. Not remembered: what comes from now on can be read.
fn refuses_replay(error: &ModelError) -> bool {
    let words = error.words.to_ascii_lowercase();
    error.failure == ModelFailure::BadRequest
        && words.contains("encrypted content")
        && ["verif", "decrypt", "pars"].iter().any(|word| words.contains(word))
}

/// "Encrypted content is not supported with this model", or a server that does not know the field.
fn refuses_include(error: &ModelError) -> bool {
    let words = error.words.to_ascii_lowercase();
    let names = ["encrypted content", "encrypted_content", "'include'", "\"include\"", "`include`", "include:"];
    error.failure == ModelFailure::BadRequest && names.iter().any(|name| words.contains(name))
}

impl Model for Responses {
    fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    fn encode_head(&self, head: &Head) -> Arc<[u8]> {
        encode::head(&self.model, head).into()
    }

    fn encode(&self, message: &Message) -> Arc<[u8]> {
        encode::message(&self.owner, &visible_to(&self.facts, message)).into()
    }

    fn reply<'a>(&'a self, request: Request, live: &'a dyn Live) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(self.send(request, live))
    }
}

#[cfg(test)]
mod tests;
