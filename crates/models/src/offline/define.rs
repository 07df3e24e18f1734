//! Reads one line of a file: does it define something, what, and how surely. And what sort of file it is in.
//!
//! No parser: a few shapes per family of languages, enough to put definitions before uses.

use super::terms::{Term, last_segment};

/// How surely a line defines its name; smaller is surer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Surety {
    /// A keyword says so.
    Keyword,
    /// A public field, a function by its shape, a variable or target at the left edge, a heading.
    Shape,
    /// A local variable, an `impl`, a field or variant by its place: only when there is nothing better.
    Guess,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Defined {
    pub(super) name: String,
    pub(super) keyword: String,
    pub(super) surety: Surety,
}

/// What a file is for, in the order in which answers quote them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sort {
    Source,
    Test,
    Docs,
    Data,
}

pub(super) fn sort_of(path: &str) -> Sort {
    let lower = path.to_lowercase();
    let name = lower.rsplit('/').next().unwrap_or(&lower);
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let in_folder = |folders: &[&str]| lower.split('/').any(|part| folders.contains(&part));
    if in_folder(&["node_modules", "vendor", "third_party", "dist", "target"])
        || matches!(ending, "lock" | "snap" | "csv" | "svg" | "jsonl" | "map" | "min.js" | "log")
    {
        Sort::Data
    } else if matches!(ending, "md" | "rst" | "txt" | "adoc") || in_folder(&["docs", "doc"]) {
        Sort::Docs
    } else if in_folder(&["tests", "test", "__tests__", "spec", "testdata", "fixtures", "benches"])
        || name.starts_with("test_")
        || ["_test.", ".test.", ".spec.", "_spec.", "tests."].iter().any(|mark| name.contains(mark))
    {
        Sort::Test
    } else if matches!(ending, "json" | "yaml" | "yml" | "xml" | "html") {
        Sort::Data
    } else {
        Sort::Source
    }
}

/// A name without its convention: `ToolChoice` and `tool_choice` are the same.
pub(super) fn folded(text: &str) -> String {
    text.chars().filter(|sign| sign.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// Whether the line defines the term: its name exactly, or with `like` a name that has all its parts.
pub(super) fn defines(path: &str, line: &str, term: &Term, like: bool) -> Option<Defined> {
    let defined = defined(path, line, term)?;
    let is_heading = defined.keyword == "#";
    let fits = match term {
        Term::Name(name) if !like && !is_heading => defined.name == last_segment(name),
        Term::Name(name) if !like => defined.name.split(|sign: char| !(sign.is_alphanumeric() || sign == '_')).any(|word| word == name),
        Term::Literal(text) => defined.name.contains(text.as_str()),
        _ => folded(&defined.name).contains(&folded(&term.parts().concat())),
    };
    fits.then_some(defined)
}

/// Whether the line defines a name that has one of these stems in it.
pub(super) fn defines_any(path: &str, line: &str, term: &Term, stems: &[String]) -> Option<Defined> {
    let defined = defined(path, line, term)?;
    let name = defined.name.to_lowercase();
    stems.iter().any(|stem| name.contains(stem.as_str())).then_some(defined)
}

/// The name that this line defines. The term is only needed to see a bare field or variant in the line.
pub(super) fn defined(path: &str, line: &str, term: &Term) -> Option<Defined> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    let trimmed = line.trim();
    if matches!(ending, "md" | "rst" | "adoc") {
        let title = trimmed.trim_start_matches('#');
        let is_heading = title.len() < trimmed.len() && title.starts_with(' ');
        return is_heading.then(|| found(title.trim(), "#", Surety::Shape));
    }
    if ["//", "/*", "*", "--", "\"\"\""].iter().any(|comment| trimmed.starts_with(comment)) {
        return None;
    }
    by_keyword(trimmed).or_else(|| by_shape(line, ending, name)).or_else(|| by_place(trimmed, term))
}

fn found(name: &str, keyword: &str, surety: Surety) -> Defined {
    Defined { name: name.into(), keyword: keyword.into(), surety }
}

#[rustfmt::skip]
const MODIFIERS: &[&str] = &[
    "pub", "async", "unsafe", "extern", "export", "default", "declare", "public", "private", "protected", "internal", "abstract", "final", "inline", "override", "virtual",
    "sealed", "open", "data", "case", "partial", "readonly", "typedef",
];

#[rustfmt::skip]
const KEYWORDS: &[&str] = &[
    "fn", "struct", "enum", "union", "trait", "type", "const", "static", "mod", "macro_rules!", "macro", "class", "def", "function", "func", "fun", "interface", "namespace",
    "module", "record", "protocol", "object", "extension", "defmodule", "defp", "package",
];

const LOCALS: &[&str] = &["let", "var", "val", "local", "alias"];

/// `pub(crate) async fn name`, `export default class Name`, `def self.name`, `impl Trait for Name`, `#define NAME`.
fn by_keyword(line: &str) -> Option<Defined> {
    if let Some(rest) = line.strip_prefix('#').map(str::trim_start).and_then(|rest| rest.strip_prefix("define ")) {
        return identifier(rest).map(|(name, _)| found(name, "#define", Surety::Keyword));
    }
    let mut rest = line;
    loop {
        let (word, after) = keyword(rest)?;
        let next = keyword(after).map(|(next, _)| next);
        let leads = |next: Option<&str>| next.is_some_and(|next| KEYWORDS.contains(&next) || MODIFIERS.contains(&next));
        if MODIFIERS.contains(&word) || (KEYWORDS.contains(&word) && leads(next)) {
            rest = after;
            continue;
        }
        if word == "impl" {
            let head = after.split(['{', ';']).next().unwrap_or(after);
            let of = head.rsplit(" for ").next().unwrap_or(head).split(" where ").next().unwrap_or(head);
            let of = if of.trim_start().starts_with('<') { of.split_once("> ").map_or(of, |(_, of)| of) } else { of };
            let path = of.trim().split('<').next().unwrap_or(of);
            return identifier(path.rsplit("::").next()?).map(|(name, _)| found(name, "impl", Surety::Guess));
        }
        if LOCALS.contains(&word) {
            let after = after.trim_start_matches("mut ").trim_start_matches("ref ");
            return identifier(after).map(|(name, _)| found(name, word, Surety::Guess));
        }
        if !KEYWORDS.contains(&word) {
            return None;
        }
        // A Go receiver, a generator's star, Ruby's `self.`.
        let after = match after.strip_prefix('(').and_then(|after| after.split_once(')')) {
            Some((_, after)) if word == "func" => after.trim_start(),
            _ => after.trim_start_matches(['*', ' ']),
        };
        let after = after.strip_prefix("self.").or_else(|| after.strip_prefix("mut ")).unwrap_or(after);
        let (name, tail) = identifier(after)?;
        // `static int f(` and `const char *f` are not named `int` and `char`.
        let tail = tail.trim_start();
        let is_value = tail.starts_with([':', '=']) || tail.is_empty();
        return (!matches!(word, "static" | "const") || is_value).then(|| found(name, word, Surety::Keyword));
    }
}

/// The next word, and what follows it without `(crate)`, `"C"`, generics and blanks.
fn keyword(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(|sign: char| !(sign.is_alphanumeric() || sign == '_')).unwrap_or(text.len());
    let end = if text[end..].starts_with('!') { end + 1 } else { end };
    let (word, mut rest) = text.split_at(end);
    if word == "pub"
        && let Some((_, after)) = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'))
    {
        rest = after;
    }
    if word == "extern"
        && let Some((_, after)) = rest.trim_start().strip_prefix('"').and_then(|rest| rest.split_once('"'))
    {
        rest = after;
    }
    let parted = rest.is_empty() || rest.starts_with([' ', '\t', '*', '(']) || (word == "impl" && rest.starts_with('<'));
    (!word.is_empty() && parted).then(|| (word, rest.trim_start()))
}

fn identifier(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let end = text.find(|sign: char| !(sign.is_alphanumeric() || "_$".contains(sign))).unwrap_or(text.len());
    (end > 0 && !text.starts_with(|sign: char| sign.is_ascii_digit())).then(|| text.split_at(end))
}

/// Functions of C, Java and JavaScript; shell functions; targets and variables at the left edge; public fields.
fn by_shape(line: &str, ending: &str, file: &str) -> Option<Defined> {
    let trimmed = line.trim();
    let at_edge = !line.starts_with([' ', '\t']);
    if let Some(("pub", rest)) = keyword(trimmed)
        && let Some((name, tail)) = identifier(rest)
        && tail.starts_with(':')
    {
        return Some(found(name, "field", Surety::Shape));
    }
    if let Some((before, after)) = trimmed.split_once('(')
        && let Some(name) = before.split([' ', '\t', '*', '&']).next_back().filter(|name| !name.is_empty())
    {
        let name = name.rsplit("::").next().unwrap_or(name);
        let first = before.split_whitespace().next().unwrap_or("");
        let is_statement = [
            "return", "else", "if", "while", "for", "switch", "catch", "throw", "new", "await", "yield", "do", "case", "function", "match",
        ]
        .contains(&first);
        let plain = before.chars().all(|sign| sign.is_alphanumeric() || "_:<>,*&[]~ \t".contains(sign));
        let typed = before.split_whitespace().count() > 1 && plain && !is_statement;
        let is_function = match ending {
            "c" | "h" | "cc" | "cpp" | "cxx" | "hpp" | "hh" | "m" => typed && at_edge && !trimmed.ends_with(';'),
            "java" | "cs" | "dart" | "php" => typed && !trimmed.ends_with(';'),
            "js" | "jsx" | "mjs" | "ts" | "tsx" | "vue" => {
                plain && !is_statement && !at_edge && trimmed.ends_with('{') && !trimmed.contains("=>")
            }
            "sh" | "bash" | "zsh" | "" => after.starts_with(')') && plain && !before.trim_end().contains(' '),
            _ => false,
        };
        return is_function.then(|| found(name.trim(), "()", Surety::Shape));
    }
    let edge = trimmed.strip_prefix("export ").unwrap_or(trimmed);
    let (name, tail) = identifier(edge)?;
    let tail = tail.trim_start();
    let assigned = tail.trim_start_matches([':', '?', '+']).strip_prefix('=').is_some_and(|rest| !rest.starts_with('='));
    let target = (file.to_lowercase().contains("makefile") || ending == "mk") && tail.starts_with(':');
    (at_edge && (assigned || target)).then(|| found(name, if target { "target" } else { "=" }, Surety::Shape))
}

/// The term itself at the start of an inner line, as fields, variants and keys are written.
fn by_place(trimmed: &str, term: &Term) -> Option<Defined> {
    let Term::Name(name) = term else { return None };
    let rest = trimmed.trim_start_matches(['"', '\'']).strip_prefix(name.as_str())?;
    let rest = rest.trim_start_matches(['"', '\'']);
    let is_type = name.starts_with(char::is_uppercase);
    let fits = !rest.starts_with("::")
        && (rest.starts_with(':') || is_type && (rest == "," || rest.is_empty() || rest.ends_with("},") || rest.ends_with("),")));
    fits.then(|| found(name, "place", Surety::Guess))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_define_names() {
        use Surety::{Guess, Keyword, Shape};
        type Row<'a> = (&'a str, &'a str, Option<(&'a str, &'a str, Surety)>);
        let rows: &[Row<'_>] = &[
            ("a.rs", "pub(crate) async fn apply(&mut self) {", Some(("apply", "fn", Keyword))),
            ("a.rs", "    pub const fn apply() {}", Some(("apply", "fn", Keyword))),
            ("a.rs", "pub unsafe extern \"C\" fn apply() {", Some(("apply", "fn", Keyword))),
            ("a.rs", "pub struct Session<T> {", Some(("Session", "struct", Keyword))),
            ("a.rs", "const LIMIT: usize = 3;", Some(("LIMIT", "const", Keyword))),
            ("a.rs", "macro_rules! id {", Some(("id", "macro_rules!", Keyword))),
            ("a.rs", "impl<T: Clone> fmt::Display for store::Session<T> {", Some(("Session", "impl", Guess))),
            ("a.rs", "impl Session {", Some(("Session", "impl", Guess))),
            ("a.rs", "    let mut session = open();", Some(("session", "let", Guess))),
            ("a.rs", "    pub output_max: u64,", Some(("output_max", "field", Shape))),
            ("a.rs", "    session.apply(record);", None),
            ("a.rs", "    // fn apply is elsewhere", None),
            ("a.rs", "use crate::Session;", None),
            ("a.ts", "export default class Widget extends Base {", Some(("Widget", "class", Keyword))),
            ("a.ts", "export const useThing = () => {", Some(("useThing", "const", Keyword))),
            ("a.ts", "  async render(props: Props): Promise<void> {", Some(("render", "()", Shape))),
            ("a.ts", "  render(props);", None),
            ("a.js", "export async function* walk(tree) {", Some(("walk", "function", Keyword))),
            ("a.py", "    async def walk(self):", Some(("walk", "def", Keyword))),
            ("a.py", "LIMIT = 3", Some(("LIMIT", "=", Shape))),
            ("a.py", "LIMIT == 3", None),
            ("a.go", "func (s *Server) Serve(ctx context.Context) error {", Some(("Serve", "func", Keyword))),
            ("a.go", "type Server struct {", Some(("Server", "type", Keyword))),
            ("A.java", "    public static void main(String[] args) {", Some(("main", "()", Shape))),
            ("a.c", "static int parse_line(const char *line)", Some(("parse_line", "()", Shape))),
            ("a.c", "    return parse_line(line);", None),
            ("a.h", "#define LIMIT 3", Some(("LIMIT", "#define", Keyword))),
            ("a.cpp", "void Server::serve(int port) {", Some(("serve", "()", Shape))),
            ("a.rb", "  def self.build(name)", Some(("build", "def", Keyword))),
            ("run.sh", "cleanup() {", Some(("cleanup", "()", Shape))),
            ("Makefile", "install: build", Some(("install", "target", Shape))),
            ("README.md", "## Install it", Some(("Install it", "#", Shape))),
            ("README.md", "function names are short", None),
        ];
        for (path, line, expected) in rows {
            let expected = expected.map(|(name, keyword, surety)| found(name, keyword, surety));
            assert_eq!(defined(path, line, &Term::Literal(String::new())), expected, "{path}: {line}");
        }
    }

    #[test]
    fn a_variant_or_a_field_is_a_guess() {
        let term = Term::Name("NeedsModel".into());
        assert_eq!(defines("a.rs", "    NeedsModel,", &term, false), Some(found("NeedsModel", "place", Surety::Guess)));
        assert_eq!(defines("a.rs", "    NeedsModel::new(),", &term, false), None);
        assert_eq!(defines("a.rs", "fn needs_model() {", &term, false), None);
        assert_eq!(defines("a.rs", "fn needs_model() {", &term, true), Some(found("needs_model", "fn", Surety::Keyword)));
    }

    #[test]
    fn files_are_sorted_by_what_they_are_for() {
        for (path, sort) in [
            ("src/a.rs", Sort::Source),
            ("tests/a.rs", Sort::Test),
            ("src/a_test.go", Sort::Test),
            ("web/a.spec.ts", Sort::Test),
            ("README.md", Sort::Docs),
            ("docs/a.rs", Sort::Docs),
            ("Cargo.lock", Sort::Data),
            ("node_modules/a/index.js", Sort::Data),
            ("Makefile", Sort::Source),
        ] {
            assert_eq!(sort_of(path), sort, "{path}");
        }
    }
}
