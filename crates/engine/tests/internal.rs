//! What is done beside a conversation: questions, guesses, drafts, notes, and words on who does what. CC-004, CC-209..217.
//!
//! The conversation itself must be the same with all of it and with none of it, byte for byte, whatever happens meanwhile.

#![allow(clippy::unwrap_used)]

mod office;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use office::{
    Office, background, check_tree, last, lines, log, outcomes, say, settled, summaries, survives_every_cut, survives_every_fault,
};
use posse_engine::{Advising, Aside, Consolidation, OpenError, Upkeep};
use posse_models::{Scripted, ScriptedReply, Seen};
use posse_session::{By, Command, Event, How, Kind, Limits, Part, Purpose, Record, SessionId, Status, Summary};
use serde_json::json;

const IS_SUGGESTION: &str = "most likely to say next";
const IS_SIDE: &str = "A question beside the work.";
const IS_DOING: &str = "what is being done right now";
const REMEMBER: &str = "NOTE what is worth it";
const CONSOLIDATE: &str = "ORDER the notes";
const DRAFT: &str = "guessed that they would say this";

/// What whoever works beside the conversation says; nothing for the conversation itself.
fn beside(seen: &Seen) -> Option<ScriptedReply> {
    let all = lines(&seen.messages);
    let said = |words: &str| all.last().is_some_and(|line| line.contains(words));
    let noted = |words: &str| all.iter().any(|line| line.contains(words));
    match () {
        () if said(IS_SUGGESTION) => Some(say("run the tests").using(10, 2)),
        () if said(IS_SIDE) => Some(say("because of b").using(10, 2)),
        () if said(IS_DOING) => Some(say("Reading the rules.").using(10, 2)),
        () if said(REMEMBER) || said(CONSOLIDATE) => Some(ScriptedReply::call("touch", json!({"what": "a note"})).using(10, 2)),
        () if noted(REMEMBER) || noted(CONSOLIDATE) => Some(say("noted").using(10, 2)),
        () => None,
    }
}

/// Looks around in `steps` steps and answers; a draft is what it says to what was suggested.
fn worker(steps: usize) -> impl Fn(&Seen) -> ScriptedReply + Send + Sync + 'static {
    move |seen| {
        let all = lines(&seen.messages);
        let turn = all.iter().rposition(|line| line.starts_with("user: ") && !line.starts_with("user: = ")).unwrap_or(0);
        let done = all[turn..].iter().filter(|line| line.starts_with("user: = ")).count();
        match beside(seen) {
            Some(reply) => reply,
            None if last(seen) == "user: run the tests" => say("they would pass").using(10, 2),
            None if done < steps => ScriptedReply::call("peek", json!({"what": format!("n{done}")})).using(10, 2),
            None => say("all done").using(10, 2),
        }
    }
}

/// The notes of a project, in memory.
#[derive(Default)]
struct Notes {
    /// It is time when this is asked for the n-th time; without it, always.
    time: Option<usize>,
    /// Somebody else has it by now.
    is_taken: bool,
    heard: Mutex<Vec<&'static str>>,
}

impl Upkeep for Notes {
    fn claim(&self, _: &SessionId) -> bool {
        let mut heard = self.heard.lock().unwrap();
        heard.push("claim");
        let count = heard.iter().filter(|word| **word == "claim").count();
        self.time.is_none_or(|time| time == count)
    }

    fn claim_again(&self, _: &SessionId) -> bool {
        self.heard.lock().unwrap().push("again");
        !self.is_taken
    }

    fn done(&self, _: &SessionId) {
        self.heard.lock().unwrap().push("done");
    }
}

fn everything() -> Advising {
    Advising {
        suggest: true,
        speculate: true,
        remember: Some(REMEMBER.into()),
        consolidate: Some(Consolidation { directive: CONSOLIDATE.into(), upkeep: Arc::new(Notes::default()) }),
        ..Advising::default()
    }
}

fn office(steps: usize, advice: Advising) -> Office {
    let mut office = Office::with_model(Scripted::with(worker(steps)));
    office.advice = advice;
    office
}

/// What was begun beside a session, in order.
fn begun(records: &[Record]) -> Vec<Purpose> {
    let purpose = |record: &Record| if let Event::TaskStarted { spawn, .. } = &record.event { spawn.purpose.clone() } else { None };
    records.iter().filter_map(purpose).collect()
}

/// What came of it that is shown.
fn advised(records: &[Record]) -> Vec<(Purpose, String)> {
    let advice = |record: &Record| match &record.event {
        Event::Advised { advice, text } => Some((advice.clone(), text.inline().unwrap().to_owned())),
        _ => None,
    };
    records.iter().filter_map(advice).collect()
}

fn names(records: &[Record]) -> Vec<String> {
    records.iter().map(|record| record.event.name()).collect()
}

/// The bytes of every request of one session.
fn bodies(office: &Office, session: &SessionId) -> Vec<Vec<u8>> {
    let sent = office.sent.lock().unwrap();
    let own = sent.iter().filter(|(_, request)| request.session == *session);
    own.map(|(_, request)| std::iter::once(&request.head).chain(&request.messages).flat_map(|bytes| bytes.to_vec()).collect()).collect()
}

async fn internal(office: &Office) -> Vec<Summary> {
    summaries(&office.memory).await.into_iter().filter(|summary| summary.kind == Some(Kind::Internal)).collect()
}

async fn goes_on(office: &Office, words: &str) {
    let handle = office.open(vec![Command::Say(office.entry(words))]).await;
    settled(&handle).await;
    handle.close().await;
}

/// CC-209, CC-217: nobody pays for what nobody has switched on.
#[tokio::test(start_paused = true)]
async fn nothing_is_done_beside_a_conversation_unless_it_is_switched_on() {
    let office = office(4, Advising::default());
    office.run("go").await;
    goes_on(&office, "and on").await;
    assert_eq!(office.model.seen().len(), 10, "two turns of five steps");
    assert_eq!((summaries(&office.memory).await.len(), begun(&office.records().await)), (1, Vec::new()));
}

/// CC-004, CC-209, CC-213, CC-246, CC-277, CC-292: guesses are facts for people, and no word of them reaches the conversation.
#[tokio::test(start_paused = true)]
async fn a_turn_that_ended_well_is_followed_by_a_guess_and_a_draft() {
    let advice = Advising { suggest: true, speculate: true, ..Advising::default() };
    let (with, without) = (office(1, advice), office(1, Advising::default()));
    for office in [&with, &without] {
        office.run("go").await;
        goes_on(office, "something else").await;
        check_tree(office, "at rest").await;
    }
    let records = with.records().await;
    assert_eq!(begun(&records), [Purpose::Suggest, Purpose::Speculate, Purpose::Suggest, Purpose::Speculate]);
    assert_eq!(
        advised(&records)[..2],
        [(Purpose::Suggest, "run the tests".to_owned()), (Purpose::Speculate, "they would pass".to_owned())]
    );
    assert_eq!(names(&records).iter().filter(|name| *name == "ended").count(), 2, "a guess is no round of its own");
    assert_eq!(bodies(&with, &with.session), bodies(&without, &without.session), "not a byte of the conversation differs");
    let guesses = internal(&with).await;
    assert!(guesses.iter().all(|guess| guess.status == Status::Completed && guess.calls == 0), "{guesses:#?}");
    // What it begins with is what was sent, and then the answer to that.
    let (sent, asked) = (&bodies(&with, &with.session)[1], &bodies(&with, &guesses[0].session)[0]);
    assert!(asked.starts_with(sent), "the same bytes are the same for the provider's cache");
    let root = summaries(&with.memory).await.into_iter().find(|summary| summary.parent.is_none()).unwrap();
    assert_eq!((root.tasks_started, root.open_tasks, root.beside.len()), (0, 0, 0), "internal work is no task");
    assert!(!lines(&with.model.seen().last().unwrap().messages).iter().any(|line| line.contains("Agent")), "and no result of a tool");
}

/// CC-213: a draft is used only for the very words that were foreseen, and is part of what the log says was sent.
#[tokio::test(start_paused = true)]
async fn what_was_foreseen_is_answered_with_a_draft_at_hand() {
    for (said, helped) in [("  run the tests ", true), ("run the tests now", false), ("run  the tests", false)] {
        let office = office(1, Advising { speculate: true, suggest: true, ..Advising::default() });
        office.run("go").await;
        goes_on(&office, said).await;
        let records = office.records().await;
        let notes: Vec<String> = records
            .iter()
            .filter_map(|record| if let Event::StepStarted { notes, .. } = &record.event { Some(notes) } else { None })
            .flatten()
            .filter_map(|note| if let Part::Text { text, .. } = note { text.inline().map(str::to_owned) } else { None })
            .collect();
        let drafts = notes.iter().filter(|note| note.contains(DRAFT) && note.contains("they would pass")).count();
        assert_eq!(drafts, usize::from(helped), "{said}: {notes:?}");
    }
}

/// A refusal, silence or a lecture is no guess, and what did not come is not drafted.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_no_guess_is_nothing() {
    for answer in ["-", "I'm sorry, I cannot do that.", "one\ntwo"] {
        let script = move |seen: &Seen| if last(seen).contains(IS_SUGGESTION) { say(answer) } else { worker(0)(seen) };
        let mut office = Office::with_model(Scripted::with(script));
        office.advice = Advising { suggest: true, speculate: true, ..Advising::default() };
        office.run("go").await;
        let records = office.records().await;
        assert_eq!((begun(&records), advised(&records)), (vec![Purpose::Suggest], Vec::new()), "{answer}");
    }
}

/// Once the user has spoken there is nothing left to guess; it ends, and the turn does not wait for it.
#[tokio::test(start_paused = true)]
async fn a_guess_ends_when_the_user_speaks() {
    let script = |seen: &Seen| match last(seen).contains(IS_SUGGESTION) {
        true => say("too late").after(Duration::from_secs(3_600)),
        false => worker(0)(seen),
    };
    let mut office = Office::with_model(Scripted::with(script));
    office.advice = Advising { suggest: true, ..Advising::default() };
    let handle = office.begin("go").await;
    while begun(&office.records().await).is_empty() {
        handle.changed().await;
    }
    let began = tokio::time::Instant::now();
    handle.say(office.entry("and on")).await.unwrap();
    while names(&office.records().await).iter().filter(|name| *name == "replied").count() < 2 {
        handle.changed().await;
    }
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let guess = internal(&office).await.remove(0);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(summaries(&office.memory).await.iter().find(|summary| summary.session == guess.session).unwrap().status, Status::Stopped);
    // Whoever does not want to wait for the next one ends it, and it does not come back.
    let open: Vec<SessionId> = handle.session().unwrap().unwrap().tasks().keys().cloned().collect();
    for task in open {
        handle.command(Command::StopTask { task, by: By::User }).await.unwrap();
    }
    assert_eq!(settled(&handle).await.round().how, How::Completed);
    handle.close().await;
    let before = office.model.seen().len();
    let handle = office.open(Vec::new()).await;
    settled(&handle).await;
    handle.close().await;
    assert_eq!(office.model.seen().len(), before, "what was ended is not begun again");
}

/// CC-212: notes are taken when there is something to note, with tools, and not again before there is more.
#[tokio::test(start_paused = true)]
async fn notes_are_taken_when_enough_has_come_since_the_last_time() {
    let advice = || Advising { remember: Some(REMEMBER.into()), ..Advising::default() };
    let short = office(1, advice());
    short.run("go").await;
    assert_eq!(begun(&short.records().await), [], "two answers are nothing to note");
    goes_on(&short, "and on").await;
    assert_eq!(begun(&short.records().await), [Purpose::Remember], "four are");
    goes_on(&short, "and on").await;
    assert_eq!(begun(&short.records().await).len(), 1, "and then it begins anew");
    let notes = internal(&short).await.remove(0);
    assert_eq!((notes.agent.as_str(), notes.calls, notes.status), ("memory", 1, Status::Completed));
    assert_eq!(outcomes(&log(&short.memory, &notes.session).await, "touch"), ["touch a note ok"]);
    let long = office(0, advice());
    long.run(&"I want it blue. ".repeat(200)).await;
    assert_eq!(begun(&long.records().await), [Purpose::Remember], "the user has said a lot");
    assert_eq!(advised(&long.records().await), [], "what is noted is in the notes");
}

/// CC-216: notes are put in order when it is time, by whoever may.
#[tokio::test(start_paused = true)]
async fn notes_are_put_in_order_once_when_it_is_time() {
    let notes = Arc::new(Notes { time: Some(2), ..Notes::default() });
    let upkeep = notes.clone();
    let office = office(0, Advising { consolidate: Some(Consolidation { directive: CONSOLIDATE.into(), upkeep }), ..Advising::default() });
    office.run("go").await;
    assert_eq!(begun(&office.records().await), [], "it was not time");
    goes_on(&office, "and on").await;
    goes_on(&office, "and on").await;
    assert_eq!(begun(&office.records().await), [Purpose::Consolidate]);
    assert_eq!(internal(&office).await[0].agent, "consolidation");
    assert_eq!(*notes.heard.lock().unwrap(), ["claim", "claim", "done", "claim"], "what was begun is said to be done");
}

/// Somebody else has done it since the process that had begun it died: it is not done again.
#[tokio::test(start_paused = true)]
async fn notes_that_somebody_else_has_put_in_order_are_left_alone() {
    for is_ours in [true, false] {
        let notes = Arc::new(Notes { is_taken: !is_ours, ..Notes::default() });
        let consolidate = Some(Consolidation { directive: CONSOLIDATE.into(), upkeep: notes.clone() });
        let mut office = Office::with_model(Scripted::with(|seen: &Seen| match last(seen).contains(CONSOLIDATE) {
            true => say("in order").after(Duration::from_secs(60)),
            false => say("done"),
        }));
        office.advice = Advising { consolidate, ..Advising::default() };
        let handle = office.begin("go").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let memory = office.memory.copy();
        handle.close().await;
        let office = office.reopened(memory);
        let handle = office.open(Vec::new()).await;
        settled(&handle).await;
        handle.close().await;
        let ended = internal(&office).await.remove(0);
        let asked = office.model.seen().iter().filter(|seen| last(seen).contains(CONSOLIDATE)).count();
        assert_eq!(asked, 1 + usize::from(is_ours), "nobody is paid for what somebody else has done");
        let (status, heard) =
            if is_ours { (Status::Completed, vec!["claim", "again", "done"]) } else { (Status::Stopped, vec!["claim", "again"]) };
        assert_eq!((ended.status, notes.heard.lock().unwrap().clone()), (status, heard));
    }
}

/// A turn that did not end well is nobody's business.
#[tokio::test(start_paused = true)]
async fn a_turn_that_failed_or_was_stopped_is_not_advised_on() {
    let script = |_: &Seen| ScriptedReply::failing(posse_session::ModelFailure::BadRequest, "no");
    let mut failing = Office::with_model(Scripted::with(script));
    failing.advice = everything();
    failing.run("go").await;
    assert_eq!(begun(&failing.records().await), []);
    let mut slow = Office::with_model(Scripted::with(|_: &Seen| say("late").after(Duration::from_secs(60))));
    slow.advice = everything();
    let handle = slow.begin("go").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.interrupt().await.unwrap();
    settled(&handle).await;
    handle.close().await;
    assert_eq!(begun(&slow.records().await), []);
}

/// Notes are taken while the conversation goes on; whoever ends that turn ends them too, and they do not come back.
#[tokio::test(start_paused = true)]
async fn esc_ends_what_is_done_beside_the_turn_too() {
    let script = |seen: &Seen| match last(seen) {
        words if words.contains(REMEMBER) => say("noted").after(Duration::from_secs(3_600)),
        words if words == "user: and on" => say("late").after(Duration::from_secs(3_600)),
        _ => say("all done"),
    };
    let mut office = Office::with_model(Scripted::with(script));
    office.advice = Advising { remember: Some(REMEMBER.into()), ..Advising::default() };
    let handle = office.begin(&"I want it blue. ".repeat(200)).await;
    while begun(&office.records().await).is_empty() {
        handle.changed().await;
    }
    handle.say(office.entry("and on")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(internal(&office).await[0].status, Status::Running, "the next turn does not end them");
    assert_eq!(office.model.seen().len(), 3, "and does not wait for them");
    let began = tokio::time::Instant::now();
    handle.interrupt().await.unwrap();
    settled(&handle).await;
    handle.close().await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    check_tree(&office, "at rest").await;
    assert_eq!(internal(&office).await[0].status, Status::Stopped);
    let handle = office.open(Vec::new()).await;
    settled(&handle).await;
    handle.close().await;
    assert_eq!(office.model.seen().len(), 3, "what was ended is not begun again");
}

/// What is done beside counts: in the tree's costs, and against its limits. A limit ends it, and not the conversation.
#[tokio::test(start_paused = true)]
async fn work_beside_a_conversation_is_counted_and_bounded() {
    let all = office(3, everything());
    all.run("go").await;
    let spent: u64 = summaries(&all.memory).await.iter().map(|summary| summary.usage.tokens()).sum();
    // Four steps, two of each who takes notes, a guess and a draft.
    assert_eq!(spent, (4 + 2 + 2 + 1 + 1) * 12);
    // Its last answer is the last it can pay for.
    let script = |seen: &Seen| match worker(3)(seen) {
        reply if reply.text == "all done" => reply.using(10, 200_000),
        reply => reply,
    };
    let mut bound = Office::with_model(Scripted::with(script));
    (bound.advice, bound.limits) = (everything(), Limits { tokens: Some(150_000), ..Limits::default() });
    let session = bound.run("go").await;
    assert_eq!(session.round().how, How::Completed, "the answer was given");
    assert!(session.hold().is_none());
    assert_eq!(internal(&bound).await, [], "nobody has anything left to spend");
    check_tree(&bound, "at its limit").await;
}

/// CC-214: a question is answered in the middle of a step and between calls, and the conversation is the same without it.
#[tokio::test(start_paused = true)]
async fn a_question_beside_the_work_leaves_it_as_it_is() {
    let script = |seen: &Seen| match lines(&seen.messages).iter().filter(|line| line.starts_with("user: = ")).count() {
        _ if last(seen).contains(IS_SIDE) => say("because of b"),
        0 => ScriptedReply::call("peek", json!({"what": "a"})),
        // Long enough for questions.
        1 => ScriptedReply::call("slow", json!({"what": "b", "ms": 60_000}))
            .and_call("peek", json!({"what": "c"}))
            .after(Duration::from_secs(60)),
        _ => say("all done"),
    };
    let make = || Office::with_model(Scripted::with(script));
    let (asked, plain) = (make(), make());
    plain.run("go").await;
    let handle = asked.begin("go").await;
    for at in [10, 80] {
        tokio::time::sleep(Duration::from_secs(at)).await;
        let task = SessionId::fresh(&*asked.ids);
        handle.command(Command::Side { task: task.clone(), question: "why b?".into(), model: None }).await.unwrap();
        while !summaries(&asked.memory).await.iter().any(|summary| summary.session == task && summary.is_over()) {
            handle.changed().await;
        }
        let seen = asked.model.seen();
        let side = seen.iter().rfind(|seen| last(seen).contains(IS_SIDE)).unwrap();
        let shown = lines(&side.messages);
        assert!(side.messages.windows(2).all(|pair| pair[0].role != pair[1].role), "nothing is half said: {shown:#?}");
        assert!(last(seen.last().unwrap()).contains("why b?"), "{shown:#?}");
        let placeholder = shown.iter().filter(|line| line.contains("was split here while this call ran")).count();
        // In the first question the second step is open, in the second its slow call is.
        assert_eq!((shown.len(), placeholder), if at == 10 { (4, 0) } else { (8, 1) }, "{shown:#?}");
    }
    settled(&handle).await;
    handle.close().await;
    check_tree(&asked, "at rest").await;
    assert_eq!(bodies(&asked, &asked.session), bodies(&plain, &plain.session), "not a byte of the conversation differs");
    assert_eq!(asked.records().await.iter().filter(|record| matches!(record.event, Event::Ended { .. })).count(), 1);
}

/// CC-214: where nobody runs the session, its unfinished turn stays as unfinished as it was.
#[tokio::test(start_paused = true)]
async fn a_question_about_a_session_that_nobody_runs_goes_on_with_nothing() {
    let script = |seen: &Seen| if last(seen).contains(IS_SIDE) { say("because of b") } else { say("late").after(Duration::from_secs(60)) };
    let office = Office::with_model(Scripted::with(script));
    let handle = office.begin("go").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.close().await;
    let before = office.records().await;
    let ask = |task: &SessionId| Aside { task: task.clone(), question: "why b?".into(), model: None };
    let task = SessionId::fresh(&*office.ids);
    // Asked twice it is the same question.
    for _ in 0..2 {
        let hub = office.hub();
        let asked = hub.ask_aside(&office.session, &office.session, office.outfits(), office.limits, ask(&task), std::future::pending());
        asked.await.unwrap();
    }
    let after = office.records().await;
    assert_eq!(names(&after[before.len()..]), ["task_started", "task_ended"]);
    assert_eq!(office.model.seen().len(), 2, "the conversation did not go on: its step and the question");
    assert_eq!(lines(&office.model.seen()[1].messages).len(), 1, "what was never answered is not part of it");
    let answer = log(&office.memory, &task).await;
    assert!(answer.iter().any(|record| matches!(&record.event, Event::Replied { parts, .. } if parts == &[Part::text("because of b")])));
    // Whoever does not want to know any more ends it.
    let slow = Office::with_model(Scripted::with(|_: &Seen| say("late").after(Duration::from_secs(3_600))));
    let slow = Office { memory: office.memory.clone(), session: office.session.clone(), ..slow };
    let task = SessionId::fresh(&*office.ids);
    let stop = tokio::time::sleep(Duration::from_secs(5));
    slow.hub().ask_aside(&slow.session, &slow.session, slow.outfits(), slow.limits, ask(&task), stop).await.unwrap();
    let ended = slow.records().await;
    assert!(matches!(&ended.last().unwrap().event, Event::TaskEnded { how: How::Stopped, .. }), "{:?}", ended.last());
    // And whoever runs the session is asked by letter.
    let handle = office.open(Vec::new()).await;
    let hub = office.hub();
    let held = hub.ask_aside(&office.session, &office.session, office.outfits(), office.limits, ask(&task), std::future::pending());
    assert!(matches!(held.await, Err(OpenError::Held { .. })));
    settled(&handle).await;
    handle.close().await;
    check_tree(&office, "at rest").await;
}

/// A worker in the background: so many steps of so many seconds each.
fn errand(steps: usize, seconds: u64, doing: impl Fn() -> ScriptedReply + Send + Sync + 'static) -> Office {
    let script = move |seen: &Seen| {
        let all = lines(&seen.messages);
        let (root, done) = (all[0] == "user: go", all.iter().filter(|line| line.starts_with("user: = ")).count());
        match () {
            () if last(seen).contains(IS_DOING) => doing(),
            () if root && all.len() == 1 => ScriptedReply::call("agent", background("scout", "look around")),
            () if root => say("told"),
            () if done < steps => ScriptedReply::call("slow", json!({"what": format!("{done}"), "ms": seconds * 1_000})),
            () => say("found it"),
        }
    };
    let mut office = Office::with_model(Scripted::with(script));
    office.advice = Advising { summaries: Some(Duration::from_secs(30)), ..Advising::default() };
    office
}

/// CC-215: people see what a task in the background is doing, as often as they want to; models see nothing of it.
#[tokio::test(start_paused = true)]
async fn it_is_said_now_and_then_what_a_task_in_the_background_is_doing() {
    let office = errand(12, 10, || say("Reading the rules."));
    let plain = {
        let mut plain = errand(12, 10, || say("nobody asks"));
        plain.advice = Advising::default();
        plain
    };
    plain.run("go").await;
    let handle = office.begin("go").await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    let task = summaries(&office.memory).await.into_iter().find(Summary::is_task).unwrap();
    assert_eq!(task.doing, "Reading the rules");
    settled(&handle).await;
    handle.close().await;
    check_tree(&office, "at rest").await;
    let records = log(&office.memory, &task.session).await;
    // Two minutes of work, and every half a minute, though it answers every ten seconds.
    let counts = (advised(&records).len(), begun(&records).len());
    assert!((3..=4).contains(&counts.0) && counts.0 == counts.1, "{counts:?}");
    assert_eq!(summaries(&office.memory).await.into_iter().find(Summary::is_task).unwrap().doing, "", "it does nothing any more");
    assert_eq!(begun(&office.records().await), [], "who is waited for is not asked");
    let shown = lines(&office.model.seen().iter().rfind(|seen| last(seen).contains(IS_DOING)).unwrap().messages);
    assert!(shown.iter().any(|line| line.contains("was split here while this call ran")), "{shown:#?}");
    assert_eq!(bodies(&office, &office.session).len(), bodies(&plain, &plain.session).len());
    let all: Vec<String> =
        office.model.seen().iter().filter(|seen| !last(seen).contains(IS_DOING)).flat_map(|seen| lines(&seen.messages)).collect();
    assert!(!all.iter().any(|line| line.contains("Reading the rules")), "no model hears of it");
}

/// CC-215: nobody waits for such words: a task that ends ends them.
#[tokio::test(start_paused = true)]
async fn a_task_does_not_wait_for_what_is_said_of_it() {
    let office = errand(2, 60, || say("Reading").after(Duration::from_secs(7_000)));
    let began = tokio::time::Instant::now();
    let session = office.run("go").await;
    assert!(began.elapsed() < Duration::from_secs(150), "{:?}", began.elapsed());
    assert_eq!(session.round().how, How::Completed);
    check_tree(&office, "at rest").await;
    let words = internal(&office).await;
    assert!(!words.is_empty() && words.iter().all(|summary| summary.status == Status::Stopped), "{words:#?}");
}

/// Every cut of every log: nothing is begun twice, nothing is left open, and the conversation is the same.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_event_is_survived() {
    let office = office(3, everything());
    office.run("go").await;
    let whole = bodies(&office, &office.session).last().unwrap().clone();
    let sent = office.sent.clone();
    survives_every_cut(office, async |office: &Office, what: &str| {
        let mut begun = begun(&office.records().await);
        let count = begun.len();
        begun.sort_by_key(|purpose| purpose.agent());
        begun.dedup();
        assert_eq!(begun.len(), count, "{what}: begun twice: {begun:?}");
        assert!(count == 4 || count == 3, "{what}: {begun:?}");
        // A sent step that was cut short is sent again, with the same bytes.
        if let Some(last) = bodies(office, &office.session).last() {
            assert_eq!(*last, whole, "{what}");
        }
        sent.lock().unwrap().clear();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_event_of_a_question_or_of_what_is_said_of_a_task_is_survived() {
    let asked = office(1, Advising::default());
    asked.run("go").await;
    let aside = Aside { task: SessionId::fresh(&*asked.ids), question: "why?".into(), model: None };
    asked.hub().ask_aside(&asked.session, &asked.session, asked.outfits(), asked.limits, aside, std::future::pending()).await.unwrap();
    survives_every_cut(asked, async |_: &Office, _: &str| {}).await;
    let told = errand(3, 60, || say("Reading"));
    told.run("go").await;
    survives_every_cut(told, async |_: &Office, _: &str| {}).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_at_any_time_is_survived() {
    survives_every_fault(|| office(3, everything())).await;
    survives_every_fault(|| errand(2, 60, || say("Reading"))).await;
}
