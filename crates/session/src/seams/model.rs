//! The model seam: a request made of bytes the model itself encoded, and a whole reply.
//!
//! A body is head | messages | tail. The head is constant per configuration, every message is encoded once and kept,
//! the tail holds what varies. Only `models` knows what the bytes mean; everyone else carries them.

use std::{fmt, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{BoxFuture, ToolSpec};
use crate::{
    ids::{CallId, EntryId, SessionId},
    usage::{Prices, Usage},
};

/// What never changes while a session is configured this way.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Head {
    /// Blocks of the system prompt, in order; a provider marks the last for its cache.
    pub system: Vec<String>,
    pub tools: Vec<ToolSpec>,
    #[serde(default)]
    pub params: Params,
    /// The JSON schema that a final answer must fit. A provider that knows how is told; the answer is checked anyway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Params {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// Provider-specific extras, merged into the top level of the body's head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    User,
    Assistant,
}

/// One message as `context` words it for any provider. A user message may hold results, then texts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    pub role: Role,
    pub blocks: Vec<Block>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    Text {
        text: String,
    },
    /// Thinking to be echoed. Without a signature most providers want it left out: their encoder decides.
    Reasoning {
        text: String,
        signature: Option<String>,
    },
    /// `data` is base64.
    Image {
        mime: String,
        data: String,
    },
    /// `input` is the text of a JSON object; `id` is what goes on the wire, unique in the conversation.
    Call {
        id: String,
        tool: String,
        input: String,
    },
    Result {
        id: String,
        /// The name of the tool, for providers that pair results by it. Empty where nobody knows.
        #[serde(default)]
        tool: String,
        text: String,
        error: bool,
        images: Vec<(String, String)>,
    },
    /// A provider's own block, sent back only to the provider of that name.
    Opaque {
        provider: String,
        raw: Value,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolChoice {
    Auto,
    /// The closing step: tools stay in the head, the model must not call them.
    None,
}

/// One call of the model. `messages` are bytes that this model's `encode` made.
#[derive(Debug, Clone)]
pub struct Request {
    pub session: SessionId,
    /// In whose log the conversation begins: a provider that keeps what it has read finds it by this, for forks too.
    pub lineage: SessionId,
    pub head: Arc<[u8]>,
    pub messages: Vec<Arc<[u8]>>,
    pub tool_choice: ToolChoice,
    /// At most so many tokens of output.
    pub output_max: u64,
    /// A stream that brings no byte for so long is dead.
    pub idle_max: Duration,
}

/// A complete answer. An incomplete one is an error with the partial text in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    pub parts: Vec<ReplyPart>,
    pub usage: Usage,
    pub finish: Finish,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ReplyPart {
    #[serde(with = "named_text")]
    Text(String),
    Reasoning {
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// `input` is the text exactly as the model wrote it (empty means `{}`); it may be no valid JSON.
    Call {
        id: String,
        tool: String,
        input: String,
    },
    Opaque {
        provider: String,
        raw: Value,
    },
}

/// A text as an object with one field, so that it has room for its type.
mod named_text {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Named<T> {
        text: T,
    }

    pub(super) fn serialize<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
        Named { text }.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
        Named::deserialize(deserializer).map(|named| named.text)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    Stop,
    Calls,
    /// The output limit cut the answer; what is there is whole blocks only.
    Length,
    Refusal,
    Other,
}

/// Why there is no reply, what the provider said, and what was shown before it broke.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelError {
    pub failure: ModelFailure,
    /// The provider's own words where there are any, then what the user can do.
    pub words: String,
    /// What the server asked us to wait.
    pub retry_after: Option<Duration>,
    /// Text received before the failure, to be kept as partial.
    pub partial: String,
    /// Tokens the provider had counted when it broke.
    pub usage: Usage,
    /// The request had gone out and nobody refused it: it may be billed, whatever was counted.
    pub may_be_billed: bool,
}

impl ModelError {
    pub fn new(failure: ModelFailure, words: impl Into<String>) -> Self {
        let may_be_billed = failure.is_after_work();
        Self { failure, words: words.into(), retry_after: None, partial: String::new(), usage: Usage::default(), may_be_billed }
    }
}

impl fmt::Display for ModelError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.words)
    }
}

impl std::error::Error for ModelError {}

/// What a failure means for the caller. Which of them are tried again, and how often, is decided in `step.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelFailure {
    /// The stream ended before its end, or its end was an error event. Try again.
    Cut,
    /// A stream event that is no JSON, or a reply that does not hold together. Try once more.
    Malformed,
    /// No byte for too long. Try again.
    Idle,
    /// The call as a whole took longer than its deadline.
    Deadline,
    /// 429: wait as long as told, then try again.
    RateLimited,
    /// 529 or 503 with an overload: as above.
    Overloaded,
    /// 5xx. Try again.
    Server,
    /// Refused connection, DNS, TLS, reset. Try again.
    Network,
    /// The conversation is longer than the model takes.
    TooLong,
    /// 400 and friends: the same request will fail again.
    BadRequest,
    /// 401, 403: a key is missing or wrong.
    Auth,
    /// The configured model cannot do this, or none is configured (exit 2).
    NeedsModel,
}

impl ModelFailure {
    /// Whether the provider had begun to work when it came to this. The others are refusals, and cost nothing by themselves.
    fn is_after_work(self) -> bool {
        matches!(self, Self::Cut | Self::Malformed | Self::Idle | Self::Deadline)
    }
}

/// What is known about a model, from configuration and a small table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelFacts {
    /// `provider/model`, as the user writes it.
    pub name: String,
    pub provider: String,
    /// Tokens of input and output together.
    pub context: u64,
    /// Tokens of one answer at most.
    pub output: u64,
    pub prices: Prices,
    pub images: bool,
}

pub trait Model: Send + Sync {
    fn facts(&self) -> &ModelFacts;

    /// The start of every body with this head. Pure: the same head gives the same bytes.
    fn encode_head(&self, head: &Head) -> Arc<[u8]>;

    /// One message as it stands in a body. Pure, and independent of its neighbours.
    fn encode(&self, message: &Message) -> Arc<[u8]>;

    /// One attempt. Dropping the future closes the connection.
    fn reply<'a>(&'a self, request: Request, live: &'a dyn Live) -> BoxFuture<'a, Result<Reply, ModelError>>;

    /// Which of the entries that wait the next step of a session takes. Asked before a step begins, as often as it might.
    /// A provider takes what there is; whoever answers what is known beforehand may want the same as then.
    fn hears(&self, session: &SessionId, next: &dyn Fn() -> Hearing) -> Hears {
        let _ = (session, next);
        Hears::All
    }
}

/// A step that is about to begin.
#[derive(Debug, Clone, PartialEq)]
pub struct Hearing {
    /// What its request adds to the one before, whatever it takes.
    pub says: Vec<Message>,
    /// What waits and may be taken, as it would read.
    pub waiting: Vec<(EntryId, Vec<Block>)>,
    /// It goes on with a turn, so it may take nothing.
    pub inside_turn: bool,
}

/// What a step takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hears {
    All,
    /// These, in this order; the others wait on. None of them where a turn begins means all.
    Only(Vec<EntryId>),
    /// Nothing yet: the step does not begin. Asked again soon, and when something more waits.
    Later,
}

/// What is going on right now: shown and forgotten, never stored, may be dropped when nobody keeps up.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// The first byte of the answer is there, so the request has been read. What keeps a connection open is no answer.
    Begun,
    /// The next piece of the answer.
    Text(String),
    Reasoning(String),
    /// The model has begun to write a call.
    CallNamed {
        tool: String,
    },
    /// A running tool printed this.
    Output {
        call: CallId,
        text: String,
    },
    /// The step waits: for a retry, a lane, a person.
    Waiting {
        why: String,
        until: Option<crate::ids::Timestamp>,
    },
    /// The next piece of a call's input, of which only the size is shown.
    CallInput {
        bytes: u64,
    },
    /// What the provider has counted of this answer so far.
    Counted(Usage),
    /// Bytes came that are no content (pings, comments).
    Alive,
}

/// Shows progress to whoever is looking.
pub trait Live: Send + Sync {
    fn show(&self, progress: Progress);
}
