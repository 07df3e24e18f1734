//! `--output-schema`: the final answer is JSON of a given shape, whatever the provider makes of it.

use serde_json::{Value, json};

use crate::support::{Answer, Api, Seen, World};

/// The last words of the user's side.
fn last_said(seen: &Seen) -> String {
    seen.user_texts().last().map(|text| (*text).to_owned()).unwrap_or_default()
}

const SCHEMA: &str = r#"{"type": "object", "properties": {"files": {"type": "array", "items": {"type": "string"}}, "count": {"type": "integer"}}, "required": ["files", "count"], "additionalProperties": false}"#;

/// Where each protocol has the schema.
fn told(seen: &Seen) -> &Value {
    match seen.api {
        Api::Anthropic => match &seen.json["output_config"]["format"]["schema"] {
            Value::Null => &seen.json["output_format"]["schema"],
            schema => schema,
        },
        Api::OpenAi => &seen.json["response_format"]["json_schema"]["schema"],
        Api::Responses => &seen.json["text"]["format"]["schema"],
        Api::Gemini => &seen.json["generationConfig"]["responseJsonSchema"],
    }
}

#[test]
fn every_provider_is_told_and_the_answer_is_a_value() {
    for api in [Api::Anthropic, Api::OpenAi, Api::Responses, Api::Gemini] {
        let world = World::with().api(api).script(|_: &Seen| Answer::text(r#"{"files": ["a.rs"], "count": 1}"#));
        let shown = world.run(&["--output-schema", SCHEMA, "--format", "json", "which files?"]).expect_code(0).json();
        assert_eq!(shown["structured"], json!({"files": ["a.rs"], "count": 1}), "{api:?}");
        let seen = world.model.last();
        assert!(seen.system.contains("\"additionalProperties\":false"), "{api:?}: the model is told in words too");
        // Gemini and many compatible servers refuse a schema beside tools, or force calls into it.
        if matches!(api, Api::Anthropic | Api::Responses) {
            assert_eq!(*told(&seen), serde_json::from_str::<Value>(SCHEMA).unwrap(), "{api:?}");
        }
    }
}

#[test]
fn an_answer_that_does_not_fit_is_repaired_once() {
    let world = World::new(|seen: &Seen| match last_said(seen).contains("does not fit the JSON schema") {
        false => Answer::text("There is one file: a.rs"),
        true => Answer::text("```json\n{\"files\": [\"a.rs\"], \"count\": 1}\n```"),
    });
    let done = world.run(&["--output-schema", SCHEMA, "which files?"]).expect_code(0);
    assert_eq!(
        serde_json::from_str::<Value>(&done.out).unwrap(),
        json!({"files": ["a.rs"], "count": 1}),
        "without its fence: {}",
        done.out
    );
    assert_eq!(world.model.requests().len(), 2);
    let stubborn = World::new(|_: &Seen| Answer::text(r#"{"files": "a.rs"}"#));
    let done = stubborn.run(&["--output-schema", SCHEMA, "--format", "json", "which files?"]).expect_code(1);
    let shown = done.json();
    assert_eq!((stubborn.model.requests().len(), &shown["status"]), (2, &json!("failed")));
    let error = shown["error"].as_str().unwrap();
    assert!(error.contains("files must be of type array") && error.contains("count is missing"), "{error}");
}

#[test]
fn words_around_the_value_are_no_reason_to_ask_again() {
    let world = World::new(|_: &Seen| {
        Answer::text("Here is what I found:\n\n```json\n{\"files\": [\"a.rs\"], \"count\": 1}\n```\n\nAnything else?")
    });
    let shown = world.run(&["--output-schema", SCHEMA, "--format", "json", "which files?"]).expect_code(0).json();
    assert_eq!(shown["structured"], json!({"files": ["a.rs"], "count": 1}));
    assert_eq!(world.model.requests().len(), 1);
}

#[test]
fn tools_may_be_called_on_the_way_and_agents_below_answer_as_they_like() {
    let world = World::new(|seen: &Seen| match seen.steps() {
        _ if last_said(seen).contains("look around") => Answer::text("prose from below"),
        0 => Answer::call("agent", json!({"description": "look", "prompt": "look around", "subagent_type": "explore"})),
        _ => Answer::text(r#"{"files": [], "count": 0}"#),
    });
    let shown = world.run(&["--output-schema", SCHEMA, "--format", "json", "go"]).expect_code(0).json();
    assert_eq!(shown["structured"], json!({"files": [], "count": 0}));
    let below = world.model.requests().into_iter().find(|seen| last_said(seen).contains("look around")).unwrap();
    assert!(told(&below).is_null() && !below.system.contains("additionalProperties\":false,"));
}

#[test]
fn a_schema_can_be_a_file_and_a_wrong_one_is_refused_before_anything_runs() {
    let world = World::with().file("shape.json", SCHEMA).script(|_: &Seen| Answer::text(r#"{"files": [], "count": 0}"#));
    world.run(&["--output-schema", "shape.json", "go"]).expect_code(0);
    for (schema, words) in [("{", "no JSON"), (r#"{"if": {}}"#, "`if` is not supported"), ("nowhere.json", "nowhere.json")] {
        let done = world.run(&["--output-schema", schema, "go"]).expect_code(2);
        assert!(done.err.contains(words), "{}", done.err);
    }
    assert_eq!(world.model.requests().len(), 1);
}

/// A fork's report is for its caller: no provider forces it into the shape of the user's answer, and siblings still begin alike.
#[test]
fn a_fork_answers_in_words() {
    for api in [Api::Anthropic, Api::Responses] {
        let world = World::with().api(api).script(|seen: &Seen| match seen.steps() {
            _ if last_said(seen).contains("<fork-boilerplate>") => Answer::text("prose from a fork"),
            0 => {
                let fork = |prompt: &str| json!({"description": prompt, "prompt": prompt, "subagent_type": "fork"});
                Answer::call("agent", fork("go left")).and_call("agent", fork("go right"))
            }
            _ => Answer::text(r#"{"files": [], "count": 0}"#),
        });
        let shown = world.run(&["--fork", "explicit", "--output-schema", SCHEMA, "--format", "json", "go"]).expect_code(0).json();
        assert_eq!(shown["structured"], json!({"files": [], "count": 0}), "{api:?}");
        let requests = world.model.requests();
        let forks: Vec<_> = requests.iter().filter(|seen| last_said(seen).contains("<fork-boilerplate>")).collect();
        assert_eq!(forks.len(), 2, "{api:?}: none is asked to repair anything");
        for fork in &forks {
            assert!(told(fork).is_null() && last_said(fork).ends_with("which is not yours to give."), "{api:?}: {}", last_said(fork));
        }
        let alike = forks[0].body.iter().zip(&forks[1].body).take_while(|(one, other)| one == other).count();
        let text = String::from_utf8_lossy(&forks[0].body);
        assert_eq!(alike, text.rfind("Your task:\\ngo ").unwrap() + "Your task:\\ngo ".len(), "{api:?}");
        let caller = requests.iter().find(|seen| seen.steps() == 0).unwrap();
        assert!(!told(caller).is_null(), "{api:?}");
    }
}
