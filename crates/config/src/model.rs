//! Which model a name means, and how to reach it.
//!
//! A name is `provider/model`, an alias, or a model's name alone when only one provider has it. Which providers the
//! world knows is a table of `posse_models` and comes in as an argument; so does the environment with the keys.

use std::fmt;

use crate::{
    config::Config,
    keys::variables,
    places::{Env, variable},
    provider::{Api, ApiChoice, Key, ModelSpec, Provider, Secret},
};

/// A provider that needs only a key in the environment.
#[derive(Debug, Clone, Copy)]
pub struct KnownProvider {
    pub name: &'static str,
    pub api: Api,
    pub base_url: &'static str,
    /// Variables that may hold the key, the usual one first. Empty: it needs none.
    pub key_env: &'static [&'static str],
    /// A variable that replaces `base_url`; empty when there is none.
    pub base_url_env: &'static str,
    /// What runs when the user named no model.
    pub default_model: &'static str,
}

impl KnownProvider {
    /// What it speaks at this address, when nobody said it.
    ///
    /// OpenAI's newer models want Responses, but most servers that people put behind `OPENAI_BASE_URL` know only chat
    /// completions, so another host is spoken to in those. Google keeps a door for chat completions at `/openai`.
    pub fn api_at(&self, base_url: &str) -> Api {
        match self.api {
            Api::OpenaiResponses if host(base_url) != host(self.base_url) => Api::OpenaiChat,
            Api::Gemini if path(base_url).ends_with("/openai") => Api::OpenaiChat,
            api => api,
        }
    }
}

/// The host of an address in lower case, without its port and whoever logs in there.
fn host(url: &str) -> String {
    let rest = url.trim().split_once("://").map_or(url.trim(), |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let place = authority.rsplit('@').next().unwrap_or_default();
    place.split(':').next().unwrap_or_default().to_ascii_lowercase()
}

/// Everything of an address before its query, without a slash at the end.
fn path(url: &str) -> &str {
    url.trim().split(['?', '#']).next().unwrap_or_default().trim_end_matches('/')
}

#[derive(Debug, Clone, PartialEq)]
pub enum ModelChoice {
    /// The built-in `offline/explorer`.
    Offline,
    Remote(Box<ChosenModel>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct ChosenModel {
    pub provider: String,
    /// As the user writes it; `spec.id` is the name on the wire if it differs.
    pub model: String,
    pub api: Api,
    pub base_url: String,
    /// `None` for a server that needs none.
    pub key: Option<Secret>,
    pub headers: Vec<(String, Secret)>,
    pub spec: ModelSpec,
}

impl ChosenModel {
    /// `provider/model`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.provider, self.model)
    }
}

/// All of these are exit 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelChoiceError {
    Unknown {
        name: String,
        exist: Vec<String>,
    },
    /// Several providers have a model of that name.
    Ambiguous {
        name: String,
        among: Vec<String>,
    },
    /// Set the key and try again.
    NoKey {
        model: String,
        reason: String,
    },
    NoBaseUrl {
        provider: String,
    },
    /// OpenCode would load a package that we have no client for.
    Unsupported {
        provider: String,
        package: String,
    },
    /// A provider is configured, but neither it nor the user names a model.
    NoModel {
        provider: String,
    },
    AliasLoop {
        alias: String,
    },
}

impl std::error::Error for ModelChoiceError {}

impl fmt::Display for ModelChoiceError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, exist } if exist.is_empty() => {
                write!(out, "unknown model `{name}`; no model is configured and no key is set")
            }
            Self::Unknown { name, exist } => write!(out, "unknown model `{name}`; there are: {}", exist.join(", ")),
            Self::Ambiguous { name, among } => write!(out, "`{name}` is ambiguous; say one of: {}", among.join(", ")),
            Self::NoKey { model, reason } => write!(out, "no key for {model}: {reason}"),
            Self::NoBaseUrl { provider } => write!(out, "provider `{provider}` has no address; set `provider.{provider}.base_url`"),
            Self::Unsupported { provider, package } => {
                write!(out, "no client for the package {package} of provider `{provider}`; set its `api` and `base_url` instead")
            }
            Self::NoModel { provider } => write!(out, "no model is named; set `model`, or `provider.{provider}.models`"),
            Self::AliasLoop { alias } => write!(out, "the alias `{alias}` leads back to itself"),
        }
    }
}

impl Config {
    /// The model of that name; without one the configured model, else the first that can be used, else the offline one.
    pub fn choose_model(&self, name: Option<&str>, known: &[KnownProvider], env: &Env<'_>) -> Result<ModelChoice, ModelChoiceError> {
        Chooser { config: self, known, env }.choose(name)
    }
}

pub(crate) struct Chooser<'a> {
    pub(crate) config: &'a Config,
    pub(crate) known: &'a [KnownProvider],
    pub(crate) env: &'a Env<'a>,
}

/// Three names of a default, twice where `-m` names one, and an alias or two of the user's; more is a loop.
const ALIAS_STEPS_MAX: usize = 12;

/// An error lists what exists, not a catalogue.
const LISTED_MAX: usize = 30;

impl Chooser<'_> {
    /// The provider that a choice would send to, also when something is still missing there; `None` when nobody can say.
    pub(crate) fn receiver(&self, name: Option<&str>) -> Option<String> {
        let before_slash = |name: &str| name.split_once('/').map(|(provider, _)| provider.to_owned());
        match self.choose(name) {
            Ok(ModelChoice::Offline) => Some("offline".to_owned()),
            Ok(ModelChoice::Remote(chosen)) => Some(chosen.provider),
            Err(ModelChoiceError::NoKey { model, .. }) => before_slash(&model),
            Err(ModelChoiceError::Unknown { name, .. }) => before_slash(&name),
            Err(
                ModelChoiceError::NoBaseUrl { provider }
                | ModelChoiceError::Unsupported { provider, .. }
                | ModelChoiceError::NoModel { provider },
            ) => Some(provider),
            Err(ModelChoiceError::Ambiguous { .. } | ModelChoiceError::AliasLoop { .. }) => None,
        }
    }

    /// Whether a name is an alias, a model, or begins with a provider.
    pub(crate) fn means_something(&self, name: &str) -> bool {
        let is_provider = |name: &str| self.configured(name).is_some() || self.known(name).is_some();
        self.config.aliases.iter().any(|(alias, _)| alias == name)
            || !self.with_model(name).is_empty()
            || name.split_once('/').is_some_and(|(provider, _)| is_provider(provider))
    }

    fn choose(&self, name: Option<&str>) -> Result<ModelChoice, ModelChoiceError> {
        match self.follow(name.unwrap_or("default"), name.is_none())? {
            Some(name) if name == "offline" || name == "offline/explorer" => Ok(ModelChoice::Offline),
            Some(name) => self.named(&name),
            None => self.unnamed(),
        }
    }

    /// What an alias stands for in the end; `None` when that is whatever is there. Without a name given, the key `model`
    /// comes before the alias `default`. A `-m` that comes down to `default` itself means what the files say below it.
    fn follow(&self, name: &str, unnamed: bool) -> Result<Option<String>, ModelChoiceError> {
        let configured = self.config.model.as_ref().map(|model| model.value.clone());
        let below = self.config.below_flag.as_ref().map(|below| below.model.as_ref().map(|model| model.value.clone()));
        let mut defaults = std::iter::once(configured.clone()).chain(below);
        let mut current = match configured {
            Some(model) if unnamed => model,
            _ => name.to_owned(),
        };
        for _ in 0..ALIAS_STEPS_MAX {
            let alias = |name: &str| self.config.aliases.iter().find(|(alias, _)| alias == name).map(|(_, model)| model.value.clone());
            if let Some(meant) = alias(&current) {
                current = meant;
                continue;
            }
            if !self.with_model(&current).is_empty() {
                return Ok(Some(current));
            }
            current = match current.as_str() {
                "haiku" => "small".to_owned(),
                "opus" => "strong".to_owned(),
                "sonnet" | "small" | "strong" => "default".to_owned(),
                "default" => match defaults.next() {
                    Some(Some(model)) => model,
                    Some(None) => return Ok(None),
                    None => break,
                },
                _ => return Ok(Some(current)),
            };
        }
        Err(ModelChoiceError::AliasLoop { alias: name.to_owned() })
    }

    fn named(&self, name: &str) -> Result<ModelChoice, ModelChoiceError> {
        if let Some((provider, model)) = name.split_once('/')
            && (self.configured(provider).is_some() || self.known(provider).is_some())
        {
            return self.reach(provider, model);
        }
        match &self.with_model(name)[..] {
            [] => Err(self.unknown(name)),
            [provider] => self.reach(&provider.name, name),
            several => {
                let among = several.iter().map(|provider| format!("{}/{name}", provider.name)).collect();
                Err(ModelChoiceError::Ambiguous { name: name.to_owned(), among })
            }
        }
    }

    /// The first that can be used: those configured, then those with a key in the environment, then those whose key is kept.
    fn unnamed(&self) -> Result<ModelChoice, ModelChoiceError> {
        let mut refused = None;
        for provider in &self.config.providers {
            let first = provider.models.first().map(|(name, _)| name.as_str());
            let chosen = match first.or(self.known(&provider.name).map(|known| known.default_model)) {
                Some(model) => self.reach(&provider.name, model),
                None => Err(ModelChoiceError::NoModel { provider: provider.name.clone() }),
            };
            match chosen {
                Ok(choice) => return Ok(choice),
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        let opens = |known: &&KnownProvider| !known.default_model.is_empty() && self.key_in(known.key_env).is_some();
        let keyed = self.known.iter().find(|known| self.configured(known.name).is_none() && opens(known));
        match (keyed, refused) {
            (Some(known), _) => self.reach(known.name, known.default_model),
            (None, refused) => match (self.kept()?, refused) {
                (ModelChoice::Offline, Some(error)) => Err(error),
                (choice, _) => Ok(choice),
            },
        }
    }

    /// The first known provider whose key posse keeps, else the offline model.
    fn kept(&self) -> Result<ModelChoice, ModelChoiceError> {
        for known in self.known.iter().filter(|known| !known.default_model.is_empty() && self.configured(known.name).is_none()) {
            match self.config.kept.has(known.name) {
                Ok(true) => return self.reach(known.name, known.default_model),
                Ok(false) => {}
                // A key may be there that nobody can read: to go on offline would hide it.
                Err(reason) => return Err(ModelChoiceError::NoKey { model: format!("{}/{}", known.name, known.default_model), reason }),
            }
        }
        Ok(ModelChoice::Offline)
    }

    fn reach(&self, provider: &str, model: &str) -> Result<ModelChoice, ModelChoiceError> {
        let (configured, known) = (self.configured(provider), self.known(provider));
        let spec = configured.and_then(|configured| configured.models.iter().find(|(name, _)| name == model)).map(|(_, spec)| spec.clone());
        // Who lists the models of a server of their own lists all of them; the world's providers have more.
        let listed = known.is_none() && configured.is_some_and(|configured| !configured.models.is_empty());
        if model.is_empty() || listed && spec.is_none() {
            return Err(self.unknown(&format!("{provider}/{model}")));
        }
        let said = configured.and_then(|configured| configured.base_url.clone());
        let from_env = known.filter(|known| !known.base_url_env.is_empty()).and_then(|known| variable(self.env, known.base_url_env));
        let base_url = said.or(from_env).or(known.map(|known| known.base_url.to_owned()));
        let api = match configured.map(|configured| &configured.api) {
            Some(ApiChoice::Named(api)) => *api,
            Some(ApiChoice::Unsupported(package)) => {
                return Err(ModelChoiceError::Unsupported { provider: provider.to_owned(), package: package.clone() });
            }
            Some(ApiChoice::Unsaid) | None => {
                known.map_or(Api::OpenaiChat, |known| known.api_at(base_url.as_deref().unwrap_or(known.base_url)))
            }
        };
        Ok(ModelChoice::Remote(Box::new(ChosenModel {
            provider: provider.to_owned(),
            model: model.to_owned(),
            api,
            base_url: base_url.ok_or_else(|| ModelChoiceError::NoBaseUrl { provider: provider.to_owned() })?,
            key: self.key(provider, model, configured, known)?,
            headers: configured.map(|configured| configured.headers.clone()).unwrap_or_default(),
            spec: spec.unwrap_or_default(),
        })))
    }

    fn key(
        &self,
        provider: &str,
        model: &str,
        configured: Option<&Provider>,
        known: Option<&KnownProvider>,
    ) -> Result<Option<Secret>, ModelChoiceError> {
        let refused = |reason: String| Err(ModelChoiceError::NoKey { model: format!("{provider}/{model}"), reason });
        match configured.map(|configured| &configured.key) {
            Some(Key::Given(secret)) => return Ok(Some(secret.clone())),
            Some(Key::Missing(reason)) => return refused(reason.clone()),
            Some(Key::Unsaid) | None => {}
        }
        let names = variables(configured, known);
        if let Some(secret) = self.key_in(&names) {
            return Ok(Some(secret));
        }
        match self.config.kept.key(provider) {
            Ok(Some(secret)) => return Ok(Some(secret)),
            Ok(None) => {}
            Err(reason) => return refused(reason),
        }
        // An address of the user's own without a word about keys is a server that needs none.
        let own_server = configured.is_some_and(|configured| configured.base_url.is_some() && configured.key_env.is_empty());
        match names.first() {
            Some(name) if !own_server => {
                refused(format!("run `posse auth add {provider}`, set {name}, or write `provider.{provider}.api_key` into your posse.json"))
            }
            _ => Ok(None),
        }
    }

    fn key_in(&self, names: &[&str]) -> Option<Secret> {
        names.iter().find_map(|name| variable(self.env, name)).map(Secret::new)
    }

    fn configured(&self, provider: &str) -> Option<&Provider> {
        self.config.providers.iter().find(|configured| configured.name == provider)
    }

    fn known(&self, provider: &str) -> Option<&KnownProvider> {
        self.known.iter().find(|known| known.name == provider)
    }

    /// The providers that list a model of exactly this name.
    fn with_model(&self, model: &str) -> Vec<&Provider> {
        self.config.providers.iter().filter(|provider| provider.models.iter().any(|(name, _)| name == model)).collect()
    }

    fn unknown(&self, name: &str) -> ModelChoiceError {
        let configured = self
            .config
            .providers
            .iter()
            .flat_map(|provider| provider.models.iter().map(move |(model, _)| format!("{}/{model}", provider.name)));
        let aliases = self.config.aliases.iter().map(|(alias, _)| alias.clone());
        // A list that cannot be read is told of where a key is wanted.
        let has_key = |known: &KnownProvider| self.key_in(known.key_env).is_some() || self.config.kept.has(known.name).unwrap_or(false);
        let usable = self.known.iter().filter(|known| known.key_env.is_empty() || has_key(known));
        let named = |known: &&KnownProvider| if known.default_model.is_empty() { "MODEL" } else { known.default_model };
        let known = usable.map(|known| format!("{}/{}", known.name, named(&known)));
        let mut exist: Vec<String> = Vec::new();
        for model in configured.chain(aliases).chain(known) {
            if exist.len() < LISTED_MAX && !exist.contains(&model) {
                exist.push(model);
            }
        }
        ModelChoiceError::Unknown { name: name.to_owned(), exist }
    }
}
