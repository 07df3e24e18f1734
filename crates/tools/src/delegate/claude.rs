//! The words of the `claude` dialect: status words, notices as XML, and hints how to go on.
//!
//! What an agent said stands inside elements, escaped just enough that it can neither close its element nor begin another
//! notice; code in it stays readable.

use posse_session::{Effort, Forks, How, Launch, Outcome, Sent, Status, TaskEnd, TaskView, Usage};
use serde_json::{Value, json};

use super::{
    Switches,
    roster::{GENERAL, Roster},
    words,
};
use crate::text::small;

/// A built-in agent that answers once; a hint how to go on with it would only cost room.
const ONE_SHOT: &str = "explore";

/// Elements that only we may write, wherever they stand.
const OURS: [&str; 3] = ["task-notification", "task-output", "system-reminder"];

/// What the model does while an agent works. Said wherever it could be tempted to wait in vain.
const MEANWHILE: &str = "You do not know its result yet: never guess it.";

pub(super) fn description(roster: &Roster, switches: Switches) -> String {
    let list = roster.list();
    let default = match switches.forks {
        Forks::Implicit => {
            "Name one of them in `subagent_type`; without it, a fork does the work: a worker that knows this whole conversation.".to_owned()
        }
        Forks::Off | Forks::Explicit => default(roster),
    };
    let waiting = if switches.always_in_background() {
        "- No call waits: it returns at once with an agentId and an output file, and a <task-notification> comes when the agent is done. Until then do other work or end your turn. You do not know the result before: never guess it, do not poll, do not do the same work yourself.\n"
    } else if switches.background {
        "- The call waits for the agent: right for short work, and where you need the result to go on.\n\
        - Long work that need not hold you up: `run_in_background: true`. The call returns at once with an agentId and an output file, and a <task-notification> comes when the agent is done. Until then do other work or end your turn. You do not know the result before: never guess it, do not poll, do not do the same work yourself.\n"
    } else {
        "- The call waits for the agent.\n"
    };
    format!(
        "Start an agent that does a piece of work on its own: with its own tools, its own instructions and none of this conversation. What it says last is the result.\n\
        \n\
        Agents and what they are for:\n\
        {list}\
        \n\
        {default}\n\
        \n\
        When to use Agent: the work fits what one of them is for, takes many steps, or would fill this conversation with text that you do not need.\n\
        \n\
        When not to use Agent:\n\
        - You know the path of the file: use `read`.\n\
        - You look for one definition, name or phrase: use `glob` or `grep`.\n\
        - The work is a single simple step: do it yourself.\n\
        \n\
        Notes:\n\
        - `description` is 3 to 5 words that a person recognises the work by.\n\
        - Several independent pieces of work: send several calls in one reply, and the agents work at the same time.\n\
        {waiting}\
        - Put everything the agent needs into `prompt`: the goal, the paths, what is known, what exactly to report back, and whether it may change files or should only look.\n\
        - Every Agent call starts afresh. To go on with an agent, running or ended, use SendMessage with its `name` or its agentId; the id works as long as there is a record of it.\n\
        - The user does not see the result. Say yourself, briefly, what matters in it.\n\
        - An agent can be wrong. Check what you build on.\n"
    )
}

/// Who does the work when nobody is named.
fn default(roster: &Roster) -> String {
    match roster.find(GENERAL).filter(|general| general.standing == super::Standing::Listed) {
        Some(_) => format!("Name one of them in `subagent_type`; without it, `{GENERAL}` does the work."),
        None => "Name one of them in `subagent_type`.".to_owned(),
    }
}

pub(super) fn schema(switches: Switches) -> Value {
    let mut properties = json!({
        "description": {"type": "string", "description": "A short (3-5 word) description of the task."},
        "prompt": {"type": "string", "description": "The task for the agent: it sees nothing else of this conversation."},
        "subagent_type": {"type": "string", "description": "Which agent does it."},
        "model": {"type": "string", "enum": ["sonnet", "opus", "haiku"], "description": "Another model for this call, before the one of the agent's definition. Leave it out unless there is a reason."},
        "name": {"type": "string", "description": "A name for the agent, so that SendMessage({to: name}) reaches it."},
    });
    if switches.worktrees {
        properties["isolation"] = json!({"type": "string", "enum": ["worktree"], "description": "`worktree`: the agent works in a temporary git worktree of its own. Nothing changed: it is removed. Else its path and branch are in the result. Mutually exclusive with `cwd`."});
    }
    if switches.background && !switches.always_in_background() {
        properties["run_in_background"] =
            json!({"type": "boolean", "description": "Run the agent in the background; you are notified when it is done. Default false."});
    }
    json!({"type": "object", "properties": properties, "required": ["description", "prompt"]})
}

/// The result of a call that waited, how to go on with the agent, and what it took.
pub(super) fn ended(end: &TaskEnd) -> String {
    let mut blocks = words::report(end, &words::said(end));
    blocks.extend(words::left(end, "TaskMerge"));
    if end.agent != ONE_SHOT || end.how != How::Completed {
        let id = &end.task;
        blocks.push(format!(
            "agentId: {id} (use SendMessage with to: '{id}' to continue this agent)\n<usage>{}</usage>",
            usage(end.usage, end.effort)
        ));
    }
    blocks.join("\n\n")
}

pub(super) fn launched(launch: &Launch) -> Outcome {
    let (id, output) = (&launch.task, launch.output.display());
    let begun = if launch.detached { "The agent goes on in the background." } else { "The agent works in the background." };
    let words = format!(
        "status: async_launched\n\
        {begun} {MEANWHILE} A <task-notification> comes when it is done: do other work meanwhile or end your turn. \
        To see how far it is, Read the output file (tool `read`). \
        To say more to it, use SendMessage with to: '{id}'; to end it, use TaskStop.\n\
        agentId: {id}\n\
        output_file: {output}"
    );
    let metadata = json!({
        "status": "async_launched",
        "agentId": id,
        "description": launch.description,
        "prompt": launch.prompt,
        "outputFile": output.to_string(),
        "canReadOutputFile": true,
    });
    Outcome::Done { output: words.into(), title: String::new(), metadata: small(metadata, "prompt"), attachments: Vec::new() }
}

pub(super) fn noticed(end: &TaskEnd) -> String {
    format!("<task-notification>\n{}\n</task-notification>", body(end))
}

/// The same for whoever asked: it is no notice, so that none seems to come twice.
pub(super) fn output(end: &TaskEnd) -> String {
    format!("<task-output>\n{}\n</task-output>", body(end))
}

/// A look at a task: its end, or how far it is.
pub(super) fn read(view: &TaskView, waited: bool) -> String {
    if let Some(end) = view.end.as_ref().filter(|_| words::is_over(view.status)) {
        return output(end);
    }
    let doing = Some(words::doing(view)).filter(|doing| !doing.is_empty()).map(|doing| format!(": {doing}")).unwrap_or_default();
    let standing = if words::is_over(view.status) { status(view.status).to_owned() } else { format!("is {}", words::status(view.status)) };
    let elements = [
        element("task-id", view.task.as_str()),
        element("output-file", &view.output.display().to_string()),
        element("status", status(view.status)),
        element("summary", &format!("Agent \"{}\" {standing}{doing}", view.description)),
        element("output", &format!("\n{}\n", words::so_far(view))),
        element("usage", &usage(view.usage, view.effort)),
    ];
    let mut text = format!("<task-output>\n{}\n</task-output>", elements.join("\n"));
    if waited && !words::is_over(view.status) {
        text.push_str(&format!(
            "\n\nIt is still running. {MEANWHILE} A <task-notification> comes when it is done: do other work meanwhile or end your turn; do not poll."
        ));
    }
    text
}

pub(super) fn sent(sent: &Sent) -> String {
    let (who, id) = (sent.name.as_deref().unwrap_or(sent.task.as_str()), &sent.task);
    if sent.resumed {
        let then = if sent.own {
            format!("{MEANWHILE} A <task-notification> comes when it is done.")
        } else {
            "Whoever started it is told when it is done, not you: read its output_file for what it does.".to_owned()
        };
        return format!(
            "Agent \"{who}\" was not running: it was resumed in the background with your message. {then}\n\
            agentId: {id}\n\
            output_file: {}",
            sent.output.display()
        );
    }
    format!(
        "The message is queued for agent \"{who}\", which reads it at its next tool round; the tool it is running is not interrupted.\nagentId: {id}"
    )
}

pub(super) fn stopped(view: &TaskView) -> String {
    let who = view.name.as_deref().unwrap_or(view.task.as_str());
    let how = if words::is_over(view.status) { "is stopped" } else { "is being stopped" };
    format!(
        "Agent \"{who}\" ({}) {how}, with everything below it. A <task-notification> says to whoever started it what it had done; SendMessage can resume it.\ntask_id: {}",
        view.description, view.task
    )
}

fn body(end: &TaskEnd) -> String {
    let (status, standing) = match end.how {
        How::Completed | How::Limit => ("completed", "completed".to_owned()),
        How::Failed if end.error.is_empty() => ("failed", "failed".to_owned()),
        How::Failed => ("failed", format!("failed: {}", end.error)),
        How::Stopped => ("killed", "was stopped".to_owned()),
    };
    let mut report = words::report(end, &words::said(end));
    report.extend(words::of_user(end));
    report.extend(words::left(end, "TaskMerge"));
    [
        element("task-id", end.task.as_str()),
        element("tool-use-id", &end.wire_id),
        element("output-file", &end.output.display().to_string()),
        element("status", status),
        element("summary", &format!("Agent \"{}\" {standing}", end.description)),
        element("result", &report.join("\n\n")),
        element("usage", &usage(end.usage, end.effort)),
    ]
    .join("\n")
}

fn usage(usage: Usage, effort: Effort) -> String {
    format!("total_tokens: {}\ntool_uses: {}\nduration_ms: {}", usage.tokens(), effort.calls, effort.millis)
}

fn status(status: Status) -> &'static str {
    match status {
        Status::Queued | Status::Running | Status::Waiting => "running",
        Status::Completed | Status::Limit => "completed",
        Status::Failed => "failed",
        Status::Stopped => "killed",
    }
}

fn element(name: &str, text: &str) -> String {
    format!("<{name}>{}</{name}>", tame(name, text))
}

/// A text that cannot close the element it stands in, and cannot begin or close one of ours.
fn tame(element: &str, text: &str) -> String {
    let mut tame = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        tame.push_str(before);
        let inside = tag[1..].trim_start();
        let closed = inside.strip_prefix('/').map(str::trim_start);
        let named = closed.unwrap_or(inside);
        let is_ours = OURS.iter().any(|name| is_tag(named, name)) || (closed.is_some() && is_tag(named, element));
        tame.push_str(if is_ours { "&lt;" } else { "<" });
        rest = &tag[1..];
    }
    tame.push_str(rest);
    tame
}

fn is_tag(text: &str, name: &str) -> bool {
    let begins = text.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name));
    begins && !text[name.len()..].starts_with(|letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_'))
}
