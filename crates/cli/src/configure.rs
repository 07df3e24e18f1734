//! `posse config`: the values in force, where they come from, and what is wrong with them.

use posse_config::{Overrides, Problem};
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

fn check(format: Listing) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let mut checked = posse_config::check(&places, &env, &Overrides::default());
    // Agents are part of what was configured; what their files had guessed is `posse agents check`.
    if let Ok(config) = posse_config::load(&places, &env, &Overrides::default()) {
        match posse_config::agents(&places, &config, None) {
            Ok(agents) => checked.errors.extend(agents.dead_denies),
            Err(error) => checked.errors.extend(error.problems),
        }
    }
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
