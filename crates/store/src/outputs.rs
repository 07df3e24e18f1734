//! The output files of tasks: what a task has said and done so far, for whoever wants to read along.
//!
//! A file is a view. It follows from the log, is told anew when a task is opened again, and may be deleted at any time;
//! so nothing here waits for a disk, and no failure stops a run. Who makes the words is `context`; here they are only
//! kept: privately, within a bound, and never in a file that somebody else put in the place. No handle stays open: a
//! thousand tasks that write now and then hold none.

use std::{
    borrow::Cow,
    collections::HashMap,
    fs::{self, File},
    io::{self, ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};

use posse_session::SessionId;
use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, Mode, OFlags, mkdir, open, openat, renameat, unlinkat},
    io::Errno,
};

/// In the folder of the session, beside what its calls have printed.
const FILE_NAME: &str = "output.txt";

/// What is being told anew, until it takes the place of the file. One owner per tree writes, so one name is enough, and
/// what an owner left that died over it is taken away by the next.
const NEW_FILE_NAME: &str = "output.txt.new";

/// A file stops growing here: hours of a talkative agent, and still something that can be opened and sent.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// What is in here is the user's business alone.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const FOLDER_MODE: Mode = Mode::RWXU;

pub struct Outputs {
    folder: PathBuf,
    /// Sessions whose file could not be written at some time, and whether something is missing in it now. At most as many
    /// as have run in this process.
    troubled: Mutex<HashMap<SessionId, Missing>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Nothing,
    Something,
}

impl posse_session::Outputs for Outputs {
    fn path(&self, session: &SessionId) -> PathBuf {
        self.path(session)
    }

    fn begin(&self, session: &SessionId, story: &str) {
        self.begin(session, story);
    }

    fn append(&self, session: &SessionId, text: &str) {
        self.append(session, text);
    }
}

impl Outputs {
    /// `folder` holds one folder per session. It need not exist yet.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, troubled: Mutex::default() }
    }

    pub fn path(&self, session: &SessionId) -> PathBuf {
        self.place(session).join(FILE_NAME)
    }

    /// Puts all that is known so far in the place of whatever is there. Who reads meanwhile sees the old or the new, whole.
    pub fn begin(&self, session: &SessionId, story: &str) {
        let written = self.replace(session, &within(session, 0, story));
        self.note(session, written);
    }

    /// Adds to the end of the file, which is made if it is not there.
    pub fn append(&self, session: &SessionId, text: &str) {
        let missing = self.troubled().get(session).is_some_and(|missing| *missing == Missing::Something);
        let written = match missing {
            true => self.add(session, &format!("{}{text}", gap(session))),
            false => self.add(session, text),
        };
        self.note(session, written);
    }

    fn replace(&self, session: &SessionId, text: &str) -> io::Result<()> {
        let place = self.open_place(session)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut created = openat(&place, NEW_FILE_NAME, flags, FILE_MODE);
        if created.as_ref().is_err_and(|error| *error == Errno::EXIST) {
            unlinkat(&place, NEW_FILE_NAME, AtFlags::empty())?;
            created = openat(&place, NEW_FILE_NAME, flags, FILE_MODE);
        }
        let written = File::from(created?).write_all(text.as_bytes());
        let placed = written.and_then(|()| renameat(&place, NEW_FILE_NAME, &place, FILE_NAME).map_err(io::Error::from));
        if placed.is_err() {
            // Half a story is nothing worth keeping; the error itself is the news.
            let _ = unlinkat(&place, NEW_FILE_NAME, AtFlags::empty());
        }
        placed
    }

    fn add(&self, session: &SessionId, text: &str) -> io::Result<()> {
        let place = self.open_place(session)?;
        // Without blocking: a pipe that somebody put here would hold us up until somebody reads it.
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut file = File::from(openat(&place, FILE_NAME, flags, FILE_MODE)?);
        let facts = file.metadata()?;
        // With a second name it is somebody else's file too.
        if !facts.is_file() || 1 < facts.nlink() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "something else stands in the place of the file"));
        }
        file.write_all(within(session, facts.len(), text).as_bytes())
    }

    /// The folder of a session, made if it is not there. A link in its place is not followed.
    fn open_place(&self, session: &SessionId) -> io::Result<OwnedFd> {
        let place = self.place(session);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match open(&place, flags, Mode::empty()) {
            Err(Errno::NOENT) => {}
            opened => return opened.map_err(io::Error::from),
        }
        fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE.as_raw_mode()).create(&self.folder)?;
        match mkdir(&place, FOLDER_MODE) {
            // A call of the session needed it at the same moment.
            Ok(()) | Err(Errno::EXIST) => open(&place, flags, Mode::empty()).map_err(io::Error::from),
            Err(error) => Err(error.into()),
        }
    }

    /// Ids are ours and tame, but a name that came from outside must not leave the folder.
    fn place(&self, session: &SessionId) -> PathBuf {
        let mut name = String::new();
        for byte in session.as_str().bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => name.push(char::from(byte)),
                _ => name.push_str(&format!("%{byte:02x}")),
            }
        }
        self.folder.join(name)
    }

    /// Says once per session that its file cannot be written.
    fn note(&self, session: &SessionId, written: io::Result<()>) {
        let mut troubled = self.troubled();
        match written {
            Ok(()) => {
                if let Some(missing) = troubled.get_mut(session) {
                    *missing = Missing::Nothing;
                }
            }
            Err(error) => {
                if troubled.insert(session.clone(), Missing::Something).is_none() {
                    let path = self.path(session);
                    tracing::warn!(%session, path = %path.display(), %error, "the output file of a task cannot be written; the task goes on");
                }
            }
        }
    }

    /// What it guards is whole after every single change, so a panic elsewhere spoils nothing.
    fn troubled(&self) -> MutexGuard<'_, HashMap<SessionId, Missing>> {
        self.troubled.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What of a text goes into a file of so many bytes: all of it, its beginning and the last line, or nothing any more.
/// A file with its last line is always longer than one that may still grow, so its size alone says what it is.
fn within<'t>(session: &SessionId, size: u64, text: &'t str) -> Cow<'t, str> {
    const CUT: &str = "…\n";
    let last = format!("! This file ends here: it has reached its bound. Read on with: posse sessions show {session}\n");
    let growing_max = FILE_BYTES_MAX.saturating_sub((CUT.len() + last.len()) as u64);
    let Some(room) = growing_max.checked_sub(size) else { return Cow::Borrowed("") };
    match usize::try_from(room) {
        Ok(room) if room < text.len() => {
            let fits = &text[..text.floor_char_boundary(room)];
            let cut = if fits.is_empty() || fits.ends_with('\n') { "" } else { CUT };
            Cow::Owned(format!("{fits}{cut}{last}"))
        }
        _ => Cow::Borrowed(text),
    }
}

/// Said where lines could not be written: the one before it may be half.
fn gap(session: &SessionId) -> String {
    format!("\n! Lines are missing here: they could not be written. Read them with: posse sessions show {session}\n")
}
