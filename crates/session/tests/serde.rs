//! Events as they lie in a log: every kind round-trips, old ones fold for ever, none grows beyond its bound.
//!
//! And folding is total: whatever comes in whatever order, nothing panics and what is owed stays the same when asked twice.

mod common;

use std::collections::BTreeSet;

use common::{every_name, one_of_each, one_of_each_part, play::Play, record, rules};
use posse_session::{
    Answer, AskId, Asking, BatchId, By, CallId, Command, Decision, EVENT_BYTES_MAX, Effect, EffectKey, Effort, Entry, EntryId, Event,
    FOLD_VERSION, Finish, Given, Grant, Hash, Hold, How, Isolation, Kind, Left, Letter, Limit, Look, ModelFailure, Outcome, Part, Permit,
    Priority, Purpose, Recipe, Record, Report, Reserved, Scope, Segment, Session, SessionId, Source, Spawn, Summary, Text, Timestamp, To,
    Touch, Usage, Verdict, Wanted, Worktree,
};
use proptest::prelude::*;

#[test]
fn every_event_round_trips() {
    for event in one_of_each("some \"words\"\nand a snowman ☃") {
        let json = serde_json::to_string(&event).expect("json");
        let back: Event = serde_json::from_str(&json).expect("an event");
        assert_eq!(back, event, "{json}");
        assert_eq!(serde_json::to_string(&back).expect("json"), json);
        assert!(event.is_understood());
        assert!(json.starts_with(&format!("{{\"type\":\"{}\"", event.name())), "{json}");
        assert!(matches!(event, Event::Unknown(_)) || !matches!(back, Event::Unknown(_)), "{json} is known");
    }
}

#[test]
fn every_value_inside_an_event_round_trips() {
    fn back<T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug>(values: &[T]) {
        for value in values {
            let json = serde_json::to_string(value).expect("json");
            assert_eq!(&serde_json::from_str::<T>(&json).expect("the same"), value, "{json}");
        }
    }
    let partial = || Text::from("half");
    back(&[
        Outcome::done("x"),
        Outcome::failed("x"),
        Outcome::denied("x"),
        Outcome::Cancelled { partial: partial() },
        Outcome::Lost { partial: Text::Stored { blob: Hash::new("ab"), bytes: 7 } },
    ]);
    back(&[Hold::Esc, Hold::StoppedByModel, Hold::StoppedByUser, Hold::ModelError, Hold::TakeOvers, Hold::Limit]);
    back(&[
        Answer::Yes { scope: Scope::Once },
        Answer::Yes { scope: Scope::Project },
        Answer::No { say: String::new() },
        Answer::No { say: "no".into() },
    ]);
    back(&[
        To::Call { call: CallId::new("c") },
        To::Queue { entry: EntryId::new("e"), worded: false },
        To::Queue { entry: EntryId::new("e"), worded: true },
        To::Internal,
    ]);
    let plugin = || Source::Plugin { name: "p".into() };
    back(&[
        Source::Shell { call: CallId::new("c") },
        Source::Answer { ask: AskId::new("a") },
        Source::User,
        Source::Timer,
        Source::Task { task: SessionId::new("t") },
        Source::Hook { name: "h".into() },
        plugin(),
    ]);
    back(&[Isolation::Worktree, Isolation::WorktreeWithChanges]);
    back(&common::BESIDE);
    back(&[Purpose::Compact { tail_from: 3 }]);
    back(&[common::left("ses_2", true), common::left("ses_2", false), Left { unknown: "no git".into(), ..Left::default() }]);
    let (home, path) = (|| "/work".to_owned(), || "/trees/ses_2".to_owned());
    back(&[
        Worktree { home: home(), path: path(), branch: "posse/ses_2".into(), base: "01ab".into() },
        // Made by the user's own command.
        Worktree { home: home(), path: path(), branch: String::new(), base: String::new() },
    ]);
    back(&[Recipe { isolation: Some(Isolation::WorktreeWithChanges), ..Recipe::default() }]);
    let spawn = || common::split_off("e", vec![Segment { session: SessionId::new("t"), from: 0, to: 4, pruned: false }]);
    back(&[spawn(), Spawn { isolation: Some(Isolation::Worktree), directory: Some("/elsewhere".into()), ..spawn() }]);
    back(&one_of_each_part("x"));
    let entry = Entry { source: plugin(), ..Entry::user(EntryId::new("e"), "hi") };
    back(&[
        Letter::Say { entry },
        Letter::Answer { ask: AskId::new("a"), answer: Answer::No { say: "no".into() } },
        Letter::Stop { tree: true },
        Letter::Answer { ask: AskId::new("a"), answer: Answer::Words { say: "blue".into() } },
        Letter::Resume,
        Letter::Revoke { ask: AskId::new("a") },
        Letter::Detach { task: SessionId::new("t") },
        Letter::BroughtHome { task: SessionId::new("t"), paths: vec!["a.rs".into()], onto: "main".into(), discarded: true },
        Letter::Title { title: "x".into() },
        Letter::Side { task: SessionId::new("t"), question: "why?".into(), model: None },
        Letter::Side { task: SessionId::new("t"), question: "why?".into(), model: Some("test/two".into()) },
    ]);
    assert_eq!(serde_json::to_string(&Hold::TakeOvers).expect("json"), "\"take_overs\"");
    assert_eq!(serde_json::to_string(&Text::Stored { blob: Hash::new("ab"), bytes: 7 }).expect("json"), r#"{"blob":"ab","bytes":7}"#);
}

fn corpus(version: &str) -> Vec<Record> {
    let path = format!("{}/tests/corpus/{version}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the corpus");
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

#[test]
fn the_corpus_has_every_event_and_folds_to_what_it_always_was() {
    let records = corpus("v1");
    let later: Vec<Record> = ["v2", "v3"].into_iter().flat_map(corpus).collect();
    let all: BTreeSet<String> = later.iter().chain(&records).map(|record| record.event.name()).collect();
    assert_eq!(all, every_name());
    let known = records.iter().filter(|record| matches!(record.event, Event::Unknown(_))).count();
    assert_eq!(known, 1, "only the dream is unknown");
    let id = SessionId::new("ses_0");
    let mut play = Play::empty();
    let mut summary = Summary::new(id.clone());
    // The lines to look at: the answer, the calls, the lost owner, Esc, the limit, the end.
    let mut found = Vec::new();
    for record in &records {
        play.session.apply(record);
        summary.apply(record);
        if [5, 13, 20, 25, 27, 30, 31, 33, 34, 39, 41, 42, 44, 54, 55, 57, 59, 60, 61, 62, 63, 65, 66].contains(&record.seq) {
            found.push(format!("{}: {}", record.seq, play.state()));
        }
    }
    let expected = [
        "5: owed: model 1 @2003 | round 1 open",
        "13: owed: look c1, run c3, run c4, run c5 | calls: c1 unlooked, c2 asked, c3 ready, c4 ready, c5 ready | round 1 open",
        "20: owed: run c2, run c3*, run c4*, run c5* | calls: c2 ready, c3 running, c4 running, c5 running | round 1 open",
        "25: owed: run c2, run c5*, watch ses_2/1 | calls: c2 ready, c5 running | round 1 open",
        "27: owed: run c2, watch ses_2/1 | calls: c2 ready | round 1 open",
        "30: owed: watch ses_2/1, stop ses_2/1 | held: esc | round 1 open",
        "31: owed: watch ses_2/1, stop ses_2/1, model 2 | round 1 open",
        "33: owed: conclude 1 | queue: msg_4 | held: limit | round 1 open",
        "34: settled | queue: msg_4 | held: limit | round 1 limit",
        "39: owed: model 2 | queue: msg_4, msg_5 | round 2 open",
        "41: owed: model 2 | queue: msg_4, msg_5 | round 2 open",
        "42: owed: expand msg_7, model 2 | queue: msg_4, msg_5, msg_7 | round 2 open",
        "44: owed: model 2 | queue: msg_4, msg_5, msg_7 | round 2 open",
        "54: owed: run c7*, run c8*, watch ses_3/1 | calls: c7 running, c8 running | queue: msg_4, msg_7 | round 2 open",
        "55: owed: run c8*, watch ses_3/1 | calls: c7 waits for ses_3, c8 running | queue: msg_4, msg_7 | round 2 open",
        "57: owed: watch ses_3/1, mind c8 | calls: c7 waits for ses_3 | queue: msg_4, msg_7 | round 2 open",
        "59: owed: mind c8, model 3 | queue: msg_4, msg_7, msg_11 | round 2 open",
        "60: owed: mind c8, model 3 | queue: msg_4, msg_7 | round 2 open",
        "61: owed: watch ses_3/2, mind c8, model 3 | queue: msg_4, msg_7 | round 2 open",
        "62: owed: watch ses_3/2, model 3 | queue: msg_4, msg_7, msg_13 | round 2 open",
        "63: owed: watch ses_3/2, model 3 | queue: msg_4, msg_7, msg_13 | on test/two | round 2 open",
        "65: owed: watch ses_3/2, model 3 | queue: msg_4, msg_7, msg_13, ask_1.late | round 2 open",
        "66: owed: watch ses_3/2 | queue: msg_4, msg_7, msg_13, ask_1.late | held: limit | round 2 open",
    ]
    .map(|line| (1..=8).fold(line.to_owned(), |line, number| line.replace(&format!(" c{number}"), &format!(" call_{number}"))));
    assert_eq!(found, expected);
    let segments: Vec<(u64, u64)> = play.session.segments().iter().map(|segment| (segment.from, segment.to)).collect();
    assert_eq!(segments, [(35, 36), (32, 33), (37, 66)], "the summary, who waited to be heard, and what came after the undo");
    assert_eq!((play.session.usage().input, play.session.usage().output, play.session.last_reply()), (100, 20, Some(46)));
    assert_eq!((play.session.is_foreign(), play.session.tasks_started(), play.session.head()), (false, 3, 66));
    assert_eq!((summary.calls, summary.title.as_str(), summary.agent.as_str()), (8, "an old one", "build"));
    assert_eq!(Session::fold(id, &records), play.session);
}

/// A long conversation: outputs left out, two summaries, one that failed, a better title, an answer without its shape.
#[test]
fn the_corpus_of_long_conversations_folds_to_what_it_always_was() {
    let records = corpus("v2");
    assert!(records.iter().all(|record| !matches!(record.event, Event::Unknown(_))));
    let (mut play, mut summary) = (Play::empty(), Summary::new(SessionId::new("ses_0")));
    let mut found = Vec::new();
    for record in &records {
        play.session.apply(record);
        summary.apply(record);
        if [11, 12, 16, 17, 18, 20, 25, 28, 30, 31, 32, 34, 36, 37, 38].contains(&record.seq) {
            found.push(format!("{}: {}", record.seq, play.state()));
        }
    }
    let expected = [
        "11: owed: model 1 | round 1 open",
        "12: owed: model 1 | round 1 open",
        "16: owed: compact | round 1 open",
        "17: owed: watch ses_2/1 | round 1 open",
        "18: owed: watch ses_2/1 | round 1 open",
        "20: owed: model 2 @1016 | round 1 open",
        "25: owed: compact for msg_2 | queue: msg_2 | round 2 open",
        "28: owed: watch ses_3/1 | round 2 open",
        "30: owed: conclude 2 | round 2 open",
        "31: settled | round 2 completed",
        "32: owed: model 3 | queue: msg_3 | round 3 open",
        "34: owed: conclude 3 | round 3 open",
        "36: owed: model 4* | round 3 open",
        "37: owed: conclude 3 | round 3 open",
        "38: settled | round 3 completed",
    ];
    assert_eq!(found, expected);
    let segments: Vec<(u64, u64, bool)> =
        play.session.segments().iter().map(|segment| (segment.from, segment.to, segment.pruned)).collect();
    assert_eq!(segments, [(18, 19, false), (9, 11, true), (12, 18, false), (19, 38, false)]);
    assert_eq!((play.session.tasks_started(), play.session.last_input(), summary.title.as_str()), (0, 8, "the numbers"));
    assert_eq!(Session::fold(SessionId::new("ses_0"), &records), play.session);
}

/// A parent of forks and of workers in folders of their own, and work beside its conversation.
#[test]
fn the_corpus_of_worktrees_and_forks_folds_to_what_it_always_was() {
    let records = corpus("v3");
    assert!(records.iter().all(|record| !matches!(record.event, Event::Unknown(_))));
    let (mut play, mut summary) = (Play::empty(), Summary::new(SessionId::new("ses_0")));
    let mut found = Vec::new();
    for record in &records {
        play.session.apply(record);
        summary.apply(record);
        if [12, 15, 17, 18, 19, 20, 21, 22, 24, 25, 27, 28, 30, 31, 32, 33, 35, 36, 38].contains(&record.seq) {
            found.push(format!("{}: {}", record.seq, play.state()));
        }
    }
    let expected = [
        "12: owed: run call_1*, run call_2*, run call_3* | calls: call_1 running, call_2 running, call_3 running | round 1 open",
        "15: owed: watch ses_1/1, watch ses_2/1, watch ses_3/1 | calls: call_1 waits for ses_1, call_2 waits for ses_2, call_3 waits for ses_3 | round 1 open",
        "17: owed: watch ses_1/1, watch ses_2/1, watch ses_3/1 | calls: call_1 waits for ses_1, call_2 waits for ses_2 | round 1 open",
        "18: owed: watch ses_2/1, watch ses_3/1, release ses_1 | calls: call_2 waits for ses_2 | round 1 open",
        "19: owed: watch ses_1/2, watch ses_2/1, watch ses_3/1 | calls: call_2 waits for ses_2 | round 1 open",
        "20: owed: watch ses_1/2, watch ses_2/1, watch ses_3/1 | calls: call_2 waits for ses_2 | round 1 open",
        "21: owed: watch ses_2/1, watch ses_3/1, release ses_1 | calls: call_2 waits for ses_2 | queue: msg_n1 | round 1 open",
        "22: owed: watch ses_2/1, watch ses_3/1 | calls: call_2 waits for ses_2 | queue: msg_n1 | round 1 open",
        "24: owed: watch ses_3/1, model 1 | queue: msg_n1 | round 1 open",
        "25: owed: watch ses_3/1, watch ses_4/1, model 1 | queue: msg_n1 | round 1 open",
        "27: owed: watch ses_3/1, watch ses_4/1 | round 1 open",
        "28: owed: watch ses_4/1, model 2 | queue: msg_n3 | round 1 open",
        "30: owed: watch ses_4/1, conclude 1 | round 1 open",
        "31: owed: conclude 1 | round 1 open",
        "32: settled | round 1 completed",
        "33: owed: watch ses_5/1 | round 1 completed",
        "35: settled | round 1 completed",
        "36: settled | round 1 completed",
        "38: settled | round 1 completed",
    ];
    assert_eq!(found, expected);
    assert_eq!(play.session.tasks_started(), 3, "work beside the conversation is not counted");
    assert!(summary.at_rest && summary.is_over(), "{summary:?}");
    let birth = play.session.birth().expect("it was born");
    let worktree = birth.worktree.as_ref().expect("it has a folder of its own");
    assert_eq!((birth.kind, worktree.branch.as_str(), worktree.is_foreign()), (Kind::Task, "posse/ses_0", false));
    assert_eq!(birth.recipe.isolation, Some(Isolation::Worktree));
    assert!(play.session.begins_elsewhere());
    assert_eq!(Session::fold(SessionId::new("ses_0"), &records), play.session);
}

/// The version of saved folds, and what the corpus folds to in it.
///
/// When this fails, the state or `apply` has changed: folds that older versions have saved must not be read any more.
/// Raise `FOLD_VERSION` in `src/state.rs` and put what the test found here.
const FOLDS: (u32, u64) = (3, 504_651_278_958_007_358);

#[test]
fn a_changed_state_has_a_new_fold_version() {
    // FNV-1a, as for ids: stable everywhere.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for version in ["v1", "v2", "v3"] {
        let mut session = Session::new(SessionId::new("ses_0"));
        for record in corpus(version) {
            session.apply(&record);
            let json = serde_json::to_string(&session).expect("a session is JSON");
            assert_eq!(serde_json::from_str::<Session>(&json).expect("a session"), session, "saved at {} of {version}", record.seq);
            hash = json.bytes().fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        }
    }
    let found = (FOLD_VERSION, hash);
    assert_eq!(found, FOLDS, "what a saved fold holds has changed: raise FOLD_VERSION in src/state.rs and set FOLDS here to {found:?}");
}

/// Costs are sums of fractions, and JSON may lose the last bit of one: that is all a saved fold may lose.
#[test]
fn a_saved_sum_of_costs_is_off_by_a_bit_at_most() {
    let mut session = Session::new(SessionId::new("ses_0"));
    for number in 1..2_000u64 {
        let usage = Usage { input: number, cost_usd: number as f64 * 0.000_003_7 + 1.0 / number as f64, ..Usage::default() };
        session.apply(&record(number, Event::Replied { step: 0, parts: Vec::new(), calls: 0, usage, finish: Finish::Stop, author: None }));
        let saved: Session = serde_json::from_str(&serde_json::to_string(&session).expect("json")).expect("a session");
        let (found, cost) = (saved.usage().cost_usd, session.usage().cost_usd);
        assert!((found - cost).abs() <= cost * f64::EPSILON, "after {number} answers: {found} is not {cost}");
    }
}

/// What the engine does before an append, at its most thorough: every text goes to a blob.
fn spilled(event: &Event) -> Event {
    let mut event = event.clone();
    for text in event.texts_mut() {
        *text = Text::Stored { blob: Hash::new("0123456789abcdef".repeat(4)), bytes: text.bytes() };
    }
    event
}

fn size(event: &Event) -> usize {
    serde_json::to_string(event).expect("json").len()
}

#[test]
fn no_event_with_long_texts_is_large_once_they_are_in_blobs() {
    let long = "x".repeat(100_000);
    for event in one_of_each(&long) {
        if matches!(event, Event::Unknown(_)) {
            continue;
        }
        let spilled = spilled(&event);
        assert!(size(&spilled) <= EVENT_BYTES_MAX, "{} has {} bytes", event.name(), size(&spilled));
        assert!(!serde_json::to_string(&spilled).expect("json").contains(&long), "{} keeps a text", event.name());
    }
}

/// Everything a session may say in one go, with all texts as long as they get.
#[test]
fn no_event_that_is_decided_is_large() {
    let long = "\n".repeat(50_000);
    let mut play = Play::of("say; step");
    let check = |play: &Play, what: &str| {
        assert!(!play.facts.is_empty(), "{what}");
        for event in &play.facts {
            let size = size(&spilled(event));
            assert!(size <= EVENT_BYTES_MAX, "{what}: {} has {size} bytes", event.name());
        }
    };
    // A provider that answers with a web page.
    let failed = Report::ModelFailed {
        step: 0,
        failure: ModelFailure::Server,
        words: long.clone(),
        retry_after: None,
        partial: long.clone().into(),
        usage: Usage::default(),
    };
    play.decide(Command::Report(failed));
    check(&play, "a failure");
    play.run("step");
    // A thousand calls, each with an input as long as a file, which is also what it touches and what it is called.
    let ids: Vec<CallId> = (0..1_000).map(|number| CallId::new(format!("call_{number:026}"))).collect();
    let mut parts = vec![Part::text(long.clone())];
    parts.extend(ids.iter().map(|call| Part::Call { call: call.clone() }));
    let call = |(number, call): (usize, &CallId)| Wanted {
        call: call.clone(),
        wire_id: format!("toolu_{number:026}"),
        tool: ["ask", "deny", "touch"][number % 3].into(),
        input: long.clone().into(),
        look: Ok(Look {
            touches: (0..20).map(|_| Touch::new(["ask", "deny", "touch"][number % 3], format!("{number}{long}"))).collect(),
            repeatable: false,
            title: long.clone(),
            ..Look::default()
        }),
        consented: false,
    };
    // Few enough with their full length to be quick, then very many.
    for calls in [30, 1_000] {
        let mut wanted: Vec<Wanted> = ids.iter().enumerate().take(calls.min(30)).map(call).collect();
        wanted.extend(ids.iter().enumerate().skip(30).take(calls - wanted.len()).map(|(_, id)| common::wanted(id.as_str(), "touch", "{}")));
        let mut again = Play::of("say; step");
        again.decide(Command::Report(Report::Reply {
            step: 0,
            parts: parts.clone(),
            calls: wanted,
            usage: Usage::default(),
            finish: Finish::Calls,
            misshapen: None,
        }));
        check(&again, "a reply");
        again.run(&format!("no {}", "word ".repeat(20_000)));
        check(&again, "a refusal");
    }
    // A hook that amends.
    let mut hooked = Play::of("hooks; say; step; reply +touch");
    let look = Look { touches: (0..50).map(|_| Touch::new("ask", long.clone())).collect(), ..Look::default() };
    hooked.decide(Command::Report(Report::Looked {
        call: CallId::new("c1"),
        input: long.clone().into(),
        look: Ok(look),
        by: "hook".into(),
    }));
    check(&hooked, "a look");
}

#[test]
fn what_is_clipped_was_judged_whole() {
    let mut play = Play::of("say; step");
    let pattern = format!("{}; rm -rf /", "x".repeat(5_000));
    play.rules.0.push(common::rule("touch", "*rm -rf /", Verdict::Deny));
    let mut touches: Vec<Touch> = (0..20).map(|number| Touch::new("touch", format!("{number}"))).collect();
    touches.push(Touch::new("touch", pattern.clone()));
    let wanted = Wanted { look: Ok(Look { touches, ..Look::default() }), ..common::wanted("c1", "touch", &pattern) };
    play.decide(Command::Report(Report::Reply {
        step: 0,
        parts: Vec::new(),
        calls: vec![wanted],
        usage: Usage::default(),
        finish: Finish::Calls,
        misshapen: None,
    }));
    assert_eq!(play.last_facts(), "replied 1, called c1 deny, c1 denied");
}

#[test]
fn a_grant_of_something_long_is_no_grant_of_its_beginning() {
    let long = |tail: &str| format!("{}{tail}", "x".repeat(5_000));
    let mut play = Play::of(&format!("say; step; reply +ask={}; yes session; start; finish ok; step", long("good")));
    play.run(&format!("reply +ask={}", long("evil")));
    assert_eq!(play.last_facts(), "replied 1, called c2 ask, asked c2 ask");
}

// ---- Folding is total ----

fn small() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..4u64, 1 => Just(u64::MAX)]
}

fn call() -> impl Strategy<Value = CallId> {
    (0..3u8).prop_map(|number| CallId::new(format!("c{number}")))
}

fn session() -> impl Strategy<Value = SessionId> {
    (0..3u8).prop_map(|number| SessionId::new(format!("t{number}")))
}

fn entry_id() -> impl Strategy<Value = EntryId> {
    (0..4u8).prop_map(|number| EntryId::new(format!("e{number}")))
}

fn decision() -> impl Strategy<Value = Decision> {
    let verdict = prop_oneof![Just(Verdict::Allow), Just(Verdict::Ask), Just(Verdict::Deny)];
    (verdict, any::<bool>()).prop_map(|(verdict, touches)| Decision {
        offers: if touches { vec![Grant { key: "ask".into(), pattern: "x".into(), exact: true }] } else { Vec::new() },
        ..Decision::of(verdict, touches.then(|| Touch::new("ask", "x")))
    })
}

fn hold() -> impl Strategy<Value = Hold> {
    prop_oneof![
        Just(Hold::Esc),
        Just(Hold::StoppedByModel),
        Just(Hold::StoppedByUser),
        Just(Hold::ModelError),
        Just(Hold::TakeOvers),
        Just(Hold::Limit)
    ]
}

fn usage() -> impl Strategy<Value = Usage> {
    (small(), small()).prop_map(|(input, output)| Usage {
        input,
        output,
        cache_read: input,
        cache_write: 0,
        cost_usd: 0.5,
        unpriced: output,
    })
}

fn source() -> impl Strategy<Value = Source> {
    let peer = || Source::Agent { session: SessionId::new("t0"), name: "a".into() };
    prop_oneof![
        Just(Source::User),
        Just(Source::Timer),
        Just(peer()),
        Just(Source::Task { task: SessionId::new("t1") }),
        Just(Source::Shell { call: CallId::new("c1") })
    ]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let lost = Outcome::Lost { partial: Text::default() };
    prop_oneof![Just(Outcome::done("x")), Just(Outcome::failed("x")), Just(Outcome::denied("x")), Just(Outcome::cancelled("x")), Just(lost)]
}

fn about_length() -> impl Strategy<Value = Event> {
    let summing = (session(), small(), small()).prop_map(|(task, round, tail_from)| Event::TaskStarted {
        call: CallId::new(""),
        task,
        round,
        spawn: common::internal("m", Purpose::Compact { tail_from }, Vec::new()),
        wait: false,
    });
    prop_oneof![
        summing,
        small().prop_map(|to| Event::Pruned { to }),
        Just(Event::CompactionFailed { why: "x".into(), smaller: true }),
        Just(Event::Titled { title: "x".into() }),
        any::<bool>().prop_map(|again| Event::Misshapen { words: "x".into(), again }),
    ]
}

/// Folders of tasks, and work beside the conversation.
fn about_worktrees() -> impl Strategy<Value = Event> {
    let beside = (session(), small(), 0..common::BESIDE.len()).prop_map(|(task, round, kind)| Event::TaskStarted {
        call: CallId::new(""),
        task,
        round,
        spawn: common::internal("m", common::BESIDE[kind].clone(), Vec::new()),
        wait: false,
    });
    let advised = (0..common::BESIDE.len()).prop_map(|kind| Event::Advised { advice: common::BESIDE[kind].clone(), text: "x".into() });
    prop_oneof![
        beside,
        advised,
        (session(), any::<bool>()).prop_map(|(task, clean)| Event::WorktreeLeft { left: common::left(task.as_str(), clean), task }),
        (session(), any::<bool>()).prop_map(|(task, removed)| Event::Released { task, removed, words: "x".into() }),
        (session(), any::<bool>()).prop_map(|(task, discarded)| Event::BroughtHome {
            task,
            paths: vec!["a.rs".into()],
            more: u64::from(discarded),
            onto: String::new(),
            discarded
        }),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let priority = prop_oneof![Just(Priority::Now), Just(Priority::Next), Just(Priority::Later)];
    let parts = prop_oneof![5 => Just(Part::text("x")), 1 => Just(Part::Compact { words: "x".into() })];
    let queued = (entry_id(), source(), priority, parts).prop_map(|(id, source, priority, part)| Event::Queued {
        entry: Entry { source, priority, parts: vec![part], ..Entry::user(id, "x") },
    });
    let step = (small(), prop::collection::vec(entry_id(), 0..3), any::<bool>()).prop_map(|(step, took, closing)| Event::StepStarted {
        step,
        took,
        reserved: Reserved::default(),
        closing,
        notes: Vec::new(),
    });
    let replied = (small(), small(), usage()).prop_map(|(step, calls, usage)| Event::Replied {
        step,
        parts: Vec::new(),
        calls,
        usage,
        finish: Finish::Stop,
        author: None,
    });
    let called =
        (call(), any::<bool>(), prop::option::of(decision()), 0..2u8).prop_map(|(call, repeatable, decision, input)| Event::Called {
            call,
            tool: "touch".into(),
            input: format!("{input}").into(),
            wire_id: String::new(),
            touches: Vec::new(),
            repeatable,
            title: String::new(),
            decision,
            consented: false,
        });
    let failed =
        (small(), prop::option::of(prop_oneof![Just(ModelFailure::Cut), Just(ModelFailure::TooLong)]), prop::option::of(small()), usage())
            .prop_map(|(step, failure, retry_at, usage)| Event::StepFailed {
                step,
                failure,
                error: "x".into(),
                retry_at: retry_at.map(Timestamp),
                partial: Text::default(),
                usage,
            });
    let looked = (call(), decision()).prop_map(|(call, decision)| Event::Looked {
        call,
        input: "x".into(),
        touches: Vec::new(),
        by: "h".into(),
        decision,
    });
    let asked = (call(), decision()).prop_map(|(call, decision)| Event::Asked { ask: AskId::new("a"), call, decision });
    let answer = prop_oneof![
        Just(Answer::Yes { scope: Scope::Once }),
        Just(Answer::Yes { scope: Scope::Tree }),
        Just(Answer::No { say: String::new() })
    ];
    let answered = (call(), answer).prop_map(|(call, answer)| Event::Answered { ask: AskId::new("a"), call, answer, by: By::User });
    let task_started = (call(), session(), small(), any::<bool>(), any::<bool>()).prop_map(|(call, task, round, wait, internal)| {
        Event::TaskStarted { call, task, round, spawn: common::spawn("m", internal), wait }
    });
    let to = prop_oneof![
        call().prop_map(|call| To::Call { call }),
        entry_id().prop_map(|entry| To::Queue { entry, worded: true }),
        Just(To::Internal)
    ];
    let task_ended = (session(), small(), to).prop_map(|(task, round, to)| Event::TaskEnded {
        task,
        round,
        how: How::Completed,
        result: "x".into(),
        usage: Usage::default(),
        to,
        effort: Effort::default(),
    });
    prop_oneof![
        3 => queued,
        3 => step,
        3 => replied,
        3 => called,
        1 => failed,
        1 => looked,
        1 => asked,
        1 => answered,
        1 => (call(), 0..5u32).prop_map(|(call, attempt)| Event::CallStarted { call, attempt }),
        3 => (call(), outcome()).prop_map(|(call, outcome)| Event::CallFinished { call, outcome }),
        1 => hold().prop_map(|hold| Event::Interrupted { by: By::User, hold }),
        1 => Just(Event::Resumed { by: By::User }),
        1 => usage().prop_map(|usage| Event::TookOver { calls: 1, usage }),
        1 => Just(Event::LimitReached { limit: Limit::Time, words: "x".into(), own: false }),
        1 => task_started,
        1 => task_ended,
        1 => session().prop_map(|task| Event::Detached { task }),
        1 => (session(), small()).prop_map(|(task, round)| Event::TaskResumed { task, round, spawn: common::spawn("m", false) }),
        2 => (session(), call()).prop_map(|(task, call)| Event::TaskAwaited { task, call, until: None }),
        1 => entry_id().prop_map(|entry| Event::Unqueued { entry }),
        1 => call().prop_map(|call| Event::Kept { call, title: "x".into() }),
        1 => (call(), prop::option::of(entry_id())).prop_map(|(call, entry)| Event::KeptEnded { call, words: "x".into(), entry }),
        1 => prop::option::of(Just("m".to_owned())).prop_map(|model| Event::ModelChanged { model, why: "x".into() }),
        1 => Just(Event::LimitReached { limit: Limit::Wall, words: "x".into(), own: true }),
        1 => session().prop_map(|task| Event::TaskStopped { task, by: By::User, hold: None }),
        1 => small().prop_map(|round| Event::Ended { round, how: How::Completed, reply: None, error: String::new(), usage: Usage::default() }),
        1 => (session(), small(), small()).prop_map(|(session, from, to)| Event::Forked { segments: vec![Segment { session, from, to, pruned: false }] }),
        1 => small().prop_map(|tail_from| Event::Compacted { summary: "x".into(), tail_from, verbatim: Default::default() }),
        4 => about_length(),
        4 => about_worktrees(),
        1 => small().prop_map(|to| Event::Reverted { to }),
        1 => Just(Event::Unknown(serde_json::json!({"type": "dreamt"}))),
        1 => (0..one_of_each("x").len()).prop_map(|index| one_of_each("x").swap_remove(index)),
    ]
}

fn fold(records: &[Record]) -> Session {
    Session::fold(SessionId::new("t0"), records)
}

fn records(events: Vec<Event>) -> Vec<Record> {
    events.into_iter().enumerate().map(|(index, event)| record(index as u64 + 1, event)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_log_folds_and_what_it_owes_is_stable(events in prop::collection::vec(event(), 0..60)) {
        let records = records(events);
        let session = fold(&records);
        let owed = session.owed();
        prop_assert_eq!(&owed, &session.owed());
        let keys: BTreeSet<EffectKey> = owed.iter().map(Effect::key).collect();
        prop_assert!(keys.len() == owed.len() || has_twins(&session), "two effects with one key: {:?}", owed);
        prop_assert!(!session.is_settled() || owed.is_empty() || has_failed_without_a_step(&session), "settled, and owes {:?}", owed);
        // A folder is not removed from under whoever works in it.
        let removed = |task: &SessionId| owed.iter().any(|effect| effect.key() == EffectKey::Release(task.clone()));
        prop_assert!(!session.tasks().keys().any(removed), "removed while it works: {:?}", owed);
        // Folding in two pieces is folding.
        let half = records.len() / 2;
        let mut pieces = fold(&records[..half]);
        records[half..].iter().for_each(|record| pieces.apply(record));
        prop_assert_eq!(&pieces, &session);
        // So it is after a trip through JSON, and with the texts gone to blobs.
        let json: Vec<Record> = records.iter().map(|record| serde_json::from_str(&serde_json::to_string(record).expect("json")).expect("a record")).collect();
        prop_assert_eq!(&fold(&json), &session);
        // A saved fold is the session.
        let saved: Session = serde_json::from_str(&serde_json::to_string(&session).expect("json")).expect("a session");
        prop_assert_eq!(saved, session);
    }

    #[test]
    fn any_session_can_be_commanded_and_goes_on(events in prop::collection::vec(event(), 0..40)) {
        let records = records(events);
        let session = fold(&records);
        let rules = rules();
        let ids = common::Counter::default();
        let given = Given { now: Timestamp(5), ids: &ids, chance: 0.5, rules: &rules, ceiling: &[], asking: Asking::Nobody, mode: Default::default(), strict_shell: false, grants: &[], looks: false, fallbacks: &[], compacts: true, in_flight: Default::default() };
        let commands = [
            Command::TakeOver,
            Command::Say(Entry::user(EntryId::new("new"), "hi")),
            Command::Interrupt { by: By::User, hold: Hold::Esc, partial: Text::default() },
            Command::Limit { limit: Limit::Time, words: "x".into(), partial: Text::default(), own: false },
            Command::Resume { by: By::User },
            Command::Detach { task: SessionId::new("t1"), launched: Outcome::done("it runs") },
            Command::StopTask { task: SessionId::new("t1"), by: By::User },
            Command::Interrupt { by: By::User, hold: Hold::StoppedByUser, partial: Text::default() },
            Command::Await { call: CallId::new("c1"), task: SessionId::new("t1"), until: None },
            Command::Lapse { call: CallId::new("c1"), outcome: Outcome::done("x") },
            Command::Wake { task: SessionId::new("t1"), round: 2, spawn: Box::new(common::spawn("m", false)) },
            Command::Noticed { task: SessionId::new("t1") },
            Command::Keep { call: CallId::new("c1"), title: "x".into() },
            Command::ChangeModel { model: Some("m".into()), why: "x".into() },
            Command::Report(common::play::task_report("t1", 1, How::Completed)),
            Command::Report(Report::KeptEnded { call: CallId::new("c1"), words: Some("x".into()) }),
            Command::Answer { ask: AskId::new("a"), answer: Answer::Yes { scope: Scope::Session }, by: By::User },
            Command::Configure { head: Hash::new("zz"), model: "m".into() },
            Command::Compact { task: SessionId::new("t9"), spawn: Box::new(common::internal("m", Purpose::Compact { tail_from: 3 }, session.segments_until(3))), took: None },
            Command::Prune { to: 2 },
            Command::LeaveUncompacted { why: "x".into(), took: Some(EntryId::new("e1")) },
            Command::Retitle { title: "x".into() },
            Command::Fork { segments: vec![Segment { session: SessionId::new("t2"), from: 0, to: 4, pruned: false }] },
            Command::Advise { task: SessionId::new("t9"), spawn: Box::new(common::internal("m", Purpose::Summarise, session.segments_until(3))) },
            Command::Advise { task: SessionId::new("t1"), spawn: Box::new(common::internal("m", Purpose::Side, Vec::new())) },
            Command::Report(Report::Released { task: SessionId::new("t1"), removed: true, words: String::new() }),
            Command::BringHome { task: SessionId::new("t1"), paths: vec!["a.rs".into()], onto: String::new(), discarded: false },
        ];
        for command in commands {
            let mut draft = session.draft(BatchId::new("evt_x"), Timestamp(5));
            draft.decide(command, &given);
            for effect in draft.session().owed() {
                draft.begin(&effect, Permit::default(), Vec::new(), &given);
            }
            let mut again = session.clone();
            draft.records().iter().for_each(|record| again.apply(record));
            prop_assert_eq!(&again, draft.session());
            // What was begun is not begun twice.
            let (after, _) = draft.into_parts();
            for effect in after.owed() {
                prop_assert!(after.begin(&effect, Permit::default(), Vec::new(), &given).is_empty() || !after.has_begun(&effect));
            }
        }
    }

    #[test]
    fn a_report_nobody_waits_for_is_nothing(events in prop::collection::vec(event(), 0..40)) {
        let session = fold(&records(events));
        let rules = rules();
        let ids = common::Counter::default();
        let given = Given { now: Timestamp(5), ids: &ids, chance: 0.5, rules: &rules, ceiling: &[], asking: Asking::Open, mode: Default::default(), strict_shell: false, grants: &[], looks: false, fallbacks: &[], compacts: true, in_flight: Default::default() };
        let stale = 77;
        let call = CallId::new("long gone");
        let task = SessionId::new("long gone");
        let (parts, usage, partial) = (Vec::new(), Usage::default(), Text::default());
        let reports = [
            Report::Reply { step: stale, parts, calls: vec![common::wanted("c9", "touch", "x")], usage, finish: Finish::Calls, misshapen: None },
            Report::ModelFailed { step: stale, failure: ModelFailure::Auth, words: "x".into(), retry_after: None, partial, usage },
            Report::Looked { call: call.clone(), input: "x".into(), look: Ok(Look::default()), by: "h".into() },
            Report::CallFinished { call: call.clone(), outcome: Outcome::done("x") },
            common::play::task_report("long gone", 1, How::Completed),
            Report::KeptEnded { call: call.clone(), words: Some("x".into()) },
            Report::Released { task: task.clone(), removed: true, words: String::new() },
            Report::Released { task: task.clone(), removed: false, words: "x".into() },
            left_by_nobody(),
        ];
        for report in reports {
            let found = session.decide(Command::Report(report.clone()), &given);
            prop_assert!(found.is_empty(), "{:?} became {:?}", report, found);
        }
        let others = [
            Command::Answer { ask: AskId::new("long gone"), answer: Answer::Yes { scope: Scope::Once }, by: By::User },
            Command::Spawn { call, task: task.clone(), round: 1, spawn: Box::new(common::spawn("m", false)), launched: None },
            Command::Detach { task: task.clone(), launched: Outcome::done("it runs") },
            Command::Await { call: CallId::new("long gone"), task: task.clone(), until: None },
            Command::Lapse { call: CallId::new("long gone"), outcome: Outcome::done("x") },
            Command::Noticed { task: task.clone() },
            Command::Keep { call: CallId::new("long gone"), title: "x".into() },
            Command::StopTask { task, by: By::User },
        ];
        for command in others {
            prop_assert!(session.decide(command, &given).is_empty());
        }
    }

    #[test]
    fn a_summary_folded_twice_is_the_same(events in prop::collection::vec(event(), 0..40), cut in 0..40usize) {
        let records = records(events);
        let all = |records: &[Record], mut summary: Summary| {
            records.iter().for_each(|record| summary.apply(record));
            summary
        };
        let whole = all(&records, Summary::new(SessionId::new("t0")));
        let half = all(&records[..cut.min(records.len())], Summary::new(SessionId::new("t0")));
        let stored: Summary = serde_json::from_str(&serde_json::to_string(&half).expect("json")).expect("a summary");
        prop_assert_eq!(all(&records[cut.min(records.len())..], stored), whole);
    }

    #[test]
    fn any_object_is_an_event_and_comes_back_as_it_was(name in "[a-z_]{1,12}", ignorable in any::<bool>(), number in any::<i64>()) {
        let json = serde_json::json!({"type": format!("x_{name}"), "z": number, "ignorable": ignorable, "a": {"b": [null, 1.5]}}).to_string();
        let event: Event = serde_json::from_str(&json).expect("an event");
        prop_assert_eq!(event.is_understood(), ignorable);
        prop_assert_eq!(serde_json::to_string(&event).expect("json"), json);
    }
}

/// Logs of the first version know a patch by its hashes alone.
#[test]
fn an_old_patch_is_read_and_comes_back_as_it_was() {
    let json = r#"{"type":"patch","path":"a.rs","before":"","after":"12ab"}"#;
    let part: Part = serde_json::from_str(json).expect("a part");
    assert!(matches!(&part, Part::Patch { added: 0, removed: 0, mode: None, change, .. } if change.is_blank()), "{part:?}");
    assert_eq!(serde_json::to_string(&part).expect("json"), json);
}

/// The end of a task that nobody has started, with work in a folder.
fn left_by_nobody() -> Report {
    let Report::TaskEnded(mut end) = common::play::task_report("long gone", 1, How::Completed) else { panic!("an end") };
    (end.left, end.said) = (Some(common::left("long gone", true)), "x".into());
    Report::TaskEnded(end)
}

/// Events of logs that were written before there were worktrees: they fold to sessions without one, and come back as they were.
#[test]
fn logs_from_before_worktrees_and_forks_are_read_and_come_back_as_they_were() {
    let created = r#"{"type":"created","kind":"task","root":"ses_0","parent":"ses_0","directory":"/work","title":"t","recipe":{"agent":"build","model":"test/one"}}"#;
    let started = r#"{"type":"task_started","call":"c1","task":"ses_2","round":1,"spawn":{"agent":"explore","description":"look","prompt":"look","entry":"m"},"wait":true}"#;
    for json in [created, started] {
        let event: Event = serde_json::from_str(json).expect("an event");
        assert_eq!(serde_json::to_string(&event).expect("json"), json);
        match event {
            Event::Created { kind, recipe, worktree, .. } => assert_eq!((kind, recipe.isolation, worktree), (Kind::Task, None, None)),
            Event::TaskStarted { spawn, .. } => assert_eq!((spawn.isolation, spawn.directory, spawn.fork), (None, None, None)),
            other => panic!("{other:?}"),
        }
    }
    // What is not said of a folder is nothing: it stays.
    let left: Left = serde_json::from_str(r#"{"path":"/trees/a"}"#).expect("what is left");
    assert_eq!(left, Left { path: "/trees/a".into(), ..Left::default() });
    assert!(!left.clean);
}

/// A log nobody writes: the provider refused as too long what was never sent, so there is no round in which to make it shorter.
fn has_failed_without_a_step(session: &Session) -> bool {
    session.compaction().overflow.is_some() && !session.round().open
}

/// A log nobody writes: two open calls of one id.
fn has_twins(session: &Session) -> bool {
    let ids: BTreeSet<&CallId> = session.calls().iter().map(|open| &open.call).collect();
    ids.len() != session.calls().len()
}
