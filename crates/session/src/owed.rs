//! What the world owes a session right now, and the facts that record a beginning.
//!
//! A function of the state, so there is no recovery code: fold, then keep going what is owed.

use crate::{
    command::{Effect, Given},
    event::{Event, Reserved},
    ids::EntryId,
    part::Part,
    rule::Verdict,
    state::{CallOwner, CallState, Session},
    words,
};

/// Leave to begin an effect, from whoever keeps the lanes and the ledger.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Permit {
    pub reserved: Reserved,
    /// The last step at a limit.
    pub closing: bool,
    /// Of what waits the step takes only these, in this order; without a list what is due.
    pub takes: Option<Vec<EntryId>>,
}

impl Session {
    /// Everything owed now. Asking twice gives the same answer until facts change.
    pub fn owed(&self) -> Vec<Effect> {
        let mut owed = Vec::new();
        for open in &self.calls {
            match &open.state {
                CallState::Unlooked => owed.push(Effect::Look { call: open.call.clone() }),
                CallState::Judged(decision) if decision.verdict == Verdict::Allow => owed.push(Effect::RunCall { call: open.call.clone() }),
                CallState::Running => owed.push(Effect::RunCall { call: open.call.clone() }),
                CallState::Judged(_) | CallState::Asked { .. } | CallState::Stopping | CallState::Waiting { .. } => {}
            }
        }
        if self.hold.is_none() {
            let waits = |entry: &EntryId| self.calls.iter().any(|open| open.owner == CallOwner::Entry(entry.clone()));
            owed.extend(self.queue.typed().filter(|typed| !waits(&typed.id)).map(|typed| Effect::Expand { entry: typed.id.clone() }));
        }
        for (task, open) in &self.tasks {
            owed.push(Effect::Watch { task: task.clone(), round: open.round });
            if open.stopped.is_some() {
                owed.push(Effect::StopTask { task: task.clone(), round: open.round });
            }
        }
        // One that goes on meanwhile needs its folder.
        let released = self.releases.iter().filter(|task| !self.tasks.contains_key(*task));
        owed.extend(released.map(|task| Effect::Release { task: task.clone() }));
        owed.extend(self.kept.keys().map(|call| Effect::Mind { call: call.clone() }));
        if let Some(open) = &self.step {
            owed.push(Effect::CallModel { step: open.step, not_before: None });
        } else if self.is_compacting() {
            // What is said next depends on it.
        } else if let Some(compaction) = self.compaction_owed() {
            owed.push(compaction);
        } else if self.calls.is_empty() && self.wants_step() {
            owed.push(match self.next_subtask() {
                Some(_) => Effect::Subtask { step: self.steps },
                None => Effect::CallModel { step: self.steps, not_before: self.retry.at },
            });
        } else if self.round.open && self.is_quiet() {
            owed.push(Effect::Conclude { round: self.round.number });
        }
        owed
    }

    /// What the next step may take; what it takes by itself is among it.
    pub fn waiting_for_step(&self) -> Vec<EntryId> {
        self.queue.eligible(self.answering).iter().map(|waiting| waiting.id.clone()).collect()
    }

    /// What the kernel adds to the words of the next step.
    pub(crate) fn step_notes(&self, mut notes: Vec<Part>) -> Vec<Part> {
        if self.follow_up {
            notes.insert(0, Part::text(words::FOLLOW_UP));
        }
        if self.resumed {
            notes.push(Part::reminder(words::RESUMED));
        }
        if let Some(wrong) = &self.misshapen {
            notes.push(Part::reminder(words::misshapen(wrong)));
        }
        if !self.undone.is_empty() {
            notes.push(Part::reminder(words::undone(&self.undone)));
        }
        if !self.brought_home.is_empty() {
            notes.push(Part::reminder(self.brought_home.join("\n")));
        }
        notes
    }

    /// The facts that record the start of owed work; they are in the log before the work begins.
    pub fn begin(&self, effect: &Effect, permit: Permit, notes: Vec<Part>, _given: &Given) -> Vec<Event> {
        if self.has_begun(effect) {
            return Vec::new();
        }
        match effect {
            Effect::CallModel { step, .. } => {
                let mut notes = self.step_notes(notes);
                if permit.closing && !self.only_answers() {
                    notes.push(Part::reminder(words::CLOSING));
                }
                let took = match &permit.takes {
                    Some(takes) => self.queue.chosen(self.answering, takes),
                    None => self.queue.due(self.answering),
                };
                vec![Event::StepStarted { step: *step, took, reserved: permit.reserved, closing: permit.closing, notes }]
            }
            Effect::RunCall { call } => {
                let attempt = self.call(call).map_or(1, |open| open.attempts + 1);
                vec![Event::CallStarted { call: call.clone(), attempt }]
            }
            Effect::Conclude { round } => {
                let error = self.round.error.clone();
                let mut events = self.end_yielding();
                events.push(Event::Ended { round: *round, how: self.round.how, reply: self.round.reply, error, usage: self.round.usage });
                events
            }
            // What the kernel says itself, it says by a command: it needs words that are not in the state.
            Effect::Expand { .. }
            | Effect::Subtask { .. }
            | Effect::Compact { .. }
            | Effect::Look { .. }
            | Effect::Watch { .. }
            | Effect::StopTask { .. }
            | Effect::Mind { .. }
            | Effect::Release { .. } => Vec::new(),
        }
    }
}
