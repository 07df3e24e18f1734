//! Anthropic bodies: head | messages | tail, byte for byte the same for the same words.
//!
//! The head ends with `"messages":[`, messages are joined by commas, the tail closes them. Nothing here looks at a
//! neighbour, so a body without its tail is the start of the next one. No IO; `anthropic.rs` sends.

use std::borrow::Cow;

use posse_session::{Block, Head, Message, Request, Role, ToolChoice};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json, value::RawValue};

use super::PROVIDER;
use crate::{
    body::{Body, NO_OUTPUT, NO_TEXT, has_tools, head_has},
    fold::as_object,
    provider::merge_params,
    recast::recast,
    strict::is_closed,
};

/// The marker as it stands in a body. Inside a JSON string its quotes would be escaped, so this never hits a text.
const MARKER: &[u8] = br#","cache_control":{"type":"ephemeral"}"#;

/// How this endpoint takes cache markers; found out by its refusals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Caching {
    /// One marker at the top level: the server finds the last block itself.
    Automatic = 0,
    /// The marker is spliced into the last block when sending, and never stored.
    Spliced = 1,
    /// The server knows no markers at all.
    Off = 2,
}

/// What becomes of the thinking that the provider has sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replay {
    /// It goes back as it came.
    Sealed,
    /// It is left out, because the provider cannot read it.
    Open,
    /// It is left out and the model is not asked to think: whoever thinks must have begun its turn so.
    Unthinking,
}

/// How this request is put, as far as endpoints and conversations differ.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) caching: Caching,
    /// Without the schema of the answer.
    pub(crate) drops_format: bool,
    pub(crate) replay: Replay,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WireBlock<'a> {
    Text {
        text: &'a str,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    Image {
        source: WireImage<'a>,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: Box<RawValue>,
    },
    ToolResult {
        tool_use_id: &'a str,
        content: WireContent<'a>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    #[serde(untagged)]
    Opaque(&'a Value),
}

#[derive(Serialize)]
struct WireImage<'a> {
    r#type: &'static str,
    media_type: &'a str,
    data: &'a str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum WireContent<'a> {
    Text(&'a str),
    Blocks(Vec<WireBlock<'a>>),
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: Role,
    content: Vec<WireBlock<'a>>,
}

pub(crate) fn head(model: &str, head: &Head) -> Vec<u8> {
    let marker = json!({ "type": "ephemeral" });
    let mut body = Map::new();
    body.insert("model".to_owned(), model.into());
    // Directly after the model, where `body` finds it when an endpoint refuses it.
    body.insert("cache_control".to_owned(), marker.clone());
    body.insert("stream".to_owned(), true.into());
    let mut system: Vec<Value> =
        head.system.iter().filter(|text| !text.trim().is_empty()).map(|text| json!({ "type": "text", "text": text })).collect();
    if let Some(last) = system.last_mut() {
        last["cache_control"] = marker;
        body.insert("system".to_owned(), system.into());
    }
    if !head.tools.is_empty() {
        let tool =
            |tool: &posse_session::ToolSpec| json!({ "name": tool.name, "description": tool.description, "input_schema": tool.schema });
        body.insert("tools".to_owned(), head.tools.iter().map(tool).collect());
    }
    merge_params(&mut body, &head.params);
    // An open schema is refused with the whole request, and then no other would be sent any more.
    if let Some(schema) = head.answer.as_ref().filter(|schema| is_closed(schema)) {
        let config = body.entry("output_config").or_insert_with(|| json!({}));
        if let Some(config) = config.as_object_mut() {
            config.insert("format".to_owned(), json!({ "type": "json_schema", "schema": schema }));
        }
    }
    let mut bytes = Value::Object(body).to_string().into_bytes();
    bytes.pop();
    bytes.extend_from_slice(br#","messages":["#);
    bytes
}

pub(crate) fn message(message: &Message) -> Vec<u8> {
    // The protocol wants results before anything else; the order among each kind is kept.
    let (results, others): (Vec<&Block>, Vec<&Block>) = message.blocks.iter().partition(|block| matches!(block, Block::Result { .. }));
    let mut content: Vec<WireBlock<'_>> = results.into_iter().chain(others).filter_map(wire_block).collect();
    if matches!(content.last(), None | Some(WireBlock::Thinking { .. })) {
        content.push(WireBlock::Text { text: NO_TEXT });
    }
    serde_json::to_vec(&WireMessage { role: message.role, content }).unwrap_or_default()
}

fn wire_block(block: &Block) -> Option<WireBlock<'_>> {
    match block {
        Block::Text { text } => (!text.trim().is_empty()).then_some(WireBlock::Text { text }),
        // Without its signature the provider refuses it.
        Block::Reasoning { text, signature } => signature.as_ref().map(|signature| WireBlock::Thinking { thinking: text, signature }),
        Block::Image { mime, data } => Some(image(mime, data)),
        Block::Call { id, tool, input } => {
            // `as_object` gives valid JSON, so this always is `Ok`; a call is never dropped in silence.
            let input = RawValue::from_string(as_object(input).into_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned());
            Some(WireBlock::ToolUse { id, name: tool, input })
        }
        Block::Result { id, text, error, images, .. } => {
            Some(WireBlock::ToolResult { tool_use_id: id, content: result_content(text, images), is_error: *error })
        }
        Block::Opaque { provider, raw } => (provider == PROVIDER).then_some(WireBlock::Opaque(raw)),
    }
}

fn result_content<'a>(text: &'a str, images: &'a [(String, String)]) -> WireContent<'a> {
    let is_blank = text.trim().is_empty();
    if images.is_empty() {
        return WireContent::Text(if is_blank { NO_OUTPUT } else { text });
    }
    let text = (!is_blank).then_some(WireBlock::Text { text });
    WireContent::Blocks(text.into_iter().chain(images.iter().map(|(mime, data)| image(mime, data))).collect())
}

fn image<'a>(mime: &'a str, data: &'a str) -> WireBlock<'a> {
    WireBlock::Image { source: WireImage { r#type: "base64", media_type: mime, data } }
}

/// Whether a head asks for an answer by a schema. A tool's parameter of that name would only cost one request more.
pub(crate) fn has_answer_format(head: &[u8]) -> bool {
    head_has(head, br#","output_config":{"#)
}

/// The head without the schema of the answer; what else the user set beside it stays.
fn without_answer_format(head: &[u8]) -> Vec<u8> {
    recast(head, |body| {
        let Some(Value::Object(config)) = body.get_mut("output_config") else { return };
        config.shift_remove("format");
        if config.is_empty() {
            body.shift_remove("output_config");
        }
    })
}

/// The blocks of an answer without its thinking, each as it stands; `None` if there is none.
fn without_thinking(message: &[u8]) -> Option<Vec<u8>> {
    #[derive(Deserialize)]
    struct Sent<'a> {
        #[serde(borrow)]
        content: Vec<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Kind<'a> {
        #[serde(borrow)]
        r#type: Cow<'a, str>,
    }
    if !message.starts_with(br#"{"role":"assistant""#) {
        return None;
    }
    let sent: Sent<'_> = serde_json::from_slice(message).ok()?;
    let is_kept = |block: &&RawValue| {
        serde_json::from_str::<Kind<'_>>(block.get()).is_ok_and(|kind| !matches!(&*kind.r#type, "thinking" | "redacted_thinking"))
    };
    let kept: Vec<&str> = sent.content.iter().copied().filter(is_kept).map(RawValue::get).collect();
    if kept.len() == sent.content.len() {
        return None;
    }
    let silent = json!({ "type": "text", "text": NO_TEXT }).to_string();
    let content = if kept.is_empty() { silent } else { kept.join(",") };
    Some(format!(r#"{{"role":"assistant","content":[{content}]}}"#).into_bytes())
}

/// The whole body. Markers are moved here and only here, so what is stored never changes.
pub(crate) fn body(request: &Request, manner: Manner) -> Body {
    let Manner { caching, drops_format, replay } = manner;
    let mut head: Cow<'_, [u8]> = Cow::Borrowed(&*request.head);
    if drops_format {
        head = Cow::Owned(without_answer_format(&head));
    }
    if replay == Replay::Unthinking {
        head = Cow::Owned(recast(&head, |body| drop(body.shift_remove("thinking"))));
    }
    let mut body = Body::default();
    match caching {
        Caching::Automatic if matches!(head, Cow::Borrowed(_)) => body.share(&request.head),
        Caching::Automatic => body.push(&head),
        Caching::Spliced => push_without_marker(&mut body, &head, 1),
        Caching::Off => push_without_marker(&mut body, &head, usize::MAX),
    }
    body.share_joined(&request.messages, |nth, message| {
        let is_spliced = nth + 1 == request.messages.len() && caching == Caching::Spliced;
        let open = if replay == Replay::Sealed { None } else { without_thinking(message) };
        let spliced = open.as_deref().unwrap_or(message).strip_suffix(b"}]}").filter(|_| is_spliced);
        spliced.map(|start| [start, MARKER, b"}]}"].concat()).or(open)
    });
    body.push(tail(request).as_bytes());
    body
}

fn push_without_marker(body: &mut Body, head: &[u8], mut times: usize) {
    let mut rest = head;
    while let Some(at) = rest.windows(MARKER.len()).position(|window| 0 < times && window == MARKER) {
        body.push(&rest[..at]);
        rest = &rest[at + MARKER.len()..];
        times -= 1;
    }
    body.push(rest);
}

fn tail(request: &Request) -> String {
    // A choice without tools is refused.
    let choice = match request.tool_choice {
        ToolChoice::None if has_tools(&request.head) => r#","tool_choice":{"type":"none"}"#,
        _ => "",
    };
    format!(r#"],"max_tokens":{}{choice}}}"#, request.output_max.max(1))
}
