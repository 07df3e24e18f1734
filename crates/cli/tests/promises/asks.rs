//! Asks: they wait for a person, are answered from any terminal, reach as far as was said, and survive a crash.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Answer, Done, Running, Seen, World, call};

/// Far more than anything takes, even on a busy machine.
const LONG: Duration = Duration::from_secs(30);

/// One command per step, then the last result as the answer.
fn commands(lines: &'static [&'static str]) -> World {
    asking(lines, json!({"bash": {"*": "allow", "touch *": "ask"}}))
}

fn asking(lines: &'static [&'static str], permission: Value) -> World {
    World::with().config("permission", permission).script(move |seen: &Seen| match lines.get(seen.steps()) {
        Some(line) => Answer::call("bash", json!({ "command": line })),
        None => Answer::text(seen.last_results()[0]),
    })
}

/// The id in the line that says how to answer.
#[track_caller]
fn asked(run: &Running, nth: usize) -> String {
    let line = "posse asks answer ask_";
    let end = std::time::Instant::now() + LONG;
    loop {
        let told = run.err_so_far();
        if let Some((at, _)) = told.match_indices(line).nth(nth)
            && let Some(id) = told[at + "posse asks answer ".len()..].split_once(' ')
        {
            return id.0.to_owned();
        }
        assert!(std::time::Instant::now() < end, "nothing was asked:\n{told}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn waiting(world: &World, prompt: &str) -> Running {
    world.start(&["run", "--on-ask", "wait", "--format", "json", prompt])
}

fn open_asks(world: &World) -> Vec<Value> {
    world.posse(&["asks", "list", "--format", "json"]).expect_code(0).json().as_array().unwrap().clone()
}

#[test]
fn an_ask_is_shown_and_answered_from_a_second_terminal() {
    let world = commands(&["touch made"]);
    let run = world.start(&["run", "--on-ask", "wait", "--format", "stream-json", "go"]);
    let id = asked(&run, 0);
    let open = open_asks(&world);
    assert_eq!(open.len(), 1, "{open:?}");
    let ask = &open[0];
    assert_eq!((&ask["ask"], &ask["tool"], &ask["agent"]), (&json!(id), &json!("bash"), &json!("build")));
    assert_eq!((&ask["what"], &ask["offers"]), (&json!("bash(touch made)"), &json!(["bash(touch *)"])));
    assert_eq!((&ask["input"]["command"], &ask["waiting"]), (&json!("touch made"), &json!(true)));
    assert!(ask["why"].as_str().unwrap().contains("bash(touch *)") && ask["why"].as_str().unwrap().contains("posse.json:"), "{ask}");
    let list = world.posse(&["asks", "list"]).expect_code(0).out;
    for part in [id.as_str(), "touch made", "bash(touch *)", "posse.json:", "build", "ses_"] {
        assert!(list.contains(part), "no {part:?} in {list}");
    }
    assert!(!world.project.join("made").exists());

    let told = world.posse(&["asks", "answer", &id, "once"]).expect_code(0).out;
    assert!(told.contains(&id) && told.contains("allowed once") && told.contains("goes on"), "{told}");
    let done = run.wait(LONG).expect_code(0);
    assert!(world.project.join("made").exists());
    assert_eq!(open_asks(&world), Vec::<Value>::new());
    let line =
        |name: &str| done.lines().into_iter().find(|line| line["type"] == name).unwrap_or_else(|| panic!("no {name} in {}", done.out));
    let asked = line("asked");
    assert_eq!((&asked["ask"], &asked["tool"], &asked["what"]), (&json!(id), &json!("bash"), &json!("bash(touch made)")));
    assert_eq!((&asked["offers"], &asked["call"]), (&json!(["bash(touch *)"]), &line("called")["call"]));
    assert_eq!((&line("answered")["ask"], &line("answered")["by"]), (&json!(id), &json!("user")));
    assert_eq!(line("result")["denied"], json!([]));
    let told = world.posse(&["why", &id]).expect_code(0).out;
    assert!(told.contains("once, by a person") && told.contains("outcome  done"), "{told}");
}

#[test]
fn a_refusal_with_words_reaches_the_model_and_is_no_failure() {
    let world = commands(&["touch made"]);
    let run = waiting(&world, "go");
    let id = asked(&run, 0);
    let told = world.posse(&["asks", "answer", &id, "no", "--say", "use the other folder"]).expect_code(0).out;
    assert!(told.contains("refused"), "{told}");
    let done = run.wait(LONG).expect_code(0);
    assert!(done.err.contains("posse: refused by you: bash(touch made)\n") && !done.err.contains("denied"), "{}", done.err);
    let shown = done.json();
    assert!(shown["result"].as_str().unwrap().contains("The user refused this call and says: use the other folder"), "{shown}");
    assert_eq!(shown["denied"][0]["tool"], "bash");
    assert!(!world.project.join("made").exists());
}

#[test]
fn an_id_that_is_unknown_answered_or_not_clear_says_so() {
    let world = commands(&["touch made"]);
    for id in ["ask_01", "ask_", "ask_01JD0000000000000000000000", "ses_01", ""] {
        let done = world.posse(&["asks", "answer", id, "once"]).expect_code(2);
        assert!(done.err.contains("not found"), "{id:?}: {}", done.err);
    }
    assert_eq!(world.posse(&["asks", "list"]).expect_code(0).out, "");
    let run = waiting(&world, "go");
    let id = asked(&run, 0);
    let bare = world.posse(&["asks", "answer", "ask_", "once"]).expect_code(2).err;
    assert!(bare.contains(&format!("ask_ could be any of these: {id}")), "{bare}");
    for unknown in ["ask_01JD0000000000000000000000", "ask_ZZ"] {
        let done = world.posse(&["asks", "answer", unknown, "once"]).expect_code(2);
        assert!(done.err.contains("not found"), "{}", done.err);
    }
    world.posse(&["asks", "answer", &id, "maybe"]).expect_code(2);
    let done = world.posse(&["asks", "answer", &id, "once", "--say", "sure"]).expect_code(2);
    assert!(done.err.contains("--say"), "{}", done.err);
    world.posse(&["asks", "answer", &id[..20], "once"]).expect_code(0);
    run.wait(LONG).expect_code(0);
    let late = world.posse(&["asks", "answer", &id, "no"]).expect_code(2);
    assert!(late.err.contains("answered already: once by a person") && late.err.contains(" ago"), "{}", late.err);
    // A project is a world of its own.
    let other = World::new(|_: &Seen| "ok");
    other.run(&["hi"]).expect_code(0);
    let done = other.posse(&["asks", "answer", &id, "once"]).expect_code(2);
    assert!(done.err.contains("not found"), "{}", done.err);
}

#[test]
fn what_is_allowed_is_not_asked_about_and_what_is_denied_is_not_either() {
    let rules = json!({"bash": {"*": "allow", "touch ask*": "ask", "touch no*": "deny"}});
    let world = asking(&["touch yes", "touch no", "touch ask && touch no"], rules);
    let done = world.run(&["--on-ask", "wait", "--format", "stream-json", "go"]).expect_code(0);
    assert!(done.lines().iter().all(|line| line["type"] != "asked"), "{}", done.out);
    let result = done.lines().pop().unwrap();
    assert_eq!(result["denied"].as_array().unwrap().len(), 2, "a deny wins over an ask before it: {result}");
    assert!(world.project.join("yes").exists() && !world.project.join("no").exists() && !world.project.join("ask").exists());
}

#[test]
fn once_is_one_call_and_a_session_is_the_rest_of_it() {
    let world = commands(&["touch one", "touch two", "touch three"]);
    let run = waiting(&world, "go");
    world.posse(&["asks", "answer", &asked(&run, 0), "once"]).expect_code(0);
    let second = asked(&run, 1);
    world.posse(&["asks", "answer", &second, "session"]).expect_code(0);
    let shown = run.wait(LONG).expect_code(0).json();
    assert!(world.project.join("three").exists());
    // Another session is another matter, and going on with the first is not.
    world.run(&["again"]).expect_code(4);
    let third = world.posse(&["why", shown["session"].as_str().unwrap()]).expect_code(0).out;
    assert!(third.contains("bash(touch *)") && third.contains(&second), "{third}");
}

#[test]
fn a_session_goes_on_with_what_was_allowed_in_it() {
    let world = World::with().config("permission", json!({"bash": {"*": "allow", "touch *": "ask"}})).script(|seen: &Seen| {
        match (seen.steps() % 2, seen.user_texts().len()) {
            (0, turn) => Answer::call("bash", json!({"command": format!("touch file{turn}")})),
            _ => Answer::text("done"),
        }
    });
    for (scope, holds) in [("once", 4), ("session", 0), ("tree", 0)] {
        let run = waiting(&world, "go");
        world.posse(&["asks", "answer", &asked(&run, 0), scope]).expect_code(0);
        let id = run.wait(LONG).expect_code(0).json()["session"].as_str().unwrap().to_owned();
        world.run(&["-s", &id, "again"]).expect_code(holds);
        world.run(&["anew"]).expect_code(4);
    }
}

#[test]
fn a_project_answer_holds_in_later_runs_until_it_is_taken_back_and_never_beats_a_deny() {
    let world = commands(&["touch made"]);
    let run = waiting(&world, "go");
    let id = asked(&run, 0);
    let told = world.posse(&["asks", "answer", &id, "project"]).expect_code(0).out;
    assert!(told.contains("allowed for the project: bash(touch *)"), "{told}");
    run.wait(LONG).expect_code(0);
    let fresh = || drop(std::fs::remove_file(world.project.join("made")));
    fresh();
    world.run(&["a new run"]).expect_code(0);
    assert!(world.project.join("made").exists());

    fresh();
    let denied = world.run(&["--deny", "bash(touch *)", "--format", "json", "go"]).expect_code(0).json();
    assert_eq!(denied["denied"].as_array().unwrap().len(), 1, "{denied}");
    assert!(!world.project.join("made").exists());

    let list = world.posse(&["rules", "list", "--format", "json"]).expect_code(0).json();
    let granted = &list["granted"][0];
    assert_eq!((&granted["ask"], &granted["scope"], &granted["allows"]), (&json!(id), &json!("project"), &json!("bash(touch *)")));
    assert!(granted["at"].as_u64().is_some() && granted["session"].as_str().unwrap().starts_with("ses_"), "{list}");
    let judged = || world.posse(&["rules", "judge", "--command", "touch x", "--format", "json"]).expect_code(0).json();
    assert_eq!((&judged()["verdict"], &judged()["rule"]), (&json!("allow"), &json!("bash(touch *)")));
    assert!(judged()["origin"].as_str().unwrap().contains(&id), "{}", judged());
    let told = world.posse(&["rules", "revoke", &id[..24]]).expect_code(0).out;
    assert!(told.contains("bash(touch *)"), "{told}");
    assert_eq!(judged()["verdict"], "ask");
    world.run(&["asked again"]).expect_code(4);
    assert!(!world.project.join("made").exists());
    let gone = world.posse(&["rules", "revoke", &id]).expect_code(2);
    assert!(gone.err.contains("not found"), "{}", gone.err);
    let told = world.posse(&["why", &id]).expect_code(0).out;
    assert!(told.contains("taken back"), "{told}");
}

#[test]
fn a_session_that_is_removed_says_how_many_lasting_answers_go_with_it() {
    let world = pair("touch a", "mkdir b");
    for (scope, words) in [("project", "; 2 lasting answers of this session no longer count\n"), ("once", " (1 session)\n")] {
        let run = waiting(&world, "go");
        asked(&run, 1);
        let session = open_asks(&world)[0]["session"].as_str().unwrap().to_owned();
        world.posse(&["asks", "answer", &session, scope]).expect_code(0);
        run.wait(LONG).expect_code(0);
        let told = world.posse(&["sessions", "rm", &session]).expect_code(0).out;
        assert!(told.ends_with(words), "{told}");
    }
}

#[test]
fn an_answer_is_taken_back_while_its_session_runs() {
    let world = commands(&["touch one", "until [ -e go ]; do sleep 0.05; done", "touch two"]);
    let run = waiting(&world, "go");
    let first = asked(&run, 0);
    world.posse(&["asks", "answer", &first, "tree"]).expect_code(0);
    world.posse(&["rules", "revoke", &first]).expect_code(0);
    world.write("go", "");
    let second = asked(&run, 1);
    world.posse(&["asks", "answer", &second, "no"]).expect_code(0);
    run.wait(LONG).expect_code(0);
    assert!(world.project.join("one").exists() && !world.project.join("two").exists());
}

/// Two calls in one reply, both asked about.
fn pair(first: &'static str, second: &'static str) -> World {
    World::with().config("permission", json!({"bash": {"*": "ask"}})).script(move |seen: &Seen| match seen.steps() {
        0 => Answer::calls(vec![call("bash", json!({ "command": first })), call("bash", json!({ "command": second }))]),
        _ => Answer::text(&seen.last_results().join(" | ")),
    })
}

#[test]
fn a_wider_yes_settles_the_other_asks_of_its_session_that_it_covers() {
    let world = pair("touch a", "touch b");
    let other = waiting(&world, "another session");
    asked(&other, 1);
    let run = waiting(&world, "go");
    let ids = [asked(&run, 0), asked(&run, 1)];
    assert_eq!(open_asks(&world).len(), 4);
    world.posse(&["asks", "answer", &ids[0], "session"]).expect_code(0);
    run.wait(LONG).expect_code(0);
    assert!(world.project.join("a").exists() && world.project.join("b").exists());
    let told = world.posse(&["why", &ids[1]]).expect_code(0).out;
    assert!(told.contains("another ask that covers this one"), "{told}");
    assert_eq!(open_asks(&world).len(), 2, "those of another session stay");
    other.kill_group();
}

#[test]
fn the_asks_of_a_session_are_answered_together_or_one_by_one() {
    let world = pair("touch a", "mkdir b");
    let run = waiting(&world, "go");
    asked(&run, 1);
    let open = open_asks(&world);
    let session = open[0]["session"].as_str().unwrap();
    let done = world.posse(&["asks", "answer", session, "once"]).expect_code(0);
    assert_eq!(done.out.lines().count(), 2, "{}", done.out);
    run.wait(LONG).expect_code(0);
    assert!(world.project.join("a").exists() && world.project.join("b").exists());
    let none = world.posse(&["asks", "answer", session, "once"]).expect_code(2);
    assert!(none.err.contains("nothing waits"), "{}", none.err);

    let run = waiting(&world, "one of them");
    let ids = [asked(&run, 0), asked(&run, 1)];
    let both = world.posse(&["asks", "answer", "ask_0", "once"]).expect_code(2);
    assert!(both.err.contains(&ids[0]) && both.err.contains(&ids[1]), "{}", both.err);
    world.posse(&["asks", "answer", &ids[0], "no", "--say", "not this"]).expect_code(0);
    assert_eq!(open_asks(&world).len(), 1, "a refusal refuses one ask");
    world.posse(&["asks", "answer", &ids[1], "once"]).expect_code(0);
    let shown = run.wait(LONG).expect_code(0).json();
    assert!(shown["result"].as_str().unwrap().contains("not this"), "{shown}");
}

#[test]
fn an_ask_survives_a_crash_and_its_answer_is_taken_up() {
    let world = commands(&["touch made && echo x >> count.txt"]);
    let run = waiting(&world, "go");
    let id = asked(&run, 0);
    run.kill();
    let dead: Done = run.wait(LONG);
    assert_eq!(dead.signal, Some(9));
    let open = open_asks(&world);
    assert_eq!((&open[0]["ask"], &open[0]["waiting"]), (&json!(id), &json!(false)));
    let list = world.posse(&["asks", "list"]).expect_code(0).out;
    assert!(list.contains("nobody runs") && list.contains("sessions resume"), "{list}");
    let session = open[0]["session"].as_str().unwrap();
    let told = world.posse(&["asks", "answer", &id, "once"]).expect_code(0).out;
    assert!(told.contains("nobody runs") && told.contains("resume"), "{told}");
    assert!(!world.project.join("made").exists(), "an answer starts nothing");
    assert_eq!(open_asks(&world), Vec::<Value>::new());
    world.posse(&["asks", "answer", &id, "no"]).expect_code(2);

    world.posse(&["sessions", "resume", session]).expect_code(0);
    assert_eq!(world.read("count.txt"), "x\n");
    world.posse(&["sessions", "resume", session]).expect_code(0);
    assert_eq!(world.read("count.txt"), "x\n");
}

#[test]
fn an_ask_that_nobody_answered_before_the_crash_waits_or_is_refused_again() {
    let world = commands(&["touch made"]);
    let run = waiting(&world, "go");
    let id = asked(&run, 0);
    let session = open_asks(&world)[0]["session"].as_str().unwrap().to_owned();
    run.kill();
    run.wait(LONG);
    // The same ask waits again.
    let again = world.start(&["sessions", "resume", &session, "--on-ask", "wait"]);
    assert_eq!(asked(&again, 0), id);
    again.kill();
    again.wait(LONG);
    // Where nobody can answer, it is refused and listed.
    let shown = world.posse(&["sessions", "resume", &session, "--format", "json"]).expect_code(4).json();
    assert_eq!((shown["denied"].as_array().unwrap().len(), &shown["denied"][0]["tool"]), (1, &json!("bash")), "{shown}");
    let late = world.posse(&["asks", "answer", &id, "once"]).expect_code(0);
    assert!(late.out.contains("came late: its call is over (denied)"), "{}", late.out);
    assert!(!world.project.join("made").exists());
}

#[test]
fn waiting_for_a_person_is_not_idling_but_takes_time() {
    let world =
        World::with().config("permission", json!({"bash": {"*": "ask"}})).config("limits", json!({"idle": "5s"})).script(|seen: &Seen| {
            match seen.steps() {
                0 => Answer::call("bash", json!({"command": "touch made"})),
                _ => Answer::text("done"),
            }
        });
    let run = waiting(&world, "go");
    let id = asked(&run, 0);
    let late = world.start(&["run", "--on-ask", "wait", "--timeout", "11s", "go"]);
    std::thread::sleep(Duration::from_secs(11));
    world.posse(&["asks", "answer", &id, "once"]).expect_code(0);
    run.wait(LONG).expect_code(0);
    assert!(world.project.join("made").exists());

    let id = asked(&late, 0);
    late.wait(LONG).expect_code(3);
    let told = world.posse(&["asks", "answer", &id, "once"]).expect_code(0);
    assert!(told.out.contains("came late: its call is over (cancelled)"), "{}", told.out);
}

#[test]
fn a_run_that_waits_is_ended_by_a_signal_and_by_a_stop() {
    let world = commands(&["touch made"]);
    let run = waiting(&world, "go");
    asked(&run, 0);
    run.interrupt();
    run.wait(LONG).expect_code(130);
    let run = waiting(&world, "go");
    asked(&run, 0);
    let session = open_asks(&world)[0]["session"].as_str().unwrap().to_owned();
    world.posse(&["sessions", "stop", &session]).expect_code(0);
    run.wait(LONG).expect_code(130);
    assert_eq!(open_asks(&world), Vec::<Value>::new());
}

#[test]
fn bypass_says_yes_to_asks_and_to_nothing_else() {
    let world =
        World::with().config("permission", json!({"bash": {"*": "ask", "touch no*": "deny"}})).script(|seen: &Seen| match seen.steps() {
            0 => Answer::call("bash", json!({"command": "touch made"})),
            1 => Answer::call("bash", json!({"command": "touch no"})),
            _ => Answer::text("done"),
        });
    let shown = world.run(&["--permission-mode", "bypass", "--format", "json", "go"]).expect_code(0).json();
    assert!(world.project.join("made").exists() && !world.project.join("no").exists());
    assert_eq!(shown["denied"].as_array().unwrap().len(), 1, "a yes by policy is no denial: {shown}");
    let call = world.posse(&["sessions", "show", shown["session"].as_str().unwrap()]).expect_code(0).out;
    assert!(call.contains("permission mode says yes"), "{call}");

    let protected = World::new(|seen: &Seen| match seen.steps() {
        0 => Answer::call("write", json!({"filePath": "posse.json", "content": "{}"})),
        _ => Answer::text(seen.last_results()[0]),
    });
    let shown = protected.run(&["--permission-mode", "bypass", "--format", "json", "go"]).expect_code(4).json();
    assert!(shown["denied"][0]["what"].as_str().unwrap().starts_with("protected("), "{shown}");
    assert!(!protected.project.join("posse.json").exists());
    let run = protected.start(&["run", "--permission-mode", "bypass", "--on-ask", "wait", "go"]);
    protected.posse(&["asks", "answer", &asked(&run, 0), "once"]).expect_code(0);
    run.wait(LONG).expect_code(0);
    assert_eq!(protected.read("posse.json"), "{}");
}

#[test]
fn two_answers_at_once_are_one_answer() {
    let world = commands(&["touch made"]);
    for _ in 0..5 {
        let run = waiting(&world, "go");
        let id = asked(&run, 0);
        let answers = [world.start(&["asks", "answer", &id, "once"]), world.start(&["asks", "answer", &id, "no"])];
        let codes: Vec<Option<i32>> = answers.into_iter().map(|answer| answer.wait(LONG).code).collect();
        assert!(codes == [Some(0), Some(2)] || codes == [Some(2), Some(0)], "{codes:?}");
        run.wait(LONG).expect_code(0);
        assert_eq!(world.project.join("made").exists(), codes[0] == Some(0));
        let _ = std::fs::remove_file(world.project.join("made"));
    }
}
