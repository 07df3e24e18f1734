//! The configuration of a run, as one value.
//!
//! Everything is checked; what was not said is built-in. How it is read is `load.rs`, how it is shown is `show.rs`, and
//! which model it means is `model.rs`. What of it holds for one agent is `round.rs`.

use std::{fmt, path::PathBuf, time::Duration};

use posse_session::{Agent, Forks, Rule};
use serde_json::Value;

use crate::{
    keys::Kept,
    layer::Family,
    mode::PermissionMode,
    origin::{Ignored, Origin, Problem, Sourced},
    permission::{LayerRules, Rulebook, rulebook},
    provider::Provider,
    shelf::Level,
    tree::Node,
    trust::{Folder, Part, Trust},
    wish::Wishes,
};

/// What the command line says; above every file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    /// `--model`.
    pub model: Option<String>,
    /// `--allow`, `--deny`, `--ask`, in the order given; see [`crate::parse_rule_flag`].
    pub rules: Vec<Rule>,
    /// `--permission-mode`.
    pub permission_mode: Option<PermissionMode>,
    /// `--trust`: this folder's files are believed as the user's own, for this once.
    pub trust: bool,
}

/// When a long conversation is made shorter by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compaction {
    /// Before it would not fit, and after a provider has said so.
    pub auto: bool,
    /// What calls printed long ago is left out where that is enough.
    pub prune: bool,
}

/// What is done beside conversations, each for the price of model calls: off until somebody switches it on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InternalSettings {
    /// What is worth knowing later is noted, and the notes are shown to later sessions.
    pub memory: bool,
    /// The notes are put in order now and then.
    pub consolidate: bool,
    /// What the user may want to say next.
    pub suggest: bool,
    /// What the answer to that would be.
    pub speculate: bool,
    /// How often it is said what a task in the background is doing.
    pub summaries: Option<Duration>,
    /// Who does all this, if not the session's own model.
    pub model: Option<String>,
}

/// How folders of their own are made for tasks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorktreeSettings {
    /// Every worktree begins with what its caller has not committed yet.
    pub changes: bool,
    /// The user's own command that makes such a folder and prints its path.
    pub create: Option<String>,
}

/// The model that the files name below a `--model`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Below {
    pub(crate) model: Option<Sourced<String>>,
}

#[derive(Debug, Clone)]
pub struct Config {
    /// The user's own; a project's word is added by [`Config::with_project_models`].
    pub model: Option<Sourced<String>>,
    /// Where `--model` is given: what `model` would be without it. An alias that nobody configured means it then.
    pub(crate) below_flag: Option<Below>,
    /// `small`, `default`, `strong` and whatever else was named, as `(alias, what it means)`.
    pub aliases: Vec<(String, Sourced<String>)>,
    /// Those of higher files first, each file's in written order.
    pub providers: Vec<Provider>,
    pub default_agent: Option<Sourced<String>>,
    pub permission_mode: PermissionMode,
    pub limits: Limits,
    pub concurrency: Concurrency,
    pub(crate) background: bool,
    pub(crate) auto_background_after: Option<Duration>,
    pub compaction: Compaction,
    /// When a model may fork its session, if anybody has said so.
    pub forks: Option<Forks>,
    pub worktree: WorktreeSettings,
    pub internal: InternalSettings,
    /// For agents that name none; see [`Config::fallbacks_for`].
    pub(crate) fallback: Vec<String>,
    pub compat: Compat,
    /// Keys whose meaning is built later, lowest precedence first.
    pub later: Vec<Later>,
    /// The files and variables that were read, lowest precedence first.
    pub sources: Vec<String>,
    pub warnings: Vec<Problem>,
    /// Denies that a later rule makes unreachable: printed at every start, errors of `config check`.
    pub dead_denies: Vec<Problem>,
    /// What a project wrote in vain; see [`Config::ignored_line`].
    pub ignored: Vec<Ignored>,
    /// How far the project is believed.
    pub trust: Trust,
    /// What of the project counts only when it is trusted, whether it is or not; see [`crate::keep_trust`].
    pub parts: Vec<Part>,
    pub(crate) folders: Vec<Folder>,
    pub(crate) instructions: Vec<InstructionPattern>,
    /// Of the files.
    pub(crate) rules: Vec<LayerRules>,
    pub(crate) flags: Vec<Rule>,
    /// Models that the project named; see [`Config::with_project_models`].
    pub(crate) wishes: Wishes,
    /// Keys to fall back on; see [`Config::with_kept_keys`].
    pub(crate) kept: Kept,
    /// All values over one another, for `config show`.
    pub(crate) tree: Node,
}

impl Config {
    /// The rules of an agent that has none of its own, as `build`.
    pub fn rulebook(&self) -> Rulebook {
        self.rulebook_for(&Agent::default(), self.permission_mode)
    }

    /// Built-in rules, below those of the files, below those of the agent, below those of the mode, below those of the flags.
    /// An allow of a flag lifts everything but what we deny an agent of ours.
    pub fn rulebook_for(&self, agent: &Agent, mode: PermissionMode) -> Rulebook {
        rulebook(&self.rules, agent, mode, &self.flags)
    }

    /// Whether somebody wrote this value, and it is not only built in. `limits.depth`.
    pub fn says(&self, key: &str) -> bool {
        let node = key.split('.').try_fold(&self.tree, |node, part| node.get(part));
        node.is_some_and(|node| *node.origin.source != *crate::built_in::NAME)
    }

    /// One line for stderr that names everything ignored, and why.
    pub fn ignored_line(&self) -> Option<String> {
        let why = match self.trust {
            Trust::Changed => "ignored, because this folder has changed since you trusted it",
            Trust::Untrusted | Trust::Trusted => "ignored, because this folder is not trusted",
        };
        let (never, waiting): (Vec<&Ignored>, Vec<&Ignored>) = self.ignored.iter().partition(|ignored| ignored.never);
        // Where one thing cannot be vouched for, `posse trust` would refuse the whole folder.
        let way = match waiting.iter().find(|ignored| ignored.unvouched) {
            Some(one) => format!("`posse run --trust` accepts it for once; `posse trust` cannot, because of {}", one.file),
            None => "`posse trust` accepts it".to_owned(),
        };
        let waiting = named(&waiting).map(|names| format!("{why}: {names} ({way})"));
        let never = named(&never).map(|names| format!("ignored, because no folder may say it: {names}"));
        let said: Vec<String> = waiting.into_iter().chain(never).collect();
        (!said.is_empty()).then(|| said.join("; "))
    }
}

/// More would not be read, and a hostile folder could fill the screen.
const NAMED_MAX: usize = 50;

/// `posse.json: provider, hooks, opencode.json: mcp`.
fn named(ignored: &[&Ignored]) -> Option<String> {
    let mut names = String::new();
    let mut file = "";
    for one in ignored.iter().take(NAMED_MAX) {
        let separator = if names.is_empty() { "" } else { ", " };
        let place = if one.file == file { String::new() } else { format!("{}: ", one.file) };
        file = &one.file;
        names.push_str(&format!("{separator}{place}{}", one.key));
    }
    if NAMED_MAX < ignored.len() {
        names.push_str(&format!(", and {} more", ignored.len() - NAMED_MAX));
    }
    (!names.is_empty()).then_some(names)
}

/// `limits`. The defaults are those of `built_in.rs`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    pub depth: u64,
    /// Tasks that one session may ever start.
    pub children: u64,
    /// Tasks of a whole tree.
    pub tree: u64,
    pub stream_idle: Duration,
    pub step: Duration,
    pub idle: Duration,
    pub wall: Duration,
    pub steps: Option<u64>,
    pub cost: Option<f64>,
    pub tokens: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        let minutes = |count: u64| Duration::from_secs(count * 60);
        Self {
            depth: 3,
            children: 200,
            tree: 2000,
            stream_idle: minutes(5),
            step: minutes(15),
            idle: minutes(10),
            wall: minutes(120),
            steps: None,
            cost: None,
            tokens: None,
        }
    }
}

impl Limits {
    /// What the ledger counts against.
    pub fn spending(&self) -> posse_session::Limits {
        posse_session::Limits { steps: self.steps, tokens: self.tokens, cost_usd: self.cost, tasks: Some(self.tree) }
    }
}

/// Requests at once, per provider (`anthropic`) or model (`anthropic/model`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Concurrency {
    /// For a provider that is not named.
    pub default: u64,
    pub named: Vec<(String, u64)>,
}

impl Concurrency {
    /// The limit written for exactly this name.
    pub fn of(&self, name: &str) -> Option<u64> {
        self.named.iter().find(|(key, _)| key == name).map(|(_, count)| *count)
    }

    /// The limit of a provider as a whole.
    pub fn of_provider(&self, provider: &str) -> u64 {
        self.of(provider).unwrap_or(self.default)
    }
}

/// Which neighbours' files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compat {
    pub opencode: bool,
    pub claude: bool,
}

/// A key whose meaning is built later. Its value may hold secrets, so it is not part of the debug text.
#[derive(Clone, PartialEq)]
pub struct Later {
    pub key: String,
    pub value: Value,
    pub origin: Origin,
    /// Whether the user wrote it, and not a folder that is not trusted.
    pub trusted: bool,
    pub(crate) level: Level,
    /// The folder that its relative paths start from.
    pub(crate) dir: PathBuf,
    /// The same as `value`, with the line of everything in it.
    pub(crate) node: Node,
    pub(crate) family: Family,
    /// `permission_order` of its file.
    pub(crate) first_wins: bool,
}

impl fmt::Debug for Later {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.key, self.origin)
    }
}

/// A path or glob of `instructions`, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InstructionPattern {
    pub(crate) pattern: String,
    pub(crate) dir: PathBuf,
    pub(crate) trusted: bool,
    pub(crate) origin: Origin,
}
