//! The folder in which worktrees lie, and what posse remembers of each: the record, so that nothing in a worktree is asked
//! which repository it belongs to.
//!
//! A worktree is `<folder>/<slug>`; everything else is below `<folder>/.posse`. A record is written before anything is made
//! and goes last, so whatever a killed posse left has one. Runs no git.

use std::{
    fs,
    hash::{BuildHasher, Hasher, RandomState},
    io::{self, ErrorKind, Write as _},
    os::unix::fs::DirBuilderExt,
    path::{Component, Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use posse_session::Worktree;
use serde::{Deserialize, Serialize};

use super::{Teller, locks::Lock};

/// Task ids are shorter; a branch and a folder are named after it.
const SLUG_BYTES_MAX: usize = 100;
/// What an agent makes is nobody else's to read.
const FOLDER_MODE: u32 = 0o700;

pub(super) struct Workshop {
    pub(super) fuse: Option<Arc<AtomicU64>>,
    pub(super) teller: Option<Teller>,
    /// Without links in it: git writes such paths, and they are compared.
    pub(super) folder: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    /// Nobody has worked in it yet: it can be made anew.
    Making,
    Made,
    /// Whoever finds it goes on removing.
    Removing,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Submodule {
    /// Below the worktree.
    pub(super) path: String,
    pub(super) git_dir: String,
    /// Hashes of the settings it began with.
    #[serde(default)]
    pub(super) settings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) tree: Worktree,
    /// The repository's git folder, which all its worktrees share.
    pub(super) common: String,
    pub(super) state: State,
    /// The homes of its home, the nearest first: where work comes to when its home is gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) above: Vec<String>,
    /// While it is removed: the commit at which its branch may go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) removal: Option<String>,
    /// What was brought home last; only what was done since is new.
    #[serde(default)]
    pub(super) merged: Option<String>,
    /// Hashes of the settings that git gave this worktree alone.
    #[serde(default)]
    pub(super) settings: Vec<String>,
    #[serde(default)]
    pub(super) submodules: Vec<Submodule>,
    #[serde(default)]
    pub(super) notes: Vec<String>,
    #[serde(default)]
    pub(super) title: String,
}

impl Workshop {
    pub(super) fn open(folder: &Path) -> Result<Self, String> {
        let failed = |error: io::Error| format!("the folder for worktrees, {}, cannot be used: {error}", folder.display());
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(FOLDER_MODE);
        for below in ["records", "locks", "scratch", "gone"] {
            builder.create(folder.join(".posse").join(below)).map_err(failed)?;
        }
        Ok(Self { fuse: None, teller: None, folder: folder.canonicalize().map_err(failed)? })
    }

    /// Between any two effects: where the tests of crashes end the process.
    pub(super) fn step(&self) {
        if let Some(fuse) = &self.fuse
            && fuse.fetch_sub(1, Ordering::SeqCst) == 1
        {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    }

    fn own(&self) -> PathBuf {
        self.folder.join(".posse")
    }

    pub(super) fn lock(&self, slug: &str) -> Result<Lock, String> {
        Lock::take(&self.lock_path(slug))
    }

    pub(super) fn lock_path(&self, slug: &str) -> PathBuf {
        self.locks_folder().join(format!("{slug}.lock"))
    }

    pub(super) fn locks_folder(&self) -> PathBuf {
        self.own().join("locks")
    }

    pub(super) fn presence_path(&self, slug: &str) -> PathBuf {
        self.own().join("present").join(slug)
    }

    pub(super) fn scratch_folder(&self) -> PathBuf {
        self.own().join("scratch")
    }

    /// Made when the first order is given: most never give one.
    pub(super) fn orders_folder(&self) -> PathBuf {
        self.own().join("orders")
    }

    pub(super) fn gone_folder(&self) -> PathBuf {
        self.own().join("gone")
    }

    /// The name of a file that is removed again, with everything that was put beside it under a longer name.
    pub(super) fn scratch(&self) -> Scratch {
        Scratch { path: self.scratch_folder().join(unique("scratch")) }
    }

    fn record_path(&self, slug: &str) -> PathBuf {
        self.own().join("records").join(slug)
    }

    pub(super) fn record(&self, slug: &str) -> Result<Option<Record>, String> {
        let path = self.record_path(slug);
        match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).map(Some).map_err(|error| format!("{} cannot be read: {error}", path.display())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("{} cannot be read: {error}", path.display())),
        }
    }

    /// Whole or not at all.
    pub(super) fn remember(&self, slug: &str, record: &Record) -> Result<(), String> {
        let path = self.record_path(slug);
        let scratch = self.scratch();
        let text = serde_json::to_vec(record).map_err(|error| error.to_string())?;
        let write = || -> io::Result<()> {
            let mut file = fs::File::create(&scratch.path)?;
            file.write_all(&text)?;
            // Else a power cut may leave the name without the text.
            file.sync_data()?;
            fs::rename(&scratch.path, &path)
        };
        write().map_err(|error| format!("{} cannot be written: {error}", path.display()))
    }

    pub(super) fn forget(&self, slug: &str) {
        // One that stays is listed as something left over.
        let _ = fs::remove_file(self.record_path(slug));
    }

    pub(super) fn recorded(&self) -> Vec<String> {
        names_in(&self.own().join("records")).into_iter().filter(|name| is_slug(name)).collect()
    }

    /// The slug of a worktree of ours; an error in words for every other folder.
    pub(super) fn slug_of(&self, tree: &Worktree) -> Result<String, String> {
        let slug = self.slug_at(Path::new(&tree.path)).filter(|slug| self.folder.join(slug) == Path::new(&tree.path));
        match slug {
            Some(slug) if tree.branch == branch_of(&slug) => Ok(slug),
            _ => Err(format!(
                "{} is not a worktree that this posse made (those are in {}), so it is not touched",
                tree.path,
                self.folder.display()
            )),
        }
    }

    /// The homes of a home that is a worktree of ours, the nearest first.
    pub(super) fn above(&self, home: &str) -> Vec<String> {
        let slug = self.slug_at(Path::new(home)).filter(|slug| self.folder.join(slug) == Path::new(home));
        let record = slug.and_then(|slug| self.record(&slug).ok().flatten());
        record.map(|record| std::iter::once(record.tree.home).chain(record.above).collect()).unwrap_or_default()
    }

    /// The slug of the worktree in which a path lies.
    pub(super) fn slug_at(&self, path: &Path) -> Option<String> {
        match path.strip_prefix(&self.folder).ok()?.components().next()? {
            Component::Normal(name) => name.to_str().filter(|name| is_slug(name)).map(str::to_owned),
            _ => None,
        }
    }
}

/// Removed when it is dropped.
pub(super) struct Scratch {
    pub(super) path: PathBuf,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A lock of git's beside it is there only if git was killed.
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_file(self.path.with_extension("lock"));
    }
}

pub(super) fn unique(name: &str) -> String {
    format!("{name}-{}-{:016x}", std::process::id(), RandomState::new().build_hasher().finish())
}

pub(super) fn names_in(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Strict, because it becomes a part of paths and of names of refs.
pub(super) fn is_slug(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
    !text.is_empty() && text.len() <= SLUG_BYTES_MAX && text.bytes().all(plain) && !text.starts_with('-')
}

pub(super) fn branch_of(slug: &str) -> String {
    format!("posse/{slug}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slug_is_one_plain_name() {
        for (text, fits) in [
            ("ses_01ab-c", true),
            ("", false),
            ("..", false),
            ("a/b", false),
            ("A", false),
            ("a.lock", false),
            ("-x", false),
            ("a b", false),
            ("a\n", false),
            ("ä", false),
        ] {
            assert_eq!(is_slug(text), fits, "{text:?}");
        }
        assert!(!is_slug(&"a".repeat(101)));
    }

    #[test]
    fn only_a_folder_with_its_own_branch_is_ours() {
        let folder = tempfile::tempdir().unwrap();
        let workshop = Workshop::open(&folder.path().join("trees")).unwrap();
        let tree = |path: &str, branch: &str| Worktree {
            home: String::new(),
            path: path.replace("TREES", &workshop.folder.to_string_lossy()),
            branch: branch.into(),
            base: String::new(),
        };
        assert_eq!(workshop.slug_of(&tree("TREES/a", "posse/a")).unwrap(), "a");
        for (path, branch) in [
            ("TREES/a", "posse/b"),
            ("TREES/a", "main"),
            ("TREES/a/b", "posse/a"),
            ("TREES/../a", "posse/a"),
            ("TREES/.posse", "posse/.posse"),
            ("TREES", "posse/"),
            ("/home", "posse/home"),
        ] {
            assert!(workshop.slug_of(&tree(path, branch)).is_err(), "{path} {branch}");
        }
    }
}
