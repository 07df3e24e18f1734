//! `posse tasks`: what was delegated by the sessions of this directory, newest first, and what waits for whom.
//!
//! A task is a session, so everything that takes a session's id takes a task's.

use std::collections::HashMap;

use posse_api::{Client as _, Node, is_task, task_lines};
use posse_server::Local;
use posse_session::{Clock as _, SessionId, Summary};

use super::tree;
use crate::{
    args::Listing,
    asks, build,
    exit::{Exit, Failure},
    print::{flat, to_stderr, to_stdout},
    run::client_failure,
};

/// More are too many to read; `--session` and `--format json` have them all.
const LISTED_MAX: usize = 50;

pub(crate) async fn list(session: Option<&str>, format: Listing) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let here = places.cwd.display().to_string();
    let mut tasks = match (asks::client(&places)?, session) {
        (Some(client), Some(id)) => {
            let of = client.find(id).await.map_err(client_failure)?;
            tree::nodes(&client, &of).await?
        }
        (Some(client), None) => all_here(&client, &here).await?,
        (None, Some(id)) => return Err(client_failure(posse_api::ClientError::Missing(id.to_owned()))),
        (None, None) => Vec::new(),
    };
    // Of a session those below it, whatever it is itself.
    tasks.retain(|node| 0 < node.depth && is_task(node));
    tasks.sort_by(|a, b| b.session.cmp(&a.session));
    if format == Listing::Json {
        to_stdout(&serde_json::to_string(&tasks).unwrap_or_default());
        return Ok(Exit::Done);
    }
    if tasks.is_empty() {
        to_stderr(&format!("posse: no tasks of sessions in {here}; an agent starts one when it delegates"));
    }
    let listed = if session.is_some() { tasks.len() } else { tasks.len().min(LISTED_MAX) };
    task_lines(&tasks[..listed], build::SystemClock.now()).iter().for_each(|line| to_stdout(&flat(line)));
    if listed < tasks.len() {
        to_stderr(&format!("posse: and {} older tasks; --session ID shows those of one session", tasks.len() - listed));
    }
    Ok(Exit::Done)
}

/// The nodes of every tree that began in this directory.
async fn all_here(client: &Local, here: &str) -> Result<Vec<Node>, Failure> {
    let mut trees: HashMap<SessionId, Vec<Summary>> = HashMap::new();
    for summary in client.sessions().await.map_err(client_failure)? {
        trees.entry(summary.root.clone()).or_default().push(summary);
    }
    let mut nodes = Vec::new();
    for (root, tree) in trees {
        let begun_here = tree.iter().any(|summary| summary.session == root && summary.directory == here);
        if begun_here && 1 < tree.len() {
            let running = client.is_run(&root).await.map_err(client_failure)?;
            nodes.extend(posse_api::tree(&tree, &root, running, build::SystemClock.now()));
        }
    }
    Ok(nodes)
}
