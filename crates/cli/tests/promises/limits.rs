//! Limits: the call that would cross one is not made, and the end is said plainly.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Answer, Api, Seen, World, call, world::mock_config};

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
    // Enough for a machine that is slow to bring the first words.
    let done = world.run(&["--timeout", "4s", "go"]).expect_code(3);
    assert!(done.out.starts_with("some words"), "{}", done.out);
    assert!(done.err.contains("4s") && done.err.contains("--timeout"), "{}", done.err);
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

/// What a request is estimated at: a token for four bytes of its body, whose end is not estimated.
fn estimate(seen: &Seen) -> u64 {
    seen.body.len() as u64 / 4
}

/// Whether a count is the estimate of this request: the few bytes at a body's end are not in it.
fn is_about(count: u64, estimate: u64) -> bool {
    estimate - estimate / 20 <= count && count <= estimate
}

#[test]
fn a_server_that_cuts_every_answer_cannot_be_asked_past_a_budget() {
    for api in [Api::Anthropic, Api::OpenAi] {
        // Only one of them tells at the beginning what it has read.
        let cut = |_: &Seen| Answer::text(&"some words ".repeat(200)).usage(9_000, 500, 70, 0).cut_after(2_500);
        let world = World::with().api(api).script(cut);
        world.run(&["--format", "json", "go"]).expect_code(1);
        let requests = world.model.requests();
        assert_eq!(requests.len(), 6, "{api:?}: one try and five more");
        let each = if api == Api::Anthropic { 9_070 } else { estimate(&requests[0]) };
        // The first fits, and a second does not.
        let budget = each + estimate(&requests[0]) / 2;
        let (tokens, money) = (budget.to_string(), (budget as f64 * 3.0 / 1e6).to_string());
        for budget in [["--max-tokens", &tokens], ["--max-cost", &money]] {
            let before = world.model.requests().len();
            let shown = world.run(&[&budget[..], &["--format", "json", "go"]].concat()).expect_code(3).json();
            assert_eq!(world.model.requests().len() - before, 1, "{api:?} {budget:?}: {shown}");
            let usage = |name: &str| shown["usage"][name].as_u64().unwrap();
            assert_eq!(shown["status"], "limit", "{shown}");
            if api == Api::Anthropic {
                assert_eq!((usage("input"), usage("cache_read")), (9_000, 70), "as it was told: {shown}");
            } else {
                assert!(is_about(usage("input"), each), "{} of {each}", usage("input"));
            }
            assert!((50..=550).contains(&usage("output")), "what came of the answer: {shown}");
            // Whoever goes on has no more to spend than before.
            world.run(&[&budget[..], &["-c", "--format", "json", "go on"]].concat()).expect_code(3);
            assert_eq!(world.model.requests().len() - before, 1, "{api:?} {budget:?}: after a restart");
        }
    }
}

#[test]
fn what_is_refused_before_any_work_costs_nothing() {
    for status in [429, 503, 529] {
        let world = World::new(move |seen: &Seen| match seen.number {
            0 => Answer::error(status, "busy").header("retry-after", "0"),
            _ => Answer::text("ok"),
        });
        let shown = world.run(&["--format", "json", "go"]).expect_code(0).json();
        let usage = json!({"input": 100, "output": 20, "cache_read": 0, "cache_write": 0, "cost_usd": 0.0006});
        assert_eq!((&shown["usage"], world.model.requests().len()), (&usage, 2), "{status}");
    }
    let world = World::new(|_: &Seen| Answer::error(400, "no"));
    let shown = world.run(&["--format", "json", "go"]).expect_code(1).json();
    assert_eq!((&shown["usage"]["input"], &shown["usage"]["cost_usd"]), (&json!(0), &json!(0.0)));
}

#[test]
fn an_answer_that_falls_silent_or_is_interrupted_or_dies_with_posse_counts() {
    let script = |seen: &Seen| match seen.number {
        0 => Answer::text("some words that came").stalled_after(300),
        _ => Answer::text("ok"),
    };
    let world = || World::with().api(Api::OpenAi).config("limits", json!({"stream_idle": "1s"})).script(script);
    let check = |how: &str, world: &World, usage: &Value, answers: u64| {
        let estimate = estimate(&world.model.requests()[0]);
        let input = usage["input"].as_u64().unwrap() - 100 * answers;
        assert!(is_about(input, estimate), "{how}: {input} of {estimate}");
    };

    let silent = world();
    let shown = silent.run(&["--format", "json", "go"]).expect_code(0).json();
    check("silent", &silent, &shown["usage"], 1);
    assert_eq!(silent.model.requests().len(), 2);

    let world = || World::with().api(Api::OpenAi).script(script);
    let stopped = world();
    let running = stopped.start(&["run", "--format", "json", "go"]);
    assert!(stopped.model.wait_for_requests(1));
    running.interrupt();
    let shown = running.wait(Duration::from_secs(10)).expect_code(130).json();
    check("interrupted", &stopped, &shown["usage"], 0);
    let shown = stopped.run(&["-c", "--format", "json", "again"]).expect_code(0).json();
    check("interrupted, then gone on with", &stopped, &shown["usage"], 1);

    let killed = world();
    let running = killed.start(&["run", "--format", "json", "go"]);
    assert!(killed.model.wait_for_requests(1));
    running.kill();
    running.wait(Duration::from_secs(10));
    let session = killed.posse(&["sessions", "list", "--format", "json"]).expect_code(0).json()[0]["session"].clone();
    let shown = killed.posse(&["sessions", "resume", session.as_str().unwrap(), "--format", "json"]).expect_code(0).json();
    check("killed", &killed, &shown["usage"], 1);
}

/// The scripted server under an address that is nobody's own machine: what it answers has no price unless one is configured.
fn far(world: World) -> World {
    let mut config = mock_config(Api::Anthropic, &world.model.url.replace("127.0.0.1", "0.0.0.0"));
    let agents = json!({"thrifty": {"mode": "subagent", "prompt": "You work.", "model": "mock/m2", "budget": 1},
        "free": {"mode": "subagent", "prompt": "You work.", "model": "mock/m2"}});
    config["agent"] = agents;
    config["fallback"] = json!(["mock/m2"]);
    world.configure(&config);
    world
}

fn delegating(seen: &Seen) -> Answer {
    let agent = |who: &str| call("agent", json!({"description": "d", "prompt": "work", "subagent_type": who}));
    match (seen.user_texts()[0], seen.steps()) {
        ("both", 0) => Answer::calls([agent("thrifty"), agent("thrifty")]),
        ("free", 0) => Answer::calls([agent("free")]),
        ("busy", 0) if seen.json["model"] == "m1" => Answer::error(529, "busy").header("retry-after", "0"),
        _ => Answer::text("ok"),
    }
}

#[test]
fn a_budget_in_money_names_once_each_model_whose_price_nobody_knows() {
    let world = far(World::new(delegating));
    let line = "posse: nobody knows what mock/m2 costs, so a budget in money does not count it; \
        set `provider.mock.models.m2.cost` in posse.json, or give --max-tokens";
    for (args, said) in [
        (&["-m", "mock/m2", "hi"][..], 0),
        (&["-m", "mock/m2", "--max-tokens", "100000", "hi"], 0),
        (&["-m", "mock/m2", "--max-cost", "1", "hi"], 1),
        (&["-m", "mock/m1", "--max-cost", "1", "hi"], 0),
        // By whomever it is used: an agent with a budget, one below a budget, one that stands in.
        (&["both"], 1),
        (&["free"], 0),
        (&["--max-cost", "1", "free"], 1),
        (&["--max-cost", "1", "busy"], 1),
        (&["-q", "-m", "mock/m2", "--max-cost", "1", "hi"], 0),
    ] {
        let done = world.run(args).expect_code(0);
        let count = done.err.lines().filter(|said| *said == line).count();
        assert_eq!((count, done.err.matches("nobody knows").count()), (said, said), "{args:?}: {}", done.err);
    }
    let mut config: Value = mock_config(Api::Anthropic, &world.model.url.replace("127.0.0.1", "0.0.0.0"));
    (config["limits"], config["model"]) = (json!({"cost": 2}), json!("mock/m2"));
    world.configure(&config);
    assert!(world.run(&["hi"]).expect_code(0).err.contains(line));
    config["provider"]["mock"]["models"]["m2"]["cost"] = json!({"input": 0, "output": 0});
    world.configure(&config);
    assert!(!world.run(&["hi"]).expect_code(0).err.contains("nobody knows"), "known to be nothing");
    // The same server on this machine is the user's own.
    let near = World::new(delegating);
    assert!(!near.run(&["-m", "mock/m2", "--max-cost", "1", "hi"]).expect_code(0).err.contains("nobody knows"));
}

#[test]
fn a_cost_with_unknown_prices_is_not_told_as_exact() {
    let world = far(World::new(delegating));
    let done = world.run(&["free"]).expect_code(0);
    assert!(done.err.contains(" · $0.0012 + unknown · "), "two answers have a price: {}", done.err);
    let tree = world.posse(&["sessions", "tree"]).expect_code(0).out;
    let lines: Vec<&str> = tree.lines().collect();
    assert!(lines[0].contains("$0.0012 · with 1 below") && lines[0].contains("$0.0012 + unknown"), "{tree}");
    assert!(lines[1].contains("unknown cost") && !lines[1].contains('$'), "{tree}");
    let tasks = world.posse(&["tasks"]).expect_code(0).out;
    assert!(tasks.contains("unknown cost"), "{tasks}");
    let shown = world.run(&["-m", "mock/m2", "--format", "json", "hi"]).expect_code(0).json();
    let expected = json!({"input": 100, "output": 20, "cache_read": 0, "cache_write": 0, "cost_usd": 0.0, "unpriced": 120});
    assert_eq!(shown["usage"], expected);
    let session = shown["session"].as_str().unwrap();
    let page = world.posse(&["sessions", "show", session]).expect_code(0).out;
    assert!(page.lines().nth(1).unwrap().ends_with(" · unknown cost"), "{page}");
    let list = world.posse(&["sessions", "list"]).expect_code(0).out;
    assert!(list.lines().next().unwrap().contains("unknown cost"), "{list}");
}
