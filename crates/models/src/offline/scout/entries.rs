//! Entry points of a repository: main functions, binaries and scripts of manifests, make targets, containers, servers.
//!
//! A library has none of these; then the file that stands for it is read and what it offers is quoted.

use super::{depth, hits_of, lines, numbered_lines, over_lines, paths_of, patterns, place, spread, with};
use crate::offline::{
    answer::Trouble,
    define::{Sort, sort_of},
    found::Hit,
    intent::Scope,
    plan::{Call, Desk, Heard, glob, read},
};

const MAINS_MAX: usize = 14;
const SCRIPTS_MAX: usize = 16;
const TARGETS_MAX: usize = 10;
const CONTAINERS_MAX: usize = 6;
const NAMED_MAX: usize = 6;
const OFFERED_MAX: usize = 16;
/// Lines of a library's first file.
const READ_MAX: u64 = 200;

pub(super) fn facts(desk: &Desk, trouble: &mut Trouble) -> Result<Vec<Hit>, Vec<Call>> {
    let calls = [
        lines(patterns::MAINS, None),
        over_lines(patterns::SCRIPTS, Some(patterns::NAMED_MANIFESTS)),
        lines(patterns::TARGETS, Some(patterns::TARGET_FILES)),
        lines(patterns::CONTAINER_STARTS, Some(patterns::CONTAINER_FILES)),
        glob(patterns::ENTRY_FILES, &Scope::default()),
    ];
    let heard = desk.gather(&calls)?;
    let mut mains = hits_of(&heard, 0, trouble).hits;
    // A shebang counts where it works: in the first line.
    mains.retain(|hit| is_code(&hit.path) && (!hit.text.starts_with("#!") || hit.line == 1));
    let mut scripts = hits_of(&heard, 1, trouble).hits;
    scripts.retain(|hit| hit.text.chars().any(char::is_alphanumeric) && !hit.text.ends_with("= false"));
    let mut targets = hits_of(&heard, 2, trouble).hits;
    targets.retain(|hit| !hit.text.starts_with(".PHONY"));
    let containers = hits_of(&heard, 3, trouble).hits;
    let mut named = paths_of(&heard, 4, trouble).paths;
    named.retain(|path| is_code(path) && sort_of(path) == Sort::Source);
    named.sort_by_key(|path| (rank(path), path.clone()));

    let has_start = mains.iter().any(|hit| rank(&hit.path).0 == Sort::Source as u8 && !hit.text.starts_with("#!"));
    let library = if has_start { only_library(&named, &mains) } else { named.first() };
    let heard = desk.gather(&library.map(|path| with(read(path), "limit", READ_MAX.into())).into_iter().collect::<Vec<_>>())?;
    let mut facts = Vec::new();
    if let (Some(path), Some(Heard::Said(text))) = (library, heard.first()) {
        facts.extend(offered(path, &numbered_lines(text)));
    }
    let known: Vec<String> = mains.iter().chain(&facts).map(|hit| hit.path.clone()).collect();
    facts.extend(nearest(mains, MAINS_MAX));
    facts.extend(nearest(scripts, SCRIPTS_MAX));
    facts.extend(own(targets, TARGETS_MAX));
    facts.extend(own(containers, CONTAINERS_MAX));
    named.retain(|path| !known.contains(path) && !stands_for_library(path));
    facts.extend(named.into_iter().take(NAMED_MAX).map(|path| place(path, "an entry point by its name".into())));
    Ok(facts)
}

fn stands_for_library(path: &str) -> bool {
    ["lib.rs", "__init__.py", "doc.go", "init.lua"].iter().any(|name| path.ends_with(name))
}

/// Beside programs a library is worth reading when it is the only one so near the top.
fn only_library<'a>(named: &'a [String], mains: &[Hit]) -> Option<&'a String> {
    let nearest = mains.iter().filter(|hit| !hit.text.starts_with("#!")).map(|hit| rank(&hit.path)).min()?;
    let mut libraries = named.iter().filter(|path| stands_for_library(path) && rank(path) <= nearest);
    libraries.next().filter(|_| libraries.next().is_none())
}

/// In order, without what only tests and documents have when there is anything else.
fn own(mut hits: Vec<Hit>, at_most: usize) -> Vec<Hit> {
    let is_own = |hit: &Hit| rank(&hit.path).0 == Sort::Source as u8;
    if hits.iter().any(is_own) {
        hits.retain(is_own);
    }
    hits.sort_by_key(|hit| (rank(&hit.path), hit.path.clone(), hit.line));
    hits.truncate(at_most);
    hits
}

/// What is built for others comes before examples, benches and tests; then what is nearer the top.
fn rank(path: &str) -> (u8, usize) {
    let is_aside = path
        .split('/')
        .any(|part| matches!(part, "examples" | "example" | "benches" | "bench" | "benchmarks" | "fuzz" | "samples" | "demo"));
    // A build script runs before the program and is not it.
    let is_aside = is_aside || path.ends_with("build.rs") || path.ends_with("setup.py");
    let sort = if is_aside { Sort::Test } else { sort_of(path) };
    (sort as u8, depth(path))
}

/// Markdown and text quote code; they start nothing.
fn is_code(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    !matches!(
        ending,
        "md" | "mdx"
            | "rst"
            | "txt"
            | "adoc"
            | "json"
            | "jsonl"
            | "lock"
            | "snap"
            | "csv"
            | "css"
            | "scss"
            | "svg"
            | "png"
            | "patch"
            | "diff"
    )
}

fn nearest(mut hits: Vec<Hit>, at_most: usize) -> Vec<Hit> {
    hits.sort_by_key(|hit| (hit.text.starts_with("#!"), rank(&hit.path), hit.path.clone(), hit.line));
    spread(hits, at_most)
}

/// What a library's first file says of itself and hands out.
fn offered(path: &str, lines: &[(u64, &str)]) -> Vec<Hit> {
    #[rustfmt::skip]
    const STARTS: &[&str] = &[
        "//! ", "pub mod ", "pub use ", "pub fn ", "pub struct ", "pub trait ", "pub enum ", "pub async fn ", "export ", "module.exports", "exports.", "from .", "def ",
        "class ", "func ", "public ", "__all__", "require_relative ", "// Package ",
    ];
    let is_offer = |text: &str| STARTS.iter().any(|start| text.starts_with(start)) && !text.starts_with("def _");
    let hit = |(line, text): &(u64, &str)| Hit { path: path.into(), line: *line, text: text.trim_end().into() };
    lines.iter().filter(|(_, text)| is_offer(text)).take(OFFERED_MAX).map(hit).collect()
}
