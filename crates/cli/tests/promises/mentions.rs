//! What a prompt names with `@`, through the real binary: files that are attached, agents that are named, run or answer.
//!
//! The words themselves always stay as they were typed. Commands are in `slash.rs`.

use serde_json::{Value, json};

use crate::{
    delegation::{agent, errand, prompt, requests_of},
    support::{Answer, Api, Block, Seen, World, world::mock_config},
};

/// What the harness put beside the words, without its marks.
fn beside(seen: &Seen) -> Vec<String> {
    let reminders = seen.user_texts().into_iter().filter_map(|text| text.strip_prefix("<system-reminder>"));
    reminders.map(|text| text.trim_end().trim_end_matches("</system-reminder>").trim().to_owned()).collect()
}

fn attached(seen: &Seen) -> Vec<String> {
    beside(seen).into_iter().filter(|text| text.starts_with("The user attached")).collect()
}

fn numbered(count: usize) -> String {
    (1..=count).map(|line| format!("line {line}\n")).collect()
}

#[test]
fn a_file_that_is_named_comes_after_the_words_and_a_range_of_it_alone() {
    let world = World::with()
        .file("notes.txt", &numbered(40))
        .file("src/deep/mod.rs", "fn deep() {}\n")
        .file("two words.txt", "spaced\n")
        .config("command", json!({"look": {"template": "and at @notes.txt"}}))
        .script(|_: &Seen| Answer::text("ok"));
    let rows: [(&str, &str, &[&str], &[&str]); 8] = [
        ("see @notes.txt.", "notes.txt:", &["line 1\n", "line 40"], &[]),
        ("see @notes.txt#10-20, please", "notes.txt, lines 10 to 20:", &["line 10\n", "line 20"], &["line 9\n", "line 21"]),
        ("see @notes.txt#7", "notes.txt, lines 7 to 7:", &["line 7"], &["line 6", "line 8"]),
        ("see @notes.txt#L2-L3", "notes.txt, lines 2 to 3:", &["line 2\n", "line 3"], &["line 1\n", "line 4\n"]),
        ("(@src/deep/mod.rs)", "src/deep/mod.rs:", &["fn deep() {}"], &[]),
        ("@notes.txt", "notes.txt:", &["line 40"], &[]),
        ("see @\"two words.txt\"", "two words.txt:", &["spaced"], &[]),
        ("what is in @src", "src:", &["deep", "mod.rs"], &["fn deep"]),
    ];
    for (typed, name, has, has_not) in rows {
        world.run(&[typed]).expect_code(0);
        let last = world.model.last();
        assert_eq!(last.user_texts()[0], typed, "the words stay as typed, and come first");
        let attached = attached(&last);
        assert_eq!(attached.len(), 1, "{typed}: {:?}", last.user_texts());
        assert!(attached[0].starts_with(&format!("The user attached {name}")), "{typed}: {attached:?}");
        assert!(has.iter().all(|text| attached[0].contains(text)), "{typed}: {attached:?}");
        assert!(!has_not.iter().any(|text| attached[0].contains(text)), "{typed}: {attached:?}");
        assert!(last.calls().is_empty(), "{typed}: no call is shown to the model");
    }
    world.run(&["@notes.txt and @notes.txt and @src/deep/mod.rs"]).expect_code(0);
    assert_eq!(attached(&world.model.last()).len(), 2, "each once");
    world.run(&["see @notes.txt\n/look\nand @notes.txt"]).expect_code(0);
    assert_eq!(attached(&world.model.last()).len(), 1, "whoever names it: {:?}", world.model.last().user_texts());
}

#[test]
fn what_names_nothing_is_words() {
    let world = World::with().file("hosts", "h\n").script(|_: &Seen| Answer::text("ok"));
    for typed in [
        "see @missing.txt",
        "mail user@hosts",
        "mail user@host.com",
        "run `@hosts`",
        "a @ b",
        "@",
        "@@hosts",
        "use `@explore`",
        "@nobody hi",
    ] {
        world.run(&[typed]).expect_code(0);
        assert_eq!(world.model.last().user_texts(), [typed]);
    }
}

#[test]
fn a_mention_is_leave_to_read_but_no_rule_that_forbids_is_lifted() {
    let world = World::with()
        .file(".env", "SECRET=1\n")
        .file("private/key.txt", "the key\n")
        .config("permission", json!({"read": {"*": "allow", "private/*": "deny"}}))
        .script(|_: &Seen| Answer::text("ok"));
    std::fs::write(world.home.join("outside.txt"), "outside\n").unwrap();
    world.run(&["see @.env"]).expect_code(0);
    assert!(attached(&world.model.last())[0].contains("SECRET=1"), "the user named it");
    world.run(&["see @~/outside.txt"]).expect_code(0);
    assert!(attached(&world.model.last())[0].contains("outside"), "the user named it");

    let done = world.run(&["--format", "json", "see @private/key.txt"]).expect_code(0).json();
    let last = world.model.last();
    assert!(!last.user_texts().iter().any(|text| text.contains("the key")), "{:?}", last.user_texts());
    let words = beside(&last);
    assert!(
        words
            .iter()
            .any(|text| text.starts_with("The user named private/key.txt, which could not be attached: ") && text.contains("private/*")),
        "{words:?}"
    );
    assert_eq!(done["denied"][0]["tool"], "read", "{done:#}");
    world.run(&["--deny", "read(*.env)", "see @.env"]).expect_code(0);
    assert!(!world.model.last().user_texts().iter().any(|text| text.contains("SECRET=1")));
}

#[test]
fn a_picture_is_shown_as_one() {
    let world = World::new(|_: &Seen| Answer::text("ok"));
    let mut config = mock_config(Api::Anthropic, &world.model.url);
    config["provider"]["mock"]["models"]["m1"]["attachment"] = json!(true);
    world.configure(&config);
    // One white pixel.
    let png: [u8; 67] = [
        0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0, 0, 1, 8, 0, 0, 0, 0, 0x3a,
        0x7e, 0x9b, 0x55, 0, 0, 0, 0x0a, b'I', b'D', b'A', b'T', 0x78, 0x9c, 0x63, 0xf8, 0x0f, 0, 1, 1, 1, 0, 0x1b, 0xb6, 0xee, 0x56, 0, 0,
        0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82,
    ];
    std::fs::write(world.project.join("dot.png"), png).unwrap();
    world.run(&["what is in @dot.png?"]).expect_code(0);
    let last = world.model.last();
    let pictures: Vec<&Value> =
        last.blocks().filter_map(|block| if let Block::Other(other) = block { Some(other) } else { None }).collect();
    assert_eq!(pictures.len(), 1, "{:?}", last.messages);
    assert_eq!((&pictures[0]["type"], &pictures[0]["source"]["media_type"]), (&json!("image"), &json!("image/png")));
}

#[test]
fn a_file_of_five_megabytes_is_attached_within_bounds() {
    let world = World::new(|_: &Seen| Answer::text("ok"));
    let line = format!("{}\n", "x".repeat(99));
    world.write("big.log", &line.repeat(50_000));
    world.write("one-line.json", &"y".repeat(5_000_000));
    for name in ["big.log", "one-line.json"] {
        world.run(&[&format!("see @{name}")]).expect_code(0);
        let last = world.model.last();
        assert_eq!(attached(&last).len(), 1, "{name}");
        assert!(last.body.len() < 300_000, "{name}: {} bytes were sent", last.body.len());
    }
}

#[test]
fn an_agent_that_is_named_is_to_be_called_and_that_is_leave_to_call_it() {
    for (dialect, tool) in [("posse", "agent"), ("opencode", "task")] {
        let plan = World::with().config("dialect", json!(dialect)).config("permission", json!({"task": "ask"}));
        let world = plan.script(move |seen: &Seen| {
            let words = seen.user_texts();
            let wanted = if words[0].contains("other") { "general" } else { "explore" };
            match (words[0], seen.steps()) {
                ("look", _) => Answer::text("looked"),
                (_, 0) => Answer::call(tool, json!({"description": "d", "prompt": "look", "subagent_type": wanted})),
                (first, 1) if first.contains("twice") => {
                    Answer::call(tool, json!({"description": "d", "prompt": "look", "subagent_type": wanted}))
                }
                _ => Answer::text(seen.last_results()[0]),
            }
        });
        let done = world.run(&["ask @explore about it"]).expect_code(0);
        assert!(done.out.starts_with("looked"), "{dialect}: {done:#?}");
        let first = world.model.requests()[0].clone();
        assert_eq!(first.user_texts()[0], "ask @explore about it");
        let hint = format!("Use the above message and context to generate a prompt and call the {tool} tool with subagent: explore");
        assert_eq!(beside(&first), [hint.as_str()], "{dialect}");
        let sessions = world.posse(&["sessions", "list", "--format", "json"]).expect_code(0).json();
        let export = world.posse(&["sessions", "export", sessions[0]["session"].as_str().unwrap()]).expect_code(0).json();
        let told: Vec<Value> = export["messages"][0]["parts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|part| json!([part["type"], part["text"], part["name"], part["synthetic"] == true]))
            .collect();
        let expected =
            json!([["text", "ask @explore about it", null, false], ["agent", null, "explore", false], ["text", hint, null, true]]);
        assert_eq!(json!(told), expected, "{dialect}");
        let done = world.run(&["twice: ask @explore about it"]).expect_code(0);
        assert!(done.out.starts_with("looked"), "{dialect}: {done:#?}");
        world.run(&["nobody is named"]).expect_code(4);
        world.run(&["ask the other than @explore"]).expect_code(4);
        let denied = world.run(&["--deny", "task(explore)", "ask @explore about it"]).expect_code(0);
        assert!(!denied.out.starts_with("looked") && denied.out.contains("denied"), "{dialect}: {denied:#?}");
    }
}

#[test]
fn leave_that_a_mention_gave_ends_with_the_turn() {
    let world = World::with().config("permission", json!({"task": "ask"})).script(|seen: &Seen| match seen.user_texts()[0] {
        "look" => Answer::text("looked"),
        _ if seen.last_results().is_empty() => {
            Answer::call("agent", json!({"description": "d", "prompt": "look", "subagent_type": "explore"}))
        }
        _ => Answer::text(seen.last_results()[0]),
    });
    assert!(world.run(&["ask @explore"]).expect_code(0).out.starts_with("looked"));
    let next = world.run(&["-c", "again"]).expect_code(4);
    assert!(!next.out.starts_with("looked"), "{next:#?}");
    assert!(world.run(&["-c", "@Explore, once more"]).expect_code(0).out.starts_with("looked"), "in any spelling");
}

#[test]
fn where_the_user_wants_it_so_the_named_agent_answers_this_turn() {
    let world = World::with()
        .config("mention", json!("switch"))
        .config("agent", json!({"poet": {"mode": "subagent", "description": "d", "prompt": "You are a poet.", "model": "mock/m2"}}))
        .script(|seen: &Seen| Answer::text(seen.json["model"].as_str().unwrap()));
    let shown = world.run(&["--format", "json", "what would @poet say?"]).expect_code(0).json();
    assert_eq!((&shown["result"], shown["tree"].as_array().unwrap().len()), (&json!("m2"), 1));
    assert!(world.model.last().system.contains("You are a poet."));
    assert_eq!(world.run(&["-c", "and you?"]).expect_code(0).out, "m1\n");
    assert!(!world.model.last().system.contains("You are a poet."));
    let wrong = World::with().config("mention", json!("sometimes")).script(|_: &Seen| Answer::text("never"));
    let done = wrong.run(&["hi"]).expect_code(2);
    assert!(done.err.contains("mention") && done.err.contains("switch"), "{}", done.err);
}

#[test]
fn a_prompt_that_begins_with_an_agent_is_that_agents_and_no_model_is_asked_first() {
    let world = World::with()
        .file("notes.txt", "the notes\n")
        .file("explore.txt", "a file\n")
        .config("permission", json!({"task": "ask"}))
        .script(|seen: &Seen| Answer::text(&format!("answer to {}", prompt(seen))));
    for (typed, who) in [
        ("@explore where is main?", "explore"),
        ("@general-purpose where is main?", "general"),
        ("  @Explore\nwhere is main?", "explore"),
        ("@plan where is main?", "plan"),
    ] {
        let asked = world.model.requests().len();
        let shown = world.run(&["--format", "json", typed]).expect_code(0).json();
        let requests = world.model.requests().split_off(asked);
        assert_eq!(requests.len(), 2, "{typed}: {shown:#}");
        assert_eq!(requests[0].user_texts(), ["where is main?"], "{typed}");
        assert_eq!(shown["tree"][1]["agent"], json!(who), "{typed}");
        assert_eq!(shown["tree"][1]["title"], json!(format!("where is main? (@{who} subagent)")), "{typed}");
        assert!(requests[1].last_results()[0].starts_with("answer to where is main?"), "{typed}");
        let words = requests[1].user_texts();
        assert!(words[0].contains(&format!("ran the agent `{who}` directly")), "{typed}: {words:?}");
        assert!(words.iter().any(|text| text.contains("Summarize the task tool output above")), "{typed}: {words:?}");
    }
    let asked = world.model.requests().len();
    for typed in ["@explore", "@explore.txt what is it?"] {
        world.run(&[typed]).expect_code(0);
    }
    assert_eq!(world.model.requests().len(), asked + 2, "an agent without words, and a file, are not run");
}

#[test]
fn what_a_model_writes_to_another_agent_names_files_and_nothing_more() {
    let words = "/hello you\n@general do it\nsee @notes.txt and @secret.txt and @.env";
    let world = World::with()
        .file("notes.txt", "the notes\n")
        .file("secret.txt", "the secret\n")
        .file(".env", "KEY=1\n")
        .config("command", json!({"hello": {"template": "expanded"}}))
        .config("permission", json!({"read": {"*": "allow", "secret.txt": "deny", "*.env": "ask"}}))
        .script(move |seen: &Seen| match prompt(seen) {
            "go" => errand(seen, [agent("general", "d", words), agent("general", "d", "@explore do it")]),
            _ => Answer::text("done"),
        });
    let done = world.run(&["--format", "json", "go"]).expect_code(4).json();
    assert_eq!(done["tree"].as_array().unwrap().len(), 3, "{done:#}");
    assert_eq!(requests_of(&world, "@explore do it")[0].user_texts(), ["@explore do it"], "and nobody is run by it");
    let child = &requests_of(&world, words)[0];
    let texts = child.user_texts();
    assert_eq!(texts[0], words, "exactly the call's prompt");
    assert!(texts.iter().any(|text| text.contains("the notes")), "{texts:?}");
    assert!(!texts.iter().any(|text| text.contains("the secret") || text.contains("KEY=1")), "{texts:?}");
    assert!(!texts.iter().any(|text| text.contains("call the agent tool")), "{texts:?}");
}

#[test]
fn a_link_that_is_named_is_not_leave_to_read_what_it_leads_to() {
    let world = World::with().file(".env", "KEY=1\n").file("real/notes.txt", "the notes\n").script(|_: &Seen| Answer::text("ok"));
    std::fs::write(world.home.join("secret.txt"), "the secret\n").unwrap();
    let link = |to: &std::path::Path, name: &str| std::os::unix::fs::symlink(to, world.project.join(name)).unwrap();
    link(&world.home.join("secret.txt"), "README.md");
    link(&world.home, "docs");
    link(std::path::Path::new(".env"), "settings");
    link(std::path::Path::new("real"), "short");
    for typed in ["see @README.md", "see @docs/secret.txt", "see @settings"] {
        world.run(&[typed]).expect_code(4);
        let last = world.model.last();
        assert!(
            !last.user_texts().iter().any(|text| text.contains("the secret") || text.contains("KEY=1")),
            "{typed}: {:?}",
            last.user_texts()
        );
        assert!(beside(&last)[0].contains("could not be attached"), "{typed}: {:?}", beside(&last));
    }
    world.run(&["see @short/notes.txt"]).expect_code(0);
    assert!(attached(&world.model.last())[0].contains("the notes"), "what rules allow needs no leave");
    world.run(&["see @~/secret.txt"]).expect_code(0);
    assert!(attached(&world.model.last())[0].contains("the secret"), "under its own name it was named");
}

#[test]
fn what_is_no_text_is_named_and_not_waited_for() {
    let world = World::new(|_: &Seen| Answer::text("ok"));
    assert!(std::process::Command::new("mkfifo").arg(world.project.join("pipe")).status().unwrap().success());
    std::fs::write(world.project.join("data.bin"), [0u8, 159, 146, 150, 0, 1]).unwrap();
    for name in ["pipe", "/dev/zero", "data.bin"] {
        world.run(&[&format!("see @{name}")]).expect_code(0);
        let words = beside(&world.model.last());
        assert!(words.len() == 1 && words[0].starts_with(&format!("The user named {name}, which could not be attached: ")), "{words:?}");
    }
}

#[test]
fn an_agent_that_no_model_can_call_is_only_named() {
    let world = World::new(|_: &Seen| Answer::text("ok"));
    for typed in ["as @plan would say", "like @build does", "what is @title for?"] {
        world.run(&[typed]).expect_code(0);
        assert_eq!(world.model.last().user_texts(), [typed]);
    }
}
