//! Tables of what goes on beside a turn: tasks in the background, who hears of their end, shells that outlive their call,
//! answers that come late, models that stand in, deadlines.
//!
//! The language is explained in `common/play.rs`.

mod common;

use std::collections::BTreeMap;

use common::{
    created,
    play::{Play, check_rows},
};
use posse_session::{
    Answer, By, CallId, Command, Entry, EntryId, Event, Hold, How, Kind, Outcome, Part, Priority, Record, Report, Session, SessionId,
    Source, Text, To,
};

/// A task runs in the background, and the model has answered.
const LAUNCHED: &str = "say; step; reply +agent; start; spawn t1 bg; step; reply; ";

/// A task runs in the background, and a second call of the same turn can wait for it.
const TWO: &str = "say; step; reply +agent +read; start; spawn t1 bg; ";

/// The same with a third call.
const THREE: &str = "say; step; reply +agent +read +read; start; spawn t1 bg; ";

fn states(before: &str, rows: &[(&str, &str)]) {
    check(before, rows, Play::state);
}

fn facts(before: &str, rows: &[(&str, &str)]) {
    check(before, rows, Play::last_facts);
}

fn check(before: &str, rows: &[(&str, &str)], show: fn(&Play) -> String) {
    let whole: Vec<(String, &str)> = rows.iter().map(|(script, expected)| (format!("{before}{script}"), *expected)).collect();
    let rows: Vec<(&str, &str)> = whole.iter().map(|(script, expected)| (script.as_str(), *expected)).collect();
    check_rows(&rows, show);
}

/// The results a call got, in the order of the log: of its own, or as the end of a task.
fn results(log: &[Record], call: &str) -> Vec<String> {
    let call = CallId::new(call);
    let words = |text: &Text| text.inline().unwrap_or_default().to_owned();
    let of = |event: &Event| match event {
        Event::CallFinished { call: ended, outcome: Outcome::Done { output, .. } } if *ended == call => Some(words(output)),
        Event::CallFinished { call: ended, outcome } if *ended == call => Some(outcome.word().to_owned()),
        Event::TaskEnded { to: To::Call { call: ended }, result, .. } if *ended == call => Some(words(result)),
        _ => None,
    };
    log.iter().filter_map(|record| of(&record.event)).collect()
}

/// The notices in a log: the entry and its words.
fn notices(log: &[Record]) -> Vec<(String, String)> {
    let of = |event: &Event| match event {
        Event::TaskEnded { to: To::Queue { entry, .. }, result: words, .. } | Event::KeptEnded { entry: Some(entry), words, .. } => {
            Some((entry.to_string(), words.inline().unwrap_or_default().to_owned()))
        }
        _ => None,
    };
    log.iter().filter_map(|record| of(&record.event)).collect()
}

/// How often each entry left the queue.
fn taken(log: &[Record]) -> BTreeMap<String, u32> {
    let mut taken = BTreeMap::new();
    for record in log {
        let left: Vec<&EntryId> = match &record.event {
            Event::StepStarted { took, .. } => took.iter().collect(),
            Event::Unqueued { entry } => vec![entry],
            _ => Vec::new(),
        };
        left.into_iter().for_each(|entry| *taken.entry(entry.to_string()).or_insert(0) += 1);
    }
    taken
}

/// CC-238, CC-250, CC-281, CC-128, CC-133: the call of a background task is answered with its promise and never again;
/// its end is a notice of its own, and the next step says it.
#[test]
fn the_end_of_a_background_task_is_a_notice_and_its_call_is_left_alone() {
    let mut play = Play::of("say; step; reply +agent; start; spawn t1 bg");
    assert_eq!(play.last_facts(), "t1 started, c1 done");
    let batches: Vec<_> = play.log.iter().rev().take(2).map(|record| record.batch.clone()).collect();
    assert_eq!(batches[0], batches[1], "the promise and the answer are one append");
    assert_eq!(results(&play.log, "c1"), ["it runs"]);
    play.run("step; reply; ended t1");
    let told = notices(&play.log);
    assert_eq!((told.len(), told[0].1.as_str()), (1, "[task t1] found"));
    let waiting = &play.session.queue().waiting()[0];
    assert_eq!((&waiting.source, waiting.priority), (&Source::Task { task: SessionId::new("t1") }, Priority::Later));
    play.run("step; reply; conclude");
    assert_eq!(results(&play.log, "c1"), ["it runs"], "what was said is not said otherwise later");
    assert_eq!(taken(&play.log).get(&told[0].0), Some(&1));
    // A failure and a stop are told the same way: by the notice alone.
    for how in ["failed", "stopped", "limit"] {
        let play = Play::of(&format!("{LAUNCHED}ended t1 {how}"));
        assert_eq!(results(&play.log, "c1"), ["it runs"], "{how}");
        assert!(play.last_facts().starts_with(&format!("t1/1 {how} to queue")), "{}", play.last_facts());
    }
}

/// CC-109, CC-238: what a call waits for is its result, and never passes through the queue.
#[test]
fn the_end_of_a_foreground_task_does_not_pass_through_the_queue() {
    for how in ["completed", "failed", "stopped", "limit"] {
        let mut play = Play::of(&format!("say; step; reply +agent; start; spawn t1; ended t1 {how}"));
        assert_eq!((play.session.queue().len(), results(&play.log, "c1")), (0, vec!["found".to_owned()]), "{how}");
        assert_eq!(play.state(), "owed: model 1 | round 1 open", "{how}");
        // Whatever is reported later, what was returned stays as it is.
        play.run("ended t1 failed; stoptask t1; detach t1; noticed t1; step; reply; conclude");
        assert_eq!((results(&play.log, "c1"), notices(&play.log).len()), (vec!["found".to_owned()], 0), "{how}");
    }
}

#[test]
fn a_foreground_task_is_sent_to_the_background() {
    facts(
        "say; step; reply +agent +read; start; spawn t1; ",
        &[
            ("detach t1", "t1 detached, c1 done"),
            ("detach t1; detach t1", ""),
            ("detach t9", ""),
            ("detach t1; ended t1", "t1/1 completed to queue"),
            ("ended t1; detach t1", ""),
            // Who waited with it is answered with it.
            ("await t1 c2; detach t1", "t1 detached, c1 done, c2 done"),
            ("await t1 c2; ended t1", "t1/1 completed to c1, c2 done"),
            // Stopped and then detached, its end is still heard once.
            ("stoptask t1; detach t1; ended t1 stopped", "t1/1 stopped to queue"),
        ],
    );
    states(
        "say; step; reply +agent +read; start; spawn t1; ",
        &[
            ("detach t1", "owed: run c2*, watch t1/1 | calls: c2 running | round 1 open"),
            // From then on Esc leaves it alone.
            ("detach t1; esc; finish c2 cancelled", "owed: watch t1/1 | held: esc | round 1 open"),
            ("esc", "owed: watch t1/1, stop t1/1 | calls: c1 waits for t1, c2 stopping | held: esc | round 1 open"),
        ],
    );
    // A background task has nobody to be detached from.
    facts(TWO, &[("detach t1", ""), ("await t1; detach t1", "")]);
}

#[test]
fn a_call_that_waits_takes_the_place_of_the_notice() {
    facts(
        TWO,
        &[
            ("await t1", "c2 awaits t1"),
            ("await t1; ended t1", "t1/1 completed to c2"),
            ("await t1; ended t1; step; reply; ended t1", ""),
            // Only what runs can wait, and only for what runs.
            ("await t9", ""),
            ("await t1 c1", ""),
            ("await t1; await t1 c2", ""),
            ("finish c2 ok; await t1 c2", ""),
            ("ended t1; await t1 c2", ""),
            // It waits no more: then the notice comes after all.
            ("await t1 until=500; lapse c2", "c2 done"),
            ("await t1 until=500; lapse c2; lapse c2", ""),
            ("await t1 until=500; lapse c2; ended t1", "t1/1 completed to queue"),
            ("await t1 until=500; ended t1; lapse c2", ""),
            // A call that runs does not lapse.
            ("lapse c2", ""),
        ],
    );
    states(
        TWO,
        &[
            ("await t1", "owed: watch t1/1 | calls: c2 waits for t1 | round 1 open"),
            ("await t1; ended t1", "owed: model 1 | round 1 open"),
            ("await t1; ended t1; step; reply", "owed: conclude 1 | round 1 open"),
            ("await t1; lapse c2", "owed: watch t1/1, model 1 | round 1 open"),
            // It outlives the process that waited.
            ("await t1; takeover", "owed: watch t1/1 | calls: c2 waits for t1 | round 1 open"),
        ],
    );
    facts(
        THREE,
        &[
            ("await t1; await t1; ended t1", "t1/1 completed to c2, c3 done"),
            ("await t1; await t1; ended t1 failed", "t1/1 failed to c2, c3 failed"),
            ("await t1; await t1; ended t1 stopped", "t1/1 stopped to c2, c3 failed"),
            ("await t1; await t1; ended t1 limit", "t1/1 limit to c2, c3 done"),
            ("await t1; await t1; lapse c2; ended t1", "t1/1 completed to c3"),
            ("await t1; await t1; lapse c3; ended t1", "t1/1 completed to c2"),
            ("await t1; await t1; lapse c2; lapse c3; ended t1", "t1/1 completed to queue"),
        ],
    );
    let play = Play::of(&format!("{TWO}await t1 until=500"));
    let waiter = &play.session.tasks()[&SessionId::new("t1")].waiting[0];
    assert_eq!((waiter.call.as_str(), waiter.until.map(|at| at.0)), ("c2", Some(500)), "who goes on knows until when");
    let waiting = |script: &str| Play::of(&format!("{TWO}await t1; {script}")).session.tasks()[&SessionId::new("t1")].waiting.len();
    assert_eq!([waiting(""), waiting("lapse c2"), waiting("esc")], [1, 0, 0], "who has an answer waits no more");
}

/// Each call that waits reads the end in its own words; who has none of its own reads the starter's.
#[test]
fn every_waiting_call_reads_the_end_in_its_own_words() {
    let mut play = Play::of(&format!("{THREE}await t1; await t1"));
    let Report::TaskEnded(mut end) = common::play::task_report("t1", 1, How::Completed) else { panic!("an end") };
    end.awaited = vec![(CallId::new("c2"), "for two".into()), (CallId::new("c3"), "for three".into())];
    play.decide(Command::Report(Report::TaskEnded(end)));
    assert_eq!((results(&play.log, "c2"), results(&play.log, "c3")), (vec!["for two".to_owned()], vec!["for three".to_owned()]));
    let play = Play::of(&format!("{THREE}await t1; await t1; ended t1"));
    assert_eq!((results(&play.log, "c2"), results(&play.log, "c3")), (vec!["found".to_owned()], vec!["found".to_owned()]));
    assert_eq!(notices(&play.log), []);
}

#[test]
fn what_the_model_has_read_needs_no_notice() {
    let ended = |script: &str| format!("{LAUNCHED}ended t1; {script}");
    let unqueued = |script: &str| Play::of(&ended(script)).facts.len();
    assert_eq!([unqueued("noticed t1"), unqueued("noticed t1; noticed t1"), unqueued("noticed t2")], [1, 0, 0]);
    assert_eq!(unqueued("step; noticed t1"), 0, "it has been said already");
    assert_eq!(Play::of(&ended("noticed t1; conclude")).state(), "settled | round 1 completed");
    // Of two rounds only the last notice is meant, and no one else's.
    let two = "say; step; reply +agent +agent; start; spawn t1 bg; spawn t2 bg; step; reply; stop user; ended t1; ended t2; wake t1; ended t1 round=2; ";
    let mut play = Play::of(two);
    let before: Vec<String> = notices(&play.log).into_iter().map(|(entry, _)| entry).collect();
    assert_eq!(before.len(), 3);
    play.run("noticed t1");
    let left: Vec<String> = play.session.queue().waiting().iter().map(|waiting| waiting.id.to_string()).collect();
    assert_eq!(left, before[..2], "the first round's notice and the other task's stay");
    assert!(play.session.queue().knows(&EntryId::new(before[2].as_str())), "it does not come again");
}

/// CC-188, CC-250: whatever happens to a background task and in whatever order, its end is heard exactly once: as the result
/// of a call, as a notice that one step says, or read and taken out of the queue.
#[test]
fn a_notice_is_delivered_once_whatever_happens() {
    let verbs = ["ended t1", "await t1 c2", "lapse c2", "noticed t1", "esc", "takeover", "stoptask t1", "detach t1"];
    let mut plays = 0;
    for code in 0..verbs.len().pow(4) {
        let order: Vec<&str> = (0..4).map(|place| verbs[code / verbs.len().pow(place) % verbs.len()]).collect();
        // The unlucky and the lucky end both come.
        let mut play = Play::of(&format!("{TWO}{}; ended t1", order.join("; ")));
        for _ in 0..12 {
            let owed = play.state();
            match () {
                () if owed.contains("calls: c2 running") || owed.contains("c2 stopping") => play.run("finish c2 ok"),
                () if owed.contains("run c2") => play.run("start; finish c2 ok"),
                () if owed.contains("held:") => play.run("resume"),
                () if owed.contains("model") && !owed.contains('*') => play.run("step; reply"),
                () if owed.contains("model") => play.run("reply"),
                () if owed.contains("conclude") => play.run("conclude"),
                () => {}
            }
            if play.session.is_settled() {
                break;
            }
            if play.facts.is_empty() && play.session.hold().is_some() {
                play.run("say");
            }
        }
        let ends = play.log.iter().filter(|record| matches!(record.event, Event::TaskEnded { .. })).count();
        assert_eq!(ends, 1, "{order:?}");
        let told = notices(&play.log);
        let taken = taken(&play.log);
        let by_call = play.log.iter().filter(|record| matches!(record.event, Event::TaskEnded { to: To::Call { .. }, .. })).count();
        let by_notice: u32 = told.iter().map(|(entry, _)| taken.get(entry).copied().unwrap_or(0)).sum();
        assert_eq!((by_call + told.len(), by_call + by_notice as usize), (1, 1), "{order:?}: {}", play.state());
        assert_eq!((results(&play.log, "c1").len(), results(&play.log, "c2").len()), (1, 1), "{order:?}");
        plays += 1;
    }
    assert_eq!(plays, 4_096);
}

#[test]
fn esc_leaves_the_background_alone() {
    facts(
        "",
        &[
            // The stream is dropped, the task goes on.
            ("say; step; reply +agent; start; spawn t1 bg; step; esc", "step dropped, interrupted esc"),
            ("say; step; reply +agent +agent; start; spawn t1 bg; spawn t2; esc", "interrupted esc, t2 stopped by user"),
            ("say; step; reply +bash; start; keep; finish ok; step; esc", "step dropped, interrupted esc"),
            // A call that only waits is cancelled; what it waited for goes on, and its end is a notice.
            ("say; step; reply +agent +read; start; spawn t1 bg; await t1; esc", "interrupted esc, c2 cancelled"),
            ("say; step; reply +agent +read; start; spawn t1 bg; await t1; esc; ended t1", "t1/1 completed to queue"),
            ("say; step; reply +agent +read; start; spawn t1 bg; await t1; esc; esc", ""),
            // A call that waits with the starter hears of the stop with it.
            ("say; step; reply +agent +read; start; spawn t1; await t1; esc", "interrupted esc, t1 stopped by user"),
            ("say; step; reply +agent +read; start; spawn t1; await t1; esc; ended t1 stopped", "t1/1 stopped to c1, c2 failed"),
        ],
    );
    states(
        "",
        &[
            ("say; step; reply +agent; start; spawn t1 bg; step; esc", "owed: watch t1/1 | held: esc | round 1 open"),
            ("say; step; reply +bash; start; keep; finish ok; step; esc", "owed: mind c1 | held: esc | round 1 open"),
            // The end of what went on is news after the hold, and wakes it.
            ("say; step; reply +agent; start; spawn t1 bg; step; esc; ended t1", "owed: model 2 | queue: msg_10 | round 1 open"),
        ],
    );
}

/// A task that is ended has nobody left who would hear of what it leaves running: Esc ends that too.
#[test]
fn esc_ends_what_a_task_has_in_the_background() {
    let mut task = Play::empty();
    task.decide(Command::Create(Box::new(created(Kind::Task, "ses_r", Some("ses_r"), Vec::new()))));
    task.run("say prompt; step; reply +agent +bash; start; keep c2; spawn t1 bg; finish c2 ok; step; reply; esc");
    assert_eq!(task.last_facts(), "interrupted esc, t1 stopped by user, kept c2 over, in silence");
    task.run("esc");
    assert_eq!(task.last_facts(), "", "told once is told");
    // The end of what it had below does not wake it, and whoever speaks to it does.
    task.run("ended t1 stopped; conclude");
    assert_eq!((task.session.hold(), task.session.is_settled()), (Some(Hold::Esc), true));
    task.run("say agent");
    assert_eq!(task.session.hold(), None);
}

/// CC-280: what the user has stopped stays the user's to lift, whoever stops it again and whatever is still on its way out.
#[test]
fn no_later_stop_weakens_the_users() {
    for open in ["say; step; reply +read; start; ", LAUNCHED, "say; step; "] {
        for weaker in ["stop model", "esc", "limit", "limit wall own"] {
            let mut play = Play::of(&format!("{open}stop user; {weaker}"));
            assert_eq!(play.last_facts(), "", "{open}{weaker}: told is told");
            assert_eq!(play.session.hold(), Some(Hold::StoppedByUser), "{open}{weaker}");
            play.run("say agent");
            assert_eq!(play.session.hold(), Some(Hold::StoppedByUser), "{open}{weaker}: no agent lifts it");
            // The other way round the user's is the stronger.
            let mut play = Play::of(&format!("{open}{weaker}; stop user"));
            let expected = if open == "say; step; " { play.session.hold() } else { Some(Hold::StoppedByUser) };
            assert_eq!(play.session.hold(), expected, "{open}{weaker}");
            play.run("say; ");
            assert_eq!(play.session.hold(), None, "{open}{weaker}: the user does");
        }
    }
    // A log of an older version may hold both facts: the stronger counts.
    let mut play = Play::of("say; step; reply +read; start; stop user");
    let mut log = play.log.clone();
    let mut weaker = log.last().cloned().unwrap_or_else(|| panic!("a log"));
    weaker.seq += 1;
    weaker.event = Event::Interrupted { by: By::Model, hold: Hold::StoppedByModel };
    log.push(weaker);
    play.session = Session::fold(SessionId::new("ses_0"), &log);
    assert_eq!(play.session.hold(), Some(Hold::StoppedByUser));
}

/// After its last step nobody would hear of what runs in the background: it ends with it.
#[test]
fn the_closing_step_ends_what_runs_in_the_background() {
    let shell = "say; step; reply +agent +agent +bash; start; keep c3; spawn t1 bg; spawn t2 bg; finish c3 ok; ";
    let mut play = Play::of(&format!("{shell}step closing; reply"));
    assert_eq!(play.last_facts(), "replied 0, limit steps, t1 stopped by kernel, t2 stopped by kernel, kept c3 over, in silence");
    assert_eq!(play.session.tasks()[&SessionId::new("t1")].stopped, Some((By::Kernel, Hold::Esc)), "they can be gone on with");
    play.run("ended t1 stopped; ended t2 stopped; conclude");
    assert!(play.session.is_settled() && play.session.hold() == Some(Hold::Limit), "{}", play.state());
    // Who was told already is not told again.
    let play = Play::of(&format!("{shell}stoptask t1; step closing; reply"));
    assert_eq!(play.last_facts(), "replied 0, limit steps, t2 stopped by kernel, kept c3 over, in silence");
}

/// A step that is put down on purpose is asked again, and nobody has died of it, however often.
#[test]
fn a_step_that_is_put_down_is_nobodys_death() {
    let mut play = Play::of("say");
    for _ in 0..5 {
        play.run("step");
        play.decide(Command::PutDown);
        assert!(matches!(play.facts[..], [Event::StepFailed { failure: None, retry_at: Some(_), .. }]), "{:?}", play.facts);
        play.decide(Command::PutDown);
        assert_eq!(play.last_facts(), "", "there is nothing in hand");
        play.run("takeover");
        assert_eq!((play.last_facts().as_str(), play.session.hold()), ("", None));
    }
    play.run("step; reply; conclude");
    assert!(play.session.is_settled(), "{}", play.state());
    // An owner that just dies is counted.
    assert_eq!(Play::of("say; step; takeover; step; takeover; step; takeover").session.hold(), Some(Hold::TakeOvers));
}

#[test]
fn a_stop_or_a_limit_ends_what_runs_in_the_background() {
    for (stop, fact, by) in [
        ("stop user", "interrupted stopped_by_user", "user"),
        ("stop model", "interrupted stopped_by_model", "model"),
        ("limit", "limit time", "kernel"),
        ("limit tokens", "limit tokens", "kernel"),
        ("limit wall own", "limit wall own", "kernel"),
    ] {
        let stopped = |script: &str| Play::of(&format!("{script}{stop}")).last_facts();
        let shell = "say; step; reply +agent +bash; start; keep c2; spawn t1 bg; finish c2 ok; step; ";
        assert_eq!(stopped(shell), format!("step dropped, {fact}, t1 stopped by {by}, kept c2 over, in silence"));
        // The session may be doing nothing else.
        assert_eq!(stopped(&format!("{shell}reply; ")), format!("{fact}, t1 stopped by {by}, kept c2 over, in silence"));
        assert_eq!(stopped(&format!("{LAUNCHED}esc; ")), format!("{fact}, t1 stopped by {by}"));
        assert_eq!(stopped(&format!("{TWO}await t1; ")), format!("{fact}, c2 cancelled, t1 stopped by {by}"));
        // Told once is told, and there may be nothing to tell.
        assert_eq!(stopped(&format!("{LAUNCHED}{stop}; ")), "");
        assert_eq!(stopped("say; step; reply; conclude; "), "");
        // The tasks are heard out, and then the round is over. Nothing wakes it.
        let play = Play::of(&format!("{LAUNCHED}{stop}; ended t1 stopped; conclude"));
        assert!(play.session.is_settled() && play.session.hold().is_some(), "{}", play.state());
    }
    // Who is stopped together with its parent can be gone on with like it.
    let play = Play::of(&format!("{LAUNCHED}stop user"));
    assert_eq!(play.session.tasks()[&SessionId::new("t1")].stopped, Some((By::User, Hold::Esc)));
}

/// The append that stopped the session was torn: told once more, it stops what it had not yet told.
#[test]
fn a_stop_that_was_torn_is_made_good_by_the_next() {
    let mut play = Play::of("say; step; reply +agent +bash; start; keep c2; spawn t1 bg; finish c2 ok; step; reply; stop user");
    assert_eq!(play.facts.len(), 3);
    play.log.truncate(play.log.len() - 2);
    play.session = Session::fold(play.session.id().clone(), &play.log);
    assert_eq!(play.state(), "owed: watch t1/1, mind c2 | held: stopped_by_user | round 1 open");
    play.run("stop user");
    assert_eq!(play.last_facts(), "interrupted stopped_by_user, t1 stopped by user, kept c2 over, in silence");
    play.run("stop user");
    assert_eq!(play.last_facts(), "");
}

#[test]
fn words_for_a_task_that_has_ended_wake_it() {
    facts(
        LAUNCHED,
        &[
            ("wake t1", ""),
            ("ended t1; wake t1", "t1/2 resumed"),
            ("ended t1; wake t1; wake t1", ""),
            ("ended t1; wake t1; ended t1", ""),
            ("ended t1; wake t1; ended t1 round=2", "t1/2 completed to queue"),
            ("ended t1; wake t1; stoptask t1", "t1 stopped by user"),
            ("ended t1; wake t1; detach t1", ""),
            ("ended t1; wake t1; ended t1 round=2; wake t1 round=3", "t1/3 resumed"),
        ],
    );
    states(
        LAUNCHED,
        &[
            // It is watched like any other, in a round of its own.
            ("ended t1; step; reply; conclude; wake t1", "owed: watch t1/2 | round 2 open"),
            ("ended t1; step; reply; conclude; wake t1; takeover", "owed: watch t1/2 | round 2 open"),
            // A task that is woken while its parent is held does not wake the parent.
            ("stop user; ended t1; conclude; wake t1", "owed: watch t1/2 | queue: msg_11 | held: stopped_by_user | round 2 open"),
        ],
    );
    // A task that a call started and waited for goes on without it.
    facts("say; step; reply +agent; start; spawn t1; ended t1; step; reply; ", &[("wake t1; ended t1 round=2", "t1/2 completed to queue")]);
    let play = Play::of(&format!("{LAUNCHED}ended t1; wake t1"));
    assert_eq!(play.session.tasks_started(), 1, "it is the same task");
}

#[test]
fn a_shell_outlives_its_call() {
    let kept = "say; step; reply +bash; start; keep; finish ok; ";
    facts(
        "say; step; reply +bash; ",
        &[("start; keep", "c1 kept"), ("start; keep; keep", ""), ("keep c1", ""), ("start; finish ok; keep c1", "")],
    );
    facts(
        kept,
        &[
            ("keptended c1", "kept c1 over, to queue"),
            ("keptended c1 silent", "kept c1 over, in silence"),
            ("keptended c1; keptended c1", ""),
            ("keptended c9", ""),
            ("takeover", "kept c1 over, to queue"),
            ("takeover; takeover", ""),
            ("takeover; keptended c1", ""),
            ("step; takeover", "took over 0, kept c1 over, to queue"),
            ("step; esc; takeover", "kept c1 over, to queue"),
        ],
    );
    states(
        kept,
        &[
            ("", "owed: mind c1, model 1 | round 1 open"),
            // A session is not settled while its shells run.
            ("step; reply", "owed: mind c1 | round 1 open"),
            ("step; reply; keptended c1", "owed: model 2 | queue: msg_11 | round 1 open"),
            ("step; reply; keptended c1 silent", "owed: conclude 1 | round 1 open"),
            ("step; reply; takeover", "owed: model 2 | queue: msg_11 | round 1 open"),
        ],
    );
    let play = Play::of(&format!("{kept}takeover"));
    let words = &notices(&play.log)[0].1;
    assert!(words.contains("[shell lost] npm run dev") && words.contains("unknown"), "{words}");
    assert_eq!(play.session.queue().waiting()[0].source, Source::Shell { call: CallId::new("c1") });
}

/// The texts of the last entry that was queued, and who it is from.
fn last_queued(play: &Play) -> (Option<Source>, String) {
    let queued = play.facts.iter().rev().find_map(|event| if let Event::Queued { entry } = event { Some(entry) } else { None });
    let words = queued.map(|entry| {
        let texts = entry.parts.iter().filter_map(|part| if let Part::Text { text, .. } = part { text.inline() } else { None });
        (entry.source.clone(), texts.collect::<Vec<_>>().join(" "))
    });
    words.map_or((None, String::new()), |(source, words)| (Some(source), words))
}

/// CC-140: an answer that comes when its ask is gone counts from then on, and the model hears of it once.
#[test]
fn an_answer_that_comes_late_is_an_entry() {
    // Interrupted before anybody answered, or refused because nobody was there.
    for closed in ["say; step; reply +ask=x; esc; conclude; ", "nobody; say; step; reply +ask=x; step; reply; conclude; "] {
        let late = |script: &str| Play::of(&format!("{closed}{script}"));
        let queued = |script: &str| late(script).last_facts();
        let yes = queued("late yes session");
        assert!(yes.starts_with("queued ask_") && yes.ends_with(".late, answered c1 yes by user"), "{yes}");
        // What it says counts from now on, as far as it says.
        let allowed = |scope: &str| late(&format!("late yes {scope}; step; reply +ask=x")).last_facts();
        assert_eq!(allowed("session"), "replied 1, called c2 allow", "{closed}");
        assert_eq!(allowed("project"), "replied 1, called c2 allow", "{closed}");
        assert!(allowed("once").starts_with("replied 1, called c2 ask, asked c2 ask"), "{closed}");
        assert!(late("late yes session; step; reply +ask=y").last_facts().starts_with("replied 1, called c2 ask"), "{closed}");
        assert!(late("late no; step; reply +ask=x").last_facts().starts_with("replied 1, called c2 ask"), "{closed}");
        // A second one is nothing, whatever it says.
        for again in ["late yes session; late yes session", "late no; late yes session", "late yes once; late no"] {
            assert_eq!(queued(again), "", "{closed}{again}");
        }
        assert_eq!(late("late no; late yes session").session.grants(), [], "{closed}");
        // It is a notice, and wakes what Esc had ended.
        let play = late("late yes session");
        let Event::Answered { ask, .. } = &play.facts[1] else { panic!("{:?}", play.facts) };
        let waiting = &play.session.queue().waiting()[0];
        assert_eq!((&waiting.source, waiting.priority), (&Source::Answer { ask: ask.clone() }, Priority::Later));
        assert_eq!((play.session.hold(), waiting.source.is_notice()), (None, true));
        let (_, words) = last_queued(&play);
        assert!(words.contains("now allowed") && words.contains("ask(x)"), "{words}");
        let (_, words) = last_queued(&late("late no not that one"));
        assert!(words.contains("now refused") && words.contains("not that one"), "{words}");
    }
    // What was answered in time is not answered again.
    facts("say; step; reply +ask; ", &[("yes; late yes session", ""), ("no; late yes session", ""), ("yes; esc; late yes session", "")]);
}

/// CC-140: the words to a question that was closed are not lost.
#[test]
fn a_questions_late_answer_brings_its_words() {
    for closed in ["say; step; reply +question; esc; conclude; ", "nobody; say; step; reply +question; step; reply; conclude; "] {
        let play = Play::of(&format!("{closed}late words the blue one"));
        let (source, words) = last_queued(&play);
        assert!(matches!(source, Some(Source::Answer { .. })), "{source:?}");
        assert!(words.ends_with("the blue one"), "{words}");
        assert!(play.last_facts().ends_with("answered c1 words by user"), "{}", play.last_facts());
    }
}

/// CC-140: nobody waits for what a task would do with an answer when its round is over: what it allows counts, that is all.
#[test]
fn a_late_answer_does_not_wake_a_task_that_has_ended() {
    let task = |script: &str| {
        let mut play = Play::empty();
        play.decide(Command::Create(Box::new(created(Kind::Task, "ses_r", Some("ses_r"), Vec::new()))));
        play.run(script);
        play
    };
    let over = task("nobody; say prompt; step; reply +ask=x; step; reply; conclude; late yes session");
    assert_eq!((over.last_facts().as_str(), over.session.is_settled()), ("answered c1 yes by user", true));
    assert_eq!(over.session.grants().len(), 1);
    let open = task("nobody; say prompt; step; reply +ask=x; step; late yes session");
    assert!(open.last_facts().starts_with("queued ask_"), "{}", open.last_facts());
}

/// A torn append of a late answer is made good by the letter that brings it again, and the model hears of it once.
#[test]
fn a_late_answer_that_was_torn_is_said_once() {
    let mut play = Play::of("say; step; reply +ask=x; esc; conclude; late yes session");
    play.log.pop();
    play.session = Session::fold(play.session.id().clone(), &play.log);
    play.run("late yes session");
    assert_eq!(play.last_facts(), "answered c1 yes by user");
    assert_eq!((play.session.queue().len(), play.session.grants().len()), (1, 1));
    // Policy does not answer late: it has answered already.
    let mut play = Play::of("say; step; reply +ask=x; esc; conclude");
    let asked = |record: &Record| if let Event::Asked { ask, .. } = &record.event { Some(ask.clone()) } else { None };
    let ask = play.log.iter().find_map(asked).expect("an ask");
    play.decide(Command::Answer { ask, answer: Answer::No { say: String::new() }, by: By::Policy });
    assert_eq!(play.last_facts(), "");
}

/// Only so many asks can still be answered: the oldest are forgotten first.
#[test]
fn the_last_asks_that_were_closed_can_be_answered() {
    let asks = (0..20).map(|number| format!(" +ask={number}")).collect::<String>();
    let play = Play::of(&format!("say; step; reply{asks}; esc"));
    let asked: Vec<_> =
        play.log.iter().filter_map(|record| if let Event::Asked { ask, .. } = &record.event { Some(ask) } else { None }).collect();
    let heard = asked.iter().filter(|ask| {
        let mut again = Play::of("");
        again.session = play.session.clone();
        again.log = play.log.clone();
        again.decide(Command::Answer { ask: (**ask).clone(), answer: Answer::No { say: String::new() }, by: By::User });
        !again.facts.is_empty()
    });
    assert_eq!((asked.len(), heard.count()), (20, 16));
}

#[test]
fn an_overloaded_model_is_stood_in_for() {
    let with = "fallbacks two three; say; step; ";
    facts(
        with,
        &[
            // Once is no pattern; the pause is the usual one.
            ("fail overloaded", "failed overloaded @1000"),
            ("fail overloaded; step; fail overloaded", "failed overloaded @0, on two"),
            ("fail rate_limited; step; fail rate_limited", "failed rate_limited @0, on two"),
            // A server that asks for patience is not waited for while another could answer.
            ("fail rate_limited after=16", "failed rate_limited @0, on two"),
            ("fail rate_limited after=15", "failed rate_limited @15000"),
            ("fail overloaded after=3600", "failed overloaded @0, on two"),
            // Other failures are nobody else's to answer.
            ("fail server after=60", "failed server @60000"),
            ("fail network; step; fail network", "failed network @2000"),
            ("fail cut; step; fail cut", "failed cut @400"),
            ("fail auth", "failed auth"),
            ("fail overloaded; step; fail cut; step; fail overloaded", "failed overloaded @1000"),
            // The chain goes on; every model is given its own two tries.
            ("fail overloaded after=60; step; fail overloaded", "failed overloaded @1000"),
            ("fail overloaded after=60; step; fail overloaded; step; fail overloaded", "failed overloaded @0, on three"),
            ("fail overloaded after=60; step; fail overloaded after=60", "failed overloaded @0, on three"),
            // At its end there are the usual retries.
            ("fail overloaded after=60; step; fail overloaded after=60; step; fail overloaded after=60", "failed overloaded @60000"),
            (
                "fail overloaded after=60; step; fail overloaded after=60; step; fail overloaded; step; fail overloaded",
                "failed overloaded @2000",
            ),
        ],
    );
    facts("say; step; ", &[("fail overloaded; step; fail overloaded", "failed overloaded @2000")]);
    states(
        with,
        &[
            ("fail overloaded after=60", "owed: model 1 @0 | on two | round 1 open"),
            // Who stands in goes on, turn after turn, whoever takes over, until the first is asked again.
            ("fail overloaded after=60; step; reply; conclude; say", "owed: model 2 | queue: e2 | on two | round 2 open"),
            ("fail overloaded after=60; step; takeover", "owed: model 2 @0 | on two | round 1 open"),
            ("fail overloaded after=60; step; reply; model own; conclude", "settled | round 1 completed"),
        ],
    );
    facts(
        with,
        &[
            ("fail overloaded after=60; model own", "on its own"),
            ("fail overloaded after=60; model own; model own", ""),
            ("fail overloaded after=60; model two", ""),
            ("model own", ""),
            ("model three", "on three"),
            // Back with its own, it is overloaded again: the chain begins anew.
            ("fail overloaded after=60; model own; step; fail overloaded after=60", "failed overloaded @0, on two"),
        ],
    );
    let play = Play::of(&format!("{with}fail overloaded after=60"));
    assert_eq!(play.session.next_turn().model.as_deref(), Some("two"), "the next step is the stand-in's");
    assert!(matches!(&play.facts[1], Event::ModelChanged { why, .. } if why == "it is overloaded"), "{:?}", play.facts);
    assert_eq!(Play::of(&format!("{with}fail overloaded after=60; model own")).session.next_turn().model, None);
}

/// Three that could stand in are asked in their order, wherever the session's own model stands among them, and none twice.
#[test]
fn every_stand_in_is_asked_in_order() {
    for list in ["two three four", "test/one two three four", "two test/one three four", "two three four test/one"] {
        let mut play = Play::of(&format!("fallbacks {list}; say"));
        for next in ["two", "three", "four"] {
            play.run("step; fail overloaded; step; fail overloaded");
            assert_eq!(play.last_facts(), format!("failed overloaded @0, on {next}"), "{list}");
        }
        // At the end of the list there are the usual retries.
        play.run("step; fail overloaded; step; fail overloaded");
        assert!(!play.last_facts().contains(", on "), "{list}: {}", play.last_facts());
    }
}

/// A model that never stops being overloaded is given up in the end, with stand-ins too.
#[test]
fn a_chain_of_overloaded_models_ends() {
    let mut play = Play::of("fallbacks two three; say");
    let mut failures = 0;
    while play.session.hold().is_none() {
        play.run("step; fail overloaded");
        failures += 1;
        assert!(failures < 40, "{}", play.state());
    }
    assert_eq!((play.session.hold(), failures), (Some(Hold::ModelError), 2 + 2 + 10));
}

#[test]
fn time_that_ran_out_is_a_failure_and_other_limits_leave_a_result() {
    for (limit, how) in
        [("wall", "failed"), ("idle", "failed"), ("time", "limit"), ("tokens", "limit"), ("cost", "limit"), ("steps", "limit")]
    {
        for own in ["", " own"] {
            let mut play = Play::of(&format!("say; step; limit {limit}{own}"));
            assert_eq!(play.last_facts(), format!("step dropped, limit {limit}{own}"));
            play.run("conclude");
            assert_eq!(play.last_facts(), format!("ended 1 {how}"));
            assert_eq!(play.state(), format!("settled | held: limit | round 1 {how}"));
        }
    }
    // At the last step that its own definition leaves it, the limit is its own; else it is the tree's.
    let closing = |steps_max: Option<u64>| {
        let mut birth = created(Kind::Task, "ses_r", Some("ses_r"), Vec::new());
        if let Event::Created { recipe, .. } = &mut birth {
            recipe.steps_max = steps_max;
        }
        let mut play = Play::empty();
        play.decide(Command::Create(Box::new(birth)));
        play.run("say prompt; step closing; reply");
        play.last_facts()
    };
    assert_eq!(
        [closing(Some(0)), closing(None), closing(Some(9))],
        ["replied 0, limit steps own", "replied 0, limit steps", "replied 0, limit steps"]
    );
}

/// CC-141, CC-142, CC-143, CC-134: now before next before later; a user's words are next, notices are later, so that they
/// never come before what a user typed, even while a turn runs.
#[test]
fn users_come_before_notices_and_urgent_words_before_both() {
    let entry = Entry::user(EntryId::new("e"), "hi");
    assert_eq!((entry.priority, Priority::default()), (Priority::Next, Priority::Later));
    assert!(Priority::Now < Priority::Next && Priority::Next < Priority::Later);
    let json = r#"{"id":"e","source":{"from":"task","task":"t1"},"parts":[]}"#;
    assert_eq!(serde_json::from_str::<Entry>(json).expect("an entry").priority, Priority::Later);
    let step = |script: &str| Play::of(script).last_facts();
    let noticed = format!("{LAUNCHED}ended t1; ");
    assert_eq!(step(&format!("{noticed}say; step")), "step 2 [e2]", "the user first");
    assert_eq!(step(&format!("{noticed}say; step; reply; step")), "step 3 [msg_10]");
    assert_eq!(step(&format!("{noticed}say agent; say now; step")), "step 2 [e3]");
    assert_eq!(step(&format!("{noticed}say later; step")), "step 2 [msg_10]", "what came first, among equals");
    // While a turn runs all of it steers, in the same order; the user's words wait for the boundary, no tool is ended.
    let busy = "say; step; reply +agent +touch; start; spawn t1 bg; ended t1; say; say now; ";
    assert_eq!(step(&format!("{busy}finish c2 ok; step")), "step 1 [e3 e2 msg_9]");
    assert_eq!(Play::of(busy).state(), "owed: run c2* | calls: c2 running | queue: msg_9, e2, e3 | round 1 open");
}

/// CC-133: notices that wait together are said together, whatever they tell of, and nobody's words with them.
#[test]
fn notices_that_wait_together_are_said_together() {
    let script = "say; step; reply +agent +agent +bash; start; keep c3; spawn t1 bg; spawn t2 bg; finish c3 ok; step; reply; \
                  ended t1; keptended c3; ended t2; say timer; ";
    let play = Play::of(&format!("{script}step"));
    let all: Vec<String> = notices(&play.log).into_iter().map(|(entry, _)| entry).collect();
    assert_eq!(play.last_facts(), format!("step 2 [{} e2]", all.join(" ")));
    assert_eq!(Play::of(&format!("{script}say; step")).last_facts(), "step 2 [e3]");
}

/// CC-131, CC-132: a notice is in the log of the session whose task it was, and in no other: there is nothing to filter.
#[test]
fn a_notice_belongs_to_the_session_that_started_the_task() {
    let parent = Play::of(&format!("{LAUNCHED}ended t1"));
    let mut other = Play::of("say; step; reply");
    other.run("ended t1");
    assert_eq!((other.last_facts().as_str(), other.session.queue().len()), ("", 0), "not its task");
    assert_eq!(notices(&parent.log).len(), 1);
    // A task's own task tells the task, not the root.
    let mut task = Play::empty();
    task.decide(Command::Create(Box::new(created(Kind::Task, "ses_r", Some("ses_r"), Vec::new()))));
    task.run(&format!("{LAUNCHED}ended t1"));
    assert_eq!(task.session.queue().waiting()[0].source, Source::Task { task: SessionId::new("t1") });
    assert!(!task.session.is_settled(), "and its round is not over before it has heard of it");
}

#[test]
fn a_summary_tells_of_the_background() {
    use posse_session::{Status, Summary};
    let summary = |script: &str| {
        let play = Play::of(script);
        let mut summary = Summary::new(SessionId::new("ses_0"));
        play.log.iter().for_each(|record| summary.apply(record));
        summary
    };
    let tasks = |script: &str| (summary(script).open_tasks, summary(script).open_calls, summary(script).tasks_started);
    assert_eq!(tasks("say; step; reply +agent; start; spawn t1 bg"), (1, 0, 1));
    assert_eq!(tasks(&format!("{LAUNCHED}ended t1")), (0, 0, 1));
    assert_eq!(tasks(&format!("{LAUNCHED}ended t1; wake t1")), (1, 0, 1));
    assert_eq!(tasks(&format!("{TWO}await t1")), (1, 1, 1));
    assert_eq!(tasks(&format!("{THREE}await t1; await t1; ended t1")), (0, 0, 1));
    let kept = summary("say; step; reply +bash; start; keep; finish ok; step; reply");
    assert_eq!(kept.kept, [(CallId::new("c1"), "npm run dev".to_owned())]);
    assert_eq!(summary("say; step; reply +bash; start; keep; finish ok; step; reply; keptended c1 silent").kept, []);
    assert_eq!(summary("fallbacks two; say; step; fail overloaded after=60").stand_in.as_deref(), Some("two"));
    assert_eq!(summary("fallbacks two; say; step; fail overloaded after=60; model own").stand_in, None);
    assert_eq!(summary("say; step; stop model; conclude").stopped_by, Some(By::Model));
    // A session whose task was woken goes on: whoever looks for leftovers finds it.
    let woken = format!("{LAUNCHED}ended t1; step; reply; conclude; wake t1");
    assert_eq!((summary(&woken).status, summary(&woken).is_over()), (Status::Running, false));
    // What a late answer allows is in the lists, too.
    for closed in ["say; step; reply +ask=x; esc; conclude; ", "nobody; say; step; reply +ask=x; step; reply; conclude; "] {
        for (answer, grants) in [("late yes session", 1), ("late yes once", 0), ("late no; late yes session", 0)] {
            let script = format!("{closed}{answer}");
            assert_eq!((summary(&script).granted.len(), Play::of(&script).session.grants().len()), (grants, grants), "{script}");
        }
    }
}

/// A log of another owner that was torn between the end of a task and the answers of those who waited with the first.
#[test]
fn who_waited_for_a_task_that_ended_is_not_told_that_it_runs() {
    let mut play = Play::of(&format!("{THREE}await t1; await t1; ended t1"));
    play.log.pop();
    play.session = Session::fold(play.session.id().clone(), &play.log);
    play.run("takeover");
    assert_eq!(play.last_facts(), "c3 done");
    let words = &results(&play.log, "c3")[0];
    assert!(words.contains("has ended") && !words.contains("notice"), "{words}");
}
