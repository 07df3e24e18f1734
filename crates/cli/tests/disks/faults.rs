//! Every write that a run makes fails once: full, broken, over the quota, read-only, or half done.
//!
//! Sites are counted over the whole run, so each is a moment: the n-th change of a file below the data folder, by posse or
//! by anything it started. `POSSE_DISK_SITES=2000` tries each of the first 2,000 for each kind of fault.

use std::{collections::BTreeMap, sync::Mutex, time::Instant};

use crate::{
    lab::{self, EDQUOT, EIO, ENOSPC, EROFS, Fault, How},
    story::{self, END, Promises},
    support::{Block, World},
};

/// All kinds of fault, each over all sites: how it goes on is taken in turns.
const KINDS: &[(i32, &[How])] =
    &[(ENOSPC, &[How::Stays, How::Short]), (EIO, &[How::Once, How::Stays]), (EDQUOT, &[How::Stays]), (EROFS, &[How::Stays])];

/// Of each kind; a spread sample that takes some seconds.
const SITES: usize = 7;

/// The same for a run that begins with a long log.
const CHECKPOINT_SITES: usize = 2;

/// The same for the few writes of tools.
const TOOL_SITES: usize = 4;

#[derive(Default)]
struct Tally {
    /// How often a run ended so, and whether the fault was met at all.
    ends: BTreeMap<String, usize>,
    /// Where a run did not get done.
    calls: BTreeMap<String, usize>,
}

/// Reliability row 9: a clear stop, nothing half-written, and it goes on when the disk is well again.
#[test]
fn a_fault_at_any_write_below_the_data_folder_stops_clearly_and_goes_on_later() {
    endure_all(SITES, |_| Promises::default());
}

/// The same while SQLite moves its log into the database and begins it anew.
#[test]
fn a_fault_at_any_write_over_a_checkpoint_stops_clearly_and_goes_on_later() {
    endure_all(CHECKPOINT_SITES, story::fill_the_log);
}

fn endure_all(sites: usize, prepare: fn(&World) -> Promises) {
    if lab::shim().is_none() {
        return;
    }
    let begun = Instant::now();
    let usual = {
        let world = story::world();
        prepare(&world);
        let (done, report) = lab::run(&world, &["run", "--format", "stream-json", "go"], &world.posse_home, None, None);
        assert_eq!(done.lines().last().unwrap()["result"], END, "{done:#?}");
        report.counted
    };
    let faults = spread(usual, lab::env_number("POSSE_DISK_SITES").unwrap_or(sites));
    let tally = Mutex::new(Tally::default());
    let broken = lab::side_by_side(&faults, |fault| endure(*fault, prepare, &tally));
    let tally = tally.into_inner().unwrap();
    println!("{usual} writes in a run, {} faults in {:?}: {:?}\n{:#?}", faults.len(), begun.elapsed(), tally.ends, tally.calls);
    assert!(broken.is_empty(), "{} of {} faults were not endured:\n{}", broken.len(), faults.len(), broken.join("\n"));
}

/// So many of the sites of a run, evenly, for every kind; each kind begins elsewhere, so that together they see more.
fn spread(usual: usize, wanted: usize) -> Vec<Fault> {
    let wanted = wanted.min(usual);
    let of_kind = |(kind, (errno, ways)): (usize, &(i32, &[How]))| {
        let shift = usual * kind / wanted / KINDS.len();
        let fault =
            |number: usize| Fault { at: 1 + (number * usual / wanted + shift) % usual, errno: *errno, how: ways[number % ways.len()] };
        (0..wanted).map(fault).collect::<Vec<_>>()
    };
    KINDS.iter().enumerate().flat_map(of_kind).collect()
}

fn endure(fault: Fault, prepare: fn(&World) -> Promises, tally: &Mutex<Tally>) {
    let world = story::world();
    let mut promises = prepare(&world);
    let (done, report) = lab::run(&world, &["run", "--format", "stream-json", "go"], &world.posse_home, Some(fault), None);
    let what = format!("{fault}, {}", report.hit.as_deref().unwrap_or("not met"));
    story::expect_a_clean_end(&done, &what);
    story::expect_no_torn_file(&world, &what);
    story::expect_nothing_left(&world, &what);
    let lines = done.lines();
    if done.code == Some(0) {
        assert_eq!(lines.last().unwrap()["result"], END, "{what}: {done:#?}");
    } else {
        assert!(report.hit.is_some(), "{what}: {done:#?}");
        let home = world.posse_home.to_str().unwrap();
        assert!(done.err.contains(home), "{what}: does not say where: {}", done.err);
        assert!(says_what_to_do(fault.errno, &done.err), "{what}: does not say what happened and what to do: {}", done.err);
    }
    promises.forget_the_earlier();
    promises.note(&lines, &what);
    story::finish(&world, &mut promises, &what);
    let mut tally = tally.lock().unwrap();
    let met = if report.hit.is_some() { "" } else { ", not met" };
    *tally.ends.entry(format!("code {}{met}", done.code.unwrap())).or_default() += 1;
    if done.code == Some(1) {
        let call = report.hit.unwrap().split(' ').next().unwrap().to_owned();
        *tally.calls.entry(call).or_default() += 1;
    }
}

/// What was done can be read as long as the disk can be.
#[test]
fn sessions_are_read_where_nothing_can_be_written() {
    if lab::shim().is_none() {
        return;
    }
    let world = story::world();
    world.run(&["go"]).expect_code(0);
    let id = story::sessions(&world, "before").remove(0);
    for (args, part) in [(&["sessions", "list", "--format", "json"][..], ""), (&["sessions", "show", &id, "--format", "json"], "/events")] {
        let before = world.posse(args).expect_code(0).json();
        for (errno, _) in KINDS {
            let fault = Fault { at: 1, errno: *errno, how: How::Stays };
            let (done, _) = lab::run(&world, args, &world.posse_home, Some(fault), None);
            let shown = done.expect_code(0).json();
            assert_eq!(shown.pointer(part), before.pointer(part), "{args:?}, {fault}");
        }
    }
}

/// The user's own files are on a disk that fails: the model is told, the run goes on, and no file is torn.
#[test]
fn a_fault_at_any_write_of_a_tool_is_an_error_of_the_call_and_leaves_files_whole() {
    if lab::shim().is_none() {
        return;
    }
    let begun = Instant::now();
    let usual = {
        let world = story::world();
        lab::run(&world, &["run", "go"], &world.project, None, None).1.counted
    };
    let wanted = lab::env_number("POSSE_DISK_SITES").unwrap_or(TOOL_SITES);
    let faults = spread(usual, wanted);
    let broken = lab::side_by_side(&faults, |fault| endure_in_the_project(*fault));
    println!("{usual} writes in the project, {} faults in {:?}", faults.len(), begun.elapsed());
    assert!(broken.is_empty(), "{} of {} faults were not endured:\n{}", broken.len(), faults.len(), broken.join("\n"));
}

fn endure_in_the_project(fault: Fault) {
    let world = story::world();
    let (done, report) = lab::run(&world, &["run", "--format", "stream-json", "go"], &world.project, Some(fault), None);
    let what = format!("{fault}, {}", report.hit.as_deref().unwrap_or("not met"));
    assert!(done.code == Some(0) && !done.timed_out, "{what}: {done:#?}");
    assert_eq!(done.lines().last().unwrap()["result"], END, "{what}: {done:#?}");
    story::expect_no_torn_file(&world, &what);
    // A disk that takes no change keeps a temporary name too; whoever writes there next takes it away.
    if matches!(fault.errno, ENOSPC | EDQUOT) || fault.how == How::Once {
        story::expect_nothing_left(&world, &what);
    }
    let hit = report.hit.unwrap_or_default();
    // A read-only disk that has just taken a new name is no disk of this world, and a folder need not be synced there.
    let strange = fault.errno == EROFS && hit.starts_with("fsync");
    let of_a_tool = !strange && (hit.contains("/made") || hit.contains("/#") || hit.contains(".posse-"));
    let told = || world.model.last().results().iter().any(|result| matches!(result, Block::Result { error: true, .. }));
    assert!(!of_a_tool || told(), "{what}: the model was not told: {:#?}", world.model.last().results());
}

fn says_what_to_do(errno: i32, err: &str) -> bool {
    let said = |words: &[&str]| words.iter().any(|word| err.contains(word));
    match errno {
        ENOSPC => said(&["full", "No space"]) && said(&["free some space"]),
        EDQUOT => said(&["quota"]) && said(&["free some space", "posse doctor"]),
        EROFS => said(&["ead-only"]) && said(&["make the folder writable"]),
        _ => said(&["nput/output error", "reported an error", "cannot be opened"]) && said(&["posse doctor"]),
    }
}
