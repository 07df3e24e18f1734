//! The one writer of this process: a thread that commits everything that waits in one transaction.
//!
//! Flushing to disk is what an append costs, so appends that arrive during one flush share the next. Each wish has
//! its own savepoint and fails alone; an answer is given only after the commit. What a wish does to the tables is in
//! `append.rs`, `remove.rs` and `views.rs`.
//!
//! No space is set aside for a last word on a full disk. There is none to say: a log is whole after every append and
//! what a session owes follows from it, so a run that stops is resumable without an event that says so. A reserve would
//! be eaten by whatever else fills the disk, or let the run go on for a megabyte and stop it then.

use std::{io, path::PathBuf, sync::Arc, thread, time::Duration};

use posse_session::{AppendError, Epoch, LetterId, Posted, SavedFold, SessionId};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::{append::Cache, bell::Bell, damage, folds, presence::Presence, remove, schema, space, views};
use crate::{
    error::words,
    process::{self, AtWork},
    ready::Ready,
};

/// Wishes waiting for the writer; more wait in their own tasks. Ten times the sessions we expect to write at once.
const WISHES_MAX: usize = 1024;

/// One transaction's share: enough that a flush costs little per wish, few enough that nobody waits long for it.
const GROUP_MAX: usize = 256;

/// Each try waits for the lock as long as `schema` says; after this many the disk or another process is stuck.
const BEGIN_TRIES: u32 = 3;

pub(super) enum Wish {
    Append(Box<Ready>),
    /// Answered with the new epoch.
    Take(SessionId),
    Post {
        posted: Box<Posted>,
        body: String,
    },
    /// Answered with 1 if the letter was still there.
    Withdraw(LetterId),
    /// Answered with the number of sessions removed.
    Remove {
        root: SessionId,
        epoch: Epoch,
    },
    SaveFold(SavedFold),
    /// Hands free space back to the disk; answered with how many bytes. Not part of a transaction.
    GiveBack,
    /// Makes all views anew.
    Rebuild,
    /// Makes the views anew that are missing or of another version.
    Mend,
}

type Answer = Result<u64, AppendError>;

pub(super) struct Job {
    wish: Wish,
    reply: oneshot::Sender<Answer>,
}

/// The way to the thread, which ends when this is dropped and its last wish is answered.
pub(super) enum Writer {
    Thread(mpsc::Sender<Job>),
    /// The file can only be read, for this reason.
    Nobody(String),
}

impl Writer {
    /// `presence` is kept as long as the file is open: closing it last may remove the log beside it by its name.
    pub(super) fn start(connection: Connection, path: PathBuf, bell: Arc<Bell>, presence: Arc<Presence>) -> io::Result<Self> {
        let (jobs, waiting) = mpsc::channel(WISHES_MAX);
        let desk = Desk { connection, path, bell, cache: Cache::default(), is_settled: true };
        let at_work = AtWork::begin();
        thread::Builder::new().name("posse-writer".to_owned()).spawn(move || {
            desk.run(waiting);
            drop((presence, at_work));
        })?;
        Ok(Self::Thread(jobs))
    }

    /// Durable when it returns.
    pub(super) async fn grant(&self, wish: Wish) -> Answer {
        let jobs = match self {
            Self::Thread(jobs) => jobs,
            Self::Nobody(why) => return Err(AppendError::Unavailable(why.clone())),
        };
        let (reply, answer) = oneshot::channel();
        let stopped = || AppendError::Unavailable("the writer of the log has stopped; start posse again".to_owned());
        jobs.send(Job { wish, reply }).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }

    /// Done when there is time for it.
    pub(super) fn suggest(&self, wish: Wish) {
        if let Self::Thread(jobs) = self {
            let _ = jobs.try_send(Job { wish, reply: oneshot::channel().0 });
        }
    }
}

/// What the thread has.
struct Desk {
    connection: Connection,
    path: PathBuf,
    bell: Arc<Bell>,
    cache: Cache,
    /// Nothing was written here since the log was moved into the database.
    is_settled: bool,
}

impl Desk {
    fn run(mut self, mut waiting: mpsc::Receiver<Job>) {
        while let Some(first) = waiting.blocking_recv() {
            if let Wish::GiveBack = first.wish {
                self.give_back(first.reply);
                continue;
            }
            let mut group = vec![first];
            let mut last = None;
            while group.len() < GROUP_MAX
                && last.is_none()
                && let Ok(job) = waiting.try_recv()
            {
                match job.wish {
                    Wish::GiveBack => last = Some(job.reply),
                    _ => group.push(job),
                }
            }
            self.serve(group);
            if let Some(reply) = last {
                self.give_back(reply);
            }
        }
        self.settle();
    }

    /// Moves the log into the database, where each page is for itself: a log that is hurt loses what came after. Waits for
    /// nobody and fails nobody: who reads or writes meanwhile does it later.
    fn settle(&self) {
        if !self.is_settled && self.connection.busy_timeout(Duration::ZERO).is_ok() {
            let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        }
    }

    fn give_back(&self, reply: oneshot::Sender<Answer>) {
        let freed = space::give_back(&self.connection).map_err(|error| AppendError::Unavailable(words(&self.path, &error)));
        let _ = reply.send(freed);
    }

    fn serve(&mut self, group: Vec<Job>) {
        match self.commit(&group) {
            Ok(answers) => {
                self.is_settled = false;
                let is_fact = |wish: &Wish| matches!(wish, Wish::Append(_) | Wish::Post { .. } | Wish::Withdraw(_) | Wish::Remove { .. });
                if group.iter().zip(&answers).any(|(job, answer)| answer.is_ok() && is_fact(&job.wish)) {
                    process::note_written();
                }
                // What was removed for good is not to be read in the old pages of the log either. A reader may be in
                // the way; then a later checkpoint does it.
                if group.iter().any(|job| matches!(job.wish, Wish::Remove { .. })) {
                    let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
                }
                for (job, answer) in group.into_iter().zip(answers) {
                    self.ring_for(&job.wish, &answer);
                    // Who asked may be gone; the facts are there all the same.
                    let _ = job.reply.send(answer);
                }
            }
            Err(error) => {
                self.cache.clear();
                damage::note_if_damaged(&self.path, &error);
                let why = words(&self.path, &error);
                for job in group {
                    let _ = job.reply.send(Err(AppendError::Unavailable(why.clone())));
                }
            }
        }
    }

    fn ring_for(&self, wish: &Wish, answer: &Answer) {
        match (wish, answer) {
            (Wish::Append(ready), Ok(head)) => {
                self.bell.ring(&ready.append.session, *head);
                if !ready.append.letters.is_empty() {
                    self.bell.ring_letters();
                }
            }
            (Wish::Post { .. } | Wish::Withdraw(_) | Wish::Remove { .. }, Ok(_)) => self.bell.ring_letters(),
            _ => {}
        }
    }

    fn commit(&mut self, group: &[Job]) -> rusqlite::Result<Vec<Answer>> {
        self.begin()?;
        let done = self.fill(group).and_then(|answers| {
            self.connection.prepare_cached("COMMIT")?.execute([])?;
            Ok(answers)
        });
        if done.is_err() && !self.connection.is_autocommit() {
            self.connection.execute_batch("ROLLBACK")?;
        }
        done
    }

    fn begin(&mut self) -> rusqlite::Result<()> {
        for _ in 1..BEGIN_TRIES {
            match self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([]) {
                Err(error) if schema::is_busy(&error) => {}
                other => return other.map(drop),
            }
        }
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([]).map(drop)
    }

    fn fill(&mut self, group: &[Job]) -> rusqlite::Result<Vec<Answer>> {
        self.cache.refresh(&self.connection)?;
        let mut answers = Vec::with_capacity(group.len());
        for job in group {
            self.connection.prepare_cached("SAVEPOINT wish")?.execute([])?;
            let granted = self.write(&job.wish);
            if !matches!(granted, Ok(Ok(_))) {
                // Some failures, a full disk among them, end the whole transaction: then nobody's facts are kept.
                if self.connection.is_autocommit() {
                    return Err(granted.err().unwrap_or(rusqlite::Error::InvalidQuery));
                }
                self.connection.prepare_cached("ROLLBACK TO wish")?.execute([])?;
            }
            self.connection.prepare_cached("RELEASE wish")?.execute([])?;
            answers.push(granted.unwrap_or_else(|error| {
                damage::note_if_damaged(&self.path, &error);
                Err(AppendError::Unavailable(words(&self.path, &error)))
            }));
        }
        Ok(answers)
    }

    fn write(&mut self, wish: &Wish) -> rusqlite::Result<Answer> {
        let connection = &self.connection;
        match wish {
            Wish::Append(ready) => self.cache.append(connection, ready),
            Wish::Take(root) => self.cache.take(connection, root),
            Wish::Post { posted, body } => post(connection, posted, body),
            Wish::Withdraw(id) => withdraw(connection, id),
            Wish::Remove { root, epoch } => {
                let removed = remove::remove(connection, root, *epoch);
                self.cache.clear();
                removed
            }
            Wish::SaveFold(fold) => folds::save(connection, fold),
            // Served on its own, see `run`.
            Wish::GiveBack => Ok(Ok(0)),
            Wish::Rebuild => views::rebuild(connection, views::Which::All).map(Ok),
            Wish::Mend => views::rebuild(connection, views::Which::Stale).map(Ok),
        }
    }
}

fn post(connection: &Connection, posted: &Posted, body: &str) -> rusqlite::Result<Answer> {
    let row = [posted.id.as_str(), posted.root.as_str(), posted.to.as_str(), body];
    let posted =
        connection.prepare_cached("INSERT OR IGNORE INTO letters (id, root, recipient, body) VALUES (?1, ?2, ?3, ?4)")?.execute(row)?;
    Ok(Ok(posted as u64))
}

fn withdraw(connection: &Connection, id: &LetterId) -> rusqlite::Result<Answer> {
    let gone = connection.prepare_cached("DELETE FROM letters WHERE id = ?1")?.execute([id.as_str()])?;
    Ok(Ok(gone as u64))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use posse_session::{Append, BatchId, By, Event, Timestamp};
    use serde_json::json;

    use super::*;

    fn desk(folder: &Path) -> Desk {
        let path = folder.join(schema::FILE_NAME);
        schema::make_file(&path).unwrap();
        let connection = schema::open(&path).unwrap();
        connection.execute_batch("INSERT INTO trees (root, epoch) VALUES ('ses_a', 1), ('ses_b', 1), ('ses_c', 1)").unwrap();
        Desk { connection, bell: Arc::new(Bell::new(path.clone(), schema::open_reader)), path, cache: Cache::default(), is_settled: true }
    }

    fn append(session: &str, after: u64, event: Event) -> Wish {
        let session = SessionId::new(session);
        let batch = BatchId::new(format!("evt_{session}_{after}"));
        let (root, at) = (session.clone(), Timestamp(1));
        let append = Append { session, root, epoch: 1, batch, after, at, events: vec![event], blobs: Vec::new(), letters: Vec::new() };
        Wish::Append(Box::new(Ready::new(append).unwrap()))
    }

    fn fact() -> Event {
        Event::Resumed { by: By::User }
    }

    /// Serves the wishes as one group and says how each was answered.
    fn serve(desk: &mut Desk, wishes: Vec<Wish>) -> Vec<String> {
        let (jobs, answers): (Vec<_>, Vec<_>) = wishes
            .into_iter()
            .map(|wish| {
                let (reply, answer) = oneshot::channel();
                (Job { wish, reply }, answer)
            })
            .unzip();
        desk.serve(jobs);
        let say = |answer: Answer| answer.map_or_else(|error| error.to_string(), |number| number.to_string());
        answers.into_iter().map(|mut answer| say(answer.try_recv().unwrap())).collect()
    }

    fn heads(desk: &Desk) -> Vec<u64> {
        ["ses_a", "ses_b", "ses_c"].map(|session| super::super::rows::head(&desk.connection, &SessionId::new(session)).unwrap()).to_vec()
    }

    #[test]
    fn a_wish_that_fails_in_the_middle_of_its_rows_fails_alone() {
        let folder = tempfile::tempdir().unwrap();
        let mut desk = desk(folder.path());
        desk.connection
            .execute_batch("CREATE TEMP TRIGGER poison BEFORE INSERT ON events WHEN new.body LIKE '%poison%' BEGIN SELECT RAISE(ABORT, 'poisoned'); END")
            .unwrap();
        let poison = || Event::Unknown(json!({"type": "poison"}));
        let answers = serve(
            &mut desk,
            vec![append("ses_a", 0, fact()), append("ses_b", 0, poison()), append("ses_c", 5, fact()), append("ses_a", 1, fact())],
        );
        assert_eq!((answers[0].as_str(), answers[3].as_str()), ("1", "2"));
        assert!(answers[1].contains("poisoned") && answers[2].contains("at 0"), "{answers:?}");
        assert_eq!(heads(&desk), [2, 0, 0]);
        // What failed left nothing behind: not in the tables, not in the writer's memory.
        let sessions: i64 = desk.connection.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0)).unwrap();
        assert_eq!(sessions, 1);
        assert_eq!(serve(&mut desk, vec![append("ses_b", 0, fact()), append("ses_c", 0, fact())]), ["1", "1"]);
    }

    #[test]
    fn a_full_disk_is_said_and_survived() {
        let folder = tempfile::tempdir().unwrap();
        let mut desk = desk(folder.path());
        let long = || Event::Unknown(json!({"type": "long", "text": "x".repeat(10_000)}));
        let mut head = 0;
        desk.connection.pragma_update(None, "max_page_count", 40).unwrap();
        let said = loop {
            let answer = serve(&mut desk, vec![append("ses_a", head, long()), append("ses_b", head, fact())]).remove(0);
            match answer.parse() {
                Ok(grown) => head = grown,
                Err(_) => break answer,
            }
        };
        assert!(said.contains("is full") && said.contains(folder.path().to_str().unwrap()), "{said}");
        assert!(desk.connection.is_autocommit());
        assert_eq!(heads(&desk)[0], head);
        desk.connection.pragma_update(None, "max_page_count", 1000).unwrap();
        assert_eq!(serve(&mut desk, vec![append("ses_a", head, long())]), [(head + 1).to_string()]);
    }

    #[test]
    fn when_the_commit_fails_everybody_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let mut desk = desk(folder.path());
        // A reference that is checked at the commit only, and broken by one of the group.
        desk.connection
            .execute_batch(
                "CREATE TEMP TRIGGER broken AFTER INSERT ON events WHEN new.body LIKE '%broken%' BEGIN INSERT INTO blob_refs VALUES (77, 77); END;
                 PRAGMA defer_foreign_keys = ON",
            )
            .unwrap();
        let broken = || Event::Unknown(json!({"type": "broken"}));
        let answers = serve(&mut desk, vec![append("ses_b", 0, fact()), append("ses_a", 0, broken())]);
        assert!(answers.iter().all(|answer| answer.contains("FOREIGN KEY") && answer.contains("posse.db")), "{answers:?}");
        assert_eq!(heads(&desk), [0, 0, 0]);
        assert_eq!(serve(&mut desk, vec![append("ses_b", 0, fact())]), ["1"]);
        assert_eq!(heads(&desk), [0, 1, 0], "it was written, not remembered from the time before");
    }

    #[tokio::test]
    async fn an_own_commit_rings_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut desk = desk(folder.path());
        let (session, bell) = (SessionId::new("ses_a"), Arc::clone(&desk.bell));
        let listener = Bell::listen(&bell, &session, 0);
        serve(&mut desk, vec![append("ses_a", 0, fact())]);
        tokio::select! {
            biased;
            () = listener.rung() => {}
            () = std::future::ready(()) => panic!("only the watcher would have told"),
        }
        bell.close();
    }
}
