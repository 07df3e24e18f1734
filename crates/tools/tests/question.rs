//! question: what may be asked, that it always needs a person, and how the answer reaches the model.
// Helpers of tests may panic like the tests themselves.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Office, fresh_call, metadata, words};
use posse_session::{Outcome, ToolCall};
use serde_json::{Value, json};

async fn answered(office: &Office, input: Value, answer: Option<&str>) -> Outcome {
    let tool = office.tool("question");
    tool.look(&input, &*office.context.workspace).unwrap();
    let call = ToolCall { id: fresh_call(), input, answer: answer.map(str::to_owned) };
    tool.run(&call, &office.context).await
}

#[tokio::test]
async fn the_words_of_a_person_are_the_result() {
    let office = Office::new();
    let input = json!({"questions": [
        {"question": "Which database?", "header": "Database", "options": [{"label": "SQLite", "description": "a file"}, {"label": "PostgreSQL"}]},
        {"question": "Which checks?", "options": ["fmt", "clippy", "tests"], "multiSelect": true},
    ]});
    let outcome = answered(&office, input.clone(), Some("2; 1,3")).await;
    assert_eq!(
        words(&outcome),
        "The user answered.\nQuestion: Which database?\nAnswer: PostgreSQL\nQuestion: Which checks?\nAnswer: fmt, tests"
    );
    assert_eq!(metadata(&outcome), json!({"answers": [["PostgreSQL"], ["fmt", "tests"]]}));
    let Outcome::Done { title, .. } = outcome else { panic!() };
    assert_eq!(title, "PostgreSQL, fmt, tests");

    // A list as a string, no options, own words.
    let free = json!({"questions": "[{\"question\": \"Name?\"}]"});
    assert_eq!(
        words(&answered(&office, free, Some(" Ada; Lovelace\n")).await),
        "The user answered.\nQuestion: Name?\nAnswer: Ada; Lovelace"
    );

    let nobody = answered(&office, input, None).await;
    assert_eq!(
        nobody,
        Outcome::failed("Nobody answered the question. Go on with what you know, or say in your answer what you need to know.")
    );
}

#[test]
fn only_a_person_can_answer_and_bad_questions_are_not_asked() {
    let office = Office::new();
    let look = office.tool("question").look(&json!({"questions": [{"question": " Go on?\nDetails"}]}), &*office.context.workspace).unwrap();
    assert_eq!((look.title.as_str(), look.touches.len(), look.repeatable), ("Go on?", 1, true));
    assert!(look.touches[0].key == "question" && look.touches[0].needs_a_person());

    let options = |count: usize| (0..count).map(|n| json!({"label": format!("option {n}")})).collect::<Vec<_>>();
    for (input, complaint) in [
        (
            json!({}),
            "question: the required parameter `questions` (a list of 1 to 4 objects with `question` and, where there is a choice, `options`) is missing; the call had no parameters at all. Call question again with it.",
        ),
        (json!({"questions": []}), "question: ask 1 to 4 questions at once; got 0. Call question again with the most important ones."),
        (
            json!({"questions": vec![json!({"question": "?"}); 5]}),
            "question: ask 1 to 4 questions at once; got 5. Call question again with the most important ones.",
        ),
        (
            json!({"questions": "what?"}),
            "question: parameter `questions` must be a list of 1 to 4 objects with `question` and, where there is a choice, `options`; got the string \"what?\". Call question again with that corrected.",
        ),
        (
            json!({"questions": [{"question": "a"}, {"header": "b"}]}),
            "question: the required parameter `question` (a string) is missing; the call had only: header. Call question again with it. (question 2 of the list)",
        ),
        (json!({"questions": [{"question": " "}]}), "question: parameter `question` must not be empty. (question 1 of the list)"),
        (
            json!({"questions": [{"question": "a", "options": options(1)}]}),
            "question: give 2 to 6 options, or none for a free answer; got 1. Call question again with that corrected. (question 1 of the list)",
        ),
        (
            json!({"questions": [{"question": "a", "options": options(7)}]}),
            "question: give 2 to 6 options, or none for a free answer; got 7. Call question again with that corrected. (question 1 of the list)",
        ),
        (
            json!({"questions": [{"question": "a", "options": ["yes", "No", "YES"]}]}),
            "question: option 3 repeats the label `YES`; every option needs its own. (question 1 of the list)",
        ),
        (
            json!({"questions": [{"question": "a", "options": [{"description": "x"}, "b"]}]}),
            "question: the required parameter `label` (a string) is missing; the call had only: description. Call question again with it. (question 1 of the list)",
        ),
        (
            json!({"questions": [{"question": "a".repeat(2_001)}]}),
            "question: a question has at most 2000 characters. Say the rest in your text before the call. (question 1 of the list)",
        ),
    ] {
        assert_eq!(office.touches("question", input.clone()), [format!("error: {complaint}")], "{input}");
    }
    assert_eq!(office.touches("question", json!({"questions": [{"question": "a", "options": options(6)}]})), ["question a"]);
}
