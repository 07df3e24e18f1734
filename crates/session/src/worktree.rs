//! A worktree: a folder of its own in which one task works, so that workers do not step on each other.
//!
//! What is recorded in the task's birth is enough to make the folder again, to say what the task has changed, and to
//! bring that home. The git commands are in `tools`.

use serde::{Deserialize, Serialize};

/// Where a task works, and what it began with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worktree {
    /// The top of the caller's working tree: where the work comes home to.
    pub home: String,
    /// The top of the folder of its own.
    pub path: String,
    /// Empty where the user's own command made the folder: what was changed in it cannot be told.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub branch: String,
    /// The commit it began with. The caller's uncommitted changes, if it was to have them, are in it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub base: String,
}

impl Worktree {
    /// Whether the user's own command made it.
    pub fn is_foreign(&self) -> bool {
        self.branch.is_empty()
    }
}

/// What a task has left in its worktree when a round of it ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Left {
    pub path: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub branch: String,
    /// Nothing was changed: the folder is removed, and made again if the task goes on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub clean: bool,
    /// Commits since it began.
    #[serde(default)]
    pub commits: u64,
    /// Files that differ from how it began, committed or not, tracked or not.
    #[serde(default)]
    pub files: u64,
    /// Why that is not known, if it is not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unknown: String,
}
