//! Leading: a question about the repository goes to four explorers at once, and what they quote is put together.
//!
//! Looks at no file itself. The answer holds only lines that an explorer sent back, each with its place, and says which
//! of them failed; when all failed, the question is answered alone. What an explorer does is in `scout`.

use posse_session::ToolSpec;
use serde_json::json;

use super::{
    found::{self, Hit},
    intent::{Find, Intent, Scope, Want},
    plan::{self, Call, Desk, Heard},
    survey::{Field, Survey},
    terms::Term,
    turn::{Made, Told, cut},
};

/// The delegation tool of each dialect.
pub(super) const TOOLS: [&str; 3] = ["agent", "task", "Agent"];

const EXPLORER: &str = "explore";

/// The words of one failure, on one line.
const FAILURE_BYTES_MAX: usize = 200;

/// Lines of one explorer that are kept; it sends fewer.
const FACTS_MAX: usize = 80;

/// Who can be sent, and by which tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Team {
    tool: &'static str,
    /// The names that the tool lists, as it writes them.
    agents: Vec<String>,
}

impl Team {
    pub(super) fn offered(tools: &[ToolSpec]) -> Option<Self> {
        let (tool, spec) = TOOLS.iter().find_map(|name| Some((*name, tools.iter().find(|tool| tool.name == *name)?)))?;
        let listed =
            |line: &str| line.trim().strip_prefix("- ")?.split_once(':').map(|(name, _)| name.trim_matches(['`', '*', ' ']).to_string());
        Some(Self { tool, agents: spec.description.lines().filter_map(listed).collect() })
    }

    fn agent(&self, name: &str) -> Option<&str> {
        self.agents.iter().find(|agent| agent.eq_ignore_ascii_case(name)).map(String::as_str)
    }

    fn call(&self, agent: &str, description: &str, prompt: &str) -> Call {
        Call { tool: self.tool, input: json!({ "description": description, "prompt": prompt, "subagent_type": agent }) }
    }
}

/// What a team would be sent out for: the terms of a question that asks about the repository at large.
fn terms_of(intent: &Intent) -> Option<&[Term]> {
    match intent {
        Intent::Tour => Some(&[]),
        // A question about one file or one folder is one lookup.
        Intent::Find(Find { terms, want: Want::Explained, scope, .. })
            if *scope == Scope::default() && !terms.iter().any(|term| matches!(term, Term::File(_))) =>
        {
            Some(terms)
        }
        _ => None,
    }
}

/// The merged answer, or the calls to make first. `None` when this is no work for a team, or there is none.
pub(super) fn answer(intent: &Intent, desk: &Desk) -> Option<Result<String, Vec<Call>>> {
    let (team, terms) = (desk.team()?, terms_of(intent)?);
    let explorer = team.agent(EXPLORER)?;
    let surveys: Vec<Survey> = Field::ALL.iter().map(|&field| Survey { field, terms: terms.to_vec() }).collect();
    let calls: Vec<Call> = surveys.iter().map(|survey| team.call(explorer, survey.field.title(), &survey.prompt())).collect();
    if !desk.may_call() && !calls.iter().any(|call| desk.has_made(call)) {
        return None;
    }
    let heard = match desk.gather(&calls) {
        Ok(heard) => heard,
        Err(open) => return Some(Err(open)),
    };
    let sent: Vec<Sent> = surveys.iter().zip(&heard).map(|(survey, heard)| Sent::back(survey, heard)).collect();
    if sent.iter().any(|sent| sent.failure.is_none() || !sent.facts.is_empty()) {
        let is_empty = sent.iter().all(|sent| sent.facts.is_empty() && sent.failure.is_none());
        return Some(Ok(if is_empty { nothing(terms) } else { merged(&sent) }));
    }
    Some(plan::alone(intent, desk).map(|alone| {
        let failures: Vec<String> = sent.iter().filter_map(Sent::failed).collect();
        format!("{alone}\n\n{}", failures.join("\n"))
    }))
}

/// What one explorer sent back.
#[derive(Debug)]
struct Sent {
    title: &'static str,
    heading: &'static str,
    facts: Vec<Hit>,
    /// Its own words when it found nothing.
    nothing: Option<String>,
    failure: Option<String>,
    /// It stopped at a limit, so there may be more.
    limit: Option<String>,
}

impl Sent {
    fn back(survey: &Survey, heard: &Heard) -> Self {
        let (title, heading) = (survey.field.title(), survey.heading());
        let (text, has_failed) = match heard {
            Heard::Said(text) => (text.as_str(), false),
            Heard::Failed { words, .. } => (words.as_str(), true),
            Heard::NotOffered { .. } | Heard::NotMade => ("no step was left to send it", true),
        };
        let text = without_tail(text);
        // "failed at src/a.rs:12: x" is a sentence; a path with a blank in it is believed only where nothing went wrong.
        let is_place = |hit: &Hit| !hit.path.contains(' ') || !has_failed && hit.path.contains('/');
        let fact = |line: &str| found::flat(line).filter(is_place);
        let facts: Vec<Hit> = text.lines().filter_map(fact).take(FACTS_MAX).collect();
        let words = text.lines().map(str::trim).find(|line| !line.is_empty() && fact(line).is_none());
        let words = words.map(|line| cut(line, FAILURE_BYTES_MAX).to_string());
        if has_failed {
            let failure = Some(words.unwrap_or_else(|| "it gave no reason".into()));
            return Self { title, heading, facts, nothing: None, failure, limit: None };
        }
        let limit = text.lines().find_map(|line| line.strip_prefix("limit: ")).map(|words| cut(words, FAILURE_BYTES_MAX).to_string());
        Self { title, heading, facts, nothing: words, failure: None, limit }
    }

    fn failed(&self) -> Option<String> {
        self.failure.as_ref().map(|words| format!("The agent for {} failed: {words}", self.title))
    }

    fn limited(&self) -> Option<String> {
        self.limit.as_ref().map(|words| format!("The agent for {} stopped at a limit: {words}", self.title))
    }
}

fn nothing(terms: &[Term]) -> String {
    let fields: Vec<&str> = Field::ALL.iter().map(|field| field.title()).collect();
    let about: Vec<String> = terms.iter().map(|term| format!("`{}`", term.shown())).collect();
    let about = if about.is_empty() { String::new() } else { format!(" about {}", about.join(" and ")) };
    format!("There is nothing to quote{about}: {} agents looked for {} and found nothing.", fields.len(), fields.join(", "))
}

/// A heading per explorer and its facts, each once.
fn merged(sent: &[Sent]) -> String {
    let mut seen: Vec<&Hit> = Vec::new();
    let mut parts: Vec<String> = Vec::new();
    for each in sent {
        let mut lines = vec![format!("## {}", each.heading)];
        for fact in &each.facts {
            if !seen.contains(&fact) {
                seen.push(fact);
                lines.push(format!("{}:{}: {}", fact.path, fact.line, fact.text));
            }
        }
        lines.extend(each.failed().or_else(|| each.limited()));
        if lines.len() == 1 {
            let all_quoted = "All that was found for this is quoted above.".to_string();
            let nothing = || each.nothing.clone().unwrap_or_else(|| "The agent found nothing to quote.".into());
            lines.push(if each.facts.is_empty() { nothing() } else { all_quoted });
        }
        parts.push(lines.join("\n"));
    }
    parts.join("\n\n")
}

/// The text of a result without what the delegation tool adds for the next call.
fn without_tail(text: &str) -> String {
    // Only at the end and on lines of its own: a fact may quote the same words.
    let block = text.trim_end().strip_suffix("\n</task_metadata>");
    let text = block.and_then(|block| block.rfind("\n<task_metadata>\n").map(|start| &block[..start])).unwrap_or(text);
    let is_tail = |line: &&str| line.is_empty() || ["task_id:", "session_id:", "agentId:"].iter().any(|start| line.starts_with(start));
    let lines: Vec<&str> = text.trim().lines().collect();
    let kept = lines.len() - lines.iter().rev().map(|line| line.trim()).take_while(|line| is_tail(line)).count();
    lines[..kept].join("\n")
}

/// One agent that the user named, sent with the user's words; its answer is handed on as it came.
pub(super) fn send(agent: &str, prompt: &str, desk: &Desk) -> Result<String, Vec<Call>> {
    const DESCRIPTION_WORDS_MAX: usize = 3;
    let Some((team, name)) = desk.team().and_then(|team| Some((team, team.agent(agent)?))) else {
        return Ok(format!("I cannot send `{agent}`: no tool that is offered here lists that agent."));
    };
    let description: Vec<&str> = prompt.split_whitespace().take(DESCRIPTION_WORDS_MAX).collect();
    let heard = desk.gather(&[team.call(name, &description.join(" "), prompt)])?;
    Ok(match heard.first() {
        Some(Heard::Said(text)) => without_tail(text),
        Some(Heard::Failed { words, .. }) => format!("`{name}` failed: {}", without_tail(words)),
        _ => format!("I could not send `{name}`: no step was left."),
    })
}

/// What the tasks before this question brought back, as they worded it.
pub(super) fn relay(before: &[Made]) -> String {
    let told = before.iter().filter(|made| TOOLS.contains(&made.tool.as_str())).map(|made| match &made.told {
        Some(Told { text, error: false }) => without_tail(text),
        Some(Told { text, error: true }) => format!("The task failed: {}", without_tail(text)),
        None => "The task has no result.".into(),
    });
    let told: Vec<String> = told.collect();
    if told.is_empty() { "There is no result of a task above to sum up.".into() } else { told.join("\n\n") }
}
