//! `todoread`: the session's list of steps as `todowrite` keeps it, also after a restart or when the context was summed up.

use posse_session::{BoxFuture, Look, Outcome, Tool, ToolCall, ToolContext, ToolSpec, Touch, Workspace};
use serde_json::{Value, json};

use crate::{arguments::Arguments, todowrite};

pub(crate) struct TodoRead(ToolSpec);

impl TodoRead {
    pub(crate) fn new() -> Self {
        Self(ToolSpec {
            name: "todoread".into(),
            description:
                "Show the list of steps as todowrite last wrote it: `[x]` completed, `[>]` in progress, `[ ]` pending, `[-]` cancelled. \
                Use it when you are not sure what is left to do, for example after a long pause."
                    .into(),
            schema: json!({"type": "object", "properties": {}}),
        })
    }
}

impl Tool for TodoRead {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn look(&self, input: &Value, _workspace: &dyn Workspace) -> Result<Look, String> {
        Arguments::new("todoread", input)?;
        Ok(Look { touches: vec![Touch::new("todoread", "*")], repeatable: true, title: "steps".into(), ..Look::default() })
    }

    fn run<'a>(&'a self, _call: &'a ToolCall, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        // A small file, and only the first time after a start.
        Box::pin(async move { todowrite::shown(&todowrite::kept(context)) })
    }
}
