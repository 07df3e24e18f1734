//! Tokens and money, the same for both protocols.

use serde_json::json;

use crate::support::{Answer, Api, Seen, World};

#[test]
fn tokens_and_cost_are_counted_alike_for_both_apis() {
    for (api, cache_write) in [(Api::Anthropic, 500), (Api::OpenAi, 0)] {
        let world = World::with().api(api).script(move |seen: &Seen| match seen.steps() {
            0 => Answer::call("bash", json!({"command": "true"})).usage(1000, 100, 2000, cache_write),
            _ => Answer::text("done").usage(10, 20, 3000, 0),
        });
        let shown = world.run(&["--format", "json", "go"]).expect_code(0).json();
        let usage = &shown["usage"];
        let counts = ["input", "output", "cache_read", "cache_write"].map(|name| usage[name].as_u64().unwrap());
        assert_eq!(counts, [1010, 120, 5000, cache_write], "{api:?}: input is without what the cache gave");
        let cost = 1010.0 * 3.0 + 120.0 * 15.0 + 5000.0 * 0.3 + cache_write as f64 * 3.75;
        assert!((usage["cost_usd"].as_f64().unwrap() - cost / 1e6).abs() < 1e-9, "{api:?}: {usage}");
        assert_eq!(shown["tree"][0]["usage"], *usage);
        let listed = world.posse(&["sessions", "list", "--format", "json"]).expect_code(0).json();
        assert_eq!(listed[0]["usage"], *usage);
    }
}

#[test]
fn each_api_is_spoken_to_at_its_own_path_with_its_own_key() {
    for (api, path, header, value) in
        [(Api::Anthropic, "/v1/messages", "x-api-key", "key-123"), (Api::OpenAi, "/v1/chat/completions", "authorization", "Bearer key-123")]
    {
        let world = World::with().api(api).script(|_: &Seen| "ok");
        world.run(&["hi"]).expect_code(0);
        let seen = world.model.last();
        assert_eq!((seen.path.as_str(), seen.header(header)), (path, Some(value)));
        assert_eq!((&seen.json["model"], &seen.json["stream"]), (&json!("m1"), &json!(true)));
    }
}

#[test]
fn a_model_without_prices_costs_nothing() {
    let world = World::new(|_: &Seen| "ok");
    let shown = world.run(&["-m", "mock/m2", "--format", "json", "hi"]).expect_code(0).json();
    assert_eq!(shown["usage"]["cost_usd"], 0.0);
    assert_eq!(world.model.last().json["model"], "m2");
}

#[test]
fn opencodes_shape_of_a_provider_means_the_same() {
    let world = World::new(|_: &Seen| "ok");
    let url = format!("{}/v1", world.model.url);
    world.configure(&json!({"model": "also/m9", "provider": {"also": {"npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": url, "apiKey": "x"}, "models": {"m9": {}}}}}));
    assert_eq!(world.run(&["hi"]).expect_code(0).out, "ok\n");
    assert_eq!(world.model.last().path, "/v1/chat/completions", "a trailing /v1 is not doubled");
}
