//! The words of the `opencode` dialect: `task`, which waits for its result unless whoever is not named is a fork.

use posse_session::{Forks, Launch, Outcome, TaskEnd};
use serde_json::{Value, json};

use super::{Switches, posse, roster::Roster, words};

/// This dialect has no tool that brings work home, so a person does.
const MERGE: &str = "`posse tasks merge`";

pub(super) fn description(roster: &Roster, switches: Switches) -> String {
    let resume =
        "- Every call starts afresh unless you pass `session_id` from an earlier result: then that agent goes on with what it knows.\n";
    let waiting = if switches.always_in_background() { words::NO_CALL_WAITS } else { "" };
    words::description(roster, "task", words::Teaching { when: "", forks: switches.forks, waiting, resume })
}

pub(super) fn schema(switches: Switches) -> Value {
    let mut schema = json!({
        "type": "object",
        "properties": {
            "description": {"type": "string", "description": "What the task is about, in 3 to 5 words."},
            "prompt": {"type": "string", "description": "The whole task for the agent: it sees nothing else of this conversation."},
            "subagent_type": {"type": "string", "description": "Which agent does it."},
            "session_id": {"type": "string", "description": "The id of an earlier task of yours, to go on with it: its agent remembers what it did."},
            "command": {"type": "string", "description": "The command that led to this task, if one did."}
        },
        "required": ["description", "prompt", "subagent_type"]
    });
    if switches.forks == Forks::Implicit {
        schema["properties"]["subagent_type"]["description"] = json!(words::NOBODY_NAMED);
        schema["required"] = json!(["description", "prompt"]);
    }
    schema
}

/// The last text part, and the id to go on with.
pub(super) fn ended(end: &TaskEnd) -> String {
    let mut blocks = words::report(end, end.texts.last().map_or("", String::as_str));
    blocks.extend(words::left(end, MERGE));
    blocks.push(format!("<task_metadata>\nsession_id: {0}\ntask_id: {0}\n</task_metadata>", end.task));
    blocks.join("\n\n")
}

/// A task that nobody waits for, and the id to go on with by the name that the schema has for it.
pub(super) fn launched(launch: &Launch) -> Outcome {
    Outcome::done(format!("{}\nsession_id: {}", posse::begun(launch), launch.task))
}

pub(super) fn noticed(end: &TaskEnd) -> String {
    format!("{}\nsession_id: {}", posse::notice(end, MERGE), end.task)
}
