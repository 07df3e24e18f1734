//! What a step takes of what waits, where its model has a say in that: see [`Model::hears`].
//!
//! Asked before the lane, so that whoever waits for words holds up nobody. The answer is part of the same draft, so nothing
//! can come between it and the step.
//!
//! [`Model::hears`]: posse_session::Model::hears

use posse_session::{Draft, Effect, Hearing, Hears, Permit, Record, Timestamp};

use crate::run::Run;

impl Run {
    /// Leave to begin the step, with what it takes; none while its model wants to hear more first.
    pub(crate) fn heard(&self, draft: &Draft, effect: &Effect, now: Timestamp) -> Option<Permit> {
        let takes = match self.outfit.model.hears(self.session.id(), &|| self.hearing(draft, effect, now)) {
            Hears::Later => return None,
            Hears::All => None,
            // A turn begins with something.
            Hears::Only(takes) if takes.is_empty() && draft.session().is_between_turns() => None,
            Hears::Only(takes) => Some(takes),
        };
        Some(Permit { takes, ..Permit::default() })
    }

    /// The step as it would be if it took nothing, and what it might take.
    fn hearing(&self, draft: &Draft, effect: &Effect, now: Timestamp) -> Hearing {
        let (session, mut thread) = (draft.session(), self.said.thread.clone());
        for record in draft.records() {
            thread.push(record);
        }
        let waiting = session.waiting_for_step().into_iter().map(|id| {
            let says = thread.waiting(&id).to_vec();
            (id, says)
        });
        let (waiting, inside_turn) = (waiting.collect(), !session.is_between_turns());
        let nothing = Permit { takes: Some(Vec::new()), ..Permit::default() };
        let begun = session.begin(effect, nothing, Vec::new(), &self.given(now)).into_iter();
        let begun = begun.map(|event| Record { seq: session.head() + 1, at: now, batch: draft.batch().clone(), event });
        Hearing { says: begun.flat_map(|record| thread.push(&record)).collect(), waiting, inside_turn }
    }
}
