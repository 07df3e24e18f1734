//! Named points at which the process kills itself, switched on by `POSSE_CRASH_AT=point:n`; for the crash tests only.
//!
//! Points are `before_append`, `after_append`, `before_spawn` and `after_spawn`, and the n-th pass is the last. The seams
//! are wrapped only when the variable is set.

use std::{
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use posse_session::{
    Append, AppendError, BoxFuture, CallId, CommandLine, Hash, Log, Ownership, Process, ReadError, Record, SavedFold, Seq, SessionId,
    SpawnError, Summary, Workspace,
};

#[derive(Debug)]
pub(crate) struct CrashPoint {
    point: String,
    left: AtomicU64,
}

impl CrashPoint {
    pub(crate) fn from_env() -> Option<Arc<Self>> {
        let wanted = std::env::var("POSSE_CRASH_AT").ok()?;
        let (point, count) = wanted.split_once(':').unwrap_or((&wanted, "1"));
        Some(Arc::new(Self { point: point.to_owned(), left: AtomicU64::new(count.parse().unwrap_or(1)) }))
    }

    fn pass(&self, point: &str) {
        if self.point == point && self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    }
}

pub(crate) struct CrashingLog {
    pub(crate) log: Arc<dyn Log>,
    pub(crate) point: Arc<CrashPoint>,
}

impl Log for CrashingLog {
    fn append(&self, append: Append) -> BoxFuture<'_, Result<Seq, AppendError>> {
        Box::pin(async move {
            self.point.pass("before_append");
            let appended = self.log.append(append).await;
            self.point.pass("after_append");
            appended
        })
    }

    fn read<'a>(&'a self, session: &'a SessionId, after: Seq, limit: usize) -> BoxFuture<'a, Result<Vec<Record>, ReadError>> {
        self.log.read(session, after, limit)
    }

    fn blob<'a>(&'a self, hash: &'a Hash) -> BoxFuture<'a, Result<Arc<[u8]>, ReadError>> {
        self.log.blob(hash)
    }

    fn changed<'a>(&'a self, session: &'a SessionId, after: Seq) -> BoxFuture<'a, ()> {
        self.log.changed(session, after)
    }

    fn with_asks(&self) -> BoxFuture<'_, Result<Vec<Summary>, ReadError>> {
        self.log.with_asks()
    }

    fn summaries<'a>(&'a self, root: Option<&'a SessionId>) -> BoxFuture<'a, Result<Vec<Summary>, ReadError>> {
        self.log.summaries(root)
    }

    fn save_fold(&self, fold: SavedFold) -> BoxFuture<'_, Result<(), AppendError>> {
        self.log.save_fold(fold)
    }

    fn saved_fold<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Option<SavedFold>, ReadError>> {
        self.log.saved_fold(session)
    }

    fn remove<'a>(&'a self, owner: &'a Ownership) -> BoxFuture<'a, Result<u64, AppendError>> {
        self.log.remove(owner)
    }
}

pub(crate) struct CrashingWorkspace {
    pub(crate) workspace: Arc<dyn Workspace>,
    pub(crate) point: Arc<CrashPoint>,
}

impl Workspace for CrashingWorkspace {
    fn root(&self) -> &Path {
        self.workspace.root()
    }

    fn cwd(&self) -> &Path {
        self.workspace.cwd()
    }

    fn readable_roots(&self) -> &[PathBuf] {
        self.workspace.readable_roots()
    }

    fn own_roots(&self) -> &[PathBuf] {
        self.workspace.own_roots()
    }

    fn private_roots(&self) -> &[PathBuf] {
        self.workspace.private_roots()
    }

    fn guarded_roots(&self) -> &[PathBuf] {
        self.workspace.guarded_roots()
    }

    fn is_guarded(&self, path: &Path) -> bool {
        self.workspace.is_guarded(path)
    }

    fn root_handle(&self) -> Option<Arc<OwnedFd>> {
        self.workspace.root_handle()
    }

    fn spawn<'a>(&'a self, line: CommandLine) -> BoxFuture<'a, Result<Arc<dyn Process>, SpawnError>> {
        Box::pin(async move {
            self.point.pass("before_spawn");
            let spawned = self.workspace.spawn(line).await;
            self.point.pass("after_spawn");
            spawned
        })
    }

    fn sweep<'a>(&'a self, calls: &'a [CallId]) -> BoxFuture<'a, ()> {
        self.workspace.sweep(calls)
    }
}
