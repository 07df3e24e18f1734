//! What holds for one round of an agent: how long it may take and what it may spend, who answers when its model is
//! overloaded, and whether it may go on in the background.
//!
//! An agent tightens what is configured and never widens it. Only answers: nothing is counted, timed or called here.

use std::time::Duration;

use posse_session::Agent;

use crate::config::Config;

/// More models than these, all overloaded, are an outage, and going through them would only add to it.
pub(crate) const FALLBACKS_MAX: usize = 8;

/// The bounds of one round, the smaller of the agent's and the configured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundLimits {
    pub wall: Duration,
    /// Without a sign of life.
    pub idle: Duration,
    /// Without a byte of one model stream.
    pub stream_idle: Duration,
    /// For one model call.
    pub step: Duration,
    /// Of its own; what is configured holds for the tree and is counted there.
    pub cost_usd: Option<f64>,
    pub tokens: Option<u64>,
    /// How deep agents may be nested for it to start one more. Of its own: what holds for all depends on the dialect.
    pub depth: Option<u64>,
    /// Tasks that it may ever start.
    pub children: u64,
}

impl Config {
    pub fn limits_for(&self, agent: &Agent) -> RoundLimits {
        let configured = &self.limits;
        RoundLimits {
            wall: smaller(agent.timeout, configured.wall),
            idle: smaller(agent.limits.idle, configured.idle),
            stream_idle: smaller(agent.limits.stream_idle, configured.stream_idle),
            step: smaller(agent.limits.step, configured.step),
            cost_usd: agent.budget.cost_usd.map(|own| configured.cost.map_or(own, |cost| cost.min(own))),
            tokens: agent.budget.tokens.map(|own| configured.tokens.map_or(own, |tokens| tokens.min(own))),
            depth: agent.limits.depth,
            children: smaller(agent.limits.children, configured.children),
        }
    }

    /// Names of models or aliases, as written, that answer in this order when the agent's own is overloaded. Two names may
    /// still mean one model, and one of them the agent's: that is known where models are chosen.
    pub fn fallbacks_for(&self, agent: &Agent) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for name in agent.fallback.as_ref().unwrap_or(&self.fallback) {
            if agent.model.as_ref() != Some(name) && !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    /// Whether anything may go on in the background.
    pub fn background(&self) -> bool {
        self.background
    }

    /// How long a task may have run in the foreground before it is detached; for ever without.
    pub fn auto_background_after(&self) -> Option<Duration> {
        self.auto_background_after.filter(|_| self.background)
    }
}

fn smaller<T: Ord>(own: Option<T>, configured: T) -> T {
    match own {
        Some(own) => own.min(configured),
        None => configured,
    }
}

/// Whether it could be one; which there are is not known here.
pub(crate) fn is_model_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(char::is_whitespace)
}

/// The name of a model that may answer for another; in words why it cannot.
pub(crate) fn fallback_name(written: &str) -> Result<String, &'static str> {
    match written.trim() {
        // The caller's model may be the very one that is overloaded.
        "inherit" => Err("a fallback must be named; `inherit` is not a model"),
        name if is_model_name(name) => Ok(name.to_owned()),
        _ => Err("not the name of a model"),
    }
}
