//! What forks cost in memory: a hundred of them, all under way at once, share the conversation they begin with.
//!
//! Alone in its file, because it looks at the memory of the whole process.

#![allow(clippy::unwrap_used)]

mod office;

use std::sync::{Arc, Mutex};

use office::{Office, settled, summaries};
use posse_engine::{Outfit, Outfits};
use posse_models::Scripted;
use posse_session::{
    Birth, BoxFuture, Finish, Forks, Head, Hook, Live, Message, Model, ModelError, ModelFacts, Recipe, Reply, ReplyPart, Request,
    SessionId, Usage,
};
use serde_json::json;
use tokio::sync::Barrier;

const MARK: &str = "<fork-boilerplate>";
const FORKS: usize = 100;
const STEPS: usize = 10;
const STEP_BYTES: usize = 512 * 1024;
const MORE_BYTES_MAX: u64 = 20 * 1024 * 1024;

/// Says a lot, forks a hundred times, and answers no fork before all have asked. It keeps nothing and parses nothing.
struct Talker {
    facts: ModelFacts,
    all: Barrier,
    /// What the process held before the forks and while all of them were under way.
    held: Mutex<Vec<u64>>,
    forks: Mutex<Vec<Request>>,
}

impl Talker {
    fn new() -> Self {
        let facts = ModelFacts { context: 100_000_000, ..Scripted::new([""]).facts().clone() };
        Self { facts, all: Barrier::new(FORKS), held: Mutex::default(), forks: Mutex::default() }
    }

    async fn talk(&self, request: Request) -> Reply {
        let call = |id: String, tool: &str, input: serde_json::Value| ReplyPart::Call { id, tool: tool.into(), input: input.to_string() };
        let is_fork = request.messages.last().is_some_and(|bytes| String::from_utf8_lossy(bytes).contains(MARK));
        let step = request.messages.len() / 2;
        let parts = if is_fork {
            self.forks.lock().unwrap().push(request);
            if self.all.wait().await.is_leader() {
                self.held.lock().unwrap().push(held());
            }
            vec![ReplyPart::Text("did it".into())]
        } else if step < STEPS {
            let text = format!("{step} ").repeat(STEP_BYTES / 2);
            vec![ReplyPart::Text(text), call(format!("call_{step}"), "touch", json!({"what": step.to_string()}))]
        } else if step == STEPS {
            self.held.lock().unwrap().push(held());
            let fork = |at: usize| json!({"description": "part", "prompt": format!("part {at}"), "subagent_type": "fork"});
            (0..FORKS).map(|at| call(format!("fork_{at}"), "agent", fork(at))).collect()
        } else {
            vec![ReplyPart::Text("done".into())]
        };
        let finish = if parts.iter().any(|part| matches!(part, ReplyPart::Call { .. })) { Finish::Calls } else { Finish::Stop };
        Reply { parts, usage: Usage::default(), finish }
    }
}

impl Model for Talker {
    fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    fn encode_head(&self, head: &Head) -> Arc<[u8]> {
        serde_json::to_vec(head).unwrap().into()
    }

    fn encode(&self, message: &Message) -> Arc<[u8]> {
        serde_json::to_vec(message).unwrap().into()
    }

    fn reply<'a>(&'a self, request: Request, _: &'a dyn Live) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move { Ok(self.talk(request).await) })
    }
}

/// The office's outfits with this model in them.
struct Talking(Arc<dyn Outfits>, Arc<Talker>);

impl Outfits for Talking {
    fn recipe(&self, parent: &Recipe, agent: &str, model: Option<&str>) -> Result<Recipe, String> {
        self.0.recipe(parent, agent, model)
    }

    fn outfit(&self, session: &SessionId, birth: &Birth) -> Result<Outfit, String> {
        Ok(Outfit { model: self.1.clone(), ..self.0.outfit(session, birth)? })
    }
}

/// Bytes of this process that are in memory.
fn held() -> u64 {
    let pages: u64 = std::fs::read_to_string("/proc/self/statm").unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// Only looks on.
struct Onlooker;

impl Hook for Onlooker {
    fn name(&self) -> &str {
        "onlooker"
    }
}

/// Both in one test: they look at the same memory.
#[tokio::test(start_paused = true)]
async fn a_hundred_forks_of_five_megabytes_cost_less_than_twenty_more() {
    for hooks in [Vec::new(), vec![Arc::new(Onlooker) as Arc<dyn Hook>]] {
        let hooked = !hooks.is_empty();
        let talker = Arc::new(Talker::new());
        let base = Office::with_model(Scripted::new([""]));
        let office = Office { forks: Forks::Explicit, calls_max: FORKS, hooks, lanes: [("scripted".to_owned(), FORKS)].into(), ..base };
        let outfits = Arc::new(Talking(office.outfits(), talker.clone()));
        let handle =
            office.hub().create(office.session.clone(), office.created(), office.entry("go"), outfits, office.limits).await.unwrap();
        settled(&handle).await;
        handle.close().await;
        assert_eq!(summaries(&office.memory).await.len(), 1 + FORKS);
        let forks = std::mem::take(&mut *talker.forks.lock().unwrap());
        let bytes: usize = forks[0].messages.iter().map(|message| message.len()).sum();
        assert!(STEPS * STEP_BYTES <= bytes, "the conversation is as long as it should be: {bytes}");
        for fork in &forks {
            let shared = fork.messages.iter().zip(&forks[0].messages).take_while(|(one, other)| Arc::ptr_eq(one, other)).count();
            assert_eq!(shared, fork.messages.len() - if std::ptr::eq(fork, &forks[0]) { 0 } else { 2 }, "with hooks: {hooked}");
            assert!(Arc::ptr_eq(&fork.head, &forks[0].head));
        }
        let held = talker.held.lock().unwrap().clone();
        let more = held[1].saturating_sub(held[0]);
        println!("with hooks: {hooked}: {} KB before, {} KB more", held[0] / 1024, more / 1024);
        assert!(more < MORE_BYTES_MAX, "with hooks: {hooked}: {} MB more", more / 1024 / 1024);
    }
}
