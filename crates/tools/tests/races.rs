//! Ten thousand swaps: while tools read, search and change a file, a name on its path keeps turning into a link that leads
//! out. Not one byte of outside is shown and not one is written there.
// Helpers of tests may panic like the tests themselves.
#![allow(clippy::unwrap_used)]

mod common;

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use common::{Office, words};
use posse_session::{Outcome, Tool, ToolCall};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};

const SWAPS: usize = 10_000;
/// Rounds of all tools at least; those that only look go on until the swaps are done.
const ROUNDS: usize = 100;

const OURS: &str = "ours";
const THEIRS: &str = "theirs-and-nobody-elses";

/// What both sides know of each other.
#[derive(Default)]
struct Meeting {
    swaps: AtomicUsize,
    over: AtomicBool,
}

impl Meeting {
    fn has_swapped_enough(&self) -> bool {
        SWAPS <= self.swaps.load(Ordering::SeqCst)
    }
}

/// Also when the test fails: nobody may go on swapping for ever.
struct Over<'a>(&'a Meeting);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::SeqCst);
    }
}

/// Exchanges a file or folder with a link, until there were enough swaps and the others are done.
fn keep_swapping(real: &Path, target: &Path, meeting: &Meeting) {
    let link = real.with_extension("link");
    while !meeting.over.load(Ordering::SeqCst) {
        if !link.is_symlink() {
            // At first there is none; later a write may have put a file where the link was, which is its right.
            let _ = fs::remove_file(&link);
            symlink(target, &link).unwrap();
        }
        // Out and back, so that what is judged is there every other time.
        for _ in 0..2 {
            renameat_with(CWD, real, CWD, &link, RenameFlags::EXCHANGE).unwrap();
        }
        meeting.swaps.fetch_add(2, Ordering::SeqCst);
        std::thread::yield_now();
    }
}

#[derive(Debug, Default)]
struct Tally {
    done: usize,
    refused: usize,
}

/// The look at one moment and the run at the next, as the loop does it.
async fn call(office: &Office, tool: &dyn Tool, input: Value, tally: &mut Tally) {
    let name = &tool.spec().name;
    match tool.look(&input, &*office.context.workspace) {
        // As it was at that moment it led out, and nobody said yes to that.
        Ok(look) if look.touches.iter().any(|touch| touch.key == "external_directory") => return tally.refused += 1,
        Ok(_) => {}
        Err(_) => return tally.refused += 1,
    }
    let call = ToolCall { id: common::fresh_call(), input, answer: None };
    let outcome = tool.run(&call, &office.context).await;
    assert!(!format!("{outcome:?}").contains(THEIRS), "{name} showed what is outside: {outcome:?}");
    if let Outcome::Done { .. } = outcome {
        tally.done += 1;
        return;
    }
    tally.refused += 1;
    let said = words(&outcome);
    let known = ["changed since", "does not exist", "was not found"];
    assert!(known.iter().any(|words| said.contains(words)), "{name}: {said}");
}

fn race(swapped: &str, path: &str, folder: &str) {
    let office = Office::new();
    let outside = office.root.parent().unwrap().join("outside");
    let theirs = [outside.join("a.txt"), outside.join("sub/a.txt")];
    fs::create_dir_all(outside.join("sub")).unwrap();
    theirs.iter().for_each(|file| fs::write(file, format!("{THEIRS}\n")).unwrap());
    office.file(path, format!("{OURS} 0\n"));
    let target = if swapped == path { &theirs[0] } else { &outside };
    let (real, meeting) = (office.root.join(swapped), Meeting::default());
    let tools = ["write", "edit", "read", "grep", "glob", "list"].map(|name| office.tool(name));
    let mut tallies: [Tally; 6] = Default::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    std::thread::scope(|threads| {
        let swapper = threads.spawn(|| keep_swapping(&real, target, &meeting));
        let _over = Over(&meeting);
        let mut round = 0;
        while round < ROUNDS || !meeting.has_swapped_enough() {
            round += 1;
            assert!(!swapper.is_finished(), "this file system does not exchange names");
            let inputs = [
                json!({"filePath": path, "content": format!("{OURS} {round}\n")}),
                json!({"filePath": path, "oldString": OURS, "newString": format!("{OURS} again")}),
                json!({"filePath": path}),
                json!({"pattern": "ours|theirs", "path": folder}),
                json!({"pattern": format!("{folder}/**")}),
                json!({"path": folder}),
            ];
            // What goes to the disk takes long.
            let begin = if round <= ROUNDS { 0 } else { 2 };
            for ((tool, input), tally) in tools.iter().zip(inputs).zip(&mut tallies).skip(begin) {
                runtime.block_on(call(&office, &**tool, input, tally));
            }
        }
    });
    assert!(meeting.has_swapped_enough());
    eprintln!("{swapped}: {} swaps; write, edit, read, grep, glob, list: {tallies:?}", meeting.swaps.load(Ordering::SeqCst));
    for file in &theirs {
        assert_eq!(fs::read_to_string(file).unwrap(), format!("{THEIRS}\n"), "{}", file.display());
    }
    let names = |folder: &Path| fs::read_dir(folder).unwrap().count();
    assert_eq!((names(&outside), names(&outside.join("sub"))), (2, 1), "nothing was made outside");
}

#[test]
fn a_folder_that_becomes_a_link_leads_nowhere() {
    race("folder", "folder/a.txt", "folder");
}

#[test]
fn a_folder_further_up_leads_nowhere_either() {
    race("folder", "folder/sub/a.txt", "folder/sub");
}

#[test]
fn a_file_that_becomes_a_link_is_not_followed() {
    race("folder/a.txt", "folder/a.txt", "folder");
}
