//! Commands that hang, hide, wait for somebody or go on in the background. Floods are in `floods.rs`, the many ways not to
//! end in `nasty.rs`.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

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
    let done = world.run(&["--permission-mode", "bypass", "go"]).expect_code(0);
    (done, begun.elapsed())
}

fn expect_nobody_left(world: &World) {
    let left = world.processes_left_after(Duration::from_secs(5));
    assert!(left.is_empty(), "{left:#?}");
}

#[test]
fn endless_output_ends_with_its_time() {
    let world = runs(json!({"command": "while [ $SECONDS -lt 29 ]; do echo tick; done", "timeout": 700}));
    let (done, took) = timed(&world);
    assert!(done.out.contains("timed out after 700 ms") && done.out.contains("tick"), "{}", &done.out[..500.min(done.out.len())]);
    assert!(done.out.len() < 100_000 && took < Duration::from_secs(10), "{took:?}");
    expect_nobody_left(&world);
}

#[test]
fn a_child_that_ignores_the_polite_signal_is_killed() {
    let world = runs(json!({"command": "trap '' TERM HUP INT; echo begun; while [ $SECONDS -lt 29 ]; do sleep 0.1; done", "timeout": 400}));
    let (done, took) = timed(&world);
    assert!(done.out.contains("begun") && done.out.contains("timed out"), "{}", done.out);
    assert!(took < Duration::from_secs(9), "{took:?}");
    expect_nobody_left(&world);
}

#[test]
fn what_hides_in_another_session_or_holds_the_output_does_not_keep_the_call() {
    for command in [
        "setsid sleep 29 & echo ready",
        "(sleep 29 &); echo ready",
        "nohup sleep 29 >/dev/null 2>&1 & disown; echo ready",
        "setsid sh -c 'trap \"\" TERM; sleep 29 & wait' & sleep 0.1; echo ready",
    ] {
        let world = runs(json!({"command": command}));
        let (done, took) = timed(&world);
        assert!(done.out.contains("ready"), "{command}: {}", done.out);
        assert!(took < Duration::from_secs(8), "{command}: {took:?}");
        expect_nobody_left(&world);
    }
}

/// What asks somebody, and what it must say at once instead.
const ASKING: &[(&str, &str)] = &[
    ("read word; echo \"got:$word:$?\"", "got::1"),
    ("cat; echo after", "after"),
    ("cat /dev/tty; echo \"tty: $?\"", "tty: 1"),
    ("read -p 'Password: ' word </dev/tty; echo \"password: $?\"", "password: 1"),
    ("echo to the terminal >/dev/tty; echo \"said: $?\"", "said: 1"),
    ("python3 -c 'import getpass; getpass.getpass()'; echo \"getpass: $?\"", "getpass: 1"),
    ("tty; stty -a; echo \"stty: $?\"", "stty: 1"),
];

#[test]
fn a_command_that_wants_an_answer_gets_none_and_goes_on() {
    for (command, expected) in ASKING {
        let world = runs(json!({"command": command, "timeout": 20_000}));
        let (done, took) = timed(&world);
        assert!(done.out.contains(expected), "{command}: {}", done.out);
        assert!(took < Duration::from_secs(15), "{command}: {took:?}");
    }
}

#[test]
fn a_terminal_of_posses_own_is_none_of_its_commands() {
    for (command, expected) in ASKING {
        let world = runs(json!({"command": command, "timeout": 20_000}));
        let begun = Instant::now();
        let output = Command::new("python3")
            .args(["-c", "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"])
            .args([env!("CARGO_BIN_EXE_posse"), "run", "--permission-mode", "bypass", "go"])
            .current_dir(&world.project)
            .env("POSSE_HOME", &world.posse_home)
            .env("HOME", &world.home)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains(expected), "{command}: {output:?}");
        assert!(begun.elapsed() < Duration::from_secs(15), "{command}: {:?}", begun.elapsed());
    }
}

#[test]
fn nothing_of_posses_environment_reaches_a_command_that_it_was_not_made_for() {
    let world = runs(json!({"command": "env; echo done; tr '\\0' '\\n' </proc/$PPID/environ"}));
    let hostile = [
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "LD_LIBRARY_PATH",
        "BASH_ENV",
        "ENV",
        "GIT_SSH_COMMAND",
        "GIT_EXEC_PATH",
        "GIT_PAGER",
        "PAGER",
        "EDITOR",
        "NODE_OPTIONS",
        "PYTHONSTARTUP",
        "PERL5OPT",
        "SSH_AUTH_SOCK",
        "PROMPT_COMMAND",
    ];
    let invocation = world.command(&["run", "--permission-mode", "bypass", "go"]).env("TZ", "Europe/Rome");
    let done = hostile.iter().fold(invocation, |run, name| run.env(name, "/leaked")).run().expect_code(0);
    assert!(done.out.contains("TZ=Europe/Rome") && done.out.contains("PAGER=cat") && done.out.contains("done"), "{}", done.out);
    assert!(!done.out.contains("leaked") && !done.out.contains("key-123"), "{}", done.out);
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

/// Shells that do not want to end, each with a process that hides.
const SERVER: &str = "echo serving; trap '' TERM; setsid sleep 29 & (env -i setsid sleep 29 >/dev/null 2>&1 &); while [ $SECONDS -lt 29 ]; do sleep 0.1; done";

#[test]
fn a_background_shell_goes_on_while_posse_does_and_not_longer() {
    let world = World::new(|seen: &Seen| match seen.steps() {
        0 => Answer::call("bash", json!({"command": SERVER, "run_in_background": true})),
        1 => Answer::call("bash_output", json!({"shell_id": "bash_1", "block": true, "timeout": 20_000})),
        2 => Answer::call("bash", json!({"command": "echo meanwhile"})),
        3 => Answer::call("bash_output", json!({"shell_id": "bash_1"})),
        4 => Answer::text("it serves"),
        _ => Answer::call("bash_output", json!({"shell_id": "bash_1"})),
    });
    let done = world.run(&["--permission-mode", "bypass", "--wait-background", "none", "go"]).expect_code(0);
    assert!(done.err.contains("posse: 1 background shell was ended: echo serving; trap"), "{}", done.err);
    let last = world.model.last();
    let results: Vec<String> = last.results().iter().map(|block| format!("{block:?}")).collect();
    assert!(results[0].contains("shell_id: bash_1\\noutput: /"), "{results:#?}");
    assert!(results[1].contains("serving\\n(bash_1: running; next read: since 8)"), "{results:#?}");
    assert!(results[2].contains("meanwhile"), "{results:#?}");
    assert!(results[3].contains("(no new output)\\n(bash_1: running;"), "{results:#?}");
    expect_nobody_left(&world);
}

#[test]
fn a_later_run_is_told_that_the_shell_ended_with_the_process_that_ran_it() {
    let world = World::new(|seen: &Seen| match seen.number {
        0 => Answer::call("bash", json!({"command": SERVER, "run_in_background": true})),
        1 => Answer::text("it serves"),
        2 => Answer::call("bash_output", json!({"shell_id": "bash_1"})),
        3 => Answer::text(seen.last_results()[0]),
        _ => Answer::text("what?"),
    });
    world.run(&["--permission-mode", "bypass", "--wait-background", "none", "go"]).expect_code(0);
    let done = world.run(&["-c", "how is it?"]).expect_code(0);
    assert!(done.out.starts_with("(bash_1: ended with the posse process that ran it (`echo serving;"), "{}", done.out);
    assert!(done.out.contains("bash_1.out (use read))"), "{}", done.out);
    expect_nobody_left(&world);
}

#[test]
fn a_killed_posse_takes_its_background_shells_along() {
    for signal in [rustix::process::Signal::KILL, rustix::process::Signal::TERM] {
        let world = World::new(|seen: &Seen| match seen.steps() {
            0 => Answer::call("bash", json!({"command": SERVER, "run_in_background": true})),
            1 => Answer::call("bash_output", json!({"shell_id": "bash_1", "block": true, "timeout": 20_000})),
            _ => Answer::text("too late").after(Duration::from_secs(29)),
        });
        let running = world.start(&["run", "--permission-mode", "bypass", "go"]);
        assert!(world.model.wait_for_requests(3), "{}", running.err_so_far());
        assert!(4 <= crate::support::procs::belonging_to(world.folder()).len(), "posse, its keeper, the shell and its children");
        running.signal(signal);
        running.wait(Duration::from_secs(10));
        expect_nobody_left(&world);
    }
}
