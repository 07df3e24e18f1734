//! Our own Responses streams and bodies: what must come out of each event, and what goes back.

use posse_session::{
    Block, Finish, Head, Message, ModelFailure, Params, Progress, Reply, ReplyPart, Request, Role, SessionId, ToolChoice, ToolSpec, Usage,
};
use serde_json::{Value, json};

use super::{
    State,
    encode::{self, Manner},
};
use crate::{
    corpora::{cut_everywhere, read},
    fold::{Fold, Phase},
    sse::Event,
};

const OWNER: &str = "openai-responses/mock";

fn stream(events: &[Value]) -> Vec<u8> {
    let text: String = events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())).collect();
    text.into_bytes()
}

fn reply(events: &[Value]) -> Reply {
    let bytes = stream(events);
    cut_everywhere::<State>("own", &bytes);
    read::<State>(&bytes).unwrap()
}

fn failed(events: &[Value]) -> posse_session::ModelError {
    read::<State>(&stream(events)).unwrap_err()
}

fn done(index: u64, item: Value) -> Value {
    json!({ "type": "response.output_item.done", "output_index": index, "item": item })
}

fn said(index: u64, text: &str) -> Value {
    done(
        index,
        json!({ "type": "message", "id": format!("msg_{index}"), "role": "assistant", "content": [{ "type": "output_text", "text": text }] }),
    )
}

fn called(index: u64, id: &str, tool: &str, arguments: &str) -> Value {
    done(
        index,
        json!({ "type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": tool, "arguments": arguments, "status": "completed" }),
    )
}

fn thinking() -> Value {
    json!({ "type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA", "summary": [{ "type": "summary_text", "text": "one" }, { "type": "summary_text", "text": "two" }] })
}

fn completed() -> Value {
    let usage = json!({ "input_tokens": 100, "input_tokens_details": { "cached_tokens": 60 }, "output_tokens": 7, "output_tokens_details": { "reasoning_tokens": 5 }, "total_tokens": 107 });
    json!({ "type": "response.completed", "response": { "status": "completed", "error": null, "incomplete_details": null, "usage": usage } })
}

fn incomplete(reason: &str) -> Value {
    json!({ "type": "response.incomplete", "response": { "incomplete_details": { "reason": reason }, "usage": { "input_tokens": 3, "output_tokens": 4 } } })
}

fn call(id: &str, tool: &str, input: &str) -> ReplyPart {
    ReplyPart::Call { id: id.into(), tool: tool.into(), input: input.into() }
}

fn opaque(raw: Value) -> ReplyPart {
    ReplyPart::Opaque { provider: String::new(), raw }
}

#[test]
fn an_ordinary_answer_with_thinking_text_and_calls() {
    let events = [
        json!({ "type": "response.created", "response": { "status": "in_progress" } }),
        json!({ "type": "response.output_item.added", "output_index": 0, "item": { "type": "reasoning", "id": "rs_1", "encrypted_content": "other", "summary": [] } }),
        json!({ "type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 0 }),
        json!({ "type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "one" }),
        json!({ "type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 1 }),
        json!({ "type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "two" }),
        done(0, thinking()),
        json!({ "type": "response.output_item.added", "output_index": 1, "item": { "type": "message", "id": "msg_1", "content": [] } }),
        json!({ "type": "response.output_text.delta", "output_index": 1, "delta": "let me ", "obfuscation": "x" }),
        json!({ "type": "response.output_text.delta", "output_index": 1, "delta": "see" }),
        said(1, "let me see"),
        json!({ "type": "response.output_item.added", "output_index": 2, "item": { "type": "function_call", "id": "fc_a", "call_id": "a", "name": "ls", "arguments": "" } }),
        json!({ "type": "response.function_call_arguments.delta", "output_index": 2, "item_id": "fc_a", "delta": "{\"p\"" }),
        called(3, "b", "cat", ""),
        json!({ "type": "response.function_call_arguments.done", "output_index": 2, "item_id": "fc_a", "arguments": "{\"p\":1}" }),
        called(2, "a", "ls", "{\"p\":1}"),
        completed(),
    ];
    assert_eq!(
        reply(&events),
        Reply {
            parts: vec![
                ReplyPart::Reasoning { text: "one\n\ntwo".into(), signature: None },
                opaque(thinking()),
                ReplyPart::Text("let me see".into()),
                call("a", "ls", "{\"p\":1}"),
                call("b", "cat", "{}"),
            ],
            usage: Usage { input: 40, output: 7, cache_read: 60, ..Usage::default() },
            finish: Finish::Calls,
        }
    );
    let mut shown = Vec::new();
    let mut fold = State::default();
    for event in &events {
        fold.push(&Event { name: String::new(), data: event.to_string() }, &mut |progress: Progress| shown.push(progress));
    }
    shown.retain(|progress| *progress != Progress::Alive);
    assert_eq!(
        shown,
        [
            Progress::Reasoning("one".into()),
            Progress::Reasoning("\n\n".into()),
            Progress::Reasoning("two".into()),
            Progress::Text("let me ".into()),
            Progress::Text("see".into()),
            Progress::CallNamed { tool: "ls".into() },
            Progress::CallInput { bytes: 4 },
        ]
    );
}

#[test]
fn items_of_other_peoples_tools_break_nothing() {
    let foreign = ["web_search_call", "mcp_list_tools", "custom_tool_call", "code_interpreter_call", "program_output", "tomorrow"];
    let mut events: Vec<Value> = foreign
        .iter()
        .enumerate()
        .flat_map(|(nth, kind)| {
            let item = json!({ "type": kind, "id": format!("x_{nth}"), "input": "y" });
            [
                json!({ "type": "response.output_item.added", "output_index": nth, "item": item }),
                json!({ "type": format!("response.{kind}.in_progress"), "output_index": nth }),
                done(nth as u64, item),
            ]
        })
        .collect();
    events.extend([json!({ "type": "response.never.seen" }), said(9, "found"), completed()]);
    assert_eq!(reply(&events).parts, [ReplyPart::Text("found".into())]);
    // One that holds what only the provider can read is needed again.
    let compaction = json!({ "type": "compaction", "id": "cmp_1", "encrypted_content": "gBBB" });
    assert_eq!(reply(&[done(0, compaction.clone()), said(1, "x"), completed()]).parts[0], opaque(compaction));
}

#[test]
fn what_a_server_leaves_out_is_made_up() {
    let delta = |text: &str| json!({ "type": "response.output_text.delta", "item_id": "m", "delta": text });
    // No items at all, only their deltas.
    assert_eq!(reply(&[delta("a"), delta("b"), completed()]).parts, [ReplyPart::Text("ab".into())]);
    // Everything at the end.
    let mut whole = completed();
    whole["response"]["output"] = json!([said(0, "all")["item"], called(1, "c", "ls", "{}")["item"]]);
    assert_eq!(reply(&[whole]).parts, [ReplyPart::Text("all".into()), call("c", "ls", "{}")]);
    // A call whose item is never done, but whose arguments are.
    let added = json!({ "type": "response.output_item.added", "output_index": 0, "item": { "type": "function_call", "id": "fc", "name": "ls", "arguments": "" } });
    let arguments = json!({ "type": "response.function_call_arguments.done", "output_index": 0, "arguments": "{\"p\":1}" });
    assert_eq!(reply(&[added.clone(), arguments, completed()]).parts, [call("fc", "ls", "{\"p\":1}")]);
    // One that was only begun is no call, and no answer either.
    let half = failed(&[delta("so far"), added, completed()]);
    assert_eq!((half.failure, half.partial.as_str()), (ModelFailure::Malformed, "so far"));
    // A relay that began again, and ends every stream in the same way.
    let text = String::from_utf8(stream(&[delta("lost"), json!({ "type": "response.created" }), said(0, "found"), completed()])).unwrap();
    assert_eq!(read::<State>(format!("{text}data: [DONE]\n\n").as_bytes()).unwrap().parts, [ReplyPart::Text("found".into())]);
}

#[test]
fn a_whole_response_is_read_like_its_stream() {
    let output = json!([
        { "type": "message", "content": [{ "type": "output_text", "text": "hi" }] },
        { "type": "function_call", "call_id": "a", "name": "ls", "arguments": "{}" },
    ]);
    let response = json!({ "object": "response", "status": "completed", "error": null, "output": output, "usage": { "input_tokens": 9, "output_tokens": 3 } });
    let whole = read::<State>(format!("data: {response}\n\n").as_bytes()).unwrap();
    assert_eq!((whole.parts, whole.finish), (vec![ReplyPart::Text("hi".into()), call("a", "ls", "{}")], Finish::Calls));
    assert_eq!(whole.usage.input, 9);
}

#[test]
fn an_end_says_why() {
    for (end, finish, calls) in [
        (completed(), Finish::Calls, 2),
        (incomplete("max_output_tokens"), Finish::Length, 2),
        (incomplete("content_filter"), Finish::Refusal, 0),
        (incomplete("something"), Finish::Calls, 2),
    ] {
        let reply = reply(&[said(0, "x"), called(1, "a", "ls", "{}"), called(2, "b", "ls", "{\"p\":"), end.clone()]);
        let found = reply.parts.iter().filter(|part| matches!(part, ReplyPart::Call { .. })).count();
        assert_eq!((reply.finish, found), (finish, calls), "{end}");
        assert_eq!(reply.parts[0], ReplyPart::Text("x".into()));
    }
    // What the limit cut is told and never whole, also where the server calls it incomplete.
    let half = done(0, json!({ "type": "function_call", "call_id": "a", "name": "ls", "arguments": "{\"p\":1}", "status": "incomplete" }));
    assert_eq!(reply(&[half, incomplete("max_output_tokens")]).parts, [call("a", "ls", "{\"p\":1")]);
    let declined = failed(&[incomplete("content_filter")]);
    assert_eq!(declined.failure, ModelFailure::BadRequest);
    assert_eq!(declined.words, "the provider declined to answer: content_filter; say it another way, or use another model");
    let refusal = done(0, json!({ "type": "message", "content": [{ "type": "refusal", "refusal": "I will not" }] }));
    let refused = reply(&[refusal, called(1, "a", "ls", "{}"), completed()]);
    assert_eq!((refused.parts, refused.finish), (vec![ReplyPart::Text("I will not".into())], Finish::Refusal));
}

#[test]
fn an_error_in_the_stream_is_told_as_finely_as_a_status() {
    let bare =
        |code: &str, message: &str| json!({ "type": "error", "code": code, "message": message, "param": null, "sequence_number": 3 });
    let wrapped = |code: &str, message: &str| json!({ "type": "error", "error": { "type": "x", "code": code, "message": message } });
    let failure = |code: &str, message: &str| json!({ "type": "response.failed", "response": { "error": { "code": code, "message": message }, "usage": { "input_tokens": 9, "output_tokens": 1 } } });
    for (code, message, expected) in [
        ("insufficient_quota", "You exceeded your current quota", ModelFailure::Auth),
        ("rate_limit_exceeded", "Rate limit reached", ModelFailure::RateLimited),
        ("context_length_exceeded", "Your input exceeds the context window of this model.", ModelFailure::TooLong),
        ("server_error", "An error occurred", ModelFailure::Server),
        ("server_is_overloaded", "Our servers are currently overloaded", ModelFailure::Overloaded),
        ("invalid_prompt", "Invalid prompt", ModelFailure::BadRequest),
        ("never_heard_of", "x", ModelFailure::Cut),
    ] {
        for error in [bare(code, message), wrapped(code, message), failure(code, message)] {
            let delta = json!({ "type": "response.output_text.delta", "output_index": 0, "delta": "so far" });
            // Nothing after it counts: a quota is told twice.
            let told = failed(&[delta, error.clone(), failure("server_error", "again"), completed()]);
            assert_eq!((told.failure, told.partial.as_str()), (expected, "so far"), "{error}");
            assert!(told.words.contains(message), "{}", told.words);
        }
    }
    assert_eq!(failed(&[failure("server_error", "x")]).usage.input, 9);
    let silent = failed(&[json!({ "type": "response.failed", "response": { "error": null } })]);
    assert_eq!((silent.failure, silent.words.as_str()), (ModelFailure::Cut, "the provider broke off without a word"));
    assert_eq!(read::<State>(b"data: {oops\n\n").unwrap_err().failure, ModelFailure::Malformed);
    assert_eq!(read::<State>(b"data: [DONE]\n\n").unwrap_err().failure, ModelFailure::Cut);
}

#[test]
fn an_endless_answer_is_given_up() {
    let megabyte = "x".repeat(1024 * 1024);
    let new_item = |nth: u64| json!({ "type": "response.output_item.added", "output_index": nth, "item": { "type": "tomorrow" } });
    for (event, times) in [
        (json!({ "type": "response.output_text.delta", "output_index": 0, "delta": megabyte }), 33),
        (json!({ "type": "response.function_call_arguments.delta", "output_index": 0, "delta": megabyte }), 33),
        (done(0, json!({ "type": "reasoning", "encrypted_content": megabyte })), 33),
        (
            json!({ "type": "response.output_item.added", "output_index": 0, "item": { "type": "reasoning", "encrypted_content": megabyte } }),
            33,
        ),
        (json!({ "type": "response.output_item.added", "item": { "type": "message", "id": megabyte } }), 33),
        (new_item(0), 17 * 1024),
    ] {
        let mut fold = State::default();
        let written = |value: &Value| Event { name: String::new(), data: value.to_string() };
        let event = written(&event);
        let given_up = (0..times).find(|nth| {
            let other = (100 < times).then(|| written(&new_item(*nth)));
            fold.push(other.as_ref().unwrap_or(&event), &mut |_: Progress| ());
            fold.phase() == Phase::Over
        });
        assert!(given_up.is_some_and(|nth| times * 9 / 10 < nth), "{given_up:?} of {times}");
        assert_eq!(fold.finish().unwrap_err().words, "the answer is larger than 32 MiB");
    }
}

#[test]
fn an_output_that_comes_at_once_is_counted_too() {
    let item = json!({ "type": "reasoning", "encrypted_content": "x".repeat(1024 * 1024) });
    let end = json!({ "type": "response.completed", "response": { "output": vec![item; 33] } });
    let mut fold = State::default();
    fold.push(&Event { name: String::new(), data: end.to_string() }, &mut |_: Progress| ());
    assert_eq!(fold.finish().unwrap_err().words, "the answer is larger than 32 MiB");
}

fn text(text: &str) -> Block {
    Block::Text { text: text.into() }
}

fn mine(raw: Value) -> Block {
    Block::Opaque { provider: OWNER.into(), raw }
}

fn asked(id: &str, input: &str) -> Block {
    Block::Call { id: id.into(), tool: "ls".into(), input: input.into() }
}

fn conversation() -> Vec<Message> {
    let say = |role, blocks| Message { role, blocks };
    let image = || ("image/png".to_owned(), "QUJD".to_owned());
    let result = |id: &str, text: &str, images| Block::Result { id: id.into(), tool: "ls".into(), text: text.into(), error: false, images };
    vec![
        say(Role::User, vec![text("hi"), text(" "), Block::Image { mime: "image/png".into(), data: "QUJD".into() }]),
        say(
            Role::Assistant,
            vec![
                Block::Reasoning { text: "one".into(), signature: Some("not ours".into()) },
                mine(thinking()),
                mine(json!({ "phase": "commentary" })),
                text("let me see"),
                asked("c1", "{ }"),
                asked("c2", "oops"),
            ],
        ),
        say(Role::User, vec![result("c1", "a", vec![image()]), result("c2", "", Vec::new()), text("go on")]),
        // Of others, without their secret, and with nothing after it: none of these may go back.
        say(
            Role::Assistant,
            vec![
                Block::Opaque { provider: "openai-responses/other".into(), raw: thinking() },
                mine(json!({ "type": "reasoning", "id": "rs_2", "summary": [] })),
                text("ok"),
                mine(thinking()),
            ],
        ),
        say(Role::User, vec![result("c3", "b", Vec::new())]),
        say(Role::Assistant, vec![mine(thinking())]),
        say(Role::User, Vec::new()),
    ]
}

#[test]
fn a_message_is_encoded_as_items() {
    let bodies: Vec<String> = conversation().iter().map(|message| String::from_utf8(encode::message(OWNER, message)).unwrap()).collect();
    assert_eq!(
        bodies,
        [
            r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"},{"type":"input_image","image_url":"data:image/png;base64,QUJD"}]}"#.to_owned(),
            format!(
                r#"{},{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":"let me see"}}],"phase":"commentary"}},{{"type":"function_call","call_id":"c1","name":"ls","arguments":"{{ }}"}},{{"type":"function_call","call_id":"c2","name":"ls","arguments":"{{\"invalid_json\":\"oops\"}}"}}"#,
                thinking()
            ),
            r#"{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"data:image/png;base64,QUJD"}]},{"type":"function_call_output","call_id":"c2","output":"(no output)"},{"type":"message","role":"user","content":[{"type":"input_text","text":"go on"}]}"#.to_owned(),
            r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"ok"}]}"#.to_owned(),
            r#"{"type":"function_call_output","call_id":"c3","output":"b"}"#.to_owned(),
            r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"(no text)"}]}"#.to_owned(),
            r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"(no text)"}]}"#.to_owned(),
        ]
    );
}

#[test]
fn what_came_goes_back_as_it_was() {
    let phase = done(1, json!({ "type": "message", "phase": "final_answer", "content": [{ "type": "output_text", "text": "yes" }] }));
    let reply = reply(&[done(0, thinking()), phase, called(2, "a", "ls", "{\"p\":1}"), completed()]);
    let blocks = reply.parts.into_iter().map(|part| match part {
        ReplyPart::Text(text) => Block::Text { text },
        ReplyPart::Reasoning { text, signature } => Block::Reasoning { text, signature },
        ReplyPart::Call { id, tool, input } => Block::Call { id, tool, input },
        ReplyPart::Opaque { raw, .. } => mine(raw),
    });
    let bytes = encode::message(OWNER, &Message { role: Role::Assistant, blocks: blocks.collect() });
    let items: Value = serde_json::from_str(&format!("[{}]", String::from_utf8(bytes).unwrap())).unwrap();
    assert_eq!(
        items,
        json!([
            thinking(),
            { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "yes" }], "phase": "final_answer" },
            { "type": "function_call", "call_id": "a", "name": "ls", "arguments": "{\"p\":1}" },
        ])
    );
}

fn head() -> Head {
    Head {
        system: vec!["one".into(), " ".into(), r#"two ,"include":["reasoning.encrypted_content"]"#.into()],
        tools: vec![ToolSpec { name: "ls".into(), description: "Lists".into(), schema: json!({ "type": "object" }) }],
        params: Params::default(),
        answer: None,
    }
}

const PLAIN: Manner = Manner { asks_for_thinking: true, replays_thinking: true, names_cache: false };

fn request(head: &Head, count: usize, tool_choice: ToolChoice) -> Request {
    Request {
        session: SessionId::new("ses_1"),
        lineage: SessionId::new("ses_1"),
        head: encode::head("m1", head).into(),
        messages: conversation()[..count].iter().map(|message| encode::message(OWNER, message).into()).collect(),
        tool_choice,
        output_max: 100,
        idle_max: std::time::Duration::from_secs(1),
    }
}

#[test]
fn a_body_without_its_tail_starts_the_next_one() {
    for manner in [
        PLAIN,
        Manner { asks_for_thinking: false, ..PLAIN },
        Manner { replays_thinking: false, ..PLAIN },
        Manner { names_cache: true, ..PLAIN },
    ] {
        let mut before = Vec::new();
        for count in 1..=conversation().len() {
            let body = encode::body(&request(&head(), count, ToolChoice::Auto), manner).concat();
            let value: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!((&value["store"], &value["stream"], &value["max_output_tokens"]), (&json!(false), &json!(true), &json!(100)));
            assert_eq!(value["instructions"], "one\n\ntwo ,\"include\":[\"reasoning.encrypted_content\"]");
            assert_eq!(value.get("include").is_some(), manner.asks_for_thinking);
            assert_eq!(value.get("prompt_cache_key").is_some(), manner.names_cache);
            assert_eq!(value["input"].to_string().contains("gAAA"), manner.replays_thinking && 1 < count);
            assert!(body.starts_with(&before), "body {count} does not start with the one before");
            let end = body.windows(21).rposition(|window| window == br#"],"max_output_tokens""#).unwrap();
            before = body[..end].to_vec();
        }
    }
}

#[test]
fn the_tail_forbids_calls_and_the_limit_is_one_the_server_takes() {
    let closing: Value = serde_json::from_slice(&encode::body(&request(&head(), 1, ToolChoice::None), PLAIN).concat()).unwrap();
    assert_eq!(closing["tool_choice"], "none");
    let no_tools = Head { tools: Vec::new(), ..head() };
    let small = Request { output_max: 1, ..request(&no_tools, 1, ToolChoice::None) };
    let body: Value = serde_json::from_slice(&encode::body(&small, Manner { names_cache: true, ..PLAIN }).concat()).unwrap();
    assert_eq!((body.get("tool_choice"), &body["max_output_tokens"], &body["prompt_cache_key"]), (None, &json!(16), &json!("ses_1")));
}

#[test]
fn options_are_spelled_as_the_api_wants_them() {
    let options = json!({ "reasoningEffort": "high", "reasoning": { "summary": "auto" }, "textVerbosity": "low", "serviceTier": "flex",
        "store": true, "input": [], "max_output_tokens": 1 });
    let params = Params { temperature: Some(0.5), top_p: None, options: Some(options) };
    let closed = json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"], "additionalProperties": false });
    for (schema, strict) in [(closed, true), (json!({ "type": "object" }), false)] {
        let head = Head { params: params.clone(), answer: Some(schema.clone()), ..head() };
        let body: Value = serde_json::from_slice(&encode::body(&request(&head, 1, ToolChoice::Auto), PLAIN).concat()).unwrap();
        assert_eq!(body["reasoning"], json!({ "effort": "high", "summary": "auto" }));
        let format = json!({ "type": "json_schema", "name": "answer", "schema": schema, "strict": strict });
        assert_eq!(body["text"], json!({ "verbosity": "low", "format": format }));
        assert_eq!((&body["service_tier"], &body["temperature"], &body["store"]), (&json!("flex"), &json!(0.5), &json!(false)));
        assert_eq!(body["tools"][0]["strict"], false);
        assert_eq!(body["input"].as_array().map(Vec::len), Some(1));
    }
}
