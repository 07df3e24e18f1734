//! Decisions about tasks and about what calls leave running: how they begin, who waits for them, where their end goes.
//!
//! The end of a round is one fact, and where it goes follows from this session's own state: to the call that waits, else
//! into the queue. So it is heard once, whoever detached, read, stopped or resumed the task meanwhile.

use std::time::Duration;

use crate::{
    command::{Given, TaskReport},
    decide::{TITLE_BYTES_MAX, WORDS_BYTES_MAX},
    entry::Source,
    event::Event,
    ids::{CallId, EntryId, SessionId, Timestamp},
    outcome::{How, Outcome},
    part::Part,
    seams::{Finish, ModelFailure},
    state::{CallOwner, CallState, Session},
    task::{Spawn, To},
    text::{Text, clip, one_line},
};

/// So many overloads in a row are enough for another model to be asked.
const OVERLOADS_MAX: u32 = 2;

/// Paths that one event names.
const PATHS_BYTES_MAX: usize = 8 * 1024;

/// Nobody is waited for longer than this while another model could answer.
const PATIENCE: Duration = Duration::from_secs(15);

impl Session {
    /// A running call starts a task. The call waits for it, or is answered at once by `launched`.
    pub(crate) fn spawn(&self, call: CallId, task: SessionId, round: u64, spawn: Spawn, launched: Option<Outcome>) -> Vec<Event> {
        if !self.is_running(&call) || self.tasks.contains_key(&task) {
            return Vec::new();
        }
        let wait = launched.is_none();
        let mut events = vec![Event::TaskStarted { call: call.clone(), task, round, spawn, wait }];
        events.extend(launched.map(|outcome| Event::CallFinished { call, outcome }));
        events
    }

    pub(crate) fn detach(&self, task: SessionId, launched: Outcome) -> Vec<Event> {
        let Some(open) = self.tasks.get(&task).filter(|open| open.foreground) else { return Vec::new() };
        let calls: Vec<CallId> = open.waiting.iter().map(|waiter| waiter.call.clone()).collect();
        let mut events = vec![Event::Detached { task }];
        events.extend(calls.into_iter().map(|call| Event::CallFinished { call, outcome: launched.clone() }));
        events
    }

    /// A running call takes the place of the notice.
    pub(crate) fn await_task(&self, call: CallId, task: SessionId, until: Option<Timestamp>) -> Vec<Event> {
        if self.is_running(&call) && self.tasks.contains_key(&task) { vec![Event::TaskAwaited { task, call, until }] } else { Vec::new() }
    }

    pub(crate) fn lapse(&self, call: CallId, outcome: Outcome) -> Vec<Event> {
        let waits = self.call(&call).is_some_and(|open| matches!(open.state, CallState::Waiting { .. }));
        if waits { vec![Event::CallFinished { call, outcome }] } else { Vec::new() }
    }

    pub(crate) fn wake(&self, task: SessionId, round: u64, spawn: Spawn) -> Vec<Event> {
        if self.tasks.contains_key(&task) { Vec::new() } else { vec![Event::TaskResumed { task, round, spawn }] }
    }

    /// The last notice of a task, if it still waits, is not needed any more.
    pub(crate) fn noticed(&self, task: &SessionId) -> Vec<Event> {
        let of_task = |source: &Source| matches!(source, Source::Task { task: ended } if ended == task);
        let last = self.queue.waiting().iter().filter(|waiting| of_task(&waiting.source)).max_by_key(|waiting| waiting.seq);
        last.map(|waiting| Event::Unqueued { entry: waiting.id.clone() }).into_iter().collect()
    }

    pub(crate) fn task_ended(&self, end: TaskReport, given: &Given) -> Vec<Event> {
        let Some(open) = self.tasks.get(&end.task).filter(|open| open.round == end.round) else { return Vec::new() };
        let (mut events, advice) = (self.internal_ended(open, &end), self.advice_of(open, &end));
        let TaskReport { task, round, how, result, notice, said, awaited, usage, effort, left, .. } = end;
        events.extend(left.map(|left| Event::WorktreeLeft { task: task.clone(), left }));
        let mut waiting = open.waiting.iter().map(|waiter| &waiter.call).filter(|call| self.call(call).is_some());
        let words = |call: &CallId| awaited.iter().find(|(waits, _)| waits == call).map_or(&result, |(_, words)| words).clone();
        let (to, text) = match waiting.next() {
            Some(call) => (To::Call { call: call.clone() }, words(call)),
            // What it said is in the fact that it led to.
            None if open.internal => (To::Internal, Text::default()),
            None => (To::Queue { entry: EntryId::fresh(given.ids), worded: true }, notice),
        };
        let direct = match &to {
            To::Call { call } => self.direct_answer(call, how, said),
            _ => Vec::new(),
        };
        events.push(Event::TaskEnded { task, round, how, result: text, usage, to, effort });
        events.extend(advice);
        for call in waiting {
            let outcome = match how {
                How::Completed | How::Limit => Outcome::done(words(call)),
                How::Failed | How::Stopped => Outcome::failed(words(call)),
            };
            events.push(Event::CallFinished { call: call.clone(), outcome });
        }
        events.extend(direct);
        events
    }

    /// Where the user ran an agent for its answer alone, its answer is said in its name and the turn is over.
    fn direct_answer(&self, call: &CallId, how: How, said: Text) -> Vec<Event> {
        let direct = self.call(call).is_some_and(|open| matches!(&open.owner, CallOwner::Subtask(subtask) if subtask.direct));
        if !direct || !matches!(how, How::Completed | How::Limit) || self.hold.is_some() {
            return Vec::new();
        }
        let (step, parts) = (self.steps, vec![Part::Text { text: said, synthetic: false }]);
        vec![
            Event::StepStarted { step, took: Vec::new(), reserved: Default::default(), closing: false, notes: Vec::new() },
            Event::Replied { step, parts, calls: 0, usage: Default::default(), finish: Finish::Stop, author: Some(String::new()) },
        ]
    }

    /// More files than an event holds are counted and not named: the list is for the eye, git has them all.
    pub(crate) fn bring_home(&self, task: SessionId, mut paths: Vec<String>, onto: String, discarded: bool) -> Vec<Event> {
        let (mut bytes, all) = (0, paths.len());
        paths.retain(|path| {
            bytes += path.len() + 4;
            bytes <= PATHS_BYTES_MAX
        });
        let more = (all - paths.len()) as u64;
        vec![Event::BroughtHome { task, paths, more, onto: clip(onto, WORDS_BYTES_MAX), discarded }]
    }

    pub(crate) fn released(&self, task: SessionId, removed: bool, words: String) -> Vec<Event> {
        if !self.releases.contains(&task) || self.tasks.contains_key(&task) {
            return Vec::new();
        }
        vec![Event::Released { task, removed, words: clip(words, WORDS_BYTES_MAX) }]
    }

    pub(crate) fn keep(&self, call: CallId, title: String) -> Vec<Event> {
        if self.is_running(&call) && !self.kept.contains_key(&call) {
            vec![Event::Kept { call, title: one_line(title, TITLE_BYTES_MAX) }]
        } else {
            Vec::new()
        }
    }

    pub(crate) fn kept_ended(&self, call: CallId, words: Option<Text>, given: &Given) -> Vec<Event> {
        if !self.kept.contains_key(&call) {
            return Vec::new();
        }
        let entry = words.is_some().then(|| EntryId::fresh(given.ids));
        vec![Event::KeptEnded { call, words: words.unwrap_or_default(), entry }]
    }

    pub(crate) fn change_model(&self, model: Option<String>, why: String) -> Vec<Event> {
        let now = self.stand_in.as_ref().map(|stand_in| &stand_in.model);
        if now == model.as_ref() { Vec::new() } else { vec![Event::ModelChanged { model, why }] }
    }

    /// Who answers next, when the model that was asked is overloaded and waiting for it would take long.
    pub(crate) fn stand_in_for(&self, failure: ModelFailure, failed: u32, wait: Duration, given: &Given) -> Option<String> {
        let overloaded = matches!(failure, ModelFailure::Overloaded | ModelFailure::RateLimited);
        if !overloaded || (failed < OVERLOADS_MAX && wait <= PATIENCE) {
            return None;
        }
        let own = self.birth.as_ref().map(|birth| &birth.recipe.model);
        let chain: Vec<&String> = given.fallbacks.iter().filter(|model| Some(*model) != own).collect();
        let now = self.stand_in.as_ref().and_then(|stand_in| chain.iter().position(|model| **model == stand_in.model));
        chain.get(now.map_or(0, |at| at + 1)).copied().cloned()
    }

    /// Whether the end of a task is this call's result.
    pub(crate) fn is_awaited_by(&self, task: &SessionId, call: &CallId) -> bool {
        self.tasks.get(task).is_some_and(|open| open.waiting.iter().any(|waiter| waiter.call == *call))
    }

    fn is_running(&self, call: &CallId) -> bool {
        self.call(call).is_some_and(|open| open.state == CallState::Running)
    }
}
