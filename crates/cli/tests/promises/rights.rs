//! Whose rights count in a team: every ancestor's denies and asks hold below it, allows are nobody's inheritance.
//!
//! Also who is offered what: which agents are listed, which tools a child has, how deep and how wide a tree may grow. What
//! an answer looks like is in `delegation.rs`; asks that reach people from below are here too.

use std::time::Duration;

use serde_json::{Value, json};

use super::delegation::{agent, errand, prompt, requests_of};
use crate::support::{Answer, Running, Seen, World, answer::Piece, call, world::Plan};

const LONG: Duration = Duration::from_secs(30);

/// A root that gives one errand to this agent, who makes one call and says what came of it.
fn one_call(plan: Plan, who: &'static str, made: fn() -> Piece) -> World {
    plan.script(move |seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", _) => errand(seen, [agent(who, "d", "work")]),
        (_, 0) => Answer::calls([made()]),
        (_, _) => Answer::text(seen.last_results()[0]),
    })
}

fn touch() -> Piece {
    call("bash", json!({"command": "touch made"}))
}

fn write() -> Piece {
    call("write", json!({"filePath": "made", "content": "x"}))
}

fn run_json(world: &World, args: &[&str], code: i32) -> Value {
    world.run(&[&["--format", "json"], args].concat()).expect_code(code).json()
}

fn is_made(world: &World) -> bool {
    world.project.join("made").exists()
}

/// The child was denied its one call, or was not offered the tool at all.
fn is_refused(shown: &Value) -> bool {
    denied(shown).len() == 1 || shown["result"].as_str().unwrap().starts_with("There is no tool named `write`")
}

fn denied(shown: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    shown["denied"].as_array().unwrap().iter().map(|denied| (text(&denied["agent"]), text(&denied["what"]))).collect()
}

#[test]
fn what_plan_may_not_do_its_children_may_not_either() {
    // A worker of the user's own, who is allowed everything in so many words.
    let plan = || {
        let all = json!({"*": "allow", "edit": "allow", "bash": "allow"});
        World::with().config("agent", json!({"worker": {"mode": "subagent", "prompt": "You work.", "permission": all}}))
    };
    for mode in ["default", "accept-edits", "bypass"] {
        for who in ["general", "worker"] {
            for made in [write as fn() -> Piece, touch] {
                let world = one_call(plan(), who, made);
                let done = world.run(&["-a", "plan", "--permission-mode", mode, "--format", "json", "go"]);
                assert!(!is_made(&world), "{mode} {who}: a plan's child changed something: {}", done.out);
                assert!(is_refused(&done.json()), "{mode} {who}: {}", done.out);
            }
        }
    }
    // And the same children may, below somebody who may.
    for (who, made) in [("general", write as fn() -> Piece), ("worker", touch), ("general", touch)] {
        let world = one_call(plan(), who, made);
        run_json(&world, &["go"], 0);
        assert!(is_made(&world), "{who}");
    }
}

#[test]
fn the_mode_plan_holds_below_too() {
    for made in [write as fn() -> Piece, touch] {
        let world = one_call(World::with(), "general", made);
        let done = world.run(&["--permission-mode", "plan", "--format", "json", "go"]);
        assert!(!is_made(&world) && is_refused(&done.json()), "{}", done.out);
    }
}

/// Vector 52 of opencode.md 3.7.
#[test]
fn a_deny_or_an_ask_of_an_ancestor_holds_in_a_child_that_allows_it() {
    for (verdict, code) in [("deny", 0), ("ask", 4)] {
        let agents = json!({
            "lead": {"mode": "primary", "prompt": "You lead.", "permission": {"bash": {"*": "allow", "touch *": verdict}}},
            "worker": {"mode": "subagent", "prompt": "You work.", "permission": {"bash": "allow", "touch *": "allow"}}});
        let world = one_call(World::with().config("agent", agents), "worker", touch);
        let shown = run_json(&world, &["-a", "lead", "go"], code);
        assert!(!is_made(&world), "{verdict}");
        assert_eq!(denied(&shown), [("worker".into(), "bash(touch made)".into())], "{verdict}");
    }
}

#[test]
fn what_a_parent_is_allowed_is_not_allowed_to_its_child() {
    let agents = json!({"lead": {"mode": "primary", "prompt": "You lead.", "permission": {"bash": {"touch *": "allow"}}}});
    let plan = World::with().config("agent", agents).config("permission", json!({"bash": {"*": "ask"}}));
    let world = plan.script(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([call("bash", json!({"command": "touch own"})), agent("general", "d", "work")]),
        ("go", _) => Answer::text("over"),
        (_, 0) => Answer::calls([touch()]),
        (_, _) => Answer::text("over"),
    });
    let shown = run_json(&world, &["-a", "lead", "go"], 4);
    assert!(world.project.join("own").exists() && !is_made(&world), "{shown}");
    assert_eq!(denied(&shown), [("general".into(), "bash(touch made)".into())]);
}

#[test]
fn explore_looks_with_plans_commands_and_nothing_else_runs_whoever_is_asked() {
    let script = |seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", _) => errand(seen, [agent("explore", "d", "work")]),
        (_, 0) => Answer::calls(
            ["git status", "ls", "wc -l a.txt", "touch made", "find . -name made -delete", "npm test", "ls /etc"]
                .map(|line| call("bash", json!({"command": line}))),
        ),
        (_, _) => Answer::text("over"),
    };
    for mode in ["default", "accept-edits", "bypass"] {
        let world = World::with().file("a.txt", "one\n").file("kept", "x").script(script);
        // Nobody is waited for: it is denied, not asked.
        let shown = run_json(&world, &["--on-ask", "wait", "--permission-mode", mode, "go"], 0);
        let refused: Vec<String> = denied(&shown).into_iter().map(|(who, what)| format!("{who} {what}")).collect();
        assert_eq!(refused.len(), 4, "{mode}: {refused:?}");
        assert!(refused[0] == "explore bash(touch made)" && refused[2] == "explore bash(npm test)", "{mode}: {refused:?}");
        assert!(refused[3].contains("/etc"), "what would be asked about a folder outside is denied too: {mode}: {refused:?}");
        assert!(!is_made(&world));
        let tools = &requests_of(&world, "work")[0].tools;
        for absent in ["edit", "write", "multi_edit", "apply_patch", "todowrite", "todoread", "agent", "task", "question"] {
            assert!(!tools.contains(&absent.to_owned()), "{mode}: {absent} in {tools:?}");
        }
    }
}

#[test]
fn under_bypass_what_plan_would_be_asked_about_its_shell_is_denied() {
    let world = World::new(|seen: &Seen| match seen.steps() {
        0 => Answer::calls([touch(), call("bash", json!({"command": "ls"}))]),
        _ => Answer::text("over"),
    });
    let shown = run_json(&world, &["-a", "plan", "--permission-mode", "bypass", "go"], 0);
    assert_eq!((denied(&shown), is_made(&world)), (vec![("plan".into(), "bash(touch made)".into())], false));
}

/// Workers who may delegate and note what they do, because their definitions say so.
fn nested(plan: Plan, tool: &'static str) -> World {
    let own = json!({"mode": "subagent", "prompt": "You pass it on.", "permission": {"task": "allow", "todowrite": "allow"}});
    plan.config("agent", json!({ "chief": own })).script(move |seen: &Seen| {
        let level = prompt(seen).trim_start_matches("level ").parse::<u64>().unwrap_or(0);
        let deeper = call(tool, json!({"description": "deeper", "prompt": format!("level {}", level + 1), "subagent_type": "chief"}));
        match seen.steps() {
            0 => Answer::calls([deeper]),
            _ => Answer::text(seen.last_results()[0]),
        }
    })
}

#[test]
fn agents_are_nested_as_deep_as_the_dialect_or_the_user_says() {
    for (dialect, depth, expected) in
        [("posse", None, 3), ("opencode", None, 1), ("posse", Some(2), 2), ("opencode", Some(2), 2), ("posse", Some(5), 5)]
    {
        let tool = if dialect == "posse" { "agent" } else { "task" };
        let mut plan = World::with().config("dialect", json!(dialect));
        if let Some(depth) = depth {
            plan = plan.config("limits", json!({ "depth": depth }));
        }
        let world = nested(plan, tool);
        let shown = run_json(&world, &["go"], 0);
        let case = format!("{dialect} {depth:?}");
        assert_eq!(shown["tree"].as_array().unwrap().len(), expected + 1, "{case}: {shown}");
        for level in 1..=expected {
            let tools = &requests_of(&world, &format!("level {level}"))[0].tools;
            assert_eq!(tools.contains(&tool.to_owned()), level < expected, "{case}, level {level}: {tools:?}");
            assert!(tools.contains(&"todowrite".to_owned()), "{case}: {tools:?}");
        }
        let deepest = requests_of(&world, &format!("level {expected}"));
        let words = deepest[1].last_results()[0];
        assert!(words.starts_with(&format!("There is no tool named `{tool}`. The tools are: ")), "{case}: {words}");
    }
}

#[test]
fn a_child_has_no_todo_list_and_delegates_nothing_unless_its_definition_says_so() {
    let agents = json!({"plain": {"mode": "subagent", "prompt": "You work.", "permission": {"*": "allow"}}});
    let world = one_call(World::with().config("agent", agents), "plain", || agent("general", "d", "deeper"));
    let shown = run_json(&world, &["go"], 0);
    let tools = &requests_of(&world, "work")[0].tools;
    for absent in ["agent", "task", "todowrite", "todoread", "question"] {
        assert!(!tools.contains(&absent.to_owned()), "{absent} in {tools:?}");
    }
    assert!(tools.contains(&"bash".to_owned()) && tools.contains(&"edit".to_owned()), "{tools:?}");
    assert_eq!(shown["tree"].as_array().unwrap().len(), 2, "and calling it all the same starts nobody: {shown}");
    let root = &requests_of(&world, "go")[0].tools;
    assert!(root.contains(&"agent".to_owned()) && root.contains(&"todowrite".to_owned()), "{root:?}");
}

#[test]
fn how_many_tasks_a_session_and_a_tree_start_is_limited_in_words() {
    for (limits, words) in [(json!({"children": 2}), "limits.children"), (json!({"tree": 2}), "limits.tree")] {
        let world = World::with().config("limits", limits).script(|seen: &Seen| match prompt(seen) {
            "go" => errand(seen, ["one", "two", "three"].map(|name| agent("general", name, name))),
            words => Answer::text(words),
        });
        let shown = run_json(&world, &["go"], 0);
        assert_eq!(shown["tree"].as_array().unwrap().len(), 3, "{words}: {shown}");
        let results: Vec<&str> = shown["result"].as_str().unwrap().split("\n====\n").collect();
        assert!(results[0].starts_with("one\n") && results[1].starts_with("two\n") && results[2].contains(words), "{results:?}");
    }
}

/// The list in the description of the delegation tool.
fn listed(seen: &Seen) -> Vec<String> {
    let tool = seen.tool("agent").or_else(|| seen.tool("task")).unwrap();
    let lines = tool["description"].as_str().unwrap().lines().skip_while(|line| !line.starts_with("Agents you can"));
    lines
        .filter_map(|line| line.strip_prefix("- ")?.split_once(':').map(|(name, _)| name.to_owned()))
        .take_while(|name| !name.contains(' '))
        .collect()
}

#[test]
fn who_can_be_called_is_listed_the_same_in_every_run_and_who_cannot_is_said() {
    let agents = json!({
        "secret": {"mode": "subagent", "prompt": "p", "description": "Is denied"},
        "silent": {"mode": "subagent", "prompt": "p"},
        "both": {"mode": "all", "prompt": "p", "description": "Is anything"},
        "boss": {"mode": "primary", "prompt": "p", "description": "Is a lead"}});
    let plan = World::with().config("agent", agents).config("permission", json!({"task": {"*": "allow", "secret": "deny"}}));
    let world = plan.script(|seen: &Seen| match prompt(seen) {
        "go" => {
            errand(seen, ["secret", "boss", "title", "build", "explor", "zzz", "Both", "general_purpose"].map(|who| agent(who, "d", who)))
        }
        words => Answer::text(words),
    });
    let shown = run_json(&world, &["go"], 0);
    assert_eq!(listed(&world.model.requests()[0]), ["both", "explore", "general", "silent"]);
    let description = world.model.requests()[0].tool("agent").unwrap()["description"].as_str().unwrap().to_owned();
    assert!(description.contains("- silent: Manual only\n") && description.contains("- both: Is anything\n"), "{description}");
    let results: Vec<String> = shown["result"].as_str().unwrap().split("\n====\n").map(str::to_owned).collect();
    assert!(results[0].contains("secret") && results[0].to_lowercase().contains("denied"), "{}", results[0]);
    for (at, name) in [(1, "boss"), (2, "title"), (3, "build")] {
        assert!(results[at].contains(&format!("`{name}` is a primary agent")) && results[at].contains("both, explore, general, silent"));
    }
    assert!(results[4].contains("Did you mean `explore`?"), "{}", results[4]);
    assert!(results[5].contains("no agent named `zzz`") && results[5].contains("both, explore, general, silent"), "{}", results[5]);
    assert!(results[6].starts_with("Both\n\ntask_id: ") && results[7].starts_with("general_purpose\n\ntask_id: "), "{results:?}");
    assert_eq!(shown["tree"].as_array().unwrap().len(), 3, "{shown}");
    assert_eq!(denied(&shown), [("build".into(), "task(secret)".into())]);
    let before = world.model.requests().len();
    run_json(&world, &["go"], 0);
    assert_eq!(world.model.requests()[before].tool("agent"), world.model.requests()[0].tool("agent"), "byte for byte");
}

/// Two agents who each want to touch something, which asks.
fn askers() -> World {
    let world = World::with().config("permission", json!({"bash": {"*": "allow", "touch *": "ask"}}));
    world.script(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", _) => errand(seen, [agent("general", "one", "touch one"), agent("general", "two", "touch two")]),
        (line, 0) => Answer::call("bash", json!({ "command": line })),
        (_, _) => Answer::text(seen.last_results()[0]),
    })
}

#[track_caller]
fn open_asks(world: &World, running: &Running, count: usize) -> Vec<Value> {
    let end = std::time::Instant::now() + LONG;
    loop {
        let open = world.posse(&["asks", "list", "--format", "json"]).expect_code(0).json().as_array().unwrap().clone();
        if open.len() == count {
            return open;
        }
        assert!(std::time::Instant::now() < end, "{open:?}\n{}", running.err_so_far());
    }
}

#[test]
fn an_ask_from_below_names_who_asks_and_is_answered_from_another_terminal() {
    let world = askers();
    let running = world.start(&["run", "--on-ask", "wait", "--format", "json", "go"]);
    let open = open_asks(&world, &running, 2);
    let root = world.posse(&["sessions", "list"]).out.split_whitespace().next().unwrap().to_owned();
    for ask in &open {
        assert_eq!((&ask["agent"], &ask["tool"], &ask["waiting"]), (&json!("general"), &json!("bash"), &json!(true)), "{ask}");
        assert_ne!(ask["session"], json!(root), "it is the child that asks");
    }
    let list = world.posse(&["asks", "list"]).expect_code(0).out;
    assert!(list.contains("general") && list.contains("touch one") && list.contains("touch two"), "{list}");
    let of = |what: &str| open.iter().find(|ask| ask["what"] == what).unwrap()["ask"].as_str().unwrap();
    world.posse(&["asks", "answer", of("bash(touch one)"), "once"]).expect_code(0);
    assert_eq!(open_asks(&world, &running, 1)[0]["what"], "bash(touch two)", "once is for that one");
    world.posse(&["asks", "answer", of("bash(touch two)"), "no", "--say", "not this one"]).expect_code(0);
    let shown = running.wait(LONG).expect_code(0).json();
    assert!(world.project.join("one").exists() && !world.project.join("two").exists());
    assert!(shown["result"].as_str().unwrap().contains("The user refused this call and says: not this one"), "{shown}");
}

#[test]
fn an_answer_for_the_tree_covers_the_sibling_that_asks_the_same() {
    let world = askers();
    let running = world.start(&["run", "--on-ask", "wait", "--format", "json", "go"]);
    let open = open_asks(&world, &running, 2);
    world.posse(&["asks", "answer", open[0]["ask"].as_str().unwrap(), "tree"]).expect_code(0);
    running.wait(LONG).expect_code(0);
    assert!(world.project.join("one").exists() && world.project.join("two").exists());

    let world = askers();
    let running = world.start(&["run", "--on-ask", "wait", "--format", "json", "go"]);
    let open = open_asks(&world, &running, 2);
    world.posse(&["asks", "answer", open[0]["ask"].as_str().unwrap(), "session"]).expect_code(0);
    let left = open_asks(&world, &running, 1);
    assert_eq!(left[0]["ask"], open[1]["ask"], "a session's answer is for that child alone");
    world.posse(&["asks", "answer", left[0]["ask"].as_str().unwrap(), "no"]).expect_code(0);
    running.wait(LONG).expect_code(0);
}

#[test]
fn asks_from_below_that_nobody_answers_are_denied_and_the_exit_says_so() {
    let world = askers();
    let shown = run_json(&world, &["go"], 4);
    let children: Vec<&Value> = shown["tree"].as_array().unwrap()[1..].iter().map(|entry| &entry["session"]).collect();
    let refused = shown["denied"].as_array().unwrap();
    assert_eq!((refused.len(), &shown["status"]), (2, &json!("done")), "{shown}");
    for denied in refused {
        assert!(children.contains(&&denied["session"]) && denied["agent"] == "general" && denied["tool"] == "bash", "{denied}");
    }
}

#[test]
fn at_the_terminal_the_asks_of_two_children_are_asked_one_after_the_other() {
    let world = askers();
    let mut terminal = world.command(&["run", "go"]).at_terminal();
    let question = "n no, a no to all and stop: ";
    for (nth, keys) in [(1, "y\n"), (2, "n not you\n")] {
        let end = std::time::Instant::now() + LONG;
        while terminal.screen().matches(question).count() < nth {
            assert!(std::time::Instant::now() < end, "{}", terminal.screen());
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(terminal.screen().matches("? general (").count(), nth, "{}", terminal.screen());
        terminal.types(keys);
    }
    let done = terminal.wait().expect_code(0);
    assert!(done.out.contains("says: not you"), "{}", done.out);
    let made = ["one", "two"].into_iter().filter(|name| world.project.join(name).exists()).count();
    assert_eq!(made, 1);
}

#[test]
fn a_vector_of_the_source_a_task_map_of_a_child_says_whom_it_may_call() {
    let own = json!({"*": "deny", "read": "allow", "bash": "allow", "edit": "allow", "task": {"*": "deny", "worker": "allow"}});
    let agents = json!({
        "chief": {"mode": "subagent", "prompt": "You pass it on.", "permission": own},
        "worker": {"mode": "subagent", "prompt": "You work.", "description": "Works"}});
    let world = World::with().config("agent", agents).script(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", _) => errand(seen, [agent("chief", "d", "pass")]),
        ("pass", _) => errand(seen, [agent("worker", "d", "work"), agent("explore", "d", "look")]),
        (words, _) => Answer::text(words),
    });
    let shown = run_json(&world, &["go"], 0);
    assert_eq!(listed(&requests_of(&world, "pass")[0]), ["worker"]);
    assert_eq!((requests_of(&world, "work").len(), requests_of(&world, "look").len()), (1, 0));
    assert_eq!(denied(&shown), [("chief".into(), "task(explore)".into())]);
}

#[test]
fn whom_an_agent_sees_depends_on_whom_it_works_for() {
    let chief = |explore: &str| json!({"mode": "subagent", "prompt": "p", "permission": {"task": {"*": "allow", "explore": explore}}});
    let agents = json!({"strict": chief("deny"), "open": chief("allow"), "middle": chief("allow")});
    let world = World::with().config("agent", agents).script(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([agent("strict", "d", "strictly")]),
        ("go", 1) => Answer::calls([agent("open", "d", "openly")]),
        ("strictly" | "openly", 0) => Answer::calls([agent("middle", "d", &format!("below {}", prompt(seen)))]),
        ("below strictly" | "below openly", 0) => Answer::calls([agent("explore", "d", &format!("look {}", prompt(seen)))]),
        (words, _) => Answer::text(words),
    });
    let shown = run_json(&world, &["go"], 0);
    assert!(!listed(&requests_of(&world, "below strictly")[0]).contains(&"explore".to_owned()));
    assert!(listed(&requests_of(&world, "below openly")[0]).contains(&"explore".to_owned()));
    assert_eq!(denied(&shown), [("middle".into(), "task(explore)".into())], "{shown}");
    assert_eq!(requests_of(&world, "look below openly").len(), 1);
}

/// A first run makes a child, a second goes on with it: `who` is what the second call names, `line` what the child runs then.
fn resumed(plan: Plan, first: &'static str, who: &'static str, line: &'static str) -> World {
    plan.script(move |seen: &Seen| match (prompt(seen), seen.user_texts().len(), seen.steps()) {
        ("go", 1, _) => errand(seen, [agent(first, "d", "work")]),
        ("go", _, 2) => {
            let results = seen.results().iter().map(|block| format!("{block:?}")).collect::<String>();
            let id = results.split("task_id: ").nth(1).unwrap()[..30].to_owned();
            Answer::calls([call("agent", json!({"description": "d", "prompt": "more", "subagent_type": who, "task_id": id}))])
        }
        ("go", _, _) => Answer::text(seen.last_results()[0]),
        (_, 2, 1) => Answer::call("bash", json!({ "command": line })),
        (_, _, 0) => Answer::text("did it"),
        (_, _, _) => Answer::text(seen.last_results()[0]),
    })
}

#[test]
fn todays_rules_count_for_an_agent_that_goes_on() {
    let world = resumed(World::with(), "general", "general", "touch made");
    run_json(&world, &["--permission-mode", "bypass", "go"], 0);
    let shown = run_json(&world, &["-c", "--deny", "bash(touch *)", "on"], 0);
    assert_eq!((denied(&shown), is_made(&world)), (vec![("general".into(), "bash(touch made)".into())], false), "{shown}");
    let world = resumed(World::with(), "general", "general", "touch made");
    run_json(&world, &["--permission-mode", "bypass", "go"], 0);
    run_json(&world, &["-c", "--ask", "bash(touch *)", "on"], 4);
    assert!(!is_made(&world), "what was answered for the first run was not answered for this one");
}

#[test]
fn the_ceiling_of_a_childs_birth_holds_when_another_agent_leads_later() {
    let world = resumed(World::with(), "general", "general", "touch made");
    run_json(&world, &["-a", "plan", "go"], 0);
    let done = world.run(&["-c", "-a", "build", "--format", "json", "on"]);
    assert!(!is_made(&world), "{}", done.out);
}

#[test]
fn an_agent_does_not_go_on_under_another_agents_name() {
    for rules in [&["--deny", "task(explore)"][..], &[]] {
        let world = resumed(World::with(), "explore", "general", "ls");
        run_json(&world, &["go"], 0);
        let shown = run_json(&world, &[&["-c"], rules, &["on"]].concat(), 0);
        assert_eq!(requests_of(&world, "work").len(), 1, "{shown}");
        assert!(shown["result"].as_str().unwrap().contains("is done by the agent `explore`"), "{shown}");
    }
    for (first, again) in [("explore", "Explore"), ("general", "general-purpose")] {
        let world = resumed(World::with(), first, again, "ls");
        run_json(&world, &["go"], 0);
        let shown = run_json(&world, &["-c", "on"], 0);
        assert_eq!((requests_of(&world, "work").len(), &shown["tree"][1]["agent"]), (3, &json!(first)), "{shown}");
    }
}

#[test]
fn a_file_that_a_prompt_names_is_read_under_the_childs_rights() {
    let agents =
        json!({"blind": {"mode": "subagent", "prompt": "You see nothing.", "permission": {"read": {"*": "allow", "secret.txt": "deny"}}}});
    let world = World::with().file("secret.txt", "the word is xyzzy\n").file("open.txt", "hello there\n").config("agent", agents);
    let world = world.script(|seen: &Seen| match prompt(seen) {
        "go" => errand(seen, [agent("blind", "d", "Compare @secret.txt with @open.txt")]),
        _ => Answer::text("over"),
    });
    run_json(&world, &["go"], 0);
    let heard = requests_of(&world, "Compare @secret.txt with @open.txt");
    let all = String::from_utf8_lossy(&heard[0].body).into_owned();
    assert!(all.contains("hello there") && !all.contains("xyzzy"), "{all}");
}

#[test]
fn a_rule_about_delegation_counts_under_both_names_and_without_anybody_to_call_there_is_no_tool() {
    for (args, offered, expected) in [
        (&["--deny", "task(explore)"][..], true, &["general"][..]),
        (&["--deny", "agent(explore)"], true, &["general"]),
        (&["--deny", "task(*)"], false, &[]),
        (&["--deny", "agent"], false, &[]),
        (&["--deny", "task(explore)", "--deny", "task(general)"], false, &[]),
    ] {
        for dialect in ["posse", "opencode"] {
            let world = World::new(|_: &Seen| "ok");
            world.run(&[args, &["--dialect", dialect, "go"]].concat()).expect_code(0);
            let seen = world.model.last();
            let tools = &seen.tools;
            assert_eq!(tools.iter().any(|name| name == "agent" || name == "task"), offered, "{args:?} {dialect}: {tools:?}");
            if offered {
                assert_eq!(listed(&seen), expected, "{args:?} {dialect}");
            }
        }
    }
    let agents = json!({"explore": {"disable": true}});
    let world = World::with().config("agent", agents).script(|seen: &Seen| errand(seen, [agent("explore", "d", "look")]));
    let shown = run_json(&world, &["go"], 0);
    assert_eq!(listed(&world.model.last()), ["general"]);
    assert!(shown["result"].as_str().unwrap().contains("There is no agent named `explore`"), "{shown}");
}

#[test]
fn a_person_can_be_asked_before_work_is_given_away() {
    let plan = || World::with().config("permission", json!({"task": {"*": "allow", "general": "ask"}}));
    let world = one_call(plan(), "general", touch);
    let shown = run_json(&world, &["go"], 4);
    assert_eq!((denied(&shown), shown["tree"].as_array().unwrap().len()), (vec![("build".into(), "task(general)".into())], 1));
    let world = one_call(plan(), "general", touch);
    let running = world.start(&["run", "--on-ask", "wait", "--format", "json", "go"]);
    let open = open_asks(&world, &running, 1);
    assert_eq!((&open[0]["agent"], &open[0]["what"]), (&json!("build"), &json!("task(general)")), "{open:?}");
    world.posse(&["asks", "answer", open[0]["ask"].as_str().unwrap(), "once"]).expect_code(0);
    let shown = running.wait(LONG).expect_code(0).json();
    assert!(is_made(&world) && shown["tree"].as_array().unwrap().len() == 2, "{shown}");
}

/// Vectors 51 and 54 of opencode.md 3.7, by their effect: a child of an agent without rules may edit, todo is off in it, and what is for primaries
/// only is denied below them however a child's own rules read.
#[test]
fn tools_for_primaries_are_not_their_childrens() {
    let reviewer = json!({"reviewer": {"mode": "subagent", "description": "Reviews", "prompt": "Review.", "permission": {"task": "allow", "bash": "allow"}}});
    let world =
        World::with().config("agent", reviewer).config("experimental", json!({"primary_tools": ["bash", "read"]})).script(|seen: &Seen| {
            match (prompt(seen), seen.steps()) {
                ("go", _) => errand(seen, [agent("reviewer", "review", "review it"), agent("general", "edit", "edit it")]),
                _ => Answer::text("done"),
            }
        });
    world.run(&["go"]).expect_code(0);
    let root = &requests_of(&world, "go")[0].tools;
    assert!(root.contains(&"bash".to_owned()) && root.contains(&"read".to_owned()), "{root:?}");
    let reviewer = &requests_of(&world, "review it")[0].tools;
    for (tool, offered) in [("bash", false), ("read", false), ("todowrite", false), ("agent", true), ("edit", true)] {
        assert_eq!(reviewer.contains(&tool.to_owned()), offered, "{tool}: {reviewer:?}");
    }
    let general = &requests_of(&world, "edit it")[0].tools;
    assert!(general.contains(&"edit".to_owned()) && !general.contains(&"bash".to_owned()), "{general:?}");
}
