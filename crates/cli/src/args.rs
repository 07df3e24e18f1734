//! The command line: what can be said, and the help that says so. What is not built is not here.

use std::path::PathBuf;

use clap::{Args as ClapArgs, CommandFactory as _, Parser, Subcommand, ValueEnum};

use crate::exit::{Exit, Failure};

const EXAMPLES: &str = "\
Examples:
  posse run \"Where is the retry policy defined?\"
  git diff | posse run \"Review this change\"
  posse run -c \"And now the tests\"            go on with the latest session of this directory
  posse run --format json --max-cost 0.50 \"...\"
  posse sessions list
  posse sessions resume ses_01JD              after a crash or Ctrl-C

Exit: 0 done, 1 failed, 2 usage or configuration, 3 a limit, 4 denied because nobody could answer, 130 interrupted.";

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
    /// Sessions of this directory: list, show, resume, stop, remove
    #[command(subcommand)]
    Sessions(SessionsCmd),
    /// The configuration in force, where it comes from, and what is wrong with it
    #[command(subcommand)]
    Config(ConfigCmd),
    /// Models that can be used from here
    #[command(subcommand)]
    Models(ModelsCmd),
    /// Checks folders, configuration, keys and processes, and says what to do
    Doctor {
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
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
    /// Refuse, tell the model, exit 4
    Deny,
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

/// What `run` and `sessions resume` have in common.
#[derive(Debug, Default, ClapArgs)]
pub(crate) struct How {
    /// provider/model, or an alias: small, default, strong
    #[arg(short = 'm', long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Work in this directory
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// What goes to stdout
    #[arg(long, visible_alias = "output-format", value_enum, default_value = "text")]
    pub(crate) format: Option<Format>,
    /// Nothing but errors on stderr
    #[arg(short = 'q', long)]
    pub(crate) quiet: bool,
    /// Allow what a rule matches, e.g. 'bash(git diff*)'
    #[arg(long, value_name = "RULE", alias = "allowedTools")]
    pub(crate) allow: Vec<String>,
    /// Deny it, e.g. 'edit(*.lock)'
    #[arg(long, value_name = "RULE", alias = "disallowedTools")]
    pub(crate) deny: Vec<String>,
    /// Ask about it
    #[arg(long, value_name = "RULE")]
    pub(crate) ask: Vec<String>,
    /// What an ask comes to when nobody can answer
    #[arg(long, value_enum, default_value = "deny")]
    pub(crate) on_ask: Option<OnAsk>,
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
}

fn money(text: &str) -> Result<f64, String> {
    let usd = text.trim_start_matches('$').parse::<f64>().map_err(|_| "expected an amount like 0.50".to_owned())?;
    if usd.is_finite() && 0.0 <= usd { Ok(usd) } else { Err("expected an amount of zero or more".to_owned()) }
}

fn time(text: &str) -> Result<std::time::Duration, String> {
    posse_config::parse_duration(text).map_err(|error| error.to_string())
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCmd {
    /// The sessions of this directory, newest first
    List {
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
    /// What was said and done in a session
    Show {
        id: String,
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
    /// Goes on where a session stopped, until it comes to rest
    Resume {
        id: String,
        #[command(flatten)]
        how: Box<How>,
    },
    /// Ends the turn a session is in, whichever process runs it
    Stop { id: String },
    /// Removes a session for good
    Rm { id: String },
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
    /// Configured models, and those a key in the environment opens
    List {
        #[arg(long, value_enum, default_value_t = Listing::Text)]
        format: Listing,
    },
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
