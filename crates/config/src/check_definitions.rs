//! `posse agents check`: what was tolerated in the files that define agents, commands and skills, with file and line.
//!
//! Only asks those who read them; nothing is judged here that a run would judge otherwise.

use std::{collections::HashSet, path::Path};

use crate::{
    agents::{agents, tolerated_in},
    command::{self, commands},
    config::Config,
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
            Ok(agents) => {
                (checked.tolerated, checked.files) = (agents.tolerated, agents.files);
                checked.tolerated.extend(agents.announced);
            }
            Err(error) => checked.errors = error.problems,
        }
        let skills = skills(places, config);
        let commands = commands(places, config, &skills);
        checked.files += commands.files + skills.files;
        for found in [commands.tolerated, commands.announced, skills.tolerated, skills.announced] {
            checked.tolerated.extend(found);
        }
        return checked.sorted();
    };
    let path = places.cwd.join(path);
    let folder = if path.is_dir() { path.clone() } else { path.parent().unwrap_or(&path).to_owned() };
    let (level, trusted, within) = (Level::Above, true, None);
    let shelf = Shelf { family: family_of(&folder), plugin: plugin_of(&folder), dir: folder, level, trusted, within };
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
        let shelf = Shelf { family: family_of(&found.path), plugin: plugin_of(&found.path), ..shelf.clone() };
        checked.tolerated.extend(match kind_of(&found.path) {
            Kind::Agent => tolerated_in(&shelf, Some(found), places, config).0,
            Kind::Command => command::tolerated_in(&shelf, &found, places),
            Kind::Skill => skill::tolerated_in(&shelf, &found, places),
        });
    }
    checked.sorted()
}

impl DefinitionsChecked {
    fn sorted(mut self) -> Self {
        let place = |problem: &Problem| (problem.origin.source.clone(), problem.origin.line);
        self.tolerated.sort_by_key(place);
        let mut seen = HashSet::new();
        self.tolerated.retain(|problem| seen.insert(problem.to_string()));
        self
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Agent,
    Command,
    Skill,
}

fn kind_of(path: &Path) -> Kind {
    let is_skill = path.file_name().is_some_and(|name| name.eq_ignore_ascii_case("SKILL.md"));
    let lies_in = |folders: [&str; 2]| path.components().any(|part| part.as_os_str().to_str().is_some_and(|part| folders.contains(&part)));
    match (is_skill, lies_in(["command", "commands"])) {
        (true, _) => Kind::Skill,
        (false, true) => Kind::Command,
        (false, false) => Kind::Agent,
    }
}

/// The plugin that a path lies in, by its manifest.
fn plugin_of(path: &Path) -> Option<String> {
    let root = path.ancestors().find(|folder| folder.join(".claude-plugin/plugin.json").is_file())?;
    Some(root.file_name()?.to_string_lossy().into_owned())
}

fn family_of(dir: &Path) -> Family {
    let has = |name: &str| dir.components().any(|part| part.as_os_str() == name);
    match (has(".claude"), has(".opencode")) {
        (true, _) => Family::Claude,
        (_, true) => Family::OpenCode,
        _ => Family::Ours,
    }
}

fn problem(places: &Places, path: &Path, words: String) -> Problem {
    Problem { origin: Origin { source: shelf::shown(places, path), line: 0 }, key: String::new(), words }
}
