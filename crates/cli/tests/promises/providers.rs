//! OpenAI Responses and Gemini through the whole program: a call, its result, and what each of them wants back.

use serde_json::{Value, json};

use crate::support::{Answer, Api, Block, Seen, World, answer::Piece, call, world::mock_config};

const NEWER: [Api; 2] = [Api::Responses, Api::Gemini];

fn thought() -> Piece {
    Piece::Thinking { text: "private thoughts".into(), signature: "sealed-1".into() }
}

/// Reads the note after a thought, then says what is in it.
fn reader(seen: &Seen) -> Answer {
    match seen.steps() {
        0 => Answer::calls([thought(), call("read", json!({"filePath": "note.txt"}))]),
        _ => Answer::text(if format!("{:?}", seen.results()).contains("plum") { "the word is plum" } else { "no such word" }),
    }
}

#[test]
fn a_file_is_read_and_the_sealed_thinking_goes_back_as_it_came() {
    for api in NEWER {
        let world = World::with().api(api).file("note.txt", "plum\n").script(reader);
        let done = world.run(&["which word?"]).expect_code(0);
        assert_eq!(done.out, "the word is plum\n", "{api:?}");
        assert!(!done.err.contains("private thoughts"), "{api:?}: {}", done.err);
        let requests = world.model.requests();
        assert_eq!(requests.len(), 2, "{api:?}");
        let second = &requests[1].json;
        match api {
            Api::Responses => {
                let input = second["input"].as_array().unwrap();
                let kinds: Vec<&str> = input.iter().map(|item| item["type"].as_str().unwrap()).collect();
                assert_eq!(kinds[kinds.len() - 3..], ["reasoning", "function_call", "function_call_output"], "{second:#}");
                let summary = json!([{"type": "summary_text", "text": "private thoughts"}]);
                assert_eq!(
                    input[input.len() - 3],
                    json!({"type": "reasoning", "id": "rs_0", "summary": summary, "encrypted_content": "sealed-1"})
                );
            }
            _ => {
                let contents = second["contents"].as_array().unwrap();
                let [.., answer, result] = &contents[..] else { panic!("{second:#}") };
                assert_eq!(answer["parts"][0]["thoughtSignature"], "sealed-1", "{second:#}");
                assert_eq!(answer["parts"][0]["functionCall"]["name"], "read");
                assert_eq!(result["parts"][0]["functionResponse"]["name"], "read");
                assert!(!second.to_string().contains("private thoughts"), "{second:#}");
            }
        }
    }
}

/// Longer than an event may be, so it is a blob in the log.
#[test]
fn sealed_thinking_may_be_long() {
    for api in NEWER {
        let world = World::with().api(api).file("note.txt", "plum\n").script(|seen: &Seen| match seen.steps() {
            0 => {
                let thought = Piece::Thinking { text: "hm".into(), signature: "s".repeat(100_000) };
                Answer::calls([thought, call("read", json!({"filePath": "note.txt"}))])
            }
            _ => Answer::text("done"),
        });
        world.run(&["go"]).expect_code(0);
        world.run(&["-c", "go on"]).expect_code(0);
        for request in &world.model.requests()[1..] {
            assert_eq!(String::from_utf8_lossy(&request.body).matches(&"s".repeat(100_000)).count(), 1, "{api:?}");
        }
    }
}

#[test]
fn the_second_request_begins_with_the_first_byte_for_byte() {
    for (api, end) in [(Api::Responses, r#"],"max_output_tokens""#), (Api::Gemini, r#"],"generationConfig""#)] {
        let world = World::with().api(api).file("note.txt", "plum\n").script(reader);
        world.run(&["which word?"]).expect_code(0);
        world.run(&["-c", "sure?"]).expect_code(0);
        let bodies: Vec<String> = world.model.requests().iter().map(|seen| String::from_utf8(seen.body.clone()).unwrap()).collect();
        assert_eq!(bodies.len(), 3, "{api:?}");
        for pair in bodies.windows(2) {
            let (before, _) = pair[0].rsplit_once(end).unwrap();
            assert!(pair[1].starts_with(before), "{api:?}:\n{}\n{}", pair[0], pair[1]);
        }
    }
}

#[test]
fn each_is_spoken_to_at_its_own_path_with_its_own_key() {
    for (api, path, header, value) in [
        (Api::Responses, "/v1/responses", "authorization", "Bearer key-123"),
        (Api::Gemini, "/v1beta/models/m1:streamGenerateContent", "x-goog-api-key", "key-123"),
    ] {
        let world = World::with().api(api).script(|_: &Seen| "ok");
        assert_eq!(world.run(&["hi"]).expect_code(0).out, "ok\n", "{api:?}");
        let seen = world.model.last();
        assert_eq!((seen.path.as_str(), seen.header(header)), (path, Some(value)), "{api:?}");
        assert!(!seen.system.is_empty(), "{api:?}");
        assert!(seen.tools.contains(&"read".to_owned()), "{api:?}: {:?}", seen.tools);
    }
}

#[test]
fn tokens_and_cost_are_counted_as_for_the_others() {
    for api in NEWER {
        let world = World::with().api(api).script(|seen: &Seen| match seen.steps() {
            0 => Answer::call("bash", json!({"command": "true"})).usage(1000, 100, 2000, 0),
            _ => Answer::text("done").usage(10, 20, 3000, 0),
        });
        let usage = world.run(&["--format", "json", "go"]).expect_code(0).json()["usage"].clone();
        let counts = ["input", "output", "cache_read", "cache_write"].map(|name| usage[name].as_u64().unwrap());
        assert_eq!(counts, [1010, 120, 5000, 0], "{api:?}");
        let cost = (1010.0 * 3.0 + 120.0 * 15.0 + 5000.0 * 0.3) / 1e6;
        assert!((usage["cost_usd"].as_f64().unwrap() - cost).abs() < 1e-9, "{api:?}: {usage}");
    }
}

#[test]
fn several_calls_at_once_are_answered_in_order_and_the_closing_step_may_not_call() {
    for api in NEWER {
        let world = World::with().api(api).script(|seen: &Seen| match seen.json.to_string() {
            body if body.contains(r#""tool_choice":"none""#) || body.contains(r#""mode":"NONE""#) => Answer::text("summing up"),
            _ => Answer::calls(["one", "two"].map(|word| call("bash", json!({"command": format!("echo {word}")})))),
        });
        let shown = world.run(&["--max-steps", "2", "--format", "json", "go"]).expect_code(3).json();
        assert_eq!(shown["result"], "summing up", "{api:?}");
        let last = world.model.last();
        let words: Vec<&str> =
            last.results().iter().map(|block| if let Block::Result { text, .. } = block { text.trim() } else { "" }).collect();
        assert_eq!(words, ["one", "two", "one", "two"], "{api:?}: ids that come again are told apart");
        assert_eq!(last.tools, world.model.requests()[0].tools, "{api:?}: the tools stay, so that the provider's cache holds");
    }
}

#[test]
fn a_stream_that_is_cut_is_asked_for_again() {
    for api in NEWER {
        let world = World::with().api(api).script(|seen: &Seen| match seen.number {
            0 => Answer::text("a text that is long enough to be cut off somewhere in its middle").cut_after(230),
            _ => Answer::text("whole").in_chunks_of(1),
        });
        assert_eq!(world.run(&["hi"]).expect_code(0).out, "whole\n", "{api:?}");
        assert_eq!(world.model.requests().len(), 2, "{api:?}");
    }
}

#[test]
fn a_session_may_change_its_provider_and_sends_nobody_elses_secrets() {
    let others = [("google", Api::Gemini), ("claude", Api::Anthropic), ("chat", Api::OpenAi)];
    let world = World::with().api(Api::Responses).file("note.txt", "plum\n").script(reader);
    let mut config = mock_config(Api::Responses, &world.model.url);
    for (name, api) in others {
        config["provider"][name] = mock_config(api, &world.model.url)["provider"]["mock"].clone();
    }
    world.configure(&config);
    world.run(&["which word?"]).expect_code(0);
    let back = ("mock", Api::Responses);
    // From each to each, and back without a word: another model counts for its command.
    for (name, api) in [others[0], others[1], back, others[2], others[0], back] {
        world.run(&["-c", "-m", &format!("{name}/m1"), "sure?"]).expect_code(0);
        let last = world.model.last();
        assert_eq!((last.api, last.calls().len(), last.results().len()), (api, 1, 1), "{name}");
        let body = String::from_utf8_lossy(&last.body).into_owned();
        assert_eq!(body.contains("sealed-1"), api == Api::Responses, "{name}: {body}");
    }
    world.run(&["-c", "-m", "chat/m1", "sure?"]).expect_code(0);
    world.run(&["-c", "sure?"]).expect_code(0);
    assert_eq!(world.model.last().api, Api::Responses);
}

#[test]
fn a_refused_key_says_which_and_where_and_a_quota_is_no_bad_key() {
    let google =
        json!({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "API key not valid. Please pass a valid API key."}});
    let world = World::with().api(Api::Gemini).script(move |_: &Seen| Answer::json(400, google.clone()));
    let done = world.run(&["hi"]).expect_code(1);
    assert!(done.err.contains("API key not valid") && done.err.contains("api_key of provider \"mock\""), "{}", done.err);
    assert_eq!(world.model.requests().len(), 1, "a bad key stays bad");
    let quota = json!({"type": "error", "code": "insufficient_quota", "message": "You exceeded your current quota"});
    let world = World::with().api(Api::Responses).script(move |_: &Seen| Answer::stream(format!("event: error\ndata: {quota}\n\n")));
    let done = world.run(&["hi"]).expect_code(1);
    assert!(done.err.contains("You exceeded your current quota"), "{}", done.err);
    assert_eq!(world.model.requests().len(), 1, "an empty account stays empty");
}

#[test]
fn a_known_provider_elsewhere_speaks_what_others_speak() {
    let world = World::new(|_: &Seen| "ok");
    world.configure(&Value::Object(Default::default()));
    let run = |name: &str, url: String, model: &str, key: &str| {
        let command = world.command(&["run", "-m", model, "hi"]);
        assert_eq!(command.env(name, &url).env(key, "k").run().expect_code(0).out, "ok\n");
        world.model.last().api
    };
    let url = world.model.url.clone();
    assert_eq!(run("OPENAI_BASE_URL", format!("{url}/v1"), "openai/gpt-5.1", "OPENAI_API_KEY"), Api::OpenAi);
    assert_eq!(run("GEMINI_BASE_URL", url.clone(), "gemini/gemini-3-pro", "GEMINI_API_KEY"), Api::Gemini);
    assert_eq!(run("GEMINI_BASE_URL", format!("{url}/v1beta/openai"), "gemini/gemini-3-pro", "GEMINI_API_KEY"), Api::OpenAi);
}
