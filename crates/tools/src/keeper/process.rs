//! The keeper process: starts commands, reaps everything, ends whole trees, and outlives posse just long enough to clean up.
//!
//! One thread owns all state and does all starting, reaping and signalling; two more only wait, for lines and for deaths.
//! It has its own process group and is the subreaper of everything below it, so a daemon cannot slip out by forking twice.
//! Knows nothing of tools or sessions.

use std::{
    collections::HashMap,
    fs::OpenOptions,
    io::{self, BufRead, BufReader, Read, Write},
    os::fd::BorrowedFd,
    os::unix::{
        fs::OpenOptionsExt,
        process::{CommandExt, ExitStatusExt},
    },
    process::{Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread,
    time::{Duration, Instant},
};

use posse_session::CommandLine;
use rustix::{
    fs::OFlags,
    io::{Errno, FdFlags, fcntl_setfd},
    process::{
        Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, getppid, getrlimit, kill_process_group,
        set_child_subreaper, set_parent_process_death_signal, setrlimit, setsid, wait, waitid,
    },
};

use super::{
    LINE_BYTES_MAX, Told, Want,
    family::{self, Start},
};
use crate::process_table::{CALL_VARIABLE, Seen, Signalled, Table};

/// Lines and deaths wait here; a full queue only makes the waiting threads wait.
const NEWS_MAX: usize = 1024;

/// What outlives its main process is mostly about to end by itself: the last reader of a pipe, a `>(tee log)`.
const LINGER: Duration = Duration::from_millis(100);

/// How often a tree that is being ended is looked at again: soon at first, then less and less often.
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(2);
const LOOK_PAUSE_MAX: Duration = Duration::from_millis(50);
/// What lives so long after KILL hangs in the kernel; it is looked at rarely.
const STUCK_AFTER: Duration = Duration::from_secs(2);
const STUCK_PAUSE: Duration = Duration::from_secs(1);
/// When posse is gone nobody waits for the rest: KILL is pending, and the kernel does it when it can.
const STUCK_TIME_MAX: Duration = Duration::from_secs(60);

/// Rounds of stopping before KILL. A tree that grows even while it is being stopped is killed as it is, and looked at again.
const HOLD_ROUNDS_MAX: usize = 10;

/// Where marks begin when nothing above us has one: so high that it is no limit for anybody.
const MARK_MAX: u64 = 1 << 62;

enum News {
    Line(String),
    /// posse is gone.
    Eof,
    /// A child can be reaped.
    Death,
    /// The waiter found no child to wait for.
    Childless,
}

/// The whole life of `posse __keeper`.
pub fn keeper_main() -> ! {
    ignore_signals();
    keep_descriptors_private();
    let own = getpid();
    // Without this a double fork would escape to init; where it is refused, groups and environments still find most.
    let _ = set_child_subreaper(Some(own));
    let (tell, news) = sync_channel(NEWS_MAX);
    let (go, wait_again) = sync_channel(1);
    let tell_line = tell.clone();
    let threads = [
        thread::Builder::new().name("lines".into()).spawn(move || read_lines(&tell_line)),
        thread::Builder::new().name("deaths".into()).spawn(move || wait_for_deaths(&wait_again, &tell)),
    ];
    if threads.iter().any(Result::is_err) {
        std::process::exit(1);
    }
    let mut desk = Desk { own, go, starts: HashMap::new(), waiter: Waiter::Idle, refused: Vec::new() };
    desk.serve(&news);
    desk.kill_all();
    std::process::exit(0)
}

/// What the waiting thread is doing.
#[derive(PartialEq, Eq)]
enum Waiter {
    Idle,
    Waiting,
    /// A child was started after it was sent to wait, so a `Childless` may be old news.
    Doubtful,
}

struct Desk {
    own: Pid,
    go: SyncSender<()>,
    starts: HashMap<u64, Kept>,
    waiter: Waiter,
    /// Processes with rights above ours; they are left alone, or we would never finish.
    refused: Vec<i32>,
}

/// One started command.
struct Kept {
    main: i32,
    call: String,
    mark: Option<u64>,
    ended: Option<Instant>,
    ending: Option<Ending>,
}

/// A tree that is to end.
struct Ending {
    since: Instant,
    grace: Duration,
    termed: bool,
    stragglers: u32,
    pause: Duration,
    look_at: Instant,
}

impl Desk {
    fn serve(&mut self, news: &Receiver<News>) {
        loop {
            let next = self.starts.values().filter_map(|kept| kept.ending.as_ref()).map(|ending| ending.look_at).min();
            let received = match next {
                Some(at) => news.recv_timeout(at.saturating_duration_since(Instant::now())),
                None => news.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let fine = match received {
                Ok(News::Line(line)) => self.heed(&line),
                Ok(News::Death) => self.reap(),
                Ok(News::Childless) => {
                    self.after_childless();
                    Ok(())
                }
                Ok(News::Eof) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => Ok(()),
            };
            // A failed answer means that nobody reads any more: posse is gone.
            if fine.and_then(|()| self.look_at_endings()).is_err() {
                return;
            }
        }
    }

    fn heed(&mut self, line: &str) -> io::Result<()> {
        match serde_json::from_str(line) {
            Ok(Want::Start { id, line }) => {
                let (line, mark) = (CommandLine::from(line), mark_of(id));
                match spawn(&line, self.own, mark) {
                    Ok(pid) => {
                        self.starts.insert(id, Kept { main: pid.cast_signed(), call: line.call.0, mark, ended: None, ending: None });
                        self.send_waiter();
                        answer(&Told::Started { id, pid })
                    }
                    Err(error) => answer(&Told::Failed { id, words: words_for(&line, &error) }),
                }
            }
            Ok(Want::End { id, grace_ms }) => match self.starts.get_mut(&id) {
                Some(kept) => {
                    let now = Instant::now();
                    let grace = Duration::from_millis(grace_ms);
                    let stragglers = kept.ending.as_ref().map_or(0, |ending| ending.stragglers);
                    kept.ending = Some(Ending { since: now, grace, termed: false, stragglers, pause: LOOK_PAUSE_MIN, look_at: now });
                    Ok(())
                }
                None => answer(&Told::Gone { id, stragglers: 0 }),
            },
            // Only another version of posse could say something else; it will ask again in our words.
            Err(_) => Ok(()),
        }
    }

    fn send_waiter(&mut self) {
        match self.waiter {
            Waiter::Idle => {
                self.waiter = Waiter::Waiting;
                let _ = self.go.send(());
            }
            Waiter::Waiting | Waiter::Doubtful => self.waiter = Waiter::Doubtful,
        }
    }

    fn after_childless(&mut self) {
        let again = self.waiter == Waiter::Doubtful;
        self.waiter = Waiter::Idle;
        if again {
            self.send_waiter();
        }
    }

    /// Reaps every dead child, ours or adopted, and tells of those that were main processes.
    fn reap(&mut self) -> io::Result<()> {
        let mut told = Ok(());
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let main = pid.as_raw_nonzero().get();
            let kept = self.starts.iter_mut().find(|(_, kept)| kept.main == main && kept.ended.is_none());
            if let Some((id, kept)) = kept {
                kept.ended = Some(Instant::now());
                let status = ExitStatus::from_raw(status.as_raw());
                told = told.and(answer(&Told::Exited { id: *id, code: status.code(), signal: status.signal() }));
            }
        }
        // Now that all are reaped, the next death is news again.
        self.waiter = Waiter::Idle;
        self.send_waiter();
        let now = Instant::now();
        self.starts.values_mut().filter_map(|kept| kept.ending.as_mut()).for_each(|ending| ending.look_at = now);
        told
    }

    fn look_at_endings(&mut self) -> io::Result<()> {
        let now = Instant::now();
        let due = |kept: &Kept| kept.ending.as_ref().is_some_and(|ending| ending.look_at <= now);
        if !self.starts.values().any(due) {
            return Ok(());
        }
        let mut members = self.members();
        let due: Vec<u64> = self.starts.iter().filter(|(_, kept)| due(kept)).map(|(id, _)| *id).collect();
        let (mut to_kill, mut doomed) = (Vec::new(), Vec::new());
        for id in due {
            let left = self.endable(members.remove(&id).unwrap_or_default());
            let Some(kept) = self.starts.get_mut(&id) else { continue };
            // A main process that is dead but not yet reaped must be told first.
            if left.is_empty() && kept.ended.is_some() {
                if !self.is_gone(id) {
                    continue;
                }
                let ending = self.starts.remove(&id).and_then(|kept| kept.ending);
                answer(&Told::Gone { id, stragglers: ending.map_or(0, |ending| ending.stragglers) })?;
                continue;
            }
            match kept.signal_due(now, left.len()) {
                Some(Signal::KILL) => {
                    to_kill.push((id, kept.main));
                    doomed.extend(left);
                }
                Some(signal) => self.signal_each(&left, signal),
                None => {}
            }
        }
        if !doomed.is_empty() {
            let (ids, mains): (Vec<u64>, Vec<i32>) = to_kill.into_iter().unzip();
            self.kill(doomed, &mains, |desk| {
                let mut members = desk.members();
                ids.iter().flat_map(|id| members.remove(id).unwrap_or_default()).collect()
            });
        }
        Ok(())
    }

    /// A second look before it is said: a process that is always on the move can be missed by one.
    fn is_gone(&mut self, id: u64) -> bool {
        let gone = match self.starts.len() {
            // Orphans come to us, so with one start and no child there is nothing.
            1 if self.refused.is_empty() => self.is_childless(),
            _ => self.endable(self.members().remove(&id).unwrap_or_default()).is_empty(),
        };
        if !gone && let Some(ending) = self.starts.get_mut(&id).and_then(|kept| kept.ending.as_mut()) {
            ending.look_at = Instant::now() + LOOK_PAUSE_MIN;
        }
        gone
    }

    fn is_childless(&self) -> bool {
        matches!(waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG), Err(Errno::CHILD))
    }

    fn members(&self) -> HashMap<u64, Vec<Seen>> {
        // No child at all is the usual case after a short command, and needs no look at the whole machine.
        if self.is_childless() {
            return HashMap::new();
        }
        let starts: Vec<Start> = self
            .starts
            .iter()
            .map(|(id, kept)| Start { id: *id, main: kept.main, alive: kept.ended.is_none(), call: kept.call.clone(), mark: kept.mark })
            .collect();
        family::members(&Table::read(), self.own.as_raw_nonzero().get(), &starts)
    }

    /// posse is gone: nothing below may stay.
    fn kill_all(&mut self) {
        let own = self.own.as_raw_nonzero().get();
        let (begun, mut pause) = (Instant::now(), LOOK_PAUSE_MIN);
        loop {
            while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
            let left = self.endable(family::descendants(&Table::read(), own));
            let none = left.is_empty() && (self.is_childless() || !self.refused.is_empty());
            if none || STUCK_TIME_MAX < begun.elapsed() {
                return;
            }
            let mains: Vec<i32> = self.starts.values().map(|kept| kept.main).collect();
            self.kill(left, &mains, |_| family::descendants(&Table::read(), own));
            thread::sleep(pause);
            pause = longer(pause, begun.elapsed());
        }
    }

    /// Stops these processes and all that appeared meanwhile, then kills them: while some are killed the others could
    /// start new ones, and a stopped process cannot.
    fn kill(&mut self, mut left: Vec<Seen>, mains: &[i32], look_again: impl Fn(&Self) -> Vec<Seen>) {
        for _ in 0..HOLD_ROUNDS_MAX {
            self.signal(&left, mains, Signal::STOP);
            let now = self.endable(look_again(self));
            let held = now.iter().all(|process| left.contains(process));
            left = now;
            if held {
                break;
            }
        }
        self.signal(&left, mains, Signal::KILL);
    }

    /// Whole groups first, which nobody can outrun, then each by itself.
    fn signal(&mut self, processes: &[Seen], mains: &[i32], signal: Signal) {
        for group in family::groups(processes, mains).into_iter().filter_map(Pid::from_raw) {
            // A group that is gone by now needs nothing.
            let _ = kill_process_group(group, signal);
        }
        self.signal_each(processes, signal);
    }

    fn signal_each(&mut self, processes: &[Seen], signal: Signal) {
        self.refused.extend(processes.iter().filter(|process| process.signal(signal) == Signalled::Refused).map(|process| process.pid));
    }

    fn endable(&self, mut processes: Vec<Seen>) -> Vec<Seen> {
        processes.retain(|process| !self.refused.contains(&process.pid));
        processes
    }
}

/// The next pause between two looks, so long after the first.
fn longer(pause: Duration, since: Duration) -> Duration {
    (pause * 2).min(if since < STUCK_AFTER { LOOK_PAUSE_MAX } else { STUCK_PAUSE })
}

impl Kept {
    /// Which signal everything that is left of this start gets now, and when to look again.
    fn signal_due(&mut self, now: Instant, left: usize) -> Option<Signal> {
        let ended = self.ended;
        let ending = self.ending.as_mut()?;
        ending.look_at = now + ending.pause;
        ending.pause = longer(ending.pause, now.saturating_duration_since(ending.since + ending.grace));
        let lingering = ended.is_some_and(|ended| now.duration_since(ended) < LINGER) && !ending.grace.is_zero();
        if lingering && !ending.termed {
            return None;
        }
        if ended.is_some() && !ending.termed {
            ending.stragglers = ending.stragglers.max(u32::try_from(left).unwrap_or(u32::MAX));
        }
        if ending.since + ending.grace <= now {
            ending.termed = true;
            return Some(Signal::KILL);
        }
        let first = !std::mem::replace(&mut ending.termed, true);
        first.then_some(Signal::TERM)
    }
}

fn read_lines(tell: &SyncSender<News>) {
    let mut input = BufReader::new(io::stdin().lock());
    loop {
        let mut line = Vec::new();
        let read = input.by_ref().take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut line);
        // A line without an end was cut off by posse's death.
        let whole = matches!(read, Ok(1..)) && line.ends_with(b"\n");
        let news = if whole { News::Line(String::from_utf8_lossy(&line).into_owned()) } else { News::Eof };
        if tell.send(news).is_err() || !whole {
            return;
        }
    }
}

/// Says that a child died, without reaping it: the desk must be the only one that reaps, or `Command::spawn` would
/// lose the child it waits for when an exec fails.
fn wait_for_deaths(go: &Receiver<()>, tell: &SyncSender<News>) {
    while go.recv().is_ok() {
        let news = loop {
            match waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
                Ok(_) => break News::Death,
                Err(Errno::INTR) => {}
                Err(_) => break News::Childless,
            }
        };
        if tell.send(news).is_err() {
            return;
        }
    }
}

fn answer(told: &Told) -> io::Result<()> {
    let mut line = serde_json::to_vec(told)?;
    line.push(b'\n');
    io::stdout().write_all(&line).and_then(|()| io::stdout().flush())
}

fn words_for(line: &CommandLine, error: &io::Error) -> String {
    let program = line.argv.first().map_or("", String::as_str);
    if !line.cwd.is_dir() {
        return format!("the folder {} does not exist", line.cwd.display());
    }
    format!("cannot start {program}: {error}")
}

/// The mark of everything that this start will ever start. Below our own limit, which is somebody's mark when posse
/// itself was started by a posse: only root could set a higher one. None where that limit is so low that marks run out.
fn mark_of(id: u64) -> Option<u64> {
    getrlimit(Resource::Locks).maximum.unwrap_or(MARK_MAX).checked_sub(id)
}

fn spawn(line: &CommandLine, keeper: Pid, mark: Option<u64>) -> io::Result<u32> {
    let (program, arguments) = line.argv.split_first().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no program named"))?;
    let output =
        OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(&line.output)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(&line.cwd)
        .env_clear()
        .envs(line.env.iter().map(|(name, value)| (name, value)))
        .env(CALL_VARIABLE, line.call.as_str())
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output);
    set_apart(&mut command, keeper, mark);
    // Not waited for through this handle: the desk reaps.
    command.spawn().map(|child| child.id())
}

/// Between fork and exec: a session of its own, so that it has no terminal to ask at or to be stopped by; its mark; the
/// kernel kills the command when the keeper dies, and a crash leaves no core file.
#[allow(unsafe_code)]
fn set_apart(command: &mut Command, keeper: Pid, mark: Option<u64>) {
    let prepare = move || {
        setsid()?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
        // Where it is refused, the environment still tells most.
        let _ = mark.map(|mark| setrlimit(Resource::Locks, Rlimit { current: Some(mark), maximum: Some(mark) }));
        // The keeper died before the line above: then nobody would ever end us.
        if getppid() != Some(keeper) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(())
    };
    // SAFETY: after fork only this thread exists and locks may be held for ever. The closure makes a few direct system
    // calls (rustix, no libc state) and builds errors without allocating.
    unsafe { command.pre_exec(prepare) };
}

/// Descriptors that posse inherited from whoever started it (a shell's secrets, a build's job pipes) end here.
#[allow(unsafe_code)]
fn keep_descriptors_private() {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let open: Vec<i32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(|descriptor| 2 < *descriptor).collect();
    for descriptor in open {
        // SAFETY: nothing in this process owns a descriptor above 2 yet, and this closes none; a number that is no longer
        // open (the listing's own) gives an error, which is fine.
        let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
        let _ = fcntl_setfd(borrowed, FdFlags::CLOEXEC);
    }
}

/// Signals meant for posse's terminal must not end the one who cleans up. Handlers that do nothing, not `SIG_IGN`:
/// an ignored signal stays ignored in every program started from here, a handler does not.
#[allow(unsafe_code)]
fn ignore_signals() {
    unsafe extern "C" {
        fn signal(number: i32, handler: extern "C" fn(i32)) -> usize;
    }
    extern "C" fn nothing(_number: i32) {}
    for number in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM] {
        // SAFETY: `signal` is the C library's; the handler has its signature and does nothing at all.
        unsafe { signal(number.as_raw(), nothing) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hangs_in_the_kernel_is_looked_at_rarely() {
        let (mut pause, mut passed, mut looks) = (LOOK_PAUSE_MIN, Duration::ZERO, 0);
        while passed < STUCK_TIME_MAX {
            passed += pause;
            pause = longer(pause, passed);
            looks += 1;
        }
        assert!((60..150).contains(&looks), "{looks}");
        assert_eq!(longer(LOOK_PAUSE_MIN, Duration::ZERO), Duration::from_millis(4), "soon at first");
    }
}
