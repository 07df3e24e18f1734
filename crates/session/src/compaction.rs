//! Decisions about what the model still sees of a long conversation.
//!
//! Nothing is deleted: `Pruned` and `Compacted` only edit the list of stretches a transcript is made of. A summary is
//! written by an internal session, a task like any other: its promise is a fact, so a crash in the middle heals itself.
//! What fails is not tried again in its turn, and what a provider refuses is made shorter once, so it cannot loop.

use serde::{Deserialize, Serialize};

use crate::{
    command::{Effect, Given, TaskReport},
    decide::{TITLE_BYTES_MAX, WORDS_BYTES_MAX},
    event::{Event, Hold, Segment},
    ids::{CallId, EntryId, Seq, SessionId},
    outcome::How,
    seams::ModelFailure,
    state::{OpenTask, Session},
    task::{Purpose, Spawn, To},
    text::{Text, clip, one_line},
    words,
};

/// Where a session stands with its length.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Compaction {
    /// The provider said so that the conversation is too long: nothing more is asked of it before it is shorter.
    pub overflow: Option<String>,
    /// It could not be, in this turn.
    pub failed: bool,
    /// How often it was made shorter since the model last answered.
    pub rounds: u32,
    /// What the last summary reaches to.
    pub tail_from: Seq,
    /// How often what was to be summed up was too long itself, since it was last made shorter.
    #[serde(default)]
    pub shrunk: u32,
    /// Less of it is to be summed up next.
    #[serde(default)]
    pub again: bool,
}

/// Each attempt is half of the one before: this reaches down to a thirty-second of what was refused.
const SHRINKS_MAX: u32 = 4;

impl Session {
    /// A summary of this conversation is being written.
    pub fn is_compacting(&self) -> bool {
        self.tasks.values().any(|task| matches!(task.purpose, Some(Purpose::Compact { .. })))
    }

    pub fn compaction(&self) -> &Compaction {
        &self.compaction
    }

    /// It only answers: its tools are part of its head and are not called.
    pub fn only_answers(&self) -> bool {
        self.birth.as_ref().is_some_and(|birth| birth.recipe.only_answers)
    }

    /// The conversation must be made shorter before anything else: the user says so in an entry, or the provider.
    pub(crate) fn compaction_owed(&self) -> Option<Effect> {
        if self.hold.is_some() || self.is_compacting() || !self.calls.is_empty() {
            return None;
        }
        let entry = self.queue.compaction_due(self.answering);
        (entry.is_some() || self.compaction.overflow.is_some() || self.compaction.again).then_some(Effect::Compact { entry })
    }

    /// A provider that finds the conversation too long is asked again once it is shorter.
    pub(crate) fn may_be_shortened(&self, failure: ModelFailure, given: &Given) -> bool {
        failure == ModelFailure::TooLong && given.compacts && !self.compaction.failed && self.compaction.rounds == 0
    }

    pub(crate) fn compact(&self, task: SessionId, spawn: Spawn, took: Option<EntryId>) -> Vec<Event> {
        if !self.is_at_boundary() || self.is_compacting() || self.tasks.contains_key(&task) {
            return Vec::new();
        }
        // The promise comes first: an append that is torn between the two has not lost the wish.
        let mut events = vec![Event::TaskStarted { call: CallId::new(""), task, round: 1, spawn, wait: false }];
        events.extend(unqueued(took));
        events
    }

    pub(crate) fn prune(&self, to: Seq) -> Vec<Event> {
        if self.is_at_boundary() { vec![Event::Pruned { to }] } else { Vec::new() }
    }

    pub(crate) fn leave_uncompacted(&self, why: String, took: Option<EntryId>) -> Vec<Event> {
        let mut events = vec![Event::CompactionFailed { why: clip(why, WORDS_BYTES_MAX), smaller: false }];
        events.extend(unqueued(took));
        events
    }

    pub(crate) fn retitle(&self, title: String) -> Vec<Event> {
        let title = one_line(title, TITLE_BYTES_MAX);
        if title.is_empty() { Vec::new() } else { vec![Event::Titled { title }] }
    }

    /// What the end of internal work leads to. Comes before the fact of the end: what a torn append has lost is said again.
    pub(crate) fn internal_ended(&self, open: &OpenTask, end: &TaskReport) -> Vec<Event> {
        let good = matches!(end.how, How::Completed | How::Limit) && !end.said.is_blank();
        match &open.purpose {
            Some(Purpose::Compact { tail_from }) if good && self.compaction.tail_from < *tail_from => {
                vec![Event::Compacted { summary: end.said.clone(), tail_from: *tail_from, verbatim: end.verbatim.clone() }]
            }
            Some(Purpose::Compact { .. }) if good => Vec::new(),
            // Said before, in an append that was torn right after.
            Some(Purpose::Compact { .. }) if self.compaction.again => Vec::new(),
            Some(Purpose::Compact { .. }) => {
                let said = end.result.inline().unwrap_or_default();
                let why = if said.trim().is_empty() { "the summary came out empty" } else { said };
                let smaller = end.too_long && self.compaction.shrunk < SHRINKS_MAX;
                vec![Event::CompactionFailed { why: clip(why.to_owned(), WORDS_BYTES_MAX), smaller }]
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// What internal work has to say. Comes after the fact of the end: what a torn append has lost is not said twice.
    pub(crate) fn advice_of(&self, open: &OpenTask, end: &TaskReport) -> Option<Event> {
        let good = matches!(end.how, How::Completed | How::Limit) && !end.said.is_blank();
        // What is foreseen is of use until the next turn begins.
        let late = |purpose: &&Purpose| matches!(purpose, Purpose::Suggest | Purpose::Speculate) && !self.advice.begun.contains(purpose);
        open.purpose.as_ref().filter(|purpose| good && !late(purpose)).and_then(|purpose| purpose.advice(&end.said))
    }

    /// Work beside the conversation begins; of most kinds there is one at a time.
    pub(crate) fn advise(&self, task: SessionId, spawn: Spawn) -> Vec<Event> {
        let Some(purpose) = spawn.purpose.as_ref().filter(|purpose| purpose.is_beside()) else { return Vec::new() };
        let busy = *purpose != Purpose::Side && self.tasks.values().any(|open| open.purpose.as_ref() == Some(purpose));
        if busy || self.tasks.contains_key(&task) {
            return Vec::new();
        }
        vec![Event::TaskStarted { call: CallId::new(""), task, round: 1, spawn, wait: false }]
    }

    /// Internal work that nobody waits for is over when everything else is.
    pub(crate) fn end_yielding(&self) -> Vec<Event> {
        let yields = self.tasks.iter().filter(|(_, open)| open.yields());
        let ended = |(task, open): (&SessionId, &OpenTask)| Event::TaskEnded {
            task: task.clone(),
            round: open.round,
            how: How::Stopped,
            result: Text::default(),
            usage: Default::default(),
            to: To::Internal,
            effort: Default::default(),
        };
        yields.map(ended).collect()
    }

    /// No step and no call is open, and nobody holds it.
    fn is_at_boundary(&self) -> bool {
        self.step.is_none() && self.calls.is_empty() && self.hold.is_none()
    }

    pub(crate) fn apply_compaction(&mut self, seq: Seq, event: &Event) {
        match event {
            Event::Pruned { to } => {
                self.apply_pruned(seq, *to);
                // It is shorter: the step is tried again. If that was not enough, it can still be summed up.
                (self.compaction.overflow, self.compaction.again) = (None, false);
            }
            Event::Compacted { tail_from, .. } => {
                self.apply_compacted(seq, *tail_from);
                let rounds = self.compaction.rounds.saturating_add(1);
                self.compaction = Compaction { rounds, tail_from: *tail_from, ..Compaction::default() };
            }
            Event::CompactionFailed { smaller: true, .. } => {
                (self.compaction.again, self.compaction.shrunk) = (true, self.compaction.shrunk.saturating_add(1));
                return;
            }
            Event::CompactionFailed { why, .. } => {
                (self.compaction.failed, self.compaction.again) = (true, false);
                // What the provider has refused it would refuse again.
                if let Some(refusal) = self.compaction.overflow.take().filter(|_| self.hold.is_none()) {
                    self.stand_still(Hold::ModelError, How::Failed, &words::unshortened(&refusal, why));
                }
                return;
            }
            _ => return,
        }
        // What the provider had counted is no longer what it is sent.
        self.last_input = 0;
    }

    fn apply_compacted(&mut self, seq: Seq, tail_from: Seq) {
        let one = |seq: Seq| Segment { session: self.id.clone(), from: seq.saturating_sub(1), to: seq, pruned: false };
        let mut closed = vec![one(seq)];
        // What waits to be said is not summed up, however long it has waited.
        closed.extend(self.queue.waiting().iter().filter(|waiting| waiting.seq <= tail_from).map(|waiting| one(waiting.seq)));
        closed.extend(
            self.own_stretches(seq.saturating_sub(1))
                .into_iter()
                // The summary before this one is part of what this one sums up, wherever it stands.
                .filter(|own| tail_from < own.to && !self.is_summary(own))
                .map(|own| Segment { from: own.from.max(tail_from), ..own }),
        );
        self.transcript.closed = closed.into();
        self.transcript.open_from = seq;
    }

    fn apply_pruned(&mut self, seq: Seq, to: Seq) {
        let mut closed: Vec<Segment> = self.foreign_stretches();
        for own in self.own_stretches(seq.saturating_sub(1)) {
            let (from, end, cut) = (own.from, own.to, to.max(own.from).min(own.to));
            if from < cut {
                closed.push(Segment { to: cut, pruned: true, ..own.clone() });
            }
            if cut < end {
                closed.push(Segment { from: cut, ..own });
            }
        }
        // Neighbours are one stretch: the list stays short, however often this happens.
        closed.dedup_by(|later, earlier| {
            let joins = later.session == earlier.session && later.pruned == earlier.pruned && later.from == earlier.to;
            if joins {
                earlier.to = later.to;
            }
            joins
        });
        self.transcript.closed = closed.into();
        self.transcript.open_from = seq;
    }

    pub(crate) fn apply_reverted(&mut self, seq: Seq, to: Seq) {
        let own = self
            .own_stretches(seq.saturating_sub(1))
            .into_iter()
            // What the summary says was said before `to`, if its tail was.
            .filter(|own| own.from < to || (self.is_summary(own) && self.compaction.tail_from <= to))
            .map(|own| if self.is_summary(&own) { own } else { Segment { to: own.to.min(to), ..own } });
        self.transcript.closed = self.foreign_stretches().into_iter().chain(own).collect::<Vec<_>>().into();
        self.transcript.open_from = seq;
        if to < self.compaction.tail_from {
            // The summary is gone with what it was of: the next one may reach to any place.
            self.compaction.tail_from = 0;
        }
    }

    /// The stretch that is the last summary: it stands first, and is one record.
    fn is_summary(&self, stretch: &Segment) -> bool {
        0 < self.compaction.tail_from && stretch.from.checked_add(1) == Some(stretch.to) && self.transcript.closed.first() == Some(stretch)
    }

    fn foreign_stretches(&self) -> Vec<Segment> {
        self.transcript.closed.iter().filter(|segment| segment.session != self.id).cloned().collect()
    }

    fn own_stretches(&self, head: Seq) -> Vec<Segment> {
        let mut own: Vec<Segment> = self.transcript.closed.iter().filter(|segment| segment.session == self.id).cloned().collect();
        if self.transcript.open_from < head {
            own.push(Segment { session: self.id.clone(), from: self.transcript.open_from, to: head, pruned: false });
        }
        own
    }

    /// The stretches up to a place of this log: what a summary is written of.
    pub fn segments_until(&self, tail_from: Seq) -> Vec<Segment> {
        let mut until = Vec::new();
        for segment in self.segments() {
            match segment.session == self.id {
                // The last summary stands at the place where it was written, and is of what came before.
                true if self.is_summary(&segment) => until.push(segment),
                true if segment.from < tail_from => until.push(Segment { to: segment.to.min(tail_from), ..segment }),
                true => {}
                false => until.push(segment),
            }
        }
        until
    }

    /// Whether a stop must end internal work too.
    pub(crate) fn is_waited_for(&self, task: &OpenTask) -> bool {
        // Whoever asked beside the conversation waits for an answer of its own.
        task.foreground || task.purpose.as_ref().is_some_and(|purpose| *purpose != Purpose::Side)
    }

    /// Somebody has decided that it goes on: what was tried may be tried again.
    pub(crate) fn forget_attempts(&mut self) {
        self.compaction = Compaction { tail_from: self.compaction.tail_from, ..Compaction::default() };
    }
}

fn unqueued(took: Option<EntryId>) -> Vec<Event> {
    took.map(|entry| Event::Unqueued { entry }).into_iter().collect()
}
