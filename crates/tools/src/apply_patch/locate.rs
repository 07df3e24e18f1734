//! Where in a text the hunks of a patch belong, and what the text is with them.
//!
//! Hunks go through the text from top to bottom. The lines of a hunk are looked for exactly, then without the blanks at
//! their ends, then without indentation, then with typographic punctuation made plain. Lines that stay are kept as the
//! file has them, added ones get the file's line ends and, where that was forgiven, its indentation. Pure but for a clock.

use std::time::{Duration, Instant};

use super::parse::{Hunk, Line};
use crate::edit::{Shift, closest, is_crlf};

/// A search that takes longer meets a text or a patch made for that.
const SEARCH_TIME_MAX: Duration = Duration::from_secs(5);
/// Places named when a hunk fits more than one.
const PLACES_MAX: usize = 10;
/// Lines with fewer letters stand anywhere once their blanks do not count.
const TOLERANT_LETTERS_MIN: usize = 4;

/// How the lines of a hunk were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Exactly,
    WithoutTrailingBlanks,
    WithoutIndentation,
    WithPlainPunctuation,
}

/// A text with its hunks applied.
#[derive(Debug, PartialEq)]
pub(super) struct Patched {
    pub(super) text: String,
    pub(super) places: Vec<Placed>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Placed {
    /// The first line of the hunk in the text before, from 1.
    pub(super) line: usize,
    pub(super) how: How,
    /// The next line where it would have fitted as well.
    pub(super) also: Option<usize>,
}

/// All hunks, or words for the model about the first that has no place.
pub(super) fn patched(name: &str, text: &str, hunks: &[Hunk]) -> Result<Patched, String> {
    let mut search = Search::new(name, text);
    let mut done = Output { lines: Vec::new(), end: if is_crlf(text) { "\r\n" } else { "\n" } };
    let (mut from, mut places) = (0, Vec::new());
    for (nth, hunk) in hunks.iter().enumerate() {
        let place = search.place(hunk, from).map_err(|words| format!("hunk {} of {} for {name} {words}", nth + 1, hunks.len()))?;
        done.lines.extend_from_slice(&search.lines[from..place.at]);
        from = done.take(hunk, &search.lines, &place);
        places.push(Placed { line: place.at + 1, how: place.how, also: place.also });
    }
    done.lines.extend_from_slice(&search.lines[from..]);
    Ok(Patched { text: done.into_text(text), places })
}

/// A line and what ends it.
#[derive(Debug, Clone)]
struct Ended<'a> {
    text: std::borrow::Cow<'a, str>,
    end: &'a str,
}

struct Place {
    /// The index of the first line.
    at: usize,
    how: How,
    shift: Option<Shift>,
    also: Option<usize>,
}

struct Search<'a> {
    name: &'a str,
    text: &'a str,
    lines: Vec<Ended<'a>>,
    /// The lines as they are compared, by how; made when first needed.
    compared: [Option<Vec<String>>; 4],
    until: Instant,
}

impl<'a> Search<'a> {
    fn new(name: &'a str, text: &'a str) -> Self {
        let line = |line: &'a str| {
            let text = line.strip_suffix('\n').map_or(line, |text| text.strip_suffix('\r').unwrap_or(text));
            Ended { text: text.into(), end: &line[text.len()..] }
        };
        let lines = text.split_inclusive('\n').map(line).collect();
        Self { name, text, lines, compared: Default::default(), until: Instant::now() + SEARCH_TIME_MAX }
    }

    fn place(&mut self, hunk: &Hunk, from: usize) -> Result<Place, String> {
        let old = hunk.lines_before();
        let (below, missing) = self.below_anchors(hunk, from)?;
        let anchored = below != from;
        if old.is_empty() {
            // Only new lines: they follow what the header names, else the end of the file.
            let at = if anchored && !hunk.at_end { below } else { self.lines.len() };
            return match missing {
                Some(anchor) => Err(format!(
                    "begins with `@@ {anchor}`, and no such line is in the file below the hunk before it.{}",
                    self.nearest(anchor)
                )),
                None => Ok(Place { at, how: How::Exactly, shift: None, also: None }),
            };
        }
        // The header may name the first line of the hunk itself.
        let start = if anchored { below - 1 } else { from };
        for how in [How::Exactly, How::WithoutTrailingBlanks, How::WithoutIndentation, How::WithPlainPunctuation] {
            if how != How::Exactly && !is_telling(&old) {
                break;
            }
            let found = self.all(&old, start, how)?;
            let last = self.lines.len().checked_sub(old.len()).filter(|last| hunk.at_end && found.contains(last));
            let Some(at) = last.or(found.first().copied()) else { continue };
            let others: Vec<usize> = found.iter().copied().filter(|other| *other != at).collect();
            // With a header that is not there, an end that is not the end, forgiven blanks or lines like `}`, only one place can be meant.
            let vague = how != How::Exactly || !is_telling(&old);
            let unsure = vague && !anchored || missing.is_some() || hunk.at_end;
            if last.is_none() && unsure && !others.is_empty() {
                return Err(ambiguous(&found));
            }
            let Some(shift) = self.shift(&old, at, how) else { continue };
            let also = others.into_iter().find(|other| at < *other && last.is_none() && !anchored).map(|other| other + 1);
            return Ok(Place { at, how, shift: Some(shift).filter(|_| how != How::Exactly), also });
        }
        Err(self.not_found(hunk, from, missing))
    }

    /// The line below the headers of a hunk, and a header that is not there.
    fn below_anchors<'h>(&mut self, hunk: &'h Hunk, from: usize) -> Result<(usize, Option<&'h str>), String> {
        let (mut below, mut missing) = (from, None);
        for anchor in &hunk.anchors {
            let mut found = None;
            for how in [How::Exactly, How::WithoutTrailingBlanks, How::WithoutIndentation, How::WithPlainPunctuation] {
                found = self.all(&[&anchor.text], below, how)?.first().copied();
                if found.is_some() {
                    break;
                }
            }
            match found {
                Some(at) => below = at + 1,
                None if !anchor.hint => missing = missing.or(Some(anchor.text.as_str())),
                None => {}
            }
        }
        Ok((below, missing))
    }

    /// Every place from a line on where these lines stand.
    fn all(&mut self, wanted: &[&str], from: usize, how: How) -> Result<Vec<usize>, String> {
        if self.until < Instant::now() {
            return Err(format!("could not be looked for in time: {} is too large for so many hunks. Send fewer, or use edit.", self.name));
        }
        let wanted: Vec<String> = wanted.iter().map(|line| compared(line, how)).collect();
        let lines = self.compared[how as usize].get_or_insert_with(|| self.lines.iter().map(|line| compared(&line.text, how)).collect());
        let windows = lines.get(from..).unwrap_or_default().windows(wanted.len()).enumerate();
        Ok(windows.filter(|(_, window)| *window == wanted).map(|(at, _)| from + at).collect())
    }

    /// How added lines move to the file's indentation; nothing when there is no sane way.
    fn shift(&self, old: &[&str], at: usize, how: How) -> Option<Shift> {
        if matches!(how, How::Exactly | How::WithoutTrailingBlanks) {
            return Shift::between(std::iter::empty());
        }
        Shift::between(old.iter().zip(&self.lines[at..]).map(|(old, line)| (*old, &*line.text)))
    }

    fn not_found(&mut self, hunk: &Hunk, from: usize, missing: Option<&str>) -> String {
        let old = hunk.lines_before();
        let header = missing.map_or(String::new(), |anchor| format!(" Its header `@@ {anchor}` is not there either."));
        let above = self.all(&old, 0, How::WithoutIndentation).ok().and_then(|found| found.into_iter().find(|at| *at < from));
        if let Some(above) = above {
            return format!(
                "stands at line {}, above the hunk before it.{header} Hunks must be in the order of the file, and no line may be in two of them.",
                above + 1
            );
        }
        let new = hunk.lines_after();
        if is_telling(&new) && self.all(&new, 0, How::Exactly).is_ok_and(|found| !found.is_empty()) {
            return format!(
                "was not found, but what it would leave is there already: it may have been applied before.{header} Read the file again."
            );
        }
        format!("was not found.{header}{}", self.nearest(&old.join("\n")))
    }

    fn nearest(&self, passage: &str) -> String {
        match closest(self.text, passage) {
            Some(place) => format!(" The closest place is:\n{place}\nUse the lines exactly as they stand there, or read the file again."),
            None => " Nothing in the file looks similar; read it again.".into(),
        }
    }
}

struct Output<'a> {
    lines: Vec<Ended<'a>>,
    /// What ends a line that is new.
    end: &'a str,
}

impl<'a> Output<'a> {
    /// Adds a hunk at its place, and gives the index of the first line behind it.
    fn take(&mut self, hunk: &'a Hunk, lines: &[Ended<'a>], place: &Place) -> usize {
        let mut at = place.at;
        for line in &hunk.lines {
            match line {
                Line::Keep(_) => {
                    self.lines.push(lines[at].clone());
                    at += 1;
                }
                Line::Remove(_) => at += 1,
                Line::Add(text) => {
                    // In a file of mixed line ends, as the lines around it.
                    let beside = [at.checked_sub(1), Some(at)].into_iter().flatten().filter_map(|beside| lines.get(beside));
                    let end = beside.map(|line| line.end).find(|end| !end.is_empty()).unwrap_or(self.end);
                    let text = place.shift.as_ref().map_or(text.into(), |shift| shift.moved(text).into());
                    self.lines.push(Ended { text, end });
                }
            }
        }
        at
    }

    /// The whole text; it ends with a line end if the text before did, or if there was none.
    fn into_text(self, before: &str) -> String {
        let mut text = String::with_capacity(before.len() + 256);
        let last = self.lines.len().saturating_sub(1);
        for (at, line) in self.lines.iter().enumerate() {
            text.push_str(&line.text);
            match line.end {
                _ if at == last && !before.is_empty() && !before.ends_with('\n') => {}
                "" => text.push_str(self.end),
                end => text.push_str(end),
            }
        }
        text
    }
}

fn ambiguous(found: &[usize]) -> String {
    let lines: Vec<String> = found.iter().take(PLACES_MAX).map(|at| (at + 1).to_string()).collect();
    let more = if PLACES_MAX < found.len() { ", …" } else { "" };
    format!(
        "fits {} places (lines {}{more}), so it is unclear which one is meant. Write its lines exactly as they stand there, with more of them, or put a line from above them after `@@`.",
        found.len(),
        lines.join(", ")
    )
}

/// Whether lines say enough to be forgiven their blanks.
fn is_telling(lines: &[&str]) -> bool {
    let letters = lines.iter().flat_map(|line| line.chars()).filter(|letter| letter.is_alphanumeric());
    TOLERANT_LETTERS_MIN <= letters.take(TOLERANT_LETTERS_MIN).count()
}

fn compared(line: &str, how: How) -> String {
    match how {
        How::Exactly => line.to_owned(),
        How::WithoutTrailingBlanks => line.trim_end().to_owned(),
        How::WithoutIndentation => line.trim().to_owned(),
        How::WithPlainPunctuation => line.trim().chars().map(plain).collect(),
    }
}

/// Typographic punctuation as a keyboard has it.
fn plain(letter: char) -> char {
    match letter {
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{2018}'..='\u{201b}' | '\u{2032}' => '\'',
        '\u{201c}'..='\u{201f}' | '\u{2033}' => '"',
        '\u{a0}' | '\u{2002}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::parse::{Action, parse},
        *,
    };

    /// The hunks of a patch to one file.
    fn hunks(lines: &str) -> Vec<Hunk> {
        let mut sections = parse(&format!("*** Begin Patch\n*** Update File: a\n{lines}\n*** End Patch")).unwrap();
        match sections.remove(0).action {
            Action::Update { hunks, .. } => hunks,
            other => panic!("{other:?}"),
        }
    }

    fn apply(text: &str, lines: &str) -> Result<(String, Vec<(usize, How)>), String> {
        let patched = patched("a", text, &hunks(lines))?;
        Ok((patched.text, patched.places.iter().map(|place| (place.line, place.how)).collect()))
    }

    #[test]
    fn hunks_find_their_places_from_top_to_bottom() {
        for (text, lines, result, places) in [
            ("a\nb\nc\n", " a\n-b\n+B\n c", "a\nB\nc\n", vec![1]),
            ("call\ny\ncall\ny\n", "@@\n-call\n+1\n@@\n-call\n+2", "1\ny\n2\ny\n", vec![1, 3]),
            ("one\ntwo\n", "@@\n+zero\n one", "zero\none\ntwo\n", vec![1]),
            // Headers lead below a line, one after the other.
            (
                "class A:\n  def f():\n    old()\nclass B:\n  def f():\n    old()\n",
                "@@ class B:\n@@   def f():\n-    old()\n+    new()",
                "class A:\n  def f():\n    old()\nclass B:\n  def f():\n    new()\n",
                vec![6],
            ),
            ("def f():\n  old()\n", "@@ def f():\n def f():\n-  old()\n+  new()", "def f():\n  new()\n", vec![1]),
            ("fn main() {\n  old();\n}\n", "@@ -10,2 +10,2 @@ fn start() {\n-  old();\n+  new();", "fn main() {\n  new();\n}\n", vec![2]),
            // Only new lines: below the header, else at the end.
            ("a {\n}\nb {\n}\n", "@@ b {\n+  new\n", "a {\n}\nb {\n  new\n}\n", vec![4]),
            ("a\n", "+b", "a\nb\n", vec![2]),
            ("", "+b", "b\n", vec![1]),
            // The end of the file is meant where it is said.
            ("end\nx\nend\n", "@@\n-end\n+END\n*** End of File", "end\nx\nEND\n", vec![3]),
            ("only once\nx\n", "@@\n-only once\n+twice\n*** End of File", "twice\nx\n", vec![1]),
            // A header that is not there does not matter when the lines are in one place only.
            ("unique line\n", "@@ def gone():\n-unique line\n+other line", "other line\n", vec![1]),
        ] {
            let places = places.into_iter().map(|line| (line, How::Exactly)).collect();
            assert_eq!(apply(text, lines), Ok((result.to_owned(), places)), "{lines:?} on {text:?}");
        }
    }

    #[test]
    fn line_ends_are_those_of_the_file() {
        for (text, lines, result) in [
            ("a\r\nb\r\n", " a\n-b\n+B\n+C", "a\r\nB\r\nC\r\n"),
            ("a\nb", " a\n-b\n+B", "a\nB"),
            ("a\nb", " b\n+c", "a\nb\nc"),
            ("a\r\nb", "+c", "a\r\nb\r\nc"),
            ("a\nb\r\nc\n", " b\n+new\n c", "a\nb\r\nnew\r\nc\n"),
            ("a\n", "-a", ""),
        ] {
            assert_eq!(apply(text, lines).map(|done| done.0), Ok(result.to_owned()), "{lines:?} on {text:?}");
        }
    }

    #[test]
    fn what_is_forgiven_keeps_the_lines_of_the_file() {
        for (text, lines, result, how) in [
            (
                "let a = 1;  \nlet b = 2;\n",
                " let a = 1;\n-let b = 2;\n+let b = 3;",
                "let a = 1;  \nlet b = 3;\n",
                How::WithoutTrailingBlanks,
            ),
            (
                "\tif a:\n\t\tb()\n",
                " if a:\n-    b()\n+    c()\n+    if d:\n+        e()",
                "\tif a:\n\t\tc()\n\t\tif d:\n\t\t\te()\n",
                How::WithoutIndentation,
            ),
            (
                "say \u{201c}hello\u{201d} \u{2014} now\nnext\n",
                " say \"hello\" - now\n-next\n+last",
                "say \u{201c}hello\u{201d} \u{2014} now\nlast\n",
                How::WithPlainPunctuation,
            ),
        ] {
            assert_eq!(apply(text, lines), Ok((result.to_owned(), vec![(1, how)])), "{lines:?} on {text:?}");
        }
    }

    #[test]
    fn what_has_no_one_place_is_said_with_the_closest() {
        for (text, lines, words) in [
            (
                "fn alpha() {\n    one();\n}\n",
                "@@\n-    zzzzzzzzzzzzz\n+    three();\n",
                "hunk 1 of 1 for a was not found. Nothing in the file looks similar; read it again.",
            ),
            (
                "fn alpha() {\n    first(1);\n}\n",
                "@@\n fn alpha() {\n-    first(2);\n+    first(3);\n",
                "hunk 1 of 1 for a was not found. The closest place is:\n1|fn alpha() {\n2|    first(1);\n3|}\nUse the lines exactly as they stand there, or read the file again.",
            ),
            (
                "one\ntwo\nthree\n",
                "@@\n-three\n+3\n@@\n-one\n+1\n",
                "hunk 2 of 2 for a stands at line 1, above the hunk before it. Hunks must be in the order of the file, and no line may be in two of them.",
            ),
            (
                "  same line\n    same line\n",
                "@@\n-same line\n+other\n",
                "hunk 1 of 1 for a fits 2 places (lines 1, 2), so it is unclear which one is meant. Write its lines exactly as they stand there, with more of them, or put a line from above them after `@@`.",
            ),
            ("}\n}\n", "@@\n }\n+x\n", "hunk 1 of 1 for a fits 2 places (lines 1, 2), so it is unclear"),
            ("same\nsame\nx\n", "@@\n-same\n+other\n*** End of File\n", "hunk 1 of 1 for a fits 2 places (lines 1, 2), so it is unclear"),
            ("same\nsame\n", "@@ gone\n-same\n+other\n", "hunk 1 of 1 for a fits 2 places (lines 1, 2), so it is unclear"),
            ("x\n", "@@ gone\n+other\n", "hunk 1 of 1 for a begins with `@@ gone`, and no such line is in the file"),
            ("a\nnew line\nb\n", "@@\n-old line\n+new line\n", "hunk 1 of 1 for a was not found, but what it would leave is there already"),
            // The structure is another one.
            (
                "    if a:\n        call_b()\n",
                "@@\n if a:\n-call_b()\n+call_c()\n",
                "hunk 1 of 1 for a was not found. The closest place is:\n1|    if a:",
            ),
            ("x\n", "@@ gone\n-missing line\n", "hunk 1 of 1 for a was not found. Its header `@@ gone` is not there either."),
        ] {
            let said = apply(text, lines).unwrap_err();
            assert!(said.starts_with(words), "{lines:?} on {text:?}: {said}");
        }
    }

    #[test]
    fn a_second_place_is_noticed() {
        let patched = patched("a", "call();\nx\ncall();\n", &hunks("@@\n-call();\n+done();\n")).unwrap();
        assert_eq!(patched.places, [Placed { line: 1, how: How::Exactly, also: Some(3) }]);
    }
}
