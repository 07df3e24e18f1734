//! What the tests of transcripts share: little logs, written by hand or by dice.
//!
//! Each test file uses its own part of this, so what one of them leaves alone is not dead.
#![allow(dead_code, unreachable_pub)]

use posse_session::{BatchId, CallId, Entry, EntryId, Event, Outcome, Record, Text, Timestamp};

pub fn record(seq: u64, event: Event) -> Record {
    Record { seq, at: Timestamp(seq), batch: BatchId::new("b"), event }
}

pub fn log(events: Vec<Event>) -> Vec<Record> {
    events.into_iter().zip(1..).map(|(event, seq)| record(seq, event)).collect()
}

pub fn say(id: &str, text: impl Into<Text>) -> Event {
    Event::Queued { entry: Entry::user(EntryId::new(id), text) }
}

pub fn step(took: &[&str]) -> Event {
    took_by(took.iter().map(|id| EntryId::new(*id)).collect())
}

pub fn took_by(took: Vec<EntryId>) -> Event {
    Event::StepStarted { step: 0, took, reserved: Default::default(), closing: false, notes: Vec::new() }
}

pub fn called(call: &str, tool: &str, input: &str, wire_id: &str) -> Event {
    Event::Called {
        call: CallId::new(call),
        tool: tool.into(),
        input: input.into(),
        wire_id: wire_id.into(),
        touches: Vec::new(),
        repeatable: false,
        title: String::new(),
        decision: None,
        consented: false,
    }
}

pub fn done(call: &str, output: impl Into<Text>) -> Event {
    Event::CallFinished { call: CallId::new(call), outcome: Outcome::done(output) }
}

/// Small, seeded, the same everywhere.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        let mut dice = Self(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..4 {
            dice.roll(7);
        }
        dice
    }

    /// A number below `sides`.
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.roll(times) == 0
    }
}
