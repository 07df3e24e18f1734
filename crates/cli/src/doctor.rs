//! `posse doctor`: looks at everything a run needs, and says what to do about what is missing.
//!
//! Asks servers on this machine who they are, and sends nothing anywhere else, unless `--try` asks for it. Where keys are
//! is `doctor/keys.rs`, trying them `doctor/attempt.rs`. No key is ever part of a finding.

mod attempt;
mod data;
mod keys;
mod worktrees;

use std::{path::Path, sync::Arc, time::Duration};

use posse_config::{Config, ModelChoice, Places};
use posse_models::LocalServer;
use posse_session::format_duration;
use posse_session::{CallId, CommandLine, Ended, Workspace as _};
use posse_tools::{Keeper, LocalWorkspace};
use serde_json::json;

use crate::{
    args::{How, Listing},
    build::{self, env},
    configure,
    exit::{Exit, Failure},
    local,
    print::{flat, to_stdout},
};

/// How long a trivial process may take before something is wrong with starting processes.
const PROCESS_MAX: Duration = Duration::from_secs(5);

/// So many models of a server are named; the rest is for `models list`.
const NAMED_MAX: usize = 5;

#[derive(Clone, Copy, PartialEq)]
enum Health {
    Good,
    /// Works, but could be better.
    Note,
    Bad,
}

struct Finding {
    what: &'static str,
    /// Whose, where it is about one provider.
    provider: Option<String>,
    health: Health,
    words: String,
}

impl Finding {
    fn new(what: &'static str, health: Health, words: impl Into<String>) -> Self {
        Self { what, provider: None, health, words: words.into() }
    }

    fn of(provider: &str, what: &'static str, health: Health, words: impl Into<String>) -> Self {
        Self { provider: Some(provider.to_owned()), ..Self::new(what, health, words) }
    }
}

/// `attempt`: whom to try; an empty name is everybody who has a key.
pub(crate) async fn doctor(attempt: Option<&str>, clean: bool, format: Listing) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let mut findings = vec![configuration(&places), data::finding(&places).await, processes(&places).await, git()];
    findings.extend(worktrees::findings(&places, clean).await);
    // What is wrong with it was the first finding.
    if let Ok(config) = build::configuration(&places, &How::default()) {
        findings.push(model(&places, &config));
        findings.extend(keys::findings(&config, &places));
        let search = local::search(&config, |name| attempt.is_some_and(|wanted| wanted.is_empty() || wanted == name)).await;
        findings.extend(search.found.iter().map(server));
        findings.extend(search.unasked.iter().map(|(kind, url)| unasked(kind.provider(), url)));
        findings.extend(delegation(&config));
        if let Some(wanted) = attempt {
            findings.extend(attempt::findings(&config, &places, wanted).await?);
        }
    }
    let bad = findings.iter().any(|finding| finding.health == Health::Bad);
    if format == Listing::Json {
        let rows: Vec<_> = findings.iter().map(row).collect();
        to_stdout(&json!({"ok": !bad, "checks": rows}).to_string());
    } else {
        for finding in &findings {
            let mark = match finding.health {
                Health::Good => "✓",
                Health::Note => "·",
                Health::Bad => "✗",
            };
            let whose = finding.provider.as_ref().map(|provider| format!("{provider}: ")).unwrap_or_default();
            to_stdout(&flat(&format!("{mark} {:13}  {whose}{}", finding.what, finding.words)));
        }
    }
    Ok(if bad { Exit::Failed } else { Exit::Done })
}

fn row(finding: &Finding) -> serde_json::Value {
    let mut row = json!({"check": finding.what, "health": word(finding.health), "words": finding.words});
    if let Some(provider) = &finding.provider {
        row["provider"] = json!(provider);
    }
    row
}

fn word(health: Health) -> &'static str {
    match health {
        Health::Good => "good",
        Health::Note => "note",
        Health::Bad => "bad",
    }
}

fn configuration(places: &Places) -> Finding {
    let checked = configure::checked(places);
    let all: Vec<String> = checked.errors.iter().chain(&checked.warnings).map(ToString::to_string).collect();
    let (health, words) = if !checked.errors.is_empty() {
        (Health::Bad, all.join("; "))
    } else if !all.is_empty() {
        (Health::Note, all.join("; "))
    } else {
        read(places)
    };
    Finding::new("configuration", health, words)
}

/// The files and texts that count.
fn read(places: &Places) -> (Health, String) {
    let sources = build::configuration(places, &How::default()).map(|config| config.sources).unwrap_or_default();
    // The first is what we wrote ourselves.
    match sources.get(1..).unwrap_or_default() {
        [] => {
            let own = places.config_dir.join("posse.json");
            (Health::Note, format!("no file yet, so built-in values count; yours would be {}", own.display()))
        }
        read => (Health::Good, read.join(", ")),
    }
}

/// Starts `true` the way tools start everything.
async fn processes(places: &Places) -> Finding {
    let bad = |words: String| Finding::new("processes", Health::Bad, words);
    let workspace = match LocalWorkspace::new(&places.project, &places.cwd, Arc::new(Keeper::new())) {
        Ok(workspace) => workspace,
        Err(error) => return bad(error.to_string()),
    };
    let output = std::env::temp_dir().join(format!("posse-doctor-{}", std::process::id()));
    let line = CommandLine {
        argv: vec!["true".into()],
        cwd: places.cwd.clone(),
        env: posse_tools::child_env(),
        output: output.clone(),
        call: CallId::new("call_doctor"),
    };
    let ended = match workspace.spawn(line).await {
        Ok(process) => tokio::time::timeout(PROCESS_MAX, process.wait()).await,
        Err(error) => return bad(error.to_string()),
    };
    let _ = std::fs::remove_file(output);
    match ended {
        Ok(Ended::Code(0)) => Finding::new("processes", Health::Good, "tools run below a keeper that ends them with posse"),
        Ok(other) => bad(format!("`true` ended with {other:?}")),
        Err(_) => bad(format!("`true` did not end within {} s", PROCESS_MAX.as_secs())),
    }
}

/// What holds for agents that work for others: how many requests at once, how long, how many.
fn delegation(config: &Config) -> Vec<Finding> {
    let good = |what: &'static str, words: String| Finding::new(what, Health::Good, words);
    let named = config.concurrency.named.iter().map(|(name, count)| format!("{count} at once to {name}"));
    let others = if config.concurrency.named.is_empty() { "at once to a provider" } else { "to any other" };
    let lanes: Vec<String> = named.chain([format!("{} {others}", config.concurrency.default)]).collect();
    let background = match (config.background(), config.auto_background_after()) {
        (false, _) => "off: tasks and shells always hold up their caller".to_owned(),
        (true, None) => "on, where a model or a definition wants it".to_owned(),
        (true, Some(after)) => format!("on; a task that has run in the foreground goes there after {}", format_duration(after)),
    };
    let limits = &config.limits;
    let times = [
        ("no sign of life", limits.idle),
        ("in all", limits.wall),
        ("one model call", limits.step),
        ("a silent stream", limits.stream_idle),
    ];
    let times = times.map(|(what, time)| format!("{} {what}", format_duration(time))).join(", ");
    let tasks = |count: u64| posse_api::words::count(count, "task");
    let counts = format!("{} deep, {} of one session, {} in a tree", limits.depth, tasks(limits.children), tasks(limits.tree));
    vec![
        good("requests", lanes.join(", ")),
        good("background", background),
        good("limits", format!("{counts}; of one round at most {times}")),
    ]
}

fn git() -> Finding {
    let found = env("PATH").is_some_and(|path| std::env::split_paths(&path).any(|folder| Path::new(&folder).join("git").is_file()));
    if found {
        Finding::new("git", Health::Good, "found")
    } else {
        Finding::new("git", Health::Note, "not on PATH; agents work better with it")
    }
}

fn model(places: &Places, config: &Config) -> Finding {
    match config.choose_model(None, &build::known(), &env) {
        Ok(ModelChoice::Remote(chosen)) => {
            let words = format!("{} at {}", chosen.name(), posse_models::shown_url(&chosen.base_url));
            Finding::new("model", Health::Good, words)
        }
        Ok(ModelChoice::Offline) => {
            let file = places.config_dir.join("posse.json");
            let words = format!(
                "none configured, so offline/explorer answers by rules and search. `posse auth add anthropic` (or openai, gemini, ...) keeps a key, ANTHROPIC_API_KEY or OPENAI_API_KEY holds one, or write a provider into {}",
                file.display()
            );
            Finding::new("model", Health::Note, words)
        }
        Err(error) => Finding::new("model", Health::Bad, error.to_string()),
    }
}

/// A model server elsewhere, which is asked only when it is meant.
fn unasked(provider: &str, url: &str) -> Finding {
    let words = format!("{url} is not on this machine, so it was not asked; `posse doctor --try {provider}` asks it");
    Finding::of(provider, "local server", Health::Note, words)
}

/// A model server on this machine, and how to use it.
fn server(server: &LocalServer) -> Finding {
    let provider = server.kind.provider();
    let at = format!("{} at {}", server.kind.name(), posse_models::shown_url(&server.base_url));
    let words = match &server.models[..] {
        [] => format!("{at} has no models yet"),
        models => {
            let names: Vec<&str> = models.iter().take(NAMED_MAX).map(|model| model.name.as_str()).collect();
            let more = if NAMED_MAX < models.len() { format!(" and {} more", models.len() - NAMED_MAX) } else { String::new() };
            format!("{at} has {}{more}; `posse run -m {provider}/{}` uses one", names.join(", "), names[0])
        }
    };
    Finding::of(provider, "local server", Health::Good, words)
}
