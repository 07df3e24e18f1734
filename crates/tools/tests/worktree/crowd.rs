//! Twenty workers in twenty worktrees edit overlapping files. Every change lands or is reported, none is lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use posse_session::Worktree;
use posse_tools::MergeError;

use crate::{
    lab::{Lab, read, write},
    merging::{bring, content},
};

const WORKERS: usize = 20;
const FILES: usize = 6;
const LINES: usize = 60;
const EDITS: usize = 3;
const SEEDS: [u64; 3] = [1, 7, 20_26];

/// A small generator of our own: the same numbers on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }
}

#[derive(Debug, Clone)]
enum Edit {
    Replace(String),
    Remove,
    AddAfter(String),
}

type Plan = BTreeMap<(usize, usize), Edit>;

fn plan(worker: usize, dice: &mut Dice) -> Plan {
    let edit = |number: usize, dice: &mut Dice| {
        let text = format!("worker {worker} edit {number}");
        match dice.roll(4) {
            0 => Edit::Remove,
            1 => Edit::AddAfter(text),
            _ => Edit::Replace(text),
        }
    };
    (0..EDITS).map(|number| ((dice.roll(FILES), dice.roll(LINES)), edit(number, dice))).collect()
}

fn line(file: usize, line: usize) -> String {
    format!("file {file} line {line}")
}

/// What a file is when these edits, and no others, were made to what it was at first.
fn edited(file: usize, plans: &[&Plan]) -> String {
    let mut text = String::new();
    for number in 0..LINES {
        let edits: Vec<&Edit> = plans.iter().filter_map(|plan| plan.get(&(file, number))).collect();
        let original = line(file, number);
        let kept = edits.iter().find_map(|edit| match edit {
            Edit::Replace(text) => Some(Some(text)),
            Edit::Remove => Some(None),
            Edit::AddAfter(_) => None,
        });
        let added = edits.iter().filter_map(|edit| if let Edit::AddAfter(text) = edit { Some(text) } else { None });
        for line in kept.unwrap_or(Some(&original)).into_iter().chain(added) {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[test]
fn twenty_workers_on_overlapping_files_lose_nothing() {
    let (mut all_landed, mut all_reported) = (0, 0);
    for seed in SEEDS {
        let lab = Lab::new();
        for file in 0..FILES {
            write(&lab.repo.join(format!("f{file}")), &edited(file, &[]));
        }
        lab.git(&["add", "-A"]);
        lab.git(&["commit", "-qm", "files"]);
        let mut dice = Dice(seed);
        let plans: Vec<Plan> = (0..WORKERS).map(|worker| plan(worker, &mut dice)).collect();
        let trees: Vec<Worktree> = std::thread::scope(|scope| {
            let work = |worker: usize| {
                let (lab, plan) = (&lab, &plans[worker]);
                scope.spawn(move || {
                    let tree = lab.make(&format!("w{worker}"));
                    let files: BTreeSet<usize> = plan.keys().map(|(file, _)| *file).collect();
                    for file in files {
                        write(&Path::new(&tree.path).join(format!("f{file}")), &edited(file, &[plan]));
                    }
                    tree
                })
            };
            let workers: Vec<_> = (0..WORKERS).map(work).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).collect()
        });

        let mut landed: Vec<&Plan> = Vec::new();
        for (worker, tree) in trees.iter().enumerate() {
            let (home, theirs) = (content(&lab.repo), content(Path::new(&tree.path)));
            match bring(&lab, tree) {
                Ok(merged) => {
                    assert!(merged.released, "seed {seed}, worker {worker}: {merged:?}");
                    landed.push(&plans[worker]);
                }
                Err(MergeError::Conflicts(conflicts)) => {
                    assert!(
                        !conflicts.is_empty() && conflicts.iter().all(|conflict| !conflict.hunks.is_empty()),
                        "seed {seed}: {conflicts:?}"
                    );
                    assert_eq!(content(&lab.repo), home, "seed {seed}, worker {worker}: a conflict changes nothing at home");
                    assert_eq!(content(Path::new(&tree.path)), theirs, "seed {seed}, worker {worker}: and nothing there");
                    all_reported += 1;
                }
                Err(error) => panic!("seed {seed}, worker {worker}: {error:?}"),
            }
            for file in 0..FILES {
                assert_eq!(read(&lab.repo.join(format!("f{file}"))), edited(file, &landed), "seed {seed}, after worker {worker}: f{file}");
            }
        }
        all_landed += landed.len();
        let kept = fs::read_dir(lab.base.join("trees")).unwrap().count() - 1;
        assert_eq!(kept, WORKERS - landed.len(), "seed {seed}: who was not merged is still there");
    }
    assert!(10 <= all_landed && 10 <= all_reported, "the rows should have both: {all_landed} landed, {all_reported} reported");
}
