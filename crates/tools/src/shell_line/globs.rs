//! Wildcards of a line as the disk answers them now: a rule about a file, and a link out of the project, are not stepped
//! over by writing `a.t*` for `a.txt`.
//!
//! Looks no further than a bound; what lies beyond it is not known, and that is said. Judges nothing.

use std::{fs, path::Path};

use posse_session::wildcard;

/// Entries of folders looked at for one line. A wildcard that needs more asks.
const ENTRIES_MAX: usize = 20_000;

/// Names that wildcards of one line may stand for; each is asked of every rule.
const NAMES_MAX: usize = 5_000;

pub(super) struct Expansion {
    /// Relative to the root, as the words spelled them.
    pub(super) names: Vec<String>,
    /// There is more than was looked at.
    pub(super) cut: bool,
}

/// Every file that one of these names with wildcards stands for in this command, which may set what wildcards mean.
pub(super) fn expanded<'a>(patterns: impl Iterator<Item = &'a String>, root: &Path, command: &str) -> Expansion {
    let (hidden, deep) = (command.contains("dotglob"), command.contains("globstar"));
    let mut found = Expansion { names: Vec::new(), cut: false };
    let mut left = ENTRIES_MAX;
    for pattern in patterns.filter(|pattern| has_wildcard(pattern) && !pattern.starts_with('/')) {
        let mut folders = vec![String::new()];
        for part in pattern.split('/').filter(|part| !part.is_empty()) {
            let mut next = Vec::new();
            for folder in &folders {
                if deep && part == "**" {
                    next.push(folder.clone());
                    below(root, folder, hidden, &mut left, &mut next);
                    continue;
                }
                if !has_wildcard(part) {
                    next.push(join(folder, part));
                    continue;
                }
                next.extend(matching(&root.join(folder), part, hidden, &mut left).iter().map(|name| join(folder, name)));
            }
            folders = next;
        }
        found.names.extend(folders);
        if left == 0 || NAMES_MAX < found.names.len() {
            found.cut = true;
            found.names.truncate(NAMES_MAX);
            break;
        }
    }
    found
}

fn has_wildcard(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Names in a folder that a part of a pattern stands for. A folder that cannot be read has none that bash would find.
fn matching(folder: &Path, part: &str, hidden: bool, left: &mut usize) -> Vec<String> {
    let pattern = crate::shell::without_classes(part);
    let mut names = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return names };
    for entry in entries.flatten() {
        let Some(fewer) = left.checked_sub(1) else { break };
        *left = fewer;
        let name = entry.file_name().to_string_lossy().into_owned();
        let shown = hidden || !name.starts_with('.') || part.starts_with('.');
        if shown && wildcard(&name, &pattern) {
            names.push(name);
        }
    }
    names
}

/// Everything below a folder, as `**` finds it: links are named and not followed.
fn below(root: &Path, folder: &str, hidden: bool, left: &mut usize, found: &mut Vec<String>) {
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for name in matching(&root.join(&folder), "*", hidden, left) {
            let name = join(&folder, &name);
            if root.join(&name).symlink_metadata().is_ok_and(|known| known.is_dir()) {
                open.push(name.clone());
            }
            found.push(name);
        }
    }
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}
