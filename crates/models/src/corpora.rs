//! Streams as real providers sent them, read whole and cut at every byte.
//!
//! The files are other projects' test data and stay where they are, outside the project; without them this says so and
//! passes. Our own streams are beside the folds.

use std::{fs, path::PathBuf};

use posse_session::{Finish, ModelError, ModelFailure, Progress, Reply, ReplyPart};

use crate::{
    anthropic,
    fold::{Fold, Phase},
    openai,
    sse::Parser,
};

/// Reads a stream to its end, as `http.rs` does.
pub(crate) fn read<F: Fold + Default>(bytes: &[u8]) -> Result<Reply, ModelError> {
    let mut fold = F::default();
    for event in Parser::default().feed(bytes).unwrap() {
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
            (Phase::Ending | Phase::Over, answer) => assert!(answer.is_ok() || before == Phase::Over, "{name} at {at}: {answer:?}"),
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Protocol {
    Anthropic,
    OpenAi,
}

fn protocol_of(name: &str) -> Option<Protocol> {
    let others = ["responses", "google", "interactions", "completion__", "azure__"];
    let openai = ["alibaba", "deepseek", "groq", "mistral", "openai", "xai"];
    match name {
        _ if others.iter().any(|other| name.contains(other)) => None,
        _ if name.starts_with("anthropic") => Some(Protocol::Anthropic),
        _ if openai.iter().any(|start| name.starts_with(start)) => Some(Protocol::OpenAi),
        _ => None,
    }
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
        .map(|(name, text)| {
            let framed = if name.contains("-raw__") { text + "\n\n" } else { frame(&text, protocol) };
            (name, framed.into_bytes())
        })
        .collect();
    streams.sort();
    streams
}

fn frame(chunks: &str, protocol: Protocol) -> String {
    let lines = chunks.lines().filter(|line| !line.trim().is_empty());
    let mut framed: String = lines
        .map(|line| {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            let name = value["type"].as_str().filter(|_| protocol == Protocol::Anthropic);
            name.map(|name| format!("event: {name}\n")).unwrap_or_default() + &format!("data: {line}\n\n")
        })
        .collect();
    if protocol == Protocol::OpenAi {
        framed.push_str("data: [DONE]\n\n");
    }
    framed
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
    for (_, input) in calls(&reply) {
        assert!(crate::fold::is_object(input), "{name}: {input}");
    }
    assert_eq!(reply.finish == Finish::Calls, !calls(&reply).is_empty(), "{name}");
    assert!(0 < reply.usage.input + reply.usage.cache_read, "{name}: no tokens counted");
    reply
}

#[test]
fn every_recorded_anthropic_stream_is_read() {
    for (name, bytes) in streams(Protocol::Anthropic) {
        let reply = check(&name, read::<anthropic::State>(&bytes));
        let is_refusal = name.contains("refusal");
        assert_eq!(reply.finish == Finish::Refusal, is_refusal, "{name}");
        assert!(!reply.parts.is_empty(), "{name}");
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
    assert_eq!((cut.finish, calls(&cut).len()), (Finish::Length, 0));
    assert_eq!(calls(&no_args), [("updateIssueList", "{}")]);
    let fallback = find("anthropic-fallback").unwrap();
    assert_eq!((fallback.usage.input, fallback.usage.output), (412, 264));
    let compaction = find("raw__compaction").unwrap();
    let ReplyPart::Opaque { provider, raw } = &compaction.parts[0] else { panic!("{compaction:?}") };
    assert_eq!((provider.as_str(), raw["content"].as_str()), ("anthropic", Some("Earlier conversation summarized.")));
}
