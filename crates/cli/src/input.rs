//! The prompt: from the arguments, from stdin, or both. Knows nothing of sessions; what is too long or silent is said here.

use std::{
    io::{IsTerminal as _, Read as _},
    sync::{OnceLock, mpsc},
    time::Duration,
};

use rustix::fs::FileType;

use crate::{exit::Failure, print::to_stderr};

/// How long a prompt waits for an open pipe that brings nothing.
const PIPE_WAIT: Duration = Duration::from_secs(2);

/// More than any model reads; a larger input is a file to be named, not a prompt.
const STDIN_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The user's words.
pub(crate) struct Prompt {
    /// The prompt exactly as given, then what was piped in. There is at least one.
    pub(crate) blocks: Vec<String>,
    /// Nothing was given but the pipe.
    pub(crate) piped: bool,
}

pub(crate) fn prompt(arguments: &[String]) -> Result<Prompt, Failure> {
    let words = arguments.join(" ");
    let mut blocks = Vec::new();
    let piped_only = words.is_empty() || words == "-";
    if piped_only {
        if std::io::stdin().is_terminal() && words.is_empty() {
            return Err(Failure::usage("nothing to do: give a prompt, as in `posse run \"Where is main?\"`, or pipe one in"));
        }
        blocks.extend(once(|| read_all().map(Some))?);
    } else {
        blocks.push(words);
        blocks.extend(once(piped)?);
    }
    blocks.retain(|block| !block.trim().is_empty());
    if blocks.is_empty() {
        return Err(Failure::usage("nothing to do: the prompt is empty"));
    }
    Ok(Prompt { blocks, piped: piped_only })
}

/// Stdin can be read once, and a command may begin again (`main.rs`).
fn once(read: impl FnOnce() -> Result<Option<String>, Failure>) -> Result<Option<String>, Failure> {
    static READ: OnceLock<Option<String>> = OnceLock::new();
    match READ.get() {
        Some(piped) => Ok(piped.clone()),
        None => read().map(|piped| READ.get_or_init(|| piped).clone()),
    }
}

/// What is piped in beside a prompt. A pipe that stays open and silent is left alone.
fn piped() -> Result<Option<String>, Failure> {
    let kind = rustix::fs::fstat(std::io::stdin()).map(|stat| FileType::from_raw_mode(stat.st_mode));
    match kind {
        Ok(FileType::RegularFile) => read_all().map(Some),
        Ok(FileType::Fifo | FileType::Socket) => {
            let (sender, first) = mpsc::channel();
            // This thread may stay behind in a read that never returns; it ends with the process.
            std::thread::spawn(move || {
                let mut byte = [0u8; 1];
                let count = std::io::stdin().read(&mut byte).unwrap_or(0);
                let _ = sender.send(byte[..count].to_vec());
                if 0 < count {
                    let _ = sender.send(read_bytes());
                }
            });
            let start = match first.recv_timeout(PIPE_WAIT) {
                Ok(start) => start,
                Err(_) => {
                    to_stderr("posse: waiting for stdin; use </dev/null");
                    return Ok(None);
                }
            };
            let rest = if start.is_empty() { Vec::new() } else { first.recv().unwrap_or_default() };
            bounded([start, rest].concat()).map(Some)
        }
        _ => Ok(None),
    }
}

fn read_all() -> Result<String, Failure> {
    bounded(read_bytes())
}

fn read_bytes() -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = std::io::stdin().lock().take(STDIN_BYTES_MAX + 1).read_to_end(&mut bytes);
    bytes
}

fn bounded(bytes: Vec<u8>) -> Result<String, Failure> {
    if STDIN_BYTES_MAX < bytes.len() as u64 {
        return Err(Failure::usage(format!(
            "stdin is larger than {} MiB: save it to a file and name the file in the prompt",
            STDIN_BYTES_MAX >> 20
        )));
    }
    Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned())
}
