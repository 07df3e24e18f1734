//! A command's template: read into pieces first, then the arguments are put in as data.
//!
//! Because the pieces are found before any argument is seen, an argument can never become a shell command, a file or a
//! placeholder. Pure: nothing is run and no file is looked for here. How arguments enter a shell line is `quoting.rs`,
//! what `@name` in a prompt means is `mention.rs`.

use std::ops::Range;

use crate::{
    mention::{self, Spot},
    quoting::{Slot, fill},
};

/// A part of an expanded template, in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Text(String),
    /// To be run by `bash -c`, under rules; its output stands here. The arguments are in it, quoted.
    Shell {
        line: String,
    },
    /// `@path` of the template's author. What is no file stays the text `@path`.
    File {
        path: String,
    },
}

/// What is put into a template.
#[derive(Debug, Clone, Copy, Default)]
pub struct Given<'a> {
    /// As typed after the command's name.
    pub arguments: &'a str,
    /// `${NAME}` of the template, as `(NAME, value)`.
    pub variables: &'a [(&'a str, &'a str)],
}

pub fn expand(template: &str, given: Given<'_>) -> Vec<Piece> {
    let template = Template::read(template.trim(), given.variables);
    let arguments = Arguments::new(given.arguments, template.highest());
    let mut out = Out::default();
    for piece in &template.pieces {
        match piece {
            Raw::Text(text) => out.text(text),
            Raw::Slot(reference) => out.text(&arguments.text(reference)),
            Raw::File(bits) => out.file(bits, &arguments),
            Raw::Shell(source) => out.shell(source, &arguments, given.variables),
        }
    }
    let raw = given.arguments.trim();
    if !raw.is_empty() && !template.has_placeholders() {
        out.text(&if out.pieces.is_empty() { raw.to_owned() } else { format!("\n\n{raw}") });
    }
    out.pieces
}

/// The placeholders of a template as lists show them: `$1`, `$2`, `$ARGUMENTS`.
pub fn hints(template: &str) -> Vec<String> {
    let template = Template::read(template, &[]);
    let mut references: Vec<&Reference> = template.references.iter().filter(|reference| reference.is_placeholder()).collect();
    references.sort();
    references.dedup();
    references.into_iter().map(Reference::written).collect()
}

/// Words of the arguments: quoted ones are one word without their quotes.
pub fn words(arguments: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = arguments.trim_start();
    while !rest.is_empty() {
        let end = quoted_end(rest).or_else(|| image_end(rest)).unwrap_or_else(|| rest.find(char::is_whitespace).unwrap_or(rest.len()));
        let word = &rest[..end];
        words.push(if quoted_end(rest).is_some() { word[1..end - 1].to_owned() } else { word.to_owned() });
        rest = rest[end..].trim_start();
    }
    words
}

/// Where a quoted word at the start ends. A quote inside a word is a letter: `doesn't`.
fn quoted_end(text: &str) -> Option<usize> {
    let quote = text.chars().next().filter(|letter| matches!(letter, '"' | '\''))?;
    let end = text[1..].find(quote)? + 2;
    text[end..].chars().next().is_none_or(char::is_whitespace).then_some(end)
}

/// A pasted image stands for itself: `[Image 1]`.
fn image_end(text: &str) -> Option<usize> {
    let number = text.strip_prefix("[Image ")?;
    let digits = number.find(|letter: char| !letter.is_ascii_digit()).filter(|digits| 0 < *digits)?;
    number[digits..].starts_with(']').then_some("[Image ".len() + digits + 1)
}

/// What a template refers to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Reference {
    /// `$1`.
    Number(usize),
    /// `$ARGUMENTS`.
    All,
    /// `$ARGUMENTS[0]`.
    Index(usize),
    /// `${NAME}`, and what it means.
    Variable(String),
}

/// `$1` to `$99`; a longer number is an amount of money.
const DIGITS_MAX: usize = 2;

impl Reference {
    /// At the start of a text, and how long it is.
    fn at(text: &str, variables: &[(&str, &str)]) -> Option<(usize, Self)> {
        let rest = text.strip_prefix('$')?;
        if let Some(after) = rest.strip_prefix("ARGUMENTS") {
            let digits =
                after.strip_prefix('[').map_or(0, |inside| inside.bytes().take_while(u8::is_ascii_digit).take(DIGITS_MAX + 1).count());
            if (1..=DIGITS_MAX).contains(&digits) && after[digits + 1..].starts_with(']') {
                let len = text.len() - after.len() + digits + 2;
                return after[1..=digits].parse().ok().map(|index| (len, Self::Index(index)));
            }
            let ends = after.chars().next().is_none_or(|letter| !letter.is_ascii_alphanumeric() && letter != '_');
            return ends.then(|| (text.len() - after.len(), Self::All));
        }
        if let Some(inside) = rest.strip_prefix('{') {
            let is_here = |name: &str| inside.strip_prefix(name).is_some_and(|after| after.starts_with('}'));
            let (name, value) = variables.iter().find(|(name, _)| is_here(name))?;
            return Some((name.len() + 3, Self::Variable((*value).to_owned())));
        }
        let digits = rest.bytes().take_while(u8::is_ascii_digit).take(DIGITS_MAX + 1).count();
        let number = (digits <= DIGITS_MAX && !rest.starts_with('0')).then(|| rest[..digits].parse().ok()).flatten()?;
        Some((digits + 1, Self::Number(number)))
    }

    fn is_placeholder(&self) -> bool {
        !matches!(self, Self::Variable(_))
    }

    fn written(&self) -> String {
        match self {
            Self::Number(number) => format!("${number}"),
            Self::All => "$ARGUMENTS".to_owned(),
            Self::Index(index) => format!("$ARGUMENTS[{index}]"),
            Self::Variable(value) => value.clone(),
        }
    }
}

struct Arguments {
    raw: String,
    words: Vec<String>,
    highest: usize,
}

impl Arguments {
    fn new(raw: &str, highest: usize) -> Self {
        Self { raw: raw.trim().to_owned(), words: words(raw), highest }
    }

    /// The highest number takes everything that is left.
    fn text(&self, reference: &Reference) -> String {
        let from = |at: usize| self.words.get(at..).unwrap_or_default();
        match reference {
            Reference::Number(number) if *number == self.highest => from(number - 1).join(" "),
            Reference::Number(number) => from(number - 1).first().cloned().unwrap_or_default(),
            Reference::Index(index) => from(*index).first().cloned().unwrap_or_default(),
            Reference::All => self.raw.clone(),
            Reference::Variable(value) => value.clone(),
        }
    }
}

/// A template before anything is put in.
struct Template {
    pieces: Vec<Raw>,
    references: Vec<Reference>,
}

enum Raw {
    Text(String),
    Slot(Reference),
    File(Vec<Bit>),
    Shell(String),
}

/// A piece of a path.
enum Bit {
    Text(String),
    Slot(Reference),
}

impl Template {
    fn read(text: &str, variables: &[(&str, &str)]) -> Self {
        let mut template = Self { pieces: Vec::new(), references: Vec::new() };
        let shells: Vec<Shell> = shells(text).into_iter().filter(|shell| shell.runs).collect();
        let mut from = 0;
        for shell in shells {
            template.words(text, from..shell.whole.start, variables);
            template.shell(&text[shell.line.clone()], variables);
            from = shell.whole.end;
        }
        template.words(text, from..text.len(), variables);
        template
    }

    fn words(&mut self, text: &str, range: Range<usize>, variables: &[(&str, &str)]) {
        let mut at = range.start;
        let mut plain_from = at;
        while at < range.end {
            let rest = &text[at..range.end];
            let step = match rest.as_bytes()[0] {
                b'$' => Reference::at(rest, variables).map(|(len, reference)| (len, Raw::Slot(reference))),
                b'@' => mention::spot(&text[..range.end], at).map(|spot| (spot.len, Raw::File(bits(&spot, variables)))),
                _ => None,
            };
            match step {
                Some((len, piece)) => {
                    self.plain(&text[plain_from..at]);
                    self.note(&piece);
                    self.pieces.push(piece);
                    at += len;
                    plain_from = at;
                }
                None => at += rest.chars().next().map_or(1, char::len_utf8),
            }
        }
        self.plain(&text[plain_from..range.end]);
    }

    fn plain(&mut self, text: &str) {
        if !text.is_empty() {
            self.pieces.push(Raw::Text(text.to_owned()));
        }
    }

    fn note(&mut self, piece: &Raw) {
        match piece {
            Raw::Slot(reference) => self.references.push(reference.clone()),
            Raw::File(bits) => self.references.extend(bits.iter().filter_map(|bit| match bit {
                Bit::Slot(reference) => Some(reference.clone()),
                Bit::Text(_) => None,
            })),
            Raw::Text(_) | Raw::Shell(_) => {}
        }
    }

    fn shell(&mut self, source: &str, variables: &[(&str, &str)]) {
        let slot_at = |rest: &str| Reference::at(rest, variables).map(|(len, _)| Slot { len, words: Vec::new(), ours: false });
        // A line that cannot be filled still shows where its author wants the arguments.
        let slots = match fill(source, &slot_at) {
            Ok(filled) => filled.slots,
            Err(_) => source.char_indices().map(|(at, _)| at).filter(|at| slot_at(&source[*at..]).is_some()).collect(),
        };
        self.references.extend(slots.iter().filter_map(|at| Reference::at(&source[*at..], variables)).map(|(_, reference)| reference));
        self.pieces.push(Raw::Shell(source.to_owned()));
    }

    fn highest(&self) -> usize {
        let numbers =
            self.references.iter().filter_map(|reference| if let Reference::Number(number) = reference { Some(*number) } else { None });
        numbers.max().unwrap_or_default()
    }

    fn has_placeholders(&self) -> bool {
        self.references.iter().any(Reference::is_placeholder)
    }
}

fn bits(spot: &Spot<'_>, variables: &[(&str, &str)]) -> Vec<Bit> {
    let mut bits = Vec::new();
    let mut text = String::new();
    let mut rest = spot.name;
    while let Some(letter) = rest.chars().next() {
        if let Some((len, reference)) = Reference::at(rest, variables) {
            if !text.is_empty() {
                bits.push(Bit::Text(std::mem::take(&mut text)));
            }
            bits.push(Bit::Slot(reference));
            rest = &rest[len..];
        } else {
            text.push(letter);
            rest = &rest[letter.len_utf8()..];
        }
    }
    if !text.is_empty() {
        bits.push(Bit::Text(text));
    }
    bits
}

#[derive(Default)]
struct Out {
    pieces: Vec<Piece>,
}

impl Out {
    fn text(&mut self, text: &str) {
        match self.pieces.last_mut() {
            _ if text.is_empty() => {}
            Some(Piece::Text(before)) => before.push_str(text),
            _ => self.pieces.push(Piece::Text(text.to_owned())),
        }
    }

    fn file(&mut self, bits: &[Bit], arguments: &Arguments) {
        // `@$ARGUMENTS` names every file that was typed.
        let paths = match bits {
            [Bit::Slot(Reference::All)] => arguments.words.clone(),
            _ => vec![
                bits.iter()
                    .map(|bit| match bit {
                        Bit::Text(text) => text.clone(),
                        Bit::Slot(reference) => arguments.text(reference),
                    })
                    .collect(),
            ],
        };
        for (at, path) in paths.into_iter().filter(|path| !path.is_empty()).enumerate() {
            if 0 < at {
                self.text(" ");
            }
            self.pieces.push(Piece::File { path });
        }
    }

    fn shell(&mut self, source: &str, arguments: &Arguments, variables: &[(&str, &str)]) {
        let slot_at = |rest: &str| {
            let (len, reference) = Reference::at(rest, variables)?;
            let words = if reference == Reference::All { arguments.words.clone() } else { vec![arguments.text(&reference)] };
            Some(Slot { len, words, ours: !reference.is_placeholder() })
        };
        if !source.char_indices().any(|(at, _)| slot_at(&source[at..]).is_some()) {
            self.pieces.push(Piece::Shell { line: source.to_owned() });
            return;
        }
        match fill(source, &slot_at) {
            Ok(filled) => self.pieces.push(Piece::Shell { line: filled.line }),
            Err(reason) => self.text(&format!(
                "`{source}` (not run: {reason}, so it is not certain that the arguments stay data; the command's author can write \"$1\" as a word of a plain command)"
            )),
        }
    }
}

/// A command in a text: `` !`cmd` ``, or a block that begins with a line `` ```! ``.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shell {
    pub(crate) whole: Range<usize>,
    pub(crate) line: Range<usize>,
    /// Closed, not empty, and where a command may stand. The others are only looked at, never run.
    pub(crate) runs: bool,
}

/// All that looks like a command. Trust in a folder is bound to these, so nothing else may look for commands.
pub(crate) fn shells(text: &str) -> Vec<Shell> {
    let mut shells = Vec::new();
    let mut from = 0;
    // Each kind is looked for again only after it was passed, so that a long text is read twice at most.
    let (mut inline, mut block) = (text.find("!`"), text.find("```!"));
    loop {
        let again = |known: Option<usize>, open: &str| match known {
            Some(at) if at < from => text[from..].find(open).map(|at| from + at),
            known => known,
        };
        (inline, block) = (again(inline, "!`"), again(block, "```!"));
        let kinds = [inline.map(|at| (at, "!`", "`")), block.map(|at| (at, "```!", "```"))];
        let Some((start, open, close)) = kinds.into_iter().flatten().min_by_key(|(at, _, _)| *at) else { return shells };
        let line_start = start + open.len();
        let end = text[line_start..].find(close).map(|end| line_start + end);
        let line = line_start..end.unwrap_or(text.len());
        let whole = start..end.map_or(text.len(), |end| end + close.len());
        let inside = &text[line.clone()];
        let is_block = open != "!`";
        let stands_right = !is_block || text[..start].ends_with('\n') || start == 0;
        let runs = end.is_some() && !inside.trim().is_empty() && stands_right && (!is_block || begins_with_line_end(inside));
        from = whole.end;
        let line = if is_block && runs { trimmed(text, line) } else { line };
        shells.push(Shell { whole, line, runs });
    }
}

fn begins_with_line_end(text: &str) -> bool {
    text.find('\n').is_some_and(|end| text[..end].trim().is_empty())
}

fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let inside = &text[range.clone()];
    let start = range.start + (inside.len() - inside.trim_start().len());
    start..start + inside.trim().len()
}
