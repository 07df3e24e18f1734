//! Which folders the user trusts: kept outside every project, bound to the folder and to what in it would run, redirect
//! or widen.
//!
//! Each folder from the project's top down to the working directory is trusted by itself, by its real path, its device
//! and inode, and a digest of its parts; what git says of a folder is not asked. Another path, another folder at the
//! same path, or another word in a part, and it is not trusted. What the parts are is `read.rs` and `scan.rs`.

use std::{
    collections::{BTreeMap, HashSet},
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    config::{Compat, Config},
    layer::{Layer, read_file},
    origin::{Ignored, Origin, Problem, plain},
    places::Places,
    scan::{Found, Left, Place, What, scan},
};

/// How far a project is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    Trusted,
    /// Nobody has said so.
    Untrusted,
    /// The user did, and since then something has changed that this was about.
    Changed,
}

/// Something that counts only in a folder that is trusted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Part {
    /// As messages name it.
    pub file: String,
    /// `provider`, `plugin`, `permission.bash.* (allow)`.
    pub key: String,
}

/// One folder of a project as it is now.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    pub(crate) trust: Trust,
    pub(crate) parts: Vec<Part>,
    /// What the scan found and does not count here.
    pub(crate) ignored: Vec<Ignored>,
    /// What it is bound to; `None` when nobody can vouch for it, and why.
    seal: Result<Seal, String>,
}

/// What trust in a folder is bound to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Seal {
    device: u64,
    inode: u64,
    hash: String,
}

/// One line of the store.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Kept {
    #[serde(flatten)]
    seal: Seal,
    /// Milliseconds since 1970; for people.
    when: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Store {
    version: u32,
    /// By the real path.
    folders: BTreeMap<String, Kept>,
}

const VERSION: u32 = 1;

/// Where trust is kept.
pub fn trust_file(places: &Places) -> PathBuf {
    places.data_dir.join("trust.json")
}

/// What the folders of a project are worth.
pub(crate) struct Standings {
    pub(crate) folders: Vec<Folder>,
    /// A store that cannot be read is no store, and the user is told.
    pub(crate) problem: Option<Problem>,
}

impl Standings {
    /// Of layers that were read as nobody's. `given`: the user trusts them all, for this once.
    pub(crate) fn of(layers: &[Layer], places: &Places, compat: Compat, given: bool) -> Self {
        let (store, problem) = match read_store(&trust_file(places)) {
            Ok(store) => (store.unwrap_or_default(), None),
            Err((line, words)) => {
                let origin = Origin::new(&places.shown(&trust_file(places)), line);
                let words = format!("{words}, so no folder is trusted; `posse trust` writes it anew");
                (Store::default(), Some(Problem { origin, key: String::new(), words }))
            }
        };
        let project = places.project.canonicalize().unwrap_or_else(|_| places.project.clone());
        let own = [places.config_dir.clone(), places.opencode_dir.clone(), places.home.join(".claude")];
        let mut left = Left::default();
        let mut look = |path: PathBuf| {
            let found = scan(Place { folder: &path, project: &project, own: &own }, compat, &mut left);
            let mut folder = Folder::of(path, layers, found, places);
            folder.trust = if given { Trust::Trusted } else { folder.standing(&store) };
            folder
        };
        Self { folders: places.project_dirs().into_iter().map(&mut look).collect(), problem }
    }

    pub(crate) fn trusts(&self, path: &Path) -> bool {
        self.folders.iter().any(|folder| folder.path == path && folder.trust == Trust::Trusted)
    }

    /// The worst that a folder with something to trust is.
    pub(crate) fn trust(&self) -> Trust {
        let telling = self.folders.iter().filter(|folder| !folder.parts.is_empty()).map(|folder| folder.trust);
        telling.max().or_else(|| self.folders.iter().map(|folder| folder.trust).max()).unwrap_or(Trust::Untrusted)
    }
}

impl Folder {
    fn of(path: PathBuf, layers: &[Layer], found: Vec<Found>, places: &Places) -> Self {
        let shown = |file: &str| places.shown(&path.join(file));
        let mut parts: Vec<Part> = Vec::new();
        let mut known: HashSet<Part> = HashSet::new();
        let mut ignored = Vec::new();
        let mut unknown = None;
        // File, key and value of everything.
        let mut said: Vec<[String; 3]> = Vec::new();
        let mut add = |file: &str, key: &str| {
            let part = Part { file: shown(file), key: plain(key) };
            if known.insert(part.clone()) {
                parts.push(part);
            }
        };
        for layer in layers.iter().filter(|layer| layer.source.dir == path) {
            for one in &layer.findings.said {
                add(&layer.source.file, &one.key);
                said.push([layer.source.file.clone(), one.key.clone(), one.value.clone()]);
            }
        }
        for found in found {
            let never = found.what == What::Never;
            let unvouched = found.what == What::Unknown;
            ignored.push(Ignored { file: shown(&found.file), key: plain(&found.key), never, unvouched });
            if !never {
                add(&found.file, &found.key);
            }
            match found.what {
                What::Said(hash) => said.push([found.file, found.key, hash.to_hex().to_string()]),
                What::Unknown => unknown = unknown.or(Some(found.file)),
                What::Never => {}
            }
        }
        let seal = match unknown {
            Some(file) => Err(format!("{}: a link out of the project, too large, one of too many, or not readable", shown(&file))),
            None => seal(&path, said),
        };
        Self { path, trust: Trust::Untrusted, parts, ignored, seal }
    }

    fn standing(&self, store: &Store) -> Trust {
        match (real_name(&self.path).and_then(|name| store.folders.get(&name)), &self.seal) {
            (Some(kept), Ok(seal)) if kept.seal == *seal => Trust::Trusted,
            (Some(_), _) => Trust::Changed,
            (None, _) => Trust::Untrusted,
        }
    }
}

fn seal(path: &Path, mut said: Vec<[String; 3]>) -> Result<Seal, String> {
    said.sort();
    let mut hasher = blake3::Hasher::new();
    for text in said.iter().flatten() {
        // With its length, so that no text can end where another begins.
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    let (device, inode) = identity(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Seal { device, inode, hash: hasher.finalize().to_hex().to_string() })
}

#[cfg(unix)]
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::metadata(path).map(|_| (0, 0))
}

/// The path as the disk knows it. A name that is not Unicode could not be told from others in the store.
fn real_name(path: &Path) -> Option<String> {
    path.canonicalize().ok()?.to_str().map(str::to_owned)
}

fn read_store(path: &Path) -> Result<Option<Store>, (u32, String)> {
    let Some(text) = read_file(path)? else { return Ok(None) };
    let store: Store = serde_json::from_str(&text)
        .map_err(|error| (u32::try_from(error.line()).unwrap_or(0), "not a list of trusted folders".to_owned()))?;
    if store.version == VERSION { Ok(Some(store)) } else { Err((0, format!("written by another version of posse ({})", store.version))) }
}

/// Why trust could not be kept. Nothing has changed.
#[derive(Debug, Error)]
pub enum KeepTrustError {
    /// Take it away, or say `--trust` each time.
    #[error("{0}; it could change without notice, so trust in it cannot be kept. Remove it, or use `posse run --trust` each time")]
    Unknown(String),
    #[error("{0}: the folder's name is not Unicode text, so trust in it cannot be kept")]
    Name(PathBuf),
    #[error("{path}: {error}")]
    Unwritable { path: PathBuf, error: io::Error },
}

/// Keeps the user's trust in the folders of this project, from its top to the working directory, as `config` found them.
pub fn keep_trust(places: &Places, config: &Config, when: u64) -> Result<(), KeepTrustError> {
    let mut entries = Vec::new();
    for folder in &config.folders {
        let seal = folder.seal.clone().map_err(KeepTrustError::Unknown)?;
        let name = real_name(&folder.path).ok_or_else(|| KeepTrustError::Name(folder.path.clone()))?;
        entries.push((name, Kept { seal, when }));
    }
    let path = trust_file(places);
    write(&path, entries).map_err(|error| KeepTrustError::Unwritable { path, error })
}

/// Under a lock, so that two who trust two folders both are heard; then in one piece, so that a crash leaves the old or
/// the new.
fn write(path: &Path, entries: Vec<(String, Kept)>) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)?;
    let lock = private(OpenOptions::new().write(true).create(true).truncate(false)).open(path.with_extension("lock"))?;
    lock.lock()?;
    let mut store = read_store(path).ok().flatten().unwrap_or_default();
    store.version = VERSION;
    store.folders.extend(entries);
    let text = serde_json::to_string_pretty(&store).map_err(io::Error::other)?;
    let draft = path.with_extension(format!("{}.new", std::process::id()));
    // One that a crash has left; the lock says that nobody writes it.
    if let Err(error) = fs::remove_file(&draft)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file = private(OpenOptions::new().write(true).create_new(true)).open(&draft)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&draft, path)).inspect_err(|_| {
        // Half a file helps nobody, and the error above is the one to tell.
        let _ = fs::remove_file(&draft);
    })?;
    File::open(folder)?.sync_all()
}

/// For the user's eyes and hands only.
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}
