//! Disks and folders that fail: a plain message, nothing half-written, and the session goes on when they are well again.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde_json::json;

use crate::support::{Answer, Seen, World};

/// `nobody`: may do less than root, for whom no folder is read-only.
const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn allow(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_data_folder_that_cannot_be_written_is_said_plainly() {
    if !is_root() {
        return eprintln!("skipped: only root can become another user");
    }
    let world = World::new(|_: &Seen| "ok");
    [world.folder(), &world.home, &world.project].into_iter().for_each(|folder| allow(folder, 0o755));
    allow(&world.posse_home, 0o555);
    let run = || world.command(&["run", "hi"]).by_user(NOBODY).run();
    let done = run().expect_code(1);
    assert!(done.err.contains(world.posse_home.to_str().unwrap()) && done.err.contains("writable"), "{}", done.err);
    assert!(world.model.requests().is_empty(), "nothing is asked that could not be kept");
    allow(&world.posse_home, 0o777);
    assert_eq!(run().expect_code(0).out, "ok\n");

    let file = database(&world);
    allow(&file, 0o444);
    allow(file.parent().unwrap(), 0o555);
    let done = run().expect_code(1);
    assert!(done.err.contains("posse.db") || done.err.contains("locks"), "{}", done.err);
    allow(file.parent().unwrap(), 0o700);
    allow(&file, 0o600);
    assert_eq!(run().expect_code(0).out, "ok\n");
}

/// A small disk that is taken away again when the test ends, however it ends.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn at(folder: PathBuf, size: &str) -> Option<SmallDisk> {
        fs::create_dir_all(&folder).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(&folder).status();
        mounted.is_ok_and(|status| status.success()).then_some(SmallDisk(folder))
    }

    fn fill(folder: &Path) {
        // Writes until nothing fits any more: that is what it is for.
        let _ = fs::write(folder.join("filler"), vec![0; 64 << 20]);
        let _ = fs::write(folder.join("crumbs"), vec![0; 4096]);
    }

    fn free(&self) {
        for name in ["filler", "crumbs"] {
            let _ = fs::remove_file(self.0.join(name));
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_stops_the_turn_and_space_lets_it_go_on() {
    if !is_root() {
        return eprintln!("skipped: only root can mount a small disk");
    }
    let folder: std::sync::Arc<std::sync::OnceLock<PathBuf>> = Default::default();
    let filled = folder.clone();
    let world = World::new(move |seen: &Seen| match (seen.steps(), seen.number) {
        (0, 0) => Answer::call("bash", json!({"command": "echo one >> witness.txt"})),
        (1, 1) => {
            SmallDisk::fill(filled.get().unwrap());
            Answer::text(&"a text too long for what is left ".repeat(2000))
        }
        _ => Answer::text("all is well"),
    });
    folder.set(world.posse_home.join("data")).unwrap();
    let Some(disk) = SmallDisk::at(world.posse_home.join("data"), "3m") else {
        return eprintln!("skipped: no disk can be mounted here");
    };
    let done = world.run(&["go"]).expect_code(1);
    assert!(done.err.contains("full") && done.err.contains("space"), "{}", done.err);
    // Reading still works, or says why not; a new turn is refused with the same words.
    let again = world.run(&["another"]);
    assert_eq!(again.code, Some(1), "{again:#?}");
    assert!(again.err.contains("full") || again.err.contains("space"), "{}", again.err);

    disk.free();
    let list = world.posse(&["sessions", "list"]).expect_code(0).out;
    let id = list.lines().last().unwrap().split_whitespace().next().unwrap();
    assert_eq!(world.posse(&["sessions", "resume", id]).expect_code(0).out, "all is well\n");
    assert_eq!(world.read("witness.txt"), "one\n", "what was done is not done again");
    assert!(world.processes_left_after(Duration::from_secs(3)).is_empty());
}

#[test]
fn without_a_home_another_folder_does_and_without_any_it_is_said() {
    let world = World::new(|_: &Seen| "ok");
    assert_eq!(world.command(&["run", "hi"]).without("HOME").run().expect_code(0).out, "ok\n");
    let done = world.command(&["run", "hi"]).without("HOME").without("POSSE_HOME").run().expect_code(2);
    assert!(done.err.contains("HOME") && done.err.contains("POSSE_HOME"), "{}", done.err);
}

#[test]
fn a_project_that_disappears_during_a_run_is_an_error_for_the_model() {
    let folder: std::sync::Arc<std::sync::OnceLock<PathBuf>> = Default::default();
    let project = folder.clone();
    let world = World::with().file("a.txt", "x").script(move |seen: &Seen| match seen.steps() {
        0 => {
            fs::remove_dir_all(project.get().unwrap()).unwrap();
            Answer::call("bash", json!({"command": "ls"}))
                .and_call("read", json!({"filePath": "a.txt"}))
                .and_call("grep", json!({"pattern": "x"}))
        }
        _ => Answer::text("it is gone"),
    });
    folder.set(world.project.clone()).unwrap();
    let done = world.run(&["go"]).expect_code(0);
    assert_eq!(done.out, "it is gone\n");
    assert_eq!(world.model.last().results().len(), 3);
}

#[test]
fn a_working_directory_that_is_gone_is_said() {
    let world = World::new(|_: &Seen| "never");
    let posse = env!("CARGO_BIN_EXE_posse");
    let shell = format!("mkdir gone && cd gone && rmdir ../gone && exec '{posse}' run hi </dev/null");
    let output = Command::new("sh").args(["-c", &shell]).current_dir(&world.project).env("POSSE_HOME", &world.posse_home).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(1 | 2)), "{output:?}");
    assert!(words.contains("directory"), "{words}");
}

/// The one database there is.
fn database(world: &World) -> PathBuf {
    let projects = fs::read_dir(world.posse_home.join("data/projects")).unwrap();
    let files: Vec<PathBuf> = projects.map(|entry| entry.unwrap().path().join("posse.db")).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

#[test]
fn a_database_that_is_none_is_put_aside_as_it_is_whichever_command_finds_it() {
    let noise: Vec<u8> = (0..20_000_u32).map(|at| (at * 7 % 251) as u8).collect();
    for command in [&["run", "hi"][..], &["sessions", "list"], &["doctor"]] {
        let world = World::new(|_: &Seen| "ok");
        world.run(&["hi"]).expect_code(0);
        let file = database(&world);
        fs::write(&file, &noise).unwrap();
        for name in ["posse.db-wal", "posse.db-shm"] {
            let _ = fs::remove_file(file.with_file_name(name));
        }
        let done = world.posse(command).expect_code(0);
        let words = format!("{}{}", done.out, done.err);
        let entries = fs::read_dir(file.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
        let aside = entries.into_iter().find(|path| path.to_str().unwrap().contains("posse.db.broken-")).unwrap();
        assert!(words.contains(aside.to_str().unwrap()) && words.contains("damaged"), "{command:?}: {words}");
        assert_eq!(fs::read(&aside).unwrap(), noise);
        assert_eq!(world.run(&["hi"]).expect_code(0).out, "ok\n", "a new one begins");
    }
}

#[test]
fn a_database_of_a_newer_posse_is_not_written() {
    let world = World::new(|_: &Seen| "ok");
    world.run(&["hi"]).expect_code(0);
    let file = database(&world);
    let bytes = empty_database(99);
    fs::write(&file, &bytes).unwrap();
    for name in ["posse.db-wal", "posse.db-shm"] {
        let _ = fs::remove_file(file.with_file_name(name));
    }
    let done = world.run(&["hi"]).expect_code(1);
    assert!(done.err.contains("newer") && done.err.contains("update posse"), "{}", done.err);
    assert_eq!(fs::read(&file).unwrap(), bytes);
    assert_eq!(world.model.requests().len(), 1);
}

/// One page of SQLite without a table, of our program, in this format.
fn empty_database(format: u32) -> Vec<u8> {
    let mut page = vec![0; 4096];
    let mut put = |at: usize, bytes: &[u8]| page[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"SQLite format 3\0");
    put(16, &[0x10, 0, 1, 1, 0, 64, 32, 32]);
    // Changes, pages, schema format, encoding.
    [(24, 1), (28, 1), (44, 4), (56, 1)].into_iter().for_each(|(at, number): (usize, u32)| put(at, &number.to_be_bytes()));
    put(60, &format.to_be_bytes());
    put(68, b"POSS");
    [(92, 1), (96, 3_051_003)].into_iter().for_each(|(at, number): (usize, u32)| put(at, &number.to_be_bytes()));
    // The root of the schema: an empty leaf.
    put(100, &[13, 0, 0, 0, 0, 0x10, 0, 0]);
    page
}

#[test]
fn an_output_file_that_cannot_be_kept_is_an_error_of_the_call_only() {
    let world = World::new(|seen: &Seen| match seen.steps() {
        0 => Answer::call("bash", json!({"command": "echo fine"})),
        _ => Answer::text(seen.last_results()[0]),
    });
    world.run(&["first"]).expect_code(0);
    let spool = database(&world).with_file_name("spool");
    fs::remove_dir_all(&spool).unwrap();
    fs::write(&spool, "a file where a folder should be").unwrap();
    let done = world.run(&["second"]).expect_code(0);
    assert!(done.out.contains("spool folder") && !done.out.contains("fine"), "{}", done.out);
}
