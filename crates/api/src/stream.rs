//! `stream-json`: one object per line as it happens. Every fact of a log is one line with its `seq`, so a gap means a lost line.
//!
//! What has no `seq` is live or derived: pieces of text, what tools print, how far a task is. It may be left out.

use std::collections::HashMap;

use posse_session::{CallId, Event, How, Progress, Purpose, Record, SessionId, Summary, Text};
use serde_json::{Map, Value, json};

use crate::{show::said, words};

/// Makes lines of the facts of one session, in their order: a line about an ask also says which tool asks.
#[derive(Debug)]
pub struct Lines {
    session: SessionId,
    /// Tools of open calls.
    tools: HashMap<CallId, String>,
}

impl Lines {
    pub fn new(session: SessionId) -> Self {
        Self { session, tools: HashMap::new() }
    }

    /// The line of one fact.
    pub fn line(&mut self, record: &Record) -> Value {
        let mut fields = Map::new();
        let mut event = serde_json::to_value(&record.event).unwrap_or_default();
        // What undoing needs is not for readers, and may be as long as a file.
        for part in event.pointer_mut("/outcome/attachments").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(patch) = part.as_object_mut().filter(|part| part["type"] == "patch") {
                patch.shift_remove("change");
            }
        }
        // Definitions and rules of those above are as long as their files, and not for readers either.
        if let (Event::Created { .. }, Some(created)) = (&record.event, event.as_object_mut()) {
            created.shift_remove("above");
            created.get_mut("recipe").and_then(Value::as_object_mut).map(|recipe| recipe.shift_remove("definition"));
        }
        let name = event["type"].as_str().unwrap_or("unknown").to_owned();
        fields.insert("type".into(), kind(&record.event, &name).into());
        fields.insert("session".into(), self.session.to_string().into());
        fields.insert("seq".into(), record.seq.into());
        fields.insert("at".into(), record.at.0.into());
        match &record.event {
            Event::Replied { parts, .. } => {
                fields.insert("role".into(), "assistant".into());
                fields.insert("text".into(), said(parts).into());
            }
            Event::Called { call, tool, .. } => drop(self.tools.insert(call.clone(), tool.clone())),
            Event::CallFinished { call, .. } => drop(self.tools.remove(call)),
            Event::Asked { call, decision, .. } => {
                let touched = decision.touch.as_ref().map_or("", |touch| touch.key.as_str());
                fields.insert("tool".into(), self.tools.get(call).map_or(touched, String::as_str).into());
                fields.insert("what".into(), words::touch(decision.touch.as_ref()).into());
                fields.insert("why".into(), words::reason(decision).into());
                fields.insert("offers".into(), decision.offers.iter().map(ToString::to_string).collect());
            }
            Event::TaskEnded { how, result, .. } => drop(fields.insert("status".into(), notified(*how, result).into())),
            Event::Detached { .. } => drop(fields.insert("status".into(), "background".into())),
            Event::TaskStopped { .. } => drop(fields.insert("status".into(), "stopping".into())),
            Event::TaskResumed { .. } => drop(fields.insert("status".into(), "resumed".into())),
            Event::TaskAwaited { .. } => drop(fields.insert("status".into(), "awaited".into())),
            Event::Kept { call, .. } => {
                fields.insert("task".into(), call.to_string().into());
                fields.insert("kind".into(), "shell".into());
                fields.insert("wait".into(), false.into());
            }
            Event::KeptEnded { call, words, .. } => {
                fields.insert("task".into(), call.to_string().into());
                fields.insert("kind".into(), "shell".into());
                fields.insert("status".into(), self.shell_status(words).into());
            }
            _ => {}
        }
        if let Value::Object(event) = event {
            fields.extend(event.into_iter().filter(|(key, _)| key != "type"));
        }
        Value::Object(fields)
    }

    /// How a shell ended, in one of three words, read from the notice. A shell of which there is nothing to say has ended
    /// because the model wanted it, or the model has read its end already.
    fn shell_status(&self, words: &Text) -> &'static str {
        let ends = |tool: &String| ["killshell", "taskstop"].contains(&&*tool.replace('_', "").to_lowercase());
        let killing = || self.tools.values().any(ends);
        let head = words.inline().unwrap_or_default().lines().next().unwrap_or_default();
        match head {
            "" if killing() => "stopped",
            "" => "completed",
            head if head.contains(" exited with code 0]") => "completed",
            head if head.contains(" ended]") || head.contains(" killed by signal ") => "stopped",
            _ => "failed",
        }
    }
}

/// The names of the contract where they differ from the log's.
fn kind<'a>(event: &Event, name: &'a str) -> &'a str {
    match event {
        Event::Replied { .. } => "message",
        Event::Kept { .. } => "task_started",
        Event::Advised { advice: Purpose::Suggest, .. } => "suggestion",
        Event::TaskEnded { .. } | Event::KeptEnded { .. } => "task_notification",
        Event::Detached { .. } | Event::TaskStopped { .. } | Event::TaskResumed { .. } | Event::TaskAwaited { .. } => "task_updated",
        _ => name,
    }
}

/// How a task ended, in one of three words: a limit that left something to show is no failure.
fn notified(how: How, result: &Text) -> &'static str {
    match how {
        How::Completed => "completed",
        How::Limit if !result.is_blank() => "completed",
        How::Failed | How::Limit => "failed",
        How::Stopped => "stopped",
    }
}

/// How far a task is: a line of the session that started it.
pub fn progress_line(task: &Summary) -> Option<Value> {
    let parent = task.parent.as_ref()?;
    let mut line = json!({
        "type": "task_progress",
        "session": parent.as_str(),
        "task": task.session.as_str(),
        "agent": task.agent,
        "steps": task.steps,
        "calls": task.calls,
        "tokens": task.usage.tokens(),
        "last_action": task.last_action,
    });
    if !task.doing.is_empty() {
        line["summary"] = task.doing.as_str().into();
    }
    Some(line)
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
        Progress::Begun | Progress::CallNamed { .. } | Progress::CallInput { .. } | Progress::Counted(_) | Progress::Alive => None,
    }
}
