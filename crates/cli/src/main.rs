//! The `posse` binary: reads what the user wrote, builds the world, picks a mode.
//!
//! `args.rs` is the command line, `build.rs` makes a world of configuration, `run.rs` drives one prompt; every other
//! command is a file of its own. Everything below this crate is a library that never reads an environment variable.

mod agents;
mod args;
mod asks;
mod auth;
mod beside;
mod build;
mod configure;
mod crash;
mod demo;
mod doctor;
mod exit;
mod expand;
mod explain;
mod inline;
mod input;
mod internal;
mod local;
mod models;
mod narrate;
mod print;
mod rules;
mod run;
mod sessions;
mod shape;
mod signals;
mod summary;
mod tape;
mod tasks;
#[cfg(test)]
mod testing;
mod title;
mod trace;
mod trust;
mod undo;
mod wardrobe;
mod why;
mod worktrees;

use std::time::Duration;

use clap::Parser as _;
use exit::{Exit, Failure};

/// How long the end of a command may take to move its log into the database, when everything is said. Where a disk takes
/// longer the log stays as a kill would leave it, and nothing is lost.
const SETTLE_MAX: Duration = Duration::from_millis(250);

fn main() -> std::process::ExitCode {
    // The keeper is this same program: nothing may happen before it is told apart.
    if std::env::args_os().nth(1).is_some_and(|first| first == "__keeper") {
        posse_tools::keeper_main()
    }
    // What tools run must not read this process's memory or environment: the provider's keys are in it. Where the
    // kernel does not offer this, nothing else depends on it.
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    let mut outcome = attempt();
    // Damage that was found by reading is mended by who opens the file next. Where nothing was said and nothing written
    // yet, that may as well be this command.
    if outcome.is_err() && posse_store::met_damage() && !posse_store::has_written() && !print::has_printed() {
        outcome = attempt();
    }
    print::release();
    let code = match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => failure.report(),
    };
    posse_store::settle(SETTLE_MAX);
    code
}

/// The command as the user wrote it, from its beginning to its end.
fn attempt() -> Result<Exit, Failure> {
    let args = args::Args::parse();
    if matches!(&args.command, Some(args::Cmd::Sessions(args::SessionsCmd::Show { .. } | args::SessionsCmd::Export { .. }))) {
        print::hold();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("the runtime could not start: {error}")))?;
    let outcome = runtime.block_on(dispatch(args));
    // A tool that will not end must not keep the process: the keeper ends it.
    runtime.shutdown_background();
    outcome
}

async fn dispatch(args: args::Args) -> Result<Exit, Failure> {
    match args.command {
        Some(args::Cmd::Run(options)) => run::run(options).await,
        Some(args::Cmd::Side(options)) => run::side::side(*options).await,
        Some(args::Cmd::Sessions(command)) => sessions::sessions(command).await,
        Some(args::Cmd::Agents(command)) => agents::agents(command).await,
        Some(args::Cmd::Tasks(args)) => tasks::tasks(args).await,
        Some(args::Cmd::Asks(command)) => asks::asks(command).await,
        Some(args::Cmd::Why { id, agent, format }) => why::why(&id, agent.as_deref(), format).await,
        Some(args::Cmd::Rules(command)) => rules::rules(command).await,
        Some(args::Cmd::Config(command)) => configure::config(command),
        Some(args::Cmd::Trust { dir, format }) => trust::trust(dir, format),
        Some(args::Cmd::Models(command)) => models::models(command).await,
        Some(args::Cmd::Auth(command)) => auth::auth(command),
        Some(args::Cmd::Doctor { attempt, clean, format }) => doctor::doctor(attempt.as_deref(), clean, format).await,
        Some(args::Cmd::Demo(options)) => demo::demo(options).await,
        Some(args::Cmd::Completions { shell }) => args::completions(shell),
        None => explain::here(args.dir).await,
    }
}
