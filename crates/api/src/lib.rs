//! The edge as plain types: what a run came to, what a stream prints, the `Client` trait, words for people.
//!
//! Knows facts and views, nothing of runs, stores or terminals. Everything here is a promise to users and scripts.

mod account;
mod ask;
mod client;
mod edits;
mod history;
mod opencode;
mod report;
mod show;
mod start;
mod stream;
mod tasks;
mod tree;
pub mod words;

pub use account::{Account, AnswerAccount, AskAccount, account, concerns};
pub use ask::{Ask, Choice, Question, details};
pub use client::{Client, ClientError, Delivered, Place};
pub use edits::{Edit, FileUndo, Needed, below, edits, undo_plan};
pub use history::{Awaited, Began, End, History, Round, Stopped, Taken, Told, history};
pub use opencode::{Setting, opencode};
pub use report::{Denial, Refused, Report, RunStatus, Since, TreeEntry, report};
pub use show::{said, summed_up, transcript};
pub use start::Start;
pub use stream::{Lines, delta_line, progress_line};
pub use tasks::{ShellRow, is_task, shell_lines, shell_rows, task_lines};
pub use tree::{Node, Shell, Waits, WaitsFor, branches, description, mark, name_lanes, named, shown_status, tree, tree_lines, waits};
