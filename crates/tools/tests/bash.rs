//! bash with a real shell: output, folders, ends of all kinds.
// Helpers of tests may panic like the tests themselves.
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use common::{Office, alive, fresh_call, metadata, words};
use posse_session::{Outcome, Tool, ToolCall};
use posse_tools::{Shells, builtin_with};
use serde_json::{Value, json};

fn a_call(input: Value) -> ToolCall {
    ToolCall { id: fresh_call(), input, answer: None }
}

fn bash_with(shells: Shells) -> Arc<dyn Tool> {
    builtin_with(&Arc::new(shells)).into_iter().find(|tool| tool.spec().name == "bash").unwrap()
}

#[tokio::test]
async fn commands_answer_with_what_they_print_and_how_they_end() {
    let office = Office::new();
    let root = office.root.display();
    for (command, answer) in [
        ("echo out; echo err >&2", "out\nerr\n".to_owned()),
        ("true", "(no output)\n".into()),
        ("echo no; exit 3", "no\n(exit code 3)\n".into()),
        ("printf 'no newline'; false", "no newline\n(exit code 1)\n".into()),
        ("kill -9 $$", "(killed by signal 9)\n".into()),
        ("printf '\\033[31mred\\033[0m\\0\\377\\n'", "red\u{fffd}\n".into()),
        ("cat; read x; echo \"$?\"", "1\n".into()),
        ("pwd", format!("{root}\n")),
        ("set -eu; cat <<'E'\na b\nE\nfalse\necho never", "a b\n(exit code 1)\n".into()),
        ("set -x; true", "+ true\n".into()),
        ("echo \"$0 $# ${POSSE_FOLDER-} ${BASH_ENV-} $POSSE\"", "/bin/bash 0   1\n".into()),
        ("trap 'echo bye' EXIT; echo hi", "hi\nbye\n".into()),
        ("# a comment\nls /no/such 2>/dev/null", "(exit code 2)\n".into()),
        ("exec echo replaced", "replaced\n".into()),
    ] {
        assert_eq!(office.say("bash", json!({"command": command})).await, answer, "{command}");
    }
    let syntax = office.say("bash", json!({"command": "echo (oops"})).await;
    assert!(syntax.contains("line 1: syntax error") && syntax.contains("`echo (oops'") && syntax.ends_with("(exit code 2)\n"), "{syntax}");
    let outcome = office.run("bash", json!({"command": "exit 5", "description": "Fail on purpose"})).await;
    assert_eq!(metadata(&outcome), json!({"exit": 5, "truncated": false}));
    assert!(matches!(outcome, Outcome::Done { title, .. } if title == "Fail on purpose"));
    let left: Vec<_> = fs::read_dir(&office.context.spool).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["startup.sh"], "nothing stays in the spool");
}

#[tokio::test]
async fn arguments_are_checked() {
    let office = Office::new();
    for (input, complaint) in [
        (
            json!({}),
            "bash: the required parameter `command` (a string) is missing; the call had no parameters at all. Call bash again with it.",
        ),
        (
            json!({"command": ["ls"]}),
            "bash: parameter `command` must be a string; got a list of 1 items. Call bash again with that corrected.",
        ),
        (
            json!({"command": "ls", "timeout": "soon"}),
            "bash: parameter `timeout` must be a whole number, not negative; got the string \"soon\". Call bash again with that corrected.",
        ),
        (json!({"command": "a\0b"}), "bash: parameter `command` must not contain a NUL character."),
    ] {
        assert_eq!(office.touches("bash", input.clone()), [format!("error: {complaint}")], "{input}");
    }
    assert!(office.touches("bash", json!({"command": "x".repeat(200_000)}))[0].contains("Write it to a file with write"));
    assert_eq!(
        office.say("bash", json!({"command": "pwd", "workdir": "nowhere"})).await,
        "failed: bash: the folder nowhere (workdir) does not exist."
    );
}

#[tokio::test]
async fn the_folder_is_kept_inside_the_project() {
    let office = Office::new();
    office.file("sub/deep/a", "");
    let root = office.root.display().to_string();
    let bash = async |command: &str| office.say("bash", json!({"command": command})).await;
    assert_eq!(bash("cd sub && cd deep; exit 1").await, "(exit code 1)\n");
    assert_eq!(bash("pwd").await, format!("{root}/sub/deep\n"));
    assert_eq!(office.say("bash", json!({"command": "pwd; cd /", "workdir": "sub"})).await, format!("{root}/sub\n"));
    assert_eq!(bash("pwd").await, format!("{root}/sub/deep\n"), "workdir is for one call only");
    assert_eq!(bash("cd /tmp && true").await, format!("(/tmp is outside the project; the next command starts in {root})\n"));
    assert_eq!(bash("pwd").await, format!("{root}\n"));
    bash("cd sub").await;
    fs::remove_dir_all(office.root.join("sub")).unwrap();
    assert_eq!(bash("pwd").await, format!("{root}\n(the folder {root}/sub is gone; this ran in {root})\n"));
}

#[tokio::test]
async fn the_environment_holds_no_secrets() {
    let office = Office::new();
    let printed = office.say("bash", json!({"command": "env"})).await;
    let names: Vec<&str> = printed.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    for secret in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "LD_LIBRARY_PATH", "BASH_ENV", "NEXTEST", "CARGO_PKG_NAME", "CARGO_MANIFEST_DIR"]
    {
        assert!(!names.contains(&secret), "{secret} in {names:?}");
    }
    for needed in ["PATH", "HOME", "POSSE", "POSSE_CALL", "GIT_TERMINAL_PROMPT"] {
        assert!(names.contains(&needed), "{needed} not in {names:?}");
    }
}

#[tokio::test]
async fn a_timeout_ends_the_whole_tree_and_keeps_what_was_printed() {
    let office = Office::new();
    let call = a_call(json!({"command": "echo begun; setsid sleep 29.5 & trap '' TERM; sleep 29.5", "timeout": 2000}));
    let begun = Instant::now();
    let outcome = office.tool("bash").run(&call, &office.context).await;
    assert_eq!(outcome.word(), "failed");
    assert_eq!(
        words(&outcome),
        "begun\n(timed out after 2000 ms and was ended with all it had started; give a larger timeout (at most 600000 ms), do less at once, \
         or start it with run_in_background and read it with bash_output)\n"
    );
    assert_eq!(alive(call.id.as_str()), 0);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_stop_ends_soon_with_what_there_is() {
    let office = Office::new();
    let call = a_call(json!({"command": "echo begun; trap '' TERM INT; while [ $SECONDS -lt 29 ]; do sleep 0.1; done"}));
    let (tool, stopped) = (office.tool("bash"), async {
        while office.shown.0.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        office.stop.stop();
        Instant::now()
    });
    let (outcome, stopped) = tokio::join!(tool.run(&call, &office.context), stopped);
    assert_eq!((outcome.word(), words(&outcome).as_str(), alive(call.id.as_str())), ("cancelled", "begun\n(stopped)\n", 0));
    // Two seconds at most; the rest is for a busy machine.
    assert!(stopped.elapsed() < Duration::from_secs(10), "{:?}", stopped.elapsed());
}

#[tokio::test]
async fn what_is_left_in_the_background_is_ended_and_said() {
    let office = Office::new();
    let call = a_call(json!({"command": "sleep 29 & echo started"}));
    let outcome = office.tool("bash").run(&call, &office.context).await;
    assert_eq!(
        words(&outcome),
        "started\n(1 processes left in the background were ended; background processes do not outlive their command)\n"
    );
    assert_eq!(alive(call.id.as_str()), 0);
    // A process substitution may finish. On a busy machine its moment may be over too soon.
    let mut seen = Vec::new();
    while seen.len() < 20 && !seen.contains(&"a\na\n".to_owned()) {
        seen.push(office.say("bash", json!({"command": "echo a | tee >(sleep 0.02; cat >&2)"})).await);
    }
    assert!(seen.contains(&"a\na\n".to_owned()), "{seen:?}");
}

#[tokio::test]
async fn whoever_holds_the_output_does_not_hold_the_call() {
    let office = Office::new();
    for holder in [
        "(trap '' TERM HUP; sleep 29) &",
        "setsid bash -c 'trap \"\" TERM; sleep 29; true' &",
        "(trap '' TERM; while [ $SECONDS -lt 29 ]; do echo more; sleep 0.01; done) &",
        "sleep 29 & kill -STOP $!;",
        "mkfifo pipe; (exec 3<>pipe; sleep 29 <&3) &",
    ] {
        let call = a_call(json!({"command": format!("{holder} echo main")}));
        let begun = Instant::now();
        let outcome = office.tool("bash").run(&call, &office.context).await;
        // Promised is half a second after the main process; the rest is for a busy machine.
        assert!(begun.elapsed() < Duration::from_secs(5), "{holder}: {:?}", begun.elapsed());
        assert!(outcome.word() == "done" && words(&outcome).contains("main\n"), "{holder}: {outcome:?}");
        assert_eq!(common::settles_at(call.id.as_str(), 0, Duration::from_secs(5)), 0, "{holder}");
    }
}

#[tokio::test]
async fn a_dropped_call_leaves_nothing() {
    let office = Office::new();
    let call = a_call(json!({"command": "setsid sleep 29 & sleep 29"}));
    let tool = office.tool("bash");
    assert!(tokio::time::timeout(Duration::from_millis(300), tool.run(&call, &office.context)).await.is_err());
    assert_eq!(common::settles_at(call.id.as_str(), 0, Duration::from_secs(5)), 0);
}

#[tokio::test]
async fn a_hundred_megabytes_stay_on_disk() {
    let office = Office::new();
    office.say("bash", json!({"command": "true"})).await;
    let before = resident_bytes();
    let outcome = office.run("bash", json!({"command": "yes 0123456789012345678901234567890 | head -c 100000000; echo the end"})).await;
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 32 * 1024 * 1024, "{grown}");
    let said = words(&outcome);
    let path = metadata(&outcome)["outputPath"].as_str().unwrap().to_owned();
    assert!(said.len() < 31_000 && said.starts_with("0123456789") && said.ends_with("the end\n"));
    assert!(said.contains(&format!("... 99970008 bytes omitted; full output: {path} (use read")), "{}", &said[9_000..10_500]);
    assert_eq!(fs::metadata(&path).unwrap().len(), 100_000_008);
    let tail = office.say("read", json!({"filePath": path, "offset": 3_125_000})).await;
    assert!(tail.contains("the end"), "{tail}");
}

fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[tokio::test]
async fn a_flood_is_ended_at_its_bound() {
    let office = Office::new();
    let call = a_call(json!({"command": "yes & yes"}));
    let outcome = bash_with(Shells::default().with_spool_max(4_000_000)).run(&call, &office.context).await;
    let said = words(&outcome);
    assert_eq!((outcome.word(), alive(call.id.as_str())), ("failed", 0));
    assert!(
        said.ends_with("(it printed more than 4000000 bytes and was ended; redirect its output or print less)\n"),
        "{}",
        &said[said.len() - 200..]
    );
    assert_eq!(fs::metadata(office.context.spool.join(format!("{}.out", call.id))).unwrap().len(), 4_000_000);
}

#[tokio::test]
async fn a_command_that_takes_too_much_memory_is_ended_with_all_it_started() {
    let office = Office::new();
    let hog = "x=$(head -c 60000000 /dev/zero | tr '\\0' a); echo full; sleep 29";
    let call = a_call(json!({"command": format!("({hog}) & ({hog}) & wait")}));
    let begun = std::time::Instant::now();
    let outcome = bash_with(Shells::default().with_memory_max(80_000_000)).run(&call, &office.context).await;
    assert_eq!((outcome.word(), alive(call.id.as_str())), ("failed", 0));
    assert!(words(&outcome).contains("of the machine's memory"), "{}", words(&outcome));
    assert!(begun.elapsed() < std::time::Duration::from_secs(30), "{:?}", begun.elapsed());
    // One that stays below its bound is left alone.
    let call = a_call(json!({"command": "sleep 1.2; echo fine"}));
    let outcome = bash_with(Shells::default().with_memory_max(80_000_000)).run(&call, &office.context).await;
    assert_eq!((outcome.word(), words(&outcome).trim()), ("done", "fine"));
}

#[tokio::test]
async fn output_is_shown_while_it_comes() {
    let office = Office::new();
    office.say("bash", json!({"command": "echo one; sleep 0.3; echo two; sleep 0.3"})).await;
    assert_eq!(*office.shown.0.lock().unwrap(), ["one\n", "two\n"]);
}

#[tokio::test]
async fn short_commands_are_quick() {
    let office = Office::new();
    office.say("bash", json!({"command": "true"})).await;
    let begun = Instant::now();
    for _ in 0..50 {
        office.say("bash", json!({"command": "true"})).await;
    }
    let each = begun.elapsed() / 50;
    println!("{each:?} for one command");
    assert!(each < Duration::from_millis(50), "{each:?}");
}

#[tokio::test]
async fn a_dead_keeper_makes_the_call_lost() {
    let office = Office::new();
    let killed = async {
        while office.shown.0.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let pid = rustix::process::Pid::from_raw(office.keeper.pid().unwrap().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    };
    let (outcome, ()) = tokio::join!(office.run("bash", json!({"command": "echo begun; sleep 29"})), killed);
    assert_eq!(outcome.word(), "lost");
    assert!(words(&outcome).starts_with("begun\n(the process that watches commands died"), "{}", words(&outcome));
    assert_eq!(office.say("bash", json!({"command": "echo again"})).await, "again\n");
}

#[tokio::test]
async fn a_project_whose_name_is_no_text_works() {
    use std::os::unix::ffi::OsStrExt;
    let mut office = Office::new();
    let root = office.root.join(std::ffi::OsStr::from_bytes(b"bad-\xff-name"));
    fs::create_dir_all(root.join("sub")).unwrap();
    let workspace = posse_tools::LocalWorkspace::new(&root, &root, std::sync::Arc::clone(&office.keeper)).unwrap();
    office.context.workspace = std::sync::Arc::new(workspace);
    assert_eq!(office.say("bash", json!({"command": "cd sub; echo hi > made.txt"})).await, "(no output)\n");
    assert_eq!(office.say("bash", json!({"command": "basename \"$PWD\"; cat made.txt"})).await, "sub\nhi\n", "the folder is kept");
    assert_eq!(fs::read_to_string(root.join("sub/made.txt")).unwrap(), "hi\n");
    // A spool of such a name too; there only the folder is not kept.
    office.context.spool = root.join("spool");
    assert_eq!(office.say("bash", json!({"command": "echo out"})).await, "out\n");
}
