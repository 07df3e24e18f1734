//! What a model call in flight has used so far: what the provider has counted, and an estimate of the rest.
//!
//! A whole answer brings its own count, and nothing here touches that. Only a call that breaks off, or is dropped, is
//! counted from here: the provider has read the input and written something, and will bill both.

use std::sync::{Mutex, PoisonError};

use posse_session::{Live, ModelError, Prices, Progress, Request, Usage};

/// As everywhere where nobody has counted: four bytes of a text are about one token.
pub(crate) const BYTES_PER_TOKEN: u64 = 4;

pub(crate) struct Meter {
    /// The larger of the body's estimate and the last counted input.
    input: u64,
    prices: Prices,
    seen: Mutex<Seen>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// What the provider has said of it.
    counted: Usage,
    /// Of its answer, in texts, thoughts and calls.
    bytes: u64,
}

impl Meter {
    pub(crate) fn new(request: &Request, last_input: u64, prices: Prices) -> Self {
        let body = request.messages.iter().fold(request.head.len(), |sum, message| sum + message.len());
        Self { input: estimated(body as u64, last_input), prices, seen: Mutex::default() }
    }

    /// What it would cost to drop the call now.
    pub(crate) fn so_far(&self) -> Usage {
        let Seen { counted, bytes } = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // The provider's own bill comes last, so it is complete.
        if 0.0 < counted.cost_usd {
            return counted;
        }
        let has_input = 0 < counted.tokens() - counted.output;
        let input = if has_input { counted.input } else { self.input };
        Usage { input, output: counted.output.max(bytes.div_ceil(BYTES_PER_TOKEN)), ..counted }.priced(&self.prices)
    }

    /// What a call has cost that ended without an answer. A refusal costs nothing, unless something had come before it.
    pub(crate) fn after(&self, error: &ModelError) -> Usage {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if !error.usage.is_nothing() {
            seen.counted = error.usage;
        }
        let has_worked = error.may_be_billed || !seen.counted.is_nothing() || 0 < seen.bytes;
        drop(seen);
        if has_worked { self.so_far() } else { Usage::default() }
    }

    /// What an answer has cost of which nothing can be used: as counted, if anybody has.
    pub(crate) fn of_answer(&self, counted: Usage) -> Usage {
        if counted.is_nothing() { self.so_far() } else { counted.priced(&self.prices) }
    }
}

/// The input of a request that nobody has counted yet.
pub(crate) fn estimated(body_bytes: u64, last_input: u64) -> u64 {
    (body_bytes / BYTES_PER_TOKEN).max(last_input)
}

/// Shows what comes, and keeps count of it.
pub(crate) struct Metered<'a> {
    pub(crate) live: &'a dyn Live,
    pub(crate) meter: &'a Meter,
}

impl Live for Metered<'_> {
    fn show(&self, progress: Progress) {
        let mut seen = self.meter.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = match progress {
            // Counts are the run's; others see only that it goes on.
            Progress::Counted(usage) => {
                seen.counted = usage;
                Progress::Alive
            }
            Progress::CallInput { bytes } => {
                seen.bytes += bytes;
                Progress::Alive
            }
            Progress::Text(text) => {
                seen.bytes += text.len() as u64;
                Progress::Text(text)
            }
            Progress::Reasoning(text) => {
                seen.bytes += text.len() as u64;
                Progress::Reasoning(text)
            }
            other => other,
        };
        drop(seen);
        self.live.show(shown);
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use posse_session::{ModelFailure, SessionId, ToolChoice};

    use super::*;

    struct Nobody;

    impl Live for Nobody {
        fn show(&self, _: Progress) {}
    }

    /// A call with 400 bytes of body, after an answer whose input was counted so.
    fn meter(last_input: u64, prices: Prices) -> Meter {
        let request = Request {
            session: SessionId::new("s"),
            lineage: SessionId::new("s"),
            head: Arc::from([b'h'; 100]),
            messages: vec![Arc::from([b'm'; 300])],
            tool_choice: ToolChoice::Auto,
            output_max: 1_000,
            idle_max: Duration::from_secs(1),
        };
        Meter::new(&request, last_input, prices)
    }

    fn usage(input: u64, output: u64, cache_read: u64) -> Usage {
        Usage { input, output, cache_read, ..Usage::default() }
    }

    #[test]
    fn a_dropped_call_counts_what_was_said_of_it_and_an_estimate_of_the_rest() {
        let text = |bytes: usize| Progress::Text("x".repeat(bytes));
        // The last counted input, what came, and what it comes to.
        let table = [
            (0, vec![], usage(100, 0, 0)),
            (250, vec![], usage(250, 0, 0)),
            (0, vec![text(9), Progress::Reasoning("y".repeat(10))], usage(100, 5, 0)),
            (0, vec![Progress::CallNamed { tool: "read".into() }, Progress::CallInput { bytes: 40 }], usage(100, 10, 0)),
            (250, vec![Progress::Counted(usage(7, 1, 300)), text(40)], usage(7, 10, 300)),
            (0, vec![Progress::Counted(usage(7, 90, 0)), text(40)], usage(7, 90, 0)),
            // Some tell only what they have written.
            (0, vec![Progress::Counted(usage(0, 3, 0))], usage(100, 3, 0)),
        ];
        for (last_input, shown, expected) in table {
            let meter = meter(last_input, Prices::default());
            let live = Metered { live: &Nobody, meter: &meter };
            shown.iter().for_each(|progress| live.show(progress.clone()));
            assert_eq!(meter.so_far(), expected, "{last_input} {shown:?}");
        }
    }

    #[test]
    fn a_refusal_costs_nothing_and_a_broken_answer_does() {
        use ModelFailure::{Auth, BadRequest, Cut, Deadline, Idle, Malformed, Network, Overloaded, RateLimited, Server, TooLong};
        for (failure, costs) in [
            (Cut, true),
            (Malformed, true),
            (Idle, true),
            (Deadline, true),
            (RateLimited, false),
            (Overloaded, false),
            (Server, false),
            (Network, false),
            (TooLong, false),
            (BadRequest, false),
            (Auth, false),
        ] {
            let error = ModelError::new(failure, "x");
            let expected = if costs { usage(100, 0, 0) } else { Usage::default() };
            assert_eq!(meter(0, Prices::default()).after(&error), expected, "{failure:?}");
            // Whatever it is called: something had come.
            let meter = meter(0, Prices::default());
            Metered { live: &Nobody, meter: &meter }.show(Progress::Text("12345678".into()));
            assert_eq!(meter.after(&error), usage(100, 2, 0), "{failure:?} after two tokens");
            let counted = ModelError { usage: usage(30, 4, 5), ..error };
            assert_eq!(meter.after(&counted), usage(30, 4, 5), "{failure:?} as counted");
        }
    }

    #[test]
    fn an_estimate_has_the_price_of_its_model_and_a_bill_stays() {
        let dear = Prices { input: 1_000.0, output: 10_000.0, ..Prices::default() };
        let cut = ModelError::new(ModelFailure::Cut, "x");
        assert_eq!(meter(0, dear).after(&cut), Usage { input: 100, cost_usd: 0.1, ..Usage::default() });
        assert_eq!(meter(0, Prices::unknown()).after(&cut), Usage { input: 100, unpriced: 100, ..Usage::default() });
        let billed = Usage { input: 3, output: 4, cost_usd: 0.5, ..Usage::default() };
        assert_eq!(meter(0, dear).after(&ModelError { usage: billed, ..cut }), billed);
    }
}
