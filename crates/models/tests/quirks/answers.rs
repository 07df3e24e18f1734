//! Answers by a JSON schema: how each protocol asks for one, and what happens where it is refused.

use posse_models::Api;
use posse_session::{Head, ModelFailure};
use serde_json::{Value, json};

use crate::{
    server::{Act, Server},
    world::{Nobody, bodies, document, model_of, ok, raw_stream, refusal, request, said_ok, tools, user},
};

fn strict() -> Value {
    json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"], "additionalProperties": false })
}

/// A field may be left out.
fn loose() -> Value {
    json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": [], "additionalProperties": false })
}

fn open() -> Value {
    json!({ "type": "object", "properties": { "a": { "type": "string" } } })
}

fn answering(schema: Value, head: Head) -> Head {
    Head { answer: Some(schema), ..head }
}

fn anthropic_ok() -> Vec<Act> {
    let events = [
        json!({ "type": "message_start", "message": { "usage": { "input_tokens": 1 } } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "ok" } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" } }),
        json!({ "type": "message_stop" }),
    ];
    raw_stream(&events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>())
}

#[tokio::test]
async fn a_chat_server_is_told_the_schema_and_strictly_where_it_can_be_kept() {
    let server = Server::playing([ok(), ok(), ok()]).await;
    let model = model_of("mine", Api::OpenAi, &server.url, "m1");
    for (schema, is_strict) in [(strict(), true), (loose(), false), (open(), false)] {
        let head = answering(schema.clone(), Head::default());
        model.reply(request(&*model, &head, &[user("hi")]), &Nobody).await.unwrap();
        let format = bodies(&server).pop().unwrap()["response_format"].clone();
        assert_eq!(format, json!({ "type": "json_schema", "json_schema": { "name": "answer", "strict": is_strict, "schema": schema } }));
    }
}

#[tokio::test]
async fn beside_tools_the_schema_goes_only_where_it_leaves_the_model_free_to_call_them() {
    for (provider, is_sent) in [("azure", true), ("openrouter", true), ("xai", true), ("ollama", false), ("groq", false), ("mine", false)] {
        let server = Server::playing([ok()]).await;
        let model = model_of(provider, Api::OpenAi, &server.url, "m1");
        model.reply(request(&*model, &answering(strict(), tools()), &[user("hi")]), &Nobody).await.unwrap();
        assert_eq!(bodies(&server)[0].get("response_format").is_some(), is_sent, "{provider}");
    }
}

#[tokio::test]
async fn a_chat_server_that_refuses_the_schema_is_asked_without_and_remembered() {
    for refused in [
        refusal("This response_format type is unavailable now"),
        refusal("json mode cannot be combined with tool/function calling"),
        refusal("Invalid schema for response_format 'answer': 'required' is required"),
        document(
            "500 Internal Server Error",
            &json!({ "error": { "code": 500, "message": "Failed to parse grammar", "type": "server_error" } }),
        ),
    ] {
        let server = Server::playing([refused, ok(), ok()]).await;
        let model = model_of("openrouter", Api::OpenAi, &server.url, "m1");
        for _ in 0..2 {
            let request = request(&*model, &answering(strict(), tools()), &[user("hi")]);
            assert_eq!(model.reply(request, &Nobody).await.unwrap().parts, said_ok());
        }
        let sent: Vec<bool> = bodies(&server).iter().map(|body| body.get("response_format").is_some()).collect();
        assert_eq!(sent, [true, false, false]);
        assert!(bodies(&server).iter().all(|body| body["tools"].is_array()));
    }
}

#[tokio::test]
async fn without_a_schema_no_refusal_of_one_is_believed() {
    let server = Server::playing([refusal("Invalid schema for function 'ls'")]).await;
    let model = model_of("openrouter", Api::OpenAi, &server.url, "m1");
    let error = model.reply(request(&*model, &tools(), &[user("hi")]), &Nobody).await.unwrap_err();
    assert_eq!((error.failure, server.received().len()), (ModelFailure::BadRequest, 1));
}

#[tokio::test]
async fn anthropic_is_told_a_closed_schema_beside_its_tools() {
    let server = Server::playing([anthropic_ok(), anthropic_ok(), anthropic_ok()]).await;
    let model = model_of("anthropic-relay", Api::Anthropic, &server.url, "m1");
    for (schema, is_sent) in [(strict(), true), (loose(), true), (open(), false)] {
        let mut head = answering(schema.clone(), tools());
        head.params.options = Some(json!({ "output_config": { "effort": "low" } }));
        model.reply(request(&*model, &head, &[user("hi")]), &Nobody).await.unwrap();
        let config = bodies(&server).pop().unwrap()["output_config"].clone();
        let format = json!({ "type": "json_schema", "schema": schema });
        // What the user set beside it stays.
        assert_eq!((config.get("format"), &config["effort"]), (Some(&format).filter(|_| is_sent), &json!("low")));
    }
}

#[tokio::test]
async fn an_anthropic_model_that_knows_no_schema_is_asked_without_and_remembered() {
    for message in [
        "output_config: Extra inputs are not permitted",
        "'claude-3-haiku-20240307' does not support output format.",
        "output_config.format.schema: recursive schemas are not supported",
    ] {
        let server = Server::playing([refusal(message), anthropic_ok(), anthropic_ok()]).await;
        let model = model_of("anthropic-relay", Api::Anthropic, &server.url, "m1");
        for _ in 0..2 {
            let request = request(&*model, &answering(strict(), tools()), &[user("hi")]);
            assert_eq!(model.reply(request, &Nobody).await.unwrap().parts, said_ok());
        }
        let bodies = bodies(&server);
        assert_eq!(bodies.iter().map(|body| body.get("output_config").is_some()).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!((&bodies[0]["tools"], &bodies[0]["cache_control"]), (&bodies[1]["tools"], &bodies[1]["cache_control"]));
    }
}

#[tokio::test]
async fn an_anthropic_endpoint_may_refuse_markers_and_schema_one_after_the_other() {
    let server = Server::playing([refusal("cache_control: unknown"), refusal("output_config: unknown"), anthropic_ok()]).await;
    let model = model_of("anthropic-relay", Api::Anthropic, &server.url, "m1");
    model.reply(request(&*model, &answering(strict(), tools()), &[user("hi")]), &Nobody).await.unwrap();
    let server = Server::playing([refusal("output_config: no"), refusal("output_config: no")]).await;
    let model = model_of("anthropic-relay", Api::Anthropic, &server.url, "m1");
    let error = model.reply(request(&*model, &answering(strict(), tools()), &[user("hi")]), &Nobody).await.unwrap_err();
    assert_eq!((error.failure, server.received().len()), (ModelFailure::BadRequest, 2));
}

/// The words of a refusal may be about something else, as the schema of a tool.
#[tokio::test]
async fn a_schema_that_was_not_to_blame_is_sent_again() {
    for (api, provider, field, good) in
        [(Api::Anthropic, "anthropic-relay", "output_config", anthropic_ok()), (Api::OpenAi, "openrouter", "response_format", ok())]
    {
        let about_a_tool = || refusal("tools.0: the schema is invalid, and so is a json_schema in it");
        let server = Server::playing([about_a_tool(), about_a_tool(), good]).await;
        let model = model_of(provider, api, &server.url, "m1");
        let head = answering(strict(), tools());
        let error = model.reply(request(&*model, &head, &[user("hi")]), &Nobody).await.unwrap_err();
        assert_eq!(error.failure, ModelFailure::BadRequest);
        model.reply(request(&*model, &head, &[user("hi")]), &Nobody).await.unwrap();
        let sent: Vec<bool> = bodies(&server).iter().map(|body| body.get(field).is_some()).collect();
        assert_eq!(sent, [true, false, true], "{provider}");
    }
}
