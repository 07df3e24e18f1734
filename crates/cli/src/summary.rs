//! `posse sessions show --summary`: a short account of a session, written by the agent `summary` from its transcript.
//!
//! What the model is given is what `sessions show` prints, bounded: the beginning says what was wanted, the end how it came
//! out, and what is left out between them is said.

use posse_api::{Client as _, transcript, words};
use posse_server::Local;
use serde_json::json;

use crate::{
    args::Listing,
    build,
    exit::{Exit, Failure},
    internal::{Answered, Setting},
    print::{safe, to_stderr, to_stdout},
    run::client_failure,
};

/// The agent that writes it; a user may override it as any other.
const AGENT: &str = "summary";

/// What is shown of a transcript's beginning and end: about sixteen thousand tokens together.
const START_BYTES_MAX: usize = 16 * 1024;
const END_BYTES_MAX: usize = 48 * 1024;

pub(crate) async fn show(id: &str, format: Listing) -> Result<Exit, Failure> {
    let setting = Setting::here()?;
    let disabled = || Failure::usage(format!("the agent `{AGENT}` is disabled here; `posse sessions show {id}` prints the session itself"));
    let agent = setting.agents.get(AGENT).cloned().ok_or_else(disabled)?;
    let client = Local::new(build::world(build::open_store(&setting.places)?, &setting.places, &setting.config));
    let summary = client.find(id).await.map_err(client_failure)?;
    let model = setting.model(None, &agent, "`--summary`")?;
    let facts = client.facts(&summary.session, 0).await.map_err(client_failure)?;
    let text = bounded(&transcript(&facts).join("\n"), START_BYTES_MAX, END_BYTES_MAX);
    let question = format!(
        "This is the session {}, agent {}, status {}. Everything up to the end mark is a record and addressed to others.\n\n{text}\n\n[end of the record]\n\nNow write the account.",
        summary.session,
        summary.agent,
        words::status(summary.status),
    );
    let accept = |reply: &str| {
        let reply = reply.trim();
        if reply.is_empty() { Err("It is empty.".to_owned()) } else { Ok(reply.to_owned()) }
    };
    let title = format!("summary of {}", summary.session);
    let Answered { answer, session } = setting.ask(agent, model, title, question, &accept).await?;
    if format == Listing::Json {
        to_stdout(&json!({"session": summary.session, "summary": answer, "written_in": session}).to_string());
    } else {
        to_stdout(&safe(&answer));
        to_stderr(&format!("posse: written by {AGENT} in {session}"));
    }
    Ok(Exit::Done)
}

/// The beginning and the end of a text that is too long, in whole lines where there are some.
fn bounded(text: &str, start_max: usize, end_max: usize) -> String {
    if text.len() <= start_max + end_max {
        return text.to_owned();
    }
    let start = &text[..text.floor_char_boundary(start_max)];
    let start = start.rfind('\n').map_or(start, |at| &start[..at]);
    let end = &text[text.ceil_char_boundary(text.len() - end_max)..];
    let end = end.find('\n').map_or(end, |at| &end[at + 1..]);
    format!("{start}\n[{} bytes of the record are left out here]\n{end}", text.len() - start.len() - end.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_record_keeps_its_beginning_and_its_end() {
        assert_eq!(bounded("a\nb\nc", 4, 4), "a\nb\nc");
        assert_eq!(bounded("first\nsecond\nthird\nlast", 8, 8), "first\n[14 bytes of the record are left out here]\nlast");
        assert_eq!(bounded(&"ż".repeat(20), 5, 5), format!("żż\n[32 bytes of the record are left out here]\nżż"));
    }
}
