//! A hook changes the configuration before anything is built from it.

use std::sync::Arc;

use posse_session::{Hook, Touch, Verdict};
use serde_json::{Value, json};

use crate::testing::World;

type Change = fn(&mut Value);

struct Changes(&'static str, Change);

impl Hook for Changes {
    fn name(&self) -> &str {
        self.0
    }

    fn config(&self, config: &mut Value) {
        (self.1)(config);
    }
}

fn hooks(changes: &[(&'static str, Change)]) -> Vec<Arc<dyn Hook>> {
    changes.iter().map(|(name, change)| Arc::new(Changes(name, *change)) as Arc<dyn Hook>).collect()
}

#[test]
fn what_a_hook_changed_counts_with_its_name_and_flags_are_above_it() {
    let world = World::with_user(r#"{"model": "x/files", "models": {"small": "x/tiny"}}"#);
    let chain = hooks(&[
        ("first", |config| config["model"] = json!("x/first")),
        ("second", |config| config["model"] = json!(format!("{}-second", config["model"].as_str().unwrap()))),
    ]);
    let config = world.load_with_hooks(&chain).unwrap();
    let model = config.model.clone().unwrap();
    assert_eq!((model.value.as_str(), model.origin.to_string().as_str()), ("x/first-second", "hook second:1"));
    assert_eq!(config.aliases[0].1.value, "x/tiny", "what it left alone keeps its value");
    let world = world.model_flag("x/flag");
    assert_eq!(world.load_with_hooks(&chain).unwrap().model.unwrap().value, "x/flag");
}

#[test]
fn a_hook_that_changes_nothing_leaves_nothing() {
    let world = World::with_user(r#"{"model": "x/files"}"#);
    let config = world.load_with_hooks(&hooks(&[("quiet", |_| {})])).unwrap();
    assert_eq!(config.sources, world.load().unwrap().sources);
}

#[test]
fn a_hook_may_add_rules_and_wrong_values_are_refused_by_its_name() {
    let world = World::new();
    let config = world.load_with_hooks(&hooks(&[("strict", |config| config["permission"] = json!({"bash": "deny"}))])).unwrap();
    assert_eq!(config.rulebook().rules.judge(&Touch::new("bash", "ls")).verdict, Verdict::Deny);
    let error = world.load_with_hooks(&hooks(&[("broken", |config| config["model"] = json!(7))])).unwrap_err();
    assert_eq!(error.to_string(), "hook broken:1: model: expected a string, found a number");
}
