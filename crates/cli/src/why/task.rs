//! A task told by two logs: how each round began, who waited, how it ended, and where that end went or why it waits.

use posse_api::{Awaited, Began, Client as _, History, Round, Told, history, words};
use posse_server::Local;
use posse_session::{Record, Session, Summary};

use super::when;
use crate::{exit::Failure, run::client_failure};

/// Rounds that are told of; `sessions show` of its parent has them all.
const ROUNDS_MAX: usize = 20;

/// The history of a session that another one started; nothing of a root.
pub(super) async fn told(summary: &Summary, own: &[Record], client: &Local, running: bool) -> Result<Option<History>, Failure> {
    let Some(parent) = &summary.parent else { return Ok(None) };
    let above = client.facts(parent, 0).await.map_err(client_failure)?;
    let folded = Session::fold(parent.clone(), &above);
    Ok(history(&summary.session, &folded, &above, own, running))
}

pub(super) fn lines(history: &History) -> Vec<String> {
    let name = history.name.as_ref().map_or(String::new(), |name| format!(", named {name:?}"));
    let mut lines = vec![format!("  task     of {}{name}", history.parent)];
    let left_out = history.rounds.len().saturating_sub(ROUNDS_MAX);
    if 0 < left_out {
        lines.push(format!("           {left_out} earlier rounds are not shown"));
    }
    history.rounds.iter().skip(left_out).for_each(|round| lines.extend(round_lines(round)));
    lines
}

fn round_lines(round: &Round) -> Vec<String> {
    let began = match &round.by {
        Began::Call { call, tool } if round.foreground => format!("by {call} ({tool}), which waits for it"),
        Began::Call { call, tool } => format!("by {call} ({tool}), in the background"),
        Began::Message { by } => format!("again by a message of {by}, in the background"),
    };
    let mut lines = vec![format!("  round {:<3}started {began}, {}", round.round, when(round.began))];
    let mut more = |words: String| lines.push(format!("           {words}"));
    if let Some(at) = round.detached {
        more(format!("detached: it went on in the background, {}", when(at)));
    }
    round.awaited.iter().for_each(|awaited| more(waited(awaited)));
    if let Some(stopped) = &round.stopped {
        more(format!("told to stop{}, {}", words::stopped_by(stopped.by), when(stopped.at)));
    }
    match &round.ended {
        Some(end) => more(format!("{}: recorded in its own log {}", words::ended(end.how), when(end.at))),
        None => more("not ended: its own log has no end of this round, so whoever waits for it waits on".to_owned()),
    }
    if let Some(told) = &round.told {
        went(told).into_iter().for_each(&mut more);
    }
    if let Some(untold) = &round.untold {
        more(format!("not told yet: {untold}"));
    }
    lines
}

fn waited(awaited: &Awaited) -> String {
    let bound = match (awaited.over, awaited.until) {
        (true, _) => "it waits no more".to_owned(),
        (false, Some(until)) => format!("it waits until {}", super::clock_time(until)),
        (false, None) => "it waits without a bound".to_owned(),
    };
    format!("{} ({}) came to wait for its end, {}; {bound}", awaited.call, awaited.tool, when(awaited.at))
}

fn went(told: &Told) -> Vec<String> {
    match told {
        Told::Internal => vec!["told nobody: it was internal work".to_owned()],
        Told::Call { call, tool, at, read: false } => vec![format!("told as the result of {call} ({tool}), {}", when(*at))],
        Told::Call { call, tool, at, read: true } => {
            vec![format!("told as the result of {call} ({tool}), which read it, {}; so there is no notice", when(*at))]
        }
        Told::Notice { entry, queued, taken, dropped, waits } => {
            let mut lines = vec![format!("told by a notice, {entry}: queued {}", when(*queued))];
            if let Some(taken) = taken {
                lines.push(format!("the notice was taken at step {}, {}", taken.step, when(taken.at)));
            }
            if let Some(at) = dropped {
                lines.push(format!("the notice was dropped {}: the model had read the result by a call before", when(*at)));
            }
            lines.extend(waits.as_ref().map(|why| format!("the notice still waits: {why}")));
            lines
        }
    }
}
