//! Gemini over a real socket: the key in its header, the signature on its part, errors in Google's shape.

use std::time::Duration;

use posse_models::Api;
use posse_session::{Finish, ModelFailure, ReplyPart};
use serde_json::{Value, json};

use crate::{
    KEY, Shown, ask, model, plain, request,
    responses::gone_on,
    said,
    server::{Act, Server},
    stream_head,
};

fn chunks(values: &[Value]) -> Vec<Act> {
    values.iter().map(|value| Act::Chunk(format!("data: {value}\r\n\r\n").into_bytes())).collect()
}

pub(crate) fn answer(parts: Value) -> Vec<Act> {
    let usage = json!({ "promptTokenCount": 1000, "cachedContentTokenCount": 400, "candidatesTokenCount": 300, "thoughtsTokenCount": 200 });
    let values = [
        json!({ "candidates": [{ "content": { "role": "model", "parts": parts } }] }),
        json!({ "candidates": [{ "content": { "role": "model", "parts": [{ "text": "" }] }, "finishReason": "STOP" }], "usageMetadata": usage }),
    ];
    [vec![stream_head()], chunks(&values), vec![Act::End]].concat()
}

#[tokio::test]
async fn a_signature_goes_back_on_its_call_and_the_result_by_the_tools_name() {
    let call = json!([{ "functionCall": { "name": "ls", "args": { "path": "." } }, "thoughtSignature": "sig-1" }]);
    let server = Server::playing([answer(call), answer(json!([{ "text": "done" }]))]).await;
    let model = model(&server.url, Api::Gemini);
    let reply = model.reply(request(&*model), &Shown::default()).await.unwrap();
    assert_eq!((reply.finish, reply.usage.input, reply.usage.output, reply.usage.cache_read), (Finish::Calls, 600, 500, 400));
    assert_eq!(said(model.reply(gone_on(&*model, reply), &Shown::default()).await), [ReplyPart::Text("done".into())]);
    let received = server.received();
    let head = &received[0].head;
    assert!(head.starts_with("post /v1beta/models/m1:streamgeneratecontent?alt=sse http/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("\r\nx-goog-api-key: {KEY}\r\n")) && !head.contains("authorization"), "{head}");
    let second: Value = serde_json::from_slice(&received[1].body).unwrap();
    assert_eq!(
        second["contents"],
        json!([
            { "role": "user", "parts": [{ "text": "hi" }] },
            { "role": "model", "parts": [{ "functionCall": { "id": "call_0", "name": "ls", "args": { "path": "." } }, "thoughtSignature": "sig-1" }] },
            { "role": "user", "parts": [{ "functionResponse": { "id": "call_0", "name": "ls", "response": { "output": "a b" } } }] },
        ])
    );
    assert_eq!(second["systemInstruction"], json!({ "parts": [{ "text": "be brief" }] }));
}

#[tokio::test]
async fn googles_errors_are_told_apart_and_never_show_the_key() {
    let delay = json!({ "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "36s" });
    let leak = format!("API key not valid: {KEY}. Please pass a valid API key.");
    for (status, body, failure, wait, words) in [
        (
            "429 Too Many Requests",
            json!({ "error": { "code": 429, "message": "You exceeded your current quota, please check your plan and billing details.", "status": "RESOURCE_EXHAUSTED", "details": [delay] } }),
            ModelFailure::RateLimited,
            Some(36),
            "exceeded your current quota",
        ),
        (
            "400 Bad Request",
            json!([{ "error": { "code": 400, "message": leak, "status": "INVALID_ARGUMENT" } }]),
            ModelFailure::Auth,
            None,
            "check the api_key of provider \"mock\"",
        ),
        (
            "400 Bad Request",
            json!({ "error": { "code": 400, "message": "The input token count (9) exceeds the maximum number of tokens allowed (8).", "status": "INVALID_ARGUMENT" } }),
            ModelFailure::TooLong,
            None,
            "longer than this model takes",
        ),
        (
            "503 Service Unavailable",
            json!({ "error": { "code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE" } }),
            ModelFailure::Overloaded,
            None,
            "overloaded",
        ),
        (
            "404 Not Found",
            json!({ "error": { "code": 404, "message": "models/m1 is not found", "status": "NOT_FOUND" } }),
            ModelFailure::BadRequest,
            None,
            "check the model's name",
        ),
    ] {
        let server = Server::playing([plain(status, "", &body.to_string())]).await;
        let error = ask(&server, Api::Gemini).await.unwrap_err();
        assert_eq!((error.failure, error.retry_after), (failure, wait.map(Duration::from_secs)), "{body}");
        assert!(error.words.contains(words), "{}", error.words);
        assert!(!format!("{error:?}").contains(KEY), "{error:?}");
    }
}

#[tokio::test]
async fn a_stream_without_a_finish_reason_was_cut() {
    let half = json!({ "candidates": [{ "content": { "parts": [{ "text": "half" }] } }], "usageMetadata": { "promptTokenCount": 7 } });
    for end in [Act::Close, Act::End] {
        let server = Server::playing([[vec![stream_head()], chunks(std::slice::from_ref(&half)), vec![end.clone()]].concat()]).await;
        let error = ask(&server, Api::Gemini).await.unwrap_err();
        assert_eq!((error.failure, error.partial.as_str(), error.usage.input), (ModelFailure::Cut, "half", 7), "{end:?}");
    }
}
