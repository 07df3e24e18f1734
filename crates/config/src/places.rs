//! Where things are: the user's folders, the project and the working directory.
//!
//! Everything comes from arguments; nothing here reads the process's environment. Finding the project's top level
//! looks at the disk and is in `project.rs`.

use std::{
    ffi::OsString,
    path::{Component, Path, PathBuf},
};

use thiserror::Error;

use crate::{origin::plain, path_pattern::Roots, project};

/// The environment, as an argument. An empty variable counts as unset.
pub type Env<'a> = dyn Fn(&str) -> Option<String> + 'a;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    pub home: PathBuf,
    /// Holds the user's `posse.json`, `AGENTS.md`, `agents/`.
    pub config_dir: PathBuf,
    pub data_dir: PathBuf,
    pub cache_dir: PathBuf,
    /// What is of use for a while, and is neither data nor cache.
    pub state_dir: PathBuf,
    /// Where OpenCode keeps its user's file.
    pub opencode_dir: PathBuf,
    /// The git top level, else the working directory.
    pub project: PathBuf,
    /// What the project's data is kept under: the main repository's top level for a worktree, else `project`.
    pub project_key: PathBuf,
    pub cwd: PathBuf,
    /// Where the user stands, which `-C` does not change: messages name files from here.
    pub stand: PathBuf,
}

#[derive(Debug, PartialEq, Eq, Error)]
pub enum PlacesError {
    /// Without a home there is no place for data. Set one of the two.
    #[error("neither HOME nor POSSE_HOME is set to an absolute path")]
    NoHome,
    /// The caller must make it absolute.
    #[error("the working directory {0} is not an absolute path")]
    RelativeDirectory(PathBuf),
}

impl Places {
    pub fn find(cwd: &Path, env: &Env<'_>) -> Result<Self, PlacesError> {
        if !cwd.is_absolute() {
            return Err(PlacesError::RelativeDirectory(cwd.to_owned()));
        }
        let cwd = tidy(cwd);
        let posse_home = variable(env, "POSSE_HOME").map(|path| tidy(&cwd.join(path)));
        let home = absolute(env, "HOME").or_else(|| posse_home.clone()).ok_or(PlacesError::NoHome)?;
        let xdg = |name: &str, default: &str| absolute(env, name).unwrap_or_else(|| home.join(default));
        let xdg_config = xdg("XDG_CONFIG_HOME", ".config");
        let (config_dir, data_dir, cache_dir, state_dir) = match posse_home {
            Some(folder) => (folder.clone(), folder.join("data"), folder.join("cache"), folder.join("state")),
            None => {
                let data = xdg("XDG_DATA_HOME", ".local/share");
                let cache = xdg("XDG_CACHE_HOME", ".cache");
                let state = xdg("XDG_STATE_HOME", ".local/state");
                (xdg_config.join("posse"), data.join("posse"), cache.join("posse"), state.join("posse"))
            }
        };
        let (project, project_key) = project::find(&cwd);
        let opencode_dir = xdg_config.join("opencode");
        let stand = cwd.clone();
        Ok(Self { home, config_dir, data_dir, cache_dir, state_dir, opencode_dir, project, project_key, cwd, stand })
    }

    /// The same for a user who stands somewhere else than where is worked.
    pub fn seen_from(self, stand: &Path) -> Self {
        Self { stand: tidy(stand), ..self }
    }

    /// The folder of this project's data.
    pub fn project_data_dir(&self) -> PathBuf {
        self.data_dir.join("projects").join(self.project_name())
    }

    /// Where the worktrees of this project's tasks lie. Not among the data, which no tool may open, and not below the
    /// project, whose own tools would find every file twice.
    pub fn worktrees_dir(&self) -> PathBuf {
        self.state_dir.join("worktrees").join(self.project_name())
    }

    /// Readable by its first half, unique by its second.
    fn project_name(&self) -> String {
        // The real path, so that a project reached through a link keeps its sessions.
        let path = self.project_key.canonicalize().unwrap_or_else(|_| self.project_key.clone());
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        format!("{}-{:016x}", slug(&name), stable_hash(path.as_os_str().as_encoded_bytes()))
    }

    /// Every folder from the project's top level down to the working directory, outermost first.
    pub fn project_dirs(&self) -> Vec<PathBuf> {
        let mut folders: Vec<PathBuf> =
            self.cwd.ancestors().take_while(|folder| folder.starts_with(&self.project)).map(Path::to_owned).collect();
        folders.reverse();
        folders
    }

    /// What the paths of rules start from.
    pub(crate) fn roots(&self) -> Roots<'_> {
        Roots { home: &self.home, project: &self.project }
    }

    /// A path as messages name it: relative below where the user stands, absolute elsewhere.
    pub fn shown(&self, path: &Path) -> String {
        plain(&path.strip_prefix(&self.stand).unwrap_or(path).to_string_lossy())
    }
}

/// The name of a variable that says where our files are and that is not Unicode. It must not count as unset: then
/// another configuration would count in silence.
pub fn unreadable_variable(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Option<String> {
    let is_ours = |name: &str| {
        name.starts_with("POSSE_") || matches!(name, "XDG_CONFIG_HOME" | "XDG_DATA_HOME" | "XDG_CACHE_HOME" | "XDG_STATE_HOME")
    };
    let unreadable = variables.into_iter().filter(|(_, value)| value.to_str().is_none());
    unreadable.filter_map(|(name, _)| name.into_string().ok()).find(|name| is_ours(name))
}

pub(crate) fn variable(env: &Env<'_>, name: &str) -> Option<String> {
    env(name).filter(|value| !value.is_empty())
}

/// The XDG specification says to ignore relative paths; a relative HOME is no better.
fn absolute(env: &Env<'_>, name: &str) -> Option<PathBuf> {
    variable(env, name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Without `.` and `..`, by the letters alone: the disk is not asked.
pub(crate) fn tidy(path: &Path) -> PathBuf {
    let mut tidied = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                tidied.pop();
            }
            other => tidied.push(other),
        }
    }
    tidied
}

/// Enough to recognise a project by.
const SLUG_CHARS_MAX: usize = 32;

fn slug(name: &str) -> String {
    let mut slug = String::new();
    for letter in name.chars() {
        if letter.is_ascii_alphanumeric() || letter == '_' || letter == '.' {
            slug.push(letter.to_ascii_lowercase());
        } else if !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug: String = slug.trim_matches(['-', '.']).chars().take(SLUG_CHARS_MAX).collect();
    if slug.is_empty() { "project".to_owned() } else { slug }
}

/// FNV-1a. The name of a data folder, so it must be the same in every build; nobody gains by a collision.
fn stable_hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn the_users_folders_follow_posse_home_or_xdg() {
        let places = |pairs: &[(&str, &str)]| {
            Places::find(Path::new("/nowhere/x"), &env(pairs)).map(|found| {
                [found.config_dir, found.data_dir, found.cache_dir, found.opencode_dir].map(|path| path.to_string_lossy().into_owned())
            })
        };
        assert_eq!(
            places(&[("HOME", "/h")]).unwrap(),
            ["/h/.config/posse", "/h/.local/share/posse", "/h/.cache/posse", "/h/.config/opencode"]
        );
        assert_eq!(
            places(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "/c"), ("XDG_DATA_HOME", "/d"), ("XDG_CACHE_HOME", "relative")]).unwrap(),
            ["/c/posse", "/d/posse", "/h/.cache/posse", "/c/opencode"]
        );
        assert_eq!(places(&[("HOME", "/h"), ("POSSE_HOME", "/p")]).unwrap(), ["/p", "/p/data", "/p/cache", "/h/.config/opencode"]);
        assert_eq!(
            places(&[("POSSE_HOME", "p/../q")]).unwrap(),
            ["/nowhere/x/q", "/nowhere/x/q/data", "/nowhere/x/q/cache", "/nowhere/x/q/.config/opencode"]
        );
        assert_eq!(places(&[("HOME", ""), ("POSSE_HOME", "")]), Err(PlacesError::NoHome));
        assert_eq!(Places::find(Path::new("x"), &env(&[("HOME", "/h")])), Err(PlacesError::RelativeDirectory("x".into())));
    }

    #[test]
    fn a_projects_data_folder_is_readable_stable_and_its_own() {
        let folder = |cwd: &str| {
            let places = Places::find(Path::new(cwd), &env(&[("POSSE_HOME", "/p")])).unwrap();
            places.project_data_dir().to_string_lossy().into_owned()
        };
        assert_eq!(folder("/nowhere/My Project"), format!("/p/data/projects/my-project-{:016x}", stable_hash(b"/nowhere/My Project")));
        assert_ne!(folder("/nowhere/a/x"), folder("/nowhere/b/x"));
        assert!(folder("/nowhere/漢字").starts_with("/p/data/projects/project-"), "{}", folder("/nowhere/漢字"));
        assert_eq!(stable_hash(b"a"), 0xaf63_dc4c_8601_ec8c, "the hash is part of the disk format");
    }

    #[cfg(unix)]
    #[test]
    fn a_variable_that_is_not_unicode_is_not_an_unset_one() {
        use std::os::unix::ffi::OsStringExt;
        let odd = || OsString::from_vec(b"/x/\xff.json".to_vec());
        for (name, expected) in [
            ("POSSE_CONFIG", Some("POSSE_CONFIG")),
            ("POSSE_HOME", Some("POSSE_HOME")),
            ("XDG_CONFIG_HOME", Some("XDG_CONFIG_HOME")),
            ("LS_COLORS", None),
        ] {
            let variables = [("POSSE_LOG".into(), "debug".into()), ("OTHER".into(), odd()), (name.into(), odd())];
            assert_eq!(unreadable_variable(variables).as_deref(), expected, "{name}");
        }
        assert_eq!(unreadable_variable([("POSSE_CONFIG".into(), "/żółć".into())]), None);
    }

    #[test]
    fn a_path_is_shown_from_where_the_user_stands() {
        let places = Places::find(Path::new("/nowhere/x"), &env(&[("HOME", "/h")])).unwrap();
        assert_eq!(places.shown(Path::new("/nowhere/x/posse.json")), "posse.json");
        assert_eq!(places.shown(Path::new("/nowhere/posse.json")), "/nowhere/posse.json");
        let above = places.clone().seen_from(Path::new("/nowhere"));
        assert_eq!(above.shown(Path::new("/nowhere/x/posse.json")), "x/posse.json");
        let beside = places.seen_from(Path::new("/nowhere/y"));
        assert_eq!(beside.shown(Path::new("/nowhere/x/posse.json")), "/nowhere/x/posse.json");
    }
}
