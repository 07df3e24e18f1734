//! Places: a working tree, its git folder, and the folder that all worktrees of the repository share.
//!
//! A person's own folder is found as git finds it. A worktree of ours is found by its record and by what the repository
//! itself says of it, never by the `.git` file in it: who works there can write one.

use std::{
    ffi::OsStr,
    fs,
    io::ErrorKind,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

use posse_session::Worktree;

use super::{
    git::{Git, parts},
    locks::Lock,
    workshop::{Record, Submodule, Workshop},
};

/// What an agent may set: which files are there, who makes commits, and how git goes about what it is told. None of them
/// names a program or hides work. What follows which branch is harmless, too.
const SETTINGS_ALLOWED: &[&str] = &[
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "index.sparse",
    "user.name",
    "user.email",
    "user.useconfigonly",
    "author.name",
    "author.email",
    "committer.name",
    "committer.email",
    "pull.rebase",
    "pull.ff",
    "merge.ff",
    "push.default",
    "push.autosetupremote",
    "fetch.prune",
    "rebase.autosquash",
    "rebase.autostash",
    "commit.verbose",
    "gc.auto",
];
/// And everything that begins so: what git says, and in which colour.
const SETTINGS_ALLOWED_BELOW: &[&str] = &["branch.", "advice.", "color."];

#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) common: PathBuf,
    pub(super) git_dir: PathBuf,
    pub(super) top: PathBuf,
}

/// Where a caller works.
pub(super) struct Caller {
    pub(super) place: Place,
    /// From the top.
    pub(super) below: PathBuf,
    pub(super) head: String,
}

impl Place {
    pub(super) fn git<'a>(&self) -> Git<'a> {
        Git::in_tree(&self.git_dir, &self.top)
    }

    pub(super) fn repository<'a>(&self) -> Git<'a> {
        Git::in_repository(&self.common)
    }

    pub(super) fn lock(&self) -> Result<Lock, String> {
        lock_of(&self.common)
    }

    /// A repository of which no working tree is needed.
    pub(super) fn without_files(common: &Path) -> Self {
        Self { common: common.to_owned(), git_dir: common.to_owned(), top: common.to_owned() }
    }

    pub(super) fn has_files(&self) -> bool {
        self.top != self.common
    }

    /// How the repository calls this working tree, wherever it lies.
    pub(super) fn name(&self) -> String {
        match self.git_dir.strip_prefix(&self.common) {
            Ok(below) if !below.as_os_str().is_empty() => below.to_string_lossy().into_owned(),
            _ => "main".into(),
        }
    }
}

pub(super) fn lock_of(common: &Path) -> Result<Lock, String> {
    Lock::take(&common.join("posse.lock"))
}

/// Where somebody who works in `from` is. An error in words when that is no working tree with a commit.
pub(super) fn caller(workshop: &Workshop, from: &Path) -> Result<Caller, String> {
    let from = from.canonicalize().map_err(|error| format!("{}: {error}", from.display()))?;
    let place = place_of(workshop, &from)?;
    let below = from.strip_prefix(&place.top).map(Path::to_owned).unwrap_or_default();
    let head = place.git().run(["rev-parse", "--quiet", "--verify", "HEAD^{commit}"])?;
    match head.code {
        0 => Ok(Caller { below, head: text(head.output)?, place }),
        _ => Err(format!("the repository in {} needs a first commit: a worktree begins with one", place.top.display())),
    }
}

/// The working tree in which a folder lies. The folder's path has no links in it.
pub(super) fn place_of(workshop: &Workshop, folder: &Path) -> Result<Place, String> {
    let Some(slug) = workshop.slug_at(folder) else { return found_by_git(folder) };
    let record =
        workshop.record(&slug)?.ok_or_else(|| format!("{} lies among the worktrees, but nothing is recorded of it", folder.display()))?;
    let place = place_of_record(&record, &slug)?;
    // A repository inside of a worktree: ours if it is one of its submodules, which are kept in its git folder.
    let nearest = folder.ancestors().take_while(|above| *above != place.top).find(|above| above.join(".git").symlink_metadata().is_ok());
    match nearest {
        None => Ok(place),
        Some(inner) => {
            let known = record.submodules.iter().find(|submodule| place.top.join(&submodule.path) == inner);
            let submodule = known.ok_or_else(|| format!("{} is a repository that a task made inside of its worktree", inner.display()))?;
            let git_dir = check_submodule(submodule)?;
            Ok(Place { common: git_dir.clone(), git_dir, top: inner.to_owned() })
        }
    }
}

/// Where the work of a task comes home to. If that folder is gone, it is where the work of that folder would have come, and
/// the second is what to say of it.
pub(super) fn nearest_home(workshop: &Workshop, tree: &Worktree, record: Option<&Record>) -> Result<(Place, Option<String>), String> {
    let is_gone = |home: &str| Path::new(home).symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound);
    let above = record.map(|record| record.above.as_slice()).unwrap_or_default();
    match above.iter().find(|above| !is_gone(above)) {
        Some(above) if is_gone(&tree.home) => {
            let note = format!("{}, where the work was to come home to, is gone: it came home to {above}", tree.home);
            Ok((home_of(workshop, above)?, Some(note)))
        }
        _ => Ok((home_of(workshop, &tree.home)?, None)),
    }
}

/// The working tree to which work comes home.
pub(super) fn home_of(workshop: &Workshop, home: &str) -> Result<Place, String> {
    let folder = Path::new(home).canonicalize().map_err(|error| format!("{home}, where the work comes home to: {error}"))?;
    let place = place_of(workshop, &folder)?;
    if place.top != folder {
        return Err(format!("{home} is no longer the top of a working tree: git says {}", place.top.display()));
    }
    Ok(place)
}

fn found_by_git(folder: &Path) -> Result<Place, String> {
    let git = Git::finding(folder);
    let whole = git.run([
        "rev-parse",
        "--is-bare-repository",
        "--is-inside-git-dir",
        "--path-format=absolute",
        "--git-dir",
        "--git-common-dir",
        "--show-toplevel",
    ])?;
    let said = String::from_utf8_lossy(&whole.output).into_owned();
    let lines: Vec<&str> = said.lines().collect();
    match (whole.code, lines.as_slice()) {
        (0, [_, _, git_dir, common, top]) => place(git_dir, common, top),
        // A name with a line break in it: one answer at a time.
        (0, _) => {
            let one = |what: &str| git.ask(["rev-parse", "--path-format=absolute", what]).and_then(text);
            place(&one("--git-dir")?, &one("--git-common-dir")?, &one("--show-toplevel")?)
        }
        (_, ["true", ..]) => {
            Err(format!("{} is in a bare repository, which has no files to work on: start from a working tree of it", folder.display()))
        }
        (_, [_, "true", ..]) => Err(format!("{} is inside of a repository's git folder: start from its working tree", folder.display())),
        _ if whole.complaint().contains("not a git repository") => {
            Err(format!("{} is in no git repository, and a worktree needs one: `git init`, and a first commit", folder.display()))
        }
        _ => Err(whole.words()),
    }
}

fn place(git_dir: &str, common: &str, top: &str) -> Result<Place, String> {
    let real = |path: &str| Path::new(path).canonicalize().map_err(|error| format!("{path}: {error}"));
    Ok(Place { common: real(common)?, git_dir: real(git_dir)?, top: real(top)? })
}

/// Checked against the repository: the record alone does not make a folder a worktree.
pub(super) fn place_of_record(record: &Record, slug: &str) -> Result<Place, String> {
    let common = PathBuf::from(&record.common);
    place_of_tree(&record.tree, slug, &common, &record.settings)
}

pub(super) fn place_of_tree(tree: &Worktree, slug: &str, common: &Path, settings: &[String]) -> Result<Place, String> {
    let top = PathBuf::from(&tree.path);
    match top.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => return Err(format!("{} is not a folder any more", tree.path)),
        Err(error) => return Err(format!("{}: {error}", tree.path)),
    }
    let git_dir =
        admin_of(common, &top, slug).ok_or_else(|| format!("{} is not a worktree of {} any more", tree.path, common.display()))?;
    check_settings(&git_dir.join("config.worktree"), settings)?;
    Ok(Place { common: common.to_owned(), git_dir, top })
}

/// The folder in which the repository keeps what belongs to one worktree alone.
pub(super) fn admin_of(common: &Path, top: &Path, slug: &str) -> Option<PathBuf> {
    let all = common.join("worktrees");
    let named = all.join(slug);
    if leads_to(&named, common, top) {
        return Some(named);
    }
    let entries = fs::read_dir(&all).ok()?;
    entries.flatten().map(|entry| entry.path()).find(|admin| leads_to(admin, common, top))
}

fn leads_to(admin: &Path, common: &Path, top: &Path) -> bool {
    let is_folder = admin.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    let leads = |name: &str, to: &Path| {
        let Ok(text) = fs::read(admin.join(name)) else { return false };
        let text = text.strip_suffix(b"\n").unwrap_or(&text);
        // Absolute, or from this folder on.
        plain(&admin.join(OsStr::from_bytes(text))) == to
    };
    is_folder && leads("gitdir", &top.join(".git")) && leads("commondir", common)
}

/// The top of the working tree that an administrative folder belongs to.
pub(super) fn top_of_admin(admin: &Path) -> Option<PathBuf> {
    let text = fs::read(admin.join("gitdir")).ok()?;
    let text = text.strip_suffix(b"\n").unwrap_or(&text);
    plain(&admin.join(OsStr::from_bytes(text))).parent().map(Path::to_owned)
}

/// Without `..`. Nothing is looked up, because what is meant may be gone.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// A hash of each setting that git gave this worktree alone.
pub(super) fn settings_of(git_dir: &Path) -> Result<Vec<String>, String> {
    settings_in(&git_dir.join("config.worktree"))
}

/// A hash of each setting in a file. They may be secret, so they are not kept themselves.
pub(super) fn settings_in(file: &Path) -> Result<Vec<String>, String> {
    Ok(read_settings(file)?.iter().map(|setting| hash(setting)).collect())
}

fn hash(setting: &[u8]) -> String {
    blake3::hash(setting).to_hex().to_string()
}

fn read_settings(file: &Path) -> Result<Vec<Vec<u8>>, String> {
    if file.symlink_metadata().is_err() {
        return Ok(Vec::new());
    }
    let arguments = [OsStr::new("config"), OsStr::new("--file"), file.as_os_str(), OsStr::new("--no-includes")];
    let said = Git::finding(Path::new("/")).ask(arguments.into_iter().chain([OsStr::new("--list"), OsStr::new("-z")]))?;
    Ok(parts(&said).map(<[u8]>::to_vec).collect())
}

/// Settings can name programs that git runs. What was not there at the beginning was set by who worked in the worktree.
fn check_settings(file: &Path, at_first: &[String]) -> Result<(), String> {
    for setting in read_settings(file)? {
        let name = String::from_utf8_lossy(setting.split(|byte| *byte == b'\n').next().unwrap_or_default()).into_owned();
        let is_harmless = SETTINGS_ALLOWED.contains(&name.as_str()) || SETTINGS_ALLOWED_BELOW.iter().any(|start| name.starts_with(start));
        if !is_harmless && !at_first.contains(&hash(&setting)) {
            return Err(format!(
                "somebody set `{name}` in {}; settings like that can start programs or hide work, so git is not run there: remove the line if it is not yours",
                file.display()
            ));
        }
    }
    Ok(())
}

/// The git folder of a submodule, if git reads no other settings there than those it began with.
pub(super) fn check_submodule(submodule: &Submodule) -> Result<PathBuf, String> {
    let git_dir = PathBuf::from(&submodule.git_dir);
    if let Some(name) = ["commondir", "config.worktree"].into_iter().find(|name| git_dir.join(name).symlink_metadata().is_ok()) {
        return Err(format!(
            "somebody made {}, which leads git to other settings, so git is not run there: remove it if it is not yours",
            git_dir.join(name).display()
        ));
    }
    check_settings(&git_dir.join("config"), &submodule.settings)?;
    Ok(git_dir)
}

/// One line of git's, as text. A path that is none cannot be recorded.
pub(super) fn text(output: Vec<u8>) -> Result<String, String> {
    let mut text = String::from_utf8(output).map_err(|error| {
        format!("{:?} is not valid UTF-8, so no worktree can be recorded for it", String::from_utf8_lossy(error.as_bytes()))
    })?;
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text)
}

pub(super) fn as_text(path: &Path) -> Result<String, String> {
    path.to_str().map(str::to_owned).ok_or_else(|| format!("{:?} is not valid UTF-8, so no worktree can be recorded for it", path))
}
