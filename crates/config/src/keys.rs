//! Where a provider's key comes from: a file, the environment, or what the user gave posse to keep.
//!
//! In this order: whoever writes a key next to the project's work means this work, and whoever sets a variable means this
//! shell. Where kept keys are and how they are guarded is the caller's business; here they are a trait. No key is ever
//! part of what this file says.

use std::{fmt, sync::Arc};

use crate::{
    config::Config,
    model::KnownProvider,
    origin::Origin,
    places::{Env, variable},
    provider::{Key, Provider, Secret},
};

/// Keys that the user gave posse to keep. Asked only when neither the files nor the environment have one.
///
/// An error is words for the user: what is wrong with the place, and what to do.
pub trait KeptKeys: Send + Sync {
    /// Whether there is a key for this provider. Reads a list, no secret.
    fn has(&self, provider: &str) -> Result<bool, String>;

    fn key(&self, provider: &str) -> Result<Option<Secret>, String>;
}

/// A place that holds a key for a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// `api_key` of a file.
    Configured(Origin),
    /// An `api_key` or a header that refers to something that is not there; why. Nothing counts after it.
    Missing(String),
    /// A variable of the environment.
    Variable(String),
    /// Kept by posse.
    Kept,
}

/// What a configuration knows of kept keys; nothing unless it is told.
#[derive(Clone, Default)]
pub(crate) struct Kept(Option<Arc<dyn KeptKeys>>);

impl fmt::Debug for Kept {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.0.is_some() { "Kept(..)" } else { "Kept" })
    }
}

impl Kept {
    pub(crate) fn has(&self, provider: &str) -> Result<bool, String> {
        self.0.as_ref().map_or(Ok(false), |kept| kept.has(provider))
    }

    pub(crate) fn key(&self, provider: &str) -> Result<Option<Secret>, String> {
        self.0.as_ref().map_or(Ok(None), |kept| kept.key(provider))
    }
}

impl Config {
    /// The same, with keys to fall back on.
    pub fn with_kept_keys(mut self, kept: Arc<dyn KeptKeys>) -> Self {
        self.kept = Kept(Some(kept));
        self
    }

    /// Every place that has a key for this provider; the first counts, the others are shadowed.
    pub fn key_sources(&self, provider: &str, known: &[KnownProvider], env: &Env<'_>) -> Result<Vec<KeySource>, String> {
        let configured = self.providers.iter().find(|configured| configured.name == provider);
        let known = known.iter().find(|known| known.name == provider);
        let mut sources = match configured.map(|configured| &configured.key) {
            Some(Key::Given(_)) => vec![KeySource::Configured(self.key_origin(provider))],
            Some(Key::Missing(reason)) => vec![KeySource::Missing(reason.clone())],
            Some(Key::Unsaid) | None => Vec::new(),
        };
        let set = variables(configured, known).into_iter().filter(|name| variable(env, name).is_some());
        sources.extend(set.map(|name| KeySource::Variable(name.to_owned())));
        if self.kept.has(provider)? {
            sources.push(KeySource::Kept);
        }
        Ok(sources)
    }

    /// Where the `api_key` of a provider is written.
    fn key_origin(&self, provider: &str) -> Origin {
        let node = ["provider", provider, "api_key"].into_iter().try_fold(&self.tree, |node, part| node.get(part));
        node.map(|node| node.origin.clone()).unwrap_or_else(Origin::built_in)
    }
}

/// The variables that may hold a provider's key, the user's own first.
pub(crate) fn variables<'a>(configured: Option<&'a Provider>, known: Option<&'a KnownProvider>) -> Vec<&'a str> {
    let own = configured.into_iter().flat_map(|configured| configured.key_env.iter().map(String::as_str));
    own.chain(known.into_iter().flat_map(|known| known.key_env.iter().copied())).collect()
}
