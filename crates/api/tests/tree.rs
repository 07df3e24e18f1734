//! A tree of sessions as lists show it: order, sums, what each waits for, and the whole text.

mod support;

use posse_api::{
    WaitsFor, branches, is_task, name_lanes, named, shell_lines, shell_rows, shown_status, summed_up, task_lines, transcript, tree,
    tree_lines, words,
};
use posse_session::{By, CallId, Event, Hold, How, Limit, Outcome, Part, SessionId, Status, Summary, Timestamp};
use support::{BORN, Story};

fn answered(story: Story) -> Story {
    story.says("msg_1", "go").step(0, &["msg_1"], Vec::new()).replies(0, vec![Part::text("done")], 0)
}

/// A root with three tasks, of which one has a task of its own.
fn team() -> Vec<Summary> {
    let root = Story::root("ses_r")
        .says("msg_1", "look around")
        .step(0, &["msg_1"], Vec::new())
        .replies(0, Vec::new(), 3)
        .calls("call_1", "agent", "layout", "{}")
        .calls("call_2", "agent", "tests", "{}")
        .calls("call_3", "agent", "push", "{}")
        .delegates("call_1", "ses_a", "explore", None)
        .delegates("call_2", "ses_b", "general", Some("tester"))
        .delegates("call_3", "ses_c", "general", None)
        .hears("call_1", "ses_a", How::Completed, "found");
    let layout = answered(Story::child("ses_a", "ses_r", "explore", "layout").after(1)).after(60).ends(How::Completed, "");
    let tests = Story::child("ses_b", "ses_r", "general", "tests")
        .after(2)
        .says("msg_2", "test")
        .step(0, &["msg_2"], Vec::new())
        .replies(0, Vec::new(), 1)
        .calls("call_4", "agent", "deeper", "{}")
        .delegates("call_4", "ses_d", "explore", None);
    let push = Story::child("ses_c", "ses_r", "general", "push")
        .after(3)
        .says("msg_3", "push")
        .step(0, &["msg_3"], Vec::new())
        .replies(0, Vec::new(), 1)
        .calls("call_5", "bash", "git push", "{}")
        .asks("ask_1", "call_5", "bash", "git push");
    let deeper = Story::child("ses_d", "ses_b", "explore", "deeper").after(4).says("msg_4", "dig").step(0, &["msg_4"], Vec::new());
    // Views come in any order.
    [push, deeper, root, layout, tests].iter().map(Story::summary).collect()
}

const NOW: Timestamp = Timestamp(BORN + 2_000);

#[test]
fn a_tree_is_listed_with_sums_and_with_what_each_waits_for() {
    let nodes = tree(&team(), &SessionId::new("ses_r"), true, NOW);
    let shown = tree_lines(&nodes, NOW).join("\n");
    assert_eq!(
        shown,
        "\
? build  look around  ses_r  waiting · 1 step · 3 calls · 1.0k tokens · $0.25 · with 4 below 4.0k tokens $1.00 · 2.0 s · 2 s ago
    last: agent push
    waits for 2 tasks
├─ ✓ explore  layout  ses_a  completed · 1 step · 0 calls · 1.0k tokens · $0.25 · 0.06 s · 1 s ago
├─ ? general \"tester\"  tests  ses_b  waiting · 1 step · 1 call · 1.0k tokens · $0.25 · with 1 below 1.0k tokens $0.25 · 2.0 s · 1 s ago
│      last: agent deeper
│      waits for 1 task
│  └─ ● explore  deeper  ses_d  running · 0 steps · 0 calls · 0 tokens · $0.00 · 2.0 s · 1 s ago
└─ ? general  push  ses_c  waiting · 1 step · 1 call · 1.0k tokens · $0.25 · 2.0 s · 1 s ago
       last: bash git push
       waits for your permission: bash(git push); posse asks answer ask_1 once|session|tree|project|no"
    );
}

#[test]
fn a_part_of_a_tree_is_a_tree_and_tasks_are_what_was_delegated() {
    let nodes = tree(&team(), &SessionId::new("ses_b"), true, NOW);
    let found: Vec<(&str, usize)> = nodes.iter().map(|node| (node.session.as_str(), node.depth)).collect();
    assert_eq!(found, [("ses_b", 0), ("ses_d", 1)]);
    assert_eq!(tree(&team(), &SessionId::new("ses_x"), true, NOW), []);

    let mut all = tree(&team(), &SessionId::new("ses_r"), true, NOW);
    all.retain(is_task);
    assert_eq!(
        task_lines(&all, NOW).join("\n"),
        "\
ses_a  explore           completed     1 step    1.0k tokens  $0.25     1 s ago  layout
ses_b  general \"tester\"  waiting       1 step    1.0k tokens  $0.25 (with those below $0.25)     1 s ago  tests  last: agent deeper
    waits for 1 task
ses_d  explore           running      0 steps       0 tokens  $0.00     1 s ago  deeper
ses_c  general           waiting       1 step    1.0k tokens  $0.25     1 s ago  push  last: bash git push
    waits for your permission: bash(git push); posse asks answer ask_1 once|session|tree|project|no"
    );
}

#[test]
fn what_a_session_waits_for() {
    let begun = || Story::child("ses_a", "ses_r", "explore", "layout").says("msg_1", "go");
    let in_step = || begun().step(0, &["msg_1"], Vec::new());
    let failed = |retry_at| Event::StepFailed {
        step: 0,
        failure: None,
        error: "busy".into(),
        retry_at: Some(Timestamp(retry_at)),
        partial: Default::default(),
        usage: Default::default(),
    };
    let called = || in_step().replies(0, Vec::new(), 1).calls("call_1", "bash", "ls", "{}").starts("call_1");
    let asked = || in_step().replies(0, Vec::new(), 1).calls("call_1", "question", "", "{}").asks("ask_1", "call_1", "question", "*");
    let stopped = || in_step().and(Event::Interrupted { by: By::User, hold: Hold::StoppedByUser });
    let none = "";
    for (what, story, running, status, expected) in [
        ("a step", in_step(), true, Status::Running, none),
        ("a tool", called(), true, Status::Running, none),
        ("a lane at first", begun(), true, Status::Queued, "its turn at mock/m1"),
        ("a lane between steps", called().finishes("call_1", Outcome::done("a")), true, Status::Queued, "its turn at mock/m1"),
        ("a retry", in_step().and(failed(BORN + 9_000)), true, Status::Waiting, "the next try in 7 s"),
        ("a retry that goes on", in_step().and(failed(BORN + 9_000)).step(0, &[], Vec::new()), true, Status::Running, none),
        ("a retry that is due", in_step().and(failed(BORN + 1_000)), true, Status::Queued, "its turn at mock/m1"),
        ("a task", called().delegates("call_1", "ses_b", "general", None), true, Status::Waiting, "1 task"),
        ("an answer", asked(), true, Status::Waiting, "your answer to a question"),
        ("an answer that nobody takes in", asked(), false, Status::Waiting, "your answer to a question"),
        ("a process", called(), false, Status::Waiting, "a process"),
        ("nothing more", in_step().ends(How::Completed, ""), false, Status::Completed, none),
        ("nothing, stopped", stopped(), false, Status::Stopped, none),
    ] {
        let nodes = tree(&[story.summary()], &story.session, running, NOW);
        let words = nodes[0].waits.as_ref().map_or(none, |waits| &waits.words);
        assert_eq!((nodes[0].status, words), (status, expected), "{what}");
    }
    let left = tree(&[called().summary()], &SessionId::new("ses_a"), false, NOW);
    let waits = left[0].waits.clone().unwrap();
    assert_eq!((waits.what, waits.run.as_deref()), (WaitsFor::Process, Some("posse sessions resume ses_r")));
    assert!(tree_lines(&left, NOW)[0].contains("waiting (no process)"), "{:?}", tree_lines(&left, NOW));
    assert!(task_lines(&left, NOW)[0].contains("waiting (no process)"), "{:?}", task_lines(&left, NOW));
}

#[test]
fn a_child_at_its_limit_has_completed_if_it_said_something() {
    let limited = |story: Story| story.ends(How::Limit, "too many steps").summary();
    assert_eq!(shown_status(&limited(answered(Story::child("ses_a", "ses_r", "explore", "x")))), Status::Completed);
    assert_eq!(shown_status(&limited(Story::child("ses_a", "ses_r", "explore", "x").says("msg_1", "go"))), Status::Failed);
    assert_eq!(shown_status(&limited(answered(Story::root("ses_r")))), Status::Limit);
}

#[test]
fn a_second_round_is_no_failure_any_more_and_begins_anew() {
    let first = answered(Story::child("ses_a", "ses_r", "explore", "x")).after(500).ends(How::Failed, "the model failed");
    let summary = first.summary();
    assert_eq!((summary.status, summary.error.as_str(), summary.began.0), (Status::Failed, "the model failed", BORN));
    let second = first.after(500).says("msg_9", "again").step(1, &["msg_9"], Vec::new()).summary();
    assert_eq!((second.status, second.error.as_str(), second.began.0, second.is_over()), (Status::Running, "", BORN + 1_000, false));
}

#[test]
fn a_task_is_meant_by_its_name_unless_several_have_it() {
    let mut all = team();
    assert_eq!(named(&all, "tester").unwrap(), Some(SessionId::new("ses_b")));
    assert_eq!(named(&all, "test").unwrap(), None, "a name is whole");
    // The youngest tree counts, however many had the name before.
    all.push(Story::root("ses_s").delegates("call_9", "ses_t", "general", Some("tester")).summary());
    assert_eq!(named(&all, "tester").unwrap(), Some(SessionId::new("ses_t")));
    all.push(Story::root("ses_o").delegates("call_9", "ses_p", "general", Some("tester")).summary());
    assert_eq!(named(&all, "tester").unwrap(), Some(SessionId::new("ses_t")));
    // In one tree two parents gave the name: the task that is open is meant, else nobody knows which.
    let mut giver = Story::child("ses_u", "ses_s", "general", "x").delegates("call_8", "ses_v", "general", Some("tester")).summary();
    giver.root = SessionId::new("ses_s");
    all.push(giver);
    assert_eq!(named(&all, "tester").unwrap_err().to_string(), "tester could be any of these: ses_t, ses_v");
    all.push(Story::child("ses_v", "ses_u", "general", "x").says("msg_1", "go").summary());
    assert_eq!(named(&all, "tester").unwrap(), Some(SessionId::new("ses_v")));
}

#[test]
fn a_list_shows_shells_stand_ins_lanes_and_who_stopped_it() {
    let begun = || Story::child("ses_a", "ses_r", "explore", "layout").says("msg_1", "go");
    let kept = || {
        let called = begun().step(0, &["msg_1"], Vec::new()).replies(0, Vec::new(), 1).calls("call_1", "bash", "make", "{}");
        let kept = called.and(Event::Kept { call: CallId::new("call_1"), title: "make".into() });
        kept.finishes("call_1", Outcome::done("runs")).step(1, &[], Vec::new()).replies(1, vec![Part::text("it runs")], 0)
    };
    let nodes = tree(&[kept().summary()], &SessionId::new("ses_a"), true, NOW);
    assert_eq!(nodes[0].waits.as_ref().unwrap().words, "a shell in the background: make");
    assert_eq!(task_lines(&nodes, NOW)[2], "    in the background: make (call_1)");
    let rows = shell_rows(&nodes, true);
    assert_eq!(shell_lines(&rows), ["call_1  shell  running  of ses_a  make"]);
    assert!(shell_lines(&shell_rows(&nodes, false))[0].starts_with("call_1  shell  stopped (no process"));
    let ended = kept().and(Event::KeptEnded { call: CallId::new("call_1"), words: "over".into(), entry: None });
    assert_eq!(shell_rows(&tree(&[ended.summary()], &SessionId::new("ses_a"), true, NOW), true), []);

    let delegated = begun().step(0, &["msg_1"], Vec::new()).replies(0, Vec::new(), 1).calls("call_1", "agent", "x", "{}");
    let launched = delegated.delegates("call_1", "ses_b", "general", None).finishes("call_1", Outcome::done("runs"));
    let nodes = tree(&[launched.summary()], &SessionId::new("ses_a"), true, NOW);
    assert_eq!(nodes[0].waits.as_ref().unwrap().words, "1 task in the background");

    let changed = begun().and(Event::ModelChanged { model: Some("also/m2".into()), why: "mock/m1 is overloaded".into() });
    let mut nodes = tree(&[changed.summary()], &SessionId::new("ses_a"), true, NOW);
    assert_eq!(nodes[0].waits.as_ref().unwrap().words, "its turn at also/m2");
    name_lanes(&mut nodes, |model| (format!("the lane of {model}"), 3));
    assert_eq!(
        task_lines(&nodes, NOW)[1..],
        ["    waits for its turn: the lane of also/m2, 3 at once", "    also/m2 answers in place of mock/m1"]
    );

    for (by, expected) in [(By::User, "stopped by you"), (By::Model, "stopped by another agent"), (By::Kernel, "stopped ")] {
        let stopped = begun().and(Event::Interrupted { by, hold: Hold::StoppedByUser });
        let nodes = tree(&[stopped.summary()], &SessionId::new("ses_a"), true, NOW);
        assert!(task_lines(&nodes, NOW)[0].contains(expected) && tree_lines(&nodes, NOW)[0].contains(expected), "{by:?}");
    }
}

#[test]
fn a_transcript_has_what_was_said_before_a_turn_broke_off_and_why_once() {
    let failed = |error: &str, partial: &str, retry_at| Event::StepFailed {
        step: 0,
        failure: None,
        error: error.into(),
        retry_at,
        partial: partial.into(),
        usage: Default::default(),
    };
    let story = Story::root("ses_r")
        .and(failed("cut", "said anew", Some(NOW)))
        .and(failed("interrupted", "the first half", None))
        .and(Event::Interrupted { by: By::User, hold: Hold::Esc })
        .and(failed("no time", "", None))
        .and(Event::LimitReached { limit: Limit::Time, words: "no time".into(), own: false })
        .and(Event::Interrupted { by: By::User, hold: Hold::Esc });
    assert_eq!(
        transcript(&story.facts).join("\n"),
        "  ! cut (tried again)\nagent: the first half\n  (cut off here)\n  ! interrupted\n  ! no time\n  ! interrupted"
    );
}

#[test]
fn a_transcript_says_who_worked_on_a_call_and_what_came_of_it() {
    let story = Story::root("ses_r")
        .says("msg_1", "go")
        .step(0, &["msg_1"], Vec::new())
        .replies(0, vec![Part::text("I ask around.")], 2)
        .calls("call_1", "agent", "layout", "{}")
        .calls("call_2", "agent", "tests", "{}")
        .delegates("call_1", "ses_a", "explore", None)
        .delegates("call_2", "ses_b", "general", None)
        .hears("call_1", "ses_a", How::Completed, "found it")
        .hears("call_2", "ses_b", How::Failed, "the model failed")
        .and(Event::Detached { task: SessionId::new("ses_c") });
    assert_eq!(
        transcript(&story.facts).join("\n"),
        "\
you: go
agent: I ask around.
  ▸ agent layout
  ▸ agent tests
    → explore works on it in ses_a
    → general works on it in ses_b
    found it
    (failed)
    the model failed
  ! ses_c goes on in the background"
    );
    assert_eq!(summed_up(&story.summary(), " It was looked at.\n"), "ses_r  running  look around\n\nIt was looked at.");
}

#[test]
fn branches_are_drawn_from_depths() {
    let drawn = |depths: &[usize]| branches(depths).into_iter().map(|(own, _)| own).collect::<Vec<_>>();
    assert_eq!(drawn(&[0, 1, 2, 2, 1]), ["", "├─ ", "│  ├─ ", "│  └─ ", "└─ "]);
    assert_eq!(drawn(&[0, 1, 2, 3, 2]), ["", "└─ ", "   ├─ ", "   │  └─ ", "   └─ "]);
    assert_eq!(drawn(&[1, 1]), ["├─ ", "└─ "]);
    assert_eq!(drawn(&[]), [""; 0]);
}

#[test]
fn a_thousand_agents_are_one_tree_and_a_circle_ends() {
    let mut all: Vec<Summary> =
        (0..1_000).map(|number| answered(Story::child(&format!("ses_{number:04}"), "ses_r", "explore", "x")).summary()).collect();
    all.push(answered(Story::root("ses_r")).summary());
    let nodes = tree(&all, &SessionId::new("ses_r"), true, NOW);
    assert_eq!((nodes.len(), nodes[0].below, nodes[0].subtree.tokens()), (1_001, 1_000, 1_001_000));

    let one = Story::child("ses_a", "ses_b", "explore", "x").summary();
    let other = Story::child("ses_b", "ses_a", "explore", "x").summary();
    assert_eq!(tree(&[one, other], &SessionId::new("ses_a"), true, NOW).len(), 2);
}

#[test]
fn times_and_counts_are_as_exact_as_it_matters() {
    for (seconds, expected) in [(0.064, "0.06 s"), (3.21, "3.2 s"), (59.94, "59.9 s"), (60.0, "1 min"), (7_300.0, "2 h")] {
        assert_eq!(words::seconds(seconds), expected);
    }
    assert_eq!(
        (words::count(1, "call"), words::count(0, "call"), words::count(5, "agent")),
        ("1 call".into(), "0 calls".into(), "5 agents".into())
    );
}
