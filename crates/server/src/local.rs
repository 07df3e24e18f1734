//! `Client` on a world of this process: reads logs, posts letters, and waits for what comes of them.

use std::{sync::Arc, time::Duration};

use posse_api::{Client, ClientError};
use posse_engine::{World, read_all, restore};
use posse_session::{BoxFuture, Letter, LetterId, Posted, ReadError, Record, Seq, SessionId, Summary};

/// How often a sender looks whether its letter was taken in.
const LOOK: Duration = Duration::from_millis(20);

pub struct Local {
    world: Arc<World>,
}

impl Local {
    pub fn new(world: Arc<World>) -> Self {
        Self { world }
    }
}

fn wrong(error: ReadError) -> ClientError {
    match error {
        ReadError::Missing => ClientError::Missing(String::new()),
        ReadError::Unavailable(why) => ClientError::Unavailable(why),
    }
}

impl Client for Local {
    fn sessions(&self) -> BoxFuture<'_, Result<Vec<Summary>, ClientError>> {
        Box::pin(async { self.world.log.summaries(None).await.map_err(wrong) })
    }

    fn find<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Summary, ClientError>> {
        Box::pin(async move {
            let all = self.sessions().await?;
            if let Some(exact) = all.iter().find(|summary| summary.session.as_str() == prefix) {
                return Ok(exact.clone());
            }
            let bare = prefix.strip_prefix(SessionId::PREFIX).unwrap_or(prefix).to_uppercase();
            let matches = |summary: &&Summary| !prefix.is_empty() && summary.session.as_str()[SessionId::PREFIX.len()..].starts_with(&bare);
            let mut found: Vec<Summary> = all.iter().filter(matches).cloned().collect();
            match found.len() {
                0 => Err(ClientError::Missing(prefix.to_owned())),
                1 => Ok(found.remove(0)),
                _ => Err(ClientError::Ambiguous {
                    prefix: prefix.to_owned(),
                    matches: found.into_iter().map(|summary| summary.session.0).collect(),
                }),
            }
        })
    }

    fn facts<'a>(&'a self, session: &'a SessionId, after: Seq) -> BoxFuture<'a, Result<Vec<Record>, ClientError>> {
        Box::pin(async move {
            let mut facts = read_all(&*self.world.log, session, after).await.map_err(wrong)?;
            restore(&*self.world.log, &mut facts).await.map_err(wrong)?;
            Ok(facts)
        })
    }

    fn post<'a>(&'a self, session: &'a SessionId, letter: Letter) -> BoxFuture<'a, Result<bool, ClientError>> {
        Box::pin(async move {
            let root = self.find(session.as_str()).await?.root;
            let id = LetterId::fresh(&*self.world.ids);
            self.world.inbox.post(Posted { id: id.clone(), root: root.clone(), to: session.clone(), letter }).await.map_err(wrong)?;
            while self.world.inbox.waits(&id).await.map_err(wrong)? {
                if self.world.lease.is_held(&root).await.map_err(|error| ClientError::Unavailable(error.to_string()))? {
                    tokio::time::sleep(LOOK).await;
                } else if self.world.inbox.withdraw(&id).await.map_err(wrong)? {
                    // Nobody would read it, so it is taken back: the caller may become the owner and act.
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }
}
