//! Exit codes, and which one wins when several hold.

use std::time::Duration;

use serde_json::json;

use crate::support::{Answer, Seen, World};

/// A model that does what its prompt says: words are steps.
fn obedient() -> World {
    World::new(|seen: &Seen| {
        let orders: Vec<&str> = seen.user_texts()[0].split(' ').collect();
        match orders.get(seen.steps()) {
            Some(&"ask") => Answer::call("bash", json!({"command": "make me ask"})),
            Some(&"fail") => Answer::error(400, "scripted failure"),
            Some(&"wait") => Answer::text("so far").stalled_after(600),
            _ => Answer::text("done"),
        }
    })
}

#[test]
fn each_end_has_its_code() {
    let world = obedient();
    for (args, code) in [
        (&["fine"][..], 0),
        (&["fail"], 1),
        (&["--no-such-flag", "hi"], 2),
        (&["--format", "yaml", "hi"], 2),
        (&["--max-cost", "much", "hi"], 2),
        (&["--max-steps", "1", "ask ask"], 3),
        (&["--ask", "bash", "ask"], 4),
    ] {
        let done = world.run(args).expect_code(code);
        assert!(!done.err.is_empty(), "{args:?} says nothing on stderr");
    }
}

#[test]
fn a_failure_counts_more_than_an_ask_and_a_limit_more_than_an_ask() {
    let world = obedient();
    let failed = world.run(&["--format", "json", "--ask", "bash", "ask fail"]).expect_code(1).json();
    assert_eq!((&failed["status"], failed["denied"].as_array().unwrap().len()), (&json!("failed"), 1));
    let limited = world.run(&["--format", "json", "--ask", "bash", "--max-steps", "1", "ask ask ask"]).expect_code(3).json();
    assert_eq!(limited["status"], "limit");
}

#[test]
fn an_interrupt_counts_more_than_anything() {
    let world = obedient();
    let running = world.start(&["run", "--format", "json", "--ask", "bash", "ask wait"]);
    assert!(world.model.wait_for_requests(2));
    running.interrupt();
    let done = running.wait(Duration::from_secs(10)).expect_code(130);
    assert_eq!(done.json()["status"], "interrupted");
}

#[test]
fn a_failed_run_still_prints_the_last_words_of_the_agent() {
    let world = World::new(|seen: &Seen| match seen.steps() {
        0 => Answer::text("I begin.").and_call("bash", json!({"command": "true"})),
        _ => Answer::error(400, "scripted failure"),
    });
    let done = world.run(&["hi"]).expect_code(1);
    assert_eq!(done.out, "I begin.\n");
    assert!(done.err.contains("scripted failure"), "{}", done.err);
}

#[test]
fn neighbours_spellings_are_understood() {
    let world = obedient();
    let done =
        world.run(&["-p", "--output-format", "json", "--max-turns", "5", "--allowedTools", "bash(git diff*),read", "fine"]).expect_code(0);
    assert_eq!(done.json()["result"], "done");
    let done = world.run(&["--print", "--output-format", "stream-json", "--disallowedTools", "bash", "fine"]).expect_code(0);
    assert_eq!(done.lines().last().unwrap()["type"], "result");
    assert!(!world.model.last().tools.contains(&"bash".to_owned()));
}
