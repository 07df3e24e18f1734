//! Forks: workers that begin with everything their caller has seen, split off at one of its replies.
//!
//! A fork is a list of stretches and a recorded head, nothing else. All forks of a reply begin with the same bytes, so
//! what the caller holds is lent to them, and the first of a batch warms the provider's cache for the others.

use posse_session::{Birth, CallId, CallState, Draft, FORK, Fork, Left, OpenCall, Recipe, Record, Session, SessionId, Worktree};

use crate::{
    batch::{Turn, caches_prefixes},
    prefix::Prefix,
    run::Run,
    subtask::spoken_by,
    tree::Tree,
    work::parse,
};

const FORK_IN_FORK: &str =
    "You are a fork yourself, and a fork does not fork again. Do the work yourself, or give it to one of the agents that have a name.";

impl Run {
    /// What a fork of the last reply begins with, or why there is none.
    pub(crate) fn split_off(&mut self, draft: &Draft) -> Result<Fork, String> {
        let session = draft.session();
        let is_fork = session.birth().is_some_and(|birth| birth.kind.is_fork());
        // Whatever the birth says: who has read a fork's directive is one.
        if is_fork || self.said.is_forks {
            return Err(FORK_IN_FORK.into());
        }
        let to = self.reply.0;
        let Some(configured) = session.configured().filter(|_| 0 < to) else {
            return Err("There is no conversation yet that could be forked.".into());
        };
        let head = match &self.new_head {
            Some((head, bytes)) => {
                self.blobs.push((head.clone(), bytes.clone()));
                head.clone()
            }
            None => configured.head.clone(),
        };
        let segments = session.segments_until(to);
        // What a hook has changed in a call is not part of what is forked, so it is woven from the log.
        if self.lent.is_none() && !self.outfit.hooks.iter().any(|hook| hook.looks()) {
            let whole = Prefix { messages: self.messages(), ..self.said.clone() };
            self.lent = Some(self.tree.prefixes.lend(&segments, &self.outfit, whole));
        }
        Ok(Fork { segments, head, model: self.outfit.model.facts().name.clone() })
    }

    /// Says whose turn it is among the forks of a reply: that of the call which came first in it and is on its way now.
    pub(crate) fn line_up(&self, session: &Session, call: &CallId, tool: &str) {
        let (facts, outfit) = (self.outfit.model.facts(), &self.outfit);
        if !caches_prefixes(facts) {
            return;
        }
        let (Some(split), Ok(tool)) = (session.segments_until(self.reply.0).pop(), outfit.tool(tool)) else { return };
        let forks = |call: &OpenCall| {
            let input = self.inputs.get(&call.call).and_then(|input| parse(&input.input).ok());
            let look = input.and_then(|input| tool.look(&input, &*outfit.workspace).ok());
            look.is_some_and(|look| look.touches.iter().any(|touch| touch.pattern == FORK))
        };
        let is_due = |call: &&OpenCall| call.state == CallState::Running && call.tool == tool.spec().name;
        let first = || session.calls().iter().filter(is_due).find(|call| forks(call)).map(|call| call.call.clone());
        self.tree.batches.line_up(&split, facts, call, first);
    }

    /// As whom this session speaks right now: a turn may be another agent's.
    pub(crate) fn spoken_as(&self, birth: &Birth) -> Recipe {
        spoken_by(&*self.tree.outfits, birth, &self.speaker).map_or_else(|_| birth.recipe.clone(), |(birth, _)| birth.recipe)
    }

    /// Whether a step may begin: a fork's first waits for the first of its batch where that saves reading it all again.
    pub(crate) fn is_its_turn(&mut self, session: &Session) -> bool {
        let facts = self.outfit.model.facts();
        let is_fork = session.birth().is_some_and(|birth| birth.kind.is_fork());
        // Who is the first stays it while it waits for a lane.
        if !is_fork || 0 < session.steps() || session.has_failed() || !caches_prefixes(facts) || self.opener.is_some() {
            return true;
        }
        let Some(split) = session.segments().into_iter().rfind(|segment| segment.session != *session.id()) else { return true };
        match self.tree.batches.turn(&split, facts, session.id()) {
            Turn::First(opener) => self.opener = Some(opener),
            Turn::Follows => {}
            Turn::Waits(gate) => {
                self.gate = Some(gate);
                self.waits = Some(("waiting for the first fork to be read".into(), None));
                return false;
            }
        }
        true
    }
}

impl Tree {
    /// What a task was born with, if it has begun.
    async fn birth_of(&self, task: &SessionId) -> Option<Birth> {
        let first: Vec<Record> = self.world.log.read(task, 0, 1).await.ok()?;
        Birth::of(&first.first()?.event)
    }

    async fn worktree_of(&self, task: &SessionId) -> Option<Worktree> {
        self.birth_of(task).await?.worktree
    }

    /// What a task has left in its worktree, if it has one.
    pub(crate) async fn left_by(&self, task: &SessionId) -> Option<Left> {
        let worktree = self.worktree_of(task).await?;
        Some(self.outfits.look_at_worktree(&worktree).await)
    }

    /// Removes a task's worktree if nothing was changed in it; whether it is gone.
    pub(crate) async fn release(&self, task: &SessionId) -> Result<bool, String> {
        match self.worktree_of(task).await {
            Some(worktree) => self.outfits.release_worktree(&worktree).await,
            None => Ok(true),
        }
    }
}
