//! The table of models that the world knows: one line per model, sorted, found by halving.
//!
//! The table is text inside the program (`facts/models.txt`, made by `facts/make.py`), and nothing of it is read before
//! somebody asks: a lookup looks at a dozen lines of a thousand. What a name means that the table lacks is `facts.rs`.

use posse_session::Prices;

static TABLE: &str = include_str!("../../facts/models.txt");

/// What is known of one model of one provider.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CatalogueEntry {
    pub provider: &'static str,
    /// The name at the provider.
    pub model: &'static str,
    pub context: u64,
    pub output: u64,
    /// `None`: nobody has said what it costs.
    pub prices: Option<KnownPrices>,
    pub tools: bool,
    pub images: bool,
    pub reasoning: bool,
    /// The provider will take it away.
    pub deprecated: bool,
    /// `2025-09-29`, or less of it; empty when unknown.
    pub released: &'static str,
}

/// USD per million tokens. A cache without a price of its own costs what input costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KnownPrices {
    pub input: f64,
    pub output: f64,
    pub cache_read: Option<f64>,
    pub cache_write: Option<f64>,
}

impl From<KnownPrices> for Prices {
    fn from(known: KnownPrices) -> Self {
        let KnownPrices { input, output, cache_read, cache_write } = known;
        Self { input, output, cache_read: cache_read.unwrap_or(input), cache_write: cache_write.unwrap_or(input), unknown: false }
    }
}

/// Every model that the table has of a provider, by name.
pub fn catalogue(provider: &str) -> impl Iterator<Item = CatalogueEntry> + use<> {
    let start = format!("{}/", our_name(provider));
    lines_with(&start).filter_map(entry_of)
}

/// The providers of the table, by name.
pub fn catalogued_providers() -> Vec<&'static str> {
    let mut providers: Vec<&str> = TABLE.lines().filter_map(|line| Some(key_of(line)?.split_once('/')?.0)).collect();
    providers.dedup();
    providers
}

/// Exactly this model of exactly this provider.
pub(super) fn exact(provider: &str, model: &str) -> Option<CatalogueEntry> {
    let key = format!("{}/{model}", our_name(provider));
    let line = TABLE[first_at(&key)..].lines().next()?;
    entry_of(line).filter(|_| key_of(line) == Some(key.as_str()))
}

/// The model with the longest name that this one begins with, ending where a part of the name ends: a date, a tag or a
/// variant may follow.
pub(super) fn beginning(provider: &str, model: &str) -> Option<CatalogueEntry> {
    let continues = |rest: &str| rest.is_empty() || rest.starts_with(['-', ':', '@', '_']);
    let named = catalogue(provider).filter(|entry| model.strip_prefix(entry.model).is_some_and(continues));
    named.max_by_key(|entry| entry.model.len())
}

/// A provider by the name we give it; users of other programs write these.
fn our_name(provider: &str) -> &str {
    match provider {
        "google" => "gemini",
        "togetherai" => "together",
        "fireworks-ai" => "fireworks",
        "moonshotai" => "moonshot",
        "amazon-bedrock" => "bedrock",
        other => other,
    }
}

/// The lines whose names begin so; they stand together.
fn lines_with(start: &str) -> impl Iterator<Item = &'static str> + use<> {
    let at = first_at(start);
    let start = start.to_owned();
    TABLE[at..].lines().take_while(move |line| line.starts_with(&start))
}

/// Where the first line begins whose name is not before this one.
fn first_at(key: &str) -> usize {
    // Between these two, both beginnings of lines, lies the answer.
    let (mut low, mut high) = (0, TABLE.len());
    while low < high {
        let middle = low + (high - low) / 2;
        let line = TABLE.as_bytes()[low..middle].iter().rposition(|byte| *byte == b'\n').map_or(low, |at| low + at + 1);
        let text = TABLE[line..].lines().next().unwrap_or_default();
        // What is said before the first model comes before every name.
        if key_of(text).is_none_or(|found| found < key) { low = line + text.len() + 1 } else { high = line }
    }
    low.min(TABLE.len())
}

fn key_of(line: &str) -> Option<&str> {
    line.split_once('\t').map(|(key, _)| key).filter(|key| !key.starts_with('#'))
}

fn entry_of(line: &'static str) -> Option<CatalogueEntry> {
    let mut fields = line.split('\t');
    let (provider, model) = fields.next()?.split_once('/')?;
    let context = fields.next()?.parse().ok()?;
    let output = fields.next()?.parse().ok()?;
    // A dash is no number, so what is unknown is nothing.
    let mut price = || fields.next().and_then(|text| text.parse::<f64>().ok());
    let (input, per_output, cache_read, cache_write) = (price(), price(), price(), price());
    let prices = input.zip(per_output).map(|(input, output)| KnownPrices { input, output, cache_read, cache_write });
    let marks = fields.next()?;
    let released = fields.next().filter(|date| *date != "-").unwrap_or_default();
    Some(CatalogueEntry {
        provider,
        model,
        context,
        output,
        prices,
        tools: marks.contains('t'),
        images: marks.contains('i'),
        reasoning: marks.contains('r'),
        deprecated: marks.contains('d'),
        released,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table is data inside the program: larger than this it would be a burden.
    const TABLE_BYTES_MAX: usize = 250 * 1024;

    fn models() -> impl Iterator<Item = &'static str> {
        TABLE.lines().filter(|line| !line.starts_with('#'))
    }

    #[test]
    fn every_line_of_the_table_is_whole_and_in_order() {
        assert!(TABLE.len() < TABLE_BYTES_MAX, "{} bytes", TABLE.len());
        let keys: Vec<&str> = models().map(|line| key_of(line).unwrap()).collect();
        assert!(500 < keys.len() && keys.is_sorted_by(|one, other| one < other));
        for line in models() {
            let entry = entry_of(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!(line.split('\t').count(), 9, "{line}");
            assert!(0 < entry.context && 0 < entry.output && !entry.model.is_empty(), "{line}");
            let prices = entry.prices.map(Prices::from).unwrap_or_default();
            let all = [prices.input, prices.output, prices.cache_read, prices.cache_write];
            assert!(all.iter().all(|price| price.is_finite() && 0.0 <= *price), "{line}");
        }
    }

    #[test]
    fn every_model_is_found_by_its_name_and_nothing_else_is() {
        for line in models() {
            let (provider, model) = key_of(line).unwrap().split_once('/').unwrap();
            assert_eq!(exact(provider, model), entry_of(line), "{line}");
            assert_eq!(exact(provider, &format!("{model}\u{1}")), None, "{line}");
        }
        for (provider, model) in [("", ""), ("#", ""), ("zzz", "zzz"), ("anthropic", ""), ("anthropic", "claude"), ("aaa", "x")] {
            assert_eq!(exact(provider, model), None, "{provider}/{model}");
        }
    }

    #[test]
    fn a_providers_models_are_all_and_only_its_own() {
        let total: usize = catalogued_providers().into_iter().map(|provider| catalogue(provider).count()).sum();
        assert_eq!(total, models().count());
        assert!(catalogue("anthropic").all(|entry| entry.provider == "anthropic" && entry.model.starts_with("claude")));
        assert_eq!(catalogue("google").count(), catalogue("gemini").count());
        assert!(0 < catalogue("google").count());
        assert_eq!(catalogue("nobody").count(), 0);
    }

    #[test]
    fn a_name_that_goes_on_is_the_longest_that_ends_at_a_part() {
        let found = |provider, model| beginning(provider, model).map(|entry| entry.model);
        assert_eq!(found("anthropic", "claude-opus-4-6-20260205"), Some("claude-opus-4-6"));
        assert_eq!(found("openai", "gpt-5-mini-2025-08-07"), Some("gpt-5-mini"));
        assert_eq!(found("openai", "gpt-5"), Some("gpt-5"));
        assert_eq!(found("openai", "gpt-55"), None);
        assert_eq!(found("openai", "gpt-5.99"), None);
    }

    #[test]
    fn a_cache_without_a_price_costs_what_input_costs() {
        let known = KnownPrices { input: 2.0, output: 8.0, cache_read: Some(0.5), cache_write: None };
        assert_eq!(Prices::from(known), Prices { input: 2.0, output: 8.0, cache_read: 0.5, cache_write: 2.0, unknown: false });
    }
}
