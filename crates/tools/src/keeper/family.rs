//! Whose process is it: which of the keeper's descendants belong to which start.
//!
//! Pure: a process table and a list of starts in, members out. A process below a living main process is that start's.
//! One whose parents are dead hangs directly below the keeper (it is their subreaper) and is known by its group, its
//! session, its mark (see `process_table.rs`) or the call in its environment. One that got rid of all four
//! on purpose is nobody's for sure: it is ended with the last start, or when posse goes.

use std::collections::{HashMap, HashSet};

use crate::process_table::{Seen, Table};

/// What the keeper knows of a start when it looks for its processes.
#[derive(Debug, Clone)]
pub(super) struct Start {
    pub(super) id: u64,
    pub(super) main: i32,
    /// The main process is alive, so that its number is its own.
    pub(super) alive: bool,
    pub(super) call: String,
    pub(super) mark: Option<u64>,
}

/// Every living descendant of the keeper, by the start it belongs to.
pub(super) fn members(table: &Table, keeper: i32, starts: &[Start]) -> HashMap<u64, Vec<Seen>> {
    let mut owners: HashMap<i32, Option<u64>> = HashMap::new();
    let mut found: HashMap<u64, Vec<Seen>> = HashMap::new();
    for process in table.all() {
        let Some(branch) = table.branch_below(keeper, process.pid) else { continue };
        let owner = *owners.entry(branch.pid).or_insert_with(|| owner_of(branch, starts));
        if let Some(id) = owner {
            found.entry(id).or_default().push(*process);
        }
    }
    found
}

/// Every living descendant of the keeper.
pub(super) fn descendants(table: &Table, keeper: i32) -> Vec<Seen> {
    table.all().filter(|process| table.branch_below(keeper, process.pid).is_some()).copied().collect()
}

/// The process groups that consist of our own: those led by one of these processes, or by a main process that may be
/// dead. A process can join a group of posse's terminal too, and that one must not be signalled with it.
pub(super) fn groups(processes: &[Seen], mains: &[i32]) -> HashSet<i32> {
    let leaders: HashSet<i32> = processes.iter().map(|process| process.pid).chain(mains.iter().copied()).collect();
    processes.iter().map(|process| process.group).filter(|group| leaders.contains(group)).collect()
}

fn owner_of(branch: &Seen, starts: &[Start]) -> Option<u64> {
    if let Some(start) = starts.iter().find(|start| start.alive && start.main == branch.pid) {
        return Some(start.id);
    }
    if let Some(start) = starts.iter().find(|start| start.main == branch.group || start.main == branch.session) {
        return Some(start.id);
    }
    if let Some(mark) = branch.mark()
        && let Some(start) = starts.iter().find(|start| start.mark == Some(mark))
    {
        return Some(start.id);
    }
    if let Some(call) = branch.call() {
        // Several starts of one call: the one whose main process has ended is the one that leaves things behind.
        let of_call = || starts.iter().filter(|start| start.call == call);
        if let Some(start) = of_call().find(|start| !start.alive).or_else(|| of_call().next()) {
            return Some(start.id);
        }
    }
    match starts {
        [only] => Some(only.id),
        _ => None,
    }
}
