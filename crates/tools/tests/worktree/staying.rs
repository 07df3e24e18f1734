//! What a merge does not bring is named, and never said to be nothing; who asks while somebody else is at it is told who.

use std::{fs, path::Path};

use posse_session::Worktree;
use posse_tools::{After, MergeError, Onto};

use crate::{
    lab::{Lab, git, init, read, write},
    merging::{bring, merge},
};

/// With a submodule `deps` that has one file.
fn with_submodule() -> (Lab, Worktree) {
    let lab = Lab::new();
    let library = lab.base.join("library");
    init(&library);
    write(&library.join("inner.txt"), "inner\n");
    git(&library, &["add", "-A"]);
    git(&library, &["commit", "-qm", "library"]);
    lab.git(&["submodule", "--quiet", "add", library.to_str().unwrap(), "deps"]);
    lab.git(&["commit", "-qm", "submodule"]);
    let tree = lab.make("ses_1");
    (lab, tree)
}

fn failed(brought: Result<posse_tools::Merged, MergeError>) -> String {
    let error = brought.unwrap_err();
    assert!(!error.is_nothing_new(), "{error}");
    error.to_string()
}

/// Only in a submodule: a merge brings nothing, says so, and says what is there.
#[test]
fn work_in_a_submodule_is_named_by_a_merge() {
    let (lab, tree) = with_submodule();
    let deps = Path::new(&tree.path).join("deps");
    write(&deps.join("inner.txt"), "changed\n");
    write(&deps.join("added.txt"), "added\n");
    let left = lab.trees.look(&tree);
    assert!(!left.clean && left.unknown.contains("the submodule deps has 2 changed files"), "{left:?}");
    let said = failed(bring(&lab, &tree));
    for words in ["deps", "inner.txt", "added.txt", "does not bring"] {
        assert!(said.contains(words), "no `{words}` in {said}");
    }
    assert!(deps.join("added.txt").exists());
    // Beside other work that comes home it is named as well, whether or not the worktree is to be kept.
    for (after, text) in [(After::Keep, "x\n"), (After::Release, "y\n")] {
        write(&Path::new(&tree.path).join("a.txt"), text);
        let merged = merge(&lab, &tree, &Onto::Home, after).unwrap();
        assert_eq!((read(&lab.repo.join("a.txt")).as_str(), merged.released), (text, false));
        assert!(merged.notes.iter().any(|note| note.contains("deps") && note.contains("inner.txt")), "{:?}", merged.notes);
    }
    let said = failed(bring(&lab, &tree));
    assert!(said.contains("inner.txt"), "{said}");
    fs::remove_file(deps.join("added.txt")).unwrap();
    write(&deps.join("inner.txt"), "inner\n");
    assert!(bring(&lab, &tree).unwrap_err().is_nothing_new());
    assert!(!Path::new(&tree.path).exists(), "what is home is not kept twice");
}

/// A name and an address for commits start no program; what can is still not trusted.
#[test]
fn an_identity_in_a_submodule_is_harmless() {
    let (lab, tree) = with_submodule();
    let deps = Path::new(&tree.path).join("deps");
    for (key, value) in [("user.name", "t"), ("user.email", "t@example.com"), ("author.name", "t"), ("pull.rebase", "true")] {
        git(&deps, &["config", key, value]);
    }
    assert!(lab.trees.look(&tree).clean, "{:?}", lab.trees.look(&tree));
    git(&deps, &["commit", "-q", "--allow-empty", "-m", "there"]);
    let left = lab.trees.look(&tree);
    assert!(left.unknown.contains("1 commit of its own"), "{left:?}");
    for key in ["core.fsmonitor", "core.sshCommand", "filter.x.clean", "diff.x.command"] {
        git(&deps, &["config", key, "/bin/false"]);
        let left = lab.trees.look(&tree);
        assert!(left.unknown.contains(&key.to_lowercase()) && left.unknown.contains("start programs"), "{key}: {left:?}");
        git(&deps, &["-c", "core.fsmonitor=false", "config", "--unset", key]);
    }
}

/// A repository that was made inside of the worktree is no changed file, and a merge that would bring only it says so.
#[test]
fn a_repository_inside_is_named_by_a_merge() {
    let lab = Lab::new();
    let tree = lab.make("ses_1");
    init(&Path::new(&tree.path).join("own"));
    write(&Path::new(&tree.path).join("own/file"), "x\n");
    let left = lab.trees.look(&tree);
    assert!(!left.clean && left.files == 0 && left.unknown.contains("own is a repository of its own"), "{left:?}");
    let said = failed(bring(&lab, &tree));
    assert!(said.contains("own is a repository of its own") && said.contains("does not bring"), "{said}");
    assert!(Path::new(&tree.path).join("own/file").exists());
}

/// Lines are said as they are now: those that later merges and people moved are found again, those that are gone are not claimed.
#[test]
fn who_wrote_what_is_said_as_the_lines_are_now() {
    let lab = Lab::new();
    let lines = |from: u32, to: u32| (from..=to).map(|line| format!("line {line}\n")).collect::<String>();
    write(&lab.repo.join("a.txt"), &lines(1, 30));
    lab.git(&["commit", "-qam", "thirty lines"]);
    let (first, second, third) = (lab.make("ses_1"), lab.make("ses_2"), lab.make("ses_3"));
    let at = |tree: &Worktree| Path::new(&tree.path).join("a.txt");
    write(&at(&first), &lines(1, 30).replace("line 25\n", "first\nfirst again\n"));
    write(&at(&second), &format!("top\ntop\ntop\n{}", lines(1, 30)));
    write(&at(&third), &lines(1, 30).replace("line 9\n", ""));
    for tree in [&first, &second, &third] {
        bring(&lab, tree).unwrap();
    }
    let told = || -> Vec<(String, Vec<(u64, u64)>)> {
        let written = lab.trees.provenance(&lab.repo, Some("a.txt")).unwrap();
        written.into_iter().map(|written| (written.task, written.hunks)).collect()
    };
    assert_eq!(told()[1..], [("ses_2".into(), vec![(1, 3)]), ("ses_1".into(), vec![(27, 2)])]);
    // A person splits what the first wrote, and changes what the second did.
    let now = read(&lab.repo.join("a.txt")).replace("first\n", "first\nmine\n").replacen("top\n", "mine too\n", 1);
    write(&lab.repo.join("a.txt"), &now);
    assert_eq!(told()[1..], [("ses_2".into(), vec![(2, 2)]), ("ses_1".into(), vec![(27, 1), (29, 1)])]);
    fs::remove_file(lab.repo.join("a.txt")).unwrap();
    assert!(told().iter().all(|(_, hunks)| hunks.is_empty()), "{:?}", told());
}

/// Two who bring home at once: the second waits for the first and finds nothing new; who is at work is said to be.
#[test]
fn whoever_holds_a_worktree_is_named() {
    let lab = Lab::new();
    let tree = lab.make("ses_1");
    let working = lab.trees.enter(&tree).unwrap();
    assert!(lab.trees.alone(&tree).unwrap_err().contains("its task is at work"));
    drop(working);
    let merging = lab.trees.alone(&tree).unwrap();
    let other = std::thread::spawn({
        let (trees, tree) = (lab.trees.clone(), tree.clone());
        move || trees.alone(&tree).map(drop)
    });
    drop(merging);
    other.join().unwrap().unwrap();
}

/// A caller that works in a folder which only it has finds the same folder in the worktree, empty.
#[test]
fn an_untracked_folder_is_there_in_the_worktree() {
    let lab = Lab::new();
    write(&lab.repo.join("scratch/deep/file"), "x\n");
    let (tree, folder) = lab.make_from(&lab.repo.join("scratch/deep"), "ses_1", false);
    assert_eq!((folder.as_path(), folder.is_dir()), (Path::new(&tree.path).join("scratch/deep").as_path(), true));
    assert!(lab.trees.look(&tree).clean, "an empty folder is no work");
    assert!(lab.trees.release(&tree).unwrap());
}

/// A branch that was reset to an older commit with the same files leads to nothing new, and goes with the folder.
#[test]
fn a_branch_that_was_reset_to_an_equal_tree_goes_with_the_folder() {
    let lab = Lab::new();
    lab.git(&["commit", "-q", "--allow-empty", "-m", "second"]);
    let tree = lab.make("ses_1");
    git(Path::new(&tree.path), &["reset", "-q", "--hard", "HEAD~1"]);
    assert!(lab.trees.look(&tree).clean);
    assert!(lab.trees.release(&tree).unwrap());
    assert_eq!(lab.traces(), Vec::<String>::new());
}
