//! Paths as tools take them: resolved through every symlink, named relative to the root, and noticed when they lead out.
//!
//! The resolved path is what the rules judge and what the tool opens, so a link inside the root that points outside is
//! outside, also when its target does not exist yet. Decides nothing: `external_directory` is a touch like any other.

use std::{
    collections::VecDeque,
    fs, io,
    path::{Component, Path, PathBuf},
};

use posse_session::{Touch, Workspace};
use rustix::io::Errno;

use crate::{private::Private, text::most_alike};

/// The kernel gives up after as many.
const LINKS_MAX: usize = 40;

/// Suggestions for a name that does not exist; more would be a listing.
const NEAR_NAMES_MAX: usize = 3;

/// Enough names to find a typo in; a folder with more is not worth the time.
const NAMES_COMPARED_MAX: usize = 5_000;

/// A path of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Absolute and without links.
    pub(crate) real: PathBuf,
    /// For rules and people: relative to the root with `/`, `.` for the root itself, absolute when outside.
    pub(crate) name: String,
    /// The name as it was spelled, when links make it another one.
    spelled: Option<String>,
    /// There are links on the way.
    pub(crate) linked: bool,
    inside: bool,
    readable: bool,
}

impl Place {
    /// What the model wrote, relative to the workspace's folder. An error is for the model.
    pub(crate) fn of(workspace: &dyn Workspace, text: &str) -> Result<Self, String> {
        Self::at(workspace, &absolute(workspace.cwd(), text))
    }

    pub(crate) fn at(workspace: &dyn Workspace, path: &Path) -> Result<Self, String> {
        let tidied = tidy(path);
        let spelled = name_in(workspace.root(), &tidied);
        let real = real(path).map_err(|error| format!("{spelled}: {error}"))?;
        let name = name_in(workspace.root(), &real);
        if Private::of(workspace).covers(&real) {
            return Err(format!("{name} is in posse's own data folder, which no tool opens."));
        }
        let inside = real.starts_with(workspace.root());
        let readable = inside || workspace.readable_roots().iter().any(|root| real.starts_with(root));
        Ok(Self { linked: tidied != real, spelled: Some(spelled).filter(|spelled| *spelled != name), real, name, inside, readable })
    }

    /// Reading this: the key with the name, and the folder if it is one nobody opened for reading.
    pub(crate) fn read_touches(&self, key: &str) -> Vec<Touch> {
        self.touches(key, self.readable)
    }

    pub(crate) fn write_touches(&self, key: &str) -> Vec<Touch> {
        self.touches(key, self.inside)
    }

    /// Only the folder, when it is outside: for tools whose pattern is not a path.
    pub(crate) fn read_outside(&self) -> Option<Touch> {
        (!self.readable).then(|| self.outside())
    }

    pub(crate) fn write_outside(&self) -> Option<Touch> {
        (!self.inside).then(|| self.outside())
    }

    fn touches(&self, key: &str, known: bool) -> Vec<Touch> {
        // A rule may name the link or what it points to; the stricter one counts.
        let mut touches: Vec<Touch> = std::iter::once(&self.name).chain(&self.spelled).map(|name| Touch::new(key, name)).collect();
        if !known {
            touches.push(self.outside());
        }
        touches
    }

    fn outside(&self) -> Touch {
        let folder = if self.real.is_dir() { &self.real } else { self.real.parent().unwrap_or(&self.real) };
        Touch::new("external_directory", format!("{}/*", folder.display().to_string().trim_end_matches('/')))
    }
}

pub(crate) fn absolute(cwd: &Path, text: &str) -> PathBuf {
    match (text.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => cwd.join(text),
    }
}

/// Follows every link of an absolute path, also those that lead nowhere; what does not exist is kept as it is spelled.
/// Too many links are an error, as they are for the kernel: what lies behind them is not known to be inside.
pub(crate) fn real(path: &Path) -> io::Result<PathBuf> {
    let mut rest: VecDeque<PathBuf> = path.components().map(|part| PathBuf::from(part.as_os_str())).collect();
    let mut done = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = rest.pop_front() {
        match part.components().next() {
            Some(Component::RootDir) => done = PathBuf::from("/"),
            Some(Component::ParentDir) => drop(done.pop()),
            Some(Component::Normal(name)) => {
                done.push(name);
                if let Ok(target) = fs::read_link(&done) {
                    links += 1;
                    if LINKS_MAX < links {
                        return Err(Errno::LOOP.into());
                    }
                    done.pop();
                    for part in target.components().rev() {
                        rest.push_front(PathBuf::from(part.as_os_str()));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(done)
}

/// Without `.` and `..`, by spelling only.
fn tidy(path: &Path) -> PathBuf {
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
            let near = near_names(&place.real);
            let hint = if near.is_empty() { String::new() } else { format!(" Did you mean {}?", near.join(" or ")) };
            format!("{} does not exist.{hint}", place.name)
        }
        io::ErrorKind::PermissionDenied => format!("{} cannot be opened: the system refuses permission.", place.name),
        _ => format!("{}: {error}", place.name),
    }
}

fn near_names(path: &Path) -> Vec<String> {
    let (Some(folder), Some(wanted)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else { return Vec::new() };
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
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
        assert_eq!(near_names(&folder.path().join("readme.md")), ["README.md"]);
        assert_eq!(near_names(&folder.path().join("confg.rs")), ["config.rs"]);
        assert_eq!(near_names(&folder.path().join("zzz")), Vec::<String>::new());
    }
}
