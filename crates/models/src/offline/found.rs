//! What the tools said, read tolerantly: hits of `grep`, paths of `glob`, and whether a limit cut them.
//!
//! Knows the shapes, not the tools: `path:line:text`, or a path line followed by `12: text` or `Line 12: text`.

/// One line that a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) path: String,
    pub(super) line: u64,
    pub(super) text: String,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Hits {
    pub(super) hits: Vec<Hit>,
    /// The tool said that there is more than it showed.
    pub(super) cut: bool,
    /// The number of all hits, where the tool told it.
    pub(super) told: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Paths {
    pub(super) paths: Vec<String>,
    pub(super) cut: bool,
    /// The number of all files, where the tool told it.
    pub(super) told: Option<u64>,
}

impl Paths {
    /// As many as there are, as far as the tool said.
    pub(super) fn all(&self) -> usize {
        self.told.map_or(self.paths.len(), |told| usize::try_from(told).unwrap_or(usize::MAX))
    }
}

pub(super) fn hits(text: &str) -> Hits {
    let mut found = Hits::default();
    let mut current: Option<&str> = None;
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() {
            continue;
        }
        if is_note(trimmed) {
            found.cut |= tells_of_more(trimmed);
            found.told = found.told.max(total_in(trimmed, found.hits.len()));
            continue;
        }
        let indented = line.starts_with([' ', '\t']);
        let numbered = numbered(trimmed.strip_prefix("Line ").unwrap_or(trimmed));
        match (current, numbered) {
            (Some(path), Some((number, text))) => found.hits.push(Hit { path: path.into(), line: number, text: text.into() }),
            _ if !indented => match flat(line) {
                Some(hit) => found.hits.push(hit),
                None => current = Some(trimmed.trim_end_matches(':')),
            },
            _ => {}
        }
    }
    found
}

pub(super) fn paths(text: &str) -> Paths {
    let mut found = Paths::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if is_note(line) {
            found.cut |= tells_of_more(line);
            found.told = found.told.max(total_in(line, found.paths.len()));
        } else {
            found.paths.push(line.to_string());
        }
    }
    if text.lines().any(|line| line.starts_with("(The folder is too large") || line.starts_with("(Stopped")) {
        // Not all was walked, so the total is only of what was.
        found.told = None;
    }
    found
}

/// A folder as `list` draws it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Tree {
    /// What stands before every path below the folder: empty, or with a slash at its end.
    pub(super) front: String,
    /// Everything in it, folders with a slash at their end.
    pub(super) paths: Vec<String>,
}

/// Reads a tree with two blanks per level, or a flat list of paths.
pub(super) fn tree(text: &str) -> Tree {
    let mut tree = Tree::default();
    let mut above: Vec<String> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let name = line.trim();
        if name.is_empty() || is_note(name) {
            continue;
        }
        let depth = (line.len() - line.trim_start().len()) / 2;
        if number == 0 && depth == 0 && name.ends_with('/') {
            tree.front = if name == "./" { String::new() } else { name.to_string() };
            continue;
        }
        above.truncate(depth.saturating_sub(1));
        let name = name.strip_suffix(" …").unwrap_or(name);
        tree.paths.push(format!("{}{}{name}", tree.front, above.concat()));
        if name.ends_with('/') {
            above.push(name.to_string());
        }
    }
    tree
}

/// `12: text`, `12| text` or `12<tab>text`.
pub(super) fn numbered(line: &str) -> Option<(u64, &str)> {
    let digits = line.find(|sign: char| !sign.is_ascii_digit())?;
    let number = line[..digits].parse().ok()?;
    let rest = &line[digits..];
    Some((number, rest.strip_prefix(": ").or_else(|| rest.strip_prefix([':', '|', '\t', '→']))?))
}

/// `path:12:text` or `path:12: text`.
pub(super) fn flat(line: &str) -> Option<Hit> {
    for (colon, _) in line.match_indices(':') {
        let after = &line[colon + 1..];
        let digits = after.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(after.len());
        if colon > 0 && digits > 0 && after[digits..].starts_with(':') {
            let text = &after[digits + 1..];
            return Some(Hit {
                path: line[..colon].into(),
                line: after[..digits].parse().ok()?,
                text: text.strip_prefix(' ').unwrap_or(text).into(),
            });
        }
    }
    None
}

/// A line by the tool, not from a file.
fn is_note(line: &str) -> bool {
    (line.starts_with('(') && line.ends_with([')', '.']))
        || (line.starts_with('[') && line.ends_with(']'))
        || ["Found ", "No ", "no files", "no match"].iter().any(|start| line.starts_with(start))
        || line.starts_with("... ")
        || line.starts_with('…')
}

fn tells_of_more(note: &str) -> bool {
    let note = note.to_lowercase();
    // A note that begins with a word may quote the pattern, so only those in brackets are believed.
    note.starts_with(['(', '[', '.', '…'])
        && ["truncat", "more ", " more", "first ", "showing", "limit", "cut", "only", "too large", "stopped"]
            .iter()
            .any(|word| note.contains(word))
}

/// The total that a note tells: `(showing 100 of 1,234 files)`, `(1134 more match; …)`. "At least" is no total.
fn total_in(note: &str, shown: usize) -> Option<u64> {
    let number = |text: &str| {
        text.chars().take_while(|sign| sign.is_ascii_digit() || *sign == ',').filter(char::is_ascii_digit).collect::<String>().parse().ok()
    };
    if let Some((_, after)) = note.split_once(" of ") {
        return number(after);
    }
    let more: u64 = number(note.strip_prefix('(')?)?;
    note.contains(" more").then(|| more + shown as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(path: &str, line: u64, text: &str) -> Hit {
        Hit { path: path.into(), line, text: text.into() }
    }

    #[test]
    fn flat_and_grouped_hits_are_the_same() {
        let expected = vec![hit("src/a.rs", 3, "fn a() {"), hit("src/b.rs", 12, "a(); // see c:4: x")];
        for (shape, text) in [
            ("flat", "src/a.rs:3:fn a() {\nsrc/b.rs:12:a(); // see c:4: x\n"),
            ("spaced", "src/a.rs:3: fn a() {\nsrc/b.rs:12: a(); // see c:4: x\n"),
            ("grouped", "Found 2 matches\nsrc/a.rs:\n  Line 3: fn a() {\n\nsrc/b.rs:\n  Line 12: a(); // see c:4: x\n"),
            ("posse", "src/a.rs:\n  3: fn a() {\n\nsrc/b.rs:\n  12: a(); // see c:4: x\n"),
            ("heading", "src/a.rs\n3:fn a() {\n\nsrc/b.rs\n12:a(); // see c:4: x\n"),
        ] {
            assert_eq!(hits(text), Hits { hits: expected.clone(), ..Hits::default() }, "{shape}");
        }
    }

    #[test]
    fn notes_are_no_hits() {
        assert_eq!(hits("No files found"), Hits::default());
        assert_eq!(hits("(no matches)"), Hits::default());
        assert_eq!(
            hits("a:1:x\n\n(Results are truncated. Consider a more specific pattern.)"),
            Hits { hits: vec![hit("a", 1, "x")], cut: true, told: None }
        );
        assert_eq!(
            hits("a:\n  1: x\n\n(7 more matches are not shown; narrow the pattern)"),
            Hits { hits: vec![hit("a", 1, "x")], cut: true, told: Some(8) }
        );
        assert_eq!(
            hits("a:\n  1: x\n\n(at least 7 more matches are not shown)"),
            Hits { hits: vec![hit("a", 1, "x")], cut: true, told: None }
        );
        assert_eq!(hits("No line matches only a limit in . (binary and ignored files are not searched)."), Hits::default());
    }

    #[test]
    fn a_tree_becomes_paths() {
        let drawn = "./\n  crates/\n    cli/\n      src/ …\n      Cargo.toml\n    web/\n    (3 more)\n  README.md\n(1 folder marked … was not opened; call list with its path)\n";
        let paths = ["crates/", "crates/cli/", "crates/cli/src/", "crates/cli/Cargo.toml", "crates/web/", "README.md"];
        assert_eq!(tree(drawn), Tree { front: String::new(), paths: paths.map(String::from).to_vec() });
        let below = Tree { front: "crates/cli/".into(), paths: vec!["crates/cli/src/".into(), "crates/cli/src/main.rs".into()] };
        assert_eq!(tree("crates/cli/\n  src/\n    main.rs\n"), below);
        assert_eq!(tree("a.md\nb.md").paths, ["a.md", "b.md"]);
        assert_eq!(tree("./\n  (empty, or everything in it is left out)\n"), Tree::default());
    }

    #[test]
    fn paths_are_counted_and_totals_read() {
        assert_eq!(paths("a.rs\nsrc/b.rs\n"), Paths { paths: vec!["a.rs".into(), "src/b.rs".into()], cut: false, told: None });
        assert_eq!(paths("a.rs\n(showing 1 of 1,234 files)"), Paths { paths: vec!["a.rs".into()], cut: true, told: Some(1234) });
        assert_eq!(paths("a.rs\n(1133 more match; narrow the pattern or the path)").told, Some(1134));
        assert_eq!(paths("a.rs\n(1133 more match)\n(The folder is too large to be searched completely; name a smaller path.)").told, None);
        assert_eq!(paths("app/(group)/page.tsx\n(group)/page.tsx").paths.len(), 2);
        assert_eq!(paths("No files found"), Paths::default());
        assert_eq!(paths("No files match **/*.x in . (files that .gitignore excludes are not searched)."), Paths::default());
    }
}
