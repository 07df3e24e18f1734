//! What differs between two states of a tree: files, lines, and the text that a person reads.
//!
//! No program that a configuration names is started for it. Names are taken as git has them, byte by byte; only what is
//! shown is made text.

use std::collections::HashMap;

use super::git::{Git, parts};

/// More text than this is not read by anybody; the list of files is always whole.
const TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileStatus {
    Added,
    Modified,
    Deleted,
    Renamed,
    /// A file became a link, or the other way round.
    Retyped,
}

impl FileStatus {
    pub fn word(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Modified => "changed",
            Self::Deleted => "deleted",
            Self::Renamed => "renamed",
            Self::Retyped => "retyped",
        }
    }

    fn of(letter: Option<&u8>) -> Self {
        match letter {
            Some(b'A') => Self::Added,
            Some(b'D') => Self::Deleted,
            Some(b'R') => Self::Renamed,
            Some(b'T') => Self::Retyped,
            _ => Self::Modified,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffFile {
    pub path: String,
    /// Its name before, if it was renamed.
    pub from: Option<String>,
    pub status: FileStatus,
    /// Lines; none for a binary file.
    pub added: Option<u64>,
    pub removed: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diff {
    pub files: Vec<DiffFile>,
    /// As `git apply` takes it, unless it was cut.
    pub text: Vec<u8>,
    pub cut: bool,
    /// Repositories that were made inside of the worktree: nothing in them can be shown or brought home.
    pub left_out: Vec<String>,
    /// Work in submodules, in words: a merge does not bring it.
    pub submodules: Vec<String>,
}

/// A file that a commit changed, and where its new lines are.
pub(super) type Edited = (Changed, Vec<(u64, u64)>);

/// One entry of a tree that differs. A mode is absent where there is no file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) path: Vec<u8>,
    pub(super) from: Option<Vec<u8>>,
    pub(super) status: FileStatus,
    pub(super) old: Option<Entry>,
    pub(super) new: Option<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) mode: String,
    pub(super) object: String,
}

impl Entry {
    fn of(mode: &str, object: &str) -> Option<Self> {
        (mode != "000000").then(|| Self { mode: mode.to_owned(), object: object.to_owned() })
    }

    pub(super) fn is_submodule(&self) -> bool {
        self.mode == "160000"
    }
}

impl Changed {
    pub(super) fn shown(&self) -> String {
        String::from_utf8_lossy(&self.path).into_owned()
    }
}

pub(super) fn whole(git: &Git<'_>, before: &str, after: &str) -> Result<Diff, String> {
    let said =
        git.ask(["diff-tree", "-r", "-z", "--raw", "--numstat", "-M", "--no-abbrev", "--no-ext-diff", "--no-textconv", before, after])?;
    let mut fields = parts(&said).peekable();
    let changed = read_raw(&mut fields);
    let counts = read_counts(&mut fields);
    let file = |(changed, (added, removed)): (&Changed, (Option<u64>, Option<u64>))| DiffFile {
        path: changed.shown(),
        from: changed.from.as_ref().map(|from| String::from_utf8_lossy(from).into_owned()),
        status: changed.status,
        added,
        removed,
    };
    let files = changed.iter().zip(counts.into_iter().chain(std::iter::repeat((None, None)))).map(file).collect();
    let arguments = ["diff-tree", "-r", "-p", "-M", "--no-ext-diff", "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/"];
    let text = git.run_for(arguments.into_iter().chain([before, after]), TEXT_BYTES_MAX)?;
    let cut = text.cut;
    match text.code {
        0 => Ok(Diff { files, text: text.output, cut, left_out: Vec::new(), submodules: Vec::new() }),
        _ => Err(text.words()),
    }
}

/// Without guesses at renames: one entry per path.
pub(super) fn changed(git: &Git<'_>, before: &str, after: &str) -> Result<Vec<Changed>, String> {
    let said = git.ask(["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", before, after])?;
    Ok(read_raw(&mut parts(&said).peekable()))
}

fn read_raw<'a>(fields: &mut std::iter::Peekable<impl Iterator<Item = &'a [u8]>>) -> Vec<Changed> {
    let mut changed = Vec::new();
    while let Some(facts) = fields.next_if(|field| field.starts_with(b":")) {
        let text = String::from_utf8_lossy(&facts[1..]).into_owned();
        let facts: Vec<&str> = text.split(' ').collect();
        let [old_mode, new_mode, old, new, letter] = facts.as_slice() else { continue };
        let status = FileStatus::of(letter.as_bytes().first());
        let Some(first) = fields.next() else { break };
        let (from, path) = match status {
            FileStatus::Renamed => (Some(first.to_vec()), fields.next().unwrap_or_default().to_vec()),
            _ => (None, first.to_vec()),
        };
        changed.push(Changed { path, from, status, old: Entry::of(old_mode, old), new: Entry::of(new_mode, new) });
    }
    changed
}

fn read_counts<'a>(fields: &mut impl Iterator<Item = &'a [u8]>) -> Vec<(Option<u64>, Option<u64>)> {
    let mut counts = Vec::new();
    while let Some(field) = fields.next() {
        let mut columns = field.splitn(3, |byte| *byte == b'\t').map(|column| String::from_utf8_lossy(column).into_owned());
        let (added, removed) = (columns.next().unwrap_or_default(), columns.next().unwrap_or_default());
        // Of a rename the names are two fields of their own.
        if columns.next().is_none_or(|path| path.is_empty()) {
            let _ = (fields.next(), fields.next());
        }
        counts.push((added.parse().ok(), removed.parse().ok()));
    }
    counts
}

/// Where the new lines of each file are: first line and how many. In the order of `changed`.
pub(super) fn hunks(git: &Git<'_>, before: &str, after: &str, changed: &[Changed]) -> Result<Vec<Vec<(u64, u64)>>, String> {
    let said = git.ask(["diff-tree", "-r", "-p", "-U0", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", before, after])?;
    Ok(hunks_in(&said, changed))
}

/// What each of these commits changed in its first parent, or in one path of it, with where the new lines are.
pub(super) fn of_commits(git: &Git<'_>, commits: &[&str], path: Option<&str>) -> Result<HashMap<String, Vec<Edited>>, String> {
    let input = commits.join("\n") + "\n";
    let path = path.map(|path| format!(":(literal){path}"));
    let ask = |how: &[&str]| {
        let what =
            ["diff-tree", "--stdin", "-r", "--diff-merges=first-parent", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color"];
        let arguments = what.iter().chain(how).copied().chain(["--"]).chain(path.as_deref());
        git.tell(arguments, input.as_bytes())?.success()
    };
    let raw = ask(&["--raw", "-z", "--no-abbrev"])?;
    let text = ask(&["-p", "-U0"])?;
    // Each commit is named before what it changed; one that changed nothing is not named at all.
    let mut fields = parts(&raw).peekable();
    let mut changed: Vec<(String, Vec<Changed>)> = Vec::new();
    while let Some(commit) = fields.next() {
        changed.push((String::from_utf8_lossy(commit).into_owned(), read_raw(&mut fields)));
    }
    let mut rest = text.as_slice();
    let mut all = HashMap::new();
    for (number, (commit, files)) in changed.iter().enumerate() {
        let next = changed.get(number + 1).map(|(next, _)| format!("\n{next}\n"));
        let end = next.and_then(|next| rest.windows(next.len()).position(|window| window == next.as_bytes())).unwrap_or(rest.len());
        let hunks = hunks_in(&rest[..end], files);
        rest = rest.get(end + 1..).unwrap_or_default();
        all.insert(commit.clone(), files.iter().cloned().zip(hunks).collect());
    }
    Ok(all)
}

fn hunks_in(said: &[u8], changed: &[Changed]) -> Vec<Vec<(u64, u64)>> {
    let mut sections: Vec<Vec<(u64, u64)>> = Vec::new();
    for line in said.split(|byte| *byte == b'\n') {
        if line.starts_with(b"diff --git ") {
            sections.push(Vec::new());
        } else if let (Some(section), Some(hunk)) = (sections.last_mut(), new_lines(line)) {
            section.push(hunk);
        }
    }
    let mut sections = sections.into_iter();
    let of_file = |changed: &Changed| {
        let first = sections.next().unwrap_or_default();
        // What changed its type is shown as gone and as new.
        if changed.status == FileStatus::Retyped { sections.next().unwrap_or_default() } else { first }
    };
    changed.iter().map(of_file).collect()
}

/// Of a line `@@ -a,b +c,d @@`. No line of a file's content begins like that in a diff.
fn new_lines(line: &[u8]) -> Option<(u64, u64)> {
    let text = std::str::from_utf8(line.strip_prefix(b"@@ -")?.split(|byte| *byte == b'@').next()?).ok()?;
    let new = text.split(' ').find_map(|word| word.strip_prefix('+'))?;
    let (start, count) = new.split_once(',').unwrap_or((new, "1"));
    Some((start.parse().ok()?, count.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_entries_and_their_counts_are_read_with_renames_and_strange_names() {
        let said = b":100644 100644 aa bb M\0a\nb\0:100644 100644 cc cc R100\0old\0new\0:000000 120000 00 dd A\0link\0\
            1\t2\ta\nb\x000\t0\t\0old\0new\0-\t-\tlink\0";
        let mut fields = parts(said).peekable();
        let changed = read_raw(&mut fields);
        let names: Vec<(String, FileStatus, bool)> =
            changed.iter().map(|changed| (changed.shown(), changed.status, changed.old.is_some())).collect();
        let expected = [("a\nb", FileStatus::Modified, true), ("new", FileStatus::Renamed, true), ("link", FileStatus::Added, false)];
        assert_eq!(names, expected.map(|(name, status, old)| (name.to_owned(), status, old)));
        assert_eq!(read_counts(&mut fields), [(Some(1), Some(2)), (Some(0), Some(0)), (None, None)]);
    }

    #[test]
    fn only_a_hunks_own_line_is_one() {
        for (line, expected) in [
            ("@@ -1,2 +3,4 @@ fn x()", Some((3, 4))),
            ("@@ -1 +7 @@", Some((7, 1))),
            ("@@ -1,2 +0,0 @@", Some((0, 0))),
            ("+@@ -1 +7 @@", None),
            ("@@ strange", None),
        ] {
            assert_eq!(new_lines(line.as_bytes()), expected, "{line}");
        }
    }
}
