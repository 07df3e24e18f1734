//! `/fork` and `posse sessions fork`: a new session that begins with what another has said, up to any of its steps.
//!
//! The new one is a root of its own: nothing of the old one goes on in it, and the old one never hears of it. It shows
//! the old one's records and copies none, so it costs nothing however long the conversation is.

use posse_api::Client as _;
use posse_engine::OpenError;
use posse_session::{Birth, Entry, Event, Kind, Record, Segment, Session, SessionId, Summary};

use super::{Desk, PAGE, known_commands, open_failure};
use crate::{
    args::How,
    build,
    exit::{Exit, Failure},
    print::{to_stderr, to_stdout},
};

/// What `/fork` says: after which step, and what is said next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Wish {
    pub(crate) at: Option<u64>,
    pub(crate) words: String,
}

/// Whether these words are a wish to fork: `/fork`, `/fork 3`, `/fork try it another way`, `/fork 3 try it another way`.
pub(crate) fn wish(prompt: &str) -> Option<Wish> {
    let rest = prompt.trim_start().strip_prefix("/fork")?;
    if !rest.is_empty() && !rest.starts_with(char::is_whitespace) {
        return None;
    }
    let rest = rest.trim();
    let (first, more) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    Some(match first.parse() {
        Ok(at) => Wish { at: Some(at), words: more.trim().to_owned() },
        Err(_) => Wish { at: None, words: rest.to_owned() },
    })
}

/// A place in a conversation where another may begin.
struct Cut {
    segments: Vec<Segment>,
    /// After so many answers of the model.
    step: u64,
}

pub(crate) async fn fork(id: &str, at: Option<u64>, how: How) -> Result<Exit, Failure> {
    let places = build::places(how.cwd.as_deref())?;
    let config = build::configuration(&places, &how)?;
    build::warn(&config, how.quiet);
    let desk = Desk::new(places, config, how)?;
    let source = desk.client.find(id).await.map_err(super::client_failure)?;
    let root = desk.find(id).await?;
    desk.at(&root)?.branch(&source, at, None).await
}

impl Desk {
    /// A session that goes on from a step of another one: with these words, or with those that come later.
    pub(super) async fn branch(self, source: &Summary, at: Option<u64>, entry: Option<Entry>) -> Result<Exit, Failure> {
        if source.kind == Some(Kind::Internal) {
            return Err(Failure::usage(format!("{} is internal work: fork the session it is about", source.session)));
        }
        let unreadable = |error| open_failure(OpenError::from(error));
        let log = self.hub.world().log.clone();
        let mut records: Vec<Record> = Vec::new();
        loop {
            let after = records.last().map_or(0, |last| last.seq);
            let page = log.read(&source.session, after, PAGE).await.map_err(unreadable)?;
            if page.is_empty() {
                break;
            }
            records.extend(page);
        }
        let cut = cut(&source.session, &records, at).map_err(Failure::usage)?;
        posse_engine::restore(&*log, &mut records[..1]).await.map_err(unreadable)?;
        let missing = || Failure::failed(format!("{} has no beginning", source.session));
        let born = records.first().and_then(|record| Birth::of(&record.event)).ok_or_else(missing)?;
        let model = self.model_of(source, &born.recipe.model)?;
        let name = model.facts().name.clone();
        let wardrobe = self.wardrobe(self.agents()?, model, "", &source.agent)?;
        entry.iter().try_for_each(|entry| known_commands(&wardrobe, entry))?;
        let session = SessionId::fresh(&*self.hub.world().ids);
        let mut recipe = born.recipe;
        recipe.model = name;
        let birth = Birth {
            kind: Kind::Root,
            root: session.clone(),
            parent: None,
            directory: self.places.cwd.display().to_string(),
            title: format!("{} (fork at step {})", source.title, cut.step),
            recipe,
            worktree: None,
            within: None,
            // Whoever is allowed less is allowed less in every copy of its words.
            ceiling: born.ceiling,
            depth: 0,
            strict_shell: born.strict_shell,
        };
        let speaks = entry.is_some();
        if speaks && !self.how.quiet {
            to_stderr(&format!("posse: {} is forked at step {} as {session}", source.session, cut.step));
        }
        let narrator = speaks.then(|| self.narrator(&session, 0));
        let created = birth.into_created();
        let handle = self.hub.fork(session.clone(), created, cut.segments, entry, wardrobe, self.limits()).await.map_err(open_failure)?;
        let Some(narrator) = narrator else {
            handle.settled().await.map_err(|error| Failure::failed(error.to_string()))?;
            handle.close().await;
            to_stdout(session.as_str());
            if !self.how.quiet {
                to_stderr(&format!(
                    "posse: begins with {} up to step {}; `posse run -s {session} PROMPT` goes on with it",
                    source.session, cut.step
                ));
            }
            return Ok(Exit::Done);
        };
        self.drive(handle, super::Since::default(), narrator).await
    }
}

/// What the conversation was after the `at`-th answer and the results of its calls; without one, what it is now.
fn cut(session: &SessionId, records: &[Record], at: Option<u64>) -> Result<Cut, String> {
    let answers = || records.iter().filter(|record| matches!(record.event, Event::Replied { author: None, .. }));
    let steps = answers().count() as u64;
    let step = at.unwrap_or(steps);
    if step == 0 || steps < step {
        let has = match steps {
            0 => "nothing was answered in it yet".to_owned(),
            1 => "it has 1 step".to_owned(),
            _ => format!("it has steps 1 to {steps}"),
        };
        return Err(format!("{session} cannot be forked at step {step}: {has}"));
    }
    let reply = usize::try_from(step - 1).ok().and_then(|nth| answers().nth(nth)).map_or(0, |record| record.seq);
    let next = records.iter().find(|record| reply < record.seq && matches!(record.event, Event::StepStarted { .. }));
    let end = next.map_or_else(|| records.last().map_or(0, |last| last.seq), |next| next.seq - 1);
    // What was to be said next stands before the step that says it, and is no part of this one.
    let is_next = |record: &&Record| matches!(record.event, Event::Queued { .. } | Event::Expanding { .. } | Event::Expanded { .. });
    let until = &records[..records.partition_point(|record| record.seq <= end)];
    let to = until.iter().rev().find(|record| !is_next(record)).map_or(reply, |last| last.seq);
    // As it was then: a later summary or a later undo is not part of it.
    let then = Session::fold(session.clone(), records.iter().take_while(|record| record.seq <= to));
    Ok(Cut { segments: then.segments(), step })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_to_fork_is_told_from_other_words() {
        let wished = |at, words: &str| Some(Wish { at, words: words.into() });
        for (typed, expected) in [
            ("/fork", wished(None, "")),
            ("  /fork 3", wished(Some(3), "")),
            ("/fork 3 try it\nanother way", wished(Some(3), "try it\nanother way")),
            ("/fork try 3 ways", wished(None, "try 3 ways")),
            ("/forks", None),
            ("fork", None),
            ("do /fork", None),
        ] {
            assert_eq!(wish(typed), expected, "{typed}");
        }
    }
}
