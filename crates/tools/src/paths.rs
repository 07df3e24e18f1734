//! Paths as tools take them: resolved through every symlink, named relative to the root, and noticed when they lead out.
//!
//! The resolved path is what the rules judge and what `root.rs` opens, so a link inside the root that points outside is
//! outside, also when its target does not exist yet. What no tool opens (devices, pipes, links of `/proc`) is refused here.
//! Decides nothing else: `external_directory` and `protected` are touches like any other.

use std::{
    collections::VecDeque,
    ffi::OsStr,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

use posse_session::{Touch, Workspace};
use rustix::{
    fs::{CWD, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, openat2, statfs},
    io::Errno,
};

use crate::{
    files::kind_of,
    private::Private,
    protected::is_protected,
    root::{self, Found, Identity, Root, identity},
    text::{most_alike, visible},
};

/// The kernel gives up after as many.
const LINKS_MAX: usize = 40;

/// What the kernel takes of a path and of a name in it.
const PATH_BYTES_MAX: usize = 4_095;
const NAME_BYTES_MAX: usize = 255;

/// Suggestions for a name that does not exist; more would be a listing.
const NEAR_NAMES_MAX: usize = 3;

/// Enough names to find a typo in; a folder with more is not worth the time.
const NAMES_COMPARED_MAX: usize = 5_000;

/// A path of a call.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// Absolute and without links.
    pub(crate) real: PathBuf,
    /// For rules and people: relative to the root with `/`, `.` for the root itself, absolute when outside.
    pub(crate) name: String,
    /// The name as it was spelled, when links make it another one.
    spelled: Option<String>,
    /// There are links on the way.
    pub(crate) linked: bool,
    /// It was spelled with a slash at its end.
    is_folder_name: bool,
    /// It was a folder when it was resolved.
    pub(crate) is_folder: bool,
    inside: bool,
    readable: bool,
    /// In a folder whose files speak for the user.
    guarded: bool,
    /// The agent's own, which nobody is asked about.
    own: bool,
    root: Root,
}

impl Place {
    /// What the model wrote, relative to the workspace's folder. An error is for the model.
    pub(crate) fn of(workspace: &dyn Workspace, text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("The path is empty; name a file or a folder.".into());
        }
        Self::at(workspace, &absolute(workspace.cwd(), text))
    }

    pub(crate) fn at(workspace: &dyn Workspace, path: &Path) -> Result<Self, String> {
        let tidied = tidy(path);
        let spelled = name_in(workspace.root(), &tidied);
        let root = Root::of(workspace).map_err(|error| format!("The project's folder cannot be opened: {error}."))?;
        root.still_there().map_err(|error| format!("{spelled}: {error}."))?;
        let real = real(path).map_err(|error| format!("{spelled}: {}", words(&error)))?;
        let name = name_in(workspace.root(), &real);
        if Private::of(workspace).covers(&real) {
            return Err(format!("{name} is in posse's own data folder, which no tool opens."));
        }
        let inside = real.starts_with(workspace.root());
        let own = workspace.own_roots().iter().any(|root| real.starts_with(root));
        let readable = inside || own || workspace.readable_roots().iter().any(|root| real.starts_with(root));
        let (linked, spelled) = (tidied != real, Some(spelled).filter(|spelled| *spelled != name));
        let is_folder_name = is_folder_name(path);
        let guarded = workspace.is_guarded(&real);
        let mut place = Self { real, name, spelled, linked, is_folder_name, is_folder: false, inside, readable, guarded, own, root };
        place.is_folder = place.kind()? == "directory";
        Ok(place)
    }

    /// Reading this: the key with the name, and the folder if it is one nobody opened for reading.
    pub(crate) fn read_touches(&self, key: &str) -> Vec<Touch> {
        self.touches(key, self.readable)
    }

    /// Writing this: the same, and a touch of its own when the file would raise the agent's rights.
    pub(crate) fn write_touches(&self, key: &str) -> Vec<Touch> {
        let mut touches = self.touches(key, self.inside || self.own);
        if self.own {
            return touches;
        }
        touches.extend(self.protected().into_iter().map(|name| Touch::new("protected", name)));
        touches
    }

    /// Writing this by a tool whose answer shows parts of it: where reading is a question of its own, that is asked too.
    pub(crate) fn edit_touches(&self) -> Vec<Touch> {
        let mut touches = self.write_touches("edit");
        if self.names().any(is_secret) {
            touches.extend(self.names().map(|name| Touch::new("read", name)));
        }
        touches
    }

    /// Only the folder, when it is outside: for tools whose pattern is not a path.
    pub(crate) fn read_outside(&self) -> Option<Touch> {
        (!self.readable).then(|| self.outside())
    }

    pub(crate) fn write_outside(&self) -> Option<Touch> {
        (!self.inside && !self.own).then(|| self.outside())
    }

    pub(crate) fn is_inside(&self) -> bool {
        self.inside
    }

    /// What stands there now, found from the project's root and without a link on the way; not opened.
    pub(crate) fn find(&self) -> io::Result<Found> {
        let found = root::find(Some(&self.root), &self.real)?;
        // The path was resolved, so it did not end with a link then.
        if found.metadata.is_symlink() { Err(root::changed()) } else { Ok(found) }
    }

    /// What stands there now; nothing when it is absent.
    pub(crate) fn identity(&self) -> Option<Identity> {
        self.find().ok().map(|found| identity(&found.metadata))
    }

    /// Whether a file may be made or replaced under this name. An error is for the model.
    pub(crate) fn writable(&self) -> Result<(), String> {
        if self.is_folder_name {
            return Err(format!("{}/ names a folder; name a file in it.", self.name.trim_end_matches('/')));
        }
        // What is outside is not looked into before it is allowed.
        if self.inside && self.is_folder {
            return Err(format!("{} is a directory; name a file in it.", self.name));
        }
        let hidden = |name: &&OsStr| name.to_string_lossy().chars().any(is_hidden);
        match self.missing().filter_map(Path::file_name).find(hidden) {
            Some(name) => Err(format!(
                "The new name {} has a character that is not seen or turns the direction of the text. Use a name that shows what it is.",
                marked(&name.to_string_lossy())
            )),
            None => Ok(()),
        }
    }

    /// The names by which this is protected. A folder that has to be made counts: to make `.git` is to make what is in it.
    pub(crate) fn protected(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.names().filter(|name| self.guarded || is_protected(name)).collect();
        let made = |path: &Path| is_protected(&name_in(self.root.path(), path));
        if names.is_empty() && self.inside && self.missing().skip(1).any(made) {
            names.push(&self.name);
        }
        names
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.name).chain(&self.spelled).map(String::as_str)
    }

    /// The path itself and the folders above it, as far as they do not exist.
    fn missing(&self) -> impl Iterator<Item = &Path> {
        let is_missing = |path: &&Path| root::find(Some(&self.root), path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        self.real.ancestors().take_while(is_missing)
    }

    fn touches(&self, key: &str, known: bool) -> Vec<Touch> {
        // A rule may name the link or what it points to; the stricter one counts.
        let mut touches: Vec<Touch> = self.names().map(|name| Touch::new(key, name)).collect();
        if !known {
            touches.push(self.outside());
        }
        touches
    }

    fn outside(&self) -> Touch {
        let folder = if self.is_folder { &self.real } else { self.real.parent().unwrap_or(&self.real) };
        Touch::new("external_directory", format!("{}/*", folder.display().to_string().trim_end_matches('/')))
    }

    /// What stands there, if it is something to open. Pipes and devices block or never end; a name in `/dev` is one of
    /// them by the time it exists. What cannot be known is told by whoever opens it.
    fn kind(&self) -> Result<&'static str, String> {
        let kind = match self.find() {
            Ok(found) => kind_of(&found.metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound && is_device_name(&self.real) => "device",
            Err(error) if error.kind() == io::ErrorKind::Other => return Err(format!("{}: {error}.", self.name)),
            Err(_) => "unknown",
        };
        match kind {
            "file" | "directory" | "unknown" => Ok(kind),
            kind => Err(format!("{}: this is a {kind}, not a file; it cannot be read as text", self.name)),
        }
    }
}

/// Files that the built-in rules ask about before they are read, by their name.
pub(crate) fn is_secret(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or_default().to_lowercase();
    (name.ends_with(".env") || name.contains(".env.")) && !name.ends_with(".env.example")
}

fn is_device_name(path: &Path) -> bool {
    path.starts_with("/dev") && !["/dev/shm", "/dev/mqueue"].iter().any(|folder| path.starts_with(folder))
}

/// Letters that make a name look like another one. Joiners stay: emoji and some languages need them.
fn is_hidden(letter: char) -> bool {
    let marks =
        matches!(letter, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{2061}'..='\u{2064}');
    letter.is_control() || marks || visible(letter.encode_utf8(&mut [0; 4])).starts_with("<U+")
}

fn marked(name: &str) -> String {
    name.chars().map(|letter| if is_hidden(letter) { format!("<U+{:04X}>", u32::from(letter)) } else { letter.to_string() }).collect()
}

pub(crate) fn absolute(cwd: &Path, text: &str) -> PathBuf {
    let in_home = if text == "~" { Some("") } else { text.strip_prefix("~/") };
    match (in_home, std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => cwd.join(text),
    }
}

/// Follows every link of an absolute path, also those that lead nowhere; what does not exist is kept as it is spelled.
/// An error where the kernel has one: too many links, a file in the middle, a name that is too long. What lies behind
/// such a path is not known to be inside.
pub(crate) fn real(path: &Path) -> io::Result<PathBuf> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.contains(&0) {
        return Err(io::Error::other("a path cannot contain a NUL character"));
    }
    if PATH_BYTES_MAX < bytes.len() {
        return Err(Errno::NAMETOOLONG.into());
    }
    let mut rest: VecDeque<PathBuf> = path.components().map(|part| PathBuf::from(part.as_os_str())).collect();
    let mut done = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = rest.pop_front() {
        match part.components().next() {
            Some(Component::RootDir) => done = PathBuf::from("/"),
            Some(Component::ParentDir) => {
                folder_or_nothing(&done)?;
                done.pop();
            }
            Some(Component::Normal(name)) => {
                if NAME_BYTES_MAX < name.len() {
                    return Err(Errno::NAMETOOLONG.into());
                }
                done.push(name);
                let Some(target) = link_at(&done)? else { continue };
                links += 1;
                if LINKS_MAX < links {
                    return Err(Errno::LOOP.into());
                }
                done.pop();
                for part in target.components().rev() {
                    rest.push_front(PathBuf::from(part.as_os_str()));
                }
            }
            _ => {}
        }
    }
    if is_folder_name(path) {
        folder_or_nothing(&done)?;
    }
    Ok(done)
}

/// Where the link at a path points, if it is one.
fn link_at(path: &Path) -> io::Result<Option<PathBuf>> {
    let is_in_proc = || statfs(path.parent().unwrap_or(path)).is_ok_and(|about| about.f_type == PROC_SUPER_MAGIC);
    match fs::read_link(path) {
        Ok(_) if is_in_proc() && is_magic(path) => Err(magic()),
        Ok(target) => Ok(Some(target)),
        // A link that cannot be read is another process's; that it is one is all there is to know.
        Err(_) if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink()) && is_in_proc() => Err(magic()),
        // Descriptors come and go; the next one of that number may be anything.
        Err(_) if path.parent().is_some_and(|folder| folder.ends_with("fd") || folder.ends_with("map_files")) && is_in_proc() => {
            Err(magic())
        }
        Err(error) => match error.kind() {
            io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename => Err(error),
            _ if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => Err(error),
            // It is no link, it does not exist, or nobody here may know; opening it will tell.
            _ => Ok(None),
        },
    }
}

/// Whether the kernel jumps there instead of reading a path: `/proc/self/root`, `/proc/self/fd/3`.
fn is_magic(link: &Path) -> bool {
    match openat2(CWD, link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_MAGICLINKS) {
        Err(Errno::LOOP) => true,
        // Without the kernel's word: these are ordinary.
        Err(Errno::NOSYS | Errno::PERM) => !["self", "thread-self", "mounts", "net"].iter().any(|name| link.ends_with(name)),
        _ => false,
    }
}

fn magic() -> io::Error {
    io::Error::other(
        "this leads through a link of /proc that is no path (an open file, a working folder, a root); no tool follows it. Name the file itself",
    )
}

fn folder_or_nothing(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.is_dir() => Err(Errno::NOTDIR.into()),
        _ => Ok(()),
    }
}

fn is_folder_name(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    [&b"/"[..], b"/.", b"/.."].iter().any(|end| bytes.ends_with(end))
}

fn words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotADirectory => "a file stands in this path where a folder must be.".into(),
        io::ErrorKind::InvalidFilename => "the path or a name in it is too long.".into(),
        _ => error.to_string(),
    }
}

/// Without `.` and `..`, by spelling only.
pub(crate) fn tidy(path: &Path) -> PathBuf {
    let mut done = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(done.pop()),
            Component::CurDir => {}
            other => done.push(other),
        }
    }
    done
}

pub(crate) fn name_in(root: &Path, path: &Path) -> String {
    match path.strip_prefix(root) {
        Ok(rest) if rest.as_os_str().is_empty() => ".".to_owned(),
        Ok(rest) => rest.to_string_lossy().into_owned(),
        Err(_) => path.to_string_lossy().into_owned(),
    }
}

/// Words for a path that could not be used; for a missing one with similar names beside it.
pub(crate) fn trouble(place: &Place, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => {
            let near = near_names(&place.real, Some(&place.root));
            let hint = if near.is_empty() { String::new() } else { format!(" Did you mean {}?", near.join(" or ")) };
            format!("{} does not exist.{hint}", place.name)
        }
        io::ErrorKind::PermissionDenied => format!("{} cannot be opened: the system refuses permission.", place.name),
        _ => format!("{}: {error}", place.name),
    }
}

fn near_names(path: &Path, root: Option<&Root>) -> Vec<String> {
    let (Some(folder), Some(wanted)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else { return Vec::new() };
    let Ok(entries) = root::find(root, folder).and_then(|folder| folder.entries()) else { return Vec::new() };
    let names: Vec<String> = entries.flatten().take(NAMES_COMPARED_MAX).filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let folded: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
    let wanted = wanted.to_lowercase();
    let candidates: Vec<&str> = folded.iter().map(String::as_str).collect();
    if let Some(other_case) = folded.iter().position(|name| *name == wanted) {
        return vec![names[other_case].clone()];
    }
    let mut close = most_alike(&wanted, &candidates, NEAR_NAMES_MAX, 0.6);
    close.extend(
        candidates.iter().filter(|name| 3 <= wanted.len() && (name.contains(&wanted) || wanted.contains(**name) && 3 <= name.len())),
    );
    let mut found: Vec<String> = Vec::new();
    for name in close {
        for (original, _) in names.iter().zip(&folded).filter(|(_, folded)| folded.as_str() == name) {
            if !found.contains(original) && found.len() < NEAR_NAMES_MAX {
                found.push(original.clone());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_followed_even_to_what_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir(root.join("sub")).unwrap();
        symlink("/nowhere/at/all", root.join("dangling")).unwrap();
        symlink("sub", root.join("link")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        assert_eq!(real(&root.join("link/../new.txt")).unwrap(), root.join("new.txt"));
        assert_eq!(real(&root.join("link/new.txt")).unwrap(), root.join("sub/new.txt"));
        assert_eq!(real(&root.join("dangling/x")).unwrap(), Path::new("/nowhere/at/all/x"));
        assert_eq!(real(Path::new("/../../etc/./passwd")).unwrap(), Path::new("/etc/passwd"));
    }

    #[test]
    fn the_kernels_own_links_are_not_followed() {
        // Readable or not, there or not; and what is an ordinary link in the same place.
        for path in ["/proc/self/root", "/proc/self/cwd/x", "/proc/1/exe", "/proc/self/fd/9999", "/dev/fd/0"] {
            assert!(real(Path::new(path)).unwrap_err().to_string().contains("no tool follows it"), "{path}");
        }
        let own = PathBuf::from(format!("/proc/{}", std::process::id()));
        assert_eq!(real(Path::new("/proc/self/status")).unwrap(), own.join("status"));
        assert_eq!(real(Path::new("/proc/mounts")).unwrap(), own.join("mounts"));
    }

    #[test]
    fn too_many_links_are_an_error_and_not_a_path() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        symlink("/etc/passwd", root.join("link-1")).unwrap();
        for n in 2..=41 {
            symlink(format!("link-{}", n - 1), root.join(format!("link-{n}"))).unwrap();
        }
        symlink("loop", root.join("loop")).unwrap();
        assert_eq!(real(&root.join("link-40")).unwrap(), Path::new("/etc/passwd"));
        for name in ["link-41", "loop"] {
            assert_eq!(real(&root.join(name)).unwrap_err().raw_os_error(), Some(Errno::LOOP.raw_os_error()), "{name}");
        }
    }

    #[test]
    fn a_typo_is_met_with_the_names_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["README.md", "Cargo.toml", "config.rs"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(near_names(&folder.path().join("readme.md"), None), ["README.md"]);
        assert_eq!(near_names(&folder.path().join("confg.rs"), None), ["config.rs"]);
        assert_eq!(near_names(&folder.path().join("zzz"), None), Vec::<String>::new());
    }
}
