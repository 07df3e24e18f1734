//! Which calls come next: every question is answered from a fixed ladder of calls, and a step makes those still missing.
//!
//! A function here returns the answer, or as its `Err` the calls that must be made first. It never asks for a call twice,
//! for a tool that is not offered, or for more than a few steps, so a denied or broken tool ends in words and not in a loop.

use posse_session::ToolChoice;
use serde_json::{Map, Value, json};

use super::{
    answer::{self, Trouble},
    define::{self, Sort, Surety, sort_of},
    found::{self, Hit},
    intent::{Find, Intent, Scope, Want},
    lead::{self, Team},
    pattern, scout,
    terms::{Term, qualifier},
    turn::{Made, Told, Turn},
};

/// The ladder has five rungs at most; one more for a file that is not where it was said to be.
const STEPS_MAX: usize = 6;

/// One screen of a file.
const SHOWN_LINES_MAX: usize = 60;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) tool: &'static str,
    pub(super) input: Value,
}

/// What the model has in front of it: the turn so far, the tools, and whether it may still call them.
pub(super) struct Desk<'a> {
    turn: &'a Turn,
    offered: &'a [&'a str],
    may_call: bool,
    calls_max: usize,
    team: Option<Team>,
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Heard {
    Said(String),
    Failed {
        tool: &'static str,
        words: String,
    },
    NotOffered {
        tool: &'static str,
    },
    /// No step was left for it.
    NotMade,
}

impl<'a> Desk<'a> {
    pub(super) fn new(turn: &'a Turn, offered: &'a [&'a str], choice: ToolChoice) -> Self {
        Self { turn, offered, may_call: choice == ToolChoice::Auto && turn.steps < STEPS_MAX, calls_max: usize::MAX, team: None }
    }

    /// With someone to send.
    pub(super) fn with_team(self, team: Option<Team>) -> Self {
        Self { team, ..self }
    }

    /// The same desk with a bound on the calls of the whole turn, and nobody to send.
    pub(super) fn with_calls_max(&self, calls_max: usize) -> Desk<'a> {
        Desk { turn: self.turn, offered: self.offered, may_call: self.may_call, calls_max, team: None }
    }

    pub(super) fn team(&self) -> Option<&Team> {
        self.team.as_ref()
    }

    pub(super) fn may_call(&self) -> bool {
        self.may_call
    }

    pub(super) fn has_made(&self, call: &Call) -> bool {
        self.told(call).is_some()
    }

    pub(super) fn made_before(&self) -> &[Made] {
        &self.turn.before
    }

    pub(super) fn offers(&self, tool: &str) -> bool {
        self.offered.contains(&tool)
    }

    /// What is known about these calls, in their order; or those that can and should be made first.
    pub(super) fn gather(&self, calls: &[Call]) -> Result<Vec<Heard>, Vec<Call>> {
        let mut open: Vec<Call> = Vec::new();
        for call in calls {
            if self.may_call && self.offers(call.tool) && self.told(call).is_none() && !open.contains(call) {
                open.push(call.clone());
            }
        }
        open.truncate(self.calls_max.saturating_sub(self.turn.made.len()));
        if open.is_empty() { Ok(calls.iter().map(|call| self.heard(call)).collect()) } else { Err(open) }
    }

    fn heard(&self, call: &Call) -> Heard {
        match self.told(call) {
            Some(Some(Told { text, error: false })) => Heard::Said(text.clone()),
            Some(Some(Told { text, error: true })) => Heard::Failed { tool: call.tool, words: text.clone() },
            Some(None) => Heard::Failed { tool: call.tool, words: "no result".into() },
            None if !self.offers(call.tool) => Heard::NotOffered { tool: call.tool },
            None => Heard::NotMade,
        }
    }

    /// `Some` when the call was made, with its result when there is one.
    fn told(&self, call: &Call) -> Option<Option<&Told>> {
        self.turn.made.iter().find(|made| made.tool == call.tool && made.input == call.input).map(|made| made.told.as_ref())
    }
}

/// The answer, or the calls that must be made first: by a team where there is one and the question is worth it.
pub(super) fn answer(intent: &Intent, desk: &Desk) -> Result<String, Vec<Call>> {
    lead::answer(intent, desk).unwrap_or_else(|| alone(intent, desk))
}

/// The same without a team.
pub(super) fn alone(intent: &Intent, desk: &Desk) -> Result<String, Vec<Call>> {
    match intent {
        Intent::Greet => Ok(answer::greeting()),
        Intent::NeedsModel { work } => Ok(answer::needs_model(work)),
        Intent::Find(find) => search(find, desk),
        Intent::Files { glob: pattern, scope, count } => {
            let mut trouble = Trouble::default();
            let heard = desk.gather(&[glob(pattern, scope)])?;
            let listed = trouble.said(heard.first()).map(found::paths);
            Ok(answer::files(pattern, listed.as_ref(), *count, &trouble))
        }
        Intent::Things { kind, scope, count } => {
            let mut trouble = Trouble::default();
            let heard = desk.gather(&[grep(&pattern::of_kind(*kind), scope)])?;
            let hits = trouble.said(heard.first()).map(found::hits);
            Ok(answer::things(*kind, hits.as_ref(), *count, &trouble))
        }
        Intent::Tests { scope, count } => {
            let mut trouble = Trouble::default();
            let heard = desk.gather(&[glob(pattern::TEST_FILES, scope), grep(pattern::TEST_MARKERS, scope)])?;
            let paths = trouble.said(heard.first()).map(found::paths);
            let hits = trouble.said(heard.get(1)).map(found::hits);
            Ok(answer::tests(paths.as_ref(), hits.as_ref(), *count, &trouble))
        }
        Intent::Layout { scope } => layout(scope, desk),
        Intent::Show { path } => show(path, desk),
        Intent::Tour => tour(desk),
        Intent::Survey(survey) => scout::answer(survey, desk),
        Intent::Send { agent, prompt } => lead::send(agent, prompt, desk),
        Intent::Relay => Ok(lead::relay(desk.made_before())),
    }
}

fn layout(scope: &Scope, desk: &Desk) -> Result<String, Vec<Call>> {
    let mut trouble = Trouble::default();
    let call = if desk.offers("list") { list(scope) } else { glob("./*", scope) };
    let heard = desk.gather(&[call])?;
    Ok(answer::layout(trouble.said(heard.first()), &trouble))
}

/// The start of a file; when it is not there under this name, the first file whose path ends so.
fn show(path: &str, desk: &Desk) -> Result<String, Vec<Call>> {
    let mut trouble = Trouble::default();
    let heard = desk.gather(&[read(path)])?;
    if let Some(text) = trouble.said(heard.first()) {
        return Ok(answer::shown(path, text));
    }
    let heard = desk.gather(&[glob(&format!("**/{path}"), &Scope::default())])?;
    let Some(paths) = trouble.said(heard.first()).map(found::paths) else { return Ok(answer::unreadable(path, &trouble)) };
    let Some(first) = paths.paths.first() else { return Ok(answer::unreadable(path, &trouble)) };
    let heard = desk.gather(&[read(first)])?;
    Ok(match trouble.said(heard.first()) {
        Some(text) => answer::shown(first, text),
        None => answer::unreadable(path, &trouble),
    })
}

fn tour(desk: &Desk) -> Result<String, Vec<Call>> {
    let everywhere = Scope::default();
    let only = |include: &str| Scope { path: None, include: Some(include.into()) };
    let calls = [
        if desk.offers("list") { list(&everywhere) } else { glob("./*", &everywhere) },
        grep(r"^(?:#{1,2}\s|[A-Z*`].{30,})", &only("README*")),
        glob(pattern::MANIFESTS, &everywhere),
        grep(pattern::MANIFEST_NAMES, &only("{Cargo.toml,package.json,pyproject.toml,go.mod}")),
        grep(pattern::ENTRY_POINTS, &everywhere),
        glob(pattern::TEST_FILES, &everywhere),
    ];
    let heard = desk.gather(&calls)?;
    let mut trouble = Trouble::default();
    let sights = answer::Sights {
        layout: trouble.said(heard.first()).unwrap_or_default().to_string(),
        readme: trouble.said(heard.get(1)).map(found::hits).unwrap_or_default(),
        manifests: trouble.said(heard.get(2)).map(found::paths).unwrap_or_default(),
        names: trouble.said(heard.get(3)).map(found::hits).unwrap_or_default(),
        entries: trouble.said(heard.get(4)).map(found::hits).unwrap_or_default(),
        tests: trouble.said(heard.get(5)).map(found::paths).unwrap_or_default(),
    };
    Ok(answer::tour(&sights, &trouble))
}

/// What was found for one term. `Near` means: not as written.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    pub(super) definitions: Vec<Quote>,
    pub(super) near_definitions: Vec<Quote>,
    pub(super) uses: Vec<Quote>,
    pub(super) near_uses: Vec<Quote>,
    /// Files whose name is, or is like, the term.
    pub(super) names: Vec<String>,
    /// A limit of a tool hid some lines, or some definitions.
    pub(super) cut: bool,
    pub(super) definitions_cut: bool,
    /// How many lines there are as written, where a tool that hid some told it.
    pub(super) told: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Quote {
    pub(super) hit: Hit,
    pub(super) sort: Sort,
    pub(super) surety: Option<Surety>,
    pub(super) keyword: String,
    /// It defines the term's very name, whatever the convention.
    pub(super) whole: bool,
    /// How many of the term's words are in it; only near quotes differ in this.
    pub(super) words: usize,
}

/// What a call of the ladder is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aim {
    Definitions {
        near: bool,
    },
    Lines {
        near: bool,
    },
    FileNames,
    /// Where the type or module is that a qualified name belongs to.
    Owner,
}

const RUNGS: usize = 4;

/// What the ladder found, per term, and whether any search was made at all.
pub(super) struct Climbed {
    pub(super) each: Vec<Evidence>,
    searched: bool,
}

fn search(find: &Find, desk: &Desk) -> Result<String, Vec<Call>> {
    let mut trouble = Trouble::default();
    let Climbed { each: evidence, searched } = evidence(find, desk, &mut trouble)?;
    let unfound = evidence.iter().any(Evidence::is_empty);
    let files = if unfound && searched {
        let pattern = find.scope.include.as_ref().map_or_else(|| "**/*".to_string(), |include| format!("**/{include}"));
        // Only the number is missing, so a failure here is no trouble to speak of.
        let heard = desk.gather(&[glob(&pattern, &Scope { include: None, ..find.scope.clone() })])?;
        Trouble::default().said(heard.first()).map(found::paths)
    } else {
        None
    };
    Ok(answer::found(find, &evidence, files.as_ref(), searched, &trouble))
}

/// Climbs the ladder for every term until there is enough.
pub(super) fn evidence(find: &Find, desk: &Desk, trouble: &mut Trouble) -> Result<Climbed, Vec<Call>> {
    let mut evidence: Vec<Evidence> = find.terms.iter().map(|_| Evidence::default()).collect();
    let mut searched = false;
    for rung in 0..RUNGS {
        let mut wanted: Vec<(usize, Aim, Call)> = Vec::new();
        for (number, term) in find.terms.iter().enumerate().filter(|(number, term)| !is_enough(find, term, &evidence[*number])) {
            wanted.extend(calls_of(rung, term, find).into_iter().map(|(aim, call)| (number, aim, call)));
        }
        let calls: Vec<Call> = wanted.iter().map(|(_, _, call)| call.clone()).collect();
        let heard = desk.gather(&calls)?;
        let mut owners: Vec<(usize, Vec<Hit>)> = Vec::new();
        let mut said_any = calls.is_empty();
        for ((number, aim, call), heard) in wanted.iter().zip(&heard) {
            let Some(text) = trouble.said(Some(heard)) else { continue };
            said_any = true;
            searched |= call.tool == "grep";
            match aim {
                Aim::Definitions { near } | Aim::Lines { near } => {
                    let cut = take_lines(&mut evidence[*number], &find.terms[*number], text, *near);
                    let hidden =
                        if matches!(aim, Aim::Lines { .. }) { &mut evidence[*number].cut } else { &mut evidence[*number].definitions_cut };
                    *hidden |= cut;
                }
                Aim::FileNames => take_names(&mut evidence[*number], text),
                Aim::Owner => owners.push((*number, found::hits(text).hits)),
            }
        }
        for (number, hits) in owners {
            keep_owned(&mut evidence[number].definitions, &hits);
        }
        if !said_any {
            break;
        }
    }
    for each in &mut evidence {
        each.prefer_kind(find);
        each.sort();
    }
    Ok(Climbed { each: evidence, searched })
}

fn is_enough(find: &Find, term: &Term, evidence: &Evidence) -> bool {
    let is_sure = |quote: &Quote| quote.surety.is_some_and(|surety| surety < Surety::Guess);
    let defined = || evidence.definitions.iter().chain(&evidence.near_definitions).any(|quote| is_sure(quote) && fits_kind(quote, find));
    match find.want {
        Want::Definitions => defined(),
        // A plain word is in many lines; what is named after it says more.
        Want::Anything | Want::Explained if is_plain(term) => defined(),
        _ => !evidence.is_empty(),
    }
}

fn is_plain(term: &Term) -> bool {
    matches!(term, Term::Name(name) if name.chars().all(char::is_alphanumeric) && !name.chars().skip(1).any(char::is_uppercase))
}

fn fits_kind(quote: &Quote, find: &Find) -> bool {
    find.kind.is_none_or(|kind| pattern::keywords_of(kind).contains(&quote.keyword.as_str()))
}

/// The calls of one rung: as written; in any convention and case; all its words in a line; any of its words.
fn calls_of(rung: usize, term: &Term, find: &Find) -> Vec<(Aim, Call)> {
    const EXACT: Aim = Aim::Lines { near: false };
    const NEAR: Aim = Aim::Lines { near: true };
    const DEFINED: Aim = Aim::Definitions { near: false };
    const DEFINED_NEAR: Aim = Aim::Definitions { near: true };
    let lines = |aim: Aim, pattern: &str| (aim, grep(pattern, &find.scope));
    let names = |pattern: &str| (Aim::FileNames, glob(pattern, &find.scope));
    let asks_for_uses = matches!(find.want, Want::Uses | Want::Files);
    match (rung, term) {
        (0, Term::Name(name)) => {
            let mut calls = vec![lines(DEFINED, &pattern::definition(name)), lines(EXACT, &pattern::exact(term))];
            calls.extend(qualifier(name).map(|owner| lines(Aim::Owner, &pattern::owner(owner))));
            calls
        }
        (0, Term::Phrase(_)) => vec![lines(DEFINED, &pattern::definition_like(term)), lines(EXACT, &pattern::together(term))],
        (0, Term::File(_)) if asks_for_uses => vec![lines(EXACT, &pattern::exact(term))],
        (0, Term::File(path)) => vec![names(&format!("**/{}", path.trim_start_matches('/')))],
        (0, Term::Literal(_)) => vec![lines(EXACT, &pattern::exact(term))],
        (1, Term::Name(_)) if !term.parts().is_empty() => {
            let mut calls = vec![lines(DEFINED_NEAR, &pattern::definition_like(term)), lines(NEAR, &pattern::together(term))];
            calls.extend(pattern::file_names(term).map(|glob| names(&glob)));
            calls
        }
        (1, Term::Phrase(_)) => pattern::file_names(term).map(|glob| names(&glob)).into_iter().collect(),
        (1, Term::File(_)) => {
            let mut calls = vec![lines(EXACT, &pattern::exact(term))];
            calls.extend(pattern::file_names(term).filter(|_| !asks_for_uses).map(|glob| names(&glob)));
            calls
        }
        (1, Term::Literal(_)) if !term.parts().is_empty() => vec![lines(NEAR, &pattern::together(term))],
        (2, Term::Name(_) | Term::Phrase(_)) => {
            let mut calls: Vec<_> = pattern::all_parts(term).map(|pattern| lines(NEAR, &pattern)).into_iter().collect();
            calls.extend(pattern::definition_of_any_part(term).filter(|_| is_plain(term)).map(|pattern| lines(DEFINED_NEAR, &pattern)));
            calls
        }
        (3, Term::Phrase(_)) => {
            let mut calls: Vec<_> =
                pattern::definition_of_any_part(term).map(|pattern| lines(DEFINED_NEAR, &pattern)).into_iter().collect();
            calls.extend(pattern::any_part(term).map(|pattern| lines(NEAR, &pattern)));
            calls
        }
        _ => Vec::new(),
    }
}

/// Sorts what a search found into definitions and uses; says whether it was cut.
fn take_lines(evidence: &mut Evidence, term: &Term, text: &str, near: bool) -> bool {
    let found = found::hits(text);
    if !near {
        evidence.told = evidence.told.max(found.told);
    }
    let stems = pattern::stems(term);
    for hit in found.hits {
        let known = [&evidence.definitions, &evidence.near_definitions, &evidence.uses, &evidence.near_uses];
        if known.iter().any(|quotes| quotes.iter().any(|quote| quote.hit.path == hit.path && quote.hit.line == hit.line)) {
            continue;
        }
        let like = near || matches!(term, Term::Phrase(_));
        let defined = define::defines(&hit.path, &hit.text, term, like)
            .or_else(|| near.then(|| define::defines_any(&hit.path, &hit.text, term, &stems)).flatten());
        let lower = format!("{} {}", hit.path, hit.text).to_lowercase();
        let quote = Quote {
            sort: sort_of(&hit.path),
            surety: defined.as_ref().map(|defined| defined.surety),
            whole: defined.as_ref().is_some_and(|defined| define::folded(&defined.name) == define::folded(&term.parts().concat())),
            keyword: defined.map(|defined| defined.keyword).unwrap_or_default(),
            words: stems.iter().filter(|stem| lower.contains(stem.as_str())).count(),
            hit,
        };
        let place = match (quote.surety.is_some(), near) {
            (true, false) => &mut evidence.definitions,
            (true, true) => &mut evidence.near_definitions,
            (false, false) => &mut evidence.uses,
            (false, true) => &mut evidence.near_uses,
        };
        place.push(quote);
    }
    found.cut
}

fn take_names(evidence: &mut Evidence, text: &str) {
    let found = found::paths(text);
    evidence.cut |= found.cut;
    for path in found.paths {
        if !evidence.names.contains(&path) {
            evidence.names.push(path);
        }
    }
}

/// Of `Session::apply`, an `apply` in a file that has `Session` or its `impl` is meant, if there is one.
fn keep_owned(definitions: &mut Vec<Quote>, owners: &[Hit]) {
    let is_owned = |quote: &Quote| owners.iter().any(|owner| owner.path == quote.hit.path && owner.line <= quote.hit.line);
    if definitions.iter().any(is_owned) {
        definitions.retain(is_owned);
    }
}

impl Evidence {
    pub(super) fn is_empty(&self) -> bool {
        [&self.definitions, &self.near_definitions, &self.uses, &self.near_uses].iter().all(|quotes| quotes.is_empty())
            && self.names.is_empty()
    }

    /// When a struct is asked for and one is there, a function of that name is only a use.
    fn prefer_kind(&mut self, find: &Find) {
        if !self.definitions.iter().chain(&self.near_definitions).any(|quote| fits_kind(quote, find)) {
            return;
        }
        let others = |quotes: &mut Vec<Quote>| quotes.extract_if(.., |quote| !fits_kind(quote, find)).collect::<Vec<_>>();
        self.uses.extend(others(&mut self.definitions));
        self.near_uses.extend(others(&mut self.near_definitions));
    }

    /// The surer definition first, the line with more of the words first; then source, tests, docs; then by place.
    fn sort(&mut self) {
        let order = |quote: &Quote| {
            let words = usize::MAX - quote.words;
            (quote.sort == Sort::Data, words, !quote.whole, quote.surety, quote.sort, quote.hit.path.clone(), quote.hit.line)
        };
        for quotes in [&mut self.near_definitions, &mut self.near_uses] {
            quotes.sort_by_key(order);
        }
        self.definitions.sort_by_key(|quote| (quote.surety, quote.sort, quote.hit.path.clone(), quote.hit.line));
        self.uses.sort_by_key(|quote| (quote.sort, quote.hit.path.clone(), quote.hit.line));
        self.names.sort_by_key(|path| (sort_of(path), path.matches('/').count(), path.clone()));
    }
}

pub(super) fn grep(pattern: &str, scope: &Scope) -> Call {
    let mut input = Map::new();
    input.insert("pattern".into(), pattern.into());
    if let Some(path) = &scope.path {
        input.insert("path".into(), path.as_str().into());
    }
    if let Some(include) = &scope.include {
        input.insert("include".into(), include.as_str().into());
    }
    Call { tool: "grep", input: Value::Object(input) }
}

pub(super) fn glob(pattern: &str, scope: &Scope) -> Call {
    let mut input = Map::new();
    input.insert("pattern".into(), pattern.into());
    if let Some(path) = &scope.path {
        input.insert("path".into(), path.as_str().into());
    }
    Call { tool: "glob", input: Value::Object(input) }
}

pub(super) fn list(scope: &Scope) -> Call {
    Call { tool: "list", input: scope.path.as_ref().map_or_else(|| json!({}), |path| json!({ "path": path })) }
}

pub(super) fn read(path: &str) -> Call {
    Call { tool: "read", input: json!({ "filePath": path, "limit": SHOWN_LINES_MAX }) }
}
