//! Where a session stands with what is done beside its conversation: notes, suggestions, drafts of answers.
//!
//! All of it is marked by facts, so that a crash neither forgets it nor pays for it twice. Who begins such work, and
//! when, is decided by the run; the model of the session hears nothing of it.

use serde::{Deserialize, Serialize};

use crate::{
    ids::Seq,
    state::Session,
    task::{Purpose, Spawn},
};

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Advice {
    /// What was begun since the last turn began: once is enough.
    pub begun: Vec<Purpose>,
    /// Where the log says what the user may want to say next.
    pub suggested: Option<Seq>,
    /// Where it says what the answer to that would be.
    pub speculated: Option<Seq>,
    /// Answers since notes were last taken.
    pub answers: u64,
    /// Bytes of the user's words since then.
    pub words: u64,
}

impl Advice {
    pub(crate) fn begin(&mut self, spawn: &Spawn) {
        match &spawn.purpose {
            None | Some(Purpose::Compact { .. } | Purpose::Side | Purpose::Summarise) => return,
            Some(Purpose::Remember) => (self.answers, self.words) = (0, 0),
            Some(Purpose::Consolidate | Purpose::Suggest | Purpose::Speculate) => {}
        }
        self.begun.extend(spawn.purpose.clone());
    }

    pub(crate) fn note(&mut self, advice: &Purpose, seq: Seq) {
        match advice {
            Purpose::Suggest => (self.suggested, self.speculated) = (Some(seq), None),
            Purpose::Speculate => self.speculated = Some(seq),
            _ => {}
        }
    }

    /// The user has said something: what was suggested is over, and what comes of it is advised on anew.
    pub(crate) fn turn_begins(&mut self) {
        *self = Self { answers: self.answers, words: self.words, ..Self::default() };
    }
}

impl Session {
    pub fn advice(&self) -> &Advice {
        &self.advice
    }
}
