//! What git says of a working tree: which commit and branch it is at, and which files differ from that.
//!
//! One command, read to its last field. What is ignored is not work; a repository inside of the tree is one entry.

use super::git::{Git, parts};

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    /// Absent before the first commit.
    pub(super) head: Option<String>,
    /// Absent when no branch is checked out.
    pub(super) branch: Option<String>,
    /// Tracked files that differ, staged or not.
    pub(super) changed: Vec<Vec<u8>>,
    pub(super) untracked: Vec<Vec<u8>>,
    /// Untracked folders that are repositories themselves: git does not look into them.
    pub(super) repositories: Vec<Vec<u8>>,
}

impl Status {
    pub(super) fn of(git: &Git<'_>) -> Result<Self, String> {
        let said = git.ask([
            "status",
            "--porcelain=v2",
            "--branch",
            "-z",
            "--untracked-files=all",
            // What changed inside of a submodule is asked of its own git folder.
            "--ignore-submodules=dirty",
            "--no-renames",
            "--no-ahead-behind",
        ])?;
        Ok(Self::read(&said))
    }

    fn read(said: &[u8]) -> Self {
        let mut status = Self::default();
        for part in parts(said) {
            match part.first().zip(part.get(2..)) {
                Some((b'#', header)) => status.read_header(&String::from_utf8_lossy(header)),
                Some((b'1', fields)) => status.changed.extend(after_fields(fields, 7)),
                Some((b'u', fields)) => status.changed.extend(after_fields(fields, 9)),
                Some((b'?', path)) if path.ends_with(b"/") => status.repositories.push(path[..path.len() - 1].to_vec()),
                Some((b'?', path)) => status.untracked.push(path.to_vec()),
                _ => {}
            }
        }
        status
    }

    fn read_header(&mut self, header: &str) {
        match header.split_once(' ') {
            Some(("branch.oid", oid)) if oid != "(initial)" => self.head = Some(oid.to_owned()),
            Some(("branch.head", branch)) if branch != "(detached)" => self.branch = Some(branch.to_owned()),
            _ => {}
        }
    }
}

/// The path behind so many fields; it may have spaces itself.
fn after_fields(entry: &[u8], fields: usize) -> Option<Vec<u8>> {
    entry.splitn(fields + 1, |byte| *byte == b' ').nth(fields).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_entry_is_read() {
        let said = b"# branch.oid abc\0# branch.head posse/x\0\
            1 .M N... 100644 100644 100644 aa bb a b\nc\0\
            u UU N... 100644 100644 100644 100644 aa bb cc both\0\
            ? new \xff\0? clone/\0! ignored\0";
        let expected = Status {
            head: Some("abc".into()),
            branch: Some("posse/x".into()),
            changed: vec![b"a b\nc".to_vec(), b"both".to_vec()],
            untracked: vec![b"new \xff".to_vec()],
            repositories: vec![b"clone".to_vec()],
        };
        assert_eq!(Status::read(said), expected);
        let status = Status::read(b"# branch.oid (initial)\0# branch.head (detached)\0");
        assert_eq!((status.head, status.branch), (None, None));
    }
}
