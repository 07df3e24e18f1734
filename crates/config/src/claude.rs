//! Claude's settings files: `permissions` as rules of ours, and what else of them concerns us.
//!
//! There a deny counts over an ask and an ask over an allow, whatever the order written, so the rules of a file are
//! made in that order and the last match wins. What a project may say is the same as in our own files. The paths in
//! rules are `claude_path.rs`.

use std::path::{Path, PathBuf};

use posse_session::{Rule, Verdict};

use crate::{
    claude_path::Anchors,
    layer::{Source, Standing},
    mode::PermissionMode,
    origin::{Findings, Origin},
    permission,
    places::{Places, tidy},
    rule_flag::split,
    rule_key::{KeyError, RuleKey},
    tree::{Entry, Held, Node},
};

/// What one file's `permissions` come to.
#[derive(Debug, Default)]
pub(crate) struct Permissions {
    pub(crate) rules: Vec<Rule>,
    /// `defaultMode`, in our spelling, as a key of ours.
    pub(crate) mode: Option<Entry>,
}

pub(crate) fn permissions(node: &Node, source: &Source, places: &Places, findings: &mut Findings) -> Permissions {
    let mut reader = Reader { source, places, anchors: anchors(source, places), findings };
    reader.permissions(node)
}

/// A path of a project's file may be meant from the file's folder or from where the user stands; one of the user's own
/// file from where the user stands or from the project's top.
fn anchors<'a>(source: &Source, places: &'a Places) -> Anchors<'a> {
    let (top, here) = match source.standing {
        Standing::User => (source.dir.clone(), [places.cwd.clone(), places.project.clone()]),
        Standing::Trusted | Standing::Project => (source.dir.clone(), [source.dir.clone(), places.cwd.clone()]),
    };
    let mut here = here.to_vec();
    here.dedup();
    Anchors { home: &places.home, project: &places.project, top, here }
}

const KEYS: [(&str, Verdict); 3] = [("allow", Verdict::Allow), ("ask", Verdict::Ask), ("deny", Verdict::Deny)];

/// Modes of Claude's that we do not have. `default` asks where they would decide by themselves.
const OTHER_MODES: [&str; 3] = ["auto", "dontAsk", "manual"];

/// What a call is given besides what it touches; rules about it are not read.
const PARAMETERS: [&str; 4] = ["model:", "isolation:", "run_in_background:", "subagent_type:"];

struct Reader<'a> {
    source: &'a Source,
    places: &'a Places,
    anchors: Anchors<'a>,
    findings: &'a mut Findings,
}

impl Reader<'_> {
    fn permissions(&mut self, node: &Node) -> Permissions {
        if !matches!(node.held, Held::Map(_)) {
            self.findings.error(&node.origin, "permissions", format!("expected an object, found {}", node.kind()));
            return Permissions::default();
        }
        let mut rules = Vec::new();
        if let Some(directories) = node.get("additionalDirectories") {
            rules.extend(self.directories(directories, node));
        }
        for (key, action) in KEYS {
            if let Some(list) = node.get(key) {
                rules.extend(self.rules(list, key, action, node));
            }
        }
        let mode = node.entries().iter().find(|entry| entry.name == "defaultMode").and_then(|entry| self.mode(entry));
        Permissions { rules, mode }
    }

    fn rules(&mut self, list: &Node, key: &str, action: Verdict, whole: &Node) -> Vec<Rule> {
        let path = format!("permissions.{key}");
        let mut rules = Vec::new();
        for (path, item, text) in self.texts(list, &path) {
            // Read even where it will not count: a broken list of rules is not guessed at.
            rules.extend(self.rule(text, action, &item.origin, &path));
        }
        if action == Verdict::Allow && !self.source.is_trusted() && !list.items().is_empty() {
            // A deny that is taken away widens an allow that stays, so trust is bound to all of it.
            self.findings.ignore(&self.source.shown, &path, whole);
            return Vec::new();
        }
        rules
    }

    fn rule(&mut self, text: &str, action: Verdict, origin: &Origin, path: &str) -> Vec<Rule> {
        let Some((name, pattern)) = split(text) else {
            self.findings.error(origin, path, "not a rule; expected something like `Edit`, `Read(./.env)` or `Bash(npm run:*)`");
            return Vec::new();
        };
        let Some(key) = self.key(name, action, origin, path) else { return Vec::new() };
        if matches!(key.key.as_str(), "bash" | "task") && PARAMETERS.iter().any(|parameter| pattern.starts_with(parameter)) {
            if action != Verdict::Allow {
                self.findings.warn(origin, path, "rules about a parameter are not read, so this one does nothing");
            }
            return Vec::new();
        }
        let patterns = match key.patterns(pattern, action, &self.anchors) {
            Ok(patterns) => patterns,
            Err(error) => {
                self.findings.error(origin, path, error.words());
                return Vec::new();
            }
        };
        // Who may not read a file may not change it either.
        let keys: &[&str] = if key.key == "read" && action == Verdict::Deny { &["read", "edit"] } else { &[&key.key] };
        let make = |key: &&str, pattern: &String| permission::make(key, pattern, action, &self.places.home, &origin.to_string());
        keys.iter().flat_map(|key| patterns.iter().map(move |pattern| make(key, pattern))).collect()
    }

    /// The key of a rule; nothing when there is none to protect, which is then among the findings.
    fn key(&mut self, name: &str, action: Verdict, origin: &Origin, path: &str) -> Option<RuleKey> {
        // `mcp__server` is all its tools.
        if let Some(server) = name.strip_prefix("mcp__") {
            // An allow for every server would be one for servers nobody has seen.
            if action == Verdict::Allow && server.split("__").next().is_none_or(|server| server.is_empty() || server.contains('*')) {
                self.findings.warn(origin, path, "an allow must name the server; left out");
                return None;
            }
            return Some(RuleKey::literal(&if server.contains("__") { name.to_owned() } else { format!("{name}__*") }));
        }
        match RuleKey::of(name) {
            Ok(key) => Some(key),
            // To allow what is not there widens nothing.
            Err(KeyError::Unknown { .. }) if action == Verdict::Allow => None,
            Err(error @ KeyError::Unknown { near: None }) => {
                self.findings.warn(origin, path, error.words());
                None
            }
            Err(error) => {
                self.findings.error(origin, path, error.words());
                None
            }
        }
    }

    fn directories(&mut self, list: &Node, whole: &Node) -> Vec<Rule> {
        let path = "permissions.additionalDirectories";
        let folders = self.texts(list, path);
        if !self.source.is_trusted() {
            if !list.items().is_empty() {
                self.findings.ignore(&self.source.shown, path, whole);
            }
            return Vec::new();
        }
        let base = if self.source.standing == Standing::User { &self.places.cwd } else { &self.source.dir };
        let rule = |(_, item, text): &(String, &Node, &str)| {
            let pattern = format!("{}/*", folder(text, base, &self.places.home).display().to_string().trim_end_matches('/'));
            permission::make("external_directory", &pattern, Verdict::Allow, &self.places.home, &item.origin.to_string())
        };
        folders.iter().map(rule).collect()
    }

    fn mode(&mut self, entry: &Entry) -> Option<Entry> {
        let path = "permissions.defaultMode";
        let Some(text) = entry.node.text() else {
            self.findings.error(&entry.node.origin, path, format!("expected a string, found {}", entry.node.kind()));
            return None;
        };
        if OTHER_MODES.contains(&text) {
            if self.source.is_trusted() {
                self.findings.warn(&entry.origin, path, "posse has no such mode; `default` counts");
            }
            return None;
        }
        match (text.parse(), self.source.standing) {
            (Err(_), _) => {
                let error = "expected \"default\", \"plan\", \"acceptEdits\" or \"bypassPermissions\"";
                self.findings.error(&entry.node.origin, path, error);
                None
            }
            (Ok(PermissionMode::Bypass), Standing::Project | Standing::Trusted) => {
                self.findings.never(&self.source.shown, &format!("{path} ({text})"));
                None
            }
            (Ok(_), Standing::Project) => {
                self.findings.ignore(&self.source.shown, path, &entry.node);
                None
            }
            (Ok(mode), _) => {
                let node = Node { origin: entry.node.origin.clone(), held: Held::Text(mode.to_string()) };
                Some(Entry { name: "permission_mode".to_owned(), origin: entry.origin.clone(), node })
            }
        }
    }

    /// The texts of a list with their paths; what is no text is an error.
    fn texts<'n>(&mut self, list: &'n Node, path: &str) -> Vec<(String, &'n Node, &'n str)> {
        if !matches!(list.held, Held::List(_)) {
            self.findings.error(&list.origin, path, format!("expected a list of strings, found {}", list.kind()));
            return Vec::new();
        }
        let mut texts = Vec::new();
        for (at, item) in list.items().iter().enumerate() {
            let path = format!("{path}[{at}]");
            match item.text() {
                Some(text) => texts.push((path, item, text)),
                None => self.findings.error(&item.origin, &path, format!("expected a string, found {}", item.kind())),
            }
        }
        texts
    }
}

fn folder(text: &str, base: &Path, home: &Path) -> PathBuf {
    match text.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/')) {
        Some(rest) => tidy(&home.join(rest.trim_start_matches('/'))),
        None => tidy(&base.join(text)),
    }
}
