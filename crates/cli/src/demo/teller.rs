//! What the demo tells, line by line, and the checks of it: nothing is told that was not looked at.
//!
//! On a terminal the tree of agents is drawn below the lines while they work; elsewhere there are lines only, without
//! colour. Knows nothing of what the demo does.

use std::{
    fmt::Debug,
    io::{self, IsTerminal as _, Write as _},
};

use crate::{narrate::screen, print::safe};

/// Longer lines of commands are cut: the demo is to be read at a glance.
const COLUMNS: usize = 100;

/// Why the demo does not go on.
#[derive(Debug)]
pub(super) enum Stop {
    /// Something is not as told: what, what was expected, what was found.
    Untrue { what: String, expected: String, found: String },
    /// Something around the demo does not work, in words that say what to do.
    Trouble(String),
    /// Nobody reads any more, or what is told cannot be written.
    Unheard(io::Error),
}

impl Stop {
    pub(super) fn words(&self) -> String {
        match self {
            Self::Untrue { what, expected, found } => {
                format!("this is not as told: {what}\n  expected: {expected}\n  found:    {found}")
            }
            Self::Trouble(words) => words.clone(),
            Self::Unheard(error) => format!("stdout cannot be written: {error}"),
        }
    }
}

pub(super) struct Teller {
    /// Lines and the picture share a terminal.
    draws: bool,
    colour: bool,
    columns: usize,
    /// A folder with a long name, and the short one by which it is told.
    folder: String,
    checks: usize,
}

/// The name by which the demo's folder is told.
pub(super) const FOLDER: &str = "DEMO";

impl Teller {
    pub(super) fn new(folder: String) -> Self {
        let terminal = io::stdout().is_terminal();
        let draws = terminal && screen::can_draw();
        let colour = draws && std::env::var_os("NO_COLOR").is_none_or(|said| said.is_empty());
        let columns = if draws { screen::size().0.min(COLUMNS) } else { COLUMNS };
        Self { draws, colour, columns, folder, checks: 0 }
    }

    /// Somebody looks on: then the demo takes its time.
    pub(super) fn is_watched(&self) -> bool {
        self.draws
    }

    pub(super) fn checks(&self) -> usize {
        self.checks
    }

    pub(super) fn line(&self, line: &str) -> Result<(), Stop> {
        if self.draws {
            screen::line(line);
            return Ok(());
        }
        let mut out = io::stdout().lock();
        writeln!(out, "{line}").and_then(|()| out.flush()).map_err(Stop::Unheard)
    }

    pub(super) fn act(&self, number: usize, headline: &str) -> Result<(), Stop> {
        self.line("")?;
        self.line(&self.painted("1", &format!("{number}. {headline}")))
    }

    /// What a user would type.
    pub(super) fn command(&self, command: &str) -> Result<(), Stop> {
        self.line(&self.painted("36", &format!("$ {}", self.short(command))))
    }

    /// What a command has printed.
    pub(super) fn printed(&self, text: &str) -> Result<(), Stop> {
        text.lines().try_for_each(|line| self.line(&screen::cut(&format!("  {}", self.short(line)), self.columns)))
    }

    /// The tree as it is now, below everything that was told; only on a terminal.
    pub(super) fn draw(&self, tree: &str) {
        if self.draws {
            screen::draw(tree.lines().map(|line| screen::cut(&format!("  {}", self.short(line)), self.columns)).collect());
        }
    }

    /// Takes the picture away.
    pub(super) fn clear(&self) {
        if self.draws {
            screen::finish(&[]);
        }
    }

    /// Says that something is as told, if it is.
    pub(super) fn check<T: PartialEq + Debug>(&mut self, what: &str, expected: &T, found: &T) -> Result<(), Stop> {
        if expected != found {
            let words = |value: &T| self.short(&format!("{value:?}"));
            return Err(Stop::Untrue { what: what.to_owned(), expected: words(expected), found: words(found) });
        }
        self.checks += 1;
        self.line(&format!("  {} {what}", self.painted("32", "✓")))
    }

    fn painted(&self, colour: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn short(&self, text: &str) -> String {
        safe(&shortened(&text.replace(&self.folder, FOLDER)))
    }
}

/// What comes after the prefix of an id, and what is left of it: its end, for what is made together begins alike.
const ID_LETTERS: usize = 26;
const ID_SHOWN: usize = 5;

/// The text with short ids, which a reader can tell apart at a glance.
fn shortened(text: &str) -> String {
    let (mut shown, mut rest) = (String::new(), text);
    while let Some(at) = ["ses_", "ask_", "call_"].iter().filter_map(|prefix| Some(rest.find(prefix)? + prefix.len())).min() {
        let (before, after) = rest.split_at(at);
        shown.push_str(before);
        let id = after.get(..ID_LETTERS).filter(|id| id.bytes().all(|letter| letter.is_ascii_alphanumeric()));
        if let Some(id) = id {
            shown.push('…');
            shown.push_str(&id[ID_LETTERS - ID_SHOWN..]);
        }
        rest = &after[id.map_or(0, str::len)..];
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_told_by_their_end_and_nothing_else_changes() {
        let text = "ses_01M7J7WPRJDZWGEEAY8B8T0RCZ asks ask_01M7J7WQ1D6DMMQPWQ962VWMRZ, ses_01 and é in a/ses_01m7j7wpsaqm0jhyd6hc428akd/f";
        assert_eq!(shortened(text), "ses_…T0RCZ asks ask_…VWMRZ, ses_01 and é in a/ses_…28akd/f");
    }
}
