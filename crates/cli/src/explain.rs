//! `posse` alone: help and the state of this folder; without a terminal, `posse run` on stdin.

use std::{io::IsTerminal as _, path::PathBuf};

use crate::{
    args::{self, How, RunOptions},
    build,
    exit::{Exit, Failure},
    print::to_stdout,
    run,
};

pub(crate) async fn here(dir: Option<PathBuf>) -> Result<Exit, Failure> {
    if let Some(dir) = dir.as_ref().filter(|dir| !dir.is_dir()) {
        return Err(Failure::usage(format!("{} is neither a command nor a folder; `posse --help` lists the commands", dir.display())));
    }
    if !std::io::stdin().is_terminal() {
        let how = How { cwd: dir, ..How::default() };
        return run::run(Box::new(RunOptions { how, ..RunOptions::default() })).await;
    }
    let places = build::places(dir.as_deref())?;
    let config = build::configuration(&places, &How::default())?;
    to_stdout(&args::help());
    to_stdout(&format!("In {}:", places.cwd.display()));
    to_stdout(&format!("  project  {}", places.project.display()));
    let model = config.choose_model(None, &build::known(), &build::env);
    let model = match model {
        Ok(posse_config::ModelChoice::Offline) => "offline/explorer (no model configured; `posse doctor` shows how to add one)".to_owned(),
        Ok(posse_config::ModelChoice::Remote(chosen)) => chosen.name(),
        Err(error) => format!("none: {error}"),
    };
    to_stdout(&format!("  model    {model}"));
    to_stdout("  sessions `posse sessions list`");
    Ok(Exit::Done)
}
