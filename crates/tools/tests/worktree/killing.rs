//! A posse that is killed at any moment leaves nothing that is not found, listed and finished or cleaned.
//!
//! The act runs in this test's own program, started again, and kills itself at the n-th moment between two effects.

use std::{
    fs,
    os::unix::{fs::symlink, process::ExitStatusExt},
    path::{Path, PathBuf},
    process::Command,
};

use posse_session::Worktree;
use posse_tools::{After, LeftoverKind, Making, MergeError, Onto, Worktrees};

use crate::{
    common,
    lab::{Lab, git, read, write},
    merging::{bring, by, content, merge},
    orders,
};

const BASE: &str = "POSSE_TEST_WORKTREES";
const ACT: &str = "POSSE_TEST_ACT";
const MOMENT: &str = "POSSE_TEST_MOMENT";
/// More moments than any act has.
const MOMENTS_MAX: u64 = 60;

/// Runs an act that is killed at a moment; `false` when it was over before.
pub(crate) fn is_killed(lab: &Lab, act: &str, moment: u64) -> bool {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killing::the_one_that_is_killed", "--ignored", "--quiet"])
        .env(BASE, &lab.base)
        .env(ACT, act)
        .env(MOMENT, moment.to_string())
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success() || status.signal() == Some(9), "{act} at {moment}: {status}");
    !status.success()
}

#[test]
#[ignore = "the process that the kill tests start, and kill"]
fn the_one_that_is_killed() {
    let variable = |name: &str| std::env::var(name).ok();
    let (Some(base), Some(act), Some(moment)) = (variable(BASE), variable(ACT), variable(MOMENT)) else { return };
    let base = PathBuf::from(base);
    let trees = Worktrees::new(base.join("trees")).killed_at(moment.parse().unwrap());
    let home = base.join("repo");
    let tree = || Worktree {
        home: home.to_str().unwrap().into(),
        path: base.join("trees/ses_1").to_str().unwrap().into(),
        branch: "posse/ses_1".into(),
        base: git(&home, &["rev-parse", "refs/posse/base/ses_1"]),
    };
    match act.as_str() {
        "make" => drop(trees.make(&Making { from: &home, slug: "ses_1", changes: true, title: "" }).unwrap()),
        "release" => assert!(trees.release(&tree()).unwrap()),
        "discard" => drop(trees.discard(&tree()).unwrap()),
        "merge" => drop(trees.merge(&tree(), &Onto::Home, &by("ses_1"), After::Release, None)),
        "branch" => drop(trees.merge(&tree(), &Onto::Branch("target".into()), &by("ses_1"), After::Release, None)),
        "order" => drop(orders::order(&trees, &common::keeper(), &home, orders::MAKING).unwrap()),
        "order_in_the_middle" => {
            let killing = format!("echo run >> ../runs; echo $$ > ../pid; kill -9 {}; sleep 600", std::process::id());
            drop(orders::order(&trees, &common::keeper(), &home, &killing));
        }
        other => panic!("{other}"),
    }
}

/// Each moment of an act, in a repository of its own, until the act is over before it.
pub(crate) fn at_every_moment(act: &str, prepare: impl Fn(&Lab), check: impl Fn(&Lab, u64)) {
    for moment in 1..=MOMENTS_MAX {
        let lab = Lab::new();
        prepare(&lab);
        if !is_killed(&lab, act, moment) {
            assert!(4 <= moment, "{act} has too few moments: {moment}");
            return;
        }
        check(&lab, moment);
    }
    panic!("{act} never ended");
}

pub(crate) fn clean_all(lab: &Lab) {
    for leftover in lab.trees.leftovers(&lab.repo).unwrap() {
        assert!(leftover.cleanable, "{leftover:?}");
        lab.trees.clean(&lab.repo, &leftover).unwrap();
    }
    assert_eq!(lab.trees.leftovers(&lab.repo).unwrap(), []);
    assert!(lab.traces().is_empty(), "{:?}", lab.traces());
}

#[test]
fn a_killed_making_is_listed_and_cleaned_or_done_again() {
    let prepare = |lab: &Lab| write(&lab.repo.join("a.txt"), "uncommitted\n");
    at_every_moment("make", prepare, |lab, moment| {
        let leftovers = lab.trees.leftovers(&lab.repo).unwrap();
        assert_eq!(leftovers.iter().map(|leftover| leftover.kind).collect::<Vec<_>>(), [LeftoverKind::HalfMade], "{moment}");
        assert_eq!(lab.git(&["status", "--porcelain"]), " M a.txt", "{moment}");
        if moment % 2 == 0 {
            clean_all(lab);
        }
        let (tree, _) = lab.make_from(&lab.repo, "ses_1", true);
        assert_eq!(read(&Path::new(&tree.path).join("a.txt")), "uncommitted\n", "{moment}");
        assert!(lab.trees.release(&tree).unwrap(), "{moment}");
        assert!(lab.traces().is_empty(), "{moment}: {:?}", lab.traces());
    });
}

#[test]
fn a_killed_removal_is_listed_and_cleaned_or_gone_on_with() {
    for (act, has_commits) in [("release", false), ("discard", false), ("discard", true)] {
        let prepare = |lab: &Lab| {
            let tree = lab.make("ses_1");
            if act == "discard" {
                write(&Path::new(&tree.path).join("work"), "work\n");
            }
            if has_commits {
                git(Path::new(&tree.path), &["add", "-A"]);
                git(Path::new(&tree.path), &["commit", "-qm", "work"]);
            }
        };
        at_every_moment(act, prepare, |lab, moment| {
            let base = lab.git(&["rev-parse", "main"]);
            let path = lab.base.join("trees/ses_1");
            let tree = Worktree {
                home: lab.repo.to_str().unwrap().into(),
                path: path.to_str().unwrap().into(),
                branch: "posse/ses_1".into(),
                base,
            };
            match moment % 3 {
                // Also with commits nothing is left of it after one cleaning: it was to be thrown away.
                0 => clean_all(lab),
                1 if has_commits => clean_all(lab),
                1 if act == "discard" => drop(lab.trees.discard(&tree).unwrap()),
                1 => assert!(lab.trees.release(&tree).unwrap(), "{act} at {moment}"),
                _ => {
                    lab.trees.ensure(&tree).unwrap();
                    assert_eq!(read(&path.join("a.txt")), "one\ntwo\nthree\n", "{act} at {moment}");
                    lab.trees.discard(&tree).unwrap();
                }
            }
            assert!(lab.traces().is_empty(), "{act} at {moment}: {:?}", lab.traces());
        });
    }
}

/// A change of every kind, so that there are many moments between two files.
fn work(top: &Path) {
    write(&top.join("a.txt"), "ONE\ntwo\nthree\n");
    write(&top.join("new/deep"), "new\n");
    fs::remove_dir_all(top.join("sub")).unwrap();
    write(&top.join("sub"), "a file now\n");
    symlink("a.txt", top.join("link")).unwrap();
    write(&top.join("z"), "z\n");
}

fn prepare_merge(lab: &Lab) {
    let tree = lab.make("ses_1");
    work(Path::new(&tree.path));
    write(&lab.repo.join("mine"), "mine\n");
}

fn expected() -> Vec<(&'static str, &'static str)> {
    vec![
        (".gitignore", "- *.log\n"),
        ("a.txt", "- ONE\ntwo\nthree\n"),
        ("link", "-> a.txt"),
        ("mine", "- mine\n"),
        ("new/deep", "- new\n"),
        ("sub", "- a file now\n"),
        ("z", "- z\n"),
    ]
}

fn at_home(lab: &Lab) -> Vec<(String, String)> {
    let text = |(path, text): (PathBuf, Vec<u8>)| (path.to_str().unwrap().to_owned(), String::from_utf8(text).unwrap());
    content(&lab.repo).into_iter().map(text).collect()
}

fn assert_is_home(lab: &Lab, moment: u64) {
    let expected: Vec<(String, String)> = expected().into_iter().map(|(path, text)| (path.to_owned(), text.to_owned())).collect();
    assert_eq!(at_home(lab), expected, "{moment}");
    assert_eq!(lab.git(&["for-each-ref", "--format=%(refname)", "refs/posse/merges"]).lines().count(), 1, "{moment}: once");
    assert_eq!(lab.git(&["for-each-ref", "refs/posse/merging"]), "", "{moment}");
}

pub(crate) fn tree_of(lab: &Lab) -> Worktree {
    Worktree {
        home: lab.repo.to_str().unwrap().into(),
        path: lab.base.join("trees/ses_1").to_str().unwrap().into(),
        branch: "posse/ses_1".into(),
        base: lab.git(&["rev-parse", "main"]),
    }
}

/// Every merge that was killed while files were written, until the visitor has seen enough.
pub(crate) fn each_unfinished(mut visit: impl FnMut(Lab) -> bool) {
    for moment in 1..=MOMENTS_MAX {
        let lab = Lab::new();
        prepare_merge(&lab);
        if !is_killed(&lab, "merge", moment) {
            return;
        }
        if !lab.git(&["for-each-ref", "refs/posse/merging"]).is_empty() && !visit(lab) {
            return;
        }
    }
}

/// One of them, by its number.
pub(crate) fn unfinished(number: usize) -> Lab {
    let mut all = Vec::new();
    each_unfinished(|lab| {
        all.push(lab);
        all.len() <= number
    });
    all.pop().unwrap()
}

#[test]
fn a_killed_merge_is_finished_by_the_next_one() {
    at_every_moment("merge", prepare_merge, |lab, moment| {
        // At every moment each file is the old or the new one.
        let old = [("a.txt", "- one\ntwo\nthree\n"), ("sub/b.txt", "- b\n")];
        let new = expected();
        for (path, text) in at_home(lab).into_iter().filter(|(path, _)| !path.starts_with(".posse-link-")) {
            assert!(old.iter().chain(&new).any(|known| *known == (path.as_str(), text.as_str())), "{moment}: {path} is {text:?}");
        }
        let index = fs::read(lab.repo.join(".git/index")).unwrap();
        // Only where nothing was left to be finished is there nothing new.
        let has = |name: &str| !lab.git(&["for-each-ref", name]).is_empty();
        let is_over = has("refs/posse/merged") && !has("refs/posse/merging");
        match bring(lab, &tree_of(lab)) {
            Ok(merged) => {
                assert!(!is_over && merged.released && merged.notes.is_empty(), "{moment}: {merged:?}");
                let paths: Vec<&str> = merged.files.iter().map(|file| file.path.as_str()).collect();
                assert_eq!(paths, ["a.txt", "link", "new/deep", "sub", "sub/b.txt", "z"], "{moment}");
                assert_eq!(merged.commit, lab.git(&["rev-parse", "refs/posse/merges/ses_1/1"]), "{moment}");
            }
            Err(MergeError::NothingNew) => assert!(is_over, "{moment}"),
            Err(error) => panic!("{moment}: {error:?}"),
        }
        assert_is_home(lab, moment);
        assert_eq!(fs::read(lab.repo.join(".git/index")).unwrap(), index, "{moment}");
        // Scratch files of the killed process are not in anybody's way.
        clean_all(lab);
    });
}

#[test]
fn a_killed_merge_is_finished_by_cleaning() {
    let mut unfinished = std::cell::Cell::new(0);
    at_every_moment("merge", prepare_merge, |lab, moment| {
        let leftovers = lab.trees.leftovers(&lab.repo).unwrap();
        let Some(merge) = leftovers.iter().find(|leftover| leftover.kind == LeftoverKind::Merge) else { return };
        unfinished.set(unfinished.get() + 1);
        // Somebody else's merge would finish it first, too.
        let told = "the interrupted merge of task ses_1 was finished: a.txt, link, new/deep, sub, sub/b.txt, z";
        assert_eq!(lab.trees.clean(&lab.repo, merge), Ok(vec![told.to_owned()]), "{moment}");
        assert_is_home(lab, moment);
        clean_all(lab);
    });
    assert!(5 <= *unfinished.get_mut(), "{unfinished:?}");
}

#[test]
fn what_a_person_wrote_after_the_kill_is_left() {
    let mut seen = 0;
    for moment in 1..MOMENTS_MAX {
        let lab = Lab::new();
        prepare_merge(&lab);
        if !is_killed(&lab, "merge", moment) {
            break;
        }
        if lab.git(&["for-each-ref", "refs/posse/merging"]).is_empty() {
            continue;
        }
        seen += 1;
        write(&lab.repo.join("z"), "a person's\n");
        let other = lab.make("ses_2");
        write(&Path::new(&other.path).join("other"), "other\n");
        let merged = bring(&lab, &other).unwrap();
        assert_eq!(read(&lab.repo.join("z")), "a person's\n", "{moment}");
        assert_eq!(read(&lab.repo.join("a.txt")), "ONE\ntwo\nthree\n", "{moment}");
        assert_eq!(merged.notes.len(), 2, "{moment}: {merged:?}");
        assert!(merged.notes[0].starts_with("the interrupted merge of task ses_1 was finished: a.txt, "), "{moment}: {merged:?}");
        assert!(merged.notes[1].starts_with("z was left as it is"), "{moment}: {merged:?}");
        // What was meant can still be seen.
        let commit = lab.git(&["rev-parse", "refs/posse/merges/ses_1/1"]);
        assert!(merged.notes[1].contains(&commit));
        assert_eq!(lab.git(&["show", &format!("{commit}:z")]), "z");
    }
    assert!(3 <= seen, "{seen}");
}

#[test]
fn a_merge_onto_a_branch_is_whole_at_every_moment() {
    let prepare = |lab: &Lab| {
        lab.git(&["branch", "target"]);
        prepare_merge(lab);
    };
    at_every_moment("branch", prepare, |lab, moment| {
        let onto = Onto::Branch("target".into());
        let is_there = lab.git(&["rev-parse", "target"]) != lab.git(&["rev-parse", "main"]);
        match merge(lab, &tree_of(lab), &onto, After::Release) {
            Ok(merged) => assert!(!is_there && merged.released, "{moment}: {merged:?}"),
            Err(MergeError::NothingNew) => assert!(is_there, "{moment}"),
            Err(error) => panic!("{moment}: {error:?}"),
        }
        assert_eq!(lab.git(&["log", "--format=%s", "target"]), "Merge task ses_1: what ses_1 does\nfirst", "{moment}");
        assert_eq!(lab.git(&["show", "target:z"]), "z", "{moment}");
        clean_all(lab);
    });
}
