//! Shell rules: the verdict of a line is the strictest over every simple command it can run.
//!
//! Pure: text, rules and three paths in, a verdict and its reason out; no disk, no process, no clock. One parser
//! (`parse`), words after quote removal (`word`), a walk over everything that can run (`walk`), one place that judges
//! a simple command (`command`). What programs do with their words is data: `wrappers`, `programs`, `variables`.
//! Rules are convenience, the kernel's sandbox is the boundary: whatever is not understood asks.

mod braces;
mod command;
mod git;
mod inner;
mod judging;
mod parse;
mod places;
mod programs;
mod scan;
mod scripts;
mod urls;
mod variables;
mod walk;
mod word;
mod wrappers;

use std::path::PathBuf;

use judging::Judge;
use posse_session::{Rules, Touch, Verdict};

/// Longer than any line written by hand; a longer one is only searched for what is denied.
const COMMAND_BYTES_MAX: usize = 64 * 1024;

/// Scripts in scripts, wrappers in wrappers. People stop at four.
const DEPTH_MAX: usize = 24;

/// Simple commands in one line, each judged once per way to reach it.
const COMMANDS_MAX: usize = 1_000;

/// Where the line would run. Paths are absolute; `root` and `cwd` are without links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surroundings {
    pub root: PathBuf,
    pub cwd: PathBuf,
    pub home: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellVerdict {
    pub verdict: Verdict,
    /// Which simple command, and which rule or which reason.
    pub why: String,
    /// `key(pattern)` of the rule that gave the verdict; absent when a reason of ours did.
    pub rule: Option<String>,
    pub origin: String,
    /// Every simple command (`bash`), the files behind redirections (`read`, `edit`), and the folders outside
    /// (`external_directory`), for rules with other keys.
    pub touches: Vec<Touch>,
}

/// Judges a line by the rules whose key matches `bash`.
pub fn judge_shell(command: &str, rules: &Rules, surroundings: &Surroundings) -> ShellVerdict {
    let mut judge = Judge::new(command, rules, surroundings);
    if COMMAND_BYTES_MAX < command.len() {
        judge.give_up(format!("longer than {COMMAND_BYTES_MAX} bytes"));
    } else {
        judge.line(command);
    }
    judge.finish()
}
