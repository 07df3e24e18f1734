//! Visits: words and letters for sessions of a tree that nobody runs right now.
//!
//! A task that has ended works again through its parent, which records it and hears of its end. What else is brought to
//! a session that nobody runs opens it until it is at rest.

use std::{sync::Arc, time::Duration};

use posse_session::{Command, Entry, Hold, Kind, LetterId, SessionId, Source, Summary};
use tokio::sync::oneshot;

use crate::{
    hub::read,
    run::{Mail, RunError},
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
}

impl Tree {
    /// Brings words to a task: at its next step if it works, else it works again. `true`: it works again.
    pub(crate) async fn bring(self: &Arc<Self>, task: &Summary, entry: Entry, letter: Option<LetterId>) -> Result<bool, String> {
        loop {
            if let Some(route) = self.route(&task.session) {
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
            } else if !self.expects(&task.session)
                && let Some(resumed) = self.wake(task, &entry, letter.as_ref()).await?
            {
                return Ok(resumed);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Asks the parent of a task that has ended to let it work again. Nothing: somebody was quicker, or nobody answers yet.
    async fn wake(self: &Arc<Self>, task: &Summary, entry: &Entry, letter: Option<&LetterId>) -> Result<Option<bool>, String> {
        let Some(parent) = &task.parent else { return Err(format!("{} is no task", task.session)) };
        let Some((route, _held)) = self.reach(parent).await? else { return Ok(None) };
        let (answer, heard) = oneshot::channel();
        let wake = Mail::Wake { task: task.session.clone(), entry: Box::new(entry.clone()), letter: letter.cloned(), answer };
        if route.mail.send(wake).await.is_err() {
            return Ok(None);
        }
        match heard.await {
            Ok(Ok(Woken::Works)) => Ok(Some(true)),
            Ok(Ok(Woken::Already)) | Err(_) => Ok(None),
            Ok(Err(words)) => Err(words),
        }
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
    pub(crate) async fn receive(
        self: Arc<Self>,
        visit: Visit,
        seat: Reserved,
        session: SessionId,
        letters: Vec<(Command, LetterId)>,
        wanted: Option<Wanted>,
    ) {
        let opened = match read(&*self.world.log, &session).await {
            Ok(read) => self.open(seat, read, letters, Vec::new(), Vec::new()).await,
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
            let at_rest = match &*seen.borrow_and_update() {
                Ok(session) => session.as_ref().is_some_and(|session| session.is_settled()),
                Err(error) => break Some(error.clone()),
            };
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
        for left in all.into_iter().filter(|summary| !summary.is_over() && summary.kind != Some(Kind::Internal)) {
            if !self.expects(&left.session)
                && let Found::Free(seat) = self.seat(&left.session)
            {
                self.host(self.clone().receive(self.visit(), seat, left.session, Vec::new(), None));
            }
        }
    }
}

pub(crate) fn stopped_by_user(task: &SessionId) -> String {
    format!("The user stopped the task {task}; only the user can go on with it.")
}
