//! `task_list`: the tasks of a session and all below, a line each.

use posse_session::{BoxFuture, Look, Outcome, TaskView, Tool, ToolCall, ToolContext, ToolSpec, Touch, Workspace};
use serde_json::{Value, json};

use super::words;

/// The key of rules about it, and its name.
const KEY: &str = "task_list";

/// As many lines as a model reads with profit. Of more, tasks that have ended are left out, the oldest first.
const LINES_MAX: usize = 100;

pub(super) struct TaskList(ToolSpec);

impl TaskList {
    pub(super) fn new() -> Self {
        Self(ToolSpec {
            name: KEY.into(),
            description: "List the tasks that were started here and below: name or id, agent, how each stands, what it does, its tokens. \
                To find an id or to get an overview; not to wait for a result, which comes by itself."
                .into(),
            schema: json!({"type": "object", "properties": {}}),
        })
    }
}

impl Tool for TaskList {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn look(&self, _input: &Value, _workspace: &dyn Workspace) -> Result<Look, String> {
        Ok(Look { touches: vec![Touch::new(KEY, "*")], repeatable: true, polls: true, ..Look::default() })
    }

    fn run<'a>(&'a self, _call: &'a ToolCall, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            tokio::select! {
                tasks = context.delegate.list() => tasks.map_or_else(Outcome::failed, |tasks| Outcome::done(lines(&tasks))),
                () = context.stop.stopped() => Outcome::cancelled(""),
            }
        })
    }
}

fn lines(tasks: &[TaskView]) -> String {
    if tasks.is_empty() {
        return "No task was started here.".to_owned();
    }
    let mut left_out = tasks.len().saturating_sub(LINES_MAX);
    let (mut lines, mut ended, mut open) = (Vec::new(), 0, 0);
    for task in tasks {
        if 0 < left_out && words::is_over(task.status) {
            (left_out, ended) = (left_out - 1, ended + 1);
        } else if lines.len() < LINES_MAX {
            lines.push(line(task));
        } else {
            open += 1;
        }
    }
    if 0 < ended {
        lines.insert(0, format!("({ended} earlier tasks have ended and are not shown)"));
    }
    if 0 < open {
        lines.push(format!("({open} more are not shown)"));
    }
    lines.join("\n")
}

fn line(task: &TaskView) -> String {
    let id = &task.task;
    let who = task.name.as_deref().map_or_else(|| id.to_string(), |name| format!("{name} ({id})"));
    let doing = Some(words::doing(task)).filter(|doing| !doing.is_empty()).map(|doing| format!(": {doing}")).unwrap_or_default();
    format!("- {who}, {}, {}{doing}; {} tokens; {}", task.agent, words::status(task.status), task.usage.tokens(), task.description)
}
