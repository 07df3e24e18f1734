//! A model that has a say in what a step hears: what it does not want yet waits on, and a step that misses something waits.

#![allow(clippy::unwrap_used)]

mod office;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use office::{Office, say, settled};
use posse_engine::{Outfit, Outfits};
use posse_models::{Scripted, ScriptedReply};
use posse_session::{
    Birth, Block, BoxFuture, Event, Head, Hearing, Hears, Live, Message, Model, ModelError, ModelFacts, Recipe, Reply, Request, SessionId,
};
use serde_json::json;

/// What is to be heard, by what a step would say and hear.
type Wants = Arc<dyn Fn(&Hearing) -> Hears + Send + Sync>;

/// A model with wants, and everything that it was asked about them.
struct Choosy {
    model: Arc<dyn Model>,
    wants: Wants,
    asked: Arc<Mutex<Vec<Hearing>>>,
}

impl Model for Choosy {
    fn facts(&self) -> &ModelFacts {
        self.model.facts()
    }

    fn encode_head(&self, head: &Head) -> Arc<[u8]> {
        self.model.encode_head(head)
    }

    fn encode(&self, message: &Message) -> Arc<[u8]> {
        self.model.encode(message)
    }

    fn reply<'a>(&'a self, request: Request, live: &'a dyn Live) -> BoxFuture<'a, Result<Reply, ModelError>> {
        self.model.reply(request, live)
    }

    fn hears(&self, _: &SessionId, next: &dyn Fn() -> Hearing) -> Hears {
        let hearing = next();
        let hears = (self.wants)(&hearing);
        self.asked.lock().unwrap().push(hearing);
        hears
    }
}

/// The office's outfits with that model.
struct ChoosyOutfits {
    outfits: Arc<dyn Outfits>,
    wants: Wants,
    asked: Arc<Mutex<Vec<Hearing>>>,
}

impl Outfits for ChoosyOutfits {
    fn recipe(&self, parent: &Recipe, agent: &str, model: Option<&str>) -> Result<Recipe, String> {
        self.outfits.recipe(parent, agent, model)
    }

    fn outfit(&self, session: &SessionId, birth: &Birth) -> Result<Outfit, String> {
        let mut outfit = self.outfits.outfit(session, birth)?;
        outfit.model = Arc::new(Choosy { model: outfit.model, wants: self.wants.clone(), asked: self.asked.clone() });
        Ok(outfit)
    }
}

/// A prompt, said to such a model; and all that the model is asked.
async fn begin(
    office: &Office,
    wants: impl Fn(&Hearing) -> Hears + Send + Sync + 'static,
) -> (posse_engine::Handle, Arc<Mutex<Vec<Hearing>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let outfits = Arc::new(ChoosyOutfits { outfits: office.outfits(), wants: Arc::new(wants), asked: asked.clone() });
    let created = office.hub().create(office.session.clone(), office.created(), office.entry("go"), outfits, office.limits).await;
    (created.unwrap(), asked)
}

/// The same to its end: what the model was shown at last, what it was asked, and how long that took.
async fn run(office: &Office, wants: impl Fn(&Hearing) -> Hears + Send + Sync + 'static) -> (Vec<String>, Vec<Hearing>, Duration) {
    let began = tokio::time::Instant::now();
    let (handle, asked) = begin(office, wants).await;
    settled(&handle).await;
    handle.close().await;
    let asked = std::mem::take(&mut *asked.lock().unwrap());
    (office.shown(), asked, began.elapsed())
}

fn text(blocks: &[Block]) -> &str {
    if let [Block::Text { text }] = blocks { text } else { "" }
}

/// The entries with these words, in this order; later, if one is missing.
fn only(hearing: &Hearing, wanted: &[&str]) -> Hears {
    let found = wanted.iter().map(|word| hearing.waiting.iter().find(|(_, says)| text(says) == *word));
    found.map(|entry| entry.map(|(id, _)| id.clone())).collect::<Option<Vec<_>>>().map_or(Hears::Later, Hears::Only)
}

/// What a call leaves running, which says a word after a while.
fn keeps<const N: usize>(kept: [(&str, u64); N]) -> ScriptedReply {
    let mut calls = kept.into_iter().map(|(word, ms)| ("keep", json!({"what": word, "ms": ms, "says": word})));
    let (tool, input) = calls.next().unwrap();
    calls.fold(ScriptedReply::call(tool, input), |reply, (tool, input)| reply.and_call(tool, input))
}

/// Two that end at different times are heard in one step, in the order that the model wants; one that came first waits on.
#[tokio::test(start_paused = true)]
async fn a_step_waits_for_what_its_model_wants_to_hear_and_takes_no_more() {
    let office = Office::new([keeps([("one", 100), ("two", 1_000), ("three", 5_000)]), say("started"), say("heard two"), say("heard all")]);
    let (shown, asked, took) = run(&office, |hearing| match hearing.says.first() {
        Some(message) if text(&message.blocks) == "started" => only(hearing, &["three", "two"]),
        _ => Hears::All,
    })
    .await;
    let expected = ["agent: started", "user: three", "user: two", "agent: heard two", "user: one"];
    assert_eq!(shown[shown.len() - 5..], expected, "{shown:#?}");
    assert!(Duration::from_secs(5) <= took && took < Duration::from_secs(6), "{took:?}");
    let waiting: Vec<usize> = asked.iter().map(|hearing| hearing.waiting.len()).collect();
    assert!(waiting.contains(&1) && waiting.contains(&2) && waiting.contains(&3), "asked again as more waits: {waiting:?}");
}

/// Inside a turn a step may take nothing; where one begins it takes something.
#[tokio::test(start_paused = true)]
async fn what_is_not_wanted_in_a_turn_begins_the_next() {
    let office =
        Office::new([keeps([("one", 100)]), ScriptedReply::call("slow", json!({"what": "nap", "ms": 1_000})), say("slept"), say("heard")]);
    let (shown, asked, _) = run(&office, |_| Hears::Only(Vec::new())).await;
    assert_eq!(shown[shown.len() - 3..], ["user: = slept nap", "agent: slept", "user: one"], "{shown:#?}");
    let steps: Vec<(bool, usize, usize)> =
        asked.iter().map(|hearing| (hearing.inside_turn, hearing.says.len(), hearing.waiting.len())).collect();
    // The prompt; after the first call; after the second, which took long enough; the notice.
    assert_eq!(steps, [(false, 0, 1), (true, 2, 0), (true, 2, 1), (false, 2, 1)]);
}

/// Nobody but the model knows why it waits; whoever ends a turn ends the waiting too.
#[tokio::test(start_paused = true)]
async fn a_step_that_waits_for_words_is_stopped_like_any_other() {
    let office = Office::new([say("never said")]);
    let (handle, asked) = begin(&office, |_| Hears::Later).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    handle.interrupt().await.unwrap();
    handle.close().await;
    let asked = asked.lock().unwrap().len();
    assert!((100..2_000).contains(&asked), "asked again soon, and not all the time: {asked}");
    assert!(!office.records().await.iter().any(|record| matches!(record.event, Event::StepStarted { .. })));
}

/// A model without wants hears what there is.
#[tokio::test(start_paused = true)]
async fn without_wants_a_step_takes_what_waits() {
    let office = Office::with_model(Scripted::new([keeps([("one", 100), ("two", 100)]), say("started"), say("heard both")]));
    office.run("go").await;
    let shown = office.shown();
    assert_eq!(shown[shown.len() - 2..], ["user: one", "user: two"], "{shown:#?}");
}
