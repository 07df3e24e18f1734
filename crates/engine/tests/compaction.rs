//! Conversations that grow too long: what is left out, what is summed up, and that nothing of it is lost or done twice.

#![allow(clippy::unwrap_used)]

mod office;

use std::sync::Arc;

use office::{Office, last, lines, log, say, settled, summaries, survives_every_cut, survives_every_fault};
use posse_engine::Compacting;
use posse_models::{Scripted, ScriptedReply, Seen};
use posse_session::{
    Command, Entry, Event, Expander, Expansion, Kind, Log as _, ModelFacts, ModelFailure, Outcome, Part, Prices, Record, SavedFold, Source,
    Status, ToolChoice,
};
use serde_json::json;

const IS_SUMMARY: &str = "is about to be replaced by a summary";

/// Small enough that a few steps fill it: 8 KB and a little.
fn facts(context: u64) -> ModelFacts {
    ModelFacts {
        name: "scripted/script".into(),
        provider: "scripted".into(),
        context,
        output: 500,
        prices: Prices::default(),
        images: false,
    }
}

/// How far the work is, as the conversation tells: it survives being summed up.
fn done_so_far(seen: &Seen) -> usize {
    let all = lines(&seen.messages).join("\n");
    let numbers = all.split("n=").skip(1).filter_map(|rest| rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok());
    numbers.max().unwrap_or(0)
}

fn is_summary(seen: &Seen) -> bool {
    last(seen).contains(IS_SUMMARY)
}

/// Works in `steps` steps of about `bytes` each, then says that it is done.
fn worker(steps: usize, bytes: usize) -> impl Fn(&Seen) -> ScriptedReply + Send + Sync + 'static {
    move |seen| {
        let done = done_so_far(seen);
        match done {
            _ if is_summary(seen) => say(&format!("The work has come to n={done}.")),
            _ if done < steps => {
                let filler = "words ".repeat(bytes / 6);
                ScriptedReply {
                    text: format!("n={} {filler}", done + 1),
                    ..ScriptedReply::call("touch", json!({"what": format!("{}", done + 1)}))
                }
            }
            _ => say("all done"),
        }
    }
}

fn small_office(script: impl Fn(&Seen) -> ScriptedReply + Send + Sync + 'static) -> Office {
    Office::with_model(Scripted::with(script).with_facts(facts(5_000)))
}

fn compacted(records: &[Record]) -> Vec<(String, u64, String)> {
    let found = records.iter().filter_map(|record| match &record.event {
        Event::Compacted { summary, tail_from, verbatim } => {
            Some((summary.inline().unwrap().to_owned(), *tail_from, verbatim.inline().unwrap_or_default().to_owned()))
        }
        _ => None,
    });
    found.collect()
}

fn count(records: &[Record], name: &str) -> usize {
    records.iter().filter(|record| record.event.name() == name).count()
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_would_not_fit_is_summed_up_before_it_is_sent() {
    let office = small_office(worker(30, 1_500));
    office.run("build the house of cards").await;
    let records = office.records().await;
    let summaries_made = compacted(&records);
    assert!((2..=10).contains(&summaries_made.len()), "{summaries_made:?}");
    assert!(
        summaries_made.iter().all(|(_, _, verbatim)| verbatim.contains("build the house of cards")),
        "the user's words stay: {summaries_made:?}"
    );
    let seen = office.model.seen();
    let weight = |seen: &Seen| lines(&seen.messages).iter().map(String::len).sum::<usize>() / 4;
    assert!(
        seen.iter().all(|seen| weight(seen) < 5_000),
        "nothing was sent that does not fit: {:?}",
        seen.iter().map(weight).collect::<Vec<_>>()
    );
    assert_eq!(office.witness.lock().unwrap().len(), 30, "every step once");
    // A tail stays word for word: the step after a summary shows the steps before it.
    let after = seen.iter().find(|seen| !is_summary(seen) && lines(&seen.messages)[0].contains("replaced by this summary")).unwrap();
    assert!(lines(&after.messages).iter().any(|line| line.contains("agent: n=")), "{:#?}", lines(&after.messages));
    let answer = records.iter().rev().find(|record| matches!(record.event, Event::Replied { .. })).unwrap();
    assert!(
        matches!(&answer.event, Event::Replied { parts, .. } if matches!(&parts[0], Part::Text { text, .. } if text.inline() == Some("all done")))
    );
}

/// The summary is written by an internal session that begins with the same bytes and calls nothing; it is counted.
#[tokio::test(start_paused = true)]
async fn whoever_sums_up_sees_what_was_sent_before_and_calls_nothing() {
    let office = small_office(worker(10, 1_500));
    office.run("go").await;
    let seen = office.model.seen();
    let at = seen.iter().position(is_summary).unwrap();
    let (before, summing) = (&seen[at - 1], &seen[at]);
    // Another choice of tools would be another prefix for some providers' caches.
    assert_eq!(summing.tool_choice, before.tool_choice);
    assert_eq!(summing.head, before.head, "the head is the same");
    let shared = before.messages.iter().zip(&summing.messages).take_while(|(one, other)| one == other).count();
    assert!(1 < shared && shared + 1 == summing.messages.len(), "only the last message differs: {shared} of {}", summing.messages.len());
    let all = summaries(&office.memory).await;
    let internal: Vec<_> = all.iter().filter(|summary| summary.kind == Some(Kind::Internal)).collect();
    assert!(!internal.is_empty() && internal.iter().all(|summary| summary.agent == "compaction" && summary.status == Status::Completed));
    let root = all.iter().find(|summary| summary.parent.is_none()).unwrap();
    assert_eq!(root.tasks_started, 0, "internal work is no task");
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_the_provider_finds_too_long_is_summed_up_once() {
    let office = Office::with_model(Scripted::with(|seen: &Seen| {
        let long = lines(&seen.messages).iter().map(String::len).sum::<usize>();
        match worker(4, 2_000)(seen) {
            _ if !is_summary(seen) && 7_000 < long => ScriptedReply::failing(ModelFailure::TooLong, "prompt is too long"),
            reply => reply,
        }
    }));
    office.run("go").await;
    let records = office.records().await;
    assert_eq!((compacted(&records).len(), count(&records, "step_failed")), (1, 1));
    assert_eq!(summaries(&office.memory).await.iter().find(|summary| summary.parent.is_none()).unwrap().status, Status::Completed);
}

/// Compact once, then error; never a loop.
/// A provider that takes far less than is known of it: what is to be summed up is too long itself, until little enough of it is sent.
#[tokio::test(start_paused = true)]
async fn what_is_too_long_even_for_a_summary_is_summed_up_in_parts() {
    const TAKES: usize = 12_000;
    let office = Office::with_model(
        Scripted::with(|seen: &Seen| {
            let long = lines(&seen.messages).iter().map(String::len).sum::<usize>();
            match () {
                () if TAKES < long => ScriptedReply::failing(ModelFailure::TooLong, "prompt is too long"),
                () if is_summary(seen) => say("It was about words."),
                () => say(&"an answer ".repeat(60)),
            }
        })
        .with_facts(facts(200_000)),
    );
    // Each turn adds about 2 KB, so the sixth is refused, and so would be any summary of nearly all of it.
    let handle = office.begin("begin").await;
    for turn in 0..20 {
        settled(&handle).await;
        handle.say(office.entry(&format!("turn {turn} {}", "words ".repeat(220)))).await.unwrap();
        let session = settled(&handle).await;
        assert_eq!(session.hold(), None, "turn {turn}: {}", session.round().error);
    }
    // Words that are far more than the rest: the rest makes room for them.
    handle.say(office.entry(&"many words ".repeat(450))).await.unwrap();
    let session = settled(&handle).await;
    assert_eq!(session.hold(), None, "{}", session.round().error);
    handle.close().await;
    let records = office.records().await;
    assert!((4..=12).contains(&compacted(&records).len()), "{:?}", compacted(&records).len());
    assert!(office.model.seen().len() < 21 * 4, "{}", office.model.seen().len());
}

#[tokio::test(start_paused = true)]
async fn what_stays_too_long_ends_the_turn_with_words_and_never_loops() {
    let office = Office::with_model(Scripted::with(|seen: &Seen| match done_so_far(seen) {
        _ if is_summary(seen) => say("n=2"),
        0 | 1 => worker(2, 2_000)(seen),
        _ => ScriptedReply::failing(ModelFailure::TooLong, "prompt is too long"),
    }));
    office.run("go").await;
    let records = office.records().await;
    assert_eq!((compacted(&records).len(), count(&records, "step_failed")), (1, 2));
    assert_eq!(summaries(&office.memory).await.iter().find(|summary| summary.parent.is_none()).unwrap().status, Status::Failed);
    assert!(office.model.seen().len() < 8);
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_cannot_be_written_leaves_the_conversation_as_it_is() {
    let office = Office::with_model(Scripted::with(|seen: &Seen| match done_so_far(seen) {
        _ if is_summary(seen) => ScriptedReply::failing(ModelFailure::BadRequest, "no summaries today"),
        0..=2 => worker(3, 2_000)(seen),
        _ => ScriptedReply::failing(ModelFailure::TooLong, "prompt is too long"),
    }));
    let session = office.run("go").await;
    let records = office.records().await;
    assert_eq!((compacted(&records).len(), count(&records, "compaction_failed")), (0, 1));
    let error = &session.round().error;
    assert!(error.contains("prompt is too long") && error.contains("no summaries today"), "{error}");
}

/// Big outputs long ago go first, and no model is asked for that.
#[tokio::test(start_paused = true)]
async fn what_calls_printed_long_ago_is_left_out_first() {
    let office = small_office(|seen: &Seen| match done_so_far(seen) {
        done if done < 14 => ScriptedReply { text: format!("n={}", done + 1), ..ScriptedReply::call("peek", json!({"what": "big"})) },
        _ => say("all done"),
    });
    office.run("go").await;
    let records = office.records().await;
    assert_eq!(compacted(&records).len(), 0);
    assert!(0 < count(&records, "pruned"), "{:?}", office.names().await);
    let seen = office.model.seen();
    let shown = lines(&seen.last().unwrap().messages);
    assert!(shown.iter().any(|line| line.contains("left out here to save room")), "{shown:#?}");
    assert!(shown.iter().filter(|line| line.contains("big")).any(|line| 500 < line.len()), "the latest stays: {shown:#?}");
    assert!(
        records
            .iter()
            .filter(
                |record| matches!(&record.event, Event::CallFinished { outcome: Outcome::Done { output, .. }, .. } if 900 < output.bytes())
            )
            .count()
            == 14,
        "nothing is deleted"
    );
}

#[tokio::test(start_paused = true)]
async fn without_leave_nothing_is_made_shorter() {
    let mut office = small_office(worker(12, 1_500));
    office.compaction = Compacting { auto: false, prune: false, ..Compacting::default() };
    office.run("go").await;
    assert_eq!(count(&office.records().await, "compacted"), 0);
}

/// A typed `/compact WORDS` in these tests.
struct Slash;

impl Expander for Slash {
    fn expand(&self, typed: &str, _: &posse_session::Voice) -> Expansion {
        let typed = typed.to_owned();
        let assemble = move |_: &[Outcome]| match typed.strip_prefix("/compact") {
            Some(words) => vec![Part::Compact { words: words.trim().into() }],
            None => vec![Part::text(typed.as_str())],
        };
        Expansion { calls: Vec::new(), agent: None, model: None, allowed: Vec::new(), assemble: Box::new(assemble) }
    }
}

fn typed(office: &Office, text: &str) -> Entry {
    Entry { typed: true, source: Source::User, ..office.entry(text) }
}

fn asked_office() -> Office {
    let mut office = Office::with_model(Scripted::with(|seen: &Seen| match last(seen) {
        line if line.contains(IS_SUMMARY) => say(&format!("so far: {}", lines(&seen.messages).len())),
        line => say(&format!("yes: {}", line.chars().take(40).collect::<String>())),
    }));
    office.expander = Some(Arc::new(Slash));
    office
}

#[tokio::test(start_paused = true)]
async fn a_summary_can_be_asked_for_and_told_what_matters() {
    let office = asked_office();
    let handle = office.begin("one").await;
    settled(&handle).await;
    handle.say(typed(&office, "/compact keep the colours")).await.unwrap();
    settled(&handle).await;
    handle.say(office.entry("two")).await.unwrap();
    settled(&handle).await;
    handle.close().await;
    let seen = office.model.seen();
    assert_eq!(seen.len(), 3, "one, the summary, two");
    assert!(last(&seen[1]).contains("keep the colours"), "{}", last(&seen[1]));
    let shown = lines(&seen[2].messages);
    assert!(shown.len() == 2 && shown[0].contains("so far: 3") && shown[0].contains("one"), "{shown:#?}");
    assert_eq!(shown[1], "user: two");
}

#[tokio::test(start_paused = true)]
async fn with_nothing_to_sum_up_it_says_so_and_asks_nobody() {
    let office = asked_office();
    let handle = office.begin("one").await;
    settled(&handle).await;
    handle.say(typed(&office, "/compact")).await.unwrap();
    settled(&handle).await;
    handle.say(typed(&office, "/compact")).await.unwrap();
    settled(&handle).await;
    handle.close().await;
    let records = office.records().await;
    assert_eq!((count(&records, "compacted"), count(&records, "compaction_failed")), (1, 1), "{:?}", office.names().await);
    assert_eq!(office.model.seen().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_compaction_survives_every_cut() {
    let office = small_office(worker(8, 1_500));
    office.run("go").await;
    assert_eq!(compacted(&office.records().await).len(), 1);
    survives_every_cut(office, async |office: &Office, what: &str| {
        let records = office.records().await;
        let open =
            records.iter().filter(|record| matches!(&record.event, Event::TaskStarted { spawn, .. } if spawn.purpose.is_some())).count();
        let ended = compacted(&records).len() + count(&records, "compaction_failed");
        assert_eq!(open, ended, "{what}: every summary that was promised came, once");
        for (summary, ..) in compacted(&records) {
            assert!(summary.contains("n=") && !summary.contains("n=0"), "{what}: whoever summed it up has read it: {summary}");
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_was_asked_for_survives_every_cut() {
    let office = asked_office();
    let handle = office.begin("go").await;
    settled(&handle).await;
    handle.say(typed(&office, "/compact")).await.unwrap();
    settled(&handle).await;
    handle.close().await;
    survives_every_cut(office, async |_: &Office, _: &str| {}).await;
}

#[tokio::test(start_paused = true)]
async fn a_compaction_survives_every_fault() {
    survives_every_fault(|| small_office(worker(8, 1_500))).await;
}

/// A task that was started before the summary and still runs is watched by the next owner, too.
#[tokio::test(start_paused = true)]
async fn background_work_begun_before_a_summary_is_heard_of_after_a_restart() {
    let script = |seen: &Seen| {
        let shown = lines(&seen.messages).join("\n");
        match () {
            () if is_summary(seen) => say("the owl still works"),
            () if shown.contains("be an owl") && !shown.contains("start it") => ScriptedReply::call("slow", json!({"ms": 5_000_000})),
            () if last(seen).contains("start it") => {
                let input =
                    json!({"description": "owl", "prompt": "be an owl", "subagent_type": "owl", "run_in_background": true, "name": "owl"});
                ScriptedReply::call("agent", input)
            }
            () => say("fine"),
        }
    };
    let mut office = Office::with_model(Scripted::with(script));
    office.expander = Some(Arc::new(Slash));
    let handle = office.begin("start it").await;
    handle.only_waits().await.unwrap();
    handle.say(typed(&office, "/compact")).await.unwrap();
    let mut found = false;
    for _ in 0..1_000 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        found = count(&office.records().await, "compacted") == 1;
        if found {
            break;
        }
    }
    assert!(found);
    handle.close().await;
    let memory = office.memory.copy();
    let office = office.reopened(memory);
    let handle = office.open(Vec::new()).await;
    settled(&handle).await;
    handle.close().await;
    let ends = log(&office.memory, &office.session).await;
    assert_eq!(count(&ends, "task_ended"), 2, "the summary and the owl");
    assert!(lines(&office.model.seen().last().unwrap().messages).iter().any(|line| line.contains("owl")));
}

/// Opening from a saved fold is the same as folding the whole log, and a fold that is of no use is passed over.
#[tokio::test(start_paused = true)]
async fn a_saved_fold_changes_nothing() {
    let office = small_office(worker(12, 1_500));
    office.run("go").await;
    let whole = office.hub().read(&office.session).await.unwrap();
    office.hub().save_fold(&office.session).await.unwrap();
    let saved = office.memory.saved_fold(&office.session).await.unwrap().expect("it was kept");
    let from_fold = office.hub().read(&office.session).await.unwrap();
    assert_eq!((&from_fold.session, &from_fold.records), (&whole.session, &whole.records));
    // More happens after it.
    let handle = office.open(vec![Command::Say(office.entry("more"))]).await;
    settled(&handle).await;
    handle.close().await;
    let later = office.hub().read(&office.session).await.unwrap();
    for broken in [
        SavedFold { body: b"{}".as_slice().into(), ..saved.clone() },
        SavedFold { seq: saved.seq + 1, ..saved.clone() },
        SavedFold { version: saved.version + 1, ..saved.clone() },
    ] {
        office.memory.save_fold(broken).await.unwrap();
        let read = office.hub().read(&office.session).await.unwrap();
        assert_eq!((&read.session, &read.records), (&later.session, &later.records));
    }
}

/// An answer that does not fit is asked for once more; the second is the last.
#[tokio::test(start_paused = true)]
async fn an_answer_without_its_shape_is_asked_for_once_more() {
    for (answers, status, asked) in
        [(["7", "7"], Status::Completed, 1), (["x", "7"], Status::Completed, 2), (["x", "y"], Status::Failed, 2)]
    {
        let mut office = Office::new(answers.map(say));
        office.shape = Some(Arc::new(|text: &str| (text != "7").then(|| format!("{text} is no seven"))));
        office.run("a seven, please").await;
        let seen = office.model.seen();
        assert_eq!(seen.len(), asked, "{answers:?}");
        if asked == 2 {
            assert!(last(&seen[1]).contains("x is no seven"), "{}", last(&seen[1]));
        }
        assert_eq!(summaries(&office.memory).await[0].status, status, "{answers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_asked_for_again_survives_every_cut() {
    let mut office = Office::new(["x", "7"].map(say));
    office.shape = Some(Arc::new(|text: &str| (text != "7").then(|| "no seven".to_owned())));
    office.run("go").await;
    survives_every_cut(office, async |office: &Office, what: &str| {
        assert_eq!(summaries(&office.memory).await[0].status, Status::Completed, "{what}");
    })
    .await;
}

/// Who calls tools instead of writing the summary is asked once more, and then cannot.
#[tokio::test(start_paused = true)]
async fn whoever_calls_tools_instead_of_summing_up_is_asked_once_more() {
    let office = small_office(|seen: &Seen| match is_summary(seen) {
        true if seen.tool_choice == ToolChoice::Auto => ScriptedReply::call("touch", json!({"what": "never"})),
        _ => worker(10, 1_500)(seen),
    });
    office.run("go").await;
    let records = office.records().await;
    assert!(!compacted(&records).is_empty() && count(&records, "compaction_failed") == 0, "{:?}", office.names().await);
    assert_eq!(office.witness.lock().unwrap().len(), 10, "what it called did not run");
}

/// A summary that is cut at the output limit would be a memory with a hole.
#[tokio::test(start_paused = true)]
async fn a_summary_that_is_cut_off_does_not_count() {
    let office = small_office(|seen: &Seen| match worker(10, 1_500)(seen) {
        reply if is_summary(seen) => ScriptedReply { finish: Some(posse_session::Finish::Length), ..reply },
        reply => reply,
    });
    office.run("go").await;
    let records = office.records().await;
    assert_eq!((compacted(&records).len(), count(&records, "compaction_failed")), (0, 1), "tried once in a turn, then left");
}

/// The shape asked of the final answer is not asked of a summary.
#[tokio::test(start_paused = true)]
async fn a_summary_has_no_shape() {
    let mut office = small_office(worker(10, 1_500));
    office.answer = Some(json!({"type": "object"}));
    office.run("go").await;
    let seen = office.model.seen();
    assert!(seen.iter().filter(|seen| is_summary(seen)).all(|seen| seen.head.answer.is_none()));
    assert!(seen.iter().filter(|seen| !is_summary(seen)).all(|seen| seen.head.answer.is_some()));
}

/// What comes with the next step counts: a large result is not found out by the provider.
#[tokio::test(start_paused = true)]
async fn results_that_would_not_fit_are_counted_before_they_are_sent() {
    let office = small_office(|seen: &Seen| match done_so_far(seen) {
        done if is_summary(seen) => say(&format!("n={done}")),
        done if done < 3 => {
            let calls =
                (0..8).fold(ScriptedReply::text(format!("n={}", done + 1)), |reply, _| reply.and_call("peek", json!({"what": "big"})));
            ScriptedReply { usage: posse_session::Usage { input: 3_000, output: 10, ..Default::default() }, ..calls }
        }
        _ => say("all done"),
    });
    office.run("go").await;
    let records = office.records().await;
    assert!(0 < count(&records, "pruned") + compacted(&records).len(), "{:?}", office.names().await);
}

/// A fold is kept when a long session comes to rest, also by those who end the run at once.
#[tokio::test(start_paused = true)]
async fn a_long_session_leaves_a_fold_when_it_comes_to_rest() {
    let office = Office::with_model(Scripted::with(|seen: &Seen| match seen.position {
        at if at < 500 => ScriptedReply::call("peek", json!({"what": format!("{at}")})),
        _ => say("done"),
    }));
    let handle = office.begin("go").await;
    settled(&handle).await;
    assert!(handle.finish().await);
    handle.close().await;
    let fold = office.memory.saved_fold(&office.session).await.unwrap().expect("more than two thousand records");
    assert_eq!(fold.seq, office.records().await.last().unwrap().seq);
}
