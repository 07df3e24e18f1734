//! What `doctor` says of worktrees: those that hold work, and what killed commands have left; `--clean` removes the latter.
//!
//! What belongs to a task that is still open is never touched, and nothing in which there is work is ever removed here.

use std::{collections::HashMap, path::Path, sync::Arc};

use posse_api::Client as _;
use posse_config::Places;
use posse_session::Summary;
use posse_tools::{Leftover, LeftoverKind, Presence, Worktrees};

use super::{Finding, Health};
use crate::{asks, tasks::home::telling, worktrees::worktrees};

const WHAT: &str = "worktrees";

/// So many are named one by one.
const NAMED_MAX: usize = 20;

/// Tasks that one cleaning forgets: a second or two of git's time.
const FORGOTTEN_MAX: usize = 5_000;

pub(super) async fn findings(places: &Places, clean: bool) -> Vec<Finding> {
    let folder = places.worktrees_dir();
    // Who has never had one is not told of them.
    if !folder.exists() {
        return Vec::new();
    }
    let has_git = places.project.join(".git").exists();
    // Without knowing which tasks go on, nothing is touched.
    let Some(tasks) = tasks(places).await else {
        return vec![Finding::new(WHAT, Health::Bad, "which tasks there are could not be read, so nothing is said of their worktrees")];
    };
    let (yard, home) = (worktrees(places), places.project.clone());
    // Whoever finishes a merge tells of it.
    let yard = match asks::client(places) {
        Ok(Some(client)) if clean => telling(yard, &Arc::new(client)),
        _ => yard,
    };
    let looked = tokio::task::spawn_blocking(move || look(&yard, &home, has_git, &tasks, clean)).await;
    let mut findings = match looked {
        Ok(Ok(findings)) => findings,
        Ok(Err(words)) => vec![Finding::new(WHAT, Health::Bad, words)],
        Err(error) => vec![Finding::new(WHAT, Health::Bad, error.to_string())],
    };
    if findings.is_empty() && has_git {
        findings.push(Finding::new(WHAT, Health::Good, format!("nothing is left over in {}", folder.display())));
    }
    findings
}

/// The tasks of this project, by what their worktrees are called.
async fn tasks(places: &Places) -> Option<HashMap<String, Summary>> {
    let all = match asks::client(places).ok()? {
        Some(client) => client.sessions().await.ok()?,
        None => Vec::new(),
    };
    Some(all.into_iter().map(|task| (Worktrees::slug(task.session.as_str()), task)).collect())
}

fn look(yard: &Worktrees, home: &Path, has_git: bool, tasks: &HashMap<String, Summary>, clean: bool) -> Result<Vec<Finding>, String> {
    // A command of the user's makes folders also where there is no repository.
    let of_git = if has_git { yard.leftovers(home)? } else { Vec::new() };
    let mut leftovers: Vec<(Leftover, Standing)> = of_git
        .into_iter()
        .chain(yard.orders()?)
        .map(|leftover| (standing(&leftover, tasks), leftover))
        .map(|(stands, leftover)| (leftover, stands))
        .collect();
    leftovers.retain(|(_, stands)| !matches!(stands, Standing::InUse));
    let count = leftovers.len();
    let mut findings = Vec::new();
    for (leftover, stands) in leftovers.iter().take(if clean { count } else { NAMED_MAX }) {
        findings.push(match stands {
            Standing::InUse => continue,
            Standing::Work(words) => Finding::new(WHAT, Health::Note, words.clone()),
            Standing::Waste if clean => match cleaned(yard, home, leftover) {
                Ok(notes) => {
                    let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) };
                    Finding::new(WHAT, Health::Good, format!("cleaned: {}{notes}", leftover.place))
                }
                Err(words) => Finding::new(WHAT, Health::Bad, format!("{}: {words}", leftover.place)),
            },
            Standing::Waste => {
                Finding::new(WHAT, Health::Note, format!("{}: {}; `posse doctor --clean` sees to it", leftover.place, leftover.why))
            }
        });
    }
    if !clean && NAMED_MAX < count {
        let more = count - NAMED_MAX;
        findings.push(Finding::new(WHAT, Health::Note, format!("and {more} more; clean these first")));
    }
    findings.extend(if has_git { forgotten(yard, home, tasks, clean)? } else { None });
    Ok(findings)
}

/// Who wrote what is kept as long as the session of the task is.
fn forgotten(yard: &Worktrees, home: &Path, tasks: &HashMap<String, Summary>, clean: bool) -> Result<Option<Finding>, String> {
    // No session at all is more likely another data folder than that all were removed.
    if tasks.is_empty() {
        return Ok(None);
    }
    let mut gone: Vec<String> = yard.only_merged(home)?.into_iter().filter(|slug| !tasks.contains_key(slug)).collect();
    let kept = "which of them wrote what is kept below refs/posse/merges";
    let tasks = |count: usize| format!("{count} {} whose session is gone", if count == 1 { "task" } else { "tasks" });
    Ok(match gone.len() {
        0 => None,
        count if clean => {
            gone.truncate(FORGOTTEN_MAX);
            let (forgotten, left) = (yard.forget_merges(home, &gone)?, count - gone.len());
            let more = if left == 0 { String::new() } else { format!("; {left} more are left to the next `posse doctor --clean`") };
            Some(Finding::new(WHAT, Health::Good, format!("forgotten: what {} wrote{more}", tasks(forgotten))))
        }
        count => Some(Finding::new(WHAT, Health::Note, format!("{}: {kept}; `posse doctor --clean` forgets it", tasks(count)))),
    })
}

fn cleaned(yard: &Worktrees, home: &Path, leftover: &Leftover) -> Result<Vec<String>, String> {
    if leftover.kind == LeftoverKind::Order {
        return yard.forget_order(&leftover.slug).map(|()| Vec::new());
    }
    let _alone = at_rest(yard, leftover)?;
    yard.clean(home, leftover)
}

/// A task may have begun since the list was made.
fn at_rest(yard: &Worktrees, leftover: &Leftover) -> Result<Option<Presence>, String> {
    yard.find(&leftover.slug)?.map(|worktree| yard.alone(&worktree)).transpose()
}

enum Standing {
    /// Its task goes on, or may.
    InUse,
    Work(String),
    Waste,
}

fn standing(leftover: &Leftover, tasks: &HashMap<String, Summary>) -> Standing {
    let task = tasks.get(&leftover.slug);
    if task.is_some_and(|task| !task.is_over()) && leftover.kind != LeftoverKind::Merge {
        return Standing::InUse;
    }
    // Whoever has begun says itself where it works: the order is not needed any more.
    if leftover.cleanable || (leftover.kind == LeftoverKind::Order && task.is_some()) {
        return Standing::Waste;
    }
    let id = task.map_or(leftover.slug.as_str(), |task| task.session.as_str());
    let way = match (leftover.kind, task) {
        (LeftoverKind::Worktree, Some(_)) => {
            format!("; `posse tasks diff {id}`, then `posse tasks merge {id}` or `posse tasks discard {id}`")
        }
        // Without its session only git knows of it.
        (LeftoverKind::Worktree, None) if leftover.left.is_some() => format!(
            "; its session is gone, so look with `git -C {place} diff`, commit there what is worth it and merge the branch posse/{id}, then `git worktree remove --force {place}` and `git branch -D posse/{id}`",
            place = leftover.place
        ),
        _ => String::new(),
    };
    Standing::Work(format!("{}: {}{way}", leftover.place, leftover.why))
}
