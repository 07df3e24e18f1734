//! `posse tasks` and the tasks of one session: a table of what was delegated, newest first, one line per task.
//!
//! Made from the nodes of trees; what a task waits for stands under it, with the command that helps.

use posse_session::{Kind, Timestamp};

use crate::{Node, tree::is_left, words};

/// What was delegated: everything that a session of another agent was started for.
pub fn is_task(node: &Node) -> bool {
    matches!(node.kind, Some(Kind::Task | Kind::Fork | Kind::Teammate))
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
        _ => format!(" (with those below {})", words::money(node.subtree.cost_usd)),
    };
    let last = if node.last_action.is_empty() { String::new() } else { format!("  last: {}", node.last_action) };
    let mut lines = vec![format!(
        "{}  {:agents$}  {:states$}  {:>3} steps  {:>6} tokens  {}{below}  {:>6} ago  {}{last}",
        node.session,
        called(node),
        state(node),
        node.steps,
        words::tokens(node.usage.tokens()),
        words::money(node.usage.cost_usd),
        words::age(now.since(node.updated)),
        node.description,
    )];
    if let Some(waits) = &node.waits {
        let run = waits.run.as_ref().map_or(String::new(), |run| format!("; {run}"));
        lines.push(format!("    waits for {}{run}", waits.words));
    }
    if !node.error.is_empty() {
        lines.push(format!("    ! {}", node.error));
    }
    lines
}

fn called(node: &Node) -> String {
    node.name.as_ref().map_or_else(|| node.agent.clone(), |name| format!("{} {name:?}", node.agent))
}

fn state(node: &Node) -> String {
    format!("{}{}", words::status(node.status), if is_left(node) { " (no process)" } else { "" })
}
