//! One file's tree against the table of keys: spellings made one, types checked, texts substituted, strangers named.
//!
//! What comes out has only known keys in their one spelling and values of the right kind, so that nothing after this
//! can fail on a type. What a folder that is not trusted may not say is left out here.

use crate::{
    duration::{self, parse_duration},
    layer::{Source, Standing},
    mode::PermissionMode,
    near::nearest,
    origin::Findings,
    provider::Secret,
    round::{FALLBACKS_MAX, fallback_name},
    schema::{Field, Shape, Who, snake_case},
    substitute::{Surroundings, refers, substitute},
    tree::{Entry, Held, Node},
};

pub(crate) struct Reader<'a> {
    pub(crate) source: &'a Source,
    pub(crate) around: Surroundings<'a>,
    pub(crate) findings: &'a mut Findings,
}

impl Reader<'_> {
    /// The known keys of an object. Of two spellings of one key the later counts.
    pub(crate) fn fields(&mut self, node: &Node, fields: &'static [Field], open: bool, path: &str) -> Vec<Entry> {
        let mut known: Vec<Entry> = Vec::new();
        for entry in node.entries() {
            let path = join(path, &entry.name);
            let name = snake_case(&entry.name);
            let Some(field) = fields.iter().find(|field| field.name == name || field.also.contains(&name.as_str())) else {
                self.unknown(entry, fields, open, &path);
                continue;
            };
            if !self.may_say(field, entry, &path) {
                continue;
            }
            if let Some(before) = known.iter().position(|before| before.name == field.name) {
                self.findings.warn(&known.remove(before).origin, &path, "written twice in two spellings; the last one counts");
            }
            if let Some(node) = self.value(&entry.node, &field.shape, &path) {
                known.push(Entry { name: field.name.to_owned(), origin: entry.origin.clone(), node });
            }
        }
        known
    }

    fn may_say(&mut self, field: &Field, entry: &Entry, path: &str) -> bool {
        match (field.who, self.source.standing) {
            (Who::Anyone, _) | (_, Standing::User) | (Who::User, Standing::Trusted) => return true,
            (Who::User, Standing::Project) => self.findings.ignore(&self.source.shown, path, &entry.node),
            (Who::Owner, _) => self.findings.never(&self.source.shown, path),
        }
        false
    }

    /// The value in its right form, or nothing: then the reason is among the findings.
    fn value(&mut self, node: &Node, shape: &'static Shape, path: &str) -> Option<Node> {
        let held = match shape {
            Shape::Permission | Shape::Later => node.held.clone(),
            Shape::Definitions => self.definitions(node, path)?,
            Shape::Nothing => return None,
            Shape::Text => Held::Text(self.text(node, path)?),
            Shape::Url => Held::Text(self.url(node, path)?),
            Shape::Secret => self.secret(node, path)?,
            Shape::Mode => Held::Text(self.mode(node, path)?),
            Shape::Choice(choices) => Held::Text(self.choice(node, choices, path)?),
            Shape::Flag => match node.held {
                Held::Flag(flag) => Held::Flag(flag),
                _ => return self.wrong(node, "true or false", path),
            },
            Shape::Count { least } => match node.count() {
                Some(count) if *least <= count => node.held.clone(),
                _ if node.number().is_some() => return self.misfit(node, &format!("expected a whole number, {least} or more"), path),
                _ => return self.wrong(node, "a number", path),
            },
            Shape::Money => match node.number() {
                Some(number) if 0.0 <= number => node.held.clone(),
                Some(_) => return self.misfit(node, "expected a number that is not negative", path),
                None => return self.wrong(node, "a number", path),
            },
            Shape::Time => self.time(node, path)?,
            Shape::TimeOrOff => match &node.held {
                Held::Flag(false) => Held::Flag(false),
                Held::Text(text) if text.trim().eq_ignore_ascii_case("off") => Held::Flag(false),
                _ => self.time(node, path)?,
            },
            Shape::Texts => self.texts(node, path)?,
            Shape::Models => self.models(node, path)?,
            Shape::Counts => self.counts(node, path)?,
            Shape::Fields(fields) => Held::Map(self.object(node, fields, false, path)?),
            Shape::OpenFields(fields) => Held::Map(self.object(node, fields, true, path)?),
            Shape::Named(shape) => {
                self.expect_object(node, path)?;
                Held::Map(node.entries().iter().filter_map(|entry| self.named(entry, shape, path)).collect())
            }
        };
        Some(Node { origin: node.origin.clone(), held })
    }

    /// Whole texts are prompts, so what they refer to is put in; a folder that is not trusted keeps them as they are.
    fn definitions(&mut self, node: &Node, path: &str) -> Option<Held> {
        if !self.source.is_trusted() {
            return Some(node.held.clone());
        }
        Some(match &node.held {
            Held::Text(_) => Held::Text(self.text(node, path)?),
            Held::List(items) => {
                let items = items.iter().enumerate();
                let read = |(at, item): (usize, &Node)| {
                    Some(Node { origin: item.origin.clone(), held: self.definitions(item, &format!("{path}[{at}]"))? })
                };
                Held::List(items.filter_map(read).collect())
            }
            Held::Map(entries) => {
                let read = |entry: &Entry| {
                    let held = self.definitions(&entry.node, &join(path, &entry.name))?;
                    Some(Entry { node: Node { origin: entry.node.origin.clone(), held }, ..entry.clone() })
                };
                Held::Map(entries.iter().filter_map(read).collect())
            }
            other => other.clone(),
        })
    }

    fn named(&mut self, entry: &Entry, shape: &'static Shape, path: &str) -> Option<Entry> {
        let node = self.value(&entry.node, shape, &join(path, &entry.name))?;
        Some(Entry { name: entry.name.clone(), origin: entry.origin.clone(), node })
    }

    fn object(&mut self, node: &Node, fields: &'static [Field], open: bool, path: &str) -> Option<Vec<Entry>> {
        self.expect_object(node, path)?;
        Some(self.fields(node, fields, open, path))
    }

    fn expect_object(&mut self, node: &Node, path: &str) -> Option<()> {
        if matches!(node.held, Held::Map(_)) { Some(()) } else { self.wrong(node, "an object", path) }
    }

    fn text(&mut self, node: &Node, path: &str) -> Option<String> {
        let Held::Text(text) = &node.held else { return self.wrong(node, "a string", path) };
        if !refers(text) {
            return Some(text.clone());
        }
        if !self.source.is_trusted() {
            self.findings.ignore(&self.source.shown, path, node);
            return None;
        }
        substitute(text, &self.around).map_err(|reason| self.findings.error(&node.origin, path, reason)).ok()
    }

    fn secret(&mut self, node: &Node, path: &str) -> Option<Held> {
        let Held::Text(text) = &node.held else { return self.wrong(node, "a string", path) };
        Some(match substitute(text, &self.around) {
            Ok(text) => Held::Secret(Secret::new(text)),
            Err(reason) => Held::Missing(format!("{}: {path}: {reason}", node.origin)),
        })
    }

    fn url(&mut self, node: &Node, path: &str) -> Option<String> {
        let text = self.text(node, path)?;
        match text.split_once("://") {
            Some(("http" | "https", rest)) if !rest.is_empty() => Some(text),
            _ => self.misfit(node, "expected a URL that starts with http:// or https://", path),
        }
    }

    fn choice(&mut self, node: &Node, choices: &[&str], path: &str) -> Option<String> {
        let text = self.text(node, path)?;
        if choices.contains(&text.as_str()) {
            return Some(text);
        }
        self.misfit(
            node,
            &format!("expected {}", choices.iter().map(|choice| format!("\"{choice}\"")).collect::<Vec<_>>().join(" or ")),
            path,
        )
    }

    /// In our spelling. A project never bypasses: whoever may write its files could give themselves every right.
    pub(crate) fn mode(&mut self, node: &Node, path: &str) -> Option<String> {
        let text = self.text(node, path)?;
        let mode = match text.parse::<PermissionMode>() {
            Ok(mode) => mode,
            Err(error) => return self.misfit(node, &error.to_string(), path),
        };
        match (self.source.standing, mode) {
            (Standing::User, _) => return Some(mode.to_string()),
            (_, PermissionMode::Bypass) => self.findings.never(&self.source.shown, &format!("{path} ({text})")),
            (Standing::Trusted, _) => return Some(mode.to_string()),
            (Standing::Project, _) => self.findings.ignore(&self.source.shown, path, node),
        }
        None
    }

    /// Kept as written; that it can be read is made sure of here.
    fn time(&mut self, node: &Node, path: &str) -> Option<Held> {
        let read = match &node.held {
            Held::Text(_) => parse_duration(&self.text(node, path)?),
            Held::Number(_) => duration::from_seconds(node.number()?),
            _ => return self.wrong(node, "a duration like \"10m\"", path),
        };
        match read {
            Ok(duration) => Some(Held::Text(posse_session::format_duration(duration))),
            Err(error) => self.misfit(node, &error.to_string(), path),
        }
    }

    fn texts(&mut self, node: &Node, path: &str) -> Option<Held> {
        if !matches!(node.held, Held::List(_)) {
            return self.wrong(node, "a list of strings", path);
        }
        let items = node.items().iter().enumerate();
        let texts = items.filter_map(|(at, item)| {
            let text = self.text(item, &format!("{path}[{at}]"))?;
            Some(Node { origin: item.origin.clone(), held: Held::Text(text) })
        });
        Some(Held::List(texts.collect()))
    }

    /// As a list, also when it is one. Which models there are is not known here.
    fn models(&mut self, node: &Node, path: &str) -> Option<Held> {
        let one = [node.clone()];
        let items = match &node.held {
            Held::List(items) => &items[..],
            Held::Text(_) => &one[..],
            _ => return self.wrong(node, "the name of a model or a list of such names", path),
        };
        if FALLBACKS_MAX < items.len() {
            return self.misfit(node, &format!("expected at most {FALLBACKS_MAX} models, found {}", items.len()), path);
        }
        let mut models = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            let path = if matches!(node.held, Held::List(_)) { format!("{path}[{at}]") } else { path.to_owned() };
            let Some(text) = self.text(item, &path) else { continue };
            match fallback_name(&text) {
                Ok(name) => models.push(Node { origin: item.origin.clone(), held: Held::Text(name) }),
                Err(words) => self.findings.error(&item.origin, &path, words),
            }
        }
        Some(Held::List(models))
    }

    fn counts(&mut self, node: &Node, path: &str) -> Option<Held> {
        static ONE: Shape = Shape::Count { least: 1 };
        static BY_NAME: Shape = Shape::Named(&ONE);
        if matches!(node.held, Held::Number(_)) {
            let node = self.value(node, &ONE, path)?;
            return Some(Held::Map(vec![Entry { name: "default".to_owned(), origin: node.origin.clone(), node }]));
        }
        self.value(node, &BY_NAME, path).map(|node| node.held)
    }

    fn wrong<T>(&mut self, node: &Node, expected: &str, path: &str) -> Option<T> {
        self.misfit(node, &format!("expected {expected}, found {}", node.kind()), path)
    }

    fn misfit<T>(&mut self, node: &Node, words: &str, path: &str) -> Option<T> {
        self.findings.error(&node.origin, path, words);
        None
    }

    fn unknown(&mut self, entry: &Entry, fields: &'static [Field], open: bool, path: &str) {
        // A neighbour's file has keys that are none of our business.
        if self.source.is_neighbour() || !self.findings.has_room() {
            return;
        }
        let key = crate::origin::plain(path);
        match nearest(&snake_case(&entry.name), fields.iter().map(|field| field.name)) {
            Some(near) => self.findings.warn(&entry.origin, "", format!("unknown key `{key}`; did you mean `{near}`?")),
            None if open => {}
            None => self.findings.warn(&entry.origin, "", format!("unknown key `{key}`")),
        }
    }
}

pub(crate) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
