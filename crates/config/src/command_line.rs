//! Lines of a prompt that run commands: `/name arguments`. Everything else is text.
//!
//! Which commands exist is not known here; see `command.rs`.

/// A stretch of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// Lines that belong together, as typed.
    Text(String),
    Command {
        /// Without the slash.
        name: String,
        /// What follows the name, as typed.
        arguments: String,
    },
}

/// The stretches of a prompt in order. Blank lines beside a command are nobody's.
pub fn lines(prompt: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut text_from: Option<usize> = None;
    let mut at = 0;
    for line in prompt.split_inclusive('\n') {
        match command(line) {
            Some(command) => {
                lines.extend(text_from.take().and_then(|from| text(&prompt[from..at])));
                lines.push(command);
            }
            None => text_from = text_from.or(Some(at)),
        }
        at += line.len();
    }
    if lines.is_empty() {
        return vec![Line::Text(prompt.to_owned())];
    }
    lines.extend(text_from.and_then(|from| text(&prompt[from..])));
    lines
}

fn text(text: &str) -> Option<Line> {
    let text = text.trim_matches('\n').trim_end();
    (!text.trim().is_empty()).then(|| Line::Text(text.to_owned()))
}

fn command(line: &str) -> Option<Line> {
    let rest = line.strip_prefix('/')?.trim_end();
    let end = rest.find(|letter: char| !is_name_letter(letter)).unwrap_or(rest.len());
    let (name, arguments) = rest.split_at(end);
    let is_name = begins_as_name(name);
    let ends = arguments.is_empty() || arguments.starts_with(' ');
    (is_name && ends).then(|| Line::Command { name: name.to_owned(), arguments: arguments.trim().to_owned() })
}

/// The contract: a letter first, so that `/2 of it` and `/1nope` are text.
pub(crate) fn begins_as_name(name: &str) -> bool {
    name.starts_with(|letter: char| letter.is_ascii_alphabetic())
}

/// What a name may have after the slash; anything more, and a path would be one.
pub(crate) fn is_name_letter(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | ':' | '-')
}
