//! Events: the settled facts a log holds. Past tense, small, never a delta, never a copy of what the log already says.
//!
//! Old logs fold for ever: fields are added with defaults, a new meaning is a new name, and an event this version does
//! not know is kept as [`Event::Unknown`]. How facts change a session is in `apply.rs`; which facts a wish becomes, in
//! `decide.rs`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    entry::Entry,
    grant::Grant,
    ids::{AskId, BatchId, CallId, EntryId, Hash, Seq, SessionId, Timestamp},
    limit::Limit,
    outcome::{Answer, By, How, Outcome},
    part::Part,
    rule::{Decision, Rules, Touch},
    seams::{Finish, ModelFailure},
    task::{Effort, Isolation, Purpose, Spawn, To},
    text::Text,
    usage::Usage,
    worktree::{Left, Worktree},
};

/// An event at its place in a log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub seq: Seq,
    pub at: Timestamp,
    pub batch: BatchId,
    pub event: Event,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Root,
    Task,
    Fork,
    Internal,
    Teammate,
}

impl Kind {
    /// What was delegated: another agent's session was started for it.
    pub fn is_task(self) -> bool {
        matches!(self, Self::Task | Self::Fork | Self::Teammate)
    }

    /// Split off from a reply, before any of its calls has a result.
    pub fn is_fork(self) -> bool {
        self == Self::Fork
    }
}

/// An agent's definition as recorded when its session was created.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Recipe {
    pub agent: String,
    /// `provider/model`.
    #[serde(default)]
    pub model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps_max: Option<u64>,
    /// Whoever calls it does not wait for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// The whole definition, as JSON text: a session keeps it, whatever the files say later.
    #[serde(default, skip_serializing_if = "Text::is_blank")]
    pub definition: Text,
    /// It calls no tools, though they are part of its head.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_answers: bool,
    /// It works in a folder of its own, where its caller does not say otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
}

/// A stretch of a log that is part of a transcript: records with `from < seq <= to`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Segment {
    pub session: SessionId,
    pub from: Seq,
    pub to: Seq,
    /// What calls printed there is left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pruned: bool,
}

/// What the ledger set aside for a step in flight.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Reserved {
    pub tokens: u64,
    pub cost_usd: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The first fact of every log.
    Created {
        kind: Kind,
        root: SessionId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<SessionId>,
        directory: String,
        title: String,
        recipe: Recipe,
        /// Every ancestor's complete ordered rules.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ceiling: Vec<Rules>,
        /// The same as JSON text: there may be more of them than an event holds.
        #[serde(default, skip_serializing_if = "Text::is_blank")]
        above: Text,
        /// How many ancestors it has.
        #[serde(default, skip_serializing_if = "is_zero")]
        depth: u64,
        /// An ancestor only looks: what the shell would ask about is denied.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        strict_shell: bool,
        /// The folder of its own in which it works, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worktree: Option<Worktree>,
        /// The worktree of another in which it works, if it has none of its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within: Option<String>,
    },
    /// What requests are made of from here on: the blob of a `Head`, and the model it is for.
    Configured {
        head: Hash,
        model: String,
    },
    Queued {
        entry: Entry,
    },
    /// What an entry's words come to needs the results of these calls first: `calls` facts `Called` follow.
    Expanding {
        entry: EntryId,
        calls: u64,
    },
    /// What the typed words of an entry come to, and what that means for the turn they begin.
    Expanded {
        entry: EntryId,
        parts: Vec<Part>,
        /// Who answers this turn, and on which model, if not the session's own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// What the user allowed for this turn by saying it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        allowed: Vec<Grant>,
    },
    /// Entries left the queue and the model is called with what the log holds up to here.
    StepStarted {
        step: u64,
        took: Vec<EntryId>,
        #[serde(default)]
        reserved: Reserved,
        /// The last step at a limit: the model must not call tools.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        closing: bool,
        /// What hooks and the kernel add to this step's message.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notes: Vec<Part>,
    },
    /// The model's whole answer; `calls` facts `Called` follow in the same append.
    Replied {
        step: u64,
        parts: Vec<Part>,
        calls: u64,
        usage: Usage,
        finish: Finish,
        /// Said by the kernel in the name of this agent, not by a model: what the user ran directly.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        author: Option<String>,
    },
    /// One call of the reply before it. `input` is JSON text as the model wrote it; the provider's id goes back to it.
    Called {
        call: CallId,
        tool: String,
        input: Text,
        wire_id: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        touches: Vec<Touch>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repeatable: bool,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        title: String,
        /// Absent while a look is owed, or when the call cannot run at all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decision: Option<Decision>,
        /// The user asked for just this: nobody is asked again.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        consented: bool,
    },
    /// There is no answer to this step. With `retry_at` it is tried again then, else the turn is over.
    StepFailed {
        step: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<ModelFailure>,
        error: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_at: Option<Timestamp>,
        /// What had been shown. Part of the conversation only where the turn ended by it.
        #[serde(default)]
        partial: Text,
        #[serde(default)]
        usage: Usage,
    },
    /// A hook looked at a call; this is what will run, and what it touches.
    Looked {
        call: CallId,
        input: Text,
        touches: Vec<Touch>,
        by: String,
        decision: Decision,
    },
    Asked {
        ask: AskId,
        call: CallId,
        decision: Decision,
    },
    Answered {
        ask: AskId,
        call: CallId,
        answer: Answer,
        by: By,
    },
    CallStarted {
        call: CallId,
        attempt: u32,
    },
    CallFinished {
        call: CallId,
        outcome: Outcome,
    },
    /// The turn was ended from outside: the model stream is dropped, calls are stopped.
    Interrupted {
        by: By,
        hold: Hold,
    },
    /// Someone lifted the hold.
    Resumed {
        by: By,
    },
    /// A new owner found work of a lost one. What only reads may run again; the rest is said to be lost.
    TookOver {
        calls: u64,
        /// What the step of the lost owner may have been billed, by estimate: its input was sent, its answer is unknown.
        #[serde(default, skip_serializing_if = "Usage::is_nothing")]
        usage: Usage,
    },
    LimitReached {
        limit: Limit,
        words: String,
        /// The limit of this agent alone, not of its tree.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        own: bool,
    },
    /// A child was promised; its id and its first words are in here, so that it can always be made.
    TaskStarted {
        call: CallId,
        task: SessionId,
        round: u64,
        spawn: Spawn,
        wait: bool,
    },
    TaskEnded {
        task: SessionId,
        round: u64,
        how: How,
        result: Text,
        usage: Usage,
        to: To,
        #[serde(default, skip_serializing_if = "Effort::is_unknown")]
        effort: Effort,
    },
    /// What a task has left in its worktree, now that a round of it is over. A clean one is owed to be removed.
    WorktreeLeft {
        task: SessionId,
        left: Left,
    },
    /// The worktree of a task is gone, or why it stays.
    Released {
        task: SessionId,
        removed: bool,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        words: String,
    },
    /// The user brought home what a task had changed in its worktree, or threw it away.
    BroughtHome {
        task: SessionId,
        /// The files that changed here.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        paths: Vec<String>,
        /// So many more changed than an event has room to name.
        #[serde(default, skip_serializing_if = "is_zero")]
        more: u64,
        /// The branch it went to, if it did not go into the folder.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        onto: String,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        discarded: bool,
    },
    /// What internal work came to, for whoever looks at the session; the model hears nothing of it.
    Advised {
        advice: Purpose,
        text: Text,
    },
    /// Words reached a task that had ended: it works again, in the background.
    TaskResumed {
        task: SessionId,
        round: u64,
        spawn: Spawn,
    },
    /// A call waits for a task that runs in the background, until then at most: its end is that call's result.
    TaskAwaited {
        task: SessionId,
        call: CallId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
    /// An entry left the queue unsaid: the model has read it otherwise.
    Unqueued {
        entry: EntryId,
    },
    /// Something of a call goes on after the call has ended.
    Kept {
        call: CallId,
        title: String,
    },
    /// What a call had left running is over; `entry` is the notice, if there is something to say.
    KeptEnded {
        call: CallId,
        #[serde(default, skip_serializing_if = "Text::is_blank")]
        words: Text,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        entry: Option<EntryId>,
    },
    /// Another model answers from here on, or the session's own again.
    ModelChanged {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        why: String,
    },
    /// A foreground task goes on in the background; its call is answered.
    Detached {
        task: SessionId,
    },
    /// The task was told to stop; until its end is known it is owed.
    TaskStopped {
        task: SessionId,
        by: By,
        /// How it is held then; absent in older logs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hold: Option<Hold>,
    },
    /// This session's round is over and its subtree with it. The result is the text of `reply`, if there is one.
    Ended {
        round: u64,
        how: How,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply: Option<Seq>,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        error: String,
        usage: Usage,
    },
    /// The transcript now begins with these stretches of other logs.
    Forked {
        segments: Vec<Segment>,
    },
    /// Everything before `tail_from` is now said by the summary.
    Compacted {
        summary: Text,
        tail_from: Seq,
        /// What users said there, as they said it.
        #[serde(default, skip_serializing_if = "Text::is_blank")]
        verbatim: Text,
    },
    /// What calls printed up to here is no longer shown to the model.
    Pruned {
        to: Seq,
    },
    /// The conversation stays as long as it is.
    CompactionFailed {
        why: String,
        /// What was to be summed up was itself too long: less of it is tried next.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        smaller: bool,
    },
    /// The session is called so from now on.
    Titled {
        title: String,
    },
    /// The answer did not have the shape that was asked for. It is asked for once more, or the turn has failed.
    Misshapen {
        words: String,
        again: bool,
    },
    /// Everything after `to` is no longer part of the transcript.
    Reverted {
        to: Seq,
    },
    /// What this answer allowed for longer than one call counts no more.
    Revoked {
        ask: AskId,
        by: By,
    },
    /// The user undid what these calls had changed: the files are as they were before. The next step says so.
    Undone {
        calls: Vec<CallId>,
        paths: Vec<String>,
    },
    /// A fact of a later version, kept as it came.
    #[serde(untagged)]
    Unknown(Value),
}

/// Why a session with due entries does not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// Esc: only an entry newer than the hold wakes it.
    Esc,
    /// A message wakes it.
    StoppedByModel,
    /// Only the user wakes it.
    StoppedByUser,
    /// The model fails for good: somebody's words, or a resume.
    ModelError,
    /// Three owners died on it without progress: somebody's words, or a resume.
    TakeOvers,
    /// A limit ended the turn: somebody's words, or a resume.
    Limit,
}

impl Event {
    /// Whether this version may append to a log that holds this event.
    pub fn is_understood(&self) -> bool {
        match self {
            Self::Unknown(value) => value["ignorable"] == Value::Bool(true),
            _ => true,
        }
    }

    /// The name in the log.
    pub fn name(&self) -> String {
        match serde_json::to_value(self) {
            Ok(Value::Object(fields)) => fields.get("type").and_then(Value::as_str).unwrap_or("unknown").to_owned(),
            _ => "unknown".to_owned(),
        }
    }

    /// Every text that may be long enough to leave the event for a blob.
    pub fn texts_mut(&mut self) -> Vec<&mut Text> {
        match self {
            Self::Created { recipe, above, .. } => vec![&mut recipe.definition, above],
            Self::Queued { entry } => entry.parts.iter_mut().flat_map(Part::texts_mut).collect(),
            Self::StepStarted { notes: parts, .. } | Self::Replied { parts, .. } | Self::Expanded { parts, .. } => {
                parts.iter_mut().flat_map(Part::texts_mut).collect()
            }
            Self::Called { input: text, .. }
            | Self::Looked { input: text, .. }
            | Self::StepFailed { partial: text, .. }
            | Self::TaskEnded { result: text, .. }
            | Self::Advised { text, .. }
            | Self::KeptEnded { words: text, .. } => vec![text],
            Self::Compacted { summary, verbatim, .. } => vec![summary, verbatim],
            Self::TaskStarted { spawn, .. } | Self::TaskResumed { spawn, .. } => vec![&mut spawn.prompt],
            Self::CallFinished { outcome, .. } => outcome.texts_mut(),
            _ => Vec::new(),
        }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
