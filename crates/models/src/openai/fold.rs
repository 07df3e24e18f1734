//! Folding a Chat Completions stream into a reply.
//!
//! Pure: no IO, no clock. Many servers speak this protocol, each a little differently; what they leave out is made up
//! here and what they add is skipped. A finish reason or `[DONE]` makes a reply, anything less was cut, and so was what
//! the server itself calls broken.

use posse_session::{Finish, ModelError, ModelFailure, Progress, Reply, ReplyPart, Usage};
use serde_json::{Map, Value, json};

use super::dialect::Dialect;
use crate::{
    failure,
    fold::{
        CUT_WORDS, Fold, PART_BYTES, Phase, REPLY_BYTES_MAX, VALUE_BYTES, broken, count, declined, is_object, text, too_large, unfinished,
        value_of, weight, weight_of_fields, with_partial,
    },
    sse::Event,
};

#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    /// Whose answer this is: the provider and the model.
    origin: (String, String),
    text: String,
    reasoning: String,
    /// A router's own form of the thinking, with its signatures; goes back as it came.
    details: Vec<Map<String, Value>>,
    /// Why the model declined, in its words.
    refusal: String,
    calls: Vec<Calling>,
    /// The form from before there were tools; counts only where there are no others.
    legacy_call: Option<Calling>,
    finish_reason: Option<String>,
    done: bool,
    usage: Usage,
    /// Bytes of everything said, thought and called.
    held: usize,
    failure: Option<ModelError>,
}

#[derive(Debug, Clone, Default)]
struct Calling {
    index: Option<u64>,
    id: String,
    tool: String,
    arguments: String,
}

impl Fold for State {
    fn push(&mut self, event: &Event, show: &mut dyn FnMut(Progress)) {
        if self.phase() == Phase::Over {
            return;
        }
        let data = event.data.trim();
        if data == "[DONE]" {
            self.done = true;
            return;
        }
        if data.is_empty() {
            return show(Progress::Alive);
        }
        let chunk = match value_of(event) {
            Ok(chunk) => chunk,
            Err(failure) => return self.failure = Some(failure),
        };
        if is_error(&chunk, event) {
            return self.failure = Some(failure::in_stream(&chunk));
        }
        // Groq has its counts in a place of its own, Moonshot in the choice.
        for usage in [&chunk["usage"], &chunk["x_groq"]["usage"], &chunk["choices"][0]["usage"]] {
            self.count(usage);
        }
        // Azure and usage chunks have no choice at all; other choices than the first were not asked for.
        let Some(choice) = chunk["choices"].get(0) else { return show(Progress::Alive) };
        if is_error(choice, event) {
            return self.failure = Some(failure::in_stream(choice));
        }
        let delta = [&choice["delta"], &choice["message"]].into_iter().find(|delta| delta.is_object());
        self.extend(delta.unwrap_or(&Value::Null), show);
        if REPLY_BYTES_MAX < self.held {
            return self.failure = Some(too_large());
        }
        if let Some(reason) = text(choice, "finish_reason") {
            self.finish_reason = Some(reason.to_owned());
        }
    }

    fn phase(&self) -> Phase {
        Phase::of(self.done || self.failure.is_some(), self.finish_reason.is_some())
    }

    fn finish(mut self) -> Result<Reply, ModelError> {
        if let Some(failure) = self.failure.take() {
            return Err(with_partial(&self, failure));
        }
        if self.calls.is_empty() {
            self.calls.extend(self.legacy_call.take());
        }
        let finish = match self.finish_reason.as_deref() {
            Some("stop" | "end_turn" | "tool_calls" | "function_call") => Finish::Stop,
            Some("length" | "max_tokens" | "model_length" | "model_context_window_exceeded") => Finish::Length,
            Some("content_filter") => Finish::Refusal,
            Some(reason) if is_broken(reason) => {
                let words = format!("the provider broke off: finish reason \"{reason}\"");
                return Err(broken(&self, ModelFailure::Cut, words));
            }
            Some(_) => Finish::Other,
            // An end without a reason is believed only if what came holds together.
            None if self.done && self.holds_together() => Finish::Stop,
            None => return Err(broken(&self, ModelFailure::Cut, CUT_WORDS)),
        };
        if finish == Finish::Other {
            // Nobody knows what this end means, so a call counts only if it is surely whole.
            self.calls.iter_mut().for_each(Calling::mark_unless_whole);
        }
        if finish == Finish::Length {
            self.calls.iter_mut().last().into_iter().for_each(Calling::mark_unless_whole);
        }
        if matches!(finish, Finish::Length | Finish::Other) {
            // Without a name there is nothing to tell the model of.
            self.calls.retain(|call| !call.tool.is_empty());
        }
        if finish == Finish::Refusal && self.text.trim().is_empty() && self.refusal.is_empty() {
            return Err(declined(&self, self.finish_reason.as_deref().unwrap_or_default()));
        }
        Ok(self.into_reply(finish))
    }

    fn counted(&self) -> Usage {
        self.usage
    }

    fn partial(&self) -> (String, Usage) {
        (self.text.clone(), self.usage)
    }
}

impl State {
    pub(crate) fn of(dialect: &Dialect) -> Self {
        Self { origin: (dialect.provider.clone(), dialect.model.clone()), ..Self::default() }
    }

    fn count(&mut self, usage: &Value) {
        let Some(prompt) = count(usage, "prompt_tokens") else { return };
        let details = &usage["prompt_tokens_details"];
        let completion = count(usage, "completion_tokens").unwrap_or_default();
        let total = count(usage, "total_tokens").unwrap_or_default();
        let cache_read = count(details, "cached_tokens").or_else(|| count(usage, "prompt_cache_hit_tokens")).unwrap_or_default();
        let cache_write = count(details, "cache_write_tokens").unwrap_or_default();
        self.usage = Usage {
            input: prompt.saturating_sub(cache_read).saturating_sub(cache_write),
            // Some count the tokens of thinking only in the total.
            output: completion.max(total.saturating_sub(prompt)),
            cache_read,
            cache_write,
            cost_usd: billed(usage),
            ..Usage::default()
        };
    }

    fn extend(&mut self, delta: &Value, show: &mut dyn FnMut(Progress)) {
        let thought = text(delta, "reasoning_content").or_else(|| text(delta, "reasoning"));
        for detail in delta["reasoning_details"].as_array().into_iter().flatten().filter_map(Value::as_object) {
            // The same words stand in the plain field, except where a server has only this one.
            if let Some(piece) = ["text", "summary"].into_iter().find_map(|key| detail.get(key)?.as_str()).filter(|_| thought.is_none()) {
                self.think(piece, show);
            }
            self.extend_details(detail);
        }
        if let Some(piece) = thought {
            self.think(piece, show);
        }
        match &delta["content"] {
            Value::String(piece) => self.say(piece, show),
            Value::Array(parts) => self.extend_parts(parts, show),
            _ => {}
        }
        if let Some(piece) = text(delta, "refusal") {
            self.refusal.push_str(piece);
            self.held += piece.len();
        }
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            self.extend_call(piece, show);
        }
        if delta["function_call"].is_object() {
            self.held += self.legacy_call.get_or_insert_default().extend(&delta["function_call"]);
        }
    }

    /// Pieces of one thought are put together, as the model wrote it; what is sealed is kept as it came.
    fn extend_details(&mut self, detail: &Map<String, Value>) {
        let is_same = |last: &&mut Map<String, Value>| {
            ["type", "index", "format"].iter().all(|key| last.get(*key) == detail.get(*key)) && !detail.contains_key("data")
        };
        let Some(last) = self.details.last_mut().filter(is_same) else {
            self.held += VALUE_BYTES + weight_of_fields(detail);
            return self.details.push(detail.clone());
        };
        for (key, value) in detail {
            match (last.get_mut(key), value) {
                (Some(Value::String(old)), Value::String(more)) if matches!(key.as_str(), "text" | "summary") => {
                    old.push_str(more);
                    self.held += more.len();
                }
                (Some(_), Value::Null) => {}
                (Some(old), value) if old == value => {}
                _ => {
                    last.insert(key.clone(), value.clone());
                    self.held += key.len() + VALUE_BYTES + weight(value);
                }
            }
        }
    }

    /// Mistral writes its content as parts while it thinks.
    fn extend_parts(&mut self, parts: &[Value], show: &mut dyn FnMut(Progress)) {
        for part in parts {
            if let Some(piece) = text(part, "text") {
                self.say(piece, show);
            }
            for thought in part["thinking"].as_array().into_iter().flatten() {
                self.think(text(thought, "text").unwrap_or_default(), show);
            }
        }
    }

    fn say(&mut self, piece: &str, show: &mut dyn FnMut(Progress)) {
        if !piece.is_empty() {
            self.text.push_str(piece);
            self.held += piece.len();
            show(Progress::Text(piece.to_owned()));
        }
    }

    fn think(&mut self, piece: &str, show: &mut dyn FnMut(Progress)) {
        if !piece.is_empty() {
            self.reasoning.push_str(piece);
            self.held += piece.len();
            show(Progress::Reasoning(piece.to_owned()));
        }
    }

    fn extend_call(&mut self, piece: &Value, show: &mut dyn FnMut(Progress)) {
        let function = &piece["function"];
        if self.repeats(piece) {
            return show(Progress::Alive);
        }
        let at = match self.place_of(piece) {
            Some(at) => at,
            None => {
                show(Progress::CallNamed { tool: text(function, "name").unwrap_or_default().to_owned() });
                self.calls.push(Calling { index: count(piece, "index"), ..Calling::default() });
                self.held += PART_BYTES;
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            call.id = text(piece, "id").unwrap_or_default().to_owned();
            self.held += call.id.len();
        }
        let bytes = call.extend(function);
        self.held += bytes;
        show(Progress::CallInput { bytes: bytes as u64 });
    }

    /// Which call a piece continues; none when it begins one. Servers leave out the index, the id or both, and some
    /// give every call the index 0.
    fn place_of(&self, piece: &Value) -> Option<usize> {
        let index = count(piece, "index");
        let at = match index {
            Some(_) => self.calls.iter().rposition(|call| call.index == index)?,
            None => self.calls.len().checked_sub(1)?,
        };
        let call = &self.calls[at];
        let is_other_id = text(piece, "id").is_some_and(|id| !call.id.is_empty() && id != call.id);
        let names_again = text(&piece["function"], "name").is_some() && !call.tool.is_empty();
        // Some name the tool in every piece. With the same id or index it is another call only if the one before is whole,
        // and under the same index only if this one begins its input.
        let is_next = names_again
            && match (index, text(piece, "id")) {
                (None, None) => true,
                (None, Some(_)) => is_object(&call.arguments),
                (Some(_), None) => is_object(&call.arguments) && begins_input(&piece["function"]["arguments"]),
                (Some(_), Some(_)) => false,
            };
        (!is_other_id && !is_next).then_some(at)
    }

    /// A server that says a whole call once more, under the same id and in the same words, means the same call.
    fn repeats(&self, piece: &Value) -> bool {
        let field = |value: &Value, key| text(value, key).unwrap_or_default().to_owned();
        let function = &piece["function"];
        let (id, tool, arguments) = (field(piece, "id"), field(function, "name"), field(function, "arguments"));
        let is_whole = !id.is_empty() && !tool.is_empty() && is_object(&arguments);
        is_whole && self.calls.iter().any(|call| (&call.id, &call.tool, &call.arguments) == (&id, &tool, &arguments))
    }

    /// Something was said, and every call could be run.
    fn holds_together(&self) -> bool {
        let has_content = !self.text.is_empty() || !self.refusal.is_empty() || !self.calls.is_empty();
        has_content && self.calls.iter().all(|call| call.arguments.is_empty() || is_object(&call.arguments))
    }

    fn into_reply(self, finish: Finish) -> Reply {
        let mut parts = Vec::new();
        if !self.reasoning.is_empty() {
            parts.push(ReplyPart::Reasoning { text: self.reasoning, signature: None });
        }
        if !self.details.is_empty() {
            let (provider, model) = self.origin;
            parts.push(ReplyPart::Opaque { provider, raw: json!({ "model": model, "reasoning_details": self.details }) });
        }
        let refused = !self.refusal.is_empty() || finish == Finish::Refusal;
        parts.extend([self.text, self.refusal].into_iter().filter(|text| !text.is_empty()).map(ReplyPart::Text));
        if refused {
            // What was declined is not done by half.
            return Reply { parts, usage: self.usage, finish: Finish::Refusal };
        }
        let has_calls = !self.calls.is_empty();
        parts.extend(self.calls.into_iter().enumerate().map(|(nth, call)| call.into_part(nth)));
        let finish = if has_calls && finish != Finish::Length { Finish::Calls } else { finish };
        Reply { parts, usage: self.usage, finish }
    }
}

impl Calling {
    /// Takes a piece and says by how many bytes it made the call longer.
    fn extend(&mut self, function: &Value) -> usize {
        let before = self.tool.len() + self.arguments.len();
        if self.tool.is_empty() {
            self.tool = text(function, "name").unwrap_or_default().to_owned();
        }
        match &function["arguments"] {
            Value::String(piece) => self.arguments.push_str(piece),
            // The object itself instead of its text.
            whole @ Value::Object(_) => self.arguments = whole.to_string(),
            _ => {}
        }
        (self.tool.len() + self.arguments.len()).saturating_sub(before)
    }

    /// A call that was cut stays one, that nobody can run, so that the model hears of it.
    fn mark_unless_whole(&mut self) {
        if !is_object(&self.arguments) {
            self.arguments = unfinished(&self.arguments);
        }
    }

    fn into_part(self, nth: usize) -> ReplyPart {
        let id = if self.id.is_empty() { format!("call_{nth}") } else { self.id };
        let input = if self.arguments.trim().is_empty() { "{}".to_owned() } else { self.arguments };
        ReplyPart::Call { id, tool: self.tool, input }
    }
}

fn begins_input(arguments: &Value) -> bool {
    arguments.is_object() || arguments.as_str().is_some_and(|piece| piece.trim_start().starts_with('{'))
}

/// What the provider says it takes for this answer, in USD: OpenRouter in whole ones, xAI in ticks.
fn billed(usage: &Value) -> f64 {
    const TICKS_PER_USD: f64 = 1e10;
    let ticks = usage["cost_in_usd_ticks"].as_f64().map(|ticks| ticks / TICKS_PER_USD);
    ticks.or_else(|| usage["cost"].as_f64()).filter(|cost| cost.is_finite()).map_or(0.0, |cost| cost.max(0.0))
}

/// An error may come as a data object after all went well so far.
fn is_error(value: &Value, event: &Event) -> bool {
    failure::is_error(value) || event.name == "error"
}

/// Finish reasons with which servers say that the generation failed: OpenRouter and Mistral, DeepSeek, GLM, SGLang,
/// Gemini.
fn is_broken(reason: &str) -> bool {
    let reason = reason.to_ascii_lowercase();
    ["error", "insufficient_system_resource", "abort", "cancel", "timeout", "malformed_function_call"]
        .iter()
        .any(|word| reason.contains(word))
}
