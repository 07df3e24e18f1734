//! `posse doctor --try`: whether a provider takes its key, and what to do if it does not.
//!
//! The only part of the doctor that goes out, and only when asked. Providers are tried at once, each with a bound.

use std::time::Duration;

use posse_config::{Config, KeySource, ModelChoice, Places};
use posse_models::{ProviderSpec, Tried, shown_url, try_provider};
use tokio::task::JoinSet;

use super::{Finding, Health};
use crate::{
    auth::{provider_named, provider_names, replace_words, source_words},
    build::{self, env},
    exit::Failure,
};

const WHAT: &str = "try";

/// Longer than any provider takes to list its models, and short enough to wait for.
const TRY_MAX: Duration = Duration::from_secs(10);

/// `wanted`: one provider by name, or with no name everybody who has a key.
pub(super) async fn findings(config: &Config, places: &Places, wanted: &str) -> Result<Vec<Finding>, Failure> {
    let providers = if wanted.is_empty() { with_keys(config) } else { vec![provider_named(config, wanted)?] };
    if providers.is_empty() {
        let words = "no provider has a key, so nothing was tried; `posse auth add PROVIDER` keeps one";
        return Ok(vec![Finding::new(WHAT, Health::Note, words)]);
    }
    let mut tries = JoinSet::new();
    let mut findings: Vec<(usize, Finding)> = Vec::new();
    for (at, provider) in providers.into_iter().enumerate() {
        match candidate(config, places, &provider) {
            Ok(candidate) => drop(tries.spawn(async move { (at, candidate.try_it().await) })),
            Err(words) => findings.push((at, Finding::of(&provider, WHAT, Health::Bad, words))),
        }
    }
    while let Some(tried) = tries.join_next().await {
        findings.extend(tried.ok());
    }
    findings.sort_by_key(|(at, _)| *at);
    Ok(findings.into_iter().map(|(_, finding)| finding).collect())
}

fn with_keys(config: &Config) -> Vec<String> {
    let known = build::known();
    let counts = |source: &KeySource| !matches!(source, KeySource::Missing(_));
    let has_key = |name: &String| config.key_sources(name, &known, &env).is_ok_and(|sources| sources.first().is_some_and(counts));
    provider_names(config).into_iter().filter(has_key).collect()
}

/// Everything that a try needs, and that its words need.
struct Candidate {
    spec: ProviderSpec,
    /// One that may be asked for a token.
    model: Option<String>,
    source: Option<KeySource>,
    key_words: Option<String>,
    /// Where the address can be changed, if it is not the provider's own.
    address_words: Option<String>,
}

fn candidate(config: &Config, places: &Places, provider: &str) -> Result<Candidate, String> {
    let known = build::known();
    let configured = config.providers.iter().find(|configured| configured.name == provider);
    let known_one = known.iter().find(|known| known.name == provider);
    let first = configured.and_then(|configured| configured.models.first()).map(|(name, _)| name.clone());
    let model = first.or_else(|| known_one.map(|known| known.default_model.to_owned())).filter(|model| !model.is_empty());
    // Where nothing is listed any name will do: it is only sent if it is one.
    let name = format!("{provider}/{}", model.as_deref().unwrap_or("model"));
    let chosen = match config.choose_model(Some(&name), &known, &env) {
        Ok(ModelChoice::Remote(chosen)) => chosen,
        Ok(ModelChoice::Offline) => return Err("it is built in and needs no try".to_owned()),
        Err(error) => return Err(error.to_string()),
    };
    let source = config.key_sources(provider, &known, &env)?.into_iter().next();
    let from_env = known_one.map(|known| known.base_url_env).filter(|name| env(name).is_some_and(|value| !value.is_empty()));
    let address_words = match (configured.and_then(|configured| configured.base_url.as_ref()), from_env) {
        (Some(_), _) => Some(format!("`provider.{provider}.base_url` in your posse.json")),
        (None, Some(name)) => Some(name.to_owned()),
        (None, None) => None,
    };
    Ok(Candidate {
        spec: build::provider(config, &chosen).map_err(Failure::into_words)?,
        model,
        key_words: source.as_ref().map(|source| source_words(source, provider, &places.data_dir)),
        source,
        address_words,
    })
}

impl Candidate {
    async fn try_it(self) -> Finding {
        let tried = try_provider(&self.spec, self.model.as_deref(), TRY_MAX).await;
        let health = if matches!(tried, Tried::Works { .. }) { Health::Good } else { Health::Bad };
        Finding::of(&self.spec.name, WHAT, health, self.words(&tried))
    }

    /// What happened, and what to do.
    fn words(&self, tried: &Tried) -> String {
        let url = shown_url(&self.spec.base_url);
        let from = self.key_words.as_ref().map(|place| format!("the key from {place}")).unwrap_or_else(|| "no key".to_owned());
        let correct = self.address_words.as_ref().map(|place| format!("check {place}"));
        match tried {
            Tried::Works { models: Some(count) } => {
                format!("works at {url} with {from}; it lists {}", posse_api::words::count(*count as u64, "model"))
            }
            Tried::Works { models: None } => format!("works at {url} with {from}"),
            Tried::KeyRefused { words } if self.source.is_none() => {
                format!("{url} wants a key ({words}); `posse auth add {}` keeps one", self.spec.name)
            }
            Tried::KeyRefused { words } => {
                format!("{url} refuses {from} ({words}); {}", replace_words(self.source.as_ref(), &self.spec.name))
            }
            Tried::NoCredit { words } => {
                format!("the key is good and the account is not ({words}); check its plan and credit at the provider")
            }
            Tried::RateLimited { words } => {
                format!("rate limited ({words}); the key is good: wait a while, or lower `concurrency.{}`", self.spec.name)
            }
            Tried::Unreachable { words } => {
                let what = correct.map_or("check the network, and HTTPS_PROXY if you need one".to_owned(), |correct| {
                    format!("{correct}, and whether the server runs")
                });
                format!("no connection to {url}: {words}; {what}")
            }
            Tried::WrongAddress { words } => {
                let what = correct.unwrap_or_else(|| "something between here and the provider answers in its place".to_owned());
                format!("wrong base URL {url}: {words}; {what}")
            }
            Tried::Trouble { words } => format!("{url} has trouble of its own: {words}; try again later"),
        }
    }
}
