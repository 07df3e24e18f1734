//! `posse why`: every decision is in the log with its rule and its origin, and can be told.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Answer, Seen, World};

fn session_of(world: &World, args: &[&str], code: i32) -> String {
    let done = world.run(&[&["--format", "json"], args].concat()).expect_code(code);
    done.json()["session"].as_str().unwrap().to_owned()
}

/// The calls of a session in their order.
fn calls(world: &World, session: &str) -> Vec<String> {
    let shown = world.posse(&["sessions", "show", session, "--format", "json"]).expect_code(0).json();
    let called = shown["events"].as_array().unwrap().iter().filter(|event| event["type"] == "called").cloned();
    called.map(|event: Value| event["call"].as_str().unwrap().to_owned()).collect()
}

fn why(world: &World, id: &str) -> Value {
    world.posse(&["why", id, "--format", "json"]).expect_code(0).json()
}

#[test]
fn a_call_tells_what_it_touched_which_rule_decided_and_how_it_ended() {
    let world = World::with()
        .config("permission", json!({"bash": {"*": "allow", "rm *": "deny", "touch *": "ask"}}))
        .file("notes.txt", "some notes")
        .script(|seen: &Seen| match seen.steps() {
            0 => Answer::call("read", json!({"filePath": "notes.txt"})),
            1 => Answer::call("bash", json!({"command": "echo a && rm -rf notes.txt"})),
            2 => Answer::call("bash", json!({"command": "touch made"})),
            3 => Answer::call("bash", json!({"command": "echo done"})),
            4 => Answer::call("nonsense", json!({})),
            _ => Answer::text("done"),
        });
    let session = session_of(&world, &["go"], 4);
    let calls = calls(&world, &session);
    let field = |call: &Value, name: &str| call[name].as_str().unwrap_or_default().to_owned();
    let expect = [
        ("read", "allow", "read(*)", "built-in", "done"),
        ("bash", "deny", "bash(rm *)", "posse.json:", "denied"),
        ("bash", "ask", "bash(touch *)", "posse.json:", "denied"),
        ("bash", "allow", "bash(*)", "posse.json:", "done"),
    ];
    for (call, (tool, verdict, rule, origin, outcome)) in calls.iter().zip(expect) {
        let told = why(&world, call);
        let found = ["tool", "verdict", "rule", "outcome"].map(|name| field(&told, name));
        assert_eq!(found, [tool, verdict, rule, outcome], "{told}");
        assert!(field(&told, "origin").contains(origin) && field(&told, "why").contains(rule), "{told}");
        assert_eq!((field(&told, "session"), field(&told, "agent"), field(&told, "call")), (session.clone(), "build".into(), call.clone()));
        assert!(told["touches"].as_array().is_some_and(|touches| !touches.is_empty()) && told["at"].as_u64().is_some(), "{told}");
        let text = world.posse(&["why", call]).expect_code(0).out;
        for part in [call.as_str(), session.as_str(), verdict, rule, outcome] {
            assert!(text.contains(part), "no {part:?} in {text}");
        }
    }
    let denied = why(&world, &calls[1]);
    assert!(field(&denied, "why").contains("`rm -rf notes.txt`") && field(&denied, "told").contains("Denied by the rule"), "{denied}");
    let asked = why(&world, &calls[2]);
    assert_eq!((&asked["ask"]["answer"], &asked["ask"]["by"]), (&json!("no"), &json!("policy")), "{asked}");
    assert_eq!(asked["ask"]["offers"], json!(["bash(touch *)"]));
    let by_ask = why(&world, asked["ask"]["ask"].as_str().unwrap());
    assert_eq!(by_ask, asked, "an ask is told through its call");
    assert_eq!(why(&world, &calls[3][..28])["call"], json!(calls[3]), "the start of an id is enough");
    let unjudged = why(&world, &calls[4]);
    assert_eq!((&unjudged["outcome"], unjudged.get("verdict")), (&json!("failed"), None), "{unjudged}");
}

/// The open ask about this, as soon as there is one.
fn open_ask(world: &World, what: &str) -> Value {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        let open = world.posse(&["asks", "list", "--format", "json"]).expect_code(0).json();
        if let Some(ask) = open.as_array().unwrap().iter().find(|ask| ask["what"] == what) {
            return ask.clone();
        }
        assert!(Instant::now() < end, "no ask about {what}: {open}");
    }
}

#[test]
fn a_session_tells_why_it_stands_still_and_what_holds_in_it() {
    let world = World::with().config("permission", json!({"bash": {"*": "ask"}})).script(|seen: &Seen| match seen.steps() {
        0 => Answer::call("bash", json!({"command": "touch one"})),
        1 => Answer::call("bash", json!({"command": "mkdir two"})),
        _ => Answer::text("done"),
    });
    let run = world.start(&["run", "--on-ask", "wait", "--deny", "webfetch", "--deny", "edit(*.lock)", "go"]);
    let first = open_ask(&world, "bash(touch one)");
    world.posse(&["asks", "answer", first["ask"].as_str().unwrap(), "session"]).expect_code(0);
    let second = open_ask(&world, "bash(mkdir two)");
    let session = second["session"].as_str().unwrap();
    let told = why(&world, session);
    assert_eq!((&told["running"], &told["session"]["status"]), (&json!(true), &json!("waiting")), "{told}");
    assert_eq!(
        (&told["open_asks"][0]["what"], &told["granted"][0]["grant"]["pattern"]),
        (&json!("bash(mkdir two)"), &json!("touch *")),
        "{told}"
    );
    let missing: Vec<&str> = told["missing_tools"].as_array().unwrap().iter().map(|tool| tool["tool"].as_str().unwrap()).collect();
    assert_eq!(missing, ["webfetch"], "{told}");
    let text = world.posse(&["why", session]).expect_code(0).out;
    for part in [session, "agent build", "mock/m1", "waiting", "a process runs it", "bash(mkdir two)", "bash(touch *)", "webfetch"] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    run.interrupt();
    run.wait(Duration::from_secs(30)).expect_code(130);
    let told = why(&world, session);
    assert!(told["hold"].as_str().unwrap().contains("interrupted") && told["running"] == json!(false), "{told}");
}

#[test]
fn denied_calls_of_a_session_say_who_denied_them() {
    let world =
        World::with().config("permission", json!({"bash": {"*": "allow", "rm *": "deny", "touch *": "ask"}})).script(|seen: &Seen| {
            match seen.steps() {
                0 => Answer::call("bash", json!({"command": "rm x"})),
                1 => Answer::call("bash", json!({"command": "touch made"})),
                _ => Answer::text("done"),
            }
        });
    let session = session_of(&world, &["go"], 4);
    let told = why(&world, &session);
    let by: Vec<&str> = told["denied"].as_array().unwrap().iter().map(|denied| denied["by"].as_str().unwrap()).collect();
    assert_eq!(by, ["a rule", "policy: nobody could be asked"], "{told}");
}

#[test]
fn a_missing_tool_is_explained_by_the_rule_that_removes_it() {
    let world = World::with().config("permission", json!({"edit": "deny"})).script(|_: &Seen| "ok");
    let told = why(&world, "write");
    assert_eq!((&told["offered"], &told["rule"]), (&json!(false), &json!("edit(*)")), "{told}");
    assert!(told["origin"].as_str().unwrap().contains("posse.json:"), "{told}");
    assert_eq!(why(&world, "Bash")["offered"], json!(true));
    let text = world.posse(&["why", "apply_patch"]).expect_code(0).out;
    assert!(text.contains("removed by edit(*) from") && text.contains("posse.json:"), "{text}");
    world.configure(&{
        let mut config: Value = serde_json::from_str(&std::fs::read_to_string(world.posse_home.join("posse.json")).unwrap()).unwrap();
        config["permission"] = json!({"edit": "deny", "bash": "deny"});
        config
    });
    assert_eq!(why(&world, "bash_output")["rule"], json!("bash(*)"), "what needs a shell goes with it");
    let session = session_of(&world, &["hi"], 0);
    let told = why(&world, &session);
    let missing: Vec<&str> = told["missing_tools"].as_array().unwrap().iter().map(|tool| tool["tool"].as_str().unwrap()).collect();
    assert!(missing.contains(&"edit") && missing.contains(&"kill_shell") && !missing.contains(&"read"), "{told}");
}

#[test]
fn what_is_not_known_is_exit_2() {
    let world = World::new(|_: &Seen| "ok");
    for id in ["call_01", "ask_01", "ses_01", "frobnicate", ""] {
        let done = world.posse(&["why", id]).expect_code(2);
        assert!(done.err.contains("not found"), "{id:?}: {}", done.err);
    }
    world.run(&["hi"]).expect_code(0);
    for id in ["call_01", "ask_", "call_01JD0000000000000000000000", "ses_ZZ"] {
        world.posse(&["why", id]).expect_code(2);
    }
}
