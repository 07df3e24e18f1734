//! Servers on the user's own machine: Ollama, llama.cpp, llama-cpp-python, vLLM, LM Studio.

use posse_models::Api;
use posse_session::{Finish, ModelFailure, ReplyPart, Request, ToolChoice};
use serde_json::{Value, json};

use crate::{
    server::{Act, Server},
    world::{
        Nobody, ask, bodies, call, chunk, document, model, model_of, ok, raw_stream, request, said_ok, streamed, thought, tools, user,
    },
};

/// An answer that ends well and holds nothing, as old releases of Ollama gave it when the model had called a tool.
fn lost() -> Vec<Act> {
    let mut last = chunk(json!({ "role": "assistant", "content": "" }), Some("stop"));
    last["usage"] = json!({ "prompt_tokens": 26, "completion_tokens": 10 });
    streamed(&[last])
}

fn whole(message: Value) -> Vec<Act> {
    let choice = json!({ "index": 0, "message": message, "finish_reason": "tool_calls" });
    document(
        "200 OK",
        &json!({ "object": "chat.completion", "choices": [choice], "usage": { "prompt_tokens": 26, "completion_tokens": 12 } }),
    )
}

fn whole_call() -> Vec<Act> {
    let calls = json!([{ "id": "call_x", "index": 0, "type": "function", "function": { "name": "ls", "arguments": "{\"p\":1}" } }]);
    whole(json!({ "role": "assistant", "content": "", "tool_calls": calls }))
}

#[tokio::test]
async fn ollama_lost_the_calls_of_a_stream_and_is_asked_once_for_a_document() {
    let server = Server::playing([lost(), whole_call()]).await;
    let reply = ask(&*model("ollama", &server)).await.unwrap();
    assert_eq!((reply.parts.as_slice(), reply.finish), ([call("call_x", "{\"p\":1}")].as_slice(), Finish::Calls));
    // Both answers were worked for.
    assert_eq!((reply.usage.input, reply.usage.output), (52, 22));
    let bodies = bodies(&server);
    assert_eq!((&bodies[0]["stream"], &bodies[1]["stream"]), (&json!(true), &json!(false)));
    assert!(bodies[1].get("stream_options").is_none());
    for key in ["model", "messages", "tools", "max_tokens"] {
        assert_eq!(bodies[0][key], bodies[1][key], "{key}");
    }
}

#[tokio::test]
async fn an_empty_answer_is_asked_for_again_only_once_and_only_where_calls_can_be_lost() {
    // The document is as empty: that is the answer.
    let server = Server::playing([lost(), whole(json!({ "role": "assistant", "content": "" }))]).await;
    let reply = ask(&*model("ollama", &server)).await.unwrap();
    assert_eq!((reply.parts.len(), server.received().len()), (0, 2));
    // The document fails: its failure is the answer.
    let server = Server::playing([lost(), document("500 Oops", &json!({ "error": "no" }))]).await;
    assert_eq!(ask(&*model("ollama", &server)).await.unwrap_err().failure, ModelFailure::Server);
    // Nothing to call, and the closing step: an empty answer is empty.
    let server = Server::playing([lost(), lost()]).await;
    let model = model("ollama", &server);
    let toolless = request(&*model, &posse_session::Head::default(), &[user("hi")]);
    let closing = Request { tool_choice: ToolChoice::None, ..request(&*model, &tools(), &[user("hi")]) };
    for request in [toolless, closing] {
        assert_eq!(model.reply(request, &Nobody).await.unwrap().parts, []);
    }
    assert_eq!(server.received().len(), 2);
    // A service that streams well is believed.
    let server = Server::playing([lost()]).await;
    let azure = model_of("azure", Api::OpenAi, &server.url, "d1");
    assert_eq!(ask(&*azure).await.unwrap().parts, []);
}

#[tokio::test]
async fn ollama_leaves_out_indices_and_ends_calls_with_stop() {
    let calls = json!([
        { "id": "call_a", "type": "function", "function": { "name": "ls", "arguments": "{\"p\":1}" } },
        { "id": "call_b", "type": "function", "function": { "name": "ls", "arguments": "{\"p\":2}" } },
    ]);
    let server = Server::playing([streamed(&[
        chunk(json!({ "role": "assistant", "content": "", "tool_calls": calls }), None),
        chunk(json!({ "content": "" }), Some("stop")),
    ])])
    .await;
    let reply = ask(&*model("ollama", &server)).await.unwrap();
    assert_eq!(
        (reply.parts.as_slice(), reply.finish),
        ([call("call_a", "{\"p\":1}"), call("call_b", "{\"p\":2}")].as_slice(), Finish::Calls)
    );
}

#[tokio::test]
async fn a_model_without_tools_is_named_as_one() {
    let message = "registry.ollama.ai/library/gemma:2b does not support tools";
    let server =
        Server::playing([document("400 Bad Request", &json!({ "error": { "message": message, "type": "api_error", "code": null } }))])
            .await;
    let error = ask(&*model("ollama", &server)).await.unwrap_err();
    assert_eq!(error.failure, ModelFailure::BadRequest);
    assert!(error.words.contains(message) && error.words.contains("choose one that can"), "{}", error.words);
}

#[tokio::test]
async fn llama_cpp_begins_with_null_and_adds_its_timings() {
    let mut last = json!({ "choices": [], "usage": { "prompt_tokens": 50, "completion_tokens": 2, "prompt_tokens_details": { "cached_tokens": 40 } } });
    last["timings"] = json!({ "prompt_n": 10, "cache_n": 40 });
    let answer = [
        chunk(json!({ "role": "assistant", "content": null }), None),
        chunk(json!({ "reasoning_content": "hm" }), None),
        chunk(json!({ "content": "ok" }), None),
        chunk(json!({}), Some("stop")),
        last,
    ];
    let server = Server::playing([streamed(&answer)]).await;
    let reply = ask(&*model("llamacpp", &server)).await.unwrap();
    assert_eq!(reply.parts, [thought("hm"), ReplyPart::Text("ok".into())]);
    assert_eq!((reply.usage.input, reply.usage.cache_read, reply.usage.output), (10, 40, 2));
}

#[tokio::test]
async fn llama_cpp_is_too_small_for_the_conversation_in_both_of_its_words() {
    for (status, message, kind) in [
        ("400 Bad Request", "the request exceeds the available context size, try increasing it", "exceed_context_size_error"),
        ("500 Internal Server Error", "context shift is disabled", "server_error"),
    ] {
        let server = Server::playing([document(status, &json!({ "error": { "code": 400, "message": message, "type": kind } }))]).await;
        assert_eq!(ask(&*model("llamacpp", &server)).await.unwrap_err().failure, ModelFailure::TooLong, "{message}");
    }
    let server = Server::playing([document(
        "500 Internal Server Error",
        &json!({ "error": { "code": 500, "message": "tools param requires --jinja flag", "type": "server_error" } }),
    )])
    .await;
    let error = ask(&*model("llamacpp", &server)).await.unwrap_err();
    assert_eq!(error.failure, ModelFailure::BadRequest);
    assert!(error.words.contains("start llama-server with --jinja"), "{}", error.words);
}

#[tokio::test]
async fn llama_cpp_python_says_a_call_in_both_forms_and_it_is_one() {
    let id = "call__0_ls_cmpl-1";
    let delta = |arguments: &str| {
        json!({
            "function_call": { "name": "ls", "arguments": arguments },
            "tool_calls": [{ "index": 0, "id": id, "type": "function", "function": { "name": "ls", "arguments": arguments } }],
        })
    };
    let answer = [
        chunk(json!({ "role": "assistant", "content": null }), None),
        chunk(delta("{\"p\":"), None),
        chunk(delta("1}"), None),
        chunk(json!({}), Some("tool_calls")),
    ];
    let server = Server::playing([streamed(&answer)]).await;
    let reply = ask(&*model("llama-cpp-python", &server)).await.unwrap();
    assert_eq!((reply.parts.as_slice(), reply.finish), ([call(id, "{\"p\":1}")].as_slice(), Finish::Calls));
    // It ignores every choice but a named function, so none is sent; the closing step stays closed by the engine.
    assert!(bodies(&server)[0].get("tool_choice").is_none());
}

#[tokio::test]
async fn vllm_without_a_tool_parser_says_how_to_start_it() {
    let message = r#""auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set"#;
    // Its older releases have no object around the error.
    for body in [
        json!({ "object": "error", "message": message, "type": "BadRequestError", "param": null, "code": 400 }),
        json!({ "error": { "message": message, "type": "BadRequestError", "param": null, "code": 400 } }),
    ] {
        let server = Server::playing([document("400 Bad Request", &body)]).await;
        let error = ask(&*model("vllm", &server)).await.unwrap_err();
        assert_eq!(error.failure, ModelFailure::BadRequest);
        assert!(error.words.contains("start vLLM with --enable-auto-tool-choice and --tool-call-parser"), "{}", error.words);
    }
}

#[tokio::test]
async fn vllm_thinks_under_either_name_and_breaks_off_in_a_chunk() {
    for name in ["reasoning", "reasoning_content"] {
        let server =
            Server::playing([streamed(&[chunk(json!({ name: "hm" }), None), chunk(json!({ "content": "ok" }), Some("stop"))])]).await;
        let reply = ask(&*model("vllm", &server)).await.unwrap();
        assert_eq!(reply.parts, [thought("hm"), ReplyPart::Text("ok".into())], "{name}");
    }
    let broken = json!({ "object": "error", "message": "EngineCore died", "type": "InternalServerError", "code": 500 });
    let server = Server::playing([streamed(&[chunk(json!({ "content": "so" }), None), broken])]).await;
    assert_eq!(ask(&*model("vllm", &server)).await.unwrap_err().failure, ModelFailure::Server);
}

#[tokio::test]
async fn lm_studio_names_its_error_event() {
    let error = json!({ "error": { "message": "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough." } });
    let server = Server::playing([raw_stream(&format!("event: error\ndata: {error}\n\n"))]).await;
    assert_eq!(ask(&*model("lmstudio", &server)).await.unwrap_err().failure, ModelFailure::TooLong);
}

#[tokio::test]
async fn a_server_that_cannot_stream_answers_with_a_document() {
    let server = Server::playing([whole_call(), ok()]).await;
    let model = model("mine", &server);
    assert_eq!(ask(&*model).await.unwrap().parts, [call("call_x", "{\"p\":1}")]);
    assert_eq!(ask(&*model).await.unwrap().parts, said_ok());
}

#[tokio::test]
async fn a_document_that_ends_in_the_middle_is_cut_and_no_call_of_it_is_run() {
    let body = json!({ "choices": [{ "message": { "tool_calls": [{ "id": "a", "function": { "name": "ls", "arguments": "{}" } }] }, "finish_reason": "tool_calls" }] }).to_string();
    for at in 1..body.len() {
        let text = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n{}", &body[..at]);
        let server = Server::playing([vec![Act::Send(text.into_bytes()), Act::Close]]).await;
        let error = ask(&*model("mine", &server)).await.unwrap_err();
        assert_eq!(error.failure, ModelFailure::Cut, "at {at}: {}", error.words);
    }
}

#[tokio::test]
async fn a_stream_under_the_name_of_a_document_is_a_stream() {
    let events = format!("data: {}\n\ndata: [DONE]\n\n", chunk(json!({ "content": "ok" }), Some("stop")));
    let text = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{events}", events.len());
    let server = Server::playing([vec![Act::Send(text.into_bytes())]]).await;
    assert_eq!(ask(&*model("mine", &server)).await.unwrap().parts, said_ok());
}
