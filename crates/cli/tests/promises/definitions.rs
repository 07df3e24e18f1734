//! What a definition decides when its agent works: CC-051 to CC-067, 071, 074 and 079 through the real binary.
//!
//! How files of every family are read is tested in `config`; here the words of a file become a request.

use serde_json::{Value, json};

use super::delegation::{agent, errand, prompt, requests_of};
use crate::support::{Answer, Seen, World, call};

/// The seed's example, and what every key of it comes to.
const REVIEWER: &str = "---\nname: code-reviewer\ndescription: Reviews changes for bugs and style\ntools:\n  - Read\n  - Grep\n  - Glob\nmodel: mock/m2\n\
    permissionMode: plan\nbackground: true\nmaxTurns: 2\nmemory: project\neffort: high\ncolor: purple\nisolation: worktree\nhooks:\n  Stop: []\n---\n\nYou review code. Be brief.\n";

fn reviewing() -> World {
    World::with().file(".claude/agents/code-reviewer.md", REVIEWER).script(|seen: &Seen| match prompt(seen) {
        "go" if seen.steps() == 0 => errand(seen, [agent("code-reviewer", "review it", "review src")]),
        "go" => Answer::text("told"),
        _ if seen.tools.is_empty() => Answer::text("never"),
        _ if seen.steps() < 5 => Answer::call("glob", json!({"pattern": format!("*{}", seen.steps())})),
        _ => Answer::text("too late"),
    })
}

/// CC-053, CC-055, CC-056, CC-058, CC-059, CC-062, CC-064, CC-066, CC-067: the whole file counts where its folder is trusted.
#[test]
fn cc_067_every_key_of_the_example_is_honoured() {
    let world = reviewing();
    let shown = world.run(&["--trust", "--format", "json", "go"]).expect_code(0).json();
    let child = &requests_of(&world, "review src")[0];
    assert_eq!(child.tools, ["glob", "grep", "read"], "CC-056: the tools it lists and no others");
    assert_eq!(child.json["model"], json!("m2"), "CC-059: its model");
    assert!(child.system.starts_with("You review code. Be brief."), "CC-058: its text is its system prompt: {}", child.system);
    assert!(child.system.contains("MEMORY.md"), "CC-066: it is told of its memory");
    assert_eq!(shown["tree"][1]["agent"], json!("code-reviewer"), "CC-053");
    let steps = shown["tree"][1]["steps"].as_u64().unwrap();
    assert_eq!(steps, 3, "CC-064: two turns and one to sum up: {shown}");
    let launched = requests_of(&world, "go")[1].last_results()[0].to_owned();
    assert!(launched.starts_with("The task runs in the background."), "CC-062: {launched}");
    let root = &requests_of(&world, "go")[0];
    let described = root.tool("agent").unwrap()["description"].as_str().unwrap();
    assert!(described.contains("\n- code-reviewer: Reviews changes for bugs and style\n"), "CC-055: {described}");
}

/// CC-060, CC-061, CC-063, CC-065, CC-071: what has no machinery yet is kept and shown, and said to be without effect.
#[test]
fn cc_063_keys_without_machinery_are_kept_and_listed() {
    let world = reviewing();
    let shown = world.posse(&["agents", "show", "code-reviewer", "--format", "json"]).expect_code(0).json();
    assert_eq!(shown["later"], json!({"color": "purple"}), "a folder that is not trusted says nothing of the kind: {shown}");
    world.posse(&["trust"]).expect_code(0);
    let shown = world.posse(&["agents", "show", "code-reviewer", "--format", "json"]).expect_code(0).json();
    let later = &shown["later"];
    assert_eq!((&later["background"], &later["isolation"]), (&Value::Null, &Value::Null), "they have effect: {shown}");
    assert_eq!(
        (&shown["agent"]["background"], &shown["agent"]["isolation"]),
        (&json!(true), &json!("worktree")),
        "CC-062, CC-063: {shown}"
    );
    assert_eq!((&later["color"], &later["effort"]), (&json!("purple"), &json!("high")), "CC-065, CC-060: {shown}");
    assert_eq!(later["hooks"], json!({"Stop": []}), "CC-071: {shown}");
    assert_eq!(shown["agent"]["permission_mode"], json!("plan"), "CC-061: {shown}");
}

/// CC-061: a definition's mode is its agent's, and never more than the user's.
#[test]
fn cc_061_a_definitions_mode_counts_for_its_agent() {
    let write = || call("write", json!({"filePath": "new.txt", "content": "x"}));
    for (mode, rules, denied) in [
        ("plan", json!({}), true),
        // What the user asks to be asked about holds for whoever works below.
        ("acceptEdits", json!({"edit": "ask"}), true),
        ("acceptEdits", json!({}), false),
        ("bypassPermissions", json!({"edit": "ask"}), true),
    ] {
        let definition = json!({"writer": {"mode": "subagent", "description": "Writes", "prompt": "Write.", "permissionMode": mode}});
        let world = World::with().config("agent", definition).config("permission", rules).script(move |seen: &Seen| match prompt(seen) {
            "go" => errand(seen, [agent("writer", "write it", "write")]),
            _ if seen.steps() == 0 && seen.tools.contains(&"write".to_owned()) => Answer::calls([write()]),
            _ => Answer::text("done"),
        });
        world.run(&["--on-ask", "deny-ok", "go"]).expect_code(0);
        assert_eq!(world.project.join("new.txt").exists(), !denied, "{mode}");
    }
}

/// CC-057, CC-059: what is disallowed is taken from what is offered; `inherit` is the caller's model.
#[test]
fn cc_057_disallowed_tools_are_taken_away_and_inherit_is_the_parents_model() {
    let inline =
        json!({"lean": {"description": "Lean", "prompt": "Work.", "disallowedTools": ["Bash", "WebFetch", "Edit"], "model": "inherit"}});
    let world = World::new(|seen: &Seen| match prompt(seen) {
        "go" => errand(seen, [agent("lean", "work", "do it")]),
        _ => Answer::text("done"),
    });
    world.run(&["--agents", &inline.to_string(), "-m", "mock/m2", "go"]).expect_code(0);
    let child = &requests_of(&world, "do it")[0];
    for gone in ["bash", "webfetch", "edit"] {
        assert!(!child.tools.contains(&gone.to_owned()), "{gone}: {:?}", child.tools);
    }
    assert!(child.tools.contains(&"read".to_owned()) && child.tools.contains(&"write".to_owned()), "{:?}", child.tools);
    assert_eq!(child.json["model"], json!("m2"));
}

/// CC-052, CC-074: a call says how to start an agent this time; what the agent can do is its definition's.
#[test]
fn cc_074_a_call_cannot_widen_what_the_definition_says() {
    let definition = json!({"looker": {"mode": "subagent", "description": "Looks", "prompt": "Look.", "tools": ["Read"]}});
    let world = World::with().config("agent", definition).script(|seen: &Seen| match prompt(seen) {
        "go" => {
            let mut wish = json!({"description": "look", "prompt": "look around", "subagent_type": "looker"});
            for (key, value) in
                [("tools", json!(["Bash"])), ("hooks", json!({"Stop": []})), ("skills", json!(["x"])), ("permissionMode", json!("bypass"))]
            {
                wish[key] = value;
            }
            errand(seen, [call("agent", wish)])
        }
        _ => Answer::text("looked"),
    });
    world.run(&["go"]).expect_code(0);
    let child = &requests_of(&world, "look around")[0];
    assert_eq!(child.tools, ["read"]);
    assert!(!child.system.contains("skill"), "{}", child.system);
}

/// CC-051, CC-054: every source gives the same kind of agent; a plugin's carry its name.
#[test]
fn cc_051_every_source_gives_agents_of_one_shape() {
    let text = |name: &str| format!("---\nname: {name}\ndescription: From {name}\n---\nYou are {name}.\n");
    let world = World::with()
        .file(".posse/agents/ours.md", &text("ours"))
        .file(".opencode/agent/theirs.md", "---\ndescription: From theirs\nmode: subagent\n---\nYou are theirs.\n")
        .file(".claude/agents/claudes.md", &text("claudes"))
        .file("kit/.claude-plugin/plugin.json", "{\"name\": \"kit\"}")
        .file("kit/agents/tool.md", &text("tool"))
        .config("agent", json!({"configured": {"description": "From configured", "prompt": "You are configured."}}))
        .script(|_: &Seen| "ok");
    let file = world.posse_home.join("posse.json");
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    config["plugins"] = json!([world.project.join("kit")]);
    world.configure(&config);
    let inline = json!({"inline": {"description": "From inline", "prompt": "You are inline."}}).to_string();
    world.run(&["--agents", &inline, "--trust", "hi"]).expect_code(0);
    let described = world.model.last().tool("agent").unwrap()["description"].as_str().unwrap().to_owned();
    for name in ["ours", "theirs", "claudes", "configured", "inline"] {
        assert!(described.contains(&format!("\n- {name}: From {name}\n")), "{name}: {described}");
    }
    assert!(described.contains("\n- kit:tool: From tool\n"), "CC-054: {described}");
}

/// CC-079: a child's conversation is a log of its own, readable and resumable after the process is gone.
#[test]
fn cc_079_a_childs_conversation_is_kept_apart() {
    let world = World::new(|seen: &Seen| match prompt(seen) {
        "go" => errand(seen, [agent("general", "count", "count them")]),
        _ if seen.steps() == 0 => Answer::call("glob", json!({"pattern": "*"})),
        _ => Answer::text("three"),
    });
    let shown = world.run(&["--format", "json", "go"]).expect_code(0).json();
    let child = shown["tree"][1]["session"].as_str().unwrap();
    let own = world.posse(&["sessions", "show", child]).expect_code(0).out;
    assert!(own.contains("count them") && own.contains("▸ glob") && own.contains("three"), "{own}");
    let parents = world.posse(&["sessions", "show", shown["session"].as_str().unwrap()]).expect_code(0).out;
    assert!(!parents.contains("▸ glob"), "{parents}");
}

/// The words of an agent of ours may be the folder's, and then that is said; what the user defined stays the user's.
#[test]
fn whose_words_an_agent_speaks_is_said_when_they_are_the_folders() {
    let world = World::with()
        .file(".posse/agents/build.md", "---\ndescription: x\n---\nYou are mine now.\n")
        .file(".posse/agents/deploy.md", "---\ndescription: x\n---\nYou are mine too.\n")
        .config("agent", json!({"deploy": {"mode": "primary", "description": "Deploys", "prompt": "Deploy."}}))
        .script(|_: &Seen| "ok");
    let done = world.run(&["hi"]).expect_code(0);
    assert!(done.err.contains("build") && done.err.contains(".posse/agents/build.md") && done.err.contains("deploy"), "{}", done.err);
    assert_eq!(world.run(&["-q", "hi"]).expect_code(0).err, "");
    world.run(&["-a", "deploy", "hi"]).expect_code(0);
    assert!(world.model.last().system.starts_with("Deploy."), "{}", world.model.last().system);
}
