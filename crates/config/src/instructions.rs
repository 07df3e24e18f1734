//! Instruction files: what the user and the project want every agent to know.
//!
//! The user's own first, then the project's from the outermost folder inwards, then those that `instructions` names.
//! Whoever wrote a project must not get at the user's other files, so a link that leads out of the project is not
//! followed. The words around the texts are `context`'s.

use std::{
    collections::HashSet,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use globset::{GlobBuilder, GlobMatcher};

use crate::{
    config::{Config, InstructionPattern},
    layer::open_regular,
    origin::Problem,
    places::{Places, tidy},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    pub path: PathBuf,
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Instructions {
    /// In the order in which the model is shown them.
    pub files: Vec<Instruction>,
    /// What was named and is not among them, and why.
    pub warnings: Vec<Problem>,
}

/// Ten thousand words; a longer one is cut, with a note.
const FILE_BYTES_MAX: usize = 64 * 1024;

/// A quarter of a large context window, whatever is named.
const TOTAL_BYTES_MAX: usize = 256 * 1024;

pub fn instructions(places: &Places, config: &Config) -> Instructions {
    let mut collector = Collector::new(places);
    let claude = config.compat.claude;
    let user = [Some(places.config_dir.join("AGENTS.md")), claude.then(|| places.home.join(".claude/CLAUDE.md"))];
    if let Some(path) = user.into_iter().flatten().find(|path| path.is_file()) {
        collector.add(&path, Whose::User).ok();
    }
    for name in if claude { &["AGENTS.md", "CLAUDE.md"][..] } else { &["AGENTS.md"] } {
        let paths = places.project_dirs().into_iter().map(|folder| folder.join(name));
        let found: Vec<PathBuf> = paths.filter(|path| path.is_file() && collector.may_read(path, Whose::Project)).collect();
        for path in &found {
            collector.add(path, Whose::Project).ok();
        }
        // Of a project that keeps both, the one is often a copy of the other.
        if !found.is_empty() {
            break;
        }
    }
    for pattern in &config.instructions {
        collector.add_pattern(pattern);
    }
    collector.collected
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    User,
    Project,
}

struct Collector<'a> {
    places: &'a Places,
    /// The project as the disk knows it.
    project: PathBuf,
    seen: HashSet<PathBuf>,
    bytes: usize,
    collected: Instructions,
}

impl<'a> Collector<'a> {
    fn new(places: &'a Places) -> Self {
        let project = places.project.canonicalize().unwrap_or_else(|_| places.project.clone());
        Self { places, project, seen: HashSet::new(), bytes: 0, collected: Instructions::default() }
    }

    /// The user may link to anything from anywhere but the project, whose links are not the user's.
    fn may_read(&self, path: &Path, whose: Whose) -> bool {
        let free = whose == Whose::User && !path.starts_with(&self.places.project);
        let ours = path.starts_with(&self.places.config_dir);
        free || whose == Whose::User && ours || path.canonicalize().is_ok_and(|real| real.starts_with(&self.project))
    }

    fn add(&mut self, path: &Path, whose: Whose) -> Result<(), String> {
        if !path.exists() {
            return Err("no such file".to_owned());
        }
        if !self.may_read(path, whose) {
            return Err("leads out of the project".to_owned());
        }
        let real = path.canonicalize().map_err(|error| error.to_string())?;
        if self.seen.contains(&real) {
            return Ok(());
        }
        let room = FILE_BYTES_MAX.min(TOTAL_BYTES_MAX - self.bytes);
        if room == 0 {
            return Err(format!("left out: the instructions before it fill {} KiB", TOTAL_BYTES_MAX / 1024));
        }
        let text = read_text(path, room).map_err(|error| error.to_string())?;
        self.seen.insert(real);
        // The note of a cut is beyond the room; a few words more do no harm.
        self.bytes = TOTAL_BYTES_MAX.min(self.bytes + text.len());
        if !text.trim().is_empty() {
            self.collected.files.push(Instruction { path: path.to_owned(), text });
        }
        Ok(())
    }

    fn add_pattern(&mut self, pattern: &InstructionPattern) {
        let whose = if pattern.trusted { Whose::User } else { Whose::Project };
        let path = match pattern.pattern.strip_prefix("~/") {
            Some(rest) => self.places.home.join(rest),
            None => tidy(&pattern.dir.join(&pattern.pattern)),
        };
        let found = if has_wildcard(&pattern.pattern) && !path.exists() { matches_of(&path) } else { Ok(vec![path]) };
        match found {
            Ok(paths) => {
                for path in paths {
                    if let Err(reason) = self.add(&path, whose) {
                        self.warn(pattern, format!("{}: {reason}", self.places.shown(&path)));
                    }
                }
            }
            Err(reason) => self.warn(pattern, reason),
        }
    }

    fn warn(&mut self, pattern: &InstructionPattern, words: String) {
        self.collected.warnings.push(Problem { origin: pattern.origin.clone(), key: "instructions".to_owned(), words });
    }
}

fn read_text(path: &Path, room: usize) -> io::Result<String> {
    let file = open_regular(path)?;
    let size = file.metadata()?.len();
    let mut bytes = Vec::new();
    file.take(room as u64 + 1).read_to_end(&mut bytes)?;
    let cut = room < bytes.len();
    bytes.truncate(room);
    let mut text = String::from_utf8_lossy(&bytes).trim_start_matches('\u{feff}').to_owned();
    if cut {
        // The cut may have split a letter.
        text.truncate(text.trim_end_matches('\u{fffd}').len());
        text.push_str(&format!("\n\n[cut here: the file has {size} bytes]"));
    }
    Ok(text)
}

fn has_wildcard(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

/// Folders deeper than this below a glob's fixed part are not looked into.
const GLOB_DEPTH_MAX: usize = 12;

/// A glob is for a folder of notes, not for a disk.
const GLOB_ENTRIES_MAX: usize = 10_000;

/// More files than a prompt can hold.
const GLOB_FILES_MAX: usize = 100;

/// The files that a glob means, sorted by path. Links to folders are not followed.
fn matches_of(glob: &Path) -> Result<Vec<PathBuf>, String> {
    let text = glob.to_string_lossy();
    let matcher = GlobBuilder::new(&text).literal_separator(true).build().map_err(|error| error.kind().to_string())?.compile_matcher();
    let fixed: PathBuf = glob.components().take_while(|component| !has_wildcard(&component.as_os_str().to_string_lossy())).collect();
    let below = glob.components().count() - fixed.components().count();
    let depth = if text.contains("**") { GLOB_DEPTH_MAX } else { below };
    let mut walk = Walk { matcher, found: Vec::new(), entries_left: GLOB_ENTRIES_MAX };
    walk.folder(&fixed, depth);
    walk.found.sort();
    walk.found.truncate(GLOB_FILES_MAX);
    Ok(walk.found)
}

struct Walk {
    matcher: GlobMatcher,
    found: Vec<PathBuf>,
    entries_left: usize,
}

impl Walk {
    fn folder(&mut self, folder: &Path, depth: usize) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            if self.entries_left == 0 {
                return;
            }
            self.entries_left -= 1;
            let path = entry.path();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let skipped = matches!(entry.file_name().to_str(), Some(".git" | "node_modules"));
            if is_folder && !skipped && 1 < depth {
                self.folder(&path, depth - 1);
            } else if !is_folder && self.matcher.is_match(&path) {
                self.found.push(path);
            }
        }
    }
}
