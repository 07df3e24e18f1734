//! Rules: what is denied, what is asked about, and what happens when nobody can answer.

use serde_json::{Value, json};

use crate::support::{Answer, Seen, World};

/// One call of a tool, then what came of it.
fn tries(tool: &'static str, input: Value) -> World {
    World::with().file(".env", "TOKEN=hidden-value").file("notes.txt", "some notes").script(move |seen: &Seen| match seen.steps() {
        0 => Answer::call(tool, input.clone()),
        _ => Answer::text(seen.last_results()[0]),
    })
}

#[test]
fn a_tool_that_is_denied_altogether_is_not_shown_to_the_model() {
    let world = World::new(|_: &Seen| "ok");
    world.run(&["hi"]).expect_code(0);
    let all = world.model.last().tools.clone();
    assert_eq!(sorted(&all), ["bash", "edit", "glob", "grep", "list", "read", "todowrite", "write"]);
    world.run(&["--deny", "bash", "hi"]).expect_code(0);
    assert_eq!(sorted(&world.model.last().tools), ["edit", "glob", "grep", "list", "read", "todowrite", "write"]);
    world.run(&["--deny", "edit", "hi"]).expect_code(0);
    assert_eq!(sorted(&world.model.last().tools), ["bash", "glob", "grep", "list", "read", "todowrite"], "denying edit takes write along");
}

fn sorted(names: &[String]) -> Vec<&str> {
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.sort_unstable();
    names
}

#[test]
fn a_rule_denies_a_call_and_the_run_goes_on_to_exit_0() {
    let world = tries("bash", json!({"command": "touch made"}));
    let done = world.run(&["--deny", "bash(touch *)", "--format", "json", "go"]).expect_code(0);
    let shown = done.json();
    let denied = shown["denied"].as_array().unwrap();
    assert_eq!(denied.len(), 1, "{shown}");
    assert_eq!((&denied[0]["tool"], &denied[0]["agent"], &denied[0]["session"]), (&json!("bash"), &json!("build"), &shown["session"]));
    assert!(
        denied[0]["call"].as_str().unwrap().starts_with("call_") && denied[0]["what"].as_str().unwrap().contains("touch made"),
        "{shown}"
    );
    assert!(denied[0]["rule"].as_str().unwrap().contains("touch *"), "{shown}");
    assert!(shown["result"].as_str().unwrap().contains("Denied"), "the model is told: {shown}");
    assert!(!world.project.join("made").exists());
}

#[test]
fn an_ask_that_nobody_can_answer_is_refused_and_exit_4() {
    let world = tries("bash", json!({"command": "touch made"}));
    let done = world.run(&["--ask", "bash(touch *)", "--format", "json", "go"]).expect_code(4);
    let shown = done.json();
    assert_eq!((&shown["status"], &shown["denied"][0]["tool"]), (&json!("done"), &json!("bash")));
    assert!(done.err.contains("denied") && done.err.contains("touch made"), "{}", done.err);
    assert!(!world.project.join("made").exists());

    let fine = world.run(&["--ask", "bash(touch *)", "--on-ask", "deny-ok", "--format", "json", "go"]).expect_code(0).json();
    assert_eq!((fine["denied"].as_array().unwrap().len(), &fine["status"]), (1, &json!("done")));
    assert!(!world.project.join("made").exists());

    world.run(&["--ask", "bash(touch *)", "--allow", "bash(touch made)", "go"]).expect_code(4);
    world.run(&["--ask", "bash(rm *)", "--allow", "bash(touch made)", "go"]).expect_code(0);
    assert!(world.project.join("made").exists());
}

#[test]
fn secrets_and_other_folders_are_asked_about_by_default() {
    let outside = tempfile::tempdir().unwrap();
    let file = outside.path().join("elsewhere.txt").display().to_string();
    std::fs::write(&file, "far away").unwrap();
    for (tool, input) in [
        ("read", json!({"filePath": ".env"})),
        ("read", json!({"filePath": file})),
        ("write", json!({"filePath": file, "content": "overwritten"})),
        ("grep", json!({"pattern": "far", "path": outside.path()})),
    ] {
        let world = tries(tool, input.clone());
        let done = world.run(&["go"]).expect_code(4);
        assert!(!done.out.contains("hidden-value") && !done.out.contains("far away"), "{tool} {input}: {}", done.out);
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "far away");
    let inside = tries("read", json!({"filePath": "notes.txt"}));
    assert!(inside.run(&["go"]).expect_code(0).out.contains("some notes"));
}

#[test]
fn the_third_identical_call_in_a_row_is_not_run() {
    let world = World::new(|seen: &Seen| match seen.steps() {
        0..3 => Answer::call("bash", json!({"command": "echo again >> count.txt"})),
        _ => Answer::text("I stop"),
    });
    let shown = world.run(&["--format", "json", "go"]).expect_code(4).json();
    assert_eq!(world.read("count.txt"), "again\nagain\n");
    assert_eq!(shown["denied"].as_array().unwrap().len(), 1, "{shown}");
    assert_eq!(shown["result"], "I stop");

    let varied = World::new(|seen: &Seen| match seen.steps() {
        step @ 0..4 => Answer::call("bash", json!({"command": format!("echo {step}")})),
        _ => Answer::text("done"),
    });
    varied.run(&["go"]).expect_code(0);
    let allowed = World::with().config("permission", json!({"doom_loop": "allow"})).script(|seen: &Seen| match seen.steps() {
        0..5 => Answer::call("bash", json!({"command": "echo again >> count.txt"})),
        _ => Answer::text("done"),
    });
    allowed.run(&["go"]).expect_code(0);
    assert_eq!(allowed.read("count.txt").lines().count(), 5);
}

#[test]
fn a_rule_that_means_nothing_is_wrong_usage() {
    let world = World::new(|_: &Seen| "never");
    for rule in ["bash(git", ""] {
        let done = world.run(&["--deny", rule, "hi"]).expect_code(2);
        assert!(!done.err.is_empty());
    }
    assert!(world.model.requests().is_empty());
}

#[test]
fn a_deny_of_the_project_counts_and_an_allow_of_it_does_not() {
    let world = World::with()
        .file("posse.json", r#"{"permission": {"bash": {"*": "allow", "touch *": "deny"}, "external_directory": "allow"}}"#)
        .script(|seen: &Seen| match seen.steps() {
            0 => Answer::call("bash", json!({"command": "touch made"})),
            1 => Answer::call("read", json!({"filePath": "/etc/hostname"})),
            _ => Answer::text("done"),
        });
    let done = world.run(&["--format", "json", "go"]).expect_code(4);
    assert!(!world.project.join("made").exists());
    assert_eq!(done.json()["denied"].as_array().unwrap().len(), 2, "{}", done.out);
    assert!(done.err.contains("posse.json") && done.err.contains("ignored"), "{}", done.err);
}
