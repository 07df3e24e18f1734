//! `posse tasks list`: what was delegated by the sessions of this directory, newest first, and what waits for whom.

use std::collections::HashMap;

use posse_api::{Client as _, Node, ShellRow, is_task, name_lanes, shell_lines, shell_rows, task_lines, words};
use posse_config::Config;
use posse_server::Local;
use posse_session::{Clock as _, SessionId, Summary};
use serde_json::Value;

use crate::{
    args::{How, Listing},
    asks, build,
    exit::{Exit, Failure},
    print::{flat, to_stderr, to_stdout},
    run::client_failure,
    sessions::tree,
};

/// More are too many to read; `--session` and `--format json` have them all.
const LISTED_MAX: usize = 50;

pub(super) async fn list(session: Option<&str>, format: Listing) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let here = places.cwd.display().to_string();
    let (mut tasks, shells) = match (asks::client(&places)?, session) {
        (Some(client), Some(id)) => {
            let of = client.find(id).await.map_err(client_failure)?;
            let running = client.is_run(&of.root).await.map_err(client_failure)?;
            let nodes = tree::nodes(&client, &of).await?;
            let shells = shell_rows(&nodes, running);
            (nodes, shells)
        }
        (Some(client), None) => all_here(&client, &here).await?,
        (None, Some(id)) => return Err(client_failure(posse_api::ClientError::Missing(id.to_owned()))),
        (None, None) => Default::default(),
    };
    let config = build::configuration(&places, &How::default())?;
    name_lanes(&mut tasks, |model| lane_of(&config, model));
    // Of a session those below it, whatever it is itself.
    tasks.retain(|node| 0 < node.depth && is_task(node));
    tasks.sort_by(|a, b| b.session.cmp(&a.session));
    if format == Listing::Json {
        let tasks = tasks.iter().filter_map(|task| serde_json::to_value(task).ok());
        let rows: Vec<Value> = tasks.chain(shells.iter().filter_map(|shell| serde_json::to_value(shell).ok())).collect();
        to_stdout(&Value::from(rows).to_string());
        return Ok(Exit::Done);
    }
    if tasks.is_empty() && shells.is_empty() {
        to_stderr(&format!("posse: no tasks of sessions in {here}; an agent starts one when it delegates"));
    }
    let listed = if session.is_some() { tasks.len() } else { tasks.len().min(LISTED_MAX) };
    task_lines(&tasks[..listed], build::SystemClock.now()).iter().for_each(|line| to_stdout(&flat(line)));
    // Those of a task stand under it.
    let of_others: Vec<ShellRow> = shells.into_iter().filter(|shell| !tasks.iter().any(|task| task.session == shell.session)).collect();
    shell_lines(&of_others).iter().for_each(|line| to_stdout(&flat(line)));
    if listed < tasks.len() {
        let older = words::count((tasks.len() - listed) as u64, "older task");
        to_stderr(&format!("posse: and {older}; --session ID shows those of one session"));
    }
    Ok(Exit::Done)
}

/// The lane in which requests to a model wait, and how many it lets through at once, by the configuration of this folder.
pub(crate) fn lane_of(config: &Config, model: &str) -> (String, u64) {
    let limit = |name: &str| config.concurrency.of(name);
    let provider = model.split_once('/').map_or(model, |(provider, _)| provider);
    match (limit(model), limit(provider)) {
        (Some(count), _) => (model.to_owned(), count),
        (None, count) => (provider.to_owned(), count.unwrap_or(config.concurrency.default)),
    }
}

/// The nodes of every tree that began in this directory, and what their calls have left running.
async fn all_here(client: &Local, here: &str) -> Result<(Vec<Node>, Vec<ShellRow>), Failure> {
    let mut trees: HashMap<SessionId, Vec<Summary>> = HashMap::new();
    for summary in client.sessions().await.map_err(client_failure)? {
        trees.entry(summary.root.clone()).or_default().push(summary);
    }
    let (mut nodes, mut shells) = (Vec::new(), Vec::new());
    for (root, tree) in trees {
        let begun_here = tree.iter().any(|summary| summary.session == root && summary.directory == here);
        let has_more = 1 < tree.len() || tree.iter().any(|summary| !summary.kept.is_empty());
        if begun_here && has_more {
            let running = client.is_run(&root).await.map_err(client_failure)?;
            let found = posse_api::tree(&tree, &root, running, build::SystemClock.now());
            shells.extend(shell_rows(&found, running));
            nodes.extend(found);
        }
    }
    shells.sort_by(|a, b| b.call.cmp(&a.call));
    Ok((nodes, shells))
}
