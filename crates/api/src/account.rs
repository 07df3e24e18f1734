//! The account of one call: what it would touch, which rule said what, who was asked and what they said, how it ended.
//!
//! Made from the facts of its session alone; the words are in `words.rs`.

use posse_session::{Answer, AskId, By, CallId, Decision, Event, Grant, Record, Summary, Timestamp, Touch, Verdict};
use serde::Serialize;
use serde_json::Value;

use crate::{ask::called, words};

#[derive(Debug, Clone, Serialize)]
pub struct Account {
    pub call: String,
    pub session: String,
    pub agent: String,
    pub tool: String,
    pub title: String,
    pub at: Timestamp,
    pub touches: Vec<String>,
    /// Absent when the call could not run at all: a tool that does not exist, an input that makes no sense.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// What the verdict was about.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub origin: String,
    /// In words.
    pub why: String,
    /// The hook that looked at the call before its verdict.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hook: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<AskAccount>,
    /// Absent while the call is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<&'static str>,
    /// What the model was told of a call that did not succeed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub told: String,
    pub input: Value,
}

#[derive(Debug, Clone, Serialize)]
pub struct AskAccount {
    pub ask: AskId,
    pub at: Timestamp,
    pub offers: Vec<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub answer: Option<AnswerAccount>,
}

#[derive(Debug, Clone, Serialize)]
pub struct AnswerAccount {
    /// `once`, `session`, `tree`, `project`, `no` or `words`.
    pub answer: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub say: String,
    pub by: By,
    /// The same in words: who, or what in their place.
    pub answered_by: &'static str,
    pub answered_at: Timestamp,
    /// A wider "yes" that was taken back later.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub revoked: bool,
}

/// Whether a fact is about this call.
pub fn concerns(event: &Event, wanted: &CallId) -> bool {
    match event {
        Event::Called { call, .. }
        | Event::Looked { call, .. }
        | Event::Asked { call, .. }
        | Event::Answered { call, .. }
        | Event::CallStarted { call, .. }
        | Event::CallFinished { call, .. } => call == wanted,
        _ => false,
    }
}

/// `None` when the call is not among the facts.
pub fn account(summary: &Summary, facts: &[Record], wanted: &CallId) -> Option<Account> {
    let (tool, title, input) = called(facts, wanted);
    let mut found: Option<Account> = None;
    for record in facts.iter().filter(|record| concerns(&record.event, wanted)) {
        match (&record.event, &mut found) {
            (Event::Called { touches, decision, .. }, None) => {
                let mut account = Account {
                    call: wanted.to_string(),
                    session: summary.session.to_string(),
                    agent: summary.agent.clone(),
                    tool: tool.clone(),
                    title: title.clone(),
                    at: record.at,
                    touches: shown(touches),
                    verdict: None,
                    what: String::new(),
                    rule: None,
                    origin: String::new(),
                    why: "it was not judged: it could not run".to_owned(),
                    hook: String::new(),
                    ask: None,
                    outcome: None,
                    told: String::new(),
                    input: input.clone(),
                };
                decision.iter().for_each(|decision| account.judged(decision));
                found = Some(account);
            }
            (Event::Looked { touches, by, decision, .. }, Some(account)) => {
                account.touches = shown(touches);
                account.hook.clone_from(by);
                account.judged(decision);
            }
            (Event::Asked { ask, decision, .. }, Some(account)) => {
                account.judged(decision);
                let offers = decision.offers.iter().map(Grant::to_string).collect();
                account.ask = Some(AskAccount { ask: ask.clone(), at: record.at, offers, answer: None });
            }
            (Event::Answered { ask, answer, by, .. }, Some(account)) => {
                if let Some(asked) = account.ask.as_mut().filter(|asked| asked.ask == *ask) {
                    asked.answer = Some(answered(answer, *by, record.at, facts, ask));
                }
            }
            (Event::CallFinished { outcome, .. }, Some(account)) => {
                account.outcome = Some(outcome.word());
                if outcome.is_error() {
                    account.told = outcome.clone().texts_mut().first().and_then(|text| text.inline()).unwrap_or_default().to_owned();
                }
            }
            _ => {}
        }
    }
    found
}

impl Account {
    fn judged(&mut self, decision: &Decision) {
        self.verdict = Some(decision.verdict);
        self.what = words::touch(decision.touch.as_ref());
        self.rule.clone_from(&decision.rule);
        self.origin.clone_from(&decision.origin);
        self.why = words::reason(decision);
    }
}

fn answered(answer: &Answer, by: By, at: Timestamp, facts: &[Record], wanted: &AskId) -> AnswerAccount {
    let say = match answer {
        Answer::No { say } | Answer::Words { say } => say.clone(),
        Answer::Yes { .. } => String::new(),
    };
    let revoked = facts.iter().any(|record| matches!(&record.event, Event::Revoked { ask, .. } if ask == wanted));
    AnswerAccount { answer: words::answer(answer), say, by, answered_by: words::answered_by(by, answer), answered_at: at, revoked }
}

fn shown(touches: &[Touch]) -> Vec<String> {
    touches.iter().map(|touch| words::touch(Some(touch))).collect()
}
