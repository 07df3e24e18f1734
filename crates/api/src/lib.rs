//! The edge as plain types: what a run came to, what a stream prints, the `Client` trait, words for people.
//!
//! Knows facts and views, nothing of runs, stores or terminals. Everything here is a promise to users and scripts.

mod client;
mod report;
mod show;
mod stream;
pub mod words;

pub use client::{Client, ClientError};
pub use report::{Denial, Report, RunStatus, TreeEntry, report};
pub use show::{said, transcript};
pub use stream::{delta_line, line};
