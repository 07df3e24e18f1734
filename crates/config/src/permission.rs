//! Rules as a file writes them, made into one list in which the last match wins.
//!
//! The meaning of a rule is `posse_session`'s; here are only the order, the origin, and what a folder that is not
//! trusted may say: it may deny and ask, never allow, and its ask never lifts a deny.

use std::path::Path;

use posse_session::{Agent, Rule, Rules, Verdict, key_of, wildcard};
use serde_json::json;

use crate::{
    claude_path::Anchors,
    layer::Source,
    mode::{self, PermissionMode},
    native,
    origin::{Findings, Origin, Problem},
    path_pattern::{self, Roots},
    rule_key::{KeyError, RuleKey},
    tree::{Entry, Held, Node},
};

/// The rules of a run. Judge by `rules` with `ceiling` above them, never by `rules` alone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rulebook {
    pub rules: Rules,
    /// Lists of which each is judged whole; the strictest counts. What the user says without a project that is not
    /// trusted, so that its ask lifts no deny; and in the mode `plan` its rules, so that nothing widens them.
    pub ceiling: Vec<Rules>,
}

/// One layer's rules and whether they count as the user's.
#[derive(Debug, Clone)]
pub(crate) struct LayerRules {
    pub(crate) trusted: bool,
    pub(crate) rules: Vec<Rule>,
}

/// Files, then the agent, then the mode, then flags.
pub(crate) fn rulebook(files: &[LayerRules], agent: &Agent, mode: PermissionMode, flags: &[Rule]) -> Rulebook {
    let of_files = |trusted_only: bool| {
        let chosen = files.iter().filter(move |layer| layer.trusted || !trusted_only);
        chosen.flat_map(|layer| layer.rules.iter().cloned())
    };
    let list = |trusted_only: bool, of_agent: Vec<Rule>| {
        Rules(of_files(trusted_only).chain(of_agent).chain(mode::rules_of(mode)).chain(flags.iter().cloned()).collect())
    };
    let of_agent = || merged(&agent.own_rules, &agent.permission);
    let mut ceiling = Vec::new();
    if files.iter().any(|layer| !layer.trusted && !layer.rules.is_empty()) {
        ceiling.push(list(true, of_agent()));
    }
    if !agent.own_rules.is_empty() {
        // What we wrote for an agent of ours lifts nothing that the user wrote.
        ceiling.push(list(false, agent.permission.clone()));
    }
    if flags.iter().any(|rule| rule.action == Verdict::Allow) {
        ceiling.extend(native_denies(agent));
    }
    if !agent.ceiling.is_empty() {
        ceiling.push(Rules(std::iter::once(allow("*", &agent.origin)).chain(agent.ceiling.iter().cloned()).collect()));
    }
    if let Some(plan) = mode::ceiling_of(mode) {
        ceiling.push(plan);
        // The mode's asks come after the files' denies and would lift them.
        ceiling.push(Rules(of_files(false).chain(of_agent()).map(only_deny).collect()));
    }
    let book = Rulebook { rules: list(false, of_agent()), ceiling };
    if native::denies_shell_asks(agent, mode) { book.without_shell_asks() } else { book }
}

/// What we deny an agent of ours, as far as its own definition leaves it: no flag allows that.
fn native_denies(agent: &Agent) -> Option<Rules> {
    let is_ours =
        |rule: &Rule| agent.own_rules.iter().any(|own| own.action == Verdict::Deny && own.key == rule.key && own.pattern == rule.pattern);
    let kept = merged(&agent.own_rules, &agent.permission).into_iter().filter(|rule| rule.action != Verdict::Deny || is_ours(rule));
    let rules: Vec<Rule> = kept.map(only_deny).collect();
    let denies = rules.iter().any(|rule| rule.action == Verdict::Deny);
    denies.then(|| Rules(std::iter::once(allow("*", &agent.origin)).chain(rules).collect()))
}

impl Rulebook {
    fn without_shell_asks(self) -> Self {
        let denied = |rules: Rules| Rules(rules.0.into_iter().flat_map(without_shell_ask).collect());
        Self { rules: denied(self.rules), ceiling: self.ceiling.into_iter().map(denied).collect() }
    }
}

fn without_shell_ask(rule: Rule) -> Vec<Rule> {
    let concerns_shell = rule.action == Verdict::Ask && wildcard(SHELL, &rule.key);
    let denied = concerns_shell.then(|| Rule { key: SHELL.to_owned(), action: Verdict::Deny, ..rule.clone() });
    let kept = (rule.key != SHELL || !concerns_shell).then_some(rule);
    kept.into_iter().chain(denied).collect()
}

const SHELL: &str = "bash";

fn allow(key: &str, origin: &str) -> Rule {
    Rule { key: key.to_owned(), pattern: "*".to_owned(), action: Verdict::Allow, origin: origin.to_owned() }
}

/// Putting each rule in its place is quadratic; nobody writes more by hand. Longer lists come last as they are.
const MERGED_RULES_MAX: usize = 500;

/// One definition's rules over another's. What is said again replaces what was said, where it stands; `*` goes below
/// what is more special, and everything else comes last.
pub(crate) fn merged(base: &[Rule], upper: &[Rule]) -> Vec<Rule> {
    if base.is_empty() || MERGED_RULES_MAX < upper.len() {
        return [base, upper].concat();
    }
    let mut rules = base.to_vec();
    for rule in upper {
        let same = rules.iter().position(|known| known.key == rule.key && known.pattern == rule.pattern);
        let first = rules.iter().position(|known| known.key == rule.key);
        let last = rules.iter().rposition(|known| known.key == rule.key);
        match (same, first, last) {
            (Some(same), _, _) => rules[same] = rule.clone(),
            (None, Some(first), _) if rule.pattern == "*" => rules.insert(first, rule.clone()),
            (None, _, Some(last)) => rules.insert(last + 1, rule.clone()),
            _ if rule.key == "*" => rules.insert(0, rule.clone()),
            _ => rules.push(rule.clone()),
        }
    }
    rules
}

fn only_deny(rule: Rule) -> Rule {
    Rule { action: if rule.action == Verdict::Deny { Verdict::Deny } else { Verdict::Allow }, ..rule }
}

/// The rules of one file, in the order in which the last match wins.
pub(crate) fn rules_of(entries: &[Entry], first_wins: bool, source: &Source, roots: Roots<'_>, findings: &mut Findings) -> Vec<Rule> {
    let mut writer = Writer { source, roots, findings };
    let mut rules = Vec::new();
    // OpenCode's `tools` comes before the explicit rules, wherever it stands.
    for entry in entries.iter().filter(|entry| entry.name == "tools") {
        rules.extend(writer.tools(&entry.node).into_iter().flatten());
    }
    for entry in entries.iter().filter(|entry| entry.name == "permission") {
        let mut keys = writer.permission(&entry.node);
        if first_wins {
            reverse(&mut keys, |key| key.first().is_some_and(|rule| rule.key == "*"));
            for patterns in &mut keys {
                reverse(patterns, |rule| rule.pattern == "*");
            }
        }
        rules.extend(keys.into_iter().flatten());
    }
    rules
}

/// First match wins, `*` the fallback wherever it stands: read backwards with the fallback first, the last match wins.
fn reverse<T>(list: &mut [T], is_fallback: impl Fn(&T) -> bool) {
    list.reverse();
    list.sort_by_key(|item| !is_fallback(item));
}

struct Writer<'a> {
    source: &'a Source,
    roots: Roots<'a>,
    findings: &'a mut Findings,
}

impl Writer<'_> {
    /// Rules by key, in written order.
    fn permission(&mut self, node: &Node) -> Vec<Vec<Rule>> {
        match &node.held {
            Held::Text(_) => vec![self.rule(&RuleKey::literal("*"), "*", "permission", &node.origin, node)],
            Held::Map(keys) => keys.iter().map(|entry| self.key(entry)).collect(),
            _ => {
                self.findings.error(&node.origin, "permission", format!("expected a string or an object, found {}", node.kind()));
                Vec::new()
            }
        }
    }

    fn key(&mut self, entry: &Entry) -> Vec<Rule> {
        let path = format!("permission.{}", entry.name);
        let tightens = |node: &Node| matches!(node.text(), Some("ask" | "deny"));
        match &entry.node.held {
            Held::Map(patterns) => {
                let key = self.named(entry, patterns.iter().any(|pattern| tightens(&pattern.node)), &path);
                let rule =
                    |pattern: &Entry| self.rule(&key, &pattern.name, &format!("{path}.{}", pattern.name), &pattern.origin, &pattern.node);
                patterns.iter().flat_map(rule).collect()
            }
            _ => {
                let key = self.named(entry, tightens(&entry.node), &path);
                self.rule(&key, "*", &path, &entry.origin, &entry.node)
            }
        }
    }

    /// The key that an entry names. A deny or an ask under a name that no tool has would protect nothing, so it stops the
    /// start; a neighbour may have tools of its own, so there only a slip does.
    fn named(&mut self, entry: &Entry, tightens: bool, path: &str) -> RuleKey {
        RuleKey::of(&entry.name).unwrap_or_else(|error| {
            match error {
                // To allow what is not there widens nothing.
                KeyError::Unknown { .. } if !tightens => {}
                KeyError::Unknown { near: None } if self.source.is_neighbour() => self.findings.warn(&entry.origin, path, error.words()),
                _ => self.findings.error(&entry.origin, path, error.words()),
            }
            RuleKey::literal(&entry.name)
        })
    }

    fn tools(&mut self, node: &Node) -> Vec<Vec<Rule>> {
        if !matches!(node.held, Held::Map(_)) {
            self.findings.error(&node.origin, "tools", format!("expected an object, found {}", node.kind()));
            return Vec::new();
        }
        let mut rules = Vec::new();
        for entry in node.entries() {
            let path = format!("tools.{}", entry.name);
            let Some(flag) = entry.node.flag() else {
                self.findings.error(&entry.node.origin, &path, format!("expected true or false, found {}", entry.node.kind()));
                continue;
            };
            let action = Node { origin: entry.origin.clone(), held: Held::Text(if flag { "allow" } else { "deny" }.to_owned()) };
            let key = self.named(entry, !flag, &path);
            rules.push(self.rule(&key, "*", &path, &entry.origin, &action));
        }
        rules
    }

    fn rule(&mut self, key: &RuleKey, pattern: &str, path: &str, origin: &Origin, action: &Node) -> Vec<Rule> {
        let verdict = match action.text() {
            Some("allow") => Verdict::Allow,
            Some("ask") => Verdict::Ask,
            Some("deny") => Verdict::Deny,
            said => {
                let found = if said.is_some() { "another word" } else { action.kind() };
                self.findings.error(&action.origin, path, format!("expected \"allow\", \"ask\" or \"deny\", found {found}"));
                return Vec::new();
            }
        };
        if verdict == Verdict::Allow && !self.source.is_trusted() {
            self.findings.ignore(&self.source.shown, &format!("{path} (allow)"), action);
            return Vec::new();
        }
        match key.patterns(pattern, verdict, &Anchors::of_project(self.roots)) {
            Ok(patterns) => {
                let never = patterns.iter().find_map(|pattern| path_pattern::never_matches(&key.key, pattern));
                // Another program may read more out of a pattern than we do.
                if let Some(words) = never.filter(|_| !self.source.is_neighbour()) {
                    self.findings.warn(origin, path, words);
                }
                patterns.iter().map(|pattern| make(&key.key, pattern, verdict, self.roots.home, &origin.to_string())).collect()
            }
            Err(error) => {
                self.findings.error(origin, path, error.words());
                Vec::new()
            }
        }
    }
}

/// A rule with `~` and `$HOME` made the home folder; a tool's name means the key it is judged by.
pub(crate) fn make(key: &str, pattern: &str, action: Verdict, home: &Path, origin: &str) -> Rule {
    let read = Rules::from_config(&json!({ key: { pattern: "ask" } }), &home.to_string_lossy(), "");
    let pattern = read.ok().and_then(|mut rules| rules.0.pop()).map_or_else(|| pattern.to_owned(), |rule| rule.pattern);
    Rule { key: key_of(key).to_owned(), pattern, action, origin: origin.to_owned() }
}

/// What can never apply because a later rule covers it.
#[derive(Debug, Default)]
pub(crate) struct Dead {
    pub(crate) denies: Vec<Problem>,
    pub(crate) others: Vec<Problem>,
}

/// Comparing every pair is quadratic; nobody writes more by hand.
const COMPARED_RULES_MAX: usize = 500;

/// Only denies are looked for in all files together, so that long lists of allows cost little.
const COMPARED_DENIES_MAX: usize = 5_000;

/// A deny is looked for in everything the user wrote, flags too; other rules within one file, because a higher file
/// overrides on purpose.
pub(crate) fn dead_rules(layers: &[LayerRules]) -> Dead {
    let mut dead = Dead::default();
    let user: Vec<&Rule> = layers.iter().filter(|layer| layer.trusted).flat_map(|layer| &layer.rules).take(COMPARED_DENIES_MAX).collect();
    for (rule, by) in covered(&user, |rule| rule.action == Verdict::Deny).filter(|(_, by)| by.action != Verdict::Deny) {
        dead.denies.push(report(rule, by));
    }
    for layer in layers {
        let own: Vec<&Rule> = layer.rules.iter().take(COMPARED_RULES_MAX).collect();
        for (rule, by) in covered(&own, |_| true) {
            let lost_deny = rule.action == Verdict::Deny && by.action != Verdict::Deny;
            match (lost_deny, layer.trusted) {
                (true, true) => {}
                (true, false) => dead.denies.push(report(rule, by)),
                (false, _) => dead.others.push(report(rule, by)),
            }
        }
    }
    dead
}

fn covered<'a>(rules: &'a [&'a Rule], wanted: impl Fn(&Rule) -> bool) -> impl Iterator<Item = (&'a Rule, &'a Rule)> {
    rules.iter().enumerate().filter(move |(_, rule)| wanted(rule)).filter_map(|(at, rule)| {
        let by = rules[at + 1..].iter().find(|later| covers(&later.key, &rule.key) && covers(&later.pattern, &rule.pattern))?;
        Some((*rule, *by))
    })
}

fn report(rule: &Rule, by: &Rule) -> Problem {
    let verb = |action| match action {
        Verdict::Allow => "allow",
        Verdict::Ask => "ask",
        Verdict::Deny => "deny",
    };
    Problem {
        origin: Origin::new(&rule.origin, 0),
        key: crate::origin::plain(&format!("{}({})", rule.key, rule.pattern)),
        words: format!(
            "this {} can never apply: {}({}) at {} wins over it and says {}",
            verb(rule.action),
            by.key,
            by.pattern,
            by.origin,
            verb(by.action)
        ),
    }
}

/// Whether everything that `narrow` matches is matched by `broad`. Tried with stars that stand for nothing and for
/// more letters than `broad` has single-letter wildcards, none of which it can contain.
fn covers(broad: &str, narrow: &str) -> bool {
    // Almost every pair differs in its first letters, and this is looked at on every start.
    let fixed = broad.split(['*', '?', '\\', '/']).next().unwrap_or_default();
    if !narrow.starts_with(fixed.trim_end()) {
        return false;
    }
    let long = "\u{1}".repeat(broad.len() + 1);
    let bare = narrow.strip_suffix(" *");
    let samples = [narrow.replace('*', ""), narrow.replace('*', &long)].into_iter().chain(bare.map(str::to_owned));
    samples.map(|sample| sample.replace('?', "\u{2}")).all(|sample| wildcard(&sample, broad))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broader_pattern_covers_a_narrower_one() {
        let table = [
            ("*", "*", true),
            ("*", "rm *", true),
            ("rm*", "rm -rf *", true),
            ("rm -rf *", "rm*", false),
            ("git *", "git", true),
            ("git", "git *", false),
            ("?", "*", false),
            ("?*", "*", false),
            ("???", "a*", false),
            ("a?", "ab", true),
            ("ab", "a?", false),
            ("src/*", "src/a/*", true),
            ("*.env", "*.env.*", false),
            ("a\\*", "a/b", true),
            ("git diff*", "git log*", false),
        ];
        for (broad, narrow, expected) in table {
            assert_eq!(covers(broad, narrow), expected, "{broad} over {narrow}");
        }
    }
}
