//! From the records of a log to the messages a model sees. Pure: no clock, no disk, no provider.
//!
//! [`Thread`] weaves messages out of records, [`system`] words the head of a request. The engine reads the records,
//! puts stored texts back, and hands both in; only `models` knows what bytes the messages become. [`story`] tells the same
//! records to a reader, line by line.

mod advice;
mod compaction;
mod fork;
mod results;
mod story;
mod system;
mod thread;

pub use advice::{doing_directive, doing_in, draft_note, side_directive, suggestion_directive, suggestion_in};
pub use compaction::{Budget, Plan, directive, plan, prune, verbatim, weigh};
pub use fork::{FORK_ANSWERS_IN_WORDS, FORK_MARK, fork_directive, is_directive, moved_notice};
pub use story::story;
pub use system::{Environment, Instruction, changes, is_change, system};
pub use thread::Thread;
