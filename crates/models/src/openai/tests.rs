//! Our own Chat Completions streams and bodies: the quirks of servers, one by one.

use posse_session::{
    Block, Finish, Head, Message, ModelFailure, Progress, Reply, ReplyPart, Request, Role, SessionId, ToolChoice, ToolSpec, Usage,
};
use serde_json::{Value, json};

use super::{Dialect, Manner, State, dialect::Limit, encode};
use crate::{
    corpora::{cut_everywhere, read},
    fold::{Fold, Phase},
    sse::Event,
};

fn stream(chunks: &[Value]) -> Vec<u8> {
    let mut text: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    text.push_str("data: [DONE]\n\n");
    text.into_bytes()
}

fn chunk(delta: Value, finish: Option<&str>) -> Value {
    json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] })
}

fn reply(chunks: &[Value]) -> Reply {
    let bytes = stream(chunks);
    cut_everywhere::<State>("own", &bytes);
    read::<State>(&bytes).unwrap()
}

fn call(id: &str, tool: &str, input: &str) -> ReplyPart {
    ReplyPart::Call { id: id.into(), tool: tool.into(), input: input.into() }
}

fn tool_calls(calls: Value) -> Value {
    json!({ "tool_calls": calls })
}

#[test]
fn an_ordinary_answer_with_thinking_text_and_calls() {
    let reply = reply(&[
        json!({ "choices": [], "prompt_filter_results": [] }),
        chunk(json!({ "role": "assistant", "content": null, "reasoning_content": "hm" }), None),
        chunk(json!({ "content": "let me " }), None),
        chunk(json!({ "content": "see" }), None),
        chunk(tool_calls(json!([{ "index": 0, "id": "a", "function": { "name": "ls", "arguments": "" } }])), None),
        chunk(tool_calls(json!([{ "index": 0, "id": "", "function": { "name": "", "arguments": "{\"p\":" } }])), None),
        chunk(tool_calls(json!([{ "index": 1, "id": "b", "function": { "name": "cat", "arguments": "" } }])), None),
        chunk(tool_calls(json!([{ "index": 0, "function": { "arguments": "1}" } }])), None),
        chunk(json!({}), Some("tool_calls")),
        json!({ "choices": [], "usage": { "prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": { "cached_tokens": 60 } } }),
    ]);
    assert_eq!(
        reply,
        Reply {
            parts: vec![
                ReplyPart::Reasoning { text: "hm".into(), signature: None },
                ReplyPart::Text("let me see".into()),
                call("a", "ls", "{\"p\":1}"),
                call("b", "cat", "{}"),
            ],
            usage: Usage { input: 40, output: 7, cache_read: 60, ..Usage::default() },
            finish: Finish::Calls,
        }
    );
}

#[test]
fn calls_are_told_apart_whatever_the_server_leaves_out() {
    let two = [call("a", "x", "{\"n\":1}"), call("b", "y", "{\"n\":2}")];
    let made_up = [call("call_0", "x", "{\"n\":1}"), call("call_1", "x", "{\"n\":2}")];
    let entry = |index: Option<u64>, id: Option<&str>, name: &str, arguments: Value| {
        let mut entry = json!({ "function": { "name": name, "arguments": arguments } });
        let fields = [("index", index.map(Value::from)), ("id", id.map(Value::from))];
        entry.as_object_mut().unwrap().extend(fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        entry
    };
    let (one, other) = (json!("{\"n\":1}"), json!("{\"n\":2}"));
    for (quirk, entries, expected) in [
        ("no index", [entry(None, Some("a"), "x", one.clone()), entry(None, Some("b"), "y", other.clone())], &two),
        ("index always 0", [entry(Some(0), Some("a"), "x", one.clone()), entry(Some(0), Some("b"), "y", other.clone())], &two),
        ("no index, no id", [entry(None, None, "x", one.clone()), entry(None, None, "x", other.clone())], &made_up),
        ("no id", [entry(Some(0), None, "x", one), entry(Some(1), None, "x", other)], &made_up),
        ("objects", [entry(Some(0), Some("a"), "x", json!({ "n": 1 })), entry(Some(1), Some("b"), "y", json!({ "n": 2 }))], &two),
    ] {
        // Whole calls in one chunk, and one chunk each; with the finish reason of a plain answer.
        let together = reply(&[chunk(tool_calls(json!(entries)), None), chunk(json!({}), Some("stop"))]);
        let apart = reply(&[chunk(tool_calls(json!([entries[0]])), None), chunk(tool_calls(json!([entries[1]])), Some("stop"))]);
        for reply in [together, apart] {
            assert_eq!((reply.parts.as_slice(), reply.finish), (expected.as_slice(), Finish::Calls), "{quirk}");
        }
    }
}

#[test]
fn a_call_said_twice_is_one_and_the_next_under_the_same_id_is_another() {
    let entry = |index: Option<u64>, arguments: &str| {
        let mut entry = json!({ "id": "a", "function": { "name": "x", "arguments": arguments } });
        if let Some(index) = index {
            entry["index"] = index.into();
        }
        entry
    };
    let told = |entries: &[Value]| {
        let chunks = entries.iter().map(|entry| chunk(tool_calls(json!([entry])), None)).chain([chunk(json!({}), Some("tool_calls"))]);
        reply(&chunks.collect::<Vec<_>>()).parts
    };
    // The whole call again at the end, as some relays do: run once.
    for index in [None, Some(0)] {
        assert_eq!(told(&[entry(index, "{\"n\":1}"), entry(index, "{\"n\":1}")]), [call("a", "x", "{\"n\":1}")], "{index:?}");
    }
    // Two calls under one id: the transcript gives the second an id of its own.
    assert_eq!(told(&[entry(None, "{\"n\":1}"), entry(None, "{\"n\":2}")]), [call("a", "x", "{\"n\":1}"), call("a", "x", "{\"n\":2}")]);
    assert_eq!(
        told(&[entry(Some(0), "{\"n\":1}"), entry(Some(1), "{\"n\":2}")]),
        [call("a", "x", "{\"n\":1}"), call("a", "x", "{\"n\":2}")]
    );
    // One call whose every piece has the id and the name.
    for index in [None, Some(0)] {
        assert_eq!(told(&[entry(index, "{\"n\""), entry(index, ":1}")]), [call("a", "x", "{\"n\":1}")], "{index:?}");
    }
}

#[test]
fn thinking_that_comes_only_in_details_is_shown_and_kept() {
    let details = |value: Value| chunk(json!({ "reasoning_details": value }), None);
    let reply = reply(&[
        details(json!([{ "type": "reasoning.summary", "summary": "first", "index": 0, "id": null }])),
        details(json!([{ "type": "reasoning.summary", "summary": ", then", "index": 0, "id": "r1" }])),
        details(
            json!([{ "type": "reasoning.encrypted", "data": "eA==", "index": 1 }, { "type": "reasoning.encrypted", "data": "eQ==", "index": 1 }]),
        ),
        chunk(json!({ "content": "ok" }), Some("stop")),
    ]);
    let kept = json!([
        { "type": "reasoning.summary", "summary": "first, then", "index": 0, "id": "r1" },
        { "type": "reasoning.encrypted", "data": "eA==", "index": 1 },
        { "type": "reasoning.encrypted", "data": "eQ==", "index": 1 },
    ]);
    let [ReplyPart::Reasoning { text, .. }, ReplyPart::Opaque { raw, .. }, ReplyPart::Text(_)] = reply.parts.as_slice() else {
        panic!("{reply:?}")
    };
    assert_eq!((text.as_str(), &raw["reasoning_details"]), ("first, then", &kept));
}

#[test]
fn a_bill_is_read_in_every_form_and_never_nonsense() {
    for (usage, cost) in [
        (json!({ "prompt_tokens": 1, "cost": 0.5 }), 0.5),
        (json!({ "prompt_tokens": 1, "cost": 0 }), 0.0),
        (json!({ "prompt_tokens": 1, "cost": -1 }), 0.0),
        (json!({ "prompt_tokens": 1, "cost": { "total_cost": 3 } }), 0.0),
        (json!({ "prompt_tokens": 1, "cost": "free" }), 0.0),
        (json!({ "prompt_tokens": 1, "cost_in_usd_ticks": 10_000_000_000_u64 }), 1.0),
    ] {
        let mut last = chunk(json!({ "content": "x" }), Some("stop"));
        last["usage"] = usage.clone();
        assert_eq!(reply(&[last]).usage.cost_usd, cost, "{usage}");
    }
}

#[test]
fn the_legacy_call_counts_only_alone() {
    let legacy = json!({ "function_call": { "name": "old", "arguments": "{}" } });
    assert_eq!(reply(&[chunk(legacy.clone(), Some("function_call"))]).parts, [call("call_0", "old", "{}")]);
    let both = json!({ "function_call": legacy["function_call"], "tool_calls": [{ "index": 0, "id": "a", "function": { "name": "new", "arguments": "{}" } }] });
    assert_eq!(reply(&[chunk(both, Some("tool_calls"))]).parts, [call("a", "new", "{}")]);
}

#[test]
fn finish_reasons_are_mapped() {
    for (reason, finish) in [
        ("stop", Finish::Stop),
        ("tool_calls", Finish::Stop),
        ("length", Finish::Length),
        ("model_length", Finish::Length),
        ("content_filter", Finish::Refusal),
        ("odd", Finish::Other),
    ] {
        assert_eq!(reply(&[chunk(json!({ "content": "x" }), Some(reason))]).finish, finish, "{reason}");
    }
}

#[test]
fn a_call_cut_by_the_output_limit_is_told_and_never_whole() {
    for (arguments, kept) in [("{\"n\":", "{\"n\":"), ("", "{"), ("\"{}\"", "\"{}")] {
        for (reason, finish) in [("length", Finish::Length), ("odd", Finish::Calls)] {
            let half = tool_calls(json!([{ "index": 0, "id": "a", "function": { "name": "x", "arguments": arguments } }]));
            let reply = reply(&[chunk(half, None), chunk(json!({}), Some(reason))]);
            assert_eq!((reply.parts, reply.finish), (vec![call("a", "x", kept)], finish), "{arguments} {reason}");
        }
    }
    let nameless = tool_calls(json!([{ "index": 0, "id": "a", "function": { "arguments": "{" } }]));
    assert_eq!(reply(&[chunk(nameless, Some("length"))]).parts, []);
}

#[test]
fn a_refusal_without_an_answer_is_a_failure_with_its_reason() {
    let bytes = stream(&[chunk(json!({ "content": "" }), Some("content_filter"))]);
    let error = read::<State>(&bytes).unwrap_err();
    assert_eq!(error.failure, ModelFailure::BadRequest);
    assert_eq!(error.words, "the provider declined to answer: content_filter; say it another way, or use another model");
}

#[test]
fn whole_calls_under_one_index_are_several() {
    let piece = |name: &str, arguments: &str| json!({ "index": 0, "function": { "name": name, "arguments": arguments } });
    let both = reply(&[chunk(tool_calls(json!([piece("x", "{\"n\":1}"), piece("x", "{\"n\":2}")])), Some("tool_calls"))]);
    assert_eq!(both.parts, [call("call_0", "x", "{\"n\":1}"), call("call_1", "x", "{\"n\":2}")]);
    // The name in every piece, and once more at the end, is still one call.
    let pieces = [piece("x", "{\"n\""), piece("x", ":1}"), piece("x", "")];
    let one = reply(&[chunk(tool_calls(json!(pieces)), Some("tool_calls"))]);
    assert_eq!(one.parts, [call("call_0", "x", "{\"n\":1}")]);
}

#[test]
fn a_generation_that_the_server_calls_broken_is_no_reply() {
    let whole_call = tool_calls(json!([{ "index": 0, "id": "a", "function": { "name": "x", "arguments": "{}" } }]));
    let usage = json!({ "choices": [], "usage": { "prompt_tokens": 9, "completion_tokens": 1 } });
    for reason in
        ["error", "insufficient_system_resource", "network_error", "abort", "cancelled", "function_call_filter: MALFORMED_FUNCTION_CALL"]
    {
        let said = chunk(json!({ "content": "so far" }), None);
        let bytes = stream(&[said, chunk(whole_call.clone(), None), chunk(json!({}), Some(reason)), usage.clone()]);
        let error = read::<State>(&bytes).unwrap_err();
        assert_eq!((error.failure, error.partial.as_str(), error.usage.input), (ModelFailure::Cut, "so far", 9), "{reason}");
        assert!(error.words.contains(reason), "{}", error.words);
    }
}

#[test]
fn a_call_without_arguments_counts_only_under_an_end_that_is_understood() {
    let calls = tool_calls(json!([
        { "index": 0, "id": "a", "function": { "name": "empty", "arguments": "" } },
        { "index": 1, "id": "b", "function": { "name": "list", "arguments": "[1]" } },
        { "index": 2, "id": "c", "function": { "name": "whole", "arguments": "{\"n\":1}" } },
        { "index": 3, "id": "d", "function": { "name": "half", "arguments": "{\"n\":" } },
    ]));
    let odd = reply(&[chunk(calls, None), chunk(json!({}), Some("odd"))]);
    // The others are told to the model, and none of them can be run.
    let expected = [call("a", "empty", "{"), call("b", "list", "[1"), call("c", "whole", "{\"n\":1}"), call("d", "half", "{\"n\":")];
    assert_eq!((odd.parts, odd.finish), (expected.to_vec(), Finish::Calls));
    let bare = tool_calls(json!([{ "index": 0, "id": "a", "function": { "name": "x", "arguments": "" } }]));
    for reason in ["tool_calls", "stop", "function_call"] {
        let reply = reply(&[chunk(bare.clone(), None), chunk(json!({}), Some(reason))]);
        assert_eq!((reply.parts, reply.finish), (vec![call("a", "x", "{}")], Finish::Calls), "{reason}");
    }
    let odd = reply(&[chunk(json!({ "content": "hi" }), None), chunk(bare, Some("odd"))]);
    assert_eq!((odd.parts, odd.finish), (vec![ReplyPart::Text("hi".into()), call("a", "x", "{")], Finish::Calls));
}

#[test]
fn an_endless_answer_is_given_up() {
    let megabyte = "x".repeat(1024 * 1024);
    let call_of = |arguments: &str| tool_calls(json!([{ "index": 0, "id": "a", "function": { "name": "x", "arguments": arguments } }]));
    let new_call = tool_calls(json!([{ "function": { "name": "x", "arguments": "" } }]));
    for (delta, times) in [
        (json!({ "content": megabyte }), 33),
        (json!({ "reasoning_content": megabyte }), 33),
        (json!({ "reasoning_details": [{ "type": "reasoning.encrypted", "data": megabyte }] }), 33),
        (json!({ "reasoning_details": [{ "type": "reasoning.encrypted", "data": "", "more": [megabyte] }] }), 33),
        (json!({ "reasoning_details": [{ "type": "reasoning.encrypted", "data": "", megabyte.clone(): 1 }] }), 33),
        (json!({ "refusal": megabyte }), 33),
        (call_of(&megabyte), 33),
        (json!({ "function_call": { "name": "x", "arguments": megabyte } }), 33),
        (new_call, 33 * 1024),
    ] {
        let event = Event { name: String::new(), data: chunk(delta, None).to_string() };
        let mut fold = State::default();
        let given_up = (1..=times).find(|_| {
            fold.push(&event, &mut |_: Progress| ());
            fold.phase() == Phase::Over
        });
        assert!(given_up.is_some_and(|nth| times * 9 / 10 < nth), "{given_up:?} of {times}");
        let error = fold.finish().unwrap_err();
        assert_eq!((error.failure, error.words.as_str()), (ModelFailure::Malformed, "the answer is larger than 32 MiB"));
    }
}

#[test]
fn done_is_an_end_and_so_is_a_finish_reason_but_nothing_less() {
    let said = format!("data: {}\r\n\r\n", chunk(json!({ "content": "hi" }), None));
    let finished = format!("data: {}\r\n\r\n", chunk(json!({}), Some("stop")));
    let half_call = format!("data: {}\r\n\r\n", chunk(tool_calls(json!([{ "function": { "name": "x", "arguments": "{" } }])), None));
    let failure = |text: &str| read::<State>(text.as_bytes()).err().map(|error| (error.failure, error.partial));
    assert_eq!(failure(&format!("{said}{finished}")), None);
    assert_eq!(failure(&format!("{said}data: [DONE]\r\n\r\n")), None);
    assert_eq!(failure(&said), Some((ModelFailure::Cut, "hi".into())));
    assert_eq!(failure(&format!("{said}{half_call}data: [DONE]\r\n\r\n")), Some((ModelFailure::Cut, "hi".into())));
    assert_eq!(failure("data: [DONE]\n\n"), Some((ModelFailure::Cut, String::new())));
    assert_eq!(failure(""), Some((ModelFailure::Cut, String::new())));
}

#[test]
fn an_error_as_data_ends_the_stream() {
    for (error, failure) in [
        (json!({ "error": { "message": "slow down", "type": "rate_limit_error" } }), ModelFailure::RateLimited),
        (json!({ "error": { "message": "upstream", "code": 502 }, "choices": [] }), ModelFailure::Server),
        (
            json!({ "choices": [{ "delta": {}, "finish_reason": "error", "error": { "message": "x", "code": 503 } }] }),
            ModelFailure::Overloaded,
        ),
        (json!({ "object": "error", "message": "something" }), ModelFailure::Cut),
        (json!({ "object": "error", "message": "no such model", "type": "NotFoundError", "code": 404 }), ModelFailure::BadRequest),
        (json!({ "error": { "message": "no", "type": "invalid_request_error", "code": null } }), ModelFailure::BadRequest),
        (json!({ "error": { "message": "no", "type": "insufficient_quota", "code": "insufficient_quota" } }), ModelFailure::Auth),
        (json!([{ "error": { "message": "no", "code": 403 } }]), ModelFailure::Auth),
    ] {
        let told = read::<State>(&stream(&[chunk(json!({ "content": "so far" }), None), error.clone()])).unwrap_err();
        assert_eq!((told.failure, told.partial.as_str()), (failure, "so far"), "{error}");
    }
}

#[test]
fn usage_is_counted_the_same_for_every_server() {
    for (usage, expected) in [
        (json!({ "prompt_tokens": 10, "completion_tokens": 2 }), [10, 2, 0, 0]),
        (json!({ "prompt_tokens": 339, "completion_tokens": 83, "total_tokens": 422, "prompt_cache_hit_tokens": 320 }), [19, 83, 320, 0]),
        // Thinking counted in the total only.
        (json!({ "prompt_tokens": 291, "completion_tokens": 26, "total_tokens": 513 }), [291, 222, 0, 0]),
        (
            json!({ "prompt_tokens": 50, "completion_tokens": 1, "prompt_tokens_details": { "cached_tokens": 20, "cache_write_tokens": 10 } }),
            [20, 1, 20, 10],
        ),
        (Value::Null, [0, 0, 0, 0]),
    ] {
        let mut last = chunk(json!({ "content": "x" }), Some("stop"));
        last["usage"] = usage.clone();
        let used = reply(&[last]).usage;
        assert_eq!([used.input, used.output, used.cache_read, used.cache_write], expected, "{usage}");
    }
}

#[test]
fn content_as_parts_is_text_and_thinking() {
    let parts =
        json!({ "content": [{ "type": "thinking", "thinking": [{ "type": "text", "text": "hm" }] }, { "type": "text", "text": "yes" }] });
    let reply = reply(&[chunk(parts, Some("stop"))]);
    assert_eq!(reply.parts, [ReplyPart::Reasoning { text: "hm".into(), signature: None }, ReplyPart::Text("yes".into())]);
}

fn text(text: &str) -> Block {
    Block::Text { text: text.into() }
}

fn dialect() -> Dialect {
    Dialect::of("mock", Some("127.0.0.1"), "m1")
}

fn conversation() -> Vec<Message> {
    let say = |role, blocks| Message { role, blocks };
    let image = || ("image/png".to_owned(), "QUJD".to_owned());
    let result = |id: &str, text: &str, images| Block::Result { id: id.into(), tool: "ls".into(), text: text.into(), error: false, images };
    vec![
        say(Role::User, vec![text("hi"), text(" "), text("there")]),
        say(
            Role::Assistant,
            vec![
                Block::Reasoning { text: "hm".into(), signature: None },
                Block::Call { id: "c1".into(), tool: "ls".into(), input: "{ }".into() },
                Block::Call { id: "c2".into(), tool: "ls".into(), input: "oops".into() },
            ],
        ),
        say(Role::User, vec![result("c1", "a", vec![image()]), result("c2", "", Vec::new()), text("go on")]),
        say(Role::Assistant, vec![text("ok"), Block::Opaque { provider: "anthropic".into(), raw: json!({}) }]),
        say(Role::User, vec![result("c3", "b", Vec::new())]),
        say(Role::Assistant, Vec::new()),
    ]
}

#[test]
fn a_message_is_encoded_as_one_or_several_of_the_api() {
    let bodies: Vec<String> =
        conversation().iter().map(|message| String::from_utf8(encode::message(message, &dialect())).unwrap()).collect();
    assert_eq!(
        bodies,
        [
            r#"{"role":"user","content":"hi\n\nthere"}"#,
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"ls","arguments":"{ }"}},{"id":"c2","type":"function","function":{"name":"ls","arguments":"{\"invalid_json\":\"oops\"}"}}]}"#,
            r#"{"role":"tool","tool_call_id":"c1","content":"a"},{"role":"tool","tool_call_id":"c2","content":"(no output)"},{"role":"user","content":[{"type":"text","text":"go on"},{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}}]}"#,
            r#"{"role":"assistant","content":"ok"}"#,
            r#"{"role":"tool","tool_call_id":"c3","content":"b"}"#,
            r#"{"role":"assistant","content":"(no text)"}"#,
        ]
    );
}

#[test]
fn a_body_without_its_tail_starts_the_next_one() {
    let head = Head {
        system: vec!["one".into(), "two".into()],
        tools: vec![ToolSpec { name: "ls".into(), description: "Lists".into(), schema: json!({ "type": "object" }) }],
        ..Head::default()
    };
    let messages = conversation();
    let request = |count: usize, tool_choice| Request {
        session: SessionId::new("ses_1"),
        lineage: SessionId::new("ses_1"),
        head: encode::head(&head, &dialect()).into(),
        messages: messages[..count].iter().map(|message| encode::message(message, &dialect()).into()).collect(),
        tool_choice,
        output_max: 100,
        idle_max: std::time::Duration::from_secs(1),
    };
    let mut before = Vec::new();
    for count in 1..=messages.len() {
        let body = encode::body(&request(count, ToolChoice::Auto), Manner::default()).concat();
        let value: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(value["messages"][0], json!({ "role": "system", "content": "one\n\ntwo" }));
        assert_eq!((&value["stream"], &value["stream_options"]["include_usage"]), (&json!(true), &json!(true)));
        assert!(body.starts_with(&before), "body {count} does not start with the one before");
        before = body.strip_suffix(br#"],"max_tokens":100}"#).unwrap().to_vec();
    }
    let closing: Value = serde_json::from_slice(
        &encode::body(&request(1, ToolChoice::None), Manner { limit: Limit::MaxCompletionTokens, ..Manner::default() }).concat(),
    )
    .unwrap();
    assert_eq!((&closing["tool_choice"], &closing["max_completion_tokens"]), (&json!("none"), &json!(100)));
}
