//! `stream-json`: one object per line as it happens. Every fact of a log is one line with its `seq`, so a gap means a lost line.

use posse_session::{CallId, Event, Progress, Record, SessionId};
use serde_json::{Map, Value, json};

use crate::show::said;

/// The line of one fact.
pub fn line(session: &SessionId, record: &Record) -> Value {
    let mut fields = Map::new();
    let event = serde_json::to_value(&record.event).unwrap_or_default();
    let name = event["type"].as_str().unwrap_or("unknown").to_owned();
    fields.insert("type".into(), kind(&record.event, &name).into());
    fields.insert("session".into(), session.to_string().into());
    fields.insert("seq".into(), record.seq.into());
    fields.insert("at".into(), record.at.0.into());
    if let Event::Replied { parts, .. } = &record.event {
        fields.insert("role".into(), "assistant".into());
        fields.insert("text".into(), said(parts).into());
    }
    if let Value::Object(event) = event {
        fields.extend(event.into_iter().filter(|(key, _)| key != "type"));
    }
    Value::Object(fields)
}

/// The names of the contract where they differ from the log's.
fn kind<'a>(event: &Event, name: &'a str) -> &'a str {
    match event {
        Event::Replied { .. } => "message",
        Event::TaskEnded { .. } => "task_notification",
        _ => name,
    }
}

/// The line of live progress; most of it is not for scripts.
pub fn delta_line(session: &SessionId, progress: &Progress) -> Option<Value> {
    let output =
        |call: &CallId, text: &str| json!({"type": "call_output", "session": session.as_str(), "call": call.as_str(), "text": text});
    match progress {
        Progress::Text(text) => Some(json!({"type": "text_delta", "session": session.as_str(), "text": text})),
        Progress::Reasoning(text) => Some(json!({"type": "reasoning_delta", "session": session.as_str(), "text": text})),
        Progress::Output { call, text } => Some(output(call, text)),
        Progress::Waiting { why, until } => {
            Some(json!({"type": "waiting", "session": session.as_str(), "why": why, "until": until.map(|at| at.0)}))
        }
        Progress::CallNamed { .. } | Progress::Alive => None,
    }
}
