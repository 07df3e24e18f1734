//! What may be on a disk after the power went: a model of files and folders, fed with a journal up to some moment.
//!
//! What was synced is there. What was written since may be there, or not, or in part, sector by sector. Names are either
//! in the order of a journal of their own, as on ext4, or each folder is on its own and only its sync is a promise.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use fastrand::Rng;

use crate::journal::Entry;

/// A disk writes a sector whole or not at all.
const SECTOR: usize = 512;

type FileId = usize;

#[derive(Debug, Clone)]
enum Change {
    Wrote { at: usize, bytes: Vec<u8> },
    Cut { length: usize },
}

#[derive(Debug, Default)]
struct File {
    /// As it was when the journal began.
    base: Vec<u8>,
    changes: Vec<Change>,
    /// With all of them.
    length: usize,
    /// So many of the changes are on the disk.
    synced: usize,
    /// Made, or of another length, since its last sync: then a sync also commits names.
    reshaped: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Node {
    Folder,
    File(FileId),
}

#[derive(Debug, Clone)]
enum Naming {
    Put { path: PathBuf, node: Node },
    Move { from: PathBuf, to: PathBuf },
    Remove { path: PathBuf },
}

/// What becomes of writes that were not synced.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unsynced {
    Lost,
    Kept,
    /// Up to some moment, and the last one in part.
    UpToAMoment,
    /// In any order, each whole, in part or not.
    AnyOrder,
}

/// What becomes of names that were not synced.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Names {
    /// In their order, up to some moment after the last commit.
    InOrder,
    /// Each for itself, unless its folder was synced.
    EachFolder,
}

/// How the power went.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Loss {
    /// After so many entries of the journal.
    pub(crate) cut: usize,
    pub(crate) unsynced: Unsynced,
    pub(crate) names: Names,
    pub(crate) seed: u64,
}

/// The files of some folders at the beginning, which are all on the disk, and what happened since.
pub(crate) struct Disk {
    files: Vec<File>,
    /// As the running system sees it.
    names: BTreeMap<PathBuf, Node>,
    at_first: BTreeMap<PathBuf, Node>,
    namings: Vec<Naming>,
    /// So many of them are on the disk, in a file system that keeps their order.
    committed: usize,
    /// Which of them are, in one that keeps none.
    promised: Vec<bool>,
    by_inode: HashMap<u64, FileId>,
}

impl Disk {
    pub(crate) fn begin(folders: &[&Path]) -> Disk {
        let mut disk = Disk {
            files: Vec::new(),
            names: BTreeMap::new(),
            at_first: BTreeMap::new(),
            namings: Vec::new(),
            committed: 0,
            promised: Vec::new(),
            by_inode: HashMap::new(),
        };
        folders.iter().for_each(|folder| disk.look(folder));
        disk.at_first = disk.names.clone();
        disk
    }

    fn look(&mut self, path: &Path) {
        if path.is_dir() {
            self.names.insert(path.to_owned(), Node::Folder);
            for entry in fs::read_dir(path).unwrap() {
                self.look(&entry.unwrap().path());
            }
        } else {
            let base = fs::read(path).unwrap();
            self.files.push(File { length: base.len(), base, ..File::default() });
            self.names.insert(path.to_owned(), Node::File(self.files.len() - 1));
        }
    }

    pub(crate) fn apply(&mut self, entry: &Entry) {
        match entry {
            Entry::Created(path) if self.can_take(path) => {
                let node = Node::File(self.new_file());
                self.name(Naming::Put { path: path.clone(), node });
            }
            Entry::FolderMade(path) if self.can_take(path) => self.name(Naming::Put { path: path.clone(), node: Node::Folder }),
            Entry::Wrote { path, inode, at, bytes } => {
                let id = self.file(path, *inode);
                let at = at.map_or_else(|| self.files[id].length, |at| at as usize);
                self.change(path, *inode, Change::Wrote { at, bytes: bytes.clone() });
            }
            Entry::Cut { path, inode, length } => self.change(path, *inode, Change::Cut { length: *length as usize }),
            Entry::Synced { path, inode } => {
                let id = self.file(path, *inode);
                let file = &mut self.files[id];
                file.synced = file.changes.len();
                if std::mem::take(&mut file.reshaped) {
                    self.committed = self.namings.len();
                }
            }
            Entry::FolderSynced(path) => self.sync_folder(path),
            Entry::Renamed { from, to } if self.names.contains_key(from) => self.name(Naming::Move { from: from.clone(), to: to.clone() }),
            Entry::Linked { inode, from, to } if self.can_take(to) => {
                let id = self.file(from, *inode);
                self.files[id].reshaped = true;
                self.name(Naming::Put { path: to.clone(), node: Node::File(id) });
            }
            Entry::Removed(path) | Entry::FolderRemoved(path) if self.names.contains_key(path) => {
                self.name(Naming::Remove { path: path.clone() });
            }
            // Calls that cannot have worked, and words for the reader.
            _ => {}
        }
    }

    /// What may be on the disk now, by path; nothing for a folder.
    pub(crate) fn after(&self, loss: &Loss) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut rng = Rng::with_seed(loss.seed);
        let mut names = self.at_first.clone();
        let moment = rng.usize(self.committed..=self.namings.len());
        for (number, naming) in self.namings.iter().enumerate() {
            let kept = match loss.names {
                Names::InOrder => number < moment,
                Names::EachFolder => self.promised[number] || rng.bool(),
            };
            if kept || is_outside(naming) {
                follow(&mut names, naming);
            }
        }
        let content = |path: &Path, id: FileId, rng: &mut Rng| match path.ends_with("witness") {
            true => self.files[id].after(Unsynced::Kept, rng),
            false => self.files[id].after(loss.unsynced, rng),
        };
        let with_content = |(path, node): (PathBuf, Node)| match node {
            Node::Folder => (path, None),
            Node::File(id) => {
                let bytes = content(&path, id, &mut rng);
                (path, Some(bytes))
            }
        };
        names.into_iter().map(with_content).collect()
    }

    fn can_take(&self, path: &Path) -> bool {
        let parent = path.parent().and_then(|parent| self.names.get(parent));
        parent == Some(&Node::Folder) && !self.names.contains_key(path)
    }

    fn new_file(&mut self) -> FileId {
        self.files.push(File { reshaped: true, ..File::default() });
        self.files.len() - 1
    }

    fn name(&mut self, naming: Naming) {
        let gone = match &naming {
            Naming::Move { to: path, .. } | Naming::Remove { path } => self.names.get(path).copied(),
            Naming::Put { .. } => None,
        };
        if let Some(Node::File(id)) = gone {
            // Its inode may be given to another file now.
            self.by_inode.retain(|_, known| *known != id);
        }
        if let Naming::Move { from, .. } = &naming
            && let Some(Node::File(id)) = self.names.get(from)
        {
            self.files[*id].reshaped = true;
        }
        follow(&mut self.names, &naming);
        self.namings.push(naming);
        self.promised.push(false);
    }

    fn change(&mut self, path: &Path, inode: u64, change: Change) {
        let id = self.file(path, inode);
        let file = &mut self.files[id];
        let length = match &change {
            Change::Wrote { at, bytes } => file.length.max(at + bytes.len()),
            Change::Cut { length } => *length,
        };
        file.reshaped |= length != file.length;
        file.length = length;
        file.changes.push(change);
    }

    fn file(&mut self, path: &Path, inode: u64) -> FileId {
        let id = match (self.names.get(path), self.by_inode.get(&inode)) {
            (Some(Node::File(id)), _) | (_, Some(id)) => *id,
            _ => self.new_file(),
        };
        self.by_inode.insert(inode, id);
        id
    }

    /// Its own names are a promise now. A folder is as lasting as what is in it: that much every file system keeps.
    fn sync_folder(&mut self, folder: &Path) {
        self.committed = self.namings.len();
        for (naming, promised) in self.namings.iter().zip(&mut self.promised) {
            let made_for_it = |path: &Path| path.parent() == Some(folder) || folder.starts_with(path);
            *promised |= match naming {
                Naming::Put { path, .. } => made_for_it(path),
                Naming::Move { from, to } => from.parent() == Some(folder) && to.parent() == Some(folder),
                Naming::Remove { path } => path.parent() == Some(folder),
            };
        }
    }
}

/// What tools did to the world outside is not undone by a power cut.
fn is_outside(naming: &Naming) -> bool {
    matches!(naming, Naming::Put { path, .. } if path.ends_with("witness"))
}

/// Does what can be done: what happened to a name that was lost is lost too.
fn follow(names: &mut BTreeMap<PathBuf, Node>, naming: &Naming) {
    let has_parent = |names: &BTreeMap<PathBuf, Node>, path: &Path| path.parent().is_some_and(|parent| names.contains_key(parent));
    match naming {
        Naming::Put { path, node } if has_parent(names, path) => drop(names.insert(path.clone(), *node)),
        Naming::Move { from, to } if has_parent(names, to) => {
            if let Some(node) = names.remove(from) {
                names.insert(to.clone(), node);
            }
        }
        Naming::Remove { path } => drop(names.remove(path)),
        _ => {}
    }
}

impl File {
    fn after(&self, unsynced: Unsynced, rng: &mut Rng) -> Vec<u8> {
        let mut bytes = self.base.clone();
        self.changes[..self.synced].iter().for_each(|change| change.apply(&mut bytes));
        let open = &self.changes[self.synced..];
        match unsynced {
            Unsynced::Lost => {}
            Unsynced::Kept => open.iter().for_each(|change| change.apply(&mut bytes)),
            Unsynced::UpToAMoment => {
                let moment = rng.usize(0..=open.len());
                open[..moment].iter().for_each(|change| change.apply(&mut bytes));
                if let Some(torn) = open.get(moment) {
                    torn.apply_in_part(&mut bytes, rng);
                }
            }
            Unsynced::AnyOrder => {
                for change in open {
                    match rng.u8(0..3) {
                        0 => change.apply(&mut bytes),
                        1 => change.apply_in_part(&mut bytes, rng),
                        _ => {}
                    }
                }
            }
        }
        bytes
    }
}

impl Change {
    fn apply(&self, file: &mut Vec<u8>) {
        match self {
            Change::Wrote { at, bytes } => put(file, *at, bytes),
            Change::Cut { length } => file.resize(*length, 0),
        }
    }

    /// Some sectors of a write; a new length comes whole or not.
    fn apply_in_part(&self, file: &mut Vec<u8>, rng: &mut Rng) {
        let Change::Wrote { at, bytes } = self else { return };
        let mut from = 0;
        while from < bytes.len() {
            let to = bytes.len().min((at + from) / SECTOR * SECTOR + SECTOR - at);
            if rng.bool() {
                put(file, at + from, &bytes[from..to]);
            }
            from = to;
        }
    }
}

fn put(file: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if file.len() < at + bytes.len() {
        file.resize(at + bytes.len(), 0);
    }
    file[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Makes these folders what the image says, and nothing else.
pub(crate) fn lay_out(image: &BTreeMap<PathBuf, Option<Vec<u8>>>, folders: &[&Path]) {
    use std::io::Write;
    for folder in folders {
        fs::remove_dir_all(folder).unwrap();
    }
    for (path, content) in image {
        match content {
            None => fs::DirBuilder::new().recursive(true).mode(0o700).create(path).unwrap(),
            Some(bytes) => {
                let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).unwrap();
                file.write_all(bytes).unwrap();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrote(at: u64, bytes: &[u8]) -> Entry {
        Entry::Wrote { path: "/d/f".into(), inode: 7, at: Some(at), bytes: bytes.to_vec() }
    }

    /// All that may be left of a journal, over many seeds.
    fn outcomes(journal: &[Entry], unsynced: Unsynced, names: Names) -> Vec<Option<Vec<u8>>> {
        let folder = tempfile::tempdir().unwrap();
        let mut disk = Disk::begin(&[folder.path()]);
        disk.at_first.insert("/d".into(), Node::Folder);
        disk.names.insert("/d".into(), Node::Folder);
        journal.iter().for_each(|entry| disk.apply(entry));
        let loss = |seed| Loss { cut: journal.len(), unsynced, names, seed };
        let mut found: Vec<_> = (0..200).map(|seed| disk.after(&loss(seed)).remove(Path::new("/d/f")).flatten()).collect();
        found.sort();
        found.dedup();
        found
    }

    #[test]
    fn what_was_synced_stays_and_the_rest_may_go() {
        let journal = [Entry::Created("/d/f".into()), wrote(0, b"ab"), synced(), Entry::FolderSynced("/d".into()), wrote(1, b"xy")];
        assert_eq!(outcomes(&journal, Unsynced::Lost, Names::EachFolder), [Some(b"ab".to_vec())]);
        assert_eq!(outcomes(&journal, Unsynced::Kept, Names::EachFolder), [Some(b"axy".to_vec())]);
        assert_eq!(outcomes(&journal, Unsynced::AnyOrder, Names::InOrder), [Some(b"ab".to_vec()), Some(b"axy".to_vec())]);
    }

    fn synced() -> Entry {
        Entry::Synced { path: "/d/f".into(), inode: 7 }
    }

    #[test]
    fn a_name_is_only_promised_by_its_folder() {
        let journal = [Entry::Created("/d/f".into()), wrote(0, b"ab"), synced()];
        assert_eq!(outcomes(&journal, Unsynced::Lost, Names::EachFolder), [None, Some(b"ab".to_vec())]);
        assert_eq!(outcomes(&journal, Unsynced::Lost, Names::InOrder), [Some(b"ab".to_vec())], "its sync commits the names before it");
    }

    #[test]
    fn a_write_is_torn_between_sectors_only() {
        let journal = [Entry::Created("/d/f".into()), synced(), Entry::FolderSynced("/d".into()), wrote(256, &[1; 512])];
        let mut halves = vec![Vec::new(), vec![0; 256], vec![0; 256], vec![0; 512]];
        halves[1].extend([1; 256]);
        halves[2].extend([1; 512]);
        halves[3].extend([1; 256]);
        let mut found = outcomes(&journal, Unsynced::AnyOrder, Names::InOrder);
        let mut expected: Vec<_> = halves.into_iter().map(Some).collect();
        expected.sort();
        found.sort();
        assert_eq!(found, expected);
    }
}
