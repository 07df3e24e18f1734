//! Forks in the loop: workers that begin with everything their caller has said, byte for byte, and differ in one message.

#![allow(clippy::unwrap_used)]

mod office;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use office::{
    Office, check_tree, ends, last, limits, lines, log, notices, outcomes, say, settled, summaries, survives_every_cut,
    survives_every_fault,
};
use posse_models::{Scripted, ScriptedReply, Seen};
use posse_session::{
    Answer, Asking, Before, BoxFuture, By, Command, Entry, Event, Forks, Hook, HookedCall, How, Inbox as _, Kind, Letter, LetterId, Limit,
    Limits, Message, ModelFacts, ModelFailure, Part, Posted, Prices, Record, Request, Scope, SessionId, Status, Summary,
};
use serde_json::{Value, json};

const MARK: &str = "<fork-boilerplate>";
const FORK_IN_FORK: &str = "a fork does not fork again";

/// What a fork was told to do last; nothing for whoever is none.
fn told(seen: &Seen) -> Option<String> {
    let shown = lines(&seen.messages);
    let directive = shown.iter().find(|line| line.starts_with("user: ") && line.contains(MARK))?;
    Some(directive.split_once("Your task:\n")?.1.to_owned())
}

fn fork(description: &str, prompt: &str) -> Value {
    json!({"description": description, "prompt": prompt, "subagent_type": "fork"})
}

/// A fork that nobody waits for; it can be spoken to by its description.
fn launched(description: &str, prompt: &str) -> Value {
    json!({"description": description, "prompt": prompt, "subagent_type": "fork", "run_in_background": true, "name": description})
}

fn office(script: impl Fn(&Seen) -> ScriptedReply + Send + Sync + 'static) -> Office {
    office_on(facts(200_000, Prices::default()), script)
}

fn office_on(facts: ModelFacts, script: impl Fn(&Seen) -> ScriptedReply + Send + Sync + 'static) -> Office {
    Office { forks: Forks::Explicit, ..Office::with_model(Scripted::with(script).with_facts(facts)) }
}

fn facts(context: u64, prices: Prices) -> ModelFacts {
    ModelFacts { name: "scripted/script".into(), provider: "scripted".into(), context, output: 500, prices, images: false }
}

/// What has been read before costs less.
fn caching() -> ModelFacts {
    facts(200_000, Prices { input: 3.0, output: 15.0, cache_read: 0.3, cache_write: 3.75, unknown: false })
}

/// Every request of a session, the oldest first, and when it was made.
fn requests_of(office: &Office, session: &SessionId) -> Vec<(tokio::time::Instant, Request)> {
    office.sent.lock().unwrap().iter().filter(|(_, request)| request.session == *session).cloned().collect()
}

/// The forks of a tree, the oldest first.
async fn forks(office: &Office) -> Vec<Summary> {
    summaries(&office.memory).await.into_iter().filter(|summary| summary.kind == Some(Kind::Fork)).collect()
}

fn body(request: &Request) -> Vec<u8> {
    [&request.head[..], &request.messages.concat()].concat()
}

fn count(records: &[Record], is: impl Fn(&Event) -> bool) -> usize {
    records.iter().filter(|record| is(&record.event)).count()
}

/// The request whose reply held the calls that made this fork: the last of its caller's whose messages the fork begins with.
fn split_from<'a>(parents: &'a [(tokio::time::Instant, Request)], fork: &Request) -> &'a Request {
    let begins = |request: &&Request| request.messages.len() < fork.messages.len() && fork.messages.starts_with(&request.messages);
    parents.iter().map(|(_, request)| request).rfind(begins).expect("a fork begins with a request of its caller")
}

/// Siblings begin with the bytes of the request that was answered with their calls, go on with that answer and one text for
/// all of its calls, and differ in what they are told to do and nowhere else.
#[track_caller]
fn assert_shared(parents: &[(tokio::time::Instant, Request)], forks: &[Request], prompts: &[&str]) {
    let parent = split_from(parents, &forks[0]);
    for (fork, prompt) in forks.iter().zip(prompts) {
        assert_eq!(fork.head, parent.head, "the head is the caller's");
        assert!(body(fork).starts_with(&body(parent)), "it begins with what its caller had sent");
        assert_eq!(fork.messages.len(), parent.messages.len() + 2, "and goes on with the answer and the directive");
        assert_eq!((fork.tool_choice, fork.idle_max), (parent.tool_choice, parent.idle_max));
        let text = |request: &Request| String::from_utf8(body(request)).unwrap();
        let cut = |body: String, prompt: &str| body.rsplit_once(&format!("Your task:\\n{prompt}")).map(|(before, _)| before.to_owned());
        assert_eq!(cut(text(fork), prompt).unwrap(), cut(text(&forks[0]), prompts[0]).unwrap(), "only the directive differs");
    }
}

/// The root touches something, then forks twice beside another call, then answers with what it heard.
fn pair(seen: &Seen) -> ScriptedReply {
    match (told(seen), seen.position) {
        (Some(prompt), 2) => ScriptedReply::call("touch", json!({"what": prompt})),
        (Some(prompt), _) => say(&format!("did {prompt}")),
        (None, 0) => ScriptedReply::call("touch", json!({"what": "first"})),
        (None, 1) => ScriptedReply { text: "I split".into(), ..ScriptedReply::call("touch", json!({"what": "beside"})) }
            .and_call("agent", fork("left", "go left"))
            .and_call("agent", fork("right", "go right")),
        (None, _) => say("both are back"),
    }
}

/// CC-014, CC-084, CC-098, CC-192, CC-193, CC-194, CC-195, CC-196, CC-197, CC-199, CC-275, CC-283, CC-290: the same bytes up to the
/// directive, whatever had finished; the caller itself goes on with the real results.
#[tokio::test(start_paused = true)]
async fn siblings_share_every_byte_with_their_caller_up_to_the_directive() {
    for calls_max in [1, 8] {
        // One call at a time: the first has its result when the forks begin, and the first fork when the second does.
        let office = Office { calls_max, ..office(pair) };
        office.run("go").await;
        let forks = forks(&office).await;
        assert_eq!(forks.iter().map(|fork| fork.title.as_str()).collect::<Vec<_>>(), ["left (@fork subagent)", "right (@fork subagent)"]);
        let parents = requests_of(&office, &office.session);
        let first: Vec<Request> = forks.iter().map(|fork| requests_of(&office, &fork.session)[0].1.clone()).collect();
        assert_shared(&parents, &first, &["go left", "go right"]);
        let seen = office.model.seen().into_iter().find(|seen| seen.session == forks[1].session).unwrap();
        let shown = lines(&seen.messages);
        assert_eq!(
            shown[..4],
            ["user: go", "agent: touch({\"what\":\"first\"})", "user: = touch first ok", "agent: I split"],
            "{shown:#?}"
        );
        let placeholders: Vec<&String> = shown[7..10].iter().collect();
        assert!(placeholders[0].starts_with("user: ") && placeholders.iter().all(|text| *text == placeholders[0]), "{shown:#?}");
        assert!(shown[10].contains(MARK) && shown.len() == 11, "{shown:#?}");
        // What it was told is heard once, and its result is an ordinary one.
        let results = outcomes(&office.records().await, "agent");
        assert_eq!(
            results,
            [format!("did go left\n\ntask_id: {}", forks[0].session), format!("did go right\n\ntask_id: {}", forks[1].session)]
        );
        assert!(office.shown().contains(&"user: = touch beside ok".to_owned()), "{:#?}", office.shown());
        assert_eq!(forks.iter().map(|fork| fork.agent.as_str()).collect::<Vec<_>>(), ["fork", "fork"]);
        check_tree(&office, "no crash").await;
    }
}

/// The later steps of a fork begin with its earlier ones, as everybody's do.
#[tokio::test(start_paused = true)]
async fn a_fork_goes_on_from_its_own_bytes() {
    let office = office(pair);
    office.run("go").await;
    for fork in forks(&office).await {
        let sent = requests_of(&office, &fork.session);
        assert_eq!(sent.len(), 2);
        assert!(sent[1].1.messages.starts_with(&sent[0].1.messages) && sent[1].1.head == sent[0].1.head);
        // Not equal bytes, the same ones: what was woven once is lent.
        let parent = split_from(&requests_of(&office, &office.session), &sent[0].1).clone();
        assert!(parent.messages.iter().zip(&sent[0].1.messages).all(|(one, other)| Arc::ptr_eq(one, other)), "nothing is copied");
        assert!(Arc::ptr_eq(&parent.head, &sent[0].1.head));
    }
}

/// A fork of a conversation whose beginning was summed up begins with the summary.
#[tokio::test(start_paused = true)]
async fn a_fork_after_a_summary_begins_with_the_summary() {
    let office = office_on(facts(5_000, Prices::default()), |seen| {
        let all = lines(&seen.messages).join("\n");
        let numbers = all.split("n=").skip(1).filter_map(|rest| rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok());
        let done: usize = numbers.max().unwrap_or(0);
        match (done, told(seen)) {
            _ if last(seen).contains("is about to be replaced by a summary") => say(&format!("It has come to n={done}.")),
            (_, Some(prompt)) => say(&format!("did {prompt}")),
            (0..=11, None) => {
                let text = format!("n={} {}", done + 1, "words ".repeat(300));
                ScriptedReply { text, ..ScriptedReply::call("touch", json!({"what": done.to_string()})) }
            }
            (12, None) => ScriptedReply { text: "n=13".into(), ..ScriptedReply::call("agent", fork("left", "go left")) }
                .and_call("agent", fork("right", "go right")),
            _ => say("done"),
        }
    });
    office.run("go").await;
    assert!(0 < count(&office.records().await, |event| matches!(event, Event::Compacted { .. })));
    let forks = forks(&office).await;
    let first: Vec<Request> = forks.iter().map(|fork| requests_of(&office, &fork.session)[0].1.clone()).collect();
    assert_shared(&requests_of(&office, &office.session), &first, &["go left", "go right"]);
    let seen = office.model.seen().into_iter().find(|seen| seen.session == forks[0].session).unwrap();
    assert!(lines(&seen.messages)[0].contains("replaced by this summary"), "{:?}", lines(&seen.messages)[0]);
    check_tree(&office, "no crash").await;
}

/// A fork whose own work grows too long is summed up like anybody; it is still a fork afterwards, though the directive is gone.
#[tokio::test(start_paused = true)]
async fn a_fork_that_grows_too_long_is_summed_up_and_stays_a_fork() {
    let office = office_on(facts(5_000, Prices::default()), |seen| {
        let all = lines(&seen.messages).join("\n");
        let numbers = all.split("n=").skip(1).filter_map(|rest| rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok());
        let done: usize = numbers.max().unwrap_or(0);
        let is_fork = told(seen).is_some() || 0 < done;
        match done {
            _ if last(seen).contains("is about to be replaced by a summary") => say(&format!("It has come to n={done}.")),
            _ if !is_fork && seen.position == 0 => ScriptedReply::call("agent", fork("left", "go left")),
            _ if !is_fork => say("done"),
            0..=11 => {
                let text = format!("n={} {}", done + 1, "words ".repeat(300));
                ScriptedReply { text, ..ScriptedReply::call("touch", json!({"what": done.to_string()})) }
            }
            12 => ScriptedReply { text: "n=13".into(), ..ScriptedReply::call("agent", fork("deeper", "go deeper")) },
            _ => say("the fork is done"),
        }
    });
    office.run("go").await;
    let forks = forks(&office).await;
    assert_eq!(forks.len(), 1);
    let records = log(&office.memory, &forks[0].session).await;
    assert!(0 < count(&records, |event| matches!(event, Event::Compacted { .. })));
    let refused = outcomes(&records, "agent");
    assert!(refused.len() == 1 && refused[0].contains(FORK_IN_FORK), "{refused:?}");
    assert!(outcomes(&office.records().await, "agent")[0].starts_with("the fork is done"));
    check_tree(&office, "no crash").await;
}

/// A session that is itself a copy of another, made by the user, forks as any: the stretches of both are in its forks.
#[tokio::test(start_paused = true)]
async fn a_session_that_begins_with_anothers_words_forks_too() {
    let mut office = office(|seen| match (told(seen), last(seen).as_str()) {
        (Some(prompt), _) => say(&format!("did {prompt}")),
        (None, "user: go") => say("the old one speaks"),
        (None, "user: split") => ScriptedReply::call("agent", fork("left", "go left")).and_call("agent", fork("right", "go right")),
        (None, _) => say("done"),
    });
    office.run("go").await;
    let segments = posse_session::Session::fold(office.session.clone(), &office.records().await).segments();
    office.session = SessionId::fresh(&*office.ids);
    let first = Some(office.entry("split"));
    let handle =
        office.hub().fork(office.session.clone(), office.created(), segments, first, office.outfits(), office.limits).await.unwrap();
    settled(&handle).await;
    handle.close().await;
    let forks = forks(&office).await;
    let first: Vec<Request> = forks.iter().map(|fork| requests_of(&office, &fork.session)[0].1.clone()).collect();
    assert_shared(&requests_of(&office, &office.session), &first, &["go left", "go right"]);
    let seen = office.model.seen().into_iter().find(|seen| seen.session == forks[0].session).unwrap();
    assert_eq!(lines(&seen.messages)[..3], ["user: go", "agent: the old one speaks", "user: split"]);
    check_tree(&office, "no crash").await;
}

/// Adds words to what is said and changes a call before anybody sees it.
struct Busybody;

impl Hook for Busybody {
    fn name(&self) -> &str {
        "busybody"
    }

    fn looks(&self) -> bool {
        true
    }

    fn message<'a>(&'a self, _: &'a SessionId, entry: &'a mut Entry) -> BoxFuture<'a, ()> {
        Box::pin(async { entry.parts.push(Part::reminder("be kind")) })
    }

    fn before_call<'a>(&'a self, call: &'a HookedCall) -> BoxFuture<'a, Before> {
        Box::pin(async { if call.input["what"] == "beside" { Before::Amend(json!({"what": "changed"})) } else { Before::Go } })
    }

    fn transform<'a>(&'a self, _: &'a SessionId, seen: &'a [Arc<Message>]) -> BoxFuture<'a, Vec<Part>> {
        Box::pin(async move { vec![Part::reminder(format!("so far {}", seen.len()))] })
    }
}

/// With hooks the bytes are shared as well, and hooks see what a fork sees.
#[tokio::test(start_paused = true)]
async fn hooks_leave_the_shared_bytes_alone() {
    let office = Office { hooks: vec![Arc::new(Busybody)], ..office(pair) };
    office.run("go").await;
    let forks = forks(&office).await;
    let first: Vec<Request> = forks.iter().map(|fork| requests_of(&office, &fork.session)[0].1.clone()).collect();
    assert_shared(&requests_of(&office, &office.session), &first, &["go left", "go right"]);
    let seen = office.model.seen().into_iter().find(|seen| seen.session == forks[0].session).unwrap();
    let shown = lines(&seen.messages);
    assert_eq!(shown[0..2], ["user: go", "user: <system-reminder>\nbe kind\n</system-reminder>"]);
    let ours = shown.iter().position(|line| line.contains(MARK)).unwrap();
    let expected = ["be kind", "so far 3"].map(|words| format!("user: <system-reminder>\n{words}\n</system-reminder>"));
    assert_eq!(shown[ours + 1..], expected, "{shown:#?}");
}

/// A fork begins with the same bytes in every process, whatever was only in the memory of the first.
#[tokio::test(start_paused = true)]
async fn a_fork_that_goes_on_in_another_process_begins_with_the_same_bytes() {
    for hooks in [Vec::new(), vec![Arc::new(Busybody) as Arc<dyn Hook>]] {
        let hooked = !hooks.is_empty();
        let office = office(|seen| match (told(seen), seen.position) {
            (Some(_), 4) => say("went on"),
            (None, 3) => {
                let mut input = fork("left", "and more");
                input["task_id"] = json!(lines(&seen.messages).join("\n").split("task_id: ").nth(1).unwrap().lines().next().unwrap());
                ScriptedReply::call("agent", input)
            }
            _ => pair(seen),
        });
        let office = Office { hooks, calls_max: 1, ..office };
        office.run("go").await;
        let memory = office.memory.copy();
        let office = office.reopened(memory);
        let handle = office.open(vec![Command::Say(office.entry("more"))]).await;
        settled(&handle).await;
        handle.close().await;
        let left = &forks(&office).await[0];
        let sent = requests_of(&office, &left.session);
        assert_eq!(sent.len(), 3, "two steps in the first process, one in the second");
        assert!(sent[2].1.head == sent[1].1.head && sent[2].1.messages.starts_with(&sent[1].1.messages), "with hooks: {hooked}");
        assert!(outcomes(&office.records().await, "agent")[2].contains("went on"));
        check_tree(&office, "resumed").await;
    }
}

/// CC-019, CC-044: the caller's model, whatever the call says; and that is said.
#[tokio::test(start_paused = true)]
async fn a_fork_goes_on_with_its_callers_model_whatever_the_call_says() {
    let mut office = office(|seen| match (told(seen), seen.position) {
        (Some(_), _) => say("did it"),
        (None, 0) => {
            let mut input = fork("left", "go left");
            input["model"] = json!("other/backup");
            ScriptedReply::call("agent", input)
        }
        (None, _) => say("done"),
    });
    office.others = vec![backup(|_| say("somebody else"))];
    office.run("go").await;
    let fork = &forks(&office).await[0];
    assert_eq!((fork.model.as_str(), office.others[0].seen().len()), ("scripted/script", 0));
    let result = outcomes(&office.records().await, "agent").remove(0);
    assert!(result.contains("The model that was named was passed over: a fork goes on with its caller's."), "{result}");
}

fn backup(script: impl Fn(&Seen) -> ScriptedReply + Send + Sync + 'static) -> Arc<Scripted> {
    let facts = ModelFacts { name: "other/backup".into(), provider: "other".into(), ..facts(200_000, Prices::default()) };
    Arc::new(Scripted::with(script).with_facts(facts))
}

/// Whoever stands in for the model when the calls are made goes on in the forks.
#[tokio::test(start_paused = true)]
async fn forks_of_a_stand_ins_reply_are_the_stand_ins() {
    let mut office = office(|seen| match seen.position {
        0 => ScriptedReply::failing(ModelFailure::Overloaded, "too busy"),
        _ => say("too late"),
    });
    office.others = vec![backup(|seen| match (told(seen), seen.position) {
        (Some(prompt), _) => say(&format!("did {prompt}")),
        (None, 0) => ScriptedReply::call("agent", fork("left", "go left")).and_call("agent", fork("right", "go right")),
        (None, _) => say("done"),
    })];
    office.fallbacks = vec!["other/backup".to_owned()];
    office.run("go").await;
    let forks = forks(&office).await;
    assert_eq!(forks.iter().map(|fork| fork.model.as_str()).collect::<Vec<_>>(), ["other/backup", "other/backup"]);
    let first: Vec<Request> = forks.iter().map(|fork| requests_of(&office, &fork.session)[0].1.clone()).collect();
    assert_shared(&requests_of(&office, &office.session), &first, &["go left", "go right"]);
    assert_eq!(ends(&office.records().await).len(), 2);
    check_tree(&office, "stood in for").await;
}

/// CC-092, CC-200, CC-202: a fork does not fork, but may give work to an agent that has a name, and that one is nobody's fork.
#[tokio::test(start_paused = true)]
async fn a_fork_does_not_fork_and_may_call_a_named_agent() {
    let office = office(|seen| match (told(seen), seen.position) {
        (None, 0) if office::prompt(seen) == "user: help" => say("helped"),
        (None, 0) => ScriptedReply::call("agent", fork("left", "go left")),
        (None, _) => say("done"),
        (Some(_), 1) => ScriptedReply::call("agent", fork("deeper", "go deeper")).and_call("agent", office::task("helper", "help")),
        (Some(_), _) => say("did it"),
    });
    office.run("go").await;
    let all = summaries(&office.memory).await;
    let kinds: Vec<Option<Kind>> = all.iter().map(|summary| summary.kind).collect();
    assert_eq!(kinds, [Some(Kind::Root), Some(Kind::Fork), Some(Kind::Task)]);
    let results = outcomes(&log(&office.memory, &all[1].session).await, "agent");
    assert!(results[0].starts_with("error ") && results[0].contains(FORK_IN_FORK), "{results:?}");
    assert!(results[1].starts_with("helped"), "{results:?}");
    check_tree(&office, "no crash").await;
}

/// CC-201: whoever has read a fork's directive is one, whatever its birth says; and a named agent may fork.
#[tokio::test(start_paused = true)]
async fn the_directive_alone_is_enough_to_refuse_a_fork() {
    let script = |seen: &Seen| match (told(seen), seen.position) {
        (Some(prompt), _) if prompt == "go left" => say("did it"),
        (_, 0) if office::prompt(seen) == "user: work" => ScriptedReply::call("agent", office::task("worker", "help")),
        (_, 0) => ScriptedReply::call("agent", fork("left", "go left")),
        _ => say("done"),
    };
    let marked = format!("{MARK}\nrules\n</fork-boilerplate>\n\nYour task:\nsomething");
    for (words, expected) in [(marked.as_str(), 0), ("go", 1), ("work", 1)] {
        let office = office(script);
        office.run(words).await;
        assert_eq!(forks(&office).await.len(), expected, "{words}");
        let said = outcomes(&office.records().await, "agent").remove(0);
        assert_eq!(said.contains(FORK_IN_FORK), expected == 0, "{words}: {said}");
    }
}

/// Words of a fork about itself do not make its caller one.
#[tokio::test(start_paused = true)]
async fn a_caller_that_hears_of_the_directive_may_still_fork() {
    let office = office(|seen| {
        let is_fork = lines(&seen.messages).iter().any(|line| line.contains(MARK) && line.contains("Your task:\ngo"));
        match seen.position {
            _ if is_fork => say(&format!("I was told: {MARK} and so on")),
            0 => ScriptedReply::call("agent", launched("left", "go left")),
            1 => say("meanwhile"),
            2 => ScriptedReply::call("agent", fork("right", "go right")),
            _ => say("done"),
        }
    });
    office.run("go").await;
    assert!(notices(&office.records().await)[0].contains(MARK));
    assert_eq!(forks(&office).await.len(), 2, "{:?}", outcomes(&office.records().await, "agent"));
}

/// Forks are switched off unless somebody switches them on: the name is nobody's.
#[tokio::test(start_paused = true)]
async fn without_the_switch_nobody_is_called_fork() {
    let office = Office { forks: Forks::Off, ..office(pair) };
    office.run("go").await;
    assert!(forks(&office).await.is_empty());
    let results = outcomes(&office.records().await, "agent");
    assert!(results.len() == 2 && results.iter().all(|result| result.contains("`fork`")), "{results:?}");
}

/// CC-099, CC-103, CC-198: what a fork may not do by itself is asked of the user, in its name, and the answer lets it go on.
#[tokio::test(start_paused = true)]
async fn the_asks_of_a_fork_reach_the_user_by_its_name() {
    let mut office = office(pair);
    (office.rules, office.asking) = (json!({"*": "allow", "touch": {"*": "allow", "go left": "ask"}}), Asking::Open);
    let handle = office.begin("go").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let asking = forks(&office).await.remove(0);
    let asks: Vec<(&str, usize)> = vec![(asking.agent.as_str(), asking.asks.len())];
    assert_eq!((asks, asking.root.clone()), (vec![("fork", 1)], office.session.clone()), "{asking:#?}");
    assert_eq!(forks(&office).await[1].status, Status::Completed, "its sibling is not held up");
    let letter = Letter::Answer { ask: asking.asks[0].ask.clone(), answer: Answer::Yes { scope: Scope::Once } };
    let posted = Posted { id: LetterId::fresh(&*office.ids), root: office.session.clone(), to: asking.session.clone(), letter };
    office.memory.post(posted).await.unwrap();
    settled(&handle).await;
    handle.close().await;
    assert_eq!(outcomes(&log(&office.memory, &asking.session).await, "touch"), ["touch go left ok"]);
    check_tree(&office, "answered").await;
}

/// What its caller may not do, a fork may not; nobody there to ask is a denial that its caller hears of.
#[tokio::test(start_paused = true)]
async fn a_fork_may_do_what_its_caller_may() {
    let mut office = office(pair);
    office.rules = json!({"*": "allow", "touch": {"*": "allow", "go left": "ask", "go right": "deny"}});
    office.run("go").await;
    for fork in forks(&office).await {
        let results = outcomes(&log(&office.memory, &fork.session).await, "touch");
        assert!(results[0].starts_with("error "), "{results:?}");
        assert_eq!(fork.denied, 1);
    }
}

/// A fork nobody waits for that is slow, spoken to, stopped and woken again, like any task.
fn managed() -> Office {
    office(|seen| match (told(seen), seen.position) {
        (None, 0) => ScriptedReply::call("agent", launched("part", "work")),
        (None, 1) => ScriptedReply::call("send_message", json!({"to": "part", "message": "hurry", "summary": "hurry"})),
        (None, 2) => ScriptedReply::call("slow", json!({"what": "root", "ms": 5_000})),
        (None, 3) => ScriptedReply::call("task_stop", json!({"task_id": "part"})),
        (None, 4) => ScriptedReply::call("send_message", json!({"to": "part", "message": "go on", "summary": "go on"})),
        (None, _) => say("ok"),
        (Some(_), 1) => ScriptedReply::call("slow", json!({"what": "fork", "ms": 2_000})),
        (Some(_), 2) if lines(&seen.messages).join("\n").contains("hurry") => {
            say("I hurry").and_call("slow", json!({"what": "fork", "ms": 600_000}))
        }
        (Some(_), 2) => say("I never heard it"),
        (Some(_), _) => say(&format!("woken by: {}", last(seen).lines().last().unwrap())),
    })
}

#[tokio::test(start_paused = true)]
async fn a_fork_is_spoken_to_stopped_and_woken_like_any_task() {
    let office = managed();
    office.run("go").await;
    let heard = notices(&office.records().await);
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert!(heard[0].starts_with("[task part stopped] part") && heard[0].contains("The last it had said:\nI hurry"), "{heard:?}");
    assert!(heard[1].contains("woken by: go on"), "{heard:?}");
    let fork = &forks(&office).await[0];
    let sent = requests_of(&office, &fork.session);
    assert!(sent.windows(2).all(|pair| pair[1].1.messages.starts_with(&pair[0].1.messages)), "its bytes only grow");
    check_tree(&office, "no crash").await;
}

#[tokio::test(start_paused = true)]
async fn a_fork_that_is_waited_for_too_long_goes_on_in_the_background() {
    let mut office = office(|seen| match (told(seen), seen.position) {
        (None, 0) => ScriptedReply::call("agent", fork("long", "take long")),
        (None, _) => say("I go on"),
        (Some(_), 1) => ScriptedReply::call("slow", json!({"what": "x", "ms": 60_000})),
        (Some(_), _) => say("it took a minute"),
    });
    office.detach_after = Some(Duration::from_secs(10));
    office.run("go").await;
    let records = office.records().await;
    assert_eq!(count(&records, |event| matches!(event, Event::Detached { .. })), 1);
    assert!(notices(&records)[0].contains("it took a minute"), "{:?}", notices(&records));
    check_tree(&office, "detached").await;
}

/// Depth, children, the tree and budgets count a fork as they count anybody.
#[tokio::test(start_paused = true)]
async fn limits_count_forks() {
    type Change = fn(&mut Office);
    let rows: [(&str, Change, usize, &str); 4] = [
        ("depth", |office| office.depth_max = 0, 0, "(limits.depth)"),
        ("children", |office| office.children_max = 1, 1, "(limits.children)"),
        ("tree", |office| office.limits.tasks = Some(1), 1, "(limits.tree)"),
        ("fork's own depth", |office| office.depth_max = 1, 2, ""),
    ];
    for (name, change, expected, words) in rows {
        let mut office = office(pair);
        change(&mut office);
        office.run("go").await;
        assert_eq!(forks(&office).await.len(), expected, "{name}");
        let results = outcomes(&office.records().await, "agent").join("\n");
        assert!(results.contains(words), "{name}: {results}");
        check_tree(&office, name).await;
    }
    let mut office = office(|seen| pair(seen).using(1_000, 10));
    office.limits = Limits { tokens: Some(5_000), ..Limits::default() };
    office.run("go").await;
    let mut reached = limits(&office.records().await);
    for fork in forks(&office).await {
        reached.extend(limits(&log(&office.memory, &fork.session).await));
    }
    assert!(reached.contains(&(Limit::Tokens, false)), "what forks use is the tree's: {reached:?}");
}

/// Six forks that answer after two seconds, the first byte then. When each of them was asked, in seconds, in their order.
async fn asked_at(facts: ModelFacts, first: impl Fn(&Seen) -> ScriptedReply + Send + Sync + 'static, change: fn(&mut Office)) -> Vec<f64> {
    let mut office = office_on(facts, move |seen| match (told(seen), seen.position) {
        (None, 0) => {
            (1..6).fold(ScriptedReply::call("agent", fork("part", "0")), |reply, at| reply.and_call("agent", fork("part", &at.to_string())))
        }
        (None, _) => say("done"),
        (Some(prompt), _) if prompt == "0" => first(seen),
        (Some(_), _) => say("did it").after(Duration::from_secs(2)),
    });
    change(&mut office);
    let began = tokio::time::Instant::now();
    office.run("go").await;
    check_tree(&office, "batch").await;
    let forks = forks(&office).await;
    forks.iter().map(|fork| (requests_of(&office, &fork.session)[0].0 - began).as_millis() as f64 / 1_000.0).collect()
}

#[track_caller]
fn assert_times(found: &[f64], first: f64, others: f64) {
    let near = |one: f64, other: f64| (one - other).abs() < 0.2;
    assert!(near(found[0], first) && found[1..].iter().all(|at| near(*at, others)), "first at {first}, others at {others}: {found:?}");
}

/// Where what was read before is cheaper, the first of a batch goes first and the others follow at the first byte of its
/// answer, after three seconds at the latest; where it is not, nobody waits.
#[tokio::test(start_paused = true)]
async fn the_first_fork_of_a_batch_goes_first_where_that_saves_something() {
    let after = |seconds: u64| move |_: &Seen| say("did it").after(Duration::from_secs(seconds));
    let same: fn(&mut Office) = |_| {};
    let found = asked_at(caching(), after(2), same).await;
    assert_times(&found, 0.0, 2.0);
    let found = asked_at(caching(), after(60), same).await;
    assert_times(&found, 0.0, 3.0);
    let dear = Prices { input: 3.0, output: 15.0, cache_read: 3.0, cache_write: 3.0, unknown: false };
    for prices in [Prices::default(), dear, Prices { cache_read: 0.0, ..dear }] {
        let found = asked_at(facts(200_000, prices), after(60), same).await;
        assert_times(&found, 0.0, 0.0);
    }
}

/// Calls are run side by side, and forks begin as they come; the one that goes first is the first call's all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_fork_of_the_first_call_goes_first() {
    for _ in 0..10 {
        let mut office = office_on(caching(), |seen| match (told(seen), seen.position) {
            (None, 0) => (1..12)
                .fold(ScriptedReply::call("agent", fork("part", "0")), |reply, at| reply.and_call("agent", fork("part", &at.to_string()))),
            (None, _) => say("done"),
            (Some(prompt), _) => say(&prompt).after(Duration::from_millis(5)),
        });
        (office.calls_max, office.lanes) = (100, HashMap::from([("scripted".to_owned(), 100)]));
        office.run("go").await;
        let asked: Vec<String> = office.model.seen().iter().filter_map(told).collect();
        assert_eq!((asked[0].as_str(), asked.len()), ("0", 12), "{asked:?}");
    }
}

/// Its caller goes on at once, and still a fork that nobody waits for begins with the bytes that its caller holds.
#[tokio::test(start_paused = true)]
async fn forks_in_the_background_share_what_their_caller_holds() {
    let office = office(|seen| match (told(seen), seen.position) {
        (None, 0) => ScriptedReply::call("agent", launched("left", "go left")).and_call("agent", launched("right", "go right")),
        (None, _) => say("on my way"),
        (Some(prompt), _) => say(&prompt).after(Duration::from_secs(1)),
    });
    office.run("go").await;
    let parents = requests_of(&office, &office.session);
    let all = forks(&office).await;
    assert_eq!(all.len(), 2);
    for fork in all {
        let first = requests_of(&office, &fork.session)[0].1.clone();
        let parent = split_from(&parents, &first);
        let same = parent.messages.iter().zip(&first.messages).all(|(one, other)| Arc::ptr_eq(one, other));
        assert!(same, "{}: the bytes of its caller, not others like them", fork.title);
    }
}

/// A first call that comes to nothing holds nobody up.
#[tokio::test(start_paused = true)]
async fn a_first_call_that_becomes_no_fork_lets_the_others_go() {
    let office = office_on(caching(), |seen| match (told(seen), seen.position) {
        (None, 0) => {
            let lost = json!({"description": "lost", "prompt": "go on", "subagent_type": "fork", "task_id": "ses_none"});
            ScriptedReply::call("agent", lost).and_call("agent", fork("left", "go left")).and_call("agent", fork("right", "go right"))
        }
        (None, _) => say("done"),
        (Some(_), _) => say("did it"),
    });
    let began = tokio::time::Instant::now();
    office.run("go").await;
    assert_eq!(forks(&office).await.len(), 2);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

/// A first fork that fails holds nobody up, and goes on by itself.
#[tokio::test(start_paused = true)]
async fn a_first_fork_that_fails_lets_the_others_go() {
    let failing = |_: &Seen| say("did it").after_failures(ModelFailure::Cut, "cut", 1).after(Duration::from_secs(1));
    let found = asked_at(caching(), failing, |_| {}).await;
    assert_times(&found, 0.0, 1.0);
    let refused = |_: &Seen| ScriptedReply::failing(ModelFailure::BadRequest, "no").after(Duration::from_secs(1));
    let found = asked_at(caching(), refused, |_| {}).await;
    assert_times(&found, 0.0, 1.0);
}

/// A first fork that is stopped before it has said anything holds nobody up.
#[tokio::test(start_paused = true)]
async fn a_first_fork_that_is_stopped_lets_the_others_go() {
    let office = office_on(caching(), |seen| match (told(seen), seen.position) {
        (None, 0) => ScriptedReply::call("agent", fork("left", "go left")).and_call("agent", fork("right", "go right")),
        (None, _) => say("done"),
        (Some(_), _) => say("did it").after(Duration::from_secs(60)),
    });
    let handle = office.begin("go").await;
    let began = tokio::time::Instant::now();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let left = forks(&office).await[0].session.clone();
    handle.command(Command::StopTask { task: left.clone(), by: By::User }).await.unwrap();
    settled(&handle).await;
    handle.close().await;
    let right = forks(&office).await[1].session.clone();
    assert_times(&[0.0, (requests_of(&office, &right)[0].0 - began).as_secs_f64()], 0.0, 1.0);
    assert_eq!(ends(&office.records().await).iter().map(|(how, _)| *how).collect::<Vec<_>>(), [How::Stopped, How::Completed]);
    check_tree(&office, "stopped").await;
}

/// The first waits for a free lane: the others still wait for its first byte.
#[tokio::test(start_paused = true)]
async fn a_first_fork_that_waits_for_a_lane_is_still_the_first() {
    let mut office = office_on(caching(), |seen| match (told(seen), seen.position) {
        (None, 0) if office::prompt(seen).contains("busy") => say("was busy").after(Duration::from_millis(500)),
        (None, 0) => ["busy 1", "busy 2"]
            .iter()
            .fold(ScriptedReply::default(), |reply, words| reply.and_call("agent", office::task("busy", words)))
            .and_call("agent", fork("left", "go left"))
            .and_call("agent", fork("right", "go right")),
        (None, _) => say("done"),
        (Some(_), _) => say("did it").after(Duration::from_secs(2)),
    });
    office.lanes = HashMap::from([("scripted".to_owned(), 2)]);
    let began = tokio::time::Instant::now();
    office.run("go").await;
    let mut times = Vec::new();
    for fork in forks(&office).await {
        times.push((requests_of(&office, &fork.session)[0].0 - began).as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    assert_times(&times, 0.5, 2.5);
}

/// A hundred of one reply: all answer, one goes first, and all begin with the same bytes.
#[tokio::test(start_paused = true)]
async fn a_hundred_forks_of_one_reply() {
    let mut office = office_on(caching(), |seen| match (told(seen), seen.position) {
        (None, 0) => (1..100)
            .fold(ScriptedReply::call("agent", fork("part", "0")), |reply, at| reply.and_call("agent", fork("part", &at.to_string()))),
        (None, _) => say("done"),
        (Some(prompt), _) => say(&format!("did {prompt}")).after(Duration::from_millis(100)),
    });
    (office.calls_max, office.lanes) = (100, HashMap::from([("scripted".to_owned(), 100)]));
    let began = tokio::time::Instant::now();
    office.run("go").await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    let forks = forks(&office).await;
    assert_eq!(forks.len(), 100);
    let first: Vec<Request> = forks.iter().map(|fork| requests_of(&office, &fork.session)[0].1.clone()).collect();
    let prompts: Vec<String> = (0..100).map(|at| at.to_string()).collect();
    assert_shared(&requests_of(&office, &office.session), &first, &prompts.iter().map(String::as_str).collect::<Vec<_>>());
    let answers: Vec<String> = outcomes(&office.records().await, "agent");
    assert!(answers.iter().enumerate().all(|(at, answer)| answer.starts_with(&format!("did {at}\n"))), "{answers:?}");
}

/// However often it was cut: every fork began with the same bytes in every life.
fn same_bytes_in_every_life(office: &Office, what: &str) {
    let mut known: BTreeMap<SessionId, Vec<u8>> = BTreeMap::new();
    for (_, request) in std::mem::take(&mut *office.sent.lock().unwrap()) {
        let directive = request.messages.iter().position(|bytes| String::from_utf8_lossy(bytes).contains(MARK));
        let Some(directive) = directive else { continue };
        let beginning = [&request.head[..], &request.messages[..=directive].concat()].concat();
        let before = known.entry(request.session.clone()).or_insert_with(|| beginning.clone());
        assert!(*before == beginning, "{what}: {}", request.session);
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_anywhere_around_forks_is_survivable() {
    for hooks in [Vec::new(), vec![Arc::new(Busybody) as Arc<dyn Hook>]] {
        let hooked = !hooks.is_empty();
        let office = Office { hooks, ..office(pair) };
        office.run("go").await;
        assert!(30 < office.memory.events(), "an eventful run: {}", office.memory.events());
        survives_every_cut(office, async |office, what| {
            let records = office.records().await;
            let called = count(&records, |event| matches!(event, Event::Called { tool, .. } if tool == "agent"));
            assert_eq!(forks(office).await.len(), called, "{what}: one fork per call");
            let answers = outcomes(&records, "agent").join("\n");
            assert!(called < 2 || ["did go left", "did go right"].iter().all(|words| answers.contains(words)), "{what}: {answers}");
            same_bytes_in_every_life(office, &format!("{what}, with hooks: {hooked}"));
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_anywhere_around_a_fork_that_is_looked_after_is_survivable() {
    let office = managed();
    office.run("go").await;
    survives_every_cut(office, async |office, what| {
        let records = office.records().await;
        let rounds = count(&records, |event| matches!(event, Event::TaskStarted { .. } | Event::TaskResumed { .. }));
        assert_eq!(notices(&records).len(), rounds, "{what}: one notice per round");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_append_that_fails_anywhere_around_forks_stops_the_tree_and_the_next_owner_goes_on() {
    survives_every_fault(|| office(pair)).await;
}
