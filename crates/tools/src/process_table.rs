//! The process table, read from /proc: who is below whom, whose call a process belongs to, and how to signal it.
//!
//! Every process of a start carries two signs: the call in its environment, which a sweep finds without knowing anybody,
//! and a mark in one of its limits (on file locks, which kernels have long ignored but still pass on). An environment is
//! easily dropped, also without bad intent; that limit can only be lowered, and nobody does.
//! Used by the keeper (its own descendants) and by `sweep` (processes that an earlier posse left behind). Numbers of
//! processes are reused, so a signal goes through a pidfd whose start time is checked again after it was opened.

use std::{
    collections::{HashMap, HashSet},
    fs,
    io::Read,
    thread,
    time::{Duration, Instant},
};

use posse_session::CallId;
use rustix::{
    io::Errno,
    process::{Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal},
};

/// The variable that marks every process of a call.
pub(crate) const CALL_VARIABLE: &str = "POSSE_CALL";

/// How /proc names the limit that carries the mark.
const MARK_LIMIT: &str = "Max file locks";

/// An environment is at most a few hundred kilobytes; what is larger is not ours.
const ENVIRONMENT_BYTES_MAX: u64 = 1024 * 1024;

/// A process that survives KILL this long hangs in the kernel; waiting longer would hang the take-over.
const SWEEP_TIME_MAX: Duration = Duration::from_secs(10);

/// Between two rounds of killing: long enough for the kernel to tear processes down.
const SWEEP_PAUSE: Duration = Duration::from_millis(5);

/// One process as /proc told it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
    /// In clock ticks since boot: with the pid it names one process for ever.
    started: u64,
}

/// What a signal did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signalled {
    Sent,
    /// It ended before the signal.
    Gone,
    /// It runs with rights above ours (setuid): nobody here can end it.
    Refused,
}

impl Seen {
    pub(crate) fn signal(&self, signal: Signal) -> Signalled {
        let Some(pid) = Pid::from_raw(self.pid) else { return Signalled::Gone };
        let sent = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(handle) => match read_stat(self.pid) {
                Some(now) if now.started == self.started => pidfd_send_signal(handle, signal),
                _ => return Signalled::Gone,
            },
            // Kernels before 5.3 and some sandboxes have no pidfd.
            Err(Errno::NOSYS | Errno::PERM) => kill_process(pid, signal),
            Err(error) => Err(error),
        };
        match sent {
            Ok(()) => Signalled::Sent,
            Err(Errno::PERM) => Signalled::Refused,
            Err(_) => Signalled::Gone,
        }
    }

    /// The call in its environment. `None` also when the environment cannot be read.
    pub(crate) fn call(&self) -> Option<String> {
        let mut environment = Vec::new();
        fs::File::open(format!("/proc/{}/environ", self.pid)).ok()?.take(ENVIRONMENT_BYTES_MAX).read_to_end(&mut environment).ok()?;
        environment.split(|byte| *byte == 0).find_map(|variable| {
            let value = variable.strip_prefix(CALL_VARIABLE.as_bytes())?.strip_prefix(b"=")?;
            Some(String::from_utf8_lossy(value).into_owned())
        })
    }
}

impl Seen {
    /// The mark of the start it belongs to. `None` for a process that was started by nobody here.
    pub(crate) fn mark(&self) -> Option<u64> {
        parse_mark(&fs::read_to_string(format!("/proc/{}/limits", self.pid)).ok()?)
    }
}

/// The hard limit of a line like `Max file locks  12  12  locks`; no number where there is no limit.
fn parse_mark(limits: &str) -> Option<u64> {
    limits.lines().find_map(|line| line.strip_prefix(MARK_LIMIT))?.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Every living process by its number.
pub(crate) struct Table(HashMap<i32, Seen>);

impl Table {
    pub(crate) fn read() -> Self {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        Self(pids.filter_map(read_stat).map(|seen| (seen.pid, seen)).collect())
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Seen> {
        self.0.values()
    }

    /// `pid`, its parent, its parent's parent, up to the first process that is not in the table.
    pub(crate) fn line_up(&self, pid: i32) -> impl Iterator<Item = &Seen> {
        let mut seen = HashSet::new();
        std::iter::successors(self.0.get(&pid), |process| self.0.get(&process.parent)).take_while(move |process| seen.insert(process.pid))
    }

    /// The direct child of `ancestor` that `pid` is, or is below.
    pub(crate) fn branch_below(&self, ancestor: i32, pid: i32) -> Option<&Seen> {
        self.line_up(pid).find(|process| process.parent == ancestor)
    }
}

/// How many processes a start has, and the memory they hold: those at or below its main process `pid`, and those that
/// slipped away from it to the keeper. Shared pages count for each: a bound on it is a bound against runaways, not an account.
pub(crate) fn weight(pid: i32) -> (usize, u64) {
    let table = Table::read();
    let Some(main) = table.0.get(&pid) else { return (0, 0) };
    let mark = main.mark();
    let mut branches: HashMap<i32, bool> = HashMap::new();
    let mut is_of_main = |branch: &Seen| {
        let belongs = || branch.pid == pid || branch.group == pid || branch.session == pid || (mark.is_some() && branch.mark() == mark);
        *branches.entry(branch.pid).or_insert_with(belongs)
    };
    let family: Vec<i32> =
        table.all().filter(|seen| table.branch_below(main.parent, seen.pid).is_some_and(&mut is_of_main)).map(|seen| seen.pid).collect();
    (family.len(), family.iter().filter_map(|pid| kibibytes(&format!("/proc/{pid}/status"), "VmRSS:")).sum::<u64>() * 1024)
}

/// What this machine has in all.
pub(crate) fn memory_of_the_machine() -> Option<u64> {
    kibibytes("/proc/meminfo", "MemTotal:").map(|count| count * 1024)
}

/// A line like `VmRSS:  1234 kB`.
fn kibibytes(path: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name))?.trim().trim_end_matches(" kB").trim().parse().ok()
}

/// Kills every process that carries one of these calls, with all that is below it, until none is left.
/// Never this process or one it was started by.
pub fn sweep(calls: &[CallId]) {
    let wanted: HashSet<&str> = calls.iter().map(CallId::as_str).filter(|call| !call.is_empty()).collect();
    if wanted.is_empty() {
        return;
    }
    let own = getpid().as_raw_nonzero().get();
    let mut refused = HashSet::new();
    let begun = Instant::now();
    while begun.elapsed() < SWEEP_TIME_MAX {
        let table = Table::read();
        let ours: HashSet<i32> = table.line_up(own).map(|process| process.pid).collect();
        let marked: HashSet<i32> = table
            .all()
            .filter(|process| !ours.contains(&process.pid) && process.call().is_some_and(|call| wanted.contains(call.as_str())))
            .map(|process| process.pid)
            .collect();
        let mut left = false;
        for process in table.all().filter(|process| !ours.contains(&process.pid)) {
            if !refused.contains(&process.pid) && table.line_up(process.pid).any(|above| marked.contains(&above.pid)) {
                match process.signal(Signal::KILL) {
                    Signalled::Sent => left = true,
                    Signalled::Gone => {}
                    Signalled::Refused => drop(refused.insert(process.pid)),
                }
            }
        }
        if !left {
            return;
        }
        thread::sleep(SWEEP_PAUSE);
    }
    tracing::warn!(calls = calls.len(), "processes of earlier calls could not be killed");
}

/// `None` for a process that is gone, or dead and only waits for its parent to notice.
fn read_stat(pid: i32) -> Option<Seen> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(pid, &String::from_utf8_lossy(&stat))
}

fn parse_stat(pid: i32, stat: &str) -> Option<Seen> {
    // The name in parentheses may hold anything, also spaces and parentheses; what follows the last one is regular.
    let rest = &stat[stat.rfind(')')? + 1..];
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field).and_then(|text| text.parse::<i64>().ok());
    let threads = number(17)?;
    // A dead first thread with others alive is a living process.
    if matches!(*fields.first()?, "Z" | "X") && threads <= 1 {
        return None;
    }
    Some(Seen {
        pid,
        parent: i32::try_from(number(1)?).ok()?,
        group: i32::try_from(number(2)?).ok()?,
        session: i32::try_from(number(3)?).ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let line = "42 (a) S (b)) S 7 8 9 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 5555 0 0";
        assert_eq!(parse_stat(42, line), Some(Seen { pid: 42, parent: 7, group: 8, session: 9, started: 5555 }));
    }

    #[test]
    fn the_dead_are_not_there_unless_a_thread_of_theirs_lives() {
        let line = |threads: u32| format!("42 (x) Z 7 8 9 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 {threads} 0 5555 0 0");
        assert_eq!(parse_stat(42, &line(1)), None);
        assert!(parse_stat(42, &line(3)).is_some());
    }

    #[test]
    fn a_mark_is_the_hard_limit_and_no_limit_is_no_mark() {
        let limits =
            |hard: &str| format!("Limit  Soft Limit  Hard Limit  Units\nMax file locks            3          {hard}          locks\n");
        assert_eq!((parse_mark(&limits("17")), parse_mark(&limits("unlimited")), parse_mark("")), (Some(17), None, None));
    }

    #[test]
    fn this_process_is_in_the_table_below_its_parent() {
        let own = getpid().as_raw_nonzero().get();
        let table = Table::read();
        let parents: Vec<i32> = table.line_up(own).map(|process| process.pid).collect();
        assert_eq!(parents[0], own);
        assert!(1 < parents.len());
    }
}
