//! A recording, read from its file: who was asked what, and what came of it.
//!
//! Conversations are chains: every message is a link to the one before it, with a fingerprint of all up to there as any run
//! would have it (`alike.rs`). A last line that was cut off by a kill does not count.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::Path,
};

use posse_session::{Block, Message, ModelFacts, ReplyPart, Role};
use serde_json::Value;

use super::{
    ReplayError,
    alike::{Ids, Reader},
};
use crate::record::lines::{Came, Exchange, FORMAT, Line, Resembles, resembles, rewrite_texts};

/// The fingerprint of a conversation up to a message.
pub(super) type Trace = (u64, u64);

pub(super) struct Link {
    pub(super) before: Option<usize>,
    /// Its place among all messages of the file.
    pub(super) message: usize,
    pub(super) trace: Trace,
    /// The trace of the first message.
    pub(super) first: Trace,
    pub(super) length: usize,
    /// How many answers are in the conversation up to here.
    pub(super) steps: usize,
}

pub(super) struct Recorded {
    pub(super) exchange: Exchange,
    pub(super) part: usize,
    pub(super) last: Option<usize>,
    /// The ids of the conversation: a list, and how many of it had come up.
    pub(super) ids: (usize, usize),
}

/// A whole file.
#[derive(Default)]
pub(super) struct Tape {
    /// The folders of each process that wrote to it.
    pub(super) parts: Vec<Reader>,
    pub(super) models: Vec<ModelFacts>,
    pub(super) names: HashMap<String, String>,
    pub(super) messages: Vec<Message>,
    pub(super) links: Vec<Link>,
    pub(super) ids: Vec<Ids>,
    /// In the order in which they began.
    pub(super) exchanges: Vec<Recorded>,
    pub(super) is_cut: bool,
}

pub(super) fn read(path: &Path, is_noise: fn(&str) -> bool) -> Result<Tape, ReplayError> {
    let bytes = std::fs::read(path).map_err(|source| ReplayError::Unreadable { path: path.to_owned(), source })?;
    match resembles(&bytes) {
        Resembles::Recording => {}
        Resembles::Export => return Err(ReplayError::Export { path: path.to_owned() }),
        Resembles::OpenCode => return Err(ReplayError::OpenCode { path: path.to_owned() }),
        Resembles::Nothing => return Err(ReplayError::NoRecording { path: path.to_owned() }),
    }
    let damaged = |line: usize, why: String| ReplayError::Damaged { path: path.to_owned(), line: line + 1, why };
    let mut reading = Reading { is_noise, ..Reading::default() };
    let mut torn: Option<(usize, String)> = None;
    for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.is_empty()) {
        match (serde_json::from_slice::<Line>(line), torn.take()) {
            (Ok(Line::PosseRecording(opening)), _) if FORMAT < opening.format => return Err(ReplayError::Newer { path: path.to_owned() }),
            // Whoever went on with the file found its last line cut off.
            (Ok(line @ Line::PosseRecording(_)), _) | (Ok(line), None) => reading.take(line).map_err(|why| damaged(number, why))?,
            (_, Some((torn, why))) => return Err(damaged(torn, why)),
            (Err(error), None) => torn = Some((number, error.to_string())),
        }
    }
    let mut tape = reading.tape;
    tape.is_cut = torn.is_some();
    tape.exchanges.sort_by_key(|recorded| (recorded.part, recorded.exchange.began.place));
    Ok(tape)
}

struct Reading {
    tape: Tape,
    /// The numbers of the part that is being read.
    messages: HashMap<u64, usize>,
    exchanges: HashMap<u64, (Option<usize>, (usize, usize))>,
    is_noise: fn(&str) -> bool,
}

impl Default for Reading {
    fn default() -> Self {
        Self { tape: Tape::default(), messages: HashMap::new(), exchanges: HashMap::new(), is_noise: |_| false }
    }
}

impl Reading {
    fn take(&mut self, line: Line) -> Result<(), String> {
        match line {
            Line::PosseRecording(opening) => {
                self.tape.parts.push(Reader::new(&opening.places));
                (self.messages, self.exchanges) = (HashMap::new(), HashMap::new());
            }
            Line::Model { facts } if self.tape.models.iter().any(|known| known.name == facts.name) => {}
            Line::Model { facts } => self.tape.models.push(facts),
            Line::Named { name, model } => drop(self.tape.names.insert(name, model)),
            Line::Message { id, message } => {
                self.messages.insert(id, self.tape.messages.len());
                self.tape.messages.push(message);
            }
            Line::Exchange(exchange) => self.exchange(*exchange)?,
            Line::Head { .. } | Line::Unknown => {}
        }
        Ok(())
    }

    fn exchange(&mut self, mut exchange: Exchange) -> Result<(), String> {
        let part = self.tape.parts.len().saturating_sub(1);
        let (mut last, ids) = match exchange.follows {
            None => (None, self.ids_after(None)),
            Some(number) => {
                let followed = self.exchanges.get(&number).copied();
                let (last, ids) = followed.ok_or_else(|| format!("exchange {number}, which this one follows, is not in the file"))?;
                (last, self.ids_after(Some(ids)))
            }
        };
        for number in std::mem::take(&mut exchange.messages) {
            let message = *self.messages.get(&number).ok_or_else(|| format!("message {number} is not in the file"))?;
            let tape = &mut self.tape;
            let words = worded(&tape.messages[message], &tape.parts[part], &mut tape.ids[ids], self.is_noise);
            let before = last.map(|last: usize| &tape.links[last]);
            let trace = follow(before.map(|link| link.trace).unwrap_or_default(), &words);
            let is_answer = tape.messages[message].role == Role::Assistant;
            let link = Link {
                before: last,
                message,
                trace,
                first: before.map_or(trace, |link| link.first),
                length: before.map_or(0, |link| link.length) + 1,
                steps: before.map_or(0, |link| link.steps) + usize::from(is_answer),
            };
            last = Some(tape.links.len());
            tape.links.push(link);
        }
        let ids = (ids, self.tape.ids[ids].seen.len());
        self.exchanges.insert(exchange.number, (last, ids));
        self.tape.exchanges.push(Recorded { exchange, part, last, ids });
        Ok(())
    }

    /// The list of ids to go on with: the same one, unless another conversation has gone on with it already.
    fn ids_after(&mut self, followed: Option<(usize, usize)>) -> usize {
        let lists = &mut self.tape.ids;
        match followed {
            Some((list, count)) if lists[list].seen.len() == count => list,
            Some((list, count)) => {
                let fork = lists[list].first(count);
                lists.push(fork);
                lists.len() - 1
            }
            None => {
                lists.push(Ids::default());
                lists.len() - 1
            }
        }
    }
}

/// Answers of which somebody heard later than it asked next: word of them was still on its way. By exchange, the place of the
/// last request that was made without that word; a replay must not be quicker.
pub(super) fn heard_late(tape: &Tape) -> HashMap<usize, u64> {
    let mut talks: HashMap<(usize, &str), Vec<usize>> = HashMap::new();
    for (number, recorded) in tape.exchanges.iter().enumerate() {
        talks.entry((recorded.part, recorded.exchange.session.as_str())).or_default().push(number);
    }
    let began = |number: usize| tape.exchanges[number].exchange.began.place;
    let mut late = HashMap::new();
    for ((part, session), own) in &talks {
        // Where others speak of this conversation, as each of them first asks about it.
        let others = talks.iter().filter(|((other_part, other), _)| other_part == part && other != session);
        let heard: Vec<(&Vec<usize>, Vec<usize>)> = others
            .map(|(_, asked)| {
                let mentions = asked.iter().enumerate().filter(|(at, number)| {
                    let before = at.checked_sub(1).and_then(|before| tape.exchanges[asked[before]].last);
                    tape.is_new_in(&tape.exchanges[**number], before, session)
                });
                (asked, mentions.map(|(_, number)| *number).collect())
            })
            .collect();
        for (at, number) in own.iter().enumerate().filter(|(_, number)| tape.exchanges[**number].is_last_word()) {
            let end = tape.exchanges[*number].exchange.ended.place;
            let until = own.get(at + 1).map_or(u64::MAX, |next| began(*next));
            let told = |mentions: &[usize]| mentions.iter().map(|number| began(*number)).find(|place| end < *place && *place < until);
            // Whoever hears of it first must not wait for those who hear of it later.
            let Some(first) = heard.iter().filter_map(|(_, mentions)| told(mentions)).min() else { continue };
            let unaware = heard.iter().filter_map(|(asked, mentions)| {
                let until = told(mentions)?.min(first);
                asked.iter().map(|number| began(*number)).filter(|place| end < *place && *place < until).max()
            });
            if let Some(place) = unaware.max() {
                late.insert(*number, place);
            }
        }
    }
    late
}

impl Recorded {
    /// An answer after which nothing more is asked by itself.
    fn is_last_word(&self) -> bool {
        matches!(&self.exchange.came, Came::Reply(reply) if !reply.parts.iter().any(|part| matches!(part, ReplyPart::Call { .. })))
    }
}

impl Tape {
    /// Whether what a request adds to the one before it speaks of this session.
    fn is_new_in(&self, recorded: &Recorded, before: Option<usize>, session: &str) -> bool {
        let mut link = recorded.last;
        while let Some(at) = link.filter(|at| Some(*at) != before) {
            let message = &self.messages[self.links[at].message];
            let speaks = |block: &Block| match block {
                Block::Text { text } | Block::Result { text, .. } => text.contains(session),
                _ => false,
            };
            if message.role == Role::User && message.blocks.iter().any(speaks) {
                return true;
            }
            link = self.links[at].before;
        }
        false
    }
}

/// The trace after one more message.
pub(super) fn follow(trace: Trace, words: &str) -> Trace {
    let half = |salt: u8, before: u64| {
        let mut hasher = DefaultHasher::new();
        (salt, before, words).hash(&mut hasher);
        hasher.finish()
    };
    (half(0, trace.0), half(1, trace.1))
}

/// A message as any run would have it. Texts of one message that came at once may stand in any order: word of two tasks.
pub(super) fn worded(message: &Message, reader: &Reader, ids: &mut Ids, is_noise: fn(&str) -> bool) -> String {
    let (mut blocks, mut texts) = (Vec::new(), Vec::new());
    for block in &message.blocks {
        match block {
            Block::Text { text } if is_noise(text) => {}
            Block::Text { text } if message.role == Role::User => texts.push(reader.alike(text, ids)),
            Block::Text { text } => blocks.push(reader.alike(text, ids)),
            Block::Reasoning { text, .. } => blocks.push(format!("(thought) {}", reader.alike(text, ids))),
            Block::Image { mime, data } => blocks.push(format!("({mime}, {} bytes) {data}", data.len())),
            Block::Call { id, tool, input } => {
                let id = reader.alike(id, ids);
                blocks.push(format!("(call {id} of {tool}) {}", canonical(input, &mut |text| reader.alike(text, ids))));
            }
            Block::Result { id, text, error, images, .. } => {
                let kind = if *error { "error" } else { "result" };
                blocks.push(format!("({kind} of {}) {}", reader.alike(id, ids), reader.alike(text, ids)));
                blocks.extend(images.iter().map(|(mime, data)| format!("({mime}) {data}")));
            }
            // What only its provider understands.
            Block::Opaque { .. } => {}
        }
    }
    texts.sort_unstable();
    let speaker = if message.role == Role::User { "user:" } else { "model:" };
    blocks.iter().chain(&texts).fold(speaker.to_owned(), |words, block| format!("{words} {block}\n"))
}

/// A call's input with every text in it rewritten; as text where it is no JSON.
pub(super) fn canonical(input: &str, rewrite: &mut dyn FnMut(&str) -> String) -> String {
    match serde_json::from_str::<Value>(input) {
        Ok(mut value) => {
            rewrite_texts(&mut value, rewrite);
            value.to_string()
        }
        Err(_) => rewrite(input),
    }
}
