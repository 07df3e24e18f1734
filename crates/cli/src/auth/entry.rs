//! Reading a key: from a pipe, or typed at a terminal that does not show it. Never an argument.
//!
//! The words of an error say what is wrong with a key and never what it is.

use std::{
    io::{IsTerminal as _, Read as _, Stdin, Write as _},
    os::fd::AsFd as _,
};

use rustix::{
    io::Errno,
    termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr},
};

use crate::exit::{Exit, Failure};

/// Longer than any key; a file that was piped in by mistake is larger.
const KEY_BYTES_MAX: usize = 16 * 1024;

/// What a terminal sends for these when it does not act on them itself.
const CTRL_C: u8 = 0x03;
const CTRL_D: u8 = 0x04;
const CTRL_H: u8 = 0x08;
const CTRL_U: u8 = 0x15;
const DELETE: u8 = 0x7f;

pub(crate) fn key_for(provider: &str) -> Result<String, Failure> {
    let stdin = std::io::stdin();
    let bytes = if stdin.is_terminal() { typed(provider, &stdin)? } else { piped(&stdin)? };
    checked(&bytes).map_err(|words| Failure::usage(format!("{words}; nothing was kept")))
}

fn piped(stdin: &Stdin) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = stdin.lock().take(KEY_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::failed(format!("stdin cannot be read: {error}")))?;
    Ok(bytes)
}

fn typed(provider: &str, stdin: &Stdin) -> Result<Vec<u8>, Failure> {
    let unusable = |error: Errno| Failure::failed(format!("the terminal cannot hide what is typed: {error}; pipe the key in instead"));
    let hidden = Hidden::begin(stdin).map_err(unusable)?;
    say(&format!("Key for {provider} (not shown): "));
    let line = line_of(|| {
        let mut byte = [0];
        match rustix::io::read(stdin, &mut byte) {
            Ok(1) => Some(Some(byte[0])),
            Err(Errno::INTR) => Some(None),
            _ => None,
        }
    });
    drop(hidden);
    say("\n");
    line.ok_or_else(|| Failure::ended(Exit::Interrupted, "interrupted; nothing was kept"))
}

/// Bytes up to the end of the line, with the corrections that people make; `None` when they gave up.
fn line_of(mut next: impl FnMut() -> Option<Option<u8>>) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    while let Some(byte) = next() {
        match byte {
            Some(b'\r' | b'\n' | CTRL_D) => break,
            Some(CTRL_C) => return None,
            Some(CTRL_U) => line.clear(),
            Some(CTRL_H | DELETE) => drop(line.pop()),
            Some(byte) if line.len() <= KEY_BYTES_MAX => line.push(byte),
            Some(_) | None => {}
        }
    }
    Some(line)
}

fn checked(bytes: &[u8]) -> Result<String, String> {
    if KEY_BYTES_MAX < bytes.len() {
        return Err(format!("a key has at most {KEY_BYTES_MAX} bytes, and this is more"));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "a key is text, and this is not".to_owned())?.trim();
    if text.is_empty() {
        return Err("no key was given; type it at a terminal, or pipe it in".to_owned());
    }
    // A header can carry nothing else, and a second line is a second key or a comment.
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("a key is one word of plain letters, digits and signs, and this is more".to_owned());
    }
    Ok(text.to_owned())
}

/// A terminal that neither shows nor acts on what is typed, until this is dropped.
///
/// Ctrl-C comes as a letter too: as a signal it would end the process with the terminal still mute.
struct Hidden<'a> {
    terminal: &'a Stdin,
    before: Termios,
}

impl<'a> Hidden<'a> {
    fn begin(terminal: &'a Stdin) -> Result<Self, Errno> {
        let before = tcgetattr(terminal.as_fd())?;
        let mut mute = before.clone();
        mute.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG);
        // What was typed before it was asked for is not the key.
        tcsetattr(terminal.as_fd(), OptionalActions::Flush, &mute)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Hidden<'_> {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        let _ = tcsetattr(self.terminal.as_fd(), OptionalActions::Flush, &self.before);
    }
}

/// To the person; if it cannot be written there is nobody to tell.
fn say(words: &str) {
    let mut err = std::io::stderr().lock();
    let _ = err.write_all(words.as_bytes()).and_then(|()| err.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(typed: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = typed.iter();
        line_of(|| bytes.next().map(|byte| Some(*byte)))
    }

    #[test]
    fn a_line_can_be_corrected_and_given_up() {
        assert_eq!(line(b"sk-1\nrest"), Some(b"sk-1".to_vec()));
        assert_eq!(line(b"sx\x7fk-1\r"), Some(b"sk-1".to_vec()));
        assert_eq!(line(b"wrong\x15sk-1\x04"), Some(b"sk-1".to_vec()));
        assert_eq!(line(b"sk-1\x03\n"), None);
        assert_eq!(line(b"no end"), Some(b"no end".to_vec()));
    }

    #[test]
    fn a_key_is_one_plain_word_and_is_not_repeated_when_it_is_wrong() {
        assert_eq!(checked(b"  sk-ant-123_x.y=\r\n"), Ok("sk-ant-123_x.y=".to_owned()));
        for wrong in
            [&b""[..], b" \n", b"sk-secret two", b"sk-secret\nsecond", b"sk-secret\x1b[2J", "sk-sécret".as_bytes(), b"sk-secret\xff"]
        {
            let words = checked(wrong).unwrap_err();
            assert!(!words.contains("secret") && !words.contains("cret"), "{words}");
        }
        assert!(checked(&vec![b'k'; KEY_BYTES_MAX + 1]).is_err());
    }
}
