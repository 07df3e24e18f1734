//! Agents that give work to agents: one call, one child, one result, whatever happens in between.

#![allow(clippy::unwrap_used)]

mod office;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use office::{Office, lines, say, settled};
use posse_engine::Handle;
use posse_models::{Scripted, ScriptedReply, Seen};
use posse_session::{
    Asking, Block, Command, Entry, Event, Expander, Expansion, Hold, How, Kind, Log as _, Needed, Outcome, Part, Record, SessionId, Status,
    Summary, To,
};
use posse_store::{Fault, Memory};
use posse_tools::Dialect;
use serde_json::{Value, json};

/// The first words a session heard.
fn prompt(seen: &Seen) -> String {
    lines(&seen.messages).first().cloned().unwrap_or_default()
}

fn task(description: &str, prompt: &str) -> Value {
    json!({"description": description, "prompt": prompt, "subagent_type": "worker"})
}

/// The root delegates twice in one reply; each worker touches something and answers.
fn team() -> Office {
    Office::with_model(Scripted::with(|seen| match (prompt(seen).as_str(), seen.position) {
        ("user: go", 0) => ScriptedReply::call("agent", task("first half", "do one")).and_call("agent", task("other half", "do two")),
        ("user: go", _) => say("done"),
        (_, 0) => ScriptedReply::call("touch", json!({"what": prompt(seen)})),
        (who, _) => say(&format!("did {who}")),
    }))
}

async fn summaries(memory: &Memory) -> Vec<Summary> {
    let mut all = memory.summaries(None).await.unwrap();
    all.sort_by(|a, b| a.session.cmp(&b.session));
    all
}

async fn log(memory: &Memory, session: &SessionId) -> Vec<Record> {
    let mut records = memory.read(session, 0, 1_000_000).await.unwrap();
    posse_engine::restore(memory, &mut records).await.unwrap();
    records
}

fn ends(records: &[Record]) -> Vec<(How, String)> {
    let end = |record: &Record| match &record.event {
        Event::TaskEnded { how, result, to: To::Call { .. }, .. } => Some((*how, result.inline().unwrap().to_owned())),
        _ => None,
    };
    records.iter().filter_map(end).collect()
}

#[tokio::test(start_paused = true)]
async fn two_tasks_of_one_reply_run_at_the_same_time_and_both_answer() {
    let office = team();
    let session = office.run("go").await;
    assert!(session.is_settled());
    let all = summaries(&office.memory).await;
    assert_eq!(all.len(), 3);
    for child in &all[1..] {
        assert_eq!((child.kind, child.parent.as_ref(), &child.root), (Some(Kind::Task), Some(&office.session), &office.session));
        assert_eq!((child.status, child.steps, child.agent.as_str()), (Status::Completed, 2, "worker"));
        assert!(child.title.ends_with("(@worker subagent)"), "{}", child.title);
    }
    let ended = ends(&office.records().await);
    assert_eq!(ended.len(), 2);
    assert!(
        ended.iter().all(|(how, result)| *how == How::Completed && result.contains("did user: do ") && result.contains("task_id: ses_"))
    );
    // Both were asked before either had answered its first step.
    let order: Vec<String> = office.model.seen().iter().map(|seen| format!("{} {}", prompt(seen), seen.position)).collect();
    assert_eq!(order[1..3], ["user: do one 0", "user: do two 0"]);
    assert_eq!(office.shown().last().unwrap().split(' ').next_back().unwrap(), all[2].session.as_str());
}

/// The seed's isolation table: a child has its own history, calls, counts and agent, and shares the folder.
#[tokio::test(start_paused = true)]
async fn a_child_is_isolated_from_its_parent() {
    let office = team();
    office.run("go").await;
    let all = summaries(&office.memory).await;
    let parent_lines = office.shown().join("\n");
    assert!(!parent_lines.contains("touch("), "the parent never sees a child's calls: {parent_lines}");
    for seen in office.model.seen().iter().filter(|seen| seen.session != office.session) {
        let heard = lines(&seen.messages);
        assert!(heard.iter().all(|line| !line.contains("user: go")), "a child never hears its parent's words: {heard:?}");
    }
    assert_eq!(all[0].calls, 2, "calls are counted apart");
    assert_eq!((all[1].calls, all[2].calls), (1, 1));
    assert_eq!(all[1].agent, "worker");
    assert!(all.iter().all(|summary| summary.directory == "/"), "the folder is shared");
}

async fn check_team(office: &Office, what: &str) {
    let all = summaries(&office.memory).await;
    // A torn append may have lost a call; a child without one there is never.
    let called =
        office.records().await.iter().filter(|record| matches!(&record.event, Event::Called { tool, .. } if tool == "agent")).count();
    assert_eq!(all.len(), 1 + called, "{what}: one child per call, no orphan: {all:#?}");
    let mut ran = office.witness.lock().unwrap().clone();
    let count = ran.len();
    ran.sort();
    ran.dedup();
    assert_eq!(ran.len(), count, "{what}: a tool ran twice");
    let (mut started, mut ended) = (BTreeMap::new(), BTreeMap::new());
    for summary in &all {
        assert_eq!(summary.status, Status::Completed, "{what}: {summary:#?}");
        let mut results: BTreeMap<String, u32> = BTreeMap::new();
        for record in log(&office.memory, &summary.session).await {
            match record.event {
                Event::Called { call, .. } => drop(results.entry(call.to_string()).or_default()),
                Event::CallFinished { call, .. } => *results.entry(call.to_string()).or_default() += 1,
                Event::TaskStarted { task, round, .. } => *started.entry((task, round)).or_insert(0) += 1,
                Event::TaskEnded { task, round, to, .. } => {
                    *ended.entry((task, round)).or_insert(0) += 1;
                    let To::Call { call } = to else { panic!("{what}: {to:?}") };
                    *results.entry(call.to_string()).or_default() += 1;
                }
                _ => {}
            }
        }
        assert!(results.values().all(|times| *times == 1), "{what}: every call has one result: {results:?}");
    }
    assert!(started.values().chain(ended.values()).all(|times| *times == 1), "{what}: {started:?} {ended:?}");
    assert_eq!(started, ended, "{what}");
    let last = office.records().await.iter().rev().find_map(|record| match &record.event {
        Event::Replied { parts, .. } => Some(format!("{parts:?}")),
        _ => None,
    });
    assert!(last.unwrap().contains("done"), "{what}: the end was reached");
}

/// Cut the whole store after every event of every log: both finish, one result each.
#[tokio::test(start_paused = true)]
async fn a_crash_after_any_event_of_any_log_is_survivable() {
    let whole = team();
    whole.run("go").await;
    check_team(&whole, "no crash").await;
    let events = whole.memory.events();
    assert!(30 < events, "an eventful run: {events}");
    for cut in 1..=events {
        let first = team();
        first.run("go").await;
        let memory = first.memory.copy_up_to(cut);
        let kept = started(&memory).await;
        first.witness.lock().unwrap().retain(|call| kept.contains(call));
        let second = first.reopened(memory);
        let handle = open(&second).await;
        settled(&handle).await;
        handle.close().await;
        check_team(&second, &format!("cut {cut} of {events}")).await;
    }
}

async fn open(office: &Office) -> Handle {
    let names = office.names().await;
    let handle = office.open(Vec::new()).await;
    if !names.contains(&"queued".to_owned()) {
        handle.say(office.entry("go")).await.unwrap();
    }
    handle
}

async fn started(memory: &Memory) -> Vec<String> {
    let mut started = Vec::new();
    for summary in summaries(memory).await {
        for record in log(memory, &summary.session).await {
            if let Event::CallStarted { call, .. } = record.event {
                started.push(call.to_string());
            }
        }
    }
    started
}

#[tokio::test(start_paused = true)]
async fn an_append_that_fails_in_any_session_stops_the_tree_and_the_next_owner_goes_on() {
    let whole = team();
    whole.run("go").await;
    for after in 1..whole.memory.appends() {
        for fault in [Fault::Unavailable { after }, Fault::LostAnswer { after }, Fault::Moved { after }] {
            let office = team();
            office.memory.set_fault(fault);
            let handle = office.begin("go").await;
            let ended = tokio::time::timeout(Duration::from_secs(600), handle.settled()).await;
            assert!(ended.is_ok(), "{fault:?}: it neither ended nor stopped");
            handle.close().await;
            office.memory.set_fault(Fault::None);
            let kept = started(&office.memory).await;
            office.witness.lock().unwrap().retain(|call| kept.contains(call));
            let handle = open(&office).await;
            settled(&handle).await;
            handle.close().await;
            check_team(&office, &format!("{fault:?}")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_goes_on_by_its_id_and_remembers() {
    let office = Office::with_model(Scripted::with(|seen| {
        let last = lines(&seen.messages).last().cloned().unwrap_or_default();
        match (prompt(seen).as_str(), seen.position) {
            ("user: go", 0) => ScriptedReply::call("agent", task("a part", "remember 42")),
            ("user: go", 1) => {
                let id = last.split("task_id: ").nth(1).unwrap().to_owned();
                let mut again = task("a part", "what was it?");
                again["task_id"] = json!(id);
                ScriptedReply::call("agent", again)
            }
            ("user: go", _) => say("done"),
            (_, 0) => say("noted"),
            _ => say(&format!("it was {}", lines(&seen.messages)[0])),
        }
    }));
    office.run("go").await;
    let all = summaries(&office.memory).await;
    assert_eq!(all.len(), 2, "the same child");
    let ended = ends(&office.records().await);
    assert!(ended[1].1.starts_with("it was user: remember 42"), "{ended:?}");
    let rounds: Vec<u64> = office
        .records()
        .await
        .iter()
        .filter_map(|record| if let Event::TaskStarted { round, .. } = record.event { Some(round) } else { None })
        .collect();
    assert_eq!(rounds, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn an_id_that_leads_nowhere_is_said_and_in_opencodes_dialect_starts_anew() {
    for (dialect, tool, expected) in [
        (
            Dialect::Posse,
            "agent",
            "error There is no task `ses_nowhere` of this session to go on with. Tasks that can be resumed: there are none yet.",
        ),
        (Dialect::OpenCode, "task", "A new session was started instead."),
    ] {
        let mut office = Office::with_model(Scripted::with(move |seen| match (prompt(seen).as_str(), seen.position) {
            ("user: go", 0) => {
                let mut wish = task("a part", "work");
                wish["session_id"] = json!("ses_nowhere");
                ScriptedReply::call(tool, wish)
            }
            ("user: go", _) => say("done"),
            _ => say("worked"),
        }));
        office.dialect = dialect;
        office.run("go").await;
        assert!(office.shown().last().unwrap().contains(expected), "{:?}", office.shown());
    }
}

#[tokio::test(start_paused = true)]
async fn opencodes_result_is_the_last_text_and_the_id_twice() {
    let mut office = Office::with_model(Scripted::with(|seen| match (prompt(seen).as_str(), seen.position) {
        ("user: go", 0) => ScriptedReply::call("task", task("count", "COUNT")),
        ("user: go", _) => say("done"),
        _ => say("there are 3"),
    }));
    office.dialect = Dialect::OpenCode;
    office.run("go").await;
    let child = summaries(&office.memory).await[1].session.clone();
    let shown = office.shown();
    assert_eq!(
        *shown.last().unwrap(),
        format!("user: = there are 3\n\n<task_metadata>\nsession_id: {child}\ntask_id: {child}\n</task_metadata>")
    );
}

#[tokio::test(start_paused = true)]
async fn escape_ends_foreground_children_and_says_what_they_had() {
    let office = Office::with_model(Scripted::with(|seen| match (prompt(seen).as_str(), seen.position) {
        ("user: go", 0) => ScriptedReply::call("agent", task("slow part", "take long")),
        ("user: go", _) => say("done"),
        (_, 0) => say("I begin").and_call("slow", json!({"what": "x"})),
        _ => say("never"),
    }));
    let handle = office.begin("go").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    handle.interrupt().await.unwrap();
    let session = settled(&handle).await;
    assert_eq!(session.hold(), Some(Hold::Esc));
    handle.close().await;
    let all = summaries(&office.memory).await;
    assert_eq!(all[1].status, Status::Stopped);
    let ended = ends(&office.records().await);
    assert_eq!(ended[0].0, How::Stopped);
    assert!(ended[0].1.starts_with("The task was stopped before it was done"), "{ended:?}");
    assert!(ended[0].1.contains("The last it had said:\nI begin"), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn a_child_that_fails_comes_back_with_its_words_its_error_and_its_id() {
    let office = Office::with_model(Scripted::with(|seen| match (prompt(seen).as_str(), seen.position) {
        ("user: go", 0) => ScriptedReply::call("agent", task("doomed part", "fail")),
        ("user: go", _) => say("done"),
        (_, 0) => say("so far so good").and_call("peek", json!({"what": "x"})),
        _ => ScriptedReply::failing(posse_session::ModelFailure::Auth, "wrong key"),
    }));
    office.run("go").await;
    let shown = office.shown();
    let last = shown.last().unwrap();
    assert!(last.starts_with("user: error The task failed before it was done: "), "{last}");
    for part in ["wrong key", "The last it had said:\nso far so good", "task_id: ses_"] {
        assert!(last.contains(part), "{part}: {last}");
    }
}

#[tokio::test(start_paused = true)]
async fn limits_of_depth_and_width_are_said_in_words() {
    let nested = |seen: &Seen| match seen.position {
        0 => ScriptedReply::call("agent", task("deeper", "go deeper")),
        _ => say(&format!("got {}", lines(&seen.messages).last().unwrap())),
    };
    let mut office = Office::with_model(Scripted::with(nested));
    office.depth_max = 2;
    office.run("go").await;
    let all = summaries(&office.memory).await;
    assert_eq!(all.len(), 3, "a child and a grandchild, no more");
    let deepest = log(&office.memory, &all[2].session).await;
    let refused = deepest.iter().find_map(|record| match &record.event {
        Event::CallFinished { outcome: Outcome::Failed { error }, .. } => error.inline().map(str::to_owned),
        _ => None,
    });
    assert_eq!(refused.unwrap(), "Agents may be nested 2 deep here (limits.depth), and this session is at depth 2. Do the work yourself.");

    let mut office = team();
    office.children_max = 1;
    office.run("go").await;
    assert_eq!(summaries(&office.memory).await.len(), 2);
    assert!(office.shown().iter().any(|line| line.contains("(limits.children)")), "{:?}", office.shown());

    let mut office = team();
    office.limits.tasks = Some(1);
    office.run("go").await;
    assert_eq!(summaries(&office.memory).await.len(), 2);
    assert!(office.shown().iter().any(|line| line.contains("(limits.tree)")), "{:?}", office.shown());
}

#[tokio::test(start_paused = true)]
async fn a_childs_rights_are_the_strictest_of_its_own_and_its_ancestors() {
    let mut office = team();
    office.rules = json!({"*": "allow", "touch": {"*": "deny"}});
    office.asking = Asking::Nobody;
    office.run("go").await;
    let child = &summaries(&office.memory).await[1];
    let records = log(&office.memory, &child.session).await;
    let Event::Created { above, depth, .. } = &records[0].event else { panic!() };
    assert!(above.inline().unwrap().contains("touch"), "the parent's rules are recorded in the child");
    assert_eq!(*depth, 1);
    // Opened later under looser rules, the recorded ones still hold.
    let mut later = office;
    later.rules = json!("allow");
    later.session = child.session.clone();
    let root = child.root.clone();
    let entry = later.entry("touch it after all");
    let handle =
        later.hub().open(&later.session, &root, later.outfits(), later.limits, vec![posse_session::Command::Say(entry)]).await.unwrap();
    settled(&handle).await;
    handle.close().await;
    let denied = log(&later.memory, &later.session).await;
    let denied =
        denied.iter().filter(|record| matches!(&record.event, Event::CallFinished { outcome: Outcome::Denied { .. }, .. })).count();
    assert_eq!(denied, 1, "its first call was denied; the second round said its word without one");
}

#[tokio::test(start_paused = true)]
async fn a_hundred_children_share_the_bytes_of_their_head() {
    let office = Office::with_model(Scripted::with(|seen| match (prompt(seen).as_str(), seen.position) {
        ("user: go", 0) => (1..100).fold(ScriptedReply::call("agent", task("part", "work 0")), |reply, at| {
            reply.and_call("agent", task("part", &format!("work {at}")))
        }),
        ("user: go", _) => say("done"),
        _ => say("worked"),
    }));
    let session = office.run("go").await;
    assert!(session.is_settled());
    assert_eq!(summaries(&office.memory).await.len(), 101);
    let results = office.model.seen().last().unwrap().messages.last().unwrap().blocks.clone();
    assert_eq!(results.iter().filter(|block| matches!(block, Block::Result { error: false, .. })).count(), 100);
}

/// `/look` runs a scout directly; `/ask` is answered by another agent; `@note` needs a call first.
struct Words;

impl Expander for Words {
    fn expand(&self, typed: &str, voice: &posse_session::Voice) -> Expansion {
        let typed = typed.to_owned();
        let subtask = |prompt: &str, direct: bool| Part::Subtask {
            agent: "scout".into(),
            description: "look".into(),
            prompt: prompt.into(),
            command: Some("/look".into()),
            model: None,
            direct,
            allowed: Vec::new(),
            named: Vec::new(),
        };
        let needs_note = typed.contains("@note");
        let calls = if needs_note {
            vec![Needed { tool: "peek".into(), input: json!({"what": "note"}), consented: *voice == posse_session::Voice::User }]
        } else {
            Vec::new()
        };
        let agent = typed.starts_with("/ask").then(|| "worker".to_owned());
        let assemble = move |results: &[Outcome]| {
            let mut parts: Vec<Part> = match typed.as_str() {
                "/look twice" => vec![subtask("look here", false), subtask("look there", false)],
                "/look direct" => vec![subtask("look here", true)],
                "/look nobody" => {
                    let mut part = subtask("look", false);
                    if let Part::Subtask { agent, .. } = &mut part {
                        *agent = "nobody".into();
                    }
                    vec![part]
                }
                other => vec![Part::text(other)],
            };
            parts.extend(results.iter().map(|result| Part::reminder(format!("{result:?}"))));
            parts
        };
        Expansion { calls, agent, model: None, allowed: Vec::new(), assemble: Box::new(assemble) }
    }
}

fn typist() -> Office {
    let mut office = Office::with_model(Scripted::with(|seen| match prompt(seen).as_str() {
        "user: look here" | "user: look there" => say(&format!("saw {}", prompt(seen))),
        _ => say("done"),
    }));
    office.expander = Some(Arc::new(Words));
    office
}

fn typed(office: &Office, text: &str) -> Entry {
    Entry { typed: true, ..office.entry(text) }
}

async fn run_typed(office: &Office, text: &str) {
    let entry = typed(office, text);
    let handle = office.hub().create(office.session.clone(), office.created(), entry, office.outfits(), office.limits).await.unwrap();
    settled(&handle).await;
    handle.close().await;
}

/// The seed's ten steps: the kernel calls the agents in written order before any model, each is followed by the seed's words.
#[tokio::test(start_paused = true)]
async fn what_the_user_runs_directly_is_called_before_any_model() {
    let office = typist();
    run_typed(&office, "/look twice").await;
    let children: Vec<SessionId> = summaries(&office.memory).await[1..].iter().map(|summary| summary.session.clone()).collect();
    assert_eq!(
        office.shown(),
        [
            "user: (The user ran the agent `scout` directly with `/look`; its call and its answer follow.)".to_owned(),
            "user: (The user ran the agent `scout` directly with `/look`; its call and its answer follow.)".to_owned(),
            "agent: agent({\"description\":\"look\",\"prompt\":\"look here\",\"subagent_type\":\"scout\",\"command\":\"/look\"})"
                .to_owned(),
            format!("user: = saw user: look here\n\ntask_id: {}", children[0]),
            "user: Summarize the task tool output above and continue with your task.".to_owned(),
            "agent: agent({\"description\":\"look\",\"prompt\":\"look there\",\"subagent_type\":\"scout\",\"command\":\"/look\"})"
                .to_owned(),
            format!("user: = saw user: look there\n\ntask_id: {}", children[1]),
            "user: Summarize the task tool output above and continue with your task.".to_owned(),
        ]
    );
    let order: Vec<String> = office.model.seen().iter().map(prompt).collect();
    assert_eq!(order[..2], ["user: look here", "user: look there"], "one after the other, and the primary last");
    let root = &summaries(&office.memory).await[0];
    assert_eq!((root.steps, root.calls), (1, 2), "the kernel's replies are no model calls");
    let authors: Vec<Option<String>> = office
        .records()
        .await
        .into_iter()
        .filter_map(|record| if let Event::Replied { author, .. } = record.event { Some(author) } else { None })
        .collect();
    assert_eq!(authors, [Some("scout".into()), Some("scout".into()), None]);
}

/// CC-205, CC-206, CC-264: the answer of a forked command is the answer, and no model is asked after it.
#[tokio::test(start_paused = true)]
async fn a_direct_answer_ends_the_turn_without_a_model() {
    let office = typist();
    run_typed(&office, "/look direct").await;
    assert_eq!(office.model.seen().len(), 1, "only the child's");
    let records = office.records().await;
    let last = records.iter().rev().find_map(|record| match &record.event {
        Event::Replied { parts, .. } => Some(parts.clone()),
        _ => None,
    });
    assert_eq!(last.unwrap(), [Part::text("saw user: look here")]);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_not_there_is_an_error_and_the_loop_goes_on() {
    let office = typist();
    run_typed(&office, "/look nobody").await;
    assert!(office.shown().iter().any(|line| line.starts_with("user: error Tool execution failed: ")), "{:?}", office.shown());
    assert!(office.records().await.iter().any(|record| matches!(&record.event, Event::Replied { author: None, .. })));
}

#[tokio::test(start_paused = true)]
async fn a_named_file_is_a_call_under_the_rules() {
    for (rules, expected) in [
        (json!("allow"), "peek note ok"),
        (json!({"*": "allow", "peek": "deny"}), "Denied by the rule"),
        (json!({"*": "allow", "peek": "ask"}), "peek note ok"),
    ] {
        let mut office = typist();
        office.rules = rules;
        run_typed(&office, "read @note").await;
        let shown = office.shown();
        assert_eq!(shown[0], "user: read @note", "the user's words come first and as they were");
        assert!(shown[1].contains(expected), "{shown:?}");
        assert_eq!(shown.len(), 2, "the call itself is not in the conversation: {shown:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_another_agent_answers_is_one_turn() {
    let office = typist();
    run_typed(&office, "/ask it").await;
    let handle = office.open(vec![Command::Say(office.entry("and you?"))]).await;
    settled(&handle).await;
    handle.close().await;
    let heads: Vec<String> = office.model.seen().iter().map(|seen| seen.head.system[0].clone()).collect();
    assert_eq!(heads, ["you are a worker", "you are a test"]);
}

/// Cut after every event while words are expanded and agents are run directly.
#[tokio::test(start_paused = true)]
async fn a_crash_while_words_are_expanded_is_survivable() {
    for (words, children) in [("/look twice", 2), ("/look direct", 1), ("read @note", 0)] {
        let whole = typist();
        run_typed(&whole, words).await;
        let events = whole.memory.events();
        for cut in 3..=events {
            let first = typist();
            run_typed(&first, words).await;
            let memory = first.memory.copy_up_to(cut);
            let second = first.reopened(memory);
            let handle = second.open(Vec::new()).await;
            let session = settled(&handle).await;
            handle.close().await;
            let what = format!("{words}, cut {cut} of {events}");
            assert!(session.is_settled() && session.hold().is_none(), "{what}");
            let all = summaries(&second.memory).await;
            assert_eq!(all.len(), 1 + children, "{what}: every agent is run once");
            assert!(all.iter().all(|summary| summary.status == Status::Completed), "{what}: {all:#?}");
            let said = second.records().await.iter().filter(|record| matches!(&record.event, Event::Replied { .. })).count();
            assert!(0 < said, "{what}");
        }
    }
}

/// Notes what it is shown, and marks every outcome.
#[derive(Default)]
struct Marker(std::sync::Mutex<Vec<String>>);

impl posse_session::Hook for Marker {
    fn name(&self) -> &str {
        "marker"
    }

    fn looks(&self) -> bool {
        true
    }

    fn before_call<'a>(&'a self, call: &'a posse_session::HookedCall) -> posse_session::BoxFuture<'a, posse_session::Before> {
        self.0.lock().unwrap().push(format!("before {} {}", call.tool, call.input["prompt"]));
        Box::pin(async { posse_session::Before::Go })
    }

    fn after_call<'a>(&'a self, call: &'a posse_session::HookedCall, outcome: Outcome) -> posse_session::BoxFuture<'a, Outcome> {
        self.0.lock().unwrap().push(format!("after {} {}", call.tool, outcome.word()));
        Box::pin(async move {
            match outcome {
                Outcome::Done { output, .. } => Outcome::done(format!("{} (marked)", output.inline().unwrap())),
                other => other,
            }
        })
    }
}

/// Steps 4 and 6 of the seed's ten: hooks see the call of an agent that the user ran, and its end, like any other.
#[tokio::test(start_paused = true)]
async fn hooks_see_a_task_before_it_starts_and_when_it_has_ended() {
    let mut office = typist();
    let marker = Arc::new(Marker::default());
    office.hooks = vec![marker.clone()];
    run_typed(&office, "/look twice").await;
    assert_eq!(
        *marker.0.lock().unwrap(),
        ["before agent \"look here\"", "after agent done", "before agent \"look there\"", "after agent done"]
    );
    assert_eq!(office.shown().iter().filter(|line| line.ends_with(" (marked)")).count(), 2, "{:?}", office.shown());
}
