//! Calls that models get wrong, and calls in great numbers.

use serde_json::json;

use crate::support::{Answer, Api, Block, Seen, World, answer::Piece, call, raw_call};

/// These calls in one reply; the results are then said, one per line.
fn calling(api: Api, pieces: Vec<Piece>) -> World {
    World::with().api(api).file("notes.txt", "some notes\n").script(move |seen: &Seen| match seen.steps() {
        0 => Answer::calls(pieces.clone()),
        _ => Answer::text(&seen.last_results().join("\n---\n")),
    })
}

#[test]
fn arguments_that_are_not_json_are_an_error_for_the_model_and_nothing_runs() {
    for api in [Api::Anthropic, Api::OpenAi] {
        for arguments in ["{\"command\": \"touch made\"", "touch made", "[1, 2]", "{\"command\": \"touch made\"}}", "null"] {
            let world = calling(api, vec![raw_call("bash", arguments)]);
            let done = world.run(&["go"]).expect_code(0);
            assert!(done.out.contains("not a JSON object"), "{api:?} {arguments}: {}", done.out);
            assert!(!world.project.join("made").exists());
        }
    }
}

#[test]
fn arguments_that_do_not_fit_name_the_parameter() {
    for (arguments, word) in
        [(json!({}), "command"), (json!({"command": 5}), "command"), (json!({"command": "true", "timeout": "soon"}), "timeout")]
    {
        let world = calling(Api::Anthropic, vec![call("bash", arguments.clone())]);
        let done = world.run(&["go"]).expect_code(0);
        assert!(done.out.contains(word), "{arguments}: {}", done.out);
        let seen = world.model.last();
        assert!(matches!(seen.results()[..], [Block::Result { error: true, .. }]), "{arguments}: {:?}", seen.results());
    }
}

#[test]
fn after_three_senseless_calls_the_model_is_told_to_stop() {
    let world = World::new(|seen: &Seen| match seen.steps() {
        step @ 0..3 => Answer::calls([raw_call("bash", &format!("{{broken {step}"))]),
        _ => Answer::text(seen.last_results()[0]),
    });
    let done = world.run(&["go"]).expect_code(0);
    assert!(done.out.contains("Several calls in a row"), "{}", done.out);
}

#[test]
fn an_unknown_tool_is_answered_with_a_near_name_and_the_list() {
    let world = calling(Api::Anthropic, vec![call("bash_command", json!({"command": "touch made"})), call("teleport", json!({}))]);
    let done = world.run(&["go"]).expect_code(0);
    let (near, far) = done.out.split_once("---").unwrap();
    assert!(near.contains("bash_command") && near.contains("Did you mean `bash`"), "{near}");
    assert!(far.contains("teleport") && far.contains("todowrite"), "{far}");
    assert!(!world.project.join("made").exists());
}

#[test]
fn the_case_of_a_name_does_not_matter_and_spellings_of_parameters_are_forgiven() {
    let pieces = vec![
        call("Bash", json!({"command": "echo from bash"})),
        call("READ", json!({"file_path": "notes.txt"})),
        call("Grep", json!({"pattern": "some n"})),
    ];
    for api in [Api::Anthropic, Api::OpenAi] {
        let done = calling(api, pieces.clone()).run(&["go"]).expect_code(0);
        let parts: Vec<&str> = done.out.split("---").collect();
        assert!(
            parts[0].contains("from bash") && parts[1].contains("some notes") && parts[2].contains("notes.txt"),
            "{api:?}: {}",
            done.out
        );
    }
}

#[test]
fn ids_that_a_provider_uses_twice_do_not_brick_the_session() {
    let same = |word: &str| Piece::Call {
        name: "bash".into(),
        arguments: json!({"command": format!("echo {word}")}).to_string(),
        id: Some("call_0".into()),
    };
    for api in [Api::Anthropic, Api::OpenAi] {
        let world = World::with().api(api).script(move |seen: &Seen| match seen.steps() {
            0 => Answer::calls([same("one"), same("two")]),
            1 => Answer::calls([same("three")]),
            _ => {
                let results: Vec<&str> =
                    seen.results().iter().map(|block| if let Block::Result { text, .. } = block { text.trim() } else { "" }).collect();
                Answer::text(&results.join(" "))
            }
        });
        assert_eq!(world.run(&["go"]).expect_code(0).out, "one two three\n", "{api:?}");
        world.run(&["-c", "and on"]).expect_code(0);
        assert!(world.model.take_errors().is_empty());
    }
}

#[test]
fn a_thousand_calls_in_one_reply_are_all_answered_in_order() {
    let lines: String = (1..=1000).map(|number| format!("line number {number}\n")).collect();
    let world = World::with().file("lines.txt", &lines).script(|seen: &Seen| match seen.steps() {
        0 => Answer::calls((1..=1000).map(|at| call("read", json!({"filePath": "lines.txt", "offset": at, "limit": 1})))),
        _ => {
            let results = seen.last_results();
            let wrong = results
                .iter()
                .enumerate()
                .filter(|(at, text)| {
                    !text.contains(&format!("line number {}\n", at + 1)) && !text.contains(&format!("line number {}<", at + 1))
                })
                .count();
            Answer::text(&format!("{} results, {wrong} out of place: {:?}", results.len(), results[0]))
        }
    });
    let done = world.run(&["go"]).expect_code(0);
    assert!(done.out.starts_with("1000 results, 0 out of place"), "{}", done.out);
}

#[test]
fn only_so_many_calls_of_one_reply_run_at_once() {
    let world = World::new(|seen: &Seen| match seen.steps() {
        0 => Answer::calls(
            (0..40)
                .map(|at| call("bash", json!({"command": format!("echo + >> witness.txt; sleep 0.2; echo - >> witness.txt; echo {at}")}))),
        ),
        _ => Answer::text(&seen.last_results().iter().map(|text| text.trim()).collect::<Vec<_>>().join(" ")),
    });
    let done = world.run(&["go"]).expect_code(0);
    assert_eq!(done.out.trim(), (0..40).map(|at| at.to_string()).collect::<Vec<_>>().join(" "), "results are in the order of the calls");
    let (mut now, mut most) = (0, 0);
    for mark in world.read("witness.txt").lines() {
        now += if mark == "+" { 1 } else { -1 };
        most = most.max(now);
    }
    assert!(1 < most && most <= 10, "{most} at once");
}

#[test]
fn files_that_are_no_texts_are_said_to_be_so_at_once() {
    let world = World::with().file("notes.txt", "needle here\n").script(|seen: &Seen| match seen.steps() {
        0 => Answer::calls([
            call("read", json!({"filePath": "pipe"})),
            call("read", json!({"filePath": "binary.bin"})),
            call("read", json!({"filePath": "one-line.txt"})),
            call("read", json!({"filePath": "."})),
            call("read", json!({"filePath": "missing.txt"})),
            call("grep", json!({"pattern": "needle"})),
        ]),
        _ => Answer::text(&seen.last_results().join("\n---\n")),
    });
    let make = |command: &str| {
        assert!(std::process::Command::new("sh").args(["-c", command]).current_dir(&world.project).status().unwrap().success())
    };
    make("mkfifo pipe; head -c 3000 /dev/urandom > binary.bin; head -c 52428800 /dev/zero | tr '\\0' x > one-line.txt; ln -s . loop");
    let begun = std::time::Instant::now();
    let done = world.run(&["go"]).expect_code(0);
    assert!(begun.elapsed() < std::time::Duration::from_secs(15), "{:?}", begun.elapsed());
    let parts: Vec<&str> = done.out.split("\n---\n").collect();
    assert_eq!(parts.len(), 6, "{}", done.out.len());
    assert!(parts[0].contains("pipe") && parts[1].contains("binary"), "{} {}", parts[0], parts[1]);
    assert!(parts[2].len() < 64 * 1024, "{} bytes of one line", parts[2].len());
    assert!(parts[4].contains("missing.txt") && parts[5].contains("notes.txt"), "{} {}", parts[4], parts[5]);
}
