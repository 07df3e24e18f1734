//! What users typed and ran directly, kept beside the session until it is said: the state itself holds no texts.

use std::collections::HashMap;

use posse_session::{CallId, EntryId, Event, Outcome, Part, Record, Seq, Subtask, Text, Voice};

#[derive(Default)]
pub(crate) struct Typing {
    typed: HashMap<EntryId, Typed>,
    /// Whose calls come next, and how many.
    announced: Option<(EntryId, u64)>,
    calls: HashMap<CallId, (EntryId, usize)>,
    /// Parts of records that hold agents which the user ran.
    subtasks: HashMap<Seq, Vec<Part>>,
    /// What summaries that were asked for are to keep.
    wishes: HashMap<EntryId, Text>,
}

/// Words that wait to be expanded, and the results that were asked for so far.
#[derive(Debug, Clone)]
pub(crate) struct Typed {
    pub(crate) entry: EntryId,
    pub(crate) parts: Vec<Part>,
    pub(crate) voice: Voice,
    pub(crate) results: Vec<Option<Outcome>>,
}

impl Typing {
    pub(crate) fn take(&mut self, record: &Record) {
        match &record.event {
            Event::Queued { entry } if entry.typed => {
                let (parts, voice) = (entry.parts.clone(), entry.voice.clone());
                let typed = Typed { entry: entry.id.clone(), parts, voice, results: Vec::new() };
                self.typed.insert(entry.id.clone(), typed);
            }
            Event::Queued { entry } => {
                self.keep(record.seq, &entry.parts);
                self.keep_wish(&entry.id, &entry.parts);
            }
            Event::Unqueued { entry } => _ = self.wishes.remove(entry),
            Event::Expanding { entry, calls } => self.announced = Some((entry.clone(), *calls)),
            Event::Called { call, .. } => {
                if let Some((entry, left)) = self.announced.take_if(|(_, left)| 0 < *left) {
                    if let Some(typed) = self.typed.get_mut(&entry) {
                        self.calls.insert(call.clone(), (entry.clone(), typed.results.len()));
                        typed.results.push(None);
                    }
                    self.announced = Some((entry, left - 1));
                }
            }
            Event::Replied { .. } => self.announced = None,
            Event::CallFinished { call, outcome } => {
                if let Some((entry, at)) = self.calls.remove(call)
                    && let Some(slot) = self.typed.get_mut(&entry).and_then(|typed| typed.results.get_mut(at))
                {
                    *slot = Some(outcome.clone());
                }
            }
            Event::Expanded { entry, parts, .. } => {
                self.typed.remove(entry);
                self.keep(record.seq, parts);
                self.keep_wish(entry, parts);
            }
            _ => {}
        }
    }

    fn keep(&mut self, seq: Seq, parts: &[Part]) {
        let subtasks: Vec<Part> = parts.iter().filter(|part| matches!(part, Part::Subtask { .. })).cloned().collect();
        if !subtasks.is_empty() {
            self.subtasks.insert(seq, subtasks);
        }
    }

    fn keep_wish(&mut self, entry: &EntryId, parts: &[Part]) {
        if let Some(Part::Compact { words }) = parts.iter().find(|part| matches!(part, Part::Compact { .. })) {
            self.wishes.insert(entry.clone(), words.clone());
        }
    }

    pub(crate) fn wish(&self, entry: &EntryId) -> Option<&Text> {
        self.wishes.get(entry)
    }

    pub(crate) fn of(&self, entry: &EntryId) -> Option<Typed> {
        self.typed.get(entry).cloned()
    }

    pub(crate) fn subtask(&self, subtask: &Subtask) -> Option<&Part> {
        self.subtasks.get(&subtask.seq)?.get(subtask.at)
    }

    /// The same, where its record may be one that is not appended yet.
    pub(crate) fn subtask_among(&self, records: &[Record], subtask: &Subtask) -> Option<Part> {
        let is_subtask = |part: &&Part| matches!(part, Part::Subtask { .. });
        let fresh = records.iter().find(|record| record.seq == subtask.seq).and_then(|record| match &record.event {
            Event::Queued { entry } => entry.parts.iter().filter(is_subtask).nth(subtask.at),
            Event::Expanded { parts, .. } => parts.iter().filter(is_subtask).nth(subtask.at),
            _ => None,
        });
        fresh.or_else(|| self.subtask(subtask)).cloned()
    }
}
