//! Plans for long conversations, and what a model reads after them.
//!
//! Tables for the plan, for what is left out and for what is kept word for word; and generated logs that are cut wherever
//! the plan cuts them: both pieces must be conversations, and together all of it.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{HashMap, VecDeque};

use common::{Dice, done, log, record, say, step, took_by};
use posse_context::{Budget, Plan, Thread, directive, prune, verbatim, weigh};
use posse_session::{
    Block, By, CallId, Entry, EntryId, Event, Finish, Hold, How, Message, ModelFailure, Outcome, Part, Record, Role, SessionId, Source,
    Text, Timestamp, To,
};

fn reply(text: &str, calls: u64) -> Event {
    let parts = if text.is_empty() { Vec::new() } else { vec![Part::text(text)] };
    Event::Replied { step: 0, parts, calls, usage: Default::default(), finish: Finish::Stop, author: None }
}

fn called(call: &str, tool: &str) -> Event {
    common::called(call, tool, "{}", &format!("wire_{call}"))
}

/// A call from the step before it to its end: five records.
fn turn(number: u64, tool: &str, output: usize) -> Vec<Event> {
    let call = format!("c{number}");
    vec![
        step(&[]),
        reply("", 1),
        called(&call, tool),
        Event::CallStarted { call: CallId::new(&call), attempt: 1 },
        done(&call, "x".repeat(output)),
    ]
}

/// A prompt, then so many calls of this tool with outputs of so many bytes; the last of them ends at `2 + 5 * calls`.
fn calls(tool: &str, outputs: &[usize]) -> Vec<Record> {
    let mut events = vec![say("e1", "do it"), step(&["e1"])];
    for (number, output) in outputs.iter().enumerate() {
        let mut turn = turn(number as u64, tool, *output);
        if number == 0 {
            turn.remove(0);
        }
        events.extend(turn);
    }
    log(events)
}

fn budget(most: u64) -> Budget {
    Budget { most, prune: true, asked: false, before: 0, now: 0, fits: u64::MAX }
}

/// A plan for a conversation that is sent as it is weighed.
fn plan(records: &[Record], budget: Budget) -> Plan {
    posse_context::plan(records, Budget { now: weigh(records), ..budget })
}

#[test]
fn what_calls_printed_goes_first_if_that_is_enough() {
    // Records 6, 11, 16, 21 are the outputs, 10,000 bytes each.
    let records = calls("read", &[10_000; 4]);
    // A quarter of the budget is spared, the latest first; so an output of a quarter and its call are just too much.
    assert_eq!(plan(&records, budget(40_000)), Plan::Prune { to: 16 });
    assert_eq!(plan(&records, budget(80_000)), Plan::Prune { to: 11 });
    // It is not, or nobody may: the conversation is summed up but for the latest.
    assert_eq!(plan(&records, Budget { prune: false, ..budget(41_000) }), Plan::Sum { tail_from: 16 });
    assert_eq!(plan(&records, Budget { prune: false, ..budget(4_000) }), Plan::Sum { tail_from: 21 });
    let mut words = vec![say("e1", "w".repeat(50_000)), step(&["e1"]), reply("ok", 0)];
    words.extend(calls("read", &[10_000; 4]).into_iter().skip(1).map(|record| record.event));
    let words = log(words);
    assert_eq!(plan(&words, budget(41_000)), Plan::Sum { tail_from: 18 }, "the words are too long already");
    // What was left out once is not left out again.
    let mut pruned = calls("read", &[10_000; 4]);
    prune(&mut pruned[..16]);
    assert!(matches!(plan(&pruned, budget(8_000)), Plan::Prune { to: 21 }), "{:?}", plan(&pruned, budget(8_000)));
    prune(&mut pruned);
    assert_eq!(plan(&pruned, budget(8_000)), Plan::Nothing);
}

/// Leaving a little out again and again would cost the provider's cache every time.
#[test]
fn what_frees_too_little_is_not_left_out() {
    // 800 bytes can go, of a conversation that has 9,600 to have at most: less than an eighth.
    let records = calls("read", &[800, 2_300]);
    let nearly = |now| posse_context::plan(&records, Budget { now, ..budget(9_600) });
    assert!(!matches!(nearly(7_900), Plan::Prune { .. }), "{:?}", nearly(7_900));
    let more = calls("read", &[1_300, 2_300]);
    assert_eq!(posse_context::plan(&more, Budget { now: 7_900, ..budget(9_600) }), Plan::Prune { to: 6 });
}

/// Whoever sums up has a limit, too: the rest is for the next round.
#[test]
fn no_more_is_summed_up_at_once_than_can_be_taken_in() {
    let records = calls("read", &[10_000; 4]);
    let planned = |fits| plan(&records, Budget { prune: false, fits, ..budget(8_000) });
    assert_eq!(planned(u64::MAX), Plan::Sum { tail_from: 21 });
    assert_eq!(planned(25_000), Plan::Sum { tail_from: 11 });
    assert_eq!(planned(100), Plan::Sum { tail_from: 6 }, "something has to go");
}

/// A question that the provider has refused is still to be answered: it is not summed up.
#[test]
fn what_is_tried_again_stays_in_the_tail() {
    let failed = |retry_at| Event::StepFailed {
        step: 0,
        failure: Some(ModelFailure::TooLong),
        error: String::new(),
        retry_at,
        partial: Text::default(),
        usage: Default::default(),
    };
    let asked = |failed: Event| {
        let pasted = format!("{} and what is this?", "p".repeat(50_000));
        log(vec![say("e1", "w".repeat(9_000)), step(&["e1"]), reply("ok", 0), say("e2", pasted), step(&["e2"]), failed])
    };
    assert_eq!(plan(&asked(failed(Some(Timestamp(9)))), budget(20_000)), Plan::Sum { tail_from: 3 });
    assert_eq!(plan(&asked(failed(None)), budget(20_000)), Plan::Sum { tail_from: 6 });
}

#[test]
fn skills_stay_and_small_outputs_are_not_worth_it() {
    assert_eq!(plan(&calls("skill", &[10_000; 4]), budget(41_000)), Plan::Sum { tail_from: 16 });
    assert_eq!(plan(&calls("Skill", &[10_000; 4]), budget(41_000)), Plan::Sum { tail_from: 16 });
    assert!(matches!(plan(&calls("read", &[400; 100]), budget(20_000)), Plan::Sum { .. }));
    assert!(matches!(plan(&calls("read", &[401; 100]), budget(20_000)), Plan::Prune { .. }));
}

#[test]
fn too_little_to_sum_up_is_left_alone_unless_somebody_asks() {
    let short = log(vec![say("e1", "hi"), step(&["e1"]), reply("hello", 0)]);
    assert_eq!(plan(&short, budget(1_000)), Plan::Nothing);
    assert_eq!(plan(&[], budget(1_000)), Plan::Nothing);
    assert_eq!(plan(&[], Budget { asked: true, ..budget(1_000) }), Plan::Nothing);
    assert_eq!(plan(&short, Budget { asked: true, ..budget(1_000) }), Plan::Sum { tail_from: 3 });
    // Who asks has all of it summed up, and outputs do not count.
    let records = calls("read", &[10_000; 4]);
    assert_eq!(plan(&records, Budget { asked: true, ..budget(40_000) }), Plan::Sum { tail_from: 21 });
    // Who still waits is not summed up, and in nobody's way.
    let open = log(vec![say("later", "w".repeat(9_000)), say("e1", "hi"), step(&["e1"]), reply("hello", 0)]);
    assert_eq!(plan(&open, Budget { asked: true, ..budget(1_000) }), Plan::Sum { tail_from: 4 });
}

#[test]
fn a_tail_begins_where_nothing_is_half_said() {
    let places = |events: Vec<Event>| {
        let records = log(events);
        (1..=records.len())
            .filter(|length| {
                plan(&records[..*length], Budget { prune: false, asked: true, ..budget(0) }) == Plan::Sum { tail_from: *length as u64 }
            })
            .collect::<Vec<_>>()
    };
    // Only after the answer, and after the last of its calls has ended.
    assert_eq!(
        places(vec![say("a", "x"), step(&["a"]), reply("r", 2), called("1", "t"), called("2", "t"), done("2", "o"), done("1", "o")]),
        [7]
    );
    // Not between somebody's words and the step that takes them; who still waits is in nobody's way.
    assert_eq!(places(vec![say("a", "x"), step(&["a"]), say("b", "y"), reply("r", 0), step(&["b"]), reply("s", 0)]), [4, 6]);
    let unqueued = Event::Unqueued { entry: EntryId::new("b") };
    assert_eq!(places(vec![say("a", "x"), step(&["a"]), say("b", "y"), reply("r", 0), unqueued, step(&[]), reply("s", 0)]), [4, 5, 7]);
    // A notice is somebody too.
    let notice = Event::TaskEnded {
        task: SessionId::new("t"),
        round: 1,
        how: How::Completed,
        result: "n".into(),
        usage: Default::default(),
        to: To::Queue { entry: EntryId::new("n"), worded: true },
        effort: Default::default(),
    };
    assert_eq!(places(vec![say("a", "x"), step(&["a"]), reply("r", 0), notice, step(&["n"]), reply("s", 0)]), [3, 4, 6]);
    // The end of a task is the result of the call that waits for it.
    let to_call = Event::TaskEnded {
        task: SessionId::new("t"),
        round: 1,
        how: How::Completed,
        result: "n".into(),
        usage: Default::default(),
        to: To::Call { call: CallId::new("1") },
        effort: Default::default(),
    };
    assert_eq!(places(vec![say("a", "x"), step(&["a"]), reply("r", 1), called("1", "agent"), to_call]), [5]);
}

#[test]
fn outputs_are_left_out_and_nothing_else() {
    let file = |data: &str| Part::File { mime: "image/png".into(), name: "a.png".into(), data: Some(data.into()) };
    let patch = Part::Patch {
        path: "a.rs".into(),
        before: "1".into(),
        after: "2".into(),
        added: 1,
        removed: 1,
        change: "c".repeat(900).into(),
        mode: None,
    };
    let with = |call: &str, output: &str, attachments: Vec<Part>| Event::CallFinished {
        call: CallId::new(call),
        outcome: Outcome::Done { output: output.into(), title: "t".into(), metadata: Some(serde_json::json!({"n": 1})), attachments },
    };
    let long = "x".repeat(900);
    let mut records = log(vec![
        called("1", "read"),
        with("1", &long, vec![patch.clone(), file("data")]),
        called("2", "read"),
        with("2", "short", vec![patch.clone()]),
        called("3", "read"),
        with("3", "short", vec![file(&long)]),
        called("4", "read"),
        Event::CallFinished { call: CallId::new("4"), outcome: Outcome::failed(long.clone()) },
        called("5", "skill"),
        done("5", long.clone()),
        say("a", long.clone()),
        reply(&long, 0),
    ]);
    let before = records.clone();
    prune(&mut records);
    let left_out = |record: &Record| match &record.event {
        Event::CallFinished { outcome: Outcome::Done { output, attachments, title, metadata }, .. } => {
            assert_eq!((title.as_str(), metadata), ("t", &Some(serde_json::json!({"n": 1}))));
            assert!(output.inline().unwrap().contains("left out"), "{output:?}");
            attachments.clone()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(left_out(&records[1]), [patch], "what a call changed can still be undone");
    assert_eq!(left_out(&records[5]), []);
    let same = |at: &usize| records[*at] == before[*at];
    assert_eq!((0..records.len()).filter(|at| !same(at)).collect::<Vec<_>>(), [1, 5]);
    let once = records.clone();
    prune(&mut records);
    assert_eq!(records, once, "twice is once");
}

#[test]
fn what_users_said_is_kept_over_two_summaries() {
    let text = |records: &[Record]| verbatim(records, usize::MAX).inline().unwrap().to_owned();
    let prompt = Event::Queued {
        entry: Entry { source: Source::Prompt { session: SessionId::new("p") }, ..Entry::user(EntryId::new("b"), "and this") },
    };
    let hook = Event::Queued { entry: Entry { source: Source::Hook { name: "h".into() }, ..Entry::user(EntryId::new("c"), "not me") } };
    let hinted = Event::Queued {
        entry: Entry {
            parts: vec![Part::text("tidy up"), Part::reminder("a hint"), Part::text(" ")],
            ..Entry::user(EntryId::new("d"), "")
        },
    };
    let first = log(vec![say("a", "fix it"), step(&["a"]), reply("no", 0), prompt, hook, hinted]);
    assert_eq!(text(&first), "fix it\n\n---\n\nand this\n\n---\n\ntidy up");
    // Where there is little room, less of it.
    assert_eq!(verbatim(&first, 11).inline(), Some("an […] is\n\n---\n\ntidy up"));
    let kept = Event::Compacted { summary: "s".into(), tail_from: 3, verbatim: verbatim(&first, usize::MAX) };
    let second = log(vec![kept, say("e", "faster"), reply("ok", 0)]);
    assert_eq!(text(&second), "fix it\n\n---\n\nand this\n\n---\n\ntidy up\n\n---\n\nfaster");
    assert_eq!(text(&log(vec![reply("ok", 0)])), "");
    // The oldest is clipped, at a letter; the latest stays whole.
    let long = log(vec![say("a", "gone"), say("b", "é".repeat(5_000)), say("c", "l".repeat(4_001))]);
    let found = text(&long);
    assert!(found.ends_with(&"l".repeat(4_001)) && !found.contains("gone") && found.contains("é […]"), "{}", &found[found.len() - 40..]);
    assert!(found.len() <= 8 * 1024 + 20, "{}", found.len());
    let whole = "w".repeat(8 * 1024);
    assert_eq!(text(&log(vec![say("a", whole.clone())])), whole);
}

#[test]
fn a_wish_is_part_of_the_directive() {
    let found = directive(" the numbers ", " answer in French ");
    assert!(found.contains("the numbers") && found.contains("answer in French"), "{found}");
    assert_eq!(directive("  ", ""), directive("", " "));
    assert!(directive("", "").len() < directive("x", "").len());
}

// ---- What the model reads ----

fn weave(records: &[Record]) -> Vec<Message> {
    let mut thread = Thread::default();
    let messages: Vec<Message> = records.iter().flat_map(|record| thread.push(record)).collect();
    check(&messages);
    messages
}

/// What a provider would not take.
fn check(messages: &[Message]) {
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        assert!(!message.blocks.is_empty(), "an empty message");
        for block in &message.blocks {
            match block {
                Block::Text { text } => assert!(!text.trim().is_empty(), "a blank text"),
                Block::Call { id, .. } => {
                    assert_eq!(message.role, Role::Assistant);
                    open.push(id);
                }
                Block::Result { id, .. } => {
                    assert!(open.contains(&id.as_str()), "a result without its call: {id}");
                    open.retain(|open| open != id);
                }
                _ => {}
            }
        }
        assert!(message.role == Role::Assistant || open.is_empty(), "calls without a result: {open:?}");
    }
    assert!(messages.last().is_none_or(|last| last.role == Role::User), "it ends on the assistant's word");
}

fn lines(messages: &[Message]) -> Vec<String> {
    let line = |role: Role, block: &Block| {
        let who = if role == Role::User { "user" } else { "agent" };
        match block {
            Block::Text { text } => format!("{who}: {text}"),
            Block::Call { tool, .. } => format!("{who}: {tool}()"),
            Block::Result { text, .. } => format!("{who}: = {text}"),
            other => format!("{who}: {other:?}"),
        }
    };
    messages.iter().flat_map(|message| message.blocks.iter().map(move |block| line(message.role, block))).collect()
}

fn compacted(tail_from: u64) -> Event {
    Event::Compacted { summary: "1. Goal: fix it".into(), tail_from, verbatim: "fix it".into() }
}

#[test]
fn the_summary_then_the_tail_then_what_follows() {
    let mut records = vec![record(9, compacted(4))];
    let tail = vec![step(&[]), reply("I look", 1), called("c1", "read"), done("c1", "a.rs")];
    records.extend(tail.into_iter().zip(5..).map(|(event, seq)| record(seq, event)));
    records.extend([say("b", "faster"), step(&["b"])].into_iter().zip(10..).map(|(event, seq)| record(seq, event)));
    let found = lines(&weave(&records));
    assert_eq!(found[1..], ["agent: I look", "agent: read()", "user: = a.rs", "user: faster"]);
    assert!(found[0].starts_with("user: <system-reminder>\n") && found[0].ends_with("fix it\n</system-reminder>"), "{}", found[0]);
    assert!(found[0].contains("1. Goal: fix it") && found[0].contains("word for word, oldest first:\nfix it"), "{}", found[0]);
    // Without words to keep it says nothing of them.
    let bare = Event::Compacted { summary: "s".into(), tail_from: 1, verbatim: Text::default() };
    assert!(!lines(&weave(&log(vec![bare, say("a", "hi"), step(&["a"])])))[0].contains("oldest first"));
    // Who asks for a summary says nothing.
    let wish =
        Event::Queued { entry: Entry { parts: vec![Part::Compact { words: "the numbers".into() }], ..Entry::user(EntryId::new("w"), "") } };
    assert_eq!(lines(&weave(&log(vec![wish, say("a", "hi"), step(&["w", "a"])]))), ["user: hi"]);
}

// ---- Generated logs ----

/// A log that a session could have written. Every text has a mark of its own: `§7`, and some filling.
struct Author {
    dice: Dice,
    events: Vec<Event>,
    marks: u64,
    waiting: VecDeque<EntryId>,
    open: Vec<CallId>,
}

impl Author {
    fn text(&mut self) -> String {
        self.marks += 1;
        let filling = if self.dice.once_in(4) { self.dice.roll(3_000) } else { self.dice.roll(30) };
        format!("§{} {}", self.marks, "x".repeat(filling as usize))
    }

    /// Somebody says something, or a task or a shell ends.
    fn say(&mut self) {
        let text = self.text();
        let id = EntryId::new(format!("e{}", self.marks));
        self.waiting.push_back(id.clone());
        let (task, call) = (SessionId::new(format!("t{}", self.marks)), CallId::new("gone"));
        self.events.push(match self.dice.roll(5) {
            0 => Event::TaskEnded {
                task,
                round: 1,
                how: How::Completed,
                result: text.into(),
                usage: Default::default(),
                to: To::Queue { entry: id, worded: true },
                effort: Default::default(),
            },
            1 => Event::KeptEnded { call, words: text.into(), entry: Some(id) },
            _ => Event::Queued { entry: Entry::user(id, text) },
        });
        if self.dice.once_in(9) {
            let entry = self.waiting.pop_back().unwrap();
            self.events.push(Event::Unqueued { entry });
        }
    }

    fn maybe_say(&mut self) {
        if self.dice.once_in(6) {
            self.say();
        }
    }

    fn step(&mut self) {
        let take = self.dice.roll(self.waiting.len() as u64 + 1) as usize;
        let took = self.waiting.drain(..take).collect();
        self.events.push(took_by(took));
        self.maybe_say();
        match self.dice.roll(10) {
            0 => self.fail(Some(Timestamp(1))),
            1 => {
                self.fail(None);
                self.events.push(Event::Interrupted { by: By::User, hold: Hold::Esc });
            }
            2 => self.events.push(Event::TookOver { calls: 0, usage: Default::default() }),
            _ => self.answer(),
        }
    }

    fn fail(&mut self, retry_at: Option<Timestamp>) {
        let partial = if retry_at.is_none() { self.text().into() } else { Text::from("lost") };
        let failure = retry_at.map(|_| ModelFailure::TooLong);
        self.events.push(Event::StepFailed { step: 0, failure, error: "x".into(), retry_at, partial, usage: Default::default() });
    }

    fn answer(&mut self) {
        let text = self.text();
        let calls = self.dice.roll(4).saturating_sub(1);
        self.events.push(reply(&text, calls));
        for _ in 0..calls {
            self.marks += 1;
            let call = format!("c{}", self.marks);
            self.events.push(called(&call, if self.dice.once_in(5) { "skill" } else { "read" }));
            self.open.push(CallId::new(call));
        }
        while !self.open.is_empty() {
            self.maybe_say();
            let at = self.dice.roll(self.open.len() as u64) as usize;
            let call = self.open.swap_remove(at);
            let text = self.text();
            self.events.push(match self.dice.roll(4) {
                0 => Event::CallFinished { call, outcome: Outcome::failed(text) },
                1 => Event::TaskEnded {
                    task: SessionId::new("t"),
                    round: 1,
                    how: How::Completed,
                    result: text.into(),
                    usage: Default::default(),
                    to: To::Call { call },
                    effort: Default::default(),
                },
                _ => Event::CallFinished { call, outcome: Outcome::done(text) },
            });
        }
    }
}

fn written(seed: u64) -> Vec<Record> {
    let mut author = Author { dice: Dice::new(seed), events: Vec::new(), marks: 0, waiting: VecDeque::new(), open: Vec::new() };
    author.say();
    for _ in 0..2 + author.dice.roll(20) {
        if author.dice.once_in(3) {
            author.say();
        }
        author.step();
    }
    log(author.events)
}

/// The marks of all texts, in the order in which the model reads them.
fn marks(messages: &[Message]) -> Vec<String> {
    let mark = |line: &String| line.split_whitespace().find(|word| word.starts_with('§')).map(str::to_owned);
    lines(messages).iter().filter_map(mark).collect()
}

/// With a last step, so that nothing is still on its way.
fn read(mut records: Vec<Record>) -> Vec<String> {
    let seq = records.last().map_or(0, |record| record.seq) + 1;
    records.push(record(seq, say("last", "go on")));
    records.push(record(seq + 1, step(&["last"])));
    marks(&weave(&records))
}

#[test]
fn wherever_a_plan_cuts_both_pieces_are_conversations_and_nothing_is_lost() {
    let mut plans: HashMap<&str, u32> = HashMap::new();
    for seed in 0..3_000 {
        let records = written(seed);
        let whole = read(records.clone());
        for (most, asked) in [(2_000, false), (8_000, false), (20_000, false), (2_000, true)] {
            let budget = Budget { prune: seed % 2 == 0, asked, ..budget(most) };
            match plan(&records, budget) {
                Plan::Sum { tail_from } => {
                    *plans.entry("sum").or_default() += 1;
                    let (head, tail) = records.split_at(records.iter().position(|record| record.seq == tail_from).unwrap() + 1);
                    let mut after = vec![record(records.len() as u64 + 1, compacted(tail_from))];
                    after.extend_from_slice(tail);
                    *plans.entry("a tail").or_default() += u32::from(!tail.is_empty());
                    // The summary is of everything before, and what is said after it is everything else, in the same order.
                    let pieces = [read(head.to_vec()), read(after)].concat();
                    assert_eq!(
                        pieces,
                        whole,
                        "seed {seed}, cut at {tail_from}: {:#?}",
                        records.iter().map(|record| record.event.name()).collect::<Vec<_>>()
                    );
                }
                Plan::Prune { to } => {
                    *plans.entry("prune").or_default() += 1;
                    let mut pruned = records.clone();
                    let at = pruned.iter().position(|record| record.seq == to).unwrap() + 1;
                    prune(&mut pruned[..at]);
                    let found = read(pruned);
                    assert!(
                        found.iter().all(|mark| whole.contains(mark)) && found.len() < whole.len(),
                        "seed {seed}: outputs are left out, nothing else"
                    );
                }
                Plan::Nothing => *plans.entry("nothing").or_default() += 1,
            }
        }
    }
    assert!(["sum", "a tail", "prune", "nothing"].iter().all(|kind| plans.get(kind).is_some_and(|times| 50 < *times)), "{plans:?}");
}
