//! Shell rules: the verdict of a line is the strictest over every simple command it can run.
//!
//! Pure: text, rules and three paths in, a verdict and its reason out; no disk, no process, no clock. One parser
//! (`parse`), words after quote removal (`word`), a walk over everything that can run (`walk`), one place that judges
//! a simple command (`command`). What programs do with their words is data: `wrappers`, `programs`, `variables`.
//! Rules are convenience, the kernel's sandbox is the boundary: whatever is not understood asks.

mod braces;
mod command;
mod documents;
mod files;
mod git;
mod inner;
mod judging;
mod listing;
mod parse;
mod places;
mod programs;
mod reach;
mod readers;
mod repository;
mod scan;
mod scripts;
mod shapes;
mod urls;
mod variables;
mod walk;
mod word;
mod wrappers;

use std::path::PathBuf;

use judging::Judge;
pub(crate) use judging::outside_touch;
pub(crate) use places::without_classes;
use posse_session::{AskedFor, Rules, Touch, Verdict};
pub(crate) use programs::is_installed;
pub(crate) use repository::{Does, RepositoryUse};

/// Longer than any line written by hand; a longer one is only searched for what is denied.
const COMMAND_BYTES_MAX: usize = 64 * 1024;

/// Scripts in scripts, wrappers in wrappers. People stop at four.
const DEPTH_MAX: usize = 24;

/// Simple commands in one line, each judged once per way to reach it.
const COMMANDS_MAX: usize = 1_000;

/// Work for one line; a unit is about a microsecond of a build without optimisation. An ordinary line takes a few hundred,
/// one of 32 KiB that writes a file by a here-document some ten thousand. More is only searched for what is denied.
const WORK_MAX: usize = 200_000;

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
    /// Every simple command (`bash`), the files behind redirections (`read`, `edit`), `.env` files by any word (`read`),
    /// protected files that are written (`protected`), and folders outside (`external_directory`), for rules with other
    /// keys. Not complete for a line that is denied.
    pub touches: Vec<Touch>,
    /// For an ask, and never empty then: each simple command and each protected file that asks by itself. What is exact
    /// no wildcard may cover; its pattern has the words around the command too, or is the whole line where nobody can
    /// know what runs.
    pub asking: Vec<AskedFor>,
    pub files: Files,
    /// What git is told to do to branches, settings and objects: in a linked worktree they are not the project's own.
    pub(crate) repository: Vec<RepositoryUse>,
}

/// Files by name, relative to the root or absolute outside of it: what rules that deny reading or editing them are about.
/// A word that could be a name counts as one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Files {
    pub named: Vec<String>,
    pub written: Vec<String>,
    /// Given to a program that is not known to leave them alone.
    pub handed: Vec<String>,
}

/// Judges a line by the rules whose key matches `bash`.
pub fn judge_shell(command: &str, rules: &Rules, surroundings: &Surroundings) -> ShellVerdict {
    let mut judge = Judge::new(command, rules, surroundings);
    if COMMAND_BYTES_MAX < command.len() {
        judge.give_up("longer than can be looked at");
    } else {
        judge.line(command);
    }
    judge.finish()
}
