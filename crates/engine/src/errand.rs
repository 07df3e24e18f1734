//! Errands: what a running call asks another agent to do, checked against the limits of this session and its tree.
//!
//! A refusal is told to the model in words it can act on; what passes becomes one `Command::Spawn`.

use posse_session::{Birth, CallId, Command, EntryId, Errand, Hold, Kind, Part, Rules, Session, SessionId, Spawn, Summary};

use crate::{hub::read, run::Run, work::TaskBirth};

/// Tasks that a refusal names.
const NAMED_MAX: usize = 10;

impl Run {
    /// What the call comes to, or why it cannot be.
    pub(crate) async fn commission(&self, session: &Session, call: &CallId, errand: Errand) -> Result<Command, String> {
        // The words of the documents that the user's own commands follow.
        let failed =
            |words: String| if self.subtask_of(session, call).is_some() { format!("Tool execution failed: {words}") } else { words };
        self.checked(session, call, errand).await.map_err(failed)
    }

    async fn checked(&self, session: &Session, call: &CallId, errand: Errand) -> Result<Command, String> {
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
        let recipe = match &resumed {
            Some((_, _, agent)) => agent.clone(),
            None => {
                self.admit(session, birth.depth)?;
                self.tree.outfits.recipe(&birth.recipe, &errand.agent, errand.model.as_deref())?.agent
            }
        };
        if resumed.is_none() {
            self.tree.ledger.admit_task().map_err(|limit| {
                format!("This tree has started {limit} tasks, which is its limit (limits.tree). Do the work yourself, or go on with an earlier task.")
            })?;
        }
        let ids = &*self.world.ids;
        let (task, round) = resumed.map_or_else(|| (SessionId::fresh(ids), 1), |(task, round, _)| (task, round));
        let Errand { description, prompt, name, model, tool, mut allowed, .. } = errand;
        let mut named = Vec::new();
        if let Some(Part::Subtask { allowed: more, named: files, .. }) = self.subtask_of(session, call) {
            allowed.extend(more.iter().cloned());
            named.clone_from(files);
        }
        let spawn = Spawn {
            agent: recipe,
            description,
            prompt: prompt.into(),
            entry: EntryId::fresh(ids),
            name,
            model,
            internal: false,
            tool,
            note,
            allowed,
            named,
        };
        Ok(Command::Spawn { call: call.clone(), task, round, spawn: Box::new(spawn), wait: true })
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
                "This session has started {} tasks, which is its limit (limits.children). Do the work yourself, or go on with an earlier task.",
                session.tasks_started()
            ));
        }
        Ok(())
    }

    /// An earlier task of this session: its id, its next round and its agent.
    async fn resumable(&self, session: &Session, id: &str) -> Result<(SessionId, u64, String), String> {
        let log = &*self.world.log;
        let summaries = log.summaries(Some(&self.tree.owner.root)).await.map_err(|error| error.to_string())?;
        let own = |summary: &&Summary| summary.parent.as_ref() == Some(session.id()) && summary.kind == Some(Kind::Task);
        let Some(found) = summaries.iter().filter(own).find(|summary| summary.session.as_str() == id) else {
            let ended = |summary: &&Summary| !session.tasks().contains_key(&summary.session);
            let mut known: Vec<String> =
                summaries.iter().filter(own).filter(ended).map(|summary| format!("{} ({})", summary.session, summary.title)).collect();
            known.truncate(NAMED_MAX);
            let known = if known.is_empty() { "there are none yet".to_owned() } else { known.join(", ") };
            return Err(format!("There is no task `{id}` of this session to go on with. Tasks that can be resumed: {known}."));
        };
        if session.tasks().contains_key(&found.session) || self.tree.expects(&found.session) {
            return Err(format!("The task {id} is still running; wait for its result before you give it more to do."));
        }
        let (child, _) = read(log, &found.session).await.map_err(|error| error.to_string())?;
        if child.hold() == Some(Hold::StoppedByUser) {
            return Err(format!("The user stopped the task {id}; only the user can go on with it."));
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
        let strict_shell = self.outfit.strict_shell || parent.strict_shell;
        Some(TaskBirth { parent, parent_id: self.session.id().clone(), ceiling, strict_shell, spawn: spawn.clone() })
    }
}
