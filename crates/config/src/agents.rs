//! All agents that there are: ours, and those that the user's and the project's files define, override and disable.
//!
//! Places are those of `shelf.rs`, lowest precedence first; what one definition says is `agent_fields.rs`. A markdown
//! file is never refused, only reported; a wrong type in a configuration file is an error, as everywhere there.

use std::{collections::HashMap, sync::Arc};

use posse_session::{Agent, AgentMode, Verdict};

use crate::{
    agent_fields::{Draft, KEYS, Writer, draft},
    agent_merge::{Standing, apply, tighten},
    config::Config,
    definition,
    frontmatter::{Document, document},
    layer::{Family, Source, Standing as Believed},
    load::{ConfigError, hint},
    native,
    near::nearest,
    origin::{Findings, Origin, Problem, plain},
    permission::{LayerRules, dead_rules},
    places::Places,
    shelf::{self, Found, Level, Names, Shelf},
    tree::{self, Entry, Held, Node},
};

/// Every agent that is not disabled.
#[derive(Debug, Clone, Default)]
pub struct Agents {
    list: Vec<Agent>,
    /// By name and alias, in the spelling of `Agent::key`.
    index: HashMap<String, usize>,
    /// What was guessed, left out or found twice, with file and line.
    pub tolerated: Vec<Problem>,
    /// Denies of an agent that a later rule of its own makes unreachable: printed at every start.
    pub dead_denies: Vec<Problem>,
    /// What a start must say: limits that could not be read, and what a folder that is not trusted changes or would like
    /// to. Bounded.
    pub announced: Vec<Problem>,
    /// Markdown files that were read.
    pub files: usize,
}

/// The agents of this place and configuration. `inline` is the JSON of `--agents`.
pub fn agents(places: &Places, config: &Config, inline: Option<&str>) -> Result<Agents, ConfigError> {
    let mut office = Office::new(places, config);
    for agent in native::agents() {
        office.add(Known { agent, disabled: false, written_by: None, is_users: false });
    }
    let mut sources = office.sources();
    sources.sort_by_key(Writing::level);
    for source in sources {
        match source {
            Writing::Map(later) => office.map(&later),
            Writing::Shelf(shelf, forced) => office.shelf(&shelf, forced),
        }
    }
    if let Some(text) = inline {
        office.inline(text);
    }
    office.finish()
}

impl Agents {
    /// The default first, the rest by name.
    pub fn list(&self) -> &[Agent] {
        &self.list
    }

    /// The one agent that a name means: case and separators do not count, and of `plugin:name` the first part may be left
    /// out where only one agent is meant.
    pub fn get(&self, name: &str) -> Option<&Agent> {
        let exact = self.index.get(&Agent::key(name)).map(|at| &self.list[*at]);
        exact.or_else(|| {
            let mut meant = self.list.iter().filter(|agent| agent.matches(name));
            meant.next().filter(|_| meant.next().is_none())
        })
    }

    /// Those that a user may start with.
    pub fn primaries(&self) -> impl Iterator<Item = &Agent> {
        self.list.iter().filter(|agent| agent.mode.is_primary() && !agent.hidden)
    }

    /// Names that were probably meant, the likeliest first.
    pub fn near(&self, name: &str) -> Vec<String> {
        let names = || self.list.iter().flat_map(|agent| std::iter::once(&agent.name).chain(&agent.aliases)).map(String::as_str);
        let wanted = Agent::key(name);
        let contains = |known: &&str| 3 <= wanted.len() && (Agent::key(known).contains(&wanted) || wanted.contains(&Agent::key(known)));
        let mut near: Vec<String> = Vec::new();
        for found in nearest(name, names()).into_iter().chain(names().filter(contains)).take(NEAR_MAX) {
            let found = self.get(found).map_or_else(|| found.to_owned(), |agent| agent.name.clone());
            if !near.contains(&found) {
                near.push(found);
            }
        }
        near
    }

    /// Who answers when nobody is named; in words why nobody does.
    pub fn default(&self, config: &Config) -> Result<&Agent, String> {
        let Some(named) = &config.default_agent else {
            let first = self.primaries().find(|agent| agent.default).or_else(|| self.primaries().next());
            return first.ok_or_else(|| "no agent is left that a user can start with; every primary is disabled or hidden".to_owned());
        };
        let place = &named.origin;
        let primaries = || self.primaries().map(|agent| agent.name.as_str()).collect::<Vec<_>>().join(", ");
        match self.get(&named.value) {
            Some(agent) if agent.hidden => Err(format!("{place}: default_agent: {} is hidden; choose one of {}", agent.name, primaries())),
            Some(agent) if !agent.mode.is_primary() => {
                Err(format!("{place}: default_agent: {} is a subagent; choose one of {}", agent.name, primaries()))
            }
            Some(agent) => Ok(agent),
            None => Err(format!("{place}: default_agent: there is no agent {}; choose one of {}", plain(&named.value), primaries())),
        }
    }
}

/// More would not be read.
const NEAR_MAX: usize = 5;

const FOLDERS: Names = Names { ours: &["agents"], opencode: &["agent", "agents"], claude: &["agents"], agents: &[] };

/// What OpenCode called agents before: all of them are primaries.
const OLD_FOLDERS: Names = Names { ours: &[], opencode: &["mode", "modes"], claude: &[], agents: &[] };

/// Where definitions are written.
enum Writing {
    Map(crate::config::Later),
    Shelf(Shelf, Option<AgentMode>),
}

impl Writing {
    fn level(&self) -> Level {
        match self {
            Self::Map(later) => later.level,
            Self::Shelf(shelf, _) => shelf.level,
        }
    }
}

/// An agent while definitions are put over one another.
struct Known {
    agent: Agent,
    disabled: bool,
    /// The last definition: which group of files it was in, and where it stands.
    written_by: Option<(String, Origin)>,
    /// The user wrote a definition of it, or trusts who did.
    is_users: bool,
}

/// One definition and where it comes from.
struct Definition<'a> {
    name: String,
    draft: Draft,
    standing: Standing,
    /// Definitions of the same group with the same name are duplicates.
    group: &'a str,
    origin: Origin,
}

struct Office<'a> {
    places: &'a Places,
    config: &'a Config,
    known: Vec<Known>,
    index: HashMap<String, usize>,
    tolerated: Vec<Problem>,
    errors: Vec<Problem>,
    announced: Vec<Problem>,
    files: usize,
}

/// What is tolerated in the agents of one folder, or in one of its files.
pub(crate) fn tolerated_in(shelf: &Shelf, only: Option<Found>, places: &Places, config: &Config) -> (Vec<Problem>, usize) {
    let mut office = Office::new(places, config);
    match only {
        Some(found) => office.file(shelf, &found, None, ""),
        None => office.shelf(shelf, None),
    }
    (office.tolerated, office.files)
}

impl<'a> Office<'a> {
    fn new(places: &'a Places, config: &'a Config) -> Self {
        let (known, index) = (Vec::new(), HashMap::new());
        Self { places, config, known, index, tolerated: Vec::new(), errors: Vec::new(), announced: Vec::new(), files: 0 }
    }

    /// Within a level configuration files come before folders, as with OpenCode.
    fn sources(&mut self) -> Vec<Writing> {
        let maps = self.config.later.iter().filter(|later| matches!(later.key.as_str(), "agent" | "mode"));
        let mut sources: Vec<Writing> = maps.cloned().map(Writing::Map).collect();
        for plugin in shelf::plugins(self.places, self.config, &mut self.tolerated) {
            sources.extend(plugin.shelves("agents", true).into_iter().map(|shelf| Writing::Shelf(shelf, None)));
        }
        let old = shelf::shelves(self.places, self.config, OLD_FOLDERS);
        sources.extend(old.into_iter().map(|shelf| Writing::Shelf(shelf, Some(AgentMode::Primary))));
        sources.extend(shelf::shelves(self.places, self.config, FOLDERS).into_iter().map(|shelf| Writing::Shelf(shelf, None)));
        sources
    }

    /// `agent` of a configuration file.
    fn map(&mut self, later: &crate::config::Later) {
        let believed = if later.trusted { Believed::User } else { Believed::Project };
        let source = Source {
            shown: later.origin.source.clone(),
            dir: later.dir.clone(),
            file: String::new(),
            standing: believed,
            family: later.family,
        };
        let forced = (later.key == "mode").then_some(AgentMode::Primary);
        self.entries(&later.node, &later.key, &source, later.first_wins, forced);
    }

    fn inline(&mut self, text: &str) {
        let shown: Arc<str> = "--agents".into();
        let mut findings = Findings::default();
        let node = tree::parse(text, &shown, &mut findings);
        self.errors.append(&mut findings.errors);
        let source = Source { shown, dir: self.places.cwd.clone(), file: String::new(), standing: Believed::User, family: Family::Ours };
        if let Some(node) = node {
            self.entries(&node, "", &source, false, None);
        }
    }

    fn entries(&mut self, node: &Node, key: &str, source: &Source, first_wins: bool, forced: Option<AgentMode>) {
        let mut findings = Findings::default();
        if !matches!(node.held, Held::Map(_)) {
            findings.error(&node.origin, key, format!("expected agents by name, found {}", node.kind()));
        }
        for Entry { name, origin, node } in node.entries() {
            let path = crate::read::join(key, name);
            if !matches!(node.held, Held::Map(_)) {
                findings.error(&node.origin, &path, format!("expected an object, found {}", node.kind()));
                continue;
            }
            let draft = draft(node, &Writer { source, roots: self.places.roots(), first_wins, path: &path }, &mut findings);
            let standing = Standing { trusted: source.is_trusted(), whole: false, default_mode: AgentMode::All, forced };
            let name = plain(name.trim());
            self.define(Definition { name, draft, standing, group: &format!("{} {key}", source.shown), origin: origin.clone() });
        }
        let hint = hint(source.family);
        let named = findings.errors.into_iter().map(|problem| Problem { words: format!("{}{hint}", problem.words), ..problem });
        self.errors.extend(named);
        self.tolerated.append(&mut findings.warnings);
    }

    fn shelf(&mut self, shelf: &Shelf, forced: Option<AgentMode>) {
        let walked = shelf::markdown(shelf);
        for (path, words) in walked.left_out {
            self.tolerate(Origin { source: shelf::shown(self.places, &path), line: 0 }, format!("{words}; left out"));
        }
        let group = shelf::group_of(shelf);
        for found in walked.files {
            self.file(shelf, &found, forced, &group);
        }
    }

    fn file(&mut self, shelf: &Shelf, found: &Found, forced: Option<AgentMode>, group: &str) {
        let shown = shelf::shown(self.places, &found.path);
        let text = match shelf::read_text(&found.path) {
            Ok(Some(text)) => text,
            Ok(None) => return self.tolerate(Origin { source: shown, line: 0 }, "there is no such file"),
            Err(words) => return self.tolerate(Origin { source: shown, line: 0 }, words),
        };
        self.files += 1;
        let read = document(&text, &shown, &KEYS);
        let is_bare = read.fields.entries().is_empty();
        self.tolerated.extend(read.tolerated.iter().cloned());
        if is_bare && is_documentation(&found.name) {
            return self.tolerate(Origin { source: shown, line: 1 }, "has no head and the name of a document; not read as an agent");
        }
        let believed = if shelf.trusted { Believed::User } else { Believed::Project };
        let source = Source { shown, dir: shelf.dir.clone(), file: String::new(), standing: believed, family: shelf.family };
        let mut findings = Findings::default();
        let draft = self.draft_of(&read, &source, shelf, &mut findings);
        self.tolerated.append(&mut findings.errors);
        self.tolerated.append(&mut findings.warnings);
        let default_mode = if shelf.family == Family::Claude { AgentMode::Subagent } else { AgentMode::All };
        let whole = shelf.family == Family::Claude && shelf.trusted;
        let standing = Standing { trusted: shelf.trusted, whole, default_mode, forced };
        let origin = read.fields.origin.clone();
        self.define(Definition { name: name_of(shelf, found, &draft), draft, standing, group, origin });
    }

    fn draft_of(&self, read: &Document, source: &Source, shelf: &Shelf, findings: &mut Findings) -> Draft {
        // What does not count was named when the folder was scanned.
        let harmless =
            (!source.is_trusted()).then(|| definition::harmless_agent(&read.fields, &source.shown, "", &mut Findings::default()));
        let fields = harmless.as_ref().unwrap_or(&read.fields);
        let writer = Writer { source, roots: self.places.roots(), first_wins: false, path: "" };
        let mut draft = draft(fields, &writer, findings);
        if !read.body.is_empty() {
            draft.prompt = Some(read.body.clone());
        }
        if shelf.plugin.is_some() {
            let powers = [("hooks", !draft.hooks.is_null()), ("mcpServers", !draft.mcp_servers.is_null())];
            for (key, _) in powers.into_iter().chain([("permissionMode", draft.permission_mode.is_some())]).filter(|(_, said)| *said) {
                findings.error(&read.fields.origin, key, "a plugin's agent may not say this; left out");
            }
            draft = Draft { hooks: serde_json::Value::Null, mcp_servers: serde_json::Value::Null, permission_mode: None, ..draft };
        }
        draft
    }

    fn define(&mut self, mut definition: Definition<'_>) {
        let key = Agent::key(&definition.name);
        if key.is_empty() {
            return self.tolerate(definition.origin, "an agent without a name; left out");
        }
        self.announced.append(&mut definition.draft.announced);
        let Some(at) = self.index.get(&key).copied() else { return self.found(definition) };
        let known = &self.known[at];
        let trusted = definition.standing.trusted;
        match &known.written_by {
            Some((before, first)) if before == definition.group => {
                let words = format!("a second agent {}; the one at {first} counts", definition.name);
                self.tolerate(definition.origin, words);
            }
            _ if !trusted && known.is_users => self.only_tighten(at, definition),
            _ if !trusted && known.agent.native => self.reword(at, definition),
            // Whoever nobody trusts has not defined what the user defines now.
            _ if trusted && !known.is_users && !known.agent.native => self.supplant(at, definition),
            _ => self.change(at, definition),
        }
    }

    /// An agent that nobody has defined before.
    fn found(&mut self, definition: Definition<'_>) {
        let Definition { name, mut draft, standing, group, origin } = definition;
        if !standing.trusted {
            self.leave_names(&mut draft, None);
        }
        let disabled = draft.disable.unwrap_or_default();
        let mut agent = Agent { name, trusted: true, mode: standing.default_mode, ..Agent::default() };
        apply(&mut agent, draft, standing, &origin);
        self.add(Known { agent, disabled, written_by: Some((group.to_owned(), origin)), is_users: standing.trusted });
    }

    /// A name that is another's stays the other's.
    fn leave_names(&self, draft: &mut Draft, at: Option<usize>) {
        let is_free = |name: &String| self.index.get(&Agent::key(name)).is_none_or(|known| Some(*known) == at);
        draft.name = draft.name.take().filter(is_free);
        draft.aliases = draft.aliases.take().map(|names| names.into_iter().filter(is_free).collect());
    }

    fn change(&mut self, at: usize, definition: Definition<'_>) {
        let Definition { mut draft, standing, group, origin, .. } = definition;
        if !standing.trusted {
            self.leave_names(&mut draft, Some(at));
        }
        let known = &mut self.known[at];
        known.disabled = draft.disable.unwrap_or(known.disabled);
        apply(&mut known.agent, draft, standing, &origin);
        known.written_by = Some((group.to_owned(), origin));
        known.is_users |= standing.trusted;
        let names: Vec<String> = std::iter::once(&known.agent.name).chain(&known.agent.aliases).map(|name| Agent::key(name)).collect();
        for name in names {
            self.index.entry(name).or_insert(at);
        }
    }

    /// The user's definition in the place of one that nobody trusts; what that one denies stays denied.
    fn supplant(&mut self, at: usize, definition: Definition<'_>) {
        let ceiling = std::mem::take(&mut self.known[at].agent.ceiling);
        let key = Agent::key(&definition.name);
        if Agent::key(&self.known[at].agent.name) == key {
            let (name, mode) = (definition.name.clone(), definition.standing.default_mode);
            self.known[at].agent = Agent { name, mode, ceiling, trusted: true, ..Agent::default() };
            return self.change(at, definition);
        }
        // It was only the other's second name.
        self.known[at].agent.ceiling = ceiling;
        self.known[at].agent.aliases.retain(|alias| Agent::key(alias) != key);
        self.index.remove(&key);
        self.found(definition);
    }

    /// A folder that is not trusted may deny and ask, and changes nothing else of an agent that is the user's.
    fn only_tighten(&mut self, at: usize, definition: Definition<'_>) {
        let agent = &mut self.known[at].agent;
        tighten(agent, &definition.draft.permission);
        let words = format!("{} (yours stays): ignored, because this folder is not trusted", agent.name);
        self.announced.push(Problem { origin: definition.origin, key: String::new(), words });
    }

    /// Of an agent of ours it may change the words, and whoever starts is told.
    fn reword(&mut self, at: usize, definition: Definition<'_>) {
        let Draft { description, prompt, append, tools, disallowed_tools, permission, .. } = definition.draft;
        let changed = [("prompt", prompt.is_some() || append.is_some()), ("description", description.is_some())];
        let changed: Vec<&str> = changed.iter().filter(|(_, said)| *said).map(|(what, _)| *what).collect();
        if !changed.is_empty() {
            let words =
                format!("changes the {} of our agent {}; this folder is not trusted", changed.join(" and the "), self.known[at].agent.name);
            self.announced.push(Problem { origin: definition.origin.clone(), key: String::new(), words });
        }
        let draft = Draft { description, prompt, append, tools, disallowed_tools, permission, ..Draft::default() };
        self.change(at, Definition { draft, ..definition });
    }

    fn tolerate(&mut self, origin: Origin, words: impl Into<String>) {
        self.tolerated.push(Problem { origin, key: String::new(), words: words.into() });
    }

    fn add(&mut self, known: Known) {
        let at = self.known.len();
        for name in std::iter::once(&known.agent.name).chain(&known.agent.aliases) {
            self.index.entry(Agent::key(name)).or_insert(at);
        }
        self.known.push(known);
    }

    fn finish(self) -> Result<Agents, ConfigError> {
        if !self.errors.is_empty() {
            return Err(ConfigError { problems: self.errors });
        }
        let list: Vec<Agent> = self.known.into_iter().filter(|known| !known.disabled).map(|known| known.agent).collect();
        let dead_denies = list.iter().flat_map(dead_denies).collect();
        let announced = bounded(self.announced);
        let mut agents = Agents { list, index: HashMap::new(), tolerated: self.tolerated, dead_denies, announced, files: self.files };
        // Natives come first, so a default that nobody chose is theirs.
        let chosen = agents.default(self.config).map(|agent| agent.name.clone()).ok();
        for agent in &mut agents.list {
            agent.default = chosen.as_ref() == Some(&agent.name);
        }
        agents.list.sort_by(|one, other| other.default.cmp(&one.default).then_with(|| one.name.cmp(&other.name)));
        // Of two that have one name, the one that the user wrote.
        let mut by_trust: Vec<(usize, &Agent)> = agents.list.iter().enumerate().collect();
        by_trust.sort_by_key(|(_, agent)| !agent.trusted && !agent.native);
        for (at, agent) in &by_trust {
            agents.index.entry(Agent::key(&agent.name)).or_insert(*at);
        }
        for (at, agent) in by_trust {
            for alias in &agent.aliases {
                agents.index.entry(Agent::key(alias)).or_insert(at);
            }
        }
        Ok(agents)
    }
}

/// Said at every start, so a screen at most; a hostile folder could fill it.
const ANNOUNCED_MAX: usize = 20;

/// The first of what a start says, and how much more there is.
pub(crate) fn bounded(mut announced: Vec<Problem>) -> Vec<Problem> {
    let more = announced.len().saturating_sub(ANNOUNCED_MAX);
    announced.truncate(ANNOUNCED_MAX);
    if let (Some(last), true) = (announced.last_mut(), 0 < more) {
        last.words.push_str(&format!(" (and {more} more such things; `posse agents check` lists them)"));
    }
    announced
}

fn dead_denies(agent: &Agent) -> Vec<Problem> {
    if !agent.permission.iter().any(|rule| rule.action == Verdict::Deny) {
        return Vec::new();
    }
    dead_rules(&[LayerRules { trusted: true, rules: agent.permission.clone() }]).denies
}

/// OpenCode names a file by its path, Claude by its head or its last part, a plugin puts itself before both.
fn name_of(shelf: &Shelf, found: &Found, draft: &Draft) -> String {
    let stem = found.name.rsplit('/').next().unwrap_or(&found.name);
    let name = match (&draft.name, shelf.family) {
        (Some(name), _) => name.as_str(),
        (None, Family::Claude) => stem,
        (None, _) => found.name.as_str(),
    };
    let Some(plugin) = &shelf.plugin else { return plain(name) };
    let folders = found.name.rsplit_once('/').map(|(folders, _)| format!("{}:", folders.replace('/', ":"))).unwrap_or_default();
    plain(&format!("{plugin}:{folders}{name}"))
}

/// Files that lie in every folder and are no agents.
fn is_documentation(name: &str) -> bool {
    let stem = name.rsplit('/').next().unwrap_or(name);
    matches!(stem.to_lowercase().as_str(), "readme" | "changelog" | "license" | "contributing" | "index" | "agents" | "claude")
}
