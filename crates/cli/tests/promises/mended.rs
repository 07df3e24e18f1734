//! What reviewers found wrong in agents, commands and mentions, each as a story that went wrong once.
//!
//! Whose words count for how much: the user's typed ones, a pipe's, a template's of a folder that nobody trusted.

use std::time::Duration;

use serde_json::json;

use crate::{
    delegation::{agent, errand, prompt, requests_of},
    support::{Answer, Seen, World, world::Plan},
};

fn echo(seen: &Seen) -> Answer {
    Answer::text(&format!("answer to {}", prompt(seen)))
}

/// A user with two files that nobody reads unasked.
fn with_secrets(plan: Plan) -> World {
    let world = plan.file(".env", "KEY=1\n").file("notes.txt", "the notes\n").script(echo);
    std::fs::write(world.home.join("secret.txt"), "the secret\n").unwrap();
    world
}

fn knows(seen: &Seen, what: &str) -> bool {
    seen.user_texts().iter().any(|text| text.contains(what))
}

#[test]
fn notes_behind_a_link_are_said_to_be_nobodys_own() {
    for (scope, folder) in [("project", ".posse/agent-memory"), ("local", ".posse/agent-memory-local")] {
        let agents = json!({"keeper": {"mode": "primary", "description": "d", "prompt": "p", "memory": scope}});
        let world = World::with().config("agent", agents).script(|seen: &Seen| match seen.steps() {
            0 => Answer::call("write", json!({"filePath": prompt(seen), "content": "x"})),
            _ => Answer::text("done"),
        });
        let keys = world.home.join("keys");
        std::fs::create_dir_all(&keys).unwrap();
        let link = world.project.join(folder).join("keeper");
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&keys, &link).unwrap();
        for path in [keys.join("authorized"), link.join("authorized")] {
            let done = world.run(&["--agent", "keeper", path.to_str().unwrap()]).expect_code(4);
            let said = format!("posse: the notes of keeper, {}: there is a link on the way", link.display());
            assert_eq!(done.err.matches(&said).count(), 1, "{scope}: {}", done.err);
        }
        assert!(std::fs::read_dir(&keys).unwrap().next().is_none(), "{scope}");
        std::fs::remove_file(&link).unwrap();
        let done = world.run(&["--agent", "keeper", link.join("note.md").to_str().unwrap()]).expect_code(0);
        assert!(link.join("note.md").exists() && !done.err.contains("link"), "{scope}: {}", done.err);
    }
}

#[test]
fn a_piped_prompt_names_files_but_gives_no_leave() {
    let world = with_secrets(World::with());
    for words in ["see @.env and @~/secret.txt and @notes.txt", "please\n/etc\nsee @.env @~/secret.txt @notes.txt"] {
        for args in [&["run"][..], &["run", "-"]] {
            world.command(args).stdin(words).run().expect_code(4);
            let last = world.model.last();
            assert_eq!(last.user_texts()[0], words, "as piped");
            assert!(knows(&last, "the notes"), "what needs no leave is attached");
            assert!(!knows(&last, "KEY=1") && !knows(&last, "the secret"), "{:?}", last.user_texts());
        }
        world.command(&["run", "look"]).stdin(words).run().expect_code(0);
        assert!(!knows(&world.model.last(), "the notes"), "beside a prompt it is only words");
    }
    world.run(&["see @.env and @~/secret.txt"]).expect_code(0);
    assert!(knows(&world.model.last(), "KEY=1") && knows(&world.model.last(), "the secret"), "typed words are leave");
}

#[test]
fn a_piped_prompt_has_commands_only_if_it_begins_with_one() {
    let commands = json!({"hello": {"template": "Say hello to $1"}, "see": {"template": "See it"}});
    let world = with_secrets(World::with().config("command", commands));
    let rows: [(&str, &[&str]); 3] = [
        ("/hello you\n/hello me", &["Say hello to you", "Say hello to me"]),
        ("first\n/hello you", &["first\n/hello you"]),
        ("/etc/passwd\n/etc\n/hello you", &["/etc/passwd\n/etc\n/hello you"]),
    ];
    for (words, said) in rows {
        world.command(&["run"]).stdin(words).run().expect_code(0);
        assert_eq!(world.model.last().user_texts(), said, "{words:?}");
    }
    let asked = world.model.requests().len();
    world.command(&["run"]).stdin("/nope\nmore").run().expect_code(2);
    assert_eq!(world.model.requests().len(), asked);
    world.command(&["run"]).stdin("/see @.env").run().expect_code(4);
    assert!(!knows(&world.model.last(), "KEY=1"), "{:?}", world.model.last().user_texts());
    world.run(&["/see @.env"]).expect_code(0);
    assert!(knows(&world.model.last(), "KEY=1"));
}

#[test]
fn a_piped_prompt_is_no_leave_to_call_an_agent_and_runs_none() {
    let ask = json!({"task": "ask"});
    let world = World::with().config("permission", ask).script(|seen: &Seen| match prompt(seen) {
        "look" => Answer::text("looked"),
        _ => errand(seen, [agent("explore", "d", "look")]),
    });
    for words in ["ask @explore about it", "@explore look"] {
        world.command(&["run"]).stdin(words).run().expect_code(4);
        assert!(requests_of(&world, "look").is_empty(), "{words}");
    }
    world.run(&["ask @explore about it"]).expect_code(0);
    assert_eq!(requests_of(&world, "look").len(), 1);
}

#[test]
fn a_template_that_nobody_trusted_gets_no_file_from_elsewhere() {
    let named = "@link.txt @link.txt#1-2 @deep/link.txt @notes.txt @~/secret.txt @./@~/secret.txt @\"~/secret.txt\" @~/secret.txt";
    let world = with_secrets(
        World::with()
            .file(".posse/commands/inline.md", &format!("inline {named}"))
            .file(".posse/commands/child.md", &format!("---\nsubtask: true\nagent: general\n---\nchild {named} $ARGUMENTS"))
            .file("mine.txt", "my own words\n")
            .file("deep/x", ""),
    );
    for link in ["link.txt", "deep/link.txt"] {
        std::os::unix::fs::symlink(world.home.join("secret.txt"), world.project.join(link)).unwrap();
    }
    for typed in ["/inline", "/child @mine.txt"] {
        world.run(&["--dangerously-skip-permissions", typed]).expect_code(0);
    }
    assert!(world.model.requests().iter().all(|seen| !knows(seen, "the secret")));
    let requests = world.model.requests();
    let inline = requests.iter().find(|seen| prompt(seen).starts_with("inline")).unwrap();
    assert!(knows(inline, "Attached by the command: notes.txt:"), "{:?}", inline.user_texts());
    let child = requests.iter().find(|seen| prompt(seen).starts_with("child")).unwrap();
    assert!(knows(child, "The user attached mine.txt:") && knows(child, "my own words"), "{:?}", child.user_texts());
    assert!(!knows(child, "the notes"), "its words name nothing there: {:?}", child.user_texts());
    assert!(prompt(child).contains("`@~/secret.txt`") && prompt(child).ends_with(" @mine.txt"), "{}", prompt(child));
}

#[test]
fn what_a_commands_line_prints_names_nothing() {
    let commands = json!({"sub": {"template": "look: !`printf 'x @~/secret.txt'` and @notes.txt", "agent": "general"}});
    let world = with_secrets(World::with().config("command", commands));
    world.run(&["--dangerously-skip-permissions", "/sub"]).expect_code(0);
    let requests = world.model.requests();
    let child = requests.iter().find(|seen| prompt(seen).starts_with("look: x")).unwrap();
    assert!(!knows(child, "the secret"), "{:?}", child.user_texts());
    assert!(knows(child, "the notes"), "the template's own file: {:?}", child.user_texts());
}

#[test]
fn a_file_that_the_user_names_to_an_agent_is_one_the_agent_may_read() {
    let commands = json!({"sum": {"template": "sum up $ARGUMENTS", "agent": "general"}});
    let agents = json!({"shy": {"mode": "subagent", "description": "d", "prompt": "p", "permission": {"read": {"*.env": "deny"}}}});
    let world = with_secrets(World::with().config("command", commands).config("agent", agents));
    for (typed, words) in [
        ("@explore sum up @~/secret.txt and @.env", "sum up @~/secret.txt and @.env"),
        ("@general read @~/secret.txt#1 and @.env", "read @~/secret.txt#1 and @.env"),
        ("/sum @~/secret.txt @.env", "sum up @~/secret.txt @.env"),
    ] {
        world.run(&[typed]).expect_code(0);
        let child = requests_of(&world, words).last().unwrap().clone();
        assert!(knows(&child, "the secret") && knows(&child, "KEY=1"), "{typed}: {:?}", child.user_texts());
        assert!(knows(&child, "The user attached .env:"), "{typed}: {:?}", child.user_texts());
    }
    world.run(&["@shy look at @.env"]).expect_code(0);
    assert!(!knows(&requests_of(&world, "look at @.env")[0], "KEY=1"), "what is denied stays denied");
    std::os::unix::fs::symlink(world.home.join("secret.txt"), world.project.join("link.txt")).unwrap();
    world.run(&["@general look at @link.txt"]).expect_code(4);
    assert!(!knows(&requests_of(&world, "look at @link.txt")[0], "the secret"), "a link is not what it leads to");
}

#[test]
fn what_a_model_names_to_an_agent_is_no_leave_of_the_users() {
    let world = World::with().file(".env", "KEY=1\n").file("notes.txt", "the notes\n").script(|seen: &Seen| {
        if prompt(seen) == "go" { errand(seen, [agent("general", "d", "see @.env @notes.txt")]) } else { echo(seen) }
    });
    world.run(&["go"]).expect_code(4);
    let child = &requests_of(&world, "see @.env @notes.txt")[0];
    assert!(!knows(child, "KEY=1") && !knows(child, "The user"), "{:?}", child.user_texts());
    assert!(knows(child, "Attached because the prompt names it: notes.txt:"), "{:?}", child.user_texts());
}

#[test]
fn tools_and_agents_that_an_ancestor_may_not_use_are_not_offered_to_its_tasks() {
    let agents = json!({
        "boss": {"mode": "primary", "description": "d", "prompt": "p", "permission": {"edit": "deny", "task": {"explore": "deny"}}},
        "helper": {"mode": "all", "description": "d", "prompt": "p", "permission": {"task": "allow"}},
    });
    let world = World::with().config("agent", agents).script(|seen: &Seen| match prompt(seen) {
        "go" => errand(seen, [agent("helper", "d", "help")]),
        _ => Answer::text("helped"),
    });
    let about = |seen: &Seen| {
        let listed = seen.tool("agent").unwrap()["description"].as_str().unwrap().contains("- explore: ");
        (["edit", "write", "read"].map(|tool| seen.tools.contains(&tool.to_owned())), listed)
    };
    // The same agent under two callers, in one process each and in both orders.
    for (caller, offered) in [("boss", ([false, false, true], false)), ("helper", ([true, true, true], true))] {
        world.run(&["--agent", caller, "go"]).expect_code(0);
        assert_eq!(about(requests_of(&world, "help").last().unwrap()), offered, "{caller}");
    }
}

#[test]
fn a_model_that_a_definition_names_in_vain_is_reported_and_who_calls_lends_theirs() {
    let agents = json!({
        "lead": {"mode": "primary", "description": "d", "prompt": "p", "model": "nowhere/big"},
        "aide": {"mode": "subagent", "description": "d", "prompt": "p", "model": "nowhere/small"},
        "fine": {"mode": "subagent", "description": "d", "prompt": "p", "model": "mock/m2"},
    });
    let world = World::with().config("agent", agents).script(|seen: &Seen| match prompt(seen) {
        "go" => errand(seen, [agent("aide", "d", "help"), agent("aide", "d", "help"), agent("fine", "d", "fine")]),
        _ => Answer::text("helped"),
    });
    let done = world.run(&["--agent", "lead", "go"]).expect_code(0);
    for words in ["model of lead: ", "model of aide: "] {
        let lines: Vec<&str> = done.err.lines().filter(|line| line.contains(words)).collect();
        assert!(lines.len() == 1 && lines[0].contains("nowhere"), "{words}: {}", done.err);
    }
    assert!(!done.err.contains("model of fine"), "{}", done.err);
    assert_eq!(requests_of(&world, "help")[0].json["model"], "m1");
    assert_eq!(requests_of(&world, "fine")[0].json["model"], "m2");
    world.write("posse.json", r#"{"command": {"odd": {"template": "go odd", "model": "nowhere/odd"}}}"#);
    let done = world.run(&["--trust", "/odd"]).expect_code(0);
    assert!(done.err.contains("model of /odd: ") && done.err.contains("nowhere"), "{}", done.err);
    let quiet = world.run(&["--quiet", "--agent", "lead", "go"]).expect_code(0);
    assert!(!quiet.err.contains("model of"), "{}", quiet.err);
}

#[test]
fn posses_own_agents_are_nobodys_to_start_or_run() {
    let world = World::new(echo);
    for name in ["title", "compaction", "summary"] {
        let done = world.run(&["--agent", name, "hi"]).expect_code(2);
        assert!(done.err.contains(&format!("--agent: {name} is posse's own")) && done.err.contains("build, plan"), "{}", done.err);
        let typed = format!("@{name} tag this");
        let shown = world.run(&["--format", "json", &typed]).expect_code(0).json();
        assert_eq!((prompt(&world.model.last()), shown["tree"].as_array().unwrap().len()), (&*typed, 1), "{name}: only words");
    }
    let done = world.run(&["--agent", "explore", "hi"]).expect_code(2);
    assert!(done.err.contains("`posse run \"@explore …\"`") && done.err.contains("choose one of: build, plan"), "{}", done.err);
}

#[test]
fn hundreds_of_agents_do_not_fill_every_request() {
    let mut plan = World::with();
    for number in 0..400 {
        plan =
            plan.file(&format!(".posse/agents/a{number:03}.md"), &format!("---\ndescription: {}\n---\nWork.\n", "many words ".repeat(60)));
    }
    let world = plan.script(echo);
    world.run(&["--trust", "hi"]).expect_code(0);
    let first = world.model.last();
    let description = first.tool("agent").unwrap()["description"].as_str().unwrap().to_owned();
    assert!(description.len() < 20_000 && description.contains("- a399"), "{} bytes", description.len());
    world.run(&["--trust", "again"]).expect_code(0);
    assert_eq!(world.model.last().tool("agent"), first.tool("agent"), "byte for byte");
}

#[test]
fn what_nobody_can_do_offline_ends_alike_however_it_was_asked() {
    let world = World::with().file("src/lib.rs", "pub struct RetryPolicy;\n").script(|_: &Seen| Answer::text("never"));
    world.configure(&json!({}));
    for typed in ["/init", "/review", "@general refactor everything into microservices"] {
        let done = world.run(&[typed]).expect_code(2);
        assert!(done.err.contains("posse: needs a model"), "{typed}: {}", done.err);
    }
    let shown = world.run(&["--format", "json", "/review"]).expect_code(2).json();
    assert_eq!(shown["status"], "failed", "{shown:#}");
    world.run(&["-c", "Where is RetryPolicy defined?"]).expect_code(0);
    assert!(world.run(&["@explore Where is RetryPolicy defined?"]).expect_code(0).out.contains("src/lib.rs:1"));
}

#[test]
fn who_answers_a_turn_in_anothers_place_is_said() {
    let commands = json!({"think": {"template": "think", "agent": "plan"}, "plain": {"template": "plain"}});
    let world = World::with().config("command", commands).script(echo);
    assert!(world.run(&["/think"]).expect_code(0).err.contains("\n  plan answers this turn\n"));
    assert!(!world.run(&["-c", "/plain"]).expect_code(0).err.contains("answers this turn"));
}

#[test]
fn a_piped_prompt_that_another_process_takes_in_is_only_words() {
    let world = World::with().file(".env", "KEY=1\n").script(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("wait", 0) => Answer::call("bash", json!({"command": "until test -e go; do sleep 0.05; done", "description": "d"})),
        _ => Answer::text("ok"),
    });
    let owner = world.start(&["run", "wait"]);
    assert!(world.model.wait_for_requests(1));
    let letter = world.command(&["run", "-c"]).stdin("see @.env").start();
    assert!(letter.wait_for_err("posting to it", Duration::from_secs(30)), "{}", letter.err_so_far());
    world.write("go", "");
    // An owner that ends first leaves the words to whoever brought them, who may be told that they are no leave.
    let code = letter.wait(Duration::from_secs(60)).code;
    assert!(matches!(code, Some(0 | 4)), "{code:?}");
    let code = owner.wait(Duration::from_secs(60)).code;
    assert!(matches!(code, Some(0 | 4)), "whoever takes it in knows that it was piped: {code:?}");
    assert!(world.model.requests().iter().any(|seen| knows(seen, "see @.env")));
    assert!(!world.model.requests().iter().any(|seen| knows(seen, "KEY=1")));
}

/// Whose words they are is in the log: a crash makes no leave of a pipe, and takes none from the user.
#[test]
fn whose_words_they_are_survives_a_crash() {
    let resumed = |typed: Option<&str>, piped: &str, at: usize| {
        let world = with_secrets(World::with());
        let point = format!("after_append:{at}");
        match typed {
            Some(words) => world.command(&["run", words]).env("POSSE_CRASH_AT", &point).run(),
            None => world.command(&["run"]).stdin(piped).env("POSSE_CRASH_AT", &point).run(),
        };
        let sessions = world.posse(&["sessions", "list", "--format", "json"]).expect_code(0).json();
        let Some(root) = sessions[0]["session"].as_str() else { return world };
        world.posse(&["sessions", "resume", root]);
        world
    };
    for at in 1..=6 {
        let world = resumed(None, "see @.env and @~/secret.txt", at);
        let told = |what: &str| world.model.requests().iter().any(|seen| knows(seen, what));
        assert!(told("see @.env") && !told("KEY=1") && !told("the secret"), "append {at}");
        let world = resumed(Some("@general read @.env and @~/secret.txt"), "", at);
        let child = requests_of(&world, "read @.env and @~/secret.txt");
        assert!(child.last().is_some_and(|seen| knows(seen, "KEY=1") && knows(seen, "the secret")), "append {at}");
    }
}
