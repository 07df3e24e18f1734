//! The seam of typed words: what a prompt with commands and mentions in it comes to.
//!
//! What the words name is the user's configuration, so it is found out outside the kernel. Files and commands in them
//! are calls like any other: judged by rules, recorded, run by tools.

use serde_json::Value;

use crate::{entry::Voice, grant::Grant, outcome::Outcome, part::Part};

/// A call whose result is part of what was typed.
#[derive(Debug, Clone, PartialEq)]
pub struct Needed {
    pub tool: String,
    pub input: Value,
    /// The user typed it, so nobody is asked about it again; what is denied stays denied.
    pub consented: bool,
}

/// What typed words come to, once the calls they need have ended.
pub struct Expansion {
    pub calls: Vec<Needed>,
    /// Who answers, and on which model, if not the session's own agent.
    pub agent: Option<String>,
    pub model: Option<String>,
    /// What the words allow for the turn they begin.
    pub allowed: Vec<Grant>,
    /// Makes parts of the results, which are in the order of the calls.
    pub assemble: Assemble,
}

/// Makes parts of results.
pub type Assemble = Box<dyn FnOnce(&[Outcome]) -> Vec<Part> + Send>;

pub trait Expander: Send + Sync {
    /// The same words come to the same calls every time. Of another agent's words only files count.
    fn expand(&self, typed: &str, voice: &Voice) -> Expansion;
}
