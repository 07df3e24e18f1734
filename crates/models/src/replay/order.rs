//! In which order requests began and were answered, so that agents that work at once meet as they did in the recording.
//!
//! An answer is held back until everything that had happened before it has happened here too: every request that had begun
//! has begun, every answer that had come has come. Then what it says reaches the same conversations at the same steps. Knows
//! no texts; time is an argument. Who waits is in `replay.rs`.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// What an answer brings about elsewhere (a notice to the agent that waits) is on its way for at most so long.
const SETTLE_MAX: Duration = Duration::from_millis(100);

/// How long nothing happens before it is clear that what is waited for does not come; and what the recording waited, twice.
const SILENCE: Duration = Duration::from_secs(5);

/// Of what the recording waited, this much counts: as long as a shell command may take. A longer pause was a person's.
const PAUSE_MAX: Duration = Duration::from_secs(10 * 60);

/// One beginning or end, as recorded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    pub(super) place: u64,
    pub(super) ms: u64,
    pub(super) exchange: usize,
    pub(super) is_end: bool,
    /// The conversation that it is part of.
    pub(super) talk: usize,
}

#[derive(Debug, Clone, Copy)]
struct Event {
    mark: Mark,
    done: Option<Instant>,
}

/// What an answer has to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Now,
    At(Instant),
    /// For something else to happen; if nothing does for so long, no more.
    Later(Duration),
}

/// How long nothing may happen where the recording waited from one time to another.
pub(super) fn patience(from_ms: u64, to_ms: u64) -> Duration {
    let pause = Duration::from_millis(to_ms.saturating_sub(from_ms));
    SILENCE + pause.saturating_mul(2).min(PAUSE_MAX)
}

/// All that one process recorded, in its order.
#[derive(Debug, Default)]
pub(super) struct Order {
    events: Vec<Event>,
    /// The first that has not happened here.
    next: usize,
    places: HashMap<(usize, bool), usize>,
}

impl Order {
    pub(super) fn new(mut marks: Vec<Mark>) -> Self {
        marks.sort_by_key(|mark| (mark.place, mark.ms));
        let places = marks.iter().enumerate().map(|(at, mark)| ((mark.exchange, mark.is_end), at)).collect();
        Self { events: marks.into_iter().map(|mark| Event { mark, done: None }).collect(), next: 0, places }
    }

    pub(super) fn happened(&mut self, exchange: usize, is_end: bool, now: Instant) {
        if let Some(place) = self.places.get(&(exchange, is_end)) {
            self.events[*place].done.get_or_insert(now);
        }
        while self.events.get(self.next).is_some_and(|event| event.done.is_some()) {
            self.next += 1;
        }
    }

    /// Whether this exchange may be answered.
    pub(super) fn turn(&self, exchange: usize, now: Instant) -> Turn {
        let Some(place) = self.places.get(&(exchange, true)).copied() else { return Turn::Now };
        if self.next < place {
            let missing = self.events[self.next].mark.ms;
            let before = self.events[..self.next].last().map_or(missing, |event| event.mark.ms);
            return Turn::Later(patience(before, missing));
        }
        let own = self.events[place].mark;
        let others = self.events[..place].iter().rev().find(|event| event.mark.is_end && event.mark.talk != own.talk);
        let at = others.and_then(|event| {
            let gap = Duration::from_millis(own.ms.saturating_sub(event.mark.ms));
            event.done.map(|done| done + gap.min(SETTLE_MAX))
        });
        at.filter(|at| now < *at).map_or(Turn::Now, Turn::At)
    }

    /// What this exchange waits for will not come.
    pub(super) fn give_up(&mut self, exchange: usize, now: Instant) {
        let Some(place) = self.places.get(&(exchange, true)).copied() else { return };
        for event in &mut self.events[..place] {
            event.done.get_or_insert(now);
        }
        self.next = self.next.max(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(place: u64, ms: u64, exchange: usize, is_end: bool, talk: usize) -> Mark {
        Mark { place, ms, exchange, is_end, talk }
    }

    #[test]
    fn an_answer_waits_for_what_came_before_it() {
        // Two agents; the second answer came after the first had led to a third request, which is the root's.
        let marks = vec![
            mark(1, 0, 0, false, 1),
            mark(2, 0, 1, false, 2),
            mark(3, 10, 0, true, 1),
            mark(4, 20, 2, false, 0),
            mark(5, 1_020, 1, true, 2),
        ];
        let (mut order, now) = (Order::new(marks), Instant::now());
        order.happened(1, false, now);
        assert_eq!(order.turn(1, now), Turn::Later(SILENCE), "the other has not begun");
        order.happened(0, false, now);
        assert_eq!(order.turn(0, now), Turn::Now);
        order.happened(0, true, now);
        assert_eq!(order.turn(1, now), Turn::Later(SILENCE + Duration::from_millis(20)), "the root has not been told");
        order.happened(2, false, now);
        assert_eq!(order.turn(1, now), Turn::At(now + SETTLE_MAX));
        assert_eq!(order.turn(1, now + SETTLE_MAX), Turn::Now);
    }

    #[test]
    fn no_recorded_pause_makes_a_wait_endless() {
        for (first, last) in [(0, u64::MAX), (0, 86_400_000)] {
            let marks = vec![mark(1, first, 0, false, 0), mark(2, last, 1, false, 1), mark(3, last, 0, true, 0)];
            let (mut order, now) = (Order::new(marks), Instant::now());
            order.happened(0, false, now);
            assert_eq!(order.turn(0, now), Turn::Later(SILENCE + PAUSE_MAX));
        }
    }

    #[test]
    fn what_never_comes_is_waited_for_once() {
        let marks = vec![mark(1, 0, 0, false, 0), mark(2, 0, 1, false, 1), mark(3, 5, 1, true, 1), mark(4, 5, 0, true, 0)];
        let (mut order, now) = (Order::new(marks), Instant::now());
        order.happened(0, false, now);
        assert_eq!(order.turn(0, now), Turn::Later(SILENCE));
        order.give_up(0, now);
        assert_eq!(order.turn(0, now), Turn::Now);
    }
}
