//! The view of one session that lists are made of. Derived, disposable: folding the log again gives the same value.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::{
    apply::{UNANSWERED_MAX, granted},
    event::{Event, Hold, Kind, Record},
    grant::Granted,
    ids::{AskId, CallId, Seq, SessionId, Timestamp},
    outcome::{Answer, By, How, Outcome, Scope},
    rule::Decision,
    task::{Purpose, To},
    text::clip,
    usage::Usage,
};

/// Raised whenever `apply` changes meaning; a stored view of another version is made anew.
pub const SUMMARY_VERSION: u32 = 5;

/// What a list says of the last action, or of an error; the log has all of it.
const SHOWN_BYTES_MAX: usize = 160;

/// As many tasks as a session may start by default; of more the oldest are known by their id only.
const NAMES_MAX: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Queued,
    Running,
    Waiting,
    Completed,
    Failed,
    Stopped,
    Limit,
}

impl Status {
    pub fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Limit => "limit",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub session: SessionId,
    pub root: SessionId,
    pub parent: Option<SessionId>,
    pub kind: Option<Kind>,
    pub agent: String,
    pub model: String,
    pub directory: String,
    pub title: String,
    pub status: Status,
    pub steps: u64,
    pub calls: u64,
    pub usage: Usage,
    pub created: Timestamp,
    pub updated: Timestamp,
    pub head: Seq,
    /// The last `Replied`, for showing the answer.
    pub last_reply: Option<Seq>,
    /// The names it gave to tasks; the last task of a name is meant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<(String, SessionId)>,
    /// When the round it is in, or was last in, began.
    #[serde(default)]
    pub began: Timestamp,
    /// The tool it called last and on what.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_action: String,
    /// What it is doing right now, in a few words, as internal work has read it off.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub doing: String,
    /// Why its last round did not end well.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// Its last round is over, and everything below it.
    #[serde(default)]
    pub at_rest: bool,
    /// The model is being called.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_step: bool,
    /// The last step failed and is tried again then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub open_calls: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub open_tasks: u64,
    /// Internal work that goes on beside its conversation; none of its tasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<SessionId>,
    /// What its calls have left running.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<(CallId, String)>,
    /// The model that answers in place of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stand_in: Option<String>,
    /// Who stopped it, if somebody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<By>,
    /// How many tasks it ever started.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tasks_started: u64,
    /// How many of its calls were refused, by whomever.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub denied: u64,
    /// Asks that wait for an answer, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<OpenAsk>,
    /// Asks that closed before a person answered, the last few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unanswered: Vec<OpenAsk>,
    /// What answers in this session allow beyond one call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<Granted>,
}

/// An ask that waits for an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenAsk {
    pub ask: AskId,
    pub call: CallId,
    pub at: Timestamp,
    pub decision: Decision,
}

impl Summary {
    pub fn new(session: SessionId) -> Self {
        Self {
            root: session.clone(),
            session,
            parent: None,
            kind: None,
            agent: String::new(),
            model: String::new(),
            directory: String::new(),
            title: String::new(),
            status: Status::Queued,
            steps: 0,
            calls: 0,
            usage: Usage::default(),
            created: Timestamp::default(),
            updated: Timestamp::default(),
            head: 0,
            last_reply: None,
            named: Vec::new(),
            began: Timestamp::default(),
            last_action: String::new(),
            doing: String::new(),
            error: String::new(),
            at_rest: false,
            in_step: false,
            retry_at: None,
            open_calls: 0,
            open_tasks: 0,
            beside: Vec::new(),
            kept: Vec::new(),
            stand_in: None,
            stopped_by: None,
            tasks_started: 0,
            denied: 0,
            asks: Vec::new(),
            unanswered: Vec::new(),
            granted: Vec::new(),
        }
    }

    pub fn is_task(&self) -> bool {
        self.kind.is_some_and(Kind::is_task)
    }

    /// Whether its last round is over: nothing goes on in it by itself.
    pub fn is_over(&self) -> bool {
        matches!(self.status, Status::Completed | Status::Failed | Status::Stopped | Status::Limit)
    }

    pub fn apply(&mut self, record: &Record) {
        self.head = record.seq;
        self.updated = record.at;
        match &record.event {
            Event::Created { kind, root, parent, directory, title, recipe, .. } => {
                (self.created, self.began) = (record.at, record.at);
                self.kind = Some(*kind);
                (self.root, self.parent) = (root.clone(), parent.clone());
                (self.directory, self.title) = (directory.clone(), title.clone());
                (self.agent, self.model) = (recipe.agent.clone(), recipe.model.clone());
            }
            Event::Configured { model, .. } => self.model.clone_from(model),
            // What others have said is complete; nothing waits until somebody says more.
            Event::Forked { .. } if self.kind == Some(Kind::Root) => (self.status, self.at_rest) = (Status::Completed, true),
            Event::Queued { .. } => self.queued(record.at),
            Event::StepStarted { .. } => {
                self.goes_on(record.at);
                (self.in_step, self.retry_at) = (true, None);
            }
            Event::CallStarted { .. } => self.goes_on(record.at),
            Event::Replied { usage, author, .. } => {
                self.steps += u64::from(author.is_none());
                self.usage += *usage;
                self.last_reply = Some(record.seq);
                self.in_step = false;
            }
            Event::StepFailed { usage, retry_at, .. } => {
                self.usage += *usage;
                (self.in_step, self.retry_at) = (false, *retry_at);
            }
            Event::Called { tool, title, .. } => {
                self.calls += 1;
                self.open_calls += 1;
                self.last_action = clip(format!("{tool} {title}").trim_end().to_owned(), SHOWN_BYTES_MAX);
            }
            Event::Asked { ask, call, decision } => {
                self.status = Status::Waiting;
                self.asks.push(OpenAsk { ask: ask.clone(), call: call.clone(), at: record.at, decision: decision.clone() });
            }
            Event::Answered { ask, answer, by, .. } => self.answered(ask, answer, *by),
            Event::CallFinished { call, outcome } => {
                self.call_finished(call);
                self.denied += u64::from(matches!(outcome, Outcome::Denied { .. }));
            }
            Event::TaskStarted { round, task, spawn, .. } => {
                // A summary that the user asked for is work, though no model of this session is called.
                let is_beside = spawn.purpose.as_ref().is_some_and(Purpose::is_beside);
                if spawn.internal && !is_beside {
                    self.goes_on(record.at);
                }
                if is_beside {
                    self.beside.push(task.clone());
                } else {
                    self.open_tasks += 1;
                }
                self.tasks_started += u64::from(*round == 1 && !spawn.internal);
                if let Some(name) = &spawn.name {
                    self.names(name, task);
                }
            }
            Event::TaskResumed { .. } => {
                // Whoever has ended is in a round again, if only to hear of its end.
                self.goes_on(record.at);
                self.open_tasks += 1;
            }
            Event::TaskEnded { task, .. } if self.beside.contains(task) => self.beside.retain(|beside| beside != task),
            Event::TaskEnded { to, .. } => {
                self.open_tasks = self.open_tasks.saturating_sub(1);
                match to {
                    To::Call { call } => self.call_finished(call),
                    To::Queue { .. } => self.queued(record.at),
                    To::Internal => {}
                }
            }
            Event::Kept { call, title } => self.kept.push((call.clone(), clip(title.clone(), SHOWN_BYTES_MAX))),
            Event::KeptEnded { call, entry, .. } => {
                self.kept.retain(|(kept, _)| kept != call);
                if entry.is_some() {
                    self.queued(record.at);
                }
            }
            Event::ModelChanged { model, .. } => self.stand_in.clone_from(model),
            Event::Titled { title } => self.title.clone_from(title),
            Event::Advised { advice: Purpose::Summarise, text } => {
                self.doing = clip(text.inline().unwrap_or_default().to_owned(), SHOWN_BYTES_MAX);
            }
            Event::Revoked { ask, .. } => self.granted.retain(|granted| granted.ask != *ask),
            Event::Resumed { .. } => self.goes_on_without_step(record.at),
            Event::TookOver { usage, .. } => {
                self.usage += *usage;
                self.goes_on_without_step(record.at);
            }
            Event::Interrupted { hold: Hold::TakeOvers | Hold::ModelError, .. } => self.stands_still(Status::Failed),
            Event::Interrupted { by, .. } => {
                self.stands_still(Status::Stopped);
                self.stopped_by = Some(*by);
            }
            Event::LimitReached { .. } => self.stands_still(Status::Limit),
            Event::Ended { how, error, .. } => {
                self.stands_still(match how {
                    How::Completed => Status::Completed,
                    How::Failed => Status::Failed,
                    How::Stopped => Status::Stopped,
                    How::Limit => Status::Limit,
                });
                self.error = clip(error.clone(), SHOWN_BYTES_MAX);
                self.doing.clear();
                self.at_rest = true;
            }
            _ => {}
        }
    }

    fn names(&mut self, name: &str, task: &SessionId) {
        self.named.retain(|(known, _)| known != name);
        if NAMES_MAX <= self.named.len() {
            self.named.remove(0);
        }
        self.named.push((clip(name.to_owned(), SHOWN_BYTES_MAX), task.clone()));
    }

    /// Something waits to be said: if nothing went on before, a round begins.
    fn queued(&mut self, at: Timestamp) {
        self.at_rest = false;
        if self.is_over() {
            self.began = at;
            self.error.clear();
            self.stopped_by = None;
        }
        if self.status != Status::Running && self.asks.is_empty() {
            self.status = Status::Queued;
        }
    }

    /// Whoever goes on begins its step anew.
    fn goes_on_without_step(&mut self, at: Timestamp) {
        self.goes_on(at);
        self.in_step = false;
    }

    fn goes_on(&mut self, at: Timestamp) {
        self.at_rest = false;
        if self.is_over() {
            self.began = at;
            self.error.clear();
            self.stopped_by = None;
        }
        self.status = Status::Running;
    }

    fn stands_still(&mut self, status: Status) {
        self.status = status;
        (self.in_step, self.retry_at) = (false, None);
    }

    fn call_finished(&mut self, call: &CallId) {
        self.open_calls = self.open_calls.saturating_sub(1);
        let (closed, open): (Vec<_>, Vec<_>) = std::mem::take(&mut self.asks).into_iter().partition(|open| open.call == *call);
        self.asks = open;
        closed.into_iter().for_each(|ask| self.leave_unanswered(ask));
    }

    /// An answer may still come, and then it counts.
    fn leave_unanswered(&mut self, ask: OpenAsk) {
        if UNANSWERED_MAX <= self.unanswered.len() {
            self.unanswered.remove(0);
        }
        self.unanswered.push(ask);
    }

    fn answered(&mut self, ask: &AskId, answer: &Answer, by: By) {
        let late = self.unanswered.iter().position(|closed| closed.ask == *ask).map(|at| self.unanswered.remove(at));
        let is_late = late.is_some();
        let in_time = self.asks.iter().position(|open| open.ask == *ask).map(|at| self.asks.remove(at));
        let Some(answered) = late.or(in_time) else { return };
        if let Answer::Yes { scope: scope @ (Scope::Session | Scope::Tree | Scope::Project) } = answer {
            self.granted.extend(granted(ask, *scope, &answered.decision));
        }
        if is_late {
            return;
        }
        if by == By::Policy && matches!(answer, Answer::No { .. }) {
            self.leave_unanswered(answered);
        }
        if self.asks.is_empty() {
            self.status = Status::Queued;
        }
    }
}

/// What tasks are called by those who started them.
pub fn names(all: &[Summary]) -> HashMap<&SessionId, &str> {
    all.iter().flat_map(|summary| &summary.named).map(|(name, task)| (task, name.as_str())).collect()
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
