//! One replacement in a text: where it goes, what comes of it, and words for a model whose passage is not there.
//!
//! Pure but for the clocks of the searches (`matching.rs`). Shared by edit and multi_edit, which know the file.

use serde_json::Value;

use super::matching::{How, closest, find, line_of};
use crate::{
    arguments::{Arguments, Parameter},
    text::visible,
};

const OLD_STRING: Parameter = Parameter::new("oldString", &["oldStr", "oldText", "old", "search"]);
const NEW_STRING: Parameter = Parameter::new("newString", &["newStr", "newText", "new", "replace", "replacement"]);
const REPLACE_ALL: Parameter = Parameter::new("replaceAll", &["all"]);

/// No edit makes a file larger than this: a short passage in a large file, replaced everywhere by a long one.
const RESULT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Places named when a passage is not unique.
const PLACES_MAX: usize = 10;
/// A shorter newString stands in a file by chance.
const NOTICED_LETTERS_MIN: usize = 12;
/// Lines shown of a place: enough to recognise it.
const SHOWN_LINES_MAX: usize = 12;
const SHOWN_LINES_AROUND: usize = 2;
const SHOWN_LINE_CHARS_MAX: usize = 200;

pub(crate) struct Replacement {
    pub(crate) old: String,
    pub(crate) new: String,
    pub(crate) all: bool,
}

/// A replacement that was made in memory.
pub(crate) struct Changed {
    pub(crate) after: String,
    pub(crate) places: usize,
    /// The first line that changed, from 1.
    line: usize,
    /// How many lines stand there now.
    lines: usize,
    /// How the passage was found, and the lines it was found at when that was not exactly.
    how: How,
    stood: String,
}

impl Replacement {
    pub(crate) fn of(tool: &'static str, input: &Value) -> Result<Self, String> {
        let arguments = Arguments::new(tool, input)?;
        let old = arguments.text(OLD_STRING)?.to_owned();
        let new = arguments.text(NEW_STRING)?.to_owned();
        if old == new {
            return Err(format!("{tool}: oldString and newString are the same, so there is nothing to change."));
        }
        Ok(Self { old, new, all: arguments.flag(REPLACE_ALL)? })
    }

    /// The text with this replacement; an error is for the model. `name` is the file's.
    pub(crate) fn made(&self, name: &str, before: &str) -> Result<Changed, String> {
        if self.old.is_empty() {
            return Err(format!("{name} exists, so oldString must not be empty. To replace the whole file use write."));
        }
        let Some(found) = find(before, &self.old, &self.new) else { return Err(self.not_found(name, before)) };
        if !self.all && found.is_ambiguous() {
            let starts: Vec<usize> = found.all_starts().take(PLACES_MAX + 1).collect();
            let lines: Vec<String> = starts.iter().take(PLACES_MAX).map(|start| line_of(before, *start).to_string()).collect();
            let more = if PLACES_MAX < starts.len() { ", …" } else { "" };
            let count = found.count.max(starts.len().min(PLACES_MAX));
            let how = match found.how {
                How::Exactly => "",
                How::WithoutTrailingBlanks => " if blanks at the ends of lines do not count",
                How::WithoutIndentation => " if indentation does not count",
            };
            return Err(format!(
                "oldString stands at {count} places in {name}{how} (lines {}{more}), so it is unclear which one is meant. \
                 Add lines around it until it is unique, or set replaceAll.",
                lines.join(", ")
            ));
        }
        let (after, lines) = found.replaced(RESULT_BYTES_MAX).map_err(|bytes| {
            format!("With this change {name} would have {bytes} bytes or more; at most {RESULT_BYTES_MAX} are written, so nothing was.")
        })?;
        if after == before {
            return Err(format!("The change leaves {name} as it is, so nothing was written."));
        }
        let first = found.places().next().unwrap_or_default();
        let line = line_of(before, first.start);
        let stood = if found.how == How::Exactly { String::new() } else { shown(before, line, before[first].lines().count(), 0) };
        Ok(Changed { after, how: found.how, places: found.count, line, lines, stood })
    }

    fn not_found(&self, name: &str, before: &str) -> String {
        let mut words = format!("oldString was not found in {name}.");
        let numbered = |line: &str| {
            line.trim_start()
                .split_once('|')
                .is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
        };
        if self.old.lines().all(numbered) {
            words.push_str(" It begins with line numbers; leave out `number|`, which is not in the file.");
        } else if NOTICED_LETTERS_MIN <= self.new.trim().len() && before.contains(&self.new) {
            words.push_str(" newString is already there; the change may have been made before.");
        }
        match closest(before, &self.old) {
            Some(place) => words
                .push_str(&format!(" The closest place is:\n{place}\nUse the text exactly as it stands there, or read the file again.")),
            None => words.push_str(" Nothing in it looks similar; read the file again."),
        }
        words
    }
}

impl Changed {
    /// A file that was not there.
    pub(crate) fn created(text: &str) -> Self {
        Self { after: text.to_owned(), places: 0, line: 1, lines: 0, how: How::Exactly, stood: String::new() }
    }

    /// Where the change landed, and what was forgiven: `at line 3`.
    pub(crate) fn place(&self) -> String {
        let forgiven = match self.how {
            How::Exactly => "",
            How::WithoutTrailingBlanks => " (oldString matched except for blanks at the ends of lines)",
            How::WithoutIndentation => " (oldString matched except for indentation; newString was moved to the indentation of the file)",
        };
        match self.places {
            1 => format!("at line {}{forgiven}", self.line),
            places => format!("at {places} places, the first at line {}{forgiven}", self.line),
        }
    }

    /// The lines as they stood, where the passage was not exactly theirs, and as they are now.
    pub(crate) fn shown(&self) -> String {
        let now = shown(&self.after, self.line, self.lines, SHOWN_LINES_AROUND);
        if self.stood.is_empty() { now } else { format!("It stood there as:\n{}\nNow:\n{now}", self.stood) }
    }
}

fn shown(text: &str, line: usize, lines: usize, around: usize) -> String {
    let from = line.saturating_sub(1 + around);
    let wanted = (lines + 2 * around).min(SHOWN_LINES_MAX);
    let shown = text.lines().enumerate().skip(from).take(wanted);
    shown
        .map(|(at, line)| {
            let cut: String = line.chars().take(SHOWN_LINE_CHARS_MAX).collect();
            format!("{}|{}", at + 1, visible(&cut))
        })
        .collect::<Vec<_>>()
        .join("\n")
}
