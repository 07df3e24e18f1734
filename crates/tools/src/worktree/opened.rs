//! A worktree that was made before, found again: its record, its repository, and the place itself if it is whole.
//!
//! Everything that is done with a recorded worktree begins here. Whatever is not ours is refused here, once.

use std::path::PathBuf;

use posse_session::Worktree;

use super::{
    merge::Onto,
    place::{self, Place},
    workshop::{Record, Workshop},
};

pub(super) struct Opened {
    pub(super) slug: String,
    pub(super) tree: Worktree,
    pub(super) record: Option<Record>,
    pub(super) common: PathBuf,
    /// Why there is no place, in words.
    pub(super) place: Result<Place, String>,
    merged: Option<String>,
}

impl Opened {
    pub(super) fn find(workshop: &Workshop, tree: &Worktree) -> Result<Self, String> {
        if tree.is_foreign() {
            return Err(format!("{} was made by a command of the user's, so what is in it is theirs to judge", tree.path));
        }
        let slug = workshop.slug_of(tree)?;
        let record = workshop.record(&slug)?;
        let common = match &record {
            Some(record) if record.tree == *tree => PathBuf::from(&record.common),
            Some(record) => return Err(format!("{} is recorded with another beginning: {}", tree.path, record.tree.base)),
            None => place::home_of(workshop, &tree.home)?.common,
        };
        let settings = record.as_ref().map(|record| record.settings.as_slice()).unwrap_or_default();
        let place = place::place_of_tree(tree, &slug, &common, settings);
        let merged = match &record {
            Some(record) => record.merged.clone(),
            None => super::refs::merged(&common, &slug)?,
        };
        Ok(Self { slug, tree: tree.clone(), record, common, place, merged })
    }

    /// A killed merge may have told the repository and not the record.
    pub(super) fn with_merged_of_refs(self) -> Result<Self, String> {
        let merged = super::refs::merged(&self.common, &self.slug)?;
        Ok(Self { merged: merged.or(self.merged), ..self })
    }

    /// What counts as new for a target: what was brought to another one is new for it.
    pub(super) fn for_target(self, onto: &Onto) -> Result<Self, String> {
        match onto {
            Onto::Home => self.with_merged_of_refs(),
            Onto::Branch(name) => Ok(Self { merged: super::refs::brought_onto(&self.common, &self.slug, name)?, ..self }),
        }
    }

    /// The commit from which on there is new work.
    pub(super) fn from(&self) -> &str {
        self.merged.as_deref().unwrap_or(&self.tree.base)
    }

    /// Something of it was brought home before.
    pub(super) fn is_merged(&self) -> bool {
        self.merged.is_some()
    }

    pub(super) fn place(&self) -> Result<&Place, String> {
        self.place.as_ref().map_err(Clone::clone)
    }
}
