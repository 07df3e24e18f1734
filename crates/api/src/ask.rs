//! An open ask as people and scripts see it: who wants what, why it is asked, what a wider "yes" would allow.
//!
//! Made from views and facts alone. Knows nothing of terminals, nor of the way an answer takes.

use posse_session::{AskId, CallId, Event, OpenAsk, Record, SessionId, Summary, Timestamp, names};
use serde::Serialize;
use serde_json::Value;

use crate::{tree::description, words};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ask {
    pub ask: AskId,
    pub session: SessionId,
    pub root: SessionId,
    pub agent: String,
    /// What the asking task is called, where somebody has given it a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the asking task was started for; nothing of a session of the user's own.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    pub call: CallId,
    pub tool: String,
    pub title: String,
    /// What the call would touch that nobody has allowed: `bash(git push)`.
    pub what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub origin: String,
    /// In words.
    pub why: String,
    /// What "yes, for longer" would allow, as `key(pattern)`.
    pub offers: Vec<String>,
    pub since: Timestamp,
    /// Whether a living process waits for the answer; else it is taken up by the next `resume`.
    pub waiting: bool,
    /// Not empty when the call is a question to a person: then words answer it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<Question>,
    pub input: Value,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Question {
    pub text: String,
    pub options: Vec<Choice>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Choice {
    pub label: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
}

impl Ask {
    /// `facts` hold the call; without them the ask still says what it is about.
    pub fn new(summary: &Summary, open: &OpenAsk, facts: &[Record], waiting: bool) -> Self {
        let decision = &open.decision;
        let (tool, title, input) = called(facts, &open.call);
        let key = decision.touch.as_ref().map_or("", |touch| touch.key.as_str());
        let questions = if key == "question" { questions(&input) } else { Vec::new() };
        Self {
            ask: open.ask.clone(),
            session: summary.session.clone(),
            root: summary.root.clone(),
            agent: summary.agent.clone(),
            name: None,
            description: summary.parent.as_ref().map_or(String::new(), |_| description(summary).to_owned()),
            call: open.call.clone(),
            tool: if tool.is_empty() { key.to_owned() } else { tool },
            title,
            what: words::touch(decision.touch.as_ref()),
            rule: decision.rule.clone(),
            origin: decision.origin.clone(),
            why: words::reason(decision),
            offers: decision.offers.iter().map(ToString::to_string).collect(),
            since: open.at,
            waiting,
            questions,
            input,
        }
    }

    pub fn is_question(&self) -> bool {
        self.what.starts_with("question(")
    }

    /// With the name that the asking task has in its tree.
    pub fn named_in(self, tree: &[Summary]) -> Self {
        let name = names(tree).get(&self.session).map(|name| (*name).to_owned());
        Self { name, ..self }
    }

    /// Who asks: the agent, and of a task its name or else what it was started for.
    pub fn who(&self) -> String {
        match (&self.name, self.description.as_str()) {
            (Some(name), _) => format!("{} {name:?}", self.agent),
            (None, "") => self.agent.clone(),
            (None, description) => format!("{} ({description})", self.agent),
        }
    }
}

/// Tool, title and input of a call; a hook may have amended the input.
pub(crate) fn called(facts: &[Record], wanted: &CallId) -> (String, String, Value) {
    let mut found = (String::new(), String::new(), Value::Null);
    for record in facts {
        match &record.event {
            Event::Called { call, tool, title, input, .. } if call == wanted => {
                found = (tool.clone(), title.clone(), parsed(input.inline()));
            }
            Event::Looked { call, input, .. } if call == wanted => found.2 = parsed(input.inline()),
            _ => {}
        }
    }
    found
}

/// The input as the model wrote it; what is no JSON stays text.
fn parsed(input: Option<&str>) -> Value {
    let text = input.unwrap_or_default();
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// The questions of an input, in the spellings that the tool takes.
fn questions(input: &Value) -> Vec<Question> {
    let one = |value: &Value| Question {
        text: text(value, &["question", "text", "prompt"]),
        options: items(field(value, &["options", "choices", "answers"])).iter().map(choice).collect(),
    };
    items(field(input, &["questions", "items"])).iter().map(one).collect()
}

fn choice(value: &Value) -> Choice {
    match value.as_str() {
        Some(label) => Choice { label: label.to_owned(), description: String::new() },
        None => Choice { label: text(value, &["label", "value", "name"]), description: text(value, &["description", "details"]) },
    }
}

fn field<'a>(value: &'a Value, names: &[&str]) -> &'a Value {
    names.iter().find_map(|name| value.get(name)).unwrap_or(&Value::Null)
}

fn text(value: &Value, names: &[&str]) -> String {
    field(value, names).as_str().unwrap_or_default().to_owned()
}

/// A list, or a list that some models send as a string of JSON.
fn items(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items.clone(),
        Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// Longer values of an input are cut where it is shown, and it is said that they are.
const SHOWN_LINES_MAX: usize = 24;
const SHOWN_CHARS_MAX: usize = 2_000;

/// An input as lines for a person who has to judge it: `command: git push`, long values over several lines.
pub fn details(input: &Value) -> Vec<String> {
    let Value::Object(fields) = input else { return shown("input", input) };
    fields.iter().flat_map(|(name, value)| shown(name, value)).collect()
}

fn shown(name: &str, value: &Value) -> Vec<String> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let kept: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    let lines: Vec<&str> = kept.lines().collect();
    let mut shown = match &lines[..] {
        [] => vec![format!("{name}:")],
        [only] => vec![format!("{name}: {only}")],
        several => {
            std::iter::once(format!("{name}:")).chain(several.iter().take(SHOWN_LINES_MAX).map(|line| format!("  {line}"))).collect()
        }
    };
    let (whole, seen) = (text.lines().count(), lines.len().min(SHOWN_LINES_MAX));
    if kept.len() < text.len() || seen < whole {
        shown.push(format!("  … cut here: {} in {}", words::count(text.len() as u64, "byte"), words::count(whole as u64, "line")));
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_cut_says_so() {
        assert_eq!(details(&json!({"command": "ls", "timeout": 5})), ["command: ls", "timeout: 5"]);
        assert_eq!(details(&json!({"command": "a\nb"})), ["command:", "  a", "  b"]);
        let long = "x\n".repeat(100);
        let shown = details(&json!({ "command": long }));
        assert_eq!((shown.len(), shown[25].as_str()), (26, "  … cut here: 200 bytes in 100 lines"));
        let wide = "y".repeat(3_000);
        let shown = details(&json!({ "command": wide }));
        assert_eq!((shown.len(), shown[1].as_str()), (2, "  … cut here: 3000 bytes in 1 line"));
        assert_eq!(details(&json!("no object")), ["input: no object"]);
    }

    #[test]
    fn questions_are_read_in_every_spelling() {
        let choice = |label: &str, description: &str| Choice { label: label.into(), description: description.into() };
        let expected = vec![
            Question { text: "Which?".into(), options: vec![choice("a", ""), choice("b", "the other")] },
            Question { text: "Why?".into(), options: Vec::new() },
        ];
        let ours = json!([{"question": "Which?", "options": ["a", {"label": "b", "description": "the other"}]}, {"question": "Why?"}]);
        assert_eq!(questions(&json!({ "questions": ours })), expected);
        assert_eq!(questions(&json!({ "questions": ours.to_string() })), expected);
        let others = json!([{"text": "Which?", "choices": [{"value": "a"}, {"name": "b", "details": "the other"}]}, {"prompt": "Why?"}]);
        assert_eq!(questions(&json!({ "items": others })), expected);
        assert_eq!(questions(&json!({})), []);
    }
}
