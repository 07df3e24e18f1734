//! Where logs, letters, blobs and views are kept: in memory for tests, in one SQLite file per project for people.
//!
//! Both implement the seams `Log`, `Lease` and `Inbox` of `session` and pass the one suite in `tests/contract.rs`.
//! Nothing here knows what an event means: an append is checked, made durable and told to whoever waits. The only
//! view kept is `Summary`, written in the same transaction as the facts it follows from.

mod error;
mod memory;
mod ready;
mod sqlite;

pub use error::OpenError;
pub use memory::{Fault, Memory};
pub use sqlite::Sqlite;
