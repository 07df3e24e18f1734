//! An office for the loop: memory log, scripted model, plain tools, paused time. Tests read as stories.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use posse_engine::{Handle, Hub, Lanes, OpenError, Outfit, Outfits, Ulids, World};
use posse_models::{Scripted, ScriptedReply, Seen};
use posse_session::{
    Asking, Birth, Block, BoxFuture, CallId, Clock, Command, CommandLine, Entry, EntryId, Event, FORK, Forks, Head, Hook, Isolation, Kind,
    Left, Limits, Live, Log, Look, Message, Mode, Model, ModelError, ModelFacts, Outcome, Outputs, Process, Progress, Recipe, Record,
    Reply, Request, Role, Rules, Session, SessionId, SpawnError, Summary, Timestamp, To, Tool, ToolCall, ToolContext, ToolSpec, Touch,
    Workspace, Worktree,
};
use posse_store::{Fault, Memory};
use posse_tools::{Callable, Delegation, Dialect, Standing, Switches, messengers};
use serde_json::{Value, json};

/// The wall clock follows tokio's, so that paused time is everybody's time.
pub struct TestClock {
    began: tokio::time::Instant,
    /// How far somebody has turned it, in milliseconds.
    turned: AtomicI64,
}

impl TestClock {
    fn new() -> Self {
        Self { began: tokio::time::Instant::now(), turned: AtomicI64::new(0) }
    }

    pub fn turn(&self, by: i64) {
        self.turned.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        let ticked = u64::try_from(self.began.elapsed().as_millis()).unwrap();
        Timestamp((1_700_000_000_000 + ticked).saturating_add_signed(self.turned.load(Ordering::SeqCst)))
    }
}

/// What tools did, over all lives of the office.
pub type Witness = Arc<Mutex<Vec<String>>>;

/// `touch` writes, `peek` reads, `slow` takes as many seconds as told and can be stopped, `crash` panics.
struct Plain {
    spec: ToolSpec,
    repeatable: bool,
    witness: Witness,
}

impl Tool for Plain {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn look(&self, input: &Value, _: &dyn Workspace) -> Result<Look, String> {
        assert!(input.get("panic").is_none(), "the look is broken");
        if input.get("bad").is_some() {
            return Err("`bad` is not a parameter".into());
        }
        let touches = vec![Touch::new(&self.spec.name, input["what"].as_str().unwrap_or("*"))];
        Ok(Look { touches, repeatable: self.repeatable, title: String::new(), ..Look::default() })
    }

    fn run<'a>(&'a self, call: &'a ToolCall, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let what = call.input["what"].as_str().unwrap_or("").to_owned();
            if !self.repeatable {
                self.witness.lock().unwrap().push(call.id.to_string());
            }
            match self.spec.name.as_str() {
                "crash" => panic!("the tool is broken"),
                "slow" => {
                    let wait = Duration::from_millis(call.input["ms"].as_u64().unwrap_or(60_000));
                    let beats = async {
                        if call.input["beats"] != true {
                            std::future::pending::<()>().await;
                        }
                        // Shows every second that it is alive.
                        loop {
                            tokio::time::sleep(Duration::from_secs(1)).await;
                            context.live.show(Progress::Output { call: call.id.clone(), text: "still here".into() });
                        }
                    };
                    tokio::select! {
                        outcome = beats => outcome,
                        () = tokio::time::sleep(wait) => Outcome::done(format!("slept {what}")),
                        () = context.stop.stopped() => Outcome::cancelled("half asleep"),
                    }
                }
                // Leaves something running for as many seconds as told, which then says what it was told, or nothing.
                "keep" => {
                    let wait = Duration::from_millis(call.input["ms"].as_u64().unwrap_or(60_000));
                    let words = call.input["says"].as_str().map(str::to_owned);
                    let over = Box::pin(async move {
                        tokio::time::sleep(wait).await;
                        words
                    });
                    context.delegate.keep(&call.id, what.clone(), over).await;
                    Outcome::done(format!("kept {what}"))
                }
                // Leaves something running only when it is told to stop, which is too late: the witness hears when that is let go.
                "cling" => {
                    context.stop.stopped().await;
                    let left = LetGo(self.witness.clone(), format!("let go of {}", call.id));
                    let over = Box::pin(async move {
                        let _left = left;
                        std::future::pending().await
                    });
                    context.delegate.keep(&call.id, what, over).await;
                    Outcome::cancelled("left something")
                }
                "deaf" => {
                    tokio::time::sleep(Duration::from_secs(3_600)).await;
                    Outcome::done("woke up")
                }
                // As long as a listing.
                name if what == "big" => Outcome::done(format!("{name} {}", "big ".repeat(250))),
                name => Outcome::done(format!("{name} {what} ok")),
            }
        })
    }
}

/// Says when it is dropped.
struct LetGo(Witness, String);

impl Drop for LetGo {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(std::mem::take(&mut self.1));
    }
}

/// How many calls of a model are under way, and how many ever were at once.
#[derive(Default)]
pub struct Busy {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Busy {
    pub fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

/// A call of a model that is under way, dropped streams included.
struct Underway<'a>(&'a Busy);

impl<'a> Underway<'a> {
    fn new(busy: &'a Busy) -> Self {
        busy.most.fetch_max(busy.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        Self(busy)
    }
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What a model was sent, as bytes, and when.
pub type Sent = Arc<Mutex<Vec<(tokio::time::Instant, Request)>>>;

/// The scripted model, counted.
struct Counted(Arc<Scripted>, Arc<Busy>, Sent);

impl Model for Counted {
    fn facts(&self) -> &ModelFacts {
        self.0.facts()
    }

    fn encode_head(&self, head: &Head) -> Arc<[u8]> {
        self.0.encode_head(head)
    }

    fn encode(&self, message: &Message) -> Arc<[u8]> {
        self.0.encode(message)
    }

    fn reply<'a>(&'a self, request: Request, live: &'a dyn Live) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            let _underway = Underway::new(&self.1);
            self.2.lock().unwrap().push((tokio::time::Instant::now(), request.clone()));
            self.0.reply(request, live).await
        })
    }
}

/// Every agent has the same outfit; there are `worker`, `scout` and `owl`, the model `scripted/script` and the office's others.
struct Same {
    outfit: Outfit,
    budgets: HashMap<String, Limits>,
    walls: HashMap<String, Duration>,
    rules: HashMap<String, Value>,
    others: Vec<Arc<Scripted>>,
    sent: Sent,
    isolations: HashMap<String, Isolation>,
    yard: Option<Arc<Yard>>,
}

/// What a folder of a task looks like to whoever looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ground {
    #[default]
    Clean,
    /// Two files and one commit.
    Dirty,
    /// Nobody can tell.
    Unknown,
}

/// Folders for tasks, in memory: what was asked of them, in order, and which are there.
#[derive(Default)]
pub struct Yard {
    pub asked: Mutex<Vec<String>>,
    pub there: Mutex<BTreeMap<String, Worktree>>,
    pub ground: Mutex<Ground>,
    /// Whoever asks for a folder hears this.
    pub refusal: Mutex<Option<String>>,
    /// Whoever comes back to a folder hears this.
    pub lost: Mutex<Option<String>>,
    /// What every folder lacks.
    pub lacks: Mutex<Option<String>>,
    /// Whoever wants one removed hears this.
    pub stuck: Mutex<Option<String>>,
    /// A removal takes so long, and goes on when nobody waits for it any more.
    pub removal: Mutex<Duration>,
}

impl Yard {
    fn note(&self, words: String) {
        self.asked.lock().unwrap().push(words);
    }

    /// What was asked, by its verb.
    pub fn count(&self, verb: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|words| words.starts_with(verb)).count()
    }

    pub fn folders(&self) -> usize {
        self.there.lock().unwrap().len()
    }

    fn remove(&self, worktree: &Worktree) -> Result<bool, String> {
        if let Some(words) = self.stuck.lock().unwrap().clone() {
            return Err(words);
        }
        if *self.ground.lock().unwrap() != Ground::Clean {
            return Ok(false);
        }
        self.note(format!("removed {}", worktree.path));
        self.there.lock().unwrap().remove(&worktree.path);
        Ok(true)
    }
}

/// The output files, in memory.
#[derive(Default)]
pub struct Stories(pub Mutex<HashMap<SessionId, String>>);

impl Outputs for Stories {
    fn path(&self, session: &SessionId) -> PathBuf {
        PathBuf::from(format!("/stories/{session}.txt"))
    }

    fn begin(&self, session: &SessionId, story: &str) {
        self.0.lock().unwrap().insert(session.clone(), story.to_owned());
    }

    fn append(&self, session: &SessionId, text: &str) {
        self.0.lock().unwrap().entry(session.clone()).or_default().push_str(text);
    }
}

impl Outfits for Same {
    fn recipe(&self, parent: &Recipe, agent: &str, model: Option<&str>) -> Result<Recipe, String> {
        match model {
            Some(unknown) if unknown != parent.model && !self.others.iter().any(|other| other.facts().name == unknown) => {
                Err(format!("there is no model `{unknown}`"))
            }
            _ if agent == "nobody" => Err("There is no agent named `nobody`.".into()),
            model => Ok(Recipe {
                isolation: self.isolations.get(agent).copied(),
                agent: agent.into(),
                model: model.unwrap_or(&parent.model).into(),
                // Whoever is called `owl` works while others do other things.
                background: agent == "owl",
                ..Recipe::default()
            }),
        }
    }

    fn outfit(&self, _: &SessionId, birth: &Birth) -> Result<Outfit, String> {
        let mut outfit = self.outfit.clone();
        if let Some(other) = self.others.iter().find(|other| other.facts().name == birth.recipe.model) {
            outfit.model = Arc::new(Counted(other.clone(), Arc::default(), self.sent.clone()));
        }
        outfit.wall = self.walls.get(&birth.recipe.agent).copied().unwrap_or(outfit.wall);
        if let Some(rules) = self.rules.get(&birth.recipe.agent) {
            outfit.rules = Rules::from_config(rules, "/", &birth.recipe.agent).unwrap();
        }
        outfit.own_limits = self.budgets.get(&birth.recipe.agent).copied().unwrap_or_default();
        outfit.lacks = self.yard.as_ref().filter(|_| birth.worktree.is_some()).and_then(|yard| yard.lacks.lock().unwrap().clone());
        // Who speaks in a session that is not its own says so.
        if birth.parent.is_none() && birth.recipe.agent != "build" {
            Arc::make_mut(&mut outfit.head).system[0] = format!("you are a {}", birth.recipe.agent);
        }
        Ok(outfit)
    }

    fn make_worktree<'a>(
        &'a self,
        task: &'a SessionId,
        directory: &'a str,
        isolation: Isolation,
        title: &'a str,
    ) -> BoxFuture<'a, Result<(Worktree, String), String>> {
        Box::pin(async move {
            let Some(yard) = &self.yard else { return Err("there is no yard".to_owned()) };
            yard.note(format!("make {task} from {directory} {isolation:?} for {title}"));
            if let Some(words) = yard.refusal.lock().unwrap().clone() {
                return Err(words);
            }
            let path = format!("/yard/{task}");
            let worktree = Worktree { home: directory.to_owned(), path: path.clone(), branch: format!("posse/{task}"), base: "abc".into() };
            yard.there.lock().unwrap().insert(path.clone(), worktree.clone());
            Ok((worktree, format!("{path}/below")))
        })
    }

    fn ensure_worktree<'a>(&'a self, worktree: &'a Worktree) -> BoxFuture<'a, Result<Box<dyn Send + Sync>, String>> {
        Box::pin(async move {
            let Some(yard) = &self.yard else { return Err("there is no yard".to_owned()) };
            yard.note(format!("ensure {}", worktree.path));
            if let Some(words) = yard.lost.lock().unwrap().clone() {
                return Err(words);
            }
            yard.there.lock().unwrap().insert(worktree.path.clone(), worktree.clone());
            Ok(Box::new(()) as Box<dyn Send + Sync>)
        })
    }

    fn look_at_worktree<'a>(&'a self, worktree: &'a Worktree) -> BoxFuture<'a, Left> {
        Box::pin(async move {
            let (path, branch) = (worktree.path.clone(), worktree.branch.clone());
            let Some(yard) = &self.yard else { return Left { path, branch, unknown: "there is no yard".into(), ..Left::default() } };
            yard.note(format!("look {path}"));
            let ground = *yard.ground.lock().unwrap();
            match ground {
                Ground::Clean => Left { path, branch, clean: true, ..Left::default() },
                Ground::Dirty => Left { path, branch, commits: 1, files: 2, ..Left::default() },
                Ground::Unknown => Left { path, branch, unknown: "The index is locked".into(), ..Left::default() },
            }
        })
    }

    fn release_worktree<'a>(&'a self, worktree: &'a Worktree) -> BoxFuture<'a, Result<bool, String>> {
        Box::pin(async move {
            let Some(yard) = self.yard.clone() else { return Ok(false) };
            yard.note(format!("release {}", worktree.path));
            let (worktree, takes) = (worktree.clone(), *yard.removal.lock().unwrap());
            // A process that removes files is not stopped by whoever has lost interest.
            let removal = tokio::spawn(async move {
                if !takes.is_zero() {
                    tokio::time::sleep(takes).await;
                }
                yard.remove(&worktree)
            });
            removal.await.unwrap()
        })
    }
}

struct Folder(PathBuf, Mutex<Vec<CallId>>);

impl Workspace for Folder {
    fn root(&self) -> &Path {
        &self.0
    }

    fn cwd(&self) -> &Path {
        &self.0
    }

    fn spawn<'a>(&'a self, _: CommandLine) -> BoxFuture<'a, Result<Arc<dyn Process>, SpawnError>> {
        Box::pin(async { Err(SpawnError { words: "no processes here".into() }) })
    }

    fn sweep<'a>(&'a self, calls: &'a [CallId]) -> BoxFuture<'a, ()> {
        self.1.lock().unwrap().extend_from_slice(calls);
        Box::pin(async {})
    }
}

pub struct Office {
    pub memory: Memory,
    pub model: Arc<Scripted>,
    /// Models that may be named, besides the first.
    pub others: Vec<Arc<Scripted>>,
    pub busy: Arc<Busy>,
    /// Every request to any model, the oldest first.
    pub sent: Sent,
    pub forks: Forks,
    /// What an agent of this name has in its definition.
    pub isolations: HashMap<String, Isolation>,
    /// Without one there are no worktrees.
    pub yard: Option<Arc<Yard>>,
    pub witness: Witness,
    pub hooks: Vec<Arc<dyn Hook>>,
    pub rules: Value,
    pub ceiling: Vec<Value>,
    pub asking: Asking,
    pub mode: Mode,
    pub limits: Limits,
    pub lanes: HashMap<String, usize>,
    pub calls_max: usize,
    pub dialect: Dialect,
    pub expander: Option<Arc<dyn posse_session::Expander>>,
    pub depth_max: u64,
    pub children_max: u64,
    pub step_max: Duration,
    pub wall: Duration,
    pub idle: Duration,
    pub detach_after: Option<Duration>,
    pub background: bool,
    pub fallbacks: Vec<String>,
    pub compaction: posse_engine::Compacting,
    pub advice: posse_engine::Advising,
    pub shape: Option<posse_engine::Shape>,
    /// What a final answer must be, as providers are told.
    pub answer: Option<Value>,
    /// What an agent of this name may use up.
    pub budgets: HashMap<String, Limits>,
    /// How long an agent of this name may take, where that is not the same for all.
    pub walls: HashMap<String, Duration>,
    /// What an agent of this name may do, where that is not the same for all.
    pub rules_of: HashMap<String, Value>,
    pub outputs: Arc<Stories>,
    pub session: SessionId,
    pub system: Vec<String>,
    pub clock: Arc<TestClock>,
    pub ids: Arc<Ulids>,
}

impl Office {
    pub fn new(replies: impl IntoIterator<Item = ScriptedReply>) -> Self {
        Self::with_model(Scripted::new(replies))
    }

    pub fn with_model(model: Scripted) -> Self {
        let clock = Arc::new(TestClock::new());
        let ids = Arc::new(Ulids::new(clock.clone()));
        Self {
            memory: Memory::new(),
            model: Arc::new(model),
            others: Vec::new(),
            busy: Arc::default(),
            sent: Arc::default(),
            forks: Forks::Off,
            isolations: HashMap::new(),
            yard: None,
            witness: Witness::default(),
            hooks: Vec::new(),
            rules: json!("allow"),
            ceiling: Vec::new(),
            asking: Asking::Nobody,
            mode: Mode::Default,
            limits: Limits::default(),
            lanes: HashMap::new(),
            calls_max: 8,
            dialect: Dialect::Posse,
            expander: None,
            depth_max: 3,
            children_max: 200,
            step_max: Duration::from_secs(900),
            wall: Duration::from_secs(7_200),
            idle: Duration::from_secs(86_400),
            detach_after: None,
            background: true,
            fallbacks: Vec::new(),
            compaction: Default::default(),
            advice: Default::default(),
            shape: None,
            answer: None,
            budgets: HashMap::new(),
            walls: HashMap::new(),
            rules_of: HashMap::new(),
            outputs: Arc::default(),
            session: SessionId::fresh(&*ids),
            system: vec!["you are a test".into(), "<env>".into()],
            clock,
            ids,
        }
    }

    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let tool = |name: &str, repeatable: bool| -> Arc<dyn Tool> {
            let spec = ToolSpec { name: name.into(), description: name.into(), schema: json!({"type": "object"}) };
            Arc::new(Plain { spec, repeatable, witness: self.witness.clone() })
        };
        let callable =
            |name: &str| Callable { name: name.into(), description: None, aliases: Vec::new(), standing: Standing::Listed, forks: false };
        let switches = Switches { background: self.background, forks: self.forks, worktrees: self.yard.is_some() };
        let fork = (self.forks != Forks::Off).then(|| Callable { forks: true, ..callable(FORK) });
        let agent =
            Delegation::new(self.dialect, [callable("owl"), callable("scout"), callable("worker")].into_iter().chain(fork), switches);
        let mut tools: Vec<Arc<dyn Tool>> = vec![
            Arc::new(agent),
            tool("cling", false),
            tool("crash", false),
            tool("deaf", false),
            tool("keep", false),
            tool("peek", true),
            tool("slow", false),
            tool("touch", false),
        ];
        tools.extend(messengers(self.dialect, &Arc::default()));
        tools
    }

    pub fn hub(&self) -> Hub {
        self.hub_on(self.memory.clone())
    }

    /// The same over another store.
    pub fn hub_on<S: Log + posse_session::Lease + posse_session::Inbox + Clone + 'static>(&self, store: S) -> Hub {
        Hub::new(Arc::new(World {
            log: Arc::new(store.clone()),
            lease: Arc::new(store.clone()),
            inbox: Arc::new(store),
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            lanes: Arc::new(Lanes::new(self.lanes.clone())),
            live: Default::default(),
            outputs: self.outputs.clone(),
        }))
    }

    pub fn outfits(&self) -> Arc<dyn Outfits> {
        Arc::new(Same {
            outfit: self.outfit(),
            budgets: self.budgets.clone(),
            walls: self.walls.clone(),
            rules: self.rules_of.clone(),
            others: self.others.clone(),
            sent: self.sent.clone(),
            isolations: self.isolations.clone(),
            yard: self.yard.clone(),
        })
    }

    pub fn outfit(&self) -> Outfit {
        let tools = self.tools();
        Outfit {
            head: Arc::new(Head {
                system: self.system.clone(),
                tools: tools.iter().map(|tool| tool.spec().clone()).collect(),
                answer: self.answer.clone(),
                ..Head::default()
            }),
            model: Arc::new(Counted(self.model.clone(), self.busy.clone(), self.sent.clone())),
            tools,
            hooks: self.hooks.clone(),
            workspace: Arc::new(Folder(PathBuf::from("/"), Mutex::default())),
            rules: Rules::from_config(&self.rules, "/", "test").unwrap(),
            ceiling: self.ceiling.iter().map(|rules| Rules::from_config(rules, "/", "ceiling").unwrap()).collect(),
            asking: self.asking,
            mode: self.mode,
            strict_shell: false,
            spool: PathBuf::from("/nowhere"),
            stream_idle: Duration::from_secs(300),
            step_max: self.step_max,
            wall: self.wall,
            idle: self.idle,
            detach_after: self.detach_after,
            background: self.background,
            own_limits: Limits::default(),
            fallbacks: self.fallbacks.clone(),
            compaction: self.compaction.clone(),
            advice: self.advice.clone(),
            shape: self.shape.clone(),
            calls_max: self.calls_max,
            depth_max: self.depth_max,
            children_max: self.children_max,
            initial: None,
            delegation: self.dialect.tool().into(),
            expander: self.expander.clone(),
            presence: None,
            lacks: None,
            unready: None,
        }
    }

    pub fn entry(&self, text: &str) -> Entry {
        Entry::user(EntryId::fresh(&*self.ids), text)
    }

    /// Begins the session with these words.
    pub async fn begin(&self, text: &str) -> Handle {
        self.try_begin(text).await.unwrap()
    }

    pub async fn try_begin(&self, text: &str) -> Result<Handle, OpenError> {
        self.hub().create(self.session.clone(), self.created(), self.entry(text), self.outfits(), self.limits).await
    }

    pub fn created(&self) -> Event {
        Event::Created {
            kind: Kind::Root,
            root: self.session.clone(),
            parent: None,
            directory: "/".into(),
            title: "a test".into(),
            recipe: Recipe { agent: "build".into(), model: "scripted/script".into(), ..Recipe::default() },
            ceiling: Vec::new(),
            above: Default::default(),
            depth: 0,
            strict_shell: false,
            worktree: None,
            within: None,
        }
    }

    /// Takes the session over, as a new process would.
    pub async fn open(&self, then: Vec<Command>) -> Handle {
        self.hub().open(&self.session, &self.session, self.outfits(), self.limits, then).await.unwrap()
    }

    /// One prompt, until the session is at rest.
    pub async fn run(&self, text: &str) -> Arc<Session> {
        let handle = self.begin(text).await;
        let session = settled(&handle).await;
        handle.close().await;
        session
    }

    pub async fn records(&self) -> Vec<Record> {
        let mut records = self.memory.read(&self.session, 0, 1_000_000).await.unwrap();
        posse_engine::restore(&self.memory, &mut records).await.unwrap();
        records
    }

    pub async fn names(&self) -> Vec<String> {
        self.records().await.iter().map(|record| record.event.name()).collect()
    }

    /// What the model saw last, one line per block.
    pub fn shown(&self) -> Vec<String> {
        self.model.seen().last().map(|seen| lines(&seen.messages)).unwrap_or_default()
    }

    /// The office after a crash: the same building, the log as `memory`, nobody in it.
    pub fn reopened(self, memory: Memory) -> Self {
        Self { memory, ..self }
    }
}

pub async fn settled(handle: &Handle) -> Arc<Session> {
    tokio::time::timeout(Duration::from_secs(86_400), handle.settled()).await.expect("the session never came to rest").unwrap()
}

pub fn lines(messages: &[Message]) -> Vec<String> {
    messages
        .iter()
        .flat_map(|message| {
            message.blocks.iter().map(move |block| {
                let who = if message.role == Role::User { "user" } else { "agent" };
                match block {
                    Block::Text { text } => format!("{who}: {text}"),
                    Block::Call { tool, input, .. } => format!("{who}: {tool}({input})"),
                    Block::Result { text, error, .. } => format!("{who}: {}{text}", if *error { "error " } else { "= " }),
                    Block::Reasoning { text, .. } => format!("{who}: ({text})"),
                    other => format!("{who}: {other:?}"),
                }
            })
        })
        .collect()
}

pub fn say(text: &str) -> ScriptedReply {
    ScriptedReply::text(text)
}

pub fn call(tool: &str, what: &str) -> ScriptedReply {
    ScriptedReply::call(tool, json!({ "what": what }))
}

/// The first words a session heard.
pub fn prompt(seen: &Seen) -> String {
    lines(&seen.messages).first().cloned().unwrap_or_default()
}

/// The last line a session was shown.
pub fn last(seen: &Seen) -> String {
    lines(&seen.messages).last().cloned().unwrap_or_default()
}

/// Work for a worker that is waited for.
pub fn task(description: &str, prompt: &str) -> Value {
    json!({"description": description, "prompt": prompt, "subagent_type": "worker"})
}

/// Work for a worker that nobody waits for; it can be spoken to by its description.
pub fn background(description: &str, prompt: &str) -> Value {
    let mut input = task(description, prompt);
    input["run_in_background"] = json!(true);
    input["name"] = json!(description);
    input
}

/// Every session of a store, the oldest first.
pub async fn summaries(memory: &Memory) -> Vec<Summary> {
    let mut all = memory.summaries(None).await.unwrap();
    all.sort_by(|one, other| one.session.cmp(&other.session));
    all
}

pub async fn log(memory: &Memory, session: &SessionId) -> Vec<Record> {
    let mut records = memory.read(session, 0, 1_000_000).await.unwrap();
    posse_engine::restore(memory, &mut records).await.unwrap();
    records
}

/// The notices of tasks and of what was kept, in the order in which they came.
pub fn notices(records: &[Record]) -> Vec<String> {
    let notice = |record: &Record| match &record.event {
        Event::TaskEnded { to: To::Queue { .. }, result: words, .. } | Event::KeptEnded { entry: Some(_), words, .. } => {
            Some(words.inline().unwrap().to_owned())
        }
        _ => None,
    };
    records.iter().filter_map(notice).collect()
}

/// The outcomes of the calls of one tool, as the model reads them.
pub fn outcomes(records: &[Record], wanted: &str) -> Vec<String> {
    let mut results = Vec::new();
    for record in records {
        let Event::Called { call, tool, .. } = &record.event else { continue };
        let outcome = |record: &Record| match &record.event {
            Event::CallFinished { call: finished, outcome } if finished == call => Some(match outcome {
                Outcome::Done { output, .. } => output.inline().unwrap().to_owned(),
                Outcome::Failed { error: words } | Outcome::Denied { why: words } => format!("error {}", words.inline().unwrap()),
                Outcome::Cancelled { partial } => format!("cancelled {}", partial.inline().unwrap()),
                Outcome::Lost { .. } => "lost".to_owned(),
            }),
            Event::TaskEnded { to: To::Call { call: waited }, result, .. } if waited == call => Some(result.inline().unwrap().to_owned()),
            _ => None,
        };
        if tool == wanted {
            results.extend(records.iter().find_map(outcome));
        }
    }
    results
}

/// What holds for every log of a tree that has come to rest, whatever happened to it: no tool twice, one result for every
/// call, one end for every round of a task, no entry twice, and no notice that was not heard where somebody could hear it.
pub async fn check_tree(office: &Office, what: &str) {
    let mut ran = office.witness.lock().unwrap().clone();
    let count = ran.len();
    ran.sort();
    ran.dedup();
    assert_eq!(ran.len(), count, "{what}: a tool ran twice");
    let all = summaries(&office.memory).await;
    let (mut started, mut ended, mut over) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for summary in &all {
        assert!(summary.is_over(), "{what}: not at rest: {summary:#?}");
        let records = log(&office.memory, &summary.session).await;
        let (mut results, mut entries, mut left) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for record in &records {
            match &record.event {
                Event::Called { call, .. } => drop(results.entry(call.clone()).or_insert(0)),
                Event::CallFinished { call, .. } => *results.entry(call.clone()).or_insert(0) += 1,
                Event::TaskStarted { task, round, .. } | Event::TaskResumed { task, round, .. } => {
                    *started.entry((task.clone(), *round)).or_insert(0) += 1;
                }
                Event::TaskEnded { task, round, to, .. } => {
                    *ended.entry((task.clone(), *round)).or_insert(0) += 1;
                    match to {
                        To::Call { call } => *results.entry(call.clone()).or_insert(0) += 1,
                        To::Queue { entry, .. } => *entries.entry(entry.clone()).or_insert(0) += 1,
                        To::Internal => {}
                    }
                }
                Event::Ended { round, .. } if summary.parent.is_some() => over.push((summary.session.clone(), *round)),
                Event::KeptEnded { entry: Some(entry), .. } => *entries.entry(entry.clone()).or_insert(0) += 1,
                Event::Queued { entry } => *entries.entry(entry.id.clone()).or_insert(0) += 1,
                Event::StepStarted { took, .. } => took.iter().for_each(|entry| *left.entry(entry.clone()).or_insert(0) += 1),
                Event::Unqueued { entry } => *left.entry(entry.clone()).or_insert(0) += 1,
                _ => {}
            }
        }
        assert!(results.values().all(|times| *times == 1), "{what}: every call has one result: {results:?}");
        assert!(entries.values().all(|times| *times == 1), "{what}: every entry comes once: {entries:?}");
        assert!(left.values().all(|times| *times == 1), "{what}: every entry is said once: {left:?}");
        assert!(left.keys().all(|entry| entries.contains_key(entry)), "{what}: what was said had come: {left:?} {entries:?}");
        // Who was stopped may have left something unheard; everybody else has heard everything.
        let session = Session::fold(summary.session.clone(), &records);
        assert!(
            session.is_settled(),
            "{what}: {} is not settled: {:#?} {:?}",
            summary.session,
            session.owed(),
            records.iter().map(|record| record.event.name()).collect::<Vec<_>>()
        );
        if session.hold().is_none() {
            assert_eq!(left, entries, "{what}: {} has heard everything", summary.session);
        }
    }
    for summary in all.iter().filter(|summary| summary.parent.is_some()) {
        assert!(started.keys().any(|(task, _)| *task == summary.session), "{what}: an orphan: {summary:#?}");
    }
    assert!(started.values().chain(ended.values()).all(|times| *times == 1), "{what}: {started:?} {ended:?}");
    assert_eq!(started, ended, "{what}: every round has one end");
    assert!(over.iter().all(|round| ended.contains_key(round)), "{what}: whoever started a task hears of every end: {over:?} {ended:?}");
}

/// Calls that have begun, as far as a store knows.
pub async fn begun(memory: &Memory) -> Vec<String> {
    let mut begun = Vec::new();
    for summary in summaries(memory).await {
        for record in log(memory, &summary.session).await {
            if let Event::CallStarted { call, .. } = record.event {
                begun.push(call.to_string());
            }
        }
    }
    begun
}

/// Takes an office whose run is over, cuts its store after every event, and lets another go on each time. What must hold
/// is checked every time, and so is what `also` wants of what came of it. Whoever went on is cut short too, somewhere.
pub async fn survives_every_cut(whole: Office, also: impl AsyncFn(&Office, &str)) {
    check_tree(&whole, "no crash").await;
    let (store, witness) = (whole.memory.copy(), whole.witness.lock().unwrap().clone());
    let mut office = whole;
    let events = store.events();
    for cut in 1..=events {
        let what = format!("cut {cut} of {events}");
        *office.witness.lock().unwrap() = witness.clone();
        office = goes_on(office, store.copy_up_to(cut), &what).await;
        also(&office, &what).await;
        let more = office.memory.events() - cut;
        if 0 < more {
            // Any place will do, if it is not always the same.
            let again = cut + 1 + cut * 7_919 % more;
            let (what, memory) = (format!("{what}, then {again} of {}", cut + more), office.memory.copy_up_to(again));
            office = goes_on(office, memory, &what).await;
        }
    }
}

/// Lets appends fail at every place and in every way; the next owner goes on from what is there.
pub async fn survives_every_fault(make: impl Fn() -> Office) {
    let whole = make();
    whole.run("go").await;
    for after in 1..whole.memory.appends() {
        for fault in [Fault::Unavailable { after }, Fault::LostAnswer { after }, Fault::Moved { after }] {
            let office = make();
            office.memory.set_fault(fault);
            let handle = office.begin("go").await;
            let ended = tokio::time::timeout(Duration::from_secs(3_600), handle.settled()).await;
            assert!(ended.is_ok(), "{fault:?}: it neither ended nor stopped");
            handle.close().await;
            office.memory.set_fault(Fault::None);
            let memory = office.memory.clone();
            goes_on(office, memory, &format!("{fault:?}")).await;
        }
    }
}

/// The office with this store, after another has gone on with it until it came to rest.
async fn goes_on(office: Office, memory: Memory, what: &str) -> Office {
    let begun = begun(&memory).await;
    office.witness.lock().unwrap().retain(|call| begun.contains(call));
    let office = office.reopened(memory);
    let heard = office.names().await.contains(&"queued".to_owned());
    let handle = office.open(Vec::new()).await;
    if !heard {
        handle.say(office.entry("go")).await.unwrap();
    }
    let settled = tokio::time::timeout(Duration::from_secs(86_400), handle.settled()).await;
    assert!(settled.is_ok(), "{what}: it never came to rest");
    settled.unwrap().unwrap();
    handle.close().await;
    check_tree(&office, what).await;
    office
}

/// How tasks of a session ended, and what was told of it.
pub fn ends(records: &[Record]) -> Vec<(posse_session::How, String)> {
    let end = |record: &Record| match &record.event {
        Event::TaskEnded { how, result, .. } => Some((*how, result.inline().unwrap().to_owned())),
        _ => None,
    };
    records.iter().filter_map(end).collect()
}

/// The limits that were reached, and whether they were the session's own.
pub fn limits(records: &[Record]) -> Vec<(posse_session::Limit, bool)> {
    let limit = |record: &Record| if let Event::LimitReached { limit, own, .. } = &record.event { Some((*limit, *own)) } else { None };
    records.iter().filter_map(limit).collect()
}
