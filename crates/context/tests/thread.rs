//! From records to messages: one table of little logs, and the promises every transcript keeps.

#![allow(clippy::unwrap_used)]

mod common;

use common::{record, say};
use posse_context::{Environment, Instruction, Thread, changes, system};
use posse_session::{
    Block, CallId, Entry, EntryId, Event, Finish, Hash, How, Message, ModelFailure, Outcome, Part, Record, Role, SessionId, Source, Spawn,
    Text, Timestamp, To,
};

fn weave(events: Vec<Event>) -> Vec<String> {
    let mut thread = Thread::default();
    let messages: Vec<Message> = events.into_iter().zip(1..).flat_map(|(event, seq)| thread.push(&record(seq, event))).collect();
    refuse(&messages);
    messages.iter().flat_map(|message| message.blocks.iter().map(move |block| line(message.role, block))).collect()
}

/// What a provider would not take.
fn refuse(messages: &[Message]) {
    let mut open: Vec<&str> = Vec::new();
    let mut used: Vec<&str> = Vec::new();
    assert!(messages.last().is_none_or(|last| last.role == Role::User), "ends on the assistant's word");
    for message in messages {
        assert!(!message.blocks.is_empty(), "an empty message");
        for block in &message.blocks {
            match block {
                Block::Text { text } => assert!(!text.trim().is_empty(), "a blank text"),
                Block::Call { id, .. } => {
                    assert!(!used.contains(&id.as_str()), "an id twice");
                    used.push(id);
                    open.push(id);
                }
                Block::Result { id, .. } => {
                    assert!(open.contains(&id.as_str()), "a result without its call");
                    open.retain(|open| open != id);
                }
                _ => {}
            }
        }
        assert!(message.role == Role::Assistant || open.is_empty(), "a call without its result");
    }
}

fn line(role: Role, block: &Block) -> String {
    let who = if role == Role::User { "user" } else { "agent" };
    match block {
        Block::Text { text } => format!("{who}: {text}"),
        Block::Call { id, tool, input } => format!("{who}: {tool}({input}) #{id}"),
        Block::Result { id, text, error, images, .. } => {
            format!("{who}: {}{text} #{id}{}", if *error { "! " } else { "" }, " [image]".repeat(images.len()))
        }
        Block::Reasoning { text, signature } => format!("{who}: ({text}|{})", signature.as_deref().unwrap_or("")),
        Block::Image { mime, .. } => format!("{who}: <{mime}>"),
        Block::Opaque { provider, .. } => format!("{who}: <{provider}>"),
    }
}

fn step(step: u64, took: &[&str]) -> Event {
    Event::StepStarted {
        step,
        took: took.iter().map(|id| EntryId::new(*id)).collect(),
        reserved: Default::default(),
        closing: false,
        notes: Vec::new(),
    }
}

fn reply(parts: Vec<Part>, calls: u64) -> Event {
    Event::Replied { step: 0, parts, calls, usage: Default::default(), finish: Finish::Stop, author: None }
}

fn place(call: &str) -> Part {
    Part::Call { call: CallId::new(call) }
}

fn called(call: &str, wire_id: &str, input: &str) -> Event {
    common::called(call, "t", input, wire_id)
}

fn finished(call: &str, outcome: Outcome) -> Event {
    Event::CallFinished { call: CallId::new(call), outcome }
}

fn failed(partial: &str, retry: bool) -> Event {
    Event::StepFailed {
        step: 0,
        failure: Some(ModelFailure::Cut),
        error: "cut".into(),
        retry_at: retry.then_some(Timestamp(9)),
        partial: partial.into(),
        usage: Default::default(),
    }
}

#[test]
fn a_turn_is_a_question_calls_results_and_an_answer() {
    let events = vec![
        say("a", "hi"),
        step(0, &["a"]),
        reply(vec![Part::text("let me see"), place("c1"), place("c2")], 2),
        called("c1", "w1", r#"{"x":1}"#),
        called("c2", "w2", "{}"),
        // Results arrive in any order and go back in the order of the calls.
        finished("c2", Outcome::done("two")),
        finished("c1", Outcome::done("")),
        say("b", "faster"),
        step(1, &["b"]),
    ];
    assert_eq!(
        weave(events),
        [
            "user: hi",
            "agent: let me see",
            "agent: t({\"x\":1}) #w1",
            "agent: t({}) #w2",
            "user: (no output) #w1",
            "user: two #w2",
            "user: faster"
        ]
    );
}

#[test]
fn every_outcome_has_words() {
    let one = |outcome: Outcome| {
        let events =
            vec![say("a", "hi"), step(0, &["a"]), reply(vec![place("c")], 1), called("c", "w", "{}"), finished("c", outcome), step(1, &[])];
        let lines = weave(events);
        assert_eq!(lines.len(), 3, "{lines:?}");
        lines[2].clone()
    };
    assert_eq!(one(Outcome::failed("no such file")), "user: ! no such file #w");
    assert_eq!(one(Outcome::denied("")), "user: ! The call was denied. #w");
    assert_eq!(one(Outcome::cancelled("half")), "user: ! half\n(cancelled here) #w");
    assert!(
        one(Outcome::Lost { partial: "some".into() }).contains("It was not run again")
            && one(Outcome::Lost { partial: "some".into() }).contains("some")
    );
    let image = Part::File { mime: "image/png".into(), name: "x.png".into(), data: Some("AAAA".into()) };
    assert_eq!(
        one(Outcome::Done { output: "seen".into(), title: String::new(), metadata: None, attachments: vec![image] }),
        "user: seen #w [image]"
    );
    // What a call changed is for the log alone.
    let patch = Part::Patch {
        path: "a.rs".into(),
        before: "1".into(),
        after: "2".into(),
        added: 1,
        removed: 1,
        change: "[[0,\"old\",3]]".into(),
        mode: None,
    };
    assert_eq!(
        one(Outcome::Done { output: "edited".into(), title: String::new(), metadata: None, attachments: vec![patch] }),
        "user: edited #w"
    );
    assert!(
        one(Outcome::Done {
            output: Text::Stored { blob: Hash::new("h"), bytes: 7 },
            title: String::new(),
            metadata: None,
            attachments: vec![]
        })
        .contains("could not be read back")
    );
}

#[test]
fn ids_that_repeat_or_are_missing_are_replaced_by_ours() {
    let turn = |call: &str, wire: &str, n: u64| {
        vec![reply(vec![place(call)], 1), called(call, wire, "{}"), finished(call, Outcome::done("ok")), step(n, &[])]
    };
    let mut events = vec![say("a", "hi"), step(0, &["a"])];
    events.extend(turn("call_1", "same", 1));
    events.extend(turn("call_2", "same", 2));
    events.extend(turn("call_3", "", 3));
    let ids: Vec<String> = weave(events).iter().filter_map(|line| line.split_once('#').map(|(_, id)| id.to_owned())).collect();
    assert_eq!(ids, ["same", "same", "call_2", "call_2", "call_3", "call_3"]);
}

#[test]
fn what_is_no_object_is_not_echoed() {
    for input in ["{oops", "[1]", "\"x\"", ""] {
        let events = vec![
            say("a", "hi"),
            step(0, &["a"]),
            reply(vec![place("c")], 1),
            called("c", "w", input),
            finished("c", Outcome::failed("bad")),
            step(1, &[]),
        ];
        assert_eq!(weave(events)[1], "agent: t({}) #w", "{input}");
    }
}

#[test]
fn partial_text_stays_only_where_the_turn_ended_by_it() {
    assert_eq!(weave(vec![say("a", "hi"), step(0, &["a"]), failed("so f", true), step(1, &[])]), ["user: hi"]);
    assert_eq!(
        weave(vec![say("a", "hi"), step(0, &["a"]), failed("so f", false), say("b", "go on"), step(1, &["b"])]),
        ["user: hi", "agent: so f\n(cut off here)", "user: go on"]
    );
    assert_eq!(
        weave(vec![say("a", "hi"), step(0, &["a"]), failed("  ", false), say("b", "go on"), step(1, &["b"])]),
        ["user: hi", "user: go on"]
    );
}

#[test]
fn a_torn_or_forked_transcript_is_repaired() {
    // A call without a result, and a place without its call.
    let events = vec![say("a", "hi"), step(0, &["a"]), reply(vec![place("c"), place("lost")], 2), called("c", "w", "{}"), step(1, &[])];
    assert_eq!(weave(events), ["user: hi", "agent: t({}) #w", "user: ! No result of this call is recorded here. #w"]);
    // An answer with nothing after it.
    assert_eq!(
        weave(vec![say("a", "hi"), step(0, &["a"]), reply(vec![Part::text("ok")], 0), step(1, &[])]),
        ["user: hi", "agent: ok", "user: Go on."]
    );
    // An answer of nothing.
    assert_eq!(
        weave(vec![say("a", "hi"), step(0, &["a"]), reply(vec![Part::text(" ")], 0), say("b", "?"), step(1, &["b"])]),
        ["user: hi", "user: ?"]
    );
}

#[test]
fn reasoning_and_opaque_blocks_keep_their_place() {
    let raw = r#"{"type":"redacted_thinking"}"#.into();
    let parts = vec![
        Part::Reasoning { text: "hm".into(), signature: Some("sig".into()) },
        Part::Opaque { provider: "anthropic".into(), raw },
        Part::text("so"),
    ];
    assert_eq!(
        weave(vec![say("a", "hi"), step(0, &["a"]), reply(parts, 0), say("b", "and"), step(1, &["b"])])[1..4],
        ["agent: (hm|sig)", "agent: <anthropic>", "agent: so"]
    );
}

#[test]
fn reminders_are_marked_and_the_first_block_is_the_users_words() {
    let mut entry = Entry::user(EntryId::new("a"), "exactly this");
    entry.parts.push(Part::reminder("be kind"));
    assert_eq!(
        weave(vec![Event::Queued { entry }, step(0, &["a"])]),
        ["user: exactly this", "user: <system-reminder>\nbe kind\n</system-reminder>"]
    );
}

/// CC-109, CC-133, CC-281: an awaited end is the result of the call; else the call keeps its first result, and the end is a
/// message of its own in the user's role.
#[test]
fn a_task_answers_its_call_or_comes_as_a_notice() {
    let spawn = Spawn {
        description: "count files".into(),
        prompt: "count".into(),
        entry: EntryId::new("e"),
        name: Some("counter".into()),
        ..Spawn::bare("general".into())
    };
    let started = |wait| Event::TaskStarted { call: CallId::new("c"), task: SessionId::new("ses_t"), round: 1, spawn: spawn.clone(), wait };
    let ended = |to| Event::TaskEnded {
        task: SessionId::new("ses_t"),
        round: 1,
        how: How::Completed,
        result: "3".into(),
        usage: Default::default(),
        to,
        effort: Default::default(),
    };
    let begin = || vec![say("a", "hi"), step(0, &["a"]), reply(vec![place("c")], 1), called("c", "w", "{}")];
    let mut waited = begin();
    waited.extend([started(true), ended(To::Call { call: CallId::new("c") }), step(1, &[])]);
    assert_eq!(weave(waited)[2], "user: 3 #w");
    let noticed = |worded, after: &[Event]| {
        let mut noticed = begin();
        let to = To::Queue { entry: EntryId::new("n"), worded };
        noticed.extend([started(false), finished("c", Outcome::done("launched")), ended(to)]);
        noticed.extend_from_slice(after);
        weave(noticed)[2..].to_vec()
    };
    // Older logs have only what the task said; now the notice is what was recorded.
    assert_eq!(noticed(false, &[step(1, &["n"])]), ["user: launched #w", "user: [task counter completed] count files\n\n3"]);
    assert_eq!(noticed(true, &[step(1, &["n"])]), ["user: launched #w", "user: 3"]);
    // What was read otherwise is not said.
    assert_eq!(noticed(true, &[Event::Unqueued { entry: EntryId::new("n") }, step(1, &["n"])]), ["user: launched #w"]);
}

/// The end of what a call had left running is said where a step took it in; one without words is not.
#[test]
fn a_shell_that_ended_comes_as_a_notice() {
    let over = |entry: Option<&str>| {
        let kept = Event::Kept { call: CallId::new("c"), title: "npm run dev".into() };
        let ended = Event::KeptEnded { call: CallId::new("c"), words: "[shell done]".into(), entry: entry.map(EntryId::new) };
        let mut log = vec![say("a", "hi"), step(0, &["a"]), reply(vec![place("c")], 1), called("c", "w", "{}"), kept];
        log.extend([finished("c", Outcome::done("it goes on")), ended, step(1, &["n"])]);
        weave(log)[2..].to_vec()
    };
    assert_eq!(over(Some("n")), ["user: it goes on #w", "user: [shell done]"]);
    assert_eq!(over(None), ["user: it goes on #w"]);
}

#[test]
fn other_speakers_are_taken_in_like_users() {
    let entry = Entry { source: Source::Timer, ..Entry::user(EntryId::new("t"), "wake up") };
    assert_eq!(weave(vec![Event::Queued { entry }, step(0, &["t"])]), ["user: wake up"]);
}

#[test]
fn the_system_prompt_names_the_origin_of_instructions_and_changes_are_told() {
    let environment = |date: &str| Environment {
        model: "m".into(),
        cwd: "/w".into(),
        project: "/w".into(),
        git: true,
        platform: "linux".into(),
        date: date.into(),
    };
    let files = [Instruction { path: "/w/AGENTS.md".into(), text: "be brief\n".into() }];
    let before = system("You are it.", &environment("2026-01-01"), &files);
    assert_eq!(before[0], "You are it.");
    assert!(before[1].contains("Working directory: /w") && before[1].contains("Git repository: yes"));
    assert_eq!(before[2], "Instructions from /w/AGENTS.md:\nbe brief");
    assert_eq!(changes(&before, &before), None);
    let after = system("You are it.", &environment("2026-01-02"), &files);
    let told = changes(&before, &after).unwrap();
    assert!(told.contains("2026-01-02") && !told.contains("be brief"), "{told}");
}

/// What typed words needed is in the words; the calls themselves are nobody's answer, also when one is open.
#[test]
fn calls_that_expand_typed_words_are_not_in_the_conversation() {
    let entry = |id: &str, typed: bool| Event::Queued { entry: Entry { typed, ..Entry::user(EntryId::new(id), "see @a.rs") } };
    let mut thread = Thread::default();
    let mut messages = Vec::new();
    let called = |call: &str| Event::Called {
        call: CallId::new(call),
        tool: "read".into(),
        input: "{}".into(),
        wire_id: String::new(),
        touches: Vec::new(),
        repeatable: true,
        title: String::new(),
        decision: None,
        consented: false,
    };
    let step = |step: u64, took: &str| Event::StepStarted {
        step,
        took: vec![EntryId::new(took)],
        reserved: Default::default(),
        closing: false,
        notes: Vec::new(),
    };
    let events = vec![
        entry("msg_1", false),
        step(0, "msg_1"),
        Event::Replied {
            step: 0,
            parts: vec![Part::text("I look"), Part::Call { call: CallId::new("call_1") }],
            calls: 1,
            usage: Default::default(),
            finish: Finish::Calls,
            author: None,
        },
        called("call_1"),
        entry("msg_2", true),
        Event::Expanding { entry: EntryId::new("msg_2"), calls: 1 },
        called("call_2"),
        Event::CallFinished { call: CallId::new("call_2"), outcome: Outcome::done("fn a") },
        Event::Expanded {
            entry: EntryId::new("msg_2"),
            parts: vec![Part::text("see @a.rs"), Part::reminder("fn a")],
            agent: None,
            model: None,
            allowed: Vec::new(),
        },
        Event::CallFinished { call: CallId::new("call_1"), outcome: Outcome::done("fn b") },
        step(1, "msg_2"),
    ];
    for (at, event) in events.into_iter().enumerate() {
        let record = Record { seq: at as u64 + 1, at: Timestamp(0), batch: posse_session::BatchId::new("evt_1"), event };
        messages.extend(thread.push(&record));
    }
    let texts: Vec<String> = messages.iter().flat_map(|message| message.blocks.iter().map(|block| format!("{block:?}"))).collect();
    assert_eq!(texts.iter().filter(|text| text.contains("call_2")).count(), 0, "{texts:#?}");
    assert!(texts.last().is_some_and(|text| text.contains("<system-reminder>\\nfn a\\n</system-reminder>")), "{texts:#?}");
    assert_eq!(texts.len(), 6, "{texts:#?}");
}
