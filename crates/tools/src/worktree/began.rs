//! What a task's work is measured from: where it began, unless it has left behind what it began with.
//!
//! A worktree with the caller's uncommitted changes begins with a commit that only posse knows. A task that resets its folder
//! to a branch of the user's, or switches to one, has no longer what was not committed; measured from its beginning it would
//! have deleted all of that, and bringing it home would delete it there.

use std::collections::BTreeSet;

use super::{diff, git::Git, opened::Opened, place::text};

/// How the commit of what was not committed begins.
const CHANGES: &str = "Uncommitted changes that the task ";

pub(super) fn changes_message(slug: &str, title: &str) -> String {
    format!("{CHANGES}{slug} began with\n\n{title}")
}

/// The commit from which on what a task has now is its own work.
pub(super) fn base(opened: &Opened, theirs: &str) -> Result<String, String> {
    let (git, began) = (Git::in_repository(&opened.common), opened.tree.base.as_str());
    let subject = git.ask(["log", "-1", "--format=%s", began]).and_then(text)?;
    if !subject.starts_with(CHANGES) || is_ancestor(&git, began, theirs)? || !has_lost(&git, began, theirs)? {
        return Ok(opened.from().to_owned());
    }
    let common = git.run(["merge-base", began, theirs])?;
    // Two histories that have nothing in common: then nothing of the work can be told from the user's.
    if common.code == 0 { text(common.output) } else { Ok(opened.from().to_owned()) }
}

fn is_ancestor(git: &Git<'_>, older: &str, newer: &str) -> Result<bool, String> {
    let said = git.run(["merge-base", "--is-ancestor", older, newer])?;
    match said.code {
        0 => Ok(true),
        1 => Ok(false),
        _ => Err(said.words()),
    }
}

/// Whether a file that was not committed is there again as it was committed. One that was amended is still there.
fn has_lost(git: &Git<'_>, began: &str, theirs: &str) -> Result<bool, String> {
    let committed = format!("{began}^");
    if git.run(["rev-parse", "--verify", "--quiet", &committed])?.code != 0 {
        return Ok(false);
    }
    let still: BTreeSet<Vec<u8>> = diff::changed(git, &committed, theirs)?.into_iter().map(|changed| changed.path).collect();
    Ok(diff::changed(git, &committed, began)?.iter().any(|changed| !still.contains(&changed.path)))
}
