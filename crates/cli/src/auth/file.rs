//! `auth.json` in the data folder: which providers have a kept key, and the keys that no keyring holds.
//!
//! For the user's eyes only: the folder is 0700 and the file 0600, and one that others can read is not used, because then
//! its keys may be known already. Written under a lock and in one piece. Words never hold a key.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

const NAME: &str = "auth.json";
const VERSION: u32 = 1;

/// A few hundred keys; what is larger is not this file.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// What a file lets others do.
const OTHERS: u32 = 0o077;

/// Without `Debug`: it holds keys.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct List {
    #[serde(default)]
    version: u32,
    /// By the name of the provider.
    #[serde(default)]
    pub(crate) keys: BTreeMap<String, Kept>,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Kept {
    #[serde(flatten)]
    pub(crate) place: Place,
    /// Milliseconds since 1970.
    pub(crate) since: u64,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(tag = "place", rename_all = "snake_case")]
pub(crate) enum Place {
    /// Here.
    File { key: String },
    /// The keyring of the system has it; nobody else is asked for it.
    Keyring,
}

#[derive(Debug, Clone)]
pub(crate) struct KeyFile {
    folder: PathBuf,
}

impl KeyFile {
    pub(crate) fn of(data_dir: &Path) -> Self {
        Self { folder: data_dir.to_owned() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join(NAME)
    }

    /// What is kept; nothing when there is no file. An error is words: what is wrong and what to do.
    pub(crate) fn read(&self) -> Result<List, String> {
        let path = self.path();
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(List::default()),
            Err(error) => return Err(format!("{}: {error}, so kept keys cannot be used", path.display())),
        };
        let metadata = file.metadata().map_err(|error| format!("{}: {error}", path.display()))?;
        refuse_others(&path, metadata.mode(), metadata.uid())?;
        let mut text = String::new();
        let read = std::io::Read::take(&mut file, FILE_BYTES_MAX).read_to_string(&mut text);
        read.map_err(|error| format!("{}: {error}", path.display()))?;
        // What the parser says could quote what it read.
        let list: List = serde_json::from_str(&text).map_err(|error| {
            format!(
                "{}:{}: not a list of keys; mend it, or remove it and add the keys again with `posse auth add`",
                path.display(),
                error.line()
            )
        })?;
        if list.version != VERSION {
            return Err(format!("{}: written by another version of posse ({})", path.display(), list.version));
        }
        Ok(list)
    }

    /// Changes what is kept, under a lock, so that two who add two keys both are heard.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut List) -> T) -> Result<T, String> {
        let unwritable = |error: io::Error| format!("{}: {error}; nothing was changed", self.path().display());
        self.make_folder().map_err(unwritable)?;
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(FILE_MODE).open(self.folder.join("auth.lock"));
        let lock = lock.map_err(unwritable)?;
        lock.lock().map_err(unwritable)?;
        let mut list = self.read()?;
        list.version = VERSION;
        let changed = change(&mut list);
        self.write(&list).map_err(unwritable)?;
        Ok(changed)
    }

    fn make_folder(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(&self.folder)?;
        let mode = fs::metadata(&self.folder)?.mode();
        // Made by something less careful: sessions are in it too.
        if mode & OTHERS != 0 { fs::set_permissions(&self.folder, Permissions::from_mode(FOLDER_MODE)) } else { Ok(()) }
    }

    /// In one piece, so that a crash leaves the old or the new.
    fn write(&self, list: &List) -> io::Result<()> {
        let text = serde_json::to_string_pretty(list).map_err(io::Error::other)?;
        let draft = self.folder.join(format!("{NAME}.{}.new", std::process::id()));
        self.remove_drafts()?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&draft)?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&draft, self.path()));
        written.inspect_err(|_| {
            // Half a file helps nobody, and the error above is the one to tell.
            let _ = fs::remove_file(&draft);
        })?;
        File::open(&self.folder)?.sync_all()
    }

    /// Those that crashes have left, of whichever process: keys are in them. The lock says that nobody writes one now.
    fn remove_drafts(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(is_draft) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

/// `auth.json.new`, or with the number of the process before its end.
fn is_draft(name: &str) -> bool {
    let middle = name.strip_prefix(NAME).and_then(|rest| rest.strip_prefix('.')).and_then(|rest| rest.strip_suffix("new"));
    middle
        .is_some_and(|middle| middle.is_empty() || middle.strip_suffix('.').is_some_and(|id| id.bytes().all(|byte| byte.is_ascii_digit())))
}

fn refuse_others(path: &Path, mode: u32, owner: u32) -> Result<(), String> {
    let path = path.display();
    if mode & OTHERS != 0 {
        return Err(format!(
            "others can read or change {path} (mode {:03o}), so its keys are not used; `chmod 600 {path}`, and replace the keys if somebody may have seen them",
            mode & 0o777
        ));
    }
    let user = rustix::process::geteuid();
    if !user.is_root() && user.as_raw() != owner {
        return Err(format!(
            "{path} belongs to another user, so its keys are not used; remove it, and add your keys with `posse auth add`"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> (tempfile::TempDir, KeyFile) {
        let folder = tempfile::tempdir().unwrap();
        let file = KeyFile::of(&folder.path().join("data"));
        (folder, file)
    }

    fn keep(file: &KeyFile, provider: &str, key: &str) {
        let kept = Kept { place: Place::File { key: key.into() }, since: 7 };
        file.change(|list| list.keys.insert(provider.into(), kept)).map(drop).unwrap();
    }

    #[test]
    fn what_is_kept_is_for_its_user_only_and_stays() {
        let (_guard, file) = file();
        assert!(file.read().is_ok_and(|list| list.keys.is_empty()), "no file is an empty list");
        keep(&file, "a", "one");
        fs::set_permissions(&file.folder, Permissions::from_mode(0o755)).unwrap();
        keep(&file, "b", "two");
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&file.folder), mode(&file.path())), (FOLDER_MODE, FILE_MODE));
        let list = file.read().map_err(|words| panic!("{words}")).unwrap_or_default();
        let keys: Vec<(&str, bool)> =
            list.keys.iter().map(|(name, kept)| (name.as_str(), matches!(kept.place, Place::File { .. }))).collect();
        assert_eq!(keys, [("a", true), ("b", true)]);
        let names: Vec<String> =
            fs::read_dir(&file.folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        assert!(names.iter().all(|name| name == NAME || name == "auth.lock"), "no draft is left: {names:?}");
    }

    #[test]
    fn a_file_that_others_can_read_is_refused_also_for_a_change() {
        let (_guard, file) = file();
        keep(&file, "a", "sk-secret");
        for mode in [0o640, 0o604, 0o620, 0o666] {
            fs::set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
            let words = file.read().err().unwrap();
            assert!(words.contains("chmod 600") && words.contains(&format!("{mode:03o}")) && !words.contains("sk-secret"), "{words}");
            assert!(file.change(|_| ()).is_err());
        }
    }

    #[test]
    fn a_broken_file_is_told_without_what_is_in_it() {
        let (_guard, file) = file();
        keep(&file, "a", "sk-secret");
        for text in
            ["sk-secret", r#"{"version": 1, "keys": "sk-secret"}"#, r#"{"version": 9, "keys": {}}"#, r#"{"keys": {"a": "sk-secret"}}"#]
        {
            fs::write(file.path(), text).unwrap();
            let words = file.read().err().unwrap();
            assert!(words.contains(NAME) && !words.contains("secret"), "{words}");
        }
    }

    #[test]
    fn what_a_crash_left_is_removed_whoever_left_it() {
        let (_guard, file) = file();
        keep(&file, "a", "one");
        let own = format!("auth.json.{}.new", std::process::id());
        for name in ["auth.json.new", "auth.json.7.new", &own, "auth.json.mine.new", "auth.json.7"] {
            fs::write(file.folder.join(name), "sk-secret").unwrap();
        }
        keep(&file, "b", "two");
        let mut names: Vec<String> =
            fs::read_dir(&file.folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        assert_eq!(names, ["auth.json", "auth.json.7", "auth.json.mine.new", "auth.lock"], "other files are the user's own");
    }

    #[test]
    fn those_who_add_at_once_are_all_heard() {
        let (_guard, file) = file();
        let threads: Vec<_> = (0..8)
            .map(|at| {
                let file = file.clone();
                std::thread::spawn(move || keep(&file, &format!("p{at}"), "k"))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(file.read().map(|list| list.keys.len()), Ok(8));
    }
}
