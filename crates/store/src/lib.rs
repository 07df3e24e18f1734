//! Where logs, letters, blobs and views are kept: in memory for tests, in one SQLite file per project for people.
//!
//! Both implement the seams `Log`, `Lease` and `Inbox` of `session` and pass the one suite in `tests/contract.rs`.
//! Nothing here knows what an event means: an append is checked, made durable and told to whoever waits. The only
//! view kept with them is `Summary`, written in the same transaction as the facts it follows from. [`Outputs`] are files for
//! readers that may be lost.

mod error;
mod memory;
mod outputs;
mod process;
mod ready;
mod sqlite;

pub use error::OpenError;
pub use memory::{Fault, Memory};
pub use outputs::Outputs;
pub use process::{has_written, met_damage, settle};
pub use sqlite::{Backup, BackupError, Damaged, Salvaged, Sqlite};
