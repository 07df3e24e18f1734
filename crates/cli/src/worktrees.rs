//! Folders of their own for tasks, as the engine asks for them: worktrees of git, or what the user's own command makes.
//!
//! Git is run by `tools`, on threads that may block, and the user's command below the keeper. What that makes is used and
//! never removed: nobody but the user knows what is in it.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use posse_config::{Places, WorktreeSettings};
use posse_session::{Isolation, Left, SessionId, Worktree};
use posse_tools::{Keeper, Making, Order, Worktrees};

/// A command of the user's that takes longer makes nothing.
const CREATE_MAX: Duration = Duration::from_secs(600);

/// How long a task that has ended may still hold its folder.
const LET_GO_MAX: Duration = Duration::from_secs(5);
const LET_GO_NAP: Duration = Duration::from_millis(10);

#[derive(Clone)]
pub(crate) struct Yard {
    worktrees: Arc<Worktrees>,
    settings: WorktreeSettings,
    keeper: Arc<Keeper>,
}

impl Yard {
    pub(crate) fn new(places: &Places, settings: &WorktreeSettings, keeper: &Arc<Keeper>) -> Self {
        Self { worktrees: Arc::new(worktrees(places)), settings: settings.clone(), keeper: keeper.clone() }
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
            let order = Order { command, task: task.as_str(), home: directory, time: CREATE_MAX };
            return self.worktrees.order(&self.keeper, &order).await;
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

    /// What it lacks, in words for whoever works in it.
    pub(crate) fn lacks(&self, worktree: &Worktree) -> Option<String> {
        let lacks = self.worktrees.notes(worktree);
        (!lacks.is_empty()).then(|| format!("Of this worktree you should know: {}.", lacks.join("; ")))
    }

    pub(crate) async fn look(&self, worktree: &Worktree) -> Left {
        let unknown =
            |words: String| Left { path: worktree.path.clone(), branch: worktree.branch.clone(), unknown: words, ..Left::default() };
        if worktree.is_foreign() {
            // Its task has begun and says itself where it is. A note that stays is listed by `doctor`.
            let path = worktree.path.clone();
            let _ = self.at_work(move |worktrees| worktrees.forget_orders_of(Path::new(&path))).await;
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
}

/// The worktrees of this project.
pub(crate) fn worktrees(places: &Places) -> Worktrees {
    Worktrees::new(places.worktrees_dir())
}
