//! What is asked: a question becomes one of a few things that rules and search can do, or needs a model.
//!
//! Pure, and from the words alone: whether a tool is there for it is `plan`'s business.

use super::{
    survey::Survey,
    terms::{Term, is_file, is_path, terms},
    words::{GRAMMAR, WORK, Word, words},
};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Intent {
    Greet,
    Find(Find),
    /// Files by name.
    Files {
        glob: String,
        scope: Scope,
        count: bool,
    },
    /// All things of a kind: functions, structs, to-dos.
    Things {
        kind: Kind,
        scope: Scope,
        count: bool,
    },
    Tests {
        scope: Scope,
        count: bool,
    },
    Layout {
        scope: Scope,
    },
    Show {
        path: String,
    },
    Tour,
    /// Sent by a leader to report on one field.
    Survey(Survey),
    /// The user named an agent to do it.
    Send {
        agent: String,
        prompt: String,
    },
    /// A task was run for the user; its result is to be told.
    Relay,
    /// `work` finishes the sentence "cannot …".
    NeedsModel {
        work: String,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Find {
    pub(super) terms: Vec<Term>,
    pub(super) want: Want,
    pub(super) kind: Option<Kind>,
    pub(super) scope: Scope,
    pub(super) count: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    Definitions,
    Uses,
    Files,
    Anything,
    /// Asked to explain: the same lines, and a word that quoting is all there is.
    Explained,
}

/// A sort of definition, by the word people use for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Function,
    Struct,
    Enum,
    Trait,
    Class,
    Type,
    Module,
    Constant,
    Macro,
    Todo,
}

/// Where to search: a folder, and which file names in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Scope {
    pub(super) path: Option<String>,
    pub(super) include: Option<String>,
}

impl Intent {
    pub(super) fn of(question: &str) -> Self {
        if let Some(survey) = Survey::of(question) {
            return Intent::Survey(survey);
        }
        if question.starts_with(TASK_DONE) {
            return Intent::Relay;
        }
        if let Some((prompt, agent)) = mentioned(question) {
            return Intent::Send { agent, prompt };
        }
        let words = words(question);
        if is_greeting(&words) {
            return Intent::Greet;
        }
        let sentences: Vec<&[Word]> =
            words.split_inclusive(|word| word.ends).map(without_politeness).filter(|sentence| !sentence.is_empty()).collect();
        if let Some(work) = sentences.iter().find_map(|sentence| work_in(sentence)) {
            return Intent::NeedsModel { work };
        }
        // What is around the question is talk; the first sentence that asks decides.
        let asking = sentences.iter().find(|sentence| opening(sentence) != Opening::Other).or(sentences.last());
        asking.map_or(Intent::Greet, |sentence| of_sentence(sentence))
    }
}

/// The kernel says this when a task that the user ran has ended.
const TASK_DONE: &str = "Summarize the task tool output above";

/// The kernel says this when the user mentioned an agent; its name follows the colon.
const MENTION: &str = "Use the above message and context to generate a prompt and call the ";

/// What the user said and the agent it was said to, from a message with a mention.
fn mentioned(question: &str) -> Option<(String, String)> {
    let (said, hint) = question.split_once(MENTION)?;
    let agent = hint.split_once("with subagent:")?.1.split_whitespace().next()?.trim_end_matches(['.', ',']).to_string();
    let mention = format!("@{agent}");
    // "ask @explore to find x" and "@explore, find x" both mean "find x".
    let said: Vec<&str> = said.split_whitespace().collect();
    let is_mention = |word: &str| word.trim_end_matches([',', ':', '.', '?', '!']).eq_ignore_ascii_case(&mention);
    let mut kept: Vec<&str> = Vec::new();
    for (at, word) in said.iter().enumerate() {
        let asks = at == 0 && ["ask", "have", "let", "tell", "use"].iter().any(|verb| word.eq_ignore_ascii_case(verb));
        let is_before = said.get(at + 1).is_some_and(|next| is_mention(next));
        let is_after = at.checked_sub(1).is_some_and(|before| is_mention(said[before]));
        if !(is_mention(word) || asks && is_before || is_after && kept.is_empty() && *word == "to") {
            kept.push(word);
        }
    }
    (!kept.is_empty()).then(|| (kept.join(" "), agent))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    Where,
    Which,
    Find,
    List,
    Show,
    HowMany,
    Explain,
    Why,
    Other,
}

fn of_sentence(sentence: &[Word]) -> Intent {
    let (scope, rest) = scoped(sentence);
    let opening = opening(sentence);
    let has = |spellings: &[&str]| rest.iter().any(|word| word.is(spellings));
    let count = opening == Opening::HowMany;
    let lists = matches!(opening, Opening::List | Opening::Show | Opening::Which | Opening::HowMany | Opening::Where | Opening::Find);
    let terms = terms(&rest);
    let listed = listed(&rest);

    if opening == Opening::Why {
        return Intent::NeedsModel { work: "reason about why".into() };
    }
    if let Some(glob) = rest.iter().find(|word| is_glob(&word.text)).map(|word| glob_of(&word.text)) {
        return Intent::Files { glob, scope, count };
    }
    if lists && let Some(about) = listed {
        return match about {
            Listed::Tests => Intent::Tests { scope, count },
            Listed::Kind(kind) => Intent::Things { kind, scope, count },
            Listed::Files(glob) => Intent::Files { glob, scope, count },
            Listed::Layout => Intent::Layout { scope },
        };
    }
    if matches!(opening, Opening::Show)
        && let [Term::File(path)] = terms.as_slice()
        && !has(USES)
        && !has(DEFINITIONS)
    {
        return if path.ends_with('/') { Intent::Layout { scope: scope_of(path) } } else { Intent::Show { path: path.clone() } };
    }
    let asks_about = matches!(opening, Opening::Explain | Opening::Show | Opening::List | Opening::Other);
    let names_tour = has(&["tour", "overview", "layout", "architecture"]) || (has(&["entry"]) && has(&["point", "points"]));
    let is_explicit = rest.iter().any(|word| word.quoted || word.called || is_file(&word.text));
    if asks_about && (names_tour && !is_explicit || terms.is_empty() && opening != Opening::Other) {
        return Intent::Tour;
    }
    if opening == Opening::Other && !is_bare_term(sentence, &terms) {
        return Intent::NeedsModel { work: "answer that".into() };
    }
    if terms.is_empty() {
        return Intent::NeedsModel { work: "tell what to search for in that".into() };
    }
    let kind = rest.iter().find_map(Kind::named);
    let want = match opening {
        Opening::Which | Opening::HowMany if has(&["file", "files"]) => Want::Files,
        _ if has(&["files"]) && (has(USES) || has(&["contain", "contains", "containing", "with"])) => Want::Files,
        _ if has(DEFINITIONS) => Want::Definitions,
        _ if has(USES) || count => Want::Uses,
        Opening::Explain => Want::Explained,
        _ if kind.is_some() => Want::Definitions,
        _ => Want::Anything,
    };
    Intent::Find(Find { terms, want, kind, scope, count })
}

#[rustfmt::skip]
const DEFINITIONS: &[&str] = &[
    "define", "defined", "defines", "definition", "definitions", "declare", "declared", "declares", "declaration", "declarations", "implemented", "implementation",
    "implementations", "implements",
];

#[rustfmt::skip]
const USES: &[&str] = &[
    "use", "uses", "used", "using", "usage", "usages", "call", "calls", "called", "calling", "caller", "callers", "reference", "references", "referenced", "referencing",
    "refer", "refers", "mention", "mentions", "mentioned", "mentioning", "occur", "occurs", "occurrence", "occurrences", "import", "imports", "imported", "importing",
];

fn opening(sentence: &[Word]) -> Opening {
    let [first, rest @ ..] = sentence else { return Opening::Other };
    let second = |spellings: &[&str]| rest.first().is_some_and(|word| word.is(spellings));
    let has = |spellings: &[&str]| sentence.iter().any(|word| word.is(spellings));
    if first.quoted {
        return Opening::Other;
    }
    match first.lower.as_str() {
        "where" | "where's" | "wheres" => Opening::Where,
        "in" if second(&["which", "what"]) => Opening::Which,
        "which" | "who" | "whose" => Opening::Which,
        "what" if second(&["file", "files", "calls", "uses", "tests", "functions"]) => Opening::Which,
        "how" if second(&["many"]) => Opening::HowMany,
        "count" => Opening::HowMany,
        "number" if second(&["of"]) => Opening::HowMany,
        "find" | "search" | "grep" | "locate" | "lookup" | "looking" | "look" | "is" | "are" | "does" | "do" | "has" | "any" => {
            Opening::Find
        }
        "check" | "see" if second(&["if", "whether", "for", "where"]) => Opening::Find,
        "list" | "enumerate" | "ls" => Opening::List,
        "give" | "show" | "print" | "display" | "tell" if has(&["tour", "overview", "summary", "how", "about", "what"]) => Opening::Explain,
        "show" | "print" | "display" | "read" | "cat" | "view" | "open" | "give" | "tell" => Opening::Show,
        "explain" | "describe" | "tour" | "overview" | "summarize" | "summarise" | "how" | "how's" | "what" | "what's" | "whats"
        | "walk" | "outline" | "introduce" => Opening::Explain,
        "why" => Opening::Why,
        _ => Opening::Other,
    }
}

/// A request without a verb: a name, a quotation, or a few words of a noun phrase.
fn is_bare_term(sentence: &[Word], terms: &[Term]) -> bool {
    const BARE_WORDS_MAX: usize = 4;
    let explicit =
        matches!(terms.first(), Some(Term::Literal(_) | Term::File(_))) || sentence.iter().any(|word| word.quoted || word.called);
    let meant = sentence.iter().filter(|word| !word.is(GRAMMAR)).count();
    !terms.is_empty() && (meant <= BARE_WORDS_MAX || (explicit && meant <= 2 * BARE_WORDS_MAX))
}

enum Listed {
    Tests,
    Kind(Kind),
    Files(String),
    Layout,
}

/// A question that names only a sort of thing: "list the tests", "how many rust files", "all structs".
fn listed(rest: &[Word]) -> Option<Listed> {
    if rest.iter().any(|word| word.quoted || word.called) {
        return None;
    }
    let meant: Vec<&Word> = rest.iter().skip(1).filter(|word| !word.is(GRAMMAR) && !word.is(LISTING)).collect();
    let all = |spellings: &[&str]| !meant.is_empty() && meant.iter().all(|word| word.is(spellings));
    if all(&["test", "tests", "unit", "integration", "file", "files", "functions", "cases", "suite", "suites"])
        && meant.iter().any(|word| word.is(&["test", "tests"]))
    {
        return Some(Listed::Tests);
    }
    if all(&[
        "folder",
        "folders",
        "directory",
        "directories",
        "layout",
        "tree",
        "structure",
        "content",
        "contents",
        "file",
        "top-level",
        "top",
        "level",
    ]) && !meant.iter().all(|word| word.is(&["file"]))
    {
        return Some(Listed::Layout);
    }
    if let [word] = meant.as_slice()
        && let Some(kind) = Kind::plural(word)
    {
        return Some(Listed::Kind(kind));
    }
    let is_files = |word: &Word| word.is(&["file", "files", "sources", "modules", "scripts", "documents", "docs"]);
    match meant.as_slice() {
        [word] if word.is(&["files"]) => Some(Listed::Files("**/*".into())),
        [ending] if ending.text.starts_with('.') && !is_file(&format!("x{}x", ending.text)) && rest.iter().any(is_files) => {
            Some(Listed::Files(format!("**/*{}", ending.text)))
        }
        [language, files] if is_files(files) => language_glob(language).map(Listed::Files),
        _ => None,
    }
}

/// Words around what is listed.
#[rustfmt::skip]
const LISTING: &[&str] = &["code", "codebase", "repo", "repository", "project", "source", "list", "show", "find", "exist", "exists", "defined", "live", "located", "public"];

fn language_glob(word: &Word) -> Option<String> {
    let ending = match word.lower.as_str() {
        "rust" => "rs",
        "python" => "py",
        "typescript" => "{ts,tsx}",
        "javascript" => "{js,jsx,mjs,cjs}",
        "go" | "golang" => "go",
        "java" => "java",
        "kotlin" => "kt",
        "c" => "{c,h}",
        "c++" | "cpp" => "{cc,cpp,cxx,hpp,h}",
        "ruby" => "rb",
        "php" => "php",
        "swift" => "swift",
        "shell" | "bash" => "{sh,bash}",
        "markdown" => "md",
        "yaml" => "{yaml,yml}",
        "toml" => "toml",
        "json" => "{json,jsonc}",
        "html" => "html",
        "css" => "css",
        "sql" => "sql",
        ending if ending.starts_with('.') && ending.len() > 1 => &ending[1..],
        ending if is_file(&format!("x.{ending}")) => ending,
        _ => return None,
    };
    Some(format!("**/*.{ending}"))
}

impl Kind {
    fn named(word: &Word) -> Option<Self> {
        if word.quoted {
            return None;
        }
        Some(match word.lower.as_str() {
            "function" | "functions" | "method" | "methods" | "fn" | "func" => Kind::Function,
            "struct" | "structs" => Kind::Struct,
            "enum" | "enums" => Kind::Enum,
            "trait" | "traits" | "interface" | "interfaces" => Kind::Trait,
            "class" | "classes" => Kind::Class,
            "type" | "types" => Kind::Type,
            "module" | "modules" => Kind::Module,
            "constant" | "constants" | "const" => Kind::Constant,
            "macro" | "macros" => Kind::Macro,
            _ => return None,
        })
    }

    fn plural(word: &Word) -> Option<Self> {
        if word.is(&["todos", "fixmes", "to-dos"]) {
            return Some(Kind::Todo);
        }
        Self::named(word).filter(|_| word.lower.ends_with('s') && word.lower != "class")
    }

    pub(super) fn plural_word(self) -> &'static str {
        match self {
            Kind::Function => "functions",
            Kind::Struct => "structs",
            Kind::Enum => "enums",
            Kind::Trait => "traits and interfaces",
            Kind::Class => "classes",
            Kind::Type => "types",
            Kind::Module => "modules",
            Kind::Constant => "constants",
            Kind::Macro => "macros",
            Kind::Todo => "to-dos",
        }
    }
}

/// Folders that people name without a slash.
#[rustfmt::skip]
const FOLDERS: &[&str] = &[
    "src", "tests", "test", "docs", "doc", "crates", "lib", "bin", "examples", "scripts", "packages", "app", "apps", "cmd", "pkg", "internal", "benches", "bench", "tools",
    "include", "vendor", "config",
];

/// Takes "in src/models", "under tests", "in lib.rs" out of the words.
fn scoped(sentence: &[Word]) -> (Scope, Vec<Word>) {
    let place = sentence.windows(2).position(|pair| {
        pair[0].is(&["in", "under", "inside", "within", "below"])
            && (is_path(&pair[1].text) || is_file(&pair[1].text) || pair[1].is(FOLDERS))
    });
    let Some(at) = place else { return (Scope::default(), sentence.to_vec()) };
    let rest = sentence[..at].iter().chain(&sentence[at + 2..]).cloned().collect();
    (scope_of(&sentence[at + 1].text), rest)
}

fn scope_of(path: &str) -> Scope {
    let path = path.trim_start_matches("./");
    let name = path.rsplit('/').next().unwrap_or(path);
    // A file is searched as its folder with only its name let through, which every grep understands.
    if is_file(name) {
        let folder = path[..path.len() - name.len()].trim_end_matches('/');
        return Scope { path: (!folder.is_empty()).then(|| folder.to_string()), include: Some(name.to_string()) };
    }
    Scope { path: Some(path.trim_end_matches('/').to_string()), include: None }
}

fn is_glob(text: &str) -> bool {
    text.contains('*')
        && !text.contains(' ')
        && text.chars().any(|sign| sign.is_alphanumeric())
        && !text.contains('(')
        && (text.contains('.') || text.contains('/'))
}

fn glob_of(text: &str) -> String {
    if text.contains('/') { text.trim_start_matches("./").to_string() } else { format!("**/{text}") }
}

fn is_greeting(words: &[Word]) -> bool {
    #[rustfmt::skip]
    const GREETINGS: &[&str] = &[
        "hi", "hello", "hey", "hallo", "yo", "howdy", "thanks", "thank", "you", "good", "morning", "evening", "afternoon", "day", "there", "please", "help", "ok", "okay",
        "cool", "great", "nice", "bye", "posse", "explorer", "me", "very", "much", "test", "ping",
    ];
    let plain: Vec<&str> = words.iter().map(|word| word.lower.as_str()).collect();
    let asks_who = [
        "who are you",
        "what are you",
        "what can you do",
        "what do you do",
        "how are you",
        "what can i ask",
        "how can you help",
        "how do you work",
    ];
    words.iter().all(|word| word.is(GREETINGS)) && plain != ["test"] || asks_who.iter().any(|known| plain.join(" ").starts_with(known))
}

/// The sentence without "please", "can you", "I want to know" and the like in front.
fn without_politeness(sentence: &[Word]) -> &[Word] {
    #[rustfmt::skip]
    const FRONT: &[&[&str]] = &[
        &["please"], &["kindly"], &["ok"], &["okay"], &["hey"], &["hi"], &["hello"], &["posse"], &["now"], &["then"], &["also"], &["and"], &["so"], &["just"], &["thanks"],
        &["first"], &["next"], &["finally"], &["maybe"], &["quickly"], &["but"], &["well"],
        &["can", "you"], &["could", "you"], &["would", "you"], &["will", "you"], &["can", "we"], &["could", "we"], &["can", "i"], &["you", "should"], &["we", "should"],
        &["we", "need", "to"], &["you", "must"], &["i", "want", "you", "to"], &["i", "need", "you", "to"], &["i'd", "like", "you", "to"], &["i", "would", "like", "you", "to"],
        &["i", "want", "to"], &["i", "need", "to"], &["i'd", "like", "to"], &["i", "would", "like", "to"], &["i'm"], &["i", "am"], &["trying", "to"], &["help", "me", "to"],
        &["help", "me"], &["let's"], &["lets"], &["let", "us"], &["go", "ahead", "and"], &["do", "you", "know"], &["do", "we", "know"], &["know"], &["figure", "out"],
        &["find", "out"], &["tell", "me", "where"], &["show", "me", "where"], &["show", "where"], &["your", "task", "is", "to"], &["i", "wonder"], &["it", "possible", "to"],
    ];
    let mut rest = sentence;
    while let Some(front) =
        FRONT.iter().find(|front| front.len() < rest.len() && front.iter().zip(rest).all(|(word, said)| said.is(&[word])))
    {
        // "tell me where" keeps its "where".
        let keeps_last = front.len() > 1 && front.last() == Some(&"where");
        let taken = if keeps_last { front.len() - 1 } else { front.len() };
        rest = &rest[taken..];
    }
    rest
}

/// Work that rules and search cannot do: the verb that opens the sentence, or one that a later clause adds ("… and fix it").
fn work_in(sentence: &[Word]) -> Option<String> {
    let [first, rest @ ..] = sentence else { return None };
    let is_verb = |word: &Word| word.is(WORK) && !word.called;
    let noun_follows = |after: &[Word]| {
        after.first().is_some_and(|word| {
            word.is(&["file", "files", "function", "functions", "method", "struct", "class", "tests", "cases"]) && after.len() == 1
        })
    };
    if is_verb(first) && !noun_follows(rest) && !(first.is(&["introduce"]) && rest.first().is_some_and(|word| word.is(&["me"]))) {
        return Some(first.lower.clone());
    }
    let asks = matches!(opening(sentence), Opening::Where | Opening::Which | Opening::HowMany | Opening::Explain | Opening::Why);
    // "where do we open and write the file" asks; "where is the bug, and fix it" wants work.
    let objects: &[&str] = if asks {
        &["it", "them", "this", "that"]
    } else {
        &["it", "them", "this", "that", "the", "a", "an", "all", "each", "every", "any", "those", "these", "tests"]
    };
    sentence.windows(3).find_map(|three| {
        (three[0].is(&["and", "then", "or"]) && is_verb(&three[1]) && three[2].is(objects)).then(|| three[1].lower.clone())
    })
}
