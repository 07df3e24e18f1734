//! Writing the result of a merge into a working tree: everything is looked at before the first file is written, each file
//! is whole at every moment, and no path leads through a link.
//!
//! A file is known by its content: it is what it was, what it shall be, or somebody else's. So a write that was killed is
//! gone on with, and what a person wrote meanwhile is never overwritten. Knows nothing of tasks or of conflicts.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, ErrorKind},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::{
            ffi::{OsStrExt, OsStringExt},
            fs::{MetadataExt, PermissionsExt},
        },
    },
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{Access, AtFlags, CWD, FlockOperation, Mode, OFlags, access, flock, mkdirat, openat, renameat, symlinkat, unlinkat},
    io::Errno,
};

use super::{
    diff::{Changed, Entry},
    place::Place,
    removing::remove_tree,
    workshop::{Workshop, unique},
};
use crate::temporary::Temporary;

/// What a folder that gives way to a file may hold; nobody reads a longer list.
const FILES_IN_THE_WAY_MAX: usize = 10_000;

/// Links are made under such a name, with a process and a random number, and then renamed.
const LINK: &str = ".posse-link";
/// Of a random number in a name.
const HEX_LETTERS: usize = 16;

const IN_THE_WAY: &[Errno] = &[Errno::NOTEMPTY, Errno::EXIST, Errno::NOTDIR, Errno::ISDIR, Errno::LOOP];

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The change of one path.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) path: PathBuf,
    pub(super) old: Option<Entry>,
    pub(super) new: Option<Entry>,
}

/// What stands at a path, so that a change in the last moment is seen.
type Seen = Option<Stamp>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    names: u64,
}

#[derive(Debug)]
pub(super) enum ApplyError {
    /// These are not what they were: nothing was written.
    Stale(Vec<String>),
    /// Nothing was written, or it was taken back but for what is said here.
    Failed(String),
    /// Some were written and could not be taken back: it can still be gone on with.
    Half(String),
}

impl From<String> for ApplyError {
    fn from(words: String) -> Self {
        Self::Failed(words)
    }
}

/// The steps of a change, gone ones first so that a folder can become a file. An error for what must not be written.
pub(super) fn plan(changed: &[Changed]) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    for change in changed {
        let path = PathBuf::from(OsString::from_vec(change.path.clone()));
        let is_fine = |part: Component<'_>| matches!(part, Component::Normal(name) if !is_git(name));
        if path.as_os_str().is_empty() || !path.components().all(is_fine) || path.as_os_str().as_bytes().contains(&0) {
            return Err(format!("{:?} is not a path that may be written", change.shown()));
        }
        steps.push(Step { path, old: change.old.clone(), new: change.new.clone() });
    }
    steps.sort_by(|a, b| match (&a.new, &b.new) {
        (None, Some(_)) => std::cmp::Ordering::Less,
        (Some(_), None) => std::cmp::Ordering::Greater,
        (None, None) => b.path.cmp(&a.path),
        (Some(_), Some(_)) => a.path.cmp(&b.path),
    });
    Ok(steps)
}

/// The way back from a change.
pub(super) fn backwards(steps: &[Step]) -> Vec<Step> {
    let back = |step: &Step| Step { path: step.path.clone(), old: step.new.clone(), new: step.old.clone() };
    let mut steps: Vec<Step> = steps.iter().map(back).collect();
    steps.sort_by_key(|step| step.new.is_some());
    steps
}

/// As some file systems read it, too.
fn is_git(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_lowercase();
    let plain: String = name
        .chars()
        .filter(|letter| !matches!(letter, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}'))
        .collect();
    let plain = plain.trim_end_matches(['.', ' ']).split(':').next().unwrap_or_default();
    plain == ".git" || plain == "git~1"
}

/// A working tree that is about to be written, with the new contents ready beside it.
pub(super) struct Writing<'a> {
    workshop: &'a Workshop,
    place: &'a Place,
    steps: Vec<Step>,
    staged: Staged,
    root: OwnedFd,
    seen: Vec<Seen>,
}

impl<'a> Writing<'a> {
    /// Makes the new contents ready. Nothing in the working tree is touched.
    pub(super) fn prepare(workshop: &'a Workshop, place: &'a Place, steps: Vec<Step>) -> Result<Self, String> {
        let staged = Staged::fill(workshop, place, steps.iter().filter_map(|step| Some((step.path.as_path(), step.new.as_ref()?))))?;
        let root = openat(CWD, &place.top, FOLDER, Mode::empty()).map_err(|error| format!("{}: {error}", place.top.display()))?;
        Ok(Self { workshop, place, steps, staged, root, seen: Vec::new() })
    }

    /// Every path is what it was, can be written, and nothing is in the way of what comes.
    pub(super) fn check(&mut self) -> Result<(), ApplyError> {
        self.steps.iter().try_for_each(|step| self.can_be_written(&step.path))?;
        self.seen = self.steps.iter().map(|step| see(&self.place.top.join(&step.path))).collect();
        let mut stale = self.not_as(|step| step.old.as_ref())?;
        let leaving: BTreeSet<&Path> = self.steps.iter().filter(|step| step.new.is_none()).map(|step| step.path.as_path()).collect();
        for step in self.steps.iter().filter(|step| step.new.is_some()) {
            if self.is_in_the_way(&step.path, step.old.is_some(), &leaving) {
                stale.insert(step.path.clone());
            }
        }
        if stale.is_empty() {
            return Ok(());
        }
        Err(ApplyError::Stale(stale.iter().map(|path| path.to_string_lossy().into_owned()).collect()))
    }

    /// Writes all of it. What changed since it was looked at stops it, and so does a disk that is full; what was written is
    /// taken back then.
    pub(super) fn write(&self) -> Result<(), ApplyError> {
        for (number, step) in self.steps.iter().enumerate() {
            self.workshop.step();
            let path = step.path.to_string_lossy().into_owned();
            if !is_same(self.seen[number], see(&self.place.top.join(&step.path))) {
                let words = format!("{path} changed while the merge was written");
                return Err(self.stop(number, words, ApplyError::Stale(vec![path])));
            }
            if let Err(words) = self.write_one(step) {
                if step.old.is_none() {
                    self.remove_empty_above(&step.path);
                }
                return Err(self.stop(number, words.clone(), ApplyError::Failed(format!("{words}. Nothing was changed"))));
            }
        }
        self.workshop.step();
        Ok(())
    }

    /// `error` if everything that was written can be taken back.
    fn stop(&self, written: usize, words: String, error: ApplyError) -> ApplyError {
        match self.take_back(written) {
            Ok(left) if left.is_empty() => error,
            Ok(left) => {
                let left: Vec<String> = left.iter().map(|(path, _)| path.to_string_lossy().into_owned()).collect();
                ApplyError::Failed(format!(
                    "{words}. What the merge had written was taken back, but for {}: somebody changed that after it was written, so it has both; look at it",
                    left.join(", ")
                ))
            }
            Err(trouble) => ApplyError::Half(format!("{words}, and what was written could not be taken back: {trouble}")),
        }
    }

    /// Goes on where a killed write ended. Returns what is neither old nor new and so was left alone.
    pub(super) fn go_on(&self) -> Result<Vec<(PathBuf, String)>, String> {
        self.sweep();
        let (not_old, not_new) = (self.not_as(|step| step.old.as_ref())?, self.not_as(|step| step.new.as_ref())?);
        let mut left = Vec::new();
        for step in &self.steps {
            self.workshop.step();
            match (not_old.contains(&step.path), not_new.contains(&step.path)) {
                (_, false) => {}
                (false, true) => left.extend(self.write_or_leave(step)?.map(|why| (step.path.clone(), why))),
                (true, true) => left.push((step.path.clone(), "it was changed since".into())),
            }
        }
        Ok(left)
    }

    fn take_back(&self, written: usize) -> Result<Vec<(PathBuf, String)>, String> {
        Writing::prepare(self.workshop, self.place, backwards(&self.steps[..written]))?.go_on()
    }

    /// What a writer that was killed in the middle of a file has left beside it. Whoever writes links has the repository's
    /// lock, so their writers are gone; other files are locked while their writers live.
    fn sweep(&self) {
        let folders: BTreeSet<&Path> = self.steps.iter().filter_map(|step| step.path.parent()).collect();
        for folder in folders {
            let Ok(folder) = self.folder_of(&folder.join("any"), false) else { continue };
            for entry in rustix::fs::Dir::read_from(folder.as_fd()).into_iter().flatten().flatten() {
                let Ok(name) = entry.file_name().to_str() else { continue };
                if is_link_on_its_way(name) || (is_file_on_its_way(name) && is_abandoned(&folder, name)) {
                    let _ = unlinkat(&folder, name, AtFlags::empty());
                }
            }
        }
    }

    /// Folders that cannot be written are told before the first file is.
    fn can_be_written(&self, path: &Path) -> Result<(), ApplyError> {
        let folders = path.ancestors().skip(1).map(|above| self.place.top.join(above));
        let Some(folder) = folders.into_iter().find(|folder| folder.is_dir()) else { return Ok(()) };
        access(&folder, Access::WRITE_OK | Access::EXEC_OK)
            .map_err(|error| ApplyError::Failed(format!("{} cannot be written: {error}. Nothing was changed", folder.display())))
    }

    /// Paths at which something else stands than the entry says; no entry says that nothing stands there.
    fn not_as<'b>(&'b self, entry: impl Fn(&'b Step) -> Option<&'b Entry>) -> Result<BTreeSet<PathBuf>, String> {
        let expected: BTreeMap<&Path, &Entry> = self.steps.iter().filter_map(|step| Some((step.path.as_path(), entry(step)?))).collect();
        let mut wrong = differing(self.workshop, self.place, &expected)?;
        for step in self.steps.iter().filter(|step| entry(step).is_none()) {
            // Below a file or a link there is nothing of the tree's own.
            if see(&self.place.top.join(&step.path)).is_some() && !self.is_below_something_else(&step.path) {
                wrong.insert(step.path.clone());
            }
        }
        Ok(wrong)
    }

    fn is_below_something_else(&self, path: &Path) -> bool {
        let above = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
        above.map(|above| self.place.top.join(above)).any(|above| above.symlink_metadata().is_ok_and(|metadata| !metadata.is_dir()))
    }

    /// Whether something that does not go away by these steps stands where a file is to come.
    fn is_in_the_way(&self, path: &Path, is_there: bool, leaving: &BTreeSet<&Path>) -> bool {
        for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
            let is_folder = self.place.top.join(above).symlink_metadata().map(|metadata| metadata.is_dir());
            if is_folder.is_ok_and(|is_folder| !is_folder) && !leaving.contains(above) {
                return true;
            }
        }
        match self.place.top.join(path).symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => {
                let mut files = Vec::new();
                files_in(&self.place.top, path, &mut files);
                FILES_IN_THE_WAY_MAX <= files.len() || files.iter().any(|file| !leaving.contains(file.as_path()))
            }
            Ok(_) => !is_there && !self.is_below_something_else(path),
            Err(_) => false,
        }
    }

    fn write_one(&self, step: &Step) -> Result<(), String> {
        self.try_write(step).map_err(|error| self.trouble(step, &error))
    }

    /// What stands in the way does not go away by trying again.
    fn write_or_leave(&self, step: &Step) -> Result<Option<String>, String> {
        match self.try_write(step) {
            Ok(()) => Ok(None),
            Err(error) if IN_THE_WAY.contains(&error.raw_os_error().map(Errno::from_raw_os_error).unwrap_or(Errno::IO)) => {
                Ok(Some(format!("something is in its way ({error})")))
            }
            Err(error) => Err(self.trouble(step, &error)),
        }
    }

    fn try_write(&self, step: &Step) -> io::Result<()> {
        match &step.new {
            None => self.remove(&step.path),
            Some(entry) => self.put(&step.path, entry),
        }
    }

    fn trouble(&self, step: &Step, error: &io::Error) -> String {
        format!("{} cannot be written: {error}", self.place.top.join(&step.path).display())
    }

    fn put(&self, path: &Path, entry: &Entry) -> io::Result<()> {
        let (folder, name) = (self.folder_of(path, true)?, name_of(path)?);
        let staged = self.staged.folder.join(path);
        // Folders in which nothing is left give way.
        remove_empty_folders(&folder, name)?;
        if entry.mode == "120000" {
            let own = OsString::from(unique(LINK));
            symlinkat(fs::read_link(&staged)?.as_path(), &folder, &own)?;
            self.workshop.step();
            return renameat(&folder, &own, &folder, name).map_err(|error| {
                let _ = unlinkat(&folder, &own, AtFlags::empty());
                error.into()
            });
        }
        let old = openat(&folder, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).ok();
        let old = old.and_then(|handle| File::from(handle).metadata().ok()).filter(fs::Metadata::is_file);
        let mut temporary = Temporary::create(&folder, old.as_ref())?;
        let mut content = File::open(&staged)?;
        let mode = content.metadata()?.mode();
        io::copy(&mut content, &mut temporary.file)?;
        match &old {
            Some(old) => {
                temporary.take_after(old)?;
                let kept = old.mode() & 0o7777;
                let executable = if entry.mode == "100755" { kept | ((kept & 0o444) >> 2) } else { kept & !0o111 };
                if kept & 0o111 == 0 || entry.mode != "100755" {
                    temporary.file.set_permissions(fs::Permissions::from_mode(executable))?;
                }
            }
            None => temporary.file.set_permissions(fs::Permissions::from_mode(mode & 0o777))?,
        }
        temporary.file.sync_all()?;
        temporary.into_place(name)
    }

    /// With the folders that are empty then, as git does.
    fn remove(&self, path: &Path) -> io::Result<()> {
        let folder = match self.folder_of(path, false) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(()),
            folder => folder?,
        };
        match unlinkat(&folder, name_of(path)?, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        self.remove_empty_above(path);
        Ok(())
    }

    fn remove_empty_above(&self, path: &Path) {
        for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
            let (Ok(folder), Ok(name)) = (self.folder_of(above, false), name_of(above)) else { break };
            if unlinkat(&folder, name, AtFlags::REMOVEDIR).is_err() {
                break;
            }
        }
    }

    /// The folder of a path, from the root on, one name after the other and through no link.
    fn folder_of(&self, path: &Path, make: bool) -> io::Result<OwnedFd> {
        let mut folder = openat(&self.root, ".", FOLDER, Mode::empty())?;
        for part in path.parent().into_iter().flat_map(Path::components) {
            let Component::Normal(name) = part else { return Err(ErrorKind::InvalidInput.into()) };
            let next = match openat(&folder, name, FOLDER, Mode::empty()) {
                Err(Errno::NOENT) if make => {
                    match mkdirat(&folder, name, Mode::from_raw_mode(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                    openat(&folder, name, FOLDER, Mode::empty())
                }
                next => next,
            };
            folder = next?;
        }
        Ok(folder)
    }
}

fn name_of(path: &Path) -> io::Result<&OsStr> {
    path.file_name().ok_or_else(|| ErrorKind::InvalidInput.into())
}

/// A folder is nothing of its own: it is there while files are in it.
fn see(path: &Path) -> Seen {
    let found = path.symlink_metadata().ok().filter(|found| !found.is_dir())?;
    Some(Stamp {
        inode: found.ino(),
        size: found.size(),
        modified: (found.mtime(), found.mtime_nsec()),
        changed: (found.ctime(), found.ctime_nsec()),
        names: found.nlink(),
    })
}

fn is_same(before: Seen, now: Seen) -> bool {
    match (before, now) {
        // Another name of the same file may have been written, which is a change of this one only to the file system.
        (Some(before), Some(now)) if 1 < before.names => {
            (before.inode, before.size, before.modified) == (now.inode, now.size, now.modified)
        }
        (before, now) => before == now,
    }
}

fn is_hex(text: &str) -> bool {
    text.len() == HEX_LETTERS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_link_on_its_way(name: &str) -> bool {
    let parts = name.strip_prefix(LINK).and_then(|rest| rest.strip_prefix('-')).and_then(|rest| rest.split_once('-'));
    parts.is_some_and(|(process, number)| process.bytes().all(|byte| byte.is_ascii_digit()) && is_hex(number))
}

fn is_file_on_its_way(name: &str) -> bool {
    name.strip_prefix(".posse-").and_then(|rest| rest.strip_suffix(".tmp")).is_some_and(is_hex)
}

/// A file of our own with no other name, whose writer does not hold it any more.
fn is_abandoned(folder: &OwnedFd, name: &str) -> bool {
    let Ok(handle) = openat(folder, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).map(File::from) else {
        return false;
    };
    handle.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.nlink() == 1)
        && File::open(format!("/proc/self/fd/{}", handle.as_raw_fd()))
            .is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok())
}

fn files_in(top: &Path, folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(top.join(folder)).into_iter().flatten().flatten() {
        if FILES_IN_THE_WAY_MAX <= files.len() {
            return;
        }
        let path = folder.join(entry.file_name());
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files_in(top, &path, files),
            _ => files.push(path),
        }
    }
}

/// Fails where something is left in them.
fn remove_empty_folders(folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let inner = match openat(folder, name, FOLDER, Mode::empty()) {
        Ok(inner) => inner,
        Err(_) => return Ok(()),
    };
    for entry in rustix::fs::Dir::read_from(inner.as_fd())?.flatten() {
        let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
        if name != "." && name != ".." {
            remove_empty_folders(&inner, &name)?;
        }
    }
    unlinkat(folder, name, AtFlags::REMOVEDIR).map_err(io::Error::from)
}

/// Contents as they will be in the working tree, in a folder of ours: filters and line ends are git's business.
struct Staged {
    folder: PathBuf,
}

impl Staged {
    fn fill<'a>(workshop: &Workshop, place: &Place, entries: impl Iterator<Item = (&'a Path, &'a Entry)>) -> Result<Self, String> {
        let staged = Self { folder: workshop.scratch_folder().join(unique("staged")) };
        fs::create_dir(&staged.folder).map_err(|error| format!("{}: {error}", staged.folder.display()))?;
        let index = workshop.scratch();
        let git = place.git().with_index(&index.path);
        let input = index_lines(entries);
        if !input.is_empty() {
            git.tell(["update-index", "-z", "--index-info"], &input)?.success()?;
            let mut prefix = OsString::from("--prefix=");
            prefix.push(&staged.folder);
            prefix.push("/");
            git.ask([OsString::from("checkout-index"), "--all".into(), "--quiet".into(), prefix])?;
        }
        Ok(staged)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        let _ = remove_tree(&self.folder);
    }
}

fn index_lines<'a>(entries: impl Iterator<Item = (&'a Path, &'a Entry)>) -> Vec<u8> {
    let mut lines = Vec::new();
    for (path, entry) in entries {
        lines.extend(format!("{} {} 0\t", entry.mode, entry.object).into_bytes());
        lines.extend(path.as_os_str().as_bytes());
        lines.push(0);
    }
    lines
}

/// Which of these are not in the working tree as the entries say: git compares, with its filters.
fn differing(workshop: &Workshop, place: &Place, entries: &BTreeMap<&Path, &Entry>) -> Result<BTreeSet<PathBuf>, String> {
    if entries.is_empty() {
        return Ok(BTreeSet::new());
    }
    let index = workshop.scratch();
    let git = place.git().with_index(&index.path);
    let input = index_lines(entries.iter().map(|(path, entry)| (*path, *entry)));
    git.tell(["update-index", "-z", "--index-info"], &input)?.success()?;
    // Its status only says that something differs.
    git.run(["update-index", "-q", "--refresh"])?;
    let said = git.ask(["diff-files", "-z", "--name-only", "--no-ext-diff"])?;
    Ok(super::git::parts(&said).map(|path| PathBuf::from(OsString::from_vec(path.to_vec()))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worktree::diff::FileStatus;

    #[test]
    fn no_path_leads_out_or_into_git() {
        for (path, fits) in [
            ("a/b", true),
            (".gitignore", true),
            ("a/.github/x", true),
            (".git/config", false),
            ("a/.GIT/hooks/x", false),
            (".git./x", false),
            (".git::$INDEX_ALLOCATION/x", false),
            ("git~1/x", false),
            (".g\u{200c}it/x", false),
            ("../a", false),
            ("/a", false),
            ("a/../../b", false),
            ("", false),
        ] {
            let entry = Some(Entry { mode: "100644".into(), object: String::new() });
            let changed = Changed { path: path.into(), from: None, status: FileStatus::Added, old: None, new: entry };
            assert_eq!(plan(&[changed]).is_ok(), fits, "{path:?}");
        }
    }

    fn run(folder: &Path, arguments: &[&str]) -> String {
        let git = crate::worktree::git::Git::finding(folder).as_posse();
        git.ask_line(arguments).unwrap()
    }

    /// A working tree with three files, and the steps that change two, remove one and add one.
    struct Desk {
        _folder: tempfile::TempDir,
        workshop: Workshop,
        place: Place,
        steps: Vec<Step>,
    }

    impl Desk {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let base = folder.path().canonicalize().unwrap();
            let top = base.join("repo");
            fs::create_dir_all(&top).unwrap();
            run(&top, &["init", "-q"]);
            for name in ["a", "b", "gone"] {
                fs::write(top.join(name), format!("old {name}\n")).unwrap();
            }
            run(&top, &["add", "-A"]);
            run(&top, &["commit", "-qm", "old"]);
            let old = run(&top, &["rev-parse", "HEAD"]);
            fs::write(top.join("a"), "new a\n").unwrap();
            fs::write(top.join("b"), "new b\n").unwrap();
            fs::create_dir(top.join("new")).unwrap();
            fs::write(top.join("new/deep"), "").unwrap();
            fs::remove_file(top.join("gone")).unwrap();
            run(&top, &["add", "-A"]);
            run(&top, &["commit", "-qm", "new"]);
            let new = run(&top, &["rev-parse", "HEAD"]);
            run(&top, &["reset", "-q", "--hard", &old]);
            let workshop = Workshop::open(&base.join("trees")).unwrap();
            let place = Place { common: top.join(".git"), git_dir: top.join(".git"), top };
            let steps = plan(&crate::worktree::diff::changed(&place.git(), &old, &new).unwrap()).unwrap();
            assert_eq!(steps.len(), 4);
            Self { _folder: folder, workshop, place, steps }
        }

        fn checked(&self) -> Writing<'_> {
            let mut writing = Writing::prepare(&self.workshop, &self.place, self.steps.clone()).unwrap();
            assert!(writing.check().is_ok());
            writing
        }

        fn read(&self, name: &str) -> String {
            fs::read_to_string(self.place.top.join(name)).unwrap()
        }
    }

    /// A person saves a file while others are being written: theirs stays, and the others become what they were.
    #[test]
    fn a_change_in_the_last_moment_stops_everything_and_takes_back_what_was_written() {
        let desk = Desk::new();
        let writing = desk.checked();
        fs::write(desk.place.top.join("b"), "a person's\n").unwrap();
        let stopped = writing.write();
        assert!(matches!(stopped, Err(ApplyError::Stale(paths)) if paths == ["b"]));
        assert_eq!([desk.read("a"), desk.read("b"), desk.read("gone")], ["old a\n", "a person's\n", "old gone\n"]);
        assert!(!desk.place.top.join("new").exists());
        drop(writing);
        // Looked at again it is stale from the beginning.
        let mut writing = Writing::prepare(&desk.workshop, &desk.place, desk.steps.clone()).unwrap();
        assert!(matches!(writing.check(), Err(ApplyError::Stale(paths)) if paths == ["b"]));
        drop(writing);
        assert_eq!(fs::read_dir(desk.workshop.scratch_folder()).unwrap().count(), 0, "nothing is left of it");
    }

    /// The last file cannot be written: the others are what they were, and nobody has to go on with anything.
    #[test]
    fn a_write_that_fails_takes_back_what_was_written() {
        let desk = Desk::new();
        let writing = desk.checked();
        fs::create_dir_all(desk.place.top.join("new/deep")).unwrap();
        fs::write(desk.place.top.join("new/deep/inner"), "a person's\n").unwrap();
        let Err(ApplyError::Failed(words)) = writing.write() else { panic!("it was written") };
        assert!(words.contains("new/deep cannot be written") && words.ends_with("Nothing was changed"), "{words}");
        assert_eq!([desk.read("a"), desk.read("b"), desk.read("gone")], ["old a\n", "old b\n", "old gone\n"]);
        assert_eq!(desk.read("new/deep/inner"), "a person's\n");
        drop(writing);
        // What cannot be taken back, because what it was is gone, stays an intent.
        fs::remove_dir_all(desk.place.top.join("new")).unwrap();
        let writing = desk.checked();
        fs::create_dir_all(desk.place.top.join("new/deep")).unwrap();
        fs::write(desk.place.top.join("new/deep/inner"), "").unwrap();
        fs::remove_dir_all(desk.place.top.join(".git/objects")).unwrap();
        assert!(matches!(writing.write(), Err(ApplyError::Half(_))));
    }

    /// What a person changed after it was written cannot be taken back, and is named.
    #[test]
    fn what_cannot_be_taken_back_is_named() {
        let desk = Desk::new();
        let writing = desk.checked();
        assert!(writing.write().is_ok());
        fs::write(desk.place.top.join("a"), "new a\nand a person's\n").unwrap();
        let stopped = writing.stop(writing.steps.len(), "b changed".into(), ApplyError::Stale(vec!["b".into()]));
        let ApplyError::Failed(words) = stopped else { panic!("{stopped:?}") };
        assert!(words.contains("taken back, but for a:"), "{words}");
        assert_eq!([desk.read("a"), desk.read("b")], ["new a\nand a person's\n", "old b\n"]);
    }

    #[test]
    fn only_names_of_our_own_are_swept() {
        for (name, is_link, is_file) in [
            (".posse-link-12-0123456789abcdef", true, false),
            (".posse-link-12", false, false),
            (".posse-link-x-0123456789abcdef", false, false),
            (".posse-link-12-0123456789abcdeg", false, false),
            (".posse-0123456789abcdef.tmp", false, true),
            (".posse-theirs.tmp", false, false),
        ] {
            assert_eq!((is_link_on_its_way(name), is_file_on_its_way(name)), (is_link, is_file), "{name}");
        }
        assert!(is_link_on_its_way(&unique(LINK)), "what is made is swept");
    }
}
