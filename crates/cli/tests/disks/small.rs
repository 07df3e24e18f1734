//! Real small disks that fill up: with posse's data on them, or with the user's files. Only root can mount one.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    lab::{LIFE_MAX, env_number, side_by_side},
    story::{self, END, FILLER, Promises},
    support::{Block, World},
};

/// Room for the whole story with some to spare.
const DISK_KILOBYTES: usize = 6 * 1024;

/// What the story takes below the data folder, about; above it nothing is met.
const STORY_KILOBYTES: usize = 2 * 1024;

/// Disks with so much room left each; a sample that takes some seconds.
const DISKS: usize = 6;

/// Taken away again when the test ends, however it ends.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn at(folder: &Path) -> Option<SmallDisk> {
        fs::create_dir_all(folder).unwrap();
        let size = format!("size={DISK_KILOBYTES}k,mode=700");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder).output();
        mounted.is_ok_and(|output| output.status.success()).then(|| SmallDisk(folder.to_owned()))
    }

    /// Takes up all room but this.
    fn leave(&self, kilobytes: usize) {
        let facts = rustix::fs::statvfs(&self.0).unwrap();
        let free = (facts.f_bavail * facts.f_frsize) as usize;
        let filler = vec![0; free.saturating_sub(kilobytes * 1024)];
        File::create(self.0.join(FILLER)).unwrap().write_all(&filler).unwrap();
    }

    fn free(&self) {
        fs::remove_file(self.0.join(FILLER)).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn can_mount() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let can = SmallDisk::at(folder.path()).is_some();
    if !can {
        eprintln!("skipped: no small disk can be mounted here; that takes root");
    }
    can
}

/// Rooms between nothing and enough; small ones are closer together, because a run begins with many small files.
fn rooms(most: usize) -> Vec<usize> {
    let count = env_number("POSSE_DISK_SITES").map_or(DISKS, |sites| sites.min(200));
    (0..count).map(|number| most * number * number / (count * count)).collect()
}

#[test]
fn a_data_disk_that_fills_up_stops_the_run_clearly_and_space_lets_it_go_on() {
    if !can_mount() {
        return;
    }
    let ends = std::sync::Mutex::new(Vec::new());
    let broken = side_by_side(&rooms(STORY_KILOBYTES), |room| {
        let world = story::world();
        let disk = SmallDisk::at(&world.posse_home.join("data")).unwrap();
        disk.leave(*room);
        let what = format!("{room} KB left for the data");
        let done = world.command(&["run", "--format", "stream-json", "go"]).within(LIFE_MAX).run();
        story::expect_a_clean_end(&done, &what);
        story::expect_no_torn_file(&world, &what);
        if done.code == Some(1) {
            let place = world.posse_home.join("data");
            assert!(done.err.contains(place.to_str().unwrap()), "{what}: does not say where: {}", done.err);
            let said = ["full", "No space", "I/O error", "cannot be opened"].iter().any(|word| done.err.contains(word));
            assert!(said, "{what}: does not say what happened: {}", done.err);
        }
        disk.free();
        let mut promises = Promises::default();
        promises.note(&done.lines(), &what);
        story::finish(&world, &mut promises, &what);
        ends.lock().unwrap().push((*room, done.code.unwrap()));
    });
    let mut ends = ends.into_inner().unwrap();
    ends.sort_unstable();
    println!("kilobytes left, and the exit code: {ends:?}");
    assert!(broken.is_empty(), "{} broke:\n{}", broken.len(), broken.join("\n"));
    assert!(ends.first().is_some_and(|(_, code)| *code == 1), "a full disk was not met at all");
}

/// What the edit and the new file need, about.
const FILES_KILOBYTES: usize = 40;

#[test]
fn a_full_disk_below_the_project_is_the_models_to_hear_and_files_stay_whole() {
    if !can_mount() {
        return;
    }
    let failed = std::sync::Mutex::new(0);
    let broken = side_by_side(&rooms(FILES_KILOBYTES), |room| {
        let world = story::world();
        let disk = SmallDisk::at(&world.project).unwrap();
        world.write("story.txt", &story::old_text());
        world.write("notes.txt", "notes\n");
        // Three pages are taken before: the marks of calls, and folders.
        disk.leave(*room);
        let what = format!("{room} KB left for the project");
        let done = world.command(&["run", "--format", "stream-json", "go"]).within(LIFE_MAX).run();
        assert_eq!(done.code, Some(0), "{what}: {done:#?}");
        assert_eq!(done.lines().last().unwrap()["result"], END, "{what}: {done:#?}");
        story::expect_no_torn_file(&world, &what);
        story::expect_nothing_left(&world, &what);
        if world.read("story.txt") == story::old_text() {
            *failed.lock().unwrap() += 1;
            expect_told(&world, &what);
        }
    });
    assert!(broken.is_empty(), "{} broke:\n{}", broken.len(), broken.join("\n"));
    assert_ne!(failed.into_inner().unwrap(), 0, "no edit met a full disk");
}

fn expect_told(world: &World, what: &str) {
    let last = world.model.last();
    let full = |block: &&Block| matches!(block, Block::Result { error: true, text, .. } if text.contains("space") || text.contains("full"));
    assert!(last.results().iter().any(full), "{what}: the model was not told: {:#?}", last.results());
}
