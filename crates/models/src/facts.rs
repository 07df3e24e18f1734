//! What is known about models by their names, where the configuration says nothing.
//!
//! A small table, matched by the longest prefix; a wrong price here is a wrong number on a screen, never a wrong limit
//! that the user set. Prices are USD per million tokens.

use posse_session::{ModelFacts, Prices};

use crate::provider::{ProviderSpec, wire_name};

/// What nearly every current model takes, so that an unknown one is neither starved nor overfed.
const CONTEXT_UNKNOWN: u64 = 128_000;
const OUTPUT_UNKNOWN: u64 = 8_192;

pub(crate) fn facts(provider: &ProviderSpec, model: &str) -> ModelFacts {
    // The provider's own name says more than one the user made up.
    let known = lookup(wire_name(provider, model)).or_else(|| lookup(model));
    let said = provider.models.get(model).cloned().unwrap_or_default();
    let context = said.context.or(known.map(|row| row.context)).unwrap_or(CONTEXT_UNKNOWN);
    let output = said.output.or(known.map(|row| row.output)).unwrap_or(OUTPUT_UNKNOWN);
    ModelFacts {
        name: format!("{}/{model}", provider.name),
        provider: provider.name.clone(),
        context,
        // A small context cannot have an answer as long as itself.
        output: output.min(context),
        prices: said.cost.or(known.map(Row::prices)).unwrap_or_default(),
        images: said.images.or(known.map(|row| row.images)).unwrap_or(false),
    }
}

/// Prefix, context, output, then prices: input, output, cache read, cache write.
#[derive(Debug)]
struct Row {
    prefix: &'static str,
    context: u64,
    output: u64,
    images: bool,
    usd: [f64; 4],
}

impl Row {
    fn prices(&self) -> Prices {
        let [input, output, cache_read, cache_write] = self.usd;
        Prices { input, output, cache_read, cache_write }
    }
}

fn lookup(model: &str) -> Option<&'static Row> {
    // A router's `vendor/name`, a tag after a colon, and `claude-sonnet-4.5` for `claude-sonnet-4-5` are the same model.
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    let name = if name.starts_with("claude") { name.replace('.', "-") } else { name };
    TABLE.iter().filter(|row| name.starts_with(row.prefix)).max_by_key(|row| row.prefix.len())
}

const fn row(prefix: &'static str, context: u64, output: u64, images: bool, usd: [f64; 4]) -> Row {
    Row { prefix, context, output, images, usd }
}

#[rustfmt::skip]
static TABLE: &[Row] = &[
    row("claude",                200_000,  64_000, true,  [3.0, 15.0, 0.3, 3.75]),
    row("claude-opus-4",         200_000,  32_000, true,  [15.0, 75.0, 1.5, 18.75]),
    row("claude-opus-4-5",       200_000,  64_000, true,  [5.0, 25.0, 0.5, 6.25]),
    row("claude-opus-4-6",       200_000,  64_000, true,  [5.0, 25.0, 0.5, 6.25]),
    row("claude-opus-4-7",       200_000,  64_000, true,  [5.0, 25.0, 0.5, 6.25]),
    row("claude-opus-4-8",       200_000,  64_000, true,  [5.0, 25.0, 0.5, 6.25]),
    row("claude-sonnet",         200_000,  64_000, true,  [3.0, 15.0, 0.3, 3.75]),
    row("claude-haiku",          200_000,  64_000, true,  [1.0, 5.0, 0.1, 1.25]),
    row("claude-3-7-sonnet",     200_000,  64_000, true,  [3.0, 15.0, 0.3, 3.75]),
    row("claude-3-5-sonnet",     200_000,   8_192, true,  [3.0, 15.0, 0.3, 3.75]),
    row("claude-3-5-haiku",      200_000,   8_192, true,  [0.8, 4.0, 0.08, 1.0]),
    row("claude-3-opus",         200_000,   4_096, true,  [15.0, 75.0, 1.5, 18.75]),
    row("claude-3-haiku",        200_000,   4_096, true,  [0.25, 1.25, 0.03, 0.3]),
    row("gpt-5",                 400_000, 128_000, true,  [1.25, 10.0, 0.125, 0.0]),
    row("gpt-5.2",               400_000, 128_000, true,  [1.75, 14.0, 0.175, 0.0]),
    row("gpt-5-mini",            400_000, 128_000, true,  [0.25, 2.0, 0.025, 0.0]),
    row("gpt-5-nano",            400_000, 128_000, true,  [0.05, 0.4, 0.005, 0.0]),
    row("gpt-4.1",             1_047_576,  32_768, true,  [2.0, 8.0, 0.5, 0.0]),
    row("gpt-4.1-mini",        1_047_576,  32_768, true,  [0.4, 1.6, 0.1, 0.0]),
    row("gpt-4.1-nano",        1_047_576,  32_768, true,  [0.1, 0.4, 0.025, 0.0]),
    row("gpt-4o",                128_000,  16_384, true,  [2.5, 10.0, 1.25, 0.0]),
    row("gpt-4o-mini",           128_000,  16_384, true,  [0.15, 0.6, 0.075, 0.0]),
    row("gpt-oss",               131_072,  32_768, false, [0.0, 0.0, 0.0, 0.0]),
    row("o1",                    200_000, 100_000, true,  [15.0, 60.0, 7.5, 0.0]),
    row("o3",                    200_000, 100_000, true,  [2.0, 8.0, 0.5, 0.0]),
    row("o3-mini",               200_000, 100_000, false, [1.1, 4.4, 0.55, 0.0]),
    row("o4-mini",               200_000, 100_000, true,  [1.1, 4.4, 0.275, 0.0]),
    row("deepseek",              128_000,   8_192, false, [0.28, 0.42, 0.028, 0.0]),
    row("deepseek-reasoner",     128_000,  64_000, false, [0.28, 0.42, 0.028, 0.0]),
    row("gemini",              1_048_576,  65_536, true,  [0.3, 2.5, 0.03, 0.0]),
    row("gemini-2.0-flash",    1_048_576,   8_192, true,  [0.1, 0.4, 0.025, 0.0]),
    row("gemini-2.5-pro",      1_048_576,  65_536, true,  [1.25, 10.0, 0.125, 0.0]),
    row("gemini-2.5-flash",    1_048_576,  65_536, true,  [0.3, 2.5, 0.03, 0.0]),
    row("gemini-2.5-flash-lite", 1_048_576, 65_536, true, [0.1, 0.4, 0.01, 0.0]),
    row("gemini-3-pro",        1_048_576,  65_536, true,  [2.0, 12.0, 0.2, 0.0]),
    row("gemini-3.1-pro",      1_048_576,  65_536, true,  [2.0, 12.0, 0.2, 0.0]),
    row("gemini-3-flash",      1_048_576,  65_536, true,  [0.5, 3.0, 0.05, 0.0]),
    row("grok",                  131_072,  16_384, false, [3.0, 15.0, 0.75, 0.0]),
    row("grok-3-mini",           131_072,  16_384, false, [0.3, 0.5, 0.075, 0.0]),
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
        let provider =
            ProviderSpec { name: "p".into(), api: Api::OpenAi, base_url: String::new(), api_key: None, headers: Vec::new(), models };
        facts(&provider, model)
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
    fn an_unknown_model_is_free_and_of_usual_size() {
        let facts = facts_of("m1", BTreeMap::new());
        assert_eq!((facts.context, facts.output, facts.prices), (128_000, 8_192, Prices::default()));
    }
}
