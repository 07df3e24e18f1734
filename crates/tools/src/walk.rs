//! Walking a folder as the user sees it: ignore files count, hidden files are shown, `.git` is not, links are not followed.
//!
//! A repository may be hostile: the number of entries, the depth and the time have bounds, a walk can be stopped, and a
//! folder that becomes a link while it is walked is not entered. Folders that are closed to tools (`private.rs`) are
//! passed over.

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{files::open_folder, ignored::Ignored, private::Private};

/// A repository of a million files is walked in part and the answer says so.
const ENTRIES_MAX: usize = 500_000;
/// Of one folder; only these are sorted.
const ENTRIES_OF_FOLDER_MAX: usize = 100_000;
/// Deeper folders are loops of mounts or an attack.
const DEPTH_MAX: usize = 64;
/// A tool that only looks must not take longer than a person waits.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(30);
/// How often the clock and the stop are looked at.
const CHECK_EVERY: usize = 128;

/// How a walk ended, so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Walked {
    All,
    /// A bound was reached: there may be more.
    Bounded,
    Late,
    Stopped,
}

impl Walked {
    pub(crate) fn note(self) -> String {
        match self {
            Self::All => String::new(),
            Self::Bounded => "\n(The folder is too large to be searched completely; name a smaller path.)".into(),
            Self::Late => format!("\n(Not finished after {} s; name a smaller path.)", TIME_MAX.as_secs()),
            Self::Stopped => "\n(Stopped before the end.)".into(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) path: PathBuf,
    pub(crate) is_folder: bool,
    pub(crate) is_file: bool,
    is_link: bool,
}

/// One walk, with what is left of its bounds.
pub(crate) struct Walk<'a> {
    private: &'a Private,
    stopped: &'a dyn Fn() -> bool,
    until: Instant,
    left: usize,
    pub(crate) walked: Walked,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(private: &'a Private, stopped: &'a dyn Fn() -> bool) -> Self {
        Self { private, stopped, until: Instant::now() + TIME_MAX, left: ENTRIES_MAX, walked: Walked::All }
    }

    /// Whether it must end now.
    pub(crate) fn is_over(&mut self) -> bool {
        if (self.stopped)() {
            self.walked = Walked::Stopped;
        } else if self.until < Instant::now() {
            self.walked = Walked::Late;
        }
        matches!(self.walked, Walked::Stopped | Walked::Late)
    }

    /// Every file below `folder`, in the order of names, until the visitor says `false`. An error when the folder itself
    /// cannot be opened: it is not what it was when it was judged.
    pub(crate) fn files(&mut self, folder: &Path, project: &Path, mut visit: impl FnMut(&mut Self, &Entry) -> bool) -> io::Result<()> {
        let ignored = Ignored::of(folder, project, self.private);
        let mut open = vec![(self.entries_of(folder, &ignored)?.into_iter(), ignored)];
        let mut count = 0_usize;
        while let (depth, Some((entries, ignored))) = (open.len(), open.last_mut()) {
            let Some(entry) = entries.next() else {
                open.pop();
                continue;
            };
            count += 1;
            if count.is_multiple_of(CHECK_EVERY) && self.is_over() {
                break;
            }
            if entry.is_folder {
                if depth < DEPTH_MAX {
                    let ignored = Arc::clone(ignored).with(&entry.path, self.private);
                    open.push((self.entries(&entry.path, &ignored).into_iter(), ignored));
                }
            } else if (entry.is_file || entry.is_link) && !visit(self, &entry) {
                break;
            }
        }
        Ok(())
    }

    /// The entries of one folder by name, without what is ignored or closed. What cannot be read (no permission,
    /// vanished, a link by now) is passed over, as every search program does.
    pub(crate) fn entries(&mut self, folder: &Path, ignored: &Ignored) -> Vec<Entry> {
        self.entries_of(folder, ignored).unwrap_or_default()
    }

    /// The same of a folder that must be there.
    pub(crate) fn entries_of(&mut self, folder: &Path, ignored: &Ignored) -> io::Result<Vec<Entry>> {
        let mut found = Vec::new();
        if self.is_over() || self.private.covers(folder) {
            return Ok(found);
        }
        for (count, entry) in open_folder(folder, self.private)?.flatten().enumerate() {
            if count.is_multiple_of(CHECK_EVERY) && self.is_over() {
                break;
            }
            if self.left == 0 || ENTRIES_OF_FOLDER_MAX <= count {
                self.walked = Walked::Bounded;
                break;
            }
            self.left -= 1;
            let (name, Ok(kind)) = (entry.file_name(), entry.file_type()) else { continue };
            let path = folder.join(&name);
            if name == ".git" || ignored.leaves_out(&path, kind.is_dir()) || self.private.covers(&path) {
                continue;
            }
            found.push(Entry { path, is_folder: kind.is_dir(), is_file: kind.is_file(), is_link: kind.is_symlink() });
        }
        found.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(found)
    }
}

/// A file that ends early when its walk must: one file can be larger than a whole project.
pub(crate) struct Timely<'w, 'a, R> {
    pub(crate) walk: &'w mut Walk<'a>,
    pub(crate) input: R,
}

impl<R: Read> Read for Timely<'_, '_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.walk.is_over() { Ok(0) } else { self.input.read(buffer) }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, fs};

    use super::*;

    fn names(walk: &mut Walk<'_>, root: &Path) -> Vec<String> {
        let mut names = Vec::new();
        walk.files(root, root, |_, entry| {
            names.push(crate::paths::name_in(root, &entry.path));
            true
        })
        .unwrap();
        names
    }

    #[test]
    fn ignore_files_count_as_they_do_for_git() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for (name, text) in [
            (".gitignore", "\u{feff}*.log\nbuild/\n/top.txt\n!keep.log\n[bad\n"),
            (".ignore", "!wanted.log\nhidden.rs\n"),
            (".git/info/exclude", "private.txt\nkeep.log\n"),
            ("a.log", ""),
            ("keep.log", ""),
            ("wanted.log", ""),
            ("top.txt", ""),
            ("private.txt", ""),
            ("build/x", ""),
            ("sub/.gitignore", "!b.log\nc.txt\n"),
            ("sub/b.log", ""),
            ("sub/c.txt", ""),
            ("sub/hidden.rs", ""),
            ("sub/top.txt", ""),
            ("repo/.git/HEAD", ""),
            ("repo/own.log", ""),
        ] {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let (private, never) = (Private::default(), || false);
        let found = names(&mut Walk::new(&private, &never), &root);
        assert_eq!(
            found,
            [".gitignore", ".ignore", "keep.log", "repo/own.log", "sub/.gitignore", "sub/b.log", "sub/top.txt", "wanted.log"]
        );
    }

    #[test]
    fn a_walk_does_not_begin_at_a_link_and_does_not_enter_one() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("outside/sub")).unwrap();
        fs::write(root.join("outside/sub/secret"), "").unwrap();
        fs::create_dir(root.join("inside")).unwrap();
        std::os::unix::fs::symlink(root.join("outside"), root.join("inside/link")).unwrap();
        let (private, never) = (Private::default(), || false);
        assert_eq!(names(&mut Walk::new(&private, &never), &root.join("inside")), ["link"]);
        for swapped in ["inside/link", "inside/link/sub"] {
            let began = Walk::new(&private, &never).files(&root.join(swapped), &root, |_, entry| panic!("{entry:?}"));
            assert!(began.unwrap_err().to_string().contains("changed since it was judged"), "{swapped}");
        }
    }

    #[test]
    fn a_walk_ends_when_it_is_late_stopped_or_has_seen_enough() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for n in 0..1_000 {
            fs::write(root.join(format!("{n:04}")), "").unwrap();
        }
        let (private, never) = (Private::default(), || false);
        let mut late = Walk { until: Instant::now(), ..Walk::new(&private, &never) };
        assert_eq!((names(&mut late, &root).len(), late.walked), (0, Walked::Late));
        assert!(late.walked.note().contains("Not finished after 30 s"));

        let mut bounded = Walk { left: 300, ..Walk::new(&private, &never) };
        let found = names(&mut bounded, &root);
        assert_eq!((found.len(), found.is_sorted(), bounded.walked), (300, true, Walked::Bounded));

        // Asked while the names are still being read, not only when all of them are there.
        let asked = Cell::new(0);
        let third_time = || asked.replace(asked.get() + 1) == 3;
        let mut stopped = Walk::new(&private, &third_time);
        let found = names(&mut stopped, &root).len();
        assert_eq!(stopped.walked, Walked::Stopped);
        assert!(found < CHECK_EVERY, "{found}");
    }
}
