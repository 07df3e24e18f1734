//! Where definitions lie: the folders and plugins that may hold agents, commands and skills, lowest precedence first.
//!
//! Knows the places and who is believed there, not what a definition says. What lies in a project is never read through
//! a link that leads out of it, and every walk is bounded, because whoever wrote the folder may have filled it.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::Value;

use crate::{
    config::{Config, Later},
    layer::{FILE_BYTES_MAX, Family, open_regular},
    origin::{Origin, Problem, plain},
    places::{Places, tidy},
    trust::Trust,
};

/// Precedence of a whole class of places, lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    BuiltIn,
    NeighbourUser,
    OurUser,
    NeighbourProject,
    OurProject,
    /// `POSSE_CONFIG`, `POSSE_CONFIG_CONTENT`, hooks.
    Above,
}

/// The names of one kind of definition's folder with each family, below its dot folder or its user's folder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names {
    pub(crate) ours: &'static [&'static str],
    pub(crate) opencode: &'static [&'static str],
    pub(crate) claude: &'static [&'static str],
    /// Below `.agents`, which is anybody's.
    pub(crate) agents: &'static [&'static str],
}

/// A folder that may hold definitions.
#[derive(Debug, Clone)]
pub(crate) struct Shelf {
    pub(crate) dir: PathBuf,
    pub(crate) family: Family,
    pub(crate) level: Level,
    /// The user wrote it, or trusts who did.
    pub(crate) trusted: bool,
    /// The project's real path: nothing outside it is read. `None` for the user's own folders.
    pub(crate) within: Option<PathBuf>,
    /// The plugin that the folder belongs to.
    pub(crate) plugin: Option<String>,
}

/// The folders of one kind of definition that count, whether they exist or not.
pub(crate) fn shelves(places: &Places, config: &Config, names: Names) -> Vec<Shelf> {
    let compat = config.compat;
    let families = [
        (Family::Claude, names.agents, ".agents", places.home.join(".agents"), true),
        (Family::OpenCode, names.opencode, ".opencode", places.opencode_dir.clone(), compat.opencode),
        (Family::Claude, names.claude, ".claude", places.home.join(".claude"), compat.claude),
        (Family::Ours, names.ours, ".posse", places.config_dir.clone(), true),
    ];
    let mut shelves = Vec::new();
    for (family, names, _, folder, _) in families.iter().filter(|family| family.4) {
        let level = if *family == Family::Ours { Level::OurUser } else { Level::NeighbourUser };
        let own = |name: &&str| Shelf { dir: folder.join(name), family: *family, level, trusted: true, within: None, plugin: None };
        shelves.extend(names.iter().map(own));
    }
    let project = places.project.canonicalize().unwrap_or_else(|_| places.project.clone());
    let of_users: Vec<PathBuf> = shelves.iter().map(|shelf| shelf.dir.clone()).collect();
    for (family, names, dotted, _, _) in families.iter().filter(|family| family.4) {
        let level = if *family == Family::Ours { Level::OurProject } else { Level::NeighbourProject };
        for folder in places.project_dirs() {
            let trusted = trusts(config, &folder);
            let dirs = names.iter().map(|name| folder.join(dotted).join(name)).filter(|dir| !of_users.contains(dir));
            shelves.extend(dirs.map(|dir| Shelf { dir, family: *family, level, trusted, within: Some(project.clone()), plugin: None }));
        }
    }
    shelves
}

fn trusts(config: &Config, folder: &Path) -> bool {
    config.folders.iter().any(|known| known.path == folder && known.trust == Trust::Trusted)
}

/// A directory that `plugins` names, with its name.
#[derive(Debug, Clone)]
pub(crate) struct Plugin {
    pub(crate) name: String,
    pub(crate) dir: PathBuf,
    pub(crate) level: Level,
    manifest: Value,
}

/// The plugin directories that the user names, lowest precedence first. What is named and is no directory is not ours:
/// OpenCode's `plugin` lists packages too.
pub(crate) fn plugins(places: &Places, config: &Config, tolerated: &mut Vec<Problem>) -> Vec<Plugin> {
    let mut plugins: Vec<Plugin> = Vec::new();
    for later in config.later.iter().filter(|later| later.key == "plugins" && later.trusted) {
        for named in texts(&later.value) {
            let dir = from(&later.dir, &places.home, &named);
            if !dir.is_dir() || plugins.iter().any(|plugin| plugin.dir == dir) {
                continue;
            }
            let manifest = manifest(&dir.join(".claude-plugin/plugin.json"), places, tolerated);
            let stem = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let name = manifest.get("name").and_then(Value::as_str).unwrap_or(&stem);
            plugins.push(Plugin { name: plain(name), dir, level: later.level, manifest });
        }
    }
    plugins
}

/// Folders that our own files name and that are not there.
pub(crate) fn missing(places: &Places, config: &Config) -> Vec<Problem> {
    let names_folders =
        |later: &&Later| matches!(later.key.as_str(), "plugins" | "skills") && later.trusted && later.family == Family::Ours;
    let mut problems = Vec::new();
    for later in config.later.iter().filter(names_folders) {
        for dir in texts(&later.value).iter().map(|named| from(&later.dir, &places.home, named)).filter(|dir| !dir.is_dir()) {
            let words = format!("{}: there is no such folder", places.shown(&dir));
            problems.push(Problem { origin: later.origin.clone(), key: later.key.clone(), words });
        }
    }
    problems
}

impl Plugin {
    /// The folders of one kind: the usual one, and what the manifest names instead or besides.
    pub(crate) fn shelves(&self, kind: &str, adds: bool) -> Vec<Shelf> {
        let named: Vec<PathBuf> = self.manifest.get(kind).map(texts).unwrap_or_default().iter().map(|path| self.inside(path)).collect();
        let usual = (adds || named.is_empty()).then(|| self.dir.join(kind));
        let mut dirs: Vec<PathBuf> = Vec::new();
        for dir in usual.into_iter().chain(named) {
            if !dirs.contains(&dir) {
                dirs.push(dir);
            }
        }
        let within = self.dir.canonicalize().ok();
        let shelf = |dir| Shelf {
            dir,
            family: Family::Claude,
            level: self.level,
            trusted: true,
            within: within.clone(),
            plugin: Some(self.name.clone()),
        };
        dirs.into_iter().map(shelf).collect()
    }

    fn inside(&self, path: &str) -> PathBuf {
        tidy(&self.dir.join(path.trim_start_matches('/')))
    }
}

fn manifest(path: &Path, places: &Places, tolerated: &mut Vec<Problem>) -> Value {
    let text = match read_text(path) {
        Ok(Some(text)) => text,
        Ok(None) => return Value::Null,
        Err(words) => {
            tolerated.push(problem(&places.shown(path), 0, words));
            return Value::Null;
        }
    };
    serde_json::from_str(&text).unwrap_or_else(|error: serde_json::Error| {
        let line = u32::try_from(error.line()).unwrap_or(0);
        tolerated.push(problem(&places.shown(path), line, "not valid JSON; the folder's name is used".to_owned()));
        Value::Null
    })
}

fn problem(shown: &str, line: u32, words: String) -> Problem {
    Problem { origin: Origin::new(shown, line), key: String::new(), words }
}

/// One text, or a list of them.
pub(crate) fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    }
}

/// A path as a configuration file writes it.
pub(crate) fn from(dir: &Path, home: &Path, written: &str) -> PathBuf {
    let written = written.strip_prefix("file://").unwrap_or(written);
    match written.strip_prefix("~/") {
        Some(rest) => tidy(&home.join(rest)),
        None => tidy(&dir.join(written)),
    }
}

/// The values of one key of the configuration, with the class that each file belongs to.
pub(crate) fn later<'a>(config: &'a Config, key: &str) -> Vec<&'a Later> {
    config.later.iter().filter(|later| later.key == key).collect()
}

/// Whose definitions of one name are duplicates: those of one family's folder in one place.
pub(crate) fn group_of(shelf: &Shelf) -> String {
    shelf.dir.parent().unwrap_or(&shelf.dir).display().to_string()
}

/// A file on a shelf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    /// From the shelf, without its ending: `team/review`.
    pub(crate) name: String,
}

/// More definitions than anybody keeps; the rest is named and left out.
pub(crate) const FILES_MAX: usize = 20_000;

/// Folders deeper than this are not looked into.
const DEPTH_MAX: usize = 12;

/// What a walk over one shelf found.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    /// In the order of their paths.
    pub(crate) files: Vec<Found>,
    /// Where something was left out, and why.
    pub(crate) left_out: Vec<(PathBuf, &'static str)>,
}

/// Every markdown file below a shelf.
pub(crate) fn markdown(shelf: &Shelf) -> Walked {
    let is_markdown = |name: &str| name.rsplit_once('.').is_some_and(|(stem, end)| !stem.is_empty() && end.eq_ignore_ascii_case("md"));
    walk(shelf, &is_markdown, false)
}

/// Every `SKILL.md` below a shelf. What lies beside one is its own business and not looked into.
pub(crate) fn skill_files(shelf: &Shelf) -> Walked {
    walk(shelf, &|name: &str| name.eq_ignore_ascii_case("SKILL.md"), true)
}

fn walk(shelf: &Shelf, wanted: &dyn Fn(&str) -> bool, one_each: bool) -> Walked {
    let mut walker = Walker { shelf, wanted, one_each, walked: Walked::default() };
    if walker.may_enter(&shelf.dir) {
        walker.folder(&shelf.dir, "", 0);
    } else if shelf.dir.symlink_metadata().is_ok() {
        walker.walked.left_out.push((shelf.dir.clone(), LEADS_OUT));
    }
    walker.walked
}

const LEADS_OUT: &str = "a link that leads nowhere, or out of where it may lead";

struct Walker<'a> {
    shelf: &'a Shelf,
    wanted: &'a dyn Fn(&str) -> bool,
    /// A folder with a wanted file has no others below it.
    one_each: bool,
    walked: Walked,
}

impl Walker<'_> {
    fn folder(&mut self, folder: &Path, name: &str, depth: usize) {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) {
                    self.walked.left_out.push((folder.to_owned(), "a folder that cannot be read"));
                }
                return;
            }
        };
        let mut names: Vec<(String, fs::FileType)> = Vec::new();
        for entry in entries.flatten().take(FILES_MAX + 1) {
            match (entry.file_name().into_string(), entry.file_type()) {
                (Ok(name), Ok(kind)) => names.push((name, kind)),
                (Err(name), _) if (self.wanted)(&name.to_string_lossy()) => {
                    self.walked.left_out.push((entry.path(), "a name that is not Unicode text"));
                }
                _ => {}
            }
        }
        names.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        let has_one = self.one_each && 0 < depth && names.iter().any(|(name, kind)| !kind.is_dir() && (self.wanted)(name));
        for (entry, kind) in names {
            let path = folder.join(&entry);
            let linked = kind.is_symlink();
            let is_folder = if linked { path.is_dir() } else { kind.is_dir() };
            if is_folder && (has_one || matches!(entry.as_str(), ".git" | "node_modules")) || !is_folder && !(self.wanted)(&entry) {
                continue;
            }
            if linked && !self.may_enter(&path) {
                self.walked.left_out.push((path, LEADS_OUT));
                continue;
            }
            if FILES_MAX <= self.walked.files.len() {
                self.walked.left_out.push((folder.to_owned(), "more files than are read"));
                return;
            }
            if is_folder {
                self.enter(&path, &below(name, &entry), depth);
            } else {
                let stem = if self.one_each { name.to_owned() } else { below(name, stem(&entry)) };
                self.walked.files.push(Found { path, name: stem });
            }
        }
    }

    fn enter(&mut self, path: &Path, name: &str, depth: usize) {
        if depth < DEPTH_MAX {
            self.folder(path, name, depth + 1);
        } else {
            self.walked.left_out.push((path.to_owned(), "folders too deep in one another"));
        }
    }

    fn may_enter(&self, path: &Path) -> bool {
        match (&self.shelf.within, path.canonicalize()) {
            (Some(within), Ok(real)) => real.starts_with(within),
            (None, Ok(_)) => true,
            (_, Err(_)) => false,
        }
    }
}

fn below(name: &str, entry: &str) -> String {
    if name.is_empty() { entry.to_owned() } else { format!("{name}/{entry}") }
}

fn stem(entry: &str) -> &str {
    entry.rsplit_once('.').map_or(entry, |(stem, _)| stem)
}

/// The text of a definition, bounded; `None` when there is no such file. Letters that are not UTF-8 are replaced.
pub(crate) fn read_text(path: &Path) -> Result<Option<String>, String> {
    let file = match open_regular(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => return Ok(None),
        Err(error) => return Err(format!("cannot be read: {error}")),
    };
    // Room for all of it at once: a definition is one read, not eight.
    let length = file.metadata().map_or(0, |metadata| metadata.len().min(FILE_BYTES_MAX));
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0) + 1);
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| format!("cannot be read: {error}"))?;
    if FILE_BYTES_MAX < bytes.len() as u64 {
        return Err(format!("larger than {} MiB, so it is left out", FILE_BYTES_MAX / 1024 / 1024));
    }
    Ok(Some(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())))
}

/// How messages name a file, to be shared by everything in it.
pub(crate) fn shown(places: &Places, path: &Path) -> Arc<str> {
    places.shown(path).into()
}
