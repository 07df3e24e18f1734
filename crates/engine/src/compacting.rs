//! Making a conversation shorter: when it is time, what the plan is, and whoever writes the summary.
//!
//! Looked at whenever a step could begin. The plan is pure and in `context`; its facts are decided by the session; the
//! summary is written by an internal session that begins with the same stretches and the same head, so the provider has
//! most of it cached. After a fact that edits the transcript everything is woven anew from the log.

use posse_context::{Budget, Plan, directive, plan, verbatim, weigh};
use posse_session::{
    Block, Command, Draft, EntryId, Event, Finish, Fork, How, Message, ModelFailure, Part, Purpose, Record, Report, Segment, Session,
    SessionId, Spawn, TaskReport, Text, Timestamp,
};

use crate::{
    past::{self, SAVE_AFTER, stretches},
    run::{Run, RunError},
};

/// What an answer is given at least before the rest is called full; a model may be able to write far more.
const ANSWER_TOKENS: u64 = 20_000;

/// A token is about so many bytes, until the provider has counted.
const TOKEN_BYTES: u64 = 4;

/// No text has more bytes to a token on the whole: a server that counts less counts wrong.
const TOKEN_BYTES_MAX: u64 = 8;

/// What an image weighs, whatever its file does: providers count about 1,600 tokens.
const IMAGE_BYTES: u64 = 1_600 * TOKEN_BYTES;

/// A conversation that is far too long is summed up in so many rounds at most before it is sent.
const ROUNDS_MAX: u32 = 4;

/// The log of whoever writes a summary is short; how it failed is near its end.
const RECORDS_MAX: usize = 200;

/// How heavy the conversation is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Weight {
    /// Bytes of the messages that were sent, images at their weight in tokens.
    pub(crate) bytes: u64,
    /// Bytes that have come since and go with the next step.
    pub(crate) since: u64,
}

/// What a run has learned about the length of its conversation. Forgotten with the run, and learned again.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    /// Bytes, without the head, that the provider has refused since the model last answered.
    refused: Option<u64>,
    /// What the user wanted to have kept, should it take several attempts.
    wish: String,
}

impl Weight {
    pub(crate) fn add(&mut self, message: &Message, encoded: usize) {
        let image = |block: &Block| match block {
            Block::Image { data, .. } => vec![data.len()],
            Block::Result { images, .. } => images.iter().map(|(_, data)| data.len()).collect(),
            _ => Vec::new(),
        };
        let images: Vec<usize> = message.blocks.iter().flat_map(image).collect();
        let plain = encoded.saturating_sub(images.iter().sum());
        self.bytes += plain as u64 + IMAGE_BYTES * images.len() as u64;
    }

    /// What has come since the last step goes with the next.
    pub(crate) fn note(&mut self, record: &Record) {
        self.since = match record.event {
            Event::StepStarted { .. } => 0,
            _ => self.since + weigh(std::slice::from_ref(record)),
        };
    }

    /// About how many tokens the next request is: what the provider counted in the last one, and what has come since.
    fn tokens(&self, counted: u64) -> u64 {
        let counted = if counted == 0 { self.bytes / TOKEN_BYTES } else { counted.max(self.bytes / TOKEN_BYTES_MAX) };
        counted + self.since / TOKEN_BYTES
    }
}

/// Whether a fact changes what the model has been shown.
pub(crate) fn edits_transcript(event: &Event) -> bool {
    matches!(event, Event::Compacted { .. } | Event::Pruned { .. } | Event::Reverted { .. })
}

impl Run {
    /// How heavy the next request is, with what the draft adds to it.
    fn next_weight(&self, draft: &Draft) -> Weight {
        let Weight { bytes, since } = self.said.weight;
        Weight { bytes: bytes + self.head.len() as u64, since: since + weigh(draft.records()) }
    }

    /// About how many tokens that is.
    pub(crate) fn next_tokens(&self, draft: &Draft) -> u64 {
        self.next_weight(draft).tokens(draft.session().last_input())
    }

    /// What a conversation may have and what a summary may be of, in bytes as the provider counts tokens here.
    fn budget(&self, draft: &Draft, asked: bool) -> Budget {
        let head = self.head.len() as u64;
        let Weight { bytes, since } = self.next_weight(draft);
        let now = bytes + since;
        let tokens = u128::from(self.next_tokens(draft).max(1));
        let known = u64::try_from(u128::from(now) * u128::from(self.room_for_input()) / tokens).unwrap_or(u64::MAX).saturating_sub(head);
        // What the provider takes is less than is known: half of what it refused is room enough. A summary is first written of
        // nearly all of it, and of half as much each time that is refused too.
        let (now, shrunk) = (now.saturating_sub(head), draft.session().compaction().shrunk);
        let most = self.learned.refused.map_or(known, |refused| known.min(refused / 2));
        let fits = if shrunk == 0 { known } else { known.min(self.learned.refused.unwrap_or(now) >> shrunk) };
        Budget { most, prune: self.outfit.compaction.prune, asked, before: 0, now, fits }
    }

    /// Tokens that a request may have, so that there is room for an answer.
    fn room_for_input(&self) -> u64 {
        let facts = self.outfit.model.facts();
        facts.context - facts.output.min(ANSWER_TOKENS).min(facts.context / 4)
    }

    /// Makes the conversation shorter if the next step would not fit; `true` when something else happens first.
    pub(crate) async fn make_room(&mut self, draft: &mut Draft, now: Timestamp) -> bool {
        let session = draft.session();
        let compaction = session.compaction();
        if !self.outfit.compaction.auto || session.only_answers() || compaction.failed || ROUNDS_MAX <= compaction.rounds {
            return false;
        }
        // What was learned from a refusal is of use until the model answers.
        if compaction.rounds == 0 {
            self.learned.refused = None;
        }
        let tokens = self.next_tokens(draft);
        let budget = self.budget(draft, false);
        let is_refused = self.learned.refused.is_some() && budget.most < budget.now;
        if tokens <= self.room_for_input() && !is_refused {
            return false;
        }
        // Where the head takes nearly everything, nothing that is left out would help.
        if budget.most < (budget.most + self.head.len() as u64) / 4 {
            return false;
        }
        match self.planned(session, budget).await {
            Ok(Plan::Prune { to }) => draft.decide(Command::Prune { to }, &self.given(now)),
            Ok(Plan::Sum { tail_from }) => {
                let hard = self.outfit.model.facts().context <= tokens;
                self.sum_up(draft, tail_from, String::new(), None, hard, now);
            }
            // It is sent as it is; the provider says what it thinks of it.
            Ok(Plan::Nothing) | Err(_) => return false,
        }
        true
    }

    /// The provider finds the conversation too long, or the user wants a summary.
    pub(crate) async fn begin_compaction(&mut self, draft: &mut Draft, entry: Option<EntryId>, now: Timestamp) {
        let compaction = draft.session().compaction();
        let (is_refused, again) = (compaction.overflow.is_some(), compaction.again);
        let asked = entry.is_some() || (again && !is_refused);
        if let Some(entry) = &entry {
            self.learned.wish = self.wish_of(draft, entry);
        }
        let wish = if asked { self.learned.wish.clone() } else { String::new() };
        let hard = !asked || again || self.outfit.model.facts().context <= self.next_tokens(draft);
        if is_refused {
            let now = self.budget(draft, asked).now;
            self.learned.refused = Some(self.learned.refused.map_or(now, |before| before.min(now)));
        }
        match self.planned(draft.session(), self.budget(draft, asked)).await {
            Ok(Plan::Prune { to }) => draft.decide(Command::Prune { to }, &self.given(now)),
            Ok(Plan::Sum { tail_from }) => self.sum_up(draft, tail_from, wish, entry, hard, now),
            Ok(Plan::Nothing) => {
                let why = if asked { "there is nothing yet that could be summed up" } else { "nothing of it can be left out" };
                draft.decide(Command::LeaveUncompacted { why: why.to_owned(), took: entry }, &self.given(now));
            }
            Err(error) => {
                draft.decide(Command::LeaveUncompacted { why: error.to_string(), took: entry }, &self.given(now));
            }
        }
    }

    async fn planned(&self, session: &Session, budget: Budget) -> Result<Plan, RunError> {
        let records = self.own_records(session).await?;
        let segments = session.segments();
        let mut before = 0;
        for segment in segments.iter().filter(|segment| segment.session != *session.id()) {
            before += weigh(&past::stretch(&*self.world.log, segment, &[]).await.map_err(unavailable)?);
        }
        Ok(plan(&records, Budget { before, ..budget }))
    }

    /// The session's own records that its transcript shows and that are in the log; long texts stay in their blobs.
    async fn own_records(&self, session: &Session) -> Result<Vec<Record>, RunError> {
        let logged = self.session.head();
        let mut records = Vec::new();
        for segment in session.segments().iter().filter(|segment| segment.session == *session.id()) {
            let segment = Segment { to: segment.to.min(logged), ..segment.clone() };
            records.extend(past::stretch(&*self.world.log, &segment, &[]).await.map_err(unavailable)?);
        }
        // The summary stands first, whenever it was written.
        records.retain(|record| !matches!(record.event, Event::Compacted { .. }));
        Ok(records)
    }

    /// `hard`: it must be much shorter than what was refused, so outputs are left out for whoever sums it up, too.
    fn sum_up(&self, draft: &mut Draft, tail_from: u64, wish: String, took: Option<EntryId>, hard: bool, now: Timestamp) {
        let Some(configured) = draft.session().configured() else {
            let why = "nothing was ever sent".to_owned();
            return draft.decide(Command::LeaveUncompacted { why, took }, &self.given(now));
        };
        let mut segments = draft.session().segments_until(tail_from);
        segments.iter_mut().for_each(|segment| segment.pruned |= hard);
        let model = self.outfit.compaction.model.clone().unwrap_or_else(|| configured.model.clone());
        let purpose = Purpose::Compact { tail_from };
        let spawn = Spawn {
            description: "sum up the conversation".into(),
            prompt: directive(&self.outfit.compaction.prompt, &wish).into(),
            entry: EntryId::fresh(&*self.world.ids),
            internal: true,
            fork: Some(Box::new(Fork { segments, head: configured.head.clone(), model })),
            ..Spawn::bare(purpose.agent().to_owned())
        };
        let spawn = Box::new(Spawn { purpose: Some(purpose), ..spawn });
        let task = SessionId::fresh(&*self.world.ids);
        draft.decide(Command::Compact { task, spawn, took }, &self.given(now));
    }

    /// What the user wants to have kept.
    fn wish_of(&self, draft: &Draft, entry: &EntryId) -> String {
        let words =
            |parts: &[Part]| parts.iter().find_map(|part| if let Part::Compact { words } = part { Some(words.clone()) } else { None });
        let fresh = draft.records().iter().find_map(|record| match &record.event {
            Event::Expanded { entry: expanded, parts, .. } if expanded == entry => words(parts),
            Event::Queued { entry: queued } if queued.id == *entry => words(&queued.parts),
            _ => None,
        });
        let text = fresh.or_else(|| self.typing.wish(entry).cloned()).unwrap_or_default();
        text.inline().unwrap_or_default().to_owned()
    }

    /// Who only answers is first asked as any other step is: what a provider has cached is not for another choice of tools.
    pub(crate) fn asks_softly(&self) -> bool {
        self.session.only_answers() && !self.session.has_failed()
    }

    /// An answer that is cut off, or that calls tools and says nothing, is no summary.
    pub(crate) fn object_to(&self, report: &mut Report) {
        let Report::Reply { step, parts, usage, finish, .. } = &*report else { return };
        let says = parts.iter().any(|part| matches!(part, Part::Text { text, .. } if !text.is_blank()));
        let (failure, words) = match finish {
            Finish::Length => (ModelFailure::BadRequest, "it was cut off at the output limit of the model"),
            _ if !says => (ModelFailure::Malformed, "the model called tools instead of answering"),
            _ => return,
        };
        let (step, usage) = (*step, *usage);
        *report = Report::ModelFailed { step, failure, words: words.to_owned(), retry_after: None, partial: Text::default(), usage };
    }

    /// What users said in the part that a summary is of: it is kept word for word.
    pub(crate) async fn keep_words(&self, session: &Session, report: &mut TaskReport) {
        let open = session.tasks().get(&report.task);
        let Some(Purpose::Compact { tail_from }) = open.and_then(|open| open.purpose.clone()) else { return };
        let own = session.segments_until(tail_from).into_iter().filter(|segment| segment.session == *session.id());
        // Without them the summary still stands.
        let records = stretches(&*self.world.log, &own.collect::<Vec<_>>()).await.unwrap_or_default();
        // Where there is little room they are given a part of it, as the tail is.
        let most = self.learned.refused.map_or(usize::MAX, |refused| usize::try_from(refused / 8).unwrap_or(usize::MAX));
        report.verbatim = verbatim(&records, most);
    }

    /// Whether a summary failed because the provider found what it was of too long.
    pub(crate) async fn note_length(&self, session: &Session, report: &mut TaskReport) {
        let sums_up = session.tasks().get(&report.task).is_some_and(|open| matches!(open.purpose, Some(Purpose::Compact { .. })));
        if !sums_up || report.how != How::Failed {
            return;
        }
        // Where it cannot be read it is a failure like any other.
        let records = self.world.log.read(&report.task, 0, RECORDS_MAX).await.unwrap_or_default();
        let failure = records.iter().rev().find_map(|record| match record.event {
            Event::StepFailed { failure, .. } => Some(failure),
            _ => None,
        });
        report.too_long = failure == Some(Some(ModelFailure::TooLong));
    }

    /// Everything the model sees, woven and encoded anew from the log.
    pub(crate) async fn reweave(&mut self) -> Result<(), RunError> {
        let past = past::read(&*self.world.log, self.session.id()).await.map_err(unavailable)?;
        (self.before, self.said) =
            self.tree.begin_with(&past.foreign, past.session.birth().map(|birth| birth.kind), &self.outfit).await.map_err(unavailable)?;
        past.records.iter().for_each(|record| self.thread_in(record));
        Ok(())
    }

    /// Keeps a fold when enough has happened since the last one. It is a cache: without it opening takes longer.
    pub(crate) async fn save_fold(&mut self) {
        if self.session.head() < self.saved + SAVE_AFTER {
            return;
        }
        match past::save(&*self.world.log, self.session.id()).await {
            Ok(seq) => self.saved = seq,
            Err(_) => self.saved = self.session.head(),
        }
    }
}

fn unavailable(error: impl std::fmt::Display) -> RunError {
    RunError::Unavailable(error.to_string())
}

/// What a fork's first append says besides its birth.
pub(crate) fn fork_wishes(fork: &Fork) -> [Command; 2] {
    [Command::Fork { segments: fork.segments.clone() }, Command::Configure { head: fork.head.clone(), model: fork.model.clone() }]
}
