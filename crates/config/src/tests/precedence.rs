//! Which file counts when several speak, and what the values mean once they do.

use std::time::Duration;

use crate::{Compat, Concurrency, Limits, testing::World};

fn model(world: &World) -> (String, String) {
    let config = world.load().unwrap().with_project_models(&[], &|name: &str| world.get(name));
    let model = config.model.unwrap();
    (model.value, world.near(&model.origin.to_string()))
}

#[test]
fn each_source_is_above_the_one_before() {
    let says = |name: &str| format!("{{\"model\": \"x/{name}\"}}");
    let is = |world: World, name: &str, origin: &str| {
        assert_eq!(model(&world), (format!("x/{name}"), origin.to_owned()));
        world
    };
    let world = World::new().at("proj/a/b");
    let world = is(world.file("home/.config/opencode/opencode.json", says("1")), "1", "home/.config/opencode/opencode.json:1");
    let world = is(world.file("home/.config/opencode/opencode.jsonc", says("2")), "2", "home/.config/opencode/opencode.jsonc:1");
    let world = is(world.user(&says("3")), "3", "home/posse/posse.json:1");
    let world = is(world.file("proj/opencode.json", says("4")), "4", "proj/opencode.json:1");
    let world = is(world.file("proj/.opencode/opencode.json", says("4a")), "4a", "proj/.opencode/opencode.json:1");
    let world = is(world.file("proj/.opencode/opencode.jsonc", says("4b")), "4b", "proj/.opencode/opencode.jsonc:1");
    let world = is(world.file("proj/a/b/opencode.jsonc", says("5")), "5", "opencode.jsonc:1");
    let world = is(world.file("proj/posse.json", says("6")), "6", "proj/posse.json:1");
    let world = is(world.file("proj/a/posse.jsonc", says("7")), "7", "proj/a/posse.jsonc:1");
    let world = is(world.file("proj/a/b/posse.json", says("8")), "8", "posse.json:1");
    let world = is(world.file("elsewhere.json", says("9")).env("POSSE_CONFIG", "../../../elsewhere.json"), "9", "elsewhere.json:1");
    let world = is(world.env("POSSE_CONFIG_CONTENT", &says("10")), "10", "POSSE_CONFIG_CONTENT:1");
    let world = is(world.model_flag("x/11"), "11", "--model");
    let sources: Vec<String> = world.load().unwrap().sources.iter().map(|source| world.near(source)).collect();
    assert_eq!(sources.len(), 13);
    assert_eq!((sources[0].as_str(), sources[12].as_str()), ("built-in", "POSSE_CONFIG_CONTENT"));
}

/// OpenCode's file in its own folder is believed as the one beside it, and its rules and agents count.
#[test]
fn the_file_in_opencodes_own_folder_counts() {
    let text = r#"{"permission": {"edit": {"a.txt": "deny"}, "bash": "allow"}, "model": "{file:m.txt}", "mcp": {"x": {}},
        "agent": {"zed": {"description": "d", "mode": "primary", "prompt": "p"}}}"#;
    let mut world = World::new().file("proj/.opencode/opencode.json", text).file("proj/.opencode/m.txt", "x/m");
    let config = world.load().unwrap();
    assert_eq!(
        config.ignored_line().unwrap(),
        "ignored, because this folder is not trusted: .opencode/opencode.json: model, mcp, permission.bash (allow) (`posse trust` accepts it)"
    );
    let denied = |config: &crate::Config| {
        let judged = config.rulebook().rules.judge(&posse_session::Touch::new("edit", "a.txt"));
        (judged.verdict, judged.origin)
    };
    assert_eq!(denied(&config), (posse_session::Verdict::Deny, ".opencode/opencode.json:1".to_owned()));
    assert!(crate::agents(&world.places(), &config, None).unwrap().get("zed").is_some());
    world.overrides.trust = true;
    let trusted = world.load().unwrap();
    assert_eq!((trusted.ignored_line(), trusted.model.unwrap().value.as_str()), (None, "x/m"), "a path in it starts beside it");
    assert_eq!(trusted.warnings, [], "what a neighbour has built is no news");
    let without = world.user(r#"{"compat": {"opencode": false}}"#).load().unwrap();
    assert_eq!(denied(&without).0, posse_session::Verdict::Allow);
}

#[test]
fn files_outside_the_walk_from_top_level_to_here_do_not_count() {
    let world = World::new().file("posse.json", "{\"model\": 1}").file("proj/b/posse.json", "{\"model\": 1}").at("proj/a");
    assert!(world.load().unwrap().model.is_none());
    let plain = World::new().file("plain/posse.json", "{\"model\": 1}").at("plain/a");
    assert!(plain.load().unwrap().model.is_none(), "without git only the working directory counts");
}

#[test]
fn neighbours_are_left_out_when_the_user_says_so() {
    let world = World::new().file("home/.config/opencode/opencode.json", "{\"model\": 1}").file("proj/opencode.json", "{\"model\": 1}");
    let off = "{\"compat\": {\"opencode\": false}}";
    assert!(world.load().is_err());
    let world = world.user(off);
    assert_eq!(world.load().unwrap().compat, Compat { opencode: false, claude: true });
    let world = world.env("POSSE_CONFIG_CONTENT", "{\"compat\": {\"claude\": false}}");
    assert_eq!(world.load().unwrap().compat, Compat { opencode: false, claude: false }, "each key by itself");
    assert!(world.env("POSSE_CONFIG_CONTENT", "{\"compat\": {\"opencode\": true}}").load().is_err());
}

#[test]
fn a_file_that_is_the_users_and_the_projects_is_the_users() {
    let world = World::with_user("{\"limits\": {\"depth\": 9}}").at("home/posse");
    let config = world.load().unwrap();
    assert_eq!((config.limits.depth, config.ignored.len(), config.sources.len()), (9, 0, 2));
    let named = World::with_project("{\"limits\": {\"depth\": 9}}").env("POSSE_CONFIG", "posse.json");
    let config = named.load().unwrap();
    assert_eq!((config.limits.depth, config.ignored.len(), config.sources.len()), (9, 0, 2));
}

#[test]
fn values_are_merged_key_by_key() {
    let world = World::new()
        .file("home/.config/opencode/opencode.json", r#"{"small_model": "a/s", "provider": {"a": {"options": {"apiKey": "k", "baseURL": "http://a"}, "models": {"s": {}}}}}"#)
        .user(r#"{"models": {"strong": "a/x"}, "provider": {"b": {"base_url": "http://b"}, "a": {"base_url": "http://c", "models": {"x": {"context": 5}}}}}"#);
    let config = world.load().unwrap();
    let aliases: Vec<(&str, &str)> = config.aliases.iter().map(|(alias, model)| (alias.as_str(), model.value.as_str())).collect();
    assert_eq!(aliases, [("strong", "a/x"), ("small", "a/s")]);
    let names: Vec<&str> = config.providers.iter().map(|provider| provider.name.as_str()).collect();
    assert_eq!(names, ["b", "a"], "the higher file's order");
    let a = &config.providers[1];
    assert_eq!(a.base_url.as_deref(), Some("http://c"));
    assert!(matches!(&a.key, crate::Key::Given(secret) if secret.expose() == "k"));
    assert_eq!(a.models.iter().map(|(name, spec)| (name.as_str(), spec.context)).collect::<Vec<_>>(), [("x", Some(5)), ("s", None)]);
}

#[test]
fn limits_and_concurrency_are_read_in_every_form() {
    let world = World::with_user(
        r#"{"limits": {"depth": 1, "children": 2, "tree": 3, "streamIdle": "90s", "step": 0.5, "idle": 90, "wall": "1h30m", "steps": 7, "cost": 0.25, "tokens": 1000},
            "concurrency": {"default": 4, "anthropic": 5, "anthropic/claudeOpus": 3}}"#,
    );
    let config = world.load().unwrap();
    let expected = Limits {
        depth: 1,
        children: 2,
        tree: 3,
        stream_idle: Duration::from_secs(90),
        step: Duration::from_millis(500),
        idle: Duration::from_secs(90),
        wall: Duration::from_secs(5400),
        steps: Some(7),
        cost: Some(0.25),
        tokens: Some(1000),
    };
    assert_eq!(config.limits, expected);
    assert_eq!(
        config.limits.spending(),
        posse_session::Limits { steps: Some(7), tokens: Some(1000), cost_usd: Some(0.25), tasks: Some(config.limits.tree) }
    );
    assert_eq!(config.concurrency, Concurrency { default: 4, named: vec![("anthropic".into(), 5), ("anthropic/claudeOpus".into(), 3)] });
    assert_eq!(
        (config.concurrency.of_provider("anthropic"), config.concurrency.of_provider("x"), config.concurrency.of("x")),
        (5, 4, None)
    );
    assert_eq!(World::with_user("{\"concurrency\": 2}").load().unwrap().concurrency, Concurrency { default: 2, named: vec![] });
}

#[test]
fn references_are_put_in_from_the_environment_and_from_files() {
    let world = World::with_user(r#"{"model": "{env:P}/{file:name.txt}", "defaultAgent": "{file:~/agent}"}"#)
        .file("home/posse/name.txt", "m1\n")
        .file("home/agent", "plan")
        .env("P", "mock");
    let config = world.load().unwrap();
    assert_eq!((config.model.unwrap().value.as_str(), config.default_agent.unwrap().value.as_str()), ("mock/m1", "plan"));
}

#[test]
fn loading_is_fast() {
    let world = World::with_user(
        r#"{"model": "mock/m1", "provider": {"mock": {"api": "anthropic", "base_url": "http://x", "models": {"m1": {}}}}}"#,
    );
    let places = world.places();
    let env = |name: &str| world.get(name);
    let one = |_| {
        let started = std::time::Instant::now();
        crate::load(&places, &env, &world.overrides).unwrap();
        started.elapsed()
    };
    // The best of many, because other tests run beside this one; a debug build takes several times what users feel.
    let best = (0..50).map(one).min().unwrap();
    assert!(best < Duration::from_millis(5), "{best:?}");
}
