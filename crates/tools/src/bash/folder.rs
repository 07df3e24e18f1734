//! Where a shell starts and where it ended: the folder that is kept between the commands of a session.
//!
//! A file that bash reads before the command makes it note its last folder; nothing is added to the command itself, so
//! that line numbers in errors are right. The folder never leaves the project, whatever the command does.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs, io,
    io::Read,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use posse_session::{CallId, ToolContext, Workspace};
use serde_json::{Value, json};

use crate::{
    files::{memory, open_regular, write_whole},
    judged::key,
    paths::real,
    private::Private,
    text::spool_file,
};

/// The kernel's bound for a path, with room.
const FOLDER_BYTES_MAX: u64 = 8 * 1024;

/// Where the shell's folder is in a session's memory.
const MEMORY_KEY: &str = "shell_folder";

/// Read by bash before the command. The folder it ends in is noted whatever way it ends. A trap of the command's own
/// wins; then the folder just stays.
pub(super) const STARTUP: &str = r#"__posse_folder=$POSSE_FOLDER
unset POSSE_FOLDER BASH_ENV
trap '{ set +x; } 2>/dev/null; command pwd -P >|"$__posse_folder" 2>/dev/null || :' EXIT
"#;

/// Where one command notes the folder it ends in.
pub(super) struct Note {
    path: PathBuf,
    startup: PathBuf,
    private: Private,
}

impl Note {
    /// `spool` must be resolved.
    pub(super) fn new(spool: &Path, call: &CallId, context: &ToolContext) -> io::Result<Self> {
        let private = Private::of(&*context.workspace);
        let path = spool_file(spool, &format!("{call}.folder"))?;
        Ok(Self { path, startup: startup_file(spool, &private)?, private })
    }

    /// What bash must find in its environment. An environment is text; from a spool whose name is not, `cd` is simply
    /// not kept.
    pub(super) fn variables(&self) -> Vec<(String, String)> {
        let (Some(startup), Some(path)) = (self.startup.to_str(), self.path.to_str()) else { return Vec::new() };
        vec![("BASH_ENV".into(), startup.into()), ("POSSE_FOLDER".into(), path.into())]
    }

    /// The next command starts where this one ended, if that is inside the root.
    pub(super) fn keep(&self, context: &ToolContext, notes: &mut Vec<String>) {
        let mut bytes = Vec::new();
        let read = open_regular(&self.path, &self.private).and_then(|(file, _)| file.take(FOLDER_BYTES_MAX).read_to_end(&mut bytes));
        if !matches!(read, Ok(1..)) {
            return;
        }
        let folder = PathBuf::from(OsString::from_vec(bytes.strip_suffix(b"\n").unwrap_or(&bytes).to_vec()));
        let root = context.workspace.root();
        let kept = match real(&folder) {
            Ok(folder) if folder.starts_with(root) => folder,
            _ => {
                notes.push(format!("{} is outside the project; the next command starts in {}", folder.display(), root.display()));
                root.to_owned()
            }
        };
        // As bytes: the name of a folder need not be text.
        memory(context).insert(MEMORY_KEY.into(), json!(kept.as_os_str().as_bytes()));
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        // Never there when the shell was replaced by `exec`.
        let _ = fs::remove_file(&self.path);
    }
}

/// Calls that wait for their verdict at one time.
const LOOKS_MAX: usize = 4_096;

/// Which folder each command was judged for: a relative path in it means another file elsewhere. A command runs there,
/// also when another call of the same reply has moved the shell on. One of these serves one session.
#[derive(Default)]
pub(super) struct Folders {
    last: Mutex<Option<PathBuf>>,
    judged: Mutex<HashMap<[u8; 32], PathBuf>>,
}

impl Folders {
    /// Where this command would start, and will.
    pub(super) fn at_look(&self, input: &Value, workspace: &dyn Workspace) -> PathBuf {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let folder = last.filter(|last| last.is_dir()).unwrap_or_else(|| workspace.cwd().to_owned());
        let mut judged = self.judged.lock().unwrap_or_else(PoisonError::into_inner);
        if LOOKS_MAX <= judged.len() {
            judged.clear();
        }
        judged.insert(key(input), folder.clone());
        folder
    }

    /// Where it starts. When no look is known it is where every session starts: never a folder nobody judged it for.
    pub(super) fn at_run(&self, input: &Value, context: &ToolContext, notes: &mut Vec<String>) -> PathBuf {
        // Kept until the next look: a reply may hold the same call twice.
        let judged = self.judged.lock().unwrap_or_else(PoisonError::into_inner).get(&key(input)).cloned();
        // Asked in any case: if that folder is gone, it must be said.
        shell_folder(context, notes);
        judged.filter(|folder| folder.is_dir()).unwrap_or_else(|| context.workspace.cwd().to_owned())
    }

    pub(super) fn moved(&self, context: &ToolContext) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(shell_folder(context, &mut Vec::new()));
    }
}

/// Where the last command ended, or the workspace's own folder if that is gone.
fn shell_folder(context: &ToolContext, notes: &mut Vec<String>) -> PathBuf {
    let start = context.workspace.cwd().to_owned();
    let kept = memory(context).get(MEMORY_KEY).cloned().and_then(|bytes| serde_json::from_value::<Vec<u8>>(bytes).ok());
    let Some(kept) = kept.map(|bytes| PathBuf::from(OsString::from_vec(bytes))) else { return start };
    if kept.is_dir() && real(&kept).is_ok_and(|kept| kept.starts_with(context.workspace.root())) {
        return kept;
    }
    notes.push(format!("the folder {} is gone; this ran in {}", kept.display(), start.display()));
    start
}

/// Written once per spool folder.
fn startup_file(spool: &Path, private: &Private) -> io::Result<PathBuf> {
    let path = spool_file(spool, "startup.sh")?;
    let mut present = Vec::new();
    let read = open_regular(&path, private).and_then(|(file, _)| file.take(STARTUP.len() as u64 + 1).read_to_end(&mut present));
    if read.is_err() || present != STARTUP.as_bytes() {
        write_whole(&path, STARTUP.as_bytes(), private)?;
    }
    Ok(path)
}
