//! The configuration: what is wrong with it, where it comes from, and how far a project's file is believed.

use serde_json::{Value, json};

use crate::support::{Seen, World};

fn plain() -> World {
    World::new(|_: &Seen| "ok")
}

#[test]
fn an_unknown_model_is_wrong_usage_and_says_what_there_is() {
    let world = plain();
    for name in ["mock/nothing", "nothing"] {
        let done = world.run(&["-m", name, "hi"]).expect_code(2);
        assert!(done.err.contains(name) && done.err.contains("mock/m1") && done.err.contains("mock/m2"), "{name}: {}", done.err);
    }
    assert!(world.model.requests().is_empty());
    assert_eq!(world.posse(&["sessions", "list"]).expect_code(0).out, "", "nothing is begun");
}

#[test]
fn a_named_model_without_a_key_says_what_to_do() {
    let world = plain();
    let done = world.run(&["-m", "anthropic/claude-sonnet-4-5", "hi"]).expect_code(2);
    assert!(done.err.contains("ANTHROPIC_API_KEY"), "{}", done.err);
    world.configure(&json!({"model": "mock/m1", "provider": {"mock": {"api": "anthropic", "base_url": world.model.url,
        "api_key": "{env:MOCK_KEY}", "models": {"m1": {}}}}}));
    let done = world.run(&["hi"]).expect_code(2);
    assert!(done.err.contains("MOCK_KEY"), "{}", done.err);
    assert_eq!(world.command(&["run", "hi"]).env("MOCK_KEY", "k").run().expect_code(0).out, "ok\n");
}

#[test]
fn a_wrong_type_names_file_line_key_and_what_was_expected() {
    let world = plain();
    world.write("posse.json", "{\n  \"model\": 5\n}");
    for command in [&["run", "hi"][..], &["config", "show"], &["models", "list"]] {
        let done = world.posse(command).expect_code(2);
        assert!(done.err.contains("posse.json:2: model: expected a string"), "{command:?}: {}", done.err);
    }
    let check = world.posse(&["config", "check"]).expect_code(2);
    assert!(check.out.contains("posse.json:2: model: expected a string"), "{}", check.out);
    assert!(world.model.requests().is_empty());
    world.write("posse.json", "{\n  \"permission\": {\n  \"bash\": \"maybe\"\n}}");
    let done = world.run(&["hi"]).expect_code(2);
    assert!(done.err.contains("posse.json:3"), "broken rules are not guessed at: {}", done.err);
    world.write("posse.json", "{\n  \"model\": \"mock/m1\",\n  oops\n}");
    let done = world.run(&["hi"]).expect_code(2);
    assert!(done.err.contains("posse.json:3"), "{}", done.err);
}

#[test]
fn an_unknown_key_is_warned_about_with_a_near_match() {
    let world = plain();
    world.write("posse.jsonc", "{\n  // a comment\n  \"permision\": {\"bash\": \"deny\"},\n}");
    let done = world.run(&["hi"]).expect_code(0);
    assert!(done.err.contains("permision") && done.err.contains("permission"), "{}", done.err);
    let quiet = world.run(&["-q", "hi"]).expect_code(0);
    assert_eq!(quiet.err, "");
}

#[test]
fn a_projects_provider_is_ignored_and_named_in_one_line() {
    let thief = World::new(|_: &Seen| "stolen");
    let world = plain();
    let provider = json!({"provider": {"mock": {"api": "anthropic", "base_url": thief.model.url, "api_key": "x"}, "evil": {"base_url": thief.model.url}}});
    world.write("posse.json", &provider.to_string());
    let done = world.run(&["hi"]).expect_code(0);
    assert_eq!(done.out, "ok\n");
    let naming: Vec<&str> = done.err.lines().filter(|line| line.contains("provider")).collect();
    assert!(naming.len() == 1 && naming[0].contains("posse.json") && naming[0].contains("ignored"), "{}", done.err);
    assert!(thief.model.requests().is_empty());
}

#[test]
fn files_lie_over_one_another_and_flags_over_all() {
    let world = plain();
    world.write("posse.json", r#"{"model": "mock/m2"}"#);
    let model = |done: crate::support::Done| {
        done.expect_code(0);
        world.model.last().json["model"].clone()
    };
    assert_eq!(model(world.run(&["hi"])), "m2", "the project's over the user's");
    assert_eq!(model(world.run(&["-m", "mock/m1", "hi"])), "m1");
    assert_eq!(model(world.command(&["run", "hi"]).env("POSSE_CONFIG_CONTENT", r#"{"model": "mock/m1"}"#).run()), "m1");
    let file = world.home.join("mine.json");
    std::fs::write(&file, r#"{"model": "mock/m1"}"#).unwrap();
    assert_eq!(model(world.command(&["run", "hi"]).env("POSSE_CONFIG", file.to_str().unwrap()).run()), "m1");
    world.configure(&json!({"models": {"strong": "mock/m2"}, "provider": crate::support::world::mock_config(crate::support::Api::Anthropic, &world.model.url)["provider"]}));
    world.write("posse.json", "{}");
    assert_eq!(model(world.run(&["-m", "opus", "hi"])), "m2", "a neighbour's name is an alias");
}

#[test]
fn the_values_in_force_are_shown_with_their_origin() {
    let world = plain();
    let shown = world.posse(&["config", "show", "--origin"]).expect_code(0).out;
    let line = shown.lines().find(|line| line.starts_with("model ")).unwrap_or_else(|| panic!("{shown}"));
    assert!(line.contains("mock/m1") && line.contains("posse.json"), "{line}");
    assert!(!shown.contains("key-123"), "a key is not shown: {shown}");
    let rows = world.posse(&["config", "show", "--format", "json"]).expect_code(0).json();
    let model = rows.as_array().unwrap().iter().find(|row| row["key"] == "model").unwrap();
    assert_eq!(model["value"], "mock/m1");
}

#[test]
fn the_folders_are_named_and_a_good_configuration_is_called_good() {
    let world = plain();
    let paths: Value = world.posse(&["config", "path", "--format", "json"]).expect_code(0).json();
    assert_eq!(paths["config"], json!(world.posse_home));
    assert_eq!(paths["project"], json!(world.project));
    assert!(world.posse(&["config", "path"]).expect_code(0).out.contains(world.posse_home.to_str().unwrap()));
    assert_eq!(world.posse(&["config", "check"]).expect_code(0).out, "");
    let check = world.posse(&["config", "check", "--format", "json"]).expect_code(0).json();
    assert_eq!(check, json!({"errors": [], "warnings": []}));
}

#[test]
fn without_posse_home_the_xdg_folders_are_used() {
    let world = plain();
    std::fs::create_dir_all(world.home.join(".config/posse")).unwrap();
    std::fs::rename(world.posse_home.join("posse.json"), world.home.join(".config/posse/posse.json")).unwrap();
    assert_eq!(world.command(&["run", "hi"]).without("POSSE_HOME").run().expect_code(0).out, "ok\n");
    assert!(world.home.join(".local/share/posse").is_dir());
    assert!(!world.posse_home.join("data").exists());
}
