//! Hundreds of streams made of every mixture of quirks, each ended after every byte (reliability row 13).
//!
//! Two promises: a stream that ends before its end is a failure that is tried again, as often as the table says; and what is
//! taken for an answer is the whole of it, so no call of half a stream is ever run. A stream is a list of events; a new
//! protocol or a new quirk is one more list. The recorded streams of real servers are in `corpora.rs`.

use std::collections::BTreeSet;

use posse_session::{Finish, ModelFailure, Progress, Reply, ReplyPart, retry_after};
use serde_json::{Value, json};

use crate::{
    anthropic,
    fold::{Fold, Phase},
    gemini,
    http::last_event,
    openai, responses,
    sse::Parser,
};

/// How an answer is put on the wire, whatever it says.
#[derive(Debug, Clone, Copy)]
enum Framing {
    Plain,
    /// Comments between events, as routers send them while they wait.
    Comments,
    CarriageReturns,
}

const FRAMINGS: [Framing; 3] = [Framing::Plain, Framing::Comments, Framing::CarriageReturns];

struct Stream {
    name: String,
    bytes: Vec<u8>,
    /// How many calls a whole reading gives.
    calls: usize,
}

/// The pieces in their frame. A piece that is no JSON stands as it is.
fn framed(name: String, events: &[Value], framing: Framing, calls: usize) -> Stream {
    let text: String = events
        .iter()
        .map(|event| {
            let data = event.as_str().map_or_else(|| event.to_string(), str::to_owned);
            let kind = event["type"].as_str().map(|kind| format!("event: {kind}\n")).unwrap_or_default();
            let comment = if matches!(framing, Framing::Comments) { ": OPENROUTER PROCESSING\n\n" } else { "" };
            format!("{comment}{kind}data: {data}\n\n")
        })
        .collect();
    let text = if matches!(framing, Framing::CarriageReturns) { text.replace('\n', "\r\n") } else { text };
    Stream { name: format!("{name}, {framing:?}"), bytes: text.into_bytes(), calls }
}

/// Ends the stream after every byte, and looks at what is made of it.
fn cut_after_every_byte<F: Fold + Default>(stream: &Stream) -> usize {
    let whole = read_whole::<F>(stream);
    let (mut parser, mut fold) = (Parser::default(), F::default());
    let mut answer = fold.clone().finish();
    let mut cuts_tried_again = 0;
    for at in 0..=stream.bytes.len() {
        // The fold is a value that only events change, so the bytes between two events share one answer.
        match (&answer, fold.phase()) {
            (Err(error), Phase::Open) => {
                assert_eq!(error.failure, ModelFailure::Cut, "{} at {at}", stream.name);
                assert_eq!(tries(error.failure), 5, "{} at {at}", stream.name);
                cuts_tried_again += 1;
            }
            (Ok(reply), Phase::Ending | Phase::Over) => {
                assert_eq!((&reply.parts, reply.finish), (&whole.parts, whole.finish), "{} at {at}", stream.name);
            }
            (answer, phase) => panic!("{} at {at}: {phase:?} {answer:?}", stream.name),
        }
        look_at_clean_end(stream, at, &parser, &fold, &whole);
        let Some(byte) = stream.bytes.get(at) else { break };
        let events = parser.feed(&[*byte]).unwrap();
        if !events.is_empty() {
            events.iter().for_each(|event| fold.push(event, &mut |_: Progress| ()));
            answer = fold.clone().finish();
        }
    }
    assert!(0 < cuts_tried_again);
    cuts_tried_again
}

/// A body that ends here in good order: an event whose JSON is whole counts, and nothing less does.
fn look_at_clean_end<F: Fold>(stream: &Stream, at: usize, parser: &Parser, fold: &F, whole: &Reply) {
    let line = stream.bytes[..at].rsplit(|byte| matches!(byte, b'\r' | b'\n')).find(|line| !line.is_empty()).unwrap_or_default();
    let open = last_event(parser.clone());
    assert!(open.is_none() || line.ends_with(b"}") || line == b"data: [DONE]", "{} at {at}", stream.name);
    let Some(event) = open.filter(|_| fold.phase() != Phase::Over) else { return };
    let mut ended = fold.clone();
    ended.push(&event, &mut |_: Progress| ());
    match (ended.phase(), ended.finish()) {
        (Phase::Open, Err(error)) => assert_eq!(error.failure, ModelFailure::Cut, "{} at {at}", stream.name),
        (Phase::Ending | Phase::Over, Ok(reply)) => {
            assert_eq!((&reply.parts, reply.finish), (&whole.parts, whole.finish), "{} at {at}", stream.name);
        }
        (phase, answer) => panic!("{} at {at}: {phase:?} {answer:?}", stream.name),
    }
}

fn read_whole<F: Fold + Default>(stream: &Stream) -> Reply {
    let mut fold = F::default();
    for event in Parser::default().feed(&stream.bytes).unwrap() {
        fold.push(&event, &mut |_: Progress| ());
    }
    let reply = fold.finish().unwrap_or_else(|error| panic!("{}: {error:?}", stream.name));
    let calls: Vec<&str> = reply.parts.iter().filter_map(input_of).collect();
    assert!(calls.iter().all(|input| crate::fold::is_object(input)), "{}: {calls:?}", stream.name);
    let expected = if stream.calls == 0 { Finish::Stop } else { Finish::Calls };
    assert_eq!((calls.len(), reply.finish), (stream.calls, expected), "{}: {reply:?}", stream.name);
    reply
}

fn input_of(part: &ReplyPart) -> Option<&str> {
    match part {
        ReplyPart::Call { input, .. } => Some(input),
        _ => None,
    }
}

/// How often the session tries a step again after this failure.
fn tries(failure: ModelFailure) -> u32 {
    (1..).take_while(|failed| retry_after(failure, *failed, None, 0.0).is_some()).count() as u32
}

fn check<F: Fold + Default>(streams: &[Stream], at_least: usize) {
    let distinct: BTreeSet<&[u8]> = streams.iter().map(|stream| stream.bytes.as_slice()).collect();
    assert!(at_least <= distinct.len() && distinct.len() == streams.len(), "{} of {} streams differ", distinct.len(), streams.len());
    let cuts: usize = streams.iter().map(cut_after_every_byte::<F>).sum();
    println!("{} streams, {cuts} cuts before the end", streams.len());
}

fn chunk(delta: Value, finish: Value) -> Value {
    json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] })
}

/// What a model thinks before it speaks, in every form there is.
fn chat_thoughts() -> Vec<(&'static str, Vec<Value>)> {
    let said = |delta: Value| chunk(delta, Value::Null);
    let detail = |text: &str| json!([{ "type": "reasoning.text", "text": text, "index": 0, "format": "x-v1" }]);
    vec![
        ("no thinking", vec![said(json!({ "role": "assistant", "content": "" }))]),
        (
            "reasoning_content",
            vec![said(json!({ "content": null, "reasoning_content": "hm" })), said(json!({ "reasoning_content": ", so" }))],
        ),
        ("reasoning", vec![said(json!({ "reasoning": "hm" })), said(json!({ "content": "", "reasoning": ", so" }))]),
        (
            "reasoning_details",
            vec![
                said(json!({ "reasoning": "hm", "reasoning_details": detail("hm") })),
                said(json!({ "reasoning": ", so", "reasoning_details": detail(", so") })),
                said(json!({ "reasoning_details": [{ "type": "reasoning.encrypted", "data": "c2VhbA==", "index": 1 }] })),
            ],
        ),
        ("parts", vec![said(json!({ "content": [{ "type": "thinking", "thinking": [{ "type": "text", "text": "hm" }] }] }))]),
    ]
}

/// How servers write calls, and how many these are.
fn chat_calls() -> Vec<(&'static str, usize, Vec<Value>)> {
    let calls = |calls: Value| chunk(json!({ "tool_calls": calls }), Value::Null);
    let function = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
    let piece = |index: u64, arguments: &str| json!({ "index": index, "function": { "arguments": arguments } });
    vec![
        ("only text", 0, vec![chunk(json!({ "content": "żółć" }), Value::Null), chunk(json!({ "content": "!" }), Value::Null)]),
        ("whole", 1, vec![calls(json!([{ "index": 0, "id": "a", "function": function("ls", json!("{\"p\":\"x\"}")) }]))]),
        (
            "in pieces",
            1,
            vec![
                calls(json!([{ "index": 0, "id": "a", "function": function("ls", json!("")) }])),
                calls(json!([piece(0, "{\"p\":")])),
                calls(json!([piece(0, "\"x\"}")])),
            ],
        ),
        (
            "two, mixed",
            2,
            vec![
                calls(json!([{ "index": 0, "id": "a", "function": function("ls", json!("")) }])),
                calls(json!([{ "index": 1, "id": "b", "function": function("cat", json!("{")) }])),
                calls(json!([piece(0, "{\"p\":1}")])),
                calls(json!([piece(1, "}")])),
            ],
        ),
        (
            "no index, no id",
            2,
            vec![
                calls(json!([{ "function": function("ls", json!("{\"n\":1}")) }])),
                calls(json!([{ "function": function("ls", json!("{\"n\":2}")) }])),
            ],
        ),
        ("an object", 1, vec![calls(json!([{ "index": 0, "id": "a", "function": function("ls", json!({ "p": "x" })) }]))]),
        (
            "both forms",
            1,
            vec![chunk(
                json!({ "function_call": function("ls", json!("{}")), "tool_calls": [{ "id": "a", "function": function("ls", json!("{}")) }] }),
                Value::Null,
            )],
        ),
        ("the old form", 1, vec![chunk(json!({ "function_call": function("ls", json!("{\"p\":1}")) }), Value::Null)]),
    ]
}

const USAGES: [&str; 4] = ["no usage", "with the end", "after the end", "x_groq"];
const ENDINGS: [&str; 4] = ["tool_calls and done", "stop and done", "stop alone", "done alone"];

fn chat_end(usage: &str, ending: &str, calls: usize) -> Vec<Value> {
    let counts = json!({ "prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12 });
    let reason = if ending.starts_with("tool_calls") && 0 < calls { "tool_calls" } else { "stop" };
    let mut last = chunk(json!({}), if ending == "done alone" { Value::Null } else { reason.into() });
    match usage {
        "with the end" => last["usage"] = counts.clone(),
        "x_groq" => last["x_groq"] = json!({ "id": "req_1", "usage": counts }),
        _ => {}
    }
    let after = json!({ "choices": [], "usage": counts });
    let done = ending.ends_with("done") || ending == "done alone";
    let after = Some(after).filter(|_| usage == "after the end");
    [Some(last), after, done.then(|| "[DONE]".into())].into_iter().flatten().collect()
}

fn chat_streams() -> Vec<Stream> {
    let mut streams = Vec::new();
    for (thought, thoughts) in chat_thoughts() {
        for (style, count, calls) in chat_calls() {
            for (usage, ending) in USAGES.iter().flat_map(|usage| ENDINGS.iter().map(move |ending| (usage, ending))) {
                if *ending == "tool_calls and done" && count == 0 {
                    continue;
                }
                let framing = FRAMINGS[streams.len() % FRAMINGS.len()];
                let first = json!({ "choices": [], "prompt_filter_results": [] });
                let first = Some(first).filter(|_| streams.len() % 2 == 0);
                let events: Vec<Value> =
                    first.into_iter().chain(thoughts.clone()).chain(calls.clone()).chain(chat_end(usage, ending, count)).collect();
                streams.push(framed(format!("{thought}, {style}, {usage}, {ending}"), &events, framing, count));
            }
        }
    }
    streams
}

#[test]
fn row_13_no_cut_of_a_chat_stream_runs_a_tool_or_is_given_up() {
    check::<openai::State>(&chat_streams(), 500);
}

fn block(index: usize, start: Value, deltas: &[Value]) -> Vec<Value> {
    let mut events = vec![json!({ "type": "content_block_start", "index": index, "content_block": start })];
    events.extend(deltas.iter().map(|delta| json!({ "type": "content_block_delta", "index": index, "delta": delta })));
    events.push(json!({ "type": "content_block_stop", "index": index }));
    events
}

/// How a block begins, and what is added to it.
type Block = (Value, Vec<Value>);

fn anthropic_blocks() -> Vec<(&'static str, usize, Vec<Block>)> {
    let text = (json!({ "type": "text", "text": "" }), vec![json!({ "type": "text_delta", "text": "żółć" })]);
    let call = |id: &str, pieces: &[&str]| {
        let deltas = pieces.iter().map(|piece| json!({ "type": "input_json_delta", "partial_json": piece })).collect();
        (json!({ "type": "tool_use", "id": id, "name": "ls", "input": {} }), deltas)
    };
    let server_tool = (json!({ "type": "server_tool_use", "id": "s", "name": "web_search", "input": {} }), Vec::new());
    vec![
        ("text", 0, vec![text.clone()]),
        ("a call", 1, vec![call("a", &["", "{\"p\":", "1}"])]),
        ("a call without input", 1, vec![call("a", &[""])]),
        ("text and two calls", 2, vec![text.clone(), call("a", &["{\"p\":1}"]), call("b", &["{}"])]),
        ("another's tool", 0, vec![server_tool, text]),
    ]
}

fn anthropic_streams() -> Vec<Stream> {
    let signed = vec![json!({ "type": "thinking_delta", "thinking": "hm" }), json!({ "type": "signature_delta", "signature": "c2ln" })];
    let thoughts = [
        ("no thinking", None),
        ("signed", Some((json!({ "type": "thinking", "thinking": "", "signature": "" }), signed))),
        ("redacted", Some((json!({ "type": "redacted_thinking", "data": "c2VhbA==" }), Vec::new()))),
    ];
    let mut streams = Vec::new();
    for (thought, thinking) in thoughts {
        for (style, calls, blocks) in anthropic_blocks() {
            for (restarts, pings, revised) in (0..8).map(|bits| (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0)) {
                let start = json!({ "type": "message_start", "message": { "usage": { "input_tokens": 9, "output_tokens": 1 } } });
                let mut events = vec![start; 1 + usize::from(restarts)];
                for (index, (kind, deltas)) in thinking.iter().chain(&blocks).enumerate() {
                    events.extend(block(index, kind.clone(), deltas));
                    events.extend(pings.then(|| json!({ "type": "ping" })));
                }
                let usage = if revised { json!({ "output_tokens": 5, "input_tokens": 10 }) } else { json!({ "output_tokens": 5 }) };
                let reason = if calls == 0 { "end_turn" } else { "tool_use" };
                events.push(json!({ "type": "message_delta", "delta": { "stop_reason": reason }, "usage": usage }));
                events.push(json!({ "type": "message_stop" }));
                let framing = FRAMINGS[streams.len() % FRAMINGS.len()];
                let name = format!("{thought}, {style}, restarts {restarts}, pings {pings}, revised {revised}");
                streams.push(framed(name, &events, framing, calls));
            }
        }
    }
    streams
}

#[test]
fn row_13_no_cut_of_an_anthropic_stream_runs_a_tool_or_is_given_up() {
    check::<anthropic::State>(&anthropic_streams(), 120);
}

fn responses_streams() -> Vec<Stream> {
    let message = json!({ "type": "message", "id": "m", "role": "assistant", "content": [{ "type": "output_text", "text": "żółć" }] });
    let call = |id: &str, arguments: &str| json!({ "type": "function_call", "id": id, "call_id": format!("c_{id}"), "name": "ls", "arguments": arguments });
    let thought =
        json!({ "type": "reasoning", "id": "r", "summary": [{ "type": "summary_text", "text": "hm" }], "encrypted_content": "c2VhbA==" });
    let mut streams = Vec::new();
    for (style, calls, items) in [
        ("text", 0, vec![message.clone()]),
        ("a call", 1, vec![call("a", "{\"p\":1}")]),
        ("text and two calls", 2, vec![message, call("a", "{}"), call("b", "{\"p\":2}")]),
    ] {
        for (thinks, deltas, done) in (0..8).map(|bits| (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0)) {
            let mut events = vec![json!({ "type": "response.created", "response": {} })];
            for (index, item) in thinks.then_some(&thought).into_iter().chain(&items).enumerate() {
                let mut begun = item.clone();
                begun["arguments"] = "".into();
                begun["content"] = json!([]);
                events.push(json!({ "type": "response.output_item.added", "output_index": index, "item": begun }));
                if let Some(arguments) = item["arguments"].as_str().filter(|_| deltas) {
                    events.push(json!({ "type": "response.function_call_arguments.delta", "output_index": index, "item_id": item["id"], "delta": arguments }));
                }
                events.push(json!({ "type": "response.output_item.done", "output_index": index, "item": item }));
            }
            events.push(json!({ "type": "response.completed", "response": { "status": "completed", "usage": { "input_tokens": 9, "output_tokens": 3 } } }));
            events.extend(done.then(|| "[DONE]".into()));
            let framing = FRAMINGS[streams.len() % FRAMINGS.len()];
            streams.push(framed(format!("{style}, thinks {thinks}, deltas {deltas}, done {done}"), &events, framing, calls));
        }
    }
    streams
}

#[test]
fn row_13_no_cut_of_a_responses_stream_runs_a_tool_or_is_given_up() {
    check::<responses::State>(&responses_streams(), 24);
}

fn gemini_streams() -> Vec<Stream> {
    let part = |part: Value| json!({ "candidates": [{ "content": { "role": "model", "parts": [part] } }] });
    let call = |name: &str| json!({ "functionCall": { "name": name, "args": { "p": 1 } }, "thoughtSignature": "c2ln" });
    let mut streams = Vec::new();
    for (style, calls, parts) in [
        ("text", 0, vec![json!({ "text": "żółć" }), json!({ "text": "!" })]),
        ("a call", 1, vec![call("ls")]),
        ("text and two calls", 2, vec![json!({ "text": "so" }), call("ls"), json!({ "functionCall": { "name": "cat", "args": {} } })]),
    ] {
        for (thinks, empty, counted) in (0..8).map(|bits| (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0)) {
            let mut events: Vec<Value> = thinks.then(|| part(json!({ "text": "hm", "thought": true }))).into_iter().collect();
            events.extend(parts.iter().cloned().map(part));
            let words = if empty { json!([{ "text": "" }]) } else { json!([]) };
            events.push(json!({ "candidates": [{ "content": { "parts": words }, "finishReason": "STOP" }] }));
            if counted {
                let last = events.len() - 1;
                events[last]["usageMetadata"] = json!({ "promptTokenCount": 9, "candidatesTokenCount": 3 });
            }
            let framing = FRAMINGS[streams.len() % FRAMINGS.len()];
            streams.push(framed(format!("{style}, thinks {thinks}, empty {empty}, counted {counted}"), &events, framing, calls));
        }
    }
    streams
}

#[test]
fn row_13_no_cut_of_a_gemini_stream_runs_a_tool_or_is_given_up() {
    check::<gemini::State>(&gemini_streams(), 24);
}
