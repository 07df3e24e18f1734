//! CC-218, CC-219: a worktree begins with the caller's commit, whatever state the caller's repository is in.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    time::{Duration, SystemTime},
};

use posse_session::Worktree;
use posse_tools::Worktrees;

use crate::lab::{Lab, git, init, names, read, try_git, write};

/// CC-218, CC-219
#[test]
fn it_begins_with_the_callers_commit_and_has_a_folder_and_a_branch_of_its_own() {
    let lab = Lab::new();
    lab.git(&["checkout", "-q", "-b", "feature"]);
    lab.git(&["commit", "-q", "--allow-empty", "-m", "second"]);
    let (tree, folder) = lab.make_from(&lab.repo.join("sub"), "ses_01ab", false);
    let expected = Worktree {
        home: lab.repo.to_str().unwrap().into(),
        path: lab.base.join("trees/ses_01ab").to_str().unwrap().into(),
        branch: "posse/ses_01ab".into(),
        base: lab.git(&["rev-parse", "feature"]),
    };
    assert_eq!(tree, expected);
    assert_eq!(folder, Path::new(&tree.path).join("sub"));
    assert_eq!(read(&folder.join("b.txt")), "b\n");
    assert_eq!(git(&folder, &["status", "--porcelain", "--branch"]), "## posse/ses_01ab");
    assert_eq!(lab.git(&["status", "--porcelain", "--branch"]), "## feature");
    // Independent: what happens there does not happen here.
    write(&folder.join("b.txt"), "changed\n");
    git(&folder, &["commit", "-qam", "there"]);
    assert_eq!((read(&lab.repo.join("sub/b.txt")), lab.git(&["rev-parse", "HEAD"])), ("b\n".into(), tree.base));
}

#[test]
fn made_twice_it_is_the_same_one_with_its_work() {
    let lab = Lab::new();
    let tree = lab.make("ses_1");
    write(&Path::new(&tree.path).join("new"), "work");
    lab.git(&["commit", "-q", "--allow-empty", "-m", "moved on"]);
    assert_eq!(lab.make("ses_1"), tree);
    assert_eq!(read(&Path::new(&tree.path).join("new")), "work");
}

#[test]
fn a_slug_that_is_no_plain_name_is_refused() {
    let lab = Lab::new();
    for slug in ["", "..", "a/b", "A", "x.lock", "-f", "a b", ".posse"] {
        assert!(lab.try_make(&lab.repo, slug, false).unwrap_err().contains("cannot name a worktree"), "{slug:?}");
    }
    assert!(lab.traces().is_empty());
}

/// A caller without the state that a worktree needs is told in words, and nothing is left.
#[test]
fn what_cannot_be_a_beginning_is_said_in_words() {
    let lab = Lab::new();
    let bare = lab.base.join("bare.git");
    git(&lab.base, &["clone", "-q", "--bare", "repo", "bare.git"]);
    let empty = lab.base.join("empty");
    init(&empty);
    let plain = lab.base.join("plain");
    fs::create_dir(&plain).unwrap();
    for (from, words) in [
        (bare.as_path(), "bare repository"),
        (&empty, "needs a first commit"),
        (&plain, "no git repository"),
        (&lab.repo.join(".git"), "inside of a repository's git folder"),
        (&lab.base.join("nowhere"), "No such file"),
    ] {
        let said = lab.try_make(from, "ses_1", false).unwrap_err();
        assert!(said.contains(words), "{}: {said}", from.display());
    }
    assert!(lab.traces().is_empty());
}

/// The caller's index, byte by byte, and its files: nothing of it is touched, whatever is copied.
#[test]
fn every_state_of_the_caller_is_a_beginning_and_stays_as_it_was() {
    type Prepare = fn(&Lab);
    let states: &[(&str, Prepare)] = &[
        ("clean", |_| {}),
        ("dirty", |lab| {
            write(&lab.repo.join("a.txt"), "unstaged\n");
            write(&lab.repo.join("staged"), "staged\n");
            lab.git(&["add", "staged"]);
            fs::remove_file(lab.repo.join("sub/b.txt")).unwrap();
            write(&lab.repo.join("new file\nwith \"names\""), "untracked\n");
            write(&lab.repo.join("x.log"), "ignored\n");
        }),
        ("detached", |lab| {
            lab.git(&["checkout", "-q", "--detach"]);
        }),
        ("an unfinished merge", |lab| {
            lab.git(&["checkout", "-q", "-b", "other"]);
            write(&lab.repo.join("a.txt"), "theirs\n");
            lab.git(&["commit", "-qam", "theirs"]);
            lab.git(&["checkout", "-q", "main"]);
            write(&lab.repo.join("a.txt"), "ours\n");
            lab.git(&["commit", "-qam", "ours"]);
            assert!(!try_git(&lab.repo, &["merge", "-q", "other"]).0);
        }),
        ("sparse", |lab| {
            write(&lab.repo.join("far/c.txt"), "c\n");
            lab.git(&["add", "-A"]);
            lab.git(&["commit", "-qm", "far"]);
            lab.git(&["sparse-checkout", "set", "sub"]);
            assert!(!lab.repo.join("far").exists());
        }),
        ("a file that became a folder, and a folder that became a link", |lab| {
            fs::remove_file(lab.repo.join("a.txt")).unwrap();
            write(&lab.repo.join("a.txt/inner"), "inner\n");
            fs::rename(lab.repo.join("sub"), lab.repo.join("moved")).unwrap();
            symlink("moved", lab.repo.join("sub")).unwrap();
        }),
        ("repositories inside", |lab| {
            init(&lab.repo.join("nested"));
            init(&lab.repo.join("second"));
            git(&lab.repo.join("second"), &["commit", "-q", "--allow-empty", "-m", "x"]);
        }),
        ("intent to add", |lab| {
            write(&lab.repo.join("later"), "later\n");
            lab.git(&["add", "-N", "later"]);
        }),
        ("a split index", |lab| {
            lab.git(&["config", "core.splitIndex", "true"]);
            write(&lab.repo.join("split"), "split\n");
            lab.git(&["add", "split"]);
        }),
    ];
    for (state, prepare) in states {
        for changes in [false, true] {
            let lab = Lab::new();
            prepare(&lab);
            let (before, stashes) = (lab.git(&["status", "--porcelain"]), lab.git(&["stash", "list"]));
            let index = fs::read(lab.repo.join(".git/index")).unwrap();
            let (tree, _) = lab.try_make(&lab.repo, "ses_1", changes).unwrap_or_else(|words| panic!("{state}: {words}"));
            assert_eq!(fs::read(lab.repo.join(".git/index")).unwrap(), index, "{state}: the index");
            assert_eq!((lab.git(&["status", "--porcelain"]), lab.git(&["stash", "list"])), (before, stashes), "{state}");
            let there = Path::new(&tree.path);
            assert_eq!(git(there, &["status", "--porcelain"]), "", "{state}, changes: {changes}");
            if changes {
                assert_eq!(content(there), content(&lab.repo), "{state}");
            }
            let left = lab.trees.look(&tree);
            assert!(left.clean, "{state}: {left:?}");
            assert!(lab.trees.release(&tree).unwrap());
            assert!(lab.traces().is_empty(), "{state}: {:?}", lab.traces());
        }
    }
}

/// Every file that is neither ignored nor in a repository of its own.
fn content(folder: &Path) -> Vec<(String, String)> {
    fn walk(top: &Path, folder: &Path, found: &mut Vec<(String, String)>) {
        for name in names(folder).into_iter().filter(|name| name != ".git" && !name.ends_with(".log")) {
            let path = folder.join(&name);
            let shown = path.strip_prefix(top).unwrap().to_str().unwrap().to_owned();
            let metadata = path.symlink_metadata().unwrap();
            if metadata.is_symlink() {
                found.push((shown, format!("-> {}", fs::read_link(&path).unwrap().display())));
            } else if metadata.is_file() {
                found.push((shown, read(&path)));
            } else if !path.join(".git").exists() {
                walk(top, &path, found);
            }
        }
    }
    let mut found = Vec::new();
    walk(folder, folder, &mut found);
    found
}

#[test]
fn without_the_callers_changes_it_has_none_of_them() {
    let lab = Lab::new();
    write(&lab.repo.join("a.txt"), "unstaged\n");
    write(&lab.repo.join("new"), "untracked\n");
    let tree = lab.make("ses_1");
    assert_eq!(read(&Path::new(&tree.path).join("a.txt")), "one\ntwo\nthree\n");
    assert!(!Path::new(&tree.path).join("new").exists());
}

/// A change in the moment in which the index was written has the same time and, here, the same size: git finds it only
/// because the index is not younger.
#[test]
fn a_change_in_the_moment_of_the_index_is_carried() {
    let lab = Lab::new();
    lab.git(&["config", "core.checkStat", "minimal"]);
    lab.git(&["config", "core.trustctime", "false"]);
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let set = |path: &str| fs::File::options().write(true).open(lab.repo.join(path)).unwrap().set_modified(at).unwrap();
    set("a.txt");
    lab.git(&["update-index", "--refresh"]);
    write(&lab.repo.join("a.txt"), "ONE\ntwo\nthree\n");
    set("a.txt");
    set(".git/index");
    // Another change, so that there is something to carry in any case.
    write(&lab.repo.join("new"), "new\n");
    let (tree, _) = lab.make_from(&lab.repo, "ses_1", true);
    assert_eq!(read(&Path::new(&tree.path).join("a.txt")), "ONE\ntwo\nthree\n");
}

/// Git's own words for a repository that somebody else owns.
#[test]
fn a_repository_of_another_user_is_told_in_gits_words() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can give files away");
        return;
    }
    let lab = Lab::new();
    for path in [lab.repo.clone(), lab.repo.join(".git")] {
        std::os::unix::fs::chown(path, Some(12_345), Some(12_345)).unwrap();
    }
    let words = lab.try_make(&lab.repo, "ses_1", false).unwrap_err();
    assert!(words.contains("dubious ownership"), "{words}");
}

#[test]
fn a_worker_of_a_worker_comes_home_to_that_worker() {
    let lab = Lab::new();
    let outer = lab.make("outer");
    let outer_path = Path::new(&outer.path);
    write(&outer_path.join("a.txt"), "outer\n");
    git(outer_path, &["commit", "-qam", "outer"]);
    // Whoever works there may write what it likes into this file.
    let decoy = lab.base.join("decoy");
    init(&decoy);
    git(&decoy, &["commit", "-q", "--allow-empty", "-m", "decoy"]);
    fs::write(outer_path.join(".git"), format!("gitdir: {}\n", decoy.join(".git").display())).unwrap();
    let (inner, folder) = lab.make_from(&outer_path.join("sub"), "inner", false);
    assert_eq!((inner.home.as_str(), folder), (outer.path.as_str(), Path::new(&inner.path).join("sub")));
    assert_eq!(read(&Path::new(&inner.path).join("a.txt")), "outer\n");
    assert!(lab.git(&["branch", "--list", "posse/inner"]).contains("posse/inner"));
}

#[test]
fn a_linked_worktree_of_the_users_is_a_home_too() {
    let lab = Lab::new();
    lab.git(&["worktree", "add", "-q", "-b", "second", "../second"]);
    let second = lab.base.join("second");
    write(&second.join("a.txt"), "second\n");
    git(&second, &["commit", "-qam", "second"]);
    let (tree, _) = lab.make_from(&second, "ses_1", false);
    assert_eq!((tree.home.as_str(), tree.base.clone()), (second.to_str().unwrap(), git(&second, &["rev-parse", "HEAD"])));
    // Of a bare repository, too.
    git(&lab.base, &["clone", "-q", "--bare", "repo", "bare.git"]);
    git(&lab.base.join("bare.git"), &["worktree", "add", "-q", "../of-bare", "main"]);
    let (tree, _) = lab.make_from(&lab.base.join("of-bare"), "ses_2", true);
    assert_eq!(tree.home, lab.base.join("of-bare").to_str().unwrap());
    assert!(lab.trees.look(&tree).clean);
}

#[test]
fn a_working_tree_elsewhere_is_found() {
    let lab = Lab::new();
    let elsewhere = lab.base.join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    lab.git(&["config", "core.worktree", elsewhere.to_str().unwrap()]);
    git(&lab.repo, &["--work-tree", elsewhere.to_str().unwrap(), "checkout", "-q", "-f"]);
    fs::write(elsewhere.join(".git"), format!("gitdir: {}\n", lab.repo.join(".git").display())).unwrap();
    let (tree, _) = lab.make_from(&elsewhere, "ses_1", true);
    assert_eq!(tree.home, elsewhere.to_str().unwrap());
    assert_eq!(read(&Path::new(&tree.path).join("a.txt")), "one\ntwo\nthree\n");
    assert!(lab.trees.release(&tree).unwrap());
}

/// Other ways to keep refs and objects, and names of folders that are hard to read.
#[test]
fn strange_repositories_work_from_the_beginning_to_the_merge() {
    let rows: &[(&str, &str)] = &[
        ("reftable", "--ref-format=reftable"),
        ("long hashes", "--object-format=sha256"),
        ("a \"name\"\nwith lines", "-q"),
        (" ~x;$(y)", "-q"),
    ];
    for (name, option) in rows {
        let lab = Lab::empty();
        let repo = lab.base.join("repos").join(name);
        fs::create_dir_all(&repo).unwrap();
        if !try_git(&repo, &["init", "-q", "-b", "main", option]).0 {
            println!("skipped: this git knows no {option}");
            continue;
        }
        for (key, value) in [("user.name", "Somebody"), ("user.email", "somebody@example.com")] {
            git(&repo, &["config", key, value]);
        }
        write(&repo.join("a.txt"), "one\n");
        write(&repo.join("sub dir/b"), "b\n");
        git(&repo, &["add", "-A"]);
        git(&repo, &["commit", "-qm", "first"]);
        write(&repo.join("mine"), "mine\n");
        let trees = Worktrees::new(lab.base.join("trees\nof \"mine\""));
        let making = posse_tools::Making { from: &repo.join("sub dir"), slug: "ses_1", changes: true, title: "" };
        let (tree, folder) = trees.make(&making).unwrap_or_else(|words| panic!("{name}: {words}"));
        assert_eq!((read(&folder.join("b")), read(&folder.join("../mine"))), ("b\n".into(), "mine\n".into()), "{name}");
        assert!(trees.look(&tree).clean, "{name}: {:?}", trees.look(&tree));
        // A commit on no branch is work here, too.
        git(&folder, &["checkout", "-q", "--detach"]);
        git(&folder, &["commit", "-q", "--allow-empty", "-m", "x"]);
        git(&folder, &["checkout", "-q", "posse/ses_1"]);
        assert_eq!(trees.look(&tree).commits, 1, "{name}");
        write(&folder.join("b"), "B\n");
        let by = posse_tools::Provenance::default();
        let merged = trees.merge(&tree, &posse_tools::Onto::Home, &by, posse_tools::After::Release, None).unwrap();
        assert!(merged.released, "{name}: {merged:?}");
        assert_eq!(read(&repo.join("sub dir/b")), "B\n", "{name}");
        assert_eq!(git(&repo, &["worktree", "list", "--porcelain", "-z"]).matches("worktree ").count(), 1, "{name}");
        assert_eq!(trees.leftovers(&repo).unwrap(), [], "{name}");
    }
}

#[test]
fn submodules_are_filled_from_the_callers_disk() {
    let lab = Lab::new();
    let library = lab.base.join("library");
    init(&library);
    write(&library.join("lib.txt"), "library\n");
    git(&library, &["add", "-A"]);
    git(&library, &["commit", "-qm", "library"]);
    lab.git(&["submodule", "--quiet", "add", library.to_str().unwrap(), "deps/library"]);
    lab.git(&["submodule", "--quiet", "add", "--name", "unfilled", library.to_str().unwrap(), "deps/unfilled"]);
    lab.git(&["commit", "-qm", "submodules"]);
    lab.git(&["submodule", "--quiet", "deinit", "-f", "deps/unfilled"]);
    // A commit that only the caller has, and no network: the origin is gone.
    let here = lab.repo.join("deps/library");
    write(&here.join("lib.txt"), "only here\n");
    git(&here, &["-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qam", "only here"]);
    lab.git(&["commit", "-qam", "uses it"]);
    fs::rename(&library, lab.base.join("offline")).unwrap();

    let tree = lab.make("ses_1");
    let there = Path::new(&tree.path);
    assert_eq!(read(&there.join("deps/library/lib.txt")), "only here\n");
    assert_eq!(names(&there.join("deps/unfilled")), Vec::<String>::new(), "as in the caller");
    assert_eq!(git(&there.join("deps/library"), &["config", "remote.origin.url"]), library.to_str().unwrap());
    assert_eq!(git(there, &["status", "--porcelain"]), "");
    assert!(lab.trees.look(&tree).clean, "{:?}", lab.trees.look(&tree));

    // From inside a submodule: its own repository.
    let (inner, _) = lab.make_from(&here, "ses_2", false);
    assert_eq!(inner.home, here.to_str().unwrap());
    assert_eq!(read(&Path::new(&inner.path).join("lib.txt")), "only here\n");

    // From inside a submodule of a worktree of ours: its repository lies in there, so that one stays.
    let (inmost, _) = lab.make_from(&there.join("deps/library"), "ses_3", false);
    assert_eq!(inmost.home, there.join("deps/library").to_str().unwrap());
    assert!(lab.trees.look(&tree).unknown.contains("another task has a worktree of its submodule deps/library"));
    assert!(lab.trees.discard(&tree).unwrap_err().contains("that one first"));
    write(&Path::new(&inmost.path).join("lib.txt"), "inmost\n");
    crate::merging::bring(&lab, &inmost).unwrap();
    assert_eq!(read(&there.join("deps/library/lib.txt")), "inmost\n");
    git(&there.join("deps/library"), &["checkout", "-q", "."]);
    assert!(lab.trees.look(&tree).clean, "{:?}", lab.trees.look(&tree));

    // Settings of the copy, which only the task has, start no program.
    let ran = lab.base.join("ran");
    git(&there.join("deps/library"), &["config", "filter.evil.clean", &format!("touch {}", ran.display())]);
    write(&there.join("deps/library/.gitattributes"), "* filter=evil\n");
    let left = lab.trees.look(&tree);
    assert!(left.unknown.contains("filter.evil.clean") && !ran.exists(), "{left:?}");
    git(&there.join("deps/library"), &["config", "--unset", "filter.evil.clean"]);
    fs::remove_file(there.join("deps/library/.gitattributes")).unwrap();
    assert!(lab.trees.look(&tree).clean, "{:?}", lab.trees.look(&tree));

    // Work in a submodule counts, in every form.
    write(&there.join("deps/library/new"), "work\n");
    assert!(!lab.trees.look(&tree).clean);
    git(&there.join("deps/library"), &["add", "-A"]);
    git(&there.join("deps/library"), &["-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "there"]);
    assert!(!lab.trees.look(&tree).clean);
    git(&there.join("deps/library"), &["branch", "-q", "work"]);
    git(&there.join("deps/library"), &["checkout", "-q", "--detach", "HEAD~1"]);
    let left = lab.trees.look(&tree);
    assert_eq!((left.clean, left.files), (false, 0), "{left:?}");
    assert!(left.unknown.contains("1 commit of its own"), "{left:?}");
    assert!(!lab.trees.release(&tree).unwrap());
    lab.trees.discard(&tree).unwrap();
}

#[test]
fn a_submodule_that_cannot_be_filled_is_noted() {
    let lab = Lab::new();
    let library = lab.base.join("library");
    init(&library);
    git(&library, &["commit", "-q", "--allow-empty", "-m", "library"]);
    lab.git(&["submodule", "--quiet", "add", library.to_str().unwrap(), "deps"]);
    lab.git(&["commit", "-qm", "submodule"]);
    fs::rename(lab.repo.join(".git/modules/deps"), lab.base.join("taken")).unwrap();
    let tree = lab.make("ses_1");
    let notes = lab.trees.notes(&tree);
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("the submodule deps is empty in the worktree"), "{notes:?}");
}

#[test]
fn no_hook_of_the_repository_runs_and_no_monitor() {
    let lab = Lab::new();
    let ran = lab.base.join("ran");
    for hook in ["post-checkout", "post-index-change", "reference-transaction", "pre-commit", "post-commit"] {
        let path = lab.repo.join(".git/hooks").join(hook);
        write(&path, &format!("#!/bin/sh\necho {hook} >> {}\n", ran.display()));
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    lab.git(&["config", "core.fsmonitor", lab.repo.join(".git/hooks/pre-commit").to_str().unwrap()]);
    write(&lab.repo.join("a.txt"), "changed\n");
    let (tree, _) = lab.make_from(&lab.repo, "ses_1", true);
    lab.trees.look(&tree);
    lab.trees.discard(&tree).unwrap();
    assert_eq!(read(&ran), "<entity not found>");
}

/// Each way in which an attempt can have been killed, by hand.
#[test]
fn what_a_killed_attempt_left_is_made_anew() {
    type Break = fn(&Lab, &Worktree);
    let breaks: &[(&str, Break)] = &[
        ("before anything", |lab, tree| {
            fs::remove_dir_all(&tree.path).unwrap();
            fs::remove_dir_all(lab.repo.join(".git/worktrees")).unwrap();
            lab.git(&["update-ref", "-d", "refs/heads/posse/ses_1"]);
            lab.git(&["update-ref", "-d", "refs/posse/base/ses_1"]);
        }),
        ("after the refs", |lab, tree| {
            fs::remove_dir_all(&tree.path).unwrap();
            fs::remove_dir_all(lab.repo.join(".git/worktrees")).unwrap();
        }),
        ("in the registration", |lab, tree| {
            fs::remove_file(Path::new(&tree.path).join(".git")).unwrap();
            fs::write(lab.repo.join(".git/worktrees/ses_1/locked"), "initializing").unwrap();
        }),
        ("in the checkout", |lab, tree| {
            fs::remove_file(Path::new(&tree.path).join("a.txt")).unwrap();
            fs::remove_file(lab.repo.join(".git/worktrees/ses_1/index")).unwrap();
            fs::write(lab.repo.join(".git/worktrees/ses_1/index.lock"), "").unwrap();
        }),
        ("before the last word", |_, _| {}),
    ];
    for (moment, break_it) in breaks {
        let lab = Lab::new();
        let tree = lab.make("ses_1");
        break_it(&lab, &tree);
        let record = lab.base.join("trees/.posse/records/ses_1");
        fs::write(&record, read(&record).replace("\"made\"", "\"making\"")).unwrap();
        assert_eq!(lab.make("ses_1"), tree, "{moment}");
        assert_eq!(read(&Path::new(&tree.path).join("a.txt")), "one\ntwo\nthree\n", "{moment}");
        assert!(lab.trees.look(&tree).clean, "{moment}: {:?}", lab.trees.look(&tree));
        assert!(lab.trees.release(&tree).unwrap(), "{moment}");
        assert!(lab.traces().is_empty(), "{moment}: {:?}", lab.traces());
    }
}

#[test]
fn a_branch_of_somebody_elses_is_not_taken() {
    let lab = Lab::new();
    lab.git(&["branch", "posse/ses_1"]);
    let words = lab.try_make(&lab.repo, "ses_1", false).unwrap_err();
    assert!(words.contains("already there and not from this task"), "{words}");
    assert!(lab.git(&["branch", "--list", "posse/ses_1"]).contains("posse/ses_1"));
}

/// CC-218
#[test]
fn a_removed_worktree_is_made_again_from_its_branch_or_its_beginning() {
    let lab = Lab::new();
    write(&lab.repo.join("new"), "uncommitted\n");
    let (tree, _) = lab.make_from(&lab.repo, "ses_1", true);
    let there = Path::new(&tree.path);
    assert!(lab.trees.release(&tree).unwrap());
    assert!(!there.exists());
    lab.trees.ensure(&tree).unwrap();
    assert_eq!(read(&there.join("new")), "uncommitted\n");
    // With commits: its folder was deleted by hand, its branch has them.
    write(&there.join("a.txt"), "work\n");
    git(there, &["commit", "-qam", "work"]);
    fs::remove_dir_all(there).unwrap();
    let left = lab.trees.look(&tree);
    assert_eq!((left.clean, left.commits), (false, 1), "{left:?}");
    assert!(!lab.trees.release(&tree).unwrap());
    lab.trees.ensure(&tree).unwrap();
    lab.trees.ensure(&tree).unwrap();
    assert_eq!(read(&there.join("a.txt")), "work\n");
    assert_eq!(lab.trees.look(&tree).commits, 1);
}

#[test]
fn twenty_are_made_at_once_and_removed_at_once() {
    let lab = Lab::new();
    let slugs: Vec<String> = (0..20).map(|number| format!("ses_{number}")).collect();
    let made: Vec<Worktree> = std::thread::scope(|scope| {
        let makers: Vec<_> = slugs
            .iter()
            .map(|slug| {
                scope.spawn(|| {
                    Worktrees::new(lab.base.join("trees")).make(&posse_tools::Making { from: &lab.repo, slug, changes: true, title: "" })
                })
            })
            .collect();
        makers.into_iter().map(|maker| maker.join().unwrap().unwrap().0).collect()
    });
    assert!(made.iter().all(|tree| read(&Path::new(&tree.path).join("a.txt")) == "one\ntwo\nthree\n"));
    std::thread::scope(|scope| {
        let removers: Vec<_> = made.iter().map(|tree| scope.spawn(|| lab.trees.release(tree))).collect();
        assert!(removers.into_iter().all(|remover| remover.join().unwrap().unwrap()));
    });
    assert!(lab.traces().is_empty(), "{:?}", lab.traces());
}
