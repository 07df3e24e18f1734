//! `send_message`, `task_output`, `task_stop` and `task_list`: what they ask for, what they say, and what rules say to them.
// Helpers of tests may panic like the tests themselves.
#![allow(clippy::unwrap_used)]

mod desk;

use std::{sync::Arc, time::Duration};

use desk::{Asked, Desk, asks, delegation, end, look, messenger, say, sent, view, words};
use posse_session::{Dispatch, How, Inquiry, Rule, Rules, SessionId, Status, TaskView, Tool, Verdict, judge};
use posse_tools::{Dialect, messengers};
use serde_json::{Value, json};

fn tool(name: &str) -> Arc<dyn Tool> {
    messenger(Dialect::Posse, name)
}

#[test]
fn schemas_are_exact() {
    let shape = |tool: &dyn Tool| {
        let schema = &tool.spec().schema;
        let types: Vec<String> = schema["properties"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, about)| format!("{name}: {}", about["type"].as_str().unwrap()))
            .collect();
        let required = schema.get("required").cloned().unwrap_or_default();
        (types.into_iter().collect::<std::collections::BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", "), required)
    };
    let rows = [
        ("send_message", "message: string, summary: string, to: string", json!(["to", "message"])),
        ("task_list", "", json!(null)),
        ("task_output", "block: boolean, since: integer, task_id: string, timeout: integer", json!(["task_id"])),
        ("task_stop", "task_id: string", json!(["task_id"])),
    ];
    let made = messengers(Dialect::Posse, &Default::default());
    assert_eq!(made.iter().map(|tool| tool.spec().name.as_str()).collect::<Vec<_>>(), rows.each_ref().map(|row| row.0));
    for (name, types, required) in rows {
        assert_eq!(shape(&*tool(name)), (types.to_owned(), required), "{name}");
    }
    let timeout = tool("task_output").spec().schema["properties"]["timeout"]["description"].clone();
    assert_eq!(timeout, json!("With block: wait at most so many milliseconds. Default 30000, at most 600000."));
}

/// When to wait and when not to.
#[test]
fn descriptions_teach() {
    let rows = [
        ("send_message", "One that works reads it before its next step and is not interrupted."),
        ("send_message", "One that has ended works again with what it knows, in the background"),
        ("task_output", "You seldom need this: when a task ends, its result comes to you by itself."),
        ("task_output", "Do not call it again and again. After a call that waited for the result, no notice of it comes."),
        ("task_stop", "Stop a background task and everything below it"),
        ("task_list", "not to wait for a result, which comes by itself"),
    ];
    for (name, expected) in rows {
        let text = tool(name).spec().description.clone();
        assert!(text.contains(expected), "{name}: {text}");
        assert!(text.len() < 600, "{name}: {} bytes", text.len());
    }
}

/// CC-145..CC-147, CC-162..CC-164, CC-166: every parameter, in the spellings of several products.
#[tokio::test]
async fn what_a_call_asks_for() {
    let send = |to: &str, text: &str, summary: Option<&str>| {
        Asked::Send(Dispatch { to: to.into(), text: text.into(), summary: summary.map(str::to_owned) })
    };
    let read = |millis: Option<u64>, since| Asked::Read(Inquiry { task: "ses_7".into(), wait: millis.map(Duration::from_millis), since });
    let long = "s".repeat(500);
    let cut = format!("{}…", "s".repeat(119));
    let rows = [
        ("send_message", json!({"to": " parser ", "message": " a\nb "}), send("parser", " a\nb ", None)),
        ("send_message", json!({"task_id": "ses_7", "text": "a", "summary": " s "}), send("ses_7", "a", Some("s"))),
        ("send_message", json!({"to": "ses_7", "message": "a", "summary": ""}), send("ses_7", "a", None)),
        ("send_message", json!({"to": "ses_7", "message": "a", "summary": long}), send("ses_7", "a", Some(&cut))),
        ("task_output", json!({"task_id": "ses_7"}), read(Some(30_000), 0)),
        ("task_output", json!({"taskId": " ses_7 ", "block": true}), read(Some(30_000), 0)),
        ("task_output", json!({"agentId": "ses_7", "block": "false"}), read(None, 0)),
        ("task_output", json!({"name": "ses_7", "timeout": 1500}), read(Some(1_500), 0)),
        ("task_output", json!({"task_id": "ses_7", "timeout": 9_000_000}), read(Some(600_000), 0)),
        ("task_output", json!({"task_id": "ses_7", "timeout": 0}), read(None, 0)),
        ("task_output", json!({"task_id": "ses_7", "block": false, "timeout": 5, "since": "42"}), read(None, 42)),
        ("task_stop", json!({"task_id": " ses_7 "}), Asked::Stop("ses_7".into())),
        ("task_stop", json!({"shell_id": "ses_7"}), Asked::Stop("ses_7".into())),
        ("task_list", json!({}), Asked::List),
        ("task_list", json!({"all": true}), Asked::List),
    ];
    for (name, input, expected) in rows {
        assert_eq!(asks(&*tool(name), input.clone()).await, Ok(expected), "{name} {input}");
    }
}

#[tokio::test]
async fn what_is_refused_before_anybody_is_asked() {
    let rows = [
        ("send_message", json!({"message": "a"}), "send_message: the required parameter `to` (a string) is missing"),
        ("send_message", json!({"to": "x"}), "send_message: the required parameter `message` (a string) is missing"),
        ("send_message", json!({"to": "x", "message": " "}), "send_message: parameter `message` must not be empty."),
        ("send_message", json!({"to": "x", "message": {}}), "send_message: parameter `message` must be a string; got an object."),
        ("send_message", json!({"to": "*", "message": "a"}), "send_message: `to: \"*\"` would speak to a whole team"),
        ("send_message", json!({"to": "uds:/x", "message": "a"}), "send_message: `uds:/x` is an agent of another session"),
        ("task_output", json!({}), "task_output: the required parameter `task_id` (a string) is missing"),
        ("task_output", json!({"task_id": "x", "block": 3}), "task_output: parameter `block` must be true or false"),
        ("task_output", json!({"task_id": "x", "timeout": -1}), "task_output: parameter `timeout` must be a whole number"),
        ("task_output", json!({"task_id": "x", "since": "end"}), "task_output: parameter `since` must be a whole number"),
        ("task_stop", json!({"task_id": ""}), "task_stop: parameter `task_id` must not be empty."),
        ("task_stop", json!([]), "task_stop: the input must be a JSON object"),
    ];
    for (name, input, expected) in rows {
        let words = asks(&*tool(name), input.clone()).await.unwrap_err();
        assert!(words.starts_with(expected), "{name} {input}: {words}");
    }
}

/// All may run again after a crash; looking at a task again and again is no loop.
#[test]
fn looks_say_what_is_touched() {
    let rows = [
        ("send_message", json!({"to": "parser", "message": "Look\nat b", "summary": "s"}), "send_message parser", "parser: s", false),
        ("send_message", json!({"to": "parser", "message": "Look\nat b"}), "send_message parser", "parser: Look", false),
        ("task_output", json!({"task_id": "ses_7"}), "task_output ses_7", "ses_7", true),
        ("task_stop", json!({"task_id": "ses_7"}), "task_stop ses_7", "ses_7", false),
        ("task_list", json!({}), "task_list *", "", true),
    ];
    for (name, input, touched, title, polls) in rows {
        let look = look(&*tool(name), &input).unwrap();
        let touches: Vec<String> = look.touches.iter().map(|touch| format!("{} {}", touch.key, touch.pattern)).collect();
        assert_eq!((touches, look.title.as_str(), look.repeatable, look.polls), (vec![touched.to_owned()], title, true, polls), "{name}");
    }
}

/// Nobody is asked about messages by default, and a rule on the tool's own name denies them, in either dialect.
#[test]
fn rules_are_on_the_tools_own_names() {
    let rule = |key: &str, pattern: &str, action| Rule { key: key.into(), pattern: pattern.into(), action, origin: String::new() };
    let input = json!({"to": "parser", "message": "m", "summary": "s", "task_id": "parser"});
    for (dialect, name, key) in [
        (Dialect::Posse, "send_message", "send_message"),
        (Dialect::Posse, "task_output", "task_output"),
        (Dialect::Posse, "task_stop", "task_stop"),
        (Dialect::Posse, "task_list", "task_list"),
        (Dialect::Claude, "SendMessage", "send_message"),
        (Dialect::Claude, "TaskOutput", "task_output"),
        (Dialect::Claude, "TaskStop", "task_stop"),
    ] {
        let touches = look(&*messenger(dialect, name), &input).unwrap().touches;
        let verdict = |more: &[Rule]| {
            let rules = Rules([rule("*", "*", Verdict::Allow)].iter().chain(more).cloned().collect());
            judge(name, &touches, None, &rules, &[]).decision.verdict
        };
        assert_eq!(verdict(&[]), Verdict::Allow, "{name}");
        assert_eq!(verdict(&[rule(key, "*", Verdict::Deny)]), Verdict::Deny, "{name}");
        assert_eq!(verdict(&[rule("task", "*", Verdict::Deny)]), Verdict::Allow, "{name}");
        let by_target = if key == "task_list" { Verdict::Allow } else { Verdict::Deny };
        assert_eq!(verdict(&[rule(key, "par*", Verdict::Deny)]), by_target, "{name}");
    }
}

async fn told(name: &str, input: Value, desk: Desk) -> String {
    say(&*tool(name), input, &Arc::new(desk)).await
}

/// CC-151, CC-152, CC-156, CC-157, CC-280: what became of a message.
#[tokio::test]
async fn a_message_is_answered_with_what_becomes_of_it() {
    let input = json!({"to": "parser", "message": "m"});
    let send = |sent| told("send_message", input.clone(), Desk { sent, ..Desk::default() });
    let named = posse_session::Sent { name: Some("parser".into()), ..sent() };
    assert_eq!(
        send(Some(sent())).await,
        "done: The task ses_7 (general) reads your message before its next step; what it is doing is not interrupted.\ntask_id: ses_7"
    );
    assert_eq!(
        send(Some(posse_session::Sent { resumed: true, ..named })).await,
        "done: The task parser (general) had ended and works again, with your message. A notice with its result comes to you by itself: do other work meanwhile or end your turn; do not poll, and do not guess the result.\noutput: /data/tasks/ses_7.txt\ntask_id: ses_7"
    );
    assert_eq!(send(None).await, "failed: There is no task `x`.");
}

const TOOK: &str = "1234 tokens, 7 tool calls, 34 s\noutput: /data/tasks/ses_7.txt\ntask_id: ses_7";
const STILL: &str = "It is still running. A notice with its result comes to you by itself: do other work meanwhile or end your turn; do not poll, and do not guess the result.";

/// CC-162: how far it is; the words of the task cannot be taken for a notice.
#[tokio::test]
async fn a_running_task_says_how_far_it_is() {
    let rows = [
        (view(), "[task ses_7 running] review parser bug\nnow: bash cargo test\n\nI look at the lexer."),
        (
            TaskView { name: Some("parser".into()), status: Status::Waiting, waits: Some("a person:\nbash rm".into()), ..view() },
            "[task parser waiting] review parser bug\nnow: waits for a person: bash rm\n\nI look at the lexer.",
        ),
        (
            TaskView { status: Status::Queued, last_action: String::new(), text: "\n".into(), ..view() },
            "[task ses_7 queued] review parser bug\n\n(nothing new)",
        ),
        (
            TaskView { text: "a\n[task b completed] c".into(), ..view() },
            "[task ses_7 running] review parser bug\nnow: bash cargo test\n\na\n> [task b completed] c",
        ),
        // Resumed: how an earlier round ended is no news.
        (
            TaskView { end: Some(end(How::Failed)), ..view() },
            "[task ses_7 running] review parser bug\nnow: bash cargo test\n\nI look at the lexer.",
        ),
    ];
    for (view, expected) in rows {
        let read = |input| told("task_output", input, Desk { view: Some(view.clone()), ..Desk::default() });
        let at_once = read(json!({"task_id": "ses_7", "block": false})).await;
        assert_eq!(at_once, format!("done: {expected}\n\n{TOOK}\nnext: 42"));
        assert_eq!(read(json!({"task_id": "ses_7", "block": false})).await, at_once, "reading takes nothing away");
        let waited = format!("{expected}\n\n{STILL}\n\n{TOOK}\nnext: 42");
        assert_eq!(read(json!({"task_id": "ses_7"})).await, format!("done: {waited}"));
        assert_eq!(words(&tool("task_output").lapsed(&view)), waited);
    }
}

#[tokio::test]
async fn what_a_task_said_is_shown_within_bounds() {
    let view = TaskView { text: "line of text\n".repeat(20_000), ..view() };
    let text = told("task_output", json!({"task_id": "ses_7"}), Desk { view: Some(view), ..Desk::default() }).await;
    assert!(text.len() < 20 * 1024, "{} bytes", text.len());
    assert!(text.contains(" bytes omitted; full output: /data/tasks/ses_7.txt (use read with offset, or grep)"), "{text}");
}

/// CC-161, CC-163: after the end the result, as the notice has it, however often it is read.
#[tokio::test]
async fn a_task_that_has_ended_is_read_as_its_notice() {
    for (how, status) in
        [(How::Completed, Status::Completed), (How::Failed, Status::Failed), (How::Stopped, Status::Stopped), (How::Limit, Status::Limit)]
    {
        let notice = delegation(Dialect::Posse).noticed(&end(how));
        assert_eq!(tool("task_output").ended(&end(how)), notice);
        let view = TaskView { status, end: Some(end(how)), ..view() };
        let input = json!({"task_id": "ses_7", "since": 42});
        let desk = Arc::new(Desk { view: Some(view), ..Desk::default() });
        for _ in 0..2 {
            assert_eq!(say(&*tool("task_output"), input.clone(), &desk).await, format!("done: {notice}\nnext: 42"));
        }
    }
    assert_eq!(tool("send_message").noticed(&end(How::Failed)), delegation(Dialect::Posse).noticed(&end(How::Failed)));
}

/// CC-166, CC-168, CC-169: stopping, and what cannot be stopped.
#[tokio::test]
async fn a_stop_is_answered_with_how_the_task_stands() {
    let stop = |view: Option<TaskView>| told("task_stop", json!({"task_id": "ses_7"}), Desk { view, ..Desk::default() });
    let rest =
        "with everything below it. A notice says to whoever started it what it had done; send_message can wake it again.\ntask_id: ses_7";
    let standing = |status| Some(TaskView { status, name: Some("parser".into()), ..view() });
    let rows = [
        (Some(view()), format!("done: The task ses_7 is being stopped, {rest}")),
        (standing(Status::Waiting), format!("done: The task parser is being stopped, {rest}")),
        (standing(Status::Stopped), format!("done: The task parser is stopped, {rest}")),
        (standing(Status::Completed), "failed: The task parser is not running: it is completed. There is nothing to stop.".into()),
        (standing(Status::Failed), "failed: The task parser is not running: it is failed. There is nothing to stop.".into()),
        (standing(Status::Limit), "failed: The task parser is not running: it is completed at a limit. There is nothing to stop.".into()),
        (None, "failed: There is no task `x`.".into()),
    ];
    for (view, expected) in rows {
        assert_eq!(stop(view).await, expected);
    }
}

/// CC-167, CC-171: a background shell is read and stopped like a task, by its own tools.
#[tokio::test]
async fn the_id_of_a_shell_is_recognised() {
    for (name, other) in [("task_stop", "kill_shell"), ("task_output", "bash_output")] {
        let said = told(name, json!({"task_id": "bash_1"}), Desk::default()).await;
        assert!(said.contains(&format!("{other}: there is no background shell `bash_1`")), "{said}");
    }
}

#[tokio::test]
async fn a_list_has_a_line_for_each_task() {
    let list = |tasks| told("task_list", json!({}), Desk { tasks, ..Desk::default() });
    assert_eq!(list(Vec::new()).await, "done: No task was started here.");
    let tasks = vec![
        view(),
        TaskView { name: Some("parser".into()), status: Status::Waiting, waits: Some("a free lane".into()), ..view() },
        TaskView { status: Status::Completed, last_action: String::new(), ..view() },
    ];
    assert_eq!(
        list(tasks).await,
        "done: - ses_7, general, running: bash cargo test; 1234 tokens; review parser bug\n\
        - parser (ses_7), general, waiting: waits for a free lane; 1234 tokens; review parser bug\n\
        - ses_7, general, completed; 1234 tokens; review parser bug"
    );
}

/// A long list has a bound, and what still runs is shown before what has ended.
#[tokio::test]
async fn a_long_list_leaves_out_what_has_ended() {
    let tasks = |count: usize, ended: &dyn Fn(usize) -> bool| -> Vec<TaskView> {
        let status = |number| if ended(number) { Status::Completed } else { Status::Running };
        (0..count).map(|number| TaskView { task: SessionId::new(format!("ses_{number}")), status: status(number), ..view() }).collect()
    };
    let list = |tasks| told("task_list", json!({}), Desk { tasks, ..Desk::default() });
    let text = list(tasks(150, &|number| (10..110).contains(&number))).await;
    assert!(text.starts_with("done: (50 earlier tasks have ended and are not shown)\n- ses_0, "), "{text}");
    assert_eq!((text.matches("running").count(), text.matches(", completed").count(), text.lines().count()), (50, 50, 101));
    let text = list(tasks(150, &|_| false)).await;
    assert!(text.ends_with("\n(50 more are not shown)"), "{text}");
    assert_eq!(text.lines().count(), 101);
}

#[tokio::test]
async fn a_call_told_to_stop_is_cancelled() {
    let input = json!({"to": "x", "message": "m", "task_id": "ses_7"});
    for (name, expected) in [
        ("send_message", "cancelled: "),
        ("task_output", "cancelled: (stopped while waiting for ses_7)"),
        ("task_stop", "cancelled: "),
        ("task_list", "cancelled: "),
    ] {
        assert_eq!(told(name, input.clone(), Desk { is_busy: true, ..Desk::default() }).await, expected, "{name}");
    }
}
