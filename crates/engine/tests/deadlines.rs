//! Time that runs out: deadlines of tasks and turns, stops that are quick, and models that stand in for one that is overloaded.

#![allow(clippy::unwrap_used)]

mod office;

use std::{collections::HashMap, sync::Arc, time::Duration};

use office::{
    Office, background, check_tree, ends, last, limits, lines, log, notices, outcomes, prompt, say, settled, summaries, survives_every_cut,
    task,
};
use posse_models::{Scripted, ScriptedReply, Seen};
use posse_session::{By, Command, Event, Hold, How, Limit, ModelFacts, ModelFailure, Prices, Record, SessionId, Status, Text, To};
use serde_json::json;

fn is(seen: &Seen, words: &str) -> bool {
    prompt(seen) == format!("user: {words}")
}

fn slow(millis: u64) -> ScriptedReply {
    ScriptedReply::call("slow", json!({"what": "x", "ms": millis}))
}

fn count(records: &[Record], is: impl Fn(&Event) -> bool) -> usize {
    records.iter().filter(|record| is(&record.event)).count()
}

async fn child(office: &Office) -> SessionId {
    summaries(&office.memory).await[1].session.clone()
}

/// A worker that goes on and on, ten seconds at a time, and says so.
fn endless(wait: bool) -> Office {
    let mut office = Office::with_model(Scripted::with(move |seen| match seen.position {
        0 if is(seen, "go") && wait => ScriptedReply::call("agent", task("part", "go on and on")),
        0 if is(seen, "go") => ScriptedReply::call("agent", background("part", "go on and on")),
        _ if is(seen, "go") => say("I go on"),
        position => say(&format!("part {position}")).and_call("slow", json!({"what": position.to_string(), "ms": 10_000})),
    }));
    office.walls = HashMap::from([("worker".to_owned(), Duration::from_secs(35))]);
    office
}

/// A task's round that takes too long ends failed with the deadline's name and what it had said; its parent goes on.
#[tokio::test(start_paused = true)]
async fn a_task_that_takes_too_long_ends_with_what_it_had_said() {
    for wait in [true, false] {
        let office = endless(wait);
        let handle = office.begin("go").await;
        let began = tokio::time::Instant::now();
        let session = settled(&handle).await;
        let took = began.elapsed();
        assert!(Duration::from_secs(35) <= took && took < Duration::from_secs(36), "{took:?}");
        handle.close().await;
        assert_eq!(session.hold(), None);
        let ended = ends(&office.records().await);
        assert_eq!((ended.len(), ended[0].0), (1, How::Failed));
        for part in ["the time limit of 35s is used up (limits.wall)", "The last it had said:\npart 3", "task_id: ses_"] {
            assert!(ended[0].1.contains(part), "{part}: {ended:?}");
        }
        let below = log(&office.memory, &child(&office).await).await;
        assert_eq!(limits(&below), [(Limit::Wall, true)]);
        assert_eq!(outcomes(&below, "slow").last().unwrap(), "cancelled half asleep", "its tool was stopped");
        let status: Vec<Status> = summaries(&office.memory).await.iter().map(|summary| summary.status).collect();
        assert_eq!(status, [Status::Completed, Status::Failed]);
        check_tree(&office, "wall").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_anywhere_around_a_deadline_is_survivable() {
    for wait in [true, false] {
        let office = endless(wait);
        office.run("go").await;
        survives_every_cut(office, async |office, what| {
            let ended = ends(&office.records().await);
            assert!(ended.iter().all(|(how, words)| *how == How::Failed && words.contains("(limits.wall)")), "{what}: {ended:?}");
        })
        .await;
    }
}

/// Who went on after its deadline by a message has a round of its own, and the whole time again.
#[tokio::test(start_paused = true)]
async fn a_deadline_is_per_round() {
    let mut office = Office::with_model(Scripted::with(|seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call("agent", background("part", "work")),
        2 if is(seen, "go") => ScriptedReply::call("send_message", json!({"to": "part", "message": "again"})),
        _ if is(seen, "go") => say("ok"),
        0 => slow(60_000),
        1 => slow(20_000),
        _ => say("in time"),
    }));
    office.walls = HashMap::from([("worker".to_owned(), Duration::from_secs(30))]);
    office.run("go").await;
    let ended = ends(&office.records().await);
    assert_eq!(ended.iter().map(|(how, _)| *how).collect::<Vec<_>>(), [How::Failed, How::Completed], "{ended:?}");
    assert!(ended[1].1.contains("in time"), "{ended:?}");
    check_tree(&office, "per round").await;
}

/// A model or a tool that shows nothing for too long has ended the task; one that does not even stop is left behind.
#[tokio::test(start_paused = true)]
async fn a_task_in_which_nothing_happens_ends_with_what_it_had_said() {
    let silent: [(&str, ScriptedReply, u64); 3] = [
        ("a silent model", say("too late").after(Duration::from_secs(600)), 60),
        ("a silent tool", slow(600_000), 60),
        ("a tool that does not stop", ScriptedReply::call("deaf", json!({})), 65),
    ];
    for (what, second, seconds) in silent {
        let mut office = Office::with_model(Scripted::with(move |seen| match seen.position {
            0 if is(seen, "go") => ScriptedReply::call("agent", task("part", "work")),
            _ if is(seen, "go") => say("I go on"),
            0 => say("I begin").and_call("peek", json!({})),
            _ => second.clone(),
        }));
        office.idle = Duration::from_secs(60);
        let handle = office.begin("go").await;
        let began = tokio::time::Instant::now();
        settled(&handle).await;
        let took = began.elapsed();
        assert!(Duration::from_secs(seconds) <= took && took < Duration::from_secs(seconds + 1), "{what}: {took:?}");
        handle.close().await;
        let ended = ends(&office.records().await);
        assert_eq!((ended.len(), ended[0].0), (1, How::Failed), "{what}");
        for part in ["nothing happened for 1m (limits.idle)", "The last it had said:\nI begin"] {
            assert!(ended[0].1.contains(part), "{what}, {part}: {ended:?}");
        }
        assert_eq!(limits(&log(&office.memory, &child(&office).await).await), [(Limit::Idle, true)], "{what}");
        assert_eq!(limits(&office.records().await), [], "{what}: who waits for a task is not idle");
        assert!(office.shown().last().unwrap().contains("(limits.idle)"), "{what}: the parent has heard of it");
        check_tree(&office, what).await;
    }
}

/// What shows something now and then is not idle, however long it takes; nor is who waits for a task, a person or a timer.
#[tokio::test(start_paused = true)]
async fn what_shows_something_now_and_then_is_not_idle() {
    let mut office = Office::with_model(Scripted::with(|seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call("agent", task("part", "work")),
        _ if is(seen, "go") => say("ok"),
        0 => ScriptedReply::call("slow", json!({"what": "x", "ms": 3_000_000, "beats": true})),
        _ => say("worked"),
    }));
    office.idle = Duration::from_secs(5);
    office.run("go").await;
    assert_eq!(ends(&office.records().await)[0].0, How::Completed);
    check_tree(&office, "alive").await;
}

/// Who waits for its first turn in a lane has not begun, and its time does not run.
#[tokio::test(start_paused = true)]
async fn time_in_a_lanes_queue_is_not_time_of_the_task() {
    let mut office = Office::with_model(Scripted::with(|seen| match seen.position {
        0 if is(seen, "go") => (0..6)
            .fold(ScriptedReply::default(), |reply, at| reply.and_call("agent", background(&format!("part-{at}"), &format!("work {at}")))),
        _ if is(seen, "go") => say("ok"),
        _ => say("in time").after(Duration::from_secs(20)),
    }));
    office.lanes = HashMap::from([("scripted".to_owned(), 1)]);
    office.walls = HashMap::from([("worker".to_owned(), Duration::from_secs(25))]);
    office.idle = Duration::from_secs(25);
    let handle = office.begin("go").await;
    let began = tokio::time::Instant::now();
    settled(&handle).await;
    assert!(Duration::from_secs(120) <= began.elapsed(), "one after the other: {:?}", began.elapsed());
    handle.close().await;
    let ended = ends(&office.records().await);
    assert_eq!(ended.len(), 6);
    assert!(ended.iter().all(|(how, _)| *how == How::Completed), "{ended:?}");
    check_tree(&office, "lane").await;
}

/// CC-242: neither is it time after which a task goes to the background.
#[tokio::test(start_paused = true)]
async fn time_in_a_lanes_queue_does_not_send_a_task_to_the_background() {
    let mut office = Office::with_model(Scripted::with(|seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call("agent", task("one", "work 1")).and_call("agent", task("two", "work 2")),
        _ if is(seen, "go") => say("ok"),
        _ => say("in time").after(Duration::from_secs(20)),
    }));
    office.lanes = HashMap::from([("scripted".to_owned(), 1)]);
    office.detach_after = Some(Duration::from_secs(25));
    office.run("go").await;
    let records = office.records().await;
    assert_eq!(count(&records, |event| matches!(event, Event::Detached { .. })), 0);
    assert_eq!(count(&records, |event| matches!(event, Event::TaskEnded { to: To::Call { .. }, .. })), 2);
}

/// A root has its time for every turn; when it is used up, the turn ends at a limit and what it had set going ends too.
#[tokio::test(start_paused = true)]
async fn a_roots_deadline_is_per_turn() {
    let mut office = Office::with_model(Scripted::with(|seen| match (last(seen).as_str(), seen.position) {
        ("user: long", _) => ScriptedReply::call("agent", background("part", "work")).and_call("slow", json!({"what": "x", "ms": 40_000})),
        ("user: work", _) => slow(600_000),
        (words, _) if words.starts_with("user: =") => say("done"),
        _ => slow(20_000),
    }));
    office.wall = Duration::from_secs(30);
    office.walls = HashMap::from([("worker".to_owned(), Duration::from_secs(7_200))]);
    office.run("go").await;
    for words in ["once more", "and again"] {
        let handle = office.open(vec![Command::Say(office.entry(words))]).await;
        assert_eq!(settled(&handle).await.hold(), None, "{words}");
        handle.close().await;
    }
    let handle = office.open(vec![Command::Say(office.entry("long"))]).await;
    let began = tokio::time::Instant::now();
    let session = settled(&handle).await;
    let took = began.elapsed();
    assert!(Duration::from_secs(30) <= took && took < Duration::from_secs(31), "{took:?}");
    handle.close().await;
    assert_eq!(session.hold(), Some(Hold::Limit));
    assert_eq!(limits(&office.records().await), [(Limit::Time, true)]);
    let all = summaries(&office.memory).await;
    assert_eq!((all[0].status, all[1].status), (Status::Limit, Status::Stopped));
    check_tree(&office, "per turn").await;
}

/// Time in which a root only waits for the background is no turn.
#[tokio::test(start_paused = true)]
async fn a_root_that_only_waits_has_no_deadline() {
    let mut office = Office::with_model(Scripted::with(|seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call("agent", background("part", "work")),
        _ if is(seen, "go") => say("ok"),
        0 => slow(3_000_000),
        _ => say("worked"),
    }));
    office.wall = Duration::from_secs(30);
    office.walls = HashMap::from([("worker".to_owned(), Duration::from_secs(7_200))]);
    office.run("go").await;
    assert_eq!(limits(&office.records().await), []);
    assert_eq!(notices(&office.records().await).len(), 1);
    check_tree(&office, "waits").await;
}

/// CC-125: three deep, in the foreground and in the background, a stop is a matter of moments.
#[tokio::test(start_paused = true)]
async fn a_stop_of_a_deep_tree_is_quick() {
    for hidden in [false, true] {
        let office = Office::with_model(Scripted::with(move |seen| {
            let depth = prompt(seen).split("depth ").nth(1).map_or(0, |depth| depth.parse::<usize>().unwrap());
            match (seen.position, depth) {
                (0, 3) => slow(600_000).and_call("slow", json!({"what": "z", "ms": 600_000})),
                (0, depth) => [0, 1].iter().fold(ScriptedReply::default(), |reply, at| {
                    let words = format!("depth {}", depth + 1);
                    let name = format!("{}-{at}", seen.session);
                    let input = if hidden { background(&name[name.len() - 20..], &words) } else { task("deeper", &words) };
                    reply.and_call("agent", input)
                }),
                _ => slow(600_000),
            }
        }));
        let handle = office.begin("go").await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(summaries(&office.memory).await.len(), 15, "1 + 2 + 4 + 8");
        let began = tokio::time::Instant::now();
        handle.command(Command::Interrupt { by: By::User, hold: Hold::StoppedByUser, partial: Text::default() }).await.unwrap();
        settled(&handle).await;
        assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
        handle.close().await;
        assert!(summaries(&office.memory).await.iter().all(|summary| summary.status == Status::Stopped));
        check_tree(&office, "stopped").await;
    }
}

/// A second model, of another provider, that says who it is.
fn backup(name: &str) -> Arc<Scripted> {
    let said = format!("{name} says hello");
    let facts = ModelFacts {
        name: format!("other/{name}"),
        provider: "other".to_owned(),
        context: 200_000,
        output: 8_192,
        prices: Prices::default(),
        images: true,
    };
    Arc::new(Scripted::with(move |_| say(&said)).with_facts(facts))
}

/// A model that is overloaded so often in its first turn, and two that could stand in.
fn overloaded(times: u32) -> Office {
    let mut office = Office::with_model(Scripted::with(move |seen| match seen.position {
        0 => say("myself").after_failures(ModelFailure::Overloaded, "too busy", times),
        _ => say("myself again"),
    }));
    office.others = vec![backup("first"), backup("second")];
    office.fallbacks = vec!["other/first".to_owned(), "other/second".to_owned()];
    office
}

fn changes(records: &[Record]) -> Vec<Option<String>> {
    let change = |record: &Record| if let Event::ModelChanged { model, .. } = &record.event { Some(model.clone()) } else { None };
    records.iter().filter_map(change).collect()
}

/// Overloaded once, it is waited for; twice in a row, another answers, and a later turn begins with the session's own again.
#[tokio::test(start_paused = true)]
async fn a_model_that_is_overloaded_twice_is_stood_in_for_until_a_later_turn() {
    let back = vec![Some("other/first".to_owned()), None];
    for (times, expected, changed) in [(1, "agent: myself", vec![]), (2, "agent: first says hello", back)] {
        let office = overloaded(times);
        let handle = office.begin("go").await;
        settled(&handle).await;
        // Nobody wants to ask it again while its lane pauses.
        tokio::time::sleep(Duration::from_secs(600)).await;
        handle.say(office.entry("and now?")).await.unwrap();
        settled(&handle).await;
        handle.close().await;
        assert_eq!(changes(&office.records().await), changed);
        assert_eq!(office.shown(), ["user: go", expected, "user: and now?"], "its own model hears what was said meanwhile");
        assert_eq!((office.others[0].seen().len(), office.others[1].seen().len()), (usize::from(times == 2), 0));
        // Whoever stands in is told the same.
        if let Some(seen) = office.others[0].seen().first() {
            assert_eq!(lines(&seen.messages), ["user: go"]);
            assert_eq!(seen.head.system, office.system);
        }
        check_tree(&office, "stood in for").await;
    }
}

/// Where the stand-in is overloaded too, the next one is asked.
#[tokio::test(start_paused = true)]
async fn who_stands_in_is_stood_in_for_too() {
    let mut office = overloaded(9);
    let facts = posse_session::Model::facts(&*office.others[0]).clone();
    let busy = Scripted::with(|_| ScriptedReply::failing(ModelFailure::Overloaded, "busy as well")).with_facts(facts);
    office.others[0] = Arc::new(busy);
    office.run("go").await;
    assert_eq!(changes(&office.records().await), [Some("other/first".to_owned()), Some("other/second".to_owned())]);
    let root = &summaries(&office.memory).await[0];
    assert_eq!(root.status, Status::Completed);
    check_tree(&office, "second").await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_anywhere_around_a_stand_in_is_survivable() {
    let office = overloaded(2);
    let handle = office.begin("go").await;
    settled(&handle).await;
    handle.say(office.entry("and now?")).await.unwrap();
    settled(&handle).await;
    handle.close().await;
    survives_every_cut(office, async |office, what| {
        let root = &summaries(&office.memory).await[0];
        assert_eq!(root.status, Status::Completed, "{what}");
    })
    .await;
}
