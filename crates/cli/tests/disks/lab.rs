//! The shim, built once, and posse below it.

use std::{
    env, fmt, fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::support::{Done, World};

/// Who needs longer than this hangs. A whole story takes a second; on a machine with twenty builds it took twenty.
pub(crate) const LIFE_MAX: Duration = Duration::from_secs(60);

/// The guard writes its report when the last process of a run is gone.
const REPORT_MAX: Duration = Duration::from_secs(10);

pub(crate) const ENOSPC: i32 = 28;
pub(crate) const EIO: i32 = 5;
pub(crate) const EDQUOT: i32 = 122;
pub(crate) const EROFS: i32 = 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// Only this one call.
    Once,
    /// This call and all after it.
    Stays,
    /// Half of the write is done, and from then on nothing.
    Short,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    /// Counts from 1.
    pub(crate) at: usize,
    pub(crate) errno: i32,
    pub(crate) how: How,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "errno {} at call {} ({:?})", self.errno, self.at, self.how)
    }
}

/// What the guard saw.
#[derive(Debug)]
pub(crate) struct Report {
    /// Changes of files below the watched folder.
    pub(crate) counted: usize,
    /// The first that failed: which call, on which file.
    pub(crate) hit: Option<String>,
}

/// The built shim, or nothing where it cannot work; then the test says so and ends well.
pub(crate) fn shim() -> Option<&'static Path> {
    static SHIM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match SHIM.get_or_init(|| build().and_then(probe)) {
        Ok(path) => Some(path),
        Err(why) => {
            eprintln!("skipped: {why}");
            None
        }
    }
}

fn build() -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/disks/shim.c");
    // A name of this process's own: another run of the tests may be building too.
    let made = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("disk-lab-{}.so", std::process::id()));
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".into());
    let output = Command::new(&compiler).args(["-O1", "-Wall", "-shared", "-fPIC", "-o"]).arg(&made).arg(&source).output();
    let output = output.map_err(|error| format!("no C compiler {compiler}: {error}"))?;
    assert!(output.status.success(), "{}: {}", source.display(), String::from_utf8_lossy(&output.stderr));
    let lasting = made.with_file_name("disk-lab.so");
    fs::rename(&made, &lasting).unwrap();
    Ok(lasting)
}

/// A static binary takes no shim, and some kernels and containers take no filter.
fn probe(shim: PathBuf) -> Result<PathBuf, String> {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    if !rustix::process::geteuid().is_root() && !matches!(scope.trim(), "" | "0") {
        return Err("here only root may look into another process (kernel.yama.ptrace_scope)".into());
    }
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report");
    let output = Command::new(env!("CARGO_BIN_EXE_posse"))
        .arg("--version")
        .env("LD_PRELOAD", &shim)
        .env("LAB_ROOT", folder.path())
        .env("LAB_REPORT", &report)
        .output()
        .unwrap();
    if !output.status.success() {
        return Err(format!("this kernel lets no process watch another's calls ({:?})", output.status));
    }
    match read_report(&report, Duration::from_secs(2)) {
        Some(_) => Ok(shim),
        None => Err("the binary is static: nothing can be loaded into it".into()),
    }
}

/// `posse ARGS` with a guard over what it does below `watched`.
pub(crate) fn run(world: &World, args: &[&str], watched: &Path, fault: Option<Fault>, journal: Option<&Path>) -> (Done, Report) {
    let shim = shim().unwrap();
    let report = world.folder().join("report");
    let _ = fs::remove_file(&report);
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let mut command = world.command(args).env("LD_PRELOAD", &text(shim)).env("LAB_ROOT", &text(watched)).env("LAB_REPORT", &text(&report));
    if let Some(fault) = fault {
        let how = match fault.how {
            How::Once => "once",
            How::Stays => "stays",
            How::Short => "short",
        };
        command = command.env("LAB_FAIL_AT", &fault.at.to_string()).env("LAB_ERRNO", &fault.errno.to_string()).env("LAB_HOW", how);
    }
    if let Some(journal) = journal {
        command = command.env("LAB_JOURNAL", &text(journal));
    }
    let done = command.within(LIFE_MAX).run();
    let report = read_report(&report, REPORT_MAX).unwrap_or_else(|| panic!("processes of this run never end: {done:#?}"));
    (done, report)
}

fn read_report(path: &Path, within: Duration) -> Option<Report> {
    let end = Instant::now() + within;
    loop {
        if let Ok(text) = fs::read_to_string(path) {
            let (counted, failed) = text.trim_end().split_once('\n').unwrap();
            let hit = failed.split_once(' ').filter(|(number, _)| *number != "0").map(|(_, what)| what.to_owned());
            return Some(Report { counted: counted.parse().unwrap(), hit });
        }
        if end <= Instant::now() {
            return None;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn env_number(name: &str) -> Option<usize> {
    env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name}={value} is not a number")))
}

/// A run mostly waits for its disk and its tools.
const WORKERS: usize = 2;

/// After so many there is something to mend first.
const BROKEN_MAX: usize = 40;

/// A long run says how far it is.
const TOLD_EVERY: usize = 100;

/// Tries all of these, a few at a time, and answers with what broke: one broken promise must not hide the next.
pub(crate) fn side_by_side<T: Sync>(all: &[T], attempt: impl Fn(&T) + Sync) -> Vec<String> {
    let (next, broken) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = all.get(number) else { return };
            if number % TOLD_EVERY == TOLD_EVERY - 1 {
                println!("{} of {}, {} broken", number + 1, all.len(), broken.lock().unwrap().len());
            }
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| attempt(one))) {
                let words = panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic without words".into());
                broken.lock().unwrap().push(words);
            }
            if BROKEN_MAX <= broken.lock().unwrap().len() {
                return;
            }
        }
    };
    thread::scope(|scope| (0..WORKERS).for_each(|_| drop(scope.spawn(work))));
    broken.into_inner().unwrap()
}
