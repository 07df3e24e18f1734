//! Layers over one another, and the typed values out of the result.
//!
//! Every value has been checked by `read.rs`; what is not there was not said.

use std::{collections::HashMap, time::Duration};

use posse_session::{Forks, Verdict};

use crate::{
    config::{Below, Compaction, Compat, Concurrency, Config, InstructionPattern, InternalSettings, Limits, Overrides, WorktreeSettings},
    duration::parse_duration,
    keys::Kept,
    layer::{Family, Layer, Standing},
    mode::PermissionMode,
    origin::{Findings, Origin, Sourced},
    permission::{LayerRules, dead_rules},
    provider::providers_of,
    tree::{Entry, Held, Node},
    trust::{Standings, Trust},
    wish::{self, Wishes},
};

/// The configuration of these layers, lowest precedence first, under the flags.
pub(crate) fn config_of(layers: Vec<Layer>, standings: Standings, overrides: &Overrides) -> Config {
    let mut tree = Node { origin: Origin::built_in(), held: Held::Map(Vec::new()) };
    let rules = rules_of(&layers);
    let mut instructions = Vec::new();
    let mut later = Vec::new();
    let mut sources = Vec::new();
    let mut findings = Findings::default();
    let mut wishes = Wishes::default();
    for mut layer in layers {
        if layer.source.is_trusted() {
            wish::answer(&layer.values, &mut wishes);
        } else {
            wish::take(&mut layer.values, &mut wishes);
        }
        instructions.extend(instructions_of(&layer));
        tree = merged(tree, layer.values, "");
        later.extend(layer.later);
        sources.push(layer.source.shown.to_string());
        findings.warnings.extend(layer.findings.warnings);
        findings.ignored.extend(layer.findings.ignored);
    }
    let trust = standings.trust();
    // Who trusts a folder need not be told at every start what we do not do anyway.
    for folder in standings.folders.iter().filter(|folder| folder.trust != Trust::Trusted) {
        findings.ignored.extend(folder.ignored.iter().cloned());
    }
    findings.warnings.extend(standings.problem);
    let flags = LayerRules { trusted: true, rules: overrides.rules.clone() };
    let dead = dead_rules(&[&rules[..], &[flags]].concat());
    findings.warnings.extend(dead.others);
    let below_flag = overrides.model.as_ref().map(|model| {
        let below = Below { model: sourced(tree.get("model")) };
        let lower = std::mem::replace(&mut tree, Node { origin: Origin::built_in(), held: Held::Null });
        tree = merged(lower, flag("model", model), "");
        below
    });
    Config {
        model: sourced(tree.get("model")),
        below_flag,
        aliases: named(tree.get("models")),
        providers: providers_of(tree.get("provider")),
        default_agent: sourced(tree.get("default_agent")),
        permission_mode: overrides.permission_mode.or(mode_of(tree.get("permission_mode"))).unwrap_or_default(),
        limits: limits_of(tree.get("limits")),
        concurrency: concurrency_of(tree.get("concurrency")),
        background: tree.get("background").and_then(Node::flag).unwrap_or(true),
        auto_background_after: time_of(tree.get("auto_background_after")),
        compaction: compaction_of(tree.get("compaction")),
        forks: forks_of(tree.get("fork")),
        worktree: worktree_of(tree.get("worktree")),
        internal: internal_of(tree.get("internal")),
        fallback: tree.get("fallback").map(Node::items).unwrap_or_default().iter().filter_map(Node::text).map(str::to_owned).collect(),
        compat: compat_of(tree.get("compat")),
        later,
        sources,
        warnings: findings.warnings,
        dead_denies: dead.denies,
        ignored: findings.ignored,
        trust,
        parts: standings.folders.iter().flat_map(|folder| folder.parts.clone()).collect(),
        folders: standings.folders,
        instructions,
        rules,
        flags: overrides.rules.clone(),
        wishes,
        kept: Kept::default(),
        tree,
    }
}

fn forks_of(node: Option<&Node>) -> Option<Forks> {
    match node.and_then(Node::text)? {
        "implicit" => Some(Forks::Implicit),
        "explicit" => Some(Forks::Explicit),
        _ => Some(Forks::Off),
    }
}

fn internal_of(node: Option<&Node>) -> InternalSettings {
    let field = |name: &str| node.and_then(|node| node.get(name));
    let flag = |name: &str| field(name).and_then(Node::flag).unwrap_or(false);
    InternalSettings {
        memory: flag("memory"),
        consolidate: flag("consolidate"),
        suggest: flag("suggest"),
        speculate: flag("speculate"),
        summaries: time_of(field("summaries")),
        model: field("model").and_then(Node::text).map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned),
    }
}

fn worktree_of(node: Option<&Node>) -> WorktreeSettings {
    let field = |name: &str| node.and_then(|node| node.get(name));
    WorktreeSettings {
        changes: field("changes").and_then(Node::flag).unwrap_or(false),
        create: field("create").and_then(Node::text).filter(|command| !command.trim().is_empty()).map(str::to_owned),
    }
}

/// Both are on unless somebody says otherwise.
fn compaction_of(node: Option<&Node>) -> Compaction {
    let flag = |name: &str| node.and_then(|node| node.get(name)).and_then(Node::flag).unwrap_or(true);
    Compaction { auto: flag("auto"), prune: flag("prune") }
}

/// The rules of all files. Those of Claude's files in one project count together, as they do there: a deny of one over an
/// ask of another over an allow of a third.
fn rules_of(layers: &[Layer]) -> Vec<LayerRules> {
    let mut rules = Vec::new();
    for group in layers.chunk_by(|one, other| of_claudes_project(one) && of_claudes_project(other)) {
        if !of_claudes_project(&group[0]) {
            rules.extend(group.iter().map(|layer| LayerRules { trusted: layer.source.is_trusted(), rules: layer.rules.clone() }));
            continue;
        }
        for action in [Verdict::Allow, Verdict::Ask, Verdict::Deny] {
            rules.extend(group.iter().map(|layer| LayerRules {
                trusted: layer.source.is_trusted(),
                rules: layer.rules.iter().filter(|rule| rule.action == action).cloned().collect(),
            }));
        }
    }
    rules
}

fn of_claudes_project(layer: &Layer) -> bool {
    layer.source.family == Family::Claude && layer.source.standing != Standing::User
}

/// Objects are merged key by key, the upper's keys first; anything else is replaced, and `instructions` add up.
pub(crate) fn merged(lower: Node, upper: Node, path: &str) -> Node {
    let held = match (lower.held, upper.held) {
        (Held::Map(lower), Held::Map(upper)) => Held::Map(merged_entries(lower, upper)),
        (Held::List(mut lower), Held::List(upper)) if path == "instructions" => {
            lower.extend(upper);
            Held::List(lower)
        }
        (_, upper) => upper,
    };
    Node { origin: upper.origin, held }
}

/// By an index, so that two huge files cost no more than their size.
fn merged_entries(lower: Vec<Entry>, upper: Vec<Entry>) -> Vec<Entry> {
    let places: HashMap<String, usize> = lower.iter().enumerate().map(|(at, entry)| (entry.name.clone(), at)).collect();
    let mut lower: Vec<Option<Entry>> = lower.into_iter().map(Some).collect();
    let mut entries = Vec::with_capacity(lower.len() + upper.len());
    for entry in upper {
        let below = places.get(&entry.name).and_then(|at| lower[*at].take());
        entries.push(match below {
            Some(below) => Entry { node: merged(below.node, entry.node, &entry.name), ..entry },
            None => entry,
        });
    }
    entries.extend(lower.into_iter().flatten());
    entries
}

fn flag(name: &str, value: &str) -> Node {
    let origin = Origin::new(&format!("--{name}"), 0);
    let node = Node { origin: origin.clone(), held: Held::Text(value.to_owned()) };
    Node { origin: origin.clone(), held: Held::Map(vec![Entry { name: name.to_owned(), origin, node }]) }
}

pub(crate) fn sourced(node: Option<&Node>) -> Option<Sourced<String>> {
    node.and_then(|node| Some(Sourced { value: node.text()?.to_owned(), origin: node.origin.clone() }))
}

pub(crate) fn named(node: Option<&Node>) -> Vec<(String, Sourced<String>)> {
    let entries = node.map(Node::entries).unwrap_or_default().iter();
    entries.filter_map(|entry| Some((entry.name.clone(), sourced(Some(&entry.node))?))).collect()
}

fn mode_of(node: Option<&Node>) -> Option<PermissionMode> {
    node?.text()?.parse().ok()
}

fn limits_of(node: Option<&Node>) -> Limits {
    let built_in = Limits::default();
    let Some(node) = node else { return built_in };
    let count = |name| node.get(name).and_then(Node::count);
    let time = |name| time_of(node.get(name));
    Limits {
        depth: count("depth").unwrap_or(built_in.depth),
        children: count("children").unwrap_or(built_in.children),
        tree: count("tree").unwrap_or(built_in.tree),
        stream_idle: time("stream_idle").unwrap_or(built_in.stream_idle),
        step: time("step").unwrap_or(built_in.step),
        idle: time("idle").unwrap_or(built_in.idle),
        wall: time("wall").unwrap_or(built_in.wall),
        steps: count("steps"),
        cost: node.get("cost").and_then(Node::number),
        tokens: count("tokens"),
    }
}

/// Nothing also where it is turned off.
fn time_of(node: Option<&Node>) -> Option<Duration> {
    parse_duration(node?.text()?).ok()
}

fn concurrency_of(node: Option<&Node>) -> Concurrency {
    let entries = node.map(Node::entries).unwrap_or_default().iter();
    let mut named: Vec<(String, u64)> = entries.filter_map(|entry| Some((entry.name.clone(), entry.node.count()?))).collect();
    let default = named.iter().position(|(name, _)| name == "default").map(|at| named.remove(at).1);
    Concurrency { default: default.unwrap_or(16), named }
}

pub(crate) fn compat_of(node: Option<&Node>) -> Compat {
    let flag = |name| node.and_then(|node| node.get(name)).and_then(Node::flag).unwrap_or(true);
    Compat { opencode: flag("opencode"), claude: flag("claude") }
}

fn instructions_of(layer: &Layer) -> Vec<InstructionPattern> {
    let items = layer.values.get("instructions").map(Node::items).unwrap_or_default().iter();
    let pattern = |item: &Node| {
        let pattern = item.text()?.to_owned();
        Some(InstructionPattern { pattern, dir: layer.source.dir.clone(), trusted: layer.source.is_trusted(), origin: item.origin.clone() })
    };
    items.filter_map(pattern).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::World;

    /// CC-209: nothing is done beside a conversation before somebody says so, and one word does not switch on another.
    #[test]
    fn internal_work_is_off_until_somebody_switches_it_on() {
        assert_eq!(World::new().load().unwrap().internal, InternalSettings::default());
        let said = r#"{"internal": {"suggest": true, "summaries": "30s", "model": " small "}}"#;
        let found = World::new().file("home/posse/posse.json", said).load().unwrap().internal;
        let (summaries, model) = (Some(Duration::from_secs(30)), Some("small".to_owned()));
        assert_eq!(found, InternalSettings { suggest: true, summaries, model, ..InternalSettings::default() });
        let off = r#"{"internal": {"summaries": false, "memory": false, "model": ""}}"#;
        assert_eq!(World::new().file("home/posse/posse.json", off).load().unwrap().internal, InternalSettings::default());
    }

    #[test]
    fn the_built_in_text_and_the_built_in_types_agree() {
        let config = World::new().load().unwrap();
        assert_eq!(config.limits, Limits::default());
        assert_eq!(config.concurrency, Concurrency { default: 16, named: Vec::new() });
        assert_eq!(config.compat, Compat { opencode: true, claude: true });
        assert_eq!((config.background(), config.auto_background_after(), config.fallback.len()), (true, None, 0));
        assert_eq!((config.warnings, config.ignored, config.dead_denies), Default::default());
        assert_eq!(config.sources, ["built-in"]);
    }
}
