//! `posse sessions`: what was run here, and what to do with it.

pub(crate) mod export;
pub(crate) mod tree;

use std::collections::HashSet;

use posse_api::{Client as _, is_task, task_lines, transcript, words};
use posse_engine::OpenError;
use posse_server::Local;
use posse_session::{Clock as _, Kind, Summary};

use crate::{
    args::{How, Listing, SessionsCmd},
    build,
    exit::{Exit, Failure},
    print::{flat, safe, to_stderr, to_stdout},
    run, summary, tasks, undo,
};

pub(crate) async fn sessions(command: SessionsCmd) -> Result<Exit, Failure> {
    match command {
        SessionsCmd::List { format } => list(format).await,
        SessionsCmd::Show { id, summary: true, format, .. } => summary::show(&id, format).await,
        SessionsCmd::Show { id, edits: true, format, .. } => undo::show_edits(&id, format).await,
        SessionsCmd::Show { id, format, .. } => show(&id, format).await,
        SessionsCmd::Undo { id, agent, call, format } => undo::undo(&id, agent.as_deref(), call.as_deref(), format).await,
        SessionsCmd::Tree { id, format } => tree::tree(id.as_deref(), format).await,
        SessionsCmd::Export { id, format } => export::export(&id, format).await,
        SessionsCmd::Resume { id, how } => run::resume(&id, *how).await,
        SessionsCmd::Stop { id } => stop(&id).await,
        SessionsCmd::Rm { id } => remove(&id).await,
    }
}

async fn list(format: Listing) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let here = places.cwd.display().to_string();
    let roots: Vec<Summary> = if places.project_data_dir().join("posse.db").exists() {
        let client = Local::new(build::world(build::open_store(&places)?, &places, &build::configuration(&places, &How::default())?));
        let all = client.sessions().await.map_err(run::client_failure)?;
        all.into_iter().filter(|summary| summary.kind == Some(Kind::Root) && summary.directory == here).collect()
    } else {
        Vec::new()
    };
    if format == Listing::Json {
        to_stdout(&serde_json::to_string(&roots).unwrap_or_default());
        return Ok(Exit::Done);
    }
    if roots.is_empty() {
        to_stderr(&format!("posse: no sessions in {here} yet; `posse run \"...\"` begins one"));
    }
    let now = build::SystemClock.now();
    for root in roots {
        to_stdout(&format!(
            "{}  {:9}  {:>7} ago  {:>3} steps  {:>8}  {}",
            root.session,
            words::status(root.status),
            words::age(now.since(root.updated)),
            root.steps,
            words::money(root.usage.cost_usd),
            safe(&root.title)
        ));
    }
    Ok(Exit::Done)
}

async fn show(id: &str, format: Listing) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let client = Local::new(build::world(build::open_store(&places)?, &places, &build::configuration(&places, &How::default())?));
    let summary = client.find(id).await.map_err(run::client_failure)?;
    let facts = client.facts(&summary.session, 0).await.map_err(run::client_failure)?;
    let mut tasks = tree::nodes(&client, &summary).await?;
    tasks.retain(|node| node.depth == 1 && is_task(node));
    if format == Listing::Json {
        let mut lines = posse_api::Lines::new(summary.session.clone());
        let events: Vec<_> = facts.iter().map(|record| lines.line(record)).collect();
        to_stdout(&serde_json::json!({"session": summary, "events": events, "tasks": tasks}).to_string());
        return Ok(Exit::Done);
    }
    to_stdout(&format!("{}  {}  {}  {}", summary.session, words::status(summary.status), summary.agent, summary.model));
    to_stdout(&format!(
        "{} steps · {} calls · {} tokens · {}\n",
        summary.steps,
        summary.calls,
        words::tokens(summary.usage.tokens()),
        words::money(summary.usage.cost_usd)
    ));
    if let Some(parent) = &summary.parent {
        to_stdout(&format!("started by {parent}: {}\n", safe(&summary.title)));
    }
    for block in transcript(&facts) {
        to_stdout(&safe(&block));
    }
    if !tasks.is_empty() {
        to_stdout("\ntasks:");
        task_lines(&tasks, build::SystemClock.now()).iter().for_each(|line| to_stdout(&flat(line)));
    }
    Ok(Exit::Done)
}

/// Stops a session and all below it, whoever runs them. Where nobody does it is recorded: nothing is run for it.
async fn stop(id: &str) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let config = build::configuration(&places, &How::default())?;
    let hub = build::hub(&places, &config)?;
    let client = Local::new(hub.world().clone());
    let summary = client.find(id).await.map_err(run::client_failure)?;
    let running = client.is_run(&summary.root).await.map_err(run::client_failure)?;
    if !running && hub.read(&summary.session).await.map_err(run::open_failure)?.0.is_settled() {
        to_stdout(&format!("{} was not running", summary.session));
        return Ok(Exit::Done);
    }
    to_stdout(&tasks::halt(&client, &summary).await?);
    Ok(Exit::Done)
}

async fn remove(id: &str) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let config = build::configuration(&places, &How::default())?;
    let hub = build::hub(&places, &config)?;
    let client = Local::new(hub.world().clone());
    let summary = client.find(id).await.map_err(run::client_failure)?;
    let owner = hub.world().lease.take(&summary.root).await.map_err(|error| run::open_failure(OpenError::from(error)))?;
    let lasting = lasting_answers(&client, &summary).await?;
    let tree = hub.world().log.summaries(Some(&summary.root)).await.unwrap_or_default();
    let removed = hub.world().log.remove(&owner).await.map_err(|error| Failure::failed(words::storage(&error.to_string())))?;
    // What its calls had printed goes with it; a folder that is not there is fine.
    for gone in &tree {
        let _ = std::fs::remove_dir_all(build::spool(&places, &gone.session));
    }
    let gone = match lasting {
        0 => String::new(),
        1 => "; 1 lasting answer of this session no longer counts".to_owned(),
        several => format!("; {several} lasting answers of this session no longer count"),
    };
    to_stdout(&format!("removed {} ({removed} sessions){gone}", summary.root));
    Ok(Exit::Done)
}

/// The answers given in a tree that reach beyond one call.
async fn lasting_answers(client: &Local, summary: &Summary) -> Result<usize, Failure> {
    let granting = client.granting().await.map_err(run::client_failure)?;
    let granted = granting.iter().filter(|known| known.root == summary.root).flat_map(|known| &known.granted);
    Ok(granted.map(|granted| &granted.ask).collect::<HashSet<_>>().len())
}
