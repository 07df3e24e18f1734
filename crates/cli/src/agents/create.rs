//! `posse agents create`: a model is told what an agent is for and proposes it; we check it and write its file.
//!
//! Never writes over a file, and writes nothing through a link that leads out of the project. What a proposal must be is
//! `draft.rs`.

use std::{
    fs,
    io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _},
    path::{Path, PathBuf},
};

use posse_config::{Agents, Places};
use posse_session::{Agent, AgentMode};

use super::draft::{self, Draft};
use crate::{
    exit::{Exit, Failure},
    internal::{Answered, Setting},
    print::{flat, safe, to_stderr, to_stdout},
};

const PROMPT: &str = include_str!("create_prompt.md");

/// A little chance, so that two agents for like purposes are not the same.
const TEMPERATURE: f64 = 0.3;

/// Names that a model is told are taken; a longer list would cost more than an answer sent back.
const NAMES_MAX: usize = 500;

/// More than anybody types to say what an agent is for.
const DESCRIPTION_BYTES_MAX: u64 = 64 * 1024;

pub(super) async fn create(description: Option<String>, model: Option<String>, user: bool) -> Result<Exit, Failure> {
    let setting = Setting::here()?;
    let author = author();
    let model = setting.model(model.as_deref(), &author, "`posse agents create`")?;
    let description = described(description)?;
    let (places, config) = (setting.places.clone(), setting.config.clone());
    let folder = folder(&places, user)?;
    let agents = setting.agents.clone();
    let accept = |reply: &str| draft::read(reply, &|name| taken(name, &agents, &folder));
    let title = format!("agents create: {}", description.lines().next().unwrap_or_default());
    let Answered { answer: draft, session } = setting.ask(author, model, title, question(&description, &agents), &accept).await?;
    let path = folder.join(format!("{}.md", draft.identifier));
    write(&path, &draft.markdown()).map_err(|error| unwritable(&path, &error))?;
    to_stdout(&places.shown(&path));
    to_stderr(&format!("posse: {}: {}", draft.identifier, flat(&safe(&draft.when_to_use))));
    let counts = posse_config::agents(&places, &config, None).ok().and_then(|agents| agents.get(&draft.identifier).cloned());
    if counts.is_none_or(|agent| !is_as_written(&agent, &draft)) {
        let words = format!(
            "posse: another definition changes or disables {}; `posse config show` and `posse agents check` tell more",
            draft.identifier
        );
        to_stderr(&words);
    }
    to_stderr(&format!(
        "posse: look at it with `posse agents show {}`; how it came to be: posse sessions show {session}",
        draft.identifier
    ));
    Ok(Exit::Done)
}

fn is_as_written(agent: &Agent, draft: &Draft) -> bool {
    agent.description.as_ref() == Some(&draft.when_to_use)
        && agent.prompt.as_ref() == Some(&draft.system_prompt)
        && agent.mode == AgentMode::Subagent
}

/// Who writes agents. None of the user's: it cannot be called and is in no list.
fn author() -> Agent {
    Agent {
        name: "agent-author".into(),
        prompt: Some(PROMPT.trim_end().to_owned()),
        temperature: Some(TEMPERATURE),
        mode: AgentMode::Primary,
        native: true,
        hidden: true,
        trusted: true,
        origin: "built-in".into(),
        ..Agent::default()
    }
}

/// What the agent is for, in the user's words.
fn described(given: Option<String>) -> Result<String, Failure> {
    let missing = || Failure::usage("say what the agent is for: posse agents create --description \"Reviews database migrations\"");
    let words = match given {
        Some(words) => words,
        None if io::stdin().is_terminal() => {
            to_stderr("What should the agent do, and when should it be called?");
            let mut line = String::new();
            let read = io::stdin().lock().take(DESCRIPTION_BYTES_MAX).read_line(&mut line);
            read.map_err(|error| Failure::failed(format!("stdin cannot be read: {error}")))?;
            line
        }
        None => return Err(missing()),
    };
    let words = words.trim();
    if words.is_empty() { Err(missing()) } else { Ok(words.to_owned()) }
}

fn question(description: &str, agents: &Agents) -> String {
    let names = agents.list().iter().flat_map(|agent| std::iter::once(&agent.name).chain(&agent.aliases));
    let names: Vec<&str> = names.take(NAMES_MAX).map(String::as_str).collect();
    format!("Design an agent for this:\n\n{description}\n\nThese names are taken and cannot be used: {}.", names.join(", "))
}

fn taken(name: &str, agents: &Agents, folder: &Path) -> Option<String> {
    let known = agents.list().iter().find(|agent| agent.is_named(name));
    // A file may also define an agent that is disabled.
    let lies_there = || folder.join(format!("{name}.md")).symlink_metadata().is_ok();
    match known {
        Some(agent) if agent.name == name => Some(format!("`{name}` is taken.")),
        Some(agent) => Some(format!("`{name}` is taken: it means the agent `{}`.", agent.name)),
        None => lies_there().then(|| format!("`{name}` is taken: a file of that name exists.")),
    }
}

/// Where the file goes. Whether it can is asked before a model is paid for it.
fn folder(places: &Places, user: bool) -> Result<PathBuf, Failure> {
    let folder = if user { places.config_dir.join("agents") } else { places.project.join(".posse/agents") };
    let Some(real) = folder.ancestors().find_map(|known| known.canonicalize().ok()) else { return Ok(folder) };
    let shown = folder.display();
    if !real.is_dir() {
        return Err(Failure::usage(format!("{shown} cannot be a folder: {} is a file", real.display())));
    }
    let project = places.project.canonicalize().unwrap_or_else(|_| places.project.clone());
    if !user && !real.starts_with(&project) {
        let words = format!("{shown} leads out of the project, so nothing is written there; `--user` writes to your own folder");
        return Err(Failure::usage(words));
    }
    Ok(folder)
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    let mut file = fs::File::options().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes()).inspect_err(|_| {
        // Half an agent is worse than none; if it cannot be taken away the error says where it is.
        let _ = fs::remove_file(path);
    })
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::AlreadyExists => {
            Failure::failed(format!("{}: it was written by somebody else meanwhile; nothing was changed", path.display()))
        }
        _ => Failure::failed(format!(
            "{}: {error}; make the folder writable, or choose the other one with or without `--user`",
            path.display()
        )),
    }
}
