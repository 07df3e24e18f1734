//! Lines of a file as it was, found again in the file as it is now.
//!
//! Pure but for the clock that bounds a comparison. Knows nothing of git; who wrote what is in `provenance.rs`.

use std::time::{Duration, Instant};

use similar::{Algorithm, DiffTag, capture_diff_slices_deadline};

/// Files that are compared line by line. Larger ones are seldom written by hand.
const COMPARED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// A large file with many changes is compared more coarsely.
const COMPARED_TIME_MAX: Duration = Duration::from_millis(200);

/// First line and number of lines.
pub(super) type Lines = (u64, u64);

/// Where these lines are now, and how many are not there any more. Nothing for files that are too large to compare.
pub(super) fn now(before: &[u8], after: &[u8], lines: &[Lines]) -> Option<(Vec<Lines>, u64)> {
    if COMPARED_BYTES_MAX < before.len() || COMPARED_BYTES_MAX < after.len() {
        return None;
    }
    let (old, new) = (split(before), split(after));
    let deadline = Instant::now() + COMPARED_TIME_MAX;
    let same: Vec<(u64, u64, u64)> = capture_diff_slices_deadline(Algorithm::Patience, &old, &new, Some(deadline))
        .iter()
        .filter(|part| part.tag() == DiffTag::Equal)
        .map(|part| (part.old_range().start as u64 + 1, part.new_range().start as u64 + 1, part.old_range().len() as u64))
        .collect();
    let (mut found, mut gone): (Vec<Lines>, u64) = (Vec::new(), 0);
    for (first, count) in lines {
        // Where lines were only taken away: behind this one.
        let (wanted, is_place) = ((*count).max(1), *count == 0);
        let mut there = 0;
        for (old, new, length) in &same {
            let (from, to) = ((*first).max(*old), (first + wanted).min(old + length));
            if from < to {
                there += to - from;
                push(&mut found, (new + from - old, if is_place { 0 } else { to - from }));
            }
        }
        match (is_place, first) {
            (true, 0) => push(&mut found, (0, 0)),
            (true, _) => {}
            (false, _) => gone += count - there,
        }
    }
    Some((found, gone))
}

/// Lines that follow one another are one piece.
fn push(found: &mut Vec<Lines>, (first, count): Lines) {
    match found.last_mut() {
        Some((before, length)) if *length != 0 && count != 0 && *before + *length == first => *length += count,
        _ => found.push((first, count)),
    }
}

/// Without line ends: git may keep others than those on the disk.
fn split(content: &[u8]) -> Vec<&[u8]> {
    let content = content.strip_suffix(b"\n").unwrap_or(content);
    if content.is_empty() {
        return Vec::new();
    }
    content.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_again_or_gone() {
        let before = b"a\nb\nc\nd\ne\n";
        let check = |after: &str, lines: &[Lines]| now(before, after.as_bytes(), lines).unwrap();
        assert_eq!(check("a\nb\nc\nd\ne\n", &[(2, 2)]), (vec![(2, 2)], 0));
        assert_eq!(check("x\ny\na\nb\nc\nd\ne\n", &[(2, 2), (5, 1)]), (vec![(4, 2), (7, 1)], 0));
        assert_eq!(check("a\nb\nx\nc\nd\ne\n", &[(2, 2)]), (vec![(2, 1), (4, 1)], 0));
        assert_eq!(check("a\nc\nd\ne\n", &[(2, 2)]), (vec![(2, 1)], 1));
        assert_eq!(check("a\r\nb\r\nc\r\nd\r\ne\r\n", &[(2, 2)]), (vec![(2, 2)], 0));
        assert_eq!(check("", &[(1, 5)]), (vec![], 5));
        // Where something was taken away.
        assert_eq!(check("x\na\nb\nc\nd\ne\n", &[(2, 0), (0, 0)]), (vec![(3, 0), (0, 0)], 0));
        assert_eq!(now(before, &vec![b'x'; COMPARED_BYTES_MAX + 1], &[(1, 1)]), None);
    }
}
