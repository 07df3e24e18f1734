//! What the tests of tools share: a folder to work in, a context to run in, and a look at the machine's processes.
// Each test file uses a part of this.
#![allow(dead_code, unreachable_pub)]

pub mod delegate;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use posse_session::{BoxFuture, CallId, CommandLine, Live, Outcome, Progress, SessionId, Stop, Text, Tool, ToolCall, ToolContext};
use posse_tools::{Keeper, LocalWorkspace};
use serde_json::Value;

pub struct Office {
    pub folder: tempfile::TempDir,
    pub root: PathBuf,
    pub context: ToolContext,
    pub shown: Arc<Shown>,
    pub stop: Arc<StopSign>,
    pub keeper: Arc<Keeper>,
    /// To whom tools delegate, and who keeps what goes on.
    pub desk: Arc<delegate::Desk>,
    /// One set for the whole session, as in a run.
    pub tools: Vec<Arc<dyn Tool>>,
}

#[derive(Default)]
pub struct Shown(pub Mutex<Vec<String>>);

impl Live for Shown {
    fn show(&self, progress: Progress) {
        if let Progress::Output { text, .. } = progress {
            self.0.lock().unwrap().push(text);
        }
    }
}

#[derive(Default)]
pub struct StopSign {
    set: AtomicBool,
    bell: tokio::sync::Notify,
}

impl StopSign {
    pub fn stop(&self) {
        self.set.store(true, Ordering::SeqCst);
        self.bell.notify_waiters();
    }
}

impl Stop for StopSign {
    fn is_stopped(&self) -> bool {
        self.set.load(Ordering::SeqCst)
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let rung = self.bell.notified();
            if !self.is_stopped() {
                rung.await;
            }
        })
    }
}

/// `target/debug/examples/keeper`, beside `target/debug/deps/TEST`.
pub fn keeper_program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().and_then(Path::parent).unwrap().join("examples/keeper");
    assert!(program.exists(), "build it first: cargo build -p posse-tools --example keeper");
    program
}

pub fn keeper() -> Arc<Keeper> {
    Arc::new(Keeper::with_program(keeper_program(), ["__keeper"]))
}

/// A call id that no other test and no other run uses.
pub fn fresh_call() -> CallId {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    CallId::new(format!("call_test_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)))
}

impl Office {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("project");
        let spool = root.parent().unwrap().join("spool");
        fs::create_dir(&root).unwrap();
        let keeper = keeper();
        let workspace = LocalWorkspace::new(&root, &root, Arc::clone(&keeper)).unwrap().with_readable_roots([spool.clone()]);
        let (shown, stop) = (Arc::new(Shown::default()), Arc::new(StopSign::default()));
        let desk = Arc::new(delegate::Desk::default());
        let context = ToolContext {
            session: SessionId::new("ses_1"),
            workspace: Arc::new(workspace),
            live: shown.clone(),
            stop: stop.clone(),
            delegate: desk.clone(),
            spool,
            memory: Arc::default(),
        };
        Self { folder, root, context, shown, stop, keeper, desk, tools: posse_tools::builtin() }
    }

    pub fn tool(&self, name: &str) -> Arc<dyn Tool> {
        Arc::clone(self.tools.iter().find(|tool| tool.spec().name == name).unwrap())
    }

    pub fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub fn text_of(&self, name: &str) -> String {
        fs::read_to_string(self.root.join(name)).unwrap()
    }

    /// A look and a run, as the loop does it.
    pub async fn run(&self, tool: &str, input: Value) -> Outcome {
        self.run_after(tool, input, || ()).await
    }

    /// The same with something that happens between the two.
    pub async fn run_after(&self, tool: &str, input: Value, meanwhile: impl FnOnce()) -> Outcome {
        let tool = self.tool(tool);
        if let Err(words) = tool.look(&input, &*self.context.workspace) {
            return Outcome::failed(words);
        }
        meanwhile();
        let call = ToolCall { id: fresh_call(), input, answer: None };
        tool.run(&call, &self.context).await
    }

    /// The words of an outcome, with how it ended in front when it is not done.
    pub async fn say(&self, tool: &str, input: Value) -> String {
        let outcome = self.run(tool, input).await;
        match outcome {
            Outcome::Done { .. } => words(&outcome),
            _ => format!("{}: {}", outcome.word(), words(&outcome)),
        }
    }

    /// `key pattern` of everything a call would touch, or the complaint.
    pub fn touches(&self, tool: &str, input: Value) -> Vec<String> {
        match self.tool(tool).look(&input, &*self.context.workspace) {
            Ok(look) => look.touches.iter().map(|touch| format!("{} {}", touch.key, touch.pattern)).collect(),
            Err(words) => vec![format!("error: {words}")],
        }
    }

    pub fn command(&self, call: &CallId, script: &str) -> CommandLine {
        CommandLine {
            argv: vec!["/bin/bash".into(), "-c".into(), script.into()],
            cwd: self.root.clone(),
            env: posse_tools::child_env(),
            output: self.root.parent().unwrap().join(format!("{call}.out")),
            call: call.clone(),
        }
    }
}

pub fn words(outcome: &Outcome) -> String {
    let text: &Text = match outcome {
        Outcome::Done { output, .. } => output,
        Outcome::Failed { error: text }
        | Outcome::Denied { why: text }
        | Outcome::Cancelled { partial: text }
        | Outcome::Lost { partial: text } => text,
    };
    text.inline().unwrap().to_owned()
}

pub fn metadata(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Done { metadata: Some(metadata), .. } => metadata.clone(),
        other => panic!("no metadata in {other:?}"),
    }
}

/// Living processes whose command line or environment has this text.
pub fn alive(mark: &str) -> usize {
    let processes = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()));
    let has = |path: PathBuf| fs::read(path).is_ok_and(|bytes| bytes.windows(mark.len()).any(|window| window == mark.as_bytes()));
    let own = std::process::id().to_string();
    processes
        .filter(|entry| {
            entry.file_name().to_string_lossy() != own && (has(entry.path().join("environ")) || has(entry.path().join("cmdline")))
        })
        .count()
}

/// Waits until so many are alive, and says how many were at last.
pub fn settles_at(mark: &str, wanted: usize, time: Duration) -> usize {
    let begun = Instant::now();
    loop {
        let count = alive(mark);
        if count == wanted || time < begun.elapsed() {
            return count;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
