//! Names in the repository: which commits are kept for a task, and for how long.
//!
//! `posse/<slug>` is the task's branch and `refs/posse/base/<slug>` what it began with; both go with the worktree.
//! `refs/posse/merges/<slug>/<n>` are the merges, which stay, and `refs/posse/merged/<slug>` is the state that the last one
//! brought home. `refs/posse/merging/<slug>` is there while files are being written.

use std::path::Path;

use super::{git::Git, workshop::branch_of};

pub(super) fn branch(slug: &str) -> String {
    format!("refs/heads/{}", branch_of(slug))
}

pub(super) fn base(slug: &str) -> String {
    format!("refs/posse/base/{slug}")
}

pub(super) fn merged_name(slug: &str) -> String {
    format!("refs/posse/merged/{slug}")
}

pub(super) fn merging(slug: &str) -> String {
    format!("refs/posse/merging/{slug}")
}

pub(super) fn merges(slug: &str) -> String {
    format!("refs/posse/merges/{slug}")
}

/// What of a task was brought home last.
pub(super) fn merged(common: &Path, slug: &str) -> Result<Option<String>, String> {
    value(common, &merged_name(slug))
}

pub(super) fn value(common: &Path, name: &str) -> Result<Option<String>, String> {
    let said = Git::in_repository(common).run(["rev-parse", "--quiet", "--verify", name])?;
    match said.code {
        0 => Ok(Some(String::from_utf8_lossy(&said.output).trim_end().to_owned())),
        1 => Ok(None),
        _ => Err(said.words()),
    }
}

/// All of it or nothing. A line is `create NAME COMMIT`, `update NAME COMMIT` or `delete NAME`.
pub(super) fn change(common: &Path, lines: &[String]) -> Result<(), String> {
    if lines.is_empty() {
        return Ok(());
    }
    let input = lines.join("\n") + "\n";
    Git::in_repository(common).as_posse().tell(["update-ref", "--stdin"], input.as_bytes())?.success().map(drop)
}
