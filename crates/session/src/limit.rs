//! Limits: what a tree may spend, and the admission of the next step against it.
//!
//! The sums are kept by the ledger (`engine`), which asks [`Standing::admit`]; a refusal becomes the fact `LimitReached`.

use serde::{Deserialize, Serialize};

use crate::{
    event::Reserved,
    usage::{Prices, Usage},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    Steps,
    Tokens,
    Cost,
    /// `--timeout`, for the whole tree.
    Time,
    /// A task's round took too long.
    Wall,
    /// Nothing happened in a task for too long.
    Idle,
}

impl Limit {
    /// Time that ran out is no result to build on.
    pub(crate) fn is_deadline(self) -> bool {
        matches!(self, Self::Wall | Self::Idle)
    }
}

/// What a tree may use up. `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Limits {
    pub steps: Option<u64>,
    pub tokens: Option<u64>,
    pub cost_usd: Option<f64>,
    /// Tasks, ended ones too.
    pub tasks: Option<u64>,
}

/// What a tree has used up, and what its steps in flight may still use.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Standing {
    pub limits: Limits,
    pub steps: u64,
    pub spent: Usage,
    pub reserved: Reserved,
    /// Steps that were admitted and have not ended.
    pub in_flight: u64,
}

/// One step that wants to be admitted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wish {
    /// The larger of body bytes / 4 and the session's last counted input.
    pub input_estimate: u64,
    pub output_max: u64,
    pub prices: Prices,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Admission {
    Go {
        reserved: Reserved,
        output_max: u64,
    },
    /// The step limit is used up: one last step, without tools.
    Closing {
        reserved: Reserved,
        output_max: u64,
    },
    /// What others have set aside may be more than they need: ask again when one of them has ended.
    Later,
    Refused(Limit),
}

impl Standing {
    /// Spent and reserved plus the estimated input above a limit refuses the step; otherwise its output is lowered to what is left.
    pub fn admit(&self, wish: Wish) -> Admission {
        let mut output_max = wish.output_max;
        if let Some(limit) = self.limits.tokens {
            let alone = limit.saturating_sub(self.spent.tokens()).saturating_sub(wish.input_estimate);
            let left = alone.saturating_sub(self.reserved.tokens);
            if left == 0 {
                return if alone == 0 || self.in_flight == 0 { Admission::Refused(Limit::Tokens) } else { Admission::Later };
            }
            output_max = output_max.min(left);
        }
        let input_cost = wish.input_estimate as f64 * wish.prices.input / 1_000_000.0;
        if let Some(limit) = self.limits.cost_usd {
            let affordable = |left: f64| match wish.prices.output {
                price if 0.0 < price => (left.max(0.0) * 1_000_000.0 / price) as u64,
                _ => {
                    if 0.0 < left {
                        u64::MAX
                    } else {
                        0
                    }
                }
            };
            let alone = limit - self.spent.cost_usd - input_cost;
            let left = affordable(alone - self.reserved.cost_usd);
            if left == 0 {
                return if affordable(alone) == 0 || self.in_flight == 0 { Admission::Refused(Limit::Cost) } else { Admission::Later };
            }
            output_max = output_max.min(left);
        }
        let reserved = Reserved {
            tokens: wish.input_estimate.saturating_add(output_max),
            cost_usd: input_cost + output_max as f64 * wish.prices.output / 1_000_000.0,
        };
        match self.limits.steps {
            Some(limit) if limit <= self.steps.saturating_add(self.in_flight) => Admission::Closing { reserved, output_max },
            _ => Admission::Go { reserved, output_max },
        }
    }
}
