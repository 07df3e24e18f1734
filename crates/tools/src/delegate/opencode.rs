//! The words of the `opencode` dialect: `task`, which waits for its result.

use posse_session::TaskEnd;
use serde_json::{Value, json};

use super::{roster::Roster, words};

pub(super) fn description(roster: &Roster) -> String {
    let resume =
        "- Every call starts afresh unless you pass `session_id` from an earlier result: then that agent goes on with what it knows.\n";
    words::description(roster, "task", words::Teaching { when: "", waiting: "", resume })
}

pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "description": {"type": "string", "description": "What the task is about, in 3 to 5 words."},
            "prompt": {"type": "string", "description": "The whole task for the agent: it sees nothing else of this conversation."},
            "subagent_type": {"type": "string", "description": "Which agent does it."},
            "session_id": {"type": "string", "description": "The id of an earlier task of yours, to go on with it: its agent remembers what it did."},
            "command": {"type": "string", "description": "The command that led to this task, if one did."}
        },
        "required": ["description", "prompt", "subagent_type"]
    })
}

/// The last text part, and the id to go on with.
pub(super) fn ended(end: &TaskEnd) -> String {
    let mut blocks = words::report(end, end.texts.last().map_or("", String::as_str));
    blocks.extend(words::left(end, "`posse tasks merge`"));
    blocks.push(format!("<task_metadata>\nsession_id: {0}\ntask_id: {0}\n</task_metadata>", end.task));
    blocks.join("\n\n")
}
