//! `posse doctor`: looks at everything a run needs, and says what to do about what is missing. Sends nothing anywhere.

use std::{path::Path, sync::Arc, time::Duration};

use posse_config::{ModelChoice, Overrides, Places};
use posse_session::format_duration;
use posse_session::{CallId, CommandLine, Ended, Workspace as _};
use posse_tools::{Keeper, LocalWorkspace};
use serde_json::json;

use crate::{
    args::{How, Listing},
    build::{self, env},
    exit::{Exit, Failure},
    print::to_stdout,
};

/// How long a trivial process may take before something is wrong with starting processes.
const PROCESS_MAX: Duration = Duration::from_secs(5);

/// A local model server that listens there is worth a word.
const LOCAL_SERVERS: [(&str, u16); 3] = [("Ollama", 11434), ("llama.cpp", 8080), ("LM Studio", 1234)];

#[derive(Clone, Copy, PartialEq)]
enum Health {
    Good,
    /// Works, but could be better.
    Note,
    Bad,
}

struct Finding {
    what: &'static str,
    health: Health,
    words: String,
}

pub(crate) async fn doctor(format: Listing) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let mut findings = vec![configuration(&places), data(&places), processes(&places).await, git()];
    findings.extend(models(&places));
    findings.extend(delegation(&places));
    let bad = findings.iter().any(|finding| finding.health == Health::Bad);
    if format == Listing::Json {
        let rows: Vec<_> =
            findings.iter().map(|finding| json!({"check": finding.what, "health": word(finding.health), "words": finding.words})).collect();
        to_stdout(&json!({"ok": !bad, "checks": rows}).to_string());
    } else {
        for finding in &findings {
            let mark = match finding.health {
                Health::Good => "✓",
                Health::Note => "·",
                Health::Bad => "✗",
            };
            to_stdout(&format!("{mark} {:13}  {}", finding.what, finding.words));
        }
    }
    Ok(if bad { Exit::Failed } else { Exit::Done })
}

fn word(health: Health) -> &'static str {
    match health {
        Health::Good => "good",
        Health::Note => "note",
        Health::Bad => "bad",
    }
}

fn configuration(places: &Places) -> Finding {
    let checked = posse_config::check(places, &env, &Overrides::default());
    let all: Vec<String> = checked.errors.iter().chain(&checked.warnings).map(ToString::to_string).collect();
    let (health, words) = if !checked.errors.is_empty() {
        (Health::Bad, all.join("; "))
    } else if !all.is_empty() {
        (Health::Note, all.join("; "))
    } else {
        (Health::Good, format!("{}", places.config_dir.join("posse.json").display()))
    };
    Finding { what: "configuration", health, words }
}

fn data(places: &Places) -> Finding {
    let folder = places.project_data_dir();
    match posse_store::Sqlite::open(&folder) {
        Ok(_) => Finding { what: "data", health: Health::Good, words: folder.display().to_string() },
        Err(error) => Finding { what: "data", health: Health::Bad, words: posse_api::words::storage(&error.to_string()) },
    }
}

/// Starts `true` the way tools start everything.
async fn processes(places: &Places) -> Finding {
    let bad = |words: String| Finding { what: "processes", health: Health::Bad, words };
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
        Ok(Ended::Code(0)) => {
            Finding { what: "processes", health: Health::Good, words: "tools run below a keeper that ends them with posse".into() }
        }
        Ok(other) => bad(format!("`true` ended with {other:?}")),
        Err(_) => bad(format!("`true` did not end within {} s", PROCESS_MAX.as_secs())),
    }
}

/// What holds for agents that work for others: how many requests at once, how long, how many.
fn delegation(places: &Places) -> Vec<Finding> {
    let Ok(config) = build::configuration(places, &How::default()) else { return Vec::new() };
    let good = |what: &'static str, words: String| Finding { what, health: Health::Good, words };
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
    let counts = format!("{} deep, {} tasks of one session, {} tasks in a tree", limits.depth, limits.children, limits.tree);
    vec![
        good("requests", lanes.join(", ")),
        good("background", background),
        good("limits", format!("{counts}; of one round at most {times}")),
    ]
}

fn git() -> Finding {
    let found = env("PATH").is_some_and(|path| std::env::split_paths(&path).any(|folder| Path::new(&folder).join("git").is_file()));
    if found {
        Finding { what: "git", health: Health::Good, words: "found".into() }
    } else {
        Finding { what: "git", health: Health::Note, words: "not on PATH; agents work better with it".into() }
    }
}

fn models(places: &Places) -> Vec<Finding> {
    let Ok(config) = build::configuration(places, &How::default()) else { return Vec::new() };
    let mut findings = Vec::new();
    let choice = config.choose_model(None, &build::known(), &env);
    findings.push(match choice {
        Ok(ModelChoice::Remote(chosen)) => Finding { what: "model", health: Health::Good, words: format!("{} at {}", chosen.name(), posse_models::shown_url(&chosen.base_url)) },
        Ok(ModelChoice::Offline) => Finding {
            what: "model",
            health: Health::Note,
            words: format!(
                "none configured, so offline/explorer answers by rules and search. Set ANTHROPIC_API_KEY or OPENAI_API_KEY, or write a provider into {}",
                places.config_dir.join("posse.json").display()
            ),
        },
        Err(error) => Finding { what: "model", health: Health::Bad, words: error.to_string() },
    });
    for (name, port) in LOCAL_SERVERS {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
        if std::net::TcpStream::connect_timeout(&address, Duration::from_millis(100)).is_ok() {
            let words =
                format!("something listens on port {port}, the usual one of {name}: set base_url to http://127.0.0.1:{port}/v1 to use it");
            findings.push(Finding { what: "local server", health: Health::Note, words });
        }
    }
    findings
}
