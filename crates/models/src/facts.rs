//! What is known about models by their names, where the configuration says nothing.
//!
//! First the table of the world's models (`facts/catalogue.rs`): by provider and name, then by the name at the provider
//! that makes the model, so that a router's `vendor/name`, a dated name and a relay of the user's own have facts too. A
//! name that the table lacks has those of its family. Prices are USD per million tokens. A price is known, also known to be
//! nothing, or it is unknown and said to be: a budget in money cannot count it.

mod catalogue;

use posse_session::{ModelFacts, Prices};

pub use catalogue::{CatalogueEntry, KnownPrices, catalogue, catalogued_providers};

use crate::{
    address::is_on_this_machine,
    provider::{ProviderSpec, wire_name},
};

/// What nearly every current model takes, so that an unknown one is neither starved nor overfed.
const CONTEXT_UNKNOWN: u64 = 128_000;
const OUTPUT_UNKNOWN: u64 = 8_192;

/// Servers on machines of the user's own: nobody is paid for what they answer.
const FREE: &[&str] = &["ollama", "llamacpp", "lmstudio", "vllm"];

pub(crate) fn facts(provider: &ProviderSpec, model: &str) -> ModelFacts {
    // The provider's own name says more than one the user made up.
    let wire_name = wire_name(provider, model);
    let found = lookup(&provider.name, wire_name).or_else(|| lookup(&provider.name, model).filter(|_| model != wire_name));
    let known = found.map(Known::from).or_else(|| family(wire_name).map(Known::from)).or_else(|| family(model).map(Known::from));
    let said = provider.models.get(model).cloned().unwrap_or_default();
    let context = said.context.or(known.map(|known| known.context)).unwrap_or(CONTEXT_UNKNOWN);
    let output = said.output.or(known.map(|known| known.output)).unwrap_or(OUTPUT_UNKNOWN);
    ModelFacts {
        name: format!("{}/{model}", provider.name),
        provider: provider.name.clone(),
        context,
        // A small context cannot have an answer as long as itself.
        output: output.min(context),
        prices: said.cost.unwrap_or_else(|| list_price(provider, known)),
        images: said.images.or(known.map(|known| known.images)).unwrap_or(false),
    }
}

/// What a model costs whose price nobody has configured. A server on this machine is the user's own, unless what it is
/// asked for has a price: then it relays.
fn list_price(provider: &ProviderSpec, known: Option<Known>) -> Prices {
    if FREE.contains(&provider.name.as_str()) {
        return Prices::default();
    }
    let here = || is_on_this_machine(&provider.base_url).then(Prices::default);
    known.and_then(|known| known.prices).or_else(here).unwrap_or_else(Prices::unknown)
}

/// What the table says of a model, by the name at this provider or else by the model's own.
pub fn lookup(provider: &str, model: &str) -> Option<CatalogueEntry> {
    let at_provider = catalogue::exact(provider, model).or_else(|| catalogue::beginning(provider, model));
    at_provider.or_else(|| {
        let name = own_name(model);
        let maker = maker(&name)?;
        catalogue::exact(maker, &name).or_else(|| catalogue::beginning(maker, &name))
    })
}

/// A router's `vendor/name` and `claude-sonnet-4.5` for `claude-sonnet-4-5` are the same model.
fn own_name(model: &str) -> String {
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    if name.starts_with("claude") { name.replace('.', "-") } else { name }
}

/// Who makes models of such names, and so what they are called in the table.
fn maker(name: &str) -> Option<&'static str> {
    const MAKERS: &[(&str, &str)] = &[
        ("claude", "anthropic"),
        ("gpt-", "openai"),
        ("o1", "openai"),
        ("o3", "openai"),
        ("o4", "openai"),
        ("gemini", "gemini"),
        ("grok", "xai"),
        ("deepseek", "deepseek"),
        ("mistral", "mistral"),
        ("ministral", "mistral"),
        ("magistral", "mistral"),
        ("codestral", "mistral"),
        ("devstral", "mistral"),
        ("kimi", "moonshot"),
        ("glm", "zai"),
        ("qwen", "alibaba"),
        ("command", "cohere"),
        ("sonar", "perplexity"),
    ];
    MAKERS.iter().find(|(start, _)| name.starts_with(start)).map(|(_, maker)| *maker)
}

/// As much as a run needs to know, wherever it was found.
#[derive(Debug, Clone, Copy)]
struct Known {
    context: u64,
    output: u64,
    images: bool,
    prices: Option<Prices>,
}

impl From<CatalogueEntry> for Known {
    fn from(entry: CatalogueEntry) -> Self {
        Self { context: entry.context, output: entry.output, images: entry.images, prices: entry.prices.map(Prices::from) }
    }
}

impl From<&Family> for Known {
    fn from(family: &Family) -> Self {
        // Where everybody may run a model, its price is whatever its host asks for.
        let prices =
            family.usd.map(|[input, output, cache_read, cache_write]| Prices { input, output, cache_read, cache_write, unknown: false });
        Self { context: family.context, output: family.output, images: family.images, prices }
    }
}

/// Prefix, context, output, then prices: input, output, cache read, cache write.
#[derive(Debug)]
struct Family {
    prefix: &'static str,
    context: u64,
    output: u64,
    images: bool,
    usd: Option<[f64; 4]>,
}

/// By the longest beginning.
fn family(model: &str) -> Option<&'static Family> {
    let name = own_name(model);
    FAMILIES.iter().filter(|family| name.starts_with(family.prefix)).max_by_key(|family| family.prefix.len())
}

const fn row(prefix: &'static str, context: u64, output: u64, images: bool, usd: [f64; 4]) -> Family {
    Family { prefix, context, output, images, usd: Some(usd) }
}

/// What a model is likely to be that is newer than the table, or older.
#[rustfmt::skip]
static FAMILIES: &[Family] = &[
    row("claude",                200_000,  64_000, true,  [3.0, 15.0, 0.3, 3.75]),
    row("claude-opus",           200_000,  64_000, true,  [5.0, 25.0, 0.5, 6.25]),
    row("claude-opus-4-0",       200_000,  32_000, true,  [15.0, 75.0, 1.5, 18.75]),
    row("claude-haiku",          200_000,  64_000, true,  [1.0, 5.0, 0.1, 1.25]),
    row("claude-3-5-sonnet",     200_000,   8_192, true,  [3.0, 15.0, 0.3, 3.75]),
    row("claude-3-5-haiku",      200_000,   8_192, true,  [0.8, 4.0, 0.08, 1.0]),
    row("claude-3-opus",         200_000,   4_096, true,  [15.0, 75.0, 1.5, 18.75]),
    row("claude-3-haiku",        200_000,   4_096, true,  [0.25, 1.25, 0.03, 0.3]),
    row("gpt-5",                 400_000, 128_000, true,  [1.25, 10.0, 0.125, 0.0]),
    row("gpt-4.1",             1_047_576,  32_768, true,  [2.0, 8.0, 0.5, 0.0]),
    row("gpt-4o",                128_000,  16_384, true,  [2.5, 10.0, 1.25, 0.0]),
    Family { prefix: "gpt-oss", context: 131_072, output: 32_768, images: false, usd: None },
    row("o1",                    200_000, 100_000, true,  [15.0, 60.0, 7.5, 0.0]),
    row("o3",                    200_000, 100_000, true,  [2.0, 8.0, 0.5, 0.0]),
    row("o4",                    200_000, 100_000, true,  [1.1, 4.4, 0.275, 0.0]),
    row("deepseek",              128_000,   8_192, false, [0.28, 0.42, 0.028, 0.0]),
    row("gemini",              1_048_576,  65_536, true,  [0.3, 2.5, 0.03, 0.0]),
    row("gemini-3-pro",        1_048_576,  65_536, true,  [2.0, 12.0, 0.2, 0.0]),
    row("gemini-3.1-pro",      1_048_576,  65_536, true,  [2.0, 12.0, 0.2, 0.0]),
    row("gemini-3-flash",      1_048_576,  65_536, true,  [0.5, 3.0, 0.05, 0.0]),
    row("grok",                  131_072,  16_384, false, [3.0, 15.0, 0.75, 0.0]),
    row("grok-4",                256_000,  64_000, true,  [3.0, 15.0, 0.75, 0.0]),
    row("grok-4-fast",         2_000_000,  30_000, true,  [0.2, 0.5, 0.05, 0.0]),
    row("grok-code-fast",        256_000,  10_000, false, [0.2, 1.5, 0.02, 0.0]),
    row("mistral",               128_000,  16_384, false, [0.4, 2.0, 0.0, 0.0]),
    row("mistral-large",         128_000,  16_384, false, [2.0, 6.0, 0.0, 0.0]),
    row("mistral-small",         128_000,  16_384, true,  [0.1, 0.3, 0.0, 0.0]),
    row("codestral",             256_000,   8_192, false, [0.3, 0.9, 0.0, 0.0]),
    row("devstral",              128_000,  16_384, false, [0.4, 2.0, 0.0, 0.0]),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::provider::{Api, FactsOverride};

    fn facts_of(model: &str, models: BTreeMap<String, FactsOverride>) -> ModelFacts {
        facts_at("p", model, models)
    }

    fn facts_at(provider: &str, model: &str, models: BTreeMap<String, FactsOverride>) -> ModelFacts {
        facts(&spec(provider, models), model)
    }

    fn spec(provider: &str, models: BTreeMap<String, FactsOverride>) -> ProviderSpec {
        ProviderSpec {
            name: provider.into(),
            api: Api::OpenAi,
            base_url: String::new(),
            api_key: None,
            key_place: None,
            headers: Vec::new(),
            models,
        }
    }

    #[test]
    fn the_longest_prefix_wins_under_every_spelling() {
        for (model, input) in [
            ("claude-sonnet-4-5-20250929", 3.0),
            ("anthropic/claude-opus-4.5", 5.0),
            ("claude-opus-4-1", 15.0),
            ("gpt-5-2025-08-07", 1.25),
            ("gpt-5.2", 1.75),
            ("openai/gpt-5-mini", 0.25),
            ("nobody-knows", 0.0),
        ] {
            assert_eq!(facts_of(model, BTreeMap::new()).prices.input, input, "{model}");
        }
    }

    #[test]
    fn what_the_user_says_counts_more() {
        let said =
            FactsOverride { context: Some(4_000), cost: Some(Prices { input: 9.0, ..Prices::default() }), ..FactsOverride::default() };
        let facts = facts_of("gpt-4o", BTreeMap::from([("gpt-4o".to_owned(), said)]));
        assert_eq!((facts.context, facts.output, facts.prices.input, facts.images), (4_000, 4_000, 9.0, true));
        assert_eq!(facts.name, "p/gpt-4o");
    }

    #[test]
    fn a_made_up_name_has_the_facts_of_the_model_it_stands_for() {
        let said = FactsOverride { id: Some("gpt-4o".into()), ..FactsOverride::default() };
        let facts = facts_of("mine", BTreeMap::from([("mine".to_owned(), said)]));
        assert_eq!((facts.name.as_str(), facts.prices.input, facts.output), ("p/mine", 2.5, 16_384));
    }

    #[test]
    fn an_unknown_model_has_an_unknown_price_and_the_usual_size() {
        let facts = facts_of("m1", BTreeMap::new());
        assert_eq!((facts.context, facts.output, facts.prices), (128_000, 8_192, Prices::unknown()));
    }

    #[test]
    fn a_price_is_known_where_somebody_said_it_or_nobody_is_paid() {
        let free = FactsOverride { cost: Some(Prices::default()), ..FactsOverride::default() };
        let said = BTreeMap::from([("m1".to_owned(), free)]);
        // Provider, address, model, what is configured, and whether the price is unknown.
        let table = [
            ("relay", "https://relay.example/v1", "m1", BTreeMap::new(), true),
            ("relay", "https://relay.example/v1", "m1", said, false),
            ("relay", "https://relay.example/v1", "claude-sonnet-4-5", BTreeMap::new(), false),
            ("relay", "https://relay.example/v1", "gpt-oss-of-somebody", BTreeMap::new(), true),
            ("mine", "http://127.0.0.1:9000/v1", "m1", BTreeMap::new(), false),
            ("mine", "http://localhost:9000/v1", "gpt-oss-of-somebody", BTreeMap::new(), false),
            ("mine", "http://10.0.0.7:9000/v1", "m1", BTreeMap::new(), true),
            ("ollama", "http://10.0.0.7:11434/v1", "m1", BTreeMap::new(), false),
        ];
        for (provider, base_url, model, models, unknown) in table {
            let spec = ProviderSpec { base_url: base_url.into(), ..spec(provider, models) };
            assert_eq!(facts(&spec, model).prices.unknown, unknown, "{provider} {base_url} {model}");
        }
        let relayed = ProviderSpec { base_url: "http://127.0.0.1:9000".into(), ..spec("mine", BTreeMap::new()) };
        assert_eq!(facts(&relayed, "claude-sonnet-4-5").prices.input, 3.0, "what has a list price is relayed");
    }

    #[test]
    fn a_model_has_the_facts_of_its_provider_then_of_its_maker_then_of_its_family() {
        let table = [
            // Exactly as the provider lists it.
            ("anthropic", "claude-sonnet-4-5", 200_000, 64_000, 3.0),
            ("anthropic", "claude-opus-4-6", 1_000_000, 128_000, 5.0),
            ("openai", "gpt-5.4-mini", 400_000, 128_000, 0.75),
            ("gemini", "gemini-2.5-pro", 1_048_576, 65_536, 1.25),
            ("google", "gemini-2.5-pro", 1_048_576, 65_536, 1.25),
            ("deepseek", "deepseek-chat", 1_000_000, 384_000, 0.14),
            // A date behind the name, at the provider and elsewhere.
            ("anthropic", "claude-opus-4-6-20260205", 1_000_000, 128_000, 5.0),
            ("relay", "claude-opus-4-6-20260205", 1_000_000, 128_000, 5.0),
            // A router's spelling of a model that the router's own list lacks.
            ("relay", "anthropic/claude-opus-4.6", 1_000_000, 128_000, 5.0),
            ("relay", "OpenAI/GPT-4o-mini", 128_000, 16_384, 0.15),
            // Newer than the table.
            ("anthropic", "claude-opus-9", 200_000, 64_000, 5.0),
            ("openai", "gpt-5.99", 400_000, 128_000, 1.25),
        ];
        for (provider, model, context, output, input) in table {
            let facts = facts_at(provider, model, BTreeMap::new());
            assert_eq!((facts.context, facts.output, facts.prices.input), (context, output, input), "{provider}/{model}");
        }
    }

    #[test]
    fn a_server_of_the_users_own_costs_nothing() {
        for provider in FREE {
            let facts = facts_at(provider, "deepseek-r1:8b", BTreeMap::new());
            assert_eq!((facts.prices, facts.context), (Prices::default(), 128_000), "{provider}");
        }
        assert!(0.0 < facts_of("deepseek-r1:8b", BTreeMap::new()).prices.input);
    }

    #[test]
    fn a_lookup_does_not_read_the_whole_table() {
        // The bound is a millisecond; this many would take seconds if each parsed every line.
        const LOOKUPS: u32 = 200;
        let begun = std::time::Instant::now();
        for _ in 0..LOOKUPS {
            assert!(lookup("relay", "anthropic/claude-sonnet-4.5-20250929").is_some());
        }
        let each = begun.elapsed() / LOOKUPS;
        assert!(each < std::time::Duration::from_millis(1), "{each:?}");
    }
}
