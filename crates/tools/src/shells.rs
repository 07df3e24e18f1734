//! The shells of a process: what bounds each of them, and those that run in the background, by session.
//!
//! A background shell is a command below the keeper and a task that watches it to its end. It outlives its call, never
//! its session's interest in it (`bash/kept.rs`) nor this registry: when either goes, it is ended. Two files in the session's spool belong to each: what it
//! prints (`bash_1.out`), and a record (`bash_1.json`) from which a later process knows what it was. The record has no
//! end when posse died; what such a shell may have left running is swept before the session's next command.
//! Reading and ending shells is for `bash_output.rs` and `kill_shell.rs`.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use posse_session::{CallId, CommandLine, Ended, Process, SessionId, ToolContext};
use serde::{Deserialize, Serialize};
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    bash::{
        exit_code,
        output::Output,
        watch::{Bounds, Over, end, until_over},
        words_of_end, words_of_rest,
    },
    environment::child_env,
    files::{open_regular, write_whole},
    paths::real,
    private::Private,
    text::spool_file,
};

/// A server, a build, some watchers; more at once is a loop that forgot what it has started.
const RUNNING_MAX: usize = 16;
/// Ended shells that are remembered with where they were read to; of older ones the record in the spool tells.
const ENDED_MAX: usize = 64;
/// Shells named in one error.
const LISTED_MAX: usize = 20;
/// A call's id and the first line of a command.
const RECORD_BYTES_MAX: u64 = 16 * 1024;

/// What is said of a shell that its session let go of, or that was closed with it.
const ENDED_WITH_SESSION: &str = "ended with its session";
/// What is said of a shell whose posse did not live to see its end.
const ENDED_WITH_POSSE: &str = "ended with the posse process that ran it";

/// The shells of one process. Dropping it ends those that still run.
#[derive(Default)]
pub struct Shells {
    bounds: Bounds,
    /// Nothing may be left running.
    foreground_only: bool,
    rooms: Mutex<HashMap<SessionId, Room>>,
    /// Held while a session's earlier shells are looked up, so that none of the new ones is taken for one of them.
    entering: tokio::sync::Mutex<()>,
}

/// The background shells of one session.
#[derive(Default)]
struct Room {
    /// The highest number ever given, also by an earlier process: an id names one shell for ever.
    last: u32,
    shells: BTreeMap<u32, Entry>,
}

struct Entry {
    shell: Arc<Shell>,
    /// Absent while the command is being started.
    watcher: Option<Watcher>,
}

/// The task that holds a shell's process. Aborted when dropped, and then the process is ended.
struct Watcher(JoinHandle<()>);

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A background shell, running or not.
pub(crate) struct Shell {
    number: u32,
    title: String,
    path: PathBuf,
    read_to: AtomicU64,
    wanted_dead: watch::Sender<Option<Ending>>,
    /// Calls that are reading it or ending it now.
    readers: watch::Sender<usize>,
    /// A call has shown its end to the model.
    told: AtomicBool,
    /// Nothing while it runs. Whoever wants to hear of the end subscribes here.
    end: watch::Sender<Option<End>>,
}

/// Who wants a shell dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// The model, which therefore needs no notice.
    Killed,
    /// Its session has let go of it.
    LetGo,
}

/// How a shell ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct End {
    pub(crate) over: Over,
    pub(crate) words: String,
    /// Nothing of it is left.
    pub(crate) all_gone: bool,
}

/// A command to leave running.
pub(crate) struct Launch {
    pub(crate) argv: Vec<String>,
    pub(crate) cwd: PathBuf,
    pub(crate) title: String,
    pub(crate) time: Option<Duration>,
}

/// Whom an id names.
pub(crate) enum Found {
    Shell(Arc<Shell>),
    /// A shell that is only on record: of an earlier process, or long ended.
    Earlier {
        words: String,
        path: Option<PathBuf>,
    },
}

/// What the spool knows of a shell.
#[derive(Serialize, Deserialize)]
struct Record {
    call: CallId,
    command: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<String>,
}

impl Shells {
    /// With another bound for what one command may print: small disks, tests.
    pub fn with_spool_max(mut self, bytes: u64) -> Self {
        self.bounds.spool_bytes = bytes;
        self
    }

    /// With another bound for the memory that one command and all it starts may take: small machines, tests.
    pub fn with_memory_max(mut self, bytes: u64) -> Self {
        self.bounds.memory_bytes = bytes;
        self
    }

    /// For a user who wants nothing in the background: bash neither offers it nor does it.
    pub fn without_background(mut self) -> Self {
        self.foreground_only = true;
        self
    }

    /// Whether commands may be left running.
    pub fn background(&self) -> bool {
        !self.foreground_only
    }

    /// What runs in the background now, each by the first line of its command: for whoever is about to end it all.
    pub fn running(&self) -> Vec<String> {
        let rooms = lock(&self.rooms);
        rooms.values().flat_map(|room| room.running()).map(|shell| shell.title.clone()).collect()
    }

    /// Ends and forgets the shells of a session that is closed.
    pub fn close(&self, session: &SessionId) {
        let room = lock(&self.rooms).remove(session);
        drop(room);
    }

    pub(crate) fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Before a session's first command in this process: what an earlier one left in the background is ended.
    pub(crate) async fn enter(&self, context: &ToolContext) {
        let _entering = self.entering.lock().await;
        if lock(&self.rooms).contains_key(&context.session) {
            return;
        }
        let private = Private::of(&*context.workspace);
        let (mut last, mut lost) = (0, Vec::new());
        if let Ok(spool) = real(&context.spool) {
            for number in numbers(&spool) {
                last = last.max(number);
                if let Some(record) = Record::read(&spool, number, &private).filter(|record| record.ended.is_none()) {
                    lost.push((number, record));
                }
            }
            let calls: Vec<CallId> = lost.iter().map(|(_, record)| record.call.clone()).collect();
            context.workspace.sweep(&calls).await;
            for (number, record) in lost {
                Record { ended: Some(ENDED_WITH_POSSE.into()), ..record }.write(&spool, number, &private);
            }
        }
        lock(&self.rooms).insert(context.session.clone(), Room { last, shells: BTreeMap::new() });
    }

    /// Starts a command that goes on when its call has ended.
    pub(crate) async fn start(&self, launch: Launch, call: &CallId, context: &ToolContext) -> Result<Arc<Shell>, String> {
        let spool = real(&context.spool).map_err(no_spool)?;
        let seat = self.take_seat(&launch.title, &spool, &context.session)?;
        let shell = Arc::clone(&seat.shell);
        let private = || Private::of(&*context.workspace);
        let record = Record { call: call.clone(), command: shell.title.clone(), ended: None };
        record.try_write(&spool, shell.number, &private()).map_err(no_spool)?;
        let line = CommandLine { argv: launch.argv, cwd: launch.cwd, env: child_env(), output: shell.path.clone(), call: call.clone() };
        let process = context.workspace.spawn(line).await.map_err(|error| format!("bash: {error}"))?;
        let watched = Watched {
            process,
            time: launch.time,
            bounds: self.bounds,
            output: Output::new(shell.path.clone(), private()),
            shell: Arc::clone(&shell),
            record,
            spool,
            private: private(),
        };
        seat.keep(Watcher(tokio::spawn(watched.see_to_the_end())));
        Ok(shell)
    }

    /// A number and a place among those that may run; given back when the start fails.
    fn take_seat(&self, title: &str, spool: &Path, session: &SessionId) -> Result<Seat<'_>, String> {
        let mut rooms = lock(&self.rooms);
        let room = rooms.entry(session.clone()).or_default();
        if RUNNING_MAX <= room.running().count() {
            let list: Vec<String> = room.running().map(|shell| format!("{} ({})", shell.id(), shell.title)).collect();
            return Err(format!(
                "bash: {RUNNING_MAX} background shells run already, and no more are started: {}. End one with kill_shell first.",
                list.join(", ")
            ));
        }
        room.forget_the_oldest();
        let number = room.last + 1;
        let path = spool_file(spool, &format!("{}.out", id(number))).map_err(no_spool)?;
        room.last = number;
        let shell = Arc::new(Shell {
            number,
            title: title.to_owned(),
            path,
            read_to: AtomicU64::new(0),
            wanted_dead: watch::Sender::new(None),
            readers: watch::Sender::new(0),
            told: AtomicBool::new(false),
            end: watch::Sender::new(None),
        });
        room.shells.insert(number, Entry { shell: Arc::clone(&shell), watcher: None });
        Ok(Seat { shells: self, session: session.clone(), shell, kept: false })
    }

    /// The shell that an id names, in this session.
    pub(crate) async fn find(&self, tool: &str, wanted: &str, context: &ToolContext) -> Result<Found, String> {
        self.enter(context).await;
        let spool = real(&context.spool).map_err(no_spool)?;
        let private = Private::of(&*context.workspace);
        let name = wanted.trim();
        let number = name.strip_prefix("bash_").unwrap_or(name).parse::<u32>().ok();
        let known =
            number.and_then(|number| lock(&self.rooms).get(&context.session)?.shells.get(&number).map(|entry| Arc::clone(&entry.shell)));
        if let Some(shell) = known {
            return Ok(Found::Shell(shell));
        }
        let recorded = number.and_then(|number| Some((number, Record::read(&spool, number, &private)?)));
        if let Some((number, record)) = recorded {
            let words = format!("{}: {} (`{}`)", id(number), record.ended.as_deref().unwrap_or(ENDED_WITH_POSSE), record.command);
            let path = spool.join(format!("{}.out", id(number)));
            return Ok(Found::Earlier { words, path: path.is_file().then_some(path) });
        }
        Err(match self.list(&spool, context, &private) {
            list if list.is_empty() => format!(
                "{tool}: there is no background shell `{name}`, and none was started in this session. Start one with bash and run_in_background: true."
            ),
            list => format!(
                "{tool}: there is no background shell `{name}`. There are: {}. Call {tool} again with one of them.",
                list.join(", ")
            ),
        })
    }

    /// The shells of a session, the newest first.
    fn list(&self, spool: &Path, context: &ToolContext, private: &Private) -> Vec<String> {
        let mut numbers = numbers(spool);
        numbers.sort_unstable_by(|one, other| other.cmp(one));
        let rooms = lock(&self.rooms);
        let known = |number: u32| rooms.get(&context.session)?.shells.get(&number).map(|entry| entry.shell.standing());
        let recorded = |number: u32| {
            let record = Record::read(spool, number, private)?;
            Some(format!("{} ({}: {})", id(number), record.ended.as_deref().unwrap_or(ENDED_WITH_POSSE), record.command))
        };
        numbers.into_iter().take(LISTED_MAX).filter_map(|number| known(number).or_else(|| recorded(number))).collect()
    }
}

impl Room {
    fn running(&self) -> impl Iterator<Item = &Arc<Shell>> {
        self.shells.values().map(|entry| &entry.shell).filter(|shell| shell.end().is_none())
    }

    fn forget_the_oldest(&mut self) {
        let ended: Vec<u32> = self.shells.iter().filter(|(_, entry)| entry.shell.end().is_some()).map(|(number, _)| *number).collect();
        for number in ended.iter().take(ended.len().saturating_sub(ENDED_MAX)) {
            self.shells.remove(number);
        }
    }
}

/// A shell that is about to start. Whatever goes wrong before it has, its place is free again.
struct Seat<'a> {
    shells: &'a Shells,
    session: SessionId,
    shell: Arc<Shell>,
    kept: bool,
}

impl Seat<'_> {
    fn keep(mut self, watcher: Watcher) {
        // A session that was closed meanwhile has no place for it: then the watcher ends with this function.
        if let Some(entry) = lock(&self.shells.rooms).get_mut(&self.session).and_then(|room| room.shells.get_mut(&self.shell.number)) {
            entry.watcher = Some(watcher);
        }
        self.kept = true;
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        if !self.kept {
            if let Some(room) = lock(&self.shells.rooms).get_mut(&self.session) {
                room.shells.remove(&self.shell.number);
            }
            let _ = fs::remove_file(self.shell.path.with_extension("json"));
        }
    }
}

impl Shell {
    pub(crate) fn id(&self) -> String {
        id(self.number)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn end(&self) -> Option<End> {
        self.end.borrow().clone()
    }

    /// Ready when it has ended.
    pub(crate) async fn ended(&self) -> End {
        let mut end = self.end.subscribe();
        let ended = end.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
        // The sender is ours, so there is always an end.
        ended.unwrap_or_else(End::with_session)
    }

    /// Wants it dead, with all it has started. Its end tells when that is done.
    pub(crate) fn kill(&self) {
        self.wanted_dead.send_replace(Some(Ending::Killed));
    }

    /// The same, when nobody waits for it any more.
    pub(crate) fn let_go(&self) {
        if self.end().is_none() {
            self.wanted_dead.send_if_modified(|wanted| wanted.is_none() && wanted.replace(Ending::LetGo).is_none());
        }
    }

    /// A call reads it, and may show its end, until this is dropped.
    pub(crate) fn reading(&self) -> Reading<'_> {
        self.readers.send_modify(|readers| *readers += 1);
        Reading(self)
    }

    /// Ready when no call reads it.
    pub(crate) async fn nobody_reads(&self) {
        // The sender is ours.
        let _ = self.readers.subscribe().wait_for(|readers| *readers == 0).await;
    }

    /// The model has been shown its end.
    pub(crate) fn was_told(&self) {
        self.told.store(true, Ordering::Relaxed);
    }

    /// Whether the model knows of its end, or wanted it.
    pub(crate) fn is_told(&self) -> bool {
        self.told.load(Ordering::Relaxed) || *self.wanted_dead.borrow() == Some(Ending::Killed)
    }

    /// Where the last read ended.
    pub(crate) fn read_to(&self) -> u64 {
        self.read_to.load(Ordering::Relaxed)
    }

    pub(crate) fn was_read_to(&self, at: u64) {
        self.read_to.store(at, Ordering::Relaxed);
    }

    /// `bash_1: running`.
    pub(crate) fn state(&self, end: Option<&End>) -> String {
        format!("{}: {}", self.id(), end.map_or("running", |end| &end.words))
    }

    fn standing(&self) -> String {
        format!("{} ({}: {})", self.id(), self.end().map_or_else(|| "running".to_owned(), |end| end.words), self.title)
    }
}

/// A call that reads a shell.
pub(crate) struct Reading<'a>(&'a Shell);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.readers.send_modify(|readers| *readers -= 1);
    }
}

impl End {
    /// Of a shell whose watcher is gone; whether something of it is left is not known.
    fn with_session() -> Self {
        Self { over: Over::Stopped, words: ENDED_WITH_SESSION.into(), all_gone: false }
    }

    /// One word for screens.
    pub(crate) fn word(&self) -> &'static str {
        match self.over {
            Over::Ended(Ended::Code(_)) => "exited",
            Over::Ended(Ended::Signal(_)) | Over::Stopped => "killed",
            Over::Ended(Ended::Unknown) => "lost",
            Over::TimedOut => "timed_out",
            Over::Flooded | Over::Hogged => "ended",
        }
    }

    pub(crate) fn exit(&self) -> Option<i32> {
        match self.over {
            Over::Ended(ended) => Some(exit_code(ended)),
            _ => None,
        }
    }
}

/// A running shell as its task has it.
struct Watched {
    process: Arc<dyn Process>,
    time: Option<Duration>,
    bounds: Bounds,
    output: Output,
    shell: Arc<Shell>,
    record: Record,
    spool: PathBuf,
    private: Private,
}

impl Watched {
    async fn see_to_the_end(mut self) {
        let _last = LastWord(Arc::clone(&self.shell));
        let mut wanted_dead = self.shell.wanted_dead.subscribe();
        let killed = Box::pin(async move {
            // The sender lives in the shell, which this task holds.
            let _ = wanted_dead.wait_for(Option::is_some).await;
        });
        let over = until_over(&*self.process, self.time, self.bounds, &mut self.output, killed, |_| ()).await;
        let rest = end(&*self.process, over).await;
        self.output.cut_to(self.bounds.spool_bytes);
        let words = match over {
            Over::Ended(Ended::Code(code)) => format!("exited with code {code}"),
            Over::Stopped if *self.shell.wanted_dead.borrow() == Some(Ending::Killed) => "ended by kill_shell".to_owned(),
            Over::Stopped => ENDED_WITH_SESSION.to_owned(),
            other => words_of_end(other, self.time, self.bounds),
        };
        let words = std::iter::once(words).chain(words_of_rest(rest)).collect::<Vec<_>>().join("; ");
        Record { ended: Some(words.clone()), ..self.record }.write(&self.spool, self.shell.number, &self.private);
        self.shell.end.send_replace(Some(End { over, words, all_gone: rest.all_gone }));
    }
}

/// Whoever waits for a shell whose watcher is aborted waits no longer.
struct LastWord(Arc<Shell>);

impl Drop for LastWord {
    fn drop(&mut self) {
        if self.0.end().is_none() {
            self.0.end.send_replace(Some(End::with_session()));
        }
    }
}

impl Record {
    fn path(spool: &Path, number: u32) -> PathBuf {
        spool.join(format!("{}.json", id(number)))
    }

    fn read(spool: &Path, number: u32, private: &Private) -> Option<Self> {
        let (file, _) = open_regular(&Self::path(spool, number), private).ok()?;
        let mut bytes = Vec::new();
        file.take(RECORD_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    fn try_write(&self, spool: &Path, number: u32, private: &Private) -> io::Result<()> {
        write_whole(&Self::path(spool, number), &serde_json::to_vec(self)?, private)
    }

    fn write(&self, spool: &Path, number: u32, private: &Private) {
        // Then a later process takes it for one that ended with this one, which is not far from it.
        if let Err(error) = self.try_write(spool, number, private) {
            tracing::warn!(%error, "the record of a background shell could not be written");
        }
    }
}

pub(crate) fn no_spool(error: io::Error) -> String {
    format!("The spool folder, where the output of commands goes, cannot be used: {error}")
}

fn id(number: u32) -> String {
    format!("bash_{number}")
}

/// The numbers of all shells that a spool has files of.
fn numbers(spool: &Path) -> Vec<u32> {
    let entries = fs::read_dir(spool).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| name.strip_prefix("bash_")?.strip_suffix(".json")?.parse().ok()).collect()
}

/// A panic elsewhere cannot leave these values half-changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
