//! The loop, from a prompt to rest: what is said, what is recorded, what is owed.

#![allow(clippy::unwrap_used)]

mod office;

use std::time::Duration;

use office::{Office, call, lines, say, settled};
use posse_models::{Scripted, ScriptedReply};
use posse_session::{
    Answer, Asking, Block, By, CallState, Command, Entry, Event, Hold, Letter, LetterId, Limits, Mode, ModelFailure, Outcome, Posted,
    Priority, Scope, SessionId, ToolChoice,
};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn a_prompt_runs_to_an_answer() {
    let office = Office::new([call("touch", "a").and_call("peek", json!({"what": "b"})), say("done")]);
    let session = office.run("fix it").await;
    assert!(session.is_settled());
    assert_eq!(
        office.shown(),
        ["user: fix it", "agent: touch({\"what\":\"a\"})", "agent: peek({\"what\":\"b\"})", "user: = touch a ok", "user: = peek b ok"]
    );
    assert_eq!(
        office.names().await,
        [
            "created",
            "configured",
            "queued",
            "step_started",
            "replied",
            "called",
            "called",
            "call_started",
            "call_started",
            "call_finished",
            "call_finished",
            "step_started",
            "replied",
            "ended"
        ]
    );
}

/// Architecture section 7, hop by hop, with what is durable at each.
#[tokio::test(start_paused = true)]
async fn one_prompt_nine_hops() {
    let office = Office::new([call("slow", "x"), say("the end")]);
    // 1 Enter, 2 the hub, 3 queued and appended: only now is the prompt accepted.
    let handle = office.begin("go").await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    let hop = office.records().await;
    let batches = |records: &[posse_session::Record]| {
        records.iter().map(|record| record.batch.clone()).collect::<std::collections::BTreeSet<_>>().len()
    };
    assert!(matches!(hop[2].event, Event::Queued { .. }));
    // 4 owed and admitted, 5 StepStarted is appended before the request.
    assert!(matches!(hop[3].event, Event::StepStarted { .. }));
    // 6 Replied, the verdict and CallStarted are one append.
    assert!(hop[4].batch == hop[6].batch && matches!(hop[6].event, Event::CallStarted { .. }));
    assert_eq!(batches(&hop), 2);
    // 7 the call runs.
    assert_eq!(handle.session().unwrap().unwrap().calls()[0].state, CallState::Running);
    // 8 CallFinished is one append with the next StepStarted; 9 a follower reads it all.
    settled(&handle).await;
    let hop = office.records().await;
    assert!(
        matches!(hop[7].event, Event::CallFinished { .. })
            && matches!(hop[8].event, Event::StepStarted { .. })
            && hop[7].batch == hop[8].batch
    );
    assert_eq!(batches(&hop), 4, "two appends per step");
    assert_eq!(hop.iter().map(|record| record.seq).collect::<Vec<_>>(), (1..=hop.len() as u64).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn results_go_back_in_the_order_of_the_calls() {
    let slow = |ms: u64| json!({"what": ms.to_string(), "ms": ms});
    let office = Office::new([ScriptedReply::call("slow", slow(300)).and_call("slow", slow(100)).and_call("slow", slow(200)), say("ok")]);
    office.run("race").await;
    assert_eq!(office.shown()[4..], ["user: = slept 300", "user: = slept 100", "user: = slept 200"]);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_calls_run_a_few_at_a_time() {
    let mut reply = ScriptedReply::default();
    for nth in 0..1_000 {
        reply = reply.and_call("slow", json!({"what": nth.to_string(), "ms": 10}));
    }
    let mut office = Office::new([reply, say("ok")]);
    office.calls_max = 8;
    let handle = office.begin("many").await;
    let mut most = 0;
    tokio::time::sleep(Duration::from_millis(1)).await;
    while !handle.session().unwrap().unwrap().is_settled() {
        let running = handle.session().unwrap().unwrap().calls().iter().filter(|call| call.state == CallState::Running).count();
        most = most.max(running);
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    assert_eq!(most, 8);
    let expected: Vec<String> = (0..1_000).map(|nth| format!("user: = slept {nth}")).collect();
    assert_eq!(office.shown()[1_001..], expected);
}

#[tokio::test(start_paused = true)]
async fn a_message_while_busy_steers_the_next_step() {
    let office = Office::new([call("slow", "x"), say("as you wish")]);
    let handle = office.begin("go").await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    handle.say(office.entry("left, please")).await.unwrap();
    settled(&handle).await;
    assert_eq!(office.shown()[2..], ["user: = slept x", "user: left, please"]);
}

#[tokio::test(start_paused = true)]
async fn an_urgent_message_cancels_the_stream_and_never_a_tool() {
    let office = Office::with_model(Scripted::with(|seen| match lines(&seen.messages).last().unwrap().as_str() {
        "user: stop that" => say("stopped"),
        _ => say("too late").after(Duration::from_secs(100)),
    }));
    let handle = office.begin("go").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.say(Entry { priority: Priority::Now, ..office.entry("stop that") }).await.unwrap();
    settled(&handle).await;
    assert_eq!(office.shown(), ["user: go", "user: stop that"]);
}

#[tokio::test(start_paused = true)]
async fn failures_are_tried_again_and_the_wait_is_the_servers() {
    let office = Office::new([say("ok").after_failures(ModelFailure::RateLimited, "slow down", 2)]);
    let began = tokio::time::Instant::now();
    let session = office.run("go").await;
    assert!(session.hold().is_none() && Duration::from_secs(3) <= began.elapsed(), "{:?}", began.elapsed());
    let failed = office.names().await.iter().filter(|name| *name == "step_failed").count();
    assert_eq!((failed, office.model.seen().len()), (2, 3));
}

#[tokio::test(start_paused = true)]
async fn a_cut_stream_gives_up_after_five_and_can_be_resumed() {
    let office = Office::new([say("at last").after_failures(ModelFailure::Cut, "connection reset", 6)]);
    let session = office.run("go").await;
    assert_eq!((session.hold(), office.model.seen().len()), (Some(Hold::ModelError), 6));
    let handle = office.open(vec![Command::Resume { by: By::User }]).await;
    let session = settled(&handle).await;
    assert_eq!((session.hold(), office.model.seen().len()), (None, 7));
    let shown = office.shown();
    assert!(shown.len() == 2 && shown[0] == "user: go" && shown[1].contains("now resumed"), "nothing is said twice: {shown:?}");
}

#[tokio::test(start_paused = true)]
async fn a_bad_request_is_not_repeated() {
    let office = Office::new([ScriptedReply::failing(ModelFailure::BadRequest, "no such model")]);
    let session = office.run("go").await;
    assert_eq!((session.hold(), session.round().error.as_str(), office.model.seen().len()), (Some(Hold::ModelError), "no such model", 1));
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_nothing_is_tried_once_more() {
    let office = Office::new([ScriptedReply::default()]);
    let session = office.run("go").await;
    assert_eq!((session.hold(), office.model.seen().len()), (Some(Hold::ModelError), 2));
}

#[tokio::test(start_paused = true)]
async fn a_step_that_takes_too_long_ends_with_the_deadlines_name() {
    let mut office = Office::new([say("never").after(Duration::from_secs(10_000))]);
    office.step_max = Duration::from_secs(60);
    let session = office.run("go").await;
    assert!(session.round().error.contains("limits.step"), "{}", session.round().error);
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_keeps_what_was_shown_and_the_turn_can_go_on() {
    // The script fails with a partial text in the middle of a long wait: what was shown is kept only by the interrupt.
    let office = Office::with_model(Scripted::with(|seen| match seen.position {
        0 => call("slow", "x"),
        _ if seen.messages.len() < 5 => say("on it").after(Duration::from_secs(1_000)),
        _ => say("finished"),
    }));
    let handle = office.begin("go").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.interrupt().await.unwrap();
    let session = settled(&handle).await;
    assert_eq!(session.hold(), Some(Hold::Esc));
    handle.close().await;
    let records = office.records().await;
    let cancelled = records.iter().any(|record| matches!(&record.event, Event::CallFinished { outcome: Outcome::Cancelled { partial }, .. } if partial.inline() == Some("half asleep")));
    assert!(cancelled, "a running tool is told to stop and its partial output is kept");
    let handle = office.open(vec![Command::Resume { by: By::User }]).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(office.shown().last().unwrap().contains("resumed"), "{:?}", office.shown());
    handle.interrupt().await.unwrap();
    settled(&handle).await;
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_will_not_stop_does_not_keep_the_session() {
    let office = Office::new([call("deaf", "x"), say("no")]);
    let handle = office.begin("go").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.interrupt().await.unwrap();
    let session = tokio::time::timeout(Duration::from_secs(10), handle.settled()).await.unwrap().unwrap();
    assert!(session.calls().is_empty() && session.hold() == Some(Hold::Esc));
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_panics_is_an_outcome() {
    let office = Office::new([call("crash", "x"), say("it broke")]);
    office.run("go").await;
    assert!(office.shown()[2].starts_with("user: error The tool crashed"), "{:?}", office.shown());
}

#[tokio::test(start_paused = true)]
async fn calls_that_make_no_sense_are_answered_and_not_run() {
    let bad = |input: serde_json::Value| ScriptedReply::call("touch", input);
    let office = Office::new([
        ScriptedReply::call("touch", json!("{not json")),
        bad(json!({"bad": 1})),
        ScriptedReply::call("tuoch", json!({})),
        ScriptedReply::call("TOUCH", json!({"what": "x"})),
        say("ok"),
    ]);
    office.run("go").await;
    let shown = office.shown();
    assert!(shown[2].contains("not a JSON object"), "{shown:?}");
    assert!(shown[4].contains("`bad` is not a parameter"), "{shown:?}");
    assert!(shown[6].contains("no tool named `tuoch`") && shown[6].contains("Several calls in a row"), "{shown:?}");
    assert_eq!(shown[8], "user: = touch x ok", "a name in the wrong case is understood");
    assert_eq!(office.witness.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn providers_ids_that_repeat_are_replaced_on_the_wire() {
    let same = |what: &str| {
        let mut reply = call("touch", what);
        reply.calls[0].id = Some("call_1".into());
        reply
    };
    let office = Office::new([same("a"), same("b"), say("ok")]);
    office.run("go").await;
    let seen = office.model.seen();
    let ids: Vec<String> = seen
        .last()
        .unwrap()
        .messages
        .iter()
        .flat_map(|message| &message.blocks)
        .filter_map(|block| match block {
            Block::Call { id, .. } | Block::Result { id, .. } => Some(id.clone()),
            _ => None,
        })
        .collect();
    assert_eq!((ids[0].as_str(), &ids[0], &ids[2]), ("call_1", &ids[1], &ids[3]));
    assert_ne!(ids[0], ids[2]);
}

#[tokio::test(start_paused = true)]
async fn the_third_equal_call_in_a_row_is_asked_about() {
    let mut office = Office::new([call("touch", "a"), call("touch", "a"), call("touch", "a"), say("ok")]);
    office.rules = json!({"*": "allow", "doom_loop": "ask"});
    office.run("go").await;
    assert_eq!(office.witness.lock().unwrap().len(), 2);
    assert!(office.shown().last().unwrap().contains("same call several times"), "{:?}", office.shown());
}

#[tokio::test(start_paused = true)]
async fn an_ask_waits_for_its_answer() {
    let mut office = Office::new([call("touch", "a"), say("ok")]);
    (office.rules, office.asking) = (json!("ask"), Asking::Open);
    let handle = office.begin("go").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let session = handle.session().unwrap().unwrap();
    let ask = session.open_asks().next().unwrap().0.clone();
    handle.close().await;
    // It is still open in the next process.
    let handle = office.open(Vec::new()).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let answer = posse_session::Answer::Yes { scope: posse_session::Scope::Once };
    handle.command(Command::Answer { ask, answer, by: By::User }).await.unwrap();
    settled(&handle).await;
    assert_eq!(office.shown().last().unwrap(), "user: = touch a ok");
}

/// An answer for the project counts in the next session, one for the session does not; what is taken back counts nowhere.
#[tokio::test(start_paused = true)]
async fn a_lasting_answer_reaches_as_far_as_it_says() {
    for (scope, expected) in [(Scope::Session, "denied"), (Scope::Tree, "denied"), (Scope::Project, "done")] {
        let mut office = Office::new([call("touch", "a"), say("ok"), call("touch", "a"), say("ok"), call("touch", "a"), say("ok")]);
        (office.rules, office.asking) = (json!({"touch": {"a": "ask"}}), Asking::Open);
        let handle = office.begin("go").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let ask = handle.session().unwrap().unwrap().open_asks().next().unwrap().0.clone();
        handle.command(Command::Answer { ask: ask.clone(), answer: Answer::Yes { scope }, by: By::User }).await.unwrap();
        settled(&handle).await;
        handle.close().await;

        office.asking = Asking::Nobody;
        office.session = SessionId::fresh(&*office.ids);
        office.run("again").await;
        assert_eq!(last_outcome(&office).await, expected, "{scope:?}");

        let first = posse_session::Log::summaries(&office.memory, None).await.unwrap().pop().unwrap().session;
        office.session = first;
        let handle = office.open(Vec::new()).await;
        handle.command(Command::Revoke { ask, by: By::User }).await.unwrap();
        handle.close().await;
        office.session = SessionId::fresh(&*office.ids);
        office.run("once more").await;
        assert_eq!(last_outcome(&office).await, "denied", "{scope:?} after it was taken back");
    }
}

/// The rules that count are those of the process that goes on.
#[tokio::test(start_paused = true)]
async fn whoever_takes_over_judges_by_todays_rules() {
    for (today, expected) in [(json!({"touch": "deny"}), "denied"), (json!({"touch": "allow"}), "done")] {
        let mut office = Office::new([call("touch", "a"), say("ok")]);
        (office.rules, office.asking) = (json!({"touch": {"a": "ask"}}), Asking::Open);
        let handle = office.begin("go").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        handle.close().await;
        (office.rules, office.asking) = (today, Asking::Nobody);
        let handle = office.open(Vec::new()).await;
        settled(&handle).await;
        handle.close().await;
        assert_eq!(last_outcome(&office).await, expected);
    }
}

/// The owner and whoever answered it died; the letter is still there, and nobody is left to ask.
#[tokio::test(start_paused = true)]
async fn an_answer_that_lies_in_the_inbox_counts_before_the_take_over() {
    let mut office = Office::new([call("touch", "a"), say("ok")]);
    (office.rules, office.asking) = (json!({"touch": {"a": "ask"}}), Asking::Open);
    let handle = office.begin("go").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let ask = handle.session().unwrap().unwrap().open_asks().next().unwrap().0.clone();
    handle.close().await;
    let letter = Letter::Answer { ask, answer: Answer::Yes { scope: Scope::Once } };
    let posted = Posted { id: LetterId::fresh(&*office.ids), root: office.session.clone(), to: office.session.clone(), letter };
    posse_session::Inbox::post(&office.memory, posted).await.unwrap();
    office.asking = Asking::Nobody;
    let handle = office.open(Vec::new()).await;
    settled(&handle).await;
    handle.close().await;
    assert_eq!(last_outcome(&office).await, "done");
}

async fn last_outcome(office: &Office) -> &'static str {
    let records = office.records().await;
    let found = records.iter().rev().find_map(|record| match &record.event {
        Event::CallFinished { outcome, .. } => Some(outcome.word()),
        _ => None,
    });
    found.unwrap_or("none")
}

#[tokio::test(start_paused = true)]
async fn a_mode_answers_for_the_user_and_leaves_denies_alone() {
    let mut office = Office::new([call("touch", "a"), say("ok")]);
    (office.rules, office.mode) = (json!("ask"), Mode::Bypass);
    office.run("go").await;
    assert_eq!(last_outcome(&office).await, "done");
    let mut office = Office::new([call("touch", "a"), say("ok")]);
    (office.rules, office.mode) = (json!("deny"), Mode::Bypass);
    office.run("go").await;
    assert_eq!(last_outcome(&office).await, "denied");
}

#[tokio::test(start_paused = true)]
async fn the_step_limit_gives_one_closing_step_without_tools() {
    let mut office = Office::with_model(Scripted::with(|seen| match seen.tool_choice {
        ToolChoice::None => say("so far so good"),
        ToolChoice::Auto => call("touch", &seen.position.to_string()),
    }));
    office.limits = Limits { steps: Some(2), ..Limits::default() };
    let session = office.run("go").await;
    let seen = office.model.seen();
    assert_eq!((seen.len(), session.hold()), (3, Some(Hold::Limit)));
    assert_eq!(seen[2].head.tools.len(), office.tools().len(), "the tools stay in the head");
    assert!(office.shown().last().unwrap().contains("last message"), "{:?}", office.shown());
}

#[tokio::test(start_paused = true)]
async fn a_token_budget_refuses_the_step_before_the_call() {
    let mut office = Office::new([call("touch", "a").using(4_000, 50), call("touch", "b").using(4_000, 50), say("never")]);
    office.limits = Limits { tokens: Some(9_000), ..Limits::default() };
    let session = office.run("go").await;
    assert_eq!((office.model.seen().len(), session.hold()), (2, Some(Hold::Limit)));
    assert!(session.round().error.contains("token limit"), "{}", session.round().error);
    assert!(office.model.seen()[1].output_max <= 9_000 - 4_050 - 4_000, "the output is lowered to what is left");
}

#[tokio::test(start_paused = true)]
async fn a_lane_lets_so_many_through_at_once() {
    let mut office = Office::new([say("ok").after(Duration::from_secs(1))]);
    office.lanes = std::collections::HashMap::from([("scripted".to_owned(), 1)]);
    let hub = office.hub();
    let began = tokio::time::Instant::now();
    let mut handles = Vec::new();
    for nth in 0..3 {
        let session = posse_session::SessionId::new(format!("ses_{nth}"));
        let mut created = office.created();
        if let Event::Created { root, .. } = &mut created {
            *root = session.clone();
        }
        handles.push(hub.create(session, created, office.entry("go"), office.outfits(), office.limits).await.unwrap());
    }
    for handle in &handles {
        settled(handle).await;
    }
    assert!(Duration::from_secs(3) <= began.elapsed(), "one after the other: {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_changed_since_the_session_began_is_said_once_and_the_head_stays() {
    let mut office = Office::new([say("one"), say("two"), say("three")]);
    office.run("first").await;
    office.system[1] = "<env> tomorrow".into();
    let handle = office.open(vec![Command::Say(office.entry("second"))]).await;
    settled(&handle).await;
    let seen = office.model.seen();
    assert_eq!(seen[0].head, seen[1].head);
    assert_eq!(office.shown()[..3], ["user: first", "agent: one", "user: second"]);
    assert!(office.shown()[3].contains("tomorrow"));
    assert_eq!(office.names().await.iter().filter(|name| *name == "configured").count(), 1);
    handle.close().await;
    // The same is not told again.
    let handle = office.open(vec![Command::Say(office.entry("third"))]).await;
    settled(&handle).await;
    assert_eq!(office.shown().iter().filter(|line| line.contains("tomorrow")).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn long_texts_live_in_blobs_and_come_back() {
    let long = "x".repeat(100_000);
    let office = Office::new([say(&long), say("ok")]);
    office.run(&long).await;
    let raw = posse_session::Log::read(&office.memory, &office.session, 0, 100).await.unwrap();
    assert!(raw.iter().all(|record| serde_json::to_string(&record.event).unwrap().len() < posse_session::EVENT_BYTES_MAX));
    let handle = office.open(vec![Command::Say(office.entry("more"))]).await;
    settled(&handle).await;
    assert!(office.shown() == [format!("user: {long}"), format!("agent: {long}"), "user: more".into()]);
}

#[tokio::test(start_paused = true)]
async fn steps_whose_calls_are_all_refused_count_and_give_their_reservation_back() {
    let mut office = Office::with_model(Scripted::with(|seen| match seen.tool_choice {
        ToolChoice::None => say("summed up"),
        ToolChoice::Auto => call("touch", &seen.position.to_string()).using(100, 10),
    }));
    office.rules = json!("deny");
    office.limits = Limits { steps: Some(3), tokens: Some(40_000), ..Limits::default() };
    let session = office.run("go").await;
    assert_eq!((office.model.seen().len(), session.hold()), (4, Some(Hold::Limit)));
    assert!(office.model.seen()[3].output_max == 8_192, "nothing stays reserved: {}", office.model.seen()[3].output_max);
}

#[tokio::test(start_paused = true)]
async fn a_panic_anywhere_in_the_work_is_an_answer_and_not_a_hang() {
    let office = Office::new([ScriptedReply::call("touch", json!({"panic": true})), say("never")]);
    let session = office.run("go").await;
    assert_eq!(session.hold(), Some(Hold::ModelError));
    assert!(session.round().error.contains("posse itself broke"), "{}", session.round().error);
}

#[tokio::test(start_paused = true)]
async fn a_ceiling_is_judged_beside_the_rules_and_lifts_nothing() {
    let mut office = Office::new([call("touch", "a"), call("touch", "b"), say("ok")]);
    office.rules = json!({"*": "allow", "touch": {"a": "ask"}});
    office.ceiling = vec![json!({"*": "allow", "touch": {"a": "deny"}})];
    office.run("go").await;
    assert!(office.shown()[2].contains("Denied by the rule touch(a) (ceiling)"), "{:?}", office.shown());
    assert_eq!(office.witness.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn kinds_of_failure_are_counted_apart() {
    let failures = [ModelFailure::Network, ModelFailure::Network, ModelFailure::Malformed, ModelFailure::Cut];
    let office = Office::with_model(Scripted::with(move |seen| match failures.get(seen.attempt as usize) {
        Some(failure) => ScriptedReply::failing(*failure, "again"),
        None => say("at last"),
    }));
    let session = office.run("go").await;
    assert_eq!((session.hold(), office.model.seen().len()), (None, 5));
}

#[tokio::test(start_paused = true)]
async fn the_same_call_in_three_prompts_is_no_loop() {
    let mut office = Office::with_model(Scripted::with(|seen| if seen.position % 2 == 0 { call("touch", "same") } else { say("ok") }));
    office.rules = json!({"*": "allow", "doom_loop": "ask"});
    office.run("one").await;
    for prompt in ["two", "three", "four"] {
        let handle = office.open(vec![Command::Say(office.entry(prompt))]).await;
        settled(&handle).await;
        handle.close().await;
    }
    assert_eq!(office.witness.lock().unwrap().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_the_user_and_says_so() {
    let office = Office::new([call("slow", "x"), say("ok")]);
    let handle = office.begin("go").await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    for nth in 0..posse_session::QUEUE_MAX {
        handle.say(office.entry(&nth.to_string())).await.unwrap();
    }
    assert_eq!(handle.say(office.entry("one too many")).await, Err(posse_engine::RunError::QueueFull));
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_turned_back_or_forward_makes_nobody_wait() {
    const DAY: i64 = 86_400_000;
    for turn in [-DAY, DAY] {
        let office = Office::new([call("touch", "a").after_failures(ModelFailure::Network, "down", 2), say("ok")]);
        let began = tokio::time::Instant::now();
        let handle = office.begin("go").await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        office.clock.turn(turn);
        settled(&handle).await;
        assert!(began.elapsed() < Duration::from_secs(10), "turned by {turn}: {:?}", began.elapsed());
        let records = office.records().await;
        assert!(records.windows(2).all(|pair| pair[0].seq + 1 == pair[1].seq), "order comes from seq, not from time");
        let calls: Vec<String> = records.iter().map(|record| record.batch.to_string()).collect();
        assert!(calls.is_sorted(), "ids go on growing: {calls:?}");
    }
}
