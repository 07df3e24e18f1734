//! Chat Completions bodies: head | messages | tail, byte for byte the same for the same words.
//!
//! The system message belongs to the head. One of our user messages becomes a `tool` message per result and then one
//! `user` message; they are joined by commas, so to everyone else it is one piece of bytes.

use std::borrow::Cow;

use posse_session::{Block, Head, Message, Request, Role, ToolChoice, ToolSpec};
use serde_json::{Map, Value, json};

use super::dialect::{Dialect, Limit};
use crate::{
    body::{Body, NO_OUTPUT, NO_TEXT, has_tools},
    fold::as_object,
    recast::recast,
    strict::is_strict,
};

/// Between a tool's result and the user, where a server wants the model to have spoken.
const RESULTS_READ: &str = "(I have read the results.)";

pub(crate) fn head(head: &Head, dialect: &Dialect) -> Vec<u8> {
    let mut body = Map::new();
    body.insert("model".to_owned(), dialect.model.as_str().into());
    body.insert("stream".to_owned(), true.into());
    if dialect.takes_stream_options {
        body.insert("stream_options".to_owned(), json!({ "include_usage": true }));
    }
    if !head.tools.is_empty() {
        let tool = |tool: &ToolSpec| json!({ "type": "function", "function": { "name": tool.name, "description": tool.description, "parameters": tool.schema } });
        body.insert("tools".to_owned(), head.tools.iter().map(tool).collect());
    }
    if let Some(schema) = head.answer.as_ref().filter(|_| head.tools.is_empty() || dialect.answers_beside_tools) {
        let answer = json!({ "name": "answer", "strict": is_strict(schema), "schema": schema });
        body.insert("response_format".to_owned(), json!({ "type": "json_schema", "json_schema": answer }));
    }
    crate::provider::merge_params(&mut body, &head.params);
    let mut bytes = Value::Object(body).to_string().into_bytes();
    bytes.pop();
    bytes.extend_from_slice(br#","messages":["#);
    let system: Vec<&str> = head.system.iter().map(String::as_str).filter(|text| !text.trim().is_empty()).collect();
    if !system.is_empty() {
        bytes.extend_from_slice(json!({ "role": "system", "content": system.join("\n\n") }).to_string().as_bytes());
        bytes.push(b',');
    }
    bytes
}

pub(crate) fn message(message: &Message, dialect: &Dialect) -> Vec<u8> {
    let messages = match message.role {
        Role::Assistant => vec![assistant(&message.blocks, dialect)],
        Role::User => user(&message.blocks, dialect),
    };
    let texts: Vec<String> = messages.iter().map(Value::to_string).collect();
    texts.join(",").into_bytes()
}

fn assistant(blocks: &[Block], dialect: &Dialect) -> Value {
    let calls: Vec<Value> = blocks
        .iter()
        .filter_map(|block| match block {
            Block::Call { id, tool, input } => {
                Some(json!({ "id": dialect.call_id(id), "type": "function", "function": { "name": tool, "arguments": as_object(input) } }))
            }
            _ => None,
        })
        .collect();
    let text = texts(blocks).join("\n\n");
    let mut message = Map::from_iter([("role".to_owned(), "assistant".into())]);
    let content = match (text.is_empty(), calls.is_empty()) {
        (true, true) => NO_TEXT.into(),
        (true, false) => Value::Null,
        (false, _) => text.into(),
    };
    message.insert("content".to_owned(), content);
    if dialect.echoes_thinking && !calls.is_empty() {
        // Even where there was none: the field itself is asked for.
        message.insert("reasoning_content".to_owned(), thinking(blocks).into());
    }
    if let Some(details) = own_details(blocks, dialect) {
        message.insert("reasoning_details".to_owned(), details.clone());
    }
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), calls.into());
    }
    Value::Object(message)
}

fn thinking(blocks: &[Block]) -> String {
    let thoughts = blocks.iter().filter_map(|block| match block {
        Block::Reasoning { text, .. } => Some(text.as_str()),
        _ => None,
    });
    thoughts.collect::<Vec<_>>().join("\n\n")
}

/// The thinking that this provider itself signed for this model, as it came; another would refuse it.
fn own_details<'a>(blocks: &'a [Block], dialect: &Dialect) -> Option<&'a Value> {
    blocks.iter().find_map(|block| match block {
        Block::Opaque { provider, raw } if *provider == dialect.provider && raw["model"] == dialect.model.as_str() => {
            raw.get("reasoning_details")
        }
        _ => None,
    })
}

fn user(blocks: &[Block], dialect: &Dialect) -> Vec<Value> {
    let mut messages = Vec::new();
    // A `tool` message can hold only text, so images of results are shown right after, by the user.
    let mut images = Vec::new();
    for block in blocks {
        match block {
            Block::Result { id, text, images: shown, .. } => {
                let text = if text.trim().is_empty() { NO_OUTPUT } else { text };
                messages.push(json!({ "role": "tool", "tool_call_id": dialect.call_id(id), "content": text }));
                images.extend(shown.iter().map(|(mime, data)| image(mime, data)));
            }
            Block::Image { mime, data } => images.push(image(mime, data)),
            _ => {}
        }
    }
    let texts = texts(blocks);
    if dialect.is_mistral && !messages.is_empty() && !(images.is_empty() && texts.is_empty()) {
        messages.push(json!({ "role": "assistant", "content": RESULTS_READ }));
    }
    if !images.is_empty() {
        let texts = texts.iter().map(|text| json!({ "type": "text", "text": text }));
        messages.push(json!({ "role": "user", "content": texts.chain(images).collect::<Vec<Value>>() }));
    } else if !texts.is_empty() {
        // One string rather than parts: small servers know nothing else.
        messages.push(json!({ "role": "user", "content": texts.join("\n\n") }));
    } else if messages.is_empty() {
        messages.push(json!({ "role": "user", "content": NO_TEXT }));
    }
    messages
}

fn texts(blocks: &[Block]) -> Vec<&str> {
    let texts = blocks.iter().filter_map(|block| match block {
        Block::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.filter(|text| !text.trim().is_empty()).collect()
}

fn image(mime: &str, data: &str) -> Value {
    json!({ "type": "image_url", "image_url": { "url": format!("data:{mime};base64,{data}") } })
}

/// How a body is worded for a server that refused something, or asked for as one document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Manner {
    /// The answer comes as one document instead of a stream.
    pub(crate) whole: bool,
    pub(crate) without_stream_options: bool,
    pub(crate) without_answer_format: bool,
    pub(crate) limit: Limit,
}

pub(crate) fn body(request: &Request, manner: Manner) -> Body {
    let choice = match request.tool_choice {
        ToolChoice::None if has_tools(&request.head) => r#","tool_choice":"none""#,
        _ => "",
    };
    let tail = format!(r#"],"{}":{}{choice}}}"#, manner.limit.key(), request.output_max.max(1));
    let mut body = Body::default();
    match manner.head(&request.head) {
        Cow::Borrowed(_) => body.share(&request.head),
        Cow::Owned(head) => body.push(&head),
    }
    body.share_joined(&request.messages, |_, _| None);
    body.push(tail.as_bytes());
    body
}

impl Manner {
    fn head(self, head: &[u8]) -> Cow<'_, [u8]> {
        if !(self.whole || self.without_stream_options || self.without_answer_format) {
            return head.into();
        }
        let changed = recast(head, |body| {
            if self.whole {
                body.insert("stream".to_owned(), false.into());
            }
            if self.whole || self.without_stream_options {
                body.shift_remove("stream_options");
            }
            if self.without_answer_format {
                body.shift_remove("response_format");
            }
        });
        changed.into()
    }
}
