//! Backups of a file in use, and space that is handed back.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept should panic")]

mod support;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use posse_session::{Inbox, Log};
use posse_store::{BackupError, Sqlite};

use support::{Owner, blob, created, id, letter, queued, read_all};

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_backup_is_a_store_of_its_own() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Sqlite::open(folder.path()).unwrap();
    let mut owner = Owner::of(&store, "ses_a").await;
    let (text, kept) = blob(b"a long text");
    let mut append = owner.draft(vec![created("ses_a"), queued(text)]);
    append.blobs.push(kept.clone());
    owner.send(append).await.unwrap();
    store.post(letter(1, "ses_a")).await.unwrap();
    let file = elsewhere.path().join("kept.db");
    let inside = store.backup(&file, false).await.unwrap();
    assert_eq!((inside.sessions, inside.events, inside.blobs, inside.bytes), (1, 2, 1, fs::metadata(&file).unwrap().len()));
    assert_eq!(names(elsewhere.path()), ["kept.db"]);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    // Copied to its place, it is what there was, and works.
    let restored = tempfile::tempdir().unwrap();
    fs::copy(&file, restored.path().join("posse.db")).unwrap();
    let again = Sqlite::open(restored.path()).unwrap();
    assert_eq!(read_all(&again, "ses_a").await, read_all(&store, "ses_a").await);
    assert_eq!(again.blob(&kept.0).await.unwrap(), kept.1);
    assert_eq!(again.waiting(&id("ses_a")).await.unwrap(), [letter(1, "ses_a")]);
    let mut owner = Owner::of(&again, "ses_a").await;
    assert_eq!((owner.owned.epoch, owner.append(vec![queued("goes on")]).await), (2, 3));
    assert!(names(restored.path()).contains(&"posse.db-wal".to_owned()), "in the mode that lets others read meanwhile");
}

#[tokio::test]
async fn a_backup_replaces_nothing_unless_it_is_told_to() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Sqlite::open(folder.path()).unwrap();
    Owner::of(&store, "ses_a").await.append(vec![created("ses_a")]).await;
    let file = elsewhere.path().join("kept.db");
    fs::write(&file, "something dear").unwrap();
    assert!(matches!(store.backup(&file, false).await, Err(BackupError::Exists(_))));
    assert_eq!(fs::read_to_string(&file).unwrap(), "something dear");
    assert_eq!(store.backup(&file, true).await.unwrap().sessions, 1);
    // The database is not overwritten by its own copy, whatever it is called.
    for name in ["posse.db", "posse.db-wal", "posse.db.copy"] {
        let itself = store.backup(folder.path().join("locks/..").join(name), true).await;
        assert!(matches!(itself, Err(BackupError::Itself(_))), "{itself:?}");
    }
    assert!(matches!(store.backup(elsewhere.path(), true).await, Err(BackupError::Failed(_))), "a folder is no file");
    let nowhere = store.backup(elsewhere.path().join("no/such/folder.db"), false).await;
    assert!(matches!(&nowhere, Err(BackupError::Failed(words)) if words.contains("no/such")), "{nowhere:?}");
    assert_eq!(names(elsewhere.path()), ["kept.db"]);
    assert_eq!(read_all(&store, "ses_a").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn backups_are_made_while_others_write() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Sqlite::open(folder.path()).unwrap();
    // Another handle, as another process would have it.
    let writer = Sqlite::open(folder.path()).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let stop = done.clone();
    let writing = tokio::spawn(async move {
        let mut owner = Owner::of(&writer, "ses_a").await;
        owner.append(vec![created("ses_a")]).await;
        while !stop.load(Ordering::Relaxed) {
            owner.append(vec![queued("a"), queued("b"), queued("c".repeat(3_000))]).await;
        }
        owner.head
    });
    let mut last = 0;
    for number in 0..10 {
        let file = elsewhere.path().join(format!("{number}.db"));
        let inside = store.backup(&file, false).await.unwrap();
        assert!(last <= inside.events && (inside.events == 0 || inside.events % 3 == 1), "whole appends only: {inside:?}");
        last = inside.events;
    }
    done.store(true, Ordering::Relaxed);
    assert!(last <= writing.await.unwrap() && 1 < last);
}

#[tokio::test]
async fn what_removed_sessions_used_is_handed_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    let mut stays = Owner::of(&store, "ses_b").await;
    stays.append(vec![created("ses_b"), queued("stays")]).await;
    let mut gone = Owner::of(&store, "ses_a").await;
    let (text, kept) = blob(&(0..4_000_000_u32).map(|at| (at * 7 % 251) as u8).collect::<Vec<_>>());
    let mut append = gone.draft(vec![created("ses_a"), queued(text)]);
    append.blobs.push(kept);
    gone.send(append).await.unwrap();
    assert_eq!(store.give_back().await.unwrap(), (0, 0), "nothing is free yet");
    store.remove(&gone.owned).await.unwrap();
    let size = || fs::metadata(folder.path().join("posse.db")).unwrap().len();
    let before = size();
    let (given, left) = store.give_back().await.unwrap();
    assert!(3_900_000 < given && left < 100_000, "{given} given back, {left} left");
    assert_eq!(before - size(), given);
    // It is the same store as before.
    assert_eq!(stays.append(vec![queued("goes on")]).await, 3);
    assert_eq!(Sqlite::open(folder.path()).unwrap().summaries(None).await.unwrap().len(), 1);
}
