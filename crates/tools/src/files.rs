//! Files as tools change them: whole or not at all, one writer at a time, and never over what someone else wrote since.
//!
//! What a session has seen of a file is a stamp in its memory, shared by read, edit and write. Knows nothing of arguments
//! or of words around a result.

use std::{
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    hash::{BuildHasher, Hasher, RandomState},
    io::{self, Read, Write},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown},
    },
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use posse_session::{Part, ToolContext};
use rustix::{
    fs::{Access, AtFlags, CWD, Mode, OFlags, ResolveFlags, accessat, fsync, mkdirat, openat, openat2, renameat, unlinkat},
    io::Errno,
};
use serde_json::{Map, Value, json};

use crate::{paths::Place, private::Private};

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
    // A handle that cannot read: it blocks on nothing, and closing it drops no lock.
    let handle = File::from(without_links(path, OFlags::PATH)?);
    let metadata = handle.metadata()?;
    refuse(&metadata, private)?;
    let again = format!("/proc/self/fd/{}", handle.as_raw_fd());
    Ok((options.custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(again)?, metadata))
}

/// A folder to be listed, with the same care about links.
pub(crate) fn open_folder(path: &Path) -> io::Result<fs::ReadDir> {
    let handle = without_links(path, OFlags::PATH | OFlags::DIRECTORY)?;
    fs::read_dir(format!("/proc/self/fd/{}", handle.as_raw_fd()))
}

fn without_links(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC;
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // Kernels before 5.6 and some sandboxes; there at least the last name is no link.
        Err(Errno::NOSYS | Errno::PERM) => openat(CWD, path, flags | OFlags::NOFOLLOW, Mode::empty()).map_err(io::Error::from),
        Err(Errno::LOOP) => Err(changed()),
        opened => Ok(opened?),
    }
}

fn changed() -> io::Error {
    io::Error::other("the path changed since it was judged: a link is in it now")
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
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| format!("{} is not UTF-8 text, so it cannot be edited here. Use bash with a suitable program.", place.name))
}

/// Replaces a file in one step: a reader sees the old or the new text, a full disk leaves the old one, and when this
/// returns the new one is on the disk. Mode and owner stay. `path` must be resolved; missing folders are made.
pub(crate) fn write_whole(path: &Path, text: &[u8], private: &Private) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(io::ErrorKind::InvalidInput.into()) };
    let folder = folder_at(parent)?;
    let old = replaceable(&folder, name, private)?;
    let mut temporary = Temporary::create(&folder, old.as_ref())?;
    temporary.file.write_all(text)?;
    if let Some(old) = &old {
        temporary.take_after(old)?;
    }
    temporary.file.sync_all()?;
    renameat(&folder, &temporary.name, &folder, name)?;
    temporary.moved = true;
    sync_folder(&folder)
}

/// A handle of a folder without links in its path; missing folders are made.
fn folder_at(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    match (without_links(path, flags), path.parent(), path.file_name()) {
        (Err(error), Some(parent), Some(name)) if error.kind() == io::ErrorKind::NotFound => {
            let above = folder_at(parent)?;
            match mkdirat(&above, name, Mode::from_raw_mode(0o777)) {
                Ok(()) => sync_folder(&above)?,
                // Another call was faster.
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            Ok(openat(&above, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?)
        }
        (opened, ..) => opened,
    }
}

/// What stands at a name now, if it may be replaced.
fn replaceable(folder: &OwnedFd, name: &OsStr, private: &Private) -> io::Result<Option<fs::Metadata>> {
    let old = match openat(folder, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        opened => File::from(opened?).metadata()?,
    };
    refuse(&old, private)?;
    // Whoever took away all write bits meant everyone, also root; the folder's rights do not count for this.
    if old.mode() & 0o222 == 0 || accessat(folder, name, Access::WRITE_OK, AtFlags::empty()).is_err() {
        return Err(io::Error::other("this file is write-protected; change its mode first if that is meant"));
    }
    Ok(Some(old))
}

/// A new file beside the one it will replace; removed again unless it took its place.
struct Temporary<'a> {
    folder: &'a OwnedFd,
    name: String,
    file: File,
    moved: bool,
}

impl<'a> Temporary<'a> {
    fn create(folder: &'a OwnedFd, old: Option<&fs::Metadata>) -> io::Result<Self> {
        // The text of a private file is private from its first byte on; a new file is what the umask makes of it.
        let mode = Mode::from_raw_mode(if old.is_some() { 0o600 } else { 0o666 });
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name = format!(".posse-{:016x}.tmp", RandomState::new().build_hasher().finish());
        let file = File::from(openat(folder, &name, flags, mode)?);
        Ok(Self { folder, name, file, moved: false })
    }

    fn take_after(&self, old: &fs::Metadata) -> io::Result<()> {
        let now = self.file.metadata()?;
        let same_owner = (old.uid(), old.gid()) == (now.uid(), now.gid())
            || fchown(&self.file, Some(old.uid()), Some(old.gid())).is_ok()
            // Only root gives files away; a group one belongs to can be kept.
            || (fchown(&self.file, None, Some(old.gid())).is_ok() && old.uid() == now.uid());
        // Another owner must not inherit setuid.
        let kept = if same_owner { 0o7777 } else { 0o777 };
        self.file.set_permissions(fs::Permissions::from_mode(old.mode() & kept))
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.moved {
            // What is left of the attempt is ours alone; the error itself is the news.
            let _ = unlinkat(self.folder, &self.name, AtFlags::empty());
        }
    }
}

fn sync_folder(folder: &OwnedFd) -> io::Result<()> {
    let opened = openat(folder.as_fd(), ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    match opened.and_then(fsync) {
        // A folder that may be written but not read cannot be opened for this, and some file systems know no such thing.
        Ok(()) | Err(Errno::ACCESS | Errno::INVAL | Errno::NOTSUP | Errno::ROFS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A short hash of a text, for the log and for telling texts apart.
pub(crate) fn hash(text: &[u8]) -> String {
    blake3::hash(text).to_hex()[..32].to_owned()
}

/// The fact that a file was changed, for the log.
pub(crate) fn patch(place: &Place, before: Option<&str>, after: &str) -> Part {
    Part::Patch {
        path: place.name.clone(),
        before: before.map(|text| hash(text.as_bytes())).unwrap_or_default(),
        after: hash(after.as_bytes()),
    }
}

/// Remembers what the session knows of a file; `text` if it has seen all of it.
pub(crate) fn remember(memory: &Memory, path: &Path, text: Option<&[u8]>) {
    let Ok(metadata) = fs::metadata(path) else { return };
    let mut seen = json!({"stamp": stamp(&metadata)});
    if let Some(text) = text {
        seen["hash"] = Value::String(hash(text));
    }
    let mut memory = lock(memory);
    let files = memory.entry(MEMORY_KEY).or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(files) = files {
        let name = path.to_string_lossy().into_owned();
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
pub(crate) fn is_stale(memory: &Memory, path: &Path, now: &str) -> bool {
    let memory = lock(memory);
    let Some(seen) = memory.get(MEMORY_KEY).and_then(|files| files.get(&*path.to_string_lossy())) else { return false };
    let Ok(metadata) = fs::metadata(path) else { return false };
    let same_stamp = seen["stamp"].as_str() == Some(&stamp(&metadata));
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
    fn a_private_text_is_private_from_its_first_byte_on() {
        let folder = tempfile::tempdir().unwrap();
        let old = folder.path().join("key");
        fs::write(&old, "secret").unwrap();
        let handle = folder_at(folder.path()).unwrap();
        let temporary = Temporary::create(&handle, Some(&fs::metadata(&old).unwrap())).unwrap();
        let path = folder.path().join(&temporary.name);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        let other = Temporary::create(&handle, None).unwrap();
        assert_ne!(temporary.name, other.name);
        drop((temporary, other));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "what was not moved is removed");
    }

    #[test]
    fn a_write_protected_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("generated.rs");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        assert!(write(&path, b"new").unwrap_err().to_string().contains("write-protected"));
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
        }
        assert!(open_folder(&root.join("swapped")).is_err());
        assert_eq!(fs::read_to_string(root.join("outside/secret")).unwrap(), "s");
    }
}
