//! Which providers there are, and how one of them and a name become a [`Model`].
//!
//! Where keys and addresses come from (environment, files, trust) is the caller's business: a [`ProviderSpec`] is
//! complete. Prices and sizes are in `facts.rs`, addresses are joined in `http.rs`.

use std::{collections::BTreeMap, fmt, sync::Arc};

use posse_session::{Model, ModelError, ModelFacts, Params, Prices, Reply};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{address::shown_url, anthropic::Anthropic, facts, gemini::Gemini, http::Endpoint, openai::OpenAi, responses::Responses};

/// Which protocol a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Api {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions, which most servers speak.
    #[serde(rename = "openai")]
    OpenAi,
    /// OpenAI Responses.
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    /// Google's own protocol, `streamGenerateContent`.
    Gemini,
}

/// A provider as it is configured, complete.
#[derive(Clone, PartialEq)]
pub struct ProviderSpec {
    /// As the user writes it before the slash.
    pub name: String,
    pub api: Api,
    pub base_url: String,
    pub api_key: Option<String>,
    /// Which key that is, for the words of a refusal: `the key in OPENAI_API_KEY`. Guessed where nobody says it.
    pub key_place: Option<String>,
    /// Sent with every request, after our own; the same name replaces ours.
    pub headers: Vec<(String, String)>,
    /// What the user said about single models.
    pub models: BTreeMap<String, FactsOverride>,
}

/// What the user knows better than our table.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FactsOverride {
    /// The model's name on the wire, when it is another than the one users write.
    #[serde(default)]
    pub id: Option<String>,
    #[serde(default)]
    pub context: Option<u64>,
    #[serde(default)]
    pub output: Option<u64>,
    #[serde(default)]
    pub cost: Option<Prices>,
    #[serde(default)]
    pub images: Option<bool>,
}

impl fmt::Debug for ProviderSpec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header_names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        out.debug_struct("ProviderSpec")
            .field("name", &self.name)
            .field("api", &self.api)
            .field("base_url", &shown_url(&self.base_url))
            .field("api_key", &self.api_key.as_ref().map(|_| "(hidden)"))
            .field("headers", &header_names)
            .field("models", &self.models)
            .finish()
    }
}

/// The model of that name at this provider. Costs nothing: connections are made at the first request.
pub fn build(provider: &ProviderSpec, model: &str) -> Arc<dyn Model> {
    let facts = facts::facts(provider, model);
    let wire_name = wire_name(provider, model);
    let endpoint = Endpoint::new(provider, wire_name);
    match provider.api {
        Api::Anthropic => Arc::new(Anthropic::new(facts, wire_name, endpoint)),
        Api::OpenAi => Arc::new(OpenAi::new(facts, wire_name, endpoint)),
        Api::OpenAiResponses => Arc::new(Responses::new(facts, wire_name, endpoint)),
        Api::Gemini => Arc::new(Gemini::new(facts, wire_name, endpoint)),
    }
}

/// What the provider calls the model.
pub(crate) fn wire_name<'a>(provider: &'a ProviderSpec, model: &'a str) -> &'a str {
    let said = provider.models.get(model).and_then(|said| said.id.as_deref());
    said.filter(|id| !id.trim().is_empty()).unwrap_or(model)
}

/// A provider that needs only a key.
///
/// `api` is what it speaks at its own address. `openai` speaks Responses there, because its newer models think only in
/// that protocol; behind another host it speaks Chat Completions, since most compatible servers know nothing else.
/// `gemini` speaks its own protocol, and Chat Completions at an address that ends in `/openai`, which is Google's own
/// door for it. An `api` that the user wrote always wins. `posse_config` decides, as it knows what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownProvider {
    pub name: &'static str,
    pub api: Api,
    pub base_url: &'static str,
    /// Environment variables that may hold the key, in order. None: it needs no key.
    pub key_env: &'static [&'static str],
    pub base_url_env: &'static str,
}

pub fn known_providers() -> &'static [KnownProvider] {
    KNOWN
}

#[rustfmt::skip]
const KNOWN: &[KnownProvider] = &[
    KnownProvider { name: "anthropic", api: Api::Anthropic, base_url: "https://api.anthropic.com", key_env: &["ANTHROPIC_API_KEY"], base_url_env: "ANTHROPIC_BASE_URL" },
    KnownProvider { name: "openai", api: Api::OpenAiResponses, base_url: "https://api.openai.com/v1", key_env: &["OPENAI_API_KEY"], base_url_env: "OPENAI_BASE_URL" },
    KnownProvider { name: "gemini", api: Api::Gemini, base_url: "https://generativelanguage.googleapis.com", key_env: &["GEMINI_API_KEY", "GOOGLE_API_KEY"], base_url_env: "GEMINI_BASE_URL" },
    KnownProvider { name: "openrouter", api: Api::OpenAi, base_url: "https://openrouter.ai/api/v1", key_env: &["OPENROUTER_API_KEY"], base_url_env: "OPENROUTER_BASE_URL" },
    KnownProvider { name: "deepseek", api: Api::OpenAi, base_url: "https://api.deepseek.com/v1", key_env: &["DEEPSEEK_API_KEY"], base_url_env: "DEEPSEEK_BASE_URL" },
    KnownProvider { name: "groq", api: Api::OpenAi, base_url: "https://api.groq.com/openai/v1", key_env: &["GROQ_API_KEY"], base_url_env: "GROQ_BASE_URL" },
    KnownProvider { name: "mistral", api: Api::OpenAi, base_url: "https://api.mistral.ai/v1", key_env: &["MISTRAL_API_KEY"], base_url_env: "MISTRAL_BASE_URL" },
    KnownProvider { name: "xai", api: Api::OpenAi, base_url: "https://api.x.ai/v1", key_env: &["XAI_API_KEY"], base_url_env: "XAI_BASE_URL" },
    // The resource's name is in the host, so a base URL of one's own does as well.
    KnownProvider { name: "azure", api: Api::OpenAi, base_url: "https://{AZURE_RESOURCE_NAME}.openai.azure.com", key_env: &["AZURE_API_KEY", "AZURE_OPENAI_API_KEY"], base_url_env: "AZURE_BASE_URL" },
    KnownProvider { name: "together", api: Api::OpenAi, base_url: "https://api.together.xyz/v1", key_env: &["TOGETHER_API_KEY"], base_url_env: "TOGETHER_BASE_URL" },
    KnownProvider { name: "fireworks", api: Api::OpenAi, base_url: "https://api.fireworks.ai/inference/v1", key_env: &["FIREWORKS_API_KEY"], base_url_env: "FIREWORKS_BASE_URL" },
    KnownProvider { name: "cerebras", api: Api::OpenAi, base_url: "https://api.cerebras.ai/v1", key_env: &["CEREBRAS_API_KEY"], base_url_env: "CEREBRAS_BASE_URL" },
    KnownProvider { name: "moonshot", api: Api::OpenAi, base_url: "https://api.moonshot.ai/v1", key_env: &["MOONSHOT_API_KEY"], base_url_env: "MOONSHOT_BASE_URL" },
    KnownProvider { name: "ollama", api: Api::OpenAi, base_url: "http://127.0.0.1:11434/v1", key_env: &[], base_url_env: "OLLAMA_BASE_URL" },
    KnownProvider { name: "llamacpp", api: Api::OpenAi, base_url: "http://127.0.0.1:8080/v1", key_env: &[], base_url_env: "LLAMACPP_BASE_URL" },
    KnownProvider { name: "lmstudio", api: Api::OpenAi, base_url: "http://127.0.0.1:1234/v1", key_env: &[], base_url_env: "LMSTUDIO_BASE_URL" },
    KnownProvider { name: "vllm", api: Api::OpenAi, base_url: "http://127.0.0.1:8000/v1", key_env: &[], base_url_env: "VLLM_BASE_URL" },
];

/// The answer with its cost. What the provider itself billed stays. Where it broke nothing is whole yet: whoever counts the
/// rest by estimate prices both.
pub(crate) fn priced(answer: Result<Reply, ModelError>, facts: &ModelFacts) -> Result<Reply, ModelError> {
    answer.map(|reply| Reply { usage: reply.usage.priced(&facts.prices), ..reply })
}

/// What a tail writes, in any protocol, and the conversation itself.
pub(crate) const TAIL_KEYS: &[&str] = &[
    "messages",
    "max_tokens",
    "max_completion_tokens",
    "tool_choice",
    "input",
    "max_output_tokens",
    "contents",
    "generationConfig",
    "toolConfig",
];

/// Adds the parameters to a head. What the protocol itself writes cannot be replaced by an option.
pub(crate) fn merge_params(body: &mut Map<String, Value>, params: &Params) {
    let numbers = [("temperature", params.temperature), ("top_p", params.top_p)];
    body.extend(numbers.into_iter().filter_map(|(key, number)| Some((key.to_owned(), number?.into()))));
    for (key, value) in params.options.iter().filter_map(Value::as_object).flatten() {
        if !TAIL_KEYS.contains(&key.as_str()) && !body.contains_key(key) {
            body.insert(key.clone(), value.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_never_shows_its_secrets() {
        let spec = ProviderSpec {
            name: "mock".into(),
            api: Api::OpenAi,
            base_url: "http://me:secret@127.0.0.1:1".into(),
            api_key: Some("sk-secret".into()),
            key_place: None,
            headers: vec![("authorization".into(), "Bearer other-secret".into())],
            models: BTreeMap::new(),
        };
        let shown = format!("{spec:?}");
        assert!(!shown.contains("secret"), "{shown}");
        assert!(shown.contains("mock"));
    }

    #[test]
    fn an_api_is_written_as_the_configuration_writes_it() {
        let names = [Api::Anthropic, Api::OpenAi, Api::OpenAiResponses, Api::Gemini].map(|api| serde_json::to_value(api).unwrap());
        assert_eq!(names, ["anthropic", "openai", "openai-responses", "gemini"].map(Value::from));
    }

    #[test]
    fn options_add_to_a_head_and_never_replace_what_the_protocol_needs() {
        let mut body = Map::from_iter([("model".to_owned(), "m".into())]);
        let options = serde_json::json!({ "model": "x", "max_tokens": 1, "thinking": { "type": "adaptive" } });
        merge_params(&mut body, &Params { temperature: Some(0.5), top_p: None, options: Some(options) });
        assert_eq!(Value::Object(body).to_string(), r#"{"model":"m","temperature":0.5,"thinking":{"type":"adaptive"}}"#);
    }
}
