//! What holds for one round of an agent: limits that tighten and never widen, fallback models, background work.

use std::time::Duration;

use posse_session::Agent;

use crate::{Agents, Config, RoundLimits, agents, testing::World};

fn both(world: &World) -> (Config, Agents) {
    let config = world.load().unwrap_or_else(|error| panic!("{error}"));
    let agents = agents(&world.places(), &config, None).unwrap_or_else(|error| panic!("{error}"));
    (config, agents)
}

/// An agent of the user's whose head or whose JSON says this.
fn agent(json: &str) -> (Config, Agent) {
    let (config, agents) = both(&World::with_user(&format!(r#"{{"agent": {{"a": {json}}}}}"#)));
    (config, agents.get("a").unwrap().clone())
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// The built-in ones.
const USUAL: RoundLimits = RoundLimits {
    wall: Duration::from_secs(7_200),
    idle: Duration::from_secs(600),
    stream_idle: Duration::from_secs(300),
    step: Duration::from_secs(900),
    cost_usd: None,
    tokens: None,
    depth: None,
    children: 200,
};

#[test]
fn an_agent_tightens_the_configured_limits_and_never_widens_them() {
    let configured =
        r#""limits": {"wall": "1h", "idle": "5m", "stream_idle": "1m", "step": "2m", "cost": 2, "tokens": 1000, "children": 10}, "#;
    let of_configured =
        RoundLimits { wall: seconds(3_600), idle: seconds(300), stream_idle: seconds(60), step: seconds(120), children: 10, ..USUAL };
    let table = [
        ("", "{}", USUAL),
        ("", r#"{"timeout": "10m"}"#, RoundLimits { wall: seconds(600), ..USUAL }),
        ("", r#"{"timeout": "10m", "limits": {"wall": "5m"}}"#, RoundLimits { wall: seconds(300), ..USUAL }),
        ("", r#"{"limits": {"wall": "5m"}, "timeout": 600}"#, RoundLimits { wall: seconds(300), ..USUAL }),
        ("", r#"{"timeout": "3h"}"#, USUAL),
        (
            "",
            r#"{"limits": {"idle": "1m", "streamIdle": 20, "step": "30s"}}"#,
            RoundLimits { idle: seconds(60), stream_idle: seconds(20), step: seconds(30), ..USUAL },
        ),
        ("", r#"{"limits": {"idle": "1h", "stream_idle": "1h", "step": "1h", "children": 300}}"#, USUAL),
        ("", r#"{"limits": {"depth": 0, "children": 0}}"#, RoundLimits { depth: Some(0), children: 0, ..USUAL }),
        ("", r#"{"budget": 0.5}"#, RoundLimits { cost_usd: Some(0.5), ..USUAL }),
        (
            "",
            r#"{"budget": {"cost": 0.5, "tokens": 10}, "limits": {"cost": 0.25, "tokens": 20}}"#,
            RoundLimits { cost_usd: Some(0.25), tokens: Some(10), ..USUAL },
        ),
        ("", r#"{"maxCost": 1, "limits": {"maxCost": 3, "max_tokens": 7}}"#, RoundLimits { cost_usd: Some(1.0), tokens: Some(7), ..USUAL }),
        (configured, "{}", of_configured),
        (
            configured,
            r#"{"timeout": "2h", "limits": {"idle": "9m", "stream_idle": "2m", "step": "3m", "cost": 5, "tokens": 5000}}"#,
            RoundLimits { cost_usd: Some(2.0), tokens: Some(1_000), ..of_configured },
        ),
        (
            configured,
            r#"{"timeout": "1m", "budget": {"cost": 1, "tokens": 10}}"#,
            RoundLimits { wall: seconds(60), cost_usd: Some(1.0), tokens: Some(10), ..of_configured },
        ),
    ];
    for (limits, json, expected) in table {
        let (config, agents) = both(&World::with_user(&format!(r#"{{{limits}"agent": {{"a": {json}}}}}"#)));
        assert_eq!(config.limits_for(agents.get("a").unwrap()), expected, "{limits}{json}");
    }
}

#[test]
fn steps_are_a_limit_in_any_of_their_places_and_the_smaller_counts() {
    let table = [
        (r#"{"limits": {"steps": 4}}"#, Some(4)),
        (r#"{"steps": 9, "limits": {"steps": 4}}"#, Some(4)),
        (r#"{"limits": {"max_turns": 4}, "steps": 2}"#, Some(2)),
        (r#"{"limits": {"steps": 20}, "maxTurns": 9}"#, Some(9)),
        (r#"{"budget": {"steps": 3}}"#, Some(3)),
        (r#"{"limits": {"steps": null}}"#, None),
    ];
    for (json, expected) in table {
        assert_eq!(agent(json).1.steps, expected, "{json}");
    }
}

/// CC-051: each family of files says it, in a head and in JSON; a higher definition overrides what it says and no more.
#[test]
fn every_family_of_files_has_limits_and_fallbacks() {
    let head =
        "---\nname: a\ndescription: d\ntimeout: 5m\nbudget: {cost: 1}\nlimits:\n  idle: 1m\nfallback: small\nbackground: true\n---\nWords.";
    let json =
        r#"{"agent": {"a": {"timeout": "5m", "budget": {"cost": 1}, "limits": {"idle": "1m"}, "fallback": "small", "background": true}}}"#;
    let expected = RoundLimits { wall: seconds(300), idle: seconds(60), cost_usd: Some(1.0), ..USUAL };
    for (path, text) in [
        ("home/.claude/agents/a.md", head),
        ("home/.config/opencode/agent/a.md", head),
        ("home/posse/agents/a.md", head),
        ("home/.config/opencode/opencode.json", json),
        ("home/posse/posse.json", json),
    ] {
        let (config, agents) = both(&World::new().file(path, text));
        let a = agents.get("a").unwrap();
        assert_eq!((config.limits_for(a), config.fallbacks_for(a), a.background), (expected, vec!["small".to_owned()], true), "{path}");
        assert_eq!(agents.tolerated.len(), 0, "{path}: {:?}", agents.tolerated);
    }
    let over = r#"{"agent": {"a": {"limits": {"step": "1m"}, "background": false, "fallback": []}}}"#;
    let (config, agents) = both(&World::with_user(over).file("home/.config/opencode/opencode.json", json));
    let a = agents.get("a").unwrap();
    assert_eq!(config.limits_for(a), RoundLimits { step: seconds(60), ..expected });
    assert_eq!((config.fallbacks_for(a).len(), a.background), (0, false));
}

#[test]
fn a_fallback_of_the_agent_counts_before_that_of_all() {
    let table: [(&str, &str, &[&str]); 9] = [
        ("", "{}", &[]),
        (r#""fallback": "small", "#, "{}", &["small"]),
        (r#""fallback": ["small", "p/m", "small"], "#, "{}", &["small", "p/m"]),
        (r#""fallbackModels": ["small"], "#, r#"{"fallback": ["p/x", "p/y"]}"#, &["p/x", "p/y"]),
        (r#""fallback_models": "small", "#, r#"{"fallback": []}"#, &[]),
        (r#""fallbackModel": "small", "#, r#"{"fallback_models": "p/x, p/y"}"#, &["p/x", "p/y"]),
        (r#""fallback": ["small", "p/m"], "#, r#"{"model": "p/m"}"#, &["small"]),
        ("", r#"{"fallbackModels": [{"providerID": "p", "modelID": "z"}, "strong"]}"#, &["p/z", "strong"]),
        ("", r#"{"fallback": {"providerID": "p", "modelID": "z"}}"#, &["p/z"]),
    ];
    for (top, json, expected) in table {
        let (config, agents) = both(&World::with_user(&format!(r#"{{{top}"agent": {{"a": {json}}}}}"#)));
        assert_eq!(config.fallbacks_for(agents.get("a").unwrap()), expected, "{top}{json}");
        assert_eq!(config.warnings, Vec::new());
    }
}

/// CC-039: whoever turns background work off has none, and nothing is sent there by itself.
#[test]
fn cc_039_background_work_is_on_unless_somebody_turns_it_off() {
    let table = [
        ("{}", None, true, None),
        (r#"{"background": false}"#, None, false, None),
        (r#"{"background": true}"#, Some("1"), false, None),
        ("{}", Some("true"), false, None),
        ("{}", Some("0"), true, None),
        ("{}", Some("off"), true, None),
        ("{}", Some(""), true, None),
        (r#"{"autoBackgroundAfter": "2m"}"#, None, true, Some(seconds(120))),
        (r#"{"auto_background_after": 90}"#, None, true, Some(seconds(90))),
        (r#"{"auto_background_after": "off"}"#, None, true, None),
        (r#"{"auto_background_after": false}"#, None, true, None),
        (r#"{"auto_background_after": "2m", "background": false}"#, None, false, None),
        (r#"{"auto_background_after": "2m"}"#, Some("1"), false, None),
    ];
    for (text, variable, background, after) in table {
        let mut world = World::with_user(text);
        if let Some(value) = variable {
            world = world.env("POSSE_DISABLE_BACKGROUND", value);
        }
        let config = world.load().unwrap();
        assert_eq!((config.background(), config.auto_background_after()), (background, after), "{text} {variable:?}");
        assert_eq!((config.warnings.len(), config.later.len()), (0, 0), "it has a meaning: {text}");
    }
    let shown = World::with_user(r#"{"background": true}"#).env("POSSE_DISABLE_BACKGROUND", "1").load().unwrap().show();
    let row = shown.iter().find(|row| row.key == "background").unwrap();
    assert_eq!((row.value.as_str(), row.origin.as_str()), ("false", "POSSE_DISABLE_BACKGROUND"), "and it is seen who said so");
}

#[test]
fn what_cannot_be_meant_is_an_error_in_a_configuration_file() {
    let table = [
        (r#"{"background": "no"}"#, "background: expected true or false, found a string"),
        (r#"{"auto_background_after": "soon"}"#, "auto_background_after: expected a duration like"),
        (r#"{"auto_background_after": 0}"#, "auto_background_after: expected a duration above zero"),
        (r#"{"auto_background_after": true}"#, "auto_background_after: expected a duration like \"10m\", found a boolean"),
        (r#"{"fallback": 5}"#, "fallback: expected the name of a model or a list of such names, found a number"),
        (r#"{"fallback": ["a b"]}"#, "fallback[0]: not the name of a model"),
        (r#"{"fallback": "inherit"}"#, "fallback: a fallback must be named; `inherit` is not a model"),
        (r#"{"fallback": ["1","2","3","4","5","6","7","8","9"]}"#, "fallback: expected at most 8 models, found 9"),
        (r#"{"agent": {"a": {"timeout": 0}}}"#, "agent.a.timeout: expected a duration above zero"),
        (r#"{"agent": {"a": {"limits": 5}}}"#, "agent.a.limits: expected an object, found a number"),
        (r#"{"agent": {"a": {"limits": {"wall": "soon"}}}}"#, "agent.a.limits.wall: expected a duration like"),
        (r#"{"agent": {"a": {"limits": {"wall": []}}}}"#, "agent.a.limits.wall: expected a duration like"),
        (r#"{"agent": {"a": {"limits": {"tokens": 0}}}}"#, "agent.a.limits.tokens: expected a whole number, 1 or more"),
        (r#"{"agent": {"a": {"limits": {"depth": -1}}}}"#, "agent.a.limits.depth: expected a whole number, 0 or more"),
        (r#"{"agent": {"a": {"budget": {"cost": -1}}}}"#, "agent.a.budget.cost: expected a number that is not negative"),
        (r#"{"agent": {"a": {"budget": {"money": 1}}}}"#, "agent.a.budget.money: not a budget; `cost` and `tokens` are"),
        (r#"{"agent": {"a": {"fallback": ["x", "y z"]}}}"#, "agent.a.fallback: not the name of a model"),
        (r#"{"agent": {"a": {"fallback": 1, "fallbackModels": [[]]}}}"#, "agent.a.fallbackModels: not the name of a model"),
        (r#"{"agent": {"a": {"fallback": ["1","2","3","4","5","6","7","8","9"]}}}"#, "agent.a.fallback: expected at most 8 models"),
    ];
    for (text, expected) in table {
        let world = World::with_user(text);
        let error = match world.load() {
            Err(error) => error.to_string(),
            Ok(config) => agents(&world.places(), &config, None).map(|_| "no error".to_owned()).unwrap_or_else(|error| error.to_string()),
        };
        assert!(world.near(&error).starts_with(&format!("home/posse/posse.json:1: {expected}")), "{text}: {error}");
    }
}

/// A file of its own is never refused: what it cannot mean is left out and named, with what was probably meant.
#[test]
fn slips_in_a_file_are_named_with_what_was_meant() {
    let table = [
        ("limits: {wal: 5m}", "limits.wal: nobody knows this limit, so it is left out; did you mean `wall`?"),
        ("limits: {coffee: 5}", "limits.coffee: nobody knows this limit, so it is left out"),
        ("limits: {tree: 5}", "limits.tree: holds for a whole tree, so only the configuration's `limits` may say it; left out"),
        ("limts: {wall: 5m}", "limts: nobody knows this key, so it is left out; did you mean `limits`?"),
        ("falback: small", "falback: nobody knows this key, so it is left out; did you mean `fallback`?"),
        ("fallback_modles: small", "fallback_modles: nobody knows this key, so it is left out; did you mean `fallback_models`?"),
        ("fallback: [small, inherit]", "fallback: a fallback must be named; `inherit` is not a model"),
        ("timeout: never", "timeout: expected a duration like"),
    ];
    for (line, expected) in table {
        let world = World::new().file("home/posse/agents/a.md", format!("---\ndescription: d\n{line}\n---\nWords."));
        let (config, agents) = both(&world);
        let told: Vec<String> = agents.tolerated.iter().map(|problem| world.near(&problem.to_string())).collect();
        assert!(told.len() == 1 && told[0].starts_with(&format!("home/posse/agents/a.md:3: {expected}")), "{line}: {told:?}");
        let a = agents.get("a").unwrap();
        assert_eq!((config.limits_for(a), a.options.len()), (USUAL, 0), "{line}");
        assert_eq!(config.fallbacks_for(a).len(), usize::from(line.contains("[small")), "the others count: {line}");
    }
}

/// A folder that nobody trusts neither sends work to another model nor into the background, and changes no limit.
#[test]
fn an_untrusted_folder_says_nothing_of_the_kind_and_is_named() {
    let head = "---\ndescription: d\nbackground: true\ntimeout: 1s\nbudget: 9\nlimits: {idle: 1s}\nfallback: evil/m\n---\nWords.";
    let json = r#"{"background": false, "autoBackgroundAfter": "1s", "fallback": "evil/m", "limits": {"wall": "1s"}, "concurrency": 99,
        "agent": {"b": {"prompt": "p", "background": true, "timeout": "1s", "budget": 9, "limits": {"idle": "1s"}, "fallbackModels": ["evil/m"]}}}"#;
    let mut world = World::with_user(r#"{"fallback": "small"}"#).file("proj/.claude/agents/a.md", head).file("proj/posse.json", json);
    let (config, agents) = both(&world);
    assert_eq!((config.background(), config.auto_background_after(), config.concurrency.default), (true, None, 16));
    for name in ["a", "b"] {
        let agent = agents.get(name).unwrap();
        let told = (config.limits_for(agent), config.fallbacks_for(agent), agent.background);
        assert_eq!(told, (USUAL, vec!["small".to_owned()], false), "{name}");
    }
    let line = config.ignored_line().unwrap();
    for part in [
        "posse.json: background, autoBackgroundAfter, fallback, limits, concurrency, agent.b.background, agent.b.timeout, agent.b.budget, agent.b.limits, agent.b.fallbackModels",
        ".claude/agents/a.md: background, budget, fallback, limits, timeout",
    ] {
        assert!(line.contains(part), "{part}\n{line}");
    }
    world.overrides.trust = true;
    let (config, agents) = both(&world);
    assert_eq!((config.background(), config.concurrency.default, config.limits.wall), (false, 99, seconds(1)));
    for name in ["a", "b"] {
        let agent = agents.get(name).unwrap();
        assert_eq!(
            (config.fallbacks_for(agent), agent.background, agent.timeout),
            (vec!["evil/m".to_owned()], true, Some(seconds(1))),
            "{name}"
        );
    }
}
