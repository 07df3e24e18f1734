//! Fold tables: what a session is after a few commands, or which facts the last command became.
//!
//! The language is explained in `common/play.rs`. In a state a star means begun; `@200` is "not before".

mod common;

use std::time::Duration;

use common::{
    created,
    play::{Play, check_rows, task_report},
    record, rule, wanted,
};
use posse_session::{
    CallState, Command, Delivery, Effect, Entry, EntryId, Event, Finish, Hold, Kind, ModelFailure, Outcome, Part, Permit, QUEUE_MAX,
    Report, Segment, Session, SessionId, Source, Summary, Text, To, Usage, Verdict, WAIT_MAX, retry_after,
};

fn states(rows: &[(&str, &str)]) {
    check_rows(rows, Play::state);
}

fn facts(rows: &[(&str, &str)]) {
    check_rows(rows, Play::last_facts);
}

#[test]
fn one_turn() {
    states(&[
        ("", "settled | round 0 completed"),
        ("say", "owed: model 0 | queue: e1 | round 1 open"),
        ("say; step", "owed: model 0* | round 1 open"),
        ("say; step; reply", "owed: conclude 1 | round 1 open"),
        ("say; step; reply; conclude", "settled | round 1 completed"),
        ("say; step; reply +touch", "owed: run c1 | calls: c1 ready | round 1 open"),
        ("say; step; reply +touch; start", "owed: run c1* | calls: c1 running | round 1 open"),
        ("say; step; reply +touch; start; finish ok", "owed: model 1 | round 1 open"),
        ("say; step; reply +touch; start; finish fail", "owed: model 1 | round 1 open"),
        ("say; step; reply +touch +read; start", "owed: run c1*, run c2* | calls: c1 running, c2 running | round 1 open"),
        // Parallel calls end in any order; the model waits for all of them.
        ("say; step; reply +touch +read; start; finish c2 ok", "owed: run c1* | calls: c1 running | round 1 open"),
        ("say; step; reply +touch +read; start; finish c2 ok; finish c1 ok; step; reply; conclude", "settled | round 1 completed"),
        ("say; step; reply; conclude; say", "owed: model 1 | queue: e2 | round 2 open"),
        ("say; step; reply; conclude; say; step; reply; conclude", "settled | round 2 completed"),
    ]);
    facts(&[
        ("say", "queued e1"),
        ("say; step", "step 0 [e1]"),
        ("say; step; reply", "replied 0"),
        (
            "say; step; reply +touch +deny +ask +bad",
            "replied 4, called c1 allow, called c2 deny, c2 denied, called c3 ask, asked c3 ask, called c4 -, c4 failed",
        ),
        ("say; step; reply +touch; start", "started c1/1"),
        ("say; step; reply +touch; start; finish ok", "c1 done"),
        ("say; step; reply; conclude", "ended 1 completed"),
    ]);
}

#[test]
fn what_a_step_takes() {
    facts(&[
        // One user's entry per turn, the others wait for theirs.
        ("say; say; step", "step 0 [e1]"),
        ("say; say; step; reply; step", "step 1 [e2]"),
        // Agents are answered one by one, too.
        ("say agent; say agent; step", "step 0 [e1]"),
        // All notices together, and not with a user's words.
        ("say task; say task; say hook; say plugin; step", "step 0 [e1 e2 e3 e4]"),
        ("say task; say; say task; step", "step 0 [e2]"),
        ("say task; say; say task; step; reply; step", "step 1 [e1 e3]"),
        // A turn of notices leaves users' words of a lower priority alone.
        ("say later; say task now; step", "step 0 [e2]"),
        // The order is by priority, then by arrival.
        ("say later; say; say now; step", "step 0 [e3]"),
        ("say; say now; say now; step", "step 0 [e2]"),
        // Inside a turn everything due steers it, in order of priority.
        ("say; step; reply +touch; say; say task; say agent; start; finish ok; step", "step 1 [e2 e4 e3]"),
        ("say; step; reply +touch; say later; say task now; say; start; finish ok; step", "step 1 [e3 e4 e2]"),
        // When-idle waits for the end of the turn, whoever stands behind it.
        ("say; step; reply +touch; say timer; say; start; finish ok; step", "step 1 [e3]"),
        ("say; step; reply +touch; say idle; start; finish ok; step", "step 1 []"),
        ("say; step; reply +touch; say idle; start; finish ok; step; reply; step", "step 2 [e2]"),
        ("say timer; step", "step 0 [e1]"),
        // What arrives while the model speaks waits for the next boundary.
        ("say; step; say; reply; step", "step 1 [e2]"),
        ("say; step; say; reply +touch; start; finish ok; step", "step 1 [e2]"),
        // A step that is tried again takes what has come meanwhile.
        ("say; step; say; fail cut; step", "step 1 [e2]"),
        // Up to 256 KiB; a larger entry goes alone.
        ("say task bytes=200000; say task bytes=60000; say task bytes=60000; step", "step 0 [e1 e2]"),
        ("say task bytes=200000; say task bytes=60000; say task bytes=60000; step; reply; step", "step 1 [e3]"),
        ("say task bytes=900000; say task bytes=1; step", "step 0 [e1]"),
        ("say task bytes=1; say task bytes=900000; say task bytes=1; step", "step 0 [e1]"),
        ("say task bytes=1; say task bytes=900000; say task bytes=1; step; reply; step", "step 1 [e2]"),
    ]);
}

#[test]
fn a_known_entry_is_dropped() {
    facts(&[
        ("say #a; say #a", ""),
        ("say #a; step; say #a", ""),
        ("say #a; step; reply; conclude; say #a", ""),
        ("say #a; say #b", "queued b"),
    ]);
}

#[test]
fn an_entry_that_still_waits_is_known_however_many_came_after() {
    let mut play = Play::of("say #first");
    for number in 0..700 {
        play.decide(Command::Say(Entry::user(EntryId::new(format!("m{number}")), "hi")));
    }
    play.run("say #first");
    assert_eq!((play.last_facts().as_str(), play.session.queue().len()), ("", 701));
}

#[test]
fn a_full_queue_refuses_users_and_no_completion() {
    let mut play = Play::of("say; step; reply +agent; start; spawn t1 bg");
    for number in 0..QUEUE_MAX {
        let entry = Entry::user(EntryId::new(format!("m{number}")), "hi");
        let events = play.session.decide(Command::Say(entry.clone()), &given(&play));
        assert_eq!(events.len(), 1, "{number}");
        play.session.apply(&record(play.session.head() + 1, Event::Queued { entry }));
    }
    let refused = |source: Source| {
        let entry = Entry { id: EntryId::new("new"), source, ..Entry::user(EntryId::new("x"), "hi") };
        play.session.decide(Command::Say(entry), &given(&play)).is_empty()
    };
    let plugin = Source::Plugin { name: "p".into() };
    let agent = Source::Agent { session: SessionId::new("ses_9"), name: "peer".into() };
    assert_eq!([refused(Source::User), refused(agent), refused(plugin)], [true; 3]);
    let task = Source::Task { task: SessionId::new("t") };
    assert_eq!([refused(task), refused(Source::Timer), refused(Source::Hook { name: "h".into() })], [false; 3]);
    let ended = task_report("t1", 1, posse_session::How::Completed);
    let events = play.session.decide(Command::Report(ended), &given(&play));
    assert!(matches!(&events[..], [Event::TaskEnded { to: To::Queue { .. }, .. }]), "{events:?}");
    assert!(!play.session.queue().accepts(&Source::User));
}

fn given(play: &Play) -> posse_session::Given<'_> {
    static IDS: common::Counter = common::Counter(std::sync::atomic::AtomicU64::new(1_000_000));
    posse_session::Given {
        now: posse_session::Timestamp(0),
        ids: &IDS,
        chance: 0.0,
        rules: &play.rules,
        ceiling: &[],
        asking: posse_session::Asking::Open,
        mode: Default::default(),
        strict_shell: false,
        grants: &[],
        looks: false,
        fallbacks: &[],
        compacts: true,
        in_flight: Default::default(),
    }
}

#[test]
fn what_wakes_a_held_session() {
    let by_model = "say; step; stop model; conclude; ";
    let by_user = "say; step; stop user; conclude; ";
    let esc = "say; step; esc; conclude; ";
    let model_error = "say; step; fail auth; conclude; ";
    let takeovers = "say; step; takeover; step; takeover; step; takeover; conclude; ";
    let limit = "say; step; limit; conclude; ";
    let rows = [
        // hold, and who wakes it: user, agent, task, timer, hook, plugin, resume.
        // A message wakes what nobody has decided to stop for good; what the user stopped, only the user wakes.
        (by_model, "stopped_by_model", [true, true, false, false, false, false, true]),
        (by_user, "stopped_by_user", [true, false, false, false, false, false, true]),
        (esc, "esc", [true, true, true, true, true, true, true]),
        (model_error, "model_error", [true, true, false, false, false, false, true]),
        (takeovers, "take_overs", [true, true, false, false, false, false, true]),
        (limit, "limit", [true, true, false, false, false, false, true]),
    ];
    for (script, hold, wakes) in rows {
        let held = Play::of(script);
        let state = held.state();
        assert!(state.starts_with("settled") && state.contains(&format!("held: {hold}")), "{script}: {state}");
        for (index, who) in ["say", "say agent", "say task", "say timer", "say hook", "say plugin", "resume"].iter().enumerate() {
            let mut play = Play::of(script);
            play.run(who);
            assert_eq!(play.session.hold().is_none(), wakes[index], "{hold}: {who}");
            let owes_step = play.session.owed().iter().any(|effect| matches!(effect, Effect::CallModel { .. }));
            assert_eq!(owes_step, wakes[index], "{hold}: {who}: {}", play.state());
        }
    }
}

#[test]
fn a_held_session_keeps_its_queue_and_starts_no_round() {
    states(&[
        // A notice that came before Esc does not restart the session at once.
        ("say; step; say task; esc", "owed: conclude 1 | queue: e2 | held: esc | round 1 open"),
        ("say; step; say task; esc; conclude", "settled | queue: e2 | held: esc | round 1 stopped"),
        ("say; step; say task; esc; conclude; say task", "owed: model 1 | queue: e2, e3 | round 2 open"),
        ("say; step; stop user; conclude; say task", "settled | queue: e2 | held: stopped_by_user | round 1 stopped"),
        ("say; step; stop user; conclude; say agent; say timer", "settled | queue: e2, e3 | held: stopped_by_user | round 1 stopped"),
        ("say; step; stop user; conclude; say task; say", "owed: model 1 | queue: e2, e3 | round 2 open"),
        ("say; step; stop model; conclude; say task", "settled | queue: e2 | held: stopped_by_model | round 1 stopped"),
        ("say; step; fail auth; conclude; say task", "settled | queue: e2 | held: model_error | round 1 failed"),
        // Never heard, stopped: the prompt stays.
        ("say; stop model; conclude", "settled | queue: e1 | held: stopped_by_model | round 1 stopped"),
        ("say; stop model; conclude; resume", "owed: model 0 | queue: e1 | round 2 open"),
    ]);
    facts(&[
        ("say; step; stop user; conclude; say task; say; step", "step 1 [e3]"),
        ("say; step; stop user; conclude; say task; say; step; reply; step", "step 2 [e2]"),
    ]);
}

#[test]
fn fifty_notices_and_a_wrong_key_are_one_failing_call() {
    let mut play = Play::new();
    (0..50).for_each(|_| play.run("say task"));
    play.run("step");
    assert_eq!(play.session.queue().len(), 0, "all together");
    (0..50).for_each(|_| play.run("say task"));
    play.run("fail auth");
    assert_eq!(play.state().split(" | ").next(), Some("owed: conclude 1"));
    assert_eq!((play.session.queue().len(), play.session.hold()), (50, Some(Hold::ModelError)));
}

#[test]
fn interrupts() {
    states(&[
        // The stream is dropped.
        ("say; step; esc", "owed: conclude 1 | held: esc | round 1 open"),
        ("say; step; esc; conclude", "settled | held: esc | round 1 stopped"),
        // What has not started never does.
        ("say; step; reply +touch; esc", "owed: conclude 1 | held: esc | round 1 open"),
        ("say; step; reply +ask; esc", "owed: conclude 1 | held: esc | round 1 open"),
        ("hooks; say; step; reply +touch; esc", "owed: conclude 1 | held: esc | round 1 open"),
        // What runs is told to stop, and its outcome is awaited.
        ("say; step; reply +touch; start; esc", "calls: c1 stopping | held: esc | round 1 open"),
        ("say; step; reply +touch; start; esc; finish cancelled; conclude", "settled | held: esc | round 1 stopped"),
        ("say; step; reply +touch; start; esc; finish ok; conclude", "settled | held: esc | round 1 stopped"),
        // A task that is waited for is told to stop; its call stays open until it did.
        (
            "say; step; reply +agent; start; spawn t1; esc",
            "owed: watch t1/1, stop t1/1 | calls: c1 waits for t1 | held: esc | round 1 open",
        ),
        ("say; step; reply +agent; start; spawn t1; esc; ended t1 stopped; conclude", "settled | held: esc | round 1 stopped"),
        // A background task goes on.
        ("say; step; reply +agent; start; spawn t1 bg; step; esc", "owed: watch t1/1 | held: esc | round 1 open"),
        // A stop, unlike Esc, also holds a session that only waits for its background tasks, and ends those.
        (
            "say; step; reply +agent; start; spawn t1 bg; step; reply; stop user",
            "owed: watch t1/1, stop t1/1 | held: stopped_by_user | round 1 open",
        ),
        (
            "say; step; reply +agent; start; spawn t1 bg; step; reply; stop user; ended t1",
            "owed: conclude 1 | queue: msg_11 | held: stopped_by_user | round 1 open",
        ),
        (
            "say; step; reply +agent; start; spawn t1 bg; step; esc; stop user; ended t1; conclude",
            "settled | queue: msg_11 | held: stopped_by_user | round 1 stopped",
        ),
        ("say; step; reply +agent; start; spawn t1 bg; step; reply; limit", "owed: watch t1/1, stop t1/1 | held: limit | round 1 open"),
        // Between two steps, and while waiting for a retry.
        ("say; step; reply +touch; start; finish ok; esc; conclude", "settled | held: esc | round 1 stopped"),
        ("say; step; fail cut; esc; conclude", "settled | held: esc | round 1 stopped"),
        ("say; esc; conclude", "settled | queue: e1 | held: esc | round 1 stopped"),
        // There is nothing to end.
        ("esc", "settled | round 0 completed"),
        ("say; step; reply; conclude; esc", "settled | round 1 completed"),
        ("say; step; reply; esc", "owed: conclude 1 | round 1 open"),
        ("say; step; reply +agent; start; spawn t1 bg; step; reply; esc", "owed: watch t1/1 | round 1 open"),
        ("say; step; esc; conclude; esc", "settled | held: esc | round 1 stopped"),
        // A new prompt while the last call is still stopping waits for it.
        ("say; step; reply +touch; start; esc; say", "calls: c1 stopping | queue: e2 | round 1 open"),
        ("say; step; reply +touch; start; esc; say; finish cancelled", "owed: model 1 | queue: e2 | round 1 open"),
        ("say; step; reply +touch; start; esc; say; finish cancelled; step; reply; conclude", "settled | round 1 completed"),
    ]);
    facts(&[
        ("say; step; esc", "step dropped, interrupted esc"),
        ("say; step; reply +touch; esc", "interrupted esc, c1 cancelled"),
        ("say; step; reply +ask; esc", "interrupted esc, c1 cancelled"),
        ("hooks; say; step; reply +touch; esc", "interrupted esc, c1 cancelled"),
        ("say; step; reply +touch +read; start c1; esc", "interrupted esc, c2 cancelled"),
        ("say; step; reply +touch; start; esc; finish cancelled", "c1 cancelled"),
        // It did end before it heard of the stop: then that is what happened.
        ("say; step; reply +touch; start; esc; finish ok", "c1 done"),
        ("say; step; reply +agent; start; spawn t1; esc", "interrupted esc, t1 stopped by user"),
        ("say; step; reply +agent; start; spawn t1; stoptask t1; esc", "interrupted esc"),
        ("say; step; reply +agent; start; spawn t1; esc; ended t1 stopped", "t1/1 stopped to c1"),
        ("say; step; reply +agent; start; spawn t1 bg; step; esc", "step dropped, interrupted esc"),
        ("say; step; esc; esc", ""),
        ("say; step; reply +agent; start; spawn t1 bg; step; reply; stop user; stop user", ""),
        // Reports of what was dropped are nothing.
        ("say; step; esc; reply", ""),
        ("say; step; esc; fail cut", ""),
    ]);
    let play = Play::of("say; step; esc");
    assert!(matches!(&play.facts[0], Event::StepFailed { partial: Text::Inline(said), retry_at: None, .. } if said == "half a"));
}

#[test]
fn resume_goes_on_with_what_was_cut_short() {
    facts(&[
        ("resume", ""),
        ("say; step; resume", ""),
        ("say; step; esc; resume", "resumed"),
        // The note says that the turn goes on.
        ("say; step; esc; resume; step", "step 1 [] +1"),
        ("say; step; esc; conclude; resume; step", "step 1 [] +1"),
        ("say; step; reply +touch; start; esc; finish cancelled; resume; step", "step 1 [] +1"),
        ("say; step; reply +touch; esc; conclude; resume; step", "step 1 [] +1"),
        ("say; step; fail auth; conclude; resume; step", "step 1 [] +1"),
        ("say; step; limit; conclude; resume; step", "step 1 [] +1"),
        ("say; step; takeover; step; takeover; step; takeover; conclude; resume; step", "step 3 [] +1"),
        // A turn that was resumed takes in what waited.
        ("say; step; say; esc; conclude; resume; step", "step 1 [e2] +1"),
        // A new prompt instead of a resume starts a turn of its own; no note.
        ("say; step; esc; conclude; say; step", "step 1 [e2]"),
        ("say; step; fail auth; conclude; say; step", "step 1 [e2]"),
        ("say; step; esc; conclude; say; step; esc; resume; step", "step 2 [] +1"),
        // Cut short, spoken to, stopped before a step: still to be gone on with.
        ("say; step; esc; conclude; say; esc; resume; step", "step 1 [e2] +1"),
    ]);
    states(&[
        ("say; step; esc; resume", "owed: model 1 | round 1 open"),
        ("say; step; esc; conclude; resume", "owed: model 1 | round 2 open"),
        ("say; step; reply +touch; start; esc; resume", "calls: c1 stopping | round 1 open"),
        // An answered turn is over: there is nothing to go on with.
        ("say; step closing; reply; conclude", "settled | held: limit | round 1 limit"),
        ("say; step closing; reply; conclude; resume", "settled | held: limit | round 1 limit"),
        ("say; step closing; reply +touch; conclude; resume", "settled | held: limit | round 1 limit"),
        ("say; step; esc; conclude; say; step; reply; conclude; resume", "settled | round 2 completed"),
    ]);
}

#[test]
fn retries_by_the_table() {
    use ModelFailure::{Auth, BadRequest, Cut, Deadline, Idle, Malformed, NeedsModel, Network, Overloaded, RateLimited, Server, TooLong};
    let ms = |failure, failed| retry_after(failure, failed, None, 0.0).map(|wait| wait.as_millis());
    for failure in [Cut, Idle] {
        let waits: Vec<_> = (1..=6).map(|failed| ms(failure, failed)).collect();
        assert_eq!(waits, [Some(200), Some(400), Some(800), Some(1_600), Some(3_200), None], "{failure:?}");
    }
    assert_eq!([ms(Malformed, 1), ms(Malformed, 2)], [Some(200), None]);
    for failure in [RateLimited, Overloaded, Server, Network] {
        let waits: Vec<_> = (1..=10).map(|failed| ms(failure, failed).map(|wait| wait / 1_000)).collect();
        let expected = [1, 2, 4, 8, 16, 32, 60, 60, 60].map(Some);
        assert_eq!((&waits[..9], waits[9]), (&expected[..], None), "{failure:?}");
    }
    for failure in [Deadline, TooLong, BadRequest, Auth, NeedsModel] {
        assert_eq!(retry_after(failure, 1, Some(Duration::from_secs(1)), 0.5), None, "{failure:?}");
    }
    // Up to a quarter more, never less, whatever the dice say.
    assert_eq!(retry_after(Cut, 1, None, 1.0), Some(Duration::from_millis(250)));
    assert_eq!(retry_after(Cut, 1, None, 7.0), Some(Duration::from_millis(250)));
    assert_eq!(retry_after(Cut, 1, None, -7.0), Some(Duration::from_millis(200)));
    // The server's word counts, within reason.
    let asked = |secs| retry_after(RateLimited, 1, Some(Duration::from_secs(secs)), 0.0);
    assert_eq!([asked(30), asked(0), asked(86_400)], [Some(Duration::from_secs(30)), Some(Duration::from_secs(1)), Some(WAIT_MAX)]);
    assert_eq!(retry_after(Cut, u32::MAX, None, 0.0), None);
}

#[test]
fn retries_of_a_step() {
    states(&[
        ("say; step; fail cut", "owed: model 1 @200 | round 1 open"),
        ("say; wait 1000; step; fail cut", "owed: model 1 @1200 | round 1 open"),
        ("say; step; fail cut; step; fail cut", "owed: model 2 @400 | round 1 open"),
        ("say; step; fail rate_limited after=30", "owed: model 1 @30000 | round 1 open"),
        ("say; step; fail cut; step", "owed: model 1* | round 1 open"),
        ("say; step; fail cut; step; reply; conclude", "settled | round 1 completed"),
        // An answer forgets the failures.
        ("say; step; fail malformed; step; reply +touch; start; finish ok; step; fail malformed", "owed: model 3 @200 | round 1 open"),
        ("say; step; fail malformed; step; fail malformed", "owed: conclude 1 | held: model_error | round 1 open"),
        ("say; step; fail malformed; step; fail malformed; conclude", "settled | held: model_error | round 1 failed"),
        ("say; step; fail auth", "owed: conclude 1 | held: model_error | round 1 open"),
        ("say; step; fail too_long; conclude", "settled | held: model_error | round 1 failed"),
        ("say; step; fail needs_model; conclude", "settled | held: model_error | round 1 failed"),
        // A new prompt wakes it, and the count starts anew.
        ("say; step; fail auth; conclude; say; step; fail cut", "owed: model 2 @200 | round 2 open"),
        ("say; step; fail malformed; step; fail malformed; say; step; fail malformed", "owed: model 3 @200 | round 1 open"),
        ("say; step; fail malformed; step; fail malformed; resume; step; fail malformed", "owed: model 3 @200 | round 1 open"),
        // A take-over is no failure of the model.
        ("say; step; takeover; step; fail malformed", "owed: model 2 @200 | round 1 open"),
        // Neither is a message that was more urgent.
        ("say; step; say now; step; fail malformed", "owed: model 2 @200 | round 1 open"),
    ]);
    facts(&[
        ("say; step; fail cut", "failed cut @200"),
        ("say; step; fail auth", "failed auth"),
        ("say; step; fail cut; fail cut", ""),
        ("say; step; fail cut; reply", ""),
    ]);
}

#[test]
fn an_urgent_entry_cancels_the_stream_and_no_tool() {
    facts(&[
        ("say; step; say now", "queued e2, step dropped @0"),
        ("say; step; say now; step", "step 1 [e2]"),
        ("say; step; say now; reply", ""),
        ("say; say now", "queued e2"),
        ("say; step; reply +touch; say now", "queued e2"),
        ("say; step; reply +touch; start; say now", "queued e2"),
        ("say; step; reply +touch; start; say now; finish ok; step", "step 1 [e2]"),
        ("say; step; say task now", "queued e2, step dropped @0"),
    ]);
    states(&[
        ("say; step; say now", "owed: model 1 @0 | queue: e2 | round 1 open"),
        ("say; step; reply +touch; start; say now", "owed: run c1* | calls: c1 running | queue: e2 | round 1 open"),
    ]);
}

#[test]
fn a_take_over() {
    states(&[
        // The step is asked again.
        ("say; step; takeover", "owed: model 1 @0 | round 1 open"),
        // What may have happened is lost, what only reads runs again, what waits stays.
        ("say; step; reply +touch; start; takeover", "owed: model 1 | round 1 open"),
        ("say; step; reply +read; start; takeover", "owed: run c1 | calls: c1 ready | round 1 open"),
        ("say; step; reply +touch; takeover", "owed: run c1 | calls: c1 ready | round 1 open"),
        ("say; step; reply +ask; takeover", "calls: c1 asked | round 1 open"),
        ("hooks; say; step; reply +touch; takeover", "owed: look c1 | calls: c1 unlooked | round 1 open"),
        ("say; step; reply +agent; start; spawn t1; takeover", "owed: watch t1/1 | calls: c1 waits for t1 | round 1 open"),
        ("say; step; reply +agent; start; spawn t1 bg; takeover", "owed: watch t1/1, model 1 | round 1 open"),
        // Nothing was promised yet, so the delegation may simply be called again.
        ("say; step; reply +agent; start; takeover", "owed: run c1 | calls: c1 ready | round 1 open"),
        ("say; step; reply +touch; start; esc; takeover; conclude", "settled | held: esc | round 1 stopped"),
        ("say; takeover", "owed: model 0 | queue: e1 | round 1 open"),
        ("say; step; reply; conclude; takeover", "settled | round 1 completed"),
        // The third without progress waits for a person.
        ("say; step; takeover; step; takeover", "owed: model 2 @0 | round 1 open"),
        ("say; step; takeover; step; takeover; step; takeover; conclude", "settled | held: take_overs | round 1 failed"),
        (
            "say; step; reply +read +read; start; takeover; start; takeover; start; takeover; conclude",
            "settled | held: take_overs | round 1 failed",
        ),
        // Progress resets: an answer, or an outcome.
        ("say; step; takeover; step; takeover; step; reply +touch; start; takeover", "owed: model 3 | round 1 open"),
        ("say; step; reply +read +read; start; takeover; start; takeover; start; finish c1 ok; takeover", "owed: model 1 | round 1 open"),
        // A lost call is no progress.
        (
            "say; step; reply +touch; start; takeover; step; takeover; step; takeover; conclude",
            "settled | held: take_overs | round 1 failed",
        ),
        // A person's word starts the count anew.
        ("say; step; takeover; step; takeover; step; takeover; conclude; resume; step; takeover", "owed: model 4 @0 | round 2 open"),
        ("say; step; takeover; step; takeover; step; takeover; conclude; say; step; takeover", "owed: model 4 @0 | round 2 open"),
    ]);
    facts(&[
        ("say; step; takeover", "took over 0"),
        ("say; step; reply +touch; start; takeover", "took over 1, c1 lost"),
        ("say; step; reply +read; start; takeover", "took over 1"),
        ("say; step; reply +read; start; takeover; start", "started c1/2"),
        ("say; step; reply +read; start; takeover; start; takeover; start", "started c1/3"),
        // Two reruns, no more; here another call's end keeps the session from being held.
        (
            "say; step; reply +read +read +read; start; takeover; start; finish c2 ok; takeover; start; finish c3 ok; takeover",
            "took over 1, c1 lost",
        ),
        ("say; step; reply +touch; start; esc; takeover", "took over 1, c1 lost"),
        ("say; step; reply +read; start; esc; takeover", "took over 1, c1 lost"),
        ("say; step; reply +agent; start; spawn t1; takeover", ""),
        ("say; step; reply +ask; takeover", ""),
        ("say; step; reply +ask; nobody; takeover", "answered c1 no by policy, c1 denied"),
        ("say; takeover", ""),
        ("say; step; takeover; step; takeover; step; takeover", "took over 0, interrupted take_overs"),
        (
            "say; step; reply +read +ask; start; takeover; start; takeover; start; takeover",
            "took over 1, c1 lost, interrupted take_overs, c2 cancelled",
        ),
    ]);
}

#[test]
fn a_log_that_ends_inside_an_append_leads_somewhere() {
    // (script, how many facts of the last append were kept) -> what a take-over makes of it.
    let rows = [
        ("say; step; reply +ask", 2, "asked c1 ask", "calls: c1 asked | round 1 open"),
        ("say; step; reply +deny", 2, "c1 denied", "owed: model 1 | round 1 open"),
        ("say; step; reply +bad", 2, "", "owed: look c1 | calls: c1 unlooked | round 1 open"),
        ("say; step; reply +touch +touch", 2, "", "owed: run c1 | calls: c1 ready | round 1 open"),
        ("say; step; reply +touch", 1, "", "owed: model 1 | round 1 open"),
        ("say; step; reply +ask; no", 1, "c1 denied", "owed: model 1 | round 1 open"),
        // The launch of a background task: the promise is kept, the call is answered, no second child.
        ("say; step; reply +agent; start; spawn t1 bg", 1, "c1 done", "owed: watch t1/1, model 1 | round 1 open"),
        ("say; step; reply +agent; start; spawn t1; detach t1", 1, "c1 done", "owed: watch t1/1, model 1 | round 1 open"),
        // Esc: what had not started is still cancelled.
        ("say; step; reply +touch; esc", 1, "c1 cancelled", "owed: conclude 1 | held: esc | round 1 open"),
        ("say; step; reply +ask; esc", 1, "c1 cancelled", "owed: conclude 1 | held: esc | round 1 open"),
        ("say; step; esc", 1, "", "owed: model 1 | round 1 open"),
        ("say; step; say now", 1, "took over 0", "owed: model 1 @0 | queue: e2 | round 1 open"),
        ("say; step closing; reply", 1, "", "owed: conclude 1 | round 1 open"),
        // A call that was started three times is not started a fourth time because its end is missing.
        (
            "say; step; reply +read +read +read; start; takeover; start; finish c2 ok; takeover; start; finish c3 ok; takeover",
            1,
            "took over 1, c1 lost",
            "owed: model 1 | round 1 open",
        ),
    ];
    for (script, kept, facts, state) in rows {
        let mut play = Play::of(script);
        let torn = play.facts.len() - kept;
        play.log.truncate(play.log.len() - torn);
        play.session = Session::fold(play.session.id().clone(), &play.log);
        play.run("takeover");
        assert_eq!((play.last_facts().as_str(), play.state().as_str()), (facts, state), "{script}, {kept} kept");
    }
}

#[test]
fn asks() {
    states(&[
        ("say; step; reply +ask", "calls: c1 asked | round 1 open"),
        ("say; step; reply +ask; yes", "owed: run c1 | calls: c1 ready | round 1 open"),
        ("say; step; reply +ask; no", "owed: model 1 | round 1 open"),
        // Others need not wait for it.
        ("say; step; reply +ask +touch; start", "owed: run c2* | calls: c1 asked, c2 running | round 1 open"),
        // A refusal is of that ask alone.
        ("say; step; reply +ask +ask; no", "calls: c2 asked | round 1 open"),
        ("nobody; say; step; reply +ask; step; reply; conclude", "settled | round 1 completed"),
    ]);
    facts(&[
        ("say; step; reply +ask; yes", "answered c1 yes by user"),
        ("say; step; reply +ask; no not today", "answered c1 no by user, c1 denied"),
        ("nobody; say; step; reply +ask", "replied 1, called c1 ask, asked c1 ask, answered c1 no by policy, c1 denied"),
        // Every scope but once is a grant for the rest of this session.
        ("say; step; reply +ask=x; yes once; start; finish ok; step; reply +ask=x", "replied 1, called c2 ask, asked c2 ask"),
        ("say; step; reply +ask=x; yes session; start; finish ok; step; reply +ask=x", "replied 1, called c2 allow"),
        ("say; step; reply +ask=x; yes tree; start; finish ok; step; reply +ask=x", "replied 1, called c2 allow"),
        ("say; step; reply +ask=x; yes project; start; finish ok; step; reply +ask=x", "replied 1, called c2 allow"),
        ("say; step; reply +ask=x; yes project; start; finish ok; step; reply +ask=y", "replied 1, called c2 ask, asked c2 ask"),
        // Vector 38: what a rule allows asks nobody. Vector 39: what a rule denies is denied.
        ("say; step; reply +touch", "replied 1, called c1 allow"),
        ("say; step; reply +deny", "replied 1, called c1 deny, c1 denied"),
        // Vector 43: a wider yes settles the other open asks it covers, and no others.
        ("say; step; reply +ask=x +ask=x +ask=y; yes session", "answered c1 yes by user, answered c2 yes by kernel"),
        ("say; step; reply +ask=x +ask=x; yes once", "answered c1 yes by user"),
        // What was taken back asks again; it can be taken back once.
        ("say; step; reply +ask=x; yes session; start; finish ok; revoke; step; reply +ask=x", "replied 1, called c2 ask, asked c2 ask"),
        ("say; step; reply +ask=x; yes session; revoke; revoke", ""),
        ("say; step; reply +ask=x; yes once; revoke", ""),
        // Answers in other sessions, as the store knows them.
        ("granted ask x; say; step; reply +ask=x", "replied 1, called c1 allow"),
        ("granted ask x; say; step; reply +ask=y", "replied 1, called c1 ask, asked c1 ask"),
        ("granted deny x; say; step; reply +deny=x", "replied 1, called c1 deny, c1 denied"),
    ]);
    // A mode answers for the user: never a deny, never what needs a person.
    facts(&[
        ("mode bypass; say; step; reply +ask", "replied 1, called c1 ask, asked c1 ask, answered c1 yes by policy"),
        ("mode bypass; nobody; say; step; reply +ask", "replied 1, called c1 ask, asked c1 ask, answered c1 yes by policy"),
        ("mode bypass; say; step; reply +deny", "replied 1, called c1 deny, c1 denied"),
        ("mode bypass; say; step; reply +protected", "replied 1, called c1 ask, asked c1 protected"),
        ("mode bypass; say; step; reply +question", "replied 1, called c1 ask, asked c1 question"),
        ("mode accept; say; step; reply +ask", "replied 1, called c1 ask, asked c1 ask"),
        // An ask that outlived its process is answered by the mode of the next one.
        ("say; step; reply +ask; mode bypass; takeover", "answered c1 yes by policy"),
        ("say; step; reply +ask; nobody; takeover", "answered c1 no by policy, c1 denied"),
    ]);
    // A question is answered with words, and only a question is.
    facts(&[
        ("say; step; reply +question; words the blue one", "answered c1 words by user"),
        ("say; step; reply +question; yes", "answered c1 words by user"),
        ("say; step; reply +ask; words go on", "answered c1 yes by user"),
        ("nobody; say; step; reply +question", "replied 1, called c1 ask, asked c1 question, answered c1 no by policy, c1 denied"),
    ]);
    let play = Play::of("say; step; reply +question; words the blue one; start");
    assert_eq!(play.session.calls()[0].answer.as_deref(), Some("the blue one"));
    let play = Play::of("granted ask x; say; step; reply +ask=x");
    let Event::Called { decision: Some(decision), .. } = &play.facts[1] else { panic!("{:?}", play.facts) };
    assert_eq!((decision.rule.as_deref(), decision.origin.as_str()), (Some("ask(x)"), "the answer to ask_far (for the project)"));
    let play = Play::of("say; step; reply +ask; no not today");
    assert!(outcome_words(&play).contains("not today"), "{}", outcome_words(&play));
    let play = Play::of("nobody; say; step; reply +ask");
    assert!(outcome_words(&play).contains("nobody can be asked"), "{}", outcome_words(&play));
    let play = Play::of("say; step; reply +deny");
    assert!(outcome_words(&play).contains("deny(*)"), "the rule is named: {}", outcome_words(&play));
}

/// What the model is told of the last call that did not go well.
fn outcome_words(play: &Play) -> String {
    let last = play.facts.iter().rev().find_map(|event| match event {
        Event::CallFinished { outcome: Outcome::Denied { why: text } | Outcome::Failed { error: text }, .. } => text.inline(),
        _ => None,
    });
    last.unwrap_or_default().to_owned()
}

#[test]
fn answers_that_nobody_waits_for_are_nothing() {
    let mut play = Play::of("say; step; reply +ask");
    let ask = play.session.open_asks().next().expect("an ask").0.clone();
    play.run("yes");
    let again = Command::Answer { ask, answer: posse_session::Answer::No { say: String::new() }, by: posse_session::By::User };
    play.decide(again);
    assert_eq!((play.last_facts().as_str(), play.state().as_str()), ("", "owed: run c1 | calls: c1 ready | round 1 open"));
}

#[test]
fn looks() {
    states(&[
        ("hooks; say; step; reply +touch", "owed: look c1 | calls: c1 unlooked | round 1 open"),
        ("hooks; say; step; reply +touch; look ok", "owed: run c1 | calls: c1 ready | round 1 open"),
        ("hooks; say; step; reply +touch; look refuse", "owed: model 1 | round 1 open"),
        ("hooks; say; step; reply +touch +touch; look ok", "owed: run c1, look c2 | calls: c1 ready, c2 unlooked | round 1 open"),
    ]);
    facts(&[
        ("hooks; say; step; reply +touch", "replied 1, called c1 -"),
        ("hooks; say; step; reply +touch; look ok", "looked c1 allow"),
        ("hooks; say; step; reply +touch; look refuse", "c1 denied"),
        // The verdict is on the amended input.
        ("hooks; say; step; reply +touch; look as ask", "looked c1 ask, asked c1 ask"),
        ("hooks; say; step; reply +touch; look as deny", "looked c1 deny, c1 denied"),
        ("hooks; say; step; reply +deny; look as touch", "looked c1 allow"),
        ("hooks; nobody; say; step; reply +ask; look ok", "looked c1 ask, asked c1 ask, answered c1 no by policy, c1 denied"),
        // What makes no sense is not looked at.
        ("hooks; say; step; reply +bad", "replied 1, called c1 -, c1 failed"),
    ]);
    // The record of the amended input is the one that runs.
    let play = Play::of("hooks; say; step; reply +touch; look ok");
    let open = &play.session.calls()[0];
    assert!(matches!(&play.log[open.seq as usize - 1].event, Event::Looked { .. }));
}

#[test]
fn a_repeated_call_asks() {
    let twice = "say; step; reply +touch=x; start; finish ok; step; reply +touch=x; start; finish ok; step; ";
    let rows = [
        ("reply +touch=x", "replied 1, called c3 ask, asked c3 doom_loop"),
        ("reply +touch=y", "replied 1, called c3 allow"),
        ("reply +read=x", "replied 1, called c3 allow"),
        ("reply +touch=y +touch=x", "replied 2, called c3 allow, called c4 allow"),
        ("reply +touch=x; yes; start; finish ok; step; reply +touch=x", "replied 1, called c4 ask, asked c4 doom_loop"),
        ("reply +touch=x; yes session; start; finish ok; step; reply +touch=x", "replied 1, called c4 allow"),
        ("nobody; reply +touch=x", "replied 1, called c3 ask, asked c3 doom_loop, answered c3 no by policy, c3 denied"),
    ];
    for (script, expected) in rows {
        assert_eq!(Play::of(&format!("{twice}{script}")).last_facts(), expected, "{script}");
    }
    facts(&[
        ("say; step; reply +touch=x +touch=x +touch=x", "replied 3, called c1 allow, called c2 allow, called c3 ask, asked c3 doom_loop"),
        ("say; step; reply +bare={} +bare={} +bare={}", "replied 3, called c1 allow, called c2 allow, called c3 ask, asked c3 doom_loop"),
        // A deny stays a deny.
        (
            "say; step; reply +deny=x +deny=x +deny=x",
            "replied 3, called c1 deny, c1 denied, called c2 deny, c2 denied, called c3 deny, c3 denied",
        ),
    ]);
    let play = Play::of("nobody; say; step; reply +touch=x +touch=x +touch=x");
    assert!(outcome_words(&play).contains("same call"), "{}", outcome_words(&play));
}

#[test]
fn a_repeated_call_asks_behind_a_hook_too() {
    // The third is the one asked about, not the two before it, and not what comes after it.
    let mut play = Play::of("hooks; say; step; reply +touch=x +touch=x +touch=x +touch=y");
    let mut found = Vec::new();
    for _ in 0..4 {
        play.run("look ok");
        found.push(play.last_facts());
    }
    assert_eq!(found, ["looked c1 allow", "looked c2 allow", "looked c3 ask, asked c3 doom_loop", "looked c4 allow"]);
}

#[test]
fn a_long_input_repeats_whether_or_not_it_left_for_a_blob() {
    let long = "x".repeat(10_000);
    let mut play = Play::new();
    play.run("say; step");
    for number in 0..3 {
        let reply = Report::Reply {
            step: number,
            parts: Vec::new(),
            calls: vec![wanted(&format!("c{number}"), "touch", &long)],
            usage: Usage::default(),
            finish: Finish::Calls,
            misshapen: None,
        };
        play.decide(Command::Report(reply));
        if number == 2 {
            break;
        }
        play.run("start; finish ok; step");
        // The run is closed and opened again: the log has the blob's name, not the words.
        for record in &mut play.log {
            for text in record.event.texts_mut() {
                if 4096 < text.bytes() {
                    *text = Text::Stored { blob: posse_session::Hash::new("ab"), bytes: text.bytes() };
                }
            }
        }
        let folded = Session::fold(play.session.id().clone(), &play.log);
        assert_eq!(folded, play.session, "the same session without its texts");
        play.session = folded;
    }
    assert_eq!(play.last_facts(), "replied 1, called c2 ask, asked c2 doom_loop");
}

#[test]
fn the_third_senseless_call_gets_a_hint() {
    let told = |script: &str| outcome_words(&Play::of(script)).contains("could not be understood");
    assert!(!told("say; step; reply +bad"));
    assert!(!told("say; step; reply +bad +bad"));
    assert!(told("say; step; reply +bad +bad +bad"));
    assert!(told("say; step; reply +bad; step; reply +bad; step; reply +bad"));
    assert!(!told("say; step; reply +bad; step; reply +touch; start; finish ok; step; reply +bad; step; reply +bad"));
    assert!(!told("say; step; reply +bad +bad +touch +bad"));
    // A tool that fails is something else.
    assert!(!told("say; step; reply +bad +bad +touch; start; finish fail; step; reply +bad"));
    assert_eq!(Play::of("say; step; reply +bad").state(), "owed: model 1 | round 1 open", "the model is told and goes on");
}

#[test]
fn limits_end_a_turn() {
    states(&[
        ("say; step closing; reply", "owed: conclude 1 | held: limit | round 1 open"),
        ("say; step closing; reply; conclude", "settled | held: limit | round 1 limit"),
        // A model that calls tools all the same is not asked again.
        ("say; step closing; reply +touch; conclude", "settled | held: limit | round 1 limit"),
        ("say; step closing; fail cut", "owed: model 1 @200 | round 1 open"),
        // Time: the stream is dropped, a running call is stopped and awaited.
        ("say; step; limit; conclude", "settled | held: limit | round 1 limit"),
        ("say; step; reply +touch; start; limit", "calls: c1 stopping | held: limit | round 1 open"),
        ("say; step; reply +touch; start; limit; finish cancelled; conclude", "settled | held: limit | round 1 limit"),
        ("say; step; reply +touch; start; limit; takeover; conclude", "settled | held: limit | round 1 limit"),
        (
            "say; step; reply +agent; start; spawn t1; limit",
            "owed: watch t1/1, stop t1/1 | calls: c1 waits for t1 | held: limit | round 1 open",
        ),
        ("say; limit; conclude", "settled | queue: e1 | held: limit | round 1 limit"),
        ("limit", "settled | round 0 completed"),
        ("say; step; reply; conclude; limit", "settled | round 1 completed"),
        // The user may go on.
        ("say; step; limit; conclude; say", "owed: model 1 | queue: e2 | round 2 open"),
    ]);
    facts(&[
        ("say; step closing", "step 0 [e1] closing +1"),
        ("say; step closing; reply", "replied 0, limit steps"),
        ("say; step closing; reply +touch", "replied 1, called c1 deny, c1 denied, limit steps"),
        ("say; step; limit", "step dropped, limit time"),
        ("say; step; reply +touch +ask; start; limit", "limit time, c2 cancelled"),
        ("say; step; reply +agent; start; spawn t1; limit", "limit time, t1 stopped by kernel"),
        ("say; step; limit; conclude", "ended 1 limit"),
    ]);
}

#[test]
fn tasks() {
    states(&[
        ("say; step; reply +agent; start; spawn t1", "owed: watch t1/1 | calls: c1 waits for t1 | round 1 open"),
        ("say; step; reply +agent; start; spawn t1; ended t1", "owed: model 1 | round 1 open"),
        ("say; step; reply +agent; start; spawn t1 bg", "owed: watch t1/1, model 1 | round 1 open"),
        // A session with an open task is not settled; its end is a notice.
        ("say; step; reply +agent; start; spawn t1 bg; step; reply", "owed: watch t1/1 | round 1 open"),
        ("say; step; reply +agent; start; spawn t1 bg; step; reply; ended t1", "owed: model 2 | queue: msg_10 | round 1 open"),
        ("say; step; reply +agent; start; spawn t1 bg internal; step; reply; ended t1", "owed: conclude 1 | round 1 open"),
        ("say; step; reply +agent; start; spawn t1; detach t1", "owed: watch t1/1, model 1 | round 1 open"),
        ("say; step; reply +agent; start; spawn t1; stoptask t1", "owed: watch t1/1, stop t1/1 | calls: c1 waits for t1 | round 1 open"),
        ("say; step; reply +agent; start; spawn t1 bg; stoptask t1; step; reply", "owed: watch t1/1, stop t1/1 | round 1 open"),
        (
            "say; step; reply +agent +agent; start; spawn t1; spawn t2",
            "owed: watch t1/1, watch t2/1 | calls: c1 waits for t1, c2 waits for t2 | round 1 open",
        ),
        ("say; step; reply +agent +agent; start; spawn t1; spawn t2; ended t2", "owed: watch t1/1 | calls: c1 waits for t1 | round 1 open"),
        // A notice that comes while held by the user waits; the round ends with the last task.
        (
            "say; step; reply +agent; start; spawn t1 bg; step; stop user; ended t1; conclude",
            "settled | queue: msg_10 | held: stopped_by_user | round 1 stopped",
        ),
    ]);
    facts(&[
        ("say; step; reply +agent; start; spawn t1", "t1 started, awaited"),
        ("say; step; reply +agent; start; spawn t1 bg", "t1 started, c1 done"),
        ("say; step; reply +agent; start; spawn t1; ended t1", "t1/1 completed to c1"),
        ("say; step; reply +agent; start; spawn t1; ended t1; ended t1", ""),
        ("say; step; reply +agent; start; spawn t1 bg; ended t1", "t1/1 completed to queue"),
        ("say; step; reply +agent; start; spawn t1 bg; ended t1; ended t1", ""),
        ("say; step; reply +agent; start; spawn t1 bg internal; ended t1", "t1/1 completed to nobody"),
        ("say; step; reply +agent; start; spawn t1 internal; ended t1", "t1/1 completed to c1"),
        ("say; step; reply +agent; start; spawn t1; ended t1 round=2", ""),
        ("say; step; reply +agent; start; spawn t1; ended t2", ""),
        ("say; step; reply +agent; start; spawn t1; detach t1", "t1 detached, c1 done"),
        ("say; step; reply +agent; start; spawn t1; detach t1; detach t1", ""),
        ("say; step; reply +agent; start; spawn t1; detach t1; ended t1", "t1/1 completed to queue"),
        ("say; step; reply +agent; start; spawn t1; ended t1; detach t1", ""),
        ("say; step; reply +agent; start; spawn t1; stoptask t1", "t1 stopped by user"),
        ("say; step; reply +agent; start; spawn t1; stoptask t1; stoptask t1", ""),
        ("say; step; reply +agent; start; spawn t1; stoptask t1; ended t1 stopped", "t1/1 stopped to c1"),
        ("say; step; reply +agent; start; spawn t1; ended t1; stoptask t1", ""),
        ("say; step; reply +agent +agent; start; spawn t1; spawn t1", ""),
        // Several ends that wait together are heard together.
        (
            "say; step; reply +agent +agent; start; spawn t1 bg; spawn t2 bg; step; reply; ended t1; ended t2; step",
            "step 2 [msg_12 msg_14]",
        ),
        // A launched call is answered: a late report of it is nothing.
        ("say; step; reply +agent +touch; start; spawn t1; finish c1 ok", ""),
    ]);
    let play = Play::of("say; step; reply +agent +agent; start; spawn t1; spawn t2");
    assert_eq!((play.session.tasks().len(), play.session.tasks_started()), (2, 2));
}

#[test]
fn a_log_with_an_end_of_another_round_or_a_waiting_call_that_is_gone_still_folds() {
    let ended = |round| Event::TaskEnded {
        task: SessionId::new("t1"),
        round,
        how: posse_session::How::Completed,
        result: "found".into(),
        usage: Usage::default(),
        to: To::Internal,
        effort: Default::default(),
    };
    let mut play = Play::of("say; step; reply +agent; start; spawn t1 bg");
    play.session.apply(&record(20, ended(2)));
    assert_eq!(play.session.tasks().len(), 1, "the first round goes on");
    play.session.apply(&record(21, ended(1)));
    assert_eq!(play.session.tasks().len(), 0);
    let call = posse_session::CallId::new("gone");
    let mut play = Play::of("say; step; reply");
    let started = Event::TaskStarted { call, task: SessionId::new("t1"), round: 1, spawn: common::spawn("m", false), wait: true };
    play.session.apply(&record(20, started));
    let report = task_report("t1", 1, posse_session::How::Completed);
    let events = play.session.decide(Command::Report(report), &given(&play));
    assert!(matches!(&events[..], [Event::TaskEnded { to: To::Queue { .. }, .. }]), "the result is not lost: {events:?}");
}

#[test]
fn a_call_that_is_told_to_stop_starts_no_task() {
    let mut play = Play::of("say; step; reply +agent; start; esc");
    let call = play.session.calls()[0].call.clone();
    play.decide(Command::Spawn { call, task: SessionId::new("t1"), round: 1, spawn: Box::new(common::spawn("m", false)), launched: None });
    assert_eq!((play.last_facts().as_str(), play.session.tasks().len()), ("", 0));
}

#[test]
fn configuration_changes_between_turns_only() {
    facts(&[
        ("configure a", "configured a"),
        ("configure a; configure a", ""),
        ("configure a; configure b", "configured b"),
        ("configure a; say; configure b", "configured b"),
        ("configure a; say; step; configure b", ""),
        ("configure a; say; step; reply +touch; configure b", ""),
        ("configure a; say; step; reply +touch; start; finish ok; configure b", ""),
        ("configure a; say; step; fail cut; configure b", ""),
        ("configure a; say; step; reply; configure b", "configured b"),
        ("configure a; say; step; reply; conclude; configure b", "configured b"),
        ("configure a; say; step; esc; configure b", "configured b"),
        // The first one is needed before anything can be sent.
        ("say; step; configure a", "configured a"),
        // A model that fails for good can be exchanged for another.
        ("configure a; say; step; fail auth; configure b", "configured b"),
        ("configure a; say; step; limit; configure b", "configured b"),
    ]);
}

#[test]
fn rounds_add_up_what_they_used() {
    let play = Play::of("say; step; reply +touch; start; finish ok; step; reply; conclude; say; step; reply; conclude");
    let ended: Vec<(u64, u64, Option<u64>)> = play
        .log
        .iter()
        .filter_map(|record| match &record.event {
            Event::Ended { round, usage, reply, .. } => Some((*round, usage.input, *reply)),
            _ => None,
        })
        .collect();
    let replied =
        |nth: usize| play.log.iter().filter(|record| matches!(record.event, Event::Replied { .. })).nth(nth).map(|record| record.seq);
    assert_eq!(ended, [(1, 20, replied(1)), (2, 10, replied(2))]);
    assert_eq!((play.session.usage().input, play.session.last_input(), play.session.last_reply()), (30, 10, replied(2)));
    // A round without an answer has none to show, and says why.
    let play = Play::of("say; step; reply; conclude; say; step; fail auth; conclude");
    assert!(
        matches!(play.log.last().map(|record| &record.event), Some(Event::Ended { round: 2, reply: None, error, .. }) if error == "it is auth")
    );
}

fn segments(session: &Session) -> String {
    let one = |segment: &Segment| {
        format!("{}({},{}]", if segment.session.as_str() == "ses_0" { "" } else { segment.session.as_str() }, segment.from, segment.to)
    };
    session.segments().iter().map(one).collect::<Vec<_>>().join(" ")
}

/// A log of nothing in particular, with the given facts at their places.
fn edited(length: u64, edits: &[(u64, Event)]) -> Session {
    let mut session = Session::new(SessionId::new("ses_0"));
    for seq in 1..=length {
        let edit = edits.iter().find(|(at, _)| *at == seq).map(|(_, event)| event.clone());
        session.apply(&record(seq, edit.unwrap_or(Event::Resumed { by: posse_session::By::User })));
    }
    session
}

#[test]
fn a_transcript_is_a_list_of_segments() {
    let compacted = |tail_from| Event::Compacted { summary: "so far".into(), tail_from, verbatim: Default::default() };
    let forked = Event::Forked { segments: vec![Segment { session: SessionId::new("p"), from: 0, to: 7, pruned: false }] };
    let reverted = |to| Event::Reverted { to };
    type Edits = Vec<(u64, Event)>;
    let rows: Vec<(u64, Edits, &str)> = vec![
        (0, vec![], ""),
        (5, vec![], "(0,5]"),
        (1, vec![(1, forked.clone())], "p(0,7]"),
        (5, vec![(2, forked.clone())], "p(0,7] (2,5]"),
        // The summary's own record, the tail, and what came after.
        (12, vec![(10, compacted(6))], "(9,10] (6,9] (10,12]"),
        (10, vec![(10, compacted(9))], "(9,10]"),
        // A second summary says what the first said, wherever its tail begins.
        (20, vec![(10, compacted(6)), (18, compacted(15))], "(17,18] (15,17] (18,20]"),
        (20, vec![(10, compacted(6)), (18, compacted(8))], "(17,18] (8,9] (10,17] (18,20]"),
        // A fork's inheritance is summed up with the rest.
        (12, vec![(2, forked.clone()), (10, compacted(6))], "(9,10] (6,9] (10,12]"),
        (9, vec![(8, reverted(4))], "(0,4] (8,9]"),
        (9, vec![(8, reverted(0))], "(8,9]"),
        (20, vec![(8, reverted(4)), (15, reverted(10))], "(0,4] (8,10]  (15,20]"),
        (20, vec![(8, reverted(4)), (15, reverted(2))], "(0,2] (15,20]"),
        (12, vec![(2, forked), (8, reverted(4))], "p(0,7] (2,4] (8,12]"),
        (20, vec![(10, compacted(6)), (18, reverted(14))], "(9,10] (6,9] (10,14] (18,20]"),
    ];
    for (length, edits, expected) in rows {
        assert_eq!(segments(&edited(length, &edits)), expected.replace("  ", " "), "{edits:?}");
    }
}

#[test]
fn a_fork_owes_none_of_its_parents_work() {
    // The parent has calls to run, an entry waiting and a grant; a fork of its reply has only its words.
    let parent = Play::of("say; step; say; reply +touch +ask");
    let at = parent.session.last_reply().expect("a reply");
    let mut fork = Session::new(SessionId::new("ses_f"));
    let segments = vec![Segment { session: parent.session.id().clone(), from: 0, to: at, pruned: false }];
    fork.apply(&record(1, created(Kind::Fork, "ses_0", Some("ses_0"), Vec::new())));
    fork.apply(&record(2, Event::Forked { segments: segments.clone() }));
    assert_eq!((fork.owed(), fork.is_settled(), fork.calls().len(), fork.queue().len()), (Vec::new(), true, 0, 0));
    assert_eq!(fork.segments(), segments);
}

#[test]
fn a_fact_of_a_later_version_is_kept_and_makes_the_log_foreign() {
    for (json, foreign) in [
        (r#"{"type":"dreamt","of":[1,2.5,"sheep"],"a":null}"#, true),
        (r#"{"type":"dreamt","ignorable":true,"z":1,"a":2}"#, false),
        (r#"{"type":"dreamt","ignorable":"true"}"#, true),
        // A known name with a value this version has never heard of.
        (r#"{"type":"interrupted","by":"user","hold":"full_moon"}"#, true),
        (r#"{"type":"call_finished","call":"call_1","outcome":{"how":"transcended"}}"#, true),
        (r#"{"no":"type"}"#, true),
    ] {
        let event: Event = serde_json::from_str(json).expect("every object is an event");
        assert!(matches!(event, Event::Unknown(_)), "{json}");
        assert_eq!(serde_json::to_string(&event).expect("json"), json, "kept as it came");
        let mut session = Session::new(SessionId::new("ses_0"));
        session.apply(&record(1, event));
        assert_eq!((session.is_foreign(), session.head()), (foreign, 1), "{json}");
        session.apply(&record(2, Event::Unknown(serde_json::json!({"type": "dreamt", "ignorable": true}))));
        assert_eq!(session.is_foreign(), foreign, "and stays so: {json}");
    }
}

#[test]
fn a_thousand_calls_in_one_reply() {
    let started = std::time::Instant::now();
    let script = format!("say; step; reply{}; start", " +touch".repeat(1_000));
    let mut play = Play::empty();
    play.decide(Command::Create(Box::new(created(Kind::Root, "ses_0", None, Vec::new()))));
    // Without the checks of every command: those fold the whole log each time.
    play.run(script.rsplit_once(';').expect("the start is apart").0);
    let given = given(&play);
    let mut draft = play.session.draft(posse_session::BatchId::new("evt_x"), posse_session::Timestamp(0));
    for effect in play.session.owed() {
        draft.begin(&effect, Permit::default(), Vec::new(), &given);
    }
    assert_eq!(draft.records().len(), 1_000, "one append starts them all");
    for number in 1..=1_000 {
        let call = posse_session::CallId::new(format!("c{number}"));
        draft.decide(Command::Report(Report::CallFinished { call, outcome: Outcome::done("ok") }), &given);
    }
    let (session, records) = draft.into_parts();
    assert_eq!((records.len(), session.calls().len()), (2_000, 0));
    assert_eq!(session.owed(), [Effect::CallModel { step: 1, not_before: None }]);
    assert!(started.elapsed() < Duration::from_secs(5), "took {:?}", started.elapsed());
}

#[test]
fn finished_work_leaves_the_state() {
    let mut play = Play::new();
    let turn = "say; step; reply +touch +read +agent; start; finish c{1} ok; finish c{2} ok";
    let size = |play: &Play| format!("{:?}", play.session).len();
    let mut sizes = Vec::new();
    for number in 0..40 {
        let script = turn.replace("{1}", &(number * 3 + 1).to_string()).replace("{2}", &(number * 3 + 2).to_string());
        play.run(&script);
        play.run(&format!("spawn t{number}; ended t{number}; step; reply; conclude"));
        sizes.push(size(&play));
    }
    // Ids grow and the ids of entries are remembered for a while; nothing else does.
    assert!(sizes[39] < sizes[4] + 1_500, "{sizes:?}");
    assert_eq!((play.session.calls().len(), play.session.tasks().len(), play.session.queue().len()), (0, 0, 0));
}

#[test]
fn a_created_session_is_not_created_again() {
    let mut play = Play::new();
    play.decide(Command::Create(Box::new(created(Kind::Root, "ses_0", None, Vec::new()))));
    assert_eq!(play.last_facts(), "");
    assert_eq!(play.session.birth().map(|birth| birth.kind), Some(Kind::Root));
}

#[test]
fn a_childs_ceiling_judges_its_calls() {
    let mut play = Play::empty();
    let ceiling = vec![posse_session::Rules(vec![rule("*", "*", Verdict::Allow), rule("touch", "*", Verdict::Deny)])];
    play.decide(Command::Create(Box::new(created(Kind::Task, "ses_r", Some("ses_r"), ceiling))));
    play.run("say; step; reply +touch +read");
    assert_eq!(play.last_facts(), "replied 2, called c1 deny, c1 denied, called c2 allow");
}

#[test]
fn what_one_step_takes_fits_into_its_event() {
    let mut play = Play::new();
    for number in 0..900 {
        let id = EntryId::new(format!("msg_{number:026}"));
        let entry = Entry { source: Source::Timer, delivery: Delivery::NextStep, ..Entry::user(id, "tick") };
        play.session.apply(&record(play.session.head() + 1, Event::Queued { entry: entry.clone() }));
        play.log.push(record(play.session.head(), Event::Queued { entry }));
    }
    let mut taken = 0;
    while play.session.owed().iter().any(|effect| matches!(effect, Effect::CallModel { .. })) {
        play.run("step");
        let json = serde_json::to_string(&play.facts[0]).expect("json");
        assert!(json.len() <= posse_session::EVENT_BYTES_MAX, "{} bytes", json.len());
        let Event::StepStarted { took, .. } = &play.facts[0] else { panic!("a step") };
        taken += took.len();
        play.run("reply");
    }
    assert_eq!(taken, 900);
}

#[test]
fn the_parts_of_a_reply_keep_their_places() {
    let mut play = Play::of("say; step");
    let parts = vec![Part::text("first"), Part::Call { call: posse_session::CallId::new("c1") }, Part::text("then")];
    let reply = Report::Reply {
        step: 0,
        parts: parts.clone(),
        calls: vec![wanted("c1", "touch", "{}")],
        usage: Usage::default(),
        finish: Finish::Calls,
        misshapen: None,
    };
    play.decide(Command::Report(reply));
    assert!(matches!(&play.facts[0], Event::Replied { parts: kept, .. } if *kept == parts));
}

#[test]
fn a_summary_tells_a_list_what_it_needs() {
    let status = |script: &str| {
        let play = Play::of(script);
        let mut summary = Summary::new(SessionId::new("ses_0"));
        play.log.iter().for_each(|record| summary.apply(record));
        serde_json::to_value(summary.status).expect("json").as_str().map(str::to_owned).unwrap_or_default()
    };
    for (script, expected) in [
        ("say", "queued"),
        ("say; step", "running"),
        ("say; step; say", "running"),
        ("say; step; reply +ask", "waiting"),
        ("say; step; reply +ask; yes", "queued"),
        ("say; step; reply +ask; yes; start", "running"),
        ("say; step; reply; conclude", "completed"),
        ("say; step; esc; conclude", "stopped"),
        ("say; step; esc; conclude; resume", "running"),
        ("say; step; fail auth; conclude", "failed"),
        ("say; step; limit; conclude", "limit"),
        ("say; step; takeover; step; takeover; step; takeover", "failed"),
        ("say; step; reply; conclude; say", "queued"),
    ] {
        assert_eq!(status(script), expected, "{script}");
    }
    let play = Play::of("configure a; say; step; reply +touch +deny; start; finish ok; step; fail cut; step; reply; conclude");
    let mut summary = Summary::new(SessionId::new("ses_0"));
    play.log.iter().for_each(|record| summary.apply(record));
    assert_eq!((summary.steps, summary.calls, summary.usage, summary.head), (2, 2, play.session.usage(), play.session.head()));
    assert_eq!((summary.last_reply, summary.agent.as_str(), summary.model.as_str()), (play.session.last_reply(), "build", "test/one"));
}

#[test]
fn the_states_of_a_call_are_told_apart() {
    let state = |script: &str| Play::of(script).session.calls()[0].state.clone();
    assert!(matches!(state("hooks; say; step; reply +touch"), CallState::Unlooked));
    assert!(matches!(state("say; step; reply +touch"), CallState::Judged(_)));
    assert_eq!(state("say; step; reply +touch; start"), CallState::Running);
    assert_eq!(state("say; step; reply +touch; start; esc"), CallState::Stopping);
}
