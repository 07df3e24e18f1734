//! From wishes and reports to facts. Pure: what it needs besides the session comes in with [`Given`].
//!
//! A report that nobody waits for (from a lost race or a dead run) becomes nothing. Nothing here changes the session:
//! the facts do, in `apply.rs`.

use std::time::Duration;

use crate::{
    apply::granted,
    command::{Asking, Command, Given, Report, Wanted},
    entry::{Entry, Priority, Source},
    event::{Event, Hold},
    grant::{AskedFor, Grant, Granted},
    ids::{AskId, CallId, EntryId, SessionId},
    limit::Limit,
    outcome::{Answer, By, Outcome, Scope},
    part::Part,
    retry::retry_after,
    rule::{Decision, Judgement, Rules, Touch, Verdict, judge, key_of},
    seams::{Finish, Look, ModelFailure},
    state::{CallState, OpenCall, OpenStep, OpenTask, Session},
    text::{Text, clip, one_line},
    usage::Usage,
    words,
};

/// So many equal calls in a row are asked about.
const REPEATS_MAX: u32 = 3;

/// So many failures of any kind in a row are enough, whatever each kind is allowed.
const RETRIES_MAX: u32 = 20;

/// After so many calls that could not be run, an answer that the limit cuts in the middle of one more is the last.
const CUTS_MAX: u32 = 2;

/// So many owners may die on a session before it waits for a person.
const TAKEOVERS_MAX: u32 = 3;

/// A call that only reads is started at most so often.
pub(crate) const ATTEMPTS_MAX: u32 = 3;

/// How many touches of a call are recorded. All of them are judged.
const TOUCHES_MAX: usize = 8;

/// Words in an event that cannot leave it for a blob: an error, a refusal, a title. Two paragraphs.
pub(crate) const WORDS_BYTES_MAX: usize = 2 * 1024;

/// A title is one line of a list.
pub(crate) const TITLE_BYTES_MAX: usize = 512;

/// Why a line was asked about or denied: one command of it and a reason.
const WHY_BYTES_MAX: usize = 256;

/// A reply of more parts than this does not say where its calls stood; they follow it in order.
const PARTS_MAX: usize = 64;

impl Given<'_> {
    /// What an ask comes to without anybody being asked; `None` when somebody is.
    fn answers(&self, decision: &Decision) -> Option<bool> {
        let by_mode = decision.touch.as_ref().is_some_and(|touch| self.mode.answers(&touch.key));
        match self.asking {
            _ if by_mode => Some(true),
            Asking::Nobody => Some(false),
            Asking::Open => None,
        }
    }
}

impl Session {
    pub fn decide(&self, command: Command, given: &Given) -> Vec<Event> {
        match command {
            Command::Create(created) if self.head == 0 => vec![*created],
            Command::Create(_) => Vec::new(),
            Command::Configure { head, model } => self.configure(head, model),
            Command::Say(entry) => self.say(entry, given),
            Command::Answer { ask, answer, by } => self.answer(&ask, answer, by),
            Command::Interrupt { by, hold, partial } => {
                self.halt(Event::Interrupted { by, hold }, words::INTERRUPTED, partial, by, given.in_flight)
            }
            Command::Limit { limit, words, partial, own } => {
                self.halt(Event::LimitReached { limit, words: words.clone(), own }, &words, partial, By::Kernel, given.in_flight)
            }
            Command::Resume { by } if self.hold.is_some() && self.has_more_to_do() => vec![Event::Resumed { by }],
            Command::Resume { .. } => Vec::new(),
            Command::TakeOver => self.take_over(given),
            Command::Rejudge { looks } => looks.into_iter().flat_map(|(call, look)| self.rejudge(&call, look, given)).collect(),
            Command::Covered => self.covered(given.grants, None),
            Command::Refuse { step, words } => self.refuse_step(step, words),
            Command::Subtask { step, author, wanted, notes } => self.run_subtask(step, author, *wanted, notes, given),
            Command::Spawn { call, task, round, spawn, launched } => self.spawn(call, task, round, *spawn, launched),
            Command::Detach { task, launched } => self.detach(task, launched),
            Command::Await { call, task, until } => self.await_task(call, task, until),
            Command::Lapse { call, outcome } => self.lapse(call, outcome),
            Command::Wake { task, round, spawn } => self.wake(task, round, *spawn),
            Command::Noticed { task } => self.noticed(&task),
            Command::Keep { call, title } => self.keep(call, title),
            Command::PutDown => self.put_down(given),
            Command::ChangeModel { model, why } => self.change_model(model, why),
            Command::StopTask { task, by } => match self.tasks.get(&task) {
                Some(open) if open.stopped.is_none() => vec![Event::TaskStopped { task, by, hold: None }],
                _ => Vec::new(),
            },
            Command::Compact { task, spawn, took } => self.compact(task, *spawn, took),
            Command::BringHome { task, paths, onto, discarded } => self.bring_home(task, paths, onto, discarded),
            Command::Advise { task, spawn } => self.advise(task, *spawn),
            Command::Side { .. } => Vec::new(),
            Command::Prune { to } => self.prune(to),
            Command::LeaveUncompacted { why, took } => self.leave_uncompacted(why, took),
            Command::Retitle { title } => self.retitle(title),
            Command::Fork { segments } if self.steps == 0 && self.transcript.closed.is_empty() => vec![Event::Forked { segments }],
            Command::Fork { .. } => Vec::new(),
            Command::Revoke { ask, by } if self.grants.iter().any(|granted| granted.ask == ask) => vec![Event::Revoked { ask, by }],
            Command::Revoke { .. } => Vec::new(),
            Command::Undone { calls, paths } => vec![Event::Undone { calls, paths }],
            Command::Report(report) => self.take_report(report, given),
        }
    }

    fn configure(&self, head: crate::ids::Hash, model: String) -> Vec<Event> {
        let same = self.configured.as_ref().is_some_and(|now| now.head == head && now.model == model);
        if same || (!self.is_between_turns() && self.configured.is_some()) { Vec::new() } else { vec![Event::Configured { head, model }] }
    }

    fn say(&self, entry: Entry, given: &Given) -> Vec<Event> {
        if self.queue.knows(&entry.id) || !self.queue.accepts(&entry.source) {
            return Vec::new();
        }
        let urgent = entry.priority == Priority::Now;
        let mut events = vec![Event::Queued { entry }];
        if let (true, Some(step)) = (urgent, &self.step) {
            events.push(Event::StepFailed {
                step: step.step,
                failure: None,
                error: words::SUPERSEDED.into(),
                retry_at: Some(given.now),
                partial: Text::default(),
                usage: given.in_flight,
            });
        }
        events
    }

    fn take_report(&self, report: Report, given: &Given) -> Vec<Event> {
        match report {
            Report::Reply { step, parts, calls, usage, finish: Finish::Length, .. }
                if self.is_at(step) && self.is_stuck_at_limit(&calls) =>
            {
                let texts = parts.iter().filter_map(|part| if let Part::Text { text, .. } = part { text.inline() } else { None });
                let model = self.configured.as_ref().map_or("", |configured| configured.model.as_str());
                vec![Event::StepFailed {
                    step,
                    failure: Some(ModelFailure::BadRequest),
                    error: words::cut_again(self.misfires.saturating_add(1), model),
                    retry_at: None,
                    partial: texts.collect::<String>().into(),
                    usage,
                }]
            }
            Report::Reply { step, mut parts, calls, usage, finish, misshapen } if self.is_at(step) => {
                if PARTS_MAX < parts.len() {
                    parts.retain(|part| !matches!(part, Part::Call { .. }));
                }
                let mut events = vec![Event::Replied { step, parts, calls: calls.len() as u64, usage, finish, author: None }];
                events.extend(self.called(calls, true, given));
                events.extend(self.misshaped(misshapen));
                if self.step.as_ref().is_some_and(|open| open.closing) && !self.only_answers() {
                    let own = self.is_at_step_limit();
                    events.push(Event::LimitReached { limit: Limit::Steps, words: words::STEPS_USED_UP.into(), own });
                    // Nobody would hear of their ends.
                    events.extend(self.end_below(By::Kernel, true));
                }
                events
            }
            Report::ModelFailed { step, failure, words, retry_after: asked, partial, usage } if self.is_at(step) => {
                let failed = self.retry.after(failure);
                let wait = retry_after(failure, failed.count, asked, given.chance).filter(|_| failed.total <= RETRIES_MAX);
                let wait = wait.or(self.may_be_shortened(failure, given).then_some(Duration::ZERO));
                let next = wait.and_then(|wait| self.stand_in_for(failure, failed.count, wait, given));
                let retry_at = if next.is_some() { Some(given.now) } else { wait.map(|wait| given.now.plus(wait)) };
                let error = clip(words, WORDS_BYTES_MAX);
                let why = one_line(error.clone(), WHY_BYTES_MAX);
                let mut events = vec![Event::StepFailed { step, failure: Some(failure), error, retry_at, partial, usage }];
                events.extend(next.map(|model| Event::ModelChanged { model: Some(model), why }));
                events
            }
            Report::Looked { call, input, look, by } => self.looked(call, input, look, by, given),
            Report::CallFinished { call, outcome } => match self.call(&call).map(|open| &open.state) {
                Some(CallState::Running | CallState::Stopping) => vec![Event::CallFinished { call, outcome }],
                _ => Vec::new(),
            },
            Report::TaskEnded(end) => self.task_ended(*end, given),
            Report::KeptEnded { call, words } => self.kept_ended(call, words, given),
            Report::Released { task, removed, words } => self.released(task, removed, words),
            Report::Expanding { entry, calls } if self.is_typed(&entry) && self.hold.is_none() => {
                let mut events = vec![Event::Expanding { entry, calls: calls.len() as u64 }];
                events.extend(self.called(calls, false, given));
                events
            }
            Report::Expanded { entry, parts, agent, model, allowed } if self.is_typed(&entry) => {
                vec![Event::Expanded { entry, parts, agent, model, allowed }]
            }
            Report::Reply { .. } | Report::ModelFailed { .. } | Report::Expanding { .. } | Report::Expanded { .. } => Vec::new(),
        }
    }

    /// Whether an answer ends in half a call once more, after others that could not be run.
    fn is_stuck_at_limit(&self, calls: &[Wanted]) -> bool {
        let is_cut = |input: &str| serde_json::from_str::<serde::de::IgnoredAny>(input).is_err();
        CUTS_MAX <= self.misfires && calls.last().is_some_and(|last| last.look.is_err() && last.input.inline().is_some_and(is_cut))
    }

    /// An answer without its shape is asked for once more; the second is the last.
    fn misshaped(&self, wrong: Option<String>) -> Option<Event> {
        let again = !self.asked_again && !self.step.as_ref().is_some_and(|open| open.closing);
        wrong.map(|wrong| Event::Misshapen { words: clip(wrong, WORDS_BYTES_MAX), again })
    }

    fn is_typed(&self, entry: &EntryId) -> bool {
        self.queue.get(entry).is_some_and(|waiting| waiting.typed)
    }

    /// The turn begins and fails at once, so that what was said is not said again.
    fn refuse_step(&self, step: u64, words: String) -> Vec<Event> {
        if self.step.is_some() || !self.calls.is_empty() || !self.wants_step() {
            return Vec::new();
        }
        let took = self.queue.due(self.answering);
        vec![
            Event::StepStarted { step, took, reserved: Default::default(), closing: false, notes: Vec::new() },
            Event::StepFailed {
                step,
                failure: Some(ModelFailure::BadRequest),
                error: clip(words, WORDS_BYTES_MAX),
                retry_at: None,
                partial: Text::default(),
                usage: Default::default(),
            },
        ]
    }

    /// The kernel speaks in the name of the agent that the user ran, and calls it. The user needs nobody's leave.
    fn run_subtask(&self, step: u64, author: String, wanted: Wanted, notes: Vec<Part>, given: &Given) -> Vec<Event> {
        if self.step.is_some() || !self.calls.is_empty() || !self.wants_step() || self.next_subtask().is_none() {
            return Vec::new();
        }
        let took = self.queue.due(self.answering);
        let notes = self.step_notes(notes);
        let parts = vec![Part::Call { call: wanted.call.clone() }];
        let mut events = vec![
            Event::StepStarted { step, took, reserved: Default::default(), closing: false, notes },
            Event::Replied { step, parts, calls: 1, usage: Default::default(), finish: Finish::Calls, author: Some(author) },
        ];
        events.extend(self.called(vec![wanted], true, given));
        events
    }

    fn is_at(&self, step: u64) -> bool {
        self.step.as_ref().is_some_and(|open| open.step == step)
    }

    /// Every call of a reply, with its verdict and what follows from it.
    fn called(&self, calls: Vec<Wanted>, of_turn: bool, given: &Given) -> Vec<Event> {
        let closing = self.step.as_ref().is_some_and(|open| open.closing);
        let mut events = Vec::new();
        let mut after = self.clone();
        for wanted in calls {
            let mut called = Event::Called {
                call: wanted.call.clone(),
                tool: wanted.tool.clone(),
                input: wanted.input.clone(),
                wire_id: wanted.wire_id.clone(),
                touches: recorded(wanted.touches()),
                repeatable: wanted.look.as_ref().is_ok_and(|look| look.repeatable),
                title: one_line(wanted.look.as_ref().map(|look| look.title.clone()).unwrap_or_default(), TITLE_BYTES_MAX),
                decision: None,
                consented: wanted.consented,
            };
            after.note_repeat(&called);
            let call = wanted.call.clone();
            match wanted.look {
                Err(error) => {
                    let error = if 2 <= after.misfires { format!("{error}\n{}", words::MISFIRES) } else { error };
                    after.misfires += 1;
                    events.push(called);
                    events.push(Event::CallFinished { call, outcome: Outcome::failed(error) });
                }
                Ok(_) if closing => {
                    // An append that is torn here has not let it run.
                    if let Event::Called { decision, .. } = &mut called {
                        *decision = Some(Decision { why: words::STEPS_USED_UP.into(), ..Decision::of(Verdict::Deny, None) });
                    }
                    events.push(called);
                    events.push(Event::CallFinished { call, outcome: Outcome::denied(words::STEPS_USED_UP) });
                }
                Ok(_) if given.looks => events.push(called),
                Ok(look) => {
                    after.misfires = 0;
                    let verdict = after.judge(&wanted.tool, look, after.repeats.1, of_turn, given);
                    let verdict = consented(verdict, wanted.consented);
                    if let Event::Called { decision, touches, .. } = &mut called {
                        if let Some(doom) = verdict.touch.clone().filter(|touch| touch.key == "doom_loop") {
                            touches.push(doom);
                        }
                        *decision = Some(verdict.clone());
                    }
                    events.push(called);
                    events.extend(self.follow(&call, &verdict, given));
                }
            }
        }
        events
    }

    fn note_repeat(&mut self, called: &Event) {
        let record =
            crate::event::Record { seq: self.head, at: Default::default(), batch: crate::ids::BatchId::new(""), event: called.clone() };
        let calls = self.calls.len();
        self.apply(&record);
        self.calls.truncate(calls);
    }

    /// Today's rules and every ceiling; a repeated call is a touch of its own; a person's grant lifts an ask, never a deny.
    /// What the turn allows does not count for what typed words need: they begin a turn of their own.
    fn judge(&self, tool: &str, mut look: Look, repeats: u32, of_turn: bool, given: &Given) -> Decision {
        if REPEATS_MAX <= repeats && !look.polls {
            if look.touches.is_empty() {
                look.touches.push(Touch::new(key_of(tool), "*"));
            }
            look.touches.push(Touch::new("doom_loop", tool));
        }
        let recorded = self.birth.as_ref().map_or(&[][..], |birth| &birth.ceiling);
        let ceiling: Vec<&Rules> = given.ceiling.iter().chain(recorded).collect();
        let Judgement { decision, asked } = judge(tool, &look.touches, look.reader.as_ref(), given.rules, &ceiling);
        let decision = match decision.verdict {
            Verdict::Ask if given.strict_shell && tool == "bash" => words::looks_only(decision),
            Verdict::Ask => self.lifted(decision, asked, of_turn, given),
            _ => decision,
        };
        Decision { touch: decision.touch.map(Touch::clipped), why: one_line(decision.why, WHY_BYTES_MAX), ..decision }
    }

    /// An ask after what people have allowed before.
    fn lifted(&self, decision: Decision, asked: Vec<AskedFor>, of_turn: bool, given: &Given) -> Decision {
        let by_answer = |asked: &AskedFor| self.grants.iter().chain(given.grants).find(|granted| granted.grant.covers(asked));
        let by_turn = |asked: &AskedFor| self.turn.allowed.iter().find(|grant| of_turn && grant.covers(asked));
        let grant = |asked: &AskedFor| match by_answer(asked) {
            Some(granted) => Some((granted.grant.to_string(), words::granted(granted))),
            None => by_turn(asked).map(|grant| (grant.to_string(), words::FOR_THIS_TURN.to_owned())),
        };
        let granted = asked.first().and_then(grant);
        let mut open: Vec<AskedFor> = asked.into_iter().filter(|asked| grant(asked).is_none()).collect();
        // What fewest may answer comes first: the ask speaks of it, and a mode that may not answer it answers nothing.
        open.sort_by_key(|asked| (!asked.touch.needs_a_person(), asked.touch.key == "edit"));
        match (open.first(), granted) {
            (None, Some((rule, origin))) => Decision { verdict: Verdict::Allow, rule: Some(rule), origin, ..decision },
            (None, None) => decision,
            (Some(first), _) => {
                let offers: Vec<Grant> = open.iter().take(TOUCHES_MAX).filter_map(AskedFor::offer).collect();
                Decision {
                    rule: first.rule.clone(),
                    origin: first.origin.clone(),
                    why: first.why.clone(),
                    more: offers.len() < open.len(),
                    offers,
                    ..Decision::of(Verdict::Ask, Some(first.touch.clone()))
                }
            }
        }
    }

    /// What a verdict leads to, beyond itself.
    fn follow(&self, call: &CallId, decision: &Decision, given: &Given) -> Vec<Event> {
        match decision.verdict {
            Verdict::Allow => Vec::new(),
            Verdict::Deny => vec![Event::CallFinished { call: call.clone(), outcome: Outcome::denied(words::denied(decision)) }],
            Verdict::Ask => {
                let ask = AskId::fresh(given.ids);
                let mut events = vec![Event::Asked { ask: ask.clone(), call: call.clone(), decision: decision.clone() }];
                events.extend(self.by_policy(&ask, call, decision, given));
                events
            }
        }
    }

    /// The answer to an ask that nobody needs to be, or can be, asked.
    fn by_policy(&self, ask: &AskId, call: &CallId, decision: &Decision, given: &Given) -> Vec<Event> {
        match given.answers(decision) {
            Some(true) => {
                let (ask, call) = (ask.clone(), call.clone());
                vec![Event::Answered { ask, call, answer: Answer::Yes { scope: Scope::Once }, by: By::Policy }]
            }
            Some(false) => refuse(ask.clone(), call.clone(), decision),
            None => Vec::new(),
        }
    }

    fn looked(&self, call: CallId, input: Text, look: Result<Look, String>, by: String, given: &Given) -> Vec<Event> {
        let Some(open @ OpenCall { state: CallState::Unlooked, tool, repeats, .. }) = self.call(&call) else { return Vec::new() };
        match look {
            Err(words) => vec![Event::CallFinished { call, outcome: Outcome::denied(words) }],
            Ok(look) => {
                let decision = consented(self.judge(tool, look.clone(), *repeats, open.is_of_turn(), given), open.consented);
                let touches = recorded(look.touches);
                let mut events = vec![Event::Looked { call: call.clone(), input, touches, by, decision: decision.clone() }];
                events.extend(self.follow(&call, &decision, given));
                events
            }
        }
    }

    /// The stream is dropped, and whoever goes on asks again. Nobody died of it.
    fn put_down(&self, given: &Given) -> Vec<Event> {
        let open = self.step.as_ref();
        let put_down = |open: &OpenStep| Event::StepFailed {
            step: open.step,
            failure: None,
            error: words::PUT_DOWN.into(),
            retry_at: Some(given.now),
            partial: Text::default(),
            usage: given.in_flight,
        };
        open.map(put_down).into_iter().collect()
    }

    /// An answer, and the other asks of this session that it settles too.
    fn answer(&self, ask: &AskId, answer: Answer, by: By) -> Vec<Event> {
        let Some((_, open)) = self.open_asks().find(|(open, _)| *open == ask) else { return self.late_answer(ask, answer, by) };
        let CallState::Asked { decision, .. } = &open.state else { return Vec::new() };
        let (call, ask) = (open.call.clone(), ask.clone());
        let answer = fitting(answer, decision);
        let mut events = vec![Event::Answered { ask: ask.clone(), call: call.clone(), answer: answer.clone(), by }];
        match &answer {
            Answer::No { say } => {
                // Whoever could have answered is gone.
                let why = if by == By::Policy { words::nobody(decision) } else { words::refused(say) };
                events.push(Event::CallFinished { call, outcome: Outcome::denied(why) });
            }
            Answer::Yes { scope: scope @ (Scope::Session | Scope::Tree | Scope::Project) } => {
                events.extend(self.covered(&granted(&ask, *scope, decision), Some(&ask)));
            }
            Answer::Yes { .. } | Answer::Words { .. } => {}
        }
        events
    }

    /// An answer that comes when nobody waits for it any more: what it allows counts from now on, and the model hears of it.
    fn late_answer(&self, ask: &AskId, answer: Answer, by: By) -> Vec<Event> {
        let Some(gone) = self.unanswered.iter().find(|gone| gone.ask == *ask).filter(|_| by == By::User) else { return Vec::new() };
        let answer = fitting(answer, &gone.decision);
        let text = words::late(&answer, &gone.decision);
        let answered = Event::Answered { ask: ask.clone(), call: gone.call.clone(), answer, by };
        let mut events = Vec::new();
        // The entry comes first and is known by its ask: an append that is torn between the two is made good, once.
        let id = EntryId::new(format!("{ask}.late"));
        // A task that has ended is not woken by it: nobody waits for what it would do.
        if (self.round.open || self.birth.as_ref().is_none_or(|birth| birth.parent.is_none())) && !self.queue.knows(&id) {
            let entry = Entry {
                source: Source::Answer { ask: ask.clone() },
                priority: Priority::Later,
                parts: vec![Part::reminder(text)],
                ..Entry::user(id, "")
            };
            events.push(Event::Queued { entry });
        }
        events.push(answered);
        events
    }

    /// Yes to every other open ask whose whole offer is granted already.
    fn covered(&self, fresh: &[Granted], but: Option<&AskId>) -> Vec<Event> {
        let has = |offer: &Grant| fresh.iter().chain(&self.grants).any(|granted| granted.grant == *offer);
        let settles = |decision: &Decision| !decision.more && !decision.offers.is_empty() && decision.offers.iter().all(has);
        let others = self.open_asks().filter(|(other, _)| Some(*other) != but);
        let settled = others.filter(|(_, open)| matches!(&open.state, CallState::Asked { decision, .. } if settles(decision)));
        let yes = |(ask, open): (&AskId, &OpenCall)| {
            let answer = Answer::Yes { scope: Scope::Once };
            Event::Answered { ask: ask.clone(), call: open.call.clone(), answer, by: By::Kernel }
        };
        settled.map(yes).collect()
    }

    /// Ends the turn here: drops the stream, cancels what has not started, tells foreground tasks to stop.
    fn halt(&self, fact: Event, why: &str, partial: Text, by: By, usage: Usage) -> Vec<Event> {
        let mut fact = fact;
        let mut hold = if let Event::Interrupted { hold, .. } = &fact { *hold } else { Hold::Limit };
        // What the user has stopped stays the user's to lift, whoever stops it again.
        if self.hold == Some(Hold::StoppedByUser) {
            hold = Hold::StoppedByUser;
            if let Event::Interrupted { hold: said, .. } = &mut fact {
                *said = hold;
            }
        }
        // Esc leaves what runs in the background alone, and its end may be heard; any other stop ends that too, and so does
        // the end of a task together with its parent.
        let ends_all = hold != Hold::Esc || self.is_task();
        // What an append that was torn has not told to stop, the next one tells.
        let untold = ends_all && (!self.kept.is_empty() || self.tasks.values().any(|task| task.stopped.is_none()));
        let waits = untold || (!self.tasks.is_empty() && ends_all && self.hold != Some(hold));
        let idle = self.only_waits() && !waits;
        let ends = |open: &OpenCall| match &open.state {
            CallState::Stopping => true,
            CallState::Waiting { task } => self.tasks.get(task).is_none_or(|task| task.stopped.is_some()),
            _ => false,
        };
        // Told already, and everything is on its way out.
        let told = self.hold == Some(hold) && self.step.is_none() && self.calls.iter().all(ends) && !untold;
        if idle || told {
            return Vec::new();
        }
        let mut events = Vec::new();
        if let Some(open) = &self.step {
            events.push(Event::StepFailed { step: open.step, failure: None, error: why.to_owned(), retry_at: None, partial, usage });
        }
        events.push(fact);
        for open in &self.calls {
            match &open.state {
                CallState::Unlooked | CallState::Judged(_) | CallState::Asked { .. } => {
                    events.push(Event::CallFinished { call: open.call.clone(), outcome: Outcome::cancelled("") });
                }
                // What it only waited for goes on without it.
                CallState::Waiting { task } if self.tasks.get(task).is_none_or(|task| !task.foreground) => {
                    events.push(Event::CallFinished { call: open.call.clone(), outcome: Outcome::cancelled("") });
                }
                CallState::Running | CallState::Stopping | CallState::Waiting { .. } => {}
            }
        }
        events.extend(self.end_below(by, ends_all));
        events
    }

    /// Tells what runs below to stop: what is waited for, or all of it.
    fn end_below(&self, by: By, all: bool) -> Vec<Event> {
        let ends_with_it = |task: &OpenTask| task.stopped.is_none() && (self.is_waited_for(task) || all);
        // Who is stopped together with its parent can be gone on with like it.
        let told = |task: &SessionId| Event::TaskStopped { task: task.clone(), by, hold: Some(Hold::Esc) };
        let over = |call: &CallId| Event::KeptEnded { call: call.clone(), words: Text::default(), entry: None };
        let tasks = self.tasks.iter().filter(|(_, open)| ends_with_it(open)).map(|(task, _)| told(task));
        tasks.chain(self.kept.keys().filter(|_| all).map(over)).collect()
    }

    /// A verdict of an earlier owner after today's rules. A person's yes stands against an ask, never against a deny.
    fn rejudge(&self, call: &CallId, look: Look, given: &Given) -> Vec<Event> {
        let Some(open) = self.call(call) else { return Vec::new() };
        let decision = consented(self.judge(&open.tool, look, open.repeats, open.is_of_turn(), given), open.consented);
        let allow = |ask: &AskId| {
            let (ask, call) = (ask.clone(), call.clone());
            Event::Answered { ask, call, answer: Answer::Yes { scope: Scope::Once }, by: By::Policy }
        };
        match (&open.state, decision.verdict) {
            (CallState::Judged(_) | CallState::Asked { .. }, Verdict::Deny) => self.follow(call, &decision, given),
            (CallState::Judged(before), Verdict::Ask) if before.verdict == Verdict::Allow && !open.consented => {
                self.follow(call, &decision, given)
            }
            (CallState::Asked { ask, .. }, Verdict::Allow) => vec![allow(ask)],
            _ => Vec::new(),
        }
    }

    /// Work begun by an owner that is gone cannot be trusted either way. What only reads runs again, a few times.
    fn take_over(&self, given: &Given) -> Vec<Event> {
        let mut events = Vec::new();
        let begun = self.calls.iter().filter(|open| matches!(open.state, CallState::Running | CallState::Stopping)).count();
        if self.step.is_some() || 0 < begun {
            let usage = if self.step.is_some() { given.in_flight } else { Usage::default() };
            events.push(Event::TookOver { calls: begun as u64, usage });
        }
        for open in &self.calls {
            let again = open.repeatable && open.state == CallState::Running && open.attempts < ATTEMPTS_MAX;
            match &open.state {
                CallState::Running | CallState::Stopping if !again => {
                    events.push(Event::CallFinished { call: open.call.clone(), outcome: Outcome::Lost { partial: Text::default() } });
                }
                // The append that held the session was torn: what it had not started, it cancels.
                CallState::Unlooked | CallState::Judged(_) | CallState::Asked { .. } if self.hold.is_some() => {
                    events.push(Event::CallFinished { call: open.call.clone(), outcome: Outcome::cancelled("") });
                }
                // The append that sent the task to the background, or ended it, was torn: its call is still to be answered.
                CallState::Waiting { task } if !self.is_awaited_by(task, &open.call) => {
                    let words = if self.tasks.contains_key(task) { words::launched(task) } else { words::ended_elsewhere(task) };
                    events.push(Event::CallFinished { call: open.call.clone(), outcome: Outcome::done(words) });
                }
                CallState::Judged(decision) => events.extend(self.follow(&open.call, decision, given)),
                CallState::Asked { ask, decision } => events.extend(self.by_policy(ask, &open.call, decision, given)),
                _ => {}
            }
        }
        // The append that held the session was torn: what it had not told to stop, it tells now. Who was woken since goes on.
        if let Some(hold @ (Hold::Esc | Hold::StoppedByModel | Hold::StoppedByUser | Hold::Limit)) = self.hold {
            let before = |task: &SessionId| self.tasks.get(task).is_some_and(|open| open.seq < self.held_at);
            let told = self.end_below(By::Kernel, hold != Hold::Esc || self.is_task());
            events.extend(told.into_iter().filter(|event| matches!(event, Event::TaskStopped { task, .. } if before(task))));
        }
        // What had been left running ended with the process that ran it.
        for (call, title) in &self.kept {
            let entry = Some(EntryId::fresh(given.ids));
            events.push(Event::KeptEnded { call: call.clone(), words: words::lost_shell(title).into(), entry });
        }
        if matches!(events.first(), Some(Event::TookOver { .. })) && TAKEOVERS_MAX <= self.takeovers + 1 {
            let mut after = self.clone();
            for event in &events {
                after.apply(&crate::event::Record {
                    seq: self.head,
                    at: given.now,
                    batch: crate::ids::BatchId::new(""),
                    event: event.clone(),
                });
            }
            let fact = Event::Interrupted { by: By::Kernel, hold: Hold::TakeOvers };
            events.extend(after.halt(fact, words::INTERRUPTED, Text::default(), By::Kernel, Usage::default()));
        }
        events
    }
}

/// What the user asked for is not asked about; a deny stands.
fn consented(decision: Decision, consented: bool) -> Decision {
    if consented && decision.verdict == Verdict::Ask { words::consented(decision) } else { decision }
}

/// An answer of the kind that was asked for.
fn fitting(answer: Answer, decision: &Decision) -> Answer {
    let is_question = decision.touch.as_ref().is_some_and(|touch| touch.key == "question");
    match answer {
        Answer::No { say } => Answer::No { say: clip(say, WORDS_BYTES_MAX) },
        Answer::Words { say } if is_question => Answer::Words { say: clip(say, WORDS_BYTES_MAX) },
        Answer::Yes { .. } if is_question => Answer::Words { say: String::new() },
        Answer::Words { .. } => Answer::Yes { scope: Scope::Once },
        yes @ Answer::Yes { .. } => yes,
    }
}

/// What an event keeps of what a call touches.
fn recorded(touches: Vec<Touch>) -> Vec<Touch> {
    touches.into_iter().take(TOUCHES_MAX).map(Touch::clipped).collect()
}

fn refuse(ask: AskId, call: CallId, decision: &Decision) -> Vec<Event> {
    let answered = Event::Answered { ask, call: call.clone(), answer: Answer::No { say: String::new() }, by: By::Policy };
    vec![answered, Event::CallFinished { call, outcome: Outcome::denied(words::nobody(decision)) }]
}
