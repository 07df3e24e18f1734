//! What posse does beside a conversation, through the real binary: questions, guesses, notes, words on who does what.
//! CC-004, CC-005, CC-209..217, CC-246, CC-277, CC-292.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    background::{Gate, LONG, launch, soon},
    support::{Answer, Api, Done, Seen, World},
};

/// The last words of the user's side.
fn last_said(seen: &Seen) -> String {
    seen.user_texts().last().map(|text| (*text).to_owned()).unwrap_or_default()
}

fn is_side(seen: &Seen) -> bool {
    last_said(seen).contains("A question beside the work.")
}

fn is_guess(seen: &Seen) -> bool {
    last_said(seen).contains("most likely to say next")
}

fn is_doing(seen: &Seen) -> bool {
    last_said(seen).contains("what is being done right now")
}

/// Anywhere: whoever takes notes has calls of its own after that.
fn takes_notes(seen: &Seen) -> bool {
    seen.user_texts().iter().any(|text| text.contains("note that.\n- Worth noting"))
}

fn orders_notes(seen: &Seen) -> bool {
    seen.user_texts().iter().any(|text| text.contains("Now put them in order"))
}

fn is_beside(seen: &Seen) -> bool {
    is_side(seen) || is_guess(seen) || is_doing(seen) || takes_notes(seen) || orders_notes(seen)
}

fn asked(world: &World) -> usize {
    world.model.requests().iter().filter(|seen| is_beside(seen)).count()
}

fn session_of(done: &Done) -> String {
    done.json()["session"].as_str().unwrap().to_owned()
}

/// Whom the tree has besides its root, by what they are.
fn internal(shown: &Value) -> Vec<(String, String)> {
    let word = |entry: &Value, key: &str| entry[key].as_str().unwrap().to_owned();
    let all = shown["tree"].as_array().unwrap().iter();
    all.filter(|entry| entry["kind"] == "internal").map(|entry| (word(entry, "agent"), word(entry, "status"))).collect()
}

/// CC-214: whatever the provider, the next request is the same with a question and without.
#[test]
fn cc_214_a_side_question_leaves_the_conversation_as_it_is() {
    for api in [Api::Anthropic, Api::OpenAi, Api::Responses, Api::Gemini] {
        let world = World::with().api(api).script(|seen: &Seen| match is_side(seen) {
            true => Answer::text("Because of b."),
            false => Answer::text(&format!("answer {}", seen.steps())),
        });
        let begin = || session_of(&world.run(&["--format", "json", "go"]).expect_code(0));
        let (asked_about, plain) = (begin(), begin());
        world.posse(&["side", "-s", &asked_about, "why b?"]).expect_code(0);
        let go_on = |id: &str| {
            world.run(&["-s", id, "go on"]).expect_code(0);
            String::from_utf8_lossy(&world.model.last().body).replace(id, "ID")
        };
        assert_eq!(go_on(&asked_about), go_on(&plain), "{api:?}: not a byte differs");
    }
}

/// CC-214: the answer alone is on stdout; the tools are in the request, which begins like the conversation's.
#[test]
fn cc_214_a_side_question_is_answered_from_the_conversation() {
    let world = World::new(|seen: &Seen| match is_side(seen) {
        true => Answer::text("Because of b.").usage(100, 10, 0, 0),
        false => Answer::text(&format!("answer {}", seen.steps())),
    });
    let asked_about = session_of(&world.run(&["--format", "json", "go"]));
    let done = world.posse(&["side", "-s", &asked_about, "why", "b?"]).expect_code(0);
    assert_eq!((done.out.as_str(), done.err.as_str()), ("Because of b.\n", ""));
    let side = world.model.last();
    assert!(last_said(&side).ends_with("why b?") && !side.tools.is_empty(), "the tools are in the head: the same bytes");
    let before = world.model.requests()[0].body.clone();
    let shared = before.iter().zip(&side.body).take_while(|(one, other)| one == other).count();
    assert!(before.len() * 9 / 10 < shared, "{shared} of {}", before.len());
    // It is in the costs and in the tree, and not among the sessions.
    let shown = world.run(&["-s", &asked_about, "--format", "json", "and on"]).expect_code(0).json();
    assert_eq!(internal(&shown), [("side".to_owned(), "completed".to_owned())]);
    assert!(!world.posse(&["sessions", "list"]).expect_code(0).out.contains("beside the work"));
    assert!(world.posse(&["tasks"]).expect_code(0).out.is_empty(), "it is no task");
    // Everything else that can be said.
    let done = world.posse(&["side", "-c", "-q", "-m", "mock/m2", "--format", "json", "why?"]).expect_code(0);
    let shown = done.json();
    assert_eq!(
        (shown["status"].as_str(), shown["result"].as_str(), shown["model"].as_str()),
        (Some("done"), Some("Because of b."), Some("mock/m2"))
    );
    assert_eq!(shown["about"], *asked_about);
    let piped = world.command(&["side", "-c"]).stdin("what is in the pipe?").run().expect_code(0);
    assert_eq!(piped.out, "Because of b.\n");
    assert!(last_said(&world.model.last()).ends_with("what is in the pipe?"));
}

#[test]
fn a_side_question_that_cannot_be_asked_is_refused_in_words() {
    let world = World::new(|seen: &Seen| if is_side(seen) { Answer::error(400, "no such luck") } else { Answer::text("ok") });
    let nothing = world.posse(&["side", "-c", "why?"]).expect_code(2);
    assert!(nothing.err.contains("there is no session in"), "{}", nothing.err);
    world.run(&["go"]).expect_code(0);
    assert!(world.posse(&["side", "why?"]).expect_code(2).err.contains("-s ID, or -c"), "which session?");
    world.posse(&["side", "-s", "ses_00NONE", "why?"]).expect_code(2);
    let failed = world.posse(&["side", "-c", "why?"]).expect_code(1);
    assert!(failed.out.is_empty() && failed.err.contains("no such luck"), "{failed:?}");
    let unknown = world.posse(&["side", "-c", "-m", "nobody/none", "why?"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    world.run(&["-c", "still there?"]).expect_code(0);
}

/// CC-214: a second terminal asks while the first works; the first neither waits nor hears of it.
#[test]
fn cc_214_a_second_terminal_asks_while_the_first_works() {
    let gate = Gate::default();
    let held = gate.clone();
    let world = World::new(move |seen: &Seen| match seen.steps() {
        _ if is_side(seen) => Answer::text("I wait for the model."),
        0 => Answer::call("bash", json!({"command": "echo one"})),
        _ => {
            held.pass();
            Answer::text("all done")
        }
    });
    let first = world.start(&["run", "go"]);
    assert!(world.model.wait_for_requests(2));
    let done = world.posse(&["side", "-c", "what are you doing?"]).expect_code(0);
    assert_eq!(done.out, "I wait for the model.\n");
    assert!(done.err.contains("asking there"), "{}", done.err);
    // A question in the middle of a step begins before it: the call and its result are there, the open step is not.
    let side = world.model.requests().into_iter().find(|seen| is_side(seen)).unwrap();
    assert_eq!((side.calls().len(), side.last_results().len()), (1, 1));
    gate.open();
    let done = first.wait(LONG).expect_code(0);
    assert_eq!(done.out, "all done\n");
    assert!(!world.model.requests().iter().any(|seen| !is_side(seen) && seen.json.to_string().contains("what are you doing?")));
}

/// A model that answers nobody before the gate is open.
fn held_up() -> (World, Gate) {
    let gate = Gate::default();
    let held = gate.clone();
    let world = World::new(move |seen: &Seen| {
        held.pass();
        Answer::text(if is_side(seen) { "Because of b." } else { "all done" })
    });
    (world, gate)
}

/// The owner dies in the middle of the question: the asker answers it itself, and goes on with nothing else.
#[test]
fn the_asker_takes_over_when_the_owner_dies() {
    let (world, gate) = held_up();
    let owner = world.start(&["run", "go"]);
    assert!(world.model.wait_for_requests(1));
    let asker = world.start(&["side", "-c", "why?"]);
    soon("the owner asks", || (asked(&world) == 1).then_some(()));
    owner.kill();
    assert_eq!(owner.wait(LONG).signal, Some(9));
    soon("the asker asks", || (asked(&world) == 2).then_some(()));
    gate.open();
    assert_eq!(asker.wait(LONG).expect_code(0).out, "Because of b.\n");
    assert_eq!(world.model.requests().len(), 3, "the turn of the dead process was not gone on with");
    let id = world.posse(&["sessions", "list", "--format", "json"]).expect_code(0).json()[0]["session"].as_str().unwrap().to_owned();
    assert_eq!(world.posse(&["sessions", "resume", &id]).expect_code(0).out, "all done\n");
}

/// Who asks and is killed, or does not want to know any more, leaves a session that goes on.
#[test]
fn an_asker_that_is_gone_leaves_a_session_that_goes_on() {
    for kill in [true, false] {
        let gate = Gate::default();
        let held = gate.clone();
        let world = World::new(move |seen: &Seen| {
            if is_side(seen) {
                held.pass();
            }
            Answer::text(if is_side(seen) { "Because of b." } else { "fine" })
        });
        world.run(&["go"]).expect_code(0);
        let asker = world.start(&["side", "-c", "why?"]);
        assert!(world.model.wait_for_requests(2));
        if kill {
            asker.kill();
            assert_eq!(asker.wait(LONG).signal, Some(9));
        } else {
            asker.interrupt();
            let done = asker.wait(Duration::from_secs(10));
            assert_eq!((done.code, done.out.as_str()), (Some(130), ""), "{done:?}");
        }
        gate.open();
        let shown = world.run(&["-c", "--format", "json", "and on"]).expect_code(0).json();
        assert_eq!(shown["result"], "fine");
        let status = if kill { "completed" } else { "stopped" };
        assert_eq!(internal(&shown), [("side".to_owned(), status.to_owned())], "{shown}");
        assert_eq!(asked(&world), if kill { 2 } else { 1 });
    }
}

/// Who asks another process and loses interest ends the question there too; the work there goes on.
#[test]
fn a_question_that_nobody_waits_for_any_more_ends_where_it_is_answered() {
    let (world, gate) = held_up();
    let owner = world.start(&["run", "--format", "json", "go"]);
    assert!(world.model.wait_for_requests(1));
    let asker = world.start(&["side", "-c", "why?"]);
    soon("the owner asks", || (asked(&world) == 1).then_some(()));
    asker.interrupt();
    let done = asker.wait(Duration::from_secs(10));
    assert_eq!((done.code, done.out.as_str()), (Some(130), ""), "{done:?}");
    soon("it costs nothing any more", || {
        let nodes = world.posse(&["sessions", "tree", "--format", "json"]).expect_code(0).json();
        nodes.as_array().unwrap().iter().any(|node| node["agent"] == "side" && node["status"] == "stopped").then_some(())
    });
    gate.open();
    let shown = owner.wait(LONG).expect_code(0).json();
    assert_eq!(
        (shown["result"].as_str(), internal(&shown)),
        (Some("all done"), vec![("side".to_owned(), "stopped".to_owned())]),
        "{shown}"
    );
}

/// The letter waits, because its owner reads none; whoever calls the question off takes the letter back, and nobody ever answers it.
#[test]
fn a_question_that_is_called_off_while_its_letter_waits_is_never_asked() {
    let (world, gate) = held_up();
    let owner = world.start(&["run", "--format", "json", "go"]);
    assert!(world.model.wait_for_requests(1));
    // It lives and owns the tree, and reads no letters.
    owner.signal(rustix::process::Signal::STOP);
    let asker = world.start(&["side", "-c", "why?"]);
    assert!(asker.wait_for_err("asking there", LONG), "{}", asker.err_so_far());
    asker.interrupt();
    let done = asker.wait(Duration::from_secs(10));
    assert_eq!((done.code, done.out.as_str()), (Some(130), ""), "{done:?}");
    owner.signal(rustix::process::Signal::CONT);
    gate.open();
    let shown = owner.wait(LONG).expect_code(0).json();
    assert_eq!((shown["result"].as_str(), internal(&shown), asked(&world)), (Some("all done"), Vec::new(), 0), "{shown}");
}

fn guesser(seen: &Seen) -> Answer {
    match last_said(seen).as_str() {
        _ if is_guess(seen) => Answer::text("run the tests").usage(10, 2, 0, 0),
        "run the tests" => Answer::text("They would pass."),
        _ => Answer::text("all done").usage(10, 2, 0, 0),
    }
}

/// CC-213: a guess is a line on a terminal, a field and a line for scripts, and nothing unless it is switched on.
#[test]
fn cc_213_what_the_user_may_say_next_is_suggested() {
    let plain = World::new(guesser);
    let shown = plain.run(&["--format", "json", "go"]).expect_code(0).json();
    assert_eq!((shown.get("suggestion"), plain.model.requests().len()), (None, 1), "off by default");
    let world = World::with().config("internal", json!({"suggest": true})).script(guesser);
    let shown = world.run(&["--format", "json", "go"]).expect_code(0).json();
    assert_eq!(shown["suggestion"], "run the tests");
    assert_eq!(internal(&shown), [("suggestion".to_owned(), "completed".to_owned())]);
    let counted = shown["tree"].as_array().unwrap().iter().map(|entry| entry["usage"]["input"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(shown["usage"]["input"].as_u64(), Some(counted), "it is in the costs");
    let lines = world.run(&["--format", "stream-json", "go"]).expect_code(0).lines();
    let suggested: Vec<&Value> = lines.iter().filter(|line| line["type"] == "suggestion").collect();
    assert_eq!((suggested.len(), suggested[0]["text"].as_str()), (1, Some("run the tests")));
    let quiet = world.run(&["go"]).expect_code(0);
    assert_eq!((quiet.out.as_str(), quiet.err.contains("next: ")), ("all done\n", false), "only where somebody sits");
    let terminal = world.command(&["run", "go"]).at_terminal();
    terminal.sees("next: run the tests");
    assert_eq!(terminal.wait().code, Some(0));
    assert_eq!(asked(&world), 4, "one for each");
}

/// CC-213: a draft is at hand for the very words that were foreseen; for any other words the request is as it always was.
#[test]
fn cc_213_a_draft_is_at_hand_for_what_was_foreseen() {
    let world = World::with().config("internal", json!({"speculate": true})).script(guesser);
    let foreseen = session_of(&world.run(&["--format", "json", "go"]).expect_code(0));
    world.run(&["-s", &foreseen, "run the tests"]).expect_code(0);
    let helped = world.model.requests().into_iter().rfind(|seen| seen.json.to_string().contains("guessed that they would say this"));
    let helped = helped.expect("the draft is beside the words");
    assert!(helped.json.to_string().contains("They would pass."));
    let other = session_of(&world.run(&["--format", "json", "go"]).expect_code(0));
    world.run(&["-s", &other, "do something else"]).expect_code(0);
    let body = |seen: &Seen| String::from_utf8_lossy(&seen.body).into_owned();
    let with = world.model.requests().into_iter().rfind(|seen| last_said(seen) == "do something else").unwrap();
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(world.posse_home.join("posse.json")).unwrap()).unwrap();
    config["internal"] = json!({});
    world.configure(&config);
    let plain = session_of(&world.run(&["--format", "json", "go"]).expect_code(0));
    world.run(&["-s", &plain, "do something else"]).expect_code(0);
    assert_eq!(body(&with), body(&world.model.last()), "not a byte differs");
}

/// An answer is printed when it is there, once, whatever posse still does beside it.
#[test]
fn an_answer_is_printed_before_what_is_done_beside_it_ends() {
    for at_terminal in [false, true] {
        let gate = Gate::default();
        let held = gate.clone();
        let world = World::with().config("internal", json!({"suggest": true})).script(move |seen: &Seen| {
            if is_guess(seen) {
                held.pass();
            }
            guesser(seen)
        });
        let run = if at_terminal { world.command(&["run", "go"]).at_terminal().running } else { world.start(&["run", "go"]) };
        assert!(run.wait_for_out("all done\n", LONG), "the answer is there");
        soon("somebody guesses", || (asked(&world) == 1).then_some(()));
        assert!(run.wait_for_err("posse's own work beside it", LONG), "{}", run.err_so_far());
        gate.open();
        let done = run.wait(LONG).expect_code(0);
        assert_eq!(done.out, "all done\n", "once");
        assert_eq!(done.err.contains("next: run the tests"), at_terminal, "{}", done.err);
    }
}

/// Ctrl-C, and not wanting to wait, end what is done beside an answer: it was given, and nothing comes back later.
#[test]
fn an_answer_does_not_wait_for_what_is_done_beside_it() {
    for flags in [&["run", "go"][..], &["run", "--wait-background", "none", "go"]] {
        let gate = Gate::default();
        let held = gate.clone();
        let world = World::with().config("internal", json!({"suggest": true})).script(move |seen: &Seen| {
            if is_guess(seen) {
                held.pass();
            }
            guesser(seen)
        });
        let run = world.start(flags);
        if flags.len() == 2 {
            assert!(world.model.wait_for_requests(2));
            run.interrupt();
        }
        let done = run.wait(Duration::from_secs(20));
        assert_eq!((done.code, done.out.as_str()), (Some(0), "all done\n"), "{done:?}");
        assert!(!done.err.contains("not waiting for"), "{}", done.err);
        gate.open();
        let guesses = asked(&world);
        let id = world.posse(&["sessions", "list", "--format", "json"]).expect_code(0).json()[0]["session"].as_str().unwrap().to_owned();
        world.posse(&["sessions", "resume", &id]).expect_code(0);
        assert_eq!(asked(&world), guesses, "what was ended does not come back");
        let nodes = world.posse(&["sessions", "tree", &id, "--format", "json"]).expect_code(0).json();
        assert!(nodes.as_array().unwrap().iter().all(|node| node["status"] != "running"), "{nodes}");
    }
}

/// kill -9 while somebody guesses, notes or drafts: the answer is there, and whoever goes on finishes it once.
#[test]
fn a_kill_in_the_middle_of_work_beside_the_answer_is_survived() {
    let settings = [("suggest", "suggestion"), ("speculate", "speculation"), ("memory", "memory"), ("consolidate", "consolidation")];
    for (setting, agent) in settings {
        let gate = Gate::default();
        let held = gate.clone();
        let long = "I like it blue. ".repeat(200);
        let mut plan = World::with().config("internal", json!({setting: true}));
        for number in 0..5 {
            plan = plan.file(&format!("{NOTES}/note-{number}.md"), "something");
        }
        let world = plan.script(move |seen: &Seen| {
            let is_it = match setting {
                "suggest" => is_guess(seen),
                "memory" => takes_notes(seen),
                "consolidate" => orders_notes(seen),
                _ => last_said(seen) == "run the tests",
            };
            if is_it {
                held.pass();
            }
            guesser(seen)
        });
        let run = world.start(&["run", &long]);
        assert!(world.model.wait_for_requests(if setting == "speculate" { 3 } else { 2 }), "{setting}");
        run.kill();
        assert_eq!(run.wait(LONG).signal, Some(9));
        gate.open();
        let id = world.posse(&["sessions", "list", "--format", "json"]).expect_code(0).json()[0]["session"].as_str().unwrap().to_owned();
        let shown = world.posse(&["sessions", "resume", &id, "--format", "json"]).expect_code(0).json();
        assert_eq!(shown["result"], "all done", "{setting}");
        let ran: Vec<_> = internal(&shown).into_iter().filter(|(name, _)| name == agent).collect();
        assert_eq!(ran, [(agent.to_owned(), "completed".to_owned())], "{setting}: {shown}");
        world.run(&["-s", &id, "and on"]).expect_code(0);
    }
}

const NOTES: &str = ".posse/agent-memory-local/main.notes";

/// CC-212: what is worth it is noted, in one folder and nowhere else, and shown to later sessions.
#[test]
fn cc_212_what_is_worth_knowing_is_noted_and_shown_to_later_sessions() {
    let script = |seen: &Seen| {
        let Some(directive) = seen.user_texts().into_iter().find(|text| text.contains("Worth noting")) else {
            return match seen.results().len() {
                found if found < 3 && prompt_is(seen, "build it") => Answer::call("bash", json!({"command": format!("echo {found}")})),
                _ => Answer::text("all done"),
            };
        };
        let folder = directive.split("The notes are in ").nth(1).unwrap().split(", and nothing").next().unwrap();
        // Three results of the conversation, and then its own.
        match seen.results().len() {
            3 => Answer::call("write", json!({"filePath": format!("{folder}/MEMORY.md"), "content": "- tests: cargo test (wrote-it)"}))
                .and_call("write", json!({"filePath": format!("{folder}/../../../stolen.md"), "content": "stolen"}))
                .and_call("bash", json!({"command": "echo stolen > stolen.txt"}))
                .and_call("read", json!({"filePath": format!("{folder}/../../../secret.md")})),
            _ => Answer::text("Noted how tests are run."),
        }
    };
    let world = World::with().config("internal", json!({"memory": true})).file("secret.md", "the secret of the project").script(script);
    let shown = world.run(&["--ask", "edit", "--format", "json", "build it"]).expect_code(0).json();
    assert_eq!(internal(&shown), [("memory".to_owned(), "completed".to_owned())], "{shown}");
    assert_eq!(shown["result"], "all done");
    assert_eq!(world.read(&format!("{NOTES}/MEMORY.md")), "- tests: cargo test (wrote-it)", "though the session itself would have to ask");
    assert!(!world.project.join("stolen.md").exists() && !world.project.join("stolen.txt").exists());
    let notes = world.model.requests().into_iter().rfind(|seen| takes_notes(seen)).unwrap();
    assert!(!notes.json.to_string().contains("the secret of the project"), "nothing else is read");
    assert_eq!(notes.last_results().len(), 4, "{:#?}", notes.last_results());
    assert!(notes.last_results()[1..].iter().all(|result| result.contains("notes are taken in one folder")), "{:#?}", notes.last_results());
    assert!(
        !world.model.requests().iter().any(|seen| !takes_notes(seen) && seen.system.contains("wrote-it")),
        "this session keeps its head"
    );
    world.run(&["hello"]).expect_code(0);
    let later = world.model.requests().into_iter().rfind(|seen| prompt_is(seen, "hello")).unwrap();
    assert!(later.system.contains("# Notes from earlier sessions") && later.system.contains("cargo test"), "{}", later.system);
    // Where nothing can be written nobody is paid for trying.
    let shown = world.run(&["--deny", "edit", "--format", "json", "build it"]).expect_code(0).json();
    assert_eq!((shown["result"].as_str(), internal(&shown)), (Some("all done"), Vec::new()));
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(world.posse_home.join("posse.json")).unwrap()).unwrap();
    config["internal"] = json!({"memory": false});
    world.configure(&config);
    world.run(&["hello"]).expect_code(0);
    assert!(!world.model.last().system.contains("Notes from earlier sessions"), "off is off");
}

fn prompt_is(seen: &Seen, words: &str) -> bool {
    seen.user_texts().first().is_some_and(|text| *text == words)
}

/// CC-216: when there are many new notes they are put in order, once, and the conversation hears nothing of it.
#[test]
fn cc_216_notes_are_put_in_order_when_it_is_time() {
    let mut plan = World::with().config("internal", json!({"consolidate": true}));
    for number in 0..5 {
        plan = plan.file(&format!("{NOTES}/note-{number}.md"), "something");
    }
    let world = plan.script(|seen: &Seen| match seen.results().len() {
        0 if orders_notes(seen) => Answer::call("glob", json!({"pattern": "*.md"})),
        _ if orders_notes(seen) => Answer::text("In order now."),
        _ => Answer::text("all done"),
    });
    let shown = world.run(&["--format", "json", "go"]).expect_code(0).json();
    assert_eq!(
        (shown["result"].as_str(), internal(&shown)),
        (Some("all done"), vec![("consolidation".to_owned(), "completed".to_owned())])
    );
    let found = world.model.last().last_results().join("\n");
    assert!((0..5).all(|number| found.contains(&format!("note-{number}.md"))), "its folder is the notes: {found}");
    assert_eq!(asked(&world), 2);
    world.run(&["go"]).expect_code(0);
    assert_eq!(asked(&world), 2, "they are in order");
}

/// CC-216: whoever had begun to put the notes in order is killed: the next session does it, and the first one does not do it again.
#[test]
fn cc_216_notes_that_a_killed_process_was_putting_in_order_are_free_again() {
    let mut plan = World::with().config("internal", json!({"consolidate": true}));
    for number in 0..5 {
        plan = plan.file(&format!("{NOTES}/note-{number}.md"), "something");
    }
    let gate = Gate::default();
    let held = gate.clone();
    let world = plan.script(move |seen: &Seen| match orders_notes(seen) {
        true => {
            held.pass();
            Answer::text("In order now.")
        }
        false => Answer::text("all done"),
    });
    let first = world.start(&["run", "go"]);
    soon("it puts them in order", || (asked(&world) == 1).then_some(()));
    let other = world.run(&["--format", "json", "meanwhile"]).expect_code(0).json();
    assert_eq!(internal(&other), [], "the first one lives");
    first.kill();
    assert_eq!(first.wait(LONG).signal, Some(9));
    gate.open();
    let listed = world.posse(&["sessions", "list", "--format", "json"]).expect_code(0).json();
    let killed =
        listed.as_array().unwrap().iter().find(|session| session["title"] == "go").unwrap()["session"].as_str().unwrap().to_owned();
    let next = world.run(&["--format", "json", "next"]).expect_code(0).json();
    assert_eq!(internal(&next), [("consolidation".to_owned(), "completed".to_owned())], "its claim died with it");
    let shown = world.run(&["-s", &killed, "--format", "json", "and on"]).expect_code(0).json();
    assert_eq!(internal(&shown), [("consolidation".to_owned(), "stopped".to_owned())], "{shown}");
}

/// CC-215: people see what a task in the background is doing, in every list; the model that started it does not.
#[test]
fn cc_215_lists_say_what_a_task_in_the_background_is_doing() {
    let gate = Gate::default();
    let held = gate.clone();
    let world = World::with().config("internal", json!({"summaries": "1s"})).script(move |seen: &Seen| match seen.steps() {
        _ if is_doing(seen) => Answer::text("Reading the retry rules."),
        0 if prompt_is(seen, "go") => Answer::calls([launch("look around", "look", json!({"name": "scout"}))]),
        1 if prompt_is(seen, "go") => Answer::text("started"),
        _ if prompt_is(seen, "go") => Answer::text("all done"),
        0 => Answer::call("bash", json!({"command": "sleep 2"})),
        _ => {
            held.pass();
            Answer::text("found it")
        }
    });
    let run = world.start(&["run", "--format", "stream-json", "go"]);
    let listed = soon("a word on what it does", || {
        let listed = world.posse(&["tasks"]).out;
        listed.contains("now: Reading the retry rules").then_some(listed)
    });
    assert!(listed.contains("scout"), "{listed}");
    let tree = world.posse(&["sessions", "tree"]).expect_code(0).out;
    assert!(tree.contains("now: Reading the retry rules"), "{tree}");
    assert!(run.wait_for_out("\"summary\":\"Reading the retry rules\"", LONG), "{}", run.out_so_far());
    gate.open();
    let done = run.wait(LONG).expect_code(0);
    let progress = done.lines().into_iter().find(|line| line["type"] == "task_progress" && line.get("summary").is_some()).unwrap();
    assert_eq!(progress["summary"], "Reading the retry rules");
    assert!(!world.posse(&["sessions", "tree"]).expect_code(0).out.contains("now: "), "it does nothing any more");
    let talk = world.model.requests().into_iter().filter(|seen| !is_doing(seen));
    assert!(!talk.into_iter().any(|seen| seen.json.to_string().contains("Reading the retry rules")), "no model hears of it");
}

/// CC-215: kill -9 while somebody says what a task is doing: the task goes on, and nobody waits for the words.
#[test]
fn a_kill_while_it_is_said_what_a_task_is_doing_is_survived() {
    let (gate, words) = (Gate::default(), Gate::default());
    let (held, held_words) = (gate.clone(), words.clone());
    let world = World::with().config("internal", json!({"summaries": "1s"})).script(move |seen: &Seen| match seen.steps() {
        _ if is_doing(seen) => {
            held_words.pass();
            Answer::text("Reading the retry rules.")
        }
        0 if prompt_is(seen, "go") => Answer::calls([launch("look around", "look", json!({"name": "scout"}))]),
        1 if prompt_is(seen, "go") => Answer::text("started"),
        _ if prompt_is(seen, "go") => Answer::text("all done"),
        0 => Answer::call("bash", json!({"command": "sleep 2"})),
        _ => {
            held.pass();
            Answer::text("found it")
        }
    });
    let run = world.start(&["run", "go"]);
    soon("somebody says what it does", || (0 < asked(&world)).then_some(()));
    run.kill();
    assert_eq!(run.wait(LONG).signal, Some(9));
    gate.open();
    let id = world.posse(&["sessions", "list", "--format", "json"]).expect_code(0).json()[0]["session"].as_str().unwrap().to_owned();
    // The words stay out; the task does not wait for them.
    let shown = world.posse(&["sessions", "resume", &id, "--format", "json"]).expect_code(0).json();
    assert_eq!(shown["result"], "all done");
    assert!(internal(&shown).iter().all(|(_, status)| status == "stopped"), "{shown}");
    words.open();
}

/// CC-005, CC-217: what a model forks, what a user's command starts and what posse does itself are told apart wherever they are shown.
#[test]
fn cc_005_the_kinds_of_forks_are_told_apart() {
    let world = World::with()
        .config("internal", json!({"suggest": true}))
        .config("fork", json!("explicit"))
        .file(".posse/commands/look.md", "---\nagent: explore\nsubtask: true\ndescription: looks\n---\nlook around")
        .script(|seen: &Seen| match seen.steps() {
            _ if is_guess(seen) => Answer::text("run the tests"),
            _ if seen.user_texts().iter().any(|text| text.contains("<fork-boilerplate>")) => Answer::text("forked"),
            0 if prompt_is(seen, "go") => {
                Answer::call("agent", json!({"description": "a fork", "prompt": "left", "subagent_type": "fork"}))
            }
            _ => Answer::text("all done"),
        });
    let id = session_of(&world.run(&["--format", "json", "go"]).expect_code(0));
    let lines = world.run(&["-s", &id, "--format", "stream-json", "/look"]).expect_code(0).lines();
    let nodes = world.posse(&["sessions", "tree", &id, "--format", "json"]).expect_code(0).json();
    let kinds: Vec<(&str, &str)> =
        nodes.as_array().unwrap().iter().map(|node| (node["kind"].as_str().unwrap(), node["agent"].as_str().unwrap())).collect();
    let count = |kind: &str| kinds.iter().filter(|(known, _)| *known == kind).count();
    assert_eq!((count("root"), count("fork"), count("task"), count("internal")), (1, 1, 1, 2), "{kinds:?}");
    // Internal work is no task of anybody: no call started it, and no notice tells of its end.
    let started: Vec<&Value> = lines.iter().filter(|line| line["type"] == "task_started" && line["spawn"]["internal"] == true).collect();
    assert!(started.iter().all(|line| line["call"] == "" && line["spawn"]["purpose"]["purpose"] == "suggest"), "{started:?}");
    assert_eq!(started.len(), 1);
    let listed = world.posse(&["tasks", "--format", "json"]).expect_code(0).json();
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
}

/// What costs money is the user's to switch on, and a slip is named.
#[test]
fn internal_work_is_switched_on_by_the_user_alone() {
    let world = World::with().file("posse.json", &json!({"internal": {"suggest": true}}).to_string()).script(guesser);
    world.run(&["go"]).expect_code(0);
    assert_eq!(world.model.requests().len(), 1, "a folder does not spend the user's money");
    for (wrong, named) in
        [(json!({"sugest": true}), "sugest"), (json!({"suggest": "yes"}), "suggest"), (json!({"summaries": "soon"}), "summaries")]
    {
        let world = World::with().config("internal", wrong).script(guesser);
        let done = world.run(&["go"]);
        assert!(done.err.contains(named), "{done:?}");
    }
    let world = World::with().config("internal", json!({"suggest": true, "model": "mock/m2"})).script(guesser);
    world.run(&["go"]).expect_code(0);
    assert_eq!(world.model.last().json["model"], "m2", "somebody cheaper can do it");
}
