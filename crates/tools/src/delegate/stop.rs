//! `task_stop` or `TaskStop`: ends a task and everything below it.

use std::sync::Arc;

use posse_session::{BoxFuture, Look, Outcome, Status, Tool, ToolCall, ToolContext, ToolSpec, Touch, Workspace};
use serde_json::{Value, json};

use super::{Dialect, TASK, claude, posse, words};
use crate::{
    arguments::{Arguments, Parameter},
    kill_shell::KillShell,
    shells::Shells,
    text::title,
};

/// An older name for the id, from when only shells ran in the background.
const SHELL: Parameter = Parameter::new("shell_id", &["bash_id"]);

/// The key of rules about stopping tasks, in every dialect.
const KEY: &str = "task_stop";

pub(super) struct TaskStop {
    spec: ToolSpec,
    dialect: Dialect,
    /// A shell that runs in the background is a task too, to whoever speaks of tasks.
    kill_shell: KillShell,
}

impl TaskStop {
    pub(super) fn new(dialect: Dialect, shells: &Arc<Shells>) -> Self {
        let (name, description) = match dialect {
            Dialect::Posse | Dialect::OpenCode => (
                "task_stop",
                "Stop a background task and everything below it: it goes the wrong way, or its result is not needed any more. What it had done comes as a notice.",
            ),
            Dialect::Claude => (
                "TaskStop",
                "Stop a running background agent, by its agentId or name, and everything below it. What it had done comes as a <task-notification>.",
            ),
        };
        let schema = json!({
            "type": "object",
            "properties": {"task_id": {"type": "string", "description": "The id or the name of the task."}},
            "required": ["task_id"]
        });
        Self { spec: ToolSpec { name: name.into(), description: description.into(), schema }, dialect, kill_shell: KillShell::new(shells) }
    }

    fn task(&self, input: &Value) -> Result<String, String> {
        let arguments = Arguments::new(if self.dialect == Dialect::Claude { "TaskStop" } else { "task_stop" }, input)?;
        let named = if arguments.find(TASK).is_none() && arguments.find(SHELL).is_some() { SHELL } else { TASK };
        Ok(arguments.filled_text(named)?.trim().to_owned())
    }
}

impl Tool for TaskStop {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn look(&self, input: &Value, _workspace: &dyn Workspace) -> Result<Look, String> {
        let task = self.task(input)?;
        // What is stopped already stays stopped.
        Ok(Look { touches: vec![Touch::new(KEY, &task)], repeatable: true, title: title(&task), ..Look::default() })
    }

    fn run<'a>(&'a self, call: &'a ToolCall, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let task = match self.task(&call.input) {
                Ok(task) => task,
                Err(words) => return Outcome::failed(words),
            };
            if words::is_shell(&task) {
                let call = ToolCall { input: json!({"shell_id": task}), ..call.clone() };
                return self.kill_shell.run(&call, context).await;
            }
            tokio::select! {
                stopped = context.delegate.stop(&call.id, &task) => match stopped {
                    Ok(view) if matches!(view.status, Status::Completed | Status::Failed | Status::Limit) => Outcome::failed(format!(
                        "The task {} is not running: it is {}. There is nothing to stop.",
                        view.name.as_deref().unwrap_or(view.task.as_str()),
                        words::status(view.status)
                    )),
                    Ok(view) if self.dialect == Dialect::Claude => Outcome::done(claude::stopped(&view)),
                    Ok(view) => Outcome::done(posse::stopped(&view)),
                    Err(words) => Outcome::failed(words),
                },
                () = context.stop.stopped() => Outcome::cancelled(""),
            }
        })
    }
}
