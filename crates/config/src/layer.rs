//! One file, read: its values in their one spelling, its rules, and what came up.
//!
//! Layers are put over one another by `load.rs`, lowest precedence first. A layer is read whole even when something in
//! it is wrong, so that all of it can be reported at once.

use std::{
    fs::File,
    io::{self, Read},
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use posse_session::Rule;

use crate::{
    built_in, claude, command,
    config::Later,
    definition,
    origin::{Findings, Origin},
    path_pattern::Roots,
    permission,
    places::{Env, Places},
    provider,
    read::Reader,
    schema::{CLAUDE, Field, Shape, TOP},
    shelf::Level,
    substitute::Surroundings,
    tree::{self, Entry, Held, Node},
    unbuilt,
};

/// Where a layer comes from and how far it is believed.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) shown: Arc<str>,
    /// The folder that its relative paths start from. For a project's file the folder of the project it stands for.
    pub(crate) dir: PathBuf,
    /// The file, from `dir`.
    pub(crate) file: String,
    pub(crate) standing: Standing,
    pub(crate) family: Family,
}

/// Whose file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    User,
    /// A project's, in a folder that the user trusts as it is now.
    Trusted,
    /// A project's.
    Project,
}

/// Whose keys a file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Ours,
    OpenCode,
    Claude,
}

impl Source {
    pub(crate) fn is_trusted(&self) -> bool {
        self.standing != Standing::Project
    }

    /// The class of its precedence; see `load.rs` for the order.
    fn level(&self, places: &Places) -> Level {
        let beside_the_users = self.dir == places.config_dir && self.file.starts_with("posse.json");
        match (self.standing, self.family) {
            (Standing::User, Family::Ours) if self.file == built_in::NAME => Level::BuiltIn,
            (Standing::User, Family::Ours) if beside_the_users => Level::OurUser,
            (Standing::User, Family::Ours) => Level::Above,
            (Standing::User, _) => Level::NeighbourUser,
            (_, Family::Ours) => Level::OurProject,
            (_, _) => Level::NeighbourProject,
        }
    }

    /// What `{file:path}` starts from. OpenCode means the folder that the file lies in.
    fn near(&self) -> PathBuf {
        let within = Path::new(&self.file).parent().filter(|_| self.family == Family::OpenCode);
        within.map_or_else(|| self.dir.clone(), |within| self.dir.join(within))
    }

    /// Another program's file: keys that we do not know are its own business.
    pub(crate) fn is_neighbour(&self) -> bool {
        self.family != Family::Ours
    }
}

#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) source: Source,
    /// As it was read; nothing when it could not be.
    text: String,
    /// A map of the keys that have a meaning today, except rules.
    pub(crate) values: Node,
    pub(crate) rules: Vec<Rule>,
    pub(crate) later: Vec<Later>,
    pub(crate) findings: Findings,
}

impl Layer {
    pub(crate) fn read(text: &str, source: Source, places: &Places, env: &Env<'_>) -> Self {
        let mut findings = Findings::default();
        let root = tree::parse(text, &source.shown, &mut findings);
        let mut layer = Self { values: empty(&source), source, text: text.to_owned(), rules: Vec::new(), later: Vec::new(), findings };
        match root {
            Some(root) if matches!(root.held, Held::Map(_)) => layer.take(&root, places, env),
            Some(root) => layer.findings.error(&root.origin, "", format!("expected an object, found {}", root.kind())),
            None => {}
        }
        layer
    }

    /// The same text, believed. The file is not read again: it may be another by now.
    pub(crate) fn trusted(self, places: &Places, env: &Env<'_>) -> Self {
        if !self.findings.errors.is_empty() {
            return self;
        }
        Self::read(&self.text, Source { standing: Standing::Trusted, ..self.source }, places, env)
    }

    /// A layer that holds nothing but a reason why the file could not be read.
    pub(crate) fn unreadable(source: Source, line: u32, words: String) -> Self {
        let mut findings = Findings::default();
        findings.error(&Origin { source: source.shown.clone(), line }, "", words);
        Self { values: empty(&source), source, text: String::new(), rules: Vec::new(), later: Vec::new(), findings }
    }

    fn take(&mut self, root: &Node, places: &Places, env: &Env<'_>) {
        let fields = if self.source.family == Family::Claude { CLAUDE } else { TOP };
        let near = self.source.near();
        let around = Surroundings { env, dir: &near, home: &places.home };
        let entries = Reader { source: &self.source, around, findings: &mut self.findings }.fields(root, fields, false, "");
        let shape_of = |name: &str| fields.iter().find(|field: &&Field| field.name == name).map(|field| &field.shape);
        let (rules, entries): (Vec<Entry>, Vec<Entry>) =
            entries.into_iter().partition(|entry| matches!(shape_of(&entry.name), Some(Shape::Permission)));
        let (later, mut values): (Vec<Entry>, Vec<Entry>) =
            entries.into_iter().partition(|entry| matches!(shape_of(&entry.name), Some(Shape::Later | Shape::Definitions)));

        if self.source.family == Family::Claude {
            for entry in &rules {
                let read = claude::permissions(&entry.node, &self.source, places, &mut self.findings);
                self.rules.extend(read.rules);
                values.extend(read.mode);
            }
        } else {
            self.take_rules(&rules, &values, places.roots());
        }
        for entry in &later {
            if entry.name == "command" {
                command::check_types(&entry.node, &mut self.findings);
            } else if self.source.family == Family::Ours {
                unbuilt::look(entry, &mut self.findings);
            }
        }
        let order = values.iter().find(|entry| entry.name == "permission_order").cloned();
        self.later = later.iter().map(|entry| self.later_of(entry, order.as_ref(), places)).collect();
        for entry in &mut values {
            match entry.name.as_str() {
                "provider" => provider::flatten(&mut entry.node, &mut self.findings),
                "instructions" => self.keep_instructions(&mut entry.node),
                _ => {}
            }
        }
        if !self.source.is_trusted() {
            // Who names the model names the server, so another name is another thing to trust.
            for entry in values.iter().filter(|entry| matches!(entry.name.as_str(), "model" | "models" | "small_model")) {
                self.findings.say(&entry.name, &entry.node);
            }
        }
        rename_small_model(&mut values);
        self.values.held = Held::Map(values);
    }

    fn take_rules(&mut self, rules: &[Entry], values: &[Entry], roots: Roots<'_>) {
        let order = values.iter().find(|entry| entry.name == "permission_order");
        let first_wins = order.and_then(|entry| entry.node.text()) == Some("first");
        let said_before = self.findings.said.len();
        self.rules = permission::rules_of(rules, first_wins, &self.source, roots, &mut self.findings);
        if said_before < self.findings.said.len() {
            // A deny that is taken away, or another order, widens an allow that stays.
            for entry in rules.iter().chain(order) {
                self.findings.say(&entry.name, &entry.node);
            }
        }
    }

    fn later_of(&mut self, entry: &Entry, order: Option<&Entry>, places: &Places) -> Later {
        let trusted = self.source.is_trusted();
        let said_before = self.findings.said.len();
        let harmless = (!trusted).then(|| definition::harmless(entry, &self.source.shown, &mut self.findings));
        if let (Some(order), true) = (order, said_before < self.findings.said.len()) {
            // Another order makes other rules of the same words.
            self.findings.say(&order.name, &order.node);
        }
        let node = harmless.unwrap_or_else(|| entry.clone()).node;
        let value = node.to_json();
        let (family, first_wins) = (self.source.family, order.and_then(|order| order.node.text()) == Some("first"));
        let (level, dir) = (self.source.level(places), self.source.dir.clone());
        Later { key: entry.name.clone(), value, origin: entry.origin.clone(), trusted, level, dir, node, family, first_wins }
    }

    /// A folder that is not trusted may name files of its own, nothing else; nobody may name a URL yet.
    fn keep_instructions(&mut self, node: &mut Node) {
        let (source, findings) = (&self.source, &mut self.findings);
        let Held::List(items) = &mut node.held else { return };
        let mut at = 0;
        items.retain(|item| {
            let path = format!("instructions[{at}]");
            at += 1;
            let text = item.text().unwrap_or_default();
            let url = text.contains("://");
            if !source.is_trusted() && (url || text.starts_with('~') || !stays_inside(text)) {
                findings.ignore(&source.shown, &path, item);
                return false;
            }
            if url {
                findings.warn(&item.origin, &path, "URLs are not read; save it as a file and name that");
            }
            !url
        });
    }
}

fn stays_inside(path: &str) -> bool {
    Path::new(path).components().all(|component| matches!(component, Component::Normal(_) | Component::CurDir))
}

fn empty(source: &Source) -> Node {
    Node { origin: Origin { source: source.shown.clone(), line: 0 }, held: Held::Map(Vec::new()) }
}

/// OpenCode's `small_model` is our alias `small`, unless the file says both.
fn rename_small_model(values: &mut Vec<Entry>) {
    let Some(at) = values.iter().position(|entry| entry.name == "small_model") else { return };
    let small = Entry { name: "small".to_owned(), ..values.remove(at) };
    match values.iter_mut().find(|entry| entry.name == "models") {
        Some(Entry { node: Node { held: Held::Map(aliases), .. }, .. }) => {
            if !aliases.iter().any(|alias| alias.name == "small") {
                aliases.push(small);
            }
        }
        _ => {
            let origin = small.origin.clone();
            let node = Node { origin: origin.clone(), held: Held::Map(vec![small]) };
            values.push(Entry { name: "models".to_owned(), origin, node });
        }
    }
}

/// A thousand times what anybody writes by hand.
pub(crate) const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Why a file that is there cannot be read, and at which line.
pub(crate) type Unreadable = (u32, String);

/// The text of a file; `None` when there is none.
pub(crate) fn read_file(path: &Path) -> Result<Option<String>, Unreadable> {
    let whole = |words: String| (0, words);
    let file = match open_regular(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(None),
        Err(error) => return Err(whole(format!("cannot be read: {error}"))),
    };
    // Room for all of it at once: a definition is one read, not eight.
    let length = file.metadata().map_or(0, |metadata| metadata.len().min(FILE_BYTES_MAX));
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0) + 1);
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| whole(format!("cannot be read: {error}")))?;
    if FILE_BYTES_MAX < bytes.len() as u64 {
        return Err(whole(format!("larger than {} MiB", FILE_BYTES_MAX / 1024 / 1024)));
    }
    String::from_utf8(bytes).map(Some).map_err(|error| {
        let breaks = error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        (u32::try_from(breaks).unwrap_or(u32::MAX).saturating_add(1), "not UTF-8 text".to_owned())
    })
}

/// Looked at before it is opened: opening a pipe would wait for its writer.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    File::open(path)
}
