//! A look over text that could not be parsed: does a command that a rule denies stand in it?
//!
//! Splits without knowing the grammar, so it finds too much rather than too little. Only ever makes a verdict stricter.

use posse_session::{Rule, Verdict, wildcard};

use super::{
    judging::is_catch_all,
    word::ansi_c,
    wrappers::{basename, is_wrapper},
};

/// Words of one candidate that are compared; a pattern is never longer.
const WORDS_MAX: usize = 24;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Where {
    /// Where a command may begin.
    Commands,
    /// At every word.
    Anywhere,
}

/// The deny (else the ask) that matches some stretch of the text.
pub(super) fn strictest<'a>(text: &str, rules: &[&'a Rule], place: Where) -> Option<(&'a Rule, String)> {
    let named: Vec<(usize, &Rule)> =
        rules.iter().copied().enumerate().filter(|(_, rule)| rule.action == Verdict::Deny && !is_catch_all(&rule.pattern)).collect();
    if named.is_empty() {
        return None;
    }
    // An escaped backslash before a newline continues nothing; both readings are searched.
    let text = &decoded(text).replace(">&", ">").replace("&>", ">").replace("<&", "<");
    let joined = text.replace("\\\r\n", "").replace("\\\n", "");
    // Most texts do not even hold the letters of a denied name.
    let letters = bare(&joined).to_lowercase();
    let first = |rule: &Rule| rule.pattern.split(' ').next().unwrap_or_default().to_lowercase();
    if !named.iter().map(|(_, rule)| first(rule)).any(|first| first.contains(['*', '?']) || letters.contains(first.as_str())) {
        return None;
    }
    // What begins with a star is about the whole text, however long it is.
    let plain = bare(&joined);
    let anywhere = named.iter().rev().find(|(_, rule)| rule.pattern.starts_with('*') && wildcard(&plain, &rule.pattern));
    if let Some((index, rule)) = anywhere
        && !rules[index + 1..].iter().any(|later| wildcard(&plain, &later.pattern))
    {
        return Some((*rule, plain));
    }
    search(&joined, rules, &named, place).or_else(|| if joined == *text { None } else { search(text, rules, &named, place) })
}

fn search<'a>(joined: &str, rules: &[&'a Rule], named: &[(usize, &'a Rule)], place: Where) -> Option<(&'a Rule, String)> {
    let splits = |letter: char| {
        matches!(letter, ';' | '|' | '&' | '(' | ')' | '\n' | '\r' | '`' | '{' | '}' | ',')
            || (place == Where::Anywhere && matches!(letter, '\'' | '"'))
    };
    for (segment, quoted) in joined.split(splits).map(|segment| (segment, false)).chain(quoted_segments(joined)) {
        let spaced = segment.replace(['<', '>'], " > ");
        let words: Vec<String> = spaced.split_ascii_whitespace().map(bare).filter(|word| !word.is_empty()).collect();
        let mut wrapped = quoted;
        let mut at_command = true;
        for (at, word) in words.iter().enumerate() {
            if at_command || wrapped || place == Where::Anywhere {
                let end = words.len().min(at + WORDS_MAX);
                if let Some(found) = denied(&words[at..end], rules, named) {
                    return Some(found);
                }
            }
            wrapped |= place == Where::Commands && (word == "-c" || is_wrapper(basename(word)));
            // A redirection may stand first: its target is no command, what follows is.
            let target = word == ">" || (0 < at && words[at - 1] == ">");
            at_command = at_command && (target || is_assignment(word) || is_keyword(word));
        }
    }
    None
}

/// Words right after an opening quote: scripts are often quoted.
fn quoted_segments(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let script = text.contains("-c") || text.contains("eval") || text.contains("trap");
    text.split(['\'', '"']).skip(1).filter(move |_| script).map(|segment| (segment, false))
}

fn denied<'a>(words: &[String], rules: &[&'a Rule], named: &[(usize, &'a Rule)]) -> Option<(&'a Rule, String)> {
    let name = basename(words.first()?);
    let first = |rule: &&(usize, &Rule)| could_begin(&rule.1.pattern, name, words);
    if !named.iter().any(|rule| first(&rule)) {
        return None;
    }
    let name = name.to_lowercase();
    let spelled = words.join(" ");
    let folded = std::iter::once(name.clone()).chain(words[1..].iter().cloned()).collect::<Vec<_>>().join(" ");
    let matches = |rule: &Rule| {
        wildcard(&spelled, &rule.pattern) || wildcard(&folded, &rule.pattern) || wildcard(&folded, &rule.pattern.to_lowercase())
    };
    let (index, rule) = named.iter().rev().find(|rule| first(rule) && matches(rule.1))?;
    // A later rule that allows the same words was meant to win.
    let overruled = rules[index + 1..].iter().any(|rule| wildcard(&spelled, &rule.pattern));
    (!overruled).then_some((*rule, spelled))
}

/// A cheap look at the words before the first wildcard, so that most places cost nothing.
fn could_begin(pattern: &str, name: &str, words: &[String]) -> bool {
    for (at, wanted) in pattern.split(' ').enumerate() {
        let given = if at == 0 { name } else { words.get(at).map_or("", String::as_str) };
        match wanted.find(['*', '?']) {
            Some(wildcard) => {
                return given.is_empty() || given.get(..wildcard).is_some_and(|start| start.eq_ignore_ascii_case(&wanted[..wildcard]));
            }
            None if !given.eq_ignore_ascii_case(wanted) && given.to_lowercase() != wanted.to_lowercase() => return false,
            None => {}
        }
    }
    true
}

/// With every `$'...'` as its text.
fn decoded(text: &str) -> String {
    let mut parts = text.split("$'");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('\'') {
            Some((inside, rest)) if inside.len() < 64 => plain = plain + &ansi_c(inside) + rest,
            _ => plain = plain + "'" + part,
        }
    }
    plain
}

/// Without quotes and backslashes; a variable may be empty.
fn bare(word: &str) -> String {
    let mut text = String::with_capacity(word.len());
    let mut letters = word.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' | '"' | '\\' => {}
            '$' => {
                if letters.next_if(|next| !next.is_ascii_alphabetic() && *next != '_').is_none() {
                    while letters.next_if(|next| next.is_ascii_alphanumeric() || *next == '_').is_some() {}
                }
            }
            _ => text.push(letter),
        }
    }
    text
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
}

fn is_keyword(word: &str) -> bool {
    matches!(word, "if" | "then" | "else" | "elif" | "do" | "while" | "until" | "!" | "time" | "coproc" | "in" | "-p" | "--")
        || word.bytes().all(|byte| byte.is_ascii_digit())
}
