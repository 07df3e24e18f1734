//! `posse run` and `posse sessions resume`: one session, driven until it comes to rest.

use std::{sync::Arc, time::Duration};

use posse_api::{Client as _, ClientError, Report, RunStatus, report};
use posse_config::{Config, Places};
use posse_engine::{Handle, Hub, OpenError, RunError};
use posse_server::Local;
use posse_session::{
    By, Command, Delivery, Entry, EntryId, Event, Hold, Kind, Letter, Limit, Limits, ModelFailure, Part, Priority, Recipe, Record, Seq, Session, SessionId, Source,
    Summary,
};

use crate::{
    args::{Format, How, OnAsk, RunOptions},
    build,
    exit::{Exit, Failure},
    input,
    narrate::Narrator,
    print::{to_stderr, to_stdout},
    signals::Signals,
};

/// The agent every session starts with.
const AGENT: &str = "build";

/// A headless title is the prompt's first line.
const TITLE_CHARS_MAX: usize = 80;

/// After Ctrl-C the process is gone within two seconds, whatever its tools do.
const INTERRUPT_MAX: Duration = Duration::from_millis(1_900);

pub(crate) async fn run(options: Box<RunOptions>) -> Result<Exit, Failure> {
    let places = build::places(options.how.cwd.as_deref())?;
    let config = build::configuration(&places, &options.how)?;
    build::warn(&config, options.how.quiet);
    let blocks = input::blocks(&options.prompt)?;
    let desk = Desk::new(places, config, options.how)?;
    let entry = desk.entry(&blocks);
    match desk.target(options.go_on, options.session.as_deref()).await? {
        Some(summary) => desk.go_on(&summary, Some(entry)).await,
        None => desk.begin(entry, title(&blocks[0])).await,
    }
}

pub(crate) async fn resume(id: &str, how: How) -> Result<Exit, Failure> {
    let places = build::places(how.cwd.as_deref())?;
    let config = build::configuration(&places, &how)?;
    build::warn(&config, how.quiet);
    let desk = Desk::new(places, config, how)?;
    let summary = desk.find(id).await?;
    desk.go_on(&summary, None).await
}

/// One invocation: what it was told, and the world it works in.
struct Desk {
    places: Places,
    config: Config,
    how: How,
    hub: Hub,
    client: Local,
}

impl Desk {
    fn new(places: Places, config: Config, how: How) -> Result<Self, Failure> {
        let hub = build::hub(&places, &config)?;
        let client = Local::new(hub.world().clone());
        Ok(Self { places, config, how, hub, client })
    }

    fn entry(&self, blocks: &[String]) -> Entry {
        let id = EntryId::fresh(&*self.hub.world().ids);
        let parts = blocks.iter().map(|block| Part::text(block.as_str())).collect();
        Entry { id, source: Source::User, delivery: Delivery::NextStep, priority: Priority::Next, parts }
    }

    async fn find(&self, id: &str) -> Result<Summary, Failure> {
        let found = self.client.find(id).await.map_err(client_failure)?;
        if found.session == found.root { Ok(found) } else { self.client.find(found.root.as_str()).await.map_err(client_failure) }
    }

    async fn target(&self, go_on: bool, session: Option<&str>) -> Result<Option<Summary>, Failure> {
        if let Some(id) = session {
            return self.find(id).await.map(Some);
        }
        if !go_on {
            return Ok(None);
        }
        let here = self.places.cwd.display().to_string();
        let all = self.client.sessions().await.map_err(client_failure)?;
        let latest = all.into_iter().find(|summary| summary.kind == Some(Kind::Root) && summary.directory == here);
        latest.map(Some).ok_or_else(|| Failure::usage(format!("there is no session in {here} to go on with; leave -c out to begin one")))
    }

    fn limits(&self) -> Limits {
        let configured = self.config.limits.spending();
        Limits {
            steps: self.how.max_steps.or(configured.steps),
            tokens: self.how.max_tokens.or(configured.tokens),
            cost_usd: self.how.max_cost.or(configured.cost_usd),
        }
    }

    async fn begin(self, entry: Entry, title: String) -> Result<Exit, Failure> {
        let model = build::model(&self.config, &self.how)?;
        let session = SessionId::fresh(&*self.hub.world().ids);
        let created = Event::Created {
            kind: Kind::Root,
            root: session.clone(),
            parent: None,
            directory: self.places.cwd.display().to_string(),
            title,
            recipe: Recipe { agent: AGENT.into(), model: model.facts().name.clone(), steps_max: None },
            ceiling: Vec::new(),
        };
        let outfit = build::outfit(&self.places, &self.config, model, &session)?;
        let narrator = Narrator::start(&self.hub, &session, 0, &self.how);
        let handle = self.hub.create(session, created, entry, outfit, self.limits()).await.map_err(open_failure)?;
        self.drive(handle, None, 0, narrator).await
    }

    /// Goes on with a session: with new words, or where it stopped.
    async fn go_on(self, summary: &Summary, entry: Option<Entry>) -> Result<Exit, Failure> {
        let model = self.model_of(summary)?;
        let outfit = build::outfit(&self.places, &self.config, model, &summary.session)?;
        let then = entry.clone().map_or(Command::Resume { by: By::User }, Command::Say);
        let narrator = Narrator::start(&self.hub, &summary.session, summary.head, &self.how);
        match self.hub.open(&summary.session, &summary.root, outfit, self.limits(), Vec::new()).await {
            Ok(handle) => {
                // Without new words there may be nothing to do: then the last answer is what there is to say.
                let since = if entry.is_some() { summary.head } else { 0 };
                self.drive(handle, Some(then), since, narrator).await
            }
            Err(OpenError::Held { by }) => self.by_letter(summary, entry, by, narrator).await,
            Err(error) => Err(open_failure(error)),
        }
    }

    /// The model asked for now, else the one the session had, else the configured one.
    fn model_of(&self, summary: &Summary) -> Result<Arc<dyn posse_session::Model>, Failure> {
        if self.how.model.is_none() && !summary.model.is_empty() {
            let recorded = How { model: Some(summary.model.clone()), quiet: self.how.quiet, ..How::default() };
            if let Ok(model) = build::model(&self.config, &recorded) {
                return Ok(model);
            }
        }
        build::model(&self.config, &self.how)
    }

    /// Does `first`, if there is something to do first, and goes on until the session is at rest.
    async fn drive(self, handle: Handle, first: Option<Command>, since: Seq, mut narrator: Narrator) -> Result<Exit, Failure> {
        // A session may be at rest already: what it comes to counts only from here.
        if let Some(first) = first
            && let Err(error) = handle.command(first).await
        {
            return self.broken(handle, since, error, narrator).await;
        }
        let mut signals = Signals::listen().map_err(|error| Failure::failed(format!("signals: {error}")))?;
        let deadline = self.how.timeout.map(|limit| tokio::time::Instant::now() + limit);
        let settled = tokio::select! {
            settled = handle.settled() => settled,
            () = signals.next() => interrupt(&handle, &mut signals).await,
            () = until(deadline) => {
                let words = format!("the time limit of {} is used up (--timeout)", posse_config::format_duration(self.how.timeout.unwrap_or_default()));
                // A run that has just ended needs no limit.
                let _ = handle.limit(Limit::Time, words).await;
                tokio::select! {
                    settled = handle.settled() => settled,
                    () = signals.next() => interrupt(&handle, &mut signals).await,
                }
            }
        };
        let session = match settled {
            Ok(session) => session,
            Err(error) => return self.broken(handle, since, error, narrator).await,
        };
        handle.close().await;
        narrator.finish().await;
        self.conclude(&session, since).await
    }

    /// The session is at rest: says what it came to.
    async fn conclude(&self, session: &Session, since: Seq) -> Result<Exit, Failure> {
        let facts = self.client.facts(session.id(), since).await.map_err(client_failure)?;
        let tree = self.tree(session.id()).await?;
        let (status, error) = status_of(session);
        let report = report(status, error, &tree, &facts);
        self.say(&report);
        let needs_model = status == RunStatus::Failed && last_failure(&facts) == Some(ModelFailure::NeedsModel);
        Ok(self.exit(&report, needs_model))
    }

    fn exit(&self, report: &Report, needs_model: bool) -> Exit {
        match report.status {
            RunStatus::Interrupted => Exit::Interrupted,
            RunStatus::Failed if needs_model => Exit::Usage,
            RunStatus::Failed => Exit::Failed,
            RunStatus::Limit => Exit::Limit,
            RunStatus::Done if 0 < report.unanswered && self.how.on_ask != Some(OnAsk::DenyOk) => Exit::Unanswered,
            RunStatus::Done => Exit::Done,
        }
    }

    async fn tree(&self, root: &SessionId) -> Result<Vec<Summary>, Failure> {
        let mut tree = self.hub.world().log.summaries(Some(root)).await.map_err(|error| Failure::failed(posse_api::words::storage(&error.to_string())))?;
        tree.sort_by_key(|summary| (summary.session != *root, summary.created, summary.session.clone()));
        Ok(tree)
    }

    fn say(&self, report: &Report) {
        match self.how.format.unwrap_or(Format::Text) {
            Format::Text => {
                if !report.result.is_empty() {
                    to_stdout(&report.result);
                }
            }
            Format::Json => to_stdout(&serde_json::to_string(report).unwrap_or_default()),
            Format::StreamJson => {
                let mut line = serde_json::json!({"type": "result"});
                if let (Some(line), Ok(serde_json::Value::Object(fields))) = (line.as_object_mut(), serde_json::to_value(report)) {
                    line.extend(fields);
                }
                to_stdout(&line.to_string());
            }
        }
        if let Some(error) = &report.error {
            to_stderr(&format!("posse: {error}"));
        }
        for denial in report.denied.iter().filter(|_| !self.how.quiet) {
            let rule = denial.rule.as_deref().map_or(String::new(), |rule| format!(" by {rule}"));
            to_stderr(&format!("posse: denied{rule}: {} {}", denial.tool, crate::print::safe(&denial.what)));
        }
    }

    /// The log could not be written, or is someone else's now.
    async fn broken(self, handle: Handle, since: Seq, error: RunError, narrator: Narrator) -> Result<Exit, Failure> {
        let session = handle.id().clone();
        handle.close().await;
        drop(narrator);
        let words = match error {
            RunError::Unavailable(why) => posse_api::words::storage(&why),
            other => format!("{other}; `posse sessions show {session}` tells how it went on"),
        };
        if self.how.format != Some(Format::Text) {
            let tree = self.tree(&session).await.unwrap_or_default();
            let facts = self.client.facts(&session, since).await.unwrap_or_default();
            self.say(&report(RunStatus::Failed, Some(words), &tree, &facts));
            return Ok(Exit::Failed);
        }
        Err(Failure::failed(words))
    }

    /// Another process runs this session: say it by letter, and wait for what comes of it.
    async fn by_letter(self, summary: &Summary, entry: Option<Entry>, by: Option<u32>, mut narrator: Narrator) -> Result<Exit, Failure> {
        let owner = by.map_or("another process".to_owned(), |pid| format!("process {pid}"));
        let letter = entry.map_or(Letter::Resume, |entry| Letter::Say { entry });
        if !self.how.quiet {
            to_stderr(&format!("posse: {owner} runs {}; posting to it", summary.session));
        }
        if !self.client.post(&summary.session, letter).await.map_err(client_failure)? {
            return Err(Failure::failed(format!("{owner} ended before it took the message in; it is kept: `posse sessions resume {}` goes on with it", summary.session)));
        }
        let mut signals = Signals::listen().map_err(|error| Failure::failed(format!("signals: {error}")))?;
        let session = loop {
            let (session, _) = self.hub.read(&summary.session).await.map_err(open_failure)?;
            if session.is_settled() {
                break session;
            }
            tokio::select! {
                () = self.hub.world().log.changed(&summary.session, session.head()) => {}
                () = signals.next() => {
                    to_stderr(&format!("posse: no longer waiting; {owner} goes on"));
                    return Ok(Exit::Interrupted);
                }
            }
        };
        narrator.finish().await;
        self.conclude(&session, summary.head).await
    }
}

/// Ctrl-C: ends the turn. A second one, or a tool that will not end, does not keep the process.
async fn interrupt(handle: &Handle, signals: &mut Signals) -> Result<Arc<Session>, RunError> {
    let ended = async {
        handle.interrupt().await?;
        handle.settled().await
    };
    tokio::select! {
        ended = ended => ended,
        () = signals.next() => std::process::exit(130),
        () = tokio::time::sleep(INTERRUPT_MAX) => std::process::exit(130),
    }
}

async fn until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn status_of(session: &Session) -> (RunStatus, Option<String>) {
    let error = Some(session.round().error.clone()).filter(|error| !error.is_empty());
    match session.hold() {
        Some(Hold::Esc | Hold::StoppedByUser | Hold::StoppedByModel) => (RunStatus::Interrupted, error),
        Some(Hold::ModelError | Hold::TakeOvers) => (RunStatus::Failed, error),
        Some(Hold::Limit) => (RunStatus::Limit, error),
        None => (RunStatus::Done, None),
    }
}

fn last_failure(facts: &[Record]) -> Option<ModelFailure> {
    facts.iter().rev().find_map(|record| match record.event {
        Event::StepFailed { failure, .. } => failure,
        _ => None,
    })
}

fn title(prompt: &str) -> String {
    let line = prompt.trim().lines().next().unwrap_or_default();
    let title: String = line.chars().take(TITLE_CHARS_MAX).collect();
    if title.len() < line.len() { format!("{title}…") } else { title }
}

pub(crate) fn client_failure(error: ClientError) -> Failure {
    match error {
        ClientError::Missing(_) | ClientError::Ambiguous { .. } => Failure::usage(error.to_string()),
        ClientError::Unavailable(why) => Failure::failed(posse_api::words::storage(&why)),
    }
}

pub(crate) fn open_failure(error: OpenError) -> Failure {
    match error {
        OpenError::Held { .. } => Failure::failed(format!("{error}; post to it with `posse run -s ID`, or stop it with `posse sessions stop ID`")),
        OpenError::Missing => Failure::usage(error.to_string()),
        OpenError::Foreign => Failure::failed(format!("{error}: it can be shown, not continued; update posse")),
        OpenError::Unavailable(why) => Failure::failed(posse_api::words::storage(&why)),
    }
}
