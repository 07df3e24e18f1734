//! The power goes at any moment: of everything that was written, only what was synced is sure to be there.
//!
//! There is no block layer here. One run is recorded by the shim, from above the file system: each change, sync and
//! printed line in order. From that, images are made of what a disk may hold (`image.rs`), laid out in the same place, and
//! opened by the real binary. `POSSE_POWER_IMAGES=1000` makes as many; `POSSE_SEED` repeats them.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use fastrand::Rng;
use serde_json::Value;

use crate::{
    image::{Disk, Loss, Names, Unsynced, lay_out},
    journal::{self, Entry},
    lab,
    story::{self, END, Promises},
    support::World,
};

const IMAGES: usize = 24;

/// Images of one recording; then another run is recorded, because no two are quite the same.
const IMAGES_OF_ONE: usize = 12;

#[derive(Default)]
struct Tally {
    images: AtomicUsize,
    acknowledged: AtomicUsize,
    entries: AtomicUsize,
    unnamed: AtomicUsize,
}

/// Reliability row 8: nothing that was acknowledged is lost, no database is unreadable, and the work goes on.
#[test]
fn nothing_acknowledged_is_lost_when_the_power_goes() {
    if lab::shim().is_none() {
        return;
    }
    let begun = Instant::now();
    let wanted = lab::env_number("POSSE_POWER_IMAGES").unwrap_or(IMAGES);
    let seed = lab::env_number("POSSE_SEED").unwrap_or(1) as u64;
    let tally = Tally::default();
    let recordings: Vec<u64> = (0..wanted.div_ceil(IMAGES_OF_ONE) as u64).map(|number| seed + number).collect();
    let broken = lab::side_by_side(&recordings, |seed| images_of_one(*seed, &tally));
    let number = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
    println!(
        "{} images of {} recordings with {} entries: {} acknowledged events checked, {} images without the session, {:?}",
        number(&tally.images),
        recordings.len(),
        number(&tally.entries),
        number(&tally.acknowledged),
        number(&tally.unnamed),
        begun.elapsed()
    );
    assert!(broken.is_empty(), "{} recordings broke:\n{}", broken.len(), broken.join("\n"));
}

/// Half of the recordings begin in a new data folder, half with a log that is about to be moved into the database.
fn images_of_one(seed: u64, tally: &Tally) {
    let mut rng = Rng::with_seed(seed);
    let world = story::world();
    let earlier = if seed.is_multiple_of(2) { story::fill_the_log(&world) } else { Promises::default() };
    let folders = [world.posse_home.as_path(), world.project.as_path()];
    let recorded = world.folder().join("journal");
    let begin = Disk::begin(&folders).after(&Loss { cut: 0, unsynced: Unsynced::Lost, names: Names::InOrder, seed });
    let (done, _) = lab::run(&world, &["run", "--format", "stream-json", "go"], world.folder(), None, Some(&recorded));
    assert_eq!(done.lines().last().unwrap()["result"], END, "{done:#?}");
    let entries = journal::read(&recorded);
    tally.entries.fetch_add(entries.len(), Ordering::Relaxed);
    let printed: usize = entries.iter().map(|entry| if let Entry::Printed(bytes) = entry { bytes.len() } else { 0 }).sum();
    assert_eq!(printed, done.out.len(), "the journal has every printed byte");
    let moved = entries.iter().any(|entry| matches!(entry, Entry::Wrote { path, .. } if path.ends_with("posse.db")));
    assert!(moved || earlier.earlier.is_none(), "the log was never moved into the database");
    for _ in 0..IMAGES_OF_ONE {
        let loss = choose(&mut rng, entries.len());
        lay_out(&begin, &folders);
        let mut disk = Disk::begin(&folders);
        entries[..loss.cut].iter().for_each(|entry| disk.apply(entry));
        lay_out(&without_shared_memory(disk.after(&loss), &mut rng), &folders);
        let mut promises = earlier.clone();
        promises.note(&printed_before(&entries[..loss.cut]), "the recording");
        open(&world, promises, &format!("recording {seed}, {loss:?}"), tally);
    }
}

pub(crate) fn choose(rng: &mut Rng, entries: usize) -> Loss {
    let unsynced = [Unsynced::Lost, Unsynced::Kept, Unsynced::UpToAMoment, Unsynced::AnyOrder];
    let names = [Names::InOrder, Names::EachFolder];
    Loss { cut: rng.usize(0..=entries), unsynced: unsynced[rng.usize(0..4)], names: names[rng.usize(0..2)], seed: rng.u64(..) }
}

type Image = BTreeMap<std::path::PathBuf, Option<Vec<u8>>>;

/// It is written through memory, so the journal does not have it, and nobody may rely on it: gone, or noise.
pub(crate) fn without_shared_memory(mut image: Image, rng: &mut Rng) -> Image {
    let is_shared = |path: &Path| path.to_str().is_some_and(|path| path.ends_with("-shm"));
    if rng.bool() {
        image.retain(|path, _| !is_shared(path));
    } else {
        let shared = image.iter_mut().filter(|(path, _)| is_shared(path));
        shared.for_each(|(_, content)| *content = Some((0..32 * 1024).map(|_| rng.u8(..)).collect()));
    }
    image
}

/// Whole lines: half a line was not said yet.
fn printed_before(entries: &[Entry]) -> Vec<Value> {
    let printed: Vec<u8> = entries
        .iter()
        .filter_map(|entry| if let Entry::Printed(bytes) = entry { Some(bytes.as_slice()) } else { None })
        .flatten()
        .copied()
        .collect();
    let text = String::from_utf8_lossy(&printed);
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn open(world: &World, mut promises: Promises, what: &str, tally: &Tally) {
    tally.images.fetch_add(1, Ordering::Relaxed);
    tally.acknowledged.fetch_add(promises.len(), Ordering::Relaxed);
    let mut roots = story::sessions(world, what);
    roots.retain(|root| promises.earlier.as_ref() != Some(root));
    // Before anything goes on: what was said is there, and what a log calls done is done.
    let mut logs = BTreeMap::new();
    for root in roots.iter().chain(&promises.earlier) {
        logs.extend(story::logs(world, root, what));
    }
    if roots.is_empty() {
        tally.unnamed.fetch_add(1, Ordering::Relaxed);
    }
    promises.expect_kept(&logs, what);
    story::expect_a_whole_database(world, what);
    story::expect_each_call_once(world, &logs, what);
    expect_the_edits_of(world, &logs, what);
    promises.forget_the_earlier();
    story::finish(world, &mut promises, what);
}

/// Files are old or new, and new where the log says that the call is done.
fn expect_the_edits_of(world: &World, logs: &BTreeMap<String, Vec<Value>>, what: &str) {
    for (tool, file, after) in [("edit", "story.txt", story::new_text()), ("write", "made/new.txt", story::made_text())] {
        let text = std::fs::read_to_string(world.project.join(file)).ok();
        let before = (tool == "edit").then(story::old_text);
        assert!(text == before || text.as_ref() == Some(&after), "{what}: {file} is torn: {:?} bytes", text.map(|text| text.len()));
        let events = || logs.values().flatten();
        let call = events().find(|event| event["type"] == "called" && event["tool"] == tool).map(|event| &event["call"]);
        let is_done =
            |event: &&Value| event["type"] == "call_finished" && Some(&event["call"]) == call && event["outcome"]["how"] == "done";
        if events().any(|event| is_done(&event)) {
            assert!(text.as_ref() == Some(&after), "{what}: {tool} of {file} is done, says the log, and the file is not");
        }
    }
}
