//! Agents out of every kind of file, put over one another, and what a folder that nobody trusts may say of them.

use std::{fs, path::Path, time::Duration, time::Instant};

use posse_session::{Agent, AgentBudget, AgentLimits, AgentMode, AgentTools, MemoryScope, Touch, Verdict};
use serde_json::json;

use crate::{Agents, PermissionMode, agents, check_agents, keep_trust, testing::World};

fn try_inline(world: &World, inline: Option<&str>) -> Result<Agents, String> {
    let config = world.load().map_err(|error| world.near(&error.to_string()))?;
    agents(&world.places(), &config, inline).map_err(|error| world.near(&error.to_string()))
}

fn load(world: &World) -> Agents {
    try_inline(world, None).unwrap()
}

fn get(world: &World, name: &str) -> Agent {
    load(world).get(name).unwrap_or_else(|| panic!("no agent {name}")).clone()
}

fn own(agents: &Agents) -> Vec<String> {
    agents.list().iter().filter(|agent| !agent.native).map(|agent| agent.name.clone()).collect()
}

fn tolerated(world: &World) -> Vec<String> {
    load(world).tolerated.iter().map(|problem| world.near(&problem.to_string())).collect()
}

fn verdict(world: &World, agent: &str, key: &str, pattern: &str) -> Verdict {
    let book = world.load().unwrap().rulebook_for(&get(world, agent), PermissionMode::Default);
    let touch = Touch::new(key, pattern);
    std::iter::once(&book.rules).chain(&book.ceiling).map(|rules| rules.judge(&touch).verdict).max().unwrap()
}

/// A world whose project is trusted for this once.
fn trusting() -> World {
    let mut world = World::new();
    world.overrides.trust = true;
    world
}

/// CC-051, CC-053, CC-054: every source gives the same shape, under the name its family gives it.
#[test]
fn every_source_is_read() {
    let plugin = r#"{"name": "acme"}"#;
    let world = World::with_user(r#"{"plugins": ["./plug"], "agent": {"of-posse-json": {}}}"#)
        .file("home/.config/opencode/opencode.json", r#"{"agent": {"of-opencode-json": {}}, "mode": {"of-mode-map": {"prompt": "p"}}}"#)
        .file("home/.config/opencode/agent/oc-user.md", "---\ndescription: d\n---\np")
        .file("home/.config/opencode/mode/old.md", "p")
        .file("home/.claude/agents/cl-user.md", "---\nname: Claude User\ndescription: d\n---\np")
        .file("home/posse/agents/deep/ours.md", "p")
        .file("home/posse/plug/.claude-plugin/plugin.json", plugin)
        .file("home/posse/plug/agents/review/security.md", "---\nname: sec\n---\np")
        .file("proj/.opencode/agents/team/reviewer.md", "p")
        .file("proj/.opencode/agent/named.md", "---\nname: other-name\n---\np")
        .file("proj/.claude/agents/nested/cl-project.md", "---\ndescription: d\n---\np")
        .file("proj/sub/.posse/agents/below.md", "p")
        .file("proj/.posse/agents/top.md", "p")
        .file("proj/posse.json", r#"{"agent": {"of-project": {"prompt": "p"}}}"#)
        .at("proj/sub");
    let agents =
        try_inline(&world, Some(r#"{"of-flag": {"description": "d", "prompt": "p", "tools": ["Read"], "model": "sonnet"}}"#)).unwrap();
    let told: Vec<String> =
        agents.list().iter().filter(|agent| !agent.native).map(|agent| format!("{} {:?}", agent.name, agent.mode)).collect();
    assert_eq!(
        told,
        [
            "Claude User Subagent",
            "acme:review:sec Subagent",
            "below All",
            "cl-project Subagent",
            "deep/ours All",
            "oc-user All",
            "of-flag All",
            "of-mode-map Primary",
            "of-opencode-json All",
            "of-posse-json All",
            "of-project All",
            "old Primary",
            "other-name All",
            "team/reviewer All",
            "top All",
        ]
    );
    assert_eq!(agents.files, 10);
    for (name, found) in
        [("claude-user", "Claude User"), ("sec", "acme:review:sec"), ("acme:review:SEC", "acme:review:sec"), ("Top", "top")]
    {
        assert_eq!(agents.get(name).unwrap().name, found);
    }
    assert!(agents.get("nobody").is_none() && agents.get("").is_none());
    assert_eq!(agents.list()[0].name, "build");

    let quiet = world.user(r#"{"compat": {"opencode": false, "claude": false}}"#);
    assert_eq!(own(&load(&quiet)), ["below", "deep/ours", "of-project", "top"]);
}

/// CC-055, CC-056, CC-057, CC-058, CC-059, CC-060, CC-061, CC-062, CC-063, CC-064, CC-065, CC-066, CC-067, CC-071: every key of every
/// family, in a head and in JSON.
#[test]
fn every_key_is_kept() {
    let head = "---
name: code-reviewer
description: Reviews code
tools:
  - Read
  - Grep
  - Bash(git *)
disallowedTools: Write, Edit
model: sonnet
effort: high
permissionMode: acceptEdits
background: yes
isolation: worktree
maxTurns: 12
color: cyan
memory: project
skills: lint, acme:style
mcpServers:
  - github
requiredMcpServers: [github]
hooks:
  PreToolUse: []
initialPrompt: Begin.
temperature: 0.2
top_p: 0.9
variant: fast
hidden: true
aliases: [cr]
budget:
  cost: 1.5
  tokens: 1000
timeout: 10m
limits:
  steps: 40
  cost: 2
  wall: 1h
  idle: 90s
  streamIdle: 30
  step: 2m
  depth: 0
  children: 5
fallbackModels: [haiku, p/other]
reasoningEffort: high
options:
  store: false
permission:
  edit: deny
---

You review.
";
    let expected = Agent {
        name: "code-reviewer".into(),
        aliases: vec!["cr".into()],
        description: Some("Reviews code".into()),
        mode: AgentMode::Subagent,
        hidden: true,
        model: Some("sonnet".into()),
        variant: Some("fast".into()),
        effort: Some("high".into()),
        temperature: Some(0.2),
        top_p: Some(0.9),
        color: Some("cyan".into()),
        prompt: Some("You review.".into()),
        tools: AgentTools::Listed(vec!["Read".into(), "Grep".into(), "Bash(git *)".into()]),
        disallowed_tools: vec!["Write".into(), "Edit".into()],
        options: json!({"store": false}).as_object().unwrap().clone(),
        steps: Some(12),
        permission_mode: Some("acceptEdits".into()),
        background: true,
        isolation: Some("worktree".into()),
        skills: vec!["lint".into(), "acme:style".into()],
        mcp_servers: json!(["github"]),
        required_mcp_servers: vec!["github".into()],
        hooks: json!({"PreToolUse": []}),
        memory: Some(MemoryScope::Project),
        initial_prompt: Some("Begin.".into()),
        budget: AgentBudget { cost_usd: Some(1.5), tokens: Some(1000) },
        timeout: Some(Duration::from_secs(600)),
        limits: AgentLimits {
            idle: Some(Duration::from_secs(90)),
            stream_idle: Some(Duration::from_secs(30)),
            step: Some(Duration::from_secs(120)),
            depth: Some(0),
            children: Some(5),
        },
        fallback: Some(vec!["haiku".into(), "p/other".into()]),
        trusted: true,
        ..Agent::default()
    };
    let world = World::new().file("home/.claude/agents/x.md", head);
    let mut found = get(&world, "code-reviewer");
    assert_eq!(tolerated(&world), ["home/.claude/agents/x.md:43: reasoningEffort: nobody here knows this key; left out"]);
    let rules: Vec<String> = found
        .permission
        .drain(..)
        .map(|rule| format!("{} {} {:?} {}", rule.key, rule.pattern, rule.action, world.near(&rule.origin)))
        .collect();
    assert_eq!(rules, ["edit * Deny home/.claude/agents/x.md:47"]);
    assert_eq!(world.near(&std::mem::take(&mut found.origin)), "home/.claude/agents/x.md:1");
    assert_eq!(found, expected);

    let json = r#"{"agent": {"code-reviewer": {"description": "Reviews code", "mode": "subagent", "tools": ["Read", "Grep", "Bash(git *)"],
        "disallowedTools": ["Write", "Edit"], "model": {"providerID": "p", "modelID": "m"}, "effort": "high", "permissionMode": "acceptEdits",
        "background": true, "isolation": "worktree", "maxSteps": 12, "color": "cyan", "memory": "project", "skills": ["lint", "acme:style"],
        "mcpServers": ["github"], "requiredMcpServers": ["github"], "hooks": {"PreToolUse": []}, "initialPrompt": "Begin.", "temperature": 0.2,
        "topP": 0.9, "variant": "fast", "hidden": true, "aliases": ["cr"], "budget": {"cost": 1.5, "tokens": 1000}, "timeout": "10m",
        "limits": {"idle": 90, "stream_idle": "30s", "step": "2m", "depth": 0, "children": 5, "maxTurns": 40},
        "fallback": ["haiku", {"providerID": "p", "modelID": "other"}],
        "reasoningEffort": "high", "options": {"store": false}, "permission": {"edit": "deny"}, "prompt": "You review."}}}"#;
    let found = get(&World::with_user(json), "code-reviewer");
    let options = json!({"reasoningEffort": "high", "store": false}).as_object().unwrap().clone();
    let same = Agent { options, permission: found.permission.clone(), origin: found.origin.clone(), model: Some("p/m".into()), ..expected };
    assert_eq!(found, same);
}

/// Wild values: none of them rejects a file, and what cannot be meant is named with its line.
#[test]
fn values_as_people_write_them() {
    type Told = fn(&Agent) -> String;
    let table: [(&str, Told, &str, &[&str]); 20] = [
        ("tools: Read, Grep", |a| format!("{:?}", a.tools), r#"Listed(["Read", "Grep"])"#, &[]),
        ("tools: *", |a| a.offers("anything").to_string(), "true", &["x.md:2: ", "x.md:2: tools: read with `*` in quotes"]),
        ("tools:", |a| format!("{:?}", a.tools), "All", &[]),
        ("tools: []", |a| a.offers("read").to_string(), "false", &[]),
        ("tools: {write: false, bash: true}", |a| format!("{:?}", a.tools), r#"Map([("write", false), ("bash", true)])"#, &[]),
        ("steps: 5\nmaxSteps: 9", |a| format!("{:?}", a.steps), "Some(5)", &[]),
        ("maxTurns: 0", |a| format!("{:?}", a.steps), "None", &["x.md:2: maxTurns: expected a whole number, 1 or more, found a number"]),
        ("steps: many", |a| format!("{:?}", a.steps), "None", &["x.md:2: steps: expected a whole number, 1 or more, found a string"]),
        ("model: gpt 5 mini", |a| format!("{:?}", a.model), "None", &["x.md:2: model: not the name of a model; the caller's is used"]),
        ("model: inherit", |a| format!("{:?}", a.model), "Some(\"inherit\")", &[]),
        ("mode: Primary", |a| format!("{:?}", a.mode), "Primary", &[]),
        ("mode: agent", |a| format!("{:?}", a.mode), "All", &["x.md:2: mode: expected one of \"primary\", \"subagent\", \"all\""]),
        (
            "memory: everywhere",
            |a| format!("{:?}", a.memory),
            "None",
            &["x.md:2: memory: expected one of \"user\", \"project\", \"local\""],
        ),
        (
            "permissionMode: bubble",
            |a| format!("{:?}", a.permission_mode),
            "None",
            &["x.md:2: permissionMode: not a permission mode that an agent can have; denied"],
        ),
        ("effort: 3", |a| format!("{:?}", a.effort), "Some(\"3\")", &[]),
        ("color: '#ff0000'\n🚀: yes", |a| format!("{:?} {}", a.color, a.options.len()), "Some(\"#ff0000\") 1", &[]),
        ("description: 5", |a| format!("{:?}", a.description), "Some(\"5\")", &[]),
        ("description:\n  a: b", |a| format!("{:?}", a.description), "None", &["x.md:3: description: expected a string, found an object"]),
        (
            "permission:\n  bsah: deny",
            |a| format!("{}", a.permission.len()),
            "1",
            &["x.md:3: permission.bsah: no tool has this name, so the rule would do nothing; did you mean `bash`?"],
        ),
        (
            "permission: nothing",
            |a| format!("{}", a.permission.len()),
            "2",
            &["x.md:2: permission: expected \"allow\", \"ask\", \"deny\" or rules by name, found another text; denied"],
        ),
    ];
    for (head, of, expected, problems) in table {
        let world = World::new().file("home/posse/agents/x.md", format!("---\n{head}\n---\nbody"));
        let agent = get(&world, "x");
        assert_eq!((of(&agent).as_str(), agent.prompt.as_deref()), (expected, Some("body")), "{head}");
        let found = tolerated(&world);
        assert_eq!(found.len(), problems.len(), "{head}: {found:?}");
        for (found, start) in found.iter().zip(problems) {
            assert!(found.starts_with(&format!("home/posse/agents/{start}")), "{head}: {found}");
        }
    }
}

/// Nothing is half-configured: in a configuration file and in `--agents` a wrong type is an error with its line.
#[test]
fn a_wrong_type_in_a_configuration_file_is_an_error() {
    let table = [
        (r#"{"agent": []}"#, "home/posse/posse.json:1: agent: expected agents by name, found a list"),
        ("{\"agent\": {\n\"a\": 1}}", "home/posse/posse.json:2: agent.a: expected an object, found a number"),
        (
            "{\"agent\": {\"a\": {\n\"steps\": 0}}}",
            "home/posse/posse.json:2: agent.a.steps: expected a whole number, 1 or more, found a number",
        ),
        (
            "{\"agent\": {\"a\": {\"permission\": {\n\"bsah\": \"deny\"}}}}",
            "home/posse/posse.json:2: agent.a.permission.bsah: no tool has this name, so the rule would do nothing; did you mean `bash`?",
        ),
        (r#"{"agent": {"a": {"prompt": "{file:missing.md}"}}}"#, "home/posse/posse.json:1: agent.a.prompt: the file"),
    ];
    for (text, start) in table {
        let error = try_inline(&World::with_user(text), None).unwrap_err();
        assert!(error.starts_with(start), "{error}");
    }
    let world = World::new();
    for (inline, start) in [
        ("{", "--agents:1: not valid JSON"),
        ("[]", "--agents:1: expected agents by name"),
        (r#"{"a": {"mode": 1}}"#, "--agents:1: a.mode: expected one of"),
    ] {
        let error = try_inline(&world, Some(inline)).unwrap_err();
        assert!(error.starts_with(start), "{error}");
    }
}

#[test]
fn higher_files_override_key_by_key_and_references_are_put_in() {
    let world = World::with_user(
        r#"{"agent": {"a": {"description": "user", "temperature": 0.5, "prompt": "{file:words.md} {env:NAME}",
            "options": {"x": {"y": 1, "z": 1}}, "permission": {"bash": {"*": "ask", "ls*": "allow"}}}, "gone": {"disable": true}}}"#,
    )
    .file("home/posse/words.md", "From a file.")
    .env("NAME", "me")
    .file("home/posse/agents/gone.md", "still disabled")
    .file("home/.claude/agents/c.md", "---\nname: c\ntools: Read\nmodel: haiku\n---\nold")
    .file("proj/.claude/agents/c.md", "---\nname: C\n---\nnew")
    .file("proj/opencode.json", r#"{"agent": {"a": {"description": "opencode", "options": {"x": {"y": 2}}}}}"#)
    .file("proj/posse.json", r#"{"agent": {"A": {"permission": {"bash": {"rm*": "deny", "*": "allow"}}}}}"#);
    let mut world = world;
    world.overrides.trust = true;
    let a = get(&world, "a");
    assert_eq!((a.description.as_deref(), a.temperature, a.prompt.as_deref()), (Some("opencode"), Some(0.5), Some("From a file. me")));
    assert_eq!(serde_json::Value::Object(a.options), json!({"x": {"y": 2, "z": 1}}));
    let rules: Vec<String> = a.permission.iter().map(|rule| format!("{}({}) {:?}", rule.key, rule.pattern, rule.action)).collect();
    assert_eq!(rules, ["bash(*) Allow", "bash(ls*) Allow", "bash(rm*) Deny"]);
    assert!(load(&world).get("gone").is_none(), "a later file that says nothing of it leaves it disabled");
    let c = get(&world, "c");
    assert_eq!((c.tools, c.model, c.prompt.as_deref()), (AgentTools::All, None, Some("new")), "a file of Claude's is a whole definition");
}

#[test]
fn duplicates_of_one_folder_are_told_and_the_first_counts() {
    let world = World::new()
        .file("home/posse/agents/a.md", "---\nname: reviewer\n---\nfirst")
        .file("home/posse/agents/b.md", "---\nname: Reviewer\n---\nsecond")
        .file("home/posse/agents/README.md", "# How we use this")
        .file("proj/.posse/agents/reviewer.md", "third");
    assert_eq!(
        tolerated(&world),
        [
            "home/posse/agents/README.md:1: has no head and the name of a document; not read as an agent",
            "home/posse/agents/b.md:1: a second agent Reviewer; the one at home/posse/agents/a.md:1 counts",
        ]
    );
    assert_eq!(get(&world, "reviewer").prompt.as_deref(), Some("first"), "a folder that nobody trusts does not change it");
}

#[test]
fn who_starts_is_said_by_default_agent() {
    let agents = r#""agent": {"lead": {"mode": "primary"}, "helper": {"mode": "subagent"}, "ghost": {"hidden": true}, "both": {}}"#;
    let table = [
        ("", Ok("build")),
        (r#""default_agent": "lead", "#, Ok("lead")),
        (r#""default_agent": "Both", "#, Ok("both")),
        (r#""default_agent": "helper", "#, Err("home/posse/posse.json:1: default_agent: helper is a subagent; choose one of BLP")),
        (r#""default_agent": "ghost", "#, Err("home/posse/posse.json:1: default_agent: ghost is hidden; choose one of BLP")),
        (r#""default_agent": "nobody", "#, Err("home/posse/posse.json:1: default_agent: there is no agent nobody; choose one of BLP")),
    ];
    for (said, expected) in table {
        let world = World::with_user(&format!("{{{said}{agents}}}"));
        let (config, list) = (world.load().unwrap(), load(&world));
        let found = list.default(&config).map(|agent| agent.name.clone()).map_err(|words| world.near(&words));
        let expected_words = expected.map(str::to_owned).map_err(|words: &str| words.replace("BLP", "both, build, lead, plan"));
        assert_eq!(found, expected_words, "{said}");
        if let Ok(name) = expected {
            assert_eq!((list.list()[0].name.as_str(), list.list().iter().filter(|agent| agent.default).count()), (name, 1));
        }
    }
    let world = World::with_user(r#"{"agent": {"build": {"disable": true}, "mine": {"mode": "primary"}}}"#);
    assert_eq!(load(&world).list()[0].name, "plan");
    let none = World::with_user(r#"{"agent": {"build": {"disable": true}, "plan": {"disable": true}}}"#);
    assert!(load(&none).default(&none.load().unwrap()).unwrap_err().starts_with("no agent is left"));
}

#[test]
fn names_near_and_names_that_mean_two() {
    let world = World::with_user(r#"{"agent": {"one:reviewer": {}, "two:reviewer": {}, "code-writer": {}}}"#);
    let agents = load(&world);
    assert!(agents.get("reviewer").is_none(), "two are meant");
    assert_eq!(agents.get("two:reviewer").unwrap().name, "two:reviewer");
    assert_eq!(agents.near("reviewer"), ["one:reviewer", "two:reviewer"]);
    assert_eq!(agents.near("explroe"), ["explore"]);
    assert_eq!(agents.near("writer"), ["code-writer"]);
    assert_eq!(agents.near("zzz"), Vec::<String>::new());
}

const POWERFUL: &str = "---
name: helper
description: d
model: evil/model
permissionMode: bypassPermissions
hooks: {Stop: []}
steps: 99
temperature: 1
memory: user
color: red
reasoningEffort: high
tools: {bash: true, webfetch: false}
permission:
  edit: allow
  read: {'secret/*': deny}
---
Words.";

/// Untrusted: prompts, descriptions and stricter rules count; the rest is ignored and named, and trust is bound to it.
#[test]
fn a_folder_that_nobody_trusts_says_only_words_and_stricter_rules() {
    let json = r#"{"agent": {"boss": {"prompt": "p", "model": "evil/m", "steps": 3, "disable": true, "permission": {"bash": "ask", "edit": "allow"}},
        "build": {"disable": true, "prompt_append": "x"}}}"#;
    let world = World::with_user(r#"{"permission": {"bash": {"rm*": "deny"}}}"#)
        .file("proj/.claude/agents/helper.md", POWERFUL)
        .file("proj/.opencode/mode/old.md", "---\nmodel: evil/m\n---\np")
        .file("proj/posse.json", json);
    let helper = get(&world, "helper");
    let kept = Agent {
        name: "helper".into(),
        description: Some("d".into()),
        mode: AgentMode::Subagent,
        color: Some("red".into()),
        prompt: Some("Words.".into()),
        disallowed_tools: vec!["webfetch".into()],
        ceiling: helper.ceiling.clone(),
        origin: helper.origin.clone(),
        ..Agent::default()
    };
    assert_eq!(helper, kept);
    let table = [
        ("helper", "webfetch", "http://x", Verdict::Deny),
        ("helper", "read", "secret/x", Verdict::Deny),
        ("helper", "edit", "a", Verdict::Allow),
        ("boss", "bash", "ls", Verdict::Ask),
        ("boss", "bash", "rm x", Verdict::Deny),
    ];
    for (agent, key, pattern, expected) in table {
        assert_eq!(verdict(&world, agent, key, pattern), expected, "{agent}: {key}({pattern})");
    }
    assert!(load(&world).get("boss").is_some_and(|boss| boss.model.is_none() && boss.steps.is_none() && !boss.trusted));
    let line = world.load().unwrap().ignored_line().unwrap();
    for part in [
        "posse.json: agent.boss.model, agent.boss.steps, agent.boss.disable, agent.boss.permission.edit (allow), agent.build.disable",
        ".claude/agents/helper.md: hooks, memory, model, options, permission (allow), permission_mode, steps, temperature",
        ".opencode/mode/old.md: model",
    ] {
        assert!(line.contains(part), "{part}\n{line}");
    }

    let mut trusted = world;
    trusted.overrides.trust = true;
    let helper = get(&trusted, "helper");
    assert_eq!((helper.model.as_deref(), helper.steps, helper.trusted), (Some("evil/model"), Some(99), true));
    assert!(load(&trusted).get("boss").is_none());
}

/// The fingerprint covers whatever would be believed, however it is written.
#[test]
fn trust_ends_with_every_word_that_counts_only_when_trusted() {
    let table = [
        ("---\nname: a\nmodel: x/y\n---\np", "---\nname: a\nmodel: x/z\n---\np"),
        ("---\nname: a\n---\np", "---\nname: a\nsteps: 3\n---\np"),
        ("---\nname: a\n---\np", "---\nname: a\nreasoningEffort: high\n---\np"),
        ("---\nname: a\n---\np", "---\nname: a\n\"my key\": 1\n---\np"),
        ("---\nname: a\n---\np", "---\n{name: a, store: true}\n---\np"),
        ("---\nname: a\n---\np", "---\n  name: a\n  store: true\n---\np"),
        ("words", "words\n\n---\nname: a\nmodel: x/y\n---\np"),
        ("---\nname: a\n---\np", "---\nname: a\nmodel: x/y\n\np"),
        ("p", "{\"prompt\": \"p\", \"model\": \"x/y\"}"),
        ("p", "{\"prompt\": \"p\", \"store\": true}"),
        ("---\nname: a\n---\np", "---\nname: a\rmodel: x/y\n---\np"),
        ("---\nname: a\n---\np", "---\rname: a\rmodel: x/y\r---\rp"),
        ("---\nname: a\n---\np", "---\nname: a\na:b: c\n---\np"),
        ("---\nname: a\n---\np", "---\nname: a\n-b: c\n---\np"),
        ("---\nname: a\n---\np", "---\nname: a\n? store\n: c\n---\np"),
        ("---\nname: a\n---\np", "---\n# words\n  store: a\ndescription: a: b\n---\np"),
        ("---\nname: a\n---\np", "---\nname: a\ntools: {bash: Yes}\n---\np"),
        ("---\nname: a\n---\np", "---\nname: a\ntools: {bash: true}\n---\np"),
        ("---\r\nname: a\r\n---\r\np", "---\r\nname: a\r\nmodel: x/y\r\n---\r\np"),
    ];
    for (before, after) in table {
        let world = World::new().file("proj/.posse/agents/a.md", before);
        keep_trust(&world.places(), &world.load().unwrap(), 1).unwrap();
        let known = get(&world, "a");
        assert!(known.trusted, "{before:?}");
        let world = world.file("proj/.posse/agents/a.md", after);
        let now = get(&world, "a");
        assert!(!now.trusted && now.model.is_none() && now.steps.is_none() && now.options.is_empty(), "{after:?}: {now:?}");
    }
    let world = World::new().file("proj/.posse/agents/a.md", "---\nname: a\nmodel: x/y\n---\np");
    keep_trust(&world.places(), &world.load().unwrap(), 1).unwrap();
    let world = world.file("proj/.posse/agents/a.md", "---\nname: a\nmodel: x/y\n---\nother words");
    assert!(get(&world, "a").trusted, "prose changes nothing");
}

/// Whatever it says of tools, it takes some away and gives none back.
#[test]
fn a_folder_that_nobody_trusts_gives_no_tools() {
    let user = r#"{"agent": {"listed": {"tools": ["Read"]}, "without": {"disallowedTools": ["Bash"]}, "mapped": {"tools": {"bash": false}}, "open": {}}}"#;
    let table = [
        ("tools: '*'", "listed", "bash", false),
        ("tools: Bash", "listed", "bash", false),
        // The user's own stay as they are.
        ("tools: Read", "open", "bash", true),
        ("tools: Read", "open", "read", true),
        ("disallowedTools: Read", "without", "bash", false),
        ("disallowedTools: Read", "without", "read", true),
        ("tools: {bash: yes, read: no}", "mapped", "bash", false),
        ("tools: {bash: yes, read: no}", "mapped", "read", true),
        ("tools: {read: no}", "general", "read", false),
        ("tools: Read", "build", "bash", false),
        ("tools: {bash: yes, '*': yes}", "mapped", "bash", false),
        ("tools: {todowrite: yes}", "general", "todowrite", false),
    ];
    for (head, name, tool, expected) in table {
        for folder in [".posse/agents", ".claude/agents", ".opencode/mode"] {
            let world = World::with_user(user).file(&format!("proj/{folder}/{name}.md"), format!("---\nname: {name}\n{head}\n---\np"));
            assert_eq!(get(&world, name).offers(tool), expected, "{folder}: {name}: {head}: {tool}");
        }
    }
    let world = World::new().file("proj/.posse/agents/explore.md", "---\ntools: {bash: yes, edit: on}\n---\np");
    assert_eq!((verdict(&world, "explore", "bash", "rm x"), verdict(&world, "explore", "edit", "a")), (Verdict::Deny, Verdict::Deny));
}

/// A folder that nobody trusts may add agents and words, not take away whom the user starts with.
#[test]
fn a_folder_that_nobody_trusts_takes_nobody_away() {
    let world = World::with_user(r#"{"agent": {"mine": {"mode": "primary"}}}"#)
        .file(
            "proj/posse.json",
            r#"{"agent": {"build": {"mode": "subagent", "hidden": true}, "theirs": {"mode": "primary", "hidden": true}}}"#,
        )
        .file("proj/.opencode/mode/explore.md", "p")
        .file("proj/.claude/agents/mine.md", "---\nname: mine\nmode: subagent\n---\nother");
    let agents = load(&world);
    let told = |name: &str| agents.get(name).map(|agent| (agent.mode, agent.hidden)).unwrap();
    assert_eq!(told("build"), (AgentMode::Primary, false));
    assert_eq!(told("explore"), (AgentMode::Subagent, false));
    assert_eq!(told("mine"), (AgentMode::Primary, false));
    assert_eq!(told("theirs"), (AgentMode::Primary, true));
    assert_eq!(agents.list()[0].name, "build");
}

#[test]
fn a_higher_file_that_says_the_rest_keeps_what_is_more_special() {
    let mut world = World::with_user(r#"{"agent": {"a": {"permission": {"bash": {"rm*": "deny"}}}}}"#)
        .file("proj/posse.json", r#"{"agent": {"a": {"permission": {"bash": "ask", "webfetch": "deny"}}}}"#);
    world.overrides.trust = true;
    for (key, pattern, expected) in [("bash", "rm x", Verdict::Deny), ("bash", "ls", Verdict::Ask), ("webfetch", "http://x", Verdict::Deny)]
    {
        assert_eq!(verdict(&world, "a", key, pattern), expected, "{key}({pattern})");
    }
}

#[test]
fn a_deny_that_can_never_apply_is_told() {
    let world = World::with_user(
        r#"{"agent": {"a": {"permission": {"bash": {"rm*": "deny", "*": "allow"}}}, "b": {"permission": {"bash": {"*": "allow", "rm*": "deny"}}}}}"#,
    );
    let told: Vec<String> = load(&world).dead_denies.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("bash(rm*): this deny can never apply"), "{told:?}");
}

#[test]
fn an_error_in_a_neighbours_file_says_how_to_leave_it_out() {
    let world = World::new().file("home/.config/opencode/opencode.json", r#"{"agent": {"a": {"steps": -1}}}"#);
    let error = try_inline(&world, None).unwrap_err();
    assert!(error.contains("agent.a.steps") && error.contains("\"compat\": {\"opencode\": false}"), "{error}");
}

#[test]
fn a_plugins_agent_may_not_say_everything() {
    let world = World::with_user(r#"{"plugins": ["./plug"]}"#)
        .file("home/posse/plug/agents/a.md", "---\nname: a\nhooks: {Stop: []}\nmcpServers: [x]\npermissionMode: plan\nmodel: opus\n---\np");
    let a = get(&world, "plug:a");
    assert_eq!((a.hooks.is_null(), a.mcp_servers.is_null(), a.permission_mode, a.model.as_deref()), (true, true, None, Some("opus")));
    assert_eq!(tolerated(&world).len(), 3);
}

#[test]
fn an_order_of_a_file_is_the_order_of_its_agents_rules() {
    let rules = r#"{"bash": {"*": "deny", "ls*": "allow"}}"#;
    let reversed = r#"{"bash": {"ls*": "allow", "*": "deny"}}"#;
    for (order, rules, expected) in [
        ("last", rules, Verdict::Allow),
        ("last", reversed, Verdict::Deny),
        ("first", rules, Verdict::Allow),
        ("first", reversed, Verdict::Allow),
    ] {
        let world = World::with_user(&format!(r#"{{"permission_order": "{order}", "agent": {{"a": {{"permission": {rules}}}}}}}"#));
        assert_eq!(verdict(&world, "a", "bash", "ls"), expected, "{order}: {rules}");
        assert_eq!(verdict(&world, "a", "bash", "rm"), Verdict::Deny, "{order}: {rules}");
    }
}

/// A map of commands or skills without `*` allows the rest, because the built-in rules do, below whatever the user says.
#[test]
fn a_map_without_the_rest() {
    let agent = r#""agent": {"a": {"permission": {"bash": {"rm*": "deny"}, "skill": {"x": "deny"}}}}"#;
    let table = [
        ("", Verdict::Allow, Verdict::Allow),
        (r#""permission": {"bash": "ask"}, "#, Verdict::Ask, Verdict::Ask),
        (r#""permission": {"bash": {"ls*": "ask"}}, "#, Verdict::Ask, Verdict::Allow),
    ];
    for (permission, listing, printing) in table {
        let world = World::with_user(&format!("{{{permission}{agent}}}"));
        assert_eq!((verdict(&world, "a", "bash", "ls"), verdict(&world, "a", "bash", "cat x")), (listing, printing), "{permission}");
        assert_eq!((verdict(&world, "a", "bash", "rm x"), verdict(&world, "a", "skill", "y")), (Verdict::Deny, Verdict::Allow));
    }
}

#[test]
fn a_check_lists_what_was_tolerated_by_file_and_line() {
    let world = trusting()
        .file("proj/.claude/agents/bad.md", "---\nname: bad\ndescription: use it: now\n---\np")
        .file("proj/.claude/commands/bad.md", "---\nargument-hint: [a] | [b]\n---\np")
        .file("proj/.claude/skills/s/SKILL.md", "---\nname: s\ndescription: when: ever\n---\np")
        .file("proj/.claude/agents/good.md", "---\nname: good\n---\np")
        .file("elsewhere/more.md", "Words first\n---\nname: m\nsteps: none\n---\np");
    let lines = |path: Option<&Path>| {
        let checked = check_agents(&world.places(), &world.load().unwrap(), path);
        assert_eq!(checked.errors, Vec::new());
        let lines = checked.tolerated.iter().map(|problem| world.near(&problem.to_string())).collect::<Vec<_>>();
        (lines, checked.files)
    };
    let starts = [
        ".claude/agents/bad.md:3: the head is not valid YAML",
        ".claude/agents/bad.md:3: description: read as plain text",
        ".claude/commands/bad.md:2: ",
        ".claude/commands/bad.md:2: argument-hint: read as plain text",
        ".claude/skills/s/SKILL.md:3: the head is not valid YAML",
        ".claude/skills/s/SKILL.md:3: description: read as plain text",
    ];
    let (found, files) = lines(None);
    assert_eq!((found.len(), files), (starts.len(), 4), "{found:?}");
    assert!(found.iter().zip(starts).all(|(line, start)| line.starts_with(start)), "{found:?}");
    let (found, files) = lines(Some(Path::new(".claude")));
    assert_eq!((found.len(), files), (starts.len(), 4), "{found:?}");
    let (found, _) = lines(Some(&world.path("elsewhere/more.md")));
    assert!(
        found[0].starts_with("elsewhere/more.md:1: text before") && found[1].starts_with("elsewhere/more.md:4: steps: expected"),
        "{found:?}"
    );
    let (found, _) = lines(Some(Path::new("nothing.md")));
    assert_eq!(found, ["nothing.md: there is no such file"]);
}

#[test]
fn thousands_of_files_load_soon() {
    let world = World::new();
    let folder = world.path("home/.claude/agents");
    fs::create_dir_all(&folder).unwrap();
    for number in 0..3_000 {
        let description = if number % 20 == 0 { "use it: now" } else { "Reviews things" };
        let text = format!(
            "---\nname: agent-{number}\ndescription: {description}\ntools: Read, Grep\nmodel: sonnet\n---\n{}",
            "You review.\n".repeat(40)
        );
        fs::write(folder.join(format!("{number}.md")), text).unwrap();
    }
    let config = world.load().unwrap();
    let start = Instant::now();
    let agents = agents(&world.places(), &config, None).unwrap();
    let elapsed = start.elapsed();
    println!("{elapsed:?}");
    assert_eq!(own(&agents).len(), 3_000);
    assert!(elapsed < Duration::from_secs(20), "{elapsed:?}");
}
