//! `todowrite`: the session's list of steps, replaced as a whole; `todoread.rs` shows it.
//!
//! The list is in the session's memory, and in a small file of its spool, because the memory ends with the process.

use std::{
    fs,
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use posse_session::{BoxFuture, Look, Outcome, Tool, ToolCall, ToolContext, ToolSpec, Touch, Workspace};
use serde_json::{Value, json};

use crate::{
    arguments::{Arguments, Parameter},
    blocking::blocking,
    files::memory,
    text::{count, small, spool_file},
};

const TODOS: Parameter = Parameter::new("todos", &["items", "list", "tasks"]);
const CONTENT: Parameter = Parameter::new("content", &["text", "title", "task"]);
const STATUS: Parameter = Parameter::new("status", &["state"]);
const PRIORITY: Parameter = Parameter::new("priority", &[]);

const STATUSES: [&str; 4] = ["pending", "in_progress", "completed", "cancelled"];
const PRIORITIES: [&str; 3] = ["high", "medium", "low"];

/// A longer list is a plan, which belongs in a file.
const TODOS_MAX: usize = 100;
/// One line of text each.
const CONTENT_CHARS_MAX: usize = 500;

/// Where the list is in a session's memory, and in its spool.
const MEMORY_KEY: &str = "todos";
const FILE_NAME: &str = "todos.json";
/// The longest list there can be, with room for escapes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

pub(crate) struct TodoWrite(ToolSpec);

impl TodoWrite {
    pub(crate) fn new() -> Self {
        Self(ToolSpec {
            name: "todowrite".into(),
            description: "Keep the list of steps for work that has three or more of them, so that you and the user see what is done and what is left. \
                Every call replaces the whole list. Keep exactly one step in_progress, and mark a step completed as soon as it is. \
                Not for a single simple step: just do it."
                .into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "todos": {
                        "type": "array",
                        "description": "The complete new list, in order.",
                        "items": {
                            "type": "object",
                            "properties": {
                                "content": {"type": "string", "description": "What is to be done, in one line."},
                                "status": {"type": "string", "enum": STATUSES},
                                "priority": {"type": "string", "enum": PRIORITIES, "description": "Default medium."},
                                "id": {"type": "string", "description": "Optional name of the step."}
                            },
                            "required": ["content", "status"]
                        }
                    }
                },
                "required": ["todos"]
            }),
        })
    }
}

impl Tool for TodoWrite {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn look(&self, input: &Value, _workspace: &dyn Workspace) -> Result<Look, String> {
        let todos = todos(input)?;
        Ok(Look {
            touches: vec![Touch::new("todowrite", "*")],
            repeatable: false,
            title: count(todos.len() as u64, "step"),
            ..Look::default()
        })
    }

    fn run<'a>(&'a self, call: &'a ToolCall, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let todos = match todos(&call.input) {
                Ok(todos) => todos,
                Err(words) => return Outcome::failed(words),
            };
            let list = Value::Array(todos.clone());
            memory(context).insert(MEMORY_KEY.into(), list.clone());
            let spool = context.spool.clone();
            blocking("todowrite", context, move |_| {
                // The list holds all the same, until the process ends.
                let lost =
                    keep(&spool, &list).err().map(|error| format!("\n(The list could not be kept on disk: {error})")).unwrap_or_default();
                let mut shown = shown(&todos);
                if let Outcome::Done { output: posse_session::Text::Inline(words), .. } = &mut shown {
                    words.push_str(&lost);
                }
                Ok(shown)
            })
            .await
        })
    }
}

/// The list as this session has it; after a restart as it was written last.
pub(crate) fn kept(context: &ToolContext) -> Vec<Value> {
    let known = memory(context).get(MEMORY_KEY).and_then(Value::as_array).cloned();
    known.unwrap_or_else(|| {
        let todos = kept_in(&context.spool);
        memory(context).insert(MEMORY_KEY.into(), Value::Array(todos.clone()));
        todos
    })
}

/// A list as the model and the screens see it.
pub(crate) fn shown(todos: &[Value]) -> Outcome {
    let (output, title) = rendered(todos);
    // A long list is not for screens.
    Outcome::Done { output: output.into(), title, metadata: small(json!({"todos": todos}), ""), attachments: Vec::new() }
}

/// The file is replaced in one step: a crash leaves the old list or the new one.
fn keep(spool: &Path, list: &Value) -> io::Result<()> {
    let (path, beside) = (spool_file(spool, FILE_NAME)?, spool_file(spool, &format!("{FILE_NAME}.new"))?);
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.write_all(list.to_string().as_bytes())?;
    file.sync_all()?;
    fs::rename(beside, path)
}

/// What is not there or is no list is an empty one.
fn kept_in(spool: &Path) -> Vec<Value> {
    let mut text = String::new();
    let read = fs::File::open(spool.join(FILE_NAME)).and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text));
    let list: Option<Value> = read.ok().and_then(|_| serde_json::from_str(&text).ok());
    list.and_then(|list| todos(&json!({"todos": list})).ok()).unwrap_or_default()
}

fn todos(input: &Value) -> Result<Vec<Value>, String> {
    let arguments = Arguments::new("todowrite", input)?;
    let expected = "a list of objects with content and status";
    let value = arguments.find(TODOS).ok_or_else(|| arguments.missing(TODOS, expected))?;
    // Some models send the list as a string of JSON.
    let parsed = value.as_str().and_then(|text| serde_json::from_str(text).ok());
    let Some(items) = parsed.as_ref().unwrap_or(value).as_array() else { return Err(arguments.wrong(TODOS, expected, value)) };
    if TODOS_MAX < items.len() {
        return Err(format!("todowrite: at most {TODOS_MAX} steps; got {}. Sum some of them up.", items.len()));
    }
    items.iter().enumerate().map(|(place, item)| todo(item).map_err(|words| format!("{words} (step {} of the list)", place + 1))).collect()
}

fn todo(item: &Value) -> Result<Value, String> {
    let arguments = Arguments::new("todowrite", item)?;
    let content: String = arguments.filled_text(CONTENT)?.chars().take(CONTENT_CHARS_MAX).collect();
    let status = word(&arguments, STATUS, &STATUSES)?
        .ok_or_else(|| arguments.missing(STATUS, "one of pending, in_progress, completed, cancelled"))?;
    let priority = word(&arguments, PRIORITY, &PRIORITIES)?.unwrap_or("medium");
    let mut todo = json!({"content": content, "status": status, "priority": priority});
    if let Some(id) = item.get("id").filter(|id| id.is_string() || id.is_number()) {
        todo["id"] = id.clone();
    }
    Ok(todo)
}

/// One of a few words, however it is spelled: `In-Progress` is `in_progress`.
fn word(arguments: &Arguments<'_>, parameter: Parameter, words: &[&'static str]) -> Result<Option<&'static str>, String> {
    let Some(text) = arguments.maybe_text(parameter)? else { return Ok(None) };
    let folded = text.trim().to_lowercase().replace(['-', ' '], "_").replace("canceled", "cancelled");
    match words.iter().find(|word| **word == folded) {
        Some(word) => Ok(Some(word)),
        None => Err(arguments.wrong(parameter, &format!("one of {}", words.join(", ")), &Value::String(text.to_owned()))),
    }
}

fn rendered(todos: &[Value]) -> (String, String) {
    if todos.is_empty() {
        return ("The list is empty.".into(), "0 steps".into());
    }
    let status = |todo: &Value| todo["status"].as_str().unwrap_or_default().to_owned();
    let open = todos.iter().filter(|todo| matches!(&*status(todo), "pending" | "in_progress")).count();
    let lines: Vec<String> = todos
        .iter()
        .map(|todo| {
            let mark = match &*status(todo) {
                "completed" => "[x]",
                "in_progress" => "[>]",
                "cancelled" => "[-]",
                _ => "[ ]",
            };
            let priority = todo["priority"]
                .as_str()
                .filter(|priority| *priority != "medium")
                .map(|priority| format!(" ({priority})"))
                .unwrap_or_default();
            format!("{mark} {}{priority}", todo["content"].as_str().unwrap_or_default())
        })
        .collect();
    (lines.join("\n"), format!("{open} of {} open", count(todos.len() as u64, "step")))
}
