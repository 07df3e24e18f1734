//! Internal agents: a question of our own to a model, asked through the kernel in a session of its own.
//!
//! Such a session has no tools, is in the log and in the costs, and is not among the sessions a user lists. Knows nothing
//! of what is asked: who asks reads the answer, and may send it back once with words on what is wrong.

use std::sync::Arc;

use posse_api::{Client as _, said, words};
use posse_config::{Agents, Config, Places};
use posse_engine::{Handle, Hub, RunError};
use posse_models::Explorer;
use posse_server::Local;
use posse_session::{
    Agent, AgentTools, Asking, Birth, Entry, EntryId, Event, Hold, Kind, Limit, Model, ModelFailure, Record, Seq, Session, SessionId,
    Source,
};
use tokio::time::{Duration, Instant, sleep, sleep_until};

use crate::{
    args::How,
    build,
    exit::{Exit, Failure},
    print::to_stderr,
    run::{client_failure, open_failure},
    signals::Signals,
    wardrobe::{Circumstances, Wardrobe},
};

/// A model without tools that calls some all the same is told so, and not for ever.
const STEPS_MAX: u64 = 3;

/// After Ctrl-C the process does not wait longer for its model.
const INTERRUPT_MAX: Duration = Duration::from_millis(1_500);

/// Where a question is asked.
pub(crate) struct Setting {
    pub(crate) places: Places,
    pub(crate) config: Config,
    pub(crate) agents: Agents,
}

/// An answer that was accepted, and the session that has it.
pub(crate) struct Answered<T> {
    pub(crate) answer: T,
    pub(crate) session: SessionId,
}

impl Setting {
    pub(crate) fn here() -> Result<Self, Failure> {
        let places = build::places(None)?;
        let config = build::configuration(&places, &How::default())?;
        build::warn(&config, false);
        let agents = posse_config::agents(&places, &config, None).map_err(|error| Failure::usage(error.to_string()))?;
        Ok(Self { places, config, agents })
    }

    /// The model that was named, else the agent's, else the configured one. `what` cannot be done by rules and search.
    pub(crate) fn model(&self, named: Option<&str>, agent: &Agent, what: &str) -> Result<Arc<dyn Model>, Failure> {
        let build = |name: Option<&str>| build::model(&self.config, &How { model: name.map(str::to_owned), quiet: true, ..How::default() });
        let own = agent.model.as_deref().filter(|name| *name != "inherit");
        let model = match (named, own) {
            (None, Some(own)) => build(Some(own)).or_else(|failure| {
                to_stderr(&format!("posse: {}: model: {}; using the default model", agent.origin, failure.into_words()));
                build(None)
            })?,
            _ => build(named)?,
        };
        if model.facts().name == Explorer::NAME {
            let words = format!(
                "{what} needs a language model, and offline/explorer is rules and search. Set ANTHROPIC_API_KEY or OPENAI_API_KEY; \
                 `posse doctor` shows how to add another"
            );
            return Err(Failure::usage(words));
        }
        Ok(model)
    }

    /// Asks, and once more in the same session when `accept` objects; its objection is for the model.
    pub(crate) async fn ask<T>(
        self,
        agent: Agent,
        model: Arc<dyn Model>,
        title: String,
        question: String,
        accept: &dyn Fn(&str) -> Result<T, String>,
    ) -> Result<Answered<T>, Failure> {
        let mut signals = Signals::listen().map_err(|error| Failure::failed(format!("signals: {error}")))?;
        let hub = build::hub(&self.places, &self.config)?;
        let session = SessionId::fresh(&*hub.world().ids);
        let agent = Agent { tools: AgentTools::Listed(Vec::new()), steps: Some(agent.steps.unwrap_or(STEPS_MAX)), ..agent };
        let (directory, limits) = (self.places.cwd.display().to_string(), self.config.limits);
        let name = model.facts().name.clone();
        let circumstances = Circumstances {
            forks: posse_session::Forks::Off,
            asking: Asking::Nobody,
            dialect: Default::default(),
            shells: Default::default(),
            switches: false,
            speaker: String::new(),
            home: String::new(),
            quiet: false,
            answer: None,
        };
        let wardrobe = Arc::new(Wardrobe::new(self.places, self.config, self.agents, model, "", circumstances)?);
        let birth = Birth {
            kind: Kind::Internal,
            root: session.clone(),
            parent: None,
            directory,
            title,
            recipe: wardrobe.recipe_of(&agent, name),
            ceiling: Vec::new(),
            depth: 0,
            strict_shell: false,
            worktree: None,
            within: None,
        };
        let entry = entry(&hub, &session, question);
        let handle = hub.create(session.clone(), birth.into_created(), entry, wardrobe, limits.spending()).await.map_err(open_failure)?;
        let mut conversation = Conversation {
            client: Local::new(hub.world().clone()),
            hub: &hub,
            handle: &handle,
            signals: &mut signals,
            wall: limits.wall,
            heard: 0,
        };
        let answer = conversation.until(accept).await;
        handle.close().await;
        Ok(Answered { answer: answer?, session })
    }
}

/// Said by us and not by the user: nothing in it is a command or a mention.
fn entry(hub: &Hub, session: &SessionId, words: String) -> Entry {
    Entry { source: Source::Prompt { session: session.clone() }, ..Entry::user(EntryId::fresh(&*hub.world().ids), words) }
}

struct Conversation<'a> {
    hub: &'a Hub,
    client: Local,
    handle: &'a Handle,
    signals: &'a mut Signals,
    wall: Duration,
    /// What is in the log up to here was heard.
    heard: Seq,
}

impl Conversation<'_> {
    async fn until<T>(&mut self, accept: &dyn Fn(&str) -> Result<T, String>) -> Result<T, Failure> {
        let objection = match accept(&self.answer().await?) {
            Ok(answer) => return Ok(answer),
            Err(objection) => objection,
        };
        let again =
            entry(self.hub, self.handle.id(), format!("That cannot be used. {objection}\n\nAnswer once more, with this put right."));
        self.handle.say(again).await.map_err(|error| self.broken(error))?;
        accept(&self.answer().await?).map_err(|objection| {
            let id = self.handle.id();
            Failure::failed(format!("the model's answer cannot be used, twice: {objection} `posse sessions show {id}` shows what it said"))
        })
    }

    /// What the model says next.
    async fn answer(&mut self) -> Result<String, Failure> {
        let session = self.settled().await?;
        let facts = self.client.facts(self.handle.id(), self.heard).await.map_err(client_failure)?;
        self.heard = session.head();
        if let Some(hold) = session.hold() {
            return Err(held(self.handle.id(), hold, &session.round().error, &facts));
        }
        let replies = facts.iter().rev().filter_map(|record| match &record.event {
            Event::Replied { parts, .. } => Some(said(parts)),
            _ => None,
        });
        Ok(replies.into_iter().find(|text| !text.trim().is_empty()).unwrap_or_default())
    }

    async fn settled(&mut self) -> Result<Arc<Session>, Failure> {
        let end = Instant::now() + self.wall;
        let settled = tokio::select! {
            settled = self.handle.settled() => settled,
            () = sleep_until(end) => {
                let words = format!("the time limit of {} is used up (limits.wall)", posse_session::format_duration(self.wall));
                // A run that has just ended needs no limit.
                let _ = self.handle.limit(Limit::Time, words).await;
                self.handle.settled().await
            }
            () = self.signals.next() => {
                let ended = async {
                    // What has ended by itself needs no interrupt.
                    let _ = self.handle.interrupt().await;
                    self.handle.settled().await
                };
                tokio::select! {
                    _ = ended => {}
                    () = sleep(INTERRUPT_MAX) => {}
                    () = self.signals.next() => {}
                }
                return Err(interrupted(self.handle.id()));
            }
        };
        settled.map_err(|error| self.broken(error))
    }

    fn broken(&self, error: RunError) -> Failure {
        match error {
            RunError::Unavailable(why) => Failure::failed(words::storage_in(self.handle.id(), &why)),
            other => Failure::failed(format!("{other}; `posse sessions show {}` tells how it went on", self.handle.id())),
        }
    }
}

fn interrupted(session: &SessionId) -> Failure {
    Failure::ended(Exit::Interrupted, format!("interrupted; `posse sessions show {session}` shows how far it came"))
}

/// Why there is no answer.
fn held(session: &SessionId, hold: Hold, error: &str, facts: &[Record]) -> Failure {
    let last = facts.iter().rev().find_map(|record| match record.event {
        Event::StepFailed { failure, .. } => failure,
        _ => None,
    });
    let exit = match hold {
        Hold::Esc | Hold::StoppedByUser | Hold::StoppedByModel => return interrupted(session),
        Hold::Limit => Exit::Limit,
        Hold::ModelError | Hold::TakeOvers if last == Some(ModelFailure::NeedsModel) => Exit::Usage,
        Hold::ModelError | Hold::TakeOvers => Exit::Failed,
    };
    let words = if error.is_empty() { words::hold(hold) } else { error };
    Failure::ended(exit, words).with(&format!("`posse sessions show {session}` shows what was said"))
}
