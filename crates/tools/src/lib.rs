//! What an agent can do by itself: the built-in tools, the folder they act in, and the keeper of their processes.
//!
//! Nothing here asks for permission or knows the loop. A tool says what it would touch (`look`), and when it runs it is
//! allowed to. Every process starts below the keeper (`keeper/`), so none outlives posse. Words in here are for the model.

mod apply_patch;
mod arguments;
mod bash;
mod bash_output;
mod blocking;
mod change;
mod charset;
mod delegate;
mod edit;
mod environment;
mod files;
mod glob;
mod grep;
mod ignored;
mod judged;
mod keeper;
mod kill_shell;
mod list;
mod multi_edit;
mod path_cases;
mod path_verdict;
mod paths;
mod private;
mod process_table;
mod protected;
mod question;
mod read;
mod restore;
mod root;
mod shell;
mod shell_line;
mod shells;
mod skill;
mod temporary;
mod text;
mod todoread;
mod todowrite;
mod walk;
mod webfetch;
mod workspace;
mod worktree;
mod write;

use std::sync::Arc;

pub use delegate::{Callable, Delegation, Dialect, FORK_DESCRIPTION, Standing, Switches, merger, messengers};
pub use environment::child_env;
pub use keeper::{Keeper, keeper_main};
pub use path_cases::test_path_case;
pub use path_verdict::{PathOp, PathVerdict, Whereabouts, judge_path};
use posse_session::Tool;
pub use process_table::sweep;
pub use restore::{RecordedFile, content_hash, reversed};
pub use shell::{Files, ShellVerdict, Surroundings, judge_shell};
pub use shells::Shells;
pub use skill::{FindSkill, FoundSkill, SkillTool};
pub use text::{Capped, cap, cap_to_spool, clean};
pub use workspace::LocalWorkspace;
pub use worktree::{
    After, Conflict, ConflictKind, Diff, DiffFile, FileStatus, Hunk, Leftover, LeftoverKind, Making, MergeError, Merged, MergedFile, Onto,
    Order, Presence, Provenance, Worktrees, Written,
};

/// The built-in tools, sorted by name so that the head of a request never changes by chance.
pub fn builtin() -> Vec<Arc<dyn Tool>> {
    builtin_with(&Arc::default())
}

/// The same, with background shells that the caller can ask about, or with other bounds for them.
pub fn builtin_with(shells: &Arc<Shells>) -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(apply_patch::ApplyPatch::new()),
        Arc::new(bash::Bash::new(shells)),
        Arc::new(bash_output::BashOutput::new(shells)),
        Arc::new(edit::Edit::new()),
        Arc::new(glob::Glob::new()),
        Arc::new(grep::Grep::new()),
        Arc::new(kill_shell::KillShell::new(shells)),
        Arc::new(list::List::new()),
        Arc::new(multi_edit::MultiEdit::new()),
        Arc::new(question::Ask::new()),
        Arc::new(read::Read::new()),
        Arc::new(todoread::TodoRead::new()),
        Arc::new(todowrite::TodoWrite::new()),
        Arc::new(webfetch::WebFetch::new()),
        Arc::new(write::Write::new()),
    ]
}
