//! `posse side`: a question about a session, answered beside it. The conversation itself hears nothing of it.
//!
//! Whoever runs the session answers it too; where nobody does, this process does that and nothing else: an unfinished
//! turn stays unfinished. The asker chooses the id of the session that answers, so that a process that dies in the
//! middle changes only who goes on.

use posse_api::{Client as _, RunStatus, said};
use posse_engine::{Aside, OpenError};
use posse_session::{Event, How as Ended, Kind, Letter, ModelFailure, Record, Seq, Session, SessionId, Summary, Usage};
use serde::Serialize;

use super::{Desk, OWNER_LOOK, PAGE, client_failure, last_failure, open_failure, status_of};
use crate::{
    args::{How, Listing, SideOptions},
    build,
    exit::{Exit, Failure},
    input,
    print::{to_stderr, to_stdout},
    signals::Signals,
};

/// How soon a question that is called off is told so again.
const CALL_OFF_AGAIN: std::time::Duration = std::time::Duration::from_millis(20);

pub(crate) async fn side(options: SideOptions) -> Result<Exit, Failure> {
    let SideOptions { question, go_on, session, model, cwd, format, quiet } = options;
    let how = How { model, cwd, quiet, ..How::default() };
    let places = build::places(how.cwd.as_deref())?;
    let config = build::configuration(&places, &how)?;
    build::warn(&config, quiet);
    let question = input::prompt(&question)?.blocks.join("\n\n");
    let desk = Desk::new(places, config, how)?;
    let about = match (&session, go_on) {
        (Some(id), _) => desk.client.find(id).await.map_err(client_failure)?,
        (None, true) => desk.target(true, None).await?.ok_or_else(which)?,
        (None, false) => return Err(which()),
    };
    if about.kind == Some(Kind::Internal) {
        return Err(Failure::usage(format!("{} is posse's own work beside a session; ask about that session instead", about.session)));
    }
    let root = desk.find(about.root.as_str()).await?;
    desk.at(&root)?.ask_aside(&about, question, format).await
}

fn which() -> Failure {
    Failure::usage("posse side needs a session to ask about: -s ID, or -c for the latest of this directory")
}

/// What came of a question, as scripts are told.
#[derive(Debug, Serialize)]
struct Answered {
    /// The session that answered.
    session: String,
    /// The session it is about.
    about: String,
    status: RunStatus,
    result: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    model: String,
    usage: Usage,
}

/// How far the log of the session that is asked about was read.
struct Followed {
    seq: Seq,
    begun: bool,
    ended: Option<(Ended, String)>,
}

impl Desk {
    async fn ask_aside(self, about: &Summary, question: String, format: Listing) -> Result<Exit, Failure> {
        let mut signals = Signals::listen().map_err(|error| Failure::failed(format!("signals: {error}")))?;
        let world = self.hub.world().clone();
        let task = SessionId::fresh(&*world.ids);
        let born = self.born_on(about).await?;
        let lead = self.model_of(about, &born)?;
        // Another model answers under its own name; else the one that the conversation was last sent to.
        let named = self.how.model.as_ref().map(|_| lead.facts().name.clone());
        let recorded = if named.is_some() { "" } else { &*born };
        let mut followed = Followed { seq: about.head, begun: false, ended: None };
        while followed.ended.is_none() {
            let wardrobe = self.wardrobe(self.agents()?, lead.clone(), recorded, &about.agent)?;
            let aside = Aside { task: task.clone(), question: question.clone(), model: named.clone() };
            let asked = self.hub.ask_aside(&about.session, &about.root, wardrobe, self.limits(), aside.clone(), signals.next()).await;
            match asked {
                Ok(()) => {
                    self.follow(about, &task, &mut followed).await?;
                    if followed.ended.is_none() {
                        return Err(Failure::failed("the question was asked, and its end is in no log; please report it"));
                    }
                }
                Err(OpenError::Held { by }) => {
                    let owner = by.map_or("another process".to_owned(), |pid| format!("process {pid}"));
                    if !self.ask_owner(about, aside, &owner, &mut followed, &mut signals).await? {
                        return Ok(Exit::Interrupted);
                    }
                }
                Err(error) => return Err(open_failure(error)),
            }
        }
        let (how, words) = followed.ended.unwrap_or((Ended::Failed, String::new()));
        self.tell_answer(about, &task, how, words, format).await
    }

    /// Asks whoever runs the session, and waits for the end of it. `true`: it is there, or nobody runs the session any
    /// more. `false`: the user does not want it any more.
    async fn ask_owner(
        &self,
        about: &Summary,
        aside: Aside,
        owner: &str,
        followed: &mut Followed,
        signals: &mut Signals,
    ) -> Result<bool, Failure> {
        let world = self.hub.world();
        let Aside { task, question, model } = aside;
        let task = &task;
        self.follow(about, task, followed).await?;
        if !followed.begun {
            if !self.how.quiet {
                to_stderr(&format!("posse: {owner} runs {}; asking there", about.session));
            }
            let letter = Letter::Side { task: task.clone(), question, model };
            tokio::select! {
                posted = self.client.post(&about.session, letter) => if !posted.map_err(client_failure)? {
                    return Ok(true);
                },
                () = signals.next() => {
                    self.call_off(about, task).await;
                    return Ok(false);
                }
            }
            self.follow(about, task, followed).await?;
            if !followed.begun {
                return Err(Failure::failed(format!("{owner} did not take the question: nothing was said in {} yet", about.session)));
            }
        }
        while followed.ended.is_none() {
            tokio::select! {
                () = world.log.changed(&about.session, followed.seq) => {}
                () = tokio::time::sleep(OWNER_LOOK) => {
                    if !world.lease.is_held(&about.root).await.unwrap_or(true) {
                        return Ok(true);
                    }
                }
                () = signals.next() => {
                    self.call_off(about, task).await;
                    return Ok(false);
                }
            }
            self.follow(about, task, followed).await?;
        }
        Ok(true)
    }

    /// Nobody wants to know any more, and it costs money: what was not read yet is taken back, what has begun is stopped.
    async fn call_off(&self, about: &Summary, task: &SessionId) {
        // It may be on its way into the inbox, or have been taken in a moment ago and not have begun: so it is looked for in
        // both places until it is found in one.
        let called_off = async {
            while !self.take_back(about, task).await && self.client.post(task, Letter::Stop { tree: false }).await.is_err() {
                tokio::time::sleep(CALL_OFF_AGAIN).await;
            }
        };
        let _ = tokio::time::timeout(super::INTERRUPT_MAX, called_off).await;
    }

    /// Whether the question was still in the inbox, and is not any more.
    async fn take_back(&self, about: &Summary, task: &SessionId) -> bool {
        let inbox = &self.hub.world().inbox;
        let waiting = inbox.waiting(&about.root).await.unwrap_or_default();
        let unread = waiting.iter().find(|posted| matches!(&posted.letter, Letter::Side { task: asked, .. } if asked == task));
        match unread {
            Some(unread) => inbox.withdraw(&unread.id).await.unwrap_or(false),
            None => false,
        }
    }

    /// Reads on in the log of the session that is asked about.
    async fn follow(&self, about: &Summary, task: &SessionId, followed: &mut Followed) -> Result<(), Failure> {
        loop {
            let page = self.client.page(&about.session, followed.seq, PAGE).await.map_err(client_failure)?;
            let Some(last) = page.last() else { return Ok(()) };
            followed.seq = last.seq;
            for record in &page {
                match &record.event {
                    Event::TaskStarted { task: begun, .. } if begun == task => followed.begun = true,
                    Event::TaskEnded { task: ended, how, result, .. } if ended == task => {
                        followed.ended = Some((*how, result.inline().unwrap_or_default().to_owned()));
                    }
                    _ => {}
                }
            }
        }
    }

    /// The answer alone goes to stdout.
    async fn tell_answer(self, about: &Summary, task: &SessionId, how: Ended, words: String, format: Listing) -> Result<Exit, Failure> {
        let facts = match self.client.facts(task, 0).await {
            Ok(facts) => facts,
            // It could not even begin.
            Err(posse_api::ClientError::Missing(_)) => Vec::new(),
            Err(error) => return Err(client_failure(error)),
        };
        let summary = facts.iter().fold(Summary::new(task.clone()), |mut summary, record| {
            summary.apply(record);
            summary
        });
        let session = Session::fold(task.clone(), &facts);
        let (status, error) = match how {
            Ended::Completed => (RunStatus::Done, None),
            _ => match status_of(&session) {
                (RunStatus::Done, _) => (RunStatus::Failed, Some(words)),
                (status, error) => (status, error.or(Some(words))),
            },
        };
        let result = if status == RunStatus::Done { last_answer(&facts) } else { String::new() };
        let exit = match status {
            RunStatus::Done => Exit::Done,
            RunStatus::Limit => Exit::Limit,
            RunStatus::Interrupted => Exit::Interrupted,
            RunStatus::Failed if last_failure(&facts) == Some(ModelFailure::NeedsModel) => Exit::Usage,
            RunStatus::Failed => Exit::Failed,
        };
        let error = error.filter(|error| !error.is_empty());
        match format {
            Listing::Text if result.is_empty() => {}
            Listing::Text => to_stdout(&result),
            Listing::Json => {
                let (session, about) = (task.to_string(), about.session.to_string());
                let answered =
                    Answered { session, about, status, result, error: error.clone(), model: summary.model, usage: summary.usage };
                to_stdout(&serde_json::to_string(&answered).unwrap_or_default());
            }
        }
        if let Some(error) = error {
            to_stderr(&format!("posse: {error}"));
        }
        Ok(exit)
    }
}

fn last_answer(facts: &[Record]) -> String {
    let text = |record: &Record| if let Event::Replied { parts, .. } = &record.event { Some(said(parts)) } else { None };
    facts.iter().rev().filter_map(text).find(|text| !text.trim().is_empty()).unwrap_or_default()
}
