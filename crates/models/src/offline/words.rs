//! A question cut into words, and the tables that say which words carry no meaning for a search.
//!
//! English only. Quoted spans are one word and are never looked up in a table.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    /// As written, without the punctuation around it.
    pub(super) text: String,
    pub(super) lower: String,
    pub(super) quoted: bool,
    /// It was written as a call, `name()`, or as a macro, `name!`.
    pub(super) called: bool,
    /// A sentence ends after it.
    pub(super) ends: bool,
}

impl Word {
    /// An unquoted word of one of these spellings.
    pub(super) fn is(&self, spellings: &[&str]) -> bool {
        !self.quoted && spellings.contains(&self.lower.as_str())
    }
}

/// A quoted span longer than this is pasted text, not a term.
const QUOTED_BYTES_MAX: usize = 160;

pub(super) fn words(question: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut rest = question;
    let mut after_blank = true;
    let mut plain_from = 0;
    let mut position = 0;
    while let Some(sign) = rest[position..].chars().next() {
        let from_here = &rest[position..];
        match quoted_span(from_here, after_blank) {
            Some((inner, length)) => {
                plain_words(&rest[plain_from..position], &mut words);
                if inner.len() <= QUOTED_BYTES_MAX && !inner.contains('\n') && !inner.trim().is_empty() {
                    words.push(quoted(inner.trim()));
                }
                rest = &from_here[length..];
                position = 0;
                plain_from = 0;
                after_blank = false;
            }
            None => {
                after_blank = sign.is_whitespace() || sign == '(';
                position += sign.len_utf8();
            }
        }
    }
    plain_words(&rest[plain_from..], &mut words);
    words
}

/// The text inside a quotation that opens here, and the length of the whole.
fn quoted_span(text: &str, after_blank: bool) -> Option<(&str, usize)> {
    for (open, close) in [("```", "```"), ("`", "`"), ("“", "”"), ("\"", "\""), ("'", "'")] {
        let Some(inner) = text.strip_prefix(open) else { continue };
        // An apostrophe is a quotation mark only around a word.
        let end = if open == "'" {
            let closes = |&(at, _): &(usize, &str)| !inner[at + 1..].starts_with(char::is_alphanumeric);
            if !after_blank {
                return None;
            }
            inner.match_indices('\'').find(closes)?.0
        } else {
            inner.find(close)?
        };
        return Some((&inner[..end], open.len() + end + close.len()));
    }
    None
}

fn quoted(text: &str) -> Word {
    let called = text.ends_with("()");
    let text = text.trim_end_matches("()");
    Word { text: text.into(), lower: text.to_lowercase(), quoted: true, called, ends: false }
}

fn plain_words(text: &str, words: &mut Vec<Word>) {
    let starts_glued = !text.starts_with(char::is_whitespace);
    for (number, token) in text.split_whitespace().enumerate() {
        let ends = token.ends_with(['.', '?', '!', ';']) || token.ends_with("?)");
        let called = token.contains("()") || (token.ends_with('!') && token.contains('_'));
        let bare = bare(token);
        if bare.is_empty() {
            // The punctuation after a quoted span ends its sentence.
            if ends
                && number == 0
                && starts_glued
                && let Some(last) = words.last_mut()
            {
                last.ends = true;
            }
            continue;
        }
        words.push(Word { text: bare.into(), lower: bare.to_lowercase().replace('’', "'"), quoted: false, called, ends });
    }
}

/// The token without the punctuation around it; `*.rs`, `.gitignore`, `--flag`, `a::b` and `/etc` keep theirs.
fn bare(token: &str) -> &str {
    let token = token.trim_start_matches(['(', '[', '{', ',', ';', ':', '!', '?', '@', '<', '>', '=', '+', '&', '|', '~', '—', '–', '…']);
    let token = match token.strip_prefix('.') {
        Some(rest) if !rest.starts_with(|sign: char| sign.is_alphanumeric() || sign == '/') => rest.trim_start_matches('.'),
        _ => token,
    };
    let token = token.trim_end_matches([')', '(', ']', '}', ',', ';', ':', '!', '?', '.', '>', '=', '—', '–', '…', '&', '|']);
    // Generics are no part of a name.
    let token = token.split_once('<').map_or(token, |(name, _)| name);
    if token.chars().any(char::is_alphanumeric) || token.contains('*') { token } else { "" }
}

/// Words of grammar. They never are what is searched for.
#[rustfmt::skip]
pub(super) const GRAMMAR: &[&str] = &[
    "a", "an", "the", "this", "that", "these", "those", "it", "its", "it's", "i", "i'm", "we", "you", "they", "he", "she", "me", "us", "our", "my", "your", "their",
    "them", "is", "are", "was", "were", "be", "been", "being", "am", "do", "does", "did", "done", "has", "have", "had", "can", "could", "would", "should", "will",
    "shall", "may", "might", "must", "in", "on", "of", "to", "at", "by", "for", "from", "with", "within", "inside", "under", "into", "about", "as", "and", "or", "not",
    "no", "if", "whether", "then", "than", "so", "but", "when", "while", "where", "where's", "wheres", "which", "what", "what's", "whats", "who", "whose", "whom", "how",
    "why", "there", "here", "out", "up", "over", "between", "through", "please", "all", "any", "every", "each", "some", "many", "much", "more", "most", "both", "also",
    "just", "only", "exactly", "actually", "currently", "really", "ever", "else", "like", "such", "via", "per", "ok", "okay", "hey", "hi", "hello", "thanks", "don't",
    "doesn't", "anything", "something", "anyone", "someone", "isn't", "aren't", "let's", "let", "vs", "etc",
];

/// Words that say what to do with the term, or what sort of thing it is, but are seldom the term.
#[rustfmt::skip]
pub(super) const FRAME: &[&str] = &[
    "find", "search", "grep", "locate", "look", "looking", "lookup", "list", "show", "print", "give", "display", "enumerate", "tell", "explain", "describe", "tour",
    "overview", "summary", "summarize", "summarise", "walk", "introduce", "outline", "count", "number", "check", "see", "know", "want", "need", "read", "cat", "view",
    "open", "exist", "exists", "existing", "work", "works", "working", "happen", "happens", "happening", "mean", "means", "define", "defined", "defines", "defining",
    "definition", "definitions", "declare", "declared", "declares", "declaration", "declarations", "implement", "implemented", "implements", "implementing",
    "implementation", "implementations", "locate", "located", "location", "locations", "live", "lives", "living", "place", "places", "placed", "come", "comes",
    "use", "uses", "used", "using", "usage", "usages", "user", "call", "calls", "called", "calling", "caller", "callers", "reference", "references", "referenced",
    "referencing", "refer", "refers", "mention", "mentions", "mentioned", "mentioning", "contain", "contains", "containing", "occur", "occurs", "occurrence",
    "occurrences", "import", "imports", "imported", "importing", "match", "matches", "matching", "named", "name", "names", "handle", "handles", "handled", "handling",
    "happens", "get", "gets", "set", "sets", "take", "takes", "make", "makes", "made", "created", "creates", "keep", "kept", "stored", "stores", "found", "made",
    "code", "codebase", "repo", "repository", "project", "source", "sources", "file", "files", "line", "lines", "folder", "folders", "directory", "directories",
    "crate", "crates", "package", "packages", "symbol", "symbols", "identifier", "identifiers", "thing", "things", "part", "parts", "piece", "bit", "stuff", "way", "logic",
    "function", "functions", "method", "methods", "struct", "structs", "structure", "enum", "enums", "trait", "traits", "class", "classes", "type", "types",
    "interface", "interfaces", "constant", "constants", "const", "variable", "variables", "macro", "macros", "module", "modules", "field", "fields", "variant",
    "fn", "func", "def", "word", "string", "text", "term", "responsible", "anywhere", "somewhere", "everywhere", "times", "time", "different", "various", "main's",
    "detail", "details", "briefly", "quickly", "organised", "organized", "structured", "organization", "organisation", "high-level",
];

/// What `offline/explorer` refuses at the start of a request or of a clause.
#[rustfmt::skip]
pub(super) const WORK: &[&str] = &[
    "write", "fix", "refactor", "implement", "add", "change", "delete", "remove", "run", "commit", "translate", "review", "create", "make", "build", "update", "rename",
    "move", "edit", "modify", "replace", "convert", "port", "migrate", "optimize", "optimise", "improve", "clean", "cleanup", "test", "debug", "install", "uninstall",
    "upgrade", "downgrade", "deploy", "generate", "format", "reformat", "lint", "push", "pull", "merge", "rebase", "revert", "undo", "redo", "apply", "execute", "start",
    "restart", "stop", "kill", "download", "upload", "fetch", "insert", "append", "extend", "simplify", "rewrite", "document", "design", "plan", "draft", "propose",
    "suggest", "recommend", "solve", "resolve", "complete", "finish", "set", "configure", "enable", "disable", "bump", "release", "publish", "compile", "send", "say",
    "reply", "respond", "answer", "compare", "verify", "prove", "calculate", "compute", "benchmark", "profile", "analyze", "analyse", "investigate", "think", "split",
    "extract", "inline", "wrap", "reduce", "speed", "port", "initialize", "initialise", "init", "scaffold", "bootstrap", "setup", "introduce", "drop", "erase", "copy",
    "duplicate", "paste", "touch", "mkdir", "rm", "cd", "git", "cargo", "npm", "curl", "tidy", "reword", "rephrase", "correct", "adjust", "tweak", "turn", "put", "use",
    "ensure", "repair", "patch", "save", "store", "try", "ask", "schedule", "remember", "play", "sing", "imagine", "invent", "delegate", "spawn", "launch",
];
