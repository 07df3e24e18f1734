//! Trying a provider with the smallest request that says whether its key and its address are good.
//!
//! A listing of models where there is one, because it costs nothing; else one token. Nothing here is part of a run: a
//! person asked. What to do about an answer is for `cli` to say. Servers on this machine are found in `probe/local.rs`.

mod local;

use std::time::Duration;

pub use local::{LocalKind, LocalModel, LocalServer, find_local};
use posse_session::{Block, Head, Live, Message, ModelError, ModelFailure, Progress, Request, Role, SessionId, ToolChoice};
use reqwest::Url;

use crate::{
    failure::{self, Said},
    http::{Document, Endpoint},
    provider::{ProviderSpec, build, wire_name},
};

/// What came of a try. The words are the server's or the network's, without any key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tried {
    /// With how many models it lists, if it does.
    Works {
        models: Option<usize>,
    },
    /// The server does not take the key.
    KeyRefused {
        words: String,
    },
    /// The key is good and the account is not.
    NoCredit {
        words: String,
    },
    RateLimited {
        words: String,
    },
    /// No connection, or no answer.
    Unreachable {
        words: String,
    },
    /// A server is there, and it is not one of this protocol.
    WrongAddress {
        words: String,
    },
    /// The server has trouble of its own.
    Trouble {
        words: String,
    },
}

/// Tries a provider. `model` is one to ask for a token where nothing can be listed.
pub async fn try_provider(provider: &ProviderSpec, model: Option<&str>, within: Duration) -> Tried {
    match tokio::time::timeout(within, attempt(provider, model, within)).await {
        Ok(tried) => tried,
        Err(_) => Tried::Unreachable { words: format!("no answer within {} s", within.as_secs()) },
    }
}

async fn attempt(provider: &ProviderSpec, model: Option<&str>, within: Duration) -> Tried {
    let endpoint = Endpoint::new(provider, model.map_or("model", |model| wire_name(provider, model)));
    let listing = match endpoint.url() {
        Ok(url) => listing_url(url),
        Err(error) => return Tried::WrongAddress { words: error.words },
    };
    let tried = match endpoint.document(listing).await {
        Ok(document) => of_listing(&document),
        Err(error) => of_error(error),
    };
    match (tried, model) {
        // A relay may carry conversations and nothing else.
        (Tried::WrongAddress { .. }, Some(model)) => match one_token(provider, model, within).await {
            Ok(()) => Tried::Works { models: None },
            Err(error) => of_error(error),
        },
        (tried, _) => tried.with_words(|words| endpoint.told(&words)),
    }
}

impl Tried {
    fn with_words(self, change: impl Fn(String) -> String) -> Self {
        match self {
            Self::Works { models } => Self::Works { models },
            Self::KeyRefused { words } => Self::KeyRefused { words: change(words) },
            Self::NoCredit { words } => Self::NoCredit { words: change(words) },
            Self::RateLimited { words } => Self::RateLimited { words: change(words) },
            Self::Unreachable { words } => Self::Unreachable { words: change(words) },
            Self::WrongAddress { words } => Self::WrongAddress { words: change(words) },
            Self::Trouble { words } => Self::Trouble { words: change(words) },
        }
    }
}

/// Where a server lists its models, from where it converses.
fn listing_url(conversation: &Url) -> Url {
    let mut url = conversation.clone();
    let path = url.path();
    // Gemini names the model in the path, below the listing.
    let base = path.split_once("/models/").map_or(path, |(base, _)| base);
    let base = ["/chat/completions", "/responses", "/messages"].iter().find_map(|end| base.strip_suffix(end)).unwrap_or(base);
    // This one lists its models for everybody, so the listing would say nothing about the key.
    let listing = if url.host_str() == Some("openrouter.ai") { "key" } else { "models" };
    let path = format!("{base}/{listing}");
    url.set_path(&path);
    // Asked for by the conversation alone; other parts of the query may be the key or a version.
    let kept: Vec<(String, String)> =
        url.query_pairs().filter(|(name, _)| name != "alt").map(|(name, value)| (name.into(), value.into())).collect();
    url.set_query(None);
    if !kept.is_empty() {
        url.query_pairs_mut().extend_pairs(kept);
    }
    url
}

fn of_listing(document: &Document) -> Tried {
    let said = Said::from_body(&document.body);
    let words = format!("HTTP {}{}", document.status, if said.message.is_empty() { String::new() } else { format!(": {}", said.message) });
    let is_about_key = said.message.to_ascii_lowercase().contains("api key");
    match document.json() {
        Some(json) if failure::is_error(&json) => return Tried::Trouble { words: said.message },
        Some(json) => {
            let list = ["data", "models"].into_iter().find_map(|name| json.get(name)).or(json.is_array().then_some(&json));
            return match list {
                Some(list) => Tried::Works { models: list.as_array().map(Vec::len) },
                None => Tried::WrongAddress { words: "the answer is JSON, and no list of models".to_owned() },
            };
        }
        None if document.is_good() => return Tried::WrongAddress { words: "the answer is a page, and no list of models".to_owned() },
        None => {}
    }
    match (document.status, failure::of_status(document.status, &said)) {
        _ if failure::is_about_money(document.status, &said) => Tried::NoCredit { words },
        (_, ModelFailure::Auth) => Tried::KeyRefused { words },
        // Google says so with the status of a bad request.
        (400, _) if is_about_key => Tried::KeyRefused { words },
        (429, _) => Tried::RateLimited { words },
        (500.., _) if document.status != 501 => Tried::Trouble { words },
        _ => Tried::WrongAddress { words },
    }
}

fn of_error(error: ModelError) -> Tried {
    let words = error.words;
    match error.failure {
        ModelFailure::Auth if words.contains("credit") => Tried::NoCredit { words },
        ModelFailure::Auth | ModelFailure::NeedsModel => Tried::KeyRefused { words },
        ModelFailure::RateLimited => Tried::RateLimited { words },
        ModelFailure::Network | ModelFailure::Idle | ModelFailure::Deadline => Tried::Unreachable { words },
        ModelFailure::BadRequest if words.starts_with("HTTP 400") => Tried::Trouble { words },
        ModelFailure::BadRequest | ModelFailure::Malformed => Tried::WrongAddress { words },
        ModelFailure::Cut | ModelFailure::Overloaded | ModelFailure::Server | ModelFailure::TooLong => Tried::Trouble { words },
    }
}

/// The shortest conversation there is.
async fn one_token(provider: &ProviderSpec, model: &str, within: Duration) -> Result<(), ModelError> {
    let model = build(provider, model);
    let greeting = Message { role: Role::User, blocks: vec![Block::Text { text: "hi".to_owned() }] };
    let request = Request {
        session: SessionId::new("ses_try"),
        lineage: SessionId::new("ses_try"),
        head: model.encode_head(&Head::default()),
        messages: vec![model.encode(&greeting)],
        tool_choice: ToolChoice::Auto,
        output_max: 1,
        idle_max: within,
    };
    model.reply(request, &Unwatched).await.map(drop)
}

/// Nobody looks at a try while it lasts.
struct Unwatched;

impl Live for Unwatched {
    fn show(&self, _progress: Progress) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_listed_beside_where_a_conversation_goes() {
        for (conversation, listing) in [
            ("https://api.anthropic.com/v1/messages", "https://api.anthropic.com/v1/models"),
            ("https://api.openai.com/v1/responses", "https://api.openai.com/v1/models"),
            ("https://api.groq.com/openai/v1/chat/completions", "https://api.groq.com/openai/v1/models"),
            ("https://openrouter.ai/api/v1/chat/completions", "https://openrouter.ai/api/v1/key"),
            ("https://g/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse", "https://g/v1beta/models"),
            ("https://h/openai/v1/chat/completions?api-version=1", "https://h/openai/v1/models?api-version=1"),
        ] {
            assert_eq!(listing_url(&Url::parse(conversation).unwrap()).as_str(), listing);
        }
    }

    #[test]
    fn an_answer_is_told_apart_by_what_to_do_about_it() {
        let tried = |status: u16, body: &str| of_listing(&Document { status, body: body.as_bytes().to_vec() });
        assert_eq!(tried(200, r#"{"data": [{}, {}]}"#), Tried::Works { models: Some(2) });
        assert_eq!(tried(200, r#"{"models": [{}]}"#), Tried::Works { models: Some(1) });
        assert_eq!(tried(200, r#"[{"id": "m"}]"#), Tried::Works { models: Some(1) });
        assert_eq!(tried(200, r#"{"data": {"label": "key"}}"#), Tried::Works { models: None });
        for (status, body, expected) in [
            (200, "<html>", "WrongAddress"),
            (200, r#"{"hello": 1}"#, "WrongAddress"),
            (200, r#"{"error": {"message": "no"}}"#, "Trouble"),
            (301, "", "WrongAddress"),
            (401, "", "KeyRefused"),
            (403, "", "KeyRefused"),
            (400, r#"[{"error": {"message": "API key not valid. Please pass a valid API key."}}]"#, "KeyRefused"),
            (402, r#"{"error": {"message": "insufficient balance"}}"#, "NoCredit"),
            (402, r#"{"error": {"message": "This request requires more credits, or fewer max_tokens."}}"#, "NoCredit"),
            (402, "", "NoCredit"),
            (400, r#"{"error": {"message": "Your credit balance is too low to access the Anthropic API"}}"#, "NoCredit"),
            (429, r#"{"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}"#, "NoCredit"),
            (404, "", "WrongAddress"),
            (405, "", "WrongAddress"),
            (429, "", "RateLimited"),
            (500, "", "Trouble"),
            (501, "", "WrongAddress"),
            (529, "", "Trouble"),
        ] {
            let tried = format!("{:?}", tried(status, body));
            assert!(tried.starts_with(expected), "{status} {body}: {tried}");
        }
    }
}
