//! Why a task is as it is: where its end went, who is unknown, which tools and rights it lacks, and answers that come late.

use serde_json::{Value, json};

use crate::{
    background::{Gate, LONG, all_texts, id, launch, one, prompt, soon, task_in},
    support::{Answer, Seen, World},
};

fn why(world: &World, of: &str) -> String {
    world.posse(&["why", of]).expect_code(0).out
}

fn why_json(world: &World, of: &str) -> Value {
    world.posse(&["why", of, "--format", "json"]).expect_code(0).json()
}

/// CC-265, CC-272, CC-257: while it runs, that it has not ended; then that a notice was queued and at which step it was taken.
#[test]
fn a_task_tells_how_it_was_started_and_where_its_end_went() {
    let gate = Gate::default();
    let world = one(&gate);
    let run = world.start(&["run", "go"]);
    let task = task_in(&world, "dig deep", "running");
    let told = why(&world, "digger");
    for part in [id(&task), "named \"digger\"", "(agent), in the background", "not ended: its own log has no end", "a process runs it"] {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
    gate.open();
    run.wait(LONG).expect_code(0);
    let told = why(&world, "digger");
    for part in ["completed: recorded in its own log", "told by a notice, msg_", "the notice was taken at step 2"] {
        assert!(told.contains(part), "no {part:?} in {told}");
    }
    let account = why_json(&world, id(&task));
    let round = &account["task"]["rounds"][0];
    assert_eq!((&round["by"]["from"], &round["by"]["tool"], &round["foreground"]), (&json!("call"), &json!("agent"), &json!(false)));
    assert_eq!(
        (&round["ended"]["how"], &round["told"]["to"], &round["told"]["taken"]["step"]),
        (&json!("completed"), &json!("notice"), &json!(2))
    );
    // A second round, by the user.
    world.posse(&["tasks", "send", "digger", "dig on"]).expect_code(0);
    let rounds = why_json(&world, "digger")["task"]["rounds"].clone();
    assert_eq!((rounds.as_array().unwrap().len(), &rounds[1]["by"]), (2, &json!({"from": "message", "by": "you"})), "{rounds:#}");
}

/// CC-265: an end that nobody has heard of says why: no process, or the session is held.
#[test]
fn an_end_that_still_waits_says_for_what() {
    let gate = Gate::default();
    let world = one(&gate);
    let run = world.start(&["run", "go"]);
    task_in(&world, "dig deep", "running");
    soon("the root waits", || world.posse(&["sessions", "tree"]).out.contains("1 task in the background").then_some(()));
    run.kill_group();
    let _ = run.wait(LONG);
    gate.open();
    let told = why(&world, "digger");
    assert!(told.contains("waits    for a process; posse sessions resume") && told.contains("no process runs it"), "{told}");
    assert!(told.contains("not ended"), "{told}");
    // Its end is recorded by a stop, and its caller hears of it when somebody runs it.
    world.posse(&["tasks", "stop", "digger"]).expect_code(0);
    let told = why(&world, "digger");
    assert!(told.contains("told to stop by you") && told.contains("held     you stopped it"), "{told}");
}

/// CC-265, CC-247: what a call waited for went to that call; detached and stopped are told with their time.
#[test]
fn a_foreground_task_tells_its_call_and_that_it_was_detached() {
    let gate = Gate::default();
    let held = gate.clone();
    let world = World::new(move |seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([
            launch("quick", "be quick", json!({"name": "quick", "run_in_background": false})),
            launch("slow", "be slow", json!({"name": "slow", "run_in_background": false})),
        ]),
        ("go", _) => Answer::text("ok"),
        ("be slow", _) => {
            held.pass();
            Answer::text("slowly")
        }
        (_, _) => Answer::text("quickly"),
    });
    let run = world.start(&["run", "go"]);
    task_in(&world, "slow", "running");
    soon("the other has ended", || why(&world, "quick").contains("told as the result of call_").then_some(()));
    let told = why(&world, "quick");
    assert!(
        told.contains("(agent), which waits for it") && told.contains("told as the result of call_") && !told.contains("notice"),
        "{told}"
    );
    world.posse(&["tasks", "detach", "slow"]).expect_code(0);
    gate.open();
    run.wait(LONG).expect_code(0);
    let told = why(&world, "slow");
    assert!(told.contains("detached: it went on in the background") && told.contains("told by a notice"), "{told}");
}

/// CC-266: who is unknown: which names there are, and that an id always works. CC-269: forks are not built.
#[test]
fn an_unknown_name_and_a_fork_are_explained() {
    let gate = Gate::default();
    gate.open();
    let world = one(&gate);
    world.run(&["go"]).expect_code(0);
    let unknown = world.posse(&["why", "diger"]).expect_code(2).err;
    assert!(unknown.contains("names that exist: digger = ses_") && unknown.contains("an id always works"), "{unknown}");
    let fork = why(&world, "fork");
    // CC-269: is it on, does somebody look on, what else keeps it off.
    assert!(fork.contains("forks at a terminal are explicit") && fork.contains("without one they are off (nobody looks on"), "{fork}");
    for (background, words) in [(true, "forks, and no call waits"), (false, "calls wait for their results, because `background` is false")]
    {
        let world =
            World::with().config("fork", json!("implicit")).config("background", json!(background)).script(|_: &Seen| Answer::text("-"));
        let fork = why(&world, "fork");
        assert!(fork.contains("are implicit: a call that names no agent forks") && fork.contains(words), "{fork}");
    }
    let mcp = why(&world, "mcp__server__tool");
    assert!(mcp.contains("MCP servers are not built"), "{mcp}");
}

/// CC-267: by its definition, by a rule, or because it is a task.
#[test]
fn a_tool_that_an_agent_lacks_is_explained() {
    let world = World::with()
        .file(".posse/agents/reader.md", "---\ndescription: reads\ntools: read, grep\n---\nYou read.\n")
        .config("permission", json!({"webfetch": "deny"}))
        .script(|seen: &Seen| match (prompt(seen), seen.steps()) {
            ("go", 0) => Answer::calls([launch("look", "look", json!({"subagent_type": "reader", "name": "looker"}))]),
            (_, _) => Answer::text("ok"),
        });
    let lacks = |tool: &str, agent: &str| world.posse(&["why", tool, "--agent", agent]).expect_code(0).out;
    assert!(
        lacks("edit", "reader").contains("the definition of reader (") && lacks("edit", "reader").contains("leaves it out"),
        "{}",
        lacks("edit", "reader")
    );
    assert!(lacks("read", "reader").contains("offered to reader"), "{}", lacks("read", "reader"));
    assert!(lacks("webfetch", "general").contains("removed by webfetch(*) from"), "{}", lacks("webfetch", "general"));
    assert!(
        lacks("agent", "general").contains("a task has it only if its definition has a rule for `task`"),
        "{}",
        lacks("agent", "general")
    );
    world.posse(&["why", "edit", "--agent", "nobody"]).expect_code(2);
    world.run(&["go"]).expect_code(0);
    let told = why(&world, "looker");
    assert!(told.contains("without  edit: the definition of reader (") && told.contains("without  webfetch: removed by"), "{told}");
    assert!(!told.contains("without  read:"), "{told}");
}

/// CC-268: the mode and where it comes from, and whose rules hold.
#[test]
fn the_rights_of_a_task_are_explained() {
    let world = World::with().file(".posse/agents/careful.md", "---\ndescription: plans\npermissionMode: plan\n---\nYou plan.\n").script(
        |seen: &Seen| match (prompt(seen), seen.steps()) {
            ("go", 0) => Answer::calls([
                launch("plan it", "plan", json!({"subagent_type": "careful", "name": "planner"})),
                launch("do it", "do", json!({"name": "doer"})),
            ]),
            (_, _) => Answer::text("ok"),
        },
    );
    world.run(&["--trust", "go"]).expect_code(0);
    let planner = why(&world, "planner");
    assert!(planner.contains("mode     plan by the definition of careful (") && planner.contains("careful.md"), "{planner}");
    let doer = why(&world, "doer");
    assert!(
        doer.contains("mode     default by the configuration of today") && doer.contains("1 list of rules of the session above it"),
        "{doer}"
    );
}

/// The fallback that answers in place of an overloaded model is told of while it happens, listed and explained.
#[test]
fn another_model_that_answers_shows() {
    let gate = Gate::default();
    let held = gate.clone();
    let world = World::with().config("fallback", json!(["mock/m2"])).script(move |seen: &Seen| match (prompt(seen), &seen.json["model"]) {
        ("go", _) if seen.steps() == 0 => Answer::calls([launch("dig deep", "dig", json!({"name": "digger"}))]),
        ("go", _) => Answer::text("ok"),
        (_, model) if model == "m1" => Answer::error(529, "overloaded").header("retry-after", "0"),
        (_, _) => {
            held.pass();
            Answer::text("I dug.")
        }
    });
    let run = world.start(&["run", "go"]);
    let task = soon("another model answers", || crate::background::tasks(&world).into_iter().find(|task| task["stand_in"] == "mock/m2"));
    assert!(world.posse(&["tasks"]).expect_code(0).out.contains("mock/m2 answers in place of mock/m1"));
    assert!(why(&world, id(&task)).contains("mock/m2 answers in place of mock/m1"));
    gate.open();
    let done = run.wait(LONG).expect_code(0);
    assert!(done.err.contains("! general: ") && done.err.contains("; going on with mock/m2"), "{}", done.err);
}

fn asking(script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> World {
    World::with().config("permission", json!({"bash": {"*": "allow", "touch *": "ask"}})).script(script)
}

/// CC-140: an answer that comes when nobody waits for it any more is told to the agent.
#[test]
fn an_answer_that_comes_late_is_delivered() {
    let world = asking(|seen: &Seen| match seen.steps() {
        0 => Answer::call("bash", json!({"command": "touch made"})),
        1 => Answer::text("Nobody let me."),
        2 => Answer::text(&format!("Late: {}", all_texts(seen))),
        _ => Answer::text("done"),
    });
    let session = world.run(&["--format", "json", "go"]).expect_code(4).json()["session"].as_str().unwrap().to_owned();
    let events = world.posse(&["sessions", "show", &session, "--format", "json"]).expect_code(0).json()["events"].clone();
    let ask = events.as_array().unwrap().iter().find(|event| event["type"] == "asked").unwrap()["ask"].as_str().unwrap().to_owned();
    let told = world.posse(&["asks", "answer", &ask, "session"]).expect_code(0).out;
    assert!(told.contains("came late: its call is over (denied)") && told.contains("allowed for the session: bash(touch *)"), "{told}");
    assert!(told.contains(&format!("the agent is told when `posse sessions resume {session}`")), "{told}");
    let again = world.posse(&["asks", "answer", &ask, "once"]).expect_code(2);
    assert!(again.err.contains("answered already: session by a person"), "{}", again.err);
    let resumed = world.posse(&["sessions", "resume", &session]).expect_code(0).out;
    assert!(
        resumed.contains("Late: ") && resumed.contains("bash(touch made)") && resumed.contains("The user has now allowed"),
        "{resumed}"
    );
}

/// CC-140: the same while a process runs the session: it hears of it at its next step.
#[test]
fn a_late_answer_reaches_a_session_that_runs() {
    let gate = Gate::default();
    let held = gate.clone();
    let world = asking(move |seen: &Seen| match seen.steps() {
        0 => Answer::call("bash", json!({"command": "touch made"})),
        1 => {
            held.pass();
            Answer::text("Nobody let me.")
        }
        _ => Answer::text(&format!("Late: {}", all_texts(seen))),
    });
    let run = world.start(&["run", "--on-ask", "deny-ok", "--format", "stream-json", "go"]);
    assert!(run.wait_for_out("\"type\":\"answered\"", LONG), "{}", run.out_so_far());
    let line = run.out_so_far().lines().find(|line| line.contains("\"type\":\"asked\"")).unwrap().to_owned();
    let ask = serde_json::from_str::<Value>(&line).unwrap()["ask"].as_str().unwrap().to_owned();
    let told = world.posse(&["asks", "answer", &ask, "no", "--say", "use the other one"]).expect_code(0).out;
    assert!(told.contains("came late") && told.contains("refused; the agent is told at its next step"), "{told}");
    gate.open();
    let lines = run.wait(LONG).expect_code(0).lines();
    let result = lines.last().unwrap()["result"].as_str().unwrap();
    assert!(result.contains("and says: use the other one"), "{result}");
}

/// `posse doctor` says which lanes and limits hold here.
#[test]
fn doctor_tells_lanes_and_limits() {
    let world =
        World::with().config("concurrency", json!({"mock": 3})).config("auto_background_after", json!("2m")).script(|_: &Seen| "ok");
    let told = world.posse(&["doctor"]).out;
    assert!(told.contains("3 at once to mock") && told.contains("16 to any other"), "{told}");
    assert!(told.contains("after 2m") && told.contains("2000 tasks in a tree"), "{told}");
    let off = world.command(&["doctor"]).env("POSSE_DISABLE_BACKGROUND", "1").run().out;
    assert!(off.contains("off: tasks and shells always hold up their caller"), "{off}");
}
