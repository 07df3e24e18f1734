//! What the tests of delegation share: somebody to delegate to who writes down what was asked, and tasks to speak of.
// Each test file uses a part of this.
#![allow(dead_code, unreachable_pub)]

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use posse_session::{
    BoxFuture, CallId, CommandLine, Delegate, Dispatch, Effort, Errand, Forks, How, Inquiry, Launch, Live, Look, Outcome, Process,
    Progress, Sent, SessionId, SpawnError, Status, Stop, TaskEnd, TaskView, Tool, ToolCall, ToolContext, Usage, Workspace,
};
use posse_tools::{Callable, Delegation, Dialect, Standing, Switches, messengers};
use serde_json::Value;

pub const BACKGROUND: Switches = Switches { background: true, forks: Forks::Off, worktrees: false };
pub const FOREGROUND: Switches = Switches { background: false, forks: Forks::Off, worktrees: false };

/// What a tool wanted.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    Spawn(Errand),
    Send(Dispatch),
    Read(Inquiry),
    Stop(String),
    List,
}

/// Somebody to delegate to. What is not set is refused.
#[derive(Default)]
pub struct Desk {
    pub asked: Mutex<Vec<Asked>>,
    pub sent: Option<Sent>,
    pub view: Option<TaskView>,
    pub tasks: Vec<TaskView>,
    /// Never answers, and the call is told to stop.
    pub is_busy: bool,
}

const REFUSED: &str = "There is no task `x`.";

impl Desk {
    fn answer<'a, T: Clone + Send + Sync>(&'a self, asked: Asked, answer: Option<&'a T>) -> BoxFuture<'a, Result<T, String>> {
        self.asked.lock().unwrap().push(asked);
        Box::pin(async move {
            if self.is_busy {
                std::future::pending::<()>().await;
            }
            answer.cloned().ok_or_else(|| REFUSED.to_owned())
        })
    }
}

impl Delegate for Desk {
    fn spawn<'a>(&'a self, _: &'a CallId, errand: Errand) -> BoxFuture<'a, String> {
        let refused = self.answer::<()>(Asked::Spawn(errand), None);
        Box::pin(async move { refused.await.unwrap_err() })
    }

    fn send<'a>(&'a self, _: &'a CallId, dispatch: Dispatch) -> BoxFuture<'a, Result<Sent, String>> {
        self.answer(Asked::Send(dispatch), self.sent.as_ref())
    }

    fn read<'a>(&'a self, _: &'a CallId, inquiry: Inquiry) -> BoxFuture<'a, Result<TaskView, String>> {
        self.answer(Asked::Read(inquiry), self.view.as_ref())
    }

    fn stop<'a>(&'a self, _: &'a CallId, task: &'a str) -> BoxFuture<'a, Result<TaskView, String>> {
        self.answer(Asked::Stop(task.to_owned()), self.view.as_ref())
    }

    fn list<'a>(&'a self) -> BoxFuture<'a, Result<Vec<TaskView>, String>> {
        self.answer(Asked::List, Some(&self.tasks))
    }

    fn keep<'a>(&'a self, _: &'a CallId, _: String, _: BoxFuture<'static, Option<String>>) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}

/// A place without anything in it.
struct Nowhere;

impl Workspace for Nowhere {
    fn root(&self) -> &Path {
        Path::new("/nowhere")
    }

    fn cwd(&self) -> &Path {
        Path::new("/nowhere")
    }

    fn spawn<'a>(&'a self, _: CommandLine) -> BoxFuture<'a, Result<Arc<dyn Process>, SpawnError>> {
        Box::pin(async { Err(SpawnError { words: "nothing runs here".into() }) })
    }

    fn sweep<'a>(&'a self, _: &'a [CallId]) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}

impl Live for Nowhere {
    fn show(&self, _: Progress) {}
}

struct Told(bool);

impl Stop for Told {
    fn is_stopped(&self) -> bool {
        self.0
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        if self.0 { Box::pin(async {}) } else { Box::pin(std::future::pending()) }
    }
}

pub fn look(tool: &dyn Tool, input: &Value) -> Result<Look, String> {
    tool.look(input, &Nowhere)
}

/// A look and a run, as the loop does it: how it ended and what the model reads.
pub async fn say(tool: &dyn Tool, input: Value, desk: &Arc<Desk>) -> String {
    if let Err(words) = look(tool, &input) {
        return format!("refused: {words}");
    }
    let context = ToolContext {
        session: SessionId::new("ses_1"),
        workspace: Arc::new(Nowhere),
        live: Arc::new(Nowhere),
        stop: Arc::new(Told(desk.is_busy)),
        delegate: desk.clone(),
        spool: PathBuf::new(),
        memory: Arc::default(),
    };
    let call = ToolCall { id: CallId::new("call_1"), input, answer: None };
    let outcome = tool.run(&call, &context).await;
    format!("{}: {}", outcome.word(), words(&outcome))
}

/// What a call asked for, or why it did not.
pub async fn asks(tool: &dyn Tool, input: Value) -> Result<Asked, String> {
    let desk = Arc::new(Desk { sent: Some(sent()), view: Some(view()), ..Desk::default() });
    let said = say(tool, input, &desk).await;
    if let Some(words) = said.strip_prefix("refused: ") {
        return Err(words.to_owned());
    }
    let mut asked = desk.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 1, "asked once: {asked:?}");
    Ok(asked.remove(0))
}

pub async fn errand(tool: &Delegation, input: Value) -> Result<Errand, String> {
    match asks(tool, input).await? {
        Asked::Spawn(errand) => Ok(errand),
        other => panic!("{other:?}"),
    }
}

pub fn words(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done { output: text, .. }
        | Outcome::Failed { error: text }
        | Outcome::Denied { why: text }
        | Outcome::Cancelled { partial: text }
        | Outcome::Lost { partial: text } => text.inline().unwrap().to_owned(),
    }
}

pub fn callable(name: &str, description: &str) -> Callable {
    Callable { name: name.into(), description: Some(description.into()), aliases: Vec::new(), standing: Standing::Listed, forks: false }
}

/// The agents of the tests: one of each standing, and the one that is known by two names.
pub fn team() -> Vec<Callable> {
    vec![
        Callable { standing: Standing::Primary, ..callable("build", "Builds") },
        callable("code-reviewer", "Reviews"),
        callable("explore", "Looks"),
        Callable { aliases: vec!["general-purpose".into()], ..callable("general", "Does anything") },
        Callable { standing: Standing::Denied, ..callable("secret", "Hidden") },
    ]
}

pub fn delegation(dialect: Dialect) -> Delegation {
    Delegation::new(dialect, team(), BACKGROUND)
}

pub fn messenger(dialect: Dialect, name: &str) -> Arc<dyn Tool> {
    messengers(dialect, &Default::default()).into_iter().find(|tool| tool.spec().name == name).unwrap()
}

pub const OUTPUT: &str = "/data/tasks/ses_7.txt";

pub fn usage() -> (Usage, Effort) {
    (Usage { input: 1_000, output: 200, cache_read: 30, cache_write: 4, cost_usd: 0.1, unpriced: 0 }, Effort { calls: 7, millis: 34_567 })
}

pub fn end(how: How) -> TaskEnd {
    let (usage, effort) = usage();
    TaskEnd {
        task: SessionId::new("ses_7"),
        name: None,
        agent: "general".into(),
        description: "review parser bug".into(),
        how,
        by: None,
        texts: vec!["There are two.".into(), "Both are mine.".into()],
        reasoning: Vec::new(),
        error: String::new(),
        note: String::new(),
        wire_id: "toolu_9".into(),
        usage,
        effort,
        output: OUTPUT.into(),
        left: None,
    }
}

pub fn view() -> TaskView {
    let (usage, effort) = usage();
    TaskView {
        task: SessionId::new("ses_7"),
        name: None,
        agent: "general".into(),
        description: "review parser bug".into(),
        status: Status::Running,
        end: None,
        text: "I look at the lexer.\n".into(),
        next: 42,
        steps: 3,
        usage,
        effort,
        output: OUTPUT.into(),
        waits: None,
        last_action: "bash cargo test".into(),
    }
}

pub fn sent() -> Sent {
    Sent { task: SessionId::new("ses_7"), name: None, agent: "general".into(), resumed: false, own: true, output: OUTPUT.into() }
}

pub fn launch() -> Launch {
    Launch {
        task: SessionId::new("ses_7"),
        name: None,
        agent: "general".into(),
        description: "run regression suite".into(),
        prompt: "Run the regression tests and summarize failures.".into(),
        output: OUTPUT.into(),
        detached: false,
    }
}
