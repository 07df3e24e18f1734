//! The `claude` dialect: whom a call means, with which model, tools and rights that agent works, and what is refused.
//!
//! What a call comes to and who waits for it is in `claude.rs`; the rules of teams in every dialect are in `rights.rs`.

use serde_json::{Value, json};

use crate::{
    background::soon,
    claude::{agent, of_type, plan, requests_of, streamed},
    support::{Answer, Block, Seen, World, answer::Piece, call, world::Plan},
};

fn prompt(seen: &Seen) -> &str {
    seen.user_texts()[0]
}

/// The root makes these calls and then says what they came to.
fn errand(seen: &Seen, calls: impl IntoIterator<Item = Piece>) -> Answer {
    match seen.steps() {
        0 => Answer::calls(calls),
        _ if seen.last_results().is_empty() => Answer::text("heard"),
        _ => Answer::text(&seen.last_results().join("\n====\n")),
    }
}

fn run_json(world: &World, args: &[&str], code: i32) -> Value {
    world.run(&[&["--format", "json"], args].concat()).expect_code(code).json()
}

fn results(shown: &Value) -> Vec<String> {
    shown["result"].as_str().unwrap().split("\n====\n").map(str::to_owned).collect()
}

fn children(shown: &Value) -> usize {
    shown["tree"].as_array().unwrap().len() - 1
}

fn denied(shown: &Value) -> Vec<(&str, &str)> {
    shown["denied"].as_array().unwrap().iter().map(|one| (one["agent"].as_str().unwrap(), one["what"].as_str().unwrap())).collect()
}

/// A file of the user's own, outside the project.
fn write_own(world: &World, name: &str, text: &str) {
    let path = world.posse_home.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Changes the user's configuration.
fn reconfigure(world: &World, change: impl FnOnce(&mut Value)) {
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(world.posse_home.join("posse.json")).unwrap()).unwrap();
    change(&mut config);
    world.configure(&config);
}

/// The names in the list that the model is shown.
fn listed(seen: &Seen) -> Vec<String> {
    let described = seen.tool("Agent").unwrap()["description"].as_str().unwrap();
    let list = described.split_once("Agents and what they are for:\n").unwrap().1.split_once("\n\n").unwrap().0;
    list.lines().filter_map(|line| line.strip_prefix("- ")?.split_once(": ").map(|(name, _)| name.to_owned())).collect()
}

/// CC-016, CC-045, CC-080, CC-082, CC-083: a name is that agent, wherever it was defined; no name is `general-purpose`; a wrong one is nobody.
#[test]
fn whom_a_call_means() {
    let defined = |name: &str| format!("---\nname: {name}\ndescription: From {name}\n---\nYou are {name}.\n");
    let world = plan().file("kit/.claude-plugin/plugin.json", "{\"name\": \"kit\"}").file("kit/agents/tool.md", &defined("tool")).script(
        |seen: &Seen| match prompt(seen) {
            "go" => errand(
                seen,
                [
                    agent("nobody named", json!({})),
                    agent("general named", json!({"subagent_type": "general-purpose"})),
                    agent("built-in named", json!({"subagent_type": "explore"})),
                    agent("user's named", json!({"subagent_type": "mine"})),
                    agent("plugin's named", json!({"subagent_type": "kit:tool"})),
                    agent("wrong", json!({"subagent_type": "nobody-such"})),
                ],
            ),
            words => Answer::text(words),
        },
    );
    write_own(&world, "agents/mine.md", &defined("mine"));
    reconfigure(&world, |config| config["plugins"] = json!([world.project.join("kit")]));
    let shown = run_json(&world, &["--trust", "go"], 0);
    let system = |words: &str| requests_of(&world, words)[0].system.clone();
    assert_eq!(system("nobody named"), system("general named"), "CC-016, CC-082: without a name it is general-purpose");
    assert!(system("user's named").starts_with("You are mine.") && system("plugin's named").starts_with("You are tool."), "CC-083");
    assert_ne!(system("built-in named"), system("general named"));
    let agents: Vec<&str> = shown["tree"].as_array().unwrap()[1..].iter().map(|entry| entry["agent"].as_str().unwrap()).collect();
    assert_eq!(agents, ["general", "general", "explore", "mine", "kit:tool"], "CC-080");
    let list = listed(&world.model.requests()[0]);
    assert!(["explore", "general-purpose", "kit:tool", "mine"].iter().all(|name| list.contains(&(*name).to_owned())), "CC-083: {list:?}");
    let wrong = &results(&shown)[5];
    assert!(wrong.contains("`nobody-such`") && wrong.contains("general-purpose") && requests_of(&world, "wrong").is_empty(), "{wrong}");
}

/// CC-017, CC-046: the call's model, else the definition's, else the caller's; in the background too.
#[test]
fn a_model_is_the_calls_before_the_definitions_before_the_callers() {
    for background in [false, true] {
        let agents = json!({"own": {"mode": "subagent", "prompt": "p", "model": "mock/m2"},
            "same": {"mode": "subagent", "prompt": "p", "model": "inherit"}, "none": {"mode": "subagent", "prompt": "p"}});
        let world =
            plan().config("agent", agents).config("models", json!({"opus": "mock/m3"})).script(move |seen: &Seen| match prompt(seen) {
                "go" => {
                    let rows = [("own", "opus"), ("own", ""), ("same", ""), ("none", ""), ("none", "opus"), ("same", "opus")];
                    errand(
                        seen,
                        rows.map(|(who, model)| {
                            let mut input = json!({"subagent_type": who, "run_in_background": background});
                            if !model.is_empty() {
                                input["model"] = json!(model);
                            }
                            agent(&format!("{who} {model}"), input)
                        }),
                    )
                }
                words => Answer::text(words),
            });
        reconfigure(&world, |config| config["provider"]["mock"]["models"]["m3"] = json!({"context": 200_000, "output": 8192}));
        run_json(&world, &["go"], 0);
        let rows = [("own opus", "m3"), ("own ", "m2"), ("same ", "m1"), ("none ", "m1"), ("none opus", "m3"), ("same opus", "m3")];
        for (words, model) in rows {
            assert_eq!(requests_of(&world, words)[0].json["model"], model, "{words}, background {background}");
        }
        let schema = world.model.requests()[0].tool("Agent").unwrap()["input_schema"]["properties"]["model"].clone();
        assert_eq!(schema["enum"], json!(["sonnet", "opus", "haiku"]), "CC-017");
    }
}

/// One agent of this definition makes one call and says what came of it.
fn one_call(plan: Plan, definition: Value, more: Value, made: fn() -> Piece) -> World {
    let mut worker = json!({"mode": "subagent", "description": "Works", "prompt": "You work."});
    for (key, value) in definition.as_object().into_iter().flatten() {
        worker[key] = value.clone();
    }
    plan.config("agent", json!({ "worker": worker })).script(move |seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", _) => {
            let mut input = json!({"subagent_type": "worker"});
            for (key, value) in more.as_object().into_iter().flatten() {
                input[key] = value.clone();
            }
            errand(seen, [agent("work", input)])
        }
        (_, 0) => Answer::calls([made()]),
        (_, _) => Answer::text(seen.last_results()[0]),
    })
}

fn write() -> Piece {
    call("write", json!({"filePath": "made", "content": "x"}))
}

fn touch() -> Piece {
    call("bash", json!({"command": "touch made", "description": "d"}))
}

fn is_made(world: &World) -> bool {
    world.project.join("made").exists()
}

/// CC-028, CC-049, CC-050, CC-279: rights and tools are the definition's; what a call says of them changes nothing.
#[test]
fn a_call_cannot_change_an_agents_rights_or_tools() {
    let asks = || plan().config("permission", json!({"bash": {"*": "allow", "touch *": "ask"}}));
    // To widen: it is asked all the same.
    for more in
        [json!({"mode": "bypassPermissions"}), json!({"permissionMode": "bypassPermissions"}), json!({"permission": {"bash": "allow"}})]
    {
        let world = one_call(asks(), json!({}), more.clone(), touch);
        let shown = run_json(&world, &["go"], 4);
        assert_eq!((denied(&shown), is_made(&world)), (vec![("worker", "bash(touch made)")], false), "{more}");
    }
    // To narrow: it may all the same.
    for more in [json!({"mode": "plan"}), json!({"mode": "default"}), json!({"permissionMode": "plan"})] {
        let world = one_call(plan(), json!({}), more.clone(), write);
        run_json(&world, &["go"], 0);
        assert!(is_made(&world), "CC-028: {more}");
    }
    let tools = json!({"tools": ["read", "grep"]});
    for more in [json!({"tools": ["bash", "write"]}), json!({"tools": "*"}), json!({"allowedTools": ["write"]}), json!({})] {
        let world = one_call(plan(), tools.clone(), more.clone(), write);
        run_json(&world, &["go"], 0);
        assert_eq!(requests_of(&world, "work")[0].tools, ["grep", "read"], "CC-050: {more}");
        assert!(!is_made(&world), "{more}");
    }
    let schema = {
        let world = plan().script(|_: &Seen| "ok");
        world.run(&["go"]).expect_code(0);
        world.model.last().tool("Agent").unwrap()["input_schema"]["properties"].clone()
    };
    let mut offered: Vec<&str> = schema.as_object().unwrap().keys().map(String::as_str).collect();
    offered.sort_unstable();
    assert_eq!(
        offered,
        ["description", "isolation", "model", "name", "prompt", "run_in_background", "subagent_type"],
        "nor is any of it offered"
    );
}

/// CC-085: whether an agent may start, which tools it has, and what a tool may do are three questions, each with its own answer.
#[test]
fn three_layers_of_rights_answer_for_themselves() {
    let with = |definition: Value, made: fn() -> Piece| {
        let world = one_call(plan().config("permission", json!({"bash": {"*": "allow", "touch *": "ask"}})), definition, json!({}), made);
        move |args: &[&str], code: i32| (run_json(&world, args, code), requests_of(&world, "work").first().map(|seen| seen.tools.clone()))
    };
    let (shown, tools) = with(json!({}), touch)(&["--deny", "Agent(worker)", "go"], 0);
    assert_eq!((children(&shown), denied(&shown), tools), (0, vec![("build", "task(worker)")], None), "it may not start");

    let (shown, tools) = with(json!({"tools": ["read"]}), touch)(&["go"], 0);
    assert_eq!((children(&shown), denied(&shown), tools), (1, Vec::new(), Some(vec!["read".to_owned()])), "it starts, without the tool");
    assert!(results(&shown)[0].contains("no tool named `bash`"), "{shown}");

    let (shown, tools) = with(json!({}), touch)(&["go"], 4);
    assert_eq!((children(&shown), denied(&shown)), (1, vec![("worker", "bash(touch made)")]), "it starts with the tool, and is asked");
    assert!(tools.unwrap().contains(&"bash".to_owned()));
}

/// CC-086: a call of `Agent` is judged like any call: allowed, asked or denied, before anything starts.
#[test]
fn a_start_is_judged_like_any_call() {
    let asks = || one_call(plan().config("permission", json!({"task": {"*": "allow", "worker": "ask"}})), json!({}), json!({}), write);
    let world = asks();
    let shown = run_json(&world, &["go"], 4);
    assert_eq!((children(&shown), denied(&shown), requests_of(&world, "work").len()), (0, vec![("build", "task(worker)")], 0));
    for (answer, starts) in [("once", 1), ("no", 0)] {
        let world = asks();
        let run = world.start(&["run", "--on-ask", "wait", "--format", "json", "go"]);
        let ask = soon("somebody is asked", || {
            let open = world.posse(&["asks", "list", "--format", "json"]).expect_code(0).json();
            open.get(0).map(|ask| ask["ask"].as_str().unwrap().to_owned())
        });
        assert_eq!(requests_of(&world, "work").len(), 0, "not before it is answered");
        world.posse(&["asks", "answer", &ask, answer]).expect_code(0);
        let shown = run.wait(crate::background::LONG).expect_code(0).json();
        assert_eq!((children(&shown), is_made(&world)), (starts, starts == 1), "{answer}: {shown}");
    }
}

/// CC-087, CC-088: who is denied is not in the list, and calling it is an error that names it; nobody takes its place.
#[test]
fn a_denied_agent_is_neither_listed_nor_replaced() {
    let agents = json!({"secret": {"mode": "subagent", "prompt": "p", "description": "Is denied"}});
    for (args, name, who) in [
        (["--deny", "Agent(secret)"], "secret", "secret"),
        (["--deny", "Task(secret)"], "secret", "secret"),
        (["--deny", "Agent(general-purpose)"], "general-purpose", "general"),
        (["--deny", "agent(general)"], "", "general"),
    ] {
        let world = plan().config("agent", agents.clone()).script(move |seen: &Seen| match prompt(seen) {
            "go" if name.is_empty() => errand(seen, [agent("work", json!({}))]),
            "go" => errand(seen, [agent("work", json!({"subagent_type": name}))]),
            words => Answer::text(words),
        });
        let shown = run_json(&world, &[&args[..], &["go"]].concat(), 0);
        let list = listed(&world.model.requests()[0]);
        let shown_as = if who == "general" { "general-purpose" } else { who };
        assert!(!list.contains(&shown_as.to_owned()) && list.contains(&"explore".to_owned()), "CC-087: {args:?} {list:?}");
        assert_eq!((children(&shown), requests_of(&world, "work").len()), (0, 0), "CC-088: {args:?} {shown}");
        let told = results(&shown)[0].to_lowercase();
        assert!(told.contains("denied") && told.contains(who), "{args:?}: {told}");
        let last = world.model.last();
        assert!(matches!(last.results()[0], Block::Result { error: true, .. }), "{args:?}");
    }
}

fn edit_of(path: &'static str) -> impl Fn() -> Piece {
    move || call("write", json!({"filePath": path, "content": "x"}))
}

/// CC-093, CC-094, CC-095, CC-096, CC-100: an agent has the tools of its own definition, not those that its caller is left with; without a
/// mode it edits in the project unasked, and what the user has said, and what is dangerous, holds all the same.
#[test]
fn without_a_mode_an_agent_edits_unasked_and_the_users_rules_hold() {
    // CC-093, CC-096: the caller has one tool, and the agent its own.
    let lead = json!({"lead": {"mode": "primary", "prompt": "You lead.", "tools": ["Agent"]},
        "worker": {"mode": "subagent", "prompt": "You work.", "tools": ["write", "read"]}});
    let world = plan().config("agent", lead).script(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", _) => errand(seen, [agent("work", json!({"subagent_type": "worker"})), agent("all", json!({}))]),
        ("work", 0) => Answer::calls([write()]),
        (_, _) => Answer::text("over"),
    });
    run_json(&world, &["-a", "lead", "go"], 0);
    assert_eq!(requests_of(&world, "go")[0].tools, ["Agent", "SendMessage", "TaskOutput", "TaskStop"], "one, and what belongs to it");
    assert_eq!(requests_of(&world, "work")[0].tools, ["read", "write"], "CC-096");
    assert!(requests_of(&world, "all")[0].tools.contains(&"edit".to_owned()) && is_made(&world), "CC-093, CC-094, CC-100");
    // Who may start nobody has nobody to speak to, to read or to stop.
    let speaks = |name: &String| ["Agent", "SendMessage", "TaskOutput", "TaskStop"].contains(&name.as_str());
    assert!(!requests_of(&world, "all")[0].tools.iter().any(speaks), "{:?}", requests_of(&world, "all")[0].tools);

    // CC-095: what is said for all, or by a flag for today, holds below.
    for (args, code) in [(["--deny", "edit(made)"], 0), (["--ask", "edit(made)"], 4), (["--deny", "Write(made)"], 0)] {
        let world = one_call(plan(), json!({}), json!({}), write);
        let shown = run_json(&world, &[&args[..], &["go"]].concat(), code);
        assert_eq!((denied(&shown), is_made(&world)), (vec![("worker", "edit(made)")], false), "{args:?}");
    }
    let world =
        one_call(plan().config("permission", json!({"edit": {"made": "ask"}})), json!({"permissionMode": "acceptEdits"}), json!({}), write);
    run_json(&world, &["go"], 4);
    assert!(!is_made(&world), "choices.md: an ask of the user's holds below");

    // CC-100: what is dangerous is still asked about.
    for path in ["/tmp/posse-outside/x", ".env", ".git/config", ".posse/agents/x.md"] {
        let edit = edit_of(path);
        let world = plan().script(move |seen: &Seen| match (prompt(seen), seen.steps()) {
            ("go", _) => errand(seen, [agent("work", json!({}))]),
            (_, 0) => Answer::calls([edit()]),
            (_, _) => Answer::text("over"),
        });
        let shown = run_json(&world, &["go"], 4);
        assert_eq!((denied(&shown).len(), denied(&shown)[0].0), (1, "general"), "{path}: {shown}");
    }
}

/// CC-101, CC-102, CC-049: in an ordinary mode the rules ask or allow; a definition's bypass counts only where the user has said so too.
#[test]
fn the_mode_of_a_definition_and_what_it_takes() {
    type Row<'a> = (Option<&'a str>, &'a [&'a str], &'a str, i32, bool);
    let rows: [Row<'_>; 9] = [
        (Some("default"), &[], "ask", 4, false),
        (Some("default"), &[], "allow", 0, true),
        (None, &[], "ask", 4, false),
        (None, &[], "allow", 0, true),
        (Some("acceptEdits"), &[], "ask", 4, false),
        (Some("bypassPermissions"), &[], "ask", 4, false),
        (Some("bypassPermissions"), &["--permission-mode", "bypass"], "ask", 0, true),
        (Some("bypassPermissions"), &["--permission-mode", "bypass"], "deny", 0, false),
        (Some("plan"), &[], "allow", 0, false),
    ];
    for (mode, args, verdict, code, made) in rows {
        let definition = mode.map_or(json!({}), |mode| json!({"permissionMode": mode}));
        let world =
            one_call(plan().config("permission", json!({"bash": {"*": "allow", "touch *": verdict}})), definition, json!({}), touch);
        let case = format!("{mode:?} {args:?} {verdict}");
        let done = world.run(&[&["--format", "json"], args, &["go"]].concat());
        assert_eq!((done.code, is_made(&world)), (Some(code), made), "{case}: {done:#?}");
        assert_eq!(denied(&done.json()).len(), usize::from(!made), "{case}");
    }
}

/// What nobody can do here, by name: each call of it says what is missing, and has no effect.
/// CC-025, CC-032, CC-034, CC-037, CC-048, CC-149, CC-150, CC-159, CC-284.
#[test]
fn powers_that_are_absent_are_refused_in_words() {
    let start = |more: Value| agent("never", more);
    let say = |to: &str, message: Value| call("SendMessage", json!({"to": to, "message": message, "summary": "hello"}));
    let rows: [(&str, Piece, &[&str]); 11] = [
        ("isolation remote", start(json!({"isolation": "remote"})), &["`isolation: \"remote\"`", "there is none"]),
        ("a worktree and a folder", start(json!({"isolation": "worktree", "cwd": "."})), &["`cwd` and `isolation` exclude each other"]),
        (
            "both, in the background",
            start(json!({"isolation": "worktree", "cwd": ".", "run_in_background": true})),
            &["exclude each other"],
        ),
        ("isolation unknown", start(json!({"isolation": "moon"})), &["no such `isolation`"]),
        ("a folder outside", start(json!({"cwd": "/"})), &["`cwd` must be a folder of this project"]),
        ("a folder that is not there", start(json!({"cwd": "missing"})), &["there is no folder missing"]),
        ("a teammate", start(json!({"name": "anna", "team_name": "red"})), &["`team_name`", "no teams here"]),
        ("everybody", say("*", json!("hello")), &["`to: \"*\"`", "no teams here"]),
        ("structured", say("worker", json!({"type": "shutdown_request"})), &["structured messages", "no teams here"]),
        ("another session by bridge", say("bridge:session_1", json!("hello")), &["`bridge:session_1`", "another session"]),
        ("another session by socket", say("uds:/tmp/s.sock", json!("hello")), &["`uds:/tmp/s.sock`", "another session"]),
    ];
    let (names, pieces): (Vec<_>, Vec<_>) = rows.iter().map(|(name, piece, _)| (*name, piece.clone())).unzip();
    let world = plan().script(move |seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([agent("work", json!({"name": "worker"}))]),
        ("go", 1) => Answer::calls(pieces.clone()),
        (_, _) => Answer::text("ok"),
    });
    let lines = streamed(&world, &["go"], 0);
    let last = requests_of(&world, "go").pop().unwrap();
    let told = last.results();
    assert_eq!(told.len(), 1 + names.len());
    for ((name, _, words), block) in rows.iter().zip(&told[1..]) {
        let Block::Result { text, error, .. } = block else { panic!("{block:?}") };
        assert!(*error && words.iter().all(|word| text.contains(word)), "{name}: {text}");
    }
    assert_eq!((of_type(&lines, "task_started").len(), of_type(&lines, "task_updated").len()), (1, 0), "nobody was started or woken");
    assert_eq!((requests_of(&world, "never").len(), requests_of(&world, "work").len()), (0, 1));
}

/// CC-033, CC-048, CC-218, CC-223: what a call says of isolation counts before what the definition says; the definition's alone is done.
#[test]
fn isolation_is_the_calls_before_the_definitions() {
    let definition = json!({"isolation": "worktree"});
    let world = one_call(plan(), definition.clone(), json!({"isolation": "remote"}), write);
    let shown = run_json(&world, &["go"], 0);
    assert!(results(&shown)[0].contains("remote") && !results(&shown)[0].contains("worktree") && children(&shown) == 0, "{shown}");
    let world = one_call(plan(), definition, json!({}), write);
    let shown = run_json(&world, &["go"], 0);
    assert!(results(&shown)[0].contains("\nbranch: ") && !is_made(&world), "{shown}");
    let world = one_call(plan(), json!({"isolation": "moon"}), json!({}), write);
    let done = world.run(&["go"]).expect_code(0);
    let said = done.err.lines().filter(|line| line.contains("`isolation: moon` of worker") && line.contains("no such isolation")).count();
    assert_eq!((said, is_made(&world)), (1, true), "{}", done.err);
}
