//! Brace expansion, which bash does before anything else: `{rm,-rf,x}` is three words and runs `rm`.
//!
//! Works on the source of a word, so that quoted braces stay text. What is too large to expand is no word at all.

/// More words than anybody writes with braces.
const WORDS_MAX: usize = 256;

/// Text gone over while expanding, beyond the source itself.
const BYTES_MAX: usize = 32 * 1024;

/// The words a source word stands for; nothing when there are too many.
pub(super) fn expand(source: &str) -> Option<Vec<String>> {
    if !source.contains('{') || !source.contains('}') {
        return Some(vec![source.to_owned()]);
    }
    let mut done = Vec::new();
    let mut waiting = vec![source.to_owned()];
    let mut seen = 0;
    while let Some(next) = waiting.pop() {
        seen += next.len();
        if WORDS_MAX < waiting.len() + done.len() || source.len() + BYTES_MAX < seen {
            return None;
        }
        match first_group(&next) {
            None => done.push(next),
            Some((start, end, parts)) => {
                let parts = parts?;
                waiting.extend(parts.iter().rev().map(|part| format!("{}{part}{}", &next[..start], &next[end..])));
            }
        }
    }
    Some(done)
}

/// Byte range of the first group that expands, and its members; `None` inside when they are too many.
fn first_group(source: &str) -> Option<(usize, usize, Option<Vec<String>>)> {
    let bytes = source.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'{' {
            if let Some((end, commas)) = group_end(bytes, at) {
                let inside = &source[at + 1..end];
                if !commas.is_empty() {
                    let mut parts = Vec::new();
                    let mut from = at + 1;
                    for comma in commas {
                        parts.push(source[from..comma].to_owned());
                        from = comma + 1;
                    }
                    parts.push(source[from..end].to_owned());
                    return Some((at, end + 1, Some(parts)));
                }
                if inside.contains("..")
                    && let Some(range) = sequence(inside)
                {
                    return Some((at, end + 1, range));
                }
            }
            at += 1;
        } else {
            at = skip(bytes, at);
        }
    }
    None
}

/// The matching brace and the commas of this level.
fn group_end(bytes: &[u8], start: usize) -> Option<(usize, Vec<usize>)> {
    let mut commas = Vec::new();
    let mut depth = 0;
    let mut at = start;
    while at < bytes.len() {
        match bytes[at] {
            b'{' => depth += 1,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    return Some((at, commas));
                }
            }
            b',' if depth == 1 => commas.push(at),
            _ => {
                at = skip(bytes, at);
                continue;
            }
        }
        at += 1;
    }
    None
}

/// Past one character, quoted stretch or expansion.
fn skip(bytes: &[u8], at: usize) -> usize {
    let find = |from: usize, wanted: u8| {
        bytes.get(from..).and_then(|rest| rest.iter().position(|byte| *byte == wanted)).map(|found| from + found + 1)
    };
    match bytes[at] {
        b'\\' => at + 2,
        b'\'' => find(at + 1, b'\'').unwrap_or(bytes.len()),
        b'`' => find(at + 1, b'`').unwrap_or(bytes.len()),
        b'"' => {
            let mut end = at + 1;
            while end < bytes.len() && bytes[end] != b'"' {
                end += if bytes[end] == b'\\' { 2 } else { 1 };
            }
            end + 1
        }
        b'$' if matches!(bytes.get(at + 1), Some(b'(' | b'{')) => {
            let (open, close) = if bytes[at + 1] == b'(' { (b'(', b')') } else { (b'{', b'}') };
            let mut depth = 0;
            let mut end = at + 1;
            while end < bytes.len() {
                if bytes[end] == open {
                    depth += 1;
                } else if bytes[end] == close {
                    depth -= 1;
                    if depth == 0 {
                        return end + 1;
                    }
                }
                end += 1;
            }
            end
        }
        _ => at + 1,
    }
}

/// `a..c`, `1..9`, `1..9..2`; `Some(None)` when it is one but too long.
fn sequence(inside: &str) -> Option<Option<Vec<String>>> {
    let parts: Vec<&str> = inside.split("..").collect();
    if !matches!(parts.len(), 2 | 3) {
        return None;
    }
    let one = |text: &str| {
        let mut letters = text.chars();
        letters.next().filter(|letter| letters.next().is_none() && letter.is_ascii_alphabetic())
    };
    let values: Vec<String> = if let (Some(from), Some(to)) = (one(parts[0]), one(parts[1])) {
        let (low, high) = (from.min(to), from.max(to));
        (low..=high).map(String::from).collect()
    } else {
        let number = |text: &str| text.strip_prefix('+').unwrap_or(text).parse::<i64>().ok();
        if parts[..2].iter().any(|part| part.is_empty() || !part.trim_start_matches(['-', '+']).bytes().all(|byte| byte.is_ascii_digit())) {
            return None;
        }
        let (Some(from), Some(to)) = (number(parts[0]), number(parts[1])) else { return Some(None) };
        let (low, high) = (from.min(to), from.max(to));
        if WORDS_MAX as i64 <= high.saturating_sub(low) {
            return Some(None);
        }
        (low..=high).map(|value| value.to_string()).collect()
    };
    Some(Some(values))
}
