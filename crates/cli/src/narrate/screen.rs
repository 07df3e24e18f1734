//! The bottom of the terminal on stderr: a picture that is drawn over while work goes on, and lines that stay above it.
//!
//! Everything posse writes to stderr goes through here, so that no line is garbled. Who needs the terminal for itself (a
//! question to the person at it) holds a [`Still`]: the picture is gone until it is dropped. Knows nothing of agents.

use std::{
    io::Write as _,
    sync::{Mutex, MutexGuard, PoisonError},
};

use rustix::termios::tcgetwinsize;

/// A terminal that does not say how large it is.
const SIZE: (usize, usize) = (80, 24);

struct Screen {
    /// The picture as it was last drawn, or would be.
    picture: Vec<String>,
    /// The widths of its lines that are on the terminal now.
    drawn: Vec<usize>,
    /// How many hold it still.
    still: usize,
}

static SCREEN: Mutex<Screen> = Mutex::new(Screen { picture: Vec::new(), drawn: Vec::new(), still: 0 });

fn screen() -> MutexGuard<'static, Screen> {
    SCREEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A line that stays. If it cannot be written there is nobody to tell.
pub(crate) fn line(line: &str) {
    screen().put(&format!("{line}\n"));
}

/// Draws the picture anew, in the place of the last one.
pub(crate) fn draw(picture: Vec<String>) {
    let mut screen = screen();
    if screen.picture != picture {
        screen.picture = picture;
        screen.put("");
    }
}

/// Takes the picture away and leaves these lines for good.
pub(crate) fn finish(lines: &[String]) {
    let mut screen = screen();
    screen.picture.clear();
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    screen.put(&lines);
}

/// Holds the terminal for its owner: nothing is drawn until it is dropped.
pub(crate) struct Still(());

pub(crate) fn still() -> Still {
    let mut screen = screen();
    screen.still += 1;
    screen.put("");
    Still(())
}

impl Drop for Still {
    fn drop(&mut self) {
        let mut screen = screen();
        screen.still = screen.still.saturating_sub(1);
        screen.put("");
    }
}

impl Screen {
    /// Writes what stays, then the picture below it, in one piece.
    fn put(&mut self, lasting: &str) {
        let bytes = self.redrawn(lasting, size().0);
        if !bytes.is_empty() {
            let mut err = std::io::stderr().lock();
            let _ = err.write_all(bytes.as_bytes()).and_then(|()| err.flush());
        }
    }

    fn redrawn(&mut self, lasting: &str, columns: usize) -> String {
        // A terminal that was made narrower has wrapped what was drawn on it.
        let rows: usize = self.drawn.iter().map(|width| width.div_ceil(columns).max(1)).sum();
        let erase = if rows == 0 { String::new() } else { format!("\x1b[{rows}A\r\x1b[J") };
        let shown: &[String] = if self.still == 0 { &self.picture } else { &[] };
        self.drawn = shown.iter().map(|line| width(line)).collect();
        let picture: String = shown.iter().map(|line| format!("{line}\n")).collect();
        format!("{erase}{lasting}{picture}")
    }
}

/// Whether a picture can be drawn over: a terminal that understands how to move.
pub(crate) fn can_draw() -> bool {
    use std::io::IsTerminal as _;
    std::io::stderr().is_terminal() && std::env::var("TERM").is_ok_and(|term| !term.is_empty() && term != "dumb")
}

/// Columns and rows.
pub(crate) fn size() -> (usize, usize) {
    match tcgetwinsize(std::io::stderr()) {
        Ok(size) if 0 < size.ws_col && 0 < size.ws_row => (size.ws_col.into(), size.ws_row.into()),
        _ => SIZE,
    }
}

/// The line without what would not fit: a picture whose lines wrap cannot be drawn over.
pub(crate) fn cut(line: &str, columns: usize) -> String {
    if width(line) <= columns {
        return line.to_owned();
    }
    let mut left = columns.saturating_sub(1);
    let fits = |letter: &char| {
        let fits = letter_width(*letter) <= left;
        left = if fits { left - letter_width(*letter) } else { 0 };
        fits
    };
    let kept: String = line.chars().take_while(fits).collect();
    format!("{kept}…")
}

/// The columns a line takes on a terminal.
fn width(line: &str) -> usize {
    line.chars().map(letter_width).sum()
}

fn letter_width(letter: char) -> usize {
    1 + usize::from(is_wide(letter))
}

/// Letters that take two columns on a terminal.
fn is_wide(letter: char) -> bool {
    matches!(u32::from(letter),
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xff60
        | 0xffe0..=0xffe6 | 0x1f300..=0x1faff | 0x20000..=0x3fffd)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a terminal shows after these bytes: lines, the cursor movements that are used here, nothing else.
    fn seen(bytes: &str) -> Vec<String> {
        let (mut rows, mut row): (Vec<String>, usize) = (vec![String::new()], 0);
        let mut letters = bytes.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '\n' => {
                    row += 1;
                    rows.resize(rows.len().max(row + 1), String::new());
                }
                '\r' => {}
                '\x1b' => {
                    let code: String = std::iter::from_fn(|| letters.next_if(|next| !next.is_ascii_alphabetic())).collect();
                    match letters.next() {
                        Some('A') => row -= code.trim_start_matches('[').parse::<usize>().unwrap(),
                        Some('J') => rows[row..].iter_mut().for_each(String::clear),
                        other => panic!("{other:?}"),
                    }
                }
                letter => rows[row].push(letter),
            }
        }
        while rows.last().is_some_and(String::is_empty) {
            rows.pop();
        }
        rows
    }

    #[test]
    fn a_picture_is_drawn_over_and_lines_stay_above_it() {
        let mut screen = Screen { picture: Vec::new(), drawn: Vec::new(), still: 0 };
        let mut bytes = screen.redrawn("first\n", 80);
        screen.picture = vec!["a".into(), "b".into()];
        bytes += &screen.redrawn("", 80);
        assert_eq!(seen(&bytes), ["first", "a", "b"]);
        screen.picture = vec!["c".into()];
        bytes += &screen.redrawn("", 80);
        assert_eq!(seen(&bytes), ["first", "c"], "a shorter picture leaves nothing of the longer one");
        bytes += &screen.redrawn("second\n", 80);
        assert_eq!(seen(&bytes), ["first", "second", "c"]);

        screen.still = 1;
        bytes += &screen.redrawn("", 80);
        bytes += &screen.redrawn("a question\n", 80);
        screen.picture = vec!["d".into()];
        bytes += &screen.redrawn("", 80);
        assert_eq!(seen(&bytes), ["first", "second", "a question"], "nothing is drawn while somebody is asked");
        screen.still = 0;
        bytes += &screen.redrawn("", 80);
        assert_eq!(seen(&bytes), ["first", "second", "a question", "d"]);
        screen.picture.clear();
        bytes += &screen.redrawn("the end\n", 80);
        assert_eq!(seen(&bytes), ["first", "second", "a question", "the end"]);
    }

    #[test]
    fn a_picture_on_a_terminal_that_was_made_narrower_is_drawn_over_whole() {
        let mut screen = Screen { picture: vec!["twelve wide.".into(), String::new()], drawn: Vec::new(), still: 0 };
        assert_eq!(screen.redrawn("", 12), "twelve wide.\n\n");
        assert_eq!(screen.redrawn("", 12), "\x1b[2A\r\x1b[Jtwelve wide.\n\n");
        assert_eq!(screen.redrawn("", 5), "\x1b[4A\r\x1b[Jtwelve wide.\n\n", "three rows and one");
    }

    #[test]
    fn a_line_never_wraps() {
        for (line, columns, expected) in [
            ("short", 10, "short"),
            ("exactly ten", 11, "exactly ten"),
            ("exactly ten", 10, "exactly t…"),
            ("├─ ✓ tests", 6, "├─ ✓ …"),
            ("日本語です", 6, "日本…"),
            ("日本語です", 10, "日本語です"),
            ("abc", 1, "…"),
        ] {
            assert_eq!(cut(line, columns), expected, "{line} in {columns}");
        }
    }
}
