//! The seams: everything that may be swapped for a test or another machine.
//!
//! Object-safe traits with boxed futures and no runtime. Who implements them: `models` (Model), `tools` (Tool, Workspace),
//! `store` (Log, Lease, Inbox), `engine` (Live, Stop), `cli` and tests (Hook, Clock).

mod expand;
mod hook;
mod log;
mod model;
mod tool;

use std::{future::Future, pin::Pin};

pub use expand::{Assemble, Expander, Expansion, Needed};
pub use hook::{Before, Hook, HookedCall};
pub use log::{Append, AppendError, Inbox, Lease, LeaseError, Letter, Log, Outputs, Ownership, Posted, ReadError, SavedFold};
pub use model::{
    Block, Finish, Head, Hearing, Hears, Live, Message, Model, ModelError, ModelFacts, ModelFailure, Params, Progress, Reply, ReplyPart,
    Request, Role, ToolChoice,
};
pub use tool::{
    CommandLine, Delegate, Dispatch, Ended, Errand, Inquiry, Launch, Look, Process, Sent, SpawnError, Stop, TaskEnd, TaskView, Tool,
    ToolCall, ToolContext, ToolSpec, Workspace,
};

use crate::ids::Timestamp;

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}
