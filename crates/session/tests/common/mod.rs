//! What the tests of the core share: ids that count, one set of rules, one event of every kind.
//!
//! Each test file uses its own part of this, so what one of them leaves alone is not dead.
#![allow(dead_code, unreachable_pub, unused_imports)]

pub mod dice;
pub mod play;

pub use dice::Dice;

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU64, Ordering},
};

use posse_session::{
    Answer, AskId, BatchId, By, CallId, Decision, Delivery, Effort, Entry, EntryId, Event, Finish, Fork, Grant, Hash, Hold, How, Ids,
    Isolation, Kind, Left, Limit, Look, ModelFailure, Outcome, Part, Priority, Purpose, Recipe, Record, Reserved, Rule, Rules, Scope,
    Segment, SessionId, Source, Spawn, Text, Timestamp, To, Touch, Usage, Verdict, Wanted, Worktree,
};

/// Fresh ids in the order they are asked for: `ask_1`, `msg_2`.
#[derive(Default)]
pub struct Counter(pub AtomicU64);

impl Ids for Counter {
    fn fresh(&self, prefix: &str) -> String {
        format!("{prefix}{}", self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

pub fn rule(key: &str, pattern: &str, action: Verdict) -> Rule {
    Rule { key: key.into(), pattern: pattern.into(), action, origin: String::new() }
}

/// Tools named `ask` and `deny` are what they are called, a repeated call asks, the rest is allowed.
pub fn rules() -> Rules {
    use Verdict::{Allow, Ask, Deny};
    Rules(vec![rule("*", "*", Allow), rule("ask", "*", Ask), rule("deny", "*", Deny), rule("doom_loop", "*", Ask)])
}

/// A call as the run would post it: `bad` makes no sense, `bare` touches nothing, `read` and `agent` may run again.
pub fn wanted(call: &str, tool: &str, input: &str) -> Wanted {
    let touches = if tool == "bare" { Vec::new() } else { vec![Touch::new(tool, input)] };
    let repeatable = matches!(tool, "read" | "agent");
    let look = if tool == "bad" {
        Err("no such parameter".to_owned())
    } else {
        Ok(Look { touches, repeatable, title: String::new(), ..Look::default() })
    };
    Wanted { call: CallId::new(call), wire_id: format!("wire_{call}"), tool: tool.into(), input: input.into(), look, consented: false }
}

pub fn created(kind: Kind, root: &str, parent: Option<&str>, ceiling: Vec<Rules>) -> Event {
    Event::Created {
        kind,
        root: SessionId::new(root),
        parent: parent.map(SessionId::new),
        directory: "/work".into(),
        title: "a title".into(),
        recipe: Recipe { agent: "build".into(), model: "test/one".into(), ..Recipe::default() },
        ceiling,
        above: Default::default(),
        depth: 0,
        strict_shell: false,
        worktree: None,
        within: None,
    }
}

/// The birth of a task that works in a folder of its own.
pub fn born_in_a_worktree() -> Event {
    let mut birth = created(Kind::Task, "ses_0", Some("ses_0"), vec![rules()]);
    if let Event::Created { recipe, worktree, .. } = &mut birth {
        recipe.isolation = Some(Isolation::Worktree);
        let (home, path) = ("/work".into(), "/trees/ses_2".into());
        *worktree = Some(Worktree { home, path, branch: "posse/ses_2".into(), base: "0123abcd".into() });
    }
    birth
}

pub fn record(seq: u64, event: Event) -> Record {
    Record { seq, at: Timestamp(seq * 10), batch: BatchId::new(format!("evt_{seq}")), event }
}

pub fn spawn(entry: &str, internal: bool) -> Spawn {
    Spawn {
        agent: "explore".into(),
        description: "look around".into(),
        prompt: "find it".into(),
        entry: EntryId::new(entry),
        name: Some("scout".into()),
        model: None,
        internal,
        tool: "agent".into(),
        note: "new".into(),
        allowed: Vec::new(),
        named: Vec::new(),
        purpose: None,
        fork: None,
        by: None,
        isolation: None,
        directory: None,
    }
}

/// Internal work, by a session that begins with this conversation.
pub fn internal(entry: &str, purpose: Purpose, segments: Vec<Segment>) -> Spawn {
    let fork = Some(Box::new(Fork { segments, head: Hash::new("aa"), model: "test/one".into() }));
    Spawn { agent: purpose.agent().to_owned(), name: None, purpose: Some(purpose), fork, ..spawn(entry, true) }
}

/// A worker that is split off from this conversation: nothing about it is internal.
pub fn split_off(entry: &str, segments: Vec<Segment>) -> Spawn {
    let fork = Some(Box::new(Fork { segments, head: Hash::new("aa"), model: "test/one".into() }));
    Spawn { agent: "fork".into(), name: None, fork, ..spawn(entry, false) }
}

/// All kinds of work beside the conversation.
pub const BESIDE: [Purpose; 6] =
    [Purpose::Remember, Purpose::Consolidate, Purpose::Suggest, Purpose::Speculate, Purpose::Side, Purpose::Summarise];

/// What a task has left: nothing, or a few files and a commit.
pub fn left(task: &str, clean: bool) -> Left {
    let (path, branch) = (format!("/trees/{task}"), format!("posse/{task}"));
    let (commits, files) = if clean { (0, 0) } else { (1, 3) };
    Left { path, branch, clean, commits, files, unknown: String::new() }
}

/// A promise that says everything a promise can say.
fn spawned_with_all(prompt: Text, segments: Vec<Segment>) -> Spawn {
    Spawn {
        prompt,
        isolation: Some(Isolation::WorktreeWithChanges),
        directory: Some("/elsewhere".into()),
        ..internal("msg_9", Purpose::Compact { tail_from: 3 }, segments)
    }
}

/// One event of every kind, with every text set to `text`.
pub fn one_of_each(text: &str) -> Vec<Event> {
    let call = CallId::new("call_1");
    let task = SessionId::new("ses_2");
    let said = || Text::from(text);
    let usage = Usage { input: 10, output: 5, cache_read: 3, cache_write: 2, cost_usd: 0.25, unpriced: 0 };
    let touch = Touch::new("bash", "ls");
    let decision = Decision {
        rule: Some("bash(*)".into()),
        origin: "posse.json:4".into(),
        why: "`ls`: rule bash(*)".into(),
        offers: vec![Grant { key: "bash".into(), pattern: "ls *".into(), exact: false }],
        ..Decision::of(Verdict::Ask, Some(touch.clone()))
    };
    let entry = Entry {
        id: EntryId::new("msg_1"),
        source: Source::Agent { session: task.clone(), name: "scout".into() },
        delivery: Delivery::WhenIdle,
        priority: Priority::Now,
        parts: one_of_each_part(text),
        typed: true,
        voice: posse_session::Voice::Agent { named: vec!["a.rs".into()] },
        allowed: vec![Grant { key: "bash".into(), pattern: "ls *".into(), exact: false }],
    };
    let done = Outcome::Done {
        output: said(),
        title: "ls".into(),
        metadata: Some(serde_json::json!({"exit": 0})),
        attachments: vec![Part::File { mime: "image/png".into(), name: "a.png".into(), data: Some(said()) }],
    };
    let stretch = || vec![Segment { session: SessionId::new("ses_2"), from: 0, to: 4, pruned: true }];
    let mut all = vec![
        born_in_a_worktree(),
        Event::Configured { head: Hash::new("ab"), model: "test/one".into() },
        Event::Queued { entry },
        Event::Expanding { entry: EntryId::new("msg_1"), calls: 1 },
        Event::Expanded {
            entry: EntryId::new("msg_1"),
            parts: one_of_each_part(text),
            agent: Some("plan".into()),
            model: Some("small".into()),
            allowed: vec![Grant { key: "read".into(), pattern: "*".into(), exact: false }],
        },
        Event::StepStarted {
            step: 0,
            took: vec![EntryId::new("msg_1")],
            reserved: Reserved { tokens: 7, cost_usd: 0.5 },
            closing: true,
            notes: vec![Part::reminder(said())],
        },
        Event::Replied { step: 0, parts: one_of_each_part(text), calls: 1, usage, finish: Finish::Calls, author: Some("explore".into()) },
        Event::Called {
            call: call.clone(),
            tool: "bash".into(),
            input: said(),
            wire_id: "toolu_1".into(),
            touches: vec![touch.clone()],
            repeatable: true,
            title: "ls".into(),
            decision: Some(decision.clone()),
            consented: false,
        },
        Event::StepFailed {
            step: 0,
            failure: Some(ModelFailure::RateLimited),
            error: "429".into(),
            retry_at: Some(Timestamp(99)),
            partial: said(),
            usage,
        },
        Event::Looked { call: call.clone(), input: said(), touches: vec![touch], by: "hook".into(), decision: decision.clone() },
        Event::Asked { ask: AskId::new("ask_1"), call: call.clone(), decision },
        Event::Answered { ask: AskId::new("ask_1"), call: call.clone(), answer: Answer::Yes { scope: Scope::Tree }, by: By::User },
        Event::CallStarted { call: call.clone(), attempt: 1 },
        Event::CallFinished { call: call.clone(), outcome: done },
        Event::Interrupted { by: By::User, hold: Hold::Esc },
        Event::Resumed { by: By::User },
        Event::TookOver { calls: 2, usage: Usage::default() },
        Event::LimitReached { limit: Limit::Time, words: "10 minutes are over".into(), own: true },
        Event::TaskStarted { call: call.clone(), task: task.clone(), round: 1, spawn: spawned_with_all(said(), stretch()), wait: true },
        Event::TaskEnded {
            task: task.clone(),
            round: 1,
            how: How::Completed,
            result: said(),
            usage,
            to: To::Call { call: call.clone() },
            effort: Effort { calls: 3, millis: 1_500 },
        },
        Event::TaskResumed {
            task: task.clone(),
            round: 2,
            spawn: Spawn {
                prompt: said(),
                by: Some(Source::Agent { session: SessionId::new("ses_0"), name: "main".into() }),
                ..spawn("msg_10", false)
            },
        },
        Event::TaskAwaited { task: task.clone(), call: call.clone(), until: Some(Timestamp(77)) },
        Event::Unqueued { entry: EntryId::new("msg_11") },
        Event::Kept { call: call.clone(), title: "npm run dev".into() },
        Event::KeptEnded { call, words: said(), entry: Some(EntryId::new("msg_12")) },
        Event::ModelChanged { model: Some("test/two".into()), why: "529".into() },
        Event::Detached { task: task.clone() },
        Event::TaskStopped { task, by: By::Model, hold: None },
        Event::Ended { round: 1, how: How::Limit, reply: Some(5), error: "limit".into(), usage },
        Event::Forked { segments: stretch() },
        Event::Reverted { to: 2 },
        Event::Revoked { ask: AskId::new("ask_1"), by: By::User },
        Event::Undone { calls: vec![CallId::new("call_1")], paths: vec!["a.rs".into()] },
        Event::Unknown(serde_json::json!({"type": "dreamt", "of": said(), "ignorable": true})),
    ];
    all.extend(one_of_each_about_length(text));
    all.extend(one_of_each_about_worktrees(text));
    all
}

/// How long a conversation is, what it is called, and the shape of its answers.
fn one_of_each_about_length(text: &str) -> Vec<Event> {
    vec![
        Event::Compacted { summary: text.into(), tail_from: 3, verbatim: text.into() },
        Event::Pruned { to: 3 },
        Event::CompactionFailed { why: "nothing of it can be left out".into(), smaller: false },
        Event::Titled { title: "a better title".into() },
        Event::Misshapen { words: "no such field".into(), again: true },
    ]
}

/// Folders of tasks, and what internal work comes to.
fn one_of_each_about_worktrees(text: &str) -> Vec<Event> {
    let task = SessionId::new("ses_2");
    vec![
        Event::WorktreeLeft { task: task.clone(), left: Left { unknown: "git is gone".into(), ..left("ses_2", false) } },
        Event::Released { task: task.clone(), removed: false, words: "it is locked".into() },
        Event::BroughtHome { task, paths: vec!["a.rs".into()], more: 3, onto: "main".into(), discarded: true },
        Event::Advised { advice: Purpose::Suggest, text: text.into() },
    ]
}

pub fn one_of_each_part(text: &str) -> Vec<Part> {
    vec![
        Part::text(text),
        Part::reminder(text),
        Part::Reasoning { text: text.into(), signature: Some(text.into()) },
        Part::File { mime: "text/plain".into(), name: "a.txt".into(), data: Some(text.into()) },
        Part::Agent { name: "explore".into() },
        Part::Subtask {
            agent: "explore".into(),
            description: "look".into(),
            prompt: text.into(),
            command: Some("/look".into()),
            model: Some("small".into()),
            direct: true,
            allowed: Vec::new(),
            named: Vec::new(),
        },
        Part::Call { call: CallId::new("call_1") },
        Part::Patch {
            path: "a.rs".into(),
            before: "1".into(),
            after: "2".into(),
            added: 3,
            removed: 1,
            change: text.into(),
            mode: Some(0o755),
        },
        Part::Compact { words: text.into() },
        Part::Compaction { summary: text.into() },
        Part::Retry { attempt: 1, error: "cut".into() },
        Part::Opaque { provider: "openai".into(), raw: "{\"id\":\"rs_1\"}".into() },
    ]
}

/// Every name an event can have in a log. The match makes this list and the enum grow together.
pub fn every_name() -> BTreeSet<String> {
    let names: BTreeSet<String> = one_of_each("x").iter().map(name).collect();
    fn name(event: &Event) -> String {
        match event {
            Event::Created { .. } | Event::Configured { .. } | Event::Queued { .. } | Event::StepStarted { .. } | Event::Replied { .. } => {
            }
            Event::Called { .. } | Event::StepFailed { .. } | Event::Looked { .. } | Event::Asked { .. } | Event::Answered { .. } => {}
            Event::CallStarted { .. } | Event::CallFinished { .. } | Event::Interrupted { .. } | Event::Resumed { .. } => {}
            Event::TookOver { .. } | Event::LimitReached { .. } | Event::TaskStarted { .. } | Event::TaskEnded { .. } => {}
            Event::Detached { .. } | Event::TaskStopped { .. } | Event::Ended { .. } | Event::Forked { .. } => {}
            Event::Compacted { .. } | Event::Reverted { .. } | Event::Revoked { .. } | Event::Undone { .. } | Event::Unknown(_) => {}
            Event::Expanding { .. } | Event::Expanded { .. } => {}
            Event::TaskResumed { .. } | Event::TaskAwaited { .. } | Event::Unqueued { .. } | Event::ModelChanged { .. } => {}
            Event::Kept { .. } | Event::KeptEnded { .. } => {}
            Event::Pruned { .. } | Event::CompactionFailed { .. } | Event::Titled { .. } | Event::Misshapen { .. } => {}
            Event::WorktreeLeft { .. } | Event::Released { .. } | Event::BroughtHome { .. } | Event::Advised { .. } => {}
        }
        event.name()
    }
    assert_eq!(names.len(), 43, "one_of_each has one of each");
    names
}

/// What the user has given to an agent; `direct`: its answer is the answer.
pub fn subtask(direct: bool) -> Part {
    Part::Subtask {
        agent: "scout".into(),
        description: "look".into(),
        prompt: "look".into(),
        command: None,
        model: None,
        direct,
        allowed: Vec::new(),
        named: Vec::new(),
    }
}
