//! Forks: what they are told, and that all forks of a reply begin with what their caller was sent, block for block.
//!
//! Tables for the directive and for how a thread is branched; and generated logs, with stretches left out, summed up and
//! begun elsewhere, in which every reply with calls is forked.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{Dice, done, log, record, say, step};
use posse_context::{FORK_MARK, Thread, fork_directive, is_directive, moved_notice, prune};
use posse_session::{
    Block, CallId, Entry, EntryId, Event, Finish, How, Kind, Message, ModelFailure, Outcome, Part, Recipe, Record, Role, Segment, Session,
    SessionId, Text, Timestamp, To,
};

fn reply(text: &str, calls: &[&str]) -> Event {
    let mut parts = vec![Part::text(text)];
    parts.extend(calls.iter().map(|call| Part::Call { call: CallId::new(*call) }));
    Event::Replied { step: 0, parts, calls: calls.len() as u64, usage: Default::default(), finish: Finish::Calls, author: None }
}

fn called(call: &str, wire_id: &str) -> Event {
    common::called(call, "agent", &format!(r#"{{"for":"{call}"}}"#), wire_id)
}

/// A thread that has read these, and the messages that came of them.
fn read(records: &[Record]) -> (Thread, Vec<Message>) {
    let mut thread = Thread::default();
    let messages = records.iter().flat_map(|record| thread.push(record)).collect();
    (thread, messages)
}

/// What a fork of this thread adds to the conversation with its first step.
fn begin(thread: Thread, task: &str) -> Vec<Message> {
    let (_, messages) = go_on(thread.branch(true), vec![say("task", fork_directive(task)), step(&["task"])]);
    messages
}

/// A thread that reads on, in a log of its own.
fn go_on(mut thread: Thread, events: Vec<Event>) -> (Thread, Vec<Message>) {
    let messages = log(events).iter().flat_map(|record| thread.push(record)).collect();
    (thread, messages)
}

/// What a provider would not take.
fn refuse(messages: &[Message]) {
    let mut open: Vec<&str> = Vec::new();
    let mut used: BTreeSet<&str> = BTreeSet::new();
    for message in messages {
        assert!(!message.blocks.is_empty(), "an empty message");
        for block in &message.blocks {
            match block {
                Block::Call { id, .. } => {
                    assert!(used.insert(id), "{id} twice");
                    open.push(id);
                }
                Block::Result { id, .. } => {
                    assert!(open.contains(&id.as_str()), "a result of nobody: {id}");
                    open.retain(|open| open != id);
                }
                _ => {}
            }
        }
        assert!(message.role == Role::Assistant || open.is_empty(), "calls without a result: {open:?}");
    }
    assert!(messages.last().is_none_or(|last| last.role == Role::User), "it ends on the assistant's word");
}

fn results(messages: &[Message]) -> Vec<(String, String, bool)> {
    let of = |block: &Block| match block {
        Block::Result { id, text, error, .. } => Some((id.clone(), text.clone(), *error)),
        _ => None,
    };
    messages.iter().flat_map(|message| &message.blocks).filter_map(of).collect()
}

// ---- The directive ----

/// CC-014: the prompt is in the directive, word for word and last; CC-202: the rules come first.
#[test]
fn the_directive_holds_the_rules_and_then_the_prompt() {
    let prompt = "count the files\n\n- in src\n- in tests";
    let directive = fork_directive(prompt);
    assert!(directive.starts_with(FORK_MARK), "{directive}");
    assert!(directive.ends_with(prompt), "{directive}");
    assert_eq!(directive.matches(FORK_MARK).count(), 1);
    // Siblings differ in their prompts only.
    let rules = |prompt: &str| fork_directive(prompt).strip_suffix(prompt).unwrap().to_owned();
    assert_eq!(rules(prompt), rules("something else"));
    for rule in ["yourself", "Do not fork again", "answer once"] {
        assert!(directive.contains(rule), "{rule}: {directive}");
    }
}

/// CC-201: who has read a directive is a fork, whatever else is known of it; who only reads of one is not.
#[test]
fn a_directive_is_recognised_in_the_users_words_alone() {
    let text = |text: &str| Block::Text { text: text.into() };
    let result = Block::Result { id: "w".into(), tool: "read".into(), text: fork_directive("x"), error: false, images: Vec::new() };
    let reasoning = Block::Reasoning { text: FORK_MARK.into(), signature: None };
    let rows = [
        ("the directive", Role::User, vec![text(&fork_directive("x"))], true),
        ("after the placeholders", Role::User, vec![result.clone(), text(&fork_directive("x"))], true),
        ("with a notice after it", Role::User, vec![text(&fork_directive("x")), text("you are elsewhere")], true),
        ("its beginning alone", Role::User, vec![text(&format!("{FORK_MARK} and so on"))], true),
        ("words about it", Role::User, vec![text(&format!("what is {FORK_MARK}?"))], false),
        ("an answer that quotes it", Role::Assistant, vec![text(&fork_directive("x"))], false),
        ("a file that holds it", Role::User, vec![result], false),
        ("a thought", Role::User, vec![reasoning], false),
        ("its end alone", Role::User, vec![text("</fork-boilerplate>")], false),
        ("other words", Role::User, vec![text("fork it")], false),
        ("nothing", Role::User, vec![], false),
    ];
    for (name, role, blocks, expected) in rows {
        assert_eq!(is_directive(&Message { role, blocks }), expected, "{name}");
    }
}

/// CC-221: who works elsewhere is told from where to where, and to read again.
#[test]
fn who_was_moved_is_told_of_both_folders() {
    let notice = moved_notice("/home/me/project", "/trees/ses_1");
    assert!(notice.contains("/home/me/project") && notice.contains("/trees/ses_1"), "{notice}");
    assert!(notice.contains("Read a file again"), "{notice}");
    assert!(!notice.contains(FORK_MARK));
}

// ---- Branches ----

/// A reply with three calls after two turns; nothing of it has a result.
fn three_calls() -> Vec<Event> {
    vec![
        say("a", "look around"),
        step(&["a"]),
        reply("I look", &["c0"]),
        called("c0", "w0"),
        done("c0", "three parts"),
        step(&[]),
        reply("one worker each", &["c1", "c2", "c3"]),
        called("c1", "w1"),
        called("c2", "w2"),
        called("c3", "w3"),
    ]
}

/// CC-194, CC-197: whatever has come in by then, siblings begin with the same blocks and the same words for every call.
#[test]
fn siblings_are_equal_up_to_the_directive_whatever_results_had_come_in() {
    let failed = Event::CallFinished { call: CallId::new("c3"), outcome: Outcome::failed("no") };
    let ended = Event::TaskEnded {
        task: SessionId::new("t"),
        round: 1,
        how: How::Completed,
        result: "found".into(),
        usage: Default::default(),
        to: To::Call { call: CallId::new("c1") },
        effort: Default::default(),
    };
    let later: [(&str, Vec<Event>); 6] = [
        ("nothing", vec![]),
        ("one result", vec![done("c1", "it runs")]),
        ("all results, in another order", vec![failed.clone(), done("c2", "ok"), done("c1", "it runs")]),
        ("the end of a task", vec![ended]),
        ("words that wait", vec![say("b", "and hurry"), done("c2", "ok")]),
        ("words that were taken back", vec![say("b", "and hurry"), Event::Unqueued { entry: EntryId::new("b") }]),
    ];
    let (thread, before) = read(&log(three_calls()));
    let expected = begin(thread, "count");
    for (name, later) in later {
        let (thread, prefix) = read(&log([three_calls(), later].concat()));
        assert_eq!(prefix, before, "{name}");
        let begun = begin(thread, "count");
        assert_eq!(begun, expected, "{name}");
        refuse(&[prefix, begun].concat());
    }
    let [assistant, user] = &expected[..] else { panic!("{expected:?}") };
    assert_eq!((assistant.role, assistant.blocks.len()), (Role::Assistant, 4), "its words and its calls");
    let placeholders = results(std::slice::from_ref(user));
    assert_eq!(placeholders.iter().map(|(id, ..)| id.as_str()).collect::<Vec<_>>(), ["w1", "w2", "w3"], "in their order");
    assert!(placeholders.iter().all(|(_, text, error)| *text == placeholders[0].1 && !error), "{placeholders:?}");
    assert_eq!(user.blocks.last(), Some(&Block::Text { text: fork_directive("count") }), "the directive is the last word");
    assert!(is_directive(user));
    // Another sibling differs in exactly that.
    let (thread, _) = read(&log(three_calls()));
    let mut other = begin(thread, "paint");
    assert_eq!(other[1].blocks.pop(), Some(Block::Text { text: fork_directive("paint") }));
    let mut first = expected.clone();
    first[1].blocks.pop();
    assert_eq!(other, first);
}

/// What waits for its caller is its caller's to hear, whoever asks for it.
#[test]
fn what_waits_for_its_caller_is_never_said_to_a_fork() {
    for open in [true, false] {
        let (thread, _) = read(&log([three_calls(), vec![say("b", "and hurry")]].concat()));
        let (_, begun) = go_on(thread.branch(open), vec![say("task", "count"), step(&["b", "task"])]);
        assert_eq!(begun[1].blocks.last(), Some(&Block::Text { text: "count".into() }));
        assert!(!format!("{begun:?}").contains("and hurry"), "{begun:?}");
    }
}

/// Work beside the conversation begins where it stands: what has a result keeps it.
#[test]
fn who_is_not_split_off_from_a_reply_keeps_its_results() {
    let events = [three_calls(), vec![done("c2", "ok"), say("b", "and hurry")]].concat();
    let (thread, _) = read(&log(events));
    let (_, begun) = go_on(thread.branch(false), vec![say("task", "sum it up"), step(&["task"])]);
    let said = results(&begun);
    assert_eq!((said[1].1.as_str(), said.len()), ("ok", 3));
    assert!(said[0].1 != "ok" && said[0].1 == said[2].1, "the others are told to be missing: {said:?}");
    assert_eq!(begun[1].blocks.last(), Some(&Block::Text { text: "sum it up".into() }), "what waits is said to the one who heard it");
    assert!(!format!("{begun:?}").contains("and hurry"));
}

/// Whoever lends its conversation goes on as if nothing had happened.
#[test]
fn the_one_who_was_branched_from_is_left_as_it_was() {
    let rest = || vec![done("c1", "1"), done("c2", "2"), done("c3", "3"), say("b", "go on"), step(&["b"])];
    let (thread, _) = read(&log(three_calls()));
    let _ = thread.clone().branch(true);
    let (_, alone) = go_on(thread, rest());
    let (_, whole) = read(&log([three_calls(), rest()].concat()));
    assert_eq!(alone, whole[whole.len() - 2..]);
    // Its own assistant message is the fork's, so the provider has read it already.
    let (thread, _) = read(&log(three_calls()));
    assert_eq!(begin(thread, "count")[0], alone[0]);
}

/// A provider's ids are unique over everything that is sent: of the caller, of the fork, and of who begins with the fork.
#[test]
fn ids_of_what_it_begins_with_are_not_used_again() {
    let turn = |call: &str, wire_id: &str| vec![reply("so", &[call]), called(call, wire_id), done(call, "ok"), step(&[])];
    let (thread, prefix) = read(&log(three_calls()));
    let first = [vec![say("task", fork_directive("x")), step(&["task"])], turn("d1", "w1"), turn("d2", "w0"), turn("d3", "new")].concat();
    let (fork, begun) = go_on(thread.branch(true), first);
    let whole = [prefix, begun].concat();
    refuse(&whole);
    let ids: Vec<String> = results(&whole).into_iter().map(|(id, ..)| id).collect();
    assert_eq!(ids, ["w0", "w1", "w2", "w3", "d1", "d2", "new"]);
    // One generation more: all of them are known.
    let again = [vec![say("sum", "sum it up"), step(&["sum"])], turn("e1", "w1"), turn("e2", "new"), turn("e3", "d1"), turn("e4", "newer")]
        .concat();
    let (_, more) = go_on(fork.branch(false), again);
    let whole = [whole, more].concat();
    refuse(&whole);
    let ids: Vec<String> = results(&whole).into_iter().map(|(id, ..)| id).collect();
    assert_eq!(ids[7..], ["e1", "e2", "e3", "newer"]);
}

/// A summary that the caller has not been sent yet goes with the first words of the fork.
#[test]
fn a_summary_that_is_still_to_be_said_is_said_to_the_fork() {
    let summed = Event::Compacted { summary: "it was long".into(), tail_from: 1, verbatim: Text::default() };
    let (thread, none) = read(&log(vec![summed]));
    assert!(none.is_empty());
    let begun = begin(thread, "count");
    let [only] = &begun[..] else { panic!("{begun:?}") };
    assert!(matches!(&only.blocks[0], Block::Text { text } if text.contains("it was long")), "{only:?}");
    assert_eq!(only.blocks.last(), Some(&Block::Text { text: fork_directive("count") }));
}

// ---- Generated logs ----

/// A log that a session could have written, and where it could be forked.
struct Author {
    dice: Dice,
    id: SessionId,
    records: Vec<Record>,
    marks: u64,
    waiting: Vec<EntryId>,
    /// Where nothing is half said.
    boundaries: Vec<u64>,
    /// The step before a reply with calls, the last record of its calls, and the last before the next step.
    splits: Vec<(u64, u64, u64)>,
    edits: BTreeMap<&'static str, u32>,
}

impl Author {
    fn write(seed: u64, id: &str, before: Vec<Segment>) -> Self {
        let (id, dice) = (SessionId::new(id), Dice::new(seed));
        let mut author = Self {
            dice,
            id,
            records: Vec::new(),
            marks: 0,
            waiting: Vec::new(),
            boundaries: Vec::new(),
            splits: Vec::new(),
            edits: BTreeMap::new(),
        };
        author.push(created());
        if !before.is_empty() {
            *author.edits.entry("begun elsewhere").or_default() += 1;
            author.push(Event::Forked { segments: before });
        }
        author.say();
        for _ in 0..2 + author.dice.roll(12) {
            if author.dice.once_in(3) {
                author.say();
            }
            author.maybe_edit();
            author.step();
        }
        author
    }

    fn push(&mut self, event: Event) -> u64 {
        let seq = self.records.len() as u64 + 1;
        self.records.push(record(seq, event));
        seq
    }

    fn text(&mut self) -> String {
        self.marks += 1;
        format!("§{} of {}", self.marks, self.id)
    }

    fn say(&mut self) {
        let text = self.text();
        let id = EntryId::new(format!("e{}", self.marks));
        self.waiting.push(id.clone());
        let ended = match self.dice.roll(4) {
            0 => Event::KeptEnded { call: CallId::new("gone"), words: text.into(), entry: Some(id) },
            1 => Event::TaskEnded {
                task: SessionId::new(format!("t{}", self.marks)),
                round: 1,
                how: How::Completed,
                result: text.into(),
                usage: Default::default(),
                to: To::Queue { entry: id, worded: true },
                effort: Default::default(),
            },
            _ => Event::Queued { entry: Entry::user(id, text) },
        };
        self.push(ended);
    }

    /// Outputs are left out, or what was said is summed up.
    fn maybe_edit(&mut self) {
        if self.boundaries.is_empty() || !self.dice.once_in(4) {
            return;
        }
        let at = self.boundaries[self.dice.roll(self.boundaries.len() as u64) as usize];
        if self.dice.once_in(2) {
            *self.edits.entry("pruned").or_default() += 1;
            self.push(Event::Pruned { to: at });
        } else if Session::fold(self.id.clone(), &self.records).compaction().tail_from < at {
            *self.edits.entry("compacted").or_default() += 1;
            let (summary, verbatim) = (self.text().into(), Text::default());
            self.push(Event::Compacted { summary, tail_from: at, verbatim });
        }
    }

    fn step(&mut self) {
        let take = self.dice.roll(self.waiting.len() as u64 + 1) as usize;
        let took: Vec<EntryId> = self.waiting.drain(..take).collect();
        let notes = if self.dice.once_in(6) { vec![Part::reminder(self.text())] } else { Vec::new() };
        let began = self.push(Event::StepStarted { step: 0, took, reserved: Default::default(), closing: false, notes });
        if self.dice.once_in(8) {
            let (failure, retry_at) = (Some(ModelFailure::Cut), Some(Timestamp(1)));
            self.push(Event::StepFailed {
                step: 0,
                failure,
                error: "x".into(),
                retry_at,
                partial: "lost".into(),
                usage: Default::default(),
            });
            return;
        }
        let calls = self.dice.roll(4);
        let ids: Vec<String> = (0..calls).map(|number| format!("c{}_{number}_{}", self.marks, self.id)).collect();
        let text = self.text();
        let mut parts = if self.dice.once_in(3) { Vec::new() } else { vec![Part::text(text)] };
        parts.extend(ids.iter().map(|call| Part::Call { call: CallId::new(call) }));
        if parts.is_empty() {
            parts.push(Part::text("ok"));
        }
        let mut last = self.push(Event::Replied { step: 0, parts, calls, usage: Default::default(), finish: Finish::Calls, author: None });
        for call in &ids {
            // Some providers use the same ids again and again.
            let wire_id = if self.dice.once_in(3) { format!("w{}", self.dice.roll(3)) } else { format!("wire_{call}") };
            last = self.push(called(call, &wire_id));
            // What is denied has its result before the next call is recorded.
            if self.dice.once_in(6) {
                self.push(Event::CallFinished { call: CallId::new(call), outcome: Outcome::denied("no") });
            }
        }
        for call in &ids {
            if self.dice.once_in(4) {
                self.say();
            }
            let text = self.text();
            let answered = |record: &Record| matches!(&record.event, Event::CallFinished { call: known, .. } if known.as_str() == call);
            if !self.records.iter().any(answered) {
                self.push(Event::CallFinished { call: CallId::new(call), outcome: Outcome::done(text) });
            }
        }
        let head = self.records.len() as u64;
        if 0 < calls {
            self.splits.push((began, last, head));
        }
        self.boundaries.push(head);
    }
}

fn created() -> Event {
    Event::Created {
        kind: Kind::Root,
        root: SessionId::new("root"),
        parent: None,
        directory: "/work".into(),
        title: "t".into(),
        recipe: Recipe::default(),
        ceiling: Vec::new(),
        above: Text::default(),
        depth: 0,
        strict_shell: false,
        worktree: None,
        within: None,
    }
}

/// What stretches show, as whoever weaves a conversation reads them.
fn shown(logs: &BTreeMap<SessionId, Vec<Record>>, segments: &[Segment]) -> Vec<Record> {
    let stretch = |segment: &Segment| {
        let inside = |record: &&Record| segment.from < record.seq && record.seq <= segment.to;
        let mut records: Vec<Record> = logs[&segment.session].iter().filter(inside).cloned().collect();
        if segment.pruned {
            prune(&mut records);
        }
        records
    };
    segments.iter().flat_map(stretch).collect()
}

/// CC-194, CC-197: for every reply of any log, a fork is sent what its caller was sent, then the reply, the same words for every
/// call, and its directive; and it does not matter when, or from what, that was woven.
#[test]
fn a_fork_of_any_reply_is_sent_what_its_caller_was_sent_and_then_its_directive() {
    let (mut forks, mut edits) = (0, BTreeMap::new());
    for seed in 0..400 {
        let elsewhere = Author::write(seed, "ses_far", Vec::new());
        let far = Session::fold(elsewhere.id.clone(), &elsewhere.records);
        // Every third begins with a conversation of another: at a place where nothing is half said, or at a reply.
        let place = elsewhere.splits.last().map(|(_, last, _)| *last).filter(|_| seed % 2 == 0).or(elsewhere.boundaries.last().copied());
        let before = place.filter(|_| seed % 3 == 0).map(|place| far.segments_until(place)).unwrap_or_default();
        let author = Author::write(seed + 100_000, "ses_here", before);
        let logs = BTreeMap::from([(elsewhere.id.clone(), elsewhere.records.clone()), (author.id.clone(), author.records.clone())]);
        author.edits.iter().for_each(|(edit, times)| *edits.entry(*edit).or_insert(0) += times);
        for (began, last, head) in &author.splits {
            let story = || format!("seed {seed}, split at {last}");
            let folded = |to: u64| Session::fold(author.id.clone(), &author.records[..to as usize]);
            let (_, sent) = read(&shown(&logs, &folded(*began).segments()));
            let (_, parents_next) = {
                let mut next = shown(&logs, &folded(*head).segments());
                next.push(record(head + 1, step(&[])));
                read(&next)
            };
            let placeholder = missing(&author, *last);
            for at in *last..=*head {
                let segments = folded(at).segments_until(*last);
                let (thread, prefix) = read(&shown(&logs, &segments));
                assert_eq!(prefix, sent, "{}, seen from {at}: it was sent something else", story());
                let begun = begin(thread, "count");
                let [assistant, user] = &begun[..] else { panic!("{}: {begun:?}", story()) };
                assert_eq!(*assistant, parents_next[sent.len()], "{}: its caller reads another reply of its own", story());
                let calls = assistant
                    .blocks
                    .iter()
                    .filter_map(|block| if let Block::Call { id, tool, .. } = block { Some((id, tool)) } else { None });
                let mut expected: Vec<Block> = calls.map(|(id, tool)| placeholder(id, tool)).collect();
                expected.push(Block::Text { text: fork_directive("count") });
                assert_eq!(user.blocks, expected, "{}", story());
                // As its caller holds it in memory, with all that has come since.
                let mut live = shown(&logs, &folded(*began).segments());
                live.extend(author.records[*began as usize..at as usize].iter().cloned());
                assert_eq!(begin(read(&live).0, "count"), begun, "{}, lent at {at}", story());
                refuse(&[prefix, begun].concat());
                forks += 1;
            }
        }
    }
    assert!(2_000 < forks, "{forks}");
    assert!(["pruned", "compacted", "begun elsewhere"].iter().all(|edit| edits.get(edit).is_some_and(|times| 80 < *times)), "{edits:?}");
}

/// What stands for the result of a call of this reply: the same for all.
fn missing(author: &Author, last: u64) -> impl Fn(&String, &String) -> Block {
    let (thread, _) = read(&author.records[..last as usize]);
    let text = results(&begin(thread, "x"))[0].1.clone();
    move |id, tool| Block::Result { id: id.clone(), tool: tool.clone(), text: text.clone(), error: false, images: Vec::new() }
}
