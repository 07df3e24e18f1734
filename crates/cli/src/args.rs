//! The command line: what can be said, and the help that says so. What is not built is not here.

use std::path::PathBuf;

use clap::{Args as ClapArgs, CommandFactory as _, Parser, Subcommand, ValueEnum};

use crate::{
    exit::{Exit, Failure},
    sessions::{export::ExportFormat, import::ImportOptions},
};

const EXAMPLES: &str = "\
Examples:
  posse run \"Where is the retry policy defined?\"
  git diff | posse run \"Review this change\"
  posse run -c \"And now the tests\"            go on with the latest session of this directory
  posse run --format json --max-cost 0.50 \"...\"
  posse sessions list
  posse sessions resume ses_01JD              after a crash or Ctrl-C

Exit: 0 done, 1 failed, 2 usage or configuration, 3 a limit, 4 denied because nobody could answer, 130 interrupted.";

const SIDE_EXAMPLES: &str = "\
Examples:
  posse side -c \"Which files have you changed so far?\"      while it works, or after
  posse side -s ses_01JD -m small \"Why did you choose b?\"";

const WHY_EXAMPLES: &str = "\
Examples:
  posse why call_01JD        what it touched, which rule decided, who was asked
  posse why ses_01JD         why a session stands still, what is allowed and denied in it
  posse why scout            how a task was started, how each round ended, and when its caller was told
  posse why bash             whether a tool is offered in this folder, and if not, which rule removes it
  posse why edit --agent explore";

const TASKS_EXAMPLES: &str = "\
Examples:
  posse tasks                                  what runs, what it waits for, what it costs
  posse tasks send scout \"look into tests too\"
  posse tasks detach ses_01JD                  its caller works on; a notice comes at its end
  posse tasks stop scout
  posse tasks stop --all";

const ANSWER_EXAMPLES: &str = "\
Examples:
  posse asks answer ask_01JD once
  posse asks answer ask_01JD no --say \"use the staging host instead\"
  posse asks answer ask_01JE once --say 2          the second option of a question, or any words
  posse asks answer ses_01JD session               every open ask of a session and of those below it";

const JUDGE_EXAMPLES: &str = "\
Examples:
  posse rules judge --command 'git push --force'
  posse rules judge --path ../other/file --op write";

const IMPORT_EXAMPLES: &str = "\
Examples:
  posse sessions export ses_01JD --format jsonl > session.jsonl
  posse sessions import session.jsonl               on another machine, or after `sessions rm`
  posse sessions import session.jsonl --new-ids     a copy beside the one that is here";

const RM_EXAMPLES: &str = "\
Examples:
  posse sessions rm ses_01JD ses_01JE
  posse sessions rm --older-than 30d --dry-run      which would go
  posse sessions rm --older-than 30d";

const MERGE_EXAMPLES: &str = "Examples:\n  posse tasks diff parser --stat        what the task named parser has changed\n  posse tasks merge parser tests        first parser, then tests, into your files\n  posse tasks merge parser --onto next  as a commit on the branch next";

const FORK_EXAMPLES: &str = "Examples:\n  posse sessions fork ses_01 --at 3 -m strong     prints the id of the new session\n  posse run -s ses_01 '/fork 3 try it another way'  forks and goes on at once";

const UNDO_EXAMPLES: &str = "\
Examples:
  posse sessions show ses_01JD --edits         which agent changed which file
  posse sessions undo ses_01JD                 every file as it was before the session
  posse sessions undo ses_01JD --call call_01JE";

const MODELS_EXAMPLES: &str = "\
Examples:
  posse models list                            what you can use; the newest few of each provider
  posse models list openrouter qwen            of one provider, by a part of the name
  posse models list --all --format json";

const AUTH_EXAMPLES: &str = "\
Examples:
  posse auth add anthropic
  pass show openai | posse auth add openai --file";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  posse doctor                                 looks, and sends nothing to anybody
  posse doctor --try anthropic                 tries the key";

/// Runs coding agents on a repository; every session survives a crash.
#[derive(Debug, Parser)]
#[command(name = "posse", version, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Cmd>,
    /// A folder: shows what posse knows of it. Without a terminal: `posse run` on stdin.
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Cmd {
    /// One prompt, headless: the answer goes to stdout, progress to stderr
    #[command(after_help = EXAMPLES)]
    Run(Box<RunOptions>),
    /// A question about a session, answered beside it: its conversation hears nothing of it
    #[command(after_help = SIDE_EXAMPLES)]
    Side(Box<SideOptions>),
    /// Sessions of this directory: list, show, tree, fork, export, resume, stop, undo, remove
    #[command(subcommand)]
    Sessions(SessionsCmd),
    /// Agents: list, show, check what files define, create one
    #[command(subcommand)]
    Agents(AgentsCmd),
    /// Tasks of this directory's sessions: list, stop, detach, send, diff, merge, discard
    #[command(after_help = TASKS_EXAMPLES)]
    Tasks(TasksArgs),
    /// What waits for your permission, and answering it from any terminal
    #[command(subcommand)]
    Asks(AsksCmd),
    /// Explains a call, an ask, a session, a task or a missing tool: which rule, from which file, who was told when
    #[command(after_help = WHY_EXAMPLES)]
    Why {
        /// call_…, ask_… or ses_… (the start of one is enough), the name of a task, or of a tool
        id: String,
        /// With a tool: whether this agent is offered it when it is called
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
    /// The rules in force here, lasting answers, and what the rules say to a command or a path
    #[command(subcommand)]
    Rules(RulesCmd),
    /// The configuration in force, where it comes from, and what is wrong with it
    #[command(subcommand)]
    Config(ConfigCmd),
    /// Accepts what this folder would run, redirect or widen, until it changes
    Trust {
        dir: Option<PathBuf>,
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
    /// Models that can be used from here
    #[command(subcommand)]
    Models(ModelsCmd),
    /// Keys that posse keeps for you, in the system's keyring or a file: add, list, remove
    #[command(subcommand)]
    Auth(AuthCmd),
    /// Checks folders, configuration, keys and processes, and says what to do
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor {
        /// Also send the smallest request there is to PROVIDER, or to every provider that has a key
        #[arg(long = "try", value_name = "PROVIDER", num_args = 0..=1, default_missing_value = "")]
        attempt: Option<String>,
        /// Remove what killed commands have left of worktrees; never what holds work
        #[arg(long)]
        clean: bool,
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
    /// A team of agents in a throw-away repository: worktrees, a refused ask, kill -9, all work home. No key needed
    Demo(crate::demo::DemoOptions),
    /// Prints completions for a shell
    Completions { shell: clap_complete::Shell },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
    StreamJson,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Listing {
    Text,
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnAsk {
    /// Refuse, tell the model, exit 4 (what happens without a terminal)
    Deny,
    /// Wait for `posse asks answer` from another terminal
    Wait,
    /// Refuse, tell the model, exit 0
    DenyOk,
}

#[derive(Debug, Default, ClapArgs)]
pub(crate) struct RunOptions {
    /// What to do. `-` or nothing reads stdin; with a prompt, piped stdin is appended
    pub(crate) prompt: Vec<String>,
    /// Go on with the latest session of this directory
    #[arg(short = 'c', long = "continue", conflicts_with = "session")]
    pub(crate) go_on: bool,
    /// Go on with this session (an id, or the start of one)
    #[arg(short = 's', long, value_name = "ID")]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) how: How,
    /// Accepted for scripts of other tools; posse run always prints
    #[arg(short = 'p', long = "print", hide = true)]
    pub(crate) print: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SideOptions {
    /// What you want to know. `-` or nothing reads stdin
    pub(crate) question: Vec<String>,
    /// About the latest session of this directory
    #[arg(short = 'c', long = "continue", conflicts_with = "session")]
    pub(crate) go_on: bool,
    /// About this session or task (an id, or the start of one)
    #[arg(short = 's', long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Who answers, if not the session's own model
    #[arg(short = 'm', long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Work in this directory
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t = Listing::Text)]
    pub(crate) format: Listing,
    /// Nothing but errors on stderr
    #[arg(short = 'q', long)]
    pub(crate) quiet: bool,
}

/// What `run` and `sessions resume` have in common.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct How {
    /// provider/model, or an alias: small, default, strong
    #[arg(short = 'm', long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// The agent that answers: one of `posse agents list` that is no subagent
    #[arg(short = 'a', long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// More agents, as JSON: {"name": {"description": "...", "prompt": "..."}}
    #[arg(long, value_name = "JSON")]
    pub(crate) agents: Option<String>,
    /// The delegation tools the model is shown: posse, opencode or claude
    #[arg(long, value_name = "NAME")]
    pub(crate) dialect: Option<String>,
    /// Whether the model may fork its session: off, explicit (when it says so) or implicit (whenever it names no agent)
    #[arg(long, value_name = "WHEN", value_parser = forks)]
    pub(crate) fork: Option<posse_session::Forks>,
    /// Work in this directory
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// What goes to stdout
    #[arg(long, visible_alias = "output-format", value_enum, default_value = "text")]
    pub(crate) format: Option<Format>,
    /// The final answer must be JSON that fits this schema: a file, or the schema itself
    #[arg(long, value_name = "SCHEMA", alias = "json-schema")]
    pub(crate) output_schema: Option<String>,
    /// Nothing but errors on stderr
    #[arg(short = 'q', long)]
    pub(crate) quiet: bool,
    /// Allow what a rule matches, e.g. 'bash(git diff*)'
    #[arg(long, value_name = "RULE", alias = "allowedTools", value_parser = placed)]
    pub(crate) allow: Vec<Placed>,
    /// Deny it, e.g. 'edit(*.lock)'
    #[arg(long, value_name = "RULE", alias = "disallowedTools", value_parser = placed)]
    pub(crate) deny: Vec<Placed>,
    /// Ask about it
    #[arg(long, value_name = "RULE", value_parser = placed)]
    pub(crate) ask: Vec<Placed>,
    /// What becomes of an ask; without it you are asked on a terminal, and elsewhere it is `deny`
    #[arg(long, value_enum)]
    pub(crate) on_ask: Option<OnAsk>,
    /// default, plan (changes nothing), accept-edits, or bypass (every ask is a yes; denies hold)
    #[arg(long, value_name = "MODE")]
    pub(crate) permission_mode: Option<posse_config::PermissionMode>,
    /// The same as --permission-mode bypass
    #[arg(long = "dangerously-skip-permissions", hide = true, conflicts_with = "permission_mode")]
    pub(crate) skip_permissions: bool,
    /// Accept what this folder would run, redirect or widen, for this invocation
    #[arg(long)]
    pub(crate) trust: bool,
    /// Stop when the session has cost this much
    #[arg(long, value_name = "USD", value_parser = money)]
    pub(crate) max_cost: Option<f64>,
    /// Stop when it has used so many tokens
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<u64>,
    /// Stop after so many model calls, with one last answer
    #[arg(long, value_name = "N", alias = "max-turns")]
    pub(crate) max_steps: Option<u64>,
    /// Stop after this time, e.g. 90s, 10m, 1h30m
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) timeout: Option<std::time::Duration>,
    /// Keep every exchange with a model in this file; `--replay` plays it back
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub(crate) record: Option<PathBuf>,
    /// Answer from a recording instead of asking models: no network, no keys
    #[arg(long, value_name = "FILE")]
    pub(crate) replay: Option<PathBuf>,
    /// With --replay: where tool results are not the recorded ones, go on with the recorded answers
    #[arg(long, requires = "replay")]
    pub(crate) loose: bool,
    /// How long to wait for background tasks after the last answer: a time, or none. They stay open for `posse sessions resume`
    #[arg(long, value_name = "TIME|none", value_parser = wait_time)]
    pub(crate) wait_background: Option<std::time::Duration>,
}

/// A rule as it was written, and where among the others: the last that matches wins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) at: usize,
    pub(crate) text: String,
}

/// Values are parsed in the order they stand on the command line, whichever flag they belong to.
fn placed(text: &str) -> Result<Placed, std::convert::Infallible> {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    Ok(Placed { at: NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed), text: text.to_owned() })
}

fn forks(word: &str) -> Result<posse_session::Forks, String> {
    match word {
        "off" => Ok(posse_session::Forks::Off),
        "explicit" => Ok(posse_session::Forks::Explicit),
        "implicit" => Ok(posse_session::Forks::Implicit),
        _ => Err("expected off, explicit or implicit".to_owned()),
    }
}

fn money(text: &str) -> Result<f64, String> {
    let usd = text.trim_start_matches('$').parse::<f64>().map_err(|_| "expected an amount like 0.50".to_owned())?;
    if usd.is_finite() && 0.0 <= usd { Ok(usd) } else { Err("expected an amount of zero or more".to_owned()) }
}

/// `none` is no time at all.
fn wait_time(text: &str) -> Result<std::time::Duration, String> {
    if text == "none" { Ok(std::time::Duration::ZERO) } else { time(text) }
}

fn time(text: &str) -> Result<std::time::Duration, String> {
    posse_config::parse_duration(text).map_err(|error| error.to_string())
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCmd {
    /// The sessions of this directory, newest first
    List {
        /// How many at most (50 as text, all as JSON)
        #[arg(long, value_name = "NUMBER", conflicts_with = "all")]
        limit: Option<usize>,
        /// However many there are
        #[arg(long)]
        all: bool,
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
    /// What was said and done in a session
    Show {
        id: String,
        /// All of a long session, not only its end
        #[arg(long)]
        all: bool,
        /// Instead: which agent changed which file, here and in the sessions below
        #[arg(long)]
        edits: bool,
        /// Instead: a short account, written by a model
        #[arg(long, conflicts_with = "edits")]
        summary: bool,
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
    /// A session and every agent below it: status, steps, tokens, money, what each waits for
    Tree {
        /// The latest session of this directory if left out
        id: Option<String>,
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
    /// The whole conversation as OpenCode's {info, messages}, or every record of the tree as JSON lines
    Export {
        id: String,
        #[arg(long, value_enum, default_value_t = ExportFormat::Opencode)]
        format: ExportFormat,
        /// With jsonl: also agents' definitions, what undoing needs, and what requests began with
        #[arg(long)]
        whole: bool,
    },
    /// Reads a file of `export --format jsonl` into this project; refuses what is here already
    #[command(after_help = IMPORT_EXAMPLES)]
    Import {
        file: PathBuf,
        #[command(flatten)]
        options: ImportOptions,
    },
    /// Goes on where a session stopped, until it comes to rest
    Resume {
        id: String,
        #[command(flatten)]
        how: Box<How>,
    },
    /// A new session that begins with what this one has said, up to one of its steps
    #[command(after_help = FORK_EXAMPLES)]
    Fork {
        id: String,
        /// After this step, counted from 1; without it, as it is now
        #[arg(long, value_name = "STEP")]
        at: Option<u64>,
        #[command(flatten)]
        how: Box<How>,
    },
    /// Ends the turn a session is in, whichever process runs it
    Stop { id: String },
    /// Takes back what a session and those below it changed with edit tools; refuses where a file was changed since
    #[command(after_help = UNDO_EXAMPLES)]
    Undo {
        id: String,
        /// Only what this agent did
        #[arg(long, value_name = "AGENT", conflicts_with = "call")]
        agent: Option<String>,
        /// Only what this call did (see `show --edits`)
        #[arg(long, value_name = "CALL")]
        call: Option<String>,
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
    /// Calls a session otherwise; without TITLE the small model finds one
    Title { id: String, title: Vec<String> },
    /// Removes sessions for good, with every agent below them
    #[command(after_help = RM_EXAMPLES)]
    Rm {
        #[arg(value_name = "ID", required_unless_present = "older_than", conflicts_with = "older_than")]
        ids: Vec<String>,
        /// All that have rested for this long, e.g. 30d: no owner, no open question, nothing unread
        #[arg(long, value_name = "TIME", value_parser = time)]
        older_than: Option<std::time::Duration>,
        /// Only say which
        #[arg(long, requires = "older_than")]
        dry_run: bool,
    },
    /// Copies all sessions of this project into a file, also while they run, and checks the copy
    Backup {
        file: PathBuf,
        /// Replace the file if it is there
        #[arg(long)]
        force: bool,
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentsCmd {
    /// Who there is here: name, mode, model, what it is for, where it is defined
    List {
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
    /// Everything about one agent: the tools it is offered, its rules in order, its prompt
    Show {
        name: String,
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
    /// What was tolerated in agent, command and skill files, with file and line
    Check {
        /// A file or a folder, also one that does not count here; everything that counts if left out
        path: Option<PathBuf>,
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
    /// Has a model write a new subagent, and puts it into .posse/agents
    Create {
        /// What it should do, and when it should be called; asked for on a terminal
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
        /// provider/model, or an alias: who writes it
        #[arg(short = 'm', long, value_name = "MODEL")]
        model: Option<String>,
        /// For all projects: into your own agents folder
        #[arg(long)]
        user: bool,
    },
}

#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct TasksArgs {
    #[command(subcommand)]
    pub(crate) command: Option<TasksCmd>,
    #[command(flatten)]
    pub(crate) list: TasksList,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TasksCmd {
    /// Tasks of one tree, or of all trees of this directory
    List(TasksList),
    /// Ends a task and everything below it, whichever process runs it; it goes on only if you speak to it
    Stop {
        /// The id of a task, the start of one, or its name
        #[arg(value_name = "ID|NAME", required_unless_present = "all")]
        id: Option<String>,
        /// Every open task of this directory's sessions
        #[arg(long, conflicts_with = "id")]
        all: bool,
        /// With --all: only those of this session
        #[arg(long, value_name = "ID", requires = "all")]
        session: Option<String>,
    },
    /// Lets a task that its caller waits for go on in the background: the caller works on and gets a notice at its end
    Detach {
        #[arg(value_name = "ID|NAME")]
        id: String,
    },
    /// What a task has changed in its worktree
    Diff {
        #[arg(value_name = "ID|NAME")]
        id: String,
        /// Only the files, with the number of lines
        #[arg(long)]
        stat: bool,
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
    /// Brings what tasks have changed in their worktrees home, in this order; each whole or not at all
    #[command(after_help = MERGE_EXAMPLES)]
    Merge {
        #[arg(value_name = "ID|NAME", required = true)]
        ids: Vec<String>,
        /// As a commit on this branch, which is checked out nowhere, instead of into your files
        #[arg(long, value_name = "BRANCH")]
        onto: Option<String>,
        /// Leave the worktree where it is
        #[arg(long)]
        keep: bool,
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
    /// Throws the worktrees of tasks away, with everything in them
    Discard {
        #[arg(value_name = "ID|NAME", required = true)]
        ids: Vec<String>,
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
    /// Which task wrote which lines of what was brought home
    Wrote {
        /// A file; all files if left out
        path: Option<String>,
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
    /// Says something to a task: at its next step if it works, else it works again. If no process runs it, this one does
    Send {
        #[arg(value_name = "ID|NAME")]
        id: String,
        #[arg(required = true)]
        text: Vec<String>,
        #[command(flatten)]
        how: Box<How>,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TasksList {
    /// Only the tasks of this session and of those below it
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    #[arg(long, value_enum, default_value_t = Listing::Text)]
    pub(crate) format: Listing,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AsksCmd {
    /// Open asks of this project, oldest first
    List {
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
    /// Answers an ask, or with a session's id every open ask of it and of the sessions below it
    #[command(after_help = ANSWER_EXAMPLES)]
    Answer {
        /// ask_… or ses_…; the start of one is enough
        id: String,
        #[arg(value_enum)]
        answer: AnswerWord,
        /// With `no`: words for the model. With a question: your answer, or the number of an option
        #[arg(long, value_name = "TEXT")]
        say: Option<String>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AnswerWord {
    /// Yes, to this call only
    Once,
    /// Yes, and to the like of it for the rest of its session
    Session,
    /// Yes, and in every session of its tree
    Tree,
    /// Yes, and in every session of this project, until `posse rules revoke`
    Project,
    /// No; the model is told
    No,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RulesCmd {
    /// The rules in force in this folder, in order, with their origin; then lasting answers
    List {
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
    /// Takes back a lasting answer
    Revoke {
        /// ask_… as `posse rules list` shows it; the start of one is enough
        id: String,
    },
    /// Checks a file of cases against its own rules; exit 1 if a verdict is not the expected one
    Test {
        file: PathBuf,
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
    /// What the rules in force here say to a command or a path, and why
    #[command(after_help = JUDGE_EXAMPLES)]
    Judge {
        #[arg(long, value_name = "CMD", required_unless_present = "path", conflicts_with = "path")]
        command: Option<String>,
        #[arg(long, value_name = "P", requires = "op")]
        path: Option<String>,
        #[arg(long, value_enum, requires = "path")]
        op: Option<PathOp>,
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PathOp {
    Read,
    Write,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCmd {
    /// Every value in force
    Show {
        /// With the file and line it comes from
        #[arg(long)]
        origin: bool,
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
    /// Where configuration and data are
    Path {
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
    /// Everything that is wrong or odd; exit 2 if something is wrong
    Check {
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCmd {
    /// Configured models, those a key opens, and those of servers on this machine
    #[command(after_help = MODELS_EXAMPLES)]
    List {
        /// A provider, whether you have a key for it or not, and parts of names
        #[arg(value_name = "PROVIDER|TEXT")]
        what: Vec<String>,
        /// Every model, and not only the newest of each provider
        #[arg(long)]
        all: bool,
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuthCmd {
    /// Keeps a key: typed at a prompt that does not show it, or piped in
    #[command(after_help = AUTH_EXAMPLES)]
    Add {
        provider: String,
        /// In a file that only you can read
        #[arg(long, conflicts_with = "keyring")]
        file: bool,
        /// In the keyring of the system, or not at all
        #[arg(long)]
        keyring: bool,
        /// Taken only to say that a key does not belong here
        #[arg(hide = true)]
        rest: Vec<String>,
    },
    /// Which keys are kept, where, and since when
    List {
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
    /// Forgets a key
    Remove { provider: String },
}

pub(crate) fn completions(shell: clap_complete::Shell) -> Result<Exit, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "posse", &mut text);
    crate::print::to_stdout(String::from_utf8_lossy(&text).trim_end());
    Ok(Exit::Done)
}

pub(crate) fn help() -> String {
    Args::command().render_help().to_string()
}
