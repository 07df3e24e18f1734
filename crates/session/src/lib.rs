//! One conversation of one agent, as a value folded from its log.
//!
//! Facts ([`Event`]), state ([`Session`]), decisions, rules, views and the seams to everything else. There is no clock,
//! no randomness and no IO in here: time and chance come in with [`Given`], and what should happen outside comes out as
//! [`Effect`]s. Recovery is not a separate path: fold the log, then ask what is owed.

mod advice;
mod agent;
mod apply;
mod command;
mod compaction;
mod decide;
mod delegation;
mod draft;
mod entry;
mod event;
mod grant;
mod ids;
mod limit;
mod outcome;
mod owed;
mod part;
mod queue;
mod retry;
mod rule;
mod seams;
mod state;
mod summary;
mod task;
mod text;
mod usage;
mod words;
mod worktree;

pub use advice::Advice;
pub use agent::{Agent, AgentBudget, AgentLimits, AgentMode, AgentTools, MemoryScope};
pub use command::{Asking, Command, Effect, EffectKey, Given, Mode, Report, TaskReport, Wanted};
pub use compaction::Compaction;
pub use draft::Draft;
pub use entry::{Delivery, Entry, Priority, Source, Voice};
pub use event::{Event, Hold, Kind, Recipe, Record, Reserved, Segment};
pub use grant::{AskedFor, Grant, Granted};
pub use ids::{AskId, BatchId, CallId, EntryId, Epoch, Hash, Ids, LetterId, Seq, SessionId, Timestamp};
pub use limit::{Admission, Limit, Limits, Standing, Wish};
pub use outcome::{Answer, By, How, Outcome, Scope};
pub use owed::Permit;
pub use part::Part;
pub use queue::{Begins, QUEUE_MAX, Queue, Waiting};
pub use retry::{WAIT_MAX, retry_after};
pub use rule::{Decision, Judgement, Reader, Reading, Rule, Rules, Touch, Verdict, judge, key_of, wildcard};
pub use seams::{
    Append, AppendError, Assemble, Before, Block, BoxFuture, Clock, CommandLine, Delegate, Dispatch, Ended, Errand, Expander, Expansion,
    Finish, Head, Hearing, Hears, Hook, HookedCall, Inbox, Inquiry, Launch, Lease, LeaseError, Letter, Live, Log, Look, Message, Model,
    ModelError, ModelFacts, ModelFailure, Needed, Outputs, Ownership, Params, Posted, Process, Progress, ReadError, Reply, ReplyPart,
    Request, Role, SavedFold, Sent, SpawnError, Stop, TaskEnd, TaskView, Tool, ToolCall, ToolChoice, ToolContext, ToolSpec, Workspace,
};
pub use state::{
    Announced, Birth, CallOwner, CallState, Configuration, FOLD_VERSION, OpenCall, OpenStep, OpenTask, Retry, Round, Session, StandIn,
    Subtask, Transcript, Turn, Unanswered, Waiter,
};
pub use summary::{OpenAsk, SUMMARY_VERSION, Status, Summary, names};
pub use task::{Effort, FORK, Fork, Forks, Isolation, Purpose, Spawn, To};
pub use text::{EVENT_BYTES_MAX, INLINE_BYTES_MAX, Text, clip, format_duration};
pub use usage::{Prices, Usage};
pub use words::{cut_answer, output_setting};
pub use worktree::{Left, Worktree};
