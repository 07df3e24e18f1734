//! Worktrees in real repositories: made, looked at, brought home, removed, and what is left of a killed posse.
// Helpers of tests may panic like the tests themselves.
#![allow(clippy::unwrap_used)]

mod common;
#[path = "worktree/crowd.rs"]
mod crowd;
#[path = "worktree/killing.rs"]
mod killing;
#[path = "worktree/lab.rs"]
mod lab;
#[path = "worktree/leftovers.rs"]
mod leftovers;
#[path = "worktree/looking.rs"]
mod looking;
#[path = "worktree/making.rs"]
mod making;
#[path = "worktree/mending.rs"]
mod mending;
#[path = "worktree/merging.rs"]
mod merging;
#[path = "worktree/orders.rs"]
mod orders;
#[path = "worktree/removing.rs"]
mod removing;
#[path = "worktree/staying.rs"]
mod staying;
