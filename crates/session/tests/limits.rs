//! The admission of a step against what its tree may still spend.

use posse_session::{Admission, Limit, Limits, Prices, Reserved, Standing, Usage, Wish};

const PRICES: Prices = Prices { input: 3.0, output: 15.0, cache_read: 0.3, cache_write: 3.75, unknown: false };
const FREE: Prices = Prices { input: 0.0, output: 0.0, cache_read: 0.0, cache_write: 0.0, unknown: false };

/// One line: how it is admitted, with how much output, and what is set aside.
fn admit(limits: Limits, steps: u64, spent: Usage, reserved: Reserved, wish: Wish) -> String {
    let money = |cost: f64| (cost * 1e6).round() / 1e6;
    match (Standing { limits, steps, spent, reserved, in_flight: 0 }).admit(wish) {
        Admission::Go { reserved, output_max } => format!("go {output_max}, {} tokens, ${}", reserved.tokens, money(reserved.cost_usd)),
        Admission::Closing { reserved, output_max } => {
            format!("closing {output_max}, {} tokens, ${}", reserved.tokens, money(reserved.cost_usd))
        }
        Admission::Later => "later".to_owned(),
        Admission::Refused(limit) => format!("refused {limit:?}"),
    }
}

fn wish(input_estimate: u64, output_max: u64, prices: Prices) -> Wish {
    Wish { input_estimate, output_max, prices }
}

fn spent(tokens: u64, cost_usd: f64) -> Usage {
    Usage { input: tokens, cost_usd, ..Usage::default() }
}

#[test]
fn without_limits_everything_goes() {
    let found = admit(Limits::default(), 9_999, spent(u64::MAX / 2, 1e9), Reserved::default(), wish(1_000, 500, PRICES));
    assert_eq!(found, "go 500, 1500 tokens, $0.0105");
}

#[test]
fn tokens() {
    let rows = [
        // limit, spent, reserved, input -> verdict
        (10_000, 0, 0, 1_000, "go 500, 1500 tokens, $0"),
        (1_500, 0, 0, 1_000, "go 500, 1500 tokens, $0"),
        // The output is lowered to what is left.
        (1_499, 0, 0, 1_000, "go 499, 1499 tokens, $0"),
        (1_001, 0, 0, 1_000, "go 1, 1001 tokens, $0"),
        (1_000, 0, 0, 1_000, "refused Tokens"),
        (999, 0, 0, 1_000, "refused Tokens"),
        // What is spent and what is in flight count the same.
        (2_000, 900, 0, 1_000, "go 100, 1100 tokens, $0"),
        (2_000, 0, 900, 1_000, "go 100, 1100 tokens, $0"),
        (2_000, 450, 450, 1_000, "go 100, 1100 tokens, $0"),
        (2_000, 500, 500, 1_000, "refused Tokens"),
        (0, 0, 0, 0, "refused Tokens"),
    ];
    for (limit, used, in_flight, input, expected) in rows {
        let limits = Limits { tokens: Some(limit), ..Limits::default() };
        let found = admit(limits, 0, spent(used, 0.0), Reserved { tokens: in_flight, cost_usd: 0.0 }, wish(input, 500, FREE));
        assert_eq!(found, expected, "limit {limit}, spent {used}, in flight {in_flight}, input {input}");
    }
    let cached = Usage { input: 100, output: 200, cache_read: 300, cache_write: 400, cost_usd: 0.0, unpriced: 0 };
    let limits = Limits { tokens: Some(1_100), ..Limits::default() };
    assert_eq!(admit(limits, 0, cached, Reserved::default(), wish(50, 500, FREE)), "go 50, 100 tokens, $0", "every kind of token counts");
}

#[test]
fn cost() {
    let rows = [
        // 1000 in at $3 and 500 out at $15 per million: 0.003 + 0.0075.
        (1.0, 0.0, 0.0, PRICES, "go 500, 1500 tokens, $0.0105"),
        (0.006, 0.0, 0.0, PRICES, "go 200, 1200 tokens, $0.006"),
        (0.003, 0.0, 0.0, PRICES, "refused Cost"),
        // Less than one token of output is affordable.
        (0.003_01, 0.0, 0.0, PRICES, "refused Cost"),
        (1.0, 0.994, 0.0, PRICES, "go 200, 1200 tokens, $0.006"),
        (1.0, 0.0, 0.994, PRICES, "go 200, 1200 tokens, $0.006"),
        (1.0, 0.5, 0.5, PRICES, "refused Cost"),
        (1.0, 2.0, 0.0, PRICES, "refused Cost"),
        (0.0, 0.0, 0.0, PRICES, "refused Cost"),
        // A model without prices costs nothing: a limit on money cannot lower its output.
        (1.0, 0.5, 0.0, FREE, "go 500, 1500 tokens, $0"),
        (1.0, 1.5, 0.0, FREE, "refused Cost"),
        // Only the input is paid for.
        (0.004, 0.0, 0.0, Prices { output: 0.0, ..PRICES }, "go 500, 1500 tokens, $0.003"),
    ];
    for (limit, used, in_flight, prices, expected) in rows {
        let limits = Limits { cost_usd: Some(limit), ..Limits::default() };
        let found = admit(limits, 0, spent(0, used), Reserved { tokens: 0, cost_usd: in_flight }, wish(1_000, 500, prices));
        assert_eq!(found, expected, "limit {limit}, spent {used}, in flight {in_flight}");
    }
}

#[test]
fn steps_end_with_a_closing_one() {
    let rows = [
        (3, 0, "go 5, 15 tokens, $0"),
        (3, 2, "go 5, 15 tokens, $0"),
        (3, 3, "closing 5, 15 tokens, $0"),
        (3, 9, "closing 5, 15 tokens, $0"),
        (0, 0, "closing 5, 15 tokens, $0"),
    ];
    for (limit, steps, expected) in rows {
        let limits = Limits { steps: Some(limit), ..Limits::default() };
        assert_eq!(
            admit(limits, steps, Usage::default(), Reserved::default(), wish(10, 5, FREE)),
            expected,
            "limit {limit}, {steps} steps"
        );
    }
}

#[test]
fn money_and_tokens_have_no_closing_step() {
    let limits = Limits { steps: Some(1), tokens: Some(100), cost_usd: Some(1.0), ..Limits::default() };
    assert_eq!(admit(limits, 1, spent(100, 0.0), Reserved::default(), wish(10, 5, FREE)), "refused Tokens");
    assert_eq!(admit(limits, 1, spent(0, 1.5), Reserved::default(), wish(10, 5, FREE)), "refused Cost");
    // The tighter of both lowers the output; the closing step obeys it too.
    assert_eq!(admit(limits, 1, spent(87, 0.0), Reserved::default(), wish(10, 5, FREE)), "closing 3, 13 tokens, $0");
}

#[test]
fn the_tighter_of_tokens_and_money_lowers_the_output() {
    let tight_money = Limits { tokens: Some(1_400), cost_usd: Some(0.006), ..Limits::default() };
    assert_eq!(admit(tight_money, 0, Usage::default(), Reserved::default(), wish(1_000, 500, PRICES)), "go 200, 1200 tokens, $0.006");
    let tight_tokens = Limits { tokens: Some(1_100), cost_usd: Some(0.006), ..Limits::default() };
    assert_eq!(admit(tight_tokens, 0, Usage::default(), Reserved::default(), wish(1_000, 500, PRICES)), "go 100, 1100 tokens, $0.0045");
}

#[test]
fn what_was_set_aside_is_enough_for_what_was_admitted() {
    // A step that uses all it was given lands exactly on what was set aside.
    let used = Usage { input: 1_000, output: 500, ..Usage::default() }.priced(&PRICES);
    let Admission::Go { reserved, output_max } = Standing::default().admit(wish(1_000, 500, PRICES)) else { panic!("no limits") };
    assert_eq!((reserved.tokens, output_max), (used.tokens(), 500));
    assert!((reserved.cost_usd - used.cost_usd).abs() < 1e-12);
    assert_eq!(Admission::Refused(Limit::Steps), Admission::Refused(Limit::Steps));
}

/// What others have set aside is not spent: who would fit without it waits, and who would not is refused. Steps in flight count.
#[test]
fn reservations_of_others_are_waited_for() {
    let standing = |reserved: u64, in_flight: u64, spent: u64| Standing {
        limits: Limits { tokens: Some(100), steps: Some(5), ..Limits::default() },
        steps: 2,
        spent: Usage { input: spent, ..Usage::default() },
        reserved: Reserved { tokens: reserved, cost_usd: 0.0 },
        in_flight,
    };
    let admitted = |standing: Standing| match standing.admit(wish(10, 5, FREE)) {
        Admission::Go { output_max, .. } => format!("go {output_max}"),
        Admission::Closing { .. } => "closing".into(),
        Admission::Later => "later".into(),
        Admission::Refused(limit) => format!("{limit:?}"),
    };
    let rows = [
        (standing(0, 0, 0), "go 5"),
        (standing(90, 1, 0), "later"),
        (standing(87, 1, 0), "go 3"),
        (standing(50, 1, 95), "Tokens"),
        (standing(90, 0, 0), "Tokens"),
        (standing(10, 3, 0), "closing"),
        (standing(10, 2, 0), "go 5"),
    ];
    for (standing, expected) in rows {
        assert_eq!(admitted(standing), expected, "{standing:?}");
    }
}

/// An unknown price is not the same as none: tokens without a price are told as such, also in sums.
#[test]
fn what_nobody_knows_the_price_of_is_not_told_as_free() {
    let used = Usage { input: 100, output: 20, ..Usage::default() };
    let unknown = used.priced(&Prices::unknown());
    assert_eq!((unknown.cost_usd, unknown.unpriced), (0.0, 120));
    assert_eq!(unknown.priced(&Prices::unknown()), unknown, "priced twice is priced once");
    assert_eq!(used.priced(&FREE), used);
    let billed = Usage { cost_usd: 0.5, ..used };
    assert_eq!(billed.priced(&Prices::unknown()), billed, "the provider's own bill is known");
    let mut sum = used.priced(&PRICES);
    sum += unknown;
    assert_eq!((sum.cost_usd, sum.unpriced, sum.tokens()), (0.0006, 120, 240));
    // What is known looks as it always did.
    assert_eq!(serde_json::to_string(&used).unwrap(), r#"{"input":100,"output":20,"cache_read":0,"cache_write":0,"cost_usd":0.0}"#);
}
