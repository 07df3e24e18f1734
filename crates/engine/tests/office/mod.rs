//! An office for the loop: memory log, scripted model, plain tools, paused time. Tests read as stories.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use posse_engine::{Handle, Hub, Lanes, OpenError, Outfit, Outfits, Ulids, World};
use posse_models::{Scripted, ScriptedReply};
use posse_session::{
    Asking, Birth, Block, BoxFuture, CallId, Clock, Command, CommandLine, Entry, EntryId, Event, Head, Hook, Kind, Limits, Log, Look,
    Message, Mode, Outcome, Process, Recipe, Record, Role, Rules, Session, SessionId, SpawnError, Timestamp, Tool, ToolCall, ToolContext,
    ToolSpec, Touch, Workspace,
};
use posse_store::Memory;
use posse_tools::{Callable, Delegation, Dialect, Standing};
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
                    tokio::select! {
                        () = tokio::time::sleep(wait) => Outcome::done(format!("slept {what}")),
                        () = context.stop.stopped() => Outcome::cancelled("half asleep"),
                    }
                }
                "deaf" => {
                    tokio::time::sleep(Duration::from_secs(3_600)).await;
                    Outcome::done("woke up")
                }
                name => Outcome::done(format!("{name} {what} ok")),
            }
        })
    }
}

/// Every agent has the same outfit; there are `worker` and `scout`, and the model `scripted/script`.
struct Same(Outfit);

impl Outfits for Same {
    fn recipe(&self, parent: &Recipe, agent: &str, model: Option<&str>) -> Result<Recipe, String> {
        match model {
            Some(unknown) if unknown != parent.model => Err(format!("there is no model `{unknown}`")),
            _ if agent == "nobody" => Err("There is no agent named `nobody`.".into()),
            _ => Ok(Recipe { agent: agent.into(), model: parent.model.clone(), ..Recipe::default() }),
        }
    }

    fn outfit(&self, _: &SessionId, birth: &Birth) -> Result<Outfit, String> {
        let mut outfit = self.0.clone();
        // Who speaks in a session that is not its own says so.
        if birth.parent.is_none() && birth.recipe.agent != "build" {
            Arc::make_mut(&mut outfit.head).system[0] = format!("you are a {}", birth.recipe.agent);
        }
        Ok(outfit)
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
        let callable = |name: &str| Callable { name: name.into(), description: None, aliases: Vec::new(), standing: Standing::Listed };
        let agent = Delegation::new(self.dialect, [callable("worker"), callable("scout")]);
        vec![Arc::new(agent), tool("crash", false), tool("deaf", false), tool("peek", true), tool("slow", false), tool("touch", false)]
    }

    pub fn hub(&self) -> Hub {
        Hub::new(Arc::new(World {
            log: Arc::new(self.memory.clone()),
            lease: Arc::new(self.memory.clone()),
            inbox: Arc::new(self.memory.clone()),
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            lanes: Arc::new(Lanes::new(self.lanes.clone())),
            live: Default::default(),
        }))
    }

    pub fn outfits(&self) -> Arc<dyn Outfits> {
        Arc::new(Same(self.outfit()))
    }

    pub fn outfit(&self) -> Outfit {
        let tools = self.tools();
        Outfit {
            head: Arc::new(Head {
                system: self.system.clone(),
                tools: tools.iter().map(|tool| tool.spec().clone()).collect(),
                params: Default::default(),
            }),
            model: self.model.clone(),
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
            calls_max: self.calls_max,
            depth_max: self.depth_max,
            children_max: self.children_max,
            initial: None,
            delegation: self.dialect.tool().into(),
            expander: self.expander.clone(),
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
