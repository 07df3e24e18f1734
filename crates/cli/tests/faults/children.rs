//! Commands that flood, hang, hide or wait for somebody.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Answer, Done, Seen, World};

/// One command, then its result as the answer.
fn runs(input: Value) -> World {
    World::new(move |seen: &Seen| match seen.steps() {
        0 => Answer::call("bash", input.clone()),
        _ => Answer::text(seen.last_results()[0]).after(Duration::from_millis(400)),
    })
}

fn timed(world: &World) -> (Done, Duration) {
    let begun = Instant::now();
    let done = world.run(&["go"]).expect_code(0);
    (done, begun.elapsed())
}

fn expect_nobody_left(world: &World) {
    let left = world.processes_left_after(Duration::from_secs(5));
    assert!(left.is_empty(), "{left:#?}");
}

/// The most memory a process ever had, in kB.
fn peak_memory(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().split(' ').next()?.parse().ok()
}

#[test]
fn a_hundred_megabytes_of_output_do_not_fill_the_memory() {
    let world = runs(json!({"command": "head -c 104857600 /dev/zero | tr '\\0' 'x' | fold -w 120"}));
    let mut running = world.start(&["run", "go"]);
    let mut peak = 0;
    while !running.has_ended() {
        peak = peak_memory(running.pid()).unwrap_or(0).max(peak);
        std::thread::sleep(Duration::from_millis(10));
    }
    let done = running.wait(Duration::from_secs(1)).expect_code(0);
    assert!(10_000 < peak && peak < 64 * 1024, "{peak} kB");
    assert!(done.out.len() < 100_000, "{} bytes went to the model", done.out.len());
    assert!(done.out.contains("spool"), "the model is told where the rest is: {}", &done.out[..500]);
    expect_nobody_left(&world);
}

#[test]
fn endless_output_ends_with_its_time() {
    let world = runs(json!({"command": "while :; do echo tick; done", "timeout": 700}));
    let (done, took) = timed(&world);
    assert!(done.out.contains("timed out after 700 ms") && done.out.contains("tick"), "{}", &done.out[..500.min(done.out.len())]);
    assert!(done.out.len() < 100_000 && took < Duration::from_secs(10), "{took:?}");
    expect_nobody_left(&world);
}

#[test]
fn a_child_that_ignores_the_polite_signal_is_killed() {
    let world = runs(json!({"command": "trap '' TERM HUP INT; echo begun; while :; do sleep 0.1; done", "timeout": 400}));
    let (done, took) = timed(&world);
    assert!(done.out.contains("begun") && done.out.contains("timed out"), "{}", done.out);
    assert!(took < Duration::from_secs(9), "{took:?}");
    expect_nobody_left(&world);
}

#[test]
fn what_hides_in_another_session_or_holds_the_output_does_not_keep_the_call() {
    for command in [
        "setsid sleep 300 & echo ready",
        "(sleep 300 &); echo ready",
        "nohup sleep 300 >/dev/null 2>&1 & disown; echo ready",
        "setsid sh -c 'trap \"\" TERM; sleep 300 & wait' & sleep 0.1; echo ready",
    ] {
        let world = runs(json!({"command": command}));
        let (done, took) = timed(&world);
        assert!(done.out.contains("ready"), "{command}: {}", done.out);
        assert!(took < Duration::from_secs(8), "{command}: {took:?}");
        expect_nobody_left(&world);
    }
}

#[test]
fn a_command_that_wants_an_answer_gets_none_and_goes_on() {
    for (command, expected) in
        [("read word; echo \"got:$word\"", "got:"), ("cat; echo after", "after"), ("cat /dev/tty; echo \"tty: $?\"", "tty: 1")]
    {
        let world = runs(json!({"command": command, "timeout": 5000}));
        let (done, took) = timed(&world);
        assert!(done.out.contains(expected), "{command}: {}", done.out);
        assert!(took < Duration::from_secs(4), "{command}: {took:?}");
    }
}

#[test]
fn bytes_that_are_no_text_reach_the_model_as_text() {
    let world = runs(json!({"command": "printf 'a\\377b\\000c\\033[31mred\\033[0m\\n'"}));
    let (done, _) = timed(&world);
    assert!(done.out.contains("red"), "{:?}", done.out);
    assert!(!done.out.contains('\0'), "{:?}", done.out);
}

#[test]
fn how_a_command_ended_is_said() {
    for (command, expected) in
        [("exit 7", "exit code 7"), ("kill -9 $$", "signal 9"), ("no-such-command-here", "127"), ("true", "(no output)")]
    {
        let world = runs(json!({"command": command}));
        let (done, _) = timed(&world);
        assert!(done.out.contains(expected), "{command}: {}", done.out);
    }
}
