//! The test support itself, tried out with a bare socket: what other tests stand on must be right without the binary.
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use support::{Answer, Block, ModelServer, Seen, answer::Piece, call, raw_call};

/// Asks and reads until the server closes or the answer is whole.
fn ask(server: &ModelServer, path: &str, body: &Value) -> String {
    let mut socket = connect(server, path, body);
    let mut text = Vec::new();
    let mut bytes = [0; 4096];
    loop {
        let length = socket.read(&mut bytes).unwrap_or(0);
        text.extend(&bytes[..length]);
        if length == 0 || text.ends_with(b"0\r\n\r\n") || (text.ends_with(b"}") && !text.starts_with(b"HTTP/1.1 200")) {
            return String::from_utf8_lossy(&text).into_owned();
        }
    }
}

fn connect(server: &ModelServer, path: &str, body: &Value) -> TcpStream {
    let mut socket = TcpStream::connect(server.url.strip_prefix("http://").unwrap()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let body = body.to_string();
    write!(socket, "POST {path} HTTP/1.1\r\nHost: x\r\nX-Api-Key: k\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
    socket
}

fn claude(messages: Value) -> Value {
    json!({"model": "m1", "stream": true, "system": [{"type": "text", "text": "be good"}], "messages": messages,
        "tools": [{"name": "bash", "input_schema": {}}, {"name": "read", "input_schema": {}}]})
}

fn prompt(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}]})
}

/// The `data:` lines of a response.
fn events(response: &str) -> Vec<Value> {
    response.lines().filter_map(|line| line.strip_prefix("data: ")).filter_map(|data| serde_json::from_str(data).ok()).collect()
}

#[test]
fn a_script_answers_by_its_place_in_the_conversation() {
    let server = ModelServer::start(|seen: &Seen| match seen.steps() {
        0 => Answer::call("bash", json!({"command": "ls"})).and_text("so"),
        _ => Answer::text(seen.last_results()[0]),
    });
    let first = ask(&server, "/v1/messages", &claude(json!([prompt("hi")])));
    let start = events(&first).into_iter().find(|event| event["content_block"]["type"] == "tool_use").unwrap();
    assert_eq!(start["content_block"], json!({"type": "tool_use", "id": "toolu_000001", "name": "bash", "input": {}}));
    assert!(first.contains("\"stop_reason\":\"tool_use\"") && first.contains("event: message_stop"), "{first}");

    let call =
        json!({"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_000001", "name": "bash", "input": {"command": "ls"}}]});
    let result = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_000001", "content": "a b"}]});
    let second = ask(&server, "/v1/messages", &claude(json!([prompt("hi"), call, result])));
    assert!(second.contains("\"text\":\"a b\"") && second.contains("end_turn"), "{second}");

    let seen = server.last();
    assert_eq!((seen.system.as_str(), seen.user_texts(), seen.steps(), seen.header("x-api-key")), ("be good", vec!["hi"], 1, Some("k")));
    assert_eq!(seen.tools, ["bash", "read"]);
    assert_eq!(seen.results(), [&Block::Result { id: "toolu_000001".into(), text: "a b".into(), error: false }]);
    assert!(server.take_errors().is_empty());
}

#[test]
fn the_other_protocol_is_read_and_written_too() {
    let server = ModelServer::start(|seen: &Seen| match seen.steps() {
        0 => Answer::calls([call("read", json!({"filePath": "x"})), raw_call("bash", "{broken")]).usage(10, 5, 90, 0),
        _ => Answer::text("done"),
    });
    let first = ask(
        &server,
        "/v1/chat/completions",
        &json!({"model": "m1", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}]}),
    );
    assert!(first.contains("\"finish_reason\":\"tool_calls\"") && first.contains("data: [DONE]"), "{first}");
    let usage = events(&first).pop().unwrap()["usage"].clone();
    assert_eq!((&usage["prompt_tokens"], &usage["prompt_tokens_details"]["cached_tokens"]), (&json!(100), &json!(90)));

    let calls = json!([{"id": "a", "type": "function", "function": {"name": "read", "arguments": "{\"filePath\":\"x\"}"}}]);
    let messages = json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": null, "tool_calls": calls}, {"role": "tool", "tool_call_id": "a", "content": "text"}]);
    assert!(ask(&server, "/v1/chat/completions", &json!({"model": "m1", "messages": messages})).contains("done"));
    assert_eq!(server.last().last_results(), ["text"]);
}

#[test]
fn what_a_provider_would_refuse_is_refused_and_remembered() {
    let server = ModelServer::start(|_: &Seen| "never");
    let call = |id: &str| json!({"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "bash", "input": {}}]});
    let result = |id: &str| json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "x"}]});
    let bad = [
        json!([]),
        json!([prompt("hi"), call("a")]),
        json!([prompt("hi"), call("a"), prompt("and?")]),
        json!([prompt("hi"), call("a"), call("b"), result("b")]),
        json!([prompt("hi"), call("a"), result("a"), result("a")]),
        json!([prompt("hi"), call("a"), result("a"), call("a"), result("a")]),
        json!([prompt(" ")]),
        json!([prompt("hi"), {"role": "assistant", "content": []}]),
    ];
    for messages in &bad {
        let response = ask(&server, "/v1/messages", &claude(messages.clone()));
        assert!(response.starts_with("HTTP/1.1 400") && response.contains("invalid_request_error"), "{messages}: {response}");
    }
    assert_eq!(server.take_errors().len(), bad.len());
    assert!(server.requests().is_empty());
}

#[test]
fn errors_cuts_and_noise_come_as_scripted() {
    let server = ModelServer::start(|seen: &Seen| match seen.user_texts()[0] {
        "error" => Answer::error(429, "slow down").header("retry-after", "7"),
        "cut" => Answer::text("a text that is never whole").cut_after(300),
        "noise" => Answer::stream("data: {not json\n\nevent: x\n"),
        "bytes" => Answer::bytes("HTTP/1.1 200 OK\r\nbroken"),
        "small" => Answer::text("small").in_chunks_of(1),
        _ => Answer::hang_up(),
    });
    let say = |text: &str| ask(&server, "/v1/messages", &claude(json!([prompt(text)])));
    let error = say("error");
    assert!(error.starts_with("HTTP/1.1 429") && error.contains("retry-after: 7") && error.contains("slow down"), "{error}");
    let cut = say("cut");
    assert!(cut.contains("message_start") && !cut.contains("message_stop"), "{cut}");
    assert!(say("noise").contains("{not json"));
    assert_eq!(say("bytes"), "HTTP/1.1 200 OK\r\nbroken");
    assert!(say("small").contains("\r\n1\r\n}\r\n"));
    assert_eq!(say("hang up"), "");
    assert_eq!((server.requests().len(), server.disconnects(), server.in_flight()), (6, 0, 0));
}

#[test]
fn a_client_that_goes_away_is_noticed() {
    let server = ModelServer::start(|_: &Seen| Answer::text("wait for it").stalled_after(50));
    let mut socket = connect(&server, "/v1/messages", &claude(json!([prompt("hi")])));
    assert!(server.wait_for_requests(1));
    assert!(socket.read(&mut [0; 64]).unwrap() > 0);
    assert_eq!((server.in_flight(), server.disconnects()), (1, 0));
    drop(socket);
    assert!(server.wait_for_disconnects(1));
    assert!(server.wait_until(Duration::from_secs(5), |books| books.in_flight == 0));
}

#[test]
fn slow_answers_are_slow_and_thoughts_are_signed() {
    let server = ModelServer::start(|_: &Seen| {
        let thought = Piece::Thinking { text: "hm".into(), signature: "sig".into() };
        Answer::calls([thought, Piece::Text("ok".into())]).after(Duration::from_millis(60)).slowly(Duration::from_millis(5))
    });
    let start = Instant::now();
    let answer = ask(&server, "/v1/messages", &claude(json!([prompt("hi")])));
    assert!(Duration::from_millis(100) <= start.elapsed(), "{:?}", start.elapsed());
    assert!(answer.contains("thinking_delta") && answer.contains("\"signature\":\"sig\""), "{answer}");
}

#[test]
fn a_script_that_panics_is_an_error_of_the_test() {
    let server = ModelServer::start(|seen: &Seen| -> Answer { panic!("no answer to {:?}", seen.user_texts()) });
    assert!(ask(&server, "/v1/messages", &claude(json!([prompt("hi")]))).starts_with("HTTP/1.1 500"));
    assert_eq!(server.take_errors(), ["the script panicked at request 0"]);
}
