//! Gemini bodies: head | contents | tail, byte for byte the same for the same words.
//!
//! The output limit varies and stands in `generationConfig` beside what never changes, so that whole object is written
//! in the tail. What never changes of it comes first in the bytes of a head, up to a line break, which compact JSON
//! never has; `body` puts it where it belongs. Nothing here looks at a neighbouring message.

use posse_session::{Block, Head, Message, Request, Role, ToolChoice, ToolSpec};
use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};

use crate::{
    body::{Body, NO_OUTPUT, NO_TEXT, head_has},
    fold::as_object,
    provider::TAIL_KEYS,
};

/// Ends the part of a head that is written in the tail.
const BREAK: u8 = b'\n';

/// Stands for the signature of a call that Gemini 3 did not write itself: of another model's, or of a command's. Such
/// a model refuses a conversation in which a step's first call has none; this is Google's word for "it has none".
const UNSIGNED: &str = "skip_thought_signature_validator";

/// Options that belong into `generationConfig`; all others stay at the top level.
const GENERATION_FIELDS: &[&str] = &[
    "thinkingConfig",
    "topK",
    "seed",
    "stopSequences",
    "presencePenalty",
    "frequencyPenalty",
    "responseModalities",
    "mediaResolution",
    "responseMimeType",
    "responseSchema",
    "responseJsonSchema",
];

/// How messages are put for one model of one provider.
pub(crate) struct Voice {
    /// Whose opaque parts are sent back: a signature is worth nothing to anybody else.
    pub(crate) owner: String,
    /// Whether it refuses calls without a signature.
    wants_signatures: bool,
}

#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
struct WirePart<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_data: Option<WireImage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<WireCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<WireResponse<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireImage<'a> {
    mime_type: &'a str,
    data: &'a str,
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: &'a str,
    name: &'a str,
    args: Box<RawValue>,
}

#[derive(Serialize)]
struct WireResponse<'a> {
    id: &'a str,
    name: &'a str,
    response: Map<String, Value>,
}

#[derive(Serialize)]
struct WireContent<'a> {
    role: &'static str,
    parts: Vec<WirePart<'a>>,
}

pub(crate) fn head(head: &Head) -> Vec<u8> {
    let mut body = Map::new();
    let system: Vec<Value> = head.system.iter().filter(|text| !text.trim().is_empty()).map(|text| json!({ "text": text })).collect();
    if !system.is_empty() {
        body.insert("systemInstruction".to_owned(), json!({ "parts": system }));
    }
    if !head.tools.is_empty() {
        // The field for JSON Schema as it is written everywhere; `parameters` wants a dialect and refuses the rest.
        let tool = |tool: &ToolSpec| json!({ "name": tool.name, "description": tool.description, "parametersJsonSchema": tool.schema });
        body.insert("tools".to_owned(), json!([{ "functionDeclarations": head.tools.iter().map(tool).collect::<Vec<Value>>() }]));
    }
    let mut generation = Map::new();
    let numbers = [("temperature", head.params.temperature), ("topP", head.params.top_p)];
    generation.extend(numbers.into_iter().filter_map(|(key, number)| Some((key.to_owned(), number?.into()))));
    if let Some(schema) = head.answer.as_ref().filter(|_| head.tools.is_empty()) {
        // Beside tools, models before Gemini 3 refuse it; there the answer is only checked.
        generation.insert("responseMimeType".to_owned(), "application/json".into());
        generation.insert("responseJsonSchema".to_owned(), schema.clone());
    }
    for (key, value) in head.params.options.iter().filter_map(Value::as_object).flatten() {
        match value {
            Value::Object(fields) if key == "generationConfig" => add_missing(&mut generation, fields),
            value if GENERATION_FIELDS.contains(&key.as_str()) => drop(generation.entry(key.clone()).or_insert_with(|| value.clone())),
            value if !TAIL_KEYS.contains(&key.as_str()) => drop(body.entry(key.clone()).or_insert_with(|| value.clone())),
            _ => {}
        }
    }
    generation.remove("maxOutputTokens");
    let mut bytes = inside(generation);
    bytes.push(BREAK);
    let fields = inside(body);
    bytes.push(b'{');
    bytes.extend_from_slice(&fields);
    bytes.extend_from_slice(if fields.is_empty() { br#""contents":["# } else { br#","contents":["# });
    bytes
}

fn add_missing(fields: &mut Map<String, Value>, more: &Map<String, Value>) {
    for (key, value) in more {
        fields.entry(key.clone()).or_insert_with(|| value.clone());
    }
}

/// The fields of an object without its braces.
fn inside(fields: Map<String, Value>) -> Vec<u8> {
    let text = Value::Object(fields).to_string();
    text.as_bytes()[1..text.len() - 1].to_vec()
}

impl Voice {
    pub(crate) fn new(provider: &str, model: &str) -> Self {
        Self { owner: format!("gemini/{provider}"), wants_signatures: signs_calls(model) }
    }

    /// One of our messages as one content, or as two: results are a turn of their own.
    pub(crate) fn message(&self, message: &Message) -> Vec<u8> {
        let contents = match message.role {
            Role::Assistant => vec![WireContent { role: "model", parts: self.model_parts(&message.blocks) }],
            Role::User => user_contents(&message.blocks),
        };
        let texts: Vec<String> = contents.iter().map(|content| serde_json::to_string(content).unwrap_or_default()).collect();
        texts.join(",").into_bytes()
    }

    /// The body without what the server has signed.
    pub(crate) fn body_unsigned(&self, request: &Request) -> Body {
        body_of(request, |message| self.unsigned(message))
    }

    /// A message without its signatures; `None` if it has none.
    fn unsigned(&self, message: &[u8]) -> Option<Vec<u8>> {
        if !message.starts_with(br#"{"role":"model""#) {
            return None;
        }
        let list = [b"[", message, b"]"].concat();
        let mut contents: Vec<Value> = serde_json::from_slice(&list).ok()?;
        let mut had_any = false;
        for parts in contents.iter_mut().filter_map(|content| content["parts"].as_array_mut()) {
            for part in parts.iter_mut().filter_map(Value::as_object_mut) {
                had_any |= part.shift_remove("thoughtSignature").is_some();
            }
            // What was only there to be signed.
            parts.retain(|part| part["text"] != "");
            if let Some(first) = parts.iter_mut().find(|part| part["functionCall"].is_object()).filter(|_| self.wants_signatures) {
                first["thoughtSignature"] = UNSIGNED.into();
            }
            if parts.is_empty() {
                parts.push(json!({ "text": NO_TEXT }));
            }
        }
        had_any.then(|| contents.iter().map(Value::to_string).collect::<Vec<_>>().join(",").into_bytes())
    }

    fn model_parts<'a>(&self, blocks: &'a [Block]) -> Vec<WirePart<'a>> {
        let mut parts: Vec<WirePart<'a>> = Vec::new();
        // A signature waits for the part that it stands before; see `fold.rs`.
        let mut waiting: Option<Signature<'a>> = None;
        for block in blocks {
            let part = match block {
                Block::Text { text } if !text.trim().is_empty() => WirePart { text: Some(text), ..WirePart::default() },
                Block::Call { id, tool, input } => WirePart { function_call: Some(call(id, tool, input)), ..WirePart::default() },
                Block::Opaque { provider, raw } if *provider == self.owner => {
                    parts.extend(waiting.take().and_then(Signature::alone));
                    waiting = Signature::read(raw);
                    continue;
                }
                _ => continue,
            };
            let kind = if part.function_call.is_some() { ON_CALL } else { ON_TEXT };
            let thought_signature = waiting.take_if(|signature| signature.on == kind).map(|signature| signature.text);
            // Of another kind: its own part is gone.
            parts.extend(waiting.take().and_then(Signature::alone));
            parts.push(WirePart { thought_signature, ..part });
        }
        parts.extend(waiting.take().and_then(Signature::alone));
        if self.wants_signatures
            && let Some(first) = parts.iter_mut().find(|part| part.function_call.is_some())
        {
            first.thought_signature.get_or_insert(UNSIGNED);
        }
        if parts.is_empty() {
            parts.push(WirePart { text: Some(NO_TEXT), ..WirePart::default() });
        }
        parts
    }
}

/// What a signature was on, as `fold.rs` notes it.
pub(crate) const ON_CALL: &str = "call";
pub(crate) const ON_TEXT: &str = "text";
pub(crate) const ON_NOTHING: &str = "nothing";

struct Signature<'a> {
    text: &'a str,
    on: &'a str,
}

impl<'a> Signature<'a> {
    fn read(raw: &'a Value) -> Option<Self> {
        Some(Self { text: raw["thoughtSignature"].as_str()?, on: raw["on"].as_str().unwrap_or(ON_NOTHING) })
    }

    /// As a part without words. A call's signature is worth nothing without its call.
    fn alone(self) -> Option<WirePart<'a>> {
        (self.on != ON_CALL).then(|| WirePart { text: Some(""), thought_signature: Some(self.text), ..WirePart::default() })
    }
}

/// Gemini 3 and what came after, also under a name without a number, as `gemini-flash-latest`.
fn signs_calls(model: &str) -> bool {
    let name = model.rsplit('/').next().and_then(|name| name.strip_prefix("gemini-"));
    name.is_some_and(|name| !name.starts_with("1.") && !name.starts_with("2."))
}

fn call<'a>(id: &'a str, tool: &'a str, input: &str) -> WireCall<'a> {
    // `as_object` gives valid JSON, so this always is `Ok`; a call is never dropped in silence.
    let args = RawValue::from_string(as_object(input).into_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned());
    WireCall { id, name: tool, args }
}

fn user_contents(blocks: &[Block]) -> Vec<WireContent<'_>> {
    let (mut responses, mut said, mut images) = (Vec::new(), Vec::new(), Vec::new());
    for block in blocks {
        match block {
            Block::Result { id, tool, text, error, images: shown } => {
                responses.push(WirePart { function_response: Some(response(id, tool, text, *error)), ..WirePart::default() });
                images.extend(shown.iter().map(|(mime, data)| image(mime, data)));
            }
            Block::Image { mime, data } => said.push(image(mime, data)),
            Block::Text { text } if !text.trim().is_empty() => said.push(WirePart { text: Some(text), ..WirePart::default() }),
            _ => {}
        }
    }
    if responses.is_empty() && said.is_empty() {
        said.push(WirePart { text: Some(NO_TEXT), ..WirePart::default() });
    }
    // Only the newest models take an image inside a response, all of them in a turn of the user's.
    if !images.is_empty() {
        images.insert(0, WirePart { text: Some("(The images of the results above, in their order.)"), ..WirePart::default() });
    }
    said.splice(0..0, images);
    [responses, said].into_iter().filter(|parts| !parts.is_empty()).map(|parts| WireContent { role: "user", parts }).collect()
}

fn response<'a>(id: &'a str, tool: &'a str, text: &str, error: bool) -> WireResponse<'a> {
    let text = if text.trim().is_empty() { NO_OUTPUT } else { text };
    let key = if error { "error" } else { "output" };
    // A name must be there; where nobody knows the tool's, the id still pairs the two.
    WireResponse { id, name: if tool.is_empty() { id } else { tool }, response: Map::from_iter([(key.to_owned(), text.into())]) }
}

fn image<'a>(mime: &'a str, data: &'a str) -> WirePart<'a> {
    WirePart { inline_data: Some(WireImage { mime_type: mime, data }), ..WirePart::default() }
}

pub(crate) fn body(request: &Request) -> Body {
    body_of(request, |_| None)
}

/// `changed` gives what is sent in place of a message.
fn body_of(request: &Request, changed: impl Fn(&[u8]) -> Option<Vec<u8>>) -> Body {
    let at = request.head.iter().position(|byte| *byte == BREAK).unwrap_or_default();
    let (generation, head) = (&request.head[..at], &request.head[(at + 1).min(request.head.len())..]);
    let mut body = Body::default();
    body.push(head);
    body.share_joined(&request.messages, |_, message| changed(message));
    body.push(br#"],"generationConfig":{"#);
    body.push(generation);
    if !generation.is_empty() {
        body.push(b",");
    }
    let choice = match request.tool_choice {
        ToolChoice::None if has_tools(head) => r#","toolConfig":{"functionCallingConfig":{"mode":"NONE"}}"#,
        _ => "",
    };
    body.push(format!(r#""maxOutputTokens":{}}}{choice}}}"#, request.output_max.max(1)).as_bytes());
    body
}

fn has_tools(head: &[u8]) -> bool {
    head_has(head, br#""tools":[{"functionDeclarations":"#)
}
