//! Models that a folder nobody trusts would like to be used, and which of them count.
//!
//! Who names the model names the server that receives the code. So a project's `model` and `models` are wishes: they are
//! kept apart from the user's own values, and count only where they change no receiver. Which server a name leads to is
//! decided by `model.rs`; without that decision no wish counts.

use std::collections::BTreeMap;

use crate::{
    config::Config,
    extract::{merged, named, sourced},
    model::{Chooser, KnownProvider},
    origin::Findings,
    places::Env,
    tree::{Entry, Held, Node},
};

/// By alias; `None` is the key `model`.
pub(crate) type Wishes = BTreeMap<Option<String>, Node>;

/// Takes the wishes out of a project's values, over those of lower files.
pub(crate) fn take(values: &mut Node, wishes: &mut Wishes) {
    let Held::Map(entries) = &mut values.held else { return };
    for entry in entries.extract_if(.., |entry| matches!(entry.name.as_str(), "model" | "models")) {
        match entry.node.held {
            Held::Map(aliases) => wishes.extend(aliases.into_iter().map(|alias| (Some(alias.name), alias.node))),
            held => drop(wishes.insert(None, Node { held, ..entry.node })),
        }
    }
}

/// Drops the wishes that the user's own values, standing above them, answer.
pub(crate) fn answer(values: &Node, wishes: &mut Wishes) {
    wishes.retain(|alias, _| match alias {
        Some(alias) => values.get("models").and_then(|models| models.get(alias)).is_none(),
        None => values.get("model").is_none(),
    });
}

impl Config {
    /// With those of the project's models that lead to the provider the user's own configuration and environment would
    /// use, or to an alias of the user's. The others are added to what is ignored.
    pub fn with_project_models(mut self, known: &[KnownProvider], env: &Env<'_>) -> Self {
        let mut wishes = std::mem::take(&mut self.wishes);
        let mut findings = Findings::default();
        let model = wishes.remove(&None);
        let home = Chooser { config: &self, known, env }.receiver(None);

        // Aliases first: the wish for a model may name one that counts.
        let mut aliases = Vec::new();
        for (alias, node) in wishes.into_iter().filter_map(|(alias, node)| Some((alias?, node))) {
            let chooser = Chooser { config: &self, known, env };
            let name = node.text().unwrap_or_default();
            // A name that already means something to the user keeps its receiver, so that `-m private` stays private.
            let is_taken = chooser.means_something(&alias);
            let receiver = if is_taken { chooser.receiver(Some(&alias)) } else { home.clone() };
            if leads_to(&chooser, name, receiver.as_deref()) || !is_taken && self.has_alias(name) {
                aliases.push(Entry { name: alias, origin: node.origin.clone(), node });
            } else {
                findings.name(&node.origin.source, &format!("models.{alias} ({name})"), false);
            }
        }
        if let Some(origin) = aliases.first().map(|alias| alias.origin.clone()) {
            self.put("models", Node { origin, held: Held::Map(aliases) });
        }
        if let Some(node) = model {
            let name = node.text().unwrap_or_default();
            let counts = leads_to(&Chooser { config: &self, known, env }, name, home.as_deref()) || self.has_alias(name);
            match (&mut self.below_flag, counts) {
                (Some(below), true) => below.model = sourced(Some(&node)),
                (None, true) => self.put("model", node),
                // Who says `-m` need not hear which other model the folder would have liked.
                (Some(_), false) => {}
                (None, false) => findings.name(&node.origin.source, &format!("model ({name})"), false),
            }
        }
        self.ignored.extend(findings.ignored);
        self
    }

    /// Puts a value over those of the files.
    fn put(&mut self, name: &str, node: Node) {
        let origin = node.origin.clone();
        let upper = Node { origin: origin.clone(), held: Held::Map(vec![Entry { name: name.to_owned(), origin: origin.clone(), node }]) };
        let lower = std::mem::replace(&mut self.tree, Node { origin, held: Held::Null });
        self.tree = merged(lower, upper, "");
        self.model = sourced(self.tree.get("model"));
        self.aliases = named(self.tree.get("models"));
    }

    fn has_alias(&self, name: &str) -> bool {
        self.aliases.iter().any(|(alias, _)| alias == name)
    }
}

fn leads_to(chooser: &Chooser<'_>, name: &str, receiver: Option<&str>) -> bool {
    receiver.is_some() && chooser.receiver(Some(name)).as_deref() == receiver
}
