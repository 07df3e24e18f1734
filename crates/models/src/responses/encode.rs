//! Responses bodies: head | input items | tail, byte for byte the same for the same words.
//!
//! The system prompt is `instructions` and belongs to the head. One of our messages becomes one item or several; they
//! are joined by commas, so to everyone else it is one piece of bytes. Nothing here looks at a neighbouring message.

use posse_session::{Block, Head, Message, Params, Request, Role, ToolChoice, ToolSpec};
use serde_json::{Map, Value, json, value::RawValue};

use crate::{
    body::{Body, NO_OUTPUT, NO_TEXT, has_tools},
    fold::as_object,
    strict::is_strict,
};

/// The server refuses a smaller limit.
const OUTPUT_TOKENS_MIN: u64 = 16;

/// Asks for the thinking in a form that can be sent back, since nothing is kept at the provider. As it stands in a
/// head; inside a JSON string its quotes would be escaped, so this never hits a text.
const INCLUDE: &[u8] = br#","include":["reasoning.encrypted_content"]"#;

/// Whose opaque items are sent back. What one provider encrypted no other can read, so its name belongs to it.
pub(crate) fn owner(provider: &str) -> String {
    format!("openai-responses/{provider}")
}

/// How this request is put, as far as servers differ.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) asks_for_thinking: bool,
    pub(crate) replays_thinking: bool,
    /// Requests that begin with the same conversation find the same cache.
    pub(crate) names_cache: bool,
}

pub(crate) fn head(model: &str, head: &Head) -> Vec<u8> {
    let mut body = Map::new();
    body.insert("model".to_owned(), model.into());
    body.insert("stream".to_owned(), true.into());
    body.insert("store".to_owned(), false.into());
    body.insert("include".to_owned(), json!(["reasoning.encrypted_content"]));
    let system: Vec<&str> = head.system.iter().map(String::as_str).filter(|text| !text.trim().is_empty()).collect();
    if !system.is_empty() {
        body.insert("instructions".to_owned(), system.join("\n\n").into());
    }
    if !head.tools.is_empty() {
        // Said, because here the silence means strict, and our schemas have fields that may be left out.
        let tool = |tool: &ToolSpec| json!({ "type": "function", "name": tool.name, "description": tool.description, "parameters": tool.schema, "strict": false });
        body.insert("tools".to_owned(), head.tools.iter().map(tool).collect());
    }
    let params = Params { options: Some(options(&head.params, head.answer.as_ref()).into()), ..head.params.clone() };
    crate::provider::merge_params(&mut body, &params);
    let mut bytes = Value::Object(body).to_string().into_bytes();
    bytes.pop();
    bytes.extend_from_slice(br#","input":["#);
    bytes
}

/// The user's options as this API spells them, and the form of the answer. OpenCode writes them in camel case, and flat.
fn options(params: &Params, answer: Option<&Value>) -> Map<String, Value> {
    let (mut options, mut reasoning, mut text) = (Map::new(), Map::new(), Map::new());
    for (name, value) in params.options.iter().filter_map(Value::as_object).flatten() {
        let name = snake_case(name);
        match (name.as_str(), value) {
            ("reasoning", Value::Object(said)) => reasoning.extend(said.clone()),
            ("text", Value::Object(said)) => text.extend(said.clone()),
            ("reasoning_effort", _) => drop(reasoning.insert("effort".to_owned(), value.clone())),
            ("reasoning_summary", _) => drop(reasoning.insert("summary".to_owned(), value.clone())),
            ("text_verbosity", _) => drop(text.insert("verbosity".to_owned(), value.clone())),
            _ => drop(options.insert(name, value.clone())),
        }
    }
    if let Some(schema) = answer {
        let format = json!({ "type": "json_schema", "name": "answer", "schema": schema, "strict": is_strict(schema) });
        text.insert("format".to_owned(), format);
    }
    let made = [("reasoning", reasoning), ("text", text)].into_iter().filter(|(_, fields)| !fields.is_empty());
    options.extend(made.map(|(name, fields)| (name.to_owned(), fields.into())));
    options
}

fn snake_case(name: &str) -> String {
    let spelled = name.chars().flat_map(|letter| {
        let underscore = letter.is_ascii_uppercase().then_some('_');
        underscore.into_iter().chain([letter.to_ascii_lowercase()])
    });
    spelled.collect()
}

pub(crate) fn message(owner: &str, message: &Message) -> Vec<u8> {
    let items = match message.role {
        Role::Assistant => assistant(owner, &message.blocks),
        Role::User => user(&message.blocks),
    };
    let texts: Vec<String> = items.iter().map(Value::to_string).collect();
    texts.join(",").into_bytes()
}

fn assistant(owner: &str, blocks: &[Block]) -> Vec<Value> {
    let mut items: Vec<Value> = Vec::new();
    // What is said about the next message item; see `fold.rs`.
    let mut phase = None;
    for block in blocks {
        match block {
            Block::Text { text } if !text.trim().is_empty() => items.push(said(text, phase.take())),
            Block::Call { id, tool, input } => {
                items.push(json!({ "type": "function_call", "call_id": id, "name": tool, "arguments": as_object(input) }));
            }
            Block::Opaque { provider, raw } if provider == owner => match raw.get("phase") {
                Some(said) if raw.get("type").is_none() => phase = Some(said),
                _ => items.extend(Some(raw).filter(|raw| is_replayable(raw)).cloned()),
            },
            _ => {}
        }
    }
    // Thinking that led to nothing is refused: an answer that the limit cut, or a call that was never recorded.
    while items.last().is_some_and(is_thinking) {
        items.pop();
    }
    if items.is_empty() {
        items.push(said(NO_TEXT, None));
    }
    items
}

fn said(text: &str, phase: Option<&Value>) -> Value {
    let mut item = json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": text }] });
    if let Some(phase) = phase {
        item["phase"] = phase.clone();
    }
    item
}

/// What means something to a server that has kept nothing. An item that is only a reference would not be found there.
pub(crate) fn is_replayable(item: &Value) -> bool {
    let is_encrypted = item["encrypted_content"].as_str().is_some_and(|text| !text.is_empty());
    let is_open = is_thinking(item) && item["content"].as_array().is_some_and(|parts| !parts.is_empty());
    is_encrypted || is_open
}

fn is_thinking(item: &Value) -> bool {
    item["type"] == "reasoning"
}

fn user(blocks: &[Block]) -> Vec<Value> {
    let mut items = Vec::new();
    let mut content = Vec::new();
    for block in blocks {
        match block {
            Block::Result { id, text, images, .. } => {
                items.push(json!({ "type": "function_call_output", "call_id": id, "output": output(text, images) }));
            }
            Block::Image { mime, data } => content.push(image(mime, data)),
            Block::Text { text } if !text.trim().is_empty() => content.push(input_text(text)),
            _ => {}
        }
    }
    if content.is_empty() && items.is_empty() {
        content.push(input_text(NO_TEXT));
    }
    if !content.is_empty() {
        items.push(json!({ "type": "message", "role": "user", "content": content }));
    }
    items
}

/// A plain text, which every server knows; parts only for images. They stay inside the output, where the model sees
/// which call they belong to: OpenAI and the open specification of this API take them there, and a model that is not
/// known to see images is never sent one.
fn output(text: &str, images: &[(String, String)]) -> Value {
    let is_blank = text.trim().is_empty();
    if images.is_empty() {
        return if is_blank { NO_OUTPUT.into() } else { text.into() };
    }
    let text = (!is_blank).then(|| input_text(text));
    text.into_iter().chain(images.iter().map(|(mime, data)| image(mime, data))).collect()
}

fn input_text(text: &str) -> Value {
    json!({ "type": "input_text", "text": text })
}

fn image(mime: &str, data: &str) -> Value {
    json!({ "type": "input_image", "image_url": format!("data:{mime};base64,{data}") })
}

pub(crate) fn body(request: &Request, manner: Manner) -> Body {
    let tail = tail(request, manner);
    let mut body = Body::default();
    match request.head.windows(INCLUDE.len()).position(|window| window == INCLUDE) {
        Some(at) if !manner.asks_for_thinking => {
            body.push(&request.head[..at]);
            body.push(&request.head[at + INCLUDE.len()..]);
        }
        _ => body.share(&request.head),
    }
    body.share_joined(&request.messages, |_, message| {
        (!manner.replays_thinking).then(|| without_thinking(message)).flatten().map(String::into_bytes)
    });
    body.push(tail.as_bytes());
    body
}

/// The items of a message without those of thinking. One of them is never alone, so something is left.
fn without_thinking(message: &[u8]) -> Option<String> {
    let list = [b"[", message, b"]"].concat();
    let items: Vec<&RawValue> = serde_json::from_slice(&list).ok()?;
    let is_kept = |item: &&RawValue| !serde_json::from_str::<Value>(item.get()).is_ok_and(|item| is_thinking(&item));
    Some(items.into_iter().filter(is_kept).map(RawValue::get).collect::<Vec<_>>().join(","))
}

fn tail(request: &Request, manner: Manner) -> String {
    let choice = match request.tool_choice {
        ToolChoice::None if has_tools(&request.head) => r#","tool_choice":"none""#,
        _ => "",
    };
    let cache = match manner.names_cache {
        true => format!(r#","prompt_cache_key":{}"#, Value::from(request.lineage.as_str())),
        false => String::new(),
    };
    format!(r#"],"max_output_tokens":{}{choice}{cache}}}"#, request.output_max.max(OUTPUT_TOKENS_MIN))
}
