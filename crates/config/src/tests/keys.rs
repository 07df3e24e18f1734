//! Where a key comes from: files before the environment before what is kept, and what is wrong with a place.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::{Api, Config, KeptKeys, KeySource, KnownProvider, ModelChoice, Origin, Secret, testing::World};

const KNOWN: &[KnownProvider] = &[
    KnownProvider {
        name: "anthropic",
        api: Api::Anthropic,
        base_url: "https://a",
        key_env: &["ANTHROPIC_API_KEY"],
        base_url_env: "",
        default_model: "claude-x",
    },
    KnownProvider {
        name: "gemini",
        api: Api::Gemini,
        base_url: "https://g",
        key_env: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        base_url_env: "",
        default_model: "gem",
    },
];

/// A store of keys that counts how often it is asked.
#[derive(Default)]
struct Drawer {
    keys: Vec<(&'static str, &'static str)>,
    broken: Option<&'static str>,
    asked: AtomicUsize,
}

impl KeptKeys for Drawer {
    fn has(&self, provider: &str) -> Result<bool, String> {
        self.key(provider).map(|key| key.is_some())
    }

    fn key(&self, provider: &str) -> Result<Option<Secret>, String> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match self.broken {
            Some(words) => Err(words.to_owned()),
            None => Ok(self.keys.iter().find(|(name, _)| *name == provider).map(|(_, key)| Secret::new(*key))),
        }
    }
}

fn drawer(keys: &[(&'static str, &'static str)]) -> Arc<Drawer> {
    Arc::new(Drawer { keys: keys.to_vec(), ..Drawer::default() })
}

fn config(world: &World, drawer: &Arc<Drawer>) -> Config {
    world.load().unwrap().with_kept_keys(drawer.clone())
}

/// `provider/model` and the key that would be sent.
fn chosen(world: &World, drawer: &Arc<Drawer>, name: Option<&str>) -> String {
    let env = |name: &str| world.get(name);
    match config(world, drawer).with_project_models(KNOWN, &env).choose_model(name, KNOWN, &env) {
        Ok(ModelChoice::Offline) => "offline".to_owned(),
        Ok(ModelChoice::Remote(chosen)) => format!("{} {}", chosen.name(), chosen.key.as_ref().map_or("-", Secret::expose)),
        Err(error) => world.near(&error.to_string()),
    }
}

#[test]
fn a_kept_key_counts_after_files_and_environment() {
    let kept = drawer(&[("anthropic", "kept"), ("own", "kept too")]);
    let world = World::new();
    assert_eq!(chosen(&world, &kept, None), "anthropic/claude-x kept");
    assert_eq!(chosen(&world, &kept, Some("anthropic/claude-y")), "anthropic/claude-y kept");
    let in_shell = World::new().env("ANTHROPIC_API_KEY", "shell");
    assert_eq!(chosen(&in_shell, &kept, None), "anthropic/claude-x shell");
    let other_in_shell = World::new().env("GOOGLE_API_KEY", "shell");
    assert_eq!(chosen(&other_in_shell, &kept, None), "gemini/gem shell", "what is set comes before what is kept");
    let in_file = World::with_user(r#"{"provider": {"anthropic": {"api_key": "file"}}}"#).env("ANTHROPIC_API_KEY", "shell");
    assert_eq!(chosen(&in_file, &kept, None), "anthropic/claude-x file");
    let own = World::with_user(r#"{"provider": {"own": {"base_url": "http://o", "models": {"m": {}}}}}"#);
    assert_eq!(chosen(&own, &kept, None), "own/m kept too");
    assert_eq!(chosen(&own, &drawer(&[]), None), "own/m -", "a server of the user's own may need none");
}

#[test]
fn what_is_kept_is_not_asked_for_in_vain() {
    let kept = drawer(&[("anthropic", "kept")]);
    let worlds = [
        World::new().env("ANTHROPIC_API_KEY", "shell"),
        World::with_user(r#"{"provider": {"own": {"base_url": "http://o", "api_key": "k", "models": {"m": {}}}}}"#),
    ];
    for world in worlds {
        chosen(&world, &kept, None);
    }
    assert_eq!(kept.asked.load(Ordering::Relaxed), 0);
}

#[test]
fn a_place_that_cannot_be_read_is_told_and_not_passed_over() {
    let broken = Arc::new(Drawer { broken: Some("others can read it"), ..Drawer::default() });
    let world = World::new();
    assert_eq!(chosen(&world, &broken, None), "no key for anthropic/claude-x: others can read it");
    assert_eq!(chosen(&world, &broken, Some("gemini/g")), "no key for gemini/g: others can read it");
    assert_eq!(chosen(&World::new().env("GEMINI_API_KEY", "k"), &broken, None), "gemini/gem k");
}

#[test]
fn a_project_nobody_trusts_cannot_lead_a_kept_key_elsewhere() {
    let kept = drawer(&[("anthropic", "kept"), ("evil", "kept too")]);
    let world = World::with_project(
        r#"{"model": "evil/m", "provider": {"anthropic": {"base_url": "http://evil"}, "evil": {"base_url": "http://evil", "models": {"m": {}}}}}"#,
    );
    let env = |name: &str| world.get(name);
    let choice = config(&world, &kept).with_project_models(KNOWN, &env).choose_model(None, KNOWN, &env).unwrap();
    let ModelChoice::Remote(chosen) = choice else { panic!("offline") };
    assert_eq!((chosen.name().as_str(), chosen.base_url.as_str()), ("anthropic/claude-x", "https://a"));
}

#[test]
fn every_place_with_a_key_is_named_and_the_first_counts() {
    let kept = drawer(&[("gemini", "kept")]);
    let world = World::with_user("{\"provider\": {\n\"gemini\": {\n\"api_key\": \"file-secret\"}, \"p\": {\"base_url\": \"http://p\", \"env\": [\"PK\"], \"api_key\": \"{env:NONE}\"}}}")
        .env("GEMINI_API_KEY", "one-secret")
        .env("GOOGLE_API_KEY", "two-secret")
        .env("PK", "three-secret");
    let config = config(&world, &kept);
    let env = |name: &str| world.get(name);
    let sources = |provider: &str| config.key_sources(provider, KNOWN, &env).unwrap();
    let file = world.dir.join("home/posse/posse.json").to_string_lossy().into_owned();
    assert_eq!(
        sources("gemini"),
        [
            KeySource::Configured(Origin::new(&file, 3)),
            KeySource::Variable("GEMINI_API_KEY".into()),
            KeySource::Variable("GOOGLE_API_KEY".into()),
            KeySource::Kept,
        ]
    );
    assert_eq!(sources("anthropic"), []);
    let own = sources("p");
    assert!(matches!(&own[..], [KeySource::Missing(why), KeySource::Variable(name)] if why.contains("NONE") && name == "PK"), "{own:?}");
    assert!(!format!("{:?} {own:?} {config:?}", sources("gemini")).contains("secret"));
}
