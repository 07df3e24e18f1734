//! Both shapes of a provider, ours and OpenCode's, mean the same; keys stay hidden.

use posse_session::Prices;

use crate::{Api, ApiChoice, Key, ModelSpec, Origin, Provider, testing::World};

fn providers(text: &str) -> Vec<Provider> {
    let world = World::with_user(text).env("MOCK_KEY", "key-123");
    let providers = world.load().unwrap().providers.into_iter();
    providers
        .map(|provider| Provider { origin: Origin::new(&world.near(&provider.origin.source), provider.origin.line), ..provider })
        .collect()
}

const OURS: &str = r#"{"provider": {"mock": {"api": "anthropic", "base_url": "http://127.0.0.1:9000", "api_key": "{env:MOCK_KEY}", "headers": {"X-Team": "blue"},
    "models": {"m1": {"context": 200000, "output": 8192, "cost": {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75}}, "M_2": {}}}}}"#;

const OPENCODES: &str = r#"{"provider": {"mock": {"npm": "@ai-sdk/anthropic", "name": "Mock", "options": {"baseURL": "http://127.0.0.1:9000", "apiKey": "{env:MOCK_KEY}",
    "headers": {"X-Team": "blue"}, "timeout": 5}, "models": {"m1": {"name": "Mock One", "limit": {"context": 200000, "output": 8192},
    "cost": {"input": 3, "output": 15, "cacheRead": 0.3, "cacheWrite": 3.75, "context_over_200k": {}}}, "M_2": {"limit": {"context": 0, "output": 0}}}}}}"#;

#[test]
fn our_shape_and_opencodes_mean_the_same() {
    let ours = providers(OURS);
    assert_eq!(ours, providers(OPENCODES));
    let [provider] = &ours[..] else { panic!("one provider") };
    let spec = ModelSpec {
        context: Some(200_000),
        output: Some(8192),
        prices: Some(Prices { input: 3.0, output: 15.0, cache_read: 0.3, cache_write: 3.75, unknown: false }),
        ..ModelSpec::default()
    };
    assert_eq!((provider.name.as_str(), provider.origin.to_string().as_str()), ("mock", "home/posse/posse.json:1"));
    assert_eq!(provider.api, ApiChoice::Named(Api::Anthropic));
    assert_eq!(provider.base_url.as_deref(), Some("http://127.0.0.1:9000"));
    assert!(matches!(&provider.key, Key::Given(secret) if secret.expose() == "key-123"));
    assert_eq!(provider.headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect::<Vec<_>>(), [("X-Team", "blue")]);
    assert_eq!(provider.models, [("m1".to_owned(), spec), ("M_2".to_owned(), ModelSpec::default())], "names are kept as written");
}

#[test]
fn the_language_is_named_by_api_by_package_or_by_nobody() {
    let table = [
        (r#""api": "openai""#, ApiChoice::Named(Api::OpenaiChat)),
        (r#""api": "openai-responses""#, ApiChoice::Named(Api::OpenaiResponses)),
        (r#""api": "gemini""#, ApiChoice::Named(Api::Gemini)),
        (r#""npm": "@ai-sdk/openai-compatible""#, ApiChoice::Named(Api::OpenaiChat)),
        (r#""npm": "@ai-sdk/openai""#, ApiChoice::Named(Api::OpenaiResponses)),
        (r#""npm": "@ai-sdk/google""#, ApiChoice::Named(Api::Gemini)),
        (r#""npm": "@ai-sdk/google", "api": "anthropic""#, ApiChoice::Named(Api::Anthropic)),
        (r#""npm": "@ai-sdk/amazon-bedrock""#, ApiChoice::Unsupported("@ai-sdk/amazon-bedrock".into())),
        (r#""name": "x""#, ApiChoice::Unsaid),
        (r#""api": "http://x/v1""#, ApiChoice::Unsaid),
    ];
    for (fields, api) in table {
        assert_eq!(providers(&format!("{{\"provider\": {{\"p\": {{{fields}}}}}}}"))[0].api, api, "{fields}");
    }
    assert_eq!(
        providers(r#"{"provider": {"p": {"api": "http://x/v1"}}}"#)[0].base_url.as_deref(),
        Some("http://x/v1"),
        "OpenCode keeps its URL there"
    );
}

#[test]
fn a_key_that_is_not_there_is_remembered_and_no_error() {
    let world = World::with_user(
        "{\"provider\": {\"p\": {\n\"api_key\": \"{env:NO_SUCH}\"}, \"q\": {\"apiKey\": \"\"}, \"r\": {\"headers\": {\"x\": \"{env:NO_SUCH}\"}}}}",
    );
    let keys: Vec<Key> = world.load().unwrap().providers.into_iter().map(|provider| provider.key).collect();
    let [Key::Missing(reason), Key::Unsaid, Key::Missing(header)] = &keys[..] else { panic!("{keys:?}") };
    assert_eq!(world.near(reason), "home/posse/posse.json:2: provider.p.api_key: the environment variable NO_SUCH is not set");
    assert!(header.contains("provider.r.headers.x"), "{header}");
}

#[test]
fn a_secret_is_nowhere_in_the_debug_text() {
    let world = World::with_user(OURS).env("MOCK_KEY", "key-123");
    let config = world.load().unwrap();
    assert!(!format!("{config:?}").contains("key-123"));
    assert!(!format!("{:?}", config.show()).contains("key-123"));
}
