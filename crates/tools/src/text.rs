//! Text on its way to the model: cleaned of what a terminal would act on, and cut to a bound with the cut marked.
//!
//! Text from files and programs is data. Characters that steer a terminal are removed from output; characters that
//! hide or reorder text are shown by their number. Knows nothing of tools.

use std::{
    fs,
    io::{self, BufRead},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::Value;

/// A cut moves at most this far to fall between two lines.
const LINE_SEARCH_BYTES: usize = 200;

/// A title is one line of a list.
const TITLE_CHARS_MAX: usize = 120;

/// What is attached to an outcome for screens is part of an event, which must stay small. As JSON, escapes and all.
const METADATA_BYTES_MAX: usize = 2 * 1024;

/// Comparing letter by letter takes time by the square of the length; longer texts are not what anyone misspelled.
pub(crate) const ALIKE_BYTES_MAX: usize = 1024;
/// A suggestion is worth no more waiting than this.
const ALIKE_TIME_MAX: Duration = Duration::from_millis(100);
/// Compared between two looks at the clock.
const ALIKE_AT_ONCE: usize = 8;

/// A text within its bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capped {
    pub text: String,
    /// Bytes of the middle that are not in `text`; zero when all of it is.
    pub omitted: usize,
}

/// Head and tail of a text within `max` bytes; a third for the head, because what went wrong stands at the end.
/// `note` words the gap, from the number of bytes left out.
pub fn cap(text: &str, max: usize, note: impl Fn(usize) -> String) -> Capped {
    if text.len() <= max {
        return Capped { text: text.to_owned(), omitted: 0 };
    }
    let room = max.saturating_sub(note(text.len()).len() + 2);
    let head = head_end(text, room / 3);
    let tail = tail_start(text, text.len() - (room - room / 3)).max(head);
    let omitted = tail - head;
    Capped { text: format!("{}\n{}\n{}", text[..head].trim_end_matches('\n'), note(omitted), &text[tail..]), omitted }
}

/// Like [`cap`], and the whole text goes to a file in `spool` that the gap names.
pub fn cap_to_spool(text: &str, max: usize, spool: &Path, name: &str) -> io::Result<(Capped, Option<PathBuf>)> {
    if text.len() <= max {
        return Ok((Capped { text: text.to_owned(), omitted: 0 }, None));
    }
    let path = spool_file(spool, name)?;
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&path)
        .and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()))?;
    Ok((cap(text, max, |omitted| gap(omitted as u64, &path)), Some(path)))
}

/// The words in the middle of a long output.
pub(crate) fn gap(omitted: u64, path: &Path) -> String {
    format!("... {omitted} bytes omitted; full output: {} (use read with offset, or grep)", path.display())
}

/// `1 line`, `5 lines`.
pub(crate) fn count(count: u64, of: &str) -> String {
    format!("{count} {of}{}", if count == 1 { "" } else { "s" })
}

/// The first line of a text, short enough for a list.
pub(crate) fn title(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    match line.char_indices().nth(TITLE_CHARS_MAX) {
        None => line.to_owned(),
        Some(_) => line.chars().take(TITLE_CHARS_MAX - 1).chain(['…']).collect(),
    }
}

/// Metadata within its bound: `long`, a text of it, is cut until all fits, and without that everything is left out.
pub(crate) fn small(mut metadata: Value, long: &str) -> Option<Value> {
    let whole = metadata.get(long).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut room = METADATA_BYTES_MAX;
    while METADATA_BYTES_MAX < metadata.to_string().len() {
        if room < METADATA_BYTES_MAX / 32 || whole.is_empty() {
            return None;
        }
        room = room * 3 / 4;
        metadata[long] = cap(&whole, room, |omitted| format!("... {omitted} bytes omitted")).text.into();
    }
    Some(metadata)
}

/// The candidates that look most like a word, the best first; of a great many or of long ones only some are compared.
pub(crate) fn most_alike<'a>(word: &str, candidates: &[&'a str], most: usize, alike: f32) -> Vec<&'a str> {
    let begun = Instant::now();
    let mut best: Vec<&str> = Vec::new();
    if ALIKE_BYTES_MAX < word.len() {
        return best;
    }
    let short: Vec<&str> = candidates.iter().copied().filter(|candidate| candidate.len() <= ALIKE_BYTES_MAX).collect();
    for some in short.chunks(ALIKE_AT_ONCE) {
        best.extend(similar::get_close_matches(word, some, most, alike));
        best = similar::get_close_matches(word, &best, most, alike);
        if ALIKE_TIME_MAX < begun.elapsed() {
            break;
        }
    }
    best
}

/// The path of a file in the spool, which is made private if it is not there yet.
pub(crate) fn spool_file(spool: &Path, name: &str) -> io::Result<PathBuf> {
    if !spool.is_dir() {
        use std::os::unix::fs::DirBuilderExt;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(spool)?;
    }
    let safe: String =
        name.chars().map(|letter| if letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.') { letter } else { '_' }).collect();
    Ok(spool.join(safe.trim_start_matches('.')))
}

fn head_end(text: &str, at: usize) -> usize {
    let at = text.floor_char_boundary(at);
    let from = text.floor_char_boundary(at.saturating_sub(LINE_SEARCH_BYTES));
    text[from..at].rfind('\n').map_or(at, |newline| from + newline + 1)
}

fn tail_start(text: &str, at: usize) -> usize {
    let at = text.ceil_char_boundary(at);
    let to = text.ceil_char_boundary((at + LINE_SEARCH_BYTES).min(text.len()));
    text[at..to].find('\n').map_or(at, |newline| at + newline + 1)
}

/// The output of a program as a person would see it: no escapes, no control characters, overwritten progress lines gone.
pub fn clean(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::with_capacity(text.len());
    let mut line_start = 0;
    // A carriage return takes effect when something is written over the line.
    let mut returned = false;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => skip_escape(&mut letters),
            '\r' => returned = true,
            '\n' => {
                out.push('\n');
                line_start = out.len();
                returned = false;
            }
            control if control.is_control() && control != '\t' => {}
            shown => {
                if std::mem::take(&mut returned) {
                    out.truncate(line_start);
                }
                push_visible(&mut out, shown);
            }
        }
    }
    out
}

fn skip_escape(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match letters.peek() {
        // Colours, cursor: parameters, then one final letter.
        Some('[') => {
            letters.next();
            while letters.next_if(|letter| ('\u{20}'..='\u{3f}').contains(letter)).is_some() {}
            letters.next_if(|letter| ('\u{40}'..='\u{7e}').contains(letter));
        }
        // Titles, links and the like: until BEL or the string's end. A newline ends a broken one.
        Some(']' | 'P' | '_' | '^' | 'X') => {
            letters.next();
            while let Some(letter) = letters.next_if(|letter| *letter != '\n') {
                if letter == '\u{7}' || (letter == '\u{1b}' && letters.next_if_eq(&'\\').is_some()) {
                    return;
                }
            }
        }
        _ => {
            while letters.next_if(|letter| ('\u{20}'..='\u{2f}').contains(letter)).is_some() {}
            letters.next_if(|letter| ('\u{30}'..='\u{7e}').contains(letter));
        }
    }
}

/// One line of a file, with everything that is not seen made visible.
pub(crate) fn visible(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    line.chars().for_each(|letter| push_visible(&mut out, letter));
    out
}

fn push_visible(out: &mut String, letter: char) {
    let hidden = match letter {
        '\t' => false,
        // Zero width and direction. Joiners stay: emoji need them.
        '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}' => true,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{fff9}'..='\u{fffb}' => true,
        // The tag letters that repeat ASCII invisibly, and the variations that can hold any byte.
        '\u{e0000}'..='\u{e0fff}' => true,
        other => other.is_control(),
    };
    if hidden {
        out.push_str(&format!("<U+{:04X}>", u32::from(letter)));
    } else {
        out.push(letter);
    }
}

/// Reads line by line in bounded memory: of an endless line only the first `keep` bytes are kept.
pub(crate) struct Lines<R> {
    input: R,
    keep: usize,
}

/// One line without its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) kept: Vec<u8>,
    /// The length of the whole line in bytes.
    pub(crate) bytes: u64,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(input: R, keep: usize) -> Self {
        Self { input, keep }
    }

    pub(crate) fn next(&mut self) -> io::Result<Option<Line>> {
        let mut line = Line { kept: Vec::new(), bytes: 0 };
        let mut any = false;
        loop {
            let piece = self.input.fill_buf()?;
            if piece.is_empty() {
                return Ok(any.then_some(line));
            }
            any = true;
            let end = piece.iter().position(|byte| *byte == b'\n');
            let text = &piece[..end.unwrap_or(piece.len())];
            let room = self.keep.saturating_sub(line.kept.len());
            line.kept.extend_from_slice(&text[..text.len().min(room)]);
            line.bytes += text.len() as u64;
            let used = text.len() + usize::from(end.is_some());
            self.input.consume(used);
            if end.is_some() {
                return Ok(Some(line));
            }
        }
    }
}

/// Standard base64 with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place)) as usize & 63];
            out.push(if place <= group.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_what_a_person_would_see() {
        for (raw, seen) in [
            ("plain\ttext\n", "plain\ttext\n"),
            ("\x1b[1;31mred\x1b[0m", "red"),
            ("\x1b]0;title\x07after", "after"),
            ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
            ("\x1b(Bcharset \x1b7saved", "charset saved"),
            ("10%\r50%\r100%\nnext\r\n", "100%\nnext\n"),
            ("done\r", "done"),
            ("nul\0 bell\x07 back\x08", "nul bell back"),
            ("bidi \u{202e}txt.exe tag \u{e0041}", "bidi <U+202E>txt.exe tag <U+E0041>"),
            ("marks \u{200f}a\u{200e}b\u{61c}", "marks <U+200F>a<U+200E>b<U+061C>"),
            ("bytes 😀\u{e0101}\u{e01ef}, family 👩\u{200d}👧\u{fe0f}", "bytes 😀<U+E0101><U+E01EF>, family 👩\u{200d}👧\u{fe0f}"),
            ("unseen \u{2063}\u{180e}", "unseen <U+2063><U+180E>"),
            ("broken \x1b[", "broken "),
        ] {
            assert_eq!(clean(raw.as_bytes()), seen, "{raw:?}");
        }
        assert_eq!(clean(b"bad \xff utf-8"), "bad \u{fffd} utf-8");
    }

    #[test]
    fn a_long_text_keeps_head_and_tail_within_the_bound() {
        let text: String = (0..1000).map(|line| format!("line {line}\n")).collect();
        let capped = cap(&text, 600, |omitted| format!("[{omitted} bytes]"));
        assert!(capped.text.len() <= 600, "{}", capped.text.len());
        assert!(capped.text.starts_with("line 0\nline 1\n") && capped.text.ends_with("line 998\nline 999\n"));
        assert!(capped.text.contains(&format!("\n[{} bytes]\n", capped.omitted)));
        assert_eq!(cap("short", 600, |_| String::new()), Capped { text: "short".into(), omitted: 0 });
        // Never inside a letter.
        assert!(cap(&"ü".repeat(1000), 101, |_| "-".into()).text.len() <= 101);
    }

    #[test]
    fn metadata_is_small_as_json_whatever_is_in_it() {
        for text in ["plain\n".repeat(10_000), "\u{1}".repeat(10_000), "\"\\\t".repeat(10_000), "ü".repeat(10_000)] {
            let small = small(serde_json::json!({"path": "a", "diff": text, "n": 1}), "diff").unwrap();
            assert!(small.to_string().len() <= 2048 && small["diff"].as_str().unwrap().contains("bytes omitted"), "{small}");
            assert!(200 < small["diff"].as_str().unwrap().len());
        }
        let fits = serde_json::json!({"path": "a", "diff": "short"});
        assert_eq!(small(fits.clone(), "diff"), Some(fits));
        assert_eq!(small(serde_json::json!({"path": "p".repeat(4096), "diff": "d"}), "diff"), None);
    }

    #[test]
    fn titles_are_one_short_line() {
        assert_eq!(title("  a b\nc"), "a b");
        assert_eq!(title(&"ü".repeat(500)).chars().count(), 120);
        assert!(title(&"ü".repeat(500)).ends_with('…'));
        assert_eq!(title(&"x".repeat(120)), "x".repeat(120));
    }

    #[test]
    fn an_endless_line_is_kept_only_in_part() {
        let text = format!("{}\nb\n\nlast", "a".repeat(100_000));
        let mut lines = Lines::new(io::BufReader::new(text.as_bytes()), 10);
        let mut next = || lines.next().unwrap().map(|line| (String::from_utf8(line.kept).unwrap(), line.bytes));
        assert_eq!(next(), Some(("a".repeat(10), 100_000)));
        assert_eq!([next(), next(), next(), next()], [Some(("b".into(), 1)), Some((String::new(), 0)), Some(("last".into(), 4)), None]);
    }

    #[test]
    fn base64_pads_as_everyone_does() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn the_rest_of_a_long_text_can_be_read_from_the_spool() {
        let spool = tempfile::tempdir().unwrap();
        let text = "word ".repeat(1000);
        let (capped, path) = cap_to_spool(&text, 500, &spool.path().join("new"), "../call_1.txt").unwrap();
        let path = path.unwrap();
        assert!(path.starts_with(spool.path().join("new")));
        assert!(capped.text.contains(&path.display().to_string()));
        assert_eq!(fs::read_to_string(path).unwrap(), text);
    }
}
