//! Scouting: what an explorer does that a leader sent. A few calls, then facts only, each line with its place.
//!
//! Here is what is found about the terms of a question; what is found about a repository as a whole is below, one file
//! per field. Knows nothing of the leader but the `survey` it gave.

mod entries;
mod landmarks;
mod layout;
mod patterns;
mod trials;

use serde_json::Value;

use super::{
    answer::{self, Trouble},
    define::{self, Sort, Surety, sort_of},
    found::{self, Hit, Hits, Paths, numbered},
    intent::{Find, Scope, Want},
    pattern,
    plan::{self, Call, Desk, Evidence, Heard, Quote, glob, grep},
    survey::{Field, Survey},
    terms::Term,
};

/// Of one explorer, whatever it is sent for: four of them must stay quick in a huge repository.
pub(super) const CALLS_MAX: usize = 8;

/// Two screens from one explorer; the leader's answer has four of them.
pub(super) const FACTS_MAX: usize = 48;

/// Lines that one search may bring back.
const LINES_MAX: u64 = 300;

pub(super) fn answer(survey: &Survey, desk: &Desk) -> Result<String, Vec<Call>> {
    let desk = &desk.with_calls_max(CALLS_MAX);
    let mut trouble = Trouble::default();
    let terms = survey.terms.as_slice();
    let mut facts = match survey.field {
        Field::Layout if terms.is_empty() => layout::facts(desk, &mut trouble)?,
        Field::EntryPoints if terms.is_empty() => entries::facts(desk, &mut trouble)?,
        Field::Definitions if terms.is_empty() => landmarks::facts(desk, &mut trouble)?,
        Field::TestsAndDocs if terms.is_empty() => trials::facts(desk, &mut trouble)?,
        Field::Layout => named_after(terms, desk, &mut trouble)?,
        Field::EntryPoints => used(terms, desk, &mut trouble)?,
        Field::Definitions => defined(terms, desk, &mut trouble)?,
        Field::TestsAndDocs => tested_and_told(terms, desk, &mut trouble)?,
    };
    facts.truncate(FACTS_MAX);
    let about: Vec<String> = terms.iter().map(Term::shown).collect();
    Ok(answer::facts(&facts, survey.heading(), &about, &trouble))
}

/// Files with a term in their name; lines of manifests and READMEs with it.
fn named_after(terms: &[Term], desk: &Desk, trouble: &mut Trouble) -> Result<Vec<Hit>, Vec<Call>> {
    const NAMED_MAX: usize = 12;
    const TOLD_MAX: usize = 10;
    let named: Vec<(&Term, Call)> =
        terms.iter().filter_map(|term| Some((term, glob(&in_name_or_folder(&pattern::file_names(term)?), &Scope::default())))).collect();
    let mut calls: Vec<Call> = named.iter().map(|(_, call)| call.clone()).collect();
    calls.push(lines(&patterns::any_of(terms), Some(patterns::MANIFESTS_AND_READMES)));
    let heard = desk.gather(&calls)?;
    let mut facts = Vec::new();
    for ((term, _), heard) in named.iter().zip(&heard) {
        let mut paths = trouble.said(Some(heard)).map(found::paths).unwrap_or_default().paths;
        paths.sort_by_key(|path| (sort_of(path), depth(path), path.clone()));
        facts.extend(paths.into_iter().take(NAMED_MAX).map(|path| place(path, format!("the path has `{}` in it", term.shown()))));
    }
    let told = trouble.said(heard.last()).map(found::hits).unwrap_or_default();
    facts.extend(spread(told.hits, TOLD_MAX));
    Ok(facts)
}

/// The same names for the folder that a file is in.
fn in_name_or_folder(names: &str) -> String {
    let names = names.trim_start_matches("**/");
    format!("**/{{{names},{names}/*}}")
}

/// Lines of source that use a term, one of each file before a second of any.
fn used(terms: &[Term], desk: &Desk, trouble: &mut Trouble) -> Result<Vec<Hit>, Vec<Call>> {
    const USED_MAX: usize = 16;
    let heard = desk.gather(&[lines(&patterns::any_of(terms), None)])?;
    let mut hits = trouble.said(heard.first()).map(found::hits).unwrap_or_default().hits;
    let is_sure = |defined: &define::Defined| defined.surety < Surety::Guess || defined.keyword == "impl";
    let defines =
        |hit: &Hit| terms.iter().any(|term| define::defines(&hit.path, &hit.text, term, true).is_some_and(|defined| is_sure(&defined)));
    hits.retain(|hit| sort_of(&hit.path) == Sort::Source && !is_comment(&hit.text) && !defines(hit));
    // An import says only that there is a use below.
    let imports = ["use ", "pub use ", "import ", "from ", "#include", "require", "const { "];
    hits.sort_by_key(|hit| imports.iter().any(|start| hit.text.trim_start().starts_with(start)));
    Ok(spread(hits, USED_MAX))
}

/// The definitions of the terms and what is said right above them; their uses only when nothing defines them.
fn defined(terms: &[Term], desk: &Desk, trouble: &mut Trouble) -> Result<Vec<Hit>, Vec<Call>> {
    const DEFINITIONS_MAX: usize = 6;
    const EXPLAINED_MAX: usize = 2;
    let terms = terms.iter().map(in_any_spelling).collect();
    let find = Find { terms, want: Want::Explained, kind: None, scope: Scope::default(), count: false };
    let evidence = plan::evidence(&find, desk, trouble)?.each;
    let chosen: Vec<Vec<Hit>> = evidence.iter().map(|each| surest(each, DEFINITIONS_MAX)).collect();
    let explained: Vec<&Hit> = chosen.iter().flat_map(|hits| hits.iter().take(EXPLAINED_MAX)).take(EXPLAINED_MAX).collect();
    let calls: Vec<Call> = explained.iter().map(|hit| around(hit)).collect();
    let heard = desk.gather(&calls)?;
    let mut facts: Vec<Hit> = Vec::new();
    for hit in chosen.iter().flatten() {
        let said = explained.iter().zip(&heard).find(|(explained, _)| **explained == hit).map(|(_, heard)| heard);
        // What cannot be read again was still found, so this is no trouble.
        if let Some(Heard::Said(text)) = said {
            facts.extend(comment_above(hit, text));
        }
        facts.push(hit.clone());
    }
    Ok(facts)
}

/// The surest choice there is; in it the very name comes before longer ones, and source before tests.
fn surest(each: &Evidence, at_most: usize) -> Vec<Hit> {
    let sorted = |quotes: &[Quote], is_wanted: fn(&Quote) -> bool| -> Vec<Hit> {
        let mut wanted: Vec<&Quote> = quotes.iter().filter(|quote| is_wanted(quote)).collect();
        wanted.sort_by_key(|quote| (quote.sort, !quote.whole, quote.surety, quote.hit.path.clone(), quote.hit.line));
        wanted.into_iter().map(|quote| quote.hit.clone()).collect()
    };
    let is_sure: fn(&Quote) -> bool =
        |quote| quote.surety.is_some_and(|surety| surety < Surety::Guess) && !matches!(quote.keyword.as_str(), "mod" | "#");
    let any: fn(&Quote) -> bool = |_| true;
    let choices = [
        sorted(&each.definitions, is_sure),
        sorted(&each.near_definitions, is_sure),
        sorted(&each.definitions, any),
        sorted(&each.uses, any),
        sorted(&each.near_uses, any),
    ];
    let named = each.names.iter().map(|path| place(path.clone(), "found by its name".into())).collect();
    let mut chosen = choices.into_iter().find(|choice| !choice.is_empty()).unwrap_or(named);
    chosen.truncate(at_most);
    chosen
}

/// A plain word of a question is seldom written as it is named in code.
fn in_any_spelling(term: &Term) -> Term {
    match term {
        Term::Name(name) if name.chars().all(|sign| sign.is_lowercase() || sign.is_numeric()) => Term::Phrase(vec![name.clone()]),
        other => other.clone(),
    }
}

/// The lines before a definition, where comments are.
const ABOVE_MAX: u64 = 8;

fn around(hit: &Hit) -> Call {
    let from = hit.line.saturating_sub(ABOVE_MAX).max(1);
    Call { tool: "read", input: serde_json::json!({ "filePath": hit.path, "offset": from, "limit": ABOVE_MAX + 1 }) }
}

/// The comment that ends right above the definition; attributes between them belong to it.
fn comment_above(hit: &Hit, text: &str) -> Vec<Hit> {
    let above: Vec<(u64, &str)> = numbered_lines(text).into_iter().filter(|(line, _)| *line < hit.line).collect();
    let belongs = |text: &str| is_comment(text) || text.trim_start().starts_with(['#', '@']);
    let mut comment: Vec<Hit> = above
        .iter()
        .rev()
        .take_while(|(_, text)| belongs(text))
        .filter(|(_, text)| is_comment(text) && text.chars().any(char::is_alphanumeric))
        .map(|(line, text)| Hit { path: hit.path.clone(), line: *line, text: text.trim().to_string() })
        .collect();
    comment.reverse();
    comment
}

/// Tests by their name, lines of test files, and of documents.
fn tested_and_told(terms: &[Term], desk: &Desk, trouble: &mut Trouble) -> Result<Vec<Hit>, Vec<Call>> {
    const TESTS_MAX: usize = 8;
    const DOCS_MAX: usize = 10;
    let any = patterns::any_of(terms);
    let calls = [
        over_lines(&patterns::tests_named(terms), None),
        lines(&any, Some(pattern::TEST_FILES.trim_start_matches("**/"))),
        lines(&any, Some(patterns::DOCUMENTS)),
    ];
    let heard = desk.gather(&calls)?;
    let mut hits = |at: usize| trouble.said(heard.get(at)).map(found::hits).unwrap_or_default().hits;
    let (mut named, mut lines, mut told) = (hits(0), hits(1), hits(2));
    named.retain(|hit| names_test(&hit.text));
    lines.retain(|hit| sort_of(&hit.path) == Sort::Test && !is_comment(&hit.text));
    told.retain(|hit| sort_of(&hit.path) == Sort::Docs);
    told.sort_by_key(|hit| (!hit.text.starts_with('#'), depth(&hit.path), hit.path.clone(), hit.line));
    let mut facts = spread(named, TESTS_MAX);
    facts.extend(spread(lines, TESTS_MAX));
    facts.extend(spread(told, DOCS_MAX));
    facts.dedup_by_key(|fact| (fact.path.clone(), fact.line));
    Ok(facts)
}

/// The line of a test that has its name, not the marker above it.
fn names_test(text: &str) -> bool {
    let text = text.trim_start();
    !(text.starts_with("#[") || text.starts_with('@')) && text.chars().any(char::is_alphanumeric)
}

fn is_comment(text: &str) -> bool {
    let text = text.trim_start();
    ["//", "/*", "* ", "*/", "# ", "--", ";;", "\"\"\"", "'''", "<!--"].iter().any(|start| text.starts_with(start))
}

fn depth(path: &str) -> usize {
    path.matches('/').count()
}

/// A fact about a file as a whole is placed at its first line.
fn place(path: String, text: String) -> Hit {
    Hit { path, line: 1, text }
}

/// At most so many, one of each file before a second of any.
fn spread(hits: Vec<Hit>, at_most: usize) -> Vec<Hit> {
    let mut rounds: Vec<(usize, usize, Hit)> = Vec::new();
    let mut files: Vec<(String, usize)> = Vec::new();
    for hit in hits {
        let at = files.iter().position(|(path, _)| *path == hit.path).unwrap_or_else(|| {
            files.push((hit.path.clone(), 0));
            files.len() - 1
        });
        rounds.push((files[at].1, at, hit));
        files[at].1 += 1;
    }
    rounds.sort_by_key(|(round, file, _)| (*round, *file));
    rounds.truncate(at_most);
    rounds.sort_by_key(|(_, file, hit)| (*file, hit.line));
    rounds.into_iter().map(|(_, _, hit)| hit).collect()
}

fn lines(pattern: &str, include: Option<&str>) -> Call {
    with(grep(pattern, &Scope { path: None, include: include.map(str::to_string) }), "limit", LINES_MAX.into())
}

/// A search whose pattern may reach over lines.
fn over_lines(pattern: &str, include: Option<&str>) -> Call {
    with(lines(pattern, include), "multiline", true.into())
}

fn with(mut call: Call, key: &str, value: Value) -> Call {
    if let Value::Object(input) = &mut call.input {
        input.insert(key.into(), value);
    }
    call
}

fn numbered_lines(text: &str) -> Vec<(u64, &str)> {
    text.lines().filter_map(|line| numbered(line.trim_start())).collect()
}

fn hits_of(heard: &[Heard], at: usize, trouble: &mut Trouble) -> Hits {
    trouble.said(heard.get(at)).map(found::hits).unwrap_or_default()
}

fn paths_of(heard: &[Heard], at: usize, trouble: &mut Trouble) -> Paths {
    trouble.said(heard.get(at)).map(found::paths).unwrap_or_default()
}
