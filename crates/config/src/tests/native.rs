//! The agents that come with us: what each may do, entry by entry, and what a user's rules change about it.

use posse_session::{Agent, AgentMode, Touch, Verdict};

use crate::{Agents, Config, PermissionMode, agents, testing::World};

fn loaded(world: &World) -> (Config, Agents) {
    let config = world.load().unwrap();
    let agents = agents(&world.places(), &config, None).unwrap();
    (config, agents)
}

/// The strictest of all lists, as the kernel judges.
fn verdict_in(config: &Config, agent: &Agent, mode: PermissionMode, key: &str, pattern: &str) -> Verdict {
    let book = config.rulebook_for(agent, mode);
    let touch = Touch::new(key, pattern);
    std::iter::once(&book.rules).chain(&book.ceiling).map(|rules| rules.judge(&touch).verdict).max().unwrap()
}

fn verdict(world: &World, agent: &str, key: &str, pattern: &str) -> Verdict {
    let (config, agents) = loaded(world);
    verdict_in(&config, agents.get(agent).unwrap(), PermissionMode::Default, key, pattern)
}

/// Every entry of plan's list, and one command beside each; explore has the same list and denies the rest.
const SHELL: [(&str, Verdict); 44] = [
    ("cut -f1 x", Verdict::Allow),
    ("diff a b", Verdict::Allow),
    ("du -sh .", Verdict::Allow),
    ("file x", Verdict::Allow),
    ("file", Verdict::Allow),
    ("filet x", Verdict::Ask),
    ("find . -name x", Verdict::Allow),
    ("find", Verdict::Allow),
    ("findmnt", Verdict::Ask),
    ("find . -delete", Verdict::Ask),
    ("find . -name x -delete -print", Verdict::Ask),
    ("find . -exec rm {} ;", Verdict::Ask),
    ("find . -execdir rm {} ;", Verdict::Ask),
    ("git diff", Verdict::Allow),
    ("git diff HEAD~1", Verdict::Allow),
    ("git log", Verdict::Allow),
    ("git log -3", Verdict::Allow),
    ("git show HEAD", Verdict::Allow),
    ("git status", Verdict::Allow),
    ("git status -s", Verdict::Allow),
    ("git branch", Verdict::Allow),
    ("git branch -D x", Verdict::Ask),
    ("git push", Verdict::Ask),
    ("git", Verdict::Ask),
    ("grep x y", Verdict::Allow),
    ("ls", Verdict::Allow),
    ("ls -la", Verdict::Allow),
    ("pwd", Verdict::Allow),
    ("rg x", Verdict::Allow),
    ("sort x", Verdict::Allow),
    ("stat x", Verdict::Allow),
    ("tail -5 x", Verdict::Allow),
    ("tree", Verdict::Allow),
    ("wc -l x", Verdict::Allow),
    ("cat x", Verdict::Ask),
    ("head x", Verdict::Ask),
    ("rm x", Verdict::Ask),
    ("touch x", Verdict::Ask),
    ("cargo test", Verdict::Ask),
    ("echo hi", Verdict::Ask),
    ("sed -i s/a/b/ x", Verdict::Ask),
    ("npm run build", Verdict::Ask),
    ("curl http://x", Verdict::Ask),
    ("", Verdict::Ask),
];

#[test]
fn plan_and_explore_have_one_list_of_commands() {
    let world = World::new();
    let (config, agents) = loaded(&world);
    for (command, expected) in SHELL {
        let of = |agent: &str, mode| verdict_in(&config, agents.get(agent).unwrap(), mode, "bash", command);
        assert_eq!(of("plan", PermissionMode::Default), expected, "plan: {command}");
        assert_eq!(of("build", PermissionMode::Plan), expected, "the mode: {command}");
        let without_asks = if expected == Verdict::Ask { Verdict::Deny } else { expected };
        assert_eq!(of("explore", PermissionMode::Default), without_asks, "explore: {command}");
        assert_eq!(of("plan", PermissionMode::Bypass), without_asks, "plan under bypass: {command}");
        assert_eq!(of("build", PermissionMode::Default), Verdict::Allow, "build: {command}");
    }
}

/// Vector 48 of opencode.md 3.7, and what the issue says of each agent.
#[test]
fn every_native_agent_has_its_rules() {
    let table = [
        ("build", "edit", "src/a.rs", Verdict::Allow),
        ("build", "bash", "rm x", Verdict::Allow),
        ("build", "webfetch", "http://x", Verdict::Allow),
        ("build", "doom_loop", "bash", Verdict::Ask),
        ("build", "external_directory", "/other/*", Verdict::Ask),
        ("build", "task", "explore", Verdict::Allow),
        ("plan", "edit", "src/a.rs", Verdict::Deny),
        ("plan", "webfetch", "http://x", Verdict::Allow),
        ("plan", "read", "src/a.rs", Verdict::Allow),
        ("plan", "task", "general", Verdict::Allow),
        ("plan", "external_directory", "/other/*", Verdict::Ask),
        ("general", "edit", "src/a.rs", Verdict::Allow),
        ("general", "todowrite", "*", Verdict::Deny),
        ("general", "todoread", "*", Verdict::Deny),
        ("explore", "edit", "src/a.rs", Verdict::Deny),
        ("explore", "todowrite", "*", Verdict::Deny),
        ("explore", "todoread", "*", Verdict::Deny),
        ("explore", "read", "src/a.rs", Verdict::Allow),
        ("explore", "read", ".env", Verdict::Ask),
        ("explore", "grep", "x", Verdict::Allow),
        ("explore", "external_directory", "/other/*", Verdict::Ask),
        ("compaction", "read", "x", Verdict::Deny),
        ("title", "bash", "ls", Verdict::Deny),
        ("summary", "task", "explore", Verdict::Deny),
    ];
    let world = World::new();
    for (agent, key, pattern, expected) in table {
        assert_eq!(verdict(&world, agent, key, pattern), expected, "{agent}: {key}({pattern})");
    }
}

#[test]
fn who_they_are() {
    let (_, agents) = loaded(&World::new());
    let told: Vec<String> = agents
        .list()
        .iter()
        .map(|agent| {
            format!(
                "{} {:?}{}{}",
                agent.name,
                agent.mode,
                if agent.hidden { " hidden" } else { "" },
                if agent.default { " default" } else { "" }
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            "build Primary default",
            "compaction Primary hidden",
            "explore Subagent",
            "general Subagent hidden",
            "plan Primary",
            "summary Primary hidden",
            "title Primary hidden",
        ]
    );
    assert!(
        agents.list().iter().all(|agent| agent.native && agent.trusted && agent.prompt.as_ref().is_some_and(|prompt| 200 < prompt.len()))
    );
    assert_eq!(agents.get("general-purpose").unwrap().name, "general");
    assert_eq!(agents.primaries().map(|agent| agent.name.as_str()).collect::<Vec<_>>(), ["build", "plan"]);
    let offered = [("general", "todowrite", false), ("general", "bash", true), ("explore", "write", false), ("explore", "read", true)];
    for (agent, tool, expected) in offered.into_iter().chain([("title", "read", false), ("build", "todowrite", true)]) {
        assert_eq!(agents.get(agent).unwrap().offers(tool), expected, "{agent}: {tool}");
    }
    let explore = agents.get("explore").unwrap().prompt.clone().unwrap();
    for word in ["quick: 1 or 2", "medium: 3 to 5", "very thorough: 6", "`glob`", "`grep`", "`read`", "path:line"] {
        assert!(explore.contains(word), "{word}");
    }
    assert!(agents.get("title").unwrap().prompt.clone().unwrap().contains("under 50 characters"));
}

/// Defaults < top-level `permission` < the native's own < `agent.NAME.permission`; nothing of ours lifts what the user wrote.
#[test]
fn a_users_rules_and_a_natives() {
    let table = [
        // Only the agent's own key lifts a native deny.
        (r#"{"permission": {"edit": "allow"}}"#, "plan", "edit", "a", Verdict::Deny),
        (r#"{"permission": "allow"}"#, "plan", "edit", "a", Verdict::Deny),
        (r#"{"permission": "allow"}"#, "explore", "bash", "rm x", Verdict::Deny),
        (r#"{"agent": {"plan": {"permission": {"edit": "allow"}}}}"#, "plan", "edit", "a", Verdict::Allow),
        (r#"{"agent": {"plan": {"permission": {"edit": {"docs/*": "allow"}}}}}"#, "plan", "edit", "docs/a", Verdict::Allow),
        (r#"{"agent": {"plan": {"permission": {"edit": {"docs/*": "allow"}}}}}"#, "plan", "edit", "a", Verdict::Deny),
        (r#"{"agent": {"plan": {"permission": "allow"}}}"#, "plan", "edit", "a", Verdict::Deny),
        // `*` again keeps what is more special.
        (r#"{"agent": {"plan": {"permission": {"bash": "allow"}}}}"#, "plan", "bash", "rm x", Verdict::Allow),
        (r#"{"agent": {"plan": {"permission": {"bash": "allow"}}}}"#, "plan", "bash", "find . -delete", Verdict::Ask),
        (r#"{"agent": {"plan": {"permission": {"bash": {"cargo *": "allow"}}}}}"#, "plan", "bash", "cargo test", Verdict::Allow),
        (r#"{"agent": {"plan": {"permission": {"bash": {"cargo *": "allow"}}}}}"#, "plan", "bash", "rm x", Verdict::Ask),
        (r#"{"agent": {"explore": {"permission": {"bash": {"cargo *": "ask"}}}}}"#, "explore", "bash", "cargo test", Verdict::Deny),
        // What the user denies or asks about, no list of ours allows.
        (r#"{"permission": {"bash": {"git log*": "deny"}}}"#, "plan", "bash", "git log", Verdict::Deny),
        (r#"{"permission": {"bash": {"git log*": "ask"}}}"#, "plan", "bash", "git log", Verdict::Ask),
        (r#"{"permission": {"bash": {"git log*": "ask"}}}"#, "explore", "bash", "git log", Verdict::Deny),
        (r#"{"permission": {"*": "ask"}}"#, "explore", "bash", "ls", Verdict::Deny),
        (r#"{"permission": {"bash": {"rm*": "deny"}}}"#, "plan", "bash", "rm x", Verdict::Deny),
        (r#"{"permission": {"webfetch": "deny"}}"#, "plan", "webfetch", "http://x", Verdict::Deny),
        // Vector 50.
        (r#"{"agent": {"build": {"permission": {"bash": {"rm -rf *": "deny"}}}}}"#, "build", "bash", "rm -rf x", Verdict::Deny),
        (r#"{"agent": {"build": {"permission": {"bash": {"rm -rf *": "deny"}}}}}"#, "build", "bash", "ls", Verdict::Allow),
        (r#"{"agent": {"build": {"permission": {"bash": {"rm -rf *": "deny"}}}}}"#, "build", "edit", "a", Verdict::Allow),
        // Vector 49, as far as rules go.
        (r#"{"permission": {"external_directory": "deny"}}"#, "explore", "external_directory", "/x/*", Verdict::Deny),
    ];
    for (text, agent, key, pattern, expected) in table {
        assert_eq!(verdict(&World::with_user(text), agent, key, pattern), expected, "{text}: {agent} {key}({pattern})");
    }
}

/// An allow of the command line lifts everything but what we deny an agent of ours; only its definition lifts that.
#[test]
fn a_flag_lifts_no_native_deny() {
    let flagged = |user: &str, flags: &[(&str, Verdict)], agent: &str, key: &str, pattern: &str| {
        let mut world = World::with_user(user);
        let parse =
            |(text, action): &(&str, Verdict)| crate::parse_rule_flag(text, *action, &world.path("home"), &world.path("proj")).unwrap();
        world.overrides.rules = flags.iter().flat_map(parse).collect();
        verdict(&world, agent, key, pattern)
    };
    let (edit, bash) = ([("edit", Verdict::Allow)], [("bash", Verdict::Allow)]);
    let opened = r#"{"agent": {"plan": {"permission": {"edit": {"docs/*": "allow"}}}}}"#;
    let closed = r#"{"agent": {"plan": {"permission": {"edit": {"docs/*": "deny"}, "webfetch": "deny"}}}}"#;
    let table = [
        ("{}", &edit[..], "plan", "edit", "a", Verdict::Deny),
        ("{}", &[("*", Verdict::Allow)][..], "plan", "edit", "a", Verdict::Deny),
        ("{}", &edit[..], "explore", "edit", "a", Verdict::Deny),
        ("{}", &bash[..], "explore", "bash", "cargo test", Verdict::Deny),
        ("{}", &bash[..], "explore", "bash", "git log", Verdict::Allow),
        ("{}", &bash[..], "plan", "bash", "cargo test", Verdict::Allow),
        (opened, &edit[..], "plan", "edit", "docs/a", Verdict::Allow),
        (opened, &edit[..], "plan", "edit", "a", Verdict::Deny),
        (closed, &edit[..], "plan", "edit", "docs/a", Verdict::Deny),
        (closed, &[("webfetch", Verdict::Allow)][..], "plan", "webfetch", "http://x", Verdict::Allow),
        (r#"{"agent": {"plan": {"permission": {"edit": "deny"}}}}"#, &edit[..], "plan", "edit", "a", Verdict::Deny),
        (r#"{"agent": {"plan": {"permission": {"edit": "allow"}}}}"#, &edit[..], "plan", "edit", "a", Verdict::Allow),
        (r#"{"permission": {"edit": "deny"}}"#, &edit[..], "build", "edit", "a", Verdict::Allow),
        (opened, &[("edit", Verdict::Allow), ("edit(docs/x)", Verdict::Deny)][..], "plan", "edit", "docs/x", Verdict::Deny),
    ];
    for (user, flags, agent, key, pattern, expected) in table {
        assert_eq!(flagged(user, flags, agent, key, pattern), expected, "{user} {flags:?}: {agent} {key}({pattern})");
    }
}

/// Vectors 25 to 29 of opencode.md 3.7: rules about delegation.
#[test]
fn rules_of_delegation() {
    let table = [
        (r#"{"orchestrator-*": "deny", "orchestrator-fast": "allow"}"#, "orchestrator-fast", Verdict::Allow, false),
        (r#"{"orchestrator-*": "deny", "orchestrator-fast": "allow"}"#, "orchestrator-slow", Verdict::Deny, false),
        (r#"{"*": "allow", "code-reviewer": "deny"}"#, "general", Verdict::Allow, false),
        (r#"{"*": "allow", "code-reviewer": "deny"}"#, "code-reviewer", Verdict::Deny, false),
        (r#"{"general": "allow", "*": "deny"}"#, "general", Verdict::Deny, true),
        (r#"{"*": "deny", "general": "allow"}"#, "general", Verdict::Allow, false),
        (r#"{"*": "deny", "general": "allow"}"#, "explore", Verdict::Deny, false),
    ];
    for key in ["task", "agent", "Task"] {
        for (rules, name, expected, disabled) in table {
            let world = World::with_user(&format!(r#"{{"agent": {{"lead": {{"permission": {{"{key}": {rules}}}}}}}}}"#));
            assert_eq!(verdict(&world, "lead", "task", name), expected, "{key}: {rules}: {name}");
            let (config, agents) = loaded(&world);
            let lead = agents.get("lead").unwrap();
            assert_eq!(config.rulebook_for(lead, PermissionMode::Default).rules.disables("task"), disabled, "{rules}");
            assert!(lead.speaks_of("task"));
        }
    }
    assert!(!loaded(&World::new()).1.get("build").unwrap().speaks_of("task"));
}

#[test]
fn natives_can_be_overridden_and_disabled() {
    let world = World::with_user(
        r#"{"agent": {"build": {"temperature": 0.7, "model": "a/b", "prompt_append": "Be brief."}, "plan": {"disable": true},
            "Explore": {"description": "mine"}, "general-purpose": {"hidden": false, "tools": {"webfetch": false}}, "title": {"disable": false}}}"#,
    );
    let (config, agents) = loaded(&world);
    let build = agents.get("build").unwrap();
    assert_eq!((build.temperature, build.model.as_deref(), build.mode, build.native), (Some(0.7), Some("a/b"), AgentMode::Primary, true));
    assert!(build.prompt.as_ref().unwrap().starts_with("You are Posse") && build.prompt.as_ref().unwrap().ends_with("\n\nBe brief."));
    assert!(agents.get("plan").is_none());
    let explore = agents.get("explore").unwrap();
    assert_eq!((explore.name.as_str(), explore.description.as_deref()), ("explore", Some("mine")));
    assert_eq!(verdict(&world, "explore", "edit", "a"), Verdict::Deny);
    let general = agents.get("general").unwrap();
    assert!(!general.hidden && !general.offers("webfetch"));
    assert_eq!(verdict_in(&config, general, PermissionMode::Default, "todowrite", "*"), Verdict::Deny);
    assert!(agents.get("title").is_some());
    assert!(!general.offers("todowrite"), "maps of tools are merged");

    let world = World::with_user(
        r#"{"permission": {"bash": {"rm*": "deny"}}, "agent": {"general": {"tools": {"todowrite": true}}, "explore": {"tools": {"bash": true}}}}"#,
    );
    let (_, agents) = loaded(&world);
    assert!(agents.get("general").unwrap().offers("todowrite") && !agents.get("general").unwrap().offers("todoread"));
    let table = [
        ("general", "todowrite", "*", Verdict::Allow),
        ("general", "todoread", "*", Verdict::Deny),
        ("explore", "bash", "cargo test", Verdict::Allow),
        ("explore", "bash", "find . -delete", Verdict::Deny),
        ("explore", "bash", "rm x", Verdict::Deny),
    ];
    for (agent, key, pattern, expected) in table {
        assert_eq!(verdict(&world, agent, key, pattern), expected, "{agent}: {key}({pattern})");
    }
}

/// Who reads only is told which commands it has, so that it does not try the others.
#[test]
fn the_readers_are_told_their_commands() {
    let world = World::new();
    let agents = agents(&world.places(), &world.load().unwrap(), None).unwrap();
    for name in ["explore", "plan"] {
        let prompt = agents.get(name).unwrap().prompt.clone().unwrap();
        for rule in crate::mode::looking_shell(Verdict::Deny, "").iter().filter(|rule| rule.action == Verdict::Allow) {
            let command = rule.pattern.trim_end_matches(['*', ' ']);
            assert!(prompt.contains(&format!("`{command}`")), "{name}: {command}");
        }
        assert!(prompt.contains("`read` instead of `cat` or `head`"), "{name}");
    }
}
