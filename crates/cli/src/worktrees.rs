//! Folders of their own for tasks, as the engine asks for them: worktrees of git, or what the user's own command makes.
//!
//! Git is run by `tools`, on threads that may block. What the user's command makes is used and never removed: nobody but
//! the user knows what is in it.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use posse_config::{Places, WorktreeSettings};
use posse_session::{Isolation, Left, SessionId, Worktree};
use posse_tools::{Making, Worktrees};

/// A command of the user's that takes longer makes nothing.
const CREATE_MAX: Duration = Duration::from_secs(600);

/// How long a task that has ended may still hold its folder.
const LET_GO_MAX: Duration = Duration::from_secs(5);
const LET_GO_NAP: Duration = Duration::from_millis(10);

#[derive(Clone)]
pub(crate) struct Yard {
    worktrees: Arc<Worktrees>,
    settings: WorktreeSettings,
}

impl Yard {
    pub(crate) fn new(places: &Places, settings: &WorktreeSettings) -> Self {
        Self { worktrees: Arc::new(worktrees(places)), settings: settings.clone() }
    }

    pub(crate) fn worktrees(&self) -> &Arc<Worktrees> {
        &self.worktrees
    }

    pub(crate) async fn make(
        &self,
        task: &SessionId,
        directory: &str,
        isolation: Isolation,
        title: &str,
    ) -> Result<(Worktree, String), String> {
        if let Some(command) = &self.settings.create {
            return self.ordered(command, task, directory).await;
        }
        let changes = self.settings.changes || isolation == Isolation::WorktreeWithChanges;
        let (from, slug, title) = (directory.to_owned(), Worktrees::slug(task.as_str()), title.to_owned());
        self.at_work(move |worktrees| {
            let made = worktrees.make(&Making { from: Path::new(&from), slug: &slug, changes, title: &title });
            made.map(|(worktree, folder)| (worktree, folder.display().to_string()))
        })
        .await
        .and_then(|made| made)
    }

    /// It is there, and nobody takes it away as long as what comes back lives.
    pub(crate) async fn ensure(&self, worktree: &Worktree) -> Result<Box<dyn Send + Sync>, String> {
        if worktree.is_foreign() {
            let there = Path::new(&worktree.path).is_dir();
            return if there {
                Ok(Box::new(()))
            } else {
                Err(format!("its folder {} is gone; make it again, or discard the task", worktree.path))
            };
        }
        let worktree = worktree.clone();
        let ensured = self.at_work(move |worktrees| {
            let presence = worktrees.enter(&worktree)?;
            worktrees.ensure(&worktree)?;
            Ok(Box::new(presence) as Box<dyn Send + Sync>)
        });
        ensured.await.and_then(|done| done)
    }

    pub(crate) async fn look(&self, worktree: &Worktree) -> Left {
        let unknown =
            |words: String| Left { path: worktree.path.clone(), branch: worktree.branch.clone(), unknown: words, ..Left::default() };
        if worktree.is_foreign() {
            return unknown("It was made by the `worktree.create` command, so nobody can tell what was changed in it".into());
        }
        let tree = worktree.clone();
        self.at_work(move |worktrees| worktrees.look(&tree)).await.unwrap_or_else(unknown)
    }

    pub(crate) async fn release(&self, worktree: &Worktree) -> Result<bool, String> {
        let worktree = worktree.clone();
        let released = self.at_work(move |worktrees| {
            if worktree.is_foreign() {
                return Ok(false);
            }
            // Its task has ended, and may not have let go yet.
            let until = Instant::now() + LET_GO_MAX;
            let alone = loop {
                match worktrees.alone(&worktree) {
                    Err(_) if Instant::now() < until => std::thread::sleep(LET_GO_NAP),
                    alone => break alone?,
                }
            };
            let removed = worktrees.release(&worktree)?;
            if removed {
                alone.retire();
            }
            Ok(removed)
        });
        released.await.and_then(|done| done)
    }

    async fn at_work<T: Send + 'static>(&self, work: impl FnOnce(&Worktrees) -> T + Send + 'static) -> Result<T, String> {
        let worktrees = self.worktrees.clone();
        tokio::task::spawn_blocking(move || work(&worktrees)).await.map_err(|error| format!("the worktree could not be seen to: {error}"))
    }

    /// A folder made by the user's own command, which prints its path in its last line.
    async fn ordered(&self, command: &str, task: &SessionId, directory: &str) -> Result<(Worktree, String), String> {
        let mut line = tokio::process::Command::new("sh");
        line.args(["-c", command]).current_dir(directory).env("POSSE_TASK", task.as_str()).kill_on_drop(true);
        line.stdin(std::process::Stdio::null());
        let failed = |words: String| format!("The `worktree.create` command made no folder: {words}.");
        let done = tokio::time::timeout(CREATE_MAX, line.output()).await.map_err(|_| failed("it took longer than 10 minutes".into()))?;
        let done = done.map_err(|error| failed(error.to_string()))?;
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            return Err(failed(format!("{} {}", done.status, posse_session::clip(said.trim().to_owned(), 500))));
        }
        let said = String::from_utf8_lossy(&done.stdout);
        let path = said.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        let folder = Path::new(directory).join(path).canonicalize().ok().filter(|folder| folder.is_dir() && !path.is_empty());
        let Some(folder) = folder else { return Err(failed(format!("its last line must be a folder, and was `{path}`"))) };
        let path = folder.display().to_string();
        let worktree = Worktree { home: directory.to_owned(), path: path.clone(), branch: String::new(), base: String::new() };
        Ok((worktree, path))
    }
}

/// The worktrees of this project.
pub(crate) fn worktrees(places: &Places) -> Worktrees {
    Worktrees::new(places.worktrees_dir())
}
