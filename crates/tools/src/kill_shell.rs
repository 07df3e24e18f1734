//! `kill_shell`: ends a background shell with all it has started, and says what it last printed.
//!
//! It is done when nothing of the shell is left, and says so when something is; the task that watches the shell does
//! the ending, so that a shell has one end only.

use std::{sync::Arc, time::Duration};

use posse_session::{BoxFuture, Look, Outcome, Tool, ToolCall, ToolContext, ToolSpec, Workspace};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    arguments::Arguments,
    bash::output::Output,
    bash_output::{SHELL_ID, facts, status},
    private::Private,
    shells::{End, Found, Shell, Shells},
    text::{small, title},
};

/// The watcher takes at most two seconds; beyond, this machine has other troubles and the model should know.
const END_WAIT: Duration = Duration::from_millis(2_500);

pub(crate) struct KillShell {
    spec: ToolSpec,
    shells: Arc<Shells>,
}

impl KillShell {
    pub(crate) fn new(shells: &Arc<Shells>) -> Self {
        let spec = ToolSpec {
            name: "kill_shell".into(),
            description: "End a background shell (bash with run_in_background) and every process it has started. \
                Answers with what it printed since the last read. A shell that has ended by itself needs no kill_shell."
                .into(),
            schema: json!({
                "type": "object",
                "properties": {"shell_id": {"type": "string", "description": "Which shell, for example `bash_1`."}},
                "required": ["shell_id"]
            }),
        };
        Self { spec, shells: Arc::clone(shells) }
    }
}

impl Tool for KillShell {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn look(&self, input: &Value, _workspace: &dyn Workspace) -> Result<Look, String> {
        Ok(Look { title: title(wanted(input)?), ..Look::default() })
    }

    fn run<'a>(&'a self, call: &'a ToolCall, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let shell = async { self.shells.find("kill_shell", wanted(&call.input)?, context).await };
            match shell.await {
                Ok(Found::Shell(shell)) => kill(&shell, context).await,
                Ok(Found::Earlier { words, .. }) => Outcome::done(format!("({words}; there is nothing left to end)\n")),
                Err(words) => Outcome::failed(words),
            }
        })
    }
}

fn wanted(input: &Value) -> Result<&str, String> {
    Arguments::new("kill_shell", input)?.filled_text(SHELL_ID)
}

async fn kill(shell: &Shell, context: &ToolContext) -> Outcome {
    let _reading = shell.reading();
    let had_ended = shell.end().is_some();
    shell.kill();
    let _ = timeout(END_WAIT, shell.ended()).await;
    let news = Output::new(shell.path().to_owned(), Private::of(&*context.workspace)).news(shell.read_to(), false);
    shell.was_read_to(news.to);
    let mut text = news.text;
    if had_ended {
        text.push_str(if text.is_empty() || text.ends_with('\n') { "" } else { "\n" });
        text.push_str("(it had ended before)\n");
    }
    let end = shell.end();
    text.push_str(&status(shell, end.as_ref(), &text, news.to));
    match &end {
        Some(End { all_gone: true, .. }) => {
            let metadata = small(facts(shell, end.as_ref(), news.to), "");
            Outcome::Done { output: text.into(), title: shell.id(), metadata, attachments: Vec::new() }
        }
        Some(_) => Outcome::failed(text),
        None => Outcome::failed(format!("{text}(it was told to end and has not yet; look again with bash_output)\n")),
    }
}
