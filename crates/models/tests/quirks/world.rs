//! What every quirk needs: a model at a scripted server, a conversation, and the requests that arrived.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use posse_models::{Api, FactsOverride, ProviderSpec, build};
use posse_session::{
    Block, Head, Live, Message, Model, ModelError, Prices, Progress, Reply, ReplyPart, Request, Role, SessionId, ToolChoice, ToolSpec,
};
use serde_json::{Value, json};

use crate::server::{Act, Server};

pub(crate) const KEY: &str = "sk-test-123456";

pub(crate) struct Nobody;

impl Live for Nobody {
    fn show(&self, _: Progress) {}
}

/// A model of this name at a provider that the user calls so.
pub(crate) fn model_of(provider: &str, api: Api, url: &str, model: &str) -> Arc<dyn Model> {
    let prices = Prices { input: 1.0, output: 2.0, cache_read: 0.5, cache_write: 0.0, ..Prices::default() };
    let facts = FactsOverride { cost: Some(prices), ..FactsOverride::default() };
    let spec = ProviderSpec {
        name: provider.into(),
        api,
        base_url: url.into(),
        api_key: Some(KEY.into()),
        key_place: None,
        headers: Vec::new(),
        models: BTreeMap::from([(model.to_owned(), facts)]),
    };
    build(&spec, model)
}

pub(crate) fn model(provider: &str, server: &Server) -> Arc<dyn Model> {
    model_of(provider, Api::OpenAi, &server.url, "m1")
}

pub(crate) fn tools() -> Head {
    let ls = ToolSpec { name: "ls".into(), description: "Lists".into(), schema: json!({ "type": "object" }) };
    Head { system: vec!["be brief".into()], tools: vec![ls], ..Head::default() }
}

pub(crate) fn user(text: &str) -> Message {
    Message { role: Role::User, blocks: vec![Block::Text { text: text.into() }] }
}

/// What comes back to a server as its own words.
pub(crate) fn assistant(parts: Vec<ReplyPart>) -> Message {
    let block = |part| match part {
        ReplyPart::Text(text) => Block::Text { text },
        ReplyPart::Reasoning { text, signature } => Block::Reasoning { text, signature },
        ReplyPart::Call { id, tool, input } => Block::Call { id, tool, input },
        ReplyPart::Opaque { provider, raw } => Block::Opaque { provider, raw },
    };
    Message { role: Role::Assistant, blocks: parts.into_iter().map(block).collect() }
}

pub(crate) fn result(id: &str, then: &str) -> Message {
    let result = Block::Result { id: id.into(), tool: "ls".into(), text: "a.txt".into(), error: false, images: Vec::new() };
    let words = Some(Block::Text { text: then.into() }).filter(|_| !then.is_empty());
    Message { role: Role::User, blocks: [result].into_iter().chain(words).collect() }
}

pub(crate) fn request(model: &dyn Model, head: &Head, messages: &[Message]) -> Request {
    Request {
        session: SessionId::new("ses_1"),
        lineage: SessionId::new("ses_1"),
        head: model.encode_head(head),
        messages: messages.iter().map(|message| model.encode(message)).collect(),
        tool_choice: ToolChoice::Auto,
        output_max: 100,
        idle_max: Duration::from_secs(10),
    }
}

pub(crate) async fn ask(model: &dyn Model) -> Result<Reply, ModelError> {
    model.reply(request(model, &tools(), &[user("hi")]), &Nobody).await
}

/// A good answer of these chunks, ended as most servers do.
pub(crate) fn streamed(chunks: &[Value]) -> Vec<Act> {
    let mut text: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    text.push_str("data: [DONE]\n\n");
    raw_stream(&text)
}

pub(crate) fn raw_stream(text: &str) -> Vec<Act> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    vec![Act::Send(head.into()), Act::Chunk(text.as_bytes().to_vec()), Act::End]
}

pub(crate) fn document(status: &str, body: &Value) -> Vec<Act> {
    let body = body.to_string();
    let text = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    vec![Act::Send(text.into_bytes())]
}

pub(crate) fn refusal(message: &str) -> Vec<Act> {
    document("400 Bad Request", &json!({ "error": { "message": message, "type": "invalid_request_error", "code": null } }))
}

pub(crate) fn chunk(delta: Value, finish: Option<&str>) -> Value {
    json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] })
}

/// `ok`, said in one chunk.
pub(crate) fn ok() -> Vec<Act> {
    streamed(&[chunk(json!({ "content": "ok" }), Some("stop"))])
}

pub(crate) fn said_ok() -> Vec<ReplyPart> {
    vec![ReplyPart::Text("ok".into())]
}

pub(crate) fn call(id: &str, input: &str) -> ReplyPart {
    ReplyPart::Call { id: id.into(), tool: "ls".into(), input: input.into() }
}

pub(crate) fn thought(text: &str) -> ReplyPart {
    ReplyPart::Reasoning { text: text.into(), signature: None }
}

/// The bodies that arrived, in order.
pub(crate) fn bodies(server: &Server) -> Vec<Value> {
    server.received().iter().map(|received| serde_json::from_slice(&received.body).unwrap()).collect()
}
