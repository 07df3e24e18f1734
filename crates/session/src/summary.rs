//! The view of one session that lists are made of. Derived, disposable: folding the log again gives the same value.

use serde::{Deserialize, Serialize};

use crate::{
    apply::granted,
    event::{Event, Hold, Kind, Record},
    grant::Granted,
    ids::{AskId, CallId, Seq, SessionId, Timestamp},
    outcome::{Answer, How, Scope},
    rule::Decision,
    usage::Usage,
};

/// Raised whenever `apply` changes meaning; a stored view of another version is made anew.
pub const SUMMARY_VERSION: u32 = 2;

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
    /// Asks that wait for an answer, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<OpenAsk>,
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
            asks: Vec::new(),
            granted: Vec::new(),
        }
    }

    pub fn apply(&mut self, record: &Record) {
        self.head = record.seq;
        self.updated = record.at;
        match &record.event {
            Event::Created { kind, root, parent, directory, title, recipe, .. } => {
                self.created = record.at;
                self.kind = Some(*kind);
                (self.root, self.parent) = (root.clone(), parent.clone());
                (self.directory, self.title) = (directory.clone(), title.clone());
                (self.agent, self.model) = (recipe.agent.clone(), recipe.model.clone());
            }
            Event::Configured { model, .. } => self.model.clone_from(model),
            Event::Queued { .. } if self.status != Status::Running => self.status = Status::Queued,
            Event::StepStarted { .. } | Event::CallStarted { .. } => self.status = Status::Running,
            Event::Replied { usage, .. } => {
                self.steps += 1;
                self.usage += *usage;
                self.last_reply = Some(record.seq);
            }
            Event::StepFailed { usage, .. } => self.usage += *usage,
            Event::Called { .. } => self.calls += 1,
            Event::Asked { ask, call, decision } => {
                self.status = Status::Waiting;
                self.asks.push(OpenAsk { ask: ask.clone(), call: call.clone(), at: record.at, decision: decision.clone() });
            }
            Event::Answered { ask, answer, .. } => self.answered(ask, answer),
            Event::CallFinished { call, .. } => self.asks.retain(|open| open.call != *call),
            Event::Revoked { ask, .. } => self.granted.retain(|granted| granted.ask != *ask),
            Event::Resumed { .. } | Event::TookOver { .. } => self.status = Status::Running,
            Event::Interrupted { hold: Hold::TakeOvers | Hold::ModelError, .. } => self.status = Status::Failed,
            Event::Interrupted { .. } => self.status = Status::Stopped,
            Event::LimitReached { .. } => self.status = Status::Limit,
            Event::Ended { how, .. } => {
                self.status = match how {
                    How::Completed => Status::Completed,
                    How::Failed => Status::Failed,
                    How::Stopped => Status::Stopped,
                    How::Limit => Status::Limit,
                }
            }
            _ => {}
        }
    }

    fn answered(&mut self, ask: &AskId, answer: &Answer) {
        let Some(at) = self.asks.iter().position(|open| open.ask == *ask) else { return };
        let open = self.asks.remove(at);
        if let Answer::Yes { scope: scope @ (Scope::Session | Scope::Tree | Scope::Project) } = answer {
            self.granted.extend(granted(ask, *scope, &open.decision));
        }
        if self.asks.is_empty() {
            self.status = Status::Queued;
        }
    }
}
