//! Whether a JSON schema can be asked for strictly.
//!
//! A provider that follows a schema to the letter takes only a part of JSON Schema, and refuses the whole request for a
//! schema outside of it. Such a schema is still sent, but not as strict: the answer is checked anyway. Pure.

use serde_json::Value;

/// Deeper than the providers take, and shallow enough for any stack.
const DEPTH_MAX: usize = 10;

/// What a strict schema may be made of. A word outside of it is not followed by everyone, so it is not promised.
const KNOWN_WORDS: &[&str] = &[
    "$defs",
    "$ref",
    "$schema",
    "additionalProperties",
    "anyOf",
    "const",
    "definitions",
    "description",
    "enum",
    "items",
    "properties",
    "required",
    "title",
    "type",
];

/// Whether this is a whole object schema of which every field is required and nothing else is allowed, all the way down.
pub(crate) fn is_strict(schema: &Value) -> bool {
    schema["type"] == "object" && schema.get("anyOf").is_none() && Fields::AllRequired.fit(schema, DEPTH_MAX)
}

/// The same, but a field may be left out: so much Anthropic asks for.
pub(crate) fn is_closed(schema: &Value) -> bool {
    schema["type"] == "object" && schema.get("anyOf").is_none() && Fields::SomeRequired.fit(schema, DEPTH_MAX)
}

/// Which fields of an object must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fields {
    AllRequired,
    SomeRequired,
}

impl Fields {
    fn fit(self, schema: &Value, depth: usize) -> bool {
        let Some(words) = schema.as_object() else { return false };
        let Some(below) = depth.checked_sub(1) else { return false };
        let is_known = words.keys().all(|word| KNOWN_WORDS.contains(&word.as_str()));
        let says_something = ["type", "anyOf", "$ref", "enum", "const"].iter().any(|word| words.contains_key(*word));
        let is_object = has_type(schema, "object") || words.contains_key("properties");
        let is_array = has_type(schema, "array");
        let mut parts = ["properties", "$defs", "definitions"].iter().filter_map(|word| words.get(*word)).flat_map(named);
        let choices_fit = words.get("anyOf").is_none_or(|choices| {
            choices.as_array().is_some_and(|choices| !choices.is_empty() && choices.iter().all(|choice| self.fit(choice, below)))
        });
        let items_fit = words.get("items").is_none_or(|items| self.fit(items, below));
        is_known
            && says_something
            && parts.all(|part| self.fit(part, below))
            && choices_fit
            && items_fit
            && (!is_object || self.close(schema))
            && (!is_array || words.contains_key("items"))
    }

    /// Names every field, requires those it must, and allows no other.
    fn close(self, schema: &Value) -> bool {
        let Some(fields) = schema["properties"].as_object() else { return false };
        let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        schema["additionalProperties"] == Value::Bool(false)
            && required.iter().all(|name| fields.contains_key(*name))
            && (self == Self::SomeRequired || fields.keys().all(|name| required.contains(&name.as_str())))
    }
}

/// `type` may be one name or a list of them.
fn has_type(schema: &Value, name: &str) -> bool {
    schema["type"] == name || schema["type"].as_array().is_some_and(|types| types.iter().any(|one| one == name))
}

/// The schemas in a map of them; what is no map has none, and is refused for it by the one that needs it.
fn named(map: &Value) -> impl Iterator<Item = &Value> {
    map.as_object().into_iter().flat_map(|map| map.values())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_closed_schema_is_strict_all_the_way_down() {
        let closed = |properties: Value, required: Value| json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
        let text = || json!({ "type": "string" });
        let rows = [
            ("one field", closed(json!({ "a": text() }), json!(["a"])), true),
            ("no field", closed(json!({}), json!([])), true),
            ("nullable", closed(json!({ "a": { "type": ["string", "null"], "description": "x" } }), json!(["a"])), true),
            ("a choice of words", closed(json!({ "a": { "enum": ["x", "y"] } }), json!(["a"])), true),
            (
                "a list of objects",
                closed(json!({ "a": { "type": "array", "items": closed(json!({ "b": text() }), json!(["b"])) } }), json!(["a"])),
                true,
            ),
            ("one of two", closed(json!({ "a": { "anyOf": [text(), { "type": "null" }] } }), json!(["a"])), true),
            (
                "a named part",
                json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/p" } }, "required": ["a"], "additionalProperties": false, "$defs": { "p": text() } }),
                true,
            ),
            ("an optional field", closed(json!({ "a": text(), "b": text() }), json!(["a"])), false),
            ("open to more", json!({ "type": "object", "properties": { "a": text() }, "required": ["a"] }), false),
            ("a required field that is not there", closed(json!({ "a": text() }), json!(["b"])), false),
            ("an open object below", closed(json!({ "a": { "type": "object" } }), json!(["a"])), false),
            ("a list of anything", closed(json!({ "a": { "type": "array" } }), json!(["a"])), false),
            ("anything at all", closed(json!({ "a": {} }), json!(["a"])), false),
            ("a word not everyone follows", closed(json!({ "a": { "type": "string", "pattern": "x" } }), json!(["a"])), false),
            ("a list at the root", json!({ "type": "array", "items": text() }), false),
            ("a choice at the root", json!({ "anyOf": [closed(json!({}), json!([]))] }), false),
            ("no schema", json!(true), false),
        ];
        for (name, schema, strict) in rows {
            assert_eq!(is_strict(&schema), strict, "{name}: {schema}");
            assert_eq!(is_closed(&schema), strict || name == "an optional field", "{name}: {schema}");
        }
    }

    #[test]
    fn an_endless_schema_is_not_strict_and_costs_no_stack() {
        let mut schema = json!({ "type": "string" });
        for _ in 0..100 {
            schema = json!({ "type": "object", "properties": { "a": schema }, "required": ["a"], "additionalProperties": false });
        }
        assert!(!is_strict(&schema));
    }
}
