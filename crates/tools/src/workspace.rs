//! The local workspace: a folder on this machine, with processes below the keeper.
//!
//! Holds no rules: whether a path outside the root may be touched is decided by whoever judges the look.

use std::{
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
};

use posse_session::{BoxFuture, CallId, CommandLine, Process, SpawnError, Workspace};

use crate::{keeper::Keeper, process_table, root::Root};

pub struct LocalWorkspace {
    root: Root,
    cwd: PathBuf,
    keeper: Arc<Keeper>,
    readable_roots: Vec<PathBuf>,
    private_roots: Vec<PathBuf>,
    guarded_roots: Vec<PathBuf>,
    ground: Option<PathBuf>,
    own_roots: Vec<PathBuf>,
}

impl LocalWorkspace {
    /// `cwd` must be `root` or below it; both must exist.
    pub fn new(root: impl AsRef<Path>, cwd: impl AsRef<Path>, keeper: Arc<Keeper>) -> io::Result<Self> {
        let (root, cwd) = (root.as_ref().canonicalize()?, cwd.as_ref().canonicalize()?);
        if !cwd.starts_with(&root) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{} is not below {}", cwd.display(), root.display())));
        }
        if !cwd.is_dir() {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, format!("{} is not a folder", cwd.display())));
        }
        // Opened once: whatever is put in its place later is another folder.
        let root = Root::open(&root)?;
        Ok(Self {
            root,
            cwd,
            keeper,
            readable_roots: Vec::new(),
            private_roots: Vec::new(),
            guarded_roots: Vec::new(),
            ground: None,
            own_roots: Vec::new(),
        })
    }

    /// Folders outside the root that may be read without asking: the spool, skills. They may not exist yet.
    pub fn with_readable_roots(mut self, roots: impl IntoIterator<Item = PathBuf>) -> Self {
        // A folder behind a loop of links does not exist, so there is nothing to open for reading.
        self.readable_roots = roots.into_iter().filter_map(|root| crate::paths::real(&root).ok()).collect();
        self
    }

    /// Folders that are the agent's own: read and written without asking. They may not exist yet.
    pub fn with_own_roots(mut self, roots: impl IntoIterator<Item = PathBuf>) -> Self {
        self.own_roots = roots.into_iter().filter_map(|root| crate::paths::real(&root).ok()).collect();
        self
    }

    /// Folders that only a person lets an agent write to.
    pub fn with_guarded_roots(mut self, roots: impl IntoIterator<Item = PathBuf>) -> Self {
        self.guarded_roots = roots.into_iter().map(|root| crate::paths::real(&root).unwrap_or(root)).collect();
        self
    }

    /// A folder that is the agent's own though it lies below one that is guarded.
    pub fn with_ground(mut self, ground: Option<PathBuf>) -> Self {
        self.ground = ground.map(|ground| crate::paths::real(&ground).unwrap_or(ground));
        self
    }

    /// Folders that no tool may open inside this process, except readable roots in them: where posse's databases are.
    pub fn with_private_roots(mut self, roots: impl IntoIterator<Item = PathBuf>) -> Self {
        self.private_roots = roots.into_iter().map(|root| crate::paths::real(&root).unwrap_or(root)).collect();
        self
    }
}

impl Workspace for LocalWorkspace {
    fn root(&self) -> &Path {
        self.root.path()
    }

    fn root_handle(&self) -> Option<Arc<OwnedFd>> {
        Some(self.root.handle())
    }

    fn cwd(&self) -> &Path {
        &self.cwd
    }

    fn readable_roots(&self) -> &[PathBuf] {
        &self.readable_roots
    }

    fn own_roots(&self) -> &[PathBuf] {
        &self.own_roots
    }

    fn private_roots(&self) -> &[PathBuf] {
        &self.private_roots
    }

    fn guarded_roots(&self) -> &[PathBuf] {
        &self.guarded_roots
    }

    fn is_guarded(&self, path: &Path) -> bool {
        let is_own = self.ground.as_ref().is_some_and(|ground| path.starts_with(ground));
        !is_own && self.guarded_roots.iter().any(|root| path.starts_with(root))
    }

    fn spawn<'a>(&'a self, line: CommandLine) -> BoxFuture<'a, Result<Arc<dyn Process>, SpawnError>> {
        Box::pin(self.keeper.spawn(line))
    }

    fn sweep<'a>(&'a self, calls: &'a [CallId]) -> BoxFuture<'a, ()> {
        let calls = calls.to_vec();
        Box::pin(async move {
            if !calls.is_empty()
                && let Err(error) = tokio::task::spawn_blocking(move || process_table::sweep(&calls)).await
            {
                tracing::warn!(%error, "the sweep did not finish");
            }
        })
    }
}
