//! What a step heard in the recording, beside what waits for it here: word of tasks and shells that have ended, messages.
//!
//! When such words come is chance; what a conversation looks like after them is not. So a step takes what the recorded one
//! took, in that order, and waits for what is not there yet. Knows no order of answers (`order.rs`) and no clock; who waits,
//! and for how long, is in `replay.rs`.

use std::time::Instant;

use posse_session::{Block, Message, Role};

use super::alike::{Ids, Reader};

/// How the kernel marks what it adds itself. That comes with a step, or it does not come: nobody waits for it.
const REMINDER: &str = "<system-reminder>";

/// So many words say what a notice is about: `[task {ses 2}`, `[shell bash_1 exited`.
const SUBJECT_WORDS: usize = 3;

/// A step that waits, and what had happened when the waiting began.
pub(super) struct Wait {
    pub(super) moves: (u64, usize),
    pub(super) since: Instant,
}

/// What a step takes: numbers of what waits, in the order in which they were taken then.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    pub(super) takes: Vec<usize>,
    /// Whether something was taken then that does not wait here.
    pub(super) misses: bool,
}

/// What messages tell a conversation, as any run would have it.
pub(super) struct Said {
    pub(super) texts: Vec<String>,
    /// All that had come up before these texts.
    pub(super) ids: Ids,
}

impl Said {
    pub(super) fn of(messages: &[&Message], reader: &Reader, mut ids: Ids) -> Self {
        let is_told = |message: &Message, block: &Block| message.role == Role::User && matches!(block, Block::Text { .. });
        // Results name tasks that the notices are about, and stand before them.
        for message in messages {
            let rest = message.blocks.iter().filter(|block| !is_told(message, block)).cloned().collect();
            super::read::worded(&Message { role: message.role, blocks: rest }, reader, &mut ids, |_| false);
        }
        let told = messages.iter().flat_map(|message| message.blocks.iter().filter(|block| is_told(message, block)));
        let told: Vec<Block> = told.cloned().collect();
        let mut said = Self { texts: Vec::new(), ids };
        said.texts = said.read(&told, reader);
        said
    }

    /// The texts among these. Each for itself, so that their order does not matter.
    pub(super) fn read(&self, blocks: &[Block], reader: &Reader) -> Vec<String> {
        let text = |block: &Block| if let Block::Text { text } = block { Some(reader.alike(text, &mut self.ids.clone())) } else { None };
        blocks.iter().filter_map(text).collect()
    }
}

/// Which of `waiting` the recorded step had taken. `own` is what the step says in any case.
pub(super) fn compare(recorded: &[String], own: &[String], waiting: &[Vec<String>], is_noise: fn(&str) -> bool) -> Heard {
    // What each recorded text is here.
    let mut found: Vec<bool> = vec![false; recorded.len()];
    let mut find = |is: &dyn Fn(&str) -> bool| {
        let at = (0..recorded.len()).find(|at| !found[*at] && is(&recorded[*at]))?;
        found[at] = true;
        Some(at)
    };
    for text in own {
        find(&|then| then == text);
    }
    let mut places: Vec<Option<usize>> = vec![None; waiting.len()];
    let mut pair = |alike: &dyn Fn(&str, &str) -> bool| {
        for (place, texts) in places.iter_mut().zip(waiting) {
            let Some((first, more)) = texts.split_first().filter(|_| place.is_none()) else { continue };
            *place = find(&|then| alike(then, first));
            if place.is_some() {
                for text in more {
                    find(&|then| alike(then, text));
                }
            }
        }
    };
    pair(&|then, now| then == now);
    // The same notice with other words: nothing more is to come, the run differs here or is played loosely.
    pair(&|then, now| subject(then) == subject(now));
    let mut takes: Vec<usize> = (0..waiting.len()).filter(|at| places[*at].is_some() || waiting[*at].is_empty()).collect();
    takes.sort_by_key(|at| places[*at].unwrap_or(usize::MAX));
    let comes_by_itself = |text: &str| text.starts_with(REMINDER) || is_noise(text);
    let misses = recorded.iter().zip(&found).any(|(text, found)| !found && !comes_by_itself(text));
    Heard { takes, misses }
}

fn subject(text: &str) -> Vec<&str> {
    text.split_whitespace().take(SUBJECT_WORDS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "[task {ses 1} completed] dig\n\nfound seven";
    const TWO: &str = "[task {ses 2} completed] dig\n\nfound eight";
    const SHELL: &str = "[shell bash_1 exited with code 0] make";

    fn compared(recorded: &[&str], own: &[&str], waiting: &[&[&str]]) -> (Vec<usize>, bool) {
        let texts = |texts: &[&str]| texts.iter().map(|text| text.to_string()).collect::<Vec<String>>();
        let waiting: Vec<Vec<String>> = waiting.iter().map(|entry| texts(entry)).collect();
        let Heard { takes, misses } = compare(&texts(recorded), &texts(own), &waiting, |text| text == "noise");
        (takes, misses)
    }

    #[test]
    fn a_step_takes_what_it_took_in_that_order_and_misses_the_rest() {
        type Row<'a> = (&'a [&'a str], &'a [&'a str], &'a [&'a [&'a str]], (Vec<usize>, bool));
        let table: [Row<'_>; 12] = [
            (&[ONE], &[], &[&[ONE]], (vec![0], false)),
            (&[TWO, ONE], &[], &[&[ONE], &[TWO]], (vec![1, 0], false)),
            (&[ONE], &[], &[&[TWO], &[ONE]], (vec![1], false)),
            (&[ONE, TWO], &[], &[&[TWO]], (vec![0], true)),
            (&[], &[], &[&[TWO]], (vec![], false)),
            // What the step says itself, what the kernel adds, and what differs anyway is waited for by nobody.
            (&["Go on."], &["Go on."], &[&[TWO]], (vec![], false)),
            (&["<system-reminder>\nx", "noise"], &[], &[], (vec![], false)),
            // The same twice is two.
            (&[SHELL, SHELL], &[], &[&[SHELL]], (vec![0], true)),
            (&[SHELL], &[], &[&[SHELL], &[SHELL]], (vec![0], false)),
            // With other words it is still the notice that was heard, but not before one with the same.
            (&["[shell bash_1 exited with code 1] make"], &[], &[&[SHELL]], (vec![0], false)),
            (&[ONE], &[], &[&["[task {ses 1} completed] dig again"], &[ONE]], (vec![1], false)),
            // An entry of several texts is one.
            (&["look at this", "a file"], &[], &[&["look at this", "a file"]], (vec![0], false)),
        ];
        for (recorded, own, waiting, expected) in table {
            assert_eq!(compared(recorded, own, waiting), expected, "{recorded:?} {own:?} {waiting:?}");
        }
    }

    #[test]
    fn results_name_what_notices_are_about() {
        let reader = Reader::default();
        let result =
            |text: &str| Block::Result { id: "1".into(), tool: "agent".into(), text: text.into(), error: false, images: Vec::new() };
        let (one, two) = ("ses_01JDZZZZZZZZZZZZZZZZZZZZZZ", "ses_01JDYYYYYYYYYYYYYYYYYYYYYY");
        let results = [result(one), result(two)];
        let notice = |id: &str| Block::Text { text: format!("[task {id} completed]") };
        let mut blocks = results.to_vec();
        blocks.push(notice(two));
        let said = Said::of(&[&Message { role: Role::User, blocks }], &reader, Ids::default());
        assert_eq!(said.texts, ["[task {ses 2} completed]"]);
        assert_eq!(said.read(&[notice(two), notice(one)], &reader), ["[task {ses 2} completed]", "[task {ses 1} completed]"]);
    }
}
