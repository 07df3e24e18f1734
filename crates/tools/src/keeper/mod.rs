//! The keeper: one small process below which all others start, and the handle that speaks to it.
//!
//! `process.rs` is the keeper itself (threads and blocking calls, no runtime: it must start in a few milliseconds),
//! `family.rs` decides which process belongs to which start, `client.rs` is posse's side. They speak one JSON object per
//! line over the keeper's stdin and stdout; the end of its stdin means that posse is gone, and the keeper kills all it has.

mod client;
mod family;
mod process;

pub use client::Keeper;
use posse_session::CommandLine;
pub use process::keeper_main;
use serde::{Deserialize, Serialize};

/// A command line of a shell call is at most 128 KiB (the kernel's bound for one argument) plus its environment.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The argument that makes posse a keeper.
const KEEPER_ARGUMENT: &str = "__keeper";

/// What posse wants from the keeper.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "want", rename_all = "snake_case")]
enum Want {
    Start { id: u64, line: CommandLine },
    End { id: u64, grace_ms: u64 },
}

/// What the keeper tells posse.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "told", rename_all = "snake_case")]
enum Told {
    Started {
        id: u64,
        pid: u32,
    },
    Failed {
        id: u64,
        words: String,
    },
    Exited {
        id: u64,
        code: Option<i32>,
        signal: Option<i32>,
    },
    /// Nothing of this start is left. `stragglers` outlived its main process and had to be ended.
    Gone {
        id: u64,
        stragglers: u32,
    },
}
