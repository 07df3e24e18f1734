//! Our own Anthropic streams and bodies: the edges that recordings do not show.

use posse_session::{
    Block, Finish, Head, Message, ModelFailure, Params, Progress, ReplyPart, Request, Role, SessionId, ToolChoice, ToolSpec, Usage,
};
use serde_json::{Value, json};

use super::{State, encode};
use crate::{
    corpora::{cut_everywhere, read},
    fold::{Fold, Phase},
    sse::Event,
};

fn stream(events: &[Value]) -> Vec<u8> {
    events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())).collect::<String>().into_bytes()
}

fn start() -> Value {
    json!({ "type": "message_start", "message": { "usage": { "input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2 } } })
}

fn block(index: u64, content: Value) -> Value {
    json!({ "type": "content_block_start", "index": index, "content_block": content })
}

fn delta(index: u64, delta: Value) -> Value {
    json!({ "type": "content_block_delta", "index": index, "delta": delta })
}

fn stop(index: u64) -> Value {
    json!({ "type": "content_block_stop", "index": index })
}

fn end(reason: &str) -> [Value; 2] {
    [
        json!({ "type": "message_delta", "delta": { "stop_reason": reason }, "usage": { "output_tokens": 30 } }),
        json!({ "type": "message_stop" }),
    ]
}

fn tool(index: u64, pieces: &[&str]) -> Vec<Value> {
    let mut events = vec![block(index, json!({ "type": "tool_use", "id": format!("t{index}"), "name": "bash", "input": {} }))];
    events.extend(pieces.iter().map(|piece| delta(index, json!({ "type": "input_json_delta", "partial_json": piece }))));
    events
}

fn call(index: u64, input: &str) -> ReplyPart {
    ReplyPart::Call { id: format!("t{index}"), tool: "bash".into(), input: input.into() }
}

#[test]
fn a_whole_stream_gives_every_kind_of_part_and_no_cut_of_it_does() {
    let mut events = vec![start(), json!({ "type": "ping" })];
    events.extend([
        block(0, json!({ "type": "thinking", "thinking": "", "signature": "" })),
        delta(0, json!({ "type": "thinking_delta", "thinking": "hm" })),
        delta(0, json!({ "type": "signature_delta", "signature": "sig" })),
        stop(0),
        block(1, json!({ "type": "redacted_thinking", "data": "xyz" })),
        stop(1),
        block(2, json!({ "type": "text", "text": "" })),
        delta(2, json!({ "type": "text_delta", "text": "na" })),
        delta(2, json!({ "type": "citations_delta", "citation": { "type": "web" } })),
        delta(2, json!({ "type": "text_delta", "text": "ïve" })),
        stop(2),
        block(3, json!({ "type": "server_tool_use", "id": "s", "name": "web_search", "input": {} })),
        delta(3, json!({ "type": "input_json_delta", "partial_json": "{\"q\":1}" })),
        stop(3),
        json!({ "type": "something_new" }),
    ]);
    events.extend(tool(4, &["", "{\"command\":", "\"ls\"}"]));
    events.push(stop(4));
    events.extend(tool(5, &[""]));
    events.push(stop(5));
    events.extend(end("tool_use"));
    let bytes = stream(&events);
    let reply = read::<State>(&bytes).unwrap();
    let opaque = |raw| ReplyPart::Opaque { provider: "anthropic".into(), raw };
    assert_eq!(
        reply.parts,
        [
            ReplyPart::Reasoning { text: "hm".into(), signature: Some("sig".into()) },
            opaque(json!({ "type": "redacted_thinking", "data": "xyz" })),
            ReplyPart::Text("naïve".into()),
            opaque(json!({ "type": "server_tool_use", "id": "s", "name": "web_search", "input": { "q": 1 } })),
            call(4, r#"{"command":"ls"}"#),
            call(5, "{}"),
        ]
    );
    assert_eq!(reply.finish, Finish::Calls);
    assert_eq!(reply.usage, Usage { input: 10, output: 30, cache_read: 5, cache_write: 2, ..Usage::default() });
    cut_everywhere::<State>("own", &bytes);
}

#[test]
fn stop_reasons_are_mapped() {
    for (reason, finish) in [
        ("end_turn", Finish::Stop),
        ("stop_sequence", Finish::Stop),
        ("tool_use", Finish::Stop),
        ("max_tokens", Finish::Length),
        ("pause_turn", Finish::Other),
        ("refusal", Finish::Refusal),
        ("whatever", Finish::Other),
    ] {
        let mut events = vec![start(), block(0, json!({ "type": "text", "text": "hi" })), stop(0)];
        events.extend(end(reason));
        assert_eq!(read::<State>(&stream(&events)).unwrap().finish, finish, "{reason}");
    }
}

#[test]
fn a_call_cut_by_the_output_limit_is_told_and_never_whole_even_if_its_block_was_closed() {
    for closed in [true, false] {
        for (pieces, kept) in [(&["{\"command\":\"rm"] as &[&str], "{\"command\":\"rm"), (&[""], "{")] {
            let mut events = vec![start()];
            events.extend(tool(0, &["{}"]));
            events.push(stop(0));
            events.extend(tool(1, pieces));
            events.extend(closed.then(|| stop(1)));
            events.extend(end("max_tokens"));
            let reply = read::<State>(&stream(&events)).unwrap();
            assert_eq!((reply.parts, reply.finish), (vec![call(0, "{}"), call(1, kept)], Finish::Length), "{closed} {pieces:?}");
        }
    }
    // A whole input in a block that never ended may lack its end all the same.
    let mut events = vec![start()];
    events.extend(tool(0, &["{\"command\":\"rm\"}"]));
    events.extend(end("max_tokens"));
    assert_eq!(read::<State>(&stream(&events)).unwrap().parts, [call(0, "{\"command\":\"rm\"")]);
}

#[test]
fn a_whole_message_is_read_like_its_stream() {
    let message = json!({
        "type": "message",
        "content": [
            { "type": "thinking", "thinking": "hm", "signature": "sig" },
            { "type": "text", "text": "hi" },
            { "type": "tool_use", "id": "toolu_0", "name": "bash", "input": { "command": "ls" } },
        ],
        "stop_reason": "tool_use",
        "usage": { "input_tokens": 10, "output_tokens": 4 },
    });
    let mut state = State::default();
    state.push(&Event { name: String::new(), data: message.to_string() }, &mut |_: Progress| ());
    assert_eq!(state.phase(), Phase::Over);
    let reply = state.finish().unwrap();
    let thought = ReplyPart::Reasoning { text: "hm".into(), signature: Some("sig".into()) };
    let call = ReplyPart::Call { id: "toolu_0".into(), tool: "bash".into(), input: r#"{"command":"ls"}"#.into() };
    assert_eq!((reply.parts, reply.finish), (vec![thought, ReplyPart::Text("hi".into()), call], Finish::Calls));
    assert_eq!((reply.usage.input, reply.usage.output), (10, 4));
}

#[test]
fn an_unfinished_call_without_a_limit_is_malformed() {
    let mut events = vec![start()];
    events.extend(tool(0, &["{}"]));
    events.extend(end("tool_use"));
    assert_eq!(read::<State>(&stream(&events)).unwrap_err().failure, ModelFailure::Malformed);
}

#[test]
fn an_error_event_ends_the_stream_with_the_text_so_far() {
    let events = [
        start(),
        block(0, json!({ "type": "text", "text": "" })),
        delta(0, json!({ "type": "text_delta", "text": "half a" })),
        json!({ "type": "error", "error": { "type": "overloaded_error", "message": "Overloaded" } }),
        delta(0, json!({ "type": "text_delta", "text": "n answer" })),
        json!({ "type": "message_stop" }),
    ];
    let error = read::<State>(&stream(&events)).unwrap_err();
    assert_eq!((error.failure, error.partial.as_str()), (ModelFailure::Overloaded, "half a"));
    assert_eq!(error.usage.input, 10);
    assert!(error.words.contains("Overloaded"), "{}", error.words);
}

#[test]
fn an_event_that_is_no_json_is_malformed_at_once() {
    let mut state = State::default();
    state.push(&Event { name: "message_start".into(), data: "{oops".into() }, &mut |_: Progress| ());
    assert_eq!(state.phase(), Phase::Over);
    assert_eq!(state.finish().unwrap_err().failure, ModelFailure::Malformed);
}

#[test]
fn a_refusal_keeps_no_calls_and_without_an_answer_is_a_failure_that_says_why() {
    let mut events = vec![start()];
    events.extend(tool(0, &["{}"]));
    events.push(stop(0));
    events.push(json!({ "type": "message_delta", "delta": { "stop_reason": "refusal", "stop_details": { "explanation": "policy" } } }));
    events.push(json!({ "type": "message_stop" }));
    let error = read::<State>(&stream(&events)).unwrap_err();
    assert_eq!((error.failure, error.usage.input), (ModelFailure::BadRequest, 10));
    assert_eq!(error.words, "the provider declined to answer: policy; say it another way, or use another model");
    events.insert(1, block(9, json!({ "type": "text", "text": "I would rather not" })));
    let reply = read::<State>(&stream(&events)).unwrap();
    assert_eq!((reply.parts, reply.finish), (vec![ReplyPart::Text("I would rather not".into())], Finish::Refusal));
}

fn plainly(caching: encode::Caching) -> encode::Manner {
    encode::Manner { caching, drops_format: false, replay: encode::Replay::Sealed }
}

fn head() -> Head {
    Head {
        system: vec!["You are a robot.".into(), " ".into(), "Here is \"messages\":[".into()],
        tools: vec![ToolSpec { name: "bash".into(), description: "Runs".into(), schema: json!({ "type": "object" }) }],
        params: Params { temperature: Some(0.0), ..Params::default() },
        ..Head::default()
    }
}

fn say(role: Role, blocks: Vec<Block>) -> Message {
    Message { role, blocks }
}

fn text(text: &str) -> Block {
    Block::Text { text: text.into() }
}

fn conversation() -> Vec<Message> {
    let calling = vec![
        Block::Reasoning { text: "unsigned".into(), signature: None },
        Block::Reasoning { text: "signed".into(), signature: Some("s".into()) },
        Block::Opaque { provider: "anthropic".into(), raw: json!({ "type": "redacted_thinking", "data": "x" }) },
        Block::Opaque { provider: "someone".into(), raw: json!({ "type": "theirs" }) },
        text("  "),
        Block::Call { id: "c1".into(), tool: "bash".into(), input: "{ \"command\": \"ls\" }".into() },
        Block::Call { id: "c2".into(), tool: "bash".into(), input: "{broken".into() },
    ];
    let results = vec![
        text("and hurry"),
        Block::Result {
            id: "c1".into(),
            tool: "ls".into(),
            text: "a\nb".into(),
            error: false,
            images: vec![("image/png".into(), "QUJD".into())],
        },
        Block::Result { id: "c2".into(), tool: "ls".into(), text: String::new(), error: true, images: Vec::new() },
    ];
    vec![
        say(Role::User, vec![text("hi"), Block::Image { mime: "image/png".into(), data: "QUJD".into() }]),
        say(Role::Assistant, calling),
        say(Role::User, results),
        say(Role::Assistant, Vec::new()),
        say(Role::User, vec![text("more")]),
    ]
}

fn request(messages: &[Message], tool_choice: ToolChoice) -> Request {
    Request {
        session: SessionId::new("ses_1"),
        lineage: SessionId::new("ses_1"),
        head: encode::head("m1", &head()).into(),
        messages: messages.iter().map(|message| encode::message(message).into()).collect(),
        tool_choice,
        output_max: 100,
        idle_max: std::time::Duration::from_secs(1),
    }
}

#[test]
fn a_message_is_encoded_as_the_api_wants_it() {
    let bodies: Vec<String> = conversation().iter().map(|message| String::from_utf8(encode::message(message)).unwrap()).collect();
    assert_eq!(
        bodies,
        [
            r#"{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}}]}"#,
            r#"{"role":"assistant","content":[{"type":"thinking","thinking":"signed","signature":"s"},{"type":"redacted_thinking","data":"x"},{"type":"tool_use","id":"c1","name":"bash","input":{ "command": "ls" }},{"type":"tool_use","id":"c2","name":"bash","input":{"invalid_json":"{broken"}}]}"#,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"a\nb"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QUJD"}}]},{"type":"tool_result","tool_use_id":"c2","content":"(no output)","is_error":true},{"type":"text","text":"and hurry"}]}"#,
            r#"{"role":"assistant","content":[{"type":"text","text":"(no text)"}]}"#,
            r#"{"role":"user","content":[{"type":"text","text":"more"}]}"#,
        ]
    );
}

#[test]
fn a_body_without_its_tail_starts_the_next_one() {
    let messages = conversation();
    let mut before = Vec::new();
    for count in 1..=messages.len() {
        let body = encode::body(&request(&messages[..count], ToolChoice::Auto), plainly(encode::Caching::Automatic)).concat();
        let value: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(value["messages"].as_array().unwrap().len(), count);
        assert_eq!(value["max_tokens"], 100);
        assert!(body.starts_with(&before), "body {count} does not start with the one before");
        before = body.strip_suffix(br#"],"max_tokens":100}"#).unwrap().to_vec();
    }
}

#[test]
fn the_head_carries_the_markers_and_the_tail_what_varies() {
    let closing = encode::body(&request(&conversation()[..1], ToolChoice::None), plainly(encode::Caching::Automatic)).concat();
    let value: Value = serde_json::from_slice(&closing).unwrap();
    assert_eq!(value["tool_choice"], json!({ "type": "none" }));
    assert_eq!(value["cache_control"], json!({ "type": "ephemeral" }));
    assert_eq!(value["system"].as_array().unwrap().len(), 2);
    assert_eq!(value["system"][0].get("cache_control"), None);
    assert_eq!(value["system"][1]["cache_control"], json!({ "type": "ephemeral" }));
    assert_eq!(value["tools"][0]["input_schema"], json!({ "type": "object" }));
    assert_eq!((&value["stream"], &value["temperature"]), (&json!(true), &json!(0.0)));
    let toolless = Request { head: encode::head("m1", &Head::default()).into(), ..request(&conversation()[..1], ToolChoice::None) };
    let value: Value = serde_json::from_slice(&encode::body(&toolless, plainly(encode::Caching::Automatic)).concat()).unwrap();
    assert_eq!((value.get("tool_choice"), value.get("system"), value.get("tools")), (None, None, None));
}

#[test]
fn where_the_top_marker_is_refused_it_moves_into_the_last_block() {
    let request = request(&conversation(), ToolChoice::Auto);
    let spliced: Value = serde_json::from_slice(&encode::body(&request, plainly(encode::Caching::Spliced)).concat()).unwrap();
    assert_eq!(spliced.get("cache_control"), None);
    assert_eq!(spliced["system"][1]["cache_control"]["type"], "ephemeral");
    assert_eq!(spliced["messages"][4]["content"], json!([{ "type": "text", "text": "more", "cache_control": { "type": "ephemeral" } }]));
    let off = String::from_utf8(encode::body(&request, plainly(encode::Caching::Off)).concat()).unwrap();
    assert!(!off.contains("cache_control"));
    let mut plain: Value = serde_json::from_slice(&encode::body(&request, plainly(encode::Caching::Automatic)).concat()).unwrap();
    plain.as_object_mut().unwrap().shift_remove("cache_control");
    plain["system"][1].as_object_mut().unwrap().shift_remove("cache_control");
    assert_eq!(serde_json::from_str::<Value>(&off).unwrap(), plain);
}

#[test]
fn an_error_in_openais_words_ends_the_stream_too() {
    for (error, failure) in [
        (json!({ "type": "error", "error": { "type": "invalid_request_error", "message": "no" } }), ModelFailure::BadRequest),
        (json!({ "type": "error", "error": { "type": "authentication_error", "message": "no" } }), ModelFailure::Auth),
        (json!({ "error": { "type": "invalid_request_error", "message": "no" } }), ModelFailure::BadRequest),
        (json!({ "error": { "code": 403, "message": "no" } }), ModelFailure::Auth),
    ] {
        let mut fold = State::default();
        fold.push(&Event { name: String::new(), data: error.to_string() }, &mut |_: Progress| ());
        assert_eq!((fold.phase(), fold.finish().unwrap_err().failure), (Phase::Over, failure), "{error}");
    }
}

#[test]
fn an_endless_answer_is_given_up() {
    let megabyte = "x".repeat(1024 * 1024);
    let thinking = json!({ "type": "thinking", "thinking": "", "signature": "" });
    for (start, piece, times) in [
        (json!({ "type": "text", "text": "" }), json!({ "type": "text_delta", "text": megabyte }), 33),
        (thinking.clone(), json!({ "type": "thinking_delta", "thinking": megabyte }), 33),
        (thinking, json!({ "type": "signature_delta", "signature": megabyte }), 33),
        (json!({ "type": "tool_use", "id": "a", "name": "x" }), json!({ "type": "input_json_delta", "partial_json": megabyte }), 33),
        (json!({ "type": "strange" }), json!({ "type": "strange_delta", "more": [megabyte] }), 33),
        (json!({ "type": "strange" }), json!({ "type": "strange_delta", "more": vec![0; 10_000] }), 55),
        (Value::Null, json!({ "type": "text", "text": "" }), 33 * 1024),
    ] {
        let mut fold = State::default();
        let written = |value: Value| Event { name: String::new(), data: value.to_string() };
        let mut push = |event: &Event| {
            fold.push(event, &mut |_: Progress| ());
            fold.phase() == Phase::Over
        };
        // Without a start the deltas are blocks of their own.
        let event = written(if start.is_null() { block(0, piece) } else { delta(0, piece) });
        push(&written(block(0, start)));
        let given_up = (1..=times).find(|_| push(&event));
        assert!(given_up.is_some_and(|nth| times * 8 / 10 < nth), "{given_up:?} of {times}");
        let error = fold.finish().unwrap_err();
        assert_eq!((error.failure, error.words.as_str()), (ModelFailure::Malformed, "the answer is larger than 32 MiB"));
    }
}

#[test]
fn endless_texts_without_a_start_are_given_up_too() {
    let mut fold = State::default();
    // Seven kilobytes of text and one for the block.
    let text = "x".repeat(7 * 1024);
    let given_up = (0..4200).find(|nth| {
        let event = delta(*nth, json!({ "type": "text_delta", "text": text }));
        fold.push(&Event { name: String::new(), data: event.to_string() }, &mut |_: Progress| ());
        fold.phase() == Phase::Over
    });
    assert!(given_up.is_some(), "every one of them is a block of its own");
}
