//! The head of a session's requests: the one it has recorded, or what is to be recorded now.

use posse_context::{changes, is_change};
use posse_session::{Command, Event, Hash, Head, Kind, Log, Part, ReadError, Record, Session};

use crate::{hub::OpenError, run::Mail, world::Outfit};

/// The head this session has recorded, if it is for the same agent, model and tools; and what has changed around it.
pub(crate) async fn recorded_head(
    log: &dyn Log,
    session: &Session,
    records: &[Record],
    outfit: &Outfit,
    given: Option<Hash>,
) -> Result<(Option<Head>, Vec<Part>), OpenError> {
    let configured = session.configured();
    let Some(head) = configured.map(|configured| configured.head.clone()).or(given) else { return Ok((None, Vec::new())) };
    // A head that cannot be read back is made anew.
    let bytes = match log.blob(&head).await {
        Err(ReadError::Missing) => return Ok((None, Vec::new())),
        read => read?,
    };
    let Ok(recorded) = serde_json::from_slice::<Head>(&bytes) else { return Ok((None, Vec::new())) };
    // Who begins with the conversation of another keeps its head: the same bytes are the same for the provider's cache.
    let is_root = session.birth().is_some_and(|birth| birth.kind == Kind::Root);
    if configured.is_none() || (session.begins_elsewhere() && !is_root) {
        // The shape of the final answer is not that of a summary, and not that of a fork's report: a provider would force it on both.
        return Ok((Some(Head { answer: None, ..recorded }), Vec::new()));
    }
    let same = configured.is_some_and(|configured| configured.model == outfit.model.facts().name)
        && recorded.answer == outfit.head.answer
        && recorded.tools == outfit.head.tools
        && recorded.params == outfit.head.params
        && recorded.system.first() == outfit.head.system.first();
    // Inside a turn the recorded head stays, whatever is configured now.
    if !same && session.is_between_turns() {
        return Ok((None, Vec::new()));
    }
    let told = last_told(records);
    let changed = changes(&recorded.system, &outfit.head.system).map(Part::reminder);
    Ok((Some(recorded), changed.filter(|note| Some(note) != told).into_iter().collect()))
}

/// The last word on what had changed around the session: the same is not said twice.
fn last_told(records: &[Record]) -> Option<&Part> {
    let told = |note: &&Part| matches!(note, Part::Text { text, synthetic: true } if text.inline().is_some_and(is_change));
    records.iter().rev().find_map(|record| match &record.event {
        Event::StepStarted { notes, .. } => notes.iter().find(told),
        _ => None,
    })
}

/// The place right after the first fact or the take-over.
pub(crate) fn after_the_opening(opening: &[Mail]) -> usize {
    let opens = |mail: &Mail| matches!(mail, Mail::Wish { command: Command::Create(_) | Command::TakeOver, .. });
    opening.iter().position(opens).map_or(0, |at| at + 1)
}
