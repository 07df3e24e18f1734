//! A draft: a session and the facts that would change it, not appended yet.
//!
//! Many commands and beginnings go into one draft and become one append. If that fails the draft is dropped and nothing
//! was folded.

use crate::{
    command::{Command, Effect, Given},
    event::{Event, Record},
    ids::{BatchId, Timestamp},
    owed::Permit,
    part::Part,
    state::Session,
};

pub struct Draft {
    session: Session,
    batch: BatchId,
    at: Timestamp,
    records: Vec<Record>,
}

impl Session {
    pub fn draft(&self, batch: BatchId, at: Timestamp) -> Draft {
        Draft { session: self.clone(), batch, at, records: Vec::new() }
    }

    /// A session folded from its log.
    pub fn fold<'a>(id: crate::ids::SessionId, records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut session = Self::new(id);
        records.into_iter().for_each(|record| session.apply(record));
        session
    }
}

impl Draft {
    pub fn session(&self) -> &Session {
        &self.session
    }

    pub fn decide(&mut self, command: Command, given: &Given) {
        let events = self.session.decide(command, given);
        self.fold(events);
    }

    pub fn begin(&mut self, effect: &Effect, permit: Permit, notes: Vec<Part>, given: &Given) {
        let events = self.session.begin(effect, permit, notes, given);
        self.fold(events);
    }

    pub fn batch(&self) -> &BatchId {
        &self.batch
    }

    pub fn records(&self) -> &[Record] {
        &self.records
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The session as it is once the records are appended.
    pub fn into_parts(self) -> (Session, Vec<Record>) {
        (self.session, self.records)
    }

    fn fold(&mut self, events: Vec<Event>) {
        for event in events {
            let record = Record { seq: self.session.head() + 1, at: self.at, batch: self.batch.clone(), event };
            self.session.apply(&record);
            self.records.push(record);
        }
    }
}
