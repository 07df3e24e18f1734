//! Submodules of a worktree: filled from what the caller has on its disk, without the network.
//!
//! One that is not filled in the caller stays empty, as there. One that cannot be filled stays empty and is noted; the
//! worktree is still good for everything else.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    path::{Component, Path, PathBuf},
};

use super::{
    git::{Git, parts},
    place::{Place, settings_in},
    workshop::Submodule,
};

/// Submodules in submodules; deeper ones stay empty.
const DEPTH_MAX: usize = 5;

/// The commit with which a submodule of a worktree began; what is not below it was made there.
pub(super) const FIRST: &str = "refs/posse/first";

#[derive(Default)]
pub(super) struct Filled {
    pub(super) submodules: Vec<Submodule>,
    pub(super) notes: Vec<String>,
}

pub(super) fn fill(caller: &Place, tree: &Place) -> Result<Filled, String> {
    let mut filled = Filled::default();
    fill_at(caller, tree, Path::new(""), DEPTH_MAX, &mut filled)?;
    Ok(filled)
}

fn fill_at(caller: &Place, tree: &Place, above: &Path, depth: usize, filled: &mut Filled) -> Result<(), String> {
    let file = tree.top.join(".gitmodules");
    if depth == 0 || !file.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Ok(());
    }
    let links = links_of(tree)?;
    for (name, path) in named_in(&file)? {
        let Some(commit) = links.get(&path) else { continue };
        // As git itself names them: nothing that leads elsewhere.
        if !is_plain(&name) || !is_plain(&path) || caller.top.join(&path).join(".git").symlink_metadata().is_err() {
            continue;
        }
        let shown = above.join(&path);
        let source = [caller.git_dir.join("modules").join(&name), caller.top.join(&path).join(".git")]
            .into_iter()
            .find(|source| source.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) && source.join("objects").is_dir());
        let git_dir = tree.git_dir.join("modules").join(&name);
        let made = match &source {
            Some(source) => fill_one(source, &git_dir, &tree.top.join(&path), commit),
            None => Err("its repository was not found".to_owned()),
        };
        let Some(source) = source else {
            filled.notes.push(empty(&shown, "its repository was not found"));
            continue;
        };
        if let Err(words) = made {
            let _ = fs::remove_dir_all(&git_dir);
            filled.notes.push(empty(&shown, &words));
            continue;
        }
        let Some(text) = shown.to_str().map(str::to_owned) else { continue };
        let settings = settings_in(&git_dir.join("config"))?;
        filled.submodules.push(Submodule { path: text, git_dir: git_dir.to_string_lossy().into_owned(), settings });
        let inner_caller = Place { common: source.clone(), git_dir: source, top: caller.top.join(&path) };
        let inner_tree = Place { common: git_dir.clone(), git_dir, top: tree.top.join(&path) };
        fill_at(&inner_caller, &inner_tree, &shown, depth - 1, filled)?;
    }
    Ok(())
}

fn empty(path: &Path, why: &str) -> String {
    format!("the submodule {} is empty in the worktree: {why}", path.display())
}

fn fill_one(source: &Path, git_dir: &Path, top: &Path, commit: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", top.display());
    if let Some(above) = git_dir.parent() {
        fs::create_dir_all(above).map_err(failed)?;
    }
    fs::create_dir_all(top).map_err(failed)?;
    let mut arguments: Vec<&OsStr> = ["clone", "--quiet", "--no-checkout", "--template=", "--separate-git-dir"].map(OsStr::new).to_vec();
    arguments.extend([git_dir.as_os_str(), OsStr::new("--"), source.as_os_str(), top.as_os_str()]);
    Git::finding(Path::new("/")).ask(arguments)?;
    let git = Git::in_tree(git_dir, top);
    git.ask(["update-ref", FIRST, commit])?;
    git.ask(["checkout", "--quiet", "--detach", commit])?;
    // Whoever fetches or pushes there means the place that the caller means.
    let origin = Git::in_repository(source).run(["config", "--get", "remote.origin.url"])?;
    if origin.code == 0 {
        git.ask(["config", "remote.origin.url", String::from_utf8_lossy(&origin.output).trim_end()])?;
    }
    Ok(())
}

/// Name and path of each submodule.
fn named_in(file: &Path) -> Result<Vec<(PathBuf, PathBuf)>, String> {
    let arguments = [OsStr::new("config"), OsStr::new("--file"), file.as_os_str(), OsStr::new("--no-includes"), OsStr::new("-z")];
    let said = Git::finding(Path::new("/")).run(arguments.into_iter().chain(["--get-regexp", r"^submodule\..*\.path$"].map(OsStr::new)))?;
    let entry = |part: &[u8]| {
        let text = std::str::from_utf8(part).ok()?;
        let (key, path) = text.split_once('\n')?;
        let name = key.strip_prefix("submodule.")?.strip_suffix(".path")?;
        Some((PathBuf::from(name), PathBuf::from(path)))
    };
    // Status 1 says that there is none.
    Ok(if said.code == 0 { parts(&said.output).filter_map(entry).collect() } else { Vec::new() })
}

/// The commits that the worktree wants, by path.
fn links_of(tree: &Place) -> Result<BTreeMap<PathBuf, String>, String> {
    let listed = tree.git().ask(["ls-files", "--stage", "-z"])?;
    let link = |entry: &[u8]| {
        let text = std::str::from_utf8(entry).ok()?;
        let (facts, path) = text.strip_prefix("160000 ")?.split_once('\t')?;
        Some((PathBuf::from(path), facts.split(' ').next()?.to_owned()))
    };
    Ok(parts(&listed).filter_map(link).collect())
}

fn is_plain(path: &Path) -> bool {
    !path.as_os_str().is_empty()
        && path.components().all(|part| matches!(part, Component::Normal(name) if !name.eq_ignore_ascii_case(".git")))
}
