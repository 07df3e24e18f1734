//! Streams as real providers sent them, read whole and cut at every byte.
//!
//! The files are other projects' test data and stay where they are, outside the project; without them this says so and
//! passes. Our own streams are beside the folds.

use std::{fs, path::PathBuf};

use posse_session::{Finish, ModelError, ModelFailure, Progress, Reply, ReplyPart};

use crate::{
    anthropic,
    fold::{Fold, Phase},
    gemini,
    http::last_event,
    openai, responses,
    sse::Parser,
};

/// Reads a stream to its end, as `http.rs` does.
pub(crate) fn read<F: Fold + Default>(bytes: &[u8]) -> Result<Reply, ModelError> {
    let (mut parser, mut fold) = (Parser::default(), F::default());
    let events = parser.feed(bytes).unwrap();
    for event in events.into_iter().chain(last_event(parser)) {
        fold.push(&event, &mut |_: Progress| ());
    }
    fold.finish()
}

/// Ends the stream after every byte: nothing panics, and nothing before its end is a success.
///
/// The fold is a value that only events change, so the bytes between two events share the answer of the first.
pub(crate) fn cut_everywhere<F: Fold + Default>(name: &str, bytes: &[u8]) {
    let (mut parser, mut fold) = (Parser::default(), F::default());
    for (at, byte) in bytes.iter().enumerate() {
        let before = fold.phase();
        let events = parser.feed(&[*byte]).unwrap();
        if events.is_empty() && 0 < at {
            continue;
        }
        for event in events {
            fold.push(&event, &mut |_: Progress| ());
        }
        match (fold.phase(), fold.clone().finish()) {
            (Phase::Open, Ok(reply)) => panic!("{name}: a reply from the first {at} bytes: {reply:?}"),
            (Phase::Open, Err(error)) => assert_eq!(error.failure, ModelFailure::Cut, "{name} at {at}"),
            (Phase::Ending | Phase::Over, answer) => {
                let is_told = answer.as_ref().err().is_none_or(|error| error.words.contains("declined to answer"));
                assert!(is_told || before == Phase::Over, "{name} at {at}: {answer:?}");
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Protocol {
    Anthropic,
    OpenAi,
    Responses,
    Gemini,
}

/// What is none of our four protocols: a server that keeps the conversation, live speech, completions without a chat.
const OTHERS: &[&str] = &[
    "google__interactions__google-search.chunks.txt",
    "google__interactions__multi-turn-stateful-turn2.chunks.txt",
    "google__interactions__multi-turn-stateless-turn1.chunks.txt",
    "google__interactions__multi-turn-stateless-turn2.chunks.txt",
    "google__interactions__tool-call-step2.chunks.txt",
    "google__speech-translation__google-live-speech-translation.chunks.txt",
    "openai__completion__openai-completion-text.chunks.txt",
];

/// By the beginning of a name, the first that fits.
const PROTOCOLS: &[(&str, Protocol)] = &[
    ("anthropic", Protocol::Anthropic),
    ("google____fixtures__", Protocol::Gemini),
    ("azure____fixtures__", Protocol::Responses),
    ("open-responses__responses__", Protocol::Responses),
    ("openai__responses__", Protocol::Responses),
    ("xai__responses__", Protocol::Responses),
    ("alibaba____fixtures__", Protocol::OpenAi),
    ("deepseek__chat__", Protocol::OpenAi),
    ("groq____fixtures__", Protocol::OpenAi),
    ("mistral____fixtures__", Protocol::OpenAi),
    ("openai__chat__", Protocol::OpenAi),
    ("openai-compatible__chat__", Protocol::OpenAi),
    ("xai____fixtures__", Protocol::OpenAi),
];

/// A file that nobody has placed is an error of this list and not passed over.
fn protocol_of(name: &str) -> Option<Protocol> {
    let found = PROTOCOLS.iter().find(|(start, _)| name.starts_with(start)).map(|(_, protocol)| *protocol);
    assert!(found.is_some() != OTHERS.contains(&name), "{name} is of no known protocol: place it in this file");
    found
}

/// Every stream of one protocol, with its frame.
fn streams(protocol: Protocol) -> Vec<(String, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora/streams");
    let Ok(entries) = fs::read_dir(folder) else {
        println!("skipped: no recorded streams here");
        return Vec::new();
    };
    let mut streams: Vec<(String, Vec<u8>)> = entries
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap()))
        .filter(|(name, _)| protocol_of(name) == Some(protocol))
        .flat_map(|(name, text)| {
            if name.contains("-raw__") {
                // As it is stored, mostly without the end of its last line, and as it would be with it.
                return vec![(format!("{name} as stored"), text.clone().into_bytes()), (name, (text + "\n\n").into_bytes())];
            }
            let several = recordings(&text, protocol);
            let framed = several.into_iter().enumerate();
            framed.map(|(nth, events)| (format!("{name} {nth}"), frame(&events, protocol).into_bytes())).collect()
        })
        .collect();
    streams.sort();
    assert!(!streams.is_empty(), "no stream of {protocol:?} among the recorded ones");
    streams
}

/// The streams of one file, each a list of events: some files hold a whole conversation, one response after the other.
fn recordings(chunks: &str, protocol: Protocol) -> Vec<Vec<String>> {
    let mut several: Vec<Vec<String>> = Vec::new();
    for line in chunks.lines().filter(|line| !line.trim().is_empty()) {
        // One recording was cut by hand and lost the last brace of two events.
        let mended =
            [line.to_owned(), format!("{line}}}")].into_iter().find(|line| serde_json::from_str::<serde_json::Value>(line).is_ok());
        let line = mended.unwrap_or_else(|| panic!("no JSON: {line}"));
        let is_first = protocol == Protocol::Responses && line.contains(r#""type":"response.created""#);
        match several.last_mut() {
            Some(last) if !is_first => last.push(line),
            _ => several.push(vec![line]),
        }
    }
    several
}

fn frame(events: &[String], protocol: Protocol) -> String {
    let framed = events.iter().map(|event| {
        let value: serde_json::Value = serde_json::from_str(event).unwrap();
        let name = value["type"].as_str().filter(|_| matches!(protocol, Protocol::Anthropic | Protocol::Responses));
        name.map(|name| format!("event: {name}\n")).unwrap_or_default() + &format!("data: {event}\n\n")
    });
    framed.collect::<String>() + if protocol == Protocol::OpenAi { "data: [DONE]\n\n" } else { "" }
}

fn calls(reply: &Reply) -> Vec<(&str, &str)> {
    let calls = reply.parts.iter().filter_map(|part| match part {
        ReplyPart::Call { tool, input, .. } => Some((tool.as_str(), input.as_str())),
        _ => None,
    });
    calls.collect()
}

/// What every whole recording must give.
fn check(name: &str, answer: Result<Reply, ModelError>) -> Reply {
    let reply = answer.unwrap_or_else(|error| panic!("{name}: {error:?}"));
    let is_cut = name.contains("incomplete_partial");
    for (_, input) in calls(&reply) {
        assert_eq!(crate::fold::is_object(input), !is_cut, "{name}: {input}");
    }
    assert_eq!(reply.finish == Finish::Calls, !calls(&reply).is_empty() && !is_cut, "{name}");
    assert!(0 < reply.usage.input + reply.usage.cache_read, "{name}: no tokens counted");
    reply
}

#[test]
fn every_recorded_anthropic_stream_is_read() {
    for (name, bytes) in streams(Protocol::Anthropic) {
        let answer = read::<anthropic::State>(&bytes);
        if name.contains("refusal") {
            let words = answer.unwrap_err().words;
            assert!(words.starts_with("the provider declined to answer: This request "), "{name}: {words}");
            continue;
        }
        let reply = check(&name, answer);
        assert!(reply.finish != Finish::Refusal && !reply.parts.is_empty(), "{name}");
    }
}

#[test]
fn every_recorded_openai_stream_is_read() {
    for (name, bytes) in streams(Protocol::OpenAi) {
        let reply = check(&name, read::<openai::State>(&bytes));
        assert_eq!(reply.finish == Finish::Calls, name.contains("tool-call"), "{name}");
        assert!(0 < reply.usage.output, "{name}: no output counted");
    }
}

#[test]
fn every_recorded_responses_stream_is_read() {
    for (name, bytes) in streams(Protocol::Responses) {
        let reply = check(&name, read::<responses::State>(&bytes));
        let has_text = reply.parts.iter().any(|part| matches!(part, ReplyPart::Text(_)));
        // The calls of tools that we never offer are no answer to anybody.
        let foreign = ["apply-patch", "client-tool-search.1", "custom-tool", "local-shell", "openai-image-generation"];
        let is_foreign = foreign.iter().any(|part| name.contains(part));
        assert_eq!(is_foreign, !has_text && reply.finish == Finish::Stop, "{name}: {reply:?}");
    }
}

#[test]
fn every_recorded_gemini_stream_is_read() {
    for (name, bytes) in streams(Protocol::Gemini) {
        let reply = check(&name, read::<gemini::State>(&bytes));
        assert_eq!(reply.finish == Finish::Calls, name.contains("tool-call"), "{name}");
        let signed = reply.parts.iter().filter(|part| matches!(part, ReplyPart::Opaque { raw, .. } if raw["thoughtSignature"].is_string()));
        assert_eq!(signed.count(), 1, "{name}");
        assert!(0 < reply.usage.output, "{name}: no output counted");
    }
}

#[test]
fn no_cut_of_an_anthropic_stream_is_a_success() {
    for (name, bytes) in streams(Protocol::Anthropic) {
        cut_everywhere::<anthropic::State>(&name, &bytes);
    }
}

#[test]
fn no_cut_of_an_openai_stream_is_a_success_before_its_finish_reason() {
    for (name, bytes) in streams(Protocol::OpenAi) {
        cut_everywhere::<openai::State>(&name, &bytes);
    }
}

#[test]
fn no_cut_of_a_responses_stream_is_a_success() {
    for (name, bytes) in streams(Protocol::Responses) {
        cut_everywhere::<responses::State>(&name, &bytes);
    }
}

#[test]
fn no_cut_of_a_gemini_stream_is_a_success_before_its_finish_reason() {
    for (name, bytes) in streams(Protocol::Gemini) {
        cut_everywhere::<gemini::State>(&name, &bytes);
    }
}

#[test]
fn the_odd_recordings_give_what_they_mean() {
    let all = streams(Protocol::Anthropic);
    let find = |part: &str| all.iter().find(|(name, _)| name.contains(part)).map(|(_, bytes)| read::<anthropic::State>(bytes).unwrap());
    // Without the recordings there is nothing to look at; `streams` has said so.
    let (Some(spliced), Some(cut), Some(no_args)) = (find("spliced"), find("incomplete_partial"), find("tool-no-args")) else { return };
    assert_eq!(
        spliced.parts,
        [
            ReplyPart::Reasoning { text: "Let me call the tool.".into(), signature: Some("sig-second".into()) },
            ReplyPart::Call { id: "toolu_second".into(), tool: "test-tool".into(), input: r#"{"value":"Sparkle Day"}"#.into() },
        ]
    );
    assert_eq!((cut.finish, calls(&cut).len()), (Finish::Length, 1));
    assert_eq!(calls(&no_args), [("updateIssueList", "{}")]);
    let fallback = find("anthropic-fallback").unwrap();
    assert_eq!((fallback.usage.input, fallback.usage.output), (412, 264));
    let compaction = find("raw__compaction").unwrap();
    let ReplyPart::Opaque { provider, raw } = &compaction.parts[0] else { panic!("{compaction:?}") };
    assert_eq!((provider.as_str(), raw["content"].as_str()), ("anthropic", Some("Earlier conversation summarized.")));
}

#[test]
fn thinking_of_responses_is_kept_whole_and_in_its_place() {
    let all = streams(Protocol::Responses);
    let find = |part: &str| all.iter().find(|(name, _)| name.contains(part)).map(|(_, bytes)| read::<responses::State>(bytes).unwrap());
    let (Some(encrypted), Some(local), Some(parallel)) =
        (find("encrypted-content.1.chunks.txt 0"), find("lmstudio-tool-call"), find("parallel"))
    else {
        return;
    };
    let [ReplyPart::Reasoning { text, signature: None }, ReplyPart::Opaque { raw, .. }, ReplyPart::Call { id, .. }] = &encrypted.parts[..]
    else {
        panic!("{encrypted:?}")
    };
    assert!(text.starts_with("**Calculating step-by-step"), "{text}");
    assert_eq!((raw["type"].as_str(), id.as_str()), (Some("reasoning"), "call_AB6AaRZ1FYZB2RwS6A5vbdqn"));
    // As the item was when it was done: the one that begins has other bytes.
    assert!(raw["encrypted_content"].as_str().is_some_and(|text| text.starts_with("gAAAAABpPDIVOKrs")), "{raw}");
    let kinds: Vec<&str> = local.parts.iter().map(kind).collect();
    assert_eq!(kinds, ["reasoning", "opaque", "text", "call"]);
    assert_eq!(calls(&parallel).len(), 1);
}

fn kind(part: &ReplyPart) -> &'static str {
    match part {
        ReplyPart::Text(_) => "text",
        ReplyPart::Reasoning { .. } => "reasoning",
        ReplyPart::Call { .. } => "call",
        ReplyPart::Opaque { .. } => "opaque",
    }
}

#[test]
fn calls_of_gemini_that_came_in_pieces_are_whole() {
    let all = streams(Protocol::Gemini);
    let find = |part: &str| all.iter().find(|(name, _)| name.contains(part)).map(|(_, bytes)| read::<gemini::State>(bytes).unwrap());
    let (Some(listed), Some(nested), Some(several)) = (find("array-arguments"), find("nested"), find("no-args")) else { return };
    assert_eq!(
        calls(&listed),
        [(
            "writeItems",
            r#"{"operations":[{"action":"add","description":"Fresh red apple","itemid":"apple_001","price":0.5},{"action":"add","description":"Ripe yellow banana","itemid":"banana_001","price":0.3}]}"#
        )]
    );
    let recipe: serde_json::Value = serde_json::from_str(calls(&nested)[0].1).unwrap();
    assert_eq!(recipe["recipe"]["steps"].as_array().map(Vec::len), Some(10));
    assert_eq!(recipe["recipe"]["steps"][9], "Let stand for 15 minutes before serving.");
    assert_eq!(
        calls(&several),
        [("read_theme", "{}"), ("read_screen", r#"{"id":"A"}"#), ("read_screen", r#"{"id":"B"}"#), ("read_screen", r#"{"id":"C"}"#)]
    );
    assert_eq!((several.usage.input, several.usage.output), (249, 58 + 183));
}
