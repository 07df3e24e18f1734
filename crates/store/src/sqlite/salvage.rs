//! A damaged file: what can still be read goes into a new one, and the old one is put aside and never deleted.
//!
//! Rows are found by walking all pages (`pages.rs`), so it does not matter which page was hurt: a table whose root is
//! gone still has its rows. Of each session the events up to the first one that is missing or unreadable are kept: every
//! beginning of a log leads somewhere. A blob is kept if it still fits its hash. Views and folds are made anew.
//!
//! A write-ahead log that is hurt is damage too (`wal.rs`): its frames before the damage count as they do for SQLite, and what
//! can be read behind it is added. Sessions of which only a lock file is left are named.
//!
//! The new file is whole before anything is moved, and its name says so: a kill in the middle is finished by the next
//! opening. The caller holds the file alone (`presence.rs`).

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt, fs,
    fs::File,
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use posse_session::{Event, Kind, Letter, SessionId};
use rusqlite::{Connection, OpenFlags, params};

use super::{
    damage, lock, migrate,
    pages::{Column, Pages, Value, page_bytes},
    rows,
    schema::{self, FILE_NAME, beside, wal_of},
    views, wal,
};
use crate::{
    error::OpenError,
    ready::{HASH_CHARS, hashes_in},
};

/// The new file while it is written.
const MAKING: &str = ".making";
/// The new file when all is in it: from here on it only has to be put in place.
const SALVAGED: &str = ".salvaged";

/// Sessions that the report names one by one.
const NAMED_MAX: usize = 20;

/// No tree was ever taken so often: a number beyond it is nonsense from a damaged page.
const EPOCH_MAX: i64 = 1 << 40;

/// What was damaged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Damaged {
    #[default]
    Database,
    /// The write-ahead log beside it.
    Log,
    /// The log is gone, with all there was: nothing had been moved into the database yet.
    LogGone,
}

/// What became of a damaged file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Salvaged {
    pub damaged: Damaged,
    /// Where the damaged file is now.
    pub broken: PathBuf,
    pub sessions: u64,
    pub events: u64,
    pub blobs: u64,
    pub letters: u64,
    /// Sessions that lost their end: the id, the last event that was kept, and the last that is known to have been.
    pub cut: Vec<(String, u64, u64)>,
    /// Sessions of which nothing could be kept, where at least their id is known.
    pub lost: Vec<String>,
    /// Sessions of which there is only the file that says who runs them.
    pub traces: Vec<String>,
    /// Sessions whose events are there and whose id is not.
    pub nameless: u64,
    /// Long texts that events speak of and that are gone.
    pub texts_missing: u64,
}

impl fmt::Display for Salvaged {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |number: u64, of: &str| format!("{number} {of}{}", if number == 1 { "" } else { "s" });
        let (sessions, events, texts) = (count(self.sessions, "session"), count(self.events, "event"), count(self.blobs, "long text"));
        let what = match self.damaged {
            Damaged::Database => "the database was damaged",
            Damaged::Log => "the write-ahead log of the database (posse.db-wal) was damaged",
            Damaged::LogGone => "the database is empty although there were sessions: its write-ahead log (posse.db-wal) is gone",
        };
        write!(out, "{what}; what can be read was saved: {sessions}, {events}, {texts}")?;
        if 0 < self.letters {
            write!(out, ", {}", count(self.letters, "waiting message"))?;
        }
        for (session, kept, known) in self.cut.iter().take(NAMED_MAX) {
            write!(out, "; {session} ends after event {kept} of at least {known}")?;
        }
        if NAMED_MAX < self.cut.len() {
            write!(out, "; {} more lost their end", self.cut.len() - NAMED_MAX)?;
        }
        for (words, sessions) in [("lost", &self.lost), ("nothing was found of", &self.traces)] {
            if !sessions.is_empty() {
                let named = sessions[..sessions.len().min(NAMED_MAX)].join(", ");
                let more = sessions.len().saturating_sub(NAMED_MAX);
                write!(out, "; {words}: {named}{}", if more == 0 { String::new() } else { format!(" and {more} more") })?;
            }
        }
        if 0 < self.nameless {
            write!(out, "; {} could not be told apart and stayed behind", count(self.nameless, "session"))?;
        }
        if 0 < self.texts_missing {
            write!(out, "; {} missing", count(self.texts_missing, "long text"))?;
        }
        if self.is_whole() {
            // What the hurt part of a log said leaves no gap that could be seen.
            let beyond = if self.damaged == Damaged::Log { ", but what was in the damaged part may be" } else { "" };
            write!(out, "; nothing is known to be missing{beyond}")?;
        }
        write!(out, ". The damaged file is kept as {}", self.broken.display())
    }
}

impl Salvaged {
    fn is_whole(&self) -> bool {
        self.cut.is_empty() && self.lost.is_empty() && self.traces.is_empty() && self.nameless == 0 && self.texts_missing == 0
    }
}

/// Whether something has to be put right before the file may be opened.
pub(super) fn is_due(path: &Path) -> bool {
    is_half_done(path) || beside(path, damage::NOTE).exists() || damaged(path) != Damaged::Database
}

/// What of it is damaged, as far as that can be said without reading the database.
fn damaged(path: &Path) -> Damaged {
    let log = wal_of(path);
    if fs::metadata(&log).map_or(0, |log| log.len()) == 0 {
        return if Pages::holds_nothing(path) && has_locks(path) { Damaged::LogGone } else { Damaged::Database };
    }
    let is_hurt = File::open(path).is_ok_and(|file| wal::is_hurt(&log, page_bytes(&file)));
    if is_hurt { Damaged::Log } else { Damaged::Database }
}

/// Whether there ever was a session that somebody ran.
fn has_locks(path: &Path) -> bool {
    let locks = path.parent().map(lock::folder).and_then(|folder| fs::read_dir(folder).ok());
    locks.is_some_and(|mut locks| locks.next().is_some())
}

/// Whether the file is not the one to be opened: its successor waits to be put in its place, or its contents are gone.
pub(super) fn is_half_done(path: &Path) -> bool {
    is_ready(path) || was_emptied(path)
}

/// No database is shorter than its smallest page.
const FILE_BYTES_MIN: u64 = 512;

/// A file without contents is a new one, unless there is something beside it that only a used one has. SQLite would throw
/// its write-ahead log away.
fn was_emptied(path: &Path) -> bool {
    let length = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
    if !path.exists() || FILE_BYTES_MIN <= length(path) {
        return false;
    }
    0 < length(&wal_of(path)) || has_locks(path)
}

/// Whether a new file only waits to be put in its place: then the old one may be gone already.
pub(super) fn is_ready(path: &Path) -> bool {
    beside(path, SALVAGED).exists()
}

pub(super) fn salvage(folder: &Path) -> Result<Salvaged, OpenError> {
    let path = folder.join(FILE_NAME);
    let failed = |source: io::Error| OpenError::Io { path: path.clone(), source };
    let ready = beside(&path, SALVAGED);
    if ready.exists() {
        // Somebody was stopped after the work was done.
        let mut salvaged = counts(&ready).map_err(|source| OpenError::of(&ready, source))?;
        salvaged.broken = put_in_place(&path, &ready).map_err(failed)?;
        return Ok(salvaged);
    }
    let making = beside(&path, MAKING);
    for end in ["", "-journal", "-wal", "-shm"] {
        let _ = fs::remove_file(beside(&making, end));
    }
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&making).map_err(failed)?;
    let sights = Pages::open(&path).map_err(failed)?;
    let unavailable = |source| OpenError::Unavailable { path: making.clone(), source };
    let mut salvaged = write(&sights, &making).map_err(unavailable)?;
    salvaged.damaged = damaged(&path);
    salvaged.traces = lock::roots(folder);
    salvaged.traces.retain(|root| !salvaged.lost.contains(root));
    keep_unknown(&making, &mut salvaged.traces).map_err(unavailable)?;
    File::open(&making).and_then(|file| file.sync_all()).map_err(failed)?;
    fs::rename(&making, &ready).map_err(failed)?;
    salvaged.broken = put_in_place(&path, &ready).map_err(failed)?;
    Ok(salvaged)
}

/// Every step can be done again by who comes after a kill.
fn put_in_place(path: &Path, ready: &Path) -> io::Result<PathBuf> {
    sync_folder(path)?;
    let made = fs::metadata(ready)?.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let name = |time: u64| beside(path, &format!(".broken-{time}"));
    let mut time = made;
    while path.exists() && name(time).exists() {
        time += 1;
    }
    let broken = name(time);
    // The log first: beside the new file it would be taken for its own.
    for end in ["-wal", "-shm", ""] {
        let from = beside(path, end);
        if from.exists() {
            fs::rename(&from, beside(&broken, end))?;
        }
    }
    sync_folder(path)?;
    fs::rename(ready, path)?;
    let _ = fs::remove_file(beside(path, damage::NOTE));
    sync_folder(path)?;
    Ok(broken)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// Those that are not in the file.
fn keep_unknown(path: &Path, sessions: &mut Vec<String>) -> rusqlite::Result<()> {
    let connection = schema::open_unchanging(path)?;
    let mut statement = connection.prepare("SELECT id FROM sessions")?;
    let known: HashSet<String> = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    sessions.retain(|session| !known.contains(session));
    Ok(())
}

fn counts(path: &Path) -> rusqlite::Result<Salvaged> {
    let connection = schema::open_unchanging(path)?;
    let count = |table: &str| connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get::<_, i64>(0));
    let count = |table: &str| count(table).map(i64::unsigned_abs);
    Ok(Salvaged {
        sessions: count("sessions")?,
        events: count("events")?,
        blobs: count("blobs")?,
        letters: count("letters")?,
        ..Salvaged::default()
    })
}

/// Where a row lies: in which sight of the file, on which page, and which of the page's rows it is.
type Spot = (usize, u32, usize);

/// What lies on the pages, small things as they are and large ones by their place.
#[derive(Default)]
struct Found {
    /// Id and root by key.
    sessions: BTreeMap<i64, (String, String)>,
    /// What views say: id, root and head by key.
    described: BTreeMap<i64, (String, String, u64)>,
    events: Vec<(i64, Spot)>,
    blobs: Vec<Spot>,
    /// By number: id, root, recipient, body.
    letters: BTreeMap<i64, [String; 4]>,
    /// Numbers that stand beside a text in an index. An epoch is one of them; a larger one does no harm.
    numbers: HashMap<String, i64>,
}

impl Found {
    /// What was once said stays said, so of events every sight counts, and the one that SQLite has first. A letter that was
    /// read is gone, so of those only the newest sight counts.
    fn of(sights: &[Pages]) -> Self {
        let mut found = Self::default();
        for (nth, pages) in sights.iter().enumerate() {
            found.letters.clear();
            found.look_at(pages, nth);
        }
        found.events.sort_unstable();
        found
    }

    fn look_at(&mut self, pages: &Pages, sight: usize) {
        // The first page holds the names of the tables, which are known.
        for number in pages.numbers().skip(1) {
            let page = pages.page(number);
            for (nth, cell) in pages.cells(number, &page).iter().enumerate() {
                let Some(columns) = Pages::columns(&page, cell) else { continue };
                let row = || pages.row(&page, cell);
                match cell.rowid {
                    Some(rowid) => self.see(rowid, &columns, (sight, number, nth), row),
                    None => self.see_index(&columns, row),
                }
            }
        }
    }

    /// Tables are told apart by what is in their columns: no two of ours look alike.
    fn see(&mut self, rowid: i64, columns: &[Column], spot: Spot, row: impl FnOnce() -> Option<Vec<Value>>) {
        use Column::{Blob, Constant, Integer, Null, Text};
        match columns {
            [Null, Integer(_) | Constant(_), Text(_), Text(_)] if 0 < rows::key_at(rowid) => self.events.push((rowid, spot)),
            [Null, Text(HASH_CHARS), Blob(_)] => self.blobs.push(spot),
            [Null, Text(_), Text(_)] => {
                if let Some([_, Value::Text(id), Value::Text(root)]) = row().as_deref() {
                    self.sessions.insert(rowid, (id.clone(), root.clone()));
                }
            }
            [Null, Integer(_) | Constant(_), Text(_)] => {
                if let Some([_, _, Value::Text(body)]) = row().as_deref()
                    && let Ok(view) = serde_json::from_str::<serde_json::Value>(body)
                    && let (Some(session), Some(root)) = (view["session"].as_str(), view["root"].as_str())
                {
                    self.described.insert(rowid, (session.to_owned(), root.to_owned(), view["head"].as_u64().unwrap_or(0)));
                }
            }
            [Null, Text(_), Text(_), Text(_), Text(_)] => {
                if let Some([_, Value::Text(id), Value::Text(root), Value::Text(to), Value::Text(body)]) = row().as_deref() {
                    self.letters.insert(rowid, [id.clone(), root.clone(), to.clone(), body.clone()]);
                }
            }
            _ => {}
        }
    }

    fn see_index(&mut self, columns: &[Column], row: impl FnOnce() -> Option<Vec<Value>>) {
        if let [Column::Text(_), Column::Integer(_) | Column::Constant(_)] = columns
            && let Some([Value::Text(text), Value::Integer(number)]) = row().as_deref()
        {
            let known = self.numbers.entry(text.clone()).or_default();
            *known = (*known).max(*number);
        }
    }

    /// Id and root of the session with this key; `first` is its first event.
    fn session(&self, key: i64, first: &Event) -> Option<(String, String)> {
        let told = self.sessions.get(&key).cloned();
        told.or_else(|| self.described.get(&key).map(|(id, root, _)| (id.clone(), root.clone()))).or_else(|| match first {
            // Of a root the log itself says who it is.
            Event::Created { kind: Kind::Root, root, .. } => Some((root.0.clone(), root.0.clone())),
            _ => None,
        })
    }
}

fn write(sights: &[Pages], path: &Path) -> rusqlite::Result<Salvaged> {
    let found = Found::of(sights);
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    // Nobody reads it before it is whole; it is flushed once, at the end.
    connection.execute_batch("PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY;")?;
    let mut salvaged = Salvaged::default();
    schema::at_once(&connection, || {
        schema::make_tables(&connection)?;
        let mut rest =
            Rest { connection: &connection, sights, found: &found, salvaged: &mut salvaged, named: HashMap::new(), stored: HashSet::new() };
        rest.sessions()?;
        rest.blobs()?;
        rest.letters_and_trees()?;
        views::rebuild(&connection, views::Which::All).map(drop)
    })?;
    Ok(salvaged)
}

/// The writing of the new file.
struct Rest<'a> {
    connection: &'a Connection,
    sights: &'a [Pages],
    found: &'a Found,
    salvaged: &'a mut Salvaged,
    /// The sessions that name what looks like a hash.
    named: HashMap<String, Vec<i64>>,
    /// Those of them that are a text's only copy.
    stored: HashSet<String>,
}

impl Rest<'_> {
    fn row(&self, (sight, number, nth): Spot) -> Option<Vec<Value>> {
        let pages = self.sights.get(sight)?;
        let page = pages.page(number);
        let cells = pages.cells(number, &page);
        pages.row(&page, cells.get(nth)?)
    }

    fn sessions(&mut self) -> rusqlite::Result<()> {
        let found = self.found;
        let mut seen = HashSet::new();
        for events in found.events.chunk_by(|one, other| rows::key_at(one.0) == rows::key_at(other.0)) {
            let key = rows::key_at(events[0].0);
            seen.insert(key);
            let kept = self.session(key, events)?;
            let last = events.last().map_or(0, |(place, _)| rows::seq_at(*place));
            let known = last.max(found.described.get(&key).map_or(0, |(_, _, head)| *head));
            let id = self.id_of(key);
            match (kept, id) {
                (0, None) => self.salvaged.nameless += 1,
                (0, Some(id)) => self.salvaged.lost.push(id),
                (kept, Some(id)) if kept < known => self.salvaged.cut.push((id, kept, known)),
                _ => {}
            }
        }
        let unseen = found.sessions.keys().chain(found.described.keys()).filter(|key| !seen.contains(key));
        let unseen: HashSet<i64> = unseen.copied().collect();
        let lost: Vec<String> = unseen.into_iter().filter_map(|key| self.id_of(key)).collect();
        self.salvaged.lost.extend(lost);
        self.salvaged.lost.sort_unstable();
        Ok(())
    }

    fn id_of(&self, key: i64) -> Option<String> {
        let told = self.found.sessions.get(&key).map(|(id, _)| id);
        told.or_else(|| self.found.described.get(&key).map(|(id, ..)| id)).cloned()
    }

    /// Writes the events of one session up to the first that is missing or unreadable; answers with the last that was kept.
    fn session(&mut self, key: i64, events: &[(i64, Spot)]) -> rusqlite::Result<u64> {
        let mut head = 0;
        for (place, spot) in events {
            let seq = rows::seq_at(*place);
            if head + 1 < seq {
                break;
            }
            // A row may lie on two pages where a change was only half written; the second is tried if the first is bad.
            if seq <= head {
                continue;
            }
            let Some(row) = self.row(*spot) else { continue };
            let [_, Value::Integer(at), Value::Text(batch), Value::Text(body)] = &row[..] else { continue };
            let Ok(event) = serde_json::from_str::<Event>(body) else { continue };
            if head == 0 && !self.create(key, &event)? {
                break;
            }
            self.connection
                .prepare_cached("INSERT INTO events (place, at, batch, body) VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![place, at, batch, body])?;
            migrate::refer(self.connection, key, &event)?;
            for hash in hashes_in(body) {
                let keys = self.named.entry(hash.to_owned()).or_default();
                if keys.last() != Some(&key) {
                    keys.push(key);
                }
                if body.contains(&format!("\"blob\":\"{hash}\"")) {
                    self.stored.insert(hash.to_owned());
                }
            }
            self.salvaged.events += 1;
            head = seq;
        }
        Ok(head)
    }

    /// False where nobody knows whose events these are, or another session has the same id.
    fn create(&mut self, key: i64, first: &Event) -> rusqlite::Result<bool> {
        let Some((id, root)) = self.found.session(key, first) else { return Ok(false) };
        let created = self
            .connection
            .prepare_cached("INSERT OR IGNORE INTO sessions (key, id, root) VALUES (?1, ?2, ?3)")?
            .execute(params![key, id, root])?;
        self.salvaged.sessions += created as u64;
        Ok(0 < created)
    }

    /// Those that are still what their hash says and that some event names.
    fn blobs(&mut self) -> rusqlite::Result<()> {
        for spot in &self.found.blobs {
            let Some(row) = self.row(*spot) else { continue };
            let [_, Value::Text(hash), Value::Blob(body)] = &row[..] else { continue };
            if !rows::fits(hash, body) {
                continue;
            }
            let Some(keys) = self.named.remove(hash) else { continue };
            self.connection.prepare_cached("INSERT INTO blobs (hash, body) VALUES (?1, ?2)")?.execute(params![hash, body])?;
            let blob = self.connection.last_insert_rowid();
            for key in keys {
                self.connection.prepare_cached("INSERT OR IGNORE INTO blob_refs (session, blob) VALUES (?1, ?2)")?.execute([key, blob])?;
            }
            self.stored.remove(hash);
            self.salvaged.blobs += 1;
        }
        self.salvaged.texts_missing = self.stored.len() as u64;
        Ok(())
    }

    /// An epoch may only grow: what was the highest number beside a root's name counts, and one more.
    fn letters_and_trees(&mut self) -> rusqlite::Result<()> {
        for (number, [id, root, to, body]) in &self.found.letters {
            if serde_json::from_str::<Letter>(body).is_ok() {
                let row = params![number, id, root, to, body];
                self.salvaged.letters += self
                    .connection
                    .prepare_cached("INSERT OR IGNORE INTO letters (number, id, root, recipient, body) VALUES (?1, ?2, ?3, ?4, ?5)")?
                    .execute(row)? as u64;
            }
        }
        let mut statement = self.connection.prepare("SELECT DISTINCT root FROM sessions")?;
        let roots: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        let mut trees: BTreeMap<&str, i64> = roots.iter().map(|root| (root.as_str(), 0)).collect();
        for (text, number) in &self.found.numbers {
            if text.starts_with(SessionId::PREFIX) && (0..EPOCH_MAX).contains(number) {
                trees.insert(text, *number);
            }
        }
        for (root, number) in trees {
            self.connection.prepare_cached("INSERT INTO trees (root, epoch) VALUES (?1, ?2)")?.execute(params![root, number + 1])?;
        }
        Ok(())
    }
}
