//! Disks that cannot be written: what is there can be read, whatever lies beside the file, and writes say why not.
//!
//! Needs a small disk of its own, which only root can mount; says so where it cannot.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept should panic")]

mod support;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use posse_session::{Inbox, Lease, LeaseError, Log};
use posse_store::{OpenError, Sqlite};
use rusqlite::Connection;

use support::{Owner, created, id, letter, queued, read_all};

/// A disk of its own, taken away when the test ends.
struct Disk {
    folder: PathBuf,
    _parent: tempfile::TempDir,
}

impl Disk {
    fn new(size: &str) -> Option<Self> {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("disk");
        fs::create_dir(&folder).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(&folder).output();
        if !mounted.is_ok_and(|done| done.status.success()) {
            eprintln!("skipped: no disk can be mounted here");
            return None;
        }
        Some(Self { folder, _parent: parent })
    }

    /// A handle that was dropped has threads that end by themselves: until then the disk is busy.
    fn remount(&self, how: &str) {
        let begun = Instant::now();
        while !Command::new("mount").args(["-o", &format!("remount,{how}")]).arg(&self.folder).output().unwrap().status.success() {
            assert!(begun.elapsed() < Duration::from_secs(10), "remount {how}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn fill(&self) {
        // Writes until nothing fits any more: that is what it is for.
        for (name, size) in [("filler", 64 << 20), ("crumbs", 4096)] {
            let _ = fs::write(self.folder.join(name), vec![1; size]);
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.folder).status();
    }
}

/// A session of two events: one in the file, one only in the log beside it, as a killed process leaves them.
async fn used(folder: &Path) {
    let other = tempfile::tempdir().unwrap();
    let store = Sqlite::open(other.path()).unwrap();
    let mut owner = Owner::of(&store, "ses_a").await;
    owner.append(vec![created("ses_a")]).await;
    Connection::open(other.path().join("posse.db")).unwrap().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    owner.append(vec![queued("only in the log")]).await;
    fs::create_dir(folder.join("locks")).unwrap();
    for name in ["posse.db", "posse.db-wal"] {
        fs::copy(other.path().join(name), folder.join(name)).unwrap();
    }
}

async fn can_be_read_only(folder: &Path, events: usize, words: &str) {
    let scratch = tempfile::tempdir().unwrap();
    let Err(refused) = Sqlite::open(folder) else { panic!("it can be written") };
    assert!(refused.to_string().contains(words) && refused.to_string().contains(folder.to_str().unwrap()), "{refused}");
    let store = Sqlite::open_to_read(folder, scratch.path()).unwrap();
    assert!(store.unwritable().is_some_and(|why| why.contains(words)));
    assert_eq!(read_all(&store, "ses_a").await.len(), events);
    assert_eq!(store.summaries(None).await.unwrap().len(), 1);
    assert_eq!(store.with_asks().await.unwrap().len(), 0);
    assert_eq!(store.saved_fold(&id("ses_a")).await.unwrap(), None);
    assert!(!store.is_held(&id("ses_a")).await.unwrap());
    // Who wants to write is told why not.
    assert!(matches!(store.take(&id("ses_a")).await, Err(LeaseError::Unavailable(why)) if why.contains(words)));
    assert!(store.post(letter(1, "ses_a")).await.is_err_and(|error| error.to_string().contains(words)));
    // A backup to another disk works, and is whole.
    let kept = scratch.path().join("kept.db");
    assert_eq!(store.backup(&kept, false).await.unwrap().events, events as u64);
    drop(store);
    fs::remove_file(kept).unwrap();
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0, "nothing is left behind");
}

#[tokio::test]
async fn a_read_only_disk_is_read_with_all_that_is_in_the_log() {
    let Some(disk) = Disk::new("8m") else { return };
    used(&disk.folder).await;
    disk.remount("ro");
    can_be_read_only(&disk.folder, 2, "read-only").await;

    // With the files that SQLite makes beside it, as a process leaves them that lives or was killed.
    disk.remount("rw");
    let store = Sqlite::open(&disk.folder).unwrap();
    assert_eq!(read_all(&store, "ses_a").await.len(), 2);
    let beside = ["posse.db", "posse.db-wal", "posse.db-shm"].map(|name| (name, fs::read(disk.folder.join(name)).unwrap()));
    drop(store);
    disk.remount("ro");
    disk.remount("rw");
    for (name, bytes) in beside {
        fs::write(disk.folder.join(name), bytes).unwrap();
    }
    disk.remount("ro");
    can_be_read_only(&disk.folder, 2, "read-only").await;

    // Without any of them: all is in the file.
    disk.remount("rw");
    drop(Sqlite::open(&disk.folder).unwrap());
    Connection::open(disk.folder.join("posse.db")).unwrap().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    for end in ["-wal", "-shm"] {
        let _ = fs::remove_file(disk.folder.join(format!("posse.db{end}")));
    }
    disk.remount("ro");
    can_be_read_only(&disk.folder, 2, "read-only").await;
    disk.remount("rw");
    assert!(Sqlite::open(&disk.folder).unwrap().unwritable().is_none());
}

#[tokio::test]
async fn a_full_disk_is_read_too_and_goes_on_when_there_is_space() {
    let Some(disk) = Disk::new("2m") else { return };
    used(&disk.folder).await;
    disk.fill();
    can_be_read_only(&disk.folder, 2, "full").await;
    fs::remove_file(disk.folder.join("filler")).unwrap();
    let store = Sqlite::open(&disk.folder).unwrap();
    let mut owner = Owner::of(&store, "ses_a").await;
    assert_eq!(owner.append(vec![queued("there is space again")]).await, 3);
    // In the middle of work the same words come, and nothing is half there.
    disk.fill();
    let long = || vec![queued("x".repeat(8_000)); 20];
    let refused = loop {
        match owner.send(owner.draft(long())).await {
            Ok(_) => {}
            Err(error) => break error.to_string(),
        }
    };
    assert!(refused.contains("is full") && refused.contains(disk.folder.to_str().unwrap()), "{refused}");
    let head = read_all(&store, "ses_a").await.len() as u64;
    assert_eq!(head, owner.head);
    fs::remove_file(disk.folder.join("filler")).unwrap();
    assert_eq!(owner.append(long()).await, head + 20);
}

#[tokio::test]
async fn a_newer_file_is_refused_on_a_read_only_disk_as_well() {
    let Some(disk) = Disk::new("8m") else { return };
    used(&disk.folder).await;
    drop(Sqlite::open(&disk.folder).unwrap());
    Connection::open(disk.folder.join("posse.db")).unwrap().pragma_update(None, "user_version", 99).unwrap();
    disk.remount("ro");
    let refused = Sqlite::open_to_read(&disk.folder, &std::env::temp_dir());
    assert!(matches!(refused, Err(OpenError::Newer { found: 99, .. })));
}
