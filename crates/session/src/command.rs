//! Wishes and reports (in), effects (out), and what a decision is given.
//!
//! A wish is imperative, a fact is past tense, and they are different types: `decide.rs` turns the one into the other.

use crate::{
    entry::Entry,
    event::{Event, Hold, Segment},
    grant::{Grant, Granted},
    ids::{AskId, CallId, EntryId, Hash, Ids, Seq, SessionId, Timestamp},
    limit::Limit,
    outcome::{Answer, By, How, Outcome},
    part::Part,
    rule::{Rules, Touch, needs_a_person},
    seams::{Finish, Look, ModelFailure},
    task::{Effort, Spawn},
    text::Text,
    usage::Usage,
    worktree::Left,
};

/// What somebody asks of a session, or reports to it.
#[derive(Debug, Clone)]
pub enum Command {
    /// The first fact: an `Event::Created`. Nothing if the session exists.
    Create(Box<Event>),
    /// What requests are made of; takes effect between turns only.
    Configure {
        head: Hash,
        model: String,
    },
    Say(Entry),
    Answer {
        ask: AskId,
        answer: Answer,
        by: By,
    },
    /// Ends the turn. `partial` is what the model had said so far.
    Interrupt {
        by: By,
        hold: Hold,
        partial: Text,
    },
    Resume {
        by: By,
    },
    /// The first thing an owner says after folding a log it did not write.
    TakeOver,
    /// Calls that the owner before had judged and not started, looked at anew: today's rules count.
    Rejudge {
        looks: Vec<(CallId, Look)>,
    },
    /// A person has answered elsewhere for more than one session: asks that this covers are settled.
    Covered,
    /// The next step cannot be: whoever was to speak cannot be made ready.
    Refuse {
        step: u64,
        words: String,
    },
    /// The kernel's own reply: the next agent that the user ran directly is called. What is due goes with it.
    Subtask {
        step: u64,
        author: String,
        wanted: Box<Wanted>,
        notes: Vec<Part>,
    },
    /// A limit of the tree is used up and the turn ends here.
    Limit {
        limit: Limit,
        words: String,
        partial: Text,
        /// The limit of this agent alone.
        own: bool,
    },
    /// A running call starts a child.
    Spawn {
        call: CallId,
        task: SessionId,
        /// The child's: 1 for a new one, the next of one that goes on.
        round: u64,
        spawn: Box<Spawn>,
        /// The outcome of the call, if it does not wait.
        launched: Option<Outcome>,
    },
    /// A foreground task goes on in the background, and this is what its call comes to.
    Detach {
        task: SessionId,
        launched: Outcome,
    },
    /// A running call waits for a task that runs in the background.
    Await {
        call: CallId,
        task: SessionId,
        until: Option<Timestamp>,
    },
    /// A call has waited long enough for a task that goes on.
    Lapse {
        call: CallId,
        outcome: Outcome,
    },
    /// Words for a task that has ended: it works again.
    Wake {
        task: SessionId,
        round: u64,
        spawn: Box<Spawn>,
    },
    /// The model has read how this task ended: it needs no notice any more.
    Noticed {
        task: SessionId,
    },
    /// Something of a running call goes on after it.
    Keep {
        call: CallId,
        title: String,
    },
    /// The process leaves: the step in flight is dropped and stays owed.
    PutDown,
    /// Another model answers, or the session's own again.
    ChangeModel {
        model: Option<String>,
        why: String,
    },
    StopTask {
        task: SessionId,
        by: By,
    },
    /// An internal session sums the conversation up. `took` is the entry that asked for it.
    Compact {
        task: SessionId,
        spawn: Box<Spawn>,
        took: Option<EntryId>,
    },
    /// A question beside the conversation. What it begins with only a run knows, which makes an `Advise` of it.
    Side {
        task: SessionId,
        question: String,
        model: Option<String>,
    },
    /// Internal work beside the conversation.
    Advise {
        task: SessionId,
        spawn: Box<Spawn>,
    },
    /// What calls printed up to here is left out from now on.
    Prune {
        to: Seq,
    },
    /// The conversation cannot be made shorter.
    LeaveUncompacted {
        why: String,
        took: Option<EntryId>,
    },
    /// It is called so from now on.
    Retitle {
        title: String,
    },
    /// The session begins with a conversation of others.
    Fork {
        segments: Vec<Segment>,
    },
    /// Takes back what an answer allowed for longer than one call.
    Revoke {
        ask: AskId,
        by: By,
    },
    /// The user brought home what a task had changed, or threw it away.
    BringHome {
        task: SessionId,
        paths: Vec<String>,
        onto: String,
        discarded: bool,
    },
    /// The files these calls had changed are as they were before.
    Undone {
        calls: Vec<CallId>,
        paths: Vec<String>,
    },
    Report(Report),
}

/// What the outside world says of work it was owed. A report nobody waits for is nothing.
#[derive(Debug, Clone)]
pub enum Report {
    Reply {
        step: u64,
        parts: Vec<Part>,
        calls: Vec<Wanted>,
        usage: Usage,
        finish: Finish,
        /// What is wrong with the shape of an answer, where one was asked for.
        misshapen: Option<String>,
    },
    ModelFailed {
        step: u64,
        failure: ModelFailure,
        words: String,
        retry_after: Option<std::time::Duration>,
        partial: Text,
        usage: Usage,
    },
    Looked {
        call: CallId,
        input: Text,
        look: Result<Look, String>,
        by: String,
    },
    CallFinished {
        call: CallId,
        outcome: Outcome,
    },
    TaskEnded(Box<TaskReport>),
    /// The worktree of a task was removed, or why it was not.
    Released {
        task: SessionId,
        removed: bool,
        words: String,
    },
    /// What a call had left running is over; without words there is nothing to say.
    KeptEnded {
        call: CallId,
        words: Option<Text>,
    },
    /// What an entry's words come to needs these calls first.
    Expanding {
        entry: EntryId,
        calls: Vec<Wanted>,
    },
    /// What an entry's words come to.
    Expanded {
        entry: EntryId,
        parts: Vec<Part>,
        agent: Option<String>,
        model: Option<String>,
        allowed: Vec<Grant>,
    },
}

/// The end of a task's round.
#[derive(Debug, Clone)]
pub struct TaskReport {
    pub task: SessionId,
    pub round: u64,
    pub how: How,
    /// As the call that started it reads it.
    pub result: Text,
    /// As a notice.
    pub notice: Text,
    /// What the task itself said.
    pub said: Text,
    /// As calls read it that wait for it and did not start it.
    pub awaited: Vec<(CallId, Text)>,
    /// Of a summary: what users said in that part, as they said it.
    pub verbatim: Text,
    /// Of a summary: the provider found what was to be summed up too long.
    pub too_long: bool,
    pub usage: Usage,
    pub effort: Effort,
    /// What is left in its worktree, if it has one.
    pub left: Option<Left>,
}

/// A call the model asked for, with the look at it; `Err` is why it cannot run.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub call: CallId,
    pub wire_id: String,
    pub tool: String,
    pub input: Text,
    pub look: Result<Look, String>,
    /// The user asked for just this: nobody is asked again.
    pub consented: bool,
}

impl Wanted {
    pub(crate) fn touches(&self) -> Vec<Touch> {
        self.look.as_ref().map(|look| look.touches.clone()).unwrap_or_default()
    }
}

/// Who can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asking {
    /// Somebody may answer, now or later.
    Open,
    /// Nobody: every ask is refused at once, by policy.
    Nobody,
}

/// Which asks are answered for the user. A deny stands, and so does what needs a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    #[default]
    Default,
    /// Edits inside the project need no ask.
    AcceptEdits,
    /// Nothing needs an ask.
    Bypass,
}

impl Mode {
    /// Whether it says yes to this.
    pub(crate) fn answers(self, key: &str) -> bool {
        match self {
            Self::Default => false,
            Self::AcceptEdits => key == "edit",
            Self::Bypass => !needs_a_person(key),
        }
    }
}

/// Time, chance, names and rules: everything a decision may depend on besides the session.
pub struct Given<'a> {
    pub now: Timestamp,
    pub ids: &'a dyn Ids,
    /// In 0..1, for jitter.
    pub chance: f64,
    pub rules: &'a Rules,
    /// Lists judged whole beside the rules and the recorded ceiling: the strictest counts.
    pub ceiling: &'a [Rules],
    pub asking: Asking,
    pub mode: Mode,
    /// An agent that only looks: what its shell would ask about is denied.
    pub strict_shell: bool,
    /// What a person allowed for the tree or the project, in whichever session.
    pub grants: &'a [Granted],
    /// Whether a hook wants to look at calls before their verdict.
    pub looks: bool,
    /// Models that answer, in this order, when the session's own is overloaded.
    pub fallbacks: &'a [String],
    /// A conversation that is too long is summed up.
    pub compacts: bool,
    /// What the step in flight has used so far, counted or by estimate: spent, if it is dropped now.
    pub in_flight: Usage,
}

impl<'a> Given<'a> {
    /// For facts that nobody judges: nothing runs, nothing is looked at, nobody is refused.
    pub fn apart(now: Timestamp, ids: &'a dyn Ids, rules: &'a Rules) -> Self {
        Self {
            now,
            ids,
            chance: 0.0,
            rules,
            ceiling: &[],
            asking: Asking::Open,
            mode: Mode::Default,
            strict_shell: false,
            grants: &[],
            looks: false,
            fallbacks: &[],
            compacts: false,
            in_flight: Usage::default(),
        }
    }
}

/// Work that should be going on, begun or not. Level-triggered: owed until its fact is in the log.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Call the model; not before a time if the last attempt failed.
    CallModel {
        step: u64,
        not_before: Option<Timestamp>,
    },
    /// Find out what the typed words of an entry come to.
    Expand {
        entry: EntryId,
    },
    /// Call the next agent that the user ran directly.
    Subtask {
        step: u64,
    },
    /// Make the conversation shorter: the provider or this entry wants it.
    Compact {
        entry: Option<EntryId>,
    },
    /// Ask the hooks about a call.
    Look {
        call: CallId,
    },
    RunCall {
        call: CallId,
    },
    /// See that a child exists and runs, and report its end.
    Watch {
        task: SessionId,
        round: u64,
    },
    /// Tell a child to stop.
    StopTask {
        task: SessionId,
        round: u64,
    },
    /// See what a call had left running to its end.
    Mind {
        call: CallId,
    },
    /// Remove the worktree of a task, in which nothing was changed.
    Release {
        task: SessionId,
    },
    /// Record the end of the round; done as soon as begun.
    Conclude {
        round: u64,
    },
}

/// What an effect is recognised by: the same key is the same work.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum EffectKey {
    Model(u64),
    Expand(EntryId),
    Subtask(u64),
    Compact,
    Look(CallId),
    Run(CallId),
    Watch(SessionId, u64),
    StopTask(SessionId, u64),
    Mind(CallId),
    Release(SessionId),
    Conclude(u64),
}

impl Effect {
    pub fn key(&self) -> EffectKey {
        match self {
            Self::CallModel { step, .. } => EffectKey::Model(*step),
            Self::Expand { entry } => EffectKey::Expand(entry.clone()),
            Self::Subtask { step } => EffectKey::Subtask(*step),
            Self::Compact { .. } => EffectKey::Compact,
            Self::Look { call } => EffectKey::Look(call.clone()),
            Self::RunCall { call } => EffectKey::Run(call.clone()),
            Self::Watch { task, round } => EffectKey::Watch(task.clone(), *round),
            Self::StopTask { task, round } => EffectKey::StopTask(task.clone(), *round),
            Self::Release { task } => EffectKey::Release(task.clone()),
            Self::Mind { call } => EffectKey::Mind(call.clone()),
            Self::Conclude { round } => EffectKey::Conclude(*round),
        }
    }
}
