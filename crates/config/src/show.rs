//! The effective configuration as rows for `config show`: key, value, where it was written.
//!
//! Secrets are never in a row. Where a value may hold one and we cannot know, the name of its key decides.

use posse_session::Verdict;
use serde_json::Value;

use crate::{
    config::Config,
    read::join,
    schema::TOP,
    tree::{Held, Node},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub key: String,
    pub value: String,
    /// `posse.json:4`, `built-in`, `--model`.
    pub origin: String,
}

const HIDDEN: &str = "***";

impl Config {
    /// In the order of the table of keys; rules in the order in which the last match wins.
    pub fn show(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for field in TOP {
            match field.name {
                "permission" => rows.extend(self.rule_rows()),
                // Its effect is the order of the rules.
                "permission_order" => {}
                name => {
                    if let Some(node) = self.tree.get(name) {
                        rows_of(node, name, &mut rows);
                    }
                }
            }
        }
        let later = self.later.iter().map(|later| Row {
            key: later.key.clone(),
            value: hidden(&later.key, &later.value).to_string(),
            origin: later.origin.to_string(),
        });
        rows.extend(later);
        rows
    }

    fn rule_rows(&self) -> impl Iterator<Item = Row> {
        self.rulebook().rules.0.into_iter().map(|rule| Row {
            key: format!("permission.{}.{}", rule.key, rule.pattern),
            value: match rule.action {
                Verdict::Allow => "allow",
                Verdict::Ask => "ask",
                Verdict::Deny => "deny",
            }
            .to_owned(),
            origin: rule.origin,
        })
    }
}

fn rows_of(node: &Node, path: &str, rows: &mut Vec<Row>) {
    let value = match &node.held {
        Held::Map(entries) if !entries.is_empty() => {
            for entry in entries {
                rows_of(&entry.node, &join(path, &entry.name), rows);
            }
            return;
        }
        Held::List(items) if !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                rows_of(item, &format!("{path}[{at}]"), rows);
            }
            return;
        }
        Held::Secret(_) => HIDDEN.to_owned(),
        Held::Missing(reason) => format!("(missing: {reason})"),
        Held::Text(text) => without_password(text),
        other => Node { origin: node.origin.clone(), held: other.clone() }.to_json().to_string(),
    };
    rows.push(Row { key: path.to_owned(), value, origin: node.origin.to_string() });
}

/// `https://user:password@host?key=secret` without what it keeps secret.
fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let host_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (user, rest) = rest[..host_end].rfind('@').map_or(("", rest), |at| (HIDDEN, &rest[at..]));
    match rest.split_once('?') {
        Some((address, _)) => format!("{scheme}://{user}{address}?{HIDDEN}"),
        None => format!("{scheme}://{user}{rest}"),
    }
}

/// The value with every text hidden that stands under a name that secrets stand under.
fn hidden(name: &str, value: &Value) -> Value {
    const TELLING: [&str; 9] = ["key", "token", "secret", "password", "auth", "headers", "env", "environment", "cookie"];
    let name = name.to_lowercase();
    let telling = TELLING.iter().any(|part| name.contains(part));
    match value {
        Value::Object(fields) => {
            // Everything inside `headers` and `env` stands under that name too.
            let name_of = |field: &String| if telling { name.clone() } else { field.clone() };
            Value::Object(fields.iter().map(|(field, value)| (field.clone(), hidden(&name_of(field), value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(|item| hidden(&name, item)).collect()),
        Value::String(_) | Value::Number(_) if telling => Value::String(HIDDEN.to_owned()),
        Value::String(text) => Value::String(without_password(text)),
        other => other.clone(),
    }
}
