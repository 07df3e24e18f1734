//! The queue: entries waiting to be said, in the order they arrived.
//!
//! Knows nothing of models or clocks, and holds no texts: an entry is its place in the log. It leaves only by
//! `StepStarted`; see `owed.rs` for when.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::{
    entry::{Delivery, Entry, Priority, Source},
    grant::Grant,
    ids::{EntryId, Seq},
    part::Part,
};

/// More waiting entries than anyone reads; beyond it users, agents and plugins are refused, completions are not.
pub const QUEUE_MAX: usize = 1_000;

/// What one step takes in at most; a single larger entry goes alone.
const STEP_BYTES_MAX: u64 = 256 * 1024;

/// So many entries at most: their ids are all in one `StepStarted`, which is an event like any other.
const STEP_ENTRIES_MAX: usize = 200;

/// How many sender's ids are remembered. Letters are deleted by the append that takes them in, so only the last few can come twice.
const SEEN_MAX: usize = 512;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    pub id: EntryId,
    pub source: Source,
    pub delivery: Delivery,
    pub priority: Priority,
    pub bytes: u64,
    /// The record that holds its words.
    pub seq: Seq,
    /// As typed: not due before it is expanded.
    pub typed: bool,
    /// What it begins besides words.
    pub begins: Begins,
}

/// What an entry means for the turn it begins.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Begins {
    /// Agents the user runs directly, one per part; whether the answer is the agent's own.
    pub subtasks: Vec<bool>,
    /// The conversation is to be summed up; it says nothing else.
    pub compacts: bool,
    /// Who answers, and on which model, if not the session's own.
    pub agent: Option<String>,
    pub model: Option<String>,
    pub allowed: Vec<Grant>,
}

impl Begins {
    fn changes_speaker(&self) -> bool {
        self.agent.is_some() || self.model.is_some()
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Queue {
    waiting: Vec<Waiting>,
    seen: VecDeque<u64>,
}

impl Queue {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn waiting(&self) -> &[Waiting] {
        &self.waiting
    }

    pub fn knows(&self, id: &EntryId) -> bool {
        self.seen.contains(&fingerprint(id.as_str())) || self.waiting.iter().any(|waiting| waiting.id == *id)
    }

    /// Whether there is room. A task's end, a timer and a hook always fit.
    pub fn accepts(&self, source: &Source) -> bool {
        self.waiting.len() < QUEUE_MAX
            || matches!(
                source,
                Source::Task { .. }
                    | Source::Prompt { .. }
                    | Source::Timer
                    | Source::Hook { .. }
                    | Source::Shell { .. }
                    | Source::Answer { .. }
            )
    }

    pub(crate) fn push(&mut self, entry: &Entry, seq: Seq) {
        self.push_notice(Waiting {
            id: entry.id.clone(),
            source: entry.source.clone(),
            delivery: entry.delivery,
            priority: entry.priority,
            bytes: entry.bytes(),
            seq,
            typed: entry.typed,
            begins: Begins {
                subtasks: subtasks(&entry.parts),
                compacts: compacts(&entry.parts),
                allowed: entry.allowed.clone(),
                ..Begins::default()
            },
        });
    }

    pub(crate) fn push_notice(&mut self, waiting: Waiting) {
        if self.seen.len() == SEEN_MAX {
            self.seen.pop_front();
        }
        self.seen.push_back(fingerprint(waiting.id.as_str()));
        // The same entry twice is one entry, whatever log says so.
        if self.get(&waiting.id).is_none() {
            self.waiting.push(waiting);
        }
    }

    /// Takes entries out, and answers with them in the order in which they were taken.
    pub(crate) fn take(&mut self, taken: &[EntryId]) -> Vec<Waiting> {
        let (mut out, rest): (Vec<Waiting>, Vec<Waiting>) = self.waiting.drain(..).partition(|waiting| taken.contains(&waiting.id));
        self.waiting = rest;
        out.sort_by_key(|waiting| taken.iter().position(|id| *id == waiting.id));
        out
    }

    /// What typed words came to.
    pub(crate) fn expand(&mut self, entry: &EntryId, seq: Seq, bytes: u64, begins: Begins) {
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.id == *entry) {
            let allowed = std::mem::take(&mut waiting.begins.allowed);
            (waiting.seq, waiting.bytes, waiting.typed, waiting.begins) = (seq, bytes, false, begins);
            waiting.begins.allowed.extend(allowed);
        }
    }

    pub(crate) fn get(&self, entry: &EntryId) -> Option<&Waiting> {
        self.waiting.iter().find(|waiting| waiting.id == *entry)
    }

    /// Something waits that a turn could begin with. What came later does not overtake words that are still looked at.
    pub(crate) fn is_ready(&self) -> bool {
        self.waiting.iter().min_by_key(|waiting| waiting.priority).is_some_and(|first| !first.typed)
    }

    /// Entries whose words were not looked at yet.
    pub(crate) fn typed(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.iter().filter(|waiting| waiting.typed)
    }

    /// The entry that wants the conversation summed up before anything else is said.
    pub(crate) fn compaction_due(&self, inside_turn: bool) -> Option<EntryId> {
        let wants = |waiting: &&Waiting| waiting.begins.compacts && !waiting.typed;
        let first = if inside_turn {
            self.waiting.iter().filter(wants).find(|waiting| waiting.delivery == Delivery::NextStep)
        } else {
            self.waiting.iter().min_by_key(|waiting| waiting.priority).filter(wants)
        };
        first.map(|waiting| waiting.id.clone())
    }

    /// What the next step takes. Inside a turn everything due at a step boundary steers it; at a turn's start one user's
    /// or agent's entry is answered, or all waiting notices together.
    pub(crate) fn due(&self, inside_turn: bool) -> Vec<EntryId> {
        fitting(self.ready(inside_turn), inside_turn)
    }

    /// What the next step may take: anything that is ready, unless the first of it decides who answers.
    pub(crate) fn eligible(&self, inside_turn: bool) -> Vec<&Waiting> {
        let mut ready = self.ready(inside_turn);
        let decides = |waiting: &Waiting| !inside_turn && waiting.begins != Begins::default();
        match ready.first() {
            Some(first) if decides(first) => ready.truncate(1),
            _ => ready.retain(|waiting| !decides(waiting)),
        }
        ready
    }

    /// Of what the next step may take, what somebody has chosen, under the same bounds.
    pub(crate) fn chosen(&self, inside_turn: bool, chosen: &[EntryId]) -> Vec<EntryId> {
        let eligible = self.eligible(inside_turn);
        let found = chosen.iter().filter_map(|id| eligible.iter().find(|waiting| waiting.id == *id).copied());
        fitting(found.collect(), inside_turn)
    }

    /// What a step may be about, the most urgent first.
    fn ready(&self, inside_turn: bool) -> Vec<&Waiting> {
        if !inside_turn && !self.is_ready() {
            return Vec::new();
        }
        // Who is to be answered by another agent begins a turn.
        let steers =
            |waiting: &Waiting| waiting.delivery == Delivery::NextStep && !waiting.begins.changes_speaker() && !waiting.begins.compacts;
        let ready = |waiting: &&Waiting| !waiting.typed && (!inside_turn || steers(waiting));
        let mut ready: Vec<&Waiting> = self.waiting.iter().filter(ready).collect();
        ready.sort_by_key(|waiting| waiting.priority);
        ready
    }
}

/// What one step takes of these: at a turn's start one that is to be answered, or notices; and no more than fits.
fn fitting(mut due: Vec<&Waiting>, inside_turn: bool) -> Vec<EntryId> {
    let alone = !inside_turn && due.first().is_some_and(|first| !first.source.is_notice());
    if alone {
        due.truncate(1);
    } else if !inside_turn {
        due.retain(|waiting| waiting.source.is_notice());
    }
    let mut bytes = 0;
    let fits = due.iter().take(STEP_ENTRIES_MAX).take_while(|waiting| {
        bytes += waiting.bytes;
        bytes <= STEP_BYTES_MAX || bytes == waiting.bytes
    });
    fits.map(|waiting| waiting.id.clone()).collect()
}

/// Which of an entry's parts are run directly, in order.
pub(crate) fn subtasks(parts: &[Part]) -> Vec<bool> {
    parts.iter().filter_map(|part| if let Part::Subtask { direct, .. } = part { Some(*direct) } else { None }).collect()
}

/// Whether an entry wants the conversation summed up.
pub(crate) fn compacts(parts: &[Part]) -> bool {
    parts.iter().any(|part| matches!(part, Part::Compact { .. }))
}

/// FNV-1a: small, stable, good enough to recognise an id among a few hundred.
pub(crate) fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
