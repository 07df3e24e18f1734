//! Delegation through the real binary: who may be given work, what comes back, under whose limits, and what goes on later.
//!
//! Every story has one scripted model for all agents; a conversation is known by its first words. What a team looks like to
//! people is in `tree.rs`, what may happen to its processes in `faults/team.rs`, whose rights count in `rights.rs`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Answer, Seen, World, answer::Piece, call};

/// A call of the delegation tool in the default dialect.
pub(crate) fn agent(who: &str, description: &str, prompt: &str) -> Piece {
    call("agent", json!({"description": description, "prompt": prompt, "subagent_type": who}))
}

/// The same call in the other dialect.
fn task(who: &str, description: &str, prompt: &str) -> Piece {
    call("task", json!({"description": description, "prompt": prompt, "subagent_type": who}))
}

/// The words that a conversation began with.
pub(crate) fn prompt(seen: &Seen) -> &str {
    seen.user_texts()[0]
}

/// The root gives these calls to the agents and then answers with what they came to.
pub(crate) fn errand(seen: &Seen, calls: impl IntoIterator<Item = Piece>) -> Answer {
    match seen.steps() {
        0 => Answer::calls(calls),
        _ => Answer::text(&seen.last_results().join("\n====\n")),
    }
}

/// The requests of the conversation that began with these words.
pub(crate) fn requests_of(world: &World, words: &str) -> Vec<std::sync::Arc<Seen>> {
    world.model.requests().into_iter().filter(|seen| prompt(seen) == words).collect()
}

/// The id at the end of a result.
fn id_in(result: &str) -> String {
    let found = result.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').rfind(|word| word.starts_with("ses_"));
    found.unwrap_or_else(|| panic!("no id in {result:?}")).to_owned()
}

fn run_json(world: &World, args: &[&str], code: i32) -> Value {
    world.run(&[&["--format", "json"], args].concat()).expect_code(code).json()
}

#[test]
fn an_answer_comes_back_whole_with_its_id_and_the_tree_tells_who_did_what() {
    let world = World::new(|seen: &Seen| match prompt(seen) {
        "go" => errand(seen, [agent("general-purpose", "count the files", "count them")]),
        _ => Answer::text("There are three.").and_text("Or four.").usage(1_000, 50, 10, 5),
    });
    let shown = run_json(&world, &["go"], 0);
    let tree = shown["tree"].as_array().unwrap();
    let (root, child) = (&tree[0], &tree[1]);
    let id = child["session"].as_str().unwrap();
    assert_eq!(shown["result"], json!(format!("There are three.\n\nOr four.\n\ntask_id: {id}")));
    assert_eq!((&child["parent"], &child["agent"], &child["kind"]), (&root["session"], &json!("general"), &json!("task")));
    assert_eq!((&child["title"], &child["status"]), (&json!("count the files (@general subagent)"), &json!("completed")));
    assert_eq!((&child["steps"], &child["calls"], &root["steps"], &root["calls"]), (&json!(1), &json!(0), &json!(2), &json!(1)));
    assert_eq!((&child["usage"]["input"], &root["usage"]["input"], &shown["usage"]["input"]), (&json!(1_000), &json!(200), &json!(1_200)));
    let (of_child, of_all) = (&child["usage"], &shown["usage"]);
    assert_eq!((&of_child["cache_read"], &of_all["cache_write"], &of_all["output"]), (&json!(10), &json!(5), &json!(90)));
    let sum = of_child["cost_usd"].as_f64().unwrap() + root["usage"]["cost_usd"].as_f64().unwrap();
    assert!((sum - of_all["cost_usd"].as_f64().unwrap()).abs() < 1e-9, "{shown}");
    assert_eq!(requests_of(&world, "count them")[0].user_texts(), ["count them"], "a child hears its prompt and nothing else");
}

#[test]
fn in_opencodes_dialect_the_last_text_and_the_id_under_both_names() {
    let world = World::with().config("dialect", json!("opencode")).script(|seen: &Seen| match prompt(seen) {
        "go" => errand(seen, [task("general", "count the files", "count them")]),
        _ => Answer::text("There are three.").and_text("Or four."),
    });
    let shown = run_json(&world, &["go"], 0);
    let id = shown["tree"][1]["session"].as_str().unwrap();
    assert_eq!(shown["result"], json!(format!("Or four.\n\n<task_metadata>\nsession_id: {id}\ntask_id: {id}\n</task_metadata>")));
    assert!(world.model.last().tools.contains(&"task".to_owned()) && !world.model.last().tools.contains(&"agent".to_owned()));
    let named = run_json(&world, &["--dialect", "posse", "go"], 0);
    assert!(named["result"].as_str().unwrap().contains("agent"), "a flag changes the dialect: {named}");
}

#[test]
fn the_tasks_of_one_reply_are_in_flight_together() {
    let arrived = std::sync::Arc::new(std::sync::Barrier::new(4));
    let world = World::new(move |seen: &Seen| match prompt(seen) {
        "go" => errand(seen, ["a", "b", "c", "d"].map(|name| agent("explore", name, &format!("look at {name}")))),
        words => {
            // Nobody is answered before all have asked.
            arrived.wait();
            Answer::text(words)
        }
    });
    let shown = run_json(&world, &["go"], 0);
    let ids: Vec<&str> = (1..5).map(|at| shown["tree"][at]["session"].as_str().unwrap()).collect();
    let expected: Vec<String> = ["a", "b", "c", "d"].iter().zip(ids).map(|(name, id)| format!("look at {name}\n\ntask_id: {id}")).collect();
    assert_eq!(shown["result"], json!(expected.join("\n====\n")), "each call has its own answer, in the order of the calls");
}

#[test]
fn a_child_that_fails_comes_back_with_its_words_its_error_and_its_id() {
    for (dialect, tool) in [("posse", "agent"), ("opencode", "task")] {
        let world = World::with().config("dialect", json!(dialect)).script(move |seen: &Seen| match (prompt(seen), seen.steps()) {
            ("go", _) => errand(seen, [call(tool, json!({"description": "d", "prompt": "work", "subagent_type": "general"}))]),
            (_, 0) => Answer::text("I found the cause.").and_call("bash", json!({"command": "true"})),
            (_, _) => Answer::error(400, "the prompt is not acceptable"),
        });
        let shown = run_json(&world, &["go"], 0);
        let (child, result) = (&shown["tree"][1], shown["result"].as_str().unwrap());
        assert_eq!((&child["status"], &shown["status"]), (&json!("failed"), &json!("done")), "{dialect}");
        let id = child["session"].as_str().unwrap();
        assert!(result.starts_with("The task failed before it was done: "), "{dialect}: {result}");
        assert!(result.contains("the prompt is not acceptable"), "{dialect}: {result}");
        assert!(result.contains("The last it had said:\nI found the cause."), "{dialect}: {result}");
        assert!(id_in(result) == id, "{dialect}: {result}");
    }
}

/// Always one more call, except when it must not.
fn restless(seen: &Seen) -> Answer {
    if seen.json["tool_choice"] == json!({"type": "none"}) {
        return Answer::text("this far I came");
    }
    Answer::text("on it").and_call("bash", json!({"command": format!("echo {}", seen.steps())}))
}

#[test]
fn a_childs_own_steps_end_in_one_closing_step_and_the_run_is_done() {
    let world =
        World::with().config("agent", json!({"worker": {"mode": "subagent", "description": "Works", "prompt": "You work.", "steps": 2}}));
    let world = world.script(|seen: &Seen| match prompt(seen) {
        "go" => errand(seen, [agent("worker", "d", "work")]),
        _ => restless(seen),
    });
    let shown = run_json(&world, &["go"], 0);
    let (child, result) = (&shown["tree"][1], shown["result"].as_str().unwrap());
    assert_eq!((&child["steps"], &shown["status"], shown.get("error")), (&json!(3), &json!("done"), None), "{shown}");
    assert_eq!(child["status"], "completed", "{child}");
    let blocks: Vec<&str> = result.split("\n\n").collect();
    assert_eq!((blocks[0], blocks.len()), ("this far I came", 3), "{result}");
    assert!(blocks[1].starts_with("limit: ") && blocks[1].contains("step limit"), "{result}");
    assert_eq!(requests_of(&world, "work").len(), 3, "two steps and the closing one");
}

#[test]
fn a_limit_of_the_tree_that_a_child_meets_ends_the_run_with_3() {
    for limit in [["--max-steps", "3"], ["--max-cost", "0.2"], ["--max-tokens", "60000"]] {
        let world = World::new(|seen: &Seen| match prompt(seen) {
            "go" => errand(seen, [agent("general", "d", "work")]).usage(10_000, 1_000, 0, 0),
            _ => restless(seen).usage(10_000, 1_000, 0, 0),
        });
        let shown = run_json(&world, &[&limit[..], &["go"]].concat(), 3);
        assert_eq!(shown["status"], "limit", "{limit:?}: {shown}");
        assert!(
            shown["error"].as_str().unwrap().contains(limit[0].trim_start_matches("--max-").trim_end_matches('s')),
            "{limit:?}: {shown}"
        );
        assert_eq!(shown["tree"].as_array().unwrap().len(), 2, "{limit:?}");
        let calls = world.model.requests().len();
        match limit[0] {
            "--max-steps" => assert_eq!(calls, 4, "three of the tree, and the root's closing one"),
            "--max-tokens" => assert!(shown["usage"]["input"].as_u64().unwrap() + shown["usage"]["output"].as_u64().unwrap() <= 60_000),
            _ => assert!(shown["usage"]["cost_usd"].as_f64().unwrap() <= 0.2),
        }
        assert!((3..8).contains(&calls), "{limit:?}: {calls}");
    }
}

/// The root goes on with the task whose id its last result named.
fn twice(tool: &'static str, key: &'static str) -> impl Fn(&Seen) -> Answer {
    move |seen: &Seen| {
        let mut input = json!({"description": "d", "prompt": "first part", "subagent_type": "general"});
        match (prompt(seen), seen.steps()) {
            ("go", 0) => Answer::calls([call(tool, input)]),
            ("go", 1) => {
                input[key] = json!(id_in(seen.last_results()[0]));
                input["prompt"] = json!("second part");
                Answer::calls([call(tool, input)])
            }
            ("go", _) => Answer::text(seen.last_results()[0]),
            (_, _) => Answer::text(&format!("heard {:?}", seen.user_texts())),
        }
    }
}

#[test]
fn a_task_goes_on_by_its_id_and_remembers() {
    for (dialect, tool, key) in [
        ("posse", "agent", "task_id"),
        ("posse", "agent", "session_id"),
        ("opencode", "task", "session_id"),
        ("opencode", "task", "task_id"),
    ] {
        let world = World::with().config("dialect", json!(dialect)).script(twice(tool, key));
        let shown = run_json(&world, &["go"], 0);
        let result = shown["result"].as_str().unwrap();
        assert!(result.starts_with(r#"heard ["first part", "second part"]"#), "{dialect} {key}: {result}");
        assert_eq!(shown["tree"].as_array().unwrap().len(), 2, "{dialect} {key}: one child: {shown}");
        assert_eq!((&shown["tree"][1]["steps"], &shown["tree"][1]["session"]), (&json!(2), &json!(id_in(result))), "{dialect} {key}");
    }
}

#[test]
fn a_task_goes_on_in_a_later_run_of_another_process() {
    let world = World::new(|seen: &Seen| match (prompt(seen), seen.user_texts().len(), seen.steps()) {
        ("go", 1, _) => errand(seen, [agent("general", "d", "first part")]),
        ("go", 2, 2) => {
            let id = id_in(seen.results().last().map(|block| format!("{block:?}")).unwrap().as_str());
            Answer::calls([call("agent", json!({"description": "d", "prompt": "second part", "subagent_type": "general", "task_id": id}))])
        }
        ("go", _, _) => Answer::text(seen.last_results()[0]),
        (_, _, _) => Answer::text(&format!("heard {:?}", seen.user_texts())),
    });
    let first = run_json(&world, &["go"], 0);
    let later = run_json(&world, &["-c", "go on with it"], 0);
    assert!(later["result"].as_str().unwrap().starts_with(r#"heard ["first part", "second part"]"#), "{later}");
    assert_eq!((&first["tree"][1]["session"], later["tree"].as_array().unwrap().len()), (&later["tree"][1]["session"], 2));
}

#[test]
fn an_id_that_leads_nowhere_says_what_can_be_resumed_and_in_opencodes_dialect_starts_anew() {
    let script = |tool: &'static str| {
        move |seen: &Seen| {
            let input = json!({"description": "the first", "prompt": "work", "subagent_type": "general"});
            let mut wrong = input.clone();
            wrong["task_id"] = json!("ses_01JD0000000000000000000000");
            match (prompt(seen), seen.steps()) {
                ("go", 0) => Answer::calls([call(tool, input)]),
                ("go", 1) => Answer::calls([call(tool, wrong)]),
                ("go", _) => Answer::text(seen.last_results()[0]),
                (_, _) => Answer::text("did it"),
            }
        }
    };
    let world = World::new(script("agent"));
    let shown = run_json(&world, &["go"], 0);
    let (result, child) = (shown["result"].as_str().unwrap(), shown["tree"][1]["session"].as_str().unwrap());
    let expected = format!(
        "There is no task `ses_01JD0000000000000000000000` of this session to go on with. Tasks that can be resumed: {child} (the first (@general subagent))."
    );
    assert_eq!((result, shown["tree"].as_array().unwrap().len()), (expected.as_str(), 2));

    let world = World::with().config("dialect", json!("opencode")).script(script("task"));
    let shown = run_json(&world, &["go"], 0);
    let result = shown["result"].as_str().unwrap();
    assert_eq!(shown["tree"].as_array().unwrap().len(), 3, "{shown}");
    assert!(result.starts_with("did it\n\nThere is no task `ses_01JD0000000000000000000000`"), "{result}");
    assert!(result.contains("A new session was started instead.\n\n<task_metadata>"), "{result}");
    assert_eq!(json!(id_in(result)), shown["tree"][2]["session"]);
}

#[test]
fn a_task_of_another_tree_is_nobodys_here() {
    let known = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let other = known.clone();
    let world = World::new(move |seen: &Seen| match (prompt(seen), seen.steps()) {
        ("first", _) => errand(seen, [agent("general", "d", "work")]),
        ("second", 0) => {
            let id = other.lock().unwrap().clone();
            Answer::calls([call("agent", json!({"description": "d", "prompt": "more", "subagent_type": "general", "task_id": id}))])
        }
        ("second", _) => Answer::text(seen.last_results()[0]),
        (_, _) => Answer::text("did it"),
    });
    let first = run_json(&world, &["first"], 0);
    *known.lock().unwrap() = first["tree"][1]["session"].as_str().unwrap().to_owned();
    let second = run_json(&world, &["second"], 0);
    assert!(second["result"].as_str().unwrap().contains("there are none yet"), "{second}");
    assert_eq!(second["tree"].as_array().unwrap().len(), 1);
    assert_eq!(requests_of(&world, "work").len(), 1, "and it was not spoken to");
}

#[test]
fn a_task_that_the_user_stopped_is_the_users() {
    let world = World::new(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([agent("general", "d", "work")]),
        ("go", 1) => {
            let id = id_in(seen.last_results()[0]);
            Answer::calls([call("agent", json!({"description": "d", "prompt": "more", "subagent_type": "general", "task_id": id}))])
        }
        ("go", _) => Answer::text(&seen.results().iter().map(|block| format!("{block:?}")).collect::<Vec<_>>().join("\n")),
        (_, _) => Answer::text("Half of it is").stalled_after(700),
    });
    let running = world.start(&["run", "--format", "json", "go"]);
    assert!(world.model.wait_for_requests(2));
    let tasks = world.posse(&["tasks", "--format", "json"]).expect_code(0).json();
    let child = tasks[0]["session"].as_str().unwrap().to_owned();
    let told = world.posse(&["sessions", "stop", &child]).expect_code(0).out;
    assert!(told.contains(&child), "{told}");
    let shown = running.wait(Duration::from_secs(60)).expect_code(0).json();
    let result = shown["result"].as_str().unwrap();
    assert!(result.contains("The task was stopped before it was done"), "{result}");
    assert!(result.contains(&format!("The user stopped the task {child}; only the user can go on with it.")), "{result}");
    assert_eq!((&shown["tree"][1]["status"], requests_of(&world, "work").len()), (&json!("stopped"), 1));
}

const WORKER: &str = "---\ndescription: Works\nmode: subagent\nmodel: mock/m2\n---\nYou work.\n";

#[test]
fn a_model_is_the_calls_or_the_agents_or_the_parents_and_a_wrong_one_is_said() {
    let world = World::with()
        .config("models", json!({"small": "mock/m2"}))
        .config(
            "agent",
            json!({"cheap": {"mode": "subagent", "prompt": "You are cheap.", "model": "mock/m2"},
                "lost": {"mode": "subagent", "prompt": "You are lost.", "model": "mock/m99"},
                "same": {"mode": "subagent", "prompt": "You are the same.", "model": "inherit"}}),
        )
        .script(|seen: &Seen| match prompt(seen) {
            "go" => {
                let named = |who: &str, prompt: &str, model: &str| {
                    call("agent", json!({"description": "d", "prompt": prompt, "subagent_type": who, "model": model}))
                };
                let calls = [
                    agent("general", "d", "parents"),
                    agent("cheap", "d", "agents"),
                    agent("same", "d", "inherited"),
                    agent("lost", "d", "unknown to the file"),
                    named("general", "aliased", "small"),
                    named("general", "named", "mock/m2"),
                    named("cheap", "inherit in a call", "inherit"),
                    named("general", "never", "mock/m98"),
                ];
                errand(seen, calls)
            }
            words => Answer::text(words),
        });
    let done = world.run(&["--format", "json", "go"]).expect_code(0);
    let table = [
        ("parents", "m1"),
        ("agents", "m2"),
        ("inherited", "m1"),
        ("unknown to the file", "m1"),
        ("aliased", "m2"),
        ("named", "m2"),
        ("inherit in a call", "m1"),
    ];
    for (words, model) in table {
        assert_eq!(requests_of(&world, words)[0].json["model"], model, "{words}");
    }
    assert!(requests_of(&world, "never").is_empty());
    let shown = done.json();
    let last = shown["result"].as_str().unwrap().split("\n====\n").last().unwrap().to_owned();
    assert!(last.contains("mock/m98") && last.contains("mock/m1") && last.contains("mock/m2"), "{last}");
    assert!(done.err.contains("mock/m99"), "the wrong model of a definition is said: {}", done.err);
}

#[test]
fn a_definition_files_model_counts_where_the_folder_is_trusted() {
    let world = World::with().file(".posse/agents/worker.md", WORKER).script(|seen: &Seen| match prompt(seen) {
        "go" => errand(seen, [agent("worker", "d", "work")]),
        _ => Answer::text("did it"),
    });
    world.run(&["--trust", "go"]).expect_code(0);
    assert_eq!(world.model.requests()[1].json["model"], "m2");
    assert!(world.model.requests()[1].system.starts_with("You work."));
}

#[test]
fn no_project_sees_the_tasks_of_another() {
    let world = World::new(|seen: &Seen| match prompt(seen) {
        "go" => errand(seen, [agent("general", "d", "work")]),
        _ => Answer::text("did it"),
    });
    let shown = run_json(&world, &["go"], 0);
    let child = shown["tree"][1]["session"].as_str().unwrap();
    let other = world.folder().join("other");
    std::fs::create_dir_all(&other).unwrap();
    let elsewhere = |args: &[&str]| world.command(args).cwd(&other).run();
    assert_eq!(elsewhere(&["tasks", "--format", "json"]).expect_code(0).json(), json!([]));
    assert_eq!(elsewhere(&["sessions", "tree", "--format", "json"]).expect_code(0).json(), json!([]));
    for args in [["sessions", "show", child], ["sessions", "tree", child], ["sessions", "resume", child], ["sessions", "stop", child]] {
        assert!(elsewhere(&args).expect_code(2).err.contains(child), "{args:?}");
    }
    let new = elsewhere(&["run", "--format", "json", "go"]).expect_code(0).json();
    assert_eq!(new["tree"].as_array().unwrap().len(), 2);
    assert_eq!(world.posse(&["tasks", "--format", "json"]).expect_code(0).json().as_array().unwrap().len(), 1);
}

#[test]
fn a_second_terminal_speaks_to_a_tree_whose_agents_are_at_work() {
    let world = World::new(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([agent("general", "d", "work")]),
        ("go", _) => Answer::text(&format!("heard {:?}", &seen.user_texts()[1..])),
        (_, 0) => Answer::call("bash", json!({"command": "touch begun; until [ -e go ]; do sleep 0.05; done; echo ran >> count"})),
        (_, _) => Answer::text("did it"),
    });
    let first = world.start(&["run", "--format", "json", "go"]);
    let end = std::time::Instant::now() + Duration::from_secs(30);
    while !world.project.join("begun").exists() {
        assert!(std::time::Instant::now() < end, "{}", first.err_so_far());
        std::thread::sleep(Duration::from_millis(5));
    }
    let second = world.start(&["run", "-c", "--format", "json", "and this"]);
    // The letter is in the log of the root before its agent is done.
    let root = world.posse(&["sessions", "list"]).out.split_whitespace().next().unwrap().to_owned();
    let told = || world.posse(&["sessions", "show", &root]).expect_code(0).out.contains("and this");
    while !told() {
        assert!(std::time::Instant::now() < end, "{}", second.err_so_far());
    }
    world.write("go", "");
    let (one, two) =
        (first.wait(Duration::from_secs(60)).expect_code(0).json(), second.wait(Duration::from_secs(60)).expect_code(0).json());
    assert_eq!(one["result"], json!(r#"heard ["and this"]"#), "{one}");
    assert_eq!((&two["result"], &two["session"]), (&one["result"], &one["session"]), "{two}");
    assert_eq!((world.read("count").as_str(), one["tree"].as_array().unwrap().len()), ("ran\n", 2));
}

#[test]
fn a_long_answer_comes_back_whole_and_a_description_stays_one_line() {
    let long: String = (0..9_000).map(|line| format!("line {line} äöü\n")).collect();
    let said = long.clone();
    let world = World::new(move |seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([agent("general", "many\nlines \u{1b}[31m of words", "work")]),
        ("go", _) => Answer::text("over"),
        (_, _) => Answer::text(&said),
    });
    let shown = run_json(&world, &["go"], 0);
    let id = shown["tree"][1]["session"].as_str().unwrap();
    assert_eq!(world.model.last().last_results(), [format!("{long}\n\ntask_id: {id}")]);
    let title = shown["tree"][1]["title"].as_str().unwrap();
    assert!(title.starts_with("many lines") && title.ends_with("(@general subagent)") && !title.contains(char::is_control), "{title:?}");
}

#[test]
fn a_hundred_agents_wait_for_their_turn_at_the_provider() {
    let world = World::with().config("concurrency", json!({"default": 7})).script(|seen: &Seen| match prompt(seen) {
        "go" => errand(seen, (0..100).map(|at| agent("explore", &format!("part {at}"), &format!("look at {at}")))),
        words => Answer::text(words).after(Duration::from_millis(5)),
    });
    let shown = run_json(&world, &["go"], 0);
    assert_eq!((shown["tree"].as_array().unwrap().len(), world.model.requests().len()), (101, 102));
    let results: Vec<&str> = shown["result"].as_str().unwrap().split("\n====\n").collect();
    assert!(results.iter().enumerate().all(|(at, result)| result.starts_with(&format!("look at {at}\n"))), "{results:?}");
    assert!(world.model.max_in_flight() <= 7, "{}", world.model.max_in_flight());
}

#[test]
fn a_team_works_over_the_other_protocol_too() {
    let world = World::with().api(crate::support::Api::OpenAi).script(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", _) => errand(seen, [agent("general", "a", "work a"), agent("explore", "b", "work b")]),
        (_, 0) => Answer::text("I look.").and_call("bash", json!({"command": "ls"})),
        (words, _) => Answer::text(words),
    });
    let shown = run_json(&world, &["go"], 0);
    let (one, two) = (shown["tree"][1]["session"].as_str().unwrap(), shown["tree"][2]["session"].as_str().unwrap());
    assert_eq!(shown["result"], json!(format!("work a\n\ntask_id: {one}\n====\nwork b\n\ntask_id: {two}")));
}

#[test]
fn one_task_is_not_given_two_things_at_once() {
    let world = World::new(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([agent("general", "d", "first")]),
        ("go", 1) => {
            let id = id_in(seen.last_results()[0]);
            let more = |words: &str| call("agent", json!({"description": "d", "prompt": words, "subagent_type": "general", "task_id": id}));
            Answer::calls([more("second"), more("third")])
        }
        ("go", _) => Answer::text(&seen.last_results().join("\n====\n")),
        (_, _) => Answer::text(&format!("heard {:?}", seen.user_texts())),
    });
    let shown = run_json(&world, &["go"], 0);
    let results: Vec<&str> = shown["result"].as_str().unwrap().split("\n====\n").collect();
    assert!(results[0].starts_with(r#"heard ["first", "second"]"#), "{results:?}");
    assert!(results[1].contains("is still running"), "{results:?}");
}

#[test]
fn a_limit_of_the_tree_is_said_in_the_childs_result() {
    let table = [
        (["on it", "still on it"], "still on it\n\nlimit: ", "completed"),
        (["on it", ""], "on it\n\nlimit: ", "completed"),
        (["", ""], "The task failed before it was done: ", "failed"),
    ];
    for (texts, words, status) in table {
        let world = World::new(move |seen: &Seen| match (prompt(seen), seen.steps()) {
            ("go", 0) => Answer::calls([agent("general", "d", "work")]),
            ("go", _) => Answer::text(seen.last_results()[0]),
            (_, step) => {
                let more = call("bash", json!({"command": format!("echo {step}")}));
                if texts[step].is_empty() { Answer::calls([more]) } else { Answer::text(texts[step]).and(more) }
            }
        });
        let shown = run_json(&world, &["--max-steps", "3", "go"], 3);
        let result = shown["result"].as_str().unwrap();
        assert!(result.starts_with(words) && result.contains("3 steps") && result.contains("task_id: ses_"), "{result}");
        let told = world.posse(&["sessions", "show", shown["session"].as_str().unwrap(), "--format", "json"]).expect_code(0).json();
        let end = told["events"].as_array().unwrap().iter().find(|event| event["type"] == "task_notification").unwrap().clone();
        assert_eq!(end["status"], status, "{end}");
    }
}

#[test]
fn words_for_an_agents_session_go_to_its_root_and_it_is_said_so() {
    let world = World::new(|seen: &Seen| match prompt(seen) {
        "go" if seen.user_texts().len() == 1 => errand(seen, [agent("general", "d", "work")]),
        _ => Answer::text(&format!("heard {:?}", seen.user_texts())),
    });
    let shown = run_json(&world, &["go"], 0);
    let (root, child) = (shown["session"].as_str().unwrap(), shown["tree"][1]["session"].as_str().unwrap());
    let done = world.run(&["-s", child, "a word"]).expect_code(0);
    assert_eq!(done.out, "heard [\"go\", \"a word\"]\n");
    assert!(done.err.contains(&format!("{child} is an agent's session; your words go to {root}")), "{}", done.err);
    let said = world.run(&["-s", &root[..root.len() - 2], "a word"]).expect_code(0);
    assert!(!said.err.contains("your words go to"), "{}", said.err);
}

#[test]
fn a_tree_is_removed_as_a_whole() {
    let world = World::new(|seen: &Seen| match prompt(seen) {
        "go" => errand(seen, [agent("general", "d", "work")]),
        _ => Answer::text("did it"),
    });
    let shown = run_json(&world, &["go"], 0);
    let (root, child) = (shown["session"].as_str().unwrap(), shown["tree"][1]["session"].as_str().unwrap());
    world.posse(&["sessions", "rm", root]).expect_code(0);
    assert_eq!(world.posse(&["tasks", "--format", "json"]).expect_code(0).json(), json!([]));
    world.posse(&["sessions", "show", child]).expect_code(2);
}
