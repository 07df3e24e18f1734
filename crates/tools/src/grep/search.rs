//! The search itself: one thread walks the folder, several search its files, and the finds come back in the order of names.
//!
//! The same folder gives the same finds, however the threads take turns: files are taken in order, and whoever has begun one
//! ends it. Knows nothing of arguments or of how finds are shown.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch};

use crate::{
    files,
    paths::{is_secret, name_in},
    private::Private,
    text::visible,
    walk::{Entry, Timely, Walk, Walked},
};

/// A longer line is cut around its match.
const LINE_CHARS_MAX: usize = 250;
/// What stands before the match in a cut line.
const LINE_CHARS_BEFORE: usize = 60;
/// A line, or with `multiline` a file, that needs more memory is no text; the file is passed over.
const HEAP_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Files are handed over so many at a time, because every handing over wakes somebody.
const BATCH: usize = 32;
/// Batches that wait to be searched; more would only take memory.
const WAITING_MAX: usize = 32;
/// A file up to here is read at once, which is most files and half of the calls into the kernel.
const SMALL_BYTES_MAX: u64 = 64 * 1024;
/// More threads wait for the disk, and other calls want to run too.
const THREADS_MAX: usize = 8;
/// How often the walker looks at the stop while it waits for the others.
const POLL: Duration = Duration::from_millis(10);

/// What to look for, and how much of it to keep.
pub(super) struct Plan {
    pub(super) matcher: RegexMatcher,
    pub(super) multiline: bool,
    pub(super) before: usize,
    pub(super) after: usize,
    /// Matches of one file whose lines are kept.
    pub(super) kept_max: u64,
    /// Matches of one file after which it is left.
    pub(super) in_file_max: u64,
    /// Matches of all files after which no further file is begun.
    pub(super) total_max: u64,
}

/// A line of a file with matches.
pub(super) enum Line {
    Match(u64, String),
    Context(u64, String),
    /// Lines are missing here.
    Gap,
}

pub(super) struct FileFound {
    pub(super) name: String,
    pub(super) lines: Vec<Line>,
    pub(super) matches: u64,
}

pub(super) struct Searched {
    /// Files with matches, by name; no more than are needed to reach the bound.
    pub(super) files: Vec<FileFound>,
    /// Files that were passed over because they may hold secrets.
    pub(super) secrets: usize,
    pub(super) walked: Walked,
}

/// One file that was named.
pub(super) fn file(plan: &Plan, path: &Path, name: String, private: &Private, stopped: &dyn Fn() -> bool) -> io::Result<Searched> {
    let mut walk = Walk::new(private, stopped);
    let (input, _) = files::open_regular(path, private)?;
    let found = search(plan, &mut searcher(plan), Timely { walk: &mut walk, input }, name);
    Ok(Searched { files: found.into_iter().collect(), secrets: 0, walked: walk.walked })
}

/// Every file below a folder that `wants` takes by its path below it.
pub(super) fn folder(
    plan: &Plan,
    folder: &Path,
    root: &Path,
    wants: &dyn Fn(&Path) -> bool,
    private: &Private,
    stopped: &dyn Fn() -> bool,
) -> io::Result<Searched> {
    let (shared, mut walk, mut secrets) = (Shared::default(), Walk::new(private, stopped), 0);
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let walked = thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| shared.search_waiting(plan, root, private));
        }
        // Whatever happens here, those who wait for files are told that there are no more.
        let closing = Closing(&shared);
        let mut batch = Vec::with_capacity(BATCH);
        let walked = walk.files(folder, root, |walk: &mut Walk<'_>, entry: &Entry| {
            let below = entry.path.strip_prefix(folder).unwrap_or(&entry.path);
            // A link may lead anywhere; its target is searched where it lives.
            if entry.is_file && wants(below) {
                // A search of a folder names no file, so nobody was asked about this one.
                if is_secret(&entry.path.to_string_lossy()) {
                    secrets += 1;
                } else {
                    batch.push(entry.path.clone());
                    if batch.len() == BATCH {
                        shared.put(std::mem::replace(&mut batch, Vec::with_capacity(BATCH)), walk);
                    }
                }
            }
            !shared.is_enough(plan)
        });
        shared.put(batch, &mut walk);
        drop(closing);
        shared.wait(threads, &mut walk);
        walked
    });
    walked?;
    let mut found = shared.found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|(place, _)| *place);
    let (mut total, mut files) = (0, Vec::new());
    for (_, file) in found {
        if plan.total_max <= total {
            break;
        }
        total += file.matches;
        files.push(file);
    }
    Ok(Searched { files, secrets, walked: walk.walked })
}

/// What the threads have in common.
#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Rings for those who search, when there is a file or there will be none.
    filled: Condvar,
    /// Rings for the walker, when there is room again or a thread has ended.
    drained: Condvar,
    matches: AtomicU64,
    /// End now, with what there is.
    over: AtomicBool,
    found: Mutex<Vec<(usize, FileFound)>>,
}

#[derive(Default)]
struct Queue {
    /// With the place of their first file among all.
    waiting: VecDeque<(usize, Vec<PathBuf>)>,
    put: usize,
    closed: bool,
    /// Threads that have ended.
    ended: usize,
}

struct Closing<'a>(&'a Shared);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.queue().closed = true;
        self.0.filled.notify_all();
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_enough(&self, plan: &Plan) -> bool {
        plan.total_max <= self.matches.load(Ordering::Relaxed) || self.over.load(Ordering::Relaxed)
    }

    /// Files for whoever is free, when there is room.
    fn put(&self, batch: Vec<PathBuf>, walk: &mut Walk<'_>) {
        let mut queue = self.queue();
        while WAITING_MAX <= queue.waiting.len() {
            if walk.is_over() {
                self.over.store(true, Ordering::Relaxed);
                return;
            }
            (queue, _) = self.drained.wait_timeout(queue, POLL).unwrap_or_else(PoisonError::into_inner);
        }
        let place = queue.put;
        queue.put += batch.len();
        queue.waiting.push_back((place, batch));
        drop(queue);
        self.filled.notify_one();
    }

    /// The next files. Whoever takes them searches all of them: none before one that was searched may be missing.
    fn take(&self, plan: &Plan) -> Option<(usize, Vec<PathBuf>)> {
        let mut queue = self.queue();
        loop {
            if self.is_enough(plan) {
                // Nobody else begins another file either, and the walker need not wait for room.
                queue.waiting.clear();
                self.filled.notify_all();
                self.drained.notify_all();
                return None;
            }
            match queue.waiting.pop_front() {
                Some(next) => {
                    if queue.waiting.len() == WAITING_MAX / 2 {
                        self.drained.notify_all();
                    }
                    return Some(next);
                }
                None if queue.closed => return None,
                None => queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn search_waiting(&self, plan: &Plan, root: &Path, private: &Private) {
        let _ended = Ended(self);
        let (mut searcher, mut buffer) = (searcher(plan), Vec::new());
        while let Some((first, batch)) = self.take(plan) {
            for (place, path) in (first..).zip(batch) {
                if self.over.load(Ordering::Relaxed) {
                    return;
                }
                // Vanished or not allowed: passed over, as every search program does.
                let Ok((file, metadata)) = files::open_regular(&path, private) else { continue };
                let file = Watched { file, over: &self.over };
                let found = match metadata.len() {
                    // Some file systems say so of every file.
                    0 => search(plan, &mut searcher, file, String::new()),
                    size if size <= SMALL_BYTES_MAX => search_small(plan, &mut searcher, file, size, &mut buffer),
                    _ => search(plan, &mut searcher, file, String::new()),
                };
                if let Some(found) = found {
                    self.matches.fetch_add(found.matches, Ordering::Relaxed);
                    let found = FileFound { name: name_in(root, &path), ..found };
                    self.found.lock().unwrap_or_else(PoisonError::into_inner).push((place, found));
                }
            }
        }
    }

    /// Until all threads have ended, with an eye on the stop.
    fn wait(&self, threads: usize, walk: &mut Walk<'_>) {
        let mut queue = self.queue();
        while queue.ended < threads {
            if walk.is_over() {
                self.over.store(true, Ordering::Relaxed);
            }
            (queue, _) = self.drained.wait_timeout(queue, POLL).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Says that a thread has ended, also by a panic.
struct Ended<'a>(&'a Shared);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.queue().ended += 1;
        self.0.drained.notify_all();
    }
}

/// A file that ends early when the search must: one file can be larger than a whole project.
struct Watched<'a> {
    file: File,
    over: &'a AtomicBool,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.over.load(Ordering::Relaxed) { Ok(0) } else { self.file.read(buffer) }
    }
}

fn searcher(plan: &Plan) -> Searcher {
    SearcherBuilder::new()
        .line_number(true)
        .multi_line(plan.multiline)
        .before_context(plan.before)
        .after_context(plan.after)
        .binary_detection(BinaryDetection::quit(0))
        .memory_map(MmapChoice::never())
        .heap_limit(Some(HEAP_BYTES_MAX))
        .build()
}

fn search(plan: &Plan, searcher: &mut Searcher, input: impl Read, name: String) -> Option<FileFound> {
    let mut finds = Finds { plan, file: FileFound { name, lines: Vec::new(), matches: 0 } };
    // A file that cannot be read to its end still gives what was found before.
    if let Err(error) = searcher.search_reader(&plan.matcher, input, &mut finds) {
        tracing::debug!(%error, "a file was not searched to the end");
    }
    Some(finds.file).filter(|file| file.matches != 0)
}

/// The same of a file that fits into a buffer: as many bytes as it had when it was opened.
fn search_small(plan: &Plan, searcher: &mut Searcher, mut file: impl Read, size: u64, buffer: &mut Vec<u8>) -> Option<FileFound> {
    let size = size as usize;
    if buffer.len() < size {
        buffer.resize(size, 0);
    }
    let mut filled = 0;
    while filled < size {
        match file.read(&mut buffer[filled..size]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                tracing::debug!(%error, "a file was not searched to the end");
                break;
            }
        }
    }
    let mut finds = Finds { plan, file: FileFound { name: String::new(), lines: Vec::new(), matches: 0 } };
    if let Err(error) = searcher.search_slice(&plan.matcher, &buffer[..filled], &mut finds) {
        tracing::debug!(%error, "a file was not searched to the end");
    }
    Some(finds.file).filter(|file| file.matches != 0)
}

/// The sink of one file.
struct Finds<'a> {
    plan: &'a Plan,
    file: FileFound,
}

impl Sink for &mut Finds<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.file.matches += 1;
        if self.file.matches <= self.plan.kept_max {
            let first = found.line_number().unwrap_or(0);
            // Several only where a match may reach over lines.
            for (number, line) in (first..).zip(found.lines()) {
                let start = self.plan.matcher.find(line).ok().flatten().map_or(0, |found| found.start());
                self.file.lines.push(Line::Match(number, cut(line, start)));
            }
        }
        Ok(self.file.matches < self.plan.in_file_max)
    }

    fn context(&mut self, _searcher: &Searcher, around: &SinkContext<'_>) -> Result<bool, io::Error> {
        // What stands before the first match that is not kept is not kept either.
        let is_after = matches!(around.kind(), SinkContextKind::After);
        if self.file.matches < self.plan.kept_max || is_after && self.file.matches == self.plan.kept_max {
            self.file.lines.push(Line::Context(around.line_number().unwrap_or(0), cut(around.bytes(), 0)));
        }
        Ok(true)
    }

    fn context_break(&mut self, _searcher: &Searcher) -> Result<bool, io::Error> {
        if self.file.matches < self.plan.kept_max {
            self.file.lines.push(Line::Gap);
        }
        Ok(true)
    }
}

fn cut(line: &[u8], start: usize) -> String {
    let before = String::from_utf8_lossy(&line[..start.min(line.len())]).chars().count();
    let line = String::from_utf8_lossy(line);
    let line = line.trim_end_matches(['\n', '\r']);
    let total = line.chars().count();
    if total <= LINE_CHARS_MAX {
        return visible(line);
    }
    let skip = if before < LINE_CHARS_MAX - LINE_CHARS_BEFORE { 0 } else { before - LINE_CHARS_BEFORE };
    let shown: String = line.chars().skip(skip).take(LINE_CHARS_MAX).collect();
    let (front, back) = (if skip == 0 { "" } else { "…" }, if skip + LINE_CHARS_MAX < total { "…" } else { "" });
    format!("{front}{}{back}", visible(&shown))
}
