//! The words of the `posse` dialect: plain, short, with the id to go on with at the end.

use posse_session::{Forks, Launch, Outcome, Sent, TaskEnd, TaskView};
use serde_json::{Value, json};

use super::{Switches, roster::Roster, words};

/// What the model does while a task works. Said wherever it could be tempted to wait in vain.
const MEANWHILE: &str =
    "A notice with its result comes to you by itself: do other work meanwhile or end your turn; do not poll, and do not guess the result.";

/// What the model is told of folders of their own.
const ISOLATION: &str = "`worktree`: the agent works in a git worktree of its own, made from your last commit (`worktree+changes`: with what is not committed yet), so that agents that change files at the same time do not step on each other. The result names the folder and the branch if anything was changed; `task_merge` brings it home. `none`: in your folder, whatever its definition says.";

pub(super) fn description(roster: &Roster, switches: Switches) -> String {
    let waiting = if switches.always_in_background() {
        words::NO_CALL_WAITS
    } else if switches.background {
        "- The call waits for the answer: right when you need it to go on.\n\
        - Long work that need not hold you up: `run_in_background: true`. The call returns at once, and a notice with the result comes by itself. Until then do other work or end your turn; do not poll, do not do the same work yourself, and do not guess the result.\n"
    } else {
        ""
    };
    let when = "When to use `agent`: the work fits what one of them is for, takes many steps, or would fill this conversation with text that you do not need.\n\n";
    let resume = "- Every call starts afresh unless you pass `task_id` from an earlier result: then that agent goes on with what it knows. `send_message` says more to a task that still works.\n";
    words::description(roster, "agent", words::Teaching { when, forks: switches.forks, waiting, resume })
}

pub(super) fn schema(switches: Switches) -> Value {
    let mut properties = json!({
        "description": {"type": "string", "description": "What the task is about, in 3 to 5 words."},
        "prompt": {"type": "string", "description": "The whole task for the agent: it sees nothing else of this conversation."},
        "subagent_type": {"type": "string", "description": "Which agent does it."},
        "task_id": {"type": "string", "description": "The id of an earlier task of yours, to go on with it: its agent remembers what it did."},
        "name": {"type": "string", "description": "A short name for the task, to use in place of its id later."},
        "model": {"type": "string", "description": "Another model for this task: `small`, `default`, `strong` or a configured one. Leave it out unless there is a reason."},
    });
    if switches.background && !switches.always_in_background() {
        properties["run_in_background"] =
            json!({"type": "boolean", "description": "Do not wait for the answer: it comes later as a notice. Default false."});
    }
    if switches.worktrees {
        properties["isolation"] = json!({"type": "string", "enum": ["worktree", "worktree+changes", "none"], "description": ISOLATION});
    }
    if switches.forks == Forks::Implicit {
        properties["subagent_type"]["description"] = json!(words::NOBODY_NAMED);
        return json!({"type": "object", "properties": properties, "required": ["description", "prompt"]});
    }
    json!({"type": "object", "properties": properties, "required": ["description", "prompt", "subagent_type"]})
}

/// The final message, a blank line, `task_id: …`.
pub(super) fn ended(end: &TaskEnd) -> String {
    let mut blocks = words::report(end, &words::said(end));
    blocks.extend(words::left(end, "task_merge"));
    blocks.push(format!("task_id: {}", end.task));
    blocks.join("\n\n")
}

pub(super) fn launched(launch: &Launch) -> Outcome {
    Outcome::done(begun(launch))
}

/// What a call says that does not wait.
pub(super) fn begun(launch: &Launch) -> String {
    let begun = if launch.detached { "The task goes on in the background." } else { "The task runs in the background." };
    format!("{begun} {MEANWHILE}\noutput: {}\ntask_id: {}", launch.output.display(), launch.task)
}

pub(super) fn noticed(end: &TaskEnd) -> String {
    notice(end, "task_merge")
}

/// `[task NAME completed] DESCRIPTION`, the result, what it took, where to read more. `merge`: what brings its work home.
pub(super) fn notice(end: &TaskEnd, merge: &str) -> String {
    let mut blocks = vec![head(end.name.as_deref(), end.task.as_str(), end.how.word(), &end.description)];
    // Notices that wait together are delivered together: no agent's words may look like the next one.
    blocks.extend(words::report(end, &words::said(end)).iter().map(|block| quoted(block)));
    blocks.extend(words::of_user(end));
    blocks.extend(words::left(end, merge));
    let took = words::effort(end.usage.tokens(), end.effort);
    blocks.push(format!("{took}\noutput: {}\ntask_id: {}", end.output.display(), end.task));
    blocks.join("\n\n")
}

/// A look at a task: its end as in the notice, or how far it is.
pub(super) fn read(view: &TaskView, waited: bool) -> String {
    if let Some(end) = view.end.as_ref().filter(|_| words::is_over(view.status)) {
        return format!("{}\nnext: {}", noticed(end), view.next);
    }
    let status = words::status(view.status);
    let mut top = vec![head(view.name.as_deref(), view.task.as_str(), status, &view.description)];
    top.extend(Some(words::doing(view)).filter(|doing| !doing.is_empty()).map(|doing| format!("now: {doing}")));
    let mut blocks = vec![top.join("\n"), quoted(&words::so_far(view))];
    if waited && !words::is_over(view.status) {
        blocks.push(format!("It is still running. {MEANWHILE}"));
    }
    let took = words::effort(view.usage.tokens(), view.effort);
    blocks.push(format!("{took}\noutput: {}\ntask_id: {}\nnext: {}", view.output.display(), view.task, view.next));
    blocks.join("\n\n")
}

pub(super) fn sent(sent: &Sent) -> String {
    let who = who(sent.name.as_deref(), sent.task.as_str());
    if sent.resumed {
        let then =
            if sent.own { MEANWHILE } else { "Whoever started it hears when it is done, not you: read its output file for what it does." };
        return format!(
            "{who} ({}) had ended and works again, with your message. {then}\noutput: {}\ntask_id: {}",
            sent.agent,
            sent.output.display(),
            sent.task
        );
    }
    format!("{who} ({}) reads your message before its next step; what it is doing is not interrupted.\ntask_id: {}", sent.agent, sent.task)
}

pub(super) fn stopped(view: &TaskView) -> String {
    let who = who(view.name.as_deref(), view.task.as_str());
    let how = if words::is_over(view.status) { "is stopped" } else { "is being stopped" };
    format!(
        "{who} {how}, with everything below it. A notice says to whoever started it what it had done; send_message can wake it again.\ntask_id: {}",
        view.task
    )
}

fn head(name: Option<&str>, task: &str, status: &str, description: &str) -> String {
    format!("[task {} {status}] {description}", name.unwrap_or(task))
}

fn who(name: Option<&str>, task: &str) -> String {
    format!("The task {}", name.unwrap_or(task))
}

/// A text without lines that look like the head of a notice, or like words of ours.
fn quoted(text: &str) -> String {
    let is_head = |line: &str| ["[task ", "<system-reminder"].iter().any(|head| line.trim_start().starts_with(head));
    if !text.lines().any(is_head) {
        return text.to_owned();
    }
    text.lines().map(|line| if is_head(line) { format!("> {line}") } else { line.to_owned() }).collect::<Vec<_>>().join("\n")
}
