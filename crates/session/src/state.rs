//! The state: what a session is right now, without its texts.
//!
//! Changed only by `apply.rs`. Finished calls and closed tasks leave it, so its size follows what is open, not how long
//! the history is, and a draft of it is cheap.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::{
    advice::Advice,
    command::Effect,
    compaction::Compaction,
    event::{Event, Hold, Kind, Recipe, Segment},
    grant::{Grant, Granted},
    ids::{AskId, CallId, EntryId, Hash, Seq, SessionId, Timestamp},
    outcome::{By, How},
    queue::{Begins, Queue},
    rule::{Decision, Rules},
    seams::ModelFailure,
    task::{Purpose, Spawn},
    usage::Usage,
    worktree::Worktree,
};

/// Raised whenever `apply` or the state changes meaning; a saved fold of another version is no use.
pub const FOLD_VERSION: u32 = 3;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    pub(crate) id: SessionId,
    pub(crate) head: Seq,
    pub(crate) birth: Option<Arc<Birth>>,
    pub(crate) configured: Option<Arc<Configuration>>,
    pub(crate) queue: Queue,
    /// Open calls in the order the model wrote them.
    pub(crate) calls: Vec<OpenCall>,
    pub(crate) step: Option<OpenStep>,
    /// How many steps were started; the next one's number.
    pub(crate) steps: u64,
    /// The model owes an answer: a turn is open.
    pub(crate) answering: bool,
    /// The turn was ended before its answer; a resume goes on with it.
    pub(crate) cut_short: bool,
    /// The next step goes on with a turn that was cut short, and says so.
    pub(crate) resumed: bool,
    /// Agents the user ran directly, that are still to be called.
    pub(crate) subtasks: VecDeque<Subtask>,
    /// One of them has come back, and the model is to be told to go on.
    pub(crate) follow_up: bool,
    pub(crate) turn: Turn,
    /// The turn that has just ended: an answer that is asked for once more goes on with it.
    pub(crate) ended_turn: Turn,
    /// When the turn that is open began.
    pub(crate) turn_began: Option<Timestamp>,
    /// Whose calls the next facts `Called` are.
    pub(crate) announced: Announced,
    pub(crate) retry: Retry,
    pub(crate) hold: Option<Hold>,
    /// The record that holds it.
    pub(crate) held_at: Seq,
    /// Owners that died on this session since it last got somewhere.
    pub(crate) takeovers: u32,
    /// The last call's fingerprint, and how often it came in a row.
    pub(crate) repeats: (u64, u32),
    /// Calls in a row whose input made no sense.
    pub(crate) misfires: u32,
    pub(crate) tasks: BTreeMap<SessionId, OpenTask>,
    /// Tasks whose worktrees hold nothing and are to be removed.
    pub(crate) releases: BTreeSet<SessionId>,
    /// What calls have left running, by the call.
    pub(crate) kept: BTreeMap<CallId, String>,
    /// Asks that closed before a person answered, the last few: an answer may still come.
    pub(crate) unanswered: VecDeque<Unanswered>,
    /// Who answers while the session's own model cannot.
    pub(crate) stand_in: Option<StandIn>,
    /// How many tasks were ever started.
    pub(crate) tasks_started: u64,
    /// What a person allowed for the rest of this session, or for more.
    pub(crate) grants: Vec<Granted>,
    /// Files that the user put back, and the model does not know yet.
    pub(crate) undone: Vec<String>,
    /// What the user did with the work of tasks, that the model does not know yet.
    pub(crate) brought_home: Vec<String>,
    pub(crate) transcript: Transcript,
    pub(crate) compaction: Compaction,
    pub(crate) advice: Advice,
    /// What was wrong with the last answer, to be told with the next step.
    pub(crate) misshapen: Option<String>,
    /// The answer of this turn was asked for once more already.
    pub(crate) asked_again: bool,
    pub(crate) usage: Usage,
    /// What the provider last counted as input, cached or not.
    pub(crate) last_input: u64,
    pub(crate) last_reply: Option<Seq>,
    pub(crate) round: Round,
    pub(crate) foreign: bool,
}

/// Where a session comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Birth {
    pub kind: Kind,
    pub root: SessionId,
    pub parent: Option<SessionId>,
    pub directory: String,
    pub title: String,
    pub recipe: Recipe,
    pub ceiling: Vec<Rules>,
    /// How many ancestors it has.
    pub depth: u64,
    /// An ancestor only looks: what the shell would ask about is denied.
    pub strict_shell: bool,
    /// The folder of its own in which it works, if it has one.
    pub worktree: Option<Worktree>,
    /// The worktree of another in which it works, if it has none of its own.
    pub within: Option<String>,
}

/// Stands for rules that could not be written: read back, they deny everything.
const UNREADABLE: &str = "?";

impl Birth {
    /// What an `Event::Created` says; nothing for any other.
    pub fn of(event: &Event) -> Option<Self> {
        let Event::Created { kind, root, parent, directory, title, recipe, ceiling, above, depth, strict_shell, worktree, within } = event
        else {
            return None;
        };
        let mut ceiling = ceiling.clone();
        // Rules that cannot be read allow nothing.
        let unreadable = || vec![Rules::denying_all()];
        if !above.is_blank() {
            ceiling.extend(above.inline().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_else(unreadable));
        }
        let (kind, root, parent, directory) = (*kind, root.clone(), parent.clone(), directory.clone());
        Some(Self {
            kind,
            root,
            parent,
            directory,
            title: title.clone(),
            recipe: recipe.clone(),
            ceiling,
            depth: *depth,
            strict_shell: *strict_shell,
            worktree: worktree.clone(),
            within: within.clone(),
        })
    }

    /// The first fact of a log that begins so.
    pub fn into_created(self) -> Event {
        let above = if self.ceiling.is_empty() {
            String::new()
        } else {
            serde_json::to_string(&self.ceiling).unwrap_or_else(|_| UNREADABLE.into())
        };
        Event::Created {
            kind: self.kind,
            root: self.root,
            parent: self.parent,
            directory: self.directory,
            title: self.title,
            recipe: self.recipe,
            ceiling: Vec::new(),
            above: above.into(),
            depth: self.depth,
            strict_shell: self.strict_shell,
            worktree: self.worktree,
            within: self.within,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Configuration {
    pub head: Hash,
    pub model: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenStep {
    pub step: u64,
    pub closing: bool,
    pub since: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenCall {
    pub call: CallId,
    pub tool: String,
    /// The record with its input: `Called`, or `Looked` when a hook amended it.
    pub seq: Seq,
    pub repeatable: bool,
    pub attempts: u32,
    /// How often the same call came in a row, with this one.
    pub repeats: u32,
    pub state: CallState,
    /// A person said yes to it.
    pub consented: bool,
    /// What a person said to it.
    pub answer: Option<String>,
    /// Whose call it is.
    pub owner: CallOwner,
}

impl OpenCall {
    /// Whether it is part of the turn that is open, and not of words that will begin one.
    pub(crate) fn is_of_turn(&self) -> bool {
        !matches!(self.owner, CallOwner::Entry(_))
    }
}

/// Whose call it is: most are the model's.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub enum CallOwner {
    #[default]
    Model,
    /// The words of this entry need its result.
    Entry(EntryId),
    /// An agent that the user ran directly.
    Subtask(Subtask),
}

/// An agent that the user ran directly: which part of which record, and whether its answer is the answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Subtask {
    pub seq: Seq,
    /// Among the subtasks of that record.
    pub at: usize,
    pub direct: bool,
}

/// What holds for the turn that is open.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Turn {
    pub agent: Option<String>,
    pub model: Option<String>,
    pub allowed: Vec<Grant>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum CallState {
    /// A hook has to look first.
    Unlooked,
    /// There is a verdict; what follows from it is not in the log yet.
    Judged(Decision),
    Asked {
        ask: AskId,
        decision: Decision,
    },
    Running,
    /// Told to stop; its outcome is on the way.
    Stopping,
    /// Waits for a task.
    Waiting {
        task: SessionId,
    },
}

/// An ask nobody answered in time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unanswered {
    pub ask: AskId,
    pub call: CallId,
    pub decision: Decision,
}

/// A model that answers in place of the session's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StandIn {
    pub model: String,
    pub since: Timestamp,
}

/// A call that waits for a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waiter {
    pub call: CallId,
    /// It waits until then at most.
    pub until: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenTask {
    pub round: u64,
    /// The calls that wait for it, the one that started it first.
    pub waiting: Vec<Waiter>,
    /// The call that started it waits for it: both are ended together.
    pub foreground: bool,
    /// What it is for, if the model hears nothing of it.
    pub purpose: Option<Purpose>,
    pub internal: bool,
    /// How it is to be held, if it was told to stop.
    pub stopped: Option<(By, Hold)>,
    /// The record with its spawn.
    pub seq: Seq,
}

impl OpenTask {
    /// It ends when everything else does. One that was told to stop is seen out, so that its own log has an end too.
    pub(crate) fn yields(&self) -> bool {
        self.stopped.is_none() && self.purpose.as_ref().is_some_and(Purpose::yields)
    }

    /// Nobody waits for it.
    pub(crate) fn new(round: u64, spawn: &Spawn, seq: Seq) -> Self {
        let (purpose, internal) = (spawn.purpose.clone(), spawn.internal);
        Self { round, waiting: Vec::new(), foreground: false, purpose, internal, stopped: None, seq }
    }
}

/// Whose the calls are whose facts come next.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub enum Announced {
    #[default]
    Model,
    Kernel,
    Entry(EntryId),
}

/// Failures of the step that is owed, in a row.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Retry {
    /// The kind of the last failure, and how often it came in a row.
    pub kind: Option<ModelFailure>,
    pub count: u32,
    /// Failures of any kind in a row.
    pub total: u32,
    pub at: Option<Timestamp>,
}

impl Retry {
    /// One failure more.
    pub(crate) fn after(self, failure: ModelFailure) -> Self {
        let count = if self.kind == Some(failure) { self.count.saturating_add(1) } else { 1 };
        Self { kind: Some(failure), count, total: self.total.saturating_add(1), at: self.at }
    }
}

/// From a prompt to `Ended`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Round {
    pub number: u64,
    pub open: bool,
    pub how: How,
    pub error: String,
    pub usage: Usage,
    pub reply: Option<Seq>,
    /// Model calls that were answered.
    pub steps: u64,
    /// Calls of tools.
    pub calls: u64,
    /// When its first step started.
    pub began: Option<Timestamp>,
}

/// Which stretches of which logs the model sees: closed ones, then this log from `open_from` on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Transcript {
    pub closed: Arc<Vec<Segment>>,
    pub open_from: Seq,
}

impl Turn {
    /// What an entry brings to the turn it begins or steers.
    pub(crate) fn join(&mut self, begins: &Begins) {
        self.agent = begins.agent.clone().or(self.agent.take());
        self.model = begins.model.clone().or(self.model.take());
        self.allowed.extend(begins.allowed.iter().cloned());
    }
}

impl Session {
    /// A session nothing has happened to yet.
    pub fn new(id: SessionId) -> Self {
        Self {
            id,
            head: 0,
            birth: None,
            configured: None,
            queue: Queue::default(),
            calls: Vec::new(),
            step: None,
            steps: 0,
            answering: false,
            cut_short: false,
            resumed: false,
            subtasks: VecDeque::new(),
            follow_up: false,
            turn: Turn::default(),
            ended_turn: Turn::default(),
            turn_began: None,
            announced: Announced::default(),
            retry: Retry::default(),
            hold: None,
            held_at: 0,
            takeovers: 0,
            repeats: (0, 0),
            misfires: 0,
            tasks: BTreeMap::new(),
            releases: BTreeSet::new(),
            kept: BTreeMap::new(),
            unanswered: VecDeque::new(),
            stand_in: None,
            tasks_started: 0,
            grants: Vec::new(),
            undone: Vec::new(),
            brought_home: Vec::new(),
            transcript: Transcript::default(),
            compaction: Compaction::default(),
            advice: Advice::default(),
            misshapen: None,
            asked_again: false,
            usage: Usage::default(),
            last_input: 0,
            last_reply: None,
            round: Round {
                number: 0,
                open: false,
                how: How::Completed,
                error: String::new(),
                usage: Usage::default(),
                reply: None,
                steps: 0,
                calls: 0,
                began: None,
            },
            foreign: false,
        }
    }

    pub fn id(&self) -> &SessionId {
        &self.id
    }

    pub fn head(&self) -> Seq {
        self.head
    }

    pub fn birth(&self) -> Option<&Birth> {
        self.birth.as_deref()
    }

    pub fn configured(&self) -> Option<&Configuration> {
        self.configured.as_deref()
    }

    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    pub fn calls(&self) -> &[OpenCall] {
        &self.calls
    }

    pub fn call(&self, call: &CallId) -> Option<&OpenCall> {
        self.calls.iter().find(|open| open.call == *call)
    }

    pub fn step(&self) -> Option<&OpenStep> {
        self.step.as_ref()
    }

    pub fn steps(&self) -> u64 {
        self.steps
    }

    pub fn hold(&self) -> Option<Hold> {
        self.hold
    }

    pub fn tasks(&self) -> &BTreeMap<SessionId, OpenTask> {
        &self.tasks
    }

    /// Tasks whose worktrees hold nothing and are to be removed.
    pub fn releases(&self) -> &BTreeSet<SessionId> {
        &self.releases
    }

    /// What calls have left running.
    pub fn kept(&self) -> &BTreeMap<CallId, String> {
        &self.kept
    }

    /// Whether another session has started it.
    pub fn is_task(&self) -> bool {
        self.birth.as_ref().is_some_and(|birth| birth.parent.is_some())
    }

    /// Whether the model should be called and is not: it waits for a lane, for the ledger or for its next try.
    pub fn waits_for_model(&self) -> bool {
        self.step.is_none() && self.calls.is_empty() && !self.is_compacting() && self.wants_step()
    }

    /// When the turn that is open began; nothing between turns.
    pub fn turn_began(&self) -> Option<Timestamp> {
        self.turn_began.filter(|_| !self.is_between_turns())
    }

    /// The step that is owed was tried before.
    pub fn has_failed(&self) -> bool {
        0 < self.retry.total
    }

    pub fn stand_in(&self) -> Option<&StandIn> {
        self.stand_in.as_ref()
    }

    /// Nothing goes on in here but what runs in the background.
    pub fn only_waits(&self) -> bool {
        let sums_up = self.is_compacting() || (self.compaction.again && self.hold.is_none());
        self.step.is_none() && self.calls.is_empty() && !self.wants_step() && !self.wants_expansion() && !sums_up
    }

    pub fn tasks_started(&self) -> u64 {
        self.tasks_started
    }

    pub fn usage(&self) -> Usage {
        self.usage
    }

    pub fn last_input(&self) -> u64 {
        self.last_input
    }

    pub fn last_reply(&self) -> Option<Seq> {
        self.last_reply
    }

    pub fn round(&self) -> &Round {
        &self.round
    }

    /// Whether its own limit lets this round only sum up.
    pub fn is_at_step_limit(&self) -> bool {
        let limit = self.birth.as_ref().and_then(|birth| birth.recipe.steps_max);
        limit.is_some_and(|limit| limit <= self.round.steps)
    }

    /// Whether the log holds facts of a later version: then this one only reads it.
    pub fn is_foreign(&self) -> bool {
        self.foreign
    }

    /// The stretches the model sees, in order.
    pub fn segments(&self) -> Vec<Segment> {
        let mut segments = self.transcript.closed.as_ref().clone();
        if self.transcript.open_from < self.head {
            segments.push(Segment { session: self.id.clone(), from: self.transcript.open_from, to: self.head, pruned: false });
        }
        segments
    }

    /// Its conversation begins in another session.
    pub fn begins_elsewhere(&self) -> bool {
        self.transcript.closed.iter().any(|segment| segment.session != self.id)
    }

    /// No turn is open: the configuration may change.
    pub fn is_between_turns(&self) -> bool {
        self.step.is_none() && !self.answering && self.calls.is_empty()
    }

    /// Nothing is open and nothing is due: only a new entry, a letter or a resume changes anything.
    pub fn is_settled(&self) -> bool {
        self.is_quiet() && !self.round.open && self.tasks.is_empty()
    }

    /// No step, no call, no due entry, no open task. What is left is to record the round's end.
    pub(crate) fn is_quiet(&self) -> bool {
        self.only_waits() && self.tasks.values().all(OpenTask::yields) && self.kept.is_empty() && self.releases.is_empty()
    }

    /// Whether a resume would lead anywhere.
    pub(crate) fn has_more_to_do(&self) -> bool {
        self.answering || self.cut_short || !self.queue.is_empty() || !self.subtasks.is_empty()
    }

    /// Whether the model should be called when nothing else is open.
    pub(crate) fn wants_step(&self) -> bool {
        self.hold.is_none() && (self.answering || self.queue.is_ready() || !self.subtasks.is_empty())
    }

    /// Whether typed words wait to be looked at.
    pub(crate) fn wants_expansion(&self) -> bool {
        self.hold.is_none() && self.queue.typed().next().is_some()
    }

    /// The agent that the user ran directly and that is called next, if the next step is one.
    pub fn next_subtask(&self) -> Option<Subtask> {
        self.subtasks.front().cloned().or_else(|| {
            let due = self.queue.due(self.answering);
            let waiting = due.iter().filter_map(|id| self.queue.get(id));
            waiting
                .filter_map(|waiting| waiting.begins.subtasks.first().map(|direct| Subtask { seq: waiting.seq, at: 0, direct: *direct }))
                .next()
        })
    }

    /// Who speaks in the step that comes next, and on which model, where it is not the session's own agent.
    pub fn next_turn(&self) -> Turn {
        let mut turn = if self.is_between_turns() { Turn::default() } else { self.turn.clone() };
        if self.is_between_turns() {
            for waiting in self.queue.due(self.answering).iter().filter_map(|id| self.queue.get(id)) {
                turn.join(&waiting.begins);
            }
        }
        turn.model = self.stand_in.as_ref().map(|stand_in| stand_in.model.clone()).or(turn.model);
        turn
    }

    /// What answers in this session allow beyond one call.
    pub fn grants(&self) -> &[Granted] {
        &self.grants
    }

    pub fn open_asks(&self) -> impl Iterator<Item = (&AskId, &OpenCall)> {
        self.calls.iter().filter_map(|call| match &call.state {
            CallState::Asked { ask, .. } => Some((ask, call)),
            _ => None,
        })
    }

    /// Whether an effect has already begun, as far as the log knows.
    pub fn has_begun(&self, effect: &Effect) -> bool {
        match effect {
            Effect::CallModel { step, .. } => self.step.as_ref().is_some_and(|open| open.step == *step),
            Effect::RunCall { call } => self.call(call).is_some_and(|open| open.state == CallState::Running),
            Effect::Expand { .. }
            | Effect::Look { .. }
            | Effect::Watch { .. }
            | Effect::StopTask { .. }
            | Effect::Mind { .. }
            | Effect::Release { .. } => true,
            Effect::Subtask { .. } | Effect::Compact { .. } | Effect::Conclude { .. } => false,
        }
    }
}
