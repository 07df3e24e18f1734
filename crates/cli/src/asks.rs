//! `posse asks`: what waits for a person's permission in this project, and answering it from any terminal.
//!
//! An answer goes by letter to the process that runs the session; where nobody does, it is recorded and counts when the
//! session goes on. What an answer means is the kernel's business, asking at the terminal of a run is `inline.rs`.

use std::collections::HashMap;

use posse_api::{Account, AnswerAccount, Ask, Client as _, ClientError, Delivered, Place, Start, account, below, details, words};
use posse_config::Places;
use posse_server::Local;
use posse_session::{Answer, AskId, By, CallId, Clock as _, Event, Letter, OpenAsk, Record, Scope, SessionId, Source, Summary};

use crate::{
    args::{AnswerWord, AsksCmd, How, Listing},
    build,
    exit::{Exit, Failure},
    print::{flat, safe, to_stderr, to_stdout},
    run::client_failure,
};

pub(crate) async fn asks(command: AsksCmd) -> Result<Exit, Failure> {
    match command {
        AsksCmd::List { format } => list(format).await,
        AsksCmd::Answer { id, answer, say } => answer_to(&id, answer, say.as_deref()).await,
    }
}

/// The sessions of this folder's project. `None` when there are none yet: then nothing is made for them either.
pub(crate) fn client(places: &Places) -> Result<Option<Local>, Failure> {
    if !posse_store::Sqlite::is_in(places.project_data_dir()) {
        return Ok(None);
    }
    Ok(Some(Local::new(build::world(build::open_store(places)?, places, &build::configuration(places, &How::default())?))))
}

async fn list(format: Listing) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let open = match client(&places)? {
        Some(client) => client.asks().await.map_err(client_failure)?,
        None => Vec::new(),
    };
    if format == Listing::Json {
        to_stdout(&serde_json::to_string(&open).unwrap_or_default());
        return Ok(Exit::Done);
    }
    if open.is_empty() {
        to_stderr("posse: nothing waits for an answer in this project");
    }
    for ask in &open {
        block(ask).iter().for_each(|line| to_stdout(line));
    }
    Ok(Exit::Done)
}

fn block(ask: &Ask) -> Vec<String> {
    let age = words::age(build::SystemClock.now().since(ask.since));
    let mut lines = vec![format!("{}  {}  {age} ago  {} in {}", ask.ask, flat(&ask.tool), flat(&ask.who()), ask.session)];
    lines.extend(request(ask).into_iter().map(|line| format!("    {line}")));
    lines.push(if ask.waiting {
        format!("    waits  a process: posse asks answer {} {}", ask.ask, words_of(ask))
    } else {
        format!("    waits  nobody runs {0}; answer it, then `posse sessions resume {0}` goes on", ask.session)
    });
    lines
}

/// What an ask is about, for somebody who has to decide: what would be done, why it is asked, what a wider yes allows.
/// The words are the model's: nothing in them moves a cursor or begins a line of ours.
pub(crate) fn request(ask: &Ask) -> Vec<String> {
    let mut lines = Vec::new();
    for question in &ask.questions {
        lines.push(format!("asks   {}", flat(&question.text)));
        for (at, option) in question.options.iter().enumerate() {
            let more = if option.description.is_empty() { String::new() } else { format!(": {}", flat(&option.description)) };
            lines.push(format!("   {}  {}{more}", at + 1, flat(&option.label)));
        }
    }
    if ask.is_question() {
        lines.extend((1 < ask.questions.len()).then(|| "   several answers are separated by semicolons, in this order".to_owned()));
        return lines;
    }
    lines.push(format!("what   {}", flat(&ask.what)));
    lines.extend(details(&ask.input).iter().map(|line| format!("     | {}", safe(line))));
    lines.push(format!("why    {}", flat(&ask.why)));
    if !ask.offers.is_empty() {
        lines.push(format!("wider  {}", flat(&ask.offers.join(", "))));
    }
    lines
}

/// What can be said to an ask.
pub(crate) fn words_of(ask: &Ask) -> &'static str {
    if ask.is_question() { "once --say TEXT|NUMBER" } else { "once|session|tree|project|no" }
}

async fn answer_to(id: &str, word: AnswerWord, say: Option<&str>) -> Result<Exit, Failure> {
    let places = build::places(None)?;
    let Some(client) = client(&places)? else {
        return Err(client_failure(ClientError::NoAsk(id.to_owned())));
    };
    if id.starts_with(SessionId::PREFIX) {
        return answer_below(&client, id, word, say).await;
    }
    let open = client.asks().await.map_err(client_failure)?;
    let told = match Start::new(id, AskId::PREFIX).only(open, |ask| ask.ask.as_str()).map_err(client_failure)? {
        Some(ask) => {
            let answer = composed(&ask, word, say)?;
            settle(&client, ask, answer).await?
        }
        None => answer_late(&client, id, word, say).await?,
    };
    to_stdout(&told);
    Ok(Exit::Done)
}

/// Answers an ask that was closed before anybody had answered: what it allows counts from now on, and the agent is told.
async fn answer_late(client: &Local, id: &str, word: AnswerWord, say: Option<&str>) -> Result<String, Failure> {
    let Place { summary, call } = client.find_ask(id).await.map_err(client_failure)?;
    let of_call = || client.facts_of(&summary.session, std::slice::from_ref(&call));
    let facts = of_call().await.map_err(client_failure)?;
    let unknown = || client_failure(ClientError::NoAsk(id.to_owned()));
    let known = account(&summary, &facts, &call).ok_or_else(unknown)?;
    let answered_by = known.ask.as_ref().and_then(|asked| asked.answer.as_ref()).map(|answer| answer.by);
    let closed = asked(&summary, &facts, &known).filter(|_| matches!(answered_by, None | Some(By::Policy)));
    let Some(closed) = closed else { return Err(Failure::usage(too_late(&known))) };
    let answer = composed(&closed, word, say)?;
    let head = client.find(summary.session.as_str()).await.map_err(client_failure)?.head;
    let brought = Brought::bring(client, closed, answer).await?;
    let after = account(&summary, &of_call().await.map_err(client_failure)?, &call).ok_or_else(unknown)?;
    if !brought.is_taken(&after) {
        return Err(Failure::usage(too_late(&after)));
    }
    let since = client.facts(&summary.session, head).await.map_err(client_failure)?;
    let queued = since.iter().any(|record| {
        matches!(&record.event, Event::Queued { entry } if matches!(&entry.source, Source::Answer { ask } if *ask == brought.ask.ask))
    });
    Ok(brought.told_late(&after, queued))
}

/// The ask of a call as it was put.
fn asked(summary: &Summary, facts: &[Record], account: &Account) -> Option<Ask> {
    let wanted = &account.ask.as_ref()?.ask;
    facts.iter().find_map(|record| match &record.event {
        Event::Asked { ask, call, decision } if ask == wanted => {
            let put = OpenAsk { ask: ask.clone(), call: call.clone(), at: record.at, decision: decision.clone() };
            Some(Ask::new(summary, &put, facts, false))
        }
        _ => None,
    })
}

fn too_late(account: &Account) -> String {
    let ago = |at| words::age(build::SystemClock.now().since(at));
    match account.ask.as_ref().map(|asked| (asked.ask.to_string(), &asked.answer)) {
        Some((ask, Some(answer))) => format!(
            "{ask} was answered already: {} by {}, {} ago; `posse why {ask}` tells more",
            answer.answer,
            answer.answered_by,
            ago(answer.answered_at)
        ),
        Some((ask, None)) => {
            let how = account.outcome.unwrap_or("withdrawn");
            format!("{ask} is no longer open: its call is {how}; `posse why {ask}` tells more")
        }
        None => format!("{} was never asked about", account.call),
    }
}

fn composed(ask: &Ask, word: AnswerWord, say: Option<&str>) -> Result<Answer, Failure> {
    let said = say.map(str::trim).filter(|say| !say.is_empty());
    let scope = match word {
        AnswerWord::No => return Ok(Answer::No { say: said.unwrap_or_default().to_owned() }),
        AnswerWord::Once => Scope::Once,
        AnswerWord::Session => Scope::Session,
        AnswerWord::Tree => Scope::Tree,
        AnswerWord::Project => Scope::Project,
    };
    match (ask.is_question(), said, scope) {
        (true, Some(said), Scope::Once) => Ok(Answer::Words { say: said.to_owned() }),
        (true, ..) => Err(Failure::usage(format!(
            "{} is a question: answer it with words, as in `posse asks answer {} once --say \"...\"`\n{}",
            ask.ask,
            ask.ask,
            request(ask).join("\n")
        ))),
        (false, Some(_), _) => Err(Failure::usage("--say goes with `no`, or with the answer to a question; a yes has no words")),
        (false, None, scope) => Ok(Answer::Yes { scope }),
    }
}

/// An answer that was brought, and to whom.
struct Brought {
    ask: Ask,
    answer: Answer,
    delivered: Delivered,
}

impl Brought {
    async fn bring(client: &Local, ask: Ask, answer: Answer) -> Result<Self, Failure> {
        let letter = Letter::Answer { ask: ask.ask.clone(), answer: answer.clone() };
        let delivered = client.deliver(&ask.session, letter).await.map_err(client_failure)?;
        Ok(Self { ask, answer, delivered })
    }

    /// Whether it is this answer that counts.
    fn is_taken(&self, account: &Account) -> bool {
        let taken = |recorded: &AnswerAccount| recorded.by == By::User && recorded.answer == words::answer(&self.answer);
        account.ask.as_ref().and_then(|asked| asked.answer.as_ref()).is_some_and(taken)
    }

    /// What the answer means.
    fn came(&self) -> String {
        let Self { ask, answer, .. } = self;
        match answer {
            Answer::Yes { scope: Scope::Once } => format!("allowed once: {}", ask.what),
            Answer::Yes { scope } => format!("allowed for the {}: {}", words::scope_word(*scope), ask.offers.join(", ")),
            Answer::No { say } if say.is_empty() => "refused; the model is told".to_owned(),
            Answer::No { .. } => "refused; the model is told why".to_owned(),
            Answer::Words { say } => format!("answered: {say}"),
        }
    }

    /// The same of an answer to an ask whose call is over. `queued`: it waits to be said to the agent.
    fn told_late(&self, account: &Account, queued: bool) -> String {
        let Self { ask, answer, delivered } = self;
        let came = match answer {
            // Nothing runs by it.
            Answer::Yes { scope: Scope::Once } => format!("yes to {}", ask.what),
            Answer::No { .. } => "refused".to_owned(),
            _ => self.came(),
        };
        let how = account.outcome.unwrap_or("closed");
        let then = match (queued, delivered) {
            (true, Delivered::ToOwner) => "the agent is told at its next step".to_owned(),
            (true, Delivered::Recorded) => format!("the agent is told when `posse sessions resume {}` goes on with it", ask.root),
            (false, _) => format!("{} has ended and is not woken by it", ask.session),
        };
        safe(&format!("{}  came late: its call is over ({how}). {came}; {then}", ask.ask))
    }

    fn told(&self) -> String {
        let Self { ask, delivered, .. } = self;
        let came = self.came();
        let then = match delivered {
            Delivered::ToOwner => format!("{} goes on", ask.session),
            Delivered::Recorded => format!("nobody runs {0}: `posse sessions resume {0}` goes on with it", ask.session),
        };
        safe(&format!("{}  {came}; {then}", ask.ask))
    }
}

/// Brings one answer, and says what came of it.
async fn settle(client: &Local, ask: Ask, answer: Answer) -> Result<String, Failure> {
    let brought = Brought::bring(client, ask, answer).await?;
    let Ask { ask, session, call, .. } = &brought.ask;
    let facts = client.facts_of(session, std::slice::from_ref(call)).await.map_err(client_failure)?;
    let summary = client.find(session.as_str()).await.map_err(client_failure)?;
    let account = account(&summary, &facts, call).ok_or_else(|| client_failure(ClientError::NoAsk(ask.to_string())))?;
    if brought.is_taken(&account) { Ok(brought.told()) } else { Err(Failure::usage(too_late(&account))) }
}

/// Answers every open ask of a session and of those below it, oldest first.
async fn answer_below(client: &Local, id: &str, word: AnswerWord, say: Option<&str>) -> Result<Exit, Failure> {
    let top = client.find(id).await.map_err(client_failure)?;
    let below = below(&client.sessions().await.map_err(client_failure)?, &top.session);
    let mut open = client.asks().await.map_err(client_failure)?;
    open.retain(|ask| below.contains(&ask.session));
    if open.is_empty() {
        return Err(Failure::usage(format!("nothing waits for an answer in {} or below it", top.session)));
    }
    let mut exit = Exit::Done;
    for done in answer_all(client, open, word, say).await? {
        match done {
            Ok(words) => to_stdout(&words),
            // A question among them, say: the rest are answered all the same.
            Err(failure) => {
                failure.report();
                exit = Exit::Usage;
            }
        }
    }
    Ok(exit)
}

/// Brings an answer to each, then looks once into every session for what came of them. In this order, because looking
/// after each would read a session as often as it has asks.
pub(crate) async fn answer_all(
    client: &Local,
    open: Vec<Ask>,
    word: AnswerWord,
    say: Option<&str>,
) -> Result<Vec<Result<String, Failure>>, Failure> {
    let mut all = Vec::new();
    let mut calls: HashMap<SessionId, Vec<CallId>> = HashMap::new();
    for ask in open {
        all.push(match composed(&ask, word, say) {
            Ok(answer) => {
                calls.entry(ask.session.clone()).or_default().push(ask.call.clone());
                Ok(Brought::bring(client, ask, answer).await?)
            }
            Err(failure) => Err(failure),
        });
    }
    let mut facts: HashMap<SessionId, Vec<Record>> = HashMap::new();
    for (session, calls) in calls {
        let found = client.facts_of(&session, &calls).await.map_err(client_failure)?;
        facts.insert(session, found);
    }
    let told = |brought: Brought| {
        let Ask { ask, session, call, .. } = &brought.ask;
        let account = facts.get(session).and_then(|facts| account(&Summary::new(session.clone()), facts, call));
        // A wider yes to one of them may have settled others, and somebody else may have been quicker.
        let taken = account.is_some_and(|account| brought.is_taken(&account));
        if taken { brought.told() } else { format!("{ask}  settled by another answer") }
    };
    Ok(all.into_iter().map(|brought| brought.map(told)).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::testing;

    #[tokio::test]
    async fn asks_are_listed_once_however_many_are_answered() {
        let project = testing::with_open_asks(40).await;
        let open = project.client.asks().await.unwrap();
        let told = answer_all(&project.client, open, AnswerWord::Once, None).await.unwrap();
        assert!(told.len() == 40 && told.iter().all(|told| told.as_ref().is_ok_and(|words| words.contains("allowed once"))), "{told:?}");
        assert_eq!(project.log.lists.load(Ordering::SeqCst), 1);
        // One to list them, one for each to record it, and one to see what came of all.
        assert_eq!(project.log.reads.load(Ordering::SeqCst), 42);
        assert_eq!(project.client.asks().await.unwrap(), []);
    }
}
