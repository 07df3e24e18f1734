//! What the user set in motion directly: agents that are called without asking a model, and turns that another agent answers.

use posse_session::{Birth, CallId, Command, Draft, Look, Part, Recipe, Session, Text, Timestamp, Touch, Turn, Wanted};
use serde_json::json;

use crate::{
    hub::OpenError,
    run::{Run, RunError},
    tree::stored,
    world::Outfits,
};

impl Run {
    /// The kernel's own reply: a call of the agent that the user ran.
    pub(crate) fn begin_subtask(&mut self, draft: &mut Draft, step: u64, now: Timestamp) {
        let Some(subtask) = draft.session().next_subtask() else { return };
        let call = CallId::fresh(&*self.world.ids);
        let tool = self.outfit.delegation.clone();
        let (author, input, look) = match self.typing.subtask_among(draft.records(), &subtask) {
            Some(Part::Subtask { agent, description, prompt, command, model, .. }) => {
                let prompt = prompt.inline().unwrap_or_default();
                let mut input = json!({"description": description, "prompt": prompt, "subagent_type": agent});
                for (key, value) in [("command", command), ("model", model)] {
                    if let Some(value) = value {
                        input[key] = json!(value);
                    }
                }
                let touches = vec![Touch::new("task", &agent)];
                // Until the task is recorded nothing has happened.
                let look = Look { touches, repeatable: true, title: format!("{agent}: {description}"), ..Look::default() };
                (agent, input.to_string(), Ok(look))
            }
            _ => (String::new(), "{}".to_owned(), Err("Tool execution failed: what was to be run could not be read back".to_owned())),
        };
        let wanted = Wanted { call, wire_id: String::new(), tool, input: input.into(), look, consented: true };
        let notes = std::mem::take(&mut self.notes);
        let command = Command::Subtask { step, author, wanted: Box::new(wanted), notes };
        draft.decide(command, &self.given(now));
    }

    /// Makes ready whoever speaks in the next step, and records it. `false`: nobody can, and the turn has failed.
    pub(crate) async fn dress(&mut self, draft: &mut Draft, now: Timestamp) -> bool {
        let speaker = Turn { allowed: Vec::new(), ..draft.session().next_turn() };
        if speaker != self.speaker
            && let Err(error) = self.change(draft.session(), speaker).await
        {
            let step = draft.session().steps();
            draft.decide(Command::Refuse { step, words: error.to_string() }, &self.given(now));
            return false;
        }
        if let Some((head, bytes)) = self.new_head.clone().filter(|_| draft.session().is_between_turns()) {
            self.blobs.push((head.clone(), bytes));
            let model = self.outfit.model.facts().name.clone();
            draft.decide(Command::Configure { head, model }, &self.given(now));
            self.new_head = None;
        }
        true
    }

    /// Back to the session's own agent, when a turn that another answered is over.
    pub(crate) async fn step_back(&mut self) -> Result<(), RunError> {
        if self.speaker == Turn::default() || !self.session.is_between_turns() {
            return Ok(());
        }
        let changed = self.change(&self.session.clone(), Turn::default()).await;
        changed.map_err(|error| RunError::Unavailable(error.to_string()))
    }

    async fn change(&mut self, session: &Session, speaker: Turn) -> Result<(), OpenError> {
        let Some(birth) = session.birth().cloned() else { return Ok(()) };
        let (birth, note) = spoken_by(&*self.tree.outfits, &birth, &speaker)?;
        let outfit = self.tree.outfits.outfit(session.id(), &birth).map_err(OpenError::Outfit)?;
        self.notes.extend(note.map(Part::reminder));
        self.speaker = speaker;
        self.wear(outfit).await
    }

    /// Another outfit: everything said so far is encoded anew for its model.
    async fn wear(&mut self, mut outfit: crate::world::Outfit) -> Result<(), OpenError> {
        outfit.add_hooks_tools();
        outfit.presence = self.outfit.presence.clone();
        if let Some(words) = self.outfit.unready.clone() {
            outfit.make_unready(&words);
        }
        let other_model = outfit.model.facts().name != self.outfit.model.facts().name;
        self.head = outfit.model.encode_head(&outfit.head);
        self.new_head = Some(stored(&outfit.head)?);
        self.outfit = outfit.into();
        if other_model && 0 < self.session.head() {
            return self.reweave().await.map_err(|error| OpenError::Unavailable(error.to_string()));
        }
        Ok(())
    }

    /// The words that the child of a call starts with may do more than the call says.
    pub(crate) fn subtask_of(&self, session: &posse_session::Session, call: &CallId) -> Option<&Part> {
        match &session.call(call)?.owner {
            posse_session::CallOwner::Subtask(subtask) => self.typing.subtask(subtask),
            _ => None,
        }
    }
}

/// The text of a part that was typed.
pub(crate) fn typed_text(parts: &[Part]) -> String {
    let text = |part: &Part| match part {
        Part::Text { text: Text::Inline(text), synthetic: false } => Some(text.clone()),
        _ => None,
    };
    parts.iter().find_map(text).unwrap_or_default()
}

/// A birth as it would be, had this agent been the session's own. A model that is not there is named and the agent's own
/// is used: who may do what is the agent's, not the model's.
pub(crate) fn spoken_by(outfits: &dyn Outfits, birth: &Birth, speaker: &Turn) -> Result<(Birth, Option<String>), OpenError> {
    if speaker.agent.is_none() && speaker.model.is_none() {
        return Ok((birth.clone(), None));
    }
    let agent = speaker.agent.as_deref().unwrap_or(&birth.recipe.agent);
    let mut note = None;
    let recipe = match outfits.recipe(&birth.recipe, agent, speaker.model.as_deref()) {
        Err(words) if speaker.model.is_some() => {
            note = Some(format!("The model that was named for this turn cannot be used ({words}); tell the user."));
            outfits.recipe(&birth.recipe, agent, None)
        }
        made => made,
    };
    // Another model for the same agent leaves everything else as it was recorded, whatever its definition says today.
    let recipe = match (recipe, &speaker.agent) {
        (Ok(named), None) => Recipe { model: named.model, ..birth.recipe.clone() },
        (Err(_), None) => birth.recipe.clone(),
        (named, Some(_)) => named.map_err(OpenError::Outfit)?,
    };
    Ok((Birth { recipe, ..birth.clone() }, note))
}
