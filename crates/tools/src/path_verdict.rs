//! What the tools would say of a path, without touching anything: for `posse rules` and its tests.
//!
//! Not a second opinion: the path is resolved, refused and called protected by the code that the tools use. A folder of
//! the user's that is open for reading (the spool, skills) is not known here.

use std::{
    fmt, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
};

use posse_session::{BoxFuture, CallId, CommandLine, Process, SpawnError, Workspace};

use crate::{
    paths::{Place, absolute},
    root::Root,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathOp {
    Read,
    Write,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whereabouts {
    /// In the project: the rules for reading and writing decide.
    Inside,
    /// Elsewhere: `external_directory` decides, and it asks.
    Outside,
    /// No tool does this, or, for a protected file, none does it on the word of an ordinary rule.
    Refuse,
}

impl fmt::Display for Whereabouts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Inside => "inside",
            Self::Outside => "outside",
            Self::Refuse => "refuse",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathVerdict {
    pub verdict: Whereabouts,
    /// One sentence.
    pub why: String,
    /// Where the path leads through all its links; as it was spelled when that cannot be told.
    pub real: PathBuf,
}

/// What the file tools make of a path in a project.
pub fn judge_path(root: &Path, path: &str, op: PathOp) -> PathVerdict {
    match Bare::open(root) {
        Ok(workspace) => judge(&workspace, path, op).0,
        Err(error) => PathVerdict {
            verdict: Whereabouts::Refuse,
            why: format!("The project's folder {} cannot be opened: {error}.", root.display()),
            real: root.join(path),
        },
    }
}

/// The same with the place itself, where there is one.
pub(crate) fn judge(workspace: &dyn Workspace, path: &str, op: PathOp) -> (PathVerdict, Option<Place>) {
    let place = match Place::of(workspace, path) {
        Ok(place) => place,
        Err(why) => return (PathVerdict { verdict: Whereabouts::Refuse, why, real: absolute(workspace.cwd(), path) }, None),
    };
    let (unwritable, protected) = match op {
        PathOp::Read => (None, Vec::new()),
        PathOp::Write => (place.writable().err(), place.protected()),
    };
    let (verdict, why) = if let Some(why) = unwritable {
        (Whereabouts::Refuse, why)
    } else if !place.is_inside() {
        (Whereabouts::Outside, format!("{} is outside the project.", place.name))
    } else if !protected.is_empty() {
        (Whereabouts::Refuse, format!("{} is protected: writing it needs a consent of its own.", protected.join(", ")))
    } else {
        (Whereabouts::Inside, format!("{} is in the project.", place.name))
    };
    (PathVerdict { verdict, why, real: place.real.clone() }, Some(place))
}

/// A folder and nothing else: no processes, nothing of the user's.
pub(crate) struct Bare(Root);

impl Bare {
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        Root::open(&root.canonicalize()?).map(Self)
    }
}

impl Workspace for Bare {
    fn root(&self) -> &Path {
        self.0.path()
    }

    fn cwd(&self) -> &Path {
        self.0.path()
    }

    fn root_handle(&self) -> Option<Arc<OwnedFd>> {
        Some(self.0.handle())
    }

    fn spawn<'a>(&'a self, _: CommandLine) -> BoxFuture<'a, Result<Arc<dyn Process>, SpawnError>> {
        Box::pin(async { Err(SpawnError { words: "no processes start here".into() }) })
    }

    fn sweep<'a>(&'a self, _: &'a [CallId]) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }
}
