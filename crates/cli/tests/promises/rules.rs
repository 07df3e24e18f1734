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
    let expected = "apply_patch bash bash_output edit glob grep kill_shell list multi_edit read todoread todowrite webfetch write";
    assert_eq!(sorted(&all).join(" "), expected);
    for (denied, gone) in [
        ("bash", &["bash", "bash_output", "kill_shell"][..]),
        ("edit", &["apply_patch", "edit", "multi_edit", "write"]),
        ("webfetch", &["webfetch"]),
        ("bash_output", &["bash_output"]),
    ] {
        world.run(&["--deny", denied, "hi"]).expect_code(0);
        let left: Vec<&str> = expected.split(' ').filter(|name| !gone.contains(name)).collect();
        assert_eq!(sorted(&world.model.last().tools), left, "denying {denied}");
    }
    // Vectors 31 and 32: as long as something of it is allowed, it is shown.
    for rule in [&["--deny", "bash(rm *)"][..], &["--deny", "bash", "--allow", "bash(echo *)"]] {
        world.run(&[rule, &["hi"]].concat()).expect_code(0);
        assert_eq!(sorted(&world.model.last().tools).join(" "), expected, "{rule:?}");
    }
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

    // Last match wins, in the order written.
    world.run(&["--allow", "bash(touch made)", "--ask", "bash(touch *)", "go"]).expect_code(4);
    assert!(!world.project.join("made").exists());
    world.run(&["--ask", "bash(touch *)", "--allow", "bash(touch made)", "go"]).expect_code(0);
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

/// A line is every command it can run, however it is written: reliability.md 1.3, through the whole program.
#[test]
fn a_shell_line_is_judged_by_what_it_can_run() {
    let outside = tempfile::tempdir().unwrap();
    let far = outside.path().join("far.txt").display().to_string();
    let table: &[(&str, &[&str], i32, &str)] = &[
        ("echo fine && touch made", &[], 0, "allowed"),
        ("echo fine && touch made", &["--deny", "bash(touch *)"], 0, "denied"),
        ("t\\o\"uc\"h made", &["--deny", "bash(touch *)"], 0, "denied"),
        ("env X=1 nice touch made", &["--deny", "bash(touch *)"], 0, "denied"),
        ("bash -c 'touch made'", &["--deny", "bash(touch *)"], 0, "denied"),
        ("echo $(touch made)", &["--deny", "bash(touch *)"], 0, "denied"),
        ("find . -name '*.txt' -exec touch made {} +", &["--ask", "bash", "--allow", "bash(find *)"], 4, "denied"),
        ("touch made", &["--ask", "bash", "--allow", "bash(touch *)"], 0, "allowed"),
        ("touch made; $PROGRAM x", &["--ask", "bash", "--allow", "bash(touch *)"], 4, "denied"),
        ("touch made > .env.local", &["--deny", "edit(.env*)"], 0, "denied"),
        ("touch made; cat .env", &[], 4, "denied"),
        ("touch made > posse.json", &["--permission-mode", "bypass"], 4, "denied"),
        ("touch made; echo '[alias]' >> .git/config", &["--dangerously-skip-permissions"], 4, "denied"),
    ];
    for (command, flags, code, verdict) in table {
        let world = tries("bash", json!({ "command": command }));
        let done = world.run(&[*flags, &["go"]].concat()).expect_code(*code);
        assert_eq!(world.project.join("made").exists(), *verdict == "allowed", "{command} {flags:?}: {done:#?}");
    }
    let world = tries("bash", json!({ "command": format!("touch made {far}") }));
    world.run(&["go"]).expect_code(4);
    assert!(!world.project.join("made").exists(), "a folder outside is asked about");
    world.run(&["--allow", "external_directory", "go"]).expect_code(0);
    assert!(world.project.join("made").exists() && outside.path().join("far.txt").exists());
}
