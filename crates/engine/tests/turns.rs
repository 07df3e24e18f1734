//! Turns that users set in motion: whose rights count in them, what is left of them, and what happens when somebody is gone.

#![allow(clippy::unwrap_used)]

mod office;

use std::{sync::Arc, time::Duration};

use office::{Office, lines, say, settled};
use posse_engine::{Handle, Outfit, Outfits};
use posse_models::{Scripted, ScriptedReply, Seen};
use posse_session::{
    Birth, By, Command, Entry, Event, Expander, Expansion, Grant, Hold, Letter, LetterId, Log as _, Needed, Outcome, Part, Posted, Recipe,
    Record, Rules, SessionId, Status, Summary,
};
use posse_store::Memory;
use serde_json::{Value, json};

/// A line `run AGENT` runs an agent, `by AGENT` lets it answer, `on MODEL` names a model, `needs TOOL WHAT` needs a call,
/// `allows TOOL` gives leave for the turn; the rest is words.
struct Words;

impl Expander for Words {
    fn expand(&self, typed: &str, _: &posse_session::Voice) -> Expansion {
        let (mut calls, mut parts, mut agent, mut model, mut allowed) = (Vec::new(), Vec::new(), None, None, Vec::new());
        for line in typed.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["run", name] => parts.push(Part::Subtask {
                    agent: name.into(),
                    description: format!("for {name}"),
                    prompt: format!("work, {name}").into(),
                    command: None,
                    model: None,
                    direct: false,
                    allowed: Vec::new(),
                    named: Vec::new(),
                }),
                ["by", name] => agent = Some(name.to_owned()),
                ["on", name] => model = Some(name.to_owned()),
                ["needs", tool, what] => calls.push(Needed { tool: tool.into(), input: json!({"what": what}), consented: false }),
                ["allows", tool] => allowed.push(Grant { key: tool.into(), pattern: "*".into(), exact: false }),
                _ => parts.push(Part::text(line)),
            }
        }
        let assemble = move |results: &[Outcome]| {
            parts.extend(results.iter().map(|result| Part::reminder(result.word())));
            parts
        };
        Expansion { calls, agent, model, allowed, assemble: Box::new(assemble) }
    }
}

/// `strict` may not touch, `gone` cannot be made ready, everybody else is as the office is.
struct Cast(Outfit);

impl Outfits for Cast {
    fn recipe(&self, parent: &Recipe, agent: &str, model: Option<&str>) -> Result<Recipe, String> {
        match (agent, model) {
            ("gone", _) => Err("there is no agent `gone` any more".into()),
            (_, Some("nowhere")) => Err("there is no model `nowhere`".into()),
            _ => Ok(Recipe { agent: agent.into(), model: parent.model.clone(), ..Recipe::default() }),
        }
    }

    fn outfit(&self, _: &SessionId, birth: &Birth) -> Result<Outfit, String> {
        let mut outfit = self.0.clone();
        Arc::make_mut(&mut outfit.head).system[0] = format!("you are {}", birth.recipe.agent);
        if birth.recipe.agent == "strict" {
            outfit.rules = Rules::from_config(&json!({"*": "allow", "touch": "deny"}), "/", "strict").unwrap();
        }
        Ok(outfit)
    }
}

fn office(script: impl Fn(&Seen) -> ScriptedReply + Send + Sync + 'static) -> Office {
    let mut office = Office::with_model(Scripted::with(script));
    office.expander = Some(Arc::new(Words));
    office
}

fn cast(office: &Office) -> Arc<dyn Outfits> {
    Arc::new(Cast(office.outfit()))
}

fn typed(office: &Office, text: &str) -> Entry {
    Entry { typed: true, ..office.entry(text) }
}

async fn begin(office: &Office, agent: &str, text: &str) -> Handle {
    let mut created = office.created();
    if let Event::Created { recipe, .. } = &mut created {
        recipe.agent = agent.into();
    }
    office.hub().create(office.session.clone(), created, typed(office, text), cast(office), office.limits).await.unwrap()
}

async fn children(office: &Office) -> Vec<Summary> {
    let mut all = office.memory.summaries(None).await.unwrap();
    all.retain(|summary| summary.parent.is_some());
    all.sort_by(|one, other| one.session.cmp(&other.session));
    all
}

async fn log(memory: &Memory, session: &SessionId) -> Vec<Record> {
    memory.read(session, 0, 1_000_000).await.unwrap()
}

/// What became of the calls of a tool, over all logs.
async fn outcomes(office: &Office, tool: &str) -> Vec<&'static str> {
    let mut found = Vec::new();
    let mut all = office.memory.summaries(None).await.unwrap();
    all.sort_by(|one, other| one.session.cmp(&other.session));
    for summary in all {
        let records = log(&office.memory, &summary.session).await;
        let mine = |record: &Record| match &record.event {
            Event::Called { call, tool: named, .. } if named == tool => Some(call.clone()),
            _ => None,
        };
        let calls: Vec<_> = records.iter().filter_map(mine).collect();
        for record in &records {
            if let Event::CallFinished { call, outcome } = &record.event
                && calls.contains(call)
            {
                found.push(outcome.word());
            }
        }
    }
    found
}

fn heads(office: &Office) -> Vec<String> {
    office.model.seen().iter().filter(|seen| seen.session == office.session).map(|seen| seen.head.system[0].clone()).collect()
}

fn prompt(seen: &Seen) -> String {
    lines(&seen.messages).first().cloned().unwrap_or_default()
}

fn agent(description: &str, prompt: &str) -> Value {
    json!({"description": description, "prompt": prompt, "subagent_type": "worker"})
}

/// Nothing waits for a wake-up that never comes: a denied agent is told and the next one is run.
#[tokio::test(start_paused = true)]
async fn an_agent_that_is_denied_does_not_keep_the_next_from_running() {
    let mut office = office(|_| say("done"));
    office.rules = json!({"*": "allow", "task": {"*": "allow", "scout": "deny"}});
    let handle = begin(&office, "build", "run scout\nrun worker").await;
    settled(&handle).await;
    handle.close().await;
    assert_eq!(children(&office).await.iter().map(|child| child.agent.as_str()).collect::<Vec<_>>(), ["worker"]);
}

/// Whoever answered the last turn has no say in the next: neither in what it runs nor in what its words need.
#[tokio::test(start_paused = true)]
async fn rights_of_a_turns_speaker_end_with_the_turn() {
    let office = office(|seen| match prompt(seen).as_str() {
        "user: work, worker" if seen.position == 0 => ScriptedReply::call("touch", json!({"what": "x"})),
        _ => say("done"),
    });
    let handle = begin(&office, "strict", "by build\nhello").await;
    settled(&handle).await;
    handle.say(typed(&office, "needs touch y\nand")).await.unwrap();
    settled(&handle).await;
    handle.say(typed(&office, "run worker")).await.unwrap();
    settled(&handle).await;
    handle.close().await;
    assert_eq!(outcomes(&office, "touch").await, ["denied", "denied"], "its own agent's rights, in the session and below it");
    assert_eq!(heads(&office), ["you are build", "you are strict", "you are strict"]);
    let configured = office.names().await.iter().filter(|name| *name == "configured").count();
    assert_eq!(configured, 3, "every change is recorded");
}

/// A task that is gone on with is under the rules of whoever goes on with it.
#[tokio::test(start_paused = true)]
async fn a_task_that_goes_on_is_under_its_callers_rules() {
    let office = office(|seen| {
        let last = lines(&seen.messages).last().cloned().unwrap_or_default();
        match prompt(seen).as_str() {
            "user: look" if seen.position == 2 => ScriptedReply::call("touch", json!({"what": "x"})),
            "user: look" => say("looked"),
            _ if last.ends_with("first") => ScriptedReply::call("agent", agent("a part", "look")),
            _ if last.ends_with("again") => {
                let id = lines(&seen.messages).iter().find_map(|line| line.split("task_id: ").nth(1).map(str::to_owned)).unwrap();
                let mut again = agent("a part", "more");
                again["task_id"] = json!(id);
                ScriptedReply::call("agent", again)
            }
            _ => say("done"),
        }
    });
    let handle = begin(&office, "build", "first").await;
    settled(&handle).await;
    handle.say(typed(&office, "by strict\nagain")).await.unwrap();
    settled(&handle).await;
    handle.close().await;
    assert_eq!(children(&office).await.len(), 1);
    assert_eq!(outcomes(&office, "touch").await, Vec::<&str>::new(), "it answered its first round");
    // Its second round would touch: the caller's deny holds there too.
    let office = office_of_rounds();
    let handle = begin(&office, "build", "first").await;
    settled(&handle).await;
    handle.say(typed(&office, "by strict\nagain")).await.unwrap();
    settled(&handle).await;
    handle.close().await;
    assert_eq!(outcomes(&office, "touch").await, ["denied"]);
}

/// A child that says a word in its first round and touches in its second.
fn office_of_rounds() -> Office {
    office(|seen| {
        let shown = lines(&seen.messages);
        let last = shown.last().cloned().unwrap_or_default();
        match shown.first().map(String::as_str) {
            Some("user: look") if last == "user: more" => ScriptedReply::call("touch", json!({"what": "x"})),
            Some("user: look") => say("looked"),
            _ if last.ends_with("first") => ScriptedReply::call("agent", agent("a part", "look")),
            _ if last.ends_with("again") => {
                let id = shown.iter().find_map(|line| line.split("task_id: ").nth(1).map(str::to_owned)).unwrap();
                let mut again = agent("a part", "more");
                again["task_id"] = json!(id);
                ScriptedReply::call("agent", again)
            }
            _ => say("done"),
        }
    })
}

/// What words allow is for their own turn: not for the words that come after it.
#[tokio::test(start_paused = true)]
async fn leave_for_a_turn_is_not_leave_for_the_next_words() {
    let mut office = office(|_| say("done"));
    office.rules = json!({"*": "allow", "touch": "ask"});
    let handle = begin(&office, "build", "allows touch\nhello").await;
    settled(&handle).await;
    handle.say(typed(&office, "needs touch x\nand")).await.unwrap();
    settled(&handle).await;
    handle.close().await;
    assert_eq!(outcomes(&office, "touch").await, ["denied"]);
}

/// Esc, and then other words: what the last message had left to run is not run.
#[tokio::test(start_paused = true)]
async fn other_words_after_an_escape_begin_anew() {
    for resumed in [false, true] {
        let office = office(|seen| match prompt(seen).as_str() {
            "user: work, scout" if seen.position == 0 => ScriptedReply::call("slow", json!({"what": "x", "ms": 60_000})),
            _ => say("done"),
        });
        let handle = begin(&office, "build", "run scout\nrun worker").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        handle.interrupt().await.unwrap();
        settled(&handle).await;
        match resumed {
            true => handle.command(Command::Resume { by: By::User }).await.unwrap(),
            false => handle.say(office.entry("never mind")).await.unwrap(),
        }
        settled(&handle).await;
        handle.close().await;
        let ran: Vec<String> = children(&office).await.iter().map(|child| child.agent.clone()).collect();
        assert_eq!(ran.contains(&"worker".to_owned()), resumed, "{ran:?}");
    }
}

/// Who cannot be made ready does not answer, and nobody answers in its place with other rights; the session lives on.
#[tokio::test(start_paused = true)]
async fn an_agent_that_cannot_be_made_ready_fails_its_turn_and_nothing_else() {
    let office = office(|_| say("done"));
    let handle = begin(&office, "build", "by gone\nhello").await;
    let session = settled(&handle).await;
    assert_eq!(session.hold(), Some(Hold::ModelError));
    assert!(session.round().error.contains("there is no agent `gone` any more"), "{:?}", session.round());
    assert_eq!(office.model.seen().len(), 0);
    handle.say(office.entry("and you?")).await.unwrap();
    assert_eq!(settled(&handle).await.hold(), None);
    handle.close().await;
    assert_eq!(heads(&office), ["you are build"]);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_is_not_there_is_named_and_the_agent_stays() {
    let office = office(|_| say("done"));
    let handle = begin(&office, "build", "by strict\non nowhere\nhello").await;
    settled(&handle).await;
    handle.close().await;
    assert_eq!(heads(&office), ["you are strict"]);
    assert!(office.shown().iter().any(|line| line.contains("there is no model `nowhere`")), "{:?}", office.shown());
}

/// A session can always be opened, also in the middle of a turn whose speaker is gone: then nothing of that turn runs.
#[tokio::test(start_paused = true)]
async fn a_session_whose_speaker_is_gone_can_be_opened() {
    let office = office(|seen| match seen.position {
        0 => ScriptedReply::call("slow", json!({"what": "x", "ms": 60_000})).and_call("touch", json!({"what": "y"})),
        _ => say("done"),
    });
    let handle = begin(&office, "build", "by strict\nhello").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.close().await;
    struct Gone(Arc<dyn Outfits>);
    impl Outfits for Gone {
        fn recipe(&self, _: &Recipe, _: &str, _: Option<&str>) -> Result<Recipe, String> {
            Err("nobody is there".into())
        }
        fn outfit(&self, session: &SessionId, birth: &Birth) -> Result<Outfit, String> {
            self.0.outfit(session, birth)
        }
    }
    let outfits = Arc::new(Gone(cast(&office)));
    let handle = office.hub().open(&office.session, &office.session, outfits, office.limits, Vec::new()).await.unwrap();
    let session = settled(&handle).await;
    assert!(session.round().error.contains("nobody is there"), "{:?}", session.round());
    handle.say(office.entry("go on")).await.unwrap();
    assert_eq!(settled(&handle).await.hold(), None);
    handle.close().await;
    assert_eq!(heads(&office).last().map(String::as_str), Some("you are build"));
}

/// Words for another agent wait for a turn of their own: the head never changes inside a turn.
#[tokio::test(start_paused = true)]
async fn another_speaker_waits_for_a_turn_of_its_own() {
    let office = office(|seen| match seen.position {
        0 => ScriptedReply::call("slow", json!({"what": "x", "ms": 5_000})),
        _ => say("done"),
    });
    let handle = begin(&office, "build", "hello").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.say(typed(&office, "by strict\nand you?")).await.unwrap();
    settled(&handle).await;
    handle.close().await;
    assert_eq!(heads(&office), ["you are build", "you are build", "you are strict"]);
}

/// Steps in flight count: parallel children do not run past the limit.
#[tokio::test(start_paused = true)]
async fn parallel_children_do_not_run_past_a_step_limit() {
    let mut office = office(|seen| match (prompt(seen).as_str(), seen.position) {
        ("user: go", 0) => (1..10).fold(ScriptedReply::call("agent", agent("part", "work 0")), |reply, at| {
            reply.and_call("agent", agent("part", &format!("work {at}")))
        }),
        ("user: go", _) => say("done"),
        _ => say("worked").after(Duration::from_secs(1)),
    });
    office.limits.steps = Some(3);
    let handle = begin(&office, "build", "go").await;
    settled(&handle).await;
    handle.close().await;
    assert_eq!(office.model.seen().len(), 4, "three, and the root's closing one");
}

/// A child that has ended needs nobody to be made ready: its answer is in its log.
#[tokio::test(start_paused = true)]
async fn the_answer_of_a_child_whose_model_is_gone_is_told() {
    let script = |seen: &Seen| match (prompt(seen).as_str(), seen.position) {
        ("user: go", 0) => ScriptedReply::call("agent", agent("part", "work")),
        ("user: go", _) => say("done"),
        _ => say("worked"),
    };
    let whole = office(script);
    let handle = begin(&whole, "build", "go").await;
    settled(&handle).await;
    handle.close().await;
    let child = children(&whole).await[0].session.clone();
    let ended = log(&whole.memory, &whole.session).await.iter().position(|record| matches!(record.event, Event::TaskEnded { .. })).unwrap();
    // Everything up to the child's end, and nothing of it in the parent.
    let cut = ended + log(&whole.memory, &child).await.len();
    let memory = whole.memory.copy_up_to(cut);
    let office = whole.reopened(memory);
    struct Childless(Arc<dyn Outfits>);
    impl Outfits for Childless {
        fn recipe(&self, parent: &Recipe, agent: &str, model: Option<&str>) -> Result<Recipe, String> {
            self.0.recipe(parent, agent, model)
        }
        fn outfit(&self, session: &SessionId, birth: &Birth) -> Result<Outfit, String> {
            if birth.parent.is_some() { Err("its model is gone".into()) } else { self.0.outfit(session, birth) }
        }
    }
    let outfits = Arc::new(Childless(cast(&office)));
    let handle = office.hub().open(&office.session, &office.session, outfits, office.limits, Vec::new()).await.unwrap();
    settled(&handle).await;
    handle.close().await;
    assert!(office.shown().iter().any(|line| line.contains("= worked")), "{:?}", office.shown());
}

/// A stop is told once, however long its end takes, and how it holds is what it was when it was given.
#[tokio::test(start_paused = true)]
async fn a_stop_is_one_fact_and_holds_as_it_was_meant() {
    let office = office(|seen| match (prompt(seen).as_str(), seen.position) {
        ("user: go", 0) => ScriptedReply::call("agent", agent("part", "work")),
        ("user: work", 0) => ScriptedReply::call("deaf", json!({"what": "x"})),
        _ => say("done"),
    });
    let handle = begin(&office, "build", "go").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.interrupt().await.unwrap();
    settled(&handle).await;
    handle.close().await;
    let child = children(&office).await[0].session.clone();
    let facts = log(&office.memory, &child).await;
    let stops: Vec<&Event> = facts.iter().map(|record| &record.event).filter(|event| matches!(event, Event::Interrupted { .. })).collect();
    assert_eq!(stops, [&Event::Interrupted { by: By::User, hold: Hold::Esc }], "{stops:?}");
}

/// Many letters at once to a session that nobody runs: all are taken in by this process.
#[tokio::test(start_paused = true)]
async fn many_letters_to_an_ended_child_are_all_taken_in() {
    let office = office(|seen| match (prompt(seen).as_str(), seen.position) {
        ("user: go", 0) => ScriptedReply::call("agent", agent("part", "work")),
        ("user: go", 1) => ScriptedReply::call("slow", json!({"what": "x", "ms": 60_000})),
        _ => say("done"),
    });
    let handle = begin(&office, "build", "go").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let child = children(&office).await[0].session.clone();
    let inbox: &dyn posse_session::Inbox = &office.memory;
    for _ in 0..6 {
        let letter = Letter::Say { entry: office.entry("and another thing") };
        let id = LetterId::fresh(&*office.ids);
        inbox.post(Posted { id, root: office.session.clone(), to: child.clone(), letter }).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(inbox.waiting(&office.session).await.unwrap().len(), 0, "long before the owner is done");
    settled(&handle).await;
    handle.close().await;
    let heard = log(&office.memory, &child).await.iter().filter(|record| matches!(record.event, Event::Queued { .. })).count();
    assert_eq!((heard, children(&office).await[0].status), (7, Status::Completed));
}

/// CC-073, as choices.md has it: what an agent is told at its start is told once, also when its first words had to be looked at and the process died.
#[tokio::test(start_paused = true)]
async fn initial_words_survive_a_crash_before_the_first_step() {
    let make = || {
        let office = office(|_| say("done"));
        (office.outfit(), office)
    };
    let (_, whole) = make();
    let run = |office: &Office| Arc::new(Initial(cast(office))) as Arc<dyn Outfits>;
    let handle = whole
        .hub()
        .create(whole.session.clone(), whole.created(), typed(&whole, "needs peek x\nhello"), run(&whole), whole.limits)
        .await
        .unwrap();
    settled(&handle).await;
    handle.close().await;
    for cut in 3..=whole.memory.events() {
        let (_, first) = make();
        let handle = first
            .hub()
            .create(first.session.clone(), first.created(), typed(&first, "needs peek x\nhello"), run(&first), first.limits)
            .await
            .unwrap();
        settled(&handle).await;
        handle.close().await;
        let memory = first.memory.copy_up_to(cut);
        let second = first.reopened(memory);
        let handle = second.hub().open(&second.session, &second.session, run(&second), second.limits, Vec::new()).await.unwrap();
        settled(&handle).await;
        handle.close().await;
        let told = second.shown().iter().filter(|line| line.contains("begin with the tests")).count();
        assert_eq!(told, 1, "cut {cut}: {:?}", second.shown());
    }
}

struct Initial(Arc<dyn Outfits>);

impl Outfits for Initial {
    fn recipe(&self, parent: &Recipe, agent: &str, model: Option<&str>) -> Result<Recipe, String> {
        self.0.recipe(parent, agent, model)
    }

    fn outfit(&self, session: &SessionId, birth: &Birth) -> Result<Outfit, String> {
        Ok(Outfit { initial: Some("begin with the tests".into()), ..self.0.outfit(session, birth)? })
    }
}

/// What a child is allowed for its first turn it keeps when its prompt has to be looked at.
#[tokio::test(start_paused = true)]
async fn leave_is_kept_when_words_are_looked_at() {
    let mut office = office(|seen| match seen.position {
        0 => ScriptedReply::call("touch", json!({"what": "x"})),
        _ => say("done"),
    });
    office.rules = json!({"*": "allow", "touch": "ask"});
    let entry = Entry { allowed: vec![Grant { key: "touch".into(), pattern: "*".into(), exact: false }], ..typed(&office, "hello") };
    let handle = office.hub().create(office.session.clone(), office.created(), entry, cast(&office), office.limits).await.unwrap();
    settled(&handle).await;
    handle.close().await;
    assert_eq!(outcomes(&office, "touch").await, ["done"]);
}
