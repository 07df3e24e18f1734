//! Tables: a question, what it is taken for, and the calls of the first step.

use posse_session::ToolChoice;

use super::{
    intent::{Find, Intent, Scope},
    plan::{self, Desk},
    turn::Turn,
};

/// An intent in a few words, so that a table can be read.
fn told(intent: &Intent) -> String {
    let place = |scope: &Scope| {
        let path = scope.path.as_ref().map(|path| format!(" in {path}")).unwrap_or_default();
        let include = scope.include.as_ref().map(|include| format!(" only {include}")).unwrap_or_default();
        format!("{path}{include}")
    };
    let counted = |count: bool| if count { "count " } else { "" };
    match intent {
        Intent::Greet => "greet".into(),
        Intent::Find(Find { terms, want, scope, count, .. }) => {
            format!("{}{want:?} {terms:?}{}", counted(*count), place(scope)).replace('"', "")
        }
        Intent::Files { glob, scope, count } => format!("{}files {glob}{}", counted(*count), place(scope)),
        Intent::Things { kind, scope, count } => format!("{}things {kind:?}{}", counted(*count), place(scope)),
        Intent::Tests { scope, count } => format!("{}tests{}", counted(*count), place(scope)),
        Intent::Layout { scope } => format!("layout{}", place(scope)),
        Intent::Show { path } => format!("show {path}"),
        Intent::Tour => "tour".into(),
        Intent::Survey(survey) => format!("survey {} {:?}", survey.field.title(), survey.terms).replace('"', ""),
        Intent::Send { agent, prompt } => format!("send {agent}: {prompt}"),
        Intent::Relay => "relay".into(),
        Intent::NeedsModel { work } => format!("needs a model to {work}"),
    }
}

fn check(rows: &[(&str, &str)]) {
    let told: Vec<(&str, String)> = rows.iter().map(|(question, _)| (*question, told(&Intent::of(question)))).collect();
    let expected: Vec<(&str, String)> = rows.iter().map(|(question, intent)| (*question, intent.to_string())).collect();
    for (told, expected) in told.iter().zip(&expected) {
        assert_eq!(told, expected);
    }
}

#[test]
fn searches() {
    check(&[
        ("Where is Explorer defined?", "Definitions [Name(Explorer)]"),
        ("where is explorer", "Anything [Name(explorer)]"),
        ("Where's `Session::apply`?", "Anything [Name(Session::apply)]"),
        ("find tool_choice", "Anything [Name(tool_choice)]"),
        ("Find the definition of ToolChoice.", "Definitions [Name(ToolChoice)]"),
        ("list usages of parse_args()", "Uses [Name(parse_args)]"),
        ("show me usages of `Head` in crates/models", "Uses [Name(Head)] in crates/models"),
        ("Show me where ModelError is declared", "Definitions [Name(ModelError)]"),
        ("which files mention ANTHROPIC_API_KEY?", "Files [Name(ANTHROPIC_API_KEY)]"),
        ("Which files use serde_json?", "Files [Name(serde_json)]"),
        ("find all files containing \"no such file\"", "Files [Literal(no such file)]"),
        ("how many files mention TODO?", "count Files [Name(TODO)]"),
        ("how many times is encode_head called?", "count Uses [Name(encode_head)]"),
        ("who calls encode_head?", "Uses [Name(encode_head)]"),
        ("what calls encode_head?", "Uses [Name(encode_head)]"),
        ("Where is Explorer constructed?", "Anything [Name(Explorer)]"),
        ("where do we handle retries?", "Anything [Name(retries)]"),
        ("Where do we handle rate limits?", "Anything [Phrase([rate, limits])]"),
        ("where is the retry logic for failed requests implemented", "Definitions [Phrase([retry, failed, requests])]"),
        ("Where is the `main` function?", "Definitions [Name(main)]"),
        ("where is the session struct", "Definitions [Name(session)]"),
        ("is there a function that parses dates?", "Definitions [Phrase([parses, dates])]"),
        ("Are there any uses of unsafe_code?", "Uses [Name(unsafe_code)]"),
        ("can you please tell me where Widget is defined", "Definitions [Name(Widget)]"),
        ("I want to know where `retry-after` is read", "Anything [Name(retry-after)]"),
        ("I'm looking for the config loader", "Anything [Phrase([config, loader])]"),
        ("grep for FIXME in src", "Anything [Name(FIXME)] in src"),
        ("find Reply in crates/session/src/seams/model.rs", "Anything [Name(Reply)] in crates/session/src/seams only model.rs"),
        ("where is Cargo.toml", "Anything [File(Cargo.toml)]"),
        ("find main.rs", "Anything [File(main.rs)]"),
        ("which files import main.rs", "Files [File(main.rs)]"),
        ("Session::apply", "Anything [Name(Session::apply)]"),
        ("retry policy", "Anything [Phrase([retry, policy])]"),
        ("`fn main`", "Anything [Literal(fn main)]"),
        ("where do we open and write the log?", "Anything [Phrase([write, log])]"),
        ("I was reading the code. Where is `Lane` used?", "Uses [Name(Lane)]"),
        ("where are `Lane` and `Ledger` defined?", "Definitions [Name(Lane), Name(Ledger)]"),
        ("does anything use globset?", "Uses [Name(globset)]"),
    ]);
}

#[test]
fn lists() {
    check(&[
        ("list files matching *.rs", "files **/*.rs"),
        ("list `crates/*/Cargo.toml`", "files crates/*/Cargo.toml"),
        ("list all rust files", "files **/*.rs"),
        ("how many python files are there?", "count files **/*.py"),
        ("list the .toml files in crates", "files **/*.toml in crates"),
        ("how many files are in this repository?", "count files **/*"),
        ("list files in src/models", "files **/* in src/models"),
        ("list the tests", "tests"),
        ("where are the tests?", "tests"),
        ("how many tests are there", "count tests"),
        ("show me all unit tests in crates/session", "tests in crates/session"),
        ("list all structs", "things Struct"),
        ("list the functions in src/main.rs", "things Function in src only main.rs"),
        ("how many traits are there?", "count things Trait"),
        ("list TODOs", "things Todo"),
        ("list the directories", "layout"),
        ("show README.md", "show README.md"),
        ("cat src/main.rs", "show src/main.rs"),
        ("read ./docs/guide.md please", "show docs/guide.md"),
    ]);
}

#[test]
fn tours_and_explanations() {
    check(&[
        ("Give me a tour of this repository", "tour"),
        ("give me an overview", "tour"),
        ("What is this project?", "tour"),
        ("what does this code do?", "tour"),
        ("How is this repository organised?", "tour"),
        ("explain the architecture", "tour"),
        ("tell me about this codebase", "tour"),
        ("what are the entry points?", "tour"),
        ("explain the architecture of `Session`", "Explained [Name(Session)]"),
        ("where is the layout computed?", "Anything [Phrase([layout, computed])]"),
        ("explain `Desk`", "Explained [Name(Desk)]"),
        ("how does the retry back-off work?", "Explained [Name(back-off)]"),
        ("what is ToolChoice?", "Explained [Name(ToolChoice)]"),
        ("tell me about the session log", "Explained [Phrase([session, log])]"),
    ]);
}

#[test]
fn words_of_the_kernel_and_of_a_leader() {
    let hint = "Use the above message and context to generate a prompt and call the agent tool with subagent:";
    check(&[
        ("Summarize the task tool output above and continue with your task.", "relay"),
        ("summarize this repository", "tour"),
        (&format!("@explore where is main?\n{hint} explore"), "send explore: where is main?"),
        (&format!("Ask @Explore to list the tests.\n{hint} explore"), "send explore: list the tests."),
        (
            "Find the definitions of this repository about `Lane` and `rate limits`. Thoroughness: medium. Wanted: lines.",
            "survey definitions [Name(Lane), Phrase([rate, limits])]",
        ),
        ("Find the entry points of this repository. Thoroughness: medium. Wanted: lines.", "survey entry points []"),
        ("Find the definition of Lane.", "Definitions [Name(Lane)]"),
    ]);
}

#[test]
fn greetings() {
    for question in
        ["hi", "Hello!", "hey there", "thanks", "Thank you very much", "good morning", "help", "who are you?", "What can you do?", ""]
    {
        check(&[(question, "greet")]);
    }
}

#[test]
fn work_needs_a_model() {
    check(&[
        ("fix the failing test", "needs a model to fix"),
        ("Please write a parser for TOML", "needs a model to write"),
        ("could you refactor `Session::apply`?", "needs a model to refactor"),
        ("I want you to add a --json flag", "needs a model to add"),
        ("implement issue 4", "needs a model to implement"),
        ("Delete src/old.rs", "needs a model to delete"),
        ("run the tests", "needs a model to run"),
        ("commit this", "needs a model to commit"),
        ("translate README.md to German", "needs a model to translate"),
        ("review my changes", "needs a model to review"),
        ("find the bug and fix it", "needs a model to fix"),
        ("Find parse_args. Then rename it to read_args.", "needs a model to rename"),
        ("where is the bug in `apply` and fix it", "needs a model to fix"),
        ("list the tests, then run them", "needs a model to run"),
        ("let's make the build faster", "needs a model to make"),
        ("why does `apply` fail?", "needs a model to reason about why"),
        ("my program crashes when I press a key and I do not know what to do next", "needs a model to answer that"),
    ]);
}

#[test]
fn no_text_is_too_strange() {
    let pieces = [
        "`",
        "'",
        "\"",
        "“",
        "”",
        "<",
        "</",
        "<a>",
        "é",
        "日本",
        "::",
        ".",
        "..",
        "/",
        "*",
        "*.",
        "(",
        ")",
        "()",
        "!",
        "?",
        "\n",
        " ",
        "a",
        "A_b",
        "--",
        "ß.rs",
        "where is ",
        "\u{0}",
    ];
    // A small walk over combinations, the same every time.
    let mut state = 1_u64;
    for _ in 0..2_000 {
        let mut question = String::new();
        for _ in 0..6 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            question.push_str(pieces[(state >> 33) as usize % pieces.len()]);
        }
        first_calls(&question, ALL);
    }
}

/// The calls of the first step, as `tool input`.
fn first_calls(question: &str, offered: &[&str]) -> Vec<String> {
    let turn = Turn { question: question.into(), steps: 0, made: Vec::new(), before: Vec::new(), replies: 0 };
    match plan::answer(&Intent::of(question), &Desk::new(&turn, offered, ToolChoice::Auto)) {
        Ok(text) => vec![format!("say {text}")],
        Err(calls) => calls.iter().map(|call| format!("{} {}", call.tool, call.input)).collect(),
    }
}

const ALL: &[&str] = &["read", "glob", "grep", "list", "bash"];

#[test]
fn the_first_step_searches_definitions_and_uses() {
    let calls = first_calls("Where is tool_choice used in crates/models?", ALL);
    assert_eq!(calls.len(), 2);
    assert!(
        calls[0].starts_with(r#"grep {"pattern":"\\b(?:fn|struct|"#) && calls[0].ends_with(r#""path":"crates/models"}"#),
        "{}",
        calls[0]
    );
    assert_eq!(calls[1], r#"grep {"pattern":"\\btool_choice\\b","path":"crates/models"}"#);
}

#[test]
fn the_first_calls_of_other_questions() {
    for (question, expected) in [
        ("find main.rs", vec![r#"glob {"pattern":"**/main.rs"}"#]),
        ("which files import main.rs", vec![r#"grep {"pattern":"main\\.rs"}"#]),
        ("where is \"a (b)\"", vec![r#"grep {"pattern":"a \\(b\\)"}"#]),
        ("list files matching *.rs in src/x", vec![r#"glob {"pattern":"**/*.rs","path":"src/x"}"#]),
        ("list TODOs", vec![r#"grep {"pattern":"\\b(?:TODO|FIXME|XXX|HACK)\\b"}"#]),
        ("show README.md", vec![r#"read {"filePath":"README.md","limit":60}"#]),
        ("list the directories in src/x", vec![r#"list {"path":"src/x"}"#]),
    ] {
        assert_eq!(first_calls(question, ALL), expected, "{question}");
    }
    let tools: Vec<String> =
        first_calls("Give me a tour", ALL).iter().filter_map(|call| call.split(' ').next().map(str::to_string)).collect();
    assert_eq!(tools, ["list", "grep", "glob", "grep", "grep", "glob"]);
}

#[test]
fn only_offered_tools_are_called_and_missing_ones_are_named() {
    let missing = |tool: &str| format!("The tool `{tool}` is not offered here, so I could not use it.");
    assert_eq!(first_calls("where is `x`", &["bash", "glob"]), [format!("say `x`: I could not search for it.\n{}", missing("grep"))]);
    assert_eq!(
        first_calls("list files matching *.rs", &["grep"]),
        [format!("say I could not look for files matching `**/*.rs`.\n{}", missing("glob"))]
    );
    assert_eq!(
        first_calls("show README.md", &[]),
        [format!("say I could not show `README.md`.\n{}\n{}", missing("read"), missing("glob"))]
    );
    assert_eq!(first_calls("list the directories", &["glob"]), [r#"glob {"pattern":"./*"}"#]);
}
