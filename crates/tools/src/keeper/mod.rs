//! The keeper: one small process below which all others start, and the handle that speaks to it.
//!
//! `process.rs` is the keeper itself (threads and blocking calls, no runtime: it must start in a few milliseconds),
//! `family.rs` decides which process belongs to which start, `client.rs` is posse's side. They speak one JSON object per
//! line over the keeper's stdin and stdout; the end of its stdin means that posse is gone, and the keeper kills all it has.

mod client;
mod family;
mod process;

use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
};

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
    Start { id: u64, line: WireLine },
    End { id: u64, grace_ms: u64 },
}

/// A command line on its way: paths as bytes, because the name of a folder need not be text.
#[derive(Debug, Serialize, Deserialize)]
struct WireLine {
    argv: Vec<String>,
    cwd: Vec<u8>,
    env: Vec<(String, String)>,
    output: Vec<u8>,
    call: String,
}

impl From<&CommandLine> for WireLine {
    fn from(line: &CommandLine) -> Self {
        let CommandLine { argv, cwd, env, output, call } = line;
        Self {
            argv: argv.clone(),
            cwd: cwd.as_os_str().as_bytes().to_vec(),
            env: env.clone(),
            output: output.as_os_str().as_bytes().to_vec(),
            call: call.as_str().to_owned(),
        }
    }
}

impl From<WireLine> for CommandLine {
    fn from(line: WireLine) -> Self {
        let path = |bytes: Vec<u8>| OsString::from_vec(bytes).into();
        Self { argv: line.argv, cwd: path(line.cwd), env: line.env, output: path(line.output), call: posse_session::CallId::new(line.call) }
    }
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
