//! The files that count, in order of precedence, read into a [`Config`].
//!
//! Lowest first: built-in, the neighbours' user files, ours, the neighbours' project files, ours, `POSSE_CONFIG`,
//! `POSSE_CONFIG_CONTENT`, hooks, `POSSE_DISABLE_BACKGROUND`, flags. Project files are taken as nobody's first: see `read.rs` for what that leaves out. The
//! same texts are then taken as trusted where the user trusts the folder with just these parts. Nothing starts
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
    instructions::instructions,
    layer::{Family, Layer, Source, Standing, read_file},
    origin::{Origin, Problem},
    places::{Env, Places, tidy, variable},
    shelf,
    trust::Standings,
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
    let user = loader.user();
    let compat = user.compat;
    let project = loader.project(compat);
    let standings = Standings::of(&project, places, compat, overrides.trust);
    let believed = |layer: Layer| if standings.trusts(&layer.source.dir) { layer.trusted(places, env) } else { layer };
    let mut layers = user.below;
    layers.extend(project.into_iter().map(believed));
    layers.extend(user.above);
    for hook in hooked {
        let source = loader.text_source(&hook.name);
        layers.push(Layer::read(&hook.text, source, places, env));
    }
    layers.extend(loader.without_background());
    let mut problems: Vec<Problem> = Vec::new();
    for layer in &mut layers {
        let hint = hint(layer.source.family);
        problems.extend(layer.findings.errors.drain(..).map(|problem| Problem { words: format!("{}{hint}", problem.words), ..problem }));
    }
    if !problems.is_empty() {
        return Err(ConfigError { problems });
    }
    let mut config = config_of(layers, standings, overrides);
    let missing = shelf::missing(places, &config);
    config.warnings.extend(missing);
    Ok(config)
}

/// The user may not be able to mend another program's file.
pub(crate) fn hint(family: Family) -> &'static str {
    match family {
        Family::Ours => "",
        Family::OpenCode => " (\"compat\": {\"opencode\": false} in your own posse.json leaves this file out)",
        Family::Claude => " (\"compat\": {\"claude\": false} in your own posse.json leaves this file out)",
    }
}

/// What `config check` prints: with an error it exits 2.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checked {
    pub errors: Vec<Problem>,
    pub warnings: Vec<Problem>,
    /// See [`Config::ignored_line`].
    pub ignored: Option<String>,
}

pub fn check(places: &Places, env: &Env<'_>, overrides: &Overrides) -> Checked {
    match load(places, env, overrides) {
        Ok(config) => {
            let unread = instructions(places, &config).warnings;
            let warnings = config.warnings.iter().cloned().chain(unread).collect();
            Checked { ignored: config.ignored_line(), errors: config.dead_denies, warnings }
        }
        Err(error) => Checked { errors: error.problems, ..Checked::default() },
    }
}

struct Loader<'a> {
    places: &'a Places,
    env: &'a Env<'a>,
}

const OURS: [&str; 2] = ["posse.json", "posse.jsonc"];
const OPENCODE: [&str; 2] = ["opencode.json", "opencode.jsonc"];
/// Of a project's folder, over the two beside it.
const OPENCODE_INSIDE: [&str; 2] = [".opencode/opencode.json", ".opencode/opencode.jsonc"];
const CLAUDE: [&str; 2] = [".claude/settings.json", ".claude/settings.local.json"];

/// The variable that turns background work off.
const NO_BACKGROUND: &str = "POSSE_DISABLE_BACKGROUND";

/// What the user wrote, below and above the project's.
struct UserLayers {
    below: Vec<Layer>,
    above: Vec<Layer>,
    compat: Compat,
}

impl Loader<'_> {
    /// Lowest precedence first. The user's own files are read first of all: they say which neighbours count.
    fn user(&self) -> UserLayers {
        let ours = self.ours(&self.places.config_dir, Standing::User);
        let above: Vec<Layer> = self.named_file().into_iter().chain(self.content()).collect();
        let compat = compat(ours.iter().chain(&above));
        let mut below = vec![self.built_in()];
        if compat.opencode {
            below.extend(self.opencode(&self.places.opencode_dir, &OPENCODE, Standing::User));
        }
        if compat.claude {
            let dir = self.places.home.join(".claude");
            below.extend(self.file(&dir, "settings.json", Standing::User, Family::Claude));
        }
        below.extend(ours);
        UserLayers { below, above, compat }
    }

    /// From the project's top down to the working directory. A folder of the user's that lies in the project has been
    /// read, as the user's.
    fn project(&self, compat: Compat) -> Vec<Layer> {
        let folders = self.places.project_dirs();
        let mut layers = Vec::new();
        if compat.opencode {
            let others = folders.iter().filter(|folder| **folder != self.places.opencode_dir);
            for folder in others {
                layers.extend(self.opencode(folder, &OPENCODE, Standing::Project));
                layers.extend(self.opencode(folder, &OPENCODE_INSIDE, Standing::Project));
            }
        }
        if compat.claude {
            let files = folders.iter().flat_map(|folder| CLAUDE.map(|name| (folder, name)));
            let others = files.filter(|(folder, name)| **folder != self.places.home || *name != CLAUDE[0]);
            layers.extend(others.filter_map(|(folder, name)| self.file(folder, name, Standing::Project, Family::Claude)));
        }
        let others = folders.iter().filter(|folder| **folder != self.places.config_dir);
        layers.extend(others.flat_map(|folder| self.ours(folder, Standing::Project)));
        layers
    }

    fn built_in(&self) -> Layer {
        let mut layer = Layer::read(built_in::TEXT, self.text_source(built_in::NAME), self.places, self.env);
        layer.without_lines();
        layer
    }

    /// Our file in a folder. Two of them would leave it to chance which one is edited.
    fn ours(&self, folder: &Path, standing: Standing) -> Vec<Layer> {
        let layers: Vec<Layer> = OURS.iter().filter_map(|name| self.file(folder, name, standing, Family::Ours)).collect();
        if let [first, second] = &layers[..] {
            let words = format!("both {} and {} are there; keep one", first.source.shown, second.source.shown);
            return vec![Layer::unreadable(first.source.clone(), 0, words)];
        }
        layers
    }

    /// OpenCode merges its two files.
    fn opencode(&self, folder: &Path, names: &[&str], standing: Standing) -> Vec<Layer> {
        names.iter().filter_map(|name| self.file(folder, name, standing, Family::OpenCode)).collect()
    }

    fn file(&self, folder: &Path, name: &str, standing: Standing, family: Family) -> Option<Layer> {
        let path = folder.join(name);
        // The user named it, so it is read as that and not as the project's.
        if standing != Standing::User && self.named_path().is_some_and(|named| named == path) {
            return None;
        }
        let shown = self.places.shown(&path).into();
        self.layer(read_file(&path), Source { shown, dir: folder.to_owned(), file: name.to_owned(), standing, family })
    }

    fn named_path(&self) -> Option<PathBuf> {
        variable(self.env, "POSSE_CONFIG").map(|path| tidy(&self.places.cwd.join(path)))
    }

    fn named_file(&self) -> Option<Layer> {
        let path = self.named_path()?;
        let dir = path.parent().unwrap_or(&path).to_owned();
        let source = Source { dir, ..self.text_source(&self.places.shown(&path)) };
        let text = match read_file(&path) {
            Ok(None) => Err((0, "named by POSSE_CONFIG, but there is no such file".to_owned())),
            other => other,
        };
        self.layer(text, source)
    }

    fn content(&self) -> Option<Layer> {
        let text = variable(self.env, "POSSE_CONFIG_CONTENT")?;
        Some(Layer::read(&text, self.text_source("POSSE_CONFIG_CONTENT"), self.places, self.env))
    }

    /// Whoever sets the variable wants none, whatever the files and the hooks say.
    fn without_background(&self) -> Option<Layer> {
        let said = variable(self.env, NO_BACKGROUND)?;
        let is_off = matches!(said.trim().to_lowercase().as_str(), "0" | "false" | "no" | "off");
        let mut layer = Layer::read(r#"{"background": false}"#, self.text_source(NO_BACKGROUND), self.places, self.env);
        layer.values.forget_lines();
        (!is_off).then_some(layer)
    }

    fn layer(&self, text: Result<Option<String>, (u32, String)>, source: Source) -> Option<Layer> {
        match text {
            Ok(text) => Some(Layer::read(&text?, source, self.places, self.env)),
            Err((line, words)) => Some(Layer::unreadable(source, line, words)),
        }
    }

    /// A text of the user's, or ours, that is no file.
    fn text_source(&self, name: &str) -> Source {
        let (dir, standing, family) = (self.places.cwd.clone(), Standing::User, Family::Ours);
        Source { shown: name.into(), dir, file: name.to_owned(), standing, family }
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
