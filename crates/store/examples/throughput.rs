//! How fast the SQLite store is on this machine: opening, appending from many sessions, reading a long one.
//!
//! `cargo run --release -p posse-store --example throughput [FOLDER]`; the folder should be on the disk in question.

#[path = "../tests/support/mod.rs"]
mod support;

use std::{
    path::Path,
    time::{Duration, Instant},
};

use posse_session::Log;
use posse_store::Sqlite;

use support::{Owner, created, id, read_all, step};

const SESSIONS: u64 = 100;
const STEPS: u64 = 50;

#[tokio::main]
async fn main() {
    let folder = match std::env::args().nth(1) {
        Some(folder) => tempfile::tempdir_in(folder),
        None => tempfile::tempdir(),
    };
    let folder = folder.expect("a folder can be made");
    opening(folder.path()).await;
    appending(folder.path()).await;
    reading(folder.path()).await;
    listing(folder.path()).await;
}

async fn opening(folder: &Path) {
    for name in ["fresh", "existing", "existing", "existing"] {
        let begun = Instant::now();
        let store = Sqlite::open(folder.join("opening")).expect("the store opens");
        let opened = begun.elapsed();
        let mut owner = Owner::of(&store, "ses_a").await;
        let taken = begun.elapsed();
        owner.append(vec![created("ses_a")]).await;
        println!("{name} file: open {opened:.1?}, take and read {:.1?}, first append {:.1?}", taken - opened, begun.elapsed() - taken);
        drop(owner);
        drop(store);
        // The threads close the file after the last handle is gone.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn appending(folder: &Path) {
    let store = Sqlite::open(folder.join("appending")).expect("the store opens");
    let mut writers = tokio::task::JoinSet::new();
    let begun = Instant::now();
    for number in 0..SESSIONS {
        let store = store.clone();
        writers.spawn(async move {
            let root = format!("ses_{number}");
            let mut owner = Owner::of(&store, &root).await;
            owner.append(vec![created(&root)]).await;
            let mut slowest = Duration::ZERO;
            for number in 1..=STEPS {
                for events in step(number, &"output\n".repeat(40)) {
                    let sent = Instant::now();
                    owner.append(events).await;
                    slowest = slowest.max(sent.elapsed());
                }
            }
            (owner.head, slowest)
        });
    }
    let done = writers.join_all().await;
    let events: u64 = done.iter().map(|(head, _)| head).sum();
    let slowest = done.iter().map(|(_, slowest)| *slowest).max().unwrap_or_default();
    let rate = events as f64 / begun.elapsed().as_secs_f64();
    println!("{SESSIONS} sessions: {events} durable events in {:.0?}, {rate:.0} events/s, slowest append {slowest:.1?}", begun.elapsed());
}

async fn reading(folder: &Path) {
    let folder = folder.join("reading");
    {
        let store = Sqlite::open(&folder).expect("the store opens");
        let mut owner = Owner::of(&store, "ses_a").await;
        owner.append(vec![created("ses_a")]).await;
        let events: Vec<_> = (1..=1_667).flat_map(|number| step(number, &"output\n".repeat(150))).flatten().collect();
        for events in events.chunks(100) {
            owner.append(events.to_vec()).await;
        }
    }
    let begun = Instant::now();
    let store = Sqlite::open(&folder).expect("the store opens");
    let records = read_all(&store, "ses_a").await;
    println!("open and read {} events: {:.1?}", records.len(), begun.elapsed());
    let begun = Instant::now();
    let records = store.read(&id("ses_a"), records.len() as u64 - 100, 100).await.expect("the log can be read");
    println!("read the last {} events: {:.1?}", records.len(), begun.elapsed());
}

async fn listing(folder: &Path) {
    let store = Sqlite::open(folder.join("listing")).expect("the store opens");
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..100 {
        let store = store.clone();
        writers.spawn(async move {
            for number in 0..100 {
                let root = format!("ses_{writer}_{number}");
                Owner::of(&store, &root).await.append(vec![created(&root)]).await;
            }
        });
    }
    writers.join_all().await;
    for _ in 0..2 {
        let begun = Instant::now();
        let listed = store.summaries(None).await.expect("the views can be read");
        println!("list {} sessions: {:.1?}", listed.len(), begun.elapsed());
    }
}
