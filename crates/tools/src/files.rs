//! Files as tools change them: whole or not at all, one writer at a time, and never over what someone else wrote since.
//!
//! What a session has seen of a file is a stamp in its memory, shared by read, edit and write. Knows nothing of arguments
//! or of words around a result.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::Path,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use posse_session::{Part, ToolContext};
use rustix::fs::OFlags;
use serde_json::{Map, Value, json};

use crate::paths::Place;

/// Larger files are data, not text that a model edits.
pub(crate) const EDITED_BYTES_MAX: u64 = 10 * 1024 * 1024;

/// How many files a session remembers; the oldest are forgotten, which only means no guard for them.
const FILES_REMEMBERED_MAX: usize = 2_000;

/// Where the stamps are in a session's memory.
const MEMORY_KEY: &str = "files";

/// Edits read, change and write; two calls of one reply on the same file must not interleave. All of it is short and
/// blocking, so one lock for all files is enough.
static WRITING: Mutex<()> = Mutex::new(());

pub(crate) fn one_writer() -> MutexGuard<'static, ()> {
    WRITING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens a regular file for reading and nothing else: a pipe or a device could block for ever.
pub(crate) fn open_regular(path: &Path) -> io::Result<(File, fs::Metadata)> {
    let refuse = |metadata: &fs::Metadata| match kind_of(metadata) {
        "file" => Ok(()),
        kind => Err(io::Error::other(format!("this is a {kind}, not a file; it cannot be read as text"))),
    };
    refuse(&fs::metadata(path)?)?;
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    let metadata = file.metadata()?;
    refuse(&metadata)?;
    Ok((file, metadata))
}

pub(crate) fn kind_of(metadata: &fs::Metadata) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    let kind = metadata.file_type();
    match () {
        () if kind.is_file() => "file",
        () if kind.is_dir() => "directory",
        () if kind.is_fifo() => "named pipe",
        () if kind.is_socket() => "socket",
        () if kind.is_block_device() || kind.is_char_device() => "device",
        () => "special file",
    }
}

/// The whole of a text file that is small enough to edit, or `None` when it does not exist.
pub(crate) fn load_text(place: &Place) -> Result<Option<String>, String> {
    let trouble = |error: io::Error| crate::paths::trouble(place, &error);
    let (file, metadata) = match open_regular(&place.real) {
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

/// Replaces a file in one step: a reader sees the old or the new text, a full disk leaves the old one. Mode bits stay.
pub(crate) fn write_whole(path: &Path, text: &[u8]) -> io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(folder)?;
    let old = fs::metadata(path).ok();
    let temporary = folder.join(format!(".posse-{}-{}.tmp", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o666).open(&temporary)?;
        file.write_all(text)?;
        if let Some(old) = &old {
            file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))?;
        }
        drop(file);
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // What is left of the attempt is ours alone; the error itself is the news.
        let _ = fs::remove_file(&temporary);
    }
    written
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
pub(crate) fn remember(context: &ToolContext, path: &Path, text: Option<&[u8]>) {
    let Ok(metadata) = fs::metadata(path) else { return };
    let mut seen = json!({"stamp": stamp(&metadata)});
    if let Some(text) = text {
        seen["hash"] = Value::String(hash(text));
    }
    let mut memory = memory(context);
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
pub(crate) fn is_stale(context: &ToolContext, path: &Path, now: &str) -> bool {
    let memory = memory(context);
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
    context.memory.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stamp(metadata: &fs::Metadata) -> String {
    format!("{}.{:09}:{}", metadata.mtime(), metadata.mtime_nsec(), metadata.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_file_keeps_its_mode_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/run.sh");
        write_whole(&path, b"one").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
        write_whole(&path, b"two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o751);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_write_leaves_the_old_text() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("target")).unwrap();
        assert!(write_whole(&folder.path().join("target"), b"text").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
