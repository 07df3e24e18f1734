//! Fifty nasty children: whatever a command starts, nothing of it is left when its time is up or its call is stopped.
//!
//! Each script knows one way not to end. They run ten at a time, so that whose process is whose must be told apart, and
//! while posse still lives, so that not its own end does the work. Survivors are looked for by a mark in their arguments
//! or environment and by their parents. Should all fail, every script ends by itself within half a minute.

use std::{
    collections::HashMap,
    fs,
    sync::{Arc, Mutex, OnceLock},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::support::{Answer, Seen, World, call};

/// So many of one reply run at once.
const AT_ONCE: usize = 10;

/// Runs in the background beside each batch and must not be touched: with it there is always somebody else's process
/// below the keeper.
const BESIDE: &str = "sleep 27.5";

/// What it does, how many processes it is at least (the shell that runs the script is one), and the script.
/// `MARK` is a number of seconds, a bit less than half a minute, that no other script has.
#[rustfmt::skip]
const NASTY: &[(&str, usize, &str)] = &[
    ("sleeps", 2, "sleep MARK; true"),
    ("ignores TERM", 2, "trap '' TERM; sleep MARK; true"),
    ("ignores all it can", 2, "trap '' HUP INT QUIT TERM PIPE ALRM USR1 USR2 TSTP TTIN TTOU; sleep MARK; true"),
    ("answers TERM with another child", 2, "trap 'sleep MARK &' TERM; sleep MARK & while [ $SECONDS -lt 25 ]; do wait; sleep 0.05; done"),
    ("answers TERM by becoming another", 1, "trap 'exec sleep MARK' TERM; while [ $SECONDS -lt 25 ]; do sleep 0.1; done"),
    ("loops without a child of its own", 2, "trap '' TERM; bash -c 'trap \"\" TERM; while [ $SECONDS -lt 25 ]; do read -t 1 < <(:); sleep 0.2; done' MARK"),
    ("its own session", 2, "setsid -w sleep MARK; true"),
    ("its own session, in the background", 2, "setsid sleep MARK & wait"),
    ("its own session by a fork", 3, "setsid -f sleep MARK; sleep MARK; true"),
    ("nohup", 3, "nohup sleep MARK >/dev/null 2>&1 & sleep MARK; true"),
    ("disowned", 3, "sleep MARK & disown -a; sleep MARK; true"),
    ("disowned without a hangup", 3, "sleep MARK & disown -h; sleep MARK; true"),
    ("forked twice", 3, "( ( sleep MARK & ) & ); sleep MARK; true"),
    ("forked twice into its own session", 3, "( ( setsid sleep MARK & ) & ); sleep MARK; true"),
    ("without an environment", 3, "env -i setsid sleep MARK & sleep MARK; true"),
    ("without an environment, forked twice", 3, "( env -i setsid sleep MARK & ); sleep MARK; true"),
    ("a daemon by the book", 3, "( cd /; umask 0; exec setsid sleep MARK </dev/null >/dev/null 2>&1 & ); sleep MARK; true"),
    ("a daemon without any sign", 3, "( cd /; env -i setsid setsid sleep MARK </dev/null >/dev/null 2>&1 & ); sleep MARK; true"),
    ("a daemon that ignores TERM", 3, "( trap '' TERM HUP; env -i setsid sleep MARK & ); sleep MARK; true"),
    ("holds the output", 3, "(exec 5>&1 6>&2; sleep MARK) & sleep MARK; true"),
    ("prints on and on", 2, "bash -c 'trap \"\" TERM; while [ $SECONDS -lt 25 ]; do echo x; sleep 0.02; done' MARK & wait"),
    ("another name", 2, "(exec -a 'kworker/u9:1 MARK' sleep 25) & wait"),
    ("another name for the kernel", 2, "bash -c 'echo innocent >/proc/self/comm; sleep MARK; true' & wait"),
    // What is stopped does not end by itself: somebody sees to it, if he is not ended first.
    ("a child that is stopped", 3, "sleep MARK & child=$!; kill -STOP $child; (sleep 27; kill -KILL $child) & sleep MARK; true"),
    ("stops itself", 2, "(sleep 27; kill -KILL $$) & sleep MARK & kill -STOP $$"),
    ("stops its whole session", 2, "setsid bash -c 'sleep MARK & kill -STOP 0' & leader=$!; (sleep 27; kill -KILL -$leader) & wait"),
    ("its folder is gone", 3, "mkdir here-MARK; cd here-MARK; rmdir ../here-MARK; sleep MARK & sleep MARK; true"),
    ("a pipeline in the background", 4, "sleep MARK | sleep MARK | sleep MARK & wait"),
    ("a pipeline that ignores TERM", 3, "(trap '' TERM PIPE; sleep MARK) | (trap '' TERM; sleep MARK) & wait; wait"),
    ("a coprocess", 3, "coproc X { sleep MARK; }; sleep MARK; true"),
    ("process substitutions", 2, "cat <(sleep MARK) > >(cat) & wait"),
    ("ten deep", 2, "deep() { if [ $1 -gt 0 ]; then (deep $(($1 - 1))) & wait; else sleep MARK; fi; }; deep 10"),
    ("thirty wide", 31, "for n in $(seq 30); do sleep MARK & done; wait"),
    ("grows again", 11, "while [ $SECONDS -lt 20 ]; do if [ $(jobs -r | wc -l) -lt 10 ]; then sleep MARK & fi; sleep 0.02; done; wait"),
    ("each starts the next and is gone", 2, "hop() { [ $SECONDS -lt 20 ] && { sleep 0.05; (hop &); }; }; hop & sleep MARK; true"),
    ("the same from session to session", 2,
        "export NASTY=MARK UNTIL=$(($(printf '%(%s)T' -1) + 20)); \
         export HOP='[ $(printf \"%(%s)T\" -1) -lt $UNTIL ] && sleep 0.1 && setsid bash -c \"$HOP\" &'; bash -c \"$HOP\" & sleep MARK; true"),
    ("makes zombies", 3, "(for n in 1 2 3 4 5; do sleep 0.01 & done; exec sleep MARK) & sleep MARK; true"),
    ("an orphan of a child", 3, "bash -c 'sleep MARK & exit'; sleep MARK; true"),
    ("no descriptors", 3, "exec 0<&- 1>&- 2>&-; trap '' TERM; sleep MARK & sleep MARK; true"),
    ("waits on a pipe of its own", 3, "mkfifo pipe-MARK; sleep MARK <>pipe-MARK & sleep MARK; true"),
    ("many by xargs", 3, "echo MARK MARK | xargs -P 2 -n 1 sleep; true"),
    ("by timeout", 3, "timeout -s KILL 25 setsid -w sleep MARK & sleep MARK; true"),
    ("a daemon of Python", 2,
        "python3 -c 'import os,signal,time\n\
         if os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n  for n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n  os.closerange(0, 64); os.chdir(\"/\"); time.sleep(25)' MARK; sleep MARK; true"),
    ("takes in orphans itself", 3,
        "python3 -c 'import ctypes,os,time\nctypes.CDLL(None).prctl(36, 1)\nos.system(\"(setsid sleep MARK &)\")\ntime.sleep(25)' MARK & wait"),
    ("a terminal of its own", 3, "python3 -c 'import pty,sys; pty.spawn([\"sleep\", sys.argv[1]])' MARK & wait"),
    ("a daemon of Perl that hides its arguments", 2,
        "NASTY=MARK perl -e 'exit if fork; $SIG{TERM} = \"IGNORE\"; $0 = \"init\"; sleep 25'; sleep MARK; true"),
    ("detached by Node", 3,
        "node -e 'require(\"child_process\").spawn(\"sleep\", [process.argv[1]], {detached: true, stdio: \"ignore\"}).unref(); setTimeout(() => {}, 25000)' MARK & wait"),
    ("script", 2, "if command -v script >/dev/null; then script -qfc 'sleep MARK' /dev/null </dev/null >/dev/null & fi; sleep MARK; true"),
    ("its own namespace, where it may", 2, "unshare -Urpf sleep MARK 2>/dev/null & sleep MARK; true"),
    ("a server of tmux, where there is one", 2,
        "export TMUX_TMPDIR=$PWD; if command -v tmux >/dev/null; then tmux -L tmux-MARK -f /dev/null new-session -d 'sleep MARK'; fi; sleep MARK; true"),
];

/// Which test it is: the two run at the same time and must not take each other's processes for their own.
#[derive(Clone, Copy)]
enum Story {
    Time = 1,
    Interrupt = 2,
}

/// The number that marks a script: of seconds, so that a sleep can carry it.
fn mark(story: Story, at: usize) -> String {
    format!("28.{:07}{}{at:02}", std::process::id(), story as u8)
}

fn world(story: Story, script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> World {
    let plan = NASTY.iter().enumerate().fold(World::with(), |plan, (at, (_, _, script))| {
        plan.file(&format!("nasty/{at}.sh"), &format!("{}\n", script.replace("MARK", &mark(story, at))))
    });
    plan.script(script)
}

/// The calls of one batch. The mark is an argument too, so that the shell itself is found.
fn batch(story: Story, number: usize, timeout: u32) -> Answer {
    let beside = call("bash", json!({"command": BESIDE, "run_in_background": true}));
    let nasty = (number * AT_ONCE..(number + 1) * AT_ONCE)
        .map(|at| call("bash", json!({"command": format!("bash nasty/{at}.sh {}; true", mark(story, at)), "timeout": timeout})));
    Answer::calls(std::iter::once(beside).chain(nasty))
}

/// Everything on this machine that carries a mark of a batch, by script; the test itself does not count.
fn marked(story: Story, number: usize) -> HashMap<usize, Vec<(u32, String)>> {
    let marks: Vec<(usize, String)> = (number * AT_ONCE..(number + 1) * AT_ONCE).map(|at| (at, mark(story, at))).collect();
    let mut found: HashMap<usize, Vec<(u32, String)>> = HashMap::new();
    for pid in pids().filter(|pid| *pid != std::process::id()) {
        let part = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let command = String::from_utf8_lossy(&part("cmdline")).replace('\0', " ");
        let signs = format!("{command} {}", String::from_utf8_lossy(&part("environ")));
        // A zombie has no command line, and is nobody's survivor.
        for (at, _) in marks.iter().filter(|(_, mark)| !command.is_empty() && signs.contains(mark)) {
            found.entry(*at).or_default().push((pid, format!("{}: {pid} {command}", NASTY[*at].0)));
        }
    }
    found
}

/// What stands below this posse, whatever it looks like: its number and its command line.
fn descendants(posse: u32) -> Vec<(u32, String)> {
    let parents: HashMap<u32, u32> = pids().filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let is_below = |pid: u32| std::iter::successors(parents.get(&pid), |above| parents.get(above)).any(|above| *above == posse);
    let command = |pid: u32| String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).replace('\0', " ");
    parents.keys().filter(|pid| is_below(**pid)).map(|pid| (*pid, command(*pid))).collect()
}

/// The same without those that should be there, and without zombies.
fn below_the_keeper(posse: u32) -> Vec<String> {
    let is_meant = |command: &str| command.is_empty() || command.contains("__keeper") || command.trim_end() == BESIDE;
    descendants(posse).into_iter().filter(|(_, command)| !is_meant(command)).map(|(pid, command)| format!("{pid} {command}")).collect()
}

/// How many of those that run beside the batches are there.
fn beside(posse: u32) -> usize {
    descendants(posse).into_iter().filter(|(_, command)| command.trim_end() == BESIDE).count()
}

fn pids() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat[stat.rfind(')')? + 2..].split(' ').nth(1)?.parse().ok()
}

/// Waits until nothing is left, and says what is. That is then ended here: what was stopped would never end by itself.
fn survivors(story: Story, number: usize, posse: Option<u32>) -> Vec<String> {
    let end = Instant::now() + Duration::from_secs(5);
    loop {
        let (pids, mut left): (Vec<u32>, Vec<String>) = marked(story, number).into_values().flatten().unzip();
        left.extend(posse.map(below_the_keeper).unwrap_or_default());
        if left.is_empty() || end <= Instant::now() {
            for pid in pids.into_iter().filter_map(|pid| Pid::from_raw(pid.cast_signed())) {
                let _ = kill_process(pid, Signal::KILL);
            }
            return left;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn nothing_survives_its_time() {
    let batches = NASTY.len() / AT_ONCE;
    assert_eq!((NASTY.len(), batches), (50, 5));
    let (posse, left) = (Arc::new(OnceLock::new()), Arc::new(Mutex::new(Vec::new())));
    let (pid, found) = (Arc::clone(&posse), Arc::clone(&left));
    let world = world(Story::Time, move |seen: &Seen| {
        let step = seen.steps();
        if batches < step {
            // The end of the last that ran beside them.
            return Answer::text("all over");
        }
        if 0 < step {
            // posse waits for its model meanwhile: what is gone was ended for its call.
            let posse = pid.get().copied();
            found.lock().unwrap().extend(survivors(Story::Time, step - 1, posse));
            assert!(0 < posse.map_or(0, beside), "what runs beside them goes on");
        }
        if step < batches { batch(Story::Time, step, 1_500) } else { Answer::text("all over") }
    });
    let running = world.start(&["run", "--permission-mode", "bypass", "go"]);
    posse.set(running.pid()).unwrap();
    let done = running.wait(Duration::from_secs(150)).expect_code(0);
    assert_eq!(done.out, "all over\n");
    assert_eq!(*left.lock().unwrap(), Vec::<String>::new());
    let timed_out = world.model.last().results().iter().filter(|result| format!("{result:?}").contains("timed out after 1500 ms")).count();
    assert_eq!(timed_out, 50, "{:#?}", world.model.last().results());
}

#[test]
fn nothing_survives_an_interrupt() {
    for number in 0..NASTY.len() / AT_ONCE {
        let world = world(Story::Interrupt, move |_: &Seen| batch(Story::Interrupt, number, 60_000));
        let running = world.start(&["run", "--permission-mode", "bypass", "go"]);
        let end = Instant::now() + Duration::from_secs(20);
        let is_up = |at: usize, found: &HashMap<usize, Vec<(u32, String)>>| NASTY[at].1 <= found.get(&at).map_or(0, Vec::len);
        loop {
            let found = marked(Story::Interrupt, number);
            let waiting: Vec<&str> =
                (number * AT_ONCE..(number + 1) * AT_ONCE).filter(|at| !is_up(*at, &found)).map(|at| NASTY[at].0).collect();
            if waiting.is_empty() {
                break;
            }
            assert!(Instant::now() < end, "never began: {waiting:?}, of {found:#?}");
            thread::sleep(Duration::from_millis(20));
        }
        running.interrupt();
        running.wait(Duration::from_secs(20)).expect_code(130);
        assert_eq!(survivors(Story::Interrupt, number, None), Vec::<String>::new());
        let left = world.processes_left_after(Duration::from_secs(5));
        assert!(left.is_empty(), "{left:#?}");
    }
}
