//! `posse tasks`: what was delegated here, and stopping it, speaking to it, or letting it go on in the background.
//!
//! A task is a session, so everything that takes a session's id takes a task's, and its name too. What another process
//! runs is told to it by letter; if that process dies before it has read the letter, it is taken back and this one acts.

pub(crate) mod home;
mod list;

use std::{collections::HashSet, sync::Arc};

use posse_api::{Client as _, below, shown_status, words};
use posse_engine::Ulids;
use posse_server::Local;
use posse_session::{Entry, EntryId, Event, Letter, Seq, Session, SessionId, Summary};

use crate::{
    args::{How, TasksArgs, TasksCmd},
    asks, build,
    exit::{Exit, Failure},
    print::{flat, to_stderr, to_stdout},
    run::{self, client_failure},
};

pub(crate) use list::lane_of;

pub(crate) async fn tasks(args: TasksArgs) -> Result<Exit, Failure> {
    match args.command {
        None => list::list(args.list.session.as_deref(), args.list.format).await,
        Some(TasksCmd::List(wanted)) => list::list(wanted.session.as_deref(), wanted.format).await,
        Some(TasksCmd::Stop { id: Some(id), .. }) => stop(&id).await,
        Some(TasksCmd::Stop { id: None, session, .. }) => stop_all(session.as_deref()).await,
        Some(TasksCmd::Detach { id }) => detach(&id).await,
        Some(TasksCmd::Diff { id, stat, format }) => home::diff(&id, stat, format).await,
        Some(TasksCmd::Merge { ids, onto, keep, format }) => home::merge(&ids, onto.as_deref(), keep, format).await,
        Some(TasksCmd::Discard { ids, format }) => home::discard(&ids, format).await,
        Some(TasksCmd::Wrote { path, format }) => home::wrote(path.as_deref(), format).await,
        Some(TasksCmd::Send { id, text, how }) => send(&id, &text.join(" "), *how).await,
    }
}

/// The task that is meant, or what to do with what is meant instead.
async fn task(id: &str, how: &How, instead: &str) -> Result<(Local, Summary), Failure> {
    let places = build::places(how.cwd.as_deref())?;
    let missing = || Failure::usage(format!("there is no task {id}: this project has no sessions yet"));
    let client = asks::client(&places)?.ok_or_else(missing)?;
    let found = match client.find(id).await {
        Ok(found) => found,
        Err(posse_api::ClientError::Missing(_)) => {
            let all = client.sessions().await.map_err(client_failure)?;
            return Err(Failure::usage(unknown(id, &all)));
        }
        Err(error) => return Err(client_failure(error)),
    };
    if found.is_task() {
        return Ok((client, found));
    }
    Err(Failure::usage(format!("{} is no task but a session of its own; `{instead} {}` is for those", found.session, found.session)))
}

/// Names that are listed where one was not found.
const NAMES_MAX: usize = 10;

/// Nothing is called so: what is, and what always works.
pub(crate) fn unknown(id: &str, all: &[Summary]) -> String {
    let names = posse_session::names(all);
    let mut tasks: Vec<&Summary> = all.iter().filter(|summary| summary.is_task()).collect();
    tasks.sort_by(|one, other| other.session.cmp(&one.session));
    let named = |task: &&Summary| names.get(&task.session).map(|name| format!("{name} = {} ({})", task.session, state(task)));
    let known: Vec<String> = tasks.iter().filter_map(named).take(NAMES_MAX).collect();
    let known = match (tasks.is_empty(), known.is_empty()) {
        (true, _) => "there are no tasks in this project".to_owned(),
        (false, true) => "no task of this project has a name".to_owned(),
        (false, false) => format!("names that exist: {}", known.join(", ")),
    };
    format!("there is no task {id}; {known}. A name means the last task that was given it; an id always works: `posse tasks` lists them")
}

fn state(summary: &Summary) -> &'static str {
    words::status(shown_status(summary))
}

async fn stop(id: &str) -> Result<Exit, Failure> {
    let (client, task) = task(id, &How::default(), "posse sessions stop").await?;
    if task.is_over() {
        return Err(Failure::failed(format!("{} is {}: there is nothing to stop", task.session, state(&task))));
    }
    to_stdout(&halt(&client, &task).await?);
    Ok(Exit::Done)
}

/// Every open task of one session, or of all that began in this directory; those below them end with them.
async fn stop_all(session: Option<&str>) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let Some(client) = asks::client(&places)? else {
        to_stderr("posse: no task runs in this project");
        return Ok(Exit::Done);
    };
    let all = client.sessions().await.map_err(client_failure)?;
    let within: HashSet<SessionId> = match session {
        Some(id) => {
            let top = client.find(id).await.map_err(client_failure)?.session;
            let mut within: HashSet<SessionId> = below(&all, &top).into_iter().collect();
            within.remove(&top);
            within
        }
        None => {
            let here = places.cwd.display().to_string();
            let begun: HashSet<&SessionId> = all.iter().filter(|root| root.directory == here).map(|root| &root.session).collect();
            all.iter().filter(|summary| begun.contains(&summary.root)).map(|summary| summary.session.clone()).collect()
        }
    };
    let open: Vec<&Summary> =
        all.iter().filter(|summary| summary.is_task() && !summary.is_over() && within.contains(&summary.session)).collect();
    let is_open = |id: &SessionId| open.iter().any(|summary| summary.session == *id);
    let tops = open.iter().filter(|summary| !summary.parent.as_ref().is_some_and(is_open));
    for task in tops {
        to_stdout(&halt(&client, task).await?);
    }
    if open.is_empty() {
        to_stderr("posse: no task is open here: there is nothing to stop");
    }
    Ok(Exit::Done)
}

/// Stops a session and all below it, whoever runs them, and says what came of it. Where nobody runs them it is recorded
/// in each, so that none of them goes on by itself when somebody does.
pub(crate) async fn halt(client: &Local, top: &Summary) -> Result<String, Failure> {
    let stop = Letter::Stop { tree: true };
    if client.deliver(&top.session, stop.clone()).await.map_err(client_failure)? == posse_api::Delivered::ToOwner {
        return Ok(format!("{} was told to stop", top.session));
    }
    let all = client.sessions().await.map_err(client_failure)?;
    let under = below(&all, &top.session);
    for summary in all.iter().filter(|summary| summary.session != top.session && !summary.is_over() && under.contains(&summary.session)) {
        client.deliver(&summary.session, stop.clone()).await.map_err(client_failure)?;
    }
    Ok(format!("{} was not running; nothing of it will go on by itself", top.session))
}

async fn detach(id: &str) -> Result<Exit, Failure> {
    let (client, task) = task(id, &How::default(), "posse run -s").await?;
    let nothing = |why: &str| Err(Failure::failed(format!("{} {why}", task.session)));
    if task.is_over() {
        return nothing(&format!("is {}: there is nothing to detach", state(&task)));
    }
    let Some(parent) = task.parent.clone() else { return nothing("was started by nobody: there is nothing to detach") };
    let facts = client.facts(&parent, 0).await.map_err(client_failure)?;
    let head = facts.last().map_or(0, |record| record.seq);
    let caller = Session::fold(parent.clone(), &facts);
    if caller.tasks().get(&task.session).is_some_and(|open| !open.foreground) {
        return nothing("runs in the background already");
    }
    if !client.is_run(&task.root).await.map_err(client_failure)?
        || !client.post(&parent, Letter::Detach { task: task.session.clone() }).await.map_err(client_failure)?
    {
        return nothing(&format!("is run by no process; `posse sessions resume {}` goes on with it", task.root));
    }
    if !happened(&client, &parent, head, |event| matches!(event, Event::Detached { task: gone } if *gone == task.session)).await? {
        return nothing("had ended, or its caller no longer waited for it");
    }
    to_stdout(&format!("{} goes on in the background; its caller {parent} works on and gets a notice at its end", task.session));
    Ok(Exit::Done)
}

/// Whether a session has recorded such a fact since then.
async fn happened(client: &Local, session: &SessionId, since: Seq, is: impl Fn(&Event) -> bool) -> Result<bool, Failure> {
    let facts = client.facts(session, since).await.map_err(client_failure)?;
    Ok(facts.iter().any(|record| is(&record.event)))
}

async fn send(id: &str, text: &str, how: How) -> Result<Exit, Failure> {
    let (client, task) = task(id, &how, "posse run -s").await?;
    if text.trim().is_empty() {
        return Err(Failure::usage("there is nothing to say: `posse tasks send ID|NAME TEXT`"));
    }
    let entry = Entry::user(EntryId::fresh(&Ulids::new(Arc::new(build::SystemClock))), text);
    let letter = Letter::Say { entry };
    let parent = task.parent.clone().unwrap_or_else(|| task.root.clone());
    let before = client.find(parent.as_str()).await.map_err(client_failure)?.head;
    if client.is_run(&task.root).await.map_err(client_failure)?
        && client.post(&task.session, letter.clone()).await.map_err(client_failure)?
    {
        let again =
            happened(&client, &parent, before, |event| matches!(event, Event::TaskResumed { task: woken, .. } if *woken == task.session));
        let came = if again.await? { "it had ended and works again" } else { "delivered; it works on" };
        to_stdout(&flat(&format!("{}  {}: {came}", task.session, task.agent)));
        return Ok(Exit::Done);
    }
    if !how.quiet {
        to_stderr(&format!("posse: no process runs {}; going on with it here", task.root));
    }
    // The same entry, so that what a process had taken in before it died is not said twice.
    run::deliver(&task, letter, how).await
}
