//! Keys that are kept for later and do nothing yet: whoever writes one is told so.
//!
//! Silence would be a promise: who writes `sandbox` believes in a wall. Only our own files are looked at here; what a
//! neighbour has built is in its files for the neighbour.

use crate::{
    origin::{Findings, Origin},
    tree::{Entry, Held, Node},
};

/// What comes of each key today. `{}` and `[]` say nothing, so nothing is said of them.
const KEYS: [(&str, &str); 4] = [
    ("mcp", "not built yet, no MCP server is started"),
    ("hooks", "not built yet, none of them runs"),
    ("schedule", "not built yet, nothing starts by itself"),
    ("categories", "not built yet, tasks are started by agent"),
];

const SANDBOXES: [&str; 5] = ["auto", "off", "read-only", "workspace", "strict"];

/// Names a key that does nothing yet; an error where its value is none that it can have.
pub(crate) fn look(entry: &Entry, findings: &mut Findings) {
    if entry.name == "sandbox" {
        return sandbox(&entry.node, findings);
    }
    let Some((key, words)) = KEYS.iter().find(|(key, _)| *key == entry.name) else { return };
    match &entry.node.held {
        Held::Map(entries) if entries.is_empty() => {}
        Held::List(items) if *key == "schedule" && items.is_empty() => {}
        Held::Map(_) => findings.warn(&entry.origin, key, *words),
        Held::List(_) if *key == "schedule" => findings.warn(&entry.origin, key, *words),
        _ => findings.error(&entry.node.origin, key, format!("expected an object, found {}", entry.node.kind())),
    }
}

fn sandbox(node: &Node, findings: &mut Findings) {
    let (mode, key) = match &node.held {
        Held::Map(_) => (node.get("mode"), "sandbox.mode"),
        _ => (Some(node), "sandbox"),
    };
    let origin: &Origin = mode.map_or(&node.origin, |mode| &mode.origin);
    match mode.map(|mode| (mode, mode.text())) {
        Some((_, Some("off"))) => {}
        // Who wants nothing to run unguarded is not served by a warning.
        Some((_, Some("strict"))) => {
            let words = "not built yet, so commands would run without one; take it out, and narrow `permission.bash` or run posse \
                         in a container instead";
            findings.error(origin, key, words);
        }
        None => findings.warn(origin, "sandbox", NONE),
        Some((_, Some(mode))) if SANDBOXES.contains(&mode) => findings.warn(origin, "sandbox", NONE),
        Some((mode, said)) => {
            let found = if said.is_some() { "another word" } else { mode.kind() };
            let choices = SANDBOXES.map(|mode| format!("\"{mode}\"")).join(", ");
            findings.error(origin, key, format!("expected one of {choices}, found {found}"));
        }
    }
}

const NONE: &str = "not built yet, commands run without one";
