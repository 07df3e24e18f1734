//! A log written by hand: facts with their numbers and times, and the view that folds from them.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use posse_session::{
    AskId, BatchId, CallId, Decision, Entry, EntryId, Event, Finish, How, Kind, Outcome, Part, Recipe, Record, SessionId, Spawn, Summary,
    Text, Timestamp, To, Touch, Usage, Verdict,
};
use serde_json::json;

/// The first fact of every log is from this moment.
pub const BORN: u64 = 1_700_000_000_000;

pub struct Story {
    pub session: SessionId,
    pub facts: Vec<Record>,
    at: u64,
}

impl Story {
    pub fn root(id: &str) -> Self {
        Self::born(id, Kind::Root, None, id, "build", "look around")
    }

    pub fn child(id: &str, parent: &str, agent: &str, description: &str) -> Self {
        Self::born(id, Kind::Task, Some(parent), "ses_r", agent, &format!("{description} (@{agent} subagent)"))
    }

    pub fn born(id: &str, kind: Kind, parent: Option<&str>, root: &str, agent: &str, title: &str) -> Self {
        let story = Self { session: SessionId::new(id), facts: Vec::new(), at: BORN };
        story.and(Event::Created {
            kind,
            root: SessionId::new(root),
            parent: parent.map(SessionId::new),
            directory: "/home/me/project".into(),
            title: title.into(),
            recipe: Recipe { agent: agent.into(), model: "mock/m1".into(), ..Recipe::default() },
            ceiling: Vec::new(),
            above: Text::default(),
            depth: u64::from(parent.is_some()),
            strict_shell: false,
            worktree: None,
            within: None,
        })
    }

    /// Time goes by.
    pub fn after(mut self, millis: u64) -> Self {
        self.at += millis;
        self
    }

    pub fn and(mut self, event: Event) -> Self {
        let seq = self.facts.len() as u64 + 1;
        self.facts.push(Record { seq, at: Timestamp(self.at), batch: BatchId::new("evt_1"), event });
        self
    }

    pub fn says(self, id: &str, text: &str) -> Self {
        self.and(Event::Queued { entry: Entry::user(EntryId::new(id), text) })
    }

    pub fn step(self, step: u64, took: &[&str], notes: Vec<Part>) -> Self {
        let took = took.iter().map(|id| EntryId::new(*id)).collect();
        self.and(Event::StepStarted { step, took, reserved: Default::default(), closing: false, notes })
    }

    pub fn replies(self, step: u64, parts: Vec<Part>, calls: u64) -> Self {
        let finish = if calls == 0 { Finish::Stop } else { Finish::Calls };
        self.and(Event::Replied { step, parts, calls, usage: usage(), finish, author: None })
    }

    pub fn calls(self, call: &str, tool: &str, title: &str, input: &str) -> Self {
        self.and(Event::Called {
            call: CallId::new(call),
            tool: tool.into(),
            input: input.into(),
            wire_id: "wire_1".into(),
            touches: Vec::new(),
            repeatable: false,
            title: title.into(),
            decision: None,
            consented: false,
        })
    }

    pub fn starts(self, call: &str) -> Self {
        self.and(Event::CallStarted { call: CallId::new(call), attempt: 1 })
    }

    pub fn finishes(self, call: &str, outcome: Outcome) -> Self {
        self.and(Event::CallFinished { call: CallId::new(call), outcome })
    }

    pub fn asks(self, ask: &str, call: &str, key: &str, pattern: &str) -> Self {
        let decision = Decision::of(Verdict::Ask, Some(Touch::new(key, pattern)));
        self.and(Event::Asked { ask: AskId::new(ask), call: CallId::new(call), decision })
    }

    pub fn delegates(self, call: &str, task: &str, agent: &str, name: Option<&str>) -> Self {
        let mut spawn: Spawn = read(json!({
            "agent": agent, "description": "Explore codebase", "prompt": "Find all test files", "entry": "msg_child"
        }));
        spawn.name = name.map(str::to_owned);
        self.and(Event::TaskStarted { call: CallId::new(call), task: SessionId::new(task), round: 1, spawn, wait: true })
    }

    pub fn hears(self, call: &str, task: &str, how: How, result: &str) -> Self {
        let to = To::Call { call: CallId::new(call) };
        self.and(Event::TaskEnded {
            task: SessionId::new(task),
            round: 1,
            how,
            result: result.into(),
            usage: Usage::default(),
            to,
            effort: Default::default(),
        })
    }

    pub fn ends(self, how: How, error: &str) -> Self {
        self.and(Event::Ended { round: 1, how, reply: None, error: error.into(), usage: Usage::default() })
    }

    pub fn summary(&self) -> Summary {
        let mut summary = Summary::new(self.session.clone());
        self.facts.iter().for_each(|record| summary.apply(record));
        summary
    }
}

/// A value as a log has it, so that a field that is added later does not matter here.
pub fn read<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// What every reply costs.
pub fn usage() -> Usage {
    Usage { input: 900, output: 100, cost_usd: 0.25, ..Usage::default() }
}
