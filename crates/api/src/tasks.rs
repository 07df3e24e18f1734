//! `posse tasks` and the tasks of one session: a table of what was delegated, newest first, one line per task.
//!
//! Made from the nodes of trees; what a task waits for stands under it, with the command that helps.

use posse_session::{CallId, Kind, SessionId, Status, Timestamp};

use serde::Serialize;

use crate::{
    Node,
    tree::{more_remarks, state},
    words,
};

/// What was delegated: everything that a session of another agent was started for.
pub fn is_task(node: &Node) -> bool {
    node.kind.is_some_and(Kind::is_task)
}

/// One line per task, and one more where something has to be done about it.
pub fn task_lines(tasks: &[Node], now: Timestamp) -> Vec<String> {
    let width = |of: fn(&Node) -> usize| tasks.iter().map(of).max().unwrap_or(0).min(COLUMN_MAX);
    let agents = width(|node| called(node).chars().count());
    let states = width(|node| state(node).chars().count());
    tasks.iter().flat_map(|node| lines(node, agents, states, now)).collect()
}

/// A column is at most so wide; what is longer moves its own line only.
const COLUMN_MAX: usize = 24;

fn lines(node: &Node, agents: usize, states: usize, now: Timestamp) -> Vec<String> {
    let below = match node.below {
        0 => String::new(),
        _ => format!(" (with those below {})", words::cost(&node.subtree)),
    };
    let last = if node.last_action.is_empty() { String::new() } else { format!("  last: {}", node.last_action) };
    let last = if node.doing.is_empty() { last } else { format!("  now: {}{last}", node.doing) };
    let mut lines = vec![format!(
        "{}  {:agents$}  {:states$}  {:>9}  {:>6} tokens  {}{below}  {:>6} ago  {}{last}",
        node.session,
        called(node),
        state(node),
        words::count(node.steps, "step"),
        words::tokens(node.usage.tokens()),
        words::cost(&node.usage),
        words::age(now.since(node.updated)),
        node.description,
    )];
    if let Some(waits) = &node.waits {
        let run = waits.run.as_ref().map_or(String::new(), |run| format!("; {run}"));
        lines.push(format!("    waits for {}{run}", waits.words));
    }
    lines.extend(more_remarks(node).into_iter().map(|remark| format!("    {remark}")));
    lines
}

fn called(node: &Node) -> String {
    node.name.as_ref().map_or_else(|| node.agent.clone(), |name| format!("{} {name:?}", node.agent))
}

/// What a call of a session has left running, as a row of its own: nobody else would show that of a root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShellRow {
    pub call: CallId,
    pub session: SessionId,
    pub root: SessionId,
    /// Always `shell`, to tell it from a task.
    pub kind: &'static str,
    pub description: String,
    pub status: Status,
}

/// The shells of a tree. `running`: a living process runs it; without one they ended with the last.
pub fn shell_rows(nodes: &[Node], running: bool) -> Vec<ShellRow> {
    let status = if running { Status::Running } else { Status::Stopped };
    let rows = |node: &Node| {
        let (session, root) = (node.session.clone(), node.root.clone());
        node.shells.clone().into_iter().map(move |shell| ShellRow {
            call: shell.call,
            session: session.clone(),
            root: root.clone(),
            kind: "shell",
            description: shell.title,
            status,
        })
    };
    nodes.iter().flat_map(rows).collect()
}

pub fn shell_lines(rows: &[ShellRow]) -> Vec<String> {
    let line = |row: &ShellRow| {
        let left = if row.status == Status::Running { "" } else { " (no process: it ended with the one that ran it)" };
        format!("{}  shell  {}{left}  of {}  {}", row.call, words::status(row.status), row.session, row.description)
    };
    rows.iter().map(line).collect()
}
