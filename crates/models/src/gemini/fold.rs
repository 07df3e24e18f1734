//! Folding a Gemini stream into a reply.
//!
//! Pure: no IO, no clock. Every event is a whole response with the next parts of the answer. A finish reason makes a
//! reply, anything less was cut. A signature must go back on the part it came on; it is kept as an opaque part right
//! before that one, and parts with a signature are never joined with others.

use posse_session::{Finish, ModelError, ModelFailure, Progress, Reply, ReplyPart, Usage};
use serde_json::{Value, json};

use super::{
    encode::{ON_CALL, ON_NOTHING, ON_TEXT},
    pieces::Pieces,
};
use crate::{
    failure,
    fold::{
        CUT_WORDS, Fold, PART_BYTES, Phase, REPLY_BYTES_MAX, broken, count, declined, text, too_large, unfinished, value_of, weight,
        with_partial,
    },
    sse::Event,
};

/// A number or a truth value among a call's arguments is about one token, which is about as long.
const TOKEN_BYTES: usize = 4;

#[derive(Debug, Clone, Default)]
pub(crate) struct State {
    /// Whose parts the opaque ones are.
    owner: String,
    parts: Vec<Building>,
    /// How many calls were begun; names those that the server does not name.
    calls: usize,
    usage: Usage,
    finish_reason: Option<String>,
    /// What the server says about its reason.
    finish_message: String,
    /// Bytes of everything that came to be kept.
    held: usize,
    failure: Option<ModelError>,
}

#[derive(Debug, Clone)]
struct Building {
    kind: Kind,
    signature: Option<String>,
}

#[derive(Debug, Clone)]
enum Kind {
    Text(String),
    Thought(String),
    Call {
        id: String,
        tool: String,
        input: Pieces,
        is_whole: bool,
    },
    /// A signature on a part without words.
    Nothing,
}

impl State {
    /// For a provider whose opaque parts are marked so.
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
        let response = match value_of(event) {
            Ok(response) => response,
            Err(failure) => return self.failure = Some(failure),
        };
        if failure::is_error(&response) || event.name == "error" {
            return self.failure = Some(failure::in_stream(&response));
        }
        self.count(&response["usageMetadata"]);
        if let Some(reason) = text(&response["promptFeedback"], "blockReason") {
            self.finish_reason = Some("PROHIBITED_CONTENT".to_owned());
            self.finish_message = format!("the prompt was blocked: {reason}");
        }
        // Other candidates than the first were not asked for.
        let Some(candidate) = response["candidates"].get(0) else { return show(Progress::Alive) };
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            self.extend(part, show);
        }
        if REPLY_BYTES_MAX < self.held && self.failure.is_none() {
            self.failure = Some(too_large());
        }
        if let Some(reason) = text(candidate, "finishReason").filter(|reason| *reason != "FINISH_REASON_UNSPECIFIED") {
            self.finish_reason = Some(reason.to_owned());
            self.finish_message = text(candidate, "finishMessage").unwrap_or_default().to_owned();
        }
    }

    fn phase(&self) -> Phase {
        Phase::of(self.failure.is_some(), self.finish_reason.is_some())
    }

    fn finish(mut self) -> Result<Reply, ModelError> {
        if let Some(failure) = self.failure.take() {
            return Err(with_partial(&self, failure));
        }
        let Some(reason) = self.finish_reason.clone() else { return Err(broken(&self, ModelFailure::Cut, CUT_WORDS)) };
        let finish = match reason.as_str() {
            "STOP" => Finish::Stop,
            "MAX_TOKENS" => Finish::Length,
            // The model tried to call something and wrote no call.
            "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "MALFORMED_RESPONSE" => {
                return Err(broken(&self, ModelFailure::Malformed, self.reason_words(&reason)));
            }
            "MISSING_THOUGHT_SIGNATURE" => return Err(broken(&self, ModelFailure::BadRequest, self.reason_words(&reason))),
            reason if is_refusal(reason) => Finish::Refusal,
            _ => Finish::Other,
        };
        if finish == Finish::Refusal {
            return self.into_refusal(&reason);
        }
        let is_cut = |part: &Building| matches!(part.kind, Kind::Call { is_whole: false, .. });
        if finish == Finish::Stop && self.parts.iter().any(is_cut) {
            return Err(broken(&self, ModelFailure::Malformed, "the answer ended in the middle of a call"));
        }
        Ok(self.into_reply(finish))
    }

    fn counted(&self) -> Usage {
        self.usage
    }

    fn partial(&self) -> (String, Usage) {
        let texts = self.parts.iter().filter_map(|part| match &part.kind {
            Kind::Text(text) => Some(text.as_str()),
            _ => None,
        });
        (texts.collect(), self.usage)
    }
}

impl State {
    /// Counts are of the whole answer so far, so the last one said is the truth.
    fn count(&mut self, usage: &Value) {
        let Some(prompt) = count(usage, "promptTokenCount") else { return };
        let said = |key: &str| count(usage, key).unwrap_or_default();
        let cache_read = said("cachedContentTokenCount");
        self.usage = Usage {
            input: prompt.saturating_add(said("toolUsePromptTokenCount")).saturating_sub(cache_read),
            // Thinking is paid like an answer, but counted apart.
            output: said("candidatesTokenCount").saturating_add(said("thoughtsTokenCount")),
            cache_read,
            cache_write: 0,
            ..Usage::default()
        };
    }

    fn extend(&mut self, part: &Value, show: &mut dyn FnMut(Progress)) {
        let signature = text(part, "thoughtSignature").map(str::to_owned);
        self.held += signature.as_ref().map_or(0, String::len);
        let words = text(part, "text").unwrap_or_default();
        self.held += words.len();
        if part["functionCall"].is_object() {
            self.extend_call(&part["functionCall"], signature, show);
        } else if part["thought"] == true {
            show(Progress::Reasoning(words.to_owned()));
            match self.parts.last_mut() {
                Some(Building { kind: Kind::Thought(thought), .. }) => thought.push_str(words),
                _ => self.begin(Kind::Thought(words.to_owned()), None),
            }
            // Nobody sends thoughts back, so what was signed on one goes back on nothing.
            if signature.is_some() {
                self.begin(Kind::Nothing, signature);
            }
        } else if !words.is_empty() {
            show(Progress::Text(words.to_owned()));
            match self.parts.last_mut() {
                Some(Building { kind: Kind::Text(text), signature: None }) if signature.is_none() => text.push_str(words),
                _ => self.begin(Kind::Text(words.to_owned()), signature),
            }
        } else if signature.is_some() {
            self.begin(Kind::Nothing, signature);
        } else {
            // An empty text ends many streams; code, files and searches were not asked for.
            show(Progress::Alive);
        }
    }

    fn begin(&mut self, kind: Kind, signature: Option<String>) {
        self.held += PART_BYTES;
        self.parts.push(Building { kind, signature });
    }

    /// A whole call, or a piece of one that began before: Vertex sends the arguments piece by piece, and an empty call
    /// as the last.
    fn extend_call(&mut self, call: &Value, signature: Option<String>, show: &mut dyn FnMut(Progress)) {
        let goes_on = call["willContinue"] == true;
        if let Some(tool) = text(call, "name") {
            show(Progress::CallNamed { tool: tool.to_owned() });
            let id = text(call, "id").map_or_else(|| format!("call_{}", self.calls), str::to_owned);
            self.calls += 1;
            self.held += id.len() + tool.len();
            self.begin(Kind::Call { id, tool: tool.to_owned(), input: Pieces::default(), is_whole: false }, signature);
        }
        let open = self.parts.iter_mut().rev().find_map(|part| match &mut part.kind {
            Kind::Call { input, is_whole, .. } if !*is_whole => Some((input, is_whole)),
            _ => None,
        });
        // Without a call that is open this is the end of one that has ended.
        let Some((input, is_whole)) = open else { return show(Progress::Alive) };
        let mut bytes = 0;
        if let Value::Object(args) = &call["args"]
            && !args.is_empty()
        {
            self.held += weight(&call["args"]);
            bytes += call["args"].to_string().len();
            *input = Pieces::of(call["args"].clone());
        }
        for piece in call["partialArgs"].as_array().into_iter().flatten() {
            bytes += text(piece, "stringValue").map_or(TOKEN_BYTES, str::len);
            match input.add(piece) {
                Ok(kept) => self.held += kept,
                Err(_) => {
                    let words = format!("the server sent a piece of a call that belongs nowhere: {piece}");
                    self.failure = Some(ModelError::new(ModelFailure::Malformed, words));
                    return;
                }
            }
        }
        *is_whole = !goes_on;
        show(Progress::CallInput { bytes: bytes as u64 });
    }

    fn reason_words(&self, reason: &str) -> String {
        let more = if self.finish_message.is_empty() { String::new() } else { format!(": {}", self.finish_message) };
        format!("the provider broke off: finish reason \"{reason}\"{more}")
    }

    fn into_refusal(mut self, reason: &str) -> Result<Reply, ModelError> {
        if self.partial().0.trim().is_empty() {
            let why = if self.finish_message.is_empty() { reason } else { &self.finish_message };
            return Err(declined(&self, why));
        }
        // What was declined is not done by half.
        self.parts.retain(|part| !matches!(part.kind, Kind::Call { .. }));
        Ok(self.into_reply(Finish::Refusal))
    }

    fn into_reply(self, finish: Finish) -> Reply {
        let mut parts = Vec::new();
        for part in self.parts {
            let on = match &part.kind {
                Kind::Call { .. } => ON_CALL,
                Kind::Text(_) => ON_TEXT,
                Kind::Thought(_) | Kind::Nothing => ON_NOTHING,
            };
            if let Some(signature) = part.signature {
                parts.push(ReplyPart::Opaque { provider: self.owner.clone(), raw: json!({ "thoughtSignature": signature, "on": on }) });
            }
            match part.kind {
                Kind::Text(text) => parts.push(ReplyPart::Text(text)),
                Kind::Thought(text) if !text.is_empty() => parts.push(ReplyPart::Reasoning { text, signature: None }),
                Kind::Call { id, tool, input, is_whole } => {
                    let input = input.whole().to_string();
                    // What the limit cut stays a call, that nobody can run, so that the model hears of it.
                    let input = if is_whole { input } else { unfinished(&input) };
                    parts.push(ReplyPart::Call { id, tool, input });
                }
                Kind::Thought(_) | Kind::Nothing => {}
            }
        }
        let has_calls = parts.iter().any(|part| matches!(part, ReplyPart::Call { .. }));
        let finish = match finish {
            Finish::Stop | Finish::Other if has_calls => Finish::Calls,
            other => other,
        };
        Reply { parts, usage: self.usage, finish }
    }
}

/// The reasons with which the provider declines.
fn is_refusal(reason: &str) -> bool {
    ["SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"].iter().any(|word| reason.contains(word))
}
