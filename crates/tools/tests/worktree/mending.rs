//! Work that git was told not to see, work whose home is another task's folder, merges that stand still: none is lost.

use std::{collections::BTreeSet, fs, os::unix::fs::symlink, path::Path};

use posse_tools::{After, LeftoverKind, MergeError, Onto};

use crate::{
    killing::{clean_all, each_unfinished, tree_of, unfinished},
    lab::{Lab, git, init, names, read, write},
    merging::{bring, by, merge},
};

/// CC-222: git says that nothing differs, because somebody told it not to look.
#[test]
fn a_change_that_git_was_told_not_to_see_is_work_and_comes_home() {
    for flag in ["--assume-unchanged", "--skip-worktree"] {
        for is_removed in [false, true] {
            let lab = Lab::new();
            let tree = lab.make("ses_1");
            let top = Path::new(&tree.path);
            git(top, &["update-index", flag, "sub/b.txt"]);
            assert!(lab.trees.look(&tree).clean, "{flag}: the flag alone is no work");
            if is_removed && flag == "--assume-unchanged" {
                fs::remove_file(top.join("sub/b.txt")).unwrap();
            } else {
                write(&top.join("sub/b.txt"), "hidden\n");
            }
            assert_eq!(git(top, &["status", "--porcelain"]), "", "{flag}");
            let left = lab.trees.look(&tree);
            assert_eq!((left.files, left.clean), (1, false), "{flag}: {left:?}");
            assert_eq!(lab.trees.release(&tree), Ok(false), "{flag}");
            write(&top.join("a.txt"), "seen\n");
            let paths: Vec<String> = lab.trees.diff(&tree).unwrap().files.into_iter().map(|file| file.path).collect();
            assert_eq!(paths, ["a.txt", "sub/b.txt"], "{flag}");
            assert!(bring(&lab, &tree).unwrap().released, "{flag}");
            assert_eq!(
                (read(&lab.repo.join("a.txt")), read(&lab.repo.join("sub/b.txt"))),
                (
                    "seen\n".into(),
                    if is_removed && flag == "--assume-unchanged" { "<entity not found>".into() } else { "hidden\n".to_owned() }
                )
            );
        }
    }
}

/// CC-222: after a part came home, too, and in a submodule.
#[test]
fn a_hidden_change_keeps_what_was_merged_before_and_a_submodule() {
    let lab = Lab::new();
    let tree = lab.make("ses_1");
    let top = Path::new(&tree.path);
    write(&top.join("a.txt"), "seen\n");
    merge(&lab, &tree, &Onto::Home, After::Keep).unwrap();
    git(top, &["commit", "-qam", "seen"]);
    git(top, &["update-index", "--assume-unchanged", "sub/b.txt"]);
    write(&top.join("sub/b.txt"), "hidden\n");
    assert_eq!(lab.trees.look(&tree).files, 1);

    let library = lab.base.join("library");
    init(&library);
    write(&library.join("inner"), "inner\n");
    git(&library, &["add", "-A"]);
    git(&library, &["commit", "-qm", "library"]);
    lab.git(&["checkout", "-qf", "."]);
    lab.git(&["submodule", "--quiet", "add", library.to_str().unwrap(), "deps"]);
    lab.git(&["commit", "-qm", "submodule"]);
    let tree = lab.make("ses_2");
    let deps = Path::new(&tree.path).join("deps");
    git(&deps, &["update-index", "--skip-worktree", "inner"]);
    assert!(lab.trees.look(&tree).clean, "{:?}", lab.trees.look(&tree));
    write(&deps.join("inner"), "hidden\n");
    let left = lab.trees.look(&tree);
    assert!(!left.clean && left.unknown.contains("deps has 1 changed file (inner)"), "{left:?}");
}

/// What a person keeps from git at home is merged with like any other uncommitted change, and only where it must be.
#[test]
fn a_hidden_change_at_home_is_merged_with_and_stays_out_of_the_repository() {
    for flag in ["--assume-unchanged", "--skip-worktree"] {
        let lab = Lab::new();
        let tree = lab.make("ses_1");
        write(&Path::new(&tree.path).join("a.txt"), "one\ntwo\nTASK\n");
        for (path, text) in [("a.txt", "HOME\ntwo\nthree\n"), ("sub/b.txt", "secret\n")] {
            lab.git(&["update-index", flag, path]);
            write(&lab.repo.join(path), text);
        }
        let index = fs::read(lab.repo.join(".git/index")).unwrap();
        bring(&lab, &tree).unwrap_or_else(|error| panic!("{flag}: {error:?}"));
        assert_eq!((read(&lab.repo.join("a.txt")), read(&lab.repo.join("sub/b.txt"))), ("HOME\ntwo\nTASK\n".into(), "secret\n".into()));
        assert_eq!(fs::read(lab.repo.join(".git/index")).unwrap(), index, "{flag}");
        let secret = lab.git(&["hash-object", "sub/b.txt"]);
        assert!(!crate::lab::try_git(&lab.repo, &["cat-file", "-e", &secret]).0, "{flag}: it was not touched by the merge");
    }
}

/// What a sparse checkout at home leaves out cannot be written there, and trying again does not help.
#[test]
fn a_file_outside_of_homes_sparse_checkout_is_named_with_a_way_out() {
    let lab = Lab::new();
    write(&lab.repo.join("other/c.txt"), "c\n");
    lab.git(&["add", "-A"]);
    lab.git(&["commit", "-qm", "other"]);
    let tree = lab.make("ses_1");
    write(&Path::new(&tree.path).join("sub/b.txt"), "task\n");
    lab.git(&["branch", "target"]);
    lab.git(&["sparse-checkout", "set", "other"]);
    assert!(!lab.repo.join("sub/b.txt").exists());
    let said = bring(&lab, &tree).unwrap_err().to_string();
    assert!(said.contains("sub/b.txt") && said.contains("sparse"), "{said}");
    merge(&lab, &tree, &Onto::Branch("target".into()), After::Release).unwrap();
    assert_eq!(lab.git(&["show", "target:sub/b.txt"]), "task");
}

/// CC-224: the folder to which a worker's worker brings its work is not removed before that has come.
#[test]
fn a_worktree_is_kept_while_somebodys_work_comes_home_to_it() {
    let lab = Lab::new();
    let outer = lab.make("outer");
    let (inner, _) = lab.make_from(Path::new(&outer.path), "inner", false);
    let left = lab.trees.look(&outer);
    assert!(!left.clean && left.unknown.contains("inner"), "{left:?}");
    assert_eq!(lab.trees.release(&outer), Ok(false));
    let said = lab.trees.discard(&outer).unwrap_err();
    assert!(said.contains("inner") && said.contains("that one first"), "{said}");
    write(&Path::new(&outer.path).join("a.txt"), "outer\n");
    let merged = bring(&lab, &outer).unwrap();
    assert!(!merged.released && merged.notes.iter().any(|note| note.contains("inner")), "{merged:?}");
    write(&Path::new(&inner.path).join("sub/b.txt"), "inner\n");
    // One of which everything came home is nobody to wait for.
    merge(&lab, &inner, &Onto::Home, After::Keep).unwrap();
    assert_eq!(read(&Path::new(&outer.path).join("sub/b.txt")), "inner\n");
    assert!(bring(&lab, &outer).unwrap().released);
    assert_eq!(read(&lab.repo.join("sub/b.txt")), "inner\n");
    // What it does from now on comes home to where its home had come.
    write(&Path::new(&inner.path).join("new"), "later\n");
    let merged = bring(&lab, &inner).unwrap();
    assert!(merged.notes.iter().any(|note| note.contains(lab.repo.to_str().unwrap())), "{merged:?}");
    assert_eq!(read(&lab.repo.join("new")), "later\n");
    assert!(lab.traces().is_empty(), "{:?}", lab.traces());
}

/// A home that somebody removed by hand: the work can go to a branch, to the home's own home, and on in its folder.
#[test]
fn what_is_stranded_comes_home_elsewhere() {
    let lab = Lab::new();
    lab.git(&["branch", "target"]);
    let (first, second) = (lab.make("first"), lab.make("second"));
    let (one, _) = lab.make_from(Path::new(&first.path), "one", false);
    let (two, _) = lab.make_from(Path::new(&second.path), "two", false);
    let (three, _) = lab.make_from(Path::new(&two.path), "three", false);
    for (tree, name) in [(&one, "one"), (&two, "two"), (&three, "three")] {
        write(&Path::new(&tree.path).join(name), "work\n");
    }
    for gone in [&first, &second, &two] {
        fs::remove_dir_all(&gone.path).unwrap();
    }
    merge(&lab, &one, &Onto::Branch("target".into()), After::Release).unwrap();
    assert_eq!(lab.git(&["show", "target:one"]), "work");
    fs::remove_dir_all(&three.path).unwrap();
    lab.trees.ensure(&three).unwrap();
    write(&Path::new(&three.path).join("three"), "work\n");
    let merged = bring(&lab, &three).unwrap();
    assert!(merged.released && !merged.notes.is_empty(), "{merged:?}");
    assert_eq!(read(&lab.repo.join("three")), "work\n");

    // A branch needs no home at all.
    lab.git(&["worktree", "add", "-q", "--detach", "../linked"]);
    let (four, _) = lab.make_from(&lab.base.join("linked"), "four", false);
    write(&Path::new(&four.path).join("four"), "work\n");
    lab.git(&["worktree", "remove", "--force", "../linked"]);
    assert!(bring(&lab, &four).unwrap_err().to_string().contains("where the work comes home to"));
    merge(&lab, &four, &Onto::Branch("target".into()), After::Release).unwrap();
    assert_eq!(lab.git(&["show", "target:four"]), "work");
}

/// A rule is asked about the files that a task changed; what would change besides is not written.
#[test]
fn a_merge_changes_no_path_that_was_not_judged() {
    let lab = Lab::new();
    let tree = lab.make("ses_1");
    write(&Path::new(&tree.path).join("a.txt"), "ONE\ntwo\nthree\n");
    fs::create_dir(lab.repo.join("secret")).unwrap();
    fs::rename(lab.repo.join("a.txt"), lab.repo.join("secret/a.txt")).unwrap();
    let judged: BTreeSet<String> = lab.trees.diff(&tree).unwrap().files.into_iter().map(|file| file.path).collect();
    let before = (crate::merging::content(&lab.repo), lab.git(&["for-each-ref"]));
    let merged = lab.trees.merge(&tree, &Onto::Home, &by("ses_1"), After::Release, Some(&judged));
    assert_eq!(merged, Err(MergeError::Unjudged(vec!["secret/a.txt".into()])));
    assert_eq!((crate::merging::content(&lab.repo), lab.git(&["for-each-ref"])), before);
    let judged = BTreeSet::from(["a.txt".to_owned(), "secret/a.txt".to_owned()]);
    assert!(lab.trees.merge(&tree, &Onto::Home, &by("ses_1"), After::Release, Some(&judged)).unwrap().released);
    assert_eq!(read(&lab.repo.join("secret/a.txt")), "ONE\ntwo\nthree\n");
}

/// A merge that can never be finished is told and is in nobody's way, and it can be given up.
#[test]
fn a_merge_that_stands_still_stops_no_other() {
    let lab = Lab::new();
    let stuck = lab.make("stuck");
    let hollow =
        lab.git(&["commit-tree", "HEAD^{tree}", "-m", "Merge task stuck: x\n\nPosse-Task: stuck\nPosse-Agent: x\nPosse-Home: main"]);
    lab.git(&["update-ref", "refs/posse/merging/stuck", &hollow]);
    let other = lab.make("other");
    write(&Path::new(&other.path).join("other"), "other\n");
    let merged = bring(&lab, &other).unwrap();
    assert!(merged.released && merged.notes.iter().any(|note| note.contains("of task stuck cannot be finished")), "{merged:?}");
    assert_eq!(read(&lab.repo.join("other")), "other\n");
    write(&Path::new(&stuck.path).join("work"), "work\n");
    let said = bring(&lab, &stuck).unwrap_err().to_string();
    assert!(said.contains("posse tasks discard"), "{said}");
    let leftovers = lab.trees.leftovers(&lab.repo).unwrap();
    let merge = leftovers.iter().find(|leftover| leftover.kind == LeftoverKind::Merge).unwrap();
    let said = lab.trees.clean(&lab.repo, merge).unwrap_err();
    assert!(said.contains("git update-ref -d refs/posse/merging/stuck"), "{said}");
    let left = lab.trees.discard(&stuck).unwrap();
    assert!(left.unknown.contains("could not be taken back"), "{left:?}");
    assert!(lab.traces().is_empty(), "{:?}", lab.traces());
}

/// Who throws a task away throws away what a killed merge of it has written, too, but nothing of a person's.
#[test]
fn discarding_takes_back_what_a_killed_merge_wrote() {
    let lab = unfinished(4);
    assert_eq!(lab.git(&["for-each-ref", "--format=%(refname)", "refs/posse/merging"]), "refs/posse/merging/ses_1");
    write(&lab.repo.join("z"), "a person's\n");
    let left = lab.trees.discard(&tree_of(&lab)).unwrap();
    assert!(left.unknown.contains("taken back, but for z:"), "{left:?}");
    assert_eq!(lab.git(&["status", "--porcelain"]), "?? mine\n?? z");
    assert_eq!(read(&lab.repo.join("z")), "a person's\n");
    assert_eq!(lab.git(&["for-each-ref", "refs/posse/merges"]), "", "nobody wrote anything");
    clean_all(&lab);
}

/// Run again, a killed merge is told as what it is; what a person changed meanwhile stays to be merged.
#[test]
fn a_killed_merge_run_again_is_the_result_and_what_was_left_is_still_work() {
    let lab = unfinished(3);
    write(&lab.repo.join("z"), "a person's\n");
    let merged = bring(&lab, &tree_of(&lab)).unwrap();
    let paths: BTreeSet<&str> = merged.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, BTreeSet::from(["a.txt", "link", "new/deep", "sub", "sub/b.txt"]));
    assert!(!merged.released && merged.notes.iter().any(|note| note.starts_with("z was left as it is")), "{merged:?}");
    assert_eq!(read(&lab.repo.join("z")), "a person's\n");
    assert_eq!(merged.commit, lab.git(&["rev-parse", "refs/posse/merges/ses_1/1"]));
    let left = lab.trees.look(&tree_of(&lab));
    assert!(!left.clean, "{left:?}");
    // Now it is a merge like any other: the two texts are in conflict, and then they are not.
    let Err(MergeError::Conflicts(conflicts)) = bring(&lab, &tree_of(&lab)) else { panic!("no conflict") };
    assert_eq!(conflicts.iter().map(|conflict| conflict.path.as_str()).collect::<Vec<_>>(), ["z"]);
    fs::remove_file(lab.repo.join("z")).unwrap();
    let merged = bring(&lab, &tree_of(&lab)).unwrap();
    assert_eq!(merged.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["z"]);
    assert!(merged.released);
    clean_all(&lab);
}

/// Notes of somebody else's merge that was finished are told with an error, too.
#[test]
fn a_finished_merge_is_told_with_an_error() {
    let lab = unfinished(3);
    let other = lab.make("other");
    write(&Path::new(&other.path).join("a.txt"), "in conflict\n");
    let error = bring(&lab, &other).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("the interrupted merge of task ses_1 was finished") && said.contains("in conflict"), "{said}");
    assert!(matches!(bring(&lab, &other), Err(MergeError::Conflicts(_))));
    let nothing = lab.make("nothing");
    assert_eq!(bring(&lab, &nothing), Err(MergeError::NothingNew));
}

/// What went onto a branch is not home yet, and the other way round.
#[test]
fn each_target_has_its_own_beginning() {
    let lab = Lab::new();
    lab.git(&["branch", "review"]);
    let review = Onto::Branch("review".into());
    let tree = lab.make("ses_1");
    let top = Path::new(&tree.path);
    write(&top.join("a.txt"), "ONE\ntwo\nthree\n");
    write(&top.join("first"), "first\n");
    merge(&lab, &tree, &review, After::Keep).unwrap();
    assert!(!lab.trees.look(&tree).clean, "it is not home");
    assert_eq!(merge(&lab, &tree, &review, After::Keep), Err(MergeError::NothingNew));
    write(&top.join("a.txt"), "ONE\ntwo\nTHREE\n");
    let merged = merge(&lab, &tree, &Onto::Home, After::Keep).unwrap();
    assert_eq!(merged.files.len(), 2, "{merged:?}");
    assert_eq!((read(&lab.repo.join("a.txt")), read(&lab.repo.join("first"))), ("ONE\ntwo\nTHREE\n".into(), "first\n".into()));
    assert_eq!(lab.git(&["show", "review:a.txt"]), "ONE\ntwo\nthree");
    assert_eq!(merge(&lab, &tree, &Onto::Home, After::Keep), Err(MergeError::NothingNew));
    merge(&lab, &tree, &review, After::Keep).unwrap();
    assert_eq!(lab.git(&["show", "review:a.txt"]), "ONE\ntwo\nTHREE");
    // A branch that was set back, or made anew, has nothing of it.
    lab.git(&["branch", "-f", "review", "main"]);
    let merged = merge(&lab, &tree, &review, After::Release).unwrap();
    assert_eq!((merged.files.len(), merged.released), (2, true), "{merged:?}");
    assert!(lab.traces().is_empty(), "{:?}", lab.traces());
}

/// A task whose work went onto a branch and whose folder is gone has it again when it goes on.
#[test]
fn a_task_that_goes_on_after_a_branch_has_its_files() {
    let lab = Lab::new();
    lab.git(&["branch", "review"]);
    let tree = lab.make("ses_1");
    let top = Path::new(&tree.path);
    write(&top.join("new"), "new\n");
    assert!(merge(&lab, &tree, &Onto::Branch("review".into()), After::Release).unwrap().released);
    lab.trees.ensure(&tree).unwrap();
    assert_eq!(read(&top.join("new")), "new\n");
    assert!(!lab.trees.look(&tree).clean, "it is not home");
    bring(&lab, &tree).unwrap();
    assert_eq!(read(&lab.repo.join("new")), "new\n");
}

/// Two names of one file: writing one changes what the file system says of the other.
#[test]
fn hard_links_at_home_are_no_change_in_the_last_moment() {
    let lab = Lab::new();
    write(&lab.repo.join("twin"), "one\ntwo\nthree\n");
    lab.git(&["add", "-A"]);
    lab.git(&["commit", "-qm", "twins"]);
    fs::remove_file(lab.repo.join("twin")).unwrap();
    fs::hard_link(lab.repo.join("a.txt"), lab.repo.join("twin")).unwrap();
    let tree = lab.make("ses_1");
    for name in ["a.txt", "twin"] {
        write(&Path::new(&tree.path).join(name), "task\n");
    }
    bring(&lab, &tree).unwrap();
    assert_eq!((read(&lab.repo.join("a.txt")), read(&lab.repo.join("twin"))), ("task\n".into(), "task\n".into()));
}

/// A submodule's git folder that leads git to other settings is not entered.
#[test]
fn a_submodule_that_borrows_settings_starts_no_program() {
    for file in ["commondir", "config.worktree"] {
        let lab = Lab::new();
        let library = lab.base.join("library");
        init(&library);
        write(&library.join("inner"), "inner\n");
        git(&library, &["add", "-A"]);
        git(&library, &["commit", "-qm", "library"]);
        lab.git(&["submodule", "--quiet", "add", library.to_str().unwrap(), "deps"]);
        lab.git(&["commit", "-qm", "submodule"]);
        let tree = lab.make("ses_1");
        let modules = lab.repo.join(".git/worktrees/ses_1/modules/deps");
        let (decoy, ran) = (lab.base.join("decoy"), lab.base.join("ran"));
        git(&lab.base, &["clone", "-q", library.to_str().unwrap(), decoy.to_str().unwrap()]);
        git(&decoy, &["config", "filter.evil.clean", &format!("touch {}; cat", ran.display())]);
        write(&modules.join(file), &format!("{}\n", decoy.join(".git").display()));
        write(&Path::new(&tree.path).join("deps/.gitattributes"), "* filter=evil\n");
        write(&Path::new(&tree.path).join("deps/inner"), "changed\n");
        let left = lab.trees.look(&tree);
        assert!(!left.clean && left.unknown.contains(file), "{file}: {left:?}");
        assert!(lab.try_make(&Path::new(&tree.path).join("deps"), "ses_2", true).is_err(), "{file}");
        assert!(!ran.exists(), "{file}");
    }
}

/// A record that was cut by a power failure is told, and everything else is listed and cleaned.
#[test]
fn an_unreadable_record_stops_nothing_else() {
    let lab = Lab::new();
    let (broken, fine) = (lab.make("broken"), lab.make("fine"));
    fs::write(lab.base.join("trees/.posse/records/broken"), "").unwrap();
    let leftovers = lab.trees.leftovers(&lab.repo).unwrap();
    let told: Vec<(&str, bool)> = leftovers.iter().map(|leftover| (leftover.slug.as_str(), leftover.cleanable)).collect();
    assert_eq!(told.iter().filter(|(slug, _)| *slug == "broken").collect::<Vec<_>>(), [&("broken", false)], "{leftovers:?}");
    let clean = leftovers.iter().find(|leftover| leftover.slug == "fine").unwrap();
    lab.trees.clean(&lab.repo, clean).unwrap();
    assert!(!Path::new(&fine.path).exists() && Path::new(&broken.path).exists());
}

/// What a kill in the middle of one file has left beside it goes when the merge is finished.
#[test]
fn no_temporary_name_stays_at_home() {
    let mut seen = 0;
    each_unfinished(|lab| {
        let is_temporary = |name: &String| name.starts_with(".posse-");
        seen += usize::from(names(&lab.repo).iter().any(is_temporary));
        write(&lab.repo.join(".posse-0123456789abcdef.tmp"), "half");
        symlink("a.txt", lab.repo.join(".posse-mine")).unwrap();
        bring(&lab, &tree_of(&lab)).unwrap();
        let left: Vec<String> = names(&lab.repo).into_iter().filter(is_temporary).collect();
        assert_eq!(left, [".posse-mine"]);
        true
    });
    assert!(1 <= seen, "some kill is in the middle of a file");
}
