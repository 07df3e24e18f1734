//! Finding a call or an ask by its id, or by the start of one, without an index of all that was ever called.
//!
//! Ids begin with their time, so few sessions can hold one. Pure: which sessions, and which facts of them.

use posse_api::{ClientError, Start};
use posse_session::{AskId, CallId, Event, Summary};

/// Characters of an id after its prefix.
const LETTERS: usize = 26;

/// Of an id, so many letters tell the time.
const TIME_LETTERS: usize = 10;

/// Crockford's base 32, in which ids are written.
const ALPHABET: &str = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

pub(crate) struct Sought<'a> {
    start: Start<'a>,
    what: What,
}

#[derive(Clone, Copy)]
enum What {
    Call,
    Ask,
}

impl<'a> Sought<'a> {
    pub(crate) fn call(id: &'a str) -> Self {
        Self { start: Start::new(id, CallId::PREFIX), what: What::Call }
    }

    pub(crate) fn ask(id: &'a str) -> Self {
        Self { start: Start::new(id, AskId::PREFIX), what: What::Ask }
    }

    pub(crate) fn start(&self) -> &Start<'a> {
        &self.start
    }

    /// Nothing else can match.
    pub(crate) fn is_whole(&self) -> bool {
        LETTERS <= self.start.letters().len()
    }

    /// Whether an id that begins so was made while this session lived.
    pub(crate) fn may_be_in(&self, summary: &Summary) -> bool {
        let known: String = self.start.letters().chars().take(TIME_LETTERS).collect();
        let time = |pad: char| {
            let padded = known.chars().chain(std::iter::repeat(pad)).take(TIME_LETTERS);
            padded.fold(0u64, |time, letter| time << 5 | ALPHABET.find(letter).unwrap_or(0) as u64)
        };
        time('0') <= summary.updated.0 && summary.created.0 <= time('Z')
    }

    /// The id and the call of a fact that matches.
    pub(crate) fn found<'e>(&self, event: &'e Event) -> Option<(&'e str, &'e CallId)> {
        let (id, call) = match (event, self.what) {
            (Event::Called { call, .. }, What::Call) => (call.as_str(), call),
            (Event::Asked { ask, call, .. }, What::Ask) => (ask.as_str(), call),
            _ => return None,
        };
        self.start.matches(id).then_some((id, call))
    }

    pub(crate) fn missing(&self) -> ClientError {
        match self.what {
            What::Call => ClientError::NoCall(self.start.typed().to_owned()),
            What::Ask => ClientError::NoAsk(self.start.typed().to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use posse_session::{SessionId, Timestamp};

    use super::*;

    #[test]
    fn an_id_is_looked_for_where_its_time_says() {
        let mut summary = Summary::new(SessionId::new("ses_x"));
        // 01JD000000 is 1731945562112 ms.
        (summary.created, summary.updated) = (Timestamp(1_731_945_562_112), Timestamp(1_731_945_563_000));
        for (id, expected) in [
            ("call_01JD0000000000000000000000", true),
            ("call_01JD", true),
            ("call_0", true),
            ("01jd", true),
            ("call_01JE", false),
            ("call_01JC", false),
            ("call_01JD000001", true),
            ("call_01JD001", false),
        ] {
            assert_eq!(Sought::call(id).may_be_in(&summary), expected, "{id}");
        }
    }

    #[test]
    fn the_start_of_an_id_is_enough_and_nothing_is_not() {
        let call = CallId::new("call_01ABC");
        let called = Event::CallStarted { call: call.clone(), attempt: 1 };
        assert!(Sought::call("call_01").found(&called).is_none(), "only the first fact of a call counts");
        let asked = Event::Asked { ask: AskId::new("ask_01XYZ"), call, decision: posse_session::Decision::allow() };
        assert!(Sought::ask("ask_01x").found(&asked).is_some());
        assert!(Sought::ask("ask_").found(&asked).is_some() && Sought::ask("").found(&asked).is_none());
        assert!(Sought::call("01XYZ").found(&asked).is_none());
    }
}
