//! Removal never leads out of the worktree, and never touches what is not ours. Its content is hostile.

use std::{fs, os::unix::fs::symlink, path::Path};

use posse_session::Worktree;

use crate::lab::{Lab, git, init, read, write};

#[test]
fn what_is_not_ours_is_not_removed() {
    let lab = Lab::new();
    let tree = lab.make("ses_1");
    let other = lab.base.join("trees/other");
    write(&other.join("theirs"), "theirs");
    let outside = lab.base.join("outside");
    write(&outside.join("theirs"), "theirs");
    lab.git(&["worktree", "add", "-q", "-b", "posse/users", "../users"]);
    for (path, branch) in [
        (outside.as_path(), "posse/outside"),
        (&lab.repo, "posse/repo"),
        (&lab.base.join("trees"), "posse/trees"),
        (&lab.base.join("trees/../outside"), "posse/outside"),
        (&lab.base.join("users"), "posse/users"),
        (&lab.base.join("trees/.posse"), "posse/.posse"),
        (&lab.base.join("trees/ses_1"), "main"),
        // In our folder, but nobody's: it is not a worktree of the repository.
        (&other, "posse/other"),
    ] {
        let wrong = Worktree { path: path.to_str().unwrap().into(), branch: branch.into(), ..tree.clone() };
        assert!(lab.trees.discard(&wrong).is_err(), "{}", path.display());
        assert_ne!(lab.trees.release(&wrong), Ok(true), "{}", path.display());
        assert!(!lab.trees.look(&wrong).clean, "{}", path.display());
        assert!(path.exists());
    }
    let elsewhere = Worktree { base: "0".repeat(40), ..tree.clone() };
    assert!(lab.trees.discard(&elsewhere).unwrap_err().contains("another beginning"));
    assert!(Path::new(&tree.path).join("a.txt").exists());
}

#[test]
fn links_in_a_worktree_lead_nowhere() {
    let lab = Lab::new();
    let outside = lab.base.join("outside");
    write(&outside.join("keep"), "keep");
    let tree = lab.make("ses_1");
    let top = Path::new(&tree.path);
    symlink(&outside, top.join("link")).unwrap();
    symlink(outside.join("keep"), top.join("file")).unwrap();
    fs::remove_dir_all(top.join("sub")).unwrap();
    symlink(&outside, top.join("sub")).unwrap();
    fs::create_dir(top.join("closed")).unwrap();
    fs::set_permissions(top.join("closed"), std::os::unix::fs::PermissionsExt::from_mode(0o500)).unwrap();
    lab.trees.discard(&tree).unwrap();
    assert_eq!(read(&outside.join("keep")), "keep");
    assert!(lab.traces().is_empty(), "{:?}", lab.traces());

    // The worktree itself became a link.
    let tree = lab.make("ses_2");
    fs::rename(&tree.path, lab.base.join("moved")).unwrap();
    symlink(&outside, &tree.path).unwrap();
    assert!(!lab.trees.release(&tree).unwrap());
    lab.trees.discard(&tree).unwrap();
    assert_eq!(read(&outside.join("keep")), "keep");
    assert!(lab.base.join("moved/a.txt").exists(), "what was moved away is not ours to follow");
    assert!(lab.traces().is_empty(), "{:?}", lab.traces());
}

/// Who works there rewrites `.git`: to another repository, to a repository with programs in its settings, to nothing.
#[test]
fn the_git_file_in_a_worktree_is_not_believed() {
    let lab = Lab::new();
    let ran = lab.base.join("ran");
    let decoy = lab.base.join("decoy");
    init(&decoy);
    git(&decoy, &["commit", "-q", "--allow-empty", "-m", "decoy"]);
    git(&decoy, &["config", "filter.evil.clean", &format!("touch {}", ran.display())]);
    git(&decoy, &["config", "filter.evil.smudge", &format!("touch {}", ran.display())]);
    git(&decoy, &["config", "core.fsmonitor", &format!("touch {}", ran.display())]);
    for text in [format!("gitdir: {}\n", decoy.join(".git").display()), "garbage".into(), String::new()] {
        let tree = lab.make("ses_1");
        let top = Path::new(&tree.path);
        write(&top.join(".gitattributes"), "* filter=evil\n");
        write(&top.join("a.txt"), "work\n");
        if text.is_empty() {
            fs::remove_file(top.join(".git")).unwrap();
            fs::create_dir(top.join(".git")).unwrap();
            fs::copy(decoy.join(".git/config"), top.join(".git/config")).unwrap();
        } else {
            fs::write(top.join(".git"), &text).unwrap();
        }
        let left = lab.trees.look(&tree);
        assert_eq!((left.files, left.unknown.as_str()), (2, ""), "{left:?}");
        assert!(!lab.trees.release(&tree).unwrap());
        lab.trees.discard(&tree).unwrap();
        assert!(lab.traces().is_empty(), "{:?}", lab.traces());
    }
    assert!(decoy.join(".git/HEAD").exists() && !ran.exists());
}

/// Settings that a task gave its worktree alone are not obeyed, unless they only say which files are there.
#[test]
fn settings_of_a_worktree_start_no_program() {
    let lab = Lab::new();
    lab.git(&["config", "extensions.worktreeConfig", "true"]);
    lab.git(&["config", "--worktree", "user.name", "the user's own"]);
    let ran = lab.base.join("ran");
    let tree = lab.make("ses_1");
    let top = Path::new(&tree.path);
    assert!(lab.trees.look(&tree).clean, "{:?}", lab.trees.look(&tree));
    git(top, &["config", "--worktree", "filter.evil.clean", &format!("touch {}", ran.display())]);
    write(&top.join(".gitattributes"), "* filter=evil\n");
    let left = lab.trees.look(&tree);
    assert!(!left.clean && left.unknown.contains("filter.evil.clean"), "{left:?}");
    assert!(!ran.exists());
    lab.trees.discard(&tree).unwrap();
    assert!(!ran.exists() && lab.traces().is_empty());

    lab.git(&["config", "--worktree", "--unset", "user.name"]);
    let tree = lab.make("ses_2");
    git(Path::new(&tree.path), &["sparse-checkout", "set", "sub"]);
    let left = lab.trees.look(&tree);
    assert!(left.clean, "{left:?}");
}

#[test]
fn a_branch_that_a_person_looks_at_stays() {
    let lab = Lab::new();
    let tree = lab.make("ses_1");
    write(&Path::new(&tree.path).join("a.txt"), "work\n");
    git(Path::new(&tree.path), &["commit", "-qam", "work"]);
    git(Path::new(&tree.path), &["checkout", "-q", "--detach"]);
    lab.git(&["checkout", "-q", "posse/ses_1"]);
    lab.trees.discard(&tree).unwrap();
    assert_eq!(lab.git(&["log", "-1", "--format=%s"]), "work");
}

/// Each step of a removal, as a killed posse would have left it.
#[test]
fn a_killed_removal_is_gone_on_with() {
    for steps in 0..5 {
        let lab = Lab::new();
        let tree = lab.make("ses_1");
        let record = lab.base.join("trees/.posse/records/ses_1");
        fs::write(&record, read(&record).replace("\"made\"", "\"removing\"")).unwrap();
        if 1 <= steps {
            fs::rename(&tree.path, lab.base.join("trees/.posse/gone/ses_1-1-1")).unwrap();
        }
        if 2 <= steps {
            fs::remove_dir_all(lab.base.join("trees/.posse/gone/ses_1-1-1")).unwrap();
        }
        if 3 <= steps {
            fs::remove_dir_all(lab.repo.join(".git/worktrees/ses_1")).unwrap();
        }
        if 4 <= steps {
            lab.git(&["update-ref", "-d", "refs/heads/posse/ses_1"]);
        }
        assert!(lab.trees.release(&tree).unwrap(), "{steps}");
        assert!(lab.traces().is_empty(), "{steps}: {:?}", lab.traces());
        // And the task can go on.
        lab.trees.ensure(&tree).unwrap();
        assert_eq!(read(&Path::new(&tree.path).join("sub/b.txt")), "b\n");
    }
}
