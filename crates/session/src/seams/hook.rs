//! The hook seam: code of the user that watches a session or changes what was not sent yet.
//!
//! Hooks are at-least-once: after a crash one may see the same call again. What a hook adds to the conversation is
//! recorded, so that the request stays a function of the log.

use std::sync::Arc;

use serde_json::Value;

use super::{BoxFuture, Message, Tool};
use crate::{entry::Entry, event::Record, ids::CallId, ids::SessionId, outcome::Outcome, part::Part};

/// A call as a hook sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct HookedCall {
    pub session: SessionId,
    pub call: CallId,
    pub tool: String,
    pub input: Value,
}

/// What a before-hook says of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Before {
    Go,
    /// The verdict is on this input, and it is what runs.
    Amend(Value),
    /// The call does not run; the words are for the model.
    Refuse(String),
}

/// Every method has a default that does nothing; `looks` tells whether calls must wait for a look.
pub trait Hook: Send + Sync {
    fn name(&self) -> &str;

    /// Whether `before_call` does anything: if so every call is looked at before its verdict.
    fn looks(&self) -> bool {
        false
    }

    /// Changes the merged configuration before anything is built from it.
    fn config(&self, _config: &mut Value) {}

    /// A fact was appended. Never blocks the session.
    fn event(&self, _session: &SessionId, _record: &Record) {}

    /// An entry is about to be queued; may change or extend its parts.
    fn message<'a>(&'a self, _session: &'a SessionId, _entry: &'a mut Entry) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    fn before_call<'a>(&'a self, _call: &'a HookedCall) -> BoxFuture<'a, Before> {
        Box::pin(async { Before::Go })
    }

    /// Runs inside the call, also after a failure; the outcome is recorded as returned.
    fn after_call<'a>(&'a self, _call: &'a HookedCall, outcome: Outcome) -> BoxFuture<'a, Outcome> {
        Box::pin(async { outcome })
    }

    /// Parts to add to the step that is about to start, given what the model has seen. Recorded in `StepStarted`.
    fn transform<'a>(&'a self, _session: &'a SessionId, _seen: &'a [Arc<Message>]) -> BoxFuture<'a, Vec<Part>> {
        Box::pin(async { Vec::new() })
    }

    /// Text to put before a compaction's instructions.
    fn compaction<'a>(&'a self, _session: &'a SessionId) -> BoxFuture<'a, Option<String>> {
        Box::pin(async { None })
    }

    /// Tools this hook brings.
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        Vec::new()
    }
}
