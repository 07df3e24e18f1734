//! `bash_output`: what a background shell has printed since the last read, and how it stands.
//!
//! Reads the shell's spool file, so that what was said once can be read again with an explicit `since`. Can wait for
//! something new instead of being called again and again. Knows of processes only what the registry tells.

use std::{sync::Arc, time::Duration};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use posse_session::{BoxFuture, Look, Outcome, Tool, ToolCall, ToolContext, ToolSpec, Workspace};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

use crate::{
    arguments::{Arguments, Parameter},
    bash::{
        output::{News, Output},
        watch::TICK,
    },
    private::Private,
    shells::{End, Found, Shell, Shells},
    text::{small, title},
};

pub(crate) const SHELL_ID: Parameter = Parameter::new("shell_id", &["bash_id", "id", "task_id", "shell"]);
const FILTER: Parameter = Parameter::new("filter", &["pattern", "regex"]);
const SINCE: Parameter = Parameter::new("since", &["offset"]);
const BLOCK: Parameter = Parameter::new("block", &["wait"]);
const TIMEOUT: Parameter = Parameter::new("timeout", &["timeoutMs", "wait_up_to"]);

/// How long a wait takes when nothing is said, and at most: a run that shows no sign of life for longer is ended.
const WAIT_DEFAULT: Duration = Duration::from_secs(30);
const WAIT_MAX: Duration = Duration::from_secs(600);

pub(crate) struct BashOutput {
    spec: ToolSpec,
    shells: Arc<Shells>,
}

struct Wanted {
    shell: String,
    filter: Option<RegexMatcher>,
    since: Option<u64>,
    wait: Option<Duration>,
}

impl BashOutput {
    pub(crate) fn new(shells: &Arc<Shells>) -> Self {
        let spec = ToolSpec {
            name: "bash_output".into(),
            description:
                "Read what a background shell (bash with run_in_background) has printed since the last read, and whether it still runs. \
                Every answer ends with the offset for the next read; with `since` an earlier part is read again. \
                To wait for a server or a build, use block: true once instead of asking again and again."
                    .into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "shell_id": {"type": "string", "description": "Which shell, for example `bash_1`."},
                    "filter": {"type": "string", "description": "Only lines that match this regular expression."},
                    "since": {"type": "integer", "minimum": 0, "description": "Read from this byte on. Default: where the last read ended."},
                    "block": {"type": "boolean", "description": "Wait until there is something new (with filter: a line that matches) or the shell has ended."},
                    "timeout": {"type": "integer", "minimum": 1, "description": "With block: wait at most so many milliseconds. Default 30000, at most 600000."}
                },
                "required": ["shell_id"]
            }),
        };
        Self { spec, shells: Arc::clone(shells) }
    }
}

impl Tool for BashOutput {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn look(&self, input: &Value, _workspace: &dyn Workspace) -> Result<Look, String> {
        Ok(Look { repeatable: true, polls: true, title: title(&wanted(input)?.shell), ..Look::default() })
    }

    fn run<'a>(&'a self, call: &'a ToolCall, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let run = async {
                let wanted = wanted(&call.input)?;
                match self.shells.find("bash_output", &wanted.shell, context).await? {
                    Found::Shell(shell) => read(&shell, &wanted, context).await,
                    Found::Earlier { words, path } => {
                        let rest = path.map(|path| format!("; its output is in {} (use read)", path.display())).unwrap_or_default();
                        Ok(Outcome::done(format!("({words}{rest})\n")))
                    }
                }
            };
            run.await.unwrap_or_else(Outcome::failed)
        })
    }
}

fn wanted(input: &Value) -> Result<Wanted, String> {
    let arguments = Arguments::new("bash_output", input)?;
    let shell = arguments.filled_text(SHELL_ID)?.to_owned();
    let filter = arguments.maybe_text(FILTER)?.filter(|filter| !filter.is_empty());
    let filter = filter.map(|filter| RegexMatcherBuilder::new().build(filter).map_err(|error| (filter, error))).transpose();
    let filter = filter.map_err(|(filter, error)| format!("bash_output: `{filter}` is not a valid regular expression: {error}"))?;
    let time = arguments.maybe_number(TIMEOUT)?.map_or(WAIT_DEFAULT, Duration::from_millis).min(WAIT_MAX);
    Ok(Wanted { shell, filter, since: arguments.maybe_number(SINCE)?, wait: arguments.flag(BLOCK)?.then_some(time) })
}

async fn read(shell: &Shell, wanted: &Wanted, context: &ToolContext) -> Result<Outcome, String> {
    let _reading = shell.reading();
    let deadline = Instant::now() + wanted.wait.unwrap_or_default();
    let mut from = wanted.since.unwrap_or_else(|| shell.read_to());
    loop {
        // Asked before the file is read: what was printed before the end is then in it.
        let has_ended = shell.end().is_some();
        let news = news(shell, from, !has_ended, wanted, context).await?;
        if !news.text.is_empty() || has_ended || deadline <= Instant::now() {
            return Ok(answer(shell, news, wanted));
        }
        from = news.to;
        tokio::select! {
            () = context.stop.stopped() => return Ok(Outcome::cancelled(format!("(stopped while waiting for {})\n", shell.id()))),
            _ = shell.ended() => {}
            () = grown(shell, news.end, context) => {}
            () = sleep_until(deadline) => {}
        }
    }
}

async fn news(shell: &Shell, from: u64, more_may_come: bool, wanted: &Wanted, context: &ToolContext) -> Result<News, String> {
    let output = Output::new(shell.path().to_owned(), Private::of(&*context.workspace));
    let (filter, stop) = (wanted.filter.clone(), Arc::clone(&context.stop));
    // A filter may have a gigabyte to go through.
    let read = move || match filter {
        None => Ok(output.news(from, more_may_come)),
        Some(filter) => output.matching(from, more_may_come, &filter, &|| stop.is_stopped()),
    };
    let read = tokio::task::spawn_blocking(read).await.map_err(|error| format!("bash_output: {error}"))?;
    read.map_err(|error| format!("bash_output: the output of {} cannot be read: {error}", shell.id()))
}

/// Ready when the output is longer than `end`.
async fn grown(shell: &Shell, end: u64, context: &ToolContext) {
    let output = Output::new(shell.path().to_owned(), Private::of(&*context.workspace));
    while output.bytes() <= end {
        sleep(TICK).await;
    }
}

fn answer(shell: &Shell, news: News, wanted: &Wanted) -> Outcome {
    shell.was_read_to(news.to);
    let end = shell.end();
    let (mut text, matching) = (news.text, if wanted.filter.is_some() { " that matches" } else { "" });
    if text.is_empty() {
        let waited = wanted.wait.filter(|_| end.is_none()).map(|time| format!(" within {} ms", time.as_millis()));
        text = format!("(no new output{matching}{})\n", waited.unwrap_or_default());
    }
    text.push_str(&status(shell, end.as_ref(), &text, news.to));
    let metadata = small(facts(shell, end.as_ref(), news.to), "");
    Outcome::Done { output: text.into(), title: shell.id(), metadata, attachments: Vec::new() }
}

/// The last line of an answer about a shell. With an end in it, the model needs no notice.
pub(crate) fn status(shell: &Shell, end: Option<&End>, before: &str, to: u64) -> String {
    if end.is_some() {
        shell.was_told();
    }
    let newline = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    format!("{newline}({}; next read: since {to})\n", shell.state(end))
}

/// What screens may want to know of a shell.
pub(crate) fn facts(shell: &Shell, end: Option<&End>, to: u64) -> Value {
    let mut facts = json!({
        "shell_id": shell.id(),
        "status": end.map_or("running", End::word),
        "since": to,
        "outputPath": shell.path().display().to_string(),
    });
    if let Some(exit) = end.and_then(End::exit) {
        facts["exit"] = exit.into();
    }
    facts
}
