//! Where every provider's key comes from: which place counts, and which are shadowed. Never what the key is, nor a part of it.

use posse_config::{Config, KeySource, Places};

use super::{Finding, Health};
use crate::{
    auth::{provider_names, source_words},
    build::{self, env},
};

const WHAT: &str = "key";

pub(super) fn findings(config: &Config, places: &Places) -> Vec<Finding> {
    let known = build::known();
    let mut findings = Vec::new();
    for provider in provider_names(config) {
        match config.key_sources(&provider, &known, &env) {
            Ok(sources) => findings.extend(of_sources(config, places, &provider, &sources)),
            // The list of kept keys is one for all: once is enough.
            Err(words) => return vec![Finding::new(WHAT, Health::Bad, words)],
        }
    }
    findings
}

fn of_sources(config: &Config, places: &Places, provider: &str, sources: &[KeySource]) -> Option<Finding> {
    let is_configured = config.providers.iter().any(|configured| configured.name == provider);
    let needs_none = build::known().iter().any(|known| known.name == provider && known.key_env.is_empty());
    let words = |source: &KeySource| source_words(source, provider, &places.data_dir);
    let Some((first, shadowed)) = sources.split_first() else {
        // What nobody set up is not missing anything.
        return (is_configured && !needs_none).then(|| {
            let words = format!("none; if its server needs one, `posse auth add {provider}` keeps it");
            Finding::of(provider, WHAT, Health::Note, words)
        });
    };
    if let KeySource::Missing(reason) = first {
        return Some(Finding::of(provider, WHAT, Health::Note, reason));
    }
    let others: Vec<String> = shadowed.iter().map(words).collect();
    let also = if others.is_empty() { String::new() } else { format!("; shadowed by it: {}", others.join(", ")) };
    Some(Finding::of(provider, WHAT, Health::Good, format!("from {}{also}", words(first))))
}
