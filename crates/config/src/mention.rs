//! `@name` in what the user typed: a file, an agent, or just words.
//!
//! Only the letters are looked at here; whether something exists is asked of the caller. A file counts before an agent,
//! and what is neither stays as it was typed.

use std::path::{Path, PathBuf};

use crate::places::{Places, tidy};

/// Something that a prompt names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// Where the `@` stands, in bytes.
    pub at: usize,
    /// With the `@`, in bytes.
    pub len: usize,
    pub what: Mentioned,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mentioned {
    File {
        /// As written, without the lines.
        path: String,
        /// `#10-20`: first and last, counted from 1.
        lines: Option<(u32, u32)>,
    },
    Agent {
        /// As the agent is called, however it was written.
        name: String,
    },
}

/// Who and what exists, asked by name.
pub type Exists<'a> = dyn Fn(&str) -> bool + 'a;
pub type IsAgent<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// The files and agents that a text names, each once, in the order of the text.
pub fn mentions(text: &str, exists: &Exists<'_>, is_agent: &IsAgent<'_>) -> Vec<Mention> {
    let mut mentions: Vec<Mention> = Vec::new();
    let mut at = 0;
    while let Some(found) = text[at..].find('@') {
        at += found;
        let step = spot(text, at).and_then(|spot| named(&spot, exists, is_agent));
        let Some((len, what)) = step else {
            at += 1;
            continue;
        };
        if !mentions.iter().any(|known| known.what == what) {
            mentions.push(Mention { at, len, what });
        }
        at += len;
    }
    mentions
}

/// What one name means; `None` is just words. For `@path` of a template, without the `@`.
pub fn mentioned(name: &str, exists: &Exists<'_>, is_agent: &IsAgent<'_>) -> Option<Mentioned> {
    file(name, exists).or_else(|| is_agent(name).map(|name| Mentioned::Agent { name }))
}

/// A prompt that starts with an agent's name is that agent's: the name, and what it is asked.
pub fn leading_agent(text: &str, exists: &Exists<'_>, is_agent: &IsAgent<'_>) -> Option<(String, String)> {
    let (name, rest) = text.trim_start().strip_prefix('@')?.split_once(char::is_whitespace)?;
    let rest = rest.trim();
    match mentioned(name, exists, is_agent)? {
        Mentioned::Agent { name } if !rest.is_empty() => Some((name, rest.to_owned())),
        _ => None,
    }
}

/// Where a path that somebody mentions leads, if anything is there: from the home, the working directory, the project.
pub fn existing(places: &Places, path: &str) -> Option<PathBuf> {
    if path.is_empty() {
        return None;
    }
    let candidates = match path.strip_prefix("~/") {
        Some(rest) => vec![places.home.join(rest)],
        None => vec![places.cwd.join(path), places.project.join(path)],
    };
    candidates.iter().map(|candidate: &PathBuf| tidy(Path::new(candidate))).find(|candidate| candidate.exists())
}

/// An `@` that may name something, and the longest name that it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot<'a> {
    /// Without trailing punctuation.
    pub(crate) name: &'a str,
    /// Of `@` and the name, with quotes if there are any.
    pub(crate) len: usize,
    /// With trailing punctuation, which a file's name may have.
    whole: &'a str,
    quoted: bool,
}

/// A longer name is no name.
const NAME_CHARS_MAX: usize = 512;

const PUNCTUATION: [char; 13] = ['.', ':', ';', '!', '?', ')', ']', '}', '>', '"', '\'', '*', '…'];

/// The name at an `@`, unless that stands in a word, in code, after another, or before nothing.
pub(crate) fn spot(text: &str, at: usize) -> Option<Spot<'_>> {
    let before = text[..at].chars().next_back();
    if before.is_some_and(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '`' | '@')) {
        return None;
    }
    let after = text[at..].strip_prefix('@')?;
    if let Some(inside) = after.strip_prefix('"') {
        let (end, letter) = inside.char_indices().take(NAME_CHARS_MAX).find(|(_, letter)| matches!(letter, '"' | '\n'))?;
        let name = &inside[..end];
        return (letter == '"' && !name.is_empty()).then_some(Spot { name, len: name.len() + 3, whole: name, quoted: true });
    }
    let ends = |letter: char| letter.is_whitespace() || matches!(letter, '`' | ',');
    let end = after.char_indices().take(NAME_CHARS_MAX + 1).find(|(_, letter)| ends(*letter)).map(|(end, _)| end);
    let whole = &after[..end.or((after.len() <= NAME_CHARS_MAX).then_some(after.len()))?];
    // A brace of `${NAME}` belongs to it.
    let name = if whole.ends_with('}') && whole.contains("${") { whole } else { whole.trim_end_matches(PUNCTUATION) };
    (!name.is_empty()).then_some(Spot { name, len: name.len() + 1, whole, quoted: false })
}

fn named(spot: &Spot<'_>, exists: &Exists<'_>, is_agent: &IsAgent<'_>) -> Option<(usize, Mentioned)> {
    if let Some(what) = file(spot.name, exists) {
        return Some((spot.len, what));
    }
    // A file may be called `what?`; the longest that exists is meant.
    let longer = spot.whole.char_indices().map(|(at, letter)| at + letter.len_utf8()).filter(|end| spot.name.len() < *end);
    let longest = longer.rev().find(|end| exists(&spot.whole[..*end])).filter(|_| !spot.quoted);
    if let Some(end) = longest {
        return Some((end + 1, Mentioned::File { path: spot.whole[..end].to_owned(), lines: None }));
    }
    is_agent(spot.name).map(|name| (spot.len, Mentioned::Agent { name }))
}

fn file(name: &str, exists: &Exists<'_>) -> Option<Mentioned> {
    if exists(name) {
        return Some(Mentioned::File { path: name.to_owned(), lines: None });
    }
    let (path, lines) = name.rsplit_once('#')?;
    let lines = line_range(lines)?;
    exists(path).then(|| Mentioned::File { path: path.to_owned(), lines: Some(lines) })
}

/// `10`, `10-20`, `L10-L20`.
fn line_range(text: &str) -> Option<(u32, u32)> {
    let number = |text: &str| text.strip_prefix('L').unwrap_or(text).parse::<u32>().ok().filter(|line| 0 < *line);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some((first, last))
}
