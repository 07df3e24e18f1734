//! The output files of tasks: kept while a task runs and after it, private, bounded, and never a reason to stop.

#![allow(clippy::unwrap_used)]

use std::{
    fs,
    io::Read,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use posse_session::SessionId;
use posse_store::Outputs;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use tempfile::TempDir;

const BOUND: u64 = 16 * 1024 * 1024;

struct Desk {
    folder: TempDir,
    outputs: Outputs,
    session: SessionId,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let outputs = Outputs::new(folder.path().join("spool"));
        Self { folder, outputs, session: SessionId::new("ses_1") }
    }

    fn begin(&self, story: &str) {
        self.outputs.begin(&self.session, story);
    }

    fn append(&self, text: &str) {
        self.outputs.append(&self.session, text);
    }

    fn path(&self) -> PathBuf {
        self.outputs.path(&self.session)
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    /// Names in the folder of the session.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path().parent().unwrap()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Somebody else's file, which must stay as it is.
    fn theirs(&self) -> PathBuf {
        let path = self.folder.path().join("theirs");
        fs::write(&path, "theirs\n").unwrap();
        path
    }

    fn make_place(&self) {
        fs::create_dir_all(self.path().parent().unwrap()).unwrap();
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

/// CC-254, CC-255: what a task says and does is in a file of its own from the first word on, and stays there.
#[test]
fn a_file_begins_grows_and_is_told_anew() {
    let desk = Desk::new();
    assert_eq!(desk.path(), desk.folder.path().join("spool/ses_1/output.txt"));
    desk.begin("> task from ses_0: go\n");
    assert_eq!(desk.text(), "> task from ses_0: go\n");
    desk.append("I look.\n");
    desk.append("* grep x\n");
    assert_eq!(desk.text(), "> task from ses_0: go\nI look.\n* grep x\n");
    // Opened again: what the log says replaces what was there, and is not added to it.
    desk.begin("> task from ses_0: go\nI look.\n");
    desk.append("-- completed\n");
    assert_eq!(desk.text(), "> task from ses_0: go\nI look.\n-- completed\n");
    assert_eq!(desk.names(), ["output.txt"]);
}

#[test]
fn a_file_that_was_deleted_is_made_again() {
    let desk = Desk::new();
    desk.append("first\n");
    fs::remove_dir_all(desk.folder.path().join("spool")).unwrap();
    desk.append("second\n");
    assert_eq!(desk.text(), "second\n");
}

#[test]
fn files_and_folders_are_private_and_apart() {
    let desk = Desk::new();
    desk.begin("a\n");
    let other = SessionId::new("ses_2");
    desk.outputs.append(&other, "b\n");
    assert_eq!((desk.text(), fs::read_to_string(desk.outputs.path(&other)).unwrap()), ("a\n".into(), "b\n".into()));
    for path in [desk.path(), desk.outputs.path(&other)] {
        let place = path.parent().unwrap();
        assert_eq!((mode(&path), mode(place), mode(place.parent().unwrap())), (0o600, 0o700, 0o700));
    }
}

#[test]
fn a_strange_id_stays_in_the_folder() {
    let desk = Desk::new();
    let strange = SessionId::new("../../ses_1");
    assert_eq!(desk.outputs.path(&strange), desk.folder.path().join("spool/%2e%2e%2f%2e%2e%2fses_1/output.txt"));
    desk.outputs.begin(&strange, "a\n");
    assert_eq!(fs::read_to_string(desk.outputs.path(&strange)).unwrap(), "a\n");
}

/// The last line is said once, wherever the bound is met, and nothing follows it.
#[test]
fn a_file_stops_growing_at_its_bound_and_says_where_the_rest_is() {
    let line = "x".repeat(1023) + "\n";
    let megabyte = line.repeat(1024);
    let unbroken = "é".repeat(BOUND as usize);
    for (story, pieces) in [("", [megabyte.as_str(), "ab\n"]), (unbroken.as_str(), ["b\n", "b\n"]), ("a\n", [&unbroken, "b\n"])] {
        let desk = Desk::new();
        desk.begin(story);
        for _ in 0..20 {
            pieces.iter().for_each(|piece| desk.append(piece));
        }
        let text = desk.text();
        assert!(BOUND - 200 < text.len() as u64 && text.len() as u64 <= BOUND, "{} bytes", text.len());
        let last = text.lines().last().unwrap();
        assert!(text.ends_with('\n') && last.starts_with("! This file ends here") && last.ends_with("posse sessions show ses_1"), "{last}");
        assert_eq!(text.matches("! This file ends here").count(), 1);
        desk.append("c\n");
        assert_eq!(desk.text().len(), text.len());
        desk.begin("anew\n");
        desk.append("and on\n");
        assert_eq!(desk.text(), "anew\nand on\n");
    }
}

/// Every size around the bound: one byte at a time, the file is closed exactly once.
#[test]
fn the_bound_is_met_byte_by_byte() {
    let desk = Desk::new();
    desk.begin(&("x".repeat(BOUND as usize - 300) + "\n"));
    for _ in 0..400 {
        desk.append("\n");
    }
    let text = desk.text();
    assert!(text.len() as u64 <= BOUND);
    assert_eq!(text.matches("! This file ends here").count(), 1);
    assert!(text.ends_with("posse sessions show ses_1\n"));
}

/// What stands in the place of a file is replaced by the next telling, never written through.
#[test]
fn nothing_is_written_through_a_link() {
    type Put = fn(&Path, &Path);
    let table: &[(&str, Put)] = &[
        ("a symbolic link", |theirs, place| symlink(theirs, place).unwrap()),
        ("a dangling link", |_, place| symlink(place.with_file_name("nowhere"), place).unwrap()),
        ("a hard link", |theirs, place| fs::hard_link(theirs, place).unwrap()),
        ("a pipe", |_, place| mknodat(CWD, place, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap()),
    ];
    for (what, put) in table {
        let desk = Desk::new();
        let theirs = desk.theirs();
        desk.make_place();
        put(&theirs, &desk.path());
        desk.append("lost\n");
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs\n", "{what}");
        assert_eq!(desk.names(), ["output.txt"], "{what}");
        desk.begin("whole\n");
        desk.append("and on\n");
        assert_eq!(desk.text(), "whole\nand on\n", "{what}");
        assert!(fs::symlink_metadata(desk.path()).unwrap().is_file(), "{what}");
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs\n", "{what}");
    }
}

#[test]
fn nobody_gets_the_words_through_a_pipe() {
    let desk = Desk::new();
    desk.make_place();
    mknodat(CWD, desk.path(), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let mut reader = fs::File::from(open(desk.path(), OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap());
    desk.append("secret\n");
    let mut heard = String::new();
    reader.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "");
}

#[test]
fn a_link_in_the_place_of_the_new_file_is_taken_away() {
    let desk = Desk::new();
    let theirs = desk.theirs();
    desk.make_place();
    symlink(&theirs, desk.path().with_file_name("output.txt.new")).unwrap();
    desk.begin("whole\n");
    assert_eq!((desk.text().as_str(), desk.names()), ("whole\n", vec!["output.txt".to_owned()]));
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs\n");
}

#[test]
fn a_link_in_the_place_of_the_folder_leads_nowhere() {
    let desk = Desk::new();
    let elsewhere = desk.folder.path().join("elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    fs::create_dir_all(desk.folder.path().join("spool")).unwrap();
    symlink(&elsewhere, desk.folder.path().join("spool/ses_1")).unwrap();
    desk.begin("a\n");
    desk.append("b\n");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

/// Somebody counts what is warned of.
struct Warnings(Arc<AtomicU64>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, facts: &tracing::Metadata<'_>) -> bool {
        *facts.level() == tracing::Level::WARN
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// A folder nobody can write to (not even root, who runs some tests), and a file where a folder should be.
#[test]
fn a_place_that_cannot_be_written_is_told_once_per_session_and_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("spool");
    fs::write(&file, "a file").unwrap();
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
    for place in [PathBuf::from("/proc/posse"), file, closed.join("spool")] {
        let may = place.starts_with(&closed) && rustix::process::geteuid().is_root();
        let outputs = Outputs::new(place.clone());
        let warnings = Arc::new(AtomicU64::new(0));
        tracing::subscriber::with_default(Warnings(warnings.clone()), || {
            for id in ["ses_1", "ses_2"] {
                let session = SessionId::new(id);
                outputs.begin(&session, "a\n");
                (0..10).for_each(|_| outputs.append(&session, "b\n"));
                outputs.begin(&session, "a\n");
                assert_eq!(outputs.path(&session).exists(), may, "{}", place.display());
            }
        });
        assert_eq!(warnings.load(Ordering::Relaxed), if may { 0 } else { 2 }, "{}", place.display());
    }
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn lines_that_could_not_be_written_are_said_to_be_missing_until_all_is_told_anew() {
    let desk = Desk::new();
    desk.begin("one\n");
    let (path, aside) = (desk.path(), desk.path().with_file_name("aside"));
    fs::rename(&path, &aside).unwrap();
    fs::create_dir(&path).unwrap();
    desk.append("two\n");
    desk.append("three\n");
    fs::remove_dir(&path).unwrap();
    fs::rename(&aside, &path).unwrap();
    desk.append("four\n");
    desk.append("five\n");
    let missing = "\n! Lines are missing here: they could not be written. Read them with: posse sessions show ses_1\n";
    assert_eq!(desk.text(), format!("one\n{missing}four\nfive\n"));
    desk.begin("one\ntwo\nthree\nfour\nfive\n");
    desk.append("six\n");
    assert_eq!(desk.text(), "one\ntwo\nthree\nfour\nfive\nsix\n");
}

/// Who failed to put the new file in its place leaves nothing behind.
#[test]
fn a_folder_in_the_place_of_the_file_stays_and_nothing_is_left_beside_it() {
    let desk = Desk::new();
    desk.make_place();
    fs::create_dir(desk.path()).unwrap();
    desk.begin("a\n");
    assert_eq!(desk.names(), ["output.txt"]);
    assert!(desk.path().is_dir());
}

/// CC-285: whoever reads while a story is told anew reads the old one or the new one, whole.
#[test]
fn a_reader_never_sees_half() {
    let desk = Desk::new();
    let stories = ["a".repeat(300_000) + "\n", "b".repeat(200_000) + "\n"];
    desk.begin(&stories[0]);
    let done = AtomicBool::new(false);
    let read = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let text = desk.text();
                assert!(stories.contains(&text), "{} bytes, {:?}", text.len(), text.chars().next());
                read.fetch_add(1, Ordering::Relaxed);
            }
        });
        // Enough of both: the writer goes on until the reader has had many looks.
        for round in 0..100_000 {
            desk.begin(&stories[round % 2]);
            if reader.is_finished() || 200 <= round && 200 <= read.load(Ordering::Relaxed) {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(200 <= read.load(Ordering::Relaxed));
}

#[test]
fn pieces_from_many_tasks_at_once_arrive_whole_and_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let outputs = Outputs::new(folder.path().join("spool"));
    std::thread::scope(|scope| {
        for task in 0..8 {
            let outputs = &outputs;
            scope.spawn(move || {
                let session = SessionId::new(format!("ses_{task}"));
                outputs.begin(&session, "begin\n");
                (0..125).for_each(|piece| outputs.append(&session, &format!("{task} {piece}\n")));
            });
        }
    });
    for task in 0..8 {
        let expected: String = std::iter::once("begin\n".into()).chain((0..125).map(|piece| format!("{task} {piece}\n"))).collect();
        assert_eq!(fs::read_to_string(outputs.path(&SessionId::new(format!("ses_{task}")))).unwrap(), expected);
    }
}
