//! What is searched for: the terms of a question, and how else they may be spelled.
//!
//! Quoted text first, then identifiers and file names, then the last noun phrase. Knows no tool.

use super::words::{FRAME, GRAMMAR, Word};

/// More than this in one question is a paragraph, not a search.
const TERMS_MAX: usize = 3;
/// A noun phrase is cut to its last words; more would match nothing together.
const PHRASE_WORDS_MAX: usize = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Term {
    /// Quoted text with blanks or signs: searched as it is.
    Literal(String),
    /// An identifier, perhaps qualified: `Session::apply`, `tool_choice`, `main`.
    Name(String),
    /// A file, by name or path.
    File(String),
    /// Plain words that may be spelled together in any convention.
    Phrase(Vec<String>),
}

impl Term {
    pub(super) fn shown(&self) -> String {
        match self {
            Term::Literal(text) | Term::Name(text) | Term::File(text) => text.clone(),
            Term::Phrase(words) => words.join(" "),
        }
    }

    /// Its words in lower case, whatever convention they were joined by: `ToolChoice` is `tool`, `choice`.
    pub(super) fn parts(&self) -> Vec<String> {
        match self {
            Term::Literal(text) => parts(text),
            Term::Name(text) => parts(last_segment(text)),
            Term::File(text) => parts(file_stem(text)),
            Term::Phrase(words) => words.iter().flat_map(|word| parts(word)).collect(),
        }
    }
}

/// The terms of the words that are left when the frame of the question is taken away.
pub(super) fn terms(words: &[Word]) -> Vec<Term> {
    let quoted: Vec<Term> = words.iter().filter(|word| word.quoted).map(|word| of_text(&word.text)).collect();
    if !quoted.is_empty() {
        return at_most(quoted);
    }
    let named: Vec<Term> = words.iter().filter(|word| is_name(word) || is_file(&word.text)).map(|word| of_text(&word.text)).collect();
    if !named.is_empty() {
        return at_most(named);
    }
    let mut phrase: Vec<&Word> = words.iter().filter(|word| !word.is(GRAMMAR) && !word.is(FRAME)).collect();
    if phrase.is_empty() {
        // "find the handle": then one of the frame's words is meant, and the last is the likeliest.
        let named_last = |word: &&Word| !word.is(GRAMMAR) && !word.is(COMMON);
        phrase = words.iter().skip(1).rfind(named_last).into_iter().collect();
    }
    let phrase = &phrase[phrase.len().saturating_sub(PHRASE_WORDS_MAX)..];
    match phrase {
        [] => Vec::new(),
        // "Where is Explorer constructed": a proper name and what is done with it.
        [name, done]
            if name.text.starts_with(char::is_uppercase)
                && (done.lower.ends_with("ed") || done.is(&["built", "read", "written", "sent"])) =>
        {
            vec![Term::Name(name.text.clone())]
        }
        [word] => vec![Term::Name(word.text.clone())],
        several => vec![Term::Phrase(several.iter().map(|word| word.text.clone()).collect())],
    }
}

/// Words of the frame that point at the whole repository: a question of only these asks for a tour.
#[rustfmt::skip]
const COMMON: &[&str] = &[
    "code", "codebase", "repo", "repository", "project", "source", "sources", "file", "files", "folder", "folders", "directory", "directories", "thing", "things",
    "stuff", "work", "works", "defined", "used", "implemented", "located", "organised", "organized", "structured", "tour", "overview", "summary", "layout",
    "architecture", "structure", "organization", "organisation", "detail", "details", "explain", "describe", "here", "exist", "exists", "mean", "means", "happen",
    "happens", "called", "mentioned", "declared", "times", "lives", "live",
];

fn at_most(mut terms: Vec<Term>) -> Vec<Term> {
    let mut seen = Vec::new();
    terms.retain(|term| {
        let new = !seen.contains(term);
        seen.push(term.clone());
        new
    });
    terms.truncate(TERMS_MAX);
    terms
}

pub(super) fn of_text(text: &str) -> Term {
    if is_file(text) {
        Term::File(text.trim_start_matches("./").to_string())
    } else if text.chars().all(|sign| sign.is_alphanumeric() || "_:.-$".contains(sign)) {
        Term::Name(text.trim_matches(['.', ':']).to_string())
    } else {
        Term::Literal(text.to_string())
    }
}

/// Written as only code is written: with `_`, `::`, `()`, an inner capital, an inner dot or hyphen, or as a flag.
fn is_name(word: &Word) -> bool {
    let text = word.text.as_str();
    let inner = |sign: char| text.trim_matches(sign).contains(sign);
    let dotted = inner('.') && text.split('.').all(|part| part.len() > 1) && !text.starts_with(|sign: char| sign.is_ascii_digit());
    let camel = text.chars().zip(text.chars().skip(1)).any(|(before, after)| before.is_lowercase() && after.is_uppercase());
    let hyphenated =
        inner('-') && !text.contains("--") && !word.is(FRAME) && text.chars().all(|sign| sign.is_alphanumeric() || sign == '-');
    word.called || text.contains('_') || text.contains("::") || camel || dotted || hyphenated || (text.starts_with("--") && text.len() > 3)
}

/// Endings that make a dotted word a file and not `object.member`.
#[rustfmt::skip]
const ENDINGS: &[&str] = &[
    "rs", "toml", "lock", "md", "txt", "rst", "adoc", "py", "pyi", "js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "go", "mod", "sum", "java", "kt", "kts", "scala", "c",
    "h", "cc", "cpp", "cxx", "hpp", "hh", "cs", "rb", "php", "swift", "m", "mm", "sh", "bash", "zsh", "fish", "json", "jsonc", "json5", "jsonl", "yaml", "yml", "xml",
    "html", "htm", "css", "scss", "less", "sql", "proto", "graphql", "vue", "svelte", "ex", "exs", "erl", "hs", "ml", "lua", "pl", "r", "dart", "zig", "nix", "tf", "cfg",
    "conf", "ini", "env", "csv", "tsv", "svg", "png", "ipynb", "mk", "cmake", "gradle", "patch", "diff", "log", "snap", "wasm", "bat", "ps1", "el", "vim", "tex",
];

pub(super) fn is_file(text: &str) -> bool {
    if text.contains([' ', '*', '(', '"', '<', '|', '\\']) || text.contains("::") || text.contains("//") {
        return false;
    }
    let name = text.rsplit('/').next().unwrap_or(text);
    let has_ending =
        name.rsplit_once('.').is_some_and(|(stem, ending)| !stem.is_empty() && ENDINGS.contains(&ending.to_lowercase().as_str()));
    let hidden = name.len() > 2 && name.starts_with('.') && name[1..].starts_with(|sign: char| sign.is_alphabetic());
    let known = matches!(
        name,
        "Makefile" | "Dockerfile" | "README" | "LICENSE" | "CHANGELOG" | "Justfile" | "justfile" | "Gemfile" | "Rakefile" | "CODEOWNERS"
    );
    has_ending || hidden || known || is_path(text)
}

/// Has a folder in it. `read/write` and `and/or` have too; a search for them ends in their words.
pub(super) fn is_path(text: &str) -> bool {
    text.contains('/')
        && !text.contains("//")
        && text.len() > 2
        && !text.contains([' ', '*'])
        && !matches!(text, "and/or" | "read/write" | "client/server" | "I/O" | "i/o")
}

pub(super) fn last_segment(name: &str) -> &str {
    let after_colons = name.rsplit("::").next().unwrap_or(name);
    after_colons.rsplit('.').next().unwrap_or(after_colons)
}

/// What stands before the last segment, by its own last name: `Session` of `posse::Session::apply`.
pub(super) fn qualifier(name: &str) -> Option<&str> {
    let cut = name.len() - last_segment(name).len();
    let before = name[..cut].trim_end_matches(['.', ':']);
    (!before.is_empty()).then(|| last_segment(before))
}

fn file_stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => name.trim_start_matches('.'),
    }
}

fn parts(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut current = String::new();
    let signs: Vec<char> = text.chars().collect();
    for (at, &sign) in signs.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| signs[at]);
        let lower_follows = signs.get(at + 1).is_some_and(|next| next.is_lowercase());
        let humps = sign.is_uppercase()
            && before.is_some_and(|before| before.is_lowercase() || before.is_numeric() || (before.is_uppercase() && lower_follows));
        if (humps || !sign.is_alphanumeric()) && !current.is_empty() {
            found.push(std::mem::take(&mut current));
        }
        if sign.is_alphanumeric() {
            current.extend(sign.to_lowercase());
        }
    }
    if !current.is_empty() {
        found.push(current);
    }
    found
}

/// A word without its English ending, so that "retries", "retrying" and "retry" meet.
pub(super) fn stem(word: &str) -> String {
    let cut = |ending: &str, length_min: usize| word.strip_suffix(ending).filter(|stem| stem.len() >= length_min && stem.is_ascii());
    if let Some(stem) = cut("ies", 3).or_else(|| cut("ied", 3)) {
        return format!("{stem}y");
    }
    if let Some(stem) = cut("ing", 3).or_else(|| cut("ed", 3)).or_else(|| cut("ers", 4)).or_else(|| cut("er", 4)) {
        let doubled = stem.len() > 3 && stem.as_bytes()[stem.len() - 1] == stem.as_bytes()[stem.len() - 2] && !stem.ends_with(['s', 'l']);
        return if doubled { stem[..stem.len() - 1].to_string() } else { stem.to_string() };
    }
    if word.ends_with("ss") || word.ends_with("us") {
        return word.to_string();
    }
    cut("es", 4).filter(|stem| stem.ends_with(['s', 'x', 'h'])).or_else(|| cut("s", 3)).unwrap_or(word).to_string()
}

#[cfg(test)]
mod tests {
    use super::{super::words::words, *};

    fn name(text: &str) -> Term {
        Term::Name(text.into())
    }

    #[test]
    fn terms_come_from_quotes_then_names_then_the_noun_phrase() {
        let phrase = |words: &[&str]| Term::Phrase(words.iter().map(|word| word.to_string()).collect());
        for (question, expected) in [
            ("Where is `apply` defined?", vec![name("apply")]),
            ("where is \"no such file\" printed", vec![Term::Literal("no such file".into())]),
            ("where's 'tool choice' kept", vec![Term::Literal("tool choice".into())]),
            ("Don't we have a retry_after anywhere?", vec![name("retry_after")]),
            ("Where is ToolChoice?", vec![name("ToolChoice")]),
            ("Where is Session::apply defined?", vec![name("Session::apply")]),
            ("find parse_args()", vec![name("parse_args")]),
            ("who calls os.path.join?", vec![name("os.path.join")]),
            ("find the --format flag", vec![name("--format")]),
            ("where is Vec<Widget> built", vec![name("Vec")]),
            ("find main.rs", vec![Term::File("main.rs".into())]),
            ("where is ./src/app/main.py", vec![Term::File("src/app/main.py".into())]),
            ("where is .gitignore", vec![Term::File(".gitignore".into())]),
            ("Where is Explorer defined?", vec![name("Explorer")]),
            ("where is the session struct", vec![name("session")]),
            ("where do we handle retries?", vec![name("retries")]),
            ("where do we handle rate limits", vec![phrase(&["rate", "limits"])]),
            ("Where is the HTTP client?", vec![phrase(&["HTTP", "client"])]),
            ("find `a` and `b` and `a`", vec![name("a"), name("b")]),
            ("find the handle", vec![name("handle")]),
            ("what does this project do", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(terms(&words(question)), expected, "{question}");
        }
    }

    #[test]
    fn parts_know_every_convention() {
        for (text, expected) in [
            ("tool_choice", "tool choice"),
            ("ToolChoice", "tool choice"),
            ("toolChoice", "tool choice"),
            ("tool-choice", "tool choice"),
            ("HTTPServer2Go", "http server2 go"),
            ("TOOL_CHOICE", "tool choice"),
            ("Session::apply", "apply"),
        ] {
            assert_eq!(name(text).parts().join(" "), expected, "{text}");
        }
    }

    #[test]
    fn stems_meet() {
        for (word, expected) in [
            ("retries", "retry"),
            ("retrying", "retry"),
            ("logging", "log"),
            ("permissions", "permission"),
            ("class", "class"),
            ("parsed", "pars"),
        ] {
            assert_eq!(stem(word), expected, "{word}");
        }
    }

    #[test]
    fn qualifiers_are_told_from_names() {
        assert_eq!((qualifier("posse::Session::apply"), last_segment("posse::Session::apply")), (Some("Session"), "apply"));
        assert_eq!((qualifier("apply"), last_segment("apply")), (None, "apply"));
    }
}
