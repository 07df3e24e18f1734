//! `posse why`: explains a call, an ask, a session, or a tool that is not there, from the log and the rules in force.
//!
//! Everything said of the past is a recorded fact; only what is said of missing tools is about the rules of today.

use std::path::Path;

use posse_api::{Account, Ask, Client as _, Place, account, words};
use posse_config::{Places, Rulebook};
use posse_engine::read_all;
use posse_server::Local;
use posse_session::{
    AskId, By, CallId, Clock as _, Event, Granted, Head, Outcome, Record, Rule, Scope, Session, SessionId, Summary, Timestamp, key_of,
};
use serde::Serialize;

use crate::{
    args::{How, Listing},
    asks, build,
    exit::{Exit, Failure},
    print::{safe, to_stdout},
    run::{client_failure, open_failure},
};

/// Denied calls of a session that are listed; `sessions show` has them all.
const DENIED_MAX: usize = 50;

pub(crate) async fn why(id: &str, format: Listing) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let is = |prefix: &str| id.starts_with(prefix);
    if !(is(CallId::PREFIX) || is(AskId::PREFIX) || is(SessionId::PREFIX)) {
        return tool(id, &places, format);
    }
    let unknown = || Failure::usage(format!("{id} was not found: this project has no sessions yet"));
    let client = asks::client(&places)?.ok_or_else(unknown)?;
    if is(SessionId::PREFIX) {
        let summary = client.find(id).await.map_err(client_failure)?;
        return session(&summary, &client, &places, format).await;
    }
    let found = if is(CallId::PREFIX) { client.find_call(id).await } else { client.find_ask(id).await };
    let Place { summary, call } = found.map_err(client_failure)?;
    let facts = client.facts_of(&summary.session, std::slice::from_ref(&call)).await.map_err(client_failure)?;
    let account = account(&summary, &facts, &call).ok_or_else(|| Failure::usage(format!("{id} was not found")))?;
    if format == Listing::Json {
        to_stdout(&serde_json::to_string(&account).unwrap_or_default());
    } else {
        told(&account).iter().for_each(|line| to_stdout(&safe(line)));
    }
    Ok(Exit::Done)
}

fn told(account: &Account) -> Vec<String> {
    let mut lines = vec![
        format!("{}  {} {}", account.call, account.tool, account.title),
        format!("  in       {} ({}), {}", account.session, account.agent, when(account.at)),
    ];
    lines.extend(account.touches.iter().map(|touch| format!("  touches  {touch}")));
    let verdict = account.verdict.map_or("none", words::verdict);
    lines.push(format!("  verdict  {verdict}: {}", account.why));
    if !account.what.is_empty() && !account.touches.contains(&account.what) {
        lines.push(format!("  about    {}", account.what));
    }
    if !account.hook.is_empty() {
        lines.push(format!("  hook     {} looked at it first", account.hook));
    }
    if let Some(ask) = &account.ask {
        lines.push(format!("  asked    {}, {}", ask.ask, when(ask.at)));
        if !ask.offers.is_empty() {
            lines.push(format!("  wider    {}", ask.offers.join(", ")));
        }
        match &ask.answer {
            Some(answer) => {
                let say = if answer.say.is_empty() { String::new() } else { format!(": {}", answer.say) };
                let back = if answer.revoked { "; taken back since" } else { "" };
                lines.push(format!("  answer   {}{say}, by {}, {}{back}", answer.answer, answer.answered_by, when(answer.answered_at)));
            }
            None if account.outcome.is_none() => lines.push(format!("  answer   none yet: posse asks answer {} ...", ask.ask)),
            None => lines.push("  answer   none: it was withdrawn".to_owned()),
        }
    }
    lines.push(format!("  outcome  {}", account.outcome.unwrap_or("still open")));
    if !account.told.is_empty() {
        lines.push(format!("  told     {}", account.told.replace('\n', "\n           ")));
    }
    lines
}

/// `2026-01-31 12:00:00 (3 min ago)`.
fn when(at: Timestamp) -> String {
    let ago = words::age(build::SystemClock.now().since(at));
    let local = i64::try_from(at.0).ok().and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
    let zoned = local.map(|time| time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string());
    zoned.map_or_else(|| format!("{ago} ago"), |time| format!("{time} ({ago} ago)"))
}

#[derive(Serialize)]
struct SessionAccount {
    session: Summary,
    /// Whether a living process runs it.
    running: bool,
    /// Why it stands still, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    hold: Option<&'static str>,
    #[serde(skip_serializing_if = "String::is_empty")]
    error: String,
    open_asks: Vec<Ask>,
    granted: Vec<Granted>,
    denied: Vec<Denied>,
    missing_tools: Vec<MissingTool>,
}

#[derive(Serialize)]
struct Denied {
    call: String,
    tool: String,
    what: String,
    why: String,
    by: &'static str,
}

#[derive(Serialize)]
struct MissingTool {
    tool: String,
    /// The rule of today that removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    origin: String,
    why: String,
}

async fn session(summary: &Summary, client: &Local, places: &Places, format: Listing) -> Result<Exit, Failure> {
    let store = build::open_store(places)?;
    let log: &dyn posse_session::Log = &*store;
    let records = read_all(log, &summary.session, 0).await.map_err(|error| open_failure(error.into()))?;
    let folded = Session::fold(summary.session.clone(), &records);
    let mut open_asks = client.asks().await.map_err(client_failure)?;
    open_asks.retain(|ask| ask.session == summary.session);
    let found = SessionAccount {
        running: client.is_run(&summary.root).await.map_err(client_failure)?,
        hold: folded.hold().map(words::hold),
        error: folded.round().error.clone(),
        open_asks,
        granted: granted(summary, &client.granting().await.map_err(client_failure)?),
        denied: denied(summary, &records),
        missing_tools: missing(&folded, log, places).await?,
        session: summary.clone(),
    };
    if format == Listing::Json {
        to_stdout(&serde_json::to_string(&found).unwrap_or_default());
    } else {
        described(&found).iter().for_each(|line| to_stdout(&safe(line)));
    }
    Ok(Exit::Done)
}

fn described(found: &SessionAccount) -> Vec<String> {
    let session = &found.session;
    let mut lines = vec![
        format!("{}  {}", session.session, session.title),
        format!("  born     {}: agent {}, model {}, in {}", when(session.created), session.agent, session.model, session.directory),
        format!(
            "  status   {}{}",
            words::status(session.status),
            if found.running { ", a process runs it" } else { ", no process runs it" }
        ),
    ];
    lines.extend(found.hold.map(|hold| format!("  held     {hold}")));
    if !found.error.is_empty() {
        lines.push(format!("  error    {}", found.error));
    }
    lines.extend(found.open_asks.iter().map(|ask| format!("  asks     {}  {} ({})", ask.ask, ask.what, ask.why)));
    for granted in &found.granted {
        lines.push(format!("  allowed  {} by {} (for the {})", granted.grant, granted.ask, words::scope_word(granted.scope)));
    }
    for denied in &found.denied {
        lines.push(format!("  denied   {}  {} {}, by {} ({})", denied.call, denied.tool, denied.what, denied.by, denied.why));
    }
    lines.extend(found.missing_tools.iter().map(|missing| format!("  without  {}: {}", missing.tool, missing.why)));
    lines
}

/// What answers allow in this session: its own, and those that reach it from elsewhere.
fn granted(summary: &Summary, granting: &[Summary]) -> Vec<Granted> {
    let reaches = |other: &Summary, granted: &Granted| match granted.scope {
        Scope::Project => true,
        Scope::Tree => other.root == summary.root,
        Scope::Session | Scope::Once => other.session == summary.session,
    };
    let all = granting.iter().flat_map(|other| other.granted.iter().filter(move |granted| reaches(other, granted)));
    all.cloned().collect()
}

fn denied(summary: &Summary, records: &[Record]) -> Vec<Denied> {
    let refused = records.iter().filter_map(|record| match &record.event {
        Event::CallFinished { call, outcome: Outcome::Denied { .. } } => Some(call),
        _ => None,
    });
    let accounts = refused.filter_map(|call| account(summary, records, call)).take(DENIED_MAX);
    accounts
        .map(|account| {
            let answer = account.ask.as_ref().and_then(|ask| ask.answer.as_ref());
            let by = match answer.map(|answer| answer.by) {
                Some(By::User) => "a person",
                Some(_) => "policy: nobody could be asked",
                None => "a rule",
            };
            Denied { call: account.call, tool: account.tool, what: account.what, why: account.why, by }
        })
        .collect()
}

/// Tools that the model of this session is not shown. What it was shown is recorded; which rule removes the others is
/// asked of the rules of today, in the folder where the session works.
async fn missing(session: &Session, log: &dyn posse_session::Log, places: &Places) -> Result<Vec<MissingTool>, Failure> {
    let directory = session.birth().map(|birth| birth.directory.clone()).unwrap_or_default();
    let elsewhere = Path::new(&directory).is_dir() && Path::new(&directory) != places.cwd;
    let places = if elsewhere { build::places(Some(Path::new(&directory)))? } else { places.clone() };
    let book = Book::of(&places)?;
    let head = match session.configured() {
        Some(configured) => log.blob(&configured.head).await.ok().and_then(|bytes| serde_json::from_slice::<Head>(&bytes).ok()),
        None => None,
    };
    let tools = posse_tools::builtin();
    let absent = tools.iter().map(|tool| tool.spec().name.clone()).filter(|name| match &head {
        Some(head) => !head.tools.iter().any(|spec| spec.name == *name),
        None => book.removing(name).is_some(),
    });
    Ok(absent.map(|name| book.explained(name)).collect())
}

/// The rules of today, asked about tools.
struct Book(Rulebook);

impl Book {
    fn of(places: &Places) -> Result<Self, Failure> {
        Ok(Self(build::configuration(places, &How::default())?.rulebook()))
    }

    fn removing(&self, tool: &str) -> Option<&Rule> {
        build::removed_by(&self.0, tool)
    }

    fn explained(&self, tool: String) -> MissingTool {
        match self.removing(&tool) {
            Some(rule) => {
                let name = format!("{}({})", rule.key, rule.pattern);
                let why = format!("removed by {name} from {}", rule.origin);
                MissingTool { tool, rule: Some(name), origin: rule.origin.clone(), why }
            }
            None => {
                let why = if key_of(&tool) == "question" {
                    "offered only where somebody can answer: on a terminal, or with --on-ask wait"
                } else {
                    "no rule of today removes it: a flag of that run did, or the rules have changed, or posse has"
                };
                MissingTool { tool, rule: None, origin: String::new(), why: why.to_owned() }
            }
        }
    }
}

/// Whether a tool is offered in this folder.
fn tool(name: &str, places: &Places, format: Listing) -> Result<Exit, Failure> {
    let tools = posse_tools::builtin();
    let names: Vec<&str> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
    let Some(known) = names.iter().find(|known| known.eq_ignore_ascii_case(name)) else {
        let words = format!("{name} was not found: expected a call_…, ask_… or ses_… id, or a tool: {}", names.join(", "));
        return Err(Failure::usage(words));
    };
    let book = Book::of(places)?;
    let removed = book.removing(known).is_some();
    let found = book.explained((*known).to_owned());
    let why = match () {
        () if removed => found.why.clone(),
        () if key_of(known) == "question" => found.why.clone(),
        () => "offered: no rule removes it".to_owned(),
    };
    if format == Listing::Json {
        let fields = serde_json::json!({"tool": known, "offered": !removed, "rule": found.rule, "origin": found.origin, "why": why});
        to_stdout(&fields.to_string());
    } else {
        to_stdout(&safe(&format!("{known}  {why}")));
    }
    Ok(Exit::Done)
}
