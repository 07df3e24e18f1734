//! Tasks that nobody waits for: they are launched, go on, and their end is a notice that is heard once.

#![allow(clippy::unwrap_used)]

mod office;

use std::{collections::HashMap, time::Duration};

use office::{
    Office, background, check_tree, last, lines, log, notices, outcomes, prompt, say, settled, summaries, survives_every_cut,
    survives_every_fault, task,
};
use posse_models::{Scripted, ScriptedReply};
use posse_session::{By, Command, Event, Hold, How, Outcome, Record, SessionId, Status, Text, To};
use posse_tools::Dialect;
use serde_json::json;

/// The root launches a worker and ends its turn; the worker touches something and answers; the notice is answered.
fn launching() -> Office {
    Office::with_model(Scripted::with(|seen| match (prompt(seen).as_str(), seen.position) {
        ("user: go", 0) => ScriptedReply::call("agent", background("part", "work")),
        ("user: go", 1) => say("it works"),
        ("user: go", _) => say(&format!("heard: {}", last(seen).lines().next().unwrap())),
        (_, 0) => say("I begin").and_call("touch", json!({"what": "x"})),
        (_, 1) => ScriptedReply::call("slow", json!({"what": "y", "ms": 5_000})),
        _ => say("the result"),
    }))
}

/// What the root said last.
async fn last_words(office: &Office) -> String {
    let said = |record: &Record| if let Event::Replied { parts, .. } = &record.event { Some(format!("{parts:?}")) } else { None };
    office.records().await.iter().rev().find_map(said).unwrap_or_default()
}

/// How often something stands among what happened.
fn count(records: &[Record], is: impl Fn(&Event) -> bool) -> usize {
    records.iter().filter(|record| is(&record.event)).count()
}

/// Lets time pass until something holds of the tree.
async fn until(office: &Office, what: &str, holds: impl AsyncFn(&Office) -> bool) {
    for _ in 0..100_000 {
        if holds(office).await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came to this: {what}");
}

/// CC-121, CC-122, CC-127, CC-128, CC-234, CC-238, CC-243, CC-250, CC-281: the call is answered at once, the turn ends, and
/// the end of the task begins a new one; what the call was answered with stays as it was.
#[tokio::test(start_paused = true)]
async fn a_launched_task_ends_in_one_notice_and_its_call_stays_as_it_was() {
    let office = launching();
    let handle = office.begin("go").await;
    let began = tokio::time::Instant::now();
    handle.only_waits().await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(1), "the root does not wait for the worker");
    let child = summaries(&office.memory).await[1].session.clone();
    let session = handle.session().unwrap().unwrap();
    assert!(!session.is_settled() && session.tasks().contains_key(&child), "the task is open");
    let at_first = outcomes(&office.records().await, "agent");
    assert_eq!(
        at_first,
        [format!(
            "The task runs in the background. A notice with its result comes to you by itself: do other work meanwhile or end your turn; do not poll, and do not guess the result.\noutput: /stories/{child}.txt\ntask_id: {child}"
        )]
    );
    settled(&handle).await;
    handle.close().await;
    let records = office.records().await;
    assert_eq!(outcomes(&records, "agent"), at_first, "nobody rewrote the result of the call");
    let heard = notices(&records);
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert!(heard[0].starts_with("[task part completed] part\n\nthe result\n\n"), "{heard:?}");
    assert!(heard[0].ends_with(&format!("output: /stories/{child}.txt\ntask_id: {child}")), "{heard:?}");
    // A new turn: the notice stands after the words that had ended the last one.
    let shown = office.shown();
    assert_eq!(shown[3], "agent: it works");
    assert_eq!(shown[4], format!("user: {}", heard[0]));
    assert_eq!(shown.len(), 5);
    assert!(last_words(&office).await.contains("heard: user: [task part completed] part"));
    let root = &summaries(&office.memory).await[0];
    assert_eq!((root.status, root.open_tasks, root.steps), (Status::Completed, 0, 3));
    check_tree(&office, "no crash").await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_anywhere_around_a_launched_task_is_survivable() {
    let office = launching();
    office.run("go").await;
    assert!(25 < office.memory.events(), "an eventful run: {}", office.memory.events());
    survives_every_cut(office, async |office, what| {
        let records = office.records().await;
        let called = count(&records, |event| matches!(event, Event::Called { .. }));
        assert_eq!(summaries(&office.memory).await.len(), 1 + called, "{what}: one child per call");
        assert_eq!(notices(&records).len(), called, "{what}: one notice per child");
        let expected = if called == 0 { "" } else { "heard: user: [task part completed] part" };
        assert!(last_words(office).await.contains(expected), "{what}: {}", last_words(office).await);
    })
    .await;
}

/// Three workers of different speed, and a root that is busy until all three have ended.
fn busy() -> Office {
    Office::with_model(Scripted::with(|seen| match (prompt(seen).as_str(), seen.position) {
        ("user: go", 0) => ["one", "two", "three"]
            .iter()
            .fold(ScriptedReply::default(), |reply, name| reply.and_call("agent", background(name, &format!("work {name}")))),
        ("user: go", 1) => ScriptedReply::call("slow", json!({"what": "root", "ms": 60_000})),
        ("user: go", _) => say(&format!("heard {}", lines(&seen.messages).iter().filter(|line| line.contains("completed]")).count())),
        ("user: work one", 0) => ScriptedReply::call("slow", json!({"what": "one", "ms": 9_000})),
        ("user: work two", 0) => ScriptedReply::call("slow", json!({"what": "two", "ms": 2_000})),
        (_, 0) => ScriptedReply::call("touch", json!({"what": "three"})),
        (who, _) => say(&format!("did {who}")),
    }))
}

/// CC-128, CC-253: what waits together is delivered together, in the order in which it came.
#[tokio::test(start_paused = true)]
async fn notices_that_wait_together_are_delivered_together() {
    let office = busy();
    office.run("go").await;
    let records = office.records().await;
    assert_eq!(notices(&records).len(), 3);
    let took: Vec<usize> = records
        .iter()
        .filter_map(|record| if let Event::StepStarted { took, .. } = &record.event { Some(took.len()) } else { None })
        .collect();
    assert_eq!(took, [1, 0, 3], "one step hears all three, inside the turn");
    let order: Vec<String> = office.shown().into_iter().filter(|line| line.starts_with("user: [task ")).collect();
    let names: Vec<&str> = order.iter().map(|line| line.split(' ').nth(2).unwrap()).collect();
    assert_eq!(names, ["three", "two", "one"]);
    assert!(last_words(&office).await.contains("heard 3"));
    check_tree(&office, "no crash").await;
}

#[tokio::test(start_paused = true)]
async fn an_append_that_fails_anywhere_around_launched_tasks_stops_the_tree_and_the_next_owner_goes_on() {
    survives_every_fault(launching).await;
    survives_every_fault(busy).await;
    survives_every_fault(mixed).await;
    survives_every_fault(|| keeping(Some("exit code 0"))).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_anywhere_around_three_launched_tasks_is_survivable() {
    let office = busy();
    office.run("go").await;
    survives_every_cut(office, async |office, what| {
        let records = office.records().await;
        let called = count(&records, |event| matches!(event, Event::Called { tool, .. } if tool == "agent"));
        assert_eq!(notices(&records).len(), called, "{what}");
        assert_eq!(summaries(&office.memory).await.len(), 1 + called, "{what}");
    })
    .await;
}

/// CC-126, CC-128: a lane of three carries 24 tasks, never more than three at once, and every one of them is heard once.
#[tokio::test(start_paused = true)]
async fn a_narrow_lane_carries_many_tasks_and_every_notice_is_heard_once() {
    for dialect in [Dialect::Posse, Dialect::Claude] {
        let tool = dialect.tool();
        let mut office = Office::with_model(Scripted::with(move |seen| match (prompt(seen).as_str(), seen.position) {
            ("user: go", 0) => (0..24)
                .fold(ScriptedReply::default(), |reply, at| reply.and_call(tool, background(&format!("part-{at}"), &format!("work {at}")))),
            ("user: go", _) => say("ok"),
            (_, 0) => ScriptedReply::call("peek", json!({"what": "x"})).after(Duration::from_secs(2)),
            (who, _) => say(&format!("did {who}")).after(Duration::from_secs(3)),
        }));
        office.dialect = dialect;
        office.lanes = HashMap::from([("scripted".to_owned(), 3)]);
        office.run("go").await;
        assert_eq!(office.busy.most(), 3, "{dialect:?}: the lane is full and never more than that");
        let heard = notices(&office.records().await);
        assert_eq!(heard.len(), 24, "{dialect:?}");
        let shown = office.shown();
        for at in 0..24 {
            let said = format!("did user: work {at}\n");
            let told = |words: &str| words.contains(&said) || words.contains(&format!("did user: work {at}<"));
            assert_eq!(heard.iter().filter(|words| told(words)).count(), 1, "{dialect:?}: {said}");
            assert_eq!(shown.iter().filter(|line| told(line)).count(), 1, "{dialect:?}: the model reads it once: {said}");
        }
        if dialect == Dialect::Claude {
            for words in &heard {
                assert!(words.starts_with("<task-notification>\n<task-id>ses_"), "{words}");
                assert!(words.contains("<status>completed</status>") && words.contains("\" completed</summary>"), "{words}");
            }
        }
        check_tree(&office, &format!("{dialect:?}")).await;
    }
}

/// The root calls the owl, whose recipe says that it works in the background.
fn owls(asked: Option<bool>) -> Office {
    Office::with_model(Scripted::with(move |seen| match (prompt(seen).as_str(), seen.position) {
        ("user: go", 0) => {
            let mut input = task("watch", "watch the night");
            input["subagent_type"] = json!("owl");
            if let Some(asked) = asked {
                input["run_in_background"] = json!(asked);
            }
            ScriptedReply::call("agent", input)
        }
        ("user: go", _) => say("ok"),
        _ => say("nothing moved").after(Duration::from_secs(30)),
    }))
}

/// CC-047, CC-062, CC-115, CC-116: what the recipe says is enough, and so is what the call says.
#[tokio::test(start_paused = true)]
async fn an_agent_whose_recipe_says_so_runs_in_the_background_without_being_asked() {
    for asked in [None, Some(false), Some(true)] {
        let office = owls(asked);
        let handle = office.begin("go").await;
        handle.only_waits().await.unwrap();
        assert!(outcomes(&office.records().await, "agent")[0].starts_with("The task runs in the background."), "{asked:?}");
        settled(&handle).await;
        handle.close().await;
        let heard = notices(&office.records().await);
        assert!(heard.len() == 1 && heard[0].contains("nothing moved"), "{asked:?}: {heard:?}");
        check_tree(&office, "owl").await;
    }
}

/// CC-021, CC-039, CC-254: where background work is switched off nobody is offered it, who asks for it is told, and who would do it
/// by its recipe is waited for.
#[tokio::test(start_paused = true)]
async fn where_background_work_is_switched_off_everybody_is_waited_for() {
    let mut office = owls(None);
    office.background = false;
    office.run("go").await;
    let records = office.records().await;
    assert!(outcomes(&records, "agent")[0].starts_with("nothing moved\n\ntask_id: ses_"), "{:?}", outcomes(&records, "agent"));
    assert_eq!(notices(&records), [""; 0]);
    let child = summaries(&office.memory).await[1].session.clone();
    let story = office.outputs.0.lock().unwrap()[&child].clone();
    assert!(story.contains("nothing moved\n") && story.ends_with("-- completed\n"), "who is waited for has a story too: {story}");
    check_tree(&office, "owl").await;
    let offered = office.model.seen()[0].head.tools.iter().find(|spec| spec.name == "agent").unwrap().schema.to_string();
    assert!(!offered.contains("run_in_background"), "{offered}");

    let mut office = launching();
    office.background = false;
    office.run("go").await;
    assert_eq!(
        outcomes(&office.records().await, "agent"),
        [
            "error agent: background work is switched off here, so `run_in_background` cannot be used. Call agent again without it: the call waits for the result."
        ]
    );
    assert_eq!(summaries(&office.memory).await.len(), 1, "no task was started");
}

/// A worker that is waited for and takes a minute.
fn waiting() -> Office {
    Office::with_model(Scripted::with(|seen| match (prompt(seen).as_str(), seen.position) {
        ("user: go", 0) => ScriptedReply::call("agent", task("long part", "take long")),
        ("user: go", 1) => say("I go on"),
        ("user: go", _) => say("heard"),
        (_, 0) => ScriptedReply::call("slow", json!({"what": "x", "ms": 60_000})),
        _ => say("it took a minute"),
    }))
}

async fn check_detached(office: &Office) {
    let child = summaries(&office.memory).await[1].session.clone();
    let records = office.records().await;
    assert_eq!(count(&records, |event| matches!(event, Event::Detached { .. })), 1);
    let answered = outcomes(&records, "agent");
    assert!(answered[0].starts_with("The task goes on in the background. "), "{answered:?}");
    assert!(answered[0].ends_with(&format!("output: /stories/{child}.txt\ntask_id: {child}")), "{answered:?}");
    let heard = notices(&records);
    assert!(heard.len() == 1 && heard[0].contains("it took a minute"), "{heard:?}");
    // The child has noticed nothing: one tool, not stopped, one round.
    let below = log(&office.memory, &child).await;
    assert_eq!(outcomes(&below, "slow"), ["slept x"]);
    assert_eq!(count(&below, |event| matches!(event, Event::Interrupted { .. } | Event::TookOver { .. })), 0);
    assert_eq!(count(&below, |event| matches!(event, Event::Ended { .. })), 1);
    check_tree(office, "detached").await;
}

/// CC-111, CC-112, CC-113, CC-114, CC-242: a task that takes too long goes on in the background, and the child never notices.
#[tokio::test(start_paused = true)]
async fn a_task_that_is_waited_for_too_long_goes_on_in_the_background() {
    let mut office = waiting();
    office.detach_after = Some(Duration::from_secs(10));
    let handle = office.begin("go").await;
    let began = tokio::time::Instant::now();
    handle.only_waits().await.unwrap();
    let waited = began.elapsed();
    assert!(Duration::from_secs(10) <= waited && waited < Duration::from_secs(11), "{waited:?}");
    settled(&handle).await;
    handle.close().await;
    check_detached(&office).await;
}

/// CC-111, CC-114: the user sends it there.
#[tokio::test(start_paused = true)]
async fn a_user_sends_a_task_to_the_background() {
    let office = waiting();
    let handle = office.begin("go").await;
    until(&office, "the child works", async |office| summaries(&office.memory).await.len() == 2).await;
    let child = summaries(&office.memory).await[1].session.clone();
    for _ in 0..2 {
        // A second wish finds nothing to do.
        handle.command(Command::Detach { task: child.clone(), launched: Outcome::done("") }).await.unwrap();
    }
    settled(&handle).await;
    handle.close().await;
    check_detached(&office).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_anywhere_around_a_task_that_was_sent_to_the_background_is_survivable() {
    let mut office = waiting();
    office.detach_after = Some(Duration::from_secs(10));
    office.run("go").await;
    survives_every_cut(office, async |office, what| {
        let records = office.records().await;
        let called = count(&records, |event| matches!(event, Event::Called { .. }));
        let ended = count(&records, |event| matches!(event, Event::TaskEnded { how: How::Completed, .. }));
        assert_eq!((ended, summaries(&office.memory).await.len()), (called, 1 + called), "{what}");
        assert!(outcomes(&records, "agent").iter().all(|outcome| outcome.contains("task_id: ses_")), "{what}: {records:#?}");
    })
    .await;
}

/// One worker in the background and one that is waited for, each slow.
fn mixed() -> Office {
    Office::with_model(Scripted::with(|seen| match (prompt(seen).as_str(), seen.position) {
        ("user: go", 0) => ScriptedReply::call("agent", background("behind", "work behind")).and_call("agent", task("ahead", "work ahead")),
        ("user: go", _) => say(&format!("heard: {}", last(seen).lines().next().unwrap())),
        (_, 0) => say("I begin").and_call("slow", json!({"what": "x", "ms": 60_000})),
        _ => say("worked"),
    }))
}

/// CC-123, CC-124: Esc ends the turn and who is waited for; who works in the background goes on, and its end wakes the root.
#[tokio::test(start_paused = true)]
async fn escape_leaves_background_work_alone() {
    let office = mixed();
    let handle = office.begin("go").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    handle.interrupt().await.unwrap();
    handle.only_waits().await.unwrap();
    assert_eq!(handle.session().unwrap().unwrap().hold(), Some(Hold::Esc));
    assert_eq!(office.model.seen().iter().filter(|seen| seen.session == office.session).count(), 1, "the turn is over");
    let session = settled(&handle).await;
    handle.close().await;
    assert_eq!(session.hold(), None, "the notice woke it");
    let status: Vec<Status> = summaries(&office.memory).await.iter().map(|summary| summary.status).collect();
    assert_eq!(status, [Status::Completed, Status::Completed, Status::Stopped]);
    let heard = notices(&office.records().await);
    assert!(heard.len() == 1 && heard[0].starts_with("[task behind completed] behind\n\nworked"), "{heard:?}");
    let shown = office.shown().join("\n");
    assert!(shown.contains("The task was stopped before it was done"), "the foreground's end is its call's result: {shown}");
    assert!(last_words(&office).await.contains("heard: user: [task behind completed] behind"));
    check_tree(&office, "escape").await;
}

/// CC-123, CC-124: who is waited for stops at once with everything below it, also with what it has in the background: nobody
/// would hear of that.
#[tokio::test(start_paused = true)]
async fn escape_does_not_wait_for_the_background_work_of_those_it_stops() {
    let office = Office::with_model(Scripted::with(|seen| match (prompt(seen).as_str(), seen.position) {
        ("user: go", 0) => ScriptedReply::call("agent", task("lead", "lead")),
        ("user: go", _) => say("never"),
        ("user: lead", 0) => ScriptedReply::call("agent", background("below", "follow")).and_call("keep", json!({"what": "server"})),
        ("user: lead", _) => ScriptedReply::call("slow", json!({"what": "x"})),
        (_, 0) => ScriptedReply::call("slow", json!({"what": "x"})),
        _ => say("never"),
    }));
    let handle = office.begin("go").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(summaries(&office.memory).await.len(), 3);
    let began = tokio::time::Instant::now();
    handle.interrupt().await.unwrap();
    let session = settled(&handle).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(session.hold(), Some(Hold::Esc));
    handle.close().await;
    let status: Vec<Status> = summaries(&office.memory).await.iter().skip(1).map(|summary| summary.status).collect();
    assert_eq!(status, [Status::Stopped; 2]);
    check_tree(&office, "escape").await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_anywhere_around_an_escape_is_survivable() {
    let office = mixed();
    let handle = office.begin("go").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    handle.interrupt().await.unwrap();
    settled(&handle).await;
    handle.close().await;
    survives_every_cut(office, async |office, what| {
        let records = office.records().await;
        let launched = count(&records, |event| matches!(event, Event::TaskStarted { wait: false, .. }));
        assert_eq!(notices(&records).len(), launched, "{what}: who works in the background is heard, whoever pressed what");
    })
    .await;
}

/// CC-125: a stop by the user ends everything in the tree, in the background and below too, and nothing wakes by itself.
#[tokio::test(start_paused = true)]
async fn a_stop_by_the_user_ends_the_whole_tree() {
    let office = Office::with_model(Scripted::with(|seen| match (prompt(seen).as_str(), seen.position) {
        ("user: go", 0) => ScriptedReply::call("agent", background("behind", "lead")).and_call("keep", json!({"what": "server"})),
        ("user: go", _) => say("never after the stop"),
        ("user: lead", 0) => ScriptedReply::call("agent", background("below", "follow")).and_call("agent", task("beside", "follow")),
        (_, 0) => ScriptedReply::call("slow", json!({"what": "x"})),
        _ => say("never"),
    }));
    let handle = office.begin("go").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(summaries(&office.memory).await.len(), 4);
    let steps = office.model.seen().len();
    let began = tokio::time::Instant::now();
    handle.command(Command::Interrupt { by: By::User, hold: Hold::StoppedByUser, partial: Text::default() }).await.unwrap();
    let session = settled(&handle).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    handle.close().await;
    assert_eq!(session.hold(), Some(Hold::StoppedByUser));
    assert_eq!(office.model.seen().len(), steps, "no model is called after it");
    let status: Vec<Status> = summaries(&office.memory).await.iter().skip(1).map(|summary| summary.status).collect();
    assert_eq!(status, [Status::Stopped; 3]);
    check_tree(&office, "stopped").await;
    // The user speaks, and hears what had become of it.
    let handle = office.open(vec![Command::Say(office.entry("and now?"))]).await;
    settled(&handle).await;
    handle.close().await;
    let shown = office.shown().join("\n");
    assert!(shown.contains("user: and now?") && shown.contains("[task behind stopped] behind"), "{shown}");
    check_tree(&office, "gone on with").await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_anywhere_around_a_stop_by_the_user_is_survivable() {
    let office = mixed();
    let handle = office.begin("go").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    handle.command(Command::Interrupt { by: By::User, hold: Hold::StoppedByUser, partial: Text::default() }).await.unwrap();
    settled(&handle).await;
    handle.close().await;
    survives_every_cut(office, async |office, what| {
        let records = office.records().await;
        let stopped = count(&records, |event| matches!(event, Event::Interrupted { hold: Hold::StoppedByUser, .. }));
        let asked_after = records
            .iter()
            .rposition(|record| matches!(record.event, Event::Interrupted { .. }))
            .map_or(0, |at| count(&records[at..], |event| matches!(event, Event::StepStarted { .. })));
        assert_eq!(asked_after, 0, "{what}: nobody goes on by itself after a stop by the user");
        assert!(stopped <= 1, "{what}");
    })
    .await;
}

/// The root leaves something running that says these words when it ends.
fn keeping(says: Option<&'static str>) -> Office {
    Office::with_model(Scripted::with(move |seen| match seen.position {
        0 => {
            let mut input = json!({"what": "server", "ms": 20_000});
            if let Some(says) = says {
                input["says"] = json!(says);
            }
            ScriptedReply::call("keep", input)
        }
        1 => say("it runs"),
        _ => say(&format!("heard: {}", last(seen))),
    }))
}

/// CC-128, CC-243: what a call leaves running holds the session open, and what it says at its end is a notice.
#[tokio::test(start_paused = true)]
async fn what_a_call_leaves_running_is_waited_for_and_heard_if_it_says_something() {
    for (says, steps) in [(Some("exit code 0"), 3), (None, 2)] {
        let office = keeping(says);
        let handle = office.begin("go").await;
        let began = tokio::time::Instant::now();
        handle.only_waits().await.unwrap();
        let session = handle.session().unwrap().unwrap();
        assert!(!session.is_settled() && session.kept().values().any(|title| title == "server"), "{:?}", session.kept());
        settled(&handle).await;
        let took = began.elapsed();
        assert!(Duration::from_secs(20) <= took && took < Duration::from_secs(21), "{took:?}");
        handle.close().await;
        let records = office.records().await;
        assert_eq!(outcomes(&records, "keep"), ["kept server"], "the call was answered at once and stays so");
        assert_eq!(notices(&records), Vec::from_iter(says.map(str::to_owned)));
        assert_eq!(office.model.seen().len(), steps, "{says:?}");
        check_tree(&office, "kept").await;
    }
}

/// CC-125: a stop by the user ends it, without a word.
#[tokio::test(start_paused = true)]
async fn a_stop_by_the_user_ends_what_a_call_left_running_and_escape_does_not() {
    for (hold, steps) in [(Hold::StoppedByUser, 2), (Hold::Esc, 3)] {
        let office = keeping(Some("exit code 0"));
        let handle = office.begin("go").await;
        handle.only_waits().await.unwrap();
        let began = tokio::time::Instant::now();
        handle.command(Command::Interrupt { by: By::User, hold, partial: Text::default() }).await.unwrap();
        settled(&handle).await;
        assert_eq!(began.elapsed() < Duration::from_secs(1), hold == Hold::StoppedByUser, "{:?}", began.elapsed());
        handle.close().await;
        assert_eq!(office.model.seen().len(), steps, "{hold:?}");
        assert_eq!(count(&office.records().await, |event| matches!(event, Event::KeptEnded { .. })), 1);
        check_tree(&office, "kept").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_anywhere_around_what_a_call_left_running_is_survivable() {
    for says in [Some("exit code 0"), None] {
        let office = keeping(says);
        office.run("go").await;
        survives_every_cut(office, async |office, what| {
            let records = office.records().await;
            let kept = count(&records, |event| matches!(event, Event::Kept { .. }));
            let ended = count(&records, |event| matches!(event, Event::KeptEnded { .. }));
            assert_eq!(kept, ended, "{what}: what was left running has one end: {records:#?}");
        })
        .await;
    }
}

/// A pause puts everything down: tools end with what they have, tasks stay open, and the next owner goes on.
#[tokio::test(start_paused = true)]
async fn a_paused_tree_is_gone_on_with_and_its_notice_comes_once() {
    let office = Office::with_model(Scripted::with(|seen| match (prompt(seen).as_str(), seen.position) {
        ("user: go", 0) => ScriptedReply::call("agent", background("part", "work")),
        ("user: go", 1) => say("it works"),
        ("user: go", _) => say("heard"),
        (_, 0) => say("I begin").and_call("slow", json!({"what": "x"})),
        _ => say(&format!("after {}", last(seen))),
    }));
    let handle = office.begin("go").await;
    handle.only_waits().await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let began = tokio::time::Instant::now();
    handle.pause(Duration::from_secs(10)).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    let child = summaries(&office.memory).await[1].clone();
    let below = log(&office.memory, &child.session).await;
    assert_eq!(outcomes(&below, "slow"), ["cancelled half asleep"], "the tool ended with what it had");
    assert_eq!(count(&below, |event| matches!(event, Event::Ended { .. })), 0, "the task is not over");
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(log(&office.memory, &child.session).await.len(), below.len(), "no step begins");
    assert_eq!(handle.session().unwrap().unwrap().tasks().len(), 1, "it stays open");
    handle.close().await;

    let handle = office.open(Vec::new()).await;
    settled(&handle).await;
    handle.close().await;
    let heard = notices(&office.records().await);
    assert!(heard.len() == 1 && heard[0].contains("after user: "), "{heard:?}");
    assert_eq!(summaries(&office.memory).await[1].status, Status::Completed);
    check_tree(&office, "paused").await;
}

/// CC-251, CC-254, CC-255: everything a task does can be read while it works, whole when it is done, and again after a restart.
#[tokio::test(start_paused = true)]
async fn the_story_of_a_task_can_be_read_while_it_works_and_after() {
    let office = launching();
    let handle = office.begin("go").await;
    handle.only_waits().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let child = summaries(&office.memory).await[1].session.clone();
    let story = |office: &Office, session: &SessionId| office.outputs.0.lock().unwrap().get(session).cloned().unwrap_or_default();
    let at_work = story(&office, &child);
    for part in ["work", "I begin", "* touch", "touch x ok", "* slow"] {
        assert!(at_work.contains(part), "{part}: {at_work}");
    }
    assert!(!at_work.contains("the result") && !at_work.contains("-- "), "{at_work}");
    settled(&handle).await;
    handle.close().await;
    let whole = story(&office, &child);
    assert!(whole.starts_with(&at_work), "what was read stays: {whole}");
    assert!(whole.contains("the result") && whole.ends_with("-- completed\n"), "{whole}");
    // Somebody else opens it again: the file is as it was, and goes on.
    office.outputs.0.lock().unwrap().clear();
    let root = office.session.clone();
    let mut later = office;
    later.session = child.clone();
    let handle = later.hub().open(&child, &root, later.outfits(), later.limits, Vec::new()).await.unwrap();
    settled(&handle).await;
    handle.close().await;
    assert_eq!(story(&later, &child), whole);
}

/// CC-250: a task's own task is noticed by it, not by the root.
#[tokio::test(start_paused = true)]
async fn a_notice_goes_to_whoever_started_the_task() {
    let office = Office::with_model(Scripted::with(|seen| match (prompt(seen).as_str(), seen.position) {
        ("user: go", 0) => ScriptedReply::call("agent", task("lead", "lead")),
        ("user: go", _) => say("done"),
        ("user: lead", 0) => ScriptedReply::call("agent", background("below", "follow")),
        ("user: lead", 1) => say("meanwhile"),
        ("user: lead", _) => say(&format!("they said: {}", last(seen).contains("[task below completed]"))),
        _ => say("followed").after(Duration::from_secs(10)),
    }));
    office.run("go").await;
    let records = office.records().await;
    assert_eq!(notices(&records), [""; 0], "the root hears of nobody but its own");
    let answer = outcomes(&records, "agent");
    assert!(answer[0].starts_with("they said: true\n\n"), "a task is not over before those below it: {answer:?}");
    assert_eq!(count(&records, |event| matches!(event, Event::TaskEnded { to: To::Call { .. }, .. })), 1);
    check_tree(&office, "nested").await;
}
