//! Whether a folder is in a linked worktree, and what of its repository is its own: what git has on the disk.
//!
//! A linked worktree has its own `HEAD` and its own index; branches, settings, objects, stashes and hooks are those of the
//! repository it was made from. Reads a few small files of git's and changes nothing; what cannot be read counts as shared.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

use crate::{
    paths::real,
    shell::{Does, RepositoryUse},
};

/// `.git` as a file, `HEAD` and `commondir` hold one path or one name.
const LINE_BYTES_MAX: u64 = 8 * 1024;

/// A hundred thousand branches; whether a name is among more is not looked up, and it counts as a branch.
const PACKED_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Ten thousand stashes; whose the newest of more are is not looked up.
const STASHES_BYTES_MAX: u64 = 2 * 1024 * 1024;

/// A folder beside others of the same repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Linked {
    /// The git folder that all of them share.
    pub(super) common: PathBuf,
    /// The branch that is checked out here.
    own: Option<String>,
}

impl Linked {
    /// The linked worktree this folder is in, if it is in one.
    pub(super) fn around(folder: &Path) -> Option<Self> {
        let entry = folder.ancestors().map(|above| above.join(".git")).find(|entry| entry.exists())?;
        // In an ordinary repository it is a folder, and in a submodule the file leads to one without `commondir`.
        let text = first_line(&entry)?;
        let git_folder = entry.parent()?.join(text.strip_prefix("gitdir:")?.trim());
        let common = git_folder.join(first_line(&git_folder.join("commondir"))?);
        let head = first_line(&git_folder.join("HEAD")).unwrap_or_default();
        let own = head.strip_prefix("ref: refs/heads/").map(str::to_owned);
        Some(Self { common: real(&common).unwrap_or(common), own })
    }

    /// Whether this changes what others work with too.
    pub(super) fn is_shared(&self, does: &Does) -> bool {
        match does {
            Does::Share | Does::Leave | Does::Reach(_) => true,
            Does::Move(name) => !self.is_own(name),
            Does::Enter(name) => !self.is_own(name) && self.has_branch(name),
            Does::Unstash { until, .. } => !self.owns_stashes(*until),
        }
    }

    fn is_own(&self, name: &str) -> bool {
        matches!(name, "HEAD" | "@") || self.own.as_deref() == Some(name)
    }

    fn has_branch(&self, name: &str) -> bool {
        let heads = self.common.join("refs/heads");
        // No branch has such a name, but paths do.
        if name.starts_with('/') || name.contains("..") {
            return false;
        }
        // Where refs are not kept as files, nobody here knows.
        !heads.is_dir() || heads.join(name).is_file() || self.has_packed(&format!("refs/heads/{name}"))
    }

    /// Whether so many stashes from the newest on, or all of them, were made on the branch that is checked out here.
    fn owns_stashes(&self, until: Option<usize>) -> bool {
        let is_kept_in_files = self.common.join("refs/heads").is_dir();
        let stash = self.common.join("refs/stash");
        if is_kept_in_files && !stash.exists() && !self.has_packed("refs/stash") {
            return true;
        }
        // Git writes down whose they are: `WIP on BRANCH: ...`, or `On BRANCH: ...` with words of their own.
        let (Some(own), Some(log)) = (self.own.as_deref(), text_of(&self.common.join("logs/refs/stash"), STASHES_BYTES_MAX)) else {
            return false;
        };
        let is_own = |line: &str| {
            let words = line.split_once('\t').map_or("", |(_, words)| words);
            let after = ["WIP on ", "On "].iter().find_map(|start| words.strip_prefix(start)?.strip_prefix(own));
            after.is_some_and(|rest| rest.starts_with(':'))
        };
        !log.is_empty() && log.lines().rev().take(until.unwrap_or(usize::MAX)).all(is_own)
    }

    fn has_packed(&self, name: &str) -> bool {
        let Ok(file) = File::open(self.common.join("packed-refs")) else { return false };
        if file.metadata().map_or(true, |metadata| PACKED_BYTES_MAX < metadata.len()) {
            return true;
        }
        let wanted = format!(" {name}");
        BufReader::new(file).split(b'\n').map_while(Result::ok).any(|line| line.ends_with(wanted.as_bytes()))
    }
}

/// The git folder that a use of the repository would change for others, for each one there is.
pub(super) fn shared(uses: &[RepositoryUse], root: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for RepositoryUse { folders, does } in uses.iter().filter(|used| !matches!(used.does, Does::Reach(_))) {
        // Who leaves, leaves this worktree; and where nobody knows the folder, it is the one everything starts in.
        let from_root = folders.is_empty() || *does == Does::Leave;
        let starts: Vec<&Path> = if from_root { vec![root] } else { folders.iter().map(PathBuf::as_path).collect() };
        let linked = starts.into_iter().filter_map(Linked::around).filter(|linked| linked.is_shared(does));
        let reached = linked.map(|linked| if *does == Does::Leave { PathBuf::from("/") } else { linked.common.join("HEAD") });
        found.extend(reached);
    }
    found.sort();
    found.dedup();
    found
}

/// What is changed outside of a linked worktree, or where nobody knows, as rules about folders outside see it. Who asks to
/// leave for anywhere has asked for this too.
pub(super) fn reached(uses: &[RepositoryUse], root: &Path) -> Vec<String> {
    let patterns = uses.iter().filter_map(|used| if let Does::Reach(pattern) = &used.does { Some(pattern.clone()) } else { None });
    let patterns: Vec<String> = patterns.collect();
    let leaves = uses.iter().any(|used| used.does == Does::Leave);
    if patterns.is_empty() || leaves || Linked::around(root).is_none() { Vec::new() } else { patterns }
}

fn first_line(path: &Path) -> Option<String> {
    // A folder opens, but does not read.
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    File::open(path).ok()?.take(LINE_BYTES_MAX).read_to_string(&mut text).ok()?;
    text.lines().next().map(|line| line.trim_end().to_owned())
}

/// The whole of a file that is no longer than this. What people write into it need not be UTF-8.
fn text_of(path: &Path, bytes_max: u64) -> Option<String> {
    let metadata = fs::metadata(path).ok()?;
    let fits = metadata.is_file() && metadata.len() <= bytes_max;
    fits.then(|| fs::read(path).ok()).flatten().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}
