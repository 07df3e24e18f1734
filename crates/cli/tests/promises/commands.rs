//! The other commands, the offline model, and what must never be written down.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::{Answer, Seen, World};

#[test]
fn help_has_examples_and_every_command_that_exists() {
    let world = World::new(|_: &Seen| "never");
    for args in [&["--help"][..], &["run", "--help"]] {
        let help = world.posse(args).expect_code(0).out;
        assert!(help.contains("Examples:") && help.contains("posse run \""), "{help}");
    }
    let help = world.posse(&["--help"]).expect_code(0).out;
    for command in ["run", "sessions", "config", "models", "doctor", "completions"] {
        assert!(help.lines().any(|line| line.trim_start().starts_with(command)), "no {command} in {help}");
    }
    let version = world.posse(&["--version"]).expect_code(0).out;
    assert!(version.starts_with("posse ") && version.contains('.'), "{version}");
    let wrong = world.posse(&["nonsense"]).expect_code(2);
    assert!(wrong.err.contains("nonsense") && wrong.err.contains("--help"), "{}", wrong.err);
}

#[test]
fn completions_are_scripts_for_each_shell() {
    let world = World::new(|_: &Seen| "never");
    for shell in ["bash", "zsh", "fish"] {
        let script = world.posse(&["completions", shell]).expect_code(0).out;
        assert!(script.contains("posse") && script.contains("sessions") && script.contains("max-steps"), "{shell}");
    }
    world.posse(&["completions", "cobol"]).expect_code(2);
}

#[test]
fn models_are_listed_with_what_they_cost() {
    let world = World::new(|_: &Seen| "never");
    let list = world.posse(&["models", "list"]).expect_code(0).out;
    assert!(list.contains("mock/m1") && list.contains("mock/m2") && list.contains("offline/explorer"), "{list}");
    let rows = world.posse(&["models", "list", "--format", "json"]).expect_code(0).json();
    let first = rows.as_array().unwrap().iter().find(|row| row["model"] == "mock/m1").unwrap();
    assert_eq!((&first["context"], &first["output"]), (&json!(200_000), &json!(8192)));
    assert_eq!(first["cost"]["input"].as_f64(), Some(3.0));
    let more = world.command(&["models", "list"]).env("ANTHROPIC_API_KEY", "k").run().expect_code(0).out;
    assert!(more.contains("anthropic/"), "{more}");
}

#[test]
fn the_doctor_finds_a_healthy_user_healthy_and_a_broken_one_not() {
    let world = World::new(|_: &Seen| "never");
    let well = world.posse(&["doctor", "--format", "json"]).expect_code(0).json();
    assert_eq!(well["ok"], true, "{well}");
    let checks: Vec<&str> = well["checks"].as_array().unwrap().iter().map(|check| check["check"].as_str().unwrap()).collect();
    for check in ["configuration", "data", "processes", "git", "model"] {
        assert!(checks.contains(&check), "{checks:?}");
    }
    world.write("posse.json", "{\"model\": 5}");
    let ill = world.posse(&["doctor"]).expect_code(1).out;
    assert!(ill.contains("model: expected a string"), "{ill}");
    assert!(world.model.requests().is_empty(), "the doctor sends nothing anywhere");
    assert!(world.processes_left_after(std::time::Duration::from_secs(3)).is_empty());
}

#[test]
fn without_any_model_the_offline_one_searches_and_says_what_it_is() {
    let world = World::with().file("src/lib.rs", "pub struct RetryPolicy;\n").script(|_: &Seen| "never");
    world.configure(&json!({}));
    let done = world.run(&["Where is RetryPolicy defined?"]).expect_code(0);
    assert!(done.out.contains("src/lib.rs:1") && done.out.contains("pub struct RetryPolicy;"), "{}", done.out);
    assert!(done.err.contains("offline/explorer") && done.err.contains("not an LLM"), "{}", done.err);
    let cannot = world.run(&["Refactor everything into microservices"]).expect_code(2);
    assert!(cannot.err.contains("ANTHROPIC_API_KEY"), "{}", cannot.err);
    let free = world.run(&["--format", "json", "Where is RetryPolicy defined?"]).expect_code(0).json();
    assert_eq!(free["usage"]["cost_usd"], 0.0);
}

#[test]
fn a_key_is_never_written_anywhere() {
    let key = "sk-very-secret-0123456789";
    let world = World::with().env("MOCK_KEY", key).script(move |seen: &Seen| match (seen.user_texts()[0], seen.steps()) {
        ("refuse", _) => Answer::error(401, &format!("invalid x-api-key: {key}")),
        (_, 0) => Answer::call("bash", json!({"command": "env; cat /proc/self/environ | tr '\\0' '\\n'; set"})),
        _ => Answer::text("done"),
    });
    let url = &world.model.url;
    world.configure(&json!({"model": "mock/m1", "provider": {"mock": {"api": "anthropic", "base_url": url, "api_key": "{env:MOCK_KEY}", "models": {"m1": {}}}}}));
    let runs = [
        world
            .command(&["run", "--allow", "external_directory", "--format", "stream-json", "look around"])
            .env("POSSE_LOG", "trace")
            .run()
            .expect_code(0),
        world.command(&["run", "--format", "json", "refuse"]).env("POSSE_LOG", "trace").run().expect_code(1),
        world.posse(&["run", "refuse"]).expect_code(1),
        world.posse(&["config", "show", "--origin"]).expect_code(0),
        world.posse(&["models", "list"]).expect_code(0),
        world.posse(&["doctor"]).expect_code(0),
    ];
    assert_eq!(world.model.requests()[0].header("x-api-key"), Some(key), "the model itself does get it");
    for done in runs {
        assert!(!done.out.contains(key) && !done.err.contains(key), "{done:#?}");
    }
    let files = files_below(world.folder());
    assert!(files.iter().any(|file| file.ends_with("posse.db")) && files.iter().any(|file| file.ends_with("posse.log")), "{files:?}");
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!bytes.windows(key.len()).any(|window| window == key.as_bytes()), "{} holds the key", file.display());
    }
}

/// Every regular file, however deep.
pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => files.extend(files_below(&entry.path())),
            kind if kind.is_file() => files.push(entry.path()),
            _ => {}
        }
    }
    files
}

#[test]
fn what_posse_keeps_is_for_its_user_only() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new(|seen: &Seen| match seen.steps() {
        0 => Answer::call("bash", json!({"command": "seq 50000"})),
        _ => Answer::text("done"),
    });
    world.run(&["hi"]).expect_code(0);
    let data = world.posse_home.join("data");
    let closed = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o077 == 0;
    for file in files_below(&data) {
        let way = file.ancestors().take_while(|folder| folder.starts_with(&data)).any(closed);
        assert!(way, "{} can be read by others", file.display());
    }
    assert!(files_below(&data).iter().filter(|file| file.ends_with("posse.db")).all(|file| closed(file)));
}
