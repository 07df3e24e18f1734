//! Visits: words and letters for sessions of a tree that nobody runs right now.
//!
//! A task that has ended works again through its parent, which records it and hears of its end. What else is brought to
//! a session that nobody runs opens it until it is at rest.

use std::{sync::Arc, time::Duration};

use posse_session::{Birth, BoxFuture, Command, Entry, Hold, Kind, LetterId, Rules, Session, SessionId, Source, Summary};
use tokio::sync::oneshot;

use crate::{
    past::{fold, read},
    run::{Mail, RunError},
    spill::restore,
    tree::{Found, Reserved, Route, Tree, Visit},
};

/// How soon somebody looks again for a session that is just being opened or closed.
const LOOK: Duration = Duration::from_millis(10);

/// Who wants the way to a session, and until when it must stay open for that.
pub(crate) type Wanted = (oneshot::Sender<Result<Route, String>>, oneshot::Receiver<()>);

/// What became of a wish to wake a task.
#[derive(Debug)]
pub(crate) enum Woken {
    /// Its parent has recorded it.
    Works,
    /// It works already: whoever runs it is to be told.
    Already,
    /// It had heard these words already, and ended.
    Heard,
}

impl Tree {
    /// Brings words to a task: at its next step if it works, else it works again. `true`: it works again.
    pub(crate) async fn bring(self: &Arc<Self>, task: &Summary, entry: Entry, letter: Option<LetterId>) -> Result<bool, String> {
        if entry.source != Source::User
            && let Some(above) = self.stopped_above(task).await?
        {
            return Err(stopped_by_user(&above));
        }
        loop {
            // What is said to one that is being stopped would go down with it: it is said when it has ended.
            let stops = self.is_being_stopped(&task.session);
            if let Some(route) = self.route(&task.session).filter(|_| !stops) {
                if self.seen(&task.session).is_some_and(|session| session.hold() == Some(Hold::StoppedByUser))
                    && entry.source != Source::User
                {
                    return Err(stopped_by_user(&task.session));
                }
                let (done, taken) = oneshot::channel();
                let wish = Mail::Wish { command: Command::Say(entry.clone()), letter: letter.clone(), done: Some(done) };
                let sent = route.mail.send(wish).await;
                match taken.await {
                    Ok(Ok(())) if sent.is_ok() => return Ok(false),
                    Ok(Err(error @ RunError::QueueFull)) => return Err(error.to_string()),
                    _ => {}
                }
            } else if !stops && !self.expects(&task.session) {
                match self.wake(task, Some(&entry), letter.as_ref()).await? {
                    Some(Woken::Works) => return Ok(true),
                    Some(Woken::Heard) => return Ok(false),
                    Some(Woken::Already) | None => {}
                }
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Whether its parent has told a task to stop, and does not know of its end yet.
    pub(crate) fn is_being_stopped(&self, task: &SessionId) -> bool {
        self.sessions().iter().any(|session| session.tasks().get(task).is_some_and(|open| open.stopped.is_some()))
    }

    /// Whoever above a task the user has stopped: nobody else lets anything below go on.
    async fn stopped_above(&self, task: &Summary) -> Result<Option<SessionId>, String> {
        let mut next = task.parent.clone();
        while let Some(id) = next.take() {
            let session = match self.seen(&id) {
                Some(session) => session,
                None => Arc::new(fold(&*self.world.log, &id).await.map_err(|error| error.to_string())?),
            };
            if session.hold() == Some(Hold::StoppedByUser) {
                return Ok(Some(id));
            }
            next = session.birth().and_then(|birth| birth.parent.clone());
        }
        Ok(None)
    }

    /// Lets the parent of a session that works by itself hear of its end, and with it everybody above.
    async fn adopt(self: &Arc<Self>, task: &Summary) {
        while task.parent.as_ref().is_some_and(|parent| !self.open_in(parent, &task.session)) {
            match self.wake(task, None, None).await {
                Ok(Some(_)) | Err(_) => return,
                Ok(None) => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// Asks the parent of a task that has ended to let it work again. Nothing: nobody answers yet.
    async fn wake(self: &Arc<Self>, task: &Summary, entry: Option<&Entry>, letter: Option<&LetterId>) -> Result<Option<Woken>, String> {
        let Some(parent) = &task.parent else { return Err(format!("{} is no task", task.session)) };
        let Some((route, _held)) = self.reach(parent).await? else { return Ok(None) };
        let (answer, heard) = oneshot::channel();
        let wake = Mail::Wake { task: task.session.clone(), entry: entry.cloned().map(Box::new), letter: letter.cloned(), answer };
        if route.mail.send(wake).await.is_err() {
            return Ok(None);
        }
        heard.await.map_or(Ok(None), |answer| answer.map(Some))
    }

    /// The way to a session, opened for a visit if nobody runs it: it stays open as long as what comes with the way is
    /// kept. Nothing: somebody is about to open it.
    async fn reach(self: &Arc<Self>, session: &SessionId) -> Result<Option<(Route, oneshot::Sender<()>)>, String> {
        let (held, until) = oneshot::channel();
        if let Some(route) = self.route(session) {
            return Ok(Some((route, held)));
        }
        if self.expects(session) {
            return Ok(None);
        }
        match self.seat(session) {
            Found::Open(route) => Ok(Some((route, held))),
            Found::Opening => Ok(None),
            Found::Free(seat) => {
                let (ready, opened) = oneshot::channel();
                self.host(self.clone().receive(self.visit(), seat, session.clone(), Vec::new(), Some((ready, until))));
                let route = opened.await.map_err(|_| format!("{session} could not be opened"))??;
                Ok(Some((route, held)))
            }
        }
    }

    /// Opens a session that nobody runs, for letters to it or for itself, until it is at rest again.
    pub(crate) fn receive(
        self: Arc<Self>,
        visit: Visit,
        seat: Reserved,
        session: SessionId,
        letters: Vec<(Command, LetterId)>,
        wanted: Option<Wanted>,
    ) -> BoxFuture<'static, ()> {
        Box::pin(self.receive_until_rest(visit, seat, session, letters, wanted))
    }

    async fn receive_until_rest(
        self: Arc<Self>,
        visit: Visit,
        seat: Reserved,
        session: SessionId,
        letters: Vec<(Command, LetterId)>,
        wanted: Option<Wanted>,
    ) {
        // The last round that was over before; any later one is to be heard of, however soon it ends.
        let mut over = 0;
        let opened = match read(&*self.world.log, &session).await {
            Ok(read) => {
                let round = read.session.round();
                over = if round.open { round.number.saturating_sub(1) } else { round.number };
                let above = self.rules_above(&read.session).await;
                self.open(seat, read, letters, Vec::new(), above).await
            }
            Err(error) => Err(error),
        };
        let run = match opened {
            Ok(run) => run,
            Err(error) => {
                if let Some((ready, _)) = wanted {
                    let _ = ready.send(Err(error.to_string()));
                }
                return;
            }
        };
        if let Some((ready, until)) = wanted {
            let _ = ready.send(Ok(run.route()));
            // Whoever wanted it has said what it had to say, or is gone.
            let _ = until.await;
        }
        let mut seen = run.route().seen;
        let broken = loop {
            let now = match seen.borrow_and_update().clone() {
                Ok(now) => now,
                Err(error) => break Some(error),
            };
            let at_rest = now.as_ref().is_some_and(|session| session.is_settled());
            if let Some(begun) = now.filter(|now| over < now.round().number) {
                over = begun.round().number;
                let parent = begun.birth().and_then(|birth| birth.parent.clone());
                self.adopt(&Summary { parent, ..Summary::new(session.clone()) }).await;
            }
            if at_rest && run.finish().await {
                break None;
            }
            if !at_rest && seen.changed().await.is_err() {
                break None;
            }
            tokio::task::yield_now().await;
        };
        if let Some(error) = broken {
            // The log cannot be written, or is another's now: nobody of the tree can rely on it, and no watch would say so.
            for route in self.routes_but(&session) {
                let _ = route.mail.send(Mail::Broken(error.clone())).await;
            }
        }
        drop(run);
        drop(visit);
    }

    /// Opens what an earlier owner has left unfinished and no watch has found. Once is enough: later visits end by themselves.
    pub(crate) async fn take_up_leftovers(self: &Arc<Self>) {
        if !self.is_inherited() {
            return;
        }
        let Ok(all) = self.world.log.summaries(Some(&self.owner.root)).await else { return };
        for left in all.into_iter().filter(|summary| !summary.at_rest && summary.kind != Some(Kind::Internal)) {
            if !self.expects(&left.session)
                && let Found::Free(seat) = self.seat(&left.session)
            {
                self.host(self.clone().receive(self.visit(), seat, left.session, Vec::new(), None));
            }
        }
    }

    /// Today's rules of everybody above a session. What cannot be read allows nothing.
    async fn rules_above(&self, session: &Session) -> Vec<Rules> {
        let mut above = Vec::new();
        let mut next = session.birth().and_then(|birth| birth.parent.clone());
        while let Some(id) = next.take() {
            let mut first = self.world.log.read(&id, 0, 1).await.unwrap_or_default();
            let restored = restore(&*self.world.log, &mut first).await.is_ok();
            let birth = first.first().filter(|_| restored).and_then(|record| Birth::of(&record.event));
            match birth.as_ref().map(|birth| self.outfits.outfit(&id, birth)) {
                Some(Ok(outfit)) => above.extend(std::iter::once(outfit.rules).chain(outfit.ceiling)),
                Some(Err(_)) | None => above.push(Rules::denying_all()),
            }
            next = birth.and_then(|birth| birth.parent);
        }
        above
    }
}

pub(crate) fn stopped_by_user(task: &SessionId) -> String {
    format!("The user stopped the task {task}; only the user can go on with it.")
}
