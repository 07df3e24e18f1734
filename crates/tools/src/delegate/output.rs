//! `task_output` or `TaskOutput`: what a task has come to, at once or when it is done.
//!
//! Reading takes nothing away: the same read gives the same, and `since` gives what is new.

use std::{sync::Arc, time::Duration};

use posse_session::{BoxFuture, Inquiry, Look, Outcome, TaskEnd, TaskView, Tool, ToolCall, ToolContext, ToolSpec, Touch, Workspace};
use serde_json::{Value, json};

use super::{Dialect, TASK, claude, posse, words};
use crate::{
    arguments::{Arguments, Parameter},
    bash_output::BashOutput,
    shells::Shells,
    text::title,
};

const BLOCK: Parameter = Parameter::new("block", &["wait"]);
const TIMEOUT: Parameter = Parameter::new("timeout", &["timeoutMs", "wait_up_to"]);
const SINCE: Parameter = Parameter::new("since", &["offset"]);

/// How long a wait takes when nothing is said: long enough to spare a notice, short enough that a person sees the model act.
const WAIT_DEFAULT: Duration = Duration::from_secs(30);
/// And at most: whoever wants to wait longer ends the turn and is woken by the notice.
const WAIT_MAX: Duration = Duration::from_secs(600);

/// The key of rules about reading tasks, in every dialect.
const KEY: &str = "task_output";

pub(super) struct TaskOutput {
    spec: ToolSpec,
    dialect: Dialect,
    bash_output: BashOutput,
}

impl TaskOutput {
    pub(super) fn new(dialect: Dialect, shells: &Arc<Shells>) -> Self {
        let mut properties = json!({
            "task_id": {"type": "string", "description": "The id or the name of the task."},
            "block": {"type": "boolean", "description": "Wait until the task is done. Default true; false says at once how far it is."},
            "timeout": {
                "type": "integer",
                "minimum": 0,
                "description": format!(
                    "With block: wait at most so many milliseconds. Default {}, at most {}.",
                    WAIT_DEFAULT.as_millis(),
                    WAIT_MAX.as_millis()
                ),
            },
        });
        let (name, description) = match dialect {
            Dialect::Posse | Dialect::OpenCode => {
                properties["since"] = json!({
                    "type": "integer",
                    "minimum": 0,
                    "description": "Only what came after this place: the `next` of an earlier answer."
                });
                let words = "Read what a background task has come to: its result, or what it has done so far. You seldom need this: when a task ends, its result comes to you by itself. \
                    Use it when you cannot go on without the result, with one call that waits; or with block: false to look once how far it is. \
                    Do not call it again and again. After a call that waited for the result, no notice of it comes.";
                ("task_output", words)
            }
            Dialect::Claude => {
                let words = "Deprecated: use Read on the output_file of the agent instead, and wait for its <task-notification>. \
                    Still there to wait for a background agent when you cannot go on without its result (block, the default; no <task-notification> comes after that), \
                    or to look once how far it is (block: false). Do not call it again and again.";
                ("TaskOutput", words)
            }
        };
        let schema = json!({"type": "object", "properties": properties, "required": ["task_id"]});
        Self {
            spec: ToolSpec { name: name.into(), description: description.into(), schema },
            dialect,
            bash_output: BashOutput::new(shells),
        }
    }

    fn inquiry(&self, input: &Value) -> Result<Inquiry, String> {
        let arguments = Arguments::new(if self.dialect == Dialect::Claude { "TaskOutput" } else { "task_output" }, input)?;
        let blocks = arguments.find(BLOCK).is_none() || arguments.flag(BLOCK)?;
        let time = arguments.maybe_number(TIMEOUT)?.map_or(WAIT_DEFAULT, Duration::from_millis).min(WAIT_MAX);
        Ok(Inquiry {
            task: arguments.filled_text(TASK)?.trim().to_owned(),
            wait: (blocks && !time.is_zero()).then_some(time),
            since: arguments.maybe_number(SINCE)?.unwrap_or_default(),
        })
    }
}

impl Tool for TaskOutput {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn look(&self, input: &Value, _workspace: &dyn Workspace) -> Result<Look, String> {
        let inquiry = self.inquiry(input)?;
        let touches = vec![Touch::new(KEY, &inquiry.task)];
        Ok(Look { touches, repeatable: true, polls: true, title: title(&inquiry.task), ..Look::default() })
    }

    fn run<'a>(&'a self, call: &'a ToolCall, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let inquiry = match self.inquiry(&call.input) {
                Ok(inquiry) => inquiry,
                Err(words) => return Outcome::failed(words),
            };
            if words::is_shell(&inquiry.task) {
                let call = ToolCall { input: json!({"shell_id": inquiry.task}), ..call.clone() };
                return self.bash_output.run(&call, context).await;
            }
            let (waited, task) = (inquiry.wait.is_some(), inquiry.task.clone());
            tokio::select! {
                view = context.delegate.read(&call.id, inquiry) => match view {
                    Ok(view) => Outcome::done(words::read(self.dialect, &view, waited)),
                    Err(words) => Outcome::failed(words),
                },
                () = context.stop.stopped() => Outcome::cancelled(format!("(stopped while waiting for {task})")),
            }
        })
    }

    /// The end that was waited for, as its notice would have told it.
    fn ended(&self, end: &TaskEnd) -> String {
        match self.dialect {
            Dialect::Posse | Dialect::OpenCode => posse::noticed(end),
            Dialect::Claude => claude::output(end),
        }
    }

    fn lapsed(&self, view: &TaskView) -> Outcome {
        Outcome::done(words::read(self.dialect, view, true))
    }
}
