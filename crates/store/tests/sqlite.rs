//! What only the SQLite store promises: its file, other processes, crashes, views made anew, speed and size.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept should panic")]

mod support;

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use posse_session::{Inbox, Lease, LeaseError, LetterId, Log};
use posse_store::{OpenError, Sqlite};
use rusqlite::Connection;
use tokio::time::timeout;

use support::{Owner, blob, created, events_of, id, letter, queued, read_all, step};

const SOON: Duration = Duration::from_secs(5);

/// The name of the variable that turns a test of this file into the second process of another.
const CHILD_FOLDER: &str = "POSSE_STORE_TEST_FOLDER";

fn open(folder: &Path) -> Sqlite {
    Sqlite::open(folder).expect("the store opens")
}

fn raw(folder: &Path) -> Connection {
    Connection::open(folder.join("posse.db")).expect("the file opens")
}

/// Every reply with calls looks for lasting answers: it must not read the views of ten thousand sessions for it.
#[tokio::test]
async fn asks_are_found_by_an_index() {
    let folder = tempfile::tempdir().unwrap();
    let _store = open(folder.path());
    let plan = "EXPLAIN QUERY PLAN SELECT key, id, version, body FROM summaries JOIN sessions ON session = key
        WHERE instr(body, '\"asks\":[') + instr(body, '\"granted\":[')";
    let raw = raw(folder.path());
    let mut statement = raw.prepare(plan).unwrap();
    let steps: Vec<String> = statement.query_map([], |row| row.get(3)).unwrap().map(Result::unwrap).collect();
    assert!(steps.iter().any(|step| step.contains("summaries_with_asks")), "{steps:?}");
}

#[tokio::test]
async fn open_asks_outlive_their_views() {
    let folder = tempfile::tempdir().unwrap();
    let mut owner_store = open(folder.path());
    let mut owner = Owner::of(&owner_store, "ses_a").await;
    let decision = posse_session::Decision::of(posse_session::Verdict::Ask, None);
    let asked =
        posse_session::Event::Asked { ask: posse_session::AskId::new("ask_1"), call: posse_session::CallId::new("call_1"), decision };
    owner.append(vec![created("ses_a"), queued("hello"), asked]).await;
    drop(owner);
    for spoil in ["DELETE FROM summaries", "UPDATE summaries SET version = 1, body = '{}'"] {
        raw(folder.path()).execute(spoil, []).unwrap();
        owner_store = open(folder.path());
        assert_eq!(owner_store.with_asks().await.unwrap().len(), 1, "{spoil}");
    }
}

#[tokio::test]
async fn two_handles_see_each_others_writes() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (open(folder.path()), open(folder.path()));
    let mut owner = Owner::of(&one, "ses_a").await;
    assert!(matches!(two.take(&id("ses_a")).await, Err(LeaseError::Held { by: Some(_) })));
    owner.append(vec![created("ses_a")]).await;
    assert_eq!(events_of(&two, "ses_a").await, [created("ses_a")]);

    let session = id("ses_a");
    let mut follower = two.changed(&session, 1);
    assert!(timeout(Duration::from_millis(150), &mut follower).await.is_err());
    owner.append(vec![queued("news")]).await;
    timeout(SOON, follower).await.expect("the other handle's append is noticed");

    assert!(timeout(Duration::from_millis(150), one.rung()).await.is_err());
    two.post(letter(1, "ses_a")).await.unwrap();
    timeout(SOON, one.rung()).await.expect("the other handle's letter is noticed");
    let mut append = owner.draft(vec![queued("letter 1")]);
    append.letters.push(LetterId::new("msg_1"));
    owner.send(append).await.unwrap();
    assert!(!two.waits(&LetterId::new("msg_1")).await.unwrap());

    // Ownership moves from one handle to the other, and what the first remembers of the log is not trusted any more.
    drop(owner);
    let mut second = Owner::of(&two, "ses_a").await;
    assert_eq!(second.append(vec![queued("from two")]).await, 4);
    drop(second);
    let mut first = Owner::of(&one, "ses_a").await;
    assert_eq!((first.owned.epoch, first.append(vec![queued("from one")]).await), (3, 5));
    assert_eq!(one.summaries(None).await.unwrap(), two.summaries(None).await.unwrap());
}

#[tokio::test]
async fn a_clone_hears_for_itself() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let clone = store.clone();
    store.post(letter(1, "ses_a")).await.unwrap();
    timeout(SOON, store.rung()).await.unwrap();
    timeout(SOON, clone.rung()).await.unwrap();
}

#[tokio::test]
async fn everything_is_there_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let (text, kept) = blob(b"a long text");
    let (records, summaries);
    {
        let store = open(folder.path());
        let mut owner = Owner::of(&store, "ses_a").await;
        let mut append = owner.draft(vec![created("ses_a"), queued(text)]);
        append.blobs.push(kept.clone());
        owner.send(append).await.unwrap();
        store.post(letter(1, "ses_a")).await.unwrap();
        records = read_all(&store, "ses_a").await;
        summaries = store.summaries(None).await.unwrap();
    }
    let store = open(folder.path());
    assert_eq!(read_all(&store, "ses_a").await, records);
    assert_eq!(store.summaries(None).await.unwrap(), summaries);
    assert_eq!(store.blob(&kept.0).await.unwrap(), kept.1);
    timeout(SOON, store.rung()).await.expect("a letter from before is heard of");
    assert_eq!(store.waiting(&id("ses_a")).await.unwrap(), [letter(1, "ses_a")]);
    assert_eq!(Owner::of(&store, "ses_a").await.owned.epoch, 2);
}

#[tokio::test]
async fn views_made_anew_are_the_views_that_were_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    for root in ["ses_a", "ses_b", "ses_c"] {
        let mut owner = Owner::of(&store, root).await;
        owner.append(vec![created(root)]).await;
        for number in 1..=5 {
            let [asked, done] = step(number, "ok");
            owner.append(asked).await;
            owner.append(done).await;
        }
    }
    let kept = store.summaries(None).await.unwrap();
    assert_eq!(store.rebuild_views().await.unwrap(), 3);
    assert_eq!(store.summaries(None).await.unwrap(), kept);

    // A view of another version, one that is missing, and then none at all.
    let spoil = "UPDATE summaries SET version = 0, body = json_set(body, '$.title', 'old') WHERE session = 1; DELETE FROM summaries WHERE session = 2";
    raw(folder.path()).execute_batch(spoil).unwrap();
    assert_eq!(store.summaries(None).await.unwrap(), kept);
    drop(store);
    raw(folder.path()).execute("DELETE FROM summaries", []).unwrap();
    let store = open(folder.path());
    assert_eq!(store.summaries(None).await.unwrap(), kept);

    // The writer trusts no view that is behind its log.
    store.rebuild_views().await.unwrap();
    raw(folder.path()).execute("UPDATE summaries SET body = json_set(body, '$.head', 1, '$.calls', 0)", []).unwrap();
    let mut owner = Owner::of(&store, "ses_b").await;
    owner.append(vec![queued("more")]).await;
    let listed = store.summaries(None).await.unwrap();
    assert_eq!((listed[0].session.as_str(), listed[0].calls, listed[0].head), ("ses_b", 5, 32));
}

#[test]
fn a_newer_file_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    raw(folder.path()).pragma_update(None, "user_version", 99).unwrap();
    let error = Sqlite::open(folder.path()).err().expect("it is refused");
    assert!(matches!(&error, OpenError::Newer { found: 99, known: 2, .. }));
    assert!(error.to_string().contains("posse.db") && error.to_string().contains("update posse"), "{error}");
}

#[test]
fn a_database_of_another_program_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("posse.db");
    raw(folder.path()).execute_batch("PRAGMA application_id = 7; CREATE TABLE mine (x)").unwrap();
    let before = fs::read(&path).unwrap();
    assert!(matches!(Sqlite::open(folder.path()), Err(OpenError::Foreign { .. })));
    assert_eq!(fs::read(&path).unwrap(), before);
    // A folder that cannot be: part of its path is a file.
    assert!(matches!(Sqlite::open(path.join("below")), Err(OpenError::Io { .. })));
}

/// "Delete the caches and restart" is no loss.
#[tokio::test]
async fn folds_may_be_deleted_at_any_time() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut owner = Owner::of(&store, "ses_a").await;
    owner.append(vec![created("ses_a")]).await;
    let fold = posse_session::SavedFold { session: id("ses_a"), seq: 1, version: 1, body: (*b"a state").into() };
    store.save_fold(fold.clone()).await.unwrap();
    assert_eq!(open(folder.path()).saved_fold(&id("ses_a")).await.unwrap(), Some(fold.clone()));
    raw(folder.path()).execute("DELETE FROM folds", []).unwrap();
    assert_eq!(store.saved_fold(&id("ses_a")).await.unwrap(), None);
    owner.append(vec![queued("goes on")]).await;
    store.save_fold(fold.clone()).await.unwrap();
    assert_eq!(store.saved_fold(&id("ses_a")).await.unwrap(), Some(fold));
}

#[test]
fn files_are_for_their_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("new").join("project");
    let _store = open(&inside);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&inside), mode(&inside.join("locks")), mode(&inside.join("posse.db"))), (0o700, 0o700, 0o600));
    assert_eq!(mode(&inside.join("posse.db-wal")), 0o600);
}

#[test]
fn many_may_open_a_new_folder_at_once() {
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| drop(open(folder.path())));
        }
    });
}

#[tokio::test]
async fn another_process_that_is_killed_loses_nothing_it_was_told_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut last = 0;
    for round in 1..=5_u64 {
        let mut child = start_child(folder.path());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut acknowledged =
            || lines.find_map(|line| line.unwrap().strip_prefix("acknowledged ").map(|head| head.parse::<u64>().unwrap()));
        for _ in 0..20 {
            last = acknowledged().expect("the child appends");
        }
        assert!(matches!(store.take(&id("ses_a")).await, Err(LeaseError::Held { by: Some(pid) }) if pid == child.id()));
        timeout(SOON, store.changed(&id("ses_a"), last)).await.expect("the child goes on");
        child.kill().unwrap();
        child.wait().unwrap();
        while let Some(head) = acknowledged() {
            last = head;
        }
        let records = read_all(&store, "ses_a").await;
        assert!(last <= records.len() as u64, "{last} acknowledged, {} there", records.len());
        assert!(records.iter().enumerate().all(|(index, record)| record.seq == index as u64 + 1));
        assert_eq!(records.len() % 3, 1, "whole appends only");
        let owned = store.take(&id("ses_a")).await.expect("the lock died with its holder");
        assert_eq!(owned.epoch, 2 * round);
        last = records.len() as u64;
    }
    let check: String = raw(folder.path()).query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    assert!(0 < last);
}

fn start_child(folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_appends_until_it_is_killed", "--ignored", "--nocapture"])
        .env(CHILD_FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[tokio::test]
#[ignore = "the second process of another test"]
async fn child_that_appends_until_it_is_killed() {
    let Ok(folder) = std::env::var(CHILD_FOLDER) else { return };
    let store = open(Path::new(&folder));
    let mut owner = Owner::of(&store, "ses_a").await;
    if owner.head == 0 {
        owner.append(vec![created("ses_a")]).await;
    }
    for number in 0..1_000_000 {
        let head = owner.append(vec![queued(format!("{number} a")), queued("b"), queued("c")]).await;
        println!("\nacknowledged {head}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_sessions_share_their_flushes() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let begun = Instant::now();
    let mut writers = tokio::task::JoinSet::new();
    for number in 0..100 {
        let store = store.clone();
        writers.spawn(async move {
            let root = format!("ses_{number}");
            let mut owner = Owner::of(&store, &root).await;
            owner.append(vec![created(&root)]).await;
            for turn in 0..10 {
                owner.append((0..5).map(|part| queued(format!("{turn} {part}"))).collect()).await;
            }
            owner.head
        });
    }
    let events: u64 = writers.join_all().await.into_iter().sum();
    let rate = events as f64 / begun.elapsed().as_secs_f64();
    println!("{events} events of 100 sessions, {rate:.0} events/s");
    assert_eq!(events, 100 * 51);
    assert!(2_000.0 < rate, "{rate:.0} events/s");
    assert_eq!(store.summaries(None).await.unwrap().len(), 100);
}

#[tokio::test]
async fn a_long_log_is_not_much_larger_than_what_was_said() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut owner = Owner::of(&store, "ses_a").await;
    owner.append(vec![created("ses_a")]).await;
    for number in 1..=500 {
        let [asked, done] = step(number, &"a line of output\n".repeat(60 + number as usize % 60));
        owner.append(asked).await;
        owner.append(done).await;
    }
    let said: u64 = events_of(&store, "ses_a")
        .await
        .iter_mut()
        .flat_map(|event| event.texts_mut().into_iter().map(|text| text.bytes()).collect::<Vec<_>>())
        .sum();
    raw(folder.path()).execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let kept = fs::metadata(folder.path().join("posse.db")).unwrap().len();
    println!("{said} bytes said, {kept} bytes kept: {:.2}x", kept as f64 / said as f64);
    assert!(kept < 3 * said, "{said} bytes said, {kept} bytes kept");
}

#[tokio::test]
async fn ten_thousand_sessions_are_listed_quickly() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    Owner::of(&store, "ses_seed").await.append(vec![created("ses_seed")]).await;
    // Rows as appends would leave them, without ten thousand flushes.
    raw(folder.path())
        .execute_batch(
            "BEGIN;
             WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
             INSERT INTO sessions (id, root) SELECT 'ses_' || i, 'ses_' || i FROM n;
             INSERT INTO summaries (session, version, body) SELECT key, (SELECT version FROM summaries), (SELECT json_set(body, '$.updated', key) FROM summaries) FROM sessions WHERE key > 1;
             COMMIT;",
        )
        .unwrap();
    let begun = Instant::now();
    let listed = store.summaries(None).await.unwrap();
    println!("{} sessions listed in {:?}", listed.len(), begun.elapsed());
    assert_eq!(listed.len(), 10_000);
    assert!(listed.is_sorted_by(|one, other| other.updated <= one.updated));
    assert!(begun.elapsed() < SOON, "a loose bound: the machine may be busy; see examples/throughput.rs");
}

#[tokio::test]
async fn what_is_removed_is_gone_from_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    let secret = "a sentence that nobody should find again";
    let mut owner = Owner::of(&store, "ses_a").await;
    owner.append(vec![created("ses_a"), queued(secret)]).await;
    let found = || {
        let files = std::fs::read_dir(folder.path()).unwrap().filter_map(|entry| std::fs::read(entry.unwrap().path()).ok());
        files.filter(|bytes| bytes.windows(secret.len()).any(|window| window == secret.as_bytes())).count()
    };
    assert!(0 < found());
    store.remove(&owner.owned).await.unwrap();
    assert_eq!(found(), 0);
}

/// At rest everything is in the database: its log is the part that damage in one place can take with it as a whole.
#[tokio::test]
async fn the_end_of_a_handle_moves_its_log_into_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let (database, log) = (folder.path().join("posse.db"), folder.path().join("posse.db-wal"));
    let length = |path: &std::path::Path| std::fs::metadata(path).map_or(0, |file| file.len());
    let reader = raw(folder.path());
    let store = Sqlite::open(folder.path()).unwrap();
    let mut owner = Owner::of(&store, "ses_1").await;
    owner.append(vec![created("ses_1"), queued("kept")]).await;
    // Somebody who reads keeps it from being emptied, and is not waited for.
    reader.execute_batch("BEGIN; SELECT count(*) FROM events").unwrap();
    owner.append(vec![queued("more")]).await;
    assert!(0 < length(&log));
    drop(owner);
    drop(store);
    let store = Sqlite::open(folder.path()).unwrap();
    assert_eq!(read_all(&store, "ses_1").await.len(), 3);
    reader.execute_batch("COMMIT").unwrap();
    Owner::of(&store, "ses_1").await.append(vec![queued("and more")]).await;
    drop(store);
    let begun = std::time::Instant::now();
    while 0 < length(&log) {
        assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{} bytes are left in the log", length(&log));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(4096 < length(&database));
    assert_eq!(read_all(&Sqlite::open(folder.path()).unwrap(), "ses_1").await.len(), 4);
}
