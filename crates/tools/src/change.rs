//! The record of a change to one file: enough to tell what it was, and to make the content before of the one after.
//!
//! A record holds hunks `[offset in the content after, old text, length of the new text]` as JSON; old bytes that are no
//! text are in base64, and a fourth field says so. Pure but for the clock that bounds a diff. Knows nothing of disks or
//! logs; `restore.rs` undoes with it.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use posse_session::Part;
use serde_json::{Value, json};
use similar::{Algorithm, DiffTag, capture_diff_slices_deadline};

use crate::{files::hash, text::base64};

/// The hash of a content that was too large to be read. Nothing can be made of it again.
pub(crate) const UNKNOWN: &str = "unknown";

/// Contents that are compared line by line; what differs between larger ones is one hunk.
const DIFF_BYTES_MAX: usize = 4 * 1024 * 1024;
/// A large file with many changes gets coarser hunks.
const DIFF_TIME_MAX: Duration = Duration::from_millis(200);
/// Two hunks that are closer are one: a hunk takes about so much itself.
const GAP_BYTES_MIN: usize = 24;

/// What a file was before a call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Before<'a> {
    Absent,
    Content(&'a [u8]),
    /// There was a file, and nobody read it.
    Unread,
}

impl<'a> Before<'a> {
    pub(crate) fn of(text: Option<&'a str>) -> Self {
        text.map_or(Self::Absent, |text| Self::Content(text.as_bytes()))
    }
}

/// The fact that a call changed a file, for the log. `after` is `None` for a file that was removed, which had `mode`.
pub(crate) fn patch(path: &str, before: Before<'_>, after: Option<&[u8]>, mode: Option<u32>) -> Part {
    let (old, known) = match before {
        Before::Absent => (None, true),
        Before::Content(old) => (Some(old), true),
        Before::Unread => (None, false),
    };
    let compared = compare(old.unwrap_or_default(), after.unwrap_or_default());
    Part::Patch {
        path: path.to_owned(),
        before: if known { old.map(hash).unwrap_or_default() } else { UNKNOWN.to_owned() },
        after: after.map(hash).unwrap_or_default(),
        added: compared.added,
        removed: compared.removed,
        change: if known { compared.as_json(old.unwrap_or_default()).into() } else { "".into() },
        mode: mode.filter(|_| after.is_none()),
    }
}

/// The content before, made of the content after and the record of a change; `None` when they do not fit together.
pub(crate) fn reversed(after: &[u8], change: &str) -> Option<Vec<u8>> {
    let Value::Array(hunks) = serde_json::from_str(change).ok()? else { return None };
    let mut before = Vec::with_capacity(after.len());
    let mut copied = 0;
    for hunk in &hunks {
        let number = |place: usize| usize::try_from(hunk.get(place)?.as_u64()?).ok();
        let (at, length) = (number(0)?, number(2)?);
        let old = hunk.get(1)?.as_str()?;
        before.extend_from_slice(after.get(copied..at)?);
        match hunk.get(3).map(Value::as_str) {
            None => before.extend_from_slice(old.as_bytes()),
            Some(Some("base64")) => before.extend(from_base64(old)?),
            Some(_) => return None,
        }
        copied = at.checked_add(length)?;
    }
    before.extend_from_slice(after.get(copied..)?);
    Some(before)
}

struct Hunk {
    old: Range<usize>,
    new: Range<usize>,
}

struct Compared {
    hunks: Vec<Hunk>,
    added: u64,
    removed: u64,
}

impl Compared {
    fn as_json(&self, old: &[u8]) -> String {
        let hunk = |hunk: &Hunk| {
            let (at, length) = (hunk.new.start, hunk.new.len());
            match std::str::from_utf8(&old[hunk.old.clone()]) {
                Ok(text) => json!([at, text, length]),
                Err(_) => json!([at, base64(&old[hunk.old.clone()]), length, "base64"]),
            }
        };
        Value::Array(self.hunks.iter().map(hunk).collect()).to_string()
    }
}

fn compare(old: &[u8], new: &[u8]) -> Compared {
    // Whole lines, so that lines can be counted.
    let same = common(old, new);
    let start = old[..same].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let tail = common_end(&old[start..], &new[start..]);
    let tail = old[old.len() - tail..].iter().position(|byte| *byte == b'\n').map_or(0, |newline| tail - newline - 1);
    let (old_middle, new_middle) = (start..old.len() - tail, start..new.len() - tail);
    let old_lines = lines(old, old_middle.clone());
    let new_lines = lines(new, new_middle.clone());
    let mut compared = Compared { hunks: Vec::new(), added: 0, removed: 0 };
    if old_middle.is_empty() || new_middle.is_empty() || DIFF_BYTES_MAX < old_middle.len() + new_middle.len() {
        (compared.added, compared.removed) = (new_lines.len() as u64, old_lines.len() as u64);
        compared.hunks.extend(tight(old, new, Hunk { old: old_middle, new: new_middle }));
        return compared;
    }
    fn texts<'a>(content: &'a [u8], lines: &[Range<usize>]) -> Vec<&'a [u8]> {
        lines.iter().map(|line| &content[line.clone()]).collect()
    }
    let deadline = Instant::now() + DIFF_TIME_MAX;
    for change in capture_diff_slices_deadline(Algorithm::Myers, &texts(old, &old_lines), &texts(new, &new_lines), Some(deadline)) {
        let (tag, old_range, new_range) = change.as_tag_tuple();
        if tag == DiffTag::Equal {
            continue;
        }
        (compared.added, compared.removed) = (compared.added + new_range.len() as u64, compared.removed + old_range.len() as u64);
        let bytes = |lines: &[Range<usize>], range: Range<usize>, end: usize| {
            let start = lines.get(range.start).map_or(end, |line| line.start);
            start..if range.is_empty() { start } else { lines[range.end - 1].end }
        };
        let hunk = Hunk { old: bytes(&old_lines, old_range, old_middle.end), new: bytes(&new_lines, new_range, new_middle.end) };
        let Some(hunk) = tight(old, new, hunk) else { continue };
        match compared.hunks.last_mut() {
            Some(last) if hunk.new.start - last.new.end < GAP_BYTES_MIN => {
                (last.old.end, last.new.end) = (hunk.old.end, hunk.new.end);
            }
            _ => compared.hunks.push(hunk),
        }
    }
    compared
}

/// A hunk without what is the same at both of its ends, cut between letters; nothing when all of it is.
fn tight(old: &[u8], new: &[u8], hunk: Hunk) -> Option<Hunk> {
    let (old_part, new_part) = (&old[hunk.old.clone()], &new[hunk.new.clone()]);
    let is_inside = |part: &[u8], at: usize| part.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let mut head = common(old_part, new_part);
    while 0 < head && (is_inside(old_part, head) || is_inside(new_part, head)) {
        head -= 1;
    }
    let mut tail = common_end(&old_part[head..], &new_part[head..]);
    while 0 < tail && is_inside(old_part, old_part.len() - tail) {
        tail -= 1;
    }
    let hunk = Hunk { old: hunk.old.start + head..hunk.old.end - tail, new: hunk.new.start + head..hunk.new.end - tail };
    (!hunk.old.is_empty() || !hunk.new.is_empty()).then_some(hunk)
}

fn common(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

fn common_end(one: &[u8], other: &[u8]) -> usize {
    one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one == other).count()
}

fn lines(content: &[u8], part: Range<usize>) -> Vec<Range<usize>> {
    let mut at = part.start;
    content[part]
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| {
            at += line.len();
            at - line.len()..at
        })
        .collect()
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + 26),
        b'0'..=b'9' => Some(letter - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for group in text.trim_end_matches('=').as_bytes().chunks(4) {
        let bits = group.iter().try_fold(0u32, |bits, letter| Some(bits << 6 | u32::from(value(*letter)?)))? << (6 * (4 - group.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(before: &[u8], after: &[u8]) -> (String, u64, u64) {
        let compared = compare(before, after);
        (compared.as_json(before), compared.added, compared.removed)
    }

    #[test]
    fn a_change_is_recorded_as_what_is_no_longer_there() {
        for (before, after, change, added, removed) in [
            ("a\nb\nc\n", "a\nB\nc\n", r#"[[2,"b",1]]"#, 1, 1),
            ("a\nb\n", "a\nb\n", "[]", 0, 0),
            ("", "new\n", r#"[[0,"",4]]"#, 1, 0),
            ("gone\n", "", r#"[[0,"gone\n",0]]"#, 0, 1),
            ("a\n", "a\nb\n", r#"[[2,"",2]]"#, 1, 0),
            ("same\nsame\nsame\n", "same\nsame\n", r#"[[10,"same\n",0]]"#, 0, 1),
            ("über\n", "öber\n", r#"[[0,"ü",2]]"#, 1, 1),
            ("no end", "no end\n", r#"[[6,"",1]]"#, 1, 1),
        ] {
            assert_eq!(recorded(before.as_bytes(), after.as_bytes()), (change.into(), added, removed), "{before:?} to {after:?}");
        }
        // Two places far apart are two hunks, and what is between them is not kept.
        let lines = |first: &str, last: &str| format!("{first}\n{}{last}\n", "between\n".repeat(500));
        assert_eq!(
            recorded(lines("one", "two").as_bytes(), lines("eins", "zwei").as_bytes()),
            (r#"[[0,"one",4],[4005,"two",4]]"#.into(), 2, 2)
        );
        assert_eq!(recorded(b"a\xff\xfe", b"ab").0, r#"[[1,"//4=",1,"base64"]]"#);
    }

    /// Small, seeded, the same everywhere.
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self, sides: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 % sides as u64) as usize
        }

        fn content(&mut self) -> Vec<u8> {
            const PIECES: [&[u8]; 12] = [
                b"one\n",
                b"two\n",
                b"three",
                b"\n",
                b"\r\n",
                "ü".as_bytes(),
                "日本".as_bytes(),
                b"\xff",
                b"\0",
                b"    x = 1;\n",
                b"\"",
                b"\\",
            ];
            let most = if self.roll(3) == 0 { PIECES.len() } else { 7 };
            (0..self.roll(60)).flat_map(|_| PIECES[self.roll(most)].to_vec()).collect()
        }

        fn changed(&mut self, content: &[u8]) -> Vec<u8> {
            let mut changed = content.to_vec();
            for _ in 0..self.roll(5) {
                let from = self.roll(changed.len() + 1);
                let to = from + self.roll((changed.len() - from).min(9) + 1);
                let new = self.content();
                changed.splice(from..to, new.into_iter().take(12));
            }
            changed
        }
    }

    #[test]
    fn what_was_recorded_gives_the_content_before() {
        let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
        for round in 0..20_000 {
            let before = dice.content();
            let after = if dice.roll(4) == 0 { dice.content() } else { dice.changed(&before) };
            let change = recorded(&before, &after).0;
            assert_eq!(reversed(&after, &change).as_deref(), Some(&before[..]), "round {round}: {change}");
        }
    }

    #[test]
    fn a_record_is_small_for_a_small_change_in_a_large_file() {
        let before: String = (0..100_000).map(|n| format!("line {n}\n")).collect();
        let after = before.replace("line 500\n", "line five hundred\n").replace("line 99000\n", "");
        let (change, added, removed) = recorded(before.as_bytes(), after.as_bytes());
        assert!(change.len() < 100, "{change}");
        assert_eq!((added, removed), (1, 2));
        assert_eq!(reversed(after.as_bytes(), &change), Some(before.into_bytes()));
    }

    #[test]
    fn contents_made_to_be_slow_are_compared_coarsely() {
        let begun = Instant::now();
        let line = |n: usize, by: usize| format!("{}\n", (n * by) % 9_973);
        let before: String = (0..150_000).map(|n| line(n, 7)).collect();
        let after: String = (0..150_000).map(|n| line(n, 11)).collect();
        let change = recorded(before.as_bytes(), after.as_bytes()).0;
        assert_eq!(reversed(after.as_bytes(), &change), Some(before.into_bytes()));
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    }

    #[test]
    fn a_broken_record_gives_nothing() {
        for change in [
            "",
            "{}",
            "[[9,\"\",0]]",
            "[[0,\"\",9]]",
            "[[0]]",
            "[[0,\"a\",0,\"hex\"]]",
            "[[0,\"*\",0,\"base64\"]]",
            "[[1,\"\",1],[0,\"\",1]]",
        ] {
            assert_eq!(reversed(b"abc", change), None, "{change}");
        }
    }

    #[test]
    fn a_patch_says_what_there_was() {
        let Part::Patch { before, after, change, mode, .. } = patch("a", Before::Absent, Some(b"x"), Some(0o600)) else { panic!() };
        assert_eq!((&*before, after.len(), change.inline(), mode), ("", 32, Some("[[0,\"\",1]]"), None));
        let Part::Patch { before, after, change, mode, .. } = patch("a", Before::Content(b"x"), None, Some(0o755)) else { panic!() };
        assert_eq!((before.len(), &*after, change.inline(), mode), (32, "", Some("[[0,\"x\",0]]"), Some(0o755)));
        let Part::Patch { before, change, .. } = patch("a", Before::Unread, Some(b"x"), None) else { panic!() };
        assert_eq!((&*before, change.inline()), (UNKNOWN, Some("")));
    }
}
