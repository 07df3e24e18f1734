//! Providers as files describe them, in our shape and in OpenCode's, made one.
//!
//! Knows how another program names its packages, and nothing of what is sent to anybody: that is `posse_models`.

use std::fmt;

use posse_session::Prices;

use crate::{
    origin::{Findings, Origin},
    tree::{Entry, Held, Node},
};

/// A key or a header: usable, never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The secret itself, for the wire only.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("***")
    }
}

/// The language a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    Anthropic,
    /// Chat completions, which most servers speak.
    OpenaiChat,
    OpenaiResponses,
    Gemini,
}

impl Api {
    pub fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenaiChat => "openai",
            Self::OpenaiResponses => "openai-responses",
            Self::Gemini => "gemini",
        }
    }

    fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "anthropic" => Self::Anthropic,
            "openai" | "openai-chat" | "openai-compatible" => Self::OpenaiChat,
            "openai-responses" => Self::OpenaiResponses,
            "gemini" | "google" => Self::Gemini,
            _ => return None,
        })
    }

    /// By the package that OpenCode would load. OpenAI's own package speaks Responses, all that only resemble it chat completions.
    fn of_package(npm: &str) -> Option<Self> {
        Some(match npm {
            "@ai-sdk/anthropic" => Self::Anthropic,
            "@ai-sdk/google" => Self::Gemini,
            "@ai-sdk/openai" => Self::OpenaiResponses,
            "@ai-sdk/openai-compatible" | "@openrouter/ai-sdk-provider" => Self::OpenaiChat,
            "@ai-sdk/groq" | "@ai-sdk/mistral" | "@ai-sdk/xai" | "@ai-sdk/togetherai" | "@ai-sdk/deepinfra" | "@ai-sdk/cerebras" => {
                Self::OpenaiChat
            }
            _ => return None,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiChoice {
    Named(Api),
    /// Nothing said: the known provider of that name, else chat completions.
    Unsaid,
    /// A package we have no client for.
    Unsupported(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    Given(Secret),
    /// Written, but what it refers to is not there; why, with file and line.
    Missing(String),
    Unsaid,
}

/// What a file says of one model; the rest is a matter of `posse_models`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelSpec {
    /// The name on the wire, when it is another than the one users write.
    pub id: Option<String>,
    pub context: Option<u64>,
    pub output: Option<u64>,
    pub prices: Option<Prices>,
    pub images: Option<bool>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Provider {
    pub name: String,
    pub api: ApiChoice,
    pub base_url: Option<String>,
    pub key: Key,
    /// Variables that may hold the key, when `key` is not said.
    pub key_env: Vec<String>,
    pub headers: Vec<(String, Secret)>,
    /// In written order.
    pub models: Vec<(String, ModelSpec)>,
    pub origin: Origin,
}

/// Makes OpenCode's shape ours, in place: `options` and `limit` move up, a package becomes an `api`.
pub(crate) fn flatten(providers: &mut Node, findings: &mut Findings) {
    let Held::Map(providers) = &mut providers.held else { return };
    for provider in providers {
        let path = format!("provider.{}", provider.name);
        let Held::Map(fields) = &mut provider.node.held else { continue };
        lift(fields, "options");
        name_api(fields, &path, findings);
        let models = fields.iter_mut().find(|field| field.name == "models");
        let Some(Entry { node: Node { held: Held::Map(models), .. }, .. }) = models else { continue };
        for model in models {
            let Held::Map(fields) = &mut model.node.held else { continue };
            lift(fields, "limit");
            fields.retain(|field| !(matches!(field.name.as_str(), "context" | "output") && field.node.count() == Some(0)));
        }
    }
}

/// Moves the fields of an inner object up, unless the outer one has them.
fn lift(fields: &mut Vec<Entry>, inner: &str) {
    let Some(at) = fields.iter().position(|field| field.name == inner) else { return };
    let Held::Map(lifted) = fields.remove(at).node.held else { return };
    for field in lifted {
        if !fields.iter().any(|outer| outer.name == field.name) {
            fields.push(field);
        }
    }
}

/// `api` as one of our names. OpenCode keeps a URL under that key; a package stands for the language it speaks.
fn name_api(fields: &mut Vec<Entry>, path: &str, findings: &mut Findings) {
    if let Some(at) = fields.iter().position(|field| field.name == "api") {
        let text = fields[at].node.text().unwrap_or_default();
        if let Some(api) = Api::of_name(text) {
            fields[at].node.held = Held::Text(api.name().to_owned());
        } else if text.starts_with("http://") || text.starts_with("https://") {
            let url = fields.remove(at);
            if !fields.iter().any(|field| field.name == "base_url") {
                fields.push(Entry { name: "base_url".to_owned(), ..url });
            }
        } else {
            let words = "expected \"anthropic\", \"openai\", \"openai-responses\" or \"gemini\"";
            findings.error(&fields[at].node.origin, &format!("{path}.api"), words);
        }
    }
    let said = fields.iter().any(|field| field.name == "api");
    let Some(at) = fields.iter().position(|field| field.name == "npm") else { return };
    match Api::of_package(fields[at].node.text().unwrap_or_default()) {
        _ if said => {
            fields.remove(at);
        }
        Some(api) => {
            fields[at].name = "api".to_owned();
            fields[at].node.held = Held::Text(api.name().to_owned());
        }
        None => {
            findings.warn(&fields[at].node.origin, &format!("{path}.npm"), "no client for this package; say `api` and `base_url` instead")
        }
    }
}

pub(crate) fn providers_of(node: Option<&Node>) -> Vec<Provider> {
    node.map(Node::entries).unwrap_or_default().iter().map(provider_of).collect()
}

fn provider_of(entry: &Entry) -> Provider {
    let text = |name: &str| entry.node.get(name).and_then(Node::text);
    let api = match (text("api").and_then(Api::of_name), text("npm")) {
        (Some(api), _) => ApiChoice::Named(api),
        (None, Some(npm)) => ApiChoice::Unsupported(npm.to_owned()),
        (None, None) => ApiChoice::Unsaid,
    };
    let mut key = match entry.node.get("api_key").map(|node| &node.held) {
        Some(Held::Secret(secret)) if !secret.expose().is_empty() => Key::Given(secret.clone()),
        Some(Held::Missing(reason)) => Key::Missing(reason.clone()),
        _ => Key::Unsaid,
    };
    let mut headers = Vec::new();
    for header in entry.node.get("headers").map(Node::entries).unwrap_or_default() {
        match &header.node.held {
            Held::Secret(secret) => headers.push((header.name.clone(), secret.clone())),
            // A header is as good as a key to the server, so without it the provider cannot be used either.
            Held::Missing(reason) => key = Key::Missing(reason.clone()),
            _ => {}
        }
    }
    Provider {
        name: entry.name.clone(),
        api,
        base_url: text("base_url").map(str::to_owned),
        key,
        key_env: entry.node.get("env").map(Node::items).unwrap_or_default().iter().filter_map(Node::text).map(str::to_owned).collect(),
        headers,
        models: entry
            .node
            .get("models")
            .map(Node::entries)
            .unwrap_or_default()
            .iter()
            .map(|model| (model.name.clone(), spec_of(&model.node)))
            .collect(),
        origin: entry.origin.clone(),
    }
}

fn spec_of(node: &Node) -> ModelSpec {
    let price = |cost: &Node, name: &str| cost.get(name).and_then(Node::number).unwrap_or_default();
    ModelSpec {
        id: node.get("id").and_then(Node::text).map(str::to_owned),
        context: node.get("context").and_then(Node::count),
        output: node.get("output").and_then(Node::count),
        prices: node.get("cost").map(|cost| Prices {
            input: price(cost, "input"),
            output: price(cost, "output"),
            cache_read: price(cost, "cache_read"),
            cache_write: price(cost, "cache_write"),
            unknown: false,
        }),
        images: node.get("attachment").and_then(Node::flag),
    }
}
