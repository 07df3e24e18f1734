//! What a model reads about delegation: when to do it, who there is, what came of it. Byte-stable for the same agents.

use posse_session::TaskEnd;

use super::{Callable, Dialect, succeeded};

/// A wrong name is answered with so many near ones.
const NEAR_MAX: usize = 3;

/// The list is in every request, so it may cost a few thousand tokens and no more.
const LIST_BYTES_MAX: usize = 16 * 1024;

/// Letters of a description in the list; shorter ones are tried until all agents fit.
const DESCRIPTION_CHARS: [usize; 5] = [600, 300, 160, 80, 0];

/// A wrong name is not answered with hundreds.
const NAMED_MAX: usize = 30;

pub(super) fn description<'a>(dialect: Dialect, agents: impl Iterator<Item = &'a Callable>) -> String {
    let (tool, resume) = match dialect {
        Dialect::Posse => ("agent", "task_id"),
        Dialect::OpenCode => ("task", "session_id"),
    };
    let list = list(&agents.collect::<Vec<_>>());
    format!(
        "Give a piece of work to another agent. It works on its own, with its own tools and its own memory of the conversation, and comes back with one answer.\n\
        \n\
        Agents you can give work to:\n\
        {list}\
        \n\
        Name one of them in `subagent_type`; there is no default.\n\
        \n\
        When NOT to use `{tool}`:\n\
        - You know the path of the file: use `read`.\n\
        - You look for one definition, name or phrase: use `glob` or `grep`.\n\
        - The work is a single simple step: do it yourself.\n\
        \n\
        Notes:\n\
        - `description` is 3 to 5 words that a person recognises the task by.\n\
        - Several independent pieces of work: send several calls in one reply, and the agents work at the same time.\n\
        - An agent knows nothing of this conversation. Put everything it needs into `prompt`: the goal, the paths, what is known, what exactly to report back, and whether it may change files or should only look.\n\
        - Every call starts afresh unless you pass `{resume}` from an earlier result: then that agent goes on with what it knows.\n\
        - The user does not see the agent's answer. Say yourself, briefly, what matters in it.\n\
        - An agent can be wrong. Check what you build on.\n"
    )
}

/// A line for each agent, within bounds: descriptions are shortened before anybody is left out.
fn list(agents: &[&Callable]) -> String {
    for most in DESCRIPTION_CHARS {
        let text: String = agents.iter().map(|agent| line(agent, most)).collect();
        if text.len() <= LIST_BYTES_MAX {
            return text;
        }
    }
    let mut text = String::new();
    let mut left_out = 0;
    for agent in agents {
        let line = line(agent, 0);
        if text.len() + line.len() <= LIST_BYTES_MAX { text.push_str(&line) } else { left_out += 1 }
    }
    format!("{text}({left_out} more are not listed here; each can be called by its name)\n")
}

fn line(agent: &Callable, most: usize) -> String {
    if most == 0 {
        return format!("- {}\n", agent.name);
    }
    let described = agent.description.as_deref().map(str::trim).filter(|text| !text.is_empty()).unwrap_or("Manual only");
    let one_line = described.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut cut: String = one_line.chars().take(most).collect();
    if cut.len() < one_line.len() {
        cut = format!("{}…", cut.trim_end());
    }
    format!("- {}: {cut}\n", agent.name)
}

pub(super) fn unknown<'a>(name: &str, agents: impl Iterator<Item = &'a Callable>) -> String {
    let names: Vec<&str> = agents.map(|agent| agent.name.as_str()).collect();
    let lower = name.to_lowercase();
    let is_near = |known: &&&str| {
        let known = known.to_lowercase();
        known.contains(&lower) || lower.contains(&known) || common_start(&known, &lower) >= 3
    };
    let near: Vec<String> = names.iter().filter(is_near).take(NEAR_MAX).map(|near| format!("`{near}`")).collect();
    let hint = if near.is_empty() { String::new() } else { format!(" Did you mean {}?", near.join(" or ")) };
    format!("There is no agent named `{name}`.{hint} {}", available(&names))
}

pub(super) fn primary<'a>(name: &str, agents: impl Iterator<Item = &'a Callable>) -> String {
    let names: Vec<&str> = agents.map(|agent| agent.name.as_str()).collect();
    format!("`{name}` is a primary agent: only a person can start it. {}", available(&names))
}

fn available(names: &[&str]) -> String {
    let shown = names.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED_MAX) {
        _ if names.is_empty() => "No agent can be called here.".into(),
        0 => format!("Agents you can call: {shown}."),
        more => format!("Agents you can call: {shown}, and {more} more."),
    }
}

fn common_start(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count()
}

/// The result of a task. Never an empty success, never without the id to go on with.
pub(super) fn ended(dialect: Dialect, end: &TaskEnd) -> String {
    let said = match dialect {
        Dialect::Posse => end.texts.join("\n\n"),
        Dialect::OpenCode => end.texts.last().cloned().unwrap_or_default(),
    };
    let mut blocks = Vec::new();
    if succeeded(end.how) {
        blocks.push(if said.trim().is_empty() { "(The agent ended without a word.)".to_owned() } else { said });
        if !end.error.is_empty() {
            blocks.push(format!("limit: {}", end.error));
        }
    } else {
        let how = if end.how == posse_session::How::Stopped { "was stopped" } else { "failed" };
        let why = if end.error.is_empty() { ".".to_owned() } else { format!(": {}", end.error) };
        blocks.push(format!("The task {how} before it was done{why}"));
        if !said.trim().is_empty() {
            blocks.push(format!("The last it had said:\n{said}"));
        }
    }
    if !end.note.is_empty() {
        blocks.push(end.note.clone());
    }
    blocks.push(match dialect {
        Dialect::Posse => format!("task_id: {}", end.task),
        Dialect::OpenCode => format!("<task_metadata>\nsession_id: {0}\ntask_id: {0}\n</task_metadata>", end.task),
    });
    blocks.join("\n\n")
}
