//! Folding a Responses stream into a reply.
//!
//! Pure: no IO, no clock. The reply is made of items that are done; deltas are only shown, and stand in where a server
//! leaves an item out. Thinking is kept whole and in its place, to be sent back as it came. Items of tools that nobody
//! here offered are skipped. Only `response.completed` or `response.incomplete` makes a reply.

use posse_session::{Finish, ModelError, ModelFailure, Progress, Reply, ReplyPart, Usage};
use serde_json::{Value, json};

use super::encode::is_replayable;
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
    /// Whose items the opaque ones are.
    owner: String,
    /// In the order they began.
    items: Vec<Building>,
    usage: Usage,
    finish: Option<Finish>,
    /// Bytes of everything that came to be kept.
    held: usize,
    failure: Option<ModelError>,
}

/// One item of the output, as far as it came.
#[derive(Debug, Clone, Default)]
struct Building {
    index: Option<u64>,
    /// What the server calls it.
    id: String,
    /// The item as it began, then as it was done.
    item: Value,
    is_done: bool,
    /// Of the deltas.
    text: String,
    arguments: String,
}

impl State {
    /// For a provider whose opaque items are marked so.
    pub(crate) fn of(owner: &str) -> Self {
        Self { owner: owner.to_owned(), ..Self::default() }
    }
}

impl Fold for State {
    fn push(&mut self, event: &Event, show: &mut dyn FnMut(Progress)) {
        if self.phase() == Phase::Over {
            return;
        }
        let data = event.data.trim();
        // Not of this protocol, but some relays end every stream so.
        if data.is_empty() || data == "[DONE]" {
            return show(Progress::Alive);
        }
        let value = match value_of(event) {
            Ok(value) => value,
            Err(failure) => return self.failure = Some(failure),
        };
        // Some gateways answer with one document, asked for a stream or not.
        if value["object"] == "response" && text(&value, "type").is_none() {
            return self.take_whole(&value, show);
        }
        match text(&value, "type").unwrap_or(&event.name) {
            // A second start replaces the first: a relay that lost its upstream began again.
            "response.created" => *self = Self::of(&self.owner),
            "response.output_item.added" => self.begin(&value, show),
            "response.output_item.done" => self.settle(&value, show),
            "response.output_text.delta" | "response.refusal.delta" => self.say(&value, show),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                show(Progress::Reasoning(text(&value, "delta").unwrap_or_default().to_owned()));
            }
            // The summary has one more paragraph.
            "response.reasoning_summary_part.added" if count(&value, "summary_index").is_some_and(|nth| 0 < nth) => {
                show(Progress::Reasoning("\n\n".to_owned()));
            }
            "response.function_call_arguments.delta" => {
                let piece = text(&value, "delta").unwrap_or_default();
                self.held += piece.len();
                show(Progress::CallInput { bytes: piece.len() as u64 });
                self.item(&value).arguments.push_str(piece);
            }
            "response.function_call_arguments.done" => {
                if let Some(whole) = text(&value, "arguments") {
                    self.held += whole.len();
                    self.item(&value).arguments = whole.to_owned();
                }
            }
            end @ ("response.completed" | "response.incomplete" | "response.failed" | "response.cancelled") => {
                self.end(end, &value["response"], show);
            }
            name if name == "error" || failure::is_error(&value) => self.failure = Some(failure::in_stream(&value)),
            // Starts and ends of parts, and the events of tools that the provider runs itself.
            _ => show(Progress::Alive),
        }
        if REPLY_BYTES_MAX < self.held && self.failure.is_none() {
            self.failure = Some(too_large());
        }
    }

    fn phase(&self) -> Phase {
        Phase::of(self.finish.is_some() || self.failure.is_some(), false)
    }

    fn finish(mut self) -> Result<Reply, ModelError> {
        if let Some(failure) = self.failure.take() {
            return Err(with_partial(&self, failure));
        }
        let Some(finish) = self.finish else { return Err(broken(&self, ModelFailure::Cut, CUT_WORDS)) };
        let is_cut = |item: &Building| item.is_call() && !item.is_whole_call(finish);
        match finish {
            // What was cut stays a call, that nobody can run, so that the model hears of it; it needs a name for that.
            Finish::Length | Finish::Other => {
                self.items.retain(|item| !is_cut(item) || text(&item.item, "name").is_some());
                for item in self.items.iter_mut().filter(|item| is_cut(item)) {
                    item.item["arguments"] = unfinished(item.arguments()).into();
                }
            }
            Finish::Refusal => self.items.retain(|item| !item.is_call()),
            Finish::Stop | Finish::Calls if self.items.iter().any(is_cut) => {
                return Err(broken(&self, ModelFailure::Malformed, "the answer ended in the middle of a call"));
            }
            Finish::Stop | Finish::Calls => {}
        }
        if finish == Finish::Refusal && self.partial().0.trim().is_empty() {
            return Err(declined(&self, "content_filter"));
        }
        Ok(self.into_reply(finish))
    }

    fn counted(&self) -> Usage {
        self.usage
    }

    fn partial(&self) -> (String, Usage) {
        (self.items.iter().map(Building::words).collect(), self.usage)
    }
}

impl State {
    fn take_whole(&mut self, response: &Value, show: &mut dyn FnMut(Progress)) {
        let status = text(response, "status").unwrap_or("completed");
        if ["completed", "incomplete", "failed", "cancelled"].contains(&status) {
            self.end(&format!("response.{status}"), response, show);
        }
    }

    fn begin(&mut self, value: &Value, show: &mut dyn FnMut(Progress)) {
        self.held += PART_BYTES + weight(&value["item"]);
        let item = self.item(value);
        item.item = value["item"].clone();
        if item.is_call() {
            show(Progress::CallNamed { tool: text(&value["item"], "name").unwrap_or_default().to_owned() });
        }
    }

    fn settle(&mut self, value: &Value, show: &mut dyn FnMut(Progress)) {
        self.held += weight(&value["item"]);
        let item = self.item(value);
        let was_silent = item.text.is_empty();
        item.item = value["item"].clone();
        item.is_done = true;
        let words = item.words();
        if was_silent && !words.is_empty() {
            show(Progress::Text(words));
        }
    }

    fn say(&mut self, value: &Value, show: &mut dyn FnMut(Progress)) {
        let Some(piece) = text(value, "delta") else { return };
        self.held += piece.len();
        self.item(value).text.push_str(piece);
        show(Progress::Text(piece.to_owned()));
    }

    /// The item that an event is about, begun if nobody said that it began.
    fn item(&mut self, value: &Value) -> &mut Building {
        let index = count(value, "output_index");
        let id = text(value, "item_id").or_else(|| text(&value["item"], "id")).unwrap_or_default();
        let at = self.items.iter().rposition(|item| match (index, item.index) {
            (Some(one), Some(other)) => one == other,
            _ => !id.is_empty() && item.id == id,
        });
        let at = at.unwrap_or_else(|| {
            self.held += PART_BYTES + id.len();
            self.items.push(Building { index, id: id.to_owned(), ..Building::default() });
            self.items.len() - 1
        });
        &mut self.items[at]
    }

    fn end(&mut self, event: &str, response: &Value, show: &mut dyn FnMut(Progress)) {
        self.count(&response["usage"]);
        if event == "response.failed" || event == "response.cancelled" {
            let error = &response["error"];
            self.failure = Some(match error.is_object() {
                true => failure::in_stream(&json!({ "error": error })),
                false => ModelError::new(ModelFailure::Cut, "the provider broke off without a word"),
            });
            return;
        }
        // A server that tells only of the end: the whole output is in there.
        if !self.items.iter().any(|item| item.is_done) {
            for (index, item) in response["output"].as_array().into_iter().flatten().enumerate() {
                self.settle(&json!({ "output_index": index, "item": item }), show);
            }
        }
        let reason = text(&response["incomplete_details"], "reason");
        self.finish = Some(match reason {
            None if event == "response.completed" => Finish::Stop,
            Some("max_output_tokens" | "max_tokens") => Finish::Length,
            Some("content_filter") => Finish::Refusal,
            Some(_) | None => Finish::Other,
        });
    }

    fn count(&mut self, usage: &Value) {
        let Some(input) = count(usage, "input_tokens") else { return };
        let details = &usage["input_tokens_details"];
        let cache_read = count(details, "cached_tokens").unwrap_or_default();
        let cache_write = count(details, "cache_write_tokens").unwrap_or_default();
        self.usage = Usage {
            input: input.saturating_sub(cache_read).saturating_sub(cache_write),
            output: count(usage, "output_tokens").unwrap_or_default(),
            cache_read,
            cache_write,
            ..Usage::default()
        };
    }

    fn into_reply(mut self, finish: Finish) -> Reply {
        // Items may be done out of their order; those without a number stay where they came.
        if self.items.iter().all(|item| item.index.is_some()) {
            self.items.sort_by_key(|item| item.index);
        }
        let is_refused = finish == Finish::Refusal || self.items.iter().any(Building::is_refusal);
        let mut parts = Vec::new();
        for (nth, item) in self.items.iter().enumerate() {
            item.add_to(&mut parts, nth, &self.owner);
        }
        if is_refused {
            // What was declined is not done by half.
            parts.retain(|part| !matches!(part, ReplyPart::Call { .. }));
        }
        let has_calls = parts.iter().any(|part| matches!(part, ReplyPart::Call { .. }));
        let finish = match finish {
            _ if is_refused => Finish::Refusal,
            Finish::Stop | Finish::Other if has_calls => Finish::Calls,
            other => other,
        };
        Reply { parts, usage: self.usage, finish }
    }
}

impl Building {
    fn is_call(&self) -> bool {
        self.item["type"] == "function_call"
    }

    /// A call that can be run. What the model wrote in whole counts even where it is no JSON: it is told so.
    fn is_whole_call(&self, finish: Finish) -> bool {
        match finish {
            Finish::Stop | Finish::Calls => self.is_done || is_object(self.arguments()),
            _ => self.item["status"] != "incomplete" && is_object(self.arguments()),
        }
    }

    fn is_refusal(&self) -> bool {
        self.content().any(|part| part["type"] == "refusal")
    }

    fn arguments(&self) -> &str {
        text(&self.item, "arguments").unwrap_or(&self.arguments)
    }

    fn content(&self) -> impl Iterator<Item = &Value> {
        let is_message = self.item["type"] == "message";
        self.item["content"].as_array().into_iter().flatten().filter(move |_| is_message)
    }

    /// What it says to the user: the item's word, else that of the deltas.
    fn words(&self) -> String {
        let words: String = self.content().filter_map(|part| text(part, "text").or_else(|| text(part, "refusal"))).collect();
        if self.is_done && !words.is_empty() { words } else { self.text.clone() }
    }

    fn add_to(&self, parts: &mut Vec<ReplyPart>, nth: usize, owner: &str) {
        let opaque = |raw: Value| ReplyPart::Opaque { provider: owner.to_owned(), raw };
        match self.item["type"].as_str() {
            Some("function_call") => {
                let id = text(&self.item, "call_id").or_else(|| text(&self.item, "id"));
                let id = id.map_or_else(|| format!("call_{nth}"), str::to_owned);
                let tool = text(&self.item, "name").unwrap_or_default().to_owned();
                let input = if self.arguments().trim().is_empty() { "{}" } else { self.arguments() };
                parts.push(ReplyPart::Call { id, tool, input: input.to_owned() });
            }
            Some("message") | None => {
                // Whether this was a remark on the way or the answer; the model wants to know it again.
                if let Some(phase) = text(&self.item, "phase") {
                    parts.push(opaque(json!({ "phase": phase })));
                }
                parts.extend(Some(self.words()).filter(|words| !words.is_empty()).map(ReplyPart::Text));
            }
            Some("reasoning") if self.is_done => {
                parts.extend(thought(&self.item).map(|text| ReplyPart::Reasoning { text, signature: None }));
                if is_replayable(&self.item) {
                    parts.push(opaque(self.item.clone()));
                }
            }
            Some(_) if self.is_done && is_replayable(&self.item) => parts.push(opaque(self.item.clone())),
            Some(other) => tracing::debug!(item = other, "skipped an item of a tool that is not ours"),
        }
    }
}

/// The thinking as far as it may be read by people.
fn thought(item: &Value) -> Option<String> {
    let texts = |key: &str| item[key].as_array().into_iter().flatten().filter_map(|part| text(part, "text")).collect::<Vec<_>>();
    let paragraphs = [texts("summary"), texts("content")].concat().join("\n\n");
    (!paragraphs.is_empty()).then_some(paragraphs)
}
