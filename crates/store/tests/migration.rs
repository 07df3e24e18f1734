//! Files of earlier formats: brought up to date once, by whoever comes first, and whole whenever that is interrupted.
//! Reliability goal 20: every released format to the current one, killed in the middle two hundred times.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept should panic")]

mod support;

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use posse_session::{Event, Inbox, Log};
use posse_store::Sqlite;
use rusqlite::{Connection, params};
use serde_json::json;

use support::{Owner, created, events_of, id, queued};

const CHILD_FOLDER: &str = "POSSE_MIGRATION_TEST_FOLDER";

const KILLS: u32 = 200;

/// Sessions and events of each in the file that is killed over: reading them takes some milliseconds.
const SESSIONS: i64 = 40;
const EVENTS: i64 = 150;

/// The tables of format 1, as the first release made them. Never changed again.
const FORMAT_1: &str = "
    CREATE TABLE trees (root TEXT PRIMARY KEY, epoch INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE sessions (key INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, root TEXT NOT NULL);
    CREATE INDEX sessions_of_tree ON sessions (root);
    CREATE TABLE events (place INTEGER PRIMARY KEY, at INTEGER NOT NULL, batch TEXT NOT NULL, body TEXT NOT NULL);
    CREATE TABLE blobs (key INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE, body BLOB NOT NULL);
    CREATE TABLE blob_refs (
        session INTEGER NOT NULL REFERENCES sessions (key), blob INTEGER NOT NULL REFERENCES blobs (key), PRIMARY KEY (session, blob)
    ) WITHOUT ROWID;
    CREATE INDEX refs_of_blob ON blob_refs (blob);
    CREATE TABLE letters (
        number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, root TEXT NOT NULL, recipient TEXT NOT NULL, body TEXT NOT NULL
    );
    CREATE INDEX letters_of_tree ON letters (root);
    CREATE TABLE summaries (session INTEGER PRIMARY KEY REFERENCES sessions (key), version INTEGER NOT NULL, body TEXT NOT NULL);
    CREATE INDEX summaries_of_version ON summaries (version);
    CREATE INDEX summaries_with_asks ON summaries (session) WHERE instr(body, '\"asks\":[') + instr(body, '\"granted\":[');
    PRAGMA application_id = 1347375955;
    PRAGMA user_version = 1;
";

fn raw(folder: &Path) -> Connection {
    Connection::open(folder.join("posse.db")).unwrap()
}

/// A file of the first release: some sessions, the last of them a fork of the first.
fn make_format_1(folder: &Path, sessions: i64, events: i64) {
    let connection = raw(folder);
    connection.execute_batch(&format!("PRAGMA journal_mode = WAL; BEGIN; {FORMAT_1}")).unwrap();
    for key in 1..=sessions {
        let session = format!("ses_{key:03}");
        connection.execute("INSERT INTO sessions (key, id, root) VALUES (?1, ?2, ?2)", params![key, session]).unwrap();
        connection.execute("INSERT INTO trees (root, epoch) VALUES (?1, 3)", [&session]).unwrap();
        for seq in 1..=events {
            let event = match seq {
                1 => created(&session),
                2 if key == sessions => forked_from("ses_001"),
                _ => queued(format!("{session} says number {seq} {}", "and so on ".repeat(20))),
            };
            let body = serde_json::to_string(&event).unwrap();
            let row = params![key << 32 | seq, 1_700_000_000_000 + seq, format!("evt_{seq}"), body];
            connection.execute("INSERT INTO events (place, at, batch, body) VALUES (?1, ?2, ?3, ?4)", row).unwrap();
        }
    }
    connection.execute_batch("COMMIT").unwrap();
}

fn forked_from(session: &str) -> Event {
    serde_json::from_value(json!({"type": "forked", "segments": [{"session": session, "from": 0, "to": 2}]})).unwrap()
}

fn format_of(folder: &Path) -> i64 {
    raw(folder).pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_file_of_the_first_format_goes_on_in_the_second() {
    let folder = tempfile::tempdir().unwrap();
    make_format_1(folder.path(), 3, 4);
    let store = Sqlite::open(folder.path()).unwrap();
    assert_eq!(format_of(folder.path()), 2);
    assert!(store.salvaged().is_none());
    assert_eq!(events_of(&store, "ses_001").await.len(), 4);
    assert_eq!(store.summaries(None).await.unwrap().len(), 3);
    assert_eq!(store.waiting(&id("ses_001")).await.unwrap(), []);
    // What the fork of before shows is known now.
    let owner = Owner::of(&store, "ses_001").await;
    assert_eq!((owner.owned.epoch, store.forks_of(&id("ses_001")).await.unwrap()), (4, vec![id("ses_003")]));
    assert!(store.remove(&owner.owned).await.is_err());
    let fold = posse_session::SavedFold { session: id("ses_002"), seq: 4, version: 1, body: (*b"state").into() };
    store.save_fold(fold.clone()).await.unwrap();
    assert_eq!(store.saved_fold(&id("ses_002")).await.unwrap(), Some(fold));
}

#[test]
fn many_may_open_an_old_file_at_once() {
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        make_format_1(folder.path(), 5, 20);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| drop(Sqlite::open(folder.path()).unwrap()));
            }
        });
        assert_eq!(format_of(folder.path()), 2);
        let check: String = raw(folder.path()).query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(check, "ok");
    }
}

/// A child process that is about to open the store in this folder, and does when it is told to.
struct Opener {
    child: Child,
    said: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Opener {
    fn start(folder: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_opens_when_it_is_told_to", "--ignored", "--nocapture"])
            .env(CHILD_FOLDER, folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut opener = Self { child, said };
        assert!(opener.says("ready"));
        opener
    }

    fn says(&mut self, word: &str) -> bool {
        self.said.any(|line| line.is_ok_and(|line| line == word))
    }

    fn go(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }
}

#[test]
#[ignore = "the second process of another test"]
fn child_that_opens_when_it_is_told_to() {
    let Ok(folder) = std::env::var(CHILD_FOLDER) else { return };
    println!("\nready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let store = Sqlite::open(folder).unwrap();
    println!("\nopen");
    // Killed, or told that it was seen.
    std::io::stdin().read_line(&mut String::new()).unwrap();
    drop(store);
}

#[test]
fn two_hundred_kills_during_migration_lose_nothing() {
    let original = tempfile::tempdir().unwrap();
    make_format_1(original.path(), SESSIONS, EVENTS);
    raw(original.path()).query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let bytes = fs::read(original.path().join("posse.db")).unwrap();
    let copy = || {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("posse.db"), &bytes).unwrap();
        folder
    };
    // How long it takes when nobody is in the way: the kills are spread over twice that.
    let usual = (0..3).map(|_| {
        let folder = copy();
        let mut opener = Opener::start(folder.path());
        let begun = Instant::now();
        opener.go();
        assert!(opener.says("open"));
        let took = begun.elapsed();
        opener.child.kill().unwrap();
        opener.child.wait().unwrap();
        took
    });
    let usual = usual.min().unwrap();
    let (mut old, mut new, mut acknowledged) = (0, 0, 0);
    for kill in 0..KILLS {
        let folder = copy();
        let mut opener = Opener::start(folder.path());
        opener.go();
        std::thread::sleep(usual * (kill + 1) / KILLS * 2);
        opener.child.kill().unwrap();
        opener.child.wait().unwrap();
        let was_open = opener.says("open");
        acknowledged += u32::from(was_open);
        let connection = raw(folder.path());
        let check: String = connection.query_row("PRAGMA quick_check", [], |row| row.get(0)).unwrap();
        let events: i64 = connection.query_row("SELECT count(*) FROM events", [], |row| row.get(0)).unwrap();
        let format = format_of(folder.path());
        assert_eq!((check.as_str(), events), ("ok", SESSIONS * EVENTS), "kill {kill}");
        match format {
            1 => old += 1,
            2 => new += 1,
            other => panic!("format {other} after kill {kill}"),
        }
        assert!(!was_open || format == 2, "it was open before it was of the new format");
        drop(connection);
        let store = Sqlite::open(folder.path()).unwrap();
        assert!(store.salvaged().is_none(), "a kill is no damage");
        assert_eq!(format_of(folder.path()), 2);
        let refs: i64 = raw(folder.path()).query_row("SELECT count(*) FROM segment_refs", [], |row| row.get(0)).unwrap();
        assert_eq!(refs, 1);
    }
    println!("{KILLS} kills within {usual:?}: {old} left the old format, {new} the new one, {acknowledged} were open already");
    assert!(0 < old && 0 < new, "the kills must hit both sides of the commit: {old} before, {new} after");
    assert!(usual < Duration::from_secs(5), "{usual:?}");
}
