//! The clients over a real socket: every way a server or a network can misbehave.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic like tests")]

#[path = "wire/endings.rs"]
mod endings;
#[path = "wire/gemini.rs"]
mod gemini;
#[path = "wire/responses.rs"]
mod responses;
#[path = "wire/sealed.rs"]
mod sealed;
#[path = "wire/server.rs"]
mod server;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use posse_models::{Api, FactsOverride, ProviderSpec, build};
use posse_session::{
    Block, Finish, Head, Live, Message, Model, ModelError, ModelFailure, Prices, Progress, Reply, ReplyPart, Request, Role, SessionId,
    ToolChoice, ToolSpec, Usage,
};
use serde_json::{Value, json};
use server::{Act, Server};

const KEY: &str = "sk-test-123456";

#[derive(Default)]
struct Shown(Mutex<Vec<Progress>>);

impl Live for Shown {
    fn show(&self, progress: Progress) {
        self.0.lock().unwrap().push(progress);
    }
}

fn model(url: &str, api: Api) -> Arc<dyn Model> {
    let prices = Prices { input: 1.0, output: 2.0, cache_read: 0.0, cache_write: 0.0, ..Prices::default() };
    let facts = FactsOverride { cost: Some(prices), ..FactsOverride::default() };
    let spec = ProviderSpec {
        name: "mock".into(),
        api,
        base_url: url.into(),
        api_key: Some(KEY.into()),
        key_place: None,
        headers: vec![("x-team".into(), "blue-team".into())],
        models: BTreeMap::from([("m1".to_owned(), facts)]),
    };
    build(&spec, "m1")
}

fn request(model: &dyn Model) -> Request {
    let head = Head {
        system: vec!["be brief".into()],
        tools: vec![ToolSpec { name: "ls".into(), description: "Lists".into(), schema: json!({ "type": "object" }) }],
        ..Head::default()
    };
    let hi = Message { role: Role::User, blocks: vec![Block::Text { text: "hi".into() }] };
    Request {
        session: SessionId::new("ses_1"),
        lineage: SessionId::new("ses_1"),
        head: model.encode_head(&head),
        messages: vec![model.encode(&hi)],
        tool_choice: ToolChoice::Auto,
        output_max: 100,
        idle_max: Duration::from_secs(10),
    }
}

async fn ask(server: &Server, api: Api) -> Result<Reply, ModelError> {
    let model = model(&server.url, api);
    model.reply(request(&*model), &Shown::default()).await
}

fn stream_head() -> Act {
    Act::Send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_vec())
}

fn plain(status: &str, headers: &str, body: &str) -> Vec<Act> {
    let text = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len());
    vec![Act::Send(text.into_bytes())]
}

fn events(values: &[Value]) -> Vec<Act> {
    values.iter().map(|value| Act::Chunk(format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap()).into_bytes())).collect()
}

/// An Anthropic answer without its end.
fn beginning(text: &str) -> Vec<Act> {
    let events = events(&[
        json!({ "type": "message_start", "message": { "usage": { "input_tokens": 1000, "output_tokens": 1 } } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": text } }),
    ]);
    [vec![stream_head()], events].concat()
}

fn rest() -> Vec<Act> {
    events(&[
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" }, "usage": { "output_tokens": 500 } }),
        json!({ "type": "message_stop" }),
    ])
}

fn answer(text: &str) -> Vec<Act> {
    [beginning(text), rest(), vec![Act::End]].concat()
}

fn said(answer: Result<Reply, ModelError>) -> Vec<ReplyPart> {
    answer.unwrap().parts
}

#[tokio::test]
async fn a_good_answer_is_shown_priced_and_asked_for_as_the_api_wants() {
    let server = Server::playing([answer("hello")]).await;
    let model = model(&server.url, Api::Anthropic);
    let shown = Shown::default();
    let reply = model.reply(request(&*model), &shown).await.unwrap();
    let usage = Usage { input: 1000, output: 500, cost_usd: 0.002, ..Usage::default() };
    assert_eq!(reply, Reply { parts: vec![ReplyPart::Text("hello".into())], usage, finish: Finish::Stop });
    let counted = |output| Progress::Counted(Usage { input: 1000, output, ..Usage::default() });
    assert_eq!(
        *shown.0.lock().unwrap(),
        [Progress::Begun, counted(1), Progress::Text("hello".into()), counted(500)],
        "whoever drops it knows what it cost"
    );
    let received = server.received().remove(0);
    assert!(received.head.starts_with("post /v1/messages http/1.1\r\n"), "{}", received.head);
    for line in [&format!("x-api-key: {KEY}"), "anthropic-version: 2023-06-01", "content-type: application/json", "x-team: blue-team"] {
        assert!(received.head.contains(&format!("\r\n{line}\r\n")), "{line} is not in {}", received.head);
    }
    let body: Value = serde_json::from_slice(&received.body).unwrap();
    assert_eq!((&body["model"], &body["messages"][0]["content"][0]["text"]), (&json!("m1"), &json!("hi")));
}

/// Who waits until a request has been read hears of it with the first event, whatever that is about; comments are none.
#[tokio::test]
async fn the_first_byte_of_an_answer_is_told_in_every_protocol() {
    let rows = [
        (Api::Anthropic, json!({ "type": "message_start", "message": {} })),
        (Api::OpenAi, json!({ "choices": [{ "delta": { "role": "assistant", "content": "" }, "finish_reason": null }] })),
        (Api::OpenAiResponses, json!({ "type": "response.created", "response": {} })),
        (Api::Gemini, json!({ "responseId": "r" })),
    ];
    for (api, first) in rows {
        for (acts, begun) in
            [(vec![], 0), (vec![Act::Chunk(format!("data: {first}\n\n").into_bytes()), Act::Wait(Duration::from_secs(5))], 1)]
        {
            let comment = vec![stream_head(), Act::Chunk(b": queued\r\n\r\n".to_vec()), Act::Wait(Duration::from_millis(20))];
            let server = Server::playing([[comment, acts].concat()]).await;
            let model = model(&server.url, api);
            let shown = Shown::default();
            let request = Request { idle_max: Duration::from_millis(300), ..request(&*model) };
            model.reply(request, &shown).await.unwrap_err();
            let shown = shown.0.into_inner().unwrap();
            assert_eq!(shown.iter().filter(|progress| **progress == Progress::Begun).count(), begun, "{api:?}: {shown:?}");
            assert_eq!(shown[0], Progress::Alive, "{api:?}: {shown:?}");
        }
        let document = plain("200 OK", "", "{}");
        let (server, shown) = (Server::playing([document]).await, Shown::default());
        let model = model(&server.url, api);
        // Whatever it is worth, it is an answer.
        let _ = model.reply(request(&*model), &shown).await;
        assert_eq!(shown.0.lock().unwrap()[0], Progress::Begun, "{api:?}");
    }
}

#[tokio::test]
async fn an_openai_answer_may_come_byte_by_byte_with_crlf_and_without_done() {
    let text = [
        json!({ "choices": [{ "delta": { "content": "hé" }, "finish_reason": null }] }),
        json!({ "choices": [{ "delta": { "content": "llo" }, "finish_reason": "stop" }] }),
        json!({ "choices": [], "usage": { "prompt_tokens": 3, "completion_tokens": 2 } }),
    ];
    let text: String = text.iter().map(|chunk| format!(": ping\r\n\r\ndata: {chunk}\r\n\r\n")).collect();
    let chunks = text.bytes().map(|byte| Act::Chunk(vec![byte])).collect();
    let server = Server::playing([[vec![stream_head()], chunks, vec![Act::End]].concat()]).await;
    let reply = ask(&server, Api::OpenAi).await.unwrap();
    assert_eq!((reply.parts, reply.usage.tokens()), (vec![ReplyPart::Text("héllo".into())], 5));
    let head = &server.received()[0].head;
    assert!(head.starts_with("post /v1/chat/completions http/1.1\r\n") && head.contains(&format!("authorization: bearer {KEY}")), "{head}");
}

#[tokio::test]
async fn a_status_becomes_a_failure_with_the_providers_words_and_never_the_key() {
    let body = |message: &str| json!({ "type": "error", "error": { "type": "some_error", "message": message } }).to_string();
    let leak = format!("invalid x-api-key {KEY} given");
    for (status, headers, message, failure, wait, words) in [
        ("429 Too Many Requests", "retry-after: 7\r\n", "slow down", ModelFailure::RateLimited, Some(7), "slow down"),
        ("529 Overloaded", "retry-after: -1\r\n", "busy", ModelFailure::Overloaded, Some(0), "busy"),
        ("401 Unauthorized", "", leak.as_str(), ModelFailure::Auth, None, "check the api_key of provider \"mock\""),
        ("500 Oops", "", "bang", ModelFailure::Server, None, "bang"),
        ("400 Bad Request", "", "prompt is too long: 9 > 8", ModelFailure::TooLong, None, "prompt is too long"),
        ("404 Not Found", "", "no such model", ModelFailure::BadRequest, None, "check the model's name"),
        ("307 Moved", "location: http://127.0.0.1:1/\r\n", "gone", ModelFailure::BadRequest, None, "base URL"),
    ] {
        let server = Server::playing([plain(status, headers, &body(message))]).await;
        let error = ask(&server, Api::Anthropic).await.unwrap_err();
        assert_eq!((error.failure, error.retry_after), (failure, wait.map(Duration::from_secs)), "{status}");
        assert!(error.words.contains(words), "{status}: {}", error.words);
        assert!(!format!("{error:?}").contains(KEY), "{error:?}");
    }
}

#[tokio::test]
async fn an_error_with_a_good_status_is_still_an_error() {
    for api in [Api::Anthropic, Api::OpenAi, Api::OpenAiResponses, Api::Gemini] {
        let body = json!({ "error": { "type": "overloaded_error", "message": "no room" } }).to_string();
        let server = Server::playing([plain("200 OK", "", &body), plain("200 OK", "", "{}")]).await;
        let error = ask(&server, api).await.unwrap_err();
        assert_eq!(error.failure, ModelFailure::Overloaded);
        assert!(error.words.contains("no room"), "{}", error.words);
        assert_eq!(ask(&server, api).await.unwrap_err().failure, ModelFailure::Malformed);
    }
}

#[tokio::test]
async fn an_error_with_a_good_status_that_stays_wrong_is_not_one_to_try_again() {
    for (error, failure) in [
        (json!({ "error": { "type": "invalid_request_error", "code": null, "message": "no" } }), ModelFailure::BadRequest),
        (json!({ "error": { "type": "invalid_request_error", "message": "prompt is too long" } }), ModelFailure::TooLong),
        (json!({ "type": "error", "error": { "type": "authentication_error", "message": "no" } }), ModelFailure::Auth),
        (json!([{ "error": { "code": 404, "message": "no" } }]), ModelFailure::BadRequest),
    ] {
        for api in [Api::Anthropic, Api::OpenAi, Api::OpenAiResponses, Api::Gemini] {
            let server = Server::playing([plain("200 OK", "", &error.to_string())]).await;
            assert_eq!(ask(&server, api).await.unwrap_err().failure, failure, "{error}");
        }
    }
}

#[tokio::test]
async fn what_a_server_repeats_of_headers_and_address_is_struck_out() {
    let repeated = "sent Bearer other-secret-1, other-secret-1, p@ss-word, p%40ss-word, query-key-1, Bearer";
    let body = json!({ "error": { "type": "x", "message": repeated } }).to_string();
    let server = Server::playing([plain("400 Bad Request", "", &body)]).await;
    let spec = ProviderSpec {
        name: "mock".into(),
        api: Api::OpenAi,
        base_url: format!("{}?k=query-key-1", server.url.replace("http://", "http://me:p%40ss-word@")),
        api_key: None,
        key_place: None,
        headers: vec![("x-token".into(), "Bearer other-secret-1".into())],
        models: BTreeMap::new(),
    };
    let model = build(&spec, "m1");
    let error = model.reply(request(&*model), &Shown::default()).await.unwrap_err();
    let refused = format!("HTTP 400 Bad Request; sent [key], [key], [key], [key], [key], Bearer (mock/m1 at {}); ", server.url);
    assert!(error.words.starts_with(&refused), "{}", error.words);
    assert!(!error.words.contains("ss-word") && !error.words.contains("query-key-1"), "{}", error.words);
    assert!(!format!("{spec:?}").contains("ss-word") && !format!("{spec:?}").contains("query-key-1"), "{spec:?}");
}

/// A long text is cut; half a key is a secret too, and nobody recognises it any more.
#[tokio::test]
async fn a_key_is_struck_out_before_its_text_is_cut() {
    let half = &KEY[..6];
    for at in [60, 70, 75, 980, 990, 995] {
        let message = format!("{} {KEY} {}", "x".repeat(at), "y".repeat(2000));
        let error = json!({ "error": { "type": "x", "message": message } }).to_string();
        let in_stream = format!("data: {error}\n\n");
        let no_json = format!("data: {message}\n\n");
        let stream = |text: String| vec![stream_head(), Act::Chunk(text.into_bytes()), Act::End];
        for api in [Api::Anthropic, Api::OpenAi, Api::OpenAiResponses, Api::Gemini] {
            for answer in
                [plain("400 Bad Request", "", &error), plain("200 OK", "", &error), stream(in_stream.clone()), stream(no_json.clone())]
            {
                let server = Server::playing([answer]).await;
                let error = ask(&server, api).await.unwrap_err();
                assert!(!error.words.contains(half) && error.words.contains("xxx"), "{api:?} at {at}: {}", error.words);
                assert!(error.words.chars().count() < 1200, "{}", error.words.len());
            }
        }
    }
}

#[tokio::test]
async fn no_word_about_an_address_holds_its_password() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let refusing = format!("http://me:hunter2@{}?k=hunter2", listener.local_addr().unwrap());
    drop(listener);
    for url in [refusing.as_str(), "http://me:hunter2/x@host", "me:hunter2@host", "ftp://me:hunter2@host"] {
        let model = model(url, Api::OpenAi);
        let error = model.reply(request(&*model), &Shown::default()).await.unwrap_err();
        assert!(!error.words.contains("hunter2"), "{}", error.words);
    }
}

/// Keeps every field of every event as text.
#[derive(Clone, Default)]
struct Journal(Arc<Mutex<String>>);

impl tracing::Subscriber for Journal {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = self.0.lock().unwrap();
        event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| text.push_str(&format!("{field}={value:?} ")));
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn the_log_names_the_address_without_its_password() {
    let server = Server::playing([plain("500 Oops", "", "{}")]).await;
    let journal = Journal::default();
    let guard = tracing::subscriber::set_default(journal.clone());
    let model = model(&format!("{}?k=hunter2", server.url.replace("http://", "http://me:hunter2@")), Api::OpenAi);
    model.reply(request(&*model), &Shown::default()).await.unwrap_err();
    drop(guard);
    let text = journal.0.lock().unwrap().clone();
    assert!(text.contains("/v1/chat/completions?k=***") && !text.contains("hunter2"), "{text}");
}

#[tokio::test]
async fn the_wire_hears_the_id_and_the_user_the_name() {
    for api in [Api::Anthropic, Api::OpenAi] {
        let server = Server::playing([plain("500 Oops", "", "{}")]).await;
        let facts = FactsOverride { id: Some("wire-1".into()), ..FactsOverride::default() };
        let spec = ProviderSpec {
            name: "mock".into(),
            api,
            base_url: server.url.clone(),
            api_key: None,
            key_place: None,
            headers: Vec::new(),
            models: BTreeMap::from([("mine".to_owned(), facts)]),
        };
        let model = build(&spec, "mine");
        model.reply(request(&*model), &Shown::default()).await.unwrap_err();
        let body: Value = serde_json::from_slice(&server.received()[0].body).unwrap();
        assert_eq!((&body["model"], model.facts().name.as_str()), (&json!("wire-1"), "mock/mine"), "{api:?}");
    }
}

#[tokio::test]
async fn a_cut_stream_keeps_its_text_and_its_tokens() {
    for end in [Act::Close, Act::End] {
        let server = Server::playing([[beginning("half"), vec![end.clone()]].concat()]).await;
        let error = ask(&server, Api::Anthropic).await.unwrap_err();
        assert_eq!((error.failure, error.partial.as_str(), error.usage.input), (ModelFailure::Cut, "half", 1000), "{end:?}");
        assert_eq!(error.usage.cost_usd, 0.0, "priced by whoever counts the rest");
    }
}

#[tokio::test]
async fn an_error_event_ends_at_once_though_the_socket_stays_open() {
    let error = events(&[json!({ "type": "error", "error": { "type": "overloaded_error", "message": "busy" } })]);
    let server = Server::playing([[beginning("half"), error, vec![Act::Hold]].concat()]).await;
    let begun = Instant::now();
    let error = ask(&server, Api::Anthropic).await.unwrap_err();
    assert_eq!((error.failure, error.partial.as_str()), (ModelFailure::Overloaded, "half"));
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    server.hung_up().await;
}

#[tokio::test]
async fn a_whole_answer_does_not_wait_for_the_socket_either() {
    let server = Server::playing([[beginning("hello"), rest(), vec![Act::Hold]].concat()]).await;
    let begun = Instant::now();
    assert_eq!(said(ask(&server, Api::Anthropic).await), [ReplyPart::Text("hello".into())]);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_silent_stream_is_given_up_with_its_text() {
    for (acts, partial) in [([beginning("half"), vec![Act::Hold]].concat(), "half"), (vec![Act::Hold], "")] {
        let server = Server::playing([acts]).await;
        let model = model(&server.url, Api::Anthropic);
        let request = Request { idle_max: Duration::from_millis(100), ..request(&*model) };
        let begun = Instant::now();
        let error = model.reply(request, &Shown::default()).await.unwrap_err();
        assert_eq!((error.failure, error.partial.as_str()), (ModelFailure::Idle, partial));
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn slow_chunks_and_comments_keep_a_stream_alive() {
    let slow = |acts: Vec<Act>| acts.into_iter().flat_map(|act| [Act::Wait(Duration::from_millis(60)), act]).collect::<Vec<_>>();
    let comments = slow(vec![Act::Chunk(b": alive\n".to_vec()); 5]);
    let server = Server::playing([[beginning("slow"), comments, slow(rest()), vec![Act::End]].concat()]).await;
    let model = model(&server.url, Api::Anthropic);
    let request = Request { idle_max: Duration::from_millis(200), ..request(&*model) };
    let shown = Shown::default();
    assert_eq!(said(model.reply(request, &shown).await), [ReplyPart::Text("slow".into())]);
    assert!(shown.0.lock().unwrap().contains(&Progress::Alive));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let model = model(&url, Api::Anthropic);
    let error = model.reply(request(&*model), &Shown::default()).await.unwrap_err();
    assert_eq!((error.failure, error.words), (ModelFailure::Network, format!("connection refused by {url}; is the server running?")));
}

#[tokio::test]
async fn a_connection_that_dies_before_it_answers_is_the_network() {
    let server = Server::playing([vec![Act::Close]]).await;
    assert_eq!(ask(&server, Api::Anthropic).await.unwrap_err().failure, ModelFailure::Network);
}

#[tokio::test]
async fn an_unusable_address_or_a_missing_key_is_told_before_anything_is_sent() {
    let model = model("127.0.0.1:9000", Api::OpenAi);
    let error = model.reply(request(&*model), &Shown::default()).await.unwrap_err();
    assert_eq!(error.failure, ModelFailure::BadRequest);
    assert!(error.words.contains("127.0.0.1:9000"), "{}", error.words);
    let base_url = "https://api.anthropic.com".to_owned();
    let spec = ProviderSpec {
        name: "anthropic".into(),
        api: Api::Anthropic,
        base_url,
        api_key: None,
        key_place: None,
        headers: Vec::new(),
        models: BTreeMap::new(),
    };
    let model = build(&spec, "claude-sonnet-4-5");
    let error = model.reply(request(&*model), &Shown::default()).await.unwrap_err();
    assert_eq!((error.failure, error.words.as_str()), (ModelFailure::NeedsModel, "no key for anthropic: set ANTHROPIC_API_KEY"));
}

#[tokio::test]
async fn dropping_the_reply_closes_the_socket() {
    let server = Server::playing([[beginning("half"), vec![Act::Hold]].concat()]).await;
    let asked = tokio::time::timeout(Duration::from_millis(200), ask(&server, Api::Anthropic)).await;
    assert!(asked.is_err(), "{asked:?}");
    tokio::time::timeout(Duration::from_secs(2), server.hung_up()).await.expect("the server saw the end");
}

#[tokio::test]
async fn the_next_step_uses_the_same_connection() {
    // The end of the body comes a moment after its last event, as it does from real servers.
    let late = [beginning("one"), rest(), vec![Act::Wait(Duration::from_millis(1)), Act::End]].concat();
    let server = Server::playing([late, plain("500 Oops", "", "{}"), answer("two")]).await;
    assert_eq!(said(ask(&server, Api::Anthropic).await), [ReplyPart::Text("one".into())]);
    ask(&server, Api::Anthropic).await.unwrap_err();
    assert_eq!(said(ask(&server, Api::Anthropic).await), [ReplyPart::Text("two".into())]);
    assert_eq!(server.received().iter().map(|received| received.connection).collect::<Vec<_>>(), [0, 0, 0]);
}

#[tokio::test]
async fn a_refused_cache_marker_is_moved_and_the_endpoint_remembered() {
    let refused =
        json!({ "error": { "type": "invalid_request_error", "message": "cache_control: Extra inputs are not permitted" } }).to_string();
    let server = Server::playing([plain("400 Bad Request", "", &refused), answer("one"), answer("two")]).await;
    let model = model(&server.url, Api::Anthropic);
    for text in ["one", "two"] {
        assert_eq!(said(model.reply(request(&*model), &Shown::default()).await), [ReplyPart::Text(text.into())]);
    }
    let bodies: Vec<Value> = server.received().iter().map(|received| serde_json::from_slice(&received.body).unwrap()).collect();
    let markers: Vec<(bool, bool)> = bodies
        .iter()
        .map(|body| (body.get("cache_control").is_some(), body["messages"][0]["content"][0].get("cache_control").is_some()))
        .collect();
    assert_eq!(markers, [(true, false), (false, true), (false, true)]);
}

#[tokio::test]
async fn an_endpoint_without_any_markers_ends_in_one_request_more_and_no_loop() {
    let refused = || plain("400 Bad Request", "", r#"{"error":{"message":"unknown field cache_control"}}"#);
    let server = Server::playing([refused(), refused(), refused()]).await;
    assert_eq!(ask(&server, Api::Anthropic).await.unwrap_err().failure, ModelFailure::BadRequest);
    let last = String::from_utf8(server.received().pop().unwrap().body).unwrap();
    assert_eq!((server.received().len(), last.contains("cache_control")), (3, false));
}
