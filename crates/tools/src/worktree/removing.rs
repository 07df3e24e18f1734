//! Removing: the folder, what the repository keeps for it, its refs, and last its record.
//!
//! Each step can be done again, so a killed removal is gone on with. The folder goes in one rename and is emptied where
//! nobody works; links in it are removed as links. No step asks anything of what is in the folder.

use std::{
    fs,
    io::{self, ErrorKind},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use super::{
    locks::Lock,
    opened::Opened,
    place, refs,
    workshop::{State, Workshop, names_in, unique},
};

/// Which branch may go.
#[derive(Debug, Clone)]
pub(super) enum Branch {
    /// Only one that is still at this commit.
    At(String),
    /// With everything that is on it now.
    Whatever,
}

pub(super) fn remove(workshop: &Workshop, opened: &Opened, branch: Branch) -> Result<(), String> {
    let commit = match branch {
        Branch::At(commit) => commit,
        Branch::Whatever => refs::value(&opened.common, &refs::branch(&opened.slug))?.unwrap_or_else(|| opened.tree.base.clone()),
    };
    if let Some(record) = &opened.record {
        let mut record = record.clone();
        // Whoever finds it half removed goes on with this removal and not with another.
        (record.state, record.removal) = (State::Removing, Some(commit.clone()));
        workshop.remember(&opened.slug, &record)?;
    }
    remove_folders(workshop, opened)?;
    let lock = place::lock_of(&opened.common)?;
    workshop.step();
    remove_refs(opened, &commit, &lock)?;
    workshop.step();
    workshop.forget(&opened.slug);
    Ok(())
}

/// The branch is ours only if the other ref is there: they are made together.
fn remove_refs(opened: &Opened, commit: &str, lock: &Lock) -> Result<(), String> {
    let slug = &opened.slug;
    // A person may have checked it out to look at it.
    let is_free = !is_checked_out(&opened.common, slug);
    let base = format!("delete {} {}", refs::base(slug), opened.tree.base);
    if is_free && refs::change(&opened.common, &[base, format!("delete {} {commit}", refs::branch(slug))], lock).is_ok() {
        return Ok(());
    }
    // Something is not as it usually is.
    let Some(base) = refs::value(&opened.common, &refs::base(slug))? else { return Ok(()) };
    let mut lines = vec![format!("delete {} {base}", refs::base(slug))];
    let tip = refs::value(&opened.common, &refs::branch(slug))?.filter(|tip| is_free && tip == commit);
    lines.extend(tip.map(|tip| format!("delete {} {tip}", refs::branch(slug))));
    refs::change(&opened.common, &lines, lock)
}

/// The folder and the repository's own folder for it; refs and record stay.
pub(super) fn remove_folders(workshop: &Workshop, opened: &Opened) -> Result<(), String> {
    let top = Path::new(&opened.tree.path);
    let admin = place::admin_of(&opened.common, top, &opened.slug);
    workshop.step();
    take_away(workshop, top)?;
    workshop.step();
    let _lock = place::lock_of(&opened.common)?;
    if let Some(admin) = admin {
        remove_tree(&admin).map_err(|error| format!("{} cannot be removed: {error}", admin.display()))?;
        // As git does; it fails while there are others.
        let _ = fs::remove_dir(opened.common.join("worktrees"));
    }
    Ok(())
}

/// Nobody finds it any more, at once; then it is emptied. A link is removed as a link.
fn take_away(workshop: &Workshop, top: &Path) -> Result<(), String> {
    let failed = |error: io::Error| format!("{} cannot be removed: {error}", top.display());
    let name = top.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let gone = workshop.gone_folder().join(unique(&name));
    match fs::rename(top, &gone) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    workshop.step();
    let of_this = |path: &PathBuf| path.file_name().is_some_and(|gone| gone.to_string_lossy().starts_with(&format!("{name}-")));
    for gone in half_gone(workshop).iter().filter(|path| of_this(path)) {
        remove_tree(gone).map_err(failed)?;
    }
    Ok(())
}

/// What removals that were killed have left to be emptied.
pub(super) fn half_gone(workshop: &Workshop) -> Vec<PathBuf> {
    names_in(&workshop.gone_folder()).into_iter().map(|name| workshop.gone_folder().join(name)).collect()
}

/// The standard library walks by handles and follows no link.
pub(super) fn remove_tree(path: &Path) -> io::Result<()> {
    let remove = || match path.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match remove() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            // Caches of some toolchains are made read-only.
            open_up(path);
            remove()
        }
        removed => removed,
    }
}

fn open_up(folder: &Path) {
    if !folder.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return;
    }
    let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        open_up(&entry.path());
    }
}

/// Whether another working tree has the task's branch.
fn is_checked_out(common: &Path, slug: &str) -> bool {
    let wanted = format!("ref: {}\n", refs::branch(slug));
    let heads = names_in(&common.join("worktrees")).into_iter().map(|name| common.join("worktrees").join(name).join("HEAD"));
    std::iter::once(common.join("HEAD")).chain(heads).any(|head| fs::read_to_string(head).is_ok_and(|text| text == wanted))
}
