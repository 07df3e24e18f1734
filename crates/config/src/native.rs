//! The agents that come with us: who they are, what they are told, and the rules that are their own.
//!
//! Their words are the files in `prompts/`; the list of commands that only look is `mode.rs`. A user may override or
//! disable every one of them, see `agents.rs`.

use posse_session::{Agent, AgentMode, AgentTools, Rule, Verdict};

use crate::mode::{self, PermissionMode};

/// Who answers when nobody says who.
pub(crate) const DEFAULT: &str = "build";

/// In the order in which a default is looked for.
pub(crate) fn agents() -> Vec<Agent> {
    vec![
        Agent {
            description: Some("Reads, changes and runs code. Starts when nobody else is named".into()),
            default: true,
            ..native(DEFAULT, AgentMode::Primary, include_str!("prompts/build.md"))
        },
        Agent {
            description: Some("Looks, thinks and writes a plan. Changes nothing".into()),
            own_rules: mode::plan_rules("agent plan"),
            ..native("plan", AgentMode::Primary, include_str!("prompts/plan.md"))
        },
        Agent {
            description: Some(
                "Works on a task of many steps on its own and reports the result: research over several places, or a change that \
                 needs searching, editing and checking"
                    .into(),
            ),
            aliases: vec!["general-purpose".into()],
            hidden: true,
            ..without(&["todowrite", "todoread"], native("general", AgentMode::Subagent, include_str!("prompts/general.md")))
        },
        Agent {
            description: Some(
                "Finds its way through a codebase without changing it: files by name, code by content, how something works. Say how \
                 thorough it should be: quick, medium or very thorough"
                    .into(),
            ),
            own_rules: explore_rules(),
            ..without(
                &["edit", "write", "todowrite", "todoread"],
                native("explore", AgentMode::Subagent, include_str!("prompts/explore.md")),
            )
        },
        internal("compaction", include_str!("prompts/compaction.md")),
        Agent { temperature: Some(0.5), ..internal("title", include_str!("prompts/title.md")) },
        internal("summary", include_str!("prompts/summary.md")),
    ]
}

/// Whether what would be asked about its shell is denied: nobody should be asked for a reader, and in a mode that says
/// yes to everything an ask would protect nothing.
pub(crate) fn denies_shell_asks(agent: &Agent, mode: PermissionMode) -> bool {
    agent.native && (agent.name == "explore" || agent.name == "plan" && mode == PermissionMode::Bypass)
}

fn native(name: &str, mode: AgentMode, prompt: &str) -> Agent {
    let (name, prompt) = (name.to_owned(), Some(prompt.trim_end().to_owned()));
    Agent { name, mode, prompt, native: true, trusted: true, origin: crate::built_in::NAME.into(), ..Agent::default() }
}

/// Never offered to a model, started by us.
fn internal(name: &str, prompt: &str) -> Agent {
    let agent = Agent { hidden: true, ..native(name, AgentMode::Primary, prompt) };
    without(&["*"], agent)
}

/// With these tools off, and denied too.
fn without(tools: &[&str], agent: Agent) -> Agent {
    let origin = format!("agent {}", agent.name);
    let mut own_rules = agent.own_rules;
    for tool in tools {
        let key = posse_session::key_of(tool);
        if !own_rules.iter().any(|rule| rule.key == key) {
            own_rules.push(rule(key, "*", Verdict::Deny, &origin));
        }
    }
    Agent { tools: AgentTools::Map(tools.iter().map(|tool| ((*tool).to_owned(), false)).collect()), own_rules, ..agent }
}

/// Plan's commands, and nothing else of the shell.
fn explore_rules() -> Vec<Rule> {
    let origin = "agent explore";
    let off = ["edit", "todowrite", "todoread"].map(|key| rule(key, "*", Verdict::Deny, origin));
    off.into_iter().chain(mode::looking_shell(Verdict::Deny, origin)).collect()
}

fn rule(key: &str, pattern: &str, action: Verdict, origin: &str) -> Rule {
    Rule { key: key.to_owned(), pattern: pattern.to_owned(), action, origin: origin.to_owned() }
}
