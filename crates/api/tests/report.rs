//! What a run came to and what a stream prints, where several sessions worked on it.

mod support;

use posse_api::{Lines, Report, RunStatus, Since, progress_line, report};
use posse_session::{Answer, AskId, By, CallId, Event, How, Outcome, Part, Record, SessionId, Status, Summary, Text, Timestamp};
use serde_json::{Value, json};
use support::{Story, usage};

fn root() -> Story {
    Story::root("ses_r")
        .says("msg_1", "go")
        .step(0, &["msg_1"], Vec::new())
        .replies(0, Vec::new(), 1)
        .calls("call_1", "agent", "layout", "{}")
        .delegates("call_1", "ses_a", "explore", Some("scout"))
        .hears("call_1", "ses_a", How::Limit, "half of it")
        .step(1, &[], Vec::new())
        .replies(1, vec![Part::text("done")], 0)
        .ends(How::Completed, "")
}

/// One call that a rule denies, one that nobody could answer for.
fn child() -> Story {
    let no = Answer::No { say: String::new() };
    Story::child("ses_a", "ses_r", "explore", "layout")
        .says("msg_2", "go")
        .step(0, &["msg_2"], Vec::new())
        .replies(0, vec![Part::text("half of it")], 2)
        .calls("call_2", "edit", "a.rs", "{}")
        .calls("call_3", "bash", "git push", "{}")
        .finishes("call_2", Outcome::denied("no edits"))
        .asks("ask_1", "call_3", "bash", "git push")
        .and(Event::Answered { ask: AskId::new("ask_1"), call: CallId::new("call_3"), answer: no, by: By::Policy })
        .finishes("call_3", Outcome::denied("nobody could be asked"))
        .ends(How::Limit, "too many steps")
}

fn whole() -> Report {
    let tree = [root().summary(), child().summary()];
    report(RunStatus::Done, None, &tree, &root().facts, Since::default())
}

#[test]
fn a_report_names_every_session_and_what_was_refused_in_any_of_them() {
    let mut found = whole();
    assert_eq!((found.denied.len(), found.unanswered), (0, 0));
    found.add_below(&child().summary(), &child().facts, 0);
    assert_eq!(found.unanswered, 1);
    let denied: Vec<_> = found.denied.iter().map(|denied| (denied.session.as_str(), denied.agent.as_str(), denied.tool.as_str())).collect();
    assert_eq!(denied, [("ses_a", "explore", "edit"), ("ses_a", "explore", "bash")]);

    let shown = serde_json::to_value(&found).unwrap();
    let tree: Vec<(&Value, &Value, &Value, &Value)> = shown["tree"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (&entry["session"], &entry["parent"], &entry["name"], &entry["status"]))
        .collect();
    assert_eq!(
        tree,
        [
            (&json!("ses_r"), &Value::Null, &Value::Null, &json!("completed")),
            (&json!("ses_a"), &json!("ses_r"), &json!("scout"), &json!("completed")),
        ],
        "a child's own limit is no failure"
    );
    assert!(!shown["tree"][0].as_object().unwrap().contains_key("name"));
    assert_eq!(shown["usage"]["input"], 3 * usage().input);
}

#[test]
fn what_was_refused_before_this_run_is_not_told_again() {
    let mut found = whole();
    found.add_below(&child().summary(), &child().facts, child().facts.len() as u64);
    assert_eq!((found.denied.len(), found.unanswered), (0, 0));
    let first = child().facts.iter().position(|record| matches!(record.event, Event::CallFinished { .. })).unwrap() as u64 + 1;
    found.add_below(&child().summary(), &child().facts, first);
    assert_eq!((found.denied.len(), found.unanswered), (1, 1), "a call that was open then counts");
}

#[test]
fn the_view_counts_refused_calls_so_that_only_few_logs_need_reading() {
    assert_eq!((child().summary().denied, root().summary().denied), (2, 0));
}

/// The lines of some facts without what is the same in all of them.
fn lines(events: Vec<Event>) -> Vec<Value> {
    let mut lines = Lines::new(SessionId::new("ses_r"));
    let record = |seq: usize, event| Record { seq: seq as u64, at: Timestamp(7), batch: posse_session::BatchId::new("evt_1"), event };
    events.into_iter().enumerate().map(|(seq, event)| lines.line(&record(seq + 1, event))).collect()
}

#[test]
fn tasks_have_their_lines_in_the_stream() {
    let story = Story::root("ses_r")
        .delegates("call_1", "ses_a", "explore", None)
        .and(Event::Detached { task: SessionId::new("ses_a") })
        .and(Event::TaskStopped { task: SessionId::new("ses_a"), by: By::User, hold: None });
    let found = lines(story.facts.iter().map(|record| record.event.clone()).collect());
    let told: Vec<(&Value, &Value, &Value, &Value)> =
        found.iter().map(|line| (&line["type"], &line["seq"], &line["task"], &line["status"])).collect();
    let task = json!("ses_a");
    assert_eq!(
        told,
        [
            (&json!("created"), &json!(1), &Value::Null, &Value::Null),
            (&json!("task_started"), &json!(2), &task, &Value::Null),
            (&json!("task_updated"), &json!(3), &task, &json!("background")),
            (&json!("task_updated"), &json!(4), &task, &json!("stopping")),
        ]
    );
    // CC-179: what is woken, awaited or left running by a call is told of too.
    let spawn: posse_session::Spawn = support::read(json!({"agent": "explore", "description": "x", "prompt": "y", "entry": "msg_1"}));
    let call = posse_session::CallId::new("call_2");
    let ended = |words: &str| Event::KeptEnded { call: call.clone(), words: words.into(), entry: None };
    for (event, kind, task, status) in [
        (Event::TaskResumed { task: SessionId::new("ses_a"), round: 2, spawn }, "task_updated", "ses_a", json!("resumed")),
        (Event::TaskAwaited { task: SessionId::new("ses_a"), call: call.clone(), until: None }, "task_updated", "ses_a", json!("awaited")),
        (Event::Kept { call: call.clone(), title: "make".into() }, "task_started", "call_2", Value::Null),
        (ended("[shell call_2 exited with code 0] make\n"), "task_notification", "call_2", json!("completed")),
        (ended("[shell call_2 exited with code 1] make\n"), "task_notification", "call_2", json!("failed")),
        (ended("[shell call_2 killed by signal 9] make\n"), "task_notification", "call_2", json!("stopped")),
        (ended("[shell lost] make\n"), "task_notification", "call_2", json!("failed")),
        (ended(""), "task_notification", "call_2", json!("completed")),
    ] {
        let line = lines(vec![event.clone()]);
        assert_eq!((&line[0]["type"], &line[0]["task"], &line[0]["status"]), (&json!(kind), &json!(task), &status), "{event:?}");
    }
    let killing = Story::root("ses_r").calls("call_3", "kill_shell", "", "{}").and(ended(""));
    assert_eq!(lines(killing.facts.into_iter().map(|record| record.event).collect())[2]["status"], "stopped");
    for (how, result, expected) in [
        (How::Completed, "found", "completed"),
        (How::Completed, "", "completed"),
        (How::Failed, "half", "failed"),
        (How::Stopped, "half", "stopped"),
        (How::Limit, "half", "completed"),
        (How::Limit, " ", "failed"),
    ] {
        let line = lines(Story::root("ses_r").hears("call_1", "ses_a", how, result).facts.into_iter().skip(1).map(|r| r.event).collect());
        assert_eq!((&line[0]["type"], &line[0]["status"]), (&json!("task_notification"), &json!(expected)), "{how:?} {result:?}");
        assert_eq!((&line[0]["session"], &line[0]["task"]), (&json!("ses_r"), &task));
    }
}

#[test]
fn progress_is_a_line_of_the_session_that_started_the_task() {
    let line = progress_line(&child().summary()).unwrap();
    let expected = json!({
        "type": "task_progress", "session": "ses_r", "task": "ses_a", "agent": "explore",
        "steps": 1, "calls": 2, "tokens": 1000, "last_action": "bash git push"
    });
    assert_eq!(line, expected);
    assert_eq!(progress_line(&root().summary()), None);
}

#[test]
fn definitions_and_rules_are_not_in_the_stream() {
    let mut story = Story::root("ses_r");
    if let Event::Created { recipe, above, .. } = &mut story.facts[0].event {
        recipe.definition = Text::from("a long definition");
        *above = Text::from("many rules");
    }
    let line = lines(vec![story.facts[0].event.clone()])[0].to_string();
    assert!(line.contains("\"agent\":\"build\"") && !line.contains("long definition") && !line.contains("many rules"), "{line}");
}

#[test]
fn a_view_knows_names_and_counts_of_tasks() {
    let story = |names: [&str; 3]| {
        let begun = Story::root("ses_r").delegates("call_1", "ses_a", "explore", Some(names[0]));
        begun.delegates("call_2", "ses_b", "explore", Some(names[1])).delegates("call_3", "ses_c", "explore", Some(names[2]))
    };
    let named = |summary: &Summary| summary.named.iter().map(|(name, task)| format!("{name} {task}")).collect::<Vec<_>>();
    assert_eq!(named(&story(["one", "two", "one"]).summary()), ["two ses_b", "one ses_c"], "the last of a name is meant");
    let summary = story(["a", "b", "c"]).hears("call_2", "ses_b", How::Completed, "ok").summary();
    assert_eq!((summary.open_tasks, summary.tasks_started, summary.status), (2, 3, Status::Queued));
}
