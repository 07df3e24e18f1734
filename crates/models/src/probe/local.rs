//! Model servers on this machine: what listens at an address, and which models it has.
//!
//! Each kind of server is known by what only it says of itself, so that something else on its usual port is not taken for
//! it. Where to look is the caller's business, and so is whether to look at all: a run never does.

use std::time::Duration;

use reqwest::{Url, header::HeaderMap};
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::Instant};

use crate::http::document;

/// More are not described one by one, so that a large collection does not use up the time.
const DESCRIBED_MAX: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalKind {
    Ollama,
    LlamaCpp,
    LmStudio,
    Vllm,
}

impl LocalKind {
    pub const ALL: [Self; 4] = [Self::Ollama, Self::LlamaCpp, Self::LmStudio, Self::Vllm];

    /// As its makers write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ollama => "Ollama",
            Self::LlamaCpp => "llama.cpp",
            Self::LmStudio => "LM Studio",
            Self::Vllm => "vLLM",
        }
    }

    /// As users write it before the slash.
    pub fn provider(self) -> &'static str {
        match self {
            Self::Ollama => "ollama",
            Self::LlamaCpp => "llamacpp",
            Self::LmStudio => "lmstudio",
            Self::Vllm => "vllm",
        }
    }
}

/// A server that was found, with its models in its own order.
#[derive(Debug, Clone, PartialEq)]
pub struct LocalServer {
    pub kind: LocalKind,
    /// With the path that conversations need.
    pub base_url: String,
    pub models: Vec<LocalModel>,
}

/// What a server says of one model; nothing where it does not say.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LocalModel {
    pub name: String,
    pub context: Option<u64>,
    pub tools: Option<bool>,
    pub images: Option<bool>,
    pub reasoning: Option<bool>,
}

/// The server of this kind at this base URL; `None` when there is none, or something else.
pub async fn find_local(kind: LocalKind, base_url: &str, within: Duration) -> Option<LocalServer> {
    let until = Instant::now() + within;
    let site = Site { root: root_of(base_url)?, until };
    let models = match kind {
        LocalKind::Ollama => site.ollama().await,
        LocalKind::LlamaCpp => site.llama_cpp().await,
        LocalKind::LmStudio => site.lm_studio().await,
        LocalKind::Vllm => site.vllm().await,
    }?;
    Some(LocalServer { kind, base_url: format!("{}/v1", site.root.as_str().trim_end_matches('/')), models })
}

/// The address without the path of conversations.
fn root_of(base_url: &str) -> Option<Url> {
    let mut url = Url::parse(base_url.trim()).ok().filter(|url| url.has_host() && matches!(url.scheme(), "http" | "https"))?;
    let path = url.path().trim_end_matches('/');
    let path = path.strip_suffix("/v1").unwrap_or(path).to_owned();
    url.set_path(&path);
    url.set_query(None);
    Some(url)
}

#[derive(Clone)]
struct Site {
    root: Url,
    /// When it is too late for an answer.
    until: Instant,
}

impl Site {
    /// What is at a path, if it is JSON and comes in time.
    async fn ask(&self, path: &str, body: Option<Value>) -> Option<Value> {
        let mut url = self.root.clone();
        url.set_path(&format!("{}{path}", self.root.path().trim_end_matches('/')));
        let asked = document(url, HeaderMap::new(), body.map(|body| body.to_string()));
        tokio::time::timeout_at(self.until, asked).await.ok()?.ok()?.json()
    }

    async fn ollama(&self) -> Option<Vec<LocalModel>> {
        let tags = self.ask("/api/tags", None).await?;
        let names: Vec<String> = tags.get("models")?.as_array()?.iter().filter_map(|model| text(model, "name")).collect();
        let mut asked = JoinSet::new();
        for (at, name) in names.iter().cloned().enumerate().take(DESCRIBED_MAX) {
            let site = self.clone();
            asked.spawn(async move { (at, site.ask("/api/show", Some(json!({"model": name}))).await) });
        }
        let mut models: Vec<LocalModel> = names.into_iter().map(named).collect();
        while let Some(Ok((at, shown))) = asked.join_next().await {
            if let (Some(model), Some(shown)) = (models.get_mut(at), shown) {
                describe_ollama(model, &shown);
            }
        }
        Some(models)
    }

    async fn llama_cpp(&self) -> Option<Vec<LocalModel>> {
        // Only this server describes itself here.
        let props = self.ask("/props", None).await?;
        let settings = props.get("default_generation_settings")?;
        let context = settings.get("n_ctx").and_then(Value::as_u64);
        let images = props.pointer("/modalities/vision").and_then(Value::as_bool);
        let tools = props.get("chat_template_caps").and_then(|caps| caps.get("supports_tools")).and_then(Value::as_bool);
        let listed = self.ask("/v1/models", None).await?;
        Some(ids(&listed)?.into_iter().map(|name| LocalModel { context, images, tools, ..named(name) }).collect())
    }

    async fn lm_studio(&self) -> Option<Vec<LocalModel>> {
        // Its own listing says more; an older one has only the usual.
        let Some(own) = self.ask("/api/v0/models", None).await else {
            let listed = self.ask("/v1/models", None).await?;
            let has_owner = |model: &Value| text(model, "owned_by").is_some_and(|owner| owner.starts_with("organization"));
            let is_its = listed.get("data")?.as_array()?.iter().all(has_owner);
            return ids(&listed).filter(|ids| is_its && !ids.is_empty()).map(|ids| ids.into_iter().map(named).collect());
        };
        let models = own.get("data")?.as_array()?;
        // Only this listing says of which type a model is.
        let is_its = !models.is_empty() && models.iter().all(|model| text(model, "type").is_some());
        let converses = |model: &&Value| text(model, "type").is_some_and(|kind| kind == "llm" || kind == "vlm");
        let described = models.iter().filter(converses).filter_map(|model| {
            let size = |name: &str| model.get(name).and_then(Value::as_u64);
            let has = |what: &str| model.get("capabilities").and_then(Value::as_array).map(|list| list.iter().any(|one| one == what));
            Some(LocalModel {
                context: size("loaded_context_length").or(size("max_context_length")),
                images: text(model, "type").map(|kind| kind == "vlm"),
                tools: has("tool_use"),
                ..named(text(model, "id")?)
            })
        });
        is_its.then(|| described.collect())
    }

    async fn vllm(&self) -> Option<Vec<LocalModel>> {
        let listed = self.ask("/v1/models", None).await?;
        let models = listed.get("data")?.as_array()?;
        // It signs every entry.
        let is_its = !models.is_empty() && models.iter().all(|model| text(model, "owned_by").as_deref() == Some("vllm"));
        let described = models.iter().filter_map(|model| {
            let context = model.get("max_model_len").and_then(Value::as_u64);
            Some(LocalModel { context, ..named(text(model, "id")?) })
        });
        is_its.then(|| described.collect())
    }
}

fn describe_ollama(model: &mut LocalModel, shown: &Value) {
    let info = shown.get("model_info").and_then(Value::as_object);
    let trained = info.and_then(|info| info.iter().find(|(name, _)| name.ends_with(".context_length"))).and_then(|(_, size)| size.as_u64());
    // What the model was told to use counts more than what it could.
    let parameters = shown.get("parameters").and_then(Value::as_str).unwrap_or_default();
    let told = parameters.lines().find_map(|line| line.trim().strip_prefix("num_ctx")?.trim().parse().ok());
    model.context = told.or(trained);
    if let Some(capabilities) = shown.get("capabilities").and_then(Value::as_array) {
        let has = |what: &str| Some(capabilities.iter().any(|one| one == what));
        (model.tools, model.images, model.reasoning) = (has("tools"), has("vision"), has("thinking"));
    }
}

fn named(name: String) -> LocalModel {
    LocalModel { name, ..LocalModel::default() }
}

fn ids(listed: &Value) -> Option<Vec<String>> {
    Some(listed.get("data")?.as_array()?.iter().filter_map(|model| text(model, "id")).collect())
}

fn text(value: &Value, name: &str) -> Option<String> {
    value.get(name).and_then(Value::as_str).map(str::to_owned)
}
