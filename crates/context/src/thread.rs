//! Weaves messages out of records, incrementally: a step's messages are complete when it starts, and never change after.
//!
//! What a provider would refuse cannot come out: every call gets exactly one result, in the order the calls were written;
//! ids are unique; blank texts are left out; nothing ends on the assistant's word.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use posse_session::{Block, CallId, EntryId, Event, Message, Part, Record, Role, SessionId, To};

use crate::results::{self, Worded, words};

/// Marks text that did not come from the one who speaks.
const REMINDER: (&str, &str) = ("<system-reminder>\n", "\n</system-reminder>");

/// What stands before a summary, and before what it keeps word for word.
const SUMMED_UP: &str = "The conversation up to here was long and is replaced by this summary. What follows it is word for word.";
const USERS_WORDS: &str = "What the user said in that part, word for word, oldest first:";

/// Said for the user when a step starts with nothing new to say.
const GO_ON: &str = "Go on.";

#[derive(Debug, Clone, Default)]
pub struct Thread {
    /// Said, not yet taken by a step.
    queued: HashMap<EntryId, Vec<Block>>,
    /// The answer since the last step, until the next one starts.
    answer: Option<Answer>,
    /// Ids already on the wire: a provider's id that comes again is replaced by ours.
    wire_ids: HashSet<String>,
    /// Those of the conversation it begins with, shared by all who begin with it.
    wire_ids_before: Arc<HashSet<String>>,
    /// So many of the next calls are not the model's.
    apart: u64,
    /// What was before is summed up in this; it goes with the next words of the user's side.
    summary: Option<Block>,
    /// Others go on from here before the calls of the last answer have results.
    split: bool,
    /// What tasks were about, for their notices.
    tasks: HashMap<SessionId, (Option<String>, String)>,
}

#[derive(Debug, Clone, Default)]
struct Answer {
    blocks: Vec<Block>,
    calls: Vec<Slot>,
}

#[derive(Debug, Clone)]
struct Slot {
    call: CallId,
    wire_id: String,
    tool: String,
    result: Option<Block>,
}

impl Thread {
    /// The thread as whoever begins with this conversation goes on with it: nothing that waits is said there.
    /// `open`: the last answer is split off before any of its calls has a result, so that it looks the same from each of them.
    pub fn branch(mut self, open: bool) -> Self {
        self.queued.clear();
        self.split = true;
        if let Some(answer) = self.answer.as_mut().filter(|_| open) {
            answer.calls.iter_mut().for_each(|slot| slot.result = None);
        }
        let before = std::mem::take(&mut self.wire_ids);
        if self.wire_ids_before.is_empty() {
            self.wire_ids_before = Arc::new(before);
        } else {
            Arc::make_mut(&mut self.wire_ids_before).extend(before);
        }
        self
    }

    /// Takes the next record in; answers with the messages that are now complete.
    pub fn push(&mut self, record: &Record) -> Vec<Message> {
        match &record.event {
            Event::Queued { entry } => {
                self.queued.insert(entry.id.clone(), blocks(&entry.parts));
            }
            Event::Expanding { calls, .. } => self.apart = *calls,
            Event::Expanded { entry, parts, .. } => {
                self.queued.insert(entry.clone(), blocks(parts));
            }
            Event::StepStarted { took, notes, .. } => return self.step(took, notes),
            Event::Replied { parts, .. } => {
                self.apart = 0;
                self.answer = Some(Answer { blocks: blocks(parts), calls: Vec::new() });
            }
            // What typed words needed is in the words.
            Event::Called { .. } if 0 < self.apart => self.apart -= 1,
            Event::Called { call, tool, input, wire_id, .. } => self.called(call, tool, &words(input), wire_id),
            Event::Looked { call, input, .. } => self.amended(call, &words(input)),
            // Text that was shown before the turn was ended stays said; a step that is tried again says it anew.
            Event::StepFailed { retry_at: None, partial, .. } if !partial.is_blank() => {
                let text = format!("{}\n(cut off here)", words(partial));
                self.answer = Some(Answer { blocks: vec![Block::Text { text }], calls: Vec::new() });
            }
            Event::CallFinished { call, outcome } => self.finished(call, results::outcome(outcome)),
            Event::TaskStarted { task, spawn, .. } => {
                self.tasks.insert(task.clone(), (spawn.name.clone(), spawn.description.clone()));
            }
            Event::TaskEnded { task, how, result, to, .. } => match to {
                To::Call { call } => self.finished(call, results::task(*how, result)),
                To::Queue { entry, worded: true } => {
                    self.queued.insert(entry.clone(), vec![Block::Text { text: words(result) }]);
                }
                // Older logs have only what the task said.
                To::Queue { entry, worded: false } => {
                    let (name, description) = self.tasks.get(task).cloned().unwrap_or_default();
                    let name = name.unwrap_or_else(|| task.to_string());
                    let text = format!("[task {name} {}] {description}\n\n{}", how.word(), results::task(*how, result).text);
                    self.queued.insert(entry.clone(), vec![Block::Text { text }]);
                }
                To::Internal => {}
            },
            Event::KeptEnded { words: said, entry: Some(entry), .. } => {
                self.queued.insert(entry.clone(), vec![Block::Text { text: words(said) }]);
            }
            Event::Unqueued { entry } => drop(self.queued.remove(entry)),
            Event::Compacted { summary, verbatim, .. } => {
                let said = if verbatim.is_blank() { String::new() } else { format!("\n\n{USERS_WORDS}\n{}", words(verbatim)) };
                let text = format!("{}{SUMMED_UP}\n\n{}{said}{}", REMINDER.0, words(summary), REMINDER.1);
                self.summary = Some(Block::Text { text });
            }
            _ => {}
        }
        Vec::new()
    }

    /// What an entry would say that no step has taken yet.
    pub fn waiting(&self, entry: &EntryId) -> &[Block] {
        self.queued.get(entry).map_or(&[], Vec::as_slice)
    }

    fn step(&mut self, took: &[EntryId], notes: &[Part]) -> Vec<Message> {
        let mut messages = Vec::new();
        let mut said = Vec::new();
        let mut answered = false;
        let split = std::mem::take(&mut self.split);
        if let Some(mut answer) = self.answer.take() {
            // A place whose call was never recorded: the append that held both was torn.
            answer.blocks.retain(|block| !matches!(block, Block::Call { tool, .. } if tool.is_empty()));
            for slot in answer.calls {
                said.push(slot.result.unwrap_or_else(|| result(&slot.wire_id, &slot.tool, results::missing(split))));
            }
            if !answer.blocks.is_empty() {
                answered = true;
                messages.push(Message { role: Role::Assistant, blocks: answer.blocks });
            }
        }
        said.extend(took.iter().filter_map(|id| self.queued.remove(id)).flatten());
        said.extend(blocks(notes));
        if said.is_empty() && answered {
            said.push(Block::Text { text: GO_ON.into() });
        }
        if let Some(summary) = self.summary.take() {
            // Some templates refuse two messages of the user's in a row.
            if messages.is_empty() {
                said.insert(0, summary);
            } else {
                messages.insert(0, Message { role: Role::User, blocks: vec![summary] });
            }
        }
        if !said.is_empty() {
            messages.push(Message { role: Role::User, blocks: said });
        }
        messages
    }

    fn called(&mut self, call: &CallId, tool: &str, input: &str, wire_id: &str) {
        let fresh = !wire_id.is_empty() && !self.wire_ids_before.contains(wire_id) && self.wire_ids.insert(wire_id.to_owned());
        let wire_id = if fresh { wire_id.to_owned() } else { call.to_string() };
        self.wire_ids.insert(wire_id.clone());
        let answer = self.answer.get_or_insert_default();
        let block = Block::Call { id: wire_id.clone(), tool: tool.to_owned(), input: object(input) };
        match answer.blocks.iter_mut().find(|block| matches!(block, Block::Call { id, .. } if id == call.as_str())) {
            Some(place) => *place = block,
            None => answer.blocks.push(block),
        }
        answer.calls.push(Slot { call: call.clone(), wire_id, tool: tool.to_owned(), result: None });
    }

    /// The model is shown what ran, not what it wrote, when a hook changed the input before it was ever sent back.
    fn amended(&mut self, call: &CallId, amended: &str) {
        let Some(answer) = &mut self.answer else { return };
        let Some(wire_id) = answer.calls.iter().find(|slot| slot.call == *call).map(|slot| slot.wire_id.clone()) else { return };
        for block in &mut answer.blocks {
            if let Block::Call { id, input, .. } = block
                && *id == wire_id
            {
                *input = object(amended);
            }
        }
    }

    fn finished(&mut self, call: &CallId, worded: Worded) {
        let slot = self.answer.as_mut().and_then(|answer| answer.calls.iter_mut().find(|slot| slot.call == *call));
        if let Some(slot) = slot {
            slot.result = Some(result(&slot.wire_id, &slot.tool, worded));
        }
    }
}

fn result(id: &str, tool: &str, worded: Worded) -> Block {
    Block::Result { id: id.to_owned(), tool: tool.to_owned(), text: worded.text, error: worded.error, images: worded.images }
}

/// The text of a JSON object; what the model wrote otherwise is not echoed, it was answered with an error.
fn object(input: &str) -> String {
    let is_object = serde_json::from_str::<serde_json::Value>(input).is_ok_and(|value| value.is_object());
    if is_object { input.to_owned() } else { "{}".to_owned() }
}

fn blocks(parts: &[Part]) -> Vec<Block> {
    parts.iter().filter_map(block).collect()
}

fn block(part: &Part) -> Option<Block> {
    let text = |text: String| if text.trim().is_empty() { None } else { Some(Block::Text { text }) };
    match part {
        Part::Text { text: said, synthetic: false } => text(words(said)),
        Part::Text { text: said, synthetic: true } if said.is_blank() => None,
        Part::Text { text: said, synthetic: true } => text(format!("{}{}{}", REMINDER.0, words(said), REMINDER.1)),
        Part::Reasoning { text, signature } => Some(Block::Reasoning { text: words(text), signature: signature.as_ref().map(words) }),
        Part::File { mime, data: Some(data), .. } if mime.starts_with("image/") => {
            Some(Block::Image { mime: mime.clone(), data: words(data) })
        }
        Part::File { name, mime, .. } => text(format!("(attached file: {name}, {mime})")),
        // Its place in the reply; `called` puts the call itself here.
        Part::Call { call } => Some(Block::Call { id: call.to_string(), tool: String::new(), input: String::new() }),
        // One that cannot be read back is left out: its provider would not know it.
        Part::Opaque { provider, raw } => {
            let raw = serde_json::from_str(raw.inline()?).ok()?;
            Some(Block::Opaque { provider: provider.clone(), raw })
        }
        Part::Subtask { agent, command, .. } => {
            let command = command.as_ref().map_or(String::new(), |command| format!(" with `{command}`"));
            text(format!("(The user ran the agent `{agent}` directly{command}; its call and its answer follow.)"))
        }
        Part::Agent { .. } | Part::Patch { .. } | Part::Compact { .. } | Part::Compaction { .. } | Part::Retry { .. } => None,
    }
}
