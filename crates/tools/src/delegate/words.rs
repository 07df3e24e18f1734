//! What all dialects say of tasks: what one came to, what it took, how it stands; and which dialect's words it goes in.

use posse_session::{By, Effort, Forks, How, Status, TaskEnd, TaskView, clip};

use super::{Dialect, claude, opencode, posse, roster::Roster};
use crate::text::{cap, gap};

/// What a look at a running task shows of its text; its output file has all of it.
const TEXT_BYTES_MAX: usize = 16 * 1024;

/// What a list says of a task's last action or of what it waits for.
const DOING_BYTES_MAX: usize = 160;

/// What is taught where the model has no choice but to be told later.
pub(super) const NO_CALL_WAITS: &str = "- No call waits: it returns at once, and a notice with the result comes by itself. Until then do other work or end your turn; do not poll, do not do the same work yourself, and do not guess the result.\n";

/// What `subagent_type` means where it may be left out.
pub(super) const NOBODY_NAMED: &str =
    "Which agent does it. Left out, the work is done by a fork: a worker that knows this whole conversation.";

/// The notice of a task's end.
pub(super) fn noticed(dialect: Dialect, end: &TaskEnd) -> String {
    match dialect {
        Dialect::Posse => posse::noticed(end),
        Dialect::OpenCode => opencode::noticed(end),
        Dialect::Claude => claude::noticed(end),
    }
}

/// A look at a task; `waited`: it was hoped to be over by now.
pub(super) fn read(dialect: Dialect, view: &TaskView, waited: bool) -> String {
    match dialect {
        Dialect::Posse | Dialect::OpenCode => posse::read(view, waited),
        Dialect::Claude => claude::read(view, waited),
    }
}

/// What a task came to, in blocks. Never an empty success; an honest part where it did not end by itself.
pub(super) fn report(end: &TaskEnd, said: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    if succeeded(end.how) {
        blocks.push(if said.trim().is_empty() { "(The agent ended without a word.)".to_owned() } else { said.to_owned() });
        if !end.error.is_empty() {
            blocks.push(format!("limit: {}", end.error));
        }
    } else {
        let how = if end.how == How::Stopped { "was stopped" } else { "failed" };
        let why = if end.error.is_empty() { ".".to_owned() } else { format!(": {}", end.error) };
        blocks.push(format!("The task {how} before it was done{why}"));
        if !said.trim().is_empty() {
            blocks.push(format!("The last it had said:\n{said}"));
        }
    }
    if !end.note.is_empty() {
        blocks.push(end.note.clone());
    }
    blocks
}

/// The whole final message.
pub(super) fn said(end: &TaskEnd) -> String {
    end.texts.join("\n\n")
}

/// What to do about a task that the user stopped: nothing, until the user wants it.
pub(super) fn of_user(end: &TaskEnd) -> Option<String> {
    let by_user = end.how == How::Stopped && end.by == Some(By::User);
    by_user.then(|| "The user stopped it. Do not start its work again unless the user asks for it.".to_owned())
}

/// What is in the worktree of a task, and how it comes home.
pub(super) fn left(end: &TaskEnd, merge: &str) -> Option<String> {
    let left = end.left.as_ref()?;
    let count = |number: u64, one: &str| format!("{number} {one}{}", if number == 1 { "" } else { "s" });
    // A command of the user's makes no branch.
    let branch = if left.branch.is_empty() { String::new() } else { format!("branch: {}\n", left.branch) };
    Some(match (left.clean, left.unknown.is_empty()) {
        (true, _) => "worktree: it changed nothing, so its folder is removed.".to_owned(),
        (false, true) => format!(
            "worktree: {}\nbranch: {}\n{} changed, {}. It is kept: {merge} with this id brings it home; until then nothing of it is in your folder.",
            left.path,
            left.branch,
            count(left.files, "file"),
            count(left.commits, "commit")
        ),
        (false, false) if (left.files, left.commits) == (0, 0) => {
            format!("worktree: {}\n{branch}{}. It is kept; look at it before you rely on it.", left.path, left.unknown)
        }
        (false, false) => format!(
            "worktree: {}\n{branch}{} changed, {}. It is kept: {merge} with this id brings it home; until then nothing of it is in your folder. Besides: {}.",
            left.path,
            count(left.files, "file"),
            count(left.commits, "commit"),
            left.unknown
        ),
    })
}

/// Whether an end is one the caller can build on.
pub(super) fn succeeded(how: How) -> bool {
    matches!(how, How::Completed | How::Limit)
}

/// Whether a task's round is over, so that its end is the news.
pub(super) fn is_over(status: Status) -> bool {
    matches!(status, Status::Completed | Status::Failed | Status::Stopped | Status::Limit)
}

pub(super) fn status(status: Status) -> &'static str {
    match status {
        // As in its notice: there is a result to build on.
        Status::Limit => "completed at a limit",
        other => other.word(),
    }
}

/// What a task waits for or did last, in a few words of one line; empty when that is not known.
pub(super) fn doing(view: &TaskView) -> String {
    let one_line = |text: &str| clip(text.split_whitespace().collect::<Vec<_>>().join(" "), DOING_BYTES_MAX);
    match view.waits.as_deref().map(str::trim).filter(|waits| !waits.is_empty()) {
        Some(waits) => format!("waits for {}", one_line(waits)),
        None => one_line(&view.last_action),
    }
}

/// What a running task has said and done, within bounds.
pub(super) fn so_far(view: &TaskView) -> String {
    let text = view.text.trim_matches('\n');
    if text.trim().is_empty() {
        return "(nothing new)".to_owned();
    }
    cap(text, TEXT_BYTES_MAX, |omitted| gap(omitted as u64, &view.output)).text
}

pub(super) fn effort(tokens: u64, effort: Effort) -> String {
    let count = |number: u64, one: &str| format!("{number} {one}{}", if number == 1 { "" } else { "s" });
    format!("{}, {}, {}", count(tokens, "token"), count(effort.calls, "tool call"), time(effort.millis))
}

fn time(millis: u64) -> String {
    match (millis / 1000, millis % 1000 / 100) {
        (seconds @ 0..10, tenths) => format!("{seconds}.{tenths} s"),
        (seconds @ 10..60, _) => format!("{seconds} s"),
        (seconds, _) => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

/// What a dialect teaches besides what all of them do.
pub(super) struct Teaching<'a> {
    pub(super) when: &'a str,
    pub(super) forks: Forks,
    pub(super) waiting: &'a str,
    pub(super) resume: &'a str,
}

/// When to give work to another agent, who there is, and how. In every request, so in few words.
pub(super) fn description(roster: &Roster, tool: &str, teaching: Teaching) -> String {
    let (list, Teaching { when, forks, waiting, resume }) = (roster.list(), teaching);
    let default = match forks {
        Forks::Implicit => "without it, a fork does the work: a worker that knows this whole conversation.",
        Forks::Off | Forks::Explicit => "there is no default.",
    };
    format!(
        "Give a piece of work to another agent. It works on its own, with its own tools and its own memory of the conversation, and comes back with one answer.\n\
        \n\
        Agents you can give work to:\n\
        {list}\
        \n\
        Name one of them in `subagent_type`; {default}\n\
        \n\
        {when}\
        When NOT to use `{tool}`:\n\
        - You know the path of the file: use `read`.\n\
        - You look for one definition, name or phrase: use `glob` or `grep`.\n\
        - The work is a single simple step: do it yourself.\n\
        \n\
        Notes:\n\
        - `description` is 3 to 5 words that a person recognises the task by.\n\
        - Several independent pieces of work: send several calls in one reply, and the agents work at the same time.\n\
        {waiting}\
        - An agent knows nothing of this conversation. Put everything it needs into `prompt`: the goal, the paths, what is known, what exactly to report back, and whether it may change files or should only look.\n\
        {resume}\
        - The user does not see the agent's answer. Say yourself, briefly, what matters in it.\n\
        - An agent can be wrong. Check what you build on.\n"
    )
}

/// Whether an id is a background shell's.
pub(super) fn is_shell(task: &str) -> bool {
    task.strip_prefix("bash_").is_some_and(|number| number.parse::<u32>().is_ok())
}
