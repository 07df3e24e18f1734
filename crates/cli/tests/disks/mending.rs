//! A damaged database is mended on a disk that fails or loses power meanwhile: the next start comes to the same end.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use fastrand::Rng;
use serde_json::Value;

use crate::{
    damage::{PAGE, database, put_aside, used},
    image::{Disk, Loss, Names, Unsynced, lay_out},
    journal,
    lab::{self, EIO, ENOSPC, EROFS, Fault, How},
    power::{choose, without_shared_memory},
    story,
    support::World,
};

/// Faults and power cuts of the default run, each.
const CUTS: usize = 6;

const LIST: &[&str] = &["sessions", "list"];

/// A user whose database has lost its first page, as often as one likes.
struct Patient {
    world: World,
    /// Everything as it was before anybody looked.
    ill: BTreeMap<PathBuf, Option<Vec<u8>>>,
    damaged: Vec<u8>,
    /// What is left of each session when nothing disturbs the mending.
    saved: BTreeMap<String, Vec<Value>>,
}

impl Patient {
    fn new() -> Patient {
        let (world, _) = used();
        let mut damaged = fs::read(database(&world)).unwrap();
        damaged[..PAGE].fill(0);
        fs::write(database(&world), &damaged).unwrap();
        let at_first = Loss { cut: 0, unsynced: Unsynced::Lost, names: Names::InOrder, seed: 0 };
        let ill = Disk::begin(&[&world.posse_home]).after(&at_first);
        let mut patient = Patient { world, ill, damaged, saved: BTreeMap::new() };
        patient.saved = patient.look("undisturbed");
        assert!(!patient.saved.is_empty(), "nothing of the database was saved");
        patient
    }

    fn fall_ill(&self) {
        lay_out(&self.ill, &[&self.world.posse_home]);
    }

    /// Mends what is to be mended, and reads all there is.
    fn look(&self, what: &str) -> BTreeMap<String, Vec<Value>> {
        let roots = story::sessions(&self.world, what);
        let logs = roots.iter().flat_map(|root| story::logs(&self.world, root, what)).collect();
        story::expect_a_whole_database(&self.world, what);
        let aside = put_aside(&self.world);
        assert_eq!(aside.len(), 1, "{what}: {aside:?}");
        assert!(fs::read(&aside[0]).unwrap() == self.damaged, "{what}: the damaged file is not as it was");
        logs
    }

    #[track_caller]
    fn expect_mended(&self, what: &str) {
        let found = self.look(what);
        assert!(found == self.saved, "{what}: {:?}, undisturbed {:?}", found.keys(), self.saved.keys());
    }
}

#[test]
fn a_fault_while_a_database_is_mended_costs_nothing() {
    if lab::shim().is_none() {
        return;
    }
    let patient = Patient::new();
    patient.fall_ill();
    let usual = lab::run(&patient.world, LIST, &patient.world.posse_home, None, None).1.counted;
    let cuts = lab::env_number("POSSE_DISK_SITES").unwrap_or(CUTS).min(usual);
    let kinds = [(ENOSPC, How::Stays), (EIO, How::Once), (EIO, How::Stays), (ENOSPC, How::Short), (EROFS, How::Stays)];
    for number in 0..cuts {
        let (errno, how) = kinds[number % kinds.len()];
        let fault = Fault { at: 1 + number * usual / cuts, errno, how };
        patient.fall_ill();
        let (done, report) = lab::run(&patient.world, LIST, &patient.world.posse_home, Some(fault), None);
        let what = format!("{fault}, {}", report.hit.as_deref().unwrap_or("not met"));
        story::expect_a_clean_end(&done, &what);
        patient.expect_mended(&what);
    }
    println!("{usual} writes while mending, {cuts} faults");
}

#[test]
fn a_power_cut_while_a_database_is_mended_costs_nothing() {
    if lab::shim().is_none() {
        return;
    }
    let patient = Patient::new();
    patient.fall_ill();
    let folders: [&Path; 1] = [&patient.world.posse_home];
    let recorded = patient.world.folder().join("journal");
    lab::run(&patient.world, LIST, &patient.world.posse_home, None, Some(&recorded));
    let entries = journal::read(&recorded);
    let mut rng = Rng::with_seed(lab::env_number("POSSE_SEED").unwrap_or(1) as u64);
    let cuts = lab::env_number("POSSE_POWER_IMAGES").map_or(CUTS, |images| images.min(200));
    for _ in 0..cuts {
        let loss = choose(&mut rng, entries.len());
        patient.fall_ill();
        let mut disk = Disk::begin(&folders);
        entries[..loss.cut].iter().for_each(|entry| disk.apply(entry));
        lay_out(&without_shared_memory(disk.after(&loss), &mut rng), &folders);
        patient.expect_mended(&format!("{loss:?}"));
    }
    println!("{} entries while mending, {cuts} power cuts", entries.len());
}
