//! `posse models list`: what can be used from here, and what it costs.

use posse_config::{Config, Key, Provider};
use posse_session::{Model as _, ModelFacts};
use serde_json::json;

use crate::{
    args::{How, Listing, ModelsCmd},
    build::{self, env},
    exit::{Exit, Failure},
    print::to_stdout,
};

pub(crate) fn models(command: &ModelsCmd) -> Result<Exit, Failure> {
    let ModelsCmd::List { format } = command;
    let places = build::places(None)?;
    let config = build::configuration(&places, &How::default())?;
    let rows = usable(&config);
    if *format == Listing::Json {
        let rows: Vec<_> = rows.iter().map(|(facts, note)| json!({"model": facts.name, "context": facts.context, "output": facts.output, "cost": facts.prices, "note": note})).collect();
        to_stdout(&json!(rows).to_string());
        return Ok(Exit::Done);
    }
    let width = rows.iter().map(|(facts, _)| facts.name.chars().count()).max().unwrap_or(0);
    for (facts, note) in rows {
        let prices = format!("${} in, ${} out per million", facts.prices.input, facts.prices.output);
        to_stdout(&format!("{:width$}  {:>9} context  {:>7} output  {prices}  {note}", facts.name, facts.context, facts.output));
    }
    Ok(Exit::Done)
}

/// Every model that is configured or that a key in the environment opens, with a word on what is missing.
pub(crate) fn usable(config: &Config) -> Vec<(ModelFacts, String)> {
    let mut rows = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for provider in &config.providers {
        names.extend(provider.models.iter().map(|(model, _)| format!("{}/{model}", provider.name)));
    }
    for known in build::known() {
        let named = config.providers.iter().any(|provider: &Provider| provider.name == known.name && matches!(provider.key, Key::Given(_)));
        let has_key = known.key_env.iter().any(|name| env(name).is_some_and(|key| !key.is_empty()));
        if (has_key || named) && !known.default_model.is_empty() {
            names.push(format!("{}/{}", known.name, known.default_model));
        }
    }
    names.dedup();
    for name in names {
        let how = How { model: Some(name.clone()), quiet: true, ..How::default() };
        match (build::model(config, &how), config.choose_model(Some(&name), &build::known(), &env)) {
            (Ok(model), _) => rows.push((model.facts().clone(), String::new())),
            (Err(_), Err(error)) => {
                rows.push((
                    ModelFacts { name, provider: String::new(), context: 0, output: 0, prices: Default::default(), images: false },
                    error.to_string(),
                ));
            }
            (Err(_), Ok(_)) => {}
        }
    }
    rows.push((posse_models::Explorer::new().facts().clone(), "built in: rules and search, not an LLM".into()));
    rows
}
