//! Keeps the house tidy: one ordinary test over the sources, with few rules.
//!
//! It reads lines, not syntax: rustfmt has put every closing brace under its `fn`, so counting needs no parser.
//! What the rules are for is in the style notes; what the crates may know of each other is the table below.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    path::{Path, PathBuf},
};

const FILE_LINES_MAX: usize = 1200;
const FUNCTION_LINES_MAX: usize = 120;
/// Less than a sentence is not a description.
const MODULE_DOC_CHARS_MIN: usize = 60;
/// A dependency is code we ship without having read it.
const PACKAGES_MAX: usize = 300;

/// Which of our crates each crate may depend on. `session` is everyone's vocabulary, except the screen's.
const EDGES: &[(&str, &[&str])] = &[
    ("session", &[]),
    ("context", &["session"]),
    ("config", &["session"]),
    ("engine", &["session", "context"]),
    ("store", &["session"]),
    ("models", &["session"]),
    ("tools", &["session"]),
    ("plugins", &["session"]),
    ("api", &["session"]),
    ("server", &["session", "engine", "api"]),
    ("tui", &["api"]),
    ("cli", &["session", "context", "config", "engine", "store", "models", "tools", "plugins", "api", "server", "tui"]),
];

/// The pure crates may use nothing else: no clock, no disk, no runtime.
const PURE: &[&str] = &["session", "context"];
const PURE_THIRD_PARTY: &[&str] = &["serde", "serde_json"];

#[test]
fn the_house_is_tidy() {
    let root = root();
    let mut faults = Vec::new();
    let sources = sources(&root);
    check_lengths(&sources, &mut faults);
    check_words(&sources, &mut faults);
    check_edges(&root, &mut faults);
    check_lock(&root, &mut faults);
    check_committed_texts(&root, &mut faults);
    assert!(faults.is_empty(), "{} untidy:\n  {}", faults.len(), faults.join("\n  "));
}

struct Source {
    /// From the repository's root.
    name: String,
    text: String,
}

impl Source {
    fn is_shipped(&self) -> bool {
        self.name.split('/').nth(2) == Some("src")
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn sources(root: &Path) -> Vec<Source> {
    let mut paths = Vec::new();
    walk(&root.join("crates"), &|_| false, &mut paths);
    paths
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "rs"))
        .map(|path| Source { name: relative(root, &path), text: fs::read_to_string(&path).unwrap() })
        .collect()
}

fn walk(folder: &Path, skip: &dyn Fn(&Path) -> bool, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries.into_iter().filter(|path| !path.is_symlink() && !skip(path)) {
        if path.is_dir() {
            walk(&path, skip, found);
        } else {
            found.push(path);
        }
    }
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/")
}

fn check_lengths(sources: &[Source], faults: &mut Vec<String>) {
    let mut files: Vec<(usize, String)> = sources.iter().map(|source| (source.text.lines().count(), source.name.clone())).collect();
    let mut functions: Vec<(usize, String)> = sources.iter().flat_map(functions_of).collect();
    report_longest("files", FILE_LINES_MAX, &mut files, faults);
    report_longest("functions", FUNCTION_LINES_MAX, &mut functions, faults);
}

fn report_longest(what: &str, max: usize, items: &mut [(usize, String)], faults: &mut Vec<String>) {
    items.sort_by(|a, b| b.cmp(a));
    println!("the longest {what}:");
    for (lines, name) in items.iter().take(10) {
        println!("{lines:6}  {name}");
    }
    faults.extend(items.iter().filter(|(lines, _)| *lines > max).map(|(lines, name)| format!("{name}: {lines} lines, at most {max}")));
}

/// Each function's length with `file:line name`, from its `fn` to the brace under it.
fn functions_of(source: &Source) -> Vec<(usize, String)> {
    let lines: Vec<&str> = source.text.lines().collect();
    let starts = lines.iter().enumerate().filter_map(|(at, line)| Some((at, function_name(line)?)));
    starts.map(|(at, name)| (function_length(&lines[at..]), format!("{}:{} {name}", source.name, at + 1))).collect()
}

fn function_name(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let word = words.find(|word| {
        !matches!(*word, "pub" | "async" | "const" | "unsafe" | "extern" | "\"C\"" | "default") && !word.starts_with("pub(")
    })?;
    if word != "fn" {
        return None;
    }
    words.next()?.split(['(', '<']).next()
}

fn function_length(lines: &[&str]) -> usize {
    let first = lines[0];
    if first.ends_with('}') || first.ends_with(';') {
        return 1;
    }
    let indent = first.len() - first.trim_start().len();
    let closes = |line: &&str| {
        let inner = line.trim_start();
        line.len() - inner.len() == indent && (inner.starts_with('}') || (inner.starts_with(')') && inner.ends_with(';')))
    };
    lines.iter().skip(1).position(closes).map_or(1, |at| at + 2)
}

fn check_words(sources: &[Source], faults: &mut Vec<String>) {
    for source in sources.iter().filter(|source| source.is_shipped()) {
        let said = module_doc(&source.text).trim().len();
        if said < MODULE_DOC_CHARS_MIN {
            faults.push(format!("{}: {said} characters of `//!` at its start: say what it is and what it must not know", source.name));
        }
        for (at, line) in source.text.lines().enumerate() {
            if let Some(word) = unfinished(line) {
                faults.push(format!("{}:{}: {word:?}: finish it, or say why not", source.name, at + 1));
            }
        }
    }
}

fn module_doc(text: &str) -> String {
    text.lines().map_while(|line| line.strip_prefix("//!")).collect()
}

fn unfinished(line: &str) -> Option<&'static str> {
    let comment = line.split_once("//").map_or("", |(_, comment)| comment).to_lowercase();
    ["todo!(", "unimplemented!("].into_iter().find(|word| line.contains(word)).or_else(|| comment.contains("for now").then_some("for now"))
}

fn check_edges(root: &Path, faults: &mut Vec<String>) {
    for entry in fs::read_dir(root.join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else { continue };
        let Some((_, allowed)) = EDGES.iter().find(|(known, _)| *known == name) else {
            faults.push(format!("crates/{name} has no line in the table of edges"));
            continue;
        };
        for dependency in dependencies(&manifest) {
            let ours = dependency.strip_prefix("posse-");
            let fits = match ours {
                Some(ours) => allowed.contains(&ours),
                None => !PURE.contains(&name.as_str()) || PURE_THIRD_PARTY.contains(&dependency.as_str()),
            };
            if !fits {
                faults.push(format!("crates/{name} must not depend on {dependency}"));
            }
        }
    }
}

/// Names in every `[..dependencies]` section but the tests' own.
fn dependencies(manifest: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut inside = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            let is_table_of_one = section.split_once("dependencies.").filter(|(before, _)| !before.ends_with("dev-"));
            names.extend(is_table_of_one.map(|(_, name)| name.to_owned()));
            inside = section.ends_with("dependencies") && !section.ends_with("dev-dependencies");
        } else if inside && !line.starts_with('#') {
            names.extend(line.split(['.', '=', ' ']).next().filter(|name| !name.is_empty()).map(str::to_owned));
        }
    }
    names
}

fn check_lock(root: &Path, faults: &mut Vec<String>) {
    let lock = fs::read_to_string(root.join("Cargo.lock")).unwrap();
    let packages = lock.lines().filter(|line| *line == "[[package]]").count();
    println!("{packages} packages in Cargo.lock");
    if packages >= PACKAGES_MAX {
        faults.push(format!("Cargo.lock has {packages} packages; the limit is {PACKAGES_MAX}"));
    }
    // A mirror that some machine is set up with must not get into the lock: others could not build.
    let public = concat!("registry+https://github.com/rust-lang/", "crates.io-index");
    for line in lock.lines().filter_map(|line| line.strip_prefix("source = ")) {
        if line.trim_matches('"') != public {
            faults.push(format!("Cargo.lock: {line} is not the public registry"));
        }
    }
}

/// What belongs to one machine: package mirrors and the paths of somebody's home. Spelled in halves, since this file is
/// committed too.
const HOSTS: &[&str] = &[
    concat!("index.", "crates.io"),
    concat!("static.", "crates.io"),
    concat!("registry.", "npmjs"),
    concat!("registry.", "yarnpkg"),
    concat!("pypi.", "org"),
    concat!("files.", "pythonhosted"),
    concat!("artifact", "ory"),
    concat!("replace-", "with ="),
];
const HOMES: &[&str] = &[concat!("/ho", "me/"), concat!("/Us", "ers/"), concat!("/ro", "ot/")];
/// Names that examples use for nobody in particular.
const NOBODY: &[&str] = &["user", "me", "you", "someone", "alice", "bob", "ada", "test"];

fn check_committed_texts(root: &Path, faults: &mut Vec<String>) {
    let ignored = ignored_paths(root);
    let mut paths = Vec::new();
    walk(root, &|path| ignored.iter().any(|ignored| path == ignored), &mut paths);
    for path in paths {
        // What is not text names nothing.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let name = relative(root, &path);
        for (at, line) in text.lines().enumerate() {
            if let Some(found) = HOSTS.iter().find(|host| line.contains(**host)).copied().or_else(|| somebodys_home(line)) {
                faults.push(format!("{name}:{}: names {found}", at + 1));
            }
        }
    }
}

fn somebodys_home(line: &str) -> Option<&'static str> {
    HOMES.iter().copied().find(|home| {
        line.match_indices(home).any(|(at, _)| {
            let starts_a_path = !line[..at].ends_with(|before: char| before.is_alphanumeric() || "._-}/".contains(before));
            let name: String = line[at + home.len()..].chars().take_while(|c| c.is_alphanumeric() || ".-_".contains(*c)).collect();
            starts_a_path && !name.is_empty() && !NOBODY.contains(&name.as_str())
        })
    })
}

/// The plain folders and files of `.gitignore`, and git's own.
fn ignored_paths(root: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(root.join(".gitignore")).unwrap_or_default();
    let mut ignored: Vec<PathBuf> = text.lines().filter(|line| !line.is_empty()).map(|line| root.join(line.trim_matches('/'))).collect();
    ignored.push(root.join(".git"));
    ignored.push(root.join("target"));
    ignored
}

#[test]
fn functions_are_measured_to_their_brace() {
    let text =
        "fn one() {}\npub(crate) async fn long<T>(\n    a: T,\n) {\n    if a {\n    }\n}\ntrait T {\n    fn only(&self,\n    );\n}\n";
    let source = Source { name: "x.rs".into(), text: text.into() };
    assert_eq!(functions_of(&source), [(1, "x.rs:1 one".into()), (6, "x.rs:2 long".into()), (2, "x.rs:9 only".into())]);
}

#[test]
fn dependencies_are_read_by_section() {
    let manifest = "[package]\nname = \"x\"\n[dependencies]\nserde.workspace = true\na = \"1\"\n[dev-dependencies]\nb = \"1\"\n\
        [target.'cfg(unix)'.dependencies]\nc = { version = \"1\" }\n[dependencies.d]\nversion = \"1\"\n[dev-dependencies.e]\n";
    assert_eq!(dependencies(manifest), ["serde", "a", "c", "d"]);
}

#[test]
fn a_home_is_somebodys_unless_nobody_is_meant() {
    let home = HOMES[0];
    assert!(somebodys_home(&format!("see {home}karl/x")).is_some());
    assert!(somebodys_home(&format!("see {home}user/x")).is_none());
    assert!(somebodys_home(&format!("\"$DIR{home}karl\"")).is_none());
}
