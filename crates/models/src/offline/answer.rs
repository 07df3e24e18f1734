//! Words for people: every line is a quote from a result, a count of results, or says what could not be done.
//!
//! Makes no call and knows no pattern. Lines look like `path:line: quoted line`.

use super::{
    define::{Surety, sort_of},
    found::{Hit, Hits, Paths, numbered},
    intent::{Find, Kind, Want},
    plan::{Evidence, Heard, Quote},
    turn::cut,
};

/// Enough to choose from; more is a search of one's own.
const DEFINITIONS_MAX: usize = 5;
const USES_MAX: usize = 10;
const LISTED_MAX: usize = 50;
/// A quoted line is cut here: longer ones are generated or data.
const QUOTE_BYTES_MAX: usize = 200;

pub(super) fn greeting() -> String {
    "Hello, I am offline/explorer, rules and search rather than an LLM: ask me where something is defined or used, which files mention it, or for a tour of this \
     repository."
        .into()
}

/// For exit 2: what is missing and what to do.
pub(super) fn needs_model(work: &str) -> String {
    format!(
        "needs a model: offline/explorer is rules and search and cannot {work}; set ANTHROPIC_API_KEY, or OPENAI_API_KEY, or configure a provider in posse.json; \
         `posse doctor` shows how"
    )
}

/// What stood in the way, each thing once.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    lines: Vec<String>,
}

impl Trouble {
    /// The text of a call that worked; anything else is noted.
    pub(super) fn said<'a>(&mut self, heard: Option<&'a Heard>) -> Option<&'a str> {
        let line = match heard? {
            Heard::Said(text) => return Some(text),
            Heard::Failed { tool, words } => {
                format!("`{tool}` failed: {}", cut(words.trim().lines().next().unwrap_or("no words"), QUOTE_BYTES_MAX))
            }
            Heard::NotOffered { tool } => format!("The tool `{tool}` is not offered here, so I could not use it."),
            Heard::NotMade => "No step was left to search further.".to_string(),
        };
        if !self.lines.contains(&line) {
            self.lines.push(line);
        }
        None
    }
}

/// An answer under way: paragraphs of lines.
#[derive(Default)]
struct Page {
    lines: Vec<String>,
}

impl Page {
    fn say(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    fn quote(&mut self, hits: &[&Hit], at_most: usize) {
        self.lines.extend(hits.iter().take(at_most).map(|hit| quoted(hit)));
        self.more(hits.len(), at_most);
    }

    fn list(&mut self, paths: &[String], at_most: usize) {
        self.list_of(paths, at_most, paths.len());
    }

    /// A list of which the tool did not show all.
    fn list_of(&mut self, paths: &[String], at_most: usize, all: usize) {
        self.lines.extend(paths.iter().take(at_most).cloned());
        self.more(all, at_most.min(paths.len()));
    }

    fn more(&mut self, all: usize, at_most: usize) {
        if at_most < all {
            self.say(format!("and {} more", all - at_most));
        }
    }

    fn done(mut self, trouble: &Trouble) -> String {
        self.lines.extend(trouble.lines.iter().cloned());
        self.lines.join("\n")
    }
}

fn quoted(hit: &Hit) -> String {
    let text = hit.text.trim();
    let short = cut(text, QUOTE_BYTES_MAX);
    format!("{}:{}: {short}{}", hit.path, hit.line, if short.len() < text.len() { "…" } else { "" })
}

fn number(count: usize, one: &str, several: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {several}") }
}

fn at_least(cut: bool, count: usize, one: &str, several: &str) -> String {
    format!("{}{}", if cut { "at least " } else { "" }, number(count, one, several))
}

const CUT: &str = "The search stopped at its limit: there may be more.";

/// Everything found for every term, or what was searched in vain.
pub(super) fn found(find: &Find, evidence: &[Evidence], files: Option<&Paths>, searched: bool, trouble: &Trouble) -> String {
    let mut page = Page::default();
    if find.want == Want::Explained && evidence.iter().any(|each| !each.is_empty()) {
        page.say("I am rules and search, not an LLM: these lines are what the files say.");
    }
    for (term, each) in find.terms.iter().zip(evidence) {
        let shown = term.shown();
        if each.is_empty() {
            page.say(not_found(&shown, files, searched));
        } else if find.count || find.want == Want::Files {
            by_file(&mut page, &shown, each, find);
        } else {
            one_term(&mut page, &shown, each, find.want);
        }
    }
    page.done(trouble)
}

fn not_found(shown: &str, files: Option<&Paths>, searched: bool) -> String {
    match files {
        _ if !searched => format!("`{shown}`: I could not search for it."),
        Some(Paths { told: Some(all), .. }) => format!("`{shown}` not found; searched {all} files"),
        Some(Paths { paths, cut: false, .. }) => format!("`{shown}` not found; searched {}", number(paths.len(), "file", "files")),
        Some(Paths { paths, .. }) => format!("`{shown}` not found; searched more than {}", number(paths.len(), "file", "files")),
        None => format!("`{shown}` not found; searched with `grep`, as written, in other spellings and by its parts"),
    }
}

fn one_term(page: &mut Page, shown: &str, each: &Evidence, want: Want) {
    // A guess is worth showing only when nothing surer is there.
    let surest = |quotes: &[Quote]| quotes.iter().filter_map(|quote| quote.surety).min();
    let sure = |quotes: &[Quote]| -> Vec<Hit> {
        let guesses = surest(quotes) == Some(Surety::Guess);
        quotes.iter().filter(|quote| guesses || quote.surety < Some(Surety::Guess)).map(|quote| quote.hit.clone()).collect()
    };
    let definitions = sure(&each.definitions);
    let near = sure(&each.near_definitions);
    let has_sure = surest(&each.definitions).is_some_and(|surety| surety < Surety::Guess);
    // What is not shown as a definition is a use: an `impl`, a local variable.
    let mut uses: Vec<&Hit> = each.definitions.iter().map(|quote| &quote.hit).filter(|hit| !definitions.contains(hit)).collect();
    uses.extend(each.uses.iter().map(|quote| &quote.hit));
    uses.sort_by_key(|hit| (sort_of(&hit.path), hit.path.clone(), hit.line));

    if !definitions.is_empty() {
        page.say(if has_sure { format!("`{shown}` is defined here:") } else { format!("`{shown}` is probably defined here:") });
        page.quote(&definitions.iter().collect::<Vec<_>>(), DEFINITIONS_MAX);
    }
    if !has_sure && !near.is_empty() {
        page.say(format!("Definitions of names like `{shown}`:"));
        page.quote(&near.iter().collect::<Vec<_>>(), DEFINITIONS_MAX);
    }
    let has_any = has_sure || !near.is_empty();
    let wants_uses = want != Want::Definitions || !has_any;
    if wants_uses && !uses.is_empty() {
        page.say(format!("Lines with `{shown}`:"));
        page.quote(&uses, USES_MAX);
    }
    if uses.is_empty() && definitions.is_empty() && wants_uses && !each.near_uses.is_empty() {
        page.say(format!("`{shown}` is nowhere as written; lines like it:"));
        page.quote(&each.near_uses.iter().map(|quote| &quote.hit).collect::<Vec<_>>(), USES_MAX);
    }
    if !each.names.is_empty() && (wants_uses || !has_any) {
        page.say(format!("Files with `{shown}` in their path:"));
        page.list(&each.names, USES_MAX);
    }
    if each.definitions_cut || (wants_uses && each.cut) {
        page.say(CUT);
    }
}

/// One line per file, the first hit of each, and the counts.
fn by_file(page: &mut Page, shown: &str, each: &Evidence, find: &Find) {
    let exact = [&each.definitions, &each.uses];
    let near = [&each.near_definitions, &each.near_uses];
    let is_near = exact.iter().all(|quotes| quotes.is_empty());
    let mut all: Vec<&Hit> = if is_near { near } else { exact }.into_iter().flatten().map(|quote| &quote.hit).collect();
    if all.is_empty() {
        page.say(format!("Files with `{shown}` in their path:"));
        return page.list(&each.names, LISTED_MAX);
    }
    all.sort_by_key(|hit| (sort_of(&hit.path), hit.path.clone(), hit.line));
    let lines = match each.told {
        Some(told) if !is_near => format!("{told} lines"),
        _ => at_least(each.cut, all.len(), "line", "lines"),
    };
    let mut firsts = all;
    firsts.dedup_by_key(|hit| hit.path.clone());
    let like = if is_near { "something like " } else { "" };
    page.say(format!("{lines} in {} with {like}`{shown}`:", at_least(each.cut, firsts.len(), "file", "files")));
    page.quote(&firsts, if find.want == Want::Files { LISTED_MAX } else { USES_MAX });
}

pub(super) fn files(pattern: &str, listed: Option<&Paths>, count: bool, trouble: &Trouble) -> String {
    let mut page = Page::default();
    let Some(listed) = listed else {
        page.say(format!("I could not look for files matching `{pattern}`."));
        return page.done(trouble);
    };
    if listed.paths.is_empty() {
        page.say(format!("No file matches `{pattern}`."));
        return page.done(trouble);
    }
    let files = listed.told.map_or_else(|| at_least(listed.cut, listed.paths.len(), "file", "files"), |told| format!("{told} files"));
    page.say(format!("{files} matching `{pattern}`:"));
    page.list_of(&in_order(&listed.paths), if count { USES_MAX } else { LISTED_MAX }, listed.all());
    page.done(trouble)
}

pub(super) fn things(kind: Kind, hits: Option<&Hits>, count: bool, trouble: &Trouble) -> String {
    let mut page = Page::default();
    let what = kind.plural_word();
    let Some(hits) = hits else {
        page.say(format!("I could not look for {what}."));
        return page.done(trouble);
    };
    let mut all: Vec<&Hit> = hits.hits.iter().collect();
    all.sort_by_key(|hit| (sort_of(&hit.path), hit.path.clone(), hit.line));
    let lines = hits.told.map_or_else(|| at_least(hits.cut, all.len(), "line", "lines"), |told| format!("{told} lines"));
    page.say(format!("{what}, by the shape of the line: {lines}"));
    page.quote(&all, if count { USES_MAX } else { LISTED_MAX });
    page.done(trouble)
}

pub(super) fn tests(paths: Option<&Paths>, hits: Option<&Hits>, count: bool, trouble: &Trouble) -> String {
    let mut page = Page::default();
    let at_most = if count { DEFINITIONS_MAX } else { LISTED_MAX };
    if let Some(paths) = paths.filter(|paths| !paths.paths.is_empty()) {
        let files = paths
            .told
            .map_or_else(|| at_least(paths.cut, paths.paths.len(), "test file", "test files"), |told| format!("{told} test files"));
        page.say(format!("{files} by name or folder:"));
        page.list_of(&in_order(&paths.paths), at_most, paths.all());
    }
    if let Some(hits) = hits.filter(|hits| !hits.hits.is_empty()) {
        let mut firsts: Vec<&Hit> = hits.hits.iter().collect();
        firsts.sort_by_key(|hit| (hit.path.clone(), hit.line));
        firsts.dedup_by_key(|hit| hit.path.clone());
        let lines = hits.told.map_or_else(|| at_least(hits.cut, hits.hits.len(), "line", "lines"), |told| format!("{told} lines"));
        page.say(format!("Tests begin in {lines} of {}; the first of each:", at_least(hits.cut, firsts.len(), "file", "files")));
        page.quote(&firsts, at_most);
    }
    if page.lines.is_empty() && trouble.lines.is_empty() {
        page.say("No tests found, neither by file name nor by the usual markers.");
    }
    page.done(trouble)
}

/// As deep into the tree as fits.
pub(super) fn layout(tree: Option<&str>, trouble: &Trouble) -> String {
    let mut page = Page::default();
    let Some(tree) = tree else {
        page.say("I could not list the folder.");
        return page.done(trouble);
    };
    // Notes are advice to a caller of the tool.
    let mut lines: Vec<String> = tree.lines().filter(|line| !line.trim_start().starts_with('(')).map(str::to_string).collect();
    while LISTED_MAX < lines.len() {
        let deepest = lines.iter().map(|line| indent(line)).max().unwrap_or(0);
        if lines.iter().all(|line| indent(line) == deepest) {
            break;
        }
        lines.retain(|line| indent(line) < deepest);
    }
    page.list(&lines, LISTED_MAX);
    page.done(trouble)
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn in_order(paths: &[String]) -> Vec<String> {
    let mut paths = paths.to_vec();
    paths.sort_by_key(|path| (sort_of(path), path.clone()));
    paths
}

pub(super) fn shown(path: &str, text: &str) -> String {
    let mut page = Page::default();
    let lines: Vec<String> = text
        .lines()
        .filter_map(|line| numbered(line.trim_start()))
        .map(|(number, text)| format!("{path}:{number}: {}", cut(text, QUOTE_BYTES_MAX)))
        .collect();
    // A folder, an image or a note has no numbered lines: then the result is quoted as it came.
    let lines = if lines.is_empty() { text.lines().map(str::to_string).collect() } else { lines };
    page.list(&lines, LISTED_MAX);
    page.done(&Trouble::default())
}

pub(super) fn unreadable(path: &str, trouble: &Trouble) -> String {
    let mut page = Page::default();
    page.say(format!("I could not show `{path}`."));
    page.done(trouble)
}

/// Facts, a line each; without any, what was looked for.
pub(super) fn facts(facts: &[Hit], what: &str, about: &[String], trouble: &Trouble) -> String {
    let mut page = Page::default();
    page.quote(&facts.iter().collect::<Vec<_>>(), facts.len());
    if facts.is_empty() {
        let about: Vec<String> = about.iter().map(|term| format!("`{term}`")).collect();
        let about = if about.is_empty() { String::new() } else { format!(" about {}", about.join(" and ")) };
        page.say(format!("{what}{about}: I found nothing to quote."));
    }
    page.done(trouble)
}

/// What a tour has seen.
pub(super) struct Sights {
    pub(super) layout: String,
    pub(super) readme: Hits,
    pub(super) manifests: Paths,
    pub(super) names: Hits,
    pub(super) entries: Hits,
    pub(super) tests: Paths,
}

pub(super) fn tour(sights: &Sights, trouble: &Trouble) -> String {
    const LAYOUT_MAX: usize = 30;
    let mut page = Page::default();
    page.say("A tour by rules and search, not an LLM: every line is quoted.");
    let depth = |path: &str| path.matches('/').count();
    if let Some(shallowest) = sights.readme.hits.iter().map(|hit| depth(&hit.path)).min() {
        let top: Vec<&Hit> = sights.readme.hits.iter().filter(|hit| depth(&hit.path) == shallowest).collect();
        page.say("\nREADME:");
        let mut shown: Vec<&Hit> = top.iter().find(|hit| hit.text.starts_with('#')).copied().into_iter().collect();
        shown.extend(top.iter().find(|hit| !hit.text.starts_with('#')));
        shown.sort_by_key(|hit| (hit.path.clone(), hit.line));
        page.quote(&shown, 2);
    }
    let top = top_level(&sights.layout);
    if !top.is_empty() {
        page.say("\nLayout:");
        page.list(&top, LAYOUT_MAX);
    }
    if !sights.manifests.paths.is_empty() {
        let mut paths = sights.manifests.paths.clone();
        paths.sort_by_key(|path| (depth(path), path.clone()));
        page.say("\nManifests:");
        page.list(&paths, USES_MAX);
        let mut names: Vec<&Hit> = sights.names.hits.iter().collect();
        names.sort_by_key(|hit| (depth(&hit.path), hit.path.clone(), hit.line));
        page.quote(&names, USES_MAX);
    }
    if !sights.entries.hits.is_empty() {
        let mut entries: Vec<&Hit> = sights.entries.hits.iter().collect();
        entries.sort_by_key(|hit| (sort_of(&hit.path), depth(&hit.path), hit.path.clone(), hit.line));
        page.say("\nEntry points:");
        page.quote(&entries, USES_MAX);
    }
    if !sights.tests.paths.is_empty() {
        page.say("\nTests, by file name or folder:");
        page.list(&in_order(&sights.tests.paths), DEFINITIONS_MAX);
    }
    if page.lines.len() == 1 {
        page.say("I found no README, manifest, entry point or test to quote.");
    }
    page.done(trouble)
}

/// The lines of a tree that are nearest its root.
fn top_level(tree: &str) -> Vec<String> {
    let lines: Vec<&str> = tree.lines().filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('(')).collect();
    let [root, below @ ..] = lines.as_slice() else { return Vec::new() };
    let least = below.iter().map(|line| indent(line)).min().unwrap_or(0);
    // The first line is the root itself when all others stand deeper.
    let all = if indent(root) < least { below } else { &lines };
    let least = all.iter().map(|line| indent(line)).min().unwrap_or(0);
    all.iter().filter(|line| indent(line) == least).map(|line| line.trim().to_string()).collect()
}
