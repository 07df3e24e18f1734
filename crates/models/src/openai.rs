//! The client for OpenAI's Chat Completions and everything that speaks like it.
//!
//! Bytes are made in `encode.rs`, streams are read in `fold.rs`; this file only sends. Quirks of servers are tolerated
//! in the fold, never configured.

mod encode;
mod fold;

use std::sync::Arc;

pub(crate) use fold::State;
use posse_session::{BoxFuture, Head, Live, Message, Model, ModelError, ModelFacts, Reply, Request};

use crate::{http::Endpoint, unseen::visible_to};

pub(crate) struct OpenAi {
    facts: ModelFacts,
    /// The model's name on the wire.
    model: String,
    endpoint: Endpoint,
    /// How this server calls the output limit.
    limit_key: &'static str,
}

impl OpenAi {
    pub(crate) fn new(facts: ModelFacts, model: &str, endpoint: Endpoint) -> Self {
        // OpenAI's newer models refuse the old name; most others know only that one.
        let limit_key = if endpoint.host() == Some("api.openai.com") { "max_completion_tokens" } else { "max_tokens" };
        Self { facts, model: model.to_owned(), endpoint, limit_key }
    }
}

impl Model for OpenAi {
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
        Box::pin(async move {
            let body = encode::body(&request, self.limit_key);
            let answer = self.endpoint.exchange(body, request.idle_max, State::default(), live).await;
            crate::provider::priced(answer, &self.facts)
        })
    }
}

#[cfg(test)]
mod tests;
