//! The team of a run: who was started and who has ended, as lines or as one picture.
//!
//! Made from the views of a tree, so it costs one look however many agents there are. Pure: the terminal is `screen.rs`,
//! when to look is `narrate.rs`.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
};

use posse_api::{Node, branches, mark, words};
use posse_session::{Kind, SessionId, Status, Summary, Timestamp};

use crate::print::flat;

/// Lines of agents in a picture that is drawn over.
pub(crate) const LIVE_LINES_MAX: usize = 12;

/// Lines of agents in the picture that stays.
pub(crate) const FINAL_LINES_MAX: usize = 40;

/// What a task is about, where others stand beside it.
const DESCRIPTION_CHARS_MAX: usize = 32;

/// What an agent does, or why it failed.
const REMARK_CHARS_MAX: usize = 80;

pub(crate) struct Team {
    root: SessionId,
    /// Rounds that are no news: those that were over when this run began, and those whose start and end were told.
    known: HashMap<SessionId, Known>,
    /// Those whose end comes as a notice.
    background: HashSet<SessionId>,
}

#[derive(Clone, Copy)]
struct Known {
    /// When the round began.
    began: Timestamp,
    over: bool,
    /// It was over before this run.
    old: bool,
}

impl Team {
    pub(crate) fn new(root: SessionId) -> Self {
        Self { root, known: HashMap::new(), background: HashSet::new() }
    }

    /// Whether anybody waits for a task.
    pub(crate) fn set_background(&mut self, task: &SessionId, background: bool) {
        match background {
            true => self.background.insert(task.clone()),
            false => self.background.remove(task),
        };
    }

    /// What was over before this run is no part of its team.
    pub(crate) fn rest(&mut self, tree: &[Summary]) {
        for summary in tree.iter().filter(|summary| summary.is_over()) {
            self.known.insert(summary.session.clone(), Known { began: summary.began, over: true, old: true });
        }
    }

    /// The agents that work or worked in this run, below the root; internal work is not shown.
    pub(crate) fn members(&self, tree: &[Summary], now: Timestamp) -> Vec<Node> {
        let mut nodes = posse_api::tree(tree, &self.root, true, now);
        nodes.retain(|node| 0 < node.depth && node.kind != Some(Kind::Internal) && !self.is_old(node));
        nodes.iter_mut().filter(|node| self.background.contains(&node.session)).for_each(|node| node.description.push_str(" (background)"));
        nodes
    }

    fn is_old(&self, node: &Node) -> bool {
        self.known.get(&node.session).is_some_and(|known| known.old && known.began == node.began)
    }

    /// One line for each that has started since the last time, and one for each that has ended, indented by depth.
    pub(crate) fn news(&mut self, members: &[Node]) -> Vec<String> {
        let mut lines = Vec::new();
        for node in members {
            let known = self.known.get(&node.session).copied().filter(|known| known.began == node.began);
            let indent = "  ".repeat(node.depth);
            if known.is_none() {
                lines.push(format!("{indent}{} {}  {}", mark(Status::Running), who(node), flat(&node.description)));
            }
            if is_over(node) && !known.is_some_and(|known| known.over) {
                let parts = [who(node), flat(&node.description), words::count(node.calls, "call"), words::seconds(node.seconds)];
                lines.push(format!("{indent}{} {}{}", mark(node.status), parts.join("  "), remark(node)));
            }
            self.known.insert(node.session.clone(), Known { began: node.began, over: is_over(node), old: false });
        }
        lines
    }
}

/// The team as a tree under its head, at most `lines_max` of its members: those that work before those that are done.
pub(crate) fn picture(root: &Summary, members: &[Node], lines_max: usize) -> Vec<String> {
    let shown = chosen(members, lines_max);
    let mut depths: Vec<usize> = shown.iter().map(|node| node.depth).collect();
    let left = members.len() - shown.len();
    if 0 < left {
        depths.push(1);
    }
    let mut drawn = branches(&depths).into_iter().map(|(own, _)| own);
    let agents = shown.iter().map(|node| who(node).chars().count()).max().unwrap_or(0);
    let texts: Vec<String> = shown.iter().map(|node| short(&flat(&node.description), DESCRIPTION_CHARS_MAX)).collect();
    let widest = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
    let head = format!("● {}  {}  delegating to {}", flat(&root.agent), root.session, words::count(members.len() as u64, "agent"));
    let mut lines = vec![head];
    for ((node, text), own) in shown.iter().zip(&texts).zip(&mut drawn) {
        let calls = words::count(node.calls, "call");
        let seconds = words::seconds(node.seconds);
        lines.push(format!("{own}{} {:agents$}  {text:widest$}  {calls:>7}  {seconds}{}", mark(node.status), who(node), remark(node)));
    }
    lines.extend((0 < left).then(|| format!("{}… and {left} more", drawn.next().unwrap_or_default())));
    lines
}

/// As many as fit, in their order: first those that are open, then those that ended last.
fn chosen(members: &[Node], lines_max: usize) -> Vec<&Node> {
    if members.len() <= lines_max {
        return members.iter().collect();
    }
    let mut ranked: Vec<(usize, &Node)> = members.iter().enumerate().collect();
    ranked.sort_by_key(|(place, node)| (is_over(node).then_some(Reverse(node.updated)), *place));
    ranked.truncate(lines_max);
    ranked.sort_by_key(|(place, _)| *place);
    ranked.into_iter().map(|(_, node)| node).collect()
}

fn is_over(node: &Node) -> bool {
    matches!(node.status, Status::Completed | Status::Failed | Status::Stopped | Status::Limit)
}

fn who(node: &Node) -> String {
    node.name.as_ref().map_or_else(|| flat(&node.agent), |name| format!("{} {:?}", flat(&node.agent), flat(name)))
}

/// What it waits for or does; of one that has ended why it did not end well.
fn remark(node: &Node) -> String {
    let words = match (&node.waits, node.status) {
        (_, Status::Completed) => String::new(),
        (Some(waits), _) => format!("waits for {}", waits.words),
        (None, Status::Failed | Status::Stopped | Status::Limit) => {
            let why = if node.error.is_empty() { String::new() } else { format!(": {}", node.error) };
            format!("{}{why}", words::status(node.status))
        }
        (None, _) if !node.doing.is_empty() => node.doing.clone(),
        (None, _) => node.last_action.clone(),
    };
    if words.is_empty() { words } else { format!("  {}", short(&flat(&words), REMARK_CHARS_MAX)) }
}

fn short(text: &str, chars_max: usize) -> String {
    let kept: String = text.chars().take(chars_max).collect();
    if kept.len() < text.len() { format!("{kept}…") } else { kept }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The view of an agent below the root, or below another.
    fn agent(id: &str, parent: &str, description: &str, status: Status, calls: u64) -> Summary {
        let mut summary = Summary::new(SessionId::new(id));
        (summary.root, summary.parent) = (SessionId::new("ses_r"), Some(SessionId::new(parent)));
        (summary.kind, summary.agent) = (Some(Kind::Task), "explore".to_owned());
        summary.title = format!("{description} (@explore subagent)");
        (summary.status, summary.calls, summary.open_calls) = (status, calls, 1);
        (summary.created, summary.began, summary.updated) = (Timestamp(1_000), Timestamp(1_000), Timestamp(1_060));
        summary
    }

    fn root() -> Summary {
        let mut root = Summary::new(SessionId::new("ses_r"));
        (root.agent, root.kind, root.status) = ("build".to_owned(), Some(Kind::Root), Status::Running);
        root
    }

    const NOW: Timestamp = Timestamp(2_500);

    fn drawn(tree: &[Summary], lines_max: usize) -> String {
        let members = Team::new(SessionId::new("ses_r")).members(tree, NOW);
        picture(&root(), &members, lines_max).join("\n")
    }

    #[test]
    fn a_team_is_one_picture() {
        let mut failed = agent("ses_d", "ses_r", "tests and docs", Status::Failed, 1);
        failed.error = "the model\nfailed".to_owned();
        let mut busy = agent("ses_b", "ses_r", "entry points", Status::Running, 12);
        busy.last_action = "grep fn main\x1b[2J".to_owned();
        let mut root = root();
        root.named = vec![("scout".to_owned(), SessionId::new("ses_b"))];
        let mut below = agent("ses_c", "ses_b", "deeper", Status::Completed, 2);
        below.last_action = "read what is of no interest any more".to_owned();
        let mut internal = agent("ses_e", "ses_r", "title", Status::Running, 0);
        internal.kind = Some(Kind::Internal);
        let tree = [root, agent("ses_a", "ses_r", "layout", Status::Completed, 5), busy, below, failed, internal];
        assert_eq!(
            drawn(&tree, 12),
            "\
● build  ses_r  delegating to 4 agents
├─ ✓ explore          layout          5 calls  0.06 s
├─ ● explore \"scout\"  entry points    12 calls  1.5 s  grep fn main\u{fffd}[2J
│  └─ ✓ explore          deeper          2 calls  0.06 s
└─ ✗ explore          tests and docs   1 call  0.06 s  failed: the model⏎failed"
        );
    }

    #[test]
    fn of_many_agents_those_at_work_are_shown_and_the_others_counted() {
        let mut tree = vec![root()];
        for number in 0..50 {
            let mut one = agent(&format!("ses_{number:02}"), "ses_r", &format!("part {number}"), Status::Completed, 1);
            one.updated = Timestamp(1_000 + number);
            tree.push(one);
        }
        for at_work in [3, 47] {
            (tree[at_work].status, tree[at_work].in_step) = (Status::Running, true);
        }
        let shown = drawn(&tree, 4);
        let parts: Vec<&str> = shown.lines().map(|line| line.split("  ").nth(1).unwrap_or_default().trim()).collect();
        assert_eq!(parts, ["ses_r", "part 2", "part 46", "part 48", "part 49", ""], "{shown}");
        assert!(shown.ends_with("└─ … and 46 more"), "{shown}");
        assert_eq!(drawn(&tree, 50).lines().count(), 51);
        assert_eq!(drawn(&tree, 0).lines().last(), Some("└─ … and 50 more"));
    }

    #[test]
    fn without_a_picture_each_has_a_line_when_it_starts_and_one_when_it_ends() {
        let mut team = Team::new(SessionId::new("ses_r"));
        let mut told = |tree: &[Summary]| {
            let members = team.members(tree, NOW);
            team.news(&members)
        };
        let running = [root(), agent("ses_a", "ses_r", "layout", Status::Queued, 0)];
        assert_eq!(told(&running), ["  ● explore  layout"]);
        assert_eq!(told(&running), [""; 0]);
        let mut ended =
            [root(), agent("ses_a", "ses_r", "layout", Status::Completed, 5), agent("ses_b", "ses_a", "deep", Status::Stopped, 1)];
        let lines = ["  ✓ explore  layout  5 calls  0.06 s", "    ● explore  deep", "    ■ explore  deep  1 call  0.06 s  stopped"];
        assert_eq!(told(&ended), lines);
        assert_eq!(told(&ended), [""; 0]);
        // It is spoken to again.
        (ended[1].status, ended[1].began) = (Status::Running, Timestamp(2_000));
        assert_eq!(told(&ended), ["  ● explore  layout"]);
    }

    #[test]
    fn whoever_nobody_waits_for_is_marked_at_its_start_and_at_its_end() {
        let mut team = Team::new(SessionId::new("ses_r"));
        let (task, mut tree) = (SessionId::new("ses_a"), [root(), agent("ses_a", "ses_r", "layout", Status::Running, 0)]);
        team.set_background(&task, true);
        let members = team.members(&tree, NOW);
        assert_eq!(team.news(&members), ["  ● explore  layout (background)"]);
        tree[1].status = Status::Completed;
        let members = team.members(&tree, NOW);
        assert_eq!(team.news(&members), ["  ✓ explore  layout (background)  0 calls  0.06 s"]);
        // Its caller goes on with it, and waits.
        (tree[1].status, tree[1].began) = (Status::Running, Timestamp(2_000));
        team.set_background(&task, false);
        let members = team.members(&tree, NOW);
        assert_eq!(team.news(&members), ["  ● explore  layout"]);
    }

    #[test]
    fn who_had_ended_before_is_no_part_of_the_team() {
        let mut team = Team::new(SessionId::new("ses_r"));
        let mut tree =
            [root(), agent("ses_a", "ses_r", "layout", Status::Completed, 5), agent("ses_b", "ses_r", "open", Status::Running, 5)];
        team.rest(&tree);
        let names = |members: Vec<Node>| members.into_iter().map(|node| node.description).collect::<Vec<_>>();
        assert_eq!(names(team.members(&tree, NOW)), ["open"]);
        tree[1].began = Timestamp(2_000);
        assert_eq!(names(team.members(&tree, NOW)), ["layout", "open"]);
    }
}
