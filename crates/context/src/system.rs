//! The system prompt: the agent's own words, the environment, the instruction files with their origin.

use std::fmt::Write as _;

/// Where the agent works.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Environment {
    pub model: String,
    pub cwd: String,
    pub project: String,
    pub git: bool,
    pub platform: String,
    pub date: String,
}

/// A file of the user's that every request carries.
#[derive(Debug, Clone, PartialEq)]
pub struct Instruction {
    pub path: String,
    pub text: String,
}

/// How a reminder of changes begins.
const CHANGED: &str = "Since this conversation began, some of your context has changed. It now reads:";

/// Whether a reminder is one of changes.
pub fn is_change(reminder: &str) -> bool {
    reminder.starts_with(CHANGED)
}

/// The blocks of the system prompt, most constant first.
pub fn system(agent_prompt: &str, environment: &Environment, instructions: &[Instruction]) -> Vec<String> {
    let mut blocks = vec![agent_prompt.trim().to_owned(), environment_block(environment)];
    blocks.extend(instructions.iter().map(|file| format!("Instructions from {}:\n{}", file.path, file.text.trim())));
    blocks.retain(|block| !block.is_empty());
    blocks
}

/// What is no longer as the recorded system prompt says, as words for a reminder: the prompt itself stays as it was sent,
/// so that the provider's cache holds.
pub fn changes(recorded: &[String], now: &[String]) -> Option<String> {
    let new: Vec<&str> = now.iter().skip(1).filter(|block| !recorded.contains(block)).map(String::as_str).collect();
    if new.is_empty() { None } else { Some(format!("{CHANGED}\n\n{}", new.join("\n\n"))) }
}

fn environment_block(environment: &Environment) -> String {
    let mut block = String::from("<env>\n");
    let mut line = |name: &str, value: &str| {
        if !value.is_empty() {
            let _ = writeln!(block, "{name}: {value}");
        }
    };
    line("Model", &environment.model);
    line("Working directory", &environment.cwd);
    line("Project root", &environment.project);
    line("Git repository", if environment.git { "yes" } else { "no" });
    line("Platform", &environment.platform);
    line("Date", &environment.date);
    block.push_str("</env>");
    block
}
