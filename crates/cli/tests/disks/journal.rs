//! What the shim wrote down: every change of a file, every sync and every printed byte, in the order they were asked for.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Files are told apart by their path; by their inode where they have no name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Entry {
    Created(PathBuf),
    /// Without a place: at the end, wherever that is.
    Wrote {
        path: PathBuf,
        inode: u64,
        at: Option<u64>,
        bytes: Vec<u8>,
    },
    Cut {
        path: PathBuf,
        inode: u64,
        length: u64,
    },
    Synced {
        path: PathBuf,
        inode: u64,
    },
    FolderSynced(PathBuf),
    FolderMade(PathBuf),
    FolderRemoved(PathBuf),
    Renamed {
        from: PathBuf,
        to: PathBuf,
    },
    Linked {
        inode: u64,
        from: PathBuf,
        to: PathBuf,
    },
    Removed(PathBuf),
    /// On standard output: from here on somebody relies on it.
    Printed(Vec<u8>),
}

pub(crate) fn read(path: &Path) -> Vec<Entry> {
    let bytes = fs::read(path).unwrap();
    let mut rest = bytes.as_slice();
    let mut entries = Vec::new();
    while !rest.is_empty() {
        entries.push(entry(&mut rest));
    }
    entries
}

fn entry(rest: &mut &[u8]) -> Entry {
    let kind = take(rest, 1)[0];
    let inode = u64::from_le_bytes(take(rest, 8).try_into().unwrap());
    let offset = u64::from_le_bytes(take(rest, 8).try_into().unwrap());
    let path_length = u32::from_le_bytes(take(rest, 4).try_into().unwrap());
    let length = u32::from_le_bytes(take(rest, 4).try_into().unwrap());
    let path = PathBuf::from(std::str::from_utf8(take(rest, path_length as usize)).unwrap());
    let data = take(rest, length as usize);
    let second = || PathBuf::from(std::str::from_utf8(data).unwrap());
    match kind {
        b'C' => Entry::Created(path),
        b'W' => Entry::Wrote { path, inode, at: (offset != u64::MAX).then_some(offset), bytes: data.to_vec() },
        b'T' => Entry::Cut { path, inode, length: offset },
        b'S' | b's' => Entry::Synced { path, inode },
        b'F' => Entry::FolderSynced(path),
        b'M' => Entry::FolderMade(path),
        b'D' => Entry::FolderRemoved(path),
        b'R' => Entry::Renamed { from: path, to: second() },
        b'L' => Entry::Linked { inode, from: second(), to: path },
        b'U' => Entry::Removed(path),
        b'A' => Entry::Printed(data.to_vec()),
        other => panic!("a journal entry of kind {other}"),
    }
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, left) = rest.split_at(length);
    *rest = left;
    taken
}
