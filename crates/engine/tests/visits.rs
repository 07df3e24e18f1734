//! What must hold around sessions that are left, stopped, spoken to directly or taken up again: clocks stand while nobody
//! works, a user's stop stays the user's, and every round is heard of up to the root.

#![allow(clippy::unwrap_used)]

mod office;

use std::{collections::HashMap, sync::Arc, time::Duration};

use office::{Office, background, check_tree, last, log, notices, outcomes, prompt, say, settled, summaries, survives_every_cut};
use posse_engine::Handle;
use posse_models::{Scripted, ScriptedReply, Seen};
use posse_session::{
    Answer, Append, Asking, BoxFuture, By, Command, Event, Hold, Hook, HookedCall, Inbox as _, Lease as _, Letter, LetterId, Limit,
    Log as _, ModelFacts, ModelFailure, Outcome, Posted, Prices, Record, Scope, Session, SessionId, Status, Text,
};
use posse_store::Memory;
use posse_tools::Dialect;
use serde_json::json;

/// Long enough that a clock which ran meanwhile would have used up any limit.
const HOURS: Duration = Duration::from_secs(3 * 3_600);

fn is(seen: &Seen, words: &str) -> bool {
    prompt(seen) == format!("user: {words}")
}

fn slow(millis: u64) -> ScriptedReply {
    ScriptedReply::call("slow", json!({"what": "x", "ms": millis}))
}

fn message(to: &str, words: &str) -> ScriptedReply {
    ScriptedReply::call("send_message", json!({"to": to, "message": words}))
}

fn count(records: &[Record], is: impl Fn(&Event) -> bool) -> usize {
    records.iter().filter(|record| is(&record.event)).count()
}

fn limits(records: &[Record]) -> usize {
    count(records, |event| matches!(event, Event::LimitReached { .. }))
}

fn interrupt(hold: Hold) -> Command {
    Command::Interrupt { by: By::User, hold, partial: Text::default() }
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

/// The task that was started at this place in the order of all.
async fn nth(office: &Office, at: usize) -> SessionId {
    summaries(&office.memory).await[at].session.clone()
}

async fn post(office: &Office, to: &SessionId, letter: Letter) {
    let (id, root, to) = (LetterId::fresh(&*office.ids), office.session.clone(), to.clone());
    office.memory.post(Posted { id, root, to, letter }).await.unwrap();
}

/// Lets time pass until something holds of the tree.
async fn until(office: &Office, what: &str, holds: impl AsyncFn(&Office) -> bool) {
    for _ in 0..10_000 {
        if holds(office).await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came to this: {what}");
}

/// What a session holds still for, as the log has it.
async fn hold_of(office: &Office, session: &SessionId) -> Option<Hold> {
    Session::fold(session.clone(), &log(&office.memory, session).await).hold()
}

/// What is left for hours with a limit of two goes on where it was: nobody worked, so no time was used up.
#[tokio::test(start_paused = true)]
async fn a_task_that_was_left_for_hours_goes_on() {
    let office = Office::with_model(Scripted::with(|seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call("agent", background("part", "work")),
        _ if is(seen, "go") => say("ok"),
        0..=2 => slow(10_000),
        _ => say("worked"),
    }));
    let mut handle = office.begin("go").await;
    for _ in 0..2 {
        seconds(5).await;
        handle.close().await;
        tokio::time::sleep(HOURS).await;
        handle = office.open(vec![Command::Resume { by: By::User }]).await;
    }
    settled(&handle).await;
    handle.close().await;
    let heard = notices(&office.records().await);
    assert!(heard.len() == 1 && heard[0].starts_with("[task part completed] part\n\nworked"), "{heard:?}");
    assert_eq!(limits(&log(&office.memory, &nth(&office, 1).await).await), 0);
    check_tree(&office, "left for hours").await;
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_was_left_for_hours_goes_on() {
    let office = Office::with_model(Scripted::with(|seen| if seen.position < 3 { slow(10_000) } else { say("worked") }));
    let mut handle = office.begin("go").await;
    for _ in 0..2 {
        seconds(5).await;
        handle.close().await;
        tokio::time::sleep(HOURS).await;
        handle = office.open(vec![Command::Resume { by: By::User }]).await;
    }
    let session = settled(&handle).await;
    handle.close().await;
    assert_eq!((session.hold(), limits(&office.records().await)), (None, 0));
    assert_eq!(summaries(&office.memory).await[0].status, Status::Completed);
}

/// A person may take hours to answer. The work before and after is what counts, and it counts together.
#[tokio::test(start_paused = true)]
async fn waiting_for_a_person_uses_up_no_time() {
    for (after, status) in [(10_000, Status::Completed), (20_000, Status::Failed)] {
        let mut office = Office::with_model(Scripted::with(move |seen| match seen.position {
            0 if is(seen, "go") => ScriptedReply::call("agent", background("part", "work")),
            _ if is(seen, "go") => say("ok"),
            0 => slow(20_000),
            1 => ScriptedReply::call("touch", json!({"what": "a"})),
            2 => slow(after),
            _ => say("worked"),
        }));
        (office.rules, office.asking) = (json!({"*": "allow", "touch": "ask"}), Asking::Open);
        office.walls = HashMap::from([("worker".to_owned(), Duration::from_secs(35))]);
        let handle = office.begin("go").await;
        seconds(30).await;
        let child = nth(&office, 1).await;
        let asks: Vec<_> =
            handle.sessions().iter().flat_map(|session| session.open_asks().map(|(ask, _)| ask.clone()).collect::<Vec<_>>()).collect();
        tokio::time::sleep(HOURS).await;
        let yes = Answer::Yes { scope: Scope::Once };
        handle.command_to(&child, Command::Answer { ask: asks[0].clone(), answer: yes, by: By::User }).await.unwrap();
        settled(&handle).await;
        handle.close().await;
        assert_eq!(summaries(&office.memory).await[1].status, status, "{after}");
        check_tree(&office, "answered late").await;
    }
}

/// Between two steps the lane may be taken by others for longer than the round may take.
#[tokio::test(start_paused = true)]
async fn waiting_for_a_lane_between_steps_uses_up_no_time() {
    let mut office = Office::with_model(Scripted::with(|seen| match seen.position {
        0 if is(seen, "go") => {
            let mut other = background("other", "take the lane");
            other["subagent_type"] = json!("scout");
            ScriptedReply::call("agent", background("part", "work")).and_call("agent", other)
        }
        _ if is(seen, "go") => say("ok"),
        0 if is(seen, "take the lane") => slow(500),
        _ if is(seen, "take the lane") => say("done").after(Duration::from_secs(100)),
        0 => slow(1_000),
        _ => say("worked"),
    }));
    office.lanes = HashMap::from([("scripted".to_owned(), 1)]);
    office.walls = HashMap::from([("worker".to_owned(), Duration::from_secs(35))]);
    let handle = office.begin("go").await;
    let began = tokio::time::Instant::now();
    settled(&handle).await;
    handle.close().await;
    assert!(Duration::from_secs(100) <= began.elapsed(), "the lane was taken");
    let all = summaries(&office.memory).await;
    assert!(all.iter().all(|summary| summary.status == Status::Completed), "{all:#?}");
    check_tree(&office, "lane").await;
}

/// Three times put down before the model could answer is nobody's death: the fourth goes on.
#[tokio::test(start_paused = true)]
async fn a_task_that_is_put_down_again_and_again_is_not_given_up() {
    let office = Office::with_model(Scripted::with(|seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call("agent", background("part", "work")),
        _ if is(seen, "go") => say("ok"),
        _ => say("worked").after(Duration::from_secs(60)),
    }));
    let mut handle = office.begin("go").await;
    for _ in 0..4 {
        seconds(5).await;
        handle.pause(Duration::from_secs(10)).await;
        handle.close().await;
        seconds(60).await;
        handle = office.open(vec![Command::Resume { by: By::User }]).await;
    }
    settled(&handle).await;
    handle.close().await;
    let heard = notices(&office.records().await);
    assert!(heard.len() == 1 && heard[0].starts_with("[task part completed] part\n\nworked"), "{heard:?}");
    let below = log(&office.memory, &nth(&office, 1).await).await;
    assert_eq!(
        count(&below, |event| matches!(event, Event::StepFailed { failure: None, retry_at: Some(_), .. })),
        4,
        "put down four times"
    );
    assert_eq!(count(&below, |event| matches!(event, Event::TookOver { .. })), 0);
    check_tree(&office, "put down").await;
}

/// CC-152, CC-166: what is said to a task that is just being stopped is heard in a round of its own.
#[tokio::test(start_paused = true)]
async fn a_message_right_after_a_stop_is_heard_in_the_next_round() {
    let office = Office::with_model(Scripted::with(|seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call("agent", background("part", "work")),
        1 if is(seen, "go") => slow(1_000),
        2 if is(seen, "go") => ScriptedReply::call("task_stop", json!({"task_id": "part"})),
        3 if is(seen, "go") => message("part", "do this instead"),
        _ if is(seen, "go") => say("ok"),
        // It takes its time to stop.
        0 => ScriptedReply::call("deaf", json!({})),
        _ => say(&format!("I read {}", last(seen).lines().last().unwrap())),
    }));
    office.run("go").await;
    let records = office.records().await;
    let sent = outcomes(&records, "send_message");
    assert!(sent[0].starts_with("The task part (worker) had ended and works again, with your message."), "{sent:?}");
    let heard = notices(&records);
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert!(heard[0].starts_with("[task part stopped]") && heard[1].contains("I read do this instead"), "{heard:?}");
    check_tree(&office, "stopped and spoken to").await;
}

/// The same with the user's Esc and the user's words.
#[tokio::test(start_paused = true)]
async fn a_letter_to_a_task_that_escape_is_just_ending_is_heard() {
    let office = Office::with_model(Scripted::with(|seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call("agent", office::task("part", "work")),
        _ if is(seen, "go") => say("ok"),
        0 => ScriptedReply::call("deaf", json!({})),
        _ => say(&format!("I read {}", last(seen))),
    }));
    let handle = office.begin("go").await;
    seconds(1).await;
    let child = nth(&office, 1).await;
    handle.interrupt().await.unwrap();
    seconds(1).await;
    post(&office, &child, Letter::Say { entry: office.entry("do this instead") }).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    settled(&handle).await;
    handle.close().await;
    let below = log(&office.memory, &child).await;
    let said =
        |event: &Event| matches!(event, Event::Replied { parts, .. } if format!("{parts:?}").contains("I read user: do this instead"));
    assert_eq!(count(&below, said), 1);
    assert_eq!(office.memory.waiting(&office.session).await.unwrap().len(), 0);
    check_tree(&office, "escaped and spoken to").await;
}

/// CC-280: whoever stops it again, what the user stopped is the user's to wake.
#[tokio::test(start_paused = true)]
async fn no_later_stop_weakens_the_users() {
    for weaker in ["task_stop", "esc", "limit"] {
        let office = Office::with_model(Scripted::with(move |seen| match (seen.position, weaker) {
            (0, "task_stop") if is(seen, "go") => ScriptedReply::call("agent", background("part", "work")),
            (1, "task_stop") if is(seen, "go") => slow(2_000),
            (2, "task_stop") if is(seen, "go") => ScriptedReply::call("task_stop", json!({"task_id": "part"})),
            (3, "task_stop") if is(seen, "go") => slow(20_000),
            (4, "task_stop") | (1, _) if is(seen, "go") => message("part", "go on, whatever the user says"),
            (0, _) if is(seen, "go") => {
                let mut input = background("part", "work");
                input["run_in_background"] = json!(false);
                ScriptedReply::call("agent", input)
            }
            _ if is(seen, "go") => say("ok"),
            (0, _) => ScriptedReply::call("deaf", json!({})),
            _ => say("I go on"),
        }));
        let handle = office.begin("go").await;
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let child = nth(&office, 1).await;
        handle.command_to(&child, interrupt(Hold::StoppedByUser)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        match weaker {
            "esc" => handle.interrupt().await.unwrap(),
            "limit" => handle.limit(Limit::Time, "time is up".into()).await.unwrap(),
            _ => {}
        }
        settled(&handle).await;
        if weaker != "task_stop" {
            handle.say(office.entry("and now?")).await.unwrap();
            settled(&handle).await;
        }
        handle.close().await;
        let refused = format!("error The user stopped the task {child}; only the user can go on with it.");
        assert_eq!(outcomes(&office.records().await, "send_message"), [refused], "{weaker}");
        assert_eq!(hold_of(&office, &child).await, Some(Hold::StoppedByUser), "{weaker}");
        let below = log(&office.memory, &child).await;
        assert_eq!(count(&below, |event| matches!(event, Event::Ended { .. })), 1, "{weaker}: one round");
        check_tree(&office, weaker).await;
    }
}

/// CC-280: nor does anybody get past it by speaking to what is below.
#[tokio::test(start_paused = true)]
async fn nothing_below_what_the_user_stopped_is_woken_by_an_agent() {
    for wanted in ["low", "lowest"] {
        let office = Office::with_model(Scripted::with(move |seen| match seen.position {
            0 if is(seen, "go") => ScriptedReply::call("agent", background("mid", "mid")),
            1 if is(seen, "go") => slow(20_000),
            2 if is(seen, "go") => message(wanted, "go on, whatever the user says"),
            _ if is(seen, "go") => say("ok"),
            0 if is(seen, "mid") => ScriptedReply::call("agent", background("low", "low")),
            0 if is(seen, "low") => ScriptedReply::call("agent", background("lowest", "lowest")),
            0 if is(seen, "lowest") => slow(60_000),
            _ => say("done"),
        }));
        let handle = office.begin("go").await;
        seconds(2).await;
        let mid = nth(&office, 1).await;
        handle.command_to(&mid, interrupt(Hold::StoppedByUser)).await.unwrap();
        settled(&handle).await;
        handle.close().await;
        let refused = format!("error The user stopped the task {mid}; only the user can go on with it.");
        assert_eq!(outcomes(&office.records().await, "send_message"), [refused], "{wanted}");
        let status: Vec<Status> = summaries(&office.memory).await.iter().map(|summary| summary.status).collect();
        assert_eq!(status, [Status::Completed, Status::Stopped, Status::Stopped, Status::Stopped], "{wanted}");
        assert_eq!(hold_of(&office, &mid).await, Some(Hold::StoppedByUser), "{wanted}");
        check_tree(&office, wanted).await;
    }
}

/// A task of a task: both have ended when the root's model speaks to the lower one, or nobody does.
fn deep(dialect: Dialect, speaks: bool, millis: u64) -> Office {
    let mut office = Office::with_model(Scripted::with(move |seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call(dialect.tool(), background("mid", "mid")),
        1 if is(seen, "go") => say("meanwhile"),
        2 if is(seen, "go") && speaks => {
            let tool = if dialect == Dialect::Claude { "SendMessage" } else { "send_message" };
            ScriptedReply::call(tool, json!({"to": "low", "message": "more", "summary": "asks for more"}))
        }
        _ if is(seen, "go") => say("root done"),
        0 if is(seen, "mid") => ScriptedReply::call(dialect.tool(), background("low", "low")),
        1 if is(seen, "mid") => say("mid waits"),
        _ if is(seen, "mid") => say(&format!("mid has heard {}", if last(seen).contains("low two") { "two" } else { "one" })),
        0 => say("low one"),
        1 => slow(millis),
        _ => say("low two"),
    }));
    office.dialect = dialect;
    office
}

/// CC-153, CC-157: whoever started a task hears of its new round, and so does everybody above; the sender is promised nothing
/// that does not come.
#[tokio::test(start_paused = true)]
async fn a_round_far_below_is_heard_of_up_to_the_root() {
    for dialect in [Dialect::Posse, Dialect::Claude] {
        let office = deep(dialect, true, 5_000);
        office.run("go").await;
        let (mid, low) = (nth(&office, 1).await, nth(&office, 2).await);
        let records = office.records().await;
        let (tool, told, promise) = match dialect {
            Dialect::Claude => ("SendMessage", "Whoever started it is told when it is done, not you", "A <task-notification> comes"),
            _ => ("send_message", "Whoever started it hears when it is done, not you", "comes to you by itself"),
        };
        let sent = outcomes(&records, tool);
        assert!(sent[0].contains(told) && !sent[0].contains(promise), "{sent:?}");
        for (who, records, task, last) in
            [("root", records, &mid, "mid has heard two"), ("mid", log(&office.memory, &mid).await, &low, "low two")]
        {
            let resumed = count(&records, |event| matches!(event, Event::TaskResumed { task: resumed, .. } if resumed == task));
            let ended = count(&records, |event| matches!(event, Event::TaskEnded { task: ended, .. } if ended == task));
            assert_eq!((resumed, ended), (1, 2), "{who}");
            let heard = notices(&records);
            assert!(heard.len() == 2 && heard[1].contains(last), "{who}: {heard:?}");
        }
        check_tree(&office, "two deep").await;
    }
}

/// CC-145: the same beside: a sibling that has ended works again for whoever started it.
#[tokio::test(start_paused = true)]
async fn a_sibling_that_is_woken_is_its_starters_to_hear_of() {
    let office = Office::with_model(Scripted::with(|seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call("agent", background("ann", "be ann")).and_call("agent", background("bob", "be bob")),
        _ if is(seen, "go") => say("ok"),
        0 if is(seen, "be ann") => slow(5_000),
        1 if is(seen, "be ann") => message("bob", "are you there?"),
        _ if is(seen, "be ann") => say("asked"),
        0 => say("bob one"),
        _ => say("bob two"),
    }));
    office.run("go").await;
    let sent = outcomes(&log(&office.memory, &nth(&office, 1).await).await, "send_message");
    assert!(sent[0].contains("Whoever started it hears when it is done, not you"), "{sent:?}");
    let heard = notices(&office.records().await).join("\n");
    assert!(heard.contains("bob one") && heard.contains("bob two"), "{heard}");
    check_tree(&office, "siblings").await;
}

/// A root that hears of everything below can also end it.
async fn low_works_again(by_letter: bool) -> (Office, Handle) {
    let office = deep(Dialect::Posse, !by_letter, 5_000_000);
    let handle = office.begin("go").await;
    if by_letter {
        settled(&handle).await;
        let low = nth(&office, 2).await;
        post(&office, &low, Letter::Say { entry: office.entry("more") }).await;
    }
    until(&office, "low works again", async |office| {
        let all = summaries(&office.memory).await;
        all.get(2).is_some_and(|low| low.status == Status::Running && low.steps == 2)
    })
    .await;
    seconds(10).await;
    (office, handle)
}

#[tokio::test(start_paused = true)]
async fn a_limit_or_a_stop_of_the_root_reaches_whoever_was_spoken_to_directly() {
    for by_letter in [false, true] {
        for stop in ["limit", "stop", "letter"] {
            let what = format!("by letter: {by_letter}, {stop}");
            let (office, handle) = low_works_again(by_letter).await;
            let began = tokio::time::Instant::now();
            match stop {
                "limit" => handle.limit(Limit::Time, "time is up".into()).await.unwrap(),
                "stop" => handle.command(interrupt(Hold::StoppedByUser)).await.unwrap(),
                _ => {
                    post(&office, &office.session, Letter::Stop { tree: true }).await;
                    seconds(1).await;
                }
            }
            settled(&handle).await;
            assert!(began.elapsed() < Duration::from_secs(10), "{what}: {:?}", began.elapsed());
            handle.close().await;
            let status: Vec<Status> = summaries(&office.memory).await.iter().map(|summary| summary.status).collect();
            let root = if stop == "limit" { Status::Limit } else { Status::Stopped };
            assert_eq!(status, [root, Status::Stopped, Status::Stopped], "{what}");
            check_tree(&office, &what).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_anywhere_around_a_round_far_below_is_survivable() {
    let office = deep(Dialect::Posse, true, 5_000);
    office.run("go").await;
    survives_every_cut(office, async |office, what| {
        let sent = outcomes(&office.records().await, "send_message");
        if sent.first().is_some_and(|sent| !sent.starts_with("error")) {
            let heard = notices(&office.records().await);
            assert!(heard.last().is_some_and(|last| last.contains("mid has heard two")), "{what}: {heard:?}");
            assert_eq!(summaries(&office.memory).await[2].status, Status::Completed, "{what}");
        }
    })
    .await;
}

/// A stop that is recorded is told, whoever goes on: nobody below works on for a root that has stopped it.
#[tokio::test(start_paused = true)]
async fn a_crash_anywhere_around_a_stop_far_below_is_survivable() {
    for by_letter in [false, true] {
        for limit in [true, false] {
            let (office, handle) = low_works_again(by_letter).await;
            if limit {
                handle.limit(Limit::Time, "time is up".into()).await.unwrap();
            } else {
                handle.command(interrupt(Hold::StoppedByUser)).await.unwrap();
            }
            settled(&handle).await;
            handle.close().await;
            survives_every_cut(office, async |office, what| {
                let is_stop = |event: &Event| matches!(event, Event::TaskStopped { .. });
                let status: Vec<Status> = summaries(&office.memory).await.iter().map(|summary| summary.status).collect();
                if 0 < count(&office.records().await, is_stop) {
                    assert_eq!(status[1..], [Status::Stopped, Status::Stopped], "{what}, by letter: {by_letter}");
                } else {
                    // Nothing stopped them, or the append was torn before that was said.
                    assert_eq!(status[1..], [Status::Completed, Status::Completed], "{what}, by letter: {by_letter}");
                }
            })
            .await;
        }
    }
}

/// The store as it was when the owner died over a stop that it had recorded and told at most one session. The root knows
/// nothing of the last rounds.
async fn died_over_a_stop(office: &Office, told: bool) -> Memory {
    let memory = Memory::new();
    let owner = memory.take(&office.session).await.unwrap();
    for (at, summary) in summaries(&office.memory).await.into_iter().enumerate() {
        let mut records = office.memory.read(&summary.session, 0, 1_000_000).await.unwrap();
        let place = |is: fn(&Event) -> bool| records.iter().position(|record| is(&record.event)).unwrap_or(records.len());
        records.truncate(match at {
            0 => place(|event| matches!(event, Event::TaskResumed { .. })),
            1 => place(|event| matches!(event, Event::TaskStopped { .. })) + 1,
            _ if told => records.len(),
            _ => place(|event| matches!(event, Event::Interrupted { .. })),
        });
        for batch in records.chunk_by(|one, other| one.batch == other.batch) {
            let append = Append {
                session: summary.session.clone(),
                root: office.session.clone(),
                epoch: owner.epoch,
                batch: batch[0].batch.clone(),
                after: batch[0].seq - 1,
                at: batch[0].at,
                events: batch.iter().map(|record| record.event.clone()).collect(),
                blobs: Vec::new(),
                letters: Vec::new(),
            };
            memory.append(append).await.unwrap();
        }
    }
    memory
}

/// A stop that is recorded is told by the next owner also where nobody above waits for its end.
#[tokio::test(start_paused = true)]
async fn a_stop_that_was_recorded_is_told_after_a_crash_to_guests_too() {
    for told in [false, true] {
        let (office, handle) = low_works_again(true).await;
        let mid = nth(&office, 1).await;
        post(&office, &mid, Letter::Stop { tree: true }).await;
        seconds(1).await;
        settled(&handle).await;
        handle.close().await;
        let memory = died_over_a_stop(&office, told).await;
        let office = office.reopened(memory);
        let before: Vec<bool> = summaries(&office.memory).await.iter().map(|summary| summary.at_rest).collect();
        assert_eq!(before, [true, false, told], "told: {told}");
        let handle = office.open(Vec::new()).await;
        let began = tokio::time::Instant::now();
        settled(&handle).await;
        assert!(began.elapsed() < Duration::from_secs(10), "told: {told}: {:?}", began.elapsed());
        handle.close().await;
        let status: Vec<Status> = summaries(&office.memory).await.iter().map(|summary| summary.status).collect();
        assert_eq!(status, [Status::Completed, Status::Stopped, Status::Stopped], "told: {told}");
        assert_eq!(hold_of(&office, &mid).await, Some(Hold::StoppedByUser), "told: {told}");
        check_tree(&office, &format!("told: {told}")).await;
    }
}

/// A second model that never has time.
fn overloaded(name: &str) -> Arc<Scripted> {
    Arc::new(Scripted::with(|_| say("never").after_failures(ModelFailure::Overloaded, "too busy", None)).with_facts(facts(name)))
}

fn facts(name: &str) -> ModelFacts {
    ModelFacts {
        name: format!("{name}/model"),
        provider: name.to_owned(),
        context: 200_000,
        output: 8_192,
        prices: Prices::default(),
        images: true,
    }
}

/// Every model of the list is asked, in its order, and a session's own among them is passed over.
#[tokio::test(start_paused = true)]
async fn three_that_could_stand_in_are_asked_in_order() {
    let busy = Scripted::with(|_| say("never").after_failures(ModelFailure::Overloaded, "too busy", None));
    let mut office = Office::with_model(busy);
    let third = Arc::new(Scripted::with(|_| say("third says hello")).with_facts(facts("third")));
    office.others = vec![overloaded("first"), overloaded("second"), third];
    office.fallbacks = ["scripted/script", "first/model", "second/model", "third/model"].map(str::to_owned).to_vec();
    let session = office.run("go").await;
    assert_eq!(session.hold(), None);
    let change = |record: &Record| if let Event::ModelChanged { model, .. } = &record.event { model.clone() } else { None };
    let changes: Vec<String> = office.records().await.iter().filter_map(change).collect();
    assert_eq!(changes, ["first/model", "second/model", "third/model"]);
    let asked: Vec<usize> = office.others.iter().map(|other| other.seen().len()).collect();
    assert_eq!((office.model.seen().len(), asked), (2, vec![2, 2, 1]), "two tries each, until one answers");
}

/// What it does to the results of one tool.
enum Does {
    Waits(Duration),
    Fails,
}

/// A hook of the user's that gets between a call and its result.
struct Meddles(&'static str, Does);

impl Hook for Meddles {
    fn name(&self) -> &str {
        "meddles"
    }

    fn after_call<'a>(&'a self, call: &'a HookedCall, outcome: Outcome) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            match &self.1 {
                _ if call.tool != self.0 => outcome,
                Does::Waits(wait) => {
                    tokio::time::sleep(*wait).await;
                    outcome
                }
                Does::Fails => Outcome::failed("the hook did not like it"),
            }
        })
    }
}

/// CC-157: the message was heard and answered, and only the call that sent it does not know. It runs again and says nothing
/// twice.
#[tokio::test(start_paused = true)]
async fn a_message_that_is_sent_again_after_a_crash_tells_nothing_twice() {
    let mut office = Office::with_model(Scripted::with(|seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call("agent", background("part", "work")),
        1 if is(seen, "go") => say("meanwhile"),
        2 if is(seen, "go") => message("part", "and more?"),
        _ if is(seen, "go") => say("ok"),
        0 => say("first"),
        _ => say("second"),
    }));
    office.hooks = vec![Arc::new(Meddles("send_message", Does::Waits(Duration::from_secs(4))))];
    let handle = office.begin("go").await;
    let ends = |records: &[Record]| count(records, |event| matches!(event, Event::TaskEnded { .. }));
    until(&office, "both rounds are over", async |office| ends(&office.records().await) == 2).await;
    assert_eq!(outcomes(&office.records().await, "send_message"), [""; 0], "the call does not know yet");
    handle.close().await;
    office.hooks = Vec::new();
    let handle = office.open(Vec::new()).await;
    settled(&handle).await;
    handle.close().await;
    let records = office.records().await;
    let sent = outcomes(&records, "send_message");
    assert!(sent.len() == 1 && !sent[0].starts_with("error"), "{sent:?}");
    assert_eq!(count(&records, |event| matches!(event, Event::TaskResumed { .. })), 1);
    let heard = notices(&records);
    assert!(heard.len() == 2 && heard[0].contains("first") && heard[1].contains("second"), "{heard:?}");
    check_tree(&office, "sent again").await;
}

/// CC-165: a read that came to nothing has told nobody, so the notice is still to be heard.
#[tokio::test(start_paused = true)]
async fn a_read_that_fails_leaves_the_notice() {
    for fails in [true, false] {
        let mut office = Office::with_model(Scripted::with(|seen| match seen.position {
            0 if is(seen, "go") => ScriptedReply::call("agent", background("part", "work")),
            // The task ends while the model speaks.
            1 if is(seen, "go") => ScriptedReply::call("task_output", json!({"task_id": "part"})).after(Duration::from_secs(5)),
            _ if is(seen, "go") => say("ok"),
            _ => say("forty-two"),
        }));
        if fails {
            office.hooks = vec![Arc::new(Meddles("task_output", Does::Fails))];
        }
        office.run("go").await;
        let read = outcomes(&office.records().await, "task_output");
        assert_eq!(read[0].starts_with("error the hook did not like it"), fails, "{read:?}");
        let left = count(&office.records().await, |event| matches!(event, Event::Unqueued { .. }));
        assert_eq!(left, usize::from(!fails), "fails: {fails}");
        let told = office.shown().iter().filter(|line| line.contains("forty-two")).count();
        assert_eq!(told, 1, "the model reads it once, fails: {fails}: {:?}", office.shown());
        check_tree(&office, "read").await;
    }
}

/// Whoever waits for a task of a task is not idle, however long that takes.
#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_task_of_a_task_is_not_idle() {
    let mut office = Office::with_model(Scripted::with(|seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call("agent", background("mid", "mid")),
        1 if is(seen, "go") => slow(2_000),
        2 if is(seen, "go") => ScriptedReply::call("task_output", json!({"task_id": "low", "timeout": 400_000})),
        _ if is(seen, "go") => say("ok"),
        0 if is(seen, "mid") => ScriptedReply::call("agent", background("low", "low")),
        _ if is(seen, "mid") => say("mid waits"),
        0 => ScriptedReply::call("slow", json!({"what": "x", "ms": 300_000, "beats": true})),
        _ => say("forty-two"),
    }));
    office.idle = Duration::from_secs(60);
    let session = office.run("go").await;
    assert_eq!((session.hold(), limits(&office.records().await)), (None, 0));
    let read = outcomes(&office.records().await, "task_output");
    assert!(read[0].contains("forty-two"), "{read:?}");
    check_tree(&office, "waited").await;
}

/// After its last step nobody would hear of what runs in the background: it ends with it.
#[tokio::test(start_paused = true)]
async fn the_closing_step_ends_what_runs_in_the_background() {
    let mut office = Office::with_model(Scripted::with(|seen| match seen.position {
        0 if is(seen, "go") => {
            ScriptedReply::call("agent", background("part", "work")).and_call("keep", json!({"what": "server", "ms": 3_600_000}))
        }
        1 if is(seen, "go") => slow(1_000),
        _ if is(seen, "go") => say("that is all"),
        _ => slow(3_600_000),
    }));
    office.limits.steps = Some(3);
    let handle = office.begin("go").await;
    let began = tokio::time::Instant::now();
    let session = settled(&handle).await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    handle.close().await;
    assert_eq!((session.hold(), session.kept().len()), (Some(Hold::Limit), 0));
    let status: Vec<Status> = summaries(&office.memory).await.iter().map(|summary| summary.status).collect();
    assert_eq!(status, [Status::Limit, Status::Stopped]);
    check_tree(&office, "closing").await;
}

/// Who is opened by itself is judged by what those above it may do today, not only by what they could when it began.
#[tokio::test(start_paused = true)]
async fn whoever_is_visited_is_judged_by_todays_rules_of_those_above() {
    for denied in [false, true] {
        let mut office = Office::with_model(Scripted::with(|seen| match seen.position {
            0 if is(seen, "go") => ScriptedReply::call("agent", background("mid", "mid")),
            _ if is(seen, "go") => say("ok"),
            0 if is(seen, "mid") => ScriptedReply::call("agent", background("low", "low")),
            _ if is(seen, "mid") => say("ok"),
            1 => ScriptedReply::call("touch", json!({"what": "a"})),
            _ => say("ok"),
        }));
        office.run("go").await;
        let low = nth(&office, 2).await;
        if denied {
            office.rules_of = HashMap::from([("build".to_owned(), json!({"*": "allow", "touch": "deny"}))]);
        }
        post(&office, &low, Letter::Say { entry: office.entry("touch it") }).await;
        let handle = office.open(Vec::new()).await;
        settled(&handle).await;
        handle.close().await;
        let touched = outcomes(&log(&office.memory, &low).await, "touch");
        assert_eq!(touched.len(), 1);
        assert_eq!(touched[0].starts_with("error Denied by the rule"), denied, "{touched:?}");
        assert_eq!(office.witness.lock().unwrap().is_empty(), denied, "denied: {denied}");
        check_tree(&office, "visited").await;
    }
}

/// What a call leaves running when it is being stopped is nobody's, so it is not left.
#[tokio::test(start_paused = true)]
async fn what_is_left_running_after_a_stop_is_let_go() {
    let office = Office::new([ScriptedReply::call("cling", json!({"what": "server"})), say("ok")]);
    let handle = office.begin("go").await;
    seconds(1).await;
    handle.interrupt().await.unwrap();
    let session = settled(&handle).await;
    assert_eq!(session.kept().len(), 0);
    let witness = office.witness.lock().unwrap().clone();
    assert!(witness.iter().any(|line| line.starts_with("let go of")), "it runs on while the session is open: {witness:?}");
    handle.close().await;
}

/// A letter that comes while the owner leaves is answered by it or still lies there for the next: never half taken.
#[tokio::test(start_paused = true)]
async fn a_letter_that_comes_while_the_owner_leaves_is_answered_or_waits() {
    let (mut answered, mut waiting) = (0, 0);
    for (yields, first) in (0..20).flat_map(|yields| [(yields, true), (yields, false)]) {
        let what = format!("{yields} yields, posted first: {first}");
        let office = deep(Dialect::Posse, false, 10_000);
        let handle = office.begin("go").await;
        settled(&handle).await;
        let low = nth(&office, 2).await;
        let letter = Letter::Say { entry: office.entry("more") };
        if first {
            post(&office, &low, letter.clone()).await;
        }
        for _ in 0..yields {
            tokio::task::yield_now().await;
        }
        let ended = handle.finish().await;
        if !first {
            post(&office, &low, letter).await;
        }
        if ended {
            // Whoever leaves may take its time.
            seconds(1).await;
        } else {
            settled(&handle).await;
        }
        handle.close().await;
        let waits = office.memory.waiting(&office.session).await.unwrap().len();
        let rounds = count(&log(&office.memory, &low).await, |event| matches!(event, Event::Ended { .. }));
        assert_eq!((waits, rounds), if ended { (1, 1) } else { (0, 2) }, "{what}");
        check_tree(&office, &what).await;
        (answered, waiting) = (answered + usize::from(!ended), waiting + usize::from(ended));
    }
    assert!(0 < answered && 0 < waiting, "both happened: {answered} answered, {waiting} wait");
}
