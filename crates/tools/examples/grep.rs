//! Searches a folder with the `grep` tool and prints what it took: `grep FOLDER PATTERN [TIMES]`. See bench/grep.sh.
//!
//! One line per time, in milliseconds, with what was found; no rules, no session, nothing but the tool itself.

use std::{sync::Arc, time::Instant};

use posse_session::{BoxFuture, CallId, Live, Outcome, Progress, SessionId, Stop, ToolCall, ToolContext};
use posse_tools::{Keeper, LocalWorkspace};

struct Nobody;

impl Live for Nobody {
    fn show(&self, _progress: Progress) {}
}

impl Stop for Nobody {
    fn is_stopped(&self) -> bool {
        false
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

impl posse_session::Delegate for Nobody {
    fn spawn<'a>(&'a self, _: &'a CallId, _: posse_session::Errand) -> BoxFuture<'a, String> {
        Box::pin(async { "nobody".to_owned() })
    }

    fn send<'a>(&'a self, _: &'a CallId, _: posse_session::Dispatch) -> BoxFuture<'a, Result<posse_session::Sent, String>> {
        Box::pin(async { Err("nobody".to_owned()) })
    }

    fn read<'a>(&'a self, _: &'a CallId, _: posse_session::Inquiry) -> BoxFuture<'a, Result<posse_session::TaskView, String>> {
        Box::pin(async { Err("nobody".to_owned()) })
    }

    fn stop<'a>(&'a self, _: &'a CallId, _: &'a str) -> BoxFuture<'a, Result<posse_session::TaskView, String>> {
        Box::pin(async { Err("nobody".to_owned()) })
    }

    fn list<'a>(&'a self) -> BoxFuture<'a, Result<Vec<posse_session::TaskView>, String>> {
        Box::pin(async { Err("nobody".to_owned()) })
    }

    fn keep<'a>(&'a self, _: &'a CallId, _: String, _: BoxFuture<'static, Option<String>>) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, pattern, times @ ..] = arguments.as_slice() else { return Err("grep FOLDER PATTERN [TIMES]".into()) };
    let times: usize = times.first().map_or(Ok(1), |times| times.parse())?;
    let context = ToolContext {
        session: SessionId::new("ses_bench"),
        workspace: Arc::new(LocalWorkspace::new(folder, folder, Arc::new(Keeper::new()))?),
        live: Arc::new(Nobody),
        stop: Arc::new(Nobody),
        delegate: Arc::new(Nobody),
        spool: std::env::temp_dir(),
        memory: Arc::default(),
    };
    let tool = posse_tools::builtin().into_iter().find(|tool| tool.spec().name == "grep").ok_or("no grep")?;
    for time in 0..times {
        let call = ToolCall { id: CallId::new(format!("call_{time}")), input: serde_json::json!({"pattern": pattern}), answer: None };
        let begun = Instant::now();
        tool.look(&call.input, &*context.workspace)?;
        let outcome = tool.run(&call, &context).await;
        let took = begun.elapsed();
        let Outcome::Done { metadata, .. } = outcome else { return Err(format!("{outcome:?}").into()) };
        println!("{:.1} ms {}", took.as_secs_f64() * 1e3, metadata.unwrap_or_default());
    }
    Ok(())
}
