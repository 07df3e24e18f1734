//! The history of a task: how each of its rounds began, who waited for it, how it ended, and where that end went.
//!
//! Made from two logs, its parent's and its own. A task's own `Ended` is the truth; what its parent recorded says whether
//! the model has heard of it, and how. Knows no clock; the words that need one are made by whoever prints it.

use posse_session::{By, CallId, EntryId, Event, How, Record, Session, SessionId, Source, Spawn, Timestamp, To};
use serde::Serialize;

use crate::words;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct History {
    pub parent: SessionId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub rounds: Vec<Round>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Round {
    pub round: u64,
    pub began: Timestamp,
    pub by: Began,
    /// Its call waited for it, at least at first.
    pub foreground: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detached: Option<Timestamp>,
    /// Calls that came to wait for it later.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub awaited: Vec<Awaited>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Stopped>,
    /// In its own log: from here on it is over, whoever knows of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<End>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub told: Option<Told>,
    /// Why nobody was told yet, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub untold: Option<String>,
}

/// What began a round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "from", rename_all = "snake_case")]
pub enum Began {
    Call {
        call: CallId,
        tool: String,
    },
    /// Words for a task that had ended.
    Message {
        by: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Awaited {
    pub call: CallId,
    pub tool: String,
    pub at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// It does not wait any more.
    pub over: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stopped {
    pub by: By,
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct End {
    pub how: How,
    pub at: Timestamp,
}

/// Where the end of a round went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "to", rename_all = "snake_case")]
pub enum Told {
    /// The result of a call: of the one that started it, or of one that read it.
    Call {
        call: CallId,
        tool: String,
        at: Timestamp,
        /// Another call than the one that started it, so that no notice was needed.
        read: bool,
    },
    Notice {
        entry: EntryId,
        queued: Timestamp,
        #[serde(skip_serializing_if = "Option::is_none")]
        taken: Option<Taken>,
        /// The model had read the end by a call before the notice was said, so it was dropped.
        #[serde(skip_serializing_if = "Option::is_none")]
        dropped: Option<Timestamp>,
        /// Why it still waits, in words.
        #[serde(skip_serializing_if = "Option::is_none")]
        waits: Option<String>,
    },
    /// Nobody: internal work.
    Internal,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Taken {
    pub step: u64,
    pub at: Timestamp,
}

/// The history of a task. `parent` is folded from `above`, the parent's facts; `own` are the task's. `running`: a living
/// process runs the tree. `None`: the parent knows nothing of it.
pub fn history(task: &SessionId, parent: &Session, above: &[Record], own: &[Record], running: bool) -> Option<History> {
    let mut rounds: Vec<Round> = Vec::new();
    let mut name = None;
    let tool = |call: &CallId| tool_of(above, call);
    for record in above {
        let last = rounds.last_mut();
        match (&record.event, last) {
            (Event::TaskStarted { call, task: of, round, spawn, wait }, _) if of == task => {
                name = spawn.name.clone().or(name);
                let by = Began::Call { call: call.clone(), tool: tool(call) };
                rounds.push(Round::new(*round, record.at, by, *wait));
            }
            (Event::TaskResumed { task: of, round, spawn }, _) if of == task => {
                rounds.push(Round::new(*round, record.at, Began::Message { by: speaker(spawn) }, false));
            }
            (Event::Detached { task: of }, Some(round)) if of == task => round.detached = Some(record.at),
            (Event::TaskAwaited { task: of, call, until }, Some(round)) if of == task => {
                let awaited =
                    Awaited { call: call.clone(), tool: tool(call), at: record.at, until: *until, over: parent.call(call).is_none() };
                round.awaited.push(awaited);
            }
            (Event::TaskStopped { task: of, by, .. }, Some(round)) if of == task => {
                round.stopped = Some(Stopped { by: *by, at: record.at });
            }
            (Event::TaskEnded { task: of, to, .. }, Some(round)) if of == task => {
                round.told = Some(match to {
                    To::Internal => Told::Internal,
                    To::Call { call } => {
                        let read = !matches!(&round.by, Began::Call { call: starting, .. } if starting == call);
                        Told::Call { call: call.clone(), tool: tool(call), at: record.at, read }
                    }
                    To::Queue { entry, .. } => notice(entry, record.at, parent, above, running),
                });
            }
            _ => {}
        }
    }
    ends(&mut rounds, own);
    for round in rounds.iter_mut().filter(|round| round.told.is_none()) {
        round.untold = untold(round, parent, running);
    }
    (!rounds.is_empty()).then(|| History { parent: parent.id().clone(), name, rounds })
}

impl Round {
    fn new(round: u64, began: Timestamp, by: Began, foreground: bool) -> Self {
        Self { round, began, by, foreground, detached: None, awaited: Vec::new(), stopped: None, ended: None, told: None, untold: None }
    }
}

/// What the task's own log says of its rounds.
fn ends(rounds: &mut [Round], own: &[Record]) {
    for record in own {
        match &record.event {
            Event::Ended { round, how, .. } => {
                if let Some(known) = rounds.iter_mut().find(|known| known.round == *round) {
                    known.ended = Some(End { how: *how, at: record.at });
                }
            }
            // A person stopped it in its own session, past its parent.
            Event::Interrupted { by, .. } => {
                let during = rounds.iter_mut().rev().find(|known| known.began <= record.at && known.ended.is_none());
                if let Some(known) = during.filter(|known| known.stopped.is_none()) {
                    known.stopped = Some(Stopped { by: *by, at: record.at });
                }
            }
            _ => {}
        }
    }
}

fn tool_of(facts: &[Record], wanted: &CallId) -> String {
    let called = facts.iter().find_map(|record| match &record.event {
        Event::Called { call, tool, .. } if call == wanted => Some(tool.clone()),
        _ => None,
    });
    called.unwrap_or_default()
}

/// Whose words woke it.
fn speaker(spawn: &Spawn) -> String {
    match &spawn.by {
        Some(Source::User) => "you".to_owned(),
        Some(Source::Agent { name, .. }) => name.clone(),
        _ => "another agent".to_owned(),
    }
}

fn notice(entry: &EntryId, queued: Timestamp, parent: &Session, above: &[Record], running: bool) -> Told {
    let taken = above.iter().find_map(|record| match &record.event {
        Event::StepStarted { step, took, .. } if took.contains(entry) => Some(Taken { step: *step, at: record.at }),
        _ => None,
    });
    let dropped = above.iter().find_map(|record| match &record.event {
        Event::Unqueued { entry: gone } if gone == entry => Some(record.at),
        _ => None,
    });
    let waits = (taken.is_none() && dropped.is_none()).then(|| waits_because(parent, running));
    Told::Notice { entry: entry.clone(), queued, taken, dropped, waits }
}

/// Why a session has not taken what waits in its queue.
fn waits_because(parent: &Session, running: bool) -> String {
    let root = parent.birth().map_or_else(|| parent.id().clone(), |birth| birth.root.clone());
    match () {
        () if parent.hold().is_some() => {
            let hold = parent.hold().map_or("", words::hold);
            format!("{} is held: {hold}", parent.id())
        }
        () if !running => format!("no process runs {}: `posse sessions resume {root}` goes on with it", parent.id()),
        () if parent.step().is_some() => format!("{} is in the middle of a model call; it is taken at the next", parent.id()),
        () if !parent.calls().is_empty() => format!("{} waits for its calls; it is taken when they are done", parent.id()),
        () => format!("{} is about to take it", parent.id()),
    }
}

fn untold(round: &Round, parent: &Session, running: bool) -> Option<String> {
    let root = parent.birth().map_or_else(|| parent.id().clone(), |birth| birth.root.clone());
    match (&round.ended, running) {
        (Some(_), true) => Some(format!("{} hears of it in a moment", parent.id())),
        (Some(_), false) => Some(format!("no process runs {}: it hears of it when `posse sessions resume {root}` goes on", parent.id())),
        (None, _) => None,
    }
}
