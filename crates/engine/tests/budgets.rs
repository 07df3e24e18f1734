//! What agents may use up: a budget of their own bounds everything below them, is asked before every call, and hurts nobody else.

#![allow(clippy::unwrap_used)]

mod office;

use std::{collections::HashMap, time::Duration};

use office::{
    Office, background, check_tree, ends, last, limits, log, notices, outcomes, prompt, say, settled, summaries, survives_every_cut, task,
};
use posse_engine::Handle;
use posse_models::{Scripted, ScriptedReply, Seen};
use posse_session::{
    Command, Entry, Event, Hold, How, Limit, Limits, ModelFacts, ModelFailure, Prices, Priority, Record, Status, Summary, Usage,
};
use serde_json::{Value, json};

/// What most of these agents may spend. The first request of a session alone is more than a thousand tokens here.
const BUDGET: u64 = 50_000;

fn is(seen: &Seen, words: &str) -> bool {
    prompt(seen) == format!("user: {words}")
}

fn tokens(limit: u64) -> Limits {
    Limits { tokens: Some(limit), ..Limits::default() }
}

/// Work for a scout that is waited for.
fn scout(description: &str, prompt: &str) -> Value {
    let mut input = task(description, prompt);
    input["subagent_type"] = json!("scout");
    input
}

/// How often the model was asked by a session with this prompt.
fn asked(office: &Office, words: &str) -> usize {
    office.model.seen().iter().filter(|seen| is(seen, words)).count()
}

/// What a request is worth at least, as the ledger counts it.
fn estimate(seen: &Seen) -> u64 {
    let bytes = serde_json::to_vec(&seen.head).unwrap().len()
        + seen.messages.iter().map(|message| serde_json::to_vec(message).unwrap().len()).sum::<usize>();
    bytes as u64 / 4
}

async fn below(office: &Office) -> Vec<Summary> {
    summaries(&office.memory).await.into_iter().skip(1).collect()
}

/// A worker that gives its money to a scout, and one beside it that is as large and keeps to itself.
fn spender(says: &'static str) -> Office {
    let mut office = Office::with_model(Scripted::with(move |seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call("agent", task("spends", "spend")).and_call("agent", task("saves", "save")),
        _ if is(seen, "go") => say("I go on"),
        0 if is(seen, "spend") => say(says).and_call("agent", scout("scouts", "look around")).using(1_000, 500),
        0 if is(seen, "look around") => say("I saw much").using(46_000, 2_000),
        _ if is(seen, "spend") => say("never"),
        0 => ScriptedReply::call("peek", json!({})).using(20_000, 500),
        _ => say("saved").using(20_000, 500),
    }));
    office.budgets = HashMap::from([("worker".to_owned(), tokens(BUDGET))]);
    office
}

/// A budget counts what is below too, refuses before the call, and ends its agent with what it had said. Others go on.
#[tokio::test(start_paused = true)]
async fn an_agents_budget_bounds_everything_below_it_and_nobody_else() {
    for (says, how) in [("I ask a scout", How::Limit), ("", How::Failed)] {
        let office = spender(says);
        office.run("go").await;
        let words = format!("the token limit of this agent of {BUDGET} is used up (49500 spent)");
        let ended = ends(&office.records().await);
        assert_eq!(ended.len(), 2);
        let spent = ended.iter().find(|(_, result)| result.contains(&words)).unwrap_or_else(|| panic!("{ended:?}"));
        assert_eq!(spent.0, how);
        if how == How::Limit {
            assert!(spent.1.starts_with(&format!("I ask a scout\n\nlimit: {words}\n\ntask_id: ")), "{}", spent.1);
        } else {
            assert!(spent.1.starts_with(&format!("The task failed before it was done: {words}\n\n")), "{}", spent.1);
        }
        let saved = ended.iter().find(|(_, result)| result != &spent.1).unwrap();
        assert!(saved.0 == How::Completed && saved.1.starts_with("saved"), "{ended:?}");
        assert_eq!((asked(&office, "spend"), asked(&office, "save")), (1, 2), "refused before the call");
        let all = summaries(&office.memory).await;
        assert_eq!(all[0].status, Status::Completed, "a child's own budget is not the run's");
        assert_eq!(limits(&office.records().await), []);
        assert_eq!(limits(&log(&office.memory, &all[1].session).await), [(Limit::Tokens, true)]);
        check_tree(&office, says).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_anywhere_around_a_budget_is_survivable() {
    let office = spender("I ask a scout");
    office.run("go").await;
    survives_every_cut(office, async |office, what| {
        for child in below(office).await {
            assert!(matches!(child.status, Status::Completed | Status::Limit), "{what}: {child:#?}");
        }
        assert_eq!(limits(&office.records().await), [], "{what}");
    })
    .await;
}

/// What is far below is refused by the budget above it, in words that say whose it is.
#[tokio::test(start_paused = true)]
async fn a_budget_refuses_those_far_below_by_name() {
    let mut office = Office::with_model(Scripted::with(|seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call("agent", task("leads", "lead")),
        _ if is(seen, "go") => say("I go on"),
        0 if is(seen, "lead") => say("I lead").and_call("agent", scout("scouts", "look around")).using(1_000, 0),
        0 => say("I begin").and_call("peek", json!({})).using(48_000, 0),
        _ => say("never"),
    }));
    office.budgets = HashMap::from([("worker".to_owned(), tokens(BUDGET))]);
    office.run("go").await;
    let all = summaries(&office.memory).await;
    let ended = ends(&log(&office.memory, &all[1].session).await);
    let words = format!("limit: the token limit of {} above it of {BUDGET} is used up (49000 spent)", all[1].session);
    assert!(ended[0].0 == How::Limit && ended[0].1.starts_with(&format!("I begin\n\n{words}")), "{ended:?}");
    assert_eq!(limits(&log(&office.memory, &all[2].session).await), [(Limit::Tokens, true)]);
    assert_eq!((asked(&office, "lead"), asked(&office, "look around")), (1, 1));
    assert_eq!(all[0].status, Status::Completed);
    check_tree(&office, "far below").await;
}

/// Children at the same time share what is left: together they never spend more, whatever they are allowed one by one.
#[tokio::test(start_paused = true)]
async fn a_budget_is_not_overdrawn_by_children_at_the_same_time() {
    let mut office = Office::with_model(Scripted::with(|seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call("agent", task("leads", "lead")),
        _ if is(seen, "go") => say("I go on"),
        0 if is(seen, "lead") => (0..8)
            .fold(say("I lead"), |reply, at| reply.and_call("agent", scout("scouts", &format!("look {at}"))))
            .using(estimate(seen), 100),
        // Everybody writes as much as it may.
        0 => say("I saw").using(estimate(seen), seen.output_max).after(Duration::from_secs(5)),
        _ => say("led").using(estimate(seen), seen.output_max),
    }));
    let most = BUDGET - 10_000;
    office.budgets = HashMap::from([("worker".to_owned(), tokens(most))]);
    office.run("go").await;
    let spent: u64 = below(&office).await.iter().map(|summary| summary.usage.tokens()).sum();
    assert!(spent <= most, "{spent} of {most}");
    assert!(most / 2 < spent, "it was used: {spent}");
    let served = below(&office).await.iter().filter(|summary| summary.agent == "scout" && summary.steps == 1).count();
    assert!(0 < served && served < 8, "some of them: {served}");
    check_tree(&office, "at once").await;
}

/// A task is not started where nothing is left for it; that is said in words, by whose limit.
#[tokio::test(start_paused = true)]
async fn a_task_that_nothing_is_left_for_is_not_started() {
    let spawns = |seen: &Seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call("agent", task("leads", "lead")),
        0 => say("I lead").and_call("agent", scout("scouts", "look around")).using(BUDGET, 1_000),
        _ => say("I go on"),
    };
    let mut office = Office::with_model(Scripted::with(spawns));
    office.budgets = HashMap::from([("worker".to_owned(), tokens(BUDGET))]);
    office.run("go").await;
    let all = summaries(&office.memory).await;
    assert_eq!(all.len(), 2);
    let refused = outcomes(&log(&office.memory, &all[1].session).await, "agent");
    assert_eq!(refused, [format!("error No task was started: the token limit of this agent of {BUDGET} is used up (51000 spent).")]);
    assert_eq!((all[0].status, all[1].status), (Status::Completed, Status::Limit));
    check_tree(&office, "own").await;

    // The same by the whole tree's limit, which ends the run.
    let mut office = Office::with_model(Scripted::with(spawns));
    office.limits = tokens(BUDGET);
    let session = office.run("go").await;
    let all = summaries(&office.memory).await;
    let refused = outcomes(&log(&office.memory, &all[1].session).await, "agent");
    assert_eq!(refused, [format!("error No task was started: the token limit of {BUDGET} is used up (51000 spent).")]);
    assert_eq!(session.hold(), Some(Hold::Limit));
    assert_eq!((all[0].status, all[1].status), (Status::Limit, Status::Limit));
    assert_eq!(limits(&office.records().await), [(Limit::Tokens, false)]);
    assert_eq!(limits(&log(&office.memory, &all[1].session).await), [(Limit::Tokens, false)]);
    let ended = ends(&office.records().await);
    assert!(ended[0].0 == How::Limit && ended[0].1.starts_with("I lead\n\nlimit: the token limit of "), "{ended:?}");
    check_tree(&office, "tree").await;
}

/// Money is a budget like any other.
#[tokio::test(start_paused = true)]
async fn an_agents_budget_may_be_money() {
    let prices = Prices { input: 1.0, output: 10.0, ..Prices::default() };
    let facts =
        ModelFacts { name: "scripted/script".into(), provider: "scripted".into(), context: 200_000, output: 8_192, prices, images: false };
    let mut office = Office::with_model(
        Scripted::with(|seen| match seen.position {
            0 if is(seen, "go") => ScriptedReply::call("agent", task("spends", "spend")),
            _ if is(seen, "go") => say("I go on"),
            0 => say("I begin").and_call("peek", json!({})).using(10_000, 9_000),
            _ => say("never"),
        })
        .with_facts(facts),
    );
    office.budgets = HashMap::from([("worker".to_owned(), Limits { cost_usd: Some(0.1), ..Limits::default() })]);
    office.run("go").await;
    let ended = ends(&office.records().await);
    let words = "I begin\n\nlimit: the cost limit of this agent of $0.10 is used up ($0.1000 spent)";
    assert!(ended[0].0 == How::Limit && ended[0].1.starts_with(words), "{ended:?}");
    assert_eq!(asked(&office, "spend"), 1);
    assert_eq!(summaries(&office.memory).await[0].status, Status::Completed);
    check_tree(&office, "money").await;
}

/// What was spent stays spent: by another process and after a message too, and whoever has nothing left says so once.
#[tokio::test(start_paused = true)]
async fn what_was_spent_stays_spent() {
    let mut office = Office::with_model(Scripted::with(|seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call("agent", background("part", "spend")),
        _ if last(seen) == "user: ask again" => ScriptedReply::call("send_message", json!({"to": "part", "message": "more?"})),
        _ if is(seen, "go") => say("ok"),
        0 => say("spent it").using(BUDGET - 1_000, 0),
        _ => say("never"),
    }));
    office.budgets = HashMap::from([("worker".to_owned(), tokens(BUDGET))]);
    office.run("go").await;
    let handle = office.open(vec![Command::Say(office.entry("ask again"))]).await;
    let session = settled(&handle).await;
    handle.close().await;
    assert_eq!(session.hold(), None);
    assert_eq!(asked(&office, "spend"), 1, "nobody was asked again");
    let heard = notices(&office.records().await);
    assert!(heard.len() == 2 && heard[0].contains("[task part completed]"), "{heard:?}");
    assert!(heard[1].contains(&format!("the token limit of this agent of {BUDGET} is used up (49000 spent)")), "{heard:?}");
    check_tree(&office, "spent").await;
}

/// The tree's limits are as they were: of tasks, and of steps with a last one for the root.
#[tokio::test(start_paused = true)]
async fn the_trees_limits_hold_beside_the_agents_own() {
    let mut office = spender("I ask a scout");
    office.limits.tasks = Some(2);
    office.run("go").await;
    assert_eq!(below(&office).await.len(), 2);
    check_tree(&office, "tasks").await;

    let mut office = Office::with_model(Scripted::with(|seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call("agent", background("part", "work")),
        _ if is(seen, "go") => say("summed up"),
        position => say(&format!("step {position}")).and_call("peek", json!({})).after(Duration::from_secs(1)),
    }));
    office.limits.steps = Some(6);
    office.budgets = HashMap::from([("worker".to_owned(), tokens(1_000_000))]);
    let session = office.run("go").await;
    assert_eq!(session.hold(), Some(Hold::Limit));
    let all = summaries(&office.memory).await;
    assert_eq!(all[1].status, Status::Limit);
    assert_eq!(limits(&log(&office.memory, &all[1].session).await), [(Limit::Steps, false)]);
    assert_eq!(all[0].steps + all[1].steps, 7, "one beyond the limit, to sum up");
    check_tree(&office, "steps").await;
}

/// An agent's own limit of steps, by budget, ends it with what it had said.
#[tokio::test(start_paused = true)]
async fn an_agents_budget_may_be_steps() {
    let mut office = Office::with_model(Scripted::with(|seen| match seen.position {
        0 if is(seen, "go") => ScriptedReply::call("agent", task("walks", "walk")),
        _ if is(seen, "go") => say("I go on"),
        position => say(&format!("step {position}")).and_call("peek", json!({"what": position.to_string()})),
    }));
    office.budgets = HashMap::from([("worker".to_owned(), Limits { steps: Some(3), ..Limits::default() })]);
    office.run("go").await;
    let ended = ends(&office.records().await);
    assert!(ended[0].0 == How::Limit && ended[0].1.starts_with("step 2\n\nlimit: the limit of 3 steps is used up"), "{ended:?}");
    assert_eq!(asked(&office, "walk"), 3);
    assert_eq!(summaries(&office.memory).await[0].status, Status::Completed);
    check_tree(&office, "steps").await;
}

/// What a request is estimated at that the model was really sent.
fn sent(office: &Office, at: usize) -> u64 {
    let (_, request) = &office.sent.lock().unwrap()[at];
    (request.head.len() + request.messages.iter().map(|message| message.len()).sum::<usize>()) as u64 / 4
}

fn calls_made(office: &Office) -> usize {
    office.sent.lock().unwrap().len()
}

/// What steps without an answer are said to have cost.
fn lost(records: &[Record]) -> Vec<Usage> {
    let of = |record: &Record| match record.event {
        Event::StepFailed { usage, .. } | Event::TookOver { usage, .. } => Some(usage),
        _ => None,
    };
    records.iter().filter_map(of).collect()
}

/// However a call is dropped: its input was sent, and counts in the log, so after a restart too.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_has_cost_what_was_sent() {
    for how in ["interrupt", "now", "time", "deadline", "crash"] {
        let mut office = Office::with_model(Scripted::with(|seen| match (last(seen).as_str(), seen.attempt) {
            ("user: go", 0) => say("too late").after(Duration::from_secs(100)),
            _ => say("ok").using(10, 1),
        }));
        if how == "deadline" {
            office.step_max = Duration::from_secs(2);
        }
        let handle = office.begin("go").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let handle = match how {
            "crash" => {
                handle.close().await;
                office.open(Vec::new()).await
            }
            _ => handle,
        };
        match how {
            "interrupt" => handle.interrupt().await.unwrap(),
            "now" => handle.say(Entry { priority: Priority::Now, ..office.entry("stop that") }).await.unwrap(),
            "time" => handle.limit(Limit::Time, "enough".into()).await.unwrap(),
            _ => {}
        }
        let session = settled(&handle).await;
        handle.close().await;
        let estimate = sent(&office, 0);
        assert!(500 < estimate, "{how}: {estimate}");
        let records = office.records().await;
        assert_eq!(lost(&records), [Usage { input: estimate, ..Usage::default() }], "{how}");
        let answered = if matches!(how, "now" | "crash") { Usage { input: 10, output: 1, ..Usage::default() } } else { Usage::default() };
        let whole = Usage { input: estimate + answered.input, output: answered.output, ..Usage::default() };
        assert_eq!(session.usage(), whole, "{how}");
        assert_eq!(summaries(&office.memory).await[0].usage, whole, "{how}: as the view has it");
        check_tree(&office, how).await;
    }
}

/// Asking again and again is no way around a budget. What was refused before any work costs nothing.
#[tokio::test(start_paused = true)]
async fn a_storm_of_retries_ends_at_the_budget() {
    let prices = Prices { input: 1.0, output: 10.0, ..Prices::default() };
    let facts =
        ModelFacts { name: "scripted/script".into(), provider: "scripted".into(), context: 200_000, output: 8_192, prices, images: false };
    let failing = |failure: ModelFailure| {
        let model = Scripted::with(move |_| ScriptedReply::failing(failure, "broken")).with_facts(facts.clone());
        Office::with_model(model)
    };
    let free = failing(ModelFailure::Cut);
    free.run("go").await;
    assert_eq!(calls_made(&free), 6, "five more tries, as far as no budget says otherwise");
    let each = sent(&free, 0);
    let spent = each * 5 / 2;
    let by_tokens = tokens(spent);
    let by_money = Limits { cost_usd: Some(spent as f64 / 1_000_000.0), ..Limits::default() };
    for (limits, limit) in [(by_tokens, Limit::Tokens), (by_money, Limit::Cost)] {
        for failure in [ModelFailure::Cut, ModelFailure::Idle] {
            let mut office = failing(failure);
            office.limits = limits;
            let session = office.run("go").await;
            assert_eq!((session.hold(), calls_made(&office)), (Some(Hold::Limit), 2), "{failure:?} {limit:?}");
            assert_eq!(session.usage().input, 2 * each, "{failure:?} {limit:?}");
            assert_eq!(self::limits(&office.records().await), [(limit, false)]);
            // What was spent stays spent for whoever goes on.
            let handle = office.open(vec![Command::Resume { by: posse_session::By::User }]).await;
            settled(&handle).await;
            handle.close().await;
            assert_eq!(calls_made(&office), 2, "{failure:?} {limit:?}");
        }
        for failure in [ModelFailure::RateLimited, ModelFailure::Overloaded, ModelFailure::Server, ModelFailure::Network] {
            let mut office = failing(failure);
            office.limits = limits;
            let session = office.run("go").await;
            assert_eq!((session.hold(), calls_made(&office)), (Some(Hold::ModelError), 10), "{failure:?} {limit:?}");
            assert_eq!(session.usage(), Usage::default(), "{failure:?} {limit:?}");
        }
    }
}

/// A step that gives way to an urgent word gives back what was set aside for it, and the next one is counted.
#[tokio::test(start_paused = true)]
async fn what_comes_after_an_urgent_word_counts_against_the_budget() {
    let mut office = Office::with_model(Scripted::with(|seen| match last(seen).as_str() {
        "user: go" => say("too late").after(Duration::from_secs(100)),
        "user: stop that" => say("on it").and_call("peek", json!({})).using(BUDGET - 10_000, 0),
        _ => say("never"),
    }));
    office.limits = tokens(BUDGET);
    let handle = office.begin("go").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.say(Entry { priority: Priority::Now, ..office.entry("stop that") }).await.unwrap();
    let session = settled(&handle).await;
    handle.close().await;
    assert_eq!((session.hold(), calls_made(&office)), (Some(Hold::Limit), 2));
    let spent = sent(&office, 0) + BUDGET - 10_000;
    let said: Vec<String> = office
        .records()
        .await
        .into_iter()
        .filter_map(|record| match record.event {
            Event::LimitReached { words, .. } => Some(words),
            _ => None,
        })
        .collect();
    assert_eq!(said, [format!("the token limit of {BUDGET} is used up ({spent} spent)")]);
}

/// The step of an owner that died may be billed, so the next owner counts it before it asks again.
#[tokio::test(start_paused = true)]
async fn the_step_of_a_lost_owner_is_spent() {
    let mut office = Office::with_model(Scripted::with(|_| say("too late").after(Duration::from_secs(100))));
    let asked_and_died = async |handle: Handle| {
        tokio::time::sleep(Duration::from_secs(1)).await;
        handle.close().await;
    };
    asked_and_died(office.begin("go").await).await;
    asked_and_died(office.open(Vec::new()).await).await;
    let each = sent(&office, 0);
    office.limits = tokens(each * 5 / 2);
    let handle = office.open(Vec::new()).await;
    let session = settled(&handle).await;
    handle.close().await;
    assert_eq!((session.hold(), calls_made(&office)), (Some(Hold::Limit), 2), "two may be billed, and a third does not fit");
    assert_eq!(session.usage().input, 2 * each);
}
