//! A markdown file with a head, as people really write them: agents, commands and skills.
//!
//! Total: every text gives a document, and whatever had to be guessed is a [`Problem`] with its line. A head that is good
//! YAML is read as that; any other is split at the keys that the caller knows, and the lines between them continue the
//! text above. Knows no key and no meaning of its own, and reads no files.

use std::{borrow::Cow, sync::Arc};

use crate::{
    origin::{Findings, Origin, Problem},
    schema::snake_case,
    tree::{self, Entry, Held, Node},
    yaml,
};

/// One file: what its head says, and its text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Document {
    /// A map; every entry knows its line.
    pub(crate) fields: Node,
    pub(crate) body: String,
    /// The line of the file at which the body begins.
    pub(crate) body_line: u32,
    pub(crate) tolerated: Vec<Problem>,
}

/// Reads a file's text. `known_keys` are the documented keys in the spelling of `snake_case`.
pub(crate) fn document(text: &str, shown: &Arc<str>, known_keys: &[&str]) -> Document {
    let text = unified(text);
    let mut reading = Reading { shown, known_keys, tolerated: Vec::new() };
    let mut parts = split(&text, known_keys);
    let mut fields = parts.head.map_or_else(Vec::new, |head| reading.fields(head, parts.head_line));
    if fields.is_empty() && parts.head.is_some_and(|head| !head.trim().is_empty()) {
        // No key in it, so it was no head.
        parts = Split { before: "", head: None, head_line: 1, body: &text, body_line: 1, found: Found::Rule };
        reading.tolerated.clear();
    }
    let mut body = parts.body.trim().to_owned();
    let mut body_line = parts.body_line + blank_lines(parts.body);
    reading.notice(&parts);
    if let Some((inside, template)) = reading.object(&body, body_line) {
        body_line = template.origin.line;
        body = template.text().unwrap_or_default().to_owned();
        let new: Vec<Entry> = inside.into_iter().filter(|entry| !fields.iter().any(|known: &Entry| known.name == entry.name)).collect();
        fields.extend(new);
    }
    if !parts.before.trim().is_empty() {
        body = format!("{}\n\n{body}", parts.before.trim()).trim_end().to_owned();
        body_line = 1 + blank_lines(parts.before);
    }
    let origin = Origin { source: shown.clone(), line: parts.head_line.saturating_sub(1).max(1) };
    Document { fields: Node { origin, held: Held::Map(fields) }, body, body_line, tolerated: reading.tolerated }
}

/// What stands between two lines of dashes, and around them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Split<'a> {
    pub(crate) before: &'a str,
    pub(crate) head: Option<&'a str>,
    pub(crate) head_line: u32,
    pub(crate) body: &'a str,
    pub(crate) body_line: u32,
    found: Found,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// As it should be, or no head at all.
    Plain,
    /// Dashes, but no key between them.
    Rule,
    /// The second line of dashes is missing.
    Unclosed,
    /// The lines of dashes are indented, longer, or say `yaml`.
    Unusual,
}

/// Where the head of a text is. Also what trust in a folder is bound to, so nothing else may look for heads.
pub(crate) fn split<'a>(text: &'a str, known_keys: &[&str]) -> Split<'a> {
    let lines: Vec<Line<'a>> = lines_of(text.strip_prefix('\u{feff}').unwrap_or(text)).collect();
    let whole = lines.first().map_or("", |line| line.rest);
    let nothing = Split { before: "", head: None, head_line: 1, body: whole, body_line: 1, found: Found::Plain };
    let is_head = |from: usize| {
        let first = lines[from..].iter().find(|line| !line.text.trim().is_empty() && !line.text.starts_with('#'));
        // Also written as in JSON, in quotes, or all of it indented: YAML does not mind.
        first.is_some_and(|line| {
            let text = line.text.trim_start();
            key_of(text).is_some() || text.starts_with(['{', '"', '\'', '?'])
        })
    };
    let Some(start) = lines.iter().position(|line| !line.text.trim().is_empty()) else { return nothing };
    let mut dashes = lines.iter().enumerate().skip(start).filter(|(_, line)| is_dashes(line.text)).map(|(at, _)| at);
    let unusual = !is_dashes(lines[start].text) && is_like_dashes(lines[start].text) && known_in(&lines[start + 1..], known_keys);
    let open = if unusual { Some(start) } else { dashes.next() };
    let Some(open) = open else { return nothing };
    let closes = |line: &Line<'_>| is_dashes(line.text) || line.text == "..." || unusual && is_like_dashes(line.text);
    let close = lines.iter().enumerate().skip(open + 1).find(|(_, line)| closes(line)).map(|(at, _)| at);
    // After words, dashes are a line drawn across the page unless keys follow, and one of ours among them.
    let known_follows = || known_in(&lines[open + 1..close.unwrap_or(lines.len())], known_keys);
    let after = |at: usize| lines.get(at).map_or("", |line| line.rest);
    let number = |at: usize| u32::try_from(at).unwrap_or(u32::MAX).saturating_add(1);
    match close {
        _ if open != start && (close.is_none() || !known_follows()) => nothing,
        Some(close) if is_head(open + 1) || between(lines[open + 1].rest, lines[close].rest).trim().is_empty() => Split {
            before: between(whole, lines[open].rest),
            head: Some(between(lines[open + 1].rest, lines[close].rest)),
            head_line: number(open + 1),
            body: after(close + 1),
            body_line: number(close + 1),
            found: if unusual { Found::Unusual } else { Found::Plain },
        },
        None if is_head(open + 1) => {
            let end = end_of_open_head(&lines, open + 1, known_keys);
            let head = between(after(open + 1), after(end));
            let (head_line, body_line) = (number(open + 1), number(end));
            Split { before: "", head: Some(head), head_line, body: after(end), body_line, found: Found::Unclosed }
        }
        _ => Split { found: Found::Rule, ..nothing },
    }
}

/// Whether the first line that says something begins with a key, and some line up to the next dashes with a known one.
fn known_in(lines: &[Line<'_>], known_keys: &[&str]) -> bool {
    let says = |line: &&Line<'_>| !line.text.trim().is_empty() && !line.text.trim_start().starts_with('#');
    let begins = lines.iter().find(says).is_some_and(|line| key_of(line.text.trim_start()).is_some());
    let mut inside = lines.iter().take_while(|line| !is_like_dashes(line.text));
    begins && inside.any(|line| key_of(line.text.trim_start()).is_some_and(|key| is_known(key, known_keys)))
}

/// A head without an end goes on while keys, what is indented under them, and blank lines between them go on.
fn end_of_open_head(lines: &[Line<'_>], from: usize, known_keys: &[&str]) -> usize {
    let mut end = from;
    for (at, line) in lines.iter().enumerate().skip(from) {
        let after_blank = lines[at - 1].text.trim().is_empty();
        let continues = line.text.starts_with([' ', '\t']) || line.text.starts_with("- ");
        match key_of(line.text) {
            _ if line.text.trim().is_empty() => continue,
            Some(key) if !after_blank || is_known(key, known_keys) => end = at + 1,
            None if continues && !after_blank => end = at + 1,
            _ => break,
        }
    }
    end
}

#[derive(Debug, Clone, Copy)]
struct Line<'a> {
    /// Without what ends it.
    text: &'a str,
    /// From the start of this line to the end of everything.
    rest: &'a str,
}

fn lines_of(text: &str) -> impl Iterator<Item = Line<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let line = Line { text: rest[..end].trim_end_matches(['\n', '\r']), rest };
        rest = &rest[end..];
        Some(line)
    })
}

/// The text from where `from` begins to where `to` begins; both end where the file does.
fn between<'a>(from: &'a str, to: &str) -> &'a str {
    &from[..from.len() - to.len()]
}

fn is_dashes(line: &str) -> bool {
    line.trim_end() == "---"
}

/// `----`, `--- yaml` and dashes that are indented.
fn is_like_dashes(line: &str) -> bool {
    let rest = line.trim().strip_prefix("---").map(str::trim);
    rest.is_some_and(|rest| rest.chars().all(|letter| letter == '-') || matches!(rest.to_lowercase().as_str(), "yaml" | "yml"))
}

/// The key that a line begins with, if it stands at the start of the line.
fn key_of(line: &str) -> Option<&str> {
    let (key, rest) = line.split_once(':')?;
    let key = key.trim_end();
    let key = key.strip_prefix(['"', '\'']).and_then(|key| key.strip_suffix(['"', '\''])).unwrap_or(key);
    let fits = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.' | '$') || !letter.is_ascii();
    let is_key = !key.is_empty() && key.chars().all(fits) && (rest.is_empty() || rest.starts_with([' ', '\t']));
    is_key.then_some(key)
}

fn is_known(key: &str, known_keys: &[&str]) -> bool {
    known_keys.contains(&snake_case(key).as_str())
}

fn blank_lines(text: &str) -> u32 {
    let blank = text.len() - text.trim_start().len();
    u32::try_from(text[..blank].matches('\n').count()).unwrap_or(u32::MAX)
}

/// One way to end a line, so that nobody after this has to think of another.
pub(crate) fn unified(text: &str) -> Cow<'_, str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.contains('\r') { Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n")) } else { Cow::Borrowed(text) }
}

/// A head beyond this is not YAML that somebody wrote; it is split at its keys only.
const HEAD_BYTES_MAX: usize = 128 * 1024;

/// Problems of one file; a hostile file must not make us print a megabyte.
const TOLERATED_MAX: usize = 20;

/// Keys whose text people write without regard to YAML; what follows them continues them.
const PROSE: [&str; 7] = ["description", "when_to_use", "prompt", "template", "argument_hint", "initial_prompt", "examples"];

struct Reading<'a> {
    shown: &'a Arc<str>,
    known_keys: &'a [&'a str],
    tolerated: Vec<Problem>,
}

/// A key and the lines up to the next one.
struct Section<'a> {
    key: &'a str,
    line: u32,
    text: &'a str,
}

impl Reading<'_> {
    fn origin(&self, line: u32) -> Origin {
        Origin { source: self.shown.clone(), line }
    }

    fn tolerate(&mut self, line: u32, key: &str, words: impl Into<String>) {
        if self.tolerated.len() < TOLERATED_MAX {
            self.tolerated.push(Problem { origin: self.origin(line), key: crate::origin::plain(key), words: words.into() });
        }
    }

    fn notice(&mut self, parts: &Split<'_>) {
        let open = parts.head_line.saturating_sub(1).max(1);
        match parts.found {
            Found::Rule => self.tolerate(1, "", "begins with `---` but no key follows; the whole file is read as its text"),
            Found::Unclosed => {
                let words = format!("the head has no closing `---`; it is taken to end before line {}", parts.body_line);
                self.tolerate(open, "", words);
            }
            Found::Unusual => self.tolerate(open, "", "lines of dashes that are not `---` alone; what is between them is read as the head"),
            Found::Plain if !parts.before.trim().is_empty() => {
                self.tolerate(1, "", format!("text before the first `---` (line {open}); it is read as the beginning of the text"));
            }
            Found::Plain if !parts.before.is_empty() => self.tolerate(1, "", "blank lines before the first `---`; they are left out"),
            Found::Plain => {}
        }
        let lines: Vec<Line<'_>> = lines_of(parts.body).collect();
        let first = lines.iter().position(|line| !line.text.trim().is_empty()).unwrap_or_default();
        let opens = parts.head.is_some() && lines.get(first).is_some_and(|line| is_dashes(line.text));
        if opens && known_in(&lines[first + 1..], self.known_keys) {
            let line = parts.body_line + blank_lines(parts.body);
            self.tolerate(line, "", "a second head; it is read as the beginning of the text");
        }
    }

    fn fields(&mut self, head: &str, first: u32) -> Vec<Entry> {
        if HEAD_BYTES_MAX < head.len() {
            self.tolerate(first, "", format!("the head is larger than {} KiB; it is read key by key", HEAD_BYTES_MAX / 1024));
            return self.recovered(head, first, false);
        }
        match yaml::parse(head, self.shown, first) {
            Ok(Node { held: Held::Map(entries), .. }) => entries,
            Ok(Node { held: Held::Null, .. }) => Vec::new(),
            Ok(other) => {
                self.tolerate(first, "", format!("the head is {}, not keys and values; it is read key by key", other.kind()));
                self.recovered(head, first, true)
            }
            Err(error) => {
                let line = if error.line == 0 { first } else { error.line };
                self.tolerate(line, "", format!("the head is not valid YAML ({}); it is read key by key", error.words));
                self.recovered(head, first, true)
            }
        }
    }

    /// Split at the known keys, the first of each; everything else continues the text above.
    fn recovered(&mut self, head: &str, first: u32, as_yaml: bool) -> Vec<Entry> {
        let mut sections: Vec<Section<'_>> = Vec::new();
        let mut line_number = first;
        for line in lines_of(head) {
            // Nobody writes a key with a capital, and in prose a line may well begin with `Background: `.
            let is_key = |key: &&str| !key.starts_with(char::is_uppercase) && is_known(key, self.known_keys);
            let key = key_of(line.text).filter(is_key);
            let key = key.filter(|key| !sections.iter().any(|section| snake_case(section.key) == snake_case(key)));
            if let (Some(last), true) = (sections.last_mut(), key.is_some()) {
                last.text = between(last.text, line.rest);
            }
            if key.is_some() || sections.is_empty() {
                sections.push(Section { key: key.unwrap_or_default(), line: line_number, text: line.rest });
            }
            line_number = line_number.saturating_add(1);
        }
        let mut entries: Vec<Entry> = Vec::new();
        for section in sections {
            let new = self.section(&section, as_yaml);
            entries.extend(new.into_iter().filter(|entry| !entry.name.is_empty()));
        }
        let mut seen = std::collections::HashSet::new();
        entries.retain(|entry| seen.insert(entry.name.clone()));
        entries
    }

    fn section(&mut self, section: &Section<'_>, as_yaml: bool) -> Vec<Entry> {
        let read = if as_yaml { self.parsed(section) } else { None };
        let is_prose = PROSE.contains(&snake_case(section.key).as_str());
        match read.map(|node| node.held) {
            Some(Held::Map(entries)) if section.key.is_empty() || entries.len() == 1 || !is_prose => return entries,
            _ if section.key.is_empty() => {
                if !section.text.trim().is_empty() {
                    self.tolerate(section.line, "", "no key before these lines of the head; they are left out");
                }
                return Vec::new();
            }
            _ => {}
        }
        let mut lines = lines_of(section.text);
        let line = lines.next().map_or("", |line| line.text);
        let value = line.split_once(':').map_or("", |(_, value)| value).trim();
        let rest: Vec<&str> = lines.map(|line| line.text).collect();
        let text = plain_text(value, &rest);
        let last = section.line.saturating_add(u32::try_from(section.text.trim_end().matches('\n').count()).unwrap_or(u32::MAX));
        let over = if last == section.line { String::new() } else { format!(" up to line {last}") };
        self.tolerate(section.line, section.key, format!("read as plain text{over}"));
        let origin = self.origin(section.line);
        vec![Entry { name: section.key.to_owned(), origin: origin.clone(), node: Node { origin, held: Held::Text(text) } }]
    }

    /// A section as YAML, or as the YAML that was meant where stars stand without quotes or tabs instead of spaces.
    fn parsed(&mut self, section: &Section<'_>) -> Option<Node> {
        let read = yaml::parse(section.text, self.shown, section.line).ok();
        if read.is_some() || PROSE.contains(&snake_case(section.key).as_str()) {
            return read;
        }
        let meant: String = lines_of(section.text).map(|line| mended(line.text)).collect();
        let read = yaml::parse(&meant, self.shown, section.line).ok().filter(|node| matches!(node.held, Held::Map(_)))?;
        self.tolerate(section.line, section.key, "read with `*` in quotes, and spaces for tabs");
        Some(read)
    }

    /// The keys of a text that is one JSON object and holds a template or a prompt, and that text.
    fn object(&mut self, body: &str, line: u32) -> Option<(Vec<Entry>, Node)> {
        if !body.starts_with('{') || !body.ends_with('}') {
            return None;
        }
        // What stands before is blank, so that lines are those of the file.
        let padded = format!("{}{body}", "\n".repeat(line.saturating_sub(1) as usize));
        let mut findings = Findings::default();
        let node = tree::parse(&padded, self.shown, &mut findings).filter(|_| findings.errors.is_empty())?;
        let template = ["template", "prompt"].iter().find_map(|name| node.get(name).filter(|node| node.text().is_some()))?.clone();
        self.tolerate(line, "", "the text is one JSON object; its keys are read as those of a head");
        let Held::Map(entries) = node.held else { return None };
        Some((entries.into_iter().filter(|entry| !matches!(entry.name.as_str(), "template" | "prompt")).collect(), template))
    }
}

/// A line of a map with its key in quotes and spaces for the tabs before it.
fn mended(line: &str) -> String {
    let text = line.trim_start();
    let indent = line[..line.len() - text.len()].replace('\t', "  ");
    match text.split_once(": ").or_else(|| text.strip_suffix(':').map(|key| (key, ""))) {
        Some((key, value)) if key.starts_with('*') && !key.contains('\'') => format!("{indent}'{}': {value}\n", key.trim_end()),
        Some((key, value)) if value.trim() == "*" => format!("{indent}{key}: '*'\n"),
        _ => format!("{indent}{text}\n"),
    }
}

/// A value that is no YAML, as its writer meant it: quotes around the whole and marks of a block are not part of it.
fn plain_text(value: &str, rest: &[&str]) -> String {
    let is_block = matches!(value, "|" | ">" | "|-" | ">-" | "|+" | ">+");
    let first = if is_block { "" } else { value };
    let text = std::iter::once(first)
        .chain(rest.iter().map(|line| if is_block { line.trim() } else { line.trim_end() }))
        .collect::<Vec<_>>()
        .join("\n");
    let text = text.trim();
    let quoted = ['"', '\''].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    quoted.unwrap_or(text).to_owned()
}
