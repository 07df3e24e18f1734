//! What agents say to each other, and how they look after tasks: messages, reads, stops and lists.

#![allow(clippy::unwrap_used)]

mod office;

use std::time::Duration;

use office::{
    Office, background, check_tree, last, lines, log, notices, outcomes, prompt, say, settled, summaries, survives_every_cut,
    survives_every_fault,
};
use posse_models::{Scripted, ScriptedReply, Seen};
use posse_session::{By, Command, Event, Hold, Inbox as _, Letter, LetterId, Posted, Record, SessionId, Source, Status, Text, To, Voice};
use posse_tools::Dialect;
use serde_json::{Value, json};

fn message(to: &str, words: &str) -> ScriptedReply {
    ScriptedReply::call("send_message", json!({"to": to, "message": words}))
}

fn slow(millis: u64) -> ScriptedReply {
    ScriptedReply::call("slow", json!({"what": "x", "ms": millis}))
}

fn output(input: Value) -> ScriptedReply {
    ScriptedReply::call("task_output", input)
}

/// Whom a session's first words make it.
fn is(seen: &Seen, words: &str) -> bool {
    prompt(seen) == format!("user: {words}")
}

/// An id in a line that says `task_id: …`, anywhere in what a session was shown.
fn id(seen: &Seen) -> String {
    let shown = lines(&seen.messages).join("\n");
    shown.split("task_id: ").nth(1).unwrap().lines().next().unwrap().to_owned()
}

fn count(records: &[Record], is: impl Fn(&Event) -> bool) -> usize {
    records.iter().filter(|record| is(&record.event)).count()
}

/// What a session said last.
fn last_words(records: &[Record]) -> String {
    let said = |record: &Record| match &record.event {
        Event::Replied { parts, .. } => Some(format!("{parts:?}")),
        _ => None,
    };
    records.iter().rev().find_map(said).unwrap_or_default()
}

/// What came in by other agents, with their names.
fn letters_in(records: &[Record]) -> Vec<String> {
    let agents = |record: &Record| match &record.event {
        Event::Queued { entry } => match &entry.source {
            Source::Agent { name, .. } if entry.voice == (Voice::Agent { named: Vec::new() }) => Some(name.clone()),
            _ => None,
        },
        _ => None,
    };
    records.iter().filter_map(agents).collect()
}

/// CC-145, CC-146, CC-147, CC-151, CC-156, CC-024: who works reads it before its next step, by its name or its id, and what
/// it is doing goes on.
#[tokio::test(start_paused = true)]
async fn who_works_reads_a_message_before_its_next_step() {
    for by_name in [true, false] {
        let office = Office::with_model(Scripted::with(move |seen| match seen.position {
            0 if is(seen, "go") => ScriptedReply::call("agent", background("part", "work")),
            1 if is(seen, "go") => slow(1_000),
            2 if is(seen, "go") => message(&if by_name { "part".to_owned() } else { id(seen) }, "make it blue"),
            _ if is(seen, "go") => say("ok"),
            0 => slow(5_000),
            _ => say(&format!("I read: {}", last(seen))),
        }));
        office.run("go").await;
        let child = summaries(&office.memory).await[1].session.clone();
        let records = office.records().await;
        assert_eq!(
            outcomes(&records, "send_message"),
            [format!(
                "The task part (worker) reads your message before its next step; what it is doing is not interrupted.\ntask_id: {child}"
            )]
        );
        let below = log(&office.memory, &child).await;
        assert_eq!(outcomes(&below, "slow"), ["slept x"], "the tool was not interrupted");
        let sender = format!("build ({})", office.session);
        assert_eq!(letters_in(&below), std::slice::from_ref(&sender));
        assert_eq!(count(&below, |event| matches!(event, Event::Ended { .. })), 1, "one round");
        let heard = notices(&records);
        let expected = format!("I read: user: [message from the agent {sender}, not from the user]\n\nmake it blue");
        assert!(heard.len() == 1 && heard[0].contains(&expected), "{heard:?}");
        check_tree(&office, "no crash").await;
    }
}

/// A worker that ends, and a message that comes after its notice.
fn asked_again(dialect: Dialect) -> Office {
    let mut office = Office::with_model(Scripted::with(move |seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call(dialect.tool(), background("part", "work")),
        1 if is(seen, "go") => say("meanwhile"),
        2 if is(seen, "go") => {
            let tool = if dialect == Dialect::Claude { "SendMessage" } else { "send_message" };
            ScriptedReply::call(tool, json!({"to": "part", "message": "and more?", "summary": "asks for more"}))
        }
        3 if is(seen, "go") => say("sent"),
        _ if is(seen, "go") => say(&format!("done, {}", last(seen).contains("second"))),
        0 => say("first"),
        _ => say(&format!("second, after: {}", last(seen).lines().last().unwrap())).after(Duration::from_secs(3)),
    }));
    office.dialect = dialect;
    office
}

/// CC-152, CC-157, CC-280: who has ended works again, in the background, and remembers; its end is another notice.
#[tokio::test(start_paused = true)]
async fn who_has_ended_works_again() {
    for dialect in [Dialect::Posse, Dialect::Claude] {
        let office = asked_again(dialect);
        office.run("go").await;
        let child = summaries(&office.memory).await[1].clone();
        let records = office.records().await;
        let tool = if dialect == Dialect::Claude { "SendMessage" } else { "send_message" };
        let sent = outcomes(&records, tool);
        assert!(sent[0].contains(&format!("/stories/{}.txt", child.session)), "the output file is named: {sent:?}");
        if dialect == Dialect::Posse {
            assert!(sent[0].starts_with("The task part (worker) had ended and works again, with your message."), "{sent:?}");
        }
        let rounds: Vec<u64> = records
            .iter()
            .filter_map(|record| match &record.event {
                Event::TaskStarted { round, .. } | Event::TaskResumed { round, .. } => Some(*round),
                _ => None,
            })
            .collect();
        assert_eq!(rounds, [1, 2]);
        let heard = notices(&records);
        assert_eq!(heard.len(), 2);
        assert!(heard[0].contains("first") && heard[1].contains("second, after: and more?"), "{heard:?}");
        let below = log(&office.memory, &child.session).await;
        assert_eq!((child.status, child.steps, letters_in(&below).len()), (Status::Completed, 2, 1));
        assert!(last_words(&records).contains("done, true"));
        check_tree(&office, "no crash").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_anywhere_around_a_message_to_one_that_has_ended_is_survivable() {
    let office = asked_again(Dialect::Posse);
    office.run("go").await;
    survives_every_cut(office, async |office, what| {
        let records = office.records().await;
        let sent = count(&records, |event| matches!(event, Event::Called { tool, .. } if tool == "send_message"));
        let all = summaries(&office.memory).await;
        if sent == 1 {
            let below = log(&office.memory, &all[1].session).await;
            assert_eq!(letters_in(&below).len(), 1, "{what}: it is said once");
            assert_eq!(notices(&records).len(), 2, "{what}");
            assert!(last_words(&records).contains("done, true"), "{what}: {}", last_words(&records));
        }
        assert!(all.len() <= 2, "{what}");
    })
    .await;
}

/// A slow worker that is stopped by the root's model and then spoken to.
fn stopped_and_woken(dialect: Dialect) -> Office {
    let (stop, send) = if dialect == Dialect::Claude { ("TaskStop", "SendMessage") } else { ("task_stop", "send_message") };
    let mut office = Office::with_model(Scripted::with(move |seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call(dialect.tool(), background("part", "work")),
        1 if is(seen, "go") => slow(2_000),
        2 if is(seen, "go") => ScriptedReply::call(stop, json!({"task_id": "part"})),
        3 if is(seen, "go") => say("stopped it"),
        4 if is(seen, "go") => ScriptedReply::call(send, json!({"to": "part", "message": "go on", "summary": "goes on"})),
        _ if is(seen, "go") => say("ok"),
        0 => say("I begin").and_call("slow", json!({"what": "y"})),
        _ => say(&format!("woken by: {}", last(seen).lines().last().unwrap())),
    }));
    office.dialect = dialect;
    office
}

/// CC-152, CC-166, CC-170, CC-184: a stop by the model ends the task with what it had, says so once, and a message wakes it.
#[tokio::test(start_paused = true)]
async fn a_task_is_stopped_with_what_it_had_and_a_message_wakes_it() {
    for dialect in [Dialect::Posse, Dialect::Claude] {
        let office = stopped_and_woken(dialect);
        office.run("go").await;
        let child = summaries(&office.memory).await[1].session.clone();
        let records = office.records().await;
        let below = log(&office.memory, &child).await;
        assert_eq!(outcomes(&below, "slow"), ["cancelled half asleep"]);
        assert_eq!(count(&below, |event| matches!(event, Event::Interrupted { by: By::Model, hold: Hold::StoppedByModel })), 1);
        let heard = notices(&records);
        assert_eq!(heard.len(), 2, "{heard:?}");
        let expected: &[&str] = match dialect {
            Dialect::Claude => &["<task-notification>", "<status>killed</status>", "I begin"],
            _ => &["[task part stopped] part\n\nThe task was stopped before it was done", "The last it had said:\nI begin"],
        };
        for part in expected {
            assert!(heard[0].contains(part), "{part}: {heard:?}");
        }
        assert!(heard[1].contains("woken by: go on"), "{heard:?}");
        assert_eq!(summaries(&office.memory).await[1].status, Status::Completed);
        check_tree(&office, "no crash").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_anywhere_around_a_stop_is_survivable() {
    let office = stopped_and_woken(Dialect::Posse);
    office.run("go").await;
    survives_every_cut(office, async |office, what| {
        let records = office.records().await;
        let rounds = count(&records, |event| matches!(event, Event::TaskStarted { .. } | Event::TaskResumed { .. }));
        assert_eq!(notices(&records).len(), rounds, "{what}: one notice per round");
        assert!(count(&records, |event| matches!(event, Event::TaskStopped { .. })) <= 1, "{what}");
    })
    .await;
}

/// CC-280: what the user stopped, no agent wakes; the user does.
#[tokio::test(start_paused = true)]
async fn what_the_user_stopped_only_the_user_wakes() {
    let office = Office::with_model(Scripted::with(|seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call("agent", background("part", "work")),
        1 if is(seen, "go") => say("meanwhile"),
        2 if is(seen, "go") => {
            let mut again = office::task("part", "go on");
            again["task_id"] = json!(id(seen));
            message("part", "go on").and_call("agent", again)
        }
        _ if is(seen, "go") => say("ok"),
        0 => say("I begin").and_call("slow", json!({"what": "y"})),
        _ => say(&format!("woken by: {}", last(seen))),
    }));
    let handle = office.begin("go").await;
    handle.only_waits().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let child = summaries(&office.memory).await[1].session.clone();
    handle.command(Command::StopTask { task: child.clone(), by: By::User }).await.unwrap();
    settled(&handle).await;
    let records = office.records().await;
    let heard = notices(&records);
    assert!(heard.len() == 1 && heard[0].contains("The user stopped it."), "{heard:?}");
    let refused = format!("error The user stopped the task {child}; only the user can go on with it.");
    assert_eq!(outcomes(&records, "send_message"), std::slice::from_ref(&refused));
    assert_eq!(outcomes(&records, "agent")[1], refused);
    assert_eq!(summaries(&office.memory).await[1].status, Status::Stopped);
    // The user's own words reach it, through its parent.
    post(&office, &child, "do go on").await;
    office_rests(&handle).await;
    handle.close().await;
    let heard = notices(&office.records().await);
    assert!(heard.len() == 2 && heard[1].contains("woken by: user: do go on"), "{heard:?}");
    check_tree(&office, "woken by the user").await;
}

async fn post(office: &Office, to: &SessionId, words: &str) {
    let (id, root, to) = (LetterId::fresh(&*office.ids), office.session.clone(), to.clone());
    office.memory.post(Posted { id, root, to, letter: Letter::Say { entry: office.entry(words) } }).await.unwrap();
}

/// CC-153, CC-155, CC-158: another process, much later, by the name or by the id.
#[tokio::test(start_paused = true)]
async fn a_task_of_a_session_that_was_closed_works_again() {
    for by_name in [true, false] {
        let office = Office::with_model(Scripted::with(move |seen| match seen.position {
            0 if is(seen, "go") => ScriptedReply::call("agent", background("part", "remember 42")),
            3 if is(seen, "go") => message(&if by_name { "part".to_owned() } else { id(seen) }, "what was it?"),
            _ if is(seen, "go") => say("ok"),
            0 => say("noted"),
            _ => say(&format!("it was: {}", prompt(seen))),
        }));
        office.run("go").await;
        tokio::time::sleep(Duration::from_secs(30 * 86_400)).await;
        let handle = office.open(vec![Command::Say(office.entry("ask again"))]).await;
        settled(&handle).await;
        handle.close().await;
        let heard = notices(&office.records().await);
        assert!(heard.len() == 2 && heard[1].contains("it was: user: remember 42"), "{heard:?}");
        assert_eq!(summaries(&office.memory).await.len(), 2, "the same task");
        check_tree(&office, "reopened").await;
    }
}

/// CC-145, CC-151: a sibling is reached by its name, and knows who spoke.
#[tokio::test(start_paused = true)]
async fn siblings_speak_to_each_other() {
    let office = Office::with_model(Scripted::with(|seen| match seen.position {
        0 if is(seen, "go") => ["ann", "bob"]
            .iter()
            .fold(ScriptedReply::default(), |reply, name| reply.and_call("agent", background(name, &format!("be {name}")))),
        _ if is(seen, "go") => say("ok"),
        0 if is(seen, "be ann") => slow(1_000),
        1 if is(seen, "be ann") => message("bob", "are you there?"),
        _ if is(seen, "be ann") => say("asked"),
        0 => slow(5_000),
        _ => say(&format!("bob read: {}", last(seen))),
    }));
    office.run("go").await;
    let all = summaries(&office.memory).await;
    let below = log(&office.memory, &all[2].session).await;
    assert_eq!(letters_in(&below), [format!("ann (worker, {})", all[1].session)]);
    assert!(last_words(&below).contains("not from the user]\\n\\nare you there?"), "{}", last_words(&below));
    check_tree(&office, "siblings").await;
}

/// CC-154, CC-168: who is not there is said, with who is; nobody speaks to itself or to its caller.
#[tokio::test(start_paused = true)]
async fn a_message_to_nobody_names_who_there_is() {
    let office = Office::with_model(Scripted::with(|seen| {
        let root = seen.session.clone();
        match seen.position {
            0 if is(seen, "go") => message("carol", "hello?"),
            1 if is(seen, "go") => ScriptedReply::call("agent", background("ann", &format!("be ann of {root}"))),
            2 if is(seen, "go") => slow(1_000),
            3 if is(seen, "go") => message("carol", "hello?")
                .and_call("send_message", json!({"to": root, "message": "hello me"}))
                .and_call("task_stop", json!({"task_id": "carol"}))
                .and_call("task_output", json!({"task_id": "ses_nowhere"})),
            _ if is(seen, "go") => say("ok"),
            0 => message("ann", "hello me")
                .and_call("send_message", json!({"to": prompt(seen).split(" of ").nth(1).unwrap(), "message": "hello boss"})),
            1 => slow(5_000),
            _ => say("done"),
        }
    }));
    office.run("go").await;
    let child = summaries(&office.memory).await[1].session.clone();
    let records = office.records().await;
    let there = format!("There are: ann = {child} (running).");
    assert_eq!(
        outcomes(&records, "send_message"),
        [
            "error There is no task with the id or name `carol`. There are no tasks yet.".to_owned(),
            format!("error There is no task with the id or name `carol`. {there}"),
            format!("error `{}` is not a task of yours. What you answer reaches whoever called you.", office.session),
        ]
    );
    assert_eq!(outcomes(&records, "task_stop"), [format!("error There is no task with the id or name `carol`. {there}")]);
    assert_eq!(outcomes(&records, "task_output"), [format!("error There is no task with the id or name `ses_nowhere`. {there}")]);
    assert_eq!(
        outcomes(&log(&office.memory, &child).await, "send_message"),
        [
            "error That is this very session: you cannot send a message to yourself.".to_owned(),
            format!("error `{}` is not a task of yours. What you answer reaches whoever called you.", office.session),
        ]
    );
    check_tree(&office, "nobody").await;
}

/// CC-024, CC-146: a name means one task that works; when it has ended, the name can be given again and means the last.
#[tokio::test(start_paused = true)]
async fn a_name_means_one_task() {
    // At once, and while the first works.
    for at_once in [true, false] {
        let office = Office::with_model(Scripted::with(move |seen| match seen.position {
            0 if is(seen, "go") && at_once => {
                ScriptedReply::call("agent", background("part", "one")).and_call("agent", background("part", "two"))
            }
            0 if is(seen, "go") => ScriptedReply::call("agent", background("part", "one")),
            1 if is(seen, "go") && !at_once => ScriptedReply::call("agent", background("part", "two")),
            _ if is(seen, "go") => say("ok"),
            0 => slow(5_000),
            _ => say("done"),
        }));
        office.run("go").await;
        let all = summaries(&office.memory).await;
        assert_eq!(all.len(), 2, "at once: {at_once}");
        let answers = outcomes(&office.records().await, "agent");
        let expected =
            format!("error A task named `part` is still working ({}). Choose another name, or send a message to that one.", all[1].session);
        assert_eq!(answers[1], expected, "at once: {at_once}");
        check_tree(&office, "taken").await;
    }
    // One after the other.
    let office = Office::with_model(Scripted::with(|seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call("agent", background("part", "one")),
        2 if is(seen, "go") => ScriptedReply::call("agent", background("part", "two")),
        4 if is(seen, "go") => message("part", "who are you?"),
        _ if is(seen, "go") => say("ok"),
        0 => say("done"),
        _ => say(&format!("I am {}", prompt(seen))),
    }));
    office.run("go").await;
    let heard = notices(&office.records().await);
    assert!(heard.len() == 3 && heard[2].contains("I am user: two"), "{heard:?}");
    check_tree(&office, "given again").await;
}

/// CC-151: two who speak to each other at the same time both get through, while they work and after.
#[tokio::test(start_paused = true)]
async fn two_who_speak_to_each_other_at_once_do_not_wait_for_each_other() {
    let office = Office::with_model(Scripted::with(|seen| match seen.position {
        0 if is(seen, "go") => ["ann", "bob"]
            .iter()
            .fold(ScriptedReply::default(), |reply, name| reply.and_call("agent", background(name, &format!("be {name}")))),
        _ if is(seen, "go") => say("ok"),
        0 => slow(1_000),
        position @ 1..=5 => message(if is(seen, "be ann") { "bob" } else { "ann" }, &format!("word {position}")),
        _ => say("enough"),
    }));
    office.run("go").await;
    let all = summaries(&office.memory).await;
    for child in &all[1..] {
        let below = log(&office.memory, &child.session).await;
        assert_eq!(letters_in(&below).len(), 5, "every word arrived once");
        assert!(outcomes(&below, "send_message").iter().all(|sent| !sent.starts_with("error")), "{:?}", outcomes(&below, "send_message"));
    }
    check_tree(&office, "both").await;
}

/// The place to go on reading from, as an answer says it.
fn next(answer: &str) -> u64 {
    answer.rsplit("next: ").next().unwrap().trim().parse().unwrap()
}

/// CC-161, CC-162: a look at a running task says how far it is; reading takes nothing away, and `since` gives what is new.
#[tokio::test(start_paused = true)]
async fn a_look_at_a_running_task_takes_nothing_away() {
    let look = |since: u64| output(json!({"task_id": "part", "block": false, "since": since}));
    let office = Office::with_model(Scripted::with(move |seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call("agent", background("part", "work")),
        1 if is(seen, "go") => slow(1_000),
        2 | 3 if is(seen, "go") => look(0),
        4 if is(seen, "go") => look(next(&last(seen))),
        5 if is(seen, "go") => slow(10_000),
        6 if is(seen, "go") => {
            let answer = lines(&seen.messages).into_iter().filter(|line| line.contains("next: ")).nth(1).unwrap();
            look(next(&answer))
        }
        _ if is(seen, "go") => say("ok"),
        0 => say("the first half").and_call("slow", json!({"what": "y", "ms": 5_000})),
        1 => say("the second half").and_call("slow", json!({"what": "z", "ms": 60_000})),
        _ => say("done"),
    }));
    office.run("go").await;
    let looks = outcomes(&office.records().await, "task_output");
    assert!(looks[0].starts_with("[task part running] part\n"), "{looks:#?}");
    assert!(looks[0].contains("the first half") && looks[0].contains("* slow"), "{looks:#?}");
    assert_eq!(looks[0], looks[1], "the same read gives the same");
    assert!(looks[2].contains("(nothing new)") && !looks[2].contains("the first half"), "{looks:#?}");
    assert!(looks[3].contains("the second half") && !looks[3].contains("the first half"), "{looks:#?}");
    assert_eq!(notices(&office.records().await).len(), 1, "its end is still told");
    check_tree(&office, "looked at").await;
}

/// A worker that takes so many seconds, and a root that reads it so often in one reply.
fn reading(seconds: u64, input: Value, times: usize) -> Office {
    Office::with_model(Scripted::with(move |seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call("agent", background("part", "work")),
        1 if is(seen, "go") => (0..times).fold(ScriptedReply::default(), |reply, _| reply.and_call("task_output", input.clone())),
        _ if is(seen, "go") => say("ok"),
        0 => say("I begin").and_call("slow", json!({"what": "y", "ms": seconds * 1_000})),
        _ => say("forty-two"),
    }))
}

/// CC-163, CC-165, CC-188: who waits for the end gets it as the result of the call, and no notice comes; so do two at once.
#[tokio::test(start_paused = true)]
async fn who_waits_for_the_end_gets_it_and_no_notice_comes() {
    for times in [1, 2] {
        let office = reading(5, json!({"task_id": "part"}), times);
        office.run("go").await;
        let records = office.records().await;
        let read = outcomes(&records, "task_output");
        assert_eq!(read.len(), times);
        assert!(read.iter().all(|read| read.starts_with("[task part completed] part\n\nforty-two")), "{read:?}");
        assert_eq!(notices(&records), [""; 0]);
        assert_eq!(count(&records, |event| matches!(event, Event::TaskEnded { to: To::Call { .. }, .. })), 1);
        assert_eq!(office.model.seen().iter().filter(|seen| seen.session == office.session).count(), 3, "no turn for a notice");
        check_tree(&office, "waited").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_anywhere_around_a_read_that_waits_is_survivable() {
    for times in [1, 2] {
        let office = reading(5, json!({"task_id": "part"}), times);
        office.run("go").await;
        survives_every_cut(office, async |office, what| {
            let records = office.records().await;
            let read = outcomes(&records, "task_output");
            // The wait may have been over before anybody went on, and the append that answers two calls may be torn.
            let words = ["[task part completed] part\n\nforty-two", "It is still running", "Its result went to another call"];
            let told = |read: &&String| words.iter().any(|words| read.contains(words));
            assert_eq!(read.iter().filter(told).count(), read.len(), "{what}: {read:?}");
            let launched = count(&records, |event| matches!(event, Event::TaskStarted { .. }));
            let unheard = count(&records, |event| matches!(event, Event::Unqueued { .. }));
            let by_call = read.iter().any(|read| read.starts_with("[task part completed]"));
            let expected = if by_call { 0 } else { launched };
            assert_eq!(notices(&records).len() - unheard, expected, "{what}: the end is told by the call or by a notice: {read:?}");
        })
        .await;
    }
}

/// CC-164: a wait has an end; the notice comes later, once.
#[tokio::test(start_paused = true)]
async fn a_wait_lapses_and_the_notice_comes_later() {
    let office = reading(60, json!({"task_id": "part", "timeout": 2_000}), 1);
    let handle = office.begin("go").await;
    let began = tokio::time::Instant::now();
    handle.only_waits().await.unwrap();
    let waited = began.elapsed();
    assert!(Duration::from_secs(2) <= waited && waited < Duration::from_secs(3), "{waited:?}");
    settled(&handle).await;
    handle.close().await;
    let records = office.records().await;
    let read = outcomes(&records, "task_output");
    assert!(read[0].starts_with("[task part running] part\n") && read[0].contains("I begin"), "{read:?}");
    assert!(read[0].contains("It is still running."), "{read:?}");
    let heard = notices(&records);
    assert!(heard.len() == 1 && heard[0].contains("forty-two"), "{heard:?}");
    check_tree(&office, "lapsed").await;
}

/// CC-165, CC-188: who reads the end of a task whose notice still waits has read it, and is not told again.
#[tokio::test(start_paused = true)]
async fn a_notice_that_was_read_otherwise_is_not_heard() {
    for input in [json!({"task_id": "part"}), json!({"task_id": "part", "block": false})] {
        let read_later = input.clone();
        let mut office = Office::with_model(Scripted::with(move |seen| match seen.position {
            0 if is(seen, "go") => ScriptedReply::call("agent", background("part", "work")),
            // One after the other: the task ends while the root sleeps.
            1 if is(seen, "go") => slow(10_000).and_call("task_output", read_later.clone()),
            _ if is(seen, "go") => say("ok"),
            0 => slow(2_000),
            _ => say("forty-two"),
        }));
        office.calls_max = 1;
        office.run("go").await;
        let records = office.records().await;
        let read = outcomes(&records, "task_output");
        assert!(read[0].starts_with("[task part completed] part\n\nforty-two"), "{read:?}");
        assert_eq!(count(&records, |event| matches!(event, Event::TaskEnded { to: To::Queue { .. }, .. })), 1);
        assert_eq!(count(&records, |event| matches!(event, Event::Unqueued { .. })), 1);
        let shown = office.shown().join("\n");
        assert_eq!(shown.matches("forty-two").count(), 1, "{shown}");
        check_tree(&office, "read").await;
    }
}

/// CC-169: what is not running cannot be stopped.
#[tokio::test(start_paused = true)]
async fn what_has_ended_cannot_be_stopped() {
    let office = Office::with_model(Scripted::with(|seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call("agent", background("part", "work")),
        2 if is(seen, "go") => ScriptedReply::call("task_stop", json!({"task_id": "part"})),
        _ if is(seen, "go") => say("ok"),
        _ => say("forty-two"),
    }));
    office.run("go").await;
    let child = summaries(&office.memory).await[1].session.clone();
    assert_eq!(
        outcomes(&office.records().await, "task_stop"),
        [format!("error The task {child} is not running: it is completed. There is nothing to stop.")]
    );
    check_tree(&office, "ended").await;
}

/// CC-170: a stop reaches everything below, also what the task has in the background.
#[tokio::test(start_paused = true)]
async fn a_stop_reaches_everything_below() {
    let office = Office::with_model(Scripted::with(|seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call("agent", background("lead", "lead")),
        1 if is(seen, "go") => slow(2_000),
        2 if is(seen, "go") => ScriptedReply::call("task_stop", json!({"task_id": "lead"})),
        3 if is(seen, "go") => ScriptedReply::call("task_output", json!({"task_id": "lead"})),
        _ if is(seen, "go") => say("ok"),
        0 if is(seen, "lead") => ScriptedReply::call("agent", background("below", "follow"))
            .and_call("agent", office::task("beside", "follow"))
            .and_call("keep", json!({"what": "server"})),
        0 => slow(60_000),
        _ => say("never"),
    }));
    let handle = office.begin("go").await;
    let began = tokio::time::Instant::now();
    settled(&handle).await;
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    handle.close().await;
    let all = summaries(&office.memory).await;
    let status: Vec<Status> = all.iter().map(|summary| summary.status).collect();
    assert_eq!(status, [Status::Completed, Status::Stopped, Status::Stopped, Status::Stopped]);
    let told = format!("{:?} {:?}", notices(&office.records().await), outcomes(&office.records().await, "task_output"));
    assert_eq!(told.matches("[task lead stopped]").count(), 1, "{told}");
    check_tree(&office, "stopped").await;
}

/// The list names everybody below, in the order in which they were started.
#[tokio::test(start_paused = true)]
async fn a_list_names_everybody_below() {
    let office = Office::with_model(Scripted::with(|seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call("task_list", json!({})),
        1 if is(seen, "go") => ScriptedReply::call("agent", background("ann", "end at once")),
        2 if is(seen, "go") => ScriptedReply::call("agent", background("bob", "lead")),
        3 if is(seen, "go") => slow(2_000),
        4 if is(seen, "go") => ScriptedReply::call("task_list", json!({})),
        _ if is(seen, "go") => say("ok"),
        0 if is(seen, "lead") => ScriptedReply::call("agent", background("eve", "follow")).using(10, 5),
        0 if is(seen, "follow") => slow(60_000),
        _ => say("done"),
    }));
    office.run("go").await;
    let ids: Vec<SessionId> = summaries(&office.memory).await.into_iter().skip(1).map(|summary| summary.session).collect();
    let lists = outcomes(&office.records().await, "task_list");
    assert_eq!(lists[0], "No task was started here.");
    let listed: Vec<&str> = lists[1].lines().collect();
    assert_eq!(listed.len(), 3, "{lists:?}");
    assert_eq!(listed[0], format!("- ann ({}), worker, completed; 0 tokens; ann", ids[0]));
    assert_eq!(listed[1], format!("- bob ({}), worker, running: agent worker: eve; 15 tokens; bob", ids[1]));
    assert_eq!(listed[2], format!("- eve ({}), worker, running: slow; 0 tokens; eve", ids[2]));
    check_tree(&office, "listed").await;
}

/// A letter to a task that has ended: it works again through its parent, and the tree is not at rest before it is done.
#[tokio::test(start_paused = true)]
async fn a_letter_to_a_task_that_has_ended_is_answered_and_waited_for() {
    for opened_first in [true, false] {
        let office = asked_by_letter();
        let handle = office.begin("go").await;
        settled(&handle).await;
        let child = summaries(&office.memory).await[1].session.clone();
        let handle = if opened_first {
            post(&office, &child, "one thing more").await;
            // Whoever looks now must wait until the postman has been.
            office_rests(&handle).await;
            handle
        } else {
            handle.close().await;
            post(&office, &child, "one thing more").await;
            let handle = office.open(Vec::new()).await;
            settled(&handle).await;
            handle
        };
        settled(&handle).await;
        handle.close().await;
        let records = office.records().await;
        assert_eq!(count(&records, |event| matches!(event, Event::TaskResumed { .. })), 1, "its parent knows, {opened_first}");
        let heard = notices(&records);
        assert!(heard.len() == 2 && heard[1].contains("again, after user: one thing more"), "{opened_first}: {heard:?}");
        assert_eq!(office.memory.waiting(&office.session).await.unwrap().len(), 0, "the letter was taken in");
        check_tree(&office, "by letter").await;
    }
}

fn asked_by_letter() -> Office {
    Office::with_model(Scripted::with(|seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call("agent", background("part", "work")),
        _ if is(seen, "go") => say("ok"),
        0 => say("first"),
        _ => say(&format!("again, after {}", last(seen))).after(Duration::from_secs(20)),
    }))
}

/// Lets the postman come; then nothing is open and nothing is due.
async fn office_rests(handle: &posse_engine::Handle) {
    tokio::time::sleep(Duration::from_millis(100)).await;
    settled(handle).await;
}

/// Below someone who has ended too: whoever started it is opened, hears of its end, and comes to rest again.
fn two_deep() -> Office {
    Office::with_model(Scripted::with(|seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call("agent", background("lead", "lead")),
        2 if is(seen, "go") => message("below", "and more?"),
        _ if is(seen, "go") => say("ok"),
        0 if is(seen, "lead") => ScriptedReply::call("agent", background("below", "follow")),
        _ if is(seen, "lead") => say("led"),
        0 => say("followed"),
        _ => say("followed again").after(Duration::from_secs(5)),
    }))
}

/// CC-153: a message to a task of a task.
#[tokio::test(start_paused = true)]
async fn a_message_reaches_a_task_of_a_task_that_has_ended() {
    let office = two_deep();
    let handle = office.begin("go").await;
    settled(&handle).await;
    handle.close().await;
    let all = summaries(&office.memory).await;
    assert!(outcomes(&office.records().await, "send_message")[0].contains("works again"));
    let middle = log(&office.memory, &all[1].session).await;
    let heard = notices(&middle);
    assert!(heard.len() == 2 && heard[1].contains("followed again"), "{heard:?}");
    assert!(all.iter().all(|summary| summary.status == Status::Completed), "{all:#?}");
    check_tree(&office, "two deep").await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_anywhere_around_a_message_two_levels_down_is_survivable() {
    let office = two_deep();
    office.run("go").await;
    survives_every_cut(office, async |office, what| {
        let sent = outcomes(&office.records().await, "send_message");
        let all = summaries(&office.memory).await;
        if sent.first().is_some_and(|sent| !sent.starts_with("error")) {
            let below = log(&office.memory, &all[2].session).await;
            assert_eq!(letters_in(&below).len(), 1, "{what}");
            assert!(last_words(&below).contains("followed again"), "{what}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_append_that_fails_anywhere_around_messages_stops_the_tree_and_the_next_owner_goes_on() {
    survives_every_fault(|| asked_again(Dialect::Posse)).await;
    survives_every_fault(|| stopped_and_woken(Dialect::Posse)).await;
    survives_every_fault(|| reading(5, json!({"task_id": "part"}), 2)).await;
    survives_every_fault(two_deep).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_anywhere_around_a_letter_is_survivable() {
    let office = asked_by_letter();
    let handle = office.begin("go").await;
    settled(&handle).await;
    let child = summaries(&office.memory).await[1].session.clone();
    post(&office, &child, "one thing more").await;
    office_rests(&handle).await;
    handle.close().await;
    survives_every_cut(office, async |office, what| {
        let all = summaries(&office.memory).await;
        if let Some(child) = all.get(1) {
            let below = log(&office.memory, &child.session).await;
            let said = |event: &Event| matches!(event, Event::Queued { entry } if entry.source == Source::User);
            assert!(count(&below, said) <= 1, "{what}: it is said once");
        }
        assert_eq!(office.memory.waiting(&office.session).await.unwrap().len(), 0, "{what}: a letter lies there");
    })
    .await;
}

/// Who is stopped while it waits for a task is answered at once, and the task goes on.
#[tokio::test(start_paused = true)]
async fn escape_ends_a_read_that_waits_and_not_the_task() {
    let office = reading(60, json!({"task_id": "part", "timeout": 600_000}), 1);
    let handle = office.begin("go").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    handle.command(Command::Interrupt { by: By::User, hold: Hold::Esc, partial: Text::default() }).await.unwrap();
    handle.only_waits().await.unwrap();
    assert_eq!(outcomes(&office.records().await, "task_output"), ["cancelled "]);
    settled(&handle).await;
    handle.close().await;
    let heard = notices(&office.records().await);
    assert!(heard.len() == 1 && heard[0].contains("forty-two"), "{heard:?}");
    check_tree(&office, "escaped").await;
}
