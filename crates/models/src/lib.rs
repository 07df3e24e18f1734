//! Model clients: Anthropic Messages, OpenAI Chat Completions and Responses, Gemini, a scripted one for tests, an offline one.
//!
//! The only crate that knows provider JSON. A client is a pure encoder, a pure fold over the stream, and one thin layer
//! of HTTP below both. Retries, lanes and budgets are the engine's; keys and addresses come in with [`ProviderSpec`].

mod address;
mod anthropic;
mod body;
#[cfg(test)]
mod corpora;
#[cfg(test)]
mod cut_streams;
mod facts;
mod failure;
mod fold;
mod gemini;
mod http;
mod neutral;
mod offline;
mod openai;
mod probe;
mod provider;
mod recast;
mod record;
mod replay;
mod responses;
mod scripted;
mod secrets;
mod sse;
mod strict;
mod unseen;

pub use address::{is_on_this_machine, shown_url};
pub use facts::{CatalogueEntry, KnownPrices, catalogue, catalogued_providers, lookup};
pub use offline::Explorer;
pub use probe::{LocalKind, LocalModel, LocalServer, Tried, find_local, try_provider};
pub use provider::{Api, FactsOverride, KnownProvider, ProviderSpec, build, known_providers};
pub use record::{RecordError, RecordSetup, Recorder};
pub use replay::{Replay, ReplayError, ReplaySetup};
pub use scripted::{LoadError, Scripted, ScriptedCall, ScriptedError, ScriptedReply, Seen};
pub use secrets::is_secret_header;
