//! What bounds an agent: its limits, its budget, and who answers when its model cannot.
//!
//! One bound may be said in several ways (`timeout`, `limits.wall`); of those the smaller counts. Whether it is below what
//! is configured for all is asked when a round begins: see `round.rs`.

use std::time::Duration;

use super::{Entry, Held, Reader, join, model_in, names_in, nearest, one_text, plain, snake_case};
use crate::{
    duration::parse_duration,
    round::{FALLBACKS_MAX, fallback_name},
};

/// The limits that an agent may have, in the spelling that is suggested.
const LIMITS: [&str; 9] = ["steps", "cost", "tokens", "wall", "idle", "stream_idle", "step", "depth", "children"];

impl Reader<'_> {
    pub(super) fn limits(&mut self, entry: &Entry) {
        let Held::Map(parts) = &entry.node.held else { return self.wrong(entry, "an object") };
        for part in parts.iter().filter(|part| part.node.held != Held::Null) {
            let key = snake_case(&part.name);
            let part = named(entry, part);
            match self.limit_of(&key) {
                Some(limit) => self.bound(&part, limit),
                None if key == "tree" => {
                    self.note(&part, "holds for a whole tree, so only the configuration's `limits` may say it; left out")
                }
                None => {
                    let hint = nearest(&key, LIMITS).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
                    self.note(&part, format!("nobody knows this limit, so it is left out{hint}"));
                }
            }
        }
    }

    /// A number is money.
    pub(super) fn budget(&mut self, entry: &Entry) {
        let Held::Map(parts) = &entry.node.held else { return self.bound(entry, "cost") };
        for part in parts.iter().filter(|part| part.node.held != Held::Null) {
            let limit = self.limit_of(&snake_case(&part.name)).filter(|limit| matches!(*limit, "cost" | "tokens" | "steps"));
            let part = named(entry, part);
            match limit {
                Some(limit) => self.bound(&part, limit),
                None => self.misfit(&part, "not a budget; `cost` and `tokens` are"),
            }
        }
    }

    /// The limit that a key means.
    fn limit_of(&self, key: &str) -> Option<&'static str> {
        let meant = match key {
            "cost_usd" | "usd" | "max_cost" => "cost",
            "max_tokens" => "tokens",
            "max_steps" | "max_turns" => "steps",
            "timeout" => "wall",
            other => other,
        };
        LIMITS.into_iter().find(|limit| *limit == meant)
    }

    /// One limit, beside whatever else was said of it.
    pub(super) fn bound(&mut self, entry: &Entry, limit: &'static str) {
        match limit {
            "steps" => {
                let steps = self.count(entry);
                tighten(&mut self.steps_max, steps);
            }
            "cost" => {
                let cost = self.number(entry);
                tighten(&mut self.draft.budget.cost_usd, cost);
            }
            "tokens" => {
                let tokens = self.count(entry);
                tighten(&mut self.draft.budget.tokens, tokens);
            }
            // None at all is a limit too.
            "depth" => self.draft.limits.depth = self.whole_number(entry, 0),
            "children" => self.draft.limits.children = self.whole_number(entry, 0),
            _ => {
                let time = self.time(entry);
                let known = match limit {
                    "idle" => &mut self.draft.limits.idle,
                    "stream_idle" => &mut self.draft.limits.stream_idle,
                    "step" => &mut self.draft.limits.step,
                    _ => &mut self.draft.timeout,
                };
                tighten(known, time);
            }
        }
    }

    fn time(&mut self, entry: &Entry) -> Option<Duration> {
        let Some(word) = one_text(&entry.node) else {
            self.wrong(entry, "a duration like \"10m\", or seconds");
            return None;
        };
        parse_duration(&word).map_err(|error| self.misfit(entry, error.to_string())).ok()
    }

    /// One model or several, as a list or with commas. A name that cannot be meant is left out, and the others count.
    pub(super) fn fallback(&mut self, entry: &Entry) -> Option<Vec<String>> {
        let written = match &entry.node.held {
            Held::List(items) => items.iter().map(model_in).collect::<Option<Vec<String>>>(),
            Held::Map(_) => model_in(&entry.node).map(|model| vec![model]),
            _ => names_in(&entry.node),
        };
        let Some(written) = written else {
            self.wrong(entry, "the name of a model or a list of such names");
            return None;
        };
        if FALLBACKS_MAX < written.len() {
            self.misfit(entry, format!("expected at most {FALLBACKS_MAX} models, found {}", written.len()));
            return None;
        }
        let mut models = Vec::with_capacity(written.len());
        for name in written {
            match fallback_name(&name) {
                Ok(name) => models.push(plain(&name)),
                Err(words) => self.misfit(entry, words),
            }
        }
        Some(models)
    }
}

/// The smaller of what was said and what is said.
pub(super) fn tighten<T: PartialOrd>(known: &mut Option<T>, said: Option<T>) {
    if let Some(said) = said
        && known.as_ref().is_none_or(|known| said < *known)
    {
        *known = Some(said);
    }
}

/// As messages name it: `limits.wall`.
fn named(whole: &Entry, part: &Entry) -> Entry {
    Entry { name: join(&whole.name, &part.name), ..part.clone() }
}
