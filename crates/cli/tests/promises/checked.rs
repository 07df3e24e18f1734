//! What `posse agents list`, `show` and `check` say of definitions that cannot mean what they say.

use serde_json::{Value, json};

use crate::support::{Seen, World};

#[test]
fn a_model_that_there_is_not_is_told() {
    let world = World::with()
        .config("agent", json!({"lost": {"model": "mock/nothing-such", "prompt": "p"}, "fine": {"model": "mock/m2", "prompt": "p"}}))
        .config("command", json!({"go": {"template": "t", "model": "nobody/none"}}))
        .script(|_: &Seen| "never");
    let checked = world.posse(&["agents", "check"]).expect_code(0).out;
    let lines: Vec<&str> = checked.lines().filter(|line| line.contains(": model: ")).collect();
    assert_eq!(lines.len(), 2, "{checked}");
    assert!(lines[0].contains("nothing-such") && lines[0].contains("posse.json:"), "{checked}");
    assert!(lines[1].contains("nobody/none") && lines[1].ends_with("the caller's is used"), "{checked}");
    assert!(!checked.contains("ollama/,") && !checked.contains("ollama/;"), "every model that is named has a name: {checked}");
    let shown = world.posse(&["agents", "show", "lost"]).expect_code(0).out;
    assert!(shown.contains("mock/nothing-such (cannot be used here, so the caller's is: "), "{shown}");
    let shown = world.posse(&["agents", "show", "fine", "--format", "json"]).expect_code(0).json();
    assert_eq!(shown["unusable_model"], Value::Null, "{shown}");
}

#[test]
fn the_list_says_that_nobody_answers_and_what_was_denied() {
    let world = World::with()
        .config("default_agent", json!("nobody"))
        .file(".posse/agents/x.md", "---\npermission:\n  edit: denny\n---\np")
        .script(|_: &Seen| "never");
    let list = world.posse(&["agents", "list"]).expect_code(0);
    assert!(list.err.contains("default_agent: there is no agent nobody"), "{}", list.err);
    assert!(list.err.contains(".posse/agents/x.md:3: permission.edit: expected") && list.err.contains("; denied"), "{}", list.err);
}
