//! `posse rules`: the rules in force in this folder, the lasting answers beside them, and what both come to.
//!
//! Judging is `rules/judge.rs`, checking a file of cases `rules/cases.rs`. How rules are read is `config`'s business, what
//! they mean is the kernel's.

mod cases;
mod judge;

use std::collections::HashMap;

use posse_api::{Client as _, Start, words};
use posse_server::Local;
use posse_session::{AskId, Clock as _, Granted, Letter, Rules, Timestamp};
use serde_json::json;

use crate::{
    args::{How, Listing, RulesCmd},
    asks, build,
    exit::{Exit, Failure},
    print::{safe, to_stdout},
    run::client_failure,
};

pub(crate) async fn rules(command: RulesCmd) -> Result<Exit, Failure> {
    match command {
        RulesCmd::List { format } => list(format).await,
        RulesCmd::Revoke { id } => revoke(&id).await,
        RulesCmd::Test { file, format } => cases::test(&file, format),
        RulesCmd::Judge { command: Some(command), format, .. } => judge::command(&command, format).await,
        RulesCmd::Judge { path, op, format, .. } => judge::path(path.as_deref().unwrap_or_default(), op, format).await,
    }
}

/// A lasting answer, and where it was given.
struct Lasting {
    granted: Granted,
    session: String,
    at: Option<Timestamp>,
}

async fn list(format: Listing) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let config = build::configuration(&places, &How::default())?;
    let book = config.rulebook();
    let lasting = match asks::client(&places)? {
        Some(client) => lasting(&client).await?,
        None => Vec::new(),
    };
    if format == Listing::Json {
        let rows = |rules: &Rules| rules.0.clone();
        let answers: Vec<_> = lasting.iter().map(row).collect();
        to_stdout(
            &json!({
                "mode": config.permission_mode.to_string(),
                "rules": rows(&book.rules),
                "ceiling": book.ceiling.iter().map(rows).collect::<Vec<_>>(),
                "granted": answers,
            })
            .to_string(),
        );
        return Ok(Exit::Done);
    }
    to_stdout(&format!("mode     {}", config.permission_mode));
    to_stdout("rules    the last one that matches wins; what none matches is asked about");
    table(&book.rules).iter().for_each(|line| to_stdout(line));
    for ceiling in &book.ceiling {
        to_stdout("and      this list by itself: the strictest counts");
        table(ceiling).iter().for_each(|line| to_stdout(line));
    }
    to_stdout("always   protected files are asked about whatever the rules and the mode say");
    if !lasting.is_empty() {
        to_stdout("answers  lift an ask, never a deny; `posse rules revoke ID` takes one back");
    }
    let now = build::SystemClock.now();
    for Lasting { granted, session, at } in &lasting {
        let age = at.map_or(String::new(), |at| format!("  {} ago", words::age(now.since(at))));
        let scope = words::scope_word(granted.scope);
        to_stdout(&safe(&format!("  {}  {scope:7}  {}  in {session}{age}", granted.ask, granted.grant)));
    }
    Ok(Exit::Done)
}

fn row(lasting: &Lasting) -> serde_json::Value {
    json!({
        "ask": lasting.granted.ask,
        "scope": lasting.granted.scope,
        "allows": lasting.granted.grant.to_string(),
        "key": lasting.granted.grant.key,
        "pattern": lasting.granted.grant.pattern,
        "exact": lasting.granted.grant.exact,
        "session": lasting.session,
        "at": lasting.at,
    })
}

pub(crate) fn table(rules: &Rules) -> Vec<String> {
    let name = |rule: &posse_session::Rule| safe(&format!("{}({})", rule.key, rule.pattern));
    let width = rules.0.iter().map(|rule| name(rule).chars().count()).max().unwrap_or(0).min(60);
    rules.0.iter().map(|rule| format!("  {:5}  {:width$}  {}", words::verdict(rule.action), name(rule), safe(&rule.origin))).collect()
}

/// Every lasting answer of the project, oldest first.
async fn lasting(client: &Local) -> Result<Vec<Lasting>, Failure> {
    let mut found = Vec::new();
    for summary in client.granting().await.map_err(client_failure)? {
        // An old log may not tell.
        let answered: HashMap<AskId, Timestamp> = client.answered(&summary.session).await.unwrap_or_default().into_iter().collect();
        for granted in summary.granted {
            let at = answered.get(&granted.ask).copied();
            found.push(Lasting { granted, session: summary.session.to_string(), at });
        }
    }
    found.sort_by(|a, b| a.granted.ask.cmp(&b.granted.ask));
    Ok(found)
}

async fn revoke(id: &str) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let missing = || Failure::usage(format!("{id} was not found among the lasting answers of this project; `posse rules list` shows them"));
    let client = asks::client(&places)?.ok_or_else(missing)?;
    let granting = client.granting().await.map_err(client_failure)?;
    let all = granting.iter().flat_map(|summary| summary.granted.iter().map(move |granted| (summary, &granted.ask)));
    let found = Start::new(id, AskId::PREFIX).only(all, |(_, ask)| ask.as_str()).map_err(client_failure)?;
    let (summary, ask) = found.ok_or_else(missing)?;
    client.deliver(&summary.session, Letter::Revoke { ask: ask.clone() }).await.map_err(client_failure)?;
    for granted in summary.granted.iter().filter(|granted| granted.ask == *ask) {
        to_stdout(&safe(&format!("{ask}  {} is asked about again ({})", granted.grant, words::scope_word(granted.scope))));
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::{args::AnswerWord, testing};

    #[tokio::test]
    async fn a_log_is_read_once_however_many_answers_it_holds() {
        let project = testing::with_open_asks(40).await;
        let open = project.client.asks().await.unwrap();
        assert!(asks::answer_all(&project.client, open, AnswerWord::Project, None).await.unwrap().iter().all(Result::is_ok));
        project.log.reads.store(0, Ordering::SeqCst);
        let lasting = lasting(&project.client).await.unwrap();
        assert_eq!((lasting.len(), lasting.iter().filter(|lasting| lasting.at.is_some()).count()), (40, 40));
        assert_eq!(project.log.reads.load(Ordering::SeqCst), 1);
    }
}
