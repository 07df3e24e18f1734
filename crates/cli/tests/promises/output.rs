//! What goes to stdout and stderr, in each format.

use serde_json::{Value, json};

use crate::support::{Answer, Seen, World};

/// One call, then an answer.
fn one_call() -> World {
    World::new(|seen: &Seen| match seen.steps() {
        0 => Answer::call("bash", json!({"command": "echo hello from the shell", "description": "Says hello"})),
        _ => Answer::text("It says hello, and it says so in a sentence that is longer than one delta."),
    })
}

const ANSWER: &str = "It says hello, and it says so in a sentence that is longer than one delta.";

#[test]
fn text_is_only_the_answer_and_stderr_has_one_line_at_the_start_and_one_at_the_end() {
    let world = one_call();
    let done = world.run(&["what does it say?"]).expect_code(0);
    assert_eq!(done.out, format!("{ANSWER}\n"));
    let lines: Vec<&str> = done.err.lines().collect();
    assert_eq!(lines.len(), 2, "{}", done.err);
    assert!(lines[0].contains("build") && lines[0].contains("ses_") && lines[0].contains("mock/m1"), "{}", lines[0]);
    assert!(lines[1].contains("build") && lines[1].contains("completed") && lines[1].contains("2 steps"), "{}", lines[1]);
}

#[test]
fn quiet_says_nothing_but_errors() {
    let world = one_call();
    let done = world.run(&["-q", "what does it say?"]).expect_code(0);
    assert_eq!((done.out, done.err.as_str()), (format!("{ANSWER}\n"), ""));

    let failing = World::new(|_: &Seen| Answer::error(400, "this is no request"));
    let done = failing.run(&["-q", "hi"]).expect_code(1);
    assert!(done.err.contains("this is no request"), "{}", done.err);
}

#[test]
fn json_is_one_object_with_exactly_the_promised_fields() {
    let world = one_call();
    let mut shown = world.run(&["--format", "json", "what does it say?\nplease"]).expect_code(0).json();
    let session = shown["session"].as_str().unwrap().to_owned();
    assert!(session.starts_with("ses_") && session.len() == 30, "{session}");
    assert!(0.0 < shown["tree"][0]["seconds"].as_f64().unwrap());
    shown["tree"][0]["seconds"] = json!(0);
    let usage = json!({"input": 200, "output": 40, "cache_read": 0, "cache_write": 0, "cost_usd": 0.0012});
    assert_eq!(
        shown,
        json!({
            "session": session,
            "status": "done",
            "result": ANSWER,
            "usage": usage,
            "tree": [{
                "session": session, "parent": null, "agent": "build", "kind": "root", "title": "what does it say?",
                "status": "completed", "steps": 2, "calls": 1, "usage": usage, "seconds": 0
            }],
            "denied": []
        })
    );
}

#[test]
fn json_prints_its_object_also_when_the_run_fails() {
    let world = World::new(|_: &Seen| Answer::error(400, "this is no request"));
    let done = world.run(&["--format", "json", "hi"]).expect_code(1);
    let shown = done.json();
    assert_eq!((&shown["status"], &shown["result"]), (&json!("failed"), &json!("")));
    assert!(shown["error"].as_str().unwrap().contains("this is no request"), "{shown}");
    assert!(done.err.contains("this is no request"), "{}", done.err);
}

#[test]
fn stream_json_is_every_fact_in_order_and_the_result_last() {
    let world = one_call();
    let lines = world.run(&["--format", "stream-json", "what does it say?"]).expect_code(0).lines();
    let session = lines[0]["session"].clone();
    assert!(lines.iter().all(|line| line["type"].is_string() && line["session"] == session), "{lines:#?}");
    let seqs: Vec<u64> = lines.iter().filter_map(|line| line["seq"].as_u64()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "the events of a session are numbered without a gap");

    let texts =
        |kind: &str| -> String { lines.iter().filter(|line| line["type"] == kind).filter_map(|line| line["text"].as_str()).collect() };
    assert_eq!(texts("text_delta"), ANSWER);
    assert!(1 < lines.iter().filter(|line| line["type"] == "text_delta").count(), "a long answer comes in pieces");
    assert_eq!(texts("message"), ANSWER);
    let place = |kind: &str| lines.iter().position(|line| line["type"] == kind).unwrap_or_else(|| panic!("no {kind} in {lines:#?}"));
    assert!(place("call_started") < place("call_finished") && place("call_finished") < place("text_delta"), "{lines:#?}");
    assert_eq!(lines[place("call_started")]["call"], lines[place("call_finished")]["call"]);
    assert!(lines[place("call_finished")].to_string().contains("hello from the shell"));

    let result = lines.last().unwrap();
    assert_eq!((&result["type"], &result["status"], &result["result"]), (&json!("result"), &json!("done"), &json!(ANSWER)));
    assert_eq!(keys(result), ["denied", "result", "session", "status", "tree", "type", "usage"]);
    assert_eq!(lines.iter().filter(|line| line["type"] == "result").count(), 1);
}

#[test]
fn no_piece_of_a_long_and_quick_answer_is_left_out() {
    let text = "0123456789".repeat(30_000);
    let answer = text.clone();
    let world = World::new(move |_: &Seen| Answer::text(&answer).in_chunks_of(60_000));
    let lines = world.run(&["--format", "stream-json", "hi"]).expect_code(0).lines();
    let pieces: String = lines.iter().filter(|line| line["type"] == "text_delta").filter_map(|line| line["text"].as_str()).collect();
    assert_eq!(pieces.len(), text.len());
}

#[test]
fn stream_json_of_a_second_prompt_goes_on_where_the_numbers_ended() {
    let world = World::new(|seen: &Seen| format!("answer {}", seen.steps() + 1));
    let first = world.run(&["--format", "stream-json", "one"]).expect_code(0).lines();
    let second = world.run(&["-c", "--format", "stream-json", "two"]).expect_code(0).lines();
    let seqs: Vec<u64> = first.iter().chain(&second).filter_map(|line| line["seq"].as_u64()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    assert_eq!(second.last().unwrap()["result"], "answer 2");
}

#[test]
fn nothing_is_coloured_when_nobody_looks() {
    let world = one_call();
    let done = world.command(&["run", "hi"]).without("NO_COLOR").run().expect_code(0);
    assert!(!done.out.contains('\u{1b}') && !done.err.contains('\u{1b}'), "{done:?}");
    let help = world.command(&["--help"]).without("NO_COLOR").run().expect_code(0);
    assert!(!help.out.contains('\u{1b}'), "{}", help.out);
}

#[test]
fn an_answer_cannot_speak_to_the_terminal_through_stderr() {
    let world = World::new(|seen: &Seen| match seen.steps() {
        0 => Answer::call("bash", json!({"command": "true", "description": "a \u{1b}]0;title\u{7} b"})),
        _ => Answer::text("ok"),
    });
    let done = world.run(&["--deny", "bash(true)", "hi"]).expect_code(0);
    assert!(!done.err.contains('\u{1b}'), "{:?}", done.err);
}

#[test]
fn an_answer_that_cannot_be_written_is_not_a_success() {
    let world = one_call();
    let shell = format!("'{}' run hi </dev/null >/dev/full", env!("CARGO_BIN_EXE_posse"));
    let run =
        std::process::Command::new("sh").args(["-c", &shell]).current_dir(&world.project).env("POSSE_HOME", &world.posse_home).output();
    let run = run.unwrap();
    assert_eq!(run.status.code(), Some(1), "{run:?}");
    assert!(String::from_utf8_lossy(&run.stderr).contains("stdout cannot be written"), "{run:?}");
}

fn keys(object: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}
