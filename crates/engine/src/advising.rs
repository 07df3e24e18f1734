//! What is done beside a conversation: questions of the user's, notes, suggestions, drafts, and a word on who does what.
//!
//! Each is an internal session that begins with the same stretches and the same recorded head, as in `compacting.rs`, so
//! with the same bytes. The conversation hears nothing of it: no call, no result, no notice. That it began is a fact of
//! the session it is about, so a crash neither forgets it nor begins it twice.

use std::{sync::Arc, time::Duration};

use posse_context::{doing_directive, doing_in, draft_note, side_directive, suggestion_directive, suggestion_in};
use posse_session::{
    Append, BatchId, Birth, By, Command, Draft, Effect, EntryId, Event, Fork, Given, Hold, How, Kind, Limits, Part, Purpose, Record,
    Report, Rules, Segment, Seq, Session, SessionId, Source, Spawn, TaskReport, Text, Timestamp,
};
use tokio::time::Instant;

use crate::{
    hub::{Hub, OpenError},
    past::fold,
    run::{Run, RunError},
    spill::{restore, spill},
    tree::{Attended, Tree, wish},
    work::TaskBirth,
    world::Outfits,
};

/// So much must have come since notes were last taken: a few steps of work, or a page of what the user wants.
const NOTES_ANSWERS_MIN: u64 = 3;
const NOTES_WORDS_MIN: u64 = 2_000;

/// How soon a question that nobody wants answered any more is told so again.
const STOP_AGAIN: Duration = Duration::from_millis(20);

/// How long it may take to end then.
const STOP_MAX: Duration = Duration::from_secs(2);

/// A question beside a conversation.
#[derive(Debug, Clone)]
pub struct Aside {
    /// The session that answers it; chosen by whoever asks, so that asking again is the same question.
    pub task: SessionId,
    pub question: String,
    /// Who answers, if not the session's own model.
    pub model: Option<String>,
}

/// What a run keeps for work beside the conversation.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    /// The first record of a step that has no answer yet: whoever begins with this conversation begins before it.
    unanswered: Option<Seq>,
    /// When it was last looked at what this session is doing, and its last reply then.
    summed_up: Option<(Instant, Seq)>,
    /// What was said of it.
    doing: String,
    /// The task that puts notes in order, if that is this process's to do.
    ordering: Option<SessionId>,
}

impl Beside {
    pub(crate) fn thread_in(&mut self, record: &Record) {
        self.unanswered = still_unanswered(self.unanswered, record);
        if let Event::Advised { advice: Purpose::Summarise, text } = &record.event {
            self.doing = text.inline().unwrap_or_default().to_owned();
        }
    }
}

fn still_unanswered(open: Option<Seq>, record: &Record) -> Option<Seq> {
    match record.event {
        Event::StepStarted { .. } => open.or(Some(record.seq)),
        Event::Replied { .. } | Event::StepFailed { retry_at: None, .. } => None,
        _ => open,
    }
}

impl Run {
    /// What internal work came to, as it is recorded: a line that can be shown, or nothing.
    pub(crate) fn tidy_advice(&self, session: &Session, ended: &mut TaskReport) {
        let Some(purpose) = session.tasks().get(&ended.task).and_then(|open| open.purpose.as_ref()) else { return };
        let said = ended.said.inline().unwrap_or_default();
        let tidied = match purpose {
            Purpose::Suggest => suggestion_in(said),
            Purpose::Summarise => doing_in(said),
            Purpose::Consolidate => return self.have_ordered(session, &ended.task),
            _ => return,
        };
        ended.said = tidied.unwrap_or_default().into();
    }

    /// Its own end is in its own log already, so this may come before it is in ours: a crash in between asks nobody again.
    fn have_ordered(&self, session: &Session, task: &SessionId) {
        if let Some(notes) = self.outfit.advice.consolidate.as_ref().filter(|_| self.beside.ordering.as_ref() == Some(task)) {
            notes.upkeep.done(session.id());
        }
    }

    /// Begins and ends what is done beside the conversation. Before anything else begins: what is owed next may follow from it.
    pub(crate) async fn advise(&mut self, draft: &mut Draft, now: Timestamp) {
        if self.pauses.is_some() {
            return;
        }
        self.let_go(draft, now);
        self.order_on(draft, now);
        let Some(kind) = draft.session().birth().map(|birth| birth.kind) else { return };
        match kind {
            Kind::Root => self.advise_on_turn(draft, now).await,
            Kind::Task | Kind::Fork | Kind::Teammate => self.sum_up_work(draft, now),
            Kind::Internal => {}
        }
    }

    /// Ends what has lost its point: guesses once the user has spoken, and what yields once everything else is over.
    fn let_go(&self, draft: &mut Draft, now: Timestamp) {
        let session = draft.session();
        let open = || session.tasks().iter().filter(|(_, open)| open.stopped.is_none());
        let purposes: Vec<(SessionId, Purpose)> = open().filter_map(|(task, open)| Some((task.clone(), open.purpose.clone()?))).collect();
        if purposes.is_empty() {
            return;
        }
        let speaks = !session.is_between_turns() || session.waits_for_model();
        let over = concludes(session);
        for (task, _) in purposes.iter().filter(|(_, purpose)| (speaks && purpose.foresees()) || (over && purpose.yields())) {
            draft.decide(Command::StopTask { task: task.clone(), by: By::Kernel }, &self.given(now));
        }
    }

    /// Notes that a process which is gone was putting in order: it goes on, unless somebody else has come first.
    fn order_on(&mut self, draft: &mut Draft, now: Timestamp) {
        let Some(notes) = &self.outfit.advice.consolidate else { return };
        let session = draft.session();
        let begun = session.tasks().iter().find(|(_, open)| open.purpose == Some(Purpose::Consolidate) && open.stopped.is_none());
        let Some(task) = begun.map(|(task, _)| task.clone()).filter(|task| self.beside.ordering.as_ref() != Some(task)) else { return };
        if notes.upkeep.claim_again(session.id()) {
            self.beside.ordering = Some(task);
        } else {
            draft.decide(Command::StopTask { task, by: By::Kernel }, &self.given(now));
        }
    }

    /// A turn has ended well, and with it the round is about to.
    async fn advise_on_turn(&mut self, draft: &mut Draft, now: Timestamp) {
        let wanted = &self.outfit.advice;
        if !wanted.suggest && wanted.remember.is_none() && wanted.consolidate.is_none() {
            return;
        }
        let session = draft.session();
        let round = session.round();
        if round.how != How::Completed || round.reply.is_none() || session.hold().is_some() || !concludes(session) {
            return;
        }
        // Nothing is left to spend: the answer was given, and that was all there was money for.
        if self.tree.ledger.has_left(session.id()).is_err() {
            return;
        }
        let advice = session.advice().clone();
        let is_due = |purpose: &Purpose| !advice.begun.contains(purpose);
        let segments = session.segments();
        let mut begun: Vec<(Purpose, String)> = Vec::new();
        let is_worth = NOTES_ANSWERS_MIN <= advice.answers || NOTES_WORDS_MIN <= advice.words;
        if let Some(directive) = wanted.remember.as_ref().filter(|_| is_worth && is_due(&Purpose::Remember)) {
            begun.push((Purpose::Remember, directive.to_string()));
        }
        if let Some(notes) = wanted.consolidate.as_ref().filter(|notes| is_due(&Purpose::Consolidate) && notes.upkeep.claim(session.id())) {
            begun.push((Purpose::Consolidate, notes.directive.to_string()));
        }
        if wanted.suggest && is_due(&Purpose::Suggest) {
            begun.push((Purpose::Suggest, suggestion_directive().to_owned()));
        }
        if let Some(seq) = advice.suggested.filter(|_| wanted.speculate && is_due(&Purpose::Speculate))
            && let Some(suggestion) = self.text_at(draft, seq).await
        {
            begun.push((Purpose::Speculate, suggestion));
        }
        for (purpose, prompt) in begun {
            let task = SessionId::fresh(&*self.world.ids);
            if purpose == Purpose::Consolidate {
                self.beside.ordering = Some(task.clone());
            }
            if let Some(command) = self.beside(draft, task, purpose, prompt, segments.clone(), None) {
                draft.decide(command, &self.given(now));
            }
        }
    }

    /// Says now and then what a task in the background is doing, if it has done anything since.
    fn sum_up_work(&mut self, draft: &mut Draft, now: Timestamp) {
        let Some(every) = self.outfit.advice.summaries else { return };
        let session = draft.session();
        if !session.round().open || session.hold().is_some() || !self.tree.is_background(session) {
            return;
        }
        let reply = session.last_reply().unwrap_or_default();
        let (last, known) = *self.beside.summed_up.get_or_insert_with(|| (Instant::now(), 0));
        if last.elapsed() < every || reply <= known || concludes(session) || self.tree.ledger.has_left(session.id()).is_err() {
            return;
        }
        self.beside.summed_up = Some((Instant::now(), reply));
        let (task, directive) = (SessionId::fresh(&*self.world.ids), doing_directive(&self.beside.doing));
        if let Some(command) = self.beside(draft, task, Purpose::Summarise, directive, self.said_so_far(draft), None) {
            draft.decide(command, &self.given(now));
        }
    }

    /// When to look again what this session is doing.
    pub(crate) fn next_summary(&self) -> Option<Instant> {
        let next = self.beside.summed_up?.0 + self.outfit.advice.summaries?;
        // One that is due waits for the next reply.
        (self.session.round().open && Instant::now() < next).then_some(next)
    }

    /// A question beside the conversation, whatever the conversation is in the middle of.
    pub(crate) fn aside(&self, draft: &Draft, task: SessionId, question: &str, model: Option<String>) -> Option<Command> {
        self.beside(draft, task, Purpose::Side, side_directive(question), self.said_so_far(draft), model)
    }

    /// The stretches up to the last place where nothing is half said; calls that are still open are said to be.
    fn said_so_far(&self, draft: &Draft) -> Vec<Segment> {
        match draft.records().iter().fold(self.beside.unanswered, still_unanswered) {
            Some(step) => draft.session().segments_until(step - 1),
            None => draft.session().segments(),
        }
    }

    fn beside(
        &self,
        draft: &Draft,
        task: SessionId,
        purpose: Purpose,
        prompt: String,
        segments: Vec<Segment>,
        model: Option<String>,
    ) -> Option<Command> {
        let model = model.or_else(|| self.outfit.advice.model.clone().filter(|_| purpose != Purpose::Side));
        let spawn = spawn(draft.session(), EntryId::fresh(&*self.world.ids), purpose, prompt, segments, model)?;
        Some(Command::Advise { task, spawn: Box::new(spawn) })
    }

    /// What was drafted for exactly the words that the next step takes, if anything was.
    pub(crate) async fn foreseen(&self, draft: &Draft) -> Option<Part> {
        let session = draft.session();
        let advice = session.advice();
        let (suggested, drafted) = (advice.suggested?, advice.speculated?);
        let [waiting] = session.queue().waiting() else { return None };
        if !session.is_between_turns() || waiting.source != Source::User || waiting.begins != Default::default() {
            return None;
        }
        let said = self.text_at(draft, waiting.seq).await?;
        if said.trim() != self.text_at(draft, suggested).await?.trim() {
            return None;
        }
        Some(Part::reminder(draft_note(&self.text_at(draft, drafted).await?)))
    }

    /// What a record of this session says: advice, or words that wait. Nothing where it is not one plain text.
    async fn text_at(&self, draft: &Draft, seq: Seq) -> Option<String> {
        let fresh = draft.records().iter().find(|record| record.seq == seq).cloned();
        let record = match fresh {
            Some(record) => record,
            None => {
                let log = &*self.world.log;
                let mut read = log.read(self.session.id(), seq.checked_sub(1)?, 1).await.ok()?;
                restore(log, &mut read).await.ok()?;
                read.pop()?
            }
        };
        match &record.event {
            Event::Advised { text, .. } => text.inline().map(str::to_owned),
            Event::Queued { entry } => match &entry.parts[..] {
                [Part::Text { text, synthetic: false }] => text.inline().map(str::to_owned),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Nothing is left to do but to record the end of the round.
fn concludes(session: &Session) -> bool {
    session.owed().iter().any(|effect| matches!(effect, Effect::Conclude { .. }))
}

/// What an internal session begins with. Nothing where the session has never been sent anything.
fn spawn(
    session: &Session,
    entry: EntryId,
    purpose: Purpose,
    prompt: String,
    segments: Vec<Segment>,
    model: Option<String>,
) -> Option<Spawn> {
    let configured = session.configured()?;
    let model = model.unwrap_or_else(|| configured.model.clone());
    Some(Spawn {
        description: title(&purpose).to_owned(),
        prompt: prompt.into(),
        entry,
        internal: true,
        fork: Some(Box::new(Fork { segments, head: configured.head.clone(), model })),
        purpose: Some(purpose.clone()),
        ..Spawn::bare(purpose.agent().to_owned())
    })
}

/// What lists call it.
fn title(purpose: &Purpose) -> &'static str {
    match purpose {
        Purpose::Compact { .. } => "sum up the conversation",
        Purpose::Remember => "note what is worth knowing later",
        Purpose::Consolidate => "put the notes in order",
        Purpose::Suggest => "guess what the user says next",
        Purpose::Speculate => "draft an answer ahead",
        Purpose::Side => "answer a question beside the work",
        Purpose::Summarise => "say what is being done",
    }
}

impl Hub {
    /// A question beside a conversation that nobody runs. The conversation stays where it is: nothing of it is taken over
    /// or gone on with. Returns when the end of it is recorded; `stop` ends it before.
    pub async fn ask_aside(
        &self,
        session: &SessionId,
        root: &SessionId,
        outfits: Arc<dyn Outfits>,
        limits: Limits,
        aside: Aside,
        stop: impl Future<Output = ()>,
    ) -> Result<(), OpenError> {
        let world = self.world();
        let owner = world.lease.take(root).await?;
        let mut folded = fold(&*world.log, session).await?;
        if folded.is_foreign() {
            return Err(OpenError::Foreign);
        }
        let birth = folded.birth().cloned().ok_or(OpenError::Missing)?;
        let tree = Tree::new(world.clone(), outfits, owner, limits).await?;
        let task = aside.task.clone();
        // An owner that is gone may have begun it, or may even have come to the end of it.
        if !folded.tasks().contains_key(&task) {
            if !world.log.read(&task, 0, 1).await.unwrap_or_default().is_empty() {
                return Ok(());
            }
            let directive = side_directive(&aside.question);
            let segments = said_so_far(&tree, &folded).await?;
            let spawn = spawn(&folded, EntryId::fresh(&*world.ids), Purpose::Side, directive, segments, aside.model)
                .ok_or_else(|| OpenError::Outfit(format!("nothing was said in {session} yet")))?;
            folded = tree.record(folded, Command::Advise { task: task.clone(), spawn: Box::new(spawn) }).await?;
        }
        let spawn = tree.spawn_of(&folded, &task).await?;
        let attended = tree.see_to_end(&folded, &birth, &task, &spawn, stop).await.map_err(unavailable)?;
        let report = TaskReport {
            task,
            round: 1,
            how: attended.how,
            result: attended.error.into(),
            notice: Text::default(),
            said: attended.texts.join("\n\n").into(),
            awaited: Vec::new(),
            verbatim: Text::default(),
            too_long: false,
            usage: attended.usage,
            effort: attended.effort,
            left: None,
        };
        tree.record(folded, Command::Report(Report::TaskEnded(Box::new(report)))).await?;
        Ok(())
    }
}

impl Tree {
    /// Records what a command comes to in the log of a session that nobody runs.
    async fn record(&self, session: Session, command: Command) -> Result<Session, OpenError> {
        let (world, rules) = (&self.world, Rules::default());
        let now = world.clock.now();
        let after = session.head();
        let mut draft = session.draft(BatchId::fresh(&*world.ids), now);
        draft.decide(command, &Given::apart(now, &*world.ids, &rules));
        if draft.is_empty() {
            return Ok(session);
        }
        let batch = draft.batch().clone();
        let (session, records) = draft.into_parts();
        let (mut events, mut blobs) = (Vec::new(), Vec::new());
        for record in &records {
            let (event, more) = spill(&record.event);
            events.push(event);
            blobs.extend(more);
        }
        let (root, epoch) = (self.owner.root.clone(), self.owner.epoch);
        let append = Append { session: session.id().clone(), root, epoch, batch, after, at: now, events, blobs, letters: Vec::new() };
        world.log.append(append).await.map_err(|error| unavailable(RunError::from(error)))?;
        Ok(session)
    }

    /// What an open task was started with.
    async fn spawn_of(&self, session: &Session, task: &SessionId) -> Result<Spawn, OpenError> {
        let seq = session.tasks().get(task).map(|open| open.seq).ok_or(OpenError::Missing)?;
        let mut read = self.world.log.read(session.id(), seq - 1, 1).await?;
        restore(&*self.world.log, &mut read).await?;
        match read.pop().map(|record| record.event) {
            Some(Event::TaskStarted { spawn, .. }) => Ok(spawn),
            _ => Err(OpenError::Missing),
        }
    }

    /// Goes on with a task whose parent nobody runs, until its round is over.
    async fn see_to_end(
        self: &Arc<Self>,
        parent: &Session,
        birth: &Birth,
        task: &SessionId,
        spawn: &Spawn,
        stop: impl Future<Output = ()>,
    ) -> Result<Attended, RunError> {
        let born = TaskBirth {
            parent: birth.clone(),
            parent_id: parent.id().clone(),
            // It only answers, whatever its model thinks.
            ceiling: birth.ceiling.iter().cloned().chain([Rules::denying_all()]).collect(),
            strict_shell: true,
            spawn: spawn.clone(),
            recipe: birth.recipe.clone(),
        };
        let attend = self.attend(task, spawn, parent.id(), &born);
        tokio::pin!(attend, stop);
        tokio::select! {
            attended = &mut attend => return attended,
            () = &mut stop => {}
        }
        let told = async {
            loop {
                if let Some(route) = self.route(task) {
                    let interrupt = Command::Interrupt { by: By::User, hold: Hold::Esc, partial: Text::default() };
                    let _ = route.mail.send(wish(interrupt)).await;
                }
                tokio::time::sleep(STOP_AGAIN).await;
            }
        };
        tokio::select! {
            attended = attend => attended,
            never = told => never,
            () = tokio::time::sleep(STOP_MAX) => Err(RunError::Unavailable("it did not end when told to".into())),
        }
    }
}

/// The same as a run knows it, read off the log.
async fn said_so_far(tree: &Tree, session: &Session) -> Result<Vec<Segment>, OpenError> {
    let segments = session.segments();
    let mut open = None;
    for segment in segments.iter().filter(|segment| segment.session == *session.id()) {
        for record in crate::past::stretch(&*tree.world.log, segment, &[]).await? {
            open = still_unanswered(open, &record);
        }
    }
    Ok(match open {
        Some(step) => session.segments_until(step - 1),
        None => segments,
    })
}

fn unavailable(error: RunError) -> OpenError {
    OpenError::Unavailable(error.to_string())
}
