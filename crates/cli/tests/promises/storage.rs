//! What a user keeps: removed by id and by age, backed up while in use, read from a disk that cannot be written, saved out
//! of a damaged file.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{Answer, Seen, World};

fn id_of(world: &World, prompt: &str) -> String {
    world.run(&["--format", "json", prompt]).expect_code(0).json()["session"].as_str().unwrap().to_owned()
}

/// The folder of the one project there is.
pub(crate) fn data(world: &World) -> PathBuf {
    let mut projects = fs::read_dir(world.posse_home.join("data/projects")).unwrap();
    let folder = projects.next().unwrap().unwrap().path();
    assert!(projects.next().is_none(), "one project only");
    folder
}

fn listed(world: &World) -> Vec<String> {
    let list = world.posse(&["sessions", "list", "--format", "json"]).expect_code(0).json();
    list.as_array().unwrap().iter().map(|root| root["session"].as_str().unwrap().to_owned()).collect()
}

fn sql(world: &World, statements: &str) {
    let store = rusqlite::Connection::open(data(world).join("posse.db")).unwrap();
    store.execute_batch(statements).unwrap();
}

/// Everything that was said in a session seems to have been said so long ago.
pub(crate) fn make_old(world: &World, session: &str, days: u64) {
    let milliseconds = days * 86_400_000;
    sql(
        world,
        &format!(
            "UPDATE events SET at = at - {milliseconds} WHERE place >> 32 = (SELECT key FROM sessions WHERE id = '{session}');
             DELETE FROM summaries WHERE session = (SELECT key FROM sessions WHERE id = '{session}');"
        ),
    );
}

#[test]
fn several_sessions_are_removed_by_their_ids() {
    let world = World::new(|_: &Seen| "ok");
    let (one, two, three) = (id_of(&world, "one"), id_of(&world, "two"), id_of(&world, "three"));
    // One that is not there stops it before anything is removed.
    world.posse(&["sessions", "rm", &one, "ses_ZZZ"]).expect_code(2);
    assert_eq!(listed(&world).len(), 3);
    let done = world.posse(&["sessions", "rm", &one, &two, &one]).expect_code(0);
    assert_eq!(done.out.lines().count(), 2, "{}", done.out);
    assert_eq!(listed(&world), [three]);
    for wrong in [&["sessions", "rm"][..], &["sessions", "rm", &one, "--older-than", "1d"], &["sessions", "rm", "--dry-run", &one]] {
        world.posse(wrong).expect_code(2);
    }
}

#[test]
fn sessions_that_have_rested_for_long_are_removed_by_age() {
    let world = World::new(|seen: &Seen| match (seen.user_texts().last().unwrap().contains("shell"), seen.steps()) {
        (true, 0) => Answer::call("bash", json!({"command": "echo printed"})),
        _ => Answer::text("ok"),
    });
    let (old, young, stuck) = (id_of(&world, "old shell"), id_of(&world, "young"), id_of(&world, "stuck"));
    make_old(&world, &old, 40);
    make_old(&world, &stuck, 40);
    // As a crash leaves it: work that nobody has ended.
    sql(
        &world,
        &format!(
            "DELETE FROM events WHERE place >> 32 = (SELECT key FROM sessions WHERE id = '{stuck}') AND body LIKE '%\"type\":\"ended\"%'"
        ),
    );
    let would = world.posse(&["sessions", "rm", "--older-than", "30d", "--dry-run"]).expect_code(0).out;
    assert!(would.contains(&old) && would.contains("old shell") && would.lines().count() == 1, "{would}");
    assert_eq!(listed(&world).len(), 3, "it was only asked");
    let none = world.posse(&["sessions", "rm", "--older-than", "50d"]).expect_code(0);
    assert_eq!((none.out.as_str(), none.err.contains("50 days")), ("", true), "{}", none.err);
    let done = world.posse(&["sessions", "rm", "--older-than", "30d"]).expect_code(0).out;
    assert!(done.contains(&old) && done.lines().count() == 1, "{done}");
    let left = listed(&world);
    assert!(left.contains(&young) && left.contains(&stuck) && left.len() == 2, "{left:?}");
    assert!(!data(&world).join("spool").join(&old).exists(), "with what its calls had printed");
}

#[test]
fn what_a_fork_shows_is_kept_until_the_fork_goes() {
    let world = World::new(|_: &Seen| "ok");
    let (shown, fork) = (id_of(&world, "shown"), id_of(&world, "fork"));
    let body = json!({"type": "forked", "segments": [{"session": shown, "from": 0, "to": 3}]}).to_string();
    sql(
        &world,
        &format!(
            "INSERT INTO events SELECT max(place) + 1, at, batch, '{body}' FROM events WHERE place >> 32 = (SELECT key FROM sessions WHERE id = '{fork}');
             INSERT INTO segment_refs SELECT key, '{shown}' FROM sessions WHERE id = '{fork}';"
        ),
    );
    let done = world.posse(&["sessions", "rm", &shown]).expect_code(1);
    assert!(done.err.contains(&fork) && done.err.contains("kept"), "{}", done.err);
    make_old(&world, &shown, 40);
    let done = world.posse(&["sessions", "rm", "--older-than", "30d"]).expect_code(0);
    assert!(done.err.contains(&fork) && done.out.is_empty(), "{done:?}");
    assert_eq!(listed(&world).len(), 2);
    // Named together they go together.
    world.posse(&["sessions", "rm", &shown, &fork]).expect_code(0);
    assert_eq!(listed(&world).len(), 0);
}

#[test]
fn retention_is_off_unless_wanted_and_looks_once_a_day() {
    let world = World::new(|_: &Seen| "ok");
    let old = id_of(&world, "old");
    make_old(&world, &old, 100);
    world.run(&["without"]).expect_code(0);
    assert!(listed(&world).contains(&old), "nobody asked for it");

    let mut config: Value = serde_json::from_str(&fs::read_to_string(world.posse_home.join("posse.json")).unwrap()).unwrap();
    config["retention"] = json!({"age": "soon"});
    world.configure(&config);
    let done = world.run(&["wrong"]).expect_code(2);
    assert!(done.err.contains("retention") && done.err.contains("90d"), "{}", done.err);
    config["retention"] = json!({"age": "90d"});
    world.configure(&config);
    let done = world.run(&["with"]).expect_code(0);
    assert!(done.err.contains("removed 1 session") && done.err.contains("retention"), "{}", done.err);
    assert!(!listed(&world).contains(&old));

    let another = id_of(&world, "another");
    make_old(&world, &another, 100);
    world.run(&["the same day"]).expect_code(0);
    assert!(listed(&world).contains(&another), "not again today");
    let stamp = data(&world).join("retention.stamp");
    let yesterday = std::time::SystemTime::now() - Duration::from_secs(25 * 60 * 60);
    fs::File::options().write(true).open(&stamp).unwrap().set_modified(yesterday).unwrap();
    world.run(&["the next day"]).expect_code(0);
    assert!(!listed(&world).contains(&another));
}

#[test]
fn a_backup_brings_back_what_was_removed() {
    let world = World::new(|_: &Seen| "ok");
    let nothing = world.posse(&["sessions", "backup", "kept.db"]).expect_code(2);
    assert!(nothing.err.contains("no sessions"), "{}", nothing.err);
    let id = id_of(&world, "dear to me");
    let done = world.posse(&["sessions", "backup", "kept.db"]).expect_code(0);
    assert!(done.out.contains("kept.db: 1 session") && done.out.contains("checked"), "{}", done.out);
    let again = world.posse(&["sessions", "backup", "kept.db"]).expect_code(2);
    assert!(again.err.contains("kept.db") && again.err.contains("--force"), "{}", again.err);
    let json = world.posse(&["sessions", "backup", "kept.db", "--force", "--format", "json"]).expect_code(0).json();
    assert_eq!((&json["sessions"], &json["file"]), (&json!(1), &json!("kept.db")));

    world.posse(&["sessions", "rm", &id]).expect_code(0);
    assert_eq!(listed(&world).len(), 0);
    // As the command says.
    let database = data(&world).join("posse.db");
    assert!(done.out.contains(database.to_str().unwrap()), "{}", done.out);
    for end in ["-wal", "-shm"] {
        let _ = fs::remove_file(data(&world).join(format!("posse.db{end}")));
    }
    fs::copy(world.project.join("kept.db"), &database).unwrap();
    assert_eq!(listed(&world), std::slice::from_ref(&id));
    world.run(&["-s", &id, "and on"]).expect_code(0);
}

#[test]
fn a_damaged_database_is_saved_reported_and_kept() {
    let world = World::new(|seen: &Seen| format!("answer {}", seen.steps() + 1));
    let id = id_of(&world, "one");
    let file = data(&world).join("posse.db");
    sql(&world, "PRAGMA wal_checkpoint(TRUNCATE)");
    for end in ["-wal", "-shm"] {
        let _ = fs::remove_file(data(&world).join(format!("posse.db{end}")));
    }
    let mut bytes = fs::read(&file).unwrap();
    bytes[..4096].fill(0);
    fs::write(&file, &bytes).unwrap();
    let done = world.posse(&["sessions", "list"]).expect_code(0);
    assert!(done.out.contains(&id), "{}", done.out);
    assert!(done.err.contains("damaged") && done.err.contains("1 session") && done.err.contains("posse.db.broken-"), "{}", done.err);
    assert_eq!(world.run(&["-s", &id, "two"]).expect_code(0).out, "answer 2\n");
    let kept: Vec<PathBuf> = fs::read_dir(data(&world)).unwrap().map(|entry| entry.unwrap().path()).collect();
    let kept = kept.iter().find(|path| path.to_str().unwrap().contains("broken-")).unwrap();
    assert_eq!(fs::read(kept).unwrap(), bytes, "as it was");
    let doctor = world.posse(&["doctor"]);
    assert!(doctor.out.contains("checked"), "{}", doctor.out);
}

/// Issue 6: a damaged write-ahead log lost every session and nobody said so.
#[test]
fn a_damaged_log_is_saved_reported_and_kept() {
    let world = World::new(|_: &Seen| "ok");
    let mut ids = vec![id_of(&world, "one")];
    let (file, log) = (data(&world).join("posse.db"), data(&world).join("posse.db-wal"));
    assert_eq!(fs::metadata(&log).map_or(0, |log| log.len()), 0, "a run that is over leaves nothing in the log");
    // As a kill leaves it: somebody who reads keeps the log from being moved.
    let reader = rusqlite::Connection::open(&file).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM events").unwrap();
    ids.extend(["two", "three", "four"].map(|prompt| id_of(&world, prompt)));
    let (database, mut bytes) = (fs::read(&file).unwrap(), fs::read(&log).unwrap());
    drop(reader);
    bytes[..32].fill(0x5a);
    fs::write(&file, database).unwrap();
    fs::write(&log, &bytes).unwrap();
    let _ = fs::remove_file(data(&world).join("posse.db-shm"));

    let done = world.posse(&["sessions", "list"]).expect_code(0);
    assert!(ids.iter().all(|id| done.out.contains(id)), "{done:?}");
    assert!(done.err.contains("write-ahead log") && done.err.contains("4 sessions") && done.err.contains("broken-"), "{}", done.err);
    let kept = fs::read_dir(data(&world)).unwrap().map(|entry| entry.unwrap().path());
    let kept =
        kept.into_iter().find(|path| path.to_str().unwrap().contains("broken-") && path.to_str().unwrap().ends_with("-wal")).unwrap();
    assert_eq!(fs::read(kept).unwrap(), bytes, "as it was");
    assert_eq!(world.run(&["-s", &ids[3], "five"]).expect_code(0).out, "ok\n");
    assert_eq!(listed(&world).len(), 4);

    // Without its log a database that never got anything is told from a new one by what lies beside it.
    for name in ["posse.db", "posse.db-wal", "posse.db-shm"] {
        let _ = fs::remove_file(data(&world).join(name));
    }
    rusqlite::Connection::open(&file).unwrap().execute_batch("PRAGMA journal_mode = WAL").unwrap();
    let doctor = world.posse(&["doctor"]).expect_code(0);
    assert!(doctor.out.contains("is gone") && ids.iter().all(|id| doctor.out.contains(id)), "{}", doctor.out);
    assert!(world.posse(&["doctor"]).out.contains("checked"), "it is told once");
}

/// Damage that is found by reading is mended by the command that finds it.
#[test]
fn the_first_command_that_meets_damage_mends_it_and_goes_on() {
    for command in [&["sessions", "show", "ID"][..], &["run", "-s", "ID", "-"]] {
        let world = World::new(|seen: &Seen| seen.user_texts().last().unwrap().to_string());
        let (id, other) = (id_of(&world, "one"), id_of(&world, "two"));
        sql(
            &world,
            &format!(
                "UPDATE events SET body = substr(body, 2) WHERE place =
                     (SELECT max(place) FROM events WHERE place >> 32 = (SELECT key FROM sessions WHERE id = '{id}'));
                 DELETE FROM folds"
            ),
        );
        let words: Vec<&str> = command.iter().map(|word| if *word == "ID" { id.as_str() } else { *word }).collect();
        let done = world.command(&words).stdin("piped in\n").run().expect_code(0);
        assert!(done.err.contains("damaged") && done.err.contains(&format!("{id} ends after event")), "{command:?}: {done:?}");
        assert!(!done.err.contains("acknowledged") && !done.err.contains("start posse again"), "{command:?}: {done:?}");
        assert!(if command[0] == "run" { done.out == "piped in\n" } else { done.out.contains("one") }, "{command:?}: {}", done.out);
        assert!(listed(&world).contains(&other));
    }
}

#[test]
fn doctor_mends_what_it_finds() {
    let world = World::new(|_: &Seen| "ok");
    let id = id_of(&world, "one");
    let file = data(&world).join("posse.db");
    let page: u32 = {
        let store = rusqlite::Connection::open(&file).unwrap();
        store.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        store.query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'letters_of_tree'", [], |row| row.get(0)).unwrap()
    };
    let mut bytes = fs::read(&file).unwrap();
    let start = (page as usize - 1) * 4096;
    bytes[start..start + 4096].fill(0xff);
    fs::write(&file, &bytes).unwrap();
    let doctor = world.posse(&["doctor"]).expect_code(0);
    assert!(doctor.out.contains("damaged") && doctor.out.contains("1 session,"), "{}", doctor.out);
    assert!(world.posse(&["doctor"]).expect_code(0).out.contains("checked"));
    assert_eq!(listed(&world), [id]);
}

/// A text that is gone must not keep its session from going on.
#[test]
fn a_session_whose_long_texts_are_missing_goes_on() {
    let world = World::new(|seen: &Seen| match seen.steps() {
        0 => Answer::call("bash", json!({"command": "seq 1 900"})),
        steps => Answer::text(&format!("answer {steps}")),
    });
    let id = id_of(&world, &format!("a long prompt {}", "word ".repeat(6_000)));
    sql(&world, "UPDATE blobs SET body = zeroblob(length(body))");
    world.posse(&["sessions", "show", &id]).expect_code(0);
    let done = world.run(&["-s", &id, "go on"]);
    assert_eq!(done.code, Some(0), "{done:#?}");
    world.posse(&["sessions", "list"]).expect_code(0);
    let done = world.run(&["-s", &id, "and again"]);
    assert_eq!(done.code, Some(0), "{done:#?}");
}

struct ReadOnly(PathBuf);

impl ReadOnly {
    /// Puts what is in this folder on a disk that cannot be written.
    fn disk(folder: &Path) -> Option<Self> {
        let aside = folder.with_file_name("aside");
        fs::rename(folder, &aside).unwrap();
        fs::create_dir(folder).unwrap();
        let mount = |args: &[&str]| Command::new("mount").args(args).arg(folder).output().is_ok_and(|done| done.status.success());
        if !mount(&["-t", "tmpfs", "tmpfs"]) {
            return None;
        }
        let disk = Self(folder.to_owned());
        let copied = Command::new("cp").arg("-a").arg(aside.join(".")).arg(folder).status().unwrap();
        assert!(copied.success() && mount(&["-o", "remount,ro"]));
        Some(disk)
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_read_only_disk_can_be_read_and_says_why_it_is_not_written() {
    let world = World::new(|_: &Seen| "ok");
    let id = id_of(&world, "one");
    let Some(_disk) = ReadOnly::disk(&world.posse_home.join("data")) else { return eprintln!("skipped: no disk can be mounted here") };
    assert!(world.posse(&["sessions", "list"]).expect_code(0).out.contains(&id));
    assert!(world.posse(&["sessions", "show", &id]).expect_code(0).out.contains("one"));
    world.posse(&["sessions", "tree", &id]).expect_code(0);
    assert!(world.posse(&["sessions", "export", &id]).expect_code(0).out.contains("ok"));
    world.posse(&["sessions", "backup", "elsewhere.db"]).expect_code(0);
    let requests = world.model.requests().len();
    for command in [&["run", "two"][..], &["run", "-s", &id, "two"], &["sessions", "rm", &id]] {
        let done = world.posse(command).expect_code(1);
        assert!(done.err.contains("read-only") && done.err.contains("POSSE_HOME"), "{command:?}: {}", done.err);
    }
    assert_eq!(world.model.requests().len(), requests, "nothing is asked that could not be kept");
}

/// The scale row of the reliability goals: a list of ten thousand is no wait. The bound is loose, for a build
/// without optimisation on a busy machine; `bench` measures.
#[test]
fn ten_thousand_sessions_are_listed_without_a_wait() {
    let world = World::new(|_: &Seen| "ok");
    id_of(&world, "the first");
    sql(
        &world,
        "BEGIN;
         WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
         INSERT INTO sessions (id, root) SELECT printf('ses_%026d', i), printf('ses_%026d', i) FROM n;
         INSERT INTO summaries (session, version, body) SELECT key, (SELECT version FROM summaries),
             (SELECT json_set(body, '$.session', id, '$.root', id, '$.updated', key) FROM summaries) FROM sessions WHERE key > 1;
         COMMIT;",
    );
    let begun = Instant::now();
    let done = world.posse(&["sessions", "list"]).expect_code(0);
    let took = begun.elapsed();
    println!("10,000 sessions, the newest 50 of them listed in {took:?}");
    assert_eq!(done.out.lines().count(), 50);
    assert!(done.err.contains("9950 more") && done.err.contains("--all"), "{}", done.err);
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert_eq!(world.posse(&["sessions", "list", "--limit", "3"]).expect_code(0).out.lines().count(), 3);
    assert_eq!(world.posse(&["sessions", "list", "--all"]).expect_code(0).out.lines().count(), 10_000);
}
