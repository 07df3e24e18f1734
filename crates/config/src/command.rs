//! Commands: what `/name arguments` means, from every place that may define one.
//!
//! Built-in, JSON maps, markdown files and skills become one list in which the last of a name counts; a skill never
//! overrides a command. Expanding one gives pieces; running shell lines, reading files and asking models are the
//! caller's. In a folder that is not trusted a command is words only.

use std::{
    collections::HashMap,
    path::{Component, Path, PathBuf},
};

use posse_session::AgentMode;
use serde_json::{Map, Value};

use crate::{
    agents::bounded,
    command_line::{begins_as_name, is_name_letter},
    config::{Config, Later},
    fields::{self, Fields},
    frontmatter::{Document, document},
    layer::Family,
    origin::{Findings, Origin, Problem, plain},
    places::Places,
    shelf::{self, Found, Level, Names, Shelf, group_of},
    skill::{Powers, Skill, Skills},
    template::{self, Given, Piece},
    tree::{Entry, Held, Node},
};

#[derive(Debug, Clone, PartialEq)]
pub struct Command {
    /// As its family writes it: `review`, `team/review`, `team:review`, `plugin:review`.
    pub name: String,
    pub template: String,
    pub description: Option<String>,
    /// Who runs it. A fork without one is the general agent's.
    pub agent: Option<String>,
    pub model: Option<String>,
    pub variant: Option<String>,
    /// Said by its author; what it comes to is [`Command::is_subtask`].
    pub subtask: Option<bool>,
    /// `context: fork`: runs as a child, without a model deciding so.
    pub fork: bool,
    pub argument_hint: Option<String>,
    /// Rights for this turn only: `Read`, `Bash(git add:*)`.
    pub allowed_tools: Vec<String>,
    /// Keys that we do not know, as written.
    pub options: Map<String, Value>,
    pub kind: CommandKind,
    pub origin: Origin,
    /// Otherwise it is words only: no shell line, no model, no rights, no file outside the project.
    pub trusted: bool,
    /// The folder of the skill or plugin that it belongs to.
    pub dir: Option<PathBuf>,
}

/// Where a command comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandKind {
    BuiltIn,
    Config,
    File,
    Skill,
}

#[derive(Debug, Clone, Default)]
pub struct Commands {
    /// By name.
    list: Vec<Command>,
    /// What was guessed, left out or overridden, with file and line.
    pub tolerated: Vec<Problem>,
    /// What a start must say: what a folder that is not trusted changes or would like to. Bounded.
    pub announced: Vec<Problem>,
    /// How many files were read.
    pub files: usize,
}

const NAMES: Names = Names { ours: &["commands"], opencode: &["command", "commands"], claude: &["commands"], agents: &[] };

/// The documented keys of a command's head.
pub(crate) const KEYS: [&str; 20] = [
    "template",
    "description",
    "agent",
    "model",
    "variant",
    "effort",
    "subtask",
    "argument_hint",
    "arguments",
    "allowed_tools",
    "disallowed_tools",
    "context",
    "name",
    "hooks",
    "shell",
    "when_to_use",
    "disable_model_invocation",
    "user_invocable",
    "background",
    "version",
];

/// Who runs a fork that names nobody.
const FORK_AGENT: &str = "general";

/// The group of all skills.
const SKILLS: &str = "skills";

/// Every command that counts. Never fails: what is wrong with a file is among `tolerated`.
pub fn commands(places: &Places, config: &Config, skills: &Skills) -> Commands {
    let mut collector = Collector { places, commands: Commands::default(), by_name: HashMap::new() };
    for (name, description, template, subtask) in BUILT_IN {
        let command =
            Command { description: Some((*description).to_owned()), subtask: *subtask, ..Command::new(name, template, Origin::built_in()) };
        collector.put(command, Level::BuiltIn, "");
    }
    let mut sources: Vec<(Level, Source<'_>)> = Vec::new();
    sources.extend(shelf::later(config, "command").into_iter().map(|later| (later.level, Source::Config(later))));
    for plugin in shelf::plugins(places, config, &mut collector.commands.tolerated) {
        sources.extend(plugin.shelves("commands", false).into_iter().map(|shelf| (shelf.level, Source::Files(shelf))));
    }
    sources.extend(shelf::shelves(places, config, NAMES).into_iter().map(|shelf| (shelf.level, Source::Files(shelf))));
    // A stable sort: within a class the order above stays.
    sources.sort_by_key(|(level, _)| *level);
    for (_, source) in &sources {
        match source {
            Source::Config(later) => collector.config(later),
            Source::Files(shelf) => collector.shelf(shelf),
        }
    }
    for skill in skills.list().iter().filter(|skill| skill.user_invocable) {
        collector.skill(skill);
    }
    let mut commands = collector.commands;
    commands.announced = bounded(commands.announced);
    commands.list.sort_by(|one, other| one.name.cmp(&other.name));
    commands
}

/// Name, description, template, subtask.
const BUILT_IN: &[(&str, &str, &str, Option<bool>)] = &[
    ("init", "write AGENTS.md: what an agent must know of this project", include_str!("prompts/init.md"), None),
    (
        "review",
        "review the changes: uncommitted, or of a commit, a branch or a pull request",
        include_str!("prompts/review.md"),
        Some(true),
    ),
];

impl Commands {
    /// By name.
    pub fn list(&self) -> &[Command] {
        &self.list
    }

    /// By its name in any spelling (`a/b`, `a:b`), or what follows a namespace if only one has it.
    pub fn find(&self, name: &str) -> Option<&Command> {
        fields::find(name, &self.list, |command| &command.name)
    }

    /// For a person whose command there is not. `own`: the commands that need no file, which the caller knows.
    pub fn unknown(&self, name: &str, own: &[&str]) -> String {
        let mut all: Vec<&str> = self.list.iter().map(|command| command.name.as_str()).chain(own.iter().copied()).collect();
        all.retain(|name| begins_as_name(name));
        all.sort_unstable();
        all.dedup();
        let near = fields::near(name, all.iter().copied());
        let known = |names: &[String]| names.iter().map(|name| format!("/{}", typed(name))).collect::<Vec<_>>().join(", ");
        if near.is_empty() {
            let names: Vec<String> = all.iter().take(KNOWN_MAX).map(|name| (*name).to_owned()).collect();
            return format!("there is no command `/{}`; there are: {}", plain(name), known(&names));
        }
        format!("there is no command `/{}`; did you mean {}?", plain(name), known(&near))
    }
}

/// A name as it can be typed after a slash; it finds the same command.
pub(crate) fn typed(name: &str) -> String {
    name.chars()
        .map(|letter| match letter {
            '/' => ':',
            letter if is_name_letter(letter) => letter,
            _ => '-',
        })
        .collect()
}

/// Commands that are named when none is near.
const KNOWN_MAX: usize = 20;

impl Command {
    fn new(name: &str, template: &str, origin: Origin) -> Self {
        Self {
            name: name.to_owned(),
            template: template.trim().to_owned(),
            description: None,
            agent: None,
            model: None,
            variant: None,
            subtask: None,
            fork: false,
            argument_hint: None,
            allowed_tools: Vec::new(),
            options: Map::new(),
            kind: CommandKind::BuiltIn,
            origin,
            trusted: true,
            dir: None,
        }
    }

    /// Its name as it can be typed after a slash.
    pub fn typed(&self) -> String {
        typed(&self.name)
    }

    /// Whether it runs as a child, before any model is asked. `agent_mode` is that of the agent it names.
    pub fn is_subtask(&self, agent_mode: Option<AgentMode>) -> bool {
        self.subtask.unwrap_or(self.fork || agent_mode == Some(AgentMode::Subagent))
    }

    /// Who runs it; `None`: whoever the user talks to.
    pub fn agent_name(&self) -> Option<&str> {
        self.agent.as_deref().or(self.fork.then_some(FORK_AGENT))
    }

    /// Who answers this turn where it is no subtask. A folder that is not trusted chooses nobody: another agent may have
    /// wider rights.
    pub fn inline_agent(&self) -> Option<&str> {
        self.agent_name().filter(|_| self.trusted)
    }

    /// The placeholders of its template.
    pub fn hints(&self) -> Vec<String> {
        template::hints(&self.template)
    }

    /// Its text with the arguments put in. Where it is not trusted, shell lines and files outside the project are words.
    pub fn expand(&self, arguments: &str, places: &Places) -> Vec<Piece> {
        let dir = self.dir.as_ref().map(|dir| dir.display().to_string());
        let project = places.project.display().to_string();
        let mut variables = vec![("CLAUDE_PROJECT_DIR", project.as_str())];
        if let Some(dir) = &dir {
            let name = if self.kind == CommandKind::Skill { "CLAUDE_SKILL_DIR" } else { "CLAUDE_PLUGIN_ROOT" };
            variables.push((name, dir));
        }
        let pieces = template::expand(&self.template, Given { arguments, variables: &variables });
        if self.trusted { pieces } else { words_only(pieces, places) }
    }
}

/// Said in place of a shell line that does not count.
const NOT_RUN: &str = "not run: the folder that this command comes from is not trusted";

fn words_only(pieces: Vec<Piece>, places: &Places) -> Vec<Piece> {
    let mut words: Vec<Piece> = Vec::new();
    for piece in pieces {
        let piece = match piece {
            Piece::Shell { line } => Piece::Text(format!("`{line}` ({NOT_RUN})")),
            Piece::File { path } if !stays_inside(&path, places) => Piece::Text(format!("@{path}")),
            piece => piece,
        };
        match (words.last_mut(), piece) {
            (Some(Piece::Text(before)), Piece::Text(text)) => before.push_str(&text),
            (_, piece) => words.push(piece),
        }
    }
    words
}

/// Also where a link leads: the disk is asked, and a name that is no file stays what it is.
fn stays_inside(path: &str, places: &Places) -> bool {
    let written =
        !path.starts_with('~') && Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let project = places.project.canonicalize().unwrap_or_else(|_| places.project.clone());
    let leads_out = |folder: &PathBuf| folder.join(path).canonicalize().is_ok_and(|real| !real.starts_with(&project));
    written && ![&places.cwd, &places.project].into_iter().any(leads_out)
}

/// Each skill is also a command; a fork is run by a child.
fn of_skill(skill: &Skill) -> Command {
    let template = format!("{}\n\nBase directory of this skill: {}", skill.body, skill.dir.display());
    Command {
        description: skill.description.clone(),
        agent: skill.agent.clone(),
        model: skill.model.clone(),
        fork: skill.fork,
        argument_hint: skill.argument_hint.clone(),
        allowed_tools: skill.allowed_tools.clone(),
        options: skill.options.clone(),
        kind: CommandKind::Skill,
        trusted: skill.trusted,
        dir: Some(skill.dir.clone()),
        ..Command::new(&skill.name, &template, skill.origin.clone())
    }
}

/// What a configuration file says of commands, as far as its kinds of values go: wrong ones stop the start.
pub(crate) fn check_types(node: &Node, findings: &mut Findings) {
    let Held::Map(commands) = &node.held else {
        return findings.error(&node.origin, "command", format!("expected commands by name, found {}", node.kind()));
    };
    for Entry { name, node, .. } in commands {
        let path = format!("command.{name}");
        match (&node.held, node.get("template")) {
            (Held::Map(_), None | Some(Node { held: Held::Text(_), .. })) => {}
            (Held::Map(_), Some(template)) => {
                findings.error(&template.origin, &format!("{path}.template"), format!("expected a string, found {}", template.kind()));
            }
            _ => findings.error(&node.origin, &path, format!("expected an object, found {}", node.kind())),
        }
    }
}

enum Source<'a> {
    Config(&'a Later),
    Files(Shelf),
}

struct Collector<'a> {
    places: &'a Places,
    commands: Commands,
    by_name: HashMap<String, Known>,
}

/// Where a name stands in the list, and who has said something of it.
struct Known {
    at: usize,
    level: Level,
    /// Definitions of the same group with the same name are duplicates.
    group: String,
    is_built_in: bool,
}

impl Collector<'_> {
    fn put(&mut self, command: Command, level: Level, group: &str) {
        let key = fields::folded(&command.name);
        let is_built_in = command.kind == CommandKind::BuiltIn;
        if !begins_as_name(&command.name) {
            self.tolerate(
                command.origin.clone(),
                "",
                "its name does not begin with a letter from a to z, so it cannot be typed; rename it",
            );
        }
        let Some(known) = self.by_name.get(&key) else {
            self.by_name.insert(key, Known { at: self.commands.list.len(), level, group: group.to_owned(), is_built_in });
            self.commands.list.push(command);
            return;
        };
        let (at, is_built_in, is_same_level) = (known.at, known.is_built_in, known.level == level);
        let before = self.commands.list[at].clone();
        if known.group == group {
            let words = format!("a second command `{}`; the one at {} counts", plain(&command.name), before.origin);
            return self.tolerate(command.origin, "", words);
        }
        if !command.trusted && before.trusted && !is_built_in {
            return self
                .announce(command.origin, &format!("/{} (yours stays): ignored, because this folder is not trusted", typed(&before.name)));
        }
        if is_same_level {
            let words = format!("the same name again: `{}` is also {}; this one counts", plain(&command.name), before.origin);
            self.tolerate(command.origin.clone(), "", words);
        }
        let mut command = command;
        if !command.trusted && is_built_in {
            let words = format!("changes the text of our command /{}; this folder is not trusted", typed(&before.name));
            let Command { template, description, origin, kind, trusted, .. } = command;
            self.announce(origin.clone(), &words);
            command = Command { template, description: description.or(before.description.clone()), origin, kind, trusted, ..before };
        }
        self.commands.list[at] = command;
        self.by_name.insert(key, Known { at, level, group: group.to_owned(), is_built_in });
    }

    /// A skill is a command too where no other has its name, or only one that nobody trusts.
    fn skill(&mut self, skill: &Skill) {
        let key = fields::folded(&skill.name);
        let Some(known) = self.by_name.get(&key) else { return self.put(of_skill(skill), Level::BuiltIn, SKILLS) };
        let before = &self.commands.list[known.at];
        if skill.trusted && !before.trusted && !known.is_built_in && before.kind != CommandKind::Skill {
            let (at, origin) = (known.at, before.origin.clone());
            self.announce(origin, &format!("/{} (your skill stays): ignored, because this folder is not trusted", typed(&skill.name)));
            self.commands.list[at] = of_skill(skill);
        }
    }

    fn announce(&mut self, origin: Origin, words: &str) {
        self.commands.announced.push(Problem { origin, key: String::new(), words: words.to_owned() });
    }

    fn config(&mut self, later: &Later) {
        let Held::Map(commands) = &later.node.held else {
            self.tolerate(later.origin.clone(), "command", "expected an object of commands; left out");
            return;
        };
        for Entry { name, origin, node } in commands {
            let name = plain(name);
            let key = fields::folded(&name);
            if node.get("disable").and_then(Node::flag) == Some(true) {
                self.disable(&name, later, origin);
                continue;
            }
            let below = self.by_name.get(&key).map(|known| self.commands.list[known.at].clone());
            let base = match (node.get("template").and_then(Node::text), below) {
                (Some(template), _) => Command::new(&name, template, origin.clone()),
                // Only what it says is changed.
                (None, Some(below)) => Command { origin: origin.clone(), ..below },
                (None, None) => {
                    self.tolerate(origin.clone(), &format!("command.{name}"), "has no template; left out");
                    continue;
                }
            };
            let base = Command { kind: CommandKind::Config, trusted: base.trusted && later.trusted, ..base };
            let command = self.described(base, node.clone(), Vec::new());
            self.put(command, later.level, &format!("{} command", later.origin.source));
        }
    }

    fn disable(&mut self, name: &str, later: &Later, origin: &Origin) {
        let key = fields::folded(name);
        let Some(known) = self.by_name.get(&key) else { return };
        if !later.trusted && (known.is_built_in || self.commands.list[known.at].trusted) {
            return self.announce(origin.clone(), &format!("/{} is not disabled, because this folder is not trusted", typed(name)));
        }
        let at = known.at;
        self.by_name.remove(&key);
        self.commands.list.remove(at);
        for known in self.by_name.values_mut().filter(|known| at < known.at) {
            known.at -= 1;
        }
    }

    fn shelf(&mut self, shelf: &Shelf) {
        let walked = shelf::markdown(shelf);
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
                self.commands.files += 1;
                let document = document(&text, &shown, &KEYS);
                self.file(shelf, found, document);
            }
            Ok(None) => {}
            Err(words) => self.tolerate(Origin { source: shown, line: 0 }, "", words),
        }
    }

    fn file(&mut self, shelf: &Shelf, found: &Found, document: Document) {
        let spelled = if shelf.family == Family::Claude { found.name.replace('/', ":") } else { found.name.clone() };
        let name = shelf.plugin.as_ref().map_or_else(|| spelled.clone(), |plugin| format!("{plugin}:{spelled}"));
        let origin = document.fields.origin.clone();
        let dir = shelf.plugin.is_some().then(|| shelf.within.clone()).flatten();
        let base = Command { kind: CommandKind::File, trusted: shelf.trusted, dir, ..Command::new(&plain(&name), &document.body, origin) };
        let command = self.described(base, document.fields, document.tolerated);
        if command.template.is_empty() {
            self.tolerate(command.origin.clone(), "", "has no text, so the command says nothing but its arguments");
        }
        self.put(command, shelf.level, &group_of(shelf));
    }

    /// The command with what its fields say.
    fn described(&mut self, base: Command, fields: Node, tolerated: Vec<Problem>) -> Command {
        let mut fields = Fields::of(fields, tolerated);
        // The text is known by now.
        fields.text(&["template"]);
        let powers = Powers::take(&mut fields, base.trusted);
        let is_fork = fields.text(&["context"]).map(|context| context.eq_ignore_ascii_case("fork"));
        let command = Command {
            description: fields.text(&["description"]).or(base.description),
            agent: fields.text(&["agent"]).or(base.agent),
            model: powers.model.or(base.model),
            variant: powers.variant.or(base.variant),
            subtask: fields.flag("subtask").or(base.subtask),
            fork: is_fork.unwrap_or(base.fork),
            argument_hint: fields.hint(&["argument_hint"]).or(base.argument_hint),
            allowed_tools: if powers.allowed_tools.is_empty() { base.allowed_tools } else { powers.allowed_tools },
            ..base
        };
        let (options, problems) = fields.others();
        self.commands.tolerated.extend(problems);
        Command { options, ..command }
    }

    fn tolerate(&mut self, origin: Origin, key: &str, words: impl Into<String>) {
        self.commands.tolerated.push(Problem { origin, key: key.to_owned(), words: words.into() });
    }
}

/// What is tolerated in the commands of one folder, or in one of its files.
pub(crate) fn tolerated_in(shelf: &Shelf, found: &Found, places: &Places) -> Vec<Problem> {
    let mut collector = Collector { places, commands: Commands::default(), by_name: HashMap::new() };
    collector.read(shelf, found);
    collector.commands.tolerated
}
