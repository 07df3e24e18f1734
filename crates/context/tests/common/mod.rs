//! What the tests of transcripts share: little logs, written by hand or by dice.
//!
//! Each test file uses its own part of this, so what one of them leaves alone is not dead.
#![allow(dead_code, unreachable_pub, unused_imports)]

#[path = "../../../session/tests/common/dice.rs"]
pub mod dice;

pub use dice::Dice;

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
