//! Trust that is given once or kept, what it is bound to, and what makes it void.

use std::{fs, path::Path};

use crate::{Config, Overrides, Trust, keep_trust, testing::World, trust_file};

const PROVIDER: &str = r#"{"provider": {"mine": {"base_url": "http://mine", "api_key": "{env:MINE}", "models": {"m": {}}}}, "model": "mine/m",
    "permission": {"webfetch": "allow", "bash": {"*": "allow", "rm*": "deny"}}, "limits": {"depth": 7}, "hooks": {"x": 1}}"#;

const AGENT: &str = r#"{"agent": {"a": {"prompt": "talk", "permission": {"bash": {"*": "allow"}, "edit": "deny"}}}}"#;

fn hostile() -> World {
    World::with_user(r#"{"permission": {"webfetch": "ask"}}"#).file("proj/posse.json", PROVIDER).env("MINE", "k")
}

fn load(world: &World) -> Config {
    world.load().unwrap()
}

fn keep(world: &World) {
    keep_trust(&world.places(), &load(world), 5).unwrap();
}

fn trust(world: &World) -> Trust {
    load(world).trust
}

#[test]
fn a_trusted_folders_word_counts_for_this_once_or_until_it_changes() {
    let mut world = hostile();
    let counts = |config: &Config| {
        (config.providers.len(), config.limits.depth, config.later.len(), config.model.as_ref().map(|model| model.value.clone()))
    };
    let nothing = (0, 3, 0, None);
    let everything = (1, 7, 1, Some("mine/m".to_owned()));
    assert_eq!((trust(&world), counts(&load(&world))), (Trust::Untrusted, nothing.clone()));
    world.overrides.trust = true;
    assert_eq!((trust(&world), counts(&load(&world))), (Trust::Trusted, everything.clone()));
    assert_eq!(load(&world).ignored_line(), None);
    world.overrides.trust = false;
    assert_eq!(trust(&world), Trust::Untrusted, "nothing was kept");
    keep(&world);
    let config = load(&world);
    assert_eq!((config.trust, counts(&config), config.ignored_line()), (Trust::Trusted, everything, None));
    assert!(config.later.iter().all(|later| later.trusted));

    let world = world.file("proj/posse.json", PROVIDER.replace("http://mine", "http://evil"));
    let config = load(&world);
    assert_eq!((config.trust, counts(&config)), (Trust::Changed, nothing));
    let line = config.ignored_line().unwrap();
    assert!(line.starts_with("ignored, because this folder has changed since you trusted it: posse.json: provider"), "{line}");
    keep(&world);
    assert_eq!(trust(&world), Trust::Trusted);
}

#[test]
fn parts_are_listed_whether_they_count_or_not() {
    let world =
        hostile().file("proj/.opencode/plugin/p.js", "x").file("proj/.claude/settings.json", r#"{"permissions": {"allow": ["Bash"]}}"#);
    let parts = |config: Config| config.parts.iter().map(|part| format!("{}: {}", part.file, part.key)).collect::<Vec<_>>();
    let expected = [
        ".claude/settings.json: permissions.allow",
        "posse.json: provider",
        "posse.json: limits",
        "posse.json: hooks",
        "posse.json: permission.webfetch (allow)",
        "posse.json: permission.bash.* (allow)",
        "posse.json: permission",
        "posse.json: model",
        ".opencode/plugin/p.js: plugin",
    ];
    let mut found = parts(load(&world));
    found.sort();
    let mut sorted = expected.map(str::to_owned);
    sorted.sort();
    assert_eq!(found, sorted);
    keep(&world);
    let mut after = parts(load(&world));
    after.sort();
    assert_eq!(after, sorted);
}

#[test]
fn what_changes_a_part_voids_trust_and_prose_does_not() {
    let table = [
        // Not bound: words, and rules that only tighten where nothing is allowed.
        ("proj/AGENTS.md", "new words", Trust::Trusted),
        ("proj/src/main.rs", "fn main() {}", Trust::Trusted),
        ("proj/.env", "POSSE_HOME=x", Trust::Trusted),
        ("proj/.claude/agents/talk.md", "---\nname: talk\n---\nother words", Trust::Trusted),
        ("proj/.claude/commands/run.md", "---\nallowed-tools: Read\n---\nother words !`id`", Trust::Trusted),
        ("proj/opencode.json", r#"{"permission": {"edit": "deny"}}"#, Trust::Trusted),
        // Bound.
        ("proj/opencode.json", r#"{"mcp": {"x": {"command": ["evil"]}}}"#, Trust::Changed),
        ("proj/opencode.json", r#"{"model": "other/m"}"#, Trust::Changed),
        ("proj/opencode.json", r#"{"instructions": ["https://evil/x"]}"#, Trust::Changed),
        ("proj/opencode.json", r#"{"agent": {"a": {"permission": {"bash": "allow"}}}}"#, Trust::Changed),
        ("proj/opencode.json", r#"{"command": {"c": {"template": "!`id`"}}}"#, Trust::Changed),
        ("proj/opencode.json", r#"{"small_model": "x/{env:SECRET}"}"#, Trust::Changed),
        ("proj/.mcp.json", "{}", Trust::Changed),
        ("proj/.opencode/plugin/p.js", "other", Trust::Changed),
        ("proj/.opencode/plugin/new.js", "x", Trust::Changed),
        ("proj/.claude/commands/run.md", "---\nallowed-tools: Read\n---\nwords !`id -u`", Trust::Changed),
        ("proj/.claude/commands/run.md", "---\nallowed-tools: Read, Bash\n---\nwords !`id`", Trust::Changed),
        ("proj/.claude/agents/talk.md", "---\nname: talk\nhooks: {}\n---\nwords", Trust::Changed),
        ("proj/.claude/settings.json", r#"{"apiKeyHelper": "x"}"#, Trust::Changed),
        // The deny beside a trusted allow is part of what was trusted.
        ("proj/posse.json", &PROVIDER.replace(r#", "rm*": "deny""#, ""), Trust::Changed),
        ("proj/posse.json", &PROVIDER.replace(r#""*": "allow", "rm*": "deny""#, r#""rm*": "deny", "*": "allow""#), Trust::Changed),
        ("proj/opencode.jsonc", &AGENT.replace(r#", "edit": "deny""#, ""), Trust::Changed),
        ("proj/opencode.jsonc", &AGENT.replace("talk", "talk more"), Trust::Trusted),
        ("proj/posse.json", &PROVIDER.replacen('{', r#"{"permission_order": "first", "#, 1), Trust::Changed),
    ];
    for (file, text, expected) in table {
        let world = hostile()
            .file("proj/AGENTS.md", "words")
            .file("proj/opencode.jsonc", AGENT)
            .file("proj/.opencode/plugin/p.js", "x")
            .file("proj/.claude/agents/talk.md", "---\nname: talk\n---\nwords")
            .file("proj/.claude/commands/run.md", "---\nallowed-tools: Read\n---\nwords !`id`");
        keep(&world);
        assert_eq!(trust(&world), Trust::Trusted);
        assert_eq!(trust(&world.file(file, text)), expected, "{file}: {text}");
    }
}

#[test]
fn trust_is_the_folders_own() {
    // A copy, a folder that takes another's place, and one that claims to belong to it.
    let world = hostile();
    keep(&world);
    let world = world.file("copy/posse.json", PROVIDER).file("copy/.git/HEAD", "").at("copy");
    assert_eq!(trust(&world), Trust::Untrusted);
    let world = world.file("forger/posse.json", PROVIDER).at("forger");
    fs::write(world.path("forger/.git"), format!("gitdir: {}\n", world.path("proj/.git").display())).unwrap();
    assert_eq!(trust(&world), Trust::Untrusted);
    let world = world.file("other/posse.json", PROVIDER).file("other/.git/commondir", world_git()).at("other");
    fs::write(world.path("other/.git/gitdir"), world.path("proj/.git").display().to_string()).unwrap();
    assert_eq!(trust(&world), Trust::Untrusted);
    fs::rename(world.path("proj"), world.path("moved")).unwrap();
    fs::rename(world.path("copy"), world.path("proj")).unwrap();
    let world = world.at("proj");
    assert_eq!(trust(&world), Trust::Changed, "the same path and the same words, and another folder");
    assert_eq!(trust(&world.at("moved")), Trust::Untrusted, "trust does not move with a folder");
}

fn world_git() -> &'static str {
    "../../proj/.git\n"
}

#[test]
fn each_folder_down_to_here_is_trusted_by_itself() {
    let sub = r#"{"provider": {"sub": {"base_url": "http://sub"}}}"#;
    let world = hostile().file("proj/sub/posse.json", sub);
    keep(&world);
    let world = world.at("proj/empty");
    assert_eq!(trust(&world), Trust::Trusted, "nothing here needs more trust");
    let world = world.at("proj/sub");
    let config = load(&world);
    let names: Vec<&str> = config.providers.iter().map(|provider| provider.name.as_str()).collect();
    assert_eq!((config.trust, names), (Trust::Untrusted, vec!["mine"]), "what is trusted counts, what is not does not");
    assert_eq!(
        config.ignored_line().unwrap(),
        "ignored, because this folder is not trusted: posse.json: provider (`posse trust` accepts it)"
    );
    keep(&world);
    assert_eq!(trust(&world), Trust::Trusted);
    assert_eq!(trust(&world.at("proj")), Trust::Trusted, "the top stays trusted");
}

#[cfg(unix)]
#[test]
fn the_store_is_private_and_a_link_is_the_folder_it_leads_to() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let world = hostile();
    keep(&world);
    let store = trust_file(&world.places());
    assert_eq!(store, world.path("home/posse/data/trust.json"));
    assert_eq!(fs::metadata(&store).unwrap().permissions().mode() & 0o777, 0o600);
    let text: serde_json::Value = serde_json::from_str(&fs::read_to_string(&store).unwrap()).unwrap();
    let entry = &text["folders"][world.path("proj").to_str().unwrap()];
    assert_eq!((entry["when"].as_u64(), entry["hash"].as_str().unwrap().len(), entry["inode"].is_u64()), (Some(5), 64, true));
    assert!(!text.to_string().contains("http://mine"), "no value is in it");
    let left: Vec<_> = fs::read_dir(store.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_str().unwrap().ends_with(".new")), "{left:?}");

    symlink(world.path("proj"), world.path("link")).unwrap();
    assert_eq!(trust(&world.at("link")), Trust::Trusted);
}

#[test]
fn a_broken_store_trusts_nobody_and_says_so() {
    for text in ["{", "[]", r#"{"version": 2, "folders": {}}"#, r#"{"version": 1, "folders": {"x": {"hash": 5}}}"#, ""] {
        let world = hostile();
        keep(&world);
        fs::write(trust_file(&world.places()), text).unwrap();
        let config = load(&world);
        assert_eq!(config.trust, Trust::Untrusted, "{text}");
        let words = config.warnings[0].to_string();
        assert!(words.contains("trust.json") && words.contains("so no folder is trusted"), "{text}: {words}");
        keep(&world);
        let warned: Vec<String> = load(&world).warnings.into_iter().map(|warning| warning.key).collect();
        assert_eq!((trust(&world), warned), (Trust::Trusted, vec!["hooks".to_owned()]), "it is written anew");
    }
    let both = World::new();
    keep(&both);
    let other = both.file("other/posse.json", PROVIDER).file("other/.git/HEAD", "").env("MINE", "k").at("other");
    keep(&other);
    let store: serde_json::Value = serde_json::from_str(&fs::read_to_string(trust_file(&other.places())).unwrap()).unwrap();
    assert_eq!(store["folders"].as_object().unwrap().len(), 2, "what was kept before stays");
}

#[test]
fn many_who_trust_at_once_are_all_heard() {
    let world = hostile();
    let (places, config) = (world.places(), load(&world));
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let (mut places, mut config) = (places.clone(), config.clone());
            let folder = world.path(&format!("many/{number}"));
            fs::create_dir_all(&folder).unwrap();
            config.folders[0].path = folder.clone();
            places.project = folder;
            std::thread::spawn(move || keep_trust(&places, &config, 1).unwrap())
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let store: serde_json::Value = serde_json::from_str(&fs::read_to_string(trust_file(&places)).unwrap()).unwrap();
    assert_eq!(store["folders"].as_object().unwrap().len(), 8);
}

#[cfg(unix)]
#[test]
fn what_nobody_can_vouch_for_is_trusted_for_once_only() {
    let mut world = hostile().file("outside.js", "x").file("proj/.opencode/plugin/a.js", "x");
    std::os::unix::fs::symlink(world.path("outside.js"), world.path("proj/.opencode/plugin/out.js")).unwrap();
    let config = load(&world);
    assert!(config.ignored_line().unwrap().contains(".opencode/plugin/out.js: plugin"));
    let words = keep_trust(&world.places(), &config, 1).unwrap_err().to_string();
    assert!(words.contains(".opencode/plugin/out.js") && words.contains("--trust"), "{words}");
    assert!(!trust_file(&world.places()).exists());
    world.overrides.trust = true;
    assert_eq!(trust(&world), Trust::Trusted);
}

#[test]
fn a_store_that_cannot_be_written_is_an_error() {
    let world = hostile();
    fs::write(world.path("home/posse/data"), "not a folder").unwrap();
    let words = keep_trust(&world.places(), &load(&world), 1).unwrap_err().to_string();
    assert!(words.contains("trust.json"), "{words}");
}

#[test]
fn definitions_of_a_project_lose_what_would_run_or_widen() {
    let text = r#"{"agent": {"a": {"prompt": "hello", "description": "d", "hooks": {}, "mcpServers": {}, "permissionMode": "bypassPermissions",
            "permission": {"edit": "deny", "bash": {"*": "allow", "rm*": "deny"}}, "tools": {"write": true, "bash": false}, "limits": {}},
            "hooks": {"prompt": "an agent of that name"}},
        "command": {"c": {"template": "look !`id`", "allowed-tools": "Bash"}, "d": {"template": "{file:/etc/passwd}"}}}"#;
    let mut world = World::with_project(text);
    let config = load(&world);
    let values: Vec<String> = config.later.iter().map(|later| later.value.to_string()).collect();
    assert_eq!(
        values,
        [
            r#"{"a":{"prompt":"hello","description":"d","permission":{"edit":"deny","bash":{"rm*":"deny"}},"tools":{"bash":false}},"hooks":{"prompt":"an agent of that name"}}"#,
            r#"{"c":{"template":"look !`id`"},"d":{"template":"{file:/etc/passwd}"}}"#
        ]
    );
    assert_eq!(
        config.ignored_line().unwrap(),
        "ignored, because this folder is not trusted: posse.json: agent.a.hooks, agent.a.mcpServers, agent.a.permissionMode, \
         agent.a.permission.bash.* (allow), agent.a.tools.write (allow), agent.a.limits, command.c.template (!`cmd`), \
         command.c.allowed-tools, command.d.template (`posse trust` accepts it)"
    );
    world.overrides.trust = true;
    assert!(load(&world).later[0].value.to_string().contains("hooks\":{}"));
}

#[test]
fn of_the_keys_of_a_project_only_words_and_stricter_rules_count() {
    let keys = [
        "dialect",
        "fork",
        "mention",
        "background",
        "auto_background_after",
        "fallback",
        "fallbackModels",
        "limits",
        "skills",
        "sandbox",
        "schedule",
        "default_agent",
        "concurrency",
    ];
    let text: Vec<String> = keys.iter().map(|key| format!("\"{key}\": 1")).collect();
    let world = World::with_project(&format!("{{{}}}", text.join(", ")));
    let config = load(&world);
    let expected = format!("ignored, because this folder is not trusted: posse.json: {} (`posse trust` accepts it)", keys.join(", "));
    assert_eq!((config.ignored_line(), config.later.len()), (Some(expected), 0));
}

#[test]
fn what_is_the_users_own_needs_no_trust_and_an_env_file_is_named_until_the_folder_is_trusted() {
    let at_home = World::new()
        .file("home/.claude/commands/c.md", "!`id`")
        .file("home/.claude/settings.json", r#"{"hooks": {}}"#)
        .file("home/.posse/plugins/p.js", "x")
        .env("POSSE_HOME", ".posse")
        .at("home");
    let config = load(&at_home);
    assert_eq!((config.ignored_line(), config.parts.len()), (None, 0));

    let env_file = World::new().file("proj/.env", "POSSE_HOME=./evil\nTOKEN=1\n");
    let config = load(&env_file);
    assert_eq!(config.ignored_line().unwrap(), "ignored, because no folder may say it: .env: POSSE_HOME");
    assert_eq!(config.parts, []);
    keep(&env_file);
    assert_eq!(load(&env_file).ignored_line(), None);
}

#[test]
fn a_hostile_folder_cannot_fill_the_line() {
    let mut world = World::new();
    for number in 0..200 {
        world = world.file(&format!("proj/.opencode/plugin/{number:03}.js"), "x");
    }
    let line = load(&world).ignored_line().unwrap();
    assert!(line.ends_with("049.js: plugin, and 150 more (`posse trust` accepts it)"), "{line}");
}

#[test]
fn the_folder_is_looked_at_and_not_changed() {
    let world = hostile();
    let _ = load(&world);
    let names = |folder: &Path| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
    assert_eq!((names(&world.path("proj")).len(), world.path("home/posse/data").exists()), (2, false));
    assert_eq!(world.overrides, Overrides::default());
}
