//! Chat Completions bodies: head | messages | tail, byte for byte the same for the same words.
//!
//! The system message belongs to the head. One of our user messages becomes a `tool` message per result and then one
//! `user` message; they are joined by commas, so to everyone else it is one piece of bytes.

use posse_session::{Block, Head, Message, Request, Role, ToolChoice, ToolSpec};
use serde_json::{Map, Value, json};

use crate::fold::as_object;

/// Servers refuse an empty message, and a transcript must keep its turns.
const NO_TEXT: &str = "(no text)";

/// What a tool without output said.
const NO_OUTPUT: &str = "(no output)";

pub(crate) fn head(model: &str, head: &Head) -> Vec<u8> {
    let mut body = Map::new();
    body.insert("model".to_owned(), model.into());
    body.insert("stream".to_owned(), true.into());
    body.insert("stream_options".to_owned(), json!({ "include_usage": true }));
    if !head.tools.is_empty() {
        let tool = |tool: &ToolSpec| json!({ "type": "function", "function": { "name": tool.name, "description": tool.description, "parameters": tool.schema } });
        body.insert("tools".to_owned(), head.tools.iter().map(tool).collect());
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

pub(crate) fn message(message: &Message) -> Vec<u8> {
    let messages = match message.role {
        Role::Assistant => vec![assistant(&message.blocks)],
        Role::User => user(&message.blocks),
    };
    let texts: Vec<String> = messages.iter().map(Value::to_string).collect();
    texts.join(",").into_bytes()
}

fn assistant(blocks: &[Block]) -> Value {
    let calls: Vec<Value> = blocks
        .iter()
        .filter_map(|block| match block {
            Block::Call { id, tool, input } => {
                Some(json!({ "id": id, "type": "function", "function": { "name": tool, "arguments": as_object(input) } }))
            }
            _ => None,
        })
        .collect();
    let text = texts(blocks).join("\n\n");
    match (text.is_empty(), calls.is_empty()) {
        (true, true) => json!({ "role": "assistant", "content": NO_TEXT }),
        (false, true) => json!({ "role": "assistant", "content": text }),
        (true, false) => json!({ "role": "assistant", "content": null, "tool_calls": calls }),
        (false, false) => json!({ "role": "assistant", "content": text, "tool_calls": calls }),
    }
}

fn user(blocks: &[Block]) -> Vec<Value> {
    let mut messages = Vec::new();
    // A `tool` message can hold only text, so images of results are shown right after, by the user.
    let mut images = Vec::new();
    for block in blocks {
        match block {
            Block::Result { id, text, images: shown, .. } => {
                let text = if text.trim().is_empty() { NO_OUTPUT } else { text };
                messages.push(json!({ "role": "tool", "tool_call_id": id, "content": text }));
                images.extend(shown.iter().map(|(mime, data)| image(mime, data)));
            }
            Block::Image { mime, data } => images.push(image(mime, data)),
            _ => {}
        }
    }
    let texts = texts(blocks);
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

pub(crate) fn body(request: &Request, limit_key: &str) -> Vec<u8> {
    let choice = match request.tool_choice {
        ToolChoice::None if crate::provider::has_tools(&request.head) => r#","tool_choice":"none""#,
        _ => "",
    };
    let tail = format!(r#"],"{limit_key}":{}{choice}}}"#, request.output_max.max(1));
    let size = request.head.len() + request.messages.iter().map(|message| message.len() + 1).sum::<usize>() + tail.len();
    let mut body = Vec::with_capacity(size);
    body.extend_from_slice(&request.head);
    for (nth, message) in request.messages.iter().enumerate() {
        if 0 < nth {
            body.push(b',');
        }
        body.extend_from_slice(message);
    }
    body.extend_from_slice(tail.as_bytes());
    body
}
