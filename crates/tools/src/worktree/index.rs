//! The index of a working tree, read as if nobody had told git to look away.
//!
//! `assume-unchanged` and `skip-worktree` let git call a changed file unchanged. A task can set them, so what is behind
//! them is work like any other. The flags are cleared in a copy; the index itself is only read.

use std::{collections::BTreeSet, ffi::OsStr, fs, io, os::unix::ffi::OsStrExt};

use super::{
    git::{Git, parts},
    place::Place,
    workshop::{Scratch, Workshop},
};

/// Which files are looked at although git was told not to.
#[derive(Clone, Copy)]
pub(super) enum Hidden<'a> {
    /// None: what a person keeps from git is not carried anywhere.
    Kept,
    /// Those at these paths.
    ShownAt(&'a BTreeSet<Vec<u8>>),
    Shown,
}

impl Hidden<'_> {
    fn shows(self, path: &[u8]) -> bool {
        match self {
            Self::Kept => false,
            Self::ShownAt(paths) => paths.contains(path),
            Self::Shown => true,
        }
    }
}

pub(super) struct Index {
    /// Absent where the index itself says everything.
    copy: Option<Scratch>,
}

impl Index {
    pub(super) fn of(workshop: &Workshop, place: &Place, hidden: Hidden<'_>) -> Result<Self, String> {
        if matches!(hidden, Hidden::Kept) {
            return Ok(Self { copy: None });
        }
        let listed = place.git().ask(["ls-files", "-v", "-z"])?;
        let (mut assumed, mut skipped) = (Vec::new(), Vec::new());
        for entry in parts(&listed) {
            let (Some(tag), Some(path)) = (entry.first(), entry.get(2..)) else { continue };
            if !hidden.shows(path) {
                continue;
            }
            if tag.is_ascii_lowercase() {
                assumed.extend(path.iter().chain([&0]));
            }
            // One that is not there is left out by a sparse checkout.
            if tag.eq_ignore_ascii_case(&b'S') && place.top.join(OsStr::from_bytes(path)).symlink_metadata().is_ok() {
                skipped.extend(path.iter().chain([&0]));
            }
        }
        if assumed.is_empty() && skipped.is_empty() {
            return Ok(Self { copy: None });
        }
        let copy = copy_of_index(workshop, place)?;
        let git = place.git().with_index(&copy.path);
        for (option, paths) in [("--no-assume-unchanged", assumed), ("--no-skip-worktree", skipped)] {
            if !paths.is_empty() {
                git.tell(["update-index", "-z", option, "--stdin"], &paths)?.success()?;
            }
        }
        Ok(Self { copy: Some(copy) })
    }

    pub(super) fn git<'a>(&self, place: &Place) -> Git<'a> {
        match &self.copy {
            Some(copy) => place.git().with_index(&copy.path),
            None => place.git(),
        }
    }

    /// One that may be changed.
    pub(super) fn into_copy(self, workshop: &Workshop, place: &Place) -> Result<Scratch, String> {
        match self.copy {
            Some(copy) => Ok(copy),
            None => copy_of_index(workshop, place),
        }
    }
}

fn copy_of_index(workshop: &Workshop, place: &Place) -> Result<Scratch, String> {
    let (from, scratch) = (place.git_dir.join("index"), workshop.scratch());
    let copied = fs::copy(&from, &scratch.path).and_then(|_| {
        // A file that was changed in the moment in which the index was written is looked at again only because it is not
        // older than the index; so the copy must not be younger.
        let written = fs::metadata(&from)?.modified()?;
        fs::File::options().write(true).open(&scratch.path)?.set_modified(written)
    });
    match copied {
        Ok(()) => Ok(scratch),
        // Nothing was ever staged.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(scratch),
        Err(error) => Err(format!("{} cannot be copied: {error}", from.display())),
    }
}
