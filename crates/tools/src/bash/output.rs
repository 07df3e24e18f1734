//! What a command printed, read from its spool file: head and tail for the model, pieces for whoever is looking.
//!
//! The file may be a gigabyte; never more than a few windows of it are in memory.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use crate::{
    files::{open_regular, open_regular_with},
    private::Private,
    text::{cap, clean, gap},
};

/// What the model sees of one command: about 7,500 tokens.
const SHOWN_BYTES_MAX: usize = 30_000;
/// The head says what began, the tail what went wrong.
const HEAD_BYTES: usize = 10_000;
const TAIL_BYTES: usize = SHOWN_BYTES_MAX - HEAD_BYTES;
/// What is shown live at once; a flood is shown in samples.
const PIECE_BYTES_MAX: usize = 8 * 1024;

/// The spool file of one command.
pub(super) struct Output {
    pub(super) path: PathBuf,
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
    pub(super) fn new(path: PathBuf, private: Private) -> Self {
        Self { path, shown: 0, private }
    }

    pub(super) fn bytes(&self) -> u64 {
        fs::symlink_metadata(&self.path).map_or(0, |metadata| metadata.len())
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
        let text = read(&self.path, bytes, &self.private);
        if bytes <= SHOWN_BYTES_MAX as u64 && text.omitted == 0 {
            // A file that is still there costs a little space, nothing else.
            let _ = fs::remove_file(&self.path);
            return Kept { text: text.text, path: None };
        }
        Kept { text: text.text, path: Some(self.path) }
    }

    /// The spool never holds more than its bound, however fast it was written.
    pub(super) fn cut_to(&self, bytes: u64) {
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

fn read(path: &Path, bytes: u64, private: &Private) -> crate::text::Capped {
    let part = |from: u64, length: usize| {
        window(path, from, length, private).map_or_else(|error| format!("(the output cannot be read: {error})"), |bytes| clean(&bytes))
    };
    if bytes <= SHOWN_BYTES_MAX as u64 {
        // Letters that were no UTF-8 may have grown in cleaning.
        return cap(&part(0, SHOWN_BYTES_MAX), SHOWN_BYTES_MAX, |omitted| gap(omitted as u64, path));
    }
    let words = gap(bytes - SHOWN_BYTES_MAX as u64, path);
    let half = |text: String, max: usize| cap(&text, max, |_| "...".to_owned()).text;
    let head = half(part(0, HEAD_BYTES), HEAD_BYTES);
    let tail = half(part(bytes - TAIL_BYTES as u64, TAIL_BYTES), TAIL_BYTES);
    let text = format!("{}\n{words}\n{}", head.trim_end_matches('\n'), tail.trim_start_matches('\u{fffd}'));
    crate::text::Capped { text, omitted: usize::try_from(bytes).unwrap_or(usize::MAX) - SHOWN_BYTES_MAX }
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
    fn live_pieces_follow_the_file_and_never_split_a_letter() {
        let (_folder, mut output) = output("grün".as_bytes());
        fs::write(&output.path, &"grün".as_bytes()[..3]).unwrap();
        assert_eq!(output.next_piece(), Some("gr".into()));
        fs::write(&output.path, "grün").unwrap();
        assert_eq!([output.next_piece(), output.next_piece()], [Some("ün".into()), None]);
        fs::write(&output.path, "x".repeat(100_000)).unwrap();
        assert_eq!(output.next_piece().unwrap().len(), PIECE_BYTES_MAX);
    }
}
