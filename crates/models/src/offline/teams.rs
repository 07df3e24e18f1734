//! Stories of a team: the leader's calls, the explorers' facts, and both ends played together with canned tools.
//!
//! A delegation call is answered here by thinking again as the child, so that a prompt that only one end knows shows at once.

use posse_session::{Block, Finish, Head, Message, ReplyPart, Role, ToolChoice, ToolSpec};
use serde_json::{Value, json};

use super::{
    found, lead, scout,
    survey::{Field, Survey},
    terms::Term,
    think,
};

/// What a fake tool answers: `Err` is a failed or denied call.
type Fake = fn(&str, &Value) -> Result<String, String>;

const SEEING: &[&str] = &["glob", "grep", "list", "read"];

const AGENTS: &str = "Starts an agent.\n\nAgents:\n- general: many steps\n- explore: looks around, changes nothing\n\nWhen not to use it:\n- a known path: read it";

fn spec(name: &str, description: &str) -> ToolSpec {
    ToolSpec { name: name.into(), description: description.into(), schema: json!({"type": "object"}) }
}

fn head(delegation: Option<(&str, &str)>, others: &[&str]) -> Head {
    let mut tools: Vec<ToolSpec> = others.iter().map(|name| spec(name, "")).collect();
    tools.extend(delegation.map(|(name, description)| spec(name, description)));
    Head { tools, ..Head::default() }
}

fn user(text: &str) -> Message {
    Message { role: Role::User, blocks: vec![Block::Text { text: text.into() }] }
}

/// The calls of the next reply, or its text.
fn next(head: &Head, messages: &[Message], choice: ToolChoice) -> Result<Vec<(String, Value)>, String> {
    let reply = think(head, messages, choice).unwrap();
    assert_eq!(think(head, messages, choice).unwrap(), reply, "a step tried again gives the same reply");
    let mut calls = Vec::new();
    for part in reply.parts {
        match part {
            ReplyPart::Text(text) => {
                assert_eq!((reply.finish, calls.len()), (Finish::Stop, 0));
                return Err(text);
            }
            ReplyPart::Call { tool, input, .. } => calls.push((tool, serde_json::from_str(&input).unwrap())),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(reply.finish, Finish::Calls);
    Ok(calls)
}

/// Appends what was called and what came back, as the engine would.
fn answered(messages: &mut Vec<Message>, calls: Vec<(String, Value)>, tell: &mut dyn FnMut(&str, &Value) -> Result<String, String>) {
    let (mut asked, mut told) = (Vec::new(), Vec::new());
    for (number, (tool, input)) in calls.into_iter().enumerate() {
        let id = format!("{}_{number}", messages.len());
        let (text, error) = tell(&tool, &input).map_or_else(|words| (words, true), |text| (text, false));
        told.push(Block::Result { id: id.clone(), tool: tool.clone(), text, error, images: Vec::new() });
        asked.push(Block::Call { id, tool, input: input.to_string() });
    }
    messages.push(Message { role: Role::Assistant, blocks: asked });
    messages.push(Message { role: Role::User, blocks: told });
}

/// One explorer from its prompt to its answer, and how many calls it made.
fn explorer(prompt: &str, offered: &[&str], tools: Fake) -> (String, usize) {
    let head = head(None, offered);
    let mut messages = vec![user(prompt)];
    let mut count = 0;
    for _ in 0..10 {
        match next(&head, &messages, ToolChoice::Auto) {
            Err(answer) => return (answer, count),
            Ok(calls) => {
                count += calls.len();
                answered(&mut messages, calls, &mut |tool, input| tools(tool, input));
            }
        }
    }
    panic!("it never ends: {prompt}");
}

/// A leader and its explorers. The delegation tool adds its tail, and what is told instead is from `instead`.
fn team(question: &str, tools: Fake, instead: &dyn Fn(&str) -> Option<Result<String, String>>) -> (String, Vec<(String, usize)>) {
    let head = head(Some(("agent", AGENTS)), SEEING);
    let mut messages = vec![user(question)];
    let mut explorers = Vec::new();
    for _ in 0..10 {
        match next(&head, &messages, ToolChoice::Auto) {
            Err(answer) => return (answer, explorers),
            Ok(calls) => answered(&mut messages, calls, &mut |tool, input| {
                if tool != "agent" {
                    return tools(tool, input);
                }
                let title = input["description"].as_str().unwrap();
                if let Some(told) = instead(title) {
                    return told;
                }
                let (answer, count) = explorer(input["prompt"].as_str().unwrap(), SEEING, tools);
                explorers.push((title.to_string(), count));
                Ok(format!("{answer}\n\ntask_id: ses_{title}"))
            }),
        }
    }
    panic!("it never ends: {question}");
}

/// The prompts of the first reply, or `None` when it does not delegate.
fn errands(head: &Head, question: &str) -> Option<Vec<(String, String)>> {
    let calls = next(head, &[user(question)], ToolChoice::Auto).ok()?;
    let errand = |(tool, input): &(String, Value)| {
        assert_eq!(input.as_object().unwrap().keys().collect::<Vec<_>>(), ["description", "prompt", "subagent_type"]);
        assert_eq!(input["subagent_type"], "explore");
        let text = |key: &str| input[key].as_str().unwrap().to_string();
        lead::TOOLS.contains(&tool.as_str()).then(|| (text("description"), text("prompt")))
    };
    let is_led = calls.iter().any(|(tool, _)| lead::TOOLS.contains(&tool.as_str()));
    is_led.then(|| calls.iter().map(|call| errand(call).unwrap()).collect())
}

#[test]
fn a_tour_is_four_explorers_in_one_reply() {
    for tool in ["agent", "task", "Agent"] {
        let errands = errands(&head(Some((tool, AGENTS)), SEEING), "Give me a tour of this repository").unwrap();
        let titles: Vec<&str> = errands.iter().map(|(title, _)| title.as_str()).collect();
        assert_eq!(titles, ["layout", "entry points", "definitions", "tests and docs"], "{tool}");
        assert_eq!(
            errands[0].1,
            "Find the layout and manifests of this repository. Thoroughness: medium. \
             Wanted: what it is for, its languages, folders, packages and what they depend on. \
             Answer with facts only, one a line: `path:line: what stands there`."
        );
    }
}

#[test]
fn questions_about_the_repository_are_led_and_lookups_are_not() {
    let head = head(Some(("agent", AGENTS)), SEEING);
    for (question, about) in [
        ("Give me a tour of this repository", ""),
        ("give me an overview", ""),
        ("What is this project?", ""),
        ("How is this repository organised?", ""),
        ("describe the architecture", ""),
        ("explain this codebase", ""),
        ("What is ToolChoice?", " about `ToolChoice`"),
        ("how does the retry back-off work?", " about `back-off`"),
        ("explain `Lane` and `Ledger`", " about `Lane` and `Ledger`"),
        ("tell me about the session log", " about `session log`"),
    ] {
        let errands = errands(&head, question).unwrap_or_else(|| panic!("not led: {question}"));
        assert_eq!(errands.len(), 4, "{question}");
        let starts = |subject: &str| format!("Find the {subject} of this repository{about}. Thoroughness: medium.");
        for ((_, prompt), subject) in errands.iter().zip(["layout and manifests", "entry points", "definitions", "tests and docs"]) {
            assert!(prompt.starts_with(&starts(subject)), "{question}: {prompt}");
        }
    }
    for question in [
        "Where is Widget defined?",
        "find TODO",
        "list the tests",
        "how many rust files are there?",
        "which files mention Widget?",
        "explain src/main.rs",
        "explain `Desk` in crates/models",
        "show README.md",
        "hi",
    ] {
        assert_eq!(errands(&head, question), None, "{question}");
    }
}

#[test]
fn without_someone_to_send_it_works_alone() {
    let question = "Give me a tour of this repository";
    for (name, delegation) in [
        ("no tool", None),
        ("another tool", Some(("delegate_task", AGENTS))),
        ("nobody explores", Some(("agent", "Agents:\n- general: many steps; explore: no"))),
    ] {
        let head = head(delegation, SEEING);
        let tools: Vec<String> = next(&head, &[user(question)], ToolChoice::Auto).unwrap().into_iter().map(|(tool, _)| tool).collect();
        assert_eq!(tools, ["list", "grep", "glob", "grep", "grep", "glob"], "{name}");
    }
    let closing = next(&head(Some(("agent", AGENTS)), SEEING), &[user(question)], ToolChoice::None).unwrap_err();
    assert_eq!(closing, next(&head(None, SEEING), &[user(question)], ToolChoice::None).unwrap_err());
}

#[test]
fn the_agent_is_called_as_the_tool_lists_it() {
    let head = head(Some(("Agent", "- Explore: looks around (Tools: Read, Grep)")), SEEING);
    let calls = next(&head, &[user("Give me a tour")], ToolChoice::Auto).unwrap();
    assert!(calls.iter().all(|(tool, input)| tool == "Agent" && input["subagent_type"] == "Explore"), "{calls:?}");
}

/// A small Rust workspace, by what is searched for in it.
fn workspace(tool: &str, input: &Value) -> Result<String, String> {
    let pattern = input["pattern"].as_str().unwrap_or_default();
    let include = input["include"].as_str().unwrap_or_default();
    let has = |part: &str| pattern.contains(part);
    Ok(match tool {
        "list" => "./\n  crates/\n    pack/\n      src/\n        lib.rs\n        main.rs\n      Cargo.toml\n  docs/\n    guide.md\n  Cargo.toml\n  README.md\n".into(),
        "read" if input["filePath"] == "README.md" => "1|# Pack\n2|\n3|[![ci](badge)](link)\n4|\n5|Pack squeezes files.\n6|It is fast.\n".into(),
        "read" if input["filePath"] == "Cargo.toml" => "1|[workspace]\n2|members = [\"crates/*\"]\n".into(),
        "glob" if pattern == "**/*" => "crates/pack/src/lib.rs\ncrates/pack/src/main.rs\ncrates/pack/Cargo.toml\ndocs/guide.md\nCargo.toml\nREADME.md".into(),
        "glob" if has("Cargo.toml") => "Cargo.toml\ncrates/pack/Cargo.toml".into(),
        "glob" if has("__main__.py") => "crates/pack/src/main.rs\ncrates/pack/src/lib.rs".into(),
        "glob" if has("test_*") => "crates/pack/tests/round.rs".into(),
        "glob" if has("*.{md") => "README.md\ndocs/guide.md".into(),
        "grep" if has("artifactId") => "crates/pack/Cargo.toml:\n  2: name = \"pack\"\n".into(),
        "grep" if has("fn main") => "crates/pack/src/main.rs:\n  4: fn main() {\n".into(),
        "grep" if has("console_scripts") => "crates/pack/Cargo.toml:\n  7: [[bin]]\n  8: name = \"pack\"\n  9: test = false\n".into(),
        "grep" if has(r"\A") && include.starts_with("{lib") => "crates/pack/src/lib.rs:\n  1: //! Squeezing, in blocks.\n  2: //! No files here.\n".into(),
        "grep" if has("pub (?:unsafe") && input["outputMode"] == "count" => "crates/pack/src/lib.rs: 2\ncrates/pack/src/main.rs: 1\n(3 matches in 2 files)".into(),
        "grep" if has("pub (?:unsafe") => "crates/pack/src/lib.rs:\n  9: pub struct Block {\n  30: pub fn squeeze(input: &[u8]) -> Vec<Block> {\n\ncrates/pack/src/main.rs:\n  2: struct Private {\n".into(),
        "grep" if has("cargo ") => "README.md:\n  12: Run `cargo test`.\n".into(),
        "grep" if has(r"\bfn \w+[") => "crates/pack/tests/round.rs:\n  3: #[test]\n  4: fn what_goes_in_comes_out() {\n".into(),
        "grep" if has("(?:#|=) +") => "README.md:\n  1: # Pack\n\ndocs/guide.md:\n  1: # Guide\n  9: # More\n".into(),
        "grep" => format!("No line matches {pattern} in . (binary and ignored files are not searched)."),
        _ => format!("No files match {pattern} in . (files that .gitignore excludes are not searched)."),
    })
}

#[test]
fn a_team_gives_a_tour_of_quoted_facts() {
    let (answer, explorers) = team("Give me a tour of this repository", workspace, &|_| None);
    assert_eq!(
        answer,
        "## Layout and manifests\n\
         README.md:1: # Pack\n\
         README.md:5: Pack squeezes files.\n\
         README.md:6: It is fast.\n\
         Cargo.toml:2: members = [\"crates/*\"]\n\
         README.md:1: one of 6 files\n\
         crates/pack/src/lib.rs:1: one of 2 Rust files\n\
         README.md:1: one of 2 Markdown files\n\
         crates/pack/Cargo.toml:1: crates/ holds pack/\n\
         docs/guide.md:1: docs/ holds guide.md\n\
         crates/pack/Cargo.toml:2: name = \"pack\"\n\
         \n\
         ## Entry points\n\
         crates/pack/src/main.rs:4: fn main() {\n\
         crates/pack/Cargo.toml:7: [[bin]]\n\
         crates/pack/Cargo.toml:8: name = \"pack\"\n\
         \n\
         ## Definitions\n\
         crates/pack/src/lib.rs:1: //! Squeezing, in blocks.\n\
         crates/pack/src/lib.rs:9: pub struct Block {\n\
         crates/pack/src/lib.rs:30: pub fn squeeze(input: &[u8]) -> Vec<Block> {\n\
         \n\
         ## Tests and docs\n\
         README.md:12: Run `cargo test`.\n\
         crates/pack/tests/round.rs:1: a test file in crates/pack/tests/\n\
         crates/pack/tests/round.rs:4: fn what_goes_in_comes_out() {\n\
         docs/guide.md:1: # Guide"
    );
    let counts: Vec<(&str, usize)> = explorers.iter().map(|(title, count)| (title.as_str(), *count)).collect();
    assert_eq!(counts, [("layout", 6), ("entry points", 6), ("definitions", 4), ("tests and docs", 6)]);
}

#[test]
fn an_explorer_answers_with_places_only() {
    for field in Field::ALL {
        let (answer, count) = explorer(&Survey { field, terms: Vec::new() }.prompt(), SEEING, workspace);
        assert!((2..=scout::CALLS_MAX).contains(&count), "{count} calls: {answer}");
        assert!(answer.lines().all(|line| found::flat(line).is_some()), "{answer}");
    }
}

/// Where a type is defined, used, tested and told about.
fn ledger_repo(tool: &str, input: &Value) -> Result<String, String> {
    let pattern = input["pattern"].as_str().unwrap_or_default();
    let include = input["include"].as_str().unwrap_or_default();
    let definition = "src/ledger.rs:\n  14: pub struct Ledger {\n";
    Ok(match tool {
        "read" if input == &json!({"filePath": "src/ledger.rs", "offset": 6, "limit": 9}) => {
            "6|use a::b;\n7|\n8|/// What a tree has spent.\n9|///\n10|/// Never negative.\n11|#[derive(Debug)]\n12|#[must_use]\n13|// Whole cents.\n14|pub struct Ledger {\n".into()
        }
        "read" => return Err("unexpected".into()),
        "glob" if pattern.contains("ledger") => "src/ledger.rs\ntests/ledger.rs".into(),
        "grep" if include.contains("README*") => "README.md:\n  7: The ledger counts money.\n".into(),
        "grep" if pattern.contains("test") => "src/ledger.rs:\n  90: #[test]\n  91: fn a_ledger_counts() {\n".into(),
        "grep" if include.contains("test_") => "tests/ledger.rs:\n  3: use crate::Ledger;\n  9: let ledger = Ledger::new();\n".into(),
        "grep" if include.contains("md") => "docs/money.md:\n  4: the ledger is kept\n  9: # The ledger\n".into(),
        "grep" if pattern.starts_with(r"\b(?:fn") => definition.into(),
        "grep" if pattern.starts_with("(?i)") || pattern == r"\bLedger\b" => {
            format!("{definition}  20: impl Ledger {{\n\nsrc/run.rs:\n  2: // The ledger is asked first.\n  3: use ledger::Ledger;\n  8: let ledger = Ledger::new();\n  9: ledger.spend(1);\n\ntests/ledger.rs:\n  3: use crate::Ledger;\n")
        }
        _ => format!("No line matches {pattern} in . (binary and ignored files are not searched)."),
    })
}

#[test]
fn a_team_explains_a_name_from_all_sides() {
    let (answer, explorers) = team("How does Ledger work?", ledger_repo, &|_| None);
    assert_eq!(
        answer,
        "## Files and manifests\n\
         src/ledger.rs:1: the path has `Ledger` in it\n\
         tests/ledger.rs:1: the path has `Ledger` in it\n\
         README.md:7: The ledger counts money.\n\
         \n\
         ## Uses\n\
         src/run.rs:3: use ledger::Ledger;\n\
         src/run.rs:8: let ledger = Ledger::new();\n\
         src/run.rs:9: ledger.spend(1);\n\
         \n\
         ## Definitions\n\
         src/ledger.rs:8: /// What a tree has spent.\n\
         src/ledger.rs:10: /// Never negative.\n\
         src/ledger.rs:13: // Whole cents.\n\
         src/ledger.rs:14: pub struct Ledger {\n\
         \n\
         ## Tests and docs\n\
         src/ledger.rs:91: fn a_ledger_counts() {\n\
         tests/ledger.rs:3: use crate::Ledger;\n\
         tests/ledger.rs:9: let ledger = Ledger::new();\n\
         docs/money.md:4: the ledger is kept\n\
         docs/money.md:9: # The ledger"
    );
    assert!(explorers.iter().all(|(_, count)| *count <= 4), "{explorers:?}");
}

/// Everything is everywhere, and more of it than is shown.
fn huge(tool: &str, input: &Value) -> Result<String, String> {
    let many = |line: fn(usize) -> String| (0..300).map(line).collect::<String>();
    Ok(match tool {
        "list" => {
            format!("./\n{}(9999 folders marked … were not opened; call list with their path)\n", many(|at| format!("  part{at}/ …\n")))
        }
        "glob" if input["pattern"].as_str().unwrap().contains("test_*") => many(|at| format!("part{at}/tests/t{at}.rs\n")),
        "glob" if input["pattern"].as_str().unwrap().contains("*.{md") => many(|at| format!("docs/d{at}.md\n")),
        "glob" => format!("{}(99999 more match; narrow the pattern or the path)", many(|at| format!("part{at}/src/f{at}.rs\n"))),
        "grep" if input["outputMode"] == "count" => many(|at| format!("part{at}/src/f{at}.rs: {at}\n")),
        "grep" => format!(
            "{}\n(at least 1700 more matches are not shown)",
            many(|at| format!("part{at}/src/f{at}.rs:\n  {at}: pub struct F{at};\n"))
        ),
        _ => many(|at| format!("{at}|name = \"x\"\n")),
    })
}

#[test]
fn an_explorer_is_bounded_in_a_huge_repository() {
    let names = |names: &[&str]| names.iter().map(|name| Term::Name(name.to_string())).collect::<Vec<_>>();
    for terms in [vec![], names(&["retry"]), names(&["one", "two", "three_four"]), vec![Term::Phrase(vec!["rate".into(), "limits".into()])]]
    {
        for field in Field::ALL {
            let (answer, count) = explorer(&Survey { field, terms: terms.clone() }.prompt(), SEEING, huge);
            let facts = answer.lines().filter(|line| found::flat(line).is_some()).count();
            assert!(count <= scout::CALLS_MAX && facts <= scout::FACTS_MAX, "{field:?} {terms:?}: {count} calls\n{answer}");
        }
    }
}

#[test]
fn what_is_nowhere_costs_few_calls_and_is_said() {
    let nowhere: Fake = |tool, input| Ok(format!("No {tool} {} (nothing).", input["pattern"]));
    let (answer, explorers) = team("What are the purple elephants?", nowhere, &|_| None);
    assert_eq!(
        answer,
        "There is nothing to quote about `purple elephants`: 4 agents looked for layout, entry points, definitions, tests and docs and found nothing."
    );
    assert!(explorers.iter().all(|(_, count)| *count <= scout::CALLS_MAX), "{explorers:?}");
    let (_, explorers) = team("Explain `one_two`, `three_four` and `five_six`", nowhere, &|_| None);
    assert_eq!(explorers[2], ("definitions".to_string(), scout::CALLS_MAX));
    let (answer, _) = team("Give me a tour", nowhere, &|_| None);
    assert_eq!(
        answer,
        "There is nothing to quote: 4 agents looked for layout, entry points, definitions, tests and docs and found nothing."
    );
}

#[test]
fn an_explorer_whose_tools_fail_or_are_missing_says_so() {
    let denied: Fake = |_, _| Err("Denied by a rule.\nAsk the user.".into());
    for field in Field::ALL {
        for terms in [vec![], vec![Term::Name("Lane".into())]] {
            let prompt = Survey { field, terms }.prompt();
            let (answer, _) = explorer(&prompt, SEEING, denied);
            assert!(answer.contains("I found nothing to quote.") && answer.contains("failed: Denied by a rule."), "{answer}");
            let (answer, count) = explorer(&prompt, &[], denied);
            assert!(count == 0 && answer.contains("is not offered here"), "{answer}");
        }
    }
}

#[test]
fn a_merge_quotes_places_once_and_names_who_failed() {
    let told = |title: &str| {
        Some(match title {
            "layout" => Ok("I looked around.\nREADME.md:1: # A\nsrc/a.rs:2: fn a()\n\n<task_metadata>\nsession_id: ses_1:2: x\ntask_id: ses_1\n</task_metadata>".into()),
            "entry points" => Err("src/main.rs:4: fn main() {\n\nThe task failed after 3 steps: the model did not answer.\n\ntask_id: ses_2".into()),
            "definitions" => Ok("src/a.rs:2: fn a()\nsrc/b.rs:2: fn b()\n\nlimit: 2 steps\n\ntask_id: ses_3".into()),
            _ => Ok("Tests and docs: I found nothing to quote.\n\ntask_id: ses_4".into()),
        })
    };
    let (answer, _) = team("Give me a tour", workspace, &told);
    assert_eq!(
        answer,
        "## Layout and manifests\n\
         README.md:1: # A\n\
         src/a.rs:2: fn a()\n\
         \n\
         ## Entry points\n\
         src/main.rs:4: fn main() {\n\
         The agent for entry points failed: The task failed after 3 steps: the model did not answer.\n\
         \n\
         ## Definitions\n\
         src/b.rs:2: fn b()\n\
         The agent for definitions stopped at a limit: 2 steps\n\
         \n\
         ## Tests and docs\n\
         Tests and docs: I found nothing to quote."
    );
}

#[test]
fn the_tail_of_a_result_is_no_reason() {
    for tail in ["task_id: ses_1", "<task_metadata>\nsession_id: ses_1\ntask_id: ses_1\n</task_metadata>"] {
        let (answer, _) = team("Give me a tour", workspace, &|_| Some(Err(format!("a.rs:1: x\n\n{tail}"))));
        assert!(answer.starts_with("## Layout and manifests\na.rs:1: x\nThe agent for layout failed: it gave no reason\n"), "{answer}");
    }
}

#[test]
fn a_reason_with_a_place_is_no_fact_and_a_quoted_tail_is_one() {
    let told = |title: &str| {
        Some(match title {
            "layout" => Err("Stopped at src/a.rs:12: boom".into()),
            _ => Ok("src/w.rs:3: \"<task_metadata>\"\nmy docs/w.md:4: </task_metadata>\n\n<task_metadata>\ntask_id: s\n</task_metadata>\n"
                .into()),
        })
    };
    let (answer, _) = team("Give me a tour", workspace, &told);
    assert!(
        answer.starts_with(
            "## Layout and manifests\nThe agent for layout failed: Stopped at src/a.rs:12: boom\n\n\
             ## Entry points\nsrc/w.rs:3: \"<task_metadata>\"\nmy docs/w.md:4: </task_metadata>\n\n"
        ),
        "{answer}"
    );
}

#[test]
fn a_field_that_adds_nothing_new_says_so() {
    let (answer, _) = team("Give me a tour", workspace, &|_| Some(Ok("a.rs:1: x".into())));
    assert!(
        answer.starts_with("## Layout and manifests\na.rs:1: x\n\n## Entry points\nAll that was found for this is quoted above.\n"),
        "{answer}"
    );
}

#[test]
fn when_every_agent_fails_it_looks_by_itself() {
    let (answer, _) = team("What is Ledger?", ledger_repo, &|_| Some(Err("Denied by a rule: task.\nAsk the user.".into())));
    assert!(answer.contains("`Ledger` is defined here:\nsrc/ledger.rs:14: pub struct Ledger {"), "{answer}");
    let failures: Vec<&str> = answer.lines().filter(|line| line.ends_with("failed: Denied by a rule: task.")).collect();
    assert_eq!(failures.len(), 4, "{answer}");
    assert_eq!(failures[0], "The agent for layout failed: Denied by a rule: task.");
}

#[test]
fn the_closing_step_merges_what_came_back() {
    let head = head(Some(("agent", AGENTS)), SEEING);
    let mut messages = vec![user("Give me a tour")];
    let mut calls = next(&head, &messages, ToolChoice::Auto).unwrap();
    calls.truncate(1);
    answered(&mut messages, calls, &mut |_, _| Ok("README.md:1: # A".into()));
    let answer = next(&head, &messages, ToolChoice::None).unwrap_err();
    assert!(
        answer.starts_with(
            "## Layout and manifests\nREADME.md:1: # A\n\n## Entry points\nThe agent for entry points failed: no step was left"
        ),
        "{answer}"
    );
}

#[test]
fn a_mentioned_agent_is_sent_with_the_users_words() {
    let head = head(Some(("task", AGENTS)), SEEING);
    let hint = "Use the above message and context to generate a prompt and call the task tool with subagent: explore";
    for (said, prompt) in [
        ("Where is Widget defined? @explore", "Where is Widget defined?"),
        ("ask @explore to find Widget", "find Widget"),
        ("@explore, where is Widget?", "where is Widget?"),
        ("please have a look at Widget with @explore", "please have a look at Widget with"),
    ] {
        let message = Message { role: Role::User, blocks: vec![Block::Text { text: said.into() }, Block::Text { text: hint.into() }] };
        let mut messages = vec![message];
        let calls = next(&head, &messages, ToolChoice::Auto).unwrap();
        assert_eq!((calls.len(), &calls[0].1["prompt"], &calls[0].1["subagent_type"]), (1, &json!(prompt), &json!("explore")), "{said}");
        answered(&mut messages, calls, &mut |_, _| {
            Ok("src/widget.rs:7: pub struct Widget {\n\n<task_metadata>\nsession_id: s\ntask_id: s\n</task_metadata>".into())
        });
        assert_eq!(next(&head, &messages, ToolChoice::Auto).unwrap_err(), "src/widget.rs:7: pub struct Widget {");
    }
    let nobody = hint.replace("explore", "zebra");
    assert_eq!(
        next(&head, &[user(&format!("find x @zebra\n{nobody}"))], ToolChoice::Auto).unwrap_err(),
        "I cannot send `zebra`: no tool that is offered here lists that agent."
    );
}

#[test]
fn the_result_of_a_task_that_the_user_ran_is_handed_on() {
    let head = head(Some(("task", AGENTS)), SEEING);
    let mut messages = vec![user("The following tool was executed by the user")];
    let calls = vec![("task".to_string(), json!({"prompt": "a"})), ("task".to_string(), json!({"prompt": "b"}))];
    answered(&mut messages, calls, &mut |_, input| {
        if input["prompt"] == "a" { Ok("src/a.rs:1: a\n\ntask_id: ses_1".into()) } else { Err("no such agent".into()) }
    });
    messages.push(user("Summarize the task tool output above and continue with your task."));
    assert_eq!(next(&head, &messages, ToolChoice::Auto).unwrap_err(), "src/a.rs:1: a\n\nThe task failed: no such agent");
}

#[test]
fn a_use_says_more_than_an_import() {
    let imported: Fake = |_, _| Ok((0..30).map(|at| format!("src/f{at:02}.rs:\n  1: use crate::Lane;\n  9: Lane::new();\n")).collect());
    let survey = Survey { field: Field::EntryPoints, terms: vec![Term::Name("Lane".into())] };
    let (answer, _) = explorer(&survey.prompt(), SEEING, imported);
    let expected: Vec<String> = (0..16).map(|at| format!("src/f{at:02}.rs:9: Lane::new();")).collect();
    assert_eq!(answer.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn a_plain_word_finds_what_is_named_after_it() {
    let named: Fake = |tool, input| {
        let pattern = input["pattern"].as_str().unwrap_or_default();
        Ok(match tool {
            "grep" if pattern.starts_with("(?i)") => "src/k.rs:\n  3: pub struct Keeper {\n\ntests/k.rs:\n  7: fn keeper() {\n".into(),
            "grep" => "tests/k.rs:\n  7: fn keeper() {\n".into(),
            _ => return Err("gone".into()),
        })
    };
    let survey = Survey { field: Field::Definitions, terms: vec![Term::Name("keeper".into())] };
    let (answer, _) = explorer(&survey.prompt(), SEEING, named);
    assert_eq!(answer, "src/k.rs:3: pub struct Keeper {\ntests/k.rs:7: fn keeper() {");
}

#[test]
fn a_library_shows_what_it_hands_out() {
    let library: Fake = |tool, input| {
        let pattern = input["pattern"].as_str().unwrap_or_default();
        Ok(match tool {
            "grep" if pattern.contains("fn main") => {
                "build.rs:\n  2: fn main() {\n\ndocs/a.md:\n  4: fn main() {\n\nscripts/a.sh:\n  1: #!/bin/sh\n  7: #!/bin/sh\n".into()
            }
            "glob" => "src/lib.rs".into(),
            "read" if input["filePath"] == "src/lib.rs" => "1|//! Packs.\n2|use std::io;\n3|pub mod zip;\n4|mod inner;\n".into(),
            _ => format!("No line matches {pattern} in ."),
        })
    };
    let (answer, _) = explorer(&Survey { field: Field::EntryPoints, terms: Vec::new() }.prompt(), SEEING, library);
    assert_eq!(answer, "src/lib.rs:1: //! Packs.\nsrc/lib.rs:3: pub mod zip;\nbuild.rs:2: fn main() {\nscripts/a.sh:1: #!/bin/sh");
}

#[test]
fn below_the_top_files_are_read_from_where_one_stands_and_languages_counted_by_the_tool() {
    let below: Fake = |tool, input| {
        let pattern = input["pattern"].as_str().unwrap_or_default();
        Ok(match (tool, pattern) {
            ("list", _) => "web/\n  src/\n    app.ts\n    b.ts\n  README.md\n".into(),
            ("glob", "**/*") => "web/src/app.ts\n(1133 more match; narrow the pattern or the path)".into(),
            ("glob", "**/*.{ts,tsx,mts,cts}") => "web/src/b.ts\nweb/src/app.ts\n(898 more match; narrow the pattern or the path)".into(),
            ("glob", "**/*.{md,mdx}") => "web/README.md".into(),
            ("read", _) if input["filePath"] == "README.md" => "1|# Web\n".into(),
            ("read", _) => return Err("does not exist".into()),
            _ => format!("No files match {pattern} in ."),
        })
    };
    let (answer, count) = explorer(&Survey { field: Field::Layout, terms: Vec::new() }.prompt(), SEEING, below);
    assert_eq!(
        answer,
        "web/README.md:1: # Web\n\
         web/README.md:1: one of 1134 files\n\
         web/src/app.ts:1: one of 900 TypeScript files\n\
         web/README.md:1: the only Markdown file\n\
         web/src/app.ts:1: src/ holds app.ts, b.ts"
    );
    assert_eq!(count, 7);
}
