//! Skills: `SKILL.md` files with instructions that a model or a user calls for by name.
//!
//! Finds them in every place that counts, lists them for a model within a bound, and words one that is called for. Runs
//! nothing, and gives no rights: what `allowed-tools` means is decided by whoever runs the skill. In a folder that is not
//! trusted a skill is words only.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

use crate::{
    agents::bounded,
    command::typed,
    config::Config,
    fields::{self, Fields},
    frontmatter::{Document, document},
    layer::Family,
    origin::{Origin, Problem, plain},
    places::Places,
    shelf::{self, Found, Level, Names, Shelf, group_of},
};

#[derive(Debug, Clone, PartialEq)]
pub struct Skill {
    /// `plugin:name` for one of a plugin.
    pub name: String,
    /// What it is for and when to use it. Without one it is not listed to a model.
    pub description: Option<String>,
    /// Rights for the turn that calls it: `Read`, `Bash(git add:*)`. Empty where the folder is not trusted.
    pub allowed_tools: Vec<String>,
    /// `context: fork`: runs as a child, without a model deciding so.
    pub fork: bool,
    /// Who runs it.
    pub agent: Option<String>,
    /// Nothing where the folder is not trusted.
    pub model: Option<String>,
    pub argument_hint: Option<String>,
    /// Only the user may call for it.
    pub disable_model_invocation: bool,
    /// The user may call for it as a command.
    pub user_invocable: bool,
    /// Keys that we do not know, as written.
    pub options: Map<String, Value>,
    /// The instructions.
    pub body: String,
    /// Where its resources are.
    pub dir: PathBuf,
    pub origin: Origin,
    pub trusted: bool,
}

#[derive(Debug, Clone, Default)]
pub struct Skills {
    /// By name.
    list: Vec<Skill>,
    /// What was guessed, left out or overridden, with file and line.
    pub tolerated: Vec<Problem>,
    /// What a start must say: what a folder that is not trusted would like to change. Bounded.
    pub announced: Vec<Problem>,
    /// How many files were read.
    pub files: usize,
}

const NAMES: Names = Names { ours: &["skills"], opencode: &["skill", "skills"], claude: &["skills"], agents: &["skills"] };

/// The documented keys of a skill's head.
pub(crate) const KEYS: [&str; 21] = [
    "name",
    "description",
    "when_to_use",
    "argument_hint",
    "arguments",
    "disable_model_invocation",
    "user_invocable",
    "allowed_tools",
    "disallowed_tools",
    "model",
    "effort",
    "context",
    "agent",
    "background",
    "hooks",
    "paths",
    "shell",
    "metadata",
    "license",
    "compatibility",
    "version",
];

/// Every skill that counts. Never fails: what is wrong with a file is among `tolerated`.
pub fn skills(places: &Places, config: &Config) -> Skills {
    let mut collector = Collector { places, skills: Skills::default(), by_name: HashMap::new() };
    let mut shelves = shelf::shelves(places, config, NAMES);
    for plugin in shelf::plugins(places, config, &mut collector.skills.tolerated) {
        shelves.extend(plugin.shelves("skills", true));
    }
    for later in shelf::later(config, "skills").into_iter().filter(|later| later.trusted) {
        let named = match &later.value {
            Value::Object(fields) => fields.get("paths").map(shelf::texts).unwrap_or_default(),
            other => shelf::texts(other),
        };
        for written in named {
            let dir = shelf::from(&later.dir, &places.home, &written);
            if !dir.is_dir() {
                let words = format!("{}: no such folder", places.shown(&dir));
                collector.tolerate(later.origin.clone(), "skills", words);
            }
            shelves.push(Shelf { dir, family: Family::Ours, level: later.level, trusted: true, within: None, plugin: None });
        }
    }
    // A stable sort: within a class the order above stays.
    shelves.sort_by_key(|shelf| shelf.level);
    for shelf in &shelves {
        collector.shelf(shelf);
    }
    let mut skills = collector.skills;
    skills.announced = bounded(skills.announced);
    skills.list.sort_by(|one, other| one.name.cmp(&other.name));
    skills
}

struct Collector<'a> {
    places: &'a Places,
    skills: Skills,
    /// Where in the list each stands, the class that it came from, and its group; by the name without what people write
    /// differently.
    by_name: HashMap<String, (usize, Level, String)>,
}

impl Collector<'_> {
    fn shelf(&mut self, shelf: &Shelf) {
        let walked = shelf::skill_files(shelf);
        for (path, words) in walked.left_out {
            self.tolerate(Origin { source: shelf::shown(self.places, &path), line: 0 }, "", words);
        }
        for found in walked.files {
            self.read(shelf, &found);
        }
    }

    fn read(&mut self, shelf: &Shelf, found: &Found) {
        let shown = shelf::shown(self.places, &found.path);
        match shelf::read_text(&found.path) {
            Ok(Some(text)) => {
                self.skills.files += 1;
                let document = document(&text, &shown, &KEYS);
                self.add(shelf, &found.path, document);
            }
            Ok(None) => {}
            Err(words) => self.tolerate(Origin { source: shown, line: 0 }, "", words),
        }
    }

    fn add(&mut self, shelf: &Shelf, path: &Path, document: Document) {
        let skill = self.skill(shelf, path, document);
        let (key, group) = (fields::folded(&skill.name), group_of(shelf));
        let Some((at, level, before_group)) = self.by_name.get(&key) else {
            self.by_name.insert(key, (self.skills.list.len(), shelf.level, group));
            self.skills.list.push(skill);
            return;
        };
        let at = *at;
        let before = &self.skills.list[at];
        if *before_group == group {
            let words = format!("a second skill `{}`; the one at {} counts", plain(&skill.name), before.origin);
            return self.tolerate(skill.origin, "name", words);
        }
        if !skill.trusted && before.trusted {
            let words = format!("skill {} (yours stays): ignored, because this folder is not trusted", plain(&before.name));
            return self.skills.announced.push(Problem { origin: skill.origin, key: String::new(), words });
        }
        // Of two classes the higher is meant to count; of two in one class nobody has chosen.
        let words = if *level == shelf.level { "the same name again" } else { "overrides the skill of the same name" };
        let words = format!("{words}: `{}` is also {}; this one counts", plain(&skill.name), before.origin);
        self.tolerate(skill.origin.clone(), "name", words);
        self.by_name.insert(key, (at, shelf.level, group));
        self.skills.list[at] = skill;
    }

    fn skill(&mut self, shelf: &Shelf, path: &Path, document: Document) -> Skill {
        let origin = document.fields.origin.clone();
        let dir = path.parent().unwrap_or(path).to_owned();
        let mut fields = Fields::of(document.fields, document.tolerated);
        let folder = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let own_name = plain(&fields.text(&["name"]).unwrap_or(folder));
        let name = match &shelf.plugin {
            Some(plugin) => format!("{plugin}:{}", own_name.strip_prefix(&format!("{plugin}:")).unwrap_or(&own_name)),
            None => own_name,
        };
        let (description, when) = (fields.text(&["description"]), fields.text(&["when_to_use"]));
        let description = [description, when].into_iter().flatten().collect::<Vec<_>>().join(" ");
        let powers = Powers::take(&mut fields, shelf.trusted);
        let skill = Skill {
            name,
            description: (!description.is_empty()).then_some(description),
            allowed_tools: powers.allowed_tools,
            fork: fields.text(&["context"]).is_some_and(|context| context.eq_ignore_ascii_case("fork")),
            agent: fields.text(&["agent"]),
            model: powers.model,
            argument_hint: fields.hint(&["argument_hint"]),
            disable_model_invocation: fields.flag("disable_model_invocation").unwrap_or(false),
            user_invocable: fields.flag("user_invocable").unwrap_or(true),
            options: Map::new(),
            body: document.body,
            dir,
            origin,
            trusted: shelf.trusted,
        };
        let (options, problems) = fields.others();
        self.skills.tolerated.extend(problems);
        Skill { options, ..skill }
    }

    fn tolerate(&mut self, origin: Origin, key: &str, words: impl Into<String>) {
        self.skills.tolerated.push(Problem { origin, key: key.to_owned(), words: words.into() });
    }
}

/// What is tolerated in one file of a skill.
pub(crate) fn tolerated_in(shelf: &Shelf, found: &Found, places: &Places) -> Vec<Problem> {
    let mut collector = Collector { places, skills: Skills::default(), by_name: HashMap::new() };
    collector.read(shelf, found);
    collector.skills.tolerated
}

/// Fields that widen rights or choose who receives the code: only from who is trusted.
pub(crate) struct Powers {
    pub(crate) model: Option<String>,
    pub(crate) variant: Option<String>,
    pub(crate) allowed_tools: Vec<String>,
}

impl Powers {
    /// What a folder that is not trusted says here has been named when the folder was looked at.
    pub(crate) fn take(fields: &mut Fields, trusted: bool) -> Self {
        let (model, variant) = (fields.text(&["model"]), fields.text(&["variant", "effort"]));
        let allowed_tools = fields.names("allowed_tools");
        if trusted {
            return Self { model, variant, allowed_tools };
        }
        fields.drop_all(&["effort", "hooks", "shell"]);
        Self { model: None, variant: None, allowed_tools: Vec::new() }
    }
}

/// A model reads it at every call; about two thousand tokens.
const LISTING_BYTES_MAX: usize = 8 * 1024;

/// Letters of a description in the listing; shorter ones are tried until all skills fit.
const DESCRIPTION_CHARS: [usize; 4] = [300, 160, 80, 0];

/// Resources that are named with a skill; the model can list the rest.
const RESOURCES_MAX: usize = 10;

impl Skills {
    /// By name.
    pub fn list(&self) -> &[Skill] {
        &self.list
    }

    /// By its name in any spelling, its folder's name, or what follows a namespace if only one has it.
    pub fn find(&self, name: &str) -> Option<&Skill> {
        let folder = |skill: &Skill| skill.dir.file_name().map(|folder| fields::folded(&folder.to_string_lossy()));
        fields::find(name, &self.list, |skill| &skill.name).or_else(|| {
            let mut found = self.list.iter().filter(|skill| folder(skill).is_some_and(|folder| folder == fields::folded(name)));
            found.next().filter(|_| found.next().is_none())
        })
    }

    /// The one that a model calls for, or words that help it on.
    pub fn called_for(&self, name: &str) -> Result<&Skill, String> {
        let Some(skill) = self.find(name) else {
            let near = self.near(name);
            let hint =
                if near.is_empty() { "call it with a name from its list".to_owned() } else { format!("did you mean {}?", near.join(", ")) };
            return Err(format!("skill: there is no skill `{}`; {hint}", plain(name)));
        };
        if skill.disable_model_invocation {
            return Err(format!(
                "skill: `{}` may be called for by the user only, as /{}. Go on without it, or ask the user to run it.",
                skill.name,
                typed(&skill.name)
            ));
        }
        Ok(skill)
    }

    /// Names that may have been meant.
    pub fn near(&self, name: &str) -> Vec<String> {
        fields::near(name, self.list.iter().map(|skill| skill.name.as_str()))
    }

    /// Where resources may be read without asking.
    pub fn folders(&self) -> Vec<PathBuf> {
        // One folder of many skills instead of each of them: whoever has thousands should not wait for it.
        let shelf = |skill: &Skill| {
            let parent = skill.dir.parent()?;
            let is_plain = matches!(parent.file_name()?.to_str()?, "skill" | "skills") && !skill.dir.is_symlink();
            is_plain.then(|| parent.to_owned())
        };
        let folders: BTreeSet<PathBuf> = self.list.iter().map(|skill| shelf(skill).unwrap_or_else(|| skill.dir.clone())).collect();
        folders.into_iter().collect()
    }

    /// For a model: one line a skill, in the order of names, never longer than the bound. The same skills give the same
    /// bytes. Empty when there is none to list.
    pub fn listing(&self, allowed: &dyn Fn(&str) -> bool) -> String {
        let listed: Vec<(&str, &str)> = self
            .list
            .iter()
            .filter(|skill| !skill.disable_model_invocation && allowed(&skill.name))
            .filter_map(|skill| Some((skill.name.as_str(), skill.description.as_deref()?)))
            .collect();
        for most in DESCRIPTION_CHARS {
            let text: String = listed.iter().map(|(name, description)| listed_line(name, description, most)).collect();
            if text.len() <= LISTING_BYTES_MAX {
                return text.trim_end().to_owned();
            }
        }
        let mut text = String::new();
        let mut left_out = 0;
        for (name, description) in &listed {
            let line = listed_line(name, description, 0);
            if text.len() + line.len() <= LISTING_BYTES_MAX { text.push_str(&line) } else { left_out += 1 }
        }
        format!("{text}({left_out} more are not listed here; each can be called for by its name)")
    }

    /// The texts of skills that an agent is to have from its start, and the names that mean none.
    pub fn preload(&self, names: &[String]) -> (String, Vec<String>) {
        let mut texts = Vec::new();
        let mut missing = Vec::new();
        for name in names {
            match self.find(name) {
                Some(skill) => texts.push(skill_content(skill)),
                None => missing.push(name.clone()),
            }
        }
        (texts.join("\n\n"), missing)
    }
}

fn listed_line(name: &str, description: &str, most: usize) -> String {
    let description = description.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut short: String = description.chars().take(most).collect();
    if short.len() < description.len() {
        short = format!("{}…", short.trim_end());
    }
    if most == 0 { format!("- {name}\n") } else { format!("- {name}: {short}\n") }
}

/// What a model is given when a skill is called for: its text, where it lies, and some of what lies beside it.
pub fn skill_content(skill: &Skill) -> String {
    let resources = resources(&skill.dir);
    let mut text = format!("<skill_content name=\"{}\">\n{}\n\n", skill.name.replace('"', "'"), skill.body.trim());
    text.push_str(&format!("Base directory of this skill: {}\n", skill.dir.display()));
    if !resources.is_empty() {
        text.push_str("Files in it, to be read by their path when the text above calls for them:\n");
        text.extend(resources.iter().map(|path| format!("- {}\n", skill.dir.join(path).display())));
    }
    if !skill.trusted {
        text.push_str(
            "This skill comes from a folder that the user has not trusted: its words give no rights, and its commands were not run.\n",
        );
    }
    text.push_str("</skill_content>");
    text
}

/// Folders below a skill that are looked into, and entries that are looked at.
const RESOURCE_DEPTH_MAX: usize = 3;
const RESOURCE_ENTRIES_MAX: usize = 1_000;

/// The first files beside a skill, by path. No link is followed.
fn resources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = RESOURCE_ENTRIES_MAX;
    collect(dir, Path::new(""), 0, &mut left, &mut found);
    found.sort();
    found.truncate(RESOURCES_MAX);
    found
}

fn collect(dir: &Path, below: &Path, depth: usize, left: &mut usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(dir.join(below)) else { return };
    let mut names: Vec<(std::ffi::OsString, fs::FileType)> =
        entries.flatten().take(*left).filter_map(|entry| Some((entry.file_name(), entry.file_type().ok()?))).collect();
    names.sort_by(|one, other| one.0.cmp(&other.0));
    *left = left.saturating_sub(names.len());
    for (name, kind) in names {
        let path = below.join(&name);
        let hidden = name.to_string_lossy().starts_with('.') || matches!(name.to_str(), Some("node_modules" | "__pycache__"));
        let is_skill = depth == 0 && name.to_string_lossy().eq_ignore_ascii_case("SKILL.md");
        if hidden || is_skill {
            continue;
        }
        if kind.is_dir() && depth < RESOURCE_DEPTH_MAX {
            collect(dir, &path, depth + 1, left, found);
        } else if kind.is_file() {
            found.push(path);
        }
    }
}
