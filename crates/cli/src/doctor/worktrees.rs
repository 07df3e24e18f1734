//! What `doctor` says of worktrees: those that hold work, and what killed commands have left; `--clean` removes the latter.
//!
//! What belongs to a task that is still open is never touched, and nothing in which there is work is ever removed here.

use std::{collections::HashMap, path::Path};

use posse_api::Client as _;
use posse_config::Places;
use posse_session::Summary;
use posse_tools::{Leftover, LeftoverKind, Presence, Worktrees};

use super::{Finding, Health};
use crate::{asks, worktrees::worktrees};

const WHAT: &str = "worktrees";

/// So many are named one by one.
const NAMED_MAX: usize = 20;

pub(super) async fn findings(places: &Places, clean: bool) -> Vec<Finding> {
    let folder = places.worktrees_dir();
    // Who has never had one is not told of them.
    if !folder.exists() || !places.project.join(".git").exists() {
        return Vec::new();
    }
    // Without knowing which tasks go on, nothing is touched.
    let Some(tasks) = tasks(places).await else {
        return vec![Finding::new(WHAT, Health::Bad, "which tasks there are could not be read, so nothing is said of their worktrees")];
    };
    let (yard, home) = (worktrees(places), places.project.clone());
    let looked = tokio::task::spawn_blocking(move || look(&yard, &home, &tasks, clean)).await;
    let mut findings = match looked {
        Ok(Ok(findings)) => findings,
        Ok(Err(words)) => vec![Finding::new(WHAT, Health::Bad, words)],
        Err(error) => vec![Finding::new(WHAT, Health::Bad, error.to_string())],
    };
    if findings.is_empty() {
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

fn look(yard: &Worktrees, home: &Path, tasks: &HashMap<String, Summary>, clean: bool) -> Result<Vec<Finding>, String> {
    let mut leftovers: Vec<(Leftover, Standing)> = yard
        .leftovers(home)?
        .into_iter()
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
            Standing::Waste if clean => match at_rest(yard, leftover).and_then(|_alone| yard.clean(home, leftover)) {
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
    Ok(findings)
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
    if leftover.cleanable {
        return Standing::Waste;
    }
    let id = task.map_or(leftover.slug.as_str(), |task| task.session.as_str());
    let way = match (leftover.kind, task) {
        (LeftoverKind::Worktree, Some(_)) => {
            format!("; `posse tasks diff {id}`, then `posse tasks merge {id}` or `posse tasks discard {id}`")
        }
        _ => String::new(),
    };
    Standing::Work(format!("{}: {}{way}", leftover.place, leftover.why))
}
