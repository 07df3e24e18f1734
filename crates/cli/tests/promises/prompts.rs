//! Where the prompt comes from, and what the model is shown of it.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Answer, Block, Seen, World};

fn listener() -> World {
    World::new(|_: &Seen| "heard")
}

#[test]
fn the_first_user_block_is_exactly_the_users_words() {
    let world = listener();
    let words = "  Fix <b>this</b> & that:\n\tline two  \u{e9} /not a command";
    world.run(&[words]).expect_code(0);
    let seen = world.model.last();
    assert_eq!(seen.messages.len(), 1);
    assert_eq!(seen.messages[0].blocks.first(), Some(&Block::Text(words.into())));
}

#[test]
fn words_without_quotes_are_one_prompt() {
    let world = listener();
    world.run(&["where", "is", "main?"]).expect_code(0);
    assert_eq!(world.model.last().user_texts(), ["where is main?"]);
}

#[test]
fn a_prompt_comes_from_stdin_when_there_is_none_or_a_dash() {
    let world = listener();
    for args in [&["run"][..], &["run", "-"], &[]] {
        let done = world.command(args).stdin("from the pipe\n").run().expect_code(0);
        assert_eq!(done.out, "heard\n", "{args:?}");
        assert_eq!(world.model.last().user_texts(), ["from the pipe"], "{args:?}");
    }
}

#[test]
fn what_is_piped_in_is_appended_to_a_prompt_as_its_own_block() {
    let world = listener();
    world.command(&["run", "review this"]).stdin("diff --git a b\n").run().expect_code(0);
    let seen = world.model.last();
    let texts = seen.user_texts();
    assert_eq!((texts[0], texts.len()), ("review this", 2), "{texts:?}");
    assert!(texts[1].contains("diff --git a b"), "{texts:?}");
}

#[test]
fn an_open_pipe_that_brings_nothing_is_not_waited_for() {
    let world = listener();
    let begun = Instant::now();
    let running = world.command(&["run", "hi"]).silent_pipe().start();
    assert!(running.wait_for_err("waiting for stdin; use </dev/null", Duration::from_secs(10)), "{}", running.err_so_far());
    assert!(Duration::from_secs(2) <= begun.elapsed());
    let done = running.wait(Duration::from_secs(20)).expect_code(0);
    assert_eq!(done.out, "heard\n");
    assert_eq!(world.model.last().user_texts(), ["hi"]);
}

#[test]
fn an_empty_prompt_is_wrong_usage_and_asks_no_model() {
    let world = listener();
    for command in [world.command(&["run"]), world.command(&["run", "  "]), world.command(&["run", "-"]).stdin("\n\n")] {
        let done = command.run().expect_code(2);
        assert!(done.err.contains("nothing to do"), "{}", done.err);
        assert_eq!(done.out, "");
    }
    assert!(world.model.requests().is_empty());
}

#[test]
fn the_system_prompt_holds_the_agent_the_place_and_the_instructions_with_their_origin() {
    let world = World::with().file("AGENTS.md", "Always use tabs.").file("sub/AGENTS.md", "In here, blanks.").script(|_: &Seen| "ok");
    world.command(&["run", "hi"]).cwd(world.project.join("sub")).run().expect_code(0);
    let system = world.model.last().system.clone();
    let at = |what: &str| system.find(what).unwrap_or_else(|| panic!("no {what:?} in {system}"));
    let path = |name: &str| world.project.join(name).display().to_string();
    assert!(at("You are Posse") < at(&format!("Working directory: {}", path("sub"))));
    assert!(at("Working directory") < at(&path("AGENTS.md")));
    assert!(at(&path("AGENTS.md")) < at("Always use tabs.") && at("Always use tabs.") < at(&path("sub/AGENTS.md")));
    assert!(at(&path("sub/AGENTS.md")) < at("In here, blanks."));
}

#[test]
fn another_folder_is_worked_in_with_c() {
    let world = World::with().file("deep/inside/a.txt", "x").script(|seen: &Seen| match seen.steps() {
        0 => Answer::call("bash", json!({"command": "pwd"})),
        _ => Answer::text(seen.last_results()[0]),
    });
    let done = world.run(&["-C", "deep/inside", "where are you?"]).expect_code(0);
    assert_eq!(done.out.trim(), world.project.join("deep/inside").display().to_string());
    let missing = world.run(&["-C", "nowhere", "hi"]).expect_code(2);
    assert!(missing.err.contains("nowhere"), "{}", missing.err);
}

#[test]
fn a_run_asks_the_model_once_for_one_answer() {
    let world = listener();
    world.run(&["hi"]).expect_code(0);
    assert_eq!(world.model.requests().len(), 1, "no titles, no warm-up, nothing the answer does not need");
}

#[test]
fn a_folder_alone_takes_its_prompt_from_stdin() {
    let world = World::with().file("sub/a.txt", "").script(|_: &Seen| "heard");
    assert_eq!(world.command(&["sub"]).stdin("hello").run().expect_code(0).out, "heard\n");
    let seen = world.model.last();
    assert_eq!(seen.user_texts(), ["hello"]);
    assert!(seen.system.contains(&format!("Working directory: {}\n", world.project.join("sub").display())));
}

#[test]
fn stdin_may_be_odd_but_not_endless() {
    let world = listener();
    world.command(&["run"]).stdin(b"a\xffb".to_vec()).run().expect_code(0);
    assert_eq!(world.model.last().user_texts(), ["a\u{fffd}b"]);
    let done = world.command(&["run"]).stdin(vec![b'x'; 9 << 20]).run().expect_code(2);
    assert!(done.err.contains("8 MiB") && done.err.contains("file"), "{}", done.err);
}

#[test]
fn instructions_that_change_are_a_later_block_and_the_system_prompt_stays() {
    let world = World::with().file("AGENTS.md", "Rule one.").script(|_: &Seen| "ok");
    world.run(&["one"]).expect_code(0);
    world.write("AGENTS.md", "Rule two.");
    world.run(&["-c", "two"]).expect_code(0);
    let (first, second) = (world.model.requests()[0].clone(), world.model.last());
    assert_eq!(first.system, second.system, "the provider's cache holds");
    let texts = second.user_texts();
    assert_eq!((texts.len(), texts[1]), (3, "two"));
    assert!(texts[2].starts_with("<system-reminder>") && texts[2].contains("Rule two."), "{}", texts[2]);
}
