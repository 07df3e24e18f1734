//! skill: what the model is told of it, that rules see the skill's own name, and what comes back.
// Helpers of tests may panic like the tests themselves.
#![allow(clippy::unwrap_used)]

mod common;

use std::{fs, sync::Arc};

use common::{Office, metadata, words};
use posse_session::{Outcome, Tool};
use posse_tools::{FoundSkill, SkillTool};
use serde_json::json;

fn office(content: &str) -> Office {
    let mut office = Office::new();
    let content = content.to_owned();
    let find = move |name: &str| {
        let known = name.eq_ignore_ascii_case("pdf") || name.eq_ignore_ascii_case("kit:pdf");
        if known {
            Ok(FoundSkill { name: "kit:pdf".to_owned(), content: content.clone() })
        } else {
            Err(format!("skill: there is no skill `{name}`; there is: kit:pdf"))
        }
    };
    office.tools.push(Arc::new(SkillTool::new("- kit:pdf: reads PDF files".to_owned(), Arc::new(find))));
    office
}

#[test]
fn the_model_is_told_what_there_is() {
    let office = office("x");
    let tool = office.tool("skill");
    assert!(tool.spec().description.ends_with("\n\nSkills:\n- kit:pdf: reads PDF files"), "{}", tool.spec().description);
    assert_eq!(tool.spec().schema["required"], json!(["name"]));
    let none = SkillTool::new(String::new(), Arc::new(|_: &str| Err(String::new())));
    assert!(none.spec().description.ends_with("one that the user names can be called for)"));
}

#[test]
fn a_rule_sees_the_skills_own_name_however_it_was_called() {
    let office = office("x");
    for input in
        [json!({"name": "kit:pdf"}), json!({"name": " PDF "}), json!({"skill": "pdf"}), json!({"skill_name": "Kit:Pdf", "args": "x"})]
    {
        assert_eq!(office.touches("skill", input.clone()), ["skill kit:pdf"], "{input}");
    }
    let look = office.tool("skill").look(&json!({"name": "pdf"}), &*office.context.workspace).unwrap();
    assert!(look.repeatable && look.title == "kit:pdf");
    for (input, complaint) in [
        (json!({"name": "word"}), "error: skill: there is no skill `word`; there is: kit:pdf"),
        (json!({"name": " "}), "error: skill: parameter `name` must not be empty."),
        (
            json!({}),
            "error: skill: the required parameter `name` (a string) is missing; the call had no parameters at all. Call skill again with it.",
        ),
    ] {
        assert_eq!(office.touches("skill", input), [complaint]);
    }
}

#[tokio::test]
async fn its_text_comes_back_whole_or_with_a_file_that_has_the_rest() {
    let short = office("<skill_content name=\"kit:pdf\">\nDo it.\n</skill_content>");
    let outcome = short.run("skill", json!({"name": "pdf"})).await;
    assert_eq!(words(&outcome), "<skill_content name=\"kit:pdf\">\nDo it.\n</skill_content>");
    assert_eq!(metadata(&outcome), json!({"name": "kit:pdf"}));
    assert!(matches!(&outcome, Outcome::Done { title, .. } if title == "kit:pdf"));

    let hidden = office("be\u{202e}ware");
    assert!(!words(&hidden.run("skill", json!({"name": "pdf"})).await).contains('\u{202e}'), "letters that hide are shown");

    let content = "a line of a long skill\n".repeat(10_000);
    let long = office(&content);
    let shown = words(&long.run("skill", json!({"name": "pdf"})).await);
    assert!(shown.len() <= 64 * 1024, "{}", shown.len());
    let path = fs::read_dir(&long.context.spool).unwrap().next().unwrap().unwrap().path();
    assert!(shown.contains(path.to_str().unwrap()), "the cut names the file");
    assert_eq!(fs::read_to_string(path).unwrap(), content.trim_end());

    let failed = long.run("skill", json!({"name": "word"})).await;
    assert_eq!(words(&failed), "skill: there is no skill `word`; there is: kit:pdf");
}
