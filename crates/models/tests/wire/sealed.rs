//! Sealed thinking that its provider cannot read any more: the session goes on without it, for Anthropic and Gemini too.

use posse_models::Api;
use posse_session::{Model, ModelFailure, Reply, ReplyPart, Request};
use serde_json::{Value, json};

use crate::{
    Shown, answer, events, gemini, model, plain, request,
    responses::{bodies, gone_on},
    said,
    server::{Act, Server},
    stream_head,
};

const UNREADABLE: &str = "messages.1.content.0: Invalid `signature` in `thinking` block";

fn refused(message: &str) -> Vec<Act> {
    let body = json!({ "type": "error", "error": { "type": "invalid_request_error", "message": message } });
    plain("400 Bad Request", "", &body.to_string())
}

/// A thought, a sealed one, and a call.
fn thinking() -> Vec<Act> {
    let block = |index: usize, block: Value| {
        [
            json!({ "type": "content_block_start", "index": index, "content_block": block }),
            json!({ "type": "content_block_stop", "index": index }),
        ]
    };
    let mut values = vec![json!({ "type": "message_start", "message": { "usage": { "input_tokens": 10, "output_tokens": 1 } } })];
    values.extend(block(0, json!({ "type": "thinking", "thinking": "hm", "signature": "sealed-1" })));
    values.extend(block(1, json!({ "type": "redacted_thinking", "data": "sealed-2" })));
    values.extend(block(2, json!({ "type": "tool_use", "id": "toolu_1", "name": "ls", "input": { "path": "." } })));
    values.push(json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" }, "usage": { "output_tokens": 5 } }));
    values.push(json!({ "type": "message_stop" }));
    [vec![stream_head()], events(&values), vec![Act::End]].concat()
}

/// The head of a model that is asked to think.
fn thinks(model: &dyn Model, request: Request) -> Request {
    let options = json!({ "thinking": { "type": "enabled", "budget_tokens": 1024 } });
    let head = posse_session::Head {
        params: posse_session::Params { options: Some(options), ..Default::default() },
        ..posse_session::Head::default()
    };
    Request { head: model.encode_head(&head), ..request }
}

async fn first(model: &dyn Model) -> Reply {
    model.reply(request(model), &Shown::default()).await.unwrap()
}

#[tokio::test]
async fn anthropic_goes_on_without_the_thinking_that_cannot_be_read() {
    let server = Server::playing([thinking(), refused(UNREADABLE), answer("done"), refused(UNREADABLE), answer("more")]).await;
    let model = model(&server.url, Api::Anthropic);
    let reply = first(&*model).await;
    let request = thinks(&*model, gone_on(&*model, reply));
    for words in ["done", "more"] {
        assert_eq!(said(model.reply(request.clone(), &Shown::default()).await), [ReplyPart::Text(words.into())]);
    }
    let bodies = bodies(&server);
    let content = |at: usize| bodies[at]["messages"][1]["content"].clone();
    let call = json!({ "type": "tool_use", "id": "toolu_1", "name": "ls", "input": { "path": "." } });
    assert_eq!(content(1).as_array().map(Vec::len), Some(3), "{:#}", bodies[1]);
    assert_eq!(content(2), json!([call]));
    assert_eq!(bodies[2]["thinking"], bodies[1]["thinking"], "what comes from now on is thought all the same");
    let received = server.received();
    assert_eq!(received[2].body, received[4].body, "the same conversation without it gives the same bytes");
}

#[tokio::test]
async fn anthropic_is_asked_without_thinking_where_a_turn_must_have_begun_with_it() {
    let must = "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final `assistant` message must start with a thinking block";
    let server = Server::playing([thinking(), refused(UNREADABLE), refused(must), answer("done")]).await;
    let model = model(&server.url, Api::Anthropic);
    let reply = first(&*model).await;
    let request = thinks(&*model, gone_on(&*model, reply));
    assert_eq!(said(model.reply(request, &Shown::default()).await), [ReplyPart::Text("done".into())]);
    let thinks: Vec<bool> = bodies(&server).iter().map(|body| body.get("thinking").is_some()).collect();
    assert_eq!(thinks, [false, true, true, false]);
}

#[tokio::test]
async fn an_answer_of_nothing_but_thinking_stays_a_message() {
    let thought = json!({ "type": "thinking", "thinking": "hm", "signature": "sealed-1" });
    let values = [
        json!({ "type": "content_block_start", "index": 0, "content_block": thought }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_stop" }),
    ];
    let only_thinks = [vec![stream_head()], events(&values), vec![Act::End]].concat();
    let server = Server::playing([only_thinks, refused(UNREADABLE), answer("done")]).await;
    let model = model(&server.url, Api::Anthropic);
    let reply = first(&*model).await;
    said(model.reply(gone_on(&*model, reply), &Shown::default()).await);
    let content = bodies(&server)[2]["messages"][1]["content"].clone();
    assert_eq!(content.as_array().map(Vec::len), Some(1), "{content}");
    assert!(content[0]["text"].is_string(), "{content}");
}

#[tokio::test]
async fn gemini_goes_on_without_the_signatures_that_cannot_be_read() {
    let unreadable = || {
        let body = json!({ "error": { "code": 400, "status": "INVALID_ARGUMENT", "message": "Thought signature is not valid." } });
        plain("400 Bad Request", "", &body.to_string())
    };
    let parts = json!([
        { "text": "", "thoughtSignature": "sealed-1" },
        { "functionCall": { "name": "ls", "args": { "path": "." } }, "thoughtSignature": "sealed-2" },
    ]);
    let script = [gemini::answer(parts), unreadable(), gemini::answer(json!([{ "text": "done" }])), unreadable(), unreadable()];
    let server = Server::playing(script).await;
    let model = model(&server.url, Api::Gemini);
    let reply = first(&*model).await;
    let request = gone_on(&*model, reply);
    assert_eq!(said(model.reply(request.clone(), &Shown::default()).await), [ReplyPart::Text("done".into())]);
    let sent = bodies(&server);
    assert!(sent[1].to_string().contains("sealed-2"), "{:#}", sent[1]);
    let call = json!({ "functionCall": { "id": "call_0", "name": "ls", "args": { "path": "." } } });
    assert_eq!(sent[2]["contents"][1], json!({ "role": "model", "parts": [call] }));
    assert_eq!(sent[2]["contents"][0], sent[1]["contents"][0]);
    // A server that always says so is asked once more and then believed.
    assert_eq!(model.reply(request, &Shown::default()).await.unwrap_err().failure, ModelFailure::BadRequest);
    assert_eq!(server.received().len(), 5);
}
