//! Forgetting who wrote what: the merges of tasks that are gone, and what else the repository keeps for them.
//!
//! Whose session is gone is for the caller to know. What has a worktree, a branch or a record here is never forgotten: its
//! work is judged by these names. Nothing here touches a file.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    git::Git,
    place::Place,
    provenance::Kept,
    refs,
    workshop::{Workshop, is_slug},
};

/// Merges that are looked through, the oldest first: what is beyond is seen by the next look.
const LOOKED_MAX: usize = 20_000;

/// Tasks that are forgotten with one command, so that no command line of git's is too long.
const FORGOTTEN_AT_ONCE: usize = 500;

/// Tasks whose merges into this working tree are kept, though nothing else of them is here.
pub(super) fn only_merged(workshop: &Workshop, home: &Place) -> Result<BTreeSet<String>, String> {
    let mut here: BTreeMap<String, bool> = BTreeMap::new();
    for kept in Kept::oldest(&home.repository(), "refs/posse/merges", LOOKED_MAX)? {
        // Another working tree of this repository may be another project, with sessions of its own.
        let is_here = kept.says("Posse-Home") == Some(&home.name());
        let all = here.entry(kept.slug().to_owned()).or_insert(true);
        *all &= is_here;
    }
    let slugs = here.into_iter().filter(|(_, is_here)| *is_here).map(|(slug, _)| slug).collect();
    without_work(workshop, home, slugs)
}

fn without_work(workshop: &Workshop, home: &Place, mut slugs: BTreeSet<String>) -> Result<BTreeSet<String>, String> {
    let needed =
        home.repository().ask_line(["for-each-ref", "--format=%(refname)", "refs/heads/posse", "refs/posse/base", "refs/posse/merging"])?;
    for slug in needed.lines().filter_map(|name| name.rsplit('/').next()) {
        slugs.remove(slug);
    }
    let recorded: BTreeSet<String> = workshop.recorded().into_iter().collect();
    slugs.retain(|slug| is_slug(slug) && !recorded.contains(slug) && workshop.folder.join(slug).symlink_metadata().is_err());
    Ok(slugs)
}

/// Forgets the merges of these tasks, as far as nothing else of them is here. Returns of how many.
pub(super) fn forget(workshop: &Workshop, home: &Place, slugs: &[String]) -> Result<usize, String> {
    let lock = home.lock()?;
    let git = home.repository();
    // Looked at again, now that nobody merges.
    let slugs: Vec<String> = without_work(workshop, home, slugs.iter().cloned().collect())?.into_iter().collect();
    let mut forgotten = BTreeSet::new();
    for some in slugs.chunks(FORGOTTEN_AT_ONCE) {
        let lines = names_of(&git, some)?;
        refs::change(&home.common, &lines.iter().map(|(_, line)| line.clone()).collect::<Vec<_>>(), &lock)?;
        forgotten.extend(lines.into_iter().map(|(slug, _)| slug));
    }
    Ok(forgotten.len())
}

/// Every name that is kept for these tasks: whose it is, and how it goes.
fn names_of(git: &Git<'_>, slugs: &[String]) -> Result<Vec<(String, String)>, String> {
    let below = slugs.iter().flat_map(|slug| [refs::merges(slug), refs::merged_name(slug), format!("refs/posse/onto/{slug}")]);
    let arguments = ["for-each-ref", "--format=%(refname) %(objectname)"].map(str::to_owned).into_iter().chain(below);
    let said = git.ask_line(arguments)?;
    // Only as it was when it was looked at.
    let line = |line: &str| {
        let (name, commit) = line.split_once(' ')?;
        Some((name.split('/').nth(3)?.to_owned(), format!("delete {name} {commit}")))
    };
    Ok(said.lines().filter_map(line).collect())
}
