//! `posse why`: explains a call, an ask, a session or task, or a tool that is not there, from the log and the rules in force.
//!
//! Everything said of the past is a recorded fact; only what is said of missing tools is about the rules of today.

mod task;
mod tools;

use std::path::Path;

use posse_api::{Account, Ask, Client as _, ClientError, History, Place, Waits, account, words};
use posse_config::Places;
use posse_server::Local;
use posse_session::{
    Agent, AskId, Birth, By, CallId, Clock as _, Event, Forks, Granted, Head, Outcome, Record, Scope, Session, SessionId, Summary,
    Timestamp,
};
use serde::Serialize;

use self::tools::{Book, MissingTool, Post};
use crate::{
    args::{How, Listing},
    asks, build,
    exit::{Exit, Failure},
    print::{safe, to_stdout},
    run::client_failure,
    tasks,
};

/// Denied calls of a session that are listed; `sessions show` has them all.
const DENIED_MAX: usize = 50;

pub(crate) async fn why(id: &str, agent: Option<&str>, format: Listing) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let is = |prefix: &str| id.starts_with(prefix);
    if !(is(CallId::PREFIX) || is(AskId::PREFIX) || is(SessionId::PREFIX)) {
        return match tools::tool(id, agent, &places, format)? {
            Some(exit) => Ok(exit),
            None => other(id, &places, format).await,
        };
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

/// `12:00:00`, in the time of this machine.
fn clock_time(at: Timestamp) -> String {
    let local = i64::try_from(at.0).ok().and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
    local.map_or_else(String::new, |time| time.to_zoned(jiff::tz::TimeZone::system()).strftime("%H:%M:%S").to_string())
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
    /// What it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<Waits>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rights: Option<Rights>,
    /// Of a task: its rounds, and where their ends went.
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<History>,
}

#[derive(Serialize)]
struct Denied {
    call: String,
    tool: String,
    what: String,
    why: String,
    by: &'static str,
}

async fn session(summary: &Summary, client: &Local, places: &Places, format: Listing) -> Result<Exit, Failure> {
    let store = build::open_store(places)?;
    let log: &dyn posse_session::Log = &*store;
    let records = client.facts(&summary.session, 0).await.map_err(client_failure)?;
    let running = client.is_run(&summary.root).await.map_err(client_failure)?;
    let folded = Session::fold(summary.session.clone(), &records);
    let mut open_asks = client.asks().await.map_err(client_failure)?;
    open_asks.retain(|ask| ask.session == summary.session);
    let found = SessionAccount {
        running,
        waits: waits_in(summary, running, places)?,
        rights: rights(&folded, places)?,
        task: task::told(summary, &records, client, running).await?,
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
    if let Some(waits) = &found.waits {
        let run = waits.run.as_ref().map_or(String::new(), |run| format!("; {run}"));
        lines.push(format!("  waits    for {}{run}", waits.words));
    }
    lines.extend(session.stand_in.iter().map(|model| format!("  model    {model} answers in place of {}", session.model)));
    lines.extend(session.kept.iter().map(|(call, title)| format!("  shell    {call} goes on in the background: {title}")));
    lines.extend(found.task.iter().flat_map(task::lines));
    lines.extend(found.rights.iter().flat_map(|rights| rights_lines(rights, &session.agent)));
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

/// What a session waits for, with the lane's name if it is that.
fn waits_in(summary: &Summary, running: bool, places: &Places) -> Result<Option<Waits>, Failure> {
    let config = build::configuration(places, &How::default())?;
    let mut node = posse_api::tree(std::slice::from_ref(summary), &summary.session, running, build::SystemClock.now());
    posse_api::name_lanes(&mut node, |model| tasks::lane_of(&config, model));
    Ok(node.pop().and_then(|node| node.waits))
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

/// Tools that the model of this session is not shown. What it was shown is recorded; what removes the others is asked of
/// the rules of today, in the folder where the session works.
async fn missing(session: &Session, log: &dyn posse_session::Log, places: &Places) -> Result<Vec<MissingTool>, Failure> {
    let Some(birth) = session.birth() else { return Ok(Vec::new()) };
    let directory = Path::new(&birth.directory);
    let elsewhere = directory.is_dir() && directory != places.cwd;
    let places = if elsewhere { build::places(Some(directory))? } else { places.clone() };
    let book = Book::of(&places)?;
    let head = match session.configured() {
        Some(configured) => log.blob(&configured.head).await.ok().and_then(|bytes| serde_json::from_slice::<Head>(&bytes).ok()),
        None => None,
    };
    let post = Post { agent: defined(birth).unwrap_or_default(), is_task: birth.parent.is_some(), above: &birth.ceiling };
    let absent = book.names.iter().filter(|name| match &head {
        Some(head) => !head.tools.iter().any(|spec| spec.name == **name),
        None => book.lacks(name, &post),
    });
    Ok(absent.map(|name| book.explained(name.clone(), &post)).collect())
}

/// The definition that a session was born with.
fn defined(birth: &Birth) -> Option<Agent> {
    serde_json::from_str(birth.recipe.definition.inline()?).ok()
}

/// How much a session is asked about, and whose rules count in it.
#[derive(Serialize)]
struct Rights {
    /// What its definition says, if it says anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    permission_mode: Option<String>,
    /// Where its agent was defined.
    origin: String,
    /// The mode of today's configuration.
    configured_mode: String,
    own_rules: usize,
    /// Lists of those above it, each judged whole.
    lists_above: usize,
}

fn rights(session: &Session, places: &Places) -> Result<Option<Rights>, Failure> {
    let Some(birth) = session.birth() else { return Ok(None) };
    let agent = defined(birth).unwrap_or_default();
    Ok(Some(Rights {
        permission_mode: agent.permission_mode.clone(),
        origin: agent.origin.clone(),
        configured_mode: build::configuration(places, &How::default())?.permission_mode.to_string(),
        own_rules: agent.own_rules.len() + agent.permission.len(),
        lists_above: birth.ceiling.len(),
    }))
}

fn rights_lines(rights: &Rights, agent: &str) -> Vec<String> {
    let origin = &rights.origin;
    let mode = match &rights.permission_mode {
        Some(mode) => format!("{mode} by the definition of {agent} ({origin}), which tightens what the user set and never widens it"),
        None => format!(
            "{} by the configuration of today: the definition of {agent} ({origin}) names none; flags of a run count before it",
            rights.configured_mode
        ),
    };
    let above = match rights.lists_above {
        0 => String::new(),
        1 => ", and 1 list of rules of the session above it: its denies and asks hold here, its allows do not".to_owned(),
        lists => format!(", and {lists} lists of rules of the sessions above it: their denies and asks hold here, their allows do not"),
    };
    vec![
        format!("  mode     {mode}"),
        format!("  rules    {} of {agent} itself{above}; `posse agents show {agent}` and `posse rules list` show them", rights.own_rules),
    ]
}

/// Whether a model may fork its session here, and what else keeps it from that.
fn of_forks(places: &Places) -> Result<String, Failure> {
    let config = build::configuration(places, &How::default())?;
    let dialect = build::dialect(&config, None)?;
    let word = |forks: Forks| match forks {
        Forks::Off => "off",
        Forks::Explicit => "explicit: a call with `subagent_type: \"fork\"` forks",
        Forks::Implicit if config.background() => "implicit: a call that names no agent forks, and no call waits",
        Forks::Implicit => "implicit: a call that names no agent forks; calls wait for their results, because `background` is false",
    };
    let ((here, why), (headless, why_headless)) = (build::forks(&config, None, dialect, true), build::forks(&config, None, dialect, false));
    let mut words = format!("forks at a terminal are {} ({why})", word(here));
    if (headless, why_headless) != (here, why) {
        words.push_str(&format!("; without one they are {} ({why_headless})", word(headless)));
    }
    let rules = posse_config::agents(places, &config, None)
        .ok()
        .and_then(|agents| agents.get(posse_session::FORK).map(|agent| agent.origin.to_string()));
    if let Some(origin) = rules {
        words.push_str(&format!("; an agent of this name, {origin}, takes its place"));
    }
    words.push_str(". Not from a fork itself, not below `limits.depth`, not where a rule denies task(fork); `--fork off|explicit|implicit` says it for one run");
    Ok(words)
}

/// Neither an id nor a tool: perhaps the name of a task, or of something that is not built.
async fn other(name: &str, places: &Places, format: Listing) -> Result<Exit, Failure> {
    if name.eq_ignore_ascii_case("fork") {
        return said(name, &of_forks(places)?, format);
    }
    if name.starts_with("mcp__") {
        return said(name, "MCP servers are not built in this version, so no agent has a tool of one", format);
    }
    let all = match asks::client(places)? {
        Some(client) => match client.find(name).await {
            Ok(summary) => return session(&summary, &client, places, format).await,
            Err(ClientError::Missing(_)) => client.sessions().await.map_err(client_failure)?,
            Err(error) => return Err(client_failure(error)),
        },
        None => Vec::new(),
    };
    let tools = Book::of(places)?.names.join(", ");
    let unknown = tasks::unknown(name, &all);
    Err(Failure::usage(format!(
        "{name} was not found: expected a call_…, ask_… or ses_… id, the name of a task, or a tool: {tools}. {unknown}"
    )))
}

/// Something that is not there, and why.
fn said(name: &str, why: &str, format: Listing) -> Result<Exit, Failure> {
    if format == Listing::Json {
        to_stdout(&serde_json::json!({"name": name, "offered": false, "why": why}).to_string());
    } else {
        to_stdout(&safe(&format!("{name}  {why}")));
    }
    Ok(Exit::Done)
}
