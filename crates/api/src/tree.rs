//! A session and everything below it, as lists and pictures show it: who, how far, for how much, and what it waits for.
//!
//! Made from views alone, so a tree of a thousand sessions costs one query. Knows nothing of terminals: lines are cut to a
//! width by whoever draws them.

use std::collections::{BTreeSet, HashMap};

use posse_session::{AskId, By, CallId, Kind, SessionId, Status, Summary, Timestamp, Usage, names};
use serde::Serialize;

use crate::{ClientError, words};

/// One session at its place in a tree.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Node {
    pub session: SessionId,
    pub parent: Option<SessionId>,
    pub root: SessionId,
    /// How far below the session that was asked about.
    pub depth: usize,
    pub kind: Option<Kind>,
    pub agent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it was started for, without the frame that a child's title has.
    pub description: String,
    pub title: String,
    pub model: String,
    pub status: Status,
    pub steps: u64,
    pub calls: u64,
    /// Its own.
    pub usage: Usage,
    /// Its own and that of every session below it.
    pub subtree: Usage,
    /// Sessions below it.
    pub below: usize,
    pub created: Timestamp,
    /// When its round began.
    pub began: Timestamp,
    pub updated: Timestamp,
    /// How long its round has taken so far, or took.
    pub seconds: f64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_action: String,
    /// What it is doing right now, in a few words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub doing: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<Waits>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// The model that answers in place of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stand_in: Option<String>,
    /// Who stopped it, if somebody did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<By>,
    /// What its calls have left running.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shells: Vec<Shell>,
}

/// What a call has left running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shell {
    pub call: CallId,
    pub title: String,
}

/// What a session waits for, and what would help.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Waits {
    #[serde(rename = "for")]
    pub what: WaitsFor,
    /// In words that follow "waits for".
    pub words: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<AskId>,
    /// The command that ends the waiting, where one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitsFor {
    /// A person's answer.
    Answer,
    /// Somebody who runs the tree.
    Process,
    /// The time at which a failed step is tried again.
    Retry,
    /// Its own tasks.
    Tasks,
    /// What its calls have left running.
    Shells,
    /// A place in the lane of its model.
    Lane,
}

impl Waits {
    /// For nothing but what goes on in the background.
    pub fn is_for_background(&self) -> bool {
        matches!(self.what, WaitsFor::Tasks | WaitsFor::Shells)
    }
}

/// The status that users and scripts are told. A child at its own limit has done what it could: it counts as completed if
/// it said anything.
pub fn shown_status(summary: &Summary) -> Status {
    match (summary.status, &summary.parent) {
        (Status::Limit, Some(_)) if summary.last_reply.is_some() => Status::Completed,
        (Status::Limit, Some(_)) => Status::Failed,
        (status, _) => status,
    }
}

/// What a session waits for. `running`: a living process runs its tree.
pub fn waits(summary: &Summary, running: bool, now: Timestamp) -> Option<Waits> {
    let plain = |what, words: String| Some(Waits { what, words, ask: None, run: None });
    if summary.is_over() {
        return None;
    }
    if let Some(open) = summary.asks.first() {
        let more = if 1 < summary.asks.len() { format!(" and {} more", summary.asks.len() - 1) } else { String::new() };
        let touched = open.decision.touch.as_ref();
        let is_question = touched.is_some_and(|touch| touch.key == "question");
        let (words, answers) = match is_question {
            true => (format!("your answer to a question{more}"), "once --say TEXT|NUMBER"),
            false => (format!("your permission: {}{more}", words::touch(touched)), "once|session|tree|project|no"),
        };
        let run = Some(format!("posse asks answer {} {answers}", open.ask));
        return Some(Waits { what: WaitsFor::Answer, words, ask: Some(open.ask.clone()), run });
    }
    if !running {
        let run = Some(format!("posse sessions resume {}", summary.root));
        return Some(Waits { what: WaitsFor::Process, words: "a process".to_owned(), ask: None, run });
    }
    match summary.retry_at {
        Some(at) if now < at => return plain(WaitsFor::Retry, format!("the next try in {}", words::age(at.since(now)))),
        _ if summary.in_step => return None,
        _ => {}
    }
    match (summary.open_tasks, summary.open_calls, &summary.kept[..]) {
        // No call waits for them.
        (tasks, 0, _) if 0 < tasks => plain(WaitsFor::Tasks, format!("{} in the background", words::count(tasks, "task"))),
        (tasks, _, _) if 0 < tasks => plain(WaitsFor::Tasks, words::count(tasks, "task")),
        (_, 0, [(_, title)]) => plain(WaitsFor::Shells, format!("a shell in the background: {title}")),
        (_, 0, shells @ [_, ..]) => plain(WaitsFor::Shells, format!("{} shells in the background", shells.len())),
        (_, 0, []) => plain(WaitsFor::Lane, format!("its turn at {}", answering(&summary.model, summary.stand_in.as_deref()))),
        _ => None,
    }
}

/// Which model is asked: the session's own, or the one that answers in its place.
fn answering<'a>(own: &'a str, stand_in: Option<&'a str>) -> &'a str {
    stand_in.unwrap_or(own)
}

/// Says of those who wait for their turn in which lane that is. `lane`: of a model the lane's name, and how many requests
/// it lets through at once.
pub fn name_lanes(nodes: &mut [Node], lane: impl Fn(&str) -> (String, u64)) {
    for node in nodes {
        let (name, at_once) = lane(answering(&node.model, node.stand_in.as_deref()));
        if let Some(waits) = node.waits.as_mut().filter(|waits| waits.what == WaitsFor::Lane) {
            waits.words = format!("its turn: {name}, {at_once} at once");
        }
    }
}

/// What a session was started for: a child's title without its frame.
pub fn description(summary: &Summary) -> &str {
    let frame = summary.title.rfind(" (@").filter(|_| summary.parent.is_some() && summary.title.ends_with(" subagent)"));
    frame.map_or(&summary.title, |at| &summary.title[..at])
}

/// The task of this name: in the youngest tree that has one, and there the one that is open, if several parents have given
/// the name. `None`: there is none.
pub fn named(all: &[Summary], name: &str) -> Result<Option<SessionId>, ClientError> {
    let givers = || all.iter().filter(|summary| summary.named.iter().any(|(known, _)| known == name));
    let youngest = givers().map(|summary| &summary.root).max();
    let of_tree = givers().filter(|summary| Some(&summary.root) == youngest).flat_map(|summary| &summary.named);
    let tasks: BTreeSet<&SessionId> = of_tree.filter(|(known, _)| known == name).map(|(_, task)| task).collect();
    let is_open = |task: &SessionId| all.iter().any(|summary| summary.session == *task && !summary.is_over());
    let open: Vec<&SessionId> = tasks.iter().copied().filter(|task| is_open(task)).collect();
    match (tasks.len(), &open[..]) {
        (0 | 1, _) => Ok(tasks.first().map(|task| (*task).clone())),
        (_, [only]) => Ok(Some((*only).clone())),
        _ => Err(ClientError::Ambiguous { prefix: name.to_owned(), matches: tasks.into_iter().map(ToString::to_string).collect() }),
    }
}

/// The session and those below it, each after its parent, brothers in the order of their birth. Empty when it is unknown.
pub fn tree(all: &[Summary], of: &SessionId, running: bool, now: Timestamp) -> Vec<Node> {
    let mut children: HashMap<&SessionId, Vec<&Summary>> = HashMap::new();
    // Whoever it is below of, it is the top here: so even logs that name each other as parents end.
    for summary in all.iter().filter(|summary| summary.session != *of) {
        if let Some(parent) = &summary.parent {
            children.entry(parent).or_default().push(summary);
        }
    }
    // Ids sort as they were given; taken from the end, so the youngest comes first.
    children.values_mut().for_each(|list| list.sort_by(|a, b| b.session.cmp(&a.session)));
    let mut left: Vec<(&Summary, usize)> = all.iter().filter(|summary| summary.session == *of).take(1).map(|top| (top, 0)).collect();
    let names = names(all);
    let mut nodes = Vec::new();
    while let Some((summary, depth)) = left.pop() {
        nodes.push(Node { name: names.get(&summary.session).map(|name| (*name).to_owned()), ..node(summary, depth, running, now) });
        left.extend(children.get(&summary.session).into_iter().flatten().map(|child| (*child, depth + 1)));
    }
    add_up(&mut nodes);
    nodes
}

fn node(summary: &Summary, depth: usize, running: bool, now: Timestamp) -> Node {
    let waits = waits(summary, running, now);
    let until = if summary.is_over() || !running { summary.updated } else { now };
    Node {
        session: summary.session.clone(),
        parent: summary.parent.clone(),
        root: summary.root.clone(),
        depth,
        kind: summary.kind,
        agent: summary.agent.clone(),
        name: None,
        description: description(summary).to_owned(),
        title: summary.title.clone(),
        model: summary.model.clone(),
        status: match waits.as_ref().map(|waits| waits.what) {
            None => shown_status(summary),
            Some(WaitsFor::Lane) => Status::Queued,
            Some(_) => Status::Waiting,
        },
        steps: summary.steps,
        calls: summary.calls,
        usage: summary.usage,
        subtree: summary.usage,
        below: 0,
        created: summary.created,
        began: summary.began,
        updated: summary.updated,
        seconds: until.since(summary.began).as_secs_f64(),
        last_action: summary.last_action.clone(),
        doing: summary.doing.clone(),
        waits,
        error: summary.error.clone(),
        stand_in: summary.stand_in.clone(),
        stopped_by: summary.stopped_by.filter(|_| summary.status == Status::Stopped),
        shells: summary.kept.iter().map(|(call, title)| Shell { call: call.clone(), title: title.clone() }).collect(),
    }
}

/// Every node's own goes to all that are above it.
fn add_up(nodes: &mut [Node]) {
    // What was added up at each depth since the last node of the depth above.
    let mut open: Vec<(Usage, usize)> = Vec::new();
    for node in nodes.iter_mut().rev() {
        open.resize(open.len().max(node.depth + 2), Default::default());
        let (usage, count) = std::mem::take(&mut open[node.depth + 1]);
        node.subtree += usage;
        node.below = count;
        open[node.depth].0 += node.subtree;
        open[node.depth].1 += count + 1;
    }
}

/// For each node what is drawn before it, and before lines that belong to it: `├─ ` and `│  `.
pub fn branches(depths: &[usize]) -> Vec<(String, String)> {
    let mut is_last = vec![true; depths.len()];
    let mut follows: Vec<bool> = Vec::new();
    for (at, depth) in depths.iter().enumerate().rev() {
        follows.truncate(depth + 1);
        follows.resize(depth + 1, false);
        is_last[at] = !std::mem::replace(&mut follows[*depth], true);
    }
    let mut above: Vec<&str> = Vec::new();
    let drawn = depths.iter().zip(is_last).map(|(depth, is_last)| {
        above.truncate(depth.saturating_sub(1));
        let before = above.concat();
        if *depth == 0 {
            return (String::new(), String::new());
        }
        let (own, under) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        above.push(under);
        (format!("{before}{own}"), format!("{before}{under}"))
    });
    drawn.collect()
}

/// One sign per status.
pub fn mark(status: Status) -> char {
    match status {
        Status::Queued => '◌',
        Status::Running => '●',
        Status::Waiting => '?',
        Status::Completed => '✓',
        Status::Failed => '✗',
        Status::Stopped => '■',
        Status::Limit => '!',
    }
}

/// The tree as a person reads it: one line per session, under it what it waits for or why it failed.
pub fn tree_lines(nodes: &[Node], now: Timestamp) -> Vec<String> {
    let depths: Vec<usize> = nodes.iter().map(|node| node.depth).collect();
    let mut lines = Vec::new();
    for (node, (own, under)) in nodes.iter().zip(branches(&depths)) {
        lines.push(format!("{own}{} {}  {}", mark(node.status), who(node), facts(node, now)));
        lines.extend(remarks(node).into_iter().map(|remark| format!("{under}    {remark}")));
    }
    lines
}

/// `explore "scout"  layout  ses_…`.
fn who(node: &Node) -> String {
    let name = node.name.as_ref().map_or(String::new(), |name| format!(" {name:?}"));
    format!("{}{name}  {}  {}", node.agent, node.description, node.session)
}

fn facts(node: &Node, now: Timestamp) -> String {
    let total = match node.below {
        0 => String::new(),
        below => format!(" · with {below} below {} tokens {}", words::tokens(node.subtree.tokens()), words::cost(&node.subtree)),
    };
    format!(
        "{} · {} · {} · {} tokens · {}{total} · {} · {} ago",
        state(node),
        words::count(node.steps, "step"),
        words::count(node.calls, "call"),
        words::tokens(node.usage.tokens()),
        words::cost(&node.usage),
        words::seconds(node.seconds),
        words::age(now.since(node.updated)),
    )
}

/// Its status, and what else has to be known to read it.
pub(crate) fn state(node: &Node) -> String {
    let by = node.stopped_by.map_or("", words::stopped_by);
    format!("{}{by}{}", words::status(node.status), if is_left(node) { " (no process)" } else { "" })
}

/// Open, and nobody runs it.
fn is_left(node: &Node) -> bool {
    node.waits.as_ref().is_some_and(|waits| waits.what == WaitsFor::Process)
}

fn remarks(node: &Node) -> Vec<String> {
    let mut remarks = Vec::new();
    if !node.doing.is_empty() && !is_over(node.status) {
        remarks.push(format!("now: {}", node.doing));
    }
    if !node.last_action.is_empty() && !matches!(node.status, Status::Completed) {
        remarks.push(format!("last: {}", node.last_action));
    }
    if let Some(waits) = &node.waits {
        let run = waits.run.as_ref().map_or(String::new(), |run| format!("; {run}"));
        remarks.push(format!("waits for {}{run}", waits.words));
    }
    remarks.extend(more_remarks(node));
    remarks
}

/// What else there is to say of one, in lists as in trees.
pub(crate) fn more_remarks(node: &Node) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(model) = node.stand_in.as_ref().filter(|_| !is_over(node.status)) {
        remarks.push(format!("{model} answers in place of {}", node.model));
    }
    remarks.extend(node.shells.iter().map(|shell| format!("in the background: {} ({})", shell.title, shell.call)));
    if !node.error.is_empty() {
        remarks.push(format!("! {}", node.error));
    }
    remarks
}

fn is_over(status: Status) -> bool {
    matches!(status, Status::Completed | Status::Failed | Status::Stopped | Status::Limit)
}
