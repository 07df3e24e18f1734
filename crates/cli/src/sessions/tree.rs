//! `posse sessions tree`: a session and every agent below it, with what each has done, cost and waits for.
//!
//! Reads views only. The words are in `posse_api`; here they are made safe for a terminal.

use posse_api::{Client as _, Node, name_lanes, tree_lines};
use posse_server::Local;
use posse_session::{Clock as _, Kind, SessionId, Summary};

use crate::{
    args::{How, Listing},
    asks, build,
    exit::{Exit, Failure},
    print::{flat, to_stderr, to_stdout},
    run::client_failure,
    tasks,
};

pub(crate) async fn tree(id: Option<&str>, format: Listing) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let here = places.cwd.display().to_string();
    let client = asks::client(&places)?;
    let of = match (&client, id) {
        (Some(client), Some(id)) => Some(client.find(id).await.map_err(client_failure)?),
        (Some(client), None) => {
            let all = client.sessions().await.map_err(client_failure)?;
            all.into_iter().find(|summary| summary.kind == Some(Kind::Root) && summary.directory == here)
        }
        (None, Some(id)) => return Err(client_failure(posse_api::ClientError::Missing(id.to_owned()))),
        (None, None) => None,
    };
    let mut nodes = match (&client, of) {
        (Some(client), Some(of)) => nodes(client, &of).await?,
        _ => Vec::new(),
    };
    let config = build::configuration(&places, &How::default())?;
    name_lanes(&mut nodes, |model| tasks::lane_of(&config, model));
    if format == Listing::Json {
        to_stdout(&serde_json::to_string(&nodes).unwrap_or_default());
        return Ok(Exit::Done);
    }
    if nodes.is_empty() {
        to_stderr(&format!("posse: no sessions in {here} yet; `posse run \"...\"` begins one"));
    }
    tree_lines(&nodes, build::SystemClock.now()).iter().for_each(|line| to_stdout(&flat(line)));
    Ok(Exit::Done)
}

/// The session and those below it.
pub(crate) async fn nodes(client: &Local, of: &Summary) -> Result<Vec<Node>, Failure> {
    let tree = views(client, &of.root).await?;
    let running = client.is_run(&of.root).await.map_err(client_failure)?;
    Ok(posse_api::tree(&tree, &of.session, running, build::SystemClock.now()))
}

/// The views of one tree.
pub(super) async fn views(client: &Local, root: &SessionId) -> Result<Vec<Summary>, Failure> {
    let mut all = client.sessions().await.map_err(client_failure)?;
    all.retain(|summary| summary.root == *root);
    Ok(all)
}
