//! What is wrong is named with file, line, key and what was expected; what is odd is a warning.

use crate::{check, testing::World};

#[test]
fn a_wrong_value_names_file_line_key_and_what_was_expected() {
    let table = [
        ("{\n\"model\": 5}", "2: model: expected a string, found a number"),
        ("{\n\n\"model\": null}", "3: model: expected a string, found null"),
        ("{\"models\": []}", "1: models: expected an object, found a list"),
        ("{\"models\": {\n\"small\": true}}", "2: models.small: expected a string, found a boolean"),
        ("{\"small_model\": {}}", "1: small_model: expected a string, found an object"),
        ("{\"limits\": {\n\"depth\": \"3\"}}", "2: limits.depth: expected a number, found a string"),
        ("{\"limits\": {\"depth\": -1}}", "1: limits.depth: expected a whole number, 0 or more"),
        ("{\"limits\": {\"depth\": 1.5}}", "1: limits.depth: expected a whole number, 0 or more"),
        ("{\"limits\": {\"steps\": 0}}", "1: limits.steps: expected a whole number, 1 or more"),
        ("{\"limits\": {\n\n\"streamIdle\": \"soon\"}}", "3: limits.streamIdle: expected a duration like \"90s\", \"10m\" or \"1h30m\""),
        ("{\"limits\": {\"wall\": 0}}", "1: limits.wall: expected a duration above zero"),
        ("{\"limits\": {\"wall\": []}}", "1: limits.wall: expected a duration like \"10m\", found a list"),
        ("{\"limits\": {\"cost\": -2}}", "1: limits.cost: expected a number that is not negative"),
        ("{\"concurrency\": 0}", "1: concurrency: expected a whole number, 1 or more"),
        ("{\"concurrency\": {\n\"x\": \"y\"}}", "2: concurrency.x: expected a number, found a string"),
        ("{\"compat\": {\"claude\": 1}}", "1: compat.claude: expected true or false, found a number"),
        ("{\"instructions\": \"a.md\"}", "1: instructions: expected a list of strings, found a string"),
        ("{\"instructions\": [\"a.md\",\n7]}", "2: instructions[1]: expected a string, found a number"),
        ("{\"permission_order\": \"middle\"}", "1: permission_order: expected \"last\" or \"first\""),
        ("{\"provider\": {\"p\": []}}", "1: provider.p: expected an object, found a list"),
        (
            "{\"provider\": {\"p\": {\n\"api\": \"cobol\"}}}",
            "2: provider.p.api: expected \"anthropic\", \"openai\", \"openai-responses\" or \"gemini\"",
        ),
        (
            "{\"provider\": {\"p\": {\n\n\"base_url\": \"localhost:80\"}}}",
            "3: provider.p.base_url: expected a URL that starts with http:// or https://",
        ),
        ("{\"provider\": {\"p\": {\"options\": {\n\"baseURL\": 5}}}}", "2: provider.p.options.baseURL: expected a string, found a number"),
        (
            "{\"provider\": {\"p\": {\"models\": {\"m\": {\n\"cost\": {\n\"input\": \"3\"}}}}}}",
            "3: provider.p.models.m.cost.input: expected a number, found a string",
        ),
        (
            "{\"provider\": {\"p\": {\"models\": {\"m\": {\"context\": 0}}}}}",
            "1: provider.p.models.m.context: expected a whole number, 1 or more",
        ),
        ("{\n\"permission\": 5}", "2: permission: expected a string or an object, found a number"),
        ("{\n\"permission\": \"maybe\"}", "2: permission: expected \"allow\", \"ask\" or \"deny\", found another word"),
        ("{\"permission\": {\n\"edit\": true}}", "2: permission.edit: expected \"allow\", \"ask\" or \"deny\", found a boolean"),
        (
            "{\"permission\": {\"bash\": {\n\"*\": \"ask\",\n\"rm*\": \"never\"}}}",
            "3: permission.bash.rm*: expected \"allow\", \"ask\" or \"deny\", found another word",
        ),
        ("{\"permissions\": {\"deny\": []}}", "1: permission.deny: expected \"allow\", \"ask\" or \"deny\", found a list"),
        ("{\"tools\": {\n\"write\": \"no\"}}", "2: tools.write: expected true or false, found a string"),
        ("{\"command\": {\n\"x\": 3}}", "2: command.x: expected an object, found a number"),
        ("{\"command\": {\"x\": {\n\"template\": 3}}}", "2: command.x.template: expected a string, found a number"),
        ("{\"commands\": \"x\"}", "1: command: expected commands by name, found a string"),
        (
            "{\n\"sandbox\": \"loose\"}",
            "2: sandbox: expected one of \"auto\", \"off\", \"read-only\", \"workspace\", \"strict\", found another word",
        ),
        (
            "{\"sandbox\": {\n\"mode\": 1}}",
            "2: sandbox.mode: expected one of \"auto\", \"off\", \"read-only\", \"workspace\", \"strict\", found a number",
        ),
        ("{\"mcp\": true}", "1: mcp: expected an object, found a boolean"),
        ("{\"hooks\": []}", "1: hooks: expected an object, found a list"),
        ("[]", "1: expected an object, found a list"),
        ("{\n\"model\" \"x\"}", "2: not valid JSON: expected colon after the string or word in object property"),
        ("{\"model\":\n \"{env:NO_SUCH}\"}", "2: model: the environment variable NO_SUCH is not set"),
        (
            "{\"provider\": {\"p\": {\n\"base_url\": \"{env:NO_SUCH}\"}}}",
            "2: provider.p.base_url: the environment variable NO_SUCH is not set",
        ),
    ];
    for (text, words) in table {
        assert_eq!(World::with_user(text).error(), format!("home/posse/posse.json:{words}"), "{text}");
    }
}

#[test]
fn everything_wrong_is_said_at_once_and_the_file_is_named_as_the_user_sees_it() {
    let world = World::with_user("{\"model\": 1}")
        .file("proj/posse.jsonc", "{\n\"model\": 2,\n\"permission\": 3}")
        .file("proj/a/posse.json", "{")
        .at("proj/a");
    assert_eq!(
        world.error(),
        "home/posse/posse.json:1: model: expected a string, found a number\n\
         proj/posse.jsonc:2: model: expected a string, found a number\n\
         proj/posse.jsonc:3: permission: expected a string or an object, found a number\n\
         posse.json:1: not valid JSON: unterminated object"
    );
}

#[test]
fn a_neighbours_broken_rules_stop_us_too_and_the_way_out_is_named() {
    let world = World::new().file("home/.config/opencode/opencode.json", "{\n\"permission\": []}");
    assert_eq!(
        world.error(),
        "home/.config/opencode/opencode.json:2: permission: expected a string or an object, found a list \
         (\"compat\": {\"opencode\": false} in your own posse.json leaves this file out)"
    );
    assert!(world.user("{\"compat\": {\"opencode\": false}}").load().is_ok());
}

#[test]
fn files_that_cannot_be_read_are_refused() {
    let refused = |world: World| world.error();
    let large = format!("{{\"model\": \"{}\"}}", "x".repeat(1024 * 1024));
    assert_eq!(refused(World::with_user(&large)), "home/posse/posse.json: larger than 1 MiB");
    assert_eq!(
        refused(World::new().file("home/posse/posse.json", b"{\n\n\"model\": \"\xff\"}")),
        "home/posse/posse.json:3: not UTF-8 text"
    );
    assert_eq!(refused(World::new().file("home/posse/posse.json/x", "")), "home/posse/posse.json: cannot be read: not a regular file");
    assert_eq!(refused(World::new().env("POSSE_CONFIG", "none.json")), "none.json: named by POSSE_CONFIG, but there is no such file");
    assert_eq!(
        refused(World::new().env("POSSE_CONFIG_CONTENT", "{\n\"model\": 1}")),
        "POSSE_CONFIG_CONTENT:2: model: expected a string, found a number"
    );
    let both = World::with_user("{}").file("home/posse/posse.jsonc", "{}");
    assert_eq!(refused(both), "home/posse/posse.json: both home/posse/posse.json and home/posse/posse.jsonc are there; keep one");
}

#[cfg(unix)]
#[test]
fn a_pipe_in_place_of_a_file_does_not_hang_us() {
    let world = World::new();
    let made = std::process::Command::new("mkfifo").arg(world.path("proj/posse.json")).status().unwrap();
    assert!(made.success());
    assert_eq!(world.error(), "posse.json: cannot be read: not a regular file");
}

#[test]
fn unknown_keys_are_warnings_with_a_near_match() {
    let world = World::with_user(
        r#"{
            "modle": "x/y",
            "theme": "dark", "backgroud": true, "falback": [], "auto_background": "2m",
            "provider": { "p": { "base_ulr": "x", "options": { "apikey": "k", "somethingElse": 1 }, "models": { "m": { "contxt": 5, "reasoning": true } } } },
            "limits": { "dept": 3 },
            "agent": { "anything": { "goes": 1 } }, "command": {}, "mcp": {}, "hooks": {}, "categories": {}, "schedule": {}, "sandbox": "off",
            "plugins": [], "skills": [], "dialect": "posse", "fork": "off", "mention": "hint", "background": false, "auto_background_after": "2m", "$schema": "x"
        }"#,
    );
    assert_eq!(
        world.warnings(),
        [
            "home/posse/posse.json:2: unknown key `modle`; did you mean `model`?",
            "home/posse/posse.json:3: unknown key `theme`",
            "home/posse/posse.json:3: unknown key `backgroud`; did you mean `background`?",
            "home/posse/posse.json:3: unknown key `falback`; did you mean `fallback`?",
            "home/posse/posse.json:3: unknown key `auto_background`",
            "home/posse/posse.json:4: unknown key `provider.p.base_ulr`; did you mean `base_url`?",
            "home/posse/posse.json:4: unknown key `provider.p.options.apikey`; did you mean `api_key`?",
            "home/posse/posse.json:4: unknown key `provider.p.models.m.contxt`; did you mean `context`?",
            "home/posse/posse.json:5: unknown key `limits.dept`; did you mean `depth`?",
        ]
    );
    let later: Vec<String> = world.load().unwrap().later.iter().map(|later| later.key.clone()).collect();
    assert_eq!(later.len(), 11, "{later:?}");
    let neighbour = World::new().file("home/.config/opencode/opencode.json", r#"{"theme": "x", "modle": "y", "share": "auto"}"#);
    assert_eq!(neighbour.warnings(), [""; 0], "another program's keys are its own business");
}

#[test]
fn keys_written_twice_are_warnings_and_the_last_one_counts() {
    let world = World::with_user("{\"model\": \"a/b\",\n\"model\": \"c/d\",\n\"defaultAgent\": \"x\",\n\"default_agent\": \"y\"}");
    assert_eq!(
        world.warnings(),
        [
            "home/posse/posse.json:1: model: written twice; the last one counts",
            "home/posse/posse.json:3: default_agent: written twice in two spellings; the last one counts"
        ]
    );
    let config = world.load().unwrap();
    assert_eq!(config.model.unwrap().value, "c/d");
    assert_eq!(config.default_agent.unwrap().value, "y");
}

#[test]
fn an_empty_file_a_bom_comments_and_trailing_commas_are_fine() {
    for text in ["", "\u{feff}", "// nothing yet\n", "\u{feff}{ /* a */ \"model\": \"a/b\", // c\n }"] {
        assert_eq!(World::with_user(text).warnings(), [""; 0], "{text:?}");
    }
}

#[test]
fn a_check_gives_errors_or_warnings() {
    let world = World::with_user("{\"modle\": 1, \"permission\": {\"bash\": {\"rm*\": \"deny\",\n\"*\": \"allow\"}}}");
    let checked = check(&world.places(), &|name: &str| world.get(name), &world.overrides);
    assert_eq!(checked.warnings.len(), 1);
    assert_eq!(
        checked.errors.iter().map(|error| world.near(&error.to_string())).collect::<Vec<_>>(),
        ["home/posse/posse.json:1: bash(rm*): this deny can never apply: bash(*) at home/posse/posse.json:2 wins over it and says allow"]
    );
    let world = World::with_user("{\"model\": 1}");
    let checked = check(&world.places(), &|name: &str| world.get(name), &world.overrides);
    assert_eq!((checked.errors.len(), checked.warnings.len()), (1, 0));
}

/// Who writes a key that does nothing yet is told so: silence would be a promise.
#[test]
fn what_is_not_built_is_named_and_a_strict_sandbox_refuses_to_start() {
    let file = "home/posse/posse.json:1";
    for (text, expected) in [
        (r#"{"sandbox": "workspace"}"#, "sandbox: not built yet, commands run without one"),
        (r#"{"sandbox": {"writable": ["x"]}}"#, "sandbox: not built yet, commands run without one"),
        (r#"{"mcp": {"x": {}}}"#, "mcp: not built yet, no MCP server is started"),
        (r#"{"hooks": {"x": []}}"#, "hooks: not built yet, none of them runs"),
        (r#"{"schedule": [1]}"#, "schedule: not built yet, nothing starts by itself"),
        (r#"{"categories": {"quick": {}}}"#, "categories: not built yet, tasks are started by agent"),
    ] {
        assert_eq!(World::with_user(text).warnings(), [format!("{file}: {expected}")], "{text}");
    }
    for quiet in [r#"{"sandbox": "off"}"#, r#"{"sandbox": {"mode": "off"}}"#, r#"{"mcp": {}, "hooks": {}, "schedule": []}"#] {
        assert_eq!(World::with_user(quiet).warnings(), Vec::<String>::new(), "{quiet}");
    }
    for (text, key) in [(r#"{"sandbox": "strict"}"#, "sandbox"), (r#"{"sandbox": {"mode": "strict"}}"#, "sandbox.mode")] {
        let words = World::with_user(text).error();
        assert!(words.starts_with(&format!("{file}: {key}: not built yet, so commands would run without one; take it out")), "{words}");
    }
    // A neighbour's keys are the neighbour's, and a folder that is not trusted is told that they do not count.
    let neighbours = World::new()
        .file("home/.config/opencode/opencode.json", r#"{"mcp": {"x": {}}}"#)
        .file("home/.claude/settings.json", r#"{"hooks": {"Stop": []}, "sandbox": {"enabled": true}}"#);
    assert_eq!(neighbours.warnings(), Vec::<String>::new());
    let project = World::with_project(r#"{"sandbox": "strict", "mcp": {"x": {}}}"#).load().unwrap();
    assert!(project.warnings.is_empty() && project.ignored_line().unwrap().contains("posse.json: sandbox, mcp"));
}

#[test]
fn what_is_named_and_not_there_is_found() {
    let world = World::with_user(r#"{"instructions": ["none.md"], "plugins": ["~/no-plugin"], "skills": ["~/no-skills", "~/skills"]}"#)
        .file("home/skills/a/SKILL.md", "x");
    let env = |name: &str| world.get(name);
    let found = check(&world.places(), &env, &crate::Overrides::default());
    let words: Vec<String> = found.warnings.iter().map(|warning| world.near(&warning.to_string())).collect();
    let file = "home/posse/posse.json:1";
    assert_eq!(
        words,
        [
            format!("{file}: plugins: home/no-plugin: there is no such folder"),
            format!("{file}: skills: home/no-skills: there is no such folder"),
            format!("{file}: instructions: home/posse/none.md: no such file"),
        ]
    );
}
