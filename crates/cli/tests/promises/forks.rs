//! Forks through the real binary: who may fork when, what a fork is sent, and that it is a task like any other.
//!
//! A fork begins with its caller's words, so a script tells them apart by the directive. What the loop does with forks is in
//! `engine/tests/forks.rs`.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};

use crate::{
    background::{Gate, LONG, all_texts},
    support::{Answer, Api, Seen, World, answer::Piece, call, world::Plan},
};

const MARK: &str = "<fork-boilerplate>";

/// What a fork was told to do; nothing for whoever is none.
fn told(seen: &Seen) -> Option<&str> {
    seen.user_texts().into_iter().find(|text| text.contains(MARK))?.split_once("Your task:\n").map(|(_, prompt)| prompt)
}

fn fork(prompt: &str) -> Piece {
    call("agent", json!({"description": format!("fork {prompt}"), "prompt": prompt, "subagent_type": "fork"}))
}

/// The root makes these calls and then says what they came to; forks say what they were told.
fn splitting(calls: impl Fn() -> Vec<Piece> + Send + Sync + 'static) -> impl Fn(&Seen) -> Answer {
    move |seen: &Seen| match (told(seen), seen.steps()) {
        (Some(prompt), _) => Answer::text(&format!("did {prompt}")),
        (None, 0) => Answer::calls(calls()),
        (None, _) => Answer::text(&seen.last_results().join("\n====\n")),
    }
}

fn run_json(world: &World, args: &[&str], code: i32) -> Value {
    world.run(&[&["--format", "json"], args].concat()).expect_code(code).json()
}

/// The forks of a tree as `--format json` tells them.
fn forks_in(shown: &Value) -> Vec<Value> {
    shown["tree"].as_array().unwrap().iter().filter(|entry| entry["kind"] == "fork").cloned().collect()
}

fn schema<'a>(seen: &'a Seen, tool: &str) -> &'a Value {
    &seen.tool(tool).unwrap()["input_schema"]
}

/// CC-084, CC-189, CC-191, CC-269, CC-282: off where nobody has said so and nobody looks on, off in the claude dialect, on by the file or the flag;
/// the flag counts before the file.
#[test]
fn a_model_may_fork_where_somebody_has_said_so() {
    let rows: [(&str, Option<&str>, &[&str], bool); 8] = [
        ("posse", None, &[], false),
        ("claude", None, &[], false),
        ("posse", Some("explicit"), &[], true),
        ("claude", Some("explicit"), &[], true),
        ("posse", None, &["--fork", "explicit"], true),
        ("posse", Some("off"), &["--fork", "explicit"], true),
        ("posse", Some("explicit"), &["--fork", "off"], false),
        ("opencode", Some("explicit"), &[], true),
    ];
    for (dialect, configured, args, forks) in rows {
        let tool = match dialect {
            "claude" => "Agent",
            "opencode" => "task",
            _ => "agent",
        };
        let mut plan = World::with().config("dialect", json!(dialect));
        if let Some(configured) = configured {
            plan = plan.config("fork", json!(configured));
        }
        let world = plan
            .script(splitting(move || vec![call(tool, json!({"description": "a fork", "prompt": "go left", "subagent_type": "fork"}))]));
        let case = format!("{dialect} {configured:?} {args:?}");
        let shown = run_json(&world, &[args, &["go"]].concat(), 0);
        assert_eq!(forks_in(&shown).len(), usize::from(forks), "{case}: {shown:#}");
        let described = world.model.requests()[0].tool(tool).unwrap()["description"].as_str().unwrap().to_owned();
        assert_eq!(described.contains("\n- fork: "), forks, "{case}: {described}");
        let result = shown["result"].as_str().unwrap();
        let words = if forks {
            "did go left"
        } else {
            "Forks are switched off here, so `fork` cannot be called. Only the user can switch them on: `--fork explicit`"
        };
        assert!(result.contains(words), "{case}: {result}");
    }
}

/// CC-002, CC-040, CC-081, CC-118, CC-263: with `implicit`, whoever is not named is a fork, no call waits, and so the model is not asked
/// whether it should.
#[test]
fn implicit_forks_whoever_is_not_named_and_nothing_is_waited_for() {
    let runs = "The task runs in the background.";
    for (dialect, tool, launched) in [("claude", "Agent", "status: async_launched"), ("posse", "agent", runs), ("opencode", "task", runs)] {
        let world = World::with().config("dialect", json!(dialect)).config("fork", json!("implicit")).script(move |seen: &Seen| {
            match (told(seen), seen.steps()) {
                (Some(prompt), _) => Answer::text(&format!("did {prompt}")),
                (None, 0) if seen.user_texts()[0] == "look around" => Answer::text("looked around"),
                (None, 0) => Answer::calls([
                    call(tool, json!({"description": "no name", "prompt": "go left"})),
                    call(tool, json!({"description": "a name", "prompt": "look around", "subagent_type": "explore"})),
                ]),
                (None, 1) => Answer::text(&format!("told: {}", seen.last_results().join("\n====\n"))),
                (None, _) => Answer::text("heard"),
            }
        });
        let shown = run_json(&world, &["go"], 0);
        assert_eq!((forks_in(&shown).len(), shown["tree"].as_array().unwrap().len()), (1, 3), "{dialect}: {shown:#}");
        let requests = world.model.requests();
        let properties = &schema(&requests[0], tool)["properties"];
        assert!(properties.get("run_in_background").is_none() && properties.get("description").is_some(), "{dialect}: {properties}");
        assert!(!schema(&requests[0], tool)["required"].as_array().unwrap().contains(&json!("subagent_type")), "{dialect}");
        let described = requests[0].tool(tool).unwrap()["description"].as_str().unwrap().to_owned();
        assert!(described.contains("No call waits") && described.contains("without it, a fork does the work"), "{dialect}: {described}");
        assert!(!described.contains("there is no default"), "{dialect}: {described}");
        let first = requests.iter().find(|seen| told(seen).is_none() && seen.steps() == 1).unwrap();
        assert_eq!(first.last_results().iter().filter(|text| text.contains(launched)).count(), 2, "{dialect}: {:?}", first.last_results());
        let last =
            requests.iter().filter(|seen| told(seen).is_none() && seen.user_texts()[0] == "go").max_by_key(|seen| seen.steps()).unwrap();
        let heard = all_texts(last);
        assert!(heard.contains("did go left") && heard.contains("looked around"), "{dialect}: both ends are notices: {heard}");
    }
}

/// How many bytes two bodies begin with alike.
fn alike(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// CC-193, CC-194, CC-195, CC-196, CC-197, CC-199: on the wire of every protocol, siblings and their caller share at least 99 % of what
/// comes before the directive; in fact all of it.
#[test]
fn raw_bodies_of_a_caller_and_its_forks_begin_alike_in_every_protocol() {
    for api in [Api::Anthropic, Api::OpenAi, Api::Responses, Api::Gemini] {
        let world = World::with().api(api).file("note.txt", "plum\n").script(|seen: &Seen| match (told(seen), seen.steps()) {
            (Some(_), 2) => Answer::call("read", json!({"filePath": "note.txt"})),
            (Some(prompt), _) => Answer::text(&format!("did {prompt}")),
            (None, 0) => {
                let thought = Piece::Thinking { text: "private thoughts".into(), signature: "sealed-1".into() };
                Answer::calls([thought, Piece::Text("words ".repeat(2_000)), call("read", json!({"filePath": "note.txt"}))])
            }
            (None, 1) => {
                Answer::text("I split").and(fork("go left")).and_call("read", json!({"filePath": "note.txt"})).and(fork("go right"))
            }
            (None, _) => Answer::text("done"),
        });
        world.run(&["--fork", "explicit", "go"]).expect_code(0);
        let requests = world.model.requests();
        let first = |prompt: &str| requests.iter().find(|seen| told(seen) == Some(prompt) && seen.steps() == 2).unwrap().clone();
        let parent: &Arc<Seen> = requests.iter().find(|seen| told(seen).is_none() && seen.steps() == 1).unwrap();
        let (left, right) = (first("go left"), first("go right"));
        let prompt_at = |seen: &Seen| {
            let text = String::from_utf8(seen.body.clone()).unwrap();
            text.rfind("Your task:\\ngo ").unwrap() + "Your task:\\ngo ".len()
        };
        assert_eq!(prompt_at(&left), prompt_at(&right), "{api:?}");
        assert_eq!(
            alike(&left.body, &right.body),
            prompt_at(&left),
            "{api:?}: siblings differ in what they are told and in nothing before"
        );
        // The caller's body ends with what varies from request to request, a few bytes.
        let shared = alike(&parent.body, &left.body);
        assert!(12_000 < parent.body.len() && parent.body.len() * 99 / 100 <= shared, "{api:?}: {shared} of {}", parent.body.len());
        assert_eq!((&left.system, &left.tools), (&parent.system, &parent.tools), "{api:?}");
        let text = |seen: &Seen| seen.last_results().iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let results = text(&left);
        assert!(results.len() == 3 && results.iter().all(|result| *result == results[0]), "{api:?}: {results:?}");
        // A fork's own later requests go on from there.
        let later = requests.iter().find(|seen| told(seen) == Some("go left") && seen.steps() == 3).unwrap();
        assert!(prompt_at(&left) < alike(&left.body, &later.body), "{api:?}");
    }
}

/// A fork is a task: in the tree, with its kind and its costs, and it goes on by its id.
#[test]
fn a_fork_is_a_task_in_the_tree_and_goes_on_by_its_id() {
    let world = World::with().config("fork", json!("explicit")).script(|seen: &Seen| match (told(seen), seen.steps()) {
        (Some(_), 1) => Answer::text("did it").usage(1_000, 50, 0, 0),
        (Some(_), _) => Answer::text(&format!("went on with: {}", seen.user_texts().last().unwrap())),
        (None, 0) => Answer::calls([fork("go left")]),
        (None, 1) => {
            let id = seen.last_results()[0].rsplit("task_id: ").next().unwrap().trim().to_owned();
            Answer::call("agent", json!({"description": "more", "prompt": "and more", "subagent_type": "fork", "task_id": id}))
        }
        (None, _) => Answer::text(seen.last_results()[0]),
    });
    let shown = run_json(&world, &["go"], 0);
    let forks = forks_in(&shown);
    assert_eq!(forks.len(), 1, "{shown:#}");
    assert_eq!((&forks[0]["agent"], &forks[0]["title"]), (&json!("fork"), &json!("fork go left (@fork subagent)")));
    assert_eq!((&forks[0]["steps"], &forks[0]["usage"]["input"]), (&json!(2), &json!(1_100)));
    assert!(shown["result"].as_str().unwrap().starts_with("went on with: and more"), "{shown:#}");
    let listed = world.posse(&["tasks", "--format", "json"]).expect_code(0).json();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed:#}");
}

/// CC-092, CC-200: a fork is refused a fork in words, and may give work to a named agent.
#[test]
fn a_fork_does_not_fork() {
    let world = World::with().config("fork", json!("explicit")).script(|seen: &Seen| match (told(seen), seen.steps()) {
        (None, _) if seen.user_texts()[0] == "help" => Answer::text("helped"),
        (None, 0) => Answer::calls([fork("go left")]),
        (None, _) => Answer::text(seen.last_results()[0]),
        (Some(_), 1) => Answer::calls([fork("deeper"), crate::delegation::agent("explore", "helper", "help")]),
        (Some(_), _) => Answer::text(&seen.last_results().join("\n====\n")),
    });
    let shown = run_json(&world, &["go"], 0);
    let result = shown["result"].as_str().unwrap();
    assert!(result.contains("a fork does not fork again") && result.contains("helped"), "{result}");
    assert_eq!((forks_in(&shown).len(), shown["tree"].as_array().unwrap().len()), (1, 3));
}

/// CC-099, CC-103, CC-198: what a fork may not do by itself is asked in its name; where nobody can answer, that is said of it.
#[test]
fn the_asks_of_a_fork_are_in_its_name() {
    let plan: Plan =
        World::with().config("fork", json!("explicit")).config("permission", json!({"bash": {"*": "allow", "touch *": "ask"}}));
    let world = plan.script(|seen: &Seen| match (told(seen), seen.steps()) {
        (Some(_), 1) => Answer::call("bash", json!({"command": "touch made"})),
        (Some(_), _) => Answer::text("tried"),
        (None, 0) => Answer::calls([fork("go left")]),
        (None, _) => Answer::text("done"),
    });
    let shown = run_json(&world, &["go"], 4);
    let denied: Vec<&str> = shown["denied"].as_array().unwrap().iter().map(|one| one["agent"].as_str().unwrap()).collect();
    assert_eq!((denied, world.project.join("made").exists()), (vec!["fork"], false), "{shown:#}");
}

/// CC-195, CC-199: a fork is offered exactly what its caller is, also where it may not use it: then the call says why.
#[test]
fn a_fork_at_the_deepest_level_is_still_offered_its_callers_tools() {
    let world = World::with().config("fork", json!("explicit")).config("limits", json!({"depth": 1})).script(|seen: &Seen| {
        match (told(seen), seen.steps()) {
            (Some(_), 1) => Answer::calls([crate::delegation::agent("explore", "helper", "help")]),
            (Some(_), _) => Answer::text(seen.last_results()[0]),
            (None, 0) => Answer::calls([fork("go left")]),
            (None, _) => Answer::text(seen.last_results()[0]),
        }
    });
    let shown = run_json(&world, &["go"], 0);
    assert!(result_of(&shown).contains("limits.depth"), "{shown:#}");
    let requests = world.model.requests();
    let fork = requests.iter().find(|seen| told(seen).is_some()).unwrap();
    assert_eq!((&fork.json["tools"], &fork.json["system"]), (&requests[0].json["tools"], &requests[0].json["system"]));
}

fn result_of(shown: &Value) -> &str {
    shown["result"].as_str().unwrap()
}

/// An agent of the user's that is called so is that agent, and nobody is forked.
#[test]
fn an_agent_of_the_users_that_is_called_fork_takes_its_place() {
    let own = json!({"fork": {"mode": "subagent", "description": "Eats", "prompt": "You eat."}});
    let world = World::with().config("fork", json!("explicit")).config("agent", own).script(|seen: &Seen| match seen.user_texts()[0] {
        "go" if seen.steps() == 0 => Answer::calls([fork("eat")]),
        "go" => Answer::text("done"),
        words => Answer::text(words),
    });
    let shown = run_json(&world, &["go"], 0);
    assert_eq!((forks_in(&shown).len(), &shown["tree"][1]["kind"], &shown["tree"][1]["agent"]), (0, &json!("task"), &json!("fork")));
    assert!(world.model.requests().iter().any(|seen| seen.system.starts_with("You eat.")));
}

/// The process dies while forks are under way; whoever goes on finishes each of them once.
#[test]
fn forks_survive_kill_9() {
    let gate = Gate::default();
    let held = gate.clone();
    let world = World::with().config("fork", json!("explicit")).script(move |seen: &Seen| match (told(seen), seen.steps()) {
        (Some(prompt), 1) => Answer::call("bash", json!({"command": format!("echo x >> {}", prompt.replace(' ', "-"))})),
        (Some(prompt), _) => {
            held.pass();
            Answer::text(&format!("did {prompt}"))
        }
        (None, 0) => Answer::calls([fork("go left"), fork("go right")]),
        (None, _) => Answer::text(&seen.last_results().join("\n====\n")),
    });
    let running = world.start(&["run", "go"]);
    assert!(
        world.model.wait_until(LONG, |books| books.requests.iter().filter(|seen| told(seen).is_some() && seen.steps() == 2).count() == 2)
    );
    running.kill();
    let done = running.wait(LONG);
    assert_eq!(done.signal, Some(9));
    assert!(world.processes_left_after(Duration::from_secs(5)).is_empty());
    gate.open();
    let sessions = world.posse(&["sessions", "list", "--format", "json"]).expect_code(0).json();
    let root = sessions[0]["session"].as_str().unwrap();
    let shown = world.posse(&["sessions", "resume", root, "--format", "json", "--fork", "explicit"]).expect_code(0).json();
    let result = shown["result"].as_str().unwrap();
    assert!(result.contains("did go left") && result.contains("did go right"), "{shown:#}");
    assert_eq!((world.read("go-left"), world.read("go-right")), ("x\n".into(), "x\n".into()), "nothing was done twice");
    // The same bytes in both lives.
    let sent: Vec<Arc<Seen>> =
        world.model.requests().into_iter().filter(|seen| told(seen) == Some("go left") && seen.steps() == 2).collect();
    assert_eq!((sent.len(), &sent[0].body), (2, &sent[1].body));
}
