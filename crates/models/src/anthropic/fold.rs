//! Folding an Anthropic Messages stream into a reply.
//!
//! Pure: no IO, no clock. Only `message_stop` makes a reply; an error event ends the stream at once. Blocks that are
//! not ours to understand are kept whole, to be sent back as they came.

use posse_session::{Finish, ModelError, ModelFailure, Progress, Reply, ReplyPart, Usage};
use serde_json::{Map, Value, json};

use super::PROVIDER;
use crate::{
    failure,
    fold::{
        CUT_WORDS, Fold, PART_BYTES, Phase, REPLY_BYTES_MAX, broken, count, declined, is_object, text, too_large, unfinished, value_of,
        weight, with_partial,
    },
    sse::Event,
};

#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    /// In the order they began, each with the index the server gave it.
    blocks: Vec<(u64, Building)>,
    usage: Usage,
    stop_reason: Option<String>,
    /// Why the model declined, in the provider's words.
    explanation: Option<String>,
    stopped: bool,
    /// Bytes of all blocks.
    held: usize,
    failure: Option<ModelError>,
}

#[derive(Debug, Clone)]
struct Building {
    kind: Kind,
    closed: bool,
}

#[derive(Debug, Clone)]
enum Kind {
    Text(String),
    Thinking {
        text: String,
        signature: String,
    },
    Call {
        id: String,
        tool: String,
        input: String,
    },
    /// A block of a type we do not read. `input` collects its JSON, if it has any.
    Foreign {
        raw: Map<String, Value>,
        input: String,
    },
}

impl Fold for State {
    fn push(&mut self, event: &Event, show: &mut dyn FnMut(Progress)) {
        if self.phase() == Phase::Over {
            return;
        }
        let value = match value_of(event) {
            Ok(value) => value,
            Err(failure) => return self.failure = Some(failure),
        };
        match text(&value, "type").unwrap_or(&event.name) {
            "message_start" => self.begin(&value),
            "message" => self.take_whole(&value, show),
            "content_block_start" => {
                self.held += PART_BYTES + weight(&value["content_block"]);
                self.begin_block(&value, show);
            }
            "content_block_delta" => {
                self.extend_block(&value, show);
            }
            "content_block_stop" => {
                if let Some(block) = self.block(index_of(&value)) {
                    block.closed = true;
                }
            }
            "message_delta" => self.revise(&value),
            "message_stop" => self.stopped = true,
            "ping" => show(Progress::Alive),
            // A relay may say it in OpenAI's words, without a type.
            name if name == "error" || failure::is_error(&value) => self.failure = Some(failure::in_stream(&value)),
            unknown => tracing::debug!(event = unknown, "skipped an unknown stream event"),
        }
        if REPLY_BYTES_MAX < self.held && self.failure.is_none() {
            self.failure = Some(too_large());
        }
    }

    fn phase(&self) -> Phase {
        Phase::of(self.stopped || self.failure.is_some(), false)
    }

    fn finish(mut self) -> Result<Reply, ModelError> {
        if let Some(failure) = self.failure.take() {
            return Err(with_partial(&self, failure));
        }
        if !self.stopped {
            return Err(broken(&self, ModelFailure::Cut, CUT_WORDS));
        }
        let finish = finish_of(self.stop_reason.as_deref());
        if finish == Finish::Length {
            self.mark_unfinished_call();
        } else if self.blocks.iter().any(|(_, block)| !block.closed && matches!(block.kind, Kind::Call { .. })) {
            return Err(broken(&self, ModelFailure::Malformed, "the answer ended in the middle of a call"));
        }
        if finish == Finish::Refusal && self.partial().0.trim().is_empty() {
            return Err(declined(&self, self.explanation.as_deref().unwrap_or("refusal")));
        }
        Ok(self.into_reply(finish))
    }

    fn counted(&self) -> Usage {
        self.usage
    }

    fn partial(&self) -> (String, Usage) {
        let texts = self.blocks.iter().filter_map(|(_, block)| match &block.kind {
            Kind::Text(text) => Some(text.as_str()),
            _ => None,
        });
        (texts.collect(), self.usage)
    }
}

impl State {
    /// A second start replaces the first: a relay that lost its upstream began again.
    fn begin(&mut self, value: &Value) {
        self.blocks.clear();
        self.held = 0;
        self.stop_reason = None;
        self.usage = Usage::default();
        self.count(&value["message"]["usage"]);
    }

    /// The message itself: some gateways answer with one document, asked for a stream or not.
    fn take_whole(&mut self, message: &Value, show: &mut dyn FnMut(Progress)) {
        self.begin(&json!({ "message": { "usage": message["usage"] } }));
        for (index, block) in message["content"].as_array().into_iter().flatten().enumerate() {
            self.held += PART_BYTES + weight(block);
            self.begin_block(&json!({ "index": index, "content_block": block }), show);
        }
        self.blocks.iter_mut().for_each(|(_, block)| block.closed = true);
        self.revise(&json!({ "delta": { "stop_reason": message["stop_reason"], "stop_details": message["stop_details"] } }));
        self.stopped = true;
    }

    /// Counts are cumulative and may be revised, so the last one said is the truth.
    fn count(&mut self, usage: &Value) {
        let set = |slot: &mut u64, key| *slot = count(usage, key).unwrap_or(*slot);
        set(&mut self.usage.input, "input_tokens");
        set(&mut self.usage.output, "output_tokens");
        set(&mut self.usage.cache_read, "cache_read_input_tokens");
        set(&mut self.usage.cache_write, "cache_creation_input_tokens");
    }

    fn revise(&mut self, value: &Value) {
        self.count(&value["usage"]);
        let delta = &value["delta"];
        if let Some(reason) = text(delta, "stop_reason") {
            self.stop_reason = Some(reason.to_owned());
        }
        if let Some(explanation) = text(&delta["stop_details"], "explanation") {
            self.explanation = Some(explanation.to_owned());
        }
    }

    fn begin_block(&mut self, value: &Value, show: &mut dyn FnMut(Progress)) {
        let Some(block) = value["content_block"].as_object() else { return };
        let field = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let kind = match block.get("type").and_then(Value::as_str) {
            Some("text") => Kind::Text(field("text")),
            Some("thinking") => Kind::Thinking { text: field("thinking"), signature: field("signature") },
            Some("tool_use") => {
                show(Progress::CallNamed { tool: field("name") });
                // A whole input may stand here already; an empty one only announces the deltas.
                let input = block.get("input").filter(|input| input.as_object().is_some_and(|input| !input.is_empty()));
                Kind::Call { id: field("id"), tool: field("name"), input: input.map(Value::to_string).unwrap_or_default() }
            }
            _ => Kind::Foreign { raw: block.clone(), input: String::new() },
        };
        if let Kind::Text(text) = &kind
            && !text.is_empty()
        {
            show(Progress::Text(text.clone()));
        }
        self.blocks.push((index_of(value), Building { kind, closed: false }));
    }

    fn extend_block(&mut self, value: &Value, show: &mut dyn FnMut(Progress)) {
        let delta = &value["delta"];
        let index = index_of(value);
        if self.block(index).is_none() && delta["type"] == "text_delta" {
            // Some relays leave the start out. Text is harmless; anything else without a start is dropped.
            self.blocks.push((index, Building { kind: Kind::Text(String::new()), closed: false }));
            self.held += PART_BYTES;
        }
        let Some(block) = self.block(index) else { return };
        let piece = |key| text(delta, key).unwrap_or_default();
        let kept = match (&mut block.kind, delta["type"].as_str().unwrap_or_default()) {
            (Kind::Text(text), "text_delta") => {
                text.push_str(piece("text"));
                show(Progress::Text(piece("text").to_owned()));
                piece("text").len()
            }
            (Kind::Thinking { text, .. }, "thinking_delta") => {
                text.push_str(piece("thinking"));
                show(Progress::Reasoning(piece("thinking").to_owned()));
                piece("thinking").len()
            }
            (Kind::Thinking { signature, .. }, "signature_delta") => {
                signature.push_str(piece("signature"));
                piece("signature").len()
            }
            (Kind::Call { input, .. } | Kind::Foreign { input, .. }, "input_json_delta") => {
                input.push_str(piece("partial_json"));
                show(Progress::CallInput { bytes: piece("partial_json").len() as u64 });
                piece("partial_json").len()
            }
            (Kind::Foreign { raw, .. }, _) => {
                merge(raw, delta);
                weight(delta)
            }
            // Citations, and whatever comes next.
            _ => {
                show(Progress::Alive);
                0
            }
        };
        self.held += kept;
    }

    /// The newest block with this index.
    fn block(&mut self, index: u64) -> Option<&mut Building> {
        self.blocks.iter_mut().rev().find(|(at, _)| *at == index).map(|(_, block)| block)
    }

    /// The output limit cuts the last block. Servers close it all the same, so its text decides. What was cut stays a
    /// call, that nobody can run, so that the model hears of it; without a name there is nothing to tell it of.
    fn mark_unfinished_call(&mut self) {
        self.blocks.retain(|(_, block)| block.closed || !matches!(&block.kind, Kind::Call { tool, .. } if tool.is_empty()));
        let last = self.blocks.len().saturating_sub(1);
        for (nth, (_, block)) in self.blocks.iter_mut().enumerate() {
            if let Kind::Call { input, .. } = &mut block.kind
                && (!block.closed || (nth == last && !is_object(input)))
            {
                *input = unfinished(input);
            }
        }
    }

    fn into_reply(self, finish: Finish) -> Reply {
        let mut parts: Vec<ReplyPart> = self.blocks.into_iter().filter_map(|(_, block)| part_of(block)).collect();
        if finish == Finish::Refusal {
            // What was declined is not done by half.
            parts.retain(|part| !matches!(part, ReplyPart::Call { .. }));
        }
        let has_calls = parts.iter().any(|part| matches!(part, ReplyPart::Call { .. }));
        let finish = match finish {
            Finish::Stop if has_calls => Finish::Calls,
            Finish::Calls if !has_calls => Finish::Stop,
            other => other,
        };
        Reply { parts, usage: self.usage, finish }
    }
}

fn part_of(block: Building) -> Option<ReplyPart> {
    match block.kind {
        Kind::Text(text) => (!text.is_empty()).then_some(ReplyPart::Text(text)),
        Kind::Thinking { text, signature } => {
            // A signature that may lack its end is worth nothing.
            let signature = Some(signature).filter(|signature| block.closed && !signature.is_empty());
            (!text.is_empty() || signature.is_some()).then_some(ReplyPart::Reasoning { text, signature })
        }
        Kind::Call { id, tool, input } => Some(ReplyPart::Call { id, tool, input: if input.is_empty() { "{}".to_owned() } else { input } }),
        Kind::Foreign { .. } if !block.closed => None,
        Kind::Foreign { mut raw, input } => {
            if let Ok(input) = serde_json::from_str::<Value>(&input) {
                raw.insert("input".to_owned(), input);
            }
            Some(ReplyPart::Opaque { provider: PROVIDER.to_owned(), raw: Value::Object(raw) })
        }
    }
}

/// Adds an unknown delta to an unknown block: texts grow, everything else is replaced.
fn merge(raw: &mut Map<String, Value>, delta: &Value) {
    for (key, value) in delta.as_object().into_iter().flatten().filter(|(key, _)| *key != "type") {
        match (raw.get_mut(key), value) {
            (Some(Value::String(old)), Value::String(more)) => old.push_str(more),
            _ => drop(raw.insert(key.clone(), value.clone())),
        }
    }
}

fn index_of(value: &Value) -> u64 {
    count(value, "index").unwrap_or_default()
}

fn finish_of(stop_reason: Option<&str>) -> Finish {
    match stop_reason {
        Some("end_turn" | "stop_sequence") | None => Finish::Stop,
        Some("tool_use") => Finish::Calls,
        Some("max_tokens" | "model_context_window_exceeded") => Finish::Length,
        Some("refusal") => Finish::Refusal,
        Some(_) => Finish::Other,
    }
}
