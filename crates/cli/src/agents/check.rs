//! `posse agents check`: what was tolerated in the files that define agents, commands and skills, a line each.
//!
//! To be tolerated is no error: the file loads, and the line says what was assumed. What is read and how is `config`'s.

use std::{collections::HashSet, path::Path};

use posse_config::{Config, DefinitionsChecked, Origin, Places, Problem, check_agents};
use posse_session::Agent;
use serde_json::json;

use super::unusable_model;
use crate::{
    args::{How, Listing},
    build,
    exit::{Exit, Failure},
    print::{flat, to_stderr, to_stdout},
};

pub(super) fn check(path: Option<&Path>, format: Listing) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let config = build::configuration(&places, &How::default())?;
    build::warn(&config, false);
    if let Some(path) = path.filter(|path| !places.cwd.join(path).exists()) {
        return Err(Failure::usage(format!("{}: there is no such file or folder", path.display())));
    }
    let mut checked = check_agents(&places, &config, path);
    if path.is_none() {
        checked.tolerated.extend(wrong_models(&places, &config));
    }
    let exit = if checked.errors.is_empty() { Exit::Done } else { Exit::Usage };
    let fine = fine(&checked);
    if format == Listing::Json {
        let rows = |problems: &[Problem]| problems.iter().map(row).collect::<Vec<_>>();
        let (tolerated, errors) = (rows(&checked.tolerated), rows(&checked.errors));
        to_stdout(&json!({"files": checked.files, "fine": fine, "tolerated": tolerated, "errors": errors}).to_string());
        return Ok(exit);
    }
    for error in &checked.errors {
        to_stdout(&flat(&format!("error: {error}")));
    }
    for problem in &checked.tolerated {
        to_stdout(&flat(&problem.to_string()));
    }
    to_stderr(&format!("posse: {}", summed_up(checked.files, fine, checked.tolerated.len())));
    Ok(exit)
}

/// Models that definitions name and that cannot be used here.
fn wrong_models(places: &Places, config: &Config) -> Vec<Problem> {
    let Ok(agents) = posse_config::agents(places, config, None) else { return Vec::new() };
    let skills = posse_config::skills(places, config);
    let commands = posse_config::commands(places, config, &skills);
    let mut problems = Vec::new();
    let mut tell = |origin: Origin, words: String| {
        problems.push(Problem { origin, key: "model".to_owned(), words: format!("{words}; the caller's is used") });
    };
    for agent in agents.list() {
        if let Some(words) = unusable_model(agent, config) {
            tell(place(&agent.origin), words);
        }
    }
    for command in commands.list() {
        let agent = Agent { model: command.model.clone(), ..Agent::default() };
        if let Some(words) = unusable_model(&agent, config) {
            tell(command.origin.clone(), words);
        }
    }
    problems
}

/// `file:line` as an origin.
fn place(written: &str) -> Origin {
    let parts = written.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?)));
    parts.map_or_else(|| Origin::new(written, 0), |(file, line)| Origin::new(file, line))
}

fn row(problem: &Problem) -> serde_json::Value {
    json!({"file": *problem.origin.source, "line": problem.origin.line, "key": problem.key, "words": problem.words})
}

/// Files in which nothing had to be guessed. What was tolerated may also concern a folder or a configuration file.
fn fine(checked: &DefinitionsChecked) -> usize {
    let odd: HashSet<&str> = checked.tolerated.iter().map(|problem| &*problem.origin.source).filter(|file| is_markdown(file)).collect();
    checked.files.saturating_sub(odd.len())
}

fn is_markdown(file: &str) -> bool {
    Path::new(file).extension().is_some_and(|end| end.eq_ignore_ascii_case("md"))
}

fn summed_up(files: usize, fine: usize, tolerated: usize) -> String {
    let count = |number: usize, of: &str| posse_api::words::count(number as u64, of);
    match (files, tolerated) {
        (0, 0) => "no files that define agents, commands or skills".to_owned(),
        (files, 0) => format!("{}, and nothing had to be guessed", count(files, "file")),
        (files, tolerated) => format!("{} tolerated; {fine} of {} had nothing to guess", count(tolerated, "thing"), count(files, "file")),
    }
}
