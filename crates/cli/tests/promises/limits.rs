//! Limits: the call that would cross one is not made, and the end is said plainly.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Answer, Api, Seen, World};

/// A model that always wants one more call, except when it must not.
fn restless(seen: &Seen) -> Answer {
    let choice = &seen.json["tool_choice"];
    if *choice == json!({"type": "none"}) || *choice == json!("none") {
        return Answer::text("summing up");
    }
    Answer::text("on it").and_call("bash", json!({"command": format!("echo {}", seen.steps())}))
}

#[test]
fn after_the_last_step_one_more_answer_is_given_without_tools() {
    for api in [Api::Anthropic, Api::OpenAi] {
        let world = World::with().api(api).script(restless);
        let done = world.run(&["--max-steps", "2", "--format", "json", "go"]).expect_code(3);
        let shown = done.json();
        assert_eq!((&shown["status"], &shown["result"]), (&json!("limit"), &json!("summing up")), "{api:?}");
        assert!(shown["error"].as_str().unwrap().contains("step"), "{shown}");
        let requests = world.model.requests();
        assert_eq!(requests.len(), 3, "two steps and the closing one");
        let last = &requests[2];
        assert_eq!(last.tools, requests[0].tools, "the tools stay, so that the provider's cache holds");
        let none = if api == Api::Anthropic { json!({"type": "none"}) } else { json!("none") };
        assert_eq!(last.json["tool_choice"], none);
        assert!(requests[..2].iter().all(|request| request.json["tool_choice"] != none));
    }
}

#[test]
fn a_run_that_ends_within_its_limits_is_done() {
    let world = World::new(|seen: &Seen| match seen.steps() {
        0 => Answer::call("bash", json!({"command": "true"})),
        _ => Answer::text("done"),
    });
    world.run(&["--max-steps", "2", "--max-tokens", "1000000", "--max-cost", "5", "--timeout", "1m", "go"]).expect_code(0);
    assert_eq!(world.model.requests().len(), 2);
}

#[test]
fn tokens_are_counted_before_the_call_and_the_output_is_lowered_to_what_is_left() {
    let world = World::new(|seen: &Seen| restless(seen).usage(4000, 1000, 2000, 1000));
    let done = world.run(&["--max-tokens", "20000", "--format", "json", "go"]).expect_code(3);
    let shown = done.json();
    assert_eq!(shown["status"], "limit");
    assert!(shown["error"].as_str().unwrap().contains("token"), "{shown}");
    let requests = world.model.requests();
    assert_eq!(requests.len(), 2, "8,000 each: a third would begin above 16,000 spent and 7,000 estimated");
    let output = |at: usize| requests[at].json["max_tokens"].as_u64().unwrap();
    assert!(output(1) < output(0) && output(1) <= 20_000 - 8_000 - 7_000, "{} then {}", output(0), output(1));
}

#[test]
fn a_budget_too_small_for_the_first_call_makes_no_call() {
    let world = World::new(|_: &Seen| "never");
    for limit in [&["--max-tokens", "10"], &["--max-cost", "0.0000001"]] {
        let done = world.run(&[&limit[..], &["--format", "json", "go"]].concat()).expect_code(3);
        assert_eq!(done.json()["status"], "limit");
    }
    assert!(world.model.requests().is_empty());
}

#[test]
fn money_is_counted_by_the_models_prices() {
    // 0.03 + 0.015 a step.
    let world = World::new(|seen: &Seen| restless(seen).usage(10_000, 1_000, 0, 0));
    let shown = world.run(&["--max-cost", "0.10", "--format", "json", "go"]).expect_code(3).json();
    assert_eq!(shown["status"], "limit");
    assert!(shown["error"].as_str().unwrap().contains("cost"), "{shown}");
    let spent = shown["usage"]["cost_usd"].as_f64().unwrap();
    assert!(0.0449 < spent && spent <= 0.10, "{spent}");
}

#[test]
fn time_runs_out_in_the_middle_of_a_tool_without_another_model_call() {
    let world = World::new(|_: &Seen| Answer::text("let me see").and_call("bash", json!({"command": "echo begun; sleep 60"})));
    let begun = Instant::now();
    let done = world.run(&["--timeout", "1s", "--format", "json", "go"]).expect_code(3);
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    let shown: Value = done.json();
    assert_eq!((&shown["status"], &shown["result"]), (&json!("limit"), &json!("let me see")));
    assert!(shown["error"].as_str().unwrap().contains("time"), "{shown}");
    assert_eq!(world.model.requests().len(), 1);
    assert!(world.processes_left_after(Duration::from_secs(3)).is_empty());
}

#[test]
fn time_runs_out_in_the_middle_of_an_answer_and_what_was_said_is_printed() {
    let world = World::new(|_: &Seen| Answer::text("some words that came before the end of time").stalled_after(800));
    let done = world.run(&["--timeout", "1s", "go"]).expect_code(3);
    assert!(done.out.starts_with("some words"), "{}", done.out);
    assert!(done.err.contains("1s") && done.err.contains("--timeout"), "{}", done.err);
}

#[test]
fn a_limit_that_is_no_limit_is_wrong_usage() {
    let world = World::new(|_: &Seen| "never");
    for limit in [
        ["--max-cost", "nan"],
        ["--max-cost", "inf"],
        ["--max-cost=-1", "-q"],
        ["--max-steps", "many"],
        ["--timeout", "soon"],
        ["--timeout", "0s"],
    ] {
        world.run(&[&limit[..], &["go"]].concat()).expect_code(2);
    }
    assert!(world.model.requests().is_empty());
}

#[test]
fn limits_of_the_configuration_hold_too() {
    let world = World::with().config("limits", json!({"steps": 1})).script(restless);
    let shown = world.run(&["--format", "json", "go"]).expect_code(3).json();
    assert_eq!((&shown["status"], world.model.requests().len()), (&json!("limit"), 2));
}

#[test]
fn after_a_limit_the_session_takes_the_next_prompt() {
    let world =
        World::new(|seen: &Seen| if seen.user_texts().contains(&"and now?") { Answer::text("now I am done") } else { restless(seen) });
    world.run(&["--max-steps", "1", "go"]).expect_code(3);
    assert_eq!(world.run(&["-c", "and now?"]).expect_code(0).out, "now I am done\n");
}

#[test]
fn a_step_whose_calls_are_all_denied_counts_like_any_other() {
    let world = World::new(restless);
    let shown = world.run(&["--max-steps", "1", "--deny", "bash(echo*)", "--format", "json", "go"]).expect_code(3).json();
    assert_eq!((&shown["result"], &shown["tree"][0]["steps"]), (&json!("summing up"), &json!(2)));
    assert_eq!(world.model.requests().len(), 2);
}
