//! The fields of a command or a skill, taken out of a head or of JSON as they are really written.
//!
//! A flag may be a word, a list may be a text with commas, a hint may be a list. What cannot be understood is reported and
//! left out; a field never rejects its file. Which fields there are is the caller's.

use serde_json::{Map, Value};

use crate::{
    origin::{Findings, Origin, Problem},
    schema::snake_case,
    tree::{Entry, Held, Node},
};

pub(crate) struct Fields {
    entries: Vec<Entry>,
    pub(crate) problems: Vec<Problem>,
}

impl Fields {
    /// Of a map; of two spellings of one key the first counts, as in a head that is no good YAML.
    pub(crate) fn of(node: Node, problems: Vec<Problem>) -> Self {
        let Held::Map(entries) = node.held else { return Self { entries: Vec::new(), problems } };
        let mut fields = Self { entries: Vec::with_capacity(entries.len()), problems };
        for entry in entries {
            let name = snake_case(&entry.name);
            if fields.entries.iter().any(|known| snake_case(&known.name) == name) {
                fields.tolerate(&entry.origin, &entry.name, "written twice in two spellings; the first one counts");
            } else {
                fields.entries.push(entry);
            }
        }
        fields
    }

    fn take(&mut self, key: &str) -> Option<Entry> {
        let at = self.entries.iter().position(|entry| snake_case(&entry.name) == key)?;
        Some(self.entries.remove(at))
    }

    /// Takes the first of several names for one thing.
    pub(crate) fn text(&mut self, keys: &[&str]) -> Option<String> {
        let entry = keys.iter().find_map(|key| self.take(key))?;
        let text = match &entry.node.held {
            Held::Text(text) => text.trim().to_owned(),
            Held::Number(number) => number.to_string(),
            Held::Flag(flag) => flag.to_string(),
            Held::List(_) => self.list_of(&entry.node).join(" "),
            Held::Null => String::new(),
            Held::Map(_) | Held::Secret(_) | Held::Missing(_) => {
                self.tolerate(&entry.origin, &entry.name, "expected a text; left out");
                String::new()
            }
        };
        (!text.is_empty()).then_some(text)
    }

    /// As lists show it: `[a] [b]` when it was read as lists.
    pub(crate) fn hint(&mut self, keys: &[&str]) -> Option<String> {
        let entry = keys.iter().find_map(|key| self.take(key))?;
        let hint = match &entry.node.held {
            Held::List(items) => items.iter().map(|item| format!("[{}]", shown(item))).collect::<Vec<_>>().join(" "),
            Held::Null => String::new(),
            _ => shown(&entry.node),
        };
        (!hint.is_empty()).then_some(hint)
    }

    pub(crate) fn flag(&mut self, key: &str) -> Option<bool> {
        let entry = self.take(key)?;
        let word = shown(&entry.node).to_lowercase();
        match word.as_str() {
            "true" | "yes" | "on" | "1" => Some(true),
            "false" | "no" | "off" | "0" => Some(false),
            "" => None,
            _ => {
                self.tolerate(&entry.origin, &entry.name, "expected true or false; left out");
                None
            }
        }
    }

    /// Names in a list, or in a text with commas or spaces between them; none inside parentheses.
    pub(crate) fn names(&mut self, key: &str) -> Vec<String> {
        let Some(entry) = self.take(key) else { return Vec::new() };
        self.list_of(&entry.node)
    }

    fn list_of(&mut self, node: &Node) -> Vec<String> {
        match &node.held {
            Held::Text(text) => names_in(text),
            Held::List(items) => items.iter().map(shown).filter(|name| !name.is_empty()).collect(),
            Held::Null => Vec::new(),
            _ => {
                self.tolerate(&node.origin, "", "expected names; left out");
                Vec::new()
            }
        }
    }

    pub(crate) fn drop_all(&mut self, keys: &[&str]) {
        self.entries.retain(|entry| !keys.contains(&snake_case(&entry.name).as_str()));
    }

    /// What nobody has taken, kept as it was written.
    pub(crate) fn others(self) -> (Map<String, Value>, Vec<Problem>) {
        (self.entries.iter().map(|entry| (entry.name.clone(), entry.node.to_json())).collect(), self.problems)
    }

    fn tolerate(&mut self, origin: &Origin, key: &str, words: &str) {
        let mut findings = Findings::default();
        findings.warn(origin, key, words);
        self.problems.append(&mut findings.warnings);
    }
}

fn shown(node: &Node) -> String {
    match &node.held {
        Held::Text(text) => text.trim().to_owned(),
        Held::Null => String::new(),
        Held::List(items) => items.iter().map(shown).collect::<Vec<_>>().join(" "),
        _ => node.to_json().to_string(),
    }
}

/// `Read, Bash(git add:*)` and `Read Grep` as names.
pub(crate) fn names_in(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut depth = 0_usize;
    let has_commas = outside(text).any(|letter| letter == ',');
    for letter in text.chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        let ends = depth == 0 && (letter == ',' || !has_commas && letter.is_whitespace());
        match names.last_mut() {
            Some(name) if !ends => name.push(letter),
            _ => names.push(String::new()),
        }
    }
    names.iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

/// The letters outside parentheses.
fn outside(text: &str) -> impl Iterator<Item = char> + '_ {
    let mut depth = 0_usize;
    text.chars().filter(move |letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0
    })
}

/// A name without what people write differently: case and separators. Namespaces stay.
pub(crate) fn folded(name: &str) -> String {
    name.chars()
        .filter(|letter| !matches!(letter, '-' | '_' | ' ' | '.'))
        .map(|letter| if letter == '/' { ':' } else { letter })
        .flat_map(char::to_lowercase)
        .collect()
}

/// What a name means among others: exactly; the same in another spelling; the only one that ends so after a namespace.
pub(crate) fn find<'a, T>(name: &str, all: &'a [T], name_of: impl Fn(&T) -> &str) -> Option<&'a T> {
    if let Some(exact) = all.iter().find(|one| name_of(one) == name) {
        return Some(exact);
    }
    let wanted = folded(name.trim().trim_start_matches('/'));
    if wanted.is_empty() {
        return None;
    }
    let only = |matches: &dyn Fn(&str) -> bool| {
        let mut found = all.iter().filter(|one| matches(&folded(name_of(one))));
        found.next().filter(|_| found.next().is_none())
    };
    only(&|known| known == wanted)
        .or_else(|| only(&|known| known.strip_suffix(wanted.as_str()).is_some_and(|before| before.ends_with(':'))))
}

/// A few names that somebody may have meant.
pub(crate) fn near<'a>(name: &str, known: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let wanted = folded(name);
    let last = |known: &str| known.rsplit([':', '/']).next().unwrap_or(known).to_owned();
    let typo = crate::near::nearest(name, known.clone()).map(str::to_owned);
    let typo_of_last = known.clone().find(|known| crate::near::nearest(name, [last(known).as_str()]).is_some()).map(str::to_owned);
    let alike = known.filter(|known| {
        let known = folded(known);
        2 < wanted.len() && (known.contains(&wanted) || 2 < known.len() && wanted.contains(&known))
    });
    let mut names: Vec<String> = Vec::new();
    for name in typo.into_iter().chain(typo_of_last).chain(alike.map(str::to_owned)) {
        if !names.contains(&name) && names.len() < NEAR_MAX {
            names.push(name);
        }
    }
    names
}

/// More would be a list and not a hint.
const NEAR_MAX: usize = 5;
