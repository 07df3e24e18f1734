//! The project of a working directory: the git top level, found by walking up; git itself is not asked.
//!
//! A worktree is a project of its own for files and for trust, and its main repository's for data. Its `.git` file is
//! written by whoever wrote the folder, so it is believed only when the main repository itself points back at it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::places::tidy;

/// The top level that holds `cwd`, and the path its data is kept under.
pub(crate) fn find(cwd: &Path) -> (PathBuf, PathBuf) {
    for folder in cwd.ancestors() {
        let git = folder.join(".git");
        let Ok(metadata) = fs::metadata(&git) else { continue };
        if metadata.is_dir() {
            return (folder.to_owned(), folder.to_owned());
        }
        if metadata.is_file() {
            let key = main_repository(folder, &git).unwrap_or_else(|| folder.to_owned());
            return (folder.to_owned(), key);
        }
    }
    (cwd.to_owned(), cwd.to_owned())
}

/// The top level of the repository that a worktree belongs to; `None` for a submodule or a lie.
fn main_repository(folder: &Path, git: &Path) -> Option<PathBuf> {
    let worktree = tidy(&folder.join(one_line(git)?.strip_prefix("gitdir:")?.trim()));
    let back = worktree.join(one_line(&worktree.join("gitdir"))?.trim());
    if back.canonicalize().ok()? != git.canonicalize().ok()? {
        return None;
    }
    let common = tidy(&worktree.join(one_line(&worktree.join("commondir"))?.trim()));
    // Where git keeps it. Elsewhere the same hand may have written both pointers, and names a repository that knows of neither.
    if worktree.canonicalize().ok()?.parent()? != common.canonicalize().ok()?.join("worktrees") {
        return None;
    }
    match common.file_name()?.to_str() {
        Some(".git") => common.parent().map(Path::to_owned),
        // A bare repository has no top level; its own folder stands for it.
        _ => Some(common),
    }
}

/// Longer than any path; git's pointers are one line.
const POINTER_BYTES_MAX: u64 = 8 * 1024;

fn one_line(file: &Path) -> Option<String> {
    let metadata = fs::metadata(file).ok()?;
    if !metadata.is_file() || POINTER_BYTES_MAX < metadata.len() {
        return None;
    }
    fs::read_to_string(file).ok()?.lines().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn the_top_level_is_the_nearest_folder_with_git_in_it() {
        let world = tempfile::tempdir().unwrap();
        let top = world.path().canonicalize().unwrap().join("repo");
        fs::create_dir_all(top.join(".git")).unwrap();
        fs::create_dir_all(top.join("a/b")).unwrap();
        assert_eq!(find(&top.join("a/b")), (top.clone(), top.clone()));
        assert_eq!(find(&top), (top.clone(), top));
        let elsewhere = world.path().join("plain/folder");
        fs::create_dir_all(&elsewhere).unwrap();
        assert_eq!(find(&elsewhere), (elsewhere.clone(), elsewhere));
    }

    #[test]
    fn a_worktree_keeps_its_data_with_its_main_repository() {
        let world = tempfile::tempdir().unwrap();
        let world = world.path().canonicalize().unwrap();
        let (main, tree) = (world.join("main"), world.join("tree"));
        write(&main.join(".git/worktrees/tree/commondir"), "../..\n");
        write(&main.join(".git/worktrees/tree/gitdir"), &format!("{}\n", tree.join(".git").display()));
        write(&tree.join(".git"), &format!("gitdir: {}\n", main.join(".git/worktrees/tree").display()));
        fs::create_dir_all(tree.join("src")).unwrap();
        assert_eq!(find(&tree.join("src")), (tree.clone(), main.clone()));

        // A folder that only claims to be one does not get at the sessions of another project.
        let liar = world.join("liar");
        write(&liar.join(".git"), &format!("gitdir: {}\n", main.join(".git/worktrees/tree").display()));
        assert_eq!(find(&liar), (liar.clone(), liar));

        // Nor does one that has written both pointers itself and names the other by `commondir`.
        let forger = world.join("forger");
        write(&forger.join("own/gitdir"), &format!("{}\n", forger.join(".git").display()));
        write(&forger.join("own/commondir"), &format!("{}\n", main.join(".git").display()));
        write(&forger.join(".git"), "gitdir: own\n");
        assert_eq!(find(&forger), (forger.clone(), forger));

        // A submodule is its own project.
        let module = main.join("module");
        write(&main.join(".git/modules/module/HEAD"), "ref: refs/heads/main\n");
        write(&module.join(".git"), "gitdir: ../.git/modules/module\n");
        assert_eq!(find(&module), (module.clone(), module));
    }
}
