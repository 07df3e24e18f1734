//! What typed words come to: commands, skills, agents that are run or named, files that are attached.
//!
//! Only reads what the user configured and whether a file is there. What a file or a command line in the words says is
//! found out by the kernel, as a call under the user's rules.

use std::{path::Path, sync::Arc};

use posse_config::{
    Agents, Command, Commands, Line, Mention, Mentioned, Piece, Places, existing, leading_agent, lines, mentioned, mentions,
};
use posse_session::{Agent, Expander, Expansion, Grant, Needed, Outcome, Part, Text, Verdict};
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

impl Typist {
    /// Whether there is anything to expand.
    pub(crate) fn concerns(text: &str) -> bool {
        text.contains('@') || lines(text).iter().any(|line| matches!(line, Line::Command { .. }))
    }

    /// The first command that nobody knows, in words.
    pub(crate) fn unknown(&self, text: &str) -> Option<String> {
        lines(text).into_iter().find_map(|line| match line {
            Line::Command { name, .. } if self.commands.find(&name).is_none() => Some(self.commands.unknown(&name)),
            _ => None,
        })
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

    fn agent(&self, name: &str) -> Option<String> {
        self.agents.get(name).map(|agent| agent.name.clone())
    }

    /// A model can call subagents only.
    fn is_callable(&self, name: &str) -> bool {
        self.agents.get(name).is_some_and(|agent| agent.mode.is_subagent())
    }
}

impl Expander for Typist {
    fn expand(&self, typed: &str, by_user: bool) -> Expansion {
        let mut draft =
            Draft { typist: self, calls: Vec::new(), said: Vec::new(), later: Vec::new(), agent: None, model: None, allowed: Vec::new() };
        let exists = |path: &str| self.exists(path);
        match leading_agent(typed, &exists, &|name| self.agent(name)).filter(|_| by_user) {
            Some((agent, rest)) => draft.run(&agent, &rest),
            None if by_user => draft.lines(typed),
            None => {
                draft.said.push(Said::Text(vec![Bit::Text(typed.to_owned())]));
                draft.files(typed, false);
            }
        }
        draft.finish()
    }
}

/// A message in the making.
struct Draft<'a> {
    typist: &'a Typist,
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
    Subtask { part: Part, prompt: Vec<Bit> },
}

enum Later {
    Part(Part),
    File { name: String, call: usize },
}

/// A stretch of text, or the place of a result in it.
enum Bit {
    Text(String),
    Output(usize),
}

impl Draft<'_> {
    fn lines(&mut self, typed: &str) {
        let found = lines(typed);
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
        self.said.push(Said::Subtask { part, prompt: vec![Bit::Text(words.to_owned())] });
    }

    fn command(&mut self, command: &Command, arguments: &str, alone: bool) {
        let pieces = command.expand(arguments, &self.typist.places);
        let runner = command.agent_name().map(str::to_owned);
        let mode = runner.as_deref().and_then(|name| self.typist.agents.get(name)).map(|agent: &Agent| agent.mode);
        let inline = !command.is_subtask(mode);
        let bits = self.bits(pieces, inline);
        // A file in the arguments is one that the user named; another agent looks it up itself.
        if inline {
            self.files(arguments, true);
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
        let mut part = subtask(&agent, &described, Some(format!("/{}", command.name)));
        if let Part::Subtask { model, direct, allowed: may, .. } = &mut part {
            (*model, *direct, *may) = (command.model.clone(), command.fork && alone, allowed);
        }
        self.said.push(Said::Subtask { part, prompt: bits });
    }

    /// The template's text. The files of one that is run by another agent are looked up there.
    fn bits(&mut self, pieces: Vec<Piece>, attach: bool) -> Vec<Bit> {
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
                    let what = mentioned(&path, &|path| typist.exists(path), &|name| typist.agent(name)).filter(|_| attach);
                    match what {
                        Some(Mentioned::File { path, lines }) => self.attach(&path, lines, false),
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
                Mentioned::File { path, lines } => self.attach(&path, lines, true),
                Mentioned::Agent { name } => self.name(&name),
            }
        }
    }

    fn files(&mut self, text: &str, by_user: bool) {
        let typist = self.typist;
        for Mention { what, .. } in mentions(text, &|path| typist.exists(path), &|_| None) {
            if let Mentioned::File { path, lines } = what {
                self.attach(&path, lines, by_user);
            }
        }
    }

    fn attach(&mut self, path: &str, lines: Option<(u32, u32)>, by_user: bool) {
        let name = lines.map_or_else(|| path.to_owned(), |(first, last)| format!("{path}, lines {first} to {last}"));
        let known = self.later.iter().any(|later| matches!(later, Later::File { name: known, .. } if *known == name));
        if known {
            return;
        }
        let full = existing(&self.typist.places, path);
        let shown = full.as_ref().map_or_else(|| path.to_owned(), |full| full.display().to_string());
        let is_folder = full.as_ref().is_some_and(|full| full.is_dir());
        // Whoever names a link has not named what it leads to.
        let consented = by_user && full.is_some_and(|full| self.typist.is_itself(&full));
        let (tool, mut input) = if is_folder { ("list", json!({"path": shown})) } else { ("read", json!({"filePath": shown})) };
        if let Some((first, last)) = lines.filter(|_| !is_folder) {
            input["offset"] = json!(first);
            input["limit"] = json!(last.saturating_sub(first).saturating_add(1));
        }
        self.later.push(Later::File { name, call: self.calls.len() });
        self.calls.push(Needed { tool: tool.into(), input, consented });
    }

    /// The user named an agent: that is leave to call it in this turn, if it can be called.
    fn name(&mut self, name: &str) {
        self.later.push(Later::Part(Part::Agent { name: name.to_owned() }));
        if self.typist.switches {
            self.agent = Some(name.to_owned());
        }
        if !self.typist.is_callable(name) {
            return;
        }
        self.allowed.push(Grant { key: "task".into(), pattern: name.to_owned(), exact: true });
        let tool = self.typist.dialect.tool();
        let hint = format!("Use the above message and context to generate a prompt and call the {tool} tool with subagent: {name}");
        self.later.push(Later::Part(Part::reminder(hint)));
    }

    fn grants(&self, allowed_tools: &[String]) -> Vec<Grant> {
        let rules = allowed_tools
            .iter()
            .filter_map(|written| posse_config::parse_rule_list(written, Verdict::Allow, &self.typist.places.home).ok());
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
    }
}

impl Said {
    fn part(self, results: &[Outcome]) -> Part {
        match self {
            Self::Text(bits) => Part::text(written(bits, results)),
            Self::Subtask { mut part, prompt: bits } => {
                if let Part::Subtask { prompt, .. } = &mut part {
                    *prompt = written(bits, results).into();
                }
                part
            }
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
            Self::File { name, call } => match results.get(call) {
                Some(Outcome::Done { output: text, attachments, .. }) => {
                    let said = format!("The user attached {name}:\n{}", text.inline().unwrap_or_default());
                    std::iter::once(Part::reminder(said)).chain(attachments.iter().cloned()).collect()
                }
                other => vec![Part::reminder(format!("The user named {name}, which could not be attached: {}", output(other)))],
            },
        }
    }
}
