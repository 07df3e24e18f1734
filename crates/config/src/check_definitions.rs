//! `posse agents check`: what was tolerated in the files that define agents, commands and skills, with file and line.
//!
//! Only asks those who read them; nothing is judged here that a run would judge otherwise.

use std::path::{Path, PathBuf};

use crate::{
    agents::{agents, tolerated_in},
    command::{self, commands},
    config::Config,
    frontmatter::document,
    layer::Family,
    origin::{Origin, Problem},
    places::Places,
    shelf::{self, Found, Level, Shelf},
    skill::{self, skills},
};

/// What `agents check` prints, a problem a line. Nothing here stops a start, except `errors`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DefinitionsChecked {
    pub tolerated: Vec<Problem>,
    /// What a run would refuse to start with.
    pub errors: Vec<Problem>,
    pub files: usize,
}

/// Everything that counts here, or the file or folder at `path`, whether it counts or not.
pub fn check_agents(places: &Places, config: &Config, path: Option<&Path>) -> DefinitionsChecked {
    let mut checked = DefinitionsChecked::default();
    let Some(path) = path else {
        match agents(places, config, None) {
            Ok(agents) => (checked.tolerated, checked.files) = (agents.tolerated, agents.files),
            Err(error) => checked.errors = error.problems,
        }
        let skills = skills(places, config);
        let commands = commands(places, config, &skills);
        checked.files += commands.files + skills.files;
        checked.tolerated.extend(commands.tolerated);
        checked.tolerated.extend(skills.tolerated);
        return checked.sorted();
    };
    let path = places.cwd.join(path);
    let folder = if path.is_dir() { path.clone() } else { path.parent().unwrap_or(&path).to_owned() };
    let within = |dir: PathBuf| Shelf { family: family_of(&dir), dir, level: Level::Above, trusted: true, within: None, plugin: None };
    let shelf = within(folder.clone());
    let files = if path.is_dir() {
        let walked = shelf::markdown(&shelf);
        let left_out = walked.left_out.into_iter();
        checked.tolerated.extend(left_out.map(|(path, words)| problem(places, &path, format!("{words}; left out"))));
        walked.files
    } else {
        let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        vec![Found { path: path.clone(), name }]
    };
    for found in files {
        checked.files += 1;
        checked.tolerated.extend(match keys_of(&found.path) {
            None => tolerated_in(&within(folder.clone()), Some(found), places, config).0,
            Some(keys) => head_of(&found.path, places, keys),
        });
    }
    checked.sorted()
}

impl DefinitionsChecked {
    fn sorted(mut self) -> Self {
        let place = |problem: &Problem| (problem.origin.source.clone(), problem.origin.line);
        self.tolerated.sort_by_key(place);
        self.tolerated.dedup();
        self
    }
}

/// The documented keys of a command or a skill; nothing for an agent.
fn keys_of(path: &Path) -> Option<&'static [&'static str]> {
    let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
    let lies_in = |folders: [&str; 2]| path.components().any(|part| part.as_os_str().to_str().is_some_and(|part| folders.contains(&part)));
    if name == "skill.md" {
        return Some(&skill::KEYS);
    }
    lies_in(["command", "commands"]).then_some(&command::KEYS)
}

fn family_of(dir: &Path) -> Family {
    let has = |name: &str| dir.components().any(|part| part.as_os_str() == name);
    match (has(".claude"), has(".opencode")) {
        (true, _) => Family::Claude,
        (_, true) => Family::OpenCode,
        _ => Family::Ours,
    }
}

fn head_of(path: &Path, places: &Places, keys: &[&str]) -> Vec<Problem> {
    match shelf::read_text(path) {
        Ok(Some(text)) => document(&text, &shelf::shown(places, path), keys).tolerated,
        Ok(None) => vec![problem(places, path, "there is no such file".to_owned())],
        Err(words) => vec![problem(places, path, words)],
    }
}

fn problem(places: &Places, path: &Path, words: String) -> Problem {
    Problem { origin: Origin { source: shelf::shown(places, path), line: 0 }, key: String::new(), words }
}
