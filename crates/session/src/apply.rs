//! Folding one fact into the state. Total: every fact a log can hold has a meaning here, in any order.
//!
//! This is the only thing replay runs, so a changed decision never breaks an old log.

use std::sync::Arc;

use crate::{
    decide::ATTEMPTS_MAX,
    entry::{Delivery, Priority, Source},
    event::{Event, Hold, Record},
    grant::{Grant, Granted},
    ids::{AskId, CallId, EntryId, Seq, SessionId, Timestamp},
    outcome::{Answer, By, How, Outcome, Scope},
    part::Part,
    queue::{Begins, Waiting, compacts, fingerprint, subtasks},
    rule::{Decision, Verdict},
    seams::ModelFailure,
    state::{
        Announced, Birth, CallOwner, CallState, Configuration, OpenCall, OpenStep, OpenTask, Retry, Session, StandIn, Subtask, Turn,
        Unanswered, Waiter,
    },
    task::{Purpose, To},
    text::{INLINE_BYTES_MAX, Text},
    usage::Usage,
};

/// An error is kept in the state only to be shown; its full words are in the log.
const ERROR_CHARS_MAX: usize = 500;

/// So many tasks are told of at once; the state stays small.
const BROUGHT_HOME_MAX: usize = 20;

/// Files the model is told of that were put back; more would be a list of its own.
const UNDONE_MAX: usize = 50;

/// Asks that may still be answered after they were closed.
pub(crate) const UNANSWERED_MAX: usize = 16;

impl Session {
    pub fn apply(&mut self, record: &Record) {
        self.head = record.seq;
        match &record.event {
            Event::Created { .. } => self.apply_created(&record.event),
            Event::Configured { head, model } => {
                self.configured = Some(Arc::new(Configuration { head: head.clone(), model: model.clone() }))
            }
            Event::Queued { entry } => {
                self.queue.push(entry, record.seq);
                self.woken_by(&entry.source);
                self.open_round_unless_held();
            }
            Event::Expanding { entry, .. } => self.announced = Announced::Entry(entry.clone()),
            Event::Expanded { entry, parts, agent, model, allowed } => {
                let (agent, model, allowed) = (agent.clone(), model.clone(), allowed.clone());
                let begins = Begins { subtasks: subtasks(parts), compacts: compacts(parts), agent, model, allowed };
                self.queue.expand(entry, record.seq, parts.iter().map(Part::bytes).sum(), begins);
            }
            Event::StepStarted { step, took, closing, .. } => self.apply_step_started(*step, took, *closing, record.at),
            Event::Replied { calls, usage, author, .. } => self.apply_replied(record.seq, *calls, *usage, author.is_some()),
            Event::Called { .. } => self.apply_called(record),
            Event::StepFailed { failure, error, retry_at, usage, .. } => {
                self.step = None;
                self.spend(*usage);
                // A step that gave way to a more urgent entry did not fail.
                let failed = failure.map_or(self.retry, |failure| self.retry.after(failure));
                match retry_at {
                    Some(at) => {
                        if *failure == Some(ModelFailure::TooLong) {
                            self.compaction.overflow = Some(shown_error(error));
                        }
                        self.retry = Retry { at: Some(*at), ..failed };
                    }
                    None if failure.is_some() => self.stand_still(Hold::ModelError, How::Failed, error),
                    None => {}
                }
            }
            Event::Looked { call, decision, .. } => {
                if let Some(open) = self.open_mut(call) {
                    open.seq = record.seq;
                    open.state = CallState::Judged(decision.clone());
                }
            }
            Event::Asked { ask, call, decision } => self.set(call, CallState::Asked { ask: ask.clone(), decision: decision.clone() }),
            Event::Answered { ask, call, answer, by } => self.apply_answered(ask, call, answer, *by),
            Event::CallStarted { call, attempt } => {
                if let Some(open) = self.open_mut(call) {
                    (open.attempts, open.state) = (*attempt, CallState::Running);
                }
            }
            Event::CallFinished { call, outcome } => self.finish(call, outcome),
            Event::Interrupted { hold, .. } => self.apply_interrupted(*hold),
            Event::Resumed { .. } => {
                self.hold = None;
                self.takeovers = 0;
                self.retry = Retry::default();
                self.forget_attempts();
                self.resumed = self.cut_short && !self.answering;
                self.answering |= self.cut_short;
                if self.wants_step() || self.wants_expansion() {
                    self.open_round();
                }
            }
            Event::TookOver { usage, .. } => self.apply_took_over(record, *usage),
            Event::LimitReached { limit, words, .. } => {
                self.step = None;
                self.stop_running();
                let how = if limit.is_deadline() { How::Failed } else { How::Limit };
                self.stand_still(Hold::Limit, how, words);
            }
            Event::Forked { segments } => {
                self.transcript.closed = Arc::new(segments.clone());
                self.transcript.open_from = record.seq;
            }
            Event::Compacted { .. } | Event::Pruned { .. } | Event::CompactionFailed { .. } => {
                self.apply_compaction(record.seq, &record.event);
            }
            Event::Titled { .. } => {}
            Event::Advised { advice, .. } => self.advice.note(advice, record.seq),
            Event::Misshapen { words, again } => self.apply_misshapen(words, *again),
            Event::Reverted { to } => self.apply_reverted(record.seq, *to),
            Event::Ended { .. } => self.round.open = false,
            Event::TaskStarted { .. }
            | Event::TaskResumed { .. }
            | Event::TaskAwaited { .. }
            | Event::TaskEnded { .. }
            | Event::WorktreeLeft { .. }
            | Event::Released { .. }
            | Event::Detached { .. }
            | Event::TaskStopped { .. } => self.apply_task(record),
            Event::Unqueued { .. }
            | Event::Kept { .. }
            | Event::KeptEnded { .. }
            | Event::ModelChanged { .. }
            | Event::Revoked { .. }
            | Event::BroughtHome { .. }
            | Event::Undone { .. } => self.apply_beside(record),
            Event::Unknown(_) => self.foreign |= !record.event.is_understood(),
        }
    }

    fn apply_created(&mut self, event: &Event) {
        self.birth = Birth::of(event).map(Arc::new);
    }

    fn apply_step_started(&mut self, step: u64, took: &[EntryId], closing: bool, at: Timestamp) {
        // What was repeated before the user spoke is no loop of this turn.
        if self
            .queue
            .waiting()
            .iter()
            .any(|waiting| matches!(waiting.source, Source::User | Source::Prompt { .. }) && took.contains(&waiting.id))
        {
            (self.repeats, self.misfires) = ((0, 0), 0);
        }
        let begins_turn = !self.answering && self.subtasks.is_empty();
        if begins_turn {
            self.asked_again = false;
            self.compaction.failed = false;
            self.advice.turn_begins();
            (self.turn, self.turn_began) = (Turn::default(), Some(at));
        }
        for waiting in self.queue.take(took) {
            if waiting.source == Source::User {
                self.advice.words = self.advice.words.saturating_add(waiting.bytes);
            }
            self.turn.join(&waiting.begins);
            let subtask = |(at, direct): (usize, &bool)| Subtask { seq: waiting.seq, at, direct: *direct };
            self.subtasks.extend(waiting.begins.subtasks.iter().enumerate().map(subtask));
        }
        self.follow_up = false;
        // A round begins at the latest here.
        self.open_round();
        self.round.began.get_or_insert(at);
        self.step = Some(OpenStep { step, closing, since: at });
        (self.steps, self.answering, self.cut_short, self.resumed) = (step.saturating_add(1), true, false, false);
        self.retry.at = None;
        self.undone.clear();
        self.brought_home.clear();
        self.misshapen = None;
    }

    fn apply_replied(&mut self, seq: Seq, calls: u64, usage: Usage, by_kernel: bool) {
        let closing = self.step.take().is_some_and(|step| step.closing);
        self.answering = 0 < calls && !closing;
        self.announced = if by_kernel { Announced::Kernel } else { Announced::Model };
        if by_kernel && self.answering {
            return;
        }
        self.spend(usage);
        if !by_kernel {
            self.last_input = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
        }
        (self.last_reply, self.round.reply) = (Some(seq), Some(seq));
        (self.retry, self.takeovers) = (Retry::default(), 0);
        if !by_kernel {
            (self.compaction.rounds, self.compaction.overflow) = (0, None);
        }
        self.round.steps += u64::from(!by_kernel);
        self.advice.answers += u64::from(!by_kernel);
        if !self.answering {
            // What was allowed for this turn ends with it.
            if self.subtasks.is_empty() {
                self.ended_turn = std::mem::take(&mut self.turn);
            }
            (self.round.how, self.round.error) = (How::Completed, String::new());
        }
    }

    fn apply_called(&mut self, record: &Record) {
        let Event::Called { call, tool, input, title, repeatable, decision, consented, .. } = &record.event else { return };
        // A long input may be here or in a blob; its fingerprint must be the same for both.
        let print = match input.inline() {
            Some(text) if text.len() <= INLINE_BYTES_MAX => fingerprint(tool) ^ fingerprint(text).rotate_left(1),
            _ => fingerprint(&format!("{tool} {title} {}", input.bytes())),
        };
        let repeats = if self.repeats.0 == print { self.repeats.1.saturating_add(1) } else { 1 };
        self.repeats = (print, repeats);
        let state = decision.clone().map_or(CallState::Unlooked, CallState::Judged);
        let (call, tool, repeatable) = (call.clone(), tool.clone(), *repeatable);
        let owner = match &self.announced {
            Announced::Model => CallOwner::Model,
            Announced::Entry(entry) => CallOwner::Entry(entry.clone()),
            Announced::Kernel => self.subtasks.pop_front().map_or(CallOwner::Model, CallOwner::Subtask),
        };
        let (seq, consented, answer) = (record.seq, *consented, None);
        self.round.calls += 1;
        self.calls.push(OpenCall { call, tool, seq, repeatable, attempts: 0, repeats, state, consented, answer, owner });
    }

    fn apply_answered(&mut self, ask: &AskId, call: &CallId, answer: &Answer, by: By) {
        if let Some(at) = self.unanswered.iter().position(|gone| gone.ask == *ask) {
            let gone = self.unanswered.remove(at);
            if let (Some(gone), Answer::Yes { scope: scope @ (Scope::Session | Scope::Tree | Scope::Project) }) = (gone, answer) {
                self.grants.extend(granted(ask, *scope, &gone.decision));
            }
            return;
        }
        let Some(open) = self.open_mut(call) else { return };
        let CallState::Asked { decision, .. } = open.state.clone() else { return };
        let verdict = match answer {
            Answer::Yes { .. } | Answer::Words { .. } => Verdict::Allow,
            Answer::No { .. } => Verdict::Deny,
        };
        open.consented = verdict == Verdict::Allow && by != By::Policy;
        if let Answer::Words { say } = answer {
            open.answer = Some(say.clone());
        }
        if let Answer::Yes { scope: scope @ (Scope::Session | Scope::Tree | Scope::Project) } = answer {
            self.grants.extend(granted(ask, *scope, &decision));
        }
        if by == By::Policy && verdict == Verdict::Deny {
            self.leave_unanswered(ask, call, &decision);
        }
        self.set(call, CallState::Judged(Decision { verdict, ..decision }));
    }

    /// Nobody has answered this ask; somebody may yet.
    fn leave_unanswered(&mut self, ask: &AskId, call: &CallId, decision: &Decision) {
        if self.unanswered.len() == UNANSWERED_MAX {
            self.unanswered.pop_front();
        }
        self.unanswered.push_back(Unanswered { ask: ask.clone(), call: call.clone(), decision: decision.clone() });
    }

    fn apply_interrupted(&mut self, hold: Hold) {
        self.step = None;
        self.stop_running();
        let how = if matches!(hold, Hold::ModelError | Hold::TakeOvers) { How::Failed } else { How::Stopped };
        let words = if hold == Hold::TakeOvers { "three processes died while running this session" } else { "interrupted" };
        self.stand_still(hold, how, words);
    }

    /// What the lost owner had open: the step is asked again, calls that only read run again.
    fn apply_took_over(&mut self, record: &Record, usage: Usage) {
        self.spend(usage);
        self.takeovers = self.takeovers.saturating_add(1);
        if self.step.take().is_some() {
            self.retry.at = Some(record.at);
        }
        for open in &mut self.calls {
            if open.repeatable && open.state == CallState::Running && open.attempts < ATTEMPTS_MAX {
                open.state = CallState::Judged(Decision::allow());
            }
        }
    }

    /// The turn goes on with one more answer, or is over without one that fits.
    fn apply_misshapen(&mut self, words: &str, again: bool) {
        if again {
            (self.answering, self.asked_again, self.misshapen) = (true, true, Some(words.to_owned()));
            self.turn = std::mem::take(&mut self.ended_turn);
        } else {
            self.stand_still(Hold::ModelError, How::Failed, &format!("the answer does not fit the schema: {words}"));
        }
    }

    fn apply_task(&mut self, record: &Record) {
        match &record.event {
            Event::TaskStarted { call, task, round, spawn, wait } => {
                self.tasks_started += u64::from(*round == 1 && !spawn.internal);
                self.advice.begin(spawn);
                if matches!(spawn.purpose, Some(Purpose::Compact { .. })) {
                    self.compaction.again = false;
                }
                let waiting = wait.then(|| Waiter { call: call.clone(), until: None }).into_iter().collect();
                self.open_task(task, OpenTask { waiting, foreground: *wait, ..OpenTask::new(*round, spawn, record.seq) });
                self.set(call, CallState::Waiting { task: task.clone() });
            }
            Event::TaskResumed { task, round, spawn } => self.open_task(task, OpenTask::new(*round, spawn, record.seq)),
            Event::WorktreeLeft { task, left } if left.clean => _ = self.releases.insert(task.clone()),
            Event::WorktreeLeft { task, .. } | Event::Released { task, .. } => _ = self.releases.remove(task),
            Event::TaskAwaited { task, call, until } => {
                if let Some(open) = self.tasks.get_mut(task) {
                    open.waiting.push(Waiter { call: call.clone(), until: *until });
                    self.set(call, CallState::Waiting { task: task.clone() });
                }
            }
            Event::TaskEnded { task, round, result, to, .. } => {
                if self.tasks.get(task).is_some_and(|open| open.round == *round) {
                    self.tasks.remove(task);
                }
                match to {
                    To::Call { call } => self.finish(call, &Outcome::done("")),
                    To::Queue { entry, .. } => self.push_notice(entry, Source::Task { task: task.clone() }, result, record.seq),
                    To::Internal => {}
                }
            }
            Event::Detached { task } => {
                if let Some(open) = self.tasks.get_mut(task) {
                    open.waiting.clear();
                    open.foreground = false;
                }
            }
            Event::TaskStopped { task, by, hold } => {
                if let Some(open) = self.tasks.get_mut(task) {
                    let by_who = if *by == By::User { Hold::StoppedByUser } else { Hold::StoppedByModel };
                    open.stopped = Some((*by, hold.unwrap_or(by_who)));
                }
            }
            _ => {}
        }
    }

    /// What happens beside the turn: to the queue, to what runs on, to who answers.
    fn apply_beside(&mut self, record: &Record) {
        match &record.event {
            Event::Unqueued { entry } => drop(self.queue.take(std::slice::from_ref(entry))),
            Event::Kept { call, title } => {
                self.kept.insert(call.clone(), title.clone());
                self.open_round();
            }
            Event::KeptEnded { call, words, entry } => {
                self.kept.remove(call);
                if let Some(entry) = entry {
                    self.push_notice(entry, Source::Shell { call: call.clone() }, words, record.seq);
                }
            }
            Event::ModelChanged { model, .. } => {
                self.stand_in = model.clone().map(|model| StandIn { model, since: record.at });
                (self.retry.kind, self.retry.count) = (None, 0);
            }
            Event::Revoked { ask, .. } => self.grants.retain(|granted| granted.ask != *ask),
            Event::BroughtHome { task, paths, more, onto, discarded } if self.brought_home.len() < BROUGHT_HOME_MAX => {
                self.brought_home.push(crate::words::brought_home(task, paths, *more, onto, *discarded));
            }
            Event::Undone { paths, .. } => {
                let room = UNDONE_MAX.saturating_sub(self.undone.len());
                self.undone.extend(paths.iter().take(room).cloned());
            }
            _ => {}
        }
    }

    fn open_task(&mut self, task: &SessionId, open: OpenTask) {
        // What is done beside the conversation is no part of a round.
        let beside = open.purpose.as_ref().is_some_and(Purpose::is_beside);
        self.tasks.insert(task.clone(), open);
        if !beside {
            self.open_round();
        }
    }

    fn push_notice(&mut self, entry: &EntryId, source: Source, words: &Text, seq: Seq) {
        self.woken_by(&source);
        let (delivery, priority, bytes) = (Delivery::NextStep, Priority::Later, words.bytes());
        self.queue.push_notice(Waiting {
            id: entry.clone(),
            source,
            delivery,
            priority,
            bytes,
            seq,
            typed: false,
            begins: Begins::default(),
        });
        self.open_round_unless_held();
    }

    /// A new entry lifts a hold if it comes from someone who may.
    fn woken_by(&mut self, source: &Source) {
        let wakes = match self.hold {
            None => false,
            // A task that was stopped with its parent does not go on because something below it has ended too.
            Some(Hold::Esc) => !source.is_notice() || !self.is_task(),
            Some(Hold::StoppedByModel) => !source.is_notice(),
            Some(Hold::StoppedByUser) => *source == Source::User,
            // Nobody has decided that it must not go on.
            Some(Hold::ModelError | Hold::TakeOvers | Hold::Limit) => !source.is_notice(),
        };
        if wakes {
            self.hold = None;
            // Other words begin another turn; only a resume goes on with what the last one had left.
            self.subtasks.clear();
            (self.follow_up, self.turn, self.misshapen) = (false, Turn::default(), None);
            self.takeovers = 0;
            self.retry = Retry::default();
            self.forget_attempts();
        }
    }

    /// What only waits starts nothing: a held session would end the new round at once, as completed.
    fn open_round_unless_held(&mut self) {
        if self.hold.is_none() {
            self.open_round();
        }
    }

    fn open_round(&mut self) {
        if !self.round.open {
            let number = self.round.number + 1;
            self.round = crate::state::Round {
                number,
                open: true,
                how: How::Completed,
                error: String::new(),
                usage: Usage::default(),
                reply: None,
                steps: 0,
                calls: 0,
                began: None,
            };
        }
    }

    /// The turn is over without its answer; a resume goes on with it.
    pub(crate) fn stand_still(&mut self, hold: Hold, how: How, words: &str) {
        self.cut_short |= self.answering;
        self.answering = false;
        // What the user has stopped stays the user's to lift.
        if self.hold != Some(Hold::StoppedByUser) {
            self.hold = Some(hold);
        }
        self.held_at = self.head;
        (self.round.how, self.round.error) = (how, shown_error(words));
    }

    fn stop_running(&mut self) {
        for open in &mut self.calls {
            if open.state == CallState::Running {
                open.state = CallState::Stopping;
            }
        }
    }

    fn spend(&mut self, usage: Usage) {
        self.usage += usage;
        self.round.usage += usage;
    }

    fn finish(&mut self, call: &CallId, outcome: &Outcome) {
        let before = self.calls.len();
        let attempts = self.call(call).map_or(0, |open| open.attempts);
        self.follow_up |= self.call(call).is_some_and(|open| matches!(open.owner, CallOwner::Subtask(_)));
        if let Some(OpenCall { state: CallState::Asked { ask, decision }, .. }) = self.call(call).cloned() {
            self.leave_unanswered(&ask, call, &decision);
        }
        for task in self.tasks.values_mut() {
            task.waiting.retain(|waiter| waiter.call != *call);
        }
        self.calls.retain(|open| open.call != *call);
        if self.calls.len() == before {
            return;
        }
        // A failure before the call was ever started is the model's: its input made no sense.
        match outcome {
            Outcome::Failed { .. } if attempts == 0 => self.misfires = self.misfires.saturating_add(1),
            Outcome::Lost { .. } => {}
            _ => (self.misfires, self.takeovers) = (0, 0),
        }
    }

    fn set(&mut self, call: &CallId, state: CallState) {
        if let Some(open) = self.open_mut(call) {
            open.state = state;
        }
    }

    fn open_mut(&mut self, call: &CallId) -> Option<&mut OpenCall> {
        self.calls.iter_mut().find(|open| open.call == *call)
    }
}

/// What a "yes" of this scope to an ask allows from then on. Asks of older logs say only what they were about.
pub(crate) fn granted(ask: &AskId, scope: Scope, decision: &Decision) -> Vec<Granted> {
    let about = decision.touch.iter().map(|touch| Grant { key: touch.key.clone(), pattern: touch.pattern.clone(), exact: true });
    let grants: Vec<Grant> = if decision.offers.is_empty() { about.collect() } else { decision.offers.clone() };
    grants.into_iter().map(|grant| Granted { grant, ask: ask.clone(), scope }).collect()
}

/// What the state keeps of an error, to be shown.
fn shown_error(words: &str) -> String {
    words.chars().take(ERROR_CHARS_MAX).collect()
}
