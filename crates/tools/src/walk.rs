//! Walking a folder as the user sees it: ignore files count, hidden files are shown, `.git` is not, links are not followed.
//!
//! A repository may be hostile: the number of entries, the depth and the time have bounds, and a walk can be stopped.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use ignore::{DirEntry, WalkBuilder};

/// A repository of a million files is walked in part and the answer says so.
const ENTRIES_MAX: usize = 500_000;
/// Deeper folders are loops of mounts or an attack.
const DEPTH_MAX: usize = 64;
/// A tool that only looks must not take longer than a person waits.
const TIME_MAX: Duration = Duration::from_secs(30);
/// How often the clock and the stop are looked at.
const CHECK_EVERY: usize = 128;

/// Why a walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Walked {
    All,
    /// The visitor had enough.
    Enough,
    /// A bound was reached: there may be more.
    Bounded,
    Stopped,
}

impl Walked {
    pub(crate) fn note(self) -> &'static str {
        match self {
            Self::Bounded => "\n(The folder is too large to be searched completely; name a smaller path.)",
            Self::Stopped => "\n(Stopped before the end.)",
            Self::All | Self::Enough => "",
        }
    }
}

pub(crate) fn builder(folder: &Path) -> WalkBuilder {
    let mut builder = WalkBuilder::new(folder);
    builder
        .hidden(false)
        .require_git(false)
        .follow_links(false)
        .max_depth(Some(DEPTH_MAX))
        .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != ".git");
    builder
}

/// Every file below `folder`, in the order of names, until the visitor says `false`.
pub(crate) fn files(folder: &Path, stopped: &dyn Fn() -> bool, mut visit: impl FnMut(&DirEntry) -> bool) -> Walked {
    let begun = Instant::now();
    for (count, entry) in builder(folder).sort_by_file_name(Ord::cmp).build().enumerate() {
        if count % CHECK_EVERY == 0 {
            if stopped() {
                return Walked::Stopped;
            }
            if TIME_MAX < begun.elapsed() {
                return Walked::Bounded;
            }
        }
        if ENTRIES_MAX <= count {
            return Walked::Bounded;
        }
        // What cannot be read (no permission, vanished) is passed over, as every search program does.
        let Ok(entry) = entry else { continue };
        if entry.file_type().is_some_and(|kind| kind.is_file() || kind.is_symlink()) && !visit(&entry) {
            return Walked::Enough;
        }
    }
    Walked::All
}
