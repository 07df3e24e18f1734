//! The words of the `opencode` dialect: `task`, which waits for its result.

use posse_session::TaskEnd;
use serde_json::{Value, json};

use super::{roster::Roster, words};

pub(super) fn description(roster: &Roster) -> String {
    let list = roster.list();
    format!(
        "Give a piece of work to another agent. It works on its own, with its own tools and its own memory of the conversation, and comes back with one answer.\n\
        \n\
        Agents you can give work to:\n\
        {list}\
        \n\
        Name one of them in `subagent_type`; there is no default.\n\
        \n\
        When NOT to use `task`:\n\
        - You know the path of the file: use `read`.\n\
        - You look for one definition, name or phrase: use `glob` or `grep`.\n\
        - The work is a single simple step: do it yourself.\n\
        \n\
        Notes:\n\
        - `description` is 3 to 5 words that a person recognises the task by.\n\
        - Several independent pieces of work: send several calls in one reply, and the agents work at the same time.\n\
        - An agent knows nothing of this conversation. Put everything it needs into `prompt`: the goal, the paths, what is known, what exactly to report back, and whether it may change files or should only look.\n\
        - Every call starts afresh unless you pass `session_id` from an earlier result: then that agent goes on with what it knows.\n\
        - The user does not see the agent's answer. Say yourself, briefly, what matters in it.\n\
        - An agent can be wrong. Check what you build on.\n"
    )
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
    blocks.push(format!("<task_metadata>\nsession_id: {0}\ntask_id: {0}\n</task_metadata>", end.task));
    blocks.join("\n\n")
}
