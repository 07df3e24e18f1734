//! The export in OpenCode's shape: the three messages of a subtask as the seed shows them, and every kind of part.

mod support;

use std::collections::HashMap;

use posse_api::{Setting, opencode};
use posse_session::{CallId, Entry, EntryId, Event, Finish, How, ModelFailure, Outcome, Part, Record, SessionId, Timestamp, To, Usage};
use serde_json::{Value, json};
use support::{BORN, Story, read};

const SETTING: Setting<'static> = Setting { version: "0.1.0", project: "/home/me/project" };

fn exported(story: &Story, children: &[&Story]) -> Value {
    let children: HashMap<SessionId, Vec<Record>> = children.iter().map(|child| (child.session.clone(), child.facts.clone())).collect();
    opencode(&story.summary(), &[], &story.facts, &children, SETTING)
}

/// The child of the seed's example: one call that worked, one that did not.
fn child() -> Story {
    Story::child("ses_child", "ses_r", "explore", "Explore codebase")
        .says("msg_child", "Find all test files")
        .step(0, &["msg_child"], Vec::new())
        .replies(0, Vec::new(), 2)
        .calls("call_g", "glob", "**/*.test.ts", "{}")
        .calls("call_r", "read", "missing.ts", "{}")
        .finishes("call_g", Outcome::done("15 files"))
        .finishes("call_r", Outcome::failed("not found"))
        .step(1, &[], Vec::new())
        .replies(1, vec![Part::text("I found 15 test files.")], 0)
        .ends(How::Completed, "")
}

/// The user ran a command that is a subtask: the kernel calls `task` in the name of its agent, then the primary goes on.
fn subtask(how: How, result: &str) -> Story {
    let subtask = json!({
        "type": "subtask", "agent": "explore", "description": "Explore codebase", "prompt": "Find all test files", "command": "/explore"
    });
    let typed = Entry::user(EntryId::new("msg_01USER"), "/explore test files");
    let expanded = json!({"type": "expanded", "entry": "msg_01USER", "parts": [subtask]});
    let input = r#"{"prompt":"Find all test files","description":"Explore codebase","subagent_type":"explore","command":"/explore"}"#;
    let said = vec![Part::Call { call: CallId::new("call_t") }];
    Story::root("ses_r")
        .and(Event::Queued { entry: typed })
        .and(read(expanded))
        .after(5)
        .step(0, &["msg_01USER"], Vec::new())
        .and(Event::Replied {
            step: 0,
            parts: said,
            calls: 1,
            usage: Usage::default(),
            finish: Finish::Calls,
            author: Some("explore".into()),
        })
        .calls("call_t", "task", "Explore codebase", input)
        .after(5)
        .starts("call_t")
        .delegates("call_t", "ses_child", "explore", None)
        .after(100)
        .hears("call_t", "ses_child", how, result)
        .step(1, &[], vec![Part::text("Summarize the task tool output above and continue with your task.")])
        .after(50)
        .replies(1, vec![Part::text("There are 15 test files.")], 0)
        .ends(How::Completed, "")
}

#[test]
fn a_subtask_is_exported_as_the_three_messages_of_the_seed() {
    let export = exported(&subtask(How::Completed, "I found 15 test files."), &[&child()]);
    let messages = export["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 4, "{export:#}");

    let user = json!({
        "info": {
            "id": "msg_01USER", "sessionID": "ses_r", "role": "user", "time": {"created": BORN}, "agent": "build",
            "model": {"providerID": "mock", "modelID": "m1"}
        },
        "parts": [{
            "id": messages[0]["parts"][0]["id"], "sessionID": "ses_r", "messageID": "msg_01USER", "type": "subtask",
            "agent": "explore", "description": "Explore codebase", "prompt": "Find all test files", "command": "/explore"
        }]
    });
    assert_eq!(messages[0], user);

    let id = &messages[1]["info"]["id"];
    let assistant = json!({
        "info": {
            "id": id, "sessionID": "ses_r", "role": "assistant", "parentID": "msg_01USER",
            "time": {"created": BORN + 5, "completed": BORN + 110}, "agent": "explore", "mode": "explore",
            "modelID": "m1", "providerID": "mock", "path": {"cwd": "/home/me/project", "root": "/home/me/project"},
            "cost": 0.0, "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}, "finish": "tool-calls"
        },
        "parts": [{
            "id": messages[1]["parts"][0]["id"], "sessionID": "ses_r", "messageID": id, "type": "tool", "callID": "call_t", "tool": "task",
            "state": {
                "status": "completed",
                "input": {"prompt": "Find all test files", "description": "Explore codebase", "subagent_type": "explore", "command": "/explore"},
                "output": "I found 15 test files.\n\n<task_metadata>\nsession_id: ses_child\ntask_id: ses_child\n</task_metadata>",
                "title": "Explore codebase",
                "metadata": {
                    "sessionId": "ses_child",
                    "summary": [
                        {"id": "call_g", "tool": "glob", "status": "completed", "title": "**/*.test.ts"},
                        {"id": "call_r", "tool": "read", "status": "error", "title": "missing.ts"}
                    ]
                },
                "time": {"start": BORN + 10, "end": BORN + 110}
            }
        }]
    });
    assert_eq!(messages[1], assistant);

    let id = &messages[2]["info"]["id"];
    let synthetic = json!({
        "info": {
            "id": id, "sessionID": "ses_r", "role": "user", "time": {"created": BORN + 110}, "agent": "build",
            "model": {"providerID": "mock", "modelID": "m1"}
        },
        "parts": [{
            "id": messages[2]["parts"][0]["id"], "sessionID": "ses_r", "messageID": id, "type": "text",
            "text": "Summarize the task tool output above and continue with your task.", "synthetic": true
        }]
    });
    assert_eq!(messages[2], synthetic);

    let primary = &messages[3];
    assert_eq!(
        (&primary["info"]["agent"], &primary["info"]["parentID"], &primary["info"]["finish"]),
        (&json!("build"), id, &json!("stop"))
    );
    let kinds: Vec<&str> = primary["parts"].as_array().unwrap().iter().map(|part| part["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["step-start", "text", "step-finish"]);
    assert_eq!(primary["info"]["cost"], 0.25);
}

#[test]
fn a_subtask_that_fails_is_an_error_with_the_child_it_was() {
    let export = exported(&subtask(How::Failed, "Tool execution failed: there is no agent `explorer`"), &[&child()]);
    let state = &export["messages"][1]["parts"][0]["state"];
    assert_eq!((&state["status"], &state["metadata"]["sessionId"]), (&json!("error"), &json!("ses_child")));
    assert_eq!(state["error"], "Tool execution failed: there is no agent `explorer`");
    assert_eq!(export["messages"].as_array().unwrap().len(), 4, "the loop goes on");
}

#[test]
fn ids_sort_as_it_happened_and_belong_together() {
    let export = exported(&subtask(How::Completed, "ok"), &[]);
    let messages = export["messages"].as_array().unwrap();
    let made: Vec<&str> = messages[1..].iter().map(|message| message["info"]["id"].as_str().unwrap()).collect();
    assert!(made.is_sorted() && made.iter().all(|id| id.starts_with("msg_") && id.len() == 30), "{made:?}");
    let parts: Vec<&str> =
        messages.iter().flat_map(|message| message["parts"].as_array().unwrap()).map(|part| part["id"].as_str().unwrap()).collect();
    assert!(parts.is_sorted_by(|a, b| a < b) && parts.iter().all(|id| id.starts_with("prt_") && id.len() == 30), "{parts:?}");
}

fn patch() -> Part {
    Part::Patch {
        path: "src/main.rs".into(),
        before: "aaa".into(),
        after: "bbb".into(),
        added: 3,
        removed: 1,
        change: "the whole file as it was".into(),
        mode: None,
    }
}

/// One turn with every kind of call and part.
fn varied() -> Story {
    let said = vec![
        Part::Reasoning { text: "let me think".into(), signature: Some("secret signature".into()) },
        Part::text("I will look."),
        Part::Call { call: CallId::new("call_1") },
        Part::Opaque { provider: "mock".into(), raw: "{}".into() },
    ];
    let done = Outcome::Done {
        output: "fn main".into(),
        title: "main.rs".into(),
        metadata: Some(json!({"lines": 1})),
        attachments: vec![Part::File { mime: "image/png".into(), name: "a.png".into(), data: Some("AAAA".into()) }, patch()],
    };
    let parts = vec![
        Part::text("look at @main.rs and ask @explore"),
        Part::File { mime: "text/plain".into(), name: "main.rs".into(), data: None },
        Part::Agent { name: "explore".into() },
    ];
    let entry = Entry { parts, ..Entry::user(EntryId::new("msg_01USER"), "") };
    let failed = |retry_at: Option<Timestamp>, failure, partial: &str| Event::StepFailed {
        step: 0,
        failure,
        error: "the server is busy".into(),
        retry_at,
        partial: partial.into(),
        usage: Usage::default(),
    };
    Story::root("ses_r")
        .and(Event::Queued { entry })
        .step(0, &["msg_01USER"], vec![Part::reminder("the date has changed")])
        .and(failed(Some(Timestamp(BORN + 1)), Some(ModelFailure::Overloaded), ""))
        .step(0, &[], Vec::new())
        .replies(0, said, 5)
        .calls("call_1", "read", "main.rs", r#"{"filePath":"main.rs"}"#)
        .calls("call_2", "bash", "rm", "{}")
        .calls("call_3", "bash", "sleep", "{}")
        .calls("call_4", "bash", "wait", "{}")
        .calls("call_5", "bash", "later", "not json")
        .starts("call_1")
        .finishes("call_1", done)
        .finishes("call_2", Outcome::denied("a rule denies it"))
        .starts("call_3")
        .finishes("call_3", Outcome::cancelled("half"))
        .starts("call_4")
        .and(failed(None, None, "I was about to"))
}

#[test]
fn every_part_and_every_state_has_its_shape() {
    let export = exported(&varied(), &[]);
    let messages = export["messages"].as_array().unwrap();
    let bare = |message: &Value| -> Vec<Value> {
        let mut parts = message["parts"].as_array().unwrap().clone();
        for part in &mut parts {
            let fields = part.as_object_mut().unwrap();
            ["id", "sessionID", "messageID"].iter().for_each(|key| drop(fields.shift_remove(*key).unwrap()));
        }
        parts
    };
    assert_eq!(
        bare(&messages[0]),
        [
            json!({"type": "text", "text": "look at @main.rs and ask @explore"}),
            json!({"type": "file", "mime": "text/plain", "filename": "main.rs", "url": "file://main.rs"}),
            json!({"type": "agent", "name": "explore"}),
            json!({"type": "text", "text": "the date has changed", "synthetic": true}),
        ]
    );
    let tool = |call: &str, tool: &str, state: Value| json!({"type": "tool", "callID": call, "tool": tool, "state": state});
    let time = json!({"start": BORN, "end": BORN});
    let tokens = json!({"input": 900, "output": 100, "reasoning": 0, "cache": {"read": 0, "write": 0}});
    let busy = json!({"name": "APIError", "data": {"message": "the server is busy", "isRetryable": true}});
    assert_eq!(
        bare(&messages[1]),
        [
            json!({"type": "retry", "attempt": 1, "error": busy, "time": {"created": BORN}}),
            json!({"type": "step-start"}),
            json!({"type": "reasoning", "text": "let me think", "time": time}),
            json!({"type": "text", "text": "I will look.", "time": time}),
            tool(
                "call_1",
                "read",
                json!({"status": "completed", "input": {"filePath": "main.rs"}, "output": "fn main", "title": "main.rs",
                       "metadata": {"lines": 1}, "time": time,
                       "attachments": [{"type": "file", "mime": "image/png", "filename": "a.png", "url": "data:image/png;base64,AAAA"}]})
            ),
            tool("call_2", "bash", json!({"status": "error", "input": {}, "error": "a rule denies it", "time": time})),
            tool("call_3", "bash", json!({"status": "error", "input": {}, "error": "cancelled\nhalf", "time": time})),
            tool("call_4", "bash", json!({"status": "running", "input": {}, "title": "wait", "time": {"start": BORN}})),
            tool("call_5", "bash", json!({"status": "pending", "input": {"raw": "not json"}, "raw": "not json"})),
            json!({"type": "patch", "hash": "bbb", "files": ["src/main.rs"]}),
            json!({"type": "step-finish", "reason": "tool-calls", "cost": 0.25, "tokens": tokens}),
        ]
    );
    assert_eq!(messages[2]["info"]["error"], json!({"name": "MessageAbortedError", "data": {"message": "the server is busy"}}));
    assert_eq!(bare(&messages[2]), [json!({"type": "text", "text": "I was about to"})]);

    assert_eq!(export["info"]["summary"], json!({"additions": 3, "deletions": 1, "files": 1}));
    assert_eq!(export["info"]["model"], json!({"id": "m1", "providerID": "mock"}));
    let text = export.to_string();
    assert!(!text.contains("secret signature") && !text.contains("the whole file as it was"), "{text}");
}

#[test]
fn a_turn_of_another_agent_an_answer_in_its_name_and_calls_of_a_command() {
    let expanded = json!({
        "type": "expanded", "entry": "msg_01B", "agent": "plan", "model": "other/m2", "parts": [{"type": "text", "text": "the template"}]
    });
    let kernel = |parts, calls, author: &str| Event::Replied {
        step: 1,
        parts,
        calls,
        usage: Usage::default(),
        finish: Finish::Stop,
        author: Some(author.into()),
    };
    let story = Story::root("ses_r")
        .says("msg_01A", "one")
        .step(0, &["msg_01A"], Vec::new())
        .replies(0, vec![Part::text("first")], 0)
        .says("msg_01B", "/command")
        .and(read(json!({"type": "expanding", "entry": "msg_01B", "calls": 1})))
        .calls("call_e", "bash", "git log", "{}")
        .finishes("call_e", Outcome::done("a log"))
        .and(read(expanded))
        .step(1, &["msg_01B"], Vec::new())
        .replies(1, vec![Part::Call { call: CallId::new("call_1") }], 1)
        .calls("call_1", "read", "a", "{}")
        .finishes("call_1", Outcome::done("a"))
        .step(2, &[], Vec::new())
        .replies(2, vec![Part::text("second")], 0)
        .says("msg_01C", "three")
        .step(3, &["msg_01C"], Vec::new())
        .and(kernel(vec![Part::Call { call: CallId::new("call_2") }], 1, "explore"))
        .calls("call_2", "agent", "x", "{}")
        .step(4, &[], Vec::new())
        .and(kernel(vec![Part::text("its own answer")], 0, ""));
    let export = exported(&story, &[]);
    let messages = export["messages"].as_array().unwrap();
    let told: Vec<(&str, &str, Vec<&str>)> = messages
        .iter()
        .map(|message| {
            let model = message["info"]["modelID"].as_str().or(message["info"]["model"]["modelID"].as_str()).unwrap();
            let kinds = message["parts"].as_array().unwrap().iter().map(|part| part["type"].as_str().unwrap()).collect();
            (message["info"]["agent"].as_str().unwrap(), model, kinds)
        })
        .collect();
    assert_eq!(
        told,
        [
            ("build", "m1", vec!["text"]),
            ("build", "m1", vec!["step-start", "text", "step-finish"]),
            ("plan", "m2", vec!["text"]),
            ("plan", "m2", vec!["step-start", "tool", "step-finish"]),
            ("plan", "m2", vec!["step-start", "text", "step-finish"]),
            ("build", "m1", vec!["text"]),
            ("explore", "m1", vec!["tool"]),
            ("explore", "m1", vec!["text"]),
        ]
    );
    assert_eq!(messages[2]["parts"][0]["text"], "the template");
    assert_eq!(story.summary().steps, 3, "what the kernel says is no call of a model");
}

#[test]
fn compaction_notices_and_what_was_taken_back() {
    let to = To::Queue { entry: EntryId::new("msg_02NOTICE"), worded: false };
    let ended = Event::TaskEnded {
        task: SessionId::new("ses_child"),
        round: 1,
        how: How::Completed,
        result: "the build is green".into(),
        usage: Usage::default(),
        to,
        effort: Default::default(),
    };
    let story = Story::root("ses_r")
        .says("msg_01A", "one")
        .step(0, &["msg_01A"], Vec::new())
        .replies(0, vec![Part::text("first")], 0)
        .and(Event::Compacted { summary: "what was done".into(), tail_from: 0, verbatim: Default::default() })
        .and(ended)
        .step(1, &["msg_02NOTICE"], Vec::new())
        .replies(1, vec![Part::text("second")], 0);
    let before = story.facts.len() as u64;
    let story = story.says("msg_03C", "three").step(2, &["msg_03C"], Vec::new()).and(Event::Reverted { to: before });
    let export = exported(&story, &[]);
    let told: Vec<(Value, Value, Value)> = export["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| {
            let part = message["parts"].as_array().unwrap().iter().find(|part| part["type"] != "step-start").unwrap();
            (message["info"]["role"].clone(), part["type"].clone(), part["text"].clone())
        })
        .collect();
    let row = |role: &str, kind: &str, text: Option<&str>| (json!(role), json!(kind), json!(text));
    assert_eq!(
        told,
        [
            row("user", "text", Some("one")),
            row("assistant", "text", Some("first")),
            row("user", "compaction", None),
            row("assistant", "text", Some("what was done")),
            row("user", "text", Some("the build is green")),
            row("assistant", "text", Some("second")),
        ]
    );
    assert_eq!(export["messages"][3]["info"]["summary"], true);
    let id = |place: usize| export["messages"][place]["info"]["id"].as_str().unwrap();
    assert!(id(1) < id(2) && id(2) < id(3), "one fact makes two messages: {} {} {}", id(1), id(2), id(3));
    assert_eq!(export["messages"][4]["parts"][0]["synthetic"], true);
}

#[test]
fn a_child_names_its_parent_and_a_running_task_its_child() {
    let export = exported(&child(), &[]);
    assert_eq!((&export["info"]["parentID"], &export["info"]["title"]), (&json!("ses_r"), &json!("Explore codebase (@explore subagent)")));
    let running = Story::root("ses_r")
        .says("msg_1", "go")
        .step(0, &["msg_1"], Vec::new())
        .replies(0, vec![Part::Call { call: CallId::new("call_t") }], 1)
        .calls("call_t", "agent", "x", "{}")
        .delegates("call_t", "ses_child", "explore", None);
    let state = exported(&running, &[&child()])["messages"][1]["parts"][1]["state"].clone();
    assert_eq!((&state["status"], &state["metadata"]["sessionId"]), (&json!("running"), &json!("ses_child")));
    assert_eq!(state["metadata"]["summary"].as_array().unwrap().len(), 2);
}
