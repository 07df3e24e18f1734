//! Undoing recorded changes: what a file is now, what it was before, and putting that back.
//!
//! Opens and writes files exactly as the tools do: beneath the root, through no link, whole or not at all. Whether undoing
//! is right is decided by the caller from hashes; words in here are for people.

use posse_session::Workspace;

use crate::{
    change,
    files::{self, Loaded, hash},
    paths::{Place, trouble},
    private::Private,
};

/// The hash that a record of a change has for this content; empty when there is no file.
pub fn content_hash(content: Option<&[u8]>) -> String {
    content.map(hash).unwrap_or_default()
}

/// The content before a change, made of the content after it and the change's record. `None` when they do not fit.
pub fn reversed(after: &[u8], change: &str) -> Option<Vec<u8>> {
    change::reversed(after, change)
}

/// A recorded path in its workspace.
pub struct RecordedFile<'a> {
    workspace: &'a dyn Workspace,
    path: &'a str,
}

impl<'a> RecordedFile<'a> {
    /// `path` as the record has it: relative to the root, or absolute when outside.
    pub fn new(workspace: &'a dyn Workspace, path: &'a str) -> Self {
        Self { workspace, path }
    }

    /// What the file is now; `None` when it does not exist.
    pub fn content(&self) -> Result<Option<Vec<u8>>, String> {
        Ok(self.load()?.1.map(|loaded| loaded.bytes))
    }

    /// The mode it has now.
    pub fn mode(&self) -> Option<u32> {
        self.load().ok()?.1.map(|loaded| loaded.mode)
    }

    /// Puts a content there, or removes the file, if it still is what `expected` is the hash of. A new file gets `mode`.
    pub fn restore(&self, expected: &str, content: Option<&[u8]>, mode: Option<u32>) -> Result<(), String> {
        let _only = files::one_writer();
        let (place, now) = self.load()?;
        if content_hash(now.as_ref().map(|now| now.bytes.as_slice())) != expected {
            return Err(format!("{} was changed just now", self.path));
        }
        let private = Private::of(self.workspace);
        let written = match content {
            Some(content) => files::write_with_mode(&place.real, content, mode, &private).map(drop),
            None if now.is_none() => Ok(()),
            None => files::remove_whole(&place.real, &private),
        };
        written.map_err(|error| trouble(&place, &error))
    }

    fn load(&self) -> Result<(Place, Option<Loaded>), String> {
        // Recorded paths are free of links. One that has a link in it now leads to another file.
        let place = Place::at(self.workspace, &self.workspace.root().join(self.path))?;
        if place.linked {
            return Err(format!("{} has a link in its path now, so it is another file", self.path));
        }
        let loaded = files::load(&place, &Private::of(self.workspace))?;
        Ok((place, loaded))
    }
}
