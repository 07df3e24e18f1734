//! Our own Gemini streams and bodies: what must come out of each part, and what goes back.

use posse_session::{
    Block, Finish, Head, Message, ModelFailure, Params, Progress, Reply, ReplyPart, Request, Role, SessionId, ToolChoice, ToolSpec, Usage,
};
use serde_json::{Value, json};

use super::{
    State,
    encode::{self, Voice},
};
use crate::{
    corpora::{cut_everywhere, read},
    fold::{Fold, Phase},
    sse::Event,
};

const OWNER: &str = "gemini/mock";

fn stream(events: &[Value]) -> Vec<u8> {
    events.iter().map(|event| format!("data: {event}\r\n\r\n")).collect::<String>().into_bytes()
}

fn reply(events: &[Value]) -> Reply {
    let bytes = stream(events);
    cut_everywhere::<State>("own", &bytes);
    read::<State>(&bytes).unwrap()
}

fn failed(events: &[Value]) -> posse_session::ModelError {
    read::<State>(&stream(events)).unwrap_err()
}

fn parts(parts: Value) -> Value {
    json!({ "candidates": [{ "content": { "role": "model", "parts": parts }, "index": 0 }] })
}

fn ended(reason: &str) -> Value {
    let usage = json!({ "promptTokenCount": 100, "cachedContentTokenCount": 60, "candidatesTokenCount": 7, "thoughtsTokenCount": 5, "totalTokenCount": 112 });
    json!({ "candidates": [{ "content": { "role": "model", "parts": [{ "text": "" }] }, "finishReason": reason }], "usageMetadata": usage })
}

fn call(id: &str, tool: &str, input: &str) -> ReplyPart {
    ReplyPart::Call { id: id.into(), tool: tool.into(), input: input.into() }
}

fn signed(signature: &str, on: &str) -> ReplyPart {
    ReplyPart::Opaque { provider: String::new(), raw: json!({ "thoughtSignature": signature, "on": on }) }
}

#[test]
fn an_ordinary_answer_with_thoughts_text_and_calls() {
    let events = [
        parts(json!([{ "text": "h", "thought": true }])),
        parts(json!([{ "text": "m", "thought": true }])),
        parts(json!([{ "text": "let me " }])),
        parts(json!([{ "text": "see" }])),
        parts(
            json!([{ "functionCall": { "name": "ls", "args": { "p": 1 } }, "thoughtSignature": "s1" }, { "functionCall": { "name": "ls" } }]),
        ),
        parts(json!([{ "functionCall": { "id": "own", "name": "cat", "args": {} } }])),
        ended("STOP"),
    ];
    assert_eq!(
        reply(&events),
        Reply {
            parts: vec![
                ReplyPart::Reasoning { text: "hm".into(), signature: None },
                ReplyPart::Text("let me see".into()),
                signed("s1", "call"),
                call("call_0", "ls", "{\"p\":1}"),
                call("call_1", "ls", "{}"),
                call("own", "cat", "{}"),
            ],
            usage: Usage { input: 40, output: 12, cache_read: 60, ..Usage::default() },
            finish: Finish::Calls,
        }
    );
    let mut shown = Vec::new();
    let mut fold = State::default();
    for event in &events {
        fold.push(&Event { name: String::new(), data: event.to_string() }, &mut |progress: Progress| shown.push(progress));
    }
    shown.retain(|progress| *progress != Progress::Alive);
    let named = |tool: &str| Progress::CallNamed { tool: tool.into() };
    assert_eq!(
        shown,
        [
            Progress::Reasoning("h".into()),
            Progress::Reasoning("m".into()),
            Progress::Text("let me ".into()),
            Progress::Text("see".into()),
            named("ls"),
            Progress::CallInput { bytes: 7 },
            named("ls"),
            Progress::CallInput { bytes: 0 },
            named("cat"),
            Progress::CallInput { bytes: 0 },
        ]
    );
}

#[test]
fn a_signature_stays_on_its_part() {
    let reply = reply(&[
        parts(json!([{ "text": "a" }, { "text": "b", "thoughtSignature": "s1" }, { "text": "c" }, { "text": "d" }])),
        parts(json!([{ "text": "t", "thought": true, "thoughtSignature": "s2" }])),
        parts(json!([{ "text": "", "thoughtSignature": "s3" }])),
        ended("STOP"),
    ]);
    assert_eq!(
        reply.parts,
        [
            ReplyPart::Text("a".into()),
            signed("s1", "text"),
            ReplyPart::Text("b".into()),
            ReplyPart::Text("cd".into()),
            ReplyPart::Reasoning { text: "t".into(), signature: None },
            signed("s2", "nothing"),
            signed("s3", "nothing"),
        ]
    );
    let bytes = Voice::new("mock", "gemini-2.5-pro").message(&echoed(reply));
    let content: Value = serde_json::from_slice(&bytes).unwrap();
    let expected = json!({ "role": "model", "parts": [
        { "text": "a" }, { "text": "b", "thoughtSignature": "s1" }, { "text": "cd" },
        { "text": "", "thoughtSignature": "s2" }, { "text": "", "thoughtSignature": "s3" },
    ] });
    assert_eq!(content, expected);
}

/// The reply as it stands in the next request.
fn echoed(reply: Reply) -> Message {
    let blocks = reply.parts.into_iter().map(|part| match part {
        ReplyPart::Text(text) => Block::Text { text },
        ReplyPart::Reasoning { text, signature } => Block::Reasoning { text, signature },
        ReplyPart::Call { id, tool, input } => Block::Call { id, tool, input },
        ReplyPart::Opaque { raw, .. } => Block::Opaque { provider: OWNER.into(), raw },
    });
    Message { role: Role::Assistant, blocks: blocks.collect() }
}

#[test]
fn a_call_in_pieces_is_one_call() {
    let piece = |call: Value| parts(json!([{ "functionCall": call }]));
    let events = [
        parts(json!([{ "functionCall": { "name": "write", "willContinue": true }, "thoughtSignature": "s1" }])),
        piece(json!({ "partialArgs": [{ "jsonPath": "$.to", "stringValue": "a", "willContinue": true }], "willContinue": true })),
        piece(
            json!({ "partialArgs": [{ "jsonPath": "$.to", "stringValue": "b" }, { "jsonPath": "$.n[0]", "numberValue": 2 }], "willContinue": true }),
        ),
        piece(json!({ "willContinue": true })),
        piece(json!({})),
        piece(json!({})),
        ended("STOP"),
    ];
    assert_eq!(reply(&events).parts, [signed("s1", "call"), call("call_0", "write", r#"{"to":"ab","n":[2]}"#)]);
    let half = &events[..3];
    let cut = failed(&[half, &[ended("STOP")]].concat());
    assert_eq!((cut.failure, cut.words.as_str()), (ModelFailure::Malformed, "the answer ended in the middle of a call"));
    let at_limit = reply(&[half, &[ended("MAX_TOKENS")]].concat());
    // Without the last brace: half a call is told and never run.
    assert_eq!(at_limit.parts, [signed("s1", "call"), call("call_0", "write", r#"{"to":"ab","n":[2]"#)]);
    assert_eq!(at_limit.finish, Finish::Length);
    let nowhere =
        failed(&[half, &[piece(json!({ "partialArgs": [{ "jsonPath": "$.n[99999999999]", "numberValue": 2 }] })), ended("STOP")]].concat());
    assert_eq!(nowhere.failure, ModelFailure::Malformed);
}

#[test]
fn a_reason_says_how_it_ended() {
    let said = parts(json!([{ "text": "x" }, { "functionCall": { "name": "ls" } }]));
    for (reason, finish, parts) in [
        ("STOP", Finish::Calls, 2),
        ("MAX_TOKENS", Finish::Length, 2),
        ("SAFETY", Finish::Refusal, 1),
        ("RECITATION", Finish::Refusal, 1),
        ("PROHIBITED_CONTENT", Finish::Refusal, 1),
        ("OTHER", Finish::Calls, 2),
    ] {
        let reply = reply(&[said.clone(), ended(reason)]);
        assert_eq!((reply.finish, reply.parts.len()), (finish, parts), "{reason}");
    }
    for (reason, failure) in [
        ("MALFORMED_FUNCTION_CALL", ModelFailure::Malformed),
        ("UNEXPECTED_TOOL_CALL", ModelFailure::Malformed),
        ("MISSING_THOUGHT_SIGNATURE", ModelFailure::BadRequest),
        ("FINISH_REASON_UNSPECIFIED", ModelFailure::Cut),
    ] {
        let mut end = ended(reason);
        end["candidates"][0]["finishMessage"] = "no such call".into();
        let error = failed(&[said.clone(), end]);
        assert_eq!((error.failure, error.partial.as_str(), error.usage.input), (failure, "x", 40), "{reason}");
        assert_eq!(failure != ModelFailure::Cut, error.words.contains("no such call"), "{}", error.words);
    }
    assert_eq!(failed(&[said]).failure, ModelFailure::Cut);
    let silent = failed(&[ended("SAFETY")]);
    assert_eq!(silent.failure, ModelFailure::BadRequest);
    assert_eq!(silent.words, "the provider declined to answer: SAFETY; say it another way, or use another model");
}

#[test]
fn a_blocked_prompt_is_a_refusal_with_its_reason() {
    let error = failed(&[json!({ "promptFeedback": { "blockReason": "BLOCKLIST" }, "usageMetadata": { "promptTokenCount": 5 } })]);
    assert_eq!((error.failure, error.usage.input), (ModelFailure::BadRequest, 5));
    assert!(error.words.starts_with("the provider declined to answer: the prompt was blocked: BLOCKLIST;"), "{}", error.words);
}

#[test]
fn an_error_as_data_ends_the_stream() {
    let said = parts(json!([{ "text": "so far" }]));
    for (error, failure) in [
        (json!({ "error": { "code": 503, "status": "UNAVAILABLE", "message": "overloaded" } }), ModelFailure::Overloaded),
        (json!([{ "error": { "code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow" } }]), ModelFailure::RateLimited),
        (json!({ "error": { "code": 500, "status": "INTERNAL", "message": "x" } }), ModelFailure::Server),
    ] {
        let told = failed(&[said.clone(), error.clone(), ended("STOP")]);
        assert_eq!((told.failure, told.partial.as_str()), (failure, "so far"), "{error}");
    }
    assert_eq!(read::<State>(b"data: {oops\n\n").unwrap_err().failure, ModelFailure::Malformed);
}

#[test]
fn an_absurd_count_is_the_largest_there_is() {
    let usage = json!({ "promptTokenCount": u64::MAX, "toolUsePromptTokenCount": 7, "candidatesTokenCount": u64::MAX, "thoughtsTokenCount": 1.0e300 });
    let mut fold = State::default();
    fold.push(&Event { name: String::new(), data: json!({ "usageMetadata": usage }).to_string() }, &mut |_: Progress| ());
    assert_eq!((fold.partial().1.input, fold.partial().1.output), (u64::MAX, u64::MAX));
}

#[test]
fn an_endless_answer_is_given_up() {
    let megabyte = "x".repeat(1024 * 1024);
    let far = json!({ "jsonPath": "$.a[9999]", "stringValue": "x" });
    for (event, times) in [
        (parts(json!([{ "text": megabyte }])), 33),
        (parts(json!([{ "text": "x", "thoughtSignature": megabyte }])), 33),
        (parts(json!([{ "functionCall": { "name": "ls", "args": { "a": megabyte } } }])), 33),
        (parts(json!([{ "functionCall": { "name": "ls", "partialArgs": [far] } }])), 55),
        (parts(json!([{ "functionCall": { "name": "ls" } }])), 33 * 1024),
        (parts(json!([{ "functionCall": { "name": megabyte } }])), 33),
        (parts(json!([{ "functionCall": { "name": "ls", "id": megabyte } }])), 33),
        (
            parts(
                json!([{ "functionCall": { "name": "ls", "partialArgs": [{ "jsonPath": format!("$.{megabyte}"), "boolValue": true }] } }]),
            ),
            33,
        ),
        (parts(json!([{ "functionCall": { "name": "ls", "partialArgs": [{ "jsonPath": "$.a", "numberValue": [megabyte] }] } }])), 33),
        (parts(json!([{ "functionCall": { "name": "ls", "args": { "a": vec![0; 10_000] } } }])), 55),
    ] {
        let event = Event { name: String::new(), data: event.to_string() };
        let mut fold = State::default();
        let given_up = (1..=times).find(|_| {
            fold.push(&event, &mut |_: Progress| ());
            fold.phase() == Phase::Over
        });
        assert!(given_up.is_some_and(|nth| times * 7 / 10 < nth), "{given_up:?} of {times}");
        assert_eq!(fold.finish().unwrap_err().words, "the answer is larger than 32 MiB");
    }
}

fn text(text: &str) -> Block {
    Block::Text { text: text.into() }
}

fn mine(signature: &str, on: &str) -> Block {
    Block::Opaque { provider: OWNER.into(), raw: json!({ "thoughtSignature": signature, "on": on }) }
}

fn asked(id: &str, input: &str) -> Block {
    Block::Call { id: id.into(), tool: "ls".into(), input: input.into() }
}

fn conversation() -> Vec<Message> {
    let say = |role, blocks| Message { role, blocks };
    let image = || ("image/png".to_owned(), "QUJD".to_owned());
    let result = |id: &str, tool: &str, text: &str, error, images| Block::Result {
        id: id.into(),
        tool: tool.into(),
        text: text.into(),
        error,
        images,
    };
    vec![
        say(Role::User, vec![text("hi"), text(" "), Block::Image { mime: "image/png".into(), data: "QUJD".into() }]),
        say(
            Role::Assistant,
            vec![
                Block::Reasoning { text: "hm".into(), signature: Some("not ours".into()) },
                text("let me see"),
                mine("s1", "call"),
                asked("c1", "{ \"p\" : 1.0 }"),
                asked("c2", "oops"),
            ],
        ),
        say(Role::User, vec![result("c1", "ls", "a", false, vec![image()]), result("c2", "ls", "", true, Vec::new()), text("go on")]),
        // Another's signature, one whose call is gone, and one that was on a text that is gone.
        say(
            Role::Assistant,
            vec![
                Block::Opaque { provider: "gemini/other".into(), raw: json!({ "thoughtSignature": "x", "on": "text" }) },
                mine("s2", "call"),
                text("ok"),
                mine("s3", "text"),
            ],
        ),
        say(Role::User, vec![result("c3", "", "b", false, Vec::new())]),
        say(Role::Assistant, vec![asked("c4", "")]),
        say(Role::User, Vec::new()),
        say(Role::Assistant, Vec::new()),
    ]
}

#[test]
fn a_message_is_encoded_as_contents() {
    let voice = Voice::new("mock", "gemini-2.5-pro");
    let bodies: Vec<String> = conversation().iter().map(|message| String::from_utf8(voice.message(message)).unwrap()).collect();
    assert_eq!(
        bodies,
        [
            r#"{"role":"user","parts":[{"text":"hi"},{"inlineData":{"mimeType":"image/png","data":"QUJD"}}]}"#,
            r#"{"role":"model","parts":[{"text":"let me see"},{"functionCall":{"id":"c1","name":"ls","args":{ "p" : 1.0 }},"thoughtSignature":"s1"},{"functionCall":{"id":"c2","name":"ls","args":{"invalid_json":"oops"}}}]}"#,
            r#"{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"ls","response":{"output":"a"}}},{"functionResponse":{"id":"c2","name":"ls","response":{"error":"(no output)"}}}]},{"role":"user","parts":[{"text":"(The images of the results above, in their order.)"},{"inlineData":{"mimeType":"image/png","data":"QUJD"}},{"text":"go on"}]}"#,
            r#"{"role":"model","parts":[{"text":"ok"},{"text":"","thoughtSignature":"s3"}]}"#,
            r#"{"role":"user","parts":[{"functionResponse":{"id":"c3","name":"c3","response":{"output":"b"}}}]}"#,
            r#"{"role":"model","parts":[{"functionCall":{"id":"c4","name":"ls","args":{}}}]}"#,
            r#"{"role":"user","parts":[{"text":"(no text)"}]}"#,
            r#"{"role":"model","parts":[{"text":"(no text)"}]}"#,
        ]
    );
}

#[test]
fn a_call_that_gemini_three_did_not_sign_says_so() {
    let message = Message { role: Role::Assistant, blocks: vec![text("x"), asked("c1", "{}"), asked("c2", "{}")] };
    let own = Message { role: Role::Assistant, blocks: vec![mine("s1", "call"), asked("c1", "{}"), asked("c2", "{}")] };
    for (model, says_so) in [
        ("gemini-3-pro-preview", true),
        ("models/gemini-3.1-flash", true),
        ("gemini-flash-latest", true),
        ("gemini-2.5-pro", false),
        ("gemini-1.5-flash", false),
        ("gemma-3-27b-it", false),
    ] {
        let voice = Voice::new("mock", model);
        let written = String::from_utf8(voice.message(&message)).unwrap();
        // Once: in a step with several calls only the first is signed.
        assert_eq!(written.matches("skip_thought_signature_validator").count(), usize::from(says_so), "{model}");
        let own = String::from_utf8(voice.message(&own)).unwrap();
        assert_eq!(own.matches("thoughtSignature").count(), 1, "{model}");
        assert!(own.contains(r#""thoughtSignature":"s1""#), "{own}");
    }
}

fn head() -> Head {
    Head {
        system: vec!["one".into(), " ".into(), "two\n\"tools\":[{\"functionDeclarations\":".into()],
        tools: vec![ToolSpec { name: "ls".into(), description: "Lists".into(), schema: json!({ "type": "object" }) }],
        params: Params { temperature: Some(0.5), ..Params::default() },
        answer: None,
    }
}

fn request(head: &Head, count: usize, tool_choice: ToolChoice) -> Request {
    let voice = Voice::new("mock", "gemini-3-pro");
    Request {
        session: SessionId::new("ses_1"),
        lineage: SessionId::new("ses_1"),
        head: encode::head(head).into(),
        messages: conversation()[..count].iter().map(|message| voice.message(message).into()).collect(),
        tool_choice,
        output_max: 100,
        idle_max: std::time::Duration::from_secs(1),
    }
}

fn body(head: &Head, tool_choice: ToolChoice) -> Value {
    serde_json::from_slice(&encode::body(&request(head, 1, tool_choice)).concat()).unwrap()
}

#[test]
fn a_body_without_its_tail_starts_the_next_one() {
    let bare = Head { system: Vec::new(), tools: Vec::new(), ..Head::default() };
    for head in [head(), bare] {
        let mut before = Vec::new();
        for count in 1..=conversation().len() {
            let body = encode::body(&request(&head, count, ToolChoice::Auto)).concat();
            let value: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(value["generationConfig"]["maxOutputTokens"], 100);
            assert!(count <= value["contents"].as_array().map_or(0, Vec::len));
            assert!(body.starts_with(&before), "body {count} does not start with the one before");
            let end = body.windows(21).rposition(|window| window == br#"],"generationConfig":"#).unwrap();
            before = body[..end].to_vec();
        }
    }
}

#[test]
fn a_head_says_everything_that_never_changes() {
    assert_eq!(
        body(&head(), ToolChoice::None),
        json!({
            "systemInstruction": { "parts": [{ "text": "one" }, { "text": "two\n\"tools\":[{\"functionDeclarations\":" }] },
            "tools": [{ "functionDeclarations": [{ "name": "ls", "description": "Lists", "parametersJsonSchema": { "type": "object" } }] }],
            "contents": [{ "role": "user", "parts": [{ "text": "hi" }, { "inlineData": { "mimeType": "image/png", "data": "QUJD" } }] }],
            "generationConfig": { "temperature": 0.5, "maxOutputTokens": 100 },
            "toolConfig": { "functionCallingConfig": { "mode": "NONE" } },
        })
    );
    let no_tools = Head { tools: Vec::new(), ..head() };
    assert_eq!(body(&no_tools, ToolChoice::None).get("toolConfig"), None);
    assert_eq!(body(&head(), ToolChoice::Auto).get("toolConfig"), None);
}

#[test]
fn options_go_where_the_api_wants_them() {
    let options = json!({ "thinkingConfig": { "includeThoughts": true }, "generationConfig": { "topK": 4, "maxOutputTokens": 1, "temperature": 9 },
        "safetySettings": [], "contents": [], "toolConfig": {} });
    let params = Params { temperature: Some(0.5), top_p: Some(0.9), options: Some(options) };
    let body = body(&Head { params, ..head() }, ToolChoice::Auto);
    assert_eq!(
        body["generationConfig"],
        json!({ "temperature": 0.5, "topP": 0.9, "thinkingConfig": { "includeThoughts": true }, "topK": 4, "maxOutputTokens": 100 })
    );
    assert_eq!((&body["safetySettings"], body["contents"].as_array().map(Vec::len)), (&json!([]), Some(1)));
}

#[test]
fn the_form_of_an_answer_is_asked_for_only_without_tools() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "string" } } });
    let with = Head { answer: Some(schema.clone()), ..head() };
    assert_eq!(body(&with, ToolChoice::Auto)["generationConfig"].get("responseJsonSchema"), None);
    let without = body(&Head { tools: Vec::new(), ..with }, ToolChoice::Auto);
    assert_eq!(without["generationConfig"]["responseJsonSchema"], schema);
    assert_eq!(without["generationConfig"]["responseMimeType"], "application/json");
}
