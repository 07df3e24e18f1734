//! Files as tools change them: whole or not at all, one writer at a time, and never over what someone else wrote since.
//!
//! What a session has seen of a file is a stamp in its memory, shared by read, edit and write. Knows nothing of arguments
//! or of words around a result.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::{
        fd::OwnedFd,
        unix::fs::{MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

use posse_session::ToolContext;
use rustix::{
    fs::{Access, AtFlags, Mode, OFlags, accessat, fsync, mkdirat, openat, unlinkat},
    io::Errno,
};
use serde_json::{Map, Value, json};

use crate::{
    paths::Place,
    private::Private,
    root::{Found, Identity, changed, identity},
    temporary::Temporary,
};

/// Larger files are data, not text that a model edits.
pub(crate) const EDITED_BYTES_MAX: u64 = 10 * 1024 * 1024;

/// How many files a session remembers; the oldest are forgotten, which only means no guard for them.
const FILES_REMEMBERED_MAX: usize = 2_000;

/// A session's memory.
pub(crate) type Memory = Mutex<Map<String, Value>>;

/// Where the stamps are in a session's memory.
const MEMORY_KEY: &str = "files";

/// Edits read, change and write; two calls of one reply on the same file must not interleave. All of it is short and
/// blocking, so one lock for all files is enough.
static WRITING: Mutex<()> = Mutex::new(());

pub(crate) fn one_writer() -> MutexGuard<'static, ()> {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens a regular file for reading and nothing else: a pipe or a device could block for ever, and a database of ours
/// would lose its locks (see `private.rs`). `path` must be resolved; a link that is in it now was not there when it was judged.
pub(crate) fn open_regular(path: &Path, private: &Private) -> io::Result<(File, fs::Metadata)> {
    open_regular_with(path, private, OpenOptions::new().read(true))
}

pub(crate) fn open_regular_with(path: &Path, private: &Private, options: &mut OpenOptions) -> io::Result<(File, fs::Metadata)> {
    open_found(private.find(path)?, private, options)
}

/// The same of what was found before.
pub(crate) fn open_found(found: Found, private: &Private, options: &mut OpenOptions) -> io::Result<(File, fs::Metadata)> {
    refuse(&found.metadata, private)?;
    Ok((found.open(options)?, found.metadata))
}

/// A folder to be listed, with the same care about links.
pub(crate) fn open_folder(path: &Path, private: &Private) -> io::Result<fs::ReadDir> {
    private.find(path)?.entries()
}

fn refuse(metadata: &fs::Metadata, private: &Private) -> io::Result<()> {
    match kind_of(metadata) {
        "link" => Err(changed()),
        "file" if private.is_database(metadata) => Err(io::Error::other("this is a database of posse itself, which no tool opens")),
        "file" => Ok(()),
        kind => Err(io::Error::other(format!("this is a {kind}, not a file; it cannot be read as text"))),
    }
}

pub(crate) fn kind_of(metadata: &fs::Metadata) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    let kind = metadata.file_type();
    match () {
        () if kind.is_file() => "file",
        () if kind.is_dir() => "directory",
        () if kind.is_symlink() => "link",
        () if kind.is_fifo() => "named pipe",
        () if kind.is_socket() => "socket",
        () if kind.is_block_device() || kind.is_char_device() => "device",
        () => "special file",
    }
}

/// The whole of a text file that is small enough to edit, or `None` when it does not exist.
pub(crate) fn load_text(place: &Place, private: &Private) -> Result<Option<String>, String> {
    let not_text = |_| format!("{} is not UTF-8 text, so it cannot be edited here. Use bash with a suitable program.", place.name);
    load(place, private)?.map(|loaded| String::from_utf8(loaded.bytes).map_err(not_text)).transpose()
}

/// A file as it is on the disk.
pub(crate) struct Loaded {
    pub(crate) bytes: Vec<u8>,
    pub(crate) mode: u32,
}

/// The same of a file of any kind of content.
pub(crate) fn load(place: &Place, private: &Private) -> Result<Option<Loaded>, String> {
    let trouble = |error: io::Error| crate::paths::trouble(place, &error);
    let (file, metadata) = match open_regular(&place.real, private) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(trouble)?,
    };
    if EDITED_BYTES_MAX < metadata.len() {
        return Err(format!(
            "{} has {} bytes; files above {EDITED_BYTES_MAX} bytes cannot be edited here. Use bash with sed or a script.",
            place.name,
            metadata.len()
        ));
    }
    let mut bytes = Vec::new();
    file.take(EDITED_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(trouble)?;
    Ok(Some(Loaded { bytes, mode: metadata.mode() & 0o7777 }))
}

/// Replaces a file in one step: a reader sees the old or the new text, a full disk leaves the old one, and when this
/// returns the new one is on the disk. Mode and owner stay. `path` must be resolved; missing folders are made.
pub(crate) fn write_whole(path: &Path, text: &[u8], private: &Private) -> io::Result<()> {
    write_with_mode(path, text, None, private)
}

/// The same; a file that is new gets this mode.
pub(crate) fn write_with_mode(path: &Path, text: &[u8], mode: Option<u32>, private: &Private) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(io::ErrorKind::InvalidInput.into()) };
    private.root_is_there_for(path)?;
    let folder = folder_at(parent, private)?;
    let old = replaceable(&folder, name, private)?;
    let mut temporary = Temporary::create(&folder, old.as_ref())?;
    temporary.file.write_all(text)?;
    match (&old, mode) {
        (Some(old), _) => temporary.take_after(old)?,
        (None, Some(mode)) => temporary.file.set_permissions(fs::Permissions::from_mode(mode & 0o777))?,
        (None, None) => {}
    }
    temporary.file.sync_all()?;
    let written = identity(&temporary.file.metadata()?);
    // Both under the lock: whoever looks in between would take the new file for somebody else's.
    let mut ours = ours();
    temporary.into_place(name)?;
    ours.note(path, written);
    drop(ours);
    sync_folder(&folder)
}

/// Removes a file, which is gone for good when this returns. `path` must be resolved.
pub(crate) fn remove_whole(path: &Path, private: &Private) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(io::ErrorKind::InvalidInput.into()) };
    private.root_is_there_for(path)?;
    let folder = a_folder(private.find(parent)?)?;
    if replaceable(&folder, name, private)?.is_none() {
        return Err(io::ErrorKind::NotFound.into());
    }
    unlinkat(&folder, name, AtFlags::empty())?;
    sync_folder(&folder)
}

/// A handle of a folder without links in its path; missing folders are made.
fn folder_at(path: &Path, private: &Private) -> io::Result<OwnedFd> {
    let found = match (private.find(path), path.parent(), path.file_name()) {
        (Err(error), Some(parent), Some(name)) if error.kind() == io::ErrorKind::NotFound => {
            let above = folder_at(parent, private)?;
            match mkdirat(&above, name, Mode::from_raw_mode(0o777)) {
                Ok(()) => sync_folder(&above)?,
                // Another call was faster.
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            Found::in_folder(&above, name)?
        }
        (found, ..) => found?,
    };
    a_folder(found)
}

fn a_folder(found: Found) -> io::Result<OwnedFd> {
    match kind_of(&found.metadata) {
        "directory" => Ok(found.into_handle()),
        "link" => Err(changed()),
        _ => Err(Errno::NOTDIR.into()),
    }
}

/// What stands at a name now, if it may be replaced.
fn replaceable(folder: &OwnedFd, name: &OsStr, private: &Private) -> io::Result<Option<fs::Metadata>> {
    let old = match Found::in_folder(folder, name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found?.metadata,
    };
    refuse(&old, private)?;
    // Whoever took away all write bits meant everyone, also root; the folder's rights do not count for this.
    if old.mode() & 0o222 == 0 || accessat(folder, name, Access::WRITE_OK, AtFlags::empty()).is_err() {
        return Err(io::Error::other("this file is write-protected; change its mode first if that is meant"));
    }
    Ok(Some(old))
}

fn sync_folder(folder: &OwnedFd) -> io::Result<()> {
    let opened = openat(folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    match opened.and_then(fsync) {
        // A folder that may be written but not read cannot be opened for this, and some file systems know no such thing.
        Ok(()) | Err(Errno::ACCESS | Errno::INVAL | Errno::NOTSUP | Errno::ROFS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The files this process wrote last, so that a call is not refused because an earlier one of the same reply changed its file.
#[derive(Default)]
pub(crate) struct Ours(HashMap<PathBuf, Identity>);

pub(crate) fn ours() -> MutexGuard<'static, Ours> {
    static OURS: LazyLock<Mutex<Ours>> = LazyLock::new(Mutex::default);
    OURS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ours {
    fn note(&mut self, path: &Path, written: Identity) {
        if FILES_REMEMBERED_MAX <= self.0.len() {
            // Whoever waits for a verdict on one of them has to make the call again, no more.
            self.0.clear();
        }
        self.0.insert(path.to_owned(), written);
    }

    pub(crate) fn wrote(&self, path: &Path, there: Identity) -> bool {
        self.0.get(path) == Some(&there)
    }
}

/// A short hash of a text, for the log and for telling texts apart.
pub(crate) fn hash(text: &[u8]) -> String {
    blake3::hash(text).to_hex()[..32].to_owned()
}

/// Remembers what the session knows of a file; `text` if it has seen all of it.
pub(crate) fn remember(memory: &Memory, place: &Place, text: Option<&[u8]>) {
    let Ok(found) = place.find() else { return };
    let mut seen = json!({"stamp": stamp(&found.metadata)});
    if let Some(text) = text {
        seen["hash"] = Value::String(hash(text));
    }
    let mut memory = lock(memory);
    let files = memory.entry(MEMORY_KEY).or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(files) = files {
        let name = place.real.to_string_lossy().into_owned();
        files.shift_remove(&name);
        if FILES_REMEMBERED_MAX <= files.len()
            && let Some(oldest) = files.keys().next().cloned()
        {
            files.shift_remove(&oldest);
        }
        files.insert(name, seen);
    }
}

/// Whether the file was changed by someone else since this session last saw it. `now` is its present text.
pub(crate) fn is_stale(memory: &Memory, place: &Place, now: &str) -> bool {
    let memory = lock(memory);
    let Some(seen) = memory.get(MEMORY_KEY).and_then(|files| files.get(&*place.real.to_string_lossy())) else { return false };
    let Ok(found) = place.find() else { return false };
    let same_stamp = seen["stamp"].as_str() == Some(&stamp(&found.metadata));
    // A file that was only touched, or rewritten with the same text, has not changed.
    let same_text = || seen["hash"].as_str() == Some(&hash(now.as_bytes()));
    !same_stamp && !same_text()
}

pub(crate) fn stale_words(place: &Place) -> String {
    format!(
        "{} has changed since you last read it, so nothing was written. Read it again, then repeat the change on its present text.",
        place.name
    )
}

pub(crate) fn memory(context: &ToolContext) -> MutexGuard<'_, Map<String, Value>> {
    lock(&context.memory)
}

fn lock(memory: &Memory) -> MutexGuard<'_, Map<String, Value>> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stamp(metadata: &fs::Metadata) -> String {
    format!("{}.{:09}:{}", metadata.mtime(), metadata.mtime_nsec(), metadata.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &[u8]) -> io::Result<()> {
        write_whole(path, text, &Private::default())
    }

    #[test]
    fn a_replaced_file_keeps_its_mode_and_owner_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/run.sh");
        write(&path, b"one").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
        // Only root can give a file away; elsewhere this is the owner it has.
        let _ = std::os::unix::fs::chown(&path, Some(12_345), Some(12_346));
        let before = fs::metadata(&path).unwrap();
        write(&path, b"two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        let after = fs::metadata(&path).unwrap();
        assert_eq!((after.mode() & 0o7777, after.uid(), after.gid()), (0o751, before.uid(), before.gid()));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_write_protected_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("generated.rs");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        assert!(write(&path, b"new").unwrap_err().to_string().contains("write-protected"));
        assert!(remove_whole(&path, &Private::default()).unwrap_err().to_string().contains("write-protected"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_write_leaves_the_old_text() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("target")).unwrap();
        assert!(write(&folder.path().join("target"), b"text").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_root_that_was_replaced_is_not_written_through_its_handle() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("project");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("a"), "first").unwrap();
        let private = Private::of(&crate::path_verdict::Bare::open(&root).unwrap());
        let moved = folder.path().join("moved");
        fs::rename(&root, &moved).unwrap();
        fs::create_dir(&root).unwrap();
        fs::write(root.join("a"), "second").unwrap();
        for done in [write_whole(&root.join("a"), b"x", &private), remove_whole(&root.join("a"), &private)] {
            assert!(done.unwrap_err().to_string().contains("no longer the one in which this session began"));
        }
        assert_eq!(
            (fs::read_to_string(root.join("a")).unwrap(), fs::read_to_string(moved.join("a")).unwrap()),
            ("second".into(), "first".into())
        );
    }

    #[test]
    fn a_link_in_a_resolved_path_is_never_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("outside")).unwrap();
        fs::write(root.join("outside/secret"), "s").unwrap();
        std::os::unix::fs::symlink(root.join("outside"), root.join("swapped")).unwrap();
        std::os::unix::fs::symlink(root.join("outside/secret"), root.join("file")).unwrap();
        for path in ["swapped/secret", "file"] {
            let path = root.join(path);
            assert!(open_regular(&path, &Private::default()).unwrap_err().to_string().contains("changed since it was judged"));
            assert!(write(&path, b"x").unwrap_err().to_string().contains("changed since it was judged"));
            assert!(remove_whole(&path, &Private::default()).unwrap_err().to_string().contains("changed since it was judged"));
        }
        assert!(open_folder(&root.join("swapped"), &Private::default()).is_err());
        assert_eq!(fs::read_to_string(root.join("outside/secret")).unwrap(), "s");
    }
}
