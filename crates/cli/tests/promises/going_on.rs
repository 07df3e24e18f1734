//! Going on with a session: where it began, with the model it had, with what it was told, and what only happened once.

use std::time::Duration;

use serde_json::json;

use crate::support::{Answer, Seen, World, git};

const NOBODY: u32 = 65_534;

fn id_of(world: &World) -> String {
    world.posse(&["sessions", "list"]).out.split_whitespace().next().unwrap().to_owned()
}

#[test]
fn a_session_goes_on_in_the_folder_it_began_in() {
    let world = World::new(|seen: &Seen| match seen.steps() % 2 {
        0 => Answer::call("bash", json!({"command": format!("pwd -P # {}", seen.steps())})),
        _ => Answer::text(seen.last_results()[0]),
    });
    git(&world.project, &["commit", "--allow-empty", "-qm", "more"]);
    let tree = world.folder().join("elsewhere");
    git(&world.project, &["worktree", "add", "-q", tree.to_str().unwrap()]);
    world.command(&["run", "where are you"]).cwd(&tree).run().expect_code(0);
    let listed = world.command(&["sessions", "list"]).cwd(&tree).run().out;
    let id = listed.split_whitespace().next().unwrap();
    let done = world.run(&["-s", id, "and now"]).expect_code(0);
    assert!(done.out.contains("elsewhere"), "{}", done.out);
    std::fs::remove_dir_all(&tree).unwrap();
    let gone = world.run(&["-s", id, "and now"]).expect_code(2);
    assert!(gone.err.contains("is gone") && gone.err.contains("-C"), "{}", gone.err);
    let moved = world.run(&["-s", id, "-C", world.project.to_str().unwrap(), "here then"]).expect_code(0);
    assert!(moved.out.contains(world.project.file_name().unwrap().to_str().unwrap()), "{}", moved.out);
}

#[test]
fn a_session_never_changes_its_model_without_a_word() {
    let world = World::with().env("MOCK_KEY", "k").script(|_: &Seen| "ok");
    let url = world.model.url.clone();
    world.configure(&json!({"model": "mock/m1", "provider": {"mock": {"api": "anthropic", "base_url": url, "api_key": "{env:MOCK_KEY}", "models": {"m1": {}}}}}));
    world.run(&["one"]).expect_code(0);
    let asked = world.model.requests().len();
    let without = world.command(&["run", "-c", "two"]).without("MOCK_KEY").run().expect_code(2);
    assert!(without.err.contains("MOCK_KEY") && without.err.contains("mock/m1") && without.err.contains("-m"), "{}", without.err);
    assert_eq!(world.model.requests().len(), asked);
    world.run(&["-c", "two"]).expect_code(0);
}

#[test]
fn what_was_denied_before_is_not_counted_again_by_a_resume() {
    let world = World::with().config("permission", json!({"*": "allow", "bash": "ask"})).script(|seen: &Seen| match seen.steps() {
        0 => Answer::call("bash", json!({"command": "true"})),
        _ => Answer::text("could not"),
    });
    world.run(&["go"]).expect_code(4);
    let again = world.posse(&["sessions", "resume", &id_of(&world), "--format", "json"]).expect_code(0).json();
    assert_eq!((again["result"].as_str(), again["denied"].as_array().map(Vec::len)), (Some("could not"), Some(0)));
}

#[test]
fn the_users_deny_holds_whatever_a_project_says() {
    let world = World::with()
        .config("permission", json!({"*": "allow", "bash": {"*": "allow", "echo *": "deny"}}))
        .file("posse.json", r#"{"permission": {"bash": {"echo *": "ask"}}}"#)
        .script(|seen: &Seen| match seen.steps() {
            0 => Answer::call("bash", json!({"command": "echo hi"})),
            _ => Answer::text("ok"),
        });
    let done = world.run(&["--format", "json", "go"]).expect_code(0).json();
    assert_eq!(done["denied"][0]["tool"], "bash");
    assert!(world.model.last().last_results()[0].contains("Denied by the rule bash(echo *)"));
}

#[test]
fn a_reader_that_does_not_read_cannot_keep_the_process() {
    let long = "x".repeat(400_000);
    let world = World::new(move |_: &Seen| Answer::text(&long));
    let mut running = world.command(&["run", "--format", "stream-json", "go"]).unread();
    std::thread::sleep(Duration::from_millis(1_500));
    let pid = rustix::process::Pid::from_child(&running);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
    let ended = (0..40).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        running.try_wait().unwrap().is_some()
    });
    let _ = running.kill();
    assert!(ended, "Ctrl-C must end it although its output goes nowhere");
}

#[test]
fn a_prompt_of_nothing_but_control_characters_is_taken_in() {
    let world = World::new(|_: &Seen| "binary, I think");
    let done = world.command(&["run", "what is this"]).stdin(vec![1u8; 6_000]).run().expect_code(0);
    assert_eq!(done.out, "binary, I think\n");
}

#[test]
fn tools_cannot_read_the_keys_in_our_own_memory() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root can become another user");
    }
    let look = "(for p in /proc/[0-9]*; do tr '\\0' '\\n' < $p/environ; done) 2>/dev/null | grep -c MOCK_KEY; true";
    let world = World::new(move |seen: &Seen| match seen.steps() {
        0 => Answer::call("bash", json!({ "command": look })),
        _ => Answer::text(seen.last_results()[0]),
    });
    use std::os::unix::fs::PermissionsExt as _;
    for folder in [world.folder(), &world.home, &world.project, &world.posse_home] {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let done =
        world.command(&["run", "--permission-mode", "bypass", "look"]).env("MOCK_KEY", "hidden").by_user(NOBODY).run().expect_code(0);
    assert_eq!(done.out.lines().next(), Some("0"), "{}", done.out);
}

#[test]
fn a_turn_that_takes_too_long_or_stands_still_is_ended() {
    let world =
        World::with().config("limits", json!({"wall": "1s"})).script(|_: &Seen| Answer::text("late").after(Duration::from_secs(20)));
    let done = world.run(&["go"]).expect_code(3);
    assert!(done.err.contains("limits.wall"), "{}", done.err);
    let still =
        World::with().config("limits", json!({"idle": "1s"})).script(|_: &Seen| Answer::text("late").after(Duration::from_secs(20)));
    let done = still.run(&["go"]).expect_code(3);
    assert!(done.err.contains("limits.idle"), "{}", done.err);
}
