//! Skills, notes and opening words of agents through the real binary: what a model is offered, what a user can run, and
//! what each may touch (CC-066, CC-072 to CC-074, CC-077 to CC-079, CC-203 to CC-206, CC-264).
//!
//! Where skills are found and how they are named is tested beside their reader; here is what comes of them.

use serde_json::{Value, json};

use crate::{
    delegation::{agent, prompt, requests_of},
    support::{Answer, Block, Done, Seen, World},
};

/// A file of the user's own, outside the project.
fn write_own(world: &World, name: &str, text: &str) {
    let path = world.posse_home.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn own(world: &World, name: &str) -> String {
    world.posse_home.join(name).display().to_string()
}

/// What the model is told of the `skill` tool.
fn offered(seen: &Seen) -> String {
    seen.tool("skill").map_or_else(String::new, |tool| tool["description"].as_str().unwrap().to_owned())
}

fn sessions(done: &Value) -> usize {
    done["tree"].as_array().unwrap().len()
}

const PDF: &str = "---\nname: pdf\ndescription: Fill in PDF forms\n---\nRead forms.md first.\n";

/// Calls what the prompt says, and answers with what came of it.
fn obedient(seen: &Seen) -> Answer {
    let words = *seen.user_texts().iter().rev().find(|text| !text.starts_with("<system-reminder>")).unwrap();
    match (words.split_once(' '), seen.last_results().first()) {
        (_, Some(result)) => Answer::text(result),
        (Some((tool, input)), None) if input.starts_with('{') => Answer::call(tool, serde_json::from_str(input).unwrap()),
        _ => Answer::text("ok"),
    }
}

#[test]
fn a_skill_is_offered_loaded_by_its_name_and_its_files_are_read_unasked() {
    let world = World::new(obedient);
    world.run(&["hi"]).expect_code(0);
    assert!(!world.model.last().tools.contains(&"skill".to_owned()), "no skill, no tool");
    write_own(&world, "skills/pdf/SKILL.md", PDF);
    write_own(&world, "skills/pdf/forms.md", "all about forms\n");
    write_own(&world, "elsewhere/forms.md", "not a skill\n");
    world.write(".claude/skills/review-it/SKILL.md", "---\ndescription: Reviews\n---\nReview well.\n");

    world.run(&["hi"]).expect_code(0);
    let told = offered(&world.model.last());
    assert!(told.contains("\n- pdf: Fill in PDF forms\n- review-it: Reviews"), "{told}");
    assert!(!told.contains("Read forms.md"), "the text is loaded when it is called for");

    let loaded = world.run(&[r#"skill {"name": "pdf"}"#]).expect_code(0).out;
    let forms = own(&world, "skills/pdf/forms.md");
    assert!(loaded.contains("Read forms.md first.") && loaded.contains(&forms), "{loaded}");
    let read = world.run(&[&format!("read {}", json!({"filePath": forms}))]).expect_code(0).out;
    assert!(read.contains("all about forms"), "{read}");
    world.run(&[&format!("read {}", json!({"filePath": own(&world, "elsewhere/forms.md")}))]).expect_code(4);
    world.run(&[&format!("write {}", json!({"filePath": forms, "content": "x"}))]).expect_code(4);
    let unknown = world.run(&[r#"skill {"name": "pdff"}"#]).expect_code(0).out;
    assert!(unknown.contains("there is no skill `pdff`") && unknown.contains("pdf"), "{unknown}");
}

#[test]
fn a_listing_is_bounded_and_the_same_every_time() {
    let world = World::new(|_: &Seen| Answer::text("ok"));
    for number in 0..400 {
        let text = format!("---\ndescription: {}\n---\ntext {number}\n", "what it is for ".repeat(30));
        write_own(&world, &format!("skills/skill-{number:03}/SKILL.md"), &text);
    }
    world.run(&["hi"]).expect_code(0);
    let told = offered(&world.model.last());
    assert!(told.len() < 10_000 && told.contains("- skill-000") && told.contains("- skill-399"), "{} bytes", told.len());
    world.run(&["hi"]).expect_code(0);
    assert_eq!(offered(&world.model.last()), told);
}

#[test]
fn a_skill_that_rules_deny_is_neither_listed_nor_loaded() {
    let world = World::with().config("permission", json!({"skill": {"*": "allow", "secret-*": "deny", "ask-*": "ask"}})).script(obedient);
    for name in ["pdf", "secret-one", "ask-me"] {
        write_own(&world, &format!("skills/{name}/SKILL.md"), &format!("---\ndescription: about {name}\n---\nbody of {name}\n"));
    }
    let hidden = "---\ndescription: users only\ndisable-model-invocation: true\n---\nbody of hidden\n";
    write_own(&world, "skills/hidden/SKILL.md", hidden);
    for name in ["secret-one", "Secret_One", "secret_one"] {
        let denied = world.run(&[&format!("skill {}", json!({"name": name}))]).expect_code(0);
        assert!(!denied.out.contains("body of") && denied.out.contains("secret-*"), "{name}: {}", denied.out);
    }
    let told = offered(&world.model.last());
    assert!(told.contains("- pdf: ") && told.contains("- ask-me: ") && !told.contains("secret-one") && !told.contains("hidden"), "{told}");
    world.run(&[r#"skill {"name": "ask-me"}"#]).expect_code(4);
    let hidden = world.run(&[r#"skill {"name": "hidden"}"#]).expect_code(0).out;
    assert!(!hidden.contains("body of") && hidden.contains("/hidden"), "{hidden}");
    world.run(&["/hidden"]).expect_code(0);
    assert!(prompt(&world.model.last()).contains("body of hidden"), "the user may");
    let without = World::new(obedient);
    write_own(&without, "skills/pdf/SKILL.md", PDF);
    without.run(&["--deny", "skill", "hi"]).expect_code(0);
    assert!(!without.model.last().tools.contains(&"skill".to_owned()), "{:?}", without.model.last().tools);
}

#[test]
fn a_skill_is_also_a_command_with_its_arguments_and_rights_for_the_turn() {
    let text = "---\ndescription: d\nallowed-tools: Bash(git tag:*)\nmodel: mock/m2\n---\nTag $1 at ${CLAUDE_SKILL_DIR}.\n";
    let world = World::with().config("permission", json!({"bash": {"*": "allow", "git tag*": "ask"}})).script(|seen: &Seen| {
        match seen.last_results().first() {
            Some(result) => Answer::text(&format!("{}: {result}", seen.json["model"])),
            None => Answer::call("bash", json!({"command": "git tag", "description": "d"})),
        }
    });
    write_own(&world, "skills/tag/SKILL.md", text);
    let done = world.run(&["--format", "json", "/tag v1"]).expect_code(0).json();
    assert_eq!((sessions(&done), done["result"].as_str().unwrap().starts_with("\"m2\": ")), (1, true), "{done:#}");
    let words = prompt(&world.model.last()).to_owned();
    assert!(words.starts_with(&format!("Tag v1 at {}.", own(&world, "skills/tag"))), "{words}");
    world.run(&["-c", "again"]).expect_code(4);
    // A skill never takes a command's name, but one of a folder that is not trusted does not take the user's skill's.
    world.write(".posse/commands/tag.md", "the command\n");
    world.run(&["--trust", "/tag v1"]).expect_code(4);
    assert_eq!(prompt(&world.model.last()), "the command\n\nv1");
    world.run(&["/tag v1"]).expect_code(0);
    assert!(prompt(&world.model.last()).starts_with("Tag v1 at "), "{}", prompt(&world.model.last()));
}

/// A skill that runs apart, as the user's own.
fn forking(more: &str, script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> World {
    let world = World::with()
        .config("permission", json!({"bash": {"*": "allow", "git log*": "ask"}}))
        .config("agent", json!({"auditor": {"mode": "subagent", "description": "d", "prompt": "You audit."}}))
        .script(script);
    let text = format!(
        "---\ndescription: Audits\ncontext: fork\nallowed-tools: Read, Grep, Glob, Bash(git log:*)\n{more}---\nAudit $ARGUMENTS.\n"
    );
    write_own(&world, "skills/audit-auth/SKILL.md", &text);
    world
}

#[test]
fn a_skill_that_forks_is_one_child_whose_answer_is_the_output_and_no_primary_is_asked() {
    let world = forking("", |seen: &Seen| match (prompt(seen).starts_with("Audit the login."), seen.steps()) {
        (true, 0) => Answer::call("bash", json!({"command": "git log --oneline", "description": "d"})),
        (true, _) => Answer::text(&format!("Two holes.\n{}", seen.last_results()[0])),
        _ => Answer::text("as you saw"),
    });
    let done: Done = world.run(&["/audit-auth the login"]).expect_code(0);
    assert!(done.out.starts_with("Two holes.\n") && done.out.contains("init"), "{done:#?}");
    assert!(!done.out.contains("task_id") && !done.out.contains("ses_"), "only the answer: {}", done.out);
    let requests = world.model.requests();
    assert_eq!(requests.len(), 2, "the child's two steps and nobody else's");
    assert!(requests.iter().all(|seen| prompt(seen).starts_with("Audit the login.")));
    let nodes = world.posse(&["sessions", "tree", "--format", "json"]).expect_code(0).json();
    let agents: Vec<&Value> = nodes.as_array().unwrap().iter().map(|node| &node["agent"]).collect();
    assert_eq!(agents, [&json!("build"), &json!("general")]);

    // The main conversation knows what came of it.
    assert_eq!(world.run(&["-c", "so?"]).expect_code(0).out, "as you saw\n");
    let last = world.model.last();
    let results = last.results();
    let [Block::Result { text, .. }] = results[..] else { panic!("{results:?}") };
    assert!(text.starts_with("Two holes."), "{text}");
    let shown = world.run(&["--format", "json", "/audit-auth the login"]).expect_code(0).json();
    assert!(shown["result"].as_str().unwrap().starts_with("Two holes."), "{shown:#}");
    assert_eq!((&shown["status"], sessions(&shown)), (&json!("done"), 2));
}

#[test]
fn the_rights_of_a_fork_end_with_it_and_its_agent_can_be_chosen() {
    let world = forking("agent: auditor\n", |seen: &Seen| match (prompt(seen), seen.last_results().first()) {
        (_, Some(result)) => Answer::text(result),
        (first, None) if first.starts_with("Audit") && 0 < seen.steps() => Answer::text("done"),
        _ => Answer::call("bash", json!({"command": "git log --oneline", "description": "d"})),
    });
    let done = world.run(&["--format", "json", "/audit-auth x"]).expect_code(0).json();
    assert_eq!(done["tree"][1]["agent"], "auditor", "{done:#}");
    assert!(done["result"].as_str().unwrap().contains("init"), "{done:#}");
    assert!(world.model.requests()[0].system.contains("You audit."));
    world.run(&["-c", "and you?"]).expect_code(4);
}

#[test]
fn a_fork_that_fails_says_so_and_one_among_words_is_summed_up() {
    let world = forking("", |seen: &Seen| match prompt(seen) {
        words if words.starts_with("Audit broken.") => Answer::error(400, "no such thing"),
        words if words.starts_with("Audit ") => Answer::text("fine"),
        _ => Answer::text("summed up"),
    });
    let failed = world.run(&["/audit-auth broken"]);
    assert!(format!("{}{}", failed.out, failed.err).contains("no such thing"), "{failed:#?}");
    assert_eq!(world.run(&["/audit-auth it\nand tell me"]).expect_code(0).out, "summed up\n", "with other words a model is asked");
    let words = || world.model.requests().iter().map(|seen| prompt(seen).lines().next().unwrap().to_owned()).collect::<Vec<_>>();
    // Of two answers neither is the answer, and an inline command wants one.
    world.write(".posse/commands/say.md", "Say $1");
    for typed in ["/audit-auth one\n/audit-auth two", "/audit-auth one\n/say two"] {
        assert_eq!(world.run(&[typed]).expect_code(0).out, "summed up\n", "{typed}: {:?}", words());
    }
    assert!(words().contains(&"Audit two.".to_owned()), "{:?}", words());
    assert!(world.model.last().user_texts().contains(&"Say two"), "{:?}", world.model.last().user_texts());
}

#[test]
fn a_fork_that_is_killed_at_any_append_still_gives_its_answer_and_asks_no_primary() {
    for append in 1..40 {
        let world = forking("", |seen: &Seen| Answer::text(&format!("{} holes", seen.user_texts().len())));
        let died = world.command(&["run", "/audit-auth it"]).env("POSSE_CRASH_AT", &format!("after_append:{append}")).run();
        if died.signal.is_none() {
            assert!(3 < append && died.out == "1 holes\n", "append {append}: {died:#?}");
            return;
        }
        let sessions = world.posse(&["sessions", "list", "--format", "json"]).expect_code(0).json();
        let resumed = world.posse(&["sessions", "resume", sessions[0]["session"].as_str().unwrap()]).expect_code(0);
        assert!(resumed.out.ends_with(" holes\n") && !resumed.out.contains("task_id"), "append {append}: {resumed:#?}");
        let asked = world.model.requests();
        assert!(asked.iter().all(|seen| prompt(seen).starts_with("Audit it.")), "append {append}: {asked:#?}");
    }
    panic!("a run has an end");
}

#[test]
fn skills_of_an_agent_are_before_its_eyes_and_a_call_cannot_change_them() {
    let agents = json!({"filler": {"mode": "subagent", "description": "Fills", "prompt": "You fill.", "tools": ["read", "skill"],
        "skills": ["pdf", "lint", "tools:form", "nothing-like-it"]}});
    let call = json!({"description": "d", "prompt": "fill", "subagent_type": "filler", "tools": ["bash"], "skills": ["other"],
        "hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "touch hooked"}]}]}});
    let world = World::with().config("agent", agents).script(move |seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::call("agent", call.clone()),
        ("go", _) => Answer::text(seen.last_results()[0]),
        (_, 0) => Answer::call("bash", json!({"command": "touch ran", "description": "d"})),
        _ => Answer::text("filled"),
    });
    write_own(&world, "skills/pdf/SKILL.md", PDF);
    write_own(&world, "skills/pdf/forms.md", "all about forms\n");
    write_own(&world, "skills/other/SKILL.md", "---\ndescription: d\n---\nbody of other\n");
    write_own(&world, "kit/.claude-plugin/plugin.json", r#"{"name": "tools"}"#);
    for name in ["lint", "form"] {
        write_own(&world, &format!("kit/skills/{name}/SKILL.md"), &format!("---\ndescription: d\n---\nbody of {name}\n"));
    }
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(world.posse_home.join("posse.json")).unwrap()).unwrap();
    config["plugins"] = json!([own(&world, "kit")]);
    world.configure(&config);
    world.run(&["go"]).expect_code(0);
    let children = requests_of(&world, "fill");
    let system = &children[0].system;
    for text in
        ["You fill.", "Read forms.md first.", &own(&world, "skills/pdf/forms.md"), "body of lint", "body of form", "nothing-like-it"]
    {
        assert!(system.contains(text), "{text}: {system}");
    }
    assert!(!system.contains("body of other"), "{system}");
    assert_eq!(children[0].tools, ["read", "skill"], "the definition's tools, not the call's");
    assert!(!world.project.join("ran").exists() && !world.project.join("hooked").exists());
    assert!(!requests_of(&world, "go")[0].system.contains("Read forms.md first."), "the primary has not asked for it");
}

#[test]
fn notes_are_shown_to_their_agent_who_may_change_them_unasked_and_nobody_else_may() {
    let rows = [("user", "home"), ("project", ".posse/agent-memory/keeper"), ("local", ".posse/agent-memory-local/keeper")];
    for (scope, folder) in rows {
        let agents = json!({
            "keeper": {"mode": "subagent", "description": "Keeps notes", "prompt": "You keep.", "memory": scope},
            "other": {"mode": "subagent", "description": "Other", "prompt": "You are another.", "memory": scope},
        });
        let world = World::with().config("agent", agents).script(|seen: &Seen| match (prompt(seen), seen.last_results().first()) {
            (_, Some(result)) => Answer::text(result),
            (words, None) => {
                let (who, rest) = words.split_once(": ").unwrap_or(("", words));
                let (tool, input) = rest.split_once(' ').unwrap_or(("", rest));
                match who {
                    "" => Answer::call(tool, serde_json::from_str(input).unwrap()),
                    who => Answer::calls([agent(who, "d", rest)]),
                }
            }
        });
        let folder = if scope == "user" { world.posse_home.join("agent-memory/keeper") } else { world.project.join(folder) };
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("MEMORY.md"), "Tests run with `make check`.\n").unwrap();
        std::fs::write(folder.join("more.md"), "more to know\n").unwrap();
        let (read, write) = (
            format!("read {}", json!({"filePath": folder.join("more.md")})),
            format!("write {}", json!({"filePath": folder.join("new.md"), "content": "learnt\n"})),
        );
        let answer = world.run(&[&format!("keeper: {read}")]).expect_code(0).out;
        assert!(answer.contains("more to know"), "{scope}: {answer}");
        let system = &requests_of(&world, &read)[0].system;
        assert!(system.contains("Tests run with `make check`.") && system.contains(folder.to_str().unwrap()), "{scope}: {system}");
        for who in ["other: ", "general: ", ""] {
            let asked = world.model.requests().len();
            world.run(&[&format!("{who}{write}")]).expect_code(4);
            assert!(!folder.join("new.md").exists(), "{scope}, {who}");
            let shown = world.model.requests().split_off(asked).iter().any(|seen| seen.system.contains("make check"));
            assert!(!shown, "{scope}, {who}: another's notes were shown");
        }
        world.run(&[&format!("keeper: {write}")]).expect_code(0);
        assert_eq!(std::fs::read_to_string(folder.join("new.md")).unwrap(), "learnt\n", "{scope}");
        let beside = folder.parent().unwrap().join("keeper-2/x.md");
        world.run(&[&format!("keeper: write {}", json!({"filePath": beside, "content": "x"}))]).expect_code(4);
        let denied =
            world.run(&["--deny", "edit", &format!("keeper: write {}", json!({"filePath": folder.join("no.md"), "content": "x"}))]);
        assert!(!folder.join("no.md").exists(), "{scope}: a deny holds in one's own notes too: {denied:#?}");
    }
}

#[test]
fn an_agents_opening_words_come_after_the_users_as_a_block_of_their_own() {
    let agents = json!({
        "lead": {"mode": "primary", "description": "d", "prompt": "You lead.", "initialPrompt": "Look at the board first."},
        "hand": {"mode": "subagent", "description": "d", "prompt": "You help.", "initialPrompt": "Wash your hands."},
    });
    let world = World::with().config("agent", agents).script(|seen: &Seen| match prompt(seen) {
        "go" if seen.steps() == 0 => Answer::calls([agent("hand", "d", "help")]),
        _ => Answer::text("helped"),
    });
    world.run(&["--agent", "lead", "go"]).expect_code(0);
    let (root, child) = (&requests_of(&world, "go")[0], &requests_of(&world, "help")[0]);
    for (seen, words, opening) in [(root, "go", "Look at the board first."), (child, "help", "Wash your hands.")] {
        let texts = seen.user_texts();
        assert_eq!(texts[0], words);
        let said: Vec<&&str> = texts[1..].iter().filter(|text| text.contains(opening)).collect();
        assert_eq!(said.len(), 1, "{texts:?}");
        assert!(said[0].starts_with("<system-reminder>") && said[0].trim_end().ends_with("</system-reminder>"), "{said:?}");
    }
    world.run(&["-c", "more"]).expect_code(0);
    let again = world.model.last().user_texts().iter().filter(|text| text.contains("Look at the board")).count();
    assert_eq!(again, 1, "said once, at the start: {:?}", world.model.last().user_texts());
}

#[test]
fn notes_behind_a_link_of_the_projects_are_not_the_agents_own() {
    let agents = json!({"keeper": {"mode": "primary", "description": "d", "prompt": "p", "memory": "project"}});
    for (link, below) in [(".posse/agent-memory/keeper", ""), (".posse/agent-memory", "keeper/"), (".posse", "agent-memory/keeper/")] {
        let world = World::with().config("agent", agents.clone()).script(obedient);
        let elsewhere = world.home.join("keys");
        std::fs::create_dir_all(elsewhere.join(below)).unwrap();
        std::fs::write(elsewhere.join(format!("{below}MEMORY.md")), "a private note\n").unwrap();
        let link = world.project.join(link);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
        for path in [link.join(format!("{below}new")), elsewhere.join(format!("{below}new"))] {
            world.run(&["--agent", "keeper", &format!("write {}", json!({"filePath": path, "content": "x"}))]).expect_code(4);
        }
        assert!(!elsewhere.join(format!("{below}new")).exists(), "{link:?}");
        assert!(!world.model.last().system.contains("a private note"), "{link:?}");
    }
}
