//! What one run came to: the object that `--format json` prints, made from views and facts alone.

use posse_session::{Answer, By, Event, Finish, Kind, Outcome, Part, Purpose, Record, Seq, Status, Summary, Usage, cut_answer, names};
use serde::Serialize;

use crate::{show::said, tree::shown_status};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    Done,
    Failed,
    Limit,
    Interrupted,
}

#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub session: String,
    pub status: RunStatus,
    pub result: String,
    /// What the user may want to say next, where somebody was asked to guess.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
    /// The answer as the value it was asked to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why the result is not whole, though it is an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
    pub usage: Usage,
    pub tree: Vec<TreeEntry>,
    pub denied: Vec<Denial>,
    /// Asks nobody could answer; they set the exit code.
    #[serde(skip)]
    pub unanswered: u64,
}

#[derive(Debug, Clone, Serialize)]
pub struct TreeEntry {
    pub session: String,
    pub parent: Option<String>,
    pub agent: String,
    pub kind: Option<Kind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub title: String,
    pub status: Status,
    pub steps: u64,
    pub calls: u64,
    pub usage: Usage,
    pub seconds: f64,
}

#[derive(Debug, Clone, Serialize)]
pub struct Denial {
    pub call: String,
    pub session: String,
    pub agent: String,
    pub tool: String,
    pub what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    #[serde(skip)]
    pub refused: Refused,
}

/// By whom a call was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// By a rule, or because it could not be judged.
    AtOnce,
    /// A rule asks, and there was nobody to answer.
    ByNobody,
    ByPerson,
}

/// From where on facts count: for calls that were open when this run began, for the last words said, and for what this
/// run did. In this order, none after the next.
#[derive(Debug, Clone, Copy, Default)]
pub struct Since {
    pub calls: Seq,
    pub text: Seq,
    pub run: Seq,
}

/// `tree` is the root's view and its descendants'; `facts` are the root's since `calls`, with their texts.
pub fn report(status: RunStatus, error: Option<String>, tree: &[Summary], facts: &[Record], since: Since) -> Report {
    let mut usage = Usage::default();
    tree.iter().for_each(|summary| usage += summary.usage);
    let root = tree.first();
    let agent = root.map_or(String::new(), |root| root.agent.clone());
    let session = root.map_or(String::new(), |root| root.session.to_string());
    let after = |seq: Seq| &facts[facts.partition_point(|record| record.seq <= seq)..];
    let new = after(since.run);
    let names = names(tree);
    Report {
        status,
        result: last_text(after(since.text)),
        suggestion: suggestion(new),
        structured: None,
        error,
        cut: cut(after(since.text), root.map_or("", |root| root.model.as_str())).filter(|_| status == RunStatus::Done),
        usage,
        tree: tree.iter().map(|summary| entry(summary, names.get(&summary.session).copied())).collect(),
        denied: denials(facts, since.run, &session, &agent),
        session,
        unanswered: unanswered(new),
    }
}

impl Report {
    /// Adds what was refused in a session below the root. `facts` are those since its last reply before this run, `since`
    /// is where its log stood when this run began. Sessions whose view counts no denied call need not be read.
    pub fn add_below(&mut self, summary: &Summary, facts: &[Record], since: Seq) {
        self.denied.extend(denials(facts, since, summary.session.as_str(), &summary.agent));
        self.unanswered += unanswered(&facts[facts.partition_point(|record| record.seq <= since)..]);
    }
}

/// What was guessed after the last turn of this run. What was guessed before a later one has lost its point.
fn suggestion(facts: &[Record]) -> Option<String> {
    let mut last = facts.iter().rev();
    let found = last.find(|record| matches!(record.event, Event::StepStarted { .. } | Event::Advised { advice: Purpose::Suggest, .. }));
    match &found?.event {
        Event::Advised { text, .. } => text.inline().map(str::to_owned),
        _ => None,
    }
}

/// A mode that says yes has answered; a person who says no has too.
fn unanswered(facts: &[Record]) -> u64 {
    let nobody = |record: &&Record| matches!(record.event, Event::Answered { by: By::Policy, answer: Answer::No { .. }, .. });
    facts.iter().filter(nobody).count() as u64
}

fn entry(summary: &Summary, name: Option<&str>) -> TreeEntry {
    TreeEntry {
        session: summary.session.to_string(),
        parent: summary.parent.as_ref().map(ToString::to_string),
        agent: summary.agent.clone(),
        kind: summary.kind,
        name: name.map(str::to_owned),
        title: summary.title.clone(),
        status: shown_status(summary),
        steps: summary.steps,
        calls: summary.calls,
        usage: summary.usage,
        seconds: summary.updated.since(summary.created).as_secs_f64(),
    }
}

/// The last thing the agent said: its whole last message with words in it, or what was shown before it broke off.
fn last_text(facts: &[Record]) -> String {
    let text = |record: &Record| match &record.event {
        Event::Replied { parts, .. } => Some(said(parts)),
        Event::StepFailed { partial, retry_at: None, .. } => Some(said(&[Part::text(partial.clone())])),
        _ => None,
    };
    facts.iter().rev().filter_map(text).find(|text| !text.trim().is_empty()).unwrap_or_default()
}

/// Of the last answer, if the model or its provider broke it off.
fn cut(facts: &[Record], model: &str) -> Option<String> {
    let last = facts.iter().rev().find(|record| matches!(record.event, Event::Replied { author: None, .. }))?;
    match &last.event {
        Event::Replied { calls: 0, finish: Finish::Length, .. } => Some(cut_answer(model)),
        _ => None,
    }
}

fn denials(facts: &[Record], since: Seq, session: &str, agent: &str) -> Vec<Denial> {
    let mut denied = Vec::new();
    for record in facts.iter().filter(|record| since < record.seq) {
        let Event::CallFinished { call, outcome: Outcome::Denied { .. } } = &record.event else { continue };
        let called = facts.iter().find_map(|record| match &record.event {
            Event::Called { call: called, tool, touches, decision, title, .. } if called == call => Some((tool, touches, decision, title)),
            _ => None,
        });
        let Some((tool, touches, decision, title)) = called else { continue };
        let looked = facts.iter().find_map(|record| match &record.event {
            Event::Looked { call: looked, decision, .. } if looked == call => Some(decision.clone()),
            _ => None,
        });
        let decision = looked.or_else(|| decision.clone());
        let refused = facts.iter().find_map(|record| match &record.event {
            Event::Answered { call: answered, answer: Answer::No { .. }, by, .. } if answered == call => match by {
                By::Policy => Some(Refused::ByNobody),
                By::User => Some(Refused::ByPerson),
                By::Kernel | By::Model => None,
            },
            _ => None,
        });
        let touch = decision.as_ref().and_then(|decision| decision.touch.clone()).or_else(|| touches.first().cloned());
        denied.push(Denial {
            call: call.to_string(),
            session: session.to_owned(),
            agent: agent.to_owned(),
            tool: tool.clone(),
            what: touch.map_or_else(|| title.clone(), |touch| format!("{}({})", touch.key, touch.pattern)),
            rule: decision.and_then(|decision| {
                decision.rule.map(|rule| if decision.origin.is_empty() { rule } else { format!("{rule} from {}", decision.origin) })
            }),
            refused: refused.unwrap_or(Refused::AtOnce),
        });
    }
    denied
}
