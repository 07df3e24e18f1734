//! What is done beside conversations: from what the user switched on to what a session's run is told.
//!
//! Decides nothing about when; the run does. Notes are in a folder of the project, and when they were last put in order
//! stands in posse's own data, which no tool opens.

use std::{
    fs::{self, File},
    io::{IsTerminal as _, Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use posse_config::{Config, InternalSettings, Places, notes_of_project};
use posse_engine::{Advising, Consolidation, Handle, Upkeep};
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
    claim: &Claim,
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
            upkeep: Arc::new(NotesUpkeep { stamp, notes: notes.dir, claim: claim.clone() }),
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
    /// Who began to put them in order, and has not said that it is done. It counts as long as its process has the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claimed: Option<String>,
}

/// What this process has taken upon itself: for which session, and the lock that the kernel frees with the process.
#[derive(Clone, Default)]
pub(crate) struct Claim(Arc<Mutex<Option<(SessionId, File)>>>);

impl Claim {
    fn held(&self) -> MutexGuard<'_, Option<(SessionId, File)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The notes of a project, and who puts them in order.
struct NotesUpkeep {
    stamp: PathBuf,
    notes: PathBuf,
    claim: Claim,
}

impl Upkeep for NotesUpkeep {
    // What cannot be read or written is not put in order.
    fn claim(&self, session: &SessionId) -> bool {
        self.try_claim(session, SystemTime::now()).unwrap_or(false)
    }

    fn claim_again(&self, session: &SessionId) -> bool {
        self.try_claim_again(session).unwrap_or(false)
    }

    fn done(&self, session: &SessionId) {
        // It would be done once more, by the next one whose time it is.
        let _ = self.note_done(session, SystemTime::now());
    }
}

impl NotesUpkeep {
    /// Whether it is time to put the notes in order; then it is the caller's, and nobody else's until it is done or this
    /// process is gone.
    fn try_claim(&self, session: &SessionId, now: SystemTime) -> std::io::Result<bool> {
        let mut file = self.open_stamp()?;
        // Somebody else is just looking, and would be the one.
        if file.try_lock().is_err() {
            return Ok(false);
        }
        let mut known = read_stamp(&file)?;
        let before = UNIX_EPOCH + Duration::from_millis(known.at);
        let is_new = !known.sessions.iter().any(|seen| seen == session.as_str());
        if is_new && known.sessions.len() < SESSIONS_MIN {
            known.sessions.push(session.to_string());
        }
        let (all, new) = notes_since(&self.notes, before);
        let is_old = now.duration_since(before).is_ok_and(|age| AGE_MIN <= age) && SESSIONS_MIN <= known.sessions.len();
        let is_time = 0 < all && (NOTES_NEW_MIN <= new || is_old);
        let is_ours = is_time && self.take(session)?;
        if is_ours {
            known.claimed = Some(session.to_string());
        }
        if is_ours || is_new {
            write_stamp(&mut file, &known)?;
        }
        Ok(is_ours)
    }

    fn try_claim_again(&self, session: &SessionId) -> std::io::Result<bool> {
        let file = self.open_stamp()?;
        file.lock()?;
        let is_claimed = read_stamp(&file)?.claimed.as_deref() == Some(session.as_str());
        Ok(is_claimed && self.take(session)?)
    }

    /// From now on only what is written later is new.
    fn note_done(&self, session: &SessionId, now: SystemTime) -> std::io::Result<()> {
        let mut held = self.claim.held();
        if held.as_ref().is_none_or(|(claimed, _)| claimed != session) {
            return Ok(());
        }
        let mut file = self.open_stamp()?;
        file.lock()?;
        let at = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let written = write_stamp(&mut file, &Stamp { at, ..Stamp::default() });
        *held = None;
        written
    }

    /// `false`: another session of a process that lives has it.
    fn take(&self, session: &SessionId) -> std::io::Result<bool> {
        let mut held = self.claim.held();
        if let Some((claimed, _)) = &*held {
            return Ok(claimed == session);
        }
        let lock = File::options().read(true).write(true).create(true).truncate(false).open(self.stamp.with_extension("lock"))?;
        let is_free = lock.try_lock().is_ok();
        if is_free {
            *held = Some((session.clone(), lock));
        }
        Ok(is_free)
    }

    fn open_stamp(&self) -> std::io::Result<File> {
        if let Some(folder) = self.stamp.parent() {
            fs::create_dir_all(folder)?;
        }
        File::options().read(true).write(true).create(true).truncate(false).open(&self.stamp)
    }
}

fn read_stamp(file: &File) -> std::io::Result<Stamp> {
    let mut text = String::new();
    file.take(STAMP_BYTES_MAX).read_to_string(&mut text)?;
    // A broken stamp is none.
    Ok(serde_json::from_str(&text).unwrap_or_default())
}

fn write_stamp(file: &mut File, stamp: &Stamp) -> std::io::Result<()> {
    file.rewind()?;
    file.set_len(0)?;
    file.write_all(serde_json::to_string(stamp).unwrap_or_default().as_bytes())
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

    /// The notes of a folder, as a process of its own knows them.
    fn process(folder: &Path) -> NotesUpkeep {
        NotesUpkeep { stamp: folder.join("data/stamp.json"), notes: folder.join("notes"), claim: Claim::default() }
    }

    fn with_notes(count: usize) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("notes")).unwrap();
        (0..count).for_each(|number| note(&folder.path().join("notes"), &format!("{number}.md")));
        folder
    }

    /// CC-216: five new notes, or a day with three sessions in it; and then not again at once.
    #[test]
    fn notes_are_put_in_order_when_there_is_something_to_do() {
        let folder = with_notes(0);
        let (notes, now) = (folder.path().join("notes"), SystemTime::now());
        let by = |name: &str, at: SystemTime| {
            let (process, session) = (process(folder.path()), SessionId::new(name));
            let is_ours = process.try_claim(&session, at).unwrap();
            process.note_done(&session, at).unwrap();
            is_ours
        };
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

    /// Many processes come to it at the same time: one of them does it, and the others only when that one is gone.
    #[test]
    fn only_one_puts_them_in_order() {
        let folder = with_notes(6);
        let now = SystemTime::now() + Duration::from_secs(60);
        let processes: Vec<NotesUpkeep> = (0..8).map(|_| process(folder.path())).collect();
        let claims: Vec<bool> = std::thread::scope(|scope| {
            let claims: Vec<_> = processes
                .iter()
                .enumerate()
                .map(|(nth, process)| scope.spawn(move || process.try_claim(&SessionId::new(format!("ses_{nth}")), now).unwrap()))
                .collect();
            claims.into_iter().map(|claim| claim.join().unwrap()).collect()
        });
        assert_eq!(claims.iter().filter(|claim| **claim).count(), 1, "{claims:?}");
        fs::write(&processes[0].stamp, "no JSON at all").unwrap();
        drop(processes);
        assert!(process(folder.path()).try_claim(&SessionId::new("ses_9"), now).unwrap(), "a broken stamp is none");
    }

    /// A claim is worth what its process is: the kernel frees it, and the next one need not wait for another day.
    #[test]
    fn the_claim_of_a_dead_process_is_free_again() {
        let folder = with_notes(5);
        let now = SystemTime::now() + Duration::from_secs(60);
        let (first, second) = (SessionId::new("ses_1"), SessionId::new("ses_2"));
        let claim = |process: &NotesUpkeep, session: &SessionId| process.try_claim(session, now).unwrap();
        let alive = process(folder.path());
        assert!(claim(&alive, &first) && !claim(&process(folder.path()), &second), "it lives");
        drop(alive);
        // Whoever goes on with the first goes on with its notes.
        let goes_on = process(folder.path());
        assert!(!goes_on.try_claim_again(&second).unwrap() && goes_on.try_claim_again(&first).unwrap());
        drop(goes_on);
        // Nobody did: another one does it, and then it is nobody's.
        let another = process(folder.path());
        assert!(claim(&another, &second) && !process(folder.path()).try_claim_again(&first).unwrap());
        another.note_done(&second, now).unwrap();
        let late = process(folder.path());
        assert!(!late.try_claim_again(&first).unwrap() && !claim(&late, &first), "they are in order");
        assert!(late.claim.held().is_none(), "and nothing is held");
    }
}
