//! Bringing work home: three ways, whole or not at all, with the caller's index untouched and each line's writer known.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
};

use posse_session::Worktree;
use posse_tools::{After, ConflictKind, FileStatus, MergeError, Merged, Onto, Provenance};

use crate::lab::{Lab, git, init, read, try_git, write};

pub(crate) fn by(task: &str) -> Provenance {
    Provenance { task: task.into(), agent: "builder".into(), description: format!("what {task} does") }
}

pub(crate) fn bring(lab: &Lab, tree: &Worktree) -> Result<Merged, MergeError> {
    merge(lab, tree, &Onto::Home, After::Release)
}

pub(crate) fn merge(lab: &Lab, tree: &Worktree, onto: &Onto, after: After) -> Result<Merged, MergeError> {
    let task = tree.branch.strip_prefix("posse/").unwrap();
    lab.trees.merge(tree, onto, &by(task), after, None)
}

/// Every file, link and mode of a working tree but git's own.
pub(crate) fn content(top: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fn walk(top: &Path, folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(top).unwrap().to_owned();
            let metadata = path.symlink_metadata().unwrap();
            if name == Path::new(".git") {
                continue;
            } else if metadata.is_symlink() {
                found.insert(name, [b"-> ", fs::read_link(&path).unwrap().as_os_str().as_bytes()].concat());
            } else if metadata.is_dir() {
                walk(top, &path, found);
            } else {
                let mode = if metadata.permissions().mode() & 0o100 != 0 { "x " } else { "- " };
                found.insert(name, [mode.as_bytes(), &fs::read(&path).unwrap()].concat());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(top, top, &mut found);
    found
}

fn more_files(lab: &Lab) {
    for name in ["folder/one", "folder/two", "gone", "run.sh"] {
        write(&lab.repo.join(name), &format!("{name}\n"));
    }
    symlink("a.txt", lab.repo.join("link")).unwrap();
    lab.git(&["add", "-A"]);
    lab.git(&["commit", "-qm", "more"]);
}

type Work = fn(&Path);

/// Whatever a task does to its files, home has the same afterwards; uncommitted or committed.
#[test]
fn every_kind_of_change_comes_home() {
    let rows: &[(&str, Work)] = &[
        ("a change", |top| write(&top.join("a.txt"), "one\n2\nthree\n")),
        ("a new file in new folders", |top| write(&top.join("x/y/z"), "new\n")),
        ("an empty file", |top| write(&top.join("empty"), "")),
        ("a removed file", |top| fs::remove_file(top.join("gone")).unwrap()),
        ("a removed folder", |top| fs::remove_dir_all(top.join("folder")).unwrap()),
        ("a renamed folder", |top| fs::rename(top.join("folder"), top.join("other")).unwrap()),
        ("an executable", |top| fs::set_permissions(top.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap()),
        ("a new executable", |top| {
            write(&top.join("new.sh"), "#!/bin/sh\n");
            fs::set_permissions(top.join("new.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        }),
        ("a new link, even out", |top| symlink("/etc/passwd", top.join("out")).unwrap()),
        ("a changed link", |top| {
            fs::remove_file(top.join("link")).unwrap();
            symlink("gone", top.join("link")).unwrap();
        }),
        ("a link that became a file", |top| {
            fs::remove_file(top.join("link")).unwrap();
            write(&top.join("link"), "file\n");
        }),
        ("a file that became a link", |top| {
            fs::remove_file(top.join("gone")).unwrap();
            symlink("a.txt", top.join("gone")).unwrap();
        }),
        ("a folder that became a file", |top| {
            fs::remove_dir_all(top.join("folder")).unwrap();
            write(&top.join("folder"), "file\n");
        }),
        ("a file that became a folder", |top| {
            fs::remove_file(top.join("gone")).unwrap();
            write(&top.join("gone/inner/file"), "inner\n");
        }),
        ("a folder that became a link", |top| {
            fs::rename(top.join("folder"), top.join("real")).unwrap();
            symlink("real", top.join("folder")).unwrap();
        }),
        ("strange names", |top| {
            write(&top.join(" a\n\"b\"\t*"), "strange\n");
            fs::write(top.join(std::ffi::OsString::from_vec(b"\xff\xfe".to_vec())), "bytes").unwrap();
            write(&top.join("-rf"), "dash\n");
        }),
        ("a binary file", |top| fs::write(top.join("binary"), [0, 1, 2, 255]).unwrap()),
    ];
    for (what, work) in rows {
        for committed in [false, true] {
            let lab = Lab::new();
            more_files(&lab);
            let index = fs::read(lab.repo.join(".git/index")).unwrap();
            let head = lab.git(&["rev-parse", "HEAD"]);
            let tree = lab.make("ses_1");
            let top = Path::new(&tree.path);
            work(top);
            let expected = content(top);
            if committed {
                git(top, &["add", "-A"]);
                git(top, &["commit", "-qm", "work"]);
            }
            let merged = bring(&lab, &tree).unwrap_or_else(|error| panic!("{what}: {error:?}"));
            assert_eq!(content(&lab.repo), expected, "{what}");
            assert!(merged.released && merged.notes.is_empty(), "{what}: {merged:?}");
            assert_eq!(fs::read(lab.repo.join(".git/index")).unwrap(), index, "{what}: the index");
            assert_eq!(lab.git(&["rev-parse", "HEAD"]), head, "{what}");
            assert!(lab.traces().is_empty(), "{what}: {:?}", lab.traces());
        }
    }
}

#[test]
fn what_is_uncommitted_at_home_stays_and_is_merged_with() {
    let lab = Lab::new();
    let tree = lab.make("ses_1");
    let top = Path::new(&tree.path);
    write(&top.join("a.txt"), "one\ntwo\nTHREE\n");
    write(&top.join("theirs"), "theirs\n");
    // At home: staged, unstaged, untracked and ignored things, also in the same file.
    write(&lab.repo.join("a.txt"), "ONE\ntwo\nthree\n");
    write(&lab.repo.join("sub/b.txt"), "staged\n");
    lab.git(&["add", "sub/b.txt"]);
    write(&lab.repo.join("mine"), "mine\n");
    write(&lab.repo.join("x.log"), "ignored\n");
    let index = fs::read(lab.repo.join(".git/index")).unwrap();
    let merged = bring(&lab, &tree).unwrap();
    assert_eq!(read(&lab.repo.join("a.txt")), "ONE\ntwo\nTHREE\n");
    assert_eq!(lab.git(&["status", "--porcelain"]), " M a.txt\nM  sub/b.txt\n?? mine\n?? theirs");
    assert_eq!(read(&lab.repo.join("x.log")), "ignored\n");
    // What a person keeps untracked is not copied into the repository by a merge that does not touch it.
    let object = lab.git(&["hash-object", "mine"]);
    assert!(!try_git(&lab.repo, &["cat-file", "-e", &object]).0);
    assert_eq!(fs::read(lab.repo.join(".git/index")).unwrap(), index);
    let files: Vec<_> = merged.files.iter().map(|file| (file.path.as_str(), file.status, file.hunks.as_slice())).collect();
    assert_eq!(files, [("a.txt", FileStatus::Modified, &[(3, 1)][..]), ("theirs", FileStatus::Added, &[(1, 1)])]);
}

/// At home the file has another name by now, which git does not know yet.
#[test]
fn what_was_renamed_at_home_gets_the_tasks_change() {
    let lab = Lab::new();
    let tree = lab.make("ses_1");
    write(&Path::new(&tree.path).join("a.txt"), "ONE\ntwo\nthree\n");
    fs::rename(lab.repo.join("a.txt"), lab.repo.join("renamed.txt")).unwrap();
    bring(&lab, &tree).unwrap();
    assert_eq!(read(&lab.repo.join("renamed.txt")), "ONE\ntwo\nthree\n");
    assert!(!lab.repo.join("a.txt").exists());
}

/// The caller's uncommitted changes that it began with are not brought home as if they were the task's.
#[test]
fn what_it_began_with_is_not_its_own_work() {
    let lab = Lab::new();
    write(&lab.repo.join("a.txt"), "one\ntwo\nthree\nuncommitted\n");
    write(&lab.repo.join("new"), "untracked\n");
    let (tree, _) = lab.make_from(&lab.repo, "ses_1", true);
    write(&Path::new(&tree.path).join("a.txt"), "ONE\ntwo\nthree\nuncommitted\n");
    let diff = lab.trees.diff(&tree).unwrap();
    assert_eq!(diff.files.len(), 1, "{:?}", diff.files);
    // Meanwhile the caller takes back what was not committed.
    write(&lab.repo.join("a.txt"), "one\ntwo\nthree\n");
    fs::remove_file(lab.repo.join("new")).unwrap();
    bring(&lab, &tree).unwrap();
    assert_eq!(read(&lab.repo.join("a.txt")), "ONE\ntwo\nthree\n");
    assert!(!lab.repo.join("new").exists());
}

/// A task that goes back to what is committed has not deleted what was not: it only has it no longer.
#[test]
fn what_was_not_committed_survives_a_task_that_leaves_it_behind() {
    let rows: &[(&str, &[&[&str]])] = &[
        ("a reset", &[&["reset", "-q", "--hard", "main"]]),
        ("a reset to an older commit", &[&["reset", "-q", "--hard", "main~1"]]),
        ("another branch", &[&["switch", "-q", "-c", "fresh", "main"]]),
        ("a detached head", &[&["checkout", "-q", "--detach", "main"]]),
        ("a stash and a reset", &[&["stash", "-q", "-u"], &["reset", "-q", "--hard", "main"]]),
    ];
    for (name, commands) in rows {
        let lab = Lab::new();
        lab.git(&["commit", "-q", "--allow-empty", "-m", "one more"]);
        write(&lab.repo.join("a.txt"), "one\ntwo\nthree\nuncommitted\n");
        write(&lab.repo.join("mine"), "untracked\n");
        write(&lab.repo.join("staged"), "staged\n");
        lab.git(&["add", "staged"]);
        let before = content(&lab.repo);
        let (tree, _) = lab.make_from(&lab.repo, "ses_1", true);
        for command in *commands {
            git(Path::new(&tree.path), command);
        }
        let nothing = merge(&lab, &tree, &Onto::Home, After::Keep).unwrap_err();
        assert!(nothing.is_nothing_new(), "{name}: {nothing}");
        assert_eq!(lab.trees.diff(&tree).unwrap().files.len(), 0, "{name}");
        write(&Path::new(&tree.path).join("v"), "new\n");
        let merged = bring(&lab, &tree).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(merged.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["v"], "{name}");
        let mut after = content(&lab.repo);
        assert_eq!(after.remove(Path::new("v")), Some(b"- new\n".to_vec()), "{name}");
        assert_eq!(after, before, "{name}");
    }
}

/// Who adds to the commit that it began with still has all of it, and its work is what it added.
#[test]
fn a_beginning_that_was_amended_is_still_the_beginning() {
    let lab = Lab::new();
    write(&lab.repo.join("a.txt"), "one\ntwo\nthree\nuncommitted\n");
    let (tree, _) = lab.make_from(&lab.repo, "ses_1", true);
    write(&Path::new(&tree.path).join("a.txt"), "one\ntwo\nthree\nuncommitted, and more\n");
    git(Path::new(&tree.path), &["commit", "-q", "-a", "--amend", "-m", "mine now"]);
    bring(&lab, &tree).unwrap();
    assert_eq!(read(&lab.repo.join("a.txt")), "one\ntwo\nthree\nuncommitted, and more\n");
}

/// Each row: what home and the task do, and what is said. Nothing changes anywhere.
#[test]
fn a_conflict_is_told_by_file_and_hunk_and_changes_nothing() {
    type Row = (&'static str, Work, Work, &'static str, ConflictKind, usize);
    let rows: &[Row] = &[
        (
            "the same lines",
            |top| write(&top.join("a.txt"), "one\nHOME\nthree\n"),
            |top| write(&top.join("a.txt"), "one\nTASK\nthree\n"),
            "a.txt",
            ConflictKind::Content,
            1,
        ),
        ("both add", |top| write(&top.join("new"), "home\n"), |top| write(&top.join("new"), "task\n"), "new", ConflictKind::AddAdd, 1),
        (
            "removed at home",
            |top| fs::remove_file(top.join("a.txt")).unwrap(),
            |top| write(&top.join("a.txt"), "task\n"),
            "a.txt",
            ConflictKind::ModifyDelete,
            0,
        ),
        (
            "removed by the task",
            |top| write(&top.join("a.txt"), "home\n"),
            |top| fs::remove_file(top.join("a.txt")).unwrap(),
            "a.txt",
            ConflictKind::ModifyDelete,
            0,
        ),
        (
            "renamed twice",
            |top| fs::rename(top.join("folder/one"), top.join("home")).unwrap(),
            |top| fs::rename(top.join("folder/one"), top.join("task")).unwrap(),
            "folder/one",
            ConflictKind::Rename,
            0,
        ),
        (
            "binary",
            |top| fs::write(top.join("bin"), [0, 1]).unwrap(),
            |top| fs::write(top.join("bin"), [0, 2]).unwrap(),
            "bin",
            ConflictKind::Binary,
            0,
        ),
        (
            "a file and a folder",
            |top| write(&top.join("both"), "file\n"),
            |top| write(&top.join("both/inner"), "inner\n"),
            "both",
            ConflictKind::FileFolder,
            0,
        ),
        (
            "a file and a link",
            |top| {
                fs::remove_file(top.join("a.txt")).unwrap();
                symlink("gone", top.join("a.txt")).unwrap();
            },
            |top| write(&top.join("a.txt"), "task\n"),
            "a.txt",
            ConflictKind::Mode,
            0,
        ),
    ];
    for (what, at_home, by_task, path, kind, hunks) in rows {
        let lab = Lab::new();
        more_files(&lab);
        let tree = lab.make("ses_1");
        let top = Path::new(&tree.path);
        at_home(&lab.repo);
        by_task(top);
        // Something without a conflict, too: it must not come alone.
        write(&top.join("innocent"), "innocent\n");
        let before = (content(&lab.repo), content(top), fs::read(lab.repo.join(".git/index")).unwrap(), lab.traces());
        let Err(MergeError::Conflicts(conflicts)) = bring(&lab, &tree) else { panic!("{what}: no conflict") };
        let told = conflicts.iter().find(|conflict| conflict.path == *path).unwrap_or_else(|| panic!("{what}: {conflicts:?}"));
        assert_eq!((told.kind, told.hunks.len()), (*kind, *hunks), "{what}: {conflicts:?}");
        assert!(told.words.contains("CONFLICT"), "{what}: {told:?}");
        assert_eq!((content(&lab.repo), content(top), fs::read(lab.repo.join(".git/index")).unwrap(), lab.traces()), before, "{what}");
        assert_eq!(lab.git(&["for-each-ref", "refs/posse/merges"]), "", "{what}");
    }
}

#[test]
fn a_hunk_says_where_it_is_at_home_and_what_both_wrote() {
    let lab = Lab::new();
    let lines = |changes: &[(usize, &str)]| {
        let mut lines: Vec<String> = (1..=40).map(|number| format!("line {number}")).collect();
        for (at, text) in changes.iter().rev() {
            lines[at - 1] = (*text).to_owned();
        }
        lines.join("\n") + "\n"
    };
    write(&lab.repo.join("long"), &lines(&[]));
    lab.git(&["add", "-A"]);
    lab.git(&["commit", "-qm", "long"]);
    let tree = lab.make("ses_1");
    // The task also adds lines above, which move what comes after them in the merged file but not at home.
    write(&Path::new(&tree.path).join("long"), &lines(&[(2, "line 2\nmore\nmore"), (20, "task 20"), (30, "task 30")]));
    write(&lab.repo.join("long"), &lines(&[(20, "home 20"), (30, "home 30")]));
    let Err(MergeError::Conflicts(conflicts)) = bring(&lab, &tree) else { panic!("no conflict") };
    let hunks: Vec<(u64, &str)> = conflicts[0].hunks.iter().map(|hunk| (hunk.ours_line, hunk.text.as_str())).collect();
    let text = |number: u32| format!("<<<<<<< home\nhome {number}\n=======\ntask {number}\n>>>>>>> the worktree\n");
    assert_eq!(hunks, [(20, text(20).as_str()), (30, text(30).as_str())]);
}

#[test]
fn what_is_in_the_way_and_not_in_the_snapshot_is_never_overwritten() {
    type Home = fn(&Lab);
    let rows: &[(&str, &str, Home)] = &[
        ("an ignored file", "notes.log", |lab| write(&lab.repo.join("notes.log"), "precious\n")),
        ("an ignored folder", "notes.log", |lab| write(&lab.repo.join("notes.log/inner"), "precious\n")),
        ("a link where a folder is to be", "notes.log/inner", |lab| {
            write(&lab.base.join("outside/inner"), "precious\n");
            symlink(lab.base.join("outside"), lab.repo.join("notes.log")).unwrap();
        }),
        ("a link that leads nowhere", "notes.log/inner", |lab| symlink(lab.base.join("nowhere"), lab.repo.join("notes.log")).unwrap()),
        ("a file where a folder is to be", "notes.log/inner", |lab| write(&lab.repo.join("notes.log"), "precious\n")),
    ];
    for (what, path, prepare) in rows {
        let lab = Lab::new();
        let tree = lab.make("ses_1");
        let top = Path::new(&tree.path);
        write(&top.join(path), "task\n");
        write(&top.join("a.txt"), "task\n");
        git(top, &["add", "-f", "-A", "."]);
        git(top, &["commit", "-qm", "ignored"]);
        prepare(&lab);
        let before = content(&lab.base);
        let Err(MergeError::Stale(paths)) = bring(&lab, &tree) else { panic!("{what}: it was written") };
        assert_eq!(paths, [*path], "{what}");
        let after = content(&lab.base);
        let outside = |content: &BTreeMap<PathBuf, Vec<u8>>| -> Vec<(PathBuf, Vec<u8>)> {
            content
                .iter()
                .filter(|(path, _)| !path.components().any(|part| part.as_os_str() == ".git"))
                .map(|(path, text)| (path.clone(), text.clone()))
                .collect()
        };
        assert_eq!(outside(&after), outside(&before), "{what}");
    }
}

/// A tree that only plumbing can make: names that git itself would not check out.
#[test]
fn a_hostile_tree_is_refused() {
    let lab = Lab::new();
    let tree = lab.make("ses_1");
    let top = Path::new(&tree.path);
    let blob = git(top, &["hash-object", "-w", "a.txt"]);
    for name in [".git", "..", ".GIT"] {
        let mut entry = format!("40000 {name}\0").into_bytes();
        let inner = inner_tree(top, &blob);
        entry.extend((0..40).step_by(2).map(|at| u8::from_str_radix(&inner[at..at + 2], 16).unwrap()));
        fs::write(lab.base.join("tree"), &entry).unwrap();
        let hostile = git(top, &["hash-object", "-w", "-t", "tree", "--literally", lab.base.join("tree").to_str().unwrap()]);
        let commit = git(top, &["commit-tree", &hostile, "-p", "HEAD", "-m", "hostile"]);
        lab.git(&["update-ref", "refs/heads/posse/ses_1", &commit]);
        // With the folder gone, the branch is all there is.
        let _ = fs::rename(top, lab.base.join("moved"));
        let before = (content(&lab.repo), read(&lab.repo.join(".git/config")));
        let brought = bring(&lab, &tree);
        assert!(matches!(brought, Err(MergeError::Failed(_))), "{name}: {brought:?}");
        assert_eq!((content(&lab.repo), read(&lab.repo.join(".git/config"))), before, "{name}");
        let _ = fs::rename(lab.base.join("moved"), top);
    }
}

fn inner_tree(top: &Path, blob: &str) -> String {
    let index = top.join("../inner-index");
    let run = |arguments: &[&str]| {
        let output = std::process::Command::new("git").args(arguments).current_dir(top).env("GIT_INDEX_FILE", &index).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    run(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},config")]);
    let tree = run(&["write-tree"]);
    fs::remove_file(&index).unwrap();
    tree
}

#[test]
fn a_task_that_goes_on_brings_only_what_is_new() {
    let lab = Lab::new();
    let tree = lab.make("ses_1");
    let top = Path::new(&tree.path);
    assert_eq!(bring(&lab, &tree), Err(MergeError::NothingNew));
    assert!(top.exists(), "it was not brought home, so it is not released by this");
    write(&top.join("a.txt"), "ONE\ntwo\nthree\n");
    write(&top.join("first"), "first\n");
    assert!(bring(&lab, &tree).unwrap().released);
    assert!(!top.exists());
    // Home takes back a part of it; that is not brought again.
    fs::remove_file(lab.repo.join("first")).unwrap();
    assert_eq!(bring(&lab, &tree), Err(MergeError::NothingNew));
    lab.trees.ensure(&tree).unwrap();
    assert_eq!(read(&top.join("first")), "first\n");
    let left = lab.trees.look(&tree);
    assert!(left.clean, "{left:?}");
    write(&top.join("a.txt"), "ONE\ntwo\nTHREE\n");
    assert_eq!(lab.trees.look(&tree).files, 1);
    assert_eq!(lab.trees.diff(&tree).unwrap().files.len(), 1);
    let merged = merge(&lab, &tree, &Onto::Home, After::Keep).unwrap();
    assert!(!merged.released && top.exists());
    assert_eq!(read(&lab.repo.join("a.txt")), "ONE\ntwo\nTHREE\n");
    assert!(!lab.repo.join("first").exists());
    let left = lab.trees.look(&tree);
    assert_eq!((left.commits, left.files, left.clean), (0, 0, true), "everything in it is home: {left:?}");
    git(top, &["commit", "-qam", "late"]);
    let left = lab.trees.look(&tree);
    assert_eq!((left.commits, left.files, left.clean), (1, 0, false), "{left:?}");
    git(top, &["reset", "-q", "--soft", "HEAD~1"]);
    write(&top.join("untracked"), "x\n");
    merge(&lab, &tree, &Onto::Home, After::Keep).unwrap();
    assert_eq!(bring(&lab, &tree), Err(MergeError::NothingNew));
    assert!(!top.exists(), "everything in it is home");
    assert!(lab.traces().is_empty(), "{:?}", lab.traces());
}

#[test]
fn onto_a_branch_it_is_a_commit_with_its_writer_and_its_history() {
    let lab = Lab::new();
    lab.git(&["branch", "target"]);
    let tree = lab.make("ses_1");
    let top = Path::new(&tree.path);
    write(&top.join("a.txt"), "ONE\ntwo\nthree\n");
    git(top, &["commit", "-qam", "the task's own commit"]);
    let own = git(top, &["rev-parse", "HEAD"]);
    let before = (content(&lab.repo), lab.git(&["rev-parse", "main"]), lab.git(&["status", "--porcelain"]));
    let onto = Onto::Branch("target".into());
    let merged = merge(&lab, &tree, &onto, After::Keep).unwrap();
    assert_eq!(lab.git(&["rev-parse", "target"]), merged.commit);
    assert_eq!(lab.git(&["show", "target:a.txt"]), "ONE\ntwo\nthree");
    assert_eq!(lab.git(&["log", "-1", "--format=%P", "target"]), format!("{} {own}", before.1));
    assert_eq!(
        lab.git(&["log", "-1", "--format=%an %(trailers:key=Posse-Task,valueonly)%(trailers:key=Posse-Agent,valueonly)", "target"]),
        "Somebody ses_1\nbuilder"
    );
    assert_eq!((content(&lab.repo), lab.git(&["rev-parse", "main"]), lab.git(&["status", "--porcelain"])), before);
    // What is not committed has no history to bring.
    write(&top.join("new"), "new\n");
    merge(&lab, &tree, &onto, After::Release).unwrap();
    assert_eq!(lab.git(&["log", "-1", "--format=%P", "target"]), merged.commit);
    assert!(lab.traces().is_empty(), "{:?}", lab.traces());

    let tree = lab.make("ses_2");
    write(&Path::new(&tree.path).join("a.txt"), "x\n");
    for (branch, words) in [("main", "checked out in a working tree"), ("missing", "there is no branch"), ("../x", "there is no branch")] {
        let said = merge(&lab, &tree, &Onto::Branch(branch.into()), After::Keep).unwrap_err().to_string();
        assert!(said.contains(words), "{branch}: {said}");
    }
    // A conflict leaves the branch where it was.
    assert!(matches!(merge(&lab, &tree, &onto, After::Keep), Err(MergeError::Conflicts(_))));
    // Without an author in the configuration posse signs.
    lab.git(&["config", "user.name", ""]);
    lab.git(&["config", "user.email", ""]);
    write(&Path::new(&tree.path).join("a.txt"), "one\ntwo\nthree\n");
    write(&Path::new(&tree.path).join("signed"), "x\n");
    merge(&lab, &tree, &onto, After::Keep).unwrap();
    assert_eq!(lab.git(&["log", "-1", "--format=%an", "target"]), "posse");
}

#[test]
fn which_task_wrote_which_lines_is_known() {
    let lab = Lab::new();
    let (first, second) = (lab.make("ses_1"), lab.make("ses_2"));
    write(&Path::new(&first.path).join("a.txt"), "ONE\ntwo\nthree\n");
    write(&Path::new(&first.path).join("new\nname"), "1\n2\n");
    write(&Path::new(&second.path).join("a.txt"), "one\ntwo\nthree\nfour\nfive\n");
    bring(&lab, &first).unwrap();
    bring(&lab, &second).unwrap();
    let written = lab.trees.provenance(&lab.repo, None).unwrap();
    let told: Vec<_> = written
        .iter()
        .map(|written| {
            (written.task.as_str(), written.agent.as_str(), written.description.as_str(), written.path.as_str(), written.hunks.clone())
        })
        .collect();
    let expected = [
        ("ses_2", "builder", "what ses_2 does", "a.txt", vec![(4, 2)]),
        ("ses_1", "builder", "what ses_1 does", "a.txt", vec![(1, 1)]),
        ("ses_1", "builder", "what ses_1 does", "new\nname", vec![(1, 2)]),
    ];
    assert_eq!(told, expected);
    assert!(written.iter().all(|written| 1_600_000_000 < written.at));
    assert_eq!(lab.trees.provenance(&lab.repo.join("sub"), Some("a.txt")).unwrap().len(), 2);
}

#[test]
fn a_merge_of_a_worker_of_a_worker_comes_to_that_worker() {
    let lab = Lab::new();
    let outer = lab.make("outer");
    let (inner, _) = lab.make_from(Path::new(&outer.path), "inner", false);
    write(&Path::new(&inner.path).join("a.txt"), "inner\n");
    // Neither believes a `.git` file.
    for tree in [&outer, &inner] {
        fs::write(Path::new(&tree.path).join(".git"), "gitdir: /nowhere\n").unwrap();
    }
    bring(&lab, &inner).unwrap();
    assert_eq!(read(&Path::new(&outer.path).join("a.txt")), "inner\n");
    assert_eq!(read(&lab.repo.join("a.txt")), "one\ntwo\nthree\n");
    bring(&lab, &outer).unwrap();
    assert_eq!(read(&lab.repo.join("a.txt")), "inner\n");
    assert!(lab.traces().is_empty(), "{:?}", lab.traces());
}

#[test]
fn what_a_merge_cannot_bring_keeps_the_worktree() {
    let lab = Lab::new();
    let tree = lab.make("ses_1");
    let top = Path::new(&tree.path);
    init(&top.join("clone"));
    write(&top.join("clone/file"), "x\n");
    write(&top.join("a.txt"), "x\n");
    let merged = bring(&lab, &tree).unwrap();
    assert!(!merged.released && merged.notes[0].contains("clone is a repository of its own"), "{merged:?}");
    assert!(top.join("clone/file").exists());
    assert_eq!(lab.trees.diff(&tree).unwrap().left_out, ["clone"]);

    // A rebase that waits for somebody is no state to bring home.
    let tree = lab.make("ses_2");
    let top = Path::new(&tree.path);
    lab.git(&["checkout", "-q", "-b", "other"]);
    lab.git(&["checkout", "-q", "-f", "."]);
    write(&lab.repo.join("a.txt"), "theirs\n");
    lab.git(&["commit", "-qam", "other"]);
    write(&top.join("a.txt"), "ours\n");
    git(top, &["commit", "-qam", "ours"]);
    assert!(!try_git(top, &["rebase", "-q", "other"]).0);
    let said = bring(&lab, &tree).unwrap_err().to_string();
    assert!(said.contains("a rebase is under way") && said.contains("finish or abort"), "{said}");
}

#[test]
fn a_submodule_that_was_moved_is_a_conflict() {
    let lab = Lab::new();
    let library = lab.base.join("library");
    init(&library);
    git(&library, &["commit", "-q", "--allow-empty", "-m", "library"]);
    lab.git(&["submodule", "--quiet", "add", library.to_str().unwrap(), "deps"]);
    lab.git(&["commit", "-qm", "submodule"]);
    let tree = lab.make("ses_1");
    let deps = Path::new(&tree.path).join("deps");
    git(&deps, &["-c", "user.name=x", "-c", "user.email=x@y", "commit", "-q", "--allow-empty", "-m", "there"]);
    write(&Path::new(&tree.path).join("a.txt"), "x\n");
    let Err(MergeError::Conflicts(conflicts)) = bring(&lab, &tree) else { panic!("no conflict") };
    assert_eq!((conflicts[0].path.as_str(), conflicts[0].kind), ("deps", ConflictKind::Submodule));
    assert_eq!(read(&lab.repo.join("a.txt")), "one\ntwo\nthree\n");
}

/// Line ends and filters are git's: what is written is what git would check out.
#[test]
fn filters_of_the_repository_apply() {
    let lab = Lab::new();
    lab.git(&["config", "filter.shout.clean", "tr A-Z a-z"]);
    lab.git(&["config", "filter.shout.smudge", "tr a-z A-Z"]);
    write(&lab.repo.join(".gitattributes"), "*.shout filter=shout\n*.crlf text eol=crlf\n");
    write(&lab.repo.join("x.shout"), "LOUD\n");
    write(&lab.repo.join("x.crlf"), "one\r\ntwo\r\n");
    lab.git(&["add", "-A"]);
    lab.git(&["commit", "-qm", "filters"]);
    let tree = lab.make("ses_1");
    let top = Path::new(&tree.path);
    assert_eq!((read(&top.join("x.shout")), read(&top.join("x.crlf"))), ("LOUD\n".into(), "one\r\ntwo\r\n".into()));
    write(&top.join("x.shout"), "LOUDER\n");
    write(&top.join("x.crlf"), "one\r\nTWO\r\n");
    bring(&lab, &tree).unwrap();
    assert_eq!((read(&lab.repo.join("x.shout")), read(&lab.repo.join("x.crlf"))), ("LOUDER\n".into(), "one\r\nTWO\r\n".into()));
    assert_eq!(lab.git(&["diff", "--name-only"]), "x.crlf\nx.shout");
}

#[test]
fn a_diff_shows_untracked_files_and_names_binary_ones() {
    let lab = Lab::new();
    more_files(&lab);
    let tree = lab.make("ses_1");
    let top = Path::new(&tree.path);
    assert_eq!(lab.trees.diff(&tree).unwrap(), posse_tools::Diff::default());
    write(&top.join("a.txt"), "one\nTWO\nthree\n");
    write(&top.join("new"), "1\n2\n");
    fs::write(top.join("bin"), [0, 1, 2]).unwrap();
    fs::rename(top.join("gone"), top.join("renamed")).unwrap();
    // A program that would be asked for a diff is not.
    let ran = lab.base.join("ran");
    lab.git(&["config", "diff.external", &format!("touch {}", ran.display())]);
    lab.git(&["config", "diff.evil.textconv", &format!("touch {};cat", ran.display())]);
    lab.git(&["config", "diff.evil.command", &format!("touch {};true", ran.display())]);
    write(&top.join(".gitattributes"), "* diff=evil\n");
    let diff = lab.trees.diff(&tree).unwrap();
    let files: Vec<_> =
        diff.files.iter().map(|file| (file.path.as_str(), file.status, file.added, file.removed, file.from.as_deref())).collect();
    let expected = [
        (".gitattributes", FileStatus::Added, Some(1), Some(0), None),
        ("a.txt", FileStatus::Modified, Some(1), Some(1), None),
        ("bin", FileStatus::Added, None, None, None),
        ("new", FileStatus::Added, Some(2), Some(0), None),
        ("renamed", FileStatus::Renamed, Some(0), Some(0), Some("gone")),
    ];
    assert_eq!(files, expected);
    let text = String::from_utf8(diff.text).unwrap();
    assert!(text.contains("-two\n+TWO\n") && text.contains("Binary files /dev/null and b/bin differ"), "{text}");
    assert!(!ran.exists() && !diff.cut);
    assert_eq!(lab.git(&["status", "--porcelain"]), "", "home is only read");
}
