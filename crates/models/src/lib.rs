//! Model clients: Anthropic Messages, OpenAI Chat Completions, a scripted one for tests, an offline one.
//!
//! The only crate that knows provider JSON. A client is a pure encoder, a pure fold over the stream, and one thin layer
//! of HTTP below both. Retries, lanes and budgets are the engine's; keys and addresses come in with [`ProviderSpec`].

mod address;
mod anthropic;
#[cfg(test)]
mod corpora;
mod facts;
mod failure;
mod fold;
mod http;
mod offline;
mod openai;
mod provider;
mod scripted;
mod sse;
mod unseen;

pub use address::shown_url;
pub use offline::Explorer;
pub use provider::{Api, FactsOverride, KnownProvider, ProviderSpec, build, known_providers};
pub use scripted::{LoadError, Scripted, ScriptedCall, ScriptedError, ScriptedReply, Seen};
