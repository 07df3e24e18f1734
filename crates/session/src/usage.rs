//! What a step cost: tokens by kind, and money by the model's prices.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Tokens of one or many model calls. `input` never includes cache reads, whatever the provider counts.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Usage {
    #[serde(default)]
    pub input: u64,
    #[serde(default)]
    pub output: u64,
    #[serde(default)]
    pub cache_read: u64,
    #[serde(default)]
    pub cache_write: u64,
    #[serde(default)]
    pub cost_usd: f64,
    /// Of all these tokens, those whose price nobody knew: `cost_usd` lacks them.
    #[serde(default, skip_serializing_if = "is_none")]
    pub unpriced: u64,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

impl Usage {
    /// What counts against a token budget.
    pub fn tokens(&self) -> u64 {
        [self.output, self.cache_read, self.cache_write].into_iter().fold(self.input, u64::saturating_add)
    }

    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// The same tokens with their price at these prices. A price that is known already stays: the provider's own bill counts.
    pub fn priced(self, prices: &Prices) -> Self {
        if 0.0 < self.cost_usd {
            return self;
        }
        if prices.unknown {
            return Self { unpriced: self.tokens(), ..self };
        }
        let cost = self.input as f64 * prices.input
            + self.output as f64 * prices.output
            + self.cache_read as f64 * prices.cache_read
            + self.cache_write as f64 * prices.cache_write;
        Self { cost_usd: cost / 1_000_000.0, ..self }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, more: Self) {
        // A provider may count nonsense; that is no reason to panic.
        self.input = self.input.saturating_add(more.input);
        self.output = self.output.saturating_add(more.output);
        self.cache_read = self.cache_read.saturating_add(more.cache_read);
        self.cache_write = self.cache_write.saturating_add(more.cache_write);
        self.cost_usd += more.cost_usd;
        self.unpriced = self.unpriced.saturating_add(more.unpriced);
    }
}

/// USD per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Prices {
    #[serde(default)]
    pub input: f64,
    #[serde(default)]
    pub output: f64,
    #[serde(default)]
    pub cache_read: f64,
    #[serde(default)]
    pub cache_write: f64,
    /// Nobody knows what it costs. That is not the same as free, and the numbers above say nothing then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
}

impl Prices {
    pub fn unknown() -> Self {
        Self { unknown: true, ..Self::default() }
    }
}
