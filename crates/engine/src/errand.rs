//! Errands: what a running call asks another agent to do, checked against the limits of this session and its tree.
//!
//! A refusal is told to the model in words it can act on; what passes becomes one `Command::Spawn`.

use posse_context::{FORK_ANSWERS_IN_WORDS, fork_directive};
use posse_session::{
    Admission, Birth, CallId, Command, Draft, Entry, EntryId, Errand, Event, FORK, Hold, Kind, Limit, Part, Purpose, Rules, Session,
    SessionId, Source, Spawn, Summary, Text,
};

use crate::{
    past::fold,
    run::Run,
    visits::stopped_by_user,
    work::{Started, TaskBirth},
};

/// A name is something one types.
const NAME_CHARS_MAX: usize = 64;

/// Tasks that a refusal names.
const NAMED_MAX: usize = 10;

/// What a wish to wake a task comes to.
pub(crate) enum Wake {
    Now(Box<Command>),
    /// It works, and this session knows.
    Already,
    /// It has heard these words, and ended.
    Heard,
}

fn tasks(count: u64) -> &'static str {
    if count == 1 { "task" } else { "tasks" }
}

impl Run {
    /// What the call comes to, or why it cannot be.
    pub(crate) async fn commission(&mut self, draft: &Draft, call: &CallId, errand: Errand) -> Result<Command, String> {
        let session = draft.session();
        // The words of the documents that the user's own commands follow.
        let of_user = self.subtask_of(session, call).is_some();
        let failed = |words: String| if of_user { format!("Tool execution failed: {words}") } else { words };
        if errand.fork {
            self.line_up(session, call, &errand.tool);
        }
        let checked = self.checked(draft, call, errand).await;
        let fork = match &checked {
            Ok(Command::Spawn { task, spawn, .. }) => Some(task).filter(|_| spawn.fork.is_some()),
            _ => None,
        };
        self.tree.batches.became(call, fork);
        checked.map_err(failed)
    }

    async fn checked(&mut self, draft: &Draft, call: &CallId, errand: Errand) -> Result<Command, String> {
        let session = draft.session();
        let Some(birth) = session.birth() else { return Err("this session is not ready yet".into()) };
        let mut note = String::new();
        let resumed = match &errand.resume {
            Some(id) => match self.resumable(session, id).await {
                Ok((task, _, agent)) if !self.may_go_on(birth, &agent, &errand) => {
                    return Err(format!("The task {task} is done by the agent `{agent}`. To go on with it, name that agent."));
                }
                Ok(found) => Some(found),
                Err(words) if errand.or_new => {
                    note = format!("{words} A new session was started instead.");
                    None
                }
                Err(words) => return Err(words),
            },
            None => None,
        };
        if errand.background && !self.outfit.background {
            return Err(
                "Background work is switched off here (`background: false`). Leave run_in_background out: the call waits for the result."
                    .into(),
            );
        }
        if resumed.is_some() && (errand.isolation.is_some() || errand.directory.is_some()) {
            note = "It went on where it had worked before: `isolation` and `cwd` count for a new task only.".into();
        }
        let (mut isolation, mut fork) = (errand.isolation.unwrap_or_default(), None);
        let (recipe, background) = match &resumed {
            Some((_, _, agent)) => (agent.clone(), errand.background),
            None if errand.fork && self.subtask_of(session, call).is_some() => {
                return Err("Only a model forks its own session: `/fork` is for people.".into());
            }
            None if errand.fork => {
                self.admit(session, birth.depth)?;
                if errand.model.is_some() {
                    note = "The model that was named was passed over: a fork goes on with its caller's.".into();
                }
                fork = Some(Box::new(self.split_off(draft)?));
                (FORK.to_owned(), errand.background)
            }
            None => {
                self.admit(session, birth.depth)?;
                let recipe = self.tree.outfits.recipe(&birth.recipe, &errand.agent, errand.model.as_deref())?;
                if errand.isolation.is_none() {
                    isolation = recipe.isolation;
                }
                if isolation.is_some() && errand.directory.is_some() {
                    return Err(format!(
                        "`cwd` and a worktree exclude each other, and the agent `{}` works in a worktree. Leave out `cwd`, or say `isolation: \"none\"`.",
                        recipe.agent
                    ));
                }
                // Whoever the user runs is waited for by the user.
                let of_its_own = recipe.background && self.outfit.background && self.subtask_of(session, call).is_none();
                (recipe.agent, errand.background || of_its_own)
            }
        };
        let name = self.fitting_name(draft, errand.name.as_deref()).await?;
        self.tree.ledger.has_left(session.id()).map_err(|verdict| {
            let limit = if let Admission::Refused(limit) = verdict.admission { limit } else { Limit::Cost };
            format!("No task was started: {}.", self.limit_words(limit, &verdict))
        })?;
        if resumed.is_none() {
            self.tree.ledger.admit_task().map_err(|limit| {
                format!("This tree has started {limit} {}, which is its limit (limits.tree). Do the work yourself, or go on with an earlier task.", tasks(limit))
            })?;
        }
        let ids = &*self.world.ids;
        let (task, round) = resumed.map_or_else(|| (SessionId::fresh(ids), 1), |(task, round, _)| (task, round));
        let is_new = round == 1;
        let Errand { description, prompt, model, tool, directory, mut allowed, .. } = errand;
        let is_shaped = fork.is_some() && self.outfit.head.answer.is_some();
        let prompt = if is_shaped { format!("{prompt}\n\n{FORK_ANSWERS_IN_WORDS}") } else { prompt };
        let (prompt, model) = if fork.is_some() { (fork_directive(&prompt), None) } else { (prompt, model) };
        let mut named = Vec::new();
        if let Some(Part::Subtask { allowed: more, named: files, .. }) = self.subtask_of(session, call) {
            allowed.extend(more.iter().cloned());
            named.clone_from(files);
        }
        let spawn = Spawn {
            description,
            prompt: prompt.into(),
            entry: EntryId::fresh(ids),
            name,
            model,
            tool,
            note,
            allowed,
            named,
            fork,
            isolation: isolation.filter(|_| is_new),
            directory: directory.filter(|_| is_new),
            ..Spawn::bare(recipe)
        };
        let wire_id = self.inputs.get(call).map(|input| input.wire_id.clone()).unwrap_or_default();
        let started = Started { spawn, wire_id, told: 0 };
        if background && round == 1 {
            // The caller is told its path now and may read it before the task has begun: an empty file is better than none.
            self.world.outputs.begin(&task, "");
        }
        let launched = background.then(|| self.worded_launch(&task, &started, false));
        Ok(Command::Spawn { call: call.clone(), task, round, spawn: Box::new(started.spawn), launched })
    }

    /// A name by which a task can be spoken to. Only one task that works has it.
    async fn fitting_name(&self, draft: &Draft, name: Option<&str>) -> Result<Option<String>, String> {
        let Some(name) = name.map(str::trim).filter(|name| !name.is_empty()) else { return Ok(None) };
        let is_odd = |letter: char| letter.is_control();
        if NAME_CHARS_MAX < name.chars().count() || name.contains(is_odd) || name.starts_with("ses_") || name == "*" {
            return Err(format!(
                "`{name}` cannot be a task's name: use at most {NAME_CHARS_MAX} letters, digits or dashes, not beginning with `ses_`."
            ));
        }
        // What this session has just started may be in no log yet.
        let just_started = draft.records().iter().filter_map(|record| match &record.event {
            Event::TaskStarted { task, spawn, .. } => Some((task, spawn)),
            _ => None,
        });
        let started = self.errands.iter().map(|(task, started)| (task, &started.spawn)).chain(just_started);
        let is_open = |task: &SessionId| draft.session().tasks().contains_key(task);
        let mut own = started.filter(|(task, spawn)| spawn.name.as_deref() == Some(name) && is_open(task)).map(|(task, _)| task.clone());
        let taken = match own.next() {
            Some(task) => Some(task),
            None => self.tree.named_and_open(name),
        };
        match taken {
            Some(task) => {
                Err(format!("A task named `{name}` is still working ({task}). Choose another name, or send a message to that one."))
            }
            None => Ok(Some(name.to_owned())),
        }
    }

    /// What lets a task of this session work again that has ended, or lets this session hear of one that works already.
    pub(crate) async fn wake(&self, session: &Session, task: &SessionId, entry: Option<&Entry>) -> Result<Wake, String> {
        if session.tasks().contains_key(task) {
            return Ok(Wake::Already);
        }
        let child = fold(&*self.world.log, task).await.map_err(|error| error.to_string())?;
        let round = child.round();
        let Some(entry) = entry else {
            let heard = self.errands.get(task).is_some_and(|known| round.number <= known.told);
            let spawn = Spawn { prompt: Text::default(), entry: EntryId::new(""), by: None, ..self.spawn_of(task, &child)? };
            let wake = Command::Wake { task: task.clone(), round: round.number, spawn: Box::new(spawn) };
            return Ok(if heard { Wake::Already } else { Wake::Now(Box::new(wake)) });
        };
        for (id, held) in [(task, child.hold()), (session.id(), session.hold())] {
            if held == Some(Hold::StoppedByUser) && entry.source != Source::User {
                return Err(stopped_by_user(id));
            }
        }
        if child.queue().knows(&entry.id) {
            return Ok(Wake::Heard);
        }
        let text = |part: &Part| if let Part::Text { text, .. } = part { text.inline().map(str::to_owned) } else { None };
        let prompt = entry.parts.iter().filter_map(text).collect::<Vec<_>>().join("\n\n");
        let (entry_id, by) = (entry.id.clone(), Some(entry.source.clone()));
        let spawn = Spawn { prompt: prompt.into(), entry: entry_id, by, ..self.spawn_of(task, &child)? };
        let round = if round.open { round.number } else { round.number + 1 };
        let wake = Command::Wake { task: task.clone(), round, spawn: Box::new(spawn) };
        Ok(Wake::Now(Box::new(wake)))
    }

    /// What a task was once started with, without its words.
    fn spawn_of(&self, task: &SessionId, child: &Session) -> Result<Spawn, String> {
        let birth = child.birth().ok_or_else(|| format!("{task} has not begun"))?;
        let known = self.errands.get(task).map(|known| known.spawn.clone());
        let base = known.unwrap_or_else(|| Spawn {
            description: birth.title.clone(),
            tool: self.outfit.delegation.clone(),
            ..Spawn::bare(birth.recipe.agent.clone())
        });
        Ok(Spawn { allowed: Vec::new(), named: Vec::new(), note: String::new(), ..base })
    }

    /// The call was judged by the agent it names, and a task keeps its own: they must be one.
    fn may_go_on(&self, birth: &Birth, agent: &str, errand: &Errand) -> bool {
        agent == errand.agent || self.tree.outfits.recipe(&birth.recipe, &errand.agent, None).is_ok_and(|named| named.agent == agent)
    }

    /// This session's own limits.
    fn admit(&self, session: &Session, depth: u64) -> Result<(), String> {
        let outfit = &self.outfit;
        if outfit.depth_max <= depth {
            return Err(format!(
                "Agents may be nested {} deep here (limits.depth), and this session is at depth {depth}. Do the work yourself.",
                outfit.depth_max
            ));
        }
        if outfit.children_max <= session.tasks_started() {
            return Err(format!(
                "This session has started {} {}, which is its limit (limits.children). Do the work yourself, or go on with an earlier task.",
                session.tasks_started(),
                tasks(session.tasks_started())
            ));
        }
        Ok(())
    }

    /// An earlier task of this session: its id, its next round and its agent.
    async fn resumable(&self, session: &Session, id: &str) -> Result<(SessionId, u64, String), String> {
        let log = &*self.world.log;
        let summaries = log.summaries(Some(&self.tree.owner.root)).await.map_err(|error| error.to_string())?;
        let own = |summary: &&Summary| summary.parent.as_ref() == Some(session.id()) && summary.kind.is_some_and(Kind::is_task);
        let Some(found) = summaries.iter().filter(own).find(|summary| summary.session.as_str() == id) else {
            let ended = |summary: &&Summary| !session.tasks().contains_key(&summary.session);
            let mut known: Vec<String> =
                summaries.iter().filter(own).filter(ended).map(|summary| format!("{} ({})", summary.session, summary.title)).collect();
            known.truncate(NAMED_MAX);
            let known = if known.is_empty() { "there are none yet".to_owned() } else { known.join(", ") };
            return Err(format!("There is no task `{id}` of this session to go on with. Tasks that can be resumed: {known}."));
        };
        if session.tasks().contains_key(&found.session) || self.tree.expects(&found.session) {
            return Err(format!(
                "The task {id} is still running; wait for its result before you give it more to do, or send it a message."
            ));
        }
        let child = fold(log, &found.session).await.map_err(|error| error.to_string())?;
        if child.hold() == Some(Hold::StoppedByUser) {
            return Err(stopped_by_user(&found.session));
        }
        let round = child.round();
        Ok((found.session.clone(), if round.open { round.number } else { round.number + 1 }, found.agent.clone()))
    }

    /// What a task of this session is born with. Every ancestor's rules count for it, whole.
    pub(crate) fn birth_of(&self, spawn: &Spawn) -> Option<TaskBirth> {
        let parent = self.session.birth()?.clone();
        let mut ceiling: Vec<Rules> = Vec::new();
        let own = std::iter::once(&self.outfit.rules).chain(&self.outfit.ceiling);
        for rules in parent.ceiling.iter().chain(own) {
            if !ceiling.contains(rules) {
                ceiling.push(rules.clone());
            }
        }
        // Who takes notes opens one folder: its own rules say so, and those of the conversation are about another.
        if spawn.purpose.as_ref().is_some_and(Purpose::takes_notes) {
            ceiling.clear();
        }
        let strict_shell = self.outfit.strict_shell || parent.strict_shell;
        let recipe = self.spoken_as(&parent);
        Some(TaskBirth { parent, parent_id: self.session.id().clone(), ceiling, strict_shell, spawn: spawn.clone(), recipe })
    }
}
