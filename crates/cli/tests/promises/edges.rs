//! What is said at the edges: a stream that broke off, a limit with a reason behind it, a refusal that nobody saw, a short
//! start of an id. "Errors go to stderr: what happened, where, what to do."

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    background::LONG,
    support::{Answer, Seen, World, call},
};

fn root(world: &World) -> String {
    world.posse(&["sessions", "list", "--format", "json"]).expect_code(0).json()[0]["session"].as_str().unwrap().to_owned()
}

/// A permission that nobody is there to give.
fn asking() -> World {
    World::with().config("permission", json!({"bash": {"*": "allow", "touch *": "ask"}})).script(|seen: &Seen| match seen.steps() {
        0 => Answer::call("bash", json!({"command": "touch made"})),
        _ => Answer::text("ended"),
    })
}

#[test]
fn what_was_streamed_before_the_end_is_shown_once_and_marked() {
    let world = World::new(|_: &Seen| Answer::text("the first half of it").stalled_after(600));
    let running = world.start(&["run", "--format", "stream-json", "go"]);
    assert!(running.wait_for_out("half of it", LONG), "{}", running.out_so_far());
    running.interrupt();
    running.wait(Duration::from_secs(10)).expect_code(130);
    for all in [&[][..], &["--all"]] {
        let id = root(&world);
        let shown = world.posse(&[&["sessions", "show", &id], all].concat()).expect_code(0).out;
        assert_eq!(shown.matches("interrupted").count(), 1, "{shown}");
        assert!(shown.contains("agent: the first half of it\n  (cut off here)\n  ! interrupted\n"), "{shown}");
    }
    world.run(&["--timeout", "1s", "again"]).expect_code(3);
    let shown = world.posse(&["sessions", "show", &root(&world)]).expect_code(0).out;
    assert!(shown.contains("agent: the first half of it\n  (cut off here)\n"), "{shown}");
    assert_eq!(shown.matches("the time limit of 1s is used up").count(), 1, "{shown}");
}

#[test]
fn a_time_limit_names_the_model_error_that_used_it_up() {
    for status in [500, 529, 429] {
        let world = World::new(move |_: &Seen| Answer::error(status, "the kettle is cold").header("retry-after", "60"));
        let done = world.run(&["-q", "--format", "json", "--timeout", "1s", "go"]).expect_code(3);
        let error = done.json()["error"].as_str().unwrap().to_owned();
        for part in ["the time limit of 1s is used up", &format!("HTTP {status}"), "mock/m1", &world.model.url, "the kettle is cold"] {
            assert!(error.contains(part) && done.err.contains(part), "{status}: no {part:?} in {error:?} and {:?}", done.err);
        }
    }
    let world = World::new(|_: &Seen| Answer::text("never asked"));
    world.configure(
        &json!({"model": "near/m", "provider": {"near": {"api": "anthropic", "base_url": "http://127.0.0.1:9", "api_key": "k"}}}),
    );
    let done = world.run(&["-q", "--timeout", "1s", "go"]).expect_code(3);
    for part in ["the time limit of 1s is used up", "near/m", "connection refused by http://127.0.0.1:9"] {
        assert!(done.err.contains(part), "no {part:?} in {:?}", done.err);
    }
}

#[test]
fn a_refused_request_names_the_model_and_the_next_step() {
    for (status, advice) in [(400, "-m"), (402, "plan and credit"), (422, "-m")] {
        let world = World::new(move |_: &Seen| Answer::error(status, "the kettle is cold"));
        let done = world.run(&["-q", "go"]).expect_code(1);
        for part in [&format!("HTTP {status}"), "mock/m1", &world.model.url, "the kettle is cold", advice] {
            assert!(done.err.contains(part), "{status}: no {part:?} in {:?}", done.err);
        }
    }
}

#[test]
fn a_quiet_run_says_what_nobody_could_allow() {
    let world = asking();
    let done = world.run(&["-q", "go"]).expect_code(4);
    assert_eq!(done.err.lines().count(), 1, "{}", done.err);
    for part in ["nobody could answer", "bash(touch made)", "--allow 'bash(touch made)'", "--on-ask wait"] {
        assert!(done.err.contains(part), "no {part:?} in {:?}", done.err);
    }
    assert!(world.run(&["go"]).expect_code(4).err.contains("--on-ask wait"));
    assert_eq!(world.run(&["-q", "--on-ask", "deny-ok", "go"]).expect_code(0).err, "");
    world.run(&["-q", "--allow", "bash(touch made)", "go"]).expect_code(0);
}

#[test]
fn the_bare_kind_of_an_id_lists_what_it_could_mean() {
    let world = asking();
    world.run(&["go"]).expect_code(4);
    let first = root(&world);
    for command in [&["sessions", "show", "ses_"][..], &["sessions", "rm", "ses_"], &["why", "ses_"]] {
        let one = world.posse(command).expect_code(2);
        assert!(one.err.contains(&format!("ses_ could be any of these: {first}")), "{command:?}: {}", one.err);
    }
    world.run(&["go"]).expect_code(4);
    let several = world.posse(&["sessions", "show", "ses_"]).expect_code(2).err;
    assert!(several.contains(&first) && several.contains(&root(&world)), "{several}");
    let asked = world.posse(&["asks", "answer", "ask_", "once"]).expect_code(2).err;
    assert!(asked.contains("ask_ could be any of these: ask_") && asked.matches("ask_0").count() == 2, "{asked}");
    assert!(world.posse(&["sessions", "show", ""]).expect_code(2).err.contains("there is no session"));
}

#[test]
fn an_empty_rule_is_refused_whatever_it_would_do() {
    let world = World::new(|_: &Seen| Answer::text("never asked"));
    for flag in ["--allow", "--deny", "--ask"] {
        for rule in ["", " "] {
            assert!(world.run(&[flag, rule, "go"]).expect_code(2).err.contains("an empty rule"), "{flag} {rule:?}");
        }
    }
}

#[test]
fn an_age_is_said_in_days_and_one_of_a_thing_is_one() {
    let world = World::new(|seen: &Seen| match seen.steps() {
        0 => Answer::call("bash", json!({"command": "true"})),
        _ => Answer::text("ended"),
    });
    let done = world.run(&["go"]).expect_code(0);
    assert!(done.err.contains(" · 2 steps · 1 call · "), "{}", done.err);
    let id = root(&world);
    assert!(world.posse(&["sessions", "show", &id]).expect_code(0).out.contains("2 steps · 1 call · "));
    for (age, said) in [("30d", "30 days"), ("24h", "1 day"), ("36h", "36h"), ("90m", "1h30m")] {
        let done = world.posse(&["sessions", "rm", "--older-than", age]).expect_code(0);
        assert!(done.err.contains(&format!("no session here has rested for {said}\n")), "{age}: {}", done.err);
    }
    assert_eq!(world.posse(&["sessions", "rm", &id]).expect_code(0).out, format!("removed {id} (1 session)\n"));
}

#[test]
fn an_unknown_command_hears_of_those_that_are_built_in() {
    let world = World::new(|_: &Seen| Answer::text("never asked"));
    let all = world.run(&["/zzzzzzz"]).expect_code(2).err;
    assert!(all.contains("/compact") && all.contains("/fork"), "{all}");
    let near = world.run(&["/compcat"]).expect_code(2).err;
    assert!(near.contains("did you mean /compact?"), "{near}");
}

#[test]
fn a_retry_is_one_line_with_its_reason() {
    let world = World::new(|seen: &Seen| match seen.number {
        0 | 1 => Answer::error(500, "the kettle is cold"),
        _ => Answer::text("warm"),
    });
    let done = world.run(&["go"]).expect_code(0);
    let lines: Vec<&str> = done.err.lines().filter(|line| line.contains("trying again") || line.contains("kettle")).collect();
    assert_eq!(lines.len(), 2, "{}", done.err);
    for line in lines {
        assert!(
            line.starts_with("  ! HTTP 500") && line.contains("the kettle is cold (mock/m1 at ") && line.contains("; trying again in "),
            "{}",
            done.err
        );
    }
}

const BOILERPLATE: &str = "<fork-boilerplate>";

/// Two forks of one call, and a plain task without a name; each wants what only a person may allow.
fn three_askers() -> World {
    let plan = World::with().config("permission", json!({"bash": {"*": "allow", "touch *": "ask"}})).config("fork", json!("explicit"));
    plan.script(|seen: &Seen| {
        let texts = seen.user_texts();
        let told = texts.iter().find(|text| text.contains(BOILERPLATE)).and_then(|text| text.split_once("Your task:\n"));
        let own = seen.results().len();
        match (told.map(|(_, told)| told).unwrap_or(texts[0]), seen.steps()) {
            ("go", 0) => Answer::calls([
                call("agent", json!({"description": "check the parser", "prompt": "p", "subagent_type": "fork", "name": "parser"})),
                call("agent", json!({"description": "check the lexer", "prompt": "l", "subagent_type": "fork", "name": "lexer"})),
                call("agent", json!({"description": "check the docs", "prompt": "d", "subagent_type": "general"})),
            ]),
            (who @ ("p" | "l"), 1) => Answer::call("bash", json!({"command": format!("touch {who}")})),
            ("d", 0) => Answer::call("bash", json!({"command": "touch d"})),
            _ => Answer::text(&format!("ended after {own}")),
        }
    })
}

/// CC-099, CC-103: questions bubble up with the name of whoever asks, or with what it was started for.
#[test]
fn an_ask_names_the_task_that_asks() {
    let world = three_askers();
    let running = world.start(&["run", "--on-ask", "wait", "go"]);
    let end = std::time::Instant::now() + LONG;
    let asks = loop {
        let open = world.posse(&["asks", "list", "--format", "json"]).expect_code(0).json();
        if open.as_array().unwrap().len() == 3 {
            break open;
        }
        assert!(std::time::Instant::now() < end, "there are no three asks: {open}");
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut who: Vec<(Value, Value)> =
        asks.as_array().unwrap().iter().map(|ask| (ask["name"].clone(), ask["description"].clone())).collect();
    who.sort_by_key(|(_, description)| description.to_string());
    let named = |name: Option<&str>, description: &str| (name.map_or(Value::Null, Into::into), Value::from(description));
    assert_eq!(who, [named(None, "check the docs"), named(Some("lexer"), "check the lexer"), named(Some("parser"), "check the parser")]);
    let listed = world.posse(&["asks", "list"]).expect_code(0).out;
    for part in ["fork \"parser\" in ses_", "fork \"lexer\" in ses_", "general (check the docs) in ses_"] {
        assert!(listed.contains(part), "no {part:?} in {listed}");
    }
    for part in ["fork \"parser\"", "fork \"lexer\"", "general (check the docs)"] {
        let line = format!("posse: bash of {part} waits for your permission: bash(touch ");
        assert!(running.wait_for_err(&line, LONG), "no {line:?}: {}", running.err_so_far());
    }
    for ask in asks.as_array().unwrap() {
        world.posse(&["asks", "answer", ask["ask"].as_str().unwrap(), "once"]).expect_code(0);
    }
    running.wait(LONG).expect_code(0);
}

#[test]
fn an_ask_at_the_terminal_names_the_task_that_asks() {
    let world = three_askers();
    let mut terminal = world.command(&["run", "go"]).at_terminal();
    let asking = "n no, a no to all and stop: ";
    for nth in 1..=3 {
        let end = std::time::Instant::now() + LONG;
        while terminal.screen().matches(asking).count() < nth {
            assert!(std::time::Instant::now() < end, "there is no question {nth}:\n{}", terminal.screen());
            std::thread::sleep(Duration::from_millis(5));
        }
        terminal.types("y\n");
    }
    let done = terminal.wait().expect_code(0);
    for part in ["? fork \"parser\" wants bash", "? fork \"lexer\" wants bash", "? general (check the docs) wants bash"] {
        assert!(done.err.contains(part), "no {part:?} in {}", done.err);
    }
}

/// CC-162: what was read up to its end is not told again; a place beyond the end takes nothing away either.
#[test]
fn a_look_at_an_ended_task_tells_only_what_is_new() {
    let world = World::new(|seen: &Seen| {
        let look = |since: u64| Answer::call("task_output", json!({"task_id": "part", "block": false, "since": since}));
        match (seen.user_texts()[0], seen.steps()) {
            ("go", 0) => {
                Answer::call("agent", json!({"description": "a part", "prompt": "do", "subagent_type": "general", "name": "part"}))
            }
            ("go", 1) => look(0),
            ("go", 2) => {
                let next = seen.last_results()[0].rsplit("next: ").next().unwrap().trim().parse().unwrap();
                look(next)
            }
            ("go", 3) => look(99_999),
            ("go", _) => Answer::text("ended"),
            _ => Answer::text("THE RESULT"),
        }
    });
    world.run(&["go"]).expect_code(0);
    let last = world.model.last();
    let results: Vec<String> = last.results().iter().map(|block| format!("{block:?}")).collect();
    assert!(results[1].contains("THE RESULT"), "{results:#?}");
    for known in &results[2..] {
        assert!(known.contains("(nothing new)") && known.contains("completed") && !known.contains("THE RESULT"), "{results:#?}");
    }
}
