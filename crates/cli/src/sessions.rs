//! `posse sessions`: what was run here, and what to do with it.

pub(crate) mod backup;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod rm;
pub(crate) mod tree;

use posse_api::{Client as _, is_task, task_lines, transcript, words};
use posse_server::Local;
use posse_session::{Clock as _, Event, Kind, Summary};

use crate::{
    args::{How, Listing, SessionsCmd},
    build,
    exit::{Exit, Failure},
    print::{flat, safe, to_stderr, to_stdout, to_stdout_part},
    run, summary, tasks, title, undo,
};

pub(crate) async fn sessions(command: SessionsCmd) -> Result<Exit, Failure> {
    match command {
        SessionsCmd::List { limit, all, format } => list(shown(limit, all, format), format).await,
        SessionsCmd::Show { id, summary: true, format, .. } => summary::show(&id, format).await,
        SessionsCmd::Show { id, edits: true, format, .. } => undo::show_edits(&id, format).await,
        SessionsCmd::Show { id, all, format, .. } => show(&id, all, format).await,
        SessionsCmd::Undo { id, agent, call, format } => undo::undo(&id, agent.as_deref(), call.as_deref(), format).await,
        SessionsCmd::Tree { id, format } => tree::tree(id.as_deref(), format).await,
        SessionsCmd::Export { id, format, whole } => export::export(&id, format, whole).await,
        SessionsCmd::Import { file, options } => import::import(&file, options).await,
        SessionsCmd::Resume { id, how } => run::resume(&id, *how).await,
        SessionsCmd::Fork { id, at, how } => run::fork::fork(&id, at, *how).await,
        SessionsCmd::Stop { id } => stop(&id).await,
        SessionsCmd::Title { id, title: words } => title::title(&id, &words).await,
        SessionsCmd::Rm { older_than: Some(age), dry_run, .. } => rm::remove_older(age, dry_run).await,
        SessionsCmd::Rm { ids, .. } => rm::remove(&ids).await,
        SessionsCmd::Backup { file, force, format } => backup::backup(&file, force, format).await,
    }
}

/// A screen or two; whoever has more has a reason to look for one of them.
const LISTED: usize = 50;

fn shown(limit: Option<usize>, all: bool, format: Listing) -> usize {
    limit.unwrap_or(if all || format == Listing::Json { usize::MAX } else { LISTED })
}

async fn list(most: usize, format: Listing) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let here = places.cwd.display().to_string();
    let mut roots: Vec<Summary> = if posse_store::Sqlite::is_in(places.project_data_dir()) {
        let client = Local::new(build::world(build::open_store(&places)?, &places, &build::configuration(&places, &How::default())?));
        let all = client.sessions().await.map_err(run::client_failure)?;
        all.into_iter().filter(|summary| summary.kind == Some(Kind::Root) && summary.directory == here).collect()
    } else {
        Vec::new()
    };
    let more = roots.len().saturating_sub(most);
    roots.truncate(most);
    if format == Listing::Json {
        to_stdout(&serde_json::to_string(&roots).unwrap_or_default());
        return Ok(Exit::Done);
    }
    if roots.is_empty() {
        to_stderr(&format!("posse: no sessions in {here} yet; `posse run \"...\"` begins one"));
    }
    let now = build::SystemClock.now();
    for root in roots {
        to_stdout(&format!(
            "{}  {:9}  {:>7} ago  {:>9}  {:>8}  {}",
            root.session,
            words::status(root.status),
            words::age(now.since(root.updated)),
            words::count(root.steps, "step"),
            words::cost(&root.usage),
            safe(&root.title)
        ));
    }
    if 0 < more {
        to_stderr(&format!("posse: and {more} more; --all lists them"));
    }
    Ok(Exit::Done)
}

/// Records read and printed at once: a session may be longer than memory.
const PAGE: usize = 500;

/// What is shown of a long session unless all of it is asked for: its last records, some hundreds of steps.
const SHOWN_RECORDS: u64 = 2_000;

/// Where a session came from is among its first facts.
const BEGINNING: usize = 3;

async fn show(id: &str, all: bool, format: Listing) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let client = Local::new(build::world(build::open_store(&places)?, &places, &build::configuration(&places, &How::default())?));
    let summary = client.find(id).await.map_err(run::client_failure)?;
    let mut tasks = tree::nodes(&client, &summary).await?;
    tasks.retain(|node| node.depth == 1 && is_task(node));
    if format == Listing::Json {
        return show_json(&client, &summary, &tasks).await;
    }
    to_stdout(&format!("{}  {}  {}  {}", summary.session, words::status(summary.status), summary.agent, summary.model));
    to_stdout(&format!(
        "{} · {} · {} tokens · {}\n",
        words::count(summary.steps, "step"),
        words::count(summary.calls, "call"),
        words::tokens(summary.usage.tokens()),
        words::cost(&summary.usage)
    ));
    if let Some(parent) = &summary.parent {
        to_stdout(&format!("started by {parent}: {}\n", safe(&summary.title)));
    }
    let begins = client.page(&summary.session, 0, BEGINNING).await.map_err(run::client_failure)?;
    for segment in
        begins.iter().filter_map(|record| if let Event::Forked { segments } = &record.event { Some(segments) } else { None }).flatten()
    {
        to_stdout(&format!("begins with {}, its records {} to {}\n", segment.session, segment.from + 1, segment.to));
    }
    let mut after = if all { 0 } else { summary.head.saturating_sub(SHOWN_RECORDS) };
    if 0 < after {
        let earlier = words::count(after, "earlier record");
        to_stdout(&format!("({earlier} not shown; `posse sessions show {} --all` shows all)\n", summary.session));
    }
    loop {
        let facts = client.page(&summary.session, after, PAGE).await.map_err(run::client_failure)?;
        let Some(last) = facts.last() else { break };
        after = last.seq;
        for block in transcript(&facts) {
            to_stdout(&safe(&block));
        }
    }
    if !tasks.is_empty() {
        to_stdout("\ntasks:");
        task_lines(&tasks, build::SystemClock.now()).iter().for_each(|line| to_stdout(&flat(line)));
    }
    Ok(Exit::Done)
}

/// One object, written piece by piece.
async fn show_json(client: &Local, summary: &Summary, tasks: &[posse_api::Node]) -> Result<Exit, Failure> {
    let session = serde_json::json!(summary);
    to_stdout_part(&format!("{{\"session\":{session},\"events\":["));
    let (mut lines, mut after) = (posse_api::Lines::new(summary.session.clone()), 0);
    loop {
        let facts = client.page(&summary.session, after, PAGE).await.map_err(run::client_failure)?;
        let Some(last) = facts.last() else { break };
        let separator = if after == 0 { "" } else { "," };
        after = last.seq;
        let events: Vec<String> = facts.iter().map(|record| lines.line(record).to_string()).collect();
        to_stdout_part(&format!("{separator}{}", events.join(",")));
    }
    to_stdout(&format!("],\"tasks\":{}}}", serde_json::json!(tasks)));
    Ok(Exit::Done)
}

/// Stops a session and all below it, whoever runs them. Where nobody does it is recorded: nothing is run for it.
async fn stop(id: &str) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let config = build::configuration(&places, &How::default())?;
    let hub = build::hub(&places, &config)?;
    let client = Local::new(hub.world().clone());
    let summary = client.find(id).await.map_err(run::client_failure)?;
    let running = client.is_run(&summary.root).await.map_err(run::client_failure)?;
    if !running && hub.read(&summary.session).await.map_err(run::open_failure)?.session.is_settled() {
        to_stdout(&format!("{} was not running", summary.session));
        return Ok(Exit::Done);
    }
    to_stdout(&tasks::halt(&client, &summary).await?);
    Ok(Exit::Done)
}
