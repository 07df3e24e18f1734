//! What must add up once a tree has come to rest, read from its logs alone.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs,
    path::{Path, PathBuf},
};

use posse_session::{Inbox as _, SessionId};
use serde_json::Value;

use crate::{
    chaos::{Letter, Tally},
    support::World,
};

/// The logs of a tree, by session.
struct Logs {
    of: BTreeMap<String, Vec<Value>>,
}

impl Logs {
    fn events(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.of.iter().flat_map(|(session, events)| events.iter().map(|event| (session.as_str(), event)))
    }

    fn all(&self, kind: &str) -> impl Iterator<Item = (&str, &Value)> {
        self.events().filter(move |(_, event)| event["type"] == kind)
    }
}

/// Everything that does not add up in a tree at rest.
pub(crate) fn of(world: &World, root: &str, letters: &[Letter], tally: &mut Tally) -> Vec<String> {
    let exported = world.posse(&["sessions", "export", root, "--format", "jsonl"]);
    if exported.code != Some(0) {
        return vec![format!("cannot be exported: {exported:?}")];
    }
    let mut wrong = Vec::new();
    let logs = read(&exported.lines(), &mut wrong);
    wrong.extend(at_rest(world, root));
    wrong.extend(does_not_add_up(&logs));
    wrong.extend(letters_of_the_user(&logs, letters, tally));
    wrong.extend(inbox(world, root));
    tally.started += logs.all("task_started").filter(|(_, event)| event["round"] == 1).count();
    tally.rounds += logs.all("task_started").chain(logs.all("task_resumed")).count();
    tally.events += logs.events().count();
    tally.agents_letters += logs.all("queued").filter(|(_, event)| event["entry"]["source"]["from"] == "agent").count();
    if let (false, Ok(folder)) = (wrong.is_empty() && tally.violations.is_empty(), std::env::var("POSSE_SOAK_KEEP")) {
        let place = Path::new(&folder).join(format!("{root}.jsonl"));
        let kept = fs::create_dir_all(&folder).and_then(|()| fs::write(&place, &exported.out));
        println!("{}: {kept:?}", place.display());
    }
    wrong
}

/// What holds for the logs of any tree at rest.
fn does_not_add_up(logs: &Logs) -> Vec<String> {
    [families, rounds, calls, launches, entries, shells, told_twice, letters_of_agents].iter().flat_map(|check| check(logs)).collect()
}

/// Numbers of a log have no gap.
fn read(lines: &[Value], wrong: &mut Vec<String>) -> Logs {
    let mut of: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in lines {
        let events = of.entry(line["session"].as_str().unwrap().to_owned()).or_default();
        let mut event = line["event"].clone();
        event["at"] = line["at"].clone();
        events.push(event);
        if line["seq"].as_u64() != Some(events.len() as u64) {
            wrong.push(format!("a gap in a log: {line}"));
        }
    }
    Logs { of }
}

/// No session is left queued, running or waiting.
fn at_rest(world: &World, root: &str) -> Vec<String> {
    let tree = world.posse(&["sessions", "tree", root, "--format", "json"]);
    let Some(nodes) = (tree.code == Some(0)).then(|| tree.json()) else { return vec![format!("no tree: {tree:?}")] };
    let is_open = |node: &&Value| matches!(node["status"].as_str(), Some("queued" | "running" | "waiting"));
    let open = nodes.as_array().unwrap().iter().filter(is_open);
    open.map(|node| format!("a session is left {}: {} waits for {}", node["status"], node["session"], node["waits"])).collect()
}

/// Who was promised exists, and who exists was promised by its parent.
fn families(logs: &Logs) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut promised: HashSet<(&str, &str)> = HashSet::new();
    for (parent, event) in logs.all("task_started") {
        let task = text(event, "task");
        promised.insert((parent, task));
        if !logs.of.contains_key(task) {
            wrong.push(format!("a task without a session: {parent} started {task}"));
        }
    }
    for (session, event) in logs.all("created") {
        if let Some(parent) = event["parent"].as_str()
            && !promised.contains(&(parent, session))
        {
            wrong.push(format!("a session that nobody promised: {session} of {parent}"));
        }
    }
    wrong
}

/// Every round that was started or resumed has one end, in the parent and in the task, and nothing else ends.
fn rounds(logs: &Logs) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut begun: HashMap<(&str, u64), usize> = HashMap::new();
    for (_, event) in logs.all("task_started").chain(logs.all("task_resumed")) {
        *begun.entry((text(event, "task"), count(event, "round"))).or_default() += 1;
    }
    let mut told: HashMap<(&str, u64), usize> = HashMap::new();
    for (_, event) in logs.all("task_ended") {
        *told.entry((text(event, "task"), count(event, "round"))).or_default() += 1;
    }
    let mut ended: HashMap<(&str, u64), usize> = HashMap::new();
    for (session, event) in logs.all("ended") {
        *ended.entry((session, count(event, "round"))).or_default() += 1;
    }
    for (round, times) in &begun {
        let (told, ended) = (told.get(round).copied().unwrap_or(0), ended.get(round).copied().unwrap_or(0));
        if *times != 1 || told != 1 {
            wrong.push(format!("round {round:?} was begun {times} times and its end was told {told} times"));
        }
        if ended != 1 {
            wrong.push(format!("round {round:?} ended {ended} times in its own log"));
        }
    }
    let never_begun = told.keys().filter(|round| !begun.contains_key(*round));
    wrong.extend(never_begun.map(|round| format!("round {round:?} was never begun and its end was told")));
    wrong
}

/// Every call has one result: its own, or the end of the task that it waited for.
fn calls(logs: &Logs) -> Vec<String> {
    let mut results: HashMap<&str, usize> = HashMap::new();
    for (_, event) in logs.all("call_finished") {
        *results.entry(text(event, "call")).or_default() += 1;
    }
    for (_, event) in logs.all("task_ended").filter(|(_, event)| event["to"]["to"] == "call") {
        *results.entry(text(&event["to"], "call")).or_default() += 1;
    }
    let mut wrong = Vec::new();
    for (session, event) in logs.all("called") {
        let found = results.remove(text(event, "call")).unwrap_or(0);
        if found != 1 {
            wrong.push(format!("a call has {found} results: {session} {} {}", event["call"], event["tool"]));
        }
    }
    wrong.extend(results.keys().map(|call| format!("a result without a call: {call}")));
    wrong
}

/// Whoever asked for a task got one, or a result that says why not.
fn launches(logs: &Logs) -> Vec<String> {
    let mut started: HashMap<&str, usize> = HashMap::new();
    for (_, event) in logs.all("task_started") {
        *started.entry(text(event, "call")).or_default() += 1;
    }
    let done: HashSet<&str> =
        logs.all("call_finished").filter(|(_, event)| event["outcome"]["how"] == "done").map(|(_, event)| text(event, "call")).collect();
    let mut wrong = Vec::new();
    for (session, event) in logs.all("called").filter(|(_, event)| event["tool"] == "agent") {
        let call = text(event, "call");
        let tasks = started.remove(call).unwrap_or(0);
        if 1 < tasks || (tasks == 0 && done.contains(call)) {
            wrong.push(format!("a call for a task started {tasks}: {session} {call}"));
        }
    }
    wrong.extend(started.keys().map(|call| format!("a task without a call: {call}")));
    wrong
}

/// Everything that entered a queue left it once; it may wait only in a session that was stopped or failed.
fn entries(logs: &Logs) -> Vec<String> {
    let mut wrong = Vec::new();
    for (session, events) in &logs.of {
        let mut waiting: HashMap<&str, &Value> = HashMap::new();
        let mut seen: HashSet<&str> = HashSet::new();
        for event in events {
            let entered = match text(event, "type") {
                "queued" => event["entry"]["id"].as_str(),
                "task_ended" if event["to"]["to"] == "queue" => event["to"]["entry"].as_str(),
                "kept_ended" => event["entry"].as_str(),
                _ => None,
            };
            if let Some(entry) = entered {
                if !seen.insert(entry) {
                    wrong.push(format!("an entry was queued twice: {session} {entry}: {event}"));
                }
                waiting.insert(entry, event);
            }
            let left = match text(event, "type") {
                "step_started" => event["took"].as_array().map(Vec::as_slice).unwrap_or_default(),
                "unqueued" => std::slice::from_ref(&event["entry"]),
                _ => &[],
            };
            for entry in left.iter().filter_map(Value::as_str) {
                if waiting.remove(entry).is_none() {
                    wrong.push(format!("an entry was taken that did not wait: {session} {entry}"));
                }
            }
        }
        if !waiting.is_empty() && held_from(events).is_none() {
            wrong.push(format!("entries wait in {session}, which nothing holds: {:?}", waiting.values()));
        }
    }
    wrong
}

/// The place in its log from which on a session does not go on by itself.
fn held_from(events: &[Value]) -> Option<usize> {
    events.iter().enumerate().fold(None, |hold, (at, event)| match text(event, "type") {
        "interrupted" | "limit_reached" => Some(at),
        "step_failed" if event["retry_at"].is_null() && !event["failure"].is_null() => Some(at),
        "resumed" | "step_started" => None,
        _ => hold,
    })
}

/// Whoever has read how a round ended does not hear it in a notice as well.
fn told_twice(logs: &Logs) -> Vec<String> {
    let mut wrong = Vec::new();
    for (session, events) in &logs.of {
        let reads: HashSet<&str> = events
            .iter()
            .filter(|event| event["type"] == "called" && event["tool"] == "task_output")
            .map(|event| text(event, "call"))
            .collect();
        for (at, event) in events.iter().enumerate() {
            let Some(task) = (event["type"] == "call_finished" && reads.contains(text(event, "call"))).then(|| over(event)).flatten()
            else {
                continue;
            };
            let is_of_task = |event: &&Value| text(event, "task") == task;
            let begins = |event: &Value| matches!(text(event, "type"), "task_started" | "task_resumed");
            let round = events[..at].iter().filter(is_of_task).rfind(|event| begins(event)).map_or(0, |event| count(event, "round"));
            let end = events.iter().filter(is_of_task).find(|event| event["type"] == "task_ended" && count(event, "round") == round);
            let Some(entry) = end.and_then(|end| end["to"]["entry"].as_str()) else { continue };
            // A task that has just been spoken to may still be shown as it was before: that end is another.
            let its_own = logs.of.get(task).into_iter().flatten();
            let mut ends = its_own.filter(|own| own["type"] == "ended" && count(own, "round") == round);
            if ends.any(|own| count(event, "at") < count(own, "at")) {
                continue;
            }
            let takes = |event: &Value| event["took"].as_array().is_some_and(|took| took.iter().any(|taken| taken == entry));
            if events[at..].iter().any(takes) {
                wrong.push(format!("read and told: {session} {}, round {round} of {task}", event["call"]));
            }
        }
    }
    wrong
}

/// The task whose end a read has told.
fn over(read: &Value) -> Option<&str> {
    let output = read["outcome"]["output"].as_str()?;
    let (head, _) = output.strip_prefix("[task ")?.split_once(']')?;
    let is_over = ["completed", "failed", "stopped"].iter().any(|how| head.ends_with(how));
    output.rsplit_once("task_id: ").filter(|_| is_over).map(|(_, task)| task.lines().next().unwrap_or_default())
}

/// What a call left running has ended once.
fn shells(logs: &Logs) -> Vec<String> {
    let mut ends: HashMap<&str, usize> = HashMap::new();
    for (_, event) in logs.all("kept_ended") {
        *ends.entry(text(event, "call")).or_default() += 1;
    }
    let kept = logs.all("kept").map(|(session, event)| (session, ends.get(text(event, "call")).copied().unwrap_or(0), &event["call"]));
    kept.filter(|(_, ends, _)| *ends != 1).map(|(session, ends, call)| format!("a shell has {ends} ends: {session} {call}")).collect()
}

/// Words of the user are in one log once, if they arrived, and were taken, unless their session was stopped or failed after
/// they came: then they wait for whoever speaks to it next.
fn letters_of_the_user(logs: &Logs, letters: &[Letter], tally: &mut Tally) -> Vec<String> {
    let mut heard: HashMap<&str, Vec<(&str, &str)>> = HashMap::new();
    for (session, event) in logs.all("queued").filter(|(_, event)| event["entry"]["source"]["from"] == "user") {
        for part in event["entry"]["parts"].as_array().into_iter().flatten() {
            heard.entry(text(part, "text")).or_default().push((session, text(&event["entry"], "id")));
        }
    }
    let mut wrong = Vec::new();
    for letter in letters {
        let places = heard.get(letter.text.as_str()).map(Vec::as_slice).unwrap_or_default();
        match places {
            [] if letter.confirmed => wrong.push(format!("said, confirmed, and heard by nobody: {letter:?}")),
            [] => {}
            [(session, _)] if *session != letter.to => wrong.push(format!("heard by {session}: {letter:?}")),
            [(session, entry)] => {
                let events = &logs.of[*session];
                let queued = events.iter().position(|event| event["type"] == "queued" && event["entry"]["id"] == *entry);
                let taken = |event: &Value| event["took"].as_array().is_some_and(|took| took.iter().any(|taken| taken == entry));
                if events.iter().any(taken) {
                    continue;
                }
                tally.held += 1;
                if held_from(events) <= queued {
                    wrong.push(format!("never answered, and nothing has held {session} since: {letter:?}"));
                }
            }
            more => wrong.push(format!("heard {} times, {more:?}: {letter:?}", more.len())),
        }
    }
    wrong
}

/// What an agent said to another is heard once at most, and once if the call says that it arrived.
fn letters_of_agents(logs: &Logs) -> Vec<String> {
    let mut heard: HashMap<String, usize> = HashMap::new();
    for (_, event) in logs.all("queued").filter(|(_, event)| event["entry"]["source"]["from"] == "agent") {
        let words: Vec<&str> = event["entry"]["parts"].as_array().into_iter().flatten().map(|part| text(part, "text")).collect();
        *heard.entry(words.join("\n")).or_default() += 1;
    }
    let outcomes: HashMap<&str, &Value> = logs.all("call_finished").map(|(_, event)| (text(event, "call"), &event["outcome"])).collect();
    let mut wrong = Vec::new();
    for (session, event) in logs.all("called").filter(|(_, event)| event["tool"] == "send_message") {
        let input: Value = serde_json::from_str(text(event, "input")).unwrap_or_default();
        let said = text(&input, "message");
        let times: usize = heard.iter().filter(|(words, _)| words.lines().any(|line| line == said)).map(|(_, times)| times).sum();
        let arrived = outcomes.get(text(event, "call")).is_some_and(|outcome| outcome["how"] == "done");
        if 1 < times || (arrived && times == 0) {
            wrong.push(format!("an agent's words were heard {times} times: {session} {said:?}, {:?}", outcomes.get(text(event, "call"))));
        }
    }
    wrong
}

/// No letter waits for a tree at rest.
fn inbox(world: &World, root: &str) -> Vec<String> {
    let Some(folder) = store(&world.posse_home) else { return vec!["there is no store".into()] };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let waiting = runtime.block_on(async {
        let store = posse_store::Sqlite::open(folder).unwrap();
        store.waiting(&SessionId::new(root)).await.unwrap()
    });
    waiting.into_iter().map(|posted| format!("a letter was left in the inbox: {posted:?}")).collect()
}

fn store(below: &Path) -> Option<PathBuf> {
    if below.join("posse.db").exists() {
        return Some(below.to_owned());
    }
    fs::read_dir(below).ok()?.filter_map(Result::ok).filter(|entry| entry.path().is_dir()).find_map(|entry| store(&entry.path()))
}

/// No call ran twice.
pub(crate) fn ran_twice(world: &World) -> Vec<String> {
    let witness = fs::read_to_string(world.project.join("witness")).unwrap_or_default();
    let mut ids = HashSet::new();
    let calls = witness.lines().filter_map(|line| line.split(' ').next());
    calls.filter(|call| !ids.insert(*call)).map(|call| format!("a call ran twice: {call}")).collect()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("")
}

fn count(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or(0)
}

/// A tree of two: every check has something to look at.
const WHOLE: &str = r#"[
    ["ses_1", {"type": "created"}],
    ["ses_1", {"type": "queued", "entry": {"id": "e1", "source": {"from": "user"}, "parts": [{"type": "text", "text": "letter 0"}]}}],
    ["ses_1", {"type": "step_started", "took": ["e1"]}],
    ["ses_1", {"type": "called", "call": "c1", "tool": "agent", "input": "{}"}],
    ["ses_1", {"type": "called", "call": "c2", "tool": "send_message", "input": "{\"message\": \"word 1\"}"}],
    ["ses_1", {"type": "called", "call": "c3", "tool": "bash", "input": "{}"}],
    ["ses_1", {"type": "task_started", "call": "c1", "task": "ses_2", "round": 1}],
    ["ses_1", {"type": "call_finished", "call": "c1", "outcome": {"how": "done"}}],
    ["ses_1", {"type": "call_finished", "call": "c2", "outcome": {"how": "done"}}],
    ["ses_1", {"type": "kept", "call": "c3"}],
    ["ses_1", {"type": "call_finished", "call": "c3", "outcome": {"how": "done"}}],
    ["ses_1", {"type": "kept_ended", "call": "c3", "entry": "e2"}],
    ["ses_1", {"type": "step_started", "took": ["e2"]}],
    ["ses_1", {"type": "task_ended", "task": "ses_2", "round": 1, "to": {"to": "queue", "entry": "e3"}}],
    ["ses_1", {"type": "step_started", "took": ["e3"]}],
    ["ses_2", {"type": "created", "parent": "ses_1"}],
    ["ses_2", {"type": "queued", "entry": {"id": "e4", "source": {"from": "prompt"}, "parts": []}}],
    ["ses_2", {"type": "step_started", "took": ["e4"]}],
    ["ses_2", {"type": "queued", "entry": {"id": "e5", "source": {"from": "agent"}, "parts": [{"type": "text", "text": "word 1"}]}}],
    ["ses_2", {"type": "step_started", "took": ["e5"]}],
    ["ses_2", {"type": "ended", "round": 1}]
]"#;

fn of_lines(lines: &[(String, Value)]) -> Logs {
    let mut of: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    lines.iter().for_each(|(session, event)| of.entry(session.clone()).or_default().push(event.clone()));
    Logs { of }
}

/// A verdict that always says yes is worth nothing: each fact of a whole tree is taken out, and doubled.
#[test]
fn the_verdict_notices_every_fact_that_is_missing_or_double() {
    let whole: Vec<(String, Value)> = serde_json::from_str(WHOLE).unwrap();
    assert_eq!(does_not_add_up(&of_lines(&whole)), Vec::<String>::new());
    // Nothing follows from the birth of a session, nor from a shell that is said to be kept twice.
    let counts = |at: &usize| !matches!(text(&whole[*at].1, "type"), "created" | "kept");
    for at in (0..whole.len()).filter(counts) {
        let (mut without, mut double) = (whole.clone(), whole.clone());
        let fact = without.remove(at);
        assert!(!does_not_add_up(&of_lines(&without)).is_empty(), "nobody misses {fact:?}");
        double.insert(at, fact.clone());
        assert!(!does_not_add_up(&of_lines(&double)).is_empty(), "nobody minds two of {fact:?}");
    }
}

/// A read that says how a task ended takes the place of its notice.
#[test]
fn the_verdict_notices_an_end_that_is_read_and_told() {
    let mut whole: Vec<(String, Value)> = serde_json::from_str(WHOLE).unwrap();
    let read = |output: &str| {
        let called = serde_json::json!({"type": "called", "call": "c4", "tool": "task_output", "input": "{}"});
        let finished = serde_json::json!({"type": "call_finished", "call": "c4", "outcome": {"how": "done", "output": output}});
        [("ses_1".to_owned(), called), ("ses_1".to_owned(), finished)]
    };
    let notice = whole.iter().position(|(_, event)| event["took"][0] == "e3").unwrap();
    let mut early = whole.clone();
    early.splice(notice..notice, read("[task ses_2 running] dig\n\ntask_id: ses_2\nnext: 1"));
    assert_eq!(does_not_add_up(&of_lines(&early)), Vec::<String>::new());
    let mut late = whole.clone();
    late.splice(notice + 1..notice + 1, read("[task ses_2 completed] dig\n\ntask_id: ses_2"));
    assert_eq!(does_not_add_up(&of_lines(&late)), Vec::<String>::new(), "reading again what was told is fine");
    whole.splice(notice..notice, read("[task ses_2 completed] dig\n\ntask_id: ses_2"));
    assert_eq!(does_not_add_up(&of_lines(&whole)).len(), 1);
}

/// Words that nobody heard, that were heard twice, by somebody else, or never answered.
#[test]
fn the_verdict_notices_what_becomes_of_a_letter() {
    let whole: Vec<(String, Value)> = serde_json::from_str(WHOLE).unwrap();
    let letter = |text: &str, to: &str| vec![Letter { text: text.into(), to: to.into(), confirmed: true }];
    let wrong = |lines: &[(String, Value)], letters: &[Letter]| letters_of_the_user(&of_lines(lines), letters, &mut Tally::default()).len();
    assert_eq!(wrong(&whole, &letter("letter 0", "ses_1")), 0);
    assert_eq!(wrong(&whole, &letter("letter 1", "ses_1")), 1, "nobody heard it");
    assert_eq!(wrong(&whole, &letter("letter 0", "ses_2")), 1, "somebody else heard it");
    let mut twice = whole.clone();
    twice.push(("ses_2".into(), whole[1].1.clone()));
    assert_eq!(wrong(&twice, &letter("letter 0", "ses_1")), 1, "heard twice");
    let mut unanswered = whole.clone();
    unanswered.remove(2);
    assert_eq!(wrong(&unanswered, &letter("letter 0", "ses_1")), 1, "never answered");
    unanswered.push(("ses_1".into(), serde_json::json!({"type": "interrupted", "by": "user", "hold": "stopped_by_user"})));
    assert_eq!(wrong(&unanswered, &letter("letter 0", "ses_1")), 0, "the user stopped it afterwards");
}
