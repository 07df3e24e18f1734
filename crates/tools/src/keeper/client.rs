//! posse's side of the keeper: starts it when the first process is wanted, speaks to it, and starts another if it died.
//!
//! Small lines go to the keeper by a blocking write under a lock (its reading thread does nothing else, so it never lets
//! us wait) and come back on a thread of our own; so a `Drop` can end a tree, and no runtime needs to live for it.

use std::{
    collections::HashMap,
    ffi::OsString,
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use posse_session::{BoxFuture, CallId, CommandLine, Ended, Process, SpawnError};
use tokio::sync::{oneshot, watch};

use super::{KEEPER_ARGUMENT, LINE_BYTES_MAX, Told, Want};
use crate::process_table;

/// A keeper that dies at every start is broken; after one retry the call fails with words.
const ATTEMPTS_MAX: u32 = 2;

/// The handle to the keeper. Dropping the last one closes its pipe, and everything it keeps is killed.
pub struct Keeper {
    program: PathBuf,
    arguments: Vec<OsString>,
    link: Mutex<Option<Arc<Link>>>,
}

/// A living keeper process.
struct Link {
    pid: u32,
    to_keeper: Mutex<ChildStdin>,
    starts: Mutex<Starts>,
    next: AtomicU64,
}

/// What was asked of a keeper and is not yet over. `None` when it died: nothing can be added.
type Starts = Option<HashMap<u64, Arc<Started>>>;

struct Started {
    call: CallId,
    answer: Mutex<Option<oneshot::Sender<Result<u32, String>>>>,
    ended: watch::Sender<Option<Ended>>,
    gone: watch::Sender<bool>,
    stragglers: AtomicU32,
}

impl Keeper {
    /// This same program, run as `posse __keeper`. The link in /proc also works when the file was replaced by an update.
    pub fn new() -> Self {
        Self::with_program("/proc/self/exe", [KEEPER_ARGUMENT])
    }

    /// Another program that calls [`crate::keeper_main`].
    pub fn with_program(program: impl Into<PathBuf>, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self { program: program.into(), arguments: arguments.into_iter().map(Into::into).collect(), link: Mutex::new(None) }
    }

    /// Starts a command below the keeper.
    pub async fn spawn(&self, line: CommandLine) -> Result<Arc<dyn Process>, SpawnError> {
        for _ in 0..ATTEMPTS_MAX {
            let link = self.link()?;
            let id = link.next.fetch_add(1, Ordering::Relaxed);
            let (answer, answered) = oneshot::channel();
            let started = Arc::new(Started {
                call: line.call.clone(),
                answer: Mutex::new(Some(answer)),
                ended: watch::Sender::new(None),
                gone: watch::Sender::new(false),
                stragglers: AtomicU32::new(0),
            });
            let request = wire(&Want::Start { id, line: (&line).into() })?;
            // Made before the write: if this future is dropped while it waits, the process is still ended.
            let mut process = Kept { pid: 0, id, link: Arc::clone(&link), started: Arc::clone(&started) };
            if !link.add(id, started) || !link.write(&request) {
                self.forget(&link);
                continue;
            }
            match answered.await {
                Ok(Ok(pid)) => {
                    process.pid = pid;
                    return Ok(Arc::new(process));
                }
                Ok(Err(words)) => return Err(SpawnError { words }),
                // The keeper died with the request in its hands; whether the command began is unknown, so no second try.
                Err(_) => {
                    return Err(SpawnError { words: "the keeper of processes died while starting the command; it may have begun".into() });
                }
            }
        }
        Err(SpawnError { words: "the keeper of processes does not stay alive".into() })
    }

    /// The number of the living keeper process, if one was started. For `doctor` and tests.
    pub fn pid(&self) -> Option<u32> {
        lock(&self.link).as_ref().filter(|link| link.is_alive()).map(|link| link.pid)
    }

    fn link(&self) -> Result<Arc<Link>, SpawnError> {
        let mut link = lock(&self.link);
        match link.as_ref() {
            Some(living) if living.is_alive() => Ok(Arc::clone(living)),
            _ => {
                let new = Link::start(&self.program, &self.arguments)
                    .map_err(|error| SpawnError { words: format!("cannot start the keeper of processes: {error}") })?;
                *link = Some(Arc::clone(&new));
                Ok(new)
            }
        }
    }

    fn forget(&self, dead: &Arc<Link>) {
        let mut link = lock(&self.link);
        if link.as_ref().is_some_and(|current| Arc::ptr_eq(current, dead)) {
            *link = None;
        }
    }
}

impl Default for Keeper {
    fn default() -> Self {
        Self::new()
    }
}

impl Link {
    fn start(program: &PathBuf, arguments: &[OsString]) -> std::io::Result<Arc<Self>> {
        let mut child = Command::new(program)
            .arg0("posse-keeper")
            .args(arguments)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // A KILL to posse's whole group must leave the one who cleans up.
            .process_group(0)
            .spawn()?;
        let (Some(to_keeper), Some(from_keeper)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        };
        let link = Arc::new(Self {
            pid: child.id(),
            to_keeper: Mutex::new(to_keeper),
            starts: Mutex::new(Some(HashMap::new())),
            next: AtomicU64::new(1),
        });
        // The thread holds the link weakly: the pipe must close when the last handle goes, not when the keeper does.
        let listening = Arc::downgrade(&link);
        std::thread::Builder::new().name("keeper".into()).spawn(move || listen(&listening, from_keeper, child))?;
        Ok(link)
    }

    fn is_alive(&self) -> bool {
        lock(&self.starts).is_some()
    }

    fn add(&self, id: u64, started: Arc<Started>) -> bool {
        lock(&self.starts).as_mut().map(|starts| starts.insert(id, started)).is_some()
    }

    fn write(&self, line: &[u8]) -> bool {
        lock(&self.to_keeper).write_all(line).is_ok()
    }

    fn take_in(&self, told: Told) {
        let find = |id: u64| lock(&self.starts).as_ref().and_then(|starts| starts.get(&id).cloned());
        let remove = |id: u64| lock(&self.starts).as_mut().and_then(|starts| starts.remove(&id));
        match told {
            Told::Started { id, pid } => drop(find(id).map(|started| started.answer(Ok(pid)))),
            Told::Failed { id, words } => drop(remove(id).map(|started| {
                started.answer(Err(words));
                started.is_over(Ended::Unknown);
            })),
            Told::Exited { id, code, signal } => drop(find(id).map(|started| {
                started.ended.send_replace(Some(match (code, signal) {
                    (Some(code), _) => Ended::Code(code),
                    (None, Some(signal)) => Ended::Signal(signal),
                    (None, None) => Ended::Unknown,
                }));
            })),
            Told::Gone { id, stragglers } => drop(remove(id).map(|started| {
                started.stragglers.store(stragglers, Ordering::Relaxed);
                started.is_over(Ended::Unknown);
            })),
        }
    }

    /// The keeper is dead. Its direct children died with it; what they had started is found by its call.
    fn bury(&self) {
        let left: Vec<Arc<Started>> = lock(&self.starts).take().into_iter().flatten().map(|(_, started)| started).collect();
        let calls: Vec<CallId> = left.iter().map(|started| started.call.clone()).collect();
        process_table::sweep(&calls);
        for started in left {
            started.is_over(Ended::Unknown);
            drop(lock(&started.answer).take());
        }
    }
}

impl Started {
    fn answer(&self, answer: Result<u32, String>) {
        if let Some(waiting) = lock(&self.answer).take() {
            let _ = waiting.send(answer);
        }
    }

    fn is_over(&self, how: Ended) {
        self.ended.send_if_modified(|ended| ended.is_none() && ended.insert(how) == &how);
        self.gone.send_replace(true);
    }
}

/// A started process, seen from posse. Dropping it ends what is left of it.
struct Kept {
    pid: u32,
    id: u64,
    link: Arc<Link>,
    started: Arc<Started>,
}

impl Kept {
    fn ask_to_end(&self, grace: Duration) {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        if !*self.started.gone.borrow()
            && let Ok(line) = wire(&Want::End { id: self.id, grace_ms })
        {
            // A failed write means that the keeper is dead, and then the listening thread cleans up.
            self.link.write(&line);
        }
    }
}

impl Process for Kept {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn wait(&self) -> BoxFuture<'_, Ended> {
        Box::pin(async {
            let mut ended = self.started.ended.subscribe();
            ended.wait_for(Option::is_some).await.ok().and_then(|ended| *ended).unwrap_or(Ended::Unknown)
        })
    }

    fn end(&self, grace: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let mut gone = self.started.gone.subscribe();
            self.ask_to_end(grace);
            // An error would mean that the sender is gone, which we hold ourselves.
            let _ = gone.wait_for(|gone| *gone).await;
        })
    }

    fn stragglers(&self) -> u32 {
        self.started.stragglers.load(Ordering::Relaxed)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.ask_to_end(Duration::ZERO);
    }
}

fn listen(link: &std::sync::Weak<Link>, from_keeper: ChildStdout, mut child: Child) {
    for line in BufReader::new(from_keeper).lines().map_while(Result::ok) {
        let (Some(link), Ok(told)) = (link.upgrade(), serde_json::from_str(&line)) else { continue };
        link.take_in(told);
    }
    let _ = child.wait();
    if let Some(link) = link.upgrade() {
        link.bury();
    }
}

fn wire(want: &Want) -> Result<Vec<u8>, SpawnError> {
    let mut line =
        serde_json::to_vec(want).map_err(|error| SpawnError { words: format!("the command cannot be sent to the keeper: {error}") })?;
    if LINE_BYTES_MAX <= line.len() {
        return Err(SpawnError { words: "the command is too long".into() });
    }
    line.push(b'\n');
    Ok(line)
}

/// A panic elsewhere cannot leave these values half-changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
