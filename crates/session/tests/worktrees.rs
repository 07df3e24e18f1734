//! Tables of folders that tasks have for themselves, of forks, and of work beside the conversation.
//!
//! The language is explained in `common/play.rs`. How all of it survives crashes is in `crash_beside.rs` and `crash_two.rs`.

mod common;

use common::{
    BESIDE, created,
    play::{Play, check_rows},
    record, spawn,
};
use posse_session::{Advice, Command, EVENT_BYTES_MAX, Event, Hold, Kind, Part, Purpose, Segment, Session, SessionId, Status, Summary};

fn state(play: &Play) -> String {
    play.state()
}

fn facts(play: &Play) -> String {
    play.last_facts()
}

fn check(before: &str, rows: &[(&str, &str)], show: fn(&Play) -> String) {
    let whole: Vec<(String, &str)> = rows.iter().map(|(script, expected)| (format!("{before}{script}"), *expected)).collect();
    let rows: Vec<(&str, &str)> = whole.iter().map(|(script, expected)| (script.as_str(), *expected)).collect();
    check_rows(&rows, show);
}

/// A task in a folder of its own is waited for.
const ALONE: &str = "say; step; reply +agent; start; spawn t1 worktree; ";

/// The same in the background, and the model has answered.
const APART: &str = "say; step; reply +agent; start; spawn t1 bg worktree; step; reply; ";

/// CC-222, CC-223: what holds nothing is owed to be removed until somebody says what came of it; the rest stays.
#[test]
fn a_folder_that_holds_nothing_is_owed_to_be_removed() {
    check(
        ALONE,
        &[
            ("ended t1 clean", "owed: release t1, model 1 | round 1 open"),
            ("ended t1 dirty", "owed: model 1 | round 1 open"),
            ("ended t1 unknown", "owed: model 1 | round 1 open"),
            ("ended t1", "owed: model 1 | round 1 open"),
            // However it ended.
            ("ended t1 stopped clean", "owed: release t1, model 1 | round 1 open"),
            ("ended t1 failed clean", "owed: release t1, model 1 | round 1 open"),
            // Nothing waits for it but the end of the round.
            ("ended t1 clean; step; reply", "owed: release t1 | round 1 open"),
            ("ended t1 clean; step; reply; released t1", "owed: conclude 1 | round 1 open"),
            ("ended t1 clean; step; reply; released t1; conclude", "settled | round 1 completed"),
            // What could not be removed is not tried again.
            ("ended t1 clean; step; reply; released t1 stays it is locked", "owed: conclude 1 | round 1 open"),
            ("ended t1 clean; released t1 stays it is locked; takeover", "owed: model 1 | round 1 open"),
            // A new owner is owed it too, and so is whoever is held.
            ("ended t1 clean; takeover", "owed: release t1, model 1 | round 1 open"),
            ("ended t1 clean; step; esc", "owed: release t1 | held: esc | round 1 open"),
            ("ended t1 clean; step; stop user", "owed: release t1 | held: stopped_by_user | round 1 open"),
            ("ended t1 clean; step; esc; released t1; conclude", "settled | held: esc | round 1 stopped"),
        ],
        state,
    );
    check(
        ALONE,
        &[
            // What was left is told before the end: an append that is torn between them tells both again.
            ("ended t1 clean", "t1 left nothing, t1/1 completed to c1"),
            ("ended t1 dirty", "t1 left work, t1/1 completed to c1"),
            ("ended t1 unknown", "t1 left git is gone, t1/1 completed to c1"),
            ("ended t1", "t1/1 completed to c1"),
            ("ended t1 clean; released t1", "t1 released"),
            ("ended t1 clean; released t1 stays it is locked", "t1 stays: it is locked"),
        ],
        facts,
    );
}

/// CC-222: whoever goes on needs its folder; what it leaves then is what counts.
#[test]
fn who_goes_on_keeps_its_folder_until_it_ends_again() {
    check(
        APART,
        &[
            ("ended t1 clean", "owed: release t1, model 2 | queue: msg_10 | round 1 open"),
            ("ended t1 clean; wake t1", "owed: watch t1/2, model 2 | queue: msg_10 | round 1 open"),
            // The removal that was under way says so too late: it is nothing.
            ("ended t1 clean; wake t1; released t1", "owed: watch t1/2, model 2 | queue: msg_10 | round 1 open"),
            ("ended t1 clean; wake t1; ended t1 round=2 clean; step; reply", "owed: release t1 | round 1 open"),
            ("ended t1 clean; wake t1; ended t1 round=2 dirty; step; reply", "owed: conclude 1 | round 1 open"),
            ("ended t1 dirty; wake t1; ended t1 round=2 clean; step; reply", "owed: release t1 | round 1 open"),
            ("ended t1 dirty; wake t1; ended t1 round=2 dirty; step; reply", "owed: conclude 1 | round 1 open"),
            // A round that cannot say what it left leaves it as it was: whoever removes it looks again.
            ("ended t1 clean; wake t1; ended t1 round=2; step; reply", "owed: release t1 | round 1 open"),
            ("ended t1 clean; released t1; wake t1; ended t1 round=2; step; reply", "owed: conclude 1 | round 1 open"),
        ],
        state,
    );
}

/// A report that nobody waits for is nothing.
#[test]
fn a_removal_that_nobody_waits_for_is_nothing() {
    check(
        APART,
        &[
            ("released t1", ""),
            ("released t9", ""),
            ("ended t1 dirty; released t1", ""),
            ("ended t1 clean; released t1; released t1", ""),
            ("ended t1 clean; released t1 stays x; released t1", ""),
            ("ended t1 clean; wake t1; released t1", ""),
            ("ended t1 clean; wake t1; released t1 stays x", ""),
            ("ended t1 clean; ended t1 clean", ""),
            ("ended t1 round=2 clean", ""),
            ("ended t9 clean", ""),
        ],
        facts,
    );
    // Words that are too long for an event are cut.
    let play = Play::of(&format!("{APART}ended t1 clean; released t1 stays {}", "word ".repeat(2_000)));
    assert!(matches!(&play.facts[..], [Event::Released { removed: false, words, .. }] if words.len() < 4_000), "{:?}", play.facts);
}

/// CC-209: work beside the conversation begins at any time, one of a kind; only questions at the side may be many.
#[test]
fn work_beside_the_conversation_is_one_of_a_kind_at_a_time() {
    for purpose in BESIDE {
        let word = serde_json::to_value(&purpose).expect("json")["purpose"].as_str().expect("a word").to_owned();
        let last = |script: String| Play::of(&script).last_facts();
        let second = if purpose == Purpose::Side { "a2 started" } else { "" };
        assert_eq!(last(format!("say; step; advise a1 {word}")), "a1 started", "{word} in a step");
        assert_eq!(last(format!("say; step; reply; conclude; advise a1 {word}")), "a1 started", "{word} at rest");
        assert_eq!(last(format!("say; step; advise a1 {word}; advise a2 {word}")), second, "{word} twice");
        assert_eq!(last(format!("say; step; advise a1 {word}; advise a1 {word}")), "", "the same {word} twice");
        assert_eq!(last(format!("say; step; advise a1 {word}; advised a1 x; advise a2 {word}")), "a2 started", "{word} again");
        let other = if purpose == Purpose::Suggest { "remember" } else { "suggest" };
        assert_eq!(last(format!("say; step; advise a1 {word}; advise a2 {other}")), "a2 started", "{word} and {other}");
    }
    // A summary of the conversation is begun otherwise, and so is work without a purpose.
    let mut play = Play::of("say; step; reply");
    let command = |spawn| Command::Advise { task: SessionId::new("a1"), spawn: Box::new(spawn) };
    play.decide(command(common::internal("m", Purpose::Compact { tail_from: 3 }, Vec::new())));
    assert_eq!(play.last_facts(), "");
    play.decide(command(spawn("m", true)));
    assert_eq!(play.last_facts(), "");
}

/// CC-209, CC-213, CC-215: its end is heard by nobody; what it has to say is a fact of its own, if there is something.
#[test]
fn the_end_of_work_beside_the_conversation_is_a_fact_and_no_notice() {
    let rows = [
        ("suggest", Some("suggestion")),
        ("speculate", Some("speculation")),
        ("summarise", Some("summary")),
        ("remember", None),
        ("consolidate", None),
        ("side", None),
    ];
    for (word, advises) in rows {
        let last = |script: &str| Play::of(&format!("say; step; advise a1 {word}; {script}")).last_facts();
        let advised = advises.map_or(String::new(), |agent| format!(", advised by {agent}: run the tests"));
        assert_eq!(last("advised a1 run the tests"), format!("a1/1 completed to nobody{advised}"));
        // Who has failed or has nothing to say advises nothing; who ran into a limit has said something.
        assert_eq!(last("advised a1"), "a1/1 completed to nobody");
        assert_eq!(last("unadvised a1 failed"), "a1/1 failed to nobody");
        assert_eq!(last("unadvised a1 stopped"), "a1/1 stopped to nobody");
        let advised = advises.map_or(String::new(), |agent| format!(", advised by {agent}: limit"));
        assert_eq!(last("unadvised a1 limit"), format!("a1/1 limit to nobody{advised}"));
        assert_eq!(last("advised a1 x; advised a1 x"), "", "it ends once");
        assert_eq!(last("esc; advised a1"), "a1/1 completed to nobody", "also under a hold");
    }
}

/// CC-214, CC-215: a round waits for work beside it, but not for who only tells of it; at rest there is no round.
#[test]
fn a_round_ends_before_who_only_tells_of_it() {
    check_rows(
        &[
            ("say; step; advise a1 side; reply", "owed: watch a1/1 | round 1 open"),
            ("say; step; advise a1 side; reply; advised a1 x; conclude", "settled | round 1 completed"),
            ("say; step; advise a1 summarise; reply", "owed: watch a1/1, conclude 1 | round 1 open"),
            ("say; step; advise a1 summarise; reply; conclude", "settled | round 1 completed"),
            ("say; step; advise a1 summarise; reply +touch", "owed: run c1, watch a1/1 | calls: c1 ready | round 1 open"),
            ("say; step; reply; conclude; advise a1 suggest", "owed: watch a1/1 | round 1 completed"),
            ("say; step; reply; conclude; advise a1 suggest; advised a1 x", "settled | round 1 completed"),
            ("say; step; reply; conclude; advise a1 suggest; unadvised a1 failed", "settled | round 1 completed"),
            ("say; step; reply; conclude; advise a1 summarise", "owed: watch a1/1 | round 1 completed"),
            ("say; step; reply; conclude; advise a1 summarise; advised a1 x", "settled | round 1 completed"),
            // Words are answered meanwhile.
            ("say; step; reply; conclude; advise a1 remember; say", "owed: watch a1/1, model 1 | queue: e2 | round 2 open"),
            ("say; step; reply; conclude; advise a1 remember; say; step; reply", "owed: watch a1/1 | round 2 open"),
            // Esc leaves a question at the side alone and ends the rest; a stop ends all of it.
            ("say; step; advise a1 suggest; esc", "owed: watch a1/1, stop a1/1 | held: esc | round 1 open"),
            ("say; step; advise a1 side; esc", "owed: watch a1/1 | held: esc | round 1 open"),
            ("say; step; advise a1 side; stop user", "owed: watch a1/1, stop a1/1 | held: stopped_by_user | round 1 open"),
            (
                "say; step; reply; conclude; advise a1 remember; stop user",
                "owed: watch a1/1, stop a1/1 | held: stopped_by_user | round 1 stopped",
            ),
        ],
        state,
    );
    check_rows(
        &[
            ("say; step; advise a1 summarise; reply; conclude", "a1/1 stopped to nobody, ended 1 completed"),
            ("say; step; advise a1 summarise; reply; conclude; advised a1 too late", ""),
            ("say; step; advise a1 side; reply; advised a1 x; conclude", "ended 1 completed"),
        ],
        facts,
    );
}

/// Lists show a session at rest as what it is, whatever is done beside it.
#[test]
fn a_session_at_rest_stays_at_rest_in_lists() {
    let summary = |script: &str| {
        let mut summary = Summary::new(SessionId::new("ses_0"));
        Play::of(script).log.iter().for_each(|record| summary.apply(record));
        (summary.status, summary.at_rest, summary.open_tasks, summary.beside.len(), summary.doing)
    };
    let rest = || (Status::Completed, true, 0, 0, String::new());
    assert_eq!(summary("say; step; reply; conclude"), rest());
    assert_eq!(summary("say; step; reply; conclude; advise a1 suggest"), (Status::Completed, true, 0, 1, String::new()));
    assert_eq!(summary("say; step; reply; conclude; advise a1 suggest; advised a1 x"), rest());
    // What goes on is told while it goes on.
    assert_eq!(summary("say; step; advise a1 summarise; advised a1 counts"), (Status::Running, false, 0, 0, "counts".into()));
    assert_eq!(summary("say; step; advise a1 summarise; advised a1 counts; reply; conclude"), rest());
    assert_eq!(summary("say; step; advise a1 summarise; reply; conclude"), rest(), "who yields is gone");
    // A summary that the user wants is work.
    assert_eq!(summary("say; step; reply; conclude; say compact; compact"), (Status::Running, false, 1, 0, String::new()));
}

/// CC-212, CC-213: what was begun and said since the last turn began is in the state, so that a crash neither forgets it nor pays twice.
#[test]
fn what_was_advised_is_remembered_until_the_next_turn() {
    fn advice(play: &Play) -> String {
        let Advice { begun, suggested, speculated, answers, words } = play.session.advice();
        let begun: Vec<&str> = begun.iter().map(Purpose::agent).collect();
        let said = |seq: &Option<u64>| seq.map_or("-".into(), |seq| play.log[seq as usize - 1].event.name());
        format!("[{}] {} {}, {answers} answers, {words} bytes", begun.join(" "), said(suggested), said(speculated))
    }
    check(
        "say; step; reply +touch; start; finish ok; step; reply; conclude; ",
        &[
            ("", "[] - -, 2 answers, 2 bytes"),
            ("advise a1 suggest", "[suggestion] - -, 2 answers, 2 bytes"),
            ("advise a1 suggest; unadvised a1 failed", "[suggestion] - -, 2 answers, 2 bytes"),
            ("advise a1 suggest; advised a1 x", "[suggestion] advised -, 2 answers, 2 bytes"),
            (
                "advise a1 suggest; advised a1 x; advise a2 speculate; advised a2 y",
                "[suggestion speculation] advised advised, 2 answers, 2 bytes",
            ),
            // Another suggestion makes what would come of the first worthless.
            (
                "advise a1 suggest; advised a1 x; advise a2 speculate; advised a2 y; advise a3 suggest; advised a3 z",
                "[suggestion speculation suggestion] advised -, 2 answers, 2 bytes",
            ),
            // Notes are taken of what was said since the last ones.
            ("advise a1 remember", "[memory] - -, 0 answers, 0 bytes"),
            ("advise a1 consolidate", "[consolidation] - -, 2 answers, 2 bytes"),
            ("advise a1 side; advise a2 summarise", "[] - -, 2 answers, 2 bytes"),
            // The next turn begins anew, but for what no note was taken of. Only the user's words count.
            ("advise a1 suggest; advised a1 x; say; step", "[] - -, 2 answers, 4 bytes"),
            ("advise a1 remember; advised a1; say; step; reply", "[] - -, 1 answers, 2 bytes"),
            ("say timer; step; reply", "[] - -, 3 answers, 2 bytes"),
        ],
        advice,
    );
}

/// CC-002, CC-192: a fork is a task like any other, but for what it begins with.
#[test]
fn a_fork_is_a_task_that_is_heard_like_any_other() {
    const FORKS: &str = "say; step; reply +agent +touch +agent; start; ";
    check(
        FORKS,
        &[
            ("spawn t1 fork", "owed: run c2*, run c3*, watch t1/1 | calls: c1 waits for t1, c2 running, c3 running | round 1 open"),
            ("spawn t1 bg fork; finish c2 ok; spawn t2 bg fork", "owed: watch t1/1, watch t2/1, model 1 | round 1 open"),
            (
                "spawn t1 bg fork; finish c2 ok; spawn t2 bg fork; step; ended t1; reply",
                "owed: watch t2/1, model 2 | queue: msg_13 | round 1 open",
            ),
        ],
        state,
    );
    let play = Play::of(&format!("{FORKS}spawn t1 bg fork; finish c2 ok; spawn t2 bg fork"));
    let forks: Vec<Vec<String>> = play.log.iter().filter_map(|record| fork_of(&record.event)).collect();
    // The same for all of one reply, whatever came between: up to its last call, whoever has a result.
    assert_eq!(forks, [["ses_0 0-7"], ["ses_0 0-7"]]);
    assert_eq!(play.session.tasks_started(), 2, "they count like any other");
    for kind in [Kind::Root, Kind::Task, Kind::Fork, Kind::Internal, Kind::Teammate] {
        assert_eq!(kind.is_fork(), kind == Kind::Fork);
        assert_eq!(kind.is_task(), !matches!(kind, Kind::Root | Kind::Internal), "{kind:?}");
    }
    // It begins elsewhere once, with its own words after that.
    let mut fork = Play::empty();
    fork.decide(Command::Create(Box::new(created(Kind::Fork, "ses_9", Some("ses_9"), Vec::new()))));
    fork.run("fork ses_9 7; say prompt; fork ses_9 7");
    assert_eq!((fork.last_facts().as_str(), fork.session.begins_elsewhere()), ("", true));
    assert_eq!(shown(&fork.session.segments()), ["ses_9 0-7", "ses_0 2-3"]);
    fork.run("step; reply; conclude");
    assert_eq!(fork.state(), "settled | round 1 completed");
}

fn fork_of(event: &Event) -> Option<Vec<String>> {
    let Event::TaskStarted { spawn, .. } = event else { return None };
    spawn.fork.as_ref().map(|fork| shown(&fork.segments))
}

fn shown(segments: &[Segment]) -> Vec<String> {
    let pruned = |segment: &Segment| if segment.pruned { " pruned" } else { "" };
    segments.iter().map(|segment| format!("{} {}-{}{}", segment.session, segment.from, segment.to, pruned(segment))).collect()
}

/// CC-194, CC-197: what a fork of a reply begins with, in conversations of every kind.
#[test]
fn a_fork_begins_with_what_its_caller_had_seen_at_the_reply() {
    /// Two calls with results, then a reply that forks: its last call is at the head.
    const TALK: &str = "say; step; reply +touch; start; finish ok; step; reply +touch; start; finish ok; step; ";
    let until_reply = |script: &str| {
        let mut play = Play::of(script);
        play.run("reply +agent +touch; start; spawn t1 bg fork; finish ok");
        let forks: Vec<Vec<String>> = play.log.iter().filter_map(|record| fork_of(&record.event)).collect();
        // The last promise is the fork; a summary was promised before it.
        forks.last().expect("a fork").clone()
    };
    assert_eq!(until_reply("say; step; "), ["ses_0 0-6"], "a plain one");
    assert_eq!(until_reply(TALK), ["ses_0 0-16"], "a plain one with some calls");
    let pruned = "say; step; reply +touch; start; finish ok; prune 6; step; ";
    assert_eq!(until_reply(pruned), ["ses_0 0-6 pruned", "ses_0 6-7", "ses_0 8-12"], "outputs were left out");
    let summed = "say; step; reply +touch; start; finish ok; compact; summed all; step; ";
    assert_eq!(until_reply(summed), ["ses_0 8-9", "ses_0 7-8", "ses_0 9-14"], "it was summed up");
    let forked = "fork ses_9 5; say; step; ";
    assert_eq!(until_reply(forked), ["ses_9 0-5", "ses_0 2-7"], "it began elsewhere");
    let both = "fork ses_9 5; say; step; reply +touch; start; finish ok; prune 6; step; ";
    assert_eq!(until_reply(both), ["ses_9 0-5", "ses_0 2-6 pruned", "ses_0 6-8", "ses_0 9-13"], "and outputs were left out");
    // What came after the reply is not part of it, though it is in the caller's stretches.
    let mut play = Play::of("say; step; reply +agent +touch; say");
    let seq = play.session.head() - 1;
    play.run("start; finish c2 ok");
    assert_eq!(shown(&play.session.segments_until(seq)), ["ses_0 0-6"]);
    assert_eq!(shown(&play.session.segments()), [format!("ses_0 0-{}", play.session.head())]);
}

/// Every prefix of what a fork began with is a conversation of its caller: stretches are in order and do not overlap.
#[test]
fn stretches_up_to_any_place_are_in_order_and_apart() {
    let scripts = [
        "say; step; reply +touch; start; finish ok; step; reply; conclude; say; step; reply",
        "say; step; reply +touch; start; finish ok; prune 5; step; reply +touch; start; finish ok; prune 9; step; reply",
        "say; step; reply +touch; start; finish ok; compact; summed all; step; reply +touch; start; finish ok; step; reply",
        "fork ses_9 5; say; step; reply +touch; start; finish ok; compact tail=5; say; summed all; step; reply",
    ];
    for script in scripts {
        let session = Play::of(script).session;
        for to in 0..=session.head() {
            let until = session.segments_until(to);
            let own: Vec<&Segment> = until.iter().filter(|segment| segment.session == *session.id()).collect();
            assert!(own.iter().all(|segment| segment.from < segment.to), "{script}, up to {to}: {until:?}");
            for (at, one) in own.iter().enumerate() {
                let apart = |other: &&&Segment| one.to <= other.from || other.to <= one.from;
                assert!(own[at + 1..].iter().all(|other| apart(&other)), "{script}, up to {to}: {until:?}");
            }
            let shows = |segment: &&Segment| session.segments().iter().any(|whole| whole.from <= segment.from && segment.to <= whole.to);
            assert!(own.iter().all(shows), "{script}, up to {to}: something that is not shown: {until:?}");
        }
        assert_eq!(session.segments_until(session.head()), session.segments(), "{script}");
    }
}

/// A hold does not come of work beside the conversation, and is not lifted by it.
#[test]
fn advice_lifts_no_hold() {
    let mut play = Play::of("say; step; stop user; conclude; advise a1 suggest");
    assert_eq!(play.session.hold(), Some(Hold::StoppedByUser));
    play.run("advised a1 x");
    assert_eq!(play.state(), "settled | held: stopped_by_user | round 1 stopped");
}

/// Facts that no run writes are taken as they come.
#[test]
fn folders_of_nobody_are_taken_as_they_come() {
    let mut session = Session::new(SessionId::new("ses_0"));
    let task = SessionId::new("ses_2");
    session.apply(&record(1, Event::Released { task: task.clone(), removed: true, words: String::new() }));
    assert!(session.is_settled());
    session.apply(&record(2, Event::WorktreeLeft { task: task.clone(), left: common::left("ses_2", true) }));
    assert!(!session.is_settled(), "it is owed");
    session.apply(&record(3, Event::Released { task, removed: false, words: "x".into() }));
    assert!(session.is_settled() && session.owed().is_empty());
}

/// CC-223: what the user does with the work of a task is told to the model once, with its next step, and begins nothing.
#[test]
fn what_the_user_brings_home_is_told_with_the_next_step() {
    check(
        ALONE,
        &[
            ("ended t1 dirty; step; reply; conclude; home t1 a.rs b.rs", "t1 home: a.rs b.rs to here"),
            ("ended t1 dirty; step; reply; conclude; home t1 onto=main a.rs", "t1 home: a.rs to main"),
            ("ended t1 dirty; step; reply; conclude; home t1 discarded", "t1 thrown away"),
            ("ended t1 dirty; home t1 a.rs; step", "step 1 [] +1"),
            ("ended t1 dirty; home t1 a.rs; home t2 discarded; step", "step 1 [] +1"),
            ("ended t1 dirty; home t1 a.rs; step; reply +touch; start; finish ok; step", "step 2 []"),
        ],
        facts,
    );
    check(
        ALONE,
        &[
            ("ended t1 dirty; step; reply; conclude; home t1 a.rs", "settled | round 1 completed"),
            ("ended t1 dirty; step; reply; conclude; home t1 a.rs; say; step; reply; conclude", "settled | round 2 completed"),
            ("ended t1 dirty; step; esc; home t1 a.rs", "owed: conclude 1 | held: esc | round 1 open"),
        ],
        state,
    );
    let told = |script: &str| {
        let play = Play::of(&format!("{ALONE}ended t1 dirty; {script}; step"));
        let [Event::StepStarted { notes, .. }] = &play.facts[..] else { panic!("{:?}", play.facts) };
        let words = |part: &Part| if let Part::Text { text, synthetic: true } = part { text.inline().map(str::to_owned) } else { None };
        notes.iter().filter_map(words).collect::<Vec<_>>().join("|")
    };
    let (here, there, gone) = (told("home t1 a.rs b.rs"), told("home t1 onto=main a.rs"), told("home t1 discarded"));
    assert!(here.contains("task t1") && here.contains("a.rs, b.rs") && here.contains("into this folder"), "{here}");
    assert!(there.contains("branch main") && there.contains("a.rs"), "{there}");
    assert!(gone.contains("thrown away") && gone.contains("t1"), "{gone}");
    assert_eq!(told("home t1 a.rs; home t2 discarded").lines().count(), 2, "each in a line of its own");
}

/// However many files there are, the fact fits into the log and the words into a step.
#[test]
fn very_many_files_that_come_home_are_not_all_named() {
    let paths: Vec<String> = (0..5_000).map(|number| format!("src/a/rather/long/path/{number}.rs")).collect();
    let mut play = Play::of("say; step; reply");
    for task in 0..30 {
        let (task, onto) = (SessionId::new(format!("t{task}")), "x".repeat(50_000));
        play.decide(Command::BringHome { task, paths: paths.clone(), onto, discarded: false });
        let size = serde_json::to_string(&play.facts[0]).expect("json").len();
        assert!(size <= EVENT_BYTES_MAX, "{size} bytes");
        let Event::BroughtHome { paths: named, more, .. } = &play.facts[0] else { panic!("{:?}", play.facts) };
        assert_eq!(named.len() as u64 + more, 5_000, "how many there were is known");
    }
    play.run("conclude; say; step");
    let [Event::StepStarted { notes, .. }] = &play.facts[..] else { panic!("{:?}", play.facts) };
    assert!(format!("{notes:?}").contains("and 4980 more (5000 files in all)"), "{notes:?}");
}
