//! Recording a run and playing it back: elsewhere, without a network, and the same every time.

use std::{
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    background::{Gate, LONG, all_texts, launch, prompt},
    support::{Answer, Done, Seen, World, call},
};

/// How often a replay is tried: an order that holds by luck does not hold so often.
const ROUNDS: usize = 20;

fn tape(world: &World) -> PathBuf {
    world.folder().join("run.jsonl")
}

fn cwd(seen: &Seen) -> &str {
    seen.system.lines().find_map(|line| line.strip_prefix("Working directory: ")).unwrap()
}

/// A root reads a file and starts two tasks; each reads too, by an absolute path. The first task's answer is cut once. The
/// root hears of the first before the second has ended.
fn team() -> World {
    let cuts = AtomicUsize::new(0);
    let heard = Gate::default();
    World::with().file("notes.txt", "seven\n").script(move |seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([
            call("read", json!({"filePath": "notes.txt"})),
            launch("left", "dig left", json!({})),
            launch("right", "dig right", json!({})),
        ]),
        ("go", 1) => Answer::text("both dig"),
        ("go", _) => {
            let texts = all_texts(seen);
            if texts.contains("left found") && texts.contains("right found") {
                return Answer::text("both are done");
            }
            heard.open();
            Answer::text("one is done")
        }
        ("dig left", 0) if cuts.fetch_add(1, Ordering::SeqCst) == 0 => Answer::text("I will look").cut_after(300),
        (_, 0) => Answer::call("read", json!({"filePath": format!("{}/notes.txt", cwd(seen))})),
        ("dig left", _) => Answer::text("left found seven"),
        (_, _) => {
            heard.pass();
            Answer::text("right found seven")
        }
    })
}

/// Another user without models or keys, whose server would tell.
fn elsewhere(notes: &str) -> World {
    let world = World::with().file("notes.txt", notes).script(|_: &Seen| -> Answer { panic!("nobody is asked in a replay") });
    world.configure(&json!({}));
    world
}

/// What a run came to, without what differs between any two runs.
fn tree(world: &World) -> Vec<Value> {
    let nodes = world.posse(&["sessions", "tree", "--format", "json"]).expect_code(0).json();
    let fields = ["agent", "description", "model", "status", "steps", "calls", "usage", "subtree", "below", "depth"];
    let plain = |node: &Value| fields.iter().map(|field| (field.to_string(), node[*field].clone())).collect::<serde_json::Map<_, _>>();
    nodes.as_array().unwrap().iter().map(|node| Value::Object(plain(node))).collect()
}

fn replay(world: &World, tape: &std::path::Path, args: &[&str]) -> Done {
    let tape = tape.to_str().unwrap();
    world.posse(&[&["run", "--replay", tape], args].concat())
}

#[test]
fn a_recorded_team_is_played_back_elsewhere_and_comes_to_the_same_every_time() {
    let there = team();
    let file = tape(&there);
    let told = there.run(&["--record", file.to_str().unwrap(), "go"]).expect_code(0);
    assert_eq!(told.out, "both are done\n");
    let recorded = tree(&there);
    assert_eq!(recorded.len(), 3, "{recorded:#?}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("key-123"), "the provider's key");
    assert_eq!(text.matches("\"type\":\"exchange\"").count(), there.model.requests().len());
    for round in 0..ROUNDS {
        let here = elsewhere("seven\n");
        let done = replay(&here, &file, &["go"]).expect_code(0);
        assert_eq!(done.out, told.out, "round {round}: {}", done.err);
        assert_eq!(tree(&here), recorded, "round {round}: {}", done.err);
        assert!(!done.err.contains("recording"), "round {round}: {}", done.err);
        assert!(here.model.requests().is_empty());
    }
}

#[test]
fn a_run_that_goes_another_way_says_where_and_loosely_it_goes_on() {
    let there = World::with().file("notes.txt", "seven\n").script(|seen: &Seen| match seen.steps() {
        0 => Answer::call("read", json!({"filePath": "notes.txt"})),
        _ => Answer::text("it says seven"),
    });
    let file = tape(&there);
    there.run(&["--record", file.to_str().unwrap(), "what does it say?"]).expect_code(0);
    let here = elsewhere("eight\n");
    let done = replay(&here, &file, &["what does it say?"]).expect_code(2);
    for part in ["not the recorded one any more", "step 2", "what does it say?", "seven", "eight", "--loose"] {
        assert!(done.err.contains(part), "{part}: {}", done.err);
    }
    let done = replay(&here, &file, &["--loose", "what does it say?"]).expect_code(0);
    assert_eq!(done.out, "it says seven\n");
    assert!(done.err.contains("answered by its place") && done.err.contains("eight"), "{}", done.err);
    let done = replay(&here, &file, &["something else"]).expect_code(2);
    assert!(done.err.contains("what does it say?") && done.err.contains("something else"), "{}", done.err);
}

/// What is recorded is there after a kill, up to the last answer.
#[test]
fn a_killed_recording_plays_up_to_where_it_was_cut() {
    let gate = Gate::default();
    let held = gate.clone();
    let there = World::with().file("notes.txt", "seven\n").script(move |seen: &Seen| match seen.steps() {
        0 => Answer::call("read", json!({"filePath": "notes.txt"})),
        _ => {
            held.pass();
            Answer::text("it says seven")
        }
    });
    let file = tape(&there);
    let run = there.start(&["run", "--record", file.to_str().unwrap(), "go"]);
    assert!(there.model.wait_for_requests(2));
    run.kill();
    gate.open();
    run.wait(LONG);
    let whole = std::fs::read(&file).unwrap();
    for torn in [&b""[..], b"{\"type\":\"exchange\",\"numb"] {
        std::fs::write(&file, [&whole, torn].concat()).unwrap();
        let done = replay(&elsewhere("seven\n"), &file, &["go"]).expect_code(2);
        assert!(done.err.contains("ends before this, after 1 exchange"), "{}", done.err);
        assert_eq!(done.err.contains("cut off"), !torn.is_empty(), "{}", done.err);
    }
}

#[test]
fn agents_models_and_prices_are_those_of_the_recording() {
    let agents = "---\ndescription: d\nmode: subagent\nmodel: quick\n---\nDig.\n";
    let there =
        World::with().file(".posse/agents/digger.md", agents).config("models", json!({"quick": "mock/m2"})).script(|seen: &Seen| {
            match (prompt(seen), seen.steps()) {
                ("go", 0) => Answer::call("agent", json!({"description": "dig", "prompt": "dig", "subagent_type": "digger"})),
                ("go", _) => Answer::text("dug"),
                _ => Answer::text("found"),
            }
        });
    let file = tape(&there);
    there.run(&["--record", file.to_str().unwrap(), "go"]).expect_code(0);
    let recorded = tree(&there);
    assert!(0.0 < recorded[0]["usage"]["cost_usd"].as_f64().unwrap(), "{recorded:#?}");
    let here = elsewhere("");
    here.write(".posse/agents/digger.md", agents);
    let done = replay(&here, &file, &["go"]).expect_code(0);
    assert_eq!((done.out.as_str(), tree(&here)), ("dug\n", recorded), "{}", done.err);
    let done = replay(&here, &file, &["-m", "openai/gpt-5", "go"]).expect_code(2);
    assert!(done.err.contains("has no model `openai/gpt-5`; it has mock/m1"), "{}", done.err);
}

#[test]
fn one_file_holds_several_runs_of_a_session() {
    let there = World::new(|seen: &Seen| Answer::text(&format!("answer {}", seen.steps())));
    let file = tape(&there);
    let record = file.to_str().unwrap();
    there.run(&["--record", record, "one"]).expect_code(0);
    there.run(&["--record", record, "-c", "two"]).expect_code(0);
    let here = elsewhere("");
    assert_eq!(replay(&here, &file, &["one"]).expect_code(0).out, "answer 0\n");
    assert_eq!(replay(&here, &file, &["-c", "two"]).expect_code(0).out, "answer 1\n");
    let done = replay(&here, &file, &["-c", "three"]).expect_code(2);
    assert!(done.err.contains("recording"), "{}", done.err);
}

#[test]
fn a_server_that_asked_for_a_long_pause_is_not_waited_for_again() {
    let tries = AtomicUsize::new(0);
    let there = World::new(move |_: &Seen| match tries.fetch_add(1, Ordering::SeqCst) {
        0 => Answer::error(429, "slow down").header("retry-after", "4"),
        _ => Answer::text("at last"),
    });
    let file = tape(&there);
    there.run(&["--record", file.to_str().unwrap(), "go"]).expect_code(0);
    let here = elsewhere("");
    let began = Instant::now();
    let done =
        here.command(&["run", "--replay", file.to_str().unwrap(), "--format", "stream-json", "go"]).within(LONG).run().expect_code(0);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert!(done.out.contains("slow down") && done.out.contains("at last"), "{}", done.out);
}

#[test]
fn only_a_recording_is_recorded_into_and_played() {
    let there = World::new(|_: &Seen| Answer::text("done"));
    there.write("mine.txt", "my notes\n");
    let done = there.run(&["--record", "mine.txt", "go"]).expect_code(2);
    assert!(done.err.contains("is no recording"), "{}", done.err);
    assert_eq!(there.read("mine.txt"), "my notes\n");
    assert!(there.run(&["--replay", "mine.txt", "go"]).expect_code(2).err.contains("posse run --record FILE"));
    assert!(there.run(&["--replay", "missing", "go"]).expect_code(2).err.contains("missing"));
    assert!(there.model.requests().is_empty(), "nothing was asked");
    let session = there.run(&["--format", "json", "go"]).expect_code(0).json()["session"].as_str().unwrap().to_owned();
    there.write("session.jsonl", &there.posse(&["sessions", "export", &session, "--format", "jsonl"]).expect_code(0).out);
    let done = there.run(&["--replay", "session.jsonl", "go"]).expect_code(2);
    assert!(done.err.contains("exported session") && done.err.contains("posse sessions import"), "{}", done.err);
    there.run(&["--record", "a", "--replay", "b", "go"]).expect_code(2);
    there.run(&["--loose", "go"]).expect_code(2);
}

/// How the tasks of a crowd are heard of in the recording.
#[derive(Clone, Copy)]
enum Pace {
    /// Each in a step of its own: the next answers when the one before was heard of.
    OneByOne,
    /// As chance has it, while the root is idle.
    AtOnce,
    /// As chance has it, while the root's turn goes on.
    InsideTurn,
}

/// Tasks may start tasks.
fn may_delegate() -> Value {
    json!({"general": {"permission": {"task": "allow"}}})
}

/// A root with four tasks in the background, of which two have a task of their own.
fn crowd(pace: Pace) -> World {
    let heard = std::array::from_fn::<Gate, 5, _>(|_| Gate::default());
    World::with().config("agent", may_delegate()).file("notes.txt", "seven\n").script(move |seen: &Seen| {
        match (prompt(seen), seen.steps()) {
            ("go", 0) => Answer::calls((0..4).map(|task| launch(&format!("part {task}"), &format!("dig {task}"), json!({})))),
            // Never the same call twice: repeated calls are asked about.
            ("go", step @ 1..4) if matches!(pace, Pace::InsideTurn) => {
                Answer::call("read", json!({"filePath": "notes.txt", "limit": step}))
            }
            ("go", _) => {
                let found = (0..4).filter(|task| all_texts(seen).contains(&format!("found {task}"))).count();
                heard[found].open();
                Answer::text(&format!("heard of {found}"))
            }
            (help, _) if help.starts_with("help") => Answer::text("helped"),
            (dig, 0) if dig.ends_with(['1', '3']) => Answer::calls([launch("help", &format!("help to {dig}"), json!({}))]),
            (dig, _) => {
                let task: usize = dig.trim_start_matches("dig ").parse().unwrap();
                if matches!(pace, Pace::OneByOne) {
                    heard[task].pass();
                }
                Answer::text(&format!("found {task}"))
            }
        }
    })
}

/// CC-121: what each step of a caller hears of its tasks is as recorded, however they come here.
#[test]
fn tasks_in_the_background_are_heard_of_in_the_recorded_steps() {
    for (name, pace) in [("one by one", Pace::OneByOne), ("at once", Pace::AtOnce), ("inside a turn", Pace::InsideTurn)] {
        let there = crowd(pace);
        let file = tape(&there);
        let told = there.run(&["--record", file.to_str().unwrap(), "go"]).expect_code(0);
        assert!(told.out.ends_with("heard of 4\n"), "{name}: {}", told.out);
        let recorded = tree(&there);
        assert_eq!(recorded.len(), 7, "{name}: {recorded:#?}");
        if matches!(pace, Pace::OneByOne) {
            assert_eq!(recorded[0]["steps"], 6, "a step for each: {recorded:#?}");
        }
        for round in 0..ROUNDS / 2 {
            let here = elsewhere("seven\n");
            here.configure(&json!({"agent": may_delegate()}));
            let done = replay(&here, &file, &["go"]).expect_code(0);
            assert_eq!((&done.out, tree(&here)), (&told.out, recorded.clone()), "{name}, round {round}: {}", done.err);
            assert!(!done.err.contains("recording"), "{name}, round {round}: {}", done.err);
        }
    }
}

/// Three shells in the background, each ending after as many seconds as a file says.
fn shells(seconds: [&str; 3]) -> World {
    let shell = |number: usize| {
        let command = format!("sleep $(cat seconds-{number}); cat says-{number}");
        call("bash", json!({"command": command, "description": format!("shell {number}"), "run_in_background": true}))
    };
    let world = World::with().script(move |seen: &Seen| match seen.steps() {
        0 => Answer::calls((0..3).map(shell)),
        _ => Answer::text(&format!("heard of {}", (0..3).filter(|number| all_texts(seen).contains(&format!("word {number}"))).count())),
    });
    set_shells(&world, seconds);
    world
}

fn set_shells(world: &World, seconds: [&str; 3]) {
    for (number, seconds) in seconds.iter().enumerate() {
        world.write(&format!("seconds-{number}"), seconds);
        world.write(&format!("says-{number}"), &format!("word {number}\n"));
    }
}

/// A shell takes as long as it takes: what ends sooner than it did is heard later, what takes longer is waited for.
#[test]
fn shells_in_the_background_are_heard_of_in_the_recorded_steps() {
    let table =
        [(["0", "0.4", "0.8"], ["0.4", "0.2", "0"]), (["0", "0", "0"], ["0", "0.2", "0.4"]), (["0.2", "0.2", "0.2"], ["0", "0", "0"])];
    for (then, now) in table {
        let there = shells(then);
        let file = tape(&there);
        let told = there.run(&["--record", file.to_str().unwrap(), "go"]).expect_code(0);
        let recorded = tree(&there);
        for round in 0..3 {
            let here = elsewhere("");
            set_shells(&here, now);
            let done = replay(&here, &file, &["go"]).expect_code(0);
            assert_eq!((&done.out, tree(&here)), (&told.out, recorded.clone()), "{then:?} {now:?}, round {round}: {}", done.err);
            assert!(!done.err.contains("recording"), "{then:?} {now:?}, round {round}: {}", done.err);
        }
    }
}

/// A notice that reads otherwise is not waited for: the run has left the recording there, or goes on loosely.
#[test]
fn a_shell_that_says_something_else_is_a_difference_and_not_a_wait() {
    let there = shells(["0", "0.4", "0.8"]);
    let file = tape(&there);
    let told = there.run(&["--record", file.to_str().unwrap(), "go"]).expect_code(0);
    let here = elsewhere("");
    set_shells(&here, ["0.2", "0", "0.1"]);
    here.write("says-0", "another word\n");
    let done = replay(&here, &file, &["go"]).expect_code(2);
    for part in ["not the recorded one any more", "word 0", "another word"] {
        assert!(done.err.contains(part), "{part}: {}", done.err);
    }
    let done = replay(&here, &file, &["--loose", "go"]).expect_code(0);
    assert_eq!(done.out, told.out, "{}", done.err);
}

/// What was cut off cannot be waited for.
#[test]
fn a_cut_recording_with_tasks_in_the_background_ends_where_it_was_cut() {
    let there = crowd(Pace::AtOnce);
    let file = tape(&there);
    there.run(&["--record", file.to_str().unwrap(), "go"]).expect_code(0);
    let whole = std::fs::read_to_string(&file).unwrap();
    let ends: Vec<usize> = whole.match_indices("\"type\":\"exchange\"").map(|(at, _)| at + whole[at..].find('\n').unwrap() + 1).collect();
    for end in &ends[..ends.len() - 1] {
        std::fs::write(&file, &whole[..*end]).unwrap();
        let here = elsewhere("seven\n");
        here.configure(&json!({"agent": may_delegate()}));
        let done = here.command(&["run", "--replay", file.to_str().unwrap(), "go"]).within(LONG).run().expect_code(2);
        assert!(done.err.contains("recording"), "cut at {end}: {}", done.err);
    }
}

/// Answers wait for each other; a lane that lets in only one would let them wait for what cannot come.
#[test]
fn a_replay_is_not_held_up_by_the_limits_of_a_provider() {
    let both = std::array::from_fn::<Gate, 2, _>(|_| Gate::default());
    let there = World::new(move |seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([launch("left", "dig 0", json!({})), launch("right", "dig 1", json!({}))]),
        ("go", _) => Answer::text("done"),
        (dig, _) => {
            let own = usize::from(dig == "dig 1");
            both[own].open();
            both[1 - own].pass();
            Answer::text("found")
        }
    });
    let file = tape(&there);
    there.run(&["--record", file.to_str().unwrap(), "go"]).expect_code(0);
    // Held up it would take five seconds every time; a slow machine takes that long once in a while.
    let quick = |_| {
        let here = elsewhere("");
        here.configure(&json!({"concurrency": {"default": 1}}));
        let began = Instant::now();
        replay(&here, &file, &["go"]).expect_code(0);
        began.elapsed() < Duration::from_secs(5)
    };
    assert!((0..4).any(quick));
}

/// Several that were asked the same thing each give their own answer again, whichever of them is first here.
#[test]
fn tasks_with_the_same_prompt_answer_as_they_did() {
    let number = AtomicUsize::new(0);
    let there = World::new(move |seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls((0..4).map(|task| launch(&format!("voter {task}"), "vote", json!({})))),
        ("go", _) => Answer::text("counted"),
        _ => Answer::text(&format!("I say {}", number.fetch_add(1, Ordering::SeqCst))),
    });
    let file = tape(&there);
    there.run(&["--record", file.to_str().unwrap(), "go"]).expect_code(0);
    let recorded = tree(&there);
    for round in 0..ROUNDS / 2 {
        let here = elsewhere("");
        let done = replay(&here, &file, &["go"]).expect_code(0);
        assert_eq!(tree(&here), recorded, "round {round}: {}", done.err);
        assert!(!done.err.contains("recording"), "round {round}: {}", done.err);
    }
}
