//! Long conversations: when they are made shorter, what is owed meanwhile, and which stretches of the log are left.
//!
//! The language is that of `common/play.rs`. Titles and the shape of answers are here too: they came with it.

mod common;

use common::{
    created,
    play::{Play, check_rows},
    record,
};
use posse_session::{Command, Event, Kind, Part, Segment, Session, SessionId, Summary};

fn state(play: &Play) -> String {
    play.state()
}

fn facts(play: &Play) -> String {
    play.last_facts()
}

/// CC-compaction: a step that was too long is sent again only when the conversation is shorter, and once.
#[test]
fn what_is_too_long_is_tried_again_only_after_it_was_made_shorter() {
    check_rows(
        &[
            // Without compaction the turn is over, as ever.
            ("say; step; fail too_long", "owed: conclude 1 | held: model_error | round 1 open"),
            // With it no step is owed, but a summary.
            ("compacts; say; step; fail too_long", "owed: compact | round 1 open"),
            ("compacts; say; step; fail too_long; compact", "owed: watch s1/1 | round 1 open"),
            ("compacts; say; step; fail too_long; compact; summed all", "owed: model 1 @0 | round 1 open"),
            ("compacts; say; step; fail too_long; compact; summed all; step; reply; conclude", "settled | round 1 completed"),
            // Never twice without an answer between.
            (
                "compacts; say; step; fail too_long; compact; summed all; step; fail too_long",
                "owed: conclude 1 | held: model_error | round 1 open",
            ),
            // An answer between makes it possible again.
            (
                "compacts; say; step; fail too_long; compact; summed all; step; reply +touch; start; finish ok; step; fail too_long",
                "owed: compact | round 1 open",
            ),
            // What the provider has refused is not sent to it again when nobody can make it shorter.
            ("compacts; say; step; fail too_long; compact; unsummed", "owed: conclude 1 | held: model_error | round 1 open"),
            ("compacts; say; step; fail too_long; uncompacted nothing to leave out", "owed: conclude 1 | held: model_error | round 1 open"),
            // Leaving outputs out is enough to try again, and does not take the place of a summary.
            ("compacts; say; step; fail too_long; prune 3", "owed: model 1 @0 | round 1 open"),
            ("compacts; say; step; fail too_long; prune 3; step; fail too_long", "owed: compact | round 1 open"),
            // Somebody's resume or new words are a new beginning.
            (
                "compacts; say; step; fail too_long; compact; summed all; step; fail too_long; resume; step; fail too_long",
                "owed: compact | round 1 open",
            ),
            ("compacts; say; step; fail too_long; compact; unsummed; say; step; fail too_long", "owed: compact | round 1 open"),
            // Who is held is left alone.
            ("compacts; say; step; fail too_long; esc", "owed: conclude 1 | held: esc | round 1 open"),
            // Other failures are what they were.
            ("compacts; say; step; fail cut", "owed: model 1 @200 | round 1 open"),
        ],
        state,
    );
}

#[test]
fn a_turn_that_stays_too_long_says_why() {
    let error = |script: &str| Play::of(script).session.round().error.clone();
    assert_eq!(error("compacts; say; step; fail too_long; compact; summed all; step; fail too_long"), "it is too_long");
    assert_eq!(
        error("compacts; say; step; fail too_long; compact; unsummed"),
        "it is too_long (the conversation could not be summed up: its model is gone)"
    );
    assert_eq!(
        error("compacts; say; step; fail too_long; uncompacted nothing of it can be left out"),
        "it is too_long (the conversation could not be summed up: nothing of it can be left out)"
    );
}

/// CC-compaction: what is to be summed up may be too long itself. Then less of it is tried, a few times.
#[test]
fn a_summary_of_too_much_is_tried_with_less() {
    const REFUSED: &str = "compacts; say; step; fail too_long; compact; unsummed too_long";
    let again = |times: usize| format!("{REFUSED}{}", "; compact; unsummed too_long".repeat(times));
    let rows = [
        (again(0), "owed: compact | round 1 open"),
        (again(3), "owed: compact | round 1 open"),
        (again(4), "owed: conclude 1 | held: model_error | round 1 open"),
        (format!("{REFUSED}; compact"), "owed: watch s2/1 | round 1 open"),
        (format!("{REFUSED}; compact; summed all"), "owed: model 1 @0 | round 1 open"),
        // Any other failure is the last.
        (format!("{REFUSED}; compact; unsummed"), "owed: conclude 1 | held: model_error | round 1 open"),
        (format!("{REFUSED}; uncompacted nothing more"), "owed: conclude 1 | held: model_error | round 1 open"),
        (format!("{REFUSED}; prune 3"), "owed: model 1 @0 | round 1 open"),
        // Somebody's words begin anew; who is held is left alone.
        (format!("{REFUSED}; esc"), "owed: conclude 1 | held: esc | round 1 open"),
        // A wish is served in the end, and its round is not over before.
        ("say compact; compact; unsummed too_long".to_owned(), "owed: compact | round 1 open"),
        ("say compact; compact; unsummed too_long; compact; summed all".to_owned(), "owed: conclude 1 | round 1 open"),
    ];
    for (story, state) in rows {
        assert_eq!(Play::of(&story).state(), state, "{story}");
    }
    // Told again after a torn append, it counts once.
    let whole = Play::of(REFUSED);
    assert_eq!(whole.last_facts(), "tries less: its model is gone, s1/1 failed to nobody");
    let mut play = Play::of("");
    play.log = whole.log[..whole.log.len() - 1].to_vec();
    play.session = Session::fold(SessionId::new("ses_0"), &play.log);
    play.run("takeover; unsummed too_long");
    assert_eq!((play.last_facts().as_str(), play.session.compaction().shrunk), ("s1/1 failed to nobody", 1));
}

/// CC-compaction: the user asks for a summary, at rest and in a turn.
#[test]
fn a_wish_for_a_summary_is_served_before_anything_else_is_said() {
    check_rows(
        &[
            ("say compact", "owed: compact for e1 | queue: e1 | round 1 open"),
            ("say compact; compact", "owed: watch s1/1 | round 1 open"),
            ("say compact; compact; summed all", "owed: conclude 1 | round 1 open"),
            ("say compact; compact; unsummed", "owed: conclude 1 | round 1 open"),
            ("say compact; uncompacted nothing yet", "owed: conclude 1 | round 1 open"),
            ("say; step; reply; conclude; say compact; compact; summed all; conclude", "settled | round 2 completed"),
            // In a turn: at the next boundary, not in the middle of a step or a call.
            ("say; step; say compact", "owed: model 0* | queue: e2 | round 1 open"),
            ("say; step; say compact; reply +touch; start", "owed: run c1* | calls: c1 running | queue: e2 | round 1 open"),
            ("say; step; say compact; reply +touch; start; finish ok", "owed: compact for e2 | queue: e2 | round 1 open"),
            ("say; step; say compact; reply +touch; start; finish ok; compact; summed all", "owed: model 1 | round 1 open"),
            // What begins only when idle waits, and so does everybody else while it is summed up.
            ("say; step; say compact idle; reply +touch; start; finish ok", "owed: model 1 | queue: e2 | round 1 open"),
            ("say; step; say compact idle; reply", "owed: compact for e2 | queue: e2 | round 1 open"),
            ("say compact; say; compact", "owed: watch s1/1 | queue: e2 | round 1 open"),
            ("say compact; say; compact; summed all; step", "owed: model 0* | round 1 open"),
            ("say compact; compact; say", "owed: watch s1/1 | queue: e2 | round 1 open"),
            // Words that came first are answered first.
            ("say; say compact", "owed: model 0 | queue: e1, e2 | round 1 open"),
            ("say typed; expand e1 compact", "owed: compact for e1 | queue: e1 | round 1 open"),
            // Two wishes are two summaries.
            ("say compact; say compact; compact; summed all", "owed: compact for e2 | queue: e2 | round 1 open"),
        ],
        state,
    );
    check_rows(
        &[
            ("say compact; compact", "s1 started, e1 unqueued"),
            ("say compact; uncompacted nothing yet", "uncompacted: nothing yet, e1 unqueued"),
            ("say; step; say compact; reply +touch; start; finish ok; compact; summed all; step", "step 1 []"),
            ("say compact; say; compact; summed all; step", "step 0 [e2]"),
            // A second summary is not begun beside the first, nor in a step, in a call or under a hold.
            ("say compact; compact; compact", ""),
            ("say; step; compact", ""),
            ("say; step; reply +touch; compact", ""),
            ("say; step; esc; compact", ""),
            ("say; step; prune 2", ""),
            ("say; step; reply; prune 2", "pruned to 2"),
        ],
        facts,
    );
}

#[test]
fn while_it_is_summed_up_esc_stops_it_and_words_wait() {
    let begun = "compacts; say; step; fail too_long; compact";
    let rows = [
        ("say", "owed: watch s1/1 | queue: e2 | round 1 open"),
        ("say; summed all; step", "owed: model 1* | round 1 open"),
        // Urgent words too: there is no step that they could end.
        ("say now", "owed: watch s1/1 | queue: e2 | round 1 open"),
        ("esc", "owed: watch s1/1, stop s1/1 | held: esc | round 1 open"),
        ("esc; unsummed stopped", "owed: conclude 1 | held: esc | round 1 open"),
        ("esc; unsummed stopped; conclude", "settled | held: esc | round 1 stopped"),
        ("esc; unsummed stopped; conclude; resume", "owed: model 1 | round 2 open"),
        ("esc; unsummed stopped; conclude; say", "owed: model 1 | queue: e2 | round 2 open"),
        // It had been written before it heard of the stop: nothing is thrown away.
        ("esc; summed all", "owed: conclude 1 | held: esc | round 1 open"),
        ("esc; resume", "owed: watch s1/1, stop s1/1 | round 1 open"),
        ("stop user", "owed: watch s1/1, stop s1/1 | held: stopped_by_user | round 1 open"),
        ("limit", "owed: watch s1/1, stop s1/1 | held: limit | round 1 open"),
        // Another process goes on with the task that is open.
        ("takeover", "owed: watch s1/1 | round 1 open"),
        ("takeover; summed all", "owed: model 1 @0 | round 1 open"),
    ];
    let scripts: Vec<(String, &str)> = rows.iter().map(|(script, expected)| (format!("{begun}; {script}"), *expected)).collect();
    let rows: Vec<(&str, &str)> = scripts.iter().map(|(script, expected)| (script.as_str(), *expected)).collect();
    check_rows(&rows, state);
    assert_eq!(Play::of(&format!("{begun}; takeover")).last_facts(), "");
    assert_eq!(Play::of(&format!("{begun}; esc")).last_facts(), "interrupted esc, s1 stopped by user");
    assert_eq!(Play::of(&format!("{begun}; esc; unsummed stopped")).last_facts(), "uncompacted: its model is gone, s1/1 stopped to nobody");
}

#[test]
fn the_end_of_a_summary_is_one_fact_however_often_it_is_told() {
    let mut play = Play::of("compacts; say; step; reply; say compact; compact tail=5");
    play.run("summed all of it");
    assert_eq!(play.last_facts(), "compacted to 5, s1/1 completed to nobody");
    let Some(Event::Compacted { summary, verbatim, .. }) = play.facts.first() else { panic!("{:?}", play.facts) };
    assert_eq!((summary.inline(), verbatim.inline()), (Some("all of it"), Some("do it")));
    assert!(matches!(&play.facts[1], Event::TaskEnded { result, .. } if result.is_blank()), "it is said once");
    assert_eq!(play.session.tasks_started(), 0, "internal work is nobody's task");
    // The append was torn between the two: the end is told again, the summary is not.
    let torn = play.log.len() - 1;
    let mut play = Play::of("");
    play.log = Play::of("compacts; say; step; reply; say compact; compact tail=5; summed all of it").log[..torn].to_vec();
    play.session = Session::fold(SessionId::new("ses_0"), &play.log);
    assert!(play.session.is_compacting());
    play.run("takeover; summed all of it");
    assert_eq!(play.last_facts(), "s1/1 completed to nobody");
    assert_eq!(play.state(), "owed: conclude 1 | round 1 open");
    // A summary without a word is none.
    assert_eq!(Play::of("say compact; compact; summed").last_facts(), "uncompacted: its model is gone, s1/1 completed to nobody");
}

/// CC-titles: a title is a name in lists, and nothing else.
#[test]
fn a_title_changes_the_title_alone() {
    let mut play = Play::of("say; step; reply; conclude");
    let fold = |play: &Play| {
        let mut summary = Summary::new(SessionId::new("ses_0"));
        play.log.iter().for_each(|record| summary.apply(record));
        summary
    };
    let (before, was) = (fold(&play), play.state());
    play.run("retitle  \"Fix the\tbuild\" ");
    assert_eq!((play.last_facts().as_str(), play.state()), ("titled \"Fix the build\"", was));
    let after = fold(&play);
    assert_eq!(after.title, "\"Fix the build\"");
    assert_eq!(Summary { title: before.title.clone(), head: before.head, updated: before.updated, ..after }, before);
    play.run("retitle");
    assert_eq!(play.last_facts(), "", "no title is no title");
    let long = Command::Retitle { title: "long ".repeat(1_000) };
    play.decide(long);
    assert!(matches!(&play.facts[..], [Event::Titled { title }] if title.len() < 600));
}

// ---- Stretches ----

/// The stretches after these facts; every one of them is a `Queued` unless it is an edit.
fn stretches(length: u64, edits: &[(u64, Event)]) -> Vec<String> {
    let mut session = Session::new(SessionId::new("ses_0"));
    for seq in 1..=length {
        let event = edits
            .iter()
            .find(|(at, _)| *at == seq)
            .map_or(Event::TookOver { calls: 0, usage: Default::default() }, |(_, event)| event.clone());
        session.apply(&record(seq, event));
    }
    shown(&session.segments())
}

fn shown(segments: &[Segment]) -> Vec<String> {
    let pruned = |segment: &Segment| if segment.pruned { " pruned" } else { "" };
    segments.iter().map(|segment| format!("{} {}-{}{}", segment.session, segment.from, segment.to, pruned(segment))).collect()
}

fn compacted(tail_from: u64) -> Event {
    Event::Compacted { summary: "all".into(), tail_from, verbatim: Default::default() }
}

fn forked() -> Event {
    Event::Forked { segments: vec![Segment { session: SessionId::new("ses_9"), from: 2, to: 7, pruned: false }] }
}

#[test]
fn pruned_and_compacted_edit_the_list_of_stretches() {
    let pruned = |to| Event::Pruned { to };
    type Row = (&'static str, Vec<(u64, Event)>, &'static [&'static str]);
    let rows: &[Row] = &[
        ("nothing", vec![], &["ses_0 0-20"]),
        // The fact that edits is in no stretch.
        ("pruned", vec![(10, pruned(4))], &["ses_0 0-4 pruned", "ses_0 4-9", "ses_0 10-20"]),
        (
            "pruned again, no further",
            vec![(10, pruned(4)), (12, pruned(4))],
            &["ses_0 0-4 pruned", "ses_0 4-9", "ses_0 10-11", "ses_0 12-20"],
        ),
        ("pruned further", vec![(10, pruned(4)), (12, pruned(11))], &["ses_0 0-9 pruned", "ses_0 10-11 pruned", "ses_0 12-20"]),
        ("pruned from nothing", vec![(10, pruned(0))], &["ses_0 0-9", "ses_0 10-20"]),
        ("pruned beyond the end", vec![(10, pruned(99))], &["ses_0 0-9 pruned", "ses_0 10-20"]),
        // The summary stands first, then the tail.
        ("compacted", vec![(10, compacted(6))], &["ses_0 9-10", "ses_0 6-9", "ses_0 10-20"]),
        ("compacted whole", vec![(10, compacted(9))], &["ses_0 9-10", "ses_0 10-20"]),
        (
            "compacted after pruned",
            vec![(10, pruned(8)), (12, compacted(6))],
            &["ses_0 11-12", "ses_0 6-8 pruned", "ses_0 8-9", "ses_0 10-11", "ses_0 12-20"],
        ),
        (
            "pruned after compacted",
            vec![(10, compacted(6)), (12, pruned(8))],
            &["ses_0 9-10", "ses_0 6-8 pruned", "ses_0 8-9", "ses_0 10-11", "ses_0 12-20"],
        ),
        ("compacted twice", vec![(10, compacted(6)), (15, compacted(12))], &["ses_0 14-15", "ses_0 12-14", "ses_0 15-20"]),
        // The second reaches into the tail of the first: the first is part of it all the same.
        (
            "compacted into the tail",
            vec![(10, compacted(6)), (15, compacted(8))],
            &["ses_0 14-15", "ses_0 8-9", "ses_0 10-14", "ses_0 15-20"],
        ),
        (
            "reverted after compacted",
            vec![(10, compacted(6)), (15, Event::Reverted { to: 12 })],
            &["ses_0 9-10", "ses_0 6-9", "ses_0 10-12", "ses_0 15-20"],
        ),
        ("reverted into the tail", vec![(10, compacted(6)), (15, Event::Reverted { to: 8 })], &["ses_0 9-10", "ses_0 6-8", "ses_0 15-20"]),
        ("a fork", vec![(2, forked())], &["ses_9 2-7", "ses_0 2-20"]),
        // What is of others is summed up with the rest, and never pruned: it is not this log's to edit.
        ("a fork, compacted", vec![(2, forked()), (10, compacted(6))], &["ses_0 9-10", "ses_0 6-9", "ses_0 10-20"]),
        ("a fork, pruned", vec![(2, forked()), (10, pruned(6))], &["ses_9 2-7", "ses_0 2-6 pruned", "ses_0 6-9", "ses_0 10-20"]),
        (
            "a fork, pruned and compacted",
            vec![(2, forked()), (10, pruned(6)), (12, compacted(8))],
            &["ses_0 11-12", "ses_0 8-9", "ses_0 10-11", "ses_0 12-20"],
        ),
        ("a fork, reverted", vec![(2, forked()), (10, Event::Reverted { to: 6 })], &["ses_9 2-7", "ses_0 2-6", "ses_0 10-20"]),
        ("an attempt that failed", vec![(10, Event::CompactionFailed { why: "x".into(), smaller: false })], &["ses_0 0-20"]),
    ];
    for (name, edits, expected) in rows {
        assert_eq!(stretches(20, edits), *expected, "{name}");
    }
}

#[test]
fn a_summary_is_of_everything_up_to_its_tail() {
    let until = |edits: &[(u64, Event)], tail_from| {
        let mut session = Session::new(SessionId::new("ses_0"));
        for seq in 1..=20 {
            let event = edits
                .iter()
                .find(|(at, _)| *at == seq)
                .map_or(Event::TookOver { calls: 0, usage: Default::default() }, |(_, event)| event.clone());
            session.apply(&record(seq, event));
        }
        shown(&session.segments_until(tail_from))
    };
    assert_eq!(until(&[], 8), ["ses_0 0-8"]);
    assert_eq!(until(&[(10, Event::Pruned { to: 4 })], 12), ["ses_0 0-4 pruned", "ses_0 4-9", "ses_0 10-12"]);
    // The last summary is of what came before, wherever it stands.
    assert_eq!(until(&[(10, compacted(6))], 15), ["ses_0 9-10", "ses_0 6-9", "ses_0 10-15"]);
    assert_eq!(until(&[(10, compacted(6))], 8), ["ses_0 9-10", "ses_0 6-8"]);
    assert_eq!(until(&[(2, forked())], 8), ["ses_9 2-7", "ses_0 2-8"]);
    assert_eq!(until(&[(2, forked()), (10, compacted(6))], 15), ["ses_0 9-10", "ses_0 6-9", "ses_0 10-15"]);
    // One that was begun with exactly these, and goes on from there.
    let play = Play::of("fork ses_9 5; say; step; reply; compact; fork ses_8 5");
    assert_eq!(play.last_facts(), "", "it began once");
    let Some(Event::TaskStarted { spawn, .. }) = play.log.iter().map(|record| &record.event).find(|event| event.name() == "task_started")
    else {
        panic!("a promise");
    };
    let fork = spawn.fork.as_ref().map(|fork| shown(&fork.segments)).unwrap_or_default();
    assert_eq!(fork, ["ses_9 0-5", "ses_0 2-5"]);
}

#[test]
fn what_was_counted_is_not_what_is_sent_after_an_edit() {
    let play = |script: &str| Play::of(&format!("say; step; reply; {script}")).session.last_input();
    assert_eq!(play(""), 10);
    assert_eq!(play("prune 3"), 0);
    assert_eq!(play("compact; summed all"), 0);
    assert_eq!(play("compact; unsummed"), 10);
}

// ---- Answers with a shape ----

#[test]
fn an_answer_without_its_shape_is_asked_for_once_more() {
    check_rows(
        &[
            ("say; step; misshapen no such field", "owed: model 1 | round 1 open"),
            ("say; step; misshapen no such field; step; reply; conclude", "settled | round 1 completed"),
            ("say; step; misshapen no such field; step; misshapen still none", "owed: conclude 1 | held: model_error | round 1 open"),
            ("say; step; misshapen no such field; step; misshapen still none; conclude", "settled | held: model_error | round 1 failed"),
            // A new turn starts afresh.
            ("say; step; misshapen x; step; misshapen x; conclude; say; step; misshapen x", "owed: model 3 | round 2 open"),
            ("say; step; misshapen x; step; reply; conclude; say; step; misshapen x", "owed: model 3 | round 2 open"),
            // There is nothing to resume: the answer was given.
            ("say; step; misshapen x; step; misshapen x; resume", "owed: conclude 1 | held: model_error | round 1 open"),
            // The last step is the last.
            ("say; step closing; misshapen x", "owed: conclude 1 | held: limit | round 1 open"),
            // Words that came meanwhile steer the second try.
            ("say; step; say; misshapen x; step", "owed: model 1* | round 1 open"),
        ],
        state,
    );
    check_rows(
        &[
            ("say; step; misshapen x", "replied 0, misshapen, again"),
            ("say; step; misshapen x; step", "step 1 [] +1"),
            ("say; step; misshapen x; step; misshapen x", "replied 0, misshapen, the last"),
            ("say; step closing; misshapen x", "replied 0, misshapen, the last, limit steps"),
            // It is told once.
            ("say; step; misshapen x; step; reply +touch; start; finish ok; step", "step 2 []"),
            ("say; step; say; misshapen x; step", "step 1 [e2] +1"),
        ],
        facts,
    );
    let play = Play::of("say; step; misshapen the field `age` is missing; step");
    let [Event::StepStarted { notes, .. }] = &play.facts[..] else { panic!("{:?}", play.facts) };
    assert!(
        matches!(&notes[..], [Part::Text { text, synthetic: true }] if text.inline().is_some_and(|text| text.contains("the field `age` is missing")))
    );
    assert_eq!(
        Play::of("say; step; misshapen x; step; misshapen the field").session.round().error,
        "the answer does not fit the schema: the field"
    );
}

// ---- Who only answers ----

#[test]
fn who_only_answers_calls_nothing_and_ends_as_completed() {
    let answering = |script: &str| {
        let mut birth = created(Kind::Internal, "ses_0", Some("ses_0"), Vec::new());
        if let Event::Created { recipe, .. } = &mut birth {
            recipe.only_answers = true;
        }
        let mut play = Play::empty();
        play.decide(Command::Create(Box::new(birth)));
        play.run(script);
        play
    };
    let play = answering("fork ses_9 5; say prompt; step closing");
    assert_eq!(play.last_facts(), "step 0 [e1] closing", "it is not told of a limit");
    let play = answering("fork ses_9 5; say prompt; step closing; reply +touch +read");
    assert_eq!(play.last_facts(), "replied 2, called c1 deny, c1 denied, called c2 deny, c2 denied");
    assert_eq!(play.state(), "owed: conclude 1 | round 1 open");
    assert_eq!(answering("say prompt; step closing; reply; conclude").state(), "settled | round 1 completed");
    // Anybody else has reached a limit there.
    assert_eq!(Play::of("say; step closing; reply; conclude").state(), "settled | held: limit | round 1 limit");
}
