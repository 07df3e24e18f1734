//! The files that count, in order of precedence, read into a [`Config`].
//!
//! Lowest first: built-in, OpenCode's user files, ours, OpenCode's project files, ours, `POSSE_CONFIG`,
//! `POSSE_CONFIG_CONTENT`, flags. Project files are not trusted: see `read.rs` for what that leaves out. Nothing starts
//! half-configured: one error anywhere and there is no configuration.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use posse_session::Hook;
use serde_json::{Map, Value};

use crate::{
    built_in,
    config::{Compat, Config, Overrides},
    extract::{compat_of, config_of},
    layer::{Layer, Source, read_file},
    origin::{Origin, Problem},
    places::{Env, Places, tidy, variable},
};

/// Everything that is wrong, one problem a line. Exit 2: nothing may start with this configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    pub problems: Vec<Problem>,
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.problems.iter().enumerate() {
            let newline = if at == 0 { "" } else { "\n" };
            write!(out, "{newline}{problem}")?;
        }
        Ok(())
    }
}

pub fn load(places: &Places, env: &Env<'_>, overrides: &Overrides) -> Result<Config, ConfigError> {
    assemble(places, env, overrides, &[])
}

/// As [`load`], with hooks that may change the merged values before anything is built from them. What a hook changed
/// is one more layer of the user's, above the files and below the flags; a key it takes away stays as it was.
pub fn load_with_hooks(places: &Places, env: &Env<'_>, overrides: &Overrides, hooks: &[Arc<dyn Hook>]) -> Result<Config, ConfigError> {
    let mut hooked: Vec<Hooked> = Vec::new();
    for hook in hooks {
        let before = assemble(places, env, overrides, &hooked)?.tree.to_json();
        let mut after = before.clone();
        hook.config(&mut after);
        let changed: Map<String, Value> = after
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, value)| before.get(key) != Some(value))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        if !changed.is_empty() {
            hooked.push(Hooked { name: format!("hook {}", hook.name()), text: Value::Object(changed).to_string() });
        }
    }
    assemble(places, env, overrides, &hooked)
}

/// What a hook left of the configuration, as if it were a file.
struct Hooked {
    name: String,
    text: String,
}

fn assemble(places: &Places, env: &Env<'_>, overrides: &Overrides, hooked: &[Hooked]) -> Result<Config, ConfigError> {
    let loader = Loader { places, env };
    let mut layers = loader.layers();
    for hook in hooked {
        let source = loader.source(hook.name.as_str().into(), places.cwd.clone(), true, false);
        layers.push(Layer::read(&hook.text, source, places, env));
    }
    let mut problems: Vec<Problem> = Vec::new();
    for layer in &mut layers {
        let hint = if layer.source.neighbour { NEIGHBOUR_HINT } else { "" };
        problems.extend(layer.findings.errors.drain(..).map(|problem| Problem { words: format!("{}{hint}", problem.words), ..problem }));
    }
    if problems.is_empty() { Ok(config_of(layers, overrides)) } else { Err(ConfigError { problems }) }
}

/// The user may not be able to mend another program's file.
const NEIGHBOUR_HINT: &str = " (\"compat\": {\"opencode\": false} in your own posse.json leaves this file out)";

/// What `config check` prints: with an error it exits 2.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checked {
    pub errors: Vec<Problem>,
    pub warnings: Vec<Problem>,
}

pub fn check(places: &Places, env: &Env<'_>, overrides: &Overrides) -> Checked {
    match load(places, env, overrides) {
        Ok(config) => Checked { errors: config.dead_denies, warnings: config.warnings },
        Err(error) => Checked { errors: error.problems, warnings: Vec::new() },
    }
}

struct Loader<'a> {
    places: &'a Places,
    env: &'a Env<'a>,
}

const OURS: [&str; 2] = ["posse.json", "posse.jsonc"];
const OPENCODE: [&str; 2] = ["opencode.json", "opencode.jsonc"];

impl Loader<'_> {
    /// Lowest precedence first. The user's own files are read first of all: they say which neighbours count.
    fn layers(&self) -> Vec<Layer> {
        let user = self.ours(&self.places.config_dir, true);
        let named = self.named_file();
        let content = self.content();
        let compat = compat(user.iter().chain(&named).chain(&content));

        let mut layers = vec![self.built_in()];
        if compat.opencode {
            layers.extend(self.neighbours(&self.places.opencode_dir, true));
        }
        layers.extend(user);
        // A folder of the user's that lies in the project has been read, as the user's.
        let folders = self.places.project_dirs();
        if compat.opencode {
            layers.extend(
                folders.iter().filter(|folder| **folder != self.places.opencode_dir).flat_map(|folder| self.neighbours(folder, false)),
            );
        }
        layers.extend(folders.iter().filter(|folder| **folder != self.places.config_dir).flat_map(|folder| self.ours(folder, false)));
        layers.extend(named);
        layers.extend(content);
        layers
    }

    fn built_in(&self) -> Layer {
        let mut layer = Layer::read(built_in::TEXT, self.source(built_in::NAME.into(), PathBuf::new(), true, false), self.places, self.env);
        layer.without_lines();
        layer
    }

    /// Our file in a folder. Two of them would leave it to chance which one is edited.
    fn ours(&self, folder: &Path, trusted: bool) -> Vec<Layer> {
        let layers: Vec<Layer> = OURS.iter().filter_map(|name| self.file(&folder.join(name), trusted, false)).collect();
        if let [first, second] = &layers[..] {
            let words = format!("both {} and {} are there; keep one", first.source.shown, second.source.shown);
            return vec![Layer::unreadable(first.source.clone(), 0, words)];
        }
        layers
    }

    /// OpenCode merges its two files.
    fn neighbours(&self, folder: &Path, trusted: bool) -> Vec<Layer> {
        OPENCODE.iter().filter_map(|name| self.file(&folder.join(name), trusted, true)).collect()
    }

    fn file(&self, path: &Path, trusted: bool, neighbour: bool) -> Option<Layer> {
        // The user named it, so it is read as that and not as the project's.
        if !trusted && self.named_path().is_some_and(|named| named == path) {
            return None;
        }
        let shown = self.places.shown(path).into();
        let source = self.source(shown, path.parent().unwrap_or(path).to_owned(), trusted, neighbour);
        self.layer(read_file(path), source)
    }

    fn named_path(&self) -> Option<PathBuf> {
        variable(self.env, "POSSE_CONFIG").map(|path| tidy(&self.places.cwd.join(path)))
    }

    fn named_file(&self) -> Option<Layer> {
        let path = self.named_path()?;
        let source = self.source(self.places.shown(&path).into(), path.parent().unwrap_or(&path).to_owned(), true, false);
        let text = match read_file(&path) {
            Ok(None) => Err((0, "named by POSSE_CONFIG, but there is no such file".to_owned())),
            other => other,
        };
        self.layer(text, source)
    }

    fn content(&self) -> Option<Layer> {
        let text = variable(self.env, "POSSE_CONFIG_CONTENT")?;
        let source = self.source("POSSE_CONFIG_CONTENT".into(), self.places.cwd.clone(), true, false);
        Some(Layer::read(&text, source, self.places, self.env))
    }

    fn layer(&self, text: Result<Option<String>, (u32, String)>, source: Source) -> Option<Layer> {
        match text {
            Ok(text) => Some(Layer::read(&text?, source, self.places, self.env)),
            Err((line, words)) => Some(Layer::unreadable(source, line, words)),
        }
    }

    fn source(&self, shown: Arc<str>, dir: PathBuf, trusted: bool, neighbour: bool) -> Source {
        Source { shown, dir, trusted, neighbour }
    }
}

fn compat<'a>(layers: impl Iterator<Item = &'a Layer>) -> Compat {
    layers.fold(Compat { opencode: true, claude: true }, |before, layer| match layer.values.get("compat") {
        Some(said) => {
            let now = compat_of(Some(said));
            let flag = |name: &str, now: bool, before: bool| if said.get(name).is_some() { now } else { before };
            Compat { opencode: flag("opencode", now.opencode, before.opencode), claude: flag("claude", now.claude, before.claude) }
        }
        None => before,
    })
}

impl Layer {
    /// Nobody can open the built-in text, so its lines mean nothing.
    fn without_lines(&mut self) {
        self.values.forget_lines();
        for rule in &mut self.rules {
            rule.origin = Origin::built_in().to_string();
        }
    }
}
