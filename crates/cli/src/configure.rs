//! `posse config`: the values in force, where they come from, and what is wrong with them.

use posse_config::{Checked, Config, ModelChoiceError, Overrides, Places, Problem};
use serde_json::json;

use crate::{
    args::{ConfigCmd, How, Listing},
    build::{self, env},
    exit::{Exit, Failure},
    print::{to_stderr, to_stdout},
};

pub(crate) fn config(command: ConfigCmd) -> Result<Exit, Failure> {
    match command {
        ConfigCmd::Show { origin, format } => show(origin, format),
        ConfigCmd::Path { format } => path(format),
        ConfigCmd::Check { format } => check(format),
    }
}

fn show(origin: bool, format: Listing) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let config = build::configuration(&places, &How::default())?;
    build::warn(&config, false);
    let rows = config.show();
    if format == Listing::Json {
        let rows: Vec<_> = rows.iter().map(|row| json!({"key": row.key, "value": row.value, "origin": row.origin})).collect();
        to_stdout(&json!(rows).to_string());
        return Ok(Exit::Done);
    }
    let width = rows.iter().map(|row| row.key.chars().count()).max().unwrap_or(0);
    for row in rows {
        let from = if origin { format!("   # {}", row.origin) } else { String::new() };
        to_stdout(&format!("{:width$}  {}{from}", row.key, row.value));
    }
    Ok(Exit::Done)
}

fn path(format: Listing) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let rows = [
        ("config", places.config_dir.clone()),
        ("data", places.data_dir.clone()),
        ("cache", places.cache_dir.clone()),
        ("project", places.project.clone()),
        ("project_data", places.project_data_dir()),
    ];
    if format == Listing::Json {
        let map: serde_json::Map<String, serde_json::Value> = rows.iter().map(|(name, path)| ((*name).to_owned(), json!(path))).collect();
        to_stdout(&serde_json::Value::Object(map).to_string());
        return Ok(Exit::Done);
    }
    for (name, path) in rows {
        to_stdout(&format!("{name:12}  {}", path.display()));
    }
    Ok(Exit::Done)
}

/// Everything that is wrong with what was configured, also what only a look at agents and models shows.
pub(crate) fn checked(places: &Places) -> Checked {
    let mut checked = posse_config::check(places, &env, &Overrides::default());
    let Ok(config) = build::configuration(places, &How::default()) else { return checked };
    // Agents are part of what was configured; what was guessed in files of their own is `posse agents check`.
    match posse_config::agents(places, &config, None) {
        Ok(agents) => {
            checked.errors.extend(agents.dead_denies);
            checked.warnings.extend(agents.tolerated.into_iter().filter(|problem| problem.key.starts_with("agent.")));
        }
        Err(error) => checked.errors.extend(error.problems),
    }
    checked.warnings.extend(wrong_models(&config));
    checked
}

/// Names in `model` and `models` that lead to no model. A key that is missing is a matter of where posse runs.
fn wrong_models(config: &Config) -> Vec<Problem> {
    let aliases = config.aliases.iter().map(|(alias, model)| (format!("models.{alias}"), model));
    let named = config.model.iter().map(|model| ("model".to_owned(), model)).chain(aliases);
    let mut problems = Vec::new();
    for (key, model) in named {
        match config.choose_model(Some(&model.value), &build::known(), &env) {
            Ok(_) | Err(ModelChoiceError::NoKey { .. }) => {}
            Err(error) => problems.push(Problem { origin: model.origin.clone(), key, words: error.to_string() }),
        }
    }
    problems
}

fn check(format: Listing) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let checked = checked(&places);
    let exit = if checked.errors.is_empty() { Exit::Done } else { Exit::Usage };
    if format == Listing::Json {
        let words = |problems: &[Problem]| problems.iter().map(ToString::to_string).collect::<Vec<_>>();
        let mut found = json!({"errors": words(&checked.errors), "warnings": words(&checked.warnings)});
        if let Some(line) = checked.ignored {
            found["ignored"] = line.into();
        }
        to_stdout(&found.to_string());
        return Ok(exit);
    }
    for error in &checked.errors {
        to_stdout(&format!("error: {error}"));
    }
    for warning in &checked.warnings {
        to_stdout(&format!("warning: {warning}"));
    }
    if let Some(line) = &checked.ignored {
        to_stdout(line);
    }
    if checked.errors.is_empty() && checked.warnings.is_empty() {
        to_stderr("posse: nothing wrong");
    }
    Ok(exit)
}
