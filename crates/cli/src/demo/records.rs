//! What the demo asks the logs: every record of the tree, as `posse sessions export --format jsonl` tells them.

use std::collections::HashMap;

use posse_session::{Birth, Event, Outcome, Record, SessionId, Worktree};
use serde::Deserialize;

use super::teller::Stop;

#[derive(Debug, Deserialize)]
struct Line {
    session: SessionId,
    #[serde(flatten)]
    record: Record,
}

pub(super) struct Records(Vec<Line>);

impl Records {
    pub(super) fn read(exported: &str) -> Result<Self, Stop> {
        let lines = exported.lines().map(serde_json::from_str).collect::<Result<_, _>>();
        lines.map(Self).map_err(|error| Stop::Trouble(format!("the exported log cannot be read: {error}")))
    }

    fn events(&self) -> impl Iterator<Item = &Event> {
        self.0.iter().map(|line| &line.record.event)
    }

    /// The task of this name, and the folder of its own in which it works.
    pub(super) fn worker(&self, name: &str) -> Result<Worker, Stop> {
        let missing =
            |what: &str| Stop::Untrue { what: format!("{name} works in a worktree"), expected: what.into(), found: "nothing".into() };
        let task = self.events().find_map(|event| match event {
            Event::TaskStarted { task, spawn, .. } if spawn.name.as_deref() == Some(name) => Some(task.clone()),
            _ => None,
        });
        let task = task.ok_or_else(|| missing("a task of this name"))?;
        let birth = self.0.iter().find(|line| line.session == task).and_then(|line| Birth::of(&line.record.event));
        let worktree = birth.and_then(|birth| birth.worktree).ok_or_else(|| missing("a worktree in its log"))?;
        Ok(Worker { task, worktree })
    }

    /// How many calls were started more than once.
    pub(super) fn started_again(&self) -> usize {
        let mut starts: HashMap<_, usize> = HashMap::new();
        for event in self.events() {
            if let Event::CallStarted { call, .. } = event {
                *starts.entry(call).or_default() += 1;
            }
        }
        starts.values().filter(|count| 1 < **count).count()
    }

    /// Whose calls were denied.
    pub(super) fn denied(&self) -> Vec<&SessionId> {
        let denied = |line: &&Line| matches!(line.record.event, Event::CallFinished { outcome: Outcome::Denied { .. }, .. });
        self.0.iter().filter(denied).map(|line| &line.session).collect()
    }

    /// Whose calls are said to be lost.
    pub(super) fn lost(&self) -> Vec<&SessionId> {
        let lost = |line: &&Line| matches!(line.record.event, Event::CallFinished { outcome: Outcome::Lost { .. }, .. });
        self.0.iter().filter(lost).map(|line| &line.session).collect()
    }

    /// How often the end of a task reached its caller.
    pub(super) fn ends(&self, worker: &Worker) -> usize {
        self.events().filter(|event| matches!(event, Event::TaskEnded { task, .. } if *task == worker.task)).count()
    }
}

pub(super) struct Worker {
    pub(super) task: SessionId,
    pub(super) worktree: Worktree,
}
