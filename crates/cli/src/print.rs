//! Writing to stdout and stderr without falling over when nobody reads any more.

use std::io::{ErrorKind, Write as _};

/// A line to stdout. A reader that went away ends the process quietly, as it would a shell tool.
pub(crate) fn to_stdout(line: &str) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = writeln!(out, "{line}").and_then(|()| out.flush())
        && error.kind() == ErrorKind::BrokenPipe
    {
        std::process::exit(0);
    }
}

/// A line to stderr; if it cannot be written there is nobody to tell.
pub(crate) fn to_stderr(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
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
