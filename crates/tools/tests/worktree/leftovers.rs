//! Everything of ours is listed, with what may go and why the rest stays; cleaning loses nothing.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use posse_tools::LeftoverKind;

use crate::lab::{Lab, git, init, write};

#[test]
fn everything_is_listed_and_only_what_loses_nothing_goes() {
    let lab = Lab::new();
    let (clean, dirty, committed, deleted, merged) =
        (lab.make("clean"), lab.make("dirty"), lab.make("committed"), lab.make("deleted"), lab.make("merged"));
    write(&Path::new(&dirty.path).join("new"), "x\n");
    write(&Path::new(&committed.path).join("a.txt"), "x\n");
    git(Path::new(&committed.path), &["commit", "-qam", "x"]);
    fs::remove_dir_all(&committed.path).unwrap();
    fs::remove_dir_all(&deleted.path).unwrap();
    write(&Path::new(&merged.path).join("a.txt"), "y\n");
    git(Path::new(&merged.path), &["commit", "-qam", "y"]);
    // As if another posse's data folder had been deleted.
    for slug in ["merged", "orphan", "only-base"] {
        if slug != "merged" {
            lab.git(&["update-ref", &format!("refs/posse/base/{slug}"), "HEAD"]);
        }
    }
    lab.git(&["branch", "posse/orphan"]);
    lab.git(&["branch", "posse/kept", "posse/merged"]);
    lab.git(&["branch", "somebodys", "posse/merged"]);
    let lonely = lab.git(&["commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "lonely"]);
    lab.git(&["branch", "posse/lonely", &lonely]);
    // Folders that are nobody's, and what the killed left.
    write(&lab.base.join("trees/stray/file"), "x\n");
    fs::create_dir(lab.base.join("trees/empty")).unwrap();
    let own = lab.base.join("trees/.posse");
    write(&own.join("scratch/scratch-999999999-0123456789abcdef"), "x");
    write(&own.join("gone/old-999999999-0123456789abcdef/file"), "x");
    write(&own.join(format!("scratch/scratch-{}-0123456789abcdef", std::process::id())), "in use");
    write(&own.join("locks/nothing.lock"), "");
    let lock = lab.repo.join(".git/worktrees/clean/index.lock");
    write(&lock, "");
    let young = lab.repo.join(".git/worktrees/dirty/index.lock");
    write(&young, "");
    fs::File::options().write(true).open(&lock).unwrap().set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();

    let before = lab.git(&["for-each-ref"]);
    let leftovers = lab.trees.leftovers(&lab.repo.join("sub")).unwrap();
    assert_eq!(lab.git(&["for-each-ref"]), before, "looking changes nothing");
    let mut told: Vec<(LeftoverKind, &str, bool, &str)> = leftovers
        .iter()
        .map(|leftover| (leftover.kind, leftover.place.rsplit('/').next().unwrap(), leftover.cleanable, leftover.why.as_str()))
        .collect();
    told.sort();
    let nothing = "nothing was changed in it, or everything in it is home";
    let mut expected = vec![
        (LeftoverKind::Worktree, "clean", true, nothing),
        (LeftoverKind::Worktree, "deleted", true, nothing),
        (LeftoverKind::Worktree, "committed", false, "it holds work: 1 commit, 0 changed files"),
        (LeftoverKind::Worktree, "dirty", false, "it holds work: 0 commits, 1 changed file"),
        (LeftoverKind::Worktree, "merged", false, "it holds work: 1 commit, 1 changed file"),
        (LeftoverKind::Branch, "kept", true, "everything on it is also in refs/heads/posse/merged"),
        (LeftoverKind::Branch, "lonely", false, "its commits are nowhere else: `git log posse/lonely`"),
        (LeftoverKind::Branch, "orphan", true, "everything on it is also in refs/heads/main"),
        (LeftoverKind::Ref, "only-base", true, "its worktree and its branch are gone"),
        (LeftoverKind::Folder, "stray", false, "it is not a worktree that this posse knows: remove it by hand if it is not needed"),
        (LeftoverKind::Folder, "empty", true, "an empty folder"),
        (LeftoverKind::Scratch, "scratch-999999999-0123456789abcdef", true, "a killed command has left it"),
        (LeftoverKind::HalfRemoved, "old-999999999-0123456789abcdef", true, "it was interrupted while it was removed"),
        (LeftoverKind::Lock, "nothing.lock", true, "nothing is left that it could lock"),
        (LeftoverKind::Lock, "index.lock", true, "a git that was killed has left its lock"),
    ];
    expected.sort();
    assert_eq!(told, expected);

    for leftover in &leftovers {
        let cleaned = lab.trees.clean(&lab.repo, leftover);
        assert_eq!(cleaned.is_ok(), leftover.cleanable, "{leftover:?}: {cleaned:?}");
        // Twice is once.
        assert_eq!(lab.trees.clean(&lab.repo, leftover).is_ok(), leftover.cleanable, "{leftover:?}");
    }
    let stays: Vec<String> =
        lab.trees.leftovers(&lab.repo).unwrap().iter().map(|leftover| leftover.place.rsplit('/').next().unwrap().to_owned()).collect();
    assert_eq!(stays, ["committed", "dirty", "merged", "lonely", "stray"]);
    for path in [Path::new(&dirty.path).join("new"), lab.base.join("trees/stray/file"), young] {
        assert!(path.exists(), "{}", path.display());
    }
    assert!(!Path::new(&clean.path).exists());
    assert_eq!(lab.git(&["log", "-1", "--format=%s", "posse/committed"]), "x");
}

#[test]
fn other_repositories_and_other_folders_are_not_touched() {
    let lab = Lab::new();
    lab.make("ours");
    let second = lab.base.join("second");
    init(&second);
    git(&second, &["commit", "-q", "--allow-empty", "-m", "x"]);
    let (theirs, _) = lab.make_from(&second, "theirs", false);
    // Another posse with a folder of its own works in the same repository.
    let elsewhere = posse_tools::Worktrees::new(lab.base.join("elsewhere"));
    elsewhere.make(&posse_tools::Making { from: &lab.repo, slug: "elses", changes: false, title: "" }).unwrap();
    let told: Vec<(LeftoverKind, String, bool)> =
        lab.trees.leftovers(&lab.repo).unwrap().into_iter().map(|leftover| (leftover.kind, leftover.slug, leftover.cleanable)).collect();
    assert_eq!(told, [(LeftoverKind::Worktree, "ours".into(), true), (LeftoverKind::Branch, "elses".into(), false)]);
    // When its repository is gone, nobody can judge what is in a worktree.
    fs::remove_dir_all(&second).unwrap();
    let leftovers = lab.trees.leftovers(&lab.repo).unwrap();
    let orphan = leftovers.iter().find(|leftover| leftover.slug == "theirs").unwrap();
    assert!(!orphan.cleanable && orphan.why.contains("its repository"), "{orphan:?}");
    assert!(lab.trees.clean(&lab.repo, orphan).is_err());
    assert!(Path::new(&theirs.path).exists());
}
