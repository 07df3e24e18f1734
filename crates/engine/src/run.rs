//! The loop of one session: commit facts, keep going what is owed, wait for reports.
//!
//! Everything that happens to a session comes in as [`Mail`]; many pieces become one append. If an append fails the run
//! ends and drops all it started; the log is whole and the next owner goes on from it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use posse_session::{
    Admission, Answer, Append, AppendError, BatchId, BoxFuture, CallId, CallOwner, CallState, Command, Draft, Effect, EffectKey, Entry,
    Errand, Event, Given, Granted, Hash, LetterId, Limit, Live as _, Look, Outcome, Part, Permit, Progress, Record, Report, Request,
    Reserved, Scope, Seq, Session, SessionId, Source, Summary, TaskEnd, Text, Timestamp, To, ToolChoice, Turn, Usage, WAIT_MAX, Wish,
};
use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    advising::Beside,
    batch::{Gate, Opener},
    clockwork::Stopwatch,
    compacting::{Learned, edits_transcript},
    errand::Wake,
    lanes::{Place, Slot, Urgency},
    live::Pulse,
    meter::estimated,
    prefix::{Prefix, Shared},
    spill::{Blobs, spill},
    tree::Tree,
    typing::Typing,
    visits::Woken,
    work::{CallInput, Desk, HOOK_MAX, Started, Watched, Work, parse},
    world::{Outfit, World},
};

/// Pieces of mail that wait for a busy loop; senders wait beyond it.
const MAIL_MAX: usize = 256;

/// How long a call may take to end after it was told to; tools promise three seconds.
const STOP_MAX: Duration = Duration::from_secs(5);

/// An answer is always given so much, whatever the estimate says: it may be wrong.
const ANSWER_TOKENS_MIN: u64 = 1_000;

/// How often a step looks again that waits for what others have set aside, or for what its model wants to hear.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Why a run ended before its session was settled.
#[derive(Debug, Clone, PartialEq)]
pub enum RunError {
    /// Another process owns the tree now.
    Moved,
    /// The log cannot be written or read. Nothing was lost; open the session again when it can.
    Unavailable(String),
    /// The log holds facts of a later version.
    Foreign,
    /// So many entries wait already that this one was not taken in. Nothing was recorded of it.
    QueueFull,
    /// Its round is over and whoever started it does not know yet. Nothing was recorded; say it to whoever did.
    AtRest,
}

impl fmt::Display for RunError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Moved => out.write_str("another process took this session over"),
            Self::Unavailable(why) => out.write_str(why),
            Self::AtRest => out.write_str("it has just ended"),
            Self::QueueFull => out.write_str("too many messages wait for this session already; wait until it has read some"),
            Self::Foreign => out.write_str("this session was written by a later version of posse"),
        }
    }
}

impl std::error::Error for RunError {}

impl From<AppendError> for RunError {
    fn from(error: AppendError) -> Self {
        match error {
            AppendError::Moved { .. } => Self::Moved,
            AppendError::Unavailable(why) => Self::Unavailable(why),
        }
    }
}

pub(crate) enum Mail {
    Wish {
        command: Command,
        letter: Option<LetterId>,
        done: Option<oneshot::Sender<Result<(), RunError>>>,
    },
    Report {
        key: EffectKey,
        report: Box<Report>,
        /// What a task's end is worded from, for calls that wait for it.
        end: Option<Box<TaskEnd>>,
    },
    /// A running call wants a task. Answered only when there will be none.
    Errand {
        call: CallId,
        errand: Box<Errand>,
        refused: oneshot::Sender<String>,
    },
    /// A running call waits for a task of this session. Answered only when the task is not open any more.
    Await {
        call: CallId,
        task: SessionId,
        wait: Duration,
        gone: oneshot::Sender<()>,
    },
    /// The result of this call tells how the task ended: it needs no notice then.
    Read {
        call: CallId,
        task: SessionId,
    },
    /// A running call leaves something running.
    Kept {
        call: CallId,
        title: String,
        over: BoxFuture<'static, Option<String>>,
        done: oneshot::Sender<()>,
    },
    /// Words for a task of this session that has ended.
    Wake {
        task: SessionId,
        /// Nothing to say: it works already, and this session is to hear of its end.
        entry: Option<Box<Entry>>,
        letter: Option<LetterId>,
        answer: oneshot::Sender<Result<Woken, String>>,
    },
    /// Puts down what is in hand and begins nothing more. Answered when it is done.
    Pause {
        done: oneshot::Sender<()>,
    },
    /// A task's run broke off, and this one with it.
    Broken(RunError),
    /// Ends the run if nothing is left to do, and says whether it did.
    Finish {
        done: oneshot::Sender<bool>,
    },
}

impl Mail {
    /// Whether calls are judged because of it.
    fn brings_calls(&self) -> bool {
        match self {
            Self::Report { report, .. } => match &**report {
                Report::Reply { calls, .. } => !calls.is_empty(),
                Report::Looked { .. } => true,
                _ => false,
            },
            Self::Wish { command, .. } => matches!(command, Command::Rejudge { .. } | Command::Covered),
            _ => false,
        }
    }
}

/// Where a run is written to. Letters are boxed: a channel keeps room for many, and most stay empty.
#[derive(Clone)]
pub(crate) struct Mailbox(mpsc::Sender<Box<Mail>>);

impl Mailbox {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Box<Mail>>) {
        let (sender, receiver) = mpsc::channel(MAIL_MAX);
        (Self(sender), receiver)
    }

    /// Waits while too much mail is unread; an error when nobody will ever read it.
    pub(crate) async fn send(&self, mail: Mail) -> Result<(), RunError> {
        self.0.send(Box::new(mail)).await.map_err(|_| RunError::Moved)
    }
}

/// What a turn of the loop has taken in, and who waits for it to be durable.
#[derive(Default)]
struct Taken {
    letters: Vec<LetterId>,
    done: Vec<oneshot::Sender<Result<(), RunError>>>,
    kept: Vec<oneshot::Sender<()>>,
    woken: Vec<oneshot::Sender<Result<Woken, String>>>,
    finish: Vec<oneshot::Sender<bool>>,
}

impl Taken {
    /// Everything is durable: whoever hears of it may rely on it. Answers whether the run ends here.
    fn answer(self, at_rest: bool) -> bool {
        for done in self.done {
            let _ = done.send(Ok(()));
        }
        for done in self.kept {
            let _ = done.send(());
        }
        for answer in self.woken {
            let _ = answer.send(Ok(Woken::Works));
        }
        let ends = at_rest && !self.finish.is_empty();
        for done in self.finish {
            let _ = done.send(at_rest);
        }
        ends
    }
}

/// What others may see of a run: the session as of the last append (nothing before the first turn of the loop),
/// or why the run ended.
pub(crate) type Seen = Result<Option<Arc<Session>>, RunError>;

pub(crate) struct Run {
    pub(crate) world: Arc<World>,
    pub(crate) outfit: Arc<Outfit>,
    pub(crate) tree: Arc<Tree>,
    pub(crate) session: Session,
    /// The start of every body.
    pub(crate) head: Arc<[u8]>,
    /// What it begins with that others have said.
    pub(crate) before: Option<Shared>,
    /// Everything said since, encoded once.
    pub(crate) said: Prefix,
    /// The last record that belongs to the model's last reply and its calls, and how many of its calls are still to come.
    pub(crate) reply: (Seq, u64),
    pub(crate) beside: Beside,
    /// What forks of that reply begin with, while it is the last: those that nobody waits for begin when the next step has.
    pub(crate) lent: Option<Shared>,
    /// What a fork waits for before its first step, and what the first of a batch opens.
    pub(crate) gate: Option<Gate>,
    pub(crate) opener: Option<Opener>,
    pub(crate) learned: Learned,
    /// The last record that a saved fold includes.
    pub(crate) saved: Seq,
    /// The next turn of the loop comes at once: what was committed changes what may begin.
    pub(crate) again: bool,
    /// Inputs of open calls.
    pub(crate) inputs: HashMap<CallId, CallInput>,
    /// What tasks were started with; of those that have ended without their prompts.
    pub(crate) errands: HashMap<SessionId, Started>,
    /// Calls whose result will tell how a task ended.
    pub(crate) reads: HashMap<CallId, SessionId>,
    /// What calls leave running, until somebody minds it. The lock is never contended: it makes the future shareable.
    pub(crate) kept: HashMap<CallId, Mutex<BoxFuture<'static, Option<String>>>>,
    pub(crate) pulse: Pulse,
    pub(crate) stopwatch: Stopwatch,
    /// Told to put everything down, and who waits for that.
    pub(crate) pauses: Option<Vec<oneshot::Sender<()>>>,
    pub(crate) typing: Typing,
    /// Who speaks, where it is not the session's own agent.
    pub(crate) speaker: Turn,
    /// A head that was put on and is not recorded yet.
    pub(crate) new_head: Option<(Hash, Arc<[u8]>)>,
    pub(crate) inbox: mpsc::Receiver<Box<Mail>>,
    pub(crate) mail: Mailbox,
    pub(crate) seen: watch::Sender<Seen>,
    pub(crate) under_way: BTreeMap<EffectKey, Work>,
    pub(crate) slot: Option<Slot>,
    /// What the ledger set aside, by step.
    pub(crate) reserved: BTreeMap<u64, Reserved>,
    pub(crate) output_max: u64,
    /// Blobs the next append carries besides its own.
    pub(crate) blobs: Blobs,
    /// What the kernel adds to the next step's message.
    pub(crate) notes: Vec<Part>,
    pub(crate) memory: Arc<Mutex<serde_json::Map<String, serde_json::Value>>>,
    /// What answers in other sessions of the tree or the project allow here.
    pub(crate) grants: Vec<Granted>,
    pub(crate) wake_at: Option<Timestamp>,
    /// A place in the lane's queue, and what came of it.
    pub(crate) place: Option<Place>,
    pub(crate) granted: Option<Slot>,
    /// Others give back what they have set aside; nobody says when.
    pub(crate) wake_soon: bool,
    /// Why the next step does not begin, to be shown.
    pub(crate) waits: Option<(String, Option<Timestamp>)>,
}

impl Run {
    /// Goes on until nobody can post to it any more, or an append fails.
    pub(crate) async fn go(mut self, mut mail: Vec<Mail>) {
        loop {
            while let Ok(more) = self.inbox.try_recv() {
                mail.push(*more);
            }
            // Boxed: what a turn needs is not kept while the run waits, and most of a thousand runs wait.
            match Box::pin(self.turn(std::mem::take(&mut mail))).await {
                Ok(false) => {}
                Ok(true) => return,
                Err(error) => {
                    self.under_way.clear();
                    let _ = self.seen.send_replace(Err(error));
                    return;
                }
            }
            match self.wait().await {
                Waited::Mail(next) => mail.push(*next),
                Waited::Again => {}
                Waited::Closed => return,
            }
        }
    }

    /// One turn of the loop: many pieces of mail, one append; then make the world match what is owed.
    ///
    /// `true` when the run was asked to end and nothing is left to do.
    async fn turn(&mut self, mail: Vec<Mail>) -> Result<bool, RunError> {
        let now = self.world.clock.now();
        // Whoever spoke for one turn is gone when it is over: nothing between turns is judged by its rights.
        self.step_back().await?;
        let mut taken = Taken::default();
        if mail.iter().any(Mail::brings_calls) {
            self.learn_grants().await;
        }
        let mut draft = self.session.draft(BatchId::fresh(&*self.world.ids), now);
        for piece in mail {
            for command in self.take(piece, &draft, &mut taken, now).await? {
                draft.decide(command, &self.given(now));
            }
        }
        for report in self.overdue() {
            draft.decide(Command::Report(report), &self.given(now));
        }
        for command in self.lapsed(draft.session(), now).await {
            draft.decide(command, &self.given(now));
        }
        if let Some(command) = self.out_of_time(draft.session()) {
            draft.decide(command, &self.given(now));
        }
        self.advise(&mut draft, now).await;
        self.settle_dropped(&draft);
        self.begin(&mut draft, now).await;
        self.commit(draft, std::mem::take(&mut taken.letters)).await?;
        self.wind();
        // What was to be kept and is not is let go.
        self.kept.retain(|call, _| self.session.kept().contains_key(call));
        self.match_to();
        self.put_down();
        // Said after the facts that explain it.
        if let Some((why, until)) = self.waits.take() {
            self.world.live.of(self.session.id(), &self.pulse).show(Progress::Waiting { why, until });
        }
        let at_rest = self.session.is_settled() && self.under_way.is_empty();
        if at_rest && !taken.finish.is_empty() {
            // Whoever hears the answer may end this run at once.
            self.save_fold().await;
        }
        Ok(taken.answer(at_rest))
    }

    /// What a piece of mail wishes for. Who is to be answered when that is durable is kept in `taken`.
    async fn take(&mut self, piece: Mail, draft: &Draft, taken: &mut Taken, now: Timestamp) -> Result<Vec<Command>, RunError> {
        let command = match piece {
            Mail::Report { key, mut report, end } => {
                self.under_way.remove(&key);
                // Settled before anything else begins: the next step may be part of the same append.
                if self.session.only_answers() {
                    self.object_to(&mut report);
                }
                let read = match &mut *report {
                    Report::Reply { step, usage, .. } => {
                        self.settle(*step, *usage, true);
                        None
                    }
                    Report::ModelFailed { step, usage, .. } => {
                        self.settle(*step, *usage, false);
                        None
                    }
                    Report::TaskEnded(ended) => {
                        self.keep_words(draft.session(), ended).await;
                        self.note_length(draft.session(), ended).await;
                        self.tidy_advice(draft.session(), ended);
                        self.word_for_waiters(draft.session(), ended, end);
                        None
                    }
                    Report::CallFinished { call, outcome } => self.reads.remove(call).filter(|_| !outcome.is_error()),
                    _ => None,
                };
                // The notice goes only after the result that tells the same.
                let noticed = read.map(|task| Command::Noticed { task });
                return Ok(std::iter::once(Command::Report(*report)).chain(noticed).collect());
            }
            Mail::Await { call, task, wait, .. } if draft.session().tasks().contains_key(&task) => {
                Command::Await { call, task, until: Some(now.plus(wait)) }
            }
            Mail::Await { gone, .. } => {
                let _ = gone.send(());
                return Ok(Vec::new());
            }
            Mail::Read { call, task } => {
                self.reads.insert(call, task);
                return Ok(Vec::new());
            }
            Mail::Kept { call, title, over, done } => {
                self.kept.insert(call.clone(), Mutex::new(over));
                taken.kept.push(done);
                Command::Keep { call, title }
            }
            Mail::Wake { task, entry, letter, answer } => match self.wake(draft.session(), &task, entry.as_deref()).await {
                Ok(Wake::Now(command)) => {
                    taken.letters.extend(letter);
                    taken.woken.push(answer);
                    *command
                }
                other => {
                    let _ = answer.send(other.map(|wake| if matches!(wake, Wake::Heard) { Woken::Heard } else { Woken::Already }));
                    return Ok(Vec::new());
                }
            },
            Mail::Pause { done } => {
                self.pauses.get_or_insert_default().push(done);
                Command::PutDown
            }
            Mail::Broken(error) => return Err(error),
            Mail::Errand { call, errand, refused } => match self.commission(draft, &call, *errand).await {
                Ok(command) => command,
                Err(words) => {
                    // Nobody listening means that the call has ended.
                    let _ = refused.send(words);
                    return Ok(Vec::new());
                }
            },
            Mail::Finish { done } => {
                taken.finish.push(done);
                return Ok(Vec::new());
            }
            Mail::Wish { command: Command::Say(entry), done, .. } if !draft.session().queue().accepts(&entry.source) => {
                // A letter that does not fit stays where it is; its sender waits or takes it back.
                if let Some(done) = done {
                    let _ = done.send(Err(RunError::QueueFull));
                }
                return Ok(Vec::new());
            }
            // A round that is over is told before the next begins: else its answer would be told by nobody.
            Mail::Wish { command: Command::Say(entry), done: Some(done), .. }
                if draft.session().is_task() && draft.session().is_settled() && !matches!(entry.source, Source::Prompt { .. }) =>
            {
                let _ = done.send(Err(RunError::AtRest));
                return Ok(Vec::new());
            }
            Mail::Wish { command: Command::Side { task, question, model }, letter, done } => {
                taken.letters.extend(letter);
                taken.done.extend(done);
                return Ok(self.aside(draft, task, &question, model).into_iter().collect());
            }
            Mail::Wish { command, letter, done } => {
                taken.letters.extend(letter);
                taken.done.extend(done);
                self.prepare(command).await
            }
        };
        Ok(vec![command])
    }

    /// Looks at the calls that the owner before had judged and not started. What cannot be looked at now fails when it runs.
    pub(crate) fn look_again(&self) -> Vec<(CallId, Look)> {
        let judged = self.session.calls().iter().filter(|open| matches!(open.state, CallState::Judged(_) | CallState::Asked { .. }));
        judged
            .filter_map(|open| {
                let wanted = self.inputs.get(&open.call)?;
                let tool = if open.owner == CallOwner::Model { self.outfit.tool(&wanted.tool) } else { self.outfit.any_tool(&wanted.tool) }
                    .ok()?;
                if matches!(open.owner, CallOwner::Subtask(_)) {
                    return None;
                }
                let look = tool.look(&parse(&wanted.input).ok()?, &*self.outfit.workspace).ok()?;
                Some((open.call.clone(), look))
            })
            .collect()
    }

    /// What was allowed elsewhere since; without an answer of the store what was known stays.
    async fn learn_grants(&mut self) {
        let Ok(views) = self.world.log.with_asks().await else { return };
        let root = &self.tree.owner.root;
        let reaches = |view: &Summary, granted: &Granted| match granted.scope {
            Scope::Project => true,
            Scope::Tree => view.root == *root,
            Scope::Session | Scope::Once => false,
        };
        let granted = views.iter().flat_map(|view| view.granted.iter().filter(move |granted| reaches(view, granted)));
        self.grants = granted.cloned().collect();
    }

    /// Steps that ended without a report of their own, by a word from outside or with their owner. Settled before the next
    /// begins, which may have the same number and be part of the same append.
    fn settle_dropped(&mut self, draft: &Draft) {
        for record in draft.records() {
            match &record.event {
                Event::StepFailed { step, usage, .. } => self.settle(*step, *usage, false),
                Event::TookOver { usage, .. } => self.tree.ledger.spend(self.session.id(), *usage),
                _ => {}
            }
        }
    }

    fn settle(&mut self, step: u64, usage: Usage, replied: bool) {
        if let Some(reserved) = self.reserved.remove(&step) {
            self.tree.ledger.settle(self.session.id(), reserved, usage, replied);
        }
    }

    pub(crate) fn given(&self, now: Timestamp) -> Given<'_> {
        Given {
            now,
            ids: &*self.world.ids,
            chance: fastrand::f64(),
            rules: &self.outfit.rules,
            ceiling: &self.outfit.ceiling,
            asking: self.outfit.asking,
            mode: self.outfit.mode,
            strict_shell: self.outfit.strict_shell || self.session.birth().is_some_and(|birth| birth.strict_shell),
            grants: &self.grants,
            looks: self.outfit.hooks.iter().any(|hook| hook.looks()),
            fallbacks: &self.outfit.fallbacks,
            compacts: self.outfit.compaction.auto && !self.session.only_answers(),
            in_flight: self.in_flight(),
        }
    }

    /// What the step in flight has used so far. Of a lost owner's step only the input can be known.
    fn in_flight(&self) -> Usage {
        let Some(open) = self.session.step() else { return Usage::default() };
        let work = self.under_way.get(&EffectKey::Model(open.step));
        work.and_then(|work| work.meter.as_ref()).map_or_else(
            || {
                let body_bytes = self.head.len() as u64 + self.said.message_bytes;
                let input = estimated(body_bytes, self.session.last_input());
                Usage { input, ..Usage::default() }.priced(&self.outfit.model.facts().prices)
            },
            |meter| meter.so_far(),
        )
    }

    /// What only the run knows is added to a wish: the text so far, and what message hooks say.
    async fn prepare(&self, command: Command) -> Command {
        match command {
            Command::Interrupt { by, hold, .. } => Command::Interrupt { by, hold, partial: self.partial() },
            limit @ Command::Limit { .. } => self.with_partial(limit),
            Command::Detach { task, .. } => {
                let launched = self.launched(&task, true);
                Command::Detach { task, launched }
            }
            Command::Say(mut entry) => {
                for hook in &self.outfit.hooks {
                    let _ = tokio::time::timeout(HOOK_MAX, hook.message(self.session.id(), &mut entry)).await;
                }
                Command::Say(entry)
            }
            other => other,
        }
    }

    /// A limit that ends a step keeps what was said.
    pub(crate) fn with_partial(&self, command: Command) -> Command {
        match command {
            Command::Limit { limit, words, own, .. } => Command::Limit { limit, words, partial: self.partial(), own },
            other => other,
        }
    }

    fn partial(&self) -> Text {
        let model = self.under_way.iter().find(|(key, _)| matches!(key, EffectKey::Model(_)));
        model.map_or(String::new(), |(_, work)| work.live.said()).into()
    }

    /// Calls that were told to stop and did not: they are dropped, and said to be cancelled.
    fn overdue(&mut self) -> Vec<Report> {
        let late = |work: &Work| work.stopped_at.is_some_and(|since| STOP_MAX <= since.elapsed());
        let keys: Vec<EffectKey> = self.under_way.iter().filter(|(_, work)| late(work)).map(|(key, _)| key.clone()).collect();
        let reports = keys.iter().filter_map(|key| match key {
            EffectKey::Run(call) => {
                Some(Report::CallFinished { call: call.clone(), outcome: Outcome::cancelled("(it did not stop when told to)") })
            }
            _ => None,
        });
        let reports = reports.collect();
        keys.iter().for_each(|key| drop(self.under_way.remove(key)));
        reports
    }

    /// Records the beginning of everything owed that may begin now.
    async fn begin(&mut self, draft: &mut Draft, now: Timestamp) {
        (self.wake_at, self.wake_soon, self.again) = (None, false, false);
        self.gate = None;
        let mut place = self.place.take();
        if self.pauses.is_some() {
            self.granted = None;
            return self.conclude(draft, now);
        }
        // What is said next is said to whoever sees what is now left of the conversation.
        if draft.records().iter().any(|record| edits_transcript(&record.event)) {
            self.again = true;
            return self.conclude(draft, now);
        }
        // What the kernel says itself brings a call that may begin at once.
        let subtask = |draft: &Draft| {
            draft.session().owed().into_iter().find_map(|effect| if let Effect::Subtask { step } = effect { Some(step) } else { None })
        };
        while let Some(step) = subtask(draft) {
            let before = draft.records().len();
            if self.dress(draft, now).await {
                self.begin_subtask(draft, step, now);
            }
            if draft.records().len() == before {
                break;
            }
        }
        let mut running = draft.session().calls().iter().filter(|call| call.state == CallState::Running).count();
        for effect in draft.session().owed() {
            if draft.session().has_begun(&effect) {
                continue;
            }
            match &effect {
                Effect::CallModel { not_before, .. } => self.begin_step(draft, &effect, *not_before, place.take(), now).await,
                Effect::Compact { entry } => {
                    self.again = true;
                    self.begin_compaction(draft, entry.clone(), now).await;
                }
                Effect::RunCall { .. } if self.outfit.calls_max <= running => {}
                Effect::RunCall { .. } => {
                    running += 1;
                    draft.begin(&effect, Permit::default(), Vec::new(), &self.given(now));
                }
                _ => draft.begin(&effect, Permit::default(), Vec::new(), &self.given(now)),
            }
        }
        // A slot that nobody wants any more goes to the next.
        self.granted = None;
        // A refused step leaves a round to conclude.
        self.conclude(draft, now);
    }

    fn conclude(&self, draft: &mut Draft, now: Timestamp) {
        for effect in draft.session().owed() {
            if matches!(effect, Effect::Conclude { .. }) {
                draft.begin(&effect, Permit::default(), Vec::new(), &self.given(now));
            }
        }
    }

    async fn begin_step(
        &mut self,
        draft: &mut Draft,
        effect: &Effect,
        not_before: Option<Timestamp>,
        place: Option<Place>,
        now: Timestamp,
    ) {
        // A clock that went back by more than any wait is not waited for.
        if let Some(at) = not_before.filter(|at| now < *at && at.since(now) <= WAIT_MAX) {
            self.wake_at = Some(at);
            self.waits = Some(("the model failed; trying again".into(), Some(at)));
            return;
        }
        self.return_to_own_model(draft, now);
        if !self.dress(draft, now).await {
            return;
        }
        if self.make_room(draft, now).await {
            self.again = true;
            return;
        }
        if !self.is_its_turn(draft.session()) {
            return;
        }
        let Some(permit) = self.heard(draft, effect, now) else {
            self.wake_soon = true;
            return;
        };
        let facts = self.outfit.model.facts();
        let lanes = &self.world.lanes;
        let urgency = if self.tree.is_background(draft.session()) { Urgency::Background } else { Urgency::Foreground };
        // The model may have changed while it waited: then it waits in another lane.
        let place = place.filter(|place| place.is_for(&facts.name));
        let granted = self.granted.take().filter(|slot| slot.is_for(&facts.name));
        let at_once = || if place.is_none() { lanes.try_enter(&facts.provider, &facts.name, urgency) } else { None };
        let Some(slot) = granted.or_else(at_once) else {
            let place = place.unwrap_or_else(|| lanes.enter(&facts.provider, &facts.name, urgency));
            let ahead = match place.ahead() {
                0 => String::new(),
                ahead => format!(" ({ahead} ahead)"),
            };
            self.waits = Some(match lanes.paused_for(&facts.provider, &facts.name) {
                Some(pause) => (format!("{} asks for a pause; trying again", facts.name), Some(now.plus(pause))),
                None => (format!("waiting for a free lane of {}{ahead}", facts.name), None),
            });
            self.place = Some(place);
            return;
        };
        let body_bytes = self.head.len() as u64 + self.said.message_bytes;
        let input_estimate = estimated(body_bytes, draft.session().last_input());
        // Most servers refuse a request whose answer might not fit.
        let room = facts.context.saturating_sub(self.next_tokens(draft)).max(ANSWER_TOKENS_MIN);
        let wish = Wish { input_estimate, output_max: facts.output.min(room), prices: facts.prices };
        let id = self.session.id().clone();
        let verdict = self.tree.ledger.reserve(&id, wish);
        let refused = |limit: Limit| {
            let (words, own) = (self.limit_words(limit, &verdict), !self.tree.ledger.is_trees(&verdict.account));
            Command::Limit { limit, words, partial: Text::default(), own }
        };
        let (reserved, output_max, closing) = match verdict.admission {
            Admission::Go { reserved, output_max } => (reserved, output_max, false),
            // The one step beyond the limit is the root's: it sums up for the tree.
            Admission::Closing { reserved, .. } if draft.session().birth().is_some_and(|birth| birth.parent.is_some()) => {
                self.tree.ledger.settle(&id, reserved, Usage::default(), false);
                return draft.decide(refused(Limit::Steps), &self.given(now));
            }
            Admission::Closing { reserved, output_max } => (reserved, output_max, true),
            Admission::Later => {
                self.wake_soon = true;
                self.waits = Some(("waiting for others to give back what they have set aside".into(), None));
                return;
            }
            Admission::Refused(limit) => return draft.decide(refused(limit), &self.given(now)),
        };
        let closing = closing || draft.session().is_at_step_limit() || draft.session().only_answers();
        if facts.prices.unknown && self.tree.ledger.counts_money(&id) {
            self.tree.outfits.price_is_unknown(&facts.name);
        }
        (self.slot, self.output_max) = (Some(slot), output_max);
        if let Effect::CallModel { step, .. } = effect {
            self.reserved.insert(*step, reserved);
        }
        let mut notes = std::mem::take(&mut self.notes);
        for hook in &self.outfit.hooks {
            let added = tokio::time::timeout(HOOK_MAX, hook.transform(self.session.id(), &self.said.woven)).await;
            notes.extend(added.unwrap_or_default());
        }
        notes.extend(self.foreseen(draft).await);
        draft.begin(effect, Permit { reserved, closing, ..permit }, notes, &self.given(now));
    }

    /// One append; only when it is durable does anything of it count.
    async fn commit(&mut self, draft: Draft, letters: Vec<LetterId>) -> Result<(), RunError> {
        if draft.is_empty() && letters.is_empty() {
            // The first turn may find nothing to do; that is news too.
            if matches!(&*self.seen.borrow(), Ok(None)) {
                self.publish();
            }
            return Ok(());
        }
        let (batch, after) = (draft.batch().clone(), self.session.head());
        let (session, records) = draft.into_parts();
        let mut events = Vec::with_capacity(records.len());
        let mut blobs = std::mem::take(&mut self.blobs);
        for record in &records {
            let (event, more) = spill(&record.event);
            events.push(event);
            blobs.extend(more);
        }
        let at = records.first().map_or_else(|| self.world.clock.now(), |record| record.at);
        let owner = &self.tree.owner;
        let append = Append {
            session: session.id().clone(),
            root: owner.root.clone(),
            epoch: owner.epoch,
            batch,
            after,
            at,
            events,
            blobs,
            letters,
        };
        self.world.log.append(append).await?;
        self.session = session;
        if records.iter().any(|record| reaches_others(&record.event)) {
            self.tree.tell_others(self.session.id(), &Command::Covered);
        }
        self.pulse.beat();
        for record in &records {
            self.weave(record);
            self.outfit.hooks.iter().for_each(|hook| hook.event(self.session.id(), record));
        }
        if records.iter().any(|record| edits_transcript(&record.event)) {
            self.reweave().await?;
            self.save_fold().await;
        }
        self.tell_more(&records);
        self.publish();
        Ok(())
    }

    fn publish(&self) {
        let _ = self.seen.send_replace(Ok(Some(Arc::new(self.session.clone()))));
        self.tree.note_change();
    }

    /// Keeps beside the session what a request and a call are made of.
    pub(crate) fn weave(&mut self, record: &Record) {
        self.learn(record);
        self.thread_in(record);
    }

    /// What calls and tasks are made of.
    pub(crate) fn learn(&mut self, record: &Record) {
        match &record.event {
            Event::Called { call, tool, input, wire_id, .. } => {
                let (tool, input, wire_id) = (tool.clone(), input.inline().unwrap_or_default().to_owned(), wire_id.clone());
                self.inputs.insert(call.clone(), CallInput { tool, input, wire_id });
            }
            Event::Looked { call, input, .. } => {
                if let Some(known) = self.inputs.get_mut(call) {
                    known.input = input.inline().unwrap_or_default().to_owned();
                }
            }
            Event::CallFinished { call, .. } | Event::TaskEnded { to: To::Call { call }, .. } => drop(self.inputs.remove(call)),
            _ => {}
        }
        self.learn_of_task(&record.event);
        self.typing.take(record);
    }

    /// What a request is made of.
    pub(crate) fn thread_in(&mut self, record: &Record) {
        self.said.push(record, &self.outfit);
        self.beside.thread_in(record);
        match &record.event {
            Event::Replied { calls, author: None, .. } => (self.reply, self.lent) = ((record.seq, *calls), None),
            Event::Called { .. } if 0 < self.reply.1 => self.reply = (record.seq, self.reply.1 - 1),
            _ => {}
        }
    }

    /// Every message so far.
    pub(crate) fn messages(&self) -> Vec<Arc<[u8]>> {
        let before = self.before.as_ref().and_then(|before| before.get()).map_or(&[][..], |before| &before.messages);
        [before, &self.said.messages].concat()
    }

    /// Starts what is owed and not under way, ends what is under way and no longer owed.
    fn match_to(&mut self) {
        let (session, owed) = (&self.session, self.session.owed());
        let keys: BTreeSet<EffectKey> = owed.iter().map(Effect::key).collect();
        self.under_way.retain(|key, work| match key {
            _ if keys.contains(key) => true,
            // A call whose end is known, or that waits for its task, needs nobody any more.
            EffectKey::Run(call) if !matches!(session.call(call).map(|open| &open.state), Some(CallState::Stopping)) => false,
            // What removes a folder cannot be called back: whoever wants the folder again waits for it.
            EffectKey::Release(_) => true,
            // A call is told to stop and reports what it has.
            EffectKey::Run(_) => {
                work.tell_to_stop();
                true
            }
            _ => false,
        });
        for effect in owed {
            let waits = matches!(&effect, Effect::Watch { task, .. } if self.under_way.contains_key(&EffectKey::Release(task.clone())));
            if !waits && self.session.has_begun(&effect) && !self.under_way.contains_key(&effect.key()) {
                let key = effect.key();
                if let Some(work) = self.start(effect) {
                    self.under_way.insert(key, work);
                }
            }
        }
    }

    fn start(&mut self, effect: Effect) -> Option<Work> {
        let desk = Desk {
            session: self.session.id().clone(),
            outfit: self.outfit.clone(),
            ids: self.world.ids.clone(),
            mail: self.mail.clone(),
            live: self.world.live.of(self.session.id(), &self.pulse),
            memory: self.memory.clone(),
            tree: Arc::downgrade(&self.tree),
        };
        match effect {
            Effect::CallModel { step, .. } => {
                let slot = self.slot.take()?;
                let closing = self.session.step().is_some_and(|open| open.closing);
                let request = Request {
                    session: self.session.id().clone(),
                    lineage: self.session.segments().first().map_or_else(|| self.session.id().clone(), |first| first.session.clone()),
                    head: self.head.clone(),
                    messages: self.messages(),
                    tool_choice: if closing && !self.asks_softly() { ToolChoice::None } else { ToolChoice::Auto },
                    output_max: self.output_max,
                    idle_max: self.outfit.stream_idle,
                };
                Some(desk.call_model(step, request, self.session.last_input(), slot, self.opener.take()))
            }
            Effect::Look { call } => {
                let owner = self.session.call(&call).map(|open| open.owner.clone()).unwrap_or_default();
                Some(desk.look_at(call.clone(), self.inputs.get(&call)?.clone(), owner))
            }
            Effect::RunCall { call } => {
                let answer = self.session.calls().iter().find(|open| open.call == call).and_then(|open| open.answer.clone());
                let own = self.session.call(&call).is_some_and(|open| open.owner != CallOwner::Model);
                Some(desk.run_call(call.clone(), self.inputs.get(&call)?.clone(), answer, own))
            }
            Effect::Watch { task, round } => {
                let started = self.errands.get(&task)?.clone();
                let birth = self.birth_of(&started.spawn)?;
                let waiting = self.session.tasks().get(&task).and_then(|open| open.waiting.first()).map(|waiter| &waiter.call);
                let hooked = waiting.and_then(|call| self.inputs.get(call).map(|wanted| desk.hooked(call, wanted)));
                Some(desk.watch(Watched { tree: self.tree.clone(), task, round, started }, birth, hooked))
            }
            Effect::Release { task } => Some(desk.release(self.tree.clone(), task)),
            Effect::Mind { call } => Some(desk.mind(call.clone(), self.kept.remove(&call)?.into_inner().ok()?)),
            Effect::StopTask { task, round } => {
                let (by, hold) = self.session.tasks().get(&task)?.stopped?;
                Some(desk.stop_task(self.tree.clone(), task, round, by, hold))
            }
            Effect::Expand { entry } => Some(desk.expand(self.typing.of(&entry)?)),
            // Their facts are their end.
            Effect::Subtask { .. } | Effect::Compact { .. } | Effect::Conclude { .. } => None,
        }
    }

    async fn wait(&mut self) -> Waited {
        if self.again {
            return Waited::Again;
        }
        let stopping = self.under_way.values().filter_map(|work| work.stopped_at).min();
        let retry = self.wake_at.map(|at| tokio::time::Instant::now() + at.since(self.world.clock.now()));
        let soon = self.wake_soon.then(|| tokio::time::Instant::now() + LOOK_AGAIN);
        let alarms = self.deadlines().into_iter().chain([stopping.map(|since| since + STOP_MAX), retry, soon]);
        let alarm = alarms.flatten().min();
        let alarm = async move {
            match alarm {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            mail = self.inbox.recv() => mail.map_or(Waited::Closed, Waited::Mail),
            () = alarm => Waited::Again,
            () = opened(&mut self.gate) => {
                self.gate = None;
                Waited::Again
            }
            slot = entered(&mut self.place) => {
                (self.place, self.granted) = (None, Some(slot));
                Waited::Again
            }
            () = self.seen.closed() => Waited::Closed,
        }
    }
}

/// Ready when the place in the lane's queue is the first; never without one.
async fn entered(place: &mut Option<Place>) -> Slot {
    match place {
        Some(place) => place.first().await,
        None => std::future::pending().await,
    }
}

/// Ready when a fork need not wait for the first of its batch any more; never without one.
async fn opened(gate: &mut Option<Gate>) {
    match gate {
        Some(gate) => gate.open().await,
        None => std::future::pending().await,
    }
}

enum Waited {
    Mail(Box<Mail>),
    Again,
    Closed,
}

/// Whether an answer may settle asks of other sessions.
fn reaches_others(event: &Event) -> bool {
    matches!(event, Event::Answered { answer: Answer::Yes { scope: Scope::Tree | Scope::Project }, .. })
}
