//! Trust: what a project's own settings come to when the user accepts them, for once or until they change.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::support::{Answer, Seen, World};

/// A user with a model of their own, and the settings of a project that wants another.
fn two() -> (World, World, Value) {
    let theirs = World::new(|_: &Seen| "theirs");
    let mine = World::new(|_: &Seen| "mine");
    let provider = json!({"model": "far/m1", "provider": {"far": {"api": "anthropic", "base_url": theirs.model.url, "models": {"m1": {}}}},
        "permission": {"bash": {"*": "allow", "rm*": "deny"}}});
    mine.write("posse.json", &provider.to_string());
    (mine, theirs, provider)
}

#[test]
fn a_flag_accepts_a_folder_for_this_invocation() {
    let (world, _theirs, _) = two();
    let done = world.run(&["hi"]).expect_code(0);
    assert_eq!(done.out, "mine\n");
    assert!(done.err.contains("ignored, because this folder is not trusted: posse.json: provider"), "{}", done.err);
    let trusted = world.run(&["--trust", "hi"]).expect_code(0);
    assert_eq!((trusted.out.as_str(), trusted.err.contains("ignored")), ("theirs\n", false), "{}", trusted.err);
    assert_eq!(world.run(&["hi"]).expect_code(0).out, "mine\n", "for that once");
    assert!(!world.posse_home.join("data/trust.json").exists());
}

#[test]
fn trust_is_kept_until_a_part_changes() {
    let (world, theirs, provider) = two();
    let done = world.posse(&["trust"]).expect_code(0);
    for part in ["posse.json: provider\n", "posse.json: model\n", "posse.json: permission.bash.* (allow)\n"] {
        assert!(done.out.contains(part), "{part}: {}", done.out);
    }
    let store = world.posse_home.join("data/trust.json");
    assert!(done.out.contains(store.to_str().unwrap()), "{}", done.out);
    assert_eq!(std::fs::metadata(&store).unwrap().permissions().mode() & 0o777, 0o600);
    let run = world.run(&["hi"]).expect_code(0);
    assert_eq!((run.out.as_str(), run.err.contains("ignored")), ("theirs\n", false), "{}", run.err);
    assert!(world.posse(&["models", "list"]).expect_code(0).out.contains("far/m1"));

    // Words are not what was trusted.
    world.write("AGENTS.md", "new words");
    world.write(".claude/agents/a.md", "---\nname: a\ndescription: d\n---\nwords");
    assert_eq!(world.run(&["hi"]).expect_code(0).out, "theirs\n");

    let asked = theirs.model.requests().len();
    let mut other = provider;
    other["permission"]["bash"] = json!({"*": "allow"});
    world.write("posse.json", &other.to_string());
    let run = world.run(&["hi"]).expect_code(0);
    assert_eq!(run.out, "mine\n");
    assert!(run.err.contains("changed since you trusted it: posse.json: provider"), "{}", run.err);
    assert_eq!(theirs.model.requests().len(), asked);
    world.posse(&["trust"]).expect_code(0);
    assert_eq!(world.run(&["hi"]).expect_code(0).out, "theirs\n");
}

#[test]
fn a_folder_is_named_and_json_is_given() {
    let (world, _theirs, _) = two();
    let elsewhere = world.home.clone();
    let shown = world.command(&["trust", world.project.to_str().unwrap(), "--format", "json"]).cwd(&elsewhere).run().expect_code(0).json();
    assert_eq!(shown["folder"], json!(world.project));
    assert_eq!(shown["kept_in"], json!(world.posse_home.join("data/trust.json")));
    let parts = shown["parts"].as_array().unwrap();
    assert!(parts.iter().any(|part| part["key"] == "provider" && part["file"] == "posse.json"), "{shown}");
    assert_eq!(world.run(&["hi"]).expect_code(0).out, "theirs\n");

    let plain = World::new(|_: &Seen| "ok");
    assert!(plain.posse(&["trust"]).expect_code(0).out.contains("nothing in it yet that needs trust"));
    plain.posse(&["trust", "no-such-folder"]).expect_code(2);
    plain.write("posse.json", "{\n\"permission\": 5}");
    let broken = plain.posse(&["trust"]).expect_code(2);
    assert!(broken.err.contains("posse.json:2"), "{}", broken.err);
}

#[test]
fn a_broken_list_of_trusted_folders_trusts_nobody_and_says_so() {
    let (world, _theirs, _) = two();
    world.posse(&["trust"]).expect_code(0);
    std::fs::write(world.posse_home.join("data/trust.json"), "{ half a fi").unwrap();
    let done = world.run(&["hi"]).expect_code(0);
    assert_eq!(done.out, "mine\n");
    assert!(done.err.contains("trust.json") && done.err.contains("no folder is trusted"), "{}", done.err);
}

#[test]
fn a_trusted_project_may_allow_and_still_not_bypass() {
    let outside = tempfile::tempdir().unwrap();
    let file = outside.path().join("elsewhere.txt");
    std::fs::write(&file, "far away").unwrap();
    let target = file.display().to_string();
    let tries = move || {
        let target = target.clone();
        World::with().script(move |seen: &Seen| match seen.steps() {
            0 => Answer::call("read", json!({"filePath": target})),
            _ => Answer::text(seen.last_results()[0]),
        })
    };
    let allowing = tries();
    allowing.write("posse.json", r#"{"permission": {"external_directory": "allow"}}"#);
    allowing.run(&["go"]).expect_code(4);
    assert!(allowing.run(&["--trust", "go"]).expect_code(0).out.contains("far away"));

    let bypassing = tries();
    bypassing.write(".claude/settings.json", r#"{"permissions": {"defaultMode": "bypassPermissions"}}"#);
    bypassing.write("posse.json", r#"{"permission_mode": "bypass"}"#);
    for flags in [&["go"][..], &["--trust", "go"]] {
        let done = bypassing.run(flags).expect_code(4);
        assert!(!done.out.contains("far away"), "{}", done.out);
        assert!(
            done.err.contains("permissions.defaultMode (bypassPermissions)") && done.err.contains("permission_mode (bypass)"),
            "{}",
            done.err
        );
    }
    assert!(bypassing.run(&["--permission-mode", "bypass", "go"]).expect_code(0).out.contains("far away"), "the user may");
}
