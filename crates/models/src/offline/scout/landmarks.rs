//! The main definitions of a repository when no term was asked for: what files say about themselves, and public types.
//!
//! First it is counted where public definitions are, then only chosen files are searched for them: so a repository of any
//! size costs the same. From each part some are taken before more of any, so that a large part does not hide the small.

use std::collections::{BTreeMap, BTreeSet};

use super::{depth, hits_of, lines, over_lines, patterns, with};
use crate::offline::{
    answer::Trouble,
    define::{Sort, sort_of},
    found::Hit,
    plan::{Call, Desk},
};

const SAID_MAX: usize = 18;
const TYPES_MAX: usize = 24;
/// Definitions of one file before those of the next.
const OF_FILE_FIRST: usize = 3;
/// Files that are searched for their definitions.
const FILES_MAX: usize = 24;
/// Files whose definitions are counted; as many as the tool shows.
const COUNTED_MAX: u64 = 500;

pub(super) fn facts(desk: &Desk, trouble: &mut Trouble) -> Result<Vec<Hit>, Vec<Call>> {
    let count = with(lines(patterns::PUBLIC, Some(patterns::SOURCES)), "limit", COUNTED_MAX.into());
    let calls = [
        over_lines(patterns::FIRST_WORDS, Some(patterns::PACKAGE_FILES)),
        over_lines(patterns::FIRST_WORDS, Some(patterns::SOURCES)),
        with(count, "outputMode", "count".into()),
    ];
    let heard = desk.gather(&calls)?;
    let mut said = hits_of(&heard, 0, trouble).hits;
    said.extend(hits_of(&heard, 1, trouble).hits);
    said.retain(|hit| is_own(&hit.path) && says_something(&hit.text));
    // Of a comment over several lines the first that says something is its title.
    let mut titled = BTreeSet::new();
    said.retain(|hit| titled.insert(hit.path.clone()));

    let files = richest(trouble.said(heard.get(2)).unwrap_or_default());
    let search = (!files.is_empty()).then(|| lines(patterns::PUBLIC, Some(&format!("{{{}}}", files.join(",")))));
    let heard = desk.gather(&search.into_iter().collect::<Vec<_>>())?;
    let mut types = if files.is_empty() { Vec::new() } else { hits_of(&heard, 0, trouble).hits };
    types.retain(|hit| files.contains(&hit.path) && is_public(hit));
    let mut facts = from_each_part(said, SAID_MAX);
    facts.extend(from_each_part(types, TYPES_MAX));
    Ok(facts)
}

/// The files with the most definitions, of each part some, from lines like `src/a.rs: 12`.
fn richest(counts: &str) -> Vec<String> {
    let counted = |line: &str| {
        let (path, count) = line.rsplit_once(": ")?;
        // These would be read as a pattern.
        let is_plain = !path.contains(['{', '}', ',', '*', '?', '[', ']', '!']);
        (is_plain && is_own(path)).then_some((path.to_string(), count.parse::<u64>().ok()?))
    };
    let counts: Vec<(String, u64)> = counts.lines().filter_map(counted).collect();
    let key = |(path, count): &(String, u64)| (u64::MAX - count, depth(path), path.clone());
    take_from_each_part(counts, |(path, _)| part(path), key, FILES_MAX).into_iter().map(|(path, _)| path).collect()
}

/// The pattern also finds C's structs, which in Rust are private.
fn is_public(hit: &Hit) -> bool {
    !hit.path.ends_with(".rs") || hit.text.starts_with("pub ")
}

fn is_own(path: &str) -> bool {
    let aside = ["examples", "example", "benches", "bench", "benchmarks", "fuzz", "vendor", "third_party"];
    sort_of(path) == Sort::Source && !path.split('/').any(|part| aside.contains(&part))
}

/// Not a licence, an editor's mark or a ruler.
fn says_something(text: &str) -> bool {
    #[rustfmt::skip]
    const EMPTY: &[&str] = &[
        "copyright", "license", "licence", "spdx", "(c) ", "all rights", "may not be copied", "complete details", "eslint", "-*-", "@ts-", "coding:", "use strict",
        "generated", "#!", "pylint", "noqa", "://",
    ];
    let lower = text.to_lowercase();
    let words = text.split_whitespace().filter(|word| word.chars().any(char::is_alphabetic)).count();
    let letters = text.chars().filter(|sign| sign.is_alphabetic()).count();
    words >= 2 && letters >= 8 && !EMPTY.iter().any(|word| lower.contains(word))
}

/// A part is a package: the first folders of a path, up to where its sources are.
fn part(path: &str) -> String {
    let folders: Vec<&str> = path.split('/').collect();
    let folders = &folders[..folders.len() - 1];
    let end = folders.iter().position(|folder| matches!(*folder, "src" | "lib" | "include")).unwrap_or(folders.len().min(2));
    folders[..end].join("/")
}

/// How much a file stands for its part: the root of a package first, then what is near it.
fn rank(hit: &Hit) -> (bool, usize, u8, String, u64) {
    let name = hit.path.rsplit('/').next().unwrap_or(&hit.path);
    let stands_for_all =
        ["lib.", "main.", "mod.", "index.", "__init__.", "doc.go", "app.", "types.", "core."].iter().any(|start| name.starts_with(start));
    // A type says more about a program than a function does.
    let sort = if patterns::is_type(&hit.text) { 0 } else { 1 };
    (!stands_for_all, depth(&hit.path), sort, hit.path.clone(), hit.line)
}

fn from_each_part(hits: Vec<Hit>, at_most: usize) -> Vec<Hit> {
    // Some of each file before more of any.
    let mut hits = hits;
    hits.sort_by_key(rank);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let numbered = hits.into_iter().map(|hit| {
        let count = counts.entry(hit.path.clone()).or_default();
        *count += 1;
        ((*count - 1) / OF_FILE_FIRST, hit)
    });
    let numbered: Vec<(usize, Hit)> = numbered.collect();
    let chosen = take_from_each_part(numbered, |(_, hit)| part(&hit.path), |(round, hit)| (*round, rank(hit)), at_most);
    let mut chosen: Vec<Hit> = chosen.into_iter().map(|(_, hit)| hit).collect();
    chosen.sort_by_key(|hit| (part(&hit.path), rank(hit)));
    chosen
}

/// The first of each part in the order of its key, then the second of each, until there are enough.
fn take_from_each_part<T, K: Ord>(all: Vec<T>, part: impl Fn(&T) -> String, key: impl Fn(&T) -> K, at_most: usize) -> Vec<T> {
    let mut parts: BTreeMap<String, Vec<T>> = BTreeMap::new();
    for each in all {
        parts.entry(part(&each)).or_default().push(each);
    }
    let mut rounds: Vec<(usize, T)> = Vec::new();
    for mut of_part in parts.into_values() {
        of_part.sort_by_key(&key);
        rounds.extend(of_part.into_iter().enumerate());
    }
    rounds.sort_by_key(|(round, _)| *round);
    rounds.truncate(at_most);
    rounds.into_iter().map(|(_, each)| each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_packages() {
        for (path, expected) in [
            ("crates/cli/src/main.rs", "crates/cli"),
            ("src/a.rs", ""),
            ("main.py", ""),
            ("pkg/api/v1/types.go", "pkg/api"),
            ("web/app.ts", "web"),
        ] {
            assert_eq!(part(path), expected, "{path}");
        }
    }

    #[test]
    fn a_large_part_does_not_hide_a_small_one() {
        let hit = |path: &str, line: u64| Hit { path: path.into(), line, text: "pub struct A;".into() };
        let mut hits: Vec<Hit> = (1..50).map(|line| hit("crates/a/src/big.rs", line)).collect();
        hits.push(hit("crates/b/src/lib.rs", 7));
        let chosen = from_each_part(hits, 3);
        assert_eq!(chosen, [hit("crates/a/src/big.rs", 1), hit("crates/a/src/big.rs", 2), hit("crates/b/src/lib.rs", 7)]);
    }

    #[test]
    fn licences_and_rulers_say_nothing() {
        for (text, expected) in [
            ("//! Model clients: one per provider.", true),
            ("// Copyright 2020 The Authors", false),
            ("//! SPDX-License-Identifier: MIT", false),
            ("/* ======== */", false),
            ("\"\"\"Fetches pages.\"\"\"", true),
        ] {
            assert_eq!(says_something(text), expected, "{text}");
        }
    }
}
