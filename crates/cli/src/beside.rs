//! What is done beside conversations: from what the user switched on to what a session's run is told.
//!
//! Decides nothing about when; the run does. Notes are in a folder of the project, and when they were last put in order
//! stands in posse's own data, which no tool opens.

use std::{
    fs::{self, File},
    io::{IsTerminal as _, Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use posse_config::{Config, InternalSettings, Places, notes_of_project};
use posse_engine::{Advising, Consolidation, Handle};
use posse_models::Explorer;
use posse_session::{Birth, By, Command, How, Kind, OpenTask, Purpose, Rule, Rules, Seq, Session, SessionId, Verdict};
use serde::{Deserialize, Serialize};

use crate::print::{flat, to_stderr};

/// More often than this nothing new can be said, and every time costs a model call.
const SUMMARIES_MIN: Duration = Duration::from_secs(1);

/// What is ended has so long to end.
const DISMISS_MAX: Duration = Duration::from_secs(1);

/// So many notes are worth putting in order.
const NOTES_NEW_MIN: usize = 5;

/// Or so much time, with so many sessions in it.
const AGE_MIN: Duration = Duration::from_secs(24 * 60 * 60);
const SESSIONS_MIN: usize = 3;

/// A folder of more notes than this is not counted to its end.
const NOTES_MAX: usize = 10_000;

/// A stamp is a few ids; what is longer is not ours.
const STAMP_BYTES_MAX: u64 = 64 * 1024;

/// What is done beside the conversation of a session that was born like this.
pub(crate) fn advising(
    places: &Places,
    config: &Config,
    birth: &Birth,
    usable: impl Fn(&str) -> Result<String, String>,
    report: impl Fn(&str),
) -> Advising {
    let wanted = &config.internal;
    if birth.kind == Kind::Internal || *wanted == InternalSettings::default() {
        return Advising::default();
    }
    let model = wanted.model.as_deref().and_then(|name| match usable(name) {
        Ok(model) => Some(model),
        Err(words) => {
            report(&format!("posse: internal.model: {words}; using the session's own model"));
            None
        }
    });
    // Rules and search can neither guess nor take notes.
    if birth.recipe.model == Explorer::NAME && model.is_none() {
        return Advising::default();
    }
    let notes = (wanted.memory || wanted.consolidate).then(|| notes_of_project(places));
    if let Some(notes) = notes.as_ref().filter(|notes| notes.own.is_none()) {
        report(&format!("posse: internal.memory: there is a link on the way to {}, so nothing is noted there", notes.dir.display()));
    }
    let notes = notes.filter(|notes| notes.own.is_some());
    let stamp = places.project_data_dir().join("notes-in-order.json");
    Advising {
        suggest: wanted.suggest || wanted.speculate,
        speculate: wanted.speculate,
        remember: notes.as_ref().filter(|_| wanted.memory).map(|notes| notes.remember.as_str().into()),
        consolidate: notes.filter(|_| wanted.consolidate).map(|notes| Consolidation {
            directive: notes.consolidate.as_str().into(),
            // What cannot be read or written is not put in order.
            claim: Arc::new(move |session: &SessionId| claim(&stamp, &notes.dir, session, SystemTime::now()).unwrap_or(false)),
        }),
        summaries: wanted.summaries.map(|every| every.max(SUMMARIES_MIN)),
        model,
    }
}

/// The notes of the project, for the system prompt of whoever the user talks to.
pub(crate) fn notes_for(places: &Places, config: &Config, birth: &Birth) -> Option<String> {
    (config.internal.memory && birth.kind == Kind::Root).then(|| notes_of_project(places).text).flatten()
}

/// The folder that a session may open and nothing else, if it is one that takes notes.
pub(crate) fn only_folder(places: &Places, birth: &Birth) -> Option<Result<PathBuf, String>> {
    let takes_notes = [Purpose::Remember, Purpose::Consolidate].iter().any(|purpose| birth.recipe.agent == purpose.agent());
    if birth.kind != Kind::Internal || birth.parent.is_none() || !takes_notes {
        return None;
    }
    let notes = notes_of_project(places);
    let Some(dir) = notes.own else { return Some(Err(format!("there is a link on the way to {}", notes.dir.display()))) };
    Some(fs::create_dir_all(&dir).map(|()| dir.clone()).map_err(|error| format!("{}: {error}", dir.display())))
}

/// What a session that takes notes may do: nothing but read and write, and its workspace is the folder.
pub(crate) fn notes_rules() -> Rules {
    let rule = |key: &str, action| Rule { key: key.into(), pattern: "*".into(), action, origin: "notes are taken in one folder".into() };
    let allowed = ["read", "edit", "glob", "grep", "list"].map(|key| rule(key, Verdict::Allow));
    Rules(std::iter::once(rule("*", Verdict::Deny)).chain(allowed).collect())
}

/// Ends what is only done beside the conversation. `true`: nothing else was going on, and it has ended.
pub(crate) async fn dismiss(handle: &Handle) -> bool {
    let Ok(Some(session)) = handle.session() else { return false };
    let told: Vec<&SessionId> =
        session.tasks().iter().filter(|(_, open)| is_own(open) && open.stopped.is_none()).map(|(task, _)| task).collect();
    let alone = is_all_beside(&session);
    for task in &told {
        // A run that is gone has nothing beside it.
        let _ = handle.command(Command::StopTask { task: (*task).clone(), by: By::User }).await;
    }
    !told.is_empty() && alone && tokio::time::timeout(DISMISS_MAX, handle.settled()).await.is_ok()
}

/// Ready when an answer is there and only what is done beside it goes on, with the record of the answer.
pub(crate) async fn answered(handle: &Handle) -> Seq {
    loop {
        if let Ok(Some(session)) = handle.session()
            && !session.tasks().is_empty()
            && is_all_beside(&session)
            && session.hold().is_none()
            && session.round().how == How::Completed
            && let Some(reply) = session.round().reply
        {
            return reply;
        }
        handle.changed().await;
    }
}

/// Begun by the session itself; who asks a question beside it waits for the answer elsewhere.
fn is_own(open: &OpenTask) -> bool {
    is_beside(open) && open.purpose != Some(Purpose::Side)
}

/// Nothing goes on but what is done beside the conversation.
fn is_all_beside(session: &Session) -> bool {
    session.only_waits() && session.kept().is_empty() && session.tasks().values().all(is_beside)
}

fn is_beside(open: &OpenTask) -> bool {
    open.purpose.as_ref().is_some_and(|purpose| !matches!(purpose, Purpose::Compact { .. }))
}

/// Says what the user may want to say next, to a user who is there.
pub(crate) fn suggest(suggestion: &str) {
    if std::io::stderr().is_terminal() {
        to_stderr(&format!("next: {}", flat(suggestion)));
    }
}

/// When notes were last put in order, and which sessions have been since.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Stamp {
    /// Milliseconds since 1970.
    #[serde(default)]
    at: u64,
    #[serde(default)]
    sessions: Vec<String>,
}

/// Whether it is time to put the notes in order; then it is the caller's, and nobody else's until it is time again.
fn claim(stamp: &Path, notes: &Path, session: &SessionId, now: SystemTime) -> std::io::Result<bool> {
    if let Some(folder) = stamp.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = File::options().read(true).write(true).create(true).truncate(false).open(stamp)?;
    // Somebody else is just looking, and would be the one.
    if file.try_lock().is_err() {
        return Ok(false);
    }
    let mut text = String::new();
    (&file).take(STAMP_BYTES_MAX).read_to_string(&mut text)?;
    let mut known: Stamp = serde_json::from_str(&text).unwrap_or_default();
    let before = UNIX_EPOCH + Duration::from_millis(known.at);
    let is_new = !known.sessions.iter().any(|seen| seen == session.as_str());
    if is_new && known.sessions.len() < SESSIONS_MIN {
        known.sessions.push(session.to_string());
    }
    let (all, new) = notes_since(notes, before);
    let is_old = now.duration_since(before).is_ok_and(|age| AGE_MIN <= age) && SESSIONS_MIN <= known.sessions.len();
    let is_time = 0 < all && (NOTES_NEW_MIN <= new || is_old);
    if is_time {
        known = Stamp { at: now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64), sessions: Vec::new() };
    }
    if is_time || is_new {
        file.rewind()?;
        file.set_len(0)?;
        file.write_all(serde_json::to_string(&known).unwrap_or_default().as_bytes())?;
    }
    Ok(is_time)
}

/// How many notes there are, and how many were written since.
fn notes_since(dir: &Path, since: SystemTime) -> (usize, usize) {
    let files = fs::read_dir(dir).into_iter().flatten().take(NOTES_MAX).filter_map(Result::ok);
    let notes = files.filter(|file| file.path().extension().is_some_and(|extension| extension == "md") && file.file_name() != "MEMORY.md");
    notes
        .filter_map(|file| file.metadata().ok())
        .filter(|note| note.is_file() && 0 < note.len())
        .fold((0, 0), |(all, new), note| (all + 1, new + usize::from(note.modified().is_ok_and(|written| since < written))))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn note(folder: &Path, name: &str) {
        fs::write(folder.join(name), "something worth knowing").unwrap();
    }

    /// CC-216: five new notes, or a day with three sessions in it; and then not again at once.
    #[test]
    fn notes_are_put_in_order_when_there_is_something_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let (notes, stamp) = (folder.path().join("notes"), folder.path().join("data/stamp.json"));
        fs::create_dir(&notes).unwrap();
        let now = SystemTime::now();
        let by = |name: &str, at: SystemTime| claim(&stamp, &notes, &SessionId::new(name), at).unwrap();
        assert!(!by("ses_1", now), "there is nothing");
        for number in 0..4 {
            note(&notes, &format!("{number}.md"));
        }
        note(&notes, "MEMORY.md");
        note(&notes, "other.txt");
        fs::write(notes.join("empty.md"), "").unwrap();
        assert!(!by("ses_1", now), "four are few");
        note(&notes, "4.md");
        let later = now + Duration::from_secs(60);
        assert!(by("ses_1", later), "five are enough");
        assert!(!by("ses_2", later), "they are in order now");
        let next_day = later + AGE_MIN;
        assert!(!by("ses_2", next_day) && !by("ses_3", next_day) && !by("ses_3", next_day), "two sessions are few");
        assert!(by("ses_4", next_day), "the third is enough after a day");
        assert!(!by("ses_5", next_day));
    }

    /// Two processes come to it at the same time: one of them does it.
    #[test]
    fn only_one_puts_them_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let (notes, stamp) = (folder.path().join("notes"), folder.path().join("stamp.json"));
        fs::create_dir(&notes).unwrap();
        (0..6).for_each(|number| note(&notes, &format!("{number}.md")));
        let now = SystemTime::now() + Duration::from_secs(60);
        let claims: Vec<bool> = std::thread::scope(|scope| {
            let claims: Vec<_> = (0..8)
                .map(|nth| {
                    let (stamp, notes) = (&stamp, &notes);
                    scope.spawn(move || claim(stamp, notes, &SessionId::new(format!("ses_{nth}")), now).unwrap())
                })
                .collect();
            claims.into_iter().map(|claim| claim.join().unwrap()).collect()
        });
        assert_eq!(claims.iter().filter(|claim| **claim).count(), 1, "{claims:?}");
        fs::write(&stamp, "no JSON at all").unwrap();
        assert!(claim(&stamp, &notes, &SessionId::new("ses_9"), now).unwrap(), "a broken stamp is none");
    }
}
