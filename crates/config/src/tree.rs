//! A JSONC text as a tree in which every value knows its line.
//!
//! Comments and trailing commas are fine, other liberties are not: a file that another program would read differently
//! is refused. Knows nothing of keys and their meaning; see `read.rs`.

use std::{collections::HashSet, sync::Arc};

use jsonc_parser::{
    CollectOptions, ParseOptions,
    ast::{ObjectProp, Value as Ast},
    common::Ranged,
    parse_to_ast,
};
use serde_json::{Map, Number, Value};

use crate::{
    origin::{Findings, Origin},
    provider::Secret,
};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) origin: Origin,
    pub(crate) held: Held,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Held {
    Null,
    Flag(bool),
    Number(Number),
    Text(String),
    Secret(Secret),
    /// A secret that is written as `{env:NAME}` or `{file:path}` and is not there; why.
    Missing(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// The line of the name.
    pub(crate) origin: Origin,
    pub(crate) node: Node,
}

impl Node {
    pub(crate) fn get(&self, name: &str) -> Option<&Node> {
        self.entries().iter().find(|entry| entry.name == name).map(|entry| &entry.node)
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        if let Held::Map(entries) = &self.held { entries } else { &[] }
    }

    pub(crate) fn items(&self) -> &[Node] {
        if let Held::List(items) = &self.held { items } else { &[] }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        if let Held::Text(text) = &self.held { Some(text) } else { None }
    }

    /// A whole number, also when it is written `5.0`.
    pub(crate) fn count(&self) -> Option<u64> {
        let Held::Number(number) = &self.held else { return None };
        let whole = number.as_f64().filter(|value| value.fract() == 0.0 && (0.0..9e15).contains(value));
        number.as_u64().or(whole.map(|value| value as u64))
    }

    pub(crate) fn number(&self) -> Option<f64> {
        if let Held::Number(number) = &self.held { number.as_f64() } else { None }
    }

    pub(crate) fn flag(&self) -> Option<bool> {
        if let Held::Flag(flag) = self.held { Some(flag) } else { None }
    }

    /// What it is, for `expected a string, found a number`.
    pub(crate) fn kind(&self) -> &'static str {
        match self.held {
            Held::Null => "null",
            Held::Flag(_) => "a boolean",
            Held::Number(_) => "a number",
            Held::Text(_) | Held::Secret(_) | Held::Missing(_) => "a string",
            Held::List(_) => "a list",
            Held::Map(_) => "an object",
        }
    }

    /// For a text that nobody can open.
    pub(crate) fn forget_lines(&mut self) {
        self.origin.line = 0;
        match &mut self.held {
            Held::List(items) => items.iter_mut().for_each(Node::forget_lines),
            Held::Map(entries) => {
                for entry in entries {
                    entry.origin.line = 0;
                    entry.node.forget_lines();
                }
            }
            _ => {}
        }
    }

    /// The same as plain JSON, without origins; secrets are left out.
    pub(crate) fn to_json(&self) -> Value {
        match &self.held {
            Held::Null | Held::Secret(_) | Held::Missing(_) => Value::Null,
            Held::Flag(flag) => Value::Bool(*flag),
            Held::Number(number) => Value::Number(number.clone()),
            Held::Text(text) => Value::String(text.clone()),
            Held::List(items) => Value::Array(items.iter().map(Node::to_json).collect()),
            Held::Map(entries) => {
                Value::Object(entries.iter().map(|entry| (entry.name.clone(), entry.node.to_json())).collect::<Map<_, _>>())
            }
        }
    }
}

/// The value of a text. An empty one is an empty object; a broken one is an error in `findings` and nothing.
pub(crate) fn parse(text: &str, source: &Arc<str>, findings: &mut Findings) -> Option<Node> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut planter = Planter { lines: Lines::of(text), source, findings };
    match parse_to_ast(text, &CollectOptions::default(), &OPTIONS) {
        Ok(parsed) => match parsed.value {
            Some(value) => Some(planter.node(value)),
            None => Some(Node { origin: planter.origin(0), held: Held::Map(Vec::new()) }),
        },
        Err(error) => {
            let origin = Origin { source: source.clone(), line: u32::try_from(error.line_display()).unwrap_or(u32::MAX) };
            planter.findings.error(&origin, "", format!("not valid JSON: {}", lower_first(&error.kind().to_string())));
            None
        }
    }
}

const OPTIONS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

struct Planter<'a> {
    lines: Lines,
    source: &'a Arc<str>,
    findings: &'a mut Findings,
}

impl Planter<'_> {
    fn origin(&self, offset: usize) -> Origin {
        Origin { source: self.source.clone(), line: self.lines.line_of(offset) }
    }

    /// The parser bounds the depth, so this recursion is bounded too.
    fn node(&mut self, value: Ast<'_>) -> Node {
        let origin = self.origin(value.start());
        let held = match value {
            Ast::NullKeyword(_) => Held::Null,
            Ast::BooleanLit(flag) => Held::Flag(flag.value),
            Ast::StringLit(text) => Held::Text(text.value.into_owned()),
            Ast::NumberLit(number) => match serde_json::from_str(number.value) {
                Ok(number) => Held::Number(number),
                Err(_) => {
                    self.findings.error(&origin, "", "not valid JSON: a number out of range");
                    Held::Null
                }
            },
            Ast::Array(array) => Held::List(array.elements.into_iter().map(|element| self.node(element)).collect()),
            Ast::Object(object) => Held::Map(self.entries(object.properties)),
        };
        Node { origin, held }
    }

    /// Of a name that is written twice the last counts, where it stands: the order matters for permissions.
    fn entries(&mut self, properties: Vec<ObjectProp<'_>>) -> Vec<Entry> {
        let mut seen = HashSet::new();
        let mut entries = Vec::with_capacity(properties.len());
        for property in properties.into_iter().rev() {
            let origin = self.origin(property.name.start());
            let name = property.name.into_string();
            if seen.insert(name.clone()) {
                let node = self.node(property.value);
                entries.push(Entry { name, origin, node });
            } else {
                self.findings.warn(&origin, &name, "written twice; the last one counts");
            }
        }
        entries.reverse();
        entries
    }
}

/// Where the lines of a text begin.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Self(std::iter::once(0).chain(breaks).collect())
    }

    fn line_of(&self, offset: usize) -> u32 {
        u32::try_from(self.0.partition_point(|start| *start <= offset)).unwrap_or(u32::MAX)
    }
}

fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_lowercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (Option<Node>, Findings) {
        let mut findings = Findings::default();
        let node = parse(text, &"f".into(), &mut findings);
        (node, findings)
    }

    #[test]
    fn comments_trailing_commas_a_bom_and_emptiness_are_fine() {
        for text in ["", " \n", "// only words\n", "{}", "\u{feff}{}", "/* a */ { // b\n }"] {
            let (node, findings) = parsed(text);
            assert_eq!(node.unwrap().to_json(), serde_json::json!({}), "{text:?}");
            assert!(findings.errors.is_empty());
        }
        let (node, _) = parsed("\u{feff}{\"a\": [1, 2.5, -3,], // words\n \"b\": {\"c\": null, \"d\": true,},}");
        assert_eq!(node.unwrap().to_json(), serde_json::json!({"a": [1, 2.5, -3], "b": {"c": null, "d": true}}));
    }

    #[test]
    fn every_value_knows_its_line() {
        let (node, _) = parsed("{\n\"a\": 1,\r\n\n\"b\":\n  [2,\n 3]}");
        let node = node.unwrap();
        assert_eq!(node.get("a").unwrap().origin.line, 2);
        assert_eq!(node.entries()[1].origin.line, 4);
        assert_eq!(node.get("b").unwrap().origin.line, 5);
        assert_eq!(node.get("b").unwrap().items()[1].origin.line, 6);
    }

    #[test]
    fn broken_texts_are_refused_with_their_line() {
        let table = [
            ("{\n\"a\": 1\n\"b\": 2}", "f:2: not valid JSON: expected comma"),
            ("{\"a\": 1}\n{}", "f:2: not valid JSON: text cannot contain more than one JSON value"),
            ("{\n\n  a: 1}", "f:3: not valid JSON: expected string for object property"),
            ("{\n\"a\": 'x'}", "f:2: not valid JSON: single-quoted strings are not allowed"),
            ("{\n\"a\": [1", "f:2: not valid JSON: unterminated array"),
            ("{\n\"a\":\n 1e999}", "f:3: not valid JSON: a number out of range"),
        ];
        for (text, words) in table {
            let (_, findings) = parsed(text);
            assert_eq!(findings.errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [words], "{text}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let (node, findings) = parsed(&"[".repeat(100_000));
        assert!(node.is_none());
        assert_eq!(findings.errors.len(), 1);
    }

    #[test]
    fn of_a_key_written_twice_the_last_counts_where_it_stands() {
        let (node, findings) = parsed("{\"a\": 1,\n\"b\": 2,\n\"a\": 3}");
        assert_eq!(node.unwrap().to_json().to_string(), r#"{"b":2,"a":3}"#);
        assert_eq!(findings.warnings[0].to_string(), "f:1: a: written twice; the last one counts");
    }

    #[test]
    fn whole_numbers_may_be_written_with_a_point() {
        let (node, _) = parsed("[5, 5.0, 5.5, -1, 1e300]");
        assert_eq!(node.unwrap().items().iter().map(Node::count).collect::<Vec<_>>(), [Some(5), Some(5), None, None, None]);
    }
}
