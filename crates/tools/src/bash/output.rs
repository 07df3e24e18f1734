//! What a command printed, read from its spool file: head and tail for the model, pieces for whoever is looking.
//!
//! The file may be a gigabyte and may still grow; never more than a few windows of it are in memory. Knows nothing of
//! processes: whether more will come is told by the caller.

use std::{
    collections::VecDeque,
    fs::{self, OpenOptions},
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;

use crate::{
    files::{open_regular, open_regular_with},
    private::Private,
    text::{Line, Lines, cap, clean, gap},
};

/// What the model sees of one command: about 7,500 tokens.
const SHOWN_BYTES_MAX: usize = 30_000;
/// The head says what began, the tail what went wrong.
const HEAD_BYTES: usize = 10_000;
const TAIL_BYTES: usize = SHOWN_BYTES_MAX - HEAD_BYTES;
/// What is shown live at once; a flood is shown in samples.
const PIECE_BYTES_MAX: usize = 8 * 1024;
/// Of a longer line only the beginning is matched and shown.
const LINE_BYTES_MAX: usize = 4 * 1024;
/// A line that has grown so long is not waited for any more.
const UNFINISHED_BYTES_MAX: u64 = 64 * 1024;
/// No letter is longer, and no escape that is worth waiting for.
const UNFINISHED_TAIL: u64 = 64;

/// The spool file of one command.
pub(crate) struct Output {
    pub(crate) path: PathBuf,
    /// Shown live up to here.
    shown: u64,
    private: Private,
}

/// What is left of the output when the command has ended.
pub(super) struct Kept {
    pub(super) text: String,
    /// The file with all of it; absent when the text is all.
    pub(super) path: Option<PathBuf>,
}

impl Output {
    /// `path` must be resolved.
    pub(crate) fn new(path: PathBuf, private: Private) -> Self {
        Self { path, shown: 0, private }
    }

    pub(crate) fn bytes(&self) -> u64 {
        fs::symlink_metadata(&self.path).map_or(0, |metadata| metadata.len())
    }

    /// What was printed from `from` on, cut for the model. While more may come, a half letter or a half escape at the
    /// end waits for its other half.
    pub(crate) fn news(&self, from: u64, more_may_come: bool) -> News {
        let end = self.bytes();
        let (from, mut to) = (from.min(end), end);
        if more_may_come {
            let tail = from.max(to.saturating_sub(UNFINISHED_TAIL));
            let length = usize::try_from(to - tail).unwrap_or_default();
            let bytes = window(&self.path, tail, length, &self.private).unwrap_or_default();
            to = tail + (bytes.len() - unfinished(&bytes)) as u64;
        }
        News { text: shown(&self.path, from, to, &self.private).text, to, end }
    }

    /// The lines that match, from `from` on. While more may come, a line without its end waits for it.
    pub(crate) fn matching(&self, from: u64, more_may_come: bool, filter: &RegexMatcher, halt: &dyn Fn() -> bool) -> io::Result<News> {
        let end = self.bytes();
        let mut at = from.min(end);
        let mut found = Found::default();
        let (mut file, _) = match open_regular(&self.path, &self.private) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(News { text: String::new(), to: at, end }),
            opened => opened?,
        };
        file.seek(SeekFrom::Start(at))?;
        let mut lines = Lines::new(BufReader::new(file.take(end - at)), LINE_BYTES_MAX);
        while let Some(Line { kept, bytes }) = lines.next()? {
            let has_end = at + bytes < end;
            if (!has_end && more_may_come && bytes < UNFINISHED_BYTES_MAX) || halt() {
                break;
            }
            at += bytes + u64::from(has_end);
            let line = clean(&kept);
            if filter.is_match(line.as_bytes()).unwrap_or(false) {
                found.add(line);
            }
        }
        Ok(News { text: found.text(&self.path), to: at, end })
    }

    /// The last of what was printed, of long output from the beginning of a line on.
    pub(super) fn tail(&self, max: usize) -> Tail {
        let end = self.bytes();
        let from = end.saturating_sub(max as u64);
        let bytes = match window(&self.path, from, max, &self.private) {
            Ok(bytes) => bytes,
            Err(error) => return Tail { text: format!("(the output cannot be read: {error})"), before: 0 },
        };
        let cut = if from == 0 { None } else { bytes.iter().position(|byte| *byte == b'\n').map(|at| at + 1) };
        let start = cut.filter(|start| *start < bytes.len()).unwrap_or(0);
        let mut text = clean(&bytes[start..]);
        if max < text.len() {
            // Bytes that were no letters have grown in cleaning.
            let from = text.char_indices().map(|(at, _)| at).find(|at| text.len() - at <= max).unwrap_or(0);
            text.drain(..from);
        }
        Tail { text, before: from + start as u64 }
    }

    /// What was printed since the last time, or the latest of it.
    pub(super) fn next_piece(&mut self) -> Option<String> {
        let end = self.bytes();
        if end <= self.shown {
            return None;
        }
        let from = self.shown.max(end.saturating_sub(PIECE_BYTES_MAX as u64));
        let mut bytes = window(&self.path, from, PIECE_BYTES_MAX, &self.private).ok()?;
        // A letter cut in half waits for its other half, unless it is no letter at all.
        if let Err(error) = std::str::from_utf8(&bytes)
            && error.error_len().is_none()
            && error.valid_up_to() != 0
        {
            bytes.truncate(error.valid_up_to());
        }
        self.shown = from + bytes.len() as u64;
        Some(clean(&bytes)).filter(|piece| !piece.is_empty())
    }

    /// Cleans and cuts the output; the file goes when it says no more than the text.
    pub(super) fn finish(self) -> Kept {
        let bytes = self.bytes();
        let text = shown(&self.path, 0, bytes, &self.private);
        if bytes <= SHOWN_BYTES_MAX as u64 && text.omitted == 0 {
            // A file that is still there costs a little space, nothing else.
            let _ = fs::remove_file(&self.path);
            return Kept { text: text.text, path: None };
        }
        Kept { text: text.text, path: Some(self.path) }
    }

    /// The spool never holds more than its bound, however fast it was written.
    pub(crate) fn cut_to(&self, bytes: u64) {
        if bytes < self.bytes() {
            // The command may have put anything there instead; only a plain file is cut.
            let opened = open_regular_with(&self.path, &self.private, OpenOptions::new().write(true));
            let cut = opened.and_then(|(file, _)| file.set_len(bytes));
            if let Err(error) = cut {
                tracing::warn!(%error, "a spool file could not be cut");
            }
        }
    }
}

/// The end of an output.
pub(super) struct Tail {
    pub(super) text: String,
    /// So many bytes were printed before it.
    pub(super) before: u64,
}

/// What is new in an output.
pub(crate) struct News {
    pub(crate) text: String,
    /// Where the next look begins.
    pub(crate) to: u64,
    /// Where the file ended; what is between the two waits for its other half.
    pub(crate) end: u64,
}

/// Lines that matched: the first ones, the last ones, and how many were between them.
#[derive(Default)]
struct Found {
    head: String,
    tail: VecDeque<String>,
    tail_bytes: usize,
    omitted: u64,
}

impl Found {
    fn add(&mut self, line: String) {
        if self.tail.is_empty() && self.head.len() + line.len() < HEAD_BYTES {
            self.head.push_str(&line);
            self.head.push('\n');
            return;
        }
        self.tail_bytes += line.len() + 1;
        self.tail.push_back(line);
        while TAIL_BYTES < self.tail_bytes
            && let Some(first) = self.tail.pop_front()
        {
            self.tail_bytes -= first.len() + 1;
            self.omitted += 1;
        }
    }

    fn text(self, path: &Path) -> String {
        let mut text = self.head;
        if self.omitted != 0 {
            text.push_str(&format!("... {} matching lines omitted; full output: {} (use grep)\n", self.omitted, path.display()));
        }
        self.tail.iter().for_each(|line| text.extend([line, "\n"]));
        text
    }
}

/// The part of a file from `from` to `to`: cleaned, and without its middle when it is long.
fn shown(path: &Path, from: u64, to: u64, private: &Private) -> crate::text::Capped {
    let part = |from: u64, length: usize| {
        window(path, from, length, private).map_or_else(|error| format!("(the output cannot be read: {error})"), |bytes| clean(&bytes))
    };
    let bytes = to - from;
    if bytes <= SHOWN_BYTES_MAX as u64 {
        // Letters that were no UTF-8 may have grown in cleaning.
        let whole = part(from, usize::try_from(bytes).unwrap_or(SHOWN_BYTES_MAX));
        return cap(&whole, SHOWN_BYTES_MAX, |omitted| gap(omitted as u64, path));
    }
    let words = gap(bytes - SHOWN_BYTES_MAX as u64, path);
    let half = |text: String, max: usize| cap(&text, max, |_| "...".to_owned()).text;
    let head = half(part(from, HEAD_BYTES), HEAD_BYTES);
    let tail = half(part(to - TAIL_BYTES as u64, TAIL_BYTES), TAIL_BYTES);
    let text = format!("{}\n{words}\n{}", head.trim_end_matches('\n'), tail.trim_start_matches('\u{fffd}'));
    crate::text::Capped { text, omitted: usize::try_from(bytes).unwrap_or(usize::MAX) - SHOWN_BYTES_MAX }
}

/// How many bytes at the end are the beginning of a letter or of an escape whose rest is not there yet.
fn unfinished(bytes: &[u8]) -> usize {
    if let Some(at) = bytes.iter().rposition(|byte| *byte == 0x1b) {
        let is_open = match &bytes[at + 1..] {
            [] => true,
            [b'[', rest @ ..] => rest.iter().all(|byte| (0x20..=0x3f).contains(byte)),
            [b']', rest @ ..] => !rest.iter().any(|byte| matches!(byte, 0x07 | b'\n')),
            _ => false,
        };
        if is_open {
            return bytes.len() - at;
        }
    }
    let start = bytes.iter().rev().take(4).position(|byte| byte & 0xc0 != 0x80).map_or(0, |back| back + 1);
    let letter = &bytes[bytes.len() - start..];
    match std::str::from_utf8(letter) {
        Err(error) if error.valid_up_to() == 0 && error.error_len().is_none() => start,
        _ => 0,
    }
}

fn window(path: &Path, from: u64, length: usize, private: &Private) -> io::Result<Vec<u8>> {
    let (mut file, _) = match open_regular(path, private) {
        // The command removed it, or never started: it printed nothing.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::with_capacity(length);
    file.take(length as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(bytes: &[u8]) -> (tempfile::TempDir, Output) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("call_1.out");
        fs::write(&path, bytes).unwrap();
        (folder, Output::new(path, Private::default()))
    }

    #[test]
    fn what_fits_is_shown_whole_and_leaves_no_file() {
        let (_folder, output) = output(b"\x1b[31mred\x1b[0m\n");
        let path = output.path.clone();
        let kept = output.finish();
        assert_eq!((kept.text.as_str(), kept.path, path.exists()), ("red\n", None, false));
    }

    #[test]
    fn what_does_not_fit_is_head_and_tail_with_the_way_to_the_rest() {
        let text: String = (0..20_000).map(|line| format!("line {line}\n")).collect();
        let (_folder, output) = output(text.as_bytes());
        let kept = output.finish();
        let path = kept.path.unwrap();
        assert!(kept.text.starts_with("line 0\n") && kept.text.ends_with("line 19999\n"));
        assert!(kept.text.contains(&format!("bytes omitted; full output: {}", path.display())), "{}", &kept.text[9_000..11_000]);
        assert!(kept.text.len() < SHOWN_BYTES_MAX + 500);
        assert_eq!(fs::read_to_string(path).unwrap(), text);
    }

    #[test]
    fn bytes_that_are_no_text_stay_within_the_bound() {
        let (_folder, output) = output(&[0xff; 29_000]);
        let kept = output.finish();
        assert!(kept.text.len() <= SHOWN_BYTES_MAX && kept.path.is_some());
    }

    #[test]
    fn a_tail_begins_with_a_line_and_has_a_bound() {
        let table: [(&str, &str, u64); 6] = [
            ("", "", 0),
            ("short\n", "short\n", 0),
            ("one\ntwo\nthree\n", "two\nthree\n", 4),
            ("a line without any end", "hout any end", 10),
            ("0123456789abcdef\n", "56789abcdef\n", 5),
            ("xyz\n\x1b[31mred\n", "red\n", 4),
        ];
        for (printed, text, before) in table {
            let (_folder, output) = output(printed.as_bytes());
            let tail = output.tail(12);
            assert_eq!((tail.text.as_str(), tail.before), (text, before), "{printed:?}");
        }
        let (_folder, output) = output(&[0xff; 900]);
        assert!(output.tail(200).text.len() <= 200);
    }

    #[test]
    fn live_pieces_follow_the_file_and_never_split_a_letter() {
        let (_folder, mut output) = output("grün".as_bytes());
        fs::write(&output.path, &"grün".as_bytes()[..3]).unwrap();
        assert_eq!(output.next_piece(), Some("gr".into()));
        fs::write(&output.path, "grün").unwrap();
        assert_eq!([output.next_piece(), output.next_piece()], [Some("ün".into()), None]);
        fs::write(&output.path, "x".repeat(100_000)).unwrap();
        assert_eq!(output.next_piece().unwrap().len(), PIECE_BYTES_MAX);
    }

    #[test]
    fn a_growing_output_is_read_on_without_gaps_and_without_halves() {
        for (printed, seen, held) in [
            ("plain", "plain", 0),
            ("line\n", "line\n", 0),
            ("gr\u{fc}", "grü", 0),
            ("red \x1b[31", "red ", 4),
            ("red \x1b", "red ", 1),
            ("done \x1b[0m", "done ", 0),
            ("title \x1b]0;half", "title ", 8),
            ("", "", 0),
        ] {
            let (_folder, output) = output(printed.as_bytes());
            let news = output.news(0, true);
            assert_eq!((news.text.as_str(), news.to), (seen, (printed.len() - held) as u64), "{printed:?}");
            assert_eq!(output.news(0, false).to, printed.len() as u64, "nothing is held back of what has ended: {printed:?}");
        }
        let (_folder, output) = output(&"grün".as_bytes()[..3]);
        assert_eq!((output.news(0, true).text.as_str(), output.news(0, true).to), ("gr", 2));
        assert_eq!((output.news(9, true).text.as_str(), output.news(9, true).to), ("", 3), "beyond the end is the end");
        let (_folder, long) = self::output("x".repeat(100_000).as_bytes());
        let news = long.news(10_000, true);
        assert!(news.text.contains("... 60000 bytes omitted") && news.text.len() < SHOWN_BYTES_MAX + 500, "{}", news.text.len());
    }

    #[test]
    fn a_filter_keeps_whole_lines_and_waits_for_the_last() {
        let matcher = RegexMatcher::new("err").unwrap();
        let (_folder, output) = output(b"ok\n\x1b[31merr\x1b[0mor one\nfine\nerr tw");
        let news = output.matching(0, true, &matcher, &|| false).unwrap();
        assert_eq!((news.text.as_str(), news.to), ("error one\n", 27));
        let news = output.matching(0, false, &matcher, &|| false).unwrap();
        assert_eq!((news.text.as_str(), news.to), ("error one\nerr tw\n", 33));
        assert_eq!(output.matching(27, true, &matcher, &|| false).unwrap().text, "");
        let many: String = (0..10_000).map(|line| format!("err {line}\n")).collect();
        let (_folder, many) = self::output(many.as_bytes());
        let news = many.matching(0, true, &matcher, &|| false).unwrap();
        assert!(news.text.starts_with("err 0\n") && news.text.ends_with("err 9999\n") && news.text.len() < SHOWN_BYTES_MAX + 500);
        assert!(news.text.contains(" matching lines omitted; full output: "), "{}", news.text.len());
    }
}
