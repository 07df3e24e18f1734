//! `posse agents`: who there is, what each is and may do, what is odd in the files that say so, and new ones.
//!
//! Definitions are read by `posse_config`; here they are only listed. One agent in full is `agents/show.rs`, files are
//! `agents/check.rs`, and a model that writes a new agent is `agents/create.rs`.

mod check;
mod create;
mod draft;
mod show;

use posse_config::{Agents, Config};
use posse_session::{Agent, AgentMode};

use crate::{
    args::{AgentsCmd, How, Listing},
    build,
    exit::{Exit, Failure},
    internal::Setting,
    print::{flat, to_stderr, to_stdout},
};

/// Letters of a description in the list; `show` has all of it.
const DESCRIPTION_CHARS_MAX: usize = 72;

pub(crate) async fn agents(command: AgentsCmd) -> Result<Exit, Failure> {
    match command {
        AgentsCmd::List { format } => list(format),
        AgentsCmd::Show { name, format } => show::show(&name, format),
        AgentsCmd::Check { path, format } => check::check(path.as_deref(), format),
        AgentsCmd::Create { description, model, user } => create::create(description, model, user).await,
    }
}

fn list(format: Listing) -> Result<Exit, Failure> {
    let Setting { agents, config, .. } = Setting::here()?;
    if format == Listing::Json {
        to_stdout(&serde_json::to_string(agents.list()).unwrap_or_default());
    } else {
        rows(&agents).iter().for_each(|row| to_stdout(row));
    }
    for problem in &agents.announced {
        to_stderr(&flat(&format!("posse: {problem}")));
    }
    if let Err(words) = agents.default(&config) {
        to_stderr(&flat(&format!("posse: {words}")));
    }
    if !agents.tolerated.is_empty() {
        let things = posse_api::words::count(agents.tolerated.len() as u64, "thing");
        to_stderr(&format!("posse: {things} tolerated in agent files; `posse agents check` lists them"));
    }
    Ok(Exit::Done)
}

/// Name, mode, model, description, origin, in columns.
fn rows(agents: &Agents) -> Vec<String> {
    let shown = agents.list().iter().filter(|agent| !agent.hidden);
    let cells: Vec<[String; 5]> = shown.map(cells).collect();
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2), width(3)];
    let line = |row: &[String; 5]| {
        let [name, mode, model, description, origin] = row;
        let [first, second, third, fourth] = widths;
        format!("{name:first$}  {mode:second$}  {model:third$}  {description:fourth$}  {origin}").trim_end().to_owned()
    };
    cells.iter().map(line).collect()
}

fn cells(agent: &Agent) -> [String; 5] {
    let mode = format!("{}{}", mode_word(agent.mode), if agent.default { ", default" } else { "" });
    let words: Vec<&str> = agent.description.as_deref().unwrap_or("no description").split_whitespace().collect();
    let words = words.join(" ");
    let mut description: String = words.chars().take(DESCRIPTION_CHARS_MAX).collect();
    if description.len() < words.len() {
        description = format!("{}…", description.trim_end());
    }
    let trust = if agent.trusted { "" } else { " (not trusted)" };
    let model = agent.model.as_deref().unwrap_or("-");
    let origin = format!("{}{trust}", agent.origin);
    [agent.name.as_str(), &mode, model, &description, &origin].map(flat)
}

/// Why an agent's model cannot be used here.
fn unusable_model(agent: &Agent, config: &Config) -> Option<String> {
    let model = agent.model.as_deref().filter(|name| *name != "inherit")?;
    let how = How { model: Some(model.to_owned()), quiet: true, ..How::default() };
    build::model(config, &how).err().map(Failure::into_words)
}

fn mode_word(mode: AgentMode) -> &'static str {
    match mode {
        AgentMode::Primary => "primary",
        AgentMode::Subagent => "subagent",
        AgentMode::All => "all",
    }
}
