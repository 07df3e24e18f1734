//! Names in the repository: which commits are kept for a task, and for how long.
//!
//! `posse/<slug>` is the task's branch and `refs/posse/base/<slug>` what it began with; both go with the worktree.
//! `refs/posse/merges/<slug>/<n>` are the merges, which stay as long as their task's session does (`pruning.rs`). `refs/posse/merged/<slug>` is the state that was brought home
//! last, and `refs/posse/onto/<slug>/…` the one that was brought onto a branch: each target has its own beginning.
//! `refs/posse/merging/<slug>` is there while files are being written.

use std::path::Path;

use super::{git::Git, locks::Lock, workshop::branch_of};

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

/// By a hash, because a branch may be called what was once a folder of branches.
pub(super) fn onto(slug: &str, branch: &str) -> String {
    format!("refs/posse/onto/{slug}/{}", blake3::hash(branch.as_bytes()).to_hex())
}

/// What of a task was brought onto a branch last. Its name keeps a commit with two parents: the one on the branch, and what
/// was brought. A branch that was set back or made anew does not have it any more.
pub(super) fn brought_onto(common: &Path, slug: &str, branch: &str) -> Result<Option<String>, String> {
    let Some(kept) = value(common, &onto(slug, branch))? else { return Ok(None) };
    let git = Git::in_repository(common);
    let said = git.run(["merge-base", "--is-ancestor", &format!("{kept}^1"), &format!("refs/heads/{branch}")])?;
    if said.code == 0 { value(common, &format!("{kept}^2")) } else { Ok(None) }
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

/// All of it or nothing. A line is `create NAME COMMIT`, `update NAME COMMIT` or `delete NAME`. `lock` is the repository's:
/// what a killed posse has begun is over when somebody else has it.
pub(super) fn change(common: &Path, lines: &[String], lock: &Lock) -> Result<(), String> {
    if lines.is_empty() {
        return Ok(());
    }
    let input = lines.join("\n") + "\n";
    Git::in_repository(common).as_posse().holding(lock).tell(["update-ref", "--stdin"], input.as_bytes())?.success().map(drop)
}
