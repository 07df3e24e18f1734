//! What a log says of a session: its state, the records its transcript is made of, and what was started before them.
//!
//! A long log is not kept in memory: it is folded page by page, and a saved fold spares even that. What a transcript no
//! longer shows is read only where something of it is still open.

use std::{collections::HashMap, sync::Arc};

use posse_session::{CallId, Event, FOLD_VERSION, Log, ReadError, Record, SavedFold, Segment, Seq, Session, SessionId, Text};

use crate::{
    hub::OpenError,
    spill::{PAGE, restore},
};

/// So many records after the last saved fold are worth a new one.
pub(crate) const SAVE_AFTER: u64 = 2_000;

/// A session as its log tells it.
pub struct Past {
    pub session: Session,
    /// What its transcript begins with that is in other logs.
    pub foreign: Vec<Segment>,
    /// What else its transcript is made of, with its texts, oldest first.
    pub records: Vec<Record>,
    /// What it started before them: tasks, without the words of those that have ended.
    pub(crate) beside: Vec<Record>,
    /// The last record that a saved fold includes.
    pub(crate) saved: Seq,
}

impl Past {
    /// Of a session nothing has happened to yet.
    pub(crate) fn none(session: SessionId) -> Self {
        Self { session: Session::new(session), foreign: Vec::new(), records: Vec::new(), beside: Vec::new(), saved: 0 }
    }
}

/// A fold as it is kept: the state, and what was started.
type Kept = (Session, Vec<Record>);

/// A session without its texts.
pub(crate) async fn fold(log: &dyn Log, session: &SessionId) -> Result<Session, OpenError> {
    Ok(folded(log, session).await?.session)
}

/// A session and its own records that its transcript is made of, with their texts.
pub(crate) async fn read(log: &dyn Log, session: &SessionId) -> Result<Past, OpenError> {
    let Folded { session, mut beside, records, saved } = folded(log, session).await?;
    let segments = session.segments();
    // Most sessions see their whole log; then nothing needs to be copied.
    let whole = saved == 0 && matches!(&segments[..], [only] if only.session == *session.id() && only.from == 0 && !only.pruned);
    let (mut transcript, records) = if whole { (records, Vec::new()) } else { (Vec::new(), records) };
    let is_own = |segment: &&Segment| segment.session == *session.id();
    for segment in segments.iter().filter(is_own).filter(|_| !whole) {
        transcript.extend(stretch(log, segment, &records).await?);
    }
    let foreign = segments.iter().filter(|segment| !is_own(segment)).cloned().collect();
    restore(log, &mut transcript).await?;
    let shown = |seq: Seq| segments.iter().any(|segment| segment.session == *session.id() && segment.from < seq && seq <= segment.to);
    beside.retain(|record| !shown(record.seq));
    restore(log, &mut beside).await?;
    Ok(Past { session, foreign, records: transcript, beside, saved })
}

/// What these stretches show, with their texts.
pub(crate) async fn stretches(log: &dyn Log, segments: &[Segment]) -> Result<Vec<Record>, ReadError> {
    let mut records = Vec::new();
    for segment in segments {
        records.extend(stretch(log, segment, &[]).await?);
    }
    restore(log, &mut records).await?;
    Ok(records)
}

/// What a stretch shows; long texts stay in their blobs. Of the same log the later part may be `known` already.
pub(crate) async fn stretch(log: &dyn Log, segment: &Segment, known: &[Record]) -> Result<Vec<Record>, ReadError> {
    let place = |seq: Seq| known.partition_point(|record| record.seq <= seq);
    let known = &known[place(segment.from)..place(segment.to)];
    let to = known.first().map_or(segment.to, |record| record.seq - 1);
    let mut records: Vec<Record> = Vec::new();
    loop {
        let after = records.last().map_or(segment.from, |last| last.seq);
        let wanted = usize::try_from(to.saturating_sub(after)).unwrap_or(PAGE).min(PAGE);
        let more = if wanted == 0 { Vec::new() } else { log.read(&segment.session, after, wanted).await? };
        if more.is_empty() {
            break;
        }
        records.extend(more);
    }
    records.extend(known.iter().cloned());
    if segment.pruned {
        posse_context::prune(&mut records);
    }
    Ok(records)
}

struct Folded {
    session: Session,
    beside: Vec<Record>,
    /// Its own records that its transcript shows, as far as they had to be read.
    records: Vec<Record>,
    saved: Seq,
}

async fn folded(log: &dyn Log, id: &SessionId) -> Result<Folded, OpenError> {
    let kept = log.saved_fold(id).await?.filter(|fold| fold.version == FOLD_VERSION);
    // One that cannot be read is none.
    let kept = kept.and_then(|fold| Some((fold.seq, serde_json::from_slice::<Kept>(&fold.body).ok()?)));
    let fits = |(seq, (session, _)): &(Seq, Kept)| session.head() == *seq && session.id() == id;
    let (saved, (session, beside)) = kept.filter(fits).unwrap_or_else(|| (0, (Session::new(id.clone()), Vec::new())));
    let mut folded = Folded { session, beside, records: Vec::new(), saved };
    let mut called: HashMap<CallId, Record> = HashMap::new();
    loop {
        let mut page = log.read(id, folded.session.head(), PAGE).await?;
        let last = page.len() < PAGE;
        if let Some(first) = page.first_mut().filter(|first| first.seq == 1) {
            // What a session was born with is part of its state.
            restore(log, std::slice::from_mut(first)).await?;
        }
        for record in page {
            folded.session.apply(&record);
            folded.note(&record, &mut called);
            folded.records.push(record);
        }
        if last {
            break;
        }
        folded.forget_unseen();
    }
    if folded.session.head() == 0 {
        return Err(OpenError::Missing);
    }
    folded.slim();
    Ok(folded)
}

impl Folded {
    /// Keeps what tells of tasks, and the calls that started them.
    fn note(&mut self, record: &Record, called: &mut HashMap<CallId, Record>) {
        match &record.event {
            Event::Called { call, .. } => _ = called.insert(call.clone(), bare_call(record)),
            Event::CallFinished { call, .. } => _ = called.remove(call),
            Event::TaskStarted { call, .. } => {
                self.beside.extend(called.remove(call));
                self.beside.push(record.clone());
            }
            Event::TaskResumed { .. } => self.beside.push(record.clone()),
            Event::TaskEnded { .. } => {
                let mut ended = record.clone();
                if let Event::TaskEnded { result: said, .. } = &mut ended.event {
                    *said = Text::default();
                }
                self.beside.push(ended);
            }
            _ => {}
        }
    }

    /// Lets go of records that the transcript does not show any more.
    fn forget_unseen(&mut self) {
        let segments = self.session.segments();
        let own: Vec<&Segment> = segments.iter().filter(|segment| segment.session == *self.session.id()).collect();
        self.records.retain(|record| own.iter().any(|segment| segment.from < record.seq && record.seq <= segment.to));
        self.slim();
    }

    /// Of a task that has ended only its start without words and its last end are kept.
    fn slim(&mut self) {
        let mut last: HashMap<SessionId, Seq> = HashMap::new();
        for record in &self.beside {
            if let Event::TaskEnded { task, .. } = &record.event {
                last.insert(task.clone(), record.seq);
            }
        }
        let open = self.session.tasks();
        self.beside.retain_mut(|record| match &mut record.event {
            Event::TaskEnded { task, .. } => last.get(task) == Some(&record.seq),
            Event::TaskStarted { task, spawn, .. } | Event::TaskResumed { task, spawn, .. } => {
                if open.get(task).is_none_or(|open| open.seq != record.seq) {
                    (spawn.prompt, spawn.fork) = (Text::default(), None);
                }
                true
            }
            _ => true,
        });
    }
}

/// A call without its input: who started a task, and the provider's id of it.
fn bare_call(record: &Record) -> Record {
    let mut bare = record.clone();
    if let Event::Called { input, touches, decision, .. } = &mut bare.event {
        (*input, *touches, *decision) = (Text::default(), Vec::new(), None);
    }
    bare
}

/// Keeps the fold of a session, as its log tells it now.
pub(crate) async fn save(log: &dyn Log, id: &SessionId) -> Result<Seq, OpenError> {
    let Folded { session, beside, .. } = folded(log, id).await?;
    let seq = session.head();
    let body = serde_json::to_vec(&(session, beside)).map_err(|error| OpenError::Unavailable(error.to_string()))?;
    let fold = SavedFold { session: id.clone(), seq, version: FOLD_VERSION, body: Arc::from(body) };
    log.save_fold(fold).await.map_err(|error| OpenError::Unavailable(error.to_string()))?;
    Ok(seq)
}
