//! The client for OpenAI's Chat Completions and everything that speaks like it.
//!
//! Bytes are made in `encode.rs`, streams are read in `fold.rs`; this file sends, and remembers what the server refused.
//! Quirks of servers are never configured: what must be known before the first request is in `dialect.rs`, what answers do
//! differently is tolerated in the fold, and the rest is found out here. Whether a failure is tried again is not decided here.

mod dialect;
mod encode;
mod fold;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use dialect::Dialect;
use encode::Manner;
pub(crate) use fold::State;
use posse_session::{
    BoxFuture, Finish, Head, Live, Message, Model, ModelError, ModelFacts, ModelFailure, Reply, ReplyPart, Request, ToolChoice,
};

use crate::{
    body::{has_tools, head_has},
    http::Endpoint,
    unseen::visible_to,
};

/// A document is silent until it is whole, and a small machine thinks for minutes. The step's own deadline still counts.
const DOCUMENT_WAIT_MIN: Duration = Duration::from_secs(10 * 60);

/// What a server refused, as bits; only grows.
const NO_STREAM_OPTIONS: u8 = 1;
const NO_ANSWER_FORMAT: u8 = 2;
const OTHER_LIMIT: u8 = 4;

pub(crate) struct OpenAi {
    facts: ModelFacts,
    dialect: Dialect,
    endpoint: Endpoint,
    refused: AtomicU8,
}

impl OpenAi {
    pub(crate) fn new(facts: ModelFacts, model: &str, endpoint: Endpoint) -> Self {
        let dialect = Dialect::of(&facts.provider, endpoint.host(), model);
        Self { facts, dialect, endpoint, refused: AtomicU8::new(0) }
    }

    fn manner(&self, refused: u8) -> Manner {
        let limit = self.dialect.limit;
        Manner {
            whole: false,
            without_stream_options: refused & NO_STREAM_OPTIONS != 0,
            without_answer_format: refused & NO_ANSWER_FORMAT != 0,
            limit: if refused & OTHER_LIMIT != 0 { limit.other() } else { limit },
        }
    }

    async fn send(&self, request: Request, live: &dyn Live) -> Result<Reply, ModelError> {
        let mut known = self.refused.load(Ordering::Relaxed);
        loop {
            let manner = self.manner(known);
            match self.exchange(&request, manner, request.idle_max, live).await {
                Err(error) => match refused(&error, &request, manner, known) {
                    // Ends, because no refusal is heard twice.
                    Some(what) => {
                        tracing::debug!(provider = self.facts.provider, what, "the server refuses a field; going on without");
                        known |= what;
                    }
                    None => return Err(error),
                },
                Ok(reply) => {
                    // Believed only once it was the cure: a tool has a schema too.
                    self.refused.fetch_or(known, Ordering::Relaxed);
                    let is_lost = self.may_have_lost_calls(&request, &reply);
                    return if is_lost { self.repeat_whole(&request, reply, live).await } else { Ok(reply) };
                }
            }
        }
    }

    async fn exchange(&self, request: &Request, manner: Manner, idle_max: Duration, live: &dyn Live) -> Result<Reply, ModelError> {
        let body = encode::body(request, manner);
        self.endpoint.exchange(body, idle_max, State::of(&self.dialect), live).await
    }

    /// Some releases of local servers lose calls while they stream: the answer ends well and holds nothing.
    fn may_have_lost_calls(&self, request: &Request, reply: &Reply) -> bool {
        let is_empty = !reply.parts.iter().any(|part| match part {
            ReplyPart::Text(text) => !text.trim().is_empty(),
            ReplyPart::Call { .. } => true,
            ReplyPart::Reasoning { .. } | ReplyPart::Opaque { .. } => false,
        });
        let may_call = request.tool_choice == ToolChoice::Auto && has_tools(&request.head);
        !self.dialect.is_service && is_empty && may_call && reply.finish == Finish::Stop
    }

    /// Asks once more for the whole answer as a document. What both cost is counted.
    async fn repeat_whole(&self, request: &Request, lost: Reply, live: &dyn Live) -> Result<Reply, ModelError> {
        tracing::debug!(provider = self.facts.provider, "a streamed answer was empty; asking for it as a document");
        let manner = Manner { whole: true, ..self.manner(self.refused.load(Ordering::Relaxed)) };
        let mut answer = self.exchange(request, manner, request.idle_max.max(DOCUMENT_WAIT_MIN), live).await;
        match &mut answer {
            Ok(reply) => reply.usage += lost.usage,
            Err(error) => error.usage += lost.usage,
        }
        answer
    }
}

/// Which part of the request the server refuses, that it could do without; none if this request did without already.
fn refused(error: &ModelError, request: &Request, manner: Manner, known: u8) -> Option<u8> {
    let words = error.words.to_ascii_lowercase();
    let mentions = |names: &[&str]| names.iter().any(|name| words.contains(name));
    let is_bad = error.failure == ModelFailure::BadRequest && error.partial.is_empty();
    // A server that constrains words by a grammar may break over one that it cannot build.
    let breaks_over_grammar = error.failure == ModelFailure::Server && mentions(&["grammar"]);
    let is_unknown = mentions(&["unsupported", "not support", "not permitted", "unknown", "unrecognized", "unexpected", "instead"]);
    let what = if is_bad && mentions(&["stream_options", "include_usage"]) {
        NO_STREAM_OPTIONS
    } else if is_bad && is_unknown && words.contains(manner.limit.key()) {
        OTHER_LIMIT
    } else if has_answer_format(&request.head) && ((is_bad && mentions(ANSWER_WORDS)) || breaks_over_grammar) {
        NO_ANSWER_FORMAT
    } else {
        return None;
    };
    (known & what == 0).then_some(what)
}

/// How servers name the schema of an answer, or what they cannot combine with it.
const ANSWER_WORDS: &[&str] =
    &["response_format", "response format", "json_schema", "json schema", "json mode", "structured output", "guided", "grammar", "schema"];

/// Whether a head asks for an answer by a schema. A tool's parameter of that name would only cost one request more.
fn has_answer_format(head: &[u8]) -> bool {
    head_has(head, br#","response_format":{"#)
}

impl Model for OpenAi {
    fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    fn encode_head(&self, head: &Head) -> Arc<[u8]> {
        encode::head(head, &self.dialect).into()
    }

    fn encode(&self, message: &Message) -> Arc<[u8]> {
        encode::message(&visible_to(&self.facts, message), &self.dialect).into()
    }

    fn reply<'a>(&'a self, request: Request, live: &'a dyn Live) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move { crate::provider::priced(self.send(request, live).await, &self.facts) })
    }
}

#[cfg(test)]
mod tests;
