//! What the user set in motion directly: agents that are called without asking a model, and turns that another agent answers.

use posse_session::{Birth, CallId, Command, Draft, Look, Part, Text, Timestamp, Touch, Turn, Wanted};
use serde_json::json;

use crate::{
    hub::{OpenError, read},
    run::Run,
    tree::stored,
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

    /// Makes ready whoever speaks in the next step. Another agent than the session's own speaks for one turn only.
    pub(crate) async fn dress(&mut self, draft: &mut Draft, now: Timestamp) {
        let speaker = Turn { allowed: Vec::new(), ..draft.session().next_turn() };
        if speaker == self.speaker {
            return;
        }
        // Whoever cannot be made ready is named, and who spoke before answers.
        if let Err(error) = self.change(draft, speaker.clone(), now).await {
            let who = speaker.agent.as_ref().map(|agent| format!("The agent `{agent}`"));
            let who = who.or(speaker.model.as_ref().map(|model| format!("The model `{model}`"))).unwrap_or_default();
            let why = error.to_string();
            let why = why.trim_end_matches('.');
            self.notes.push(Part::reminder(format!("{who} could not answer this turn: {why}. Say so, and answer in its place.")));
        }
        self.speaker = speaker;
    }

    async fn change(&mut self, draft: &mut Draft, speaker: Turn, now: Timestamp) -> Result<(), OpenError> {
        let Some(birth) = draft.session().birth().cloned() else { return Ok(()) };
        let outfit = self.tree.outfits.outfit(draft.session().id(), &self.spoken_by(&birth, &speaker)?).map_err(OpenError::Outfit)?;
        self.wear(outfit).await?;
        let (hash, bytes) = stored(&self.outfit.head)?;
        self.blobs.push((hash.clone(), bytes));
        let model = self.outfit.model.facts().name.clone();
        draft.decide(Command::Configure { head: hash, model }, &self.given(now));
        Ok(())
    }

    /// A birth as it would be, had this agent been the session's own.
    pub(crate) fn spoken_by(&self, birth: &Birth, speaker: &Turn) -> Result<Birth, OpenError> {
        if *speaker == Turn::default() {
            return Ok(birth.clone());
        }
        let agent = speaker.agent.as_deref().unwrap_or(&birth.recipe.agent);
        let recipe = self.tree.outfits.recipe(&birth.recipe, agent, speaker.model.as_deref()).map_err(OpenError::Outfit)?;
        Ok(Birth { recipe, ..birth.clone() })
    }

    /// Another outfit: everything said so far is encoded anew for its model.
    async fn wear(&mut self, mut outfit: crate::world::Outfit) -> Result<(), OpenError> {
        outfit.add_hooks_tools();
        let other_model = outfit.model.facts().name != self.outfit.model.facts().name;
        self.head = outfit.model.encode_head(&outfit.head);
        self.outfit = outfit.into();
        if other_model && 0 < self.session.head() {
            let (_, records) = read(&*self.world.log, self.session.id()).await?;
            self.thread = Default::default();
            self.messages.clear();
            for record in &records {
                for message in self.thread.push(record) {
                    let bytes = self.outfit.model.encode(&message);
                    self.messages.push(bytes);
                }
            }
        }
        self.body_bytes = self.head.len() as u64 + self.messages.iter().map(|message| message.len() as u64).sum::<u64>();
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
