//! Where a value was written, and what is wrong with what was written there.
//!
//! The words of a problem are for people and name the key and the kind of value found, never the value: it may be a secret.

use std::{fmt, sync::Arc};

use crate::tree::Node;

/// A file and a line of it. Line 0 is a place without lines: `built-in`, `--model`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub source: Arc<str>,
    pub line: u32,
}

impl Origin {
    pub fn new(source: &str, line: u32) -> Self {
        Self { source: source.into(), line }
    }

    pub fn built_in() -> Self {
        Self::new(crate::built_in::NAME, 0)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(out, "{}", self.source),
            line => write!(out, "{}:{line}", self.source),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Sourced<T> {
    pub value: T,
    pub origin: Origin,
}

/// `posse.json:2: model: expected a string, found a number`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub origin: Origin,
    /// The path of the key, `limits.depth`; empty when the file as a whole is meant.
    pub key: String,
    pub words: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.as_str() {
            "" => write!(out, "{}: {}", self.origin, self.words),
            key => write!(out, "{}: {key}: {}", self.origin, self.words),
        }
    }
}

/// Something a project wrote and that does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ignored {
    pub file: String,
    pub key: String,
    /// No trust makes it count.
    pub never: bool,
    /// A link out of the project, or one thing too many: trust in it cannot be kept, only given each time.
    pub unvouched: bool,
}

/// A key of a file that trust would make count, and what it says: trust is bound to it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Said {
    pub(crate) key: String,
    pub(crate) value: String,
}

/// Everything that came up while reading one file.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) errors: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
    pub(crate) ignored: Vec<Ignored>,
    /// Of a folder that is not trusted: everything in `ignored` that trust would make count, and more that it is bound to.
    pub(crate) said: Vec<Said>,
}

/// A screen or two per file; a hostile file must not make us print a megabyte.
const FINDINGS_MAX: usize = 50;

impl Findings {
    pub(crate) fn error(&mut self, origin: &Origin, key: &str, words: impl Into<String>) {
        if self.errors.len() < FINDINGS_MAX {
            self.errors.push(Problem { origin: origin.clone(), key: plain(key), words: words.into() });
        }
    }

    pub(crate) fn warn(&mut self, origin: &Origin, key: &str, words: impl Into<String>) {
        if self.has_room() {
            self.warnings.push(Problem { origin: origin.clone(), key: plain(key), words: words.into() });
        }
    }

    /// Whether another warning would be kept, so that nobody looks for words that are thrown away.
    pub(crate) fn has_room(&self) -> bool {
        self.warnings.len() < FINDINGS_MAX
    }

    /// Leaves something out because its folder is not trusted.
    pub(crate) fn ignore(&mut self, file: &str, key: &str, node: &Node) {
        self.say(key, node);
        self.name(file, key, false);
    }

    /// Leaves something out that no folder may say, trusted or not.
    pub(crate) fn never(&mut self, file: &str, key: &str) {
        self.name(file, key, true);
    }

    /// Binds trust to a value, whether it is named or not.
    pub(crate) fn say(&mut self, key: &str, node: &Node) {
        self.said.push(Said { key: key.to_owned(), value: node.to_json().to_string() });
    }

    pub(crate) fn name(&mut self, file: &str, key: &str, never: bool) {
        let ignored = Ignored { file: file.to_owned(), key: plain(key), never, unvouched: false };
        if self.ignored.len() < FINDINGS_MAX && !self.ignored.contains(&ignored) {
            self.ignored.push(ignored);
        }
    }
}

/// A name that is longer is not a name; the rest is left off.
const NAME_CHARS_MAX: usize = 120;

/// A name from a file, safe to print on a terminal.
pub(crate) fn plain(name: &str) -> String {
    name.chars().take(NAME_CHARS_MAX).map(|letter| if letter.is_control() || is_hidden(letter) { '\u{fffd}' } else { letter }).collect()
}

/// Marks that nobody sees and that turn a line around or hide what is in it.
fn is_hidden(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_reads_like_a_compiler_message() {
        let problem =
            |line, key: &str| Problem { origin: Origin::new("posse.json", line), key: key.into(), words: "expected a string".into() };
        assert_eq!(problem(2, "model").to_string(), "posse.json:2: model: expected a string");
        assert_eq!(problem(0, "").to_string(), "posse.json: expected a string");
    }

    #[test]
    fn names_are_safe_to_print_and_findings_are_bounded() {
        assert_eq!(plain("a\u{1b}[31m\nb"), "a\u{fffd}[31m\u{fffd}b");
        assert_eq!(plain("a\u{202e}b\u{200b}c\u{e0041}ż"), "a\u{fffd}b\u{fffd}c\u{fffd}ż");
        let mut findings = Findings::default();
        for number in 0..1000 {
            findings.warn(&Origin::new("x", 1), &number.to_string(), "w");
            findings.error(&Origin::new("x", 1), "k", "e");
            findings.never("x", "same");
        }
        assert_eq!((findings.warnings.len(), findings.errors.len(), findings.ignored.len()), (FINDINGS_MAX, FINDINGS_MAX, 1));
    }
}
