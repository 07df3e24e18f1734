//! Which model a name means: aliases, bare names, keys that are missing, and nothing at all.

use crate::{Api, ChosenModel, KnownProvider, ModelChoice, ModelChoiceError, testing::World};

const KNOWN: &[KnownProvider] = &[
    KnownProvider {
        name: "anthropic",
        api: Api::Anthropic,
        base_url: "https://a",
        key_env: &["ANTHROPIC_API_KEY"],
        base_url_env: "ANTHROPIC_BASE_URL",
        default_model: "claude-x",
    },
    KnownProvider {
        name: "gemini",
        api: Api::Gemini,
        base_url: "https://g",
        key_env: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        base_url_env: "GEMINI_BASE_URL",
        default_model: "gem",
    },
    KnownProvider {
        name: "openai",
        api: Api::OpenaiResponses,
        base_url: "https://api.openai.com/v1",
        key_env: &["OPENAI_API_KEY"],
        base_url_env: "OPENAI_BASE_URL",
        default_model: "gpt",
    },
];

const MOCK: &str = r#"{"provider": {"mock": {"api": "openai", "base_url": "http://m", "api_key": "k", "models": {"m1": {"id": "wire-1"}, "m2": {}, "vendor/m3": {}}}}, "models": {"small": "mock/m2"}}"#;

fn choose(world: &World, name: Option<&str>) -> Result<ModelChoice, ModelChoiceError> {
    let env = |name: &str| world.get(name);
    world.load().unwrap().with_project_models(KNOWN, &env).choose_model(name, KNOWN, &env)
}

fn chosen(world: &World, name: Option<&str>) -> String {
    match choose(world, name) {
        Ok(ModelChoice::Offline) => "offline".to_owned(),
        Ok(ModelChoice::Remote(chosen)) => chosen.name(),
        Err(error) => world.near(&error.to_string()),
    }
}

#[test]
fn with_nothing_at_all_it_is_the_offline_model() {
    let world = World::new();
    assert_eq!(chosen(&world, None), "offline");
    for name in ["small", "default", "strong", "haiku", "offline", "offline/explorer"] {
        assert_eq!(chosen(&world, Some(name)), "offline", "{name}");
    }
    assert_eq!(chosen(&world, Some("gpt")), "unknown model `gpt`; no model is configured and no key is set");
    assert_eq!(
        chosen(&world, Some("anthropic/claude-y")),
        "no key for anthropic/claude-y: run `posse auth add anthropic`, set ANTHROPIC_API_KEY, or write `provider.anthropic.api_key` into your posse.json"
    );
}

#[test]
fn names_aliases_and_bare_names_are_found() {
    let world = World::with_user(MOCK);
    let table = [
        (None, "mock/m1"),
        (Some("mock/m2"), "mock/m2"),
        (Some("m2"), "mock/m2"),
        (Some("vendor/m3"), "mock/vendor/m3"),
        (Some("mock/vendor/m3"), "mock/vendor/m3"),
        (Some("small"), "mock/m2"),
        (Some("haiku"), "mock/m2"),
        (Some("opus"), "mock/m1"),
        (Some("sonnet"), "mock/m1"),
        (Some("m9"), "unknown model `m9`; there are: mock/m1, mock/m2, mock/vendor/m3, small"),
        (Some("mock/m9"), "unknown model `mock/m9`; there are: mock/m1, mock/m2, mock/vendor/m3, small"),
        (Some("mock/"), "unknown model `mock/`; there are: mock/m1, mock/m2, mock/vendor/m3, small"),
    ];
    for (name, expected) in table {
        assert_eq!(chosen(&world, name), expected, "{name:?}");
    }
    let ModelChoice::Remote(model) = choose(&world, Some("m1")).unwrap() else { panic!("offline") };
    let expected = ChosenModel {
        provider: "mock".into(),
        model: "m1".into(),
        api: Api::OpenaiChat,
        base_url: "http://m".into(),
        key: Some(crate::Secret::new("k")),
        headers: vec![],
        spec: crate::ModelSpec { id: Some("wire-1".into()), ..Default::default() },
    };
    assert_eq!(*model, expected);
}

#[test]
fn the_flag_is_above_the_file_and_the_file_above_the_alias() {
    let world = World::with_user(MOCK).env("POSSE_CONFIG_CONTENT", r#"{"model": "m2", "models": {"default": "mock/vendor/m3"}}"#);
    assert_eq!(chosen(&world, None), "mock/m2");
    assert_eq!(chosen(&world, Some("default")), "mock/vendor/m3");
    assert_eq!(chosen(&world, Some("strong")), "mock/vendor/m3");
    assert_eq!(chosen(&world.model_flag("m1"), None), "mock/m1");
    let only_alias = World::with_user(MOCK).env("POSSE_CONFIG_CONTENT", r#"{"models": {"default": "m2", "opus": "m1"}}"#);
    assert_eq!(chosen(&only_alias, None), "mock/m2");
    assert_eq!(chosen(&only_alias, Some("opus")), "mock/m1");
}

#[test]
fn an_alias_that_nobody_configured_is_the_default_model_also_as_a_flag() {
    let named = |text: &str, flag: &str| {
        let user = World::with_user(MOCK).env("POSSE_CONFIG_CONTENT", text).model_flag(flag);
        (chosen(&user, None), chosen(&user, Some(flag)))
    };
    let both = |name: &str| (name.to_owned(), name.to_owned());
    for flag in ["default", "strong", "sonnet", "opus"] {
        assert_eq!(named(r#"{"model": "mock/m2"}"#, flag), both("mock/m2"), "{flag}");
        assert_eq!(named(r#"{"models": {"default": "m2"}}"#, flag), both("mock/m2"), "{flag}");
        assert_eq!(named(r#"{"model": "m1", "models": {"default": "m2"}}"#, flag), both("mock/m2"), "{flag}");
        assert_eq!(named("{}", flag), both("mock/m1"), "{flag}: the first that there is");
        assert_eq!(named(r#"{"model": "fast", "models": {"fast": "mock/m2"}}"#, flag), both("mock/m2"), "{flag}");
    }
    for flag in ["small", "haiku"] {
        assert_eq!(named(r#"{"model": "mock/m1"}"#, flag), both("mock/m2"), "{flag}");
    }
    // What a run is told to use is also the default of its agents.
    let flagged = World::with_user(MOCK).env("POSSE_CONFIG_CONTENT", r#"{"model": "m1"}"#).model_flag("vendor/m3");
    assert_eq!((chosen(&flagged, Some("strong")), chosen(&flagged, Some("small"))), ("mock/vendor/m3".into(), "mock/m2".into()));
    let round = World::with_user(MOCK).env("POSSE_CONFIG_CONTENT", r#"{"model": "strong"}"#).model_flag("strong");
    assert_eq!(chosen(&round, None), "the alias `default` leads back to itself");
}

#[test]
fn aliases_that_go_round_are_refused() {
    let world = World::with_user(r#"{"models": {"small": "strong", "strong": "small"}}"#);
    assert_eq!(chosen(&world, Some("small")), "the alias `small` leads back to itself");
    assert_eq!(chosen(&World::with_user(r#"{"model": "default"}"#), None), "the alias `default` leads back to itself");
}

#[test]
fn a_key_in_the_environment_is_enough() {
    let world = World::new().env("GOOGLE_API_KEY", "g");
    assert_eq!(chosen(&world, None), "gemini/gem");
    assert_eq!(chosen(&world, Some("gemini/other")), "gemini/other");
    assert_eq!(chosen(&world, Some("other")), "unknown model `other`; there are: gemini/gem");
    let world = world.env("ANTHROPIC_API_KEY", "a").env("ANTHROPIC_BASE_URL", "http://proxy");
    let ModelChoice::Remote(model) = choose(&world, None).unwrap() else { panic!("offline") };
    assert_eq!((model.name().as_str(), model.base_url.as_str(), model.key.unwrap().expose()), ("anthropic/claude-x", "http://proxy", "a"));
    assert_eq!(chosen(&World::new().env("ANTHROPIC_API_KEY", ""), None), "offline");
}

#[test]
fn a_known_provider_speaks_its_own_language_only_at_its_own_address() {
    let at = |provider: &str, variable: &str, url: &str| {
        let world = World::new().env("OPENAI_API_KEY", "k").env("GEMINI_API_KEY", "k").env(variable, url);
        match choose(&world, Some(&format!("{provider}/m"))).unwrap() {
            ModelChoice::Remote(model) => model.api,
            ModelChoice::Offline => panic!("offline"),
        }
    };
    for (url, api) in [
        ("", Api::OpenaiResponses),
        ("https://api.openai.com/v1", Api::OpenaiResponses),
        ("https://API.openai.com:443", Api::OpenaiResponses),
        ("http://127.0.0.1:8000/v1", Api::OpenaiChat),
        ("https://api.openai.com.evil.example/v1", Api::OpenaiChat),
        ("https://api.openai.com@relay.example", Api::OpenaiChat),
    ] {
        assert_eq!(at("openai", "OPENAI_BASE_URL", url), api, "{url}");
    }
    for (url, api) in [
        ("", Api::Gemini),
        ("http://relay/v1beta", Api::Gemini),
        ("https://g/v1beta/openai/", Api::OpenaiChat),
        ("https://g/v1beta/openai?x=1", Api::OpenaiChat),
    ] {
        assert_eq!(at("gemini", "GEMINI_BASE_URL", url), api, "{url}");
    }
    let said = r#"{"provider": {"openai": {"api": "openai-responses", "base_url": "http://relay", "api_key": "k"}, "gemini": {"base_url": "http://g/openai", "api_key": "k"}}}"#;
    let world = World::with_user(said);
    let api = |name: &str| match choose(&world, Some(name)).unwrap() {
        ModelChoice::Remote(model) => model.api,
        ModelChoice::Offline => panic!("offline"),
    };
    assert_eq!((api("openai/m"), api("gemini/m")), (Api::OpenaiResponses, Api::OpenaiChat), "what the user wrote wins");
}

#[test]
fn a_known_provider_may_be_configured_too() {
    let world = World::with_user(r#"{"provider": {"anthropic": {"api_key": "mine", "models": {"tuned": {"context": 5}}}}}"#)
        .env("ANTHROPIC_API_KEY", "env");
    let ModelChoice::Remote(model) = choose(&world, None).unwrap() else { panic!("offline") };
    assert_eq!((model.name().as_str(), model.api, model.base_url.as_str()), ("anthropic/tuned", Api::Anthropic, "https://a"));
    assert_eq!((model.key.unwrap().expose(), model.spec.context), ("mine", Some(5)));
    assert_eq!(chosen(&world, Some("anthropic/any")), "anthropic/any", "the world's providers have more models than are listed");
}

#[test]
fn what_cannot_be_used_says_what_to_do() {
    let one = |fields: &str| format!("{{\"provider\": {{\"p\": {{{fields}}}}}}}");
    let table = [
        (r#""models": {"m": {}}"#, "provider `p` has no address; set `provider.p.base_url`"),
        (r#""base_url": "http://p""#, "no model is named; set `model`, or `provider.p.models`"),
        (
            r#""npm": "@ai-sdk/amazon-bedrock", "models": {"m": {}}"#,
            "no client for the package @ai-sdk/amazon-bedrock of provider `p`; set its `api` and `base_url` instead",
        ),
        (
            r#""base_url": "http://p", "api_key": "{env:PK}", "models": {"m": {}}"#,
            "no key for p/m: home/posse/posse.json:1: provider.p.api_key: the environment variable PK is not set",
        ),
        (
            r#""base_url": "http://p", "env": ["PK"], "models": {"m": {}}"#,
            "no key for p/m: run `posse auth add p`, set PK, or write `provider.p.api_key` into your posse.json",
        ),
        (r#""base_url": "http://p", "models": {"m": {}}"#, "p/m"),
    ];
    for (fields, expected) in table {
        assert_eq!(chosen(&World::with_user(&one(fields)), None), expected, "{fields}");
    }
    let world = World::with_user(&one(r#""base_url": "http://p", "env": ["PK"], "models": {"m": {}}"#)).env("PK", "k");
    assert_eq!(chosen(&world, None), "p/m");
}

#[test]
fn an_unusable_provider_does_not_stand_in_the_way_of_a_usable_one() {
    let world =
        World::with_user(r#"{"provider": {"a": {"models": {"m": {}}}, "b": {"base_url": "http://b", "models": {"m": {}, "n": {}}}}}"#);
    assert_eq!(chosen(&world, None), "b/m");
    assert_eq!(chosen(&world, Some("m")), "`m` is ambiguous; say one of: a/m, b/m");
    assert_eq!(chosen(&world, Some("n")), "b/n");
}
