//! `posse models list`: what can be used from here, how much it takes, and what it costs.
//!
//! Configured models, models of providers that have a key, and models of servers on this machine. A provider may have
//! hundreds, so a list shows the newest few and says how many there are; the rest is asked for by name. Facts come from
//! `posse_models`, and what the user configured counts more.

use posse_config::{Config, ModelChoiceError, nearest};
use posse_models::{CatalogueEntry, LocalServer, catalogue, catalogued_providers, lookup};
use posse_session::{Model as _, ModelFacts};
use serde_json::{Value, json};

use crate::{
    args::{How, Listing, ModelsCmd},
    auth,
    build::{self, env},
    exit::{Exit, Failure},
    local,
    print::{flat, to_stderr, to_stdout},
};

/// As many as are looked through at a glance.
const NEWEST_SHOWN: usize = 6;

/// Places where something else is found; one line has room for these.
const NEAR_SHOWN: usize = 3;

/// `20250929`; less behind a name is a version.
const DATE_CHARS_MIN: usize = 8;

/// Notes on what a user could have.
const NO_KEY: &str = "no key";
const NOT_SET_UP: &str = "not set up";

#[derive(Debug, Clone, PartialEq)]
struct Row {
    provider: String,
    /// `provider/model`.
    name: String,
    context: Option<u64>,
    output: Option<u64>,
    /// In, out, cache read, cache write; nothing when nobody knows.
    cost: Option<[f64; 4]>,
    tools: Option<bool>,
    images: Option<bool>,
    reasoning: Option<bool>,
    released: &'static str,
    /// Named in the user's own files.
    configured: bool,
    note: String,
}

pub(crate) async fn models(command: ModelsCmd) -> Result<Exit, Failure> {
    let ModelsCmd::List { what, all, format } = command;
    let places = build::places(None)?;
    let config = build::configuration(&places, &How::default())?;
    let local::Search { found: servers, unasked } = local::search(&config, |name| what.first().is_some_and(|word| word == name)).await;
    let named = what.first().filter(|name| is_provider(&config, name, &servers)).cloned();
    let filter: Vec<String> = what.iter().skip(usize::from(named.is_some())).map(|word| word.to_lowercase()).collect();
    let mut rows = rows(&config, named.as_deref(), &servers);
    let all_names: Vec<String> = rows.iter().map(|row| row.name.to_lowercase()).collect();
    rows.retain(|row| filter.iter().all(|word| row.name.to_lowercase().contains(word)));
    if rows.is_empty() && !filter.is_empty() {
        return Err(unknown(&config, named.as_deref(), &filter, &all_names));
    }
    if format == Listing::Json {
        to_stdout(&json!(rows.iter().map(Row::json).collect::<Vec<_>>()).to_string());
        return Ok(Exit::Done);
    }
    if rows.is_empty() {
        let words = "no model here has such a name; `posse models list PROVIDER` shows what a provider has that you have no key for";
        to_stderr(&format!("posse: {words}"));
        return Ok(Exit::Done);
    }
    for (kind, url) in unasked.iter().filter(|_| named.is_none()) {
        let name = kind.provider();
        to_stderr(&format!("posse: {name} at {url} is not on this machine, so it was not asked; `posse models list {name}` asks it"));
    }
    let is_short = !all && named.is_none() && filter.is_empty();
    print(&rows, is_short);
    // Once, and not on every line.
    if let Some(name) = &named {
        if rows.iter().any(|row| row.note == NO_KEY) {
            to_stderr(&format!("posse: there is no key for {name}; `posse auth add {name}` keeps one"));
        } else if rows.iter().any(|row| row.note == NOT_SET_UP) {
            to_stderr(&format!("posse: {name} is not set up; write its `base_url` under `provider.{name}` in your posse.json"));
        }
    }
    Ok(Exit::Done)
}

/// Nothing that can be used from here has such a name: who has it, or what it may have been meant to be.
fn unknown(config: &Config, named: Option<&str>, filter: &[String], names: &[String]) -> Failure {
    let fits = |provider: &str, model: &str| {
        let name = format!("{provider}/{model}").to_lowercase();
        filter.iter().all(|word| name.contains(word))
    };
    let (asked, providers) = (filter.join(" "), auth::provider_names(config));
    let elsewhere: Vec<&str> = catalogued_providers()
        .into_iter()
        .filter(|provider| named.is_none() && catalogue(provider).any(|entry| fits(provider, entry.model)))
        .collect();
    let hint = if elsewhere.is_empty() {
        let known: Vec<&str> = catalogued_providers().into_iter().filter(|_| named.is_none()).collect();
        let models = known.iter().flat_map(|provider| catalogue(provider)).map(|entry| entry.model);
        let whole = names.iter().map(String::as_str).chain(models);
        // People leave out most of a name, so each of its words is one too.
        let words = whole.flat_map(|name| [name].into_iter().chain(name.split(['/', '-', ':'])));
        let mut meant: Vec<&str> = providers.iter().map(String::as_str).chain(known.iter().copied()).filter(|_| named.is_none()).collect();
        meant.extend(words);
        match filter.iter().find_map(|word| nearest(word, meant.iter().copied()).filter(|near| near != word)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("`posse models list{}` shows what there is", named.map(|name| format!(" {name}")).unwrap_or_default()),
        }
    } else {
        let shown: Vec<String> =
            elsewhere.iter().take(NEAR_SHOWN).map(|provider| format!("`posse models list {provider} {asked}`")).collect();
        format!("others have it: {}", shown.join(", "))
    };
    let of = named.map(|name| format!(" of {name}")).unwrap_or_default();
    Failure::usage(flat(&format!("no model{of} that can be used here is called `{asked}`; {hint}")))
}

fn is_provider(config: &Config, name: &str, servers: &[LocalServer]) -> bool {
    auth::provider_names(config).iter().any(|known| known == name)
        || catalogued_providers().contains(&name)
        || servers.iter().any(|server| server.kind.provider() == name)
}

/// Everything that could be listed: the configured first, then the others, newest first, provider by provider.
fn rows(config: &Config, named: Option<&str>, servers: &[LocalServer]) -> Vec<Row> {
    let mut rows = Vec::new();
    let providers = match named {
        Some(name) => vec![name.to_owned()],
        None => usable_providers(config),
    };
    for provider in &providers {
        rows.extend(rows_of(config, provider));
    }
    for server in servers.iter().filter(|server| named.is_none_or(|name| server.kind.provider() == name)) {
        let found = server.models.iter().map(|model| {
            let provider = server.kind.provider().to_owned();
            let name = format!("{provider}/{}", model.name);
            let note = format!("{} at {}", server.kind.name(), posse_models::shown_url(&server.base_url));
            let (tools, images, reasoning) = (model.tools, model.images, model.reasoning);
            let context = model.context;
            Row {
                provider,
                name,
                context,
                output: None,
                cost: Some([0.0; 4]),
                tools,
                images,
                reasoning,
                released: "",
                configured: false,
                note,
            }
        });
        let found: Vec<Row> = found.filter(|row| !rows.iter().any(|known: &Row| known.name == row.name)).collect();
        rows.extend(found);
    }
    if named.is_none() {
        let explorer = posse_models::Explorer::new();
        let note = "built in: rules and search, not an LLM";
        rows.push(Row { tools: Some(true), ..Row::of(explorer.facts(), None, true, note) });
    }
    rows
}

/// Those of the user's files, then those of the world that have a key.
fn usable_providers(config: &Config) -> Vec<String> {
    let known = build::known();
    let has_key = |name: &str| config.key_sources(name, &known, &env).is_ok_and(|sources| !sources.is_empty());
    let mut names: Vec<String> = config.providers.iter().map(|provider| provider.name.clone()).collect();
    for known in &known {
        if !names.iter().any(|name| name == known.name) && has_key(known.name) {
            names.push(known.name.to_owned());
        }
    }
    names
}

fn rows_of(config: &Config, provider: &str) -> Vec<Row> {
    let configured = config.providers.iter().find(|configured| configured.name == provider);
    let mut rows: Vec<Row> = Vec::new();
    for (model, _) in configured.map(|configured| configured.models.as_slice()).unwrap_or_default() {
        rows.push(row_of(config, provider, model, true));
    }
    // Who lists the models of a server of their own lists all of them; the world's providers have more.
    let default = build::known().into_iter().find(|known| known.name == provider).map(|known| known.default_model);
    let mut others: Vec<CatalogueEntry> =
        if default.is_some() || configured.is_none() { catalogue(provider).collect() } else { Vec::new() };
    let names: Vec<&str> = others.iter().map(|entry| entry.model).collect();
    // The one that runs unless another is named comes first, then the newest; of two spellings the one without a date.
    others.sort_by(|one, other| {
        let order = |entry: &CatalogueEntry| (Some(entry.model) != default, entry.deprecated, !entry.tools, is_dated(entry.model, &names));
        let by_date = other.released.cmp(one.released).then(one.model.len().cmp(&other.model.len())).then(one.model.cmp(other.model));
        order(one).cmp(&order(other)).then(by_date)
    });
    for entry in others {
        let name = format!("{provider}/{}", entry.model);
        if !rows.iter().any(|row| row.name == name) {
            rows.push(row_of(config, provider, entry.model, false));
        }
    }
    if let Some(default) = default.filter(|default| rows.is_empty() && !default.is_empty()) {
        rows.push(row_of(config, provider, default, false));
    }
    rows
}

/// Whether a name is another's with a date behind it: the same model.
fn is_dated(model: &str, names: &[&str]) -> bool {
    let date =
        |rest: &str| rest.starts_with('-') && rest.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit()) && DATE_CHARS_MIN < rest.len();
    names.iter().any(|name| model.strip_prefix(name).is_some_and(date))
}

fn row_of(config: &Config, provider: &str, model: &str, configured: bool) -> Row {
    let name = format!("{provider}/{model}");
    let entry = lookup(provider, model);
    let deprecated = if entry.is_some_and(|entry| entry.deprecated) { "deprecated" } else { "" };
    let how = How { model: Some(name.clone()), quiet: true, ..How::default() };
    match build::model(config, &how) {
        Ok(model) => Row::of(model.facts(), entry, configured, deprecated),
        Err(_) => {
            // What is missing is said by the choice itself, without advice for a run.
            let note = match config.choose_model(Some(&name), &build::known(), &env) {
                Ok(_) => String::new(),
                Err(ModelChoiceError::NoKey { .. }) if !configured => NO_KEY.to_owned(),
                Err(ModelChoiceError::Unknown { .. }) => NOT_SET_UP.to_owned(),
                Err(error) => error.to_string(),
            };
            let cost = entry
                .and_then(|entry| entry.prices)
                .map(posse_session::Prices::from)
                .map(|prices| [prices.input, prices.output, prices.cache_read, prices.cache_write]);
            Row {
                provider: provider.to_owned(),
                context: entry.map(|entry| entry.context),
                output: entry.map(|entry| entry.output),
                cost,
                tools: entry.map(|entry| entry.tools),
                images: entry.map(|entry| entry.images),
                reasoning: entry.map(|entry| entry.reasoning),
                released: entry.map(|entry| entry.released).unwrap_or_default(),
                name,
                configured,
                note,
            }
        }
    }
}

impl Row {
    fn of(facts: &ModelFacts, entry: Option<CatalogueEntry>, configured: bool, note: &str) -> Self {
        let prices = facts.prices;
        Self {
            provider: facts.provider.clone(),
            name: facts.name.clone(),
            context: Some(facts.context),
            output: Some(facts.output),
            // Nothing known and nothing said is not the same as free.
            cost: (!prices.unknown).then_some([prices.input, prices.output, prices.cache_read, prices.cache_write]),
            tools: entry.map(|entry| entry.tools),
            images: Some(facts.images),
            reasoning: entry.map(|entry| entry.reasoning),
            released: entry.map(|entry| entry.released).unwrap_or_default(),
            configured,
            note: note.to_owned(),
        }
    }

    fn json(&self) -> Value {
        let cost = self.cost.map(|[input, output, cache_read, cache_write]| {
            json!({"input": input, "output": output, "cache_read": cache_read, "cache_write": cache_write})
        });
        json!({
            "provider": self.provider, "model": self.name, "context": self.context, "output": self.output, "cost": cost,
            "tools": self.tools, "images": self.images, "reasoning": self.reasoning, "released": self.released,
            "configured": self.configured, "note": self.note,
        })
    }

    fn cells(&self) -> [String; 7] {
        let price = |at: usize| self.cost.map_or("?".to_owned(), |cost| dollars(cost[at]));
        let mark = |holds: Option<bool>, mark: &'static str| if holds == Some(true) { mark } else { "" };
        let marks = [mark(self.tools, "tools"), mark(self.images, "images"), mark(self.reasoning, "reasoning")];
        let marks: Vec<&str> = marks.into_iter().filter(|mark| !mark.is_empty()).collect();
        let size = |count: Option<u64>| count.map_or("?".to_owned(), tokens);
        [flat(&self.name), size(self.context), size(self.output), price(0), price(1), price(2), marks.join(" ")]
    }
}

/// One table; where a provider has more than is shown, a line says so.
fn print(rows: &[Row], is_short: bool) {
    let mut lines: Vec<(Option<[String; 7]>, String)> = Vec::new();
    let mut rest = rows;
    while let Some(first) = rest.first() {
        let count = rest.iter().take_while(|row| row.provider == first.provider).count();
        let (group, after) = rest.split_at(count);
        let configured = group.iter().filter(|row| row.configured).count();
        let shown = if is_short { (configured + NEWEST_SHOWN).min(count) } else { count };
        lines.extend(group[..shown].iter().map(|row| (Some(row.cells()), flat(&row.note))));
        if shown < count {
            lines.push((None, format!("  and {} more: posse models list {}", count - shown, first.provider)));
        }
        rest = after;
    }
    let head = ["MODEL", "CONTEXT", "OUTPUT", "IN", "OUT", "CACHED", "CAN"].map(str::to_owned);
    let cells = std::iter::once(&head).chain(lines.iter().filter_map(|(cells, _)| cells.as_ref()));
    let widths = cells.fold([0; 7], |mut widths, cells| {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.chars().count());
        }
        widths
    });
    let line = |[name, context, output, input, out, cached, can]: &[String; 7], note: &str| {
        let [a, b, c, d, e, f, g] = widths;
        format!("{name:a$}  {context:>b$}  {output:>c$}  {input:>d$}  {out:>e$}  {cached:>f$}  {can:g$}  {note}").trim_end().to_owned()
    };
    to_stdout(&line(&head, "(USD per million tokens)"));
    for (cells, note) in &lines {
        to_stdout(&cells.as_ref().map_or_else(|| note.clone(), |cells| line(cells, note)));
    }
}

/// `200k`, `1.05M`: enough to compare.
fn tokens(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        1_000..1_000_000 => format!("{}k", count / 1_000),
        _ => format!("{}M", trimmed(count as f64 / 1_000_000.0)),
    }
}

fn dollars(price: f64) -> String {
    if price == 0.0 { "free".to_owned() } else { format!("${price}") }
}

fn trimmed(number: f64) -> String {
    format!("{number:.2}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_date_is_the_same_model_once_more() {
        let names = ["claude-opus-4-5", "claude-opus-4-5-20251101", "gpt-4o", "gpt-4o-2024-11-20", "gpt-4o-mini", "m-1", "m-1-7"];
        let dated: Vec<&str> = names.into_iter().filter(|name| is_dated(name, &names)).collect();
        assert_eq!(dated, ["claude-opus-4-5-20251101", "gpt-4o-2024-11-20"]);
    }

    #[test]
    fn sizes_and_prices_are_short() {
        for (count, expected) in [(512, "512"), (8_192, "8k"), (200_000, "200k"), (1_000_000, "1M"), (1_048_576, "1.05M")] {
            assert_eq!(tokens(count), expected);
        }
        assert_eq!([0.0, 3.0, 0.125].map(dollars), ["free", "$3", "$0.125"]);
    }
}
