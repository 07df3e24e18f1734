//! The keeper with real processes: whatever a command does, nothing of it is left.
// Helpers of tests may panic like the tests themselves.
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use common::{Office, alive, fresh_call, keeper_program, settles_at};
use posse_session::{CallId, Ended};
use rustix::process::{Pid, Signal, kill_process};

/// A number of seconds that marks the sleeps of one test, also where the environment is gone.
fn mark() -> String {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    format!("9{:05}.{:03}", std::process::id() % 100_000, COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
}

/// Commands that do not want to end. `MARK` is a unique number of seconds.
const NASTY: &[(&str, &str, usize)] = &[
    ("plain", "sleep MARK", 1),
    ("ignores TERM", "trap '' TERM INT HUP; sleep MARK & while :; do sleep 0.05; done", 1),
    ("daemon by setsid", "setsid sleep MARK & sleep MARK", 2),
    ("double fork", "( ( setsid sleep MARK & ) & ) ; sleep MARK", 2),
    ("without environment", "( env -i setsid sleep MARK & ) ; sleep MARK", 2),
    ("fork storm of 50", "for n in $(seq 50); do sleep MARK & done; wait", 50),
    ("stopped", "sleep MARK & sleep 0.2; kill -STOP $!; sleep MARK", 2),
];

fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
}

/// Another process that plays posse; killed the hard way when dropped.
struct Posse(Child);

impl Posse {
    fn hold(output: &Path, call: &CallId, script: &str, env: &[(&str, &str)]) -> Self {
        let mut command = Command::new(keeper_program());
        command.arg("hold").arg(output).args([call.as_str(), script]).envs(env.iter().copied()).stdout(Stdio::piped());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Posse {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[tokio::test]
async fn nothing_survives_an_end() {
    let office = Office::new();
    for (name, script, count) in NASTY {
        let (mark, call) = (mark(), fresh_call());
        let process = office.context.workspace.spawn(office.command(&call, &script.replace("MARK", &mark))).await.unwrap();
        assert_eq!(settles_at(&format!("sleep\0{mark}"), *count, Duration::from_secs(10)), *count, "{name}: all began");
        let begun = Instant::now();
        process.end(Duration::from_millis(300)).await;
        assert_eq!((alive(&format!("sleep\0{mark}")), alive(call.as_str())), (0, 0), "{name}");
        // A third of a second on a quiet machine; the bound is for a busy one.
        assert!(begun.elapsed() < Duration::from_secs(10), "{name}: {:?}", begun.elapsed());
        // The shell dies of TERM itself, or of what became of the command it waited for.
        let expected: &[Ended] = if *name == "ignores TERM" { &[Ended::Signal(9)] } else { &[Ended::Signal(15), Ended::Code(143)] };
        let ended = process.wait().await;
        assert!(expected.contains(&ended), "{name}: {ended:?}");
    }
}

#[tokio::test]
async fn nothing_survives_a_killed_posse() {
    for (name, script, count) in NASTY {
        let folder = tempfile::tempdir().unwrap();
        let (mark, call) = (mark(), fresh_call());
        let mut posse = Posse::hold(&folder.path().join("out"), &call, &script.replace("MARK", &mark), &[]);
        let mut keeper = String::new();
        BufReader::new(posse.0.stdout.take().unwrap()).read_line(&mut keeper).unwrap();
        assert_eq!(settles_at(&format!("sleep\0{mark}"), *count, Duration::from_secs(10)), *count, "{name}: all began");
        drop(posse);
        assert_eq!(settles_at(&format!("sleep\0{mark}"), 0, Duration::from_secs(5)), 0, "{name}");
        let keeper = format!("/proc/{}/cmdline", keeper.trim());
        let begun = Instant::now();
        while fs::read(&keeper).is_ok_and(|line| !line.is_empty()) {
            assert!(begun.elapsed() < Duration::from_secs(5), "{name}: the keeper itself stays");
        }
    }
}

#[tokio::test]
async fn a_killed_keeper_is_replaced_and_its_processes_are_swept() {
    let office = Office::new();
    let (mark, call) = (mark(), fresh_call());
    let process = office.context.workspace.spawn(office.command(&call, &format!("setsid sleep {mark} & sleep {mark}"))).await.unwrap();
    assert_eq!(settles_at(&format!("sleep\0{mark}"), 2, Duration::from_secs(5)), 2);
    kill(office.keeper.pid().unwrap());
    assert_eq!(process.wait().await, Ended::Unknown);
    process.end(Duration::ZERO).await;
    assert_eq!(alive(&format!("sleep\0{mark}")), 0);
    let next = office.context.workspace.spawn(office.command(&fresh_call(), "exit 7")).await.unwrap();
    assert_eq!(next.wait().await, Ended::Code(7));
}

#[tokio::test]
async fn a_dropped_process_and_a_dropped_keeper_end_what_they_had() {
    let office = Office::new();
    let (one, other) = (mark(), mark());
    let first = office.context.workspace.spawn(office.command(&fresh_call(), &format!("setsid sleep {one} & sleep {one}"))).await.unwrap();
    let second = office.context.workspace.spawn(office.command(&fresh_call(), &format!("sleep {other}"))).await.unwrap();
    assert_eq!(settles_at(&format!("sleep\0{one}"), 2, Duration::from_secs(5)), 2);
    drop(first);
    assert_eq!(settles_at(&format!("sleep\0{one}"), 0, Duration::from_secs(5)), 0);
    assert_eq!(alive(&format!("sleep\0{other}")), 1, "another start is not touched");
    drop((second, office));
    assert_eq!(settles_at(&format!("sleep\0{other}"), 0, Duration::from_secs(5)), 0);
}

#[tokio::test]
async fn what_outlives_its_main_process_is_counted() {
    let office = Office::new();
    let mark = mark();
    let process = office
        .context
        .workspace
        .spawn(office.command(&fresh_call(), &format!("sleep {mark} & setsid sleep {mark} & echo hi")))
        .await
        .unwrap();
    assert_eq!(process.wait().await, Ended::Code(0));
    process.end(Duration::from_millis(200)).await;
    assert_eq!((process.stragglers(), alive(&format!("sleep\0{mark}"))), (2, 0));
    // What ends by itself in a moment is not counted, and is not cut off. On a busy machine a moment may be over too soon.
    let mut seen = Vec::new();
    for _ in 0..20 {
        let line = office.command(&fresh_call(), "(sleep 0.03; echo late) & echo early");
        let output = line.output.clone();
        let process = office.context.workspace.spawn(line).await.unwrap();
        process.wait().await;
        process.end(Duration::from_millis(200)).await;
        seen.push((process.stragglers(), fs::read_to_string(output).unwrap()));
        if seen.contains(&(0, "early\nlate\n".into())) {
            return;
        }
    }
    panic!("always cut off: {seen:?}");
}

#[tokio::test]
async fn many_at_once_end_apart() {
    let office = Office::new();
    let mark = mark();
    let mut processes = Vec::new();
    for n in 0..40 {
        let script = if n % 2 == 0 { format!("setsid sleep {mark} & exit {n}") } else { format!("trap '' TERM; sleep {mark}") };
        processes.push((n, office.context.workspace.spawn(office.command(&fresh_call(), &script)).await.unwrap()));
    }
    let begun = Instant::now();
    let ends = processes.iter().map(|(n, process)| async move {
        if n % 2 == 0 {
            assert_eq!(process.wait().await, Ended::Code(*n));
        }
        process.end(Duration::from_millis(200)).await;
    });
    for end in ends.map(Box::pin).collect::<Vec<_>>() {
        end.await;
    }
    assert_eq!(alive(&format!("sleep\0{mark}")), 0);
    // Six seconds on a quiet machine, one end after the other; the bound is for a busy one.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_sweep_kills_the_trees_of_these_calls_and_no_others() {
    let office = Office::new();
    let (swept, other, (one, two)) = (fresh_call(), fresh_call(), (mark(), mark()));
    let start = |call: &CallId, mark: &str| {
        let script = format!("env -i sleep {mark} & sleep {mark}; true");
        Command::new("/bin/bash").args(["-c", &script]).env("POSSE_CALL", call.as_str()).stdin(Stdio::null()).spawn().unwrap()
    };
    let (mut first, mut second) = (start(&swept, &one), start(&other, &two));
    // One child has no environment, but stands below one that has.
    assert_eq!(settles_at(&format!("sleep\0{one}"), 2, Duration::from_secs(5)), 2);
    assert_eq!(settles_at(&format!("sleep\0{two}"), 2, Duration::from_secs(5)), 2);
    office.context.workspace.sweep(&[swept.clone(), CallId::new("call_never")]).await;
    assert_eq!((alive(&format!("sleep\0{one}")), alive(&format!("sleep\0{two}"))), (0, 2));
    office.context.workspace.sweep(&[other]).await;
    assert_eq!(alive(&format!("sleep\0{two}")), 0);
    let _ = (first.wait(), second.wait());
}

#[tokio::test]
async fn a_command_has_exactly_what_it_was_given() {
    let office = Office::new();
    let call = fresh_call();
    let mut line = office.command(&call, "cat; echo input=$?; ulimit -c; env | sort; ps -o pgid= -p $$ | tr -d ' '; echo $$; trap; kill -0 $PPID && echo ok >&2; ls -l /proc/self/fd | wc -l");
    line.env = vec![("PATH".into(), "/usr/bin:/bin".into()), ("X".into(), "a b".into())];
    let output = line.output.clone();
    let process = office.context.workspace.spawn(line).await.unwrap();
    assert_eq!(process.wait().await, Ended::Code(0));
    let text = fs::read_to_string(output).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("_=") && !line.starts_with("SHLVL=")).collect();
    let pid = process.pid().to_string();
    let root = office.root.display();
    assert_eq!(
        lines,
        [
            "input=0",
            "0",
            "PATH=/usr/bin:/bin",
            &format!("POSSE_CALL={call}"),
            &format!("PWD={root}"),
            "X=a b",
            &pid,
            &pid,
            "ok",
            lines.last().unwrap()
        ],
    );
    assert!(lines.last().unwrap().trim().parse::<u32>().unwrap() <= 5, "no descriptors of ours are inherited: {text}");
}

#[tokio::test]
async fn what_cannot_start_says_why_and_the_keeper_goes_on() {
    let office = Office::new();
    let spawn = async |change: &dyn Fn(&mut posse_session::CommandLine)| {
        let mut line = office.command(&fresh_call(), "exit 3");
        change(&mut line);
        match office.context.workspace.spawn(line).await {
            Ok(process) => format!("{:?}", process.wait().await),
            Err(error) => error.words,
        }
    };
    assert_eq!(
        spawn(&|line| line.argv = vec!["/no/such/program".into()]).await,
        "cannot start /no/such/program: No such file or directory (os error 2)"
    );
    assert_eq!(spawn(&|line| line.cwd = "/no/such/folder".into()).await, "the folder /no/such/folder does not exist");
    assert_eq!(spawn(&|line| line.argv.clear()).await, "cannot start : no program named");
    assert!(spawn(&|line| line.output = "/no/such/folder/out".into()).await.contains("No such file"));
    assert_eq!(spawn(&|_| ()).await, "Code(3)");
}

#[test]
fn secrets_of_posse_reach_neither_the_keeper_nor_its_commands() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out");
    let secrets =
        [("ANTHROPIC_API_KEY", "sk-leaked"), ("GIT_SSH_COMMAND", "leaked"), ("LD_LIBRARY_PATH", "/leaked"), ("BASH_ENV", "/leaked")];
    let posse = Posse::hold(&output, &fresh_call(), "env; tr '\\0' '\\n' </proc/$PPID/environ; echo end; sleep 1000", &secrets);
    let begun = Instant::now();
    let text = loop {
        let text = fs::read_to_string(&output).unwrap_or_default();
        if text.ends_with("end\n") || Duration::from_secs(5) < begun.elapsed() {
            break text;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    drop(posse);
    assert!(text.contains("POSSE=1\n") && text.ends_with("end\n") && !text.contains("leaked"), "{text}");
}

/// Trees that grow faster than they are looked at. Bounded in number, and in time: should a test fail, they end by themselves.
const BOMBS: &[(&str, &str)] = &[
    // Each starts the next and is gone.
    ("hopping", "hop() { [ $SECONDS -lt 15 ] && (hop &) ; } ; for n in $(seq 20); do hop & done; sleep 15"),
    // The same, each in a session of its own.
    (
        "hopping away",
        "export UNTIL=$(($(printf '%(%s)T' -1) + 15)); export HOP='[ $(printf \"%(%s)T\" -1) -lt $UNTIL ] && setsid bash -c \"$HOP\" & '; \
         for n in $(seq 5); do bash -c \"$HOP\" & done; sleep 15",
    ),
    // Grows to 200 and more, and grows again where something was killed.
    (
        "growing",
        "keep() { while [ $SECONDS -lt 15 ]; do if [ $(jobs -r | wc -l) -lt $1 ]; then sleep 15 & fi; done; }; \
         for n in $(seq 10); do keep 20 & done; wait",
    ),
];

#[tokio::test]
async fn a_fork_bomb_is_ended_and_not_outrun() {
    let office = Office::new();
    for (name, script) in BOMBS {
        let call = fresh_call();
        let process = office.context.workspace.spawn(office.command(&call, script)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let begun = Instant::now();
        let ended = tokio::time::timeout(Duration::from_secs(8), process.end(Duration::ZERO)).await;
        assert!(ended.is_ok(), "{name}: not ended after {:?}", begun.elapsed());
        assert_eq!(settles_at(call.as_str(), 0, Duration::from_secs(1)), 0, "{name}");
    }
    let next = office.context.workspace.spawn(office.command(&fresh_call(), "exit 7")).await.unwrap();
    assert_eq!(next.wait().await, Ended::Code(7), "the keeper goes on");
}

#[test]
fn a_fork_bomb_dies_with_posse() {
    for (name, script) in BOMBS {
        let folder = tempfile::tempdir().unwrap();
        let call = fresh_call();
        let mut posse = Posse::hold(&folder.path().join("out"), &call, script, &[]);
        let mut keeper = String::new();
        BufReader::new(posse.0.stdout.take().unwrap()).read_line(&mut keeper).unwrap();
        std::thread::sleep(Duration::from_millis(1_000));
        drop(posse);
        assert_eq!(settles_at(call.as_str(), 0, Duration::from_secs(8)), 0, "{name}");
    }
}
