//! What a run does because time passes, and what it words for others: deadlines, waits that lapse, tasks that go to the
//! background, the story in the output file, the return from a stand-in.

use std::time::Duration;

use posse_context::story;
use posse_session::{
    CallState, Command, Draft, EffectKey, Event, Launch, Limit, Outcome, ReadError, Record, Session, SessionId, TaskEnd, TaskReport, Text,
    Timestamp, format_duration,
};
use tokio::time::Instant;

use crate::{
    ledger::Verdict,
    run::{LOOK_AGAIN, Run},
    spill::{PAGE, restore},
    work::Started,
};

/// Inside a turn a stand-in answers for so long before the session's own model is tried again.
const STAND_IN_MAX: Duration = Duration::from_secs(5 * 60);

impl Run {
    /// What a task was started or resumed with; its prompt is needed only as long as it is open.
    pub(crate) fn learn_of_task(&mut self, event: &Event) {
        match event {
            Event::TaskStarted { task, spawn, call, .. } => {
                if let Some(name) = &spawn.name {
                    self.tree.note_name(name, task);
                }
                let wire_id = self.inputs.get(call).map(|input| input.wire_id.clone()).unwrap_or_default();
                let told = self.errands.get(task).map_or(0, |known| known.told);
                self.errands.insert(task.clone(), Started { spawn: spawn.clone(), wire_id, told });
            }
            Event::TaskResumed { task, spawn, .. } => match self.errands.get_mut(task) {
                Some(known) => known.spawn.clone_from(spawn),
                None => drop(self.errands.insert(task.clone(), Started { spawn: spawn.clone(), wire_id: String::new(), told: 0 })),
            },
            Event::TaskEnded { task, round, .. } => {
                if let Some(known) = self.errands.get_mut(task) {
                    (known.spawn.prompt, known.told) = (Text::default(), *round);
                }
            }
            _ => {}
        }
    }

    /// What a call comes to whose task goes on in the background, in the words of the tool that started it.
    pub(crate) fn launched(&self, task: &SessionId, detached: bool) -> Outcome {
        match self.errands.get(task) {
            Some(known) => self.worded_launch(task, known, detached),
            None => Outcome::done(format!("The task goes on in the background.\ntask_id: {task}")),
        }
    }

    pub(crate) fn worded_launch(&self, task: &SessionId, started: &Started, detached: bool) -> Outcome {
        let spawn = &started.spawn;
        let launch = Launch {
            task: task.clone(),
            name: spawn.name.clone(),
            agent: spawn.agent.clone(),
            description: spawn.description.clone(),
            prompt: spawn.prompt.inline().unwrap_or_default().to_owned(),
            output: self.world.outputs.path(task),
            detached,
        };
        let tool = self.outfit.tools.iter().find(|tool| tool.spec().name == spawn.tool);
        tool.map_or_else(|| Outcome::done(format!("task_id: {task}")), |tool| tool.launched(&launch))
    }

    /// Words the end of a task for the calls that wait for it and did not start it: by their own tools.
    pub(crate) fn word_for_waiters(&self, session: &Session, ended: &mut TaskReport, end: Option<Box<TaskEnd>>) {
        let (Some(end), Some(open)) = (end, session.tasks().get(&ended.task)) else { return };
        let starter = self.errands.get(&ended.task).map(|known| known.spawn.tool.clone());
        for waiter in &open.waiting {
            let tool = session.call(&waiter.call).and_then(|call| self.outfit.any_tool(&call.tool).ok());
            if let Some(tool) = tool.filter(|tool| Some(&tool.spec().name) != starter.as_ref()) {
                ended.awaited.push((waiter.call.clone(), tool.ended(&end).into()));
            }
        }
    }

    /// Calls that have waited long enough for a task that goes on.
    pub(crate) async fn lapsed(&self, session: &Session, now: Timestamp) -> Vec<Command> {
        let mut lapsed = Vec::new();
        for (task, open) in session.tasks() {
            for waiter in &open.waiting {
                if waiter.until.is_none_or(|until| now < until) {
                    continue;
                }
                let view = self.tree.view_of(task).await;
                // It has ended, and in a moment its watch says so: then it is told once.
                let works = self.tree.seen(task).is_some_and(|session| !session.is_settled());
                if !works && view.as_ref().is_ok_and(|view| view.end.is_some()) {
                    continue;
                }
                let tool = session.call(&waiter.call).and_then(|call| self.outfit.any_tool(&call.tool).ok());
                let outcome = match (tool, view) {
                    (Some(tool), Ok(view)) => tool.lapsed(&view),
                    _ => Outcome::done(format!("The task {task} is not done yet.")),
                };
                lapsed.push(Command::Lapse { call: waiter.call.clone(), outcome });
            }
        }
        lapsed
    }

    /// Which stretch of work the clock measures: the round of a task, the turn of a root.
    fn stretch(&self, session: &Session) -> Option<u64> {
        if self.session.is_task() {
            let round = session.round();
            round.began.filter(|_| round.open).map(|_| round.number)
        } else {
            session.turn_began().map(|began| began.0)
        }
    }

    /// Lets the clock run or stand. A session that waits for a person or for its turn to call a model uses up no time.
    pub(crate) fn wind(&mut self) {
        let session = &self.session;
        let waits = session.waits_for_model() || (session.open_asks().next().is_some() && !Self::is_at_work(session));
        let (stretch, runs) = (self.stretch(session), !waits && session.hold().is_none());
        self.stopwatch.show(stretch, runs);
    }

    /// Whether a model or a tool is at work, which would show something now and then.
    fn is_at_work(session: &Session) -> bool {
        session.step().is_some() || session.calls().iter().any(|call| call.state == CallState::Running)
    }

    /// The deadline that has passed, if one has. A session that is held or only waits for others has none.
    pub(crate) fn out_of_time(&self, session: &Session) -> Option<Command> {
        if session.hold().is_some() {
            return None;
        }
        let (wall, idle) = (self.outfit.wall, self.outfit.idle);
        let (limit, words) = if self.stretch(session).is_some() && wall <= self.stopwatch.spent() {
            (Limit::Wall, format!("the time limit of {} is used up (limits.wall)", format_duration(wall)))
        } else if Self::is_at_work(session) && idle <= self.pulse.last().elapsed() {
            (Limit::Idle, format!("nothing happened for {} (limits.idle)", format_duration(idle)))
        } else {
            return None;
        };
        // A root at its deadline has used up its time; a task has failed to come back in time.
        let limit = if self.session.is_task() { limit } else { Limit::Time };
        Some(self.with_partial(Command::Limit { limit, words, partial: Text::default(), own: true }))
    }

    /// When to look again, whatever happens.
    pub(crate) fn deadlines(&self) -> Vec<Option<Instant>> {
        let now = self.world.clock.now();
        let at = |time: Timestamp| Some(Instant::now() + time.since(now));
        let session = &self.session;
        let mut deadlines: Vec<Option<Instant>> = Vec::new();
        for until in session.tasks().values().flat_map(|open| &open.waiting).filter_map(|waiter| waiter.until) {
            deadlines.push(if until <= now { Some(Instant::now() + LOOK_AGAIN) } else { at(until) });
        }
        deadlines.push(self.next_summary());
        if session.hold().is_none() {
            deadlines.push(self.stopwatch.rings_at(self.outfit.wall));
            if Self::is_at_work(session) {
                deadlines.push(Some(self.pulse.last() + self.outfit.idle));
            }
        }
        deadlines
    }

    /// Told to pause: streams are dropped, tools told to stop. Whoever waits is answered when no tool works any more.
    pub(crate) fn put_down(&mut self) {
        let Some(pauses) = &mut self.pauses else { return };
        self.under_way.retain(|key, _| !matches!(key, EffectKey::Model(_)));
        let mut works = false;
        for (key, work) in &mut self.under_way {
            if matches!(key, EffectKey::Run(_)) {
                work.tell_to_stop();
                works = true;
            }
        }
        if !works {
            for done in pauses.drain(..) {
                let _ = done.send(());
            }
        }
    }

    /// A task's story so far, as its output file begins.
    pub(crate) async fn tell_so_far(&self, records: &[Record]) -> Result<(), ReadError> {
        if !self.session.is_task() {
            return Ok(());
        }
        let (log, outputs, id) = (&*self.world.log, &self.world.outputs, self.session.id());
        let shortened = 0 < self.session.compaction().tail_from || self.session.segments().iter().any(|segment| segment.pruned);
        if !shortened {
            let text: String = records.iter().filter_map(story).collect();
            outputs.begin(id, &text);
            return Ok(());
        }
        // A story does not become shorter because the model is shown less.
        outputs.begin(id, "");
        let mut after = 0;
        loop {
            let mut page = log.read(id, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.seq;
            restore(log, &mut page).await?;
            outputs.append(id, &page.iter().filter_map(story).collect::<String>());
        }
    }

    pub(crate) fn tell_more(&self, records: &[Record]) {
        if self.session.is_task() {
            let text: String = records.iter().filter_map(story).collect();
            if !text.is_empty() {
                self.world.outputs.append(self.session.id(), &text);
            }
        }
    }

    /// A turn begins with the session's own model again, and a long turn comes back to it.
    pub(crate) fn return_to_own_model(&self, draft: &mut Draft, now: Timestamp) {
        let Some(stand_in) = draft.session().stand_in() else { return };
        let own = draft.session().birth().map(|birth| birth.recipe.model.clone()).unwrap_or_default();
        let provider = own.split_once('/').map_or(own.as_str(), |(provider, _)| provider);
        if self.world.lanes.paused_for(provider, &own).is_some() {
            return;
        }
        if draft.session().is_between_turns() || STAND_IN_MAX <= now.since(stand_in.since) {
            let why = "its own model is tried again".to_owned();
            draft.decide(Command::ChangeModel { model: None, why }, &self.given(now));
        }
    }

    /// Why a step was refused, and whose limit that is.
    pub(crate) fn limit_words(&self, limit: Limit, verdict: &Verdict) -> String {
        let standing = &verdict.standing;
        let whose = if self.tree.ledger.is_trees(&verdict.account) {
            String::new()
        } else if verdict.account == *self.session.id() {
            " of this agent".to_owned()
        } else {
            format!(" of {} above it", verdict.account)
        };
        match limit {
            Limit::Tokens => {
                let (limit, spent) = (standing.limits.tokens.unwrap_or(0), standing.spent.tokens());
                format!("the token limit{whose} of {limit} is used up ({spent} spent)")
            }
            Limit::Cost => {
                let (limit, spent) = (standing.limits.cost_usd.unwrap_or(0.0), standing.spent.cost_usd);
                let more = if 0 < standing.spent.unpriced { " + unknown" } else { "" };
                format!("the cost limit{whose} of ${limit:.2} is used up (${spent:.4}{more} spent)")
            }
            Limit::Steps => match standing.limits.steps.unwrap_or(0) {
                1 => "the limit of 1 step is used up".to_owned(),
                steps => format!("the limit of {steps} steps is used up"),
            },
            Limit::Time | Limit::Wall | Limit::Idle => "the time limit is used up".to_owned(),
        }
    }
}

/// How long a stretch of work has taken so far, in this process: the time in which nobody ran it does not count.
#[derive(Default)]
pub(crate) struct Stopwatch {
    stretch: Option<u64>,
    before: Duration,
    since: Option<Instant>,
}

impl Stopwatch {
    fn show(&mut self, stretch: Option<u64>, runs: bool) {
        if stretch != self.stretch {
            *self = Self { stretch, ..Self::default() };
        }
        match (runs && stretch.is_some(), self.since) {
            (true, None) => self.since = Some(Instant::now()),
            (false, Some(since)) => (self.before, self.since) = (self.before + since.elapsed(), None),
            _ => {}
        }
    }

    fn spent(&self) -> Duration {
        self.before + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// When it will have shown so much; never while it stands.
    fn rings_at(&self, limit: Duration) -> Option<Instant> {
        self.since.map(|since| since + limit.saturating_sub(self.before))
    }
}
