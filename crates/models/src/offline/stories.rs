//! Conversations played to their end with fake tools that answer in the words of the real ones.

use std::sync::{Arc, Mutex};

use posse_session::{
    Block, Finish, Head, Live, Message, Model, ModelError, ModelFailure, Progress, Reply, ReplyPart, Request, Role, SessionId, ToolChoice,
    ToolSpec, Usage,
};
use serde_json::{Value, json};

use super::Explorer;

/// What a fake tool answers: `Err` is a failed or denied call.
type Fake = fn(&str, &Value) -> Result<String, String>;

struct Story {
    head: Head,
    messages: Vec<Message>,
    tools: Fake,
    steps: usize,
    calls: Vec<String>,
}

#[derive(Default)]
struct Shown(Mutex<Vec<Progress>>);

impl Live for Shown {
    fn show(&self, progress: Progress) {
        self.0.lock().unwrap().push(progress);
    }
}

impl Story {
    fn new(offered: &[&str], tools: Fake) -> Self {
        let spec = |name: &&str| ToolSpec { name: name.to_string(), description: String::new(), schema: json!({"type": "object"}) };
        let head = Head { system: vec!["You are posse.".into()], tools: offered.iter().map(spec).collect(), ..Head::default() };
        Self { head, messages: Vec::new(), tools, steps: 0, calls: Vec::new() }
    }

    fn say(&mut self, text: &str) -> &mut Self {
        self.messages.push(Message { role: Role::User, blocks: vec![Block::Text { text: text.into() }] });
        self
    }

    /// One attempt at the next reply, through the bytes as the engine would do it.
    fn reply(&self, tool_choice: ToolChoice) -> (Result<Reply, ModelError>, Vec<Progress>) {
        let model = Explorer::new();
        let request = Request {
            session: SessionId::new("ses_1"),
            lineage: SessionId::new("ses_1"),
            head: model.encode_head(&self.head),
            messages: self.messages.iter().map(|message| model.encode(message)).collect(),
            tool_choice,
            output_max: 1_000,
            idle_max: std::time::Duration::from_secs(1),
        };
        let live = Shown::default();
        let mut future = model.reply(request, &live);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let std::task::Poll::Ready(reply) = future.as_mut().poll(&mut context) else { panic!("it never waits") };
        drop(future);
        (reply, live.0.into_inner().unwrap())
    }

    /// Answers calls until there is a text.
    fn play(&mut self) -> String {
        for _ in 0..20 {
            let (reply, shown) = self.reply(ToolChoice::Auto);
            let reply = reply.unwrap();
            assert_eq!(self.reply(ToolChoice::Auto).0.unwrap(), reply, "a step tried again gives the same reply");
            assert_eq!(reply.usage, Usage::default());
            self.steps += 1;
            let (mut blocks, mut results, mut answer) = (Vec::new(), Vec::new(), None);
            for part in reply.parts {
                match part {
                    ReplyPart::Text(text) => {
                        assert_eq!(shown, [Progress::Text(text.clone())]);
                        blocks.push(Block::Text { text: text.clone() });
                        answer = Some(text);
                    }
                    ReplyPart::Call { id, tool, input } => {
                        let call = format!("{tool} {input}");
                        assert!(!self.calls.contains(&call), "made twice: {call}");
                        let told = (self.tools)(&tool, &serde_json::from_str(&input).unwrap());
                        let (text, error) = told.map_or_else(|words| (words, true), |text| (text, false));
                        results.push(Block::Result { id: id.clone(), tool: tool.clone(), text, error, images: Vec::new() });
                        blocks.push(Block::Call { id, tool, input });
                        self.calls.push(call);
                    }
                    other => panic!("{other:?}"),
                }
            }
            self.messages.push(Message { role: Role::Assistant, blocks });
            match answer {
                Some(answer) => {
                    assert_eq!(reply.finish, Finish::Stop);
                    self.calls.clear();
                    return answer;
                }
                None => {
                    assert_eq!(reply.finish, Finish::Calls);
                    self.messages.push(Message { role: Role::User, blocks: results });
                }
            }
        }
        panic!("it never ends");
    }

    fn ask(&mut self, question: &str) -> String {
        self.steps = 0;
        self.say(question).play()
    }
}

const ALL: &[&str] = &["bash", "glob", "grep", "list", "read"];

fn pattern(input: &Value) -> &str {
    input["pattern"].as_str().unwrap_or_default()
}

fn none(input: &Value) -> Result<String, String> {
    Ok(format!("No line matches {} in . (binary and ignored files are not searched).", pattern(input)))
}

/// A small repository with one struct.
fn widget_repo(tool: &str, input: &Value) -> Result<String, String> {
    let definition = "src/widget.rs:\n  7: pub struct Widget {\n";
    match (tool, pattern(input)) {
        ("grep", r"\bWidget\b") => Ok(format!(
            "README.md:\n  3: A `Widget` is small.\n\n{definition}  12: impl Widget {{\n\nsrc/main.rs:\n  2: use widget::Widget;\n  9:     let one = Widget::new();\n\ntests/all.rs:\n  4:     Widget::new();\n"
        )),
        ("grep", wanted) if wanted.contains(r"\bWidget\b") && wanted.starts_with(r"\b(?:fn") => Ok(definition.into()),
        ("grep", wanted) if wanted.starts_with("(?i)") && wanted.contains("widget") => Ok(definition.into()),
        ("glob", "**/*") => Ok("src/main.rs\nsrc/widget.rs\nREADME.md\ntests/all.rs".into()),
        ("glob", _) => Ok(format!("No files match {} in . (files that .gitignore excludes are not searched).", pattern(input))),
        _ => none(input),
    }
}

#[test]
fn a_definition_is_found_in_one_step() {
    let mut story = Story::new(ALL, widget_repo);
    assert_eq!(story.ask("Where is Widget defined?"), "`Widget` is defined here:\nsrc/widget.rs:7: pub struct Widget {");
    assert_eq!(story.steps, 2);
}

#[test]
fn definitions_come_before_uses_and_source_before_tests_before_docs() {
    let mut story = Story::new(ALL, widget_repo);
    assert_eq!(
        story.ask("find Widget"),
        "`Widget` is defined here:\n\
         src/widget.rs:7: pub struct Widget {\n\
         Lines with `Widget`:\n\
         src/main.rs:2: use widget::Widget;\n\
         src/main.rs:9: let one = Widget::new();\n\
         src/widget.rs:12: impl Widget {\n\
         tests/all.rs:4: Widget::new();\n\
         README.md:3: A `Widget` is small."
    );
}

#[test]
fn files_that_mention_it_are_listed_once_each() {
    let mut story = Story::new(ALL, widget_repo);
    assert_eq!(
        story.ask("Which files mention `Widget`?"),
        "6 lines in 4 files with `Widget`:\n\
         src/main.rs:2: use widget::Widget;\n\
         src/widget.rs:7: pub struct Widget {\n\
         tests/all.rs:4: Widget::new();\n\
         README.md:3: A `Widget` is small."
    );
}

#[test]
fn another_spelling_is_found_in_a_second_step() {
    let mut story = Story::new(ALL, widget_repo);
    assert_eq!(story.ask("where is widget defined?"), "Definitions of names like `widget`:\nsrc/widget.rs:7: pub struct Widget {");
    assert_eq!(story.steps, 3);
}

#[test]
fn what_is_not_there_is_said_with_the_number_of_files() {
    let mut story = Story::new(ALL, widget_repo);
    assert_eq!(story.ask("Where is frobnicate_all defined?"), "`frobnicate_all` not found; searched 4 files");
    assert_eq!(story.steps, 5);
    assert_eq!(story.ask("find the purple elephants"), "`purple elephants` not found; searched 4 files");
    assert!(story.steps <= 6, "{}", story.steps);
}

#[test]
fn without_glob_the_number_is_not_made_up() {
    let mut story = Story::new(&["grep"], widget_repo);
    assert_eq!(
        story.ask("Where is Sprocket?"),
        "`Sprocket` not found; searched with `grep`, as written, in other spellings and by its parts\nThe tool `glob` is not offered here, so I could not use it."
    );
}

#[test]
fn a_follow_up_is_answered_for_itself() {
    let mut story = Story::new(ALL, widget_repo);
    story.ask("Where is Widget defined?");
    assert_eq!(story.ask("And where is Sprocket?"), "`Sprocket` not found; searched 4 files");
    let ids: Vec<&str> = story
        .messages
        .iter()
        .flat_map(|message| &message.blocks)
        .filter_map(|block| if let Block::Call { id, .. } = block { Some(id.as_str()) } else { None })
        .collect();
    let mut distinct = ids.clone();
    distinct.dedup();
    assert_eq!((ids.len(), ids[0], ids[2]), (distinct.len(), "offline_0_0", "offline_2_0"));
}

#[test]
fn a_denied_tool_ends_in_words_and_not_in_a_loop() {
    let mut story = Story::new(ALL, |_, _| Err("Denied by a rule: grep.\nAsk the user.".into()));
    assert_eq!(story.ask("Where is Widget?"), "`Widget`: I could not search for it.\n`grep` failed: Denied by a rule: grep.");
    assert_eq!(story.steps, 2);
}

#[test]
fn the_closing_step_says_what_there_is() {
    let mut story = Story::new(ALL, widget_repo);
    let (reply, _) = story.say("Where is Widget?").reply(ToolChoice::None);
    assert_eq!(reply.unwrap().parts, [ReplyPart::Text("`Widget`: I could not search for it.\nNo step was left to search further.".into())]);

    let call = |pattern: &str| Block::Call { id: pattern.into(), tool: "grep".into(), input: json!({ "pattern": pattern }).to_string() };
    let result = |pattern: &str, text: &str| Block::Result {
        id: pattern.into(),
        tool: "grep".into(),
        text: text.into(),
        error: false,
        images: Vec::new(),
    };
    let exact = r"\bWidget\b";
    story.messages.push(Message { role: Role::Assistant, blocks: vec![call(exact)] });
    story.messages.push(Message { role: Role::User, blocks: vec![result(exact, "src/main.rs:\n  2: use widget::Widget;\n")] });
    let (reply, _) = story.reply(ToolChoice::None);
    let text = "Lines with `Widget`:\nsrc/main.rs:2: use widget::Widget;\nNo step was left to search further.";
    assert_eq!(reply.unwrap().parts, [ReplyPart::Text(text.into())]);
}

#[test]
fn long_answers_are_cut_and_say_so() {
    let mut story = Story::new(ALL, |tool, input| match (tool, pattern(input)) {
        ("grep", r"\bretry\b") => {
            let lines: Vec<String> = (1..=100).map(|line| format!("  {line}: retry({line});\n")).collect();
            Ok(format!("src/a.rs:\n{}\n(23 more matches are not shown; narrow the pattern, the path or include)", lines.concat()))
        }
        _ => none(input),
    });
    let answer = story.ask("show me usages of `retry`");
    let lines: Vec<&str> = answer.lines().collect();
    assert_eq!(lines.len(), 13);
    assert_eq!((lines[1], lines[11]), ("src/a.rs:1: retry(1);", "and 90 more"));
    assert_eq!(lines[12], "The search stopped at its limit: there may be more.");
    assert!(
        story.ask("how many times is `retry` called?").starts_with("123 lines in at least 1 file with `retry`:\nsrc/a.rs:1: retry(1);")
    );
}

#[test]
fn a_method_is_looked_for_where_its_type_is() {
    let mut story = Story::new(ALL, |tool, input| match (tool, pattern(input)) {
        ("grep", wanted) if wanted.contains("|impl|") => Ok("src/b.rs:\n  10: impl Session {\n".into()),
        ("grep", wanted) if wanted.contains(r"\bapply\b") => {
            Ok("src/a.rs:\n  3: pub fn apply() {\n\nsrc/b.rs:\n  12:     fn apply(&self) {\n".into())
        }
        _ => none(input),
    });
    assert_eq!(story.ask("Where is Session::apply defined?"), "`Session::apply` is defined here:\nsrc/b.rs:12: fn apply(&self) {");
}

#[test]
fn a_phrase_falls_back_to_its_words() {
    let mut story = Story::new(ALL, |tool, input| match (tool, pattern(input)) {
        ("grep", wanted) if wanted.contains(".*") && wanted.starts_with("(?i)(?:rate.*limit") => {
            Ok("src/lane.rs:\n  40: // The limit is a rate, not a count.\n".into())
        }
        ("glob", _) => Ok("No files match".into()),
        _ => none(input),
    });
    assert_eq!(
        story.ask("Where do we handle rate limits?"),
        "`rate limits` is nowhere as written; lines like it:\nsrc/lane.rs:40: // The limit is a rate, not a count."
    );
}

#[test]
fn a_file_is_found_by_name_and_shown_by_path() {
    let mut story = Story::new(ALL, |tool, input| match (tool, pattern(input), input["filePath"].as_str()) {
        ("glob", "**/main.rs", _) => Ok("crates/cli/src/main.rs".into()),
        ("read", _, Some("crates/cli/src/main.rs")) => Ok("1|fn main() {\n2|    run();\n3|}\n".into()),
        ("read", _, Some(path)) => Err(format!("{path} does not exist.")),
        _ => none(input),
    });
    assert_eq!(story.ask("where is main.rs"), "Files with `main.rs` in their path:\ncrates/cli/src/main.rs");
    assert_eq!(
        story.ask("show main.rs"),
        "crates/cli/src/main.rs:1: fn main() {\ncrates/cli/src/main.rs:2:     run();\ncrates/cli/src/main.rs:3: }"
    );
}

#[test]
fn files_and_tests_are_listed_and_counted() {
    let mut story = Story::new(ALL, |tool, input| match (tool, pattern(input)) {
        ("glob", "**/*.rs") => Ok("src/b.rs\nsrc/a.rs".into()),
        ("glob", "**/*") => Ok("src/b.rs\n(9 more match; narrow the pattern or the path)".into()),
        ("glob", wanted) if wanted.contains("test_") => Ok("tests/a.rs".into()),
        ("grep", wanted) if wanted.contains("test") => Ok("src/b.rs:\n  9:     #[test]\n  12:     #[test]\n".into()),
        ("grep", wanted) if wanted.contains("TODO") => Ok("src/b.rs:\n  1: // TODO: more\n".into()),
        _ => none(input),
    });
    assert_eq!(story.ask("list files matching *.rs"), "2 files matching `**/*.rs`:\nsrc/a.rs\nsrc/b.rs");
    assert_eq!(story.ask("how many files are there?"), "10 files matching `**/*`:\nsrc/b.rs\nand 9 more");
    assert_eq!(
        story.ask("list the tests"),
        "1 test file by name or folder:\ntests/a.rs\nTests begin in 2 lines of 1 file; the first of each:\nsrc/b.rs:9: #[test]"
    );
    assert_eq!(story.ask("list TODOs"), "to-dos, by the shape of the line: 1 line\nsrc/b.rs:1: // TODO: more");
}

#[test]
fn a_tour_quotes_what_it_saw() {
    let mut story = Story::new(ALL, |tool, input| match (tool, pattern(input)) {
        ("list", _) => Ok("./\n  crates/\n    cli/\n  Cargo.toml\n  README.md\n".into()),
        ("glob", wanted) if wanted.contains("Cargo.toml") => Ok("crates/cli/Cargo.toml\nCargo.toml".into()),
        ("glob", _) => Ok("tests/walk.rs".into()),
        ("grep", wanted) if wanted.contains("#{1,2}") => {
            Ok("README.md:\n  1: # Posse\n  3: Posse runs a team of coding agents.\n\ncrates/cli/README.md:\n  1: # Inner\n".into())
        }
        ("grep", wanted) if wanted.contains("fn main") => Ok("crates/cli/src/main.rs:\n  5: fn main() {\n".into()),
        ("grep", _) => Ok("crates/cli/Cargo.toml:\n  2: name = \"posse\"\n".into()),
        _ => none(input),
    });
    assert_eq!(
        story.ask("Give me a tour of this repository"),
        "A tour by rules and search, not an LLM: every line is quoted.\n\
         \nREADME:\nREADME.md:1: # Posse\nREADME.md:3: Posse runs a team of coding agents.\n\
         \nLayout:\ncrates/\nCargo.toml\nREADME.md\n\
         \nManifests:\nCargo.toml\ncrates/cli/Cargo.toml\ncrates/cli/Cargo.toml:2: name = \"posse\"\n\
         \nEntry points:\ncrates/cli/src/main.rs:5: fn main() {\n\
         \nTests, by file name or folder:\ntests/walk.rs"
    );
    assert_eq!(story.steps, 2);
}

#[test]
fn an_explanation_is_quotes_and_says_so() {
    let mut story = Story::new(ALL, widget_repo);
    let answer = story.ask("What is Widget?");
    assert!(
        answer.starts_with(
            "I am rules and search, not an LLM: these lines are what the files say.\n`Widget` is defined here:\nsrc/widget.rs:7:"
        ),
        "{answer}"
    );
}

#[test]
fn work_is_refused_with_what_to_do() {
    let mut story = Story::new(ALL, widget_repo);
    let error = story.say("fix the Widget").reply(ToolChoice::Auto).0.unwrap_err();
    assert_eq!(error.failure, ModelFailure::NeedsModel);
    assert_eq!(
        error.words,
        "needs a model: offline/explorer is rules and search and cannot fix; set ANTHROPIC_API_KEY, or OPENAI_API_KEY, or configure a provider in posse.json; `posse doctor` shows how"
    );
}

#[test]
fn a_greeting_is_one_polite_sentence_without_calls() {
    let mut story = Story::new(ALL, widget_repo);
    let answer = story.ask("hi");
    assert!(answer.starts_with("Hello, ") && answer.matches('.').count() == 1, "{answer}");
    assert_eq!(story.steps, 1);
}

#[test]
fn the_facts_and_the_bytes() {
    let model = Explorer::new();
    let facts = model.facts();
    assert_eq!(
        (facts.name.as_str(), facts.provider.as_str(), facts.context, facts.output, facts.images),
        ("offline/explorer", "offline", 1_000_000, 100_000, false)
    );
    let message = Message { role: Role::User, blocks: vec![Block::Text { text: "ä".into() }] };
    assert_eq!(model.encode(&message), Arc::from(serde_json::to_vec(&message).unwrap()));
}
