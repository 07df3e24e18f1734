//! Where in a text an old passage stands, and what the text is with a new one in its place.
//!
//! Exact first, also with the other kind of line ends; then line by line without trailing blanks; then without indentation
//! too, with the new text moved to the indentation that is there. Pure but for the clock: a search that takes too long
//! finds nothing. Only places are kept while it is unclear how many there are; new text is made for those that count.

use std::{
    borrow::Cow,
    ops::Range,
    time::{Duration, Instant},
};

use super::indentation::Shift;
use crate::text::{ALIKE_BYTES_MAX, most_alike, visible};

/// Shorter passages match anywhere once their blanks do not count.
const TOLERANT_LETTERS_MIN: usize = 8;
/// A text with more lines is data; there a passage must match exactly.
const TOLERANT_LINES_MAX: usize = 200_000;
/// A search line by line that takes longer meets a text made for that.
const TOLERANT_TIME_MAX: Duration = Duration::from_millis(300);
/// Bounds of the search for the closest place: enough for any source file.
const COMPARED_LINES_MAX: usize = 20_000;
const COMPARED_PASSAGE_MAX: usize = 50;
/// A hint is worth no more waiting than this.
const CLOSEST_TIME_MAX: Duration = Duration::from_millis(100);
/// Shown of the closest place.
const CLOSEST_LINES_MAX: usize = 12;
const CLOSEST_LINE_CHARS_MAX: usize = 300;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Exactly,
    WithoutTrailingBlanks,
    WithoutIndentation,
}

/// Where a passage stands.
#[derive(Debug)]
pub(super) struct Found<'a> {
    text: &'a str,
    pub(super) how: How,
    old: Cow<'a, str>,
    new: Cow<'a, str>,
    /// Empty when the passage was found exactly: then every place has the same length and is found again as fast.
    ranges: Vec<Range<usize>>,
    /// Where those begin, and where others begin that overlap with them.
    starts: Vec<usize>,
    /// Places beside each other; two that overlap count once.
    pub(super) count: usize,
}

/// Every place where `old` stands, by the strictest way that finds any.
pub(super) fn find<'a>(text: &'a str, old: &'a str, new: &'a str) -> Option<Found<'a>> {
    for (old, new) in line_end_variants(text, old, new) {
        let count = text.matches(&*old).count();
        if count != 0 {
            return Some(Found { text, how: How::Exactly, old, new, ranges: Vec::new(), starts: Vec::new(), count });
        }
    }
    if old.chars().filter(|letter| !letter.is_whitespace()).take(TOLERANT_LETTERS_MIN).count() < TOLERANT_LETTERS_MIN {
        return None;
    }
    [How::WithoutTrailingBlanks, How::WithoutIndentation].into_iter().find_map(|how| {
        let starts = line_starts(text, old, how);
        let ranges = ranges_at(text, old, &starts);
        let found = Found { text, how, old: old.into(), new: new.into(), count: ranges.len(), ranges, starts };
        (0 < found.count && found.fits()).then_some(found)
    })
}

impl Found<'_> {
    /// Whether the passage can be meant to stand at another place too.
    pub(super) fn is_ambiguous(&self) -> bool {
        1 < self.count || self.all_starts().nth(1).is_some()
    }

    /// Where the passage begins, in order, also where it overlaps with itself.
    pub(super) fn all_starts(&self) -> Box<dyn Iterator<Item = usize> + '_> {
        if self.how != How::Exactly {
            return Box::new(self.starts.iter().copied());
        }
        let next = |from: usize| self.text.get(from..)?.find(&*self.old).map(|at| from + at);
        let one_letter = |at: usize| self.text[at..].chars().next().map_or(1, char::len_utf8);
        Box::new(std::iter::successors(next(0), move |at| next(at + one_letter(*at))))
    }

    /// Whether the new text can be moved to the indentation of every place.
    fn fits(&self) -> bool {
        self.how != How::WithoutIndentation || self.ranges.iter().all(|range| shift(&self.text[range.clone()], &self.old).is_some())
    }

    /// The text with every place replaced and how many lines the first replacement has, or the size it would have
    /// beyond `max` bytes.
    pub(super) fn replaced(&self, max: usize) -> Result<(String, usize), usize> {
        let mut bytes = self.text.len();
        if self.how == How::Exactly {
            bytes = bytes - self.count * self.old.len() + self.count.saturating_mul(self.new.len());
        }
        if max < bytes {
            return Err(bytes);
        }
        let mut after = String::with_capacity(bytes);
        let (mut copied, mut first_lines) = (0, None);
        for range in self.places() {
            let replacement = match self.how {
                How::Exactly => Cow::Borrowed(&*self.new),
                _ => Cow::Owned(self.fitted(range.clone())),
            };
            first_lines.get_or_insert_with(|| replacement.lines().count());
            after.push_str(&self.text[copied..range.start]);
            after.push_str(&replacement);
            copied = range.end;
            if max < after.len() {
                return Err(after.len());
            }
        }
        after.push_str(&self.text[copied..]);
        Ok((after, first_lines.unwrap_or(0)))
    }

    /// The new text with the line ends, and where that was forgiven the indentation, of the place it goes to.
    fn fitted(&self, range: Range<usize>) -> String {
        let present = &self.text[range.clone()];
        let mut fitted = self.new.replace("\r\n", "\n");
        if self.how == How::WithoutIndentation
            && let Some(shift) = shift(present, &self.old)
        {
            fitted = shift.moved(&fitted);
        }
        // A file without a last line end does not get one by the way.
        if range.end == self.text.len() && self.old.ends_with('\n') && !present.ends_with('\n') && fitted.ends_with('\n') {
            fitted.pop();
        }
        if present.contains("\r\n") || is_crlf(self.text) { fitted.replace('\n', "\r\n") } else { fitted }
    }

    pub(super) fn places(&self) -> impl Iterator<Item = Range<usize>> {
        let exactly = (self.how == How::Exactly).then(|| self.text.match_indices(&*self.old));
        exactly.into_iter().flatten().map(|(at, found)| at..at + found.len()).chain(self.ranges.iter().cloned())
    }
}

/// The number of the line, from 1, on which a byte stands.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1
}

fn line_end_variants<'a>(text: &str, old: &'a str, new: &'a str) -> Vec<(Cow<'a, str>, Cow<'a, str>)> {
    let to_lf = |passage: &str| passage.replace("\r\n", "\n");
    let to_crlf = |passage: &str| Cow::Owned(to_lf(passage).replace('\n', "\r\n"));
    if is_crlf(text) {
        return vec![(old.into(), to_crlf(new)), (to_crlf(old), to_crlf(new))];
    }
    let mut variants = vec![(old.into(), new.into())];
    if old.contains("\r\n") {
        variants.push((to_lf(old).into(), to_lf(new).into()));
    }
    variants
}

/// Every line of the text ends with CRLF.
pub(crate) fn is_crlf(text: &str) -> bool {
    let ends = text.matches('\n').count();
    ends != 0 && ends == text.matches("\r\n").count()
}

fn ranges_at(text: &str, old: &str, starts: &[usize]) -> Vec<Range<usize>> {
    let (lines, wanted) = (lines_of(text), old.lines().count());
    let mut found: Vec<Range<usize>> = Vec::new();
    for start in starts {
        if found.last().is_some_and(|last| *start < last.end) {
            continue;
        }
        let from = lines.partition_point(|line| line.start < *start);
        let last = &lines[from + wanted - 1];
        let body = text[last.clone()].trim_end_matches('\n').trim_end_matches('\r');
        let end = if old.ends_with('\n') { last.end } else { last.start + body.len() };
        found.push(*start..end);
    }
    found
}

/// Where lines begin that are those of the passage, as far as blanks count; nothing when that takes too long.
fn line_starts(text: &str, old: &str, how: How) -> Vec<usize> {
    let begun = Instant::now();
    fn bare(line: &str, how: How) -> &str {
        if how == How::WithoutIndentation { line.trim() } else { line.trim_end() }
    }
    let lines = lines_of(text);
    if TOLERANT_LINES_MAX < lines.len() {
        return Vec::new();
    }
    let wanted: Vec<&str> = old.lines().map(|line| bare(line, how)).collect();
    let present: Vec<&str> = lines.iter().map(|range| bare(&text[range.clone()], how)).collect();
    let mut starts = Vec::new();
    for (from, window) in present.windows(wanted.len()).enumerate() {
        if TOLERANT_TIME_MAX < begun.elapsed() {
            return Vec::new();
        }
        if window == wanted {
            starts.push(lines[from].start);
        }
    }
    starts
}

fn shift(present: &str, old: &str) -> Option<Shift> {
    Shift::between(old.lines().zip(present.lines()))
}

fn lines_of(text: &str) -> Vec<Range<usize>> {
    let mut start = 0;
    let range = |line: &str| {
        let from = start;
        start += line.len();
        from..start
    };
    // One more than is used, so that a text with too many lines is known by it.
    text.split_inclusive('\n').take(TOLERANT_LINES_MAX + 1).map(range).collect()
}

/// The lines that look most like the passage, numbered, for a model that misremembers them.
pub(crate) fn closest(text: &str, old: &str) -> Option<String> {
    let begun = Instant::now();
    let lines: Vec<&str> = text.lines().take(COMPARED_LINES_MAX).collect();
    let trimmed: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
    let wanted: Vec<&str> = old.lines().map(str::trim).take(COMPARED_PASSAGE_MAX).collect();
    let equal = |from: usize| wanted.iter().zip(&trimmed[from..]).filter(|(wanted, line)| !wanted.is_empty() && wanted == line).count();
    let (mut best, mut best_equal) = (None, 0);
    for from in 0..lines.len() {
        let count = equal(from);
        if best_equal < count {
            (best, best_equal) = (Some(from), count);
        }
        if from % 64 == 0 && CLOSEST_TIME_MAX < begun.elapsed() {
            break;
        }
    }
    let from = best.or_else(|| {
        // No line is the same: the one most like the longest line of the passage that can be compared.
        let short = wanted.iter().enumerate().filter(|(_, line)| line.len() <= ALIKE_BYTES_MAX);
        let (place, longest) = short.max_by_key(|(_, line)| line.len())?;
        let similar = |line: &&str| line.len() <= longest.len() * 2 && longest.len() <= line.len() * 2;
        let candidates: Vec<&str> = trimmed.iter().copied().filter(similar).collect();
        let close = most_alike(longest, &candidates, 1, 0.5);
        let at = trimmed.iter().position(|line| close.first() == Some(line))?;
        Some(at.saturating_sub(place))
    })?;
    let shown = lines[from..].iter().take(wanted.len().clamp(3, CLOSEST_LINES_MAX)).enumerate();
    let cut = |line: &str| line.chars().take(CLOSEST_LINE_CHARS_MAX).collect::<String>();
    Some(shown.map(|(offset, line)| format!("{}|{}", from + offset + 1, visible(&cut(line)))).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(text: &str, old: &str, new: &str) -> Option<(How, String)> {
        let found = find(text, old, new)?;
        Some((found.how, found.replaced(usize::MAX).unwrap().0))
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
        for (text, old, new, how, result) in [
            // Line ends are the file's, also when the place itself has none.
            ("\tfirst line\r\nlast\r\n", "  first line", "  one\n  two", How::WithoutIndentation, "\tone\r\n\ttwo\r\nlast\r\n"),
            // A last line without an end stays one.
            ("    let apple = 1;", "let apple = 1;\n", "let pear = 2;\n", How::WithoutIndentation, "    let pear = 2;"),
            ("let apple = 1;  ", "let apple = 1;\n", "let pear = 2;\n", How::WithoutTrailingBlanks, "let pear = 2;"),
            ("let apple = 1;  ", "let apple = 1; ", "let pear = 2;\n", How::Exactly, "let pear = 2;\n "),
            // Steps of the file's own kind.
            (
                "\tif apple:\n\t\teat()\n",
                "if apple:\n    eat()",
                "if pear:\n    if ripe:\n        eat()",
                How::WithoutIndentation,
                "\tif pear:\n\t\tif ripe:\n\t\t\teat()\n",
            ),
        ] {
            assert_eq!(replaced(text, old, new), Some((how, result.to_owned())), "{old:?} in {text:?}");
        }
        assert_eq!(replaced("    if apple:\n        eat()\n", "if apple:\neat()", "if pear:\neat()"), None, "no sane indentation");
        assert_eq!(replaced("a\nb\n", "c", "d"), None);
        assert_eq!(replaced("  }\n", "}  ", "x"), None, "too short to be forgiven its blanks");
    }

    #[test]
    fn a_passage_that_overlaps_with_itself_is_ambiguous() {
        for (text, old, starts) in [
            ("aaa", "aa", vec![0, 1]),
            ("üüü", "üü", vec![0, 2]),
            ("ab ab", "ab", vec![0, 3]),
            ("step();\nstep();\nstep();\n", "step(); \nstep(); \n", vec![0, 8]),
            ("once", "once", vec![0]),
        ] {
            let found = find(text, old, "x").unwrap();
            assert_eq!(
                (found.all_starts().collect::<Vec<_>>(), found.is_ambiguous()),
                (starts.clone(), 1 < starts.len()),
                "{old:?} in {text:?}"
            );
        }
    }

    #[test]
    fn a_result_beyond_its_bound_is_not_made() {
        let (text, new) = ("x".repeat(1_000_000), "y".repeat(1_000_000));
        let found = find(&text, "x", &new).unwrap();
        assert_eq!((found.count, found.replaced(64 * 1024 * 1024)), (1_000_000, Err(1_000_000_000_000)));
        let text = "    let apple = 1;\n".repeat(1_000);
        let found = find(&text, "let apple = 1; \n", &new).unwrap();
        assert_eq!(found.count, 1_000);
        assert!(matches!(found.replaced(10_000_000), Err(10_000_000..12_000_000)));
    }

    #[test]
    fn a_text_made_to_be_slow_is_not() {
        let begun = Instant::now();
        let blank = "\n".repeat(180_000);
        assert!(find(&blank, &format!("{}12345678\n", "\n".repeat(90_000)), "x").is_none());
        assert!(find(&"\n".repeat(9_000_000), "12345678\n", "x").is_none());
        let line = |letter: &str| (0..500).map(|n| format!("{letter}{}", n % 7)).collect::<String>();
        let long: String = (0..5_000).map(|n| format!("{}{n}\n", line("ab"))).collect();
        closest(&long, &line("ba"));
        let longest: String = (0..10).map(|n| format!("{}{n}\n", line("ab").repeat(700))).collect();
        closest(&longest, &line("ba").repeat(700));
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }

    #[test]
    fn the_closest_place_is_shown_with_its_numbers() {
        let text = "one\nfn alpha(x: u32) {\n    body(x);\n}\nlast\n";
        assert_eq!(closest(text, "fn alpha(x: i32) {\n    body(x);\n}"), Some("2|fn alpha(x: u32) {\n3|    body(x);\n4|}".into()));
        assert_eq!(closest(text, "fn alpha(x: i64) {"), Some("2|fn alpha(x: u32) {\n3|    body(x);\n4|}".into()));
        assert_eq!(closest(text, "zzzzzzzzzzzzzz"), None);
    }
}
