//! What leaves posse: a session in OpenCode's shape, or every record of a tree.

use serde_json::{Value, json};

use crate::support::{Answer, Seen, World};

/// The root has an agent write a file.
fn team() -> World {
    World::new(|seen: &Seen| match (seen.user_texts()[0], seen.steps()) {
        ("go", 0) => Answer::call("agent", json!({"description": "write it", "prompt": "write", "subagent_type": "general"})),
        ("go", _) => Answer::text("It is written."),
        (_, 0) => Answer::call("write", json!({"filePath": "made.txt", "content": "one\ntwo\n"})),
        (_, _) => Answer::text("I wrote it."),
    })
}

fn ids(world: &World) -> (String, String) {
    let nodes = world.posse(&["sessions", "tree", "--format", "json"]).expect_code(0).json();
    let id = |place: usize| nodes[place]["session"].as_str().unwrap().to_owned();
    (id(0), id(1))
}

fn kinds(message: &Value) -> Vec<&str> {
    message["parts"].as_array().unwrap().iter().map(|part| part["type"].as_str().unwrap()).collect()
}

#[test]
fn a_session_is_exported_as_opencode_has_it() {
    let world = team();
    world.run(&["go"]).expect_code(0);
    let (root, child) = ids(&world);
    let export = world.posse(&["sessions", "export", &root]).expect_code(0).json();
    assert_eq!((&export["info"]["id"], &export["info"]["title"], &export["info"]["agent"]), (&json!(root), &json!("go"), &json!("build")));
    let messages = export["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages.iter().map(|message| message["info"]["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "assistant"], "{export:#}");
    assert_eq!(kinds(&messages[1]), ["step-start", "tool", "step-finish"]);
    let tool = &messages[1]["parts"][1];
    assert_eq!(
        (&tool["tool"], &tool["state"]["status"], &tool["state"]["title"]),
        (&json!("agent"), &json!("completed"), &json!("write it"))
    );
    assert_eq!(tool["state"]["metadata"]["sessionId"], json!(child));
    let below = &tool["state"]["metadata"]["summary"];
    assert_eq!((below.as_array().unwrap().len(), &below[0]["tool"], &below[0]["status"]), (1, &json!("write"), &json!("completed")));
    let output = tool["state"]["output"].as_str().unwrap();
    assert!(output.starts_with("I wrote it.") && output.matches(&child).count() == 1, "{output}");
    assert_eq!((&messages[1]["info"]["finish"], &messages[2]["info"]["finish"]), (&json!("tool-calls"), &json!("stop")));
    assert_eq!(messages[2]["parts"][1]["text"], "It is written.");

    let export = world.posse(&["sessions", "export", &child, "--format", "opencode"]).expect_code(0).json();
    assert_eq!((&export["info"]["parentID"], &export["info"]["summary"]["files"]), (&json!(root), &json!(1)));
    assert_eq!(kinds(&export["messages"][1]), ["step-start", "tool", "patch", "step-finish"], "{export:#}");
    assert_eq!(export["messages"][1]["parts"][2]["files"], json!(["made.txt"]));
}

#[test]
fn every_record_of_a_tree_is_a_line_and_no_key_is_in_any() {
    let world = team();
    world.run(&["go"]).expect_code(0);
    let (root, child) = ids(&world);
    let done = world.posse(&["sessions", "export", &root, "--format", "jsonl"]).expect_code(0);
    assert!(!done.out.contains("key-123"), "the provider's key");
    let lines = done.lines();
    for session in [&root, &child] {
        let seqs: Vec<u64> = lines.iter().filter(|line| line["session"] == **session).map(|line| line["seq"].as_u64().unwrap()).collect();
        let logged = world.posse(&["sessions", "show", session, "--format", "json"]).expect_code(0).json();
        assert_eq!(seqs, (1..=logged["events"].as_array().unwrap().len() as u64).collect::<Vec<_>>());
    }
    assert_eq!((&lines[0]["session"], &lines[0]["event"]["type"]), (&json!(root), &json!("created")));
    assert!(lines.iter().all(|line| line["at"].is_u64() && line["event"]["type"].is_string()));
    let only = world.posse(&["sessions", "export", &child, "--format", "jsonl"]).expect_code(0).lines();
    assert!(!only.is_empty() && only.iter().all(|line| line["session"] == *child));
    world.posse(&["sessions", "export", "ses_none"]).expect_code(2);
}

#[test]
fn a_subtask_is_exported_as_the_messages_that_the_seed_shows() {
    let command =
        json!({"explore": {"template": "Find all $ARGUMENTS", "description": "Explore codebase", "agent": "explore", "subtask": true}});
    let world = World::with().config("command", command).config("dialect", json!("opencode")).script(|seen: &Seen| {
        match (seen.user_texts()[0], seen.steps()) {
            ("Find all test files", 0) => Answer::call("glob", json!({"pattern": "**/*.test.ts"})),
            ("Find all test files", _) => Answer::text("I found 15 test files."),
            _ => Answer::text("There are 15."),
        }
    });
    assert_eq!(world.run(&["/explore test files"]).expect_code(0).out, "There are 15.\n");
    let (root, child) = ids(&world);
    let export = world.posse(&["sessions", "export", &root]).expect_code(0).json();
    let messages = export["messages"].as_array().unwrap();
    let told: Vec<(&Value, &Value, Vec<&str>)> =
        messages.iter().map(|message| (&message["info"]["role"], &message["info"]["agent"], kinds(message))).collect();
    let (user, assistant, build, explore) = (json!("user"), json!("assistant"), json!("build"), json!("explore"));
    assert_eq!(
        told,
        [
            (&user, &build, vec!["subtask"]),
            (&assistant, &explore, vec!["tool"]),
            (&user, &build, vec!["text"]),
            (&assistant, &build, vec!["step-start", "text", "step-finish"]),
        ],
        "{export:#}"
    );
    let subtask = &messages[0]["parts"][0];
    assert_eq!((&subtask["agent"], &subtask["prompt"], &subtask["command"]), (&explore, &json!("Find all test files"), &json!("/explore")));
    let (info, tool) = (&messages[1]["info"], &messages[1]["parts"][0]);
    assert_eq!((&info["finish"], &info["cost"], &info["parentID"]), (&json!("tool-calls"), &json!(0.0), &messages[0]["info"]["id"]));
    assert_eq!(
        (&tool["tool"], &tool["state"]["status"], &tool["state"]["input"]["subagent_type"]),
        (&json!("task"), &json!("completed"), &explore)
    );
    let metadata = format!("I found 15 test files.\n\n<task_metadata>\nsession_id: {child}\ntask_id: {child}\n</task_metadata>");
    assert_eq!(tool["state"]["output"], json!(metadata));
    assert_eq!(
        (&tool["state"]["metadata"]["sessionId"], &tool["state"]["metadata"]["summary"][0]["tool"]),
        (&json!(child), &json!("glob"))
    );
    let synthetic = &messages[2]["parts"][0];
    assert_eq!(
        (&synthetic["text"], &synthetic["synthetic"]),
        (&json!("Summarize the task tool output above and continue with your task."), &json!(true))
    );
}
