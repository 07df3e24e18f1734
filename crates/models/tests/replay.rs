//! Recordings: what is written while a model is asked, and what is played back without it.
#![allow(clippy::unwrap_used)]

use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use posse_models::{RecordError, RecordSetup, Recorder, Replay, ReplayError, ReplaySetup, Scripted, ScriptedReply, Seen};
use posse_session::{
    Block, BoxFuture, EntryId, Finish, Head, Hearing, Hears, Live, Message, Model, ModelError, ModelFacts, ModelFailure, Progress, Reply,
    ReplyPart, Request, Role, SessionId, ToolChoice, Usage,
};
use serde_json::{Value, json};

const OLD: &str = "ses_01JDAAAAAAAAAAAAAAAAAAAAAA";
const NEW: &str = "ses_01JEBBBBBBBBBBBBBBBBBBBBBB";

#[derive(Default)]
struct Shown(Mutex<Vec<Progress>>);

impl Live for Shown {
    fn show(&self, progress: Progress) {
        self.0.lock().unwrap().push(progress);
    }
}

fn setup(cwd: &str) -> RecordSetup {
    RecordSetup {
        version: "0".into(),
        places: vec![("cwd".into(), cwd.into())],
        secrets: vec!["sk-secret-1".into()],
        base_urls: Vec::new(),
    }
}

fn replay(path: &Path, cwd: &str) -> Result<Arc<Replay>, ReplayError> {
    Replay::open(path, ReplaySetup { places: vec![("cwd".into(), cwd.into())], loose: false, is_noise: |_| false })
}

fn loosely(path: &Path) -> Arc<Replay> {
    Replay::open(path, ReplaySetup { places: Vec::new(), loose: true, is_noise: |_| false }).unwrap()
}

fn user(text: &str) -> Message {
    Message { role: Role::User, blocks: vec![Block::Text { text: text.into() }] }
}

fn answered(text: &str) -> Message {
    Message { role: Role::Assistant, blocks: vec![Block::Text { text: text.into() }] }
}

fn request(model: &dyn Model, session: &str, messages: &[Message]) -> Request {
    Request {
        session: SessionId::new(session),
        lineage: SessionId::new(session),
        head: model.encode_head(&Head { system: vec!["Be brief".into()], ..Head::default() }),
        messages: messages.iter().map(|message| model.encode(message)).collect(),
        tool_choice: ToolChoice::Auto,
        output_max: 100,
        idle_max: Duration::from_secs(1),
    }
}

async fn ask(model: &dyn Model, session: &str, messages: &[Message]) -> Result<Reply, ModelError> {
    model.reply(request(model, session, messages), &Shown::default()).await
}

fn text(answer: Result<Reply, ModelError>) -> String {
    answer.unwrap().parts.into_iter().map(|part| if let ReplyPart::Text(text) = part { text } else { String::new() }).collect()
}

fn file(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("run.jsonl")
}

/// A conversation of so many steps, recorded from a model that counts.
async fn recorded(path: &Path, session: &str, prompt: &str, steps: usize) {
    let recorder = Recorder::open(path, &setup("/old")).unwrap();
    let model = recorder.wrap(Arc::new(Scripted::with(|seen: &Seen| ScriptedReply::text(format!("answer {}", seen.position)).using(7, 2))));
    let mut messages = vec![user(prompt)];
    for step in 0..steps {
        assert_eq!(text(ask(&*model, session, &messages).await), format!("answer {step}"));
        messages.extend([answered(&format!("answer {step}")), user("more")]);
    }
    assert_eq!(recorder.problem(), None);
}

fn lines(path: &Path) -> Vec<Value> {
    std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn a_recording_says_every_message_once_and_only_its_owner_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    recorded(&path, OLD, "key sk-secret-1 in it", 3).await;
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let lines = lines(&path);
    let kinds: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    let expected = ["posse_recording", "model", "head", "message", "exchange", "message", "message", "exchange", "message", "exchange"];
    assert_eq!(kinds, expected, "{lines:#?}");
    assert_eq!(lines[3]["message"]["blocks"][0]["text"], "key (hidden) in it");
    let last = &lines[9];
    // The second "more" is a message that is known.
    assert_eq!((&last["follows"], last["messages"].as_array().unwrap().len()), (&lines[7]["number"], 2));
    assert_eq!(
        (&last["reply"]["usage"]["input"], &last["session"], &last["live"]),
        (&json!(7), &json!(OLD), &json!([{"text": "answer 2"}]))
    );
}

#[tokio::test]
async fn it_is_played_in_another_folder_with_other_ids() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let script = |_: &Seen| ScriptedReply::text(format!("see /old/a and {OLD}")).and_call("read", json!({"path": "/old/b", "to": OLD}));
    let model = Recorder::open(&path, &setup("/old")).unwrap().wrap(Arc::new(Scripted::with(script)));
    let prompt = |cwd: &str, id: &str| [user(&format!("look at {cwd}/x on 2026-11-16 for {id}"))];
    ask(&*model, OLD, &prompt("/old", OLD)).await.unwrap();
    let played = replay(&path, "/new").unwrap();
    assert_eq!((played.lead(), played.resolve("scripted/script")), (Some("scripted/script"), Some("scripted/script")));
    let model = played.model("scripted/script").unwrap();
    let messages = [user(&format!("look at /new/x on 2027-01-02 for {NEW}"))];
    let shown = Shown::default();
    let answer = model.reply(request(&*model, NEW, &messages), &shown).await.unwrap();
    assert_eq!(answer.parts[0], ReplyPart::Text(format!("see /new/a and {NEW}")));
    let ReplyPart::Call { input, .. } = &answer.parts[1] else { panic!("{answer:?}") };
    assert_eq!(serde_json::from_str::<Value>(input).unwrap(), json!({"path": "/new/b", "to": NEW}));
    let expected = [Progress::Begun, Progress::Text(format!("see /new/a and {NEW}")), Progress::CallNamed { tool: "read".into() }];
    assert_eq!(*shown.0.lock().unwrap(), expected);
    assert!(played.notes().is_empty());
}

#[tokio::test]
async fn what_differs_is_shown_and_later_differences_come_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    recorded(&path, OLD, "go", 2).await;
    let played = replay(&path, "/new").unwrap();
    let model = played.model("scripted/script").unwrap();
    assert_eq!(text(ask(&*model, NEW, &[user("go")]).await), "answer 0");
    let error = ask(&*model, NEW, &[user("go"), answered("answer 0"), user("something else")]).await.unwrap_err();
    assert_eq!(error.failure, ModelFailure::NeedsModel);
    for part in ["step 2", "begins with `go`", "message 3", "`user: more`", "`user: something else`", "--loose"] {
        assert!(error.words.contains(part), "{part}: {}", error.words);
    }
    assert_eq!(ask(&*model, "ses_x", &[user("other")]).await.unwrap_err().words, error.words);
    let model = loosely(&path);
    let loose = model.model("scripted/script").unwrap();
    assert_eq!(text(ask(&*loose, NEW, &[user("go")]).await), "answer 0");
    assert_eq!(text(ask(&*loose, NEW, &[user("go"), answered("answer 0"), user("something else")]).await), "answer 1");
    assert!(model.notes()[0].contains("something else"), "{:?}", model.notes());
}

#[tokio::test]
async fn each_exchange_answers_once_and_failures_fail_again_without_the_wait() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let failing = Scripted::with(|_: &Seen| {
        let mut reply = ScriptedReply::text("at last").after_failures(ModelFailure::RateLimited, "slow down", 1);
        reply.error.as_mut().unwrap().retry_after_ms = Some(60_000);
        reply
    });
    let model = Recorder::open(&path, &setup("/old")).unwrap().wrap(Arc::new(failing));
    assert_eq!(ask(&*model, OLD, &[user("go")]).await.unwrap_err().retry_after, Some(Duration::from_secs(60)));
    assert_eq!(text(ask(&*model, OLD, &[user("go")]).await), "at last");
    let played = replay(&path, "/old").unwrap();
    let model = played.model("scripted/script").unwrap();
    let error = ask(&*model, NEW, &[user("go")]).await.unwrap_err();
    assert_eq!((error.failure, error.words.as_str(), error.retry_after), (ModelFailure::RateLimited, "slow down", Some(Duration::ZERO)));
    assert_eq!(played.notes().len(), 1, "{:?}", played.notes());
    assert_eq!(text(ask(&*model, NEW, &[user("go")]).await), "at last");
    assert!(played.notes().is_empty());
    let error = ask(&*model, NEW, &[user("go")]).await.unwrap_err();
    assert!(error.words.contains("2 times") && error.words.contains("once more"), "{}", error.words);
}

#[tokio::test(start_paused = true)]
async fn answers_come_in_the_recorded_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let slow = |seen: &Seen| {
        let Block::Text { text } = &seen.messages[0].blocks[0] else { panic!() };
        ScriptedReply::text(text.clone()).after(Duration::from_secs(if text == "slow" { 2 } else { 1 }))
    };
    let model = Recorder::open(&path, &setup("/old")).unwrap().wrap(Arc::new(Scripted::with(slow)));
    let (slow, quick) = ([user("slow")], [user("quick")]);
    let (_, _) = tokio::join!(ask(&*model, "ses_1", &slow), ask(&*model, "ses_2", &quick));
    let played = replay(&path, "/old").unwrap();
    let model = played.model("scripted/script").unwrap();
    let order = Mutex::new(Vec::new());
    let told = |name: &'static str, messages: [Message; 1]| {
        let (model, order) = (&model, &order);
        async move {
            ask(&**model, name, &messages).await.unwrap();
            order.lock().unwrap().push(name);
        }
    };
    tokio::join!(told("slow", [user("slow")]), async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        told("quick", [user("quick")]).await;
    });
    assert_eq!(*order.lock().unwrap(), ["quick", "slow"]);
}

/// Who is asked only when another's answer has begun is asked, though that one waits for its turn to end.
#[tokio::test(start_paused = true)]
async fn an_answer_has_begun_before_its_turn_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let script = |seen: &Seen| {
        let Block::Text { text } = &seen.messages[0].blocks[0] else { panic!() };
        ScriptedReply::text(text.clone()).after(Duration::from_secs(if text == "slow" { 2 } else { 1 }))
    };
    let model = Recorder::open(&path, &setup("/old")).unwrap().wrap(Arc::new(Scripted::with(script)));
    let (slow, quick) = ([user("slow")], [user("quick")]);
    let (_, _) = tokio::join!(ask(&*model, "ses_1", &slow), ask(&*model, "ses_2", &quick));
    let model = replay(&path, "/old").unwrap().model("scripted/script").unwrap();
    let (shown, began) = (Shown::default(), tokio::time::Instant::now());
    let (one, two) = tokio::join!(model.reply(request(&*model, "ses_1", &slow), &shown), async {
        while shown.0.lock().unwrap().is_empty() && began.elapsed() < Duration::from_secs(60) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        ask(&*model, "ses_2", &quick).await
    });
    assert_eq!((text(one).as_str(), text(two).as_str()), ("slow", "quick"));
    assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_request_that_nobody_waited_for_is_kept_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let never = Scripted::with(|_: &Seen| ScriptedReply::text("late").after(Duration::from_secs(3_600)));
    let model = Recorder::open(&path, &setup("/old")).unwrap().wrap(Arc::new(never));
    assert!(tokio::time::timeout(Duration::from_millis(10), ask(&*model, OLD, &[user("go")])).await.is_err());
    assert_eq!(lines(&path).last().unwrap()["dropped"], json!({}));
    tokio::time::pause();
    let model = replay(&path, "/old").unwrap().model("scripted/script").unwrap();
    assert_eq!(ask(&*model, OLD, &[user("go")]).await.unwrap_err().failure, ModelFailure::Deadline);
}

#[tokio::test]
async fn a_cut_recording_plays_up_to_the_cut_and_can_be_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    recorded(&path, OLD, "go", 2).await;
    let whole = std::fs::read(&path).unwrap();
    let messages = [user("go"), answered("answer 0"), user("more")];
    let two_exchanges = |bytes: &[u8]| String::from_utf8_lossy(bytes).matches("\"type\":\"exchange\"").count() == 2;
    for cut in [1, 40, 300] {
        std::fs::write(&path, &whole[..whole.len() - cut]).unwrap();
        let model = replay(&path, "/old").unwrap().model("scripted/script").unwrap();
        assert_eq!(text(ask(&*model, NEW, &messages[..1]).await), "answer 0");
        let second = ask(&*model, NEW, &messages).await;
        if cut == 1 {
            // Only the end of the line is missing: the line is whole.
            assert_eq!(text(second), "answer 1");
        } else {
            let words = second.unwrap_err().words;
            assert!(words.contains("ends before this, after 1 exchange"), "{words}");
        }
    }
    // Another process goes on with the file.
    recorded(&path, NEW, "second", 1).await;
    let played = replay(&path, "/old").unwrap();
    let model = played.model("scripted/script").unwrap();
    assert_eq!(text(ask(&*model, "ses_a", &[user("second")]).await), "answer 0");
    assert_eq!(text(ask(&*model, "ses_b", &[user("go")]).await), "answer 0");
    assert!(two_exchanges(&whole));
}

#[tokio::test]
async fn every_cut_of_a_recording_is_read_or_refused_and_never_misread() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    recorded(&path, OLD, "go", 2).await;
    let whole = std::fs::read(&path).unwrap();
    let first_line = whole.iter().position(|byte| *byte == b'\n').unwrap();
    for cut in 0..whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        match replay(&path, "/old") {
            Ok(played) => assert!(first_line <= cut && played.models().count() <= 1),
            Err(ReplayError::NoRecording { .. }) => assert!(cut < first_line, "{cut}"),
            Err(error) => panic!("{cut}: {error}"),
        }
    }
}

#[tokio::test]
async fn no_other_file_is_overwritten_or_played() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    std::fs::write(&path, "my notes\n").unwrap();
    assert!(matches!(Recorder::open(&path, &setup("/old")), Err(RecordError::Taken { .. })));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "my notes\n");
    assert!(matches!(replay(&path, "/old"), Err(ReplayError::NoRecording { .. })));
    let table = [
        (json!({"session": "ses_1", "seq": 1, "event": {"type": "created"}}).to_string(), "posse sessions import"),
        ("{\n  \"info\": {},\n  \"messages\": []\n}\n".to_owned(), "exported for OpenCode"),
        (json!({"type": "posse_recording", "format": 99, "posse": "9"}).to_string(), "update posse"),
        (format!("{}\nnonsense\n{}\n", json!({"type": "posse_recording", "format": 1, "posse": "0"}), json!({"type": "later"})), "line 2"),
    ];
    for (content, expected) in table {
        std::fs::write(&path, content).unwrap();
        let words = replay(&path, "/old").map(|_| ()).unwrap_err().to_string();
        assert!(words.contains(expected), "{words}");
    }
    std::fs::remove_file(&path).unwrap();
    let held = Recorder::open(&path, &setup("/old")).unwrap();
    assert!(matches!(Recorder::open(&path, &setup("/old")), Err(RecordError::Busy { .. })));
    drop(held);
    assert!(Recorder::open(&path, &setup("/old")).is_ok());
}

/// A model that shows these pieces and then says them as one text.
struct Dripping {
    script: Scripted,
    pieces: Vec<Progress>,
}

impl Dripping {
    fn of(pieces: impl IntoIterator<Item = Progress>) -> Arc<Self> {
        Arc::new(Self { script: Scripted::new(["unused"]), pieces: pieces.into_iter().collect() })
    }
}

impl Model for Dripping {
    fn facts(&self) -> &ModelFacts {
        self.script.facts()
    }

    fn encode_head(&self, head: &Head) -> Arc<[u8]> {
        self.script.encode_head(head)
    }

    fn encode(&self, message: &Message) -> Arc<[u8]> {
        self.script.encode(message)
    }

    fn reply<'a>(&'a self, _: Request, live: &'a dyn Live) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(async move {
            let mut said = String::new();
            for piece in &self.pieces {
                if let Progress::Text(text) = piece {
                    said.push_str(text);
                }
                live.show(piece.clone());
            }
            Ok(Reply { parts: vec![ReplyPart::Text(said)], usage: Usage::default(), finish: Finish::Stop })
        })
    }
}

fn hiding<const N: usize>(secrets: [&str; N]) -> RecordSetup {
    RecordSetup { secrets: secrets.map(str::to_owned).to_vec(), ..setup("/old") }
}

/// A user may have written anything where a server wants no key.
#[tokio::test]
async fn a_secret_is_struck_out_of_what_was_said_and_out_of_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let setup = hiding(["ollama", "assistant", "scripted/script", "posse_recording"]);
    let model = Recorder::open(&path, &setup).unwrap().wrap(Arc::new(Scripted::new(["unused", "the assistant says ollama"])));
    let messages = [user("ask the assistant"), answered("ollama"), user("go")];
    ask(&*model, OLD, &messages).await.unwrap();
    let lines = lines(&path);
    let of = |kind: &str| lines.iter().filter(|line| line["type"] == kind).collect::<Vec<_>>();
    assert_eq!(of("posse_recording").len(), 1);
    assert_eq!(of("model")[0]["facts"]["name"], "scripted/script");
    let said = of("message");
    assert_eq!((&said[0]["message"]["blocks"][0]["text"], &said[1]["message"]["role"]), (&json!("ask the (hidden)"), &json!("assistant")));
    assert_eq!(said[1]["message"]["blocks"][0]["text"], "ollama", "too short to be a key");
    let exchange = of("exchange")[0];
    assert_eq!((&exchange["model"], &exchange["live"]), (&json!("scripted/script"), &json!([{"text": "the (hidden) says ollama"}])));
    let model = replay(&path, "/old").unwrap().model("scripted/script").unwrap();
    let messages = [user("ask the (hidden)"), answered("ollama"), user("go")];
    assert_eq!(text(ask(&*model, NEW, &messages).await), "the (hidden) says ollama");
}

#[tokio::test]
async fn a_key_that_comes_in_pieces_is_hidden_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let shown = |text: &str| Progress::Text(text.into());
    let thought = |text: &str| Progress::Reasoning(text.into());
    let pieces = [
        shown("é sk-"),
        thought("sk-sec"),
        shown("secr"),
        thought("ret-"),
        shown("et-1 and"),
        thought("1"),
        shown(" sk-"),
        shown("secret"),
    ];
    let model = Recorder::open(&path, &hiding(["sk-secret-1"])).unwrap().wrap(Dripping::of(pieces));
    ask(&*model, OLD, &[user("go")]).await.unwrap();
    let exchange = lines(&path).pop().unwrap();
    assert_eq!(
        exchange["live"],
        json!([{"text": "é (hidden)"}, {"reasoning": "(hidden)"}, {"text": " and"}, {"text": " sk-"}, {"text": "secret"}])
    );
    assert_eq!(exchange["reply"]["parts"][0]["text"], "é (hidden) and sk-secret");
}

#[tokio::test]
async fn a_secret_may_hold_any_sign_and_stand_inside_a_call() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let script = |_: &Seen| ScriptedReply::call("login", json!({"password": "\"quoted\\key\""}));
    let model = Recorder::open(&path, &hiding(["\"quoted\\key\""])).unwrap().wrap(Arc::new(Scripted::with(script)));
    ask(&*model, OLD, &[user("it is \"quoted\\key\" here")]).await.unwrap();
    let lines = lines(&path);
    assert_eq!(lines[3]["message"]["blocks"][0]["text"], "it is (hidden) here");
    let input = lines.last().unwrap()["reply"]["parts"][0]["input"].as_str().unwrap().to_owned();
    assert_eq!(serde_json::from_str::<Value>(&input).unwrap(), json!({"password": "(hidden)"}));
}

/// Many times what any model says; a server gone wrong must not fill the memory of whoever records it.
#[tokio::test]
async fn what_was_shown_is_kept_up_to_a_bound() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let pieces = std::iter::repeat_n(Progress::Reasoning("x".repeat(1024 * 1024)), 40);
    let model = Recorder::open(&path, &setup("/old")).unwrap().wrap(Dripping::of(pieces));
    ask(&*model, OLD, &[user("go")]).await.unwrap();
    let kept = lines(&path).pop().unwrap()["live"].as_array().unwrap().len();
    assert!((8..20).contains(&kept), "{kept} pieces of a megabyte");
}

#[tokio::test]
async fn a_recording_that_others_could_read_is_closed_to_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    recorded(&path, OLD, "go", 1).await;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    recorded(&path, OLD, "go on", 1).await;
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let other = folder.path().join("notes");
    std::fs::write(&other, "mine\n").unwrap();
    std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(Recorder::open(&other, &setup("/old")).is_err());
    assert_eq!(std::fs::metadata(&other).unwrap().permissions().mode() & 0o777, 0o644, "what is no recording stays as it is");
}

#[tokio::test]
async fn absurd_numbers_in_a_recording_are_played_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    recorded(&path, OLD, "go", 2).await;
    let text = std::fs::read_to_string(&path).unwrap();
    let far = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        if line["type"] == "exchange" {
            line["ended"] = json!({"place": u64::MAX, "ms": u64::MAX});
        }
        line.to_string()
    };
    std::fs::write(&path, text.lines().map(far).collect::<Vec<_>>().join("\n")).unwrap();
    tokio::time::pause();
    let model = replay(&path, "/old").unwrap().model("scripted/script").unwrap();
    assert_eq!(text_of_first(&*model).await, "answer 0");
}

async fn text_of_first(model: &dyn Model) -> String {
    text(ask(model, NEW, &[user("go")]).await)
}

/// A root that hears of two tasks in one step and of a third in the next, recorded.
async fn heard_in_two_steps(path: &Path) -> [Message; 3] {
    let model = Recorder::open(path, &setup("/old")).unwrap().wrap(Arc::new(Scripted::with(|_: &Seen| ScriptedReply::text("noted"))));
    let notices = |texts: &[&str]| Message { role: Role::User, blocks: texts.iter().flat_map(|text| notice(text)).collect() };
    let messages = [user("go"), notices(&["two", "one"]), notices(&["three"])];
    let mut asked = Vec::new();
    for message in &messages {
        asked.push(message.clone());
        assert_eq!(text(ask(&*model, OLD, &asked).await), "noted");
        asked.push(answered("noted"));
    }
    messages
}

fn notice(task: &str) -> Vec<Block> {
    vec![Block::Text { text: format!("[task {task} completed] dig\n\nfound it in 12 ms") }]
}

fn hears(model: &dyn Model, waiting: &[&str]) -> Hears {
    let entries = waiting.iter().map(|task| (EntryId::new(*task), notice(task))).collect();
    let hearing = Hearing { says: vec![answered("noted")], waiting: entries, inside_turn: false };
    model.hears(&SessionId::new(NEW), &|| hearing.clone())
}

fn these(tasks: &[&str]) -> Hears {
    Hears::Only(tasks.iter().map(|task| EntryId::new(*task)).collect())
}

/// Whatever has come meanwhile, a step hears what it heard, in that order; what has not come is waited for.
#[tokio::test(start_paused = true)]
async fn a_step_hears_what_the_recorded_one_heard() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let [first, second, third] = heard_in_two_steps(&path).await;
    let model = replay(&path, "/old").unwrap().model("scripted/script").unwrap();
    assert_eq!(hears(&*model, &["one"]), Hears::All, "nothing is known of a conversation that has not begun");
    let mut asked = vec![first];
    ask(&*model, NEW, &asked).await.unwrap();
    assert_eq!(hears(&*model, &["one"]), Hears::Later);
    assert_eq!(hears(&*model, &["three", "one"]), Hears::Later);
    assert_eq!(hears(&*model, &["three", "one", "two"]), these(&["two", "one"]));
    asked.extend([answered("noted"), second]);
    ask(&*model, NEW, &asked).await.unwrap();
    assert_eq!(hears(&*model, &["three"]), these(&["three"]));
    asked.extend([answered("noted"), third]);
    ask(&*model, NEW, &asked).await.unwrap();
    assert_eq!(hears(&*model, &["four"]), Hears::All, "the recording ends here");
}

/// What never comes is waited for as long as the recording waited and some seconds; every word that comes begins it anew.
#[tokio::test(start_paused = true)]
async fn a_step_does_not_wait_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let [first, ..] = heard_in_two_steps(&path).await;
    let model = replay(&path, "/old").unwrap().model("scripted/script").unwrap();
    ask(&*model, NEW, &[first]).await.unwrap();
    for waiting in [&["one"][..], &["one", "three"]] {
        assert_eq!(hears(&*model, waiting), Hears::Later);
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(hears(&*model, waiting), Hears::Later);
    }
    tokio::time::advance(Duration::from_secs(4)).await;
    assert_eq!(hears(&*model, &["one", "three"]), these(&["one"]));
}

/// A run that has left the recording has nothing to wait for.
#[tokio::test(start_paused = true)]
async fn nobody_waits_once_the_run_is_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let [first, ..] = heard_in_two_steps(&path).await;
    let model = replay(&path, "/old").unwrap().model("scripted/script").unwrap();
    ask(&*model, NEW, &[first]).await.unwrap();
    assert_eq!(hears(&*model, &["one"]), Hears::Later);
    ask(&*model, "ses_x", &[user("something else")]).await.unwrap_err();
    assert_eq!(hears(&*model, &["one"]), Hears::All);
}

/// A notice with other words is the one that was heard: strictly the run ends there, loosely it goes on, and nobody waits.
#[tokio::test(start_paused = true)]
async fn a_notice_with_other_words_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let [first, ..] = heard_in_two_steps(&path).await;
    let model = loosely(&path).model("scripted/script").unwrap();
    ask(&*model, NEW, &[first]).await.unwrap();
    let other = vec![Block::Text { text: "[task one completed] dig\n\nfound nothing".into() }];
    let waiting = vec![(EntryId::new("one"), other), (EntryId::new("three"), notice("three")), (EntryId::new("two"), notice("two"))];
    let hearing = Hearing { says: vec![answered("noted")], waiting, inside_turn: false };
    assert_eq!(model.hears(&SessionId::new(NEW), &|| hearing.clone()), these(&["two", "one"]));
}

/// Two that begin with the same words are told apart by whoever began them, whichever asks first.
#[tokio::test(start_paused = true)]
async fn sessions_with_the_same_words_are_known_by_their_caller() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder);
    let answers = Mutex::new(["first", "second"].into_iter());
    let script = move |seen: &Seen| {
        let is_task = matches!(&seen.messages[0].blocks[0], Block::Text { text } if text == "dig");
        ScriptedReply::text(if is_task { answers.lock().unwrap().next().unwrap() } else { "noted" })
    };
    let model = Recorder::open(&path, &setup("/old")).unwrap().wrap(Arc::new(Scripted::with(script)));
    let id = |run: &str, number: usize| format!("ses_01J{run}ZZZZZZZZZZZZZZZZZZZZZ{number}");
    let launched = |run: &str| {
        let text = |number: usize| format!("task_id: {}", id(run, number));
        let result =
            |number| Block::Result { id: format!("c{number}"), tool: "agent".into(), text: text(number), error: false, images: Vec::new() };
        Message { role: Role::User, blocks: vec![result(1), result(2)] }
    };
    ask(&*model, OLD, &[user("go")]).await.unwrap();
    for (number, answer) in [(1, "first"), (2, "second")] {
        assert_eq!(text(ask(&*model, &id("D", number), &[user("dig")]).await), answer);
    }
    ask(&*model, OLD, &[user("go"), answered("noted"), launched("D")]).await.unwrap();

    let model = replay(&path, "/old").unwrap().model("scripted/script").unwrap();
    ask(&*model, NEW, &[user("go")]).await.unwrap();
    let told = async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let hearing = Hearing { says: vec![answered("noted"), launched("E")], waiting: Vec::new(), inside_turn: true };
        model.hears(&SessionId::new(NEW), &|| hearing.clone())
    };
    let (one, two) = (id("E", 1), id("E", 2));
    let dig = [user("dig")];
    let (second, first, hears) = tokio::join!(ask(&*model, &two, &dig), ask(&*model, &one, &dig), told);
    assert_eq!((text(first), text(second), hears), ("first".into(), "second".into(), Hears::Only(Vec::new())));
}
