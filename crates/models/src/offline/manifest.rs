//! Which lines of a manifest say what a package is: its name and purpose, its members, what it depends on.
//!
//! No parser: one pass over numbered lines that knows sections and lists of TOML, JSON, `go.mod`, `setup.py`, XML and a few
//! more. A line is taken or left, never changed.

use super::found::Hit;

/// Lines of one list of dependencies; the rest is in the file.
const DEPENDENCIES_MAX: usize = 8;
/// Lines of one list of members.
const MEMBERS_MAX: usize = 12;

/// Keys worth a line, each once.
#[rustfmt::skip]
const KEYS: &[&str] = &[
    "name", "description", "module", "members", "workspaces", "packages", "requires-python", "python_requires", "go", "project", "artifactId", "add_executable",
    "add_library", "main", "app", "tagline", "summary", "license",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Where the keys are about the package itself.
    Own,
    Members,
    Dependencies,
    Other,
}

pub(super) fn facts(path: &str, lines: &[(u64, &str)]) -> Vec<Hit> {
    let file = path.rsplit('/').next().unwrap_or(path);
    let is_list = file.contains("requirements");
    let is_markup = file.ends_with(".xml");
    let mut part = if is_list { Part::Dependencies } else { Part::Own };
    let mut seen: Vec<&str> = Vec::new();
    let (mut members, mut dependencies) = (0, 0);
    let mut facts: Vec<Hit> = Vec::new();
    let mut goes_on = false;
    for &(line, text) in lines {
        let trimmed = text.trim();
        // A description over several lines is told by the first that has words.
        if goes_on && !trimmed.is_empty() {
            goes_on = false;
            facts.push(Hit { path: path.into(), line, text: trimmed.into() });
            continue;
        }
        if trimmed.is_empty() || trimmed.starts_with(['#', '/']) || is_bracket(trimmed) {
            part = if is_closing(trimmed) && part != Part::Own && !is_list { Part::Own } else { part };
            continue;
        }
        if let Some(header) = trimmed.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            part = part_of_section(header.trim_matches(['[', ']']));
            continue;
        }
        let key = key(trimmed);
        let opens = trimmed.ends_with(['{', '[', '(']);
        // Packages of the same workspace are listed as such.
        let is_here = trimmed.contains("path = ");
        let taken = match part {
            Part::Dependencies if is_here => false,
            Part::Members => within(&mut members, MEMBERS_MAX),
            Part::Dependencies => within(&mut dependencies, DEPENDENCIES_MAX),
            Part::Own if key == "require" || key == "gem" => within(&mut dependencies, DEPENDENCIES_MAX) && !opens,
            Part::Own if opens => KEYS.contains(&key) && !seen.contains(&key),
            // In XML every element has a name; those of the whole come first.
            Part::Own => KEYS.contains(&key) && !seen.contains(&key) && (!is_markup || indent(text) <= 4),
            Part::Other => false,
        };
        if taken {
            facts.push(Hit { path: path.into(), line, text: trimmed.into() });
            seen.push(key);
            goes_on = trimmed.ends_with("\"\"\"") && trimmed.matches("\"\"\"").count() == 1;
        }
        if opens && part == Part::Own {
            part = part_of_list(key);
        }
    }
    facts
}

fn within(count: &mut usize, at_most: usize) -> bool {
    *count += 1;
    *count <= at_most
}

fn indent(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

fn is_bracket(trimmed: &str) -> bool {
    trimmed.chars().all(|sign| "{}[](),;".contains(sign))
}

fn is_closing(trimmed: &str) -> bool {
    trimmed.starts_with(['}', ']', ')'])
}

/// A TOML table by its name.
fn part_of_section(header: &str) -> Part {
    match header {
        "package" | "project" | "workspace" | "tool.poetry" | "lib" | "metadata" | "bin" => Part::Own,
        "dependencies" | "workspace.dependencies" | "tool.poetry.dependencies" => Part::Dependencies,
        _ => Part::Other,
    }
}

/// A list or an object that a key opens.
fn part_of_list(key: &str) -> Part {
    match key {
        "members" | "workspaces" | "packages" => Part::Members,
        "dependencies" | "require" | "install_requires" | "imports" => Part::Dependencies,
        // `{` alone, `setup(` and the like hold the keys themselves.
        "" | "setup" | "project" | "module.exports" => Part::Own,
        _ => Part::Other,
    }
}

/// The word before `=`, `:`, `(` or a blank, without quotation marks and angle brackets.
fn key(trimmed: &str) -> &str {
    let bare = trimmed.trim_start_matches(['"', '\'', '<']);
    let end = bare.find(|sign: char| !(sign.is_alphanumeric() || "_-.".contains(sign))).unwrap_or(bare.len());
    &bare[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the lines that are taken.
    fn taken(path: &str, text: &str) -> Vec<u64> {
        let lines: Vec<(u64, &str)> = (1..).zip(text.lines()).collect();
        let facts = facts(path, &lines);
        assert!(facts.iter().all(|fact| text.lines().nth(fact.line as usize - 1).map(str::trim) == Some(fact.text.as_str())));
        facts.iter().map(|fact| fact.line).collect()
    }

    #[test]
    fn manifests_of_many_kinds() {
        let rows: &[(&str, &str, &[u64])] = &[
            (
                "Cargo.toml",
                "[package]\nname = \"a\"\nversion = \"1\"\n\n[dependencies]\nserde = \"1\"\n\n[dev-dependencies]\nx = \"1\"\n",
                &[2, 6],
            ),
            ("Cargo.toml", "[workspace]\nmembers = [\n  \"a\",\n  # why\n  \"b\",\n]\n[profile.dev]\nname = 1\n", &[2, 3, 5]),
            ("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\n[workspace.dependencies]\nanyhow = \"1\"\n", &[2, 4]),
            (
                "package.json",
                "{\n  \"name\": \"web\",\n  \"author\": {\n    \"name\": \"me\"\n  },\n  \"dependencies\": {\n    \"react\": \"1\"\n  },\n  \"description\": \"d\"\n}\n",
                &[2, 7, 9],
            ),
            ("pyproject.toml", "[project]\nname = \"p\"\ndependencies = [\n  \"httpx\",\n]\n[tool.ruff]\nname = 1\n", &[2, 4]),
            ("go.mod", "module example.org/x\n\ngo 1.22\n\nrequire (\n\texample.org/y v1\n)\nrequire example.org/z v1\n", &[1, 3, 6, 8]),
            (
                "setup.py",
                "from setuptools import setup\nsetup(\n    name=\"p\",\n    install_requires=[\n        \"six\",\n    ],\n)\n",
                &[3, 5],
            ),
            ("Cargo.toml", "[package]\ndescription = \"\"\"\nSays it.\n\"\"\"\nname = \"a\"\n", &[2, 3, 5]),
            ("requirements.txt", "# pinned\nflask==1\nsix\n", &[2, 3]),
            ("pom.xml", "<project>\n  <artifactId>a</artifactId>\n  <dependencies>\n      <artifactId>b</artifactId>\n", &[1, 2]),
            ("CMakeLists.txt", "cmake_minimum_required(VERSION 3)\nproject(zip C)\nadd_executable(zip main.c)\n", &[2, 3]),
            ("Gemfile", "source 'x'\ngem 'rails'\n", &[2]),
            ("Cargo.toml", "", &[]),
        ];
        for (path, text, expected) in rows {
            assert_eq!(taken(path, text), *expected, "{path}: {text}");
        }
    }

    #[test]
    fn long_lists_are_cut() {
        let text = (0..50).map(|number| format!("p{number} = \"1\"\n")).collect::<String>();
        assert_eq!(taken("Cargo.toml", &format!("[dependencies]\n{text}")).len(), DEPENDENCIES_MAX);
    }
}
