//! What an agent can do by itself: eight built-in tools, the folder they act in, and the keeper of their processes.
//!
//! Nothing here asks for permission or knows the loop. A tool says what it would touch (`look`), and when it runs it is
//! allowed to. Every process starts below the keeper (`keeper/`), so none outlives posse. Words in here are for the model.

mod arguments;
mod bash;
mod blocking;
mod edit;
mod environment;
mod files;
mod glob;
mod grep;
mod ignored;
mod judged;
mod keeper;
mod list;
mod paths;
mod private;
mod process_table;
mod read;
mod shell;
mod text;
mod todowrite;
mod walk;
mod workspace;
mod write;

use std::sync::Arc;

pub use environment::child_env;
pub use keeper::{Keeper, keeper_main};
use posse_session::Tool;
pub use process_table::sweep;
pub use shell::{ShellVerdict, Surroundings, judge_shell};
pub use text::{Capped, cap, cap_to_spool, clean};
pub use workspace::LocalWorkspace;

/// The `bash` tool with another bound for the memory one command and all it starts may take: small machines, tests.
pub fn bash_with_memory_max(bytes: u64) -> Arc<dyn Tool> {
    Arc::new(bash::Bash::with_memory_max(bytes))
}

/// The `bash` tool with another bound for what one command may print: small disks, tests.
pub fn bash_with_spool_max(bytes: u64) -> Arc<dyn Tool> {
    Arc::new(bash::Bash::with_spool_max(bytes))
}

/// The built-in tools, sorted by name so that the head of a request never changes by chance.
pub fn builtin() -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(bash::Bash::new()),
        Arc::new(edit::Edit::new()),
        Arc::new(glob::Glob::new()),
        Arc::new(grep::Grep::new()),
        Arc::new(list::List::new()),
        Arc::new(read::Read::new()),
        Arc::new(todowrite::TodoWrite::new()),
        Arc::new(write::Write::new()),
    ]
}
