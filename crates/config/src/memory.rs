//! What an agent has noted for itself: a folder of its own, of which the first part is always before its eyes.
//!
//! Finds the folder and words it for the system prompt. Writes nothing: the agent does, with the file tools it has, and
//! that it may is decided where rules are made.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use posse_session::MemoryScope;

use crate::{layer::open_regular, places::Places};

/// An agent's notes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// Where it is; it need not exist yet.
    pub dir: PathBuf,
    /// The same where nobody has put a link in its way: only then may the agent write there unasked.
    pub own: Option<PathBuf>,
    /// For the system prompt.
    pub text: String,
}

/// The file that is always shown.
const FILE: &str = "MEMORY.md";

/// What is shown of it at every call; the agent can read the rest.
const LINES_MAX: usize = 200;
const BYTES_MAX: usize = 25 * 1024;

pub fn memory(places: &Places, scope: MemoryScope, agent: &str) -> Memory {
    let dir = memory_dir(places, scope, agent);
    let whose = match scope {
        MemoryScope::User => "They are this user's, in every project.",
        MemoryScope::Project => "They belong to this project and are shared with whoever works on it: write nothing private.",
        MemoryScope::Local => "They belong to this project on this machine.",
    };
    let shown = dir.display();
    let mut text = format!(
        "# Your memory\n\nYou keep notes from one session to the next in {shown}. {whose}\n\
         - When you learn something that would have saved you work (a command, a convention, a cause, a decision), note it there with your file tools before you end.\n\
         - {FILE} is shown to you at every start, its first {LINES_MAX} lines: keep it short, an index with a line each, and put details in files of their own beside it.\n\
         - Correct a note that turns out wrong, and remove what no longer holds. Notes may be out of date: look before you rely on one.\n\
         - Never note secrets.\n\n",
    );
    match notes(&dir, (scope != MemoryScope::User).then_some(&places.project)) {
        Some(notes) => text.push_str(&format!("{FILE} says:\n\n{notes}")),
        None => text.push_str(&format!("{FILE} does not exist yet.")),
    }
    let own = (scope == MemoryScope::User || !leads_elsewhere(&dir, &places.project)).then(|| dir.clone());
    Memory { dir, own, text }
}

/// What posse itself has noted about a project, from one session to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notes {
    /// Where they are; it need not exist yet.
    pub dir: PathBuf,
    /// The same where nobody has put a link in its way: only then is anything written there.
    pub own: Option<PathBuf>,
    /// For the system prompt of whoever the user talks to; nothing as long as nothing is noted.
    pub text: Option<String>,
    /// What whoever takes notes is told.
    pub remember: String,
    /// What whoever puts them in order is told.
    pub consolidate: String,
}

/// No agent's notes are kept under this name: those have no dot.
const PROJECT_NOTES: &str = "main.notes";

const BESIDE: &str =
    "You are not the one who goes on with this conversation: you keep the notes of this project, which are shown to later sessions.";

pub fn notes_of_project(places: &Places) -> Notes {
    let dir = folder_of(places, MemoryScope::Local).join(PROJECT_NOTES);
    let own = (!leads_elsewhere(&dir, &places.project)).then(|| dir.clone());
    let shown = dir.display();
    let text = own.as_ref().and_then(|dir| notes(dir, Some(&places.project))).map(|notes| {
        format!(
            "# Notes from earlier sessions\n\nThese were taken in {shown}, beside earlier sessions in this project. They may be out of date: \
             look before you rely on one. Where a line names a file of that folder, more stands there.\n\n{notes}"
        )
    });
    let remember = format!(
        "{BESIDE} Look through it for what would have saved work had it been known before, and note that.\n\
         - Worth noting: a command that works here, a convention, the cause of a problem, a decision and its reason, what the user wants done differently.\n\
         - Not worth noting: what the code or the history says by itself, what was only of use today, guesses. Never secrets, keys or anything personal.\n\
         - The notes are in {shown}, and nothing else can be opened: only the tools for reading, searching and writing files work, and only there. Name files by their whole path.\n\
         - Read {FILE} first, if it is there. Correct a note that has turned out wrong instead of adding another.\n\
         - One short file per subject, named after it, ending in .md; {FILE} is the index, with a line of at most 150 letters for each.\n\
         If nothing is worth noting, which is often so, change nothing. Answer at the end with one line on what you noted."
    );
    let consolidate = format!(
        "{BESIDE} Now put them in order; do not add anything from this conversation.\n\
         - They are in {shown}, and nothing else can be opened: only the tools for reading, searching and writing files work, and only there. Name files by their whole path.\n\
         - Read {FILE} and every note. Join those about the same thing, settle what contradicts by what is newer, drop what no longer holds and what is said twice, \
         and write dates instead of words like yesterday.\n\
         - A note that is to go is emptied, and its line taken out of {FILE}.\n\
         - {FILE} keeps at most {LINES_MAX} lines, the most useful first.\n\
         Answer at the end with one line on what you changed."
    );
    Notes { dir, own, text, remember, consolidate }
}

/// Where an agent's notes are kept.
pub fn memory_dir(places: &Places, scope: MemoryScope, agent: &str) -> PathBuf {
    folder_of(places, scope).join(folder_name(agent))
}

fn folder_of(places: &Places, scope: MemoryScope) -> PathBuf {
    match scope {
        MemoryScope::User => places.config_dir.join("agent-memory"),
        MemoryScope::Project => places.project.join(".posse/agent-memory"),
        MemoryScope::Local => places.project.join(".posse/agent-memory-local"),
    }
}

/// Longer names are cut; the digest keeps two of them apart.
const NAME_CHARS_MAX: usize = 48;

/// One folder's name, whatever the agent is called. A name that had to be changed gets a digest, so that no two agents
/// share notes.
fn folder_name(agent: &str) -> String {
    let name: String = agent
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_') { letter.to_ascii_lowercase() } else { '-' })
        .take(NAME_CHARS_MAX)
        .collect();
    if name == agent && !name.is_empty() {
        return name;
    }
    let digest = blake3::hash(agent.as_bytes()).to_hex();
    format!("{name}-{}", &digest[..8])
}

/// Whether there is a link on the way from the project. Whoever made the project may have put it there.
fn leads_elsewhere(dir: &Path, project: &Path) -> bool {
    dir.ancestors().take_while(|folder| *folder != project).any(Path::is_symlink)
}

/// The first part of the notes. In a project no link is followed: nobody knows who made it, and the text is shown unasked.
fn notes(dir: &Path, project: Option<&PathBuf>) -> Option<String> {
    let path = dir.join(FILE);
    if let Some(project) = project {
        let plain = project.canonicalize().ok()?.join(path.strip_prefix(project).ok()?);
        if path.canonicalize().ok()? != plain {
            return None;
        }
    }
    let file = open_regular(&path).ok()?;
    let size = file.metadata().ok()?.len();
    let mut bytes = Vec::new();
    file.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes).ok()?;
    let long = BYTES_MAX < bytes.len();
    bytes.truncate(BYTES_MAX);
    let mut text = String::from_utf8_lossy(&bytes).trim_start_matches('\u{feff}').to_owned();
    if long {
        // The cut may have split a letter.
        text.truncate(text.trim_end_matches('\u{fffd}').len());
    }
    let lines = text.lines().count();
    let many = LINES_MAX < lines;
    if many {
        text = text.lines().take(LINES_MAX).collect::<Vec<_>>().join("\n");
    }
    if long || many {
        text = format!(
            "{}\n\n[cut here: the file has {size} bytes; read {} for the rest, and make it shorter]",
            text.trim_end(),
            path.display()
        );
    }
    (!text.trim().is_empty()).then(|| text.trim_end().to_owned())
}
