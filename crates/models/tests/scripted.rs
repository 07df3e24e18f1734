//! The scripted model as other crates' tests use it.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic like tests")]

use std::{io::Write, sync::Mutex, time::Duration};

use posse_models::{LoadError, Scripted, ScriptedReply};
use posse_session::{
    Block, Finish, Head, Live, Message, Model, ModelError, ModelFailure, Progress, Reply, ReplyPart, Request, Role, SessionId, ToolChoice,
};
use serde_json::json;

#[derive(Default)]
struct Shown(Mutex<Vec<Progress>>);

impl Live for Shown {
    fn show(&self, progress: Progress) {
        self.0.lock().unwrap().push(progress);
    }
}

fn say(role: Role, text: &str) -> Message {
    Message { role, blocks: vec![Block::Text { text: text.into() }] }
}

/// A transcript with so many answers in it.
async fn ask(model: &Scripted, answers: usize) -> Result<Reply, ModelError> {
    let mut messages = vec![say(Role::User, "hi")];
    messages.extend((0..answers).flat_map(|_| [say(Role::Assistant, "a"), say(Role::User, "more")]));
    let request = Request {
        session: SessionId::new("ses_1"),
        lineage: SessionId::new("ses_1"),
        head: model.encode_head(&Head { system: vec!["s".into()], ..Head::default() }),
        messages: messages.iter().map(|message| model.encode(message)).collect(),
        tool_choice: ToolChoice::Auto,
        output_max: 1,
        idle_max: Duration::from_secs(1),
    };
    model.reply(request, &Shown::default()).await
}

#[tokio::test]
async fn the_answer_follows_from_the_position_so_a_second_attempt_hears_the_same() {
    let model = Scripted::new([ScriptedReply::call("bash", json!({ "command": "ls" })).using(3, 4), ScriptedReply::text("done")]);
    let first = ask(&model, 0).await.unwrap();
    assert_eq!(first.parts, [ReplyPart::Call { id: "call_0_0".into(), tool: "bash".into(), input: r#"{"command":"ls"}"#.into() }]);
    assert_eq!((first.finish, first.usage.tokens()), (Finish::Calls, 7));
    assert_eq!(ask(&model, 0).await.unwrap(), first);
    assert_eq!(ask(&model, 1).await.unwrap().parts, [ReplyPart::Text("done".into())]);
    assert_eq!(ask(&model, 2).await.unwrap_err().failure, ModelFailure::BadRequest);
    let seen: Vec<(usize, u32)> = model.seen().iter().map(|seen| (seen.position, seen.attempt)).collect();
    assert_eq!(seen, [(0, 0), (0, 1), (1, 0), (2, 0)]);
    assert_eq!((model.seen()[2].messages[0].clone(), model.seen()[2].head.system.clone()), (say(Role::User, "hi"), vec!["s".to_owned()]));
}

#[tokio::test]
async fn a_failure_can_pass() {
    let model = Scripted::new([ScriptedReply::text("at last").after_failures(ModelFailure::Server, "bang", 2)]);
    assert_eq!(ask(&model, 0).await.unwrap_err().words, "bang");
    assert_eq!(ask(&model, 0).await.unwrap_err().words, "bang");
    assert_eq!(ask(&model, 0).await.unwrap().parts, [ReplyPart::Text("at last".into())]);
}

#[tokio::test(start_paused = true)]
async fn a_function_can_answer_and_take_its_time() {
    let model = Scripted::with(|seen| ScriptedReply::text(format!("{} messages", seen.messages.len())).after(Duration::from_secs(60)));
    let begun = tokio::time::Instant::now();
    assert_eq!(ask(&model, 1).await.unwrap().parts, [ReplyPart::Text("3 messages".into())]);
    assert_eq!(begun.elapsed(), Duration::from_secs(60));
}

#[tokio::test]
async fn a_script_can_be_a_file() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let script = json!([
        { "reasoning": "hm", "text": "hello", "calls": [{ "tool": "x", "input": "{broken" }], "usage": { "input": 5 } },
        { "error": { "failure": "rate_limited", "words": "later", "retry_after_ms": 1500, "partial": "ha" } },
    ]);
    write!(file, "{script}").unwrap();
    let model = Scripted::load(file.path()).unwrap();
    let reply = ask(&model, 0).await.unwrap();
    assert_eq!(reply.parts[2], ReplyPart::Call { id: "call_0_0".into(), tool: "x".into(), input: "{broken".into() });
    let error = ask(&model, 1).await.unwrap_err();
    assert_eq!(
        (error.failure, error.retry_after, error.partial.as_str()),
        (ModelFailure::RateLimited, Some(Duration::from_millis(1500)), "ha")
    );
    assert!(matches!(Scripted::load("/nowhere.json".as_ref()), Err(LoadError::Unreadable { .. })));
    write!(file, "x").unwrap();
    assert!(matches!(Scripted::load(file.path()), Err(LoadError::Malformed { .. })));
}
