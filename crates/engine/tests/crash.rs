//! Cut the log after every event, reopen, finish: no tool twice, no call unanswered, no prompt lost or doubled, at rest.
//!
//! The same through failing appends, lost answers, lost ownership and several crashes in a row.

#![allow(clippy::unwrap_used)]

mod office;

use std::{collections::BTreeMap, time::Duration};

use office::{Office, call, lines, say, settled};
use posse_engine::RunError;
use posse_models::{Scripted, ScriptedReply};
use posse_session::{Asking, Event, ModelFailure, Record};
use posse_store::Fault;
use serde_json::json;

/// Everything one session can go through here: parallel calls, reads, failures and retries, asks refused, bad calls, long texts.
fn eventful() -> Office {
    let long = "long ".repeat(3_000);
    let mut office = Office::with_model(Scripted::with(move |seen| match seen.position {
        0 => call("touch", "a").and_call("peek", json!({"what": "b"})).and_call("touch", json!({"what": "c"})),
        1 => call("touch", "d").after_failures(ModelFailure::Cut, "cut", 1),
        2 => call("touch", "forbidden"),
        3 => ScriptedReply::call("touch", json!("{oops")),
        4 => say(&long).and_call("slow", json!({"what": "e", "ms": 50})),
        _ => say("done"),
    }));
    office.rules = json!({"*": "allow", "touch": {"*": "allow", "forbidden": "ask"}});
    office.asking = Asking::Nobody;
    office
}

/// The four promises, checked on a session at rest.
async fn promises(office: &Office, what: &str) {
    let records = office.records().await;
    let ran = office.witness.lock().unwrap().clone();
    let mut unique = ran.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), ran.len(), "{what}: a tool ran twice");
    let mut results: BTreeMap<String, u32> = BTreeMap::new();
    for record in &records {
        match &record.event {
            Event::Called { call, .. } => drop(results.entry(call.to_string()).or_default()),
            Event::CallFinished { call, .. } => *results.entry(call.to_string()).or_default() += 1,
            _ => {}
        }
    }
    assert!(results.values().all(|count| *count == 1), "{what}: every call has one result: {results:?}");
    let started: Vec<String> = records
        .iter()
        .filter_map(|record| match &record.event {
            Event::CallStarted { call, .. } => Some(call.to_string()),
            _ => None,
        })
        .collect();
    assert!(ran.iter().all(|call| started.contains(call)), "{what}: a tool ran before its start was durable");
    let prompts = office.shown().iter().filter(|line| *line == "user: go").count();
    assert_eq!(prompts, 1, "{what}: the prompt is there once");
    assert_eq!(
        records.iter().map(|record| record.seq).collect::<Vec<_>>(),
        (1..=records.len() as u64).collect::<Vec<_>>(),
        "{what}: dense"
    );
    let last = records.iter().rev().find_map(|record| match &record.event {
        Event::Replied { parts, .. } => Some(format!("{parts:?}")),
        _ => None,
    });
    assert!(last.unwrap().contains("done"), "{what}: the end was reached");
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_event_is_survivable() {
    let whole = eventful();
    whole.run("go").await;
    let events = whole.memory.events();
    assert!(30 < events, "an eventful run: {events}");
    promises(&whole, "no crash").await;
    for cut in 0..=events {
        // The witness of the first life counts only what its log had begun by then: the crash is at the cut.
        let first = eventful();
        let memory = {
            first.run("go").await;
            first.memory.copy_up_to(cut)
        };
        let started: Vec<String> = started(&first, &memory).await;
        first.witness.lock().unwrap().retain(|call| started.contains(call));
        let second = first.reopened(memory);
        let names = second.names().await;
        let handle = if names.is_empty() { second.begin("go").await } else { second.open(Vec::new()).await };
        if !names.is_empty() && !names.contains(&"queued".to_owned()) {
            // Never acknowledged, so the user says it again.
            handle.say(second.entry("go")).await.unwrap();
        }
        settled(&handle).await;
        handle.close().await;
        promises(&second, &format!("cut {cut} of {events}")).await;
    }
}

async fn started(office: &Office, memory: &posse_store::Memory) -> Vec<String> {
    let records: Vec<Record> = posse_session::Log::read(memory, &office.session, 0, 10_000).await.unwrap();
    records
        .iter()
        .filter_map(|record| match &record.event {
            Event::CallStarted { call, .. } => Some(call.to_string()),
            _ => None,
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn an_append_that_fails_stops_everything_and_the_next_owner_goes_on() {
    let whole = eventful();
    whole.run("go").await;
    for after in 0..whole.memory.appends() {
        for fault in [Fault::Unavailable { after }, Fault::LostAnswer { after }, Fault::Moved { after }] {
            let office = eventful();
            office.memory.set_fault(fault);
            let handle = office.begin("go").await;
            let ended = tokio::time::timeout(Duration::from_secs(3_600), handle.settled()).await.unwrap();
            match (fault, &ended) {
                (Fault::Moved { .. }, Err(RunError::Moved)) | (_, Err(RunError::Unavailable(_))) => {}
                other => panic!("{other:?}"),
            }
            handle.close().await;
            let running = office.witness.lock().unwrap().len();
            tokio::time::sleep(Duration::from_secs(10)).await;
            assert_eq!(office.witness.lock().unwrap().len(), running, "nothing moves after the run is gone");
            let memory = office.memory.copy();
            let office = office.reopened(memory);
            let handle = if office.records().await.is_empty() { office.begin("go").await } else { office.open(Vec::new()).await };
            settled(&handle).await;
            handle.close().await;
            promises(&office, &format!("{fault:?}")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn crashes_in_a_row_end_at_rest_and_the_user_can_go_on() {
    for seed in 0..40u64 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut office = eventful();
        office.memory.set_fault(Fault::Unavailable { after: rng.u64(1..4) });
        let handle = office.begin("go").await;
        let _ = handle.settled().await;
        handle.close().await;
        for _ in 0..rng.u32(1..5) {
            let memory = office.memory.copy();
            memory.set_fault(Fault::Unavailable { after: memory.appends() + rng.u64(0..4) });
            office = office.reopened(memory);
            if office.records().await.is_empty() {
                break;
            }
            let handle = office.open(Vec::new()).await;
            let _ = tokio::time::timeout(Duration::from_secs(3_600), handle.settled()).await.unwrap();
            handle.close().await;
        }
        let memory = office.memory.copy();
        office = office.reopened(memory);
        let handle = office.open(vec![posse_session::Command::Resume { by: posse_session::By::User }]).await;
        settled(&handle).await;
        handle.close().await;
        promises(&office, &format!("seed {seed}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_running_is_lost_and_told() {
    let office = Office::new([call("slow", "x"), say("done")]);
    let handle = office.begin("go").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let memory = office.memory.copy();
    handle.close().await;
    let office = office.reopened(memory);
    let handle = office.open(Vec::new()).await;
    settled(&handle).await;
    assert_eq!(office.witness.lock().unwrap().len(), 1);
    assert!(office.shown().last().unwrap().contains("died before its result was recorded"), "{:?}", office.shown());
}

#[tokio::test(start_paused = true)]
async fn a_second_owner_is_refused_while_the_first_lives() {
    let office = Office::new([call("slow", "x"), say("done")]);
    let handle = office.begin("go").await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    let second = office.hub().open(&office.session, &office.session, office.outfits(), office.limits, Vec::new()).await;
    assert!(matches!(second, Err(posse_engine::OpenError::Held { .. })));
    settled(&handle).await;
    handle.close().await;
    let handle = office.open(vec![posse_session::Command::Say(office.entry("again"))]).await;
    settled(&handle).await;
}

#[tokio::test(start_paused = true)]
async fn a_letter_reaches_the_run_once_and_is_gone() {
    use posse_session::{Inbox as _, Letter, LetterId, Posted};
    let office = Office::new([call("slow", "x"), say("heard you")]);
    let handle = office.begin("go").await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    let id = LetterId::new("msg_letter");
    let entry = office.entry("by letter");
    let posted = Posted { id: id.clone(), root: office.session.clone(), to: office.session.clone(), letter: Letter::Say { entry } };
    office.memory.post(posted.clone()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!office.memory.waits(&id).await.unwrap());
    // The same letter again is no new words.
    office.memory.post(posted).await.unwrap();
    settled(&handle).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!office.memory.waits(&id).await.unwrap(), "a letter without facts is taken in too");
    let seen = office.model.seen();
    assert_eq!(lines(&seen.last().unwrap().messages).iter().filter(|line| *line == "user: by letter").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_nobody_took_in_is_answered_by_the_next_owner() {
    use posse_session::{Inbox as _, Letter, LetterId, Posted};
    let office = Office::new([say("one"), say("two")]);
    office.run("go").await;
    let letter = Letter::Say { entry: office.entry("anyone there?") };
    let id = LetterId::new("msg_letter");
    office.memory.post(Posted { id: id.clone(), root: office.session.clone(), to: office.session.clone(), letter }).await.unwrap();
    let handle = office.open(vec![posse_session::Command::Resume { by: posse_session::By::User }]).await;
    settled(&handle).await;
    assert!(handle.finish().await);
    assert_eq!(office.shown().last().unwrap(), "user: anyone there?");
    assert!(!office.memory.waits(&id).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_has_something_to_do_does_not_finish() {
    let office = Office::new([say("one"), call("slow", "x"), say("two")]);
    let handle = office.begin("go").await;
    settled(&handle).await;
    handle.say(office.entry("more")).await.unwrap();
    assert!(!handle.finish().await, "what was taken in is answered first");
    settled(&handle).await;
    assert!(handle.finish().await);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(!posse_session::Lease::is_held(&office.memory, &office.session).await.unwrap(), "and then the tree is free");
}
