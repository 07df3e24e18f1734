//! Damaged files: moved aside and never deleted, what can be read saved, what cannot reported, and the store opens.
//!
//! The damage is real: bytes of a real file are changed, zeroed and cut off, at seeded places over all kinds of pages and
//! the log beside it. SQLite keeps no checksums, so a changed letter in the middle of a text can only be found where a
//! hash covers it; nothing here claims otherwise.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept should panic")]

mod support;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use posse_session::{Event, Hash, Inbox, Lease, Log, ReadError, Record, Session, SessionId};
use posse_store::{Damaged, OpenError, Salvaged, Sqlite};
use rusqlite::Connection;

use support::{Owner, blob, created, id, letter, queued, read_all, step};

const PAGE: usize = 4096;

/// One mending of the small file of these tests takes milliseconds.
const SOON: Duration = Duration::from_secs(30);

const SESSIONS: usize = 12;

/// A small generator with a seed, so that a failure can be made again.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound.max(1)
    }
}

/// What a user has: files as they lie on the disk, and what was in them.
struct Whole {
    files: Vec<(String, Vec<u8>)>,
    sessions: BTreeMap<String, Vec<Record>>,
    blobs: Vec<Hash>,
}

fn raw(folder: &Path) -> Connection {
    Connection::open(folder.join("posse.db")).unwrap()
}

/// In memory where the system has such a folder: hundreds of files are written here, and no power fails meanwhile.
fn quick_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// A file of every kind of page: long rows, blobs over many pages, removed sessions, a part that is only in the log.
async fn whole() -> Whole {
    let folder = quick_folder();
    let store = Sqlite::open(folder.path()).unwrap();
    let mut blobs = Vec::new();
    for number in 0..SESSIONS {
        let root = format!("ses_{number:02}");
        let mut owner = Owner::of(&store, &root).await;
        let (text, kept) = blob(format!("a long text of {root} ").repeat(1_500).as_bytes());
        blobs.push(kept.0.clone());
        let mut append = owner.draft(vec![created(&root), queued(text)]);
        append.blobs.push(kept);
        owner.send(append).await.unwrap();
        for turn in 1..=6 {
            let [asked, done] = step(turn, &"a line of output\n".repeat(40 * turn as usize));
            owner.append(asked).await;
            owner.append(done).await;
        }
        if number == 3 {
            store.remove(&owner.owned).await.unwrap();
        }
        if number == SESSIONS - 4 {
            raw(folder.path()).query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        }
    }
    store.post(letter(1, "ses_00")).await.unwrap();
    let mut sessions = BTreeMap::new();
    for number in (0..SESSIONS).filter(|number| *number != 3) {
        let root = format!("ses_{number:02}");
        sessions.insert(root.clone(), read_all(&store, &root).await);
    }
    // As a process leaves them that was killed.
    let files = ["posse.db", "posse.db-wal"].map(|name| (name.to_owned(), fs::read(folder.path().join(name)).unwrap()));
    blobs.remove(3);
    Whole { files: files.to_vec(), sessions, blobs }
}

impl Whole {
    fn folder(&self, change: impl FnOnce(&mut Vec<u8>, &mut Vec<u8>)) -> tempfile::TempDir {
        let folder = quick_folder();
        let (mut database, mut log) = (self.files[0].1.clone(), self.files[1].1.clone());
        change(&mut database, &mut log);
        fs::write(folder.path().join("posse.db"), database).unwrap();
        fs::write(folder.path().join("posse.db-wal"), log).unwrap();
        fs::create_dir_all(folder.path().join("locks")).unwrap();
        fs::write(folder.path().join("locks/ses_00.lock"), "1").unwrap();
        folder
    }
}

/// What was found behind a damaged file, after everything in it was read.
#[derive(Debug)]
struct After {
    reports: Vec<Salvaged>,
    sessions: BTreeMap<String, usize>,
    texts_missing: usize,
}

/// Opens and reads everything; damage that is only found by reading is mended by the next opening, as a user would have it.
async fn live_with(folder: &Path, whole: &Whole, what: &str) -> Result<After, OpenError> {
    let begun = Instant::now();
    let mut reports = Vec::new();
    for _ in 0..3 {
        let store = Sqlite::open(folder)?;
        reports.extend(store.salvaged().cloned());
        match read_everything(&store, whole, what).await {
            Ok((sessions, texts_missing)) => {
                // The store works: a new session is taken, appended to and read.
                let mut owner = Owner::of(&store, "ses_new").await;
                owner.append(vec![created("ses_new"), queued("goes on")]).await;
                assert_eq!(read_all(&store, "ses_new").await.len(), 2);
                assert!(begun.elapsed() < SOON, "{what}: {:?}", begun.elapsed());
                drop(owner);
                drop(store);
                let check: String = raw(folder).query_row("PRAGMA quick_check", [], |row| row.get(0)).unwrap();
                assert!(check == "ok" || reports.is_empty(), "{what}: {check}");
                return Ok(After { reports, sessions, texts_missing });
            }
            Err(ReadError::Unavailable(words)) => assert!(words.contains("damaged"), "{what}: {words}"),
            Err(ReadError::Missing) => panic!("{what}: something is missing that was listed"),
        }
    }
    panic!("{what}: still damaged after two mendings: {reports:?}")
}

async fn read_everything(store: &Sqlite, whole: &Whole, what: &str) -> Result<(BTreeMap<String, usize>, usize), ReadError> {
    let mut sessions = BTreeMap::new();
    for summary in store.summaries(None).await? {
        let records = store.read(&summary.session, 0, usize::MAX).await?;
        let folded = Session::fold(summary.session.clone(), &records);
        assert_eq!(folded.head(), records.len() as u64, "{what}");
        assert_eq!(summary.head, records.len() as u64, "{what}: the view of {} is of another log", summary.session);
        sessions.insert(summary.session.0.clone(), records.len());
    }
    store.with_asks().await?;
    store.waiting(&id("ses_00")).await?;
    let mut missing = 0;
    for hash in &whole.blobs {
        match store.blob(hash).await {
            Ok(body) => assert_eq!(blake3::hash(&body).to_hex().as_str(), hash.as_str(), "{what}: wrong words"),
            Err(ReadError::Missing) => missing += 1,
            Err(error) => return Err(error),
        }
    }
    Ok((sessions, missing))
}

fn broken_in(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.to_str().unwrap().contains("posse.db.broken-"));
    found.sort();
    found
}

#[tokio::test]
async fn without_damage_nothing_is_salvaged_and_with_a_note_nothing_is_lost() {
    let whole = whole().await;
    let folder = whole.folder(|_, _| {});
    let store = Sqlite::open(folder.path()).unwrap();
    assert!(store.salvaged().is_none());
    let epoch = store.take(&id("ses_00")).await.unwrap().epoch;
    drop(store);

    // Everything of a whole file is found by walking its pages, also what is only in the log.
    fs::write(folder.path().join("posse.db.damaged"), "").unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    let salvaged = store.salvaged().unwrap().clone();
    assert_eq!((salvaged.sessions, salvaged.letters, salvaged.texts_missing), (SESSIONS as u64 - 1, 1, 0), "{salvaged}");
    assert_eq!((salvaged.cut.len(), salvaged.lost.len(), salvaged.nameless), (0, 0, 0), "{salvaged}");
    for (root, records) in &whole.sessions {
        assert_eq!(read_all(&store, root).await, *records);
    }
    for hash in &whole.blobs {
        assert!(store.blob(hash).await.is_ok());
    }
    assert_eq!(store.waiting(&id("ses_00")).await.unwrap(), [letter(1, "ses_00")]);
    assert!(epoch < store.take(&id("ses_00")).await.unwrap().epoch, "an epoch never comes again");
    assert!(store.read(&id("ses_03"), 0, 1).await.unwrap().is_empty(), "what was removed stays removed");
    assert_eq!(broken_in(folder.path()).first(), Some(&salvaged.broken));
    assert!(salvaged.to_string().contains("nothing is known to be missing"), "{salvaged}");
    drop(store);
    assert!(Sqlite::open(folder.path()).unwrap().salvaged().is_none(), "once is enough");
}

/// Row 8 and 9 of the reliability goals, for what a disk does to a file that lies there.
#[tokio::test]
async fn three_hundred_damaged_files_all_open_and_keep_what_was_not_hit() {
    let whole = whole().await;
    let (database, log) = (whole.files[0].1.len(), whole.files[1].1.len());
    let mut chance = Chance(20_261_116);
    let (mut mended, mut untouched, mut kept, mut all) = (0, 0, 0, 0);
    for seed in 0..300 {
        let kind = seed % 6;
        let page = if seed % 30 == 0 { 0 } else { chance.below(database / PAGE) };
        let (place, length) = (chance.below(PAGE), 1 + chance.below(64));
        let frame = 32 + chance.below((log - 32) / (PAGE + 24)) * (PAGE + 24);
        let what = format!("seed {seed}: kind {kind}, page {}, byte {place}, {length} long, frame at {frame}", page + 1);
        let noise: Vec<u8> = (0..PAGE).map(|_| chance.below(256) as u8).collect();
        let folder = whole.folder(|database, log| {
            let start = page * PAGE;
            match kind {
                0 => database[start..start + PAGE].fill(0),
                1 => database[start..start + PAGE].copy_from_slice(&noise),
                2 => {
                    let end = (start + place + length).min(database.len());
                    database[start + place..end].iter_mut().zip(&noise).for_each(|(byte, noise)| *byte ^= noise | 1);
                }
                // The beginning of a page: what kind it is and where its rows are.
                3 => database[start..start + 16].iter_mut().zip(&noise).for_each(|(byte, noise)| *byte ^= noise | 1),
                4 => log[frame + place] ^= 0x5a,
                _ => {
                    let start = if seed % 12 == 5 { 0 } else { frame };
                    log[start..start + 24].copy_from_slice(&noise[..24]);
                }
            }
        });
        // These eight bytes say whose file it is and of which format; changed, they say so with authority.
        let speaks_for_itself = page == 0 && (kind < 4);
        let after = match live_with(folder.path(), &whole, &what).await {
            Ok(after) => after,
            Err(OpenError::Newer { .. } | OpenError::Foreign { .. }) if speaks_for_itself => continue,
            Err(error) => panic!("{what}: {error}"),
        };
        if after.reports.is_empty() {
            untouched += 1
        } else {
            mended += 1
        }
        let whole_ones = whole.sessions.iter().filter(|(root, records)| after.sessions.get(*root) == Some(&records.len())).count();
        kept += whole_ones;
        all += whole.sessions.len();
        // One page of the file is at most a part of a few sessions; a log that is hurt loses what came after in it.
        if kind < 4 {
            assert!(whole.sessions.len() - 4 <= whole_ones, "{what}: only {whole_ones} sessions are whole: {after:?}");
            assert!(after.texts_missing <= 2, "{what}: {after:?}");
        }
        assert_eq!(broken_in(folder.path()).is_empty(), after.reports.is_empty(), "{what}");
    }
    println!("300 damaged files: {mended} mended, {untouched} opened as they were; {kept} of {all} sessions whole");
    assert!(100 < mended && all * 8 / 10 < kept, "{mended} mended, {kept} of {all}");
}

#[tokio::test]
async fn files_that_are_cut_off_empty_or_something_else_open_too() {
    let whole = whole().await;
    let length = whole.files[0].1.len();
    let mut chance = Chance(7);
    for cut in [0, 1, 50, 99, 100, 512, PAGE - 1, PAGE, PAGE + 1].into_iter().chain((0..40).map(|_| chance.below(length))) {
        let folder = whole.folder(|database, _| database.truncate(cut));
        let after = live_with(folder.path(), &whole, &format!("cut at {cut}")).await.unwrap();
        assert!(cut == length || 3 <= after.sessions.len(), "cut at {cut}: the log alone holds some sessions: {after:?}");
        let folder = whole.folder(|_, log| log.truncate(cut));
        live_with(folder.path(), &whole, &format!("log cut at {cut}")).await.unwrap();
        // Without the log.
        let folder = whole.folder(|database, log| {
            database.truncate(cut);
            log.clear();
        });
        live_with(folder.path(), &whole, &format!("cut at {cut} without a log")).await.unwrap();
    }
    let letter = "this is a letter to my aunt, and no database at all. ".repeat(100);
    let folder = whole.folder(|database, log| {
        *database = letter.clone().into_bytes();
        log.clear();
    });
    let after = live_with(folder.path(), &whole, "a letter").await.unwrap();
    assert_eq!(after.sessions.len(), 0);
    assert_eq!(fs::read_to_string(&after.reports[0].broken).unwrap(), letter, "it is kept as it was");
}

#[tokio::test]
async fn an_event_that_is_not_json_any_more_cuts_its_session_and_no_other() {
    let whole = whole().await;
    let folder = whole.folder(|_, _| {});
    raw(folder.path()).execute("UPDATE events SET body = substr(body, 2) WHERE place = 2 << 32 | 9", []).unwrap();
    raw(folder.path()).execute("DELETE FROM events WHERE place = 3 << 32 | 5", []).unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    for root in ["ses_01", "ses_02"] {
        let refused = store.read(&id(root), 0, usize::MAX).await;
        assert!(matches!(&refused, Err(ReadError::Unavailable(words)) if words.contains("start posse again")), "{refused:?}");
    }
    // While this one has the file open nobody replaces it; who comes has what is not hurt.
    let second = Sqlite::open(folder.path()).unwrap();
    assert!(second.salvaged().is_none());
    assert_eq!(read_all(&second, "ses_00").await, whole.sessions["ses_00"]);
    assert!(second.read(&id("ses_01"), 0, usize::MAX).await.is_err());
    drop(second);
    drop(store);
    let store = Sqlite::open(folder.path()).unwrap();
    let salvaged = store.salvaged().unwrap();
    assert_eq!(salvaged.cut, [("ses_01".to_owned(), 8, 38), ("ses_02".to_owned(), 4, 38)]);
    assert!(salvaged.to_string().contains("ses_01 ends after event 8 of at least 38"), "{salvaged}");
    assert_eq!(read_all(&store, "ses_01").await, whole.sessions["ses_01"][..8]);
    assert_eq!(read_all(&store, "ses_00").await, whole.sessions["ses_00"]);
    // It goes on from there.
    let mut owner = Owner::of(&store, "ses_01").await;
    assert_eq!(owner.append(vec![queued("after the accident")]).await, 9);
}

#[tokio::test]
async fn a_text_that_no_longer_fits_its_hash_is_missing_and_its_session_opens() {
    let whole = whole().await;
    let folder = whole.folder(|_, _| {});
    raw(folder.path())
        .execute("UPDATE blobs SET body = CAST(replace(body, 'long', 'LONG') AS BLOB) WHERE hash = ?1", [whole.blobs[0].as_str()])
        .unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    assert!(matches!(store.blob(&whole.blobs[0]).await, Err(ReadError::Missing)));
    assert_eq!(read_all(&store, "ses_00").await, whole.sessions["ses_00"]);
    drop(store);
    let store = Sqlite::open(folder.path()).unwrap();
    assert_eq!(store.salvaged().unwrap().texts_missing, 1);
    assert_eq!(read_all(&store, "ses_00").await, whole.sessions["ses_00"]);
    assert!(matches!(store.blob(&whole.blobs[0]).await, Err(ReadError::Missing)));
}

#[tokio::test]
async fn a_mending_that_was_killed_is_finished_by_the_next() {
    let whole = whole().await;
    // As it lies there after the new file was done and some of the old ones were moved.
    for moved in 0..=2 {
        let folder = whole.folder(|database, _| database[..100].fill(0));
        let finished = whole.folder(|database, _| database[..100].fill(0));
        drop(Sqlite::open(finished.path()).unwrap());
        raw(finished.path()).query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        fs::copy(finished.path().join("posse.db"), folder.path().join("posse.db.salvaged")).unwrap();
        fs::write(folder.path().join("posse.db.making"), "half of something").unwrap();
        let time = fs::metadata(folder.path().join("posse.db.salvaged")).unwrap().modified().unwrap();
        let time = time.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        for end in ["-wal", ""].into_iter().take(moved) {
            let name = |start: &str| folder.path().join(format!("{start}{end}"));
            fs::rename(name("posse.db"), name(&format!("posse.db.broken-{time}"))).unwrap();
        }
        let store = Sqlite::open(folder.path()).unwrap();
        assert_eq!(store.salvaged().unwrap().sessions, SESSIONS as u64 - 1, "{moved} moved");
        for (root, records) in &whole.sessions {
            assert_eq!(read_all(&store, root).await, *records, "{moved} moved");
        }
        assert_eq!(broken_in(folder.path()).len(), 2, "{moved} moved");
    }
}

#[tokio::test]
async fn of_many_who_come_at_once_one_mends_and_all_open() {
    let whole = whole().await;
    let folder = whole.folder(|database, log| {
        database[..PAGE].fill(0);
        log.clear();
    });
    let mended: usize = std::thread::scope(|scope| {
        let openers: Vec<_> = (0..6)
            .map(|_| {
                scope.spawn(|| {
                    // Whoever finds another one at it says so; a user would try again.
                    for _ in 0..200 {
                        match Sqlite::open(folder.path()) {
                            Ok(store) => return usize::from(store.salvaged().is_some()),
                            Err(OpenError::NotADatabase { .. }) => std::thread::sleep(Duration::from_millis(20)),
                            Err(error) => panic!("{error}"),
                        }
                    }
                    panic!("it was never opened")
                })
            })
            .collect();
        openers.into_iter().map(|opener| opener.join().unwrap()).sum()
    });
    assert_eq!(mended, 1);
    assert_eq!(broken_in(folder.path()).iter().filter(|path| !path.to_str().unwrap().ends_with("-wal")).count(), 1);
    let store = Sqlite::open(folder.path()).unwrap();
    assert!(6 < store.summaries(None).await.unwrap().len(), "those that were not only in the log");
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_is_not_replaced_while_another_has_it() {
    let whole = whole().await;
    let folder = whole.folder(|_, _| {});
    let first = Sqlite::open(folder.path()).unwrap();
    let path = folder.path().join("posse.db");
    raw(folder.path()).query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[..PAGE].fill(0xff);
    fs::write(&path, &bytes).unwrap();
    let Err(refused) = Sqlite::open(folder.path()) else { panic!("it was opened") };
    assert!(matches!(refused, OpenError::NotADatabase { .. }) && refused.to_string().contains("another posse process"), "{refused}");
    assert!(fs::read(&path).unwrap() == bytes);
    drop(first);
    assert_eq!(Sqlite::open(folder.path()).unwrap().salvaged().unwrap().sessions, SESSIONS as u64 - 1);
}

#[tokio::test]
async fn a_root_whose_row_is_gone_is_known_by_its_first_event() {
    let whole = whole().await;
    let folder = whole.folder(|_, _| {});
    raw(folder.path())
        .execute_batch("PRAGMA foreign_keys = OFF; DELETE FROM sessions WHERE key = 1; DELETE FROM summaries WHERE session = 1")
        .unwrap();
    fs::write(folder.path().join("posse.db.damaged"), "").unwrap();
    let store = Sqlite::open(folder.path()).unwrap();
    assert_eq!(store.salvaged().unwrap().sessions, SESSIONS as u64 - 1);
    assert_eq!(read_all(&store, "ses_00").await, whole.sessions["ses_00"]);
    assert!(matches!(read_all(&store, "ses_00").await[0].event, Event::Created { .. }));
    assert_eq!(store.take(&SessionId::new("ses_00")).await.unwrap().root, id("ses_00"));
}

/// The frames of a log: where each begins, and whether it ends a transaction.
fn frames(log: &[u8]) -> Vec<(usize, bool)> {
    let own = |at: &usize| log[at + 8..at + 16] == log[16..24];
    let starts = (32..log.len() - PAGE).step_by(24 + PAGE).take_while(own);
    starts.map(|at| (at, log[at + 4..at + 8] != [0; 4])).collect()
}

/// SQLite drops what comes after a hurt frame and says nothing, and all of it after a hurt header.
#[tokio::test]
async fn a_log_that_is_hurt_is_put_aside_told_and_read_behind_the_damage() {
    let whole = whole().await;
    let log = whole.files[1].1.clone();
    let frames = frames(&log);
    let middle = frames[frames.len() / 2].0;
    let mut chance = Chance(3);
    let noise: Vec<u8> = (0..24 + PAGE).map(|_| chance.below(256) as u8).collect();
    // What is hurt, from where to where, and how many of the eleven sessions come through whole.
    let places = [
        ("the header", 0, 32, 11),
        ("the words of the header alone", 0, 12, 11),
        ("the first frame", 32, 32 + 24 + PAGE, 9),
        ("the header and the first frame", 0, 32 + 24 + PAGE, 9),
        ("a frame in the middle", middle, middle + 24 + PAGE, 10),
        ("the page of a frame in the middle", middle + 24, middle + 24 + PAGE, 10),
        ("one byte in the middle", middle + 1_000, middle + 1_001, 10),
    ];
    for (what, start, end, least) in places {
        let folder = whole.folder(|_, log| log[start..end].iter_mut().zip(&noise).for_each(|(byte, noise)| *byte ^= noise | 1));
        let hurt = fs::read(folder.path().join("posse.db-wal")).unwrap();
        let after = live_with(folder.path(), &whole, what).await.unwrap();
        let [told] = &after.reports[..] else { panic!("{what}: {after:?}") };
        assert_eq!(told.damaged, Damaged::Log, "{what}");
        let words = told.to_string();
        assert!(words.contains("write-ahead log") && words.contains("posse.db.broken-"), "{what}: {words}");
        let kept = fs::read(format!("{}-wal", told.broken.display())).unwrap();
        assert!(kept == hurt, "{what}: the log is kept as it was");
        let came = whole.sessions.iter().filter(|(root, records)| after.sessions.get(*root) == Some(&records.len())).count();
        assert!(least <= came, "{what}: {came} sessions came through: {words}");
        assert!(came == whole.sessions.len() || !told.cut.is_empty() || !told.lost.is_empty(), "{what}: what is missing is told: {words}");
    }
}

/// After a power loss the last transaction may be torn anywhere, and older frames may stand behind it. Nobody was promised it.
#[tokio::test]
async fn a_torn_end_of_a_log_is_no_damage() {
    let whole = whole().await;
    let log = whole.files[1].1.clone();
    let frames = frames(&log);
    let last = frames[..frames.len() - 1].iter().rposition(|(_, commits)| *commits).unwrap() + 1;
    assert!(frames.last().unwrap().1 && last < frames.len(), "the last transaction has frames of its own");
    for (at, _) in &frames[last..] {
        for torn in [*at, at + 24, at + 24 + PAGE / 2] {
            let folder = whole.folder(|_, log| log[torn..torn + 512].fill(0));
            assert!(Sqlite::open(folder.path()).unwrap().salvaged().is_none(), "torn at {torn}");
            let folder = whole.folder(|_, log| log.truncate(torn));
            assert!(Sqlite::open(folder.path()).unwrap().salvaged().is_none(), "cut at {torn}");
        }
    }
    // A log that was begun anew over an old one.
    let folder = whole.folder(|_, _| {});
    raw(folder.path()).execute_batch("PRAGMA wal_autocheckpoint = 0; PRAGMA wal_checkpoint(RESTART)").unwrap();
    assert!(Sqlite::open(folder.path()).unwrap().salvaged().is_none());
}

/// Before anything was moved into the database it is one page that says nothing: without its log it looks new.
#[tokio::test]
async fn a_log_that_is_gone_is_told_where_there_were_sessions() {
    let (folder, new, lost) = (quick_folder(), quick_folder(), quick_folder());
    let store = Sqlite::open(folder.path()).unwrap();
    let mut owner = Owner::of(&store, "ses_gone").await;
    owner.append(vec![created("ses_gone"), queued("dear to me")]).await;
    for folder_without_log in [&new, &lost] {
        fs::copy(folder.path().join("posse.db"), folder_without_log.path().join("posse.db")).unwrap();
        fs::create_dir(folder_without_log.path().join("locks")).unwrap();
    }
    // So it may also lie there when it is new, and somebody was killed.
    assert!(Sqlite::open(new.path()).unwrap().salvaged().is_none());
    fs::copy(folder.path().join("locks/ses_gone.lock"), lost.path().join("locks/ses_gone.lock")).unwrap();
    let mended = Sqlite::open(lost.path()).unwrap();
    let told = mended.salvaged().unwrap();
    assert_eq!((told.damaged, &told.traces[..]), (Damaged::LogGone, &["ses_gone".to_owned()][..]));
    let words = told.to_string();
    assert!(words.contains("is gone") && words.contains("nothing was found of: ses_gone") && words.contains("broken-"), "{words}");
    drop(mended);
    assert!(Sqlite::open(lost.path()).unwrap().salvaged().is_none(), "it is told once");
}
