//! What a scripted model can say: good replies, and everything that goes wrong with real ones.
//!
//! An answer is plain data; `model.rs` puts it on a socket. Stream events are made here, one per chunk, for the two
//! oldest protocols; `newer.rs` makes them for the others.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    newer,
    seen::{Api, Seen},
};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// Without what came from or went into the cache.
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    Text(String),
    Thinking {
        text: String,
        signature: String,
    },
    /// Without an id the server makes up the next one.
    Call {
        name: String,
        arguments: String,
        id: Option<String>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub enum Form {
    /// A stream of these.
    Reply(Vec<Piece>),
    /// A stream with these bytes as its body, whatever they are.
    Stream(Vec<u8>),
    /// An ordinary response with a JSON body.
    Plain { status: u16, body: Value },
    /// The whole response, status line and all; then the socket closes. Empty: hangs up.
    Bytes(Vec<u8>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    pub form: Form,
    pub headers: Vec<(String, String)>,
    pub usage: Usage,
    /// The provider's word for why it stopped, instead of the right one.
    pub stop_reason: Option<String>,
    /// Before the first byte.
    pub delay: Duration,
    /// After each chunk.
    pub chunk_delay: Duration,
    /// Chunks of so many bytes instead of one per event.
    pub chunk_bytes: Option<usize>,
    /// The socket closes after so many bytes of the stream.
    pub cut: Option<usize>,
    /// After so many bytes of the stream nothing comes any more, until the client goes away.
    pub stall: Option<usize>,
}

/// A tool call, for [`Answer::calls`].
pub fn call(name: &str, input: Value) -> Piece {
    raw_call(name, &input.to_string())
}

/// A call whose arguments are this text, JSON or not.
pub fn raw_call(name: &str, arguments: &str) -> Piece {
    Piece::Call { name: name.into(), arguments: arguments.into(), id: None }
}

impl Answer {
    fn of(form: Form) -> Answer {
        Answer {
            form,
            headers: Vec::new(),
            usage: Usage { input: 100, output: 20, cache_read: 0, cache_write: 0 },
            stop_reason: None,
            delay: Duration::ZERO,
            chunk_delay: Duration::ZERO,
            chunk_bytes: None,
            cut: None,
            stall: None,
        }
    }

    pub fn text(text: &str) -> Answer {
        Answer::of(Form::Reply(vec![Piece::Text(text.into())]))
    }

    pub fn call(name: &str, input: Value) -> Answer {
        Answer::calls([call(name, input)])
    }

    /// Calls, texts and thoughts, in this order.
    pub fn calls(pieces: impl IntoIterator<Item = Piece>) -> Answer {
        Answer::of(Form::Reply(pieces.into_iter().collect()))
    }

    /// A provider's error.
    pub fn error(status: u16, message: &str) -> Answer {
        Answer::json(status, json!({"type": "error", "error": {"type": "scripted_error", "message": message}}))
    }

    pub fn json(status: u16, body: Value) -> Answer {
        Answer::of(Form::Plain { status, body })
    }

    /// A stream with a body of these bytes: malformed events, recorded ones.
    pub fn stream(body: impl Into<Vec<u8>>) -> Answer {
        Answer::of(Form::Stream(body.into()))
    }

    /// The response as it stands, then the socket closes.
    pub fn bytes(response: impl Into<Vec<u8>>) -> Answer {
        Answer::of(Form::Bytes(response.into()))
    }

    pub fn hang_up() -> Answer {
        Answer::bytes(Vec::new())
    }

    pub fn and(mut self, piece: Piece) -> Answer {
        match &mut self.form {
            Form::Reply(pieces) => pieces.push(piece),
            other => panic!("{other:?} has no pieces"),
        }
        self
    }

    pub fn and_text(self, text: &str) -> Answer {
        self.and(Piece::Text(text.into()))
    }

    pub fn and_call(self, name: &str, input: Value) -> Answer {
        self.and(call(name, input))
    }

    pub fn header(mut self, name: &str, value: &str) -> Answer {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub fn usage(mut self, input: u64, output: u64, cache_read: u64, cache_write: u64) -> Answer {
        self.usage = Usage { input, output, cache_read, cache_write };
        self
    }

    pub fn stop_reason(mut self, reason: &str) -> Answer {
        self.stop_reason = Some(reason.into());
        self
    }

    pub fn after(mut self, delay: Duration) -> Answer {
        self.delay = delay;
        self
    }

    pub fn slowly(mut self, chunk_delay: Duration) -> Answer {
        self.chunk_delay = chunk_delay;
        self
    }

    pub fn in_chunks_of(mut self, bytes: usize) -> Answer {
        self.chunk_bytes = Some(bytes);
        self
    }

    pub fn cut_after(mut self, bytes: usize) -> Answer {
        self.cut = Some(bytes);
        self
    }

    pub fn stalled_after(mut self, bytes: usize) -> Answer {
        self.stall = Some(bytes);
        self
    }

    /// The stream's body, in the chunks it is sent in.
    pub fn chunks(&self, seen: &Seen, next_id: &dyn Fn() -> String) -> Vec<Vec<u8>> {
        let events = match &self.form {
            Form::Reply(pieces) => match seen.api {
                Api::Anthropic => self.anthropic_events(pieces, seen, next_id),
                Api::OpenAi => self.openai_events(pieces, seen, next_id),
                Api::Responses => newer::responses_events(self, pieces, next_id),
                Api::Gemini => newer::gemini_events(self, pieces),
            },
            Form::Stream(body) => vec![body.clone()],
            Form::Plain { .. } | Form::Bytes(_) => Vec::new(),
        };
        match self.chunk_bytes {
            Some(bytes) => events.concat().chunks(bytes).map(<[u8]>::to_vec).collect(),
            None => events,
        }
    }

    fn anthropic_events(&self, pieces: &[Piece], seen: &Seen, next_id: &dyn Fn() -> String) -> Vec<Vec<u8>> {
        let usage = self.usage;
        let counts = json!({"input_tokens": usage.input, "output_tokens": 1,
            "cache_read_input_tokens": usage.cache_read, "cache_creation_input_tokens": usage.cache_write});
        let message = json!({"id": format!("msg_{}", seen.number), "type": "message", "role": "assistant", "model": seen.json["model"],
            "content": [], "stop_reason": null, "stop_sequence": null, "usage": counts});
        let mut events = vec![json!({"type": "message_start", "message": message})];
        for (index, piece) in pieces.iter().enumerate() {
            let (block, deltas) = anthropic_piece(piece, next_id);
            events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
            events.extend(deltas.into_iter().map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})));
            events.push(json!({"type": "content_block_stop", "index": index}));
        }
        let reason = self.stop_reason.as_deref().unwrap_or(if has_calls(pieces) { "tool_use" } else { "end_turn" });
        events.push(json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
            "usage": {"output_tokens": usage.output}}));
        events.push(json!({"type": "message_stop"}));
        let named = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()).into_bytes();
        events.iter().map(named).collect()
    }

    fn openai_events(&self, pieces: &[Piece], seen: &Seen, next_id: &dyn Fn() -> String) -> Vec<Vec<u8>> {
        let chunk = |choices: Value| {
            json!({"id": format!("c{}", seen.number), "object": "chat.completion.chunk", "created": 1,
                "model": seen.json["model"], "choices": choices})
        };
        let delta = |delta: Value, finish: Value| chunk(json!([{"index": 0, "delta": delta, "finish_reason": finish}]));
        let mut events = vec![delta(json!({"role": "assistant", "content": ""}), Value::Null)];
        let mut calls = 0;
        for piece in pieces {
            events.extend(openai_piece(piece, calls, next_id).into_iter().map(|piece| delta(piece, Value::Null)));
            calls += usize::from(matches!(piece, Piece::Call { .. }));
        }
        let reason = self.stop_reason.as_deref().unwrap_or(if calls > 0 { "tool_calls" } else { "stop" });
        events.push(delta(json!({}), json!(reason)));
        let usage = self.usage;
        let input = usage.input + usage.cache_read;
        let mut last = chunk(json!([]));
        last["usage"] = json!({"prompt_tokens": input, "completion_tokens": usage.output, "total_tokens": input + usage.output,
            "prompt_tokens_details": {"cached_tokens": usage.cache_read}});
        events.push(last);
        let lines = events.iter().map(|event| format!("data: {event}\n\n").into_bytes());
        lines.chain([b"data: [DONE]\n\n".to_vec()]).collect()
    }
}

impl From<&str> for Answer {
    fn from(text: &str) -> Answer {
        Answer::text(text)
    }
}

impl From<String> for Answer {
    fn from(text: String) -> Answer {
        Answer::text(&text)
    }
}

fn has_calls(pieces: &[Piece]) -> bool {
    pieces.iter().any(|piece| matches!(piece, Piece::Call { .. }))
}

fn anthropic_piece(piece: &Piece, next_id: &dyn Fn() -> String) -> (Value, Vec<Value>) {
    match piece {
        Piece::Text(text) => {
            let deltas = parts(text, 40).map(|part| json!({"type": "text_delta", "text": part})).collect();
            (json!({"type": "text", "text": ""}), deltas)
        }
        Piece::Thinking { text, signature } => {
            let thoughts = parts(text, 40).map(|part| json!({"type": "thinking_delta", "thinking": part}));
            let deltas = thoughts.chain([json!({"type": "signature_delta", "signature": signature})]).collect();
            (json!({"type": "thinking", "thinking": "", "signature": ""}), deltas)
        }
        Piece::Call { name, arguments, id } => {
            let id = id.clone().unwrap_or_else(next_id);
            let deltas = parts(arguments, 60).map(|part| json!({"type": "input_json_delta", "partial_json": part})).collect();
            (json!({"type": "tool_use", "id": id, "name": name, "input": {}}), deltas)
        }
    }
}

fn openai_piece(piece: &Piece, index: usize, next_id: &dyn Fn() -> String) -> Vec<Value> {
    match piece {
        Piece::Text(text) => parts(text, 40).map(|part| json!({"content": part})).collect(),
        Piece::Thinking { text, .. } => parts(text, 40).map(|part| json!({"reasoning_content": part})).collect(),
        Piece::Call { name, arguments, id } => {
            let id = id.clone().unwrap_or_else(next_id);
            let start = json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}});
            let rest = parts(arguments, 60).map(|part| json!({"index": index, "function": {"arguments": part}}));
            std::iter::once(start).chain(rest).map(|call| json!({"tool_calls": [call]})).collect()
        }
    }
}

/// A text in pieces of about so many characters, as providers send it.
pub fn parts(text: &str, chars: usize) -> impl Iterator<Item = String> {
    let all: Vec<char> = text.chars().collect();
    let parts: Vec<String> = all.chunks(chars).map(|part| part.iter().collect()).collect();
    parts.into_iter()
}
