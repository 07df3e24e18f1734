//! A database that was damaged while nobody looked: posse starts, saves what can be read, and says where the rest is.

use std::{fs, path::Path};

use rusqlite::Connection;

use crate::{
    story,
    support::{Done, World},
};

pub(crate) const PAGE: usize = 4096;

/// A project with two sessions, and a database of some hundred pages with an empty log.
pub(crate) fn used() -> (World, Vec<String>) {
    let world = story::world();
    world.run(&["sooner"]).expect_code(0);
    world.run(&["go"]).expect_code(0);
    let connection = Connection::open(database(&world)).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(connection);
    let sessions = story::sessions(&world, "undamaged");
    assert_eq!(sessions.len(), 2);
    (world, sessions)
}

pub(crate) fn database(world: &World) -> std::path::PathBuf {
    story::databases(world).remove(0)
}

/// What was put aside for repair.
pub(crate) fn put_aside(world: &World) -> Vec<std::path::PathBuf> {
    let folder = database(world).parent().unwrap().to_owned();
    let mut found: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.to_str().unwrap().contains(".broken-") && !ends_with_any(path, &["-wal", "-shm"]));
    found
}

fn ends_with_any(path: &Path, ends: &[&str]) -> bool {
    ends.iter().any(|end| path.to_str().unwrap().ends_with(end))
}

/// The next run works, and says that the damaged file is kept, and where. The one after it has nothing to say.
#[track_caller]
fn expect_salvaged(world: &World, damaged: &[u8]) -> Done {
    let done = world.run(&["later"]).expect_code(0);
    assert_eq!(done.out, "later is done\n");
    let aside = put_aside(world);
    assert_eq!(aside.len(), 1, "{done:#?}");
    assert!(fs::read(&aside[0]).unwrap() == damaged, "the damaged file is kept as it was");
    assert!(done.err.contains("damaged") && done.err.contains(aside[0].to_str().unwrap()), "{}", done.err);
    let again = world.run(&["later"]).expect_code(0);
    assert!(!again.err.contains("damaged"), "{}", again.err);
    story::expect_a_whole_database(world, "after salvage");
    assert!(story::sessions(world, "after salvage").len() >= 2);
    done
}

#[test]
fn garbage_in_place_of_the_database_is_put_aside_and_posse_starts() {
    let (world, _) = used();
    let noise: Vec<u8> = (0..50_000_u32).map(|at| (at * 7 % 251) as u8).collect();
    fs::write(database(&world), &noise).unwrap();
    let done = expect_salvaged(&world, &noise);
    assert!(done.err.contains("0 sessions"), "{}", done.err);
}

#[test]
fn a_database_cut_in_the_middle_keeps_what_is_before() {
    let (world, _) = used();
    let mut bytes = fs::read(database(&world)).unwrap();
    bytes.truncate(bytes.len() / PAGE / 2 * PAGE + 100);
    fs::write(database(&world), &bytes).unwrap();
    let done = expect_salvaged(&world, &bytes);
    assert!(!done.err.contains("0 sessions"), "{}", done.err);
}

/// Pages are read when somebody needs them, so damage in the middle may be found late; then the next start mends it.
#[test]
fn a_page_of_zeros_is_found_and_the_sessions_before_it_are_kept() {
    let (world, sessions) = used();
    let whole = fs::read(database(&world)).unwrap();
    let mut found = 0;
    // The first page but one is a table's root, the second the next one's, and so on.
    for page in 1..6 {
        let mut bytes = whole.clone();
        bytes[page * PAGE..(page + 1) * PAGE].fill(0);
        put_back(&world, &bytes);
        let mut done = world.run(&["later"]);
        if done.code == Some(1) {
            assert!(done.err.contains("damaged") && done.err.contains("start posse again"), "page {page}: {done:#?}");
            done = world.run(&["later"]);
        }
        assert_eq!((done.code, done.out.as_str()), (Some(0), "later is done\n"), "page {page}: {done:#?}");
        let listed = story::sessions(&world, "after salvage");
        if !put_aside(&world).is_empty() {
            found += 1;
            assert!(sessions.iter().all(|known| listed.contains(known)), "page {page}: {listed:?}, was {sessions:?}");
        }
        story::expect_a_whole_database(&world, &format!("page {page}"));
    }
    assert_ne!(found, 0, "no page of zeros was noticed");
}

/// The database as if nothing had been done since.
fn put_back(world: &World, bytes: &[u8]) {
    for path in put_aside(world) {
        fs::remove_file(path).unwrap();
    }
    let path = database(world);
    for end in ["-wal", "-shm", ".damaged"] {
        let _ = fs::remove_file(path.with_file_name(format!("posse.db{end}")));
    }
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_lost_write_ahead_log_costs_what_was_in_it_and_nothing_else() {
    let (world, sessions) = used();
    world.run(&["later"]).expect_code(0);
    for end in ["-wal", "-shm"] {
        let _ = fs::remove_file(database(&world).with_file_name(format!("posse.db{end}")));
    }
    assert_eq!(world.run(&["later"]).expect_code(0).out, "later is done\n");
    let listed = story::sessions(&world, "without the log");
    assert!(sessions.iter().all(|known| listed.contains(known)), "{listed:?}, was {sessions:?}");
    story::expect_a_whole_database(&world, "without the log");
}

#[test]
fn a_database_of_a_newer_posse_is_refused_and_left_alone() {
    let (world, _) = used();
    let connection = Connection::open(database(&world)).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(connection);
    let before = fs::read(database(&world)).unwrap();
    for args in [&["run", "later"][..], &["sessions", "list"]] {
        let done = world.posse(args).expect_code(1);
        let named = done.err.contains(database(&world).to_str().unwrap());
        assert!(named && done.err.contains("newer") && done.err.contains("update posse"), "{}", done.err);
    }
    assert!(fs::read(database(&world)).unwrap() == before && put_aside(&world).is_empty());
}
