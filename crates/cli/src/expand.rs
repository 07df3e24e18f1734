//! What typed words come to: commands, skills, agents that are run or named, files that are attached.
//!
//! Only reads what the user configured and whether a file is there. What a file or a command line in the words says is
//! found out by the kernel, as a call under the user's rules.

use std::{collections::HashSet, path::Path, sync::Arc};

use posse_config::{
    Agents, Command, Commands, Line, Mention, Mentioned, Piece, Places, existing, leading_agent, lines, mentioned, mentions,
};
use posse_session::{Agent, Expander, Expansion, Grant, Needed, Outcome, Part, Text, Verdict, Voice};
use posse_tools::Dialect;
use serde_json::json;

/// A task's description is a few words of a list.
const DESCRIPTION_CHARS_MAX: usize = 60;

pub(crate) struct Typist {
    pub(crate) places: Places,
    pub(crate) agents: Arc<Agents>,
    pub(crate) commands: Commands,
    pub(crate) dialect: Dialect,
    /// A named agent answers itself, in this session.
    pub(crate) switches: bool,
    /// Who runs a command that names nobody.
    pub(crate) speaker: String,
}

/// So many files that the user named are handed on to an agent: they are part of an event. Others are asked about there.
const NAMED_MAX: usize = 24;

/// A longer path is asked about, too.
const NAMED_BYTES_MAX: usize = 256;

impl Typist {
    /// Whether there is anything to expand.
    pub(crate) fn concerns(text: &str) -> bool {
        text.contains('@') || lines(text).iter().any(|line| matches!(line, Line::Command { .. }))
    }

    /// The first command that nobody knows, in words.
    pub(crate) fn unknown(&self, text: &str, voice: &Voice) -> Option<String> {
        self.lines(text, voice).into_iter().find_map(|line| match line {
            Line::Command { name, .. } if self.commands.find(&name).is_none() && self.wish_to_compact(text, voice).is_none() => {
                Some(self.commands.unknown(&name, OWN_COMMANDS))
            }
            _ => None,
        })
    }

    /// The commands of a text that somebody knows.
    pub(crate) fn commands_in(&self, text: &str, voice: &Voice) -> Vec<&Command> {
        let known = |line: Line| match line {
            Line::Command { name, .. } => self.commands.find(&name),
            Line::Text(_) => None,
        };
        self.lines(text, voice).into_iter().filter_map(known).collect()
    }

    /// What is piped in has commands only if it begins with one: a listing or a letter may have lines that look like one.
    fn lines(&self, text: &str, voice: &Voice) -> Vec<Line> {
        let found = lines(text);
        let begins = matches!(found.first(), Some(Line::Command { .. }));
        if *voice == Voice::Piped && !begins { vec![Line::Text(text.to_owned())] } else { found }
    }

    /// What a summary is to keep, if the words ask for one. A command of the same name counts if the user trusts it.
    pub(crate) fn wish_to_compact(&self, text: &str, voice: &Voice) -> Option<String> {
        match &self.lines(text, voice)[..] {
            [Line::Command { name, arguments }]
                if name == COMPACT && *voice == Voice::User && self.commands.find(name).is_none_or(|own| !own.trusted) =>
            {
                Some(arguments.trim().to_owned())
            }
            _ => None,
        }
    }

    fn exists(&self, path: &str) -> bool {
        existing(&self.places, path).is_some()
    }

    /// Whether a path is where it says, without a link on the way from the folders that people start from.
    fn is_itself(&self, path: &Path) -> bool {
        let Ok(real) = path.canonicalize() else { return false };
        let bases = [&self.places.cwd, &self.places.project, &self.places.home];
        let plain = |base: &Path| Some(base.canonicalize().ok()?.join(path.strip_prefix(base).ok()?));
        real == path || bases.iter().any(|base| plain(base).is_some_and(|plain| plain == real))
    }

    /// Whether it is a file of the project, and not only by its name.
    fn is_in_project(&self, path: &str) -> bool {
        existing(&self.places, path).is_some_and(|full| full.starts_with(&self.places.project) && self.is_itself(&full))
    }

    /// Those that posse itself puts to work are nobody's to name.
    fn agent(&self, name: &str) -> Option<String> {
        self.agents.get(name).filter(|agent| !is_internal(agent)).map(|agent| agent.name.clone())
    }

    /// A model can call subagents only.
    fn is_callable(&self, name: &str) -> bool {
        self.agents.get(name).is_some_and(|agent| agent.mode.is_subagent())
    }
}

/// Whether posse itself puts it to work, and nobody else.
pub(crate) fn is_internal(agent: &Agent) -> bool {
    agent.native && agent.hidden && !agent.mode.is_subagent()
}

/// The commands that posse knows by itself; `/fork` is `run/fork.rs`.
const OWN_COMMANDS: &[&str] = &[COMPACT, "fork"];

/// The command that posse knows by itself: the conversation is summed up.
const COMPACT: &str = "compact";

impl Expander for Typist {
    fn expand(&self, typed: &str, voice: &Voice) -> Expansion {
        if let Some(words) = self.wish_to_compact(typed, voice) {
            let assemble = move |_: &[Outcome]| vec![Part::Compact { words: words.clone().into() }];
            return Expansion { calls: Vec::new(), agent: None, model: None, allowed: Vec::new(), assemble: Box::new(assemble) };
        }
        let mut draft = Draft {
            typist: self,
            consents: *voice == Voice::User,
            calls: Vec::new(),
            said: Vec::new(),
            later: Vec::new(),
            agent: None,
            model: None,
            allowed: Vec::new(),
        };
        let exists = |path: &str| self.exists(path);
        match (leading_agent(typed, &exists, &|name| self.agent(name)).filter(|_| draft.consents), voice) {
            (Some((agent, rest)), _) => draft.run(&agent, &rest),
            (None, Voice::User | Voice::Piped) => draft.lines(typed, voice),
            (None, Voice::Agent { named }) => draft.handed_on(typed, named),
        }
        draft.finish()
    }
}

/// A message in the making.
struct Draft<'a> {
    typist: &'a Typist,
    /// The user typed the words, so what they name needs no other leave.
    consents: bool,
    calls: Vec<Needed>,
    said: Vec<Said>,
    /// Attachments and hints: what comes after the words.
    later: Vec<Later>,
    agent: Option<String>,
    model: Option<String>,
    allowed: Vec<Grant>,
}

enum Said {
    Text(Vec<Bit>),
    Subtask { part: Box<Part>, prompt: Vec<Bit>, names: Names },
}

/// What the prompt of an agent that the user runs may name there.
struct Names {
    /// Mentions of the user's own, as written, and the files that they name.
    own: HashSet<String>,
    files: Vec<String>,
    /// The rest of the prompt is of somebody who may name nothing.
    only_own: bool,
}

enum Later {
    Part(Part),
    File { name: String, call: usize, by: Namer },
}

/// Whose files are attached to a message.
struct Template {
    trusted: bool,
    arguments: Vec<String>,
}

/// Who named a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Namer {
    /// By typing it, which is leave to read it.
    User,
    /// The user too, where that is no leave: in a pipe, or as an argument that a command made a mention of.
    Aside,
    Command,
    /// Another agent.
    Prompt,
}

/// A stretch of text, or the place of a result in it.
enum Bit {
    Text(String),
    Output(usize),
}

impl Draft<'_> {
    fn lines(&mut self, typed: &str, voice: &Voice) {
        let found = self.typist.lines(typed, voice);
        // Beside anything else its answer would not be the answer.
        let alone = found.len() == 1;
        for line in found {
            match line {
                Line::Command { name, arguments } => match self.typist.commands.find(&name) {
                    Some(command) => self.command(command, &arguments, alone),
                    None => self.said.push(Said::Text(vec![Bit::Text(format!("/{name} {arguments}").trim_end().to_owned())])),
                },
                Line::Text(text) => {
                    self.mentions(&text);
                    self.said.push(Said::Text(vec![Bit::Text(text)]));
                }
            }
        }
    }

    /// `@name words`: the agent is run with the words, and no model is asked first.
    fn run(&mut self, agent: &str, words: &str) {
        let description: String = words.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(DESCRIPTION_CHARS_MAX).collect();
        let part = subtask(agent, &description, None);
        let names = self.names(words, false);
        self.said.push(Said::Subtask { part: part.into(), prompt: vec![Bit::Text(words.to_owned())], names });
    }

    /// What another agent is told. Only files count in it, and leave is what the user gave for them.
    fn handed_on(&mut self, typed: &str, named: &[String]) {
        self.said.push(Said::Text(vec![Bit::Text(typed.to_owned())]));
        for (path, lines) in self.files_in(typed) {
            let by = if named.contains(&path) { Namer::User } else { Namer::Prompt };
            self.attach(&path, lines, by);
        }
    }

    fn names(&self, words: &str, only_own: bool) -> Names {
        let typist = self.typist;
        let (mut own, mut files) = (HashSet::new(), Vec::new());
        for Mention { at, len, what } in mentions(words, &|path| typist.exists(path), &|_| None) {
            own.insert(words[at..at + len].to_owned());
            if let Mentioned::File { path, .. } = what {
                files.push(path);
            }
        }
        files.retain(|path: &String| self.consents && path.len() <= NAMED_BYTES_MAX);
        files.truncate(NAMED_MAX);
        Names { own, files, only_own }
    }

    fn command(&mut self, command: &Command, arguments: &str, alone: bool) {
        let pieces = command.expand(arguments, &self.typist.places);
        let runner = command.agent_name().map(str::to_owned);
        let mode = runner.as_deref().and_then(|name| self.typist.agents.get(name)).map(|agent: &Agent| agent.mode);
        let inline = !command.is_subtask(mode);
        let attach = inline.then_some(Template { trusted: command.trusted, arguments: posse_config::words(arguments) });
        let bits = self.bits(pieces, attach.as_ref());
        // A file in the arguments is one that the user named; another agent looks it up itself.
        for (path, lines) in self.files_in(arguments).into_iter().filter(|_| inline) {
            self.attach(&path, lines, self.speaker());
        }
        let allowed = self.grants(&command.allowed_tools);
        if inline {
            self.agent = command.inline_agent().map(str::to_owned).or(self.agent.take());
            self.model = command.model.clone().or(self.model.take());
            self.allowed.extend(allowed);
            self.said.push(Said::Text(bits));
            return;
        }
        let agent = runner.unwrap_or_else(|| self.typist.speaker.clone());
        let described = command.description.clone().unwrap_or_default();
        let mut part = subtask(&agent, &described, Some(format!("/{}", command.typed())));
        if let Part::Subtask { model, direct, allowed: may, .. } = &mut part {
            (*model, *direct, *may) = (command.model.clone(), command.fork && alone, allowed);
        }
        let names = self.names(arguments, !command.trusted);
        self.said.push(Said::Subtask { part: part.into(), prompt: bits, names });
    }

    /// The template's text. The files of one that is run by another agent are looked up there.
    fn bits(&mut self, pieces: Vec<Piece>, attach: Option<&Template>) -> Vec<Bit> {
        let mut bits = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Text(text) => bits.push(Bit::Text(text)),
                Piece::Shell { line } => {
                    bits.push(Bit::Output(self.calls.len()));
                    let input = json!({"command": line, "description": "Runs a line of a command's template"});
                    self.calls.push(Needed { tool: "bash".into(), input, consented: false });
                }
                Piece::File { path } => {
                    bits.push(Bit::Text(format!("@{path}")));
                    let typist = self.typist;
                    let Some(template) = attach else { continue };
                    match mentioned(&path, &|path| typist.exists(path), &|name| typist.agent(name)) {
                        // Whoever is not trusted may have put a link there.
                        Some(Mentioned::File { path, .. }) if !template.trusted && !typist.is_in_project(&path) => {}
                        Some(Mentioned::File { path, lines }) => {
                            let by = if template.arguments.contains(&path) { Namer::Aside } else { Namer::Command };
                            self.attach(&path, lines, by);
                        }
                        Some(Mentioned::Agent { name }) => self.name(&name),
                        None => {}
                    }
                }
            }
        }
        bits
    }

    /// What the user names in plain words.
    fn mentions(&mut self, text: &str) {
        let typist = self.typist;
        for Mention { what, .. } in mentions(text, &|path| typist.exists(path), &|name| typist.agent(name)) {
            match what {
                Mentioned::File { path, lines } => self.attach(&path, lines, self.speaker()),
                Mentioned::Agent { name } => self.name(&name),
            }
        }
    }

    fn speaker(&self) -> Namer {
        if self.consents { Namer::User } else { Namer::Aside }
    }

    fn files_in(&self, text: &str) -> Vec<(String, Option<(u32, u32)>)> {
        let typist = self.typist;
        let file = |mention: Mention| match mention.what {
            Mentioned::File { path, lines } => Some((path, lines)),
            Mentioned::Agent { .. } => None,
        };
        mentions(text, &|path| typist.exists(path), &|_| None).into_iter().filter_map(file).collect()
    }

    fn attach(&mut self, path: &str, lines: Option<(u32, u32)>, by: Namer) {
        let name = lines.map_or_else(|| path.to_owned(), |(first, last)| format!("{path}, lines {first} to {last}"));
        let full = existing(&self.typist.places, path);
        let shown = full.as_ref().map_or_else(|| path.to_owned(), |full| full.display().to_string());
        let is_folder = full.as_ref().is_some_and(|full| full.is_dir());
        // Whoever names a link has not named what it leads to.
        let consented = by == Namer::User && full.is_some_and(|full| self.typist.is_itself(&full));
        let known = self.later.iter_mut().find_map(|later| match later {
            Later::File { name: known, call, by } if *known == name => Some((*call, by)),
            _ => None,
        });
        if let Some((call, before)) = known {
            // The same file by somebody who has more to say.
            if consented {
                (self.calls[call].consented, *before) = (true, by);
            }
            return;
        }
        let (tool, mut input) = if is_folder { ("list", json!({"path": shown})) } else { ("read", json!({"filePath": shown})) };
        if let Some((first, last)) = lines.filter(|_| !is_folder) {
            input["offset"] = json!(first);
            input["limit"] = json!(last.saturating_sub(first).saturating_add(1));
        }
        self.later.push(Later::File { name, call: self.calls.len(), by });
        self.calls.push(Needed { tool: tool.into(), input, consented });
    }

    /// The user named an agent: that is leave to call it in this turn, if it can be called.
    fn name(&mut self, name: &str) {
        self.later.push(Later::Part(Part::Agent { name: name.to_owned() }));
        if self.typist.switches && self.consents {
            self.agent = Some(name.to_owned());
        }
        if !self.typist.is_callable(name) {
            return;
        }
        if self.consents {
            self.allowed.push(Grant { key: "task".into(), pattern: name.to_owned(), exact: true });
        }
        let tool = self.typist.dialect.tool();
        let hint = format!("Use the above message and context to generate a prompt and call the {tool} tool with subagent: {name}");
        self.later.push(Later::Part(Part::reminder(hint)));
    }

    fn grants(&self, allowed_tools: &[String]) -> Vec<Grant> {
        let Places { home, project, .. } = &self.typist.places;
        let rules = allowed_tools.iter().filter_map(|written| posse_config::parse_rule_list(written, Verdict::Allow, home, project).ok());
        rules.flatten().map(|rule| Grant { key: rule.key, pattern: rule.pattern, exact: false }).collect()
    }

    fn finish(self) -> Expansion {
        let Self { calls, said, later, agent, model, allowed, .. } = self;
        let assemble = move |results: &[Outcome]| {
            let mut parts: Vec<Part> = said.into_iter().map(|said| said.part(results)).collect();
            parts.extend(later.into_iter().flat_map(|later| later.parts(results)));
            parts
        };
        Expansion { calls, agent, model, allowed, assemble: Box::new(assemble) }
    }
}

fn subtask(agent: &str, description: &str, command: Option<String>) -> Part {
    Part::Subtask {
        agent: agent.to_owned(),
        description: description.to_owned(),
        prompt: Text::default(),
        command,
        model: None,
        direct: false,
        allowed: Vec::new(),
        named: Vec::new(),
    }
}

impl Said {
    fn part(self, results: &[Outcome]) -> Part {
        match self {
            Self::Text(bits) => Part::text(written(bits, results)),
            Self::Subtask { mut part, prompt: bits, names } => {
                if let Part::Subtask { prompt, named, .. } = &mut *part {
                    *prompt = names.prompt(bits, results).into();
                    *named = names.files;
                }
                *part
            }
        }
    }
}

impl Names {
    /// The prompt. What a command line printed names nothing, nor do the words of somebody who is not trusted.
    fn prompt(&self, bits: Vec<Bit>, results: &[Outcome]) -> String {
        let quiet = |bit: Bit| match bit {
            Bit::Output(call) => Bit::Text(unnamed(&output(results.get(call)), &HashSet::new())),
            text => text,
        };
        let prompt = written(bits.into_iter().map(quiet).collect(), results);
        if self.only_own { unnamed(&prompt, &self.own) } else { prompt }
    }
}

/// A text in which nothing is named but these: in backquotes an `@` is a letter, for whoever reads the text later.
fn unnamed(text: &str, but: &HashSet<String>) -> String {
    let mut text = text.to_owned();
    loop {
        let mut found: Vec<(usize, usize)> =
            mentions(&text, &|_| true, &|_| None).iter().map(|found| (found.at, found.at + found.len)).collect();
        found.retain(|(at, end)| !but.contains(&text[*at..*end]));
        if found.is_empty() {
            return text;
        }
        for (at, end) in found.into_iter().rev() {
            text.insert(end, '`');
            text.insert(at, '`');
        }
    }
}

fn written(bits: Vec<Bit>, results: &[Outcome]) -> String {
    let text: String = bits
        .into_iter()
        .map(|bit| match bit {
            Bit::Text(text) => text,
            Bit::Output(call) => output(results.get(call)),
        })
        .collect();
    text.trim().to_owned()
}

/// What a command line printed, or why there is nothing.
fn output(result: Option<&Outcome>) -> String {
    let words = |text: &Text| text.inline().unwrap_or_default().trim_end().to_owned();
    match result {
        Some(Outcome::Done { output, .. }) => words(output),
        Some(Outcome::Failed { error }) => format!("(this failed: {})", words(error)),
        Some(Outcome::Denied { why }) => format!("(not run: {})", words(why)),
        Some(Outcome::Cancelled { partial } | Outcome::Lost { partial }) => format!("{}(cut off here)", words(partial)),
        None => String::new(),
    }
}

impl Later {
    fn parts(self, results: &[Outcome]) -> Vec<Part> {
        match self {
            Self::Part(part) => vec![part],
            Self::File { name, call, by } => {
                let (attached, named) = match by {
                    Namer::User | Namer::Aside => (format!("The user attached {name}"), "The user"),
                    Namer::Command => (format!("Attached by the command: {name}"), "The command"),
                    Namer::Prompt => (format!("Attached because the prompt names it: {name}"), "The prompt"),
                };
                match results.get(call) {
                    Some(Outcome::Done { output: text, attachments, .. }) => {
                        let said = format!("{attached}:\n{}", text.inline().unwrap_or_default());
                        std::iter::once(Part::reminder(said)).chain(attachments.iter().cloned()).collect()
                    }
                    other => vec![Part::reminder(format!("{named} named {name}, which could not be attached: {}", output(other)))],
                }
            }
        }
    }
}
