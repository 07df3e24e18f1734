//! OpenAI Responses over a real socket: what goes out, what comes back and goes out again, and what it refuses.

use posse_models::Api;
use posse_session::{Block, Finish, Message, ModelFailure, Reply, ReplyPart, Request, Role};
use serde_json::{Value, json};

use crate::{
    KEY, Shown, ask, events, model, plain, request, said,
    server::{Act, Server},
    stream_head,
};

fn thinking() -> Value {
    json!({ "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA-secret" })
}

fn answer(items: &[Value]) -> Vec<Act> {
    let mut values = vec![json!({ "type": "response.created", "response": { "status": "in_progress" } })];
    values.extend(
        items.iter().enumerate().map(|(at, item)| json!({ "type": "response.output_item.done", "output_index": at, "item": item })),
    );
    let usage = json!({ "input_tokens": 1000, "input_tokens_details": { "cached_tokens": 400 }, "output_tokens": 500 });
    values.push(json!({ "type": "response.completed", "response": { "status": "completed", "usage": usage } }));
    [vec![stream_head()], events(&values), vec![Act::End]].concat()
}

fn text(words: &str) -> Value {
    json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": words }] })
}

fn call() -> Value {
    json!({ "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "ls", "arguments": "{\"path\":\".\"}", "status": "completed" })
}

/// The conversation after this reply, with a result for its call.
pub(crate) fn gone_on(model: &dyn posse_session::Model, reply: Reply) -> Request {
    let first = request(model);
    let blocks = reply.parts.into_iter().map(|part| match part {
        ReplyPart::Text(text) => Block::Text { text },
        ReplyPart::Reasoning { text, signature } => Block::Reasoning { text, signature },
        ReplyPart::Call { id, tool, input } => Block::Call { id, tool, input },
        ReplyPart::Opaque { provider, raw } => Block::Opaque { provider, raw },
    });
    let assistant = Message { role: Role::Assistant, blocks: blocks.collect() };
    let result = assistant.blocks.iter().find_map(|block| match block {
        Block::Call { id, tool, .. } => {
            Some(Block::Result { id: id.clone(), tool: tool.clone(), text: "a b".into(), error: false, images: Vec::new() })
        }
        _ => None,
    });
    let user = Message { role: Role::User, blocks: result.into_iter().collect() };
    let messages = first.messages.iter().cloned().chain([model.encode(&assistant), model.encode(&user)]).collect();
    Request { messages, ..first }
}

pub(crate) fn bodies(server: &Server) -> Vec<Value> {
    server.received().iter().map(|received| serde_json::from_slice(&received.body).unwrap()).collect()
}

#[tokio::test]
async fn thinking_goes_back_unchanged_with_its_call() {
    let server = Server::playing([answer(&[thinking(), call()]), answer(&[text("done")])]).await;
    let model = model(&server.url, Api::OpenAiResponses);
    let reply = model.reply(request(&*model), &Shown::default()).await.unwrap();
    assert_eq!((reply.finish, reply.usage.input, reply.usage.cache_read, reply.usage.cost_usd), (Finish::Calls, 600, 400, 0.0016));
    assert_eq!(said(model.reply(gone_on(&*model, reply), &Shown::default()).await), [ReplyPart::Text("done".into())]);
    let received = server.received().remove(0);
    assert!(received.head.starts_with("post /v1/responses http/1.1\r\n"), "{}", received.head);
    assert!(received.head.contains(&format!("\r\nauthorization: bearer {KEY}\r\n")), "{}", received.head);
    let bodies = bodies(&server);
    let (first, second) = (&bodies[0], &bodies[1]);
    assert_eq!((&first["model"], &first["store"], &first["instructions"]), (&json!("m1"), &json!(false), &json!("be brief")));
    assert_eq!(first["include"], json!(["reasoning.encrypted_content"]));
    assert_eq!(
        second["input"],
        json!([
            first["input"][0],
            thinking(),
            { "type": "function_call", "call_id": "call_1", "name": "ls", "arguments": "{\"path\":\".\"}" },
            { "type": "function_call_output", "call_id": "call_1", "output": "a b" },
        ])
    );
    assert_eq!(first["prompt_cache_key"], Value::Null, "only OpenAI itself surely knows it");
}

#[tokio::test]
async fn another_provider_is_not_sent_what_it_cannot_read() {
    let server = Server::playing([answer(&[thinking(), call()]), answer(&[text("done")])]).await;
    let first = model(&server.url, Api::OpenAiResponses);
    let reply = first.reply(request(&*first), &Shown::default()).await.unwrap();
    let spec = posse_models::ProviderSpec {
        name: "other".into(),
        api: Api::OpenAiResponses,
        base_url: server.url.clone(),
        api_key: None,
        key_place: None,
        headers: Vec::new(),
        models: Default::default(),
    };
    let other = posse_models::build(&spec, "m1");
    said(other.reply(gone_on(&*other, reply), &Shown::default()).await);
    let sent = String::from_utf8(server.received().remove(1).body).unwrap();
    assert!(sent.contains("call_1") && !sent.contains("gAAAA-secret"), "{sent}");
}

#[tokio::test]
async fn a_model_without_encrypted_thinking_is_asked_again_without_it_and_remembered() {
    let refused = json!({ "error": { "message": "Encrypted content is not supported with this model.", "type": "invalid_request_error", "param": "include", "code": null } });
    let server =
        Server::playing([plain("400 Bad Request", "", &refused.to_string()), answer(&[text("one")]), answer(&[text("two")])]).await;
    let model = model(&server.url, Api::OpenAiResponses);
    for words in ["one", "two"] {
        assert_eq!(said(model.reply(request(&*model), &Shown::default()).await), [ReplyPart::Text(words.into())]);
    }
    let asked: Vec<bool> = bodies(&server).iter().map(|body| body.get("include").is_some()).collect();
    assert_eq!(asked, [true, false, false]);
}

#[tokio::test]
async fn thinking_that_the_provider_can_no_longer_read_ends_no_session() {
    let refused = json!({ "error": { "message": "The encrypted content gAAA could not be verified. Reason: Encrypted content could not be decrypted or parsed.", "type": "invalid_request_error", "code": "invalid_encrypted_content" } }).to_string();
    let refusal = || plain("400 Bad Request", "", &refused);
    let server =
        Server::playing([answer(&[thinking(), call()]), refusal(), answer(&[text("done")]), refusal(), refusal(), refusal()]).await;
    let model = model(&server.url, Api::OpenAiResponses);
    let reply = model.reply(request(&*model), &Shown::default()).await.unwrap();
    let request = gone_on(&*model, reply);
    assert_eq!(said(model.reply(request.clone(), &Shown::default()).await), [ReplyPart::Text("done".into())]);
    let inputs: Vec<usize> = bodies(&server).iter().map(|body| body["input"].as_array().unwrap().len()).collect();
    assert_eq!(inputs, [1, 4, 3]);
    // A server that always says so is asked a few times and then believed.
    assert_eq!(model.reply(request, &Shown::default()).await.unwrap_err().failure, ModelFailure::BadRequest);
    assert_eq!(server.received().len(), 6);
}

#[tokio::test]
async fn an_error_over_a_good_status_is_told_and_ends_at_once() {
    let quota = json!({ "type": "error", "code": "insufficient_quota", "message": "You exceeded your current quota", "param": null });
    let slow = json!({ "type": "error", "code": "rate_limit_exceeded", "message": "Please try again in 1.5s." });
    for (error, failure, wait) in [(quota, ModelFailure::Auth, None), (slow, ModelFailure::RateLimited, Some(1500))] {
        let server = Server::playing([[vec![stream_head()], events(&[error]), vec![Act::Hold]].concat()]).await;
        let error = ask(&server, Api::OpenAiResponses).await.unwrap_err();
        assert_eq!((error.failure, error.retry_after.map(|wait| wait.as_millis())), (failure, wait), "{error}");
        server.hung_up().await;
    }
}

#[tokio::test]
async fn a_stream_without_its_end_was_cut() {
    let delta = json!({ "type": "response.output_text.delta", "output_index": 0, "delta": "half" });
    for end in [Act::Close, Act::End] {
        let server = Server::playing([[vec![stream_head()], events(std::slice::from_ref(&delta)), vec![end.clone()]].concat()]).await;
        let error = ask(&server, Api::OpenAiResponses).await.unwrap_err();
        assert_eq!((error.failure, error.partial.as_str()), (ModelFailure::Cut, "half"), "{end:?}");
    }
}
