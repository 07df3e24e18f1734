//! A repository in a temporary folder, and beside it the folder for worktrees.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use posse_session::Worktree;
use posse_tools::{Making, Worktrees};
use tempfile::TempDir;

pub(crate) struct Lab {
    _folder: TempDir,
    pub(crate) base: PathBuf,
    pub(crate) repo: PathBuf,
    pub(crate) trees: Worktrees,
}

impl Lab {
    /// With one commit of `a.txt`, `sub/b.txt` and a `.gitignore` that ignores `*.log`.
    pub(crate) fn new() -> Self {
        let lab = Self::empty();
        write(&lab.repo.join("a.txt"), "one\ntwo\nthree\n");
        write(&lab.repo.join("sub/b.txt"), "b\n");
        write(&lab.repo.join(".gitignore"), "*.log\n");
        lab.git(&["add", "-A"]);
        lab.git(&["commit", "-qm", "first"]);
        lab
    }

    /// Without a commit.
    pub(crate) fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let repo = base.join("repo");
        init(&repo);
        Self { _folder: folder, trees: Worktrees::new(base.join("trees")), repo, base }
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        git(&self.repo, arguments)
    }

    pub(crate) fn make(&self, slug: &str) -> Worktree {
        self.make_from(&self.repo, slug, false).0
    }

    pub(crate) fn make_from(&self, from: &Path, slug: &str, changes: bool) -> (Worktree, PathBuf) {
        self.try_make(from, slug, changes).unwrap()
    }

    pub(crate) fn try_make(&self, from: &Path, slug: &str, changes: bool) -> Result<(Worktree, PathBuf), String> {
        self.trees.make(&Making { from, slug, changes, title: "a test" })
    }

    /// What of ours is in the repository: refs and worktrees besides its own.
    pub(crate) fn traces(&self) -> Vec<String> {
        let refs = self.git(&["for-each-ref", "--format=%(refname)", "refs/heads/posse", "refs/posse/base", "refs/posse/merging"]);
        let worktrees = self.git(&["worktree", "list", "--porcelain"]);
        let worktrees = worktrees.lines().filter_map(|line| line.strip_prefix("worktree ")).skip(1);
        let folders = names(&self.base.join("trees")).into_iter().filter(|name| name != ".posse");
        let records = names(&self.base.join("trees/.posse/records")).into_iter().map(|name| format!("record {name}"));
        let gone = names(&self.base.join("trees/.posse/gone"));
        let scratch = names(&self.base.join("trees/.posse/scratch"));
        refs.lines().chain(worktrees).map(str::to_owned).chain(folders).chain(records).chain(gone).chain(scratch).collect()
    }
}

pub(crate) fn init(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    git(folder, &["init", "-q", "-b", "main"]);
    for (key, value) in [("user.name", "Somebody"), ("user.email", "somebody@example.com"), ("core.autocrlf", "false"), ("gc.auto", "0")] {
        git(folder, &["config", key, value]);
    }
}

pub(crate) fn try_git(folder: &Path, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new("git");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GIT_")) {
        command.env_remove(name);
    }
    let output = command.args(["-c", "protocol.file.allow=always"]).args(arguments).current_dir(folder).output().unwrap();
    let said = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.success(), String::from_utf8_lossy(&said).trim_end().to_owned())
}

pub(crate) fn git(folder: &Path, arguments: &[&str]) -> String {
    let (worked, said) = try_git(folder, arguments);
    assert!(worked, "git {arguments:?}: {said}");
    said
}

pub(crate) fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| format!("<{}>", error.kind()))
}

pub(crate) fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
