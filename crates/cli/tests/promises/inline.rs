//! Asking at the terminal of a run: a real pseudo-terminal, typed answers, and everything that may come in between.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Answer, AtTerminal, Seen, World, call};

const ASKING: &str = "y once, s session, t tree, p project, n no, a no to all and stop: ";

fn commands(lines: &'static [&'static str]) -> World {
    World::with().config("permission", json!({"bash": {"*": "allow", "touch *": "ask"}})).script(move |seen: &Seen| {
        match lines.get(seen.steps()) {
            Some(line) => Answer::call("bash", json!({ "command": line })),
            None => Answer::text(seen.last_results()[0]),
        }
    })
}

fn at_terminal(world: &World, args: &[&str]) -> AtTerminal {
    world.command(&[&["run"], args].concat()).at_terminal()
}

/// Waits for the nth question, so that what is typed is an answer to it.
#[track_caller]
fn nth_question(terminal: &AtTerminal, nth: usize) {
    let end = std::time::Instant::now() + Duration::from_secs(30);
    while terminal.screen().matches(ASKING).count() < nth {
        assert!(std::time::Instant::now() < end, "there is no question {nth}:\n{}", terminal.screen());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_person_at_the_terminal_is_asked_and_answers() {
    let world = commands(&["touch made && echo \u{1b}[2J", "touch more", "echo end"]);
    let mut terminal = at_terminal(&world, &["--format", "json", "go"]);
    nth_question(&terminal, 1);
    let shown = terminal.screen();
    for part in ["build wants bash", "ask_", "bash(touch made)", "command: touch made && echo", "rule bash(touch *) from", "posse.json:"] {
        assert!(shown.contains(part), "no {part:?} on the screen:\n{shown}");
    }
    assert!(!shown.contains("\u{1b}[2J"), "what the model says does not move the cursor");
    terminal.types("what\n");
    nth_question(&terminal, 2);
    assert!(!world.project.join("made").exists());
    terminal.types("y\n");
    nth_question(&terminal, 3);
    terminal.types("s\n");
    let done = terminal.wait().expect_code(0);
    assert!(world.project.join("made").exists() && world.project.join("more").exists());
    assert_eq!(done.json()["status"], "done", "stdout has nothing but the object: {}", done.out);
}

#[test]
fn a_person_refuses_with_words_or_without() {
    let world = commands(&["touch made"]);
    let mut terminal = at_terminal(&world, &["go"]);
    nth_question(&terminal, 1);
    terminal.types("n\n");
    terminal.sees("words for the model, or nothing: ");
    terminal.types("use another folder\n");
    let done = terminal.wait().expect_code(0);
    assert!(done.out.contains("The user refused this call and says: use another folder"), "{}", done.out);

    let mut terminal = at_terminal(&world, &["go"]);
    nth_question(&terminal, 1);
    terminal.types("n not today\n");
    assert!(terminal.wait().expect_code(0).out.contains("says: not today"));

    let mut terminal = at_terminal(&world, &["go"]);
    nth_question(&terminal, 1);
    terminal.types("n\n");
    terminal.sees("words for the model, or nothing: ");
    terminal.types("\n");
    assert!(terminal.wait().expect_code(0).out.contains("The user refused this call."));
    assert!(!world.project.join("made").exists());
}

#[test]
fn no_to_all_refuses_every_ask_and_ends_the_turn_without_another_model_call() {
    let world = World::with().config("permission", json!({"bash": "ask"})).script(|seen: &Seen| match seen.steps() {
        0 => Answer::calls([call("bash", json!({"command": "touch a"})), call("bash", json!({"command": "mkdir b"}))]),
        _ => Answer::text("the model was asked again"),
    });
    let mut terminal = at_terminal(&world, &["--format", "json", "go"]);
    nth_question(&terminal, 1);
    terminal.types("a\n");
    let shown = terminal.wait().expect_code(130).json();
    assert_eq!((shown["denied"].as_array().unwrap().len(), world.model.requests().len()), (2, 1), "{shown}");
    assert!(!world.project.join("a").exists() && !world.project.join("b").exists());
    assert_eq!(world.posse(&["asks", "list"]).expect_code(0).out, "");
}

#[test]
fn an_answer_from_another_terminal_takes_the_question_away() {
    let world = commands(&["touch one", "touch two"]);
    let mut terminal = at_terminal(&world, &["go"]);
    nth_question(&terminal, 1);
    let open = world.posse(&["asks", "list", "--format", "json"]).expect_code(0).json();
    world.posse(&["asks", "answer", open[0]["ask"].as_str().unwrap(), "once"]).expect_code(0);
    terminal.sees("answered elsewhere");
    nth_question(&terminal, 2);
    assert!(world.project.join("one").exists());
    terminal.types("y\n");
    terminal.wait().expect_code(0);
    assert!(world.project.join("two").exists());
}

#[test]
fn what_was_typed_before_the_question_is_no_answer_to_it() {
    let world = World::with().config("permission", json!({"bash": "ask"})).script(|seen: &Seen| match seen.steps() {
        0 => Answer::call("bash", json!({"command": "touch made"})).after(Duration::from_millis(1_000)),
        _ => Answer::text("done"),
    });
    let mut terminal = at_terminal(&world, &["go"]);
    assert!(world.model.wait_for_requests(1));
    terminal.types("y\n");
    nth_question(&terminal, 1);
    std::thread::sleep(Duration::from_millis(500));
    assert!(!world.project.join("made").exists(), "{}", terminal.screen());
    terminal.types("y\n");
    terminal.wait().expect_code(0);
    assert!(world.project.join("made").exists());
}

#[test]
fn ctrl_c_at_the_question_ends_the_turn() {
    let world = commands(&["touch made"]);
    let mut terminal = at_terminal(&world, &["go"]);
    nth_question(&terminal, 1);
    terminal.types("y\u{3}");
    terminal.wait().expect_code(130);
    assert!(!world.project.join("made").exists());
}

#[test]
fn a_terminal_that_ends_is_nobody_to_ask() {
    let world = commands(&["touch one", "touch two"]);
    let mut terminal = at_terminal(&world, &["--format", "json", "go"]);
    nth_question(&terminal, 1);
    terminal.types("\u{4}");
    let shown = terminal.wait().expect_code(4).json();
    assert_eq!(shown["denied"].as_array().unwrap().len(), 2, "{shown}");
    assert!(shown["result"].as_str().unwrap().contains("nobody can be asked"), "{shown}");
    assert!(!world.project.join("one").exists() && !world.project.join("two").exists());
}

#[test]
fn a_flag_says_otherwise_than_the_terminal() {
    let world = commands(&["touch made"]);
    let denied = at_terminal(&world, &["--on-ask", "deny", "go"]).wait().expect_code(4);
    assert!(!denied.err.contains(ASKING), "{}", denied.err);
    at_terminal(&world, &["--on-ask", "deny-ok", "go"]).wait().expect_code(0);
    assert!(!world.project.join("made").exists());
}

fn questioning() -> World {
    World::new(|seen: &Seen| match seen.steps() {
        0 => Answer::call(
            "question",
            json!({"questions": [{"question": "Which colour?",
            "options": [{"label": "red", "description": "like fire"}, {"label": "blue"}]}]}),
        ),
        _ => Answer::text(seen.last_results()[0]),
    })
}

#[test]
fn a_question_is_answered_by_number_or_in_words() {
    let world = questioning();
    for (typed, heard) in [("2\n", "Answer: blue"), ("green, please\n", "Answer: green, please")] {
        let mut terminal = at_terminal(&world, &["go"]);
        terminal.sees("n refuses, a refuses and stops: ");
        let shown = terminal.screen();
        assert!(shown.contains("Which colour?") && shown.contains("1  red: like fire") && shown.contains("2  blue"), "{shown}");
        terminal.types(typed);
        let done = terminal.wait().expect_code(0);
        assert!(done.out.contains(heard), "{}", done.out);
    }
}

#[test]
fn a_question_is_answered_from_elsewhere_and_offered_only_where_somebody_can_answer() {
    let world = questioning();
    let run = world.start(&["run", "--on-ask", "wait", "go"]);
    assert!(run.wait_for_err("once --say", Duration::from_secs(30)), "{}", run.err_so_far());
    let open = world.posse(&["asks", "list", "--format", "json"]).expect_code(0).json();
    let id = open[0]["ask"].as_str().unwrap();
    assert_eq!(open[0]["questions"][0]["options"][1]["label"], "blue");
    let mute = world.posse(&["asks", "answer", id, "once"]).expect_code(2);
    assert!(mute.err.contains("--say") && mute.err.contains("Which colour?") && mute.err.contains("2  blue"), "{}", mute.err);
    world.posse(&["asks", "answer", id, "project", "--say", "1"]).expect_code(2);
    world.posse(&["asks", "answer", id, "once", "--say", "1"]).expect_code(0);
    let done = run.wait(Duration::from_secs(30)).expect_code(0);
    assert!(done.out.contains("Answer: red"), "{}", done.out);
    assert!(world.model.last().tools.contains(&"question".to_owned()));

    let nobody = World::new(|_: &Seen| "ok");
    nobody.run(&["hi"]).expect_code(0);
    assert!(!nobody.model.last().tools.contains(&"question".to_owned()), "{:?}", nobody.model.last().tools);
    let told: Value = nobody.posse(&["why", "question", "--format", "json"]).expect_code(0).json();
    assert!(told["why"].as_str().unwrap().contains("--on-ask wait"), "{told}");
}
