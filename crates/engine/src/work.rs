//! What a run starts: model calls, looks and tool calls, each a task that ends in one report.
//!
//! Dropping a [`Work`] cancels it. Nothing here touches the log: a report is a wish, the run makes it a fact.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use posse_session::{
    Before, Birth, BoxFuture, By, CallId, CallOwner, Command, EffectKey, Effort, Expansion, FORK, Finish, Fork, Hold, HookedCall, How, Ids,
    Kind, Look, ModelError, ModelFailure, Needed, Outcome, Part, Purpose, Recipe, Reply, ReplyPart, Report, Request, Rules, SessionId,
    Spawn, Stop, TaskEnd, TaskReport, Text, Tool, ToolCall, ToolContext, Touch, Usage, Wanted, clip, output_setting,
};
use serde_json::{Map, Value};
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    batch::{FirstByte, Opener},
    delegating::Delegating,
    lanes::Slot,
    live::SessionLive,
    meter::{Meter, Metered},
    run::{Mail, Mailbox},
    subtask::typed_text,
    tree::{Tree, wish},
    typing::Typed,
    views::Reach,
    world::{Outfit, Outfits},
};

/// A hook that takes longer than this is passed over.
pub(crate) const HOOK_MAX: Duration = Duration::from_secs(5);

/// How soon a task that was told to stop is told again.
const STOP_AGAIN: Duration = Duration::from_millis(50);

/// A few files are read, and a few written.
const NOTES_STEPS_MAX: u64 = 20;

/// No provider's id of a call is longer.
const WIRE_ID_MAX: usize = 256;

/// No tool's name is longer.
const TOOL_NAME_MAX: usize = 128;

/// Something under way. Aborted when dropped.
pub(crate) struct Work {
    task: JoinHandle<()>,
    stop: watch::Sender<bool>,
    pub(crate) live: Arc<SessionLive>,
    /// Told to stop; after this it is dropped.
    pub(crate) stopped_at: Option<tokio::time::Instant>,
    /// Of a model call: what it has used so far.
    pub(crate) meter: Option<Arc<Meter>>,
}

impl Drop for Work {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Work {
    pub(crate) fn tell_to_stop(&mut self) {
        if self.stopped_at.is_none() {
            self.stopped_at = Some(tokio::time::Instant::now());
            // Nobody listening means it has just ended.
            let _ = self.stop.send(true);
        }
    }
}

/// What every piece of work needs around it.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) session: SessionId,
    pub(crate) outfit: Arc<Outfit>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) mail: Mailbox,
    pub(crate) live: Arc<SessionLive>,
    pub(crate) memory: Arc<Mutex<Map<String, Value>>>,
    pub(crate) tree: Weak<Tree>,
}

/// A call's tool and input, as recorded, and the provider's id of it.
#[derive(Debug, Clone)]
pub(crate) struct CallInput {
    pub(crate) tool: String,
    pub(crate) input: String,
    pub(crate) wire_id: String,
}

/// A task as its parent started it.
#[derive(Debug, Clone)]
pub(crate) struct Started {
    pub(crate) spawn: Spawn,
    /// The provider's id of the call.
    pub(crate) wire_id: String,
    /// The last round whose end is recorded.
    pub(crate) told: u64,
}

/// What a piece of work has to say: a report, and of a task's end what it is worded from.
pub(crate) struct Told {
    report: Report,
    end: Option<Box<TaskEnd>>,
}

impl From<Report> for Told {
    fn from(report: Report) -> Self {
        Self { report, end: None }
    }
}

impl Desk {
    fn start(self, key: EffectKey, work: impl FnOnce(Self, Arc<StopFlag>) -> BoxFuture<'static, Report> + Send + 'static) -> Work {
        self.tell(key, move |desk, stop| {
            let work = work(desk, stop);
            Box::pin(async move { Told::from(work.await) })
        })
    }

    fn tell(self, key: EffectKey, work: impl FnOnce(Self, Arc<StopFlag>) -> BoxFuture<'static, Told> + Send + 'static) -> Work {
        let (stop, flag) = watch::channel(false);
        let (live, mail) = (self.live.clone(), self.mail.clone());
        let task = tokio::spawn(async move {
            // A task of its own, so that a panic is a report too and nobody waits for ever.
            let mut inner = Inner(tokio::spawn(work(self, Arc::new(StopFlag(flag)))));
            let Told { report, end } = (&mut inner.0).await.unwrap_or_else(|_| broken(&key).into());
            // A run that is gone needs no report.
            let _ = mail.send(Mail::Report { key, report: Box::new(report), end }).await;
        });
        Work { task, stop, live, stopped_at: None, meter: None }
    }

    /// `opener`: others wait for the first byte of this answer.
    pub(crate) fn call_model(self, step: u64, request: Request, last_input: u64, slot: Slot, opener: Option<Opener>) -> Work {
        let output_max = request.output_max;
        let meter = Arc::new(Meter::new(&request, last_input, self.outfit.model.facts().prices));
        let metered = meter.clone();
        let mut work = self.start(EffectKey::Model(step), move |desk, _| {
            Box::pin(async move {
                let deadline = desk.outfit.step_max;
                let live = Metered { live: &FirstByte { live: &*desk.live, opener: &opener }, meter: &meter };
                let attempt = tokio::time::timeout(deadline, desk.outfit.model.reply(request, &live)).await;
                drop(opener);
                give_back(slot, &attempt);
                let reply = attempt.unwrap_or_else(|_| {
                    let words = format!("the model took longer than {} s for one answer (limits.step)", deadline.as_secs());
                    Err(ModelError { partial: desk.live.said(), ..ModelError::new(ModelFailure::Deadline, words) })
                });
                let slow = |part: &ReplyPart| {
                    matches!(part, ReplyPart::Call { tool, .. } if desk.outfit.tool(tool).is_ok_and(|tool| tool.looks_slowly()))
                };
                if !matches!(&reply, Ok(reply) if reply.parts.iter().any(slow)) {
                    return desk.report_reply(step, reply, output_max, &meter);
                }
                let looked = tokio::task::spawn_blocking(move || desk.report_reply(step, reply, output_max, &meter)).await;
                looked.unwrap_or_else(|_| broken(&EffectKey::Model(step)))
            })
        });
        work.meter = Some(metered);
        work
    }

    /// `output_max`: how long the answer was allowed to be, in tokens.
    fn report_reply(&self, step: u64, reply: Result<Reply, ModelError>, output_max: u64, meter: &Meter) -> Report {
        let facts = self.outfit.model.facts();
        let prices = facts.prices;
        let said_nothing = |reply: &Reply| {
            !reply
                .parts
                .iter()
                .any(|part| matches!(part, ReplyPart::Call { .. }) || matches!(part, ReplyPart::Text(text) if !text.trim().is_empty()))
        };
        let failed = |failure, words: String, usage| Report::ModelFailed {
            step,
            failure,
            words,
            retry_after: None,
            partial: Text::default(),
            usage,
        };
        match reply {
            Ok(reply) if said_nothing(&reply) && reply.finish == Finish::Refusal => failed(
                ModelFailure::BadRequest,
                "the model refused to answer; say it another way, or use another model".into(),
                meter.of_answer(reply.usage),
            ),
            Ok(reply) if said_nothing(&reply) && reply.finish == Finish::Length => {
                let setting = output_setting(&facts.name);
                let words = format!(
                    "the answer was cut off at its limit of {output_max} output tokens before it said anything; thinking counts too, \
                     and {setting} sets the limit"
                );
                failed(ModelFailure::Malformed, words, meter.of_answer(reply.usage))
            }
            Ok(reply) if said_nothing(&reply) => {
                failed(ModelFailure::Malformed, "the model answered with nothing".into(), meter.of_answer(reply.usage))
            }
            Ok(reply) => {
                let (parts, mut calls) = self.sort(reply.parts);
                if reply.finish == Finish::Length {
                    tell_of_cut(&mut calls, output_max);
                }
                let misshapen = self.misshapen(&parts, &calls);
                Report::Reply { step, parts, calls, usage: reply.usage.priced(&prices), finish: reply.finish, misshapen }
            }
            Err(error) => Report::ModelFailed {
                step,
                failure: error.failure,
                usage: meter.after(&error),
                words: error.words,
                retry_after: error.retry_after,
                partial: error.partial.into(),
            },
        }
    }

    /// What is wrong with the shape of an answer that calls nothing.
    fn misshapen(&self, parts: &[Part], calls: &[Wanted]) -> Option<String> {
        let shape = self.outfit.shape.as_ref().filter(|_| calls.is_empty())?;
        let text = parts.iter().filter_map(|part| if let Part::Text { text, .. } = part { text.inline() } else { None });
        shape(&text.collect::<Vec<_>>().concat())
    }

    /// Parts of the message, and its calls, each looked at.
    fn sort(&self, parts: Vec<ReplyPart>) -> (Vec<Part>, Vec<Wanted>) {
        let (mut said, mut calls) = (Vec::new(), Vec::new());
        for part in parts {
            said.push(match part {
                ReplyPart::Text(text) => Part::text(text),
                ReplyPart::Reasoning { text, signature } => Part::Reasoning { text: text.into(), signature: signature.map(Text::from) },
                ReplyPart::Opaque { provider, raw } => Part::Opaque { provider, raw: raw.to_string().into() },
                ReplyPart::Call { id, tool, input } => {
                    let call = CallId::fresh(&*self.ids);
                    let input = if input.trim().is_empty() { "{}".to_owned() } else { input };
                    let (tool, look) = self.look(&tool, &input);
                    // An id that is no id is replaced by ours when it goes back; a name that long is no tool's.
                    let wire_id = if WIRE_ID_MAX < id.len() { String::new() } else { id };
                    let tool = clip(tool, TOOL_NAME_MAX);
                    calls.push(Wanted { call: call.clone(), wire_id, tool, input: input.into(), look, consented: false });
                    Part::Call { call }
                }
            });
        }
        (said, calls)
    }

    /// The tool's real name and what the call would touch, or why it cannot run.
    fn look(&self, name: &str, input: &str) -> (String, Result<Look, String>) {
        match self.outfit.tool(name) {
            Err(words) => (name.to_owned(), Err(words)),
            Ok(tool) => {
                let look = parse(input).and_then(|input| match tool.task_meant(&input).filter(|_| tool.looks_slowly()) {
                    Some(wanted) => tool.look_at_task(&input, &self.task_meant(&wanted)?, &*self.outfit.workspace),
                    None => tool.look(&input, &*self.outfit.workspace),
                });
                (tool.spec().name.clone(), look)
            }
        }
    }

    /// The task that a call means. Slow looks are on threads of their own, which may wait for the views.
    fn task_meant(&self, wanted: &str) -> Result<SessionId, String> {
        let tree = self.tree.upgrade().ok_or("The session is being closed.")?;
        let found = tokio::runtime::Handle::current().block_on(tree.find(&self.session, wanted, Reach::Below));
        found.map(|task| task.session)
    }

    pub(crate) fn look_at(self, call: CallId, wanted: CallInput, owner: CallOwner) -> Work {
        self.start(EffectKey::Look(call.clone()), move |desk, _| {
            Box::pin(async move {
                let (mut input, mut by) = (wanted.input.clone(), String::new());
                for hook in desk.outfit.hooks.iter().filter(|hook| hook.looks()) {
                    let seen = HookedCall {
                        session: desk.session.clone(),
                        call: call.clone(),
                        tool: wanted.tool.clone(),
                        input: parse(&input).unwrap_or_default(),
                    };
                    match tokio::time::timeout(HOOK_MAX, hook.before_call(&seen)).await {
                        Ok(Before::Go) | Err(_) => {}
                        Ok(Before::Amend(amended)) => (input, by) = (amended.to_string(), hook.name().to_owned()),
                        Ok(Before::Refuse(words)) => {
                            return Report::Looked { call, input: input.into(), look: Err(words), by: hook.name().to_owned() };
                        }
                    }
                }
                let look = match owner {
                    CallOwner::Model if desk.outfit.tool(&wanted.tool).is_ok_and(|tool| tool.looks_slowly()) => {
                        let (apart, tool, input) = (desk.clone(), wanted.tool.clone(), input.clone());
                        let looked = tokio::task::spawn_blocking(move || apart.look(&tool, &input).1).await;
                        looked.unwrap_or_else(|error| Err(format!("the look at it broke off: {error}")))
                    }
                    CallOwner::Model => desk.look(&wanted.tool, &input).1,
                    CallOwner::Entry(_) => {
                        let tool = desk.outfit.any_tool(&wanted.tool);
                        tool.and_then(|tool| tool.look(&parse(&input)?, &*desk.outfit.workspace))
                    }
                    // Whom the user may run is found out when it is started.
                    CallOwner::Subtask(_) => {
                        let input = parse(&input).unwrap_or_default();
                        let agent = input["subagent_type"].as_str().unwrap_or_default();
                        Ok(Look { touches: vec![Touch::new("task", agent)], repeatable: true, ..Look::default() })
                    }
                };
                Report::Looked { call, input: input.into(), look, by }
            })
        })
    }

    /// Keeps a task going until its round is over. One that a call waits for is sent to the background after a while.
    pub(crate) fn watch(self, watched: Watched, birth: TaskBirth, hooked: Option<HookedCall>) -> Work {
        self.tell(EffectKey::Watch(watched.task.clone(), watched.round), move |desk, _| {
            Box::pin(async move {
                let Watched { tree, task, round, started } = watched;
                let attended = tokio::select! {
                    attended = tree.attend(&task, &started.spawn, &desk.session, &birth) => attended,
                    never = desk.detach_in_time(&tree, &task) => match never {},
                };
                let attended = match attended {
                    Ok(attended) => attended,
                    Err(error) => {
                        // The task has not ended, only its run; the parent cannot go on without it.
                        let _ = desk.mail.send(Mail::Broken(error)).await;
                        std::future::pending().await
                    }
                };
                let mut end = tree.end_of(&task, &started, attended);
                end.left = tree.left_by(&task).await;
                let tool = desk.tool_of(&started.spawn);
                // Internal work is nobody's call: what went wrong is said plainly.
                let mut result =
                    if started.spawn.internal { end.error.clone() } else { tool.map_or_else(String::new, |tool| tool.ended(&end)) };
                let notice = tool.map_or_else(String::new, |tool| tool.noticed(&end)).into();
                if let Some(hooked) = hooked.filter(|_| !desk.outfit.hooks.is_empty()) {
                    let succeeded = matches!(end.how, How::Completed | How::Limit);
                    let outcome = if succeeded { Outcome::done(result) } else { Outcome::failed(result) };
                    result = text_of(&desk.after(hooked, outcome).await);
                }
                let report = TaskReport {
                    task,
                    round,
                    how: end.how,
                    result: result.into(),
                    notice,
                    said: end.texts.join("\n\n").into(),
                    awaited: Vec::new(),
                    verbatim: Text::default(),
                    too_long: false,
                    usage: end.usage,
                    effort: end.effort,
                    left: end.left.clone(),
                };
                Told { report: Report::TaskEnded(Box::new(report)), end: Some(Box::new(end)) }
            })
        })
    }

    /// Sends a task to the background when it has run for long enough. Time in a queue is not time it ran.
    async fn detach_in_time(&self, tree: &Arc<Tree>, task: &SessionId) -> Infallible {
        if let Some(after) = self.outfit.detach_after {
            let began = tree.has_begun(task).await;
            tokio::time::sleep_until(began + after).await;
            let _ = self.mail.send(wish(Command::Detach { task: task.clone(), launched: Outcome::done("") })).await;
        }
        std::future::pending().await
    }

    /// The tool that words what comes of a task.
    pub(crate) fn tool_of(&self, spawn: &Spawn) -> Option<&Arc<dyn Tool>> {
        self.outfit.tools.iter().find(|tool| tool.spec().name == spawn.tool).or_else(|| self.outfit.tools.first())
    }

    /// Removes the worktree of a task that has changed nothing in it.
    pub(crate) fn release(self, tree: Arc<Tree>, task: SessionId) -> Work {
        self.start(EffectKey::Release(task.clone()), move |_, _| {
            Box::pin(async move {
                let (removed, words) = match tree.release(&task).await {
                    Ok(removed) => (removed, String::new()),
                    Err(words) => (false, words),
                };
                Report::Released { task, removed, words }
            })
        })
    }

    /// Sees what a call had left running to its end.
    pub(crate) fn mind(self, call: CallId, over: BoxFuture<'static, Option<String>>) -> Work {
        self.start(EffectKey::Mind(call.clone()), move |_, _| {
            Box::pin(async move { Report::KeptEnded { call, words: over.await.map(Text::from) } })
        })
    }

    /// A call as hooks see it.
    pub(crate) fn hooked(&self, call: &CallId, wanted: &CallInput) -> HookedCall {
        let input = parse(&wanted.input).unwrap_or_default();
        HookedCall { session: self.session.clone(), call: call.clone(), tool: wanted.tool.clone(), input }
    }

    /// Tells a task to stop, as soon as there is somebody to tell. Owed until its end is known, so it never reports.
    pub(crate) fn stop_task(self, tree: Arc<Tree>, task: SessionId, round: u64, by: By, hold: Hold) -> Work {
        self.start(EffectKey::StopTask(task.clone(), round), move |_, _| {
            Box::pin(async move {
                loop {
                    if let Some(route) = tree.route(&task) {
                        let interrupt = Command::Interrupt { by, hold, partial: Text::default() };
                        // It may not have heard its prompt yet, and then there is nothing to stop: so it is told again.
                        let _ = route.mail.send(wish(interrupt)).await;
                    }
                    tokio::time::sleep(STOP_AGAIN).await;
                }
            })
        })
    }

    /// What typed words come to; first of all the calls they need.
    pub(crate) fn expand(self, typed: Typed) -> Work {
        self.start(EffectKey::Expand(typed.entry.clone()), move |desk, _| Box::pin(async move { desk.expanded(typed) }))
    }

    fn expanded(&self, typed: Typed) -> Report {
        let Typed { entry, parts, voice, results } = typed;
        let text = typed_text(&parts);
        let Some(expander) = &self.outfit.expander else {
            return Report::Expanded { entry, parts, agent: None, model: None, allowed: Vec::new() };
        };
        let Expansion { calls, agent, model, allowed, assemble } = expander.expand(&text, &voice);
        // A torn append may have lost some of the calls: only those are wanted again.
        if results.len() < calls.len() {
            let calls = calls.into_iter().skip(results.len()).map(|needed| self.needed(needed)).collect();
            return Report::Expanding { entry, calls };
        }
        let results: Vec<Outcome> = results.into_iter().map(|result| result.unwrap_or_else(|| Outcome::failed("it never ended"))).collect();
        let mut said = assemble(&results);
        // Only the first part was typed; what came by a pipe stays what it is.
        said.extend(parts.into_iter().skip(1));
        Report::Expanded { entry, parts: said, agent, model, allowed }
    }

    fn needed(&self, needed: Needed) -> Wanted {
        let Needed { tool, input, consented } = needed;
        let look = self.outfit.any_tool(&tool).and_then(|tool| tool.look(&input, &*self.outfit.workspace));
        let input = input.to_string().into();
        Wanted { call: CallId::fresh(&*self.ids), wire_id: String::new(), tool, input, look, consented }
    }

    /// `own`: the kernel's call, which may use what the model is not offered.
    pub(crate) fn run_call(self, call: CallId, wanted: CallInput, answer: Option<String>, own: bool) -> Work {
        self.start(EffectKey::Run(call.clone()), move |desk, stop| {
            Box::pin(async move {
                let tool = if own { desk.outfit.any_tool(&wanted.tool) } else { desk.outfit.tool(&wanted.tool) };
                let outcome = match (tool.cloned(), parse(&wanted.input)) {
                    (Err(words), _) | (_, Err(words)) => Outcome::failed(words),
                    (Ok(tool), Ok(input)) => {
                        let context = ToolContext {
                            session: desk.session.clone(),
                            workspace: desk.outfit.workspace.clone(),
                            live: desk.live.clone(),
                            stop,
                            delegate: Arc::new(Delegating::new(&desk)),
                            spool: desk.outfit.spool.clone(),
                            memory: desk.memory.clone(),
                        };
                        let run = ToolCall { id: call.clone(), input: input.clone(), answer };
                        // The after-hooks see a crash too.
                        let mut inner = Inner(tokio::spawn(async move { tool.run(&run, &context).await }));
                        let outcome = (&mut inner.0).await.unwrap_or_else(|_| Outcome::failed(CRASHED));
                        desk.after(
                            HookedCall { session: desk.session.clone(), call: call.clone(), tool: wanted.tool.clone(), input },
                            outcome,
                        )
                        .await
                    }
                };
                Report::CallFinished { call, outcome }
            })
        })
    }

    async fn after(&self, call: HookedCall, mut outcome: Outcome) -> Outcome {
        for hook in &self.outfit.hooks {
            let before = outcome.clone();
            outcome = tokio::time::timeout(HOOK_MAX, hook.after_call(&call, outcome)).await.unwrap_or(before);
        }
        outcome
    }
}

/// The input as an object. Some models send the object as a string of JSON; that is meant well.
pub(crate) fn parse(input: &str) -> Result<Value, String> {
    let wrong = |found: &str| {
        format!("The input of this call is not a JSON object: {found}. The call was not run; send it again with a valid object.")
    };
    match serde_json::from_str(input) {
        Ok(Value::Object(fields)) => Ok(Value::Object(fields)),
        Ok(Value::String(inner)) => match serde_json::from_str(&inner) {
            Ok(Value::Object(fields)) => Ok(Value::Object(fields)),
            _ => Err(wrong("it is a string")),
        },
        Ok(other) => Err(wrong(&format!("found {other}"))),
        Err(error) => Err(wrong(&error.to_string())),
    }
}

/// The limit cuts what is written last. A call that was cut is never run, and the model hears why.
fn tell_of_cut(calls: &mut [Wanted], output_max: u64) {
    if let Some(last) = calls.last_mut().filter(|last| last.input.inline().is_some_and(|input| parse(input).is_err())) {
        last.look = Err(format!(
            "The answer was cut off at its limit of {output_max} output tokens in the middle of this call, so it was not run. \
             Make it smaller: write the file in several parts, or do it in several calls."
        ));
    }
}

const CRASHED: &str = "The tool crashed; this is a bug of posse. What it had done so far is unknown: look before you go on.";

/// What is said of work that ended without a word of its own.
fn broken(key: &EffectKey) -> Report {
    let words = "something in posse itself broke while this ran; please report it".to_owned();
    match key {
        EffectKey::Model(step) => Report::ModelFailed {
            step: *step,
            failure: ModelFailure::BadRequest,
            words,
            retry_after: None,
            partial: Text::default(),
            usage: Usage::default(),
        },
        EffectKey::Look(call) => Report::Looked { call: call.clone(), input: Text::default(), look: Err(words), by: String::new() },
        EffectKey::Run(call) => Report::CallFinished { call: call.clone(), outcome: Outcome::failed(CRASHED) },
        EffectKey::Watch(task, round) | EffectKey::StopTask(task, round) => Report::TaskEnded(Box::new(TaskReport {
            task: task.clone(),
            round: *round,
            how: How::Failed,
            result: words.clone().into(),
            notice: format!("[task {task} failed] {words}").into(),
            said: Text::default(),
            awaited: Vec::new(),
            verbatim: Text::default(),
            too_long: false,
            usage: Usage::default(),
            effort: Effort::default(),
            left: None,
        })),
        EffectKey::Release(task) => Report::Released { task: task.clone(), removed: false, words },
        EffectKey::Mind(call) => Report::KeptEnded { call: call.clone(), words: Some(words.into()) },
        EffectKey::Expand(entry) => Report::Expanded {
            entry: entry.clone(),
            parts: vec![Part::reminder(format!("What the user typed could not be read: {words}"))],
            agent: None,
            model: None,
            allowed: Vec::new(),
        },
        // Nothing runs for them: their facts are their end.
        EffectKey::Subtask(_) | EffectKey::Compact | EffectKey::Conclude(_) => {
            Report::CallFinished { call: CallId::new(""), outcome: Outcome::failed(words) }
        }
    }
}

/// A task aborted with the work around it.
struct Inner<T>(JoinHandle<T>);

impl<T> Drop for Inner<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The words of an outcome.
fn text_of(outcome: &Outcome) -> String {
    let text = match outcome {
        Outcome::Done { output: text, .. } | Outcome::Failed { error: text } | Outcome::Denied { why: text } => text,
        Outcome::Cancelled { partial: text } | Outcome::Lost { partial: text } => text,
    };
    text.inline().unwrap_or_default().to_owned()
}

/// What a watch is about.
pub(crate) struct Watched {
    pub(crate) tree: Arc<Tree>,
    pub(crate) task: SessionId,
    pub(crate) round: u64,
    pub(crate) started: Started,
}

/// The lane learns how its provider bears up.
fn give_back(slot: Slot, attempt: &Result<Result<Reply, ModelError>, tokio::time::error::Elapsed>) {
    match attempt {
        Ok(Ok(_)) => slot.succeeded(),
        Ok(Err(error)) if matches!(error.failure, ModelFailure::RateLimited | ModelFailure::Overloaded) => {
            slot.overloaded(error.retry_after);
        }
        _ => drop(slot),
    }
}

/// What a task of this session is born with, made when it is needed: after a restart it may exist already.
pub(crate) struct TaskBirth {
    pub(crate) parent: Birth,
    pub(crate) parent_id: SessionId,
    pub(crate) ceiling: Vec<Rules>,
    pub(crate) strict_shell: bool,
    pub(crate) spawn: Spawn,
    /// Who speaks right now: what a fork goes on as.
    pub(crate) recipe: Recipe,
}

impl TaskBirth {
    /// Makes the folder that it is to work in too, if there is to be one.
    pub(crate) async fn make(&self, outfits: &dyn Outfits, task: &SessionId) -> Result<Birth, String> {
        let spawn = &self.spawn;
        let (kind, title, recipe) = match (&spawn.purpose, &spawn.fork) {
            (Some(purpose), Some(fork)) => return Ok(self.internal(purpose, fork)),
            (None, Some(fork)) => {
                let recipe = Recipe { model: fork.model.clone(), background: false, ..self.recipe.clone() };
                (Kind::Fork, format!("{} (@{FORK} subagent)", spawn.description), Recipe { agent: FORK.to_owned(), ..recipe })
            }
            (_, None) => {
                let recipe = outfits.recipe(&self.parent.recipe, &spawn.agent, spawn.model.as_deref())?;
                let kind = if spawn.internal { Kind::Internal } else { Kind::Task };
                (kind, format!("{} (@{} subagent)", spawn.description, recipe.agent), recipe)
            }
        };
        let directory = spawn.directory.clone().unwrap_or_else(|| self.parent.directory.clone());
        let (worktree, directory) = match spawn.isolation {
            Some(isolation) => {
                let (worktree, directory) = outfits.make_worktree(task, &directory, isolation, &title).await?;
                (Some(worktree), directory)
            }
            None => (None, directory),
        };
        Ok(Birth {
            kind,
            root: self.parent.root.clone(),
            parent: Some(self.parent_id.clone()),
            directory,
            title,
            recipe,
            ceiling: self.ceiling.clone(),
            depth: self.parent.depth + 1,
            strict_shell: self.strict_shell,
            within: self.within().filter(|_| worktree.is_none()),
            worktree,
        })
    }
}

impl TaskBirth {
    /// The worktree in which its caller works, whosever it is.
    fn within(&self) -> Option<String> {
        self.parent.worktree.as_ref().map(|worktree| worktree.path.clone()).or_else(|| self.parent.within.clone())
    }

    /// Internal work goes on as the one whose conversation it begins with, and calls nothing.
    fn internal(&self, purpose: &Purpose, fork: &Fork) -> Birth {
        let recipe = Recipe {
            agent: purpose.agent().to_owned(),
            model: fork.model.clone(),
            steps_max: purpose.takes_notes().then_some(NOTES_STEPS_MAX),
            background: false,
            definition: self.parent.recipe.definition.clone(),
            only_answers: !purpose.takes_notes(),
            isolation: None,
        };
        Birth {
            kind: Kind::Internal,
            root: self.parent.root.clone(),
            parent: Some(self.parent_id.clone()),
            directory: self.parent.directory.clone(),
            title: self.spawn.description.clone(),
            recipe,
            ceiling: self.ceiling.clone(),
            depth: self.parent.depth + 1,
            strict_shell: self.strict_shell,
            worktree: None,
            within: self.within(),
        }
    }
}

struct StopFlag(watch::Receiver<bool>);

impl Stop for StopFlag {
    fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        let mut flag = self.0.clone();
        Box::pin(async move {
            if flag.wait_for(|stopped| *stopped).await.is_err() {
                // The run is gone and this task with it; until then there is nothing to wait for.
                std::future::pending::<()>().await;
            }
        })
    }
}
