//! The history of a task from two logs: where each end went, or why nobody has heard of it. CC-265, CC-272.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use posse_api::{Began, History, Told, history};
use posse_session::{By, CallId, EntryId, Event, Hold, How, Outcome, Session, SessionId, Source, Spawn, Timestamp, To, Usage};
use serde_json::json;
use support::Story;

fn spawn(by: Option<Source>) -> Spawn {
    let mut spawn: Spawn = support::read(json!({"agent": "explore", "description": "x", "prompt": "y", "entry": "msg_c", "name": "scout"}));
    spawn.by = by;
    spawn
}

/// A root that has called for a task.
fn parent(wait: bool) -> Story {
    let called = Story::root("ses_r").says("msg_1", "go").step(0, &["msg_1"], Vec::new()).replies(0, Vec::new(), 1);
    let started = called.calls("call_1", "agent", "x", "{}").starts("call_1").and(Event::TaskStarted {
        call: CallId::new("call_1"),
        task: SessionId::new("ses_a"),
        round: 1,
        spawn: spawn(None),
        wait,
    });
    if wait { started } else { started.finishes("call_1", Outcome::done("runs")) }
}

fn ended(to: To) -> Event {
    Event::TaskEnded {
        task: SessionId::new("ses_a"),
        round: 1,
        how: How::Completed,
        result: "found".into(),
        usage: Usage::default(),
        to,
        effort: Default::default(),
    }
}

fn notice() -> Event {
    ended(To::Queue { entry: EntryId::new("msg_n"), worded: true })
}

fn child() -> Story {
    Story::child("ses_a", "ses_r", "explore", "x").says("msg_c", "y").step(0, &["msg_c"], Vec::new())
}

fn told(above: &Story, own: &Story, running: bool) -> History {
    let folded = Session::fold(above.session.clone(), &above.facts);
    history(&own.session, &folded, &above.facts, &own.facts, running).unwrap()
}

#[test]
fn the_end_of_a_foreground_task_goes_to_its_call() {
    let above = parent(true).after(9).and(ended(To::Call { call: CallId::new("call_1") }));
    let found = told(&above, &child().ends(How::Completed, ""), true);
    assert_eq!((found.name.as_deref(), found.rounds.len()), (Some("scout"), 1));
    let round = &found.rounds[0];
    assert_eq!((&round.by, round.foreground), (&Began::Call { call: CallId::new("call_1"), tool: "agent".into() }, true));
    let at = Timestamp(support::BORN + 9);
    assert_eq!(round.told, Some(Told::Call { call: CallId::new("call_1"), tool: "agent".into(), at, read: false }));
    assert_eq!(round.untold, None);
}

#[test]
fn an_end_that_another_call_has_read_needs_no_notice() {
    let reading = parent(false).step(1, &[], Vec::new()).replies(1, Vec::new(), 1).calls("call_2", "task_output", "", "{}");
    let waiting = Event::TaskAwaited { task: SessionId::new("ses_a"), call: CallId::new("call_2"), until: Some(Timestamp(7)) };
    let waits = told(&reading.starts("call_2").and(waiting.clone()), &child(), true);
    let awaited = &waits.rounds[0].awaited[0];
    assert_eq!((awaited.tool.as_str(), awaited.until, awaited.over), ("task_output", Some(Timestamp(7)), false));
    assert_eq!((&waits.rounds[0].ended, &waits.rounds[0].told, &waits.rounds[0].untold), (&None, &None, &None));

    let reading = parent(false).step(1, &[], Vec::new()).replies(1, Vec::new(), 1).calls("call_2", "task_output", "", "{}");
    let above = reading.starts("call_2").and(waiting).and(ended(To::Call { call: CallId::new("call_2") }));
    let read = told(&above, &child().ends(How::Completed, ""), true);
    assert!(matches!(&read.rounds[0].told, Some(Told::Call { read: true, .. })), "{read:?}");
    assert!(read.rounds[0].awaited[0].over);
}

#[test]
fn a_notice_tells_when_it_was_queued_and_taken_or_why_it_waits() {
    let own = child().ends(How::Completed, "");
    let answered = || parent(false).step(1, &[], Vec::new()).replies(1, Vec::new(), 0);
    let waits = |above: &Story, running: bool| match told(above, &own, running).rounds[0].told.clone() {
        Some(Told::Notice { taken: None, dropped: None, waits: Some(waits), .. }) => waits,
        other => panic!("{other:?}"),
    };
    assert_eq!(waits(&answered().and(notice()), true), "ses_r is about to take it");
    assert!(waits(&answered().and(notice()), false).starts_with("no process runs ses_r: `posse sessions resume ses_r`"));
    let in_step = parent(false).step(1, &[], Vec::new()).and(notice());
    assert!(waits(&in_step, true).contains("in the middle of a model call"));
    let held = answered().and(notice()).and(Event::Interrupted { by: By::User, hold: Hold::StoppedByUser });
    assert!(waits(&held, true).starts_with("ses_r is held: you stopped it"), "{}", waits(&held, true));

    let taken = told(&answered().and(notice()).after(5).step(2, &["msg_n"], Vec::new()), &own, true);
    let Some(Told::Notice { taken: Some(taken), .. }) = &taken.rounds[0].told else { panic!("{taken:?}") };
    assert_eq!((taken.step, taken.at), (2, Timestamp(support::BORN + 5)));
    let dropped = told(&answered().and(notice()).after(5).and(Event::Unqueued { entry: EntryId::new("msg_n") }), &own, true);
    assert!(matches!(&dropped.rounds[0].told, Some(Told::Notice { dropped: Some(_), waits: None, .. })), "{dropped:?}");
}

#[test]
fn an_end_that_the_parent_has_not_heard_of_says_so() {
    let own = child().ends(How::Completed, "");
    let untold = |running: bool| told(&parent(false), &own, running).rounds[0].untold.clone().unwrap();
    assert_eq!(untold(true), "ses_r hears of it in a moment");
    assert!(untold(false).starts_with("no process runs ses_r"), "{}", untold(false));
}

#[test]
fn rounds_are_told_one_by_one_with_who_began_and_who_stopped_them() {
    let again = |round: u64, by: Source| Event::TaskResumed { task: SessionId::new("ses_a"), round, spawn: spawn(Some(by)) };
    let agent = Source::Agent { session: SessionId::new("ses_b"), name: "the reviewer".into() };
    let above = parent(true)
        .and(Event::Detached { task: SessionId::new("ses_a") })
        .finishes("call_1", Outcome::done("goes on"))
        .and(notice())
        .and(again(2, agent))
        .and(Event::TaskStopped { task: SessionId::new("ses_a"), by: By::Model, hold: None })
        .and(again(3, Source::User));
    let own = child().ends(How::Completed, "").after(5).and(Event::Interrupted { by: By::User, hold: Hold::StoppedByUser });
    let found = told(&above, &own, true);
    let began: Vec<&Began> = found.rounds.iter().map(|round| &round.by).collect();
    let message = |by: &str| Began::Message { by: by.into() };
    assert_eq!(began[1..], [&message("the reviewer"), &message("you")]);
    assert!(found.rounds[0].detached.is_some() && found.rounds[0].stopped.is_none());
    let stopped: Vec<Option<By>> = found.rounds.iter().map(|round| round.stopped.as_ref().map(|stopped| stopped.by)).collect();
    assert_eq!(stopped, [None, Some(By::Model), Some(By::User)]);
    let stranger = Session::fold(above.session.clone(), &above.facts);
    assert_eq!(history(&SessionId::new("ses_x"), &stranger, &above.facts, &[], true), None);
}
