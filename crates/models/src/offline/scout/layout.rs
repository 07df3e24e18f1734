//! The layout of a repository: what its README says it is, manifests, languages by number of files, folders, packages.
//!
//! Two rounds of calls: look around, then read the README and the nearest manifest and count the languages that were seen.

use std::collections::{BTreeMap, BTreeSet};

use super::{CALLS_MAX, LINES_MAX, depth, hits_of, numbered_lines, paths_of, patterns, place, with};
use crate::offline::{
    answer::Trouble,
    define::{Sort, sort_of},
    found::{self, Hit, Hits, Paths, Tree},
    intent::Scope,
    manifest, pattern,
    plan::{Call, Desk, Heard, glob, grep, list, read},
};

const LANGUAGES_MAX: usize = 4;
const FOLDERS_MAX: usize = 14;
const PACKAGES_MAX: usize = 24;
const README_LINES_MAX: usize = 4;
/// Lines of a README and of a manifest: what they are comes early.
const READ_MAX: u64 = 200;
/// Names beside each other in one line.
const ENTRIES_MAX: usize = 12;

pub(super) fn facts(desk: &Desk, trouble: &mut Trouble) -> Result<Vec<Hit>, Vec<Call>> {
    let everywhere = Scope::default();
    let named = Scope { path: None, include: Some(patterns::NAMED_MANIFESTS.into()) };
    let looks = [
        if desk.offers("list") { list(&everywhere) } else { glob("./*", &everywhere) },
        glob("**/*", &everywhere),
        glob(pattern::MANIFESTS, &everywhere),
        with(grep(patterns::PACKAGE_NAMES, &named), "limit", LINES_MAX.into()),
    ];
    let heard = desk.gather(&looks)?;
    let tree = trouble.said(heard.first()).map(found::tree).unwrap_or_default();
    let all = paths_of(&heard, 1, trouble);
    let manifests = paths_of(&heard, 2, trouble);
    let names = hits_of(&heard, 3, trouble);
    let ground = Ground::new(tree, all);

    let readme = ground.readme();
    let manifest = ground.manifest(&manifests, &names);
    let files: Vec<&String> = [&readme, &manifest].into_iter().flatten().collect();
    let wanted = if ground.all.cut { ground.languages() } else { Vec::new() };
    let left = CALLS_MAX.saturating_sub(looks.len() + files.len());
    let wanted: Vec<Language> = wanted.into_iter().take(left.min(LANGUAGES_MAX)).collect();
    let mut calls: Vec<Call> = files.iter().map(|path| with(read(ground.here(path)), "limit", READ_MAX.into())).collect();
    calls.extend(wanted.iter().map(|(_, ending)| glob(&format!("**/*.{ending}"), &everywhere)));
    let heard = desk.gather(&calls)?;

    let mut facts = Vec::new();
    for (path, heard) in files.iter().zip(&heard) {
        // It was listed a moment ago; when it cannot be read the rest still stands.
        let Heard::Said(text) = heard else { continue };
        let lines = numbered_lines(text);
        facts.extend(if Some(*path) == readme.as_ref() { purpose(path, &lines) } else { manifest::facts(path, &lines) });
    }
    facts.extend(ground.counted(readme.as_ref().or(manifest.as_ref())));
    facts.extend(if ground.all.cut { counts(&wanted, &heard[files.len()..]) } else { ground.counts() });
    facts.extend(ground.folders());
    facts.extend(packages(names.hits, manifest.as_deref()));
    Ok(facts)
}

/// A name for people, and the endings as a glob writes them.
type Language = (&'static str, &'static str);

#[rustfmt::skip]
const LANGUAGES: &[Language] = &[
    ("Rust", "rs"), ("Python", "py"), ("TypeScript", "{ts,tsx,mts,cts}"), ("JavaScript", "{js,jsx,mjs,cjs}"), ("Go", "go"), ("Java", "java"), ("Kotlin", "{kt,kts}"),
    ("C++", "{cc,cpp,cxx,hpp,hh}"), ("C", "{c,h}"), ("C#", "cs"), ("Ruby", "rb"), ("PHP", "php"), ("Swift", "swift"), ("Scala", "scala"), ("Haskell", "hs"),
    ("OCaml", "{ml,mli}"), ("Elixir", "{ex,exs}"), ("Erlang", "erl"), ("Clojure", "{clj,cljs}"), ("Lua", "lua"), ("Perl", "{pl,pm}"), ("R", "r"), ("Julia", "jl"),
    ("Dart", "dart"), ("Zig", "zig"), ("Nix", "nix"), ("Shell", "{sh,bash,zsh}"), ("SQL", "sql"), ("Vue", "vue"), ("Svelte", "svelte"), ("HTML", "{html,htm}"),
    ("CSS", "{css,scss,less}"), ("Markdown", "{md,mdx}"), ("reStructuredText", "rst"), ("Terraform", "tf"), ("Protobuf", "proto"), ("notebook", "ipynb"),
];

pub(super) fn language_of(path: &str) -> Option<Language> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let (_, ending) = name.rsplit_once('.')?;
    let ending = ending.to_lowercase();
    LANGUAGES.iter().find(|(_, endings)| endings.trim_matches(['{', '}']).split(',').any(|known| known == ending)).copied()
}

/// What the first look showed.
struct Ground {
    front: String,
    folders: Vec<String>,
    /// Those that the tree showed.
    drawn: BTreeSet<String>,
    /// All that were seen.
    files: BTreeSet<String>,
    all: Paths,
}

impl Ground {
    fn new(tree: Tree, all: Paths) -> Self {
        let (folders, drawn): (Vec<String>, Vec<String>) = tree.paths.into_iter().partition(|path| path.ends_with('/'));
        let drawn: BTreeSet<String> = drawn.into_iter().collect();
        let files = drawn.iter().chain(&all.paths).cloned().collect();
        Self { front: tree.front, folders, drawn, files, all }
    }

    /// The path as seen from the working directory, which is what `read` takes.
    fn here<'a>(&self, path: &'a str) -> &'a str {
        path.strip_prefix(self.front.as_str()).unwrap_or(path)
    }

    fn readme(&self) -> Option<String> {
        let is_readme = |path: &&String| !self.here(path).contains('/') && self.here(path).to_lowercase().starts_with("readme");
        let is_markdown = |path: &&String| path.to_lowercase().ends_with(".md");
        // `README.de.md` and the like come after the plain one.
        self.files.iter().filter(is_readme).min_by_key(|path| (!is_markdown(path), path.len())).cloned()
    }

    /// The nearest manifest that names things; a Makefile only has targets.
    fn manifest(&self, manifests: &Paths, names: &Hits) -> Option<String> {
        let is_own = |path: &&String| patterns::manifest_rank(path).is_some() && !is_sample(path);
        let near = self.files.iter().filter(|path| !self.here(path).contains('/'));
        let all: BTreeSet<&String> = near.chain(&manifests.paths).filter(is_own).collect();
        let has_name = |path: &str| names.hits.iter().any(|hit| hit.path == path);
        all.into_iter().min_by_key(|path| (depth(path), !has_name(path), patterns::manifest_rank(path), path.len())).cloned()
    }

    /// Languages by the number of files that were seen.
    fn languages(&self) -> Vec<Language> {
        let mut counted = self.by_language().into_iter().map(|(language, paths)| (paths.len(), language)).collect::<Vec<_>>();
        counted.sort_by_key(|(count, language)| (usize::MAX - count, LANGUAGES.iter().position(|known| known == language)));
        counted.into_iter().map(|(_, language)| language).collect()
    }

    fn by_language(&self) -> BTreeMap<Language, Vec<&String>> {
        let mut counts: BTreeMap<Language, Vec<&String>> = BTreeMap::new();
        for path in &self.files {
            if let Some(language) = language_of(path) {
                counts.entry(language).or_default().push(path);
            }
        }
        counts
    }

    /// All languages of a repository that was seen whole.
    fn counts(&self) -> Vec<Hit> {
        let by_language = self.by_language();
        let counted = |language: Language| {
            let paths = by_language.get(&language)?;
            Some(place(nearest(paths.iter().copied())?, one_of(paths.len(), language.0)))
        };
        self.languages().into_iter().take(LANGUAGES_MAX).filter_map(counted).collect()
    }

    fn counted(&self, first: Option<&String>) -> Option<Hit> {
        let path = first.cloned().or_else(|| nearest(self.files.iter()))?;
        let count = self.all.all();
        let at_least = if self.all.cut && self.all.told.is_none() { "at least " } else { "" };
        let text = if count == 1 { "the only file".to_string() } else { format!("one of {at_least}{count} files") };
        (count > 0).then(|| place(path, text))
    }

    /// One line per folder at the top: what is in it, placed at a file of it.
    fn folders(&self) -> Vec<Hit> {
        let at_top = |folder: &&String| depth(self.here(folder)) == 1;
        self.folders.iter().filter(at_top).filter_map(|folder| self.folder(folder)).take(FOLDERS_MAX).collect()
    }

    fn folder(&self, folder: &str) -> Option<Hit> {
        let inside = |path: &&String| path.starts_with(folder) && path.len() > folder.len();
        let below = self.folders.iter().filter(inside).filter(|path| depth(&path[folder.len()..]) == 1);
        let files = self.drawn.iter().filter(inside).filter(|path| depth(&path[folder.len()..]) == 0);
        let entries: Vec<&str> = below.chain(files).map(|path| &path[folder.len()..]).collect();
        // A folder that was not opened has entries that nobody saw.
        if entries.is_empty() {
            return None;
        }
        let sample = nearest(self.files.iter().filter(inside))?;
        let shown = entries.iter().take(ENTRIES_MAX).copied().collect::<Vec<_>>().join(", ");
        let more = if ENTRIES_MAX < entries.len() { ", …" } else { "" };
        Some(place(sample, format!("{} holds {shown}{more}", self.here(folder))))
    }
}

fn one_of(count: usize, language: &str) -> String {
    if count == 1 { format!("the only {language} file") } else { format!("one of {count} {language} files") }
}

fn counts(languages: &[Language], heard: &[Heard]) -> Vec<Hit> {
    let mut counted: Vec<(usize, Hit)> = Vec::new();
    for ((language, _), heard) in languages.iter().zip(heard) {
        let Heard::Said(text) = heard else { continue };
        let paths = found::paths(text);
        if let Some(sample) = nearest(paths.paths.iter()) {
            counted.push((paths.all(), place(sample, one_of(paths.all(), language))));
        }
    }
    counted.sort_by_key(|(count, _)| usize::MAX - count);
    counted.into_iter().map(|(_, hit)| hit).collect()
}

/// The file one would open first. An empty `__init__.py` or `.gitkeep` has no first line.
fn nearest<'a>(paths: impl Iterator<Item = &'a String>) -> Option<String> {
    let is_empty = |path: &str| ["__init__.py", "keep", "py.typed"].iter().any(|end| path.ends_with(end));
    let stands_for_all = |path: &str| {
        ["lib.", "main.", "index.", "app."].iter().any(|start| path.rsplit('/').next().is_some_and(|name| name.starts_with(start)))
    };
    paths.min_by_key(|path| (is_empty(path), sort_of(path), depth(path), !stands_for_all(path), (*path).clone())).cloned()
}

/// The title of a README and the first paragraph under it, without badges and markup.
fn purpose(path: &str, lines: &[(u64, &str)]) -> Vec<Hit> {
    // Code between fences is no prose, however much it looks like it.
    let mut is_code = false;
    let is_told = |(_, text): &&(u64, &str)| {
        let fences = text.trim_start().starts_with("```");
        is_code ^= fences;
        !fences && !is_code
    };
    let lines: &[(u64, &str)] = &lines.iter().filter(is_told).copied().collect::<Vec<_>>();
    let hit = |(line, text): (u64, &str)| Hit { path: path.into(), line, text: text.trim().into() };
    let is_title = |text: &str| text.starts_with("# ") || text.starts_with("= ");
    let is_underlined =
        |at: usize| lines.get(at + 1).is_some_and(|(_, next)| next.len() > 2 && next.trim().chars().all(|sign| "=-~".contains(sign)));
    let title = lines.iter().enumerate().find(|(at, (_, text))| is_title(text) || !text.trim().is_empty() && is_underlined(*at));
    let title = title.map(|(_, line)| *line);
    let is_prose = |text: &str| {
        let text = text.trim_start_matches(['>', ' ', '*', '_']);
        text.len() >= 12 && text.starts_with(|sign: char| sign.is_alphanumeric() || sign == '`')
            || text.starts_with('[') && !text.contains("](") && text.len() >= 40
    };
    let after = title.map_or(0, |(line, _)| line);
    let is_start = |(at, (line, text)): &(usize, &(u64, &str))| *line > after && is_prose(text) && !is_underlined(*at);
    let start = lines.iter().enumerate().find(is_start).map(|(at, _)| at);
    let paragraph = start.map_or(&[][..], |start| &lines[start..]);
    let prose =
        paragraph.iter().take_while(|(_, text)| !text.trim().is_empty() && !text.starts_with(['#', '`', '<'])).take(README_LINES_MAX);
    title.into_iter().chain(prose.copied()).map(hit).collect()
}

/// Names of packages, the nearest first, without those of samples for tests.
fn packages(names: Vec<Hit>, read_already: Option<&str>) -> Vec<Hit> {
    let mut names: Vec<Hit> = names.into_iter().filter(|hit| Some(hit.path.as_str()) != read_already && !is_sample(&hit.path)).collect();
    names.sort_by_key(|hit| (depth(&hit.path), hit.path.clone(), hit.line));
    // The second name in a manifest is that of a target.
    let mut seen: Vec<(String, bool)> = Vec::new();
    names.retain(|hit| {
        let key = (hit.path.clone(), hit.text.contains("description"));
        let is_new = !seen.contains(&key);
        seen.push(key);
        is_new
    });
    for hit in &mut names {
        hit.text = hit.text.trim().to_string();
    }
    names.truncate(PACKAGES_MAX);
    names
}

fn is_sample(path: &str) -> bool {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    !matches!(sort_of(&format!("{folder}/x.rs")), Sort::Source)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quoted(text: &str) -> Vec<u64> {
        let lines: Vec<(u64, &str)> = (1..).zip(text.lines()).collect();
        purpose("README.md", &lines).iter().map(|hit| hit.line).collect()
    }

    #[test]
    fn a_readme_says_what_it_is_for_under_its_title() {
        for (text, expected) in [
            ("# Posse\n\nPosse runs agents.\nEvery one is durable.\n\nMore.\n", vec![1, 3, 4]),
            ("[![ci](x)](y)\n<p align=center>\n\n# zip\n\n![logo](a.png)\n\n> A fast packer of files\n\n## Install\n", vec![4, 8]),
            ("Title\n=====\n\nThe first paragraph here.\n", vec![1, 4]),
            ("Only a line of prose without title\n", vec![1]),
            ("# Name\n## Usage\n```\ncargo run --release\n```\nThen wait for it.\n", vec![1, 6]),
            ("", vec![]),
        ] {
            assert_eq!(quoted(text), expected, "{text}");
        }
    }

    #[test]
    fn languages_are_told_by_ending() {
        for (path, name) in
            [("a/b.tsx", Some("TypeScript")), ("x.RS", Some("Rust")), ("Makefile", None), ("a.h", Some("C")), ("a.unknown", None)]
        {
            assert_eq!(language_of(path).map(|(name, _)| name), name, "{path}");
        }
    }

    #[test]
    fn the_nearest_manifest_with_names_is_read() {
        let paths = |paths: &[&str]| Paths { paths: paths.iter().map(|path| path.to_string()).collect(), ..Paths::default() };
        let nothing = Ground::new(Tree::default(), Paths::default());
        let named = Hits { hits: vec![place("setup.py".into(), "name='x'".into())], ..Hits::default() };
        for (given, expected) in [
            (&["web/package.json", "Makefile", "api/x/go.mod"][..], Some("web/package.json")),
            (&["tests/fixtures/package.json", "a/b/Cargo.toml"], Some("a/b/Cargo.toml")),
            (&["package.json", "Cargo.toml"], Some("Cargo.toml")),
            (&["pyproject.toml", "setup.py"], Some("setup.py")),
            (&["Makefile"], None),
        ] {
            assert_eq!(nothing.manifest(&paths(given), &named).as_deref(), expected, "{given:?}");
        }
    }
}
