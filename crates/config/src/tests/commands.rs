//! Commands: where they come from, which of a name counts, what their fields mean, and what counts without trust.

use posse_session::AgentMode;
use serde_json::json;

use crate::{Command, CommandKind, Commands, Config, Piece, commands, keep_trust, skills, testing::World};

fn load(world: &World) -> (Config, Commands) {
    let config = world.load().unwrap();
    let places = world.places();
    let found = commands(&places, &config, &skills(&places, &config));
    (config, found)
}

fn found(world: &World) -> Commands {
    load(world).1
}

fn names(commands: &Commands) -> Vec<String> {
    commands.list().iter().filter(|command| command.kind != CommandKind::BuiltIn).map(|command| command.name.clone()).collect()
}

fn one(world: &World, name: &str) -> Command {
    found(world).find(name).unwrap_or_else(|| panic!("no {name}")).clone()
}

/// Everything in it that a folder says counts.
fn trusted(mut world: World) -> World {
    world.overrides.trust = true;
    world
}

fn tolerated(world: &World) -> Vec<String> {
    found(world).tolerated.iter().map(|problem| world.near(&problem.to_string())).collect()
}

fn text(pieces: &[Piece]) -> String {
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Shell { line } => format!("<shell {line}>"),
            Piece::File { path } => format!("<file {path}>"),
        })
        .collect()
}

#[test]
fn two_commands_are_built_in() {
    let world = World::new();
    let commands = found(&world);
    let shown: Vec<(&str, Option<bool>)> = commands.list().iter().map(|command| (command.name.as_str(), command.subtask)).collect();
    assert_eq!(shown, [("init", None), ("review", Some(true))]);
    let review = commands.find("review").unwrap();
    assert!(review.is_subtask(Some(AgentMode::Primary)) && review.agent_name().is_none());
    assert!(text(&review.expand("main..topic", &world.places())).contains("What to review: main..topic\n"));
    assert!(text(&commands.find("init").unwrap().expand("", &world.places())).starts_with("Write `AGENTS.md`"));
}

#[test]
fn every_place_is_read_and_names_follow_their_family() {
    let world = World::with_user(r#"{"command": {"from-json": {"template": "j"}}}"#)
        .file("home/posse/commands/user.md", "u")
        .file("home/.config/opencode/command/oc-user.md", "x")
        .file("home/.config/opencode/commands/deep/oc.md", "x")
        .file("home/.claude/commands/deep/cc.md", "x")
        .file("proj/opencode.json", r#"{"command": {"oc-json": {"template": "o"}}}"#)
        .file("proj/.opencode/command/a/b/three.md", "x")
        .file("proj/.opencode/commands/four.MD", "x")
        .file("proj/.claude/commands/team/five.md", "x")
        .file("proj/.claude/commands/six.txt", "no")
        .file("proj/.posse/commands/group/seven.md", "x")
        .file("proj/sub/.posse/commands/eight.md", "x")
        .file("proj/other/.posse/commands/nine.md", "no")
        .at("proj/sub");
    let expected =
        ["a/b/three", "deep/oc", "deep:cc", "eight", "four", "from-json", "group/seven", "oc-json", "oc-user", "team:five", "user"];
    assert_eq!(names(&found(&world)), expected);
    let commands = found(&world);
    for (spelled, name) in [
        ("a:b:three", "a/b/three"),
        ("a/b/three", "a/b/three"),
        ("team/five", "team:five"),
        ("Team:Five", "team:five"),
        ("three", "a/b/three"),
        ("five", "team:five"),
        ("from_json", "from-json"),
        ("/user", "user"),
    ] {
        assert_eq!(commands.find(spelled).map(|command| command.name.as_str()), Some(name), "{spelled}");
    }
    assert!(commands.find("nine").is_none() && commands.find("").is_none() && commands.find("b").is_none());
    assert_eq!(commands.files, 9);
    let quiet = world.user(r#"{"compat": {"opencode": false, "claude": false}}"#);
    assert_eq!(names(&found(&quiet)), ["eight", "group/seven", "user"]);
}

#[test]
fn the_last_in_order_of_precedence_counts() {
    // Each place above all before it.
    let places = [
        ("home/.config/opencode/opencode.json", r#"{"command": {"review": {"template": "1"}}}"#),
        ("home/.config/opencode/command/review.md", "2"),
        ("home/.claude/commands/review.md", "3"),
        ("home/posse/posse.json", r#"{"command": {"review": {"template": "4"}}}"#),
        ("home/posse/commands/review.md", "5"),
        ("proj/opencode.json", r#"{"command": {"review": {"template": "6"}}}"#),
        ("proj/.opencode/command/review.md", "7"),
        ("proj/sub/.opencode/command/review.md", "8"),
        ("proj/.claude/commands/review.md", "9"),
        ("proj/posse.json", r#"{"command": {"review": {"template": "10"}}}"#),
        ("proj/.posse/commands/review.md", "11"),
        ("proj/sub/.posse/commands/review.md", "12"),
        ("named.json", r#"{"command": {"review": {"template": "13"}}}"#),
    ];
    let mut world = World::new().at("proj/sub");
    for (at, (file, text)) in places.into_iter().enumerate() {
        world = world.file(file, text);
        if file == "named.json" {
            world = world.env("POSSE_CONFIG", "../../named.json");
        }
        assert_eq!(one(&world, "review").template, (at + 1).to_string(), "{file}");
    }
    let world = world.env("POSSE_CONFIG_CONTENT", r#"{"command": {"review": {"template": "14"}}}"#);
    assert_eq!(one(&world, "review").template, "14");
    // A skill never overrides a command, not even a built-in one.
    let world = World::new().file("proj/.claude/skills/review/SKILL.md", "---\nname: review\ndescription: d\n---\nmine");
    assert_eq!(one(&world, "review").kind, CommandKind::BuiltIn);
}

#[test]
fn fields_are_read_as_people_write_them() {
    let file = "---\ndescription: Explore codebase\nagent: explore\nmodel: anthropic/x\nvariant: high\nsubtask: yes\n\
        argument-hint: [file] [lines]\nallowed-tools: Bash(git add:*, x), Read\nfancy: {a: 1}\n---\n\nFind $1\n";
    let world = trusted(World::new().file("proj/.opencode/command/explore.md", file));
    let command = one(&world, "explore");
    let expected = Command {
        name: "explore".into(),
        template: "Find $1".into(),
        description: Some("Explore codebase".into()),
        agent: Some("explore".into()),
        model: Some("anthropic/x".into()),
        variant: Some("high".into()),
        subtask: Some(true),
        fork: false,
        argument_hint: Some("[file] [lines]".into()),
        allowed_tools: vec!["Bash(git add:*, x)".into(), "Read".into()],
        options: json!({"fancy": {"a": 1}}).as_object().unwrap().clone(),
        kind: CommandKind::File,
        origin: command.origin.clone(),
        trusted: true,
        dir: None,
    };
    assert_eq!(command, expected);
    assert_eq!((command.origin.to_string().as_str(), command.hints()), (".opencode/command/explore.md:1", vec!["$1".to_owned()]));

    let hint = |head: &str| {
        let world = World::new().file("proj/.claude/commands/h.md", format!("---\n{head}\n---\nx"));
        one(&world, "h").argument_hint
    };
    for (head, expected) in [
        ("argument-hint: <file>", Some("<file>")),
        ("argument-hint: [a, b]", Some("[a] [b]")),
        ("argument-hint: [file]", Some("[file]")),
        ("argument-hint:", None),
        ("argumentHint: 'x y'", Some("x y")),
        ("argument-hint: [a] | [b]", Some("[a] | [b]")),
        ("description: x", None),
    ] {
        assert_eq!(hint(head).as_deref(), expected, "{head}");
    }
    let tools = |value: &str| {
        let world = trusted(World::new().file("proj/.claude/commands/t.md", format!("---\nallowed-tools: {value}\n---\nx")));
        one(&world, "t").allowed_tools
    };
    for value in ["Read, Bash(git log:*)", "[Read, \"Bash(git log:*)\"]", "\n  - Read\n  - Bash(git log:*)", "Read Bash(git log:*)"] {
        assert_eq!(tools(value), ["Read", "Bash(git log:*)"], "{value}");
    }
}

#[test]
fn odd_files_load_and_what_was_guessed_is_said() {
    let world = World::new()
        .file("proj/.claude/commands/plain.md", "Just do $ARGUMENTS.\n")
        .file("proj/.opencode/command/object.md", r#"{"description": "Explore", "template": "Find all $1", "subtask": false}"#)
        .file("proj/.claude/commands/colon.md", "---\ndescription: Triggers on: 'x' and more: y\n---\ntext")
        .file("proj/.claude/commands/windows.md", "---\r\ndescription: d\r\n---\r\nline\r\nnext\r\n")
        .file("proj/.claude/commands/binary.md", b"caf\xe9 $1")
        .file("proj/.claude/commands/empty.md", "")
        .file("proj/.claude/commands/flag.md", "---\nsubtask: perhaps\n---\nx")
        .file("proj/.claude/commands/large.md", vec![b'x'; 1024 * 1024 + 1]);
    let commands = found(&world);
    let template = |name: &str| commands.find(name).unwrap().template.clone();
    assert_eq!(template("plain"), "Just do $ARGUMENTS.");
    assert_eq!(template("windows"), "line\nnext");
    assert_eq!(template("binary"), "caf\u{fffd} $1");
    assert_eq!(template("empty"), "");
    let object = commands.find("object").unwrap();
    assert_eq!((object.template.as_str(), object.description.as_deref(), object.subtask), ("Find all $1", Some("Explore"), Some(false)));
    assert_eq!(commands.find("colon").unwrap().description.as_deref(), Some("Triggers on: 'x' and more: y"));
    assert!(commands.find("large").is_none());
    let said = tolerated(&world);
    for expected in [
        ".claude/commands/large.md: larger than 1 MiB, so it is left out",
        ".claude/commands/flag.md:2: subtask: expected true or false; left out",
    ] {
        assert!(said.contains(&expected.to_owned()), "{expected}: {said:?}");
    }
    for file in ["colon.md", "empty.md"] {
        assert!(said.iter().any(|line| line.starts_with(&format!(".claude/commands/{file}"))), "{file}: {said:?}");
    }
    for file in ["plain.md", "windows.md"] {
        assert!(!said.iter().any(|line| line.contains(file)), "{file}: {said:?}");
    }
}

#[test]
fn a_map_may_change_fields_of_what_lies_below_it_and_take_it_away() {
    let world = World::with_user(r#"{"command": {"review": {"agent": "explore", "subtask": false}, "init": {"disable": true}}}"#);
    let review = one(&world, "review");
    assert_eq!((review.agent.as_deref(), review.subtask, review.template.contains("What to review")), (Some("explore"), Some(false), true));
    assert!(found(&world).find("init").is_none());
    let broken = World::with_user("{\"command\": {\n\"none\": {\"agent\": \"x\"},\n\"fine\": {\"template\": \"t\"}}}");
    assert_eq!(names(&found(&broken)), ["fine"]);
    assert_eq!(tolerated(&broken), ["home/posse/posse.json:2: command.none: has no template; left out"]);
    let words = World::with_user(r#"{"command": {"x": {"template": "{file:words.md} $1"}}}"#).file("home/posse/words.md", "From a file:\n");
    assert_eq!(one(&words, "x").template, "From a file: $1");
}

#[test]
fn of_two_in_one_class_somebody_is_told() {
    let world = World::new().file("proj/.claude/commands/a/b.md", "1").file("proj/.opencode/commands/a/b.md", "2");
    assert_eq!(one(&world, "a/b").template, "1");
    assert_eq!(
        tolerated(&world),
        [".claude/commands/a/b.md:1: the same name again: `a:b` is also .opencode/commands/a/b.md:1; this one counts"]
    );
}

#[test]
fn the_truth_table_of_subtasks() {
    use AgentMode::{All, Primary, Subagent};
    let table = [
        (Some(Subagent), None, true),
        (Some(Subagent), Some(true), true),
        (Some(Subagent), Some(false), false),
        (Some(Primary), None, false),
        (Some(Primary), Some(true), true),
        (Some(Primary), Some(false), false),
        (Some(All), None, false),
        (Some(All), Some(true), true),
        (Some(All), Some(false), false),
        // No agent named.
        (None, None, false),
        (None, Some(true), true),
        (None, Some(false), false),
    ];
    let world = World::new().file("proj/.posse/commands/x.md", "x");
    for (mode, subtask, expected) in table {
        let command = Command { subtask, ..one(&world, "x") };
        assert_eq!(command.is_subtask(mode), expected, "{mode:?} {subtask:?}");
    }
    // `context: fork` (CC-203, CC-205): a child, whoever runs it; the general agent if nobody is named.
    let fork = Command { fork: true, ..one(&world, "x") };
    assert!(fork.is_subtask(None) && fork.is_subtask(Some(Primary)));
    assert_eq!(
        (fork.agent_name(), Command { agent: Some("explore".into()), ..fork.clone() }.agent_name()),
        (Some("general"), Some("explore"))
    );
    assert!(!Command { subtask: Some(false), ..fork }.is_subtask(Some(Subagent)));
}

const POWERFUL: &str = "---\ndescription: d\nagent: build\nmodel: evil/m\neffort: max\nallowed-tools: Bash(rm:*)\nhooks: {a: 1}\nargument-hint: x\n---\n\
    Say $1, !`touch $1`, @README.md @~/.ssh/id @/etc/passwd @../up.md";

#[test]
fn without_trust_a_command_is_words_and_with_it_everything() {
    let json = r#"{"command": {"j": {"template": "do !`id` now", "model": "evil/m", "allowed-tools": "Bash", "agent": "build"}}}"#;
    let world = World::new().file("proj/.claude/commands/c.md", POWERFUL).file("proj/opencode.json", json);
    let (config, commands) = load(&world);
    let command = commands.find("c").unwrap();
    assert_eq!((command.description.as_deref(), command.argument_hint.as_deref()), (Some("d"), Some("x")));
    assert_eq!((command.trusted, &command.model, &command.variant, &command.allowed_tools), (false, &None, &None, &Vec::new()));
    assert!(!command.options.contains_key("hooks"), "{:?}", command.options);
    assert_eq!((command.agent_name(), command.inline_agent()), (Some("build"), None));
    assert_eq!(
        text(&command.expand("x", &world.places())),
        "Say x, `touch 'x'` (not run: the folder that this command comes from is not trusted), <file README.md> @~/.ssh/id @/etc/passwd @../up.md"
    );
    assert_eq!(
        config.ignored_line().unwrap(),
        "ignored, because this folder is not trusted: opencode.json: command.j.agent (where it is no subagent), \
         command.j.template (!`cmd`), command.j.model, command.j.allowed-tools, .claude/commands/c.md: allowed_tools, effort, hooks, model, \
         !`cmd`, agent (where it is no subagent) (`posse trust` accepts it)"
    );
    let from_json = commands.find("j").unwrap();
    assert_eq!((&from_json.model, &from_json.allowed_tools, from_json.inline_agent()), (&None, &Vec::new(), None));
    assert_eq!(
        text(&from_json.expand("", &world.places())),
        "do `id` (not run: the folder that this command comes from is not trusted) now"
    );

    let world = trusted(world);
    let commands = found(&world);
    let command = commands.find("c").unwrap();
    assert_eq!((command.model.as_deref(), command.inline_agent(), command.allowed_tools.len()), (Some("evil/m"), Some("build"), 1));
    assert_eq!(
        text(&command.expand("x", &world.places())),
        "Say x, <shell touch 'x'>, <file README.md> <file ~/.ssh/id> <file /etc/passwd> <file ../up.md>"
    );
    assert_eq!(text(&commands.find("j").unwrap().expand("", &world.places())), "do <shell id> now");
    assert_eq!(world.load().unwrap().ignored_line(), None);
}

#[test]
fn a_project_cannot_make_the_users_own_command_run_for_it() {
    // Not one word of it.
    let world = World::with_user(r#"{"command": {"mine": {"template": "!`id`"}}}"#)
        .file("proj/posse.json", r#"{"command": {"mine": {"description": "d"}}}"#);
    let mine = one(&world, "mine");
    assert_eq!((mine.trusted, mine.description), (true, None));
}

#[test]
fn trust_is_bound_to_what_a_command_would_do() {
    let table = [
        // Words do not void it; what runs, widens or redirects does.
        ("---\ndescription: d\n---\nhello !`ls`", "---\ndescription: other\n---\nother words !`ls`", true),
        ("hello !`ls`", "hello !`rm x`", false),
        ("hello", "hello !`rm x`", false),
        ("---\nallowed-tools: Read\n---\nhello", "---\nallowed-tools: Bash\n---\nhello", false),
        ("---\ndescription: d\n---\nhello", "---\ndescription: d\nmodel: evil/m\n---\nhello", false),
        ("---\nmodel: a/b\n---\nhello", "---\nmodel: evil/m\n---\nhello", false),
        // A head must not hide what the text runs.
        ("---\ndescription: a !`b\n---\n!`ls`", "---\ndescription: a !`b\n---\n!`rm x`", false),
        // Nor the letters of a JSON object.
        (r#"{"template": "x"}"#, r#"{"template": "x !\u0060id\u0060"}"#, false),
        (r#"{"template": "x"}"#, r#"{"template": "x", "model": "evil/m"}"#, false),
        ("words\n---\ndescription: d\n---\nx", "words\n---\ndescription: d\nallowed-tools: Bash\n---\nx", false),
    ];
    for (before, after, stays) in table {
        let world = World::new().file("proj/.posse/commands/c.md", before);
        let config = world.load().unwrap();
        keep_trust(&world.places(), &config, 1).unwrap();
        assert!(one(&world, "c").trusted, "{before}");
        let world = world.file("proj/.posse/commands/c.md", after);
        assert_eq!(one(&world, "c").trusted, stays, "{before} -> {after}");
    }
    let config = |model: &str| format!(r#"{{"command": {{"c": {{"template": "x", "model": "{model}"}}}}}}"#);
    let world = World::with_project(&config("a/b"));
    keep_trust(&world.places(), &world.load().unwrap(), 1).unwrap();
    assert_eq!(one(&world, "c").model.as_deref(), Some("a/b"));
    assert_eq!(one(&world.file("proj/posse.json", config("evil/m")), "c").model, None);
}

#[cfg(unix)]
#[test]
fn a_project_is_not_read_through_links_out_of_it() {
    use std::os::unix::fs::symlink;
    let world = World::new().file("outside/x.md", "s3cret").file("proj/.posse/commands/in.md", "inside").file("proj/shared/y.md", "shared");
    symlink(world.path("outside/x.md"), world.path("proj/.posse/commands/leak.md")).unwrap();
    symlink(world.path("outside"), world.path("proj/.posse/commands/folder")).unwrap();
    symlink(world.path("proj/shared"), world.path("proj/.posse/commands/more")).unwrap();
    symlink(world.path("proj/.posse/commands"), world.path("proj/.posse/commands/loop")).unwrap();
    symlink(world.path("outside"), world.path("proj/.opencode")).unwrap();
    let found = names(&found(&world));
    assert!(found.contains(&"in".to_owned()) && found.contains(&"more/y".to_owned()), "{found:?}");
    assert!(!found.iter().any(|name| name.contains("leak") || name.contains("folder")), "{found:?}");
    assert!(tolerated(&world).iter().any(|line| line.starts_with(".posse/commands/leak.md: a link")), "{:?}", tolerated(&world));
    // The user's own links lead where the user wants.
    let world = World::new().file("dotfiles/c.md", "mine").file("home/posse/commands/x.md", "x");
    symlink(world.path("dotfiles/c.md"), world.path("home/posse/commands/c.md")).unwrap();
    assert_eq!(names(&super::commands::found(&world)), ["c", "x"]);
}

#[test]
fn plugins_add_commands_in_their_own_name() {
    let world = World::with_user(r#"{"plugins": ["~/tools/kit", "a-package", "~/nowhere"]}"#)
        .file("home/tools/kit/.claude-plugin/plugin.json", r#"{"name": "kit"}"#)
        .file("home/tools/kit/commands/deploy.md", "!`${CLAUDE_PLUGIN_ROOT}/run.sh $1`")
        .file("home/tools/kit/commands/sub/x.md", "x");
    assert_eq!(names(&found(&world)), ["kit:deploy", "kit:sub:x"]);
    assert_eq!(one(&world, "deploy").name, "kit:deploy");
    let line = format!("<shell '{}'/run.sh 'now'>", world.path("home/tools/kit").display());
    assert_eq!(text(&one(&world, "kit:deploy").expand("now", &world.places())), line);
    // A project names none, unless it is trusted.
    let theirs = World::with_project(r#"{"plugins": ["kit"]}"#).file("proj/kit/commands/evil.md", "x");
    assert_eq!(names(&found(&theirs)), [""; 0]);
    assert_eq!(names(&found(&trusted(theirs))), ["kit:evil"]);
}

#[test]
fn an_unknown_command_names_the_near_ones() {
    let world = World::new().file("proj/.claude/commands/git/commit.md", "x").file("proj/.posse/commands/deploy-staging.md", "x");
    let commands = found(&world);
    for (name, expected) in [
        ("reveiw", "there is no command `/reveiw`; did you mean /review?"),
        ("comit", "there is no command `/comit`; did you mean /git:commit?"),
        ("deploy", "there is no command `/deploy`; did you mean /deploy-staging?"),
        ("zzz", "there is no command `/zzz`; there are: /compact, /deploy-staging, /fork, /git:commit, /init, /review"),
        ("compcat", "there is no command `/compcat`; did you mean /compact?"),
    ] {
        assert_eq!(commands.unknown(name, &["compact", "fork"]), expected);
    }
}
