//! What sessions of a tree may know of one another: who there is, by which name, and how far each has come.
//!
//! Made from the logs' views; nothing here is remembered.

use std::{collections::HashMap, sync::Arc, time::Duration};

use posse_context::story;
use posse_session::{Session, SessionId, Spawn, Status, Summary, TaskEnd, TaskView, names};

use crate::{
    past::fold,
    spill::{read_all, restore},
    tree::{Attended, Tree},
    work::Started,
};

/// Tasks that a refusal names.
const NAMED_MAX: usize = 10;

/// What a reader gets of a task's story at once: the end of it. The output file has all.
const STORY_BYTES_MAX: usize = 32 * 1024;

/// How often somebody looks whether a task's first step has started.
const LOOK: Duration = Duration::from_millis(20);

/// Behind the result of a task whose answer the output limit cut.
const CUT_ANSWER: &str = "[The answer ends here because it reached the output limit of the agent's model; the rest is missing.]";

/// How far somebody may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Those it has started, and those they have.
    Below,
    /// Everybody in the tree but its root.
    Tree,
}

/// A message's way.
pub(crate) struct Addressed {
    pub(crate) task: Summary,
    pub(crate) name: Option<String>,
    pub(crate) sender: String,
}

impl Tree {
    async fn summaries(&self) -> Result<Vec<Summary>, String> {
        self.world.log.summaries(Some(&self.owner.root)).await.map_err(|error| error.to_string())
    }

    pub(crate) async fn find(&self, from: &SessionId, wanted: &str, reach: Reach) -> Result<Summary, String> {
        self.found_in(&self.summaries().await?, from, wanted, reach)
    }

    /// Whom a message is for, by which name, and how its sender signs it.
    pub(crate) async fn addressed(&self, from: &SessionId, to: &str) -> Result<Addressed, String> {
        let all = self.summaries().await?;
        let task = self.found_in(&all, from, to, Reach::Tree)?;
        let names = names(&all);
        let agent = all.iter().find(|summary| summary.session == *from).map_or("", |summary| &summary.agent);
        let sender = match names.get(from) {
            Some(name) => format!("{name} ({agent}, {from})"),
            None => format!("{agent} ({from})"),
        };
        Ok(Addressed { name: names.get(&task.session).map(|name| (*name).to_owned()), task, sender })
    }

    /// The task that an id, the start of one, or a name means. A name means the last that was given it, one's own first.
    fn found_in(&self, all: &[Summary], from: &SessionId, wanted: &str, reach: Reach) -> Result<Summary, String> {
        let (wanted, parents) = (wanted.trim(), parents(all));
        let reachable: Vec<&Summary> = all
            .iter()
            .filter(|summary| summary.is_task() && (reach == Reach::Tree || is_below(&parents, &summary.session, from)))
            .collect();
        let by_id = || reachable.iter().find(|summary| summary.session.as_str() == wanted);
        let by_name = || {
            let (own, others): (Vec<&Summary>, Vec<&Summary>) = all.iter().partition(|summary| summary.session == *from);
            let mut named = own.into_iter().chain(others).flat_map(|summary| summary.named.iter().rev());
            named.find_map(|(name, task)| (name == wanted).then(|| reachable.iter().find(|summary| summary.session == *task))?)
        };
        let by_start = || {
            let mut starting =
                reachable.iter().filter(|summary| wanted.len() > "ses_".len() && summary.session.as_str().starts_with(wanted));
            starting.next().filter(|_| starting.next().is_none())
        };
        if let Some(found) = by_id().or_else(by_name).or_else(by_start) {
            return Ok((*found).clone());
        }
        if wanted == self.owner.root.as_str() || *from == SessionId::new(wanted) {
            return Err(format!("`{wanted}` is not a task of yours. What you answer reaches whoever called you."));
        }
        let names = names(all);
        let mut known: Vec<String> = reachable
            .iter()
            .rev()
            .map(|summary| match names.get(&summary.session) {
                Some(name) => format!("{name} = {} ({})", summary.session, summary.status.word()),
                None => format!("{} ({})", summary.session, summary.status.word()),
            })
            .collect();
        let more = known.len().saturating_sub(NAMED_MAX);
        known.truncate(NAMED_MAX);
        let known = match (known.is_empty(), more) {
            (true, _) => "There are no tasks yet.".to_owned(),
            (false, 0) => format!("There are: {}.", known.join(", ")),
            (false, more) => format!("There are: {} and {more} older ones.", known.join(", ")),
        };
        Err(format!("There is no task with the id or name `{wanted}`. {known}"))
    }

    /// Whether whoever started a task knows that it works.
    pub(crate) fn is_open(&self, task: &Summary) -> bool {
        task.parent.as_ref().is_some_and(|parent| self.open_in(parent, &task.session))
    }

    /// Whether a task is open in a session that is run right now.
    pub(crate) fn open_in(&self, parent: &SessionId, task: &SessionId) -> bool {
        self.seen(parent).is_some_and(|session| session.tasks().contains_key(task))
    }

    pub(crate) fn seen(&self, session: &SessionId) -> Option<Arc<Session>> {
        self.route(session)?.seen.borrow().clone().ok().flatten()
    }

    /// A task at this moment; with the end of its story since a place, if one is asked for.
    pub(crate) async fn view(&self, task: &Summary, since: Option<u64>) -> Result<TaskView, String> {
        let all = self.summaries().await?;
        // It may have gone on since it was found.
        let task = all.iter().find(|summary| summary.session == task.session).unwrap_or(task);
        let mut view = self.bare_view(task, &names(&all));
        if let Some(since) = since {
            let log = &*self.world.log;
            let mut records = read_all(log, &task.session, since).await.map_err(|error| error.to_string())?;
            restore(log, &mut records).await.map_err(|error| error.to_string())?;
            // A place beyond the end is no place.
            view.next = records.last().map_or(since.min(task.head), |record| record.seq);
            view.text = tail(records.iter().filter_map(story).collect());
        }
        if task.is_over() && self.is_open(task) {
            // It has been woken, and has not heard the words yet.
            view.status = Status::Queued;
        } else if task.is_over() {
            let session = fold(&*self.world.log, &task.session).await.map_err(|error| error.to_string())?;
            let attended = self.result(&session).await.map_err(|error| error.to_string())?;
            view.effort = attended.effort;
            let (name, description) = (view.name.clone(), view.description.clone());
            let spawn = Spawn { name, description, ..Spawn::bare(view.agent.clone()) };
            let mut end = self.end_of(&task.session, &Started { spawn, wire_id: String::new(), told: 0 }, attended);
            end.left = self.left_by(&task.session).await;
            view.end = Some(end);
        }
        Ok(view)
    }

    /// A task and the whole end of its story.
    pub(crate) async fn view_of(&self, task: &SessionId) -> Result<TaskView, String> {
        let all = self.summaries().await?;
        let found = all.iter().find(|summary| summary.session == *task).ok_or_else(|| format!("{task} has not begun"))?;
        self.view(found, Some(0)).await
    }

    /// Everybody below a session, in the order in which they were started.
    pub(crate) async fn views_below(&self, session: &SessionId) -> Result<Vec<TaskView>, String> {
        let all = self.summaries().await?;
        let (names, parents) = (names(&all), parents(&all));
        let mut below: Vec<&Summary> =
            all.iter().filter(|summary| summary.is_task() && is_below(&parents, &summary.session, session)).collect();
        below.sort_by(|one, other| one.session.cmp(&other.session));
        Ok(below.into_iter().map(|summary| self.bare_view(summary, &names)).collect())
    }

    fn bare_view(&self, task: &Summary, names: &HashMap<&SessionId, &str>) -> TaskView {
        let waits_for_model = || self.seen(&task.session).is_some_and(|session| session.waits_for_model());
        let waits =
            match task.asks.first() {
                Some(ask) => {
                    let touch = ask.decision.touch.as_ref();
                    Some(touch.map_or("a person's permission".to_owned(), |touch| {
                        format!("a person's permission: {}({})", touch.key, touch.pattern)
                    }))
                }
                None if !task.is_over() && waits_for_model() => Some(format!("its turn to call {}", task.model)),
                None => None,
            };
        TaskView {
            name: names.get(&task.session).map(|name| (*name).to_owned()),
            agent: task.agent.clone(),
            description: described(task).to_owned(),
            status: task.status,
            end: None,
            text: String::new(),
            next: task.head,
            steps: task.steps,
            usage: task.usage,
            effort: posse_session::Effort {
                calls: task.calls,
                millis: u64::try_from(task.updated.since(task.began).as_millis()).unwrap_or(u64::MAX),
            },
            output: self.world.outputs.path(&task.session),
            waits,
            last_action: task.last_action.clone(),
            task: task.session.clone(),
        }
    }

    /// How a task ended, for the tool of the call that started it.
    pub(crate) fn end_of(&self, task: &SessionId, started: &Started, attended: Attended) -> TaskEnd {
        let Attended { how, mut texts, reasoning, error, usage, effort, by, is_cut } = attended;
        let spawn = &started.spawn;
        if is_cut && !spawn.internal {
            texts.push(CUT_ANSWER.to_owned());
        }
        TaskEnd {
            task: task.clone(),
            name: spawn.name.clone(),
            agent: spawn.agent.clone(),
            description: spawn.description.clone(),
            how,
            by,
            texts,
            reasoning,
            error,
            note: spawn.note.clone(),
            wire_id: started.wire_id.clone(),
            usage,
            effort,
            output: self.world.outputs.path(task),
            left: None,
        }
    }

    /// Ready when a task's first step of this round has started, with the time of that.
    pub(crate) async fn has_begun(&self, task: &SessionId) -> tokio::time::Instant {
        loop {
            let began = self.seen(task).and_then(|session| session.round().began.filter(|_| session.round().open));
            if let Some(began) = began {
                let ago = self.world.clock.now().since(began);
                let now = tokio::time::Instant::now();
                return now.checked_sub(ago).unwrap_or(now);
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

fn parents(all: &[Summary]) -> HashMap<&SessionId, &SessionId> {
    all.iter().filter_map(|summary| Some((&summary.session, summary.parent.as_ref()?))).collect()
}

/// Whether one session is below another.
fn is_below(parents: &HashMap<&SessionId, &SessionId>, session: &SessionId, above: &SessionId) -> bool {
    let parent = |of: &&SessionId| parents.get(*of).copied();
    std::iter::successors(parent(&session), parent).take(parents.len()).any(|ancestor| ancestor == above)
}

/// What a task is about, without who does it.
fn described(task: &Summary) -> &str {
    task.title.strip_suffix(&format!(" (@{} subagent)", task.agent)).unwrap_or(&task.title)
}

/// The last of a story that is too long to be read at once.
fn tail(text: String) -> String {
    if text.len() <= STORY_BYTES_MAX {
        return text;
    }
    let at = text.ceil_char_boundary(text.len() - STORY_BYTES_MAX);
    format!("(earlier lines are in the output file)\n{}", &text[at..])
}
