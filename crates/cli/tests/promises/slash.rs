//! Commands through the real binary: where they are defined, what their words come to, who runs them, and under whose rights.
//!
//! Every story has one scripted model for all agents; a conversation is known by its first words. Files and agents that a
//! prompt names are in `mentions.rs`, skills and notes in `skills.rs`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    delegation::{prompt, requests_of},
    support::{Answer, Api, Block, Seen, World},
};

/// What the model is told after every agent that the user ran.
const FOLLOW_UP: &str = "Summarize the task tool output above and continue with your task.";

/// The seed's own example.
const EXPLORE: &str = r#"{"agent": "explore", "description": "Explore codebase", "template": "Find all $1 in the codebase"}"#;
const EXPANDED: &str = "Find all TypeScript files in the codebase";

/// Every conversation is answered with what it began with.
fn echo(seen: &Seen) -> Answer {
    Answer::text(&format!("answer to {}", prompt(seen)))
}

fn first_words(world: &World) -> Vec<String> {
    world.model.requests().iter().map(|seen| prompt(seen).to_owned()).collect()
}

/// The last conversation's words of the user, without what is marked as a reminder.
fn said(seen: &Seen) -> Vec<&str> {
    seen.user_texts().into_iter().filter(|text| !text.starts_with("<system-reminder>")).collect()
}

fn reminders(seen: &Seen) -> Vec<&str> {
    seen.user_texts().into_iter().filter(|text| text.starts_with("<system-reminder>")).collect()
}

fn latest(world: &World) -> String {
    let sessions = world.posse(&["sessions", "list", "--format", "json"]).expect_code(0).json();
    sessions[0]["session"].as_str().unwrap().to_owned()
}

#[test]
fn the_same_command_from_every_place_runs_its_agent_before_any_model_is_asked() {
    let markdown = "---\nagent: explore\ndescription: Explore codebase\n---\nFind all $1 in the codebase\n";
    let map = format!("{{\"command\": {{\"explore\": {EXPLORE}}}}}");
    let places = [
        (".opencode/command/explore.md", EXPLORE, "/explore"),
        (".opencode/commands/explore.md", markdown, "/explore"),
        (".posse/commands/explore.md", markdown, "/explore"),
        (".claude/commands/look/explore.md", markdown, "/look:explore"),
        (".opencode/command/look/explore.md", markdown, "/look:explore"),
        ("posse.json", &map, "/explore"),
        ("opencode.json", &map, "/explore"),
    ];
    for (file, text, name) in places {
        let world = World::with().file(file, text).script(echo);
        let done = world.run(&[&format!("{name} TypeScript files")]).expect_code(0);
        let asked = world.model.requests();
        assert_eq!(asked.len(), 2, "{file}: {done:#?}");
        let (child, primary) = (&asked[0], &asked[1]);
        assert_eq!(child.user_texts(), [EXPANDED], "{file}: a child hears exactly the expanded words");
        assert!(!child.tools.contains(&"edit".to_owned()) && primary.tools.contains(&"edit".to_owned()), "{file}: it is explore");
        let roles: Vec<&str> = primary.messages.iter().map(|message| message.role.as_str()).collect();
        assert_eq!(roles[..2], ["user", "assistant"], "{file}");
        let words = primary.user_texts();
        assert!(words[0].contains("The user ran the agent `explore` directly") && !words[0].contains(EXPANDED), "{file}: {words:?}");
        assert_eq!(words.iter().filter(|words| words.contains(FOLLOW_UP)).count(), 1, "{file}: {words:?}");
        let calls = primary.calls();
        let [Block::Call { name: tool, input, .. }] = calls[..] else { panic!("{file}: {calls:?}") };
        assert_eq!(tool, "agent", "{file}");
        assert_eq!(
            (&input["prompt"], &input["description"], &input["subagent_type"]),
            (&json!(EXPANDED), &json!("Explore codebase"), &json!("explore")),
            "{file}"
        );
        let result = primary.last_results();
        assert!(result.len() == 1 && result[0].starts_with(&format!("answer to {EXPANDED}")), "{file}: {result:?}");
        assert_eq!(done.out, format!("answer to {}\n", words[0]), "{file}");
    }
}

/// Only what the seed's example shows, without ids, times and what differs between machines.
fn shape(message: &Value) -> Value {
    let info = &message["info"];
    let mut shape = json!({"role": info["role"], "agent": info["agent"]});
    for key in ["finish", "cost", "tokens"] {
        if !info[key].is_null() {
            shape[key] = info[key].clone();
        }
    }
    let known = ["type", "text", "synthetic", "agent", "description", "prompt", "command", "tool"];
    let parts = message["parts"].as_array().unwrap().iter().map(|part| {
        let mut kept: serde_json::Map<String, Value> =
            known.iter().filter(|key| !part[**key].is_null()).map(|key| ((*key).to_owned(), part[*key].clone())).collect();
        for key in ["status", "input", "title", "error"].iter().filter(|key| !part["state"][**key].is_null()) {
            kept.insert((*key).to_owned(), part["state"][*key].clone());
        }
        Value::Object(kept)
    });
    shape["parts"] = parts.collect();
    shape
}

#[test]
fn the_seeds_three_messages_are_what_is_exported() {
    let world =
        World::with().file(".opencode/command/explore.md", EXPLORE).config("dialect", json!("opencode")).script(|seen: &Seen| {
            match (prompt(seen), seen.steps()) {
                (EXPANDED, 0) => Answer::call("glob", json!({"pattern": "**/*.ts"})),
                (EXPANDED, _) => Answer::text("I found 15 test files..."),
                _ => Answer::text("There are 15."),
            }
        });
    world.run(&["/explore TypeScript files"]).expect_code(0);
    let nodes = world.posse(&["sessions", "tree", "--format", "json"]).expect_code(0).json();
    let (root, child) = (nodes[0]["session"].as_str().unwrap(), nodes[1]["session"].as_str().unwrap());
    let export = world.posse(&["sessions", "export", root, "--format", "opencode"]).expect_code(0).json();
    let messages = export["messages"].as_array().unwrap();
    let input = json!({"prompt": EXPANDED, "description": "Explore codebase", "subagent_type": "explore", "command": "/explore"});
    let expected = [
        json!({"role": "user", "agent": "build",
            "parts": [{"type": "subtask", "agent": "explore", "description": "Explore codebase", "prompt": EXPANDED, "command": "/explore"}]}),
        json!({"role": "assistant", "agent": "explore", "finish": "tool-calls", "cost": 0.0,
            "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
            "parts": [{"type": "tool", "tool": "task", "status": "completed", "input": input, "title": "Explore codebase"}]}),
        json!({"role": "user", "agent": "build", "parts": [{"type": "text", "text": FOLLOW_UP, "synthetic": true}]}),
    ];
    assert_eq!(messages[..3].iter().map(shape).collect::<Vec<_>>(), expected, "{export:#}");
    for message in &messages[..3] {
        let (info, part) = (&message["info"], &message["parts"][0]);
        assert_eq!((&info["sessionID"], &part["sessionID"], &part["messageID"]), (&json!(root), &json!(root), &info["id"]), "{message:#}");
        assert!(part["id"].is_string(), "{message:#}");
    }
    assert_eq!(messages[1]["info"]["parentID"], messages[0]["info"]["id"]);
    for at in [0, 2] {
        assert_eq!(messages[at]["info"]["model"], json!({"providerID": "mock", "modelID": "m1"}), "{export:#}");
    }
    let (tool, state) = (&messages[1]["parts"][0], &messages[1]["parts"][0]["state"]);
    assert!(tool["callID"].is_string() && state["time"]["start"].as_u64() <= state["time"]["end"].as_u64(), "{tool:#}");
    assert_eq!(state["metadata"]["sessionId"], json!(child));
    let summary = &state["metadata"]["summary"][0];
    assert_eq!((&summary["tool"], &summary["status"]), (&json!("glob"), &json!("completed")));
    assert!(state["output"].as_str().unwrap().starts_with("I found 15 test files...\n\n<task_metadata>\n"), "{tool:#}");
}

#[test]
fn a_command_whose_agent_is_nobody_fails_as_a_call_and_the_primary_goes_on() {
    let command = json!({"lost": {"template": "Look", "agent": "explorre", "subtask": true, "description": "Looks"}});
    let world = World::with().config("command", command).script(|_: &Seen| Answer::text("Nobody of that name."));
    let done = world.run(&["--format", "json", "/lost"]).expect_code(0).json();
    assert_eq!((&done["status"], &done["result"]), (&json!("done"), &json!("Nobody of that name.")));
    assert_eq!(world.model.requests().len(), 1);
    let seen = world.model.last();
    let result = seen.last_results();
    assert!(
        result[0].starts_with("Tool execution failed: ") && result[0].contains("explorre") && result[0].contains("explore"),
        "{result:?}"
    );
    assert!(seen.user_texts().iter().any(|text| text.contains(FOLLOW_UP)), "{:?}", seen.user_texts());
    let export = world.posse(&["sessions", "export", &latest(&world)]).expect_code(0).json();
    let state = &export["messages"][1]["parts"][0]["state"];
    assert_eq!(state["status"], "error", "{export:#}");
    assert!(state["error"].as_str().unwrap().starts_with("Tool execution failed: "), "{state:#}");
}

#[test]
fn the_agents_mode_and_the_command_decide_who_runs_it() {
    let agents = json!({
        "pri": {"mode": "primary", "description": "d", "prompt": "I am pri."},
        "sub": {"mode": "subagent", "description": "d", "prompt": "I am sub."},
        "both": {"mode": "all", "description": "d", "prompt": "I am both."},
    });
    let rows = [
        ("pri", None, false),
        ("pri", Some(true), true),
        ("pri", Some(false), false),
        ("sub", None, true),
        ("sub", Some(true), true),
        ("sub", Some(false), false),
        ("both", None, false),
        ("both", Some(true), true),
        ("both", Some(false), false),
    ];
    let mut commands = json!({});
    for (at, (agent, subtask, _)) in rows.iter().enumerate() {
        commands[format!("c{at}")] = json!({"template": format!("do {at}"), "agent": agent});
        if let Some(subtask) = subtask {
            commands[format!("c{at}")]["subtask"] = json!(subtask);
        }
    }
    let world = World::with().config("agent", agents).config("command", commands).script(echo);
    for (at, (agent, subtask, is_subtask)) in rows.into_iter().enumerate() {
        let asked = world.model.requests().len();
        let done = world.run(&["--format", "json", &format!("/c{at}")]).expect_code(0).json();
        let requests = &world.model.requests()[asked..];
        let row = format!("{agent}, subtask {subtask:?}: {done:#}");
        assert_eq!(prompt(&requests[0]), format!("do {at}"), "{row}");
        assert!(requests[0].system.contains(&format!("I am {agent}.")), "{row}");
        assert_eq!(requests.len(), if is_subtask { 2 } else { 1 }, "{row}");
        assert_eq!(done["tree"].as_array().unwrap().len(), requests.len(), "{row}");
    }
}

#[test]
fn several_commands_and_words_in_one_prompt_run_in_the_order_they_are_written() {
    let commands = json!({
        "one": {"template": "first $ARGUMENTS", "agent": "general"},
        "two": {"template": "second $ARGUMENTS", "agent": "explore"},
        "say": {"template": "inline $ARGUMENTS"},
    });
    let world = World::with().config("command", commands).script(echo);
    world.run(&["/one a\n/two b\n/one c"]).expect_code(0);
    let words = first_words(&world);
    assert_eq!(words[..3], ["first a", "second b", "first c"]);
    assert_eq!(words.len(), 4, "and then the primary, once: {words:?}");
    let last = world.model.last();
    assert_eq!(last.calls().len(), 3);
    let results: Vec<&str> =
        last.results().iter().map(|block| if let Block::Result { text, .. } = block { text.as_str() } else { "" }).collect();
    for (result, words) in results.iter().zip(["first a", "second b", "first c"]) {
        assert!(result.starts_with(&format!("answer to {words}")), "{results:?}");
    }

    let asked = world.model.requests().len();
    world.run(&["Before.\n\n/one a\n/say hello\nAfter,\nin two lines."]).expect_code(0);
    let requests = world.model.requests().split_off(asked);
    assert_eq!(requests.iter().map(|seen| prompt(seen)).collect::<Vec<_>>(), ["first a", "Before."]);
    let texts = said(&requests[1]);
    let ran = texts.iter().position(|text| text.contains("ran the agent `general`")).unwrap();
    let rest: Vec<&str> = texts.iter().enumerate().filter(|(at, _)| *at != ran).map(|(_, text)| *text).collect();
    assert_eq!((ran, &rest[..3]), (1, &["Before.", "inline hello", "After,\nin two lines."][..]), "{texts:?}");
}

#[test]
fn a_command_that_is_not_there_begins_nothing_and_paths_are_words() {
    let world = World::with().config("command", json!({"nape": {"template": "t"}})).script(echo);
    for (prompt, near) in [("/nope x", "/nape"), ("Do this.\n/nope", "/nape"), ("/reviev", "/review")] {
        let done = world.run(&[prompt]).expect_code(2);
        assert!(done.err.contains("there is no command `/") && done.err.contains(near), "{prompt}: {}", done.err);
        assert_eq!(done.out, "", "{prompt}");
    }
    let none = world.run(&["/zzzzzzzz"]).expect_code(2);
    assert!(none.err.contains("/init") && none.err.contains("/nape") && none.err.contains("/review"), "{}", none.err);
    assert!(world.model.requests().is_empty());
    assert_eq!(world.posse(&["sessions", "list", "--format", "json"]).expect_code(0).json(), json!([]), "no session was begun");
    for words in [
        "/etc/hosts is odd",
        "/usr/bin/x",
        "/",
        "/ nope",
        " /nope is what I typed",
        "and/or /nope",
        "//nope",
        "/12 of it",
        "/1nope",
        "/nope.md",
    ] {
        assert_eq!(world.run(&[words]).expect_code(0).out, format!("answer to {words}\n"));
        assert_eq!(world.model.last().user_texts()[0], words);
    }
}

#[test]
fn a_pipe_beside_a_prompt_is_never_a_command_and_a_pipe_alone_may_be() {
    let world = World::with().config("command", json!({"hello": {"template": "Say hello to $ARGUMENTS"}})).script(echo);
    world.command(&["run", "Look at this"]).stdin("/hello you\n/nope\n@README.md").run().expect_code(0);
    assert_eq!(said(&world.model.last()), ["Look at this", "/hello you\n/nope\n@README.md"]);
    world.command(&["run"]).stdin("/hello you\n").run().expect_code(0);
    assert_eq!(said(&world.model.last()), ["Say hello to you"]);
    world.command(&["run", "-"]).stdin("/hello you").run().expect_code(0);
    assert_eq!(said(&world.model.last()), ["Say hello to you"]);
    world.command(&["run"]).stdin("/nope").run().expect_code(2);
    world.command(&["run", "/hello", "you"]).stdin("/nope").run().expect_code(0);
    assert_eq!(said(&world.model.last()), ["Say hello to you", "/nope"]);
}

#[test]
fn arguments_are_put_where_the_template_wants_them() {
    let rows = [
        ("a $1 b $2", "x y z", "a x b y z"),
        ("a $2 b $1", "x y", "a y b x"),
        ("a $1", "\"two words\" more", "a two words more"),
        ("all: $ARGUMENTS.", "x 'y z'", "all: x 'y z'."),
        ("none", "", "none"),
        ("none", "x y", "none\n\nx y"),
        ("gone $1|$2", "x", "gone x|"),
        ("as typed $1", "$2 $ARGUMENTS `!id` !`id` @README.md", "as typed $2 $ARGUMENTS `!id` !`id` @README.md"),
    ];
    let mut commands = json!({});
    for (at, (template, _, _)) in rows.iter().enumerate() {
        commands[format!("c{at}")] = json!({"template": template});
    }
    let world = World::with().config("command", commands).script(echo);
    for (at, (template, arguments, expected)) in rows.into_iter().enumerate() {
        world.run(&[&format!("/c{at} {arguments}")]).expect_code(0);
        assert_eq!(said(&world.model.last())[0], expected, "{template:?} with {arguments:?}");
    }
}

#[test]
fn a_command_line_in_a_template_runs_under_the_users_rules() {
    let commands = json!({
        "day": {"template": "It is:\n!`echo tuesday; echo err >&2`\nthen !`printf x`."},
        "show": {"template": "Got !`printf '[%s]' $ARGUMENTS` and !`printf '<%s>' \"$1\"`"},
        "fails": {"template": "Got !`echo half; exit 3`."},
        "files": {"template": "Look at @notes.txt and @no-such-file."},
    });
    let plan = World::with().config("command", commands).file("notes.txt", "the notes\n");
    let world = plan.config("permission", json!({"bash": {"*": "allow", "rm *": "deny", "git push*": "ask"}})).script(echo);
    world.run(&["/day"]).expect_code(0);
    let text = said(&world.model.last())[0].to_owned();
    assert!(text.starts_with("It is:\ntuesday") && text.ends_with("then x."), "{text}");
    assert!(world.model.last().calls().is_empty(), "the model sees what came of it, not the call");

    let nasty = "$(touch pwned) `touch pwned` ; touch pwned #' \"; touch pwned && touch pwned\n| touch pwned > pwned";
    let nasty = nasty.split('\n').next().unwrap();
    world.run(&[&format!("/show {nasty}")]).expect_code(0);
    assert!(!world.project.join("pwned").exists(), "{:?}", world.model.last().user_texts());
    let text = said(&world.model.last())[0].to_owned();
    assert!(text.contains("[$(touch]") && text.contains("pwned)"), "{text}");

    world.run(&["/fails"]).expect_code(0);
    let text = said(&world.model.last())[0].to_owned();
    assert!(text.contains("half") && text.contains('3'), "{text}");

    world.run(&["/files"]).expect_code(0);
    let last = world.model.last();
    assert_eq!(said(&last)[0], "Look at @notes.txt and @no-such-file.");
    let attached = reminders(&last);
    assert!(attached.iter().any(|text| text.contains("notes.txt") && text.contains("the notes")), "{attached:?}");
    assert!(!attached.iter().any(|text| text.contains("no-such-file")), "{attached:?}");
}

#[test]
fn the_command_of_the_handbook_does_what_the_handbook_says() {
    let handbook = include_str!("../../../../docs/commands.md");
    let example = handbook.split("```markdown\n").nth(1).unwrap().split("```").next().unwrap();
    for api in [Api::Anthropic, Api::OpenAi] {
        let world = World::with().api(api).file("src/login.rs", "fn login() {}\n").script(echo);
        std::fs::create_dir_all(world.posse_home.join("commands")).unwrap();
        std::fs::write(world.posse_home.join("commands/look.md"), example).unwrap();
        world.run(&["/look src/login.rs unchecked input"]).expect_code(0);
        let last = world.model.last();
        let text = said(&last)[0];
        assert!(text.starts_with("Review @src/login.rs for unchecked input. The last commits were:\n"), "{api:?}: {text}");
        assert!(text.trim_end().ends_with(" init") || text.contains(" init\n"), "{api:?}: {text}");
        assert!(
            last.user_texts().iter().any(|text| text.contains("The user attached src/login.rs:") && text.contains("fn login() {}")),
            "{api:?}"
        );
        assert!(!last.tools.contains(&"edit".to_owned()), "{api:?}: plan answers");
    }
}

#[test]
fn an_agent_that_the_user_ran_is_told_alike_in_both_protocols() {
    for api in [Api::Anthropic, Api::OpenAi] {
        let world = World::with().api(api).file(".opencode/command/explore.md", EXPLORE).script(echo);
        world.run(&["/explore TypeScript files\n/explore tests"]).expect_code(0);
        let last = world.model.last();
        assert_eq!((world.model.requests().len(), last.calls().len(), last.results().len()), (3, 2, 2), "{api:?}");
        assert_eq!(last.user_texts().iter().filter(|text| text.contains(FOLLOW_UP)).count(), 2, "{api:?}: {:?}", last.user_texts());
        assert_eq!(world.run(&["-c", "thanks"]).expect_code(0).code, Some(0), "{api:?}: and the conversation goes on");
    }
}

#[test]
fn what_the_rules_forbid_in_a_template_is_said_in_its_place_and_what_they_ask_about_is_counted() {
    let commands = json!({"wipe": {"template": "Result: !`rm -rf keep.txt`."}, "push": {"template": "Result: !`git push origin`."}});
    let plan = World::with().config("command", commands).file("keep.txt", "kept");
    let world = plan.config("permission", json!({"bash": {"*": "allow", "rm *": "deny", "git push*": "ask"}})).script(echo);
    world.run(&["/wipe"]).expect_code(0);
    let text = said(&world.model.last())[0].to_owned();
    assert!(text.starts_with("Result: (not run: ") && text.contains("rm *"), "{text}");
    assert_eq!(world.read("keep.txt"), "kept");
    let done = world.run(&["--format", "json", "/push"]).expect_code(4).json();
    assert_eq!(done["denied"][0]["tool"], "bash", "{done:#}");
    let text = said(&world.model.last())[0].to_owned();
    assert!(text.starts_with("Result: (not run: "), "{text}");
    assert_eq!(world.run(&["--allow", "bash(git push*)", "/push"]).expect_code(0).err.matches("denied").count(), 0);
    let text = said(&world.model.last())[0].to_owned();
    assert!(!text.contains("not run"), "{text}");
}

#[test]
fn a_folder_that_is_not_trusted_brings_words_and_nothing_else() {
    let file = "---\nmodel: mock/m2\nagent: plan\nallowed-tools: Bash\n---\nMade: !`touch made.txt; echo made`. See @/etc/hostname.\n";
    let world = World::with().file(".posse/commands/go.md", file).script(echo);
    let done = world.run(&["/go"]).expect_code(0);
    assert!(!world.project.join("made.txt").exists());
    let last = world.model.last();
    let text = said(&last)[0];
    assert!(text.contains("touch made.txt") && text.contains("not run: the folder that this command comes from is not trusted"), "{text}");
    assert_eq!(last.json["model"], "m1");
    assert!(last.tools.contains(&"edit".to_owned()), "build answers");
    assert!(!last.user_texts().iter().any(|text| text.contains("The user attached")), "{:?}", last.user_texts());
    assert!(done.err.contains("not trusted: .posse/commands/go.md: allowed_tools, model, !`cmd`"), "{}", done.err);
    world.run(&["--trust", "--allow", "external_directory", "/go"]).expect_code(0);
    assert!(world.project.join("made.txt").exists());
    let last = world.model.last();
    assert_eq!((&last.json["model"], said(&last)[0]), (&json!("m2"), "Made: made. See @/etc/hostname."));
    assert!(!last.tools.contains(&"edit".to_owned()), "plan answers");
}

#[test]
fn who_answers_a_command_and_on_which_model_is_for_that_turn_only() {
    let world = World::with()
        .config("agent", json!({"poet": {"mode": "subagent", "description": "d", "prompt": "You are a poet."}}))
        .config("command", json!({"rhyme": {"template": "Rhyme on $1", "agent": "poet", "subtask": false, "model": "mock/m2"}}))
        .script(|seen: &Seen| Answer::text(&format!("{} says so", seen.json["model"].as_str().unwrap())));
    assert_eq!(world.run(&["/rhyme cats"]).expect_code(0).out, "m2 says so\n");
    let rhyme = world.model.last();
    assert!(rhyme.system.contains("You are a poet.") && said(&rhyme)[0] == "Rhyme on cats");
    assert_eq!(world.run(&["-c", "and now?"]).expect_code(0).out, "m1 says so\n");
    let next = world.model.last();
    assert!(!next.system.contains("You are a poet.") && next.steps() == 1, "the session's own agent again, with all that was said");
    assert!(next.user_texts().contains(&"Rhyme on cats"), "{:?}", next.user_texts());
    assert_eq!(world.run(&["-c", "/rhyme dogs"]).expect_code(0).out, "m2 says so\n");
    assert_eq!(world.run(&["-c", "thanks"]).expect_code(0).out, "m1 says so\n");
    assert_eq!(world.model.last().steps(), 3);
}

#[test]
fn allowed_tools_lift_an_ask_for_that_turn_and_never_a_deny() {
    let commands = json!({
        "tag": {"template": "tag it", "allowed-tools": "Bash(git tag:*), Bash(git push:*)"},
        "plain": {"template": "plain"},
    });
    let rules = json!({"bash": {"*": "allow", "git tag*": "ask", "git push*": "deny"}});
    let world = World::with().config("command", commands).config("permission", rules).script(|seen: &Seen| {
        let last = *seen.user_texts().iter().rev().find(|text| !text.starts_with('<')).unwrap();
        let answered = seen.last_results().first().map(|text| (*text).to_owned());
        match (last, answered) {
            (_, Some(result)) => Answer::text(&result),
            ("push", _) => Answer::call("bash", json!({"command": "git push", "description": "d"})),
            _ => Answer::call("bash", json!({"command": "git tag v1 && git tag && git tag -d v1", "description": "d"})),
        }
    });
    assert!(world.run(&["/tag"]).expect_code(0).out.contains("v1"));
    world.run(&["-c", "again"]).expect_code(4);
    world.run(&["/plain"]).expect_code(4);
    let denied = world.run(&["/tag\npush"]).expect_code(0);
    assert!(denied.out.contains("git push"), "{}", denied.out);
    assert!(denied.err.contains("denied"), "{}", denied.err);
    let both = world.run(&["--format", "json", "-c", "once more"]).expect_code(4).json();
    assert_eq!(both["denied"].as_array().unwrap().len(), 1, "{both:#}");
}

#[test]
fn the_model_and_the_rights_of_a_subtask_are_its_childs() {
    let commands = json!({"tag": {"template": "tag it", "agent": "general", "model": "mock/m2", "allowed-tools": ["Bash(git tag:*)"]}});
    let rules = json!({"bash": {"*": "allow", "git tag*": "ask"}});
    let world = World::with().config("command", commands).config("permission", rules).script(|seen: &Seen| {
        match (seen.json["model"].as_str().unwrap(), seen.steps()) {
            ("m2", 0) => Answer::call("bash", json!({"command": "git tag", "description": "d"})),
            ("m2", _) => Answer::text("tagged"),
            (_, 1) => Answer::call("bash", json!({"command": "git tag", "description": "d"})),
            _ => Answer::text(seen.last_results()[0]),
        }
    });
    let done = world.run(&["--format", "json", "/tag"]).expect_code(4).json();
    let models: Vec<String> = world.model.requests().iter().map(|seen| seen.json["model"].as_str().unwrap().to_owned()).collect();
    assert_eq!(models, ["m2", "m2", "m1", "m1"]);
    let root = &done["tree"][0]["session"];
    let denied = done["denied"].as_array().unwrap();
    assert_eq!(denied.len(), 1, "only the primary had no leave: {done:#}");
    assert_eq!(root, &done["session"], "{done:#}");
}

#[test]
fn a_command_whose_agent_cannot_answer_fails_and_one_whose_model_is_missing_says_so() {
    let commands = json!({
        "who": {"template": "do it", "agent": "nobody"},
        "what": {"template": "do it", "model": "mock/none"},
        "both": {"template": "do it", "model": "mock/none", "agent": "general"},
    });
    let world = World::with().config("command", commands).script(|_: &Seen| Answer::text("ok"));
    // Nobody else answers in its place: another agent may have wider rights.
    let failed = world.run(&["/who"]).expect_code(1);
    assert!(failed.err.contains("There is no agent named `nobody`"), "{}", failed.err);
    assert!(world.model.requests().is_empty(), "{:?}", first_words(&world));
    world.run(&["/what"]).expect_code(0);
    let last = world.model.last();
    assert_eq!((said(&last), &last.json["model"]), (vec!["do it"], &json!("m1")));
    assert!(reminders(&last).iter().any(|text| text.contains("mock/none")), "{:?}", last.user_texts());
    world.run(&["/both"]).expect_code(0);
    let last = world.model.last();
    assert!(last.last_results()[0].starts_with("Tool execution failed: unknown model `mock/none`"), "{:?}", last.last_results());
}

#[test]
fn what_a_command_allows_is_not_more_than_was_meant() {
    let template = "write {\"filePath\": \"$1\", \"content\": \"x\"}";
    let commands = json!({
        "put": {"template": template, "allowed-tools": "Edit, Write"},
        "sub": {"template": template, "agent": "general", "allowed-tools": "Edit, Write"},
    });
    let world = World::with().config("command", commands).script(|seen: &Seen| {
        match (prompt(seen).strip_prefix("write "), seen.last_results().first()) {
            (_, Some(result)) => Answer::text(result),
            (Some(input), None) => Answer::call("write", serde_json::from_str(input).unwrap()),
            _ => Answer::text("ok"),
        }
    });
    for (command, file, code) in [
        ("put", "posse.json", 4),
        ("put", ".posse/agents/new.md", 4),
        ("put", "../out.txt", 4),
        ("sub", "posse.json", 4),
        ("sub", "../out.txt", 4),
        ("put", "plain.txt", 0),
    ] {
        world.run(&[&format!("/{command} {file}")]).expect_code(code);
        assert_eq!(world.project.join(file).exists(), code == 0, "/{command} {file}");
    }
    // Whoever plans has nobody edit.
    let planned = world.run(&["--agent", "plan", "/sub planned.txt"]).expect_code(0);
    assert!(planned.out.starts_with("There is no tool named `write`.") && !world.project.join("planned.txt").exists(), "{planned:#?}");
}

#[test]
fn a_command_that_is_interrupted_is_not_lost_and_one_that_is_posted_is_run_by_the_owner() {
    let commands = json!({
        "slow": {"template": "got !`touch begun; sleep 600`"},
        "hello": {"template": "expanded $1"},
        "sub": {"template": "subbed $1", "agent": "general"},
    });
    let world = World::with().config("command", commands).script(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("wait", 0) => Answer::call("bash", json!({"command": "until test -e go; do sleep 0.05; done", "description": "d"})),
        _ => Answer::text("ok"),
    });
    let running = world.start(&["run", "/slow"]);
    wait_for(&world, "begun");
    running.interrupt();
    assert_eq!(running.wait(Duration::from_secs(30)).code, Some(130));
    assert!(world.model.requests().is_empty());
    world.run(&["-c", "hello"]).expect_code(0);
    let last = world.model.last();
    let texts = said(&last);
    let place = |found: &dyn Fn(&str) -> bool| texts.iter().position(|text| found(text)).unwrap_or_else(|| panic!("{texts:?}"));
    let (before, after) = (place(&|text| text.starts_with("got ") && text.contains("cut off")), place(&|text| text == "hello"));
    assert!(before < after, "what was typed first is said first: {texts:?}");

    let asked = world.model.requests().len();
    let owner = world.start(&["run", "wait"]);
    assert!(world.model.wait_for_requests(asked + 1));
    let letter = world.start(&["run", "-c", "/hello you\n/sub it"]);
    assert!(letter.wait_for_err("posting to it", Duration::from_secs(30)), "{}", letter.err_so_far());
    world.write("go", "");
    assert_eq!((letter.wait(Duration::from_secs(60)).code, owner.wait(Duration::from_secs(60)).code), (Some(0), Some(0)));
    let words: Vec<String> = first_words(&world).split_off(asked);
    assert_eq!(words.iter().filter(|words| *words == "subbed it").count(), 1, "{words:?}");
    assert!(world.model.last().user_texts().contains(&"expanded you"), "{:?}", world.model.last().user_texts());
}

/// Waits until a file of the project is there.
#[track_caller]
fn wait_for(world: &World, file: &str) {
    let end = std::time::Instant::now() + Duration::from_secs(30);
    while !world.project.join(file).exists() {
        assert!(std::time::Instant::now() < end, "{file} never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn fifty_agents_in_one_prompt_each_run_once_and_in_order() {
    let world =
        World::with().config("command", json!({"go": {"template": "go $1", "agent": "general"}})).script(|seen: &Seen| {
            match prompt(seen).strip_prefix("go ") {
                Some(number) => Answer::text(&format!("went {number}")),
                None => Answer::text("all went"),
            }
        });
    let lines: Vec<String> = (0..50).map(|at| format!("/go {at}")).collect();
    let done = world.command(&["run", &lines.join("\n")]).within(Duration::from_secs(120)).run().expect_code(0);
    assert_eq!(done.out, "all went\n");
    let words = first_words(&world);
    assert_eq!(words[..50], (0..50).map(|at| format!("go {at}")).collect::<Vec<_>>());
    assert_eq!((words.len(), world.model.last().results().len()), (51, 50));
}

#[test]
fn a_template_of_two_hundred_thousand_letters_and_one_that_names_itself_are_only_words() {
    let long = "word ".repeat(40_000);
    let world = World::with()
        .file(".posse/commands/long.md", &format!("{long}$1"))
        .file(".posse/commands/loop.md", "See @.posse/commands/loop.md and @one.md")
        .file("one.md", "See @two.md")
        .file("two.md", "See @one.md")
        .config("command", json!({"sub": {"template": format!("sub {long}$1"), "agent": "general"}}))
        .script(|_: &Seen| Answer::text("ok"));
    world.run(&["/long end"]).expect_code(0);
    assert_eq!(said(&world.model.last())[0], format!("{long}end"));
    world.run(&["/sub end"]).expect_code(0);
    let child = requests_of(&world, &format!("sub {long}end"));
    assert_eq!(child.len(), 1, "{:?}", first_words(&world).iter().map(|text| text.len()).collect::<Vec<_>>());
    world.run(&["--trust", "--allow", "read", "/loop"]).expect_code(0);
    let last = world.model.last();
    assert_eq!(reminders(&last).iter().filter(|text| text.contains("Attached by the command: ")).count(), 2, "{:?}", last.user_texts());
}

#[test]
fn a_command_whose_file_is_gone_when_the_session_goes_on_is_not_run_again() {
    let world = World::with()
        .file(".posse/commands/go.md", "---\nagent: general\n---\ngo $1")
        .script(|seen: &Seen| Answer::text(&format!("answer {}", seen.user_texts().len())));
    let file = world.project.join(".posse/commands/go.md");
    let (mut words_only, mut as_it_was) = (0, 0);
    for append in 1..APPENDS_MAX {
        world.write(".posse/commands/go.md", "---\nagent: general\n---\ngo $1");
        let asked = world.model.requests().len();
        let died = world.command(&["run", "/go now"]).env("POSSE_CRASH_AT", &format!("after_append:{append}")).run();
        if died.signal.is_none() {
            assert!(0 < words_only && 0 < as_it_was, "both were seen: {words_only}, {as_it_was}");
            return;
        }
        std::fs::remove_file(&file).unwrap();
        let resumed = world.posse(&["sessions", "resume", &latest(&world)]).expect_code(0);
        assert!(resumed.out.starts_with("answer "), "append {append}: {resumed:#?}");
        let words: Vec<String> = world.model.requests()[asked..].iter().map(|seen| prompt(seen).to_owned()).collect();
        // Before it was read it is words that name a command which is gone; after, it is what it was.
        if words.iter().any(|words| words == "/go now") {
            words_only += 1;
            assert!(!words.contains(&"go now".to_owned()), "append {append}: {words:?}");
        } else {
            as_it_was += 1;
            assert!(words.contains(&"go now".to_owned()), "append {append}: {words:?}");
        }
    }
    panic!("a run has an end");
}

/// More than any run of these stories appends.
const APPENDS_MAX: usize = 80;

#[test]
fn killed_at_any_append_every_agent_of_a_prompt_runs_once() {
    let commands = json!({
        "one": {"template": "one !`echo ran >> ran.txt; echo ran`", "agent": "general"},
        "two": {"template": "two", "agent": "explore"},
    });
    let script = |seen: &Seen| match prompt(seen) {
        "one ran" if seen.steps() == 0 => Answer::call("bash", json!({"command": "echo child >> child.txt", "description": "d"})),
        "one ran" => Answer::text("one is done"),
        "two" => Answer::text("two is done"),
        _ => Answer::text("all done"),
    };
    for append in 1..APPENDS_MAX {
        let world = World::with().config("command", commands.clone()).script(script);
        let died = world.command(&["run", "/one\n/two"]).env("POSSE_CRASH_AT", &format!("before_append:{append}")).run();
        if died.signal.is_none() {
            assert_eq!((died.code, died.out.as_str()), (Some(0), "all done\n"), "{died:#?}");
            assert!(10 < append, "there were moments to die in");
            return;
        }
        let sessions = world.posse(&["sessions", "list", "--format", "json"]).expect_code(0).json();
        if sessions.as_array().unwrap().is_empty() {
            assert_eq!(append, 1, "only the first append can lose the prompt");
            continue;
        }
        let resumed = world.command(&["sessions", "resume", &latest(&world)]).within(Duration::from_secs(60)).run();
        assert_eq!((resumed.code, resumed.out.as_str()), (Some(0), "all done\n"), "append {append}: {resumed:#?}");
        let nodes = world.posse(&["sessions", "tree", "--format", "json"]).expect_code(0).json();
        let agents: Vec<&str> = nodes.as_array().unwrap().iter().map(|node| node["agent"].as_str().unwrap()).collect();
        assert_eq!(agents, ["build", "general", "explore"], "append {append}: {nodes:#}");
        let last = world.model.last();
        assert_eq!((last.calls().len(), last.results().len()), (2, 2), "append {append}");
        for file in ["ran.txt", "child.txt"] {
            let lines = std::fs::read_to_string(world.project.join(file)).unwrap_or_default();
            assert!(lines.lines().count() <= 1, "append {append}: {file} was written {lines:?}");
        }
        let follow_ups = last.user_texts().iter().filter(|text| text.contains(FOLLOW_UP)).count();
        assert_eq!(follow_ups, 2, "append {append}: {:?}", last.user_texts());
    }
    panic!("a run has an end");
}
