//! How a body ends, and what it is: a last line without its end, a connection that breaks there, a document instead of a
//! stream.

use posse_models::Api;
use posse_session::{ModelFailure, ReplyPart};
use serde_json::{Value, json};

use crate::{
    ask, plain, said,
    server::{Act, Server},
    stream_head,
};

/// An answer `hi` in each protocol, with a document that says the same.
fn answers() -> [(Api, String, Value); 4] {
    let events = |values: &[Value]| -> String {
        let event = |value: &Value| match value["type"].as_str() {
            Some(kind) => format!("event: {kind}\ndata: {value}\n\n"),
            None => format!("data: {value}\n\n"),
        };
        values.iter().map(event).collect()
    };
    let usage = json!({ "input_tokens": 9, "output_tokens": 2 });
    let item = json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "hi" }] });
    let anthropic = [
        json!({ "type": "message_start", "message": { "usage": usage } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "hi" } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" } }),
        json!({ "type": "message_stop" }),
    ];
    let responses = [
        json!({ "type": "response.created", "response": {} }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        json!({ "type": "response.completed", "response": { "status": "completed", "usage": usage } }),
    ];
    let chat = json!({ "choices": [{ "index": 0, "delta": { "content": "hi" }, "finish_reason": "stop" }] });
    let gemini = json!({ "candidates": [{ "content": { "role": "model", "parts": [{ "text": "hi" }] }, "finishReason": "STOP" }] });
    let message = json!({ "id": "m", "type": "message", "role": "assistant", "content": [{ "type": "text", "text": "hi" }], "stop_reason": "end_turn", "usage": usage });
    let response = json!({ "id": "r", "object": "response", "status": "completed", "error": null, "output": [item], "usage": usage });
    let completion = json!({ "choices": [{ "index": 0, "message": { "content": "hi" }, "finish_reason": "stop" }] });
    [
        (Api::Anthropic, events(&anthropic), message),
        (Api::OpenAiResponses, events(&responses), response),
        (Api::OpenAi, events(std::slice::from_ref(&chat)), completion),
        (Api::Gemini, events(std::slice::from_ref(&gemini)), gemini),
    ]
}

fn sent(text: &str, end: Act) -> Vec<Act> {
    vec![stream_head(), Act::Chunk(text.as_bytes().to_vec()), end]
}

#[tokio::test]
async fn a_whole_last_event_counts_without_its_blank_line_if_the_body_ends_in_good_order() {
    for (api, stream, _) in answers() {
        for left_out in [1, 2] {
            let server = Server::playing([sent(&stream[..stream.len() - left_out], Act::End)]).await;
            assert_eq!(said(ask(&server, api).await), [ReplyPart::Text("hi".into())], "{api:?} without {left_out}");
        }
        // One byte less is half an event, and a connection that breaks has not said that it was at its end.
        for (text, end) in [(&stream[..stream.len() - 3], Act::End), (&stream[..stream.len() - 2], Act::Close)] {
            let server = Server::playing([sent(text, end.clone())]).await;
            assert_eq!(ask(&server, api).await.unwrap_err().failure, ModelFailure::Cut, "{api:?} {end:?}");
        }
    }
}

#[tokio::test]
async fn a_document_instead_of_a_stream_is_an_answer() {
    for (api, _, document) in answers() {
        let server = Server::playing([plain("200 OK", "", &document.to_string())]).await;
        assert_eq!(said(ask(&server, api).await), [ReplyPart::Text("hi".into())], "{api:?}");
    }
}
