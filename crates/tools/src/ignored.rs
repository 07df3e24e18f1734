//! What a project does not want to be looked at: its `.gitignore` and `.ignore` files, read with care.
//!
//! A repository may be hostile, so an ignore file is a regular file of bounded size or it is none: a pipe of that name
//! must not hang a search. Only files inside the project count, so the answer does not depend on the machine.

use std::{io::Read, path::Path, sync::Arc};

use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};

use crate::{files::open_regular, private::Private};

/// The longest ignore files in the wild have some hundred lines; what stands beyond does not count.
const BYTES_MAX: u64 = 64 * 1024;
const LINES_MAX: usize = 2_000;

/// The rules of a folder and of those above it.
#[derive(Default)]
pub(crate) struct Ignored {
    above: Option<Arc<Ignored>>,
    /// From `.ignore`, which is stronger than any `.gitignore`.
    own: Option<Gitignore>,
    git: Option<Gitignore>,
    /// What git ignores above a repository does not count in it.
    is_repository: bool,
}

impl Ignored {
    /// The rules for a folder's entries: its own and those of the folders above it, as far as the project goes.
    pub(crate) fn of(folder: &Path, project: &Path, private: &Private) -> Arc<Self> {
        let mut folders: Vec<&Path> = folder.ancestors().take_while(|above| above.starts_with(project)).collect();
        if folders.is_empty() {
            folders.push(folder);
        }
        folders.iter().rev().fold(Arc::default(), |above: Arc<Self>, folder| above.with(folder, private))
    }

    /// The same with the rules of one more folder.
    pub(crate) fn with(self: Arc<Self>, folder: &Path, private: &Private) -> Arc<Self> {
        let own = rules(folder, &[".ignore"], private);
        // The later file is the stronger one.
        let git = rules(folder, &[".git/info/exclude", ".gitignore"], private);
        let is_repository = private.find(&folder.join(".git")).is_ok();
        if own.is_none() && git.is_none() && !is_repository {
            return self;
        }
        Arc::new(Self { above: Some(self), own, git, is_repository })
    }

    pub(crate) fn leaves_out(&self, path: &Path, is_folder: bool) -> bool {
        let levels = || std::iter::successors(Some(self), |level| level.above.as_deref());
        let judge = |rules: Option<&Gitignore>| match rules.map(|rules| rules.matched(path, is_folder)) {
            Some(Match::Ignore(_)) => Some(true),
            Some(Match::Whitelist(_)) => Some(false),
            _ => None,
        };
        let by_git = || {
            for level in levels() {
                match judge(level.git.as_ref()) {
                    Some(verdict) => return Some(verdict),
                    None if level.is_repository => return None,
                    None => {}
                }
            }
            None
        };
        levels().find_map(|level| judge(level.own.as_ref())).or_else(by_git).unwrap_or(false)
    }
}

fn rules(folder: &Path, names: &[&str], private: &Private) -> Option<Gitignore> {
    let mut builder = GitignoreBuilder::new(folder);
    let mut any = false;
    for name in names {
        let path = folder.join(name);
        let Ok((file, _)) = open_regular(&path, private) else { continue };
        let mut bytes = Vec::new();
        if let Err(error) = file.take(BYTES_MAX).read_to_end(&mut bytes) {
            tracing::debug!(%error, file = %path.display(), "not read");
        }
        let text = String::from_utf8_lossy(&bytes);
        for line in text.trim_start_matches('\u{feff}').lines().take(LINES_MAX) {
            // A line that is no pattern is passed over, as git does.
            any |= builder.add_line(None, line).is_ok();
        }
    }
    any.then(|| builder.build().ok()).flatten()
}
