//! What happens to a team when somebody ends it: Ctrl-C, a stop, a limit of time, kill -9, and what goes on afterwards.
//!
//! The root is `go`; its agents are known by their prompts. What holds after a crash at every single append is in `kill.rs`.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Answer, Block, Done, Running, Seen, World, answer::Piece, call};

/// The promise is two seconds, see `signals.rs`; here a busy machine has more, and whoever waits for an agent needs far longer.
const GONE_WITHIN: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_secs(30);

fn agent(who: &str, prompt: &str) -> Piece {
    call("agent", json!({"description": prompt, "prompt": prompt, "subagent_type": who}))
}

fn bash(command: &str) -> Answer {
    Answer::text("I begin.").and_call("bash", json!({ "command": command }))
}

/// Waits until a file of the project is there.
#[track_caller]
fn wait_for(world: &World, name: &str, running: &Running) {
    let end = Instant::now() + LONG;
    while !world.project.join(name).exists() {
        assert!(Instant::now() < end, "no {name}: {}", running.err_so_far());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn results(seen: &Seen) -> Vec<String> {
    let text = |block: &&Block| if let Block::Result { text, .. } = block { text.clone() } else { String::new() };
    seen.results().iter().map(text).collect()
}

/// One agent sleeps, one is in the middle of a sentence, one waits for an agent of its own.
fn sleepers() -> World {
    let chief = json!({"mode": "subagent", "prompt": "You pass it on.", "permission": {"task": "allow"}});
    World::with().config("agent", json!({ "chief": chief })).script(|seen: &Seen| match (seen.user_texts()[0], seen.steps()) {
        ("go", 0) => Answer::calls([agent("general", "sleep"), agent("general", "talk"), agent("chief", "pass on")]),
        ("go", _) => Answer::text(&results(seen).join("\n====\n")),
        ("sleep", 0) => bash("echo half; touch sleeps; sleep 600; echo the rest"),
        ("talk", 0) => Answer::text("These words were said before the end, and more would have come.").stalled_after(800),
        ("pass on", 0) => Answer::calls([agent("general", "sleep deeper")]),
        ("sleep deeper", 0) => bash("touch deeper; sleep 601"),
        (_, _) => Answer::text("and so on"),
    })
}

fn started(world: &World) -> Running {
    let running = world.start(&["run", "--format", "stream-json", "go"]);
    wait_for(world, "sleeps", &running);
    wait_for(world, "deeper", &running);
    assert!(running.wait_for_out("These words", LONG), "{}", running.out_so_far());
    running
}

fn end(running: Running, signal: Signal) -> Done {
    let begun = Instant::now();
    running.signal(signal);
    let done = running.wait(LONG);
    assert!(begun.elapsed() < GONE_WITHIN, "{:?} {done:#?}", begun.elapsed());
    done.expect_code(130)
}

#[test]
fn an_interrupt_ends_every_foreground_agent_and_the_tree_goes_on_later() {
    for signal in [Signal::INT, Signal::TERM] {
        let world = sleepers();
        let done = end(started(&world), signal);
        let left = world.processes_left_after(Duration::from_secs(5));
        assert!(left.is_empty(), "{left:#?}");
        let result = done.lines().pop().unwrap();
        assert_eq!((&result["type"], &result["status"]), (&json!("result"), &json!("interrupted")), "{result}");
        let root = result["session"].as_str().unwrap();
        let tree = world.posse(&["sessions", "tree", root, "--format", "json"]).expect_code(0).json();
        let statuses: Vec<&str> = tree.as_array().unwrap()[1..].iter().map(|node| node["status"].as_str().unwrap()).collect();
        assert_eq!(statuses, ["stopped"; 4], "{tree:#}");
        assert_eq!(world.posse(&["tasks", "--format", "json"]).expect_code(0).json().as_array().unwrap().len(), 4);

        let asked = world.model.requests().len();
        let resumed = world.posse(&["sessions", "resume", root]).expect_code(0);
        let told: Vec<&str> = resumed.out.trim_end().split("\n====\n").collect();
        assert_eq!(told.len(), 3, "one result each: {told:#?}");
        for (result, words) in told.iter().zip(["I begin.", "These words were said", ""]) {
            assert!(result.contains("was stopped before it was done") && result.contains(words) && result.contains("task_id: ses_"));
        }
        assert_eq!(world.model.requests().len(), asked + 1, "nobody who was stopped is asked again");
        expect_gapless(&world, root);
    }
}

/// Every log of a tree numbers its events without gaps, and every task has one end.
fn expect_gapless(world: &World, root: &str) {
    let tree = world.posse(&["sessions", "tree", root, "--format", "json"]).expect_code(0).json();
    for node in tree.as_array().unwrap() {
        let shown = world.posse(&["sessions", "show", node["session"].as_str().unwrap(), "--format", "json"]).expect_code(0).json();
        let events = shown["events"].as_array().unwrap();
        let seqs: Vec<u64> = events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
        assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
        let of =
            |kind: &str| events.iter().filter(|event| event["type"] == kind).map(|event| event["task"].to_string()).collect::<Vec<_>>();
        let (mut begun, mut ended) = (of("task_started"), of("task_notification"));
        begun.sort();
        ended.sort();
        assert_eq!(begun, ended, "every task has one end");
    }
}

#[test]
fn a_second_terminal_sees_who_is_at_work_and_who_was_left() {
    let world = sleepers();
    let running = started(&world);
    let tasks = world.posse(&["tasks", "--format", "json"]).expect_code(0).json();
    let of = |description: &str| tasks.as_array().unwrap().iter().find(|task| task["description"] == description).unwrap().clone();
    assert_eq!((&of("sleep")["status"], &of("sleep deeper")["status"]), (&json!("running"), &json!("running")), "{tasks:#}");
    assert_eq!(of("pass on")["status"], "waiting", "{tasks:#}");
    let tree = world.posse(&["sessions", "tree"]).expect_code(0).out;
    assert_eq!(tree.lines().filter(|line| line.contains("  ses_")).count(), 5, "{tree}");
    assert!(!tree.contains("no process"), "{tree}");

    running.kill_group();
    assert_eq!(running.wait(LONG).signal, Some(9));
    let tasks = world.posse(&["tasks", "--format", "json"]).expect_code(0).json();
    assert_eq!(tasks.as_array().unwrap().len(), 4);
    let text = world.posse(&["tasks"]).expect_code(0).out;
    assert_eq!(text.matches("waiting (no process)").count(), 4, "{text}");
    let tree = world.posse(&["sessions", "tree"]).expect_code(0).out;
    assert!(tree.lines().next().unwrap().contains("waiting (no process)"), "{tree}");
    assert!(world.processes_left_after(Duration::from_secs(5)).is_empty());
}

/// Agents whose work leaves a mark, the first time slowly.
fn marked() -> World {
    World::new(|seen: &Seen| match (seen.user_texts()[0], seen.steps()) {
        ("go", 0) => Answer::calls(["one", "two", "three"].map(|name| agent("general", name))),
        ("go", _) => Answer::text(&results(seen).join("\n====\n")),
        (name, 0) => bash(&format!("echo {name} >> marks; touch begun-{name}; until [ -e go ]; do sleep 0.05; done; echo did {name}")),
        (name, _) => Answer::text(&format!("{name}: {}", seen.last_results()[0])),
    })
}

#[test]
fn after_a_kill_the_tree_is_finished_and_nothing_was_done_twice() {
    for by_child in [false, true] {
        let world = marked();
        let running = world.start(&["run", "--format", "stream-json", "go"]);
        for name in ["begun-one", "begun-two", "begun-three"] {
            wait_for(&world, name, &running);
        }
        running.kill_group();
        assert_eq!(running.wait(LONG).signal, Some(9));
        world.write("go", "");
        let tree = world.posse(&["sessions", "tree", "--format", "json"]).expect_code(0).json();
        let (root, child) = (tree[0]["session"].as_str().unwrap(), tree[2]["session"].as_str().unwrap());
        // A child's id means its tree.
        let wanted = if by_child { child } else { root };
        let done = world.posse(&["sessions", "resume", wanted, "--format", "json"]).expect_code(0).json();
        assert_eq!((&done["session"], &done["status"]), (&json!(root), &json!("done")), "{done}");
        assert_eq!(done["tree"].as_array().unwrap().len(), 4, "{done}");
        let told: Vec<&str> = done["result"].as_str().unwrap().split("\n====\n").collect();
        for (result, name) in told.iter().zip(["one", "two", "three"]) {
            assert!(result.starts_with(&format!("{name}: ")) && !result.contains(&format!("did {name}")), "{told:#?}");
        }
        let mut marks: Vec<String> = world.read("marks").lines().map(str::to_owned).collect();
        marks.sort();
        assert_eq!((told.len(), marks), (3, vec!["one".to_owned(), "three".into(), "two".into()]));
        expect_gapless(&world, root);
        let again = world.model.requests().len();
        let settled = world.posse(&["sessions", "resume", root]).expect_code(0);
        assert_eq!(settled.out.trim_end(), done["result"].as_str().unwrap());
        assert_eq!(world.model.requests().len(), again, "a settled tree is not asked again");
    }
}

#[test]
fn a_next_prompt_after_a_kill_finishes_the_tree_too() {
    let world = marked();
    let running = world.start(&["run", "go"]);
    wait_for(&world, "begun-three", &running);
    running.kill_group();
    running.wait(LONG);
    world.write("go", "");
    let done = world.run(&["-c", "--format", "json", "and now?"]).expect_code(0).json();
    assert_eq!(done["tree"].as_array().unwrap().len(), 4, "{done}");
    assert_eq!(world.model.last().user_texts(), ["go", "and now?"]);
    assert_eq!(results(&world.model.last()).len(), 3);
    expect_gapless(&world, done["session"].as_str().unwrap());
}

#[test]
fn a_stop_from_another_terminal_ends_the_whole_tree() {
    let world = sleepers();
    let running = started(&world);
    let root = world.posse(&["sessions", "list"]).out.split_whitespace().next().unwrap().to_owned();
    world.posse(&["sessions", "stop", &root]).expect_code(0);
    let done = running.wait(LONG);
    assert!(!done.timed_out, "{done:#?}");
    let tree = world.posse(&["sessions", "tree", &root, "--format", "json"]).expect_code(0).json();
    assert!(tree.as_array().unwrap().iter().all(|node| node["status"] == "stopped"), "{tree:#}");
    assert!(world.processes_left_after(Duration::from_secs(5)).is_empty());
}

#[test]
fn when_the_time_of_the_tree_is_up_its_agents_end_with_it() {
    let world = sleepers();
    let done = world.run(&["--timeout", "3s", "--format", "json", "go"]).expect_code(3).json();
    assert_eq!(done["status"], "limit");
    let running: Vec<&Value> =
        done["tree"].as_array().unwrap().iter().filter(|entry| matches!(entry["status"].as_str(), Some("running" | "waiting"))).collect();
    assert!(running.is_empty(), "{done:#}");
    assert!(world.processes_left_after(Duration::from_secs(5)).is_empty());
}

#[test]
fn an_agent_whose_provider_stumbles_tries_again_and_its_siblings_do_not_wait() {
    let world = World::new(|seen: &Seen| match (seen.user_texts()[0], seen.number) {
        ("go", 0) => Answer::calls([agent("general", "one"), agent("general", "two")]),
        ("go", _) => Answer::text(&results(seen).join("\n====\n")),
        (_, number) if number < 3 => Answer::error(529, "overloaded").header("retry-after-ms", "10"),
        (name, _) => Answer::text(name),
    });
    let done = world.run(&["--format", "json", "go"]).expect_code(0).json();
    let told: Vec<&str> = done["result"].as_str().unwrap().split("\n====\n").collect();
    assert!(told[0].starts_with("one\n\ntask_id: ") && told[1].starts_with("two\n\ntask_id: "), "{told:#?}");
    assert_eq!(done["tree"].as_array().unwrap().len(), 3);
}

#[test]
fn a_stopped_agent_leaves_its_siblings_at_work() {
    let world = World::new(|seen: &Seen| match (seen.user_texts()[0], seen.steps()) {
        ("go", 0) => Answer::calls([agent("general", "endless"), agent("general", "short")]),
        ("go", _) => Answer::text(&results(seen).join("\n====\n")),
        ("endless", 0) => bash("touch endless; sleep 600"),
        ("short", 0) => bash("touch short; until [ -e go ]; do sleep 0.05; done; echo did it"),
        (_, _) => Answer::text(seen.last_results()[0]),
    });
    let running = world.start(&["run", "--format", "json", "go"]);
    wait_for(&world, "endless", &running);
    wait_for(&world, "short", &running);
    let tasks = world.posse(&["tasks", "--format", "json"]).expect_code(0).json();
    let endless = tasks.as_array().unwrap().iter().find(|task| task["description"] == "endless").unwrap();
    world.posse(&["sessions", "stop", endless["session"].as_str().unwrap()]).expect_code(0);
    world.write("go", "");
    let done = running.wait(LONG).expect_code(0).json();
    let told: Vec<&str> = done["result"].as_str().unwrap().split("\n====\n").collect();
    assert!(told[0].starts_with("The task was stopped before it was done"), "{told:#?}");
    assert!(told[1].starts_with("did it"), "{told:#?}");
    let statuses: Vec<&Value> = done["tree"].as_array().unwrap().iter().map(|entry| &entry["status"]).collect();
    assert_eq!(statuses, [&json!("completed"), &json!("stopped"), &json!("completed")]);
    assert!(world.processes_left_after(Duration::from_secs(5)).is_empty());
}

#[test]
fn the_stream_of_an_interrupted_team_has_no_gap_and_ends_with_the_result() {
    let world = sleepers();
    let lines = end(started(&world), Signal::INT).lines();
    let mut seqs = std::collections::BTreeMap::<&str, Vec<u64>>::new();
    for line in &lines {
        if let (Some(session), Some(seq)) = (line["session"].as_str(), line["seq"].as_u64()) {
            seqs.entry(session).or_default().push(seq);
        }
    }
    assert_eq!(seqs.len(), 5);
    for (session, seqs) in &seqs {
        assert_eq!(*seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "{session}");
        let logged = world.posse(&["sessions", "show", session, "--format", "json"]).expect_code(0).json();
        assert_eq!(seqs.len(), logged["events"].as_array().unwrap().len(), "{session} is told to its end");
    }
    let last = lines.last().unwrap();
    assert_eq!((&last["type"], last["tree"].as_array().unwrap().len()), (&json!("result"), 5));
    let notices = lines.iter().filter(|line| line["type"] == "task_notification");
    assert_eq!(notices.map(|line| line["status"].as_str().unwrap()).collect::<Vec<_>>(), ["stopped"; 4]);
}

#[test]
fn agents_that_an_interrupt_ended_go_on_by_their_ids() {
    let world = World::new(|seen: &Seen| match (seen.user_texts()[0], seen.steps()) {
        ("go", 0) => Answer::calls([agent("general", "count")]),
        ("go", 1) => {
            let result = results(seen).pop().unwrap();
            let id = result.split("task_id: ").nth(1).unwrap();
            Answer::calls([call("agent", json!({"description": "d", "prompt": "on", "subagent_type": "general", "task_id": id}))])
        }
        ("go", _) => Answer::text(&results(seen)[1]),
        (_, 0) => bash("echo once >> marks; touch counts; sleep 600"),
        (_, _) => Answer::text(&format!("{:?} {:?}", seen.user_texts(), results(seen).len())),
    });
    let running = world.start(&["run", "--format", "stream-json", "go"]);
    wait_for(&world, "counts", &running);
    let done = end(running, Signal::INT);
    let root = done.lines()[0]["session"].as_str().unwrap().to_owned();
    let resumed = world.posse(&["sessions", "resume", &root, "--format", "json"]).expect_code(0).json();
    let result = resumed["result"].as_str().unwrap();
    assert!(result.contains("\"count\"") && result.contains("\"on\"") && result.contains("] 1\n"), "{result}");
    assert_eq!((world.read("marks").as_str(), resumed["tree"].as_array().unwrap().len()), ("once\n", 2), "{resumed}");
}

/// One agent that asks before it touches anything.
fn asker() -> World {
    let config = World::with().config("permission", json!({"bash": {"*": "allow", "touch *": "ask"}}));
    config.script(|seen: &Seen| match (seen.user_texts()[0], seen.steps()) {
        ("go", 0) => Answer::calls([agent("general", "touch it")]),
        ("go", _) => Answer::text(&results(seen).pop().unwrap()),
        (_, 0) => bash("touch made && echo x >> count"),
        (_, _) => Answer::text(seen.last_results()[0]),
    })
}

fn asks(world: &World) -> Vec<Value> {
    world.posse(&["asks", "list", "--format", "json"]).expect_code(0).json().as_array().unwrap().clone()
}

#[test]
fn an_ask_from_below_survives_a_kill_and_its_answer_is_taken_up() {
    for (answer, made) in [("once", true), ("no", false)] {
        let world = asker();
        let running = world.start(&["run", "--on-ask", "wait", "go"]);
        assert!(running.wait_for_err("posse asks answer ask_", LONG), "{}", running.err_so_far());
        running.kill_group();
        running.wait(LONG);
        let open = asks(&world);
        assert_eq!((open.len(), &open[0]["waiting"], &open[0]["agent"]), (1, &json!(false), &json!("general")), "{open:?}");
        world.posse(&["asks", "answer", open[0]["ask"].as_str().unwrap(), answer]).expect_code(0);
        let root = world.posse(&["sessions", "list"]).out.split_whitespace().next().unwrap().to_owned();
        let done = world.posse(&["sessions", "resume", &root, "--format", "json"]).expect_code(0).json();
        assert_eq!((world.project.join("made").exists(), done["tree"].as_array().unwrap().len()), (made, 2), "{done}");
        assert!(asks(&world).is_empty());
    }
}

#[test]
fn an_ask_from_below_ends_with_an_interrupt() {
    let world = asker();
    let running = world.start(&["run", "--on-ask", "wait", "--format", "stream-json", "go"]);
    assert!(running.wait_for_err("posse asks answer ask_", LONG), "{}", running.err_so_far());
    end(running, Signal::INT);
    assert!(asks(&world).is_empty(), "{:?}", asks(&world));
    assert!(!world.project.join("made").exists());
}

#[test]
fn an_agent_that_is_stopped_while_nobody_runs_it_stays_stopped() {
    let world = marked();
    let running = world.start(&["run", "go"]);
    for name in ["begun-one", "begun-two", "begun-three"] {
        wait_for(&world, name, &running);
    }
    running.kill_group();
    running.wait(LONG);
    let tasks = world.posse(&["tasks", "--format", "json"]).expect_code(0).json();
    let two = tasks.as_array().unwrap().iter().find(|task| task["description"] == "two").unwrap()["session"].as_str().unwrap().to_owned();
    world.posse(&["sessions", "stop", &two]).expect_code(0);
    let done = world.run(&["-c", "--format", "json", "and now?"]).expect_code(0).json();
    let told = results(&world.model.last());
    assert!(told[0].starts_with("one: ") && told[2].starts_with("three: "), "{told:#?}");
    assert!(told[1].starts_with("The task was stopped before it was done"), "{told:#?}");
    assert_eq!(done["tree"][2]["status"], "stopped", "{done}");
}

#[test]
fn an_interrupt_does_not_wait_for_agents_that_wait_to_try_again() {
    let world = World::new(|seen: &Seen| match (seen.user_texts()[0], seen.number) {
        ("go", 0) => Answer::calls([agent("general", "one"), agent("general", "two")]),
        ("go", _) => Answer::text("resumed"),
        (_, number) if number < 3 => Answer::error(529, "overloaded").header("retry-after", "25"),
        (_, _) => Answer::text("never"),
    });
    let running = world.start(&["run", "--format", "stream-json", "go"]);
    assert!(world.model.wait_for_requests(3));
    let done = end(running, Signal::INT);
    let root = done.lines()[0]["session"].as_str().unwrap().to_owned();
    assert_eq!(world.posse(&["sessions", "resume", &root]).expect_code(0).out, "resumed\n");
    assert_eq!(results(&world.model.last()).len(), 2);
}

#[test]
fn ctrl_c_at_the_terminal_ends_the_agents_below() {
    let world = sleepers();
    let mut terminal = world.command(&["run", "go"]).env("TERM", "xterm").at_terminal();
    wait_for(&world, "sleeps", &terminal.running);
    wait_for(&world, "deeper", &terminal.running);
    let begun = Instant::now();
    terminal.types("\u{3}");
    let done = terminal.wait();
    assert!(begun.elapsed() < GONE_WITHIN, "{:?} {done:#?}", begun.elapsed());
    done.expect_code(130);
    assert!(world.processes_left_after(Duration::from_secs(5)).is_empty());
}

#[test]
fn an_agent_that_is_stopped_takes_those_below_it_along() {
    let world = sleepers();
    let running = started(&world);
    let tasks = world.posse(&["tasks", "--format", "json"]).expect_code(0).json();
    let of = |description: &str| {
        let found = tasks.as_array().unwrap().iter().find(|task| task["description"] == description).unwrap();
        found["session"].as_str().unwrap().to_owned()
    };
    world.posse(&["sessions", "stop", &of("pass on")]).expect_code(0);
    let status = |id: &str| world.posse(&["sessions", "tree", id, "--format", "json"]).expect_code(0).json()[0]["status"].clone();
    let until = Instant::now() + LONG;
    while status(&of("pass on")) != "stopped" || status(&of("sleep deeper")) != "stopped" {
        assert!(Instant::now() < until, "{}", world.posse(&["tasks"]).out);
    }
    assert_eq!(status(&of("sleep")), "running");
    running.kill_group();
}

#[test]
fn who_waits_for_a_tree_whose_process_dies_takes_it_over() {
    let world = marked();
    let first = world.start(&["run", "go"]);
    wait_for(&world, "begun-one", &first);
    wait_for(&world, "begun-two", &first);
    wait_for(&world, "begun-three", &first);
    let second = world.start(&["run", "-c", "--format", "json", "and this"]);
    let root = world.posse(&["sessions", "list"]).out.split_whitespace().next().unwrap().to_owned();
    let until = Instant::now() + LONG;
    while !world.posse(&["sessions", "show", &root]).expect_code(0).out.contains("and this") {
        assert!(Instant::now() < until, "{}", second.err_so_far());
    }
    first.kill_group();
    first.wait(LONG);
    world.write("go", "");
    let done = second.wait(LONG).expect_code(0).json();
    assert_eq!((&done["session"], done["tree"].as_array().unwrap().len()), (&json!(root), 4), "{done}");
    let mut marks: Vec<String> = world.read("marks").lines().map(str::to_owned).collect();
    marks.sort();
    assert_eq!(marks, ["one", "three", "two"]);
    assert_eq!(world.model.last().user_texts(), ["go", "and this"]);
    expect_gapless(&world, &root);
}

#[test]
fn a_root_that_waits_for_busy_agents_does_not_stand_still() {
    let world = World::with().config("limits", json!({"idle": "5s"})).script(|seen: &Seen| match (seen.user_texts()[0], seen.steps()) {
        ("go", 0) => Answer::calls([agent("general", "work")]),
        ("go", _) => Answer::text("over"),
        (_, step) if step < 7 => bash(&format!("sleep 0.8; echo {step}")),
        (_, _) => Answer::text("done"),
    });
    assert_eq!(world.run(&["go"]).expect_code(0).out, "over\n");
}

#[test]
fn an_agent_whose_stream_stands_still_comes_back_with_what_it_had_said() {
    let limits = json!({"stream_idle": "1s"});
    let world = World::with().config("limits", limits).script(|seen: &Seen| match (seen.user_texts()[0], seen.steps()) {
        ("go", 0) => Answer::calls([agent("general", "talk")]),
        ("go", _) => Answer::text(seen.last_results()[0]),
        (_, _) => Answer::text("These words were said before the end, and more would have come.").stalled_after(800),
    });
    let done = world.run(&["--format", "json", "go"]).expect_code(0).json();
    let result = done["result"].as_str().unwrap();
    assert!(result.starts_with("The task failed before it was done: "), "{result}");
    assert!(result.contains("limits.stream_idle") && result.contains("These words were said") && result.contains("task_id: "), "{result}");
    assert_eq!(done["tree"][1]["status"], "failed");
}
