//! Sessions: going on with them, finding them, looking at them, and two terminals on one.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Answer, Block, Seen, World};

fn counting() -> World {
    World::new(|seen: &Seen| format!("answer {} to {}", seen.steps() + 1, seen.user_texts().last().unwrap()))
}

fn id_of(world: &World, prompt: &str) -> String {
    world.run(&["--format", "json", prompt]).expect_code(0).json()["session"].as_str().unwrap().to_owned()
}

#[test]
fn the_latest_session_of_this_folder_goes_on_with_c() {
    let world = World::with().file("sub/x", "").script(|seen: &Seen| format!("heard {}", seen.user_texts().join(", ")));
    world.run(&["first"]).expect_code(0);
    world.run(&["-C", "sub", "elsewhere"]).expect_code(0);
    assert_eq!(world.run(&["-c", "second"]).expect_code(0).out, "heard first, second\n");
    assert_eq!(world.run(&["--continue", "third"]).expect_code(0).out, "heard first, second, third\n");

    let new = World::new(|_: &Seen| "never");
    let done = new.run(&["-c", "hi"]).expect_code(2);
    assert!(done.err.contains("no session"), "{}", done.err);
}

#[test]
fn a_session_is_found_by_its_id_or_the_start_of_it() {
    let world = counting();
    let id = id_of(&world, "one");
    assert_eq!(world.run(&["-s", &id, "two"]).expect_code(0).out, "answer 2 to two\n");
    assert_eq!(world.run(&["-s", &id[..20], "three"]).expect_code(0).out, "answer 3 to three\n");

    let other = id_of(&world, "another");
    let done = world.run(&["-s", "ses_0", "which?"]).expect_code(2);
    assert!(done.err.contains(&id) && done.err.contains(&other), "both matches are named: {}", done.err);
    let done = world.run(&["-s", "ses_ZZZ", "which?"]).expect_code(2);
    assert!(done.err.contains("ses_ZZZ") && done.err.contains("sessions list"), "{}", done.err);
    assert_eq!(world.run(&["-s", &id, "-c", "both"]).expect_code(2).out, "");
    for command in ["show", "resume", "stop", "rm"] {
        let done = world.posse(&["sessions", command, "ses_0"]).expect_code(2);
        assert!(done.err.contains(&id) && done.err.contains(&other), "{command}: {}", done.err);
        world.posse(&["sessions", command, "ses_ZZZ"]).expect_code(2);
    }
}

#[test]
fn the_list_has_the_roots_of_this_folder_newest_first() {
    let world = counting();
    let empty = world.posse(&["sessions", "list"]).expect_code(0);
    assert_eq!(empty.out, "");
    assert_eq!(world.posse(&["sessions", "list", "--format", "json"]).expect_code(0).json(), json!([]));
    let (first, second) = (id_of(&world, "the first task\nwith details"), id_of(&world, "the second task"));
    let list = world.posse(&["sessions", "list"]).expect_code(0).out;
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines.len(), 2, "{list}");
    assert!(lines[0].starts_with(&second) && lines[0].contains("the second task"), "{list}");
    assert!(lines[1].starts_with(&first) && lines[1].contains("the first task") && !lines[1].contains("details"), "{list}");
    let json = world.posse(&["sessions", "list", "--format", "json"]).expect_code(0).json();
    assert_eq!((&json[0]["session"], &json[1]["session"]), (&json!(second), &json!(first)));
}

#[test]
fn a_session_can_be_shown() {
    let world = World::new(|seen: &Seen| match seen.steps() {
        0 => Answer::call("bash", json!({"command": "echo seen in the shell"})),
        _ => Answer::text("all told"),
    });
    let id = id_of(&world, "tell me");
    let text = world.posse(&["sessions", "show", &id]).expect_code(0).out;
    for part in ["tell me", "bash", "seen in the shell", "all told", "completed"] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let json = world.posse(&["sessions", "show", &id, "--format", "json"]).expect_code(0).json();
    let seqs: Vec<u64> = json["events"].as_array().unwrap().iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
}

#[test]
fn a_settled_session_is_resumed_without_a_model_call_and_says_its_last_answer() {
    let world = counting();
    let id = id_of(&world, "one");
    let done = world.posse(&["sessions", "resume", &id]).expect_code(0);
    assert_eq!(done.out, "answer 1 to one\n");
    let json = world.posse(&["sessions", "resume", &id, "--format", "json"]).expect_code(0).json();
    assert_eq!((&json["result"], &json["status"]), (&json!("answer 1 to one"), &json!("done")));
    assert_eq!(world.model.requests().len(), 1);
}

#[test]
fn a_removed_session_is_gone_with_all_it_had() {
    let world = World::new(|seen: &Seen| match seen.steps() {
        0 => Answer::call("bash", json!({"command": "seq 100000 | sed s/^/remember-me-/"})),
        _ => Answer::text("done"),
    });
    let id = id_of(&world, "a secret plan");
    assert_ne!(files_with(&world, b"remember-me-"), 0);
    world.posse(&["sessions", "rm", &id]).expect_code(0);
    assert_eq!(world.posse(&["sessions", "list"]).expect_code(0).out, "");
    world.posse(&["sessions", "show", &id]).expect_code(2);
    let spools = std::process::Command::new("find").arg(&world.posse_home).args(["-path", &format!("*{id}*")]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&spools.stdout), "");
}

fn files_with(world: &World, what: &[u8]) -> usize {
    super::commands::files_below(&world.posse_home)
        .iter()
        .filter(|path| std::fs::read(path).unwrap().windows(what.len()).any(|window| window == what))
        .count()
}

#[test]
fn a_second_terminal_speaks_to_a_running_session_by_letter_and_both_finish() {
    let world = World::new(|seen: &Seen| match seen.user_texts().contains(&"second") {
        false => Answer::text("only the first").after(Duration::from_millis(1500)),
        true => Answer::text("both heard"),
    });
    let first = world.start(&["run", "--format", "stream-json", "first"]);
    assert!(world.model.wait_for_requests(1));
    let list = world.posse(&["sessions", "list"]).expect_code(0).out;
    let id = list.split_whitespace().next().unwrap();
    let second = world.run(&["-s", id, "second"]).expect_code(0);
    let first = first.wait(Duration::from_secs(20)).expect_code(0);
    assert_eq!(second.out, "both heard\n");
    assert!(second.err.contains("posting"), "{}", second.err);
    let seqs: Vec<u64> = first.lines().iter().filter_map(|line| line["seq"].as_u64()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    let requests = world.model.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[1].user_texts(), ["first", "second"]);
}

#[test]
fn words_to_a_process_that_is_just_ending_are_answered_once() {
    let world = World::new(|seen: &Seen| format!("heard {}", seen.user_texts().join(" ")));
    let id = id_of(&world, "start");
    for round in 0..12 {
        let (mine, yours) = (format!("mine-{round}"), format!("yours-{round}"));
        let first = world.start(&["run", "-s", &id, &mine]);
        // Somewhere between its start and its end.
        std::thread::sleep(Duration::from_millis(5 * round));
        let second = world.command(&["run", "-s", &id, &yours]).within(Duration::from_secs(20)).run().expect_code(0);
        assert!(second.out.contains(&yours), "round {round}: {second:#?}");
        let first = first.wait(Duration::from_secs(20)).expect_code(0);
        assert!(first.out.contains(&mine), "round {round}: {first:#?}");
    }
    world.run(&["-s", &id, "end"]).expect_code(0);
    let seen = world.model.last();
    let mut texts = seen.user_texts();
    assert_eq!(texts.len(), 26);
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), 26, "nothing is said twice");
}

#[test]
fn words_to_a_process_that_dies_are_taken_up_by_their_sender() {
    let world = World::new(|seen: &Seen| match seen.user_texts().contains(&"second") {
        false => Answer::text("never").after(Duration::from_secs(30)),
        true => Answer::text("both heard"),
    });
    let first = world.start(&["run", "first"]);
    assert!(world.model.wait_for_requests(1));
    first.signal(rustix::process::Signal::STOP);
    let list = world.posse(&["sessions", "list"]).expect_code(0).out;
    let id = list.split_whitespace().next().unwrap();
    let second = world.start(&["run", "-s", id, "second"]);
    assert!(second.wait_for_err("posting", Duration::from_secs(10)), "{}", second.err_so_far());
    std::thread::sleep(Duration::from_millis(100));
    first.kill();
    assert_eq!(second.wait(Duration::from_secs(15)).expect_code(0).out, "both heard\n");
    assert_eq!(world.model.last().user_texts(), ["first", "second"]);
}

#[test]
fn stop_ends_a_running_turn_in_another_process() {
    let world = World::new(|seen: &Seen| match seen.steps() {
        0 => Answer::call("bash", json!({"command": "echo begun; exec sleep 60"})),
        _ => Answer::text("on we go"),
    });
    let running = world.start(&["run", "--format", "stream-json", "take long"]);
    assert!(running.wait_for_out("\"call_started\"", Duration::from_secs(10)), "{}", running.out_so_far());
    let list = world.posse(&["sessions", "list"]).expect_code(0).out;
    let id = list.split_whitespace().next().unwrap().to_owned();
    let begun = Instant::now();
    let stop = world.posse(&["sessions", "stop", &id]).expect_code(0);
    assert!(stop.out.contains(&id), "{}", stop.out);
    let done = running.wait(Duration::from_secs(10));
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    assert_eq!(done.code, Some(130), "{done:#?}");
    assert_eq!(done.lines().last().unwrap()["status"], "interrupted");
    assert!(world.processes_left_after(Duration::from_secs(3)).is_empty());

    // Only the user wakes it, and then it goes on with what is known of the call.
    assert_eq!(world.run(&["-s", &id, "go on"]).expect_code(0).out, "on we go\n");
    let seen = world.model.last();
    assert!(matches!(seen.results()[..], [Block::Result { error: true, text, .. }] if text.contains("begun")), "{:#?}", seen.messages);
    let again = world.posse(&["sessions", "stop", &id]).expect_code(0);
    assert!(again.out.contains("was not running"), "{}", again.out);
}

#[test]
fn stop_of_a_session_whose_process_died_keeps_it_from_going_on() {
    let world = World::new(|seen: &Seen| match seen.user_texts().contains(&"again") {
        false => Answer::call("bash", json!({"command": "sleep 60"})),
        true => Answer::text("awake"),
    });
    let running = world.start(&["run", "--format", "stream-json", "go"]);
    assert!(running.wait_for_out("\"call_started\"", Duration::from_secs(10)), "{}", running.out_so_far());
    running.kill();
    let id = running.wait(Duration::from_secs(5)).lines()[0]["session"].as_str().unwrap().to_owned();
    world.posse(&["sessions", "stop", &id]).expect_code(0);
    assert!(world.posse(&["sessions", "list"]).expect_code(0).out.contains("stopped"));
    assert_eq!(world.model.requests().len(), 1, "nothing went on by itself");
    assert_eq!(world.run(&["-s", &id, "again"]).expect_code(0).out, "awake\n");
    let seen = world.model.last();
    assert!(matches!(seen.results()[..], [Block::Result { error: true, text, .. }] if text.contains("died")), "{:#?}", seen.messages);
}

#[test]
fn many_processes_share_one_project() {
    let world = World::new(|seen: &Seen| match seen.steps() {
        0 => Answer::call("bash", json!({"command": "echo x"})),
        _ => Answer::text("ok"),
    });
    let all: Vec<_> = (0..8).map(|number| world.start(&["run", &format!("prompt {number}")])).collect();
    for running in all {
        assert_eq!(running.wait(Duration::from_secs(60)).expect_code(0).out, "ok\n");
    }
    assert_eq!(world.posse(&["sessions", "list"]).expect_code(0).out.lines().count(), 8);
}

#[test]
fn a_running_session_cannot_be_removed() {
    let world = World::new(|_: &Seen| Answer::text("slow").after(Duration::from_millis(1500)));
    let running = world.start(&["run", "hi"]);
    assert!(world.model.wait_for_requests(1));
    let list = world.posse(&["sessions", "list"]).expect_code(0).out;
    let id = list.split_whitespace().next().unwrap();
    let done = world.posse(&["sessions", "rm", id]).expect_code(1);
    assert!(done.err.contains("runs this session") && done.err.contains("sessions stop"), "{}", done.err);
    assert_eq!(running.wait(Duration::from_secs(20)).expect_code(0).out, "slow\n");
}

#[test]
fn what_is_sent_again_is_what_was_sent_before() {
    let world = counting();
    let id = id_of(&world, "one");
    world.run(&["-s", &id, "two"]).expect_code(0);
    let requests = world.model.requests();
    let (first, second) = (&requests[0], &requests[1]);
    assert_eq!((&first.system, &first.tools), (&second.system, &second.tools));
    let head = first.body.windows(10).position(|window| window == b"\"messages\"").unwrap();
    assert_eq!(first.body[..head], second.body[..head], "the start of a body is the same bytes");
}
