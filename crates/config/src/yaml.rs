//! A YAML text as the same tree that JSONC gives: every value knows its line, and keys keep their order.
//!
//! Strict: what YAML refuses is refused here, and `frontmatter.rs` says what becomes of it. Bounded, because anybody may
//! have written the text: depth, size and copies by anchors. Knows nothing of keys and their meaning.

use std::{fmt, sync::Arc};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::Number;
use serde_saphyr::{DuplicateKeyPolicy, MergeKeyPolicy, NonFiniteFloatPolicy, Options, Spanned};

use crate::{
    origin::Origin,
    tree::{Entry, Held, Node},
};

/// Nobody writes a head that is deeper, and reading it recurses.
const DEPTH_MAX: usize = 24;

/// Values in one head; thousands of times what people write.
const NODES_MAX: usize = 20_000;

/// Copies by anchors in one head. Anchors are rare in heads, and copies of copies grow without end.
const COPIES_MAX: usize = 1_000;

/// Why a text is no YAML, and at which of its lines; 0 when that is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotYaml {
    pub(crate) line: u32,
    pub(crate) words: String,
}

/// The value of a text whose first line is line `first` of its file.
pub(crate) fn parse(text: &str, shown: &Arc<str>, first: u32) -> Result<Node, NotYaml> {
    simple(text, shown, first).map_or_else(|| any(text, shown, first), Ok)
}

/// Nearly every head is a few words by name, and there may be thousands of them: those are read at once, and mean what
/// YAML says. Nothing for every other text.
fn simple(text: &str, shown: &Arc<str>, first: u32) -> Option<Node> {
    let origin = |line: u32| Origin { source: shown.clone(), line };
    let mut entries: Vec<Entry> = Vec::new();
    let mut line_number = first;
    for line in text.split('\n') {
        if !line.is_empty() {
            let (name, value) = simple_entry(line)?;
            if entries.iter().any(|known| known.name == name) || SIMPLE_KEYS_MAX <= entries.len() {
                return None;
            }
            let node = Node { origin: origin(line_number), held: Held::Text(value.to_owned()) };
            entries.push(Entry { name: name.to_owned(), origin: origin(line_number), node });
        }
        line_number = line_number.saturating_add(1);
    }
    let line = entries.first()?.origin.line;
    Some(Node { origin: origin(line), held: Held::Map(entries) })
}

/// More keys than a head has; they are compared with one another.
const SIMPLE_KEYS_MAX: usize = 32;

/// `key: some words`, where no letter has a meaning in YAML and no word is anything but a text.
fn simple_entry(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(": ")?;
    let value = value.trim_matches(' ');
    let is_name = name.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && name.len() <= 64
        && name.bytes().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, b'_' | b'-'));
    let is_words = value.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && value
            .chars()
            .all(|letter| !letter.is_control() && !matches!(letter, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'))
        && !value.contains(": ")
        && !value.contains(" #")
        && !value.ends_with(':');
    (is_name && is_words && !is_special(name) && !is_special(value)).then_some((name, value))
}

/// Words that are no text.
fn is_special(word: &str) -> bool {
    let words = ["true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf", "infinity"];
    words.iter().any(|special| word.eq_ignore_ascii_case(special))
}

fn any(text: &str, shown: &Arc<str>, first: u32) -> Result<Node, NotYaml> {
    let read: Spanned<Raw> = serde_saphyr::from_str_with_options(text, options()).map_err(|error| {
        let line = error.location().map_or(0, |location| line_of(location.line(), first));
        let words = error.without_snippet().to_string();
        // The line is told by the origin, and it counts from the file's first line.
        let words = words.lines().next().unwrap_or_default();
        let words = words.split(" at line ").next().unwrap_or(words);
        let words = words.split_once(": ").filter(|(start, _)| start.starts_with("error")).map_or(words, |(_, rest)| rest);
        NotYaml { line, words: worded(words) }
    })?;
    Ok(node(read, shown, first))
}

/// The reader's words, without those that are for programmers.
fn worded(words: &str) -> String {
    let lower = words.to_lowercase();
    if lower.contains("duplicate") {
        return "a key is written twice".to_owned();
    }
    if ["budget", "limit", "replay"].iter().any(|word| lower.contains(word)) {
        return "larger, deeper or with more copies than a head may be".to_owned();
    }
    words.split(['(', ';']).next().unwrap_or(words).trim_end_matches([':', '.', ' ']).to_owned()
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            flow_nesting_limit: DEPTH_MAX,
            max_nodes: NODES_MAX,
            max_events: NODES_MAX * 3,
            max_aliases: COPIES_MAX,
            max_anchors: COPIES_MAX,
            max_recorded_anchor_events: COPIES_MAX,
            max_documents: 1,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: COPIES_MAX,
            max_replay_stack_depth: DEPTH_MAX,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::AsOrdinary,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        // `on` and `no` are words in a description.
        strict_booleans: true,
        with_snippet: false,
    }
}

fn node(read: Spanned<Raw>, shown: &Arc<str>, first: u32) -> Node {
    let origin = |line: u64| Origin { source: shown.clone(), line: line_of(line, first) };
    let held = match read.value {
        Raw::Null => Held::Null,
        Raw::Flag(flag) => Held::Flag(flag),
        Raw::Number(number) => Held::Number(number),
        Raw::Text(text) => Held::Text(text),
        Raw::List(items) => Held::List(items.into_iter().map(|item| node(item, shown, first)).collect()),
        Raw::Map(entries) => Held::Map(
            entries
                .into_iter()
                .map(|(name, value)| Entry { origin: origin(name.referenced.line()), name: name.value, node: node(value, shown, first) })
                .collect(),
        ),
    };
    Node { origin: origin(read.referenced.line()), held }
}

fn line_of(line: u64, first: u32) -> u32 {
    u32::try_from(line).unwrap_or(u32::MAX).saturating_add(first).saturating_sub(1)
}

enum Raw {
    Null,
    Flag(bool),
    Number(Number),
    Text(String),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Raw;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, reader: D) -> Result<Raw, D::Error> {
        Raw::deserialize(reader)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Raw, E> {
        Ok(Raw::Flag(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Raw, E> {
        Ok(Raw::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Raw, E> {
        Ok(Raw::Number(number.into()))
    }

    fn visit_i128<E>(self, number: i128) -> Result<Raw, E> {
        Ok(Raw::Text(number.to_string()))
    }

    fn visit_u128<E>(self, number: u128) -> Result<Raw, E> {
        Ok(Raw::Text(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Raw, E> {
        Ok(Number::from_f64(number).map_or_else(|| Raw::Text(number.to_string()), Raw::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Raw, E> {
        Ok(Raw::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Raw::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_at_once_means_what_yaml_says() {
        // Pieces of heads, put together in every way that a fixed sequence of numbers finds.
        let pieces = [
            "name: ",
            "description: ",
            "tools: ",
            "k-1: ",
            "Read",
            ", ",
            "words",
            " ",
            "\n",
            "\n",
            "a",
            ": ",
            ":",
            " #",
            "#",
            "true",
            "No",
            "null",
            "x1",
            "'",
            "\"",
            "[a]",
            "{",
            "*",
            "&x ",
            "- ",
            "é",
            "1",
            "0x1",
            "~",
            "---",
            "\n  b: c",
            "%",
            "@",
            "`",
            "|",
            ">",
            "!",
            "\\n",
            "<<: ",
            "?",
            "=",
        ];
        let shown: Arc<str> = "f".into();
        let mut seed = 7_u64;
        let mut at_once = 0;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..seed % 11 + 2 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text.push_str(pieces[(seed >> 33) as usize % pieces.len()]);
            }
            if let Some(node) = simple(&text, &shown, 4) {
                at_once += 1;
                assert_eq!(Ok(node), any(&text, &shown, 4), "{text:?}");
            }
        }
        assert!(100 < at_once, "{at_once}");
        let head =
            "name: code-reviewer\ndescription: Reviews code, then says so (briefly)\n\ntools: Read, Grep, Bash(git *)\nmodel: sonnet\n";
        assert_eq!(simple(head, &shown, 2).map(Ok), Some(any(head, &shown, 2)));
    }

    #[test]
    fn errors_name_their_line_in_the_file() {
        let error = parse("a: b\nc: [", &"f".into(), 5).unwrap_err();
        assert!((6..=7).contains(&error.line), "{error:?}");
        assert!(!error.words.contains('\n') && !error.words.contains("line"), "{error:?}");
    }
}
