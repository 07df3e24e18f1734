//! Answers that the output limit cuts: half a call is told to the model and never run, half a text is an answer.

#![allow(clippy::unwrap_used)]

mod office;

use office::{Office, outcomes, say, task};
use posse_models::{Scripted, ScriptedReply, Seen};
use posse_session::{Block, Event, Finish, How};
use serde_json::json;

/// Words, and a call that was cut.
fn cut(text: &str, input: &str) -> ScriptedReply {
    ScriptedReply { text: text.into(), finish: Some(Finish::Length), ..ScriptedReply::call("touch", json!(input)) }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_the_limit_cut_is_told_to_the_model_and_not_run() {
    let office = Office::new([cut("Now I write.", "{\"what\":\"x"), ScriptedReply::call("touch", json!({"what": "x"})), say("done")]);
    let session = office.run("go").await;
    let records = office.records().await;
    let told = outcomes(&records, "touch");
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("cut off at its limit of") && told[0].contains("it was not run"), "{}", told[0]);
    let started = records.iter().filter(|record| matches!(record.event, Event::CallStarted { .. })).count();
    assert_eq!(started, 1, "only the whole one ran");
    assert_eq!(session.round().how, How::Completed);
    let seen = office.model.seen();
    let said = seen[1].messages.iter().flat_map(|message| &message.blocks);
    assert!(said.clone().any(|block| matches!(block, Block::Text { text } if text == "Now I write.")), "its words are kept");
    assert!(said.clone().any(|block| matches!(block, Block::Result { error: true, .. })), "and its call has a result");
}

/// A whole call beside the half one runs, so this model gets on and is not stopped.
#[tokio::test(start_paused = true)]
async fn a_model_that_is_cut_again_and_again_fails_unless_it_gets_on() {
    let stuck = Office::with_model(Scripted::with(|seen: &Seen| cut(&format!("try {}", seen.position), "{\"what\":\"x")));
    let session = stuck.run("go").await;
    let (how, error) = (session.round().how, &session.round().error);
    assert_eq!((how, stuck.model.seen().len()), (How::Failed, 3));
    assert!(error.contains("cut off at the model's limit of output tokens") && error.contains("3 calls in a row"), "{error}");
    assert!(error.contains(".output` sets the limit"), "{error}");
    let getting_on = Office::with_model(Scripted::with(|seen: &Seen| match seen.position {
        6 => say("done"),
        at => {
            let whole = ScriptedReply::call("touch", json!({"what": format!("part {at}")}));
            ScriptedReply { finish: Some(Finish::Length), ..whole.and_call("touch", json!("{\"what\":\"x")) }
        }
    }));
    assert_eq!(getting_on.run("go").await.round().how, How::Completed);
}

#[tokio::test(start_paused = true)]
async fn an_answer_cut_before_its_first_word_says_so() {
    let silent = ScriptedReply { reasoning: "hm".into(), finish: Some(Finish::Length), ..ScriptedReply::default() };
    let office = Office::with_model(Scripted::with(move |_: &Seen| silent.clone()));
    let session = office.run("go").await;
    let (how, error) = (session.round().how, &session.round().error);
    assert_eq!((how, office.model.seen().len()), (How::Failed, 2));
    assert!(error.contains("cut off at its limit of") && error.contains("before it said anything"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn half_a_text_is_an_answer_and_a_caller_hears_that_it_is_half() {
    let office = Office::with_model(Scripted::with(|seen: &Seen| {
        let half = ScriptedReply { finish: Some(Finish::Length), ..say("half an ans") };
        match (office::prompt(seen).contains("below"), seen.position) {
            (true, _) => half,
            (false, 0) => ScriptedReply::call("agent", task("look", "look below")),
            (false, _) => say("done"),
        }
    }));
    assert_eq!(office.run("go").await.round().how, How::Completed);
    let seen = office.model.seen();
    let heard = format!("{:?}", seen.last().unwrap().messages);
    assert!(heard.contains("half an ans") && heard.contains("reached the output limit"), "{heard}");
}
