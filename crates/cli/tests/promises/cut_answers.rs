//! Answers that the model's output limit cuts, through the whole program and in every protocol.

use serde_json::{Value, json};

use crate::support::{Answer, Api, Block, Seen, World, answer::raw_call};

/// How each protocol says that the limit was reached.
const LIMITS: [(Api, &str); 4] =
    [(Api::Anthropic, "max_tokens"), (Api::OpenAi, "length"), (Api::Responses, "max_output_tokens"), (Api::Gemini, "MAX_TOKENS")];

/// Words, then a call of which only the beginning came.
fn half_a_call(api: Api, reason: &str, words: &str) -> Answer {
    if api == Api::Gemini {
        // Only a call that comes in pieces can be cut in this protocol.
        let part =
            |part: Value, reason: Value| json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": reason}]});
        let call = json!({"functionCall": {"name": "write", "willContinue": true,
            "partialArgs": [{"jsonPath": "$.filePath", "stringValue": "w.txt"}, {"jsonPath": "$.content", "stringValue": "hal", "willContinue": true}]}});
        let (said, called) = (part(json!({"text": words}), Value::Null), part(call, json!(reason)));
        return Answer::stream(format!("data: {said}\n\ndata: {called}\n\n"));
    }
    let call = raw_call("write", "{\"filePath\":\"w.txt\",\"content\":\"hal");
    Answer::text(words).and(call).stop_reason(reason)
}

#[test]
fn half_a_call_is_told_to_the_model_which_goes_on() {
    for (api, reason) in LIMITS {
        let world = World::with().api(api).script(move |seen: &Seen| match seen.steps() {
            0 => half_a_call(api, reason, "I write the file now."),
            1 => Answer::call("write", json!({"filePath": "w.txt", "content": "half"})),
            _ => Answer::text("written"),
        });
        let shown = world.run(&["--format", "json", "write a long file"]).expect_code(0).json();
        assert_eq!((&shown["result"], shown.get("cut")), (&json!("written"), None), "{api:?}");
        let requests = world.model.requests();
        assert_eq!(requests.len(), 3, "{api:?}");
        let told = requests[1].results();
        let [Block::Result { text, .. }] = told[..] else { panic!("{api:?}: {told:?}") };
        assert!(text.contains("cut off at its limit of") && text.contains("in the middle of this call"), "{api:?}: {text}");
        assert!(String::from_utf8_lossy(&requests[1].body).contains("I write the file now."), "{api:?}: its words stay");
        assert_eq!(world.read("w.txt"), "half", "{api:?}");
    }
}

#[test]
fn a_model_that_is_cut_in_every_call_fails_and_says_why() {
    for (api, reason) in LIMITS {
        let world = World::with().api(api).script(move |seen: &Seen| half_a_call(api, reason, &format!("try {}", seen.steps())));
        let done = world.run(&["--format", "json", "write a long file"]).expect_code(1);
        let shown = done.json();
        assert_eq!((&shown["status"], world.model.requests().len()), (&json!("failed"), 3), "{api:?}");
        assert!(done.err.contains("cut off at the model's limit of output tokens"), "{api:?}: {}", done.err);
        assert!(done.err.contains("`provider.mock.models.m1.output` sets the limit"), "{api:?}: {}", done.err);
        assert!(!world.folder().join("w.txt").exists(), "{api:?}");
    }
}

#[test]
fn an_answer_that_was_cut_before_its_first_word_says_so() {
    let last = json!({"candidates": [{"content": {"role": "model"}, "finishReason": "MAX_TOKENS"}], "usageMetadata": {"promptTokenCount": 9, "thoughtsTokenCount": 64}});
    let world = World::with().api(Api::Gemini).script(move |_: &Seen| Answer::stream(format!("data: {last}\n\n")));
    let done = world.run(&["hi"]).expect_code(1);
    assert!(done.err.contains("output tokens before it said anything"), "{}", done.err);
    assert!(done.err.contains("`provider.mock.models.m1.output`"), "{}", done.err);
}

#[test]
fn half_a_text_is_an_answer_that_is_said_to_be_half() {
    for (api, reason) in LIMITS {
        let world = World::with().api(api).script(move |_: &Seen| Answer::text("half an ans").stop_reason(reason));
        let done = world.run(&["--format", "json", "x"]).expect_code(0);
        let shown = done.json();
        assert_eq!((&shown["status"], &shown["result"]), (&json!("done"), &json!("half an ans")), "{api:?}");
        let cut = shown["cut"].as_str().unwrap();
        assert!(cut.contains("was cut off") && cut.contains("`provider.mock.models.m1.output` sets the limit"), "{api:?}: {cut}");
        assert_eq!(done.err.matches(cut).count(), 1, "{api:?}: {}", done.err);
        let text = world.run(&["x"]).expect_code(0);
        assert!(text.out == "half an ans\n" && text.err.contains(cut), "{api:?}: {}", text.err);
    }
}

#[test]
fn whoever_called_an_agent_hears_that_its_answer_was_cut() {
    let world = World::new(|seen: &Seen| {
        let is_below = seen.user_texts().last().is_some_and(|text| text.contains("look around"));
        match seen.steps() {
            _ if is_below => Answer::text("half a rep").stop_reason("max_tokens"),
            0 => Answer::call("agent", json!({"description": "look", "prompt": "look around", "subagent_type": "explore"})),
            _ => Answer::text("done"),
        }
    });
    world.run(&["go"]).expect_code(0);
    let last = world.model.last();
    let [Block::Result { text, .. }] = last.results()[..] else { panic!("{:?}", last.results()) };
    assert!(text.contains("half a rep") && text.contains("it reached the output limit of the agent's model"), "{text}");
}

/// A refusal without an answer is a failure with the provider's reason, whoever it comes from.
#[test]
fn a_refusal_ends_alike_in_every_protocol() {
    let gemini = |candidate: Value| Answer::stream(format!("data: {candidate}\n\n"));
    let refusals = [
        (Api::Anthropic, Answer::calls([]).stop_reason("refusal"), "refusal"),
        (Api::OpenAi, Answer::calls([]).stop_reason("content_filter"), "content_filter"),
        (Api::Responses, Answer::calls([]).stop_reason("content_filter"), "content_filter"),
        (Api::Gemini, gemini(json!({"candidates": [{"content": {"parts": []}, "finishReason": "SAFETY"}]})), "SAFETY"),
        (Api::Gemini, gemini(json!({"promptFeedback": {"blockReason": "BLOCKLIST"}})), "the prompt was blocked: BLOCKLIST"),
    ];
    for (api, answer, reason) in refusals {
        let world = World::with().api(api).script(move |_: &Seen| answer.clone());
        let shown = world.run(&["--format", "json", "x"]).expect_code(1).json();
        let error = format!("the provider declined to answer: {reason}; say it another way, or use another model");
        assert_eq!((&shown["status"], &shown["result"], &shown["error"]), (&json!("failed"), &json!(""), &json!(error)), "{api:?}");
        assert_eq!(world.model.requests().len(), 1, "{api:?}: it would be declined again");
    }
}
