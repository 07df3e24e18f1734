//! What a merge says when it cannot be done: which files, which kind of conflict, and which lines.
//!
//! Git leaves marked regions in the merged file; their labels are the two commits, so marks that a file has of its own are
//! not taken for them. Nothing is written here.

use std::time::{Duration, Instant};

use similar::{Algorithm, DiffTag, capture_diff_slices_deadline};

use super::git::Git;

/// Files whose regions are read; of further ones the kind is said.
const FILES_MAX: usize = 200;
/// Regions of a file.
const HUNKS_MAX: usize = 100;
/// Enough of a region to see what it is about.
const HUNK_BYTES_MAX: usize = 4 * 1024;
/// A larger file is named without its regions.
const FILE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Lines of very different files are counted more coarsely.
const DIFF_TIME_MAX: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConflictKind {
    Content,
    /// Both made a file of this name.
    AddAdd,
    ModifyDelete,
    Rename,
    Binary,
    Mode,
    /// Commits of a submodule do not come home by a merge of the repository above it.
    Submodule,
    /// One made a file where the other made a folder.
    FileFolder,
    Other,
}

/// A region that both changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// Where it begins in the file at home.
    pub ours_line: u64,
    /// With both versions, marked.
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub path: String,
    pub kind: ConflictKind,
    pub hunks: Vec<Hunk>,
    /// What git says about it.
    pub words: String,
}

/// The outcome of `merge-tree`.
pub(super) struct Told {
    pub(super) tree: String,
    files: Vec<File>,
}

struct File {
    path: Vec<u8>,
    /// Which of base, ours and theirs have it.
    stages: [bool; 3],
    has_submodule: bool,
    messages: Vec<(String, String)>,
}

impl Told {
    /// The format is that of `merge-tree -z`: the tree; entries in conflict; an empty field; messages.
    pub(super) fn read(said: &[u8]) -> Option<Self> {
        let mut fields = said.split(|byte| *byte == 0);
        let tree = String::from_utf8(fields.next()?.to_vec()).ok()?.trim().to_owned();
        let mut told = Self { tree, files: Vec::new() };
        for entry in fields.by_ref().take_while(|field| !field.is_empty()) {
            let tab = entry.iter().position(|byte| *byte == b'\t')?;
            let facts = String::from_utf8_lossy(&entry[..tab]).into_owned();
            let stage: usize = facts.rsplit(' ').next()?.parse().ok()?;
            let file = told.file(&entry[tab + 1..]);
            file.has_submodule |= facts.starts_with("160000");
            if let Some(has) = stage.checked_sub(1).and_then(|stage| file.stages.get_mut(stage)) {
                *has = true;
            }
        }
        while let Some(count) = fields.next().and_then(|field| std::str::from_utf8(field).ok()?.parse::<usize>().ok()) {
            let paths: Vec<&[u8]> = fields.by_ref().take(count).collect();
            let (kind, words) = (fields.next()?, fields.next()?);
            let kind = String::from_utf8_lossy(kind).into_owned();
            if let Some(path) = paths.first().filter(|_| kind.starts_with("CONFLICT")) {
                told.file(path).messages.push((kind, String::from_utf8_lossy(words).trim_end().to_owned()));
            }
        }
        Some(told)
    }

    fn file(&mut self, path: &[u8]) -> &mut File {
        let at = self.files.iter().position(|file| file.path == path).unwrap_or_else(|| {
            self.files.push(File { path: path.to_vec(), stages: [false; 3], has_submodule: false, messages: Vec::new() });
            self.files.len() - 1
        });
        &mut self.files[at]
    }

    pub(super) fn conflicts(&self, git: &Git<'_>, ours: &str, theirs: &str) -> Vec<Conflict> {
        let describe = |(number, file): (usize, &File)| {
            let kind = file.kind();
            let hunks = match kind {
                ConflictKind::Content | ConflictKind::AddAdd if number < FILES_MAX => hunks(git, &self.tree, &file.path, ours, theirs),
                _ => Vec::new(),
            };
            let words: Vec<&str> = file.messages.iter().map(|(_, words)| words.as_str()).collect();
            // The labels of the two sides are long numbers; who reads this knows them by other names.
            let words = words.join("\n").replace(ours, "home").replace(theirs, "the worktree");
            // Where a folder is in the way, git puts the file beside it, under the name of its side.
            let path = String::from_utf8_lossy(&file.path).into_owned();
            let path = [ours, theirs].iter().find_map(|side| path.split_once(&format!("~{side}"))).map_or(path.as_str(), |(path, _)| path);
            Conflict { path: path.to_owned(), kind, hunks, words }
        };
        self.files.iter().enumerate().map(describe).collect()
    }
}

impl File {
    fn kind(&self) -> ConflictKind {
        let says = |word: &str| self.messages.iter().any(|(kind, _)| kind.contains(word));
        match () {
            () if self.has_submodule || says("submodule") => ConflictKind::Submodule,
            () if says("binary") => ConflictKind::Binary,
            () if says("rename") || says("file location") || says("directory rename") => ConflictKind::Rename,
            () if says("modify/delete") => ConflictKind::ModifyDelete,
            () if says("file/directory") => ConflictKind::FileFolder,
            () if says("mode") => ConflictKind::Mode,
            () if self.stages == [false, true, true] => ConflictKind::AddAdd,
            () if says("content") => ConflictKind::Content,
            () => ConflictKind::Other,
        }
    }
}

fn hunks(git: &Git<'_>, tree: &str, path: &[u8], ours: &str, theirs: &str) -> Vec<Hunk> {
    let content = |of: &str| {
        let mut name = format!("{of}:").into_bytes();
        name.extend(path);
        let name = <std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(name);
        let said = git.run_for(["cat-file".into(), "blob".into(), name], FILE_BYTES_MAX).ok()?;
        (said.code == 0 && !said.cut).then_some(said.output)
    };
    match (content(tree), content(ours)) {
        (Some(merged), Some(before)) => regions(&merged, &before, ours, theirs),
        _ => Vec::new(),
    }
}

/// The marked regions of `merged`, with the lines at which they begin in `before`.
fn regions(merged: &[u8], before: &[u8], ours: &str, theirs: &str) -> Vec<Hunk> {
    #[derive(PartialEq)]
    enum In {
        Both,
        Ours,
        Theirs,
    }
    let begins = |line: &[u8]| line.starts_with(b"<<<<<<<") && String::from_utf8_lossy(line).contains(ours);
    let ends = |line: &[u8]| line.starts_with(b">>>>>>>") && String::from_utf8_lossy(line).contains(theirs);
    let (mut side, mut kept) = (In::Both, Vec::new());
    let mut found: Vec<(usize, Vec<u8>)> = Vec::new();
    for line in merged.split_inclusive(|byte| *byte == b'\n') {
        match side {
            In::Both if begins(line) => {
                side = In::Ours;
                found.push((kept.len(), b"<<<<<<< home\n".to_vec()));
                continue;
            }
            In::Both => kept.push(line),
            In::Ours if line.starts_with(b"=======") => side = In::Theirs,
            In::Ours => kept.push(line),
            In::Theirs if ends(line) => {
                side = In::Both;
                found.last_mut().map(|(_, text)| text.extend(b">>>>>>> the worktree\n")).unwrap_or_default();
                continue;
            }
            In::Theirs => {}
        }
        if side != In::Both
            && let Some((_, text)) = found.last_mut()
        {
            text.extend(line);
        }
    }
    let lines: Vec<&[u8]> = before.split_inclusive(|byte| *byte == b'\n').collect();
    let places = line_map(&kept, &lines);
    let hunk = |(at, text): (usize, Vec<u8>)| Hunk { ours_line: places[at] as u64 + 1, text: cut(&text) };
    found.into_iter().take(HUNKS_MAX).map(hunk).collect()
}

/// For each line of `from`, and for its end, where that is in `to`.
fn line_map(from: &[&[u8]], to: &[&[u8]]) -> Vec<usize> {
    let mut places = vec![to.len(); from.len() + 1];
    for change in capture_diff_slices_deadline(Algorithm::Myers, from, to, Some(Instant::now() + DIFF_TIME_MAX)) {
        let (tag, old, new) = change.as_tag_tuple();
        for (number, line) in old.enumerate() {
            places[line] = if tag == DiffTag::Equal { new.start + number } else { new.start };
        }
    }
    places
}

fn cut(text: &[u8]) -> String {
    let whole = String::from_utf8_lossy(text);
    if whole.len() <= HUNK_BYTES_MAX {
        return whole.into_owned();
    }
    let end = (0..=HUNK_BYTES_MAX).rev().find(|end| whole.is_char_boundary(*end)).unwrap_or(0);
    format!("{}\n… {} bytes more\n", &whole[..end], whole.len() - end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_told_by_their_labels_and_found_in_the_file_at_home() {
        let before = b"a\n<<<<<<< mine\nb\nc\nd\n";
        // Another line came in cleanly above, so the region is one line lower in the merged file than at home.
        let merged = b"new\na\n<<<<<<< mine\n<<<<<<< OURS\nb\n=======\nB\n>>>>>>> THEIRS\nc\n<<<<<<< OURS\nd\n=======\n>>>>>>> THEIRS\n";
        let expected = [
            Hunk { ours_line: 3, text: "<<<<<<< home\nb\n=======\nB\n>>>>>>> the worktree\n".into() },
            Hunk { ours_line: 5, text: "<<<<<<< home\nd\n=======\n>>>>>>> the worktree\n".into() },
        ];
        assert_eq!(regions(merged, before, "OURS", "THEIRS"), expected);
    }

    #[test]
    fn a_long_region_is_cut_between_characters() {
        let text = "ä".repeat(HUNK_BYTES_MAX);
        let cut = cut(text.as_bytes());
        assert!(cut.len() < HUNK_BYTES_MAX + 40 && cut.ends_with("bytes more\n"));
    }
}
