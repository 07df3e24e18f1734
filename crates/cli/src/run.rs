//! `posse run` and `posse sessions resume`: one session, driven until it comes to rest.

pub(crate) mod fork;
pub(crate) mod side;

use std::{collections::HashMap, path::Path, sync::Arc, time::Duration};

use posse_api::{Client as _, ClientError, Report, RunStatus, Since, report, said};
use posse_config::{Agents, Config, Places};
use posse_engine::{Handle, Hub, OpenError, RunError, read_all, restore};
use posse_models::Explorer;
use posse_server::Local;
use posse_session::{
    Agent, Birth, By, Command, Delivery, Entry, EntryId, Event, Hold, Kind, Letter, LetterId, Limit, Limits, Model, ModelFailure, Part,
    Priority, Purpose, ReadError, Record, Seq, Session, SessionId, Source, Status, Summary, Voice,
};
use posse_tools::Shells;

use crate::{
    args::{Format, How, OnAsk, RunOptions},
    build,
    exit::{Exit, Failure},
    expand::{Typist, is_internal},
    inline::Asker,
    input::{self, Prompt},
    narrate::{Narrator, screen},
    print::{Out, flat, to_stderr},
    sessions::rm::Retention,
    shape::{self, Answer},
    signals::Signals,
    tape::Tape,
    wardrobe::{Circumstances, Wardrobe},
};

/// A headless title is the prompt's first line.
const TITLE_CHARS_MAX: usize = 80;

/// After Ctrl-C the process is gone within two seconds, whatever its tools do.
const INTERRUPT_MAX: Duration = Duration::from_millis(1_500);

/// How long whoever works in the background may take to put it down.
const PAUSE_MAX: Duration = Duration::from_millis(1_200);

/// How often a sender looks whether the process it wrote to still lives.
const OWNER_LOOK: Duration = Duration::from_millis(200);

/// What a process that has to go now may still take to say what it came to.
const LAST_WORDS_MAX: Duration = Duration::from_millis(300);

/// Facts read at once while another process runs the session.
const PAGE: usize = 1_000;

pub(crate) async fn run(options: Box<RunOptions>) -> Result<Exit, Failure> {
    let places = build::places(options.how.cwd.as_deref())?;
    let config = build::configuration(&places, &options.how)?;
    build::warn(&config, options.how.quiet);
    let Prompt { blocks, piped } = input::prompt(&options.prompt)?;
    let (retention, quiet) = (Retention::of(&places, &config)?, options.how.quiet);
    let desk = Desk::new(places, config, options.how)?;
    let entry = desk.entry(&blocks, if piped { Voice::Piped } else { Voice::User });
    let target = desk.target(options.go_on, options.session.as_deref()).await?;
    if let Some(wish) = fork::wish(&blocks[0]).filter(|_| !piped && !desk.has_command("fork")) {
        let nothing = || Failure::usage("/fork needs a session to fork: `posse run -s ID '/fork …'`, or -c for the latest one");
        let source = match options.session.as_deref() {
            Some(id) => desk.client.find(id).await.map_err(client_failure)?,
            None => target.clone().ok_or_else(nothing)?,
        };
        let root = target.ok_or_else(nothing)?;
        let said: Vec<String> =
            std::iter::once(wish.words).chain(blocks.iter().skip(1).cloned()).filter(|block| !block.is_empty()).collect();
        let entry = (!said.is_empty()).then(|| desk.entry(&said, Voice::User));
        return desk.at(&root)?.branch(&source, wish.at, entry).await;
    }
    let done = match target {
        Some(summary) => desk.at(&summary)?.go_on(&summary, Some(entry)).await,
        None => desk.begin(entry, title(&blocks[0])).await,
    };
    // Who was interrupted wants to be gone.
    if matches!(done, Ok(Exit::Done | Exit::Failed | Exit::Limit | Exit::Unanswered)) {
        retention.apply(quiet).await;
    }
    done
}

pub(crate) async fn resume(id: &str, how: How) -> Result<Exit, Failure> {
    let places = build::places(how.cwd.as_deref())?;
    let config = build::configuration(&places, &how)?;
    build::warn(&config, how.quiet);
    let desk = Desk::new(places, config, how)?;
    let summary = desk.find(id).await?;
    desk.at(&summary)?.go_on(&summary, None).await
}

/// Brings a letter to a task of a tree that nobody runs: it waits in the inbox, and whoever opens the tree takes it in.
/// Goes on until the tree is at rest, like [`resume`].
pub(crate) async fn deliver(task: &Summary, letter: Letter, how: How) -> Result<Exit, Failure> {
    let places = build::places(how.cwd.as_deref())?;
    let config = build::configuration(&places, &how)?;
    build::warn(&config, how.quiet);
    let desk = Desk::new(places, config, how)?;
    let root = desk.find(task.root.as_str()).await?;
    let desk = desk.at(&root)?;
    let (inbox, id) = (desk.hub.world().inbox.clone(), LetterId::fresh(&*desk.hub.world().ids));
    let posted = posse_session::Posted { id: id.clone(), root: root.session.clone(), to: task.session.clone(), letter };
    inbox.post(posted).await.map_err(|error| open_failure(OpenError::from(error)))?;
    let done = desk.go_on(&root, None).await;
    if done.is_err() {
        // Said once more it would be said twice. If it was taken in, it is not there any more.
        let _ = inbox.withdraw(&id).await;
    }
    done
}

/// One invocation: what it was told, and the world it works in.
struct Desk {
    places: Places,
    config: Config,
    how: How,
    hub: Hub,
    client: Local,
    asker: Asker,
    /// What calls have left running in the background.
    shells: Arc<Shells>,
    out: Out,
    /// What models say is kept, or was.
    tape: Tape,
    /// The shape of the final answer.
    answer: Option<Answer>,
    /// Where the session began, if it did.
    home: String,
    /// Where each log of the tree stood when this run began.
    heads: HashMap<SessionId, Seq>,
    /// The answer that was printed before everything was at rest; nothing is drawn over it from then on.
    said: Option<(String, screen::Still)>,
}

impl Desk {
    fn new(places: Places, mut config: Config, how: How) -> Result<Self, Failure> {
        let tape = Tape::open(&how, &places, &config)?;
        tape.configure(&mut config);
        let answer = how.output_schema.as_deref().map(Answer::read).transpose().map_err(Failure::usage)?;
        let hub = build::hub(&places, &config)?;
        let client = Local::new(hub.world().clone());
        let home = places.cwd.display().to_string();
        Ok(Self {
            asker: Asker::new(&how),
            shells: Arc::new(if config.background() { Shells::default() } else { Shells::default().without_background() }),
            places,
            config,
            how,
            hub,
            client,
            out: Out::start(),
            tape,
            answer,
            home,
            heads: HashMap::new(),
            said: None,
        })
    }

    fn entry(&self, blocks: &[String], voice: Voice) -> Entry {
        let id = EntryId::fresh(&*self.hub.world().ids);
        let parts = blocks.iter().map(|block| Part::text(block.as_str())).collect();
        // What is piped in beside a prompt is never a command.
        let typed = blocks.first().is_some_and(|block| Typist::concerns(block));
        let (source, delivery, priority) = (Source::User, Delivery::NextStep, Priority::Next);
        Entry { id, source, delivery, priority, parts, typed, voice, allowed: Vec::new() }
    }

    /// Whether the user has a command of this name: then it is that.
    fn has_command(&self, name: &str) -> bool {
        let skills = posse_config::skills(&self.places, &self.config);
        posse_config::commands(&self.places, &self.config, &skills).find(name).is_some()
    }

    async fn find(&self, id: &str) -> Result<Summary, Failure> {
        let found = self.client.find(id).await.map_err(client_failure)?;
        if found.session == found.root { Ok(found) } else { self.client.find(found.root.as_str()).await.map_err(client_failure) }
    }

    async fn target(&self, go_on: bool, session: Option<&str>) -> Result<Option<Summary>, Failure> {
        if let Some(id) = session {
            let found = self.find(id).await?;
            if !found.session.as_str().starts_with(id) && !self.how.quiet {
                to_stderr(&format!("posse: {id} is an agent's session; your words go to {}, whose agent it is", found.session));
            }
            return Ok(Some(found));
        }
        if !go_on {
            return Ok(None);
        }
        let here = self.places.cwd.display().to_string();
        let all = self.client.sessions().await.map_err(client_failure)?;
        let latest = all.into_iter().find(|summary| summary.kind == Some(Kind::Root) && summary.directory == here);
        latest.map(Some).ok_or_else(|| Failure::usage(format!("there is no session in {here} to go on with; leave -c out to begin one")))
    }

    /// A session goes on where it began, not where this command happens to stand; `-C` says otherwise.
    fn at(mut self, summary: &Summary) -> Result<Self, Failure> {
        self.home.clone_from(&summary.directory);
        let directory = Path::new(&summary.directory);
        if self.how.cwd.is_none() && directory != self.places.cwd {
            if !directory.is_dir() {
                let words = format!("{} worked in {}, which is gone; give -C DIR to go on elsewhere", summary.session, summary.directory);
                return Err(Failure::usage(words));
            }
            self.places = build::places(Some(directory))?;
            self.config = build::configuration(&self.places, &self.how)?;
        }
        Ok(self)
    }

    fn limits(&self) -> Limits {
        let configured = self.config.limits.spending();
        Limits {
            steps: self.how.max_steps.or(configured.steps),
            tokens: self.how.max_tokens.or(configured.tokens),
            cost_usd: self.how.max_cost.or(configured.cost_usd),
            tasks: configured.tasks,
        }
    }

    async fn begin(self, entry: Entry, title: String) -> Result<Exit, Failure> {
        let agents = self.agents()?;
        let agent = primary(&agents, &self.config, self.how.agent.as_deref())?.clone();
        let model = self.model_for(&agent)?;
        let session = SessionId::fresh(&*self.hub.world().ids);
        let name = model.facts().name.clone();
        let wardrobe = self.wardrobe(agents, model, "", &agent.name)?;
        known_commands(&wardrobe, &entry)?;
        let birth = Birth {
            kind: Kind::Root,
            root: session.clone(),
            parent: None,
            directory: self.places.cwd.display().to_string(),
            title,
            recipe: wardrobe.recipe_of(&agent, name),
            ceiling: Vec::new(),
            depth: 0,
            strict_shell: false,
            worktree: None,
            within: None,
        };
        let narrator = self.narrator(&session, 0);
        let created = birth.into_created();
        let handle = self.hub.create(session, created, entry, wardrobe, self.limits()).await.map_err(open_failure)?;
        self.drive(handle, Since::default(), narrator).await
    }

    fn agents(&self) -> Result<Agents, Failure> {
        let agents = posse_config::agents(&self.places, &self.config, self.how.agents.as_deref());
        let agents = agents.map_err(|error| Failure::usage(error.to_string()))?;
        for problem in agents.dead_denies.iter().chain(&agents.announced).filter(|_| !self.how.quiet) {
            to_stderr(&format!("posse: {problem}"));
        }
        Ok(agents)
    }

    fn model(&self, how: &How) -> Result<Arc<dyn Model>, Failure> {
        self.tape.model(how.model.as_deref(), || build::model(&self.config, how))
    }

    /// What the command line names, else what the agent does, else what is configured.
    fn model_for(&self, agent: &Agent) -> Result<Arc<dyn Model>, Failure> {
        let own = agent.model.as_deref().filter(|name| self.how.model.is_none() && *name != "inherit");
        let Some(own) = own else { return self.model(&self.how) };
        let wanted = How { model: Some(own.to_owned()), quiet: self.how.quiet, ..How::default() };
        self.model(&wanted).or_else(|failure| {
            if !self.how.quiet {
                let words = failure.into_words();
                to_stderr(&format!("posse: {}: model of {}: {words}; using the default model", agent.origin, agent.name));
            }
            self.model(&self.how)
        })
    }

    fn wardrobe(&self, agents: Agents, model: Arc<dyn Model>, recorded: &str, speaker: &str) -> Result<Arc<Wardrobe>, Failure> {
        let dialect = build::dialect(&self.config, self.how.dialect.as_deref())?;
        let attended = self.asker.asking() == posse_session::Asking::Open;
        let circumstances = Circumstances {
            asking: self.asker.asking(),
            forks: build::forks(&self.config, self.how.fork, dialect, attended).0,
            dialect,
            shells: self.shells.clone(),
            switches: build::mention_switches(&self.config)?,
            speaker: speaker.to_owned(),
            home: self.home.clone(),
            quiet: self.how.quiet,
            answer: self.answer.clone(),
        };
        let wardrobe = Wardrobe::new(self.places.clone(), self.config.clone(), agents, model, recorded, circumstances)?;
        let wardrobe = wardrobe.with_tape(self.tape.clone());
        for words in wardrobe.announced().iter().filter(|_| !self.how.quiet) {
            to_stderr(&format!("posse: {words}"));
        }
        Ok(Arc::new(wardrobe))
    }

    fn narrator(&self, session: &SessionId, after: Seq) -> Narrator {
        Narrator::start(&self.hub, session, after, &self.how, self.out.clone())
    }

    /// Goes on with a session: with new words, or where it stopped.
    async fn go_on(mut self, summary: &Summary, entry: Option<Entry>) -> Result<Exit, Failure> {
        let client = Local::new(self.hub.world().clone());
        for words in crate::tasks::home::finish_killed(&self.places, client, &summary.root).await {
            if !self.how.quiet {
                to_stderr(&crate::print::safe(&format!("posse: {words}")));
            }
        }
        let born = self.born_on(summary).await?;
        let model = self.model_of(summary, &born)?;
        // Without new words there may be nothing to do: then the last answer is what there is to say.
        let last_answer = summary.last_reply.map_or(0, |reply| reply - 1);
        let text = if entry.is_some() { summary.head } else { last_answer };
        let since = Since { calls: last_answer, text, run: summary.head };
        let mut narrator = self.narrator(&summary.session, summary.head);
        // What is in the logs already is not told again.
        narrator.ready().await;
        for known in self.tree(&summary.session).await? {
            self.heads.insert(known.session, known.head);
        }
        loop {
            let wardrobe = self.wardrobe(self.agents()?, model.clone(), &born, &summary.agent)?;
            entry.iter().try_for_each(|entry| known_commands(&wardrobe, entry))?;
            let then = entry.clone().map_or(Command::Resume { by: By::User }, Command::Say);
            match self.hub.open(&summary.session, &summary.root, wardrobe, self.limits(), vec![then]).await {
                Ok(handle) => return self.drive(handle, since, narrator).await,
                Err(OpenError::Held { by }) => match self.by_letter(summary, entry.clone(), by).await? {
                    Posted::Settled(session) => return self.conclude(Ended::Settled(&session), &summary.session, since, narrator).await,
                    Posted::Interrupted => return self.conclude(Ended::Forced, &summary.session, since, narrator).await,
                    // Go on in its place. Words that it had taken in are known by their id and are not said twice.
                    Posted::OwnerGone => {}
                },
                Err(error) => return Err(open_failure(error)),
            }
        }
    }

    /// The model a session began with: it stands in the recipes of the whole tree for whatever leads it now.
    async fn born_on(&self, summary: &Summary) -> Result<String, Failure> {
        let first = self.hub.world().log.read(&summary.session, 0, 1).await.map_err(|error| open_failure(OpenError::from(error)))?;
        let recipe = first.first().and_then(|record| Birth::of(&record.event)).map(|birth| birth.recipe.model);
        Ok(recipe.unwrap_or_else(|| summary.model.clone()))
    }

    /// The model this command names, else the one the session began with: another one counts for its turn or its command.
    fn model_of(&self, summary: &Summary, born: &str) -> Result<Arc<dyn Model>, Failure> {
        if self.how.model.is_some() || born.is_empty() || born == Explorer::NAME {
            return self.model(&self.how);
        }
        let recorded = How { model: Some(born.to_owned()), quiet: self.how.quiet, ..How::default() };
        self.model(&recorded)
            .map_err(|failure| failure.with(&format!("{} runs on {born}; give -m MODEL to go on with another", summary.session)))
    }

    async fn drive(mut self, handle: Handle, since: Since, narrator: Narrator) -> Result<Exit, Failure> {
        let mut signals = Signals::listen().map_err(|error| Failure::failed(format!("signals: {error}")))?;
        let session = handle.id().clone();
        let mut limits = Deadline::new(&self.how);
        let mut interrupted = false;
        let ended = loop {
            let settled = tokio::select! {
                settled = handle.settled() => settled,
                () = signals.next() => {
                    // The answer is there: what is done beside it ends, and nothing was interrupted.
                    if crate::beside::dismiss(&handle).await {
                        continue;
                    }
                    interrupted = true;
                    break interrupt(&handle, &mut signals).await;
                }
                () = self.out.broken() => {
                    interrupted = true;
                    break interrupt(&handle, &mut signals).await;
                }
                never = self.asker.serve(&handle, &*self.hub.world().log) => match never {},
                words = limits.reached() => {
                    // A run that has just ended needs no limit.
                    let _ = handle.limit(Limit::Time, words).await;
                    continue;
                }
                reply = crate::beside::answered(&handle), if self.said.is_none() && self.says_early() => {
                    self.say_early(&session, reply).await;
                    continue;
                }
                () = waited_enough(&handle, self.how.wait_background) => {
                    if crate::beside::dismiss(&handle).await {
                        continue;
                    }
                    break self.leave_the_rest(&handle).await;
                }
            };
            match settled {
                // Words may have come in by letter meanwhile: then it goes on.
                Ok(session) if handle.finish().await => break Some(Ok(session)),
                Ok(_) => {}
                Err(error) => break Some(Err(error)),
            }
        };
        self.say_what_ends();
        handle.close().await;
        match ended {
            Some(Ok(_)) if interrupted => self.conclude(Ended::Interrupted, &session, since, narrator).await,
            Some(Ok(settled)) => self.conclude(Ended::Settled(&settled), &session, since, narrator).await,
            Some(Err(error)) => self.broken(&session, since, error, narrator).await,
            None => {
                let last_words = self.conclude(Ended::Forced, &session, since, narrator);
                let _ = tokio::time::timeout(LAST_WORDS_MAX, last_words).await;
                std::process::exit(130)
            }
        }
    }

    /// Text is printed as it is; an object is of the whole run.
    fn says_early(&self) -> bool {
        self.how.format.unwrap_or(Format::Text) == Format::Text && self.answer.is_none()
    }

    /// Nobody waits for an answer because posse takes notes.
    async fn say_early(&mut self, session: &SessionId, reply: Seq) {
        let page = self.client.page(session, reply.saturating_sub(1), 1).await.unwrap_or_default();
        let text = page.first().map(|record| if let Event::Replied { parts, .. } = &record.event { said(parts) } else { String::new() });
        let (text, still) = (text.unwrap_or_default(), screen::still());
        if !text.is_empty() {
            self.out.line(text.clone()).await;
        }
        self.said = Some((text, still));
    }

    /// The answer is there and what runs in the background takes too long: it stays open for whoever goes on with it.
    async fn leave_the_rest(&self, handle: &Handle) -> Option<Result<Arc<Session>, RunError>> {
        let left = handle.session();
        if let Ok(Some(session)) = &left
            && !self.how.quiet
        {
            let counted = |count: usize, what: &str| match count {
                0 => None,
                1 => Some(format!("1 {what}")),
                more => Some(format!("{more} {what}s")),
            };
            let left = [counted(session.tasks().len(), "task"), counted(session.kept().len(), "shell")];
            let left = left.into_iter().flatten().collect::<Vec<_>>().join(" and ");
            let id = session.id();
            to_stderr(&format!("posse: not waiting for {left} in the background; `posse sessions resume {id}` goes on with it"));
        }
        handle.pause(PAUSE_MAX).await;
        left.transpose()
    }

    /// Background shells do not outlive this process; whoever had them started should know.
    fn say_what_ends(&self) {
        let commands = self.shells.running();
        if !commands.is_empty() && !self.how.quiet {
            let were = if commands.len() == 1 { "shell was" } else { "shells were" };
            to_stderr(&format!("posse: {} background {were} ended: {}", commands.len(), crate::print::safe(&commands.join(", "))));
        }
    }

    /// Says what the session came to, and everything before it that was not said yet. A reader that does not read is
    /// waited for, until a signal says otherwise.
    async fn conclude(self, ended: Ended<'_>, session: &SessionId, since: Since, narrator: Narrator) -> Result<Exit, Failure> {
        let mut signals = Signals::listen().map_err(|error| Failure::failed(format!("signals: {error}")))?;
        tokio::select! {
            said = self.tell(ended, session, since, narrator) => said,
            () = signals.next() => std::process::exit(130),
        }
    }

    async fn tell(self, ended: Ended<'_>, session: &SessionId, since: Since, mut narrator: Narrator) -> Result<Exit, Failure> {
        narrator.finish().await;
        drop(narrator);
        let facts = self.facts(session, since.calls).await.map_err(client_failure)?;
        let tree = self.tree(session).await?;
        let (status, error) = match ended {
            Ended::Settled(session) => status_of(session),
            Ended::Interrupted | Ended::Forced => (RunStatus::Interrupted, Some("interrupted".to_owned())),
        };
        let error = error.map(|error| with_model(status, error, tree.first(), &facts, since));
        let mut report = report(status, error, &tree, &facts, since);
        for below in tree.iter().filter(|below| below.session != *session && 0 < below.denied) {
            let facts = self.client.facts(&below.session, 0).await.map_err(client_failure)?;
            report.add_below(below, &facts, self.heads.get(&below.session).copied().unwrap_or(0));
        }
        if report.status == RunStatus::Done
            && let Some(words) = self.budget_ended(&tree, session).await?
        {
            (report.status, report.error) = (RunStatus::Limit, Some(words));
        }
        let mut needs_model = status == RunStatus::Failed && last_failure(&facts) == Some(ModelFailure::NeedsModel);
        if report.status == RunStatus::Done
            && let Some(words) = self.needed_a_model(&tree, session).await?
        {
            (needs_model, report.status, report.error) = (true, RunStatus::Failed, Some(words));
        }
        if self.answer.is_some() && report.status == RunStatus::Done {
            report.structured = shape::value_of(&report.result);
            // Without the fence that some models put around it.
            report.result = report.structured.as_ref().map_or(report.result, ToString::to_string);
            // Who answered may have been another process, or an agent that the user ran.
            let wrong = self.answer.as_ref().filter(|_| !report.result.is_empty()).and_then(|answer| answer.wrong(&report.result));
            if let Some(wrong) = wrong {
                (report.status, report.structured) = (RunStatus::Failed, None);
                report.error = Some(format!("the answer does not fit the schema: {wrong}"));
            }
        }
        if report.result.is_empty() && report.status == RunStatus::Done {
            match compacted(&facts, since) {
                Ok(words) => report.result = words,
                Err(words) => (report.status, report.error) = (RunStatus::Failed, Some(words)),
            }
        }
        let exit = self.exit(&report, needs_model);
        let unanswered = (exit == Exit::Unanswered).then(|| posse_api::words::unanswered(&report.denied, self.how.quiet));
        if self.say(&report, unanswered.as_deref()).await { Ok(exit) } else { Ok(Exit::Failed) }
    }

    /// Why a budget of the tree ended somebody below in this run. The root may still have had enough for its last words.
    async fn budget_ended(&self, tree: &[Summary], root: &SessionId) -> Result<Option<String>, Failure> {
        for below in
            tree.iter().filter(|below| below.session != *root && below.kind != Some(Kind::Internal) && below.status == Status::Limit)
        {
            let since = self.heads.get(&below.session).copied().unwrap_or(0);
            let facts = self.client.facts(&below.session, since).await.map_err(client_failure)?;
            let ended = facts.iter().find_map(|record| match &record.event {
                Event::LimitReached { limit: Limit::Cost | Limit::Tokens | Limit::Time, words, own: false } => Some(words.clone()),
                _ => None,
            });
            if let Some(words) = ended {
                return Ok(Some(format!("{words}; it ended {} ({})", below.agent, below.session)));
            }
        }
        Ok(None)
    }

    /// Why somebody below could do nothing without a model in this run. Who works offline only repeats it.
    async fn needed_a_model(&self, tree: &[Summary], root: &SessionId) -> Result<Option<String>, Failure> {
        let is_offline = |summary: &Summary| summary.model == Explorer::NAME;
        if !tree.iter().any(|summary| summary.session == *root && is_offline(summary)) {
            return Ok(None);
        }
        let is_work = |below: &&Summary| below.session != *root && below.kind != Some(Kind::Internal);
        for below in tree.iter().filter(is_work).filter(|below| below.status == Status::Failed && is_offline(below)) {
            let since = self.heads.get(&below.session).copied().unwrap_or(0);
            let facts = self.client.facts(&below.session, since).await.map_err(client_failure)?;
            if last_failure(&facts) == Some(ModelFailure::NeedsModel) {
                return Ok(Some(below.error.clone()));
            }
        }
        Ok(None)
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

    /// What a report is made of. What was said to the session is not: it may be megabytes, and stays where it is.
    async fn facts(&self, session: &SessionId, after: Seq) -> Result<Vec<Record>, ClientError> {
        let unreadable = |error| match error {
            ReadError::Missing => ClientError::Missing(String::new()),
            ReadError::Unavailable(why) => ClientError::Unavailable(why),
        };
        let log = &*self.hub.world().log;
        let mut facts = read_all(log, session, after).await.map_err(unreadable)?;
        for record in facts.iter_mut().filter(|record| !matches!(record.event, Event::Queued { .. })) {
            restore(log, std::slice::from_mut(record)).await.map_err(unreadable)?;
        }
        Ok(facts)
    }

    async fn tree(&self, root: &SessionId) -> Result<Vec<Summary>, Failure> {
        let summaries = self.hub.world().log.summaries(Some(root)).await;
        let mut tree = summaries.map_err(|error| Failure::failed(posse_api::words::storage(&error.to_string())))?;
        // Ids keep the order in which the calls stood in a reply.
        tree.sort_by_key(|summary| (summary.session != *root, summary.session.clone()));
        Ok(tree)
    }

    /// `unanswered`: what to do about what nobody could allow. `false` when stdout could not be written.
    async fn say(self, report: &Report, unanswered: Option<&str>) -> bool {
        match self.how.format.unwrap_or(Format::Text) {
            Format::Text if report.result.is_empty() || self.said.as_ref().is_some_and(|(said, _)| *said == report.result) => {}
            Format::Text => self.out.line(report.result.clone()).await,
            Format::Json => self.out.line(serde_json::to_string(report).unwrap_or_default()).await,
            Format::StreamJson => {
                let mut line = serde_json::json!({"type": "result"});
                if let (Some(line), Ok(serde_json::Value::Object(fields))) = (line.as_object_mut(), serde_json::to_value(report)) {
                    line.extend(fields);
                }
                self.out.line(line.to_string()).await;
            }
        }
        let written = self.out.close().await;
        if let Some(error) = &report.error {
            to_stderr(&format!("posse: {error}"));
        }
        if let Some(cut) = report.cut.as_ref().filter(|_| !self.how.quiet) {
            to_stderr(&format!("posse: {cut}"));
        }
        self.tape.report(self.how.quiet);
        if let Some(suggestion) =
            report.suggestion.as_ref().filter(|_| !self.how.quiet && self.how.format.unwrap_or(Format::Text) == Format::Text)
        {
            crate::beside::suggest(suggestion);
        }
        for denial in report.denied.iter().filter(|_| !self.how.quiet) {
            to_stderr(&format!("posse: {}", flat(&posse_api::words::denial(denial))));
        }
        // It is why the exit code says that something went wrong.
        if let Some(words) = unanswered {
            to_stderr(&format!("posse: {}", flat(words)));
        }
        written
    }

    /// The log could not be written, or is someone else's now.
    async fn broken(self, session: &SessionId, since: Since, error: RunError, mut narrator: Narrator) -> Result<Exit, Failure> {
        narrator.finish().await;
        drop(narrator);
        let words = match error {
            RunError::Unavailable(why) => posse_api::words::storage_in(session, &why),
            other => format!("{other}; `posse sessions show {session}` tells how it went on"),
        };
        if self.how.format == Some(Format::Text) {
            return Err(Failure::failed(words));
        }
        let tree = self.tree(session).await.unwrap_or_default();
        let facts = self.facts(session, since.calls).await.unwrap_or_default();
        self.say(&report(RunStatus::Failed, Some(words), &tree, &facts, since), None).await;
        Ok(Exit::Failed)
    }

    /// Another process runs this session: say it by letter, and wait for what comes of it.
    async fn by_letter(&self, summary: &Summary, entry: Option<Entry>, by: Option<u32>) -> Result<Posted, Failure> {
        let owner = by.map_or("another process".to_owned(), |pid| format!("process {pid}"));
        let letter = entry.map_or(Letter::Resume, |entry| Letter::Say { entry });
        if !self.how.quiet {
            to_stderr(&format!("posse: {owner} runs {}; posting to it", summary.session));
        }
        if !self.client.post(&summary.session, letter).await.map_err(client_failure)? {
            return Ok(Posted::OwnerGone);
        }
        let mut signals = Signals::listen().map_err(|error| Failure::failed(format!("signals: {error}")))?;
        let world = self.hub.world();
        let mut session = Session::new(summary.session.clone());
        loop {
            let page =
                world.log.read(&summary.session, session.head(), PAGE).await.map_err(|error| open_failure(OpenError::from(error)))?;
            page.iter().for_each(|record| session.apply(record));
            if page.len() == PAGE {
                continue;
            }
            if session.is_settled() {
                return Ok(Posted::Settled(Box::new(session)));
            }
            tokio::select! {
                () = world.log.changed(&summary.session, session.head()) => {}
                () = tokio::time::sleep(OWNER_LOOK) => {
                    // It may have taken the letter in and died before it did anything about it.
                    if !world.lease.is_held(&summary.root).await.unwrap_or(true) {
                        return Ok(Posted::OwnerGone);
                    }
                }
                () = signals.next() => {
                    to_stderr(&format!("posse: no longer waiting; {owner} goes on"));
                    return Ok(Posted::Interrupted);
                }
            }
        }
    }
}

/// How a session ended, as far as this process knows.
enum Ended<'a> {
    Settled(&'a Session),
    /// The user ended it, and it came to rest, or what is left of it was put down.
    Interrupted,
    /// It would not end in time.
    Forced,
}

/// What came of a letter to the process that runs a session.
enum Posted {
    Settled(Box<Session>),
    Interrupted,
    /// Nobody runs the session any more, and it may still have something to do.
    OwnerGone,
}

/// The clock of the whole run; it rings once. What a turn or a task may take is watched where it runs.
struct Deadline(Option<(tokio::time::Instant, String)>);

impl Deadline {
    fn new(how: &How) -> Self {
        let words = |limit: Duration| format!("the time limit of {} is used up (--timeout)", posse_session::format_duration(limit));
        Self(how.timeout.map(|limit| (tokio::time::Instant::now() + limit, words(limit))))
    }

    /// Ready, with words, when the time is over.
    async fn reached(&mut self) -> String {
        match &self.0 {
            Some((at, _)) => tokio::time::sleep_until(*at).await,
            None => std::future::pending().await,
        }
        self.0.take().map(|(_, words)| words).unwrap_or_default()
    }
}

/// Ready when the session has had nothing to do but to wait for what runs in the background, for so long in one piece.
async fn waited_enough(handle: &Handle, most: Option<Duration>) {
    let Some(most) = most else { return std::future::pending().await };
    loop {
        if handle.only_waits().await.is_err() {
            return std::future::pending().await;
        }
        let only_waits = || handle.session().is_ok_and(|session| session.is_some_and(|session| session.only_waits()));
        let busy_again = async {
            while only_waits() {
                handle.changed().await;
            }
        };
        if tokio::time::timeout(most, busy_again).await.is_err() && only_waits() {
            return;
        }
    }
}

/// Ctrl-C: ends the turn. A second one, or a tool that will not end, does not keep the process: then there is no session
/// at rest to speak of.
async fn interrupt(handle: &Handle, signals: &mut Signals) -> Option<Result<Arc<Session>, RunError>> {
    let ended = async {
        handle.interrupt().await?;
        // What runs in the background is put down and stays open.
        tokio::join!(handle.pause(PAUSE_MAX), handle.only_waits()).1?;
        handle.session().transpose().unwrap_or(Err(RunError::Moved))
    };
    tokio::select! {
        ended = ended => Some(ended),
        () = signals.next() => None,
        () = tokio::time::sleep(INTERRUPT_MAX) => None,
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

/// What ended a run, with the model it was about. A limit that was used up by failures of the model says which.
fn with_model(status: RunStatus, error: String, root: Option<&Summary>, facts: &[Record], since: Since) -> String {
    let new = facts.iter().rev().filter(|record| since.run < record.seq);
    // What came of the last step, before whatever ended it.
    let last = new.filter_map(|record| match &record.event {
        Event::Replied { .. } => Some(None),
        Event::StepFailed { failure: Some(failure), error, .. } => Some(Some((*failure, error.as_str()))),
        _ => None,
    });
    let Some((failure, failed)) = last.into_iter().next().flatten() else { return error };
    // Nobody was asked, or the refusal names who refuses.
    let is_told = matches!(failure, ModelFailure::NeedsModel | ModelFailure::BadRequest | ModelFailure::TooLong);
    let model = root.map_or("", |root| root.stand_in.as_deref().unwrap_or(&root.model));
    let named = |words: &str| match words.contains(model) {
        true => words.to_owned(),
        false => format!("{model}: {words}"),
    };
    match status {
        RunStatus::Limit if !error.contains(failed) => format!("{error}; the model had failed before: {}", named(failed)),
        RunStatus::Failed if error.contains(failed) && !is_told => named(&error),
        _ => error,
    }
}

/// What came of a summary that the user asked for: nobody has said anything. An error if it was tried in vain.
fn compacted(facts: &[Record], since: Since) -> Result<String, String> {
    let new = || facts.iter().rev().filter(|record| since.run < record.seq);
    let is_try = |record: &Record| matches!(&record.event, Event::TaskStarted { spawn, .. } if matches!(spawn.purpose, Some(Purpose::Compact { .. })));
    let came = new().find_map(|record| match &record.event {
        Event::Compacted { summary, .. } => {
            Some(Ok(format!("The conversation is summed up; this is what the model still knows of it:\n\n{}", summary.inline()?)))
        }
        Event::CompactionFailed { why, smaller: false } => {
            let words = format!("the conversation was not summed up: {why}");
            Some(if new().any(is_try) { Err(words) } else { Ok(words) })
        }
        _ => None,
    });
    came.unwrap_or_else(|| Ok(String::new()))
}

fn last_failure(facts: &[Record]) -> Option<ModelFailure> {
    facts.iter().rev().find_map(|record| match record.event {
        Event::StepFailed { failure, .. } => failure,
        _ => None,
    })
}

/// A command that nobody knows is a slip of the user's, and no model's business.
fn known_commands(wardrobe: &Wardrobe, entry: &Entry) -> Result<(), Failure> {
    let text = entry.parts.iter().find_map(|part| if let Part::Text { text, .. } = part { text.inline() } else { None });
    let Some(text) = text.filter(|_| entry.typed) else { return Ok(()) };
    wardrobe.report_models(text, &entry.voice);
    wardrobe.unknown_command(text, &entry.voice).map_or(Ok(()), |words| Err(Failure::usage(words)))
}

/// Who answers: the agent that was named, or the default one.
fn primary<'a>(agents: &'a Agents, config: &Config, name: Option<&str>) -> Result<&'a Agent, Failure> {
    let Some(name) = name else { return agents.default(config).map_err(Failure::usage) };
    let primaries = || agents.primaries().map(|agent| agent.name.as_str()).collect::<Vec<_>>().join(", ");
    match agents.get(name) {
        Some(agent) if is_internal(agent) => {
            let words = format!("--agent: {} is posse's own, for work inside a session. Choose one of: {}", agent.name, primaries());
            Err(Failure::usage(words))
        }
        Some(agent) if agent.mode.is_primary() => Ok(agent),
        Some(agent) => {
            let name = &agent.name;
            let words = format!("--agent: {name} is a subagent, which works on one task: `posse run \"@{name} …\"` gives it one");
            Err(Failure::usage(format!("{words}. To begin a session, choose one of: {}", primaries())))
        }
        None => Err(Failure::usage(format!("--agent: there is no agent `{name}`. Choose one of: {}", primaries()))),
    }
}

fn title(prompt: &str) -> String {
    let line = prompt.trim().lines().next().unwrap_or_default();
    let title: String = line.chars().take(TITLE_CHARS_MAX).collect();
    if title.len() < line.len() { format!("{title}…") } else { title }
}

pub(crate) fn client_failure(error: ClientError) -> Failure {
    match error {
        ClientError::Missing(_) | ClientError::NoAsk(_) | ClientError::NoCall(_) | ClientError::Ambiguous { .. } => {
            Failure::usage(error.to_string())
        }
        ClientError::Unavailable(why) => Failure::failed(posse_api::words::storage(&why)),
    }
}

pub(crate) fn open_failure(error: OpenError) -> Failure {
    match error {
        OpenError::Held { .. } => {
            Failure::failed(format!("{error}; post to it with `posse run -s ID`, or stop it with `posse sessions stop ID`"))
        }
        OpenError::Missing | OpenError::Outfit(_) => Failure::usage(error.to_string()),
        OpenError::Foreign => Failure::failed(format!("{error}: it can be shown, not continued; update posse")),
        OpenError::Unavailable(why) => Failure::failed(posse_api::words::storage(&why)),
    }
}
