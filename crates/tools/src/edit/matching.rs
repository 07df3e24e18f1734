//! Where in a text an old passage stands, and what exactly replaces it.
//!
//! Exact first, also with the other kind of line ends; then line by line without trailing blanks; then without indentation
//! too, with the new text moved to the indentation that is there. Pure: texts in, byte ranges or a complaint out.

use std::ops::Range;

/// Shorter passages match anywhere once their blanks do not count.
const TOLERANT_LETTERS_MIN: usize = 8;
/// Bounds of the search for the closest place: enough for any source file.
const COMPARED_LINES_MAX: usize = 20_000;
const COMPARED_PASSAGE_MAX: usize = 50;
/// Shown of the closest place.
const CLOSEST_LINES_MAX: usize = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Exactly,
    WithoutTrailingBlanks,
    WithoutIndentation,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) range: Range<usize>,
    pub(super) replacement: String,
}

/// Every place where `old` stands, by the strictest way that finds any.
pub(super) fn find(text: &str, old: &str, new: &str) -> Option<(How, Vec<Spot>)> {
    for (old, new) in line_end_variants(text, old, new) {
        let spots: Vec<Spot> =
            text.match_indices(&old).map(|(at, _)| Spot { range: at..at + old.len(), replacement: new.clone() }).collect();
        if !spots.is_empty() {
            return Some((How::Exactly, spots));
        }
    }
    if old.chars().filter(|letter| !letter.is_whitespace()).count() < TOLERANT_LETTERS_MIN {
        return None;
    }
    [How::WithoutTrailingBlanks, How::WithoutIndentation].into_iter().find_map(|how| {
        let spots = line_wise(text, old, new, how);
        (!spots.is_empty()).then_some((how, spots))
    })
}

/// The number of the line, from 1, on which a byte stands.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1
}

fn line_end_variants(text: &str, old: &str, new: &str) -> Vec<(String, String)> {
    let to_lf = |passage: &str| passage.replace("\r\n", "\n");
    let to_crlf = |passage: &str| to_lf(passage).replace('\n', "\r\n");
    if is_crlf(text) {
        return vec![(old.to_owned(), to_crlf(new)), (to_crlf(old), to_crlf(new))];
    }
    let mut variants = vec![(old.to_owned(), new.to_owned())];
    if old.contains("\r\n") {
        variants.push((to_lf(old), to_lf(new)));
    }
    variants
}

/// Every line of the text ends with CRLF.
fn is_crlf(text: &str) -> bool {
    let ends = text.matches('\n').count();
    ends != 0 && ends == text.matches("\r\n").count()
}

fn line_wise(text: &str, old: &str, new: &str, how: How) -> Vec<Spot> {
    let bare = |line: &'_ str| -> String {
        match how {
            How::WithoutIndentation => line.trim().to_owned(),
            _ => line.trim_end().to_owned(),
        }
    };
    let wanted: Vec<String> = old.lines().map(bare).collect();
    let lines = lines_of(text);
    let present: Vec<String> = lines.iter().map(|range| bare(&text[range.clone()])).collect();
    let mut spots = Vec::new();
    let mut from = 0;
    while from + wanted.len() <= present.len() {
        if present[from..from + wanted.len()] != wanted[..] {
            from += 1;
            continue;
        }
        let last = &lines[from + wanted.len() - 1];
        let body = text[last.clone()].trim_end_matches('\n').trim_end_matches('\r');
        let end = if old.ends_with('\n') { last.end } else { last.start + body.len() };
        let range = lines[from].start..end;
        let replacement = fitted(&text[range.clone()], old, new, how);
        spots.push(Spot { range, replacement });
        from += wanted.len();
    }
    spots
}

/// The new text with the line ends, and where that was forgiven the indentation, of the place it goes to.
fn fitted(present: &str, old: &str, new: &str, how: How) -> String {
    let mut fitted = new.replace("\r\n", "\n");
    if how == How::WithoutIndentation {
        let (there, given) = (indentation(present), indentation(old));
        let move_line = |line: &str| match line.strip_prefix(given) {
            Some(rest) if !line.trim().is_empty() => format!("{there}{rest}"),
            _ => line.to_owned(),
        };
        fitted = fitted.split('\n').map(move_line).collect::<Vec<_>>().join("\n");
    }
    if present.contains("\r\n") { fitted.replace('\n', "\r\n") } else { fitted }
}

/// The blanks before the first line that says something.
fn indentation(passage: &str) -> &str {
    let line = passage.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
    &line[..line.len() - line.trim_start().len()]
}

fn lines_of(text: &str) -> Vec<Range<usize>> {
    let mut start = 0;
    let range = |line: &str| {
        let from = start;
        start += line.len();
        from..start
    };
    text.split_inclusive('\n').map(range).collect()
}

/// The lines that look most like the passage, numbered, for a model that misremembers them.
pub(super) fn closest(text: &str, old: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().take(COMPARED_LINES_MAX).collect();
    let wanted: Vec<&str> = old.lines().map(str::trim).take(COMPARED_PASSAGE_MAX).collect();
    let equal =
        |from: usize| wanted.iter().zip(&lines[from..]).filter(|(wanted, line)| !wanted.is_empty() && **wanted == line.trim()).count();
    let best = (0..lines.len()).max_by_key(|from| (equal(*from), std::cmp::Reverse(*from))).filter(|from| equal(*from) != 0);
    let from = best.or_else(|| {
        // No line is the same: the one most like the longest line of the passage.
        let (place, longest) = wanted.iter().enumerate().max_by_key(|(_, line)| line.len())?;
        let trimmed: Vec<&str> = lines
            .iter()
            .map(|line| line.trim())
            .filter(|line| line.len() <= longest.len() * 2 && longest.len() <= line.len() * 2)
            .collect();
        let close = similar::get_close_matches(*longest, &trimmed, 1, 0.5);
        let at = lines.iter().position(|line| close.first() == Some(&line.trim()))?;
        Some(at.saturating_sub(place))
    })?;
    let shown = lines[from..].iter().take(wanted.len().clamp(3, CLOSEST_LINES_MAX)).enumerate();
    Some(shown.map(|(offset, line)| format!("{}|{}", from + offset + 1, crate::text::visible(line))).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(text: &str, old: &str, new: &str) -> Option<(How, String)> {
        let (how, spots) = find(text, old, new)?;
        let mut out = text.to_owned();
        for spot in spots.into_iter().rev() {
            out.replace_range(spot.range, &spot.replacement);
        }
        Some((how, out))
    }

    #[test]
    fn the_strictest_way_that_finds_the_passage_is_taken() {
        for (text, old, new, how, result) in [
            ("a\nb\nc\n", "b", "B", How::Exactly, "a\nB\nc\n"),
            ("fn main() {  \n    x;\n}\n", "fn main() {\n    x;\n", "fn go() {\n", How::WithoutTrailingBlanks, "fn go() {\n}\n"),
            (
                "{\n    let apple = 1;\n    eat(apple);\n}\n",
                "let apple = 1;\neat(apple);",
                "let pear = 1;\n  eat(pear);",
                How::WithoutIndentation,
                "{\n    let pear = 1;\n      eat(pear);\n}\n",
            ),
            (
                "{\n\tlet apple = 1;\n}\n",
                "    let apple = 1;\n",
                "    let pear = 2;\n    done();\n",
                How::WithoutIndentation,
                "{\n\tlet pear = 2;\n\tdone();\n}\n",
            ),
            ("a\r\nb\r\nc\r\n", "a\nb", "x\ny", How::Exactly, "x\r\ny\r\nc\r\n"),
            ("a\r\nb\r\n", "b", "y\nz", How::Exactly, "a\r\ny\r\nz\r\n"),
            ("a\nb\n", "a\r\nb", "x\r\ny", How::Exactly, "x\ny\n"),
            ("  first line\r\n  second line\n", "first line\nsecond line", "one\ntwo", How::WithoutIndentation, "  one\r\n  two\n"),
        ] {
            assert_eq!(replaced(text, old, new), Some((how, result.to_owned())), "{old:?} in {text:?}");
        }
        assert_eq!(replaced("a\nb\n", "c", "d"), None);
        assert_eq!(replaced("  }\n", "}  ", "x"), None, "too short to be forgiven its blanks");
    }

    #[test]
    fn the_closest_place_is_shown_with_its_numbers() {
        let text = "one\nfn alpha(x: u32) {\n    body(x);\n}\nlast\n";
        assert_eq!(closest(text, "fn alpha(x: i32) {\n    body(x);\n}"), Some("2|fn alpha(x: u32) {\n3|    body(x);\n4|}".into()));
        assert_eq!(closest(text, "fn alpha(x: i64) {"), Some("2|fn alpha(x: u32) {\n3|    body(x);\n4|}".into()));
        assert_eq!(closest(text, "zzzzzzzzzzzzzz"), None);
    }
}
