//! `Client` on a world of this process: reads logs, posts letters, and waits for what comes of them.
//!
//! Where nobody runs a session an answer is recorded here, as its owner for one append; nothing is started by that.

use std::{collections::HashMap, sync::Arc, time::Duration};

use posse_api::{Ask, Client, ClientError, Delivered, Place, Start, concerns, named};
use posse_engine::{World, read_all, restore};
use posse_session::{
    Append, AskId, BatchId, BoxFuture, CallId, Command, Event, Given, LeaseError, Letter, LetterId, Posted, ReadError, Record, Rules, Seq,
    Session, SessionId, Summary, Timestamp,
};

use crate::seek::Sought;

/// How often a sender looks whether its letter was taken in.
const LOOK: Duration = Duration::from_millis(20);

pub struct Local {
    world: Arc<World>,
}

impl Local {
    pub fn new(world: Arc<World>) -> Self {
        Self { world }
    }

    /// Records what a letter comes to, as the owner for this one append. `false`: somebody owns the session after all.
    async fn record(&self, summary: &Summary, letter: &Letter) -> Result<bool, ClientError> {
        let owner = match self.world.lease.take(&summary.root).await {
            Ok(owner) => owner,
            Err(LeaseError::Held { .. }) => return Ok(false),
            Err(error) => return Err(ClientError::Unavailable(error.to_string())),
        };
        let records = read_all(&*self.world.log, &summary.session, 0).await.map_err(wrong)?;
        let session = Session::fold(summary.session.clone(), &records);
        if session.is_foreign() {
            let words = format!("{} was written by a later version of posse; update posse", summary.session);
            return Err(ClientError::Unavailable(words));
        }
        let now = self.world.clock.now();
        let mut draft = session.draft(BatchId::fresh(&*self.world.ids), now);
        let rules = Rules::default();
        let given = Given::apart(now, &*self.world.ids, &rules);
        if let Some(command) = command(letter) {
            draft.decide(command, &given);
        }
        if draft.is_empty() {
            return Ok(true);
        }
        let append = Append {
            session: summary.session.clone(),
            root: summary.root.clone(),
            epoch: owner.epoch,
            batch: draft.batch().clone(),
            after: session.head(),
            at: now,
            // The kernel bounds the words of an answer, so that none of these is too long for a log.
            events: draft.records().iter().map(|record| record.event.clone()).collect(),
            blobs: Vec::new(),
            letters: Vec::new(),
        };
        self.world.log.append(append).await.map_err(|error| ClientError::Unavailable(error.to_string()))?;
        Ok(true)
    }

    /// The open asks of one session, with what is known of their calls.
    async fn asks_of(&self, summary: &Summary) -> Result<Vec<Ask>, ClientError> {
        // Calls of an earlier reply are all finished before the model speaks again.
        let since = summary.last_reply.map_or(0, |reply| reply.saturating_sub(1));
        let mut facts = read_all(&*self.world.log, &summary.session, since).await.map_err(wrong)?;
        facts.retain(|record| summary.asks.iter().any(|open| concerns(&record.event, &open.call)));
        restore(&*self.world.log, &mut facts).await.map_err(wrong)?;
        let waiting = self.is_run(&summary.root).await?;
        Ok(summary.asks.iter().map(|open| Ask::new(summary, open, &facts, waiting)).collect())
    }

    async fn seek(&self, sought: &Sought<'_>) -> Result<Place, ClientError> {
        let sessions = self.sessions().await?;
        let mut found: Vec<(String, Place)> = Vec::new();
        // First where it must be by its time; only a clock that was turned puts it elsewhere.
        for likely in [true, false] {
            for summary in sessions.iter().filter(|summary| sought.may_be_in(summary) == likely) {
                let records = read_all(&*self.world.log, &summary.session, 0).await.map_err(wrong)?;
                for (id, call) in records.iter().filter_map(|record| sought.found(&record.event)) {
                    if !found.iter().any(|(known, _)| known == id) {
                        found.push((id.to_owned(), Place { summary: summary.clone(), call: call.clone() }));
                    }
                }
                if sought.is_whole() && !found.is_empty() {
                    break;
                }
            }
            if !found.is_empty() {
                break;
            }
        }
        let found = sought.start().only(found, |(id, _)| id)?;
        found.map(|(_, place)| place).ok_or_else(|| sought.missing())
    }

    /// Posts a letter to a tree and waits until somebody has taken it in, or nobody can.
    async fn post_to(&self, root: &SessionId, session: &SessionId, letter: Letter) -> Result<bool, ClientError> {
        let id = LetterId::fresh(&*self.world.ids);
        self.world.inbox.post(Posted { id: id.clone(), root: root.clone(), to: session.clone(), letter }).await.map_err(wrong)?;
        while self.world.inbox.waits(&id).await.map_err(wrong)? {
            if self.is_run(root).await? {
                tokio::time::sleep(LOOK).await;
            } else if self.world.inbox.withdraw(&id).await.map_err(wrong)? {
                // Nobody would read it, so it is taken back: the caller may become the owner and act.
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// What a letter means where it is recorded without a run.
fn command(letter: &Letter) -> Option<Command> {
    match letter {
        Letter::Answer { .. } | Letter::Revoke { .. } | Letter::Stop { .. } | Letter::Title { .. } | Letter::BroughtHome { .. } => {
            Some(letter.command())
        }
        // These want somebody who goes on with it.
        Letter::Say { .. } | Letter::Resume | Letter::Detach { .. } | Letter::Side { .. } => None,
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
            let mut all = self.sessions().await?;
            let found = Start::new(prefix, SessionId::PREFIX).only(&all, |summary| summary.session.as_str())?;
            let found = found.map(|summary| summary.session.clone());
            // An id is meant before a name.
            let meant = if found.is_some() { found } else { named(&all, prefix)? };
            let place = meant.and_then(|session| all.iter().position(|summary| summary.session == session));
            place.map(|place| all.swap_remove(place)).ok_or_else(|| ClientError::Missing(prefix.to_owned()))
        })
    }

    fn find_call<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Place, ClientError>> {
        Box::pin(async move { self.seek(&Sought::call(prefix)).await })
    }

    fn find_ask<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Place, ClientError>> {
        Box::pin(async move { self.seek(&Sought::ask(prefix)).await })
    }

    fn facts<'a>(&'a self, session: &'a SessionId, after: Seq) -> BoxFuture<'a, Result<Vec<Record>, ClientError>> {
        Box::pin(async move {
            let mut facts = read_all(&*self.world.log, session, after).await.map_err(wrong)?;
            restore(&*self.world.log, &mut facts).await.map_err(wrong)?;
            Ok(facts)
        })
    }

    fn page<'a>(&'a self, session: &'a SessionId, after: Seq, limit: usize) -> BoxFuture<'a, Result<Vec<Record>, ClientError>> {
        Box::pin(async move {
            let mut facts = self.world.log.read(session, after, limit).await.map_err(wrong)?;
            restore(&*self.world.log, &mut facts).await.map_err(wrong)?;
            Ok(facts)
        })
    }

    fn facts_of<'a>(&'a self, session: &'a SessionId, calls: &'a [CallId]) -> BoxFuture<'a, Result<Vec<Record>, ClientError>> {
        Box::pin(async move {
            let mut facts = read_all(&*self.world.log, session, 0).await.map_err(wrong)?;
            let wanted = |event: &Event| calls.iter().any(|call| concerns(event, call));
            facts.retain(|record| matches!(record.event, Event::Revoked { .. }) || wanted(&record.event));
            restore(&*self.world.log, &mut facts).await.map_err(wrong)?;
            Ok(facts)
        })
    }

    fn answered<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<(AskId, Timestamp)>, ClientError>> {
        Box::pin(async move {
            let facts = read_all(&*self.world.log, session, 0).await.map_err(wrong)?;
            let answered = |record: Record| match record.event {
                Event::Answered { ask, .. } => Some((ask, record.at)),
                _ => None,
            };
            Ok(facts.into_iter().filter_map(answered).collect())
        })
    }

    fn asks(&self) -> BoxFuture<'_, Result<Vec<Ask>, ClientError>> {
        Box::pin(async move {
            let mut asks = Vec::new();
            let mut trees: HashMap<SessionId, Vec<Summary>> = HashMap::new();
            for summary in self.world.log.with_asks().await.map_err(wrong)?.iter().filter(|summary| !summary.asks.is_empty()) {
                let open = self.asks_of(summary).await?;
                // Whoever started a task knows its name.
                if summary.parent.is_some() && !trees.contains_key(&summary.root) {
                    let tree = self.world.log.summaries(Some(&summary.root)).await.map_err(wrong)?;
                    trees.insert(summary.root.clone(), tree);
                }
                let tree = trees.get(&summary.root).map_or(&[][..], Vec::as_slice);
                asks.extend(open.into_iter().map(|ask| ask.named_in(tree)));
            }
            asks.sort_by(|a, b| (a.since, &a.ask).cmp(&(b.since, &b.ask)));
            Ok(asks)
        })
    }

    fn granting(&self) -> BoxFuture<'_, Result<Vec<Summary>, ClientError>> {
        Box::pin(async move {
            let mut found = self.world.log.with_asks().await.map_err(wrong)?;
            found.retain(|summary| !summary.granted.is_empty());
            Ok(found)
        })
    }

    fn is_run<'a>(&'a self, root: &'a SessionId) -> BoxFuture<'a, Result<bool, ClientError>> {
        Box::pin(async move { self.world.lease.is_held(root).await.map_err(|error| ClientError::Unavailable(error.to_string())) })
    }

    fn post<'a>(&'a self, session: &'a SessionId, letter: Letter) -> BoxFuture<'a, Result<bool, ClientError>> {
        Box::pin(async move {
            let root = self.find(session.as_str()).await?.root;
            self.post_to(&root, session, letter).await
        })
    }

    fn deliver<'a>(&'a self, session: &'a SessionId, letter: Letter) -> BoxFuture<'a, Result<Delivered, ClientError>> {
        Box::pin(async move {
            let summary = self.find(session.as_str()).await?;
            loop {
                if self.is_run(&summary.root).await? && self.post_to(&summary.root, session, letter.clone()).await? {
                    return Ok(Delivered::ToOwner);
                }
                if self.record(&summary, &letter).await? {
                    return Ok(Delivered::Recorded);
                }
            }
        })
    }
}
