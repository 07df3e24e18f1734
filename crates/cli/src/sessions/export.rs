//! `posse sessions export`: a session as other tools read it, or every record of its tree as it is in the log.
//!
//! A fork is exported with the logs that it begins with, each up to the append of the last record that is shown of it. Nothing is
//! added to what a log holds, and a log holds no keys. Left out, unless all is asked for, is what is of no use elsewhere: what only
//! undoing needs, which may be as long as a file, and agents' definitions, in which people write settings of their own.

use std::collections::{BTreeMap, HashMap, HashSet};

use posse_api::{Client as _, Setting, opencode};
use posse_server::Local;
use posse_session::{BatchId, Event, Log, Outcome, Part, Record, Segment, Seq, SessionId, Summary, Text};
use serde::Serialize;

use super::tree;
use crate::{
    asks, build,
    exit::{Exit, Failure},
    print::to_stdout,
    run::client_failure,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ExportFormat {
    /// One object: {info, messages: [{info, parts}]}
    Opencode,
    /// Every record of the session and of those below it, one per line
    Jsonl,
}

pub(crate) async fn export(id: &str, format: ExportFormat, whole: bool) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let missing = || client_failure(posse_api::ClientError::Missing(id.to_owned()));
    let client = asks::client(&places)?.ok_or_else(missing)?;
    let summary = client.find(id).await.map_err(client_failure)?;
    match format {
        ExportFormat::Opencode => {
            let facts = client.facts(&summary.session, 0).await.map_err(client_failure)?;
            let project = places.project.display().to_string();
            let setting = Setting { version: env!("CARGO_PKG_VERSION"), project: &project };
            let begins = beginning(&client, &facts).await?;
            let below = children(&client, begins.iter().chain(&facts)).await?;
            let exported = opencode(&summary, &begins, &facts, &below, setting);
            to_stdout(&serde_json::to_string_pretty(&exported).unwrap_or_default());
        }
        ExportFormat::Jsonl if whole => whole_lines(&client, &summary, &*build::open_store(&places)?).await?,
        ExportFormat::Jsonl => lines(&client, &summary).await?,
    }
    Ok(Exit::Done)
}

/// The logs of the sessions that these facts started, for what is said of them.
async fn children(client: &Local, facts: impl Iterator<Item = &Record>) -> Result<HashMap<SessionId, Vec<Record>>, Failure> {
    let mut children = HashMap::new();
    for record in facts {
        if let Event::TaskStarted { task, .. } = &record.event {
            children.insert(task.clone(), client.facts(task, 0).await.map_err(client_failure)?);
        }
    }
    Ok(children)
}

/// What a fork shows before its own first word.
async fn beginning(client: &Local, facts: &[Record]) -> Result<Vec<Record>, Failure> {
    let mut begins = Vec::new();
    for segment in shown_by(facts) {
        let mut pages = Pages::of(client, &segment.session, None);
        pages.after = segment.from;
        while let Some(record) = pages.next().await?.filter(|record| record.seq <= segment.to) {
            begins.push(record);
        }
    }
    Ok(begins)
}

fn shown_by(facts: &[Record]) -> impl Iterator<Item = &Segment> {
    facts.iter().filter_map(|record| if let Event::Forked { segments } = &record.event { Some(segments) } else { None }).flatten()
}

/// The logs of an export, in order: the session and those below it, then what these show of others and up to which record.
async fn logs(client: &Local, of: &Summary) -> Result<Vec<(SessionId, Option<Seq>)>, Failure> {
    let whole: Vec<SessionId> = tree::nodes(client, of).await?.into_iter().map(|node| node.session).collect();
    let known: HashSet<&SessionId> = whole.iter().collect();
    let mut shown: BTreeMap<SessionId, Seq> = BTreeMap::new();
    let mut unread: Vec<SessionId> = whole.clone();
    while let Some(session) = unread.pop() {
        let begins = client.page(&session, 0, super::BEGINNING).await.map_err(client_failure)?;
        for segment in shown_by(&begins).filter(|segment| !known.contains(&segment.session)) {
            if !shown.contains_key(&segment.session) {
                unread.push(segment.session.clone());
            }
            let to = shown.entry(segment.session.clone()).or_default();
            *to = segment.to.max(*to);
        }
    }
    Ok(whole.iter().map(|session| (session.clone(), None)).chain(shown.into_iter().map(|(session, to)| (session, Some(to)))).collect())
}

/// The records of a log, a page at a time: it may be larger than memory.
struct Pages<'a> {
    client: &'a Local,
    session: &'a SessionId,
    after: Seq,
    page: std::vec::IntoIter<Record>,
    /// Nothing is read beyond the append with this record. What was one append stays one.
    to: Option<Seq>,
    batch: Option<BatchId>,
}

impl<'a> Pages<'a> {
    fn of(client: &'a Local, session: &'a SessionId, to: Option<Seq>) -> Self {
        Self { client, session, after: 0, page: Vec::new().into_iter(), to, batch: None }
    }

    async fn next(&mut self) -> Result<Option<Record>, Failure> {
        if self.page.len() == 0 {
            self.page = self.client.page(self.session, self.after, super::PAGE).await.map_err(client_failure)?.into_iter();
        }
        let is_wanted = |record: &Record| self.to.is_none_or(|to| record.seq <= to || self.batch.as_ref() == Some(&record.batch));
        let Some(next) = self.page.next().filter(is_wanted) else { return Ok(None) };
        self.after = next.seq;
        self.batch = Some(next.batch.clone());
        Ok(Some(next))
    }
}

/// A record and whose it is.
#[derive(Serialize)]
struct Line<'a> {
    session: &'a SessionId,
    #[serde(flatten)]
    record: &'a Record,
}

async fn lines(client: &Local, of: &Summary) -> Result<(), Failure> {
    for (session, to) in &logs(client, of).await? {
        let mut pages = Pages::of(client, session, *to);
        while let Some(mut record) = pages.next().await? {
            match &mut record.event {
                Event::CallFinished { outcome: Outcome::Done { attachments, .. }, .. } => attachments.iter_mut().for_each(without_undo),
                Event::Created { recipe, .. } => recipe.definition = Text::default(),
                _ => {}
            }
            to_stdout(&serde_json::to_string(&Line { session, record: &record }).unwrap_or_default());
        }
    }
    Ok(())
}

/// The same with nothing left out: a text beside the records is a line of its own, once.
async fn whole_lines(client: &Local, of: &Summary, log: &dyn Log) -> Result<(), Failure> {
    let mut told = HashSet::new();
    for (session, to) in &logs(client, of).await? {
        let mut pages = Pages::of(client, session, *to);
        while let Some(record) = pages.next().await? {
            to_stdout(&serde_json::to_string(&Line { session, record: &record }).unwrap_or_default());
            let Event::Configured { head, .. } = &record.event else { continue };
            // One that cannot be read is made anew by whoever goes on.
            if told.insert(head.clone())
                && let Ok(bytes) = log.blob(head).await
                && let Ok(text) = std::str::from_utf8(&bytes)
            {
                to_stdout(&serde_json::json!({"blob": head, "text": text}).to_string());
            }
        }
    }
    Ok(())
}

fn without_undo(part: &mut Part) {
    if let Part::Patch { change, .. } = part {
        *change = Text::default();
    }
}
