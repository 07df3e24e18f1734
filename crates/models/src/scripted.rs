//! A model that says what a script says.
//!
//! The answer follows from the position in the transcript (how many answers it already holds), so a step that is tried
//! again gets the same answer. Messages are encoded as themselves, so a test can read back what the model was shown.
//! No network; time only where a reply asks for a delay.

use std::{
    collections::{HashMap, VecDeque},
    fmt, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use posse_session::{
    BoxFuture, Finish, Head, Live, Message, Model, ModelError, ModelFacts, ModelFailure, Prices, Progress, Reply, ReplyPart, Request, Role,
    SessionId, ToolChoice, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::neutral::{bytes, parsed};

/// A long run with a script keeps the newest requests only; their bytes are shared with the caller's.
const SEEN_MAX: usize = 10_000;

const NAME: &str = "scripted/script";

/// What the model says at one position.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScriptedReply {
    pub text: String,
    pub reasoning: String,
    pub calls: Vec<ScriptedCall>,
    pub usage: Usage,
    pub delay_ms: u64,
    /// Overrides what follows from the content.
    pub finish: Option<Finish>,
    pub error: Option<ScriptedError>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    pub tool: String,
    /// A string is used as it stands, so that broken JSON can be scripted.
    #[serde(default)]
    pub input: Value,
    /// Made up from the position when absent.
    #[serde(default)]
    pub id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedError {
    pub failure: ModelFailure,
    #[serde(default)]
    pub words: String,
    #[serde(default)]
    pub retry_after_ms: Option<u64>,
    #[serde(default)]
    pub partial: String,
    /// Fails so often at this position, then the rest of the reply is said. Absent: always.
    #[serde(default)]
    pub times: Option<u32>,
}

impl ScriptedReply {
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    pub fn call(tool: impl Into<String>, input: Value) -> Self {
        Self::default().and_call(tool, input)
    }

    pub fn failing(failure: ModelFailure, words: impl Into<String>) -> Self {
        Self::default().after_failures(failure, words, None)
    }

    pub fn and_call(mut self, tool: impl Into<String>, input: Value) -> Self {
        self.calls.push(ScriptedCall { tool: tool.into(), input, id: None });
        self
    }

    /// Says this only after failing so often; `None` means never.
    pub fn after_failures(mut self, failure: ModelFailure, words: impl Into<String>, times: impl Into<Option<u32>>) -> Self {
        let (words, times) = (words.into(), times.into());
        self.error = Some(ScriptedError { failure, words, retry_after_ms: None, partial: String::new(), times });
        self
    }

    pub fn after(self, delay: Duration) -> Self {
        Self { delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX), ..self }
    }

    pub fn using(self, input: u64, output: u64) -> Self {
        Self { usage: Usage { input, output, ..Usage::default() }, ..self }
    }
}

impl From<&str> for ScriptedReply {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

/// A request as the scripted model saw it.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    pub session: SessionId,
    pub head: Head,
    pub messages: Vec<Message>,
    pub tool_choice: ToolChoice,
    pub output_max: u64,
    /// How many answers the transcript held.
    pub position: usize,
    /// How often this session had asked at this position before.
    pub attempt: u32,
}

type Script = Box<dyn Fn(&Seen) -> ScriptedReply + Send + Sync>;

pub struct Scripted {
    facts: ModelFacts,
    script: Script,
    record: Mutex<Record>,
}

#[derive(Default)]
struct Record {
    requests: VecDeque<(Request, u32)>,
    attempts: HashMap<(SessionId, usize), u32>,
}

/// A script that cannot be played; nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("cannot read the script {}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("the script {} is not a list of replies", path.display())]
    Malformed { path: PathBuf, source: serde_json::Error },
}

impl Scripted {
    /// Says these replies, one per position. Past the last it fails for good.
    pub fn new<R: Into<ScriptedReply>>(replies: impl IntoIterator<Item = R>) -> Self {
        let replies: Vec<ScriptedReply> = replies.into_iter().map(Into::into).collect();
        Self::with(move |seen| {
            let past_the_end =
                || ScriptedReply::failing(ModelFailure::BadRequest, format!("the script has only {} replies", replies.len()));
            replies.get(seen.position).cloned().unwrap_or_else(past_the_end)
        })
    }

    /// Says what the function says. It should depend on what it sees only, so that a second attempt hears the same.
    pub fn with(script: impl Fn(&Seen) -> ScriptedReply + Send + Sync + 'static) -> Self {
        let facts = ModelFacts {
            name: NAME.to_owned(),
            provider: "scripted".to_owned(),
            context: 200_000,
            output: 8_192,
            prices: Prices::default(),
            images: true,
        };
        Self { facts, script: Box::new(script), record: Mutex::default() }
    }

    /// Plays a file: a JSON list of replies.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        let bytes = std::fs::read(path).map_err(|source| LoadError::Unreadable { path: path.to_owned(), source })?;
        let replies: Vec<ScriptedReply> =
            serde_json::from_slice(&bytes).map_err(|source| LoadError::Malformed { path: path.to_owned(), source })?;
        Ok(Self::new(replies))
    }

    pub fn with_facts(self, facts: ModelFacts) -> Self {
        Self { facts, ..self }
    }

    /// Every request so far, oldest first, the failed ones too.
    pub fn seen(&self) -> Vec<Seen> {
        let requests = self.record().requests.clone();
        requests.iter().filter_map(|(request, attempt)| see(request, *attempt).ok()).collect()
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        // The record is whole after every statement, so a panic elsewhere does not spoil it.
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the request, counts the attempt, keeps it.
    fn take_in(&self, request: Request) -> Result<Seen, ModelError> {
        let mut seen = see(&request, 0)?;
        let mut record = self.record();
        let attempts = record.attempts.entry((seen.session.clone(), seen.position)).or_default();
        seen.attempt = *attempts;
        *attempts += 1;
        if record.requests.len() == SEEN_MAX {
            record.requests.pop_front();
        }
        record.requests.push_back((request, seen.attempt));
        Ok(seen)
    }

    async fn play(&self, request: Request, live: &dyn Live) -> Result<Reply, ModelError> {
        let seen = self.take_in(request)?;
        let said = (self.script)(&seen);
        if 0 < said.delay_ms {
            tokio::time::sleep(Duration::from_millis(said.delay_ms)).await;
        }
        match &said.error {
            Some(error) if error.times.is_none_or(|times| seen.attempt < times) => Err(error.to_error(said.usage, live)),
            _ => Ok(said.into_reply(seen.position, &self.facts.prices, live)),
        }
    }
}

fn see(request: &Request, attempt: u32) -> Result<Seen, ModelError> {
    let messages: Vec<Message> = request.messages.iter().map(|bytes| parsed(bytes, NAME)).collect::<Result<_, _>>()?;
    Ok(Seen {
        session: request.session.clone(),
        head: parsed(&request.head, NAME)?,
        position: messages.iter().filter(|message| message.role == Role::Assistant).count(),
        messages,
        tool_choice: request.tool_choice,
        output_max: request.output_max,
        attempt,
    })
}

impl ScriptedError {
    fn to_error(&self, usage: Usage, live: &dyn Live) -> ModelError {
        if !self.partial.is_empty() {
            live.show(Progress::Text(self.partial.clone()));
        }
        let words = if self.words.is_empty() { "scripted failure" } else { &self.words };
        let retry_after = self.retry_after_ms.map(Duration::from_millis);
        ModelError { retry_after, partial: self.partial.clone(), usage, ..ModelError::new(self.failure, words) }
    }
}

impl ScriptedReply {
    fn into_reply(self, position: usize, prices: &Prices, live: &dyn Live) -> Reply {
        let mut parts = Vec::new();
        if !self.reasoning.is_empty() {
            live.show(Progress::Reasoning(self.reasoning.clone()));
            parts.push(ReplyPart::Reasoning { text: self.reasoning, signature: None });
        }
        if !self.text.is_empty() {
            live.show(Progress::Text(self.text.clone()));
            parts.push(ReplyPart::Text(self.text));
        }
        let natural = if self.calls.is_empty() { Finish::Stop } else { Finish::Calls };
        for (nth, call) in self.calls.into_iter().enumerate() {
            live.show(Progress::CallNamed { tool: call.tool.clone() });
            let input = match call.input {
                Value::Null => "{}".to_owned(),
                Value::String(text) => text,
                value => value.to_string(),
            };
            let id = call.id.unwrap_or_else(|| format!("call_{position}_{nth}"));
            parts.push(ReplyPart::Call { id, tool: call.tool, input });
        }
        Reply { parts, usage: self.usage.priced(prices), finish: self.finish.unwrap_or(natural) }
    }
}

impl Model for Scripted {
    fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    fn encode_head(&self, head: &Head) -> Arc<[u8]> {
        bytes(head)
    }

    fn encode(&self, message: &Message) -> Arc<[u8]> {
        bytes(message)
    }

    fn reply<'a>(&'a self, request: Request, live: &'a dyn Live) -> BoxFuture<'a, Result<Reply, ModelError>> {
        Box::pin(self.play(request, live))
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Scripted").field("facts", &self.facts).field("requests", &self.record().requests.len()).finish_non_exhaustive()
    }
}
