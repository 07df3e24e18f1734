//! Permission modes: what `plan` denies, asks and allows, and that nothing widens it.

use std::path::Path;

use posse_session::{Rules, Touch, Verdict, judge};

use crate::{Config, PermissionMode, parse_rule_flag, testing::World};

fn plan(mut world: World, flags: &[(&str, Verdict)]) -> Config {
    world.overrides.permission_mode = Some(PermissionMode::Plan);
    world.overrides.rules =
        flags.iter().flat_map(|(text, action)| parse_rule_flag(text, *action, Path::new("/"), Path::new("/p")).unwrap()).collect();
    world.load().unwrap()
}

fn verdict(config: &Config, key: &str, pattern: &str) -> Verdict {
    let book = config.rulebook();
    let ceiling: Vec<&Rules> = book.ceiling.iter().collect();
    judge(key, &[Touch::new(key, pattern)], None, &book.rules, &ceiling).decision.verdict
}

#[test]
fn plan_looks_and_changes_nothing() {
    let config = plan(World::new(), &[]);
    let table = [
        ("edit", "src/a.rs", Verdict::Deny),
        ("webfetch", "https://example.com", Verdict::Allow),
        ("read", "src/a.rs", Verdict::Allow),
        ("read", ".env", Verdict::Ask),
        ("grep", "x", Verdict::Allow),
        ("task", "general", Verdict::Allow),
        ("external_directory", "/etc/*", Verdict::Ask),
        ("private_address", "http://10.0.0.1", Verdict::Ask),
        ("bash", "ls", Verdict::Allow),
        ("bash", "ls -l src", Verdict::Allow),
        ("bash", "file x", Verdict::Allow),
        ("bash", "git diff HEAD", Verdict::Allow),
        ("bash", "git branch", Verdict::Allow),
        ("bash", "git branch -D main", Verdict::Ask),
        ("bash", "git push", Verdict::Ask),
        ("bash", "find x", Verdict::Allow),
        ("bash", "find x -name y", Verdict::Allow),
        ("bash", "find x -delete", Verdict::Ask),
        ("bash", "find . -exec rm {} ;", Verdict::Ask),
        ("bash", "rm x", Verdict::Ask),
        ("bash", "cargo test", Verdict::Ask),
    ];
    for (key, pattern, expected) in table {
        assert_eq!(verdict(&config, key, pattern), expected, "{key} {pattern}");
    }
    assert!(config.rulebook().rules.disables("edit"), "the model is not even shown it");
    let origin = config.rulebook().rules.judge(&Touch::new("edit", "a")).origin;
    assert_eq!(origin, "mode plan");
}

#[test]
fn nothing_widens_plan_and_everything_may_tighten_it() {
    let world = || {
        World::with_user(
            r#"{"permission": {"*": "allow", "edit": "allow", "bash": {"*": "allow", "ls secret*": "deny", "cut*": "ask"}, "webfetch": "deny"}}"#,
        )
    };
    let config = plan(world(), &[("edit", Verdict::Allow), ("bash", Verdict::Allow)]);
    assert_eq!(
        [("edit", "a"), ("bash", "rm x"), ("bash", "find . -delete")].map(|(key, pattern)| verdict(&config, key, pattern)),
        [Verdict::Deny, Verdict::Ask, Verdict::Ask]
    );
    // The files' denies hold, though the mode speaks after them.
    assert_eq!(
        [("bash", "ls secret"), ("webfetch", "https://x")].map(|(key, pattern)| verdict(&config, key, pattern)),
        [Verdict::Deny, Verdict::Deny]
    );
    let strict = plan(world(), &[("bash(ls*)", Verdict::Ask), ("bash(git log*)", Verdict::Deny)]);
    assert_eq!(
        [("bash", "ls"), ("bash", "git log"), ("bash", "git diff")].map(|(key, pattern)| verdict(&strict, key, pattern)),
        [Verdict::Ask, Verdict::Deny, Verdict::Allow]
    );
    let mut project = World::with_project(r#"{"permission": {"edit": "allow", "bash": "allow"}}"#);
    project.overrides.trust = true;
    let config = plan(project, &[]);
    assert_eq!((verdict(&config, "edit", "a"), verdict(&config, "bash", "rm x")), (Verdict::Deny, Verdict::Ask), "nor a trusted project");
}

#[test]
fn other_modes_are_no_rules() {
    let plain = World::new().load().unwrap().rulebook();
    for mode in [PermissionMode::Default, PermissionMode::AcceptEdits, PermissionMode::Bypass] {
        let mut world = World::new();
        world.overrides.permission_mode = Some(mode);
        let config = world.load().unwrap();
        assert_eq!((config.permission_mode, config.rulebook()), (mode, plain.clone()));
    }
}

#[test]
fn a_mode_in_the_users_file_is_read_and_a_wrong_one_refused() {
    let config = World::with_user(r#"{"permissionMode": "accept-edits"}"#).load().unwrap();
    assert_eq!(config.permission_mode, PermissionMode::AcceptEdits);
    let row = config.show().into_iter().find(|row| row.key == "permission_mode").unwrap();
    assert!(row.value == "accept-edits" && row.origin.ends_with("posse.json:1"), "{row:?}");
    assert_eq!(
        World::with_user("{\n\"permission_mode\": \"yolo\"}").error(),
        "home/posse/posse.json:2: permission_mode: expected \"default\", \"plan\", \"accept-edits\" or \"bypass\""
    );
}
