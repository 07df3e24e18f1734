//! Tests and documents of a repository: where tests are, how they are run, what is written down.
//!
//! How tests are run is only ever quoted: from a README, a manifest, a make file or a CI file.

use super::{depth, hits_of, layout::language_of, lines, over_lines, paths_of, patterns, place, spread, with};
use crate::offline::{
    answer::Trouble,
    define::{Sort, sort_of},
    found::{Hit, Paths},
    intent::Scope,
    pattern,
    plan::{Call, Desk, glob},
};

const COMMANDS_MAX: usize = 10;
const FOLDERS_MAX: usize = 10;
const NAMES_MAX: usize = 8;
const DOCUMENTS_MAX: usize = 16;
const SETTINGS_MAX: usize = 6;
/// Headings that are looked through for titles; as many as the tool shows.
const TITLES_MAX: u64 = 500;

pub(super) fn facts(desk: &Desk, trouble: &mut Trouble) -> Result<Vec<Hit>, Vec<Call>> {
    let everywhere = Scope::default();
    let calls = [
        lines(patterns::TEST_COMMANDS, Some(patterns::TEST_COMMAND_FILES)),
        glob(pattern::TEST_FILES, &everywhere),
        over_lines(patterns::TEST_NAMES, Some(patterns::SOURCES)),
        glob(patterns::TEST_SETTINGS, &everywhere),
        with(over_lines(patterns::TITLES, Some(patterns::DOCUMENTS)), "limit", TITLES_MAX.into()),
        glob(&format!("**/{}", patterns::DOCUMENTS), &everywhere),
    ];
    let heard = desk.gather(&calls)?;
    let mut facts = commands(hits_of(&heard, 0, trouble).hits);
    facts.extend(folders(&paths_of(&heard, 1, trouble)));
    facts.extend(names(hits_of(&heard, 2, trouble).hits));
    let mut settings = paths_of(&heard, 3, trouble).paths;
    settings.sort_by_key(|path| (depth(path), path.clone()));
    facts.extend(settings.into_iter().take(SETTINGS_MAX).map(|path| place(path, "settings of tests or CI, by its name".into())));
    facts.extend(documents(hits_of(&heard, 4, trouble).hits, paths_of(&heard, 5, trouble)));
    Ok(facts)
}

/// How tests are run, where a person would look first: README, contributing, make file, manifest, CI.
fn commands(mut hits: Vec<Hit>) -> Vec<Hit> {
    let order = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or(path).to_lowercase();
        let known = ["readme", "contributing", "makefile", "justfile", "package.json", "pyproject.toml", "tox.ini", "noxfile"];
        known.iter().position(|start| name.starts_with(start)).unwrap_or(if path.contains("ci") || path.contains("workflows") {
            10
        } else {
            11
        })
    };
    hits.retain(|hit| sort_of(&hit.path) != Sort::Test && !hit.path.to_lowercase().contains("changelog"));
    hits.sort_by_key(|hit| (depth(&hit.path).min(2), order(&hit.path), hit.path.clone(), hit.line));
    spread(hits, COMMANDS_MAX)
}

/// One line per folder of tests, with as many as were seen.
fn folders(paths: &Paths) -> Vec<Hit> {
    let mut folders: Vec<(String, Vec<&String>)> = Vec::new();
    for path in paths.paths.iter().filter(|path| matches!(sort_of(path), Sort::Test)) {
        let folder = folder(path);
        match folders.iter_mut().find(|(known, _)| *known == folder) {
            Some((_, paths)) => paths.push(path),
            None => folders.push((folder, vec![path])),
        }
    }
    folders.sort_by_key(|(folder, paths)| (usize::MAX - paths.len(), folder.clone()));
    let at_least = if paths.cut { "at least " } else { "" };
    let fact = |(folder, paths): (String, Vec<&String>)| {
        let first = paths.iter().min_by_key(|path| {
            (language_of(path).is_none(), !file(path).contains("test"), path.ends_with("__init__.py"), depth(path), (**path).clone())
        })?;
        let where_it_is = if folder.is_empty() { "at the top".to_string() } else { format!("in {folder}/") };
        let text = match paths.len() {
            1 => format!("a test file {where_it_is}"),
            several => format!("one of {at_least}{several} test files {where_it_is}"),
        };
        Some(place((*first).clone(), text))
    };
    folders.into_iter().filter_map(fact).take(FOLDERS_MAX).collect()
}

fn file(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The folder of tests that a test belongs to: up to the one named so, else its own.
fn folder(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    let folders = &parts[..parts.len() - 1];
    let named = folders.iter().position(|part| matches!(*part, "tests" | "test" | "__tests__" | "spec" | "specs"));
    folders[..named.map_or(folders.len(), |at| at + 1)].join("/")
}

fn names(mut hits: Vec<Hit>) -> Vec<Hit> {
    hits.retain(|hit| super::names_test(&hit.text));
    let mut firsts = hits;
    firsts.dedup_by_key(|hit| hit.path.clone());
    firsts.sort_by_key(|hit| (depth(&hit.path), hit.path.clone()));
    // Some of everywhere: every so many of the files in their order.
    let every = firsts.len().div_ceil(NAMES_MAX).max(1);
    firsts.into_iter().step_by(every).collect()
}

/// Documents by their title, those at the top first; one without a title by its name.
fn documents(mut titles: Vec<Hit>, paths: Paths) -> Vec<Hit> {
    #[rustfmt::skip]
    const ASIDE: &[&str] = &["src", "tests", "test", "fixtures", "testdata", "vendor", "third_party", "ISSUE_TEMPLATE"];
    #[rustfmt::skip]
    const NO_DOCUMENTS: &[&str] = &["requirements", "constraints", "license", "copying", "cmakelists", "robots", "issue_template", "pull_request_template"];
    let is_document = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or(path).to_lowercase();
        sort_of(path) == Sort::Docs
            && !path.split('/').any(|part| ASIDE.contains(&part))
            && !NO_DOCUMENTS.iter().any(|start| name.starts_with(start))
            // Deeper a text file is data, unless it stands among documents.
            && (!name.ends_with(".txt") || depth(path) == 0 || path.contains("doc"))
    };
    titles.retain(|hit| is_document(&hit.path));
    titles.dedup_by_key(|hit| hit.path.clone());
    let titled: Vec<String> = titles.iter().map(|hit| hit.path.clone()).collect();
    let untitled =
        paths.paths.into_iter().filter(|path| is_document(path) && !titled.contains(path) && !path.to_lowercase().starts_with("readme"));
    let mut documents: Vec<Hit> = titles;
    documents.extend(untitled.map(|path| place(path, "a document, by its name".into())));
    documents.sort_by_key(|hit| (hit.path.starts_with('.'), depth(&hit.path), hit.path.clone()));
    documents.truncate(DOCUMENTS_MAX);
    documents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_belong_to_a_folder() {
        for (path, expected) in [
            ("crates/cli/tests/faults/main.rs", "crates/cli/tests"),
            ("src/a_test.go", "src"),
            ("test_a.py", ""),
            ("web/__tests__/deep/a.ts", "web/__tests__"),
        ] {
            assert_eq!(folder(path), expected, "{path}");
        }
    }
}
