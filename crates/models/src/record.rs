//! Keeping every exchange with a model in a file, so that it can be played back without the model.
//!
//! [`Recorder`] is the file, shared by all models of a process; [`Recorder::wrap`] puts it around one of them. What is
//! kept is neutral: posse's own messages and reply, not a provider's bytes. An exchange is one write of whole lines and is on
//! the disk when the reply is handed on; what was cut off by a kill is the last line at most. `replay.rs` plays it.

mod clean;
pub(crate) mod lines;

use std::{
    collections::{HashMap, HashSet},
    fs::{File, OpenOptions, Permissions, TryLockError},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use posse_session::{BoxFuture, Head, Live, Message, Model, ModelError, ModelFacts, Progress, Reply, Request, SessionId, ToolChoice};

use self::{
    clean::clean,
    lines::{Came, Exchange, FORMAT, Failed, Line, Moment, Nothing, OPENING_BYTES_MAX, Opening, Piece, Resembles, millis, resembles},
};
use crate::secrets::Secrets;

/// What a model is shown is private.
const FILE_MODE: u32 = 0o600;

/// What a file lets others do.
const OTHERS: u32 = 0o077;

/// Many times what any model shows for one answer; more is a server gone wrong. The answer itself is kept whole.
const LIVE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What a recording says of the process that makes it.
#[derive(Debug, Clone, Default)]
pub struct RecordSetup {
    /// The version of posse.
    pub version: String,
    /// Folders whose paths are others on another machine, by name: `cwd`, `home`.
    pub places: Vec<(String, String)>,
    /// Keys and values of headers, which must not be in the file, wherever they came from.
    pub secrets: Vec<String>,
    /// Addresses whose passwords and keys must not be in the file either.
    pub base_urls: Vec<String>,
}

/// Why nothing can be recorded there; nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("{}: {source}", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    #[error("{} is there already and is no recording; name another file", path.display())]
    Taken { path: PathBuf },
    #[error("another process is recording into {}; name another file", path.display())]
    Busy { path: PathBuf },
}

/// A file that exchanges are appended to. A file that is there already must be a recording; it is gone on with.
pub struct Recorder {
    path: PathBuf,
    began: Instant,
    secrets: Secrets,
    desk: Mutex<Desk>,
}

struct Desk {
    file: File,
    /// Lines that the next exchange needs before it.
    waiting: String,
    /// The last number given to a head, a message or an exchange.
    numbers: u64,
    /// The last place given to a beginning or an end.
    places: u64,
    said: HashSet<String>,
    /// What the last exchange of each session was about.
    last: HashMap<SessionId, (u64, Vec<u64>)>,
    /// Once something could not be written nothing more is: a gap would be worse than an end.
    problem: Option<String>,
}

impl Recorder {
    pub fn open(path: &Path, setup: &RecordSetup) -> Result<Arc<Self>, RecordError> {
        let unwritable = |source| RecordError::Unwritable { path: path.to_owned(), source };
        let mut options = OpenOptions::new();
        let mut file = options.read(true).append(true).create(true).mode(FILE_MODE).open(path).map_err(unwritable)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(RecordError::Busy { path: path.to_owned() }),
            // A file system without locks is recorded to all the same.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let metadata = file.metadata().map_err(unwritable)?;
        let length = metadata.len();
        let mut start = Vec::new();
        (&file).take(OPENING_BYTES_MAX as u64).read_to_end(&mut start).map_err(unwritable)?;
        if 0 < length && resembles(&start) != Resembles::Recording {
            return Err(RecordError::Taken { path: path.to_owned() });
        }
        // One that somebody has copied or opened up. A file system without modes is recorded to all the same.
        if metadata.is_file()
            && metadata.permissions().mode() & OTHERS != 0
            && let Err(error) = file.set_permissions(Permissions::from_mode(FILE_MODE))
        {
            tracing::warn!(%error, "others may read the recording");
        }
        let mut waiting = String::new();
        if 0 < length && !ends_a_line(&mut file).map_err(unwritable)? {
            waiting.push('\n');
        }
        let secrets = Secrets::of_conversations(&setup.secrets, &setup.base_urls);
        let (said, last) = (HashSet::new(), HashMap::new());
        let desk = Mutex::new(Desk { file, waiting, numbers: 0, places: 0, said, last, problem: None });
        let recorder = Self { path: path.to_owned(), began: Instant::now(), secrets, desk };
        let opening = Opening { format: FORMAT, posse: setup.version.clone(), places: setup.places.clone() };
        let mut desk = recorder.desk();
        recorder.note(&mut desk, Line::PosseRecording(opening));
        recorder.write(&mut desk);
        let problem = desk.problem.take();
        drop(desk);
        match problem {
            Some(words) => Err(unwritable(io::Error::other(words))),
            None => Ok(Arc::new(recorder)),
        }
    }

    /// The same model, with every exchange kept.
    pub fn wrap(self: &Arc<Self>, model: Arc<dyn Model>) -> Arc<dyn Model> {
        let mut desk = self.desk();
        if desk.said.insert(format!("model {}", model.facts().name)) {
            self.note(&mut desk, Line::Model { facts: model.facts().clone() });
        }
        drop(desk);
        Arc::new(Recording { recorder: self.clone(), model, known: Mutex::default() })
    }

    /// A name that somebody wrote, and the model that it stands for here.
    pub fn named(&self, name: &str, model: &str) {
        let mut desk = self.desk();
        if name != model && desk.said.insert(format!("name {name} {model}")) {
            self.note(&mut desk, Line::Named { name: name.to_owned(), model: model.to_owned() });
        }
    }

    /// Why the recording is not whole, if it is not.
    pub fn problem(&self) -> Option<String> {
        let problem = self.desk().problem.clone()?;
        Some(format!("the recording {} is not whole, it could not be written: {problem}", self.path.display()))
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        // Whole after every statement, so a panic elsewhere does not spoil it.
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A line for the next write, without what must not be in it.
    fn note(&self, desk: &mut Desk, mut line: Line) {
        clean(&mut line, &self.secrets);
        match serde_json::to_string(&line) {
            Ok(json) => {
                desk.waiting.push_str(&json);
                desk.waiting.push('\n');
            }
            Err(error) => desk.problem = Some(error.to_string()),
        }
    }

    fn write(&self, desk: &mut Desk) {
        let lines = std::mem::take(&mut desk.waiting);
        if desk.problem.is_some() {
            return;
        }
        let written = desk.file.write_all(lines.as_bytes()).and_then(|()| desk.file.sync_data());
        if let Err(error) = written {
            tracing::warn!(%error, "the recording cannot be written");
            desk.problem = Some(error.to_string());
        }
    }

    /// A head or a message gets its number.
    fn number(&self, line: impl FnOnce(u64) -> Line) -> u64 {
        let mut desk = self.desk();
        desk.numbers += 1;
        let id = desk.numbers;
        self.note(&mut desk, line(id));
        id
    }

    fn moment(&self, desk: &mut Desk) -> Moment {
        desk.places += 1;
        Moment { place: desk.places, ms: millis(self.began.elapsed()) }
    }

    fn begin(&self) -> Moment {
        let mut desk = self.desk();
        self.moment(&mut desk)
    }

    /// The exchange is over: it and all that it names go to the disk.
    fn finish(&self, session: &SessionId, mut exchange: Exchange) {
        let mut desk = self.desk();
        desk.numbers += 1;
        exchange.number = desk.numbers;
        exchange.ended = self.moment(&mut desk);
        let messages = exchange.messages.clone();
        if let Some((number, before)) = desk.last.get(session)
            && exchange.messages.starts_with(before)
        {
            exchange.follows = Some(*number);
            exchange.messages.drain(..before.len());
        }
        let number = exchange.number;
        self.note(&mut desk, Line::Exchange(Box::new(exchange)));
        self.write(&mut desk);
        desk.last.insert(session.clone(), (number, messages));
    }
}

fn ends_a_line(file: &mut File) -> io::Result<bool> {
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

/// A model whose exchanges are kept.
struct Recording {
    recorder: Arc<Recorder>,
    model: Arc<dyn Model>,
    /// The numbers of heads and messages, by what they were encoded to.
    known: Mutex<HashMap<Fingerprint, u64>>,
}

/// Wide enough that two texts of one process never share it.
type Fingerprint = (u64, u64);

fn fingerprint(kind: u8, bytes: &[u8]) -> Fingerprint {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, kind, bytes).hash(&mut hasher);
        hasher.finish()
    };
    (half(0), half(1))
}

const HEAD: u8 = 0;
const MESSAGE: u8 = 1;

impl Recording {
    fn know(&self, kind: u8, bytes: &[u8], line: impl FnOnce(u64) -> Line) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(fingerprint(kind, bytes)).or_insert_with(|| self.recorder.number(line));
    }

    /// Everything about a request that is known before its answer. Bytes that this model did not encode have no number.
    fn asked(&self, request: &Request) -> Exchange {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let messages = request.messages.iter().filter_map(|bytes| known.get(&fingerprint(MESSAGE, bytes)).copied()).collect();
        Exchange {
            number: 0,
            model: self.model.facts().name.clone(),
            session: request.session.to_string(),
            head: known.get(&fingerprint(HEAD, &request.head)).copied(),
            follows: None,
            messages,
            closing: request.tool_choice == ToolChoice::None,
            output_max: request.output_max,
            began: Moment::default(),
            ended: Moment::default(),
            live: Vec::new(),
            came: Came::Dropped(Nothing {}),
        }
    }
}

impl Model for Recording {
    fn facts(&self) -> &ModelFacts {
        self.model.facts()
    }

    fn encode_head(&self, head: &Head) -> Arc<[u8]> {
        let bytes = self.model.encode_head(head);
        self.know(HEAD, &bytes, |id| Line::Head { id, head: head.clone() });
        bytes
    }

    fn encode(&self, message: &Message) -> Arc<[u8]> {
        let bytes = self.model.encode(message);
        self.know(MESSAGE, &bytes, |id| Line::Message { id, message: message.clone() });
        bytes
    }

    fn reply<'a>(&'a self, request: Request, live: &'a dyn Live) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            let mut exchange = self.asked(&request);
            exchange.began = self.recorder.begin();
            let ear = Ear { live, heard: Mutex::default() };
            let open = Open { recorder: &self.recorder, session: request.session.clone(), ear: &ear, exchange: Some(exchange) };
            let answer = self.model.reply(request, &ear).await;
            open.close(&answer);
            answer
        })
    }
}

/// Hears what is shown.
struct Ear<'a> {
    live: &'a dyn Live,
    heard: Mutex<Heard>,
}

#[derive(Default)]
struct Heard {
    pieces: Vec<Piece>,
    bytes: usize,
}

impl Ear<'_> {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Live for Ear<'_> {
    fn show(&self, progress: Progress) {
        if let Some(piece) = Piece::of(&progress) {
            let mut heard = self.heard();
            heard.bytes = heard.bytes.saturating_add(piece.bytes());
            if heard.bytes <= LIVE_BYTES_MAX {
                heard.pieces.push(piece);
            }
        }
        self.live.show(progress);
    }
}

/// A request that has no answer yet. Dropped, it is kept as one that nobody waited for.
struct Open<'a> {
    recorder: &'a Recorder,
    session: SessionId,
    ear: &'a Ear<'a>,
    exchange: Option<Exchange>,
}

impl Open<'_> {
    fn close(mut self, answer: &Result<Reply, ModelError>) {
        self.finish(match answer {
            Ok(reply) => Came::Reply(reply.clone()),
            Err(error) => Came::Error(Failed::from(error)),
        });
    }

    fn finish(&mut self, came: Came) {
        let Some(exchange) = self.exchange.take() else { return };
        let live = std::mem::take(&mut self.ear.heard().pieces);
        self.recorder.finish(&self.session, Exchange { live, came, ..exchange });
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.finish(Came::Dropped(Nothing {}));
    }
}
