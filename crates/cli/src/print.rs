//! Writing to stdout and stderr without falling over when nobody reads any more, or nobody reads at all.

use std::{
    io::{self, ErrorKind, Write as _},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::{mpsc, watch};

/// Lines that wait for a reader that is slow; beyond them the writer waits, and nobody else does.
const LINES_MAX: usize = 256;

static PRINTED: AtomicBool = AtomicBool::new(false);

/// Whether anything went to stdout.
pub(crate) fn has_printed() -> bool {
    PRINTED.load(Ordering::Relaxed)
}

/// What a command that only reads has said while it may still begin again (`main.rs`).
static HELD: Mutex<Option<String>> = Mutex::new(None);

/// A screen a thousand times over. Who says more is read meanwhile, and does not begin again.
const HELD_BYTES_MAX: usize = 1024 * 1024;

/// From here on lines wait for [`release`]; those that wait already are forgotten.
pub(crate) fn hold() {
    *HELD.lock().unwrap_or_else(PoisonError::into_inner) = Some(String::new());
}

/// Says what was held.
pub(crate) fn release() {
    let held = HELD.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
    if !held.is_empty() {
        to_stdout_part(&held);
    }
}

fn is_held(pieces: &[&str]) -> bool {
    let mut waiting = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(held) = &mut *waiting else { return false };
    if held.len() + pieces.iter().map(|piece| piece.len()).sum::<usize>() <= HELD_BYTES_MAX {
        held.extend(pieces.iter().copied());
        return true;
    }
    drop(waiting);
    release();
    false
}

/// A line to stdout, for commands that only list things. A reader that went away ends the process quietly, as it would a
/// shell tool; any other trouble is a failure, because an answer that nobody got must not look like success.
pub(crate) fn to_stdout(line: &str) {
    if !is_held(&[line, "\n"]) {
        or_end(write_line(line));
    }
}

/// A piece of a line.
pub(crate) fn to_stdout_part(piece: &str) {
    if !is_held(&[piece]) {
        PRINTED.store(true, Ordering::Relaxed);
        let mut out = io::stdout().lock();
        or_end(out.write_all(piece.as_bytes()).and_then(|()| out.flush()));
    }
}

fn or_end(written: io::Result<()>) {
    let Err(error) = written else { return };
    if error.kind() == ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    to_stderr(&unwritable(&error));
    std::process::exit(1);
}

/// A line to stderr, above the picture if one is drawn there; if it cannot be written there is nobody to tell.
pub(crate) fn to_stderr(line: &str) {
    crate::narrate::screen::line(line);
}

fn write_line(line: &str) -> io::Result<()> {
    PRINTED.store(true, Ordering::Relaxed);
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush())
}

fn unwritable(error: &io::Error) -> String {
    format!("posse: stdout cannot be written: {error}; nothing is lost, `posse sessions list` shows the session")
}

/// Stdout of a run: lines go through a thread of their own, so that a reader that does not read never stops the run,
/// its signals or its tools.
#[derive(Clone)]
pub(crate) struct Out {
    lines: mpsc::Sender<String>,
    ended: watch::Receiver<Option<Arc<io::Result<()>>>>,
}

impl Out {
    pub(crate) fn start() -> Self {
        let (lines, mut waiting) = mpsc::channel::<String>(LINES_MAX);
        let (end, ended) = watch::channel(None);
        std::thread::spawn(move || {
            let mut written = Ok(());
            while let Some(line) = waiting.blocking_recv() {
                written = write_line(&line);
                if written.is_err() {
                    break;
                }
            }
            let _ = end.send(Some(Arc::new(written)));
        });
        Self { lines, ended }
    }

    /// Waits for room; a line nobody can get is dropped.
    pub(crate) async fn line(&self, line: String) {
        let _ = self.lines.send(line).await;
    }

    /// Ready when stdout cannot be written any more.
    pub(crate) async fn broken(&self) {
        let mut ended = self.ended.clone();
        if ended.wait_for(Option::is_some).await.is_err() {
            std::future::pending().await
        }
    }

    /// Waits until everything is written. `false`: it could not be, and stderr says why unless the reader just left.
    pub(crate) async fn close(self) -> bool {
        drop(self.lines);
        let mut ended = self.ended;
        let Ok(end) = ended.wait_for(Option::is_some).await.map(|end| end.clone()) else { return false };
        match end.as_deref() {
            Some(Err(error)) => {
                if error.kind() != ErrorKind::BrokenPipe {
                    to_stderr(&unwritable(error));
                }
                false
            }
            _ => true,
        }
    }
}

/// Text of others for a terminal: control characters, escapes and invisible marks are shown, not obeyed.
pub(crate) fn safe(text: &str) -> String {
    text.chars()
        .map(|letter| match letter {
            '\n' | '\t' => letter,
            letter if letter.is_control() => '\u{fffd}',
            '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}' => '\u{fffd}',
            letter => letter,
        })
        .collect()
}

/// The same on one line, whatever is in it.
pub(crate) fn flat(text: &str) -> String {
    safe(&text.replace('\n', "⏎"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_begins_no_line_and_moves_no_cursor() {
        assert_eq!(safe("a\nb\x1b[2J\u{202e}c"), "a\nb\u{fffd}[2J\u{fffd}c");
        assert_eq!(flat("a\nb\r\x1b"), "a⏎b\u{fffd}\u{fffd}");
    }
}
