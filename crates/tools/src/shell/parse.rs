//! The fence around the one parser: what goes in is bounded, what comes out is a tree or a reason to ask.
//!
//! `brush-parser` reads most of bash right. Where it is known to read something else than bash does, the text is
//! refused here, before or after parsing; each refusal says which difference it is about. Its grammars backtrack and
//! recurse, so nesting is bounded before it starts.

use std::{
    borrow::Cow,
    panic::{AssertUnwindSafe, catch_unwind},
};

use brush_parser::{
    Parser, ParserOptions,
    ast::Program,
    word::{self, WordPieceWithSource},
};

use super::documents::{Documents, documents, plain_arithmetic};

/// Each level may triple the time of the word grammar; people stop at three.
const NESTING_MAX: usize = 8;

/// `${a[${b}]}`: every level is tried by some twenty alternatives.
const PARAMETER_NESTING_MAX: usize = 3;

/// Parentheses, braces and keywords of any kind, each many stack frames of the parser.
const GROUPS_MAX: usize = 20;

/// Parentheses inside an expansion, where each is tried as a subshell and as text.
const INNER_GROUPS_MAX: usize = 8;

/// `[[ a && b && c ]]` is a tree as deep as it is long.
const TESTS_MAX: usize = 200;

/// Digits the parser turns into a number without looking.
const DIGITS_MAX: usize = 9;

/// Why a text is not read; for people.
pub(super) type Refusal = &'static str;

/// How much work it is to read this, by what was measured: the parser pays for each token, and most for operators.
pub(super) fn effort(text: &str) -> usize {
    let mut before = b' ';
    let mut effort = text.len() / 3;
    let tokens = if text.contains("<<") { Cow::Owned(documents(text).without_bodies) } else { Cow::Borrowed(text) };
    for &byte in tokens.as_bytes() {
        effort += match byte {
            b' ' | b'\t' => 6 * usize::from(before != byte),
            b'\n' => 11,
            b';' | b'|' | b'&' | b'(' | b')' | b'<' | b'>' => 14,
            _ => 0,
        };
        before = byte;
    }
    effort
}

/// The same for one word: each expansion is tried in some twenty ways.
pub(super) fn word_effort(text: &str) -> usize {
    let costs = |byte: &u8| match byte {
        b'$' => 30,
        b'`' | b'"' | b'\'' => 4,
        _ => 0,
    };
    text.len() / 3 + text.as_bytes().iter().map(costs).sum::<usize>()
}

pub(super) fn program(text: &str) -> Result<Program, Refusal> {
    let Documents { without_bodies: counted, mixed } = documents(text);
    if mixed {
        return Err("an expansion in the line that begins a here-document");
    }
    refuse(&counted)?;
    let text = without_shifts(text, &counted)?;
    let parsed = catch_unwind(AssertUnwindSafe(|| Parser::new(text.as_bytes(), &options()).parse_program()));
    match parsed {
        Ok(Ok(program)) => Ok(program),
        Ok(Err(_)) => Err("the shell's grammar is not met"),
        Err(_) => Err("the parser gave up"),
    }
}

/// The pieces of one word as it stands in the source.
pub(super) fn word(text: &str) -> Result<Vec<WordPieceWithSource>, Refusal> {
    refuse_nesting(text)?;
    match catch_unwind(AssertUnwindSafe(|| word::parse(text, &options()))) {
        Ok(Ok(pieces)) => Ok(pieces),
        _ => Err("a word that cannot be taken apart"),
    }
}

/// Text in which quotes mean nothing but expansions happen: here-documents, arithmetic, what is inside double quotes.
pub(super) fn expanded_text(text: &str) -> Result<Vec<WordPieceWithSource>, Refusal> {
    refuse_nesting(text)?;
    if text.contains('#') && text.match_indices("$(").any(|(at, _)| text[at..group_end(text, at)].contains('#')) {
        return Err("a comment may hide the end of a substitution");
    }
    match catch_unwind(AssertUnwindSafe(|| word::parse_heredoc(text, &options()))) {
        Ok(Ok(pieces)) => Ok(pieces),
        _ => Err("a text that cannot be taken apart"),
    }
}

/// Bash without a terminal has no extended globs: `!(x)` is a negated subshell and must be seen as one.
fn options() -> ParserOptions {
    ParserOptions { enable_extended_globbing: false, ..ParserOptions::default() }
}

fn refuse(text: &str) -> Result<(), Refusal> {
    refuse_nesting(text)?;
    if GROUPS_MAX < keyword_depth(text) || TESTS_MAX < tests(text) {
        return Err("nested too deep");
    }
    if ["$${", "$$(", "$$[", "$$$", "$$\""].iter().any(|sign| text.contains(sign)) {
        return Err("a process id before an expansion");
    }
    if (text.contains("$$'") || text.contains("\\$'")) && !closes_quotes(text) {
        return Err("a dollar before a quote that is read in two ways");
    }
    if text.contains("\\\r") || text.contains('\0') {
        return Err("a control character");
    }
    if long_descriptor(text) {
        return Err("a file descriptor with too many digits");
    }
    Ok(())
}

/// The parser takes a shift for a here-document. In plain arithmetic another operator stands in for it, which changes
/// nothing that is judged; anywhere else between double parentheses nobody can tell the two apart.
fn without_shifts<'a>(text: &'a str, counted: &str) -> Result<Cow<'a, str>, Refusal> {
    if !counted.contains("((") || !counted.contains("<<") {
        return Ok(Cow::Borrowed(text));
    }
    let mut plain = String::with_capacity(text.len());
    let mut done = 0;
    while let Some(found) = counted[done..].find("((") {
        let start = done + found;
        let end = group_end(counted, start);
        let group = &counted[start..end];
        plain.push_str(&text[done..start]);
        if !group.contains("<<") {
            plain.push_str(&text[start..end]);
        } else if plain_arithmetic(group.as_bytes()) == Some(group.len()) && !group.contains("<<<") {
            plain.push_str(&group.replace("<<", "**"));
        } else {
            return Err("a shift or a here-document between double parentheses");
        }
        done = end;
    }
    plain.push_str(&text[done..]);
    Ok(Cow::Owned(plain))
}

/// The end of the parentheses that open here; of the text, where quotes may hide a parenthesis.
fn group_end(text: &str, start: usize) -> usize {
    let mut depth = 0usize;
    for (at, byte) in text.bytes().enumerate().skip(start) {
        match byte {
            b'(' => depth += 1,
            b')' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            b'\'' | b'"' | b'\\' | b'`' => return text.len(),
            _ => {}
        }
    }
    text.len()
}

/// Whether a dollar before a quote only ever ends what that quote began: `grep 'x\$'`. Only told for lines in which
/// nothing but quotes and backslashes can hide anything.
fn closes_quotes(text: &str) -> bool {
    if text.contains(['#', '`']) || text.contains("<<") {
        return false;
    }
    let mut quote = None;
    let mut before = b' ';
    let mut escaped = false;
    for byte in text.bytes() {
        let dollar = before == b'$';
        match (quote, byte) {
            (Some(b'\''), b'\'') => quote = None,
            (Some(b'\''), _) => {}
            (_, _) if escaped => escaped = false,
            (_, b'\\') => escaped = true,
            (None, b'\'') if dollar => return false,
            (None, b'\'' | b'"') => quote = Some(byte),
            (Some(b'"'), b'"') => quote = None,
            _ => {}
        }
        before = byte;
    }
    quote.is_none()
}

fn long_descriptor(text: &str) -> bool {
    let mut digits = 0;
    for letter in text.chars() {
        match letter {
            '0'..='9' => digits += 1,
            '<' | '>' if DIGITS_MAX < digits => return true,
            _ => digits = 0,
        }
        if DIGITS_MAX * 2 < digits && text.contains('~') {
            return true;
        }
    }
    false
}

/// Counts openings without regard to quotes: too many is too many, whatever they turn out to mean.
fn refuse_nesting(text: &str) -> Result<(), Refusal> {
    if text.contains("$\\\n") {
        return Err("a dollar before a line continuation");
    }
    let mut depth = Depth::default();
    let mut before = 0u8;
    for &letter in text.as_bytes() {
        match (letter, before) {
            (b'(' | b'[', b'$') => depth.open(Opening::Expansion, letter),
            (b'{', b'$') => depth.open(Opening::Parameter, letter),
            (b'(' | b'{', _) => depth.open(Opening::Group, letter),
            (b'[', _) if 0 < depth.expansions || before.is_ascii_alphanumeric() || before == b'_' => depth.open(Opening::Group, letter),
            (b')', _) => depth.close(b'('),
            (b'}', _) => depth.close(b'{'),
            (b']', _) => depth.close(b'['),
            _ => {}
        }
        before = letter;
        let inner = depth.groups - depth.outer_groups;
        if NESTING_MAX < depth.expansions
            || PARAMETER_NESTING_MAX < depth.parameters
            || GROUPS_MAX < depth.groups + depth.expansions
            || INNER_GROUPS_MAX < inner
        {
            return Err("nested too deep");
        }
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    Expansion,
    Parameter,
    Group,
}

#[derive(Debug, Default)]
struct Depth {
    open: Vec<(Opening, u8)>,
    expansions: usize,
    parameters: usize,
    groups: usize,
    /// Groups that were open before the first expansion.
    outer_groups: usize,
}

impl Depth {
    fn open(&mut self, opening: Opening, sign: u8) {
        self.open.push((opening, sign));
        match opening {
            Opening::Group => self.groups += 1,
            Opening::Expansion => self.expansions += 1,
            Opening::Parameter => {
                self.expansions += 1;
                self.parameters += 1;
            }
        }
        if self.expansions == 0 {
            self.outer_groups = self.groups;
        }
    }

    /// A sign that does not close the innermost one is text to some grammar, so it closes nothing here.
    fn close(&mut self, sign: u8) {
        match self.open.pop_if(|(_, open)| *open == sign).map(|(opening, _)| opening) {
            Some(Opening::Group) => self.groups -= 1,
            Some(Opening::Expansion) => self.expansions -= 1,
            Some(Opening::Parameter) => {
                self.expansions -= 1;
                self.parameters -= 1;
            }
            None => {}
        }
        if self.expansions == 0 || self.groups < self.outer_groups {
            self.outer_groups = self.groups;
        }
    }
}

/// Operators that could stand between double brackets.
fn tests(text: &str) -> usize {
    text.find("[[").map_or(0, |start| text[start..].matches("&&").count() + text[start..].matches("||").count())
}

/// How deep keywords nest where commands begin; words in the middle of a sentence are no keywords.
fn keyword_depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0usize);
    let mut at_command = true;
    // Nothing closes a negation but the end of its command; `[[ ! ( ! a ) ]]` has signs that end no command.
    let mut negations = 0;
    for chunk in text.split_inclusive([';', '&', '|', '(', ')', '\n', '`']) {
        for word in chunk.split_ascii_whitespace() {
            let bare = word.trim_end_matches([';', '&', '|', '(', ')', '`']);
            match bare {
                "if" | "while" | "until" | "for" | "case" | "select" | "coproc" | "function" | "{" if at_command => depth += 1,
                "[[" => depth += usize::from(at_command),
                "!" => negations += usize::from(at_command),
                "fi" | "done" | "esac" | "}" | "]]" => depth = depth.saturating_sub(1),
                "then" | "else" | "elif" | "do" | "time" | "in" => {}
                _ => {
                    at_command = false;
                    continue;
                }
            }
            at_command = true;
            deepest = deepest.max(depth + negations);
        }
        if chunk.ends_with([';', '\n']) {
            negations = 0;
        }
        at_command = true;
    }
    deepest
}

/// Whether a comment stands in the source of a substitution. The parser takes comments out while it reads, but not
/// after two blanks, and then it ends the substitution elsewhere than bash does.
pub(super) fn has_comment(script: &str) -> bool {
    let mut tag: Option<String> = None;
    for line in script.split('\n') {
        if let Some(end) = &tag {
            if line.trim_start_matches('\t') == end {
                tag = None;
            }
            continue;
        }
        let mut before = ' ';
        for letter in line.chars() {
            if letter == '#' && (before.is_ascii_whitespace() || matches!(before, ';' | '|' | '&' | '(' | ')')) {
                return true;
            }
            before = letter;
        }
        tag = here_tag(line);
    }
    false
}

/// The plain tag of a here-document begun on this line.
fn here_tag(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("<<")?;
    let rest = rest.trim_start_matches('-').trim_start_matches([' ', '\'', '"', '\\']);
    let tag: String = rest.chars().take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '_').collect();
    (!tag.is_empty()).then_some(tag)
}

/// Whether the end of a here-document with this tag is found by the parser where bash finds it.
pub(super) fn plain_tag(tag: &str) -> bool {
    let bare = match tag.as_bytes() {
        [b'\'', .., b'\''] | [b'"', .., b'"'] if 2 < tag.len() => &tag[1..tag.len() - 1],
        [b'\\', ..] => &tag[1..],
        _ => tag,
    };
    !bare.is_empty() && bare.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.' | '!' | '+'))
}
