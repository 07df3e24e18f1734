//! Fields that a server refuses: left out from then on, after one more request and never in a loop.

use posse_session::ModelFailure;
use serde_json::json;

use crate::{
    server::Server,
    world::{KEY, Nobody, ask, assistant, bodies, document, model, ok, refusal, request, said_ok, tools, user},
};

#[tokio::test]
async fn an_old_server_that_refuses_stream_options_is_asked_without_and_remembered() {
    // OpenAI's words, FastAPI's list with the place, and Mistral's list inside its message.
    for refused in [
        refusal("Unrecognized request argument supplied: stream_options"),
        document(
            "422 Unprocessable Entity",
            &json!({ "detail": [{ "loc": ["body", "stream_options"], "msg": "extra fields not permitted", "type": "value_error.extra" }] }),
        ),
        document(
            "422 Unprocessable Entity",
            &json!({ "object": "error", "message": { "detail": [{ "type": "extra_forbidden", "loc": ["body", "stream_options", "include_usage"], "msg": "Extra inputs are not permitted" }] }, "type": "invalid_request_error" }),
        ),
    ] {
        let server = Server::playing([refused, ok(), ok()]).await;
        let model = model("mine", &server);
        for _ in 0..2 {
            assert_eq!(ask(&*model).await.unwrap().parts, said_ok());
        }
        let sent: Vec<bool> = bodies(&server).iter().map(|body| body.get("stream_options").is_some()).collect();
        assert_eq!(sent, [true, false, false]);
        assert!(bodies(&server).iter().all(|body| body["stream"] == true && body["messages"][1]["content"] == "hi"));
    }
}

#[tokio::test]
async fn the_name_of_the_output_limit_is_learned() {
    let message = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
    let server = Server::playing([refusal(message), ok(), ok()]).await;
    let model = model("mine", &server);
    for _ in 0..2 {
        assert_eq!(ask(&*model).await.unwrap().parts, said_ok());
    }
    let sent: Vec<(bool, bool)> =
        bodies(&server).iter().map(|body| (body.get("max_tokens").is_some(), body.get("max_completion_tokens").is_some())).collect();
    assert_eq!(sent, [(true, false), (false, true), (false, true)]);
}

#[tokio::test]
async fn several_refusals_end_and_a_server_that_refuses_everything_is_told_so() {
    let options = || refusal("unknown field stream_options");
    let limit = || refusal("unknown field max_tokens");
    let server = Server::playing([options(), limit(), ok()]).await;
    assert_eq!(ask(&*model("mine", &server)).await.unwrap().parts, said_ok());
    assert_eq!(server.received().len(), 3);
    // The other name is refused as well, and the first refusal is not believed twice.
    let server = Server::playing([options(), options()]).await;
    assert_eq!(ask(&*model("mine", &server)).await.unwrap_err().failure, ModelFailure::BadRequest);
    assert_eq!(server.received().len(), 2);
    let server = Server::playing([limit(), refusal("unknown field max_completion_tokens")]).await;
    assert_eq!(ask(&*model("mine", &server)).await.unwrap_err().failure, ModelFailure::BadRequest);
    assert_eq!(server.received().len(), 2);
}

#[tokio::test]
async fn another_refusal_is_no_reason_to_ask_again() {
    for message in [
        "messages: at least one message is required",
        "max_tokens is too large: 100. This model supports at most 10",
        &format!("bad key {KEY}"),
    ] {
        let server = Server::playing([refusal(message)]).await;
        let error = ask(&*model("mine", &server)).await.unwrap_err();
        assert_eq!((error.failure, server.received().len()), (ModelFailure::BadRequest, 1), "{message}");
        assert!(!error.words.contains(KEY), "{}", error.words);
    }
}

#[tokio::test]
async fn bodies_still_start_alike_after_a_refusal() {
    let server = Server::playing([refusal("stream_options"), ok(), ok(), ok()]).await;
    let model = model("mine", &server);
    let mut told = vec![user("one")];
    for text in ["two", "three", "four"] {
        model.reply(request(&*model, &tools(), &told), &Nobody).await.unwrap();
        told.extend([assistant(said_ok()), user(text)]);
    }
    let sent: Vec<Vec<u8>> = server.received().into_iter().skip(1).map(|received| received.body).collect();
    for pair in sent.windows(2) {
        let start = pair[0].strip_suffix(br#"],"max_tokens":100}"#).unwrap();
        assert!(pair[1].starts_with(start));
    }
}
