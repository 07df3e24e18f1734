//! What neither a slip in a file nor a folder that nobody trusts may loosen: limits of agents, and what the user defined.

use posse_session::{Agent, Touch, Verdict};
use serde_json::json;

use crate::{Agents, Commands, PermissionMode, Piece, Skills, agents, check_agents, commands, keep_trust, skills, testing::World};

fn load(world: &World) -> Agents {
    agents(&world.places(), &world.load().unwrap(), None).unwrap()
}

fn get(world: &World, name: &str) -> Agent {
    load(world).get(name).unwrap_or_else(|| panic!("no agent {name}")).clone()
}

fn of_commands(world: &World) -> (Commands, Skills) {
    let (places, config) = (world.places(), world.load().unwrap());
    let skills = skills(&places, &config);
    (commands(&places, &config, &skills), skills)
}

fn told(world: &World, problems: &[crate::Problem]) -> Vec<String> {
    problems.iter().map(|problem| world.near(&problem.to_string())).collect()
}

fn verdict(world: &World, agent: &Agent, key: &str, pattern: &str) -> Verdict {
    let book = world.load().unwrap().rulebook_for(agent, PermissionMode::Default);
    let touch = Touch::new(key, pattern);
    std::iter::once(&book.rules).chain(&book.ceiling).map(|rules| rules.judge(&touch).verdict).max().unwrap()
}

/// Whether the agent can change a file, by its rules or its lists.
fn can_write(world: &World, agent: &Agent) -> bool {
    agent.offers("write") && verdict(world, agent, "edit", "new.txt") != Verdict::Deny
}

/// Each head means that nothing may be written. Where it cannot be read, that is said at the start.
#[test]
fn a_slip_in_a_head_gives_no_rights() {
    let table = [
        ("permission:\n  edit: deny", false),
        ("permission:\n  edit: deny\n  bash:\n    *: deny\n    git diff: allow", false),
        ("permission:\n\tedit: deny", false),
        ("permission:\n  edit: Deny", false),
        ("permission:\n  edit: DENY", false),
        ("permission:\n  edit: false", false),
        ("permission: Deny", false),
        ("tools:\n  write: 0\n  edit: 0", false),
        ("tools: false", false),
        ("disallowedTools:\n  write: true", false),
        ("permissionMode: Plan", false),
        ("permission:\n  edit: denny", true),
        ("permission:\n  edit:\n    '*': denied", true),
        ("permission:\n  edit: 0", true),
        ("permission:\n  edit:", true),
        ("permission:\n  - edit: deny", true),
        ("permission: nothing", true),
        ("permission: 5", true),
        ("permission:\n  bash: deny\npermission:\n  edit: deny", true),
        ("permissons:\n  edit: deny", true),
        ("tool:\n  write: false", true),
        ("tools:\n  write: flase", true),
        ("tools:\n  write: 2", true),
        ("tools:\n  - {write: false}", true),
        ("disallowed_tool: Write", true),
        ("disallowedTools: [{Write: true}]", true),
        ("permissionMode: readonly", true),
        ("permissionMode: bubble", true),
    ];
    for (head, is_said) in table {
        let world = World::new().file("home/posse/agents/x.md", format!("---\nmode: primary\n{head}\n---\nB"));
        let (list, agent) = (load(&world), get(&world, "x"));
        if head.contains("permissionMode: P") {
            assert_eq!(agent.permission_mode.as_deref(), Some("plan"), "{head}");
        } else {
            assert!(!can_write(&world, &agent), "{head}: {agent:?}");
        }
        assert_eq!(list.announced.is_empty(), !is_said, "{head}: {:?}", list.announced);
        let said = told(&world, &list.announced);
        assert!(said.iter().all(|line| line.starts_with("home/posse/agents/x.md:")), "{said:?}");
    }
    let world = World::new().file("home/posse/agents/x.md", "---\npermission:\n  edit: denny\n  bash: allow\n---\nB");
    assert_eq!(
        told(&world, &load(&world).announced),
        ["home/posse/agents/x.md:3: permission.edit: expected \"allow\", \"ask\" or \"deny\", found another word; denied"]
    );
    assert_eq!(verdict(&world, &get(&world, "x"), "bash", "ls"), Verdict::Allow, "what can be read counts");
    let crowd =
        (0..50).fold(World::new(), |world, number| world.file(&format!("home/posse/agents/{number}.md"), "---\npermission: 1\n---\n"));
    let said = told(&crowd, &load(&crowd).announced);
    assert!(said.len() == 20 && said[19].contains("and 30 more"), "{said:?}");
}

/// In a configuration file the same stops the start.
#[test]
fn a_slip_in_a_configuration_file_stops_the_start() {
    for agent in [
        json!({"permission": {"edit": "denny"}}),
        json!({"permission": ["edit"]}),
        json!({"permissons": {"edit": "deny"}}),
        json!({"tools": {"write": "flase"}}),
        json!({"tools": [{"write": false}]}),
        json!({"permissionMode": "readonly"}),
    ] {
        let world = World::with_user(&json!({"agent": {"a": agent}}).to_string());
        assert!(agents(&world.places(), &world.load().unwrap(), None).is_err(), "{agent}");
    }
    let world = World::with_user(r#"{"agent": {"a": {"permission": {"edit": "Deny", "bash": false}, "permissionMode": "AcceptEdits"}}}"#);
    let a = get(&world, "a");
    assert_eq!((verdict(&world, &a, "edit", "x"), verdict(&world, &a, "bash", "x")), (Verdict::Deny, Verdict::Deny));
    assert_eq!(a.permission_mode.as_deref(), Some("acceptEdits"));
    let words = World::with_user(r#"{"agent": {"a": {"model": "a b"}}}"#);
    let error = agents(&words.places(), &words.load().unwrap(), None).unwrap_err().to_string();
    assert!(!error.contains("the caller's is used"), "{error}");
}

#[test]
fn lists_of_tools_as_people_write_them() {
    let table: [(&str, bool, &[&str], bool); 9] = [
        ("tools: All", true, &[], false),
        ("tools: all tools", true, &[], false),
        ("tools: [All]", true, &[], false),
        ("tools: true", true, &[], false),
        ("tools: Read, ExitPlanMode, mcp__x__y", true, &[], false),
        ("tools: Read, Grpe", true, &["tools: no tool is called `Grpe`; did you mean `grep`?"], false),
        (
            "tools: Raed",
            false,
            &["tools: no tool is called `Raed`; did you mean `read`?", "tools: none of these is a tool, so the agent has none"],
            true,
        ),
        ("tools: []", false, &[], false),
        ("disallowedTools: Wriet", true, &["disallowedTools: no tool is called `Wriet`; did you mean `write`?"], true),
    ];
    for (head, offers, problems, is_said) in table {
        let world = World::new().file("home/.claude/agents/x.md", format!("---\nname: x\n{head}\n---\nB"));
        let list = load(&world);
        assert_eq!(list.get("x").unwrap().offers("read"), offers, "{head}");
        let expected: Vec<String> = problems.iter().map(|words| format!("home/.claude/agents/x.md:3: {words}")).collect();
        assert_eq!(told(&world, &list.tolerated), expected, "{head}");
        assert_eq!(!list.announced.is_empty(), is_said, "{head}: {:?}", list.announced);
    }
}

/// Whatever nobody knows is the provider's with OpenCode and with us; in Claude's files other programs have their keys.
#[test]
fn keys_that_nobody_knows() {
    let head = "---\nname: x\ncapabilities: [a]\ntop_k: 5\ntemprature: 1\n---\nB";
    for (folder, options) in [
        ("home/posse/agents", json!({"capabilities": ["a"], "top_k": 5})),
        ("home/.config/opencode/agent", json!({"capabilities": ["a"], "top_k": 5})),
        ("home/.claude/agents", json!({})),
        ("proj/.opencode/agent", json!({})),
    ] {
        let world = World::new().file(&format!("{folder}/x.md"), head);
        let list = load(&world);
        assert_eq!(json!(list.get("x").unwrap().options), options, "{folder}");
        let said = told(&world, &list.tolerated);
        let slips =
            said.iter().filter(|line| line.contains("temprature: nobody knows this key, so it is left out; did you mean `temperature`?"));
        assert_eq!(slips.count(), usize::from(!folder.starts_with("proj")), "{folder}: {said:?}");
        let left = said.iter().filter(|line| line.contains("nobody here knows this key; left out")).count();
        assert_eq!(left, if folder.contains(".claude") { 2 } else { 0 }, "{folder}: {said:?}");
    }
}

const MINE: &str = "---\nname: deploy\ndescription: mine\npermission:\n  bash: allow\nmemory: user\n---\nMy words.";

/// Of what the user defined a folder that is not trusted changes nothing, and may deny.
#[test]
fn what_the_user_defined_stays_the_users() {
    let theirs = "---\nname: Deploy\ndescription: theirs\nmode: subagent\naliases: [mine]\ntools: Read\npermission:\n  webfetch: deny\n---\nTheir words.";
    let world = World::new()
        .file("home/posse/agents/deploy.md", MINE)
        .file("proj/.posse/agents/deploy.md", theirs)
        .file("proj/posse.json", r#"{"agent": {"deploy": {"name": "helper", "prompt": "p"}}}"#);
    let agents = load(&world);
    let alone = get(&World::new().file("home/posse/agents/deploy.md", MINE), "deploy");
    let deploy = agents.get("deploy").unwrap();
    let ceiling = deploy.ceiling.clone();
    assert_eq!(ceiling.len(), 1);
    let permission = deploy.permission.clone();
    let origin = deploy.origin.clone();
    assert_eq!(*deploy, Agent { ceiling, permission, origin, ..alone });
    assert!(world.near(&deploy.origin).starts_with("home/posse/agents/deploy.md"), "{}", deploy.origin);
    assert_eq!(verdict(&world, deploy, "webfetch", "http://x"), Verdict::Deny);
    assert!(agents.get("helper").is_none() && agents.get("mine").is_none(), "no other name leads past a deny of the user's");
    assert_eq!(
        told(&world, &agents.announced),
        [
            "posse.json:1: deploy (yours stays): ignored, because this folder is not trusted",
            ".posse/agents/deploy.md:1: deploy (yours stays): ignored, because this folder is not trusted",
        ]
    );
    let mut trusting = world;
    trusting.overrides.trust = true;
    assert_eq!((get(&trusting, "deploy").prompt.as_deref(), load(&trusting).announced.len()), (Some("Their words."), 0));
}

#[test]
fn names_of_an_untrusted_agent_are_nobody_elses() {
    let world = World::with_user(r#"{"agent": {"deploy": {"prompt": "mine"}}}"#).file(
        "proj/posse.json",
        r#"{"agent": {"aaa": {"name": "deploy", "aliases": ["general-purpose", "build", "own"], "prompt": "evil"}}}"#,
    );
    let agents = load(&world);
    let prompt = |name: &str| agents.get(name).and_then(|agent| agent.prompt.clone()).unwrap_or_default();
    assert_eq!((prompt("deploy").as_str(), prompt("own").as_str(), prompt("aaa").as_str()), ("mine", "evil", "evil"));
    assert_eq!(agents.get("general-purpose").unwrap().name, "general");
    assert_eq!(agents.get("build").unwrap().name, "build");

    assert_eq!(agents.get("aaa").unwrap().aliases, ["own"]);
    let twice = World::with_user(r#"{"agent": {"deploy": {"prompt": "mine"}}}"#)
        .file("proj/.opencode/agent/aaa.md", "evil")
        .file("proj/posse.json", r#"{"agent": {"aaa": {"name": "deploy", "aliases": ["deploy"]}}}"#);
    assert_eq!(get(&twice, "deploy").prompt.as_deref(), Some("mine"));
    assert_eq!(load(&twice).list().iter().filter(|agent| agent.is_named("deploy")).count(), 1);

    let said = r#"{"agent": {"zzz": {"aliases": ["own"], "description": "d"}, "xxx": {"name": "aaa", "description": "d"}}}"#;
    let world = world.env("POSSE_CONFIG_CONTENT", said);
    assert_eq!((get(&world, "own").name.as_str(), get(&world, "aaa").trusted), ("zzz", true), "the user's name is the user's");
    let above = world.env("POSSE_CONFIG_CONTENT", r#"{"agent": {"own": {"description": "d"}, "aaa": {"description": "d"}}}"#);
    for name in ["own", "aaa"] {
        let agent = get(&above, name);
        assert_eq!((agent.name.as_str(), agent.prompt, agent.trusted), (name, None, true), "the user's is whole");
    }
}

/// Of ours it may change the words and nothing else, and that is said.
#[test]
fn what_is_ours_is_reworded_and_that_is_said() {
    let world = World::new().file(
        "proj/.posse/agents/explore.md",
        "---\nname: explore\naliases: [mine]\nmode: primary\nhidden: true\ncolor: red\ninitialPrompt: now\ndescription: d\n---\nOther words.",
    );
    let (agents, before) = (load(&world), get(&World::new(), "explore"));
    let explore = agents.get("explore").unwrap();
    let (description, prompt, origin) = (Some("d".to_owned()), Some("Other words.".to_owned()), explore.origin.clone());
    assert_eq!(*explore, Agent { description, prompt, origin, trusted: false, ..before });
    assert_eq!(
        told(&world, &agents.announced),
        [".posse/agents/explore.md:1: changes the prompt and the description of our agent explore; this folder is not trusted"]
    );
    let mine = World::with_user(r#"{"agent": {"build": {"steps": 9}}}"#).file("proj/.posse/agents/build.md", "Evil.");
    assert_ne!(get(&mine, "build").prompt.as_deref(), Some("Evil."), "what the user has changed is the user's");
}

#[test]
fn commands_and_skills_of_the_users_stay() {
    let world = World::new()
        .file("home/posse/commands/mine.md", "---\nallowed-tools: Bash\n---\nMy text.")
        .file("home/posse/skills/known/SKILL.md", "---\nname: known-one\n---\nMy skill.")
        .file("home/posse/skills/other/SKILL.md", "---\nname: other\n---\nMy other.")
        .file("proj/posse.json", r#"{"command": {"mine": {"agent": "evil"}, "review": {"disable": true}, "init": {"disable": true}}}"#)
        .file("proj/.posse/commands/Mine.md", "Theirs.")
        .file("proj/.posse/commands/review.md", "---\nagent: evil\nsubtask: false\n---\nTheirs.")
        .file("proj/.posse/commands/other.md", "Theirs.")
        .file("proj/.posse/skills/x/SKILL.md", "---\nname: Known_One\n---\nTheirs.");
    let (commands, skills) = of_commands(&world);
    let mine = commands.find("mine").unwrap();
    assert_eq!((mine.template.as_str(), mine.agent.as_deref(), mine.trusted), ("My text.", None, true));
    let review = commands.find("review").unwrap();
    assert_eq!((review.template.as_str(), review.agent.as_deref(), review.subtask, review.trusted), ("Theirs.", None, Some(true), false));
    assert!(commands.find("init").is_some());
    assert!(commands.find("other").unwrap().template.starts_with("My other."));
    assert_eq!(skills.find("known-one").unwrap().body, "My skill.");
    let not = "ignored, because this folder is not trusted";
    assert_eq!(
        told(&world, &commands.announced),
        [
            format!("posse.json:1: /mine (yours stays): {not}"),
            "posse.json:1: /review is not disabled, because this folder is not trusted".to_owned(),
            "posse.json:1: /init is not disabled, because this folder is not trusted".to_owned(),
            format!(".posse/commands/Mine.md:1: /mine (yours stays): {not}"),
            ".posse/commands/review.md:1: changes the text of our command /review; this folder is not trusted".to_owned(),
            format!(".posse/commands/other.md:1: /other (your skill stays): {not}"),
        ]
    );
    assert_eq!(told(&world, &skills.announced), [format!(".posse/skills/x/SKILL.md:1: skill known-one (yours stays): {not}")]);
    let said = told(&world, &check_agents(&world.places(), &world.load().unwrap(), None).tolerated);
    assert!(said.iter().any(|line| line.contains("/mine (yours stays)")), "{said:?}");
}

#[test]
fn of_two_in_one_folder_the_first_counts() {
    let world = World::new()
        .file("home/posse/commands/a-b.md", "first")
        .file("home/posse/commands/a_b.md", "second")
        .file("home/posse/skills/1/SKILL.md", "---\nname: s\n---\nfirst")
        .file("home/posse/skills/2/SKILL.md", "---\nname: S\n---\nsecond");
    let (commands, skills) = of_commands(&world);
    assert_eq!((commands.find("a-b").unwrap().template.as_str(), skills.find("s").unwrap().body.as_str()), ("first", "first"));
    assert_eq!(
        told(&world, &commands.tolerated),
        ["home/posse/commands/a_b.md:1: a second command `a_b`; the one at home/posse/commands/a-b.md:1 counts"]
    );
    assert_eq!(
        told(&world, &skills.tolerated),
        ["home/posse/skills/2/SKILL.md:1: name: a second skill `S`; the one at home/posse/skills/1/SKILL.md:1 counts"]
    );
}

/// An agent that an inline command wishes for is named and bound; a task's is used.
#[test]
fn an_agent_that_an_untrusted_command_wishes_for_is_named() {
    let key = "agent (where it is no subagent)";
    for (head, is_named) in [
        ("agent: plan", true),
        ("agent: explore", false),
        ("agent: plan\nsubtask: true", false),
        ("agent: plan\ncontext: fork", false),
        ("\"ag\\x65nt\": plan", true),
        ("description: d", false),
    ] {
        let world = World::new().file("proj/.posse/commands/go.md", format!("---\n{head}\n---\nGo."));
        let line = world.load().unwrap().ignored_line().unwrap_or_default();
        assert_eq!(line.contains(&format!(".posse/commands/go.md: {key}")), is_named, "{head}: {line}");
    }
    let world = World::with_project(r#"{"command": {"go": {"template": "t", "agent": "plan"}}}"#);
    let line = world.load().unwrap().ignored_line().unwrap();
    assert!(line.contains(&format!("posse.json: command.go.{key}")), "{line}");
    keep_trust(&world.places(), &world.load().unwrap(), 1).unwrap();
    assert_eq!(world.load().unwrap().ignored_line(), None);
    let world = world.file("proj/posse.json", r#"{"command": {"go": {"template": "t", "agent": "build"}}}"#);
    assert!(world.load().unwrap().ignored_line().is_some(), "trust is bound to it");
}

#[test]
fn what_is_named_in_a_head_is_what_it_says() {
    let table = [
        ("agents/a.md", "---\ndescription: \"one\\n<example>\\ntwo\"\n---\np", ""),
        ("agents/a.md", "---\nname: a\ntools: *\n🎉: yes\n---\np", "options"),
        ("agents/a.md", "---\npermission: {edit: \"\\x61llow\"}\n---\np", "permission (allow)"),
        ("agents/a.md", "---\npermission: {edit: Allow}\n---\np", "permission (allow)"),
        ("commands/c.md", "{\"template\": \"t\", \"description\": \"d\"}", ""),
        ("commands/c.md", "{\"template\": \"t\", \"model\": \"x\"}", "model"),
        ("commands/c.md", "---\n\"mo\\x64el\": x/y\n---\np", "model"),
        ("commands/c.md", "---\n? model\n: x/y\n---\np", "model"),
    ];
    for (file, text, named) in table {
        let world = World::new().file(&format!("proj/.posse/{file}"), text);
        let found: Vec<String> = world.load().unwrap().parts.iter().map(|part| part.key.clone()).collect();
        assert_eq!(found.join(", "), named, "{text:?}");
    }
    let json = r#"{"agent": {"a": {"permission": {"edit": "Allow", "bash": "true"}, "tools": {"write": "yes"}}}}"#;
    let line = World::with_project(json).load().unwrap().ignored_line().unwrap();
    assert!(line.contains("agent.a.permission.edit (allow), agent.a.permission.bash (allow), agent.a.tools.write (allow)"), "{line}");
}

/// A file in the project is attached by its words, not through a link out of it.
#[cfg(unix)]
#[test]
fn an_untrusted_template_reaches_no_file_outside() {
    let world = World::new()
        .file("outside.txt", "secret")
        .file("proj/in.txt", "x")
        .file("proj/.posse/commands/c.md", "See @link.txt @in.txt @nothing.txt @dir/outside.txt @../outside.txt");
    std::os::unix::fs::symlink(world.path("outside.txt"), world.path("proj/link.txt")).unwrap();
    std::os::unix::fs::symlink(&world.dir, world.path("proj/dir")).unwrap();
    let files = |world: &World| -> Vec<String> {
        let (commands, _) = of_commands(world);
        let pieces = commands.find("c").unwrap().expand("", &world.places());
        pieces.into_iter().filter_map(|piece| if let Piece::File { path } = piece { Some(path) } else { None }).collect()
    };
    assert_eq!(files(&world), ["in.txt", "nothing.txt"]);
    let mut trusting = world;
    trusting.overrides.trust = true;
    assert_eq!(files(&trusting).len(), 5);
}

#[test]
fn a_name_that_is_printed_can_be_typed() {
    let world = World::new()
        .file("home/posse/commands/team/deep.md", "1")
        .file("home/posse/commands/v1.2.md", "2")
        .file("home/posse/commands/my cmd.md", "5")
        .file("home/posse/commands/über.md", "3")
        .file("home/posse/commands/2fast.md", "4")
        .file("home/posse/skills/m/SKILL.md", "---\nname: My Skill\n---\n6");
    let (commands, _) = of_commands(&world);
    let cannot = ["2fast", "über"];
    for command in commands.list().iter().filter(|command| !cannot.contains(&command.name.as_str())) {
        let line = format!("/{} words", command.typed());
        let [crate::Line::Command { name, arguments }] = &crate::lines(&line)[..] else { panic!("{line}") };
        assert_eq!((commands.find(name).map(|found| &found.name), arguments.as_str()), (Some(&command.name), "words"), "{line}");
    }
    let words = commands.unknown("zzzzzzzz", &[]);
    for typed in ["/team:deep", "/v1-2", "/my-cmd", "/My-Skill"] {
        assert!(words.contains(typed), "{typed}: {words}");
    }
    assert!(!words.contains("fast") && !words.contains("ber"), "{words}");
    let why = "its name does not begin with a letter from a to z, so it cannot be typed; rename it";
    assert_eq!(told(&world, &commands.tolerated), cannot.map(|name| format!("home/posse/commands/{name}.md:1: {why}")));
}

/// Nothing is left out in silence, and `posse trust` is not promised where it refuses.
#[cfg(unix)]
#[test]
fn what_cannot_be_read_is_told() {
    use std::{fs, os::unix::ffi::OsStrExt as _};
    let world = World::new().file("outside/a.md", "p").file("proj/.posse/commands/x.md", "p");
    std::os::unix::fs::symlink(world.path("outside"), world.path("proj/.posse/agents")).unwrap();
    let name = std::ffi::OsStr::from_bytes(b"bad\xff.md");
    let is_written = fs::write(world.path("proj/.posse/commands").join(name), "p").is_ok();
    let (commands, _) = of_commands(&world);
    let said = told(&world, &load(&world).tolerated);
    assert_eq!(said, [".posse/agents: a link that leads nowhere, or out of where it may lead; left out"]);
    assert_eq!(commands.tolerated.len(), usize::from(is_written), "{:?}", commands.tolerated);
    let line = world.load().unwrap().ignored_line().unwrap();
    assert!(line.contains("`posse run --trust` accepts it for once; `posse trust` cannot, because of .posse/agents"), "{line}");
}

/// `agents check PATH` says of a file what `agents check` says of it.
#[test]
fn a_check_of_a_path_says_as_much() {
    let world = World::with_user(r#"{"plugins": ["./plug"]}"#)
        .file("home/posse/commands/c.md", "---\nsubtask: perhaps\n---\n")
        .file("home/posse/skills/s/SKILL.md", "---\nname: s\nuser-invocable: perhaps\n---\np")
        .file("home/posse/plug/.claude-plugin/plugin.json", r#"{"name": "plug"}"#)
        .file("home/posse/plug/agents/a.md", "---\nname: a\nhooks: {Stop: []}\n---\np");
    let config = world.load().unwrap();
    let all = told(&world, &check_agents(&world.places(), &config, None).tolerated);
    assert_eq!(all.len(), 4, "{all:?}");
    let each = ["commands", "skills", "plug/agents"].iter().flat_map(|folder| {
        let path = world.path(&format!("home/posse/{folder}"));
        told(&world, &check_agents(&world.places(), &config, Some(&path)).tolerated)
    });
    assert_eq!(each.collect::<Vec<String>>().len(), all.len());
    let whole = check_agents(&world.places(), &config, Some(&world.path("home/posse")));
    assert_eq!(told(&world, &whole.tolerated), all);
}
