//! `Client` on a world of this process: reads logs, posts letters, and waits for what comes of them.

use std::{sync::Arc, time::Duration};

use posse_api::{Client, ClientError};
use posse_engine::{World, restore};
use posse_session::{BoxFuture, LeaseError, Letter, LetterId, Posted, ReadError, Record, Seq, SessionId, Summary};

/// Facts read at once.
const PAGE: usize = 1_000;

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
                _ => Err(ClientError::Ambiguous { prefix: prefix.to_owned(), matches: found.into_iter().map(|summary| summary.session.0).collect() }),
            }
        })
    }

    fn facts<'a>(&'a self, session: &'a SessionId, after: Seq) -> BoxFuture<'a, Result<Vec<Record>, ClientError>> {
        Box::pin(async move {
            let mut facts: Vec<Record> = Vec::new();
            loop {
                let page = self.world.log.read(session, facts.last().map_or(after, |last| last.seq), PAGE).await.map_err(wrong)?;
                let last = page.len() < PAGE;
                facts.extend(page);
                if last {
                    break;
                }
            }
            restore(&*self.world.log, &mut facts).await.map_err(wrong)?;
            Ok(facts)
        })
    }

    fn post<'a>(&'a self, session: &'a SessionId, letter: Letter) -> BoxFuture<'a, Result<bool, ClientError>> {
        Box::pin(async move {
            let root = self.find(session.as_str()).await?.root;
            let id = LetterId::fresh(&*self.world.ids);
            self.world.inbox.post(Posted { id: id.clone(), root: root.clone(), to: session.clone(), letter }).await.map_err(wrong)?;
            loop {
                if !self.world.inbox.waits(&id).await.map_err(wrong)? {
                    return Ok(true);
                }
                match self.world.lease.take(&root).await {
                    // Nobody would read it: the caller may become the owner.
                    Ok(_free) => return Ok(false),
                    Err(LeaseError::Held { .. }) => tokio::time::sleep(LOOK).await,
                    Err(LeaseError::Unavailable(why)) => return Err(ClientError::Unavailable(why)),
                }
            }
        })
    }
}
