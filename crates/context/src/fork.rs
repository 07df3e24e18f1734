//! What a fork is told: it sees everything its caller saw, and then these words. Only they differ between siblings.

use posse_session::{Block, Message, Role};

/// Stands in every fork's directive. Whoever sees it in its conversation is a fork, and does not fork again.
pub const FORK_MARK: &str = "<fork-boilerplate>";

const RULES: &str = "You are a fork: a worker that was split off from the conversation above. You know all of it, and from here on you work alone.
- Do the one task below yourself, with the tools you have. Do not fork again, and do not wait for the others that were split off with you.
- The calls above that have no result belong to whoever you were split off from: do not repeat them.
- Ask nobody what to do next. When the task is done, answer once: what you did, what you found, the files you changed. That answer is all that goes back.
- Stay within the task. What else you notice, mention in the answer in one line.";

/// The last message of a fork: the rules, then the work.
pub fn fork_directive(prompt: &str) -> String {
    format!("{FORK_MARK}\n{RULES}\n</fork-boilerplate>\n\nYour task:\n{prompt}")
}

/// Said to a fork whose caller owes the user an answer of a certain shape: the caller's instructions, which it has read, ask for it.
pub const FORK_ANSWERS_IN_WORDS: &str =
    "Answer in words. The JSON schema in the instructions is for the final answer to the user, which is not yours to give.";

/// Said to whoever works in a worktree with a conversation that speaks of another folder.
pub fn moved_notice(home: &str, here: &str) -> String {
    format!(
        "You work in a git worktree of your own: {here}. The conversation above is about {home}, which is another copy of the same files. \
        Translate every path: what was in {home} is at the same place in {here}. Read a file again before you change it: yours may differ from what you saw. \
        Your changes stay in your copy until somebody brings them home."
    )
}

/// Whether a message is a fork's directive, and not only about one.
pub fn is_directive(message: &Message) -> bool {
    let marked = |block: &Block| matches!(block, Block::Text { text } if text.starts_with(FORK_MARK));
    message.role == Role::User && message.blocks.iter().any(marked)
}
