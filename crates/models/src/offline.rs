//! `offline/explorer`: the model that is there when none is configured. Rules and search, no LLM, no network, cost 0.
//!
//! It is an ordinary [`Model`]: it sees messages and tool specs and nothing else, uses only the tools it is offered, and
//! derives everything from the messages, so a step tried again gives the same reply. What it cannot do it refuses as
//! `NeedsModel`. Hops: `turn` (what was said since the question) → `intent` (what is asked) → `plan` (which calls are
//! still needed) → `answer` (words that only quote results). Where agents can be sent, `lead` sends four for a question
//! about the repository, each with a `survey` that the same model, as a child, answers in `scout`.

mod answer;
mod define;
mod found;
mod intent;
mod lead;
mod manifest;
mod pattern;
mod plan;
mod scout;
mod survey;
mod terms;
mod turn;
mod words;

#[cfg(test)]
mod questions;
#[cfg(test)]
mod stories;
#[cfg(test)]
mod teams;

use std::sync::Arc;

use self::{
    intent::Intent,
    lead::Team,
    plan::{Call, Desk},
    turn::Turn,
};
use crate::neutral::{bytes, parsed};
use posse_session::{
    BoxFuture, Finish, Head, Live, Message, Model, ModelError, ModelFacts, ModelFailure, Prices, Progress, Reply, ReplyPart, Request,
    ToolChoice, Usage,
};

/// The built-in model of `posse`: finds and quotes what is in the files, says so when it cannot.
#[derive(Debug)]
pub struct Explorer {
    facts: ModelFacts,
}

impl Explorer {
    pub const NAME: &str = "offline/explorer";

    pub fn new() -> Self {
        let facts = ModelFacts {
            name: Self::NAME.into(),
            provider: "offline".into(),
            context: 1_000_000,
            output: 100_000,
            prices: Prices::default(),
            images: false,
        };
        Self { facts }
    }
}

impl Default for Explorer {
    fn default() -> Self {
        Self::new()
    }
}

impl Model for Explorer {
    fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    fn encode_head(&self, head: &Head) -> Arc<[u8]> {
        bytes(head)
    }

    fn encode(&self, message: &Message) -> Arc<[u8]> {
        bytes(message)
    }

    fn reply<'a>(&'a self, request: Request, live: &'a dyn Live) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            let head: Head = parsed(&request.head, Self::NAME)?;
            let messages = request.messages.iter().map(|message| parsed(message, Self::NAME)).collect::<Result<Vec<Message>, _>>()?;
            let reply = think(&head, &messages, request.tool_choice)?;
            for part in &reply.parts {
                if let ReplyPart::Text(text) = part {
                    live.show(Progress::Text(text.clone()));
                }
            }
            Ok(reply)
        })
    }
}

/// The whole model as a function.
fn think(head: &Head, messages: &[Message], choice: ToolChoice) -> Result<Reply, ModelError> {
    let turn = Turn::of(messages);
    let intent = Intent::of(&turn.question);
    if let Intent::NeedsModel { work } = &intent {
        return Err(ModelError::new(ModelFailure::NeedsModel, answer::needs_model(work)));
    }
    let offered: Vec<&str> = head.tools.iter().map(|tool| tool.name.as_str()).collect();
    let desk = Desk::new(&turn, &offered, choice).with_team(Team::offered(&head.tools));
    Ok(match plan::answer(&intent, &desk) {
        Ok(text) => Reply { parts: vec![ReplyPart::Text(text)], usage: Usage::default(), finish: Finish::Stop },
        Err(calls) => Reply { parts: worded(calls, turn.replies), usage: Usage::default(), finish: Finish::Calls },
    })
}

/// Calls with ids that follow from their position, so that they are unique in the conversation and the same in a retry.
fn worded(calls: Vec<Call>, replies: usize) -> Vec<ReplyPart> {
    let call = |(number, call): (usize, Call)| ReplyPart::Call {
        id: format!("offline_{replies}_{number}"),
        tool: call.tool.to_string(),
        input: call.input.to_string(),
    };
    calls.into_iter().enumerate().map(call).collect()
}
