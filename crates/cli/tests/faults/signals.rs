//! Ctrl-C and SIGTERM: the turn ends cleanly within two seconds, and the session goes on later.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Answer, Block, Done, Running, Seen, World};

/// The promise is two seconds; the rest is for a busy machine.
const GONE_WITHIN: Duration = Duration::from_millis(2_600);

fn end(running: Running, signals: &[Signal]) -> Done {
    let begun = Instant::now();
    for (at, signal) in signals.iter().enumerate() {
        if at != 0 {
            std::thread::sleep(Duration::from_millis(150));
        }
        running.signal(*signal);
    }
    let done = running.wait(Duration::from_secs(20));
    assert!(begun.elapsed() < GONE_WITHIN, "{:?} {done:#?}", begun.elapsed());
    done.expect_code(130)
}

fn session_of(done: &Done) -> String {
    done.lines()[0]["session"].as_str().unwrap().to_owned()
}

#[test]
fn an_interrupt_during_a_stream_keeps_what_was_said_and_the_session_goes_on() {
    for signal in [Signal::INT, Signal::TERM] {
        let world = World::new(|seen: &Seen| match seen.number {
            0 => Answer::text("These words were said before the end, and more would have come.").stalled_after(800),
            _ => Answer::text("and now the rest"),
        });
        let running = world.start(&["run", "--format", "stream-json", "go"]);
        assert!(running.wait_for_out("text_delta", Duration::from_secs(10)), "{}", running.out_so_far());
        let done = end(running, &[signal]);
        assert!(world.model.wait_for_disconnects(1), "the socket is closed");
        let result: Value = done.lines().last().unwrap().clone();
        assert_eq!((&result["type"], &result["status"]), (&json!("result"), &json!("interrupted")));
        assert!(result["result"].as_str().unwrap().starts_with("These words were said"), "{result}");

        let id = session_of(&done);
        assert_eq!(world.posse(&["sessions", "resume", &id]).expect_code(0).out, "and now the rest\n");
        let seen = world.model.last();
        let said = seen.messages.iter().filter(|message| message.role == "assistant").flat_map(|message| &message.blocks);
        let said: Vec<_> = said.collect();
        assert!(matches!(said[..], [Block::Text(text)] if text.contains("These words were said")), "{:#?}", seen.messages);
        assert_eq!(seen.user_texts()[0], "go");
    }
}

#[test]
fn an_interrupt_before_the_first_word_leaves_no_empty_message() {
    let world = World::new(|seen: &Seen| match seen.number {
        0 => Answer::text("never").after(Duration::from_secs(30)),
        _ => Answer::text("here I am"),
    });
    let running = world.start(&["run", "--format", "stream-json", "go"]);
    assert!(world.model.wait_for_requests(1));
    let done = end(running, &[Signal::INT]);
    assert_eq!(world.run(&["-s", &session_of(&done), "hello?"]).expect_code(0).out, "here I am\n");
    assert_eq!(world.model.last().steps(), 0);
}

#[test]
fn an_interrupt_during_a_tool_ends_it_and_keeps_what_it_had_printed() {
    for signal in [Signal::INT, Signal::TERM] {
        let world = World::new(|seen: &Seen| match seen.steps() {
            0 => Answer::call("bash", json!({"command": "echo half of it; sleep 60; echo the rest"}))
                .and_call("bash", json!({"command": "sleep 61"})),
            _ => Answer::text("understood"),
        });
        let running = world.start(&["run", "--format", "stream-json", "go"]);
        assert!(running.wait_for_out("half of it\\n", Duration::from_secs(10)), "{}", running.out_so_far());
        let done = end(running, &[signal]);
        assert!(world.processes_left_after(Duration::from_secs(3)).is_empty());
        let ends: Vec<Value> = done.lines().into_iter().filter(|line| line["type"] == "call_finished").collect();
        assert_eq!(ends.len(), 2, "{ends:#?}");
        assert!(ends.iter().all(|end| end["outcome"]["how"] == "cancelled"), "{ends:#?}");
        assert!(ends.iter().any(|end| end.to_string().contains("half of it")), "{ends:#?}");

        assert_eq!(world.posse(&["sessions", "resume", &session_of(&done)]).expect_code(0).out, "understood\n");
        assert_eq!(world.model.last().results().len(), 2);
    }
}

#[test]
fn a_tool_that_will_not_end_does_not_keep_the_process() {
    let world = World::new(|seen: &Seen| match seen.steps() {
        0 => Answer::call("bash", json!({"command": "trap '' TERM INT HUP; echo stubborn; while :; do sleep 0.1; done"})),
        _ => Answer::text("understood"),
    });
    let running = world.start(&["run", "--format", "stream-json", "go"]);
    assert!(running.wait_for_out("stubborn\\n", Duration::from_secs(10)), "{}", running.out_so_far());
    let done = end(running, &[Signal::INT]);
    assert!(world.processes_left_after(Duration::from_secs(6)).is_empty());
    assert_eq!(world.posse(&["sessions", "resume", &session_of(&done)]).expect_code(0).out, "understood\n");
}

#[test]
fn a_second_interrupt_ends_the_process_at_once() {
    let world = World::new(|seen: &Seen| match seen.steps() {
        0 => Answer::call("bash", json!({"command": "trap '' TERM INT HUP; echo stubborn; while :; do sleep 0.1; done"})),
        _ => Answer::text("understood"),
    });
    let running = world.start(&["run", "--format", "stream-json", "go"]);
    assert!(running.wait_for_out("stubborn\\n", Duration::from_secs(10)), "{}", running.out_so_far());
    let begun = Instant::now();
    let done = end(running, &[Signal::INT, Signal::INT]);
    assert!(begun.elapsed() < Duration::from_millis(900), "{:?}", begun.elapsed());
    assert!(world.processes_left_after(Duration::from_secs(6)).is_empty());
    assert_eq!(world.posse(&["sessions", "resume", &session_of(&done)]).expect_code(0).out, "understood\n");
}

#[test]
fn a_wait_for_a_server_can_be_interrupted() {
    let world = World::new(|seen: &Seen| match seen.number {
        0 => Answer::error(429, "slow down").header("retry-after", "300"),
        _ => Answer::text("fine"),
    });
    let running = world.start(&["run", "--format", "stream-json", "go"]);
    assert!(running.wait_for_out("step_failed", Duration::from_secs(10)), "{}", running.out_so_far());
    let done = end(running, &[Signal::INT]);
    assert_eq!(world.posse(&["sessions", "resume", &session_of(&done)]).expect_code(0).out, "fine\n");
}

#[test]
fn a_reader_that_goes_away_ends_the_run_quietly() {
    let world = World::new(|_: &Seen| Answer::text("a long answer ".repeat(50).as_str()));
    let posse = env!("CARGO_BIN_EXE_posse");
    let shell = format!("'{posse}' run --format stream-json hi </dev/null | head -n 1");
    let output = std::process::Command::new("sh")
        .args(["-c", &shell])
        .current_dir(&world.project)
        .env("POSSE_HOME", &world.posse_home)
        .env("HOME", &world.home)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 1);
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{output:?}");
}
