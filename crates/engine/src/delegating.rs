//! What a running call may ask of other agents: to start one, to speak to one, to read, stop and list them.
//!
//! A call asks from outside its session's loop, so that two sessions that speak to each other never wait for each other.
//! What must be a fact of its own session goes there by mail; what concerns another session goes to that one.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use posse_session::{
    BoxFuture, CallId, Command, Delegate, Dispatch, Entry, EntryId, Errand, Inquiry, Live as _, Part, Progress, Sent, SessionId, Source,
    Summary, TaskView, Voice,
};
use tokio::sync::oneshot;

use crate::{
    hub::tell,
    live::SessionLive,
    run::{Mail, Mailbox},
    tree::Tree,
    views::{Addressed, Reach},
    work::Desk,
};

/// The end of a task is in its own log a moment before its parent knows of it.
const NEARLY_OVER: Duration = Duration::from_secs(5);

/// How often a task of another session is looked at that somebody waits for, when nothing rings.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

const CLOSING: &str = "posse is closing; the call was not run.";

pub(crate) struct Delegating {
    session: SessionId,
    mail: Mailbox,
    tree: Weak<Tree>,
    live: Arc<SessionLive>,
}

impl Delegating {
    pub(crate) fn new(desk: &Desk) -> Self {
        Self { session: desk.session.clone(), mail: desk.mail.clone(), tree: desk.tree.clone(), live: desk.live.clone() }
    }

    fn tree(&self) -> Result<Arc<Tree>, String> {
        self.tree.upgrade().ok_or_else(|| CLOSING.to_owned())
    }

    async fn say(&self, call: &CallId, dispatch: Dispatch) -> Result<Sent, String> {
        let tree = self.tree()?;
        let Addressed { task: found, name, sender } = tree.addressed(&self.session, &dispatch.to).await?;
        if found.session == self.session {
            return Err("That is this very session: you cannot send a message to yourself.".into());
        }
        let entry = Entry {
            // The same call says it once, however often it runs.
            id: EntryId::new(format!("{call}.sent")),
            source: Source::Agent { session: self.session.clone(), name: sender.clone() },
            parts: vec![Part::text(format!("[message from the agent {sender}, not from the user]\n\n{}", dispatch.text))],
            voice: Voice::Agent { named: Vec::new() },
            ..Entry::user(EntryId::new(""), "")
        };
        let resumed = tree.bring(&found, entry, None).await?;
        let own = found.parent.as_ref() == Some(&self.session);
        Ok(Sent { output: tree.world.outputs.path(&found.session), task: found.session, name, agent: found.agent, resumed, own })
    }

    async fn look(&self, call: &CallId, inquiry: Inquiry) -> Result<TaskView, String> {
        let tree = self.tree()?;
        let until = inquiry.wait.map(|wait| tokio::time::Instant::now() + wait);
        loop {
            let found = tree.find(&self.session, &inquiry.task, Reach::Below).await?;
            let is_open = tree.open_in(&self.session, &found.session);
            let wait = match until {
                // In a moment its parent will know too, and then it is told once.
                None if is_open && found.is_over() => Some(NEARLY_OVER),
                _ => inquiry.wait,
            };
            if let (true, Some(wait)) = (is_open, wait) {
                self.wait_for_own(call, &found, wait).await;
                // It has just ended, and its parent knows.
                continue;
            }
            let is_late = until.is_none_or(|until| until <= tokio::time::Instant::now());
            if (found.is_over() && !tree.is_open(&found)) || is_late {
                let mut view = tree.view(&found, Some(inquiry.since)).await?;
                if 0 < inquiry.since && view.next <= inquiry.since {
                    // Its end is not news, so it is not told again; and what is not told takes no notice away.
                    (view.end, view.last_action) = (None, String::new());
                }
                if view.end.is_some() {
                    let _ = self.mail.send(Mail::Read { call: call.clone(), task: found.session.clone() }).await;
                }
                return Ok(view);
            }
            // Who waits for another is not idle.
            self.live.show(Progress::Alive);
            tokio::select! {
                () = tree.world.log.changed(&found.session, found.head) => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {}
            }
        }
    }

    /// From here on the call waits for the task, and this future is dropped. It is ready only if the task is not open any more.
    async fn wait_for_own(&self, call: &CallId, task: &Summary, wait: Duration) {
        let (gone, is_gone) = oneshot::channel();
        let mail = Mail::Await { call: call.clone(), task: task.session.clone(), wait, gone };
        let sent = self.mail.send(mail).await;
        if sent.is_err() || is_gone.await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    async fn end(&self, task: &str) -> Result<TaskView, String> {
        let tree = self.tree()?;
        let found = tree.find(&self.session, task, Reach::Below).await?;
        let parent = found.parent.clone().unwrap_or_else(|| found.root.clone());
        let route = tree.route(&parent).filter(|_| tree.open_in(&parent, &found.session));
        let Some(route) = route else {
            let status = tree.view(&found, None).await?.status;
            return Err(format!("The task {} is not running: it is {}. There is nothing to stop.", found.session, status.word()));
        };
        let stop = Command::StopTask { task: found.session.clone(), by: posse_session::By::Model };
        tell(&route, stop).await.map_err(|error| error.to_string())?;
        tree.view(&found, None).await
    }
}

impl Delegate for Delegating {
    fn spawn<'a>(&'a self, call: &'a CallId, errand: Errand) -> BoxFuture<'a, String> {
        Box::pin(async move {
            let (refused, words) = oneshot::channel();
            let sent = self.mail.send(Mail::Errand { call: call.clone(), errand: Box::new(errand), refused }).await;
            match words.await {
                Ok(words) if sent.is_ok() => words,
                // The task is recorded and the call waits for it, or is answered: the run drops this.
                _ => std::future::pending().await,
            }
        })
    }

    fn send<'a>(&'a self, call: &'a CallId, dispatch: Dispatch) -> BoxFuture<'a, Result<Sent, String>> {
        Box::pin(self.say(call, dispatch))
    }

    fn read<'a>(&'a self, call: &'a CallId, inquiry: Inquiry) -> BoxFuture<'a, Result<TaskView, String>> {
        Box::pin(self.look(call, inquiry))
    }

    fn stop<'a>(&'a self, _call: &'a CallId, task: &'a str) -> BoxFuture<'a, Result<TaskView, String>> {
        Box::pin(self.end(task))
    }

    fn list<'a>(&'a self) -> BoxFuture<'a, Result<Vec<TaskView>, String>> {
        Box::pin(async move { self.tree()?.views_below(&self.session).await })
    }

    fn keep<'a>(&'a self, call: &'a CallId, title: String, over: BoxFuture<'static, Option<String>>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let (done, recorded) = oneshot::channel();
            let mail = Mail::Kept { call: call.clone(), title, over, done };
            if self.mail.send(mail).await.is_ok() {
                // A run that is gone has dropped what was to be kept.
                let _ = recorded.await;
            }
        })
    }
}
