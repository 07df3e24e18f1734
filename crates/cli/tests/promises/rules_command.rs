//! `posse rules`: what is in force, what it says to a command or a path, and files of cases.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{Done, Seen, World};

fn world() -> World {
    World::with()
        .config("permission", json!({"bash": {"*": "allow", "git push*": "ask", "rm *": "deny"}, "edit": {"*.lock": "deny"}}))
        .file("posse.json", r#"{"permission": {"bash": {"make *": "ask", "rm *": "ask"}}}"#)
        .file("notes.txt", "")
        .file(".env", "")
        .script(|_: &Seen| "ok")
}

fn judge(world: &World, args: &[&str]) -> Value {
    world.posse(&[&["rules", "judge", "--format", "json"], args].concat()).expect_code(0).json()
}

#[test]
fn the_rules_in_force_are_listed_in_order_with_their_origin() {
    let world = world();
    let shown = world.posse(&["rules", "list", "--format", "json"]).expect_code(0).json();
    assert_eq!((&shown["mode"], &shown["granted"]), (&json!("default"), &json!([])));
    let rules = shown["rules"].as_array().unwrap();
    let at = |key: &str, pattern: &str| {
        let found = rules.iter().position(|rule| rule["key"] == key && rule["pattern"] == pattern);
        found.unwrap_or_else(|| panic!("no {key}({pattern}) in {shown}"))
    };
    assert_eq!((&rules[0]["origin"], &rules[0]["action"]), (&json!("built-in"), &json!("allow")));
    assert!(
        at("*", "*") < at("bash", "git push*") && at("bash", "git push*") < at("bash", "rm *") && at("bash", "rm *") < at("bash", "make *")
    );
    assert!(rules[at("bash", "rm *")]["origin"].as_str().unwrap().contains("posse.json:"), "{shown}");
    assert_eq!(shown["ceiling"].as_array().unwrap().len(), 1, "what the project adds lifts nothing of the user's: {shown}");
    let text = world.posse(&["rules", "list"]).expect_code(0).out;
    for part in ["mode     default", "deny   bash(rm *)", "built-in", "ask    bash(make *)", "protected"] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

#[test]
fn a_command_is_judged_as_a_call_of_the_model_would_be() {
    let world = world();
    for (command, verdict, rule) in [
        ("git status", "allow", "bash(*)"),
        ("git push origin main", "ask", "bash(git push*)"),
        ("ls && git -C . push", "ask", "bash(git push*)"),
        ("env X=1 rm x", "deny", "bash(rm *)"),
        ("make all", "ask", "bash(make *)"),
        ("cat < .env", "ask", "read(.env*)"),
        ("ls /etc", "ask", "external_directory(*)"),
        ("echo x > a.lock", "deny", "edit(*.lock)"),
    ] {
        let told = judge(&world, &["--command", command]);
        assert_eq!((&told["verdict"], &told["rule"]), (&json!(verdict), &json!(rule)), "{command}: {told}");
        assert!(!told["origin"].as_str().unwrap().is_empty() && !told["touches"].as_array().unwrap().is_empty(), "{told}");
        let text = world.posse(&["rules", "judge", "--command", command]).expect_code(0).out;
        assert!(text.starts_with(verdict) && text.contains(rule), "{command}: {text}");
    }
    assert!(world.model.requests().is_empty());
    assert!(!world.project.join("a.lock").exists());
}

#[test]
fn a_path_is_judged_by_where_it_leads_and_by_the_rules() {
    let world = world();
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), world.project.join("out")).unwrap();
    world.write("sub/x", "");
    for (path, op, place, verdict) in [
        ("notes.txt", "read", "inside", "allow"),
        ("new/file.txt", "write", "inside", "allow"),
        ("a.lock", "write", "inside", "deny"),
        (".env", "read", "inside", "ask"),
        ("a/.env.production", "write", "inside", "ask"),
        (".env.example", "write", "inside", "allow"),
        ("out/file", "write", "outside", "ask"),
        ("/etc/hostname", "read", "outside", "ask"),
        ("posse.json", "write", "refuse", "ask"),
        (".git/hooks/pre-commit", "write", "refuse", "ask"),
    ] {
        let told = judge(&world, &["--path", path, "--op", op]);
        assert_eq!((&told["where"], &told["verdict"]), (&json!(place), &json!(verdict)), "{path}: {told}");
    }
    let below = world.command(&["rules", "judge", "--path", "x", "--op", "read", "--format", "json"]).cwd(world.project.join("sub")).run();
    let told = below.expect_code(0).json();
    assert!(told["real"].as_str().unwrap().ends_with("sub/x"), "a path begins where one stands: {told}");
    for args in [&["judge"][..], &["judge", "--path", "x"], &["judge", "--op", "read"], &["judge", "--path", "x", "--op", "look"]] {
        world.posse(&[&["rules"], args].concat()).expect_code(2);
    }
}

#[test]
fn a_configured_mode_counts_and_is_named() {
    let rules = json!({"bash": {"*": "allow", "git push*": "ask", "rm *": "deny"}, "edit": {"*": "allow", "*.lock": "ask"}});
    for (mode, command, verdict) in [
        ("default", "git push", "ask"),
        ("bypass", "git push", "allow"),
        ("bypass", "rm x", "deny"),
        ("bypass", "echo x > posse.json", "ask"),
        ("accept-edits", "git push", "ask"),
        ("accept-edits", "echo x > a.lock", "allow"),
        ("accept-edits", "git push > a.lock", "ask"),
        ("plan", "make x", "ask"),
    ] {
        let world = World::with().config("permission", rules.clone()).config("permission_mode", json!(mode)).script(|_: &Seen| "ok");
        let told = judge(&world, &["--command", command]);
        assert_eq!((&told["verdict"], &told["mode"]), (&json!(verdict), &json!(mode)), "{mode} {command}: {told}");
        let text = world.posse(&["rules", "judge", "--command", command]).expect_code(0).out;
        let (by_mode, named) = (verdict == "allow", text.contains(&format!("the permission mode {mode} says yes")));
        assert_eq!((text.starts_with(verdict), by_mode), (true, named), "{mode} {command}: {text}");
        assert_eq!(text.contains(&format!("  mode {mode}\n")), mode != "default", "{text}");
    }
}

fn test(world: &World, text: &str, args: &[&str]) -> Done {
    world.write("cases.jsonl", text);
    world.posse(&[&["rules", "test", "cases.jsonl"], args].concat())
}

#[test]
fn a_file_of_cases_is_checked_line_by_line() {
    let world = world();
    let fine = r#"{"id": "a", "ruleset": [["*", "ask"], ["git *", "allow"]], "command": "git status", "expected": "allow"}
{"id": "b", "ruleset": [["*", "allow"], ["rm *", "deny"]], "command": "ls; rm x"}

{"id": "c", "root": "/w/proj", "setup": [], "path": "../x", "op": "read", "expected": "outside"}
"#;
    let done = test(&world, fine, &["--format", "json"]).expect_code(0);
    let lines = done.lines();
    let found: Vec<(&str, &str)> = lines.iter().map(|line| (line["id"].as_str().unwrap(), line["verdict"].as_str().unwrap())).collect();
    assert_eq!(found, [("a", "allow"), ("b", "deny"), ("c", "outside")]);
    let keys: Vec<&String> = lines[0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["id", "verdict", "why"]);
    assert!(lines[1]["why"].as_str().unwrap().contains("rm x"), "{}", lines[1]);
    assert_eq!(test(&world, fine, &[]).expect_code(0).out.lines().count(), 3);

    let wrong = fine.replace(r#""expected": "allow""#, r#""expected": "deny""#);
    let done = test(&world, &wrong, &["--format", "json"]).expect_code(1);
    assert_eq!(done.lines()[0]["expected"], "deny");
    assert!(done.err.contains("1 not as expected"), "{}", done.err);
    assert!(test(&world, &wrong, &[]).expect_code(1).out.contains("expected deny"));
}

#[test]
fn a_case_that_cannot_be_read_is_an_error_with_its_line() {
    let world = world();
    let first = r#"{"id": "a", "ruleset": [["*", "ask"]], "command": "ls"}"#;
    for broken in [
        "{\"id\": ",
        "[]",
        r#"{"id": "x"}"#,
        r#"{"id": "x", "command": "ls"}"#,
        r#"{"id": "x", "ruleset": [["*"]], "command": "ls"}"#,
        r#"{"id": "x", "ruleset": [["*", "maybe"]], "command": "ls"}"#,
        r#"{"id": "x", "ruleset": [], "command": 1}"#,
        r#"{"id": "x", "ruleset": [], "command": "ls", "expected": "inside"}"#,
        r#"{"id": "x", "path": "a"}"#,
        r#"{"id": "x", "root": "/w/p", "setup": [{"wormhole": "/w/p"}], "path": "a", "op": "read"}"#,
    ] {
        let done = test(&world, &format!("{first}\n{broken}\n"), &[]).expect_code(2);
        assert!(done.err.contains("cases.jsonl:2: "), "{broken}: {}", done.err);
    }
    for empty in ["", "\n \n"] {
        let done = test(&world, empty, &[]).expect_code(2);
        assert!(done.err.contains("nothing to check"), "{}", done.err);
    }
    world.posse(&["rules", "test", "absent.jsonl"]).expect_code(2);
}

#[test]
fn the_shared_corpora_pass_through_the_command() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora");
    let world = world();
    for name in ["bash.jsonl", "paths.jsonl"] {
        let file = folder.join(name);
        if !file.exists() {
            eprintln!("skipped: no corpus at {}", file.display());
            continue;
        }
        let done = world.posse(&["rules", "test", file.to_str().unwrap(), "--format", "json"]).expect_code(0);
        let cases = std::fs::read_to_string(&file).unwrap().lines().filter(|line| !line.trim().is_empty()).count();
        assert_eq!(done.lines().len(), cases, "{name}");
    }
}
