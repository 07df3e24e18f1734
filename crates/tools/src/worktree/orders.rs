//! Orders: folders that a command of the user's makes. Its folder is the user's; here is only what posse notes of it.
//!
//! A posse that is killed between the command and the task's first fact must find again what was made. So a note is
//! written before the command begins, and what the command says gets its last name by the command's own shell, when it has
//! ended well. Whoever gives the same order again reads there. The command runs below the keeper like every other process.

use std::{
    fs::{self, File},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use posse_session::{CallId, CommandLine, Ended, Process, Worktree};
use serde::{Deserialize, Serialize};

use super::{
    Worktrees,
    leftovers::{Leftover, LeftoverKind},
    locks::Lock,
    workshop::{Workshop, is_slug, names_in},
};
use crate::{environment::child_env, keeper::Keeper, process_table};

/// What it says is a path and a few lines besides; a build in it says more.
const OUTPUT_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The last line of an output is looked for in so much of it.
const TAIL_BYTES: u64 = 16 * 1024;
/// A reason is a few lines.
const REASON_BYTES_MAX: usize = 500;
/// How often it is looked at how much was said.
const TICK: Duration = Duration::from_millis(100);
/// From TERM to KILL, for what it leaves running and for one that takes too long.
const GRACE: Duration = Duration::from_millis(500);
/// After KILL a process can only be held by the kernel; nobody waits for that.
const END_MAX: Duration = Duration::from_secs(3);

/// A lock that is held for so long is held by somebody who works.
const HELD_MIN: Duration = Duration::from_millis(500);
const HELD_NAP: Duration = Duration::from_millis(5);

/// The rename is the last that happens, and only after a success: whoever finds the name knows that all was made.
const SHELL: &str = r#"sh -c "$1" >"$2" && mv -f -- "$2" "$3""#;

/// What was being done when a note is found, and for whom.
const LOCK: &str = "lock";
const NOTE: &str = "note";
const OUTPUT: &str = "output";
const COMPLAINT: &str = "complaint";
const MADE: &str = "made";

/// A folder that a command of the user's is to make.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    pub command: &'a str,
    pub task: &'a str,
    /// Where the caller works; the command runs there.
    pub home: &'a str,
    /// A command that takes longer makes nothing.
    pub time: Duration,
}

/// Written before the command begins.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    task: String,
    home: String,
}

/// The files of one order.
#[derive(Debug, Clone)]
struct Papers {
    folder: PathBuf,
    slug: String,
}

impl Papers {
    fn of(workshop: &Workshop, slug: &str) -> Self {
        Self { folder: workshop.orders_folder(), slug: slug.to_owned() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{}.{name}", self.slug))
    }

    fn lock(&self) -> Result<Lock, String> {
        fs::create_dir_all(&self.folder).map_err(|error| format!("{} cannot be used: {error}", self.folder.display()))?;
        Lock::take(&self.path(LOCK))
    }

    /// Nothing when somebody is at it. A process that is just being started has every lock of this one for a moment, so
    /// that is not believed at once.
    fn free_lock(&self) -> Result<Option<Lock>, String> {
        let until = Instant::now() + HELD_MIN;
        loop {
            match Lock::try_take(&self.path(LOCK))? {
                None if Instant::now() < until => std::thread::sleep(HELD_NAP),
                lock => return Ok(lock),
            }
        }
    }

    fn note(&self) -> Option<Note> {
        serde_json::from_slice(&fs::read(self.path(NOTE)).ok()?).ok()
    }

    fn write_note(&self, order: &Note) -> Result<(), String> {
        let path = self.path(NOTE);
        let write = || -> io::Result<()> {
            let mut file = File::create(&path)?;
            file.write_all(&serde_json::to_vec(order)?)?;
            file.sync_data()
        };
        write().map_err(|error| format!("{} cannot be written: {error}", path.display()))
    }

    /// The folder that the command has named, if it has ended well and the folder is there.
    fn made(&self, home: &str) -> Result<PathBuf, String> {
        let said = tail(&self.path(MADE)).map_err(|error| error.to_string())?;
        let line = said.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        let folder = Path::new(home).join(line).canonicalize().ok().filter(|folder| folder.is_dir() && !line.is_empty());
        folder.ok_or_else(|| format!("its last line must be a folder, and was `{line}`"))
    }

    /// What it complained of, in its last words.
    fn reason(&self) -> String {
        let said = tail(&self.path(COMPLAINT)).unwrap_or_default();
        let said = said.trim();
        let from = said.char_indices().map(|(at, _)| at).find(|at| said.len() - at <= REASON_BYTES_MAX).unwrap_or(0);
        said[from..].to_owned()
    }

    fn bytes(&self) -> u64 {
        let bytes = |name: &str| fs::metadata(self.path(name)).map_or(0, |metadata| metadata.len());
        bytes(OUTPUT) + bytes(COMPLAINT)
    }

    /// The note goes last: until then whoever looks knows that there was an order.
    fn clear(&self, also_the_note: bool) {
        for name in [MADE, OUTPUT, COMPLAINT] {
            // One that stays is listed as something left over.
            let _ = fs::remove_file(self.path(name));
        }
        if also_the_note {
            let _ = fs::remove_file(self.path(NOTE));
        }
    }
}

/// The call in the environment of an order's processes, by which they are found after a kill.
fn call_of(slug: &str) -> CallId {
    CallId::new(format!("create_{slug}"))
}

/// Lets the command make the folder, or finds the one that it made for this task before.
pub(super) async fn carry_out(workshop: Workshop, keeper: &Keeper, order: &Order<'_>) -> Result<(Worktree, String), String> {
    let slug = Worktrees::slug(order.task);
    let note = Note { task: order.task.to_owned(), home: order.home.to_owned() };
    let papers = Papers::of(&workshop, &slug);
    let failed = |words: String| format!("The `worktree.create` command made no folder: {words}.");
    let begun = {
        let papers = papers.clone();
        tokio::task::spawn_blocking(move || begin(workshop, &papers, &note)).await
    };
    let (workshop, lock, made) = begun.map_err(|error| failed(error.to_string()))?.map_err(failed)?;
    let folder = match made {
        Some(folder) => Ok(folder),
        None => match run(&papers, keeper, order).await {
            Ok(()) => {
                workshop.step();
                papers.made(order.home)
            }
            // It may have done its work; whoever looks for it needs the note.
            Err(Failed::Unknown(words)) => return Err(failed(words)),
            Err(Failed::Over(words)) => Err(words),
        },
    };
    let folder = match folder {
        Ok(folder) => folder,
        Err(words) => {
            papers.clear(true);
            lock.forget();
            return Err(failed(words));
        }
    };
    drop(lock);
    let path = folder.display().to_string();
    Ok((Worktree { home: order.home.to_owned(), path: path.clone(), branch: String::new(), base: String::new() }, path))
}

/// The order is ours and noted; or its folder is there already.
fn begin(workshop: Workshop, papers: &Papers, note: &Note) -> Result<(Workshop, Lock, Option<PathBuf>), String> {
    if !is_slug(&papers.slug) {
        return Err(format!("{:?} cannot name a folder: it takes a-z, 0-9, _ and -", papers.slug));
    }
    let lock = papers.lock()?;
    workshop.step();
    if papers.path(NOTE).exists() {
        // A posse that was killed a moment ago may have a keeper that still ends things.
        process_table::sweep(&[call_of(&papers.slug)]);
        if let Ok(folder) = papers.made(&note.home) {
            return Ok((workshop, lock, Some(folder)));
        }
    }
    papers.clear(false);
    papers.write_note(note)?;
    workshop.step();
    Ok((workshop, lock, None))
}

/// Why there is no folder.
enum Failed {
    /// The command has ended, in one way or another.
    Over(String),
    /// Nobody has seen its end.
    Unknown(String),
}

async fn run(papers: &Papers, keeper: &Keeper, order: &Order<'_>) -> Result<(), Failed> {
    let text = |path: PathBuf| path.to_str().map(str::to_owned).ok_or_else(|| Failed::Over(format!("{} is not Unicode", path.display())));
    let mut argv: Vec<String> = ["sh", "-c", SHELL, "sh", order.command].map(str::to_owned).to_vec();
    argv.extend([text(papers.path(OUTPUT))?, text(papers.path(MADE))?]);
    let mut env = child_env();
    env.extend([("POSSE_TASK".to_owned(), order.task.to_owned()), ("POSSE_SLUG".to_owned(), papers.slug.clone())]);
    let line = CommandLine { argv, cwd: order.home.into(), env, output: papers.path(COMPLAINT), call: call_of(&papers.slug) };
    let process = keeper.spawn(line).await.map_err(|error| Failed::Over(error.words))?;
    let flooded = async {
        while papers.bytes() <= OUTPUT_BYTES_MAX {
            tokio::time::sleep(TICK).await;
        }
    };
    let over = |words: String| Err(Failed::Over(words));
    let came_to = tokio::select! {
        ended = process.wait() => match ended {
            Ended::Code(0) => Ok(()),
            Ended::Code(code) => over(explained(format!("it ended with exit code {code}"), &papers.reason())),
            Ended::Signal(signal) => over(explained(format!("it was killed by signal {signal}"), &papers.reason())),
            Ended::Unknown if papers.path(MADE).exists() => Ok(()),
            Ended::Unknown => Err(Failed::Unknown("the process that watches commands died; whether it did its work is not known".into())),
        },
        () = tokio::time::sleep(order.time) => {
            over(explained(format!("it took longer than {}", long(order.time)), &papers.reason()))
        }
        () = flooded => over(format!("it printed more than {OUTPUT_BYTES_MAX} bytes")),
    };
    end(&*process).await;
    came_to
}

/// Nothing that it started outlives it.
async fn end(process: &dyn Process) {
    let _ = tokio::time::timeout(END_MAX, process.end(GRACE)).await;
}

fn explained(what: String, reason: &str) -> String {
    if reason.is_empty() { what } else { format!("{what}: {reason}") }
}

fn long(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds != 0 && seconds % 60 == 0 => format!("{} minutes", seconds / 60),
        _ => format!("{} s", time.as_secs_f64()),
    }
}

fn tail(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Every order that is noted and that nobody is at right now. Whether its task has begun is for the caller to know.
pub(super) fn list(workshop: &Workshop) -> Vec<Leftover> {
    let names = names_in(&workshop.orders_folder());
    let mut slugs: Vec<&str> = names.iter().filter_map(|name| name.split('.').next()).filter(|slug| is_slug(slug)).collect();
    slugs.dedup();
    slugs.into_iter().filter_map(|slug| of_order(&Papers::of(workshop, slug))).collect()
}

fn of_order(papers: &Papers) -> Option<Leftover> {
    if papers.path(LOCK).exists() && !matches!(papers.free_lock(), Ok(Some(_))) {
        return None;
    }
    let found = |place: PathBuf, cleanable: bool, why: String| {
        Some(Leftover {
            kind: LeftoverKind::Order,
            slug: papers.slug.clone(),
            place: place.display().to_string(),
            cleanable,
            why,
            left: None,
        })
    };
    let Some(note) = papers.note() else {
        return found(papers.path(NOTE), true, "an order for a folder was interrupted before it began".to_owned());
    };
    match papers.made(&note.home) {
        Ok(folder) => {
            let why = format!(
                "your `worktree.create` command made it for the task {}, which has not begun: remove it if nobody goes on with that",
                note.task
            );
            found(folder, false, why)
        }
        Err(_) => {
            let why = format!(
                "your `worktree.create` command was interrupted in {}, for the task {}: look whether it has left something",
                note.home, note.task
            );
            found(papers.path(NOTE), true, why)
        }
    }
}

/// Forgets what is noted of an order; the folder itself is the user's.
pub(super) fn forget(workshop: &Workshop, slug: &str) -> Result<(), String> {
    let papers = Papers::of(workshop, slug);
    if !is_slug(slug) || !papers.folder.is_dir() {
        return Ok(());
    }
    let lock = papers.free_lock()?.ok_or_else(|| format!("{slug} is being made right now"))?;
    papers.clear(true);
    lock.forget();
    Ok(())
}
