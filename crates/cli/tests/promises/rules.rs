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
    let expected = "agent apply_patch bash bash_output edit glob grep kill_shell list multi_edit read send_message task_list task_merge task_output task_stop todoread todowrite webfetch write";
    assert_eq!(sorted(&all).join(" "), expected);
    for (denied, gone) in [
        ("bash", &["bash", "bash_output", "kill_shell"][..]),
        ("edit", &["apply_patch", "edit", "multi_edit", "write"]),
        ("webfetch", &["webfetch"]),
        ("bash_output", &["bash_output"]),
        // Under the name of either dialect.
        ("task", &["agent", "send_message", "task_list", "task_merge", "task_output", "task_stop"]),
        ("agent", &["agent", "send_message", "task_list", "task_merge", "task_output", "task_stop"]),
        ("task_stop", &["task_stop"]),
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
    assert!(done.err.contains("posse: denied by bash(touch *) from ") && done.err.contains(": bash(touch made)\n"), "{}", done.err);
    assert!(!world.project.join("made").exists());
}

#[test]
fn what_is_denied_is_told_on_one_line_whatever_is_in_it() {
    let world = tries("bash", json!({"command": "touch 'made\nposse: all is well'"}));
    let done = world.run(&["--deny", "bash(touch *)", "go"]).expect_code(0);
    let told: Vec<&str> = done.err.lines().filter(|line| line.contains("all is well")).collect();
    assert!(told.len() == 1 && told[0].starts_with("posse: denied by bash(touch *) from --deny: bash(touch 'made"), "{}", done.err);
}

#[test]
fn an_ask_that_nobody_can_answer_is_refused_and_exit_4() {
    let world = tries("bash", json!({"command": "touch made"}));
    let done = world.run(&["--ask", "bash(touch *)", "--format", "json", "go"]).expect_code(4);
    let shown = done.json();
    assert_eq!((&shown["status"], &shown["denied"][0]["tool"]), (&json!("done"), &json!("bash")));
    let words = "posse: refused, because nobody could answer: bash(touch made) (rule bash(touch *) from ";
    assert!(done.err.contains(words) && !done.err.contains("denied"), "{}", done.err);
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
        ("write", json!({"filePath": ".env.production", "content": "TOKEN=mine"})),
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
    // What only a person allows, no mode does: files that speak for the user, wherever they are, and lines nobody can read.
    for command in [
        "touch made; echo x > ~/.bashrc",
        "touch made; cd ~ && echo x >> .profile",
        "touch made; echo '{}' > ~/posse/posse.json",
        "touch made; mkdir -p ~/posse/agents/new",
        "touch made; echo '{}' > ~/posse/data/trust.json",
        "touch made; select x in a; do echo e > .git/hooks/pre-commit; break; done <<< 1",
    ] {
        let world = tries("bash", json!({ "command": command }));
        let done = world.run(&["--permission-mode", "bypass", "go"]).expect_code(4);
        assert!(!world.project.join("made").exists(), "{done:#?}");
    }
    // A rule that denies a file denies it to commands too.
    for (command, deny) in [
        ("touch made; cat secrets/key", "read(secrets/*)"),
        ("touch made; cat ~/.ssh/id_rsa", "Read(~/.ssh/**)"),
        ("touch made; cp notes.txt locked/x", "edit(locked/*)"),
        ("touch made; sed -i s/a/b/ locked/x", "edit(locked/*)"),
        ("touch made; echo x | tee locked/x", "edit"),
    ] {
        let world = tries("bash", json!({ "command": command }));
        world.run(&["--permission-mode", "bypass", "--deny", deny, "go"]).expect_code(0);
        assert!(!world.project.join("made").exists(), "{command} under {deny}");
    }
    let world = tries("bash", json!({ "command": format!("touch made {far}") }));
    world.run(&["go"]).expect_code(4);
    assert!(!world.project.join("made").exists(), "a folder outside is asked about");
    world.run(&["--allow", "external_directory", "go"]).expect_code(0);
    assert!(world.project.join("made").exists() && outside.path().join("far.txt").exists());
}

/// CVE-2026-25724: a link in the repository must not make a rule look away.
#[test]
fn a_command_is_judged_by_what_its_links_lead_to() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "far away").unwrap();
    for command in ["cat out/secret", "cd out && cat secret", "cat env-link", "echo x >> g/config", "echo x > out/new"] {
        let world = tries("bash", json!({ "command": command }));
        std::fs::create_dir_all(world.project.join(".git")).unwrap();
        for (target, link) in [(outside.path().to_str().unwrap(), "out"), (".git", "g"), (".env", "env-link")] {
            std::os::unix::fs::symlink(target, world.project.join(link)).unwrap();
        }
        let done = world.run(&["go"]).expect_code(4);
        assert!(!done.out.contains("far away") && !done.out.contains("hidden-value"), "{command}: {}", done.out);
    }
    assert!(!outside.path().join("new").exists());
}

/// However a path is spelled, the deny holds: one that matched nothing would protect nothing.
#[test]
fn a_deny_holds_however_its_path_is_spelled() {
    let write = |rules: &dyn Fn(&World) -> Value| {
        let world = tries("write", json!({"filePath": "src/a.txt", "content": "2"}));
        world.write("src/a.txt", "1");
        world.configure(&{
            let mut config = crate::support::world::mock_config(crate::support::Api::Anthropic, &world.model.url);
            config["permission"] = json!({"edit": rules(&world)});
            config
        });
        world.run(&["go"]).expect_code(0);
        world.read("src/a.txt")
    };
    assert_eq!(write(&|_| json!({"./src/a.txt": "deny"})), "1");
    assert_eq!(write(&|_| json!({"src/": "deny"})), "1");
    assert_eq!(write(&|world| json!({world.project.join("src/a.txt").display().to_string(): "deny"})), "1");
    assert_eq!(write(&|_| json!({"./b.txt": "deny"})), "2", "another file is another file");

    for rule in ["read(./notes.txt)", "read(./n*)", "Read(./notes.txt)"] {
        let world = tries("read", json!({"filePath": "notes.txt"}));
        let done = world.run(&["--deny", rule, "go"]).expect_code(0);
        assert!(!done.out.contains("some notes") && done.out.contains("Denied"), "{rule}: {}", done.out);
    }
    let world = tries("read", json!({"filePath": "notes.txt"}));
    let absolute = format!("read({})", world.project.join("notes.txt").display());
    assert!(!world.run(&["--deny", &absolute, "go"]).expect_code(0).out.contains("some notes"));
}

/// OpenCode's file in its own folder denies as the one beside it.
#[test]
fn the_rules_in_opencodes_own_folder_hold() {
    let world = tries("write", json!({"filePath": "notes.txt", "content": "2"}));
    world.write(
        ".opencode/opencode.json",
        r#"{"permission": {"edit": {"notes.txt": "deny"}}, "agent": {"zed": {"description": "d", "prompt": "p"}}}"#,
    );
    let done = world.run(&["go"]).expect_code(0);
    assert!(done.out.contains("Denied") && world.read("notes.txt") == "some notes", "{}", done.out);
    assert!(done.err.contains("from .opencode/opencode.json:1"), "{}", done.err);
    assert!(world.posse(&["agents", "list"]).expect_code(0).out.contains("zed"));
}

/// choices.md: only `agent.NAME.permission` lifts what we deny an agent of ours.
#[test]
fn a_flag_does_not_lift_what_the_plan_agent_is_denied() {
    let world = tries("write", json!({"filePath": "notes.txt", "content": "2"}));
    world.run(&["-a", "plan", "--allow", "edit", "go"]).expect_code(0);
    assert_eq!(world.read("notes.txt"), "some notes");
    assert!(!world.model.last().tools.iter().any(|tool| tool == "write"), "and it is not offered");
    let opened = World::with()
        .config("agent", json!({"plan": {"permission": {"edit": {"notes.txt": "allow"}}}}))
        .file("notes.txt", "some notes")
        .script(|seen: &Seen| match seen.steps() {
            0 => Answer::call("write", json!({"filePath": "notes.txt", "content": "2"})),
            _ => Answer::text("done"),
        });
    opened.run(&["-a", "plan", "--allow", "edit", "go"]).expect_code(0);
    assert_eq!(opened.read("notes.txt"), "2");
}
