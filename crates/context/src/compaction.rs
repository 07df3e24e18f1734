//! How a conversation that has grown too long is made shorter: what is left out, what is summed up, what stays word for word.
//!
//! Pure: from records and a budget to a plan. What calls printed long ago goes first; if that is not enough everything but
//! a tail is summed up. A tail begins where nothing is half said: no entry waits, no call is open.

use std::collections::HashSet;

use posse_session::{CallId, EntryId, Event, Outcome, Part, Record, Seq, Source, Text, To};

use crate::results::words;

/// A shorter output is not worth leaving out.
const OUTPUT_BYTES_MIN: u64 = 400;

/// What takes the place of an output that is left out.
const LEFT_OUT: &str = "(What this call printed is left out here to save room. Call it again if you need it.)";

/// What is summed up must be worth a model call: this share of the budget.
const WORTH: u64 = 8;

/// The share of the budget that stays word for word.
const TAIL: u64 = 4;

/// So much of what users said is kept as they said it, the latest first; a brief and a few corrections.
const VERBATIM_BYTES_MAX: usize = 8 * 1024;

/// What to do about the length of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// Leave out what calls printed up to here: that is enough.
    Prune { to: Seq },
    /// Sum up everything up to here.
    Sum { tail_from: Seq },
    /// There is nothing that could be left out.
    Nothing,
}

/// What is wanted of a plan. Bytes, as records hold them.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// What the conversation may have.
    pub most: u64,
    /// Leaving out what calls printed may be enough.
    pub prune: bool,
    /// The user wants a summary, however short the conversation is.
    pub asked: bool,
    /// What stands before these records, in other logs.
    pub before: u64,
    /// What the conversation has now, as it is sent.
    pub now: u64,
    /// What whoever sums it up can take in.
    pub fits: u64,
}

/// How much of a conversation these records are.
pub fn weigh(records: &[Record]) -> u64 {
    records.iter().map(bytes).sum()
}

/// A plan for the session's own records of its transcript, oldest first; their texts may be in blobs.
pub fn plan(records: &[Record], budget: Budget) -> Plan {
    let total: u64 = budget.before + weigh(records);
    let protected = budget.most / TAIL;
    if budget.prune && !budget.asked {
        let (to, freed) = prunable(records, protected);
        // With room to work in afterwards: else the next step would ask again.
        if budget.most / WORTH <= freed && 0 < freed && budget.now.saturating_sub(freed) <= budget.most - budget.most / TAIL {
            return Plan::Prune { to };
        }
    }
    let worth = if budget.asked { 1 } else { budget.most / WORTH };
    let (mut after, mut answered) = (total - budget.before, 0 < budget.before);
    let mut best: Option<Seq> = None;
    for (record, whole) in records.iter().zip(boundaries(records)) {
        after -= bytes(record).min(after);
        answered |= matches!(record.event, Event::Replied { .. });
        if !whole || !answered || total - after < worth {
            continue;
        }
        // More than can be taken in at once is summed up in several rounds.
        if budget.fits < total - after && best.is_some() {
            break;
        }
        best = Some(record.seq);
        // Who asks for a summary wants all of it summed up.
        if after <= protected && !budget.asked {
            break;
        }
    }
    best.map_or(Plan::Nothing, |tail_from| Plan::Sum { tail_from })
}

/// Up to where outputs can be left out, sparing the latest, and how many bytes that frees.
fn prunable(records: &[Record], protected: u64) -> (Seq, u64) {
    let kept = skills(records);
    let (mut later, mut to, mut freed) = (0, 0, 0);
    for record in records.iter().rev() {
        let output = output_bytes(record, &kept);
        later += output;
        if protected < later && 0 < output {
            to = to.max(record.seq);
            freed += output;
        }
    }
    (to, freed)
}

/// Calls whose output tells the model how to work: it stays.
fn skills(records: &[Record]) -> HashSet<CallId> {
    let skill = |record: &Record| match &record.event {
        Event::Called { call, tool, .. } if tool.eq_ignore_ascii_case("skill") => Some(call.clone()),
        _ => None,
    };
    records.iter().filter_map(skill).collect()
}

fn output_bytes(record: &Record, kept: &HashSet<CallId>) -> u64 {
    match &record.event {
        Event::CallFinished { call, outcome: Outcome::Done { output, attachments, .. } } if !kept.contains(call) => {
            let all = output.bytes() + attachments.iter().map(file_bytes).sum::<u64>();
            if OUTPUT_BYTES_MIN < all { all } else { 0 }
        }
        _ => 0,
    }
}

fn file_bytes(part: &Part) -> u64 {
    if let Part::File { data: Some(data), .. } = part { data.bytes() } else { 0 }
}

/// Leaves out what the calls of these records printed.
pub fn prune(records: &mut [Record]) {
    let kept = skills(records);
    for record in records.iter_mut().filter(|record| 0 < output_bytes(record, &kept)) {
        if let Event::CallFinished { outcome: Outcome::Done { output, attachments, .. }, .. } = &mut record.event {
            *output = LEFT_OUT.into();
            attachments.retain(|part| !matches!(part, Part::File { .. }));
        }
    }
}

/// For each record whether the conversation may be cut right after it: nothing said before is taken, answered or ended later.
fn boundaries(records: &[Record]) -> Vec<bool> {
    let said: HashSet<&EntryId> = records.iter().flat_map(|record| left(&record.event)).collect();
    let (mut waiting, mut open, mut announced) = (HashSet::<&EntryId>::new(), HashSet::<&CallId>::new(), 0_u64);
    // A reply follows: what was sent stands here, its answer would stand there.
    let mut asked = false;
    records
        .iter()
        .map(|record| {
            match &record.event {
                // What still waits is not part of the conversation yet, and goes on waiting.
                Event::Queued { entry } if said.contains(&entry.id) => _ = waiting.insert(&entry.id),
                Event::TaskEnded { to: To::Queue { entry, .. }, .. } | Event::KeptEnded { entry: Some(entry), .. }
                    if said.contains(entry) =>
                {
                    waiting.insert(entry);
                }
                Event::TaskEnded { to: To::Call { call }, .. } | Event::CallFinished { call, .. } => _ = open.remove(call),
                Event::Unqueued { entry } => _ = waiting.remove(entry),
                Event::StepStarted { took, .. } => {
                    asked = true;
                    waiting.retain(|entry| !took.contains(entry));
                }
                // One that is tried again is still to be answered.
                Event::StepFailed { retry_at: None, .. } => asked = false,
                Event::Expanding { calls, .. } => announced = *calls,
                Event::Replied { calls, .. } => (announced, asked) = (*calls, false),
                Event::Called { call, .. } => {
                    announced = announced.saturating_sub(1);
                    open.insert(call);
                }
                _ => {}
            }
            waiting.is_empty() && open.is_empty() && announced == 0 && !asked
        })
        .collect()
}

/// Entries that leave the queue by an event.
fn left(event: &Event) -> &[EntryId] {
    match event {
        Event::StepStarted { took, .. } => took,
        Event::Unqueued { entry } => std::slice::from_ref(entry),
        _ => &[],
    }
}

/// About how much of a conversation a record is.
fn bytes(record: &Record) -> u64 {
    let of = |parts: &[Part]| parts.iter().map(Part::bytes).sum::<u64>();
    match &record.event {
        Event::Queued { entry } => of(&entry.parts),
        Event::Expanded { parts, .. } | Event::StepStarted { notes: parts, .. } | Event::Replied { parts, .. } => of(parts),
        Event::Called { input: text, .. } | Event::TaskEnded { result: text, .. } | Event::KeptEnded { words: text, .. } => text.bytes(),
        Event::Compacted { summary, verbatim, .. } => summary.bytes() + verbatim.bytes(),
        Event::CallFinished { outcome, .. } => match outcome {
            Outcome::Done { output, attachments, .. } => output.bytes() + attachments.iter().map(file_bytes).sum::<u64>(),
            Outcome::Failed { error: text } | Outcome::Denied { why: text } => text.bytes(),
            Outcome::Cancelled { partial: text } | Outcome::Lost { partial: text } => text.bytes(),
        },
        _ => 0,
    }
}

/// What users said in these records, as they said it, after what an earlier summary had kept; the latest if it is too much.
pub fn verbatim(records: &[Record], most: usize) -> Text {
    let unsaid: HashSet<&EntryId> =
        records.iter().filter_map(|record| if let Event::Unqueued { entry } = &record.event { Some(entry) } else { None }).collect();
    let mut said: Vec<String> = Vec::new();
    for record in records {
        match &record.event {
            Event::Compacted { verbatim, .. } => said.extend(Some(words(verbatim)).filter(|text| !text.trim().is_empty())),
            Event::Queued { entry } if matches!(entry.source, Source::User | Source::Prompt { .. }) && !unsaid.contains(&entry.id) => {
                let typed = entry.parts.iter().filter_map(|part| match part {
                    Part::Text { text, synthetic: false } => Some(words(text)),
                    _ => None,
                });
                said.extend(typed.filter(|text| !text.trim().is_empty()));
            }
            _ => {}
        }
    }
    let mut kept: Vec<String> = Vec::new();
    let mut room = most.min(VERBATIM_BYTES_MAX);
    for text in said.into_iter().rev() {
        if text.len() <= room {
            room -= text.len();
            kept.push(text);
            continue;
        }
        // The question often stands at the end.
        let (start, end) = (text.floor_char_boundary(room / 2), text.ceil_char_boundary(text.len() - room / 2));
        kept.push(format!("{} […] {}", &text[..start], &text[end..]));
        break;
    }
    kept.reverse();
    Text::from(kept.join("\n\n---\n\n"))
}

/// What the internal session that writes a summary is told: how, by the agent that writes summaries, and what the user
/// wants to have kept.
pub fn directive(how: &str, wish: &str) -> String {
    let wish = wish.trim();
    let wish = if wish.is_empty() { String::new() } else { format!("\n\nThe user asks that this be kept above all: {wish}") };
    format!("{FRAME}\n\n{}{wish}", how.trim())
}

const FRAME: &str = "The conversation above has grown too long and is about to be replaced by a summary. Write it now, and nothing else: no tool can be called, and no other shape of an answer counts here.";
