//! CC-222, CC-223, CC-224: what counts as work, so that a worktree with work in it is never removed.

use std::{fs, os::unix::fs::symlink, path::Path};

use posse_session::Worktree;

use crate::lab::{Lab, git, try_git, write};

type Work = fn(&Path);

/// CC-222, CC-223: each row is something a task did, and the commits and files that count.
const WORK: &[(&str, Work, u64, u64)] = &[
    ("nothing", |_| {}, 0, 0),
    ("an ignored file", |top| write(&top.join("build.log"), "x"), 0, 0),
    ("a change", |top| write(&top.join("a.txt"), "x"), 0, 1),
    ("a change and back", |top| write(&top.join("a.txt"), "one\ntwo\nthree\n"), 0, 0),
    (
        "a staged change",
        |top| {
            write(&top.join("a.txt"), "x");
            git(top, &["add", "a.txt"]);
        },
        0,
        1,
    ),
    (
        "a staged change that was taken back on disk",
        |top| {
            write(&top.join("a.txt"), "x");
            git(top, &["add", "a.txt"]);
            write(&top.join("a.txt"), "one\ntwo\nthree\n");
        },
        0,
        1,
    ),
    ("an untracked file", |top| write(&top.join("new/deep"), "x"), 0, 1),
    (
        "two untracked files with strange names",
        |top| {
            write(&top.join(" a\nb\""), "x");
            fs::write(top.join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"\xff")), "x").unwrap();
        },
        0,
        2,
    ),
    ("a removed file", |top| fs::remove_file(top.join("a.txt")).unwrap(), 0, 1),
    ("a mode", |top| fs::set_permissions(top.join("a.txt"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap(), 0, 1),
    ("a link", |top| symlink("/etc", top.join("link")).unwrap(), 0, 1),
    (
        "a file that is no longer tracked",
        |top| {
            git(top, &["rm", "-q", "--cached", "a.txt"]);
        },
        0,
        1,
    ),
    (
        "a commit",
        |top| {
            write(&top.join("a.txt"), "x");
            git(top, &["commit", "-qam", "x"]);
        },
        1,
        1,
    ),
    (
        "two commits and a new file",
        |top| {
            write(&top.join("a.txt"), "x");
            git(top, &["commit", "-qam", "x"]);
            write(&top.join("sub/b.txt"), "x");
            git(top, &["commit", "-qam", "y"]);
            write(&top.join("new"), "x");
        },
        2,
        3,
    ),
    (
        "a commit and its undoing",
        |top| {
            write(&top.join("a.txt"), "x");
            git(top, &["commit", "-qam", "x"]);
            git(top, &["revert", "--no-edit", "HEAD"]);
        },
        2,
        0,
    ),
    (
        "an empty commit",
        |top| {
            git(top, &["commit", "-q", "--allow-empty", "-m", "x"]);
        },
        1,
        0,
    ),
    (
        "a commit that was amended",
        |top| {
            git(top, &["commit", "-q", "--allow-empty", "-m", "x"]);
            git(top, &["commit", "-q", "--allow-empty", "--amend", "-m", "y"]);
        },
        1,
        0,
    ),
    (
        "a commit on another branch",
        |top| {
            git(top, &["checkout", "-q", "-b", "another"]);
            git(top, &["commit", "-q", "--allow-empty", "-m", "x"]);
        },
        1,
        0,
    ),
    (
        "a commit on another branch, and back",
        |top| {
            git(top, &["checkout", "-q", "-b", "another"]);
            git(top, &["commit", "-q", "--allow-empty", "-m", "x"]);
            git(top, &["checkout", "-q", "posse/ses_1"]);
        },
        1,
        0,
    ),
    (
        "a commit on no branch, and back",
        |top| {
            git(top, &["checkout", "-q", "--detach"]);
            git(top, &["commit", "-q", "--allow-empty", "-m", "x"]);
            git(top, &["checkout", "-q", "posse/ses_1"]);
        },
        1,
        0,
    ),
    (
        "a commit that was reset",
        |top| {
            git(top, &["commit", "-q", "--allow-empty", "-m", "x"]);
            git(top, &["reset", "-q", "--hard", "HEAD~1"]);
        },
        1,
        0,
    ),
    (
        "a commit on its branch, which it left",
        |top| {
            git(top, &["commit", "-q", "--allow-empty", "-m", "x"]);
            git(top, &["checkout", "-q", "--detach", "HEAD~1"]);
        },
        1,
        0,
    ),
    (
        "another branch, but nothing on it",
        |top| {
            git(top, &["checkout", "-q", "-b", "another"]);
        },
        0,
        0,
    ),
];

/// CC-222, CC-223: whether it is clean follows, and so do release and discard.
#[test]
fn everything_but_ignored_files_is_work() {
    for (what, work, commits, files) in WORK {
        let lab = Lab::new();
        let tree = lab.make("ses_1");
        work(Path::new(&tree.path));
        let left = lab.trees.look(&tree);
        let clean = (*commits, *files) == (0, 0);
        assert_eq!((left.commits, left.files, left.clean, left.unknown.as_str()), (*commits, *files, clean, ""), "{what}");
        assert_eq!((left.path.as_str(), left.branch.as_str()), (tree.path.as_str(), "posse/ses_1"), "{what}");
        assert_eq!(lab.trees.release(&tree).unwrap(), clean, "{what}");
        assert_eq!(Path::new(&tree.path).exists(), !clean, "{what}");
        assert_eq!(lab.traces().is_empty(), clean, "{what}: {:?}", lab.traces());
        // CC-223: it can still be thrown away on purpose, and says what that was.
        if !clean {
            assert_eq!(lab.trees.discard(&tree).unwrap(), left, "{what}");
            assert!(lab.traces().is_empty(), "{what}: {:?}", lab.traces());
        }
        assert!(lab.trees.release(&tree).unwrap(), "{what}: twice is once");
    }
}

/// What is not known is not clean.
#[test]
fn work_that_is_under_way_keeps_it() {
    type Work = fn(&Lab, &Path);
    let rows: &[(&str, Work, &str)] = &[
        (
            "a bisection",
            |_, top| {
                git(top, &["bisect", "start"]);
            },
            "a bisection is under way",
        ),
        (
            "a merge",
            |lab, top| {
                lab.git(&["checkout", "-q", "-b", "other"]);
                lab.git(&["commit", "-q", "--allow-empty", "-m", "other"]);
                git(top, &["merge", "-q", "--no-ff", "--no-commit", "other"]);
            },
            "a merge is under way",
        ),
        (
            "a rebase",
            |lab, top| {
                lab.git(&["checkout", "-q", "-b", "other"]);
                write(&lab.repo.join("a.txt"), "theirs\n");
                lab.git(&["commit", "-qam", "other"]);
                write(&top.join("a.txt"), "ours\n");
                git(top, &["commit", "-qam", "ours"]);
                assert!(!try_git(top, &["rebase", "-q", "other"]).0);
            },
            "a rebase is under way",
        ),
        (
            "a branch without commits",
            |_, top| {
                git(top, &["checkout", "-q", "--orphan", "fresh"]);
            },
            "without commits",
        ),
        ("a damaged index", |lab, _| fs::write(lab.repo.join(".git/worktrees/ses_1/index"), "garbage").unwrap(), "index"),
        (
            "a link in its place",
            |lab, top| {
                fs::rename(top, lab.base.join("moved")).unwrap();
                symlink(&lab.repo, top).unwrap();
            },
            "not a folder any more",
        ),
        ("an unregistered folder", |lab, _| fs::remove_dir_all(lab.repo.join(".git/worktrees/ses_1")).unwrap(), "not a worktree of"),
    ];
    for (what, work, words) in rows {
        let lab = Lab::new();
        let tree = lab.make("ses_1");
        work(&lab, Path::new(&tree.path));
        let left = lab.trees.look(&tree);
        assert!(!left.clean && left.unknown.contains(words), "{what}: {left:?}");
        assert!(!lab.trees.release(&tree).unwrap(), "{what}");
        assert!(Path::new(&tree.path).exists(), "{what}");
    }
}

/// CC-224: what the user's own command made cannot be judged, so it is kept.
#[test]
fn a_foreign_worktree_is_kept() {
    let lab = Lab::new();
    let folder = lab.base.join("theirs");
    fs::create_dir(&folder).unwrap();
    let tree = Worktree {
        home: lab.repo.to_str().unwrap().into(),
        path: folder.to_str().unwrap().into(),
        branch: String::new(),
        base: String::new(),
    };
    let left = lab.trees.look(&tree);
    assert!(!left.clean && left.unknown.contains("made by a command of the user's"), "{left:?}");
    lab.trees.ensure(&tree).unwrap();
    assert!(!lab.trees.release(&tree).unwrap());
    assert!(lab.trees.discard(&tree).unwrap_err().contains("remove it the same way"));
    assert!(folder.exists());
}
