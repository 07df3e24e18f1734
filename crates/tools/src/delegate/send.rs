//! `send_message` or `SendMessage`: words to an agent that works or has worked.

use posse_session::{BoxFuture, Dispatch, Look, Outcome, TaskEnd, Tool, ToolCall, ToolContext, ToolSpec, Touch, Workspace};
use serde_json::{Value, json};

use super::{Dialect, claude, posse, words};
use crate::{
    arguments::{Arguments, Parameter},
    text::title,
};

const TO: Parameter = Parameter::new("to", &["task_id", "agent_id", "recipient", "name"]);
const MESSAGE: Parameter = Parameter::new("message", &["text", "content", "prompt"]);
const SUMMARY: Parameter = Parameter::new("summary", &[]);

/// The key of rules about messages, in every dialect.
const KEY: &str = "send_message";

pub(super) struct SendMessage {
    spec: ToolSpec,
    dialect: Dialect,
}

impl SendMessage {
    pub(super) fn new(dialect: Dialect) -> Self {
        let spec = match dialect {
            Dialect::Posse | Dialect::OpenCode => ToolSpec {
                name: "send_message".into(),
                description: "Say something to another agent, by the id or the name of its task. One that works reads it before its next step and is not interrupted. \
                    One that has ended works again with what it knows, in the background; its new result comes as a notice. \
                    To correct a task, to add to it, or to ask more of it; not to ask how far it is (task_output)."
                    .into(),
                schema: json!({
                    "type": "object",
                    "properties": {
                        "to": {"type": "string", "description": "The id or the name of the task."},
                        "message": {"type": "string", "description": "What to say. The agent sees nothing else of this conversation."},
                        "summary": {"type": "string", "description": "The same in a few words, for lists."}
                    },
                    "required": ["to", "message"]
                }),
            },
            Dialect::Claude => ToolSpec {
                name: "SendMessage".into(),
                description: "Send a message to an agent that you started, by its `name` or its agentId; after a long time the agentId is the safer one. \
                    A running agent reads it at its next tool round, without being interrupted. \
                    An agent that has ended or was stopped is resumed in the background with what it knows; a <task-notification> comes when it is done."
                    .into(),
                schema: json!({
                    "type": "object",
                    "properties": {
                        "to": {"type": "string", "description": "The agent's name or agentId."},
                        "message": {"type": "string", "description": "What to say, as plain text. The agent sees nothing else of this conversation."},
                        "summary": {"type": "string", "description": "5 to 10 words that say what the message is about."}
                    },
                    "required": ["to", "message", "summary"]
                }),
            },
        };
        Self { spec, dialect }
    }

    fn dispatch(&self, input: &Value) -> Result<Dispatch, String> {
        let tool = if self.dialect == Dialect::Claude { "SendMessage" } else { "send_message" };
        let arguments = Arguments::new(tool, input)?;
        let to = arguments.filled_text(TO)?.trim().to_owned();
        if to == "*" {
            return Err(format!(
                "{tool}: `to: \"*\"` would speak to a whole team, and there are no teams here. Send one message to each agent."
            ));
        }
        if to.starts_with("bridge:") || to.starts_with("uds:") {
            return Err(format!(
                "{tool}: `{to}` is an agent of another session, and those cannot be reached from here. Use the name or the id of an agent that this session started."
            ));
        }
        if self.dialect == Dialect::Claude && arguments.find(MESSAGE).is_some_and(Value::is_object) {
            return Err(format!(
                "{tool}: structured messages are for teammates, and there are no teams here. Send `message` as plain text."
            ));
        }
        let text = arguments.filled_text(MESSAGE)?.to_owned();
        let summary = match self.dialect {
            Dialect::Claude => Some(arguments.filled_text(SUMMARY)?),
            Dialect::Posse | Dialect::OpenCode => arguments.maybe_text(SUMMARY)?,
        };
        Ok(Dispatch { to, text, summary: summary.map(title).filter(|summary| !summary.is_empty()) })
    }
}

impl Tool for SendMessage {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn look(&self, input: &Value, _workspace: &dyn Workspace) -> Result<Look, String> {
        let dispatch = self.dispatch(input)?;
        let about = dispatch.summary.unwrap_or_else(|| title(&dispatch.text));
        Ok(Look {
            touches: vec![Touch::new(KEY, &dispatch.to)],
            // The same call says it once, however often it runs.
            repeatable: true,
            title: title(&format!("{}: {about}", dispatch.to)),
            ..Look::default()
        })
    }

    fn run<'a>(&'a self, call: &'a ToolCall, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let dispatch = match self.dispatch(&call.input) {
                Ok(dispatch) => dispatch,
                Err(words) => return Outcome::failed(words),
            };
            tokio::select! {
                sent = context.delegate.send(&call.id, dispatch) => match sent {
                    Ok(sent) if self.dialect == Dialect::Claude => Outcome::done(claude::sent(&sent)),
                    Ok(sent) => Outcome::done(posse::sent(&sent)),
                    Err(words) => Outcome::failed(words),
                },
                () = context.stop.stopped() => Outcome::cancelled(""),
            }
        })
    }

    fn noticed(&self, end: &TaskEnd) -> String {
        words::noticed(self.dialect, end)
    }
}
